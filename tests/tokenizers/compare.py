#!/usr/bin/env python3
"""compare.py PORTICO [--random] [--count N] [--only PART] [--seed S]: `portico tokenizer` against the packages
`tokenizers` and `sentencepiece`: the same ids, and the same texts back. On tests/golden/tokenizers.json and
sentencepieces.json, which need no package; with --random instead, which needs these, transformers and gguf, on N (10,000)
random strings for each kind of kinds.py, words.py, pieces.py and folders.py, of code points that all know (kinds.py says
which)."""
import argparse
import base64
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import kinds

PIECES = pathlib.Path(__file__).resolve().parents[1] / "golden" / "sentencepieces.json"
MARIAN = pathlib.Path(__file__).resolve().parents[1] / "golden" / "marian.json"
GOLDENS = pathlib.Path(__file__).resolve().parents[1] / "golden" / "tokenizers.json"


SPECIAL = (0, 1)  # of Marian: </s> and <unk>


def lines_of(portico, action, path, values, special=True, more=()):
    text = "".join(json.dumps(v, ensure_ascii=False) + "\n" for v in values)
    done = subprocess.run([portico, "tokenizer", action, path, "--json"] + ["--special"] * (special and action == "encode")
                          + list(more), input=text.encode("utf-8"), capture_output=True, check=False)
    if done.returncode:
        return done.stderr.decode("utf-8", "replace").strip()
    return [json.loads(line) for line in done.stdout.decode("utf-8").split("\n")[:-1]]


def same(name, given, ours, theirs):
    """How many differ; shows the first two."""
    if isinstance(ours, str):
        print(f"{name}: {ours}")
        return 1
    wrong = [i for i, (a, b) in enumerate(zip(ours, theirs)) if a != b]
    print(f"{name}: {len(wrong)} differ" if wrong else f"{name}: {len(given)} are the same")
    for i in wrong[:2]:
        print(f"  {given[i]!r:.300}\n    ours   {ours[i]!r:.300}\n    theirs {theirs[i]!r:.300}")
    return len(wrong) + (len(ours) != len(theirs))


def compare(portico, name, saved, texts, ids, decoded):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "tokenizer.json")
        pathlib.Path(path).write_text(saved, encoding="utf-8")
        wrong = same(name, texts, lines_of(portico, "encode", path, texts), ids)
        if decoded:
            wrong += same(name + ", decoded", ids, lines_of(portico, "decode", path, ids), decoded)
    return wrong


def compare_pieces(portico, name, model, texts, ids, decoded):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "m.model")
        pathlib.Path(path).write_bytes(model)
        wrong = same(name, texts, lines_of(portico, "encode", path, texts, special=False), ids)
        return wrong + same(name + ", decoded", ids, lines_of(portico, "decode", path, ids), decoded)


# Whose sums are so far apart that double precision, which GGUF's readers have, finds the same way.
AS_GGUF = ("unigram", "unigram_nmt", "unigram_bare", "unigram_across", "bpe_bytes")


def compare_golden_pieces(portico):
    goldens = json.loads(PIECES.read_text(encoding="utf-8"))
    return sum(compare_pieces(portico, "pieces_" + m["name"], base64.b64decode(m["model"]), goldens["texts"], m["ids"],
                              m["decoded"]) for m in goldens["models"])


def compare_goldens(portico):
    goldens = json.loads(GOLDENS.read_text(encoding="utf-8"))
    return sum(compare(portico, kind["name"], json.dumps(kind["tokenizer"], ensure_ascii=False), goldens["texts"],
                       kind["ids"], kind["decoded"]) for kind in goldens["kinds"])


def compare_sentencepiece(portico, arguments, texts):
    import pieces
    import sentencepiece

    print(f"sentencepiece {sentencepiece.__version__}")
    wrong = 0
    for name in pieces.MODELS:
        if arguments.only not in "pieces_" + name:
            continue
        model = pieces.train(name)
        processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        ids = processor.encode(texts)
        if name in AS_GGUF:
            with tempfile.TemporaryDirectory() as folder:
                path = os.path.join(folder, "m.gguf")
                pieces.as_gguf(model, path)
                wrong += same("pieces_" + name + " in GGUF", texts, lines_of(portico, "encode", path, texts, False), ids)
        wrong += compare_pieces(portico, "pieces_" + name, model, texts, ids, processor.decode(ids))
    return wrong


def compare_sides(portico, name, folder, sides):
    """`sides`: of source and target texts, the ids that transformers makes of them with their ends, and of the second the
    texts that it makes of the ids."""
    wrong = 0
    for more, (texts, ids, decoded) in zip(([], ["--target"]), sides):
        side = "target" if more else "source"
        wrong += same(f"{name}, {side}", texts, lines_of(portico, "encode", folder, texts, more=["--ends", *more]), ids)
        if decoded:
            plain = [[i for i in line if i not in SPECIAL] for line in ids]  # which `decode` shows
            ours = lines_of(portico, "decode", folder, plain, more=more)
            wrong += same(f"{name}, {side}, decoded", plain, [text.strip() for text in ours], decoded)
    return wrong


