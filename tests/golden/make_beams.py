#!/usr/bin/env python3
"""Write tests/golden/beams.json: what generate(num_beams=...) of transformers finds with the tiny models of
tests/golden/seq2seq and tests/golden/families ("models"), and with a GPT-2 of no layers, whose logits depend on the last
token alone and are in the file too ("table", "chains"). Only searches whose texts stay the same when logits move by 1e-3 of their
spread, ten times what devices may be off, are kept. Needs torch and transformers; some minutes.

    python3 tests/golden/make_beams.py
"""

import json
import pathlib

import numpy as np
import safetensors.numpy
import torch
import transformers

HERE = pathlib.Path(__file__).resolve().parent
MODELS = [("seq2seq", name) for name in ("bart", "marian", "t5", "t5_1.1")] + [
    ("families", "qwen2.gguf")]  # transformers takes sizes of the others from elsewhere
# beams, length penalty, early stopping, tokens, texts
RULES = [(4, 1.0, False, 12, 4), (3, 0.0, True, 9, 2), (5, 2.0, "never", 14, 5), (2, -1.0, False, 10, 1), (1, 1.0, False, 8, 1)]
PROMPTS = 2


class Noise(transformers.LogitsProcessor):
    """Moves log-probabilities, as a device's rounding does."""

    def __init__(self, seed):
        self.random = torch.Generator().manual_seed(seed)

    def __call__(self, ids, scores):
        size = 1e-3 * scores.std(-1, keepdim=True)
        return scores + size * (2 * torch.rand(scores.shape, generator=self.random) - 1)


def search(model, prompt, rule, eos, noise):
    beams, penalty, early, tokens, returned = rule
    start = getattr(model.config, "decoder_start_token_id", None)
    if start is None and model.config.is_encoder_decoder:
        start = model.config.pad_token_id
    config = transformers.GenerationConfig(
        num_beams=beams, length_penalty=penalty, early_stopping=early, max_new_tokens=tokens,
        num_return_sequences=returned, do_sample=False, eos_token_id=eos, pad_token_id=eos,
        decoder_start_token_id=start,
        return_dict_in_generate=True, output_scores=True,
        use_cache=model.config.model_type != "t5")  # its cache has as many layers as the encoder
    processors = transformers.LogitsProcessorList([Noise(noise)] if noise else [])
    model.generation_config = transformers.GenerationConfig()
    with torch.no_grad():
        out = model.generate(torch.tensor([prompt]), generation_config=config, logits_processor=processors)
    first = 1 if model.config.is_encoder_decoder else len(prompt)
    texts = []
    for row in out.sequences.tolist():
        row = row[first:]
        texts.append(row[: row.index(eos)] if eos in row else row)
    scores = out.sequences_scores.tolist() if beams > 1 else None
    return texts, scores


def markov():
    """Chains of tokens that end often, by many rules."""
    torch.manual_seed(5)
    vocab, eos = 11, 0
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config(
        vocab_size=vocab, n_embd=8, n_layer=0, n_head=1, n_positions=40, tie_word_embeddings=False)).eval()
    with torch.no_grad():
        model.transformer.wpe.weight.zero_()
        model.transformer.wte.weight.normal_()
        model.lm_head.weight.normal_(0, 0.7)
        table = model(torch.arange(vocab)[:, None]).logits[:, 0]
    chains = []
    for number in range(60):
        rule = (1 + number % 5 + (number % 7 == 0), (0.0, 1.0, 2.0, -0.5)[number % 4], (False, True, "never")[number % 3],
                3 + number % 9, 1)
        rule = rule[:4] + (1 + number % rule[0],)
        if rule[0] == 1:
            continue
        found = [search(model, [1 + number % 10], rule, eos, noise) for noise in (0, 1, 2)]
        if any(f[0] != found[0][0] for f in found):
            continue
        chains.append(case([1 + number % 10], rule, *found[0]))
    print(len(chains), "chains,", sum(len(t) < c["max_tokens"] for c in chains for t in c["texts"]), "texts that end")
    return [[round(x, 6) for x in row] for row in table.tolist()], chains


def case(prompt, rule, texts, scores):
    return {"beams": rule[0], "length_penalty": rule[1], "early_stopping": {False: 0, True: 1, "never": 2}[rule[2]],
            "max_tokens": rule[3], "prompt": prompt, "texts": texts, "scores": scores}


def check_logits(model, path):
    """The file was read as it was meant."""
    golden = safetensors.numpy.load_file(path.with_suffix(".safetensors"))
    with torch.no_grad():
        logits = model(torch.from_numpy(golden["ids"].astype(np.int64))[None]).logits[0].numpy()
    assert np.abs(logits - golden["logits"]).max() < 1e-3 * np.abs(golden["logits"]).max(), path


def main():
    torch.set_num_threads(1)
    cases = []
    for folder, name in MODELS:
        if folder == "seq2seq":
            model = transformers.AutoModelForSeq2SeqLM.from_pretrained(HERE / folder / name).eval()
        else:
            model = transformers.AutoModelForCausalLM.from_pretrained(HERE / folder, gguf_file=name).eval()
            check_logits(model, HERE / folder / name)
        config = model.config
        eos = config.eos_token_id[0] if isinstance(config.eos_token_id, list) else config.eos_token_id
        random = np.random.default_rng(len(cases))
        for rule in RULES:
            kept = None
            for _ in range(PROMPTS):
                prompt = random.integers(3, config.vocab_size, int(random.integers(3, 9))).tolist()
                found = [search(model, prompt, rule, eos, noise) for noise in (0, 1, 2, 3)]
                ends = any(len(text) < rule[3] for text in found[0][0])
                if all(f[0] == found[0][0] for f in found) and (kept is None or ends):
                    kept = (prompt, *found[0])
                    if ends:
                        break
            if not kept:
                print("nothing firm:", folder, name, rule)
                continue
            prompt, texts, scores = kept
            print(folder, name, rule, [len(text) for text in texts])
            cases.append({"model": f"{folder}/{name}"} | case(prompt, rule, texts, scores))
    table, chains = markov()
    text = "{\"table\": " + json.dumps(table) + ",\n\"chains\": [\n" + ",\n".join(map(json.dumps, chains))
    text += "\n],\n\"models\": [\n" + ",\n".join(map(json.dumps, cases)) + "\n]}\n"
    (HERE / "beams.json").write_text(text)


main()
