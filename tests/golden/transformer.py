"""PyTorch reference of the configurable encoder-decoder transformer.

It is the oracle for the golden files and the trainer of the small shipped models; the library itself
never imports it. `state_dict()` keys are the tensor names of the safetensors files. Run it in float64
(`model.double()`) to get reference values.
"""

import math

import torch
import torch.nn.functional as F
from torch import nn

DEFAULTS = {
    "model_type": "transformer",
    "vocab_size": 0,
    "encoder_vocab_size": None,  # both default to vocab_size; used when share_embeddings is false
    "decoder_vocab_size": None,
    "d_model": 512,
    "encoder_layers": 6,
    "decoder_layers": 6,
    "encoder_attention_heads": 8,
    "decoder_attention_heads": 8,
    "encoder_ffn_dim": 2048,
    "decoder_ffn_dim": 2048,
    "activation_function": "relu",  # relu | gelu | gelu_tanh | swiglu
    "fused_gate_up": False,  # swiglu only: one gate_up_proj whose output is cut in two
    "normalize_before": False,
    "norm_type": "layer_norm",  # layer_norm | rms_norm
    "norm_form": "var_eps",  # var_eps | std_eps (layer_norm only)
    "norm_eps": 1e-5,
    "final_norm": False,
    "final_norm_form": None,  # the stacks' last norms; None: as norm_form and norm_eps
    "final_norm_eps": None,
    "attention_bias": True,
    "ffn_bias": True,
    "fused_qkv": False,
    "position_embedding": "sinusoidal",  # sinusoidal | rope
    "rope_theta": 10000.0,
    "rope_interleaved": False,
    "sinusoidal_layout": "interleaved",  # interleaved | half
    "position_offset": 0,
    "scale_embedding": False,
    "tie_word_embeddings": True,
    "share_embeddings": True,
    "final_logits_bias": False,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "decoder_start_token_id": 1,
    "max_position_embeddings": 512,
}


def complete(config):
    """Return config with every missing field at its default; unknown fields are kept."""
    full = {**DEFAULTS, **config}
    for side in ("encoder", "decoder"):
        if full["share_embeddings"] or full[f"{side}_vocab_size"] is None:
            full[f"{side}_vocab_size"] = full["vocab_size"]
    for field in ("norm_form", "norm_eps"):
        if full[f"final_{field}"] is None:
            full[f"final_{field}"] = full[field]
    return full


def sinusoidal_table(count, dim, layout="interleaved", offset=0):
    """float64 [count, dim]: the encodings of positions offset .. offset + count - 1."""
    half = dim // 2
    step = torch.arange(half, dtype=torch.float64)
    exponent = step / half if layout == "interleaved" else step / (half - 1)
    frequency = torch.exp(-math.log(10000.0) * exponent)
    position = torch.arange(offset, offset + count, dtype=torch.float64)
    angle = position[:, None] * frequency[None, :]
    if layout == "half":
        return torch.cat([angle.sin(), angle.cos()], dim=1)
    return torch.stack([angle.sin(), angle.cos()], dim=2).reshape(count, dim)


def rotate(x, theta, interleaved, offset=0):
    """Rotary embedding of x [batch, heads, length, head_dim], the whole head_dim rotated."""
    length, dim = x.shape[-2:]
    frequency = theta ** (-torch.arange(0, dim, 2, dtype=torch.float64) / dim)
    position = torch.arange(offset, offset + length, dtype=torch.float64)
    angle = position[:, None] * frequency[None, :]
    cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
    if interleaved:
        a, b = x[..., 0::2], x[..., 1::2]
        return torch.stack([a * cos - b * sin, b * cos + a * sin], dim=-1).flatten(-2)
    a, b = x.chunk(2, dim=-1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1)


class Norm(nn.Module):
    """LayerNorm (either form) or RMSNorm over the last dimension."""

    def __init__(self, cfg, prefix=""):
        super().__init__()
        self.type, self.form, self.eps = cfg["norm_type"], cfg[prefix + "norm_form"], cfg[prefix + "norm_eps"]
        self.weight = nn.Parameter(torch.ones(cfg["d_model"]))
        if self.type == "layer_norm":
            self.bias = nn.Parameter(torch.zeros(cfg["d_model"]))

    def forward(self, x):
        if self.type == "rms_norm":
            return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + self.eps) * self.weight
        centred = x - x.mean(-1, keepdim=True)
        if self.form == "std_eps":
            scale = centred.square().sum(-1, keepdim=True).div(x.shape[-1] - 1).sqrt() + self.eps
        else:
            scale = (centred.square().mean(-1, keepdim=True) + self.eps).sqrt()
        return centred / scale * self.weight + self.bias


