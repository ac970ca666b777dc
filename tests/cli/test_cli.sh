#!/bin/bash
# The `portico` program from outside: what it prints where, and how it exits.
#
#   test_cli.sh PORTICO SOURCE [DATA [INCLUDE]]
#
# PORTICO: the program. SOURCE: the source folder. DATA: the folder of shared test data (stories260k, gguf-cases,
# safetensors); what needs it is skipped without it. INCLUDE: a folder with portico/plugin.h, to compile a plugin
# of another ABI; default: looked for beside the program. Prints one line per check; exits 1 if one failed.
set -u
[ $# -ge 2 ] || { echo "usage: $0 PORTICO SOURCE [DATA [INCLUDE]]"; exit 2; }
portico=$(realpath "$1")
source=$(realpath "$2")
data=${3:-}
include=${4:-$(dirname "$portico")/core/include}
. "$source/tests/cli/checks.sh"

# ---- the frame ----
run; status "no command" 2
run --help; status "--help" 0; says "--help lists commands" out '^  conformance '
says "--help lists the environment" out 'PORTICO_BACKEND'; silent "--help: nothing on stderr" err
run --version; status "--version" 0; says "--version" out '^portico [0-9]+\.[0-9]+'
run nonsense; status "unknown command" 2; says "unknown command: said" err "^portico: unknown command 'nonsense'; see"
run help; status "help" 0; "$portico" --help > "$work/err"
if cmp -s "$work/out" "$work/err"; then ok "help is --help"; else bad "help" "differs from --help"; fi
run help nonsense; status "help nonsense" 2; silent "help nonsense: nothing on stdout" out
run help run train; status "help of two commands" 2
for command in run translate transcribe chat embed classify inspect devices ops compare conformance bench train eval plot tokenizer; do
    run $command --help; status "$command --help" 0
    says "$command --help: usage" out "^usage: portico $command"
    says "$command --help: exit status" out 'Exit status'
    cp "$work/out" "$work/help"; run help $command; status "help $command" 0
    if cmp -s "$work/out" "$work/help"; then ok "it is $command --help"; else bad "help $command" "differs"; fi
    run $command --no-such-option --help; status "$command: --help behind what is wrong" 0
    run $command --no-such-option; status "$command: unknown option" 2
    says "$command: unknown option is named" err 'no-such-option'
done
for command in run chat inspect compare bench train eval plot tokenizer; do
    run $command; status "$command without a model" 2
done

# ---- what was meant ----
# meant WANTED ARGUMENT...: wrong usage, in one line that guesses WANTED ("": that guesses nothing).
meant() {
    local wanted=$1 pattern="did you mean '$1'\?"
    shift
    run "$@"; status "$*" 2
    if [ -n "$wanted" ]; then
        says "$*: $wanted" err "$pattern"
    elif grep -q 'did you mean' "$work/err"; then
        bad "$*" "it guesses"
    else
        ok "$*: no guess"
    fi
    if [ "$(wc -l < "$work/err")" = 1 ]; then ok "$*: one line"; else bad "$*" "not one line"; fi
    silent "$*: nothing on stdout" out
}
meant train trian; meant train help trian; meant conformance conformence; meant help hlep; meant --version --versoin
meant "" xyzzy; meant "" help xyzzy; meant "" t
meant --json ops --jsno; meant --prompt run m --promt x; meant --prompt compare m --promt=x; meant --help run --hepl
meant --prompt run m -prompt x; meant --output plot log.csv -output=x.svg; meant --ops conformance --op add
meant "" conformance --pluginn x; meant "" run m -x; meant "" run m --xyzzy
meant matmul ops matmull; meant matmul bench op --op matmull; meant matmul conformance --ops add,matmull
meant "" ops xyzzy; meant "" bench op --op xyzzy
meant cpu:native bench op --devices cpu:natvie; meant cpu bench op --devices cpy; meant "" bench op --devices cpu:99
meant cpu:reference conformance --devices cpu:native,cpu:refrence

# ---- ops ----
run ops; status "ops" 0; says "ops has matmul" out '^matmul '
if awk 'length > 100 { exit 1 }' "$work/out"; then ok "ops: 100 columns"; else bad "ops: 100 columns" "too wide"; fi
run ops layer_norm; status "ops NAME" 0; says "ops NAME: default" out 'eps.*1e-05'
run ops nonsense; status "ops: unknown op" 2
run ops add sub; status "ops: two names" 2
run ops --json; status "ops --json" 0; json "ops --json parses"

# ---- devices ----
run devices; status "devices" 0; says "devices: the CPU" out '^cpu:'; says "devices: one is marked" out 'the default'
run devices --json; status "devices --json" 0; json "devices --json parses"
run devices extra; status "devices: an argument" 2
export PORTICO_BACKEND=cpu:reference; run devices; unset PORTICO_BACKEND
status "devices with PORTICO_BACKEND" 0; says "devices: chosen by PORTICO_BACKEND" out 'chosen by PORTICO_BACKEND'
export PORTICO_BACKEND=nonsense; run devices; unset PORTICO_BACKEND
status "devices: PORTICO_BACKEND matches nothing" 2; says "devices: still lists" out '^cpu:'

# ---- environment ----
for setting in PORTICO_LOG=loud PORTICO_FALLBACK=maybe PORTICO_SELF_TEST=perhaps PORTICO_THREADS=0 PORTICO_THREADS=two; do
    export "${setting?}"; run devices; unset "${setting%%=*}"
    status "$setting" 2; says "$setting is named" err "${setting%%=*}"
done
for command in conformance "bench op" "run $source/models/dates" "inspect $source/models/dates"; do
    export PORTICO_BACKEND=nonsense; run $command; unset PORTICO_BACKEND
    case $command in inspect*) [ -f "$source/models/dates/model.safetensors" ] || continue ;; esac
    status "PORTICO_BACKEND=nonsense, ${command%% *}" 2
