#!/usr/bin/env python3
"""Write tests/golden/training.safetensors: what PyTorch's optimisers make of a small network, in float64: its first values
and batches (float32), the losses of all batches, the norms of gradients and learning rates of all updates, and the
parameters at the end (float64). Needs torch.

    python3 tests/golden/make_training.py
"""

import pathlib

import numpy as np
import torch

import goldens

OUT = pathlib.Path(__file__).resolve().parent / "training.safetensors"
IN, HIDDEN, CLASSES, ROWS, UPDATES = 6, 8, 5, 7, 6
NAMES = ["linear1.weight", "linear1.bias", "linear2.weight", "linear2.bias"]
# eps is large, so that a gradient that is nearly 0 has no sign of its own in the first step
CASES = {
    "sgd": (1, 0, lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.05)),
    "nesterov": (1, 0.5, lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True)),
    "adam": (1, 0.7, lambda p: torch.optim.Adam(p, lr=0.05, betas=(0.8, 0.95), eps=1e-3, weight_decay=0.1)),
    "adamw": (1, 0, lambda p: torch.optim.AdamW(p, lr=0.05, betas=(0.8, 0.95), eps=1e-3, weight_decay=0.1)),
    "many": (3, 0.7, lambda p: torch.optim.AdamW(p, lr=0.05, eps=1e-3, weight_decay=0.0)),
}

arrays = {}
for case, (accumulation, most, make) in CASES.items():
    torch.manual_seed(3)
    parameters = [torch.randn(HIDDEN, IN), torch.randn(HIDDEN), torch.randn(CLASSES, HIDDEN), torch.randn(CLASSES)]
    parameters = [p.double().requires_grad_() for p in parameters]
    for name, p in zip(NAMES, parameters):
        arrays[f"{case}/first/{name}"] = p.detach().float().numpy()
    x = torch.randn(UPDATES * accumulation, ROWS, IN)
    labels = torch.randint(0, CLASSES, (UPDATES * accumulation, ROWS))
    arrays[f"{case}/x"], arrays[f"{case}/labels"] = x.numpy(), labels.numpy().astype(np.int32)
    optimiser = make(parameters)
    losses, norms = [], []
    for update in range(UPDATES):
        optimiser.zero_grad()
        for i in range(update * accumulation, (update + 1) * accumulation):
            hidden = torch.nn.functional.gelu(x[i].double() @ parameters[0].T + parameters[1])
            loss = torch.nn.functional.cross_entropy(hidden @ parameters[2].T + parameters[3], labels[i])
            (loss / accumulation).backward()
            losses.append(loss.item())
        norms.append(torch.nn.utils.clip_grad_norm_(parameters, most or float("inf")).item())
        optimiser.step()
    arrays[f"{case}/losses"], arrays[f"{case}/norms"] = np.array(losses), np.array(norms)
    for name, p in zip(NAMES, parameters):
        arrays[f"{case}/last/{name}"] = p.detach().numpy()
goldens.save(OUT, arrays, "tensors")
