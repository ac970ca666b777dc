"""Mesa's no-op drm shims, built from Debian's source package of Mesa: libraries that, preloaded, answer a driver's
calls to the kernel, so that Mesa's own drivers list a GPU that is not there and compile for it. Nothing is computed.

The shims of Debian 13's Mesa also serve the drivers of Debian 12, whose source has none for AMD."""

import os
import pathlib
import re
import subprocess
import sys
import tarfile
from concurrent.futures import ThreadPoolExecutor

SUITE = "trixie"
ARCHIVE = "http://deb.debian.org/debian"
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"

# What every shim is made of. meson would also compile what no shim uses, and Debian 12's is too old for this Mesa.
COMMON = """drm-shim/device drm-shim/drm_shim util/anon_file util/hash_table util/list util/log util/memstream util/os_file
    util/os_misc util/os_mman util/ralloc util/rand_xor util/set util/simple_mtx util/slab util/u_call_once util/u_debug
    util/u_printf util/u_process util/vma util/xxhash util/fast_idiv_by_const util/futex c11/impl/threads_posix
    c11/impl/time""".split()
AMD = "amd/drm-shim/amdgpu_noop_drm_shim amd/drm-shim/amdgpu_devices".split()
INTEL = """intel/tools/intel_noop_drm_shim intel/dev/intel_device_info intel/dev/intel_debug intel/dev/intel_kmd
    intel/dev/intel_hwconfig intel/dev/i915/intel_device_info intel/dev/xe/intel_device_info intel/common/intel_gem
    intel/common/i915/intel_gem intel/common/xe/intel_gem util/parson util/u_string util/mesa-sha1""".split()

# What the shims for newer drivers are made of, beside COMMON.
FREEDRENO_FILE = "src/freedreno/drm-shim/freedreno_noop.c"
UNANSWERED = ("0x0d", "0x0e")
NOUVEAU = ["nouveau/drm-shim/nouveau_noop"]
SHIMS = ("amdgpu", "intel", "nouveau", "freedreno")

# The one that Debian's python3-mako is for.
PYTHON = "/usr/bin/python3" if os.path.exists("/usr/bin/python3") else sys.executable

HAVE = """PTHREAD ENDIAN_H __BUILTIN_FFS __BUILTIN_FFSLL __BUILTIN_CLZ __BUILTIN_CLZLL __BUILTIN_CTZ __BUILTIN_POPCOUNT
    __BUILTIN_UNREACHABLE __BUILTIN_EXPECT __BUILTIN_TYPES_COMPATIBLE_P FUNC_ATTRIBUTE_PURE FUNC_ATTRIBUTE_CONST
    FUNC_ATTRIBUTE_PACKED STRUCT_TIMESPEC TIMESPEC_GET MEMFD_CREATE LIBDRM LINUX_FUTEX_H DLADDR DL_ITERATE_PHDR RANDOM_R
    SECURE_GETENV FLOCK""".split()


class Failure(Exception):
    """One line for the user."""


class Unavailable(Failure):
    """Debian's archive, or another place that something is fetched from, cannot be reached: there is nothing to judge."""


def run(command, where=None):
    done = subprocess.run(command, cwd=where, capture_output=True, text=True, check=False)
    if done.returncode:
        words = (done.stderr or done.stdout).strip().splitlines() or ["no message"]
        line = next((line for line in words if "error" in line), words[-1])
        raise Failure(f"{pathlib.Path(str(command[0])).name} ... {command[-1]}: {line}")
    return done.stdout


def fetch(what, *commands, where=None):
    """Runs commands that fetch `what`; where one fails it is not to be had."""
    try:
        for command in commands:
            run(command, where)
    except Failure as failure:
        raise Unavailable(f"{what} cannot be had: {failure}") from None


def fetch_source(folder):
    """The source of Mesa as Debian has it, verified by apt, in folder/mesa-VERSION."""
    there = sorted(folder.glob("mesa-*/src/freedreno/drm-shim"))
    if there:
        return there[-1].parents[2]
    for name in ("lists/partial", "cache/archives/partial"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    if not os.path.exists(KEYRING):
        raise Failure(f"{KEYRING} is not there: the source of Mesa's shims is taken from Debian's archive")
    (folder / "sources.list").write_text(f"deb-src [signed-by={KEYRING}] {ARCHIVE} {SUITE} main\n")
    apt = ["apt-get", "-q", "-o", "APT::Update::Error-Mode=any", "-o", f"Dir::Etc::sourcelist={folder}/sources.list",
           "-o", "Dir::Etc::sourceparts=/dev/null",
           "-o", f"Dir::State::lists={folder}/lists", "-o", f"Dir::Cache={folder}/cache"]
    fetch("the source of Mesa", [*apt, "update"], [*apt, "source", "--download-only", "mesa"], where=folder)
    archive = next(folder.glob("mesa_*.orig.tar.xz"), None)
    if not archive:
        raise Failure("Debian's source package of Mesa has no mesa_*.orig.tar.xz")
    with tarfile.open(archive) as tar:
        wanted = re.compile(r"[^/]+/(include|src/(drm-shim|util|c11|compiler|intel|amd/(drm-shim|common)|freedreno/drm-shim|"
                            r"nouveau|gallium/drivers/nouveau/nv_object\.xml\.h$|[^/]+\.h$))")
        safely = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}  # Debian 12's Python has no filters
        tar.extractall(folder, [m for m in tar if wanted.match(m.name) and ".." not in m.name], **safely)
    return next(folder.glob("mesa-*/src")).parent


