#!/usr/bin/env python3
"""Writes a text file as a C string: embed_text.py INPUT OUTPUT NAME. Run by Meson."""
import sys


def main():
    source, target, name = sys.argv[1:]
    with open(source, encoding="utf-8") as file:
        lines = file.read().splitlines()
    escaped = (line.strip().replace("\\", "\\\\").replace('"', '\\"') for line in lines)
    with open(target, "w", encoding="utf-8") as file:
        file.write(f"/* Generated from {source.rsplit('/', 1)[-1]}. */\nextern const char {name}[];\n")
        file.write(f"const char {name}[] =\n" + "\n".join(f'    "{line}\\n"' for line in escaped if line) + ";\n")


if __name__ == "__main__":
    main()
