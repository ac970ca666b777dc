"""meson-python, whose wheels get a tag of their own.

It takes whatever lies beside the modules of a package to be compiled for one version of Python. What lies there is a
library that is found through ctypes: one wheel serves every Python 3.
"""
import base64
import hashlib
import os
import re
import zipfile

import mesonpy
from mesonpy import *  # noqa: F401,F403: the other hooks of a build backend


def record(files, of):
    """RECORD: a line for each file, with its hash and its size."""
    lines = []
    for info, data in files:
        if info.filename != of:
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            lines.append(f"{info.filename},sha256={digest},{len(data)}\n")
    return "".join(lines + [f"{of},,\n"]).encode()


def tagged(path):
    """Renames a wheel NAME-VERSION-PYTHON-ABI-PLATFORM.whl to NAME-VERSION-py3-none-PLATFORM.whl, inside too."""
    folder, name = os.path.split(path)
    distribution, version, _, _, platform = name[:-len(".whl")].split("-")
    tag = f"py3-none-{platform}"
    target = os.path.join(folder, f"{distribution}-{version}-{tag}.whl")
    with zipfile.ZipFile(path) as wheel:
        files = [(info, wheel.read(info)) for info in wheel.infolist()]
    meta = f"{distribution}-{version}.dist-info/"
    files = [(info, re.sub(rb"(?m)^Tag: .*$", b"Tag: " + tag.encode(), data) if info.filename == meta + "WHEEL" else data)
             for info, data in files]
    os.unlink(path)
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as wheel:
        for info, data in files:
            if info.filename == meta + "RECORD":
                data = record(files, meta + "RECORD")
            info.compress_type = zipfile.ZIP_DEFLATED
            wheel.writestr(info, data)
    return os.path.basename(target)


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    name = mesonpy.build_wheel(wheel_directory, config_settings, metadata_directory)
    return tagged(os.path.join(wheel_directory, name))
