"""Is a file under 800 lines and a function under 80, as CONTRIBUTING.md says?"""

import ast
import pathlib
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDERS = ["core", "backends", "conformance", "shaders", "python", "scripts", "examples", "tests"]
KINDS = {".c", ".h", ".py", ".kern", ".inc", ".cl", ".glsl", ".in", ""}
SKIPPED = {"__pycache__", "compiled"}
MOST_OF_FILE, MOST_OF_FUNCTION = 800, 80


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


def functions(path, text):
    if path.suffix in (".c", ".h"):
        return c_functions(text.split("\n"))
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

    def test_examples(self):
        """They are there to show how little it takes."""
        for name, most in (("graph.c", 60), ("own_op.c", 80)):
            self.assertLess((ROOT / "examples" / name).read_text(encoding="utf-8").count("\n"), most, name)


if __name__ == "__main__":
    unittest.main()
