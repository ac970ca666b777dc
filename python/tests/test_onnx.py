"""portico.onnx: models made here byte by byte (so that no other package is needed), called with arrays. ONNX's own backend
test is onnx_backend_run.py."""
import gc
import os
import struct

import numpy as np
import pytest

import portico
from bounds import over_bound, resident

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
except portico.UnsupportedError as unsupported:
    if "option onnx" not in str(unsupported):  # Meson's
        raise
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
    for _ in range(100):
        portico.onnx.load(TWO)(x, w)
    sizes = []
    for _ in range(5):
        for _ in range(100):
            portico.onnx.load(TWO)(x, w)
        gc.collect()
        sizes.append(resident())
    # What grows once, as allocators' memory does, is no leak; what grows in every fifth, by 512 bytes a model or more, is.
    assert min(b - a for a, b in zip(sizes, sizes[1:])) < 100 * 512, sizes


# ---- models as PyTorch exports them (tests/golden/make_onnx.py) ----

GOLDEN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tests", "golden", "onnx")


# Nodes behind merging, at most, of two layers; without it there are about twice as many.
@pytest.mark.parametrize("name, most", [("bert", 65), ("distilbert", 44), ("gpt2", 71), ("llama", 62), ("nn", 54),
                                        ("t5", 65), ("vit", 50)])
def test_exported_models_are_merged(name, most):
    arrays = dict(np.load(os.path.join(GOLDEN, f"{name}.npz")))
    expected = arrays.pop("hidden")
    counts = []
    for merge in (True, False):
        with portico.onnx.load(os.path.join(GOLDEN, f"{name}.onnx"), merge=merge) as opened:
            assert opened.check() == []
            hidden, = opened(arrays)
            counts.append(opened.statistics()["nodes"])
        assert over_bound(hidden, expected) < 1, f"merged: {merge}"
    assert counts[0] <= most and counts[1] > 1.6 * counts[0]


def test_shapes_may_change_from_call_to_call():
    with portico.onnx.load(os.path.join(GOLDEN, "bert.onnx")) as opened:
        arrays = dict(np.load(os.path.join(GOLDEN, "bert.npz")))
        expected = arrays.pop("hidden")
        for rows in (slice(0, 2), slice(0, 1), slice(1, 2), slice(0, 2)):
            hidden, = opened({name: x[rows] for name, x in arrays.items()})
            assert over_bound(hidden, expected[rows]) < 1
        hidden, = opened({name: x[1:, :4] for name, x in arrays.items()})  # what the mask hid is left out
        assert over_bound(hidden, expected[1:, :4]) < 1


# ---- single operators, against NumPy ----

def attribute(name, value):
    """Whole numbers, lists of them, text, or a graph (bytes)."""
    if isinstance(value, str):
        return field(5, field(1, name) + field(4, value) + field(20, 3))
    if isinstance(value, bytes):
        return field(5, field(1, name) + field(6, value) + field(20, 5))
    if isinstance(value, int):
        return field(5, field(1, name) + field(3, value & (1 << 64) - 1) + field(20, 2))
    return field(5, field(1, name) + b"".join(field(8, x & (1 << 64) - 1) for x in value) + field(20, 7))


TYPES = {"float32": 1, "uint8": 2, "int8": 3, "uint16": 4, "int16": 5, "int32": 6, "int64": 7, "bool": 9, "float16": 10,
         "float64": 11, "uint32": 12, "uint64": 13}


