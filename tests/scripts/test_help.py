"""Does each script say what it is for? It then also finds what it imports: of some nothing else runs in scripts/test."""

import os
import pathlib
import subprocess
import unittest

SCRIPTS = pathlib.Path(__file__).resolve().parents[2] / "scripts"


class Help(unittest.TestCase):
    def test_help(self):
        scripts = [path for path in sorted(SCRIPTS.iterdir())
                   if path.is_file() and not path.suffix and os.access(path, os.X_OK)]
        self.assertGreater(len(scripts), 15)
        for path in scripts:
            with self.subTest(path.name):
                made = subprocess.run([path, "--help"], capture_output=True, text=True, timeout=60, check=False)
                self.assertEqual(made.returncode, 0, made.stderr)
                self.assertIn(f"{path.name}", made.stdout)


if __name__ == "__main__":
    unittest.main()
