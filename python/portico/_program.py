"""The program `portico`, which lies within the package."""
import os
import sys

from portico._native import FOLDER


def path():
    """Where the program lies: in a wheel within the package, in a build tree above it."""
    for candidate in (os.path.join(FOLDER, "bin", "portico"), os.path.join(FOLDER, "..", "..", "portico")):
        if os.access(candidate, os.X_OK):
            return os.path.realpath(candidate)
    raise FileNotFoundError(f"the program portico is not in {FOLDER}/bin")


def main():
    program = path()
    os.execv(program, ["portico", *sys.argv[1:]])
