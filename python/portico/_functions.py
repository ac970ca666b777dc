"""Functions under the names and with the rules of NumPy, made of portico.ops; and the methods of tensors."""
import builtins
import math

import numpy as np

from portico import _dtypes, _native as native, _tensor, ops
from portico._dtypes import bool_, float32, int32
from portico._tensor import State, Tensor, asarray, cast, common, scalar


def _float(x):
    x = asarray(x)
    return x if x.dtype.is_float else cast(x, float32)


def _axes(x, axis):
    """Axes as a tuple of numbers from 0; None: all."""
    if axis is None:
        return tuple(range(x.ndim))
    axes = (axis,) if isinstance(axis, (int, np.integer)) else tuple(axis)
    return tuple([_axis(x.ndim, int(a)) for a in axes])


def _axis(ndim, axis):
    if not -ndim <= axis < ndim:
        raise native.InvalidError(f"axis {axis} is out of range: the tensor has {ndim} dimensions")
    return axis % ndim


# ---- arithmetic ----

def add(a, b):
    """a + b."""
    return _whole(ops.add, a, b)


def subtract(a, b):
    """a - b."""
    return _whole(ops.sub, a, b)


def multiply(a, b):
    """a * b."""
    return _whole(ops.mul, a, b)


def _whole(op, a, b):
    """Truth counts as whole numbers."""
    a, b = common([a, b])
    if a.dtype is bool_:
        a, b = cast(a, int32), cast(b, int32)
    return op(a, b)


def divide(a, b):
    """a / b, in float32 where both are whole numbers."""
    a, b = common([a, b])
    return ops.div(_float(a), _float(b))


def floor_divide(a, b):
    """a // b, rounded down."""
    a, b = common([a, b])
    if a.dtype.is_float:
        return ops.floor(ops.div(a, b))
    quotient = ops.div(a, b)
    rest = ops.sub(a, ops.mul(quotient, b))
    down = ops.logical_and(ops.ne(rest, 0), ops.ne(ops.lt(rest, 0).astype(int32), ops.lt(b, 0).astype(int32)))
    return ops.sub(quotient, cast(down, int32))


def remainder(a, b):
    """a % b, with the sign of b."""
    a, b = common([a, b])
    return ops.sub(a, ops.mul(floor_divide(a, b), b))


def power(a, b):
    """a ** b. Whole numbers with an exponent that is not negative give whole numbers."""
    if isinstance(b, (int, float)) and not isinstance(b, bool) and isinstance(a, Tensor):
        if b == 2:
            return ops.mul(a, a)
        if b == 1:
            return a
        if b == 0.5:
            return ops.sqrt(_float(a))
        if not a.dtype.is_float and isinstance(b, int) and b >= 0:
            return _whole_power(a, b)
    a, b = common([a, b])
    return ops.pow(_float(a), _float(b))


def _whole_power(a, exponent):
    result = full_like(a, 1)
    while exponent:
        if exponent & 1:
            result = ops.mul(result, a)
        exponent >>= 1
        if exponent:
            a = ops.mul(a, a)
    return result


def _compare(op, a, b):
    a, b = common([a, b])
    if a.dtype is bool_:
        a, b = cast(a, int32), cast(b, int32)
    return op(a, b)


def equal(a, b):
    """a == b, elementwise."""
    return _compare(ops.eq, a, b)


def not_equal(a, b):
    """a != b, elementwise."""
    return _compare(ops.ne, a, b)


def less(a, b):
    """a < b, elementwise."""
    return _compare(ops.lt, a, b)


def less_equal(a, b):
    """a <= b, elementwise."""
    return _compare(ops.le, a, b)


def greater(a, b):
    """a > b, elementwise."""
    return _compare(ops.gt, a, b)


def greater_equal(a, b):
    """a >= b, elementwise."""
    return _compare(ops.ge, a, b)


def _truth(x):
    x = asarray(x)
    return cast(x, bool_)


def logical_and(a, b):
    """a and b, elementwise."""
    return ops.logical_and(_truth(a), _truth(b))


def logical_or(a, b):
    """a or b, elementwise."""
    return ops.logical_or(_truth(a), _truth(b))


