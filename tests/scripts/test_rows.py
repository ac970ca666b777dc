"""Do families, element types and kernels stay what their rows say? Nothing outside a family's own file asks which family
it is, types are not compared by their numbers, and a kernel's parameters, constants and buffers have no numbers by hand.
And does one function print the values of elements, one run a node alone, and one escape XML? And does the oracle share no
formula with what it judges?
docs/architecture.md has how many of these there once were."""

import functools
import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TYPES = re.findall(r"^PCO_DTYPE\(\d+, (\w+),", (ROOT / "core/base/dtypes.def").read_text(encoding="utf-8"), re.MULTILINE)
ROWS = re.findall(r"^(?:static )?const pco_family (\w+) = (.*?);$", "".join(
    path.read_text(encoding="utf-8") for path in sorted((ROOT / "core/models").glob("*.c"))), re.MULTILINE | re.DOTALL)
NAMES = {name for _, row in ROWS for name in re.findall(r'\.(?:name|architecture|model_type) = "([^"]*)"', row)}

# Six operands or more, and what is between them.
FORMULA = re.compile(r"[\w.>\[\]-]+(?: [-+*/%] [\w.>\[\]-]+){5,}")


@functools.lru_cache(maxsize=None)
def lines_of(folder):
    return [(path.relative_to(ROOT), number, re.split(r"/\*|//|^ *\* ", line)[0])
            for path in sorted((ROOT / folder).rglob("*"))
            if path.suffix in (".c", ".h", ".def", ".kern", ".inc", ".cl", ".glsl")
            for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)]


def lines(*folders):
    """(where, code) of each line of these folders, without comments that begin in it."""
    return (line for folder in folders for line in lines_of(folder))


class Rows(unittest.TestCase):
    def none(self, pattern, *places, but=r"^$"):
        found = [f"{path}:{number}:{code}" for path, number, code in lines(*places)
                 if re.search(pattern, code) and not re.search(but, str(path))]
        self.assertEqual(found, [])

    def test_families(self):
        """Rows stand in their files, and so do names: of families, and of what is called after them, as "CLIPTokenizer"
        is. Not after a family are called: tokenizers (core/text), the GGUF that formats/llama2c.c makes, the
        operation Clip of ONNX, and the module Transformer of sentence-transformers."""
        self.assertGreater(len(ROWS), 20)
        own = r"models/(family(_\w+)?|ct2_model)\.[ch]$"
        self.none(rf"\b({'|'.join(name for name, _ in ROWS)})\b", "core", but=own)
        self.none(rf'"(?i:{"|".join(sorted(NAMES))})(_\w*|[A-Z]\w*)?"', "core",
                  but=rf"{own}|core/text/|formats/llama2c\.c$|models/onnx/map_elementwise\.c$|models/sentence\.c$")

    def test_types_have_no_order(self):
        self.assertGreater(len(TYPES), 10)
        self.none(rf"(<|>)=? *PCO_({'|'.join(TYPES)})\b|\bPCO_({'|'.join(TYPES)}) *(<|>)", "core", "backends", "conformance")

    def test_types_have_no_second_table(self):
        """What is known of a type is a column of dtypes.def. ONNX's numbers of element types are those of another table."""
        types = "|".join(TYPES)
        self.none(rf"\{{\[?PCO_({types})\]?,? =? *(\d+|PCO_({types}))\}}", "core")

    def test_blocks_are_those_of_the_row(self):
        self.none(r"\b\w*BLOCK = (32|256)\b", "core")

    def test_parameters_have_names(self):
        self.none(r"\bP\(\d+\)|\bBUFFER_?\d+\b", "shaders")
        self.none(r"\bgpu_(set_)?(param|spec|buffer)s?\((gpu|d|&d)[^;]*, *\d+,", "backends")

    def test_forms_have_one_source(self):
        """A lowering asks gpu->software, which gpu_set_form alone works out of the device and the variant."""
        self.none(r"\bPCO_DEVICE_SOFTWARE\b|\blimits->type\b|(->|\.)software [|&^]?= ", "backends/gpu", but=r"program\.c$")

    def test_values_are_printed_in_one_way(self):
        """pco_number_text prints an element: by hand an i32 becomes -1.81943056e+09, and the line says nothing."""
        self.none(r"%\.(9|\*)g", "conformance")

    def test_one_runner_of_a_node(self):
        """A plugin's `prepare` is called for a session's part, and for a node alone (trial.h), and nowhere else."""
        others = r"^core/(runtime/(part|trial)|text/tokenizer_gguf)\.c$"
        self.none(r"(->|\.) *prepare\b", "core", "conformance", but=others)
        calls = [str(path) for path, _, code in lines("core/runtime") if re.search(r"program->prepare\(", code)]
        self.assertEqual(calls, ["core/runtime/part.c", "core/runtime/trial.c"])

    def test_oracle_has_formulas_of_its_own(self):
        """One that the CPU backend has, too, would be wrong in both."""
        formulas = {found for _, _, code in lines("backends/cpu") for found in FORMULA.findall(code)}
        self.assertGreater(len(formulas), 20)
        self.assertEqual([f"{path}:{number}: {found}" for path, number, code in lines("conformance/oracle")
                          for found in FORMULA.findall(code) if found in formulas], [])

    def test_domains_have_no_second_list(self):
        table = (ROOT / "core/graph/ops.def").read_text(encoding="utf-8")
        ops = "|".join(re.findall(r"^PCO_DOMAIN\((\w+), \d, (?:POSITIVE|DIVISOR|CLASS)\)", table, re.MULTILINE))
        self.none(rf"== PCO_OP_({ops}) \|\| [\w>.-]+ == PCO_OP_({ops})\b", "core", "backends", "conformance")

    def test_xml_is_escaped_in_one_way(self):
        """By pco_write_xml. A filter of chat templates escapes as Jinja does, and BLEU takes such names for characters."""
        self.none(r'"[^"]*&(amp|lt|gt|quot|#%)', "core", "backends", "conformance",
                  but=r"base/writer\.c$|text/template_operators\.c$|train/bleu\.c$")


if __name__ == "__main__":
    unittest.main()
