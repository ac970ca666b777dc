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
run ops pow; says "ops NAME: domain" out '^  domain  *a: positive, below 0 there need not be a result$'
run ops div; says "ops NAME: divisor" out '^  domain  *b: divisor, not 0$'
run ops adamw --json; says "ops --json: domains" out '"run": "positive"'
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

# ---- bench: the peer's kernels ----
unset OPENBLAS_CORETYPE # a setting of the caller is no part of the test
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
    says "bench op --tunables: the variant" out '^  attention_row +tiled +[0-9.]+ ms .* depth=64, rows=2 initially$'
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
        run run "$stories" --prompt 'Tom & "Lily" <b>' -n 9 --device cpu --attention "$work/map.$kind"
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