def logical_not(x):
    """not x, elementwise."""
    return ops.logical_not(_truth(x))


def where(condition, a, b):
    """a where the condition holds, b elsewhere; all three are broadcast."""
    a, b = common([a, b])
    return ops.where(_truth(condition), a, b)


def masked_fill(x, mask, value):
    """x, with a number where the mask holds."""
    return where(mask, value, x)


def clip(x, min=None, max=None):
    """x, but at least min and at most max, which are numbers."""
    x = asarray(x)
    return ops.clamp(x, min=-math.inf if min is None else float(min), max=math.inf if max is None else float(max))


def isnan(x):
    """True where x is NaN."""
    x = asarray(x)
    return ops.ne(x, x)


def _unary(name, doc):
    op = getattr(ops, name)

    def function(x):
        return op(_float(x))
    function.__name__, function.__qualname__, function.__doc__ = name, name, f"{doc}, elementwise; as portico.ops.{name}."
    return function


exp, log, sqrt, rsqrt = (_unary("exp", "e to the x"), _unary("log", "Natural logarithm"), _unary("sqrt", "Square root"),
                         _unary("rsqrt", "1 / sqrt(x)"))
sin, cos, tanh, erf = (_unary("sin", "Sine"), _unary("cos", "Cosine"), _unary("tanh", "Hyperbolic tangent"),
                       _unary("erf", "Error function"))
sigmoid, floor, reciprocal = (_unary("sigmoid", "1 / (1 + exp(-x))"), _unary("floor", "Largest integer not above x"),
                              _unary("reciprocal", "1 / x"))
isfinite, relu, silu = (_unary("isfinite", "True where x is neither infinite nor NaN"), _unary("relu", "max(x, 0)"),
                        _unary("silu", "x * sigmoid(x)"))


def ceil(x):
    """Smallest integer not below x, elementwise."""
    return ops.neg(ops.floor(ops.neg(_float(x))))


def square(x):
    """x * x, elementwise."""
    x = asarray(x)
    return ops.mul(x, x)


def gelu(x, approximate="none"):
    """x * Phi(x); approximate="tanh" is the form with tanh."""
    if approximate not in ("none", "tanh", 0, 1):
        raise native.InvalidError(f"approximate is {approximate!r}, and must be 'none' or 'tanh'")
    return ops.gelu(_float(x), approximate=int(approximate in ("tanh", 1)))


# ---- sums and the like ----

def _reduce(op, x, axis, keepdims):
    axes = _axes(x, axis)
    if not axes:
        return x
    return op(x, axes=axes, keepdims=int(bool(keepdims)))


def sum(x, axis=None, keepdims=False, dtype=None):
    """The sum over one axis, several (a tuple) or all (None)."""
    x = asarray(x, dtype)
    return _reduce(ops.sum, cast(x, int32) if x.dtype is bool_ else x, axis, keepdims)


def mean(x, axis=None, keepdims=False):
    """The mean over one axis, several or all; of whole numbers in float32."""
    return _reduce(ops.mean, _float(x), axis, keepdims)


def max(x, axis=None, keepdims=False):
    """The largest value over one axis, several or all; NaN if one is NaN."""
    x = asarray(x)
    if x.dtype is bool_:
        return cast(max(cast(x, int32), axis, keepdims), bool_)
    _not_empty(x, axis, "max")
    return _reduce(ops.amax, x, axis, keepdims)


def _not_empty(x, axis, name):
    if any_empty(x, axis):
        raise native.InvalidError(f"{name} over nothing has no value: the shape is {x.shape}")


def any_empty(x, axis):
    return x.size == 0 and builtins.any(x.shape[a] == 0 for a in _axes(x, axis))


def min(x, axis=None, keepdims=False):
    """The smallest value over one axis, several or all; NaN if one is NaN."""
    x = asarray(x)
    if not x.dtype.is_float:  # -INT_MIN is INT_MIN; ~x turns the order round
        whole = cast(x, int32)
        result = ops.sub(ops.neg(max(ops.sub(ops.neg(whole), 1), axis, keepdims)), 1)
        return cast(result, x.dtype)
    return ops.neg(max(ops.neg(x), axis, keepdims))


