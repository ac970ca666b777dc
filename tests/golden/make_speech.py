#!/usr/bin/env python3
"""Write tests/golden/speech: a sound, what transformers' WhisperFeatureExtractor makes of it, and tiny Whispers with
random weights in Hugging Face's layout, with their logits in float64 and what generate() finds: with and without
timestamps, greedy and by beams, in windows one behind the other. Only what stays the same when logits move by 1e-3 of
their spread is kept. Needs torch, transformers and tokenizers; a minute.

    python3 tests/golden/make_speech.py
"""

import json
import pathlib
import shutil
import wave

import numpy as np
import tokenizers
import torch
import transformers

import goldens

OUT = pathlib.Path(__file__).resolve().parent / "speech"
RATE, SECONDS, POSITIONS = 16000, 2.4, 50  # a window is 2 * POSITIONS frames of 10 ms
LANGUAGES = ["en", "de", "zh"]
MODELS = {
    "whisper": dict(num_mel_bins=80, encoder_layers=2, decoder_layers=2, encoder_attention_heads=3,
                         decoder_attention_heads=2, encoder_ffn_dim=40, decoder_ffn_dim=32),
    "whisper_en": dict(num_mel_bins=128, encoder_layers=1, decoder_layers=2, encoder_attention_heads=2,
                    decoder_attention_heads=3, encoder_ffn_dim=32, decoder_ffn_dim=40, activation_function="relu",
                    scale_embedding=True, tie_word_embeddings=False),
}


class Noise(transformers.LogitsProcessor):
    """Moves what has not been excluded, as a device's rounding does."""

    def __init__(self, seed):
        self.random = torch.Generator().manual_seed(seed)

    def __call__(self, ids, scores):
        size = 1e-3 * scores[scores.isfinite()].std()
        return scores + size * (2 * torch.rand(scores.shape, generator=self.random) - 1)


def sound():
    """Voices of three pitches, noise, and silence, as 16 bits."""
    random = np.random.default_rng(7)
    t = np.arange(int(RATE * SECONDS)) / RATE
    x = np.zeros_like(t)
    for begin, end, pitch in ((0.0, 0.5, 140), (0.6, 1.1, 220), (1.4, 2.2, 95)):
        inside = (t >= begin) & (t < end)
        voice = sum(np.sin(2 * np.pi * pitch * k * t + k) / k for k in range(1, 30))
        x += inside * np.hanning(len(t))[np.clip(((t - begin) / (end - begin) * len(t)).astype(int), 0, len(t) - 1)] * voice
    x += 0.02 * random.standard_normal(len(t)) * (t > 1.0)
    return np.round(12000 * x / np.abs(x).max()).astype(np.int16)


def write_wav(path, x):
    with wave.open(str(path), "wb") as file:
        file.setparams((1, 2, RATE, len(x), "NONE", "not compressed"))
        file.writeframes(x.astype("<i2").tobytes())


def make_tokenizer(multilingual):
    alphabet = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    vocab = {c: i for i, c in enumerate(alphabet)}
    merges = [("t", "h"), ("th", "e"), ("Ġ", "the"), ("i", "n"), ("Ġ", "a"), ("o", "n")]
    for a, b in merges:
        vocab[a + b] = len(vocab)
    made = tokenizers.Tokenizer(tokenizers.models.BPE(vocab, merges))
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = tokenizers.decoders.ByteLevel()
    names = ["<|endoftext|>", "<|startoftranscript|>"]
    names += [f"<|{language}|>" for language in LANGUAGES] if multilingual else []
    names += ["<|translate|>", "<|transcribe|>", "<|startoflm|>", "<|startofprev|>", "<|nospeech|>", "<|notimestamps|>"]
    made.add_special_tokens(names)
    stamps = [tokenizers.AddedToken(f"<|{i * 0.02:.2f}|>", special=False, normalized=False) for i in range(POSITIONS + 1)]
    made.add_tokens(stamps)
    return made


