#!/usr/bin/env python3
"""Write the golden files of this folder: float64 results, and the recipes for weights and inputs.

See README.md for the schema. There is no randomness besides the counter-based generator.
"""

import argparse
import math
import pathlib

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

import goldens
import philox
import transformer as ref

HERE = pathlib.Path(__file__).resolve().parent
UNIT = math.sqrt(3.0)  # uniform(-sqrt 3, sqrt 3) has variance 1


def range_of(name, shape):
    """(bound, offset) of a parameter, by its name: activations keep about unit variance."""
    if "norm" in name:
        return 0.1, 1.0 if name.endswith("weight") else 0.0
    if name.endswith("bias"):
        return 0.1, 0.0
    if name.endswith("shared.weight") or "embed_tokens" in name:
        return 1.0, 0.0
    return math.sqrt(3.0 / shape[-1]), 0.0


class Case:
    """One golden case while it is put together: tensors by recipe, stored inputs, outputs."""

    count = 0

    def __init__(self, name, kind, config=None, **attributes):
        Case.count += 1
        self.seed = Case.count
        self.recipe = {"name": name, "kind": kind, "seed": self.seed, **attributes}
        if config is not None:
            self.recipe["config"] = config
        self.recipe["tensors"] = []
        self.arrays = {}

    def tensor(self, name, shape, bound, offset=0.0):
        """float64 tensor holding the float32 values of the recipe that is added to the list."""
        bound, offset = float(np.float32(bound)), float(np.float32(offset))
        index = len(self.recipe["tensors"])
        self.recipe["tensors"].append({"name": name, "shape": list(shape), "bound": bound, "offset": offset})
        return torch.from_numpy(philox.uniform(self.seed, index, tuple(shape), bound, offset)).double()

    def fill(self, module, prefix=""):
        """Give every parameter of a module a recipe; returns the module in float64."""
        state = {}
        for name, value in module.state_dict().items():
            state[name] = self.tensor(prefix + name, value.shape, *range_of(prefix + name, value.shape))
        self.recipe["parameters"] = sum(value.numel() for value in state.values())
        module.double().load_state_dict(state)
        return module

    def store(self, name, value):
        array = value.numpy()
        self.arrays[f"{self.recipe['name']}/{name}"] = array if array.dtype == np.float64 else array.astype(np.int32)


class Group:
    """The cases of one file."""

    def __init__(self, file):
        self.file, self.cases = file, []

    def add(self, case):
        self.cases.append(case)

    def write(self, folder):
        arrays = {name: array for case in self.cases for name, array in case.arrays.items()}
        goldens.save(folder / self.file, arrays, "cases", [case.recipe for case in self.cases])


def same(a, b, tolerance=1e-12):
    """Assert that two float64 results agree."""
    assert torch.allclose(a, b, rtol=tolerance, atol=tolerance), (a - b).abs().max()


# Cross-checks against PyTorch's own modules.


def torch_layer(layer, cfg, side):
    """The nn.Transformer*Layer with the same weights, or None where PyTorch cannot express the layer."""
    expressible = (
        cfg["norm_type"] == "layer_norm"
        and cfg["norm_form"] == "var_eps"
        and cfg["activation_function"] in ("relu", "gelu")
        and cfg["position_embedding"] == "sinusoidal"
        and cfg["attention_bias"]
        and cfg["ffn_bias"]
    )
    if not expressible:
        return None
    kind = nn.TransformerDecoderLayer if side == "decoder" else nn.TransformerEncoderLayer
    twin = kind(
        cfg["d_model"],
        cfg[f"{side}_attention_heads"],
        cfg[f"{side}_ffn_dim"],
        dropout=0.0,
        activation=cfg["activation_function"],
        layer_norm_eps=cfg["norm_eps"],
        batch_first=True,
        norm_first=cfg["normalize_before"],
        dtype=torch.float64,
    )
    norms = ["self_attn_layer_norm", "encoder_attn_layer_norm", "final_layer_norm"]
    if side == "encoder":
        norms.pop(1)
    own, state = layer.state_dict(), {}
    for number, norm in enumerate(norms, 1):
        for part in ("weight", "bias"):
            state[f"norm{number}.{part}"] = own[f"{norm}.{part}"]
    for part in ("weight", "bias"):
        state[f"linear1.{part}"], state[f"linear2.{part}"] = own[f"fc1.{part}"], own[f"fc2.{part}"]
        for theirs, ours in (("self_attn", "self_attn"), ("multihead_attn", "encoder_attn")):
            if f"{ours}.out_proj.{part}" not in own:
                continue
            fused = f"{ours}.in_proj_{part}"
            parts = [own.get(f"{ours}.{x}_proj.{part}") for x in "qkv"]
            state[f"{theirs}.in_proj_{part}"] = own[fused] if fused in own else torch.cat(parts)
            state[f"{theirs}.out_proj.{part}"] = own[f"{ours}.out_proj.{part}"]
    twin.load_state_dict(state)
    return twin


