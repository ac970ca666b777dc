"""Attention and the transformer; names, defaults, masks and first values are those of torch.nn.

Masks are PyTorch's: where one is True, a key is NOT seen; numbers are added to the scores. (In
portico.nn.functional.scaled_dot_product_attention, as in PyTorch's, True is what is seen.) A query that sees no key gets
zeros, where PyTorch has NaN.

Beyond PyTorch there are `rope`, `kv_heads` for attention, the activation "swiglu", and norm="rms_norm".
"""
import copy

from portico import _functions as p, _native as native
from portico._tensor import asarray
from portico.nn import functional as F, init
from portico.nn.layers import Dropout, LayerNorm, Linear, RMSNorm, RotaryEmbedding, SwiGLU, empty
from portico.nn.module import Module, ModuleList


class MultiheadAttention(Module):
    """Attention with several heads (Vaswani et al. 2017, 3.2.2).

    in_proj_weight [embed_dim + 2 kv_heads * head_dim, embed_dim] holds the projections of queries, keys and values one
    below the other; with kdim or vdim (widths of keys and values) they are q_proj_weight, k_proj_weight and v_proj_weight.
    rope: True, or a RotaryEmbedding: queries and keys are turned by their positions. kv_heads: heads of keys and values,
    each of which serves several of queries (Ainslie et al. 2023).
    """

    def __init__(self, embed_dim, num_heads, dropout=0.0, bias=True, kdim=None, vdim=None, batch_first=False, *, rope=None,
                 kv_heads=None):
        super().__init__()
        kv_heads = num_heads if kv_heads is None else kv_heads
        if embed_dim <= 0 or num_heads <= 0 or embed_dim % num_heads:
            raise native.InvalidError(f"embed_dim is {embed_dim}, and must be a multiple of num_heads, {num_heads}")
        if kv_heads <= 0 or num_heads % kv_heads:
            raise native.InvalidError(f"num_heads is {num_heads}, and must be a multiple of kv_heads, {kv_heads}")
        self.embed_dim, self.num_heads, self.kv_heads = embed_dim, num_heads, kv_heads
        self.head_dim = embed_dim // num_heads
        self.dropout, self.batch_first = F._number("dropout", dropout, 0, 1, True), batch_first
        self.kdim, self.vdim = embed_dim if kdim is None else kdim, embed_dim if vdim is None else vdim
        narrow = kv_heads * self.head_dim
        if self.kdim == self.vdim == embed_dim:
            self.in_proj_weight = empty(embed_dim + 2 * narrow, embed_dim)
            for name in ("q_proj_weight", "k_proj_weight", "v_proj_weight"):
                self.register_parameter(name, None)
        else:
            self.q_proj_weight = empty(embed_dim, embed_dim)
            self.k_proj_weight = empty(narrow, self.kdim)
            self.v_proj_weight = empty(narrow, self.vdim)
            self.register_parameter("in_proj_weight", None)
        self.register_parameter("in_proj_bias", empty(embed_dim + 2 * narrow) if bias else None)
        self.out_proj = Linear(embed_dim, embed_dim, bias)
        self.rope = RotaryEmbedding(self.head_dim) if rope is True else rope or None
        self._reset_parameters()

    def _reset_parameters(self):
        for weight in (self.in_proj_weight, self.q_proj_weight, self.k_proj_weight, self.v_proj_weight):
            if weight is not None:
                init.xavier_uniform_(weight)
        if self.in_proj_bias is not None:
            init.zeros_(self.in_proj_bias)
            init.zeros_(self.out_proj.bias)

    def _projected(self, query, key, value):
        """query, key and value [B, S, heads, head_dim]."""
        wide, narrow = self.embed_dim, self.kv_heads * self.head_dim
        bounds = [(0, wide), (wide, wide + narrow), (wide + narrow, wide + 2 * narrow)]
        bias = self.in_proj_bias
        if query is key and key is value and self.in_proj_weight is not None:
            together = F.linear(query, self.in_proj_weight, bias)
            parts = [together[..., a:b] for a, b in bounds]
        else:
            weights = [self.q_proj_weight, self.k_proj_weight, self.v_proj_weight]
            if self.in_proj_weight is not None:
                weights = [self.in_proj_weight[a:b] for a, b in bounds]
            biases = [None if bias is None else bias[a:b] for a, b in bounds]
            parts = [F.linear(x, w, b) for x, w, b in zip((query, key, value), weights, biases)]
        heads = (self.num_heads, self.kv_heads, self.kv_heads)
        return [p.reshape(x, x.shape[:2] + (n, self.head_dim)) for x, n in zip(parts, heads)]

    def forward(self, query, key, value, key_padding_mask=None, need_weights=True, attn_mask=None,
                average_attn_weights=True, is_causal=False, positions=None, key_positions=None):
        """(result, weights or None).

        query [S, B, embed_dim], key [T, B, kdim], value [T, B, vdim]; with batch_first the batch comes first; without a
        batch [S, embed_dim] and so on. key_padding_mask [B, T]; attn_mask [S, T] or [B num_heads, S, T]. is_causal: query
        i sees keys 0 .. i, with or without a mask. weights [B, S, T], the mean over heads, or [B, num_heads, S, T].
        positions, key_positions: for rope, [S] and [T]; None: 0, 1, 2 ...
        """
        same = query is key, key is value
        query = asarray(query)
        key = query if same[0] else asarray(key)
        value = key if same[1] else asarray(value)
        single = query.ndim == 2
        if query.ndim not in (2, 3) or key.ndim != query.ndim or value.ndim != query.ndim:
            raise native.InvalidError(f"attention: query, key and value have the shapes {query.shape}, {key.shape} and "
                                      f"{value.shape}, and must all have 3 dimensions, or 2 without a batch")

        def batched(x):
            return p.expand_dims(x, 0) if single else x if self.batch_first else p.swapaxes(x, 0, 1)
        q = batched(query)
        k = q if key is query else batched(key)
        v = k if value is key else batched(value)
        batch, rows, keys = q.shape[0], q.shape[1], k.shape[1]
        if k.shape[0] != batch or v.shape[:2] != k.shape[:2]:
            raise native.InvalidError(f"attention: batches or lengths of query, key and value differ: {query.shape}, "
                                      f"{key.shape} and {value.shape}")
        if single and key_padding_mask is not None:
            key_padding_mask = p.expand_dims(asarray(key_padding_mask), 0)
        q, k, v = self._projected(q, k, v)
        if self.rope is not None:
            q = self.rope(q, positions, heads_first=False)
            k = self.rope(k, positions if key is query and key_positions is None else key_positions, heads_first=False)
        mask = F.merged_mask(attn_mask, key_padding_mask, batch, self.num_heads, rows, keys)
        y, weights = F.attention(q, k, v, mask, causal=is_causal, dropout_p=self.dropout if self.training else 0.0,
                                 weights=need_weights, heads_first=False)
        y = self.out_proj(p.reshape(y, (batch, rows, self.embed_dim)))
        if single:
            y = p.squeeze(y, 0)
        elif not self.batch_first:
            y = p.swapaxes(y, 0, 1)
        if not need_weights:
            return y, None
        if average_attn_weights:
            weights = p.mean(weights, 1)
        return y, p.squeeze(weights, 0) if single else weights

    def extra_repr(self):
        return f"{self.embed_dim}, {self.num_heads}" + \
            (f", kv_heads={self.kv_heads}" if self.kv_heads != self.num_heads else "")