def make_model(name, options, seed):
    multilingual = name == "whisper"
    tokenizer = make_tokenizer(multilingual)
    ids = tokenizer.get_vocab()
    end, start, plain = ids["<|endoftext|>"], ids["<|startoftranscript|>"], ids["<|notimestamps|>"]
    suppressed = [ids["<|startoflm|>"], ids["<|startofprev|>"], ids["<|nospeech|>"], start, ids["<|translate|>"],
                  ids["<|transcribe|>"]] + [ids[c] for c in "()[]"] + [ids[f"<|{l}|>"] for l in LANGUAGES if multilingual]
    config = transformers.WhisperConfig(
        vocab_size=tokenizer.get_vocab_size(), d_model=24, max_source_positions=POSITIONS, max_target_positions=32,
        decoder_start_token_id=start, eos_token_id=end, bos_token_id=end, pad_token_id=end, suppress_tokens=[],
        begin_suppress_tokens=[ids["Ġ"], end], attn_implementation="eager", **options)
    model = transformers.WhisperForConditionalGeneration(config).double().eval()
    random = np.random.default_rng(seed)
    for key, parameter in model.named_parameters():
        if key == "model.encoder.embed_positions.weight":
            continue
        values = random.standard_normal(tuple(parameter.shape))
        if parameter.dim() == 1:
            values = 0.1 * values + (1.0 if "norm" in key and key.endswith("weight") else 0.0)
        elif "conv" in key:
            values *= 3 / np.prod(parameter.shape[1:]) ** 0.5
        elif "embed" not in key:
            values *= (4 if "encoder_attn" in key else 1) / parameter.shape[1] ** 0.5
        if key in ("model.decoder.embed_tokens.weight", "proj_out.weight"):
            values[end] *= 1.6  # texts end now and then
        parameter.data = torch.from_numpy(values.astype(np.float32)).double()
    model.tie_weights()
    positions = model.model.encoder.embed_positions.weight
    positions.data = positions.data.float().double()
    generation = dict(suppress_tokens=sorted(suppressed), begin_suppress_tokens=[ids["Ġ"], end], is_multilingual=multilingual,
                      no_timestamps_token_id=plain, max_initial_timestamp_index=20, max_length=32, return_timestamps=False)
    if multilingual:
        generation |= dict(lang_to_id={f"<|{l}|>": ids[f"<|{l}|>"] for l in LANGUAGES},
                           task_to_id={t: ids[f"<|{t}|>"] for t in ("transcribe", "translate")})
    model.generation_config = transformers.GenerationConfig(
        decoder_start_token_id=start, eos_token_id=end, bos_token_id=end, pad_token_id=end, **generation)
    return model, tokenizer


def save(folder, model, tokenizer, extractor, in_files):
    folder.mkdir()
    model.float().save_pretrained(folder)
    model.double()
    extractor.save_pretrained(folder)
    if not in_files:
        tokenizer.save(str(folder / "tokenizer.json"))
        return
    state = json.loads(tokenizer.to_str())  # the layout of before
    (folder / "vocab.json").write_text(json.dumps(state["model"]["vocab"], ensure_ascii=False))
    (folder / "merges.txt").write_text("#version: 0.2\n" + "".join(" ".join(m) + "\n" for m in state["model"]["merges"]))
    (folder / "added_tokens.json").write_text(json.dumps({t["content"]: t["id"] for t in state["added_tokens"]}))
    special = [t["content"] for t in state["added_tokens"] if t["special"]]
    (folder / "tokenizer_config.json").write_text(json.dumps(
        {"tokenizer_class": "WhisperTokenizer", "bos_token": special[0], "eos_token": special[0], "unk_token": special[0],
         "pad_token": special[0], "additional_special_tokens": special[1:]}))


def generate(model, features, rule, noise):
    """The tokens of one window behind its prompt, without the end. The model's own generate() goes on with what is left
    of the window where a text ends early; this is the one that it calls, with the same processors."""
    config, beams = model.generation_config, rule["num_beams"]
    prompt = [config.decoder_start_token_id]
    if config.is_multilingual:
        prompt += [config.lang_to_id[f"<|{rule['language']}|>"], config.task_to_id[rule["task"]]]
    if not rule["return_timestamps"]:
        prompt += [config.no_timestamps_token_id]
    processors = [transformers.generation.SuppressTokensAtBeginLogitsProcessor(config.begin_suppress_tokens, len(prompt)),
                  transformers.generation.SuppressTokensLogitsProcessor(config.suppress_tokens)]
    if rule["return_timestamps"]:
        processors.append(transformers.generation.logits_process.WhisperTimeStampLogitsProcessor(config, len(prompt)))
    how = transformers.GenerationConfig(
        num_beams=beams, early_stopping=False, do_sample=False, max_new_tokens=rule["max_tokens"],
        eos_token_id=config.eos_token_id, pad_token_id=config.eos_token_id, bos_token_id=config.eos_token_id)
    kept, model.generation_config = config, transformers.GenerationConfig()
    with torch.no_grad():
        out = transformers.GenerationMixin.generate(
            model, input_features=torch.from_numpy(features.astype(np.float64))[None], generation_config=how,
            decoder_input_ids=torch.tensor([prompt]),
            logits_processor=transformers.LogitsProcessorList(processors + ([Noise(noise)] if noise else [])))
    model.generation_config = kept
    row = out[0].tolist()[len(prompt):]
    return row[: row.index(config.eos_token_id)] if config.eos_token_id in row else row