def torch_run(twin, x, visible=None, is_causal=False, memory=None, memory_visible=None):
    """Run a twin with our kind of masks (true = visible) turned into PyTorch's (true = hidden)."""
    hidden = ~ref.causal(x.shape[1]) if is_causal else None
    if memory is None:
        return twin(x, src_mask=hidden, src_key_padding_mask=None if visible is None else ~visible)
    return twin(x, memory, tgt_mask=hidden, memory_key_padding_mask=~memory_visible)


def check_model(model, src, memory, logits, tgt):
    """Run a whole model on PyTorch's layers, where it can be expressed."""
    cfg = model.cfg
    visible = src != cfg["pad_token_id"]
    results = []
    for side, ids in (("encoder", src), ("decoder", tgt)):
        stack, x = getattr(model, side), model.embed(ids, side)
        for layer in stack.layers:
            twin = torch_layer(layer, cfg, side)
            if twin is None:
                return False
            if side == "encoder":
                x = torch_run(twin, x, visible)
            else:
                x = torch_run(twin, x, None, True, results[0], visible)
        if cfg["final_norm"]:
            own = stack.layer_norm
            x = F.layer_norm(x, (cfg["d_model"],), own.weight, own.bias, cfg["final_norm_eps"])
        results.append(x)
    head = model.table("decoder") if cfg["tie_word_embeddings"] else model.lm_head.weight
    same(results[0], memory)
    same(F.linear(results[1], head, getattr(model, "final_logits_bias", None)), logits)
    return True


def check_norms():
    """Each norm against PyTorch."""
    x = torch.from_numpy(philox.uniform(0, 99, (3, 64), UNIT)).double()
    w = torch.from_numpy(philox.uniform(0, 98, (64,), 0.1, 1.0)).double()
    forms = (("var_eps", "layer_norm", 1e-5), ("std_eps", "layer_norm", 1e-6), ("var_eps", "rms_norm", 1e-6))
    for form, kind, eps in forms:
        norm = ref.Norm({"norm_form": form, "norm_type": kind, "norm_eps": eps, "d_model": 64}).double()
        norm.weight.data = w
        if kind == "rms_norm":
            want = F.rms_norm(x, (64,), w, eps)
        elif form == "var_eps":
            want = F.layer_norm(x, (64,), w, norm.bias, eps)
        else:
            want = w * (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + eps)
        same(norm(x), want)