def _first_width(activation, width):
    """Of the first projection: SwiGLU halves it."""
    return 2 * width if activation is F.swiglu or isinstance(activation, SwiGLU) else width


def _norm(norm, width, eps, bias):
    if norm == "layer_norm":
        return LayerNorm(width, eps, bias=bias)
    if norm == "rms_norm":
        return RMSNorm(width, eps)
    raise native.InvalidError(f"norm is {norm!r}, and must be 'layer_norm' or 'rms_norm'")


class FeedForward(Module):
    """linear2(dropout(activation(linear1(x)))), position by position (Vaswani et al. 2017, 3.3): [.., d_model] -> [..,
    d_model]. activation: "relu", "gelu", "silu", a function, or "swiglu": then linear1 is twice as wide, gate above up."""

    def __init__(self, d_model, dim_feedforward=2048, activation="relu", dropout=0.0, bias=True):
        super().__init__()
        self.activation = F.activation_of(activation)
        self.linear1 = Linear(d_model, _first_width(self.activation, dim_feedforward), bias)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias)

    def forward(self, x):
        return self.linear2(self.dropout(self.activation(self.linear1(x))))


class _Layer(Module):
    """What layers of encoder and decoder share."""

    def __init__(self, d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first, bias,
                 norm, rope, kv_heads, attentions):
        super().__init__()
        for name in attentions:
            own = name == "self_attn"
            setattr(self, name, MultiheadAttention(d_model, nhead, dropout, bias, batch_first=batch_first,
                                                   rope=rope if own else None, kv_heads=kv_heads))
        self.activation, self.norm_first = F.activation_of(activation), norm_first
        self.linear1 = Linear(d_model, _first_width(self.activation, dim_feedforward), bias)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias)
        for number in range(1, len(attentions) + 2):
            setattr(self, f"norm{number}", _norm(norm, d_model, layer_norm_eps, bias))
            setattr(self, f"dropout{number}", Dropout(dropout))

    def _block(self, number, x, sublayer):
        """A residual connection around a part, normalised before or after it."""
        norm, dropout = getattr(self, f"norm{number}"), getattr(self, f"dropout{number}")
        if self.norm_first:
            return x + dropout(sublayer(norm(x)))
        return norm(x + dropout(sublayer(x)))

    def _feed_forward(self, x):
        return self.linear2(self.dropout(self.activation(self.linear1(x))))


