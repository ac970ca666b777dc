#!/usr/bin/env python3
"""Write tests/golden/smollm2.safetensors: what transformers makes of SmolLM2-135M-Instruct, in float64.

transformers reads the GGUF file itself, dequantises it and computes in float64, so nothing of Portico takes part. Needs
torch, transformers and gguf; a minute.

    python3 tests/golden/make_smollm2.py "$(scripts/fetch-models smollm2)"

    ids       I32 [64]        the text of the 64 positions
    logits    F32 [64, 256]   position p: those of the columns 192 k + 3 p + k % 3, k = 0 ... 255
    top_ids   I32 [64, 32]    the columns of the largest logits of each position
    top       F32 [64, 32]    and what they are
    rms       F64 [64]        root mean square of all 49152 logits of a position
    prompt    I32 [...]       a chat as the template writes it
    answer    I32 [24]        what follows, greedily
    paris     I32 [8]         what follows "The capital of France is", greedily

Why some of the logits suffice. What is special in a model lies before the last product: an error there is one of the
hidden state, which every column of that product reads, so that 256 columns show it as well as 49152 do. Of the product
itself one column in three is seen, at some position, all offsets in a tile among them, and at each position the columns
that decide what is written; beyond that it is an operation whose every element the conformance suite judges. F32 rounds
by at most 6e-8 of a logit, where the bound is 1e-4 of it and of the row's root mean square.
"""

import hashlib
import pathlib
import sys

import numpy as np
import torch
import transformers

import goldens

HASH, POSITIONS, TOP, STEP, ANSWER = "b179c9523d0e6a0f", 64, 32, 192, 24
TOLERANCE = 1e-4
TEXT = (
    "A lighthouse keeper writes down the weather every evening: wind, clouds, and how high the waves were at 6 o'clock. "
    "After 30 years there are 10,957 lines in his books. What could a scientist learn from them, and what would be "
    "missing? First of all, the sea changes slowly, while the"
)
PROMPT = (
    "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
    "<|im_start|>user\nWhy is the sea salty?<|im_end|>\n<|im_start|>assistant\n"
)


def greedy(model, ids, count):
    """`count` ids behind ids; the smallest lead of the best logit, over what two logits within the bound may differ by."""
    made, lead, past, new = [], float("inf"), None, ids
    for _ in range(count):
        step = model(torch.tensor([new]), past_key_values=past, use_cache=True, logits_to_keep=1)
        logits, past = step.logits[0, -1], step.past_key_values
        best = logits.topk(2)
        bound = TOLERANCE * (best.values.abs() + logits.square().mean().sqrt()).sum()
        lead = min(lead, float((best.values[0] - best.values[1]) / bound))
        made.append(int(best.indices[0]))
        new = made[-1:]
    return made, lead


def main(path):
    path = pathlib.Path(path)
    if not hashlib.sha256(path.read_bytes()).hexdigest().startswith(HASH):
        sys.exit(f"{path} is another file: its sha256 does not begin with {HASH}")
    tokenizer = transformers.AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name)
    model = transformers.AutoModelForCausalLM.from_pretrained(
        path.parent,
        gguf_file=path.name,
        dtype=torch.float64,
        attn_implementation="eager",
        quantization_config=transformers.GgufConfig(dequantize=True),
    ).eval()
    assert {type(m) for m in model.modules() if hasattr(m, "weight") and m.weight.dim() == 2} == {
        torch.nn.Linear,
        torch.nn.Embedding,
    } and all(p.dtype == torch.float64 for p in model.parameters())
    encode = lambda text: tokenizer(text, add_special_tokens=False).input_ids
    ids = encode(TEXT)[:POSITIONS]
    assert len(ids) == POSITIONS, len(ids)
    with torch.no_grad():
        logits = model(torch.tensor([ids])).logits[0]
        prompt = encode(PROMPT)
        answer, lead = greedy(model, prompt, ANSWER)
        paris, other = greedy(model, encode("The capital of France is"), 8)
    print(tokenizer.decode(answer), "|", tokenizer.decode(paris), "| lead / bound", lead, other)
    assert logits.dtype == torch.float64 and min(lead, other) > 1, "a tie: take another text"
    logits = logits.numpy()
    columns = np.array([[STEP * k + 3 * p + k % 3 for k in range(logits.shape[1] // STEP)] for p in range(POSITIONS)])
    best = np.argsort(-logits, axis=1, kind="stable")[:, :TOP]
    arrays = {
        "ids": np.array(ids, np.int32),
        "logits": np.take_along_axis(logits, columns, 1).astype(np.float32),
        "top_ids": best.astype(np.int32),
        "top": np.take_along_axis(logits, best, 1).astype(np.float32),
        "rms": np.sqrt((logits**2).mean(1)),
        "prompt": np.array(prompt, np.int32),
        "answer": np.array(answer, np.int32),
        "paris": np.array(paris, np.int32),
    }
    goldens.save(pathlib.Path(__file__).parent / "smollm2.safetensors", arrays, "tensors")


if __name__ == "__main__":
    main(*sys.argv[1:])
