"""What portico.nn and torch.nn are compared in: each case is made by the same words with either library, so that names,
arguments, masks and the names in state_dict() are compared, too.

make_goldens.py runs the cases with PyTorch in float64 and writes golden/nn.npz, which test_nn.py reads.
"""
import json

import numpy as np


class Case:
    """make(nn) gives a module, or None; call(module, F, *inputs) a tensor; inputs(random) the arrays."""

    def __init__(self, make, inputs, call=None):
        self.make, self.inputs = make, inputs
        self.call = call or (lambda module, F, *x: module(*x))


class Numbers:
    """The same numbers with every version of NumPy, which promises that of the bits alone."""

    def __init__(self, seed):
        self.bits = np.random.Philox(key=seed)

    def draw(self, shape):
        """float32 of mean 0 and deviation 1: uniform within sqrt(3)."""
        unit = self.bits.random_raw(int(np.prod(shape, dtype=int))) / 2.0**64
        return ((2 * unit - 1) * 3**0.5).astype(np.float32).reshape(shape)


def floats(*shapes):
    return lambda random: [random.draw(shape) for shape in shapes]


def with_extra(first, *more):
    """Arrays as they are behind random ones."""
    return lambda random: [*first(random), *[np.array(x) for x in more]]


PADDING = np.array([[0, 0, 0, 0, 0, 1, 1], [0, 0, 0, 0, 0, 0, 0], [0, 1, 1, 1, 1, 1, 1]], bool)  # True: not seen
CAUSAL = np.triu(np.ones((5, 5), bool), 1)
ADDED = np.where(CAUSAL, -np.inf, 0.25).astype(np.float32)
TARGET = np.array([2, -100, 0, 6, 3, 2], np.int32)
CLASS_WEIGHT = np.array([0.5, 1, 2, 1.5, 0.25, 1, 3], np.float32)
IDS = np.array([[1, 4, 0, 4], [9, 0, 0, 2]], np.int32)


def layer(kind, **options):
    def make(nn):
        return getattr(nn, kind)(8, 2, 12, 0.0, batch_first=True, **options)
    return make


def encoder(nn):
    return nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 12, 0.0, "gelu", batch_first=True, norm_first=True), 2,
                                 nn.LayerNorm(8))


def loss(name, inputs, **options):
    return Case(lambda nn: None, inputs, lambda m, F, *x: getattr(F, name)(*x, **options))


def attention(**options):
    return lambda m, F, q, k, v, *mask: F.scaled_dot_product_attention(q, k, v, *mask, **options)


def first(**options):
    return lambda m, F, *x: m(*x, **options)[0]


def second(**options):
    return lambda m, F, *x: m(*x, **options)[1]


QKV = floats((3, 5, 8), (3, 7, 8), (3, 7, 8))
HEADS = floats((2, 4, 5, 8), (2, 4, 6, 8), (2, 4, 6, 3))