class TransformerEncoderLayer(_Layer):
    """Self-attention and a feed-forward network, each with a residual connection. norm_first: normalised before each part
    (pre-norm), else after it (post-norm)."""

    def __init__(self, d_model, nhead, dim_feedforward=2048, dropout=0.1, activation="relu", layer_norm_eps=1e-5,
                 batch_first=False, norm_first=False, bias=True, *, norm="layer_norm", rope=None, kv_heads=None):
        super().__init__(d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first,
                         bias, norm, rope, kv_heads, ("self_attn",))

    def forward(self, src, src_mask=None, src_key_padding_mask=None, is_causal=False):
        """src [S, B, d_model], or [B, S, d_model] with batch_first. Masks as in MultiheadAttention."""
        x = self._block(1, asarray(src), lambda y: self.self_attn(
            y, y, y, src_key_padding_mask, False, src_mask, is_causal=is_causal)[0])
        return self._block(2, x, self._feed_forward)


class TransformerDecoderLayer(_Layer):
    """Self-attention, attention to the memory (what the encoder returned), and a feed-forward network."""

    def __init__(self, d_model, nhead, dim_feedforward=2048, dropout=0.1, activation="relu", layer_norm_eps=1e-5,
                 batch_first=False, norm_first=False, bias=True, *, norm="layer_norm", rope=None, kv_heads=None):
        super().__init__(d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first,
                         bias, norm, rope, kv_heads, ("self_attn", "multihead_attn"))

    def forward(self, tgt, memory, tgt_mask=None, memory_mask=None, tgt_key_padding_mask=None,
                memory_key_padding_mask=None, tgt_is_causal=False, memory_is_causal=False):
        """tgt [S, B, d_model], memory [T, B, d_model]; the batch first with batch_first."""
        memory = asarray(memory)
        x = self._block(1, asarray(tgt), lambda y: self.self_attn(
            y, y, y, tgt_key_padding_mask, False, tgt_mask, is_causal=tgt_is_causal)[0])
        x = self._block(2, x, lambda y: self.multihead_attn(
            y, memory, memory, memory_key_padding_mask, False, memory_mask, is_causal=memory_is_causal)[0])
        return self._block(3, x, self._feed_forward)


