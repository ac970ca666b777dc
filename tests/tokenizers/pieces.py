"""Small models of SentencePiece, trained here. Needs the `sentencepiece` package."""
import os
import tempfile

import kinds

RULES = [("ﬁ", "fi"), ("①", "1"), ("㎏", "kg"), ("ｶ", "カ"), ("ｶﾞ", "ガ"), ("é", "e"), ("e\u0301", "e"), ("\u3000", " "),
         ("\t", " "), ("\n", " "), ("\u200b", " "), ("ß", "ss"), ("A", "a"), ("Ab", "X"), ("🙂", ":)"), ("\u00ad", "")]

PLAIN = dict(normalization_rule_name="identity")
TABLE = dict(normalization_rule_tsv=True)
SYMBOLS = dict(user_defined_symbols=["<|end|>", "word1", " <s> ", "e\u0301"], control_symbols=["[MASK]"])

MODELS = {
    "unigram": dict(model_type="unigram", **TABLE),
    "unigram_nmt": dict(model_type="unigram", normalization_rule_name="nmt_nfkc"),
    "unigram_fold": dict(model_type="unigram", normalization_rule_name="nfkc_cf", byte_fallback=True, vocab_size=700),
    "unigram_symbols": dict(model_type="unigram", **TABLE, **SYMBOLS),
    "unigram_bare": dict(model_type="unigram", **PLAIN, add_dummy_prefix=False, remove_extra_whitespaces=False),
    "unigram_suffix": dict(model_type="unigram", **PLAIN, treat_whitespace_as_suffix=True),
    "unigram_across": dict(model_type="unigram", **PLAIN, split_by_whitespace=False, byte_fallback=True, vocab_size=700),
    "bpe": dict(model_type="bpe", **PLAIN),
    "bpe_bytes": dict(model_type="bpe", **PLAIN, byte_fallback=True, vocab_size=700, remove_extra_whitespaces=False,
                      split_digits=True, allow_whitespace_only_pieces=True),
    "bpe_symbols": dict(model_type="bpe", **TABLE, **SYMBOLS, byte_fallback=True, vocab_size=700),
    "bpe_bare": dict(model_type="bpe", **TABLE, add_dummy_prefix=False, bos_id=-1, eos_id=-1, pad_id=3, unk_surface="?"),
    "t5": dict(model_type="unigram", normalization_rule_name="nmt_nfkc", pad_id=0, eos_id=1, unk_id=2, bos_id=-1),
    "char": dict(model_type="char", **TABLE, vocab_size=200, character_coverage=0.98),
}


def train(name, size=None):
    """The bytes of a model."""
    import sentencepiece

    options = dict(vocab_size=400, character_coverage=0.98, hard_vocab_limit=False, num_threads=1, minloglevel=2)
    options.update(MODELS[name])
    if size:
        options["vocab_size"] = size + 256 * bool(options.get("byte_fallback"))
    with tempfile.TemporaryDirectory() as folder:
        if options.pop("normalization_rule_tsv", False):
            table = os.path.join(folder, "rules.tsv")
            with open(table, "w", encoding="ascii") as out:
                for rule in RULES:
                    out.write("\t".join(" ".join(f"{ord(c):X}" for c in text) for text in rule) + "\n")
            options["normalization_rule_tsv"] = table
        sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(lines()),
                                                 model_prefix=os.path.join(folder, "m"), **options)
        with open(os.path.join(folder, "m.model"), "rb") as file:
            return file.read()


def as_gguf(model, path):
    """The same tokenizer as GGUF has it: t5 or llama."""
    import gguf
    import sentencepiece.sentencepiece_model_pb2 as pb

    proto = pb.ModelProto()
    proto.ParseFromString(model)
    normalizer, trainer = proto.normalizer_spec, proto.trainer_spec
    writer = gguf.GGUFWriter(path, "t5")
    writer.add_tokenizer_model("t5" if trainer.model_type == 1 else "llama")
    writer.add_token_list([piece.piece.encode() for piece in proto.pieces])
    writer.add_token_scores([piece.score for piece in proto.pieces])
    writer.add_token_types([piece.type for piece in proto.pieces])
    writer.add_add_space_prefix(normalizer.add_dummy_prefix)
    writer.add_remove_extra_whitespaces(normalizer.remove_extra_whitespaces)
    writer.add_unk_token_id(trainer.unk_id)
    if normalizer.precompiled_charsmap:
        writer.add_precompiled_charsmap(normalizer.precompiled_charsmap)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()


def lines():
    return [line for text in kinds.corpus() for line in text.splitlines() if 0 < len(line.encode()) < 4000]