class Attention(nn.Module):
    """Multi-head attention. `visible` is a boolean mask that broadcasts to [batch, heads, Tq, Tk]."""

    def __init__(self, cfg, heads, fused, rope):
        super().__init__()
        dim, bias = cfg["d_model"], cfg["attention_bias"]
        self.heads, self.fused = heads, fused
        self.rope = (cfg["rope_theta"], cfg["rope_interleaved"], cfg["position_offset"]) if rope else None
        if fused:
            self.in_proj_weight = nn.Parameter(nn.Linear(dim, 3 * dim).weight.detach().clone())
            self.in_proj_bias = nn.Parameter(torch.zeros(3 * dim)) if bias else None
        else:
            self.q_proj = nn.Linear(dim, dim, bias=bias)
            self.k_proj = nn.Linear(dim, dim, bias=bias)
            self.v_proj = nn.Linear(dim, dim, bias=bias)
        self.out_proj = nn.Linear(dim, dim, bias=bias)

    def project(self, x, memory):
        """Queries from x, keys and values from memory, each [batch, heads, length, head_dim]."""
        if self.fused:
            q, k, v = F.linear(x, self.in_proj_weight, self.in_proj_bias).chunk(3, dim=-1)
        else:
            q, k, v = self.q_proj(x), self.k_proj(memory), self.v_proj(memory)
        return [t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in (q, k, v)]

    def forward(self, x, memory, visible=None):
        q, k, v = self.project(x, memory)
        if self.rope:
            q, k = rotate(q, *self.rope), rotate(k, *self.rope)
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
        if visible is not None:
            scores = scores.masked_fill(~visible, -math.inf)
        mixed = scores.softmax(-1) @ v
        return self.out_proj(mixed.transpose(1, 2).flatten(-2))


def add_ffn(layer, cfg, hidden):
    """Give a layer the parameters of its feed-forward block."""
    dim, bias = cfg["d_model"], cfg["ffn_bias"]
    if cfg["activation_function"] != "swiglu":
        layer.fc1 = nn.Linear(dim, hidden, bias=bias)
        layer.fc2 = nn.Linear(hidden, dim, bias=bias)
        return
    if cfg["fused_gate_up"]:
        layer.gate_up_proj = nn.Linear(dim, 2 * hidden, bias=bias)
    else:
        layer.gate_proj = nn.Linear(dim, hidden, bias=bias)
        layer.up_proj = nn.Linear(dim, hidden, bias=bias)
    layer.down_proj = nn.Linear(hidden, dim, bias=bias)


def ffn(layer, activation, x):
    """The feed-forward block of a layer, without norm and residual."""
    if activation == "swiglu":
        if hasattr(layer, "gate_up_proj"):
            gate, up = layer.gate_up_proj(x).chunk(2, dim=-1)
        else:
            gate, up = layer.gate_proj(x), layer.up_proj(x)
        return layer.down_proj(F.silu(gate) * up)
    act = {
        "relu": F.relu,
        "gelu": F.gelu,
        "gelu_tanh": lambda t: F.gelu(t, approximate="tanh"),
    }[activation]
    return layer.fc2(act(layer.fc1(x)))


class Layer(nn.Module):
    """One layer of either stack: self-attention, cross-attention (decoder only), feed-forward."""

    def __init__(self, cfg, side):
        super().__init__()
        heads = cfg[f"{side}_attention_heads"]
        self.pre, self.activation = cfg["normalize_before"], cfg["activation_function"]
        self.self_attn = Attention(cfg, heads, cfg["fused_qkv"], cfg["position_embedding"] == "rope")
        self.self_attn_layer_norm = Norm(cfg)
        self.cross = side == "decoder"
        if self.cross:
            self.encoder_attn = Attention(cfg, heads, fused=False, rope=False)
            self.encoder_attn_layer_norm = Norm(cfg)
        add_ffn(self, cfg, cfg[f"{side}_ffn_dim"])
        self.final_layer_norm = Norm(cfg)

    def residual(self, x, norm, block):
        return x + block(norm(x)) if self.pre else norm(x + block(x))

    def forward(self, x, visible=None, memory=None, memory_visible=None):
        x = self.residual(x, self.self_attn_layer_norm, lambda t: self.self_attn(t, t, visible))
        if self.cross:
            x = self.residual(
                x, self.encoder_attn_layer_norm, lambda t: self.encoder_attn(t, memory, memory_visible)
            )
        return self.residual(x, self.final_layer_norm, lambda t: ffn(self, self.activation, t))


