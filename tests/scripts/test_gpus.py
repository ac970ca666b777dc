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
    def compared(self, before, now, whole=True, **rest):
        """What is found, where the baseline has those kernels and the driver says that of these."""
        gpus.read_baselines = lambda: {("one", kernel): figures for kernel, figures in before.items()}
        pipelines = [{"kernel": kernel, **figures} for kernel, figures in now.items()]
        self.said = io.StringIO()
        with contextlib.redirect_stderr(self.said):
            return gpus.compare([{"gpu": "one", "pipelines": pipelines, **rest}], {"one"} if whole else set())

    def test_local_memory_where_no_spills_are_counted(self):
        self.assertEqual(self.compared({"a": row(scratch="64")}, {"a": {"scratch": 64}}), [])
        self.assertIn("80 bytes in local memory, 64 before", self.compared({"a": row(scratch="64")}, {"a": {"scratch": 80}})[0])
        self.assertEqual(self.compared({"a": row(spills="0", scratch="0")}, {"a": {"spills": 0, "scratch": 80}}), [])

    def test_spills_and_waves(self):
        before = {"a": row(spills="2", waves="8")}
        self.assertEqual(self.compared(before, {"a": {"spills": 2, "waves": 8}}), [])
        self.assertEqual(self.compared(before, {"a": {"spills": 1, "waves": 9}}), [])
        self.assertEqual(self.compared(before, {"a": {"spills": 3, "waves": 8}}), ["one: a spills 3 registers, 2 before"])
        self.assertEqual(self.compared(before, {"a": {"spills": 2, "waves": 7}}), ["one: a fits 7 waves, 8 before"])
        self.assertEqual(self.compared({}, {"a": {"spills": 1, "waves": 1}}), ["one: a spills 1 registers, 0 before"])

    def test_figures_that_the_driver_no_longer_gives(self):
        self.assertEqual(self.compared({"a": row(spills="0", waves="8")}, {"a": {"spills": 0}}),
                         ["one: nothing is said of the waves of a, 8 before"])
        self.assertEqual(self.compared({"a": row(spills="0", scratch="0")}, {"a": {"scratch": 0}}, whole=False),
                         ["one: nothing is said of the spills of a, 0 before"])

    def test_kernels_and_pipelines_that_only_one_has(self):
        before = {"a": row(pipelines="2"), "b": row()}
        self.assertEqual(len(self.compared(before, {"a": {}, "b": {}})), 1)
        self.assertIn("a has 1 pipelines, 2 before", self.compared(before, {"a": {}, "b": {}})[0])
        self.assertEqual(self.compared({"b": row()}, {"a": {}, "b": {}}), ["one: a is not in the baseline: scripts/gpus --write"])
        self.assertEqual(self.compared({"a": row(), "b": row()}, {"a": {}}),
                         ["one: no case compiles b any more, which is in the baseline"])
        self.assertEqual(self.compared(before, {"a": {}}, whole=False), [])

    def test_kernels_that_the_build_lacks(self):
        before = {"a": row(), "matmul_matrix_2x2": row(), "attention_matrix_2": row()}
        self.assertEqual(self.compared(before, {"a": {}}, not_in_build="cooperative matrices"), [])
        self.assertEqual(self.said.getvalue(),
                         "one: 2 kernels of the baseline are not in this build, which lacks cooperative matrices\n")
        self.assertEqual(len(self.compared(before, {"a": {}}, not_in_build="")), 2)
        before = {"a": row(), "attention_matrix2_4": row(), "matmul_pairs_64x64": row()}
        lacks = "cooperative matrices of the second kind, mixed float dot products"
        self.assertEqual(self.compared(before, {"a": {}}, not_in_build=lacks), [])
        self.assertEqual(len(self.compared(before, {"a": {}}, not_in_build="cooperative matrices")), 2)


if __name__ == "__main__":
    unittest.main()
