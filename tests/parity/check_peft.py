#!/usr/bin/env python3
"""Do PEFT and Portico read each other's adapters?

    python3 tests/parity/check_peft.py PORTICO MODEL.gguf ADAPTER MADE

Merges ADAPTER, which Portico wrote, with PEFT and with `portico convert`, and compares all weights; then makes an adapter
with PEFT in the folder MADE, with random values, and does the same. Needs torch, transformers, gguf and peft.
"""

import pathlib
import subprocess
import sys
import tempfile

import peft
import torch
import transformers

# An element is w + sum over the rank of b a, once in f32 by PEFT: at most rank + 2 roundings of what is at most
# |w| + sum |b a|, and rank is at most 8; the scale rounds once more.
BOUND = 11 * 2**-24
# transformers makes w = d q + m of a block in f32 with two roundings, of d q and of the sum, each at most 3 times the
# largest |w| of the block; Portico with one.
BASE = 3 * 3 * 2**-24


def weights(path):
    path = pathlib.Path(path)
    return transformers.AutoModelForCausalLM.from_pretrained(path.parent, gguf_file=path.name, dtype=torch.float32)


def compare(portico, base, adapter):
    model = peft.PeftModel.from_pretrained(weights(base), adapter)
    sizes = {}
    for name, module in model.named_modules():
        if isinstance(module, peft.tuners.lora.Linear):
            scale = module.scaling["default"]
            product = module.lora_B["default"].weight.abs() @ module.lora_A["default"].weight.abs()
            sizes[name.removeprefix("base_model.model.") + ".weight"] = module.base_layer.weight.abs() + scale * product
    merged = model.merge_and_unload().state_dict()
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / f"{pathlib.Path(folder).name}.gguf"  # transformers looks in the current folder first
        subprocess.run([portico, "convert", base, out, "--adapter", adapter, "--type", "f32"], check=True,
                       stdout=subprocess.DEVNULL)
        ours = weights(out).state_dict()
    assert sizes and set(sizes) <= set(ours) and set(ours) == set(merged)
    worst = changed = 0
    for name, ours_ in ours.items():
        off = (ours_.double() - merged[name].double()).abs()
        base = BASE * merged[name].abs().max().double()
        if name in sizes:
            base = BASE * sizes[name].max().double() + BOUND * sizes[name].double()
            changed += 1
        worst = max(worst, (off / base).max().item())
    print(f"{adapter}: {changed} matrices, largest difference {worst:.3g} of the bound", file=sys.stderr)
    assert worst <= 1


def main():
    portico, base, adapter, made = sys.argv[1:]
    compare(portico, base, adapter)
    torch.manual_seed(0)
    config = peft.LoraConfig(r=8, lora_alpha=12, target_modules=["q_proj", "k_proj", "v_proj", "gate_proj"],
                             rank_pattern={"v_proj": 3}, use_rslora=True, task_type="CAUSAL_LM")
    model = peft.get_peft_model(weights(base), config)
    for name, parameter in model.named_parameters():
        if "lora_" in name:
            torch.nn.init.normal_(parameter, std=0.1)
    model.save_pretrained(made)
    compare(portico, base, made)


if __name__ == "__main__":
    main()
