"""Tensors: values, or expressions that are computed when their value is asked for."""
import math
import os
import weakref

import numpy as np

from portico import _dtypes, _graph, _native as native, _numbers, _runtime
from portico._dtypes import bool_, float32, int32
from portico._graph import trace

SCALAR_CACHE = 4096
DEPTH = 1000  # operations that wait behind each other before they are computed without being asked for


class Tensor:
    """An array of one element type on a device, computed when its value is asked for.

    Operators and methods follow NumPy: broadcasting, types (with 32 bits in place of 64; a Python number takes the type
    of the tensor beside it), axes. Values are asked for by numpy(), item(), tolist(), print, bool(), float(), int(),
    np.asarray(x), DLPack and portico.eval(x, y, ...), which computes several at once. A tensor never changes.

    shape: a tuple of int. dtype: portico.float32, float16, bfloat16, int32 or bool_.
    """

    __slots__ = ("shape", "dtype", "_node", "_index", "_data", "_own", "_device", "_depth", "_cut", "__weakref__")
    is_state = False

    def __init__(self, *_, **__):
        raise TypeError("portico.tensor(data) and portico.asarray(data) make tensors")

    def leaf_key(self):
        return self.shape, self.dtype.number

    def spec(self):
        return self.shape, self.dtype

    # ---- values ----

    def _values(self):
        """As NumPy keeps them (bfloat16 as its bits)."""
        if self._data is None:
            evaluate((self,))
        return self._data

    def numpy(self):
        """The values as a NumPy array that cannot be written to (copy() gives one that can); bfloat16 as float32."""
        data = self._values()
        if self.dtype is _dtypes.bfloat16:
            return _dtypes.from_bfloat16(data).reshape(self.shape)
        view = data.view()
        view.flags.writeable = False
        return view

    def __array__(self, dtype=None, copy=None):
        array = self.numpy()
        if dtype is not None and array.dtype != dtype:
            return array.astype(dtype)
        return array.copy() if copy else array

    def item(self):
        """The value of a tensor of one element, as a Python number."""
        if self.size != 1:
            raise native.InvalidError(f"item() is for tensors of one element; this one has the shape {self.shape}")
        return self.numpy().item()

    def tolist(self):
        return self.numpy().tolist()

    def __float__(self):
        return float(self.item())

    def __int__(self):
        return int(self.item())

    def __index__(self):
        if self.dtype is not int32 or self.shape:
            raise TypeError(f"a tensor of type {self.dtype} and shape {self.shape} is no index")
        return int(self.item())

    def __bool__(self):
        if self.size != 1:
            raise native.InvalidError(f"a tensor of shape {self.shape} is neither true nor false; use any() or all()")
        return bool(self.item())

    def __dlpack_device__(self):
        return 1, 0  # values lie in the host's memory

    def __dlpack__(self, **_):
        data = self._values()
        if self.dtype is _dtypes.bfloat16:
            raise native.UnsupportedError("bfloat16 has no DLPack export; x.astype('float32') has")
        return data.__dlpack__()

    def __repr__(self):
        if self._data is None and self._node is None:
            return f"portico.Tensor(an argument of the function that is compiled, shape={self.shape}, " \
                   f"dtype={self.dtype})"
        text = np.array2string(self.numpy(), separator=", ", prefix="portico.tensor(")
        more = "" if self.dtype in (float32, int32, bool_) else f", dtype={self.dtype}"
        more += f", device='{self._device}'" if self._device else ""
        return f"portico.tensor({text}{more})"

    def __format__(self, spec):
        return format(self.item(), spec) if spec else str(self)

    # ---- description ----

    @property
    def device(self):
        """The words for its device, or None: whichever is used when it is computed."""
        return self._device

    @property
    def ndim(self):
        return len(self.shape)

    @property
    def size(self):
        return math.prod(self.shape)

    @property
    def nbytes(self):
        return self.size * self.dtype.size

    def __len__(self):
        if not self.shape:
            raise TypeError("a tensor without dimensions has no length")
        return self.shape[0]

    def __iter__(self):
        return (self[i] for range_ in (range(len(self)),) for i in range_)

    def __hash__(self):
        return id(self)

    def __setitem__(self, index, value):
        raise TypeError("a tensor never changes; portico.where(condition, a, b) makes another one, and NumPy arrays can "
                        "be written to before they become tensors")

    def __contains__(self, value):
        return bool((self == value).any())

    def __deepcopy__(self, memo):
        return self

    def __reduce__(self):
        return _restore, (self.numpy().copy(), self.dtype.name)

    # NumPy leaves operators with one of its arrays to the tensor, and its functions to portico's of that name.
    __array_priority__ = 1000

    def __array_ufunc__(self, ufunc, method, *inputs, **keywords):
        from portico import _functions

        function = _functions.UFUNCS.get(ufunc.__name__)
        if method != "__call__" or keywords or function is None:
            inputs = [np.asarray(x) if isinstance(x, Tensor) else x for x in inputs]
            return getattr(ufunc, method)(*inputs, **keywords)
        return function(*inputs)

    def backward(self):
        """Adds d self / d p to p.grad of each parameter (portico.nn.Parameter) that this scalar depends on, as in
        PyTorch. The gradients are expressions, which the optimiser's step computes."""
        from portico._function import backward

        backward(self)

    def detach(self):
        """The same values, through which no gradient passes."""
        if not self.dtype.is_float:
            return self
        if trace.current is not None or trace.gradients:
            raise native.UnsupportedError("detach() where a function is compiled or differentiated; pass the value as an "
                                          "argument")
        return leaf(self._values(), self.dtype, self._device, own=self._own)

    def numel(self):
        """The number of elements."""
        return self.size


