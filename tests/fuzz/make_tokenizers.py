#!/usr/bin/env python3
"""Writes the files in tokenizers/, small ones of each kind that fuzz_tokenizers.c reads, from tests/golden."""
import base64
import json
import pathlib

HERE = pathlib.Path(__file__).resolve().parent
GOLDEN = HERE.parent / "golden"
JSON = "byte_level_gpt4 strip_accents replace bert_parts whitespace split_invert wordpiece unigram_first byte_fallback".split()
PIECES = ("unigram_symbols", "bpe_symbols")


def shortened(tokenizer):
    model = tokenizer["model"]
    if isinstance(model["vocab"], list):
        model["vocab"] = model["vocab"][:40]
    else:
        kept = [text for text in model["vocab"] if model["vocab"][text] < 60 or len(text) == 1 and text.isascii()]
        model["vocab"] = {text: i for i, text in enumerate(kept)}
        for item in tokenizer["added_tokens"]:
            item["id"] = model["vocab"].get(item["content"], item["id"] % 50 + len(kept))
        pairs = [m if isinstance(m, list) else m.split(" ") for m in model.get("merges", [])]
        merges = [m for m in pairs if all(t in model["vocab"] for t in (*m, "".join(m)))]
        if "merges" in model:
            model["merges"] = merges
    return tokenizer


def bundle(**files):
    return b"".join(b"\x1e" + name.replace("__", ".").encode() + b"\n" + (content if isinstance(content, bytes) else (
        content if isinstance(content, str) else json.dumps(content)).encode()) for name, content in files.items())


def main():
    folder = HERE / "tokenizers"
    folder.mkdir(exist_ok=True)
    for kind in json.loads((GOLDEN / "tokenizers.json").read_text(encoding="utf-8"))["kinds"]:
        if kind["name"] in JSON:
            text = json.dumps(shortened(kind["tokenizer"]), ensure_ascii=False, separators=(",", ":"))
            (folder / (kind["name"] + ".json")).write_text(text, encoding="utf-8")
    models = {m["name"]: base64.b64decode(m["model"])
              for m in json.loads((GOLDEN / "sentencepieces.json").read_text(encoding="utf-8"))["models"]}
    for name in PIECES:
        (folder / (name + ".model")).write_bytes(models[name])
    token = {"content": "<|end|>", "lstrip": True, "rstrip": False, "single_word": True, "special": True}
    config = {"tokenizer_class": "BertTokenizerFast", "do_lower_case": True, "model_max_length": 512, "unk_token": "[UNK]",
              "added_tokens_decoder": {"7": token}, "additional_special_tokens": ["<x>", token]}
    (folder / "bert.folder").write_bytes(bundle(
        vocab__txt="[UNK]\n[CLS]\n[SEP]\nhello\nw\n##o\n##rld\n,\n", tokenizer_config__json=config,
        special_tokens_map__json={"mask_token": token}))
    (folder / "gpt2.folder").write_bytes(bundle(
        vocab__json={"a": 0, "b": 1, "ab": 2, "\u0120": 3, "H": 4}, merges__txt="#version: 0.2\na b\n",
        tokenizer_config__json={"add_prefix_space": True, "bos_token": "a", "add_bos_token": True},
        added_tokens__json={"<s>": 5, "<|end|>": 9}))
    (folder / "qwen2.folder").write_bytes(bundle(
        vocab__json={"a": 0, "b": 1}, merges__txt="", tokenizer_config__json={"tokenizer_class": "Qwen2Tokenizer"}))
    (folder / "llama.folder").write_bytes(bundle(
        tokenizer_config__json={"tokenizer_class": "LlamaTokenizer", "legacy": False, "eos_token": token},
        tokenizer__model=models["bpe"]))


if __name__ == "__main__":
    main()
