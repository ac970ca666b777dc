#!/usr/bin/env python3
"""Writes tokenizers.json: tokenizers of several kinds with small vocabularies, texts, and what the package `tokenizers`
makes of them. Needs tokenizers and sentencepiece."""
import json
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tokenizers"))
import kinds  # noqa: E402

CHOSEN = ("byte_level_gpt4 nfc nfkd strip_accents nmt replace bert_parts whitespace digits split_contiguous split_invert "
          "fixed_length wordpiece wordpiece_cased unigram unigram_first unigram_never byte_fallback bpe_unknown "
          "bpe_suffix bpe_prefix word_level").split()


def main():
    texts = list(kinds.texts(22, seed=7))
    made = []
    for name, tokenizer in kinds.kinds(0.4):
        if name not in CHOSEN:
            continue
        ids = [e.ids for e in tokenizer.encode_batch(texts, add_special_tokens=False)]
        made.append({"name": name, "tokenizer": json.loads(tokenizer.to_str()), "ids": ids,
                     "decoded": [tokenizer.decode(i) for i in ids] if tokenizer.decoder else None})
    assert len(made) == len(CHOSEN)
    with open(HERE / "tokenizers.json", "w", encoding="utf-8") as out:
        json.dump({"texts": texts, "kinds": made}, out, ensure_ascii=False, separators=(",", ":"))
        out.write("\n")


if __name__ == "__main__":
    main()