def _restore(array, name):
    return tensor(array, dtype=name)


def _make(shape, dtype, node, index, data, own, device, depth):
    made = object.__new__(Tensor)
    made.shape, made.dtype, made._node, made._index = shape, dtype, node, index
    made._data, made._own, made._device, made._depth = data, own, device, depth
    made._cut = False  # whether parameters were forgotten that it was computed from
    return made


def leaf(data, dtype, device=None, own=False):
    """A tensor of values that are there, as NumPy keeps them."""
    return _make(data.shape, dtype, None, 0, data, own, device, 0)


def placeholder(shape, dtype, device):
    """What stands for an argument while a function is compiled."""
    return _make(shape, dtype, None, 0, None, False, device, 0)


# ---- making tensors ----

def _device_or_current(device):
    return _runtime.device_spec(device) if device is not None else _runtime.current_device()


def _from_foreign(data):
    """An array of NumPy for what another library has: by DLPack, without a copy where it is in the host's memory."""
    kind = data.__dlpack_device__()[0]
    if int(kind) not in (1, 3, 11, 13):  # the host's, or what it can address
        raise native.InvalidError("the tensor is not in the host's memory; move it there first (.cpu())")
    try:
        return np.from_dlpack(data)
    except (RuntimeError, BufferError, TypeError) as error:
        if "bfloat16" in str(getattr(data, "dtype", "")):
            raise native.UnsupportedError("NumPy has no bfloat16; pass x.float()") from None
        raise native.InvalidError(f"the tensor cannot be taken over: {error}") from None


def _array(data):
    if isinstance(data, np.ndarray):
        return data
    if hasattr(data, "__dlpack__") and hasattr(data, "__dlpack_device__"):
        detach = getattr(data, "detach", None)
        return _from_foreign(detach() if detach is not None and not isinstance(data, Tensor) else data)
    if isinstance(data, (list, tuple)) and any(isinstance(x, Tensor) for x in data):
        return np.stack([np.asarray(x) for x in data])
    array = np.asarray(data)
    if array.dtype == object:
        raise native.InvalidError(f"{type(data).__name__} is no array of numbers; rows must be equally long")
    return array


def asarray(data, dtype=None, device=None):
    """A tensor of an array, number, nested list or tensor of another library (DLPack). An array of a type that Portico
    has is not copied: it must not change while the tensor, or an expression with it, is in use."""
    if isinstance(data, Tensor) and (dtype is None or _dtypes.dtype(dtype) is data.dtype) and device is None:
        return data
    if isinstance(data, Tensor):
        data = data if dtype is None else cast(data, _dtypes.dtype(dtype))
        return data if device is None else leaf(data._values(), data.dtype, _runtime.device_spec(device), data._own)
    array = _array(data)
    stored, found = _dtypes.to_storage(array, None if dtype is None else _dtypes.dtype(dtype))
    return leaf(stored, found, _device_or_current(device), own=not np.may_share_memory(stored, array))


