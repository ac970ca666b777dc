#!/usr/bin/env python3
"""Trains the model of a config (text of characters, or dates) with PyTorch, as `portico train` does: the same initial
weights, data and their order, schedule, optimiser and clipping; and compares the losses with Portico's log.

    portico train configs/shakespeare.json --steps 0 --out runs/start        # the initial weights
    portico train configs/shakespeare.json --steps 200 --out runs/portico --log runs/portico.csv
    python3 tests/parity/train_torch.py configs/shakespeare.json runs/start --steps 200 \\
        --portico runs/portico.csv --log runs/torch.csv

Needs torch alone. Flags: float32, no autocast, no TF32, dropout 0, torch.optim.AdamW with two groups (matrices decay,
the rest does not), torch.nn.utils.clip_grad_norm_. Shuffling is Fisher and Yates with Philox 4x32-10, written here
anew. Exits 1 when a loss differs by more than --bound times itself.
"""

import argparse
import json
import math
import pathlib
import struct
import sys
import time

import torch
import torch.nn.functional as F

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "golden"), str(ROOT / "models" / "dates")]
import generate  # noqa: E402
from transformer import Layer, Norm, Transformer, causal, complete, sinusoidal_table  # noqa: E402

SHUFFLE, BATCHES, WINDOW, DATES = 0x54520001, 0x54520002, 0x54520003, 0x54520004
POOL = 16  # batches of dates that are made and sorted at once
MASK = 0xFFFFFFFF


def philox(seed, purpose, epoch, index):
    """Four words: counter (index, epoch, purpose) under the key `seed`."""
    c = [index & MASK, index >> 32, epoch, purpose]
    k0, k1 = seed & MASK, seed >> 32
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(b >> 32) ^ c[1] ^ k0, b & MASK, (a >> 32) ^ c[3] ^ k1, a & MASK]
        k0, k1 = (k0 + 0x9E3779B9) & MASK, (k1 + 0xBB67AE85) & MASK
    return c


def shuffled(count, seed, purpose, epoch):
    order = list(range(count))
    for i in range(count, 1, -1):
        words = philox(seed, purpose, epoch, i)
        k = ((words[0] << 32 | words[1]) * i) >> 64
        order[i - 1], order[k] = order[k], order[i - 1]
    return order


def read_safetensors(path):
    """Tensors of type F32 by name."""
    data = pathlib.Path(path).read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8 : 8 + size])
    header.pop("__metadata__", None)
    tensors = {}
    for name, info in header.items():
        begin, end = (8 + size + offset for offset in info["data_offsets"])
        tensors[name] = torch.frombuffer(bytearray(data[begin:end]), dtype=torch.float32).reshape(info["shape"])
    return tensors


class Decoder(torch.nn.Module):
    """The decoder alone: the golden reference's encoder layers, with the decoder's names and a causal mask."""

    def __init__(self, config):
        super().__init__()
        self.cfg = cfg = complete({**config, "encoder_attention_heads": config["decoder_attention_heads"],
                                   "encoder_ffn_dim": config["decoder_ffn_dim"]})
        self.shared = torch.nn.Embedding(cfg["vocab_size"], cfg["d_model"])
        self.decoder = torch.nn.Module()
        self.decoder.layers = torch.nn.ModuleList(Layer(cfg, "encoder") for _ in range(cfg["decoder_layers"]))
        if cfg["final_norm"]:
            self.decoder.layer_norm = Norm(cfg, "final_")
        if not cfg["tie_word_embeddings"]:
            self.lm_head = torch.nn.Linear(cfg["d_model"], cfg["vocab_size"], bias=False)

    def forward(self, source, ids):
        x = self.shared(ids)
        if self.cfg["scale_embedding"]:
            x = x * math.sqrt(self.cfg["d_model"])
        if self.cfg["position_embedding"] == "sinusoidal":
            table = sinusoidal_table(ids.shape[1], self.cfg["d_model"], self.cfg["sinusoidal_layout"],
                                     self.cfg["position_offset"])
            x = x + table.to(x.dtype)
        for layer in self.decoder.layers:
            x = layer(x, causal(ids.shape[1]))
        if self.cfg["final_norm"]:
            x = self.decoder.layer_norm(x)
        return F.linear(x, self.shared.weight if self.cfg["tie_word_embeddings"] else self.lm_head.weight)


def rate(schedule, steps, t):
    top, least, warmup = schedule["learning_rate"], schedule.get("min_learning_rate", 0), schedule.get("warmup_steps", 0)
    if t < warmup:
        return top * t / warmup
    if t >= steps:
        return least
    return least + 0.5 * (top - least) * (1 + math.cos(math.pi * (t - warmup) / (steps - warmup)))


def windows(text, config, vocab):
    """Batches of ids and of the ids that follow, in the order of Portico."""
    data, seed, rows = config["data"], config.get("seed", 0), config["batch_size"]
    context = data["context_length"]
    cut = int(len(text) * (1 - data.get("held_out", 0.1)))
    index = {token: i for i, token in enumerate(vocab)}
    ids = torch.tensor([index[c] for c in text[:cut].decode("ascii")])
    count = (len(ids) - context) // context
    batches, epoch = count // rows, 0
    while True:
        begin = philox(seed, WINDOW, epoch, 0)[0] * context >> 32
        order = shuffled(count, seed, SHUFFLE, epoch)
        for batch in shuffled(batches, seed, BATCHES, epoch):
            at = [begin + w * context for w in order[batch * rows : (batch + 1) * rows]]
            yield (None, torch.stack([ids[a : a + context] for a in at]),
                   torch.stack([ids[a + 1 : a + 1 + context] for a in at]))
        epoch += 1


