#!/usr/bin/env python3
"""Time of an exported encoder in Portico, with and without its composites put together, and in onnxruntime, in turns.

    PORTICO_THREADS=2 PYTHONPATH=build/python python3 tests/parity/onnx_speed.py [--model FILE] [--runs N]

Without a file PyTorch exports a BERT of 4 layers of 256, with random weights. Prints medians, and the ratio of merged to
onnxruntime; with one thread of processor time, which other work on the machine hardly changes. Needs onnxruntime, and torch
with transformers for the export."""
import argparse
import os
import statistics
import tempfile
import time
import warnings

import numpy as np


def export(path):
    import torch
    import transformers

    config = transformers.BertConfig(vocab_size=2000, hidden_size=256, num_hidden_layers=4, num_attention_heads=8,
                                     intermediate_size=1024, max_position_embeddings=128)
    config._attn_implementation = "sdpa"
    torch.manual_seed(0)
    bert = transformers.BertModel(config).eval()

    class Hidden(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.bert = bert

        def forward(self, ids, mask):
            return self.bert(input_ids=ids, attention_mask=mask, return_dict=False)[0]

    arrays = (torch.ones(2, 64, dtype=torch.long),) * 2
    axes = {name: {0: "batch", 1: "tokens"} for name in ("input_ids", "attention_mask")}
    torch.onnx.export(Hidden().eval(), arrays, path, input_names=list(axes), output_names=["hidden"], dynamic_axes=axes,
                      dynamo=False, opset_version=14)


def measure(path, batch, tokens, runs, threads):
    import onnxruntime

    import portico

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    peer = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    random = np.random.default_rng(0)
    arrays = {x.name: np.ones((batch, tokens), np.int64) if "mask" in x.name else
              random.integers(1, 2000, (batch, tokens)) for x in peer.get_inputs()}
    apart, merged = portico.onnx.load(path, merge=False), portico.onnx.load(path)
    calls = {"onnxruntime": lambda: peer.run(None, arrays)[0], "apart": lambda: apart(arrays)[0],
             "merged": lambda: merged(arrays)[0]}
    results = {name: call() for name, call in calls.items()}
    times = {name: [] for name in calls}
    clock = time.thread_time if threads == 1 else time.perf_counter
    for _ in range(runs):
        for name, call in calls.items():
            start = clock()
            call()
            times[name].append(clock() - start)
    medians = {name: statistics.median(t) for name, t in times.items()}
    line = ", ".join(f"{name} {1e3 * t:.2f} ms" for name, t in medians.items())
    print(f"{batch} x {tokens}: {line}; {medians['merged'] / medians['onnxruntime']:.2f}; nodes {apart.statistics()['nodes']} and {merged.statistics()['nodes']}; largest "
          f"difference to onnxruntime {np.abs(results['merged'] - results['onnxruntime']).max():.1g}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model", help="an encoder with inputs [batch, tokens] of int64")
    parser.add_argument("--runs", type=int, default=50)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as scratch:
        path = arguments.model or os.path.join(scratch, "encoder.onnx")
        if not arguments.model:
            export(path)
        for batch, tokens in ((1, 1), (1, 16), (2, 64)):
            measure(path, batch, tokens, arguments.runs, int(os.environ.get("PORTICO_THREADS", os.cpu_count())))


if __name__ == "__main__":
    main()
