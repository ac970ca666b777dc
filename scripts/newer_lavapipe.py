"""llvmpipe of Debian sid beside this machine's drivers (gpu_roots.py): where Portico is built for it, and how a program
is run there. For scripts/newer-lavapipe, and tests/mutants."""

import pathlib
import subprocess
import sys

import gpu_roots
from drm_shims import Failure

ROOT = pathlib.Path(__file__).resolve().parents[1]
MANIFEST = "/usr/share/vulkan/icd.d/lvp_icd.json"
OPENCL_PACKAGES = "ocl-icd-libopencl1 mesa-opencl-icd".split()
FRESH = {"PORTICO_SELF_TEST": "off", "PORTICO_CACHE_DIR": "", "MESA_SHADER_CACHE_DISABLE": "true"}


def make(folder, root):
    """Portico with that root's glslc beside the machine's own."""
    _, libraries = gpu_roots.debian_name()
    folder.mkdir(parents=True, exist_ok=True)
    (loader,) = pathlib.Path(f"{root}{libraries}").glob("ld-linux-*.so.*")
    glslc = folder / "newer-glslc"
    text = f'#!/bin/sh\nexec {loader} --library-path {root}{libraries} {root}/usr/bin/glslc "$@"\n'
    if not glslc.exists() or glslc.read_text() != text:
        glslc.write_text(text)
        glslc.chmod(0o755)
    tree = folder / "build"
    setup = ["meson", "setup", tree, ROOT, f"-Dnewer_glslc={glslc}", *(["--reconfigure"] if tree.exists() else [])]
    parts = ["portico", "portico-probe", "backends/cpu.so", "backends/vulkan.so"]
    for command in (setup, ["ninja", "-C", tree, *parts]):
        if subprocess.run(command, stdout=sys.stderr, check=False).returncode:
            raise Failure(f"{' '.join(map(str, command[:2]))} failed")
    return tree


class Place:
    """Where programs run that see sid's drivers alone: of lavapipe, or with `opencl` of rusticl. `tree` is the build that
    they belong to: of rusticl `build`, of lavapipe one in `build`/newer whose kernels sid's glslc has compiled."""

    def __init__(self, build, opencl=False, validation=False):
        cache = gpu_roots.cache_folder()
        if opencl:
            self.root, self.tree = gpu_roots.make(cache, "sid", OPENCL_PACKAGES, "sid-opencl"), build.resolve()
            self.environment = {"OCL_ICD_VENDORS": "/etc/OpenCL/vendors/rusticl.icd", "RUSTICL_ENABLE": "llvmpipe",
                                "VK_DRIVER_FILES": "/nonexistent"}
        else:
            packages, name = [*gpu_roots.PACKAGES, "glslc"], "sid-glslc"
            if validation:
                packages, name = [*packages, "vulkan-validationlayers"], "sid-validation"
            self.root = gpu_roots.make(cache, "sid", packages, name)
            self.glslc = (build / "newer").resolve() / "newer-glslc"
            self.tree = make(self.glslc.parent, self.root)
            self.environment = {"VK_DRIVER_FILES": MANIFEST, "OCL_ICD_VENDORS": "/nonexistent"}

    def validate(self):
        """From now on under the validation layer, with synchronisation. Returns the file to which it writes."""
        folder = self.tree / "validation"
        folder.mkdir(exist_ok=True)
        messages = folder / "messages.txt"
        messages.unlink(missing_ok=True)
        settings = {"debug_action": "VK_DBG_LAYER_ACTION_LOG_MSG", "report_flags": "error,warn", "validate_sync": "true",
                    "log_filename": messages}
        lines = [f"khronos_validation.{key} = {value}\n" for key, value in settings.items()]
        (folder / "vk_layer_settings.txt").write_text("".join(lines))
        self.environment |= {"VK_LAYER_SETTINGS_PATH": folder, "VK_INSTANCE_LAYERS": "VK_LAYER_KHRONOS_validation"}
        return messages

    def command(self, environment, *words):
        """The command line that runs these words there, in the build's folder."""
        return list(map(str, gpu_roots.inside(self.root, self.environment | environment, [str(self.tree)],
                                              ["/usr/bin/env", "-C", self.tree, *words])))

    def portico(self, *words, log="warning"):
        return self.command(FRESH | {"PORTICO_LOG": log}, self.tree / "portico", *words)
