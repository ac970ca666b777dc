"""Element types, and how NumPy's become Portico's."""
import numpy as np

from portico._native import InvalidError


class DType:
    """An element type: portico.float32, float16, bfloat16, int32 or bool_. Equal to NumPy's type of that name."""

    __slots__ = ("name", "number", "size", "numpy", "is_float")

    def __init__(self, name, number, size, storage, is_float):
        self.name, self.number, self.size, self.is_float = name, number, size, is_float
        self.numpy = np.dtype(storage)  # how NumPy keeps it: bfloat16, which it has not, as its bits

    def __repr__(self):
        return f"portico.{'bool_' if self.name == 'bool' else self.name}"

    def __str__(self):
        return self.name

    def __hash__(self):
        return hash(self.name)

    def __eq__(self, other):
        if isinstance(other, DType):
            return self is other
        try:
            return dtype(other) is self
        except (TypeError, InvalidError):
            return False


float32 = DType("float32", 0, 4, np.float32, True)
float16 = DType("float16", 1, 2, np.float16, True)
bfloat16 = DType("bfloat16", 2, 2, np.uint16, True)
int32 = DType("int32", 3, 4, np.int32, False)
bool_ = DType("bool", 4, 1, np.bool_, False)

ALL = (float32, float16, bfloat16, int32, bool_)
_BY_NAME = {d.name: d for d in ALL}
_BY_NAME.update({"f32": float32, "f16": float16, "bf16": bfloat16, "i32": int32, "bool_": bool_, "float": float32,
                 "half": float16, "int": int32, "float64": float32, "int64": int32, "int16": int32, "int8": int32,
                 "uint8": int32, "uint16": int32})
_BY_NUMPY = {np.dtype(np.float32): float32, np.dtype(np.float16): float16, np.dtype(np.int32): int32,
             np.dtype(np.bool_): bool_}
_KINDS = {float: float32, int: int32, bool: bool_}


def dtype(of):
    """The type that a name, a NumPy type, a Python type or another library's type (by its name) stands for. 64-bit
    floats and whole numbers of every size become float32 and int32, as there are no others."""
    if isinstance(of, DType):
        return of
    if isinstance(of, str):
        name = of
    elif of in _KINDS:
        return _KINDS[of]
    else:
        try:
            name = np.dtype(of).name
        except TypeError:
            name = str(of).rsplit(".", 1)[-1]  # torch.bfloat16
    if name not in _BY_NAME:
        raise InvalidError(f"there is no element type '{name}'; there are float32, float16, bfloat16, int32 and bool")
    return _BY_NAME[name]


def is_device(target):
    """Whether what x.to(...) was given names a device, and not a type."""
    if isinstance(target, str):
        return target not in _BY_NAME
    return hasattr(target, "driver")  # portico.Device


def of_numpy(array_type):
    """The type whose elements NumPy keeps in that way, or None."""
    return _BY_NUMPY.get(array_type)


_RANKS = {bool_: 0, int32: 1, float16: 2, bfloat16: 2, float32: 3}


def promote(a, b):
    """The type of a result of two, by NumPy's rules with 32 bits in place of 64: of a whole number and a float the float,
    of two floats the wider, of the two half types float32."""
    if a is b:
        return a
    ranks = _RANKS[a], _RANKS[b]
    if ranks[0] == ranks[1]:
        return float32
    return a if ranks[0] > ranks[1] else b


def to_bfloat16(x):
    """float32 to the bits of bfloat16, rounded to nearest even."""
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32)
    rounded = (bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)
    return np.where(np.isnan(x), np.uint32(0x7FC0), rounded).astype(np.uint16)


def from_bfloat16(bits):
    return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)


def to_storage(array, wanted=None):
    """(array of a type that Portico has, as NumPy keeps it, contiguous; its type). Copies only what has to change."""
    found = of_numpy(array.dtype)
    if found is None:
        kind = array.dtype.kind
        if array.dtype.name == "bfloat16":  # of ml_dtypes
            found, array = bfloat16, array.view(np.uint16)
        elif kind == "f":
            found, array = float32, array.astype(np.float32)
        elif kind in "iu":
            if array.size and (array.max() > 0x7FFFFFFF or array.min() < -0x80000000):
                raise InvalidError(f"a value of type {array.dtype} does not fit into int32")
            found, array = int32, array.astype(np.int32)
        else:
            raise InvalidError(f"NumPy's type {array.dtype} has no counterpart; there are float32, float16, bfloat16, "
                               "int32 and bool")
    if wanted is not None and wanted is not found:
        if found is bfloat16:
            array = from_bfloat16(array)
        array = to_bfloat16(array.astype(np.float32)) if wanted is bfloat16 else array.astype(wanted.numpy)
        found = wanted
    if not array.flags.c_contiguous or not array.flags.aligned:
        array = np.ascontiguousarray(array)  # which would make a scalar a vector
    return array, found
