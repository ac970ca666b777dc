#!/usr/bin/env python3
"""Train the date model and write config.json, model.safetensors and test.tsv beside this file."""

import argparse
import json
import pathlib
import sys
import time

import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file

import generate

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "tests" / "golden"))
from transformer import Transformer  # noqa: E402

SPECIAL = ["<pad>", "<s>", "</s>"]
PAD, BOS, EOS = range(3)
ANSWER = 10  # characters of an ISO date


def make_config():
    vocab = SPECIAL + generate.alphabet()
    return {
        "model_type": "transformer",
        "vocab_size": len(vocab),
        "d_model": 96,
        "encoder_layers": 2,
        "decoder_layers": 2,
        "encoder_attention_heads": 4,
        "decoder_attention_heads": 4,
        "encoder_ffn_dim": 192,
        "decoder_ffn_dim": 192,
        "activation_function": "gelu",
        "normalize_before": True,
        "norm_type": "layer_norm",
        "norm_form": "var_eps",
        "norm_eps": 1e-5,
        "final_norm": True,
        "attention_bias": True,
        "ffn_bias": True,
        "fused_qkv": False,
        "position_embedding": "sinusoidal",
        "sinusoidal_layout": "interleaved",
        "position_offset": 0,
        "scale_embedding": True,
        "tie_word_embeddings": True,
        "share_embeddings": True,
        "pad_token_id": PAD,
        "bos_token_id": BOS,
        "eos_token_id": EOS,
        "decoder_start_token_id": BOS,
        "max_position_embeddings": 64,
        "add_eos_to_source": True,
        "vocab": vocab,
    }


def encode(texts, index):
    """Written dates to padded ids [batch, longest], ending in </s>."""
    rows = [[index[c] for c in text] + [EOS] for text in texts]
    width = max(map(len, rows))
    return torch.tensor([row + [PAD] * (width - len(row)) for row in rows])


def batches(split, seed, size, index):
    """Endless (src, tgt) batches; pools are sorted by length so that little is padded."""
    stream = generate.pairs(split, seed)
    order = torch.Generator().manual_seed(seed)
    while True:
        pool = sorted((next(stream) for _ in range(size * 16)), key=lambda pair: len(pair[0]))
        for i in torch.randperm(16, generator=order).tolist():
            written, iso = zip(*pool[i * size : (i + 1) * size])
            tgt = torch.tensor([[BOS] + [index[c] for c in text] + [EOS] for text in iso])
            yield encode(written, index), tgt


def accuracy(model, rows, vocab, index):
    """Share of exact matches of the greedy answer, and the rows that were wrong."""
    wrong = []
    for i in range(0, len(rows), 250):
        part = rows[i : i + 250]
        answers = model.greedy(encode([written for written, _ in part], index), ANSWER + 2)
        for (written, iso), ids in zip(part, answers):
            answer = "".join(vocab[t] for t in ids)
            if answer != iso:
                wrong.append((written, iso, answer))
    return 1 - len(wrong) / len(rows), wrong


def train(model, index, steps, size, peak):
    optimiser = torch.optim.AdamW(model.parameters(), lr=peak, betas=(0.9, 0.98), weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimiser, max_lr=peak, total_steps=steps, pct_start=0.1, cycle_momentum=False
    )
    stream, start = batches("train", 1, size, index), time.time()
    for step in range(steps):
        src, tgt = next(stream)
        loss = F.cross_entropy(model(src, tgt[:, :-1]).flatten(0, 1), tgt[:, 1:].flatten())
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        schedule.step()
        if step % 100 == 0 or step == steps - 1:
            print(f"step {step} loss {loss.item():.5f} {time.time() - start:.0f} s", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=4000)
    parser.add_argument("--batch", type=int, default=96)
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--out", type=pathlib.Path, default=HERE)
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(5)
    config = make_config()
    vocab = config["vocab"]
    index = {token: i for i, token in enumerate(vocab)}
    model = Transformer(config)
    torch.nn.init.normal_(model.shared.weight, std=config["d_model"] ** -0.5)
    print(f"{sum(p.numel() for p in model.parameters()):,} parameters", flush=True)
    train(model, index, args.steps, args.batch, args.lr)

    stream = generate.pairs("test", 7)
    rows = [next(stream) for _ in range(1000)]
    (args.out / "test.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in rows))
    (args.out / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    save_file(model.state_dict(), args.out / "model.safetensors")
    exported = Transformer(config)
    exported.load_state_dict(load_file(args.out / "model.safetensors"))
    score, wrong = accuracy(exported, rows, vocab, index)
    print(f"test.tsv, exported float32 weights, greedy: {score:.2%} exact")
    for line in wrong:
        print("wrong:", *line, sep="\t")
    stream = generate.pairs("test", 8)
    score, wrong = accuracy(exported, [next(stream) for _ in range(5000)], vocab, index)
    print(f"5,000 further test pairs: {score:.2%} exact")
    for line in wrong[:20]:
        print("wrong:", *line, sep="\t")


if __name__ == "__main__":
    main()
