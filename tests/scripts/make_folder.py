"""A tiny Llama in the layout of Hugging Face, with random weights and a byte-level BPE: make_folder.py FOLDER [WIDTH
[NUMBER]]; the number is the first of lm_head. make_folder.py FOLDER mixtral|qwen3_moe: one with experts."""
import json
import os
import random
import struct
import sys


def experts_of(kind, width):
    """What a model with four experts has in its config beyond a Llama's, and the shapes in a layer; two of them at once."""
    hidden = 32
    if kind == "mixtral":
        config, block, names = {"num_local_experts": 4}, "block_sparse_moe", ("w1", "w3", "w2")
    else:
        config, block, names = {"num_experts": 4, "moe_intermediate_size": hidden}, "mlp", ("gate_proj", "up_proj", "down_proj")
        config |= {"decoder_sparse_step": 1, "norm_topk_prob": True, "head_dim": width // 4}
    shapes = [(f"{block}.gate", (4, width))]
    shapes += [(f"{block}.experts.{e}.{name}", (width, hidden) if name == names[2] else (hidden, width))
               for e in range(4) for name in names]
    if kind == "qwen3_moe":
        shapes += [("self_attn.q_norm", (width // 4,)), ("self_attn.k_norm", (width // 4,))]
    architecture = "MixtralForCausalLM" if kind == "mixtral" else "Qwen3MoeForCausalLM"
    return {"model_type": kind, "architectures": [architecture], "intermediate_size": hidden, "num_experts_per_tok": 2,
            **config}, shapes


def write_model(folder, size, ids, width=32, number=None, kind="llama"):
    """config.json and model.safetensors, for a vocabulary of that size; ids: of BOS and EOS."""
    os.makedirs(folder, exist_ok=True)
    random.seed(7)
    heads, kv_heads, ffn, layers = 4, 2, 64, 2
    config = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": width,
              "intermediate_size": ffn, "num_hidden_layers": layers, "num_attention_heads": heads,
              "num_key_value_heads": kv_heads, "vocab_size": size, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
              "max_position_embeddings": 64, "hidden_act": "silu", "tie_word_embeddings": False,
              "bos_token_id": ids[0], "eos_token_id": ids[1]}
    block = [("mlp.gate_proj", (ffn, width)), ("mlp.up_proj", (ffn, width)), ("mlp.down_proj", (width, ffn))]
    if kind != "llama":
        more, block = experts_of(kind, width)
        config |= more
    with open(f"{folder}/config.json", "w", encoding="utf-8") as file:
        json.dump(config, file)
    shapes = {"model.embed_tokens.weight": (size, width), "lm_head.weight": (size, width), "model.norm.weight": (width,)}
    for i in range(layers):
        key = width * kv_heads // heads
        for name, shape in (("input_layernorm", (width,)), ("post_attention_layernorm", (width,)),
                            ("self_attn.q_proj", (width, width)), ("self_attn.k_proj", (key, width)),
                            ("self_attn.v_proj", (key, width)), ("self_attn.o_proj", (width, width)), *block):
            shapes[f"model.layers.{i}.{name}.weight"] = shape
    header, data = {}, b""
    for name, shape in shapes.items():
        count = shape[0] * (shape[1] if len(shape) > 1 else 1)
        # BF16: the upper halves of floats
        values = [1.0 if len(shape) == 1 else random.uniform(-0.4, 0.4) for _ in range(count)]
        if name == "lm_head.weight" and number is not None:
            values[0] = number
        part = b"".join(struct.pack("<f", value)[2:] for value in values)
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [len(data), len(data) + len(part)]}
        data += part
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(f"{folder}/model.safetensors", "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


def main(folder, width=32, number=None, kind="llama"):
    os.makedirs(folder, exist_ok=True)
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    spelled = {byte: chr(byte) for byte in printable} | {byte: chr(256 + i) for i, byte in enumerate(others)}
    vocab = {spelled[byte]: byte for byte in range(256)}
    merges = []
    for pair in ("h e", "l l", "he ll", "hell o", "\u0120 w", "i n", "1 2", "o r", "' s", "\u0120 \u0120"):
        merges.append(pair)
        vocab[pair.replace(" ", "")] = len(vocab)
    added = [{"id": len(vocab) + i, "content": text, "special": special, "normalized": False, "lstrip": False,
              "rstrip": False, "single_word": False}
             for i, (text, special) in enumerate((("<|begin|>", True), ("<|end|>", True), ("[user]", False)))]
    pattern = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
               r"|\s+(?!\S)|\s+")
    tokenizer = {
        "version": "1.0", "added_tokens": added, "normalizer": None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
            {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False},
            {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}]},
        "post_processor": {"type": "TemplateProcessing",
                           "single": [{"SpecialToken": {"id": "<|begin|>", "type_id": 0}},
                                      {"Sequence": {"id": "A", "type_id": 0}}], "pair": [],
                           "special_tokens": {"<|begin|>": {"id": "<|begin|>", "ids": [added[0]["id"]],
                                                            "tokens": ["<|begin|>"]}}},
        "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
        "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                  "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": True,
                  "vocab": vocab, "merges": merges}}
    with open(f"{folder}/tokenizer.json", "w", encoding="utf-8") as file:
        json.dump(tokenizer, file, ensure_ascii=False)
    template = "{{ bos_token }}{% for m in messages %}[user]{{ m.content }}{% endfor %}"
    with open(f"{folder}/tokenizer_config.json", "w", encoding="utf-8") as file:
        json.dump({"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<|begin|>", "eos_token": "<|end|>",
                   "chat_template": template}, file)
    # rows without a token, as models have them that are padded
    write_model(folder, len(vocab) + len(added) + 5, (added[0]["id"], added[1]["id"]), width, number, kind)


if __name__ == "__main__":
    if sys.argv[2:3] and not sys.argv[2].isdigit():
        main(sys.argv[1], kind=sys.argv[2])
    else:
        main(sys.argv[1], *map(int, sys.argv[2:3]), *map(float, sys.argv[3:4]))
