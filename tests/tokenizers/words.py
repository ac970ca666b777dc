"""Pre-tokenizers that GGUF files name, as the tokenizer.json of their models have them (expressions are Oniguruma's). Needs
the package `tokenizers`."""
import json

import kinds

CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
BLANKS = r"|\s*[\r\n]+|\s+(?!\S)|\s+"
SIGNS = r"| ?[^\s\p{L}\p{N}]+[\r\n]*"
QWEN2 = CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}" + SIGNS + BLANKS


def cased(behind):
    sign = r"[^\r\n\p{L}\p{N}]?"
    return f"{sign}{UPPER}*{LOWER}+{behind}|{sign}{UPPER}+{LOWER}*{behind}"


# Expressions, of which each cuts what those before it left; or what has a class of its own.
WORDS = {
    "gpt-2": ["level"],
    "smollm": ["digits", "level"],
    "starcoder": ["digits", "level"],
    "llama-bpe": [kinds.GPT4_WORDS],
    "qwen2": [QWEN2],
    "gpt-4o": [cased(CONTRACTIONS + "?") + r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*" + BLANKS],
    "tekken": [cased("") + r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*" + BLANKS],
    "deepseek-coder": [r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", "[一-龥ࠀ-一가-퟿]+", "digits"],
    "deepseek-v3": [r"\p{N}{1,3}", "[一-龥぀-ゟ゠-ヿ]+",
                    r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"""
                    r"| ?[\p{P}\p{S}]+[\r\n]*" + BLANKS],
    "bloom": [" ?[^(\\s|[.,!?…。，、।۔،])]+"],
}
WHOLE = ("llama-bpe", "tekken")  # a word that is a token is one, whatever the merges make of it


def tokenizers_of(texts):
    """(name, Tokenizer) of each, all of one vocabulary: learned from text that is not cut, so that cuts show."""
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers as P, trainers

    plain = P.ByteLevel(add_prefix_space=False, use_regex=False)
    learner = Tokenizer(models.BPE())
    learner.pre_tokenizer = plain
    learner.train_from_iterator(kinds.corpus() + list(texts),
                                trainers.BpeTrainer(vocab_size=2000, show_progress=False,
                                                    initial_alphabet=P.ByteLevel.alphabet()))
    saved = json.loads(learner.to_str())["model"]
    merges = [tuple(m) if isinstance(m, list) else tuple(m.split(" ")) for m in saved["merges"]]
    special = {"level": P.ByteLevel(add_prefix_space=False), "digits": P.Digits(individual_digits=True)}
    for name, cuts in WORDS.items():
        tokenizer = Tokenizer(models.BPE(vocab=saved["vocab"], merges=merges, ignore_merges=name in WHOLE))
        steps = [special[c] if c in special else P.Split(Regex(c), "isolated") for c in cuts]
        tokenizer.pre_tokenizer = P.Sequence(steps + ([] if "level" in cuts else [plain]))
        tokenizer.decoder = decoders.ByteLevel()
        yield name, tokenizer


def as_gguf(name, tokenizer, path):
    import gguf

    saved = json.loads(tokenizer.to_str())["model"]
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(name)
    tokens = sorted(saved["vocab"], key=saved["vocab"].get)
    writer.add_token_list([token.encode("utf-8") for token in tokens])
    writer.add_token_types([1] * len(tokens))
    writer.add_token_merges([m if isinstance(m, str) else " ".join(m) for m in saved["merges"]])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
