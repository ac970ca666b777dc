#!/usr/bin/env python3
"""Is every attribute of ONNX's operators used, or refused? With the node cases of the package onnx, on the device of
PORTICO_BACKEND:

    python3 python/tests/onnx_attributes_run.py [PATTERN]

Each operator that is mapped gets an attribute that it has not, and must refuse it by its name. Then each attribute that it
has (by onnx.defs) gets odd values, of which each is refused, or has the effect that onnx.reference says. Values that the
reference refuses say nothing; without onnx.reference (before onnx 1.13) only the first part runs. Exit status 1 if one was
used in silence or otherwise; 77 without the package onnx."""
import collections
import sys
import warnings

import numpy

UNKNOWN = "no_such_attribute"
# What onnx.reference does otherwise than the operators' texts say, as it is in onnx 1.23 (values; None: all).
REFERENCE_LACKS = {
    ("Attention", "scale"): (0.0, -1.5),  # takes its root, and 0 for no scale
    ("Attention", "qk_matmul_output_mode"): (0,),  # is after the cap, which mode 0 is not
    ("AveragePool", "dilations"): None, ("AveragePool", "pads"): None, ("AveragePool", "strides"): None,
    ("AveragePool", "kernel_shape"): None,  # divides by another count, and by 0, where windows reach beyond x
    ("MaxPool", "ceil_mode"): None, ("MaxPool", "pads"): None,  # of another shape, with auto_pad and dilations
    ("Shape", "end"): (-3,),  # where that lies before the start
}


def odd_values(onnx, attribute, now):
    """Values of the attribute's type that a model may have by mistake, or rarely."""
    kinds = onnx.defs.OpSchema.AttrType
    if attribute.type == kinds.INT:
        return [value for value in (-3, -2, -1, 0, 1, 2, 5) if value != now]
    if attribute.type == kinds.FLOAT:
        return [value for value in (0.37, -1.5, 0.0, 3.0) if value != now]
    if attribute.type == kinds.STRING:
        return ["odd", ""]
    if attribute.type == kinds.INTS:
        count = len(now) if now is not None else 2
        return [[value] * count for value in (0, 1, 2, 3)] + [list(range(count))[::-1], [1] * (count + 1), [-1] * count]
    return []


def first_cases(onnx, runs, pattern):
    """One case of a single node that runs for each operator and set of attributes: (operator, model, inputs)."""
    from onnx.backend.test import loader
    found = {}
    for case in loader.load_model_tests(kind="node"):
        model = case.model if case.model is not None else onnx.load(f"{case.model_dir}/model.onnx")
        if len(model.graph.node) != 1 or pattern not in case.name or model.graph.node[0].domain:
            continue
        node = model.graph.node[0]
        key = (node.op_type, tuple(sorted(a.name for a in node.attribute)), len(node.input))
        if key in found:
            continue
        arrays = case.data_sets[0][0] if case.data_sets else read_inputs(onnx, case.model_dir, len(model.graph.input))
        if all(isinstance(x, numpy.ndarray) for x in arrays) and runs(model, arrays):
            found[key] = (model, arrays)
    return [(key[0], *value) for key, value in sorted(found.items(), key=lambda item: item[0])]


def read_inputs(onnx, folder, count):
    """The arrays of a case's first data set; None for what is no tensor."""
    arrays = []
    for i in range(count):
        tensor = onnx.TensorProto()
        try:
            with open(f"{folder}/test_data_set_0/input_{i}.pb", "rb") as file:
                tensor.ParseFromString(file.read())
            arrays.append(onnx.numpy_helper.to_array(tensor))
        except Exception:  # a sequence, an optional value
            arrays.append(None)
    return arrays


def with_attribute(onnx, model, name, value):
    """A copy of the model whose node has the attribute; results of any shape."""
    made = onnx.ModelProto()
    made.CopyFrom(model)
    node = made.graph.node[0]
    kept = [a for a in node.attribute if a.name != name]
    del node.attribute[:]
    node.attribute.extend(kept + [onnx.helper.make_attribute(name, value)])
    for output in made.graph.output:
        output.type.tensor_type.ClearField("shape")
    return made


