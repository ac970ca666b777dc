#!/usr/bin/env python3
"""The C files of folders in which operations have files of their own: what lies there is compiled.

usage: sources.py FOLDER...                              prints them; Meson keeps that when it configures
       sources.py --check LIST STAMP DEPFILE FOLDER...   is that still so?
"""

import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def sources(folders):
    return [f"{folder}/{name}" for folder in folders for name in sorted(os.listdir(os.path.join(ROOT, folder)))
            if name.endswith(".c")]


def check(kept, stamp, depfile, folders):
    """Ninja runs this when a folder has changed: Meson would not look by itself."""
    with open(kept, encoding="utf-8") as file:
        known = set(file.read().split())
    there = set(sources(folders))
    for file in sorted(there ^ known):
        print(f"{file} is {'new' if file in there else 'gone'}: meson setup --reconfigure {os.getcwd()}")
    with open(depfile, "w", encoding="utf-8") as out:
        out.write(f"{stamp}: {' '.join(os.path.join(ROOT, folder) for folder in folders)}\n")
    with open(stamp, "w", encoding="utf-8"):
        pass
    sys.exit(1 if there != known else 0)


def main():
    if sys.argv[1] == "--check":
        check(*sys.argv[2:5], sys.argv[5:])
    else:
        print("\n".join(sources(sys.argv[1:])))


if __name__ == "__main__":
    main()
