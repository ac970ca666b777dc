"""Functions of neural networks; as torch.nn.functional.

Shapes are outermost first; `..` stands for any leading dimensions. Errors: portico.InvalidError with one line, for
shapes and types that do not fit.
"""
import math

import numpy as np

from portico import _dtypes, _functions as p, _graph, _native as native, ops, random
from portico._function import phase_table
from portico._functions import gelu, relu, sigmoid, silu, tanh
from portico._tensor import asarray, cast

__all__ = ["relu", "gelu", "silu", "sigmoid", "tanh", "softmax", "log_softmax", "linear", "embedding", "layer_norm",
           "rms_norm", "dropout", "swiglu", "glu", "scaled_dot_product_attention", "rope", "sinusoidal_positions",
           "cross_entropy", "nll_loss", "mse_loss", "l1_loss", "binary_cross_entropy_with_logits", "one_hot"]

one_hot = p.one_hot


def _number(name, value, low, high, open_end=False):
    if not low <= value <= high or (open_end and value == high):
        raise native.InvalidError(f"{name} is {value}, and must be from {low} to {'below ' if open_end else ''}{high}")
    return float(value)


def softmax(x, dim=-1):
    """exp(x) divided by its sum along a dimension."""
    return p.softmax(x, dim)


def log_softmax(x, dim=-1):
    """The logarithm of softmax."""
    return p.log_softmax(x, dim)


def linear(x, weight, bias=None):
    """x weight^T + bias: x [.., in], weight [out, in], bias [out] -> [.., out]."""
    x = asarray(x)
    if x.ndim == 0 or x.shape[-1] != weight.shape[-1]:
        raise native.InvalidError(f"linear: the last dimension of x is {x.shape[-1] if x.ndim else 'missing'} (shape "
                                  f"{x.shape}), and the weight {weight.shape} takes {weight.shape[-1]}")
    if x.ndim == 1:
        return p.reshape(linear(p.reshape(x, (1, -1)), weight, bias), (-1,))
    return ops.matmul(x, weight, bias, transpose_b=1)


def embedding(indices, weight, padding_idx=None):
    """The rows of weight [n, d] that indices [..] name -> [.., d]. padding_idx: an index that gives zeros, and whose row
    gets no gradient. Errors: InvalidError for an index out of range, where its value is known; zeros where it is not."""
    indices = asarray(indices)
    if indices.dtype is not _dtypes.int32:
        raise native.InvalidError(f"embedding: indices are whole numbers; these are {indices.dtype}")
    data = indices._data
    if data is not None and data.size and (data.min() < 0 or data.max() >= weight.shape[0]):
        bad = data[(data < 0) | (data >= weight.shape[0])].flat[0]
        raise native.InvalidError(f"embedding: index {bad} is out of range: there are {weight.shape[0]} rows")
    if padding_idx is not None:
        indices = p.where(indices == padding_idx, -1, indices)
    return ops.gather(weight, indices, axis=0)


def _normalized(x, normalized_shape, *operands):
    """x with the dimensions that are normalised as one, and weights to match."""
    x = asarray(x)
    shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
    if not shape or x.shape[-len(shape):] != shape:
        raise native.InvalidError(f"x has the shape {x.shape}, which does not end with {shape}, that is normalised")
    if len(shape) == 1:
        return x, operands, x.shape
    flat = p.reshape(x, x.shape[:-len(shape)] + (math.prod(shape),))
    return flat, [None if w is None else p.reshape(w, (-1,)) for w in operands], x.shape


def layer_norm(x, normalized_shape, weight=None, bias=None, eps=1e-5):
    """(x - mean) / sqrt(variance + eps) * weight + bias over the last dimensions (Ba et al. 2016)."""
    flat, (weight, bias), shape = _normalized(x, normalized_shape, weight, bias)
    return p.reshape(ops.layer_norm(flat, weight, bias, eps=float(eps)), shape)


def rms_norm(x, normalized_shape, weight=None, eps=None):
    """x / sqrt(mean(x^2) + eps) * weight over the last dimensions (Zhang & Sennrich 2019). eps: None: 2^-23."""
    flat, (weight,), shape = _normalized(x, normalized_shape, weight)
    return p.reshape(ops.rms_norm(flat, weight, eps=2.0**-23 if eps is None else float(eps)), shape)


def _random_operands(generator):
    """(seed, offset, stream) of random numbers that are different each time: in a compiled function in each run."""
    draw = random.of(generator)
    now = _graph.trace.current
    if now is None:
        return draw.words(), draw.next_offset(), 0
    if draw not in now.random:
        now.random[draw] = (now.input((2,), _dtypes.int32, draw.words), now.input((2,), _dtypes.int32, draw.next_offset))
    now.streams += 1
    return (*now.random[draw], now.streams)


