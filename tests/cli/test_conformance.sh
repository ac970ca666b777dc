#!/bin/bash
# `portico conformance` from outside: options, slices of a tier, a device that makes trouble, and reports.
#
#   test_conformance.sh PORTICO SOURCE
#
# PORTICO: the program. SOURCE: the source folder. Prints one line per check; exits 1 if one failed.
set -u
[ $# -ge 2 ] || { echo "usage: $0 PORTICO SOURCE"; exit 2; }
portico=$(realpath "$1")
source=$(realpath "$2")
. "$source/tests/cli/checks.sh"

# ---- conformance ----
run conformance --ops nonsense; status "conformance: unknown op" 2
run conformance --ops add,nonsense; status "conformance: one of two ops unknown" 2
run conformance --devices nonsense; status "conformance: unknown device" 2
run conformance --devices cpu,nonsense --ops add; status "conformance: one of two devices unknown" 2
run conformance --devices ,; status "conformance: an empty list" 2
run conformance --devices cpu:reference, --ops add; status "conformance: a list that ends in a comma" 2
run conformance --devices cpu:reference --ops add,; status "conformance: patterns that end in a comma" 2
run conformance --tier huge; status "conformance: unknown tier" 2
run conformance --case xyz; status "conformance: no case" 2
run conformance --case deadbeef --ops add; status "conformance: unknown case" 2
run conformance --devices cpu:reference --ops add --variant nonsense; status "conformance: unknown variant" 2
run conformance --devices cpu:reference --ops add,neg --tier tiny; status "conformance" 0
says "conformance: table" out '^  add '; says "conformance: verdict on stderr" err 'passed'
run conformance --devices cpu:reference --ops add --tier tiny --json; status "conformance --json" 0
json "conformance --json parses"
run conformance --devices cpu:reference --ops neg --tier tiny --verbose; says "conformance --verbose" err 'neg #'

for way in "" --in-process; do
    run conformance --devices cpu:reference,cpu:native --ops add --tier tiny --seed 5 --seeds 3 $way; status "--seeds 3 $way" 0
    says "--seeds 3 $way: rounds" out 'seed 5 and on, 3 rounds'
done

# ---- conformance: slices of a tier ----
for slice in 0/2 3/2 1/0 1/ /2 1 x 1/2x 1/-2; do
    run conformance --slice $slice --ops neg; status "--slice $slice" 2; says "--slice $slice: what it takes" err "'$slice' is no slice"
done
for slice in 1/1 1/3 2/3 3/3; do
    run conformance --devices cpu:reference --ops 'neg,add' --slice $slice --report "$work/slice-${slice%/*}-of-${slice#*/}"
    status "--slice $slice" 0; says "--slice $slice is told" out "; tier quick, slice $slice, seed 0"
done
run conformance --verify "$work/slice-2-of-3"; status "--verify of a slice" 0
says "it tells the slice" out 'tier quick, slice 2/3'; says "and that it is a selection" out 'complete .* of a selection'
if python3 - "$work" > "$work/err" << 'PYTHON'
import json, sys
def records(name):
    report = json.load(open(f"{sys.argv[1]}/slice-{name}/report.json"))
    assert report["run"]["slice"] == name.replace("-of-", "/")
    return sorted(c["op"] + c["case"] + c["variant"] for d in report["conformance"] for c in d["cases"])
parts = [records(f"{k}-of-3") for k in (1, 2, 3)]
assert all(parts) and sorted(sum(parts, [])) == records("1-of-1"), [len(p) for p in parts]
PYTHON
then ok "three slices are the whole, and nothing twice"; else bad "slices" "$(tail -1 "$work/err")"; fi
sed -i 's|"slice": "2/3"|"slice": "1/1"|' "$work/slice-2-of-3/report.json"
run conformance --verify "$work/slice-2-of-3"; status "--verify of a slice that pretends to be all" 1
says "it is altered" out 'alterations .*run'; says "and incomplete" out 'have no record'

# ---- conformance: a device that makes trouble ----
for option in "--jobs 0" "--timeout 0" "--minutes 1" "--seeds 0" "--seeds x" "--in-process --jobs 2" "--in-process --log x" "--worker"; do
    run conformance $option --tier tiny --ops add; status "conformance $option" 2
done
# Options of which one would be ignored: one line that names both, and nothing is run or written.
while read -r first second options; do
    run conformance $options; status "conformance $options" 2
    says "conformance $options: both are named" err "^portico: conformance: .*$first.* .*$second"
    if [ "$(wc -l < "$work/err")" = 1 ]; then ok "one line"; else bad "conformance $options" "more lines"; fi
    silent "conformance $options: nothing on stdout" out
done <<TEXT
--seeds --report --seeds 2 --report $work/no
--seeds --log --seeds 2 --log $work/no
--seeds --baseline --seeds 2 --baseline $work/no
--bisect --report --bisect m --report $work/no
--bisect --verify --bisect m --verify $work/no
--bisect --baseline --bisect m --baseline $work/no
--bisect --log --bisect m --log $work/no
--bisect --ops --bisect m --ops add
--bisect --json --bisect m --json
--bisect --no-run --bisect m --reproducers $work/no --no-run
--no-run --report --no-run --ops add --case 1 --variant x --reproducers $work/no --report $work/no
--verify --no-run --no-run --ops add --case 1 --variant x --reproducers $work/no --verify $work/no
--no-run --baseline --no-run --ops add --case 1 --variant x --reproducers $work/no --baseline $work/no
--no-run --log --no-run --ops add --case 1 --variant x --reproducers $work/no --log $work/no
--no-run --always --no-run --ops add --case 1 --variant x --reproducers $work/no --always
--judge --reproducers --judge nmse --reproducers $work/no
--judge --reproducers --judge=field --reproducers=$work/no
--judge --report --judge nmse --report $work/no
--judge --log --judge nmse --log $work/no
--verify --ops --verify $work/no --ops add
--verify --devices --verify $work/no --devices cpu
--verify --waivers --verify $work/no --waivers x
--verify --report --verify $work/no --report $work/no
--verify --seed --verify $work/no --seed 3
--rerun --json --verify $work/no --rerun 3 --json
--rerun --verify --rerun 3
--factor --baseline --factor 3
--prompt --bisect --prompt x
--max-tokens --bisect -n 3
--always --reproducers --always
--in-process --jobs --in-process --jobs 2
--in-process --log --in-process --log $work/no
--case --slice --case 12345678 --slice 1/2
--json --max-failures --json --max-failures 3
TEXT
if [ -e "$work/no" ]; then bad "contradictions" "something was written"; else ok "nothing is written"; fi
run conformance --id x --ops add; status "an option of worker processes" 2
# judged NAME STATUS KIND OPTION...: the verdict on one device of the trouble plugin
judged() {
    local name=$1 wanted=$2 kind=$3
    shift 3
    run conformance --devices "trouble:$kind" --ops add,mul,sub --tier standard "$@"
    status "$name" "$wanted"
}
# Plugins that cannot be loaded: with `all` they are failures; those without a driver here are not.
broken=$(dirname "$portico")/tests/plugins
if [ -f "$broken/bad2.so" ]; then
    none() { VK_DRIVER_FILES=/nonexistent.json VK_ICD_FILENAMES=/nonexistent.json OCL_ICD_VENDORS=/nonexistent "$@"; }
    none run conformance --devices all --ops neg --tier tiny; status "all devices that there are" 0
    PORTICO_PLUGIN_PATH=$broken none run conformance --devices all --ops neg --tier tiny --report "$work/unloadable"
    status "a plugin that crashes, and all devices" 1
    says "it stands in the table" out '^bad2: a plugin that could not be loaded, .*bad2.so'
    says "with its reason" out 'not opened: its plugin could not be loaded: it crashed in the probe'
    says "the last line says so" err 'FAILED: a device could not be opened'
    says "the others are judged" out '^cpu:0: '
    if python3 -c 'import json, sys
runs = json.load(open(sys.argv[1]))["conformance"]
bad = [run for run in runs if run["device"]["id"] == "bad2"]
sys.exit(not (len(bad) == 1 and bad[0]["opened"] is False and "crashed" in json.dumps(bad)))' "$work/unloadable/report.json"
    then ok "it stands in the report"; else bad "the report" "bad2 is not there, or not as not opened"; fi
    run conformance --verify "$work/unloadable"; status "--verify of it" 1; says "--verify names it" out 'bad2'
    PORTICO_PLUGIN_PATH=$broken none run conformance --devices cpu:native --ops neg --tier tiny
    status "a plugin that crashes, and another device" 0
else
    skip "plugins that cannot be loaded"
fi

trouble=$(dirname "$portico")/tests/plugins/trouble
if [ -f "$trouble/trouble.so" ]; then
    export PORTICO_PLUGIN_PATH=$trouble:$(dirname "$trouble")
    judged "a sound device" 0 sound; says "a sound device: rare states have no column" out '  pass  fail  unsup'
    judged "a crash" 1 crash
    says "a crash: the case is blamed" out 'mul f32.*: crashed'; says "a crash: last words" out 'register r7 is on fire'
    says "a crash: the run goes on" out '^  sub +[0-9]+ +[1-9][0-9]* +0 +0 '; says "a crash: counted" out ', [1-9][0-9]* crashed'
    judged "a variant that always crashes" 1 always
    says "it is given up" out 'not run: this variant'; says "the other variant passes" out '^  mul +[0-9]+ +[1-9]'
    run conformance --devices trouble:narrow --ops neg --tier full; status "tensors beyond a binding" 1
    says "a word behind them" out 'large random, variant wide: fail'; says "a crash, and the other variants" out ' [1-9][0-9]* passed, 1 failed, .* 1 crashed;'
    says "the variant is blamed" out 'large random, variant bad: crashed'
    run conformance --devices trouble:narrow --ops neg --tier full --compile-only
    says "--compile-only prepares them, and runs none" out '; [1-9][0-9]* cases and variants compiled, 0 failed, '
    judged "a hang" 1 hang --timeout 0.5
    says "a hang: the case is blamed" out 'mul f32.*: hung'; says "a hang: the limit" out 'no answer within 0.5 s'
    judged "a lost device" 1 lost; says "a lost device: the case is blamed" out 'mul f32.*: device lost'
    says "a lost device: its message" out 'fell off the bus'
    judged "a silent reset" 1 reset; says "a silent reset: the case is blamed" out 'mul f32.*: device lost'
    says "a silent reset: how it is known" out 'known question'
    says "a silent reset: others are not blamed" out '^  sub +[0-9]+ +[1-9][0-9]* +0 +0 '
    judged "exit in a driver" 1 stop; says "exit in a driver: its status" out 'ended with status 3'
    judged "out of host memory" 1 memory; says "out of host memory" out 'out of host memory'
    run conformance --devices trouble:full --ops add,matmul --tier quick; status "data that do not fit into memory" 1
    says "they end as out of memory" out '^    out of host memory: .*bytes'; says "and the others are run" out '^  add +[0-9]+ +[1-9]'
    if grep '^    again:' "$work/out" | sort | uniq -d | grep -q .; then bad "data that do not fit" "a case stands twice"; else ok "each once"; fi
    judged "a device that is lost when it is asked" 1 gone; says "it is: the case is blamed" out '^    the device went away'
    judged "a device that lists no variants" 1 mute; says "it is: why" out '^    variants: none is listed for a node'
    judged "a flaky device" 1 flaky; says "a flaky device: right and wrong" out 'wrong once and right once'
    judged "a wrong device" 1 wrong; says "a wrong device" out 'outside their bounds'
    judged "a crash in open" 1 open; says "a crash in open: the verdict" out 'not opened: .*opened, the process died'
    judged "a device that does not open" 1 refuse; says "it says why" out 'firmware is missing'
    judged "a device that is none" 1 empty; says "a device that is none: why" out 'not opened: .* gave none'
    # a device that could not be opened stands in the report, beside one that is sound
    for kind in open refuse empty; do
        judged "$kind: a report" 1 "sound,trouble:$kind" --report "$work/$kind"; says "$kind: said" err 'could not be opened'
        run conformance --verify "$work/$kind"; status "$kind: --verify" 1; says "$kind: --verify says FAILED" err 'FAILED$'
        says "$kind: --verify says why" out "verdict +device trouble:.* was not tested: "
        cp "$work/$kind/report.json" "$work/out"; says "$kind: in report.json" out '"opened": false'
        cp "$work/$kind/junit.xml" "$work/out"; says "$kind: in junit.xml" out 'testcase name="opening the device"'
        cp "$work/$kind/report.html" "$work/out"; says "$kind: in report.html" out 'pill bad">not opened<'
        if python3 "$source/tests/cli/check_report.py" "$work/$kind" "$source/docs/conformance-schema.json" > "$work/err"; then
            ok "$kind: the files are well formed"
        else
            bad "$kind: the files" "are not well formed"
        fi
    done
    judged "a device that can do nothing, and one that is wrong" 1 unable,trouble:wrong
    judged "a device that can do nothing, and one that is not opened" 1 unable,trouble:refuse
    judged "a crash in close" 1 close; says "a crash in close: the verdict" out 'closed, the process died'
    judged "a device that can do nothing" 2 unable; says "it says so" err 'NOTHING TESTED'
    judged "a device that prints" 0 noise
    run conformance --devices bad2 --tier tiny; status "a plugin that crashes in create" 2
    says "a plugin that crashes in create: why" err 'bad2.so is not used: it crashed in the probe'
    # the same records with any number of workers
    for jobs in 1 3; do
        run conformance --devices trouble:crash,trouble:always,trouble:reset,trouble:lost --ops add,mul,sub \
            --tier standard --json --jobs $jobs
        sed -E 's/"seconds": [-+0-9.e]+//' "$work/out" > "$work/jobs$jobs"
    done
    if cmp -s "$work/jobs1" "$work/jobs3"; then ok "one worker or three"; else bad "one worker or three" "results differ"; fi
    # a log: a run that was ended goes on, and comes to the same end
    judged "with a log" 1 crash --json --log "$work/log"
    sed -E 's/"seconds": [-+0-9.e]+//' "$work/out" > "$work/first"
    lines=$(wc -l < "$work/log")
    head -n $((lines / 2)) "$work/log" > "$work/log2"
    printf '{"device": "trouble:1", "cut' >> "$work/log2"
    judged "a log that was cut off" 1 crash --json --log "$work/log2"
    says "what is done is not repeated" err 'cases were in the log already'
    sed -E 's/"seconds": [-+0-9.e]+//' "$work/out" > "$work/second"
    if cmp -s "$work/first" "$work/second"; then ok "the same result"; else bad "a resumed run" "another result"; fi
    judged "a log of another seed" 2 crash --seed 1 --log "$work/log"; says "it says what differs" err 'its seed is'
    judged "a log of another device" 2 sound --log "$work/log"
    echo "no log" > "$work/nolog"
    judged "a file that is no log" 2 crash --log "$work/nolog"; judged "a log in no folder" 2 crash --log "$work/no/log"
    # all cases again: a device that crashes, hangs or does not open now
    run conformance --devices trouble:sound --ops add,mul,sub --tier quick --report "$work/sound"
    status "a report to repeat" 0
    run conformance --verify "$work/sound" --rerun 2000 --seed 1 --devices trouble:crash; status "--rerun: a crash" 1
    says "--rerun: a crash is named" out 'mul #.*: crashed here, pass in the report; here: the process died \(Segmentation'
    says "--rerun: the others are repeated" out '[1-9][0-9]* of [0-9]+ repeated cases agree'
    run conformance --verify "$work/sound" --rerun 2000 --seed 1 --devices trouble:hang --timeout 0.3
    status "--rerun: a hang" 1; says "--rerun: a hang is named" out 'hung here, pass in the report; here: no answer within 0.3 s'
    run conformance --verify "$work/sound" --rerun 4 --seed 1 --devices trouble:open; status "--rerun: not opened" 1
    says "--rerun: not opened: why" err 'when the device was opened, the process died'
    # waivers
    printf '# known\n\ndevice: trouble:*\nop: mul\nstate: crashed\nreason: r7 burns\n  at full moon\nreference: bug 7\n' > "$work/waivers"
    judged "waived crashes" 0 crash --waivers "$work/waivers"; says "waived crashes: counted" out '[1-9][0-9]* waived'
    says "waivers that are too wide" err 'line 3 is too wide.*r7 burns at full moon'
    judged "a hang is not waived" 1 lost --waivers "$work/waivers"
    judged "a waiver without need" 0 sound --waivers "$work/waivers"
    says "a waiver without need: reported" err 'line 3 is no longer needed'
    sed -i 's/^op:/opp:/' "$work/waivers"
    judged "a bad waiver" 2 crash --waivers "$work/waivers"; says "a bad waiver: the line" err 'line 4: .opp. is no key'
    printf 'op: mul\nreason: because\n' > "$work/waivers"
    judged "a waiver without reference" 2 crash --waivers "$work/waivers"; says "which" err 'line 1: .* no reference'
    printf 'reason: because\nreference: none\n' > "$work/waivers"
    judged "a waiver of everything" 2 crash --waivers "$work/waivers"
    judged "no waiver file" 2 crash --waivers "$work/missing"
    # a soak
    run conformance --devices trouble:sound --ops add --tier soak --minutes 0.02; status "a soak" 0
    says "a soak: rounds" out 'seed 0 and on, [1-9][0-9]* rounds'
    run conformance --devices trouble:flaky --ops mul --tier soak --minutes 0.02; status "a soak that fails" 1
    for way in "" --in-process; do
        run conformance --devices trouble:wrong --ops mul --seeds 2 $way; status "--seeds 2 $way that fail" 1
    done
    # reports of soaks: every round is complete, but for the last
    run conformance --devices trouble:sound --ops add --tier soak --minutes 0.03 --report "$work/soak"; status "a soak's report" 0
    run conformance --verify "$work/soak"; status "--verify a soak" 0; says "--verify a soak: complete" out 'complete +[0-9]+ cases'
    run conformance --verify "$work/soak" --rerun 3 --seed 1; status "--rerun of a soak" 0
    run conformance --devices trouble:wrong --ops mul --tier soak --minutes 0.05 --report "$work/soak-wrong" --max-failures 1
    status "a bad soak's report" 1
    run conformance --verify "$work/soak-wrong"; status "--verify a bad soak" 1
    says "--verify a bad soak: nothing altered" out 'alterations  none'; says "and its verdict" out 'verdict .* records are bad'
    # each failure that has a reproducer names it, and the folder is there
    if python3 -c '
import json, os, sys
folder = sys.argv[1]
runs = json.load(open(folder + "/report.json"))["conformance"]
named = [case["reproducer"] for run in runs for case in run["cases"] if "reproducer" in case]
page = open(folder + "/report.html").read()
sys.exit(not named or any(not os.path.isfile(f"{folder}/{name}/README.txt") or f"href=\"{name}\"" not in page for name in named))
' "$work/soak-wrong"; then ok "a report names its reproducers"; else bad "a report" "reproducers are not named, or not there"; fi
    for folder in soak soak-wrong; do
        if python3 "$source/tests/cli/check_report.py" "$work/$folder" "$source/docs/conformance-schema.json" > "$work/err"; then
            ok "$folder: the files are well formed"
        else
            bad "$folder" "the files are not well formed"
        fi
    done
    run conformance --devices trouble:sound --ops 'add,sub,mul,neg,abs' --tier soak --minutes 0.002 --report "$work/soak-cut"
    run conformance --verify "$work/soak-cut"; status "--verify a soak of less than a round" 1
    says "a soak of less than a round" out 'round 1 of 1 .seed 0. has [0-9]+ of [0-9]+ cases: its time is up'
    run conformance --devices trouble:wrong --ops mul --tier soak --minutes 5 --fail-fast
    status "a soak that stops at the first failure" 1
    # Ctrl-C ends a run with its summary, and no worker stays
    rm -f "$work/err"
    (set -m; "$portico" conformance --devices trouble:hang --ops add,mul --timeout 100 --verbose > "$work/out" 2> "$work/err" & pid=$!
     for _ in $(seq 400); do grep -q ' add #' "$work/err" && break; sleep 0.05; done
     sleep 0.5; kill -INT $pid; wait $pid; echo $? > "$work/status")
    status=$(cat "$work/status"); status "Ctrl-C in a hang" 130; says "Ctrl-C: the summary" out '^  add '
    unset PORTICO_PLUGIN_PATH
else
    skip "the trouble plugin is not built"
fi
# ---- conformance: reports ----
# altered NAME FROM TO: with FROM replaced once in report.json, --verify says so.
altered() {
    cp "$work/report.json" "$report/report.json"
    sed -i "0,/$2/s//$3/" "$report/report.json"
    if cmp -s "$work/report.json" "$report/report.json"; then bad "$1" "nothing was altered"; return; fi
    run conformance --verify "$report"; status "--verify: $1" 1; says "--verify: $1 is named" out "alterations  .*$4"
}
report=$work/reports/cpu
run conformance --devices cpu:native --ops softmax,matmul,neg --tier tiny --report "$report"; status "--report" 0
says "--report says where" err 'report.html'
if command -v python3 > /dev/null; then
    if python3 "$source/tests/cli/check_report.py" "$report" "$source/docs/conformance-schema.json" > "$work/err"; then
        ok "the report's three files are well formed"
    else
        bad "the report's three files" "are not well formed"
    fi
fi
if python3 -c '
import json, platform, sys
report = json.load(open(sys.argv[1] + "/report.json"))
page = open(sys.argv[1] + "/report.html").read()
device = report["conformance"][0]["device"]
right = (report["command"].startswith("portico conformance --devices cpu:native ") and platform.release() in report["host"]["kernel"] and
         report["host"]["os"] and "commit" in report and device["driver_version"] and "cases tested" in page and
         "<b>c</b>ontract" in page and report["host"]["kernel"] in page)
sys.exit(not right)' "$report"; then ok "the report says where it comes from"; else bad "the report" "does not say where it comes from"; fi
cp "$report/report.json" "$work/report.json"
run conformance --verify "$report"; status "--verify" 0; says "--verify: nothing altered" out 'alterations  none'
run conformance --verify "$report" --json; status "--verify --json" 0; json "--verify --json parses"
run conformance --verify "$report" --rerun 8 --seed 3; status "--verify --rerun" 0
says "--rerun: bit for bit" out '8 of 8 repeated cases agree, error/bound to the last bit'
run conformance --verify "$report" --rerun 12 --seed 3 --devices cpu:reference; status "--rerun on another device" 0
says "--rerun: figures may differ" out '([0-9]+) of \1 repeated cases agree in their state'
run conformance --verify "$report" --rerun 3 --devices nonsense; status "--rerun: unknown device" 2
altered "a verdict" '"state": "pass"' '"state": "fail"' 'cases\[0\] \('
altered "a figure" '"wrong": 0' '"wrong": 1' 'cases\[0\] \('
altered "a count" '"pass": [0-9]*' '"pass": 5' "'pass' was altered"
altered "a driver" '"driver": "' '"driver": "x' "'device' was altered"
altered "a name nearby" '"case": "' '"cage": "' 'cases'
cp "$work/report.json" "$report/report.json"
echo >> "$report/junit.xml"; run conformance --verify "$report"; status "--verify: junit.xml altered" 1
rm "$report/junit.xml"; run conformance --verify "$report"; status "--verify: junit.xml missing" 1
says "--verify: junit.xml is named" out 'junit.xml is missing'
head -c 3000 "$work/report.json" > "$report/report.json"
run conformance --verify "$report"; status "--verify: cut off" 2; says "--verify: cut off: which file" err 'report.json'
silent "--verify: cut off: nothing on stdout" out
run conformance --baseline "$report" --ops neg --devices cpu:native; status "--baseline: cut off" 2
for folder in nowhere folder text.bin; do
    run conformance --verify "$work/$folder"; status "--verify $folder" 2
    if [ "$(wc -l < "$work/err")" = 1 ]; then ok "--verify $folder: one line"; else bad "--verify $folder" "more lines"; fi
done
mkdir "$work/broken"; echo x > "$work/broken/notes"; printf 'no model at all, only text\n' > "$work/text.bin"
run conformance --report "$work/broken" --ops neg --devices cpu:native; status "--report into a folder of other files" 2
run conformance --report "$work/text.bin" --ops neg --devices cpu:native; status "--report onto a file" 2
rm -r "$report"
first=$work/reports/first
run conformance --devices cpu:native --ops neg,softmax --tier tiny --report "$first"; status "a baseline" 0
run conformance --devices cpu:native --ops neg,softmax,abs --tier tiny --baseline "$first" --report "$report"
status "--baseline" 0; says "--baseline: counts" out '0 regressions, 0 fixed, 0 grown.*[1-9][0-9]* new, 0 removed'
if command -v python3 > /dev/null; then
    if python3 "$source/tests/cli/check_report.py" "$report" "$source/docs/conformance-schema.json" > "$work/err"; then
        ok "a report with a comparison is well formed"
    else
        bad "a report with a comparison" "is not well formed"
    fi
fi
run conformance --verify "$report" --baseline "$first"; status "--verify --baseline" 0
run conformance --verify "$first" --baseline "$report"; status "--verify --baseline, less than before" 0
says "--baseline: removed" out 'removed .*abs'
sed -i '0,/"state": "pass"/s//"state": "fail"/' "$first/report.json"
run conformance --devices cpu:native --ops neg --tier tiny --baseline "$first"; status "--baseline that was altered" 2
says "--baseline that was altered: which record" err 'cases\[0\]'

finish
