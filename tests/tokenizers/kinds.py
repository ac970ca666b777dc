"""Tokenizers of every kind that a tokenizer.json can describe, small ones trained here, and texts to try them on. Needs
the `tokenizers` package for the former."""
import json
import pathlib
import random
import unicodedata

ROOT = pathlib.Path(__file__).resolve().parents[2]

# What PCRE2 of Debian 12 knows. `tokenizers` cuts words by tables of Unicode 16.
UNICODE = "14.0.0"

PHRASES = """Hello, world! I'll go; you've 12,345.67 left. don't DON'T it's
Der Fluß schäumt über die größten Türme. Ça coûte 3 €, n'est-ce pas ?
Быстрая коричневая лиса прыгает через ленивую собаку. Ёлка, й, ї
速い茶色の狐が怠け者の犬を飛び越える。東京都は日本の首都です。カタカナ ｶﾀｶﾅ ﬁ ﬂ ① ㎏
빠른 갈색 여우가 게으른 개를 뛰어넘는다. 한국어
الثعلب البني السريع يقفز فوق الكلب الكسول، ١٢٣٤
तेज़ भूरी लोमड़ी आलसी कुत्ते के ऊपर कूदती है। १२३
สุนัขจิ้งจอกสีน้ำตาลกระโดดข้ามสุนัขขี้เกียจ
def f(x):\n\treturn x**2  # a comment\n\n   if (a == b && c != d) { printf("%d\\n", 0x1F); }
🙂👍🏽👩‍👩‍👧‍👦🇩🇪 emoji   many   blanks\t\ttabs\r\n\u3000\u00a0\u200b\ufeffmarks e\u0301 a\u0308\u0323 \u1e9b\u0323
""".splitlines()


def corpus():
    return PHRASES * 20 + [(ROOT / name).read_text() for name in ("README.md", "CONTRIBUTING.md")]


def assigned():
    """All code points but NUL and those that are unassigned or halves of a pair."""
    if unicodedata.unidata_version != UNICODE:
        raise ImportError(f"Python's Unicode is {unicodedata.unidata_version}, not {UNICODE}")
    return [c for c in range(1, 0x110000) if unicodedata.category(chr(c)) not in ("Cn", "Cs")]


def texts(count, seed, points=None):
    """Random strings: of all code points, of marks, of scripts, of words and blanks, of pieces of the phrases."""
    draw = random.Random(seed)
    points = points or assigned()
    marks = [c for c in points if unicodedata.category(chr(c))[0] == "M"]
    composed = [c for c in points if unicodedata.decomposition(chr(c))]
    blanks = " \t\n\r\u00a0\u2003\u3000\u180e\u200b\u2028"
    joined = "\n".join(PHRASES)

    def part():
        kind = draw.randrange(8)
        if kind == 0:
            return chr(draw.choice(points))
        if kind == 1:
            return draw.choice(joined) + "".join(chr(draw.choice(marks)) for _ in range(draw.randrange(1, 4)))
        if kind == 2:
            return unicodedata.normalize(draw.choice(("NFC", "NFD")), chr(draw.choice(composed)))
        if kind == 3:
            return draw.choice(blanks) * draw.randrange(1, 4)
        if kind == 4:
            start = draw.choice((0x20, 0x20, 0xA0, 0x370, 0x400, 0x900, 0x3040, 0x4E00, 0xAC00, 0x1F600))
            return "".join(chr(start + draw.randrange(80)) for _ in range(draw.randrange(1, 6)))
        if kind == 5:
            return draw.choice(("<s>", "[MASK]", "<|end|>", "</s>", "[UNK]", " <s> ", "word1", "é"))
        first = draw.randrange(len(joined))
        return joined[first : first + draw.randrange(1, 20)]

    known = set(points)
    while count:
        text = "".join(part() for _ in range(draw.randrange(1, 12)))
        if all(ord(c) in known for c in text):
            count -= 1
            yield text


def tiny_charsmap():
    """A normalisation table of SentencePiece's making, from rules of ours."""
    import pieces
    import sentencepiece.sentencepiece_model_pb2 as pb

    model = pb.ModelProto()
    model.ParseFromString(pieces.train("unigram"))
    return model.normalizer_spec.precompiled_charsmap


GPT4_WORDS = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
              r"|\s+(?!\S)|\s+")