CASES = {
    "linear": Case(lambda nn: nn.Linear(5, 3), floats((2, 4, 5))),
    "linear_no_bias": Case(lambda nn: nn.Linear(5, 3, bias=False), floats((4, 5))),
    "linear_vector": Case(lambda nn: nn.Linear(5, 3), floats((5,))),
    "embedding": Case(lambda nn: nn.Embedding(10, 6), lambda random: [IDS]),
    "layer_norm": Case(lambda nn: nn.LayerNorm(12), floats((2, 3, 12))),
    "layer_norm_two": Case(lambda nn: nn.LayerNorm((3, 4), eps=1e-3), floats((2, 3, 4))),
    "layer_norm_plain": Case(lambda nn: nn.LayerNorm(12, elementwise_affine=False), floats((2, 12))),
    "layer_norm_no_bias": Case(lambda nn: nn.LayerNorm(12, bias=False), floats((2, 12))),
    "rms_norm": Case(lambda nn: nn.RMSNorm(12), floats((2, 3, 12))),
    "rms_norm_eps": Case(lambda nn: nn.RMSNorm(12, eps=1e-2), floats((2, 3, 12))),
    "relu": Case(lambda nn: nn.ReLU(), floats((50,))),
    "gelu": Case(lambda nn: nn.GELU(), floats((50,))),
    "gelu_tanh": Case(lambda nn: nn.GELU(approximate="tanh"), floats((50,))),
    "silu": Case(lambda nn: nn.SiLU(), floats((50,))),
    "tanh": Case(lambda nn: nn.Tanh(), floats((50,))),
    "sigmoid": Case(lambda nn: nn.Sigmoid(), floats((50,))),
    "softmax": Case(lambda nn: nn.Softmax(dim=1), floats((2, 6, 3))),
    "softmax_function": Case(lambda nn: None, floats((2, 6, 3)), lambda m, F, x: F.softmax(x, dim=1)),
    "log_softmax_function": Case(lambda nn: None, floats((2, 6, 3)), lambda m, F, x: F.log_softmax(x, dim=-1)),
    "glu": Case(lambda nn: None, floats((2, 6, 3)), lambda m, F, x: F.glu(x, dim=1)),
    "sequential": Case(lambda nn: nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Dropout(0.0), nn.Linear(8, 2)),
                       floats((3, 4))),
    "attention": Case(lambda nn: nn.MultiheadAttention(8, 2, batch_first=True), QKV, first()),
    "attention_weights": Case(lambda nn: nn.MultiheadAttention(8, 2, batch_first=True), QKV, second()),
    "attention_weights_heads": Case(lambda nn: nn.MultiheadAttention(8, 4, batch_first=True), QKV,
                                    second(average_attn_weights=False)),
    "attention_sequence_first": Case(lambda nn: nn.MultiheadAttention(8, 2, bias=False), floats(*[(4, 3, 8)] * 3), first()),
    "attention_no_batch": Case(lambda nn: nn.MultiheadAttention(8, 2), floats(*[(4, 8)] * 3), first()),
    "attention_widths": Case(lambda nn: nn.MultiheadAttention(8, 2, kdim=6, vdim=5, batch_first=True),
                             floats((3, 5, 8), (3, 7, 6), (3, 7, 5)), first()),
    "attention_padding": Case(lambda nn: nn.MultiheadAttention(8, 2, batch_first=True), with_extra(QKV, PADDING),
                              lambda m, F, q, k, v, mask: m(q, k, v, key_padding_mask=mask)[0]),
    "attention_causal": Case(lambda nn: nn.MultiheadAttention(8, 2, batch_first=True),
                             with_extra(floats((3, 5, 8)), CAUSAL),
                             lambda m, F, x, mask: m(x, x, x, attn_mask=mask, need_weights=False)[0]),
    "attention_added": Case(lambda nn: nn.MultiheadAttention(8, 2, batch_first=True),
                            with_extra(floats((3, 5, 8)), ADDED, np.array(PADDING[:, :5])),
                            lambda m, F, x, mask, pad: m(x, x, x, key_padding_mask=pad & False, attn_mask=mask)[0]),
    "attention_mask_of_heads": Case(lambda nn: nn.MultiheadAttention(8, 2, batch_first=True),
                                    with_extra(floats((3, 5, 8)), np.stack([np.roll(CAUSAL, i, 1) & (i > 2) for i in range(6)])),
                                    lambda m, F, x, mask: m(x, x, x, attn_mask=mask)[0]),
    "encoder_layer": Case(layer("TransformerEncoderLayer"), floats((3, 5, 8))),
    "encoder_layer_pre_norm": Case(layer("TransformerEncoderLayer", norm_first=True, activation="gelu"),
                                   with_extra(floats((3, 7, 8)), PADDING),
                                   lambda m, F, x, mask: m(x, src_key_padding_mask=mask)),
    "encoder_layer_no_bias": Case(layer("TransformerEncoderLayer", bias=False), with_extra(floats((3, 5, 8)), CAUSAL)),
    "decoder_layer": Case(layer("TransformerDecoderLayer"), with_extra(floats((3, 5, 8), (3, 7, 8)), CAUSAL, PADDING),
                          lambda m, F, x, memory, mask, pad: m(x, memory, tgt_mask=mask, memory_key_padding_mask=pad)),
    "decoder_layer_pre_norm": Case(layer("TransformerDecoderLayer", norm_first=True), floats((3, 5, 8), (3, 7, 8))),
    "encoder": Case(encoder, floats((2, 4, 8))),
    "transformer": Case(lambda nn: nn.Transformer(8, 2, 1, 1, 12, 0.0, batch_first=True),
                        with_extra(floats((3, 7, 8), (3, 5, 8)), ADDED, PADDING),
                        lambda m, F, x, y, mask, pad: m(x, y, tgt_mask=mask, src_key_padding_mask=pad,
                                                        memory_key_padding_mask=pad)),
    "transformer_sequence_first": Case(lambda nn: nn.Transformer(8, 2, 1, 1, 12, 0.0, norm_first=True),
                                       floats((7, 3, 8), (5, 3, 8))),
    "attention_function": Case(lambda nn: None, HEADS, attention()),
    "attention_function_causal": Case(lambda nn: None, HEADS, attention(is_causal=True, scale=0.5)),
    "attention_function_three": Case(lambda nn: None, floats((4, 5, 8), (4, 6, 8), (4, 6, 3)), attention()),
    "attention_function_mask": Case(lambda nn: None, with_extra(HEADS, np.arange(30).reshape(5, 6) % 4 > 0), attention()),
    "attention_function_added": Case(lambda nn: None, lambda random: [x.astype(np.float32) for x in (
        *HEADS(random), random.draw((2, 1, 5, 6)))], attention()),
    "attention_function_gqa": Case(lambda nn: None, floats((2, 4, 5, 8), (2, 2, 6, 8), (2, 2, 6, 8)), attention(enable_gqa=True)),
    "cross_entropy": loss("cross_entropy", with_extra(floats((6, 7)), TARGET)),
    "cross_entropy_sum": loss("cross_entropy", with_extra(floats((6, 7)), TARGET), reduction="sum"),
    "cross_entropy_none": loss("cross_entropy", with_extra(floats((6, 7)), TARGET), reduction="none"),
    "cross_entropy_ignore": loss("cross_entropy", with_extra(floats((5, 7)), TARGET[[0, 2, 3, 4, 5]]), ignore_index=2),
    "cross_entropy_smoothed": loss("cross_entropy", with_extra(floats((6, 7)), TARGET), label_smoothing=0.1),
    "cross_entropy_weighted": loss("cross_entropy", with_extra(floats((6, 7)), TARGET, CLASS_WEIGHT)),
    "cross_entropy_weighted_smoothed": loss("cross_entropy", with_extra(floats((6, 7)), TARGET, CLASS_WEIGHT),
                                            label_smoothing=0.2),
    "cross_entropy_places": loss("cross_entropy", with_extra(floats((2, 7, 3)), TARGET.reshape(2, 3))),
    "cross_entropy_one": loss("cross_entropy", with_extra(floats((7,)), np.int32(3))),
    "cross_entropy_shares": loss("cross_entropy", with_extra(floats((3, 7)), np.full((3, 7), 1 / 7, np.float32)),
                                 label_smoothing=0.1),
    "nll_loss": loss("nll_loss", with_extra(floats((6, 7)), TARGET)),
    "mse_loss": loss("mse_loss", floats((3, 4), (3, 4))),
    "l1_loss": loss("l1_loss", floats((3, 4), (3, 4)), reduction="sum"),
    "bce_with_logits": loss("binary_cross_entropy_with_logits", with_extra(floats((2, 3)), np.eye(2, 3, dtype=np.float32))),
}


