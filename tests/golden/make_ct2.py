#!/usr/bin/env python3
"""Write tests/golden/ct2: tiny encoder-decoders with random weights as CTranslate2 4 writes them (model.bin of version 6,
TransformerSpec), and what CTranslate2 makes of them in float32. Needs ctranslate2; seconds.

    python3 tests/golden/make_ct2.py
"""

import json
import pathlib
import shutil

import ctranslate2
import numpy as np
from ctranslate2.specs import common_spec, transformer_spec

OUT = pathlib.Path(__file__).resolve().parent / "ct2"
WIDTH, FFN, HEADS = 16, 32, 4
SPECIAL = ["<blank>", "<s>", "</s>", "<unk>"]
SOURCE, TARGET = SPECIAL + list("abcdefgh"), SPECIAL + list("ABCDEFGHIJ")
TEXTS = ("abc", "hgfedcba", "a", "ddee")
MODELS = {
    "pre": (None, {"pre_norm": True}),
    "post-gelu": (None, {"pre_norm": False, "activation": common_spec.Activation.GELU}),
    "int8": ("int8", {"pre_norm": True, "activation": common_spec.Activation.SWISH}),
    "float16": ("float16", {"pre_norm": True, "activation": common_spec.Activation.GELUTanh}),
    "table": (None, {"pre_norm": False}),  # with positions of its own, as those that come from Marian
}


def build(seed, quantization, options, table):
    draw = np.random.RandomState(seed)
    spec = transformer_spec.TransformerSpec.from_config((2, 1), HEADS, **options)

    def values(*shape, bound=0.6):
        return ((draw.rand(*shape) - 0.5) * bound).astype("f4")

    def linear(layer, rows, columns):
        layer.weight, layer.bias = values(rows, columns, bound=1.2), values(rows, bound=0.2)

    def norm(layer):
        layer.gamma, layer.beta = 1 + values(WIDTH, bound=0.2), values(WIDTH, bound=0.2)

    spec.encoder.embeddings[0].weight = values(len(SOURCE), WIDTH)
    spec.decoder.embeddings.weight = values(len(TARGET), WIDTH)
    linear(spec.decoder.projection, len(TARGET), WIDTH)
    for side in (spec.encoder, spec.decoder):
        if table:
            side.position_encodings.encodings = values(24, WIDTH, bound=2)
        if hasattr(side, "layer_norm"):
            norm(side.layer_norm)
        for layer in side.layer:
            norm(layer.self_attention.layer_norm)
            linear(layer.self_attention.linear[0], 3 * WIDTH, WIDTH)
            linear(layer.self_attention.linear[1], WIDTH, WIDTH)
            if side is spec.decoder:
                norm(layer.attention.layer_norm)
                linear(layer.attention.linear[0], WIDTH, WIDTH)
                linear(layer.attention.linear[1], 2 * WIDTH, WIDTH)
                linear(layer.attention.linear[2], WIDTH, WIDTH)
            norm(layer.ffn.layer_norm)
            linear(layer.ffn.linear_0, FFN, WIDTH)
            linear(layer.ffn.linear_1, WIDTH, FFN)
    spec.register_source_vocabulary(SOURCE)
    spec.register_target_vocabulary(TARGET)
    spec.validate()
    spec.optimize(quantization=quantization)
    return spec


def main():
    shutil.rmtree(OUT, ignore_errors=True)
    answers = {}
    for seed, (name, (quantization, options)) in enumerate(MODELS.items()):
        (OUT / name).mkdir(parents=True)
        build(seed, quantization, options, name == "table").save(str(OUT / name))
        translator = ctranslate2.Translator(str(OUT / name), device="cpu", compute_type="float32")
        for text in TEXTS:
            # each single token, whose first probability is that of the first step; and the path that is likeliest
            first = {t: translator.score_batch([list(text)], [[t]])[0].log_probs[0] for t in TARGET if t != "</s>"}
            found = translator.translate_batch([list(text)], beam_size=1, max_decoding_length=6, min_decoding_length=0)
            tokens = found[0].hypotheses[0]
            scores = translator.score_batch([list(text)], [tokens])[0]
            answers.setdefault(name, []).append(
                {"text": text, "first": first, "tokens": tokens, "log_probs": scores.log_probs[: len(tokens)]})
    (OUT / "answers.json").write_text(json.dumps({"ctranslate2": ctranslate2.__version__, "models": answers}) + "\n")


if __name__ == "__main__":
    main()
