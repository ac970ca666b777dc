#!/usr/bin/env python3
"""One allocation after the other fails, in commands that write files or judge them. What may come of it: the right
result, or an error in words that leaves every file as it was or as it should become. Never a part that is called a
whole, never a crash.

    test_allocation.py PORTICO LIBRARY [LIMIT]

PORTICO: the program. LIBRARY: libpco-interpose-allocation.so, which says where Portico allocates (a stack of callers is
a place) and fails the allocation that it is told to. Of each place the first and the last allocation fail, of at most
LIMIT (default 50) allocations of each command, evenly spread; of commands that start processes of their own, in each of
which one fails, a share of these. Prints a line per command; exits 1 if one was wrong.
"""

import concurrent.futures
import json
import os
import shutil
import subprocess
import sys
import tempfile

PORTICO, LIBRARY = os.path.realpath(sys.argv[1]), os.path.realpath(sys.argv[2])
LIMIT = int(sys.argv[3]) if len(sys.argv) > 3 else 50
WORK = tempfile.mkdtemp(prefix="portico-allocation-")
MODEL = {"d_model": 8, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2,
         "decoder_attention_heads": 2, "encoder_ffn_dim": 8, "decoder_ffn_dim": 8}
CONFIG = {"model": MODEL, "seed": 3, "steps": 2, "batch_size": 2, "out": "run",
          "data": {"kind": "pairs", "file": "pairs.tsv", "context_length": 6, "tokenizer": {"kind": "char"}}}
BISECT = ["conformance", "--bisect", "run", "--devices", "cpu:native", "--prompt", "low", "-n", "1"]
FILES = ("checkpoint.safetensors", "model.safetensors", "config.json")


def environment(**more):
    # no driver is loaded: what they do without memory is not ours to say
    return dict(os.environ, PORTICO_BACKEND="cpu:native", PORTICO_THREADS="1", PORTICO_CACHE_DIR="",
                PORTICO_SELF_TEST="off", OCL_ICD_VENDORS="/nonexistent", VK_ICD_FILENAMES="/nonexistent",
                VK_DRIVER_FILES="/nonexistent", LD_PRELOAD=LIBRARY, **more)


def portico(folder, command, **more):
    return subprocess.run([PORTICO] + command, cwd=folder, env=environment(**more), stdin=subprocess.DEVNULL,
                          capture_output=True, timeout=120)


def undisturbed(folder, command):
    """The same, and no allocation fails."""
    plain = {key: value for key, value in environment().items() if key != "LD_PRELOAD"}
    return subprocess.run([PORTICO] + command, cwd=folder, env=plain, stdin=subprocess.DEVNULL, capture_output=True,
                          timeout=120)


def content(path):
    try:
        with open(path, "rb") as file:
            return file.read()
    except FileNotFoundError:
        return None


def complaint(result):
    """What is wrong with how a command ended that did not do its work."""
    if result.returncode < 0 or result.returncode > 2:
        return "it ended with status %d" % result.returncode
    if not any(word in result.stderr for word in (b"portico: ", b"conformance")):
        return "it says nothing of its error"
    return None


def leftovers(folder):
    for where, _, names in os.walk(folder):
        for name in names:
            if ".portico-" in name:
                return "it leaves %s" % os.path.join(where, name)
    return None


