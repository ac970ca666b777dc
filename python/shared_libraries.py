#!/usr/bin/env python3
"""Where the shared libraries lie that a wheel has to bring along: shared_libraries.py COMPILER... -- NAME...

Prints a line for each -lNAME: its file, the name under which programs ask for it, and its licence or "-".
"""
import glob
import os
import subprocess
import sys


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def soname(path):
    for line in output("readelf", "-d", path).splitlines():
        if "(SONAME)" in line:
            return line.split("[")[1].rstrip("]")
    sys.exit(f"shared_libraries: {path} has no soname")


def licence(path):
    """Of the Debian package that the file belongs to."""
    try:
        package = output("dpkg-query", "-S", path).split(":")[0]
    except (OSError, subprocess.CalledProcessError):
        return "-"
    found = glob.glob(f"/usr/share/doc/{package}/copyright")
    return found[0] if found else "-"


def main(compiler, names):
    for name in names:
        path = output(*compiler, f"-print-file-name=lib{name}.so")
        if not os.path.isabs(path):
            sys.exit(f"shared_libraries: there is no lib{name}.so")
        path = os.path.realpath(path)
        print(path, soname(path), licence(path), sep="\n")


if __name__ == "__main__":
    at = sys.argv.index("--") if "--" in sys.argv else sys.exit(__doc__)
    main(sys.argv[1:at], sys.argv[at + 1:])
