"""Do files of one library use each other, directly or around? The symbols of their objects say so.

usage: test_circles.py BUILD

A circle that is listed here is one that is still to be opened. One that is not listed fails, and so does a listed one
that is gone: then it leaves the list."""

import pathlib
import re
import subprocess
import sys

# Of each circle, its first file in the order of the alphabet.
OPEN = {
    "core/graph/build.c": "the table of operations names the rules, which build graphs of operations",
    "core/runtime/selftest.c": "the self-test reopens a device of the session that asks for it",
    "core/text/tokenizer.c": "the kinds of tokenizer share the list of pieces",
    "core/train/checkpoint.c": "the trainer, its checkpoints, its ranks and its diagnosis share its stages",
    "core/cli/conformance.c": "the table of options names the function that reads them",
    "backends/cpu/node.c": "a node finds its operation, whose row names what reads nodes",
}


ROOT = pathlib.Path(__file__).resolve().parents[2]
# By the names that Meson makes of them.
SOURCES = {"_".join(path.relative_to(ROOT).parts): str(path.relative_to(ROOT))
           for part in ("core", "conformance", "backends") for path in (ROOT / part).rglob("*.c")}


def symbols(build, objects):
    """What each object defines and what it wants, by the path of its source."""
    defined, wanted = {}, {}
    printed = subprocess.run(["nm", "-A", *map(str, objects)], capture_output=True, text=True, check=True).stdout
    names = {str(path): source(build, path) for path in objects}
    for line in printed.splitlines():
        match = re.match(r"(.*\.o):[0-9a-f ]* ([A-Za-z]) (\S+)$", line)
        if match and match[2] == "U":
            wanted.setdefault(names[match[1]], set()).add(match[3])
        elif match and match[2].isupper():
            defined[match[3]] = names[match[1]]
    return {name: {defined[s]: s for s in sorted(wants) if s in defined and defined[s] != name}
            for name, wants in wanted.items()}


def source(build, path):
    """core/libportico_core.a.p/graph_build.c.o is core/graph/build.c."""
    folder = path.parent.parent.relative_to(build)
    name = "_".join((*folder.parts, path.name[:-2]))
    return SOURCES.get(name, str(folder / path.name[:-2]))


def circles(uses):
    """Strongly connected files (Tarjan 1972)."""
    number, low, stack, found = {}, {}, [], []

    def visit(file):
        number[file] = low[file] = len(number)
        stack.append(file)
        for other in uses.get(file, ()):
            if other not in number:
                visit(other)
            if other in stack:
                low[file] = min(low[file], low[other])
        if low[file] == number[file]:
            circle = stack[stack.index(file):]
            del stack[stack.index(file):]
            if len(circle) > 1:
                found.append(sorted(circle))

    for file in sorted(uses):
        if file not in number:
            visit(file)
    return found


def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    folders = {}
    for part in ("core", "conformance", "backends", "portico.p"):
        for path in (build / part).rglob("*.o"):
            folders.setdefault(path.parent, []).append(path)
    if not folders:
        sys.exit(f"{build}: no objects; build first")
    failures, seen = 0, set()
    for objects in folders.values():
        uses = symbols(build, objects)
        for circle in circles(uses):
            seen.add(circle[0])
            if circle[0] in OPEN:
                continue
            failures += 1
            print(f"a circle of {len(circle)} files:")
            for file in circle:
                print(*(f"  {file} uses {name} of {other}" for other, name in uses[file].items() if other in circle), sep="\n")
    for gone in sorted(set(OPEN) - seen):
        failures += 1
        print(f"the circle of {gone} is open: take it off the list")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