class TransformerEncoder(Module):
    """num_layers copies of a layer, one after the other, and a norm at the end where one is given."""

    def __init__(self, encoder_layer, num_layers, norm=None):
        super().__init__()
        self.layers = ModuleList([copy.deepcopy(encoder_layer) for _ in range(num_layers)])
        self.num_layers, self.norm = num_layers, norm

    def forward(self, src, mask=None, src_key_padding_mask=None, is_causal=None):
        """As TransformerEncoderLayer.forward."""
        x = src
        for layer in self.layers:
            x = layer(x, mask, src_key_padding_mask, bool(is_causal))
        return x if self.norm is None else self.norm(x)


class TransformerDecoder(Module):
    """num_layers copies of a layer, one after the other, and a norm at the end where one is given."""

    def __init__(self, decoder_layer, num_layers, norm=None):
        super().__init__()
        self.layers = ModuleList([copy.deepcopy(decoder_layer) for _ in range(num_layers)])
        self.num_layers, self.norm = num_layers, norm

    def forward(self, tgt, memory, tgt_mask=None, memory_mask=None, tgt_key_padding_mask=None,
                memory_key_padding_mask=None, tgt_is_causal=None, memory_is_causal=False):
        """As TransformerDecoderLayer.forward."""
        x = tgt
        for layer in self.layers:
            x = layer(x, memory, tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask,
                      bool(tgt_is_causal), memory_is_causal)
        return x if self.norm is None else self.norm(x)


class Transformer(Module):
    """Encoder and decoder of "Attention Is All You Need" (Vaswani et al. 2017), without embeddings and output layer."""

    def __init__(self, d_model=512, nhead=8, num_encoder_layers=6, num_decoder_layers=6, dim_feedforward=2048, dropout=0.1,
                 activation="relu", layer_norm_eps=1e-5, batch_first=False, norm_first=False, bias=True, *,
                 norm="layer_norm", rope=None, kv_heads=None):
        super().__init__()
        layer = (d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first, bias)
        more = {"norm": norm, "rope": rope, "kv_heads": kv_heads}
        self.encoder = TransformerEncoder(TransformerEncoderLayer(*layer, **more), num_encoder_layers,
                                          _norm(norm, d_model, layer_norm_eps, bias))
        self.decoder = TransformerDecoder(TransformerDecoderLayer(*layer, **more), num_decoder_layers,
                                          _norm(norm, d_model, layer_norm_eps, bias))
        self.d_model, self.nhead, self.batch_first = d_model, nhead, batch_first
        for x in self.parameters():
            if x.ndim > 1:
                init.xavier_uniform_(x)

    def forward(self, src, tgt, src_mask=None, tgt_mask=None, memory_mask=None, src_key_padding_mask=None,
                tgt_key_padding_mask=None, memory_key_padding_mask=None, src_is_causal=None, tgt_is_causal=None,
                memory_is_causal=False):
        """src [S, B, d_model], tgt [T, B, d_model]; the batch first with batch_first."""
        memory = self.encoder(src, src_mask, src_key_padding_mask, src_is_causal)
        return self.decoder(tgt, memory, tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask,
                            tgt_is_causal, memory_is_causal)

    @staticmethod
    def generate_square_subsequent_mask(sz):
        """[sz, sz]: 0 on and below the diagonal, -inf above."""
        return F.square_subsequent_mask(sz)