def run_node(op, *arrays, outputs=1, opset=17, constant=(), **attributes):
    """The results of one node, all of whose inputs are inputs of the model, but those that `constant` counts, which are
    initializers."""
    names = [f"x{i}" for i in range(len(arrays))]
    arrays = [np.asarray(x) for x in arrays]
    made = node(op, names, [f"y{i}" for i in range(outputs)]) + b"".join(attribute(*x) for x in attributes.items())
    graph = field(1, made)
    for i, (name, x) in enumerate(zip(names, arrays)):
        if i in constant:
            graph += field(5, b"".join(field(1, d) for d in x.shape) + field(2, TYPES[x.dtype.name]) + field(8, name) +
                           field(9, x.tobytes()))
        else:
            graph += field(11, value(name, TYPES[x.dtype.name], x.shape))
    graph += b"".join(field(12, field(1, f"y{i}")) for i in range(outputs))
    opened = portico.onnx.load(field(1, 8) + field(7, graph) + field(8, field(2, opset)))
    return opened({name: x for i, (name, x) in enumerate(zip(names, arrays)) if i not in constant})


@pytest.mark.parametrize("equation, shapes", [
    ("ij,jk->ik", [(3, 4), (4, 5)]), ("ij,jk", [(3, 4), (4, 5)]), ("bhqd,bhkd->bhqk", [(2, 3, 4, 5), (2, 3, 6, 5)]),
    ("bqhd,bkhd->bhqk", [(2, 4, 3, 5), (2, 6, 3, 5)]), ("bhqk,bkhd->bqhd", [(2, 3, 4, 6), (2, 6, 3, 5)]),
    ("...ij,...jk->...ik", [(2, 3, 4), (1, 4, 5)]), ("...ij,jk->...ik", [(2, 6, 3, 4), (4, 5)]), ("ii->i", [(4, 4)]),
    ("ii", [(4, 4)]), ("bii->b", [(2, 4, 4)]), ("ij->ji", [(3, 4)]), ("ij->", [(3, 4)]), ("i,j->ij", [(3,), (4,)]),
    ("i,i", [(3,), (3,)]), ("ij,kj,lj->ikl", [(3, 4), (2, 4), (5, 4)]), ("ab,bc,cd->ad", [(2, 3), (3, 4), (4, 5)]),
    ("ijk,jil->kl", [(3, 4, 2), (4, 3, 5)]), ("ij,j->", [(3, 4), (4,)]), ("... -> ...", [(2, 3)]),
    ("b n h w, n d -> b d h w", [(2, 3, 4, 5), (3, 6)]), ("aab,bc->ac", [(3, 3, 4), (4, 2)]),
])
def test_einsum(random, equation, shapes):
    arrays = [random.normal(size=shape).astype(np.float32) for shape in shapes]
    expected = np.einsum(equation, *[x.astype(np.float64) for x in arrays])
    y, = run_node("Einsum", *arrays, equation=equation)
    assert y.shape == expected.shape
    # at most 20 products are added, each of numbers below 5: gamma_20 times their sum
    np.testing.assert_allclose(y, expected, rtol=0, atol=24 * 2 ** -24 * 20 * 25)


@pytest.mark.parametrize("equation, shapes", [("ij,jk->il", [(3, 4), (4, 5)]), ("ij->i", [(3, 4, 5)]), ("ij,jk->ik", [(3, 4), (5, 6)]),
                                              ("i?->i", [(3, 4)]), ("ij,jk->ii", [(3, 4), (4, 5)])])
def test_einsum_that_is_none_is_refused(random, equation, shapes):
    with pytest.raises(portico.UnsupportedError, match="Einsum"):
        run_node("Einsum", *[random.normal(size=shape).astype(np.float32) for shape in shapes], equation=equation)


