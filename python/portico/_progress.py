"""Progress bars: tqdm's where it is installed, which knows notebooks, and otherwise a line of our own on stderr."""
import importlib.util
import sys
import time

WIDTH = 24
QUIET = 0.1  # seconds between two drawings


class Bar:
    """How far something is. Nothing is shown before it has taken `delay` seconds."""

    def __init__(self, label="", unit="", delay=0.5, stream=None):
        self.label, self.unit, self.delay = label, unit, delay
        self.stream = stream or sys.stderr
        self.start = time.monotonic()
        self._drawn, self._shown, self._tqdm = 0.0, False, None
        self._use_tqdm = stream is None and importlib.util.find_spec("tqdm") is not None

    def update(self, done, total):
        """total: None where it is not known."""
        now = time.monotonic()
        last = total is not None and done >= total
        if now - self.start < self.delay or (now - self._drawn < QUIET and not last):
            return
        self._drawn, self._shown = now, True
        if self._use_tqdm:
            self._with_tqdm(done, total)
            return
        self.stream.write("\r" + self.line(done, total, now - self.start) + "\x1b[K")
        self.stream.flush()

    def _with_tqdm(self, done, total):
        if self._tqdm is None:
            from tqdm.auto import tqdm

            self._tqdm = tqdm(total=total, desc=self.label or None, unit=f" {self.unit or 'steps'}", leave=False)
        self._tqdm.total = total
        self._tqdm.update(done - self._tqdm.n)

    def line(self, done, total, seconds):
        """label  45 % [###   ] 12/30 cases, 3.1/s, 5 s left"""
        rate = done / seconds if seconds > 0 else 0
        speed = f", {rate:.1f}/s" if self.unit else ""
        unit = f" {self.unit}" if self.unit else ""
        if total is None:
            return f"{self.label} {done}{unit}{speed}"
        share = done / total if total else 1
        full = int(WIDTH * share)
        left = f", {(total - done) / rate:.0f} s left" if rate > 0 else ""
        counted = f" {done}/{total}{unit}{speed}" if self.unit else ""
        return f"{self.label} {100 * share:3.0f} % [{'#' * full}{' ' * (WIDTH - full)}]{counted}{left}"

    def close(self):
        """Takes the line away."""
        if self._tqdm is not None:
            self._tqdm.close()
        elif self._shown:
            self.stream.write("\r\x1b[K")
            self.stream.flush()


def wanted(progress):
    """What `progress=None` means: a bar for people, who sit at a terminal."""
    return sys.stderr.isatty() if progress is None else bool(progress)


def progress(iterable, total=None, label="", unit="steps"):
    """Goes through something with a bar on stderr: `for batch in portico.progress(batches): ...`.

    total: how many there are; None: len(iterable), where it has one. Shown from the first half second on.
    """
    if total is None and hasattr(iterable, "__len__"):
        total = len(iterable)
    bar, done = Bar(label, unit), 0
    try:
        for item in iterable:
            bar.update(done, total)
            yield item
            done += 1
        bar.update(done, total)
    finally:
        bar.close()
