#!/usr/bin/env python3
"""Write tests/golden/quants.gguf: random blocks of each quantised type, and what the gguf package makes of them in f32.

Scales are ordinary, tiny (subnormal in f16), zero and negative. Needs gguf and numpy; a second.

    python3 tests/golden/make_quants.py
"""

import pathlib

import gguf
import numpy as np

OUT = pathlib.Path(__file__).resolve().parent / "quants.gguf"
TYPES = {  # where the halves of a block are
    gguf.GGMLQuantizationType.Q8_0: [0],
    gguf.GGMLQuantizationType.Q4_0: [0],
    gguf.GGMLQuantizationType.Q4_1: [0, 2],
    gguf.GGMLQuantizationType.Q6_K: [208],
    gguf.GGMLQuantizationType.Q4_K: [0, 2],
    gguf.GGMLQuantizationType.Q5_K: [0, 2],
    gguf.GGMLQuantizationType.Q5_0: [0],
    gguf.GGMLQuantizationType.Q5_1: [0, 2],
    gguf.GGMLQuantizationType.Q2_K: [80, 82],
    gguf.GGMLQuantizationType.Q3_K: [108],
    gguf.GGMLQuantizationType.IQ4_NL: [0],
    gguf.GGMLQuantizationType.IQ4_XS: [0],
    gguf.GGMLQuantizationType.MXFP4: [],
}
ROWS, COLUMNS = 3, 512
HALVES = np.array([0.0123, -0.0371, 1.5, 0.0, 3e-7, -2e-5, 0.25, -11.0], dtype=np.float16)


def blocks(kind, offsets, random):
    weights, size = gguf.GGML_QUANT_SIZES[kind]
    data = random.integers(0, 256, (ROWS * COLUMNS // weights, size), dtype=np.uint8)
    for offset in offsets:
        data[:, offset : offset + 2] = random.choice(HALVES, (len(data), 1)).view(np.uint8)
    if kind == gguf.GGMLQuantizationType.MXFP4:  # a power of two: from subnormal to far above 1
        data[:, 0] = random.choice([1, 2, 3, 100, 125, 128, 131, 200], len(data))
    return data.reshape(ROWS, COLUMNS // weights * size)


def main():
    writer = gguf.GGUFWriter(OUT, "quants")
    for number, (kind, offsets) in enumerate(TYPES.items()):
        data = blocks(kind, offsets, np.random.default_rng(number + 1))
        writer.add_tensor(f"quant.{kind.name.lower()}", data, raw_dtype=kind)
        writer.add_tensor(f"dequant.{kind.name.lower()}", gguf.quants.dequantize(data, kind).astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    main()
