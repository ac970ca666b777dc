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
INTEL = """intel/tools/intel_noop_drm_shim intel/dev/intel_device_info intel/dev/intel_debug intel/dev/intel_kmd
    intel/dev/intel_hwconfig intel/dev/i915/intel_device_info intel/dev/xe/intel_device_info intel/common/intel_gem
    intel/common/i915/intel_gem intel/common/xe/intel_gem util/parson util/u_string util/mesa-sha1""".split()

# What the shims for newer drivers are made of, beside COMMON.
NOUVEAU = ["nouveau/drm-shim/nouveau_noop"]
PANFROST = ["panfrost/drm-shim/panfrost_noop"]
SHIMS = ("amdgpu", "intel", "nouveau", "freedreno", "panfrost", "v3d")

# RDNA 4, which the shim for AMD does not know: a Radeon RX 9070 XT, told as RDNA 3's description is but for this. The
# kernel interface has its family, its revisions are those of Mesa's addrlib; compilers do not ask for the rest.
GFX1201 = {"name": '"gfx1201"', "radeon_family": "CHIP_GFX1201", "hw_ip_version_major": "12",
           "ip_discovery_version": "0xc0001", "device_id": "0x7550", "external_rev": "0x51", "pci_rev": "0xc0",
           "family": "AMDGPU_FAMILY_GC_12_0_0", "num_shader_engines": "4", "cu_active_number": "64",
           "enabled_rb_pipes_mask": "0xffff", "num_rb_pipes": "16", "vram_bit_width": "256", "num_tcc_blocks": "16",
           "gl1c_cache_size": "0", "gl2c_cache_size": "8192", "mall_size": "UINT64_C(67108864)"}

# A Raspberry Pi 5, where V3D_GPU_ID is 71: its version, and the revision of its compatibility. The shim is of a Pi 4.
V3D_71 = """        const char *chosen = getenv("V3D_GPU_ID");
        if (chosen && atoi(chosen) == 71) {
                static const uint32_t v3d71[][2] = {{DRM_V3D_PARAM_V3D_HUB_IDENT3, 0x00000a00},
                                                    {DRM_V3D_PARAM_V3D_CORE0_IDENT0, 0x07443356},
                                                    {DRM_V3D_PARAM_V3D_CORE0_IDENT1, 0x81001421}};
                for (int i = 0; i < 3; i++)
                        if (gp->param == v3d71[i][0]) { gp->value = v3d71[i][1]; return 0; }
        }
"""

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


def fetch_archive(folder):
    """The source of Mesa as Debian has it, verified by apt: an archive in the folder."""
    archive = next(folder.glob("mesa_*.orig.tar.xz"), None)
    if archive:
        return archive
    for name in ("lists/partial", "cache/archives/partial"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    if not os.path.exists(KEYRING):
        raise Failure(f"{KEYRING} is not there: the source of Mesa is taken from Debian's archive")
    (folder / "sources.list").write_text(f"deb-src [signed-by={KEYRING}] {ARCHIVE} {SUITE} main\n")
    apt = ["apt-get", "-q", "-o", "APT::Update::Error-Mode=any", "-o", f"Dir::Etc::sourcelist={folder}/sources.list",
           "-o", "Dir::Etc::sourceparts=/dev/null",
           "-o", f"Dir::State::lists={folder}/lists", "-o", f"Dir::Cache={folder}/cache"]
    fetch("the source of Mesa", [*apt, "update"], [*apt, "source", "--download-only", "mesa"], where=folder)
    archive = next(folder.glob("mesa_*.orig.tar.xz"), None)
    if not archive:
        raise Failure("Debian's source package of Mesa has no mesa_*.orig.tar.xz")
    return archive


def unpack(folder, wanted):
    """folder/mesa-VERSION, with what of the source matches."""
    with tarfile.open(fetch_archive(folder)) as tar:
        safely = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}  # Debian 12's Python has no filters
        tar.extractall(folder, [m for m in tar if re.match(wanted, m.name) and ".." not in m.name], **safely)
    return next(folder.glob("mesa-*/src")).parent