done

# ---- plugins ----
mkdir "$work/plugins"
echo "this is no shared object" > "$work/plugins/text.so"
export PORTICO_PLUGIN_PATH=$work/plugins; run devices
status "a plugin that is not ELF" 0; says "it is listed" out 'text\.so'; says "the CPU works beside it" out '^cpu:'
if command -v cc > /dev/null && [ -f "$include/portico/plugin.h" ]; then
    cat > "$work/newer.c" << 'C'
#include <portico/plugin.h>
static const pco_plugin table = {.size = sizeof table, .abi_version = (PCO_ABI_MAJOR + 1) << 16, .name = "newer",
                                 .version = "1", .description = "made for a later ABI"};
const pco_plugin *pco_plugin_query(uint32_t host) { (void)host; return &table; }
C
    if cc -shared -fPIC -I"$include" "$work/newer.c" -o "$work/plugins/newer.so" 2> "$work/err"; then
        run devices
        status "a plugin of a newer ABI" 0; says "it is listed" out 'newer\.so'; says "with the reason" out 'ABI'
        run conformance --devices newer --tier tiny --ops add; status "and cannot be used" 2
    else
        bad "a plugin of a newer ABI" "it does not compile"
    fi
else
    skip "a plugin of a newer ABI: no cc, or no plugin.h in $include"
fi
unset PORTICO_PLUGIN_PATH

# ---- bad files ----
printf 'no model at all, only text\n' > "$work/text.gguf"
printf 'no model at all, only text\n' > "$work/text.bin"
printf '\377\377\377\377\377\377\377\377{}' > "$work/long.safetensors"
printf 'GGUF\003\000' > "$work/cut.gguf"
: > "$work/empty.safetensors"
mkdir "$work/folder" "$work/broken"
echo '{"model_type": "transformer", ' > "$work/broken/config.json"
for file in missing.gguf text.gguf text.bin long.safetensors cut.gguf empty.safetensors folder broken; do
    for command in "inspect" "run --prompt x" "compare --devices cpu" "bench --devices cpu"; do
        run $command "$work/$file"; status "${command%% *} $file" 1
    done
    run inspect "$work/$file"; says "inspect $file names it" err "$file"
    silent "inspect $file: nothing on stdout" out
done

# ---- options ----
for option in "-n -1" "-n many" "--temperature -1" "--temperature nan" "--top-p 2" "--top-p 0" "--top-k -1" "--seed x" \
    "--min-p 2" "--typical-p -1" "--repeat-penalty 0" "--repeat-last-n -1" "--presence-penalty x" "--frequency-penalty 1e9" \
    "--context 0" "-n" "--echo=1" "--device nonsense" "--prompt a --input b"; do
    run run "$source/models/dates" $option; status "run $option" 2
