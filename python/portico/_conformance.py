"""portico.conformance: the suite that judges devices, run by the program that lies within the package."""
import dataclasses
import json
import os
import re
import subprocess
import tempfile
import threading
from dataclasses import dataclass

from portico import _native as native, _program, _progress, _runtime

STATES = ("pass", "fail", "unsupported", "not_promised", "mistrusted", "waived", "flaky", "crashed", "hung", "device_lost")
_PROGRESS = re.compile(r"(\d+)/(\d+) \S+ [\d.]+/s")


@dataclass(frozen=True)
class Failure:
    """A case whose result is wrong: the operation, its operands, the worst element, and the command that repeats it."""

    device: str
    op: str
    case: str
    label: str
    variant: str
    state: str
    error_over_bound: float
    element: int
    expected: float
    got: float
    detail: str
    repeat: str

    def __str__(self):
        where = f"{self.device}: {self.op} {self.label} [{self.variant}]: {self.state}"
        if self.detail:
            where += f", {self.detail}"
        return where + (f"; repeat: {self.repeat}" if self.repeat else "")


@dataclass(frozen=True)
class OpResult:
    """One operation on one device; counts has a number for each of portico.Conformance.STATES. Errors are divided by
    their bounds: up to 1 is right."""

    op: str
    counts: dict
    variants: int
    median: float
    max: float


@dataclass(frozen=True)
class DeviceResult:
    """One device. verdict: "pass", "fail" or "nothing tested"; message: why the run ended early, if it did."""

    device: str
    name: str
    driver: str
    verdict: str
    counts: dict
    ops: tuple
    failures: tuple
    seconds: float
    message: str

    @property
    def passed(self):
        return self.verdict == "pass"


@dataclass(frozen=True)
class Conformance:
    """What portico.conformance() found. True as a condition if everything passed.

    counts: of all devices, by state; failures: [Failure]; report: the folder with report.html, or None; to_dict(): all
    of it, as the program's --json has it.
    """

    STATES = STATES

    passed: bool
    devices: tuple
    tier: str
    seed: int
    report: str
    command: tuple
    _document: dict = dataclasses.field(repr=False)

    @property
    def counts(self):
        return {state: sum(d.counts[state] for d in self.devices) for state in STATES}

    @property
    def failures(self):
        return [failure for d in self.devices for failure in d.failures]

    def to_dict(self):
        return json.loads(json.dumps(self._document))

    def __bool__(self):
        return self.passed

    def __str__(self):
        lines = []
        for d in self.devices:
            lines.append(f"{d.device}: {d.name}, {d.driver}")
            lines.append(f"  {'op':38} {'cases':>6} {'pass':>6} {'bad':>5} {'median':>8} {'max':>8}")
            for op in d.ops:
                cases = sum(op.counts.values())
                bad = sum(op.counts[s] for s in ("fail", "flaky", "crashed", "hung", "device_lost"))
                lines.append(f"  {op.op:38} {cases:6} {op.counts['pass']:6} {bad:5} {op.median:8.3f} {op.max:8.3f}")
            lines += [f"  {failure}" for failure in d.failures]
            lines.append(f"  {d.counts['pass']} passed, {d.verdict}" + (f": {d.message}" if d.message else ""))
        lines.append(f"conformance: {'passed' if self.passed else 'failed'}; tier {self.tier}, seed {self.seed}" +
                     (f", report in {self.report}" if self.report else ""))
        return "\n".join(lines)


def _device_result(found):
    device = found["device"]
    ops = tuple(OpResult(op["op"], {s: op[s] for s in STATES}, op["variants"], op.get("median_error_over_bound", 0.0),
                         op.get("max_error_over_bound", 0.0)) for op in found["ops"])
    failures = tuple(Failure(device["id"], one["op"], one["case"], one["label"], one["variant"], one["state"],
                             one.get("error_over_bound", float("nan")), one.get("element", -1),
                             one.get("expected", float("nan")), one.get("got", float("nan")), one.get("detail", ""),
                             one.get("repeat", "")) for one in found.get("failures", ()))
    return DeviceResult(device["id"], device["name"], device["driver"], found["verdict"], {s: found[s] for s in STATES},
                        ops, failures, found["seconds"], found["message"])


