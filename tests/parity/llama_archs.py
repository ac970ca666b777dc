#!/usr/bin/env python3
"""Models that llama.cpp makes of each architecture, with random weights: Portico's logits beside llama.cpp's.

    PYTHONPATH=build/python tests/parity/llama_archs.py ROOT [--devices DEVICE,...] [--only PATTERN] [--tokens N]

ROOT is a Debian root with llama.cpp-tests, libllama-dev and gcc, as made by
`debootstrap --include=llama.cpp-tests,libllama-dev,libggml-dev,gcc,libc6-dev sid ROOT http://deb.debian.org/debian`; its
test-llama-archs writes the models, and what computes llama.cpp's logits (llama_logits.c) is built in it. Needs root (chroot),
Python's numpy and gguf, and the package portico.

The models have each tensor that llama.cpp can use, also together as no model has them. What Portico refuses by name is left
out of the file, which both then read, and said here; factors of RoPE, which are random too, are made positive, Phi-3's query,
key and value become one tensor, as in its real files, and the tokenizer's kind, which is none, one that both know.

Exit status 1 where logits differ by more than TOLERANCE, 2 where an architecture that Portico has could not be compared.
`scripts/test --all` runs it on every device (check_llama in scripts/roots.sh)."""
import argparse
import fnmatch
import pathlib
import re
import shutil
import subprocess
import sys
import textwrap

import gguf
import numpy
import portico

HERE = pathlib.Path(__file__).resolve().parent
TOLERANCE = 1e-4  # of logits (MODELS_TOLERANCE in tests/models/models_test.h): |y - want| <= 1e-4 (|want| + rms of the row)
# ggml looks GELU up in a table of f16 for f16: 2^-12 of the value and of the argument each, of which the value may take 1.13
# times as much, in both layers: 2 * 2.13 * 2^-12.
TOLERANCES = dict.fromkeys(("falcon", "gemma2", "gemma3", "gpt2", "gptneox", "starcoder2"), 1.04e-3)
FACTORS = {"rope_freqs.weight", "rope_factors_short.weight", "rope_factors_long.weight"}
EDITS = {"tokenizer.ggml.model": "llama"}
# Windows of OLMo 3, which has OLMo 2's name in GGUF: Portico says that it does not run them.
WITHOUT = {"olmo2": {"olmo2.attention.sliding_window"}}
# Further files of a model, with other values of keys.
VARIANTS = {
    "llama-dense": {
        "yarn": {"llama.rope.scaling.type": "yarn", "llama.rope.scaling.factor": 4.0,
                 "llama.rope.scaling.original_context_length": 32, "llama.rope.freq_base": 1e6,
                 "llama.rope.freq_base_swa": 1e6},
        "yarn, amplitude": {"llama.rope.scaling.type": "yarn", "llama.rope.scaling.factor": 8.0,
                            "llama.rope.scaling.original_context_length": 32, "llama.rope.scaling.attn_factor": 0.75},
        "amplitude": {"llama.rope.scaling.attn_factor": 1.5},
        "linear": {"llama.rope.scaling.factor": 4.0},
    },
    "qwen2-dense": {"yarn": {"qwen2.rope.scaling.type": "yarn", "qwen2.rope.scaling.factor": 4.0,
                             "qwen2.rope.scaling.original_context_length": 64}},
    "gemma3-dense": {"all": {"gemma3.attention.sliding_window_pattern": [1, 1]}},
}