class Train:
    def __init__(self, name, before, command):
        self.name, self.before, self.command = name, before, command

    def prepare(self, folder):
        shutil.copytree(os.path.join(WORK, self.before), folder)

    def remember(self, folder, result):
        self.old = [content(os.path.join(WORK, self.before, "run", name)) for name in FILES]
        self.new = [content(os.path.join(folder, "run", name)) for name in FILES]
        self.log = self.read_log(folder)
        return None if result.returncode == 0 and None not in self.new and self.log else "it failed by itself"

    @staticmethod
    def read_log(folder):
        text = content(os.path.join(folder, "log.csv"))
        # the sixth column is the time
        return text and [line.split(",")[:5] + line.split(",")[6:] for line in text.decode().splitlines()]

    def judge(self, folder, result):
        now = [content(os.path.join(folder, "run", name)) for name in FILES]
        if result.returncode == 0:
            for name, text, new in zip(FILES, now, self.new):
                if text != new:
                    return "status 0, and %s is not as it should be" % name
            return None if self.read_log(folder) == self.log else "status 0, and the log is not as it should be"
        for name, text, old, new in zip(FILES, now, self.old, self.new):
            if text not in (old, new):
                return "%s is neither as it was nor as it should be" % name
        return complaint(result)


class Report:
    name = "report"
    command = ["conformance", "--tier", "tiny", "--ops", "relu", "--devices", "cpu:native", "--report", "report"]

    def prepare(self, folder):
        shutil.copytree(os.path.join(WORK, "nothing"), folder)

    @staticmethod
    def verify(folder):
        return undisturbed(folder, ["conformance", "--verify", "report"])

    def remember(self, folder, result):
        with open(os.path.join(folder, "report", "report.json"), encoding="utf-8") as file:
            self.cases = len(json.load(file)["conformance"][0]["cases"])
        return None if result.returncode == 0 and self.verify(folder).returncode == 0 else "it failed by itself"

    def judge(self, folder, result):
        path = os.path.join(folder, "report", "report.json")
        if not os.path.exists(path):
            return "status 0, and there is no report" if result.returncode == 0 else complaint(result)
        verified = self.verify(folder)
        if b"ALTERED" in verified.stderr or verified.returncode > 1:
            return "the report does not verify: " + verified.stderr.decode()
        if result.returncode == 0:
            with open(path, encoding="utf-8") as file:
                cases = len(json.load(file)["conformance"][0]["cases"])
            return None if verified.returncode == 0 and cases == self.cases else "status 0, and the report is not good"
        return complaint(result)


class Verify:
    def __init__(self, name, before, word):
        self.name, self.before, self.word = name, before, word
        self.command = ["conformance", "--verify", "report"]

    def prepare(self, folder):
        shutil.copytree(os.path.join(WORK, self.before), folder)

    def remember(self, folder, result):
        self.right = (result.returncode, result.stdout)
        return None if self.word in result.stderr else "it failed by itself"

    def judge(self, folder, result):
        if (result.returncode, result.stdout) == self.right:
            return None
        if result.returncode == 0 or b"ALTERED" in result.stderr or b"INCOMPLETE" in result.stderr:
            return "it says " + result.stderr.decode()
        return complaint(result)


class Draw:
    """A file that a command writes at its end."""

    def __init__(self, name, command, file):
        self.name, self.command, self.file = name, command, file

    def prepare(self, folder):
        shutil.copytree(os.path.join(WORK, "first"), folder)

    def remember(self, folder, result):
        self.right = content(os.path.join(folder, self.file))
        return None if result.returncode == 0 and self.right else "it failed by itself: " + result.stderr.decode()

    def judge(self, folder, result):
        now = content(os.path.join(folder, self.file))
        if result.returncode == 0:
            return None if now == self.right else "status 0, and %s is not as it should be" % self.file
        return complaint(result) if now in (None, self.right) else "%s is in part there" % self.file


class Apart:
    """A command that starts processes of its own, which takes time."""

    share = 0.2