def check_positions():
    """Rotary embedding as complex multiplication; sinusoids entry by entry."""
    x = torch.from_numpy(philox.uniform(0, 97, (1, 2, 5, 8), UNIT)).double()
    for interleaved in (False, True):
        pairs = (x[..., 0::2], x[..., 1::2]) if interleaved else (x[..., :4], x[..., 4:])
        got = ref.rotate(x, 500.0, interleaved, 3)
        got = (got[..., 0::2], got[..., 1::2]) if interleaved else (got[..., :4], got[..., 4:])
        angle = torch.tensor([[(3 + t) * 500.0 ** (-2 * i / 8) for i in range(4)] for t in range(5)]).double()
        turned = torch.complex(*pairs) * torch.polar(torch.ones_like(angle), angle)
        same(torch.complex(*got), turned, 1e-6)
    table = ref.sinusoidal_table(7, 12, offset=2)
    half = ref.sinusoidal_table(7, 12, "half", 2)
    for t in range(7):
        for i in range(6):
            angle = (t + 2) / 10000.0 ** (2 * i / 12)
            assert abs(table[t, 2 * i] - math.sin(angle)) < 1e-12
            assert abs(table[t, 2 * i + 1] - math.cos(angle)) < 1e-12
            angle = (t + 2) / 10000.0 ** (i / 5)
            assert abs(half[t, i] - math.sin(angle)) < 1e-12 and abs(half[t, 6 + i] - math.cos(angle)) < 1e-12


def check_attention(block, x, memory, visible, output):
    """One attention block against F.scaled_dot_product_attention."""
    q, k, v = block.project(x, memory)
    if block.rope:
        q, k = ref.rotate(q, *block.rope), ref.rotate(k, *block.rope)
    mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=visible)
    same(block.out_proj(mixed.transpose(1, 2).flatten(-2)), output)


# Kinds of case. Each returns a finished Case.


def config_of(d_model=512, heads=8, hidden=2048, **fields):
    """Config of a single layer."""
    return ref.complete(
        {
            "d_model": d_model,
            "encoder_layers": 1,
            "decoder_layers": 1,
            "encoder_attention_heads": heads,
            "decoder_attention_heads": heads,
            "encoder_ffn_dim": hidden,
            "decoder_ffn_dim": hidden,
            **fields,
        }
    )


def visibility(case, name, lengths, width):
    """Store a padding mask (1 = visible) for rows of the given lengths; returns it as booleans."""
    mask = torch.arange(width)[None, :] < torch.tensor(lengths)[:, None]
    case.store(name, mask)
    return mask


def part_case(name, kind, shape, cfg, causal=False):
    """A norm, an FFN with or without norm and residual, or a bare self-attention of an encoder layer."""
    case = Case(name, kind, cfg, causal=causal)
    layer, prefix = ref.Layer(cfg, "encoder"), "encoder.layers.0."
    wanted = {
        "norm": ("final_layer_norm.",),
        "ffn": ("fc", "gate", "up", "down"),
        "norm_ffn_residual": ("fc", "gate", "up", "down", "final_layer_norm."),
        "attention": ("self_attn.",),
    }[kind]
    state = {}
    for key, value in layer.state_dict().items():
        if key.startswith(wanted):
            state[key] = case.tensor(prefix + key, value.shape, *range_of(key, value.shape))
    case.recipe["parameters"] = sum(value.numel() for value in state.values())
    layer.double().load_state_dict(state, strict=False)
    x = case.tensor("input", shape, UNIT)
    block = lambda t: ref.ffn(layer, cfg["activation_function"], t)  # noqa: E731
    if kind == "norm":
        y = layer.final_layer_norm(x)
        case.recipe["output_mean"], case.recipe["output_std"] = y.mean().item(), y.std().item()
    elif kind == "ffn":
        y = block(x)
    elif kind == "norm_ffn_residual":
        y = layer.residual(x, layer.final_layer_norm, block)
    else:
        visible = ref.causal(shape[1]) if causal else None
        y = layer.self_attn(x, x, visible)
        check_attention(layer.self_attn, x, x, visible, y)
    case.store("output", y)
    return case


def encoder_layer_case(name, cfg, shape=(2, 10, 512), causal=False, lengths=None):
    case = Case(name, "encoder_layer", cfg, causal=causal)
    layer = case.fill(ref.Layer(cfg, "encoder"), "encoder.layers.0.")
    x = case.tensor("input", shape, UNIT)
    visible = visibility(case, "visible", lengths, shape[1]) if lengths else None
    mask = ref.causal(shape[1]) if causal else None
    if visible is not None:
        mask = visible[:, None, None, :] if mask is None else mask & visible[:, None, None, :]
    y = layer(x, mask)
    twin = torch_layer(layer, cfg, "encoder")
    if twin is not None:
        same(torch_run(twin, x, visible, causal), y)
    case.store("output", y)
    return case


