"""Counts and tables for scripts/test: results of meson, of `portico conformance --json`, and of the steps."""
import argparse
import json
import re
import sys

COUNTS = re.compile(r"^(\d+) passed, (\d+) failed(?:, (\d+) skipped)?", re.M)
CMOCKA = re.compile(r"^\[ *(OK|FAILED|SKIPPED) *\] (?!\d+ test)(?!.*test\(s\))(\S+)", re.M)
FAILED = ("FAIL", "ERROR", "TIMEOUT", "INTERRUPT", "UNEXPECTEDPASS")  # verdicts of meson


def text_counts(text, failed):
    """(passed, failed, skipped) of one test from its output; `failed` is what its exit status says."""
    lines = COUNTS.findall(text)
    if lines:
        counts = [int(n or 0) for n in lines[-1]]
    else:
        cases = {}
        for verdict, name in CMOCKA.findall(text):
            cases[name] = verdict
        counts = [sum(v == kind for v in cases.values()) for kind in ("OK", "FAILED", "SKIPPED")]
        if not cases:
            counts = [0 if failed else 1, 0, 0]
    if failed and counts[1] == 0:
        counts[1] = 1
    return counts


def meson_counts(path):
    total, worst, failed = [0, 0, 0], [], []
    with open(path, encoding="utf-8", errors="replace") as file:
        for line in file:
            test = json.loads(line)
            verdict = test["result"]
            if verdict == "SKIP":
                counts = [0, 0, 1]
            else:
                text = (test.get("stdout") or "") + "\n" + (test.get("stderr") or "")
                counts = text_counts(text, verdict in FAILED)
            if counts[1]:
                worst.append(test["name"])
                lines = [line for line in text.splitlines() if not re.match(r"\[ *(RUN|OK) *\]|ok\b", line)]
                failed.append(f"---- {test['name']}, its last lines:\n" + "\n".join(lines[-25:]) + "\n----")
            print(f"{verdict:8} {test['duration']:7.1f} s  {counts[0]:5} {counts[1]:5} {counts[2]:5}  {test['name']}")
            total = [a + b for a, b in zip(total, counts)]
    for excerpt in failed: # behind everything else: who reads the end of a log sees what failed
        print(excerpt)
    if worst:
        print("failed: " + ", ".join(worst))
    return total


# States of a record that make a run fail.
BAD_STATES = ("fail", "mistrusted", "flaky", "crashed", "hung", "device_lost")


def conformance_counts(path):
    """A case that the device does not support, whose NaN is not promised, or that is waived, counts as skipped."""
    with open(path, encoding="utf-8") as file:
        try:
            report = json.load(file)
        except ValueError:
            return [0, 1, 0]
    total = [0, 0, 0]
    for device in report["conformance"]:
        total[0] += device["pass"]
        total[1] += sum(device[bad] for bad in BAD_STATES) + (device["status"] != 0)
        total[2] += device["unsupported"] + device["not_promised"] + device["waived"]
    return total


def print_counts(counts):
    print(f"{counts[0]} passed, {counts[1]} failed, {counts[2]} skipped")
    return 1 if counts[1] else 0


def step(args):
    text = ""
    if args.log:
        with open(args.log, encoding="utf-8", errors="replace") as file:
            text = file.read()
    if args.status == 77:
        counts = [0, 0, 1]
        args.why = args.why or (text.strip().splitlines() or [""])[-1]
    else:
        lines = COUNTS.findall(text)
        counts = text_counts(text, args.status != 0) if lines else [int(args.status == 0), int(args.status != 0), 0]
    with open(args.results, "a", encoding="utf-8") as file:
        file.write("\t".join([args.group, args.name, *map(str, counts), args.seconds, args.log or ""]) + "\n")
    verdict = "FAIL" if counts[1] else "skip" if args.status == 77 else "ok"
    figures = f"{counts[0]} passed" if counts[0] else ""
    figures += f", {counts[1]} failed" if counts[1] else ""
    figures += f", {counts[2]} skipped" if counts[2] and args.status != 77 else ""
    print(f"{verdict:4}  {args.group:18}  {args.name:26} {float(args.seconds):7.1f} s  {args.why or figures.strip(', ')}", flush=True)
    if counts[1]:
        for line in text.rstrip().splitlines()[-10:]:
            print("      | " + line)
        print(f"      its output: {args.log}; more of its end stands at the end of this", flush=True)
    return 1 if counts[1] else 0


def print_failure(group, name, log):
    print(f"\n{group}, {name}: FAIL")
    if log:
        try:
            with open(log, encoding="utf-8", errors="replace") as file:
                lines = file.read().rstrip().splitlines()
        except OSError as error:
            lines = [str(error)]
        first = next((i for i, line in enumerate(lines) if line.startswith("---- ")), len(lines)) # of failed tests
        for line in lines[min(first, max(0, len(lines) - 40)) :][-200:]:
            print("      | " + line)
        print(f"      the whole of it: {log}")


def table(path):
    """The sums of each group. What failed comes before them, and not in the middle of hours of output."""
    groups = {}
    with open(path, encoding="utf-8") as file:
        for line in file:
            group, name, passed, failed, skipped, seconds, log = line.rstrip("\n").split("\t")
            if failed != "0":
                print_failure(group, name, log)
            row = groups.setdefault(group, [0, 0, 0, 0.0])
            for i, value in enumerate((passed, failed, skipped, seconds)):
                row[i] += float(value) if i == 3 else int(value)
    print(f"\n{'':20} {'passed':>8} {'failed':>8} {'skipped':>8} {'seconds':>9}")
    for group, row in groups.items():
        print(f"{group:20} {row[0]:8} {row[1]:8} {row[2]:8} {row[3]:9.1f}")
    total = [sum(row[i] for row in groups.values()) for i in range(3)]
    print()
    return print_counts(total)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("meson", "conformance", "table"):
        commands.add_parser(name).add_argument("file")
    one = commands.add_parser("step")
    for name in ("results", "group", "name", "seconds"):
        one.add_argument("--" + name, required=True)
    one.add_argument("--status", type=int, required=True)
    one.add_argument("--log")
    one.add_argument("--why")
    args = parser.parse_args()
    if args.command == "meson":
        return print_counts(meson_counts(args.file))
    if args.command == "conformance":
        return print_counts(conformance_counts(args.file))
    return table(args.file) if args.command == "table" else step(args)


if __name__ == "__main__":
    sys.exit(main())
