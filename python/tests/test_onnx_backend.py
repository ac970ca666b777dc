"""portico.onnx_backend: what onnx.backend.base.Backend promises, beside what ONNX's own test (onnx_backend_run.py) calls."""
import numpy as np
import pytest

import portico

onnx = pytest.importorskip("onnx")
from onnx import helper  # noqa: E402

try:
    from portico import onnx_backend
except portico.UnsupportedError as unsupported:  # built without ONNX
    pytest.skip(str(unsupported), allow_module_level=True)

FLOAT, INT64 = onnx.TensorProto.FLOAT, onnx.TensorProto.INT64


def model_of(*nodes, inputs=(("x", [2, 3]),), outputs=(("y", [2, 3]),), dtype=FLOAT):
    graph = helper.make_graph(list(nodes), "graph", [helper.make_tensor_value_info(name, dtype, shape) for name, shape in inputs],
                              [helper.make_tensor_value_info(name, dtype, shape) for name, shape in outputs])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


X = np.array([[-1, 0, 2], [3, -4, 5]], np.float32)


def test_is_compatible():
    good, bad = model_of(helper.make_node("Relu", ["x"], ["y"])), model_of(helper.make_node("NonZero", ["x"], ["y"]))
    assert onnx_backend.is_compatible(good) and onnx_backend.PorticoBackend.is_compatible(good, "CPU")
    assert not onnx_backend.is_compatible(bad)
    inner = helper.make_graph([helper.make_node("NonZero", ["x"], ["r"])], "inner", [], [helper.make_tensor_value_info("r", INT64, None)])
    condition = helper.make_node("Constant", [], ["c"], value=helper.make_tensor("c", onnx.TensorProto.BOOL, [], [True]))
    assert not onnx_backend.is_compatible(model_of(condition, helper.make_node("If", ["c"], ["y"], then_branch=inner, else_branch=inner)))
    good.opset_import[0].version = 99
    assert not onnx_backend.is_compatible(good)


def test_run_model():
    two = model_of(helper.make_node("Relu", ["x"], ["h"]), helper.make_node("Sub", ["h", "z"], ["y"]), helper.make_node("Neg", ["h"], ["n"]),
                   inputs=(("x", [2, 3]), ("z", [3])), outputs=(("y", [2, 3]), ("n", [2, 3])))
    z = np.array([1, 2, 3], np.float32)
    for inputs in ([X, z], (X, z), {"z": z, "x": X}):
        result = onnx_backend.run_model(two, inputs)
        np.testing.assert_array_equal(result.y, np.maximum(X, 0) - z)
        np.testing.assert_array_equal(result[1], -np.maximum(X, 0))
        assert result._fields == ("y", "n")
    one = onnx_backend.run_model(model_of(helper.make_node("Relu", ["x"], ["y"])), X, device="cpu:reference")  # an array
    np.testing.assert_array_equal(one[0], np.maximum(X, 0))
    with pytest.raises(onnx_backend.BackendIsNotSupposedToImplementIt, match="NonZero"):
        onnx_backend.run_model(model_of(helper.make_node("NonZero", ["x"], ["y"])), [X])
    with pytest.raises(onnx.checker.ValidationError):
        onnx_backend.run_model(model_of(helper.make_node("Relu", ["nowhere"], ["y"])), [X])
    with pytest.raises(portico.InvalidError, match="'x'"):
        onnx_backend.run_model(two, {"z": z})


def test_run_node():
    y, = onnx_backend.run_node(helper.make_node("Add", ["a", "b"], ["y"]), [X, X[0]])
    np.testing.assert_array_equal(y, X + X[0])
    first, second = onnx_backend.run_node(helper.make_node("Split", ["x"], ["p", "q"], axis=1), [X[:, :2]], opset_version=13)
    assert first.tolist() == [[-1], [3]] and second.tolist() == [[0], [-4]]
    result = onnx_backend.run_node(helper.make_node("TopK", ["x", "k"], ["v", "i"]), [X, np.array([1])],
                                   outputs_info=[(np.float32, (2, 1)), (np.int64, (2, 1))])
    assert result.v.tolist() == [[2], [5]] and result.i.tolist() == [[2], [2]] and result.i.dtype == np.int64
    y, = onnx_backend.run_node(helper.make_node("Clip", ["x", "", "most"], ["y"]), [X, np.float32(1)], device="cpu:native")
    np.testing.assert_array_equal(y, np.minimum(X, 1))
    y, = onnx_backend.run_node(helper.make_node("Cast", ["x"], ["y"], to=INT64), [X], outputs_info=[(np.int64, (2, 3))])
    assert y.dtype == np.int64 and y.tolist() == X.tolist()
    for node in (helper.make_node("NonZero", ["x"], ["y"]), helper.make_node("Relu", ["x"], ["y"], unknown=1)):
        with pytest.raises(onnx_backend.BackendIsNotSupposedToImplementIt, match="NonZero|unknown"):
            onnx_backend.run_node(node, [X])


def test_supports_device():
    assert onnx_backend.supports_device("CPU") and onnx_backend.supports_device("cpu:reference")
    assert not onnx_backend.supports_device("CUDA") and not onnx_backend.supports_device("CUDA:1")
    assert not onnx_backend.supports_device("vulkan:no-such-device")
