#!/usr/bin/env python3
"""The executor behind opencl.c: compiles OpenCL C to the machine code of an AMD GPU with clang, and executes that code.

What a machine instruction does comes from the emulator that tinygrad tests itself with (test/mockgpu/amd/emu.py, made
from AMD's published pseudocode): here it serves as a table from instructions to functions, and waves.c calls them.
Started by opencl.c, with its socket and the device's memory as file descriptors 3 and 4."""

import argparse
import base64
import collections
import ctypes
import hashlib
import json
import mmap
import os
import pathlib
import socket
import struct
import subprocess
import sys
import tempfile
import time
import typing

SOCKET, MEMORY = 3, 4
COMPILE, LOAD, RUN = 1, 2, 3

# gfx name: tinygrad's name of the architecture, invocations of a wave
GPUS = {"gfx1100": ("rdna3", 32), "gfx1200": ("rdna4", 32), "gfx942": ("cdna", 64)}

LIBRARIES = ("opencl", "ocml", "ockl", "oclc_correctly_rounded_sqrt_on", "oclc_daz_opt_off", "oclc_finite_only_off",
             "oclc_unsafe_math_off", "oclc_wavefrontsize64_{wide}", "oclc_abi_version_400")


POISON = 0xC7C7C7C7  # as in waves.c
NULL = 124  # a scalar register of RDNA that reads as 0

# Instructions about caches alone, which the emulator does not know, by architecture: first word, mask, bytes.
CACHES = {
    "rdna3": ((0xE0AC0000, 0xFFFC0000, 8), (0xE0B00000, 0xFFFC0000, 8)),  # buffer_gl0_inv, buffer_gl1_inv
    "rdna4": ((0xEE0AC000, 0xFFFFC000, 12), (0xEE0B0000, 0xFFFFC000, 12)),  # global_inv, global_wb
    "cdna": (),
}


class Refused(Exception):
    """What cannot be compiled, loaded or executed, in words for opencl.c's caller."""


# ---- dispatch.h ----


class Instruction(ctypes.Structure):
    _fields_ = [("code", ctypes.c_void_p), ("buffers", ctypes.c_uint8 * 6), ("is_barrier", ctypes.c_uint8),
                ("skipped", ctypes.c_uint8)]


Resolve = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_uint64)


class Dispatch(ctypes.Structure):
    _fields_ = [("table", ctypes.POINTER(Instruction)), ("base", ctypes.c_uint64), ("n_words", ctypes.c_uint64),
                ("entry", ctypes.c_uint64), ("groups", ctypes.c_uint32 * 3), ("local", ctypes.c_uint32 * 3),
                ("wave_size", ctypes.c_uint32), ("dimensions", ctypes.c_uint32), ("scalars", ctypes.c_uint32 * 288),
                ("group_registers", ctypes.c_uint32 * 3), ("group_packed", ctypes.c_uint32),
                ("execution_mask", ctypes.c_uint32), ("program_counter", ctypes.c_uint32), ("shared", ctypes.c_uint32),
                ("private", ctypes.c_uint32), ("flush", ctypes.c_uint32), ("resolve", Resolve),
                ("instructions", ctypes.c_uint64), ("counter", ctypes.c_uint64)]


ENDS = {1: "the emulator does not know the instruction", 2: "a jump out of the kernel's code",
        3: "a write beyond the shared memory that the kernel declares", 4: "no memory for the waves"}


# ---- the code object ----


class Program:
    """A code object in memory, and what its kernel descriptor says (LLVM's "User Guide for AMDGPU Backend")."""

    def __init__(self, number, data, name):
        self.number, self.name = number, name
        self.memory, self.base = mapped(segments_of(data))
        descriptor = ctypes.string_at(self.base + symbol_of(data, "pco_main.kd"), 64)
        self.shared, self.private, self.kernarg, _, entry = struct.unpack_from("<IIIIq", descriptor)
        self.rsrc1, self.rsrc2, self.properties = struct.unpack_from("<IIH", descriptor, 48)
        self.entry = self.base + symbol_of(data, "pco_main.kd") + entry
        self.n_words = len(self.memory) // 4
        self.table = (Instruction * self.n_words)()

    def flushes(self):
        return (self.rsrc1 >> 16) & 3 == 0


def segments_of(data):
    """(offset in memory, bytes, size in memory) of what is loaded."""
    if data[:4] != b"\x7fELF":
        raise Refused("this is no code object")
    start, count = struct.unpack_from("<Q", data, 32)[0], struct.unpack_from("<H", data, 56)[0]
    headers = [struct.unpack_from("<IIQQQQQQ", data, start + 56 * i) for i in range(count)]
    return [(h[3], data[h[2]:h[2] + h[5]], h[6]) for h in headers if h[0] == 1]


