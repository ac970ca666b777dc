"""portico.load: text, tokens, logits, and what is said when something is wrong."""
import gc
import os
import threading

import numpy as np
import pytest

import portico
from bounds import held, over_bound

DATES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "models", "dates")


@pytest.fixture(scope="module")
def dates():
    with portico.load(DATES) as model:
        yield model


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
