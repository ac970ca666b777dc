#!/usr/bin/env bash
# Files and surroundings that mean no good: test_strangers.sh PORTICO SOURCE TESTS [PRELOAD]. TESTS: the folder of the
# tests in that of the build. PRELOAD: libpco-cut-short.so.
set -u
portico=$(realpath "$1")
source=$(realpath "$2")
libraries=$(realpath "$3")
preload=${4:-}
. "$source/tests/cli/checks.sh"
helper=$source/tests/cli/strangers.py
export PORTICO_BACKEND=cpu:native

# plain NAME FILE: nothing in out or err that a terminal would obey.
plain() {
    if python3 "$helper" plain "$work/$2" 2> "$work/why"; then ok "$1"; else bad "$1" "$(tail -n 1 "$work/why")"; fi
}

# ---- what terminals obey ----
evil=$work/evil.gguf stray=$work/stray.gguf
python3 "$helper" make "$evil"
python3 "$helper" make "$stray" stray
run inspect "$stray"; status "inspect: names that are no text" 0
plain "inspect: they are shown as escapes" out; says "inspect: an escape" out 'evil \\x1b\[31mred'
says "inspect: a byte that is no UTF-8" out '\\xff'
run inspect "$stray" --json; status "inspect --json: the same" 0
plain "inspect --json: no control characters" out; json "inspect --json: is JSON"
run inspect "$evil" --memory; status "inspect --memory: the same" 0; plain "inspect --memory: text alone" out
name=$'no\x1b[2J\xc2\x9b\xe2\x80\xaesuch\nfile.gguf'
run run "$work/$name" --prompt a; status "a name with escapes" 1
plain "its error is text alone" err; says "its error shows the name" err 'no\\x1b\[2J\\u009b\\u202esuch\\nfile.gguf'
run "$name"; status "a command with escapes" 2; plain "its error is text alone" err
python3 -c 'import sys; open(sys.argv[1], "wb").write(open(sys.argv[2], "rb").read().replace(b"blk.0.attn_q", b"\x1b[7m.attn_q"))' \
    "$work/lost.gguf" "$evil"
