"""portico.load: text, tokens, logits, and what is said when something is wrong."""
import ctypes
import gc
import json
import os
import re
import signal
import struct
import threading
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

import portico
from bounds import held, over_bound

DATES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "models", "dates")


@pytest.fixture(scope="module")
def dates():
    with portico.load(DATES) as model:
        yield model


@pytest.fixture
def interrupts():
    """SIGINT ends what runs, as at a terminal: a shell starts what is to run beside it with the signal ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_generates_in_pieces(dates):
    pieces = list(dates.generate("THE 21ST OF OCTOBER, 2038"))
    assert "".join(pieces) == "2038-10-21" and len(pieces) > 1
    assert dates.last_stats.stop_reason == "end" and dates.last_stats.generated_tokens >= len(pieces)


def test_no_more_is_computed_than_asked_for(dates):
    iterator = dates.generate("3 Sep 51")
    assert "2051-09-03".startswith(next(iterator))
    iterator.close()
    assert dates.last_stats.stop_reason == "callback" and dates.last_stats.generated_tokens < 10
    assert "".join(dates.generate("3 Sep 51")) == "2051-09-03"
    assert "portico.generate" not in [thread.name for thread in threading.enumerate()]


def test_calls_while_generating_do_not_hang(dates):
    iterator = dates.generate("3 Sep 51")
    first = next(iterator)
    with pytest.raises(portico.InvalidError, match="being generated"):
        dates.encode("x")
    assert first + "".join(iterator) == "2051-09-03"
    assert dates.encode("3")


def test_text_and_ids(dates):
    ids = dates.encode("3 Sep 51", special=False)
    assert ids and all(isinstance(i, int) for i in ids)
    assert dates.info["parameters"] > 0 and dates.info["device"]


def test_decoder_text_ids_and_logits():
    path = os.path.join(DATES, "..", "..", "tests", "golden", "families", "qwen2.gguf")
    with portico.load(path, device="cpu:reference") as reference, portico.load(path) as model:
        ids = list(range(5))
        want, got = reference.logits(ids), model.logits(ids)
        assert got.shape == (5, model.info["vocab_size"])
        assert over_bound(got, want) <= 1
        assert isinstance(model.decode(ids), str)


def test_generates_a_batch(dates):
    prompts = ["THE 21ST OF OCTOBER, 2038", "3 Sep 51", "", "4 July 2031"]
    assert dates.generate_batch(prompts) == ["".join(dates.generate(p)) for p in prompts]
    assert dates.generate_batch(prompts) and [s.stop_reason for s in dates.last_stats] == ["end"] * 4
    assert dates.generate_batch([]) == [] and dates.last_stats == []
    assert dates.generate_batch("3 Sep 51", max_tokens=4) == ["2051"]
    with pytest.raises(portico.InvalidError, match="max_tokens"):
        dates.generate_batch(prompts, max_tokens=-1)


def test_a_batch_is_interrupted(monkeypatch, interrupts):
    path = os.path.join(DATES, "..", "..", "tests", "golden", "families", "qwen2.gguf")
    with portico.load(path, sequences=4) as model:
        generate = portico._models.native.model_generate_batch

        def begun(*arguments):
            threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
            return generate(*arguments)
        monkeypatch.setattr(portico._models.native, "model_generate_batch", begun)
        with pytest.raises(KeyboardInterrupt):  # where the callback begins that C calls then, nobody would hear of it
            model.generate_batch(["one two three four five six"] * 20000)
        monkeypatch.undo()
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
        assert len(model.generate_batch(["eight"], max_tokens=2)) == 1


def test_a_batch_shares_what_prompts_begin_with():
    path = os.path.join(DATES, "..", "..", "tests", "golden", "families", "qwen2.gguf")
    prompts = ["one two three four five six", "one two three four five seven", "eight"]
    options = {"max_tokens": 8, "temperature": 1.0, "seed": 3}
    with portico.load(path, sequences=3) as model, portico.load(path) as alone:
        assert model.info["sequences"] == 3
        assert model.generate_batch(prompts, **options) == ["".join(alone.generate(p, **options)) for p in prompts]
        assert [s.generated_tokens for s in model.last_stats] == [8, 8, 8]
        assert model.last_stats[1].shared_tokens > 0 and model.last_stats[2].shared_tokens == 0
        assert "".join(model.generate("eight", max_tokens=2))  # the caches are free again


def test_how_tokens_are_drawn():
    """Each limit against what it means for the logits, which last_tokens has."""
    path = os.path.join(DATES, "..", "..", "tests", "golden", "families", "qwen2.gguf")
    with portico.load(path, context_length=64) as model:
        size = model.info["vocab_size"]

        def drawn(**options):
            text = "".join(model.generate("one two", max_tokens=24, logprobs=size, **options))
            return text, model.last_tokens
        greedy, tokens = drawn()
        assert len(tokens) == model.last_stats.generated_tokens
        for token in tokens:
            logprobs = [t.logprob for t in token.top]
            assert token.id == token.top[0].id and len(token.top) == size and logprobs == sorted(logprobs, reverse=True)
            assert abs(sum(np.exp(logprobs)) - 1) < 1e-6 and token.top[0].top == ()
        # the first are those of the model's own logits
        ids = model.encode("one two")
        logits = model.logits(ids)[-1].astype(np.float64)
        want = logits - np.log(np.exp(logits - logits.max()).sum()) - logits.max()
        assert max(abs(t.logprob - want[t.id]) for t in tokens[0].top) < 1e-4
        for seed in range(3):  # each drawn token is one of those that the limit leaves
            for token in drawn(temperature=2.0, min_p=0.5, seed=seed)[1]:
                scaled = (token.logprob - token.top[0].logprob) / 2.0
                assert scaled >= np.log(0.5) - 1e-5
            for token in drawn(temperature=2.0, top_k=2, seed=seed)[1]:
                assert token.id in [t.id for t in token.top[:2]]
        assert drawn(temperature=1.0, typical_p=0.1, seed=1)[0] != drawn(temperature=1.0, seed=1)[0]
        # penalties: nothing that was generated comes again
        for options in ({"presence_penalty": 1000}, {"frequency_penalty": 1000}):
            ids = [t.id for t in drawn(**options)[1]]
            assert len(set(ids)) == len(ids)
        assert len({t.id for t in tokens}) < len(tokens)  # as it does without
        assert drawn(repetition_penalty=1000)[0] != greedy
        assert drawn(presence_penalty=1000, repeat_last_n=1)[0] != drawn(presence_penalty=1000)[0]
        # a text ends before a stop string
        stop = next(c for c in greedy if c.isascii() and c.isalnum() and c != greedy[0])
        assert drawn(stop_strings=stop)[0] == greedy[:greedy.index(stop)] == drawn(stop_strings=["never", stop])[0]
        assert model.last_stats.stop_reason == "stop"
        # the context is full, and it goes on
        long = "".join(model.generate("one two", max_tokens=90, context_shift=True, keep=2))
        assert model.last_stats.generated_tokens > 64 or model.last_stats.stop_reason == "end", long
        list(model.generate("one two", max_tokens=2))
        assert model.last_tokens is None
        assert "".join(model.chat([{"role": "user", "content": "x"}], template=CHAT, max_tokens=4, logprobs=1)) is not None
        assert all(len(t.top) == 1 for t in model.last_tokens)


GOLDEN = os.path.join(DATES, "..", "..", "tests", "golden")
QWEN2 = os.path.join(GOLDEN, "families", "qwen2.gguf")


@pytest.mark.parametrize("cache_type, share", [("f16", 1 / 2), ("q8_0", 17 / 64)])
def test_cache_type(cache_type, share):
    """What the type is said to take, of the bytes that f32 takes; and the same likeliest token first."""
    path = os.path.join(GOLDEN, "..", "parity", "llama-q4_1.gguf")
    with portico.load(path) as model, portico.load(path, cache_type=cache_type) as small:
        list(model.generate("the", max_tokens=1, logprobs=1))
        list(small.generate("the", max_tokens=1, logprobs=1))
        assert small.last_tokens[0].id == model.last_tokens[0].id
        assert small.info["state_bytes"] == model.info["state_bytes"] * share


def test_grammar_and_schema():
    with portico.load(QWEN2, context_length=256) as model:
        for seed in range(3):
            how = {"temperature": 1.5, "seed": seed, "max_tokens": 200}
            assert re.fullmatch("(ab|c)+d", "".join(model.generate("x", grammar='root ::= ("ab" | "c")+ "d"', **how)))
            assert model.last_stats.stop_reason == "end"
        schema = {"type": "object", "required": ["on", "in"],
                  "properties": {"on": {"type": "boolean"}, "in": {"enum": ["red", "green"]}}}
        for given in (schema, json.dumps(schema)):
            value = json.loads("".join(model.generate("x", json_schema=given, max_tokens=200)))
            assert list(value) == ["on", "in"] and value["on"] in (True, False) and value["in"] in ("red", "green")
        talk = [{"role": "user", "content": "x"}]
        assert "".join(model.chat(talk, template=CHAT, max_tokens=9, grammar='root ::= "yes" | "no"')) in ("yes", "no")


def test_draft():
    with portico.load(QWEN2, context_length=128) as model, portico.load(QWEN2, context_length=128) as twin:
        for options in ({}, {"temperature": 1.2, "seed": 5}):
            alone = "".join(model.generate("one two", max_tokens=24, **options))
            assert model.last_stats.drafted_tokens == model.last_stats.accepted_tokens == 0
            assert "".join(model.generate("one two", max_tokens=24, draft=twin, draft_tokens=3, **options)) == alone
            stats = model.last_stats
            assert stats.drafted_tokens == stats.accepted_tokens > 0  # a twin never errs
        talk = [{"role": "user", "content": "x"}]
        alone = "".join(model.chat(talk, template=CHAT, max_tokens=12))
        assert "".join(twin.chat(talk, template=CHAT, max_tokens=12)) == alone  # the draft has a talk of its own
        assert "".join(model.chat(talk, template=CHAT, max_tokens=12, draft=twin)) == alone
        assert "".join(model.generate("one two", max_tokens=90, context_shift=True, keep=1)) is not None
    with pytest.raises(portico.InvalidError, match="closed"):
        twin.generate("x", draft=model)


def test_beam_search(dates):
    """The texts and scores of transformers are in tests/models/test_beams.c; here is what Python says of them."""
    (best,) = dates.beam_search("3 May 2021")
    assert best.text == "2021-05-03" and best.stop_reason == "end" and dates.decode(best.ids) == best.text
    beams = dates.beam_search("3 May 2021", beams=3, returned=3, length_penalty=0)
    assert beams[0].text == best.text and len({b.text for b in beams}) == 3
    assert [b.score for b in beams] == sorted((b.score for b in beams), reverse=True)
    for beam in beams:
        assert beam.score == beam.logprob <= 0  # no penalty: the sum of what each token is worth
        assert isinstance(beam.ids, list)
    halved = dates.beam_search("3 May 2021", beams=3, length_penalty=0.5, early_stopping=True)[0]
    assert abs(halved.score - halved.logprob / (len(halved.ids) + 1) ** 0.5) <= 1e-12 * abs(halved.score)  # and EOS
    assert dates.beam_search("3 May 2021", max_tokens=4, early_stopping="never")[0].stop_reason == "max_tokens"
    assert dates.beam_search("3 May 2021", prefix="1999")[0].text.startswith("1999")
    counts = []
    dates.beam_search("3 May 2021", progress=counts.append)
    assert counts == list(range(1, 1 + len(counts))) and counts

    def throws(tokens):
        raise KeyError("of the callback")
    with pytest.raises(KeyError, match="of the callback"):
        dates.beam_search("3 May 2021", progress=throws)
    with pytest.raises(portico.CancelledError):
        dates.beam_search("3 May 2021", progress=lambda tokens: tokens == 2)


def test_transcribes(interrupts):
    folder = os.path.join(GOLDEN, "speech")
    path = os.path.join(folder, "sound.wav")
    with open(path, "rb") as file:
        samples = np.frombuffer(file.read()[44:], "<i2").astype(np.float32) / 32768
    with portico.load(os.path.join(folder, "whisper"), device="cpu") as model:
        heard = []
        pieces = model.transcribe(path, language="de", timestamps=True, progress=lambda *at: heard.append(at))
        assert pieces and pieces == model.transcribe(samples, language="de", timestamps=True)
        assert all(p.language == "de" and 0 <= p.begin <= p.end <= 2.4 and p.ids and p.logprob < 0 for p in pieces)
        assert heard[0] == (0, 2.4) and len(heard) > 3
        assert model.transcribe(samples, max_tokens=1) == []  # a time and no text
        with pytest.raises(portico.InvalidError, match="it knows de, en, zh"):
            model.transcribe(samples, language="xx")
        with pytest.raises(portico.InvalidError, match="shape"):
            model.transcribe(samples.reshape(2, -1))
        with pytest.raises(portico.InvalidError, match="int16"):
            model.transcribe((samples * 32768).astype(np.int16))
        with pytest.raises(portico.CancelledError):
            model.transcribe(samples, progress=lambda *at: True)
        with pytest.raises(KeyboardInterrupt):
            model.transcribe(samples, progress=lambda *at: signal.raise_signal(signal.SIGINT))
        with pytest.raises(portico.FileError):
            model.transcribe("/nowhere.wav")
    with portico.load(DATES, device="cpu") as model, pytest.raises(portico.UnsupportedError, match="reads text"):
        model.transcribe(samples)


def test_images():
    folder = os.path.join(GOLDEN, "images")
    paths = [os.path.join(folder, "files", name) for name in ("rgb.ppm", "text.ppm")]
    with open(paths[0], "rb") as file:
        width, height = map(int, re.match(rb"P6\s+(\d+) (\d+)", file.read(20)).groups())
        file.seek(-3 * width * height, os.SEEK_END)
        array = np.frombuffer(file.read(), np.uint8).reshape(height, width, 3)
    with portico.load(os.path.join(folder, "vit"), device="cpu") as model:
        first, second = model.classify(paths)
        assert list(first)[0] == "a cat" and sorted(first) == ['a "quoted" bird', "a cat", "a dog"]
        assert list(first.values()) == sorted(first.values(), reverse=True)
        assert abs(sum(second.values()) - 1) < 1e-6
        assert model.classify(array) == model.classify(paths[0]) == model.classify([array])[0]
        assert model.embed_images(paths).shape == (2, 24) and model.embed_images(array).shape == (24,)
        assert model.classify([]) == []
        with pytest.raises(portico.UnsupportedError, match="reads no texts"):
            model.classify(array, ["a"])
        with pytest.raises(portico.UnsupportedError, match="no text"):
            model.embed("a dog")
        with pytest.raises(portico.InvalidError, match="shape"):
            model.classify(array[0])
        with pytest.raises(portico.InvalidError, match="float32"):
            model.classify(array.astype(np.float32))
        with pytest.raises(portico.FileError):
            model.classify(paths + ["/nowhere.png"])
        with pytest.raises(portico.CancelledError):
            model.classify(paths, progress=lambda done, count: True)
        with pytest.raises(ZeroDivisionError):
            model.embed_images(paths, progress=lambda done, count: 1 / 0)


def test_labels_of_one_name(tmp_path):
    vit = os.path.join(GOLDEN, "images", "vit")
    path = os.path.join(GOLDEN, "images", "files", "rgb.ppm")
    for name in os.listdir(vit):
        (tmp_path / name).write_bytes(open(os.path.join(vit, name), "rb").read())
    config = json.loads((tmp_path / "config.json").read_text())
    config["id2label"] = {number: "crane" if name != "a dog" else name for number, name in config["id2label"].items()}
    (tmp_path / "config.json").write_text(json.dumps(config))
    with portico.load(vit, device="cpu") as model, portico.load(tmp_path, device="cpu") as twins:
        want, found = model.classify(path), twins.classify(path)
        assert list(found) == ["crane", "a dog"] and found == {"crane": want["a cat"], "a dog": want["a dog"]}


def test_texts_and_images_of_one_space():
    folder = os.path.join(GOLDEN, "images")
    path = os.path.join(folder, "files", "rgb.ppm")
    with portico.load(os.path.join(folder, "clip"), device="cpu") as model:
        texts, image = model.embed(["a dog", "a leaf"], normalize=True), model.embed_images(path, normalize=True)
        assert texts.shape == (2, 20) and image.shape == (20,) and abs(float(image @ image) - 1) < 1e-6
        # a text alone is another shape, whose sums may go in another order: 20 roundings of numbers below 1
        assert np.allclose(model.embed("a leaf", normalize=True), texts[1], rtol=0, atol=20 * 2**-23)
        found = model.classify(path, ["a dog", "a leaf"])
        assert sorted(found) == ["a dog", "a leaf"] and list(found)[0] == ["a dog", "a leaf"][int(np.argmax(texts @ image))]
        assert model.embed("a dog", pooling="mean").shape == (16,)
        with pytest.raises(portico.InvalidError, match="pooling"):
            model.embed("a dog", pooling="max")
        with pytest.raises(portico.UnsupportedError, match="it needs labels"):
            model.classify(path)
    with portico.load(DATES, device="cpu") as model, pytest.raises(portico.UnsupportedError, match="reads no images"):
        model.embed_images(path)


def test_structs_are_those_of_the_library():
    """Places of what ctypes was told, against the interface that is recorded from the compiler's words. Members that have
    come since are at the ends of structs that begin with their size (docs/abi.md)."""
    abi = ElementTree.parse(os.path.join(GOLDEN, "..", "abi", "libportico.abi")).getroot()
    known = {c.get("name"): c for c in abi.iter("class-decl") if c.get("size-in-bits")}
    native = portico._native
    pairs = {"pco_generate_params": native.GenerateParams, "pco_generate_stats": native.GenerateStats,
             "pco_beam_params": native.BeamParams, "pco_beam": native.Beam, "pco_model_params": native.ModelParams,
             "pco_token": native.Token, "pco_chat_params": native.ChatParams, "pco_model_info": native.ModelInfo,
             "pco_context_params": native.ContextParams, "pco_device_info": native.DeviceInfo,
             "pco_device_description": native.DeviceDescription, "pco_plugin_description": native.PluginDescription,
             "pco_executable_params": native.ExecutableParams, "pco_executable_stats": native.ExecutableStats,
             "pco_tensor": native.Tensor}
    for name, ours in pairs.items():
        places = {m.find("var-decl").get("name"): int(m.get("layout-offset-in-bits")) // 8
                  for m in known[name].findall("data-member")}
        told = {field[0]: getattr(ours, field[0]).offset for field in ours._fields_}
        assert {field: told[field] for field in list(told)[:len(places)]} == places, name
        if len(told) == len(places):
            assert ctypes.sizeof(ours) * 8 == int(known[name].get("size-in-bits")), name
        else:
            assert "size" in told, name


def test_progress_and_what_it_throws():
    shares = []
    portico.load(DATES, progress=lambda share: shares.append(share)).close()
    assert shares == sorted(shares) and 0 <= shares[0] and shares[-1] <= 1

    def throws(share):
        raise KeyError("of the callback")
    with pytest.raises(KeyError, match="of the callback"):
        portico.load(DATES, progress=throws)
    with pytest.raises(portico.CancelledError):
        portico.load(DATES, progress=lambda share: True)


@pytest.mark.parametrize("call, error, words", [
    (lambda m: portico.load("/no/such/model.gguf"), portico.Error, "no/such"),
    (lambda m: portico.load(DATES, device="vulkan:no-such-gpu"), portico.NotFoundError, "no-such-gpu"),
    (lambda m: list(m.generate("x", temperature=-1)), portico.InvalidError, "temperature"),
    (lambda m: list(m.generate("x", min_p=2)), portico.InvalidError, "min_p"),
    (lambda m: list(m.generate("x", typical_p=-1)), portico.InvalidError, "typical_p"),
    (lambda m: list(m.generate("x", repetition_penalty=-1)), portico.InvalidError, "repeat_penalty"),
    (lambda m: list(m.generate("x", stop_strings=["a", ""])), portico.InvalidError, "stop"),
    (lambda m: list(m.generate("x", stop_strings=3)), TypeError, "iterable"),
    (lambda m: list(m.generate("x", logprobs=-1)), portico.InvalidError, "logprobs"),
    (lambda m: list(m.generate("x", grammar="root ::= (")), portico.FileError, "grammar, line 1"),
    (lambda m: list(m.generate("x", json_schema={"not": {}})), portico.UnsupportedError, "'not'"),
    (lambda m: m.generate("x", draft="model"), TypeError, "draft is str"),
    (lambda m: portico.load(DATES, cache_type="q4"), portico.InvalidError, "'f32', 'f16', 'q8_0'"),
    (lambda m: m.beam_search("x", beams=65), portico.InvalidError, "beams"),
    (lambda m: m.beam_search("x", beams=0), portico.InvalidError, "beams"),
    (lambda m: m.beam_search("x", beams=2, returned=3), portico.InvalidError, "2"),
    (lambda m: m.beam_search("x", early_stopping="soon"), portico.InvalidError, "early_stopping is 'soon'"),
    (lambda m: m.encode("a\0b"), portico.InvalidError, "NUL"),
    (lambda m: m.encode(3), TypeError, "str"),
])
def test_one_clear_line(dates, call, error, words):
    with pytest.raises(error, match=words) as caught:
        call(dates)
    assert "\n" not in str(caught.value)


def test_after_close():
    model = portico.load(DATES)
    model.close()
    model.close()
    for call in (lambda: model.generate("x"), lambda: model.encode("x"), lambda: model.info):
        with pytest.raises(portico.InvalidError, match="closed"):
            call()


def test_many_models_leave_nothing():
    portico.load(DATES).close()
    descriptors, threads = held()
    for _ in range(20):
        portico.load(DATES).close()
    after = held()
    assert after[0] <= descriptors and after[1] <= threads


CHAT = "{% for m in messages %}<{{ m.role }}>{{ m.content }}<|endoftext|>{% endfor %}{{ tools | length if tools }}" \
       "{% if add_generation_prompt %}<assistant>{% endif %}"


def test_chat():
    path = os.path.join(DATES, "..", "..", "tests", "golden", "families", "qwen2.gguf")
    with portico.load(path, context_length=256) as model:
        talk = [{"role": "user", "content": "one two \u00e9"}]
        assert model.chat_text(talk, template=CHAT, tools=[1, 2]) == "<user>one two \u00e9<|endoftext|>2<assistant>"
        assert model.chat_text(talk, template=CHAT, complete=True) == "<user>one two \u00e9<|endoftext|>"
        first = "".join(model.chat(talk, template=CHAT, max_tokens=8))
        read = model.last_stats.prompt_tokens
        assert "".join(model.chat(talk, template=CHAT, max_tokens=8)) == first
        assert model.last_stats.prompt_tokens == 1 < read  # the rest was there
        assert len(list(model.generate("one", max_tokens=2))) > 0 and model.last_stats.prompt_tokens < read  # in the same cache
        assert "".join(model.chat(talk, template=CHAT, max_tokens=8)) == first
        assert model.last_stats.prompt_tokens == read
        with pytest.raises(portico.NotFoundError, match="no chat template"):
            model.chat_text(talk)
        with pytest.raises(portico.InvalidError, match="refuses these messages: no"):
            list(model.chat(talk, template="{{ raise_exception('no') }}"))


def test_a_forgotten_chat_is_given_back(monkeypatch):
    path = os.path.join(DATES, "..", "..", "tests", "golden", "families", "qwen2.gguf")
    order = []
    native = portico._native
    for name in ("sequence_destroy", "model_close"):
        def spied(handle, name=name, function=getattr(native, name)):
            order.append(name)
            function(handle)
        monkeypatch.setattr(native, name, spied)
    model = portico.load(path, context_length=64)
    list(model.chat([{"role": "user", "content": "a"}], template=CHAT, max_tokens=1))
    del model
    gc.collect()
    portico.load(path, context_length=64).close()  # the next call buries what was left
    assert order == ["sequence_destroy", "model_close", "model_close"]
    model = portico.load(path, context_length=64)
    list(model.chat([{"role": "user", "content": "a"}], template=CHAT, max_tokens=1))
    model.close()
    model.close()
    assert order[3:] == ["sequence_destroy", "model_close"]


def write_adapter(folder, tensors):
    """An adapter of rank 2 as PEFT writes it, of arrays by the names of modules and matrices."""
    arrays = {f"base_model.model.model.layers.{name}.weight": a.astype("<f4") for name, a in tensors.items()}
    header, at = {}, 0
    for name, a in arrays.items():
        header[name] = {"dtype": "F32", "shape": a.shape, "data_offsets": [at, at + a.nbytes]}
        at += a.nbytes
    text = json.dumps(header).encode()
    folder.mkdir()
    (folder / "adapter_config.json").write_text('{"peft_type": "LORA", "r": 2, "lora_alpha": 4}')
    (folder / "adapter_model.safetensors").write_bytes(
        struct.pack("<Q", len(text)) + text + b"".join(a.tobytes() for a in arrays.values()))
    return folder


def test_adapter(tmp_path):
    rng = np.random.default_rng(0)
    base = os.path.join(DATES, "..", "..", "tests", "parity", "llama-q4_1.gguf")
    a, b = rng.normal(size=(2, 64)), rng.normal(size=(64, 2))
    adapter = write_adapter(tmp_path / "some", {"1.self_attn.o_proj.lora_A": a, "1.self_attn.o_proj.lora_B": b})
    none = write_adapter(tmp_path / "none", {"1.self_attn.o_proj.lora_A": a, "1.self_attn.o_proj.lora_B": 0 * b})
    with portico.load(base) as model:
        plain = "".join(model.generate("the", max_tokens=12))
    with portico.load(base, adapter=none) as model:
        assert "".join(model.generate("the", max_tokens=12)) == plain
    with portico.load(base, adapter=adapter) as model:
        assert "".join(model.generate("the", max_tokens=12)) != plain
    with pytest.raises(portico.Error, match="is no adapter"):
        portico.load(base, adapter=tmp_path)
