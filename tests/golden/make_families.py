#!/usr/bin/env python3
"""Write tests/golden/families: a tiny model of each family that is read from GGUF, with random weights, and its logits.

The logits are those of Hugging Face's transformers in float64 (which rounds to float32 in some norms, RoPE and
softmax). Names of tensors and keys are those of the gguf package. Needs torch, transformers, tokenizers and gguf;
half a minute.

    python3 tests/golden/make_families.py
"""

import json
import pathlib

import gguf
import numpy as np
import tokenizers
import torch
import transformers

import goldens

ROOT = pathlib.Path(__file__).resolve().parents[2]
OUT = ROOT / "tests" / "golden" / "families"
VOCAB, WIDTH, HEADS, KV_HEADS, LAYERS, HIDDEN, CONTEXT, ROWS = 288, 32, 4, 2, 2, 48, 40, 24
HEAD, WINDOW = WIDTH // HEADS, 7
WORDS = 64  # of models without a tokenizer
EPS = 1e-3  # large, so that an epsilon that is not read shows in the logits
END = "<|endoftext|>"
QWEN2_WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
TEXTS = [
    "The graph's nodes: 1024 of them, and they'LL run.\n\n  Next line\t\ttabs   ",
    "Ünïcode, 東京 and 𝛼𝛽; emoji 🙂!\r\n(x+y)*2 == z??? \n",
    "a  b   c    d's 12,345.678 " + END + " again",
]


def bpe(pre_tokenizer):
    """A byte-level BPE of VOCAB tokens, trained on the licence."""
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizer
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=VOCAB,
        special_tokens=[END],
        initial_alphabet=sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator((ROOT / "LICENSE").read_text().splitlines(), trainer)
    return tokenizer


def write_bpe(writer, tokenizer, pre):
    document = json.loads(tokenizer.to_str())["model"]
    tokens = sorted(document["vocab"], key=document["vocab"].get)
    end = document["vocab"][END]
    control, normal = gguf.TokenType.CONTROL, gguf.TokenType.NORMAL
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(pre)
    writer.add_token_list(tokens)
    writer.add_token_types([control if token == END else normal for token in tokens])
    writer.add_token_merges([" ".join(pair) for pair in document["merges"]])
    writer.add_bos_token_id(end)
    writer.add_eos_token_id(end)


def values_of(name, values):
    """Unit variance in, about unit variance out."""
    if values.ndim == 1:
        centre = 1.0 if "norm" in name or ".ln_" in name else 0.0
        return 0.1 * values + (centre if name.endswith("weight") else 0.0)
    return values if "emb" in name or ".wte" in name or ".wpe" in name else values / WIDTH**0.5


def split_heads(array, heads):
    """[heads][queries, key, value][HEAD] rows to all queries, all keys, all values."""
    groups = array.reshape(heads, -1, HEAD, *array.shape[1:])
    parts = groups[:, :-2], groups[:, -2:-1], groups[:, -1:]
    return np.concatenate([part.reshape(-1, *array.shape[1:]) for part in parts])


