"""The README's table of models: write DEVICE=LOG... makes it from logs of meson's tests, check compares it with the
library's families and the models in tests/golden."""
import collections
import glob
import json
import pathlib
import re
import struct
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
README = ROOT / "README.md"
BEGIN, END = "<!-- models: made by scripts/models-table -->\n", "<!-- models: the end -->\n"
FOLDER, GGUF = "folder", "GGUF"

# What people call the families of core/models/family_*.c, in the order of the table.
TITLES = {
    "llama": "Llama 1 to 3, SmolLM2", "mistral": "Mistral", "mixtral": "Mixtral", "qwen2": "Qwen2, Qwen2.5",
    "qwen3": "Qwen3", "qwen3moe": "Qwen3 with experts", "gemma2": "Gemma 2", "gemma3": "Gemma 3 (text)",
    "phi3": "Phi-3, Phi-4", "smollm3": "SmolLM3", "olmo2": "OLMo 2", "starcoder2": "StarCoder2", "falcon": "Falcon",
    "gptneox": "GPT-NeoX, Pythia", "gpt2": "GPT-2", "bert": "BERT", "roberta": "RoBERTa, XLM-RoBERTa, CamemBERT",
    "distilbert": "DistilBERT", "albert": "ALBERT", "mpnet": "MPNet", "vit": "ViT", "clip": "CLIP",
    "bart": "BART", "marian": "Marian", "encoder_decoder": "Pairs (EncoderDecoderModel of MegatronBERT and Blenderbot)",
    "t5": "T5, T5 1.1", "whisper": "Whisper",
    "ctranslate2": "Encoder-decoders of CTranslate2 (TransformerSpec, Base, Big)",
    "transformer": "the notebooks' transformer: any norm, positions, activation",
}
SAME = {"xlm_roberta": "roberta", "camembert": "roberta", "clip_text": "clip", "clip_vision": "clip"}  # whose models are compared for them
IN_GGUF = {"llama-mixtral": "mixtral"}
NOTEBOOKS = ("model_", "original_", "modern_")  # whole models among the cases of tests/golden/notebook_*


def family_of(model):
    if model in IN_GGUF:
        return IN_GGUF[model]
    return max((f for f in TITLES if model == f or re.match(re.escape(f) + r"[-_]", model)), key=len)


def cases(path):
    with open(path, "rb") as file:
        size, = struct.unpack("<Q", file.read(8))
        return [case["name"] for case in json.loads(json.loads(file.read(size))["__metadata__"]["cases"])]


def tested():
    """(family, files) -> how many tiny models the tests compare, without Llama's GGUF, which a test builds itself."""
    count = collections.Counter()
    for path in glob.glob(str(ROOT / "tests/golden/hub/*.safetensors")):
        count[pathlib.Path(path).stem, FOLDER] += len(cases(path))
    for path in glob.glob(str(ROOT / "tests/golden/families/*.safetensors")):
        count[family_of(pathlib.Path(path).stem), GGUF] += 1
    for folder in ("encoders", "images", "seq2seq", "speech"):
        for name in cases(ROOT / f"tests/golden/{folder}/goldens.safetensors"):
            count[family_of(name), FOLDER] += 1
    count["transformer", FOLDER] = len(own_cases())
    return count


def own_cases():
    names = cases(ROOT / "tests/golden/seq2seq_matrix.safetensors")
    for path in sorted(glob.glob(str(ROOT / "tests/golden/notebook_*.safetensors"))):
        names += [name for name in cases(path) if name.startswith(NOTEBOOKS)]
    return names


