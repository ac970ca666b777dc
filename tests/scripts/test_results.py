"""What scripts/results.py counts: a test that fails counts as one, whatever it has printed until then."""

import contextlib
import importlib.util
import io
import json
import pathlib
import sys
import tempfile
import types
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "results.py"
sys.dont_write_bytecode = True  # no file beside the script
SPEC = importlib.util.spec_from_file_location("results", SCRIPT)
results = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(results)


def counted(*tests):
    """Of (verdict, output) of each test."""
    with tempfile.NamedTemporaryFile("w", suffix=".json") as log, contextlib.redirect_stdout(io.StringIO()):
        for verdict, text in tests:
            log.write(json.dumps({"name": "x", "result": verdict, "duration": 1.0, "stdout": text}) + "\n")
        log.flush()
        return results.meson_counts(log.name)


class Counts(unittest.TestCase):
    def test_good(self):
        self.assertEqual(counted(("OK", ""), ("OK", "3 passed, 0 failed, 2 skipped\n"), ("SKIP", "no driver")), [4, 0, 3])
        self.assertEqual(counted(("OK", "[       OK ] test_a\n[  SKIPPED ] test_b\n")), [1, 0, 1])

    def test_bad(self):
        for verdict in ("FAIL", "ERROR", "TIMEOUT", "INTERRUPT", "UNEXPECTEDPASS"):
            self.assertEqual(counted((verdict, "ok    one thing\n")), [0, 1, 0], verdict)
        self.assertEqual(counted(("FAIL", "5 passed, 2 failed, 1 skipped\n")), [5, 2, 1])
        self.assertEqual(counted(("FAIL", "5 passed, 0 failed, 1 skipped\n")), [5, 1, 1])
        self.assertEqual(counted(("FAIL", "[       OK ] test_a\n")), [1, 1, 0])

    def test_conformance(self):
        device = dict.fromkeys(("pass", "unsupported", "not_promised", "waived", "status", *results.BAD_STATES), 0)
        for state in results.BAD_STATES:
            with tempfile.NamedTemporaryFile("w", suffix=".json") as report:
                json.dump({"conformance": [{**device, "pass": 4, "waived": 2, state: 1}]}, report)
                report.flush()
                self.assertEqual(results.conformance_counts(report.name), [4, 1, 2], state)

    def test_failures_stand_at_the_end(self):
        """The end of a step's output is repeated in front of the sums, where who reads the last lines sees it."""
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()) as said:
            kept, log = f"{folder}/results.tsv", f"{folder}/step.log"
            pathlib.Path(log).write_text("what went wrong\n", encoding="utf-8")
            for name, status in (("one", 1), ("two", 0)):
                results.step(types.SimpleNamespace(results=kept, group="all", name=name, seconds="1.0",
                                                   status=status, log=log, why=None))
            # all of the tests that failed, though more lines are behind them than are shown otherwise
            pathlib.Path(log).write_text("OK one\n---- two, its last lines:\n" + "more\n" * 90, encoding="utf-8")
            long = io.StringIO()
            with contextlib.redirect_stdout(long):
                results.print_failure("all", "one", log)
                results.print_failure("all", "gone", f"{folder}/gone.log")
            pathlib.Path(log).write_text("what went wrong\n", encoding="utf-8")
            before = said.tell()
            self.assertEqual(results.table(kept), 1)
            said.seek(before)
            last = said.read()
        self.assertIn("all, one: FAIL\n      | what went wrong\n", last)
        self.assertNotIn("all, two: FAIL", last)
        self.assertIn("---- two", long.getvalue())
        self.assertNotIn("OK one", long.getvalue())
        self.assertIn("gone.log", long.getvalue())
        self.assertLess(last.index("what went wrong"), last.index("passed   failed"))


if __name__ == "__main__":
    unittest.main()