def tensor(data, dtype=None, device=None):
    """A tensor with a copy of data: an array, a number, a nested list, a tensor of any library.

    dtype: float32, float16, bfloat16, int32 or bool, by name or as NumPy's type; None: as data has it, 64 bits as 32.
    device: as in PORTICO_BACKEND; None: that of the innermost `with portico.device(...)`, or any.
    Errors: InvalidError for whole numbers beyond 32 bits, rows of unequal length, types that there are not.
    """
    made = asarray(data, dtype, device)
    if isinstance(data, Tensor):
        return made
    if not made._own:
        made = leaf(made._data.copy(), made.dtype, made._device, own=True)
    return made


_scalars: dict = {}


def scalar(value, dtype):
    """A number as a tensor without dimensions: a constant of a function that is compiled, otherwise an operand, so that
    an expression with another number needs no other program."""
    if trace.current is not None:
        node = _graph.Node(_graph.SCALAR, (dtype.number, float(value)), (), (((), dtype),))
        return _make((), dtype, node, 0, None, False, None, 0)
    key = (value, dtype.number, math.copysign(1.0, value)) if value == 0 else (value, dtype.number)
    found = _scalars.get(key)
    if found is None:
        if dtype is int32 and not -0x80000000 <= value <= 0x7FFFFFFF:
            raise native.InvalidError(f"{value} does not fit into int32")
        with np.errstate(over="ignore"):
            data = np.asarray(value, np.float32)
            data = _dtypes.to_bfloat16(data).reshape(()) if dtype is _dtypes.bfloat16 else np.asarray(value, dtype.numpy)
        found = leaf(data, dtype, None, own=True)
        if len(_scalars) >= SCALAR_CACHE:
            _scalars.clear()
        _scalars[key] = found
    return found


def number_of(dtype):
    """Of an element type, for the attributes of operations."""
    return _dtypes.dtype(dtype).number


def ranked(axes, x):
    """Axes as a tuple; None: all."""
    if axes is None:
        return tuple(range(len(asarray(x).shape)))
    return (axes,) if isinstance(axes, int) else tuple(axes)


# ---- operations ----

_NUMBERS = (bool, int, float, np.number, np.bool_)


def _shape_attributes(shape):
    import struct

    if len(shape) > 8:
        raise native.InvalidError(f"{len(shape)} dimensions: a tensor has 8 at most")
    return struct.pack("=9q", len(shape), *shape, *(0,) * (8 - len(shape)))


def cast(x, dtype):
    if x.dtype is dtype:
        return x
    return apply(_numbers.CAST, (x,), dtype.number.to_bytes(8, "little"))


def _kind_of(value):
    """The type that a number has among tensors: the weakest of its kind."""
    return bool_ if isinstance(value, (bool, np.bool_)) else int32 if isinstance(value, (int, np.integer)) else float32


def common(operands):
    """Operands brought to one type as NumPy does; numbers take the type of the tensors beside them."""
    dtype, numbers = None, []
    for index, x in enumerate(operands):
        if isinstance(x, Tensor):
            dtype = x.dtype if dtype is None else _dtypes.promote(dtype, x.dtype)
        elif isinstance(x, _NUMBERS):
            numbers.append(index)
        else:
            operands[index] = x = asarray(x)
            dtype = x.dtype if dtype is None else _dtypes.promote(dtype, x.dtype)
    for index in numbers:
        kind = _kind_of(operands[index])
        if dtype is None or (kind.is_float and not dtype.is_float) or (dtype is bool_ and kind is int32):
            dtype = kind
    return [scalar(x, dtype) if isinstance(x, _NUMBERS) else cast(x, dtype) for x in operands]


def _same_device(a, b):
    if a == b:
        return a
    context = _runtime.context()
    with context.use():
        ids = context.session(a).id, context.session(b).id
    if ids[0] != ids[1]:
        raise native.InvalidError(f"operands are on different devices, {ids[0]} and {ids[1]}; "
                                  "portico.asarray(x, device=...) moves one")
    return a


_operand_names: dict = {}


