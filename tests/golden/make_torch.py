#!/usr/bin/env python3
"""Write tests/golden/torch: one state dict as torch.save writes it, as a zip archive and as it was before PyTorch 1.6.
test_torch.c knows what is in it. Needs torch.

    python3 tests/golden/make_torch.py
"""

import collections
import pathlib

import torch

OUT = pathlib.Path(__file__).resolve().parent / "torch"
base = torch.arange(12, dtype=torch.float32).reshape(3, 4)
state = collections.OrderedDict()
state["whole"] = base
state["rows"] = base[1:]
state["turned"] = base.t()
state["bfloat"] = torch.tensor([1.0, -2.5], dtype=torch.bfloat16)
state["half"] = torch.tensor([0.5], dtype=torch.float16)
state["long"] = torch.tensor([[7, -1]])
state["double"] = torch.tensor([0.1], dtype=torch.float64)
state["scalar"] = torch.tensor(3.0)
state["empty"] = torch.zeros(0, 4)
state["parameter"] = torch.nn.Parameter(torch.tensor([4.0, 5.0]))
state["flag"] = torch.tensor([True, False])
everything = {"model": state, "step": 1000, "rate": 1e-3, "note": "a text", "shape": [1, 2, (3, None, True)]}
OUT.mkdir(exist_ok=True)
torch.save(everything, OUT / "zip.pt")
torch.save(everything, OUT / "legacy.pt", _use_new_zipfile_serialization=False)
