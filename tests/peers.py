#!/usr/bin/env python3
"""peers.py PACKAGE,... SCRIPT [ARGUMENT ...]: runs a test that needs packages of others with the first Python that has
them: PORTICO_TEST_PYTHON, this one, that of PATH, or Debian's. Exit status 77 where none has."""

import os
import subprocess
import sys

HAS = "import importlib.util, sys; sys.exit(not all(importlib.util.find_spec(name) for name in sys.argv[1:]))"


def has(python, packages):
    try:
        return subprocess.run([python, "-c", HAS, *packages], capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def main(packages, *command):
    for python in (os.environ.get("PORTICO_TEST_PYTHON"), sys.executable, "python3", "/usr/bin/python3"):
        if python and has(python, packages.split(",")):
            os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
            os.execvp(python, [python, *command])
    print(f"skipped: no Python here has the packages {packages}; PORTICO_TEST_PYTHON can name one")
    return 77


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
