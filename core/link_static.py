#!/usr/bin/env python3
"""One object of many archives, in which only what the headers declare can be seen from outside: link_static.py COMPILER
OBJCOPY AR OUTPUT ARCHIVE..."""
import os
import subprocess
import sys
import tempfile

compiler, objcopy, ar, output, *archives = sys.argv[1:]
with tempfile.TemporaryDirectory() as folder:
    whole = os.path.join(folder, "portico.o")
    subprocess.run([*compiler.split(), "-r", "-nostdlib", "-o", whole, "-Wl,--whole-archive", *archives], check=True)
    subprocess.run([objcopy, "--localize-hidden", whole], check=True)
    if os.path.exists(output):
        os.unlink(output)
    subprocess.run([ar, "crsD", output, whole], check=True)