class Log(Apart):
    """A log of a run in worker processes: what is in it is true, and a run goes on from it."""

    name = "log"
    command = ["conformance", "--tier", "tiny", "--ops", "relu", "--devices", "cpu:native", "--log", "run.log"]

    def prepare(self, folder):
        shutil.copytree(os.path.join(WORK, "nothing"), folder)

    @staticmethod
    def read(folder):
        """The records, without their times, and the ids of the cases that are done; whole lines only."""
        text = content(os.path.join(folder, "run.log")) or b""
        lines = [json.loads(line) for line in text[:text.rfind(b"\n") + 1].splitlines()][1:]
        records = [tuple(sorted((key, value) for key, value in line.items() if key != "seconds"))
                   for line in lines if "done" not in line]
        return sorted(records), sorted(line["done"] for line in lines if "done" in line)

    def remember(self, folder, result):
        self.right = self.read(folder)
        return None if result.returncode == 0 and all(self.right) else "it failed by itself"

    def judge(self, folder, result):
        if result.returncode == 0:
            return None if self.read(folder) == self.right else "status 0, and the log is not as it should be"
        wrong = [record for record in self.read(folder)[0]
                 if record not in self.right[0] and dict(record)["state"] in ("pass", "fail")]
        if wrong:
            return "the log has %s" % wrong[0]
        again = undisturbed(folder, self.command)
        if again.returncode > 1 or self.read(folder)[1] != self.right[1]:
            return "no run goes on from the log: " + again.stderr.decode()
        return complaint(result)


class Reproducers(Apart):
    """Folders that are there as a whole or not at all. What a process without memory could not compute may be missing,
    which it says, or README.txt; what is there is right."""

    DATA = ("in0.npy", "y.expected.npy", "y.bound.npy", "y.got.npy")

    def __init__(self, name, more):
        self.name = name
        self.command = ["conformance", "--tier", "tiny", "--ops", "relu", "--case", "e9c0c39b", "--devices",
                        "cpu:native", "--reproducers", "found"] + more

    def prepare(self, folder):
        shutil.copytree(os.path.join(WORK, "nothing"), folder)

    @staticmethod
    def read(folder):
        """{folder: {file: content}}"""
        found = os.path.join(folder, "found")
        return {one: {file: content(os.path.join(found, one, file)) for file in os.listdir(os.path.join(found, one))}
                for one in (os.listdir(found) if os.path.isdir(found) else ())}

    def remember(self, folder, result):
        self.right = self.read(folder)
        return None if result.returncode == 0 and self.right else "it failed by itself: " + result.stderr.decode()

    def judge(self, folder, result):
        now = self.read(folder)
        if result.returncode == 0 and now == self.right:
            return None
        if result.returncode == 0 and not now:
            return "status 0, and there is no reproducer"
        right = next(iter(self.right.values()))
        for name, files in now.items():
            if not set(files) >= set(self.DATA[:3]) | {"README.txt"}:
                return "%s is in part there: %s" % (name, sorted(files))
            for file in self.DATA:
                if files.get(file) not in (None, right.get(file)):
                    return "%s/%s is not as it should be" % (name, file)
        told = any(word in files["README.txt"] for files in now.values() for word in (b"no memory", b"out of host memory"))
        return None if result.returncode == 0 and told else complaint(result)


class Says(Apart):
    """A command that only prints."""

    def __init__(self, name, before, command):
        self.name, self.before, self.command = name, before, command

    def prepare(self, folder):
        shutil.copytree(os.path.join(WORK, self.before), folder)

    def remember(self, folder, result):
        self.right = result.stdout
        return None if result.returncode == 0 and self.right else "it failed by itself: " + result.stderr.decode()

    def judge(self, folder, result):
        if result.returncode == 0:
            return None if result.stdout == self.right else "status 0, and it says " + result.stdout.decode()
        # a device without memory is a device that failed, and the verdict says so
        told = any(word in result.stdout for word in (b"no memory", b"out of host memory", b"the process ended"))
        return None if result.returncode == 1 and told else complaint(result)


def failures(scenario, folder):
    """The allocations to be failed, after a run without a failure."""
    sites = folder + ".sites"
    scenario.prepare(folder)
    wrong = scenario.remember(folder, portico(folder, scenario.command, PORTICO_TEST_SITES=sites))
    if wrong:
        sys.exit("FAIL %s: %s" % (scenario.name, wrong))
    with open(sites, encoding="ascii") as file:
        pairs = [[int(word) for word in line.split()] for line in file]
    all_of_them = sorted({number for pair in pairs for number in pair})
    stride = max(1.0, len(all_of_them) / (LIMIT * getattr(scenario, "share", 1)))
    return [all_of_them[int(i * stride)] for i in range(int(len(all_of_them) / stride))], len(all_of_them)


