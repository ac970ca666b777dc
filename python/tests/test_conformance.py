"""portico.conformance as a result, and progress bars."""
import io
import json
import os
import pathlib
import threading

import pytest

import portico
from portico import _conformance, _progress

FAULTY = pathlib.Path(portico.__file__).resolve().parents[2] / "tests" / "mutants" / "faulty"


def chosen():
    return os.environ.get("PORTICO_BACKEND", "cpu:native")


def test_a_device_that_passes(tmp_path):
    calls = []
    result = portico.conformance(chosen(), ops=["relu", "softmax"], tier="tiny", report=tmp_path / "report",
                                 progress=lambda done, total: calls.append((done, total)))
    assert result and result.passed, result
    assert [d.verdict for d in result.devices] == ["pass"] and not result.failures
    assert result.counts["pass"] == sum(result.devices[0].counts[s] for s in ("pass",)) > 10 and result.counts["fail"] == 0
    ops = {op.op: op for op in result.devices[0].ops}
    assert set(ops) == {"relu", "softmax"} and 0 <= ops["softmax"].median <= ops["softmax"].max <= 1
    assert (tmp_path / "report" / "report.html").exists() and result.report == str(tmp_path / "report")
    document = result.to_dict()
    assert json.loads(json.dumps(document)) == document
    assert document["conformance"][0]["pass"] == result.counts["pass"]
    assert "softmax" in str(result) and "conformance: passed" in str(result) and "_document" not in repr(result)
    assert all(0 <= done <= total for done, total in calls)


def test_a_device_that_fails(monkeypatch):
    """A plugin whose devices have a fault each (tests/mutants/faulty)."""
    if not list(FAULTY.glob("*.so")):
        pytest.skip("the faulty plugin is built with the tests")
    monkeypatch.setenv("PORTICO_PLUGIN_PATH", str(FAULTY))
    with portico.Context() as context:
        faulty = [d.id for d in context.devices() if d.id.startswith("faulty")]
    result = portico.conformance(faulty[:3], ops="add,softmax,matmul", tier="tiny", timeout=30, progress=False)
    assert not result and result.failures
    failure = result.failures[0]
    assert failure.device in faulty and failure.op and failure.repeat.startswith("portico conformance")
    assert failure.case in failure.repeat and str(failure).startswith(failure.device)
    assert sum(result.counts[s] for s in ("fail", "flaky", "crashed", "hung", "device_lost")) == len(result.failures)


@pytest.mark.parametrize("given, words", [
    ({"devices": "warp:9"}, "warp:9"),
    ({"ops": "no_such_op"}, "no_such_op"),
    ({"tier": "endless"}, "endless"),
    ({"slice": "3/2"}, "3/2"),
])
def test_nothing_to_test_is_one_line(given, words):
    with pytest.raises(portico.InvalidError, match=words) as caught:
        portico.conformance(**{"devices": "cpu:native", "tier": "tiny", **given})
    assert "\n" not in str(caught.value)
    with pytest.raises(TypeError):
        portico.conformance(devices=3)


def test_what_progress_throws_ends_it():
    """The program's lines on stderr become calls; what these throw comes out, and the program is ended."""
    script = "import sys, time\nprint('cpu:0  10 % 3/30 cases 5.0/s, 5 s left', file=sys.stderr, flush=True)\ntime.sleep(60)"
    import sys

    calls = []

    def show(done, total):
        calls.append((done, total))
        raise KeyError("of the caller")

    with pytest.raises(KeyError, match="of the caller"):
        _conformance._run((sys.executable, "-c", script), show)
    assert calls == [(3, 30)]
    assert "portico.conformance" not in [t.name for t in threading.enumerate()]


def test_device_is_chosen_by_with():
    with portico.device("cpu:reference"):
        result = portico.conformance(ops="relu", tier="tiny", progress=False)
    assert [d.device for d in result.devices] == ["cpu:1"]


def test_bars():
    stream = io.StringIO()
    bar = _progress.Bar("training", "steps", delay=0, stream=stream)
    bar.update(50, 100)
    bar.close()
    drawn = stream.getvalue()
    assert "training  50 % [############            ] 50/100 steps" in drawn and drawn.endswith("\r\x1b[K")
    assert bar.line(3, None, 1.0) == "training 3 steps, 3.0/s"
    quiet = io.StringIO()
    late = _progress.Bar("x", stream=quiet)
    late.update(1, 2)
    late.close()
    assert quiet.getvalue() == ""


def test_progress_of_a_loop():
    assert list(portico.progress(range(5), label="loop")) == [0, 1, 2, 3, 4]
    closed = []

    def numbers():
        try:
            yield from range(5)
        finally:
            closed.append(True)

    loop = portico.progress(numbers())
    assert next(loop) == 0
    loop.close()
    del loop
    import gc

    gc.collect()
    assert closed


def test_progress_of_a_model(capfd):
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "models", "dates")
    with portico.load(path, progress=True) as model:
        assert "".join(model.generate("3 Sep 51", progress=True)) == "2051-09-03"
    with portico.load(path, progress=False) as model:
        assert "".join(model.generate("3 Sep 51", progress=None)) == "2051-09-03"
