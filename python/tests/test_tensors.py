"""Tensors against NumPy.

Bounds: with u = 2^-24, an elementwise function is within 4 ulp on every device that the conformance suite passes, sums of
n terms within n u times the sum of magnitudes. RTOL = 1e-5 is above 40 u + the longest sum here (n = 60: 60 u = 4e-6)."""
import os

import numpy as np
import pytest

import portico as p

RTOL, ATOL = 1e-5, 1e-5


def close(got, want):
    want = np.asarray(want)
    got = got.numpy()
    assert got.shape == want.shape
    np.testing.assert_allclose(got, want, rtol=RTOL, atol=ATOL)


SHAPES = [((3, 4), (3, 4)), ((3, 4), (4,)), ((3, 1), (1, 4)), ((2, 3, 4), (3, 1)), ((), (3,)), ((0, 3), (3,))]


@pytest.mark.parametrize("name", ["add", "subtract", "multiply", "divide", "power", "maximum", "minimum", "equal", "less",
                                  "greater_equal"])
@pytest.mark.parametrize("shapes", SHAPES)
def test_binary(random, name, shapes):
    a, b = (random.uniform(0.5, 2, shape).astype(np.float32) for shape in shapes)
    close(getattr(p, name)(p.tensor(a), p.tensor(b)), getattr(np, name)(a, b))


@pytest.mark.parametrize("name", ["exp", "log", "sqrt", "sin", "cos", "tanh", "floor", "ceil", "square", "sign", "negative",
                                  "absolute", "reciprocal"])
def test_unary(random, name):
    a = random.uniform(0.5, 2, (3, 5)).astype(np.float32)
    close(getattr(p, name)(p.tensor(a)), getattr(np, name)(a))


@pytest.mark.parametrize("name", ["sum", "mean", "max", "min", "var", "std"])
@pytest.mark.parametrize("axis", [None, 0, -1, (0, 2)])
@pytest.mark.parametrize("keepdims", [False, True])
def test_reductions(random, name, axis, keepdims):
    a = random.standard_normal((3, 4, 5)).astype(np.float32)
    close(getattr(p.tensor(a), name)(axis=axis, keepdims=keepdims), getattr(np, name)(a, axis=axis, keepdims=keepdims))


def test_whole_numbers():
    a, b = np.array([7, -7, 7, -7], np.int32), np.array([2, 2, -2, -2], np.int32)
    for name in ("add", "subtract", "multiply", "floor_divide", "remainder", "divide"):
        close(getattr(p, name)(p.tensor(a), p.tensor(b)), getattr(np, name)(a, b))
    assert p.tensor(a).dtype is p.int32 and (p.tensor(a) / 2).dtype is p.float32
    assert (p.tensor(a) > 0).sum().item() == 2
    assert (p.tensor(a) ** 3).tolist() == [343, -343, 343, -343]


@pytest.mark.parametrize("index", [0, -1, slice(None), slice(1, None), (slice(None), 2), (..., 1), (None, 0), (1, 2, 3),
                                   (slice(0, 2), slice(None, None), slice(1, 4)), [0, 2], (slice(None), [1, 1, 0])])
def test_indexing(random, index):
    a = random.standard_normal((3, 4, 5)).astype(np.float32)
    close(p.tensor(a)[index], a[index])


def test_shapes(random):
    a = random.standard_normal((3, 4, 5)).astype(np.float32)
    t = p.tensor(a)
    close(t.reshape(5, -1), a.reshape(5, -1))
    close(t.transpose(2, 0, 1), a.transpose(2, 0, 1))
    close(t.T, a.T)
    close(p.swapaxes(t, 0, 1), a.swapaxes(0, 1))
    close(p.concatenate([t, t], 1), np.concatenate([a, a], 1))
    close(p.stack([t, t], 1), np.stack([a, a], 1))
    close(p.concatenate([t] * 11, 0), np.concatenate([a] * 11, 0))
    for got, want in zip(p.split(t, 2, 1), np.split(a, 2, 1)):
        close(got, want)
    close(p.tril(t), np.tril(a))
    close(p.triu(t, 1), np.triu(a, 1))
    close(p.take(t, [2, 0], 0), np.take(a, [2, 0], 0))
    close(p.broadcast_to(t[0, 0], (2, 5)), np.broadcast_to(a[0, 0], (2, 5)))
    close(p.cumsum(t, 1), np.cumsum(a, 1))
    assert p.argmax(t, 2).tolist() == a.argmax(2).tolist()


@pytest.mark.parametrize("shapes", [((3, 4), (4, 5)), ((4,), (4,)), ((2, 3, 4), (4, 5)), ((2, 3, 4), (2, 4, 5)),
                                    ((4,), (4, 5)), ((3, 4), (4,)), ((2, 1, 3, 4), (5, 4, 2))])
