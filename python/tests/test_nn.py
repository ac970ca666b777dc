"""portico.nn against goldens of PyTorch in float64 (make_goldens.py) and formulas in NumPy.

Bounds: with u = 2^-24, a sum of n terms and an elementwise function are off by at most (n + 8) u of the magnitudes that
go into them; here n <= 24, so that each operation adds 32 u = 2e-6 of the rms of its result at most, and on average far
less. The longest chain, a transformer and its gradient, is some 60 operations deep, whose errors are independent: sqrt(60)
2e-6 = 1.5e-5 of the rms. BOUND is that, and float32 in the file adds u."""
import copy
import os
import pickle
import zlib

import numpy as np
import pytest

import nn_cases
import portico as p
from portico import nn
from portico.nn import functional as F

BOUND = 1.5e-5
GOLDEN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "golden")


@pytest.fixture(scope="module")
def goldens():
    with np.load(os.path.join(GOLDEN, "nn.npz")) as packed:
        return nn_cases.unpack(packed)


def close(got, want, bound=BOUND):
    got = got.numpy() if isinstance(got, p.Tensor) else np.asarray(got)
    assert got.shape == want.shape
    rms = np.sqrt((want.astype(np.float64)**2).mean()) if want.size else 0
    worst = np.abs(got - want) / (np.abs(want) + rms + 1e-30)
    assert not worst.size or worst.max() <= bound, worst.max()


def made(name):
    """The module of a case with the weights of its golden, the inputs, and the factor of the loss's gradient."""
    case, random = nn_cases.CASES[name], nn_cases.Numbers(zlib.crc32(name.encode()))
    module = case.make(nn)
    if module is not None:
        shapes = {n: x.shape for n, x in module.state_dict().items()}
        module.load_state_dict(nn_cases.weights_of(shapes, random))
    return case, module, case.inputs(random), random


@pytest.mark.parametrize("name", nn_cases.CASES)
def test_against_pytorch(goldens, name):
    case, module, inputs, random = made(name)
    factor = random.draw(goldens[f"{name}/output"].shape)

    def loss(first):
        y = case.call(module, F, first, *inputs[1:])
        return (y * factor).sum(), y

    floats = inputs[0].dtype == np.float32
    if floats:
        (value, y), gradient = p.value_and_grad(loss, has_aux=True)(p.tensor(inputs[0]))
    else:
        value, y = loss(p.tensor(inputs[0]))
    if module is not None and list(module.parameters()):
        value.backward()
    close(y, goldens[f"{name}/output"])
    if floats:
        close(gradient, goldens[f"{name}/gradient_of_input"])
    want = {key[len(f"{name}/gradient/"):]: x for key, x in goldens.items() if key.startswith(f"{name}/gradient/")}
    have = {} if module is None else {n: x for n, x in module.named_parameters() if x.grad is not None}
    assert set(have) == set(want)
    for key, x in have.items():
        # The biases of keys have no influence: a sum of zeros, up to what the parts of it are rounded to.
        got = x.grad.numpy()
        if key.endswith("in_proj_bias"):
            third = len(got) // 3
            assert np.abs(got[third:2 * third]).max() <= BOUND * (np.abs(want[key]).max() + 1)
            got, want[key] = (np.delete(a, slice(third, 2 * third)) for a in (got, want[key]))
        close(got, want[key])


def test_goldens_are_what_pytorch_says():
    """Where it is installed: the file belongs to these cases."""
    pytest.importorskip("torch")
    import warnings

    import make_goldens

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cases, losses = make_goldens.goldens()
    with np.load(os.path.join(GOLDEN, "nn.npz")) as packed:
        found = nn_cases.unpack(packed)
    for name, x in nn_cases.unpack(cases).items():
        # float64 has no part in it; float32 in the file has u. A sum that cancels may be far from its rms.
        np.testing.assert_allclose(found[name], x, rtol=1e-6, atol=1e-12 + 1e-6 * np.abs(x).max(), err_msg=name)
    with np.load(os.path.join(GOLDEN, "training.npz")) as found:
        assert sorted(found) == sorted(losses)
        for name in losses:
            if name.endswith("float64"):  # 50 steps carry on what 2^-53 is off: measured, 1e-12
                np.testing.assert_allclose(found[name], losses[name], rtol=1e-8, err_msg=name)


