"""Portico as a backend of ONNX (https://onnx.ai/onnx/api/backend.html), as its own test runner wants one:

    import onnx.backend.test, portico.onnx_backend
    suite = onnx.backend.test.BackendTest(portico.onnx_backend, __name__)

Needs the package onnx. `device` is "CPU" for the device that PORTICO_BACKEND or `with portico.device(...)` names, whichever
that is, or the words for a device as in PORTICO_BACKEND. What cannot be run raises BackendIsNotSupposedToImplementIt, from
which the runner makes a skipped test; its text says what is missing, and where.
"""
import onnx
from onnx import helper
from onnx.backend.base import Backend as _Backend, BackendRep as _BackendRep, namedtupledict
from onnx.backend.test.runner import BackendIsNotSupposedToImplementIt

import portico
from portico import onnx as _onnx


def _device(device):
    return None if device == "CPU" else device


def _element_type(dtype):
    """ONNX's number for a NumPy type; package onnx has the function since 1.13."""
    if hasattr(helper, "np_dtype_to_tensor_dtype"):
        return helper.np_dtype_to_tensor_dtype(dtype)
    return onnx.mapping.NP_TYPE_TO_TENSOR_TYPE[dtype]


def _open(model):
    """Errors: BackendIsNotSupposedToImplementIt, with what is missing."""
    try:
        opened = _onnx.load(model.SerializeToString())
        problems = opened.check()
    except portico.UnsupportedError as error:
        raise BackendIsNotSupposedToImplementIt(str(error)) from error
    if problems:
        raise BackendIsNotSupposedToImplementIt("; ".join(f"{p.operator} '{p.node}': {p.reason}" for p in problems))
    return opened


class PorticoRep(_BackendRep):
    """A model that was prepared: run(inputs) gives its outputs, which also have their names."""

    def __init__(self, model, device):
        self.model = model
        self._device = device

    def run(self, inputs, **kwargs):
        """inputs: arrays in the order of the model's inputs, an array, or a dict by name."""
        if kwargs:
            raise TypeError(f"run() got an unexpected argument '{next(iter(kwargs))}'")
        if not isinstance(inputs, (list, tuple, dict)):
            inputs = [inputs]
        for x in inputs.values() if isinstance(inputs, dict) else inputs:
            if x is None or isinstance(x, (list, tuple)):
                raise BackendIsNotSupposedToImplementIt("sequences and optional values are not run")
        try:
            results = self.model(inputs, device=self._device) if isinstance(inputs, dict) else \
                self.model(*inputs, device=self._device)
        except portico.UnsupportedError as error:
            raise BackendIsNotSupposedToImplementIt(str(error)) from error
        return namedtupledict("Outputs", [x.name for x in self.model.outputs])(*results)


class PorticoBackend(_Backend):
    """onnx.backend.base.Backend on Portico."""

    @classmethod
    def is_compatible(cls, model, device="CPU", **kwargs):
        """Is there a mapping for each of the model's operators?"""
        try:
            _open(model).close()
        except BackendIsNotSupposedToImplementIt:
            return False
        return True

    @classmethod
    def prepare(cls, model, device="CPU", **kwargs):
        """Opens an onnx.ModelProto. Errors: BackendIsNotSupposedToImplementIt."""
        onnx.checker.check_model(model)
        return PorticoRep(_open(model), _device(device))

    @classmethod
    def run_model(cls, model, inputs, device="CPU", **kwargs):
        return cls.prepare(model, device, **kwargs).run(inputs)

    @classmethod
    def run_node(cls, node, inputs, device="CPU", outputs_info=None, **kwargs):
        """Runs an onnx.NodeProto: a model of one node, whose outputs are of the types in outputs_info or, without it, of those
        that Portico gives them."""
        import numpy as np

        arrays = [np.asarray(x) for x in inputs]
        ins = [helper.make_tensor_value_info(name, _element_type(x.dtype), x.shape)
               for name, x in zip((n for n in node.input if n), arrays)]
        outs = [helper.make_tensor_value_info(name, _element_type(np.dtype(outputs_info[i][0])), outputs_info[i][1])
                if outputs_info else onnx.ValueInfoProto(name=name)
                for i, name in enumerate(n for n in node.output if n)]
        graph = helper.make_graph([node], "node", ins, outs)
        opset = kwargs.pop("opset_version", min(onnx.defs.onnx_opset_version(), 23))
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
        return PorticoRep(_open(model), _device(device)).run(arrays)

    @classmethod
    def supports_device(cls, device):
        """CPU, which stands for the device that is chosen, and every word for a device that is there."""
        if device == "CPU":
            return True
        if device.split(":")[0] == "CUDA":
            return False
        try:
            with portico.Context() as context, context.use():
                context.session(device)
        except portico.Error:
            return False
        return True


is_compatible = PorticoBackend.is_compatible
prepare = PorticoBackend.prepare
run_model = PorticoBackend.run_model
run_node = PorticoBackend.run_node
supports_device = PorticoBackend.supports_device
