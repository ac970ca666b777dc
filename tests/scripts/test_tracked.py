"""Is nothing tracked that a build makes: what .gitignore names, and programs, libraries, archives and packages?"""

import pathlib
import shutil
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
MADE = {".a", ".bc", ".deb", ".gz", ".o", ".pyc", ".so", ".spv", ".tar", ".whl", ".xz", ".zip"}


def skip(why):
    print(f"skip: {why}")
    sys.exit(77)


def listed(*options):
    run = subprocess.run(["git", "-C", ROOT, "-c", f"safe.directory={ROOT}", "ls-files", "-z", *options],
                         capture_output=True, text=True)
    if run.returncode:
        skip("not in a clone of git")
    return [path for path in run.stdout.split("\0") if path]


class Tracked(unittest.TestCase):
    def test_tracked(self):
        paths = listed()
        self.assertGreater(len(paths), 500)
        self.assertEqual(listed("-ci", "--exclude-standard"), [])
        self.assertEqual([path for path in paths if pathlib.PurePath(path).suffix in MADE], [])


if __name__ == "__main__":
    if not shutil.which("git"):
        skip("git is not here")
    unittest.main()
