#!/usr/bin/env python3
"""Writes tests/parity/llama-q4_1.gguf: a tiny Llama with random weights, a byte-level BPE and a chat template, in Q4_1,
by transformers and `portico convert`. With FOLDER, also leaves the folder that it was made from there.

    python3 tests/parity/make_llama.py build/portico [FOLDER]

Needs torch, transformers and tokenizers.
"""

import pathlib
import subprocess
import sys
import tempfile

import tokenizers
import torch
import transformers

ROOT = pathlib.Path(__file__).resolve().parents[2]
TEMPLATE = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


def main():
    portico, folder = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else tempfile.mkdtemp()
    torch.manual_seed(1)
    words = tokenizers.Tokenizer(tokenizers.models.BPE())
    words.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    words.decoder = tokenizers.decoders.ByteLevel()
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    words.train_from_iterator(
        (ROOT / "LICENSE").read_text().splitlines(),
        tokenizers.trainers.BpeTrainer(
            vocab_size=320,
            special_tokens=special,
            initial_alphabet=sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet()),
            show_progress=False,
        ),
    )
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=words, eos_token="<|im_end|>", bos_token="<|im_start|>", chat_template=TEMPLATE
    )
    config = transformers.LlamaConfig(
        vocab_size=320,
        hidden_size=64,
        intermediate_size=96,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=64,
        tie_word_embeddings=True,
        bos_token_id=1,
        eos_token_id=2,
        initializer_range=0.1,
    )
    model = transformers.LlamaForCausalLM(config)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    out = ROOT / "tests" / "parity" / "llama-q4_1.gguf"
    subprocess.run([portico, "convert", folder, out, "--type", "q4_1", "--output-type", "q4_1"], check=True)


if __name__ == "__main__":
    main()
