"""The stubs say what the package has (mypy's stubtest), and programs can be checked against them (mypy --strict)."""
import os
import pathlib
import subprocess
import sys

import pytest

import portico

pytest.importorskip("mypy")
if not os.environ.get("PORTICO_BACKEND", "cpu").startswith("cpu"):
    pytest.skip("the types are the same on every device", allow_module_level=True)

FOLDER = pathlib.Path(portico.__file__).resolve().parents[1]
# Names that are only for stubs, and what mypy's own stubs of the standard library get wrong.
ONLY_STUBS = ["portico.ArrayLike", "portico.DTypeLike", "portico.Where", "portico.random.GeneratorLike",
              r"portico\._.*", r"portico\.nn\.module\.Loaded.*",
              r"portico\.onnx_backend.*"]
PROGRAM = '''
import portico
from portico import nn, optim
from portico.optim import lr_scheduler

class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.linear = nn.Linear(width, width, bias=False)

    def forward(self, x: portico.Tensor) -> portico.Tensor:
        return x + self.linear(self.norm(x)).relu() * 2.0

model = nn.Sequential(Block(4), nn.Dropout(0.1)).train()
optimizer = optim.AdamW(model.parameters(), lr=1e-3)
schedule = lr_scheduler.CosineAnnealingLR(optimizer, T_max=10)

@portico.function
def step(x: portico.Tensor) -> portico.Tensor:
    loss: portico.Tensor = (model(x) ** 2).mean(axis=(0, 1))
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    return loss

with portico.device("cpu"):
    value: float = step(portico.randn(2, 4)).item()
names = [device.id for device in portico.devices()]
result = portico.conformance("cpu", ops=["relu"])
print(value, names, result.counts["pass"], [failure.op for failure in result.failures])
'''


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("mypy")


@pytest.fixture
def environment(tmp_path, cache):
    (tmp_path / "mypy.ini").write_text("[mypy]\nignore_missing_imports = True\n")
    return {**os.environ, "MYPYPATH": str(FOLDER), "PYTHONPATH": str(FOLDER), "MYPY_CACHE_DIR": str(cache)}


def test_stubs_are_of_this_package(tmp_path, environment):
    (tmp_path / "allowed").write_text("\n".join(ONLY_STUBS))
    run = subprocess.run([sys.executable, "-m", "mypy.stubtest", "portico", "--concise", "--ignore-missing-stub",
                          "--ignore-unused-allowlist", "--allowlist", tmp_path / "allowed", "--mypy-config-file",
                          tmp_path / "mypy.ini"], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr


@pytest.mark.parametrize("broken, words", [(None, ""), ("lr=1e-3", "lr='fast'"), ("nn.Linear(width, width, bias=False)",
                                                                                  "nn.Linear(width)")])
def test_a_program_is_checked(tmp_path, environment, broken, words):
    text = PROGRAM if broken is None else PROGRAM.replace(broken, words)
    assert broken is None or text != PROGRAM
    (tmp_path / "program.py").write_text(text)
    run = subprocess.run([sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", "--config-file", "mypy.ini",
                          "program.py"], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert (run.returncode == 0) == (broken is None), run.stdout + run.stderr
