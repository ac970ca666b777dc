#!/usr/bin/env python3
"""Write tests/golden/images: tiny models that read images (ViT) or images and texts (CLIP) in Hugging Face's layout, with
random weights, as transformers saves them, what transformers computes with them in float64, small images in files of
several kinds, and what its image processors (with Pillow) make of them. Needs torch, transformers and Pillow.

    python3 tests/golden/make_images.py
"""

import json
import pathlib
import shutil
import sys

import numpy as np
import torch
import transformers
from PIL import Image, ImageOps

import goldens

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tokenizers"))
import kinds  # noqa: E402

OUT = HERE / "images"
EPS = 1e-3  # large, so that an epsilon that is not read shows
IMAGES = 10  # more than a batch
LENGTHS = (5, 12, 3, 8)
VOCAB = 40


def values_of(name, values):
    """Unit variance in, about unit variance out."""
    if values.ndim == 0:
        return values + 2.0
    if values.ndim == 1:
        norm = "norm" in name.lower() or "layrnorm" in name
        return 0.1 * values + (1.0 if norm and name.endswith("weight") else 0.0)
    if "position" in name or "token" in name:
        return values
    return values / np.prod(values.shape[1:]) ** 0.5


def vit(**options):
    return transformers.ViTConfig(
        **{
            "hidden_size": 24,
            "num_hidden_layers": 2,
            "num_attention_heads": 3,
            "intermediate_size": 40,
            "layer_norm_eps": EPS,
            "image_size": 12,
            "patch_size": 4,
            "attn_implementation": "eager",
            **options,
        }
    )