def operand_names(op):
    """Of an operation, for messages."""
    if not _operand_names:
        from portico import ops

        for number, name in ops.NAMES.items():
            line = getattr(ops, name).__doc__.split("->")[0]
            _operand_names[number] = [word.split(":")[0].rstrip("?") for word in line.split() if ":" in word]
    return _operand_names.get(op, [])


def apply(op, operands, attributes, promote=(), states=()):
    """Records an operation; returns its results: a tensor, or a tuple of several. `promote` says which operands NumPy
    would bring to one type, `states` which are written."""
    if promote:
        operands = list(operands)
        promoted = common([operands[i] for i in promote])
        for index, x in zip(promote, promoted):
            operands[index] = x
    now = trace.current
    inputs, device, depth = [], None, 0
    for x in operands:
        if x is not None:
            if not isinstance(x, Tensor):
                x = asarray(x)
            if now is not None and x.is_state:
                x = now.current_of(x)
            if x._device is not None and x._device != device:
                device = x._device if device is None else _same_device(device, x._device)
            if x._depth > depth:
                depth = x._depth
        inputs.append(x)
    if device is None:
        device = _runtime.current_device()
    key = (op, attributes, tuple([None if x is None else (x.shape, x.dtype) for x in inputs]))
    specs = _graph._inferred.get(key)
    if specs is None:
        specs = _graph.infer(*key, operand_names(op))
    written = ()
    if states:
        written = tuple(operands[i] for i in states)
        for x in written:
            if not x.is_state:
                raise native.InvalidError(f"{_graph.Node(op, b'', (), ()).name()} writes to a portico.State, and what "
                                          f"it was given is a tensor")
    node = _graph.Node(op, attributes, tuple(inputs), specs, written)
    results = [_make(shape, dtype, node, index, None, False, device, depth + 1)
               for index, (shape, dtype) in enumerate(specs)]
    if written:
        if now is not None:
            now.wrote(node, results)
        elif trace.deferred is not None:
            trace.deferred.append(node)
            results = list(written)
        else:
            evaluate((), (node,))
            results = list(written)
    elif now is None:
        node.results = tuple([weakref.ref(x) for x in results])
        if depth and depth % DEPTH == 0 and not _differentiable(results[0]):
            evaluate(results)
    return results[0] if len(results) == 1 else tuple(results)


def _differentiable(x):
    _, leaves, _ = _graph.collect((x,), ())
    return any(leaf_.is_state and leaf_.requires_grad for leaf_ in leaves)


def _check_fresh(nodes):
    for node in nodes:
        for x in node.inputs:
            if x is not None and x.is_state and x.written > node.number:
                raise native.InvalidError(
                    f"this was computed from '{x.label}' as it was before it changed, and its value was not asked for "
                    "in time; ask for it, or call portico.eval, before the step that changes it")


def evaluate(tensors, effects=()):
    """Computes what has no value yet, all in one run."""
    pending = []
    for x in tensors:
        if x._data is None and not x.is_state:
            pending.append(x)
    if not pending and not effects:
        return
    if trace.current is not None:
        raise native.InvalidError("a value is asked for inside of a @portico.function, where it is not known yet; use "
                                  "portico.where in place of `if`, and print what the function returns")
    for x in pending:
        if x._node is None:
            raise native.InvalidError("this tensor stood for an argument of a function while that was compiled, and has "
                                      "no value; return what you need from the function")
    nodes, leaves, where = _graph.collect(pending, effects)
    cut = ()
    if any(leaf_.is_state or leaf_._cut for leaf_ in leaves):
        _check_fresh(nodes)
        cut = reached(nodes, leaves)
    device = pending[0]._device if pending else None
    if device is None:
        device = next((x._device for x in leaves if x._device is not None), None)
    if device is None:
        device = _runtime.current_device()
    context = _runtime.context()
    with context.use():
        session = _graph.session_of(context, leaves, None, device)
        key = _graph.key_of(nodes, leaves, where, pending)
        program = session.programs.get(key)
        if program is None:
            program = _graph.Program(session, nodes, leaves, pending)
            session.keep(key, program)
        else:
            session.programs.move_to_end(key)
        results = program.run(leaves)
    for x, data in zip(pending, results):
        x._cut = x._node is not None and id(x._node) in cut and x.dtype.is_float
        x._data, x._own, x._node, x._depth = data, True, None, 0


