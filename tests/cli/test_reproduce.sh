#!/bin/bash
# Reproducers and bisection: folders that are written, stand-alone programs that are compiled and run, a defect that
# is found in a model and made small.
#
#   test_reproduce.sh PORTICO SOURCE WRONG [CC ...]
#
# PORTICO: the program. SOURCE: the source folder. WRONG: the folder of plugins with a defect. CC: the words of a C
# compiler (default: cc). The part of an API is skipped without its headers, loader or device. Prints one line per
# check; exits 1 if one failed.
set -u
[ $# -ge 3 ] || { echo "usage: $0 PORTICO SOURCE WRONG [CC ...]"; exit 2; }
portico=$(realpath "$1")
source=$(realpath "$2")
wrong=$(realpath "$3")
shift 3
cc=("${@:-cc}")
. "$source/tests/cli/checks.sh"
there() { if [ -e "$2" ]; then ok "$1"; else bad "$1" "there is no ${2#"$work"/}"; fi; }

# The id of the first case of an op whose label matches.
case_of() {
    "$portico" conformance --devices cpu:reference --tier tiny --ops "$1" --verbose 2>&1 < /dev/null |
        grep -E "$2" | grep -oE '#[0-9a-f]{8}' | head -n 1 | tr -d '#'
}

# expect NAME FOLDER WANTED: ./repro says PASS or FAIL, and exits as it says.
expect() {
    local code last
    (cd "$2" && timeout 120 ./repro) > "$work/out" 2> "$work/err"
    code=$?
    last=$(tail -n 1 "$work/out")
    if [ "$last" = "$3" ] && [ "$code" = "$([ "$3" = PASS ] && echo 0 || echo 1)" ]; then
        ok "$1: $3"
    else
        bad "$1" "'$last', exit status $code, and $3 was expected"
    fi
}

# spoil FILE: moves the first value of a .npy file of doubles, which must be a plain number.
spoil() {
    python3 - "$1" <<'TEXT'
import struct
import sys
with open(sys.argv[1], "r+b") as file:
    data = bytearray(file.read())
    begin = 10 + data[8] + 256 * data[9]
    value, = struct.unpack_from("<d", data, begin)
    struct.pack_into("<d", data, begin, value + 1 + abs(value))
    file.seek(0)
    file.write(data)
TEXT
}

# One API: cases of several ops, each written, compiled and run; then with another expected value. OpenCL drivers on
# the CPU compile slowly: one variant of each op there.
api() {
    local name=$1 device=$2 library=$3 header=$4 op label variant folder last=
    export PORTICO_FALLBACK=error
    if ! printf '#define CL_TARGET_OPENCL_VERSION 120\n#include <%s>\nint main(void) { return 0; }\n' "$header" |
        "${cc[@]}" -x c - "$library" -o "$work/try" 2> /dev/null; then
        skip "$name: no headers or loader"
        return
    fi
    if ! "$portico" conformance --devices "$device" --ops neg --tier tiny > /dev/null 2>&1 < /dev/null; then
        skip "$name: no device $device"
        return
    fi
    while read -r op label variant; do
        [ "$name" = opencl ] || variant='*'
        run conformance --devices "$device" --tier tiny --ops "$op" --case "$(case_of "$op" "$label")" \
            --variant "$variant" --reproducers "$work/$name" --always
        status "$name: $op" 0
    done <<'TEXT'
matmul f32.*random naive
softmax f32.*random serial
rms_norm f16.*random serial
scaled_dot_product_attention random rows
cast f16.*random default
TEXT
    for folder in "$work/$name"/*; do
        op=$(basename "$folder")
        if [ "$(wc -l < "$folder/repro.c")" -ge 300 ]; then bad "$name: $op" "repro.c has 300 lines or more"; fi
        if ! (cd "$folder" && "${cc[@]}" -Wall -Wextra -Werror repro.c "$library" -lm -o repro) > "$work/out" 2> "$work/err"; then
            bad "$name: $op" "repro.c does not compile"
            continue
        fi
        expect "$name: $op" "$folder" PASS
        [ "${op%%-*}" != "$last" ] || continue
        last=${op%%-*} # the first variant of each op is enough for this
        cp "$folder/y.expected.npy" "$work/kept.npy"
        spoil "$folder/y.expected.npy"
        expect "$name: $op, another expected value" "$folder" FAIL
        cp "$work/kept.npy" "$folder/y.expected.npy"
    done
    mutate "$name" "$work/$name"/softmax-*-serial
    run conformance --devices "$device" --tier tiny --ops softmax --case "$(case_of softmax f32.*random)" \
        --variant serial --reproducers "$work/$name-unseen" --no-run
    status "$name: --no-run" 0
    for folder in "$work/$name-unseen"/*; do
        there "$name: --no-run: repro.c" "$folder/repro.c"
        if [ -e "$folder/y.got.npy" ]; then bad "$name: --no-run" "it was run"; fi
    done
}

# Vulkan's validation layer, which is as strict as a driver may be, says nothing of the stand-alone programs: they enable
# what their kernels need. One with dot products of bytes as well.
strict() {
    local folder
    if [ ! -e /usr/share/vulkan/explicit_layer.d/VkLayer_khronos_validation.json ] || [ ! -d "$work/vulkan" ]; then
        skip "vulkan: no validation layer, or no device"
        return
    fi
    run conformance --devices vulkan:lavapipe --tier tiny --ops matmul --case "$(case_of matmul 'q8_0\[5,64\]')" \
        --variant integer --reproducers "$work/vulkan" --always
    status "vulkan: integer" 0
    (cd "$work"/vulkan/matmul-*-integer && "${cc[@]}" repro.c -lvulkan -lm -o repro) || bad "vulkan: integer" "no repro"
    mkdir "$work/layer"
    printf 'khronos_validation.%s\n' 'debug_action = VK_DBG_LAYER_ACTION_LOG_MSG' 'report_flags = error,warn' \
        > "$work/layer/vk_layer_settings.txt"
    for folder in "$work"/vulkan/*; do
        (cd "$folder" && VK_LAYER_SETTINGS_PATH=$work/layer VK_INSTANCE_LAYERS=VK_LAYER_KHRONOS_validation \
            timeout 120 ./repro llvmpipe 1) > "$work/out" 2> "$work/err"
        if grep -q 'VUID\|Validation' "$work/out" "$work/err" || ! tail -n 1 "$work/out" | grep -qx 'PASS\|FAIL'; then
            bad "vulkan: ${folder##*/}, validated" "$(grep -hm 1 'VUID\|Validation' "$work/out" "$work/err" | cut -c 1-200)"
        else
            ok "vulkan: ${folder##*/}, validated"
        fi
    done
}

