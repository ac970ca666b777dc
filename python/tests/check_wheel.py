#!/usr/bin/env python3
"""What a wheel must do on a machine without compiler, glslc and SDK: check_wheel.py README.md, with the package installed.

Runs the Python of the README, lists devices, judges softmax and runs a layer on lavapipe; `import portico` takes less than
0.2 s.
"""
import re
import shutil
import subprocess
import sys

for tool in ("cc", "gcc", "clang", "glslc", "meson", "ninja"):
    if shutil.which(tool):
        sys.exit(f"check_wheel: there is {tool}: this is no bare machine")

names = {}
for block in re.findall(r"```python\n(.*?)```", open(sys.argv[1], encoding="utf-8").read(), re.S):
    exec(compile(block, sys.argv[1], "exec"), names)
assert names["losses"][-1] < names["losses"][0] / 2, names["losses"]

import numpy as np  # noqa: E402

import portico  # noqa: E402
from portico import nn  # noqa: E402

found = {name for device in portico.devices() for name in (device.id, *device.aliases)}
assert {"cpu:0", "lavapipe"} <= found, found
layer, x = nn.Linear(8, 4), np.ones((2, 8), np.float32)
want = layer(x).numpy()
layer.to("vulkan:lavapipe")
assert np.allclose(layer(x).numpy(), want, atol=1e-5)
result = portico.conformance("cpu:native,vulkan:lavapipe", ops="softmax", tier="tiny")
assert result, result
subprocess.run(["portico", "--version"], check=True)

code = "import time; t = time.perf_counter(); import portico; print(time.perf_counter() - t)"
seconds = min(float(subprocess.check_output([sys.executable, "-c", code])) for _ in range(3))
assert seconds < 0.2, seconds
print(f"README's Python, {len(portico.devices())} devices, {result.counts['pass']} cases; import takes {seconds:.3f} s")
