"""The golden files: safetensors with tensors of F64, F32, I32 and U8, the same bytes each time they are made."""

import json
import struct

import numpy as np

DTYPES = {np.dtype(np.float64): "F64", np.dtype(np.float32): "F32", np.dtype(np.int32): "I32",
          np.dtype(np.uint8): "U8"}


def save(path, arrays, what, cases=None):
    """Write `arrays`; `cases`, the recipes, stand as JSON in __metadata__["cases"]. Says how many of `what` there are."""
    header, offset = {}, 0
    if cases is not None:
        header["__metadata__"] = {"cases": json.dumps(cases, separators=(",", ":"))}
    for name, array in arrays.items():
        end = offset + array.nbytes
        header[name] = {"dtype": DTYPES[array.dtype], "shape": list(array.shape), "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as out:
        out.write(struct.pack("<Q", len(text)) + text)
        for array in arrays.values():
            out.write(np.ascontiguousarray(array).tobytes())
    count = len(arrays) if cases is None else len(cases)
    print(f"{path.name}: {count} {what}, {path.stat().st_size:,} bytes")


def random_weights(model, seed, values_of):
    """Float32 values in a float64 model of torch: what values_of(name, values) makes of standard normal ones."""
    import torch  # not all that make golden files have it

    random = np.random.default_rng(seed)
    for name, parameter in model.named_parameters():
        values = np.asarray(values_of(name, random.standard_normal(tuple(parameter.shape))))
        parameter.data = torch.from_numpy(values.astype(np.float32)).double()