def amd_source(source, out):
    """Mesa 25.2 and later ask for a newer kernel interface than the shim has."""
    text = (source / "src/amd/drm-shim/amdgpu_noop_drm_shim.c").read_text()
    if "version_minor = 49" not in text:
        raise Failure("Mesa's shim for AMD is not as it was: its version of the kernel interface is not 49")
    made = out / "amdgpu.c"
    made.write_text(text.replace("version_minor = 49", "version_minor = 60"))
    return made


def freedreno_source(source, out):
    """Turnip of Mesa 26 binds memory with calls that are younger than the shim (DRM_MSM_VM_BIND and the next)."""
    text = (source / FREEDRENO_FILE).read_text()
    start = "static ioctl_fn_t driver_ioctls[] = {\n"
    if start not in text:
        raise Failure("Mesa's shim for Adreno is not as it was: it has no driver_ioctls")
    made = out / "freedreno.c"
    made.write_text(text.replace(start, start + "".join(f"   [{call}] = msm_ioctl_noop,\n" for call in UNANSWERED)))
    return made


def intel_sources(source, out):
    """Intel's table of devices is generated."""
    dev, made = source / "src/intel/dev", out / "intel/dev"
    made.mkdir(parents=True, exist_ok=True)
    run([PYTHON, "gen_wa_helpers.py", "mesa_defs.json", made / "intel_wa.h", out / "intel_wa.c"], dev)
    run([PYTHON, "intel_device_info_gen_h.py", made / "intel_device_info_gen.h"], dev)
    run([PYTHON, "intel_device_info_serialize_gen_c.py", out / "intel_serialize.c"], dev)
    return [out / "intel_wa.c", out / "intel_serialize.c"]


def build(folder):
    """Builds the shims in `folder`, where they are not there yet: {"amdgpu": path, ...}."""
    shims = {name: folder / f"lib{name}_noop_drm_shim.so" for name in SHIMS}
    if all(path.exists() for path in shims.values()):
        return shims
    source = fetch_source(folder)
    out = folder / "objects"
    out.mkdir(exist_ok=True)
    (out / "git_sha1.h").write_text('#define MESA_GIT_SHA1 ""\n')
    src = source / "src"
    flags = ["-O1", "-w", "-fPIC", "-std=gnu11", "-fvisibility=hidden", "-ffunction-sections", "-fdata-sections",
             "-D_GNU_SOURCE", "-DNDEBUG", "-DUSE_GCC_ATOMIC_BUILTINS", '-DPACKAGE_VERSION="x"', '-DPACKAGE_BUGREPORT="x"',
             *(f"-DHAVE_{name}" for name in HAVE), f"-I{source}/include", f"-I{src}", f"-I{src}/drm-shim", f"-I{out}",
             f"-I{out}/intel", f"-I{out}/intel/dev", f"-I{src}/amd", f"-I{src}/amd/drm-shim", f"-I{src}/intel",
             f"-I{src}/intel/dev", f"-I{src}/intel/common", f"-I{src}/nouveau", f"-I{src}/nouveau/drm",
             f"-I{src}/nouveau/winsys", "-I/usr/include/libdrm"]

    def there(names):
        return [src / f"{name}.c" for name in names if (src / f"{name}.c").exists()]

    files = {"common": there(COMMON), "amdgpu": [amd_source(source, out), *there(AMD)[1:]],
             "intel": [*intel_sources(source, out), *there(INTEL)], "nouveau": there(NOUVEAU),
             "freedreno": [freedreno_source(source, out)]}
    if len(there(AMD)) < len(AMD) or not there(INTEL[:1]) or not there(NOUVEAU):
        raise Failure(f"{source} has no drm shims for AMD, Intel and NVIDIA")

    def compile_one(job):
        name, file = job
        made = out / f"{name}-{str(file).strip('/').replace('/', '_')}.o"
        run(["gcc", *flags, "-c", "-o", made, file])
        return name, made

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        objects = list(pool.map(compile_one, [(name, file) for name, list_ in files.items() for file in list_]))
    for name, path in shims.items():
        mine = [made for of, made in objects if of in ("common", name)]
        scratch = path.with_suffix(".part")
        run(["gcc", "-shared", "-o", scratch, *mine, "-Wl,--gc-sections", "-Wl,-z,defs", "-s", "-ldl", "-lm", "-lpthread",
             "-ldrm"])
        scratch.rename(path)
    return shims


if __name__ == "__main__":
    try:
        target = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "build/gpus").resolve()
        target.mkdir(parents=True, exist_ok=True)
        print(*build(target).values(), sep="\n")
    except Failure as failure:
        sys.exit(f"drm_shims: {failure}")
