"""Do the folders of core/ and of conformance/ use each other in one direction only, as docs/architecture.md says?"""

import pathlib
import re
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
USES = {
    "oracle": set(),
    "cases": {"oracle"},
    "run": {"cases", "oracle"},
    "reproduce": {"run"},
    "isolate": {"reproduce", "run", "cases"},
    "bisect": {"isolate", "reproduce", "run"},
    "report": {"run", "cases", "oracle"},
    "onnx": {"oracle"},
}

# Those of core/: each may include itself and those before it.
FLOORS = ["base", "graph", "runtime", "formats", "text", "nn", "models", "train", "api", "cli"]


def includes(folder):
    """(file, folder of what it includes) for each include of another folder of the suite."""
    for path in sorted((ROOT / "conformance" / folder).glob("*.[ch]*")):
        for other in re.findall(r'^#include "(\w+)/\w+\.h"', path.read_text(), re.MULTILINE):
            if other in USES and other != folder:
                yield path.name, other


class Arrows(unittest.TestCase):
    def test_folders(self):
        there = {path.name for path in (ROOT / "conformance").iterdir() if path.is_dir()}
        self.assertEqual(there, set(USES))

    def test_one_way(self):
        for folder, allowed in USES.items():
            for file, other in includes(folder):
                self.assertIn(other, allowed, f"conformance/{folder}/{file} includes a header of {other}/")

    def test_no_circle(self):
        done = []
        while len(done) < len(USES):
            ready = [folder for folder, uses in USES.items() if folder not in done and uses <= set(done)]
            self.assertTrue(ready, f"a circle among {sorted(set(USES) - set(done))}")
            done += ready

    def test_floors(self):
        there = {path.name for path in (ROOT / "core").iterdir() if path.is_dir()}
        self.assertEqual(there, {*FLOORS, "include"})
        for path in sorted((ROOT / "core").rglob("*.[ch]")):
            floor = path.relative_to(ROOT / "core").parts[0]
            for other in re.findall(r'^#include "(\w+)/', path.read_text(), re.MULTILINE):
                if floor != "include" and other != "portico" and (floor != "cli" or other in FLOORS):
                    below = FLOORS[:FLOORS.index(floor) + 1]
                    self.assertIn(other, below, f"{path.relative_to(ROOT)} includes a header of {other}/")


if __name__ == "__main__":
    sys.exit(unittest.main())
