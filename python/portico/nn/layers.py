"""Layers: parameters with a function of portico.nn.functional. Names, defaults and first values are those of torch.nn."""
import math

import numpy as np

from portico import _native as native, random
from portico.nn import functional as F, init
from portico.nn.module import Module, Parameter


def empty(*shape):
    """A parameter whose first values are still to be drawn."""
    return Parameter(np.zeros(shape, np.float32))


class Identity(Module):
    """x, whatever it is called with."""

    def __init__(self, *_, **__):
        super().__init__()

    def forward(self, x):
        return x


class Linear(Module):
    """x weight^T + bias: [.., in_features] -> [.., out_features]. weight [out_features, in_features], uniform within 1 /
    sqrt(in_features) at first, as bias [out_features] is."""

    def __init__(self, in_features, out_features, bias=True, generator=None):
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        self.weight = empty(out_features, in_features)
        self.register_parameter("bias", empty(out_features) if bias else None)
        self.reset_parameters(generator)

    def reset_parameters(self, generator=None):
        """Draws the first values again."""
        generator = random.of(generator)
        bound = 1 / math.sqrt(self.in_features) if self.in_features else 0
        init.uniform_(self.weight, -bound, bound, generator)
        if self.bias is not None:
            init.uniform_(self.bias, -bound, bound, generator)

    def forward(self, x):
        return F.linear(x, self.weight, self.bias)

    def extra_repr(self):
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"


class Embedding(Module):
    """Rows of weight [num_embeddings, embedding_dim], normal at first: whole numbers [..] -> [.., embedding_dim].
    padding_idx: an index that gives zeros, and whose row is not trained."""

    def __init__(self, num_embeddings, embedding_dim, padding_idx=None, generator=None):
        super().__init__()
        if padding_idx is not None and not -num_embeddings <= padding_idx < num_embeddings:
            raise native.InvalidError(f"padding_idx is {padding_idx}, and there are {num_embeddings} rows")
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        self.padding_idx = None if padding_idx is None else padding_idx % num_embeddings
        self.weight = empty(num_embeddings, embedding_dim)
        self.reset_parameters(generator)

    def reset_parameters(self, generator=None):
        """Draws the first values again."""
        values = random.of(generator).normal(0, 1, self.weight.shape)
        if self.padding_idx is not None:
            values[self.padding_idx] = 0
        self.weight.assign(values)

    def forward(self, x):
        return F.embedding(x, self.weight, self.padding_idx)

    def extra_repr(self):
        more = "" if self.padding_idx is None else f", padding_idx={self.padding_idx}"
        return f"{self.num_embeddings}, {self.embedding_dim}{more}"


class LayerNorm(Module):
    """(x - mean) / sqrt(variance + eps) * weight + bias over the last dimensions (Ba et al. 2016)."""

    def __init__(self, normalized_shape, eps=1e-5, elementwise_affine=True, bias=True):
        super().__init__()
        self.normalized_shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
        self.eps = eps
        self.register_parameter("weight", Parameter(np.ones(self.normalized_shape, np.float32))
                                if elementwise_affine else None)
        self.register_parameter("bias", Parameter(np.zeros(self.normalized_shape, np.float32))
                                if elementwise_affine and bias else None)

    def forward(self, x):
        return F.layer_norm(x, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self):
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.weight is not None}"


class RMSNorm(Module):
    """x / sqrt(mean(x^2) + eps) * weight over the last dimensions (Zhang & Sennrich 2019). eps: None: 2^-23."""

    def __init__(self, normalized_shape, eps=None, elementwise_affine=True):
        super().__init__()
        self.normalized_shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
        self.eps = eps
        self.register_parameter("weight", Parameter(np.ones(self.normalized_shape, np.float32))
                                if elementwise_affine else None)

    def forward(self, x):
        return F.rms_norm(x, self.normalized_shape, self.weight, self.eps)

    extra_repr = LayerNorm.extra_repr


