"""Do files of one library use each other, directly or around? The symbols of their objects say so.

usage: test_circles.py BUILD"""

import pathlib
import re
import subprocess
import sys


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
    failures = 0
    for objects in folders.values():
        uses = symbols(build, objects)
        for circle in circles(uses):
            failures += 1
            print(f"a circle of {len(circle)} files:")
            for file in circle:
                print(*(f"  {file} uses {name} of {other}" for other, name in uses[file].items() if other in circle), sep="\n")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
