#!/usr/bin/env python3
"""Write gradients.safetensors: PyTorch's float64 gradients for the cases of the other golden files.

Of each case the loss is sum(output * u), where u is tensor 2000 of the case's generator, uniform in [-1, 1); further
outputs, in the order of the alphabet, have 2001 and so on. Its gradient for each weight and each float input is kept at up to SAMPLES elements, spread evenly over the flat tensor,
beside the root mean square of the row that each one lies in. See README.md. Needs torch and numpy.
"""

import json
import pathlib
import struct

import numpy as np
import torch
import torch.nn.functional as F

import goldens
import philox
import transformer as ref

HERE = pathlib.Path(__file__).resolve().parent
SAMPLES = 24
FILES = ["notebook_000", "notebook_001", "notebook_002", "notebook_003", "notebook_004", "seq2seq_matrix"]
LAYER = {"encoder": "encoder.layers.0.", "decoder": "decoder.layers.0."}


def load(path):
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header, arrays = json.loads(data[8 : 8 + length]), {}
    for name, info in header.items():
        if name == "__metadata__":
            continue
        begin, end = (8 + length + at for at in info["data_offsets"])
        kind = {"F64": np.float64, "I32": np.int32}[info["dtype"]]
        arrays[name] = torch.from_numpy(np.frombuffer(data[begin:end], kind).reshape(info["shape"]).copy())
    return json.loads(header["__metadata__"]["cases"]), arrays


def leaves(case):
    """All tensors of the recipe in float64, ready to collect gradients."""
    made = {}
    for index, t in enumerate(case["tensors"]):
        value = philox.uniform(case["seed"], index, tuple(t["shape"]), t["bound"], t["offset"])
        made[t["name"]] = torch.from_numpy(value).double().requires_grad_()
    return made


def put(module, made, prefix):
    """The module with those tensors as its parameters: gradients reach them."""
    for name, _ in list(module.named_parameters()):
        owner = module
        *path, last = name.split(".")
        for part in path:
            owner = getattr(owner, part)
        if prefix + name in made:
            del owner._parameters[last]
            setattr(owner, last, made[prefix + name])
    return module


def run(case, made, stored):
    """The outputs whose weighted sum is the loss."""
    kind, cfg = case["kind"], case.get("config")
    x = made.get("input")
    if kind == "activation":
        return [F.gelu(x), F.gelu(x, approximate="tanh"), F.relu(x), F.silu(x)]
    if kind == "seq2seq":
        return [put(ref.Transformer(cfg).double(), made, "")(stored("src").long(), stored("tgt").long())]
    if kind == "positions":
        return [x + ref.sinusoidal_table(x.shape[1], x.shape[2], cfg["sinusoidal_layout"], cfg["position_offset"])]
    side = "decoder" if kind == "decoder_layer" else "encoder"
    layer = put(ref.Layer(cfg, side).double(), made, LAYER[side])
    block = lambda t: ref.ffn(layer, cfg["activation_function"], t)  # noqa: E731
    mask = ref.causal(x.shape[1]) if case["causal"] else None
    if kind == "norm":
        return [layer.final_layer_norm(x)]
    if kind == "ffn":
        return [block(x)]
    if kind == "norm_ffn_residual":
        return [layer.residual(x, layer.final_layer_norm, block)]
    if kind == "attention":
        return [layer.self_attn(x, x, mask)]
    if kind == "decoder_layer":
        return [layer(x, mask, made["memory"], stored("memory_visible").bool()[:, None, None, :])]
    visible = stored("visible")
    if visible is not None:
        visible = visible.bool()[:, None, None, :]
        mask = visible if mask is None else mask & visible
    return [layer(x, mask)]


def row_rms(name, cfg, made):
    """The root mean square of each row of a gradient. That for the keys' bias is 0 in exact arithmetic, as softmax
    does not see what is added to all scores of a row: there, that of the keys' weight, whose terms are as large."""
    gradient = made[name].grad
    rms = gradient.square().mean(-1, keepdim=True).sqrt().expand(gradient.shape).clone()
    weight = name[: -len("bias")] + "weight"
    if name.endswith("k_proj.bias"):
        rms = made[weight].grad.square().mean(-1).sqrt()
    if name.endswith("in_proj_bias"):
        d = cfg["d_model"]
        rms[d : 2 * d] = made[weight].grad.square().mean(-1).sqrt()[d : 2 * d]
    return rms


def gradients(file, case, stored):
    made = leaves(case)
    outputs = run(case, made, stored)
    loss = 0
    for number, y in enumerate(outputs):
        u = philox.uniform(case["seed"], 2000 + number, tuple(y.shape), 1.0)
        loss = loss + (y * torch.from_numpy(u).double()).sum()
    loss.backward()
    arrays = {}
    for name, tensor in made.items():
        if tensor.grad is None:
            continue
        rms, count = row_rms(name, case.get("config"), made).reshape(-1), tensor.numel()
        kept = min(count, SAMPLES)
        at = torch.tensor([k * count // kept for k in range(kept)])
        arrays[f"{file}/{case['name']}/{name}"] = torch.stack([tensor.grad.reshape(-1)[at], rms[at]]).numpy()
    return arrays


def main():
    arrays = {}
    for file in FILES:
        cases, stored = load(HERE / f"{file}.safetensors")
        for case in cases:
            arrays.update(gradients(file, case, lambda what, c=case: stored.get(f"{c['name']}/{what}")))
    goldens.save(HERE / "gradients.safetensors", arrays, "gradients")


if __name__ == "__main__":
    main()
