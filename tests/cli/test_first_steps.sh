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

# ---- a grammar that is wrong ----
printf 'other ::= "x"\n' > "$work/wrong.gbnf"
echo '{"type": "no such type"}' > "$work/wrong.json"
run run "$dates" --prompt "3 Sep 51" --grammar "$work/wrong.gbnf"; status "a grammar without a root" 1
says "its file is named" err "^portico: $work/wrong.gbnf has no rule 'root'"
run run "$dates" --prompt "3 Sep 51" --json-schema "$work/wrong.json"; status "a schema of no type" 1
says "its file is named" err "^portico: $work/wrong.json"

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

# ---- no prompt ----
run run "$dates" --device cpu; status "run without a prompt" 2
says "it says what is missing, and how to give it" err '^portico: run: a prompt is missing: --prompt TEXT, --input FILE, or'
silent "and prints nothing else" out
"$portico" run "$dates" --device cpu > "$work/out" 2> "$work/err" <<< "5 March 2020"; status=$?
status "a prompt on stdin" 0; says "it is answered" out '^2020-03-05$'
run run "$dates" --device cpu --prompt ""; status "an empty prompt" 0

# ---- what is no model says what it is, and what to do ----
models=$work/models
mkdir -p "$models"/{bare,hf,torch,parts,gguf,nothing}
cp "$dates/model.safetensors" "$models/bare/weights.safetensors"
cp "$dates/model.safetensors" "$models/hf"
echo '{"model_type": "rwkv"}' | tee "$models/hf/config.json" > "$models/torch/config.json"
echo '{"model_type": "llama"}' > "$models/parts/config.json"
printf 'PK\3\4 archive' | tee "$models/new.pt" > "$models/torch/pytorch_model.bin"
printf '\200\2}q' > "$models/old.ckpt"
printf '\10\7\22\7pytorch' > "$models/graph.onnx"
echo '{}' > "$models/parts/model.safetensors.index.json"
: > "$models/gguf/llama.gguf"
python3 - "$models/x-00001-of-00003.gguf" <<'TEXT'
import struct, sys
text = lambda s: struct.pack("<Q", len(s)) + s.encode()
pairs = [("general.architecture", 8, text("llama")), ("split.no", 2, struct.pack("<H", 0)),
         ("split.count", 2, struct.pack("<H", 3))]
with open(sys.argv[1], "wb") as file:
    file.write(b"GGUF" + struct.pack("<IQQ", 3, 0, len(pairs)))
    for key, kind, data in pairs: file.write(text(key) + struct.pack("<I", kind) + data)
TEXT
while read -r path pattern; do
    case $path in /*) ;; *) path=$models/$path ;; esac
    run run "$path" --prompt x; status "run ${path##*/}" 1; says "${path##*/}: what to do" err "^portico: .*$pattern"
    if [ "$(wc -l < "$work/err")" = 1 ]; then ok "one line"; else bad "run ${path##*/}" "not one line"; fi
    case $path in *weights.safetensors | *model.safetensors | *.gguf | */hf | */torch | */parts | *.pt | *.ckpt) continue ;; esac
    run inspect "$path"; status "inspect ${path##*/}" 1; says "inspect ${path##*/}: the same" err "$pattern"
done <<TEXT
bare/weights.safetensors put it into a folder as model.safetensors, with a config.json
$dates/model.safetensors give its folder instead: $dates\$
hf of type 'rwkv', which Portico cannot run; it runs 'llama'
torch of type 'rwkv', which Portico cannot run; it runs 'llama'
parts config.json: key 'hidden_size' is missing
gguf llama.gguf in it is a model by itself; give that file
nothing has no config.json and no model.safetensors; a model is a folder with both, or a GGUF file
new.pt a PyTorch checkpoint, .* put it into a folder as pytorch_model.bin, with a config.json
old.ckpt a PyTorch checkpoint
graph.onnx an ONNX graph, .*'portico onnx' runs it.* give the model that it was exported from
x-00001-of-00003.gguf is one of 3 files, and all must lie beside it: .*x-00002-of-00003.gguf: cannot open
TEXT
run inspect "$models/parts"; status "inspect a folder with a broken index" 1
says "it says what is wrong with the index" err "^portico: .*index.json has no 'weight_map'"

