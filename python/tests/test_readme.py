"""The Python in README.md runs, and prints the gradient that NumPy finds by central differences."""
import pathlib
import re

import numpy as np


def test_readme(capsys):
    text = (pathlib.Path(__file__).parents[2] / "README.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", text, re.S)
    assert blocks
    names = {}
    for block in blocks:
        exec(compile(block, "README.md", "exec"), names)
    assert names["losses"][-1] < names["losses"][0] / 2
    got = np.array([float(x) for x in re.findall(r"-?\d+\.\d+", capsys.readouterr().out)]).reshape(2, 2)
    x = np.array([[1.0, 2.0], [3.0, 4.0]])

    def loss(w):
        e = np.exp(x @ w)
        return ((e / e.sum(-1, keepdims=True)) ** 2).mean()

    want = np.zeros((2, 2))
    for i in np.ndindex(2, 2):
        step = np.zeros((2, 2))
        step[i] = 1e-4
        want[i] = (loss(np.eye(2) + step) - loss(np.eye(2) - step)) / 2e-4
    # Float32 keeps about 1e-7, the differences are off by h^2 times a third derivative of about 1: 1e-8.
    np.testing.assert_allclose(got, want, atol=1e-6)
