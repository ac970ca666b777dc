#!/usr/bin/env python3
"""Write tests/golden/hub: logits of tiny models in the layout of Hugging Face, by transformers in float64.

A case is a config.json and what the weights are generated from (philox.py), so that the test writes the folder itself.
transformers reads such a folder too: what it computes is what its own reader makes of these files. Needs torch,
transformers and safetensors; a minute.

    python3 tests/golden/make_hub.py
"""

import json
import pathlib
import tempfile

import numpy as np
import safetensors.torch
import torch
import transformers

import goldens
import philox

OUT = pathlib.Path(__file__).resolve().parent / "hub"
VOCAB, WIDTH, HEADS, KV_HEADS, LAYERS, HIDDEN, CONTEXT, ROWS, WINDOW = 64, 32, 4, 2, 3, 48, 48, 18, 5
EPS = 1e-3  # large, so that an epsilon that is not read shows in the logits
USUAL = {
    "vocab_size": VOCAB,
    "hidden_size": WIDTH,
    "intermediate_size": HIDDEN,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "num_key_value_heads": KV_HEADS,
    "max_position_embeddings": CONTEXT,
    "rms_norm_eps": EPS,
    "tie_word_embeddings": False,
}
LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16,
}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16}


def old_rope(scaling, theta=10000.0):
    """As files of before version 5 say it."""
    return {"rope_theta": theta, "rope_scaling": scaling}


def new_rope(scaling, theta=10000.0):
    return {"rope_parameters": {"rope_theta": theta, **scaling}}


def types(windowed, period):
    return ["full_attention" if (i + 1) % period == 0 else "sliding_attention" for i in range(windowed)]


TEXT = {
    "vocab_size": VOCAB,
    "hidden_size": WIDTH,
    "intermediate_size": HIDDEN,
    "num_hidden_layers": LAYERS,
    "head_dim": 8,
    "sliding_window": WINDOW,
    "sliding_window_pattern": 2,
    "rope_scaling": {"rope_type": "linear", "factor": 8.0},
}
IMAGES = {
    "vision_config": {
        "model_type": "siglip_vision_model",
        "hidden_size": 16,
        "intermediate_size": 16,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "image_size": 8,
        "patch_size": 4,
    },
    "mm_tokens_per_image": 4,
    "boi_token_index": 5,
    "eoi_token_index": 6,
    "image_token_index": 7,
}