# ---- a reader that has read enough, and a disk that is full ----
# Every command that prints, with what makes it print.
run train "$source/configs/dates.json" --steps 2 --out "$work/run" --log "$work/run.csv" --device cpu:native
status "a training" 0
while read -r words; do
    # shellcheck disable=SC2086
    timeout 100 "$portico" ${words//DATES/$dates} 2> "$work/err" < /dev/null | true
    status=${PIPESTATUS[0]}
    if [ "$status" = 141 ] || [ "$status" = 0 ]; then ok "a closed pipe: $words"; else bad "a closed pipe: $words" "status $status"; fi
    if grep -q 'cannot write' "$work/err"; then bad "a closed pipe: $words" "is an error"; else ok "it is no error"; fi
    [ -w /dev/full ] || continue
    # shellcheck disable=SC2086
    timeout 100 "$portico" ${words//DATES/$dates} > /dev/full 2> "$work/err" < /dev/null; status=$?; : > "$work/out"
    status "a full stdout: $words" 1; says "a full stdout: $words: said" err '^portico: cannot write to stdout$'
done <<TEXT
--help
--version
devices
devices --json
ops
ops softmax
run --help
run DATES --prompt 1 --device cpu
inspect DATES
inspect DATES --memory
inspect DATES --dot
compare DATES --devices cpu -n 1
conformance --devices cpu:native --ops neg --tier tiny
conformance --devices cpu:native --ops neg --tier tiny --json
bench op --devices cpu:native --op copy --seconds 0.01
eval DATES --data dates --limit 2 --device cpu:native
plot $work/run.csv
TEXT
(set -o pipefail; "$portico" ops 2> "$work/err" | head -n 1 > "$work/out"); says "ops | head -n 1" out '^Operations of Portico'
silent "ops | head -n 1: nothing on stderr" err

# ---- the progress line ----
# lines COLUMNS COMMAND...: the widest line that the program wrote to a terminal of that width, in columns
lines() {
    python3 - "$@" <<'TEXT'
import fcntl, os, pty, re, struct, sys, termios
columns = int(sys.argv[1])
main, other = pty.openpty()
fcntl.ioctl(other, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
if os.fork() == 0:
    os.dup2(other, 2)
    os.dup2(os.open(os.devnull, os.O_RDWR), 1)
    os.close(main)
    os.execv(sys.argv[2], sys.argv[2:])
os.close(other)
seen = b""
while True:
    try: part = os.read(main, 65536)
    except OSError: break
    if not part: break
    seen += part
os.wait()
shown = re.findall(r"\r([^\r\n]*)\x1b\[K", seen.decode())
print(max(map(len, shown)), len([line for line in shown if line]), max(shown, key=len))
TEXT
}
if have_terminals; then
    for columns in 200 60 40 12; do
        lines $columns "$portico" train "$source/configs/dates.json" --steps 12 --out "$work/lines$columns" --device cpu:native > "$work/out" 2> "$work/err"
        read -r widest count text < "$work/out"
        if [ "${widest:-999}" -lt $columns ] && [ "$count" -gt 0 ]; then ok "$columns columns: $text"; else bad "$columns columns" "$widest: $text"; fi
    done
    COLUMNS=30 lines 0 "$portico" train "$source/configs/dates.json" --steps 4 --out "$work/lines0" --device cpu:native > "$work/out" 2> "$work/err"
    read -r widest count text < "$work/out"
    if [ "${widest:-999}" -lt 30 ]; then ok "COLUMNS of a terminal that says nothing"; else bad "COLUMNS" "$widest: $text"; fi
else
    skip "the progress line: there are no terminals here"
fi
run train "$source/configs/dates.json" --steps 20 --out "$work/plain" --device cpu:native
if grep -q $'[\r\033]' "$work/err"; then bad "no terminal" "escapes are written"; else ok "no terminal: plain lines"; fi

# ---- pictures ----
# picture FILE NAME...: is it well formed, for light and dark pages, and is the legend, with these names, below the curves?
picture() {
    python3 - "$@" <<'TEXT'
import re, sys
import xml.etree.ElementTree as tree
text = open(sys.argv[1], encoding="utf-8").read()
root = tree.fromstring(text)
assert "@media (prefers-color-scheme: dark)" in text, "nothing for dark pages"
shapes = lambda name: [e for e in root.iter() if e.tag.endswith("}" + name)]
for e in shapes("rect") + shapes("text") + shapes("polyline"):
    assert not e.get("fill", "").startswith("#") and not e.get("stroke"), "a colour that is the same on every page"
lowest = max(float(y) for e in shapes("polyline") for y in re.findall(r",([\d.]+)", e.get("points")))
found = [(float(e.get("y", 0)), e.text) for e in shapes("text")]
legend = [(y, name) for y, name in found if name in sys.argv[2:]]
assert [name for _, name in legend] == sys.argv[2:], f"the legend has {[name for _, name in found]}"
assert min(y for y, _ in legend) - 14 > lowest, "the legend lies over the curves"
assert max(y for y, _ in found) < float(root.get("height")), "out of the picture"
print(len(shapes("polyline")))
TEXT
}
mkdir -p "$work"/plots/{one,two}/deep
for folder in one two; do
    { echo step,loss,learning_rate,grad_norm,tokens,seconds,validation_loss
      for i in 1 2 3 4 5 6; do echo "$i,$((7 - i)).5,,,,,"; done; echo 7,0.5,,,,,0.75; } > "$work/plots/$folder/deep/log.csv"
    cp "$work/plots/$folder/deep/log.csv" "$work/plots/$folder/$folder.csv"
done
cd "$work/plots" || exit 1
run plot one/deep/log.csv two/deep/log.csv two/two.csv -o plain.svg; status "logs of one name" 0
says "they are told apart" out '^  b  two/deep/log.csv: step 7, loss 0.5; B'; says "and no more is said than it takes" out '^  c  two.csv: '
if picture plain.svg one/deep/log.csv two/deep/log.csv two.csv > "$work/out" 2> "$work/err"; then ok "the picture of three logs"; else bad "the picture of three logs" "is not as it should be"; fi
says "with a line for losses and one for validation" out '^6$'
run plot one/one.csv --smooth 0.9 -o smooth.svg; status "plot --smooth" 0
wanted=$(python3 -c 'losses = [6.5, 5.5, 4.5, 3.5, 2.5, 1.5, 0.5]
weights = [0.9 ** i for i in range(7)]
print("%.5g" % (sum(w * y for w, y in zip(weights, reversed(losses))) / sum(weights)))')
says "the moving average, without its bias" out "loss 0.5, smoothed $wanted;"
if picture smooth.svg one.csv > "$work/out" 2> "$work/err"; then ok "its picture"; else bad "its picture" "is not as it should be"; fi
says "with the losses behind" out '^3$'
cp smooth.svg "$work/out"; says "faintly" out 'polyline class="curve raw'
for weight in 1 -0.1 much; do run plot one/one.csv --smooth $weight; status "--smooth $weight" 2; done
cp one/one.csv "$(printf 'wei\377rd & <b>.csv')"
run plot "$(printf 'wei\377rd & <b>.csv')" -o weird.svg; status "a name that is no text" 0
if picture weird.svg $'wei\357\277\275rd & <b>.csv' > "$work/out" 2> "$work/err"; then ok "its picture is well formed"; else bad "its picture" "is not"; fi
run run "$dates" --prompt "5 March 2020" --device cpu --attention map.svg; status "--attention" 0
if python3 -c 'import re, sys; text = open("map.svg", encoding="utf-8").read()
light, dark = text.split("@media (prefers-color-scheme: dark)")
shades = [dict(re.findall(r"\.(c\d+)\{fill:(#\w+)\}", part.split("</style>")[0])) for part in (light, dark)]
sys.exit(not (len(shades[0]) == len(shades[1]) == 32 and shades[0]["c32"] < "#444444" and shades[1]["c32"] > "#cccccc"))'
then ok "--attention for dark pages"; else bad "--attention" "has nothing for dark pages"; fi

finish
