"""ONNX models (https://onnx.ai): portico.onnx.load(path) opens one, and what it gives is called with arrays.

    model = portico.onnx.load("encoder.onnx")
    print(model.inputs)                        # [portico.onnx.Value(name="input_ids", dtype="int64", shape=("n", 16))]
    hidden, pooled = model(input_ids)          # or model(input_ids=...), or model({"input_ids": ...})

Operator sets, types and shapes are as in portico/onnx.h. portico.onnx_backend is the same for ONNX's own test runner.
"""
import ctypes
import os
from collections import OrderedDict
from dataclasses import dataclass

import numpy as np

from portico import _native as native, _runtime

RUNNERS = 4  # devices on which a model is kept ready

# pco_onnx_type -> NumPy's type, and ml_dtypes' where NumPy has none: bfloat16 and small floats are their bits without it.
_TYPES = {1: "float32", 2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 6: "int32", 7: "int64", 9: "bool", 10: "float16",
          11: "float64", 12: "uint32", 13: "uint64"}
_EXTENDED = {16: ("bfloat16", "uint16"), 17: ("float8_e4m3fn", "uint8"), 18: ("float8_e4m3fnuz", "uint8"),
             19: ("float8_e5m2", "uint8"), 20: ("float8_e5m2fnuz", "uint8"), 21: ("uint4", "uint8"),
             22: ("int4", "int8"), 23: ("float4_e2m1fn", "uint8"), 24: ("float8_e8m0fnu", "uint8"),
             25: ("uint2", "uint8"), 26: ("int2", "int8")}
_NUMBERS = {name: number for number, name in _TYPES.items()}
_NUMBERS.update({name: number for number, (name, _) in _EXTENDED.items()})


class _Value(native.Sized):
    _fields_ = [("size", ctypes.c_size_t), ("name", ctypes.c_char_p), ("type", ctypes.c_int32), ("shaped", ctypes.c_int),
                ("rank", ctypes.c_uint32), ("dims", ctypes.c_int64 * native.MAX_RANK),
                ("symbols", ctypes.c_char_p * native.MAX_RANK), ("optional", ctypes.c_int)]


class _Array(native.Sized):
    _fields_ = [("size", ctypes.c_size_t), ("name", ctypes.c_char_p), ("type", ctypes.c_int32), ("rank", ctypes.c_uint32),
                ("shape", ctypes.c_int64 * native.MAX_RANK), ("data", ctypes.c_void_p), ("bytes", ctypes.c_uint64)]


_PROBLEM = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_char_p)


def _c(name, result, *arguments, runs=True):
    return native._function(native._runs if runs else native._builds, f"pco_onnx_{name}", result, *arguments)


_handle, _out, _err, _u32 = ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p), ctypes.c_void_p, ctypes.c_uint32
_open = _c("open", ctypes.c_int, ctypes.c_char_p, _out, _err)
_parse = _c("parse", ctypes.c_int, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_char_p, _out, _err)
_close = _c("close", None, _handle)
_inputs, _outputs = (_c(name, _u32, _handle, runs=False) for name in ("inputs", "outputs"))
_input, _output = (_c(name, ctypes.c_int, _handle, _u32, ctypes.POINTER(_Value), _err, runs=False)
                   for name in ("input", "output"))
_opset = _c("opset", ctypes.c_int64, _handle, runs=False)
_nodes = _c("nodes", _u32, _handle, runs=False)
_check = _c("check", _u32, _handle, _PROBLEM, ctypes.c_void_p)
_has_operator = _c("has_operator", ctypes.c_int, ctypes.c_char_p, ctypes.c_char_p, runs=False)
_type_name = _c("type_name", ctypes.c_char_p, ctypes.c_int32, runs=False)
_runner_create = _c("runner_create", ctypes.c_int, _handle, _handle, _out, _err)
_runner_destroy = _c("runner_destroy", None, _handle)
_runner_merge = _c("runner_merge", None, _handle, ctypes.c_int, runs=False)
_run = _c("run", ctypes.c_int, _handle, ctypes.POINTER(_Array), _u32, _err)
_runner_output = _c("runner_output", ctypes.c_int, _handle, _u32, ctypes.POINTER(_Array), _err, runs=False)
_runner_executable = _c("runner_executable", ctypes.c_void_p, _handle, runs=False)


