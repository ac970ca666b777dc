#!/bin/bash
# What the suite says of devices that were made to look right: each is found, and in the words of the check that is
# there for it.
#
#   test_faulty.sh PORTICO SOURCE FAULTY
#
# PORTICO: the program. SOURCE: the source folder. FAULTY: the folder of the faulty plugin. Prints one line per check;
# exits 1 if one failed.
set -u
[ $# -eq 3 ] || { echo "usage: $0 PORTICO SOURCE FAULTY"; exit 2; }
portico=$(realpath "$1")
source=$(realpath "$2")
. "$source/tests/cli/checks.sh"
PORTICO_PLUGIN_PATH=$(realpath "$3")
export PORTICO_PLUGIN_PATH

# found FAULT OPS PATTERN: a run fails, and a line of it says so.
found() {
    run conformance --devices "faulty:$1" --tier tiny --in-process --verbose --ops "$2"
    status "$1: fails" 1
    says "$1: in these words" err "$3"
}

run conformance --devices faulty:sound --tier tiny --in-process --ops add,matmul,amax,softmax
status "the control passes" 0

# Where memory lies and what is around it.
found address add 'fail.*at other offsets, between large numbers, the result differs from the first run'
found neighbour add 'fail.*at other offsets, between large numbers, the result differs from the first run'
found hole add 'fail.*in recycled memory, between large negative numbers, the result differs from the first run'
found wide add 'fail.*with each tensor at the end of its buffer, the result differs from the first run'
found spill add 'fail.*(write out of place|was changed)'

# Results that do not follow from what the operands hold now.
found cached add 'fail.*after operands were changed .* outside their bounds'
says "cached: all digits of an i32" err "'y' element [0-9]+ is -?[0-9]{10}, expected -?[0-9]+ within 0\$"
found pointer softmax 'fail.*after operands were changed .* outside their bounds'
found prefix add 'fail.*after operands were changed .* outside their bounds'
found once add 'fail.*the third run, over zeroed memory, differs from the first run'
found stale add 'fail'
found late add 'fail'

# What a program says of itself.
found early add 'fail.*the third run, over zeroed memory, differs from the first run'
found beyond add 'fail.*segments_until: node 0 needs [0-9]+ segments of [0-9]+'

# Less work than was asked for.
found half 'matmul' 'fail.*outside their bounds'
found sampled softmax 'fail.*outside their bounds'

# Errors that come and go: counted, in worker processes too, and without losing the device.
for way in --in-process --jobs=1; do
    run conformance --devices faulty:twentieth --tier tiny --ops add --replays 100 $way
    status "replays $way: fails" 1
    says "replays $way: counted" out '[0-9]+ of 100 replays differed, [0-9]+ were wrong, [0-9]+ different results'
    says "replays $way: the bound" out 'with 95 % confidence at most [0-9.]+'
    if grep -q 'device lost' "$work/out"; then bad "replays $way: nothing is lost" "it is"; else ok "replays $way: nothing is lost"; fi
done
run conformance --devices faulty:twentieth --tier tiny --ops add --replays 100 --json
if python3 - "$work/out" <<'PYTHON'
import json, sys
result = json.load(open(sys.argv[1]))["conformance"][0]
# A case that was wrong when it was judged is not replayed.
total, rows = result["replays"], [row["replays"] for row in result["failures"] if "replays" in row]
rate = total["differed"] / total["executions"]
print(f"{total['differed']} of {total['executions']} differed")
sys.exit(not (rows and 0.02 < rate < 0.1 and rate < total["differ_at_most"] < 0.15 and total["executions"] % 100 == 0
              and all(row["executions"] == 100 and row["distinct"] <= row["differed"] + 1 for row in rows)))
PYTHON
then ok "replays --json: the rate is that of the fault"; else bad "replays --json" "other figures"; fi
run conformance --devices faulty:sound --tier tiny --ops add --replays 50
status "replays of the control" 0
says "replays of the control: none differs" out '^  [0-9]+ replays: 0 differed, 0 were wrong; with 95 % confidence at most 0'

# Results that are right as long as nothing else runs: between the replays, several other programs do, in turn.
run conformance --devices faulty:disturbed --tier tiny --ops add,neg --in-process
status "disturbed by others: right without replays" 0
for way in --in-process --jobs=1; do
    run conformance --devices faulty:disturbed --tier tiny --ops add,neg --replays 20 $way
    status "disturbed by others $way: fails" 1
    says "disturbed by others $way: by one and then another" out '[1-9][0-9]* of 20 replays differed'
    says "disturbed by others $way: they are, too" out '20 executions of (add|neg) #[0-9a-f]{8} in between differed from its first one'
done

# The same bits alone, in chunks and on any number of threads.
run conformance --devices faulty:sound --tier tiny --ops softmax,matmul,scaled_dot_product_attention --invariance
status "invariance of the control" 0
says "invariance: rows" out '^  softmax +([0-9]+) of \1 +- +([0-9]+) of \2$'
says "invariance: chunks" out '^  scaled_dot_product_attention +([0-9]+) of \1 +([1-9][0-9]*) of \2 +([0-9]+) of \3$'
run conformance --devices faulty:batch --tier tiny --ops softmax --invariance
status "rows that depend on their batch" 1
says "... in the table" out '^  softmax +[0-9]+ of [0-9]+ .*<- differs'
run conformance --devices faulty:threads --tier tiny --ops softmax --invariance
status "results that depend on the number of threads" 1
says "... in the table" out '^  softmax .* 17 of 34 +<- differs'

# Contracts that are false, seen from outside.
run conformance --probe --devices faulty:sound
status "probes of the control" 0
cp "$work/out" "$work/first"
run conformance --probe --devices faulty:sound
if cmp -s "$work/out" "$work/first"; then ok "probes: the same twice"; else bad "probes" "two runs differ"; fi
PORTICO_THREADS=3 run conformance --probe --devices faulty:sound --in-process
if cmp -s "$work/out" "$work/first"; then ok "probes: the same on three threads"; else bad "probes" "three threads differ"; fi
for row in 'accumulator|accumulator of matmul of f32, 16 rows.* 11 bits \(f16\) +<- BROKEN: the contract says 24 bits' \
           'subnormal|f32 subnormals made by a \* b +flushed +<- BROKEN: the contract says kept' \
           'undefined|error of exp +a result is not finite +<- BROKEN: the contract says 4 ulp' \
           'rounding|rounding of f32 to bf16 +toward zero +<- BROKEN'; do
    run conformance --probe --devices "faulty:${row%%|*}"
    status "probes of ${row%%|*}" 1
    says "probes of ${row%%|*}: the clause" out "${row#*|}"
    if [ "$(tail -n 1 "$work/out")" != "$(tail -n 1 "$work/first")" ]; then ok "another fingerprint"; else bad "fingerprint" "it is the same"; fi
done
run conformance --devices faulty:sound --tier tiny --ops add --report "$work/then"
run conformance --devices faulty:sound --tier tiny --ops add --report "$work/now" --baseline "$work/then"
says "a report's fingerprint, as it was" out 'fingerprint [0-9a-f]{16}, as it was'
run conformance --devices faulty:rounding --tier tiny --ops add --report "$work/other" --baseline "$work/then"
status "a broken clause fails the run" 1
says "... and is printed" out 'rounding of f32 to bf16 +toward zero +<- BROKEN'
says "... beside the baseline" out 'rounding of f32 to bf16: toward zero, was to nearest, ties to even'
run conformance --verify "$work/now"; status "a report with probes is verified" 0
run conformance --probe --devices faulty:dead --timeout 20; status "a device that crashes" 1
says "... has no fingerprint" out 'the probes ended early: the process died'

run conformance --devices faulty:terms --tier tiny --ops add --timeout 20
status "what dies only in a probe passes without the probes" 0
run conformance --devices faulty:terms --tier tiny --ops add --timeout 20 --report "$work/terms"
status "... and not in a report" 1
says "... which says why" out 'the probes ended early: the process died'

# Nothing is run: what compiles, and what the compiler says of it. Faults of results are not seen then.
run conformance --compile-only --devices faulty:zero --tier tiny --ops add,matmul
status "compile-only: nothing is run" 0
says "compile-only: a row for each kernel" out '^  kernel_[0-9]+ +1 +[0-9]+ +3$'
says "compile-only: how many spill" out 'pipelines of [0-9]+ kernels, 1 spill'
run conformance --compile-only --devices faulty:zero --tier tiny --ops add,matmul --in-process
status "compile-only in one process" 0; says "... finds the same" out 'pipelines of [0-9]+ kernels, 1 spill'
run conformance --compile-only --devices faulty:sound --tier tiny --ops matmul --code "$work/code/here" --json
status "compile-only: machine code" 0; json "compile-only: JSON"
says "compile-only: figures in the driver's words" out '"name": "Spilled VGPRs"'
if [ "$(cat "$work"/code/here/kernel_*.0.txt)" = s_endpgm ]; then ok "a listing"; else bad "a listing" "$(ls "$work/code/here")"; fi
run conformance --compile-only --devices faulty:uncompiled --tier tiny --ops 'softmax,add'
status "a compiler that refuses" 1; says "... and why" out 'too many registers'
says "... and the command" out 'again: portico conformance --compile-only --devices faulty:[0-9]+ --tier tiny --ops softmax'
run conformance --compile-only --devices faulty:compiler --tier tiny --ops 'softmax,add'
status "a compiler that crashes" 1; says "... is blamed" out 'softmax .*: crashed'
run conformance --compile-only --devices cpu:native --tier tiny --ops add
status "a device without kernels" 2; says "... says so" err 'NOTHING COMPILED'
run conformance --compile-only --report "$work/none"; status "compile-only with --report" 2

finish