def test_state_of_a_pytorch_model_is_taken_over():
    torch = pytest.importorskip("torch")
    theirs = nn_cases.train_model(torch.nn)
    ours = nn_cases.train_model(nn)
    ours.load_state_dict(theirs.state_dict())
    for name, x in theirs.state_dict().items():
        assert np.array_equal(ours.get_parameter(name).numpy(), x.numpy())
    assert list(ours.state_dict()) == list(theirs.state_dict())


# ---- what PyTorch's modules have not ----

def test_swiglu(random):
    x = random.standard_normal((3, 8)).astype(np.float32)
    module = nn.FeedForward(8, 6, "swiglu", bias=False)
    w1, w2 = module.linear1.weight.numpy().astype(float), module.linear2.weight.numpy().astype(float)
    gate, up = np.split(x @ w1.T, 2, -1)
    close(module(x), (gate / (1 + np.exp(-gate)) * up @ w2.T).astype(np.float32))


def turned(x, positions, base, dim, interleaved):
    """RoPE in float64, from the paper: x [B, S, H, D]."""
    x = x.astype(np.float64)
    angle = positions[:, None] * base ** (-2 * np.arange(dim // 2) / dim)
    cos, sin = np.cos(angle)[None, :, None], np.sin(angle)[None, :, None]
    a, b = (np.arange(0, dim, 2), np.arange(1, dim, 2)) if interleaved else (np.arange(dim // 2),) * 2
    b = b if interleaved else b + dim // 2
    y = x.copy()
    y[..., a], y[..., b] = x[..., a] * cos - x[..., b] * sin, x[..., a] * sin + x[..., b] * cos
    return y


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("dim", [8, 4])
def test_rope(random, interleaved, dim):
    x = random.standard_normal((2, 5, 3, 8)).astype(np.float32)
    rope = nn.RotaryEmbedding(dim, base=100.0, interleaved=interleaved)
    want = turned(x, np.arange(5), 100.0, dim, interleaved).astype(np.float32)
    close(rope(x, heads_first=False), want)
    close(rope(x.swapaxes(1, 2).copy()), want.swapaxes(1, 2))
    far = np.arange(5) + 100000
    close(rope(x, far, heads_first=False), turned(x, far, 100.0, dim, interleaved).astype(np.float32))


def test_attention_with_rope(random):
    """Of turned queries and keys; with all positions later the same."""
    x = random.standard_normal((2, 5, 8)).astype(np.float32)
    m = nn.MultiheadAttention(8, 2, batch_first=True, rope=True)
    y, weights = m(x, x, x, is_causal=True)
    later, _ = m(x, x, x, is_causal=True, positions=np.arange(5) + 1000)
    close(later, y.numpy())
    wq, wk, _ = np.split(m.in_proj_weight.numpy().astype(float), 3)
    q, k = (turned((x @ w.T).reshape(2, 5, 2, 4), np.arange(5), 10000.0, 4, False) for w in (wq, wk))
    scores = np.einsum("bshd,bthd->bhst", q, k) / 2 + np.triu(np.full((5, 5), -np.inf), 1)
    e = np.exp(scores - scores.max(-1, keepdims=True))
    close(weights, (e / e.sum(-1, keepdims=True)).mean(1).astype(np.float32))


def test_grouped_queries(random):
    """Heads of keys that serve two of queries are those heads twice."""
    x = random.standard_normal((2, 5, 8)).astype(np.float32)
    few, all_ = nn.MultiheadAttention(8, 4, batch_first=True, kv_heads=2), nn.MultiheadAttention(8, 4, batch_first=True)
    w = few.in_proj_weight.numpy()
    twice = [np.repeat(part.reshape(2, 2, 8), 2, 0).reshape(8, 8) for part in (w[8:12], w[12:16])]
    all_.load_state_dict({**few.state_dict(), "in_proj_weight": np.concatenate([w[:8], *twice]),
                          "in_proj_bias": np.zeros(24, np.float32)})
    close(few(x, x, x)[0], all_(x, x, x)[0].numpy())


def test_sinusoidal_positions(random):
    x = random.standard_normal((2, 6, 10)).astype(np.float32)
    angle = np.arange(6)[:, None] / 10000 ** (2 * np.arange(5) / 10)
    table = np.stack([np.sin(angle), np.cos(angle)], -1).reshape(6, 10)
    close(nn.SinusoidalPositionalEncoding(10)(x), (x + table).astype(np.float32))
    close(nn.SinusoidalPositionalEncoding(10, batch_first=False)(x.swapaxes(0, 1).copy()),
          (x + table).astype(np.float32).swapaxes(0, 1))
    close(nn.SinusoidalPositionalEncoding(10)(x, offset=2)[:, :4], (x[:, :4] + table[2:]).astype(np.float32))


def test_a_row_that_sees_nothing_is_zero(random):
    m = nn.MultiheadAttention(8, 2, batch_first=True, bias=False)
    x = random.standard_normal((1, 3, 8)).astype(np.float32)
    y, weights = m(x, x, x, key_padding_mask=np.array([[True, True, True]]))
    assert not y.numpy().any() and not weights.numpy().any()


def test_norms_of_the_layers(random):
    layer = nn.TransformerEncoderLayer(8, 2, 12, 0.0, "swiglu", batch_first=True, norm_first=True, norm="rms_norm",
                                       rope=True, kv_heads=1)
    x = random.standard_normal((2, 4, 8)).astype(np.float32)
    y = layer(x, is_causal=True)
    head = layer(x[:, :2].copy(), is_causal=True)
    close(y[:, :2], head.numpy())
    assert isinstance(layer.norm1, nn.RMSNorm)
    with pytest.raises(p.InvalidError, match="batch_norm"):
        nn.TransformerEncoderLayer(8, 2, norm="batch_norm")


# ---- dropout ----

def test_dropout():
    p.manual_seed(3)
    drop = nn.Dropout(0.25)
    x = p.ones((200, 200))
    first, second = drop(x), drop(x)
    share = (first == 0).float().mean().item()
    # 40,000 draws: 5 standard deviations are 5 sqrt(0.25 * 0.75 / 40000) = 0.011
    assert abs(share - 0.25) < 0.011
    assert set(np.unique(first.numpy())) == {np.float32(0), np.float32(4 / 3)}
    assert (first != second).any()
    p.manual_seed(3)
    assert np.array_equal(drop(x).numpy(), first.numpy())
    run = p.function(lambda x: (drop(x), drop(x)))
    (a, b), (c, _) = run(x), run(x)
    assert (a != b).any() and (a != c).any()
    drop.eval()
    assert (drop(x) == x).all() and (run(x)[0] == x).all()
    with p.device("cpu:reference"):
        p.manual_seed(3)
        drop.train()
        assert np.array_equal(drop(p.ones((200, 200))).numpy(), first.numpy())


def test_the_gradient_of_dropout_has_the_same_zeros():
    drop = nn.Dropout(0.5)

    def loss(x):
        y = drop(x)
        return y.sum(), y

    (_, y), gradient = p.value_and_grad(loss, has_aux=True)(p.ones((100,)))
    assert np.array_equal(gradient.numpy(), y.numpy()) and (y == 0).any()


# ---- modules ----

class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(7, 4, padding_idx=0)
        self.layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(2)])
        self.out = nn.Linear(4, 7, bias=False)
        self.out.weight = self.embed.weight
        self.register_buffer("scale", np.float32([2.0]))
        self.register_buffer("scratch", np.zeros(3, np.float32), persistent=False)

    def forward(self, ids):
        x = self.embed(ids)
        for layer in self.layers:
            x = layer(x).relu()
        return self.out(x) * self.scale


def test_names_and_parameters():
    m = Tied()
    names = ["embed.weight", "layers.0.weight", "layers.0.bias", "layers.1.weight", "layers.1.bias"]
    assert [n for n, _ in m.named_parameters()] == names
    assert list(m.state_dict()) == names + ["out.weight", "scale"]
    assert sum(x.numel() for x in m.parameters()) == 7 * 4 + 2 * 20
    assert [n for n, _ in m.named_modules()] == ["", "embed", "layers", "layers.0", "layers.1", "out"]
    assert m.get_parameter("layers.1.bias") is m.layers[1].bias and m.layers[-1] is m.layers[1]
    assert "ModuleList(\n    (0-1): 2 x Linear(in_features=4, out_features=4, bias=True)\n  )" in repr(m)
    assert "(embed): Embedding(7, 4, padding_idx=0)" in repr(m)


def test_gradient_of_tied_weights_and_padding():
    m = Tied()
    m(np.array([[0, 1, 2]])).sum().backward()
    # Row 0 is not in the embedding's gradient, but in the output's.
    free = Tied()
    free.load_state_dict(m.state_dict())
    free.out.weight = nn.Parameter(m.embed.weight.numpy())
    free(np.array([[0, 1, 2]])).sum().backward()
    assert not free.embed.weight.grad[0].numpy().any()
    close(m.embed.weight.grad, (free.embed.weight.grad + free.out.weight.grad).numpy())


def test_copies_and_files(tmp_path):
    m = Tied()
    twin = copy.deepcopy(m)
    assert twin.out.weight is twin.embed.weight and twin.embed.weight is not m.embed.weight
    p.manual_seed(5)
    nn.init.normal_(m.embed.weight)
    assert (twin.embed.weight != m.embed.weight).any()
    np.savez(tmp_path / "m.npz", **m.state_dict())
    with np.load(tmp_path / "m.npz") as f:
        assert twin.load_state_dict(f) == ([], [])
    ids = np.array([[1, 2, 3]])
    assert np.array_equal(twin(ids).numpy(), m(ids).numpy())
    again = pickle.loads(pickle.dumps(m))
    assert again.out.weight is again.embed.weight
    assert np.array_equal(again(ids).numpy(), m(ids).numpy())


def test_what_does_not_fit_changes_nothing():
    m = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 2))
    before = m.state_dict()
    wrong = {**before, "0.weight": np.zeros((3, 3)), "2.weight": np.zeros(1)}
    del wrong["1.bias"]
    with pytest.raises(p.InvalidError, match=r"missing: 1.bias; not in the model: 2.weight; 0.weight has the shape") as e:
        m.load_state_dict(wrong)
    assert "\n" not in str(e.value)
    for name, x in m.state_dict().items():
        assert np.array_equal(x.numpy(), before[name].numpy())
    del wrong["0.weight"]
    assert m.load_state_dict(wrong, strict=False) == (["0.weight", "1.bias"], ["2.weight"])


