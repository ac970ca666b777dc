"""Do the folders of core/, of conformance/ and of backends/ use each other in one direction only, as
docs/architecture.md says?"""

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

# Those of backends/, and whose headers each may include besides its own and plugin.h.
PLUGINS = {"cpu": set(), "null": set(), "gpu": set(), "vulkan": {"gpu"}, "opencl": {"gpu"}}
OPERATIONS = re.findall(r"^PCO_OP\(\d+, (\w+), (\w+),", (ROOT / "core/graph/ops.def").read_text(), re.MULTILINE)


def code(folder):
    """(file, number, line) of each line of a folder of backends/, without its comments."""
    for path in sorted((ROOT / "backends" / folder).rglob("*.[ch]")):
        text = re.sub(r"/\*.*?\*/", lambda comment: "\n" * comment[0].count("\n"), path.read_text(), flags=re.DOTALL)
        for number, line in enumerate(text.split("\n"), 1):
            yield path.relative_to(ROOT), number, line


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

    def test_plugins(self):
        """A plugin's code includes plugin.h and its own folder, and that of Vulkan and OpenCL gpu/."""
        there = {path.name for path in (ROOT / "backends").iterdir() if path.is_dir()}
        self.assertEqual(there, set(PLUGINS))
        for folder, allowed in PLUGINS.items():
            for file, number, line in code(folder):
                found = re.match(r' *# *include *(?:"(.+)/|<(portico)/)(\w+\.h)', line)
                if found and (found[1] or found[2], found[3]) != ("portico", "plugin.h"):
                    self.assertIn(found[1], allowed, f"{file}:{number}: {line}")

    def nowhere(self, pattern, *folders):
        found = [f"{file}:{number}: {line}" for folder in folders for file, number, line in code(folder)
                 if re.search(pattern, line)]
        self.assertEqual(found, [])

    def test_apis_know_no_operation(self):
        self.assertGreater(len(OPERATIONS), 60)
        upper, lower = ("|".join(names) for names in zip(*OPERATIONS))
        self.nowhere(rf'\bPCO_OP_({upper})\b|\bpco_({lower})_attrs\b|"({lower})"', "vulkan", "opencl")

    def test_gpu_calls_no_api(self):
        self.nowhere(r"\b(vk|cl)[A-Z]\w*\(|\b(Vk[A-Z]\w+|VK_\w+|CL_\w+|cl_\w+)\b|include *<(vulkan|CL)/",
                     "gpu", "cpu", "null")


if __name__ == "__main__":
    sys.exit(unittest.main())
