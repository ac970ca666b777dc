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


def random_weights(model, seed):
    """Float32 values in a float64 model; unit variance in, about unit variance out."""
    random = np.random.default_rng(seed)
    for name, parameter in model.named_parameters():
        values = random.standard_normal(tuple(parameter.shape))
        if parameter.dim() == 1:
            centre = 1.0 if "norm" in name or ".ln_" in name else 0.0
            values = 0.1 * values + (centre if name.endswith("weight") else 0.0)
        elif "emb" not in name and ".wte" not in name and ".wpe" not in name:
            values /= WIDTH**0.5
        parameter.data = torch.from_numpy(values.astype(np.float32)).double()


def write_tensors(writer, arch, model, conv1d=False, norm_offset=0):
    names = gguf.get_tensor_name_map(arch, model.config.num_hidden_layers)
    done = set()
    for name, value in model.state_dict().items():
        if name == "lm_head.weight" and model.config.tie_word_embeddings:
            continue
        found = names.get_name(name.removeprefix("transformer."), (".weight", ".bias")) or names.get_name(
            name, (".weight", ".bias")
        )
        array = value.numpy().astype(np.float32)
        if conv1d and array.ndim == 2 and ".h." in name:
            array = array.T  # transformers keeps GPT-2's matrices as [in, out]
        if "norm" in name:
            array = (value.numpy() + norm_offset).astype(np.float32)
        assert found and found not in done, name
        done.add(found)
        writer.add_tensor(found, np.ascontiguousarray(array))


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
    random_weights(model, 1)
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
    random_weights(model, seed)
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
    random_weights(model, 5)
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


def main():
    OUT.mkdir(exist_ok=True)
    arrays, cases = {}, []
    families = {"gemma2": gemma2, "gemma2-27b": gemma2_27b, "gpt2": gpt2, "qwen2": qwen2, "qwen3": qwen3}
    for name, family in families.items():
        writer = gguf.GGUFWriter(OUT / f"{name}.gguf", name.split("-")[0])
        model, tokenizer = family(writer)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        ids = np.random.default_rng(3).integers(0, VOCAB, ROWS).astype(np.int32)
        with torch.no_grad():
            logits = model.double().eval()(torch.from_numpy(ids)[None].long()).logits[0]
        assert logits.dtype == torch.float64
        arrays[f"{name}/ids"] = ids
        arrays[f"{name}/logits"] = logits.numpy()
        texts = [{"text": text, "ids": tokenizer.encode(text).ids} for text in TEXTS] if tokenizer else []
        cases.append({"name": name, "texts": texts})
    goldens.save(OUT / "logits.safetensors", arrays, "models", cases)


main()
