#!/usr/bin/env python3
"""Portico and PyTorch on the same training, in turns: processor time of a step, and tokens per second.

    python3 tests/parity/speed.py configs/shakespeare.json --portico build/portico --data FILE --rounds 5

Each is run with a few steps and with more; the difference divided by the steps in between is one step, without
start-up, first batches and what comes at the end. Processor time is user and system time of the whole process, all threads. The
median over the rounds is printed, and the smallest and largest. PyTorch's threads wait without spinning
(OMP_WAIT_POLICY=passive): on a machine with other work, spinning costs processor time that is no work.
"""

import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent


def spent(command, environment):
    """Processor seconds and seconds of one process."""
    before, begin = os.times(), time.monotonic()
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    after, end = os.times(), time.monotonic()
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}: exit status {done.returncode}\n{done.stdout}")
    processor = after.children_user - before.children_user + after.children_system - before.children_system
    return processor, end - begin


def portico(args, steps, folder):
    shutil.rmtree(folder, ignore_errors=True)
    command = [args.portico, "train", args.config, "--steps", str(steps), "--out", folder, "--device", args.device]
    return command + (["--data", args.data] if args.data else [])


def torch(args, steps, start):
    command = [args.python, HERE / "train_torch.py", args.config, start, "--steps", str(steps),
               "--threads", str(args.threads)]
    return command + (["--data", args.data] if args.data else [])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("config", type=pathlib.Path)
    parser.add_argument("--portico", default="portico")
    parser.add_argument("--python", default="/usr/bin/python3", help="one that has torch")
    parser.add_argument("--data", help="another file than the config's")
    parser.add_argument("--device", default="cpu:native")
    parser.add_argument("--threads", type=int, default=2, help="of PyTorch; Portico takes all cores")
    parser.add_argument("--few", type=int, default=3)
    parser.add_argument("--more", type=int, default=23)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tokens", type=int, default=0, help="of a step; 0: batch_size * context_length of the config")
    args = parser.parse_args()
    if not 0 < args.few < args.more:
        parser.error("--few must be above 0 and below --more")
    config = json.loads(args.config.read_text())
    tokens = args.tokens or config["batch_size"] * config["data"]["context_length"]
    environment = dict(os.environ, OMP_WAIT_POLICY="passive")
    results = {"Portico": [], "PyTorch": []}
    with tempfile.TemporaryDirectory() as folder:
        start, run = f"{folder}/start", f"{folder}/run"
        spent(portico(args, 0, start), environment)
        for _ in range(args.rounds):
            for name in results:
                few, more = (spent(portico(args, n, run) if name == "Portico" else torch(args, n, start), environment)
                             for n in (args.few, args.more))
                results[name].append([(b - a) / (args.more - args.few) for a, b in zip(few, more)])
    medians = {}
    for name, rounds in results.items():
        processor = sorted(1e3 * one[0] for one in rounds)
        clock = statistics.median(one[1] for one in rounds)
        medians[name] = statistics.median(processor)
        print(f"{name}: {medians[name]:.1f} ms of processor time a step ({processor[0]:.1f} to {processor[-1]:.1f}), "
              f"{tokens / clock:.0f} tokens/s")
    print(f"PyTorch's processor time is {medians['PyTorch'] / medians['Portico']:.2f} times Portico's")
    return 0


if __name__ == "__main__":
    sys.exit(main())
