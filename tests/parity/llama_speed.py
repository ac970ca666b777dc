#!/usr/bin/env python3
"""Processor time of Portico and of llama.cpp on one device that is the processor, in turns: cpu:native, or lavapipe.

    tests/parity/llama_speed.py MODEL.gguf [--device DEVICE] [--portico PROGRAM] [--llama-bench PROGRAM]
                                [--rounds N] [--tokens N] [--prompt N]

Both programs run in processes of their own. On the processor itself each has one thread, for one that waits in a loop counts
as one that works; of Vulkan devices they take the one that the environment shows (VK_DRIVER_FILES). llama.cpp passes over
such devices unless GGML_VK_VISIBLE_DEVICES names them, so it is set here. A token generated is what a process that
generates N + 1 tokens takes more than one that generates one, divided by N; a token of the prompt is the same of prompts.
So neither start, nor loading, nor the compilation of kernels counts, for a round before the first, which is not counted, has
filled the caches. Prints the medians of rounds, their ratio, and between which ratios the rounds lie. PROGRAM may have
arguments: "chroot /srv/sid env LD_LIBRARY_PATH=/srv/lib /srv/bin/portico"; then MODEL is a path in there."""
import argparse
import os
import resource
import shlex
import statistics
import subprocess
import sys


def seconds(command, environment):
    """Of processor time, of all of its threads."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    made = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if made.returncode:
        sys.exit(f"llama_speed: {shlex.join(command)}: exit status {made.returncode}\n{made.stdout[-1000:]}")
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, made.stdout


def portico(arguments, prompt, tokens, environment):
    # Each of these words is a token of its own in byte-level vocabularies and in those of SentencePiece.
    return seconds([*shlex.split(arguments.portico), "run", arguments.model, "--prompt", " ".join(["the"] * prompt), "-n",
                    str(tokens), "--temperature", "0", "--json"], environment)


def on_vulkan(arguments):
    return arguments.device.startswith("vulkan")


def generated(output):
    return output.count('"id":')


def llama(arguments, prompt, tokens, environment):
    return seconds([*shlex.split(arguments.llama_bench), "-m", arguments.model, "-p", str(prompt), "-n", str(tokens), "-r", "1",
                    "--no-warmup", "-o", "json", *(["-ngl", "99"] if on_vulkan(arguments) else ["-ngl", "0", "-t", "1"])], environment)


def measure(arguments, environment):
    """{figure: seconds of a token} of each program, of one round."""
    n, p = arguments.tokens, arguments.prompt
    (one, _), (more, text) = (portico(arguments, 1, count, environment) for count in (1, n + 1))
    if generated(text) != n + 1:
        sys.exit(f"llama_speed: Portico ended after {generated(text)} tokens instead of {n + 1}; take fewer (--tokens)")
    ours = {"token": (more - one) / n}
    ours["prompt"] = (portico(arguments, p + 1, 1, environment)[0] - one) / p
    (one, text), (more, _) = (llama(arguments, 0, count, environment) for count in (1, n + 1))
    if on_vulkan(arguments) and ('"backends": "Vulkan' not in text or '"gpu_info": ""' in text):
        sys.exit("llama_speed: this llama-bench runs on no Vulkan device")
    theirs = {"token": (more - one) / n}
    (one, _), (more, _) = (llama(arguments, count, 0, environment) for count in (1, p + 1))
    theirs["prompt"] = (more - one) / p
    return ours, theirs


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model")
    parser.add_argument("--device", default="cpu:native", help="cpu:native (default), vulkan:lavapipe")
    parser.add_argument("--portico", default="build/portico")
    parser.add_argument("--llama-bench", default="llama-bench")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tokens", type=int, default=32)
    parser.add_argument("--prompt", type=int, default=128)
    arguments = parser.parse_args()
    environment = {**os.environ, "PORTICO_BACKEND": arguments.device, "PORTICO_FALLBACK": "error"}
    environment.update({"GGML_VK_VISIBLE_DEVICES": "0"} if on_vulkan(arguments) else {"PORTICO_THREADS": "1"})
    measure(arguments, environment)
    rounds = [measure(arguments, environment) for _ in range(arguments.rounds)]
    for figure, words in (("token", "a token generated"), ("prompt", "a token of the prompt")):
        ours, theirs = ([side[figure] for side in sides] for sides in zip(*rounds))
        ratios = [b / a for a, b in zip(ours, theirs)]
        print(f"{words:22} portico {1e3 * statistics.median(ours):8.2f} ms   llama.cpp {1e3 * statistics.median(theirs):8.2f} ms   "
              f"{statistics.median(theirs) / statistics.median(ours):.2f} times ({min(ratios):.2f} to {max(ratios):.2f})", flush=True)


if __name__ == "__main__":
    main()
