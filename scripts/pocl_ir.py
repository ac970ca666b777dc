"""Finds, in the IR that PoCL keeps of its kernels, single bits of vectors in memory: see scripts/scan-pocl-ir."""
import ctypes
import glob
import os
import re
import sys

# LLVM stores <8 x i1> as one byte, and an i1 as a byte of its own: to go from the one to the other by an address is wrong
# for all bits, the first included, whose byte holds the others too.
BITS = r"<\d+ x i1>"
KEPT = re.compile(rf"^\s*(%\S+) = alloca .*{BITS}")
DERIVED = re.compile(r"^\s*(%\S+) = (?:getelementptr|bitcast|select|phi)\b")
INTO_BITS = re.compile(rf"^\s*(%\S+) = getelementptr (?:inbounds )?{BITS},")
ACCESS = re.compile(r"^\s*(?:%\S+ = load (?:volatile )?i1, |store (?:volatile )?i1 [^,]+, )\S+ (%[^\s,]+)")
NAME = re.compile(r"%[-\w.$]+")


class Llvm:
    """LLVM's C interface, of the newest library here: one reads what older ones wrote."""

    def __init__(self):
        found = [(int(m[1]), path) for path in glob.glob("/usr/lib/*/libLLVM*.so*") + glob.glob("/usr/lib/libLLVM*.so*")
                 if (m := re.search(r"libLLVM(?:-|\.so\.)(\d+)", path))]
        if not found:
            sys.exit("pocl_ir.py: no libLLVM in /usr/lib; PoCL brings one along")
        self.library = ctypes.CDLL(max(found)[1])
        self.library.LLVMPrintModuleToString.restype = ctypes.c_void_p
        self.library.LLVMPrintModuleToString.argtypes = [ctypes.c_void_p]
        self.library.LLVMDisposeMessage.argtypes = [ctypes.c_void_p]
        self.library.LLVMDisposeModule.argtypes = [ctypes.c_void_p]
        self.library.LLVMDisposeMemoryBuffer.argtypes = [ctypes.c_void_p]

    def text(self, path):
        """The module of a file of bitcode, as text."""
        buffer, message, module = ctypes.c_void_p(), ctypes.c_char_p(), ctypes.c_void_p()
        if self.library.LLVMCreateMemoryBufferWithContentsOfFile(os.fsencode(path), ctypes.byref(buffer),
                                                                 ctypes.byref(message)):
            raise OSError(message.value.decode())
        bad = self.library.LLVMParseBitcode2(buffer, ctypes.byref(module))
        self.library.LLVMDisposeMemoryBuffer(buffer)
        if bad:
            raise OSError(f"{path} is no bitcode that this LLVM reads")
        printed = self.library.LLVMPrintModuleToString(module)
        text = ctypes.string_at(printed).decode(errors="replace")
        self.library.LLVMDisposeMessage(printed)
        self.library.LLVMDisposeModule(module)
        return text


def scan(text):
    """(kept, wrong): vectors of bits that are variables in memory, and the lines that read or write a bit of one."""
    kept, wrong, inside = 0, [], set()
    for line in text.splitlines():
        if line.startswith("define"):
            inside = set()
        if match := KEPT.match(line):
            kept += 1
            inside.add(match[1])
        elif match := INTO_BITS.match(line):
            inside.add(match[1])
        elif match := DERIVED.match(line):
            if inside.intersection(NAME.findall(line.split("=", 1)[1])):
                inside.add(match[1])
        elif (match := ACCESS.match(line)) and match[1] in inside:
            wrong.append(line.strip())
    return kept, wrong


def main(folder):
    llvm = Llvm()
    files = sorted(glob.glob(os.path.join(glob.escape(folder), "**", "parallel.bc"), recursive=True))
    bad = exposed = 0
    for path in files:
        kept, wrong = scan(llvm.text(path))
        exposed += kept > 0
        bad += bool(wrong)
        if kept or wrong:
            print(f"{path}: {kept} vectors of bits kept, {len(wrong)} accesses to single bits")
        for line in wrong[:3]:
            print(f"    {line}")
    print(f"{len(files)} kernels, {exposed} keep vectors of bits, {bad} read or write single bits of them")
    return 1 if bad or not files else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
