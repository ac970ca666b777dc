#!/bin/bash
# What a newcomer meets: numbers, messages, pipes, terminals and pictures of the program.
#
#   test_first_steps.sh PORTICO SOURCE
#
# PORTICO: the program. SOURCE: the source folder. Prints one line per check; exits 1 if one failed.
set -u
[ $# -ge 2 ] || { echo "usage: $0 PORTICO SOURCE"; exit 2; }
portico=$(realpath "$1")
source=$(realpath "$2")
dates=$source/models/dates
. "$source/tests/cli/checks.sh"

# ---- whole numbers are printed as such ----
# faulty:late: what it computes comes too late, and the poison is read, which is large as i32
PORTICO_PLUGIN_PATH=$(dirname "$portico")/tests/mutants/faulty
export PORTICO_PLUGIN_PATH
run conformance --devices faulty:late --tier tiny --ops argmax --reproducers "$work/failures"
status "a device that is late" 1
says "an i32 result is printed as a whole number" out ' is [0-9]{9,}, expected'
cat "$work"/failures/*/README.txt > "$work/out"
says "and in its reproducer" out ' is [0-9]{9,}, expected'
unset PORTICO_PLUGIN_PATH
python3 - "$work/numbers.gguf" <<'TEXT'
import struct, sys
text = lambda s: struct.pack("<Q", len(s)) + s.encode()
pairs = [("general.architecture", 8, text("none")), ("a.u64", 10, struct.pack("<Q", 2**64 - 1)),
         ("a.i64", 11, struct.pack("<q", -2**63)), ("a.id", 4, struct.pack("<I", 4294967295)),
         ("a.real", 6, struct.pack("<f", 0.1))]
with open(sys.argv[1], "wb") as file:
    file.write(b"GGUF" + struct.pack("<IQQ", 3, 0, len(pairs)))
    for key, kind, data in pairs: file.write(text(key) + struct.pack("<I", kind) + data)
TEXT
run inspect "$work/numbers.gguf"
for number in 18446744073709551615 -9223372036854775808 4294967295 0.100000001; do
    says "inspect: $number" out "^  a\\.[a-z0-9]+ +$number\$"
done
run inspect "$work/numbers.gguf" --json
for number in 18446744073709551615 -9223372036854775808 4294967295; do
    says "inspect --json: $number" out ": $number,?\$"
done

# ---- a cache that cannot be used ----
kept=$PORTICO_CACHE_DIR
echo "a file" > "$work/file"
export PORTICO_CACHE_DIR=$work/file/cache
run devices; status "a cache folder that cannot be made" 0
says "it is said, with what it costs" err "^portico: warning: the cache folder '$work/file/cache' cannot be used: .*: Not a directory.* in every process"
if [ "$(grep -c cache "$work/err")" = 1 ]; then ok "once"; else bad "once" "not one line"; fi
run conformance --devices cpu:native --ops neg --tier tiny --jobs 2; status "and in a run with workers" 0
if [ "$(grep -c cache "$work/err")" = 1 ]; then ok "once there, too"; else bad "once there, too" "not one line"; fi
if [ -w /dev/full ]; then
    PORTICO_CACHE_DIR=/dev/full; run devices; says "a cache folder that is a file" err "'/dev/full' cannot be used"
fi
PORTICO_CACHE_DIR=; run devices; silent "no cache, as was asked" err
PORTICO_CACHE_DIR=$kept; run devices; silent "a cache that can be used" err

finish
