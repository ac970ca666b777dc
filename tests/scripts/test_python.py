"""Do the scripts go on with a Python that works, where the first of the path does not?"""

import os
import pathlib
import stat
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SHIM = "#!/bin/sh\necho 'pyenv: python3: command not found' >&2\nexit 127\n"
OLDER = f"#!/bin/sh\nexec {sys.executable} -c 'import sys; sys.version_info = (3, 6); exec(sys.argv.pop(1))' \"$2\"\n"
# What the scripts do with it: by name, and by a first line.
ASK = 'python3 -c "import sys; print(sys.version_info >= (3, 9), sys.executable)"; "$1"; command -v python3'


class FirstOfThePath(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.by_line = self.program("by_line", "#!/usr/bin/env python3\nprint('by its first line')\n")

    def program(self, name, text):
        path = self.folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return path

    def ask(self, script, *folders):
        path = ":".join([*map(str, folders), os.environ["PATH"]])
        command = f"set -euo pipefail; . {ROOT}/scripts/{script}; {ASK}"
        return subprocess.run(["bash", "-c", command, "bash", str(self.by_line)], env={**os.environ, "PATH": path},
                              capture_output=True, text=True, check=False)

    def test_one_that_does_not_work_is_passed_over(self):
        shims = [self.program("missing/python3", SHIM).parent, self.program("older/python3", OLDER).parent]
        self.assertEqual(subprocess.run([shims[1] / "python3", "-c", "import sys; print(sys.version_info)"],
                                        capture_output=True, text=True, check=True).stdout, "(3, 6)\n")
        for script in "python.sh", "common.sh":
            for folders in shims[:1], shims[1:], shims:
                asked = self.ask(script, *folders)
                self.assertEqual((asked.returncode, asked.stderr), (0, ""), folders)
                version, line, _ = asked.stdout.splitlines()
                self.assertTrue(version.startswith("True "), version)
                self.assertEqual(line, "by its first line")

    def test_one_that_works_stays(self):
        first = self.program("works/python3", f"#!/bin/sh\nexec {sys.executable} \"$@\"\n")
        for script in "python.sh", "common.sh":
            asked = self.ask(script, first.parent)
            self.assertEqual(asked.stdout.splitlines()[2:], [str(first)], asked.stderr)

    def test_scripts_that_need_python_ask(self):
        for path in sorted((ROOT / "scripts").iterdir()):
            text = path.read_text(encoding="utf-8") if path.is_file() else ""
            if not text.startswith("#!/usr/bin/env bash") or path.name == "setup-debian":
                continue
            asks = "common.sh" in text or "python.sh" in text
            self.assertTrue(asks or "python3" not in text, f"{path.name} uses python3 as it comes")


if __name__ == "__main__":
    unittest.main()
