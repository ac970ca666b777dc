#!/usr/bin/env python3
"""marian.py PORTICO: a tiny random Marian in a folder as people have them (vocab.json, source.spm, target.spm, with and
without a vocabulary for each side), and its padding among what must not be written. `portico translate` gives the texts
that transformers' generate() gives, by beams and always the likeliest; the folder that `portico convert` makes of it
answers the same. Needs torch, transformers and sentencepiece."""

import json
import pathlib
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "tokenizers"))

from export import run  # noqa: E402

SOURCES = ["the quick brown fox", ">>fra<< how are you?", "word1 12 345", "e", "Der Fluß"]


def make(folder, separate):
    import folders
    import torch
    import transformers

    folders.marian(folder, ("unigram", "unigram") if separate else ("unigram", "bpe"), separate)
    tokenizer = transformers.MarianTokenizer.from_pretrained(folder)
    count = len(tokenizer.encoder), len(tokenizer.target_encoder if separate else tokenizer.encoder)
    pad, eos = tokenizer.pad_token_id, tokenizer.eos_token_id
    target_pad = tokenizer.target_encoder["<pad>"] if separate else pad
    torch.manual_seed(5)
    model = transformers.MarianMTModel(transformers.MarianConfig(
        vocab_size=count[0], decoder_vocab_size=count[1], d_model=32, encoder_layers=2, decoder_layers=2,
        encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=48, decoder_ffn_dim=48,
        max_position_embeddings=64, scale_embedding=True, activation_function="swish", init_std=0.6,
        pad_token_id=pad, eos_token_id=eos, decoder_start_token_id=target_pad, forced_eos_token_id=None,
        share_encoder_decoder_embeddings=not separate, tie_word_embeddings=not separate)).eval()
    with torch.no_grad():
        model.final_logits_bias.normal_(std=0.3)
        model.final_logits_bias[0, target_pad] = 40  # it would always be written
    model.generation_config = transformers.GenerationConfig(
        pad_token_id=target_pad, eos_token_id=eos, decoder_start_token_id=target_pad, bad_words_ids=[[target_pad]])
    model.save_pretrained(folder)
    return model, tokenizer


def theirs(model, tokenizer, source, beams):
    batch = tokenizer([source], return_tensors="pt")
    made = model.generate(**batch, num_beams=beams, max_new_tokens=12, do_sample=False, length_penalty=1.0,
                          early_stopping=False)
    return made[0].tolist()[1:], tokenizer.batch_decode(made, skip_special_tokens=True, clean_up_tokenization_spaces=False)[0]


def ours(portico, folder, source, beams):
    out = run(portico, "translate", folder, "--text", source, "--beams", beams, "-n", 12, "--json", "--device", "cpu:native")
    answer = json.loads(out)
    return answer["text"].strip()


def main():
    portico = sys.argv[1]
    wrong = 0
    with tempfile.TemporaryDirectory() as place:
        for separate in (False, True):
            folder = pathlib.Path(place) / f"marian{int(separate)}"
            folder.mkdir()
            model, tokenizer = make(folder, separate)
            again = pathlib.Path(place) / f"again{int(separate)}"
            run(portico, "convert", folder, again)
            for source in SOURCES:
                for beams in (1, 4):
                    ids, text = theirs(model, tokenizer, source, beams)
                    for where in (folder, again):
                        got = ours(portico, where, source, beams)
                        if got != text:
                            wrong += 1
                            print(f"{where.name}, {beams} beams, {source!r}:\n  ours   {got!r}\n  theirs {text!r} {ids}")
    print(f"{4 * len(SOURCES) * 2 - wrong} passed, {wrong} failed, 0 skipped")
    return wrong > 0


if __name__ == "__main__":
    sys.exit(main())
