"""Is a file under 800 lines and a function under 80, as CONTRIBUTING.md says?"""

import ast
import itertools
import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDERS = ["core", "backends", "conformance", "shaders", "python", "scripts", "examples", "tests"]
KINDS = {".c", ".h", ".py", ".kern", ".inc", ".cl", ".glsl", ".in", ".sh", ""}
SKIPPED = {"__pycache__", "compiled"}
MOST_OF_FILE, MOST_OF_FUNCTION, MOST_OF_FAMILY = 800, 80, 120


def files(folders):
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.is_file() and path.suffix in KINDS and not SKIPPED & set(path.parts):
                yield path


def c_functions(lines):
    """(name, lines) of what has its braces in column 0: clang-format puts those of functions there, and no others."""
    begin = None
    for i, line in enumerate(lines):
        if line == "{":
            begin = i
        elif line == "}" and begin is not None:
            first = begin
            while first and lines[first - 1] and not lines[first - 1].startswith(("}", "#", "/*", " *")):
                first -= 1
            yield lines[first], i - first + 1
            begin = None


def python_functions(text):
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node.name, node.end_lineno - node.lineno + 1


def shell_functions(lines):
    """(name, lines) of `name() {` to the brace in the same column."""
    for i, line in enumerate(lines):
        found = re.match(r"( *)([A-Za-z_]\w*)\(\) *[{(] *(#.*)?$", line)
        if found:
            ends = (found[1] + "}", found[1] + ")")
            yield found[2], next(j for j in range(i, len(lines)) if lines[j].startswith(ends)) - i + 1


def macros(lines):
    """(name, lines) of macros that go over several lines, as bodies of kernels are split into."""
    for i, line in enumerate(lines):
        found = re.match(r"# *define (\w+)", line)
        if found:
            yield found[1], next(j for j in range(i, len(lines)) if not lines[j].endswith("\\")) - i + 1


def functions(path, text):
    if path.suffix in (".c", ".h"):
        return c_functions(text.split("\n"))
    if path.suffix in (".kern", ".inc", ".cl", ".glsl"):
        return itertools.chain(c_functions(text.split("\n")), macros(text.split("\n")))
    if path.suffix == ".sh" or text.startswith(("#!/bin/bash", "#!/usr/bin/env bash", "#!/bin/sh")):
        return shell_functions(text.split("\n"))
    return python_functions(text) if path.suffix == ".py" or text.startswith("#!/usr/bin/env python3") else ()


class Lengths(unittest.TestCase):
    def test_files(self):
        for path in files(FOLDERS):
            lines = path.read_text(encoding="utf-8").count("\n")
            self.assertLessEqual(lines, MOST_OF_FILE, f"{path.relative_to(ROOT)} has {lines} lines")

    def test_functions(self):
        seen = 0
        for path in files(FOLDERS):
            for name, lines in functions(path, path.read_text(encoding="utf-8")):
                self.assertLessEqual(lines, MOST_OF_FUNCTION, f"{path.relative_to(ROOT)}: {name} has {lines} lines")
                seen += 1
        self.assertGreater(seen, 5000)

    def test_kinds(self):
        """Each kind of file is measured: a function that is one line too long is seen."""
        for name, begin, end in (("a.c", "void a(void)\n{", "}"), ("a.kern", "KERNEL(a)\n{", "}"), ("a.inc", "int a(void)\n{", "}"),
                                 ("a.glsl", "#define a \\", "    last"), ("a.sh", "a() {", "}"), ("a.py", "def a():", "    pass")):
            middle = "    x = 1" + (" \\" if "define" in begin else "")
            text = "\n".join([begin] + [middle] * 80 + [end, ""])
            self.assertGreater(max(lines for _, lines in functions(pathlib.Path(name), text)), MOST_OF_FUNCTION, name)

    def test_examples(self):
        """They are there to show how little it takes."""
        for name, most in (("graph.c", 60), ("own_op.c", 80)):
            self.assertLess((ROOT / "examples" / name).read_text(encoding="utf-8").count("\n"), most, name)

    def test_families(self):
        """A family of decoders is a spec and a few names: these, which differ in much, show it."""
        for name in ("gpt2", "qwen2", "qwen3", "gemma2"):
            lines = (ROOT / f"core/models/family_{name}.c").read_text(encoding="utf-8").count("\n")
            self.assertLessEqual(lines, MOST_OF_FAMILY, f"family_{name}.c has {lines} lines")


if __name__ == "__main__":
    unittest.main()