def var(x, axis=None, keepdims=False, correction=0, ddof=None):
    """The variance over one axis, several or all, which divides by their number - correction (NumPy: ddof)."""
    x = _float(x)
    correction = correction if ddof is None else ddof
    axes = _axes(x, axis)
    off = ops.sub(x, mean(x, axes, True))
    count = math.prod(x.shape[a] for a in axes)
    return divide(sum(ops.mul(off, off), axes, keepdims), builtins.max(count - correction, 0))


def std(x, axis=None, keepdims=False, correction=0, ddof=None):
    """The square root of portico.var."""
    return ops.sqrt(var(x, axis, keepdims, correction, ddof))


def all(x, axis=None, keepdims=False):
    """True where all along the axes are true."""
    return cast(min(cast(_truth(x), int32), axis, keepdims), bool_) if asarray(x).size else _truth(np.all(
        np.ones(asarray(x).shape, bool), axis, keepdims=keepdims))


def any(x, axis=None, keepdims=False):
    """True where one along the axes is true."""
    return cast(max(cast(_truth(x), int32), axis, keepdims), bool_) if asarray(x).size else _truth(np.any(
        np.zeros(asarray(x).shape, bool), axis, keepdims=keepdims))


def argmax(x, axis=None, keepdims=False):
    """The index of the largest value along an axis; None: in the flat order."""
    x = asarray(x)
    if axis is None:
        flat = ops.argmax(reshape(x, (-1,)), axis=0)
        return reshape(flat, (1,) * x.ndim) if keepdims else flat
    return ops.argmax(x, axis=_axis(x.ndim, axis), keepdims=int(bool(keepdims)))


def argmin(x, axis=None, keepdims=False):
    """The index of the smallest value along an axis; None: in the flat order."""
    x = asarray(x)
    return argmax(ops.neg(x) if x.dtype.is_float else ops.sub(ops.neg(cast(x, int32)), 1), axis, keepdims)


def cumsum(x, axis=None):
    """Sums of all up to each along an axis; None: of the flat order."""
    x = asarray(x)
    x = cast(x, int32) if x.dtype is bool_ else x
    return ops.cumsum(reshape(x, (-1,)), axis=0) if axis is None else ops.cumsum(x, axis=_axis(x.ndim, axis))


def topk(x, k, axis=-1, largest=True):
    """(values, indices) of the k largest along an axis, from the largest down."""
    return ops.top_k(asarray(x), k=k, axis=axis, largest=int(bool(largest)))


def softmax(x, axis=-1):
    """exp(x) divided by its sum along the axis."""
    return ops.softmax(_float(x), axis=axis)


def log_softmax(x, axis=-1):
    """The logarithm of portico.softmax."""
    return ops.log_softmax(_float(x), axis=axis)


def logsumexp(x, axis=-1, keepdims=False):
    """log of the sum of exp(x) along the axis."""
    return ops.logsumexp(_float(x), axis=axis, keepdims=int(bool(keepdims)))


# ---- products ----

def matmul(a, b):
    """a @ b, as NumPy has it: vectors are rows on the left and columns on the right, leading dimensions are broadcast."""
    a, b = common([a, b])
    if a.ndim == 0 or b.ndim == 0:
        raise native.InvalidError("matmul wants dimensions; a number multiplies with *")
    whole = not a.dtype.is_float
    if whole:
        raise native.UnsupportedError("matmul of whole numbers; use x.astype('float32')")
    first, last = a.ndim == 1, b.ndim == 1
    a = reshape(a, (1, -1)) if first else a
    b = reshape(b, (-1, 1)) if last else b
    if a.shape[-1] != b.shape[-2]:
        raise native.InvalidError(f"matmul of {a.shape} and {b.shape}: the last dimension of one is {a.shape[-1]}, and the "
                                  f"last but one of the other {b.shape[-2]}")
    y = ops.matmul(a, b)
    if last:
        y = reshape(y, y.shape[:-1])
    if first:
        y = reshape(y, y.shape[:-2] + (y.shape[-1:] if not last else ()))
    return y


# ---- shapes ----