# Another kernel in the folder: the stand-alone program must see it.
mutate() {
    local folder=$2 file
    file=$(ls "$folder"/softmax_serial.c[lo]*)
    sed -i 's|pco_exp(v - high) / sum|pco_exp(v - high) / sum * 1.001f|' "$file"
    if ! grep -q '/ sum \* 1.001f' "$file"; then
        bad "$1: another kernel" "softmax is written differently now; change this test"
    elif [ "${file##*.}" = comp ] && ! command -v glslc > /dev/null; then
        skip "$1: no glslc, so no other kernel"
    else
        [ "${file##*.}" = cl ] || glslc -fshader-stage=compute --target-env=vulkan1.1 -O "$file" -o "${file%.comp}.spv"
        expect "$1: another kernel" "$folder" FAIL
    fi
}

# ---- the command ----
run conformance --no-run --reproducers "$work/no" --ops neg; status "--no-run without a case" 2
run conformance --no-run --reproducers "$work/no" --ops neg --case "$(case_of neg f32)" --variant default \
    --tier tiny --devices cpu:reference,cpu:native
status "--no-run on two devices" 2
run conformance --devices cpu:reference --ops neg --tier tiny --reproducers "$work/none"; status "nothing fails" 0
if [ -e "$work/none" ]; then bad "nothing fails" "a folder was written"; else ok "nothing fails: no folder"; fi

