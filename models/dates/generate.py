#!/usr/bin/env python3
"""Generate pairs of a written date and its ISO 8601 form, as tab-separated lines.

Rules: numeric day/month/year is always day first; year/month/day starts with a four-digit year. Years are
1970 to 2069, so a two-digit year 70..99 means 19xx and 00..69 means 20xx. A calendar day belongs to the
test, valid or train split by a hash of its ISO form, whatever way it is written.
"""

import argparse
import datetime
import hashlib
import random

MONTHS = (
    "January February March April May June July August September October November December".split()
)
WEEKDAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
FIRST = datetime.date(1970, 1, 1)
LAST = datetime.date(2069, 12, 31)


def ordinal(n):
    """3 -> 3rd, 11 -> 11th."""
    suffix = "th" if 11 <= n <= 13 else {1: "st", 2: "nd", 3: "rd"}.get(n % 10, "th")
    return f"{n}{suffix}"


def fields(day):
    """The pieces that the forms are put together from."""
    month = MONTHS[day.month - 1]
    weekday = WEEKDAYS[day.weekday()]
    return {
        "d": day.day,
        "dd": f"{day.day:02}",
        "o": ordinal(day.day),
        "m": day.month,
        "mm": f"{day.month:02}",
        "mon": month[:3],
        "month": month,
        "y": day.year,
        "yy": f"{day.year % 100:02}",
        "wd": weekday[:3],
        "weekday": weekday,
    }


FORMS = (
    "{month} {o}, {y}",
    "{month} {d}, {y}",
    "{month} {o} {y}",
    "{month} {d} {y}",
    "{mon} {d}, {y}",
    "{mon} {o} {y}",
    "{mon} {d}, '{yy}",
    "{mon} {d} '{yy}",
    "{d} {mon} {y}",
    "{d} {mon} {yy}",
    "{d} {mon} '{yy}",
    "{d} {month} {y}",
    "{d} {month}, {y}",
    "{o} {month} {y}",
    "{o} of {month} {y}",
    "{o} of {month}, {y}",
    "the {o} of {month} {y}",
    "the {o} of {month}, {y}",
    "{dd}-{mon}-{y}",
    "{dd}-{mon}-{yy}",
    "{d}-{mon}-{y}",
    "{weekday} {d} {month} {y}",
    "{weekday}, {d} {month} {y}",
    "{weekday}, {month} {o}, {y}",
    "{weekday}, {month} {d}, {y}",
    "{weekday} the {o} of {month} {y}",
    "{wd}, {dd} {mon} {y}",
    "{wd} {d} {mon} {yy}",
    "{d}/{m}/{y} ({weekday})",
    "{dd}/{mm}/{y} ({wd})",
    "{wd} {dd}/{mm}/{y}",
    "{d}/{m}/{y}",
    "{dd}/{mm}/{y}",
    "{d}/{m}/{yy}",
    "{dd}/{mm}/{yy}",
    "{d}.{m}.{y}",
    "{dd}.{mm}.{y}",
    "{d}.{m}.{yy}",
    "{dd}.{mm}.{yy}",
    "{d}-{m}-{y}",
    "{dd}-{mm}-{y}",
    "{y}.{mm}.{dd}",
    "{y}/{m}/{d}",
    "{y}/{mm}/{dd}",
    "{y}{mm}{dd}",
    "{y}-{mm}-{dd}",
    "{y}-{m}-{d}",
    "{y} {month} {d}",
    "{y} {mon} {dd}",
    "{y}-{mon}-{dd}",
)


def split_of(day):
    """test for one day in ten, valid for one in fifty, otherwise train."""
    bucket = int.from_bytes(hashlib.sha256(day.isoformat().encode()).digest()[:4], "big") % 50
    return "test" if bucket < 5 else "valid" if bucket == 5 else "train"


def days_of(split):
    """All days of a split, in order."""
    span = (LAST - FIRST).days + 1
    days = (FIRST + datetime.timedelta(days=i) for i in range(span))
    return [day for day in days if split_of(day) == split]


def pick(rng, items):
    """A random item, by rng.random() alone: the same choice in every Python version."""
    return items[int(rng.random() * len(items))]


def write(rng, day):
    """One written form of a day."""
    text = pick(rng, FORMS).format(**fields(day))
    case = rng.random()
    return text.lower() if case < 0.25 else text.upper() if case < 0.35 else text


def pairs(split, seed):
    """An endless stream of (written, ISO) pairs."""
    days = days_of(split)
    rng = random.Random(seed)
    while True:
        day = pick(rng, days)
        yield write(rng, day), day.isoformat()


def alphabet():
    """Every character that can occur, sorted."""
    samples = [form.format(**fields(FIRST)) for form in FORMS] + MONTHS + WEEKDAYS + ["0123456789stndrdth"]
    text = "".join(samples)
    return sorted(set(text + text.lower() + text.upper()))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--split", choices=("train", "valid", "test"), default="train")
    parser.add_argument("--count", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    stream = pairs(args.split, args.seed)
    for _ in range(args.count):
        print("\t".join(next(stream)))


if __name__ == "__main__":
    main()
