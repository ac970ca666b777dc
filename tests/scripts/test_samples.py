"""Does README.md or a page of docs show what each command of portico prints? What is shown, scripts/check-docs keeps true.

    test_samples.py PORTICO"""

import importlib.machinery
import importlib.util
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.dont_write_bytecode = True  # no file beside the script
# Commands that are shown only with what not every machine has, and why.
NEEDING = {"chat": "models/dates was not taught to talk; scripts/test downloads a model that was"}
USED = re.compile(r"(?:^|[|;&]\s*)(?:\w+=\S+\s+)*portico ([a-z]+)")


def load():
    loader = importlib.machinery.SourceFileLoader("check_docs", str(ROOT / "scripts" / "check-docs"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("check_docs", loader))
    loader.exec_module(module)
    return module


def shown(pages, check_docs):
    """{command: does each of its samples need what not every machine has?} of those that are shown with output."""
    found = {}
    for sample in (sample for page in pages for sample in check_docs.commands(page)):
        if sample.fails or not any(line.strip() not in ("", "...") for line in sample.shown):
            continue
        needs = re.search(r"# needs |vulkan|opencl", sample.text) is not None
        for name in USED.findall(sample.text):
            found[name] = found.get(name, True) and needs
    return found


def main():
    said = subprocess.run([sys.argv[1], "help"], check=True, capture_output=True, text=True).stdout
    names = re.findall(r"(?m)^  ([a-z]+)  ", said[said.index("\ncommands:"):said.index("\n\n", said.index("\ncommands:"))])
    if len(names) < 10:
        sys.exit(f"`portico help` lists {len(names)} commands: {names}")
    found = shown([ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))], load())
    faults = []
    for name in names:  # without help, whose pages the documents refer to
        if name not in found:
            faults.append(f"no document shows what `portico {name}` prints; docs/commands.md is the place")
        elif found[name] and name not in NEEDING:
            faults.append(f"`portico {name}` is shown only with what not every machine has")
        elif name in NEEDING and not found[name]:
            faults.append(f"`portico {name}` has a sample for every machine: it needs no exception")
    print(*faults, f"{len(names)} commands, {len(faults)} faults", sep="\n")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