def convolved(x, w, bias, pads, strides, dilations, groups):
    n = x.ndim - 2
    x = np.pad(x, [(0, 0), (0, 0)] + [(pads[d], pads[n + d]) for d in range(n)])
    counts = [(x.shape[2 + d] - dilations[d] * (w.shape[2 + d] - 1) - 1) // strides[d] + 1 for d in range(n)]
    y = np.zeros((x.shape[0], w.shape[0], *counts))
    inner, out = w.shape[1], w.shape[0] // groups
    for at in np.ndindex(*counts):
        window = x[(slice(None), slice(None)) + tuple(slice(at[d] * strides[d], None, dilations[d]) for d in range(n))]
        window = window[(slice(None), slice(None)) + tuple(slice(0, k) for k in w.shape[2:])]
        for g in range(groups):
            part = np.tensordot(window[:, g * inner:(g + 1) * inner], w[g * out:(g + 1) * out],
                                axes=(range(1, n + 2), range(1, n + 2)))
            y[(slice(None), slice(g * out, (g + 1) * out)) + at] = part
    return y + bias.reshape(1, -1, *[1] * n)


@pytest.mark.parametrize("size, weight, pads, strides, dilations, groups", [
    ((2, 3, 8, 8), (5, 3, 4, 4), (0, 0, 0, 0), (4, 4), (1, 1), 1),      # a patch embedding
    ((1, 3, 9, 11), (4, 3, 4, 4), (0, 0, 0, 0), (4, 4), (1, 1), 1),     # whose patches do not fill the picture
    ((2, 4, 7, 6), (6, 2, 3, 3), (1, 0, 2, 1), (2, 1), (1, 2), 2),
    ((1, 4, 5, 5), (4, 1, 3, 3), (1, 1, 1, 1), (1, 1), (1, 1), 4),
    ((1, 2, 6, 7), (3, 2, 1, 1), (0, 0, 0, 0), (1, 1), (1, 1), 1),
    ((2, 4, 20), (6, 2, 3), (2, 1), (2,), (3,), 2),
    ((1, 2, 4, 5, 4), (3, 2, 2, 3, 2), (0, 1, 1, 1, 0, 0), (1, 2, 1), (1, 1, 2), 1),
])
def test_conv(random, size, weight, pads, strides, dilations, groups):
    x, w = random.normal(size=size).astype(np.float32), random.normal(size=weight).astype(np.float32)
    bias = random.normal(size=weight[0]).astype(np.float32)
    y, = run_node("Conv", x, w, bias, pads=pads, strides=strides, dilations=dilations, group=groups)
    expected = convolved(x.astype(np.float64), w.astype(np.float64), bias, pads, strides, dilations, groups)
    assert y.shape == expected.shape
    np.testing.assert_allclose(y, expected, rtol=0, atol=50 * 2 ** -24 * 48 * 25)  # 48 products, as above


def test_indices_and_ends(random):
    x = random.normal(size=(3, 5)).astype(np.float32)
    ints = [np.array(v, np.int64) for v in ([4, 2], [-6, -4], [1, 0], [-2, -1])]
    np.testing.assert_array_equal(run_node("Slice", x, *ints)[0], x[2::-1, 4:-6:-2])
    for largest in (0, 1):
        values, indices = run_node("TopK", x, np.array([2], np.int64), outputs=2, largest=largest, axis=-1)
        order = np.argsort(-x if largest else x, axis=-1, kind="stable")[:, :2]
        np.testing.assert_array_equal(indices, order)
        np.testing.assert_array_equal(values, np.take_along_axis(x, order, -1))
    same = np.array([[1, 3, 3, 2], [5, 5, 1, 5]], np.float32)
    assert run_node("ArgMax", same, axis=1, keepdims=0, select_last_index=1)[0].tolist() == [2, 3]
    assert run_node("ArgMin", same, axis=1, keepdims=0)[0].tolist() == [0, 2]
    for name, mode in (("reflect", "reflect"), ("edge", "edge"), ("wrap", "wrap")):
        y, = run_node("Pad", x, np.array([1, 2, 2, 1], np.int64), mode=name, opset=19, constant=(1,))
        np.testing.assert_array_equal(y, np.pad(x, [(1, 2), (2, 1)], mode=mode))


def test_resize():
    x = np.array([[1, 2, 4], [3, 8, 6]], np.float32)
    none, twice = np.zeros(0, np.float32), np.array([2, 2], np.float32)
    np.testing.assert_array_equal(run_node("Resize", x, none, twice, constant=(1, 2))[0], x.repeat(2, 0).repeat(2, 1))
    y, = run_node("Resize", x, none, twice, constant=(1, 2), mode="linear")
    for axis, n in ((0, 2), (1, 3)):  # a quarter of the way from the nearest to the next, from whose edge on there is none
        at = (np.arange(2 * n) + 0.5) / 2 - 0.5
        low, part = np.floor(at).astype(int), at - np.floor(at)
        part = part.reshape(-1, 1) if axis == 0 else part
        x = x.take(np.clip(low, 0, n - 1), axis) * (1 - part) + x.take(np.clip(low + 1, 0, n - 1), axis) * part
    np.testing.assert_allclose(y, x, rtol=0, atol=4 * 2 ** -24 * 8)  # weights are exact, and each axis rounds three times
    y, = run_node("Resize", np.arange(4, dtype=np.int32).reshape(2, 2), none, none, np.array([3, 4]), constant=(1, 2, 3),
                  coordinate_transformation_mode="asymmetric", nearest_mode="floor")
    assert y.tolist() == [[0, 0, 1, 1], [0, 0, 1, 1], [2, 2, 3, 3]]
    for wrong, named in ((dict(antialias=1), "antialias"), (dict(coordinate_transformation_mode="tf_crop_and_resize"), "tf_crop")):
        with pytest.raises(portico.UnsupportedError, match=named):
            run_node("Resize", x, none, twice, constant=(1, 2), opset=18, **wrong)
    with pytest.raises(portico.UnsupportedError, match="Resize"):
        run_node("Resize", x, none, np.array([0, 2], np.float32), constant=(1, 2))


def test_whole_numbers_and_doubles():
    assert run_node("Add", np.array([2 ** 31 - 2]), np.array([1]))[0].tolist() == [2 ** 31 - 1]
    with pytest.raises(portico.InvalidError, match="beyond the 32 bits"):
        run_node("Add", np.array([2 ** 31]), np.array([1]))
    with pytest.raises(portico.UnsupportedError, match="beyond the 32 bits"):
        run_node("Add", np.array([1]), np.array([2 ** 40]), constant=(1,))
    y, = run_node("Mul", np.array([0.1, 3.0]), np.array([2.0, 0.5]))
    assert y.dtype == np.float64
    np.testing.assert_allclose(y, [0.2, 1.5], rtol=2 ** -22)  # in f32: two operands and a product, each rounded


I8, I16, I32, I64, U8 = np.int8, np.int16, np.int32, np.int64, np.uint8


@pytest.mark.parametrize("op, a, b, expected", [
    ("Add", U8([250, 3]), U8([10, 4]), [4, 7]), ("Sub", U8([3, 4]), U8([5, 4]), [254, 0]),
    ("Mul", U8([16, 20]), U8([16, 30]), [0, 88]), ("Add", I8([127, -128]), I8([1, -1]), [-128, 127]),
    ("Mul", I16([256, 300]), I16([256, -300]), [0, -24464]), ("Neg", I8([-128, 5]), None, [-128, -5]),
    ("Abs", I8([-128, -5]), None, [-128, 5]), ("Div", I32([7, -7]), I32([2, 2]), [3, -3]),
    ("Mod", I32([7, -7]), I32([-3, 3]), [-2, 2]),
    # beyond 2^24, where f32 has no longer all whole numbers
    ("Pow", I32([3, -3, -2, 46340]), I32([19, 17, 31, 2]), [1162261467, -129140163, -2 ** 31, 2147395600]),
    ("Pow", I64([0, 1, -1, -1, 0, 7]), I64([0, 50, 51, 60, 33, 1]), [1, 1, -1, 1, 0, 7]),
    ("Pow", I64([1, -1, -1, 2, -5]), I64([-2, -2, -3, -1, -1]), [1, 1, -1, 0, 0]), ("Pow", U8([2, 3]), U8([9, 3]), [0, 27]),
])
def test_known_whole_numbers_are_as_on_the_device(op, a, b, expected):
    arrays = [x for x in (a, b) if x is not None]
    for constant in ((), tuple(range(len(arrays)))):
        y, = run_node(op, *arrays, constant=constant)
        assert y.tolist() == expected and y.dtype == a.dtype, constant


def test_only_exact_results_are_known():
    known = lambda op, *arrays: run_node(op, *arrays, constant=tuple(range(len(arrays))))[0]
    beyond = 2 ** 53
    assert known("Add", I64([beyond - 2]), I64([1])).tolist() == [beyond - 1]
    assert known("Less", I64([5]), I64([2 ** 63 - 1])).tolist() == [True]
    assert known("Shape", np.zeros((2, 3), np.float32)).tolist() == [2, 3]
    for op, *operands in (("Add", beyond, 1), ("Mul", 2 ** 30, 2 ** 30), ("Equal", beyond, beyond + 1), ("Sub", beyond + 1, beyond),
                          ("Identity", beyond + 1), ("Neg", -beyond - 1), ("Div", beyond + 1, 2)):
        with pytest.raises(portico.UnsupportedError, match="32 bits|2\\^53"):
            known(op, *[I64([x]) for x in operands])
    assert known("Pow", I64([3]), I64([33])).tolist() == [3 ** 33]
    # from a double to half precision at once: by way of f32 the last bit would be lost, and the rest be a tie
    y, = run_node("CastLike", np.array([1 + 2 ** -11 + 2 ** -40, 2 ** -25 + 2 ** -60]), np.zeros(1, np.float16), constant=(0, 1))
    assert y.tolist() == [1 + 2 ** -10, 2 ** -24]


@pytest.mark.parametrize("op, arrays, attributes", [
    ("Add", (I64([1]), np.float32([0.5])), {}), ("Mul", (np.float32([0.5]), I32([3])), {}),
    ("Max", (I64([1]), np.float32([1.5])), {}), ("Concat", (I64([1]), np.float32([0.5])), dict(axis=0)),
    ("Where", (np.array([False]), I64([1]), np.float32([np.nan])), {})])
def test_whole_numbers_and_floats_do_not_mix(op, arrays, attributes):
    for constant in ((), tuple(range(len(arrays)))):
        with pytest.raises(portico.Error):
            run_node(op, *arrays, constant=constant, **attributes)


def branch(op):
    """A graph without inputs: op of x0 of the graph around it."""
    return field(1, node(op, ["x0"], ["r"])) + field(12, field(1, "r"))


def test_control_flow():
    def chosen(made):
        graph = made + field(11, value("x0", FLOAT, [2])) + field(12, field(1, "y"))
        return portico.onnx.load(field(1, 8) + field(7, graph) + field(8, field(2, 17)))
    either = node("If", ["c"], ["y"]) + attribute("then_branch", branch("Neg")) + attribute("else_branch", branch("Abs"))
    yes = field(5, field(2, 9) + field(8, "c") + field(9, b"\1"))
    assert chosen(field(1, either) + yes)(np.array([1, -2], np.float32))[0].tolist() == [-1, 2]
    with pytest.raises(portico.UnsupportedError, match="If 'y': control flow"):
        chosen(field(1, node("Sum", ["x0"], ["s"])) + field(1, node("Greater", ["s", "x0"], ["c"])) + field(1, either))(
            np.zeros(2, np.float32))
    for op in ("Loop", "Scan"):
        with pytest.raises(portico.UnsupportedError, match=f"{op} 'y': control flow: {op}"):
            chosen(field(1, node(op, ["x0"], ["y"])))(np.zeros(2, np.float32))


# ---- what is merged, and what only looks like it ----

def graph_of(text, arrays, constants, opset=17):
    """A model from lines "result = Op a b name:value ...", whose last result is its output."""
    made = b""
    for line in text.strip().splitlines():
        result, _, rest = line.strip().partition(" = ")
        op, *words = rest.split()
        names = [x for x in words if ":" not in x]
        said = [x.split(":") for x in words if ":" in x]
        made += field(1, node(op, names, [result]) + b"".join(
            attribute(name, [int(v) for v in x.split(",")] if "," in x or name in ("axes", "perm") else int(x))
            for name, x in said))
    for name, x in constants.items():
        x = np.asarray(x)
        made += field(5, b"".join(field(1, d) for d in x.shape) + field(2, TYPES[x.dtype.name]) + field(8, name) +
                      field(9, x.tobytes()))
    made += b"".join(field(11, value(name, TYPES[x.dtype.name], x.shape)) for name, x in arrays.items())
    return field(1, 8) + field(7, made + field(12, field(1, result))) + field(8, field(2, opset))


PATTERNS = {
    "layer_norm": """
        m = ReduceMean x axes:-1
        d = Sub x m
        q = Pow d two
        v = ReduceMean q axes:-1
        e = Add v eps
        s = Sqrt e
        n = Div d s
        w = Mul n weight
        y = Add w bias""",
    "rms_norm": """
        q = Pow x two
        v = ReduceMean q axes:-1
        e = Add v eps
        s = Sqrt e
        r = Reciprocal s
        n = Mul x r
        y = Mul weight n""",
    "gelu": """
        d = Div x root2
        e = Erf d
        p = Add e one
        m = Mul x p
        y = Mul m half""",
    "gelu_tanh": """
        c = Pow x three
        k = Mul c small
        i = Add x k
        s = Mul i root
        t = Tanh s
        p = Add t one
        h = Mul x half
        y = Mul h p""",
    "swiglu": """
        s = Sigmoid x
        g = Mul x s
        y = Mul g z""",
    "attention": """
        kt = Transpose k perm:0,1,3,2
        p = MatMul q kt
        s = Mul p scale
        m = Add s mask
        w = Softmax m axis:-1
        y = MatMul w v""",
    "choice": """
        kt = Transpose k perm:0,1,3,2
        p = MatMul q kt
        s = Mul p scale
        m = Where seen s low
        w = Softmax m axis:-1
        y = MatMul w v""",
    "rotary": """
        c = Cos angles
        s = Sin angles
        c4 = Unsqueeze c zeros
        s4 = Unsqueeze s zeros
        low = Slice h a0 a2 last
        high = Slice h a2 a4 last
        minus = Neg high
        turned = Concat minus low axis:-1
        straight = Mul h c4
        across = Mul turned s4
        y = Add straight across""",
}


def ints(*values):
    return np.array(values, np.int64)


def merging_inputs(random):
    arrays = {"x": (3, 5, 8), "z": (3, 5, 8), "q": (2, 3, 5, 4), "k": (2, 3, 6, 4), "v": (2, 3, 6, 7), "mask": (2, 1, 5, 6),
              "h": (2, 3, 5, 4)}
    arrays = {name: random.normal(size=shape).astype(np.float32) for name, shape in arrays.items()}
    arrays["seen"] = np.tril(np.ones((2, 1, 5, 6), bool), -1)  # row 0 sees nothing
    angle = np.arange(5)[:, None] * np.array([[1.0, 0.01]], np.float32).astype(np.float64)
    f = np.float32
    constants = {"two": f(2), "three": f(3), "one": f(1), "half": f(0.5), "eps": f(1e-5), "root2": f(2 ** 0.5),
                 "small": f(0.044715), "root": f((2 / np.pi) ** 0.5), "scale": f(0.3), "low": f(-3e38), "zeros": ints(0, 1), "a0": ints(0),
                 "a2": ints(2), "a4": ints(4), "last": ints(-1), "weight": random.normal(size=8).astype(f),
                 "bias": random.normal(size=8).astype(f), "angles": np.tile(angle, (1, 2)).astype(f)}
    return arrays, constants


@pytest.mark.parametrize("merged, pattern, change", [
    (True, "layer_norm", {}), (True, "rms_norm", {}), (True, "gelu", {}), (True, "gelu_tanh", {}), (True, "swiglu", {}),
    (True, "attention", {}), (True, "rotary", {}), (True, "attention", {"Mul p scale": "Div p scale"}),
    (True, "attention", {"Add s mask": "Add mask s"}), (True, "gelu", {"Mul x p": "Mul p x", "Mul m half": "Mul half m"}),
    (True, "layer_norm", {"ReduceMean x axes:-1": "ReduceMean x axes:-2"}),  # the RMS norm of d
    (False, "layer_norm", {"ReduceMean q axes:-1": "ReduceMean q axes:1"}), (False, "layer_norm", {"Pow d two": "Pow d three", "Sqrt e": "Exp e"}),
    (False, "layer_norm", {"Pow d two": "Pow x two"}), (False, "layer_norm", {"Div d s": "Div x s"}),
    (False, "rms_norm", {"Mul x r": "Mul z r"}), (False, "rms_norm", {"Pow x two": "Pow x three", "Sqrt e": "Abs e"}),
    (False, "gelu", {"half": 0.51}), (False, "gelu", {"root2": 1.5}), (False, "gelu", {"one": 2.0}),
    (False, "gelu", {"Mul x p": "Mul z p"}), (False, "gelu_tanh", {"small": 0.05}), (False, "gelu_tanh", {"three": 2.0}),
    (False, "gelu_tanh", {"Mul x half": "Mul z half"}), (False, "swiglu", {"Mul x s": "Mul z s"}),
    (False, "attention", {"axis:-1": "axis:2"}), (False, "attention", {"scale": -0.3}),
    (False, "attention", {"perm:0,1,3,2": "perm:0,1,3,2", "Softmax m axis:-1": "Sigmoid m"}),
    (False, "rotary", {"Concat minus low": "Concat low minus"}), (False, "rotary", {"Cos angles": "Sin angles"}),
    (True, "choice", {}), (True, "choice", {"Where seen s low": "Where seen low s"}), (False, "choice", {"low": -1e4}),
    (True, "rms_norm", {"Reciprocal s": "Div one s"}), (False, "rms_norm", {"Reciprocal s": "Div one s", "one": 1 + 2 ** -21}),
    (False, "gelu", {"half": 0.5 + 2 ** -20}), (False, "gelu", {"root2": 2 ** 0.5 + 2 ** -20}), (True, "gelu", {"root2": 1.4142135}),
    (False, "rotary", {"angles": 1.5}), (False, "rotary", {"angles": "the next float"}), (False, "rotary", {"Neg high": "Abs high"}),
])
def test_merging(random, merged, pattern, change):
    text = PATTERNS[pattern]
    arrays, constants = merging_inputs(random)
    for old, new in change.items():
        if new == "the next float":
            constants[old][3, 1] = np.nextafter(constants[old][3, 1], np.float32(9))
        elif isinstance(new, str):
            assert old in text
            text = text.replace(old, new)
        elif old == "angles":  # those of no positions
            constants[old] = (constants[old] ** np.float32(new)).astype(np.float32)
        else:
            constants[old] = np.float32(new)
    words = set(text.split())
    arrays = {name: x for name, x in arrays.items() if name in words}
    data = graph_of(text, arrays, {name: x for name, x in constants.items() if name in words})
    results, counts = [], []
    for merge in (False, True):
        opened = portico.onnx.load(data, merge=merge)
        results.append(opened(arrays)[0])
        counts.append(opened.statistics()["nodes"])
    np.testing.assert_allclose(results[1], results[0], rtol=0, atol=2e-5 * np.abs(results[0]).max())  # 2^-24, 300 times
    assert counts[1] < counts[0] if merged else counts[1] == counts[0]