def dropout(x, p=0.5, training=True, generator=None):
    """In training, each element is zero with the probability p, and divided by 1 - p otherwise (Srivastava et al.
    2014)."""
    p = _number("p", p, 0, 1)
    if not training or p == 0:
        return x
    if p == 1:
        return asarray(x) * 0
    seed, offset, stream = _random_operands(generator)
    return ops.dropout(x, seed, offset, p=p, stream=stream)


def swiglu(gate, up=None):
    """silu(gate) * up (Shazeer 2020); without up, both are halves of the last dimension, gate first."""
    return ops.swiglu(gate, up)


def glu(x, dim=-1):
    """The first half of a dimension times the sigmoid of the second (Dauphin et al. 2017)."""
    a, b = p.split(x, 2, dim)
    return a * sigmoid(b)


# ---- attention ----

def _allowed(mask):
    """A mask for the operation: truth as it is, numbers as what is added to the scores."""
    mask = asarray(mask)
    return cast(mask, _dtypes.bool_) if mask.dtype is _dtypes.int32 else mask


def attention(query, key, value, mask=None, *, causal=False, scale=None, dropout_p=0.0, weights=False, heads_first=True,
              generator=None):
    """(result, weights or None). query [B, H, S, D], key [B, G, T, D], value [B, G, T, E] (heads_first=False: [B, S, H,
    D] and so on); H is a multiple of G. mask: truth (a key is seen) or numbers that are added to the scores, [B|1, H|1,
    S|1, T|1]. A row that sees no key gives zeros. dropout_p: of the weights."""
    options = dict(scale=float(scale or 0), causal=int(bool(causal)), heads_first=int(heads_first))
    if not weights and not dropout_p:
        return ops.scaled_dot_product_attention(query, key, value, mask, **options), None
    y, seen = ops.scaled_dot_product_attention(query, key, value, mask, weights=1, **options)
    if not dropout_p:
        return y, seen
    dropped = dropout(seen, dropout_p, True, generator)
    if not heads_first:
        value = p.swapaxes(value, 1, 2)
    if value.shape[1] != seen.shape[1]:
        repeat = seen.shape[1] // value.shape[1]
        b, g, t, e = value.shape
        value = p.reshape(p.broadcast_to(p.reshape(value, (b, g, 1, t, e)), (b, g, repeat, t, e)), (b, g * repeat, t, e))
    y = dropped @ value
    return y if heads_first else p.swapaxes(y, 1, 2), dropped


def _four(x):
    return p.reshape(x, (math.prod(x.shape[:-3]), *x.shape[-3:])) if x.ndim > 4 else \
        p.reshape(x, (1,) * (4 - x.ndim) + x.shape)


def scaled_dot_product_attention(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None,
                                 enable_gqa=False, generator=None):
    """softmax(query key^T scale + mask) value: query [.., H, S, D], key [.., H, T, D], value [.., H, T, E] -> [.., H, S,
    E] (Vaswani et al. 2017).

    attn_mask: truth (True: the key is seen) or numbers that are added to the scores, of a shape that broadcasts to [..,
    H, S, T]. is_causal: row i sees keys 0 .. i. scale: None: 1 / sqrt(D). enable_gqa: key and value may have fewer
    heads. A row that sees no key gives zeros (PyTorch: NaN).
    """
    query, key, value = asarray(query), asarray(key), asarray(value)
    for name, x in (("query", query), ("key", key), ("value", value)):
        if x.ndim < 2 or x.ndim != query.ndim:
            raise native.InvalidError(f"attention: query has the shape {query.shape}, and {name} {x.shape}")
    if not enable_gqa and query.ndim > 2 and query.shape[-3] != key.shape[-3]:
        raise native.InvalidError(f"attention: {query.shape[-3]} heads of queries and {key.shape[-3]} of keys; "
                                  "enable_gqa=True shares keys")
    if attn_mask is not None:
        attn_mask = _allowed(attn_mask)
        if attn_mask.ndim > 4 or query.ndim > 4:
            attn_mask = p.broadcast_to(attn_mask, query.shape[:-1] + key.shape[-2:-1])
        attn_mask = _four(attn_mask)
    y, _ = attention(_four(query), _four(key), _four(value), attn_mask, causal=is_causal, scale=scale,
                     dropout_p=_number("dropout_p", dropout_p, 0, 1, True), generator=generator)
    return p.reshape(y, query.shape[:-1] + value.shape[-1:])


def _positions(positions, rows, offset=0):
    if positions is None:
        return p.arange(offset, offset + rows)
    return asarray(positions)


