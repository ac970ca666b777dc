#!/usr/bin/env python3
"""Trains the model that a config begins with in PyTorch, as `portico train` does: all weights, or PEFT's adapters over
weights that are dequantised; with the same data in the same order, schedule, optimiser and clipping. Compares the losses
with Portico's log.

    portico train CONFIG --steps 0 --out runs/start                       # the adapters at the start
    portico train CONFIG --out runs/portico --log runs/portico.csv
    python3 tests/parity/train_peft.py CONFIG runs/start --steps 50 --portico runs/portico.csv

START is not looked at where all weights are trained. Needs torch, transformers, gguf and, for adapters, peft: an
independent implementation that reads of Portico only the adapters at the start, through PEFT. Exits 1 when a loss differs
by more than --bound times itself.
"""

import argparse
import csv
import itertools
import json
import pathlib
import sys

import torch
import torch.nn.functional as F
import transformers

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "golden"), str(ROOT / "models" / "dates")]
import batches  # noqa: E402
from train_torch import rate, read_log, worst  # noqa: E402


class Windows(batches.Text):
    """Windows of a text, as ids of the model's tokenizer."""

    def __init__(self, config, tokenizer, path):
        data, text = config["data"], path.read_bytes()
        self.seed, self.rows, self.context = config.get("seed", 0), config["batch_size"], data.get("context_length", 64)
        cut = int(len(text) * (1 - data.get("held_out", 0.1)))
        self.parts = [torch.tensor(tokenizer(part.decode(), add_special_tokens=False)["input_ids"])
                      for part in (text[:cut], text[cut:])]


class Chats(batches.Pairs):
    """Conversations; what the assistant says has labels."""

    def __init__(self, config, tokenizer, path):
        data = config["data"]
        self.seed, self.rows, self.exported = config.get("seed", 0), config["batch_size"], None
        self.buckets = data["target_buckets"], [1]
        threshold, self.parts = int(data.get("held_out", 0.1) * 2**32), ([], [])
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines()):
            messages = json.loads(line)["messages"]
            ids, labels = [], []
            for i, message in enumerate(messages):
                if message["role"] == "assistant":
                    asked, told = (tokenizer.apply_chat_template(messages[: i + k], tokenize=False,
                                                                 add_generation_prompt=not k) for k in (0, 1))
                    whole, before = (tokenizer(t, add_special_tokens=False)["input_ids"] for t in (told, asked))
                    labels += [batches.IGNORE] * (len(before) - len(ids)) + whole[len(before):]
                    ids = whole
            if len(ids) - 1 <= data.get("context_length", 64):
                self.parts[batches.philox(0, batches.SPLIT, 0, number)[0] < threshold].append((ids, labels))

    def train(self):
        chats, epoch = self.parts[0], 0
        while True:
            def width(i):
                return batches.bucket_of(self.buckets[0], len(chats[i][0]) - 1)
            order = sorted(batches.shuffled(len(chats), self.seed, batches.SHUFFLE, epoch), key=width)
            cuts = [order[first : first + self.rows] for first in range(0, len(order), self.rows)]
            for k in batches.shuffled(len(cuts), self.seed, batches.BATCHES, epoch):
                size = self.buckets[0][max(width(i) for i in cuts[k])]
                rows = [(chats[i][0][:-1], chats[i][1][1:]) for i in cuts[k]]
                yield (None, torch.tensor([ids + [0] * (size - len(ids)) for ids, _ in rows]),
                       torch.tensor([labels + [batches.IGNORE] * (size - len(labels)) for _, labels in rows]))
            epoch += 1


def train(config, model, data, steps):
    o = config.get("optimizer", {})
    decay = o.get("weight_decay", 0.01)
    named = [p for p in model.parameters() if p.requires_grad]
    groups = [{"params": [p for p in named if p.dim() >= 2], "weight_decay": decay},
              {"params": [p for p in named if p.dim() < 2],
               "weight_decay": decay if o.get("weight_decay_on") == "all" else 0.0}]
    optimiser = torch.optim.AdamW(groups, lr=1.0, betas=(o.get("beta1", 0.9), o.get("beta2", 0.999)),
                                  eps=o.get("eps", 1e-8))
    schedule = {"type": "constant", "learning_rate": 1e-3, **config.get("schedule", {})}
    losses = {}
    for t, (_, ids, labels) in zip(range(1, steps + 1), data.train()):
        for group in optimiser.param_groups:
            group["lr"] = schedule["learning_rate"] if schedule["type"] == "constant" and not schedule.get(
                "warmup_steps") else rate(schedule, config["steps"], 1, t)
        loss = F.cross_entropy(model(input_ids=ids).logits.flatten(0, 1), labels.flatten())
        optimiser.zero_grad()
        loss.backward()
        if config.get("max_grad_norm"):
            torch.nn.utils.clip_grad_norm_(named, config["max_grad_norm"])
        optimiser.step()
        losses[t] = loss.item()
    return losses


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("config", type=pathlib.Path)
    parser.add_argument("start", type=pathlib.Path, nargs="?", help="an adapter: that of a run of 0 steps")
    parser.add_argument("--from", dest="model", type=pathlib.Path, help="another GGUF file or folder than the config's")
    parser.add_argument("--data", type=pathlib.Path, help="another file than the config's")
    parser.add_argument("--tokenizer", help="a folder of transformers; else that of the GGUF file, as transformers reads it")
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--portico", type=pathlib.Path, help="Portico's log, CSV, to compare with")
    parser.add_argument("--bound", type=float, default=1e-3)
    parser.add_argument("--float64", action="store_true")
    parser.add_argument("--log", type=pathlib.Path)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    config = json.loads(args.config.read_text())
    path = args.model or args.config.parent / config["from"]
    folder, file = (path, {}) if path.is_dir() else (path.parent, {"gguf_file": path.name})
    tokenizer = transformers.AutoTokenizer.from_pretrained(args.tokenizer or folder, **({} if args.tokenizer else file))
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, **file)
    if "lora" in config:
        import peft
        model = peft.PeftModel.from_pretrained(model, args.start, is_trainable=True)
    if args.float64:
        model.double()
    model.train()
    data = (Chats if config["data"]["kind"] == "chat" else Windows)(
        config, tokenizer, args.data or args.config.parent / config["data"]["file"])
    losses = train(config, model, data, args.steps)
    print(f"PyTorch {torch.__version__}: loss {losses[1]:.6f} at first, {losses[args.steps]:.6f} at step {args.steps}")
    if args.log:
        args.log.write_text("step,loss\n" + "".join(f"{t},{loss:.9g}\n" for t, loss in losses.items()))
    if args.portico:
        most, step = worst(losses, read_log(args.portico, "loss"))
        print(f"largest difference of a loss: {most:.3g} of it, at step {step}; bound {args.bound:g}: "
              f"{'within' if most <= args.bound else 'OUTSIDE'}")
        return 0 if most <= args.bound else 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