run run "$work/lost.gguf" --prompt a; status "a tensor that is not there" 1; plain "its error is text alone" err
run run "$stray" --prompt a; status "a tensor of no use" 1; plain "its error is text alone" err
says "its error names the tensor" err 'evil\\x1b\[31mred'
run run "$evil" --prompt "" --max-tokens 2; status "run: a model that writes escapes" 0
if grep -q $'\x1b' "$work/out"; then ok "run: a pipe gets all bytes"; else bad "run: a pipe gets all bytes" "no escape"; fi
# What is no error comes to stderr through one function, and what rewrites a line of a terminal through another.
raw=$(grep -ln 'fprintf(stderr' "$source"/core/cli/*.c | xargs -n 1 basename | tr '\n' ' ')
if [ "$raw" = "cli.c terminal.c " ]; then ok "stderr: text alone"; else bad "stderr: text alone" "$raw print to it"; fi
echo '{% for m in messages %}{{ m.content }}{% endfor %}' > "$work/chat.jinja"
strange=$'no\x1b[31msuch\xe2\x80\xae' shown='no\\x1b\[31msuch\\u202e'
cp "$source/tests/parity/llama-q4_1.gguf" "$work/$strange.gguf"
for i in $(seq 60); do echo "the cat sat on the mat, $((i * 7 % 10)) times"; done > "$work/$strange.txt"
cat > "$work/train.json" << JSON
{"from": "none", "data": {"kind": "text", "file": "none", "context_length": 16},
 "schedule": {"type": "constant", "learning_rate": 0.02}, "steps": 1, "batch_size": 2, "out": "$work/trained"}
JSON
run train "$work/train.json" --from "$work/$strange.gguf" --data "$work/$strange.txt"; status "train: names with escapes" 0
plain "train: what it says is text alone" err; says "train: the model" err "^model .*$shown.gguf,"
says "train: the data" err "^data .*$shown.txt: [0-9]+ windows"
printf 'device: cpu:*\nop: neg\nstate: fail\nreason: %s\nreference: %s\n' "$strange" "$strange" > "$work/waivers"
run conformance --devices cpu:native --ops neg --tier tiny --waivers "$work/waivers" --report "$work/$strange"
status "conformance: a waiver and a report with escapes" 0; plain "conformance: what it says is text alone" err
says "conformance: the waiver" err "no longer needed.*$shown"; says "conformance: the report" err "^report: .*$shown/report.html"
cp "$libraries/plugins/own/own0.so" "$work/$strange.so"
export PORTICO_PLUGIN_PATH=$libraries/mutants/faulty
LD_LIBRARY_PATH=$(dirname "$portico") run conformance --devices faulty:zero --tier tiny --ops halve --ops-from "$work/$strange.so"
status "conformance: a library with escapes" 1; plain "conformance: the command is text alone" err
says "conformance: the command" err "halve: fail: portico conformance .* --ops-from $work/$shown.so"
unset PORTICO_PLUGIN_PATH
printf 'a\n/save %s\n' "$work/$strange.json" | timeout 300 "$portico" chat "$source/tests/golden/families/qwen2.gguf" -n 1 \
    --template "$work/chat.jinja" > "$work/out" 2> "$work/err"
status=$?; status "chat: a file with escapes" 0; plain "chat: what it says is text alone" err
says "chat: the file" err "2 messages in .*$shown.json"
if have_terminals; then
    python3 "$helper" terminal "$portico" run "$evil" --prompt "" --max-tokens 2 > "$work/out" 2> "$work/err" < /dev/null
    plain "run: a terminal gets text" out; says "run: a terminal shows the escapes" out '\\x1b'
    python3 "$helper" terminal "$portico" run "$source/models/dates" --prompt "3 Sep 51" > "$work/out" 2> "$work/err" < /dev/null
    says "run: a terminal gets what a pipe gets" out '2051-09-03'
else
    skip "run in a terminal: there are none here"
fi

# ---- what is no file: one that waited would end with status 124 ----
mkfifo "$work/pipe.gguf"
for command in "run --prompt a" inspect "compare --prompt a" bench; do
    # shellcheck disable=SC2086
    set -- $command
    run "$1" "$work/pipe.gguf" "${@:2}"; status "$1: a pipe as a model" 1
    cat "$work/err" >> "$work/out"
    says "$1: says that it is a pipe" out 'a pipe'
done

# ---- a cache that others could put code into, and what is no file in it ----
kept=$PORTICO_CACHE_DIR
export PORTICO_CACHE_DIR=$work/shared
mkdir "$PORTICO_CACHE_DIR"
cached() { run conformance --devices cpu:native --ops neg --tier tiny --jobs 2; status "$1" 0; }
cached "a cache of one's own"
if grep -q cache "$work/err"; then bad "nothing to say about it" "a warning"; else ok "nothing to say about it"; fi
if [ -n "$(ls "$PORTICO_CACHE_DIR")" ]; then ok "it is used"; else bad "it is used" "it is empty"; fi
for file in "$PORTICO_CACHE_DIR"/*; do break; done
mv "$file" "$work/kept"; ln -s "$work/elsewhere" "$file"
cached "a link in the cache"
if [ -e "$work/elsewhere" ]; then bad "it is not followed" "a file was made"; else ok "it is not followed"; fi
rm "$file"; mkfifo "$file"; cached "a pipe in the cache"
if [ -f "$file" ]; then ok "a file takes its place"; else bad "a file takes its place" "it is a pipe"; fi
rm "$PORTICO_CACHE_DIR"/*; chmod 777 "$PORTICO_CACHE_DIR"
cached "a cache that others can write"
says "it is said, and what to do" err "warning: the cache folder is not used: $work/shared can be written by others, .*chmod go-w it"
if [ "$(grep -c 'cache' "$work/err")" = 1 ]; then ok "once"; else bad "once" "not one line"; fi
if [ -z "$(ls "$PORTICO_CACHE_DIR")" ]; then ok "nothing is left there"; else bad "nothing is left there" "it has files"; fi
chmod 755 "$PORTICO_CACHE_DIR"
if chown 12345 "$PORTICO_CACHE_DIR" 2> /dev/null; then
    cached "a cache of somebody else"; says "it says whose" err "the cache folder is not used: $work/shared belongs to user 12345"
else
    skip "a cache of somebody else: only root can make one"
fi
PORTICO_CACHE_DIR=$kept

# ---- the three files of the process ----
closed() { (exec 2>&-; timeout 300 "$portico" "$@" > "$work/out" < /dev/null); status=$?; }
closed train "$source/configs/dates.json" --steps 2 --out "$work/run" --log "$work/log.csv"
status "train without stderr" 0
if [ "$(wc -l < "$work/log.csv")" = 3 ] && ! grep -q 'portico\|step ' "$work/log.csv"; then
    ok "train without stderr: the log is the log"
else
    bad "train without stderr: the log is the log" "$(head -c 300 "$work/log.csv")"
fi
PORTICO_LOG=debug closed devices --json; status "devices without stderr" 0; json "devices without stderr: stdout is JSON"
(exec >&-; timeout 300 "$portico" devices 2> "$work/err" < /dev/null); status=$?
status "devices without stdout" 1; says "devices without stdout: says so" err 'cannot write to stdout'
(exec <&- >&- 2>&-; timeout 300 "$portico" run "$source/models/dates" --prompt "3 Sep 51"); status=$?
if [ "$status" = 1 ]; then ok "run without any"; else bad "run without any" "exit status $status"; fi

# ---- a limit on the size of files ----
# limited BLOCKS ARGUMENT...: what it prints goes through a pipe, which has none.
limited() {
    (ulimit -f "$1"; shift; timeout 300 "$portico" "$@" 2>&1 < /dev/null; echo "status $?") | cat > "$work/out"
    status=$(sed -n 's/^status //p' "$work/out")
    : > "$work/err"
}
mkdir "$work/limited"
PORTICO_CACHE_DIR=$work/limited/cache limited 0 devices; status "a limit of 0 on files" 0
says "it is said" out "the cache folder '$work/limited/cache' cannot be used: .*File too large"
limited 1 convert "$source/tests/golden/families/qwen2.gguf" "$work/limited/new.gguf" --type q8_0
status "a file beyond the limit" 1; says "it is said" out "new.gguf: cannot write: File too large"
if [ -z "$(find "$work/limited" -type f)" ]; then ok "nothing is left of either"; else bad "nothing is left of either" "$(find "$work/limited" -type f)"; fi

# ---- a model that is cut short while it is used ----
if [ -n "$preload" ]; then
    cp -r "$source/models/dates" "$work/dates"
    model=$(realpath "$work/dates/model.safetensors")
    (export PCO_CUT_SHORT=$model LD_PRELOAD=$preload
     timeout 300 "$portico" run "$work/dates" --prompt "3 Sep 51" > "$work/out" 2> "$work/err" < /dev/null)
    status=$?
    status "a model that is cut short" 1; says "it is named" err "$model was cut short"
    # Several threads come to what is missing at once.
    cp "$source/tests/golden/families/qwen2.gguf" "$work/cut.gguf"
    (export PCO_CUT_SHORT=$work/cut.gguf PCO_CUT_KEEP=8192 LD_PRELOAD=$preload PORTICO_THREADS=4
     timeout 300 "$portico" convert "$work/cut.gguf" "$work/new.gguf" --type q8_0 > "$work/out" 2> "$work/err" < /dev/null)
    status=$?
    status "a model that several threads find cut short" 1; says "it is named" err "$work/cut.gguf was cut short"
else
    skip "a model that is cut short"
fi

finish