done
# refused PATTERN ARGUMENT...: wrong usage, in one line with that pattern.
refused() {
    local pattern=$1
    shift
    run "$@"; status "$*" 2; says "$*: said" err "^portico: $pattern"
    if [ "$(wc -l < "$work/err")" = 1 ]; then ok "$*: one line"; else bad "$*" "not one line"; fi
}
refused "option --repeat-penalty: '0' is not a number from 0.001 to 1000$" run m --repeat-penalty 0
refused "run: --logprobs is for --json$" run m --prompt x --logprobs 3
refused "run: --keep is for --context-shift$" run m --prompt x --keep 3
refused "run: --draft-tokens is for --draft$" run m --prompt x --draft-tokens 3
refused "run: --return is for --beams$" run m --prompt x --return 2
refused "run: --prompts and --prompt exclude each other$" run m --prompts f --prompt x
refused "run: --prompts and - exclude each other$" run m --prompts f -
refused "run: --parallel is for --prompts$" run m --prompt x --parallel 2
refused "translate: --text, --input and - exclude each other$" translate m --text x -
refused "option --stop: its value is empty$" run m --stop=
refused "option -n needs a value$" run m -n
refused "option --max-tokens needs a value$" run m --max-tokens
refused "option -n: '5x' is not a whole number from 0 to 2147483647$" run m -n5x
refused "option --max-tokens: '5x' is not a whole number" run m --max-tokens=5x
refused "option -n: its value is empty$" run m -n=
refused "option --json takes no value$" ops --json=1
refused "option -v takes no value$" conformance -v1
refused "run: unknown option '--x'; see portico run --help$" run m --x
refused "run: unexpected argument '--echo'; see portico run --help$" run m -- --echo
refused "run: a model is missing; see" run --
refused "run: a model is missing; see" run -
refused "run: --input and - exclude each other$" run m --input x -
refused "bench: option --op is not for models; see" bench m --op add
refused "bench: option --context is not for operations; see" bench op --context 5
refused "bench: option --op is not for overhead; see" bench overhead --op add
run bench overhead --devices cpu:native --seconds 0.1
status "bench overhead" 0
says "bench overhead: a figure" out '200 nodes .* us/node'
run bench overhead --devices cpu:native --seconds 0.1 --python no-such-python
status "bench overhead without its peers" 0
says "bench overhead without its peers: it says so" err 'torch: the process ended'
modules=$(dirname "$portico")/python
if PYTHONPATH=$modules python3 -c 'import portico, numpy' 2> "$work/err"; then
    PYTHONPATH=$modules run bench overhead --devices cpu:native --seconds 0.1 --python python3
    says "bench overhead: the first call in Python" out 'first call in Python [0-9.]+ s, [0-9.]+ s of processors'
fi
refused "bench: option --variant is not for models; see" bench m --variant gemv
refused "tokenizer: there is no action 'trian', only train, encode, decode and bench; see" tokenizer trian
run ops -- --json; status "ops -- --json" 2; says "behind -- is no option" err "there is no op '--json'"
run ops --json -- add; status "ops --json -- add" 0; json "an option, --, and an operand"
run ops -- add; status "ops -- add" 0; says "ops -- add" out '^add '
run inspect -- --help; status "inspect -- --help" 1; says "a file of that name is looked for" err '^portico: --help: '
cp "$work/long.safetensors" "$work/-n5"
(cd "$work" && "$portico" inspect -- -n5 > out 2> err < /dev/null); status=$?
status "inspect -- -n5" 1; says "a file that begins with a dash is read" err '^portico: -n5: '
run conformance --devices cpu:reference --ops neg --tier tiny --seed=1 --seed 2
says "the last of two counts" out 'seed 2'
run inspect a b; status "inspect: two models" 2
run inspect a --dot --json; status "inspect --dot --json" 2
run inspect a --dot --memory; status "inspect --dot --memory" 2

# ---- conformance ----
run conformance --ops nonsense; status "conformance: unknown op" 2
run conformance --ops add,nonsense; status "conformance: one of two ops unknown" 2
run conformance --devices nonsense; status "conformance: unknown device" 2
run conformance --devices cpu,nonsense --ops add; status "conformance: one of two devices unknown" 2
run conformance --devices ,; status "conformance: an empty list" 2
run conformance --devices cpu:reference, --ops add; status "conformance: a list that ends in a comma" 2
run conformance --devices cpu:reference --ops add,; status "conformance: patterns that end in a comma" 2
run conformance --tier huge; status "conformance: unknown tier" 2
unset OPENBLAS_CORETYPE  # a setting of the caller is no part of the test
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

# ---- bench: the peer's kernels ----
# An OpenBLAS that knows no processor of these years: what it is told when it is opened, it takes.
if [ -n "${ASAN_OPTIONS:-}" ]; then
    skip "bench beside an old OpenBLAS: under AddressSanitizer a library that was closed is not read anew"
elif command -v cc > /dev/null && grep -q ' avx2 ' /proc/cpuinfo 2> /dev/null; then
    mkdir "$work/blas"
    cat > "$work/blas.c" << 'C'