class Dropout(Module):
    """In training, each element is zero with the probability p, and divided by 1 - p otherwise. What is drawn follows
    from portico.manual_seed and is the same on every device; a compiled function draws anew in each run."""

    def __init__(self, p=0.5):
        super().__init__()
        self.p = F._number("p", p, 0, 1)

    def forward(self, x):
        return F.dropout(x, self.p, self.training)

    def extra_repr(self):
        return f"p={self.p}"


class _Activation(Module):
    def __init__(self):
        super().__init__()


class ReLU(_Activation):
    """max(x, 0)."""

    def forward(self, x):
        return F.relu(x)


class SiLU(_Activation):
    """x sigmoid(x), also called Swish."""

    def forward(self, x):
        return F.silu(x)


class Tanh(_Activation):
    """Hyperbolic tangent."""

    def forward(self, x):
        return F.tanh(x)


class Sigmoid(_Activation):
    """1 / (1 + exp(-x))."""

    def forward(self, x):
        return F.sigmoid(x)


class GELU(Module):
    """x Phi(x); approximate="tanh": the form with tanh (Hendrycks & Gimpel 2016)."""

    def __init__(self, approximate="none"):
        super().__init__()
        self.approximate = approximate

    def forward(self, x):
        return F.gelu(x, self.approximate)

    def extra_repr(self):
        return f"approximate={self.approximate!r}"


class SwiGLU(_Activation):
    """silu(first half) * second half of the last dimension (Shazeer 2020)."""

    def forward(self, x):
        return F.swiglu(x)


class Softmax(Module):
    """exp(x) divided by its sum along an axis."""

    def __init__(self, dim=-1):
        super().__init__()
        self.dim = dim

    def forward(self, x):
        return F.softmax(x, self.dim)

    def extra_repr(self):
        return f"dim={self.dim}"


class Flatten(Module):
    """Dimensions from start_dim to end_dim as one."""

    def __init__(self, start_dim=1, end_dim=-1):
        super().__init__()
        self.start_dim, self.end_dim = start_dim, end_dim

    def forward(self, x):
        return x.flatten(self.start_dim, self.end_dim)


class SinusoidalPositionalEncoding(Module):
    """x + sines and cosines of the positions (Vaswani et al. 2017, 3.5), then dropout: [.., T, d_model]. Positions are
    exact at any length, as angles are kept as fractions of a turn. batch_first=False: [T, .., d_model]."""

    def __init__(self, d_model, dropout=0.0, batch_first=True):
        super().__init__()
        if d_model % 2:
            raise native.InvalidError(f"d_model is {d_model}, and must be even")
        self.d_model, self.batch_first = d_model, batch_first
        self.dropout = Dropout(dropout)

    def forward(self, x, offset=0):
        """offset: position of the first row."""
        from portico import _functions as p

        x = p.asarray(x)
        rows = x.shape[-2 if self.batch_first or x.ndim == 2 else 0]
        table = F.sinusoidal_positions(p.arange(offset, offset + rows), self.d_model)
        if not self.batch_first and x.ndim > 2:
            table = p.reshape(table, (rows,) + (1,) * (x.ndim - 2) + (self.d_model,))
        return self.dropout(x + table)

    def extra_repr(self):
        return f"{self.d_model}"


class RotaryEmbedding(Module):
    """Rotary positions (Su et al. 2021) of queries and keys [B, H, S, D], or [B, S, H, D] with heads_first=False.

    dim: how many channels of each head are turned, from the first on. interleaved: pairs are channels 2i and 2i + 1, else
    i and i + dim / 2.
    """

    def __init__(self, dim, base=10000.0, interleaved=False):
        super().__init__()
        self.dim, self.base, self.interleaved = dim, float(base), bool(interleaved)

    def forward(self, x, positions=None, heads_first=True):
        return F.rope(x, positions, self.base, self.dim, self.interleaved, heads_first)

    def extra_repr(self):
        return f"{self.dim}, base={self.base}, interleaved={self.interleaved}"
