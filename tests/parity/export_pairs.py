#!/usr/bin/env python3
"""export_pairs.py PORTICO own|transformers: encoder-decoders that `portico convert` makes folders of, and who reads them.

Translators that Portico trains here in a few steps, one for each class and each choice of theirs, and the tiny models of
tests/golden/seq2seq. `own`: Portico computes the same logarithms of probabilities from the folder, and what no class of
transformers computes is refused by name. `transformers`: its logits in float64 are those of the goldens and of Portico,
its tokenizers give the same ids."""

import json
import pathlib
import subprocess
import sys
import tempfile

from export import ROOT, other_logits, run, worst_logprob

SEQ2SEQ = ROOT / "tests" / "golden" / "seq2seq"
SOURCES = ("5 cats", "12 green dogs", "7")
NAMES = ("cat", "dog", "green", "small")
TWO = {"source_tokenizer": {"kind": "bpe", "size": 270}, "target_tokenizer": {"kind": "bpe", "size": 290}}
BEFORE = {"normalize_before": True, "final_norm": True}
# What is trained, its tokenizers, and the class that it becomes.
TRAINED = {
    "before": ({**BEFORE, "scale_embedding": True, "add_eos_to_source": True}, TWO, "EncoderDecoderModel"),
    "before_one": ({**BEFORE, "activation_function": "gelu_tanh", "attention_bias": False, "position_offset": 2}, {},
                   "EncoderDecoderModel"),
    "behind": ({"scale_embedding": True, "add_eos_to_source": True, "ffn_bias": False}, TWO, "MarianMTModel"),
    "behind_one": ({"activation_function": "gelu", "sinusoidal_layout": "half", "tie_word_embeddings": False,
                    "final_logits_bias": True}, {}, "MarianMTModel"),
}
# What no class computes, and the word of the refusal.
REFUSED = (
    ({**BEFORE, "norm_type": "rms_norm"}, "norm.type"),
    ({**BEFORE, "norm_form": "std_eps"}, "norm.form"),
    ({**BEFORE, "norm_eps": 1e-6}, "layer_norm_eps"),
    ({**BEFORE, "position_embedding": "rope"}, "position_embedding"),
    ({**BEFORE, "activation_function": "swiglu"}, "activation_function"),
    ({**BEFORE, "final_logits_bias": True}, "final_logits_bias"),
    ({"normalize_before": True}, "final_norm"),
    ({"final_norm": True}, "final_norm"),
    ({"norm_eps": 1e-3}, "norm.eps"),
)


def train(portico, work, name, options, tokenizers, steps=20):
    lines = [f"{i} {NAMES[i % 2 + 2]} {NAMES[i % 2]}s\t{NAMES[i % 2]} {NAMES[i % 2 + 2]} x{i}" for i in range(60)]
    (work / "pairs.tsv").write_text("\n".join(lines) + "\n")
    config = {
        "model": {"d_model": 48, "encoder_layers": 2, "decoder_layers": 1, "encoder_attention_heads": 4,
                  "decoder_attention_heads": 3, "encoder_ffn_dim": 40, "decoder_ffn_dim": 56, **options},
        "data": {"kind": "pairs", "file": str(work / "pairs.tsv"), "context_length": 32, "source_buckets": [32],
                 "target_buckets": [32], **(tokenizers or {"tokenizer": {"kind": "char"}})},
        "optimizer": {"type": "adamw"},
        "schedule": {"type": "cosine", "learning_rate": 1e-2, "warmup_steps": 1},
        "steps": steps, "batch_size": 4, "seed": 1, "out": str(work / name)}
    (work / f"{name}.json").write_text(json.dumps(config))
    run(portico, "train", work / f"{name}.json", "--device", "cpu:native")


def answer(portico, model, source):
    """Of each token of the likeliest answer its id and the logarithms of the largest probabilities."""
    out = json.loads(run(portico, "run", model, "--device", "cpu:reference", "--prompt", source, "--max-tokens", "8",
                         "--json", "--logprobs", "4"))
    return out["tokens"]


