"""Does scripts/check-docs see a figure that is stale, and a step that is missing?"""

import contextlib
import importlib.machinery
import importlib.util
import io
import os
import pathlib
import sys
import tempfile
import unittest
from unittest import mock

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "check-docs"
sys.dont_write_bytecode = True  # no file beside the script


def load():
    loader = importlib.machinery.SourceFileLoader("check_docs", str(SCRIPT))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("check_docs", loader))
    loader.exec_module(module)
    return module


class CheckDocs(unittest.TestCase):
    def setUp(self):
        self.module = load()
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.module.ROOT = pathlib.Path(scratch.name)
        (self.module.ROOT / "docs").mkdir()

    def check(self, readme, other=""):
        """Exit status of check-docs on such documents."""
        (self.module.ROOT / "README.md").write_text(readme, encoding="utf-8")
        (self.module.ROOT / "docs" / "other.md").write_text(other, encoding="utf-8")
        self.said = io.StringIO()
        with mock.patch("sys.argv", ["check-docs", "--rebuild"]), contextlib.redirect_stdout(self.said):
            return self.module.main()

    def shown(self, command, *lines, rules=""):
        return self.check("\n".join([rules, "```console", f"$ {command}", *lines, "```", ""]))

    def test_figures(self):
        self.assertEqual(self.shown("echo 99 cases", "99 cases"), 0)
        self.assertEqual(self.shown("echo 71 cases", "99 cases"), 1)
        self.assertIn("-99 cases", self.said.getvalue())
        self.assertIn("+71 cases", self.said.getvalue())

    def test_spaces_and_blank_lines(self):
        self.assertEqual(self.shown(r"printf 'a   9\n\nb\n'", "a 9", "b"), 0)

    def test_all_lines_are_compared(self):
        self.assertEqual(self.shown(r"printf 'a\nb\n'", "a"), 1)
        self.assertEqual(self.shown(r"printf 'a\nb\n'", "b"), 1)
        self.assertEqual(self.shown("true", "a"), 1)

    def test_durations_and_rates(self):
        self.assertEqual(self.shown("echo 5 cases, 0.3 s, 17.5 tok/s, 4 ms", "5 cases, 12.1 s, 2 tok/s, 800 ms"), 0)
        self.assertEqual(self.shown("echo 5 cases, 0.3 s", "6 cases, 0.3 s"), 1)
        self.assertEqual(self.shown("echo at 2026-01-31T12:00:00Z", "at 2025-02-28T01:59:00Z"), 0)

    def test_what_is_left_out(self):
        self.assertEqual(self.shown(r"printf 'a\nb\nc\nd 1 2\n'", "a", "...", "d 1 ..."), 0)
        self.assertEqual(self.shown(r"printf 'a\nb\nc\nd 1 2\n'", "a", "...", "d 2 ..."), 1)
        self.assertEqual(self.shown(r"printf 'a\nb\nc\n'", "...", "b", "..."), 0)
        self.assertEqual(self.shown(r"printf 'a\nc\n'", "...", "b", "..."), 1)

    def test_stderr(self):
        self.assertEqual(self.shown("echo answer; echo 9 lines >&2", "answer"), 0)
        self.assertEqual(self.shown("echo answer; echo 9 lines >&2", "answer", "9 lines"), 0)
        self.assertEqual(self.shown("echo answer; echo 9 lines >&2", "9 lines"), 0)
        self.assertEqual(self.shown("echo no such file >&2; false  # fails", "no such file"), 0)
        self.assertEqual(self.shown("echo no such file >&2; false  # fails", "no such folder"), 1)

    def test_progress(self):
        slow = "echo answer; echo 'cpu:0  42 % [####    ] 32/76 cases 29.9/s, 1 s left' >&2; echo passed >&2"
        self.assertEqual(self.shown(slow, "answer", "passed"), 0)
        self.assertEqual(self.shown(slow.replace(" left", "").replace("%", "of"), "answer", "passed"), 1)

    def test_what_may_vary(self):
        rules = "<!-- check-docs\nvary AMD|Intel\nvary median (\\S+)$\nskip ^gpu\n-->"
        printed = r"printf 'on AMD, 9 cases, median 0.9\n'"
        self.assertEqual(self.shown(printed, "gpu:0 fine", "on Intel, 9 cases, median 0.8", rules=rules), 0)
        self.assertEqual(self.shown(printed, "on Intel, 8 cases, median 0.8", rules=rules), 1)
        self.assertEqual(self.shown(r"printf 'median 1\n'", "...", rules=rules), 0)

    def test_processors(self):
        rules = "<!-- check-docs\nprocessor AMD EPYC\n-->"
        for own in "AMD EPYC", "AMD EPYC 7763 64-Core Processor", "Intel(R) Xeon(R) Processor", "AArch64 processor":
            with mock.patch.object(self.module, "own_processor", return_value=own):
                self.assertEqual(self.shown(f"echo 'on {own}, 9 cases'", "on AMD EPYC, 9 cases", rules=rules), 0, own)
                self.assertEqual(self.shown("echo 'on nothing, 9 cases'", "on AMD EPYC, 9 cases", rules=rules), 1, own)
        path = self.module.ROOT / "cpuinfo"
        path.write_text("processor\t: 0\nmodel name\t: A (R) CPU\nmodel name\t: B\n", encoding="utf-8")
        self.assertEqual(self.module.own_processor(path), "A (R) CPU")
        self.assertIn("processor", self.module.own_processor("/no such file"))

    def test_rules_of_a_block_and_of_a_page(self):
        blocks = "```console\n$ echo 1\n2\n```\n```console\n$ echo 1\n2\n```\n"
        self.assertEqual(self.check("<!-- check-docs\nvary \\d\n-->\n" + blocks), 1)
        self.assertEqual(self.check("<!-- check-docs: whole page\nvary \\d\n-->\n" + blocks), 0)
        with self.assertRaises(SystemExit):
            self.check("<!-- check-docs\nmay vary\n-->\n" + blocks)

    def test_exit_status(self):
        self.assertEqual(self.shown("false"), 1)
        self.assertEqual(self.shown("false  # fails"), 0)
        self.assertEqual(self.shown("true  # fails"), 1)
        self.assertEqual(self.shown("exit 3"), 1)

    def test_nothing_is_preset(self):
        names = "HOME PKG_CONFIG_PATH PKG_CONFIG_SYSROOT_DIR LD_LIBRARY_PATH CPATH PORTICO_CACHE_DIR XDG_CACHE_HOME"
        preset = {name: "/preset" for name in names.split()}
        with mock.patch.dict(os.environ, preset):
            self.assertEqual(self.shown("! env | grep /preset"), 0)
        self.assertEqual(self.shown('[ -z "$(ls -A "$HOME")" ]'), 0)
        self.assertEqual(self.shown("[ ! -e build ]"), 0)

    def test_what_readme_exports_stays(self):
        other = "```console\n$ echo $GREETING\nhello\n```\n"
        self.assertEqual(self.check("```console\n$ export GREETING=hello\n```\n", other), 0)
        self.assertEqual(self.check("```console\n$ GREETING=hello\n```\n", other), 1)


if __name__ == "__main__":
    unittest.main()
