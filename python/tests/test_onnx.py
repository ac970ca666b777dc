"""portico.onnx: models made here byte by byte (so that no other package is needed), called with arrays. ONNX's own backend
test is onnx_backend_run.py."""
import os
import struct

import numpy as np
import pytest

import portico

FLOAT, INT64, BFLOAT16 = 1, 7, 16


def varint(n):
    out = bytearray()
    while n > 127:
        out.append(n & 127 | 128)
        n >>= 7
    out.append(n)
    return bytes(out)


def field(number, value):
    """A field of a protobuf message: whole numbers, text or bytes."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def node(op, inputs, outputs, **floats):
    made = b"".join(field(1, x) for x in inputs) + b"".join(field(2, x) for x in outputs) + field(4, op)
    for name, value in floats.items():
        made += field(5, field(1, name) + varint(2 << 3 | 5) + struct.pack("<f", value) + field(20, 1))
    return made


def value(name, dtype, shape):
    dims = b"".join(field(1, field(1, d) if isinstance(d, int) else field(2, d)) for d in shape)
    return field(1, name) + field(2, field(1, field(1, dtype) + field(2, dims)))


def model(nodes, inputs, outputs, opset=17):
    graph = b"".join(field(1, x) for x in nodes) + b"".join(field(11, x) for x in inputs) + \
        b"".join(field(12, x) for x in outputs)
    return field(1, 8) + field(7, graph) + field(8, field(2, opset))


TWO = model([node("MatMul", ["x", "w"], ["product"]), node("LeakyRelu", ["product"], ["y"], alpha=0.5),
             node("Shape", ["y"], ["size"])],
            [value("x", FLOAT, ["rows", 3]), value("w", FLOAT, [3, 2])],
            [value("y", FLOAT, ["rows", 2]), value("size", INT64, [2])])


try:
    portico.onnx.load(TWO).close()
except portico.UnsupportedError as unsupported:  # Meson's option onnx
    pytest.skip(str(unsupported), allow_module_level=True)


def expected(x, w):
    product = x @ w
    return np.where(product < 0, product * np.float32(0.5), product)


def test_describes_itself():
    with portico.onnx.load(TWO) as opened:
        assert [(v.name, v.dtype, v.shape) for v in opened.inputs] == [("x", "float", ("rows", 3)), ("w", "float", (3, 2))]
        assert [(v.name, v.dtype, v.shape) for v in opened.outputs] == [("y", "float", ("rows", 2)), ("size", "int64", (2,))]
        assert opened.opset == 17 and opened.nodes == 3 and opened.check() == []
        assert "3 nodes" in repr(opened)


def test_runs_with_arrays_in_order_and_by_name(random, tmp_path):
    path = tmp_path / "two.onnx"
    path.write_bytes(TWO)
    opened = portico.onnx.load(path)
    w = random.normal(size=(3, 2)).astype(np.float32)
    for rows in (1, 4, 4):
        x = random.normal(size=(rows, 3)).astype(np.float32)
        # three products of f32 are added: 3 units of rounding, 2^-24, of sums below 16
        for y, size in (opened(x, w), opened(w=w, x=x), opened({"x": x}, w=w), opened(x, w.T.copy().T)):
            np.testing.assert_allclose(y, expected(x, w), rtol=0, atol=3 * 2 ** -24 * 16)
            assert y.dtype == np.float32 and size.dtype == np.int64 and size.tolist() == [rows, 2]
    assert opened.statistics()["nodes"] > 0


def test_python_numbers_take_the_type_of_the_input():
    y, _ = portico.onnx.load(TWO)([[1, 2, 3]], [[1, 0], [0, 1], [0, 0]])
    assert y.tolist() == [[1, 2]]


def test_on_a_device_that_is_named(random):
    x, w = random.normal(size=(2, 3)).astype(np.float32), random.normal(size=(3, 2)).astype(np.float32)
    opened = portico.onnx.load(TWO, device="cpu:reference")
    first = opened(x, w)[0]
    with portico.device("cpu:native"):
        np.testing.assert_allclose(opened(x, w)[0], first, rtol=0, atol=0)  # load's device goes before
    np.testing.assert_allclose(opened(x, w, device="cpu:native")[0], first, rtol=0, atol=3 * 2 ** -24 * 16)


def test_bfloat16_is_its_bits_without_ml_dtypes():
    opened = portico.onnx.load(model([node("Neg", ["x"], ["y"])], [value("x", BFLOAT16, [2])], [value("y", BFLOAT16, [2])]))
    y, = opened(np.array([0x3F80, 0x4000], np.uint16))
    assert y.view(np.uint16).tolist() == [0xBF80, 0xC000]


@pytest.mark.parametrize("arrays, named, error, line", [
    ((np.zeros((1, 3), np.float32),), {}, portico.InvalidError, "input 'w' is missing"),
    ((np.zeros((1, 4), np.float32),) * 2, {}, portico.InvalidError, "has shape"),
    ((np.zeros((1, 3), np.float64), np.zeros((3, 2), np.float32)), {}, portico.InvalidError, "is of type double"),
    ((np.zeros((1, 3), np.float32),), {"z": [1.0]}, portico.InvalidError, "no input 'z'"),
    ((np.zeros((1, 3), np.float32),), {"x": [1.0]}, portico.InvalidError, "given twice"),
    ((1, 2, 3), {}, portico.InvalidError, "3 inputs"),
    ((np.array([["a"]]),), {}, portico.UnsupportedError, "strings"),
])
def test_wrong_inputs_get_one_line(arrays, named, error, line):
    opened = portico.onnx.load(TWO)
    with pytest.raises(error, match=line):
        opened(*arrays, **named)


def test_what_is_missing_is_listed():
    opened = portico.onnx.load(model([node("Bogus", ["x"], ["a"]), node("Loop", ["a"], ["y"])], [value("x", FLOAT, [2])],
                                     [value("y", FLOAT, [2])]))
    assert [(p.operator, p.node) for p in opened.check()] == [("Bogus", "a"), ("Loop", "y")]
    with pytest.raises(portico.UnsupportedError, match="Bogus"):
        opened(np.zeros(2, np.float32))
    assert portico.onnx.has_operator("MatMul") and not portico.onnx.has_operator("Loop")


def test_files_that_are_none(tmp_path):
    with pytest.raises(portico.FileError):
        portico.onnx.load(tmp_path / "absent.onnx")
    with pytest.raises(portico.Error):
        portico.onnx.load(b"no model")
    with pytest.raises(portico.UnsupportedError, match="operator set"):
        portico.onnx.load(model([], [], [], opset=99))


def test_closed_models_and_contexts_say_so():
    opened = portico.onnx.load(TWO)
    opened.close()
    with pytest.raises(portico.InvalidError, match="closed"):
        opened(np.zeros((1, 3), np.float32), np.zeros((3, 2), np.float32))
    with portico.Context():
        inside = portico.onnx.load(TWO)
        inside([[0, 0, 0]], [[0, 0]] * 3)
    with pytest.raises(portico.InvalidError, match="closed"):
        inside([[0, 0, 0]], [[0, 0]] * 3)


def test_memory_stays_the_same():
    x, w = np.ones((2, 3), np.float32), np.ones((3, 2), np.float32)
    for _ in range(300):
        portico.onnx.load(TWO)(x, w)
    import resource

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(300):
        portico.onnx.load(TWO)(x, w)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 8 << 10  # KiB


# ---- models as PyTorch exports them (tests/golden/make_onnx.py) ----

GOLDEN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tests", "golden", "onnx")


def differ(y, expected):
    """The largest difference over the bound of `portico compare`: 1e-4 (|y| + rms of its row)."""
    rms = np.sqrt((expected ** 2).mean(axis=-1, keepdims=True))
    return np.max(np.abs(y - expected) / (1e-4 * (np.abs(expected) + rms)))


# Nodes behind merging, at most, of two layers; without it there are more than twice as many (t5: 1.7 times).
@pytest.mark.parametrize("name, most", [("bert", 65), ("distilbert", 44), ("gpt2", 71), ("llama", 62), ("t5", 65),
                                        ("vit", 50)])
def test_exported_models_are_merged(name, most):
    arrays = dict(np.load(os.path.join(GOLDEN, f"{name}.npz")))
    expected = arrays.pop("hidden")
    counts = []
    for merge in (True, False):
        with portico.onnx.load(os.path.join(GOLDEN, f"{name}.onnx"), merge=merge) as opened:
            assert opened.check() == []
            hidden, = opened(arrays)
            counts.append(opened.statistics()["nodes"])
        assert differ(hidden, expected) < 1, f"merged: {merge}"
    assert counts[0] <= most and counts[1] > 1.7 * counts[0]


def test_shapes_may_change_from_call_to_call():
    with portico.onnx.load(os.path.join(GOLDEN, "bert.onnx")) as opened:
        arrays = dict(np.load(os.path.join(GOLDEN, "bert.npz")))
        expected = arrays.pop("hidden")
        for rows in (slice(0, 2), slice(0, 1), slice(1, 2), slice(0, 2)):
            hidden, = opened({name: x[rows] for name, x in arrays.items()})
            assert differ(hidden, expected[rows]) < 1
        hidden, = opened({name: x[1:, :4] for name, x in arrays.items()})  # what the mask hid is left out
        assert differ(hidden, expected[1:, :4]) < 1