class Maker:
    """Makes and trains tokenizers of `tokenizers`; vocabularies of `size` times the usual one."""

    def __init__(self, size):
        from tokenizers import AddedToken

        self.size = size
        self.lines = corpus()
        self.marks = [AddedToken("<s>", special=True), AddedToken("[MASK]", lstrip=True, special=True),
                      AddedToken("<|end|>", rstrip=True, normalized=False), AddedToken("word1", single_word=True)]
        # Of tokens that are sought in normalised text, `tokenizers` decodes the normalised form: "_word1".
        self.fixed_marks = self.marks[:3] + [AddedToken("word1", single_word=True, normalized=False)]

    def made(self, model, trainer, normalizer=None, pre=None, decoder=None, marks=None):
        from tokenizers import Tokenizer

        tokenizer = Tokenizer(model)
        if normalizer:
            tokenizer.normalizer = normalizer
        if pre:
            tokenizer.pre_tokenizer = pre
        if decoder:
            tokenizer.decoder = decoder
        tokenizer.train_from_iterator(self.lines, trainer)
        tokenizer.add_tokens(marks or self.marks)
        return tokenizer

    def bytewise(self, normalizer=None, before=None, marks=None, **more):
        from tokenizers import decoders, models, pre_tokenizers as P, trainers

        level = P.ByteLevel(**{"add_prefix_space": False, **more})
        trainer = trainers.BpeTrainer(vocab_size=256 + int(164 * self.size), show_progress=False,
                                      initial_alphabet=P.ByteLevel.alphabet())
        return self.made(models.BPE(), trainer, normalizer, P.Sequence(before + [level]) if before else level,
                         decoders.ByteLevel(), marks)

    def words(self, normalizer=None, pre=None):
        """Byte-level, and each word begins with a blank, so that cuts show."""
        return self.bytewise(normalizer, [pre] if pre else [], add_prefix_space=True, use_regex=not pre)

    def wordpiece(self, **more):
        from tokenizers import decoders, models, normalizers as N, pre_tokenizers as P, processors, trainers

        trainer = trainers.WordPieceTrainer(vocab_size=int(600 * self.size), show_progress=False,
                                            limit_alphabet=int(300 * self.size),
                                            special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]"])
        tokenizer = self.made(models.WordPiece(unk_token="[UNK]"), trainer, N.BertNormalizer(**more),
                              P.BertPreTokenizer(), decoders.WordPiece())
        tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
        return tokenizer

    def unigram(self, normalizer, **more):
        from tokenizers import decoders, models, pre_tokenizers as P, trainers

        trainer = trainers.UnigramTrainer(vocab_size=400, show_progress=False, unk_token="<unk>",
                                          special_tokens=["<pad>", "<unk>"])
        return self.made(models.Unigram(), trainer, normalizer, P.Metaspace(**more), decoders.Metaspace(**more))

    def characters(self, fuse, fallback, **more):
        from tokenizers import Tokenizer, decoders, models, normalizers as N, pre_tokenizers as P, trainers

        special = ["<unk>"] + ([f"<0x{b:02X}>" for b in range(256)] if fallback else [])
        trainer = trainers.BpeTrainer(vocab_size=256 * fallback + int(444 * self.size),
                                      limit_alphabet=int(150 * self.size), show_progress=False, special_tokens=special,
                                      **more)
        model = models.BPE(unk_token="<unk>", fuse_unk=fuse, byte_fallback=fallback, **more)
        prepare = N.Sequence([N.Prepend("▁"), N.Replace(" ", "▁")]) if not more else None
        tokenizer = self.made(model, trainer, prepare, P.WhitespaceSplit() if more else None, marks=self.fixed_marks)
        if fallback:  # they are bytes, not words of the text
            saved = json.loads(tokenizer.to_str())
            saved["added_tokens"] = [t for t in saved["added_tokens"] if not t["content"].startswith("<0x")]
            tokenizer = Tokenizer.from_str(json.dumps(saved))
            tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(),
                                                   decoders.Strip(" ", 1, 0)])
        return tokenizer

    def clip(self):
        """CLIP's, whose cuts leave out what is between words."""
        from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers as P, processors, trainers

        ends = [AddedToken("<|startoftext|>", special=True), AddedToken("<|endoftext|>", special=True)]
        trainer = trainers.BpeTrainer(vocab_size=512 + int(164 * self.size), show_progress=False,
                                      end_of_word_suffix="</w>", initial_alphabet=P.ByteLevel.alphabet())
        prepare, cuts = clip_words()
        tokenizer = self.made(models.BPE(end_of_word_suffix="</w>"), trainer, prepare, cuts, decoders.ByteLevel(), ends)
        saved = json.loads(tokenizer.to_str())
        vocab = saved["model"]["vocab"]
        for end in sorted(c + "</w>" for c in P.ByteLevel.alphabet()):  # of which the corpus has not each
            vocab.setdefault(end, len(vocab))
        for token in saved["added_tokens"]:
            token["id"] = vocab.setdefault(token["content"], len(vocab))
        saved["model"]["unk_token"] = "<|endoftext|>"
        tokenizer = Tokenizer.from_str(json.dumps(saved))
        first, last = ((text, tokenizer.token_to_id(text)) for text in ("<|startoftext|>", "<|endoftext|>"))
        tokenizer.post_processor = processors.RobertaProcessing(last, first, trim_offsets=False, add_prefix_space=False)
        return tokenizer


