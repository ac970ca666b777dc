"""Do families, element types and kernels stay what their rows say? Nothing outside a family's own file asks which family
it is, types are not compared by their numbers, and a kernel's parameters, constants and buffers have no numbers by hand.
And does one function print the values of elements, and one run a node alone?
docs/architecture.md has how many of these there once were."""

import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TYPES = re.findall(r"^PCO_DTYPE\(\d+, (\w+),", (ROOT / "core/base/dtypes.def").read_text(encoding="utf-8"), re.MULTILINE)
FAMILIES = re.findall(r"^const pco_family pco_family_(\w+) =", "".join(
    path.read_text(encoding="utf-8") for path in sorted((ROOT / "core/models").glob("*.c"))), re.MULTILINE)


def lines(*places):
    """(where, code) of each line of these folders, without comments that begin in it."""
    for place in places:
        for path in sorted((ROOT / place).rglob("*")):
            if path.suffix in (".c", ".h", ".def", ".kern", ".inc", ".cl", ".glsl"):
                for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
                    yield path.relative_to(ROOT), number, re.split(r"/\*|//| \* ", line)[0]


class Rows(unittest.TestCase):
    def none(self, pattern, *places, but=r"^$"):
        found = [f"{path}:{number}:{code}" for path, number, code in lines(*places)
                 if re.search(pattern, code) and not re.search(but, str(path))]
        self.assertEqual(found, [])

    def test_families(self):
        self.assertGreater(len(FAMILIES), 20)
        names = "|".join(FAMILIES)
        own = r"models/(family(_\w+)?|ct2_model)\.[ch]$"
        self.none(rf"[=!]= *&?pco_family_({names})\b|[?:(]\s*&pco_family_({names})\b|return &pco_family_", "core", but=own)
        self.none(rf"strn?(case)?cmp\([^;]*\b(family|architecture|model_type)\b[^;]*\"({names})\"", "core", but=own)

    def test_types_have_no_order(self):
        self.assertGreater(len(TYPES), 10)
        self.none(rf"(<|>)=? *PCO_({'|'.join(TYPES)})\b|\bPCO_({'|'.join(TYPES)}) *(<|>)", "core", "backends", "conformance")

    def test_parameters_have_names(self):
        self.none(r"\bP\(\d+\)|\bBUFFER_?\d+\b", "shaders")
        self.none(r"\bgpu_(set_)?(param|spec|buffer)s?\((gpu|d|&d)[^;]*, *\d+,", "backends")

    def test_values_are_printed_in_one_way(self):
        """pco_number_text prints an element: by hand an i32 becomes -1.81943056e+09, and the line says nothing."""
        self.none(r"%\.(9|\*)g", "conformance")

    def test_one_runner_of_a_node(self):
        """A plugin's `prepare` is called for a session's part, and for a node alone (trial.h), and nowhere else."""
        others = r"^core/(runtime/(part|trial)|text/tokenizer_gguf)\.c$"
        self.none(r"(->|\.) *prepare\b", "core", "conformance", but=others)
        calls = [str(path) for path, _, code in lines("core/runtime") if re.search(r"program->prepare\(", code)]
        self.assertEqual(calls, ["core/runtime/part.c", "core/runtime/trial.c"])


if __name__ == "__main__":
    unittest.main()
