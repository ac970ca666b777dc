"""test_replayed.py BUILD_FOLDER: is each file that the fuzzers found or begin with (tests/fuzz/*/) replayed by a test?"""

import json
import pathlib
import sys

FUZZ = pathlib.Path(__file__).resolve().parents[1] / "fuzz"


def main(build):
    tests = json.loads((pathlib.Path(build) / "meson-info" / "intro-tests.json").read_text(encoding="utf-8"))
    replayed = {pathlib.Path(word).resolve() for test in tests if test["name"].startswith("fuzz") for word in test["cmd"][1:]}
    files = sorted(path for path in FUZZ.glob("*/*") if path.is_file())
    missing = [path.relative_to(FUZZ.parents[1]) for path in files if path.resolve() not in replayed]
    for path in missing:
        print(f"{path} is replayed by no test: name it in tests/meson.build, or delete it")
    print(f"{len(files) - len(missing)} of {len(files)} files are replayed")
    return len(missing) > 0 or not files


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