def test_matmul(random, shapes):
    a, b = (random.standard_normal(shape).astype(np.float32) for shape in shapes)
    close(p.tensor(a) @ p.tensor(b), a @ b)


def test_softmax(random):
    a = random.standard_normal((3, 7)).astype(np.float32)
    e = np.exp(a - a.max(-1, keepdims=True))
    close(p.softmax(p.tensor(a)), e / e.sum(-1, keepdims=True))
    close(p.log_softmax(p.tensor(a)), np.log(e / e.sum(-1, keepdims=True)))


def test_masked_fill(random):
    a = random.standard_normal((3, 4)).astype(np.float32)
    close(p.tensor(a).masked_fill(a > 0, -2.0), np.where(a > 0, -2, a))


def test_types(random):
    a = random.standard_normal((4, 4)).astype(np.float32)
    half = p.tensor(a).astype("float16")
    assert half.dtype is p.float16 and half.numpy().dtype == np.float16
    assert np.array_equal(half.numpy(), a.astype(np.float16))
    bf = p.tensor(a).astype("bfloat16")
    assert np.all(np.abs(bf.numpy() - a) <= np.abs(a) * 2.0**-8)  # 8 bits, half a step
    assert (half + 1).dtype is p.float16 and (half + p.tensor(a)).dtype is p.float32
    assert p.tensor([True, False]).dtype is p.bool_
    assert p.tensor(2**31 - 1).item() == 2**31 - 1


def test_numpy_functions(random):
    a = random.standard_normal((3, 4)).astype(np.float32)
    assert isinstance(np.exp(p.tensor(a)), p.Tensor) and isinstance(a + p.tensor(a), p.Tensor)
    close(a @ p.tensor(a.T), a @ a.T)
    assert np.array_equal(np.asarray(p.tensor(a)), a)


def test_arrays_are_not_copied(random):
    a = random.standard_normal((64, 64)).astype(np.float32)
    x = p.asarray(a)
    assert np.shares_memory(x.numpy(), a)
    assert not np.shares_memory(p.tensor(a).numpy(), a)
    assert np.shares_memory(np.from_dlpack(x), a)


@pytest.mark.skipif(not os.environ.get("PORTICO_BACKEND", "cpu").startswith("cpu"), reason="devices have memory of their own")
def test_arrays_are_read_where_they_are(random):
    """An array of 128 MiB is not copied for a run, compiled or not: the process may not grow by half of it."""
    def resident():
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    a = np.ones((64, 512, 1024), np.float32)
    largest = p.function(lambda x: x.max())
    largest(p.asarray(a[0, 0])).numpy()  # opens the device
    for run in (lambda: p.asarray(a).max().item(), lambda: largest(p.asarray(a)).item(), lambda: largest(p.asarray(np.from_dlpack(a))).item()):
        before = resident()
        assert run() == 1
        assert resident() - before < a.nbytes / 2
    a[5, 7, 9] = 3
    assert largest(p.asarray(a)).item() == 3
    odd = np.frombuffer(bytearray(4 * 9 + 1), np.float32, 9, offset=1)  # no address of a float
    assert largest(p.asarray(odd)).item() == 0 and largest(p.asarray(np.ones(9, np.float32))).item() == 1


def test_lazy(random):
    a = p.tensor(random.standard_normal((8, 8)).astype(np.float32))
    b = a
    for _ in range(300):
        b = b * 0.99 + 0.01
    c = b.sum()
    p.eval(b, c)
    np.testing.assert_allclose(c.item(), b.numpy().sum(dtype=np.float64), rtol=RTOL, atol=64 * 2**-20)


@pytest.mark.parametrize("what, message", [
    (lambda: p.ones((2, 3)) + p.ones((4,)), r"\[2,3\] and \[4\].*cannot be broadcast"),
    (lambda: p.ones((2, 3)) @ p.ones((2, 3)), r"matmul of \(2, 3\) and \(2, 3\)"),
    (lambda: p.ones((2, 3)).sum(axis=5), "axis 5 is out of range"),
    (lambda: p.ones((2, 3)).item(), "one element"),
    (lambda: p.tensor([[1], [1, 2]]), "."),
    (lambda: p.tensor(2**40), "int32"),
    (lambda: p.ones((2,), dtype="complex64"), "complex64"),
    (lambda: p.tensor([1.0], device="warp:9") + 1 == 2 or (p.tensor([1.0], device="warp:9") + 1).numpy(), "no device matches 'warp:9'"),
    (lambda: bool(p.ones((2,))), "neither true nor false"),
])
def test_misuse_is_one_line(what, message):
    with pytest.raises((p.Error, ValueError, TypeError), match=message) as caught:
        what()
    assert "\n" not in str(caught.value)


def test_devices():
    found = p.devices()
    assert any(str(d).startswith("cpu") for d in found)
    with p.device("cpu:reference"):
        x = p.ones((2, 2)) * 3
        assert x.tolist() == [[3, 3], [3, 3]]