def weights_of(shapes, random):
    """First values for parameters, by their names."""
    return {name: (random.draw(shape) * (0.3 if len(shape) > 1 else 0.5) +
                   (1 if name.endswith("weight") and len(shape) == 1 else 0)).astype(np.float32)
            for name, shape in shapes.items()}


def pack(found):
    """{name: array} as few arrays, as each file of a .npz costs more than most of these hold."""
    names, arrays = list(found), list(found.values())
    index = [[name, list(x.shape)] for name, x in zip(names, arrays)]
    return {"index": json.dumps(index), "data": np.concatenate([np.ravel(x) for x in arrays]).astype(np.float32)}


def unpack(packed):
    found, at = {}, 0
    for name, shape in json.loads(str(packed["index"])):
        count = int(np.prod(shape, dtype=int))
        found[name] = packed["data"][at:at + count].reshape(shape)
        at += count
    return found


# ---- training ----

STEPS = 50


def train_model(nn):
    """Logits of the next of 11 symbols."""
    layer_ = nn.TransformerEncoderLayer(16, 2, 32, 0.0, "gelu", batch_first=True, norm_first=True)
    return nn.Sequential(nn.Embedding(11, 16), nn.TransformerEncoder(layer_, 1, nn.LayerNorm(16)), nn.Linear(16, 11))


def train_data(step):
    """Rows that count upwards by three, modulo 11."""
    start = np.random.Philox(key=step).random_raw(8) % 11
    rows = ((start[:, None].astype(np.int32) + 3 * np.arange(9)) % 11).astype(np.int32)
    return rows[:, :-1], rows[:, 1:]


TRAINERS = {
    "sgd": (lambda optim, p: optim.SGD(p, lr=0.3), None, None),
    "momentum": (lambda optim, p: optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.01), None, 1.0),
    "nesterov": (lambda optim, p: optim.SGD(p, lr=0.1, momentum=0.8, nesterov=True), None, None),
    "adam": (lambda optim, p: optim.Adam(p, lr=1e-2, weight_decay=0.02, eps=1e-4), None, 0.5),
    "adamw": (lambda optim, p: optim.AdamW(p, lr=1e-2, betas=(0.9, 0.98), weight_decay=0.1, eps=1e-4),
              lambda schedules, o: schedules.CosineAnnealingLR(o, T_max=STEPS, eta_min=1e-4), None),
    "groups": (lambda optim, p: optim.AdamW([{"params": [x for x in p if x.ndim > 1], "weight_decay": 0.1},
                                             {"params": [x for x in p if x.ndim == 1], "lr": 3e-3}], lr=1e-2,
                                            weight_decay=0.0, eps=1e-4),
               lambda schedules, o: schedules.StepLR(o, 20, 0.5), 1.0),
}
