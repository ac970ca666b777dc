#!/usr/bin/env python3
"""convert.py PORTICO [tokenizers]: tokenizers in models that `portico convert` makes. A tiny Llama gets each tokenizer of
tests/golden/tokenizers.json and sentencepieces.json, and becomes a GGUF file and a folder again: the same ids of all
texts each time, or it is refused by what GGUF cannot say. With the word, the package `tokenizers` finds these ids in the
folder, too."""
import base64
import json
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "scripts"))
import make_folder

GOLDEN = pathlib.Path(__file__).resolve().parents[1] / "golden"
LEAST = 9  # of them that GGUF can say, of four kinds
tokenizers = None  # or the package


def run(portico, *arguments, text=None):
    done = subprocess.run([portico, *map(str, arguments)], input=text, capture_output=True, check=False)
    return done.returncode, done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace").strip()


def ids_of(portico, model, texts):
    lines = "".join(json.dumps(text, ensure_ascii=False) + "\n" for text in texts).encode("utf-8")
    code, out, err = run(portico, "tokenizer", "encode", model, "--json", "--special", text=lines)
    return [json.loads(line) for line in out.split("\n")[:-1]] if code == 0 else err


def convert(portico, name, folder, texts, size):
    """The kind that GGUF has; None where it refuses; or what is wrong."""
    want = ids_of(portico, folder, texts)
    if not isinstance(want, list):
        return f"wrong: {want}"
    make_folder.write_model(folder, size, (None, None))
    code, out, err = run(portico, "convert", folder, f"{folder}.gguf", "--json")
    if code:
        print(f"  {name}: {err.split(': ', 2)[-1]}")
        return None if "GGUF" in err else f"wrong: {err}"
    if json.loads(out)["other_ids"]:
        print(f"  {name}: converted, and some texts get other ids, as it says")
        return None
    if ids_of(portico, f"{folder}.gguf", texts) != want:
        return "wrong: other ids from GGUF"
    kind = run(portico, "inspect", f"{folder}.gguf")[1].split("tokenizer.ggml.model", 1)[1].split()[0]
    code, _, err = run(portico, "convert", f"{folder}.gguf", f"{folder}-again")
    if code:
        print(f"  {name}: {kind}, and not back: {err.split(': ', 2)[-1]}")
        return kind if "does not write" in err or "cannot say" in err else f"wrong: {err}"
    if ids_of(portico, f"{folder}-again", texts) != want:
        return "wrong: other ids from the folder"
    if tokenizers:
        theirs = tokenizers.Tokenizer.from_file(f"{folder}-again/tokenizer.json")
        if [e.ids for e in theirs.encode_batch(texts, add_special_tokens=False)] != want:
            return f"wrong: other ids from tokenizers {tokenizers.__version__}"
    return kind


def main(portico):
    kinds, wrong = {}, 0
    jsons = json.loads((GOLDEN / "tokenizers.json").read_text(encoding="utf-8"))
    pieces = json.loads((GOLDEN / "sentencepieces.json").read_text(encoding="utf-8"))
    for kind in jsons["kinds"]:
        for token in kind["tokenizer"]["added_tokens"]:  # how blanks beside them are treated GGUF cannot say
            token |= {"lstrip": False, "rstrip": False, "single_word": False}
    cases = [(k["name"], "tokenizer.json", json.dumps(k["tokenizer"], ensure_ascii=False).encode("utf-8"), jsons)
             for k in jsons["kinds"]]
    cases += [("pieces_" + m["name"], "tokenizer.model", base64.b64decode(m["model"]), pieces) for m in pieces["models"]]
    with tempfile.TemporaryDirectory() as work:
        for name, file, data, goldens in cases:
            folder = pathlib.Path(work, name)
            folder.mkdir()
            (folder / file).write_bytes(data)
            found = convert(portico, name, folder, goldens["texts"], 1000)
            if found:
                print(f"  {name}: {found}")
                kinds[found] = kinds.get(found, 0) + 1
            wrong += str(found).startswith("wrong")
    print(kinds, f"as tokenizers {tokenizers.__version__}" if tokenizers else "")
    return wrong > 0 or sum(kinds.values()) < LEAST or not {"llama", "t5", "bert", "gpt2"} <= set(kinds)


if __name__ == "__main__":
    if sys.argv[2:] == ["tokenizers"]:
        import tokenizers
    sys.exit(main(sys.argv[1]))