#include <stdlib.h>
#include <string.h>
static char core[32] = "Prescott";
__attribute__((constructor)) static void start(void)
{
    const char *asked = getenv("OPENBLAS_CORETYPE");
    if (asked) strncpy(core, asked, sizeof core - 1);
}
char *openblas_get_corename(void) { return core; }
char *openblas_get_config(void) { return "OpenBLAS 0.3.21 DYNAMIC_ARCH"; }
void openblas_set_num_threads(int count) { (void)count; }
void cblas_sgemm(void) {}
C
    if cc -shared -fPIC -o "$work/blas/libopenblas.so.0" "$work/blas.c" 2> "$work/err"; then
        export LD_LIBRARY_PATH=$work/blas${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
        run bench op --op matmul --devices cpu:native --seconds 0.01; status "bench beside an old OpenBLAS" 0
        says "its version, and kernels that fit" out 'OpenBLAS 0\.3\.21 \((Haswell|SkylakeX)\)'
        says "why they are others" err '^OpenBLAS does not know this processor and chose the kernels of Prescott'
        export OPENBLAS_CORETYPE=Prescott
        run bench op --op matmul --devices cpu:native --seconds 0.01; unset OPENBLAS_CORETYPE
        says "what is asked for is kept" out 'OpenBLAS 0\.3\.21 \(Prescott\)'; says "and told" err 'OPENBLAS_CORETYPE='
        LD_LIBRARY_PATH=${LD_LIBRARY_PATH#"$work/blas"}; LD_LIBRARY_PATH=${LD_LIBRARY_PATH#:}
        [ -n "$LD_LIBRARY_PATH" ] || unset LD_LIBRARY_PATH
    else
        bad "an OpenBLAS of the test's own" "it does not compile"
    fi
else
    skip "the kernels of OpenBLAS: no compiler, or another processor"
fi

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

# ---- bench ----
run bench op --op nonsense; status "bench: unknown figure" 2
run bench op --devices nonsense; status "bench: unknown device" 2
run bench op --seconds 0; status "bench --seconds 0" 2
run bench op --devices cpu:native --op attention_row --seconds 0.01 --json; status "bench op" 0; json "bench --json parses"
run bench op --devices cpu:native --op matmul --seconds 0.01; status "bench op matmul" 0
says "bench op matmul: its peer" out 'OpenBLAS|not installed'
run bench op --devices cpu:native --op attention_row --variant '*' --seconds 0.01; status "bench op --variant" 0
says "bench op --variant: each" out '^  attention_row +stream +[0-9.]+ ms '
says "bench op --variant: by the device's clock" out '^  attention_row +whole +[0-9.]+ ms .*[0-9.]+ ms by the device.s clock$'
says "bench op --variant: the choice" out '^  attention_row +rows +[0-9.]+ ms .* the device.s choice; '
run bench op --devices cpu:native --op attention_row --variant stream --seconds 0.01 --json; status "bench op --variant --json" 0
json "bench op --variant --json parses"
run bench op --devices cpu:native --op attention_row --variant x --seconds 0.01; status "bench op --variant: unknown" 1
says "bench op --variant: unknown" err "cpu:0: no figure has a variant 'x'"
run bench op --devices cpu:native --op attention_row --variants --seconds 0.01; status "bench op --variants" 0
says "bench op --variants: each" out '^  attention_row +stream +[0-9.]+ ms '
run bench op --devices cpu:native --op attention_row --variants --variant rows; status "bench op --variants --variant" 2
run bench op --devices cpu:native --op attention_row --tunables --seconds 0.01 --json; status "bench op --tunables" 0
json "bench op --tunables parses"
says "bench op --tunables: cpu has variants, and no tunables" out '"tunables": \{\}'
run devices
if grep -q 'llvmpipe.*Mesa\|lavapipe' "$work/out"; then
    tune() { run bench op --devices vulkan:lavapipe --op attention_row --variant 'tiled*' --tunables --seconds 0.001 "$@"; }
    tune; status "bench op --tunables, lavapipe" 0
    says "bench op --tunables: the variant" out '^  attention_row +tiled +[0-9.]+ ms .* depth=64 initially$'
    says "bench op --tunables: another value" out '^  attention_row +tiled depth=128 +[0-9.]+ ms '
    says "bench op --tunables: in the other form" out '^  attention_row +tiled@gpu depth=128 +[0-9.]+ ms '
    tune --json; json "bench op --tunables --json parses"
    if [ "$(grep -c '"depth": 128' "$work/out")" = 2 ] && [ "$(grep -c '"depth": 64' "$work/out")" = 2 ]; then
        ok "bench op --tunables --json: every value"
    else
        bad "bench op --tunables --json" "does not have each value once"
    fi
fi

# ---- speech ----
speech=$source/tests/golden/speech
run transcribe "$speech/whisper" "$speech/sound.wav" --language de --device cpu; status "transcribe" 0
if [ "$(wc -l < "$work/out")" = 1 ]; then ok "one line for a file"; else bad "transcribe" "it says $(cat "$work/out")"; fi
says "transcribe: statistics on stderr" err '^transcribed  2.40 s of sound, de in [0-9]+ windows, '
run transcribe "$speech/whisper_en" "$speech/sound.wav" --timestamps --beams 2 --device cpu; status "transcribe --timestamps" 0
says "transcribe: times" out '^\[00:00\.[0-9][0-9] --> 00:0[0-2]\.[0-9][0-9]\] '
run transcribe "$speech/whisper" "$speech/sound.wav" "$speech/sound.wav" --json --device cpu; status "transcribe --json" 0
if python3 -c 'import json, sys; assert len([json.loads(l)["text"] for l in open(sys.argv[1])]) > 2' "$work/out"; then ok "transcribe --json parses"; else bad "transcribe --json" "$(cat "$work/out")"; fi
run transcribe "$speech/whisper" "$speech/sound.wav" --language xx --device cpu; status "transcribe: no language" 1
says "transcribe: it says which there are" err "language 'xx' is none that the model knows; it knows de, en, zh"
run transcribe "$speech/whisper_en" "$speech/sound.wav" --task translate --device cpu; status "transcribe: one language" 1
run transcribe "$speech/whisper" "$speech/features.safetensors" --device cpu; status "transcribe: no WAV file" 1
says "transcribe: no WAV file" err 'not a WAV file that can be read'
head -c 40 "$speech/sound.wav" > "$work/none.wav"; printf '\0\0\0\0' >> "$work/none.wav"
run transcribe "$speech/whisper" "$work/none.wav" --device cpu; status "transcribe: no samples" 1
says "transcribe: no samples" err "none.wav: the sound has no samples"
run transcribe "$speech/whisper"; status "transcribe: no file" 2; says "transcribe: no file" err 'a WAV file is missing'
run transcribe "$source/models/dates" "$speech/sound.wav" --device cpu; status "transcribe: a model of text" 1
run transcribe "$source/tests/golden/images/vit" "$speech/sound.wav" --device cpu; status "transcribe: a model of images" 1
says "transcribe: a model of images" err 'reads images and hears no sound'
for penalty in 0 1e-9 1; do
    run transcribe "$speech/whisper_en" "$speech/sound.wav" --beams 2 -n 8 --length-penalty $penalty --device cpu; cp "$work/out" "$work/penalty.$penalty"
done
same "--length-penalty 0 is none" "$work/penalty.0" "$work/penalty.1e-9"
if cmp -s "$work/penalty.0" "$work/penalty.1"; then bad "--length-penalty" "1 gives the same as 0"; else ok "and not the usual one"; fi
cp -r "$speech/whisper" "$work/mute"
sed -i 's/"begin_suppress_tokens": \[/&'"$(seq -s, 0 323)"',/' "$work/mute/generation_config.json"
run transcribe "$work/mute" "$speech/sound.wav" --device cpu; status "transcribe: all tokens are suppressed" 1
silent "nothing is written down" out; says "it says which file does it" err "mute: no token is left .* 'begin_suppress_tokens' of its generation_config.json"
for command in "run @ --prompt x --device" "chat @ --prompt x --device" "translate @ --device" "conformance --bisect @ --devices"; do
    run ${command/@/"$speech/whisper"} cpu; status "$command: a model that hears" 1; says "$command: a model that hears" err 'hears sound'
done
run compare "$speech/whisper" --devices cpu; says "compare: a model that hears" out 'hears sound'
run inspect "$speech/whisper"; status "inspect: a model that hears" 0
says "inspect: who runs it" out '^verdict .*; portico transcribe runs it$'; says "inspect: its memory" out '^  fits on cpu:0'
run inspect "$source/tests/golden/ct2/table"; status "inspect: a folder of CTranslate2" 0
says "inspect: its format" out '^format +CTranslate2$'; says "inspect: it can run" out '^verdict .*the model can run$'; says "inspect: its memory" out '^  fits on cpu:0'
cp -r "$source/tests/golden/ct2/table" "$work/ct2"; sed -i 's/"decoder_start_token": "[^"]*"/"decoder_start_token": "nobody"/' "$work/ct2/config.json"
run translate "$work/ct2" --text a --device cpu; status "translate: an unknown token to begin with" 1
says "translate: which" err "config.json: 'decoder_start_token' is 'nobody', which the vocabulary has not"
mkdir "$work/gguf"; cp "$source/tests/golden/families/qwen2.gguf" "$work/gguf/model.gguf"
run inspect "$work/gguf"; status "inspect: a folder with model.gguf" 0; says "inspect: it can run" out '^verdict .*the model can run$'

# ---- encoder-decoder ----
dates=$source/models/dates
if [ -f "$dates/model.safetensors" ]; then
    printf '3 May 2021\r\n\n4 July 2031\n' > "$work/lines"
    run translate "$dates" --input "$work/lines" --device cpu; status "translate: lines" 0
    printf '2021-05-03\n\n2031-07-04\n' > "$work/want"
    if cmp -s "$work/out" "$work/want"; then ok "an answer on each line"; else bad "translate" "it says $(cat "$work/out")"; fi
    run run "$dates" --prompts "$work" --device cpu; status "run --prompts: a folder" 1; says "run --prompts: a folder" err 'cannot be read: Is a directory'
    run translate "$dates" --input "$work" --device cpu; status "translate: a folder" 1; says "translate: a folder" err 'cannot be read: Is a directory'
    run run "$dates" --prompts "$work/lines" --device cpu; status "run --prompts" 0
    if cmp -s "$work/out" "$work/want"; then ok "--prompts: in order"; else bad "--prompts" "$(cat "$work/out")"; fi
    printf '"3 May 2021"\n{"prompt": "4 July 2031"}\n' > "$work/lines.jsonl"
    run run "$dates" --prompts "$work/lines.jsonl" --json --device cpu; status "run --prompts: JSON lines" 0
    if [ "$(grep -c -e '"text": "2021-05-03", "stop_reason": "end"' -e '"text": "2031-07-04", "stop_reason": "end"' "$work/out")" = 2 ]
    then ok "an object for each"; else bad "--prompts --json" "$(cat "$work/out")"; fi
    printf '"3 May 2021"\n[1]\n' > "$work/lines.jsonl"
    run run "$dates" --prompts "$work/lines.jsonl" --device cpu; status "run --prompts: no prompt" 1
    says "by its line" err 'line 2: a prompt is a JSON string, or an object with "prompt"'
    run translate "$dates" --text "3 May 2021" --device cpu --return 2 --json; status "translate --return 2" 0
    if python3 -c 'import json, sys; a, b = map(json.loads, open(sys.argv[1])); sys.exit(a["score"] <= b["score"] or a["text"] != "2021-05-03")' "$work/out"
    then ok "the best of two first"; else bad "translate --return 2" "it says $(cat "$work/out")"; fi
    run translate "$dates" --text "3 May 2021" --device cpu --beams 2 --return 3; status "more texts than beams" 1
    says "it says so" err '3 texts are to be returned of 2 beams'
    run run "$dates" --prompt "5 March 2020" --device cpu; status "run: one source" 0
    if [ "$(cat "$work/out")" = 2020-03-05 ]; then ok "stdout is the answer alone"; else bad "answer" "$(cat "$work/out")"; fi
    says "statistics on stderr" err 'tokens/s'
    for penalty in "--repeat-penalty 1000" "--presence-penalty 1000" "--frequency-penalty 1000"; do # tokens are bytes
        run run "$dates" --prompt "5 March 2020" --device cpu -n 8 $penalty; status "run $penalty" 0
        if [ "$(tr -d '\n' < "$work/out" | fold -w 1 | sort | uniq -d)" = "" ]; then
            ok "run $penalty: no byte twice"
        else
            bad "run $penalty" "$(cat "$work/out")"
        fi
    done
    while IFS='|' read -r want stops; do # tokens are bytes: 2020-03-05
        run run "$dates" --prompt "5 March 2020" --device cpu $stops; status "run $stops" 0
        if [ "$(cat "$work/out")" = "$want" ]; then ok "run $stops: $want"; else bad "run $stops" "$(cat "$work/out")"; fi
    done <<-'END'
	2020|--stop -
	2020-|--stop 03-0
	20|--stop 3-05 --stop 20-03-05
	2020-03-05|--stop 05x --stop 2020-03-050
	2020-0|--stop 03-06 --stop 3
END
    says "run --stop: why it ended" err 'a stop string came'
    run run "$dates" --prompt "5 March 2020" --device cpu --json --logprobs 1000; json "run --json parses"
    if python3 - "$work/out" <<-'END'
	import json, math, sys
	answer = json.load(open(sys.argv[1]))
	assert answer["text"] == "2020-03-05" and answer["stop_reason"] == "end", answer
	assert len(answer["tokens"]) == len(answer["text"])
	for token in answer["tokens"]:
	    chosen, top = token["logprob"], [one["logprob"] for one in token["top"]]
	    assert top == sorted(top, reverse=True) and chosen == top[0] and token["id"] == token["top"][0]["id"]
	    assert len({one["id"] for one in token["top"]}) == len(top)
	    assert abs(math.fsum(map(math.exp, top)) - 1) < 1e-9  # the whole vocabulary, in double
	END
    then ok "--logprobs: all of them sum to 1"; else bad "--logprobs" "$(head -c 300 "$work/out")"; fi
    printf '5 March 2020\n\n14 July 1999' > "$work/lines"
    run run "$dates" --input "$work/lines" --device cpu; status "run: lines" 0
    if [ "$(wc -l < "$work/out")" = 3 ]; then ok "a line for each line"; else bad "lines" "$(cat "$work/out")"; fi
    cp "$work/out" "$work/first"
    "$portico" run "$dates" - --device cpu < "$work/lines" > "$work/out" 2> "$work/err"; status=$?
    status "run -: stdin" 0
    if cmp -s "$work/out" "$work/first"; then ok "stdin as from a file"; else bad "stdin" "differs"; fi
    run run "$dates" --prompt "$(printf '5%.0s' {1..100})" --context 20 --device cpu
    status "run: a source longer than the context" 1; silent "nothing on stdout" out; says "both numbers" err '20'
    run inspect "$dates" --device cpu; status "inspect folder" 0; says "inspect: the memory plan" out 'fits on cpu'
    run inspect "$dates" --json --device cpu; json "inspect --json parses"
    run inspect "$dates" --dot; status "inspect --dot" 0; says "encoder and decoder" out 'cluster_encoder'
    for kind in svg json; do
        run run "$dates" --prompt "5 March 2020" --device cpu:reference --attention "$work/map.$kind"
        status "run --attention $kind" 0; says "--attention $kind says where" err "map.$kind"
    done
    if python3 "$source/tests/cli/check_attention.py" "$work/map.svg" "$work/map.json" 24 > "$work/out" 2> "$work/err"; then
        ok "the picture is well formed, and shows the weights"
    else
        bad "--attention" "the picture is not as it should be"
    fi
    run run "$dates" --prompt "5 March 2020" --device cpu --attention "$work/one.svg" --attention-layer 1
    status "run --attention-layer" 0; cp "$work/one.svg" "$work/out"; says "only that layer" out "layer 1, head 0"
    run run "$dates" --prompt "5 March 2020" --device cpu --attention "$work/two.svg" --attention-layer 2
    status "run --attention-layer: none" 1; says "it says so" err 'no layer 2'
    run run "$dates" --prompt "5 March 2020" --device cpu --attention "$work/nowhere/one.svg"
    status "run --attention into no folder" 1; says "which file" err 'nowhere/one.svg'
    run run "$dates" --input "$work/lines" --device cpu --attention "$work/two.svg"; status "run --attention of lines" 2
    run run "$dates" --prompt "" --device cpu --attention "$work/two.svg"; status "run --attention of nothing" 1
    run run "$dates" --prompt x --attention-layer 1; status "run --attention-layer alone" 2
    if [ -e "$work/two.svg" ]; then bad "--attention that failed" "leaves a file"; else ok "a failure leaves no file"; fi
    run inspect "$dates" --memory --device cpu; status "inspect --memory" 0
    says "--memory: by kind" out '^  arenas .*activations and workspace'; says "--memory: by block" out '^  all +380640$'
    mkdir "$work/null" && cp "$(dirname "$portico")/tests/plugins/null.so" "$work/null"
    for device in cpu null; do # the skeleton's device runs nothing: everything lies on the CPU
        PORTICO_PLUGIN_PATH=$work/null run inspect "$dates" --memory --json --device $device; status "inspect --memory --json, $device" 0
        if python3 "$source/tests/cli/check_memory.py" "$work/out" 380640 2> "$work/err"; then
            ok "--memory, $device: the figures fit each other"
        else
            bad "--memory, $device" "the figures do not fit each other"
        fi
    done
    run compare "$dates" --prompt "5 March 2020" --devices cpu; status "compare" 0; says "compare: same" out 'same'
    run compare "$dates" --prompt "5 March 2020" --devices cpu --json; json "compare --json parses"
    both=cpu:native+cpu:reference
    run run "$dates" --prompt "5 March 2020" --device $both; status "run: two devices" 0
    if [ "$(cat "$work/out")" = 2020-03-05 ]; then ok "two devices: the answer"; else bad "two devices" "$(cat "$work/out")"; fi
    says "two devices: both are named" err '^device +cpu:0\+cpu:1, '
    run run "$dates" --prompt "5 March 2020" --device warp:9+cpu,$both; status "run: the first list that is there" 0
    says "the first list that is there" err '^device +cpu:0\+cpu:1, '
    run run "$dates" --prompt "5 March 2020" --device cpu:native+warp:9; status "run: one of two devices unknown" 2
    says "the one that is unknown is named" err "cpu:native\+warp:9: there is no device for 'warp:9'"
    run inspect "$dates" --device $both; says "inspect: on two devices" out 'fits on cpu:0\+cpu:1'
    says "inspect: parts on two devices" out 'in [2-9] parts; .* 0 on the CPU'
    run compare "$dates" --prompt "5 March 2020" --devices cpu:reference,$both; status "compare: two devices as one" 0
    says "compare: two devices as one" out '^cpu:0\+cpu:1 +together +same'
    run bench "$dates" --devices $both --seconds 0.01 -n 4; says "bench: two devices as one" out '^cpu:0\+cpu:1 '
    says "bench MODEL: by the devices' own clock" out '^cpu:0\+cpu:1 +([0-9.]+ +){3}[0-9.]*[1-9][0-9]* +[0-9.]*[1-9][0-9]* '
    run conformance --devices $both --ops add; status "conformance takes devices one by one" 2
    export PORTICO_BACKEND=$both; run devices; unset PORTICO_BACKEND
    status "devices: two chosen" 0; says "devices: two chosen" out '^cpu:0\+cpu:1  \(chosen'
    run bench "$dates" --devices cpu:native --seconds 0.01 -n 4 --json; status "bench MODEL" 0; json "bench MODEL parses"
    says "bench MODEL: by the device's own clock, as JSON" out '"token_device_milliseconds": [0-9.]*[1-9]'
    mkdir "$work/cut"
    cp "$dates/config.json" "$work/cut"
    head -c 1000 "$dates/model.safetensors" > "$work/cut/model.safetensors"
    run run "$work/cut" --prompt x; status "run: truncated weights" 1
else
    skip "encoder-decoder: models/dates has no weights"
fi

# ---- with the shared data ----
# verdicts FOLDER: every file's exit status is its verdict.
verdicts() {
    local count=0 wrong=0 file verdict rest
    while read -r file verdict rest; do
        [ "$file" = file ] && continue
        run inspect "$data/$1/$file"
        count=$((count + 1))
        case $verdict in accept) [ $status = 0 ] ;; *) [ $status = 1 ] ;; esac || { wrong=$((wrong + 1)); echo "      $file"; }
    done < "$data/$1/VERDICTS.tsv"
    if [ $wrong = 0 ]; then ok "verdicts of $count files in $1"; else bad "$1" "$wrong of $count verdicts are wrong"; fi
}
stories=$data/stories260k/stories260K.gguf
if [ -n "$data" ] && [ -f "$stories" ]; then
    verdicts gguf-cases
    verdicts safetensors
    run inspect "$stories" --device cpu; status "inspect GGUF" 0; says "it fits" out 'fits on cpu'
    run inspect "$stories" --dot; status "inspect GGUF --dot" 0; says "digraph" out '^digraph'
    run inspect "$data/stories260k/stories260K-q5_0-q8_0-f16.gguf"; status "inspect Q5_0" 0; says "Q5_0" out 'the model can run'
    run run "$stories" --prompt "Once upon a time" -n 30 --device cpu; status "run GGUF" 0
    says "the text" out '^, there was a little girl named Lily'
    says "statistics on stderr" err 'tokens/s'
    if [ "$(wc -l < "$work/out")" = 1 ]; then ok "stdout: the text and a newline"; else bad "stdout" "more lines"; fi
    for kind in svg json; do
        run run "$stories" --prompt "Once upon a time" -n 9 --device cpu --attention "$work/map.$kind"
        status "run GGUF --attention $kind" 0
    done
    if python3 "$source/tests/cli/check_attention.py" "$work/map.svg" "$work/map.json" 40 > "$work/out" 2> "$work/err"; then
        ok "the picture of a GGUF"
    else
        bad "GGUF --attention" "the picture is not as it should be"
    fi
    run run "$stories" --prompt "Once upon a time" -n 5 --device cpu; cp "$work/out" "$work/first"
    run run -n5 "-pOnce upon a time" --device=cpu -- "$stories"; status "run -n5 -pTEXT -- MODEL" 0
    if cmp -s "$work/out" "$work/first"; then ok "the same text"; else bad "run -n5" "another text"; fi
    run run "$stories" --prompt "Once upon a time" -n 5 --device cpu --echo; says "--echo" out '^Once upon a time, there'
    run run "$stories" --prompt "" -n 8 --temperature 1 --seed 7 --device cpu; cp "$work/out" "$work/first"
    run run "$stories" --prompt "" -n 8 --temperature 1 --seed 7 --device cpu
    if cmp -s "$work/out" "$work/first"; then ok "same seed, same text"; else bad "same seed" "differs"; fi
    run run "$stories" --prompt "$(printf 'word %.0s' {1..200})" --context 32 --device cpu
    status "prompt longer than the context" 1; says "both numbers" err 'context 32'; silent "nothing on stdout" out
    head -c 200000 "$stories" > "$work/short.gguf"
    run run "$work/short.gguf"; status "run: truncated GGUF" 1; says "cut off" err 'cut off'
    (set -o pipefail; timeout 60 "$portico" run "$stories" --prompt "" --device cpu 2> "$work/err" | head -c 1 > "$work/out")
    says "a closed pipe is handled" err 'tokens/s'
    # a job of a script ignores Ctrl-C unless job control is on
    (set -m; "$portico" run "$stories" --prompt "" --device cpu:reference > "$work/out" 2> "$work/err" & pid=$!
     for _ in $(seq 2400); do [ -s "$work/out" ] && break; sleep 0.05; done
     kill -INT $pid 2> /dev/null; wait $pid; echo $? > "$work/status")
    status=$(cat "$work/status"); status "Ctrl-C" 130
    run compare "$stories" --devices cpu -n 8; status "compare GGUF" 0
    run compare "$stories" --devices cpu,nonsense; status "compare: one of two devices unknown" 2