def measured(log):
    """(family, files) -> {model: its largest error over the bound}, of one device; and tests that did not pass."""
    found, wrong = collections.defaultdict(dict), []
    kinds = {"hub_all": FOLDER, "families": GGUF, "encoders": FOLDER, "images": FOLDER, "seq2seq": FOLDER, "speech": FOLDER, "llama": GGUF}
    for line in open(log, encoding="utf-8"):
        test = json.loads(line)
        name = test["name"].split(" / ")[-1]
        if test["result"] != "OK":
            wrong.append(f"{name}: {test['result']}")
            continue
        for model, errors in re.findall(r"^  (?!cut)(.+?) +error / bound (.*)$", test["stdout"], re.M):
            worst = max(float(x) for x in re.findall(r"\d+\.\d+", errors))
            if name == "goldens":
                if model in own_cases():
                    found["transformer", FOLDER][model] = worst
            elif name in kinds:
                found["llama" if name == "llama" else family_of(model), kinds[name]][model] = worst
        if name == "aren" and "largest difference" in test["stdout"]:
            found["ctranslate2", FOLDER] = {model: float(x) / 1e-5 for model, x in
                                         re.findall(r"^  (\w+): largest difference (\S+)$", test["stdout"], re.M)}
    return found, wrong


def write(logs):
    devices, rows = [], collections.defaultdict(dict)
    for device, log in (argument.split("=", 1) for argument in logs):
        found, wrong = measured(log)
        wrong = [w for w in wrong if not w.endswith("SKIP")]
        if wrong:
            sys.exit(f"models-table: on {device}, {', '.join(wrong)}")
        devices.append(device.split(":")[1] if not device.startswith("cpu") else device)
        for key, models in found.items():
            rows[key][devices[-1]] = models
    lines = [BEGIN, "| family | folders | GGUF | " + " | ".join(devices) + " |\n", "|---|" + "--:|" * (2 + len(devices)) + "\n"]
    for family, title in TITLES.items():
        counts = [max((len(models) for models in rows[family, files].values()), default="") for files in (FOLDER, GGUF)]
        worst = [max((error for files in (FOLDER, GGUF) for error in rows[family, files].get(device, {}).values()),
                     default=None) for device in devices]
        cells = counts + ["" if error is None else f"{error:.3f}" for error in worst]
        lines.append("| " + " | ".join(map(str, [title] + cells)) + " |\n")
    lines.append(END)
    text = README.read_text(encoding="utf-8")
    before, rest = text.split(BEGIN)
    README.write_text(before + "".join(lines) + rest.split(END)[1], encoding="utf-8")
    print(f"{len(lines) - 4} rows for {len(devices)} devices are in README.md")


def check():
    families = set()
    for path in glob.glob(str(ROOT / "core/models/family_*.c")):
        text = pathlib.Path(path).read_text(encoding="utf-8").replace("encoder-decoder", "encoder_decoder")
        families |= set(re.findall(r'pco_family \w+ = \{\s*\.name = "([\w-]+)"', text))
    if len(families) < 20:
        sys.exit(f"only {len(families)} families were found in core/models")
    wrong = [f"{f} of core/models has no title in scripts/models_table.py" for f in sorted(families) if SAME.get(f, f) not in TITLES]
    text = README.read_text(encoding="utf-8").split(BEGIN)[1].split(END)[0]
    shown = {}
    for line in text.splitlines()[2:]:
        title, folders, gguf = [cell.strip() for cell in line.split("|")[1:4]]
        shown[title] = {FOLDER: int(folders or 0), GGUF: int(gguf or 0)}
    for (family, files), count in sorted(tested().items()):
        there = shown.get(TITLES[family], {}).get(files)
        if there != count:
            wrong.append(f"tests compare {count} of {family} ({files}), README.md says {there}")
    for family in TITLES:
        if TITLES[family] not in shown:
            wrong.append(f"README.md has no row of {family}")
    if wrong:
        sys.exit("\n".join(wrong) + "\nscripts/models-table makes the table anew")
    print(f"{len(shown)} rows, {len(families)} families")


if __name__ == "__main__":
    if sys.argv[1:] == ["check"]:
        check()
    elif sys.argv[1:2] == ["write"] and len(sys.argv) > 2:
        write(sys.argv[2:])
    else:
        sys.exit(__doc__)