def refuses(portico, work, number, options, word):
    name = f"refused{number}"
    train(portico, work, name, options, {}, 2)
    done = subprocess.run([portico, "convert", work / name, work / "none"], capture_output=True, text=True, check=False)
    good = done.returncode == 1 and word in done.stderr and done.stderr.count("\n") == 1
    if not good or (work / "none").exists() or list(work.glob("none*")):
        print(f"{options}: exit status {done.returncode}: {done.stderr}")
        return 1
    return 0


def own(portico, work):
    wrong = 0
    for name in TRAINED:
        run(portico, "convert", work / f"{name}.hf", work / f"{name}.again", "--type", "f32")
        for source in SOURCES:
            said = [answer(portico, f"{work / name}{end}", source) for end in ("", ".hf", ".again")]
            if said[0] != said[1] or said[1] != said[2] or not said[0]:
                print(f"{name}: {said}")
                wrong += 1
    wrong += sum(refuses(portico, work, i, *row) for i, row in enumerate(REFUSED))
    done = subprocess.run([portico, "convert", work / "before", work / "none.gguf"], capture_output=True, text=True,
                          check=False)
    wrong += done.returncode != 1 or "GGUF has no models of type" not in done.stderr
    print(f"{len(TRAINED)} translators as folders, {len(REFUSED)} refused: {wrong} wrong")
    return wrong


def tokenizer(transformers, folder, side):
    place = {"subfolder": side} if (folder / side).is_dir() else {}
    return transformers.AutoTokenizer.from_pretrained(folder, **place)


def trained_logits(portico, torch, transformers, folder, name):
    """The largest error, in bounds, of logarithms of probabilities; how many ids and classes are other ones."""
    model, report = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder, dtype=torch.float64,
                                                                       output_loading_info=True)
    model.eval()
    worst, other = 0.0, type(model).__name__ != TRAINED[name][2]
    other += len(report["missing_keys"]) + len(report["unexpected_keys"]) + len(report["mismatched_keys"])
    for source in SOURCES:
        ids = tokenizer(transformers, folder, "encoder")(source)["input_ids"]
        said = answer(portico, folder.with_suffix(""), source)
        tokens = [t["id"] for t in said]
        start = model.generation_config.decoder_start_token_id
        with torch.no_grad():
            rows = model(torch.tensor([ids]), decoder_input_ids=torch.tensor([[start, *tokens]])).logits[0]
        text = tokenizer(transformers, folder, "decoder").decode(tokens, skip_special_tokens=True)
        other += text != run(portico, "run", folder, "--prompt", source, "--max-tokens", "8").decode().rstrip("\n")
        worst = max(worst, worst_logprob(torch, rows, said))
    return worst, other


def with_transformers(portico, work):
    import safetensors.torch
    import torch
    import transformers

    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    print(f"transformers {transformers.__version__}")
    wrong = 0
    goldens = safetensors.torch.load_file(SEQ2SEQ / "goldens.safetensors")
    for path in sorted(p for p in SEQ2SEQ.iterdir() if p.is_dir()):
        folder = work / f"{path.name}.family"
        run(portico, "convert", path, folder)
        model = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder, dtype=torch.float64).eval()
        ids = {key: goldens[f"{path.name}/{key}"].long().reshape(1, -1) for key in ("source", "target")}
        with torch.no_grad():
            logits = model(ids["source"], decoder_input_ids=ids["target"]).logits[0]
        error = other_logits(torch, logits.double(), goldens[f"{path.name}/logits"].double())
        print(f"  {path.name:12} {type(model).__name__:28} error / bound {error:.4f}")
        wrong += not error <= 1
    for name in TRAINED:
        error, other = trained_logits(portico, torch, transformers, work / f"{name}.hf", name)
        print(f"  {name:12} {TRAINED[name][2]:28} error / bound {error:.4f}, {other} other ids, tensors or classes")
        wrong += not error <= 1 or other > 0
    print(f"{wrong} wrong")
    return wrong


def main(portico, peer):
    with tempfile.TemporaryDirectory() as work:
        work = pathlib.Path(work)
        for name, (options, tokenizers, _) in TRAINED.items():
            train(portico, work, name, options, tokenizers)
            run(portico, "convert", work / name, work / f"{name}.hf")
        return own(portico, work) if peer == "own" else with_transformers(portico, work)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]) > 0)
