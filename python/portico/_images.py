"""Images for models: files, or arrays of red, green and blue."""
import ctypes
import os

import numpy as np

from portico import _native as native


class Images:
    """images: a path, an array [height, width, 3] of 0 to 255 (what numpy makes of a Pillow image in mode RGB), or a list of
    either. `single` says that it was no list. To be used with `with`, which gives what was read back."""

    def __init__(self, images):
        self.single = isinstance(images, (str, os.PathLike)) or not isinstance(images, (list, tuple))
        sources = [images] if self.single else list(images)
        self.count = len(sources)
        self.items = (native.Image * max(self.count, 1))()
        self._read, self._arrays = [], []
        try:
            for item, source in zip(self.items, sources):
                item.size = ctypes.sizeof(native.Image)
                if isinstance(source, (str, os.PathLike)):
                    native.check(native.image_read(native.encoded(os.fspath(source), "image"), item, native.error_buffer()))
                    self._read.append(item.rgb)
                else:
                    self._take(item, source)
        except BaseException:
            self.__exit__()
            raise

    def _take(self, item, source):
        array = np.asarray(source)
        if array.ndim != 3 or array.shape[2] != 3 or array.dtype != np.uint8:
            raise native.InvalidError("an image is a path or an array uint8 [height, width, 3]; "
                                      f"this is {array.dtype} of shape {array.shape}")
        array = np.ascontiguousarray(array)
        self._arrays.append(array)  # lives as long as what points to it
        item.height, item.width, item.rgb = array.shape[0], array.shape[1], array.ctypes.data

    def __enter__(self):
        return self

    def __exit__(self, *_):
        while self._read:
            native.free(self._read.pop())