def decoder_layer_case(name, cfg, shape, memory_length, lengths):
    case = Case(name, "decoder_layer", cfg, causal=True)
    layer = case.fill(ref.Layer(cfg, "decoder"), "decoder.layers.0.")
    x = case.tensor("input", shape, UNIT)
    memory = case.tensor("memory", (shape[0], memory_length, shape[2]), UNIT)
    visible = visibility(case, "memory_visible", lengths, memory_length)
    y = layer(x, ref.causal(shape[1]), memory, visible[:, None, None, :])
    twin = torch_layer(layer, cfg, "decoder")
    if twin is not None:
        same(torch_run(twin, x, None, True, memory, visible), y)
    case.store("output", y)
    return case


def tokens(case, index, lengths, width, vocab):
    """Token ids 3 .. vocab - 1 from the generator, zero (padding) past each length."""
    draw = philox.uniform(case.seed, index, (len(lengths), width), 0.5, 0.5)
    ids = 3 + torch.from_numpy((draw.astype(np.float64) * (vocab - 3)).astype(np.int64)).clamp(max=vocab - 4)
    return ids * (torch.arange(width)[None, :] < torch.tensor(lengths)[:, None])


def seq2seq_case(name, config):
    """A whole model: source and target ids in, encoder output and logits out."""
    cfg = ref.complete(config)
    case = Case(name, "seq2seq", cfg)
    model = case.fill(ref.Transformer(cfg))
    src = tokens(case, 1000, (9, 6, 3), 9, cfg["encoder_vocab_size"])
    tgt = tokens(case, 1001, (7, 7, 7), 7, cfg["decoder_vocab_size"])
    tgt[:, 0] = cfg["decoder_start_token_id"]
    memory, visible = model.encode(src)
    logits = model.decode(tgt, memory, visible)
    checked = check_model(model, src, memory, logits, tgt)
    single = model.float()(src, tgt).double()
    rms = logits.square().mean(-1, keepdim=True).sqrt()
    error = ((single - logits).abs() / (1e-5 * (logits.abs() + rms))).max()
    print(f"  {name}: float32 error / 1e-5 bound {error:.2f}{', equals nn.Transformer*Layer' if checked else ''}")
    for key, value in (("src", src), ("tgt", tgt), ("memory", memory), ("logits", logits)):
        case.store(key, value)
    return case


# The files.


