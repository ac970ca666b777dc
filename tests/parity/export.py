#!/usr/bin/env python3
"""export.py PORTICO own|transformers|llama [COMMAND ...]: models that `portico convert` makes, and who reads them.

Models that Portico trains here in a few steps, one for each family that they become, are converted to GGUF and to a
folder of Hugging Face; the models of tests/golden/families, to folders. `own`: Portico continues texts the same from each.
`transformers`: its logits in float64 are those of the goldens and of Portico, its tokenizer gives the same ids. `llama`:
llama-completion of llama.cpp (or COMMAND, which runs it) continues texts the same; skipped (77) where there is none."""

import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
FAMILIES = ROOT / "tests" / "golden" / "families"
PROMPTS = ("The software of the", "permission notice shall", "or other")
TOLERANCE = 1e-4  # of logits (MODELS_TOLERANCE in tests/models/models_test.h): |y - want| <= 1e-4 (|want| + rms of the row)
STEPS = 30
# What Portico trains, and the classes of transformers that it becomes. llama.cpp's GELU is that of the tanh.
TRAINED = {
    "llama": ({"norm_type": "rms_norm", "activation_function": "swiglu", "position_embedding": "rope",
               "attention_bias": False, "ffn_bias": False}, "LlamaForCausalLM", True),
    "pairs": ({"norm_type": "rms_norm", "activation_function": "swiglu", "position_embedding": "rope",
               "rope_interleaved": True, "tie_word_embeddings": False, "attention_bias": True, "ffn_bias": False},
              "LlamaForCausalLM", True),
    "starcoder2": ({"activation_function": "gelu_tanh", "position_embedding": "rope", "attention_bias": True,
                    "ffn_bias": False}, "Starcoder2ForCausalLM", True),
    "gptneox": ({"activation_function": "gelu", "position_embedding": "rope", "attention_bias": False,
                 "ffn_bias": True}, "Starcoder2ForCausalLM", False),
    "gpt2": ({"activation_function": "gelu_tanh", "position_embedding": "sinusoidal", "scale_embedding": True,
              "position_offset": 2}, "GPT2LMHeadModel", True),
    "characters": ({"norm_type": "rms_norm", "activation_function": "swiglu", "position_embedding": "rope",
                    "attention_bias": False, "ffn_bias": False}, "LlamaForCausalLM", True),
}


def run(*arguments, text=None):
    done = subprocess.run([str(a) for a in arguments], input=text, capture_output=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, arguments))}: {done.stderr.decode('utf-8', 'replace')}")
    return done.stdout


def train(portico, work, name, options):
    tokenizer = {"kind": "char"} if name == "characters" else {"kind": "bpe", "size": 300}
    config = {
        "model": {"d_model": 64, "decoder_layers": 2, "decoder_attention_heads": 4, "decoder_ffn_dim": 96,
                  "normalize_before": True, "final_norm": True, **options},
        "data": {"kind": "text", "file": str(ROOT / "LICENSE"), "context_length": 48, "tokenizer": tokenizer},
        "optimizer": {"type": "adamw"},
        "schedule": {"type": "cosine", "learning_rate": 1e-2, "warmup_steps": 5},
        "steps": STEPS, "batch_size": 4, "seed": 1, "out": str(work / name)}
    (work / f"{name}.json").write_text(json.dumps(config))
    run(portico, "train", work / f"{name}.json", "--device", "cpu:native")


def answer(portico, model, prompt, tokens=10):
    """Text, and of each token its id and the logarithms of the largest probabilities."""
    out = json.loads(run(portico, "run", model, "--device", "cpu:reference", "--prompt", prompt, "--max-tokens", tokens,
                         "--json", "--logprobs", "5"))
    return out["text"], out["tokens"]


def own(portico, work):
    """The same text of what was trained, of its GGUF file and of its folder."""
    wrong = 0
    for name in TRAINED:
        for prompt in PROMPTS:
            texts = {end: answer(portico, f"{work / name}{end}", prompt)[0] for end in ("", ".gguf", ".hf")}
            wrong += len(set(texts.values())) > 1
            if len(set(texts.values())) > 1:
                print(f"{name}: {texts}")
    config = json.loads((work / "gpt2" / "config.json").read_text())
    (work / "gpt2" / "config.json").write_text(json.dumps({**config, "max_position_embeddings": 1 << 24}))
    for out in ("large.gguf", "large"):  # positions become a table, which no file makes larger by saying so
        done = subprocess.run([portico, "convert", work / "gpt2", work / out], capture_output=True, check=False)
        if done.returncode != 1 or b"positions would be more than ten times" not in done.stderr or (work / out).exists():
            print(f"a large table: exit status {done.returncode}, {done.stderr.decode()}")
            wrong += 1
    print(f"{len(TRAINED)} trained models, as GGUF and as folders: {wrong} other texts")
    return wrong


def other_logits(torch, y, want):
    """The largest error, in bounds."""
    bound = TOLERANCE * (want.abs() + want.pow(2).mean(-1, keepdim=True).sqrt())
    return ((y - want).abs() / bound).max().item()


