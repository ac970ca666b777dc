#!/usr/bin/env python3
"""Write tests/golden/seq2seq: tiny encoder-decoders in Hugging Face's layout, with random weights, and the logits of
transformers in float64 for a source and a target. Needs torch and transformers; half a minute.

    python3 tests/golden/make_seq2seq.py
"""

import pathlib
import shutil

import numpy as np
import safetensors.torch
import torch
import transformers

import goldens

OUT = pathlib.Path(__file__).resolve().parent / "seq2seq"
VOCAB, WIDTH, SOURCE, TARGET = 40, 24, 30, 24


def t5(**options):
    return transformers.T5ForConditionalGeneration(
        transformers.T5Config(
            vocab_size=VOCAB,
            d_model=WIDTH,
            d_kv=10,
            d_ff=40,
            num_layers=2,
            num_decoder_layers=3,
            num_heads=3,
            relative_attention_num_buckets=12,
            relative_attention_max_distance=20,
            layer_norm_epsilon=1e-3,
            attn_implementation="eager",
            **options,
        )
    )


def bart():
    return transformers.BartForConditionalGeneration(
        transformers.BartConfig(
            vocab_size=VOCAB,
            d_model=WIDTH,
            encoder_layers=2,
            decoder_layers=1,
            encoder_attention_heads=3,
            decoder_attention_heads=2,
            encoder_ffn_dim=40,
            decoder_ffn_dim=32,
            max_position_embeddings=32,
            scale_embedding=True,
            activation_function="relu",
            attn_implementation="eager",
        )
    )


def marian(**options):
    return transformers.MarianMTModel(
        transformers.MarianConfig(
            vocab_size=VOCAB,
            decoder_vocab_size=options.pop("decoder_vocab_size", VOCAB),
            d_model=WIDTH,
            encoder_layers=1,
            decoder_layers=2,
            encoder_attention_heads=3,
            decoder_attention_heads=2,
            encoder_ffn_dim=40,
            decoder_ffn_dim=32,
            max_position_embeddings=32,
            scale_embedding=True,
            activation_function="swish",
            pad_token_id=2,
            decoder_start_token_id=2,
            eos_token_id=0,
            attn_implementation="eager",
            **options,
        )
    )


def pair():
    """Two models of other families, with types of sources that are not 0."""
    encoder = transformers.MegatronBertConfig(
        vocab_size=VOCAB, hidden_size=WIDTH, num_hidden_layers=2, num_attention_heads=3, intermediate_size=40,
        max_position_embeddings=32, type_vocab_size=2, layer_norm_eps=1e-5, hidden_act="gelu_new")
    decoder = transformers.BlenderbotConfig(
        vocab_size=VOCAB - 3, d_model=WIDTH, decoder_layers=1, encoder_layers=1, decoder_attention_heads=2,
        encoder_attention_heads=2, decoder_ffn_dim=32, max_position_embeddings=32, activation_function="gelu_new",
        is_decoder=True, add_cross_attention=True, is_encoder_decoder=False, tie_word_embeddings=False,
        forced_eos_token_id=None)
    config = transformers.EncoderDecoderConfig(
        encoder=encoder.to_dict(), decoder=decoder.to_dict(), decoder_start_token_id=1, pad_token_id=0, eos_token_id=2,
        bos_token_id=1, tie_word_embeddings=False)
    return transformers.EncoderDecoderModel(config)


def marian_table():
    """Positions of its own, a vocabulary for each side, an output projection of its own."""
    return marian(decoder_vocab_size=VOCAB - 3, share_encoder_decoder_embeddings=False, tie_word_embeddings=False,
                  static_position_embeddings=False)


MODELS = {"bart": bart, "marian": marian, "t5": t5, "t5_1.1": lambda: t5(feed_forward_proj="gated-gelu", tie_word_embeddings=False),
          "encoder_decoder": pair, "marian_table": marian_table}


def main():
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir()
    arrays, cases = {}, []
    for seed, (name, make) in enumerate(MODELS.items()):
        model = make().double().eval()
        random = np.random.default_rng(seed)
        for key, parameter in model.named_parameters():
            values = random.standard_normal(tuple(parameter.shape))
            if parameter.dim() == 1:
                values = 0.1 * values + (1.0 if "norm" in key and key.endswith("weight") else 0.0)
            elif "shared" not in key and "embed" not in key and "relative" not in key:
                values /= parameter.shape[1] ** 0.5
            if "embed_positions" in key and name == "marian":
                continue  # sinuses, which no file has
            parameter.data = torch.from_numpy(values.astype(np.float32)).double()
        buffers = dict(model.named_buffers())
        if "final_logits_bias" in buffers:
            shape = tuple(buffers["final_logits_bias"].shape)
            model.final_logits_bias.copy_(torch.from_numpy(random.standard_normal(shape).astype(np.float32)))
        model.tie_weights()
        model.float().save_pretrained(OUT / name)
        if name == "marian_table":  # which transformers reads, and does not write
            file = OUT / name / "model.safetensors"
            tables = {key: value.data for key, value in model.named_parameters() if "embed_positions" in key}
            safetensors.torch.save_file({**safetensors.torch.load_file(file), **tables}, file, {"format": "pt"})
        model.double()
        source = random.integers(3, VOCAB, SOURCE)
        last = VOCAB if name in ("bart", "marian", "t5", "t5_1.1") else VOCAB - 3
        target = np.concatenate([[getattr(model.config, "decoder_start_token_id", model.config.pad_token_id)], random.integers(3, last, TARGET - 1)])
        with torch.no_grad():
            logits = model(
                input_ids=torch.from_numpy(source)[None], decoder_input_ids=torch.from_numpy(target)[None]
            ).logits[0]
        assert logits.dtype == torch.float64
        arrays[f"{name}/source"] = source.astype(np.int32)
        arrays[f"{name}/target"] = target.astype(np.int32)
        arrays[f"{name}/logits"] = logits.numpy()
        cases.append({"name": name})
    goldens.save(OUT / "goldens.safetensors", arrays, "models", cases)


main()
