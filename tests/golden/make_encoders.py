#!/usr/bin/env python3
"""Write tests/golden/encoders: a tiny encoder of each family in Hugging Face's layout, with random weights, as
transformers saves it, and what transformers computes with it in float64. Needs torch and transformers; half a minute.

    python3 tests/golden/make_encoders.py
"""

import json
import pathlib
import shutil

import numpy as np
import torch
import transformers

import goldens

OUT = pathlib.Path(__file__).resolve().parent / "encoders"
VOCAB, WIDTH, HEADS, LAYERS, HIDDEN, CONTEXT, TYPES = 40, 24, 3, 2, 40, 40, 2
EPS = 1e-3  # large, so that an epsilon that is not read shows
LENGTHS = (5, 36, 1, 17)  # of the texts, which are run as one padded batch


def values_of(name, values):
    """Unit variance in, about unit variance out."""
    if values.ndim == 1:
        return 0.1 * values + (1.0 if "norm" in name.lower() and name.endswith("weight") else 0.0)
    return values if "embeddings" in name or "bias" in name else values / values.shape[1] ** 0.5


def usual(**options):
    return {
        "vocab_size": VOCAB,
        "hidden_size": WIDTH,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "intermediate_size": HIDDEN,
        "max_position_embeddings": CONTEXT,
        "layer_norm_eps": EPS,
        "attn_implementation": "eager",
        **options,
    }


def roberta(**options):
    options = {"pad_token_id": 3, "type_vocab_size": 1, "max_position_embeddings": CONTEXT + 4, **options}
    return transformers.RobertaForMaskedLM(transformers.RobertaConfig(**usual(**options)))


def distilbert(**options):
    return transformers.DistilBertForMaskedLM(
        transformers.DistilBertConfig(
            vocab_size=VOCAB,
            dim=WIDTH,
            n_layers=LAYERS,
            n_heads=HEADS,
            hidden_dim=HIDDEN,
            max_position_embeddings=CONTEXT,
            attn_implementation="eager",
            **options,
        )
    )


def albert(**options):
    options = {"num_hidden_layers": 4, "num_hidden_groups": 2, "embedding_size": 16, "type_vocab_size": TYPES, **options}
    return transformers.AlbertForMaskedLM(transformers.AlbertConfig(**usual(**options)))


def mpnet(**options):
    return transformers.MPNetForMaskedLM(
        transformers.MPNetConfig(**usual(max_position_embeddings=CONTEXT + 2, **options))
    )


MODELS = {
    "bert": lambda: transformers.BertForMaskedLM(transformers.BertConfig(**usual(type_vocab_size=TYPES))),
    "bert_relu": lambda: transformers.BertModel(transformers.BertConfig(**usual(hidden_act="relu", type_vocab_size=3))),
    "roberta": roberta,
    "distilbert": distilbert,
    "albert": albert,
    "mpnet": mpnet,
    # the other activation
    "roberta_relu": lambda: roberta(hidden_act="relu"),
    "distilbert_relu": lambda: distilbert(activation="relu"),
    "albert_gelu": lambda: albert(hidden_act="gelu"),
    "mpnet_relu": lambda: mpnet(hidden_act="relu"),
}


def sentence_transformer(folder):
    """The files that sentence-transformers adds: the first token, normalized, of at most 32 tokens."""
    kinds = ("Transformer", ""), ("Pooling", "1_Pooling"), ("Normalize", "2_Normalize")
    modules = [
        {"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for i, (kind, path) in enumerate(kinds)
    ]
    pooling = {"word_embedding_dimension": WIDTH, "pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}
    (folder / "1_Pooling").mkdir()
    (folder / "modules.json").write_text(json.dumps(modules, indent=2))
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(pooling, indent=2))
    (folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 32, "do_lower_case": False}))


def main():
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir()
    arrays, cases = {}, []
    for seed, (name, make) in enumerate(MODELS.items()):
        model = make().double().eval()
        config = model.config
        goldens.random_weights(model, seed, values_of)
        model.tie_weights()
        folder = OUT / name
        model.float().save_pretrained(folder)
        model.double()
        if name == "bert_relu":
            sentence_transformer(folder)
        random = np.random.default_rng(100 + seed)
        types = getattr(config, "type_vocab_size", 1) if name != "mpnet" else 1
        padding = config.pad_token_id
        ids = np.full((len(LENGTHS), max(LENGTHS)), padding, np.int64)
        kinds, mask = np.zeros_like(ids), np.zeros_like(ids)
        for row, length in enumerate(LENGTHS):
            drawn = random.integers(0, VOCAB, length)
            ids[row, :length] = np.where(drawn == padding, padding + 1, drawn)
            kinds[row, :length] = random.integers(0, types, length)
            mask[row, :length] = 1
        inputs = {"input_ids": torch.from_numpy(ids), "attention_mask": torch.from_numpy(mask)}
        if types > 1:
            inputs["token_type_ids"] = torch.from_numpy(kinds)
        with torch.no_grad():
            result = model(**inputs, output_hidden_states=True)
        hidden = result.hidden_states[-1]
        assert hidden.dtype == torch.float64
        seen = mask.astype(bool)
        arrays[f"{name}/ids"] = ids[seen].astype(np.int32)
        arrays[f"{name}/types"] = kinds[seen].astype(np.int32)
        arrays[f"{name}/lengths"] = np.array(LENGTHS, np.int32)
        arrays[f"{name}/hidden"] = hidden.numpy()[seen]
        if "logits" in result:
            arrays[f"{name}/logits"] = result.logits.numpy()[seen]
        cases.append({"name": name})
    goldens.save(OUT / "goldens.safetensors", arrays, "encoders", cases)


main()