@pytest.mark.parametrize("what, error, words", [
    (lambda: nn.Linear(3, 4)(np.zeros((2, 5), np.float32)), p.InvalidError, "last dimension of x is 5"),
    (lambda: nn.Embedding(4, 2)(np.array([4])), p.InvalidError, "index 4 is out of range"),
    (lambda: nn.Embedding(4, 2)(np.array([1.0])), p.InvalidError, "whole numbers"),
    (lambda: nn.MultiheadAttention(10, 3), p.InvalidError, "multiple of num_heads"),
    (lambda: nn.LayerNorm(4)(np.zeros((2, 3), np.float32)), p.InvalidError, "does not end with"),
    (lambda: nn.Dropout(1.5), p.InvalidError, "p is 1.5"),
    (lambda: nn.Linear(2, 2).no_such, AttributeError, "no_such"),
    (lambda: nn.Module()(1), NotImplementedError, "forward"),
    (lambda: setattr(nn.Linear(2, 2), "weight", 3), TypeError, "cannot become int"),
    (lambda: F.cross_entropy(np.zeros((2, 3), np.float32), np.zeros(3, np.int32)), p.InvalidError, "target has the shape"),
    (lambda: nn.MultiheadAttention(4, 2)(*[np.zeros((2, 1, 4), np.float32)] * 3, attn_mask=np.zeros((3, 3), bool)),
     p.InvalidError, "mask has the shape"),
    (lambda: p.ones((2,)).sum().backward(), p.InvalidError, "depends on no parameter"),
    (lambda: p.manual_seed(-1), p.InvalidError, "seed"),
])
def test_misuse_is_one_line(what, error, words):
    with pytest.raises(error, match=words) as caught:
        what()
    assert "\n" not in str(caught.value)