def clip(text, vision, **options):
    tower = {"num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 40, "layer_norm_eps": EPS}
    ends = {"bos_token_id": VOCAB - 2, "eos_token_id": VOCAB - 1, "vocab_size": VOCAB, "max_position_embeddings": 16}
    return transformers.CLIPModel(
        transformers.CLIPConfig(
            text_config={"hidden_size": 16, **tower, **ends, **text},
            vision_config={"hidden_size": 24, "image_size": 12, "patch_size": 4, **tower, **vision},
            projection_dim=20,
            attn_implementation="eager",
            **options,
        )
    )


NAMES = {0: "a cat", 1: "a dog", 2: "a \"quoted\" bird"}
MODELS = {
    "vit": lambda: transformers.ViTForImageClassification(
        vit(num_labels=3, id2label=NAMES, label2id={v: k for k, v in NAMES.items()})
    ),
    "vit_pooled": lambda: transformers.ViTModel(
        vit(qkv_bias=False, hidden_act="relu", image_size=[9, 14], patch_size=[3, 4], pooler_output_size=10)
    ),
    "clip": lambda: clip({}, {}),
    "clip_gelu": lambda: clip({"eos_token_id": 2, "hidden_act": "gelu"}, {"hidden_act": "gelu", "patch_size": 6}),
}
PROCESSORS = {
    "vit": transformers.ViTImageProcessor(size={"height": 12, "width": 12}),
    "vit_pooled": transformers.ViTImageProcessor(
        size={"height": 9, "width": 14}, resample=3, image_mean=[0.1, 0.2, 0.3], image_std=[0.9, 0.8, 0.7]
    ),
    "clip": transformers.CLIPImageProcessor(size={"shortest_edge": 14}, crop_size={"height": 12, "width": 12}),
    "clip_gelu": transformers.CLIPImageProcessor(
        size={"shortest_edge": 9}, crop_size={"height": 12, "width": 12}, resample=2, do_normalize=False
    ),
}


def texts(random, config):
    """Ids that end with the end of text, behind which comes more, which must not count."""
    end = VOCAB - 1
    ids = []
    for length in LENGTHS:
        row = random.integers(3, end, length)
        row[length - 2] = end
        ids.append(row)
    return ids


def run_clip(name, model, arrays, random):
    ids = texts(random, model.config.text_config)
    arrays[f"{name}/ids"] = np.concatenate(ids).astype(np.int32)
    arrays[f"{name}/lengths"] = np.array(LENGTHS, np.int32)
    hidden, features = [], []
    for row in ids:
        made = model.text_model(input_ids=torch.from_numpy(row)[None])
        hidden.append(made.last_hidden_state[0].numpy())
        features.append(model.text_projection(made.pooler_output)[0].numpy())
    arrays[f"{name}/text_hidden"] = np.concatenate(hidden)
    arrays[f"{name}/text_features"] = np.stack(features)


LABELS = ["a dog", "A Ham", "a leaf  on a log"]  # of letters that the tokenizer has


def clip_tokenizer(folder):
    """CLIP's kind of tokenizer, whose tokens are letters, within words and at their ends."""
    from tokenizers import Tokenizer, decoders, models, processors

    letters = "abcdefghijklmnopqrs"
    ends = ["<|startoftext|>", "<|endoftext|>"]
    vocab = {text: i for i, text in enumerate([*letters, *(c + "</w>" for c in letters), *ends])}
    assert len(vocab) == VOCAB
    made = Tokenizer(models.BPE(vocab=vocab, merges=[], end_of_word_suffix="</w>", unk_token=ends[1]))
    made.normalizer, made.pre_tokenizer = kinds.clip_words()
    made.decoder = decoders.ByteLevel()
    made.post_processor = processors.RobertaProcessing(
        (ends[1], vocab[ends[1]]), (ends[0], vocab[ends[0]]), trim_offsets=False, add_prefix_space=False
    )
    made.add_special_tokens(ends)
    made.save(str(folder / "tokenizer.json"))
    return made


def run_files(name, model, pixels, arrays, folder):
    """What the whole way from a file makes: scores of labels, or features."""
    pixels = torch.from_numpy(pixels).double()
    if name == "vit":
        arrays[f"{name}/file_scores"] = model(pixel_values=pixels).logits.softmax(-1).numpy()
    elif name == "vit_pooled":
        arrays[f"{name}/file_features"] = model(pixel_values=pixels).pooler_output.numpy()
    else:
        tokenizer = clip_tokenizer(folder)
        words = [
            model.text_projection(
                model.text_model(input_ids=torch.tensor([tokenizer.encode(label).ids])).pooler_output
            )[0]
            for label in LABELS
        ]
        features = model.visual_projection(model.vision_model(pixel_values=pixels).pooler_output)
        arrays[f"{name}/file_features"] = features.numpy()
        arrays[f"{name}/label_features"] = torch.stack(words).numpy()
        cosines = torch.nn.functional.cosine_similarity(features[:, None], torch.stack(words)[None], dim=-1)
        arrays[f"{name}/file_scores"] = (cosines * model.logit_scale.exp()).softmax(-1).detach().numpy()


def picture(height, width, seed, channels=3):
    """Waves and some noise: neither smooth nor flat."""
    random = np.random.default_rng(seed)
    y, x = np.mgrid[0:height, 0:width]
    layers = [
        127 + 90 * np.sin(x / (3 + c) + seed) * np.cos(y / (5 - c)) + 30 * random.standard_normal((height, width))
        for c in range(channels)
    ]
    return np.clip(np.stack(layers, -1), 0, 255).astype(np.uint8)


def files():
    folder = OUT / "files"
    folder.mkdir()
    rgb = picture(37, 53, 1)
    Image.fromarray(rgb).save(folder / "rgb.png")
    Image.fromarray(rgb).save(folder / "rgb.ppm")
    Image.fromarray(picture(53, 37, 2)).save(folder / "rgb.jpg", quality=92)
    Image.fromarray(picture(30, 20, 9)).save(folder / "progressive.jpg", quality=80, progressive=True)
    Image.fromarray(picture(5, 7, 3)).save(folder / "small.png")
    grey = picture(40, 21, 4, 1)[..., 0]
    Image.fromarray(grey).save(folder / "grey.png")
    Image.fromarray(grey).save(folder / "grey.pgm")
    Image.fromarray(grey).save(folder / "grey.jpg")
    Image.fromarray(grey > 127).save(folder / "bits.pbm")
    Image.fromarray(picture(11, 90, 5, 4)).save(folder / "rgba.png")
    Image.fromarray(picture(24, 24, 6)).quantize(16).save(folder / "palette.png")
    Image.fromarray(picture(19, 26, 7, 4), "CMYK").save(folder / "cmyk.jpg", quality=90)
    for way in range(2, 9):  # the ways that EXIF knows to store an image
        exif = Image.Exif()
        exif[0x0112] = way
        Image.fromarray(picture(6, 9, 8)).save(folder / f"way{way}.{'jpg' if way == 6 else 'png'}", exif=exif)
    (folder / "text.ppm").write_text("P3 # words\n2 3\n15\n" + " ".join(str(i % 16) for i in range(18)) + "\n")
    return sorted(p.name for p in folder.iterdir())


def main():
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir()
    arrays, pictures, cases = {}, {}, []
    names = files()
    rgb = {name: np.array(ImageOps.exif_transpose(Image.open(OUT / "files" / name)).convert("RGB")) for name in names}
    for name in names:
        pictures[f"files/{name}"] = rgb[name]
    names = [name for name in names if not name.startswith("way")]
    for seed, (name, make) in enumerate(MODELS.items()):
        model = make().double().eval()
        goldens.random_weights(model, seed, values_of)
        folder = OUT / name
        model.float().save_pretrained(folder)
        model.double()
        processor = PROCESSORS[name]
        processor.save_pretrained(folder)
        for file in names:
            made = processor(Image.fromarray(rgb[file]), return_tensors="np")["pixel_values"][0]
            assert made.dtype == np.float32
            pictures[f"{name}/processed/{file}"] = made
        tower = model.vision_model if name.startswith("clip") else getattr(model, "vit", model)
        config = tower.config
        size = config.image_size if isinstance(config.image_size, (list, tuple)) else [config.image_size] * 2
        random = np.random.default_rng(100 + seed)
        pixels = random.standard_normal((IMAGES, 3, *size)).astype(np.float32)
        arrays[f"{name}/pixels"] = pixels
        with torch.no_grad():
            seen = tower(pixel_values=torch.from_numpy(pixels).double())
            hidden = seen.last_hidden_state
            if name.startswith("clip"):
                run_clip(name, model, arrays, random)
                hidden = tower.post_layernorm(hidden)
                arrays[f"{name}/features"] = model.visual_projection(seen.pooler_output).numpy()
            elif name == "vit":
                arrays[f"{name}/classes"] = model(pixel_values=torch.from_numpy(pixels).double()).logits.numpy()
            else:
                arrays[f"{name}/features"] = seen.pooler_output.numpy()
            arrays[f"{name}/hidden"] = hidden.numpy()
            processed = np.stack([pictures[f"{name}/processed/{file}"] for file in names])
            run_files(name, model, processed, arrays, folder)
        assert arrays[f"{name}/hidden"].dtype == np.float64
        cases.append({"name": name})
    goldens.save(OUT / "goldens.safetensors", arrays, "images", cases)
    goldens.save(OUT / "files.safetensors", pictures, "arrays")


main()
