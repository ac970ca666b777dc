#!/usr/bin/env python3
"""Writes tokenizers.json, sentencepieces.json and marian.json: tokenizers of several kinds with small vocabularies, texts,
and what the packages `tokenizers`, `sentencepiece` and `transformers` make of them."""
import base64
import json
import pathlib
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tokenizers"))
import folders  # noqa: E402
import kinds  # noqa: E402
import pieces  # noqa: E402

CHOSEN = ("byte_level_gpt4 nfc nfkd strip_accents nmt replace bert_parts whitespace digits split_contiguous split_invert "
          "fixed_length wordpiece wordpiece_cased unigram unigram_first unigram_never byte_fallback bpe_unknown "
          "bpe_suffix bpe_prefix word_level").split()


PIECES = "unigram unigram_fold unigram_symbols unigram_across bpe bpe_bytes bpe_symbols char".split()


def write(name, content):
    with open(HERE / name, "w", encoding="utf-8") as out:
        json.dump(content, out, ensure_ascii=False, separators=(",", ":"))
        out.write("\n")


def make_pieces(texts):
    import sentencepiece

    for name in PIECES:
        options = pieces.MODELS[name]
        if options.get("normalization_rule_name") == "nfkc_cf":  # its table is too large to be kept
            options["normalization_rule_name"] = "identity"
        model = pieces.train(name, 250)
        processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        ids = processor.encode(texts)
        yield {"name": name, "model": base64.b64encode(model).decode(), "ids": ids, "decoded": processor.decode(ids)}


def make_marian(texts):
    import transformers

    for name, make in list(folders.MARIAN.items())[:-1]:
        with tempfile.TemporaryDirectory() as place:
            make(pathlib.Path(place))
            tokenizer = transformers.MarianTokenizer.from_pretrained(place)
            files = {path.name: base64.b64encode(path.read_bytes()).decode() if path.suffix == ".spm"
                     else json.loads(path.read_text(encoding="utf-8")) for path in sorted(pathlib.Path(place).iterdir())}
            yield {"name": name, "files": files, "sides": list(folders.marian_ids(tokenizer, texts))}


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
    write("tokenizers.json", {"texts": texts, "kinds": made})
    write("marian.json", list(make_marian(texts)))
    write("sentencepieces.json", {"texts": texts, "models": list(make_pieces(texts))})


if __name__ == "__main__":
    main()