def symbol_of(data, wanted):
    start, count = struct.unpack_from("<Q", data, 40)[0], struct.unpack_from("<H", data, 60)[0]
    sections = [struct.unpack_from("<IIQQQQIIQQ", data, start + 64 * i) for i in range(count)]
    for section in sections:
        if section[1] != 11:  # SHT_DYNSYM
            continue
        names = sections[section[6]][4]
        for at in range(section[4], section[4] + section[5], 24):
            name, _, _, _, value, _ = struct.unpack_from("<IBBHQQ", data, at)
            if data[names + name:data.index(b"\0", names + name)].decode() == wanted:
                return value
    raise Refused(f"the code object has no {wanted}")


def mapped(segments):
    """Memory that holds the segments, and its address."""
    memory = mmap.mmap(-1, max(at + size for at, _, size in segments) + mmap.PAGESIZE)
    for at, content, _ in segments:
        memory[at:at + len(content)] = content
    return memory, ctypes.addressof(ctypes.c_char.from_buffer(memory))


# ---- the emulator ----


class Function(typing.NamedTuple):
    """What instructions do that differ only in the fields that `mask` leaves out."""

    base: int
    mask: int
    size: int
    buffers: list  # its arguments, by their numbers in dispatch.h
    runtime: object  # keeps the code in memory, at .addr