def prepare(root):
    """Makes the models and the program; returns the folder of the models."""
    work = root / "tmp" / "llama-archs"
    shutil.rmtree(work, ignore_errors=True)
    (work / "models").mkdir(parents=True)
    shutil.copy(HERE / "llama_logits.c", work)
    tests = next((root / "usr" / "libexec").glob("*/llama.cpp-tests/test-llama-archs"))
    for command in (["gcc", "-O1", "/tmp/llama-archs/llama_logits.c", "-o", "/tmp/llama-archs/llama_logits", "-lllama", "-lggml",
                     "-lggml-base"],
                    ["/" + str(tests.relative_to(root)), "-s", "1", "-o", "/tmp/llama-archs/models"]):
        done = subprocess.run(["chroot", root, *command], capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(f"llama_archs: {command[0]}: exit status {done.returncode}\n{done.stderr[-2000:]}")
    return work / "models"


def theirs(root, path, ids):
    inside = "/" + str(path.relative_to(root))
    done = subprocess.run(["chroot", root, "/tmp/llama-archs/llama_logits", inside, ",".join(map(str, ids))],
                          capture_output=True, check=False)
    if done.returncode:
        sys.exit(f"llama_archs: llama.cpp refuses {path.name}: {done.stderr.decode()[-1000:]}")
    return numpy.frombuffer(done.stdout, numpy.float32).reshape(len(ids), -1).astype(numpy.float64)


def tensors(reader, left_out):
    """The tensors that stay, as (name, data, type)."""
    kept = {}
    for tensor in reader.tensors:
        if re.sub(r"^blk\.\d+\.", "", tensor.name) in left_out:
            continue
        kept[tensor.name] = (1 + abs(tensor.data) if tensor.name in FACTORS else tensor.data, tensor.tensor_type)
    if reader.fields["general.architecture"].contents() == "phi3":
        for name in [name for name in kept if name.endswith("attn_q.weight")]:
            parts = [kept.pop(name.replace("attn_q", part)) for part in ("attn_q", "attn_k", "attn_v")]
            kept[name.replace("attn_q", "attn_qkv")] = (numpy.concatenate([part[0] for part in parts]), parts[0][1])
    return [(name, *rest) for name, rest in kept.items()]


def rewrite(source, out, left_out, more):
    """The file without tensors of these kinds, and with what `more` gives to keys."""
    reader = gguf.GGUFReader(source)
    architecture = reader.fields["general.architecture"].contents()
    writer = gguf.GGUFWriter(out, architecture)
    edits = {**EDITS, **more}
    for name, field in reader.fields.items():
        value = edits.pop(name, field.contents())
        # gguf cannot write an array without elements
        if name.startswith("GGUF.") or name == "general.architecture" or name in WITHOUT.get(architecture, ()) or value == []:
            continue
        kinds = field.types
        writer.add_key_value(name, value, kinds[0], kinds[-1] if len(kinds) > 1 else None)
    for name, value in edits.items():
        writer.add_key_value(name, value, gguf.GGUFValueType.get_type(value))
    for name, data, kind in tensors(reader, left_out):
        writer.add_tensor(name, data, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def runs(source, out, device, more):
    """Leaves out what Portico refuses, until it runs the file. Returns the model and what was left out, or the error."""
    left_out = []
    while True:
        rewrite(source, out, left_out, more)
        try:
            return portico.load(str(out), device=device), left_out
        except portico.Error as error:
            found = re.search(r"has a tensor '(?:blk\.\d+\.)?([^']+)', which", str(error))
            if not found or found.group(1) in left_out:
                return None, str(error)
            left_out.append(found.group(1))


def worst(got, want):
    """The largest difference, as TOLERANCE counts."""
    rms = numpy.sqrt((want * want).mean(axis=1, keepdims=True))
    return float((abs(got - want) / (abs(want) + rms)).max())


def compare(arguments, source, out, more, label):
    """Says what was found; returns how many devices agree, how many do not, and whether Portico has no such architecture."""
    ids = [(7 * i * i + 3 * i + 1) % 128 for i in range(arguments.tokens)]
    model, left_out = runs(source, out, arguments.devices[0], more)
    if model is None:
        if "is a model of architecture" in left_out:
            return 0, 0, 1
        print(f"{label}: NOT COMPARED: {left_out}")
        return 0, 0, 0
    want = theirs(arguments.root, out, ids)
    tolerance = TOLERANCES.get(source.stem.rsplit("-", 1)[0], TOLERANCE)
    agree = differ = 0
    for device in arguments.devices:
        if device != arguments.devices[0]:
            model = portico.load(str(out), device=device)
        found = worst(numpy.asarray(model.logits(ids), numpy.float64), want)
        model.close()
        fine = found <= tolerance
        agree, differ = agree + fine, differ + (not fine)
        print(f"{label:28} {device:18} {found:.2e} of {tolerance:.2e}{'' if fine else '  FAILED'}", flush=True)
    if left_out and not more:
        print(textwrap.fill(f"without {', '.join(left_out)}", 100, initial_indent=" " * 29, subsequent_indent=" " * 29))
    return agree, differ, 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root", type=lambda text: pathlib.Path(text).resolve())
    parser.add_argument("--devices", default=["cpu:native"], type=lambda text: text.split(","))
    parser.add_argument("--only", default="*")
    parser.add_argument("--tokens", type=int, default=48)
    arguments = parser.parse_args()
    models = prepare(arguments.root)
    agree = differ = others = missing = 0
    for source in sorted(models.glob("*.gguf")):
        if not fnmatch.fnmatch(source.stem, arguments.only):
            continue
        for name, more in {"": {}, **VARIANTS.get(source.stem, {})}.items():
            fine, wrong, other = compare(arguments, source, models.parent / "model.gguf", more,
                                         source.stem + (f" ({name})" if name else ""))
            agree, differ, others, missing = agree + fine, differ + wrong, others + other, missing + (not fine + wrong + other)
    print(f"\n{agree} agree, {differ} differ, {missing} not compared; models of architectures that Portico has not: {others}")
    print(f"{agree} passed, {differ + missing} failed, 0 skipped")
    return 1 if differ else 2 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