# ---- a defect in a plugin that does not describe its launches ----
export PORTICO_PLUGIN_PATH=$wrong
run conformance --devices wrong:0 --ops softmax --tier tiny --reproducers "$work/wrong"; status "a wrong device" 1
says "a wrong device: says where" err 'reproducers written to'
folders=("$work"/wrong/softmax-*)
folder=${folders[0]}
for file in README.txt in0.npy y.expected.npy y.bound.npy y.got.npy; do there "a wrong device: $file" "$folder/$file"; done
cp "$folder/README.txt" "$work/out"
says "README: the command" out '^  portico conformance --devices wrong:0 .*--case [0-9a-f]{8} --variant default$'
says "README: what is wrong" out '^Seen: 1 of .* elements of .y. are outside their bounds; worst: element 7 '
scratch=$(find "$work/wrong" -mindepth 1 -maxdepth 1 -name '.*')
if [ -n "$scratch" ]; then bad "a wrong device" "a scratch folder is left"; else ok "no scratch folder"; fi
run conformance --devices wrong:0 --ops softmax --tier tiny --reproducers "$work/wrong"; status "written again" 1
says "written again" err ' ([0-9]+) of \1 reproducers written'
rm "$folder/README.txt"
run conformance --devices wrong:0 --ops softmax --tier tiny --reproducers "$work/wrong"; status "a folder that is none" 1
says "a folder that is none: says so" err 'exists and is no reproducer'

# ---- devices that crash, are lost, are right now and then ----
trouble=$(dirname "$wrong")/trouble
if [ -f "$trouble/trouble.so" ]; then
    for kind in crash lost flaky; do
        PORTICO_PLUGIN_PATH=$trouble run conformance --devices "trouble:$kind" --ops mul --tier standard \
            --reproducers "$work/trouble-$kind"
        status "a device with trouble: $kind" 1
        says "a device with trouble: $kind: all are written" err ' ([1-9][0-9]*) of \1 reproducers written'
    done
    folders=("$work"/trouble-crash/mul-*)
    there "a crash: operands" "${folders[0]}/in0.npy"
    cp "${folders[0]}/README.txt" "$work/out"
    says "a crash: README" out '^Seen: crashed: the process died \(Segmentation fault\); its last words: .* r7 is on fire'
    export PORTICO_PLUGIN_PATH=$trouble
    run conformance --devices trouble:hang --ops mul --tier standard --timeout 0.5 --reproducers "$work/trouble-hang"
    status "a hang" 1; cat "$work"/trouble-hang/mul-*/README.txt > "$work/out"
    says "a hang: README" out '^Seen: hung: no answer within 0.5 s'
    run conformance --devices trouble:unready --ops mul --tier standard --reproducers "$work/trouble-unready"
    status "a crash in prepare" 1; says "a crash in prepare: all are written" err ' ([1-9][0-9]*) of \1 reproducers written'
    says "a crash in prepare: said" err 'mul #.*: the process died \(Segmentation fault\) while its reproducer was made'
    cat "$work"/trouble-unready/mul-*/README.txt > "$work/out"
    says "a crash in prepare: README" out 'Seen: crashed: .*; for this folder it was only prepared: the process died'
    run conformance --devices trouble:tells --ops mul --tier standard --case "$(basename "${folders[0]}" | cut -d- -f2)" \
        --variant only --reproducers "$work/trouble-once" --no-run
    status "--no-run" 0
    if [ "$(grep -c 'trouble: prepared' "$work/err")" = 1 ]; then ok "--no-run prepares once"; else bad "--no-run" "prepares more than once"; fi
    unset PORTICO_PLUGIN_PATH
    if [ -e "${folders[0]}/y.got.npy" ]; then bad "a crash" "it was run"; else ok "a crash: not run"; fi
else
    skip "no plugin that makes trouble"
fi
export PORTICO_PLUGIN_PATH=$wrong

# ---- bisection ----
run conformance --bisect "$source/models/dates" --devices wrong:0 --reproducers "$work/bisect"; status "bisect" 1
says "bisect: the first wrong op" out 'first that is wrong: .*layer_norm_6.*\(layer_norm\)'
says "bisect: tensor, element, bound" out "element 7 is .* error / bound [0-9]"
says "bisect: made small" out 'smaller: layer_norm f32\[1,1,8\] f32\[8\] f32\[8\]'
there "bisect: reproducer" "$work/bisect/bisect-layer_norm/y.got.npy"
quoted="$work/a model's folder"; cp -r "$source/models/dates" "$quoted"
run conformance --bisect "$quoted" --devices wrong:0 --prompt 'May 3, 2021' --reproducers "$work/bisect quoted"
status "bisect of a path with blanks" 1
command=$(grep -rh 'portico conformance --bisect' "$work/bisect quoted" | head -n 1)
eval "words=($command)" # as a shell that it is pasted into reads it
if [ "${words[3]-}" = "$quoted" ] && [ "${words[7]-}" = 'May 3, 2021' ]; then
    ok "bisect: its command is quoted"
else
    bad "bisect: its command" "it reads $command"
