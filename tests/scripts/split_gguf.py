"""Cuts a GGUF file into parts: split_gguf.py FILE STEM PARTS writes STEM-00001-of-0000N.gguf and so on, the first with all
keys, each with its share of the tensors, as llama.cpp's llama-gguf-split does."""
import struct
import sys

SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
data = open(sys.argv[1], "rb").read()
at = 24


def take(form):
    global at
    value = struct.unpack_from("<" + form, data, at)
    at += struct.calcsize("<" + form)
    return value[0]


def skip(kind):
    global at
    if kind == 8:
        size = take("Q")
        at += size
    elif kind == 9:
        inner, count = take("I"), take("Q")
        for _ in range(count):
            skip(inner)
    else:
        at += SIZES[kind]


def text(value):
    return struct.pack("<Q", len(value)) + value.encode()


tensors, keys = struct.unpack_from("<QQ", data, 8)
for _ in range(keys):
    skip(8)
    skip(take("I"))
header, infos = data[24:at], []
for _ in range(tensors):
    begin = at
    skip(8)
    rank = take("I")
    at += 8 * rank + 4
    infos.append((data[begin:at], take("Q")))
base = (at + 31) // 32 * 32
ends = [offset for _, offset in infos[1:]] + [len(data) - base]
parts = int(sys.argv[3])
for part in range(parts):
    chosen = range(len(infos) * part // parts, len(infos) * (part + 1) // parts)
    first = infos[chosen[0]][1]
    extra = b"".join(text(key) + struct.pack("<IH", 2, value) for key, value in (("split.no", part), ("split.count", parts)))
    extra += text("split.tensors.count") + struct.pack("<Ii", 5, len(infos))
    out = b"GGUF" + struct.pack("<IQQ", 3, len(chosen), (keys if part == 0 else 0) + 3) + (header if part == 0 else b"")
    out += extra + b"".join(infos[i][0] + struct.pack("<Q", infos[i][1] - first) for i in chosen)
    out += bytes(-len(out) % 32) + data[base + first:base + ends[chosen[-1]]]
    with open(f"{sys.argv[2]}-{part + 1:05}-of-{parts:05}.gguf", "wb") as file:
        file.write(out)