def _words(name, value):
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, _runtime.Device):
        return value.id
    try:
        return ",".join(_words(name, x) for x in value)
    except TypeError:
        raise TypeError(f"{name} is {type(value).__name__}, and must be str or a list of them") from None


def _arguments(devices, ops, given):
    devices = _words("devices", devices) or _runtime.current_device()
    options = {"devices": devices, "ops": _words("ops", ops), **given}
    arguments = []
    for name, value in options.items():
        if value is not None:
            arguments += [f"--{name.replace('_', '-')}={os.fspath(value) if hasattr(value, '__fspath__') else value}"]
    return arguments


def conformance(devices=None, *, ops=None, tier="quick", seed=0, variant=None, case=None, slice=None,  # noqa: A002
                report=None, baseline=None, waivers=None, jobs=None, timeout=None, progress=None):
    """Judges devices, one operation at a time, against a float64 oracle: every element of every result, by the bound that
    follows from what the device promises. Returns a portico.Conformance.

        result = portico.conformance("vulkan", ops="softmax,matmul")
        assert result, result

    devices: "all", words as in PORTICO_BACKEND with commas, portico.Device, or a list of these; None: that of `with
    portico.device(...)`, of PORTICO_BACKEND, or the best there is.
    ops: names of operations with `*` and `?`, as a list or with commas; None: all. variant, case, slice ("K/N"): only these.
    tier: "tiny", "quick", "standard" or "full". seed: other operands.
    report: a folder for report.html, report.json, junit.xml and reproducers. baseline: a folder with an earlier report, a
    regression from which fails. waivers: a file of failures that are expected.
    jobs: worker processes. timeout: seconds after which a case is hung.
    progress: True or False: a bar on stderr; None: where that is a terminal; or a function of (done, total).

    Errors: InvalidError where nothing could be tested: no such device, operation, case, tier or file. The run goes on when
    a driver crashes, as cases run in processes of their own; Ctrl-C ends it.
    """
    given = {"tier": tier, "seed": int(seed), "variant": variant, "case": case, "slice": slice, "report": report,
             "baseline": baseline, "waivers": waivers, "jobs": jobs, "timeout": timeout}
    command = (_program.path(), "conformance", *_arguments(devices, ops, given), "--json")
    bar = None
    if callable(progress):
        show = progress
    else:
        bar = _progress.Bar("conformance", "cases") if _progress.wanted(progress) else None
        show = bar.update if bar else lambda done, total: None
    try:
        code, document, lines = _run(command, show)
    finally:
        if bar:
            bar.close()
    if code not in (0, 1) or not document:
        words = [line for line in lines if not _PROGRESS.search(line)]
        raise native.InvalidError((words[-1] if words else f"the program ended with {code}").removeprefix("portico: "))
    found = json.loads(document)
    return Conformance(code == 0, tuple(map(_device_result, found["conformance"])), tier, int(seed),
                       None if report is None else os.fspath(report), command, found)


def _run(command, show):
    """(exit status, what it printed, lines on stderr)"""
    lines, raised = [], []
    with tempfile.TemporaryFile() as output, \
            subprocess.Popen(command, stdout=output, stderr=subprocess.PIPE, text=True, errors="replace") as process:
        def watch():
            for line in process.stderr:
                lines.append(line.rstrip("\n"))
                found = _PROGRESS.search(line)
                if found and not raised:
                    try:
                        show(int(found[1]), int(found[2]))
                    except BaseException as error:  # raised below, where the caller is
                        raised.append(error)
                        process.terminate()
        watcher = threading.Thread(target=watch, name="portico.conformance")
        watcher.start()
        try:
            code = process.wait()
        except BaseException:
            process.terminate()
            raise
        finally:
            watcher.join()
        if raised:
            raise raised[0]
        output.seek(0)
        return code, output.read().decode("utf-8", "replace"), lines
