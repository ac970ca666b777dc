#!/usr/bin/env python3
"""A GPU behind opencl.c that compiles and runs nothing: OpenCL C goes through the compiler of the GPU's vendor, and the log
gets a line for each kernel with what the compiler says of it. scripts/gpus --opencl starts it.

amd: clang and ROCm's device libraries, for a GPU such as gfx90a. nvidia: clang and libclc to PTX, and ptxas, for a GPU
such as sm_90. intel: ocloc, for a GPU such as dg2."""

import argparse
import hashlib
import json
import pathlib
import re
import shlex
import struct
import subprocess
import tempfile

import gpu


def run(command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise gpu.Refused((done.stderr or done.stdout).strip() or f"{command[0]} ended with {done.returncode}")
    return done.stdout + done.stderr


def number(pattern, text, otherwise=None):
    found = re.findall(pattern, text)
    return float(found[-1]) if found else otherwise


def amd(tools, target, options, source, folder):
    """What is measured, and the listing. CDNA has waves of 64."""
    text, out = folder / "kernel.cl", folder / "kernel.s"
    text.write_bytes(gpu.beginning_of(target) + source)
    wave = 64 if target.startswith("gfx9") else 32
    run([*gpu.clang_command(tools["clang"], target, wave, pathlib.Path(tools["libraries"]), options), "-S", text, "-o", out])
    listing = out.read_text()
    body = listing[listing.index("pco_main:"):listing.index(".Lfunc_end")]
    return {"registers": number(r"\.vgpr_count: +(\d+)", listing),
            "spills": number(r"\.vgpr_spill_count: +(\d+)", listing) + number(r"\.sgpr_spill_count: +(\d+)", listing),
            "scratch": number(r"\.private_segment_fixed_size: +(\d+)", listing),
            "waves": number(r"; Occupancy: +(\d+)", listing),
            "instructions": len(re.findall(r"^\t[a-z]", body, re.M))}, listing


def nvidia(tools, target, options, source, folder):
    """PTX is made for sm_80, the latest that all these clangs know, and ptxas makes the target's machine code of it."""
    text, ptx, out = folder / "kernel.cl", folder / "kernel.ptx", folder / "kernel.cubin"
    text.write_bytes(source)
    run([tools["clang"], "-target", "nvptx64--nvidiacl", "-x", "cl", "-O3", *options, "-Xclang", "-mlink-builtin-bitcode",
         "-Xclang", tools["libclc"], "-Xclang", "-target-cpu", "-Xclang", "sm_80", "-Xclang", "-target-feature", "-Xclang",
         "+ptx70", "-S", text, "-o", ptx])
    said = run([tools["ptxas"], "-v", f"-arch={target}", ptx, "-o", out])
    # A spilled register is 4 bytes that are stored.
    measured = {"registers": number(r"Used (\d+) registers", said), "spills": number(r"(\d+) bytes spill stores", said) / 4,
                "scratch": number(r"(\d+) bytes stack frame", said)}
    if "nvdisasm" not in tools:  # it takes ten times as long as ptxas
        return measured, ptx.read_text()
    listing = run([tools["nvdisasm"], "-c", out])
    return measured | {"instructions": len(re.findall(r"^\s+/\*[0-9a-f]+\*/ ", listing, re.M))}, listing


def intel(tools, target, options, source, folder):
    text = folder / "kernel.cl"
    text.write_bytes(source)
    ocloc = shlex.split(tools["ocloc"])
    run([*ocloc, "compile", "-q", "-device", target, "-file", text, "-options", " ".join(options), "-out_dir", folder,
         "-output", "kernel", "-output_no_suffix"])
    run([*ocloc, "disasm", "-q", "-file", folder / "kernel.bin", "-dump", folder / "dump", "-device", target])
    # The kernel and the functions that it calls.
    listing = "".join(file.read_text(errors="replace") for file in sorted((folder / "dump").glob(".text.*.asm")))
    info = next((folder / "dump").glob(".ze_info*")).read_text(errors="replace")
    # A register of these GPUs is 32 bytes (64 of Xe2).
    size = 64 if target in ("lnl", "bmg") else 32
    return {"registers": number(r"grf_count: +(\d+)", info), "spills": number(r"spill_size: +(\d+)", info, 0) / size,
            "scratch": number(r"private_size: +(\d+)", info, 0), "subgroup_size": number(r"simd_size: +(\d+)", info),
            "instructions": len(re.findall(r"^ *(?:\([^)]*\) *)?[a-z][a-z0-9.]* ", listing, re.M))}, listing


class Compiler:
    def __init__(self, arguments):
        self.arguments = arguments
        self.compiler = {"amd": amd, "nvidia": nvidia, "intel": intel}[arguments.compiler]
        self.tools = json.loads(arguments.tools)
        self.names = json.loads(arguments.names.read_text())

    def compile(self, message):
        options, _, source = message.partition(b"\0")
        words = options.decode().split()
        name = self.names.get(hashlib.sha256(source).hexdigest(), "a kernel")
        with tempfile.TemporaryDirectory(dir=self.arguments.scratch) as folder:
            measured, listing = self.compiler(self.tools, self.arguments.target, words, source, pathlib.Path(folder))
        constants = [int(word.partition("=")[2]) for word in words if re.match(r"-DS\d+=", word)]
        with open(self.arguments.log, "a", encoding="utf-8") as log:
            log.write(json.dumps({"kernel": name, "constants": constants, **measured}) + "\n")
        if self.arguments.code:
            end = hashlib.sha256(options).hexdigest()[:8]
            (self.arguments.code / f"{name}-{end}.txt").write_text(f"{options.decode()}\n{listing}")
        return listing.encode()

    def load(self, _):
        return struct.pack("<III", 0, 0, 0)

    def run(self, _):
        raise gpu.Refused("this GPU compiles, and runs nothing")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--compiler", choices=("amd", "nvidia", "intel"), required=True)
    parser.add_argument("--target", required=True, help="the GPU's name, in the compiler's words")
    parser.add_argument("--tools", required=True, help="JSON: the programs and libraries, by name")
    parser.add_argument("--names", type=pathlib.Path, required=True, help="JSON: names of kernels by the SHA-256 of their texts")
    parser.add_argument("--log", required=True, help="a file that gets a line of JSON for each kernel")
    parser.add_argument("--scratch", required=True, help="a folder for files in between")
    parser.add_argument("--code", type=pathlib.Path, help="a folder for listings")
    device = Compiler(parser.parse_args())
    gpu.serve({gpu.COMPILE: device.compile, gpu.LOAD: device.load, gpu.RUN: device.run})


if __name__ == "__main__":
    main()