def test_a_module_without_super_init():
    class Forgetful(nn.Module):
        def __init__(self):
            self.linear = nn.Linear(2, 2)

    with pytest.raises(AttributeError, match="super"):
        Forgetful()


def test_compiled_modules_notice_changes(random):
    calls = []

    class Counted(nn.Module):
        def __init__(self):
            super().__init__()
            self.parts = nn.Sequential(nn.Linear(3, 3))
            self.drop = nn.Dropout(0.5)

        def forward(self, x):
            calls.append(1)
            return self.drop(self.parts(x))

    m = Counted().eval()
    run = p.function(m)
    x = random.standard_normal((2, 3)).astype(np.float32)
    assert np.array_equal(run(x).numpy(), m(x).numpy())
    run(x), run(x)
    assert len(calls) == 2
    m.parts[0].weight.assign(np.zeros((3, 3)))  # is read in each run
    close(run(x), np.broadcast_to(m.parts[0].bias.numpy(), (2, 3)))
    assert len(calls) == 2
    m.parts[0].weight = nn.Parameter(np.eye(3, dtype=np.float32))
    close(run(x), x + m.parts[0].bias.numpy())
    assert len(calls) == 3
    m.parts.append(nn.ReLU().eval())
    close(run(x), np.maximum(x + m.parts[0].bias.numpy(), 0))
    m.train()
    assert (run(np.ones((40, 3), np.float32)) == 0).any()
    run(x)
    m.eval()
    count = len(calls)
    run(x)
    assert len(calls) == count  # both are kept
    assert (m.train()(np.ones((40, 3), np.float32)) == 0).any()