def rope(x, positions=None, base=10000.0, dim=None, interleaved=False, heads_first=True, scale=1.0):
    """Rotary positions (Su et al. 2021): pairs of the first `dim` channels (None: all) are turned by position / base^(2i /
    dim). x [B, H, S, D], or [B, S, H, D] with heads_first=False; positions [S] or [B, S], None: 0 .. S - 1. Pairs are
    channels i and i + dim / 2, interleaved: 2i and 2i + 1."""
    x = asarray(x)
    if x.ndim != 4:
        raise native.InvalidError(f"rope: x has {x.ndim} dimensions, and must have 4, heads among them: shape {x.shape}")
    dim = x.shape[-1] if dim is None else dim
    if dim % 2 or not 0 < dim <= x.shape[-1]:
        raise native.InvalidError(f"rope: dim is {dim}, and must be even and at most {x.shape[-1]}")
    positions = _positions(positions, x.shape[2 if heads_first else 1])
    if positions.ndim == 1:
        positions = p.reshape(positions, (1, -1))
    phase = phase_table(_graph.ROPE_PHASE, (float(base), dim), dim // 2)
    return ops.rope(x, positions, phase, interleaved=int(interleaved), heads_first=int(heads_first), scale=float(scale))


def sinusoidal_positions(positions, d_model, interleaved=True):
    """Position encoding (Vaswani et al. 2017, 3.5): positions [..] -> [.., d_model], sine and cosine of position /
    10000^(2i / d_model). interleaved: sines on even dimensions, cosines on odd ones; otherwise all sines first, with the
    frequencies of tensor2tensor."""
    if d_model % 2 or d_model <= 0:
        raise native.InvalidError(f"sinusoidal positions: d_model is {d_model}, and must be even")
    layout = int(not interleaved)
    phase = phase_table(_graph.SINUSOIDAL_PHASE, (d_model, layout), d_model // 2)
    return ops.sinusoidal_positions(asarray(positions), phase, layout=layout)


# ---- losses ----

def _reduced(loss, reduction):
    if reduction == "none":
        return loss
    if reduction not in ("mean", "sum"):
        raise native.InvalidError(f"reduction is {reduction!r}, and must be 'mean', 'sum' or 'none'")
    return p.mean(loss) if reduction == "mean" else p.sum(loss)


def _classes_last(x, target):
    """As PyTorch has it, classes are the second dimension of more than two."""
    if x.ndim > 2:
        x = p.transpose(x, (0, *range(2, x.ndim), 1))
    if target.shape != x.shape[:-1] and not target.dtype.is_float:
        raise native.InvalidError(f"the target has the shape {target.shape}, and must have {x.shape[:-1]}; classes are the "
                                  "second dimension of the input where it has more than two, and the last one otherwise")
    return x


def cross_entropy(input, target, weight=None, ignore_index=-100, reduction="mean", label_smoothing=0.0):  # noqa: A002
    """-log softmax(input)[target]: input [N, C], [N, C, ..] or [C], target whole numbers of the shape without C, or
    shares of the classes of the shape of input -> a number, or with reduction="none" [N, ..].

    ignore_index: targets that do not count, nor in the mean. weight [C]: of each class. label_smoothing: share of the
    target that is spread over all classes (Szegedy et al. 2016).
    """
    x, target = asarray(input), asarray(target)
    single = x.ndim == 1
    if single:
        x, target = p.reshape(x, (1, -1)), p.reshape(target, (1, *target.shape))
    if x.ndim == 0:
        raise native.InvalidError("cross_entropy: the input has no dimensions")
    smoothing = _number("label_smoothing", label_smoothing, 0, 1)
    x = _classes_last(x, target)
    if target.dtype.is_float:
        return _shares(x, target, weight, reduction, smoothing, single)
    if target.dtype is not _dtypes.int32:
        raise native.InvalidError(f"cross_entropy: targets are whole numbers or shares; these are {target.dtype}")
    if weight is None:
        loss = ops.cross_entropy(x, target, ignore_index=ignore_index, label_smoothing=smoothing)
        counted = None
    else:
        weight = asarray(weight)
        logs = log_softmax(x)
        counted = cast(target != ignore_index, _dtypes.float32)
        inside = p.where(target == ignore_index, 0, target)
        chosen = ops.gather(weight, inside, axis=0) * counted
        picked = p.squeeze(ops.gather_along_axis(logs, p.expand_dims(inside, -1), axis=logs.ndim - 1), -1)
        loss = -(1 - smoothing) * picked * chosen
        if smoothing:
            loss = loss - smoothing / x.shape[-1] * p.sum(logs * weight, -1) * counted
        counted = p.sum(chosen)
    if reduction == "mean":
        if counted is None:
            counted = p.sum(cast(target != ignore_index, _dtypes.float32))
        return p.sum(loss) / counted
    return _reduced(p.reshape(loss, loss.shape[1:]) if single else loss, reduction)


def _shares(x, target, weight, reduction, smoothing, single):
    if target.ndim > 2:
        target = p.transpose(target, (0, *range(2, target.ndim), 1))
    if target.shape != x.shape:
        raise native.InvalidError("cross_entropy: shares of classes have the shape of the input")
    target = target * (1 - smoothing) + smoothing / x.shape[-1]
    logs = log_softmax(x)
    loss = -p.sum(logs * target if weight is None else logs * target * weight, -1)
    if reduction == "mean":
        return p.sum(loss) / loss.size
    return _reduced(p.reshape(loss, loss.shape[1:]) if single else loss, reduction)


def nll_loss(input, target, ignore_index=-100, reduction="mean"):  # noqa: A002
    """-input[target], input being logarithms of probabilities [N, C] or [N, C, ..]."""
    x, target = asarray(input), asarray(target)
    if x.ndim < 2:
        raise native.InvalidError(f"nll_loss: the input has the shape {x.shape}, and must be [N, C] or [N, C, ..]")
    x = _classes_last(x, target)
    counted = cast(target != ignore_index, _dtypes.float32)
    inside = p.where(target == ignore_index, 0, target)
    loss = -p.squeeze(ops.gather_along_axis(x, p.expand_dims(inside, -1), axis=x.ndim - 1), -1) * counted
    return p.sum(loss) / p.sum(counted) if reduction == "mean" else _reduced(loss, reduction)


def _same_shape(name, a, b):
    a, b = asarray(a), asarray(b)
    if a.shape != b.shape:
        raise native.InvalidError(f"{name}: the input has the shape {a.shape}, and the target {b.shape}")
    return a, b


def mse_loss(input, target, reduction="mean"):  # noqa: A002
    """The square of the difference."""
    x, target = _same_shape("mse_loss", input, target)
    return _reduced((x - target) ** 2, reduction)


def l1_loss(input, target, reduction="mean"):  # noqa: A002
    """The magnitude of the difference."""
    x, target = _same_shape("l1_loss", input, target)
    return _reduced(p.absolute(x - target), reduction)


def binary_cross_entropy_with_logits(input, target, reduction="mean"):  # noqa: A002
    """-(target log sigmoid(x) + (1 - target) log(1 - sigmoid(x))), as max(x, 0) - x target + log(1 + exp(-|x|))."""
    x, target = _same_shape("binary_cross_entropy_with_logits", input, target)
    return _reduced(relu(x) - x * target + p.log(1 + p.exp(-p.absolute(x))), reduction)


def square_subsequent_mask(size):
    """[size, size]: 0 on and below the diagonal, -inf above."""
    return asarray(np.triu(np.full((size, size), -np.inf, np.float32), 1))


def merged_mask(attn_mask, padding_mask, batch, heads, rows, keys):
    """PyTorch's two masks (True: a key is NOT seen; or numbers that are added) as one for portico.ops: [B|1, H|1, S|1,
    T], or None."""
    masks = []
    if attn_mask is not None:
        mask = asarray(attn_mask)
        if mask.shape == (rows, keys):
            mask = p.reshape(mask, (1, 1, rows, keys))
        elif mask.shape == (batch * heads, rows, keys):
            mask = p.reshape(mask, (batch, heads, rows, keys))
        else:
            raise native.InvalidError(f"the mask has the shape {mask.shape}, and must have {(rows, keys)} or "
                                      f"{(batch * heads, rows, keys)}")
        masks.append(mask)
    if padding_mask is not None:
        mask = asarray(padding_mask)
        if mask.shape != (batch, keys):
            raise native.InvalidError(f"the padding mask has the shape {mask.shape}, and must have {(batch, keys)}")
        masks.append(p.reshape(mask, (batch, 1, 1, keys)))
    if not masks:
        return None
    if not any(mask.dtype.is_float for mask in masks):
        hidden = masks[0] if len(masks) == 1 else p.logical_or(*masks)
        return p.logical_not(hidden)
    added = [mask if mask.dtype.is_float else p.where(mask, -math.inf, 0.0) for mask in masks]
    return added[0] if len(added) == 1 else added[0] + added[1]


def activation_of(activation):
    """A function, given by its name or itself."""
    if callable(activation):
        return activation
    found = {"relu": relu, "gelu": gelu, "silu": silu, "tanh": tanh, "sigmoid": sigmoid, "swiglu": swiglu}
    if activation not in found:
        raise native.InvalidError(f"there is no activation {activation!r}; there are {', '.join(found)}")
    return found[activation]
