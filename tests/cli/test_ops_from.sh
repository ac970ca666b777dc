#!/bin/bash
# Operations of one's own, judged by the program: what is tried, what is found, and every option that goes with
# --ops-from, or does not.
#
#   test_ops_from.sh PORTICO SOURCE LIBRARIES [CC ...]
#
# LIBRARIES: the folder of own0.so (without a defect) to own5.so. CC: the words of a C compiler (default: cc).
set -u
[ $# -ge 3 ] || { echo "usage: $0 PORTICO SOURCE LIBRARIES [CC ...]"; exit 2; }
portico=$(realpath "$1")
source=$(realpath "$2")
libraries=$(realpath "$3")
shift 3
cc=("${@:-cc}")
. "$source/tests/cli/checks.sh"
good=$libraries/own0.so
judge() { local library=$1; shift; run conformance --devices cpu:native --tier tiny --ops-from "$library" "$@"; }

# ---- what is tried ----
judge "$good"
status "all operations of a library" 0
says "attributes beside their initial values, and a gradient" err 'curve: [0-9]+ cases; its gradient is right in 9 cases, at most [0-9.e-]+ of the bound'
says "what a function shape refuses" err 'halve: [0-9]+ cases, [0-9]+ more are refused by its function shape; it has no gradient'
says "pairs of types" err 'mix: [0-9]+ cases, types in 25 of 256 combinations: each pair'
says "operands of [@] have cases" out 'halve +[1-9]'
judge "$good" --tier standard --ops mix --case 1
says "standard: all combinations" err 'mix: [0-9]{4} cases; it has no gradient'
run conformance --devices cpu:native --tier tiny --ops-from "$good" --ops 'curve,neg' --verbose
status "beside operations of the table" 0
says "settings are in the labels" err 'curve .*scale=-2.5'
says "and initial values" err 'curve .*random'
says "an operation of the table" err 'neg '

# ---- what is found ----
judge "$libraries/own2.so"
status "a wrong gradient" 1
says "a wrong gradient: which, and by how much" err 'curve: .*its gradient is WRONG: curve .*operand 0, element [0-9]+, is .* differences say'
judge "$libraries/own3.so"
status "no case" 2
says "no case: why" err "op 'halve': no case follows from its signature .*list shapes.*x has [0-9] dimensions"
judge "$libraries/own4.so"
status "shapes of its own that it refuses" 2
says "shapes of its own that it refuses: which" err "op 'curve': it refuses the shapes \"257 257\" of its own list: .*257 is a prime"
judge "$libraries/own5.so"
status "settings of its own that it refuses" 2
says "settings of its own that it refuses: which" err "op 'curve': it refuses row 1 of its settings: .*a power of 1 is dull"
judge "$work/none.so"
status "no such library" 1

# ---- options that go with it ----
one=$("$portico" conformance --devices cpu:native --tier tiny --ops-from "$good" --ops curve --verbose 2>&1 < /dev/null |
    grep -oE 'curve #[0-9a-f]{8}' | head -n 1 | cut -d'#' -f2)
judge "$good" --ops curve --case "$one" --variant '*'
status "--case, --variant" 0
says "--case: one" out ' 1 passed'
for option in --in-process --invariance "--replays 3" "--replays 3 --in-process" "--seeds 2" "--slice 1/2" \
    "--jobs 2" "--fail-fast" "--judge nmse" "--seed 7" "--timeout 60"; do
    # shellcheck disable=SC2086
    judge "$good" --ops 'curve,halve' $option
    status "$option" 0
done
judge "$good" --json
status "--json" 0
json "--json: one object"
judge "$good" --log "$work/log"
status "--log" 0
judge "$good" --log "$work/log"
status "--log again" 0
says "--log again: nothing is done twice" err 'cases were in the log already'
judge "$libraries/own1.so" --log "$work/log"
status "--log of another library" 2
says "--log of another library: it is told apart" err 'log of another run: its library is'

# ---- options that do not ----
for option in "--report $work/report" "--baseline $work/report" "--verify $work/report" "--bisect $work/model" --probe; do
    # shellcheck disable=SC2086
    judge "$good" $option
    status "$option" 2
    says "$option: is refused" err 'do not go together'
done

# ---- reproducers ----
judge "$good" --ops curve --case "$one" --reproducers "$work/cpu" --always
status "--reproducers --always" 0
says "--reproducers: of one case" err '1 of 1 reproducers written'
if grep -q -- "--ops-from $good" "$work/cpu/curve-$one"-*/README.txt; then ok "README.txt names the library"; else bad "README.txt" "it does not name the library"; fi
judge "$good" --ops curve --case "$one" --variant '*' --reproducers "$work/unseen" --no-run
status "--reproducers --no-run" 0
shot() {
    local device=$1 header=$2 library=$3 folder last
    if ! run conformance --devices "$device" --ops neg --tier tiny || [ "$status" != 0 ]; then
        skip "$device is not there"
        return
    fi
    run conformance --devices "$device" --tier tiny --ops-from "$good" --ops curve --replays 2
    status "$device: a kernel" 0
    run conformance --devices "$device" --tier tiny --ops-from "$good" --ops curve --compile-only --case "$one"
    status "$device: --compile-only" 0
    run conformance --devices "$device" --tier tiny --ops-from "$libraries/own1.so" --ops curve --replays 2 \
        --reproducers "$work/$device" --max-failures 2
    status "$device: a wrong kernel" 1
    says "$device: a wrong kernel: how to repeat it" out "again: portico conformance .*--ops-from $libraries/own1.so"
    says "$device: a wrong kernel: reproducers" err '([0-9]+) of \1 reproducers written'
    if ! printf '#define CL_TARGET_OPENCL_VERSION 120\n#include <%s>\nint main(void) { return 0; }\n' "$header" |
        "${cc[@]}" -x c - "$library" -o "$work/try" 2> /dev/null; then
        skip "$device: no headers or loader"
        return
    fi
    folder=$(find "$work/$device" -name repro.c -printf '%h\n' | sort | head -n 1)
    if ! (cd "$folder" && "${cc[@]}" -Wall -Wextra -Werror repro.c "$library" -lm -o repro) > "$work/out" 2> "$work/err"; then
        bad "$device" "repro.c does not compile"
        return
    fi
    last=$(cd "$folder" && timeout 120 ./repro 2> "$work/err" | tail -n 1)
    if [ "$last" = FAIL ]; then ok "$device: repro.c shows it without Portico"; else bad "$device: repro.c" "'$last'"; fi
}
shot vulkan:lavapipe vulkan/vulkan.h -lvulkan
shot opencl:pocl CL/cl.h -lOpenCL
finish
