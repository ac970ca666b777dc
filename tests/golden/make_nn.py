#!/usr/bin/env python3
"""Write tests/golden/nn.safetensors: blocks as PyTorch and transformers have them, in float64: weights and inputs, results,
and the gradients of sum(result * factor). Needs torch and transformers; some seconds.

    python3 tests/golden/make_nn.py

The tensors of a case: "CASE.m.NAME" (weights, float32, under the names that portico/nn.h has), "CASE/x" and
"CASE/memory" (float32), "CASE/lengths" (int32, valid rows of each sequence of the source), "CASE/factor" (float32),
"CASE/y" and "CASE/gradient/NAME" (float64; also of x and memory).
"""

import pathlib

import numpy as np
import torch
import transformers

import goldens

OUT = pathlib.Path(__file__).resolve().parent / "nn.safetensors"
WIDTH, HEADS, HIDDEN, BATCH, ROWS, SOURCE = 8, 2, 12, 2, 5, 6
LENGTHS = [6, 4]
arrays = {}


def randomise(module):
    """Weights that float32 has exactly, and norms and biases that are no ones and zeros."""
    for parameter in module.parameters():
        parameter.data = (torch.randn(parameter.shape) * 0.4 + (parameter.data.mean() if parameter.dim() == 1 else 0)).double()
        parameter.data = parameter.data.float().double()
    return module.double().eval()


def source(rows):
    return torch.randn(BATCH, rows, WIDTH).double().requires_grad_()


def keep(case, module, inputs, y, rename=lambda name: name):
    for name, x in inputs.items():
        x.data = x.data.float().double()
    factor = torch.randn(y.shape).float()
    (y * factor.double()).sum().backward()
    if module is not None:
        for name, parameter in module.named_parameters():
            if parameter.grad is not None:
                arrays[f"{case}.m.{rename(name)}"] = parameter.detach().float().numpy()
                arrays[f"{case}/gradient/{rename(name)}"] = parameter.grad.numpy()
    for name, x in inputs.items():
        arrays[f"{case}/{name}"] = x.detach().float().numpy()
        arrays[f"{case}/gradient/{name}"] = x.grad.numpy()
    arrays[f"{case}/factor"] = factor.numpy()
    arrays[f"{case}/y"] = y.detach().numpy()


def exact(*tensors):
    for x in tensors:
        x.data = x.data.float().double()


def padding():
    arrays_of = torch.arange(SOURCE)[None, :] >= torch.tensor(LENGTHS)[:, None]
    return arrays_of  # True: hidden


def causal(rows):
    return torch.triu(torch.ones(rows, rows, dtype=torch.bool), 1)


def encoder_layer(case, **options):
    module = randomise(torch.nn.TransformerEncoderLayer(WIDTH, HEADS, HIDDEN, dropout=0, batch_first=True, **options))
    x = source(SOURCE)
    exact(x)
    arrays[f"{case}/lengths"] = np.array(LENGTHS, np.int32)
    keep(case, module, {"x": x}, module(x, src_key_padding_mask=padding()))


def decoder_layer(case, **options):
    module = randomise(torch.nn.TransformerDecoderLayer(WIDTH, HEADS, HIDDEN, dropout=0, batch_first=True, **options))
    x, memory = source(ROWS), source(SOURCE)
    exact(x, memory)
    arrays[f"{case}/lengths"] = np.array(LENGTHS, np.int32)
    y = module(x, memory, tgt_mask=causal(ROWS), memory_key_padding_mask=padding())
    keep(case, module, {"x": x, "memory": memory}, y)


def transformer(case):
    module = randomise(torch.nn.Transformer(WIDTH, HEADS, 2, 1, HIDDEN, dropout=0, batch_first=True, norm_first=True,
                                            activation="gelu"))
    x, memory = source(ROWS), source(SOURCE)
    exact(x, memory)
    arrays[f"{case}/lengths"] = np.array(LENGTHS, np.int32)
    y = module(memory, x, tgt_mask=causal(ROWS), src_key_padding_mask=padding(), memory_key_padding_mask=padding())
    keep(case, module, {"x": x, "memory": memory}, y)


def attention(case):
    """A mask of booleans instead of lengths."""
    module = randomise(torch.nn.MultiheadAttention(WIDTH, HEADS, batch_first=True))
    x = source(ROWS)
    exact(x)
    y = module(x, x, x, attn_mask=causal(ROWS), need_weights=False)[0]
    keep(case, module, {"x": x}, y)


def mistral(case):
    """RMS norms, RoPE, grouped queries, a window, SwiGLU; without biases."""
    names = {"self_attn.o_proj": "self_attn.out_proj", "mlp.": "", "input_layernorm": "norm1",
             "post_attention_layernorm": "norm2"}

    def rename(name):
        for old, new in names.items():
            name = name.replace(old, new)
        return name

    config = transformers.MistralConfig(vocab_size=4, hidden_size=WIDTH, intermediate_size=HIDDEN, num_hidden_layers=2,
                                        num_attention_heads=HEADS, num_key_value_heads=1, head_dim=4, sliding_window=3,
                                        rms_norm_eps=1e-5, rope_theta=10000.0, attn_implementation="eager")
    module = randomise(transformers.MistralModel(config))
    x = source(ROWS)
    exact(x)
    keep(case, module, {"x": x}, module(inputs_embeds=x, use_cache=False).last_hidden_state, rename)


def feed_forward(case, activation):
    module = torch.nn.Module()
    module.linear1, module.linear2 = torch.nn.Linear(WIDTH, HIDDEN), torch.nn.Linear(HIDDEN, WIDTH)
    randomise(module)
    x = source(ROWS)
    exact(x)
    keep(case, module, {"x": x}, module.linear2(activation(module.linear1(x))))


def embedding(case):
    """Token and learned positions, and a norm."""
    module = torch.nn.Module()
    module.tokens, module.positions = torch.nn.Embedding(11, WIDTH), torch.nn.Embedding(ROWS + 2, WIDTH)
    module.norm = torch.nn.LayerNorm(WIDTH)
    randomise(module)
    ids = torch.randint(0, 11, (BATCH, ROWS))
    arrays[f"{case}/ids"] = ids.numpy().astype(np.int32)
    keep(case, module, {}, module.norm(module.tokens(ids) + module.positions(torch.arange(ROWS))))


def cross_entropy(case):
    x = source(ROWS)
    exact(x)
    labels = torch.tensor([[1, 0, 7, -100, 3], [-100, 2, 2, 5, -100]])
    arrays[f"{case}/labels"] = labels.numpy().astype(np.int32)
    y = torch.nn.functional.cross_entropy(x.reshape(-1, WIDTH), labels.reshape(-1), label_smoothing=0.1)
    keep(case, None, {"x": x}, y.reshape(1))


torch.manual_seed(5)
encoder_layer("encoder_post")
encoder_layer("encoder_pre", norm_first=True, activation="gelu")
decoder_layer("decoder_post")
decoder_layer("decoder_pre", norm_first=True)
transformer("transformer")
attention("attention")
mistral("mistral")
feed_forward("ffn", torch.nn.functional.silu)
embedding("embedding")
cross_entropy("cross_entropy")
goldens.save(OUT, arrays, "tensors")