@dataclass(frozen=True)
class Value:
    """An input or output. dtype: ONNX's name of the element type, or None where the file does not say. shape: a tuple with
    a name (or None) for each dimension that the file leaves open; None where the file does not say the rank. optional:
    the file has values for this input."""

    name: str
    dtype: str
    shape: tuple
    optional: bool = False


@dataclass(frozen=True)
class Problem:
    """What cannot be run: the operator, its node (or first output, where the node has no name), and why."""

    operator: str
    node: str
    reason: str


def _text(value):
    return value.decode("utf-8", "replace")


def _numpy_type(number):
    if number in _TYPES:
        return np.dtype(_TYPES[number])
    name, bits = _EXTENDED[number]
    try:
        import ml_dtypes

        return np.dtype(getattr(ml_dtypes, name))
    except (ImportError, AttributeError):
        return np.dtype(bits)


def _as_array(name, value, wanted):
    """(contiguous array, number of its type), of what an input was given: arrays keep their type; Python's numbers, and
    lists of them, get the one that the model wants; bits stand for a type that NumPy has not."""
    array = np.asarray(value) if isinstance(value, (np.ndarray, np.generic)) or not hasattr(value, "__dlpack__") \
        else np.from_dlpack(value)
    if not isinstance(value, (np.ndarray, np.generic)) and not hasattr(value, "__dlpack__") and wanted in _TYPES:
        array = np.asarray(value, _TYPES[wanted])
    number = _NUMBERS.get(array.dtype.name)
    if wanted in _EXTENDED and array.dtype == np.dtype(_EXTENDED[wanted][1]):
        number = wanted
    if array.dtype.kind in "OSU":
        raise native.UnsupportedError(f"input '{name}' holds strings or objects, which are not run")
    if number is None:
        raise native.InvalidError(f"input '{name}' is of NumPy's type {array.dtype}, which no ONNX type is")
    if array.ndim > native.MAX_RANK:
        raise native.InvalidError(f"input '{name}' has {array.ndim} dimensions, of at most {native.MAX_RANK}")
    array = array.astype(array.dtype.newbyteorder("="), copy=False)
    return array if array.flags.c_contiguous else np.ascontiguousarray(array), number