def attempt(scenario, folder, number):
    scenario.prepare(folder)
    try:
        result = portico(folder, scenario.command, PORTICO_TEST_FAIL=str(number))
        wrong = scenario.judge(folder, result) or leftovers(folder)
        said = result.stderr.decode(errors="replace")[-300:]
    except subprocess.TimeoutExpired:
        wrong, said = "it hangs", ""
    shutil.rmtree(folder)
    return number, wrong, said, None if wrong else result.returncode


def main():
    os.makedirs(os.path.join(WORK, "nothing"))
    with open(os.path.join(WORK, "nothing", "pairs.tsv"), "w", encoding="utf-8") as file:
        file.write("low\twol\nten\tnet\nlot\ttol\nwest\ttsew\n")
    with open(os.path.join(WORK, "nothing", "train.json"), "w", encoding="utf-8") as file:
        json.dump(CONFIG, file)
    shutil.copytree(os.path.join(WORK, "nothing"), os.path.join(WORK, "first"))
    train = ["train", "train.json", "--log", "log.csv"]
    first = portico(os.path.join(WORK, "first"), train + ["--steps", "1"])
    shutil.copytree(os.path.join(WORK, "nothing"), os.path.join(WORK, "good"))
    report = portico(os.path.join(WORK, "good"), Report.command)
    if first.returncode or report.returncode:
        sys.exit("FAIL the runs to begin with: " + (first.stderr + report.stderr).decode())
    shutil.copytree(os.path.join(WORK, "good"), os.path.join(WORK, "altered"))
    path = os.path.join(WORK, "altered", "report", "report.json")
    text = content(path)
    with open(path, "wb") as file:
        file.write(text.replace(b'"state": "pass"', b'"state": "fail"', 1))
    scenarios = [Train("train", "nothing", train), Train("resume", "first", train + ["--resume"]), Report(),
                 Verify("verify", "good", b"good"), Verify("verify, altered", "altered", b"ALTERED"),
                 Draw("attention", ["run", "run", "--prompt", "low", "-n", "4", "--attention", "map.json"], "map.json"),
                 Draw("plot", ["plot", "log.csv", "-o", "plot.svg"], "plot.svg"),
                 Draw("vocabulary", ["tokenizer", "train", "pairs.tsv", "--kind", "char", "--out", "vocab.json"],
                      "vocab.json"),
                 Log(), Reproducers("reproducers", ["--always"]),
                 Reproducers("reproducers, in process", ["--always", "--in-process"]),
                 Reproducers("reproducers, not run", ["--no-run", "--variant", "default"]),
                 Says("bisect", "first", BISECT), Says("bisect, in process", "first", BISECT + ["--in-process"])]
    bad = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for index, scenario in enumerate(scenarios):
            base = os.path.join(WORK, "s%d-" % index)
            numbers, places = failures(scenario, base + "0000000")
            jobs = [pool.submit(attempt, scenario, base + "%07d" % number, number) for number in numbers]
            done = [job.result() for job in jobs]
            wrong = [one for one in done if one[1]]
            refused = sum(1 for one in done if one[3])
            for number, why, said, _ in wrong[:8]:
                print("FAIL %s, allocation %d: %s; stderr: ...%s" % (scenario.name, number, why, said))
            print("%s    %s: %d of %d allocations failed; %d runs ended in an error, %d came right all the same" %
                  ("FAIL" if wrong else "ok  ", scenario.name, len(done), places, refused,
                   len(done) - refused - len(wrong)), flush=True)
            bad += len(wrong)
    shutil.rmtree(WORK)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