def compare_marian(portico, arguments, texts):
    import folders
    import transformers

    wrong = 0
    for name, make in folders.MARIAN.items():
        if arguments.only not in "folder_" + name:
            continue
        with tempfile.TemporaryDirectory() as folder:
            make(pathlib.Path(folder))
            theirs = transformers.MarianTokenizer.from_pretrained(folder)
            wrong += compare_sides(portico, "folder_" + name, folder, folders.marian_ids(theirs, texts))
    return wrong


def compare_golden_marian(portico):
    wrong = 0
    for golden in json.loads(MARIAN.read_text(encoding="utf-8")):
        with tempfile.TemporaryDirectory() as folder:
            for file, content in golden["files"].items():
                data = base64.b64decode(content) if file.endswith(".spm") else json.dumps(content).encode()
                (pathlib.Path(folder) / file).write_bytes(data)
            wrong += compare_sides(portico, golden["name"], folder, golden["sides"])
    return wrong


def compare_folders(portico, arguments, texts):
    import folders
    import sentencepiece
    import transformers

    print(f"transformers {transformers.__version__}")
    transformers.logging.set_verbosity_error()
    wrong = 0
    for name, make in folders.FOLDERS.items():
        if arguments.only not in "folder_" + name:
            continue
        with tempfile.TemporaryDirectory() as folder:
            make(pathlib.Path(folder))
            theirs = transformers.AutoTokenizer.from_pretrained(folder)
            for ends in (False, True):
                ids = theirs(texts, add_special_tokens=ends, verbose=False)["input_ids"]
                ours = lines_of(portico, "encode", folder, texts, more=["--ends"] * ends)
                wrong += same(f"folder_{name}{' with its ends' * ends}", texts, ours, ids)
    for name, (make, file, front, behind) in folders.PIECES.items():
        if arguments.only not in "folder_" + name:
            continue
        with tempfile.TemporaryDirectory() as folder:
            make(pathlib.Path(folder))
            theirs = sentencepiece.SentencePieceProcessor(model_file=os.path.join(folder, file))
            ids = [front + i + behind for i in theirs.encode(texts)]
            wrong += same("folder_" + name, texts, lines_of(portico, "encode", folder, texts, False, ["--ends"]), ids)
    return wrong + compare_marian(portico, arguments, texts)


def compare_words(portico, arguments, texts):
    """Pre-tokenizers by their names in GGUF, and as a tokenizer.json: the same ids, and each text back from them."""
    import words

    wrong = 0
    for name, tokenizer in words.tokenizers_of(texts[:1000]):
        if arguments.only not in "words_" + name:
            continue
        ids = [e.ids for e in tokenizer.encode_batch(texts, add_special_tokens=False)]
        wrong += compare(portico, "words_" + name, tokenizer.to_str(), texts, ids, texts)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "m.gguf")
            words.as_gguf(name, tokenizer, path)
            wrong += same(f"words_{name} in GGUF", texts, lines_of(portico, "encode", path, texts, False), ids)
            wrong += same(f"words_{name} in GGUF, decoded", ids, lines_of(portico, "decode", path, ids), texts)
    return wrong


def compare_package(portico, arguments, points):
    import tokenizers


    print(f"tokenizers {tokenizers.__version__}; {len(points)} code points of Unicode {kinds.UNICODE}")
    texts = list(kinds.texts(arguments.count, arguments.seed, points))
    wrong = 0
    for name, tokenizer in kinds.kinds():
        if arguments.only in name:
            ids = [e.ids for e in tokenizer.encode_batch(texts, add_special_tokens=False)]
            decoded = [tokenizer.decode(i) for i in ids] if tokenizer.decoder else None
            wrong += compare(portico, name, tokenizer.to_str(), texts, ids, decoded)
    wrong += compare_words(portico, arguments, texts)
    return wrong + compare_sentencepiece(portico, arguments, texts) + compare_folders(portico, arguments, texts)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("portico")
    parser.add_argument("--random", action="store_true")
    parser.add_argument("--count", type=int, default=10000)
    parser.add_argument("--only", default="")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    if arguments.random:
        try:
            points = kinds.assigned()
        except ImportError as error:
            print(f"skipped: {error}")
            return 77
        return compare_package(arguments.portico, arguments, points) > 0
    goldens = compare_goldens, compare_golden_pieces, compare_golden_marian
    return sum(part(arguments.portico) for part in goldens) > 0


if __name__ == "__main__":
    sys.exit(main())