def worst_logprob(torch, rows, tokens):
    """The largest error, in bounds, of logarithms of probabilities that tokens have beside rows of logits."""
    worst = 0.0
    for row, token in zip(rows, tokens):
        theirs = torch.log_softmax(row, -1)
        # a logarithm of a probability is a logit less what all rows have in common: at most twice its error
        bound = 2 * TOLERANCE * (row.abs().max() + row.pow(2).mean().sqrt()).item()
        worst = max([worst] + [abs(theirs[t["id"]].item() - t["logprob"]) / bound for t in token["top"]])
    return worst


def trained_logits(portico, torch, transformers, folder, name):
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float64).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    worst, other = 0.0, type(model).__name__ != TRAINED[name][1]
    for prompt in PROMPTS:
        ids = tokenizer(prompt)["input_ids"]
        _, tokens = answer(portico, folder.with_suffix(""), prompt)
        ours = json.loads(run(portico, "tokenizer", "encode", folder, "--json", text=json.dumps(prompt).encode()))
        other += ids != ours
        with torch.no_grad():
            rows = model(torch.tensor([ids + [t["id"] for t in tokens]])).logits[0, len(ids) - 1 : -1]
        worst = max(worst, worst_logprob(torch, rows, tokens))
    return worst, other


def with_transformers(portico, work):
    import safetensors.torch
    import torch
    import transformers

    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    print(f"transformers {transformers.__version__}")
    wrong, worst = 0, 0.0
    for path in sorted(FAMILIES.glob("*.gguf")):
        folder = work / f"{path.stem}.family"
        run(portico, "convert", path, folder)
        goldens = safetensors.torch.load_file(path.with_suffix(".safetensors"))
        model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float64).eval()
        model.config._experts_implementation = "eager"  # others have no float64
        with torch.no_grad():
            logits = model(goldens["ids"].long().reshape(1, -1)).logits[0]
        error = other_logits(torch, logits.double(), goldens["logits"].double())
        print(f"  {path.stem:20} {type(model).__name__:24} error / bound {error:.4f}")
        worst = max(worst, error)
        wrong += not error <= 1
    for name in TRAINED:
        error, other = trained_logits(portico, torch, transformers, work / f"{name}.hf", name)
        print(f"  {name:20} trained {TRAINED[name][1]:24} error / bound {error:.4f}, {other} other ids or classes")
        worst = max(worst, error)
        wrong += not error <= 1 or other
    print(f"largest error / bound {worst:.4f}; {wrong} wrong")
    return wrong


def with_llama(portico, work, command):
    wrong = characters = 0
    for name, prompt in ((n, p) for n, row in TRAINED.items() if row[2] for p in PROMPTS):
        tokens = answer(portico, f"{work / name}.gguf", prompt, 12)[1]
        # where a file names no token that ends a text, llama.cpp takes id 11 for it
        ends = [i for i, token in enumerate(tokens) if token["id"] == 11]
        ours = answer(portico, f"{work / name}.gguf", prompt, ends[0])[0] if ends and ends[0] else ""
        ours = ours if ends else answer(portico, f"{work / name}.gguf", prompt, 12)[0]
        # its text goes out from a thread of its own, whose end the program does not await: it is asked for twice as much
        for _ in range(8):
            done = subprocess.run([*command, "-m", f"{work / name}.gguf", "-p", prompt, "-n", "24", "--temp", "0",
                                   "-no-cnv", "--no-display-prompt", "-ngl", "0", "-fa", "off", "-c", "48",
                                   "--no-warmup"], stdin=subprocess.DEVNULL, capture_output=True, check=False)
            theirs = done.stdout.decode("utf-8", "replace")
            same = done.returncode == 0 and theirs.strip("\n ").startswith(ours.strip("\n "))
            if same or done.returncode:
                break
        print(f"  {name:12} {'the same text' if same else 'other'}: {ours!r}, {theirs!r}")
        if done.returncode:
            print(done.stderr.decode("utf-8", "replace")[-500:])
        wrong += not same
        characters += len(ours.strip())
    print(f"{characters} characters, {wrong} other texts")
    return wrong or characters < 50


def main(portico, peer, *command):
    command = list(command) or ["llama-completion"]
    if peer == "llama" and not shutil.which(command[0]):
        print(f"skipped: there is no {command[0]}")
        return 77
    with tempfile.TemporaryDirectory() as work:
        work = pathlib.Path(work)
        for name, (options, _, _) in TRAINED.items():
            train(portico, work, name, options)
            for end in (".gguf", ".hf"):
                run(portico, "convert", work / name, f"{work / name}{end}")
        if peer == "own":
            return own(portico, work)
        if peer == "transformers":
            return with_transformers(portico, work)
        return with_llama(portico, work, command)


if __name__ == "__main__":
    status = main(*sys.argv[1:])
    sys.exit(77 if status == 77 else status > 0)