fi
run conformance --bisect "$source/models/dates" --devices together:0; status "bisect: wrong as a whole" 1
says "bisect: wrong as a whole" out 'each op alone is right and together they are not'
# a device that crashes or hangs: the node is named, the program goes on
run conformance --bisect "$source/models/dates" --devices dies:0,wrong:0 --reproducers "$work/bisect"
status "bisect: a crash" 1
says "bisect: the op that crashes" out 'first that is wrong: .*layer_norm_6.*\(layer_norm\)'
says "bisect: how it crashes" out 'crashed: the process died \(Segmentation fault\)'
says "bisect: the crash made small" out 'smaller: layer_norm f32\[1,1,8\] f32\[8\] f32\[8\]'
says "bisect: the next device" out 'element 7 is .* error / bound [0-9]'
there "bisect: a crash: operands" "$work/bisect/dies-0/bisect-layer_norm/in0.npy"
cp "$work/bisect/dies-0/bisect-layer_norm/README.txt" "$work/out"
says "bisect: a crash: README" out '^Seen: crashed: the process died \(Segmentation fault\)'
run conformance --bisect "$source/models/dates" --devices stuck:0 --timeout 2 --reproducers "$work/stuck"
status "bisect: a hang" 1
says "bisect: the op that hangs" out 'hung: no answer within 2 s'; says "bisect: a hang" out 'is not made smaller'
run conformance --bisect "$source/models/dates" --devices unready:0,wrong:0; status "bisect: a crash in prepare" 1
says "bisect: a crash in prepare: where" err 'died \(Segmentation fault\) while preparing the graph .encoder, .* on unready:0'
says "bisect: a crash in prepare: it goes on" out 'element 7 is .* error / bound [0-9]'
# a proposal that cannot be is refused in words, and nothing is computed
run run "$source/models/dates" --device askew:0 --prompt 'May 3, 2021'; status "a proposal that cannot be" 1
says "a proposal that cannot be" err 'proposed the alignment 3 for .* which is no power of two'
run conformance --devices askew:0 --tier tiny --ops neg; status "conformance: a proposal that cannot be" 1
says "conformance: a proposal that cannot be" out 'proposed the alignment 3 for .* which is no power of two'
run conformance --devices choosy:0 --tier tiny --ops neg; status "a program that is prepared in one place only" 1
says "a program that is prepared in one place only" out 'refused in another place: .*too far behind'
unset PORTICO_PLUGIN_PATH
run conformance --bisect "$source/models/dates" --devices cpu:native --in-process; status "bisect --in-process" 0
run conformance --bisect "$source/models/dates" --devices cpu:native; status "bisect a right device" 0
says "bisect: every op" out 'every op is within its bound'
says "bisect: the whole" out 'the whole model, 2 tokens: .* 0 tokens differ'
run conformance --bisect "$work/nothing" --devices cpu:native; status "bisect: no model" 1
run conformance --bisect "$source/models/dates" --devices nonsense; status "bisect: no device" 2

# A tensor of 128 MiB, where that is the binding limit: its folder has a period of it, and the program does the rest.
large() {
    local folder=$work/large/neg-6fbd7406-default
    run conformance --devices vulkan:lavapipe --tier full --ops neg --case 6fbd7406 --variant default --always \
        --reproducers "$work/large"
    if [ "$status" = 2 ]; then skip "a large tensor: none of 8195 rows on this device"; return; fi
    status "a large tensor" 0
    there "a large tensor: repro.c" "$folder/repro.c"
    if [ "$(du -sk "$folder" | cut -f1)" -ge 20000 ]; then bad "a large tensor" "its folder is large"; else ok "a small folder"; fi
    if [ "$(wc -l < "$folder/repro.c")" -ge 300 ]; then bad "a large tensor" "repro.c has 300 lines or more"; fi
    (cd "$folder" && "${cc[@]}" -Wall -Wextra -Werror -O1 repro.c -lvulkan -lm -o repro) > "$work/out" 2> "$work/err"
    expect "a large tensor" "$folder" PASS
    spoil "$folder/y.expected.npy"
    expect "a large tensor, another expected value" "$folder" FAIL
}

# ---- stand-alone programs ----
api vulkan vulkan:lavapipe -lvulkan vulkan/vulkan.h
strict
[ ! -d "$work/vulkan" ] || large
api opencl opencl:pocl -lOpenCL CL/cl.h

finish