class Model(_runtime.Opened):
    """An ONNX model: call it with its inputs, in their order or by name, for a list of its outputs as NumPy arrays.

    A device keeps a program for each set of shapes, the last few of them; the first call with new shapes makes it. Calls of
    several threads wait for each other; close() or `with` gives memory back. Use load() to open one."""

    def __init__(self, handle, device, label, merge):
        self._context = _runtime.context()
        self._device = device
        self._label = label
        self._merge = merge
        self._runners = OrderedDict()  # session -> runner
        self.handle = handle
        self.inputs = self._values(_inputs, _input)
        self.outputs = self._values(_outputs, _output)
        self.opset = _opset(handle)
        self.nodes = _nodes(handle)
        with self._context.use():
            self._context._models.add(self)

    def _values(self, count, describe):
        found = []
        for i in range(count(self.handle)):
            value = _Value()
            native.check(describe(self.handle, i, value, native.error_buffer()))
            shape = tuple(value.dims[d] if value.dims[d] >= 0 else _text(value.symbols[d] or b"") or None
                          for d in range(value.rank)) if value.shaped else None
            dtype = _text(_type_name(value.type)) if value.type else None
            found.append((Value(_text(value.name), dtype, shape, bool(value.optional)), value.type))
        if count is _inputs:
            self._wanted = [number for _, number in found]
        return [value for value, _ in found]

    def check(self):
        """[portico.onnx.Problem] for every operator without a mapping; what depends on shapes, the first call tells."""
        found = []
        with self._context.use():
            _check(self._open(), _PROBLEM(lambda _, op, node, why: found.append(Problem(*map(_text, (op, node, why))))),
                   None)
        return found

    def __call__(self, *arrays, device=None, **named):
        """Runs the model. arrays: values of its inputs in their order, or one dict {name: value}; named: by name. device: as
        in PORTICO_BACKEND; None: the one that load() was given, that of `with portico.device(...)`, or the best there is.
        Errors: InvalidError for a wrong name, type or shape; UnsupportedError with what cannot be run."""
        if len(arrays) == 1 and isinstance(arrays[0], dict):
            named, arrays = {**arrays[0], **named}, ()
        if len(arrays) > len(self.inputs):
            raise native.InvalidError(f"{len(arrays)} inputs for {self._label}, which takes {len(self.inputs)}")
        given = dict(zip((x.name for x in self.inputs), arrays))
        for name in named:
            if name in given:
                raise native.InvalidError(f"input '{name}' is given twice")
        given.update(named)
        wanted = {x.name: number for x, number in zip(self.inputs, self._wanted)}
        kept, operands = [], (_Array * max(len(given), 1))()
        for i, (name, value) in enumerate(given.items()):
            array, number = _as_array(name, value, wanted.get(name))
            kept.append((array, native.encoded(name, "the name of an input")))
            operands[i] = _Array(name=kept[-1][1], type=number, rank=array.ndim, data=array.ctypes.data, bytes=array.nbytes)
            operands[i].shape[:array.ndim] = array.shape
        device = _runtime.device_spec(device) or self._device or _runtime.current_device()
        with self._context.use():
            runner = self._runner(self._context.session(device))
            native.check(_run(runner, operands, len(given), native.error_buffer()))
            return [self._result(runner, i) for i in range(len(self.outputs))]

    def _result(self, runner, index):
        found = _Array()
        native.check(_runner_output(runner, index, found, native.error_buffer()))
        result = np.empty(tuple(found.shape[:found.rank]), _numpy_type(found.type))
        if found.bytes:
            ctypes.memmove(result.ctypes.data, found.data, found.bytes)
        return result

    def _runner(self, session):
        session.check_open()
        runner = self._runners.get(session)
        if runner is None:
            runner = ctypes.c_void_p()
            native.check(_runner_create(session.handle, self._open(), runner, native.error_buffer()))
            _runner_merge(runner, int(bool(self._merge)))
            self._runners[session] = runner
            if len(self._runners) > RUNNERS:
                _runner_destroy(self._runners.popitem(last=False)[1])
        self._runners.move_to_end(session)
        self._last = runner
        return runner

    def statistics(self):
        """Of the program of the last call: nodes, parts, cpu_nodes, arena_bytes and more; None where nothing had to run."""
        with self._context.use():
            self._open()
            executable = _runner_executable(self._last) if self._runners else None
            if not executable:
                return None
            stats = native.ExecutableStats()
            native.check(native.executable_inspect(executable, stats, native.error_buffer()))
        return {name: getattr(stats, name) for name, _ in stats._fields_ if name != "size"}

    def _held(self):
        runners = list(self._runners.values())
        self._runners.clear()
        return _destroy, (runners, self.handle)

    def __repr__(self):
        if self.handle is None:
            return "<portico.onnx.Model, closed>"
        return f"<portico.onnx.Model {self._label}: operator set {self.opset}, {self.nodes} nodes>"


def _destroy(held):
    runners, handle = held
    for runner in runners:
        _runner_destroy(runner)
    _close(handle)


def load(model, *, device=None, folder=None, merge=True):
    """Opens an ONNX model: the path of a file, or the bytes of one.

    device: where it runs if a call names no other, as in PORTICO_BACKEND. folder: where weights outside of bytes lie; those
    of a file lie beside it. merge: attention, norms and activations that the exporter has taken apart are put together again,
    which is faster; False is for comparing. Errors: FileError; UnsupportedError: an operator set that is not read."""
    device = _runtime.device_spec(device)  # before there is something that would have to be closed
    handle = ctypes.c_void_p()
    if isinstance(model, (bytes, bytearray, memoryview)):
        data = bytes(model)
        where = None if folder is None else native.encoded(os.fspath(folder), "folder")
        native.check(_parse(data, len(data), where, handle, native.error_buffer()))
        return Model(handle, device, "from memory", merge)
    path = os.fspath(model)
    native.check(_open(native.encoded(path, "path"), handle, native.error_buffer()))
    return Model(handle, device, os.path.basename(path), merge)


def has_operator(name, domain=""):
    """Is there a mapping for an operator of this name and domain ("": ONNX's own)?"""
    return bool(_has_operator(native.encoded(domain, "domain"), native.encoded(name, "name")))