def written_date(days, seed, index):
    """Pair number `index`: what is written, and the ISO form."""
    words = philox(seed, DATES, 0, index)
    day = days[words[0] * len(days) >> 32]
    text = generate.FORMS[words[1] * len(generate.FORMS) >> 32].format(**generate.fields(day))
    letters = words[2] * 100 >> 32
    return text.lower() if letters < 25 else text.upper() if letters < 35 else text, day.isoformat()


def date_batches(config, exported):
    """Batches of sources, targets and labels, padded to Portico's buckets."""
    seed, rows, buckets = config.get("seed", 0), config["batch_size"], config["data"]["source_buckets"]
    index = {token: i for i, token in enumerate(exported["vocab"])}
    pad, start, end = (exported[k] for k in ("pad_token_id", "decoder_start_token_id", "eos_token_id"))
    days, epoch, count = generate.days_of("train"), 0, POOL * rows
    while True:
        pairs = [written_date(days, seed, epoch * count + i) for i in range(count)]
        sources = [[index[c] for c in text] + [end] for text, _ in pairs]
        bucket = [next(b for b in buckets if b >= len(source)) for source in sources]
        order = sorted(shuffled(count, seed, SHUFFLE, epoch), key=lambda i: bucket[i])
        for batch in shuffled(POOL, seed, BATCHES, epoch):
            at = order[batch * rows : (batch + 1) * rows]
            width = max(bucket[i] for i in at)
            target = [[index[c] for c in pairs[i][1]] for i in at]
            yield (torch.tensor([sources[i] + [pad] * (width - len(sources[i])) for i in at]),
                   torch.tensor([[start] + row for row in target]), torch.tensor([row + [end] for row in target]))
        epoch += 1


def train(config, model, stream, steps, log):
    """The losses of the first steps, and tokens per second."""
    o = config["optimizer"]
    decay = o["weight_decay"]
    groups = [{"params": [p for p in model.parameters() if p.dim() >= 2], "weight_decay": decay},
              {"params": [p for p in model.parameters() if p.dim() < 2],
               "weight_decay": decay if o.get("weight_decay_on") == "all" else 0.0}]
    optimiser = torch.optim.AdamW(groups, lr=1.0, betas=(o["beta1"], o["beta2"]), eps=o.get("eps", 1e-8))
    losses, start = [], time.time()
    for t in range(1, steps + 1):
        source, ids, labels = next(stream)
        for group in optimiser.param_groups:
            group["lr"] = rate(config["schedule"], config["steps"], t)
        loss = F.cross_entropy(model(source, ids).flatten(0, 1), labels.flatten())
        optimiser.zero_grad()
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), config["max_grad_norm"])
        optimiser.step()
        losses.append(loss.item())
        if log:
            log.write(f"{t},{losses[-1]:.9g},{group['lr']:.9g},{norm:.9g},{ids.numel()},{time.time() - start:.3f},\n")
            log.flush()
    return losses, steps * ids.numel() / (time.time() - start)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("config", type=pathlib.Path)
    parser.add_argument("start", type=pathlib.Path, help="a run of 0 steps: its config.json and weights")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--data", type=pathlib.Path, help="another file than the config's")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--portico", type=pathlib.Path, help="Portico's log, CSV, to compare with")
    parser.add_argument("--bound", type=float, default=1e-3)
    parser.add_argument("--log", type=pathlib.Path)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.backends.cuda.matmul.allow_tf32 = False
    config = json.loads(args.config.read_text())
    exported = json.loads((args.start / "config.json").read_text())
    dates = config["data"]["kind"] == "dates"
    model = Transformer(exported) if dates else Decoder(exported)
    model.load_state_dict(read_safetensors(args.start / "model.safetensors"))
    if dates:
        stream = date_batches(config, exported)
    else:
        text = (args.data or args.config.parent / config["data"]["file"]).read_bytes()
        stream = windows(text, config, exported["vocab"])
    log = args.log.open("w") if args.log else None
    if log:
        log.write("step,loss,learning_rate,grad_norm,tokens,seconds,validation_loss\n")
    losses, speed = train(config, model, stream, args.steps, log)
    print(f"PyTorch {torch.__version__}: loss {losses[0]:.6f} at first, {losses[-1]:.6f} at step {args.steps}; "
          f"{speed:.0f} tokens/s with {args.threads} threads")
    if not args.portico:
        return 0
    rows = [line.split(",") for line in args.portico.read_text().splitlines()[1:]]
    portico = {int(row[0]): float(row[1]) for row in rows}
    worst = max((abs(portico[t + 1] - loss) / loss, t + 1) for t, loss in enumerate(losses) if t + 1 in portico)
    good = worst[0] <= args.bound and len(portico) >= args.steps
    print(f"largest difference of a loss: {worst[0]:.3g} of it, at step {worst[1]}; bound {args.bound:g}: "
          f"{'within' if good else 'OUTSIDE'}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