def reshape(x, shape, *more):
    """The same elements in the same order under another shape; one dimension may be -1."""
    x = asarray(x)
    shape = (shape, *more) if isinstance(shape, (int, np.integer)) else tuple(shape)
    shape = tuple([int(n) for n in shape])
    if -1 in shape:
        known = math.prod(n for n in shape if n != -1)
        if shape.count(-1) > 1 or (known == 0 and x.size) or (known and x.size % known) or known == 0:
            raise native.InvalidError(f"{x.size} elements of shape {x.shape} do not fit into {shape}")
        shape = tuple([x.size // known if n == -1 else n for n in shape])
    if shape == x.shape:
        return x
    if math.prod(shape) != x.size:
        raise native.InvalidError(f"{x.size} elements of shape {x.shape} do not fit into {shape}")
    return ops.reshape(x, shape=shape)


def transpose(x, axes=None, *more):
    """Dimensions in another order; None: in the opposite one."""
    x = asarray(x)
    if axes is None:
        axes = tuple(range(x.ndim))[::-1]
    elif isinstance(axes, (int, np.integer)):
        axes = (axes, *more)
    return ops.permute(x, dims=[_axis(x.ndim, int(a)) for a in axes])


def swapaxes(x, a, b):
    """Two dimensions exchanged."""
    x = asarray(x)
    order = list(range(x.ndim))
    a, b = _axis(x.ndim, a), _axis(x.ndim, b)
    order[a], order[b] = b, a
    return ops.permute(x, dims=order)


def expand_dims(x, axis):
    """A dimension of size 1 more, at `axis` of the result."""
    x = asarray(x)
    axis = _axis(x.ndim + 1, axis)
    return ops.reshape(x, shape=x.shape[:axis] + (1,) + x.shape[axis:])


def squeeze(x, axis=None):
    """Without dimensions of size 1: all, or those named."""
    x = asarray(x)
    axes = [a for a in range(x.ndim) if x.shape[a] == 1] if axis is None else _axes(x, axis)
    for a in axes:
        if x.shape[a] != 1:
            raise native.InvalidError(f"dimension {a} of {x.shape} is not of size 1")
    return reshape(x, tuple([n for a, n in enumerate(x.shape) if a not in axes]))


def broadcast_to(x, shape):
    """x repeated along dimensions that it lacks or that are of size 1."""
    return ops.broadcast_to(asarray(x), shape=(shape,) if isinstance(shape, int) else tuple(shape))


def flatten(x, start=0, end=-1):
    """Dimensions from `start` to `end` as one."""
    x = asarray(x)
    if x.ndim == 0:
        return reshape(x, (1,))
    start, end = _axis(x.ndim, start), _axis(x.ndim, end)
    return reshape(x, x.shape[:start] + (math.prod(x.shape[start:end + 1]),) + x.shape[end + 1:])


def concatenate(tensors, axis=0):
    """Tensors one after the other along an axis."""
    tensors = common(list(tensors))
    if not tensors:
        raise native.InvalidError("concatenate of nothing")
    return tensors[0] if len(tensors) == 1 else ops.concat(*tensors, axis=_axis(tensors[0].ndim, axis))


def stack(tensors, axis=0):
    """Tensors side by side along a new axis."""
    return concatenate([expand_dims(x, axis) for x in tensors], axis)


def split(x, parts, axis=0):
    """Pieces along an axis: so many equal ones, or those between the indices of a list."""
    x = asarray(x)
    axis = _axis(x.ndim, axis)
    size = x.shape[axis]
    if isinstance(parts, int):
        if parts < 1 or size % parts:
            raise native.InvalidError(f"{size} elements along axis {axis} do not make {parts} equal parts")
        cuts = list(range(0, size + 1, size // parts)) if size else [0] * (parts + 1)
    else:
        cuts = [0, *parts, size]
    return [x[(slice(None),) * axis + (slice(a, b),)] for a, b in zip(cuts, cuts[1:])]


def tril(x, k=0):
    """The lower triangle of the last two dimensions up to the k-th diagonal, zeros above."""
    x = asarray(x)
    rows, columns = x.shape[-2:]
    return where(np.tri(rows, columns, k, dtype=bool), x, 0)


def triu(x, k=0):
    """The upper triangle of the last two dimensions from the k-th diagonal on, zeros below."""
    x = asarray(x)
    rows, columns = x.shape[-2:]
    return where(~np.tri(rows, columns, k - 1, dtype=bool), x, 0)


def take(x, indices, axis=0):
    """Slices of x along an axis, chosen by indices, of which negative ones count from the end. Where indices are
    computed, one outside of the axis gives zeros."""
    x = asarray(x)
    axis = _axis(x.ndim, axis)
    return ops.gather(x, _indices(indices, x.shape[axis]), axis=axis)


def take_along_axis(x, indices, axis=-1):
    """x[i, indices[i, j], ...]: values chosen within each row along the axis."""
    x = asarray(x)
    axis = _axis(x.ndim, axis)
    return ops.gather_along_axis(x, _indices(indices, x.shape[axis]), axis=axis)


def _indices(indices, size):
    if isinstance(indices, Tensor):
        if indices.dtype is not int32:
            raise native.InvalidError(f"indices are whole numbers; these are {indices.dtype}")
        if indices._data is None:
            return indices if indices._node is None else indices
        array = indices._data
    else:
        array = np.asarray(indices)
        if array.size == 0:
            array = array.astype(np.int32)
        if array.dtype.kind not in "iu":
            raise native.InvalidError(f"indices are whole numbers; these are {array.dtype}")
    if array.size and (array.min() < -size or array.max() >= size):
        bad = array[(array < -size) | (array >= size)].flat[0]
        raise native.InvalidError(f"index {bad} is out of range: there are {size} elements")
    if array.size and array.min() < 0:
        return asarray(np.where(array < 0, array + size, array))
    return indices if isinstance(indices, Tensor) else asarray(array)


def one_hot(indices, classes, dtype=float32):
    """[..., classes] with 1 where the last index is the given one, 0 elsewhere."""
    indices = asarray(indices)
    return cast(ops.eq(expand_dims(indices, -1), arange(classes)), _dtypes.dtype(dtype))


def getitem(x, index):
    """x[index]: numbers, slices, None, ..., and one array of indices or of truth."""
    index = index if isinstance(index, tuple) else (index,)
    if builtins.any(_is_mask(i) for i in index):
        if _tensor.trace.current is not None or len(index) != 1:
            raise native.UnsupportedError("a mask as an index gives a tensor whose shape is not known before; use where")
        return asarray(x.numpy()[np.asarray(index[0])], x.dtype)
    arrays = [i for i, part in enumerate(index) if isinstance(part, (Tensor, np.ndarray, list)) and
              (not isinstance(part, Tensor) or part.ndim or part._data is None)]
    used = builtins.sum(1 for part in index if part is not None and part is not Ellipsis)
    if used > x.ndim:
        raise native.InvalidError(f"{used} indices for a tensor with {x.ndim} dimensions")
    if [part for part in index if part is Ellipsis][1:]:
        raise native.InvalidError("only one ... in an index")
    at = next((i for i, part in enumerate(index) if part is Ellipsis), None)
    rest = (slice(None),) * (x.ndim - used)
    index = index + rest if at is None else index[:at] + rest + index[at + 1:]
    if len(arrays) > 1:
        return _points(x, index)
    return _basic(x, index)


def _is_mask(part):
    dtype = getattr(part, "dtype", None)
    return dtype is not None and getattr(part, "ndim", 0) > 0 and (dtype is bool_ or dtype == np.bool_)


def _basic(x, index):
    starts, sizes, steps, shape, gather, dimension = [], [], [], [], None, 0
    reverse = []
    for part in index:
        if part is None:
            shape.append(1)
            continue
        size = x.shape[dimension]
        if isinstance(part, slice):
            start, stop, step = part.indices(size)
            count = len(range(start, stop, step))
            if step < 0:
                reverse.append(dimension)
                start, step = start + (count - 1) * step if count else 0, -step
            starts.append(start if count else 0), sizes.append(count), steps.append(step), shape.append(count)
        elif isinstance(part, (int, np.integer)) or (isinstance(part, Tensor) and part.ndim == 0 and
                                                     part._data is not None):
            at = int(part)
            if not -size <= at < size:
                raise native.InvalidError(f"index {at} is out of range: dimension {dimension} of {x.shape}")
            starts.append(at % size), sizes.append(1), steps.append(1)
        elif isinstance(part, (Tensor, np.ndarray, list)):
            gather = (dimension, part, len(shape))
            starts.append(0), sizes.append(size), steps.append(1), shape.append(size)
        else:
            raise TypeError(f"an index is {type(part).__name__}; there are int, slice, None, ... and arrays of int")
        dimension += 1
    if gather is not None and not isinstance(gather[1], Tensor):
        gather = (gather[0], np.asarray(gather[1]), gather[2])
    whole = builtins.all(s == 0 and n == m and t == 1 for s, n, m, t in zip(starts, sizes, x.shape, steps))
    y = x if whole else ops.slice(x, starts=starts, sizes=sizes, steps=steps)
    for d in reverse:
        y = ops.gather(y, np.arange(y.shape[d], dtype=np.int32)[::-1].copy(), axis=d)
    if gather is not None:
        y = reshape(y, shape)
        return ops.gather(y, _indices(gather[1], x.shape[gather[0]]), axis=gather[2])
    return reshape(y, shape)


def _points(x, index):
    """x[rows, columns]: whole numbers for the first dimensions, broadcast together."""
    arrays = []
    for part in index:
        if isinstance(part, slice) and part == slice(None):
            break
        if part is None or isinstance(part, slice):
            raise native.UnsupportedError("several arrays of indices must come first, without slices between them")
        arrays.append(part)
    if builtins.any(not (isinstance(p, slice) and p == slice(None)) for p in index[len(arrays):]):
        raise native.UnsupportedError("several arrays of indices must come first, without slices between them")
    flat = None
    for size, part in zip(x.shape, arrays):
        part = _indices(part if isinstance(part, (Tensor, np.ndarray, list)) else np.asarray(part), size)
        flat = part if flat is None else add(multiply(flat, size), part)
    count = len(arrays)
    return ops.gather(reshape(x, (math.prod(x.shape[:count]), *x.shape[count:])), flat, axis=0)


# ---- making tensors ----

def _shape(shape):
    return (int(shape),) if isinstance(shape, (int, np.integer)) else tuple([int(n) for n in shape])


def full(shape, value, dtype=None, device=None):
    """A tensor of one value."""
    dtype = _tensor._kind_of(value) if dtype is None else _dtypes.dtype(dtype)
    with _tensor._runtime.device(device or _tensor._runtime.current_device()):
        return ops.fill(shape=_shape(shape), value=float(value), dtype=dtype)


def zeros(shape, dtype=float32, device=None):
    """A tensor of zeros."""
    return full(shape, 0, dtype, device)


def ones(shape, dtype=float32, device=None):
    """A tensor of ones."""
    return full(shape, 1, dtype, device)


def full_like(x, value, dtype=None):
    """A tensor of one value, of the shape and type of x."""
    return full(x.shape, value, dtype or x.dtype, x.device)


def zeros_like(x, dtype=None):
    """Zeros of the shape and type of x."""
    return full_like(x, 0, dtype)


def ones_like(x, dtype=None):
    """Ones of the shape and type of x."""
    return full_like(x, 1, dtype)


def arange(start, stop=None, step=1, dtype=None):
    """start, start + step ... below stop; with one argument 0, 1 ... below it."""
    start, stop = (0, start) if stop is None else (start, stop)
    dtype = _dtypes.dtype(dtype) if dtype is not None else \
        int32 if builtins.all(isinstance(v, (int, np.integer)) for v in (start, stop, step)) else float32
    count = builtins.max(math.ceil((stop - start) / step), 0)
    return ops.iota(shape=(count,), start=float(start), step=float(step), dtype=dtype)


def linspace(start, stop, count, dtype=float32):
    """`count` numbers from start to stop."""
    return asarray(np.linspace(start, stop, count), dtype)


def eye(size, dtype=float32):
    """The identity matrix."""
    return cast(equal(expand_dims(arange(size), 1), arange(size)), _dtypes.dtype(dtype))


def negative(x):
    """-x."""
    return ops.neg(asarray(x))


def absolute(x):
    """The magnitude of x, elementwise."""
    return ops.abs(asarray(x))


def sign(x):
    """-1, 0 or 1, elementwise."""
    return ops.sign(asarray(x))


def maximum(a, b):
    """The larger of a and b, elementwise; NaN where one is NaN."""
    return ops.maximum(*common([a, b]))


def minimum(a, b):
    """The smaller of a and b, elementwise; NaN where one is NaN."""
    return ops.minimum(*common([a, b]))


UFUNCS = {"add": add, "subtract": subtract, "multiply": multiply, "divide": divide, "true_divide": divide,
          "floor_divide": floor_divide, "remainder": remainder, "power": power, "negative": negative,
          "absolute": absolute, "exp": exp, "log": log, "sqrt": sqrt, "sin": sin, "cos": cos, "tanh": tanh,
          "floor": floor, "ceil": ceil, "square": square, "sign": sign, "isnan": isnan,
          "isfinite": isfinite, "equal": equal, "not_equal": not_equal, "less": less, "less_equal": less_equal,
          "greater": greater, "greater_equal": greater_equal, "logical_and": logical_and, "logical_or": logical_or,
          "logical_not": logical_not, "maximum": maximum, "minimum": minimum,
          "matmul": matmul, "reciprocal": reciprocal}


def _methods():
    """Operators and methods of tensors."""
    def swapped(function):
        return lambda self, other: function(other, self)

    def guarded(function):
        """What is no number or array is left to the other operand."""
        def method(self, other):
            if other is None or isinstance(other, (str, dict)):
                return NotImplemented
            return function(self, other)
        return method

    pairs = {"add": add, "sub": subtract, "mul": multiply, "truediv": divide, "floordiv": floor_divide,
             "mod": remainder, "pow": power, "matmul": matmul}
    for name, function in pairs.items():
        setattr(Tensor, f"__{name}__", guarded(function))
        setattr(Tensor, f"__r{name}__", guarded(swapped(function)))
    for name, function in {"eq": equal, "ne": not_equal, "lt": less, "le": less_equal, "gt": greater,
                           "ge": greater_equal, "and": logical_and, "or": logical_or}.items():
        setattr(Tensor, f"__{name}__", guarded(function))
    Tensor.__rand__, Tensor.__ror__ = Tensor.__and__, Tensor.__or__
    Tensor.__neg__ = lambda self: ops.neg(self)
    Tensor.__pos__ = lambda self: self
    Tensor.__abs__ = lambda self: ops.abs(self)
    Tensor.__invert__ = logical_not
    Tensor.__getitem__ = getitem
    for function in (sum, mean, max, min, var, std, all, any, argmax, argmin, cumsum, topk, softmax, log_softmax,
                     logsumexp, reshape, transpose, swapaxes, squeeze, flatten, split, clip, exp, log, sqrt, rsqrt, sin,
                     cos, tanh, sigmoid, relu, square, isnan, masked_fill, tril, triu):
        setattr(Tensor, function.__name__, function)
    Tensor.abs, Tensor.view, Tensor.permute, Tensor.unsqueeze = Tensor.__abs__, reshape, transpose, expand_dims
    Tensor.pow, Tensor.dim, Tensor.expand_dims = power, lambda self: self.ndim, expand_dims
    Tensor.T = property(lambda self: transpose(self))
    Tensor.mT = property(lambda self: swapaxes(self, -1, -2))
    Tensor.astype = lambda self, dtype: cast(self, _dtypes.dtype(dtype))
    Tensor.float = lambda self: cast(self, float32)
    Tensor.int = lambda self: cast(self, int32)
    Tensor.bool = lambda self: cast(self, bool_)
    Tensor.to = _to
    State.__hash__ = Tensor.__hash__


def _to(self, target):
    """On another device (its words), or of another type."""
    return asarray(self, device=target) if _dtypes.is_device(target) else cast(self, _dtypes.dtype(target))


_state_to = State.to
_methods()
setattr(State, "to", _state_to)