def notebook_000(group):
    gelu = {"activation_function": "gelu", "normalize_before": True}
    swiglu = {"activation_function": "swiglu", "ffn_bias": False, "normalize_before": True}
    rms = {"norm_type": "rms_norm", "norm_eps": 1e-6}
    group.add(part_case("layer_norm", "norm", (1, 10, 512), config_of()))
    group.add(part_case("rms_norm", "norm", (1, 10, 512), config_of(**rms)))
    group.add(part_case("ffn_gelu", "ffn", (1, 10, 512), config_of(**gelu)))
    group.add(part_case("ffn_swiglu", "ffn", (1, 10, 512), config_of(**swiglu)))
    fused = {"activation_function": "swiglu", "fused_gate_up": True, "normalize_before": True}
    blocks = (
        ("relu", 2048, {"activation_function": "relu", "normalize_before": True}),
        ("gelu", 2048, gelu),
        ("gelu_tanh", 2048, {**gelu, "activation_function": "gelu_tanh"}),
        ("swiglu", 2048, swiglu),
        ("swiglu_fused", 2048 * 2 // 3, fused),
    )
    for name, hidden, fields in blocks:
        for norm, extra in (("layer_norm", {}), ("rms_norm", rms)):
            cfg = config_of(hidden=hidden, **fields, **extra)
            group.add(part_case(f"residual_{name}_{norm}", "norm_ffn_residual", (1, 10, 512), cfg))


def notebook_001(group):
    case = Case("activations", "activation")
    x = case.tensor("input", (1000,), 5.0)
    tanh_form = F.gelu(x, approximate="tanh")
    for name, y in (("relu", F.relu(x)), ("gelu", F.gelu(x)), ("gelu_tanh", tanh_form), ("silu", F.silu(x))):
        case.store(name, y)
    group.add(case)
    blocks = (
        ("relu", 512, {"activation_function": "relu"}),
        ("gelu", 512, {"activation_function": "gelu"}),
        ("swiglu_fused", 512 * 2 // 3, {"activation_function": "swiglu", "fused_gate_up": True}),
    )
    for name, hidden, fields in blocks:
        group.add(part_case(f"ffn_{name}", "ffn", (2, 10, 128), config_of(128, 8, hidden, **fields)))
    for norm in ("layer_norm", "rms_norm"):
        cfg = config_of(128, 8, 512, norm_type=norm, norm_eps=1e-6)
        group.add(part_case(norm, "norm", (2, 10, 128), cfg))


def notebook_002(group):
    for name, fields in (
        ("sinusoidal", {}),
        ("sinusoidal_last_of_4096", {"position_offset": 4080}),
        ("sinusoidal_half", {"position_offset": 1, "sinusoidal_layout": "half"}),
    ):
        cfg = config_of(max_position_embeddings=4096, **fields)
        case = Case(name, "positions", cfg)
        x = case.tensor("input", (1, 16, 512), UNIT)
        case.store("output", x + ref.sinusoidal_table(16, 512, cfg["sinusoidal_layout"], cfg["position_offset"]))
        group.add(case)
    group.add(part_case("causal_attention", "attention", (2, 10, 512), config_of(), causal=True))
    block = {"normalize_before": True, "activation_function": "gelu"}
    group.add(encoder_layer_case("causal_block_gelu", config_of(**block), causal=True))
    swiglu = {"normalize_before": True, "activation_function": "swiglu", "ffn_bias": False}
    group.add(encoder_layer_case("causal_block_swiglu", config_of(hidden=1365, **swiglu), causal=True))
    for name, interleaved in (("half", False), ("interleaved", True)):
        cfg = config_of(64, 4, 256, position_embedding="rope", rope_interleaved=interleaved, **block)
        group.add(part_case(f"causal_attention_rope_{name}", "attention", (2, 24, 64), cfg, causal=True))
        group.add(encoder_layer_case(f"causal_block_rope_{name}", cfg, (2, 24, 64), causal=True))


def notebook_003(group):
    std = {"norm_form": "std_eps", "norm_eps": 1e-6, "normalize_before": True}
    group.add(part_case("std_eps_norm", "norm", (2, 10, 512), config_of(**std)))
    group.add(encoder_layer_case("encoder_layer", config_of(**std), lengths=(10, 6)))
    group.add(decoder_layer_case("decoder_layer", config_of(**std), (2, 10, 512), 12, (12, 7)))
    plain = {"normalize_before": True}
    group.add(encoder_layer_case("encoder_layer_var_eps", config_of(**plain), lengths=(10, 6)))
    group.add(decoder_layer_case("decoder_layer_var_eps", config_of(**plain), (2, 10, 512), 12, (12, 7)))
    group.add(decoder_layer_case("decoder_layer_post_norm", config_of(), (2, 10, 512), 12, (12, 7)))
    model = config_of(
        64, 4, 128, encoder_layers=2, decoder_layers=2, final_norm=True, share_embeddings=False,
        tie_word_embeddings=False, encoder_vocab_size=50, decoder_vocab_size=60, final_logits_bias=True,
    )
    mixed = {**std, "final_norm_form": "var_eps", "final_norm_eps": 1e-5}
    group.add(seq2seq_case("model_pre_norm_std_eps", {**model, **mixed}))
    group.add(seq2seq_case("model_post_norm", {**model, "final_norm": False}))


def notebook_004(group):
    modern = {"normalize_before": True, "activation_function": "gelu", "fused_qkv": True}
    group.add(encoder_layer_case("original_post_norm", config_of()))
    group.add(encoder_layer_case("modern_pre_norm", config_of(**modern)))
    assert all(case.recipe["parameters"] == 3152384 for case in group.cases)
    bare = config_of(**modern, attention_bias=False, ffn_bias=False)
    group.add(encoder_layer_case("modern_pre_norm_no_bias", bare))
    group.add(encoder_layer_case("original_post_norm_masked", config_of(), lengths=(10, 4)))


def seq2seq_matrix(group):
    base = {
        "vocab_size": 40, "d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
        "decoder_attention_heads": 4, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64, "max_position_embeddings": 32,
    }
    pre = {"normalize_before": True, "final_norm": True, "activation_function": "gelu"}
    apart = {"share_embeddings": False, "encoder_vocab_size": 37, "decoder_vocab_size": 40}
    rms = {"norm_type": "rms_norm", "norm_eps": 1e-6}
    variants = {
        "post_norm": {},
        "post_norm_final_norm": {"final_norm": True},
        "pre_norm": pre,
        "pre_norm_no_final_norm": {**pre, "final_norm": False},
        "gelu_tanh": {**pre, "activation_function": "gelu_tanh"},
        "rms_norm": {**pre, **rms},
        "swiglu": {**pre, "activation_function": "swiglu"},
        "swiglu_fused": {"activation_function": "swiglu", "fused_gate_up": True},
        "no_bias": {**pre, "attention_bias": False, "ffn_bias": False},
        "fused_qkv": {**pre, "fused_qkv": True},
        "rope_half": {**pre, "position_embedding": "rope"},
        "rope_interleaved": {"position_embedding": "rope", "rope_interleaved": True, "rope_theta": 500.0},
        "untied": {**apart, "tie_word_embeddings": False, "final_logits_bias": True},
        "separate_embeddings_tied_head": {**pre, **apart},
        "shared_embeddings_own_head": {"tie_word_embeddings": False},
        "std_eps": {**pre, "norm_form": "std_eps", "norm_eps": 1e-6},
        "post_norm_std_eps": {"norm_form": "std_eps", "norm_eps": 1e-6},
        "sinusoidal_half": {"sinusoidal_layout": "half"},
        "position_offset": {**pre, "position_offset": 1},
        "scale_embedding": {"scale_embedding": True},
        "large_eps": {**pre, "norm_eps": 0.5},
        "uneven": {
            **pre, "encoder_layers": 3, "decoder_layers": 1, "encoder_attention_heads": 2,
            "decoder_attention_heads": 8, "encoder_ffn_dim": 48, "decoder_ffn_dim": 96,
        },
        "marian_like": {
            "scale_embedding": True, "final_logits_bias": True, "sinusoidal_layout": "half",
            "decoder_start_token_id": 0,
        },
        "ctranslate2_like": {
            **pre, **apart, "activation_function": "relu", "fused_qkv": True, "sinusoidal_layout": "half",
            "position_offset": 1, "scale_embedding": True, "tie_word_embeddings": False, "final_logits_bias": True,
        },
        "modern": {
            **pre, **apart, **rms, "activation_function": "swiglu", "fused_qkv": True, "attention_bias": False,
            "ffn_bias": False, "position_embedding": "rope", "tie_word_embeddings": False,
        },
    }
    for name, fields in variants.items():
        group.add(seq2seq_case(name, {**base, **fields}))


FILES = (notebook_000, notebook_001, notebook_002, notebook_003, notebook_004, seq2seq_matrix)


@torch.no_grad()
def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=pathlib.Path, default=HERE)
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    check_norms()
    check_positions()
    for number, build in enumerate(FILES):
        Case.count = 100 * number
        group = Group(f"{build.__name__}.safetensors")
        build(group)
        group.write(args.out)


if __name__ == "__main__":
    main()
