#!/usr/bin/env python3
"""minilm.py PORTICO FOLDER: portico embed against transformers in float64, on 1,000 sentences.

FOLDER is what `scripts/fetch-models minilm` prints: all-MiniLM-L6-v2. Skipped (77) without it. Needs numpy, torch and
transformers. Prints the largest cosine distance, which must be at most 1e-5."""

import hashlib
import pathlib
import random
import re
import subprocess
import sys
import tempfile

import numpy
import torch
import transformers

ROOT = pathlib.Path(__file__).resolve().parents[2]
HASH, SENTENCES, TOKENS, MOST = "53aa51172d142c89", 1000, 256, 1e-5


def sentences():
    words = re.findall(r"[A-Za-z']+", "".join((ROOT / name).read_text() for name in ("README.md", "CONTRIBUTING.md")))
    draw = random.Random(1)
    for _ in range(SENTENCES):
        count = draw.choice((3, 5, 8, 12, 20, 33, 60))
        first = draw.randrange(len(words) - count)
        yield " ".join(words[first : first + count]) + draw.choice((".", "! 12,5 %?", "", "… déjà vu 東京"))


def main(portico, folder):
    folder = pathlib.Path(folder)
    if not (folder / "model.safetensors").exists():
        print(f"skipped: there is no {folder}; scripts/fetch-models minilm downloads it")
        return 77
    found = hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()
    if not found.startswith(HASH):
        print(f"{folder}/model.safetensors is another file: its sha256 begins with {found[:16]}, not {HASH}")
        return 1
    texts = list(sentences())
    with tempfile.TemporaryDirectory() as work:
        pathlib.Path(work, "texts").write_text("\n".join(texts) + "\n")
        subprocess.run([portico, "embed", folder, "--input", f"{work}/texts", "--output", f"{work}/got.npy"], check=True)
        got = numpy.load(f"{work}/got.npy").astype(numpy.float64)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModel.from_pretrained(folder).double().eval()
    worst = 0.0
    for first in range(0, SENTENCES, 50):
        batch = tokenizer(
            texts[first : first + 50], padding=True, truncation=True, max_length=TOKENS, return_tensors="pt"
        )
        with torch.no_grad():
            hidden = model(**batch).last_hidden_state
        mask = batch["attention_mask"].unsqueeze(-1).double()
        want = ((hidden * mask).sum(1) / mask.sum(1)).numpy()
        here = got[first : first + 50]
        cosine = (want * here).sum(1) / numpy.linalg.norm(want, axis=1) / numpy.linalg.norm(here, axis=1)
        worst = max(worst, float((1 - cosine).max()))
    print(f"{SENTENCES} sentences: the largest cosine distance is {worst:.1e}, of at most {MOST:.0e}")
    return int(not worst <= MOST)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