def pair_heads(array):
    """Rows of heads for RoPE on pairs half a head apart, to adjacent pairs."""
    return array.reshape(-1, 2, HEAD // 2, *array.shape[1:]).swapaxes(1, 2).reshape(array.shape)


def write_tensors(writer, arch, model, conv1d=False, norm_offset=0, grouped=0, paired=False):
    names = gguf.get_tensor_name_map(arch, model.config.num_hidden_layers)
    done = set()
    for name, value in model.state_dict().items():
        if name == "lm_head.weight" and model.config.tie_word_embeddings or ".experts." in name:
            continue
        found = names.get_name(name.removeprefix("transformer."), (".weight", ".bias")) or names.get_name(
            name, (".weight", ".bias")
        )
        array = value.numpy().astype(np.float32)
        if conv1d and array.ndim == 2 and ".h." in name:
            array = array.T  # transformers keeps GPT-2's matrices as [in, out]
        if "norm" in name:
            array = (value.numpy() + norm_offset).astype(np.float32)
        if grouped and "query_key_value" in name:
            array = split_heads(array, grouped)
        if paired and ("q_proj" in name or "k_proj" in name):
            array = pair_heads(array)
        assert found and found not in done, name
        done.add(found)
        writer.add_tensor(found, np.ascontiguousarray(array))


def write_experts(writer, model, kind=gguf.GGMLQuantizationType.F32):
    """The stacks of experts in that type, which the model then has the values of."""
    for name, parameter in model.named_parameters():
        if ".experts." not in name:
            continue
        layer = name.split(".")[2]
        split = ["gate", "up"] if "gate_up" in name else ["down"]
        stored = [gguf.quantize(part, kind) for part in np.split(parameter.detach().numpy().astype(np.float32), len(split), 1)]
        for part, array in zip(split, stored):
            writer.add_tensor(f"blk.{layer}.ffn_{part}_exps.weight", array, raw_dtype=kind)
        values = np.concatenate([gguf.dequantize(array, kind) for array in stored], 1)
        parameter.data = torch.from_numpy(values).double()
    writer.add_expert_count(model.config.num_local_experts)
    writer.add_expert_used_count(model.config.num_experts_per_tok)


def write_sizes(writer, config, kv_heads, hidden):
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(hidden)
    writer.add_head_count(HEADS)
    if kv_heads:
        writer.add_head_count_kv(kv_heads)


def gpt2(writer):
    config = transformers.GPT2Config(
        vocab_size=VOCAB,
        n_positions=CONTEXT,
        n_embd=WIDTH,
        n_layer=LAYERS,
        n_head=HEADS,
        n_inner=HIDDEN,
        bos_token_id=0,
        eos_token_id=0,
        layer_norm_epsilon=EPS,
        attn_implementation="eager",
    )
    model = transformers.GPT2LMHeadModel(config)
    goldens.random_weights(model, 1, values_of)
    write_sizes(writer, config, 0, HIDDEN)
    writer.add_layer_norm_eps(EPS)
    write_tensors(writer, gguf.MODEL_ARCH.GPT2, model, conv1d=True)
    tokenizer = bpe(tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False))
    write_bpe(writer, tokenizer, "gpt-2")
    return model, tokenizer


def qwen(writer, arch, seed, config_class, model_class, **options):
    config = config_class(
        vocab_size=VOCAB,
        hidden_size=WIDTH,
        intermediate_size=HIDDEN,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        num_key_value_heads=KV_HEADS,
        max_position_embeddings=CONTEXT,
        rms_norm_eps=EPS,
        rope_parameters={"rope_type": "default", "rope_theta": 1e6},
        attn_implementation="eager",
        **options,
    )
    model = model_class(config)
    goldens.random_weights(model, seed, values_of)
    write_sizes(writer, config, KV_HEADS, HIDDEN)
    writer.add_layer_norm_rms_eps(EPS)
    writer.add_rope_freq_base(1e6)
    write_tensors(writer, arch, model)
    return model


def qwen2(writer):
    model = qwen(
        writer,
        gguf.MODEL_ARCH.QWEN2,
        2,
        transformers.Qwen2Config,
        transformers.Qwen2ForCausalLM,
        tie_word_embeddings=False,
    )
    split = tokenizers.pre_tokenizers.Split(tokenizers.Regex(QWEN2_WORDS), "isolated")
    bytes_only = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer = bpe(tokenizers.pre_tokenizers.Sequence([split, bytes_only]))
    write_bpe(writer, tokenizer, "qwen2")
    return model, tokenizer


def qwen3(writer):
    writer.add_key_length(2 * HEAD)
    writer.add_value_length(2 * HEAD)
    return qwen(
        writer,
        gguf.MODEL_ARCH.QWEN3,
        4,
        transformers.Qwen3Config,
        transformers.Qwen3ForCausalLM,
        tie_word_embeddings=True,
        head_dim=2 * HEAD,
    ), None


def gemma2(writer, width=WIDTH, hidden=HIDDEN, layers=LAYERS, head=2 * HEAD, scale_of=2 * HEAD):
    config = transformers.Gemma2Config(
        vocab_size=VOCAB,
        hidden_size=width,
        intermediate_size=hidden,
        num_hidden_layers=layers,
        num_attention_heads=HEADS,
        num_key_value_heads=KV_HEADS,
        head_dim=head,
        query_pre_attn_scalar=scale_of,
        max_position_embeddings=CONTEXT,
        sliding_window=WINDOW,
        attn_logit_softcapping=2.0,  # low, so that they show in the logits
        final_logit_softcapping=3.0,
        rms_norm_eps=EPS,
        attn_implementation="eager",
    )
    model = transformers.Gemma2ForCausalLM(config)
    goldens.random_weights(model, 5, values_of)
    for name, parameter in model.named_parameters():
        if "norm" in name:
            parameter.data = parameter.data - 1  # transformers adds 1 where it uses them, GGUF has it added
    write_sizes(writer, config, KV_HEADS, hidden)
    writer.add_key_length(head)
    writer.add_value_length(head)
    writer.add_layer_norm_rms_eps(EPS)
    writer.add_attn_logit_softcapping(2.0)
    writer.add_final_logit_softcapping(3.0)
    writer.add_sliding_window(WINDOW)
    write_tensors(writer, gguf.MODEL_ARCH.GEMMA2, model, norm_offset=1)
    return model, None


