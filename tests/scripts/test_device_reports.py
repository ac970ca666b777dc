"""Does the table of docs/devices/README.md say what the reports beside it say, each of them once?"""

import json
import pathlib
import re
import unittest

DEVICES = pathlib.Path(__file__).resolve().parents[2] / "docs/devices"
ROW = re.compile(r"\| `([\w.-]+)` \| .+? \| ((?:tiny|quick|standard)[\w ]*) \| ([\d,]+) \| ([\d,]+) \|")


def number(text):
    return int(text.replace(",", ""))


class DeviceReports(unittest.TestCase):
    def test_table(self):
        rows = [ROW.fullmatch(line) for line in (DEVICES / "README.md").read_text(encoding="utf-8").splitlines()]
        said = [(row[1], row[2], number(row[3]), number(row[4])) for row in rows if row]
        found = []
        for path in DEVICES.glob("*/report.json"):
            report = json.loads(path.read_text(encoding="utf-8"))
            states = [case["state"] for case in report["conformance"][0]["cases"]]
            ops = report["conformance"][0]["ops"]
            only = f" of {ops[0]['op']}" if len(ops) == 1 else ""
            found.append((path.parent.name, report["suite"]["tier"] + only, len(states), states.count("unsupported")))
            self.assertEqual(set(states) - {"pass", "unsupported"}, set(), path)
        self.assertGreater(len(found), 5)
        self.assertEqual(sorted(said), sorted(found))

    def test_commands(self):
        """What others would type: no folder of the machine that wrote the report, but for temporary ones."""
        for path in DEVICES.glob("*/report.json"):
            command = json.loads(path.read_text(encoding="utf-8"))["command"].split()
            self.assertEqual([word for word in command if word.startswith("/") and not word.startswith("/tmp/")], [], path)

    def test_driver_bugs(self):
        """Short tiers leave out variants of most cases: not of one that a driver got wrong with a single variant."""
        report = json.loads((DEVICES / "pocl-3.1/report.json").read_text(encoding="utf-8"))
        variants = {case["variant"] for case in report["conformance"][0]["cases"] if case["case"] == "fff23b43"}
        self.assertIn("vector", variants, "driver-bugs/llvm-vector-combine")


if __name__ == "__main__":
    unittest.main()