# name: (what differs from USUAL; None takes a key out), how the file is written. The first case of a family has all that
# it can have at once; the others are for `--all`.
CASES = {
    "llama": {"model_type": "llama", "attention_bias": True, "mlp_bias": True, "head_dim": 16, **new_rope(LLAMA3, 5e5)},
    "llama-plain": {"model_type": "llama", **old_rope(None)},
    "llama-tied": {"model_type": "llama", "tie_word_embeddings": True, "num_key_value_heads": 1},
    "llama-linear": {"model_type": "llama", **old_rope({"type": "linear", "factor": 2.0})},
    "llama-yarn": {"model_type": "llama", **old_rope(YARN)},
    "llama-yarn-mscale": {
        "model_type": "llama",
        **new_rope({**YARN, "mscale": 0.7, "mscale_all_dim": 0.5, "beta_fast": 16.0, "beta_slow": 2.0, "truncate": False}),
    },
    "llama-llama3": {"model_type": "llama", **old_rope(LLAMA3)},
    "llama-geglu": {"model_type": "llama", "hidden_act": "gelu_pytorch_tanh"},
    "mistral": {"model_type": "mistral", "head_dim": 16, "sliding_window": WINDOW, **old_rope(None, 1e6)},
    "mistral-full": {"model_type": "mistral", "sliding_window": None},
    "qwen2": {"model_type": "qwen2", "use_sliding_window": True, "sliding_window": WINDOW, "max_window_layers": 1},
    "qwen2-full": {
        "model_type": "qwen2",
        "use_sliding_window": False,
        "sliding_window": WINDOW,
        "max_window_layers": 1,
        "tie_word_embeddings": True,
    },
    "qwen3": {
        "model_type": "qwen3",
        "head_dim": 16,
        "attention_bias": True,
        "use_sliding_window": True,
        "sliding_window": WINDOW,
        "layer_types": types(LAYERS, 2),
    },
    "qwen3-plain": {"model_type": "qwen3", "head_dim": 16, "attention_bias": False},
    "gemma2": {
        "model_type": "gemma2",
        "head_dim": 16,
        "query_pre_attn_scalar": 12,
        "sliding_window": WINDOW,
        "attn_logit_softcapping": 2.0,
        "final_logit_softcapping": 3.0,
        "hidden_activation": "gelu_pytorch_tanh",
        "tie_word_embeddings": True,
    },
    "gemma2-plain": {
        "model_type": "gemma2",
        "head_dim": 16,
        "sliding_window": 4096,
        "attn_logit_softcapping": None,
        "final_logit_softcapping": None,
        "attention_bias": True,
        "tie_word_embeddings": True,
    },
    "gpt2": {"model_type": "gpt2", "n_inner": HIDDEN, "activation_function": "gelu_new"},
    "gpt2-plain": {"model_type": "gpt2", "n_inner": None, "activation_function": "gelu", "scale_attn_weights": False},
    "gemma3": {
        "model_type": "gemma3_text",
        "head_dim": 16,
        "query_pre_attn_scalar": 12,
        "sliding_window": WINDOW,
        "layer_types": types(LAYERS, 2),
        "tie_word_embeddings": True,
        "rope_parameters": {
            "full_attention": {"rope_type": "linear", "factor": 4.0, "rope_theta": 1e6},
            "sliding_attention": {"rope_type": "default", "rope_theta": 1e3},
        },
    },
    "gemma3-old": {
        "model_type": "gemma3_text",
        "head_dim": 16,
        "sliding_window": WINDOW,
        "sliding_window_pattern": 3,
        "attention_bias": True,
        "tie_word_embeddings": True,
        "final_logit_softcapping": 3.0,
        "rope_theta": 1e5,
        "rope_local_base_freq": 500.0,
        "rope_scaling": {"rope_type": "linear", "factor": 2.0},
    },
    "olmo2": {"model_type": "olmo2", "attention_bias": True, **new_rope(YARN, 5e5)},
    "olmo2-plain": {"model_type": "olmo2", "num_key_value_heads": HEADS, "tie_word_embeddings": True},
    "smollm3": {
        "model_type": "smollm3",
        "attention_bias": True,
        "mlp_bias": True,
        "no_rope_layer_interval": 2,
        "no_rope_layers": [1, 0, 1],
        "use_sliding_window": True,
        "sliding_window": WINDOW,
        "layer_types": types(LAYERS, 3),
        "tie_word_embeddings": True,
        **old_rope(None, 5e6),
    },
    "smollm3-plain": {"model_type": "smollm3", "no_rope_layers": [1, 1, 0], "tie_word_embeddings": True},
    "phi3": {
        "model_type": "phi3",
        "sliding_window": WINDOW,
        "original_max_position_embeddings": 16,
        "partial_rotary_factor": 0.5,
        **old_rope({"type": "longrope", "short_factor": [1.0, 1.5], "long_factor": [1.25, 3.0]}),
    },
    "phi3-short": {
        "model_type": "phi3",
        "original_max_position_embeddings": CONTEXT,
        **new_rope({"rope_type": "longrope", "short_factor": [1.0, 1.1, 1.5, 2.0], "long_factor": [1.0, 2.0, 3.0, 4.0]}),
    },
    "phi3-plain": {"model_type": "phi3", "num_key_value_heads": HEADS, **old_rope(None)},
    "starcoder2": {"model_type": "starcoder2", "sliding_window": WINDOW, "use_bias": True, **old_rope(None, 1e5)},
    "starcoder2-plain": {"model_type": "starcoder2", "use_bias": False, "tie_word_embeddings": False},
    "gptneox": {"model_type": "gpt_neox", "rotary_pct": 0.5, "rotary_emb_base": 5000},
    "gptneox-sequential": {
        "model_type": "gpt_neox",
        "use_parallel_residual": False,
        "attention_bias": False,
        "hidden_act": "gelu_new",
        **new_rope({"rope_type": "default", "partial_rotary_factor": 1.0}),
    },
    "falcon": {"model_type": "falcon", "new_decoder_architecture": True, "num_kv_heads": KV_HEADS, "bias": True},
    "falcon-7b": {"model_type": "falcon", "multi_query": True, "parallel_attn": True, **old_rope(None)},
    "falcon-11b": {
        "model_type": "falcon",
        "new_decoder_architecture": True,
        "num_kv_heads": KV_HEADS,
        "num_ln_in_parallel_attn": 1,
        "ffn_hidden_size": HIDDEN,
        "tie_word_embeddings": False,
    },
    "falcon-sequential": {"model_type": "falcon", "multi_query": False, "parallel_attn": False, "bias": True},
    "mixtral": {
        "model_type": "mixtral",
        "num_local_experts": 4,
        "num_experts_per_tok": 2,
        "sliding_window": WINDOW,
        "head_dim": 16,
        **old_rope(None, 1e5),
    },
    "mixtral-plain": {"model_type": "mixtral", "num_local_experts": 5, "num_experts_per_tok": 1},
    "qwen3moe": {
        "model_type": "qwen3_moe",
        "head_dim": 16,
        "attention_bias": True,
        "num_experts": 6,
        "num_experts_per_tok": 3,
        "moe_intermediate_size": 20,
        "norm_topk_prob": True,
        "decoder_sparse_step": 1,
        "mlp_only_layers": [],
        "use_sliding_window": True,
        "sliding_window": WINDOW,
        "max_window_layers": 1,  # has no effect
    },
    "qwen3moe-plain": {
        "model_type": "qwen3_moe",
        "head_dim": 16,
        "num_experts": 3,
        "num_experts_per_tok": 3,
        "moe_intermediate_size": 20,
        "norm_topk_prob": False,
        "tie_word_embeddings": True,
    },
    # A model that reads images as well. Its text_config leaves out what is as usual, as transformers writes it.
    "gemma3-images": {"model_type": "gemma3", **IMAGES, "text_config": {**TEXT, "model_type": "gemma3_text"}},
    "gemma3-images-renamed": {"model_type": "gemma3", **IMAGES, "text_config": {**TEXT, "query_pre_attn_scalar": 8}},
}
GPT2 = {
    "vocab_size": VOCAB,
    "n_positions": CONTEXT,
    "n_embd": WIDTH,
    "n_layer": LAYERS,
    "n_head": HEADS,
    "layer_norm_epsilon": EPS,
}
PLAIN = {  # what the others call as most do
    "vocab_size": VOCAB,
    "hidden_size": WIDTH,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "max_position_embeddings": CONTEXT,
}
BASES = {
    "gpt2": GPT2,
    "starcoder2": {**PLAIN, "intermediate_size": HIDDEN, "num_key_value_heads": KV_HEADS, "norm_epsilon": EPS},
    "gpt_neox": {**PLAIN, "intermediate_size": HIDDEN, "layer_norm_eps": EPS},
    "falcon": {**PLAIN, "layer_norm_epsilon": EPS},
    "gemma3": {},
}
PADDING = {"smollm3": 0, "phi3": 0}  # whose default is a token that a small vocabulary lacks
# How the file differs: the type of its elements (F32), the number of its files (1: no index), and whether names lack
# what the base model's begin with.
FILES = {
    "llama": {"type": "BF16", "shards": 3},
    "llama-plain": {"type": "F64"},
    "llama-tied": {"type": "F8_E4M3", "shards": 2},
    "llama-linear": {"type": "F8_E5M2"},
    "mistral": {"type": "F16"},
    "falcon": {"type": "BF16", "shards": 2},
    "gptneox": {"type": "F16"},
    "mixtral": {"type": "BF16", "shards": 3},
    "qwen3moe": {"type": "F16"},
    "phi3": {"type": "BF16"},
    "gpt2": {"type": "F16", "base": "transformer."},
    "gpt2-plain": {"type": "F64"},
    "gemma3-images": {"type": "BF16", "shards": 2},
}
# How files of transformers 4.52 to 4.57 call tensors, which others read too: what their names begin with.
RENAMED = {
    "gemma3-images-renamed": {
        "language_model.model.": "model.language_model.",
        "vision_tower.": "model.vision_tower.",
        "multi_modal_projector.": "model.multi_modal_projector.",
    }
}
FLOAT8 = {"F8_E4M3": torch.float8_e4m3fn, "F8_E5M2": torch.float8_e5m2}
TYPES = {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16, **FLOAT8}


