#!/usr/bin/env python3
"""What a library exports is what its headers declare; structs begin with their size, so that they can grow
(docs/abi.md); each header says which threads may use it: check_symbols.py LIBRARY HEADER..."""
import re
import subprocess
import sys

exported, odd = set(), []
for line in subprocess.run(["nm", "-D", "--defined-only", sys.argv[1]], check=True, capture_output=True,
                           text=True).stdout.splitlines():
    kind, symbol = line.split()[-2:]
    name, _, version = symbol.partition("@")
    if kind == "A":
        continue  # the version itself
    exported.add(name)
    if version.lstrip("@") != "PORTICO_0" or kind != "T":
        odd.append(f"{symbol} ({kind})")
# Elements of arrays, which never grow: what a message has besides comes in pco_chat_params.variables.
FIXED = {"pco_chat_message"}
declared, sizeless, threadless = set(), set(), set()
for header in sys.argv[2:]:
    text = open(header, encoding="utf-8").read()
    declared |= set(re.findall(r"PCO_EXPORT[\s\w*]*?(\w+)\(", text))
    if not re.search(r"\bThreads(, [^:.]*)?:", text):
        threadless.add(header)
    plain = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    for name, first in re.findall(r"typedef\s+struct\s+(\w+)\s*\{\s*([^;]*);", plain):
        if name not in FIXED and not re.fullmatch(r"(size_t|uint32_t)\s+size", first.strip()):
            sizeless.add(name)
for what, names in (("exported, and in no header", exported - declared), ("declared, and not exported", declared - exported),
                    ("no function of version PORTICO_0", odd),
                    ("a struct that does not begin with its size", sizeless),
                    ("says nothing of threads", threadless)):
    for name in sorted(names):
        print(f"{name}: {what}")
print(f"{len(exported)} symbols")
sys.exit(exported != declared or bool(odd) or bool(sizeless) or bool(threadless))