class Judge:
    """Opens and runs models in Portico, and counts what comes of them."""

    def __init__(self, onnx, portico):
        self.onnx, self.portico = onnx, portico
        self.counts, self.wrong = collections.Counter(), []
        self.error = portico.Error

    def unknown(self, op, model, arrays):
        made = with_attribute(self.onnx, model, UNKNOWN, 1)
        try:
            with self.portico.onnx.load(made.SerializeToString()) as opened:
                text = "; ".join(problem.reason for problem in opened.check())
                if not text:
                    opened(*arrays)
        except self.error as error:
            text = str(error)
        if f"'{UNKNOWN}'" in text:
            self.counts["unknown ones refused"] += 1
        else:
            self.wrong.append(f"{op}: an attribute that it has not is {'refused without its name: ' + text if text else 'used'}")

    def ours(self, made, arrays):
        """Results, or None where it is refused."""
        try:
            with self.portico.onnx.load(made.SerializeToString()) as opened:
                return None if opened.check() else opened(*arrays)
        except self.error:
            return None

    def odd(self, op, model, arrays, name, value):
        made = with_attribute(self.onnx, model, name, value)
        got = self.ours(made, arrays)
        if got is None:
            self.counts["values refused"] += 1
            return
        try:
            from onnx.reference import ReferenceEvaluator
            want = ReferenceEvaluator(made).run(None, dict(zip((i.name for i in made.graph.input), arrays)))
        except Exception:  # whatever a reference that was given nonsense throws
            self.counts["values that the reference refuses"] += 1
            return
        for a, b in zip(got, want):
            a, b = numpy.asarray(a), numpy.asarray(b)
            # what an attribute changes is larger; the reference rounds each step to a half type, whose unit is 2^-10 or 2^-7
            close = 2 ** -5 if a.dtype.itemsize == 2 else 1e-3
            if a.shape != b.shape or not numpy.allclose(a.astype(numpy.float64), b.astype(numpy.float64), close, close / 100, True):
                self.wrong.append(f"{op}, {name} = {value!r}: not what the reference says "
                                  f"({list(a.shape)} {a.ravel()[:3]} for {list(b.shape)} {b.ravel()[:3]})")
                return
        self.counts["values used"] += 1


def main():
    try:
        import onnx
        import onnx.numpy_helper
    except ImportError:
        print("the package onnx is not here")
        return 77
    import portico

    warnings.simplefilter("ignore")
    numpy.seterr(all="ignore")
    judge = Judge(onnx, portico)
    cases = first_cases(onnx, lambda *case: judge.ours(*case) is not None, sys.argv[1] if len(sys.argv) > 1 else "")
    try:
        import onnx.reference  # noqa: F401
        reference = True
    except ImportError:
        reference = False
    for op, model, arrays in cases:
        judge.unknown(op, model, arrays)
        node = model.graph.node[0]
        opset = next(o.version for o in model.opset_import if not o.domain)
        now = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
        for name, attribute in onnx.defs.get_schema(op, opset, "").attributes.items() if reference else ():
            for value in odd_values(onnx, attribute, now.get(name)):
                lacks = REFERENCE_LACKS.get((op, name), ())
                if lacks is not None and value not in lacks:
                    judge.odd(op, model, arrays, name, value)
    for line in judge.wrong:
        print(line)
    print(f"onnx {onnx.__version__}: {len({op for op, *_ in cases})} operators in {len(cases)} forms; " +
          ", ".join(f"{n} {what}" for what, n in sorted(judge.counts.items())))
    print(f"{sum(judge.counts.values())} passed, {len(judge.wrong)} failed, 0 skipped")
    return 1 if judge.wrong or not cases else 0


if __name__ == "__main__":
    sys.exit(main())