def test_another_device(random):
    m = nn.Linear(3, 2)
    x = random.standard_normal((4, 3)).astype(np.float32)
    run = p.function(lambda x: m(x))
    want = run(x).numpy()
    m.to("cpu:reference")
    assert m.weight.device == "cpu:reference"
    close(run(x), want)
    close(m(x), want)
    half = copy.deepcopy(m).to("bfloat16")
    assert half.weight.dtype is p.bfloat16
    y = half(p.tensor(x).astype("bfloat16")).numpy()
    np.testing.assert_allclose(y, want, atol=4 * 2**-8 * np.abs(want).max())  # bfloat16 keeps 8 bits; sums of 3


def test_frozen_parameters():
    m = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))
    m[0].requires_grad_(False)
    m(p.ones((1, 2))).sum().backward()
    assert m[0].weight.grad is None and m[1].weight.grad is not None
    m.zero_grad()
    assert m[1].weight.grad is None
    _, gradients = p.value_and_grad(lambda m: m(p.ones((1, 2))).sum())(m)
    assert list(gradients) == ["1.weight", "1.bias"]


def test_a_value_that_was_asked_for_too_early():
    m = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))
    h = m[0](p.ones((1, 2)))
    h.numpy()
    with pytest.raises(p.InvalidError, match="asked for before"):
        m[1](h).sum().backward()
    m[1](h.detach()).sum().backward()
    assert m[0].weight.grad is None and m[1].weight.grad is not None


def test_gradients_add_up():
    m = nn.Linear(2, 1)
    x = p.tensor([[1.0, 2.0]])
    m(x).sum().backward()
    m(x).sum().backward()
    assert m.weight.grad.tolist() == [[2.0, 4.0]]


# ---- first values ----

def test_first_values():
    p.manual_seed(9)
    a = nn.Linear(300, 200)
    p.manual_seed(9)
    b = nn.Linear(300, 200)
    assert np.array_equal(a.weight.numpy(), b.weight.numpy())
    assert np.array_equal(nn.Linear(3, 2, generator=4).weight.numpy(), nn.Linear(3, 2, generator=4).weight.numpy())
    assert np.abs(a.weight.numpy()).max() <= 300**-0.5 + 1e-7
    x = nn.Parameter(np.zeros((200, 300), np.float32))
    # 60,000 draws: 5 standard deviations of a deviation are 5 / sqrt(2 * 60000) = 1.5 %.
    for fill, deviation in ((nn.init.normal_, 1), (nn.init.xavier_uniform_, (2 / 500) ** 0.5),
                            (nn.init.xavier_normal_, (2 / 500) ** 0.5),
                            (lambda x: nn.init.kaiming_normal_(x, nonlinearity="relu"), (2 / 300) ** 0.5),
                            (lambda x: nn.init.kaiming_uniform_(x, mode="fan_out", nonlinearity="linear"), 200**-0.5),
                            (lambda x: nn.init.uniform_(x, -3, 3), 3**0.5)):
        fill(x)
        assert abs(x.numpy().std() / deviation - 1) < 0.015 and abs(x.numpy().mean()) < 5 * deviation / 60000**0.5
    nn.init.trunc_normal_(x, std=1, a=-0.5, b=1)
    assert x.numpy().min() >= -0.5 and x.numpy().max() <= 1
    nn.init.orthogonal_(x, gain=2)
    np.testing.assert_allclose(x.numpy() @ x.numpy().T, 4 * np.eye(200), atol=300 * 2**-22)
    nn.init.eye_(x), nn.init.ones_(x), nn.init.constant_(x, 3)
    assert (x == 3).all()
    with pytest.raises(p.InvalidError, match="two dimensions"):
        nn.init.xavier_uniform_(nn.Parameter(np.zeros(3, np.float32)))