else
    skip "shared data: no folder given, or it has no stories260k"
fi

# ---- what cannot be written, and what is empty ----
if [ -w /dev/full ]; then
    for words in "--help" "--version" "devices" "ops" "conformance --devices cpu:native --ops neg --tier tiny" "run --help"; do
        # shellcheck disable=SC2086
        timeout 100 "$portico" $words > /dev/full 2> "$work/err"; status=$?; : > "$work/out"
        status "a full stdout: $words" 1; says "a full stdout: $words: said" err '^portico: cannot write to stdout$'
    done
fi
once() { # NAME STATUS PATTERN ARGUMENT...: fails with one line
    local name=$1 wanted=$2 pattern=$3
    shift 3
    run "$@"; status "$name" "$wanted"; says "$name: said" err "$pattern"
    if [ "$(wc -l < "$work/err")" = 1 ]; then ok "$name: one line"; else bad "$name" "not one line"; fi
}
once "an empty name of a model" 1 'the name of the model is empty' run "" --prompt x
once "an empty name of a file" 1 'the name of a file is empty' train ""
once "an empty --data" 2 'option --data: its value is empty' eval "$dates" --data ""
once "an empty --ops" 2 'option --ops: its value is empty' conformance --ops=
once "an empty --out" 2 'option --out: its value is empty' train "$source/configs/dates.json" --out ""

finish
