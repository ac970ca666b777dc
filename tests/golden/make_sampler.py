#!/usr/bin/env python3
"""Writes tests/unit/sampler_golden.inc: what Hugging Face's logits processors leave of one row of logits, in double.

Presence and frequency penalties, which transformers has none of, are computed here: logit - frequency * n - presence.
Needs PyTorch and transformers: make_sampler.py > tests/unit/sampler_golden.inc
"""
import torch
from transformers.generation import logits_process as hf

N = 24
TEXT = [3, 7, 3, 11, 0, 7, 7, 19, 5, 3]  # the last 6 were generated
GENERATED = 6

# temperature, top_k, top_p, min_p, typical_p, repeat_penalty, presence, frequency, last n
CASES = [
    (1, 0, 1, 0.1, 0, 0, 0, 0, 0),
    (0.7, 0, 1, 0.02, 0, 0, 0, 0, 0),
    (1, 0, 1, 1, 0, 0, 0, 0, 0),
    (1, 0, 1, 0, 0.9, 0, 0, 0, 0),
    (1, 0, 1, 0, 0.2, 0, 0, 0, 0),
    (1.5, 0, 1, 0, 0.5, 0, 0, 0, 0),
    (1, 0, 1, 0, 0, 1.3, 0, 0, 0),
    (1, 0, 1, 0, 0, 0.8, 0, 0, 0),
    (1, 0, 1, 0, 0, 1.3, 0, 0, 4),
    (1, 0, 1, 0, 0, 0, 0.75, 0, 0),
    (1, 0, 1, 0, 0, 0, 0, 0.5, 0),
    (1, 0, 1, 0, 0, 0, -0.5, 0.25, 3),
    (0.8, 12, 0.95, 0.05, 0.9, 1.2, 0.3, 0.2, 8),
    (0.8, 10, 0.8, 0.01, 0.7, 1.1, 0, 0, 0),
]


def probabilities(logits, case):
    temperature, top_k, top_p, min_p, typical_p, repeat, presence, frequency, last = case
    window = TEXT[-last:] if last else TEXT
    generated = window[-GENERATED:]
    ids, scores = torch.tensor([window]), logits[None].clone()
    if repeat:
        scores = hf.RepetitionPenaltyLogitsProcessor(float(repeat))(ids, scores)
    for i in set(generated):
        scores[0, i] -= frequency * generated.count(i) + presence
    if temperature != 1:
        scores = hf.TemperatureLogitsWarper(float(temperature))(ids, scores)
    if top_k:
        scores = hf.TopKLogitsWarper(top_k)(ids, scores)
    if top_p < 1:
        scores = hf.TopPLogitsWarper(top_p)(ids, scores)
    if min_p:
        scores = hf.MinPLogitsWarper(min_p)(ids, scores)
    if typical_p:
        scores = hf.TypicalLogitsWarper(typical_p)(ids, scores)
    return scores.softmax(-1)[0]


def row(numbers):
    return "{" + ", ".join(f"{number:.17g}" for number in numbers) + "}"


torch.manual_seed(20)
logits = (2 * torch.randn(N, dtype=torch.float32)).double()
print("/* Made by tests/golden/make_sampler.py. */")
print(f"enum {{ GOLDEN_N = {N}, GOLDEN_TEXT = {len(TEXT)}, GOLDEN_GENERATED = {GENERATED} }};")
print(f"static const int32_t golden_text[GOLDEN_TEXT] = {row(TEXT)};")
print(f"static const double golden_logits[GOLDEN_N] = {row(logits.tolist())};")
print("static const struct {\n    pco_sampler sampler;\n    double probabilities[GOLDEN_N];\n} golden[] = {")
NAMES = ("temperature", "top_k", "top_p", "min_p", "typical_p", "repeat_penalty", "presence_penalty",
         "frequency_penalty", "repeat_last_n")
for case in CASES:
    print("    {{" + ", ".join(f".{name} = {value}" for name, value in zip(NAMES, case)) + "},")
    print("     " + row(probabilities(logits, case).tolist()) + "},")
print("};")
