#!/usr/bin/env python3
"""Trains the model of a config with PyTorch, as `portico train` does: the same initial weights, data and their order,
schedule, optimiser and clipping; and compares the losses, and those of the held-out data, with Portico's log.

    portico train configs/shakespeare.json --steps 0 --out runs/start        # the initial weights
    portico train configs/shakespeare.json --steps 200 --out runs/portico --log runs/portico.csv
    python3 tests/parity/train_torch.py configs/shakespeare.json runs/start --steps 200 \\
        --portico runs/portico.csv --log runs/torch.csv

Needs torch alone. Flags: float32, no autocast, no TF32, dropout 0, torch.optim.AdamW with two groups (matrices decay,
the rest does not), torch.nn.utils.clip_grad_norm_. Exits 1 when a loss differs by more than --bound times itself, or a
loss of the held-out data by more than --validation-bound.
"""

import argparse
import csv
import itertools
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
import batches  # noqa: E402
from transformer import Layer, Norm, Transformer, causal, complete, sinusoidal_table  # noqa: E402


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


def rate(schedule, steps, d_model, t):
    top, least = schedule["learning_rate"], schedule.get("min_learning_rate", 0)
    warmup = schedule.get("warmup_steps", 0)
    if schedule["type"] == "inverse_sqrt":  # Vaswani et al. 2017, 5.3
        return top * d_model**-0.5 * min(t**-0.5, t * warmup**-1.5)
    if t < warmup:
        return top * t / warmup
    if t >= steps:
        return least
    return least + 0.5 * (top - least) * (1 + math.cos(math.pi * (t - warmup) / (steps - warmup)))


@torch.no_grad()
def validation(config, model, data):
    """The mean loss over the labels of the held-out data, or of its first batches."""
    total = tokens = 0
    for source, ids, labels in itertools.islice(data.held_out(), config.get("evaluation_batches") or None):
        total += F.cross_entropy(model(source, ids).flatten(0, 1), labels.flatten(), reduction="sum").item()
        tokens += (labels != batches.IGNORE).sum().item()
    return total / tokens if tokens else None


def train(config, model, data, steps, log):
    """The losses of the steps and of the held-out data, by step, and tokens per second."""
    o = config["optimizer"]
    decay = o["weight_decay"]
    groups = [{"params": [p for p in model.parameters() if p.dim() >= 2], "weight_decay": decay},
              {"params": [p for p in model.parameters() if p.dim() < 2],
               "weight_decay": decay if o.get("weight_decay_on") == "all" else 0.0}]
    optimiser = torch.optim.AdamW(groups, lr=1.0, betas=(o["beta1"], o["beta2"]), eps=o.get("eps", 1e-8))
    losses, held_out, spent, tokens, every = {}, {}, 0, 0, config.get("evaluation_interval", 0)
    for t, (source, ids, labels) in zip(range(1, steps + 1), data.train()):
        start = time.time()
        for group in optimiser.param_groups:
            group["lr"] = rate(config["schedule"], config["steps"], config["model"]["d_model"], t)
        loss = F.cross_entropy(model(source, ids).flatten(0, 1), labels.flatten())
        optimiser.zero_grad()
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), config["max_grad_norm"])
        optimiser.step()
        losses[t] = loss.item()
        spent += time.time() - start
        count = (labels != batches.IGNORE).sum().item()
        tokens += count
        if every and t % every == 0:
            held_out[t] = validation(config, model, data)
        if log:
            log.write(f"{t},{losses[t]:.9g},{group['lr']:.9g},{norm:.9g},{count},{spent:.3f},{held_out.get(t) or ''}\n")
            log.flush()
    return losses, held_out, tokens / spent


def worst(losses, portico):
    """The largest relative difference and its step; infinite where Portico has no such loss."""
    return max((abs(portico.get(t, math.inf) - loss) / loss, t) for t, loss in losses.items())


def read_log(path, column):
    with path.open(newline="") as file:
        return {int(row["step"]): float(row[column]) for row in csv.DictReader(file) if row[column]}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("config", type=pathlib.Path)
    parser.add_argument("start", type=pathlib.Path, help="a run of 0 steps: its config.json and weights")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--data", type=pathlib.Path, help="another file than the config's")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--portico", type=pathlib.Path, help="Portico's log, CSV, to compare with")
    parser.add_argument("--bound", type=float, default=1e-3)
    parser.add_argument("--validation-bound", type=float, default=1e-2,
                        help="1 %%: the curves are the same, though roundings have grown over thousands of steps")
    parser.add_argument("--float64", action="store_true", help="what roundings of float32 do is told by the difference")
    parser.add_argument("--log", type=pathlib.Path)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.backends.cuda.matmul.allow_tf32 = False
    config = json.loads(args.config.read_text())
    if config["model"].get("dropout"):
        parser.error(f"{args.config}: dropout is {config['model']['dropout']}, and its bits are Portico's; set it to 0")
    exported = json.loads((args.start / "config.json").read_text())
    model = Decoder(exported) if config["data"]["kind"] == "text" else Transformer(exported)
    model.load_state_dict(read_safetensors(args.start / "model.safetensors"))
    if args.float64:
        model.double()
    data = batches.open_data(config, exported, args.data or args.config.parent / config["data"].get("file", ""))
    log = args.log.open("w") if args.log else None
    if log:
        log.write("step,loss,learning_rate,grad_norm,tokens,seconds,validation_loss\n")
    losses, held_out, speed = train(config, model, data, args.steps, log)
    print(f"PyTorch {torch.__version__}: loss {losses[1]:.6f} at first, {losses[args.steps]:.6f} at step {args.steps}; "
          f"{speed:.0f} tokens/s with {args.threads} threads")
    compared = [("a loss", "loss", losses, args.bound)]
    compared += [("a loss of the held-out data", "validation_loss", held_out, args.validation_bound)]
    good = True
    for what, column, mine, bound in compared if args.portico else ():
        if any(mine.values()):
            most, step = worst(mine, read_log(args.portico, column))
            good = good and most <= bound
            print(f"largest difference of {what}: {most:.3g} of it, at step {step}; bound {bound:g}: "
                  f"{'within' if most <= bound else 'OUTSIDE'}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