class Stack(nn.Module):
    """The layers of the encoder or decoder, and the embedding unless it is shared."""

    def __init__(self, cfg, side):
        super().__init__()
        if not cfg["share_embeddings"]:
            self.embed_tokens = nn.Embedding(cfg[f"{side}_vocab_size"], cfg["d_model"])
        self.layers = nn.ModuleList(Layer(cfg, side) for _ in range(cfg[f"{side}_layers"]))
        if cfg["final_norm"]:
            self.layer_norm = Norm(cfg, "final_")

    def forward(self, x, visible=None, memory=None, memory_visible=None):
        for layer in self.layers:
            x = layer(x, visible, memory, memory_visible)
        return self.layer_norm(x) if hasattr(self, "layer_norm") else x


def causal(length):
    """Boolean [length, length]: row t sees columns 0 .. t."""
    return torch.ones(length, length, dtype=torch.bool).tril()


class Transformer(nn.Module):
    """The whole encoder-decoder, from token ids to logits."""

    def __init__(self, config):
        super().__init__()
        self.cfg = cfg = complete(config)
        if cfg["share_embeddings"]:
            self.shared = nn.Embedding(cfg["vocab_size"], cfg["d_model"])
        self.encoder = Stack(cfg, "encoder")
        self.decoder = Stack(cfg, "decoder")
        if not cfg["tie_word_embeddings"]:
            self.lm_head = nn.Linear(cfg["d_model"], cfg["decoder_vocab_size"], bias=False)
        if cfg["final_logits_bias"]:
            self.final_logits_bias = nn.Parameter(torch.zeros(cfg["decoder_vocab_size"]))
        if cfg["position_embedding"] == "sinusoidal":
            table = sinusoidal_table(
                cfg["max_position_embeddings"], cfg["d_model"], cfg["sinusoidal_layout"], cfg["position_offset"]
            )
            self.positions = [table]  # a list: the float64 table must not follow .float()

    def table(self, side):
        """The embedding matrix of a side."""
        return self.shared.weight if self.cfg["share_embeddings"] else getattr(self, side).embed_tokens.weight

    def embed(self, ids, side):
        x = F.embedding(ids, self.table(side))
        if self.cfg["scale_embedding"]:
            x = x * math.sqrt(self.cfg["d_model"])
        if self.cfg["position_embedding"] == "sinusoidal":
            x = x + self.positions[0][: ids.shape[1]].to(x.dtype)
        return x

    def encode(self, src):
        """Source ids [batch, Ts] to (memory [batch, Ts, d_model], visibility [batch, 1, 1, Ts])."""
        visible = (src != self.cfg["pad_token_id"])[:, None, None, :]
        return self.encoder(self.embed(src, "encoder"), visible), visible

    def decode(self, tgt, memory, visible):
        """Target ids [batch, Tt] to logits [batch, Tt, vocab]."""
        x = self.decoder(self.embed(tgt, "decoder"), causal(tgt.shape[1]), memory, visible)
        head = self.table("decoder") if self.cfg["tie_word_embeddings"] else self.lm_head.weight
        return F.linear(x, head, getattr(self, "final_logits_bias", None))

    def forward(self, src, tgt):
        return self.decode(tgt, *self.encode(src))

    @torch.no_grad()
    def greedy(self, src, limit):
        """Greedy continuation of each source row: lists of ids, without start and end tokens."""
        memory, visible = self.encode(src)
        out = torch.full((src.shape[0], 1), self.cfg["decoder_start_token_id"])
        done = torch.zeros(src.shape[0], dtype=torch.bool)
        for _ in range(limit):
            token = self.decode(out, memory, visible)[:, -1].argmax(-1)
            token[done] = self.cfg["pad_token_id"]
            out = torch.cat([out, token[:, None]], dim=1)
            done |= token == self.cfg["eos_token_id"]
            if done.all():
                break
        stop = (self.cfg["eos_token_id"], self.cfg["pad_token_id"])
        return [[t for t in row if t not in stop] for row in out[:, 1:].tolist()]
