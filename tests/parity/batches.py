"""The batches of a training, in the order of Portico, written a second time: text of characters, tab-separated pairs
with characters or byte-level BPE, dates.

A batch is (source, ids, labels): tensors of token ids, source None for a text, labels -100 where there is nothing to
predict. Shuffling is Fisher and Yates with Philox 4x32-10 (Salmon et al. 2011).
"""

import re

import torch

import generate

SHUFFLE, BATCHES, WINDOW, DATES, SPLIT = 0x54520001, 0x54520002, 0x54520003, 0x54520004, 0x54520005
POOL = 16  # batches of dates that are made and sorted at once
MASK = 0xFFFFFFFF
IGNORE = -100


def philox(seed, purpose, epoch, index):
    """Four words: counter (index, epoch, purpose) under the key `seed`."""
    c = [index & MASK, index >> 32, epoch, purpose]
    k0, k1 = seed & MASK, seed >> 32
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(b >> 32) ^ c[1] ^ k0, b & MASK, (a >> 32) ^ c[3] ^ k1, a & MASK]
        k0, k1 = (k0 + 0x9E3779B9) & MASK, (k1 + 0xBB67AE85) & MASK
    return c


def shuffled(count, seed, purpose, epoch):
    order = list(range(count))
    for i in range(count, 1, -1):
        words = philox(seed, purpose, epoch, i)
        k = ((words[0] << 32 | words[1]) * i) >> 64
        order[i - 1], order[k] = order[k], order[i - 1]
    return order


