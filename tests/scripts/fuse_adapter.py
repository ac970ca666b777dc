"""An adapter of experts as PEFT writes it for transformers 5, where all experts of a layer are one parameter:
fuse_adapter.py ADAPTER FUSED. Gate and up become one adapter of twice the rank."""
import json
import os
import re
import struct
import sys

GATES, UPS, DOWNS = ("w1", "gate_proj"), ("w3", "up_proj"), ("w2", "down_proj")


def read(path):
    """{name: rows of floats} of a file of F32."""
    with open(path, "rb") as file:
        size, = struct.unpack("<Q", file.read(8))
        header, data = json.loads(file.read(size)), file.read()
    tensors = {}
    for name, item in header.items():
        if name != "__metadata__":
            (rows, columns), (begin, end) = item["shape"], item["data_offsets"]
            values = struct.unpack(f"<{rows * columns}f", data[begin:end])
            tensors[name] = [values[row * columns:(row + 1) * columns] for row in range(rows)]
    return tensors


def write(path, tensors):
    header, data = {"__metadata__": {"format": "pt"}}, b""
    for name, rows in tensors.items():
        part = b"".join(struct.pack(f"<{len(row)}f", *row) for row in rows)
        header[name] = {"dtype": "F32", "shape": [len(rows), len(rows[0])], "data_offsets": [len(data), len(data) + len(part)]}
        data += part
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


def fused(a, b):
    """Lists of [rank][in] and [out][rank], one for each expert, as [experts*rank][in] and [out][rank*experts]."""
    rank = len(a[0])
    return [row for expert in a for row in expert], [[b[e][i][j] for j in range(rank) for e in range(len(b))]
                                                     for i in range(len(b[0]))]


def main(adapter, out):
    tensors, experts, made = read(f"{adapter}/adapter_model.safetensors"), {}, {}
    for name, rows in tensors.items():
        found = re.fullmatch(r"(.*\.layers\.\d+)\.(?:mlp|block_sparse_moe)\.experts\.(\d+)\.(\w+)\.lora_([AB])\.weight", name)
        if found:
            layer, expert, part, letter = found.groups()
            experts.setdefault(layer, {}).setdefault((part, letter), {})[int(expert)] = rows
        else:
            made[name] = rows
    for layer, parts in experts.items():
        def of(names, letter):
            one = next(rows for (part, which), rows in parts.items() if part in names and which == letter)
            return [one[e] for e in range(len(one))]
        gate_a, gate_b, up_a, up_b = of(GATES, "A"), of(GATES, "B"), of(UPS, "A"), of(UPS, "B")
        none = [0.0] * len(gate_a[0])
        a = [[*gate, *up] for gate, up in zip(gate_a, up_a)]
        b = [[*([*row, *none] for row in gate), *([*none, *row] for row in up)] for gate, up in zip(gate_b, up_b)]
        for place, pair in ((".mlp.experts.base_layer", fused(a, b)), (".mlp.experts", fused(of(DOWNS, "A"), of(DOWNS, "B")))):
            made[f"{layer}{place}.lora_A.weight"], made[f"{layer}{place}.lora_B.weight"] = pair
    os.makedirs(out, exist_ok=True)
    write(f"{out}/adapter_model.safetensors", made)
    with open(f"{adapter}/adapter_config.json", encoding="utf-8") as file:
        config = json.load(file)
    config["target_modules"] = [name for name in config["target_modules"] if name not in (*GATES, *UPS, *DOWNS)]
    config["target_parameters"] = ["gate_up_proj", "down_proj"]
    config["rank_pattern"] = {r".*\.gate_up_proj": 2 * config["r"]}
    config["alpha_pattern"] = {r".*\.gate_up_proj": 2 * config["lora_alpha"]}
    with open(f"{out}/adapter_config.json", "w", encoding="utf-8") as file:
        json.dump(config, file)


if __name__ == "__main__":
    main(*sys.argv[1:])