def gemma2_27b(writer):
    """As many layers as the largest model, by which readers know that its scores have a scale of their own."""
    return gemma2(writer, width=8, hidden=4, layers=46, head=4, scale_of=8 // HEADS)


def plain(seed, kind, norm="rms", theta=1e4, hidden=HIDDEN, **options):
    """A model without a tokenizer, called by the name of its class in transformers, and how its GGUF begins."""
    model_class = getattr(transformers, kind + "ForCausalLM")
    eps = "rms_norm_eps" if norm == "rms" else norm
    sizes = {
        "vocab_size": WORDS,
        "hidden_size": WIDTH,
        "intermediate_size": hidden,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "num_key_value_heads": KV_HEADS,
        "max_position_embeddings": CONTEXT,
        "rope_parameters": {"rope_type": "default", "rope_theta": theta},
        "bos_token_id": 1,
        "eos_token_id": 2,
        "pad_token_id": 0,
        eps: EPS,
    }
    model = model_class(model_class.config_class(**{**sizes, **options}, attn_implementation="eager"))
    if "num_local_experts" in options:
        model.set_experts_implementation("eager")  # others take no float64
    goldens.random_weights(model, seed, values_of)

    def begin(writer, kv_heads=KV_HEADS):
        write_sizes(writer, model.config, kv_heads, hidden)
        (writer.add_layer_norm_rms_eps if norm == "rms" else writer.add_layer_norm_eps)(EPS)
        writer.add_rope_freq_base(theta)

    return model, begin


def olmo2(writer):
    model, begin = plain(6, "Olmo2")
    begin(writer)
    write_tensors(writer, gguf.MODEL_ARCH.OLMO2, model)
    return model, None


def smollm3(writer):
    """With six layers, so that there are some behind the first that does not rotate."""
    model, begin = plain(7, "SmolLM3", theta=2e6, hidden=24, num_hidden_layers=6, tie_word_embeddings=True)
    begin(writer)
    write_tensors(writer, gguf.MODEL_ARCH.SMOLLM3, model, paired=True)
    return model, None


def phi3(writer):
    model, begin = plain(8, "Phi3", sliding_window=WINDOW)
    begin(writer)
    writer.add_rope_dimension_count(HEAD)
    writer.add_sliding_window(WINDOW)
    write_tensors(writer, gguf.MODEL_ARCH.PHI3, model)
    return model, None


def phi3_long(writer):
    original, turned = 16, HEAD // 2
    factors = {"short": [1.0, 1.5], "long": [1.25, 3.0]}
    model, begin = plain(
        9,
        "Phi3",
        original_max_position_embeddings=original,
        rope_parameters={
            "rope_type": "longrope",
            "rope_theta": 1e4,
            "partial_rotary_factor": turned / HEAD,
            "original_max_position_embeddings": original,
            "short_factor": factors["short"],
            "long_factor": factors["long"],
        },
    )
    begin(writer)
    writer.add_rope_dimension_count(turned)
    writer.add_sliding_window(0)
    writer.add_rope_scaling_orig_ctx_len(original)
    writer.add_rope_scaling_attn_factors((1 + np.log(CONTEXT / original) / np.log(original)) ** 0.5)
    for name, values in factors.items():
        writer.add_tensor(f"rope_factors_{name}.weight", np.array(values, np.float32))
    write_tensors(writer, gguf.MODEL_ARCH.PHI3, model)
    return model, None


def starcoder2(writer):
    model, begin = plain(10, "Starcoder2", norm="norm_epsilon", theta=1e5, tie_word_embeddings=False)
    begin(writer)
    write_tensors(writer, gguf.MODEL_ARCH.STARCODER2, model)
    return model, None


def gptneox(writer, parallel=True):
    model, begin = plain(
        11 + parallel,
        "GPTNeoX",
        norm="layer_norm_eps",
        use_parallel_residual=parallel,
        rope_parameters={"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.5},
    )
    begin(writer, 0)
    writer.add_rope_dimension_count(HEAD // 2)
    writer.add_parallel_residual(parallel)
    write_tensors(writer, gguf.MODEL_ARCH.GPTNEOX, model, grouped=HEADS)
    return model, None


def gptneox_sequential(writer):
    return gptneox(writer, False)


def falcon(writer, grouped=False):
    """Those of 7B have one key head, those of 40B some and two norms."""
    heads = KV_HEADS if grouped else 1
    options = {"new_decoder_architecture": grouped, "num_kv_heads": heads, "tie_word_embeddings": grouped}
    model, begin = plain(13 + grouped, "Falcon", norm="layer_norm_epsilon", ffn_hidden_size=HIDDEN, **options)
    begin(writer, heads)
    write_tensors(writer, gguf.MODEL_ARCH.FALCON, model, grouped=heads)
    return model, None


def falcon_40b(writer):
    return falcon(writer, True)


def gemma3(writer):
    """With seven layers, so that one sees all keys, and one comes behind it."""
    layers, head = 7, 8
    model, begin = plain(
        15,
        "Gemma3",
        theta=1e6,
        hidden=20,
        hidden_size=16,
        num_hidden_layers=layers,
        head_dim=head,
        query_pre_attn_scalar=head,
        sliding_window=WINDOW,
        rope_parameters={
            "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e6},
            "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
        },
    )
    for name, parameter in model.named_parameters():
        if "norm" in name:
            parameter.data = parameter.data - 1
    begin(writer)
    writer.add_key_length(head)
    writer.add_value_length(head)
    writer.add_sliding_window(WINDOW)
    writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
    writer.add_rope_scaling_factor(8.0)
    write_tensors(writer, gguf.MODEL_ARCH.GEMMA3, model, norm_offset=1)
    return model, None


def mixtral(writer):
    """Its files say that they are Llamas. With experts in Q8_0."""
    model, begin = plain(16, "Mixtral", hidden=32, num_local_experts=4, num_experts_per_tok=2)
    begin(writer)
    write_experts(writer, model, gguf.GGMLQuantizationType.Q8_0)
    write_tensors(writer, gguf.MODEL_ARCH.LLAMA, model, paired=True)
    return model, None


def qwen3moe(writer):
    """With experts of a size that is not that of feed_forward_length."""
    size, options = 20, {"num_local_experts": 5, "num_experts_per_tok": 3, "norm_topk_prob": True}
    model, begin = plain(17, "Qwen3Moe", theta=1e6, head_dim=2 * HEAD, moe_intermediate_size=size, **options)
    begin(writer)
    writer.add_key_length(2 * HEAD)
    writer.add_value_length(2 * HEAD)
    writer.add_expert_feed_forward_length(size)
    write_experts(writer, model)
    write_tensors(writer, gguf.MODEL_ARCH.QWEN3MOE, model)
    return model, None


FAMILIES = {
    "gemma2": gemma2,
    "gemma2-27b": gemma2_27b,
    "gpt2": gpt2,
    "qwen2": qwen2,
    "qwen3": qwen3,
    "gemma3": gemma3,
    "olmo2": olmo2,
    "smollm3": smollm3,
    "phi3": phi3,
    "phi3-long": phi3_long,
    "starcoder2": starcoder2,
    "gptneox": gptneox,
    "gptneox-sequential": gptneox_sequential,
    "falcon": falcon,
    "falcon-40b": falcon_40b,
    "llama-mixtral": mixtral,
    "qwen3moe": qwen3moe,
}


def main():
    OUT.mkdir(exist_ok=True)
    for name, family in FAMILIES.items():
        writer = gguf.GGUFWriter(OUT / f"{name}.gguf", name.split("-")[0])
        model, tokenizer = family(writer)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        ids = np.random.default_rng(3).integers(0, model.config.vocab_size, ROWS).astype(np.int32)
        with torch.no_grad():
            logits = model.double().eval()(torch.from_numpy(ids)[None].long()).logits[0]
        assert logits.dtype == torch.float64
        texts = [{"text": text, "ids": tokenizer.encode(text).ids} for text in TEXTS] if tokenizer else []
        arrays, cases = {"ids": ids, "logits": logits.numpy()}, [{"name": name, "texts": texts}]
        goldens.save(OUT / f"{name}.safetensors", arrays, "models", cases)


main()