def config_of(name):
    changes = CASES[name]
    config = dict(BASES.get(changes["model_type"], USUAL))
    config.update(changes, bos_token_id=1, eos_token_id=[2, 3], pad_token_id=PADDING.get(changes["model_type"]))
    return {key: value for key, value in config.items() if value is not None or key in changes}


def generated(seed, index, name, shape):
    """Bound and offset of a tensor's elements: unit variance in, about unit variance out."""
    norm = "norm" in name or "ln_" in name or "layernorm" in name
    if len(shape) == 1:
        return 0.125, 1.0 if norm and name.endswith("weight") else 0.0
    if "embed" in name or "wte" in name or "wpe" in name:
        return 1.0, 0.0
    return 0.25, 0.0


def make(number, name):
    config, how = config_of(name), FILES.get(name, {})
    kind, seed = TYPES[how.get("type", "F32")], 1000 + number
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        (folder / "config.json").write_text(json.dumps(config))
        parsed = transformers.AutoConfig.from_pretrained(folder)
        transformers.AutoModelForCausalLM.from_config(parsed).save_pretrained(folder)
        saved = safetensors.torch.load_file(folder / "model.safetensors")
        for now, then in RENAMED.get(name, {}).items():
            saved = {then + key.removeprefix(now) if key.startswith(now) else key: value for key, value in saved.items()}
        (folder / "config.json").write_text(json.dumps(config))
        tensors, values = [], {}
        for index, tensor in enumerate(sorted(saved)):
            shape = list(saved[tensor].shape)
            bound, offset = generated(seed, index, tensor, shape)
            if config["model_type"].startswith("gemma") and offset:
                offset = 0.0  # 1 is added where they are used
            tensors.append([tensor, shape, bound, offset])
            exact = torch.from_numpy(philox.uniform(seed, index, shape, bound, offset)).to(kind)
            values[tensor] = exact.to(torch.float64)
        safetensors.torch.save_file(values, folder / "model.safetensors", metadata={"format": "pt"})
        model = transformers.AutoModelForCausalLM.from_pretrained(
            folder, dtype=torch.float64, attn_implementation="eager", experts_implementation="eager"
        ).eval()
        ids = np.random.default_rng(seed).integers(4, VOCAB, ROWS).astype(np.int32)
        with torch.no_grad():
            logits = model(torch.from_numpy(ids)[None].long()).logits[0]
    assert logits.dtype == torch.float64
    case = {"name": name, "seed": seed, "config": config, "tensors": tensors}
    return {**case, "type": "F32", "shards": 1, "base": "", **how}, ids, logits.numpy()


def main():
    OUT.mkdir(exist_ok=True)
    files = {}
    for number, name in enumerate(CASES):
        case, ids, logits = make(number, name)
        arrays, cases = files.setdefault(name.split("-")[0], ({}, []))
        arrays[f"{name}/ids"] = ids
        arrays[f"{name}/logits"] = logits
        cases.append(case)
    for family, (arrays, cases) in files.items():
        goldens.save(OUT / f"{family}.safetensors", arrays, "models", cases)


main()