def advance(tokens, first, window):
    """Frames until the next window begins, and how many tokens of this one count (Radford et al. 2022, 4.5)."""
    stamps = [t >= first for t in tokens]
    pairs = [i + 1 for i in range(len(tokens) - 1) if stamps[i] and stamps[i + 1]]
    if not pairs or stamps[-2:] == [False, True]:
        return window, len(tokens)
    return (tokens[pairs[-1] - 1] - first) * 2, pairs[-1]


def whole(model, extractor, x, rule, noise):
    """All windows of a sound: their first frames and their tokens."""
    first, seek, found = model.generation_config.no_timestamps_token_id + 1, 0, []
    while seek * 160 < len(x):
        features = extractor(x[seek * 160:], sampling_rate=RATE, return_tensors="np").input_features[0]
        tokens = generate(model, features, rule, noise)
        step, kept = advance(tokens, first, 2 * POSITIONS)
        found.append({"frame": seek, "tokens": tokens[:kept]})
        seek += max(step, 2)
        if len(found) > 6:
            return None
    return found


def spectrogram(extractor, x):
    """In float64 but for the spectrum; where torch is there, the extractor itself has all of it in float32."""
    x = np.pad(x, (0, max(0, extractor.n_samples - len(x))))[: extractor.n_samples]
    return extractor._np_extract_fbank_features(x[None], "cpu")[0]


def searches(model, extractor, x):
    found = []
    multilingual = model.generation_config.is_multilingual
    for beams in (1, 3):
        for stamps in (False, True):
            for language, task in [("de", "transcribe"), ("zh", "translate")] if multilingual else [(None, None)]:
                for tokens in (9, 26) if stamps and language == "de" else (26,):
                    rule = dict(language=language, task=task, return_timestamps=stamps, num_beams=beams, max_tokens=tokens)
                    for begin, windows in ((0, False), (9600, False), (0, True))[: 3 if beams == 1 or language == "de" else 2]:
                        if windows and not stamps:
                            continue
                        part = x[begin:] if windows else x[begin:begin + RATE * POSITIONS // 50]
                        run = lambda noise: whole(model, extractor, part, rule, noise) if windows else [
                            {"frame": 0, "tokens": generate(model, extractor(part, sampling_rate=RATE, return_tensors="np").input_features[0], rule, noise)}]
                        tries = [run(0)]
                        if tries[0] is None or run(1) != tries[0]:
                            continue
                        found.append(dict(rule, begin=begin, count=len(part), windows=tries[0]))
    return found


def main():
    torch.set_num_threads(1)
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir()
    x = sound()
    write_wav(OUT / "sound.wav", x)
    x = x.astype(np.float32) / 32768
    arrays, spectrograms, cases = {}, {}, []
    for seed, (name, options) in enumerate(MODELS.items()):
        bands = options["num_mel_bins"]
        extractor = transformers.WhisperFeatureExtractor(feature_size=bands, chunk_length=1)
        model, tokenizer = make_model(name, options, seed + 3)
        save(OUT / name, model, tokenizer, extractor, name == "whisper_en")
        features = spectrogram(extractor, x[8000:])
        half = spectrogram(extractor, x[:7000])
        random = np.random.default_rng(seed)
        target = np.concatenate([[model.config.decoder_start_token_id], random.integers(0, model.config.vocab_size, 23)])
        with torch.no_grad():
            logits = model(input_features=torch.from_numpy(features).double()[None],
                           decoder_input_ids=torch.from_numpy(target)[None]).logits[0]
        assert logits.dtype == torch.float64
        spectrograms[f"{name}/features"] = features.astype(np.float32)
        spectrograms[f"{name}/half"] = half.astype(np.float32)
        arrays[f"{name}/target"] = target.astype(np.int32)
        arrays[f"{name}/logits"] = logits.numpy()
        case = {"name": name, "searches": searches(model, extractor, x)}
        ids = [t for s in case["searches"] for w in s["windows"] for t in w["tokens"]
               if t < model.config.eos_token_id][:40]
        case["ids"], case["text"] = ids, tokenizer.decode(ids)
        if name == "whisper":
            with torch.no_grad():
                case["language"] = tokenizer.id_to_token(int(model.detect_language(torch.from_numpy(features).double()[None])[0]))
        cases.append(case)
        ended = [len(w["tokens"]) < s["max_tokens"] for s in case["searches"] for w in s["windows"]]
        print(name, len(case["searches"]), "searches,", sum(ended), "of", len(ended), "windows end",
              {len(s["windows"]) for s in case["searches"]}, case.get("language"), repr(case["text"]))
    goldens.save(OUT / "features.safetensors", spectrograms, "spectrograms")
    goldens.save(OUT / "goldens.safetensors", arrays, "models", cases)


main()
