"""A folder of make_folder.py with its matrices as whole numbers of 8 bits, and the same numbers as F32:
whole_folder.py FOLDER AS_I8 AS_F32."""
import array
import json
import pathlib
import shutil
import struct
import sys


def main(folder, as_i8, as_f32):
    data = pathlib.Path(folder, "model.safetensors").read_bytes()
    size = struct.unpack_from("<Q", data)[0]
    for out, whole in ((as_i8, True), (as_f32, False)):
        shutil.copytree(folder, out)
        header, parts, at = {}, [], 0
        for name, tensor in json.loads(data[8:8 + size]).items():
            begin, end = (8 + size + offset for offset in tensor["data_offsets"])
            values = [struct.unpack("<f", b"\0\0" + data[i:i + 2])[0] for i in range(begin, end, 2)]  # BF16
            matrix = len(tensor["shape"]) > 1
            numbers = [round(8 * value) for value in values] if matrix else values  # -3 to 3
            part = array.array("b" if matrix and whole else "f", numbers).tobytes()
            header[name] = {"dtype": "I8" if matrix and whole else "F32", "shape": tensor["shape"],
                            "data_offsets": [at, at + len(part)]}
            parts.append(part)
            at += len(part)
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)
        pathlib.Path(out, "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + b"".join(parts))


if __name__ == "__main__":
    main(*sys.argv[1:])
