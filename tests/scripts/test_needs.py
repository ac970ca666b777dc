"""Does the build say which features glslc lacks, and leave out those kernels and no others? With compilers that refuse
what has a feature's name in it."""

import argparse
import contextlib
import io
import pathlib
import stat
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SHADERS = str(ROOT / "shaders")
sys.path.insert(0, SHADERS)
import embed  # noqa: E402

FAKE = """#!/bin/sh
while [ "$1" != -o ]; do source=$1; shift; done
for feature in {lacking}; do
    if grep -q "^#define $feature 1$" "$source"; then echo "no $feature" >&2; exit 1; fi
done
: > "$2"
"""


class Needs(unittest.TestCase):
    def setUp(self):
        self.room = tempfile.TemporaryDirectory()
        self.addCleanup(self.room.cleanup)
        self.kernels, self.sources = embed.read_table(SHADERS), embed.Sources(SHADERS)
        self.features = sorted({need for kernel in self.kernels for need in kernel.interface.needs})

    def glslc(self, name, *lacking):
        path = pathlib.Path(self.room.name) / name
        path.write_text(FAKE.format(lacking=" ".join(lacking) or "''"), encoding="utf-8")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return str(path)

    def compilers(self, glslc, newer=None, lacks=()):
        said = io.StringIO()
        with contextlib.redirect_stderr(said):
            found = embed.compilers(argparse.Namespace(glslc=glslc, newer=newer), self.kernels, self.sources, lacks)
        return dict(zip((kernel.name for kernel in self.kernels), found)), said.getvalue()

    def of(self, feature):
        return {kernel.name for kernel in self.kernels if feature in kernel.interface.needs}

    def test_all_there(self):
        good = self.glslc("good")
        found, said = self.compilers(good)
        self.assertEqual(set(found.values()), {good})
        self.assertEqual(said, "")

    def test_one_is_lacking(self):
        self.assertGreater(len(self.features), 2)
        for feature in self.features:
            poor = self.glslc("poor", feature)
            found, said = self.compilers(poor)
            self.assertEqual({name for name, glslc in found.items() if glslc is None}, self.of(feature))
            self.assertEqual(said.count("\n"), 1)
            self.assertTrue(said.startswith(f"{poor} lacks {feature}: the Vulkan plugin is built without "), said)
            self.assertEqual(set(said.strip().split(" without ")[1].split(", ")), self.of(feature))

    def test_a_second_compiler(self):
        feature = self.features[0]
        poor, newer = self.glslc("poor", feature), self.glslc("newer")
        found, said = self.compilers(poor, newer)
        self.assertEqual({name for name, glslc in found.items() if glslc == newer}, self.of(feature))
        self.assertNotIn(None, found.values())
        self.assertEqual(said, "")

    def test_a_known_lack_is_not_probed(self):
        found, said = self.compilers(self.glslc("poor", self.features[0]), lacks=self.features[:1])
        self.assertEqual({name for name, glslc in found.items() if glslc is None}, self.of(self.features[0]))
        self.assertEqual(said, "")


if __name__ == "__main__":
    unittest.main()
