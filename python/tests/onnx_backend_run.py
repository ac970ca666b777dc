"""Runs ONNX's own backend test (the runner and the cases of the package onnx) on the device of PORTICO_BACKEND.

    python3 python/tests/onnx_backend_run.py [--verbose] [PATTERN]

Prints every skipped case's reason (--verbose: its name, too), every failed case, the operators that have a mapping, and how
many of the node cases of these alone passed. Exit status 1 if any failed, or if fewer than 95 % of those passed; 77 without
the package onnx. Models that the runner would download are left out."""
import argparse
import builtins
import collections
import dataclasses
import os
import re
import sys
import unittest
import warnings

import numpy

AT_LEAST = 0.95
# Of a whole run: how many pass, at least, and are skipped, at most. A mapping that is lost, or refuses more, shows here: its
# cases leave those that the rate above is of.
EXPECTED = {"1.12.0": (768, 304), "1.23.2": (1505, 519)}
# Cases whose values have another shape than their models say: skipped, with that reason.
FAULTY = {"1.12.0": {f"test_castlike_{to}{how}" for to in ("BFLOAT16_to_FLOAT", "FLOAT_to_BFLOAT16")
                     for how in ("", "_expanded")}}
KINDS = ("node", "simple", "pytorch-converted", "pytorch-operator")


def make_backend(portico, onnx_backend, unsupported):
    """Portico's, but a case that it is not supposed to implement is a skipped one, which ONNX's runner calls passed."""

    class Recorded(onnx_backend.PorticoRep):
        def run(self, inputs, **kwargs):
            try:
                return super().run(inputs, **kwargs)
            except unsupported as error:
                raise unittest.SkipTest(str(error)) from None

    class Backend(onnx_backend.PorticoBackend):
        @classmethod
        def prepare(cls, model, device="CPU", **kwargs):  # kwargs: of the comparison
            try:
                return Recorded(super().prepare(model, device).model, None)
            except unsupported as error:
                raise unittest.SkipTest(str(error)) from None

        @classmethod
        def supports_device(cls, device):
            return device == "CPU"

        is_compatible = None  # the runner would skip without a reason

    return Backend


class Result(unittest.TestResult):
    def __init__(self):
        super().__init__()
        self.passed = []

    def addSuccess(self, test):
        self.passed.append(test)


def wider(case):
    """The nodes of an expanded function each round to float16, whose unit is 2^-10: two units, as the runner gives bfloat16,
    where 1e-3 is hardly one."""
    if not re.search("(fp16|float16).*_expanded", case.name):
        return case
    return case._replace(rtol=2 ** -9) if hasattr(case, "_replace") else dataclasses.replace(case, rtol=2 ** -9)


def name_of(test):
    return test.id().rsplit(".", 1)[-1].removesuffix("_cpu")


def operators(graph):
    """Names of all operators of a graph, those of branches and bodies too."""
    found = set()
    for node in graph.node:
        found.add((node.domain, node.op_type))
        for attribute in node.attribute:
            for inner in [attribute.g, *attribute.graphs] if attribute.type in (5, 10) else []:
                found |= operators(inner)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("pattern", nargs="?", default="", help="only cases whose names have this regular expression")
    parser.add_argument("--verbose", action="store_true", help="name every skipped case")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    for name in ("object", "bool"):  # which NumPy 1.24 took away, and package onnx 1.12 uses
        if not hasattr(numpy, name):
            setattr(numpy, name, getattr(builtins, name))
    try:
        import onnx
        from onnx.backend.test import loader
        from onnx.backend.test.runner import BackendIsNotSupposedToImplementIt, Runner
        known = [wider(case) for kind in KINDS for case in loader.load_model_tests(kind=kind)]
    except (ImportError, OSError) as error:
        print(f"the package onnx with its test cases is not here: {error}")
        return 77
    import portico
    import portico.onnx
    from portico import onnx_backend

    cases = {}  # name -> operators, of those whose model is at hand
    sys.modules[Runner.__module__].load_model_tests = lambda kind, **_: [case for case in known if case.kind == kind]
    runner = Runner(make_backend(portico, onnx_backend, BackendIsNotSupposedToImplementIt), "onnx_backend_run")
    for case in known:
        if case.kind == "node":
            model = case.model or onnx.load(os.path.join(case.model_dir, "model.onnx"))
            names = operators(model.graph)
            for function in model.functions:
                names -= {(function.domain, function.name)}
                names |= operators(function)
            cases[case.name] = names
    result = Result()
    tests = [test for case in runner.test_cases.values()
             for test in unittest.defaultTestLoader.loadTestsFromTestCase(case)
             if test.id().endswith("_cpu") and re.search(arguments.pattern, name_of(test))]
    for test in tests:
        if name_of(test) in FAULTY.get(onnx.__version__, ()):
            result.addSkip(test, "a fault of the case: its values have another shape than its model says")
        else:
            test.run(result)

    reasons = collections.defaultdict(list)
    for test, reason in result.skipped:
        reasons[re.sub(r"'[^']*'", "'...'", re.sub(r" \(and \d+ more\)", "", reason))].append(name_of(test))
    for reason, names in sorted(reasons.items(), key=lambda item: -len(item[1])):
        print(f"skipped {len(names):4}  {reason}")
        for name in names if arguments.verbose else []:
            print(f"              {name}")
    for test, trace in result.failures + result.errors:
        lines = [line.strip() for line in trace.strip().splitlines() if line.strip()]
        print(f"FAILED {name_of(test)}: {' '.join(lines[-12:] if 'AssertionError' in trace else lines[-1:])[:400]}")

    claimed = {op for names in cases.values() for op in names if portico.onnx.has_operator(op[1], op[0]) or op == ("", "If")}
    ours = {name for name, names in cases.items() if names <= claimed and re.search(arguments.pattern, name)}
    passed = {name_of(test) for test in result.passed}
    for name in sorted(ours - passed) if arguments.verbose else []:
        print(f"not passed, of operators with a mapping: {name}")
    print(f"{len(claimed)} operators with a mapping: {', '.join(sorted(op for _, op in claimed))}")
    rate = len(ours & passed) / max(len(ours), 1)
    print(f"node cases of these operators alone: {len(ours & passed)} of {len(ours)} passed, {100 * rate:.1f} % (package onnx "
          f"{onnx.__version__})")
    failed = len(result.failures) + len(result.errors)
    print(f"{len(result.passed)} passed, {failed} failed, {len(result.skipped)} skipped")
    least, most = EXPECTED.get(onnx.__version__, (0, len(tests)))
    fewer = not arguments.pattern and (len(result.passed) < least or len(result.skipped) > most)
    if fewer:
        print(f"of package onnx {onnx.__version__} {least} passed and {most} were skipped before")
    return int(failed > 0 or rate < AT_LEAST or fewer)


if __name__ == "__main__":
    sys.exit(main())
