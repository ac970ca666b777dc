"""Newer drivers than the machine's own: a folder with the packages of a later Debian, unpacked and never configured, in
which Portico's program runs. Its own build and libraries are mounted there in a mount namespace, which ends with it."""

import os
import pathlib
import shutil

from drm_shims import ARCHIVE, KEYRING, Failure, fetch, run

PACKAGES = "libvulkan1 mesa-vulkan-drivers".split()

# Mounts the folders up to "--" at the same path in the root, and runs the rest there, with the machine's programs where
# the root has none.
INSIDE = """root=$1; libraries=$2; shift 2
mount --rbind /proc "$root/proc"
mount --rbind /dev "$root/dev"
mount --rbind "$libraries" "$root/host"
[ -e "$root/usr/bin/env" ] || mount --rbind /usr/bin "$root/usr/bin"
while [ "$1" != -- ]; do mount --rbind "$1" "$root$1"; shift; done
shift
exec chroot "$root" "$@"
"""


def cache_folder():
    """Where the newer drivers are kept: hundreds of megabytes that every build can use."""
    base = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
    return pathlib.Path(base) / "portico-gpus"


def debian_name():
    """Debian's word for the machine, and the folder of its libraries."""
    name = run(["dpkg", "--print-architecture"]).strip()
    triplets = {"amd64": "x86_64-linux-gnu", "arm64": "aarch64-linux-gnu"}
    if name not in triplets:
        raise Failure(f"no newer drivers for {name} machines: they are taken for {' and '.join(triplets)}")
    return name, f"/usr/lib/{triplets[name]}"


def apt_get(folder, suite):
    """apt-get that sees that suite alone, and as if nothing was installed."""
    for name in ("lists/partial", "cache/archives/partial"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    (folder / "status").write_text("")
    (folder / "sources.list").write_text(f"deb [signed-by={KEYRING}] {ARCHIVE} {suite} main\n")
    settings = {"Dir::Etc::sourcelist": folder / "sources.list", "Dir::Etc::sourceparts": "/dev/null",
                "Dir::Etc::preferences": "/dev/null", "Dir::Etc::preferencesparts": "/dev/null",
                "Dir::State::lists": folder / "lists", "Dir::State::status": folder / "status",
                "Dir::State::extended_states": folder / "extended", "Dir::Cache": folder / "cache",
                "Debug::NoLocking": "true",
                # a mirror that stands still has an index of sid that is out of date, and signed all the same
                "Acquire::Check-Valid-Until": "false"}
    return ["apt-get", "-q", "-y", *(word for key, value in settings.items() for word in ("-o", f"{key}={value}"))]


def make(folder, suite, packages=PACKAGES, name=None):
    """The folder of that suite's drivers or other packages, made where it is not there yet; no root is needed for it."""
    name = name or suite
    root = folder / name
    if root.exists():
        return root
    if not os.path.exists(KEYRING):
        raise Failure(f"{KEYRING} is not there: newer drivers are taken from Debian's archive")
    work, made = folder / f"{name}-packages", folder / f"{name}.part"
    apt = apt_get(work, suite)
    fetch(f"packages of Debian {suite}", [*apt, "update"],
          [*apt, "--no-install-recommends", "--download-only", "install", *packages])
    shutil.rmtree(made, ignore_errors=True)
    for part in ("proc", "dev", "host", "tmp", "usr/bin", "usr/lib", "usr/lib64"):
        (made / part).mkdir(parents=True, exist_ok=True)
    for part in ("bin", "lib", "lib64"):
        (made / part).symlink_to(f"usr/{part}")
    for package in sorted((work / "cache/archives").glob("*.deb")):
        run(["dpkg", "-x", package, made])
    shutil.rmtree(work)
    made.rename(root)
    return root


def inside(root, environment, folders, command):
    """The command line that runs that command in the root, with those variables alone and those folders in place."""
    _, libraries = debian_name()
    for folder in folders:
        (root / str(folder).lstrip("/")).mkdir(parents=True, exist_ok=True)
    # The root's own libraries first; what it lacks, such as those of MPI, the machine has.
    environment = {"PATH": "/usr/bin", "HOME": "/tmp", "LD_LIBRARY_PATH": f"{libraries}:/host"} | environment
    variables = [f"{name}={value}" for name, value in environment.items()]
    unshare = ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "--mount", "--map-root-user"]
    return [*unshare, "sh", "-ec", INSIDE, "sh", root, libraries, *folders, "--", "/usr/bin/env", "-i", *variables, *command]
