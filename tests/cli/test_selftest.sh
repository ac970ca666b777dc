#!/bin/bash
# The self-test on first use: devices whose kernels are wrong, through the program.
#
#   test_selftest.sh PORTICO SOURCE PLUGINS
#
# PORTICO: the program. SOURCE: the source folder. PLUGINS: the folder of the plugins made of tests/plugins/variants.
# Prints one line per check; exits 1 if one failed.
set -u
[ $# -ge 3 ] || { echo "usage: $0 PORTICO SOURCE PLUGINS"; exit 2; }
portico=$(realpath "$1")
source=$(realpath "$2")
plugins=$(realpath "$3")
. "$source/tests/cli/checks.sh"
export PORTICO_PLUGIN_PATH=$plugins PORTICO_LOG=info
model=$source/models/dates
[ -f "$model/model.safetensors" ] || { echo "no model"; exit 77; }

dates() { run run "$model" --prompt "the 3rd of May, 2021" --device "$1"; }
# right NAME: the last run wrote the right text
right() { if [ "$(cat "$work/out")" = 2021-05-03 ]; then ok "$1: right text"; else bad "$1" "wrong text '$(cat "$work/out")'"; fi; }
never() { if grep -Eq -- "$2" "$work/err"; then bad "$1" "'$2' in stderr"; else ok "$1"; fi; }
times() {
    local n
    n=$(grep -Ec -- "$2" "$work/err")
    if [ "$n" = "$3" ]; then ok "$1"; else bad "$1" "$n lines have '$2', not $3"; fi
}
compared='self-test: [1-9][0-9]* kernel variants compared'

dates cpu; status "the cpu plugin" 0; right "the cpu plugin"; never "the cpu plugin is not tested" 'self-test'

# A sound device: nothing to say but that it was tested, and nothing to do the second time.
dates sound; status "sound" 0; right "sound"
says "sound: it is tested" err "$compared.*, 0 of them failed"; never "sound: no alarm" 'warning'
dates sound; status "sound, again" 0; right "sound, again"; never "sound, again: no test" "$compared"
PORTICO_SELF_TEST=always dates sound; says "sound, always: it is tested" err "$compared"
PORTICO_SELF_TEST=off dates sound; right "sound, off"; never "sound, off: no test" "$compared"

# All variants of matmul but the last are wrong.
PORTICO_SELF_TEST=off dates tile:0; status "tile, off" 0
if [ "$(cat "$work/out")" = 2021-05-03 ]; then bad "tile, off" "the defect does no harm"; else ok "tile, off: garbage"; fi
for fallback in warn error; do
    rm -rf "$PORTICO_CACHE_DIR"
    for start in first second; do
        PORTICO_FALLBACK=$fallback dates tile:0; status "tile, $fallback, $start start" 0; right "tile, $fallback, $start start"
        says "tile, $fallback, $start start: it says so" err \
            "warning: device tile:0: op 'matmul': variant 'ge.*' failed the self-test: .*elements are wrong.*'naive' is used"
        times "tile, $fallback, $start start: once" "variant 'gemv' failed" 1
        never "tile, $fallback, $start start: not on the CPU" 'runs on the CPU'
        case $start in
            first) says "tile, $fallback: tested" err "$compared" ;;
            *) never "tile, $fallback: the second start knows" "$compared" ;;
        esac
    done
done
# A damaged verdict is none.
for file in "$PORTICO_CACHE_DIR"/variants-*; do printf 'good' | dd of="$file" bs=1 seek=40 conv=notrunc 2> /dev/null; done
dates tile:0; status "tile, damaged cache" 0; right "tile, damaged cache"; says "tile, damaged cache: tested again" err "$compared"

# Every variant of matmul is wrong: the CPU, or an error of one line.
for start in first second; do
    dates every:0; status "every, $start start" 0; right "every, $start start"
    times "every, $start start: it says so once" "op 'matmul' runs on the CPU: device every:0: .*failed the self-test" 1
    PORTICO_LOG=warning PORTICO_FALLBACK=error dates every:0; status "every, error, $start start" 1
    if [ "$(grep -c . "$work/err")" = 1 ]; then ok "every, error, $start start: one line"; else bad "every, error, $start start" "more than a line"; fi
    says "every, error, $start start: op, variant, device and what was seen" err \
        "device every:0 cannot run op 'matmul'.*'ge.*' failed the self-test: .*elements are wrong"
done

# The other variants take the device with them, and it is opened again.
for start in first second; do
    dates lost:0; status "lost, $start start" 0; right "lost, $start start"
    says "lost, $start start: it says so" err "variant 'ge.*' failed the self-test: .*the device is gone; 'naive' is used"
done

# A process that is asked to end in a test ends behind it, and leaves nothing.
marked() { ls "$PORTICO_CACHE_DIR"/testing-* > /dev/null 2>&1; }
for pair in TERM:143 HUP:129 INT:130; do
    rm -rf "$PORTICO_CACHE_DIR"
    (set -m; VARIANTS_SLOW=0.3 "${heeding[@]}" "$portico" run "$model" --prompt 3/5/21 --device fatal:0 > "$work/out" 2> "$work/err" & pid=$!
     for _ in $(seq 2000); do marked && break; sleep 0.02; done
     kill "-${pair%:*}" $pid; ended $pid; echo $? > "$work/status")
    status=$(cat "$work/status"); status "SIG${pair%:*} in a test" "${pair#*:}"; says "SIG${pair%:*} in a test: said" err '^interrupted'
    if marked; then bad "SIG${pair%:*} in a test" "a marker is left"; else ok "SIG${pair%:*} in a test: no marker"; fi
