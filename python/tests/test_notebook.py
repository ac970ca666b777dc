"""docs/python.ipynb runs from start to end and prints what it has printed before (scripts/make-notebook --check)."""
import importlib.machinery
import importlib.util
import os

import pytest

SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "scripts", "make-notebook")


def script():
    loader = importlib.machinery.SourceFileLoader("make_notebook", SCRIPT)
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("make_notebook", loader))
    loader.exec_module(module)
    return module


def test_comparison():
    """What the notebook's test calls the same, and what not."""
    same = script().same
    assert same("loss 3.201, 3,152,384 parameters", "loss 3.199, 3,152,384 parameters")
    assert not same("loss 3.2", "loss 3.1") and not same("loss 3.2", "less 3.2") and not same("a 1", "a 1 2")
    assert not same("True", "False")


def test_notebook():
    for name in ("nbclient", "nbformat", "ipykernel", "matplotlib"):
        pytest.importorskip(name)
    if not os.environ.get("PORTICO_BACKEND", "cpu:native").startswith("cpu"):
        pytest.skip("takes minutes on devices that compile on the processor; scripts/make-notebook --check runs it")
    import copy

    import nbformat

    tool = script()
    before = nbformat.read(tool.FILE, 4)
    after = copy.deepcopy(before)
    tool.run(after)
    assert not tool.differences(before, after)
    assert sum(tool.text_of(cell)[1] for cell in after.cells) >= 8  # plots