def fetch_source(folder):
    """What shims are made of, in folder/mesa-VERSION."""
    there = sorted(folder.glob("mesa-*/src/broadcom/drm-shim"))
    if there:
        return there[-1].parents[2]
    return unpack(folder, r"[^/]+/(include|src/(drm-shim|util|c11|compiler|intel|amd/(drm-shim|common)|"
                          r"(freedreno|panfrost|broadcom)/drm-shim|nouveau|gallium/drivers/nouveau/nv_object\.xml\.h$|"
                          r"[^/]+\.h$))")


def changed(source, file, out, *changes):
    """A copy of the shim's file in `out`, with texts replaced by others."""
    text = (source / "src" / file).read_text()
    for old, new in changes:
        if old not in text:
            raise Failure(f"Mesa's {file} is not as it was: it lacks '{old.strip()}'")
        text = text.replace(old, new, 1)
    made = out / pathlib.Path(file).name
    made.write_text(text)
    return made


def amd_sources(source, out):
    """Mesa 25.2 and later ask for a newer kernel interface than the shim has; and RDNA 4."""
    devices = "amd/drm-shim/amdgpu_devices.c"
    known = re.search(r'   \{\n      \.name = "navi31",\n.*?\n   \},\n', (source / "src" / devices).read_text(), re.S)
    if not known:
        raise Failure(f"Mesa's {devices} is not as it was: it does not know navi31")
    newer = known[0]
    for field, value in GFX1201.items():
        newer, count = re.subn(rf"(\.{field} = )[^\n]*,\n", rf"\g<1>{value},\n", newer)
        if not count:
            raise Failure(f"Mesa's {devices} is not as it was: navi31 has no '{field}'")
    newer = newer.replace("{ 0xff, 0xff, 0xff, 0xff, }", "{ 0xff, 0xff, 0x0, 0x0, }")  # compute units of four engines
    return [changed(source, "amd/drm-shim/amdgpu_noop_drm_shim.c", out, ("version_minor = 49", "version_minor = 60")),
            changed(source, devices, out, (known[0], known[0] + newer))]


def freedreno_source(source, out):
    """Turnip of Mesa 26 binds memory with calls that are younger than the shim (DRM_MSM_VM_BIND and the next)."""
    start = "static ioctl_fn_t driver_ioctls[] = {\n"
    calls = "".join(f"   [{call}] = msm_ioctl_noop,\n" for call in ("0x0d", "0x0e"))
    return changed(source, "freedreno/drm-shim/freedreno_noop.c", out, (start, start + calls))


def v3d_source(source, out):
    """V3DV wants submits with several semaphores and queries by the CPU, and submits compute by a call of its own."""
    switch, case = "        switch (gp->param) {\n", "        case DRM_V3D_PARAM_SUPPORTS_PERFMON:\n"
    calls = "SUBMIT_CSD SUBMIT_CPU PERFMON_CREATE PERFMON_DESTROY".split()
    start = "static ioctl_fn_t driver_ioctls[] = {\n"
    return changed(
        source, "broadcom/drm-shim/v3d_noop.c", out, (switch, V3D_71 + switch),
        (case, case + "".join(f"        case DRM_V3D_PARAM_SUPPORTS_{what}:\n" for what in ("MULTISYNC_EXT", "CPU_QUEUE"))),
        (start, start + "".join(f"        [DRM_V3D_{call}] = v3d_ioctl_noop,\n" for call in calls)))


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

    files = {"common": there(COMMON), "amdgpu": amd_sources(source, out),
             "intel": [*intel_sources(source, out), *there(INTEL)], "nouveau": there(NOUVEAU),
             "freedreno": [freedreno_source(source, out)], "panfrost": there(PANFROST), "v3d": [v3d_source(source, out)]}
    if not there(INTEL[:1]) or not there(NOUVEAU) or not there(PANFROST):
        raise Failure(f"{source} has no drm shims for Intel, NVIDIA and Mali")

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