class Emulator:
    """tinygrad's knowledge of instructions."""

    def __init__(self, arguments):
        os.environ.update({"DEV": "CPU", "CC": arguments.clang, "CPU_COUNT": "1", "CACHELEVEL": "0"})
        sys.path.insert(0, str(arguments.tinygrad))
        from test.mockgpu.amd import emu
        from tinygrad.device import Device as TinyDevice, TinyELF
        from tinygrad.renderer.amd import decode_inst
        from tinygrad.renderer.amd.dsl import ttmp

        self.emu, self.ttmp, self.decode = emu, ttmp, decode_inst
        self.arch, self.wave_size = GPUS[arguments.gpu]
        self.without = [word.upper() for word in arguments.without]
        state = emu.WaveState(self.wave_size, self.wave_size)  # its constants are each wave's
        self.constants = {i: state._read_sgpr(i) for i in range(128, emu.SGPR_COUNT)}
        self.functions = collections.defaultdict(list)  # by the name of the instruction's format
        self.met = {}  # entries of tables by the bytes of the instruction
        # A function takes a tenth of a second to make: they are kept, a line each.
        self.kept = arguments.cache / f"instructions-{self.arch}.jsonl"
        processor = TinyDevice["CPU"]
        for kind, base, mask, size, buffers, code in self.read_kept():
            runtime = processor.runtime(TinyELF(base64.b64decode(code), "kept", processor.renderer.target, ()))
            self.functions[kind].append(Function(int(base, 16), int(mask, 16), size, buffers, runtime))

    def read_kept(self):
        for line in self.kept.read_text(encoding="utf-8").splitlines() if self.kept.exists() else []:
            try:
                yield json.loads(line)
            except ValueError:  # the process that wrote it was ended
                continue

    def make(self, counter):
        """The emulator's own function for the instruction there."""
        self.emu._decode_at(counter, self.arch)
        _, base, mask, size, (built, runtime) = self.emu._canonical_runner_cache[-1]
        made = Function(base, mask, size, list(built.arg.globals), runtime)
        kind = type(self.decode(ctypes.string_at(counter, 16), self.arch)).__name__
        self.functions[kind].append(made)
        code = base64.b64encode(built.to_elf().lib).decode()
        with open(self.kept, "a", encoding="utf-8") as file:
            file.write(json.dumps([kind, hex(base), hex(mask), size, made.buffers, code]) + "\n")
        return made

    def entry(self, counter):
        """What the table says of the instruction there, and the bytes that make it."""
        word = ctypes.c_uint32.from_address(counter).value
        for value, mask, size in CACHES[self.arch]:
            if word & mask == value:
                return Instruction(skipped=size), size
        instruction = self.decode(ctypes.string_at(counter, 16), self.arch)
        size = instruction.size()
        if any(word in self.emu._op_name(instruction) for word in self.without):
            return Instruction(skipped=size), size
        number = int.from_bytes(ctypes.string_at(counter, size), "little")
        known = self.functions[type(instruction).__name__]
        function = next((f for f in known if f.size == size and number & f.mask == f.base), None) or self.make(counter)
        operation = getattr(instruction, "op", None)
        barriers = (*self.emu._BARRIER_OPS, *self.emu._BARRIER_SOP1_OPS)
        return Instruction(function.runtime.addr, (ctypes.c_uint8 * 6)(*function.buffers), operation in barriers), size

    def fill(self, program, counter):
        """Writes the table's entry of the instruction there."""
        content = ctypes.string_at(counter, 12)
        for size in (4, 8, 12):  # an instruction's first bytes say how long it is
            if content[:size] in self.met:
                entry = self.met[content[:size]]
                break
        else:
            try:
                entry, size = self.entry(counter)
            except Exception as error:  # whatever it stumbles over
                raise Refused(str(error)) from error
            self.met[content[:size]] = entry
        program.table[(counter - program.base) // 4] = entry


# ---- the device ----


class Device:
    def __init__(self, arguments):
        self.arguments = arguments
        self.waves = ctypes.CDLL(str(arguments.library))
        self.waves.emu_execute.argtypes = [ctypes.POINTER(Dispatch)]
        self.emulator = None  # until something runs: it takes seconds to import
        self.programs, self.names = [], {}  # names of kernels by the digest of their code objects
        self.rows = json.loads(arguments.names.read_text()) if arguments.names else {}
        self.memory = mmap.mmap(MEMORY, os.fstat(MEMORY).st_size)
        self.base = ctypes.addressof(ctypes.c_char.from_buffer(self.memory))

    # -- compile

    def compile(self, message):
        options, _, source = message.partition(b"\0")
        gpu = self.arguments.gpu
        command = clang_command(self.arguments.clang, gpu, GPUS[gpu][1], self.arguments.device_libs, options.decode().split())
        key = hashlib.sha256(repr(command).encode() + source).hexdigest()[:32]
        kept = self.arguments.cache / f"{key}.co"
        if not kept.exists():
            with tempfile.TemporaryDirectory(dir=self.arguments.cache) as folder:
                text, out = pathlib.Path(folder, "kernel.cl"), pathlib.Path(folder, "kernel.co")
                text.write_bytes(beginning_of(gpu) + source)
                done = subprocess.run([*command, text, "-o", out], capture_output=True, text=True, check=False)
                if done.returncode:
                    raise Refused(done.stderr.strip() or f"clang ended with {done.returncode}")
                out.rename(kept)
        data = kept.read_bytes()
        self.names[hashlib.sha256(data).digest()] = self.rows.get(hashlib.sha256(source).hexdigest(), "a kernel")
        return data

    # -- load

    def load(self, data):
        program = Program(len(self.programs), data, self.names.get(hashlib.sha256(data).digest(), "a kernel"))
        self.programs.append(program)
        return struct.pack("<III", program.number, program.shared, program.private)

    # -- run

    def run(self, message):
        number, *grid, count = struct.unpack_from("<8I", message)
        program, groups, local = self.programs[number], grid[:3], grid[3:]
        if not self.emulator:
            self.emulator = Emulator(self.arguments)
        kernarg = self.kernarg(program, message, count)
        packet = self.packet(groups, local)
        dispatch = self.dispatch(program, groups, local, ctypes.addressof(kernarg), ctypes.addressof(packet))
        why = []

        @Resolve
        def resolve(counter):
            try:
                self.emulator.fill(program, counter)
            except Refused as refused:
                why.append(str(refused))
            return not why

        dispatch.resolve = resolve
        start = time.monotonic()
        end = self.waves.emu_execute(ctypes.byref(dispatch))
        if end:
            raise Refused(f"kernel {program.name}: {why[0] if why else ENDS[end]} (at byte "
                          f"{dispatch.counter - program.base:#x} of the code object)")
        self.log(program, groups, local, dispatch, time.monotonic() - start)
        return b""

    def kernarg(self, program, message, count):
        """The segment of arguments: each at a multiple of its size; what the compiler adds behind them is zero."""
        memory = aligned(program.kernarg + 64)
        at, to = 32, 0
        for _ in range(count):
            size, offset = struct.unpack_from("<QQ", message, at)
            at += 16
            content = message[at:at + size] if size else struct.pack("<Q", self.base + offset)
            at += (size + 7) // 8 * 8
            to = (to + len(content) - 1) // len(content) * len(content)
            memory[to:to + len(content)] = content
            to += len(content)
        return memory

    @staticmethod
    def packet(groups, local):
        """The dispatch packet of HSA, where kernels look up their grid."""
        packet = aligned(64)
        struct.pack_into("<HHHHHxxIII", packet, 0, 0, 3, *local, *(g * l for g, l in zip(groups, local)))
        return packet

    def dispatch(self, program, groups, local, kernarg, packet):
        emulator, made = self.emulator, Dispatch()
        made.table, made.base, made.n_words = program.table, program.base, program.n_words
        made.entry, made.wave_size = program.entry, emulator.wave_size
        made.dimensions = 1 + (program.rsrc2 >> 11 & 3)
        made.groups, made.local = (ctypes.c_uint32 * 3)(*groups), (ctypes.c_uint32 * 3)(*local)
        made.shared, made.private, made.flush = program.shared, program.private, program.flushes()
        emu = emulator.emu
        made.execution_mask, made.program_counter = emu.EXEC_LO.offset, emu.PC_LO_IDX
        for i in range(128):
            made.scalars[i] = POISON
        if emulator.arch != "cdna":
            made.scalars[NULL] = 0
        for i, value in emulator.constants.items():
            made.scalars[i] = value
        made.scalars[emu.SCRATCH_STRIDE_IDX] = program.private
        user = []
        for bit, words in ((0, [0] * 4), (1, halves(packet)), (2, [0] * 2), (3, halves(kernarg)), (4, [0] * 2),
                           (5, [0] * 2), (6, [program.private])):
            user += words if program.properties >> bit & 1 else []
        for i, value in enumerate(user):
            made.scalars[i] = value
        self.place_groups(program, made)
        return made

    def place_groups(self, program, made):
        """Which registers tell a wave the number of its workgroup."""
        if self.emulator.arch == "rdna4":
            made.group_registers[0] = self.emulator.ttmp[9].offset
            made.group_registers[1] = self.emulator.ttmp[7].offset
            made.group_packed = 1
            return
        register = program.rsrc2 >> 1 & 31  # behind the user's
        for d in range(3):
            if program.rsrc2 >> (7 + d) & 1:
                made.group_registers[d] = register
                register += 1

    def log(self, program, groups, local, dispatch, seconds):
        if self.arguments.log:
            with open(self.arguments.log, "a", encoding="utf-8") as file:
                json.dump({"kernel": program.name, "groups": groups, "local": local, "seconds": round(seconds, 4),
                           "instructions": dispatch.instructions}, file)
                file.write("\n")


def aligned(size):
    """Zeroed memory at a multiple of 64 bytes."""
    whole = ctypes.create_string_buffer(size + 64)
    room = (ctypes.c_char * size).from_buffer(whole, -ctypes.addressof(whole) % 64)
    return room


def halves(address):
    return [address & 0xFFFFFFFF, address >> 32]


def clang_command(clang, gpu, wave, libraries, options):
    """OpenCL C to the GPU's machine code, with waves of so many invocations and ROCm's libraries in that folder; the file
    and what is made of it follow."""
    wide = "on" if wave == 64 else "off"
    command = [clang, "-target", "amdgcn-amd-amdhsa", f"-mcpu={gpu}", "-nogpulib",
               "-mcode-object-version=4", "-x", "cl", "-O3", *options]
    for library in LIBRARIES:
        file = libraries / f"{library.format(wide=wide)}.bc"
        command += ["-Xclang", "-mlink-builtin-bitcode", "-Xclang", str(file)]
    return command


def beginning_of(gpu):
    """What ROCm's libraries ask of the one who links them: the GPU as a number, gfx90a is 9010 (major, and a digit each in
    hexadecimal). Not all versions have a file for each GPU."""
    number = gpu.removeprefix("gfx")
    isa = int(number[:-2]) * 1000 + int(number[-2], 16) * 100 + int(number[-1], 16)
    return b"__constant const int __oclc_ISA_version = %d;\n" % isa


def receive(connection, count):
    parts = []
    while count:
        part = connection.recv(min(count, 1 << 20))
        if not part:
            sys.exit(0)
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


def parse():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gpu", choices=GPUS, default="gfx1100")
    parser.add_argument("--tinygrad", type=pathlib.Path, required=True, help="tinygrad's source, with its tests")
    parser.add_argument("--clang", default="clang", help="a clang that knows the GPU")
    parser.add_argument("--device-libs", type=pathlib.Path, required=True, help="the folder of ROCm's device libraries")
    parser.add_argument("--library", type=pathlib.Path, required=True, help="the library that opencl.c and waves.c are")
    parser.add_argument("--cache", type=pathlib.Path, required=True, help="a folder for what was compiled")
    parser.add_argument("--names", type=pathlib.Path, help="JSON: names of kernels by the SHA-256 of their texts")
    parser.add_argument("--without", action="append", default=[], metavar="WORD",
                        help="instructions with WORD in their name do nothing, as on a GPU that is broken")
    parser.add_argument("--log", help="a file that gets a line for each dispatch")
    return parser.parse_args()


def serve(does):
    """Answers opencl.c's messages with functions by kind, until it closes."""
    connection = socket.socket(fileno=SOCKET)
    while True:
        kind, count = struct.unpack("<II", receive(connection, 8))
        message = receive(connection, count)
        try:
            status, answer = 0, does[kind](message)
        except Refused as refused:
            status, answer = 1, str(refused).encode()
        connection.sendall(struct.pack("<II", status, len(answer)) + answer)


def main():
    device = Device(parse())
    serve({COMPILE: device.compile, LOAD: device.load, RUN: device.run})


if __name__ == "__main__":
    main()
