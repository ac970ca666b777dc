"""What scripts/gpus --check says of figures that are worse than a baseline's, and of kernels that a build lacks."""
import contextlib
import importlib.machinery
import importlib.util
import io
import pathlib
import sys
import unittest

SCRIPTS = pathlib.Path(__file__).resolve().parents[2] / "scripts"
sys.dont_write_bytecode = True
sys.path.insert(0, str(SCRIPTS))
loader = importlib.machinery.SourceFileLoader("gpus", str(SCRIPTS / "gpus"))
gpus = importlib.util.module_from_spec(importlib.util.spec_from_loader("gpus", loader))
loader.exec_module(gpus)


def row(**figures):
    return {"pipelines": "1", **{measure: "-" for measure in gpus.MEASURES}, **figures}


class Check(unittest.TestCase):
    def compared(self, before, now, **rest):
        """What is found, where the baseline has those kernels and the driver says that of these."""
        gpus.read_baselines = lambda: {("one", kernel): figures for kernel, figures in before.items()}
        pipelines = [{"kernel": kernel, **figures} for kernel, figures in now.items()]
        self.said = io.StringIO()
        with contextlib.redirect_stderr(self.said):
            return gpus.compare([{"gpu": "one", "pipelines": pipelines, **rest}], True)

    def test_local_memory_where_no_spills_are_counted(self):
        self.assertEqual(self.compared({"a": row(scratch="64")}, {"a": {"scratch": 64}}), [])
        self.assertIn("80 bytes in local memory, 64 before", self.compared({"a": row(scratch="64")}, {"a": {"scratch": 80}})[0])
        self.assertEqual(self.compared({"a": row(spills="0", scratch="0")}, {"a": {"spills": 0, "scratch": 80}}), [])

    def test_kernels_that_the_build_lacks(self):
        before = {"a": row(), "matmul_matrix_2x2": row(), "attention_matrix_2": row()}
        self.assertEqual(self.compared(before, {"a": {}}, not_in_build="cooperative matrices"), [])
        self.assertEqual(self.said.getvalue(),
                         "one: 2 kernels of the baseline are not in this build, which lacks cooperative matrices\n")
        self.assertEqual(len(self.compared(before, {"a": {}}, not_in_build="")), 2)


if __name__ == "__main__":
    unittest.main()