done
dates fatal:0; status "after them the device is used" 0; never "after them: no alarm" 'warning'
# A training is saved when its executable for another shape of batch is under test.
rm -rf "$PORTICO_CACHE_DIR"
cat > "$work/shapes.json" << JSON
{"model": {"d_model": 16, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2,
  "decoder_attention_heads": 2, "encoder_ffn_dim": 24, "decoder_ffn_dim": 24}, "steps": 100000, "batch_size": 2,
 "data": {"kind": "dates", "source_buckets": [8, 10, 12, 14, 16, 18, 20, 24, 28, 32, 37], "target_buckets": [11]},
 "out": "$work/shapes"}
JSON
(set -m; VARIANTS_SLOW=0.3 "${heeding[@]}" "$portico" train "$work/shapes.json" --device fatal:0 > "$work/out" 2> "$work/err" & pid=$!
 for _ in $(seq 2000); do grep -q '^step 1/' "$work/err" && break; sleep 0.02; done
 for _ in $(seq 2000); do marked && break; sleep 0.02; done
 kill -TERM $pid; ended $pid; echo $? > "$work/status")
status=$(cat "$work/status"); status "a training in a test" 143; says "a training in a test: saved" err '^interrupted after step [1-9][0-9]*, which is saved'
if marked; then bad "a training in a test" "a marker is left"; else ok "a training in a test: no marker"; fi
steps=$(($(sed -n 's/^interrupted after step \([0-9]*\),.*/\1/p' "$work/err") + 1))
run train "$work/shapes.json" --device fatal:0 --resume --steps $steps; status "a training in a test: resumed" 0
# One that is killed in a test is a warning: the test is made again, and the device used. Several at once are no more.
rm -rf "$PORTICO_CACHE_DIR"
for _ in 1 2 3; do VARIANTS_SLOW=100 "$portico" run "$model" --prompt 3/5/21 --device fatal:0 > /dev/null 2>&1 & pids="${pids:-} $!"; done
for _ in $(seq 2000); do [ "$(ls "$PORTICO_CACHE_DIR"/testing-* 2> /dev/null | wc -l)" = 3 ] && break; sleep 0.02; done
kill -9 $pids; wait $pids 2> /dev/null
dates fatal:0; status "killed at once" 0; right "killed at once"
times "killed at once: a warning" "a process ended in the self-test of op 'matmul', .*; it is tested once more" 1
dates fatal:0; never "killed at once: and that is all" 'warning'

# A driver that ends the process in the test: twice, and the next start knows; until it is told to try again.
rm -rf "$PORTICO_CACHE_DIR"
export VARIANTS_FATAL=1
killed() { if [ "$status" = 137 ]; then ok "$1: killed"; else bad "$1" "exit status $status, and 137 was expected"; fi; }
dates fatal:0; killed "fatal, first start"
if marked; then ok "fatal: a marker"; else bad "fatal" "no marker"; fi
dates fatal:0; killed "fatal, second start"; says "fatal, second start: a warning" err 'warning: .* it is tested once more'
for start in third fourth; do
    dates fatal:0; status "fatal, $start start" 1
    says "fatal, $start start: op, variant and what to do" err \
        "device fatal:0 is not used: processes ended in its self-test of op 'matmul', variant '[a-z_0-9]+', .*PORTICO_SELF_TEST=always tests it again"
    PORTICO_LOG=warning dates fatal:0
    if [ "$(grep -c . "$work/err")" = 1 ]; then ok "fatal, $start start: one line"; else bad "fatal, $start start" "more than a line"; fi
done
dates fatal:0,cpu; status "fatal, another device" 0; right "fatal, another device"; says "fatal: the next is tried" err 'fatal:0 is not used.*the next device is tried'
PORTICO_SELF_TEST=always dates fatal:0; killed "fatal, always"
unset VARIANTS_FATAL # as if the driver had been mended
dates fatal:0; status "fatal, mended, not told" 1
PORTICO_SELF_TEST=always dates fatal:0; status "fatal, mended, always" 0; right "fatal, mended, always"
dates fatal:0; status "fatal, mended, from then on" 0; right "fatal, mended, from then on"
if ls "$PORTICO_CACHE_DIR"/testing-* > /dev/null 2>&1; then bad "markers" "one is left"; else ok "no marker is left"; fi

# What looks for wrong kernels gets them as they are.
PORTICO_SELF_TEST=on run conformance --devices every:0 --ops matmul --tier tiny; status "conformance sees the defect" 1
run conformance --bisect "$model" --devices every:0; status "bisect sees the defect" 1
says "bisect names the op" out matmul

# A device with one operation is timed at it: nothing else is asked to make its operands. What it lacks is told of itself.
PORTICO_SELF_TEST=off run bench op --devices bare:0 --op matmul --seconds 0.01; status "bench of matmul without iota" 0
says "... has a figure" out '^ +matmul +[0-9.]+'; never "... and blames no other operation" 'iota|cannot run it'
PORTICO_SELF_TEST=off run bench op --devices bare:0 --op gelu --seconds 0.01
says "bench of what a device lacks" out '^  gelu +the device cannot run it: it would run on the CPU'

finish
