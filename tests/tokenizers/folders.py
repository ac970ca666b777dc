"""Folders in Hugging Face's older layouts, without a tokenizer.json, as people have them: vocab.txt, vocab.json with
merges.txt, models of SentencePiece; and what stands beside them. Needs `tokenizers` and `sentencepiece`."""
import json

import kinds
import pieces


def token(text, **flags):
    return {"content": text, "lstrip": False, "normalized": False, "rstrip": False, "single_word": False, **flags}


def write(folder, name, content):
    with open(folder / name, "w", encoding="utf-8") as out:
        out.write(content if isinstance(content, str) else json.dumps(content, ensure_ascii=False))


def bert(folder, lower=True, **config):
    made = dict(kinds.kinds())["wordpiece" if lower else "wordpiece_cased"]
    vocab = made.get_vocab(with_added_tokens=False)
    write(folder, "vocab.txt", "".join(text + "\n" for text in sorted(vocab, key=vocab.get)) + "[MASK]\n")
    write(folder, "tokenizer_config.json", {"tokenizer_class": "BertTokenizer", "do_lower_case": lower,
                                            "model_max_length": 512, **config})
    write(folder, "special_tokens_map.json", {"unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]",
                                              "pad_token": "[PAD]", "mask_token": token("[MASK]")})


def byte_level(folder, kind, front, **config):
    saved = json.loads(dict(kinds.kinds())[kind].to_str())
    vocab = {text: i for i, text in enumerate(front)}
    for text, i in saved["model"]["vocab"].items():
        vocab[text] = i + len(front)
    merges = [m if isinstance(m, str) else " ".join(m) for m in saved["model"]["merges"]]
    write(folder, "vocab.json", vocab)
    write(folder, "merges.txt", "#version: 0.2\n" + "".join(m + "\n" for m in merges))
    write(folder, "tokenizer_config.json", config)
    return len(vocab)


def gpt2(folder):
    byte_level(folder, "byte_level", ["<|endoftext|>"], tokenizer_class="GPT2Tokenizer", bos_token="<|endoftext|>",
               eos_token="<|endoftext|>", unk_token="<|endoftext|>", model_max_length=1024)


def gpt2_prefix(folder):
    count = byte_level(folder, "byte_level_prefix", ["<|endoftext|>"], tokenizer_class="GPT2Tokenizer",
                       add_prefix_space=True, bos_token="<|endoftext|>", eos_token="<|endoftext|>",
                       unk_token="<|endoftext|>")
    write(folder, "added_tokens.json", {"<|end|>": count, "[MASK]": count + 1})


def roberta(folder):
    byte_level(folder, "byte_level", ["<s>", "<pad>", "</s>", "<unk>", "<mask>"], tokenizer_class="RobertaTokenizer",
               bos_token="<s>", cls_token="<s>", eos_token="</s>", sep_token="</s>", unk_token="<unk>",
               pad_token="<pad>", mask_token={**token("<mask>", lstrip=True), "__type": "AddedToken"})


def qwen2(folder):
    count = byte_level(folder, "byte_level_gpt4", [])
    decoder = {str(count): token("<|endoftext|>", special=True), str(count + 1): token("<|end|>", special=True),
               str(count + 2): token("word1", special=False)}
    write(folder, "tokenizer_config.json", {"tokenizer_class": "Qwen2Tokenizer", "added_tokens_decoder": decoder,
                                            "eos_token": "<|end|>", "pad_token": "<|endoftext|>", "unk_token": None,
                                            "model_max_length": 32768})


def clip(folder):
    byte_level(folder, "clip", [], tokenizer_class="CLIPTokenizer", bos_token="<|startoftext|>", eos_token="<|endoftext|>",
               unk_token="<|endoftext|>", pad_token="<|endoftext|>", model_max_length=77)


