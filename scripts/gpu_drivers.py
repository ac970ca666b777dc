"""Drivers of Mesa that Debian packages for ARM alone, built for this machine from Debian 13's source of Mesa: by Debian
13's compilers, in a root that is unpacked for it, so that they run with Debian 13's libraries, as scripts/gpus does."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

import gpu_roots
from drm_shims import SUITE, Failure, run, unpack

COMPILERS = """coreutils dash sed grep gcc g++ meson ninja-build pkgconf python3 python3-mako python3-yaml python3-packaging
    bison flex m4 glslang-tools libdrm-dev zlib1g-dev libexpat1-dev""".split()

# Mesa's word for the driver: what meson calls its library, and what people call it.
DRIVERS = {"broadcom": ("src/broadcom/vulkan/libvulkan_broadcom.so", "V3DV"),
           "panfrost": ("src/panfrost/vulkan/libvulkan_panfrost.so", "PanVK")}

WITHOUT = "llvm gles1 gles2 egl glx gbm lmsensors libunwind valgrind zstd".split()
OPTIONS = ["--buildtype=release", "-Doptimization=1", f"-Dvulkan-drivers={','.join(DRIVERS)}", "-Dplatforms=",
           "-Dgallium-drivers=", "-Dopengl=false", "-Dvideo-codecs=", "-Dbuild-tests=false",
           *(f"-D{what}=disabled" for what in WITHOUT)]


def ninja(command, what):
    """Runs ninja, with a line on the terminal that goes on, or one for each quarter."""
    seen, quarter, last, start = sys.stderr.isatty(), 0, "", time.monotonic()
    with subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        for line in process.stdout:
            last = line if "error" in line or "error" not in last else last
            done = re.match(r"\[(\d+)/(\d+)\]", line)
            if not done:
                continue
            if seen:
                print(f"\rbuilding {what}: {done[1]} of {done[2]} files", end="", file=sys.stderr, flush=True)
            elif 4 * int(done[1]) // int(done[2]) > quarter:
                quarter = 4 * int(done[1]) // int(done[2])
                print(f"building {what}: {25 * quarter} %, {time.monotonic() - start:.0f} s", file=sys.stderr, flush=True)
    if seen:
        print(file=sys.stderr)
    if process.returncode:
        raise Failure(f"building {what}: {last.strip()}")


def make(folder, driver):
    """A folder with that driver's library and manifest, made where it is not there yet: minutes on two cores."""
    made, (library, words) = folder / f"{SUITE}-{driver}", DRIVERS[driver]
    if made.exists():
        return made
    print(f"building {words} of Debian 13's Mesa from source, once: 3 to 6 minutes on two cores", file=sys.stderr,
          flush=True)
    root = gpu_roots.make(folder, SUITE, COMPILERS, f"{SUITE}-compilers")
    work = folder / f"{SUITE}-source"
    tree = work / "build"

    def there(*command):
        return gpu_roots.inside(root, {"LC_ALL": "C.UTF-8"}, [str(work)], [str(word) for word in command])

    if not (tree / "build.ninja").exists():  # else the other one was built there, or this one not to its end
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir()
        run(there("meson", "setup", tree, unpack(work, "."), *OPTIONS))
    ninja(there("ninja", "-j", os.cpu_count(), "-C", tree, library), words)
    part = made.with_suffix(".part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir()
    shutil.copy(tree / library, part)
    manifest = {"file_format_version": "1.0.0",
                "ICD": {"library_path": f"{made}/{pathlib.Path(library).name}", "api_version": "1.3.0"}}
    (part / f"{driver}_icd.json").write_text(json.dumps(manifest))
    part.rename(made)
    if all((folder / f"{SUITE}-{other}").exists() for other in DRIVERS):
        shutil.rmtree(work)
        shutil.rmtree(root)
    return made


if __name__ == "__main__":
    try:
        print(*(make(gpu_roots.cache_folder(), driver) for driver in sys.argv[1:] or DRIVERS), sep="\n")
    except Failure as failure:
        sys.exit(f"gpu_drivers: {failure}")
