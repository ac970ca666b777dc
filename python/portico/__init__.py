"""Portico runs and trains transformer models on any compute device.

    import portico
    x = portico.tensor([[1.0, 2.0], [3.0, 4.0]])
    print(portico.softmax(x @ x.T, axis=-1))

Tensors are lazy: operations on them build a graph, which runs when a value is asked for (print, numpy(), item(),
tolist()). @portico.function compiles a function once for each combination of shapes and types of its arguments.
The device is the one that PORTICO_BACKEND or `with portico.device("vulkan"):` names, or the best there is.
"""
import importlib

from portico._native import (CancelledError, DeviceLostError, Error, FileError, InvalidError, NotFoundError,
                             OutOfMemoryError, UnsupportedError, version as _version)

__version__ = _version().decode()

# Where each name comes from: a module is read when a name of it is first used, so that `import portico` takes no time.
_MODULES = {
    "_conformance": ["Conformance", "conformance"],
    "_models": ["Beam", "Model", "Segment", "Token", "load"],
    "_progress": ["progress"],
    "_runtime": ["Context", "Device", "close", "device", "devices"],
    "_dtypes": ["DType", "bfloat16", "bool_", "float16", "float32", "int32"],
    "_tensor": ["State", "Tensor", "asarray", "tensor"],
    "_function": ["Function", "eval", "function", "grad", "value_and_grad"],
    "random": ["manual_seed", "rand", "randint", "randn", "randperm"],
    "_functions": [
        "absolute", "add", "all", "any", "arange", "argmax", "argmin", "broadcast_to", "ceil", "clip", "concatenate", "cos",
        "cumsum", "divide", "equal", "erf", "exp", "expand_dims", "eye", "flatten", "floor", "floor_divide", "full",
        "full_like", "gelu", "greater", "greater_equal", "isnan", "less", "less_equal", "linspace", "log", "log_softmax",
        "logical_and", "logical_not", "logical_or", "logsumexp", "matmul", "max", "maximum", "mean", "min", "minimum",
        "multiply", "negative", "not_equal", "one_hot", "ones", "ones_like", "power", "reciprocal", "relu", "remainder",
        "reshape", "rsqrt", "sigmoid", "sign", "silu", "sin", "softmax", "split", "sqrt", "square", "squeeze", "stack",
        "std", "subtract", "sum", "swapaxes", "take", "take_along_axis", "tanh", "topk", "transpose", "tril", "triu",
        "var", "where", "zeros", "zeros_like",
    ],
}
_SUBMODULES = ["nn", "onnx", "ops", "optim", "random"]
_HOME = {name: module for module, names in _MODULES.items() for name in names}

__all__ = ["CancelledError", "DeviceLostError", "Error", "FileError", "InvalidError", "NotFoundError",
           "OutOfMemoryError", "UnsupportedError", *_HOME, *_SUBMODULES]


def __getattr__(name):
    if name in _HOME:
        if _HOME[name] not in ("_conformance", "_progress", "_runtime"):
            importlib.import_module("portico._functions")  # gives tensors their operators
        value = getattr(importlib.import_module(f"portico.{_HOME[name]}"), name)
    elif name in _SUBMODULES:
        importlib.import_module("portico._functions")
        value = importlib.import_module(f"portico.{name}")
    else:
        raise AttributeError(f"portico has no '{name}'")
    globals()[name] = value
    return value


def __dir__():
    return sorted({*globals(), *__all__})