def t5(folder):
    with open(folder / "spiece.model", "wb") as out:
        out.write(pieces.train("t5"))
    write(folder, "tokenizer_config.json", {"tokenizer_class": "T5Tokenizer", "extra_ids": 0, "eos_token": "</s>",
                                            "additional_special_tokens": [], "unk_token": "<unk>"})


def llama(folder):
    with open(folder / "tokenizer.model", "wb") as out:
        out.write(pieces.train("bpe_bytes"))
    decoder = {"0": token("<unk>", special=True), "1": token("<s>", special=True), "2": token("</s>", special=True)}
    write(folder, "tokenizer_config.json", {"tokenizer_class": "LlamaTokenizer", "add_bos_token": True,
                                            "add_eos_token": False, "bos_token": "<s>", "eos_token": "</s>",
                                            "unk_token": "<unk>", "legacy": False, "added_tokens_decoder": decoder})


def marian(folder, models=("unigram", "bpe"), separate=False):
    """Two models of SentencePiece, and a vocabulary of its own: other numbers, some pieces left out, languages, and
    characters that no model has."""
    import sentencepiece

    names = []
    for file, model in zip(("source.spm", "target.spm"), models):
        made = pieces.train(model, 250)
        (folder / file).write_bytes(made)
        of_model = sentencepiece.SentencePieceProcessor(model_proto=made)
        names.append([of_model.id_to_piece(i) for i in range(of_model.get_piece_size())])
    for side in range(2):
        chosen = set(names[side] if separate else names[0] + names[1]) - {"<s>", "</s>", "<unk>", "<pad>"}
        chosen = sorted(piece for i, piece in enumerate(sorted(chosen)) if i % 9)  # some are left out
        front = ["</s>", "<unk>", ">>fra<<", ">>nob<<"] + ["\u2581", "噴", "頒噴", "\U0001F642", "ₐ", "<s>"][side * separate:]
        vocab = {text: i for i, text in enumerate(dict.fromkeys(front + chosen[::-1] + ["<pad>"]))}
        if side == 0 or separate:
            write(folder, "target_vocab.json" if side else "vocab.json", vocab)
    write(folder, "tokenizer_config.json", {"tokenizer_class": "MarianTokenizer", "separate_vocabs": separate,
                                            "source_lang": "eng", "target_lang": "fra", "model_max_length": 512})


# The last has a table that is too large to be kept as a golden.
MARIAN = {"marian": marian, "marian_separate": lambda f: marian(f, ("unigram_bare", "unigram"), True),
          "marian_nmt": lambda f: marian(f, ("unigram_nmt", "unigram_fold"))}
LANGUAGES = [">>fra<< a b", ">>fra<<", ">>xyz<< word", " >>fra<< not at the start", ">>a b<< c>>fra<<", "a >>nob<< b", ">>\n<<x",
             ">><<", ">>", "", "噴頒噴 頒噴", "<s>a</s>"]

def marian_ids(tokenizer, texts):
    """Of each side texts, the ids that transformers makes of them, and the texts of the ids."""
    texts = LANGUAGES + texts
    # Special tokens that a text spells out become ids only where Portico is asked for that.
    texts = [text for text in texts if not any(token in text for token in tokenizer.all_special_tokens)]
    yield texts, tokenizer(texts, verbose=False)["input_ids"], None
    ids = tokenizer(text_target=texts, verbose=False)["input_ids"]
    yield texts, ids, tokenizer.batch_decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)


FOLDERS = {"bert": bert, "bert_cased": lambda f: bert(f, False), "bert_accents": lambda f: bert(f, strip_accents=False),
           "gpt2": gpt2, "gpt2_prefix": gpt2_prefix, "roberta": roberta, "qwen2": qwen2, "clip": clip}

# `transformers` makes a tokenizer.json of these, which reads some strings otherwise than the model was trained: its
# table works by grapheme, and a text that begins with a blank gets none in front. They have the ids of `sentencepiece`,
# with these around them.
PIECES = {"t5": (t5, "spiece.model", [], [1]), "llama": (llama, "tokenizer.model", [1], [])}
