#!/usr/bin/env python3
"""Write tests/fuzz/wav: a short WAV file of each coding that Portico reads, for tests/fuzz/fuzz_wav.c.

    python3 tests/fuzz/make_wav.py
"""

import math
import pathlib
import struct

OUT = pathlib.Path(__file__).resolve().parent / "wav"
SOUND = [0.7 * math.sin(0.3 * i) for i in range(24)]


def chunk(name, data):
    return name + struct.pack("<I", len(data)) + data + b"\0" * (len(data) % 2)


def file(coding, bits, channels, rate, data, extensible=False, size=None):
    block = channels * bits // 8
    form = struct.pack("<HHIIHH", 0xFFFE if extensible else coding, channels, rate, rate * block, block, bits)
    if extensible:
        form += struct.pack("<HHIH", 22, bits, 0, coding) + bytes.fromhex("000000001000800000aa00389b71")
    body = b"WAVE" + chunk(b"LIST", b"INFOx") + chunk(b"fmt ", form)
    body += chunk(b"data", data) if size is None else b"data" + struct.pack("<I", size) + data
    return b"RIFF" + struct.pack("<I", len(body)) + body


def whole(bits, values):
    top = 2 ** (bits - 1)
    return b"".join(int(v * top).to_bytes(bits // 8, "little", signed=True) for v in values)


FILES = {
    "pcm8": file(1, 8, 1, 8000, bytes(int(128 + 127 * v) for v in SOUND)),
    "pcm16": file(1, 16, 2, 44100, whole(16, SOUND)),
    "pcm24": file(1, 24, 1, 48000, whole(24, SOUND)),
    "pcm32": file(1, 32, 3, 16000, whole(32, SOUND)),
    "float32": file(3, 32, 1, 16000, struct.pack("<24f", *SOUND)),
    "float64": file(3, 64, 2, 11025, struct.pack("<24d", *SOUND)),
    "extensible": file(1, 16, 2, 22050, whole(16, SOUND), extensible=True),
    "pipe": file(1, 16, 1, 16000, whole(16, SOUND), size=0xFFFFFFFF),
}

OUT.mkdir(exist_ok=True)
for name, data in FILES.items():
    (OUT / f"{name}.wav").write_bytes(data)
    print(f"{name}.wav: {len(data)} bytes")
