#!/usr/bin/env python3
"""Writes unicode_sets.def: which code points the `tokenizers` package takes for what, where that is not what the newest
Unicode says, because its parts keep tables of older versions. The package is asked about every code point; whether the
normalisation forms know a mark can only be seen beside another one.

    python3 core/text/make_unicode_sets.py      # needs tokenizers and unicodedata2
"""
import os
import sys

import tokenizers
import unicodedata2
from tokenizers import normalizers, pre_tokenizers

POINTS = [c for c in range(0x110000) if not 0xD800 <= c <= 0xDFFF]
NFD, NFKD, NFKC = normalizers.NFD(), normalizers.NFKD(), normalizers.NFKC()


def bert(**chosen):
    off = dict.fromkeys(("clean_text", "handle_chinese_chars", "strip_accents", "lowercase"), False)
    return normalizers.BertNormalizer(**{**off, **chosen})


def dropped(normalizer):
    return [c for c in POINTS if normalizer.normalize_str(chr(c)) == ""]


def is_inert(c):
    """Do the forms neither change nor move nor compose c, although Unicode's would?"""
    text = chr(c)
    if unicodedata2.normalize("NFKD", text) != NFKD.normalize_str(text):
        return True
    if not unicodedata2.combining(text):
        return False
    around = "a\u0334", "a\u0315", "a\u0316", "a\u0345"  # classes 1, 232, 220, 240, each in front and behind
    texts = [text.join((before, "")) for before in around] + ["a" + text + mark[1] for mark in around]
    return all(NFD.normalize_str(t) == t for t in texts)


def composes_anew():
    """Second halves, without a combining class, of pairs that the package does not compose."""
    for c in POINTS:
        parts = unicodedata2.normalize("NFD", chr(c))
        if len(parts) > 1 and unicodedata2.normalize("NFKC", parts) == chr(c) and NFKC.normalize_str(parts) != chr(c):
            yield from (ord(part) for part in parts[1:] if not unicodedata2.combining(part))


def ranges(points):
    found = []
    for c in sorted(set(points)):
        if found and found[-1][1] == c - 1:
            found[-1][1] = c
        else:
            found.append([c, c])
    return found


def main():
    punctuation = pre_tokenizers.Punctuation()
    sets = {
        "PUNCTUATION": [c for c in POINTS if len(punctuation.pre_tokenize_str("a" + chr(c) + "b")) == 3],
        "CONTROL": dropped(bert(clean_text=True)),
        "NONSPACING": dropped(bert(strip_accents=True)),
        "MARK": dropped(normalizers.StripAccents()),
        "INERT": [c for c in POINTS if is_inert(c)] + list(composes_anew()),
    }
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "unicode_sets.def")
    with open(path, "w", encoding="ascii") as out:
        out.write(f"/* Made by make_unicode_sets.py from tokenizers {tokenizers.__version__}; INERT from what Unicode "
                  f"{unicodedata2.unidata_version} knows and\n * it does not. Ranges of code points;\n * whoever includes it defines the macros that it wants. */\n")
        for name in sets:
            out.write(f"#ifndef TEXT_{name}\n#define TEXT_{name}(first, last)\n#endif\n")
        for name, points in sets.items():
            line = ""
            for first, last in ranges(points):
                row = f"TEXT_{name}(0x{first:X}, 0x{last:X})"
                if len(line) + len(row) > 119:
                    out.write(line + "\n")
                    line = ""
                line += (" " if line else "") + row
            out.write(line + "\n")
            out.write(f"#undef TEXT_{name}\n")
            print(f"{name}: {len(points)} code points, {len(ranges(points))} ranges", file=sys.stderr)


if __name__ == "__main__":
    main()