def clip_words():
    """CLIP's normalizer and pre-tokenizer."""
    from tokenizers import Regex, normalizers as N, pre_tokenizers as P

    words = r"<\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"
    return (N.Sequence([N.NFC(), N.Replace(Regex(r"\s+"), " "), N.Lowercase()]),
            P.Sequence([P.Split(Regex(words), "removed", invert=True), P.ByteLevel(add_prefix_space=False)]))


def kinds(size=1.0):
    """(name, Tokenizer) of each kind; vocabularies of `size` times the usual one."""
    from tokenizers import Regex, models, normalizers as N, pre_tokenizers as P, trainers

    maker = Maker(size)
    yield "byte_level", maker.bytewise()
    yield "byte_level_prefix", maker.bytewise(add_prefix_space=True)
    yield "byte_level_gpt4", maker.bytewise(before=[P.Split(Regex(GPT4_WORDS), "isolated")], use_regex=False)
    for form in ("NFC", "NFD", "NFKC", "NFKD"):
        yield form.lower(), maker.bytewise(getattr(N, form)())
    yield "lowercase", maker.bytewise(N.Lowercase())
    yield "strip_accents", maker.bytewise(N.Sequence([N.NFD(), N.StripAccents(), N.Lowercase()]))
    yield "strip_accents_alone", maker.bytewise(N.StripAccents())
    yield "nmt", maker.bytewise(N.Sequence([N.Nmt(), N.Strip()]))
    yield "replace", maker.bytewise(N.Sequence([N.Replace(Regex(r"\s+"), " "), N.Replace("a", "bc"), N.Prepend("_")]),
                                    marks=maker.fixed_marks)
    yield "bert_cased", maker.words(N.BertNormalizer(lowercase=False), P.BertPreTokenizer())
    yield "bert_parts", maker.words(N.BertNormalizer(clean_text=False, strip_accents=True), P.BertPreTokenizer())
    yield "whitespace", maker.words(None, P.Whitespace())
    yield "whitespace_split", maker.words(None, P.WhitespaceSplit())
    yield "delimiter", maker.words(None, P.CharDelimiterSplit("é"))
    yield "fixed_length", maker.words(None, P.FixedLength(3))
    yield "digits", maker.words(None, P.Digits(individual_digits=False))
    yield "digits_each", maker.words(None, P.Digits(individual_digits=True))
    for behaviour in ("isolated", "removed", "merged_with_previous", "merged_with_next", "contiguous"):
        yield "punctuation_" + behaviour, maker.words(None, P.Punctuation(behaviour))
        yield "split_" + behaviour, maker.words(None, P.Split(Regex(r"[\s\h]+"), behaviour))
    yield "split_invert", maker.words(None, P.Split(Regex(r"\w+"), "removed", invert=True))
    yield "split_text", maker.words(None, P.Split("e ", "merged_with_previous"))
    yield "wordpiece", maker.wordpiece()
    yield "wordpiece_cased", maker.wordpiece(lowercase=False, handle_chinese_chars=False)
    yield "unigram", maker.unigram(N.NFKC())
    yield "unigram_first", maker.unigram(N.Precompiled(tiny_charsmap()), prepend_scheme="first")
    yield "unigram_never", maker.unigram(N.Sequence([N.Precompiled(tiny_charsmap()), N.Replace(Regex(" {2,}"), " ")]),
                                         prepend_scheme="never", split=False)
    yield "byte_fallback", maker.characters(True, True)
    yield "bpe_unknown", maker.characters(False, False)
    yield "bpe_fused", maker.characters(True, False)
    yield "bpe_suffix", maker.characters(False, False, end_of_word_suffix="</w>")
    yield "clip", maker.clip()
    yield "bpe_prefix", maker.characters(False, False, continuing_subword_prefix="##")
    trainer = trainers.WordLevelTrainer(vocab_size=int(300 * size), show_progress=False, special_tokens=["[UNK]"])
    yield "word_level", maker.made(models.WordLevel(unk_token="[UNK]"), trainer, None, P.Whitespace())
