"""What tests/cli/test_strangers.sh needs: a model that says more than text, a terminal, and a look at every character.

strangers.py make FILE          a tiny Llama whose keys and tokens hold what terminals obey
strangers.py make FILE stray    the same with one more tensor, whose name does so too
strangers.py plain FILE...      fails where a file holds anything but text and newlines
strangers.py terminal COMMAND...   runs it with stdout on a terminal of its own; what it printed goes to stdout as it is"""
import os
import pty
import struct
import sys
import unicodedata

EVIL = "\x1b[31mred\x1b]0;title\x07\x9b2J\u202egnp\u2066.\x7f\r\n"
BROKEN = b"\xff\xc3("


def text(value):
    data = value if isinstance(value, bytes) else value.encode()
    return struct.pack("<Q", len(data)) + data


def key(name, kind, data):
    return text(name) + struct.pack("<I", kind) + data


def number(name, value):
    return key("llama." + name, 4, struct.pack("<I", value))


def texts(name, values):
    return key(name, 9, struct.pack("<IQ", 8, len(values)) + b"".join(map(text, values)))


def make(path, stray=False):
    width, hidden, tokens = 8, 16, ["<unk>", "<s>", "</s>"] + [f"{EVIL}{i}" for i in range(6)]
    keys = [key("general.architecture", 8, text("llama")), key("evil " + EVIL, 8, text(EVIL.encode() + BROKEN)),
            number("embedding_length", width), number("block_count", 1), number("feed_forward_length", hidden),
            number("attention.head_count", 2), number("context_length", 16),
            key("llama.attention.layer_norm_rms_epsilon", 6, struct.pack("<f", 1e-5)),
            key("tokenizer.ggml.model", 8, text("gpt2")), key("tokenizer.ggml.pre", 8, text("gpt-2")),
            texts("tokenizer.ggml.tokens", tokens),
            texts("tokenizer.ggml.merges", []),
            key("tokenizer.ggml.token_type", 9, struct.pack("<IQ", 5, len(tokens)) +
                struct.pack(f"<{len(tokens)}i", 2, 3, 3, *[4] * 6)),
            key("tokenizer.ggml.add_bos_token", 7, b"\x01"),
            key("tokenizer.ggml.bos_token_id", 4, struct.pack("<I", 1)),
            key("tokenizer.ggml.eos_token_id", 4, struct.pack("<I", 2))]
    block = "blk.0."
    shapes = {"token_embd.weight": (len(tokens), width), "output_norm.weight": (width,), block + "attn_norm.weight": (width,),
              block + "attn_q.weight": (width, width), block + "attn_k.weight": (width, width),
              block + "attn_v.weight": (width, width), block + "attn_output.weight": (width, width),
              block + "ffn_norm.weight": (width,), block + "ffn_gate.weight": (hidden, width),
              block + "ffn_up.weight": (hidden, width), block + "ffn_down.weight": (width, hidden)}
    if stray:
        shapes["evil" + EVIL] = (width,)
    described, data = b"", b""
    for name, shape in shapes.items():
        count = shape[0] * (shape[1] if len(shape) > 1 else 1)
        described += text(name) + struct.pack("<I", len(shape))
        described += b"".join(struct.pack("<Q", d) for d in reversed(shape)) + struct.pack("<IQ", 0, len(data))
        values = [1.0] * count
        if name == "token_embd.weight":  # the largest logit is that of the last token
            values = [float(i // width) for i in range(count)]
        data += struct.pack(f"<{count}f", *values)
        data += b"\0" * (-len(data) % 32)
    file = b"GGUF" + struct.pack("<IQQ", 3, len(shapes), len(keys)) + b"".join(keys) + described
    with open(path, "wb") as out:
        out.write(file + b"\0" * (-len(file) % 32) + data)


def plain(paths):
    for path in paths:
        with open(path, "rb") as file:
            data = file.read().replace(b"\r\n", b"\n")  # a terminal's own ends of lines
        shown = data.decode("utf-8")  # raises where it is none
        for character in shown:
            if character not in "\n\t" and unicodedata.category(character) in ("Cc", "Cf", "Zl", "Zp"):
                sys.exit(f"{path}: holds {character!r}")


def terminal(command):
    sys.exit(os.waitstatus_to_exitcode(pty.spawn(["sh", "-c", 'exec "$@" 2>/dev/null', "sh", *command])))


if __name__ == "__main__":
    {"make": lambda: make(sys.argv[2], len(sys.argv) > 3), "plain": lambda: plain(sys.argv[2:]),
     "terminal": lambda: terminal(sys.argv[2:])}[sys.argv[1]]()