def reached(nodes, leaves):
    """The identities of the nodes whose results depend on parameters that gradients are wanted for."""
    found = {id(x) for x in leaves if x._cut or (x.is_state and x.requires_grad)}
    if found:
        for node in nodes:
            for x in node.inputs:
                if x is not None and (id(x) if x._node is None else id(x._node)) in found:
                    found.add(id(node))
                    break
    return found


# ---- states ----

_names = iter(range(1, 1 << 62))


class State(Tensor):
    """A tensor that operations write in place (portico.ops.state_write, adamw, sgd): a cache, a parameter, a moment. Its
    memory is the device's that first uses it, outlives runs, and is given back when the context is closed.

    data: its first value. label: for messages.
    """

    __slots__ = ("name", "label", "_session", "_dirty", "written", "grad")
    is_state = True
    requires_grad = False

    def __init__(self, data, dtype=None, device=None, label=None):
        first = tensor(data, dtype, device)
        self.shape, self.dtype, self._node, self._index = first.shape, first.dtype, None, 0
        self._device, self._depth, self._own, self._cut = first._device, 0, True, False
        self._data = first._values()  # what a device has not yet; None: it has the value
        self.name = f"state.{os.getpid()}.{next(_names)}"
        self.label = label or "state"
        self._session, self._dirty, self.written, self.grad = None, True, 0, None

    def leaf_key(self):
        return self.name

    def place(self, session):
        """Before a program of the session is made."""
        if self._session is session:
            return
        if self._session is not None and self._session.handle is not None:
            raise native.InvalidError(f"'{self.label}' is on device {self._session.id}, and what is computed with it on "
                                      f"{session.id}; state.to(device) or model.to(device) moves it")
        if self._data is None:
            raise native.InvalidError(f"'{self.label}' was on device {self._session.id}, whose context was closed")
        self._session, self._dirty = session, True

    def ready(self, session):
        """Writes the value to the device, when a program has made the state there."""
        if self._dirty:
            data = self._data
            status = native.session_write_state(session.handle, self.name.encode(), data.ctypes.data, data.nbytes,
                                                native.error_buffer())
            if status == native.NotFoundError.status:  # nothing in the program needs its value
                return
            native.check(status)
            self._dirty, self._data = False, None  # the device has it now

    def _values(self):
        if trace.current is not None:
            raise native.InvalidError(f"the value of '{self.label}' is asked for inside of a @portico.function")
        if self._session is None or self._dirty:
            return self._data
        if self._session.handle is None:
            raise native.InvalidError(f"'{self.label}' was on device {self._session.id}, whose context was closed")
        data = np.empty(self.shape, self.dtype.numpy)
        with self._session.context.use():
            native.check(native.session_read_state(self._session.handle, self.name.encode(), data.ctypes.data,
                                                   data.nbytes, native.error_buffer()))
        return data

    def assign(self, data):
        """Gives it another value of the same shape and type."""
        data = asarray(data, self.dtype)
        if data.shape != self.shape:
            raise native.InvalidError(f"'{self.label}' has the shape {self.shape}, and the value {data.shape}")
        self._data, self._dirty = np.array(data._values(), order="C"), True
        self.written = next(_graph.sequence)
        return self

    def to(self, target):
        """Moves it to another device (its words), or gives it another type."""
        data = self._values()
        dtype = None if _dtypes.is_device(target) else _dtypes.dtype(target)
        if dtype is None:
            self._device = _runtime.device_spec(target)
        elif dtype is not self.dtype:
            data = cast(leaf(data, self.dtype), dtype)._values()
            self.dtype = dtype
        self.name = f"state.{os.getpid()}.{next(_names)}"
        self._data, self._session, self._dirty = data, None, True
        _graph.Changes.count += 1
        return self

    def numpy(self):
        data = self._values()
        return _dtypes.from_bfloat16(data) if self.dtype is _dtypes.bfloat16 else data.copy()

    def __repr__(self):
        text = np.array2string(self.numpy(), separator=", ", prefix="portico.State(")
        return f"portico.State({text}, label='{self.label}')"

    def __reduce__(self):
        return type(self), (self.numpy(), self.dtype.name, None, self.label)

    def __deepcopy__(self, memo):
        return type(self)(self.numpy(), self.dtype, self._device, self.label)
