#!/usr/bin/env python3
"""ct2_versions.py PORTICO FOLDER: models of CTranslate2 in all versions of model.bin from 3 to 6, against what CTranslate2
makes of them (tests/golden/make_ct2.py): the same tokens, and logarithms of probabilities within 1e-5, for CTranslate2
computes in float32 (the tolerance of ct2-aren's EXPECTED.md)."""

import json
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile

TOLERANCE = 1e-5
DEVICES = ("cpu:reference", "cpu:native", "vulkan:lavapipe")
SIZES = (4, 1, 2, 4, 2, 2)  # of elements, by the numbers of types


def variables(data):
    """(what stands in front, rank and shape, type, data) of each variable, and where those behind them begin."""
    at = 4 + 2 + struct.unpack_from("<H", data, 4)[0] + 4
    count = struct.unpack_from("<I", data, at)[0]
    at += 4
    head, found = data[4:at], []
    for _ in range(count):
        begin = at
        at += 2 + struct.unpack_from("<H", data, at)[0]
        at += 1 + 4 * data[at]
        kind, size = struct.unpack_from("<BI", data, at)
        found.append((data[begin:at], kind, data[at + 5 : at + 5 + size]))
        at += 5 + size
    return head, found, data[at:]


def as_version(data, version):
    """Version 3 says the size of an element and how many there are; 4 and 5 have the layout of 6."""
    if version > 3:
        return struct.pack("<I", version) + data[4:]
    head, found, rest = variables(data)
    parts = [name + struct.pack("<BI", SIZES[kind], len(values) // SIZES[kind]) + values for name, kind, values in found]
    return struct.pack("<I", version) + head + b"".join(parts) + rest


def run(portico, *arguments):
    return subprocess.run([portico, *map(str, arguments)], capture_output=True, check=False)


def wrong_answers(portico, model, device, answers):
    wrong, worst = 0, 0.0
    for answer in answers:
        count = len(answer["tokens"])
        done = run(portico, "run", model, "--device", device, "--prompt", answer["text"], "--max-tokens", max(count, 1),
                   "--json", "--logprobs", "14")
        if done.returncode:
            print(done.stderr.decode())
            return 1, worst
        tokens = json.loads(done.stdout)["tokens"][:count]
        wrong += [t["token"] for t in tokens] != answer["tokens"]
        pairs = [(t["logprob"], want) for t, want in zip(tokens, answer["log_probs"])]
        pairs += [(t["logprob"], answer["first"][t["token"]]) for t in tokens[0]["top"] if t["token"] in answer["first"]] \
            if tokens else []
        worst = max([worst] + [abs(got - want) for got, want in pairs])
    return wrong + (not worst <= TOLERANCE), worst


def main(portico, folder):
    folder, wrong, runs = pathlib.Path(folder), 0, 0
    models = json.loads((folder / "answers.json").read_text())["models"]
    first = ("run", folder / "pre", "--prompt", "a", "--max-tokens", "1", "--device")
    devices = [d for d in DEVICES if b"no device matches" not in run(portico, *first, d).stderr]
    with tempfile.TemporaryDirectory() as work:
        for name, answers in models.items():
            for version in (3, 4, 5, 6) if not name.startswith("float16") else (4, 5, 6):  # 3 takes them for int16
                model = pathlib.Path(work, f"{name}-{version}")
                shutil.copytree(folder / name, model)
                data = (folder / name / "model.bin").read_bytes()
                (model / "model.bin").write_bytes(as_version(data, version))
                for device in devices if version == 6 else devices[:1]:
                    bad, worst = wrong_answers(portico, model, device, answers)
                    print(f"  {name:10} version {version} on {device:16} largest difference {worst:.1e}, {bad} wrong")
                    wrong += bad
                    runs += 1
        # what is not read says so: a later version, a setting, a variable
        data = (folder / "pre" / "model.bin").read_bytes()
        for change, says in ((struct.pack("<I", 7) + data[4:], b"version 2 to 6"),
                             (data.replace(b"decoder/alibi\0\0\1\1\0\0\0\0", b"decoder/alibi\0\0\1\1\0\0\0\1"), b"'decoder.alibi' is 1"),
                             (data.replace(b"ffn/linear_1", b"ffn/linear_7"), b"linear_7"),
                             (data[:-3], b"cut off or damaged")):
            model = pathlib.Path(work, "changed")
            shutil.copytree(folder / "pre", model, dirs_exist_ok=True)
            (model / "model.bin").write_bytes(change)
            done = run(portico, "run", model, "--prompt", "abc")
            if done.returncode != 1 or says not in done.stderr:
                print(f"  not refused by {says}: {done.stderr}")
                wrong += 1
    print(f"{runs} runs, {wrong} wrong")
    return wrong > 0 or runs < 15


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
