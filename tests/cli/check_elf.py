"""check_elf.py FILE...: is each program and library hardened? Prints what is not, and exits with 1 then.

Every file: relocations resolved at start and read-only then (BIND_NOW, RELRO), no executable stack, no search path of its
own, a stack protector and checked string functions somewhere in it; on x86-64 also code that is compiled for CET (the
property of the whole file is only there where the C library's start files have it, too). A program is position
independent."""
import struct
import sys

LOAD, DYNAMIC, INTERPRETER, STACK, RELRO = 1, 2, 3, 0x6474e551, 0x6474e552
STRINGS, STRINGS_SIZE, RPATH, BIND_NOW, RUNPATH, FLAGS, FLAGS_1 = 5, 10, 15, 24, 29, 30, 0x6ffffffb
X86_64 = 62


class Elf:
    def __init__(self, path):
        self.data = open(path, "rb").read()
        if self.data[:6] != b"\x7fELF\x02\x01":
            sys.exit(f"{path}: not a 64-bit little-endian ELF file")
        self.type, self.machine = struct.unpack_from("<HH", self.data, 16)
        offset, = struct.unpack_from("<Q", self.data, 32)
        size, count = struct.unpack_from("<HH", self.data, 54)
        self.segments = [struct.unpack_from("<IIQQQQQQ", self.data, offset + i * size) for i in range(count)]
        self.dynamic = {}
        for kind, _, at, _, _, length, _, _ in self.segments:
            for i in range(0, length if kind == DYNAMIC else 0, 16):
                self.dynamic.setdefault(*struct.unpack_from("<QQ", self.data, at + i))

    def segment(self, kind):
        return next((s for s in self.segments if s[0] == kind), None)

    def has_name(self, name):
        """A name of a symbol that is looked up or given, in the table of dynamic strings."""
        address, size = self.dynamic.get(STRINGS, 0), self.dynamic.get(STRINGS_SIZE, 0)
        for kind, _, at, virtual, _, length, _, _ in self.segments:
            if kind == LOAD and virtual <= address < virtual + length:
                table = self.data[at + address - virtual:][:size]
                return any(name(text.decode()) for text in table.split(b"\0"))
        return False

    def landings(self):
        """How often ENDBR64 stands in the code: where indirect calls and jumps may arrive."""
        return sum(self.data[s[2]:s[2] + s[5]].count(b"\xf3\x0f\x1e\xfa") for s in self.segments if s[0] == LOAD and s[1] & 1)


def faults(path):
    elf = Elf(path)
    stack = elf.segment(STACK)
    if not stack or stack[1] & 1:
        yield "its stack is executable"
    if not elf.segment(RELRO):
        yield "no RELRO"
    if BIND_NOW not in elf.dynamic and not elf.dynamic.get(FLAGS, 0) & 8 and not elf.dynamic.get(FLAGS_1, 0) & 1:
        yield "no BIND_NOW"
    if RPATH in elf.dynamic or RUNPATH in elf.dynamic:
        yield "a search path of its own (RPATH or RUNPATH)"
    if elf.type != 3:
        yield "not position independent"
    if elf.segment(INTERPRETER) and not elf.dynamic.get(FLAGS_1, 0) & 0x08000000:
        yield "a program that is not marked as position independent"
    if not elf.has_name(lambda name: name == "__stack_chk_fail"):
        yield "no stack protector"
    if not elf.has_name(lambda name: name.startswith("__") and name.endswith("_chk")):
        yield "no checked string functions (_FORTIFY_SOURCE)"
    if elf.machine == X86_64 and elf.landings() < 10:
        yield "its code is not compiled for CET (-fcf-protection)"


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit("usage: check_elf.py FILE...")
    found = [f"{path}: {fault}" for path in sys.argv[1:] for fault in faults(path)]
    print("\n".join(found) if found else f"{len(sys.argv) - 1} files are hardened")
    sys.exit(1 if found else 0)
