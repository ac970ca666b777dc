#!/usr/bin/env python3
"""speed.py PORTICO VOCABULARIES [--megabytes 10] [--rounds 5]: `portico tokenizer bench` beside the package `tokenizers`, on
one thread each, by turns; the median of the rounds, in processor time. VOCABULARIES is a folder with llama.cpp's
ggml-vocab-*.gguf, of which four become a tokenizer.json that both read. `tokenizers` gets the text line by line, which
is faster for it than the whole. Needs gguf and tokenizers."""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import tempfile
import time

os.environ.update(RAYON_NUM_THREADS="1", TOKENIZERS_PARALLELISM="false")

import gguf  # noqa: E402
import kinds  # noqa: E402
from tokenizers import Tokenizer, decoders, models, normalizers as N, pre_tokenizers as P  # noqa: E402


def load(folder, name):
    reader = gguf.GGUFReader(os.path.join(folder, f"ggml-vocab-{name}.gguf"))
    start = "tokenizer.ggml."
    return {k[len(start):]: v.contents() for k, v in reader.fields.items() if k.startswith(start)}


def byte_level(folder):
    file = load(folder, "gpt-2")
    merges = [tuple(m.split(" ")) for m in file["merges"]]
    tokenizer = Tokenizer(models.BPE(vocab={t: i for i, t in enumerate(file["tokens"])}, merges=merges))
    tokenizer.pre_tokenizer = P.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def wordpiece(folder):
    file = load(folder, "bert-bge")
    spelled = {}
    for i, (text, kind) in enumerate(zip(file["tokens"], file["token_type"])):
        spelled[text if kind == 3 else text[1:] if text.startswith("▁") else "##" + text] = i
    tokenizer = Tokenizer(models.WordPiece(vocab=spelled, unk_token="[UNK]"))
    tokenizer.normalizer, tokenizer.pre_tokenizer = N.BertNormalizer(), P.BertPreTokenizer()
    return tokenizer


def unigram(folder):
    file = load(folder, "nomic-bert-moe")
    tokenizer = Tokenizer(models.Unigram(list(zip(file["tokens"], file["scores"])), unk_id=3))
    tokenizer.normalizer = N.Precompiled(bytes(byte & 255 for byte in file["precompiled_charsmap"]))
    tokenizer.pre_tokenizer = P.Sequence([P.WhitespaceSplit(), P.Metaspace()])
    return tokenizer


def sentencepiece_bpe(folder):
    file = load(folder, "llama-spm")
    ids, score = {t: i for i, t in enumerate(file["tokens"])}, dict(zip(file["tokens"], file["scores"]))
    merges = []
    for text in file["tokens"]:
        pairs = [(text[:i], text[i:]) for i in range(1, len(text)) if text[:i] in ids and text[i:] in ids]
        merges += sorted(pairs, key=lambda pair: (ids[pair[0]], ids[pair[1]]))
    merges.sort(key=lambda pair: score[pair[0] + pair[1]], reverse=True)
    tokenizer = Tokenizer(models.BPE(vocab=ids, merges=merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.normalizer = N.Sequence([N.Prepend("▁"), N.Replace(" ", "▁")])
    return tokenizer


def text_of(size):
    files = sorted(p for kind in ("*.md", "core/**/*.c", "python/**/*.py") for p in kinds.ROOT.glob(kind))
    text = "".join(p.read_text(encoding="utf-8") for p in files) + "\n".join(kinds.PHRASES) * 60
    while len(text.encode()) < size:
        text += text
    return text.encode()[:size].decode("utf-8", "ignore")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("portico")
    parser.add_argument("vocabularies")
    parser.add_argument("--megabytes", type=float, default=10)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    text = text_of(int(arguments.megabytes * 1e6))
    lines = text.splitlines(True)
    with tempfile.TemporaryDirectory() as folder:
        source, saved = os.path.join(folder, "text"), os.path.join(folder, "tokenizer.json")
        pathlib.Path(source).write_text(text, encoding="utf-8")
        for make in (byte_level, wordpiece, unigram, sentencepiece_bpe):
            tokenizer, ours, theirs = make(arguments.vocabularies), [], []
            tokenizer.save(saved)
            for _ in range(arguments.rounds):
                done = subprocess.run([arguments.portico, "tokenizer", "bench", saved, source, "--seconds", "0", "--json"],
                                      stdout=subprocess.PIPE, check=True)
                ours.append(json.loads(done.stdout)["seconds"])
                begin = time.thread_time()
                tokenizer.encode_batch_fast(lines, add_special_tokens=False)
                theirs.append(time.thread_time() - begin)
            mine, other = statistics.median(ours), statistics.median(theirs)
            print(f"{make.__name__}: {len(text.encode()) / 1e6 / mine:.1f} MB/s, tokenizers "
                  f"{len(text.encode()) / 1e6 / other:.1f} MB/s, ratio {other / mine:.1f}", flush=True)


if __name__ == "__main__":
    main()