class Text:
    """Windows of characters, side by side from an offset that changes each epoch; the end of the file is held out."""

    def __init__(self, config, exported, path):
        data, text = config["data"], path.read_bytes()
        self.seed, self.rows, self.context = config.get("seed", 0), config["batch_size"], data["context_length"]
        cut = int(len(text) * (1 - data.get("held_out", 0.1)))
        index = {token: i for i, token in enumerate(exported["vocab"])}
        self.parts = [torch.tensor([index[c] for c in part.decode("ascii")]) for part in (text[:cut], text[cut:])]

    def batch(self, ids, starts):
        return (None, torch.stack([ids[a : a + self.context] for a in starts]),
                torch.stack([ids[a + 1 : a + 1 + self.context] for a in starts]))

    def train(self):
        ids, epoch = self.parts[0], 0
        count = (len(ids) - self.context) // self.context
        while True:
            begin = philox(self.seed, WINDOW, epoch, 0)[0] * self.context >> 32
            order = shuffled(count, self.seed, SHUFFLE, epoch)
            for batch in shuffled(count // self.rows, self.seed, BATCHES, epoch):
                yield self.batch(ids, [begin + w * self.context for w in
                                       order[batch * self.rows : (batch + 1) * self.rows]])
            epoch += 1

    def held_out(self):
        ids = self.parts[1]
        starts = [w * self.context for w in range((len(ids) - 1) // self.context)]
        for first in range(0, len(starts), self.rows):
            yield self.batch(ids, starts[first : first + self.rows])


# GPT-2's words (Radford et al. 2019). Python's \w has letters, numbers and the underscore.
WORDS = re.compile(r"'s|'t|'re|'ve|'m|'ll|'d| ?[^\W\d_]+| ?\d+| ?(?:[^\s\w]|_)+|\s+(?!\S)|\s+")


def byte_letters():
    """The printable letter that stands for each byte in a byte-level vocabulary."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    letters, more = {b: chr(b) for b in plain}, 256
    for b in range(256):
        if b not in letters:
            letters[b], more = chr(more), more + 1
    return letters


class Tokenizer:
    """Characters, or byte-level BPE when there are merges."""

    def __init__(self, vocab, merges):
        self.index = {token: i for i, token in enumerate(vocab)}
        self.ranks = {tuple(merge.split(" ")): i for i, merge in enumerate(merges or [])}
        self.letters, self.known = byte_letters(), {}

    def word(self, word):
        parts = [self.letters[b] for b in word.encode()]
        while len(parts) > 1:
            rank, at = min((self.ranks.get(pair, len(self.ranks)), i) for i, pair in enumerate(zip(parts, parts[1:])))
            if rank == len(self.ranks):
                break
            pair, merged, i = (parts[at], parts[at + 1]), [], 0
            while i < len(parts):
                both = tuple(parts[i : i + 2]) == pair
                merged.append("".join(pair) if both else parts[i])
                i += 2 if both else 1
            parts = merged
        return [self.index[part] for part in parts]

    def encode(self, text):
        if not self.ranks:
            return [self.index[c] for c in text]
        for word in WORDS.findall(text):
            if word not in self.known:
                self.known[word] = self.word(word)
        return [i for word in WORDS.findall(text) for i in self.known[word]]


def padded(pairs, widths, exported):
    """A batch of (ids of the source, ids of the target), padded to the widths."""
    pad, start, end = (exported[k] for k in ("pad_token_id", "decoder_start_token_id", "eos_token_id"))
    def rows(lists, width, filler):
        return torch.tensor([ids + [filler] * (width - len(ids)) for ids in lists])
    return (rows([source for source, _ in pairs], widths[0], pad),
            rows([[start] + target for _, target in pairs], widths[1], pad),
            rows([target + [end] for _, target in pairs], widths[1], IGNORE))


def bucket_of(buckets, length):
    return next(i for i, b in enumerate(buckets) if b >= length)


class Pairs:
    """Lines with columns between tabs; which are held out follows from their numbers."""

    def __init__(self, config, exported, path):
        data, self.exported = config["data"], exported
        self.seed, self.rows = config.get("seed", 0), config["batch_size"]
        self.buckets = data["source_buckets"], data["target_buckets"]
        context, threshold = data["context_length"], int(data.get("held_out", 0.1) * 2**32)
        sides = [Tokenizer(exported[f"{s}_vocab"], exported.get(f"{s}_merges")) for s in ("encoder", "decoder")]
        columns = data.get("source_column", 1), data.get("target_column", 2)
        self.parts = [], []
        for number, line in enumerate(path.read_text(encoding="utf-8").removesuffix("\n").split("\n")):
            texts = line.removesuffix("\r").split("\t")
            source, target = (side.encode(texts[column - 1]) for side, column in zip(sides, columns))
            if exported.get("add_eos_to_source"):
                source.append(exported["eos_token_id"])
            if len(source) <= context and len(target) + 1 <= context:
                self.parts[philox(0, SPLIT, 0, number)[0] < threshold].append((source, target))

    def cuts(self, pairs, order):
        """Batches of like lengths, each with the widths of its buckets."""
        def key(i):
            source, target = pairs[i]
            return bucket_of(self.buckets[1], len(target) + 1), bucket_of(self.buckets[0], len(source))
        order = sorted(order, key=key)
        for first in range(0, len(order), self.rows):
            batch = [pairs[i] for i in order[first : first + self.rows]]
            longest = max(len(s) for s, _ in batch), max(len(t) + 1 for _, t in batch)
            yield batch, [b[bucket_of(b, n)] for b, n in zip(self.buckets, longest)]

    def train(self):
        pairs, epoch = self.parts[0], 0
        while True:
            cuts = list(self.cuts(pairs, shuffled(len(pairs), self.seed, SHUFFLE, epoch)))
            for i in shuffled(len(cuts), self.seed, BATCHES, epoch):
                yield padded(*cuts[i], self.exported)
            epoch += 1

    def held_out(self):
        for batch, widths in self.cuts(self.parts[1], range(len(self.parts[1]))):
            yield padded(batch, widths, self.exported)


class Dates:
    """Made from the seed, an epoch of POOL batches at a time. Validation is not written here."""

    def __init__(self, config, exported, path):
        self.seed, self.rows, self.exported = config.get("seed", 0), config["batch_size"], exported
        self.buckets, self.days = config["data"]["source_buckets"], generate.days_of("train")

    def written(self, index):
        """Pair number `index`: what is written, and the ISO form."""
        words = philox(self.seed, DATES, 0, index)
        day = self.days[words[0] * len(self.days) >> 32]
        text = generate.FORMS[words[1] * len(generate.FORMS) >> 32].format(**generate.fields(day))
        letters = words[2] * 100 >> 32
        return text.lower() if letters < 25 else text.upper() if letters < 35 else text, day.isoformat()

    def train(self):
        index = {token: i for i, token in enumerate(self.exported["vocab"])}
        epoch, count = 0, POOL * self.rows
        while True:
            pairs = [self.written(epoch * count + i) for i in range(count)]
            pairs = [([index[c] for c in s] + [self.exported["eos_token_id"]], [index[c] for c in t]) for s, t in pairs]
            bucket = [bucket_of(self.buckets, len(source)) for source, _ in pairs]
            order = sorted(shuffled(count, self.seed, SHUFFLE, epoch), key=lambda i: bucket[i])
            for batch in shuffled(POOL, self.seed, BATCHES, epoch):
                at = order[batch * self.rows : (batch + 1) * self.rows]
                widths = self.buckets[max(bucket[i] for i in at)], len(pairs[at[0]][1]) + 1
                yield padded([pairs[i] for i in at], widths, self.exported)
            epoch += 1

    def held_out(self):
        return iter(())


def open_data(config, exported, path):
    return {"text": Text, "pairs": Pairs, "dates": Dates}[config["data"]["kind"]](config, exported, path)
