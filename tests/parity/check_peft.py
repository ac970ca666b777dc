#!/usr/bin/env python3
"""Do PEFT and Portico read each other's adapters?

    python3 tests/parity/check_peft.py PORTICO MODEL ADAPTER MADE

Merges ADAPTER, which Portico wrote, with PEFT and with `portico convert`, and compares all weights; then makes an adapter
with PEFT in the folder MADE, with random values, and does the same; of a model with experts, one of these. MODEL is a GGUF
file or a folder. Needs torch, transformers, gguf and peft.
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
    if path.is_dir():
        return transformers.AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32)
    return transformers.AutoModelForCausalLM.from_pretrained(path.parent, gguf_file=path.name, dtype=torch.float32)


def compare(portico, base, adapter):
    model = peft.PeftModel.from_pretrained(weights(base), adapter)
    sizes = {}
    for name, module in model.named_modules():
        if isinstance(module, peft.tuners.lora.Linear):
            scale = module.scaling["default"]
            product = module.lora_B["default"].weight.abs() @ module.lora_A["default"].weight.abs()
            sizes[name.removeprefix("base_model.model.") + ".weight"] = module.base_layer.weight.abs() + scale * product
        if isinstance(module, peft.tuners.lora.layer.ParamWrapper):
            for half in ("A", "B"):
                getattr(module, f"lora_{half}")["default"].weight.data.abs_()
            name = name.removeprefix("base_model.model.").removesuffix(".base_layer")
            sizes[f"{name}.{module.parameter_name}"] = module.get_param().abs() + module.get_delta_weight("default").detach()
    if any(isinstance(module, peft.tuners.lora.layer.ParamWrapper) for module in model.modules()):
        model = peft.PeftModel.from_pretrained(weights(base), adapter)  # again, with its signs
    merged = model.merge_and_unload().state_dict()
    with tempfile.TemporaryDirectory() as folder:
        ends = "" if pathlib.Path(base).is_dir() else ".gguf"
        out = pathlib.Path(folder) / f"{pathlib.Path(folder).name}{ends}"  # transformers looks in the current folder first
        subprocess.run([portico, "convert", base, out, "--adapter", adapter, "--type", "f32"], check=True,
                       stdout=subprocess.DEVNULL)
        ours = weights(out).state_dict()
    assert sizes and set(sizes) <= set(ours) and set(ours) == set(merged)
    assert not any(".experts." in name for name in ours) or any(".experts." in name for name in sizes)
    worst = changed = 0
    for name, ours_ in ours.items():
        off = (ours_.double() - merged[name].double()).abs()
        bound = BASE * merged[name].abs().max().double()
        if name in sizes:
            bound = BASE * sizes[name].max().double() + BOUND * sizes[name].double()
            changed += 1
        worst = max(worst, (off / bound).max().item())
    print(f"{adapter}: {changed} matrices, largest difference {worst:.3g} of the bound", file=sys.stderr)
    assert worst <= 1


def main():
    portico, base, adapter, made = sys.argv[1:]
    compare(portico, base, adapter)
    torch.manual_seed(0)
    plain = weights(base)
    if any(name.endswith("experts.down_proj") for name, _ in plain.named_parameters()):
        config = peft.LoraConfig(r=4, lora_alpha=12, target_modules=["q_proj"], alpha_pattern={"gate_up_proj": 5},
                                 target_parameters=["mlp.experts.gate_up_proj", "mlp.experts.down_proj"],
                                 task_type="CAUSAL_LM")
    else:
        config = peft.LoraConfig(r=8, lora_alpha=12, target_modules=["q_proj", "k_proj", "v_proj", "gate_proj"],
                                 rank_pattern={"v_proj": 3}, use_rslora=True, task_type="CAUSAL_LM")
    model = peft.get_peft_model(plain, config)
    for name, parameter in model.named_parameters():
        if "lora_" in name:
            torch.nn.init.normal_(parameter, std=0.1)
    model.save_pretrained(made)
    compare(portico, base, made)


if __name__ == "__main__":
    main()
