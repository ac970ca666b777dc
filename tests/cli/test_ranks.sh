#!/bin/bash
# `mpirun portico train`: three ranks, one on the CPU, one on OpenCL and one on Vulkan, against one with the whole batch;
# resuming with another number of ranks; a rank that dies; and what is said of bad input.
#
#   test_ranks.sh PORTICO SOURCE
#
# PORTICO: the program. SOURCE: the source folder. Prints one line per check; exits 1 if one failed, 77 without mpirun.
set -u
[ $# -ge 2 ] || { echo "usage: $0 PORTICO SOURCE"; exit 2; }
portico=$(realpath "$1")
source=$(realpath "$2")
. "$source/tests/cli/checks.sh"
export PORTICO_BACKEND=cpu:native PORTICO_FALLBACK=error PORTICO_THREADS=1
# Open MPI refuses root, and more processes than cores, without a word that they are wanted; MPICH knows none of this.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
cd "$work" || exit 2

# ranks N ARGUMENT...: as run, by N processes
ranks() {
    local n=$1
    shift
    timeout 200 mpirun -n "$n" "$portico" "$@" > "$work/out" 2> "$work/err" < /dev/null
    status=$?
}

# one_line NAME PATTERN: of all ranks one says it, once; what mpirun adds is its own
one_line() {
    says "$1" err "^portico: $2"
    if [ "$(grep -c '^portico: ' "$work/err")" = 1 ]; then ok "$1: one line"; else bad "$1" "not one line"; fi
}

# config NAME [FIELDS]: a small run that goes to the folder NAME
config() {
    cat > "$1.json" << JSON
{"model": {"d_model": 32, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2,
  "decoder_attention_heads": 2, "encoder_ffn_dim": 48, "decoder_ffn_dim": 48, "normalize_before": true,
  "final_norm": true, "scale_embedding": true, "add_eos_to_source": true},
 "data": {"kind": "dates", "source_buckets": [40], "target_buckets": [11], "held_out_count": 9},
 "schedule": {"learning_rate": 0.003}, "max_grad_norm": 1, "steps": 6, "batch_size": 8, "seed": 3, "out": "$1"${2:+, $2}}
JSON
}

# same_losses NAME FILE FILE: to 1e-4 of them, which docs/numerics.md allows between two ways to run a model
same_losses() {
    if python3 - "$2" "$3" << 'PYTHON'
import csv, sys
a, b = (list(csv.DictReader(open(f))) for f in sys.argv[1:])
assert len(a) == len(b) > 0
for x, y in zip(a, b):
    assert x["step"] == y["step"] and x["tokens"] == y["tokens"], (x, y)
    for key in ("loss", "grad_norm", "validation_loss"):
        assert (x[key] == "") == (y[key] == ""), (x, y)
        assert x[key] == "" or abs(float(x[key]) - float(y[key])) <= 1e-4 * float(x[key]), (key, x, y)
PYTHON
    then ok "$1"; else bad "$1" "$2 and $3 differ"; fi
}

# ---- a program without MPI says so instead of training the same run many times ----
config alone
if "$portico" --version | grep -q 'without MPI'; then
    OMPI_COMM_WORLD_SIZE=3 OMPI_COMM_WORLD_RANK=0 run train alone.json; status "ranks without MPI" 1
    one_line "ranks without MPI" '3 processes were started, and this portico was built without MPI'
    OMPI_COMM_WORLD_SIZE=3 OMPI_COMM_WORLD_RANK=2 run train alone.json
    if [ $status = 1 ] && [ ! -s err ]; then ok "the others are silent"; else bad "ranks without MPI" "rank 2 speaks"; fi
    [ -e alone ] && bad "ranks without MPI" "a run was begun" || ok "nothing was begun"
    skip "the rest: this portico was built without MPI"
    finish
    exit
fi
command -v mpirun > /dev/null || { echo "there is no mpirun (Debian: openmpi-bin)"; exit 77; }

# ---- one rank with the whole batch, and three with a third each ----
config one '"evaluation_interval": 6'
run train one.json --log one.csv; status "one rank" 0
config three '"evaluation_interval": 6'
ranks 3 train three.json --log three.csv; status "three ranks" 0
says "three ranks: their devices" err '^ranks +3: cpu:0, cpu:0, cpu:0$'
if [ "$(grep -c . out)" = 1 ] && [ "$(grep -c 'step 6/6' err)" = 1 ]; then ok "rank 0 speaks alone"; else bad "three ranks" "more than one speaks"; fi
same_losses "three ranks are one" one.csv three.csv
config same '"evaluation_interval": 6'
ranks 3 train same.json --log same.csv --steps 3; status "three ranks again" 0
ranks 3 train same.json --log same.csv --resume; status "resuming with three" 0
if cmp -s three/model.safetensors same/model.safetensors; then ok "bit by bit"; else bad "three ranks" "two runs differ"; fi
ranks 2 train same.json --resume --steps 8 --log same.csv; status "resuming with two" 0
says "resuming with two: from where" err '^resumed +after step 6'
run train same.json --resume --steps 9; status "resuming alone" 0

# ---- CPU, OpenCL and Vulkan together ----
missing=
for device in opencl:pocl vulkan:lavapipe; do
    "$portico" devices --json 2> /dev/null | grep -q "${device#*:}" || missing="$missing $device"
done
if [ -n "$missing" ]; then
    skip "CPU, OpenCL and Vulkan together: there is no$missing"
else
    config mixed '"evaluation_interval": 6'
    ranks 3 train mixed.json --log mixed.csv --device cpu:native/opencl:pocl/vulkan:lavapipe
    status "CPU, OpenCL and Vulkan" 0
    says "their devices" err '^ranks +3: cpu:[0-9]+, opencl:[0-9]+, vulkan:[0-9]+; they differ'
    same_losses "CPU, OpenCL and Vulkan are one" one.csv mixed.csv
fi

# Ranks that leave their numbers behind: mpirun may end before those that it tells to end, and one has the folder's lock.
noted=(sh -c 'echo $$ > pid.$$; exec "$@"' sh)
ranks_ended()
{
    local pid alive
    for _ in $(seq 600); do
        alive=""
        for pid in $(cat pid.*); do if kill -0 "$pid" 2> lines; then alive=$pid; fi; done
        [ -n "$alive" ] || return
        sleep 0.1
    done
}

# ---- a rank that dies: the others end, and the last checkpoint is good ----
config killed '"checkpoint_interval": 2'
sed -i 's/"steps": 6/"steps": 1000000/' killed.json
timeout 100 mpirun -n 3 "${noted[@]}" "$portico" train killed.json > out 2> err &
for _ in $(seq 600); do [ -f killed/checkpoint.safetensors ] && break; sleep 0.1; done
sleep 0.3
kill -9 "$(cat pid.* | sort -n | tail -n 1)"
wait $!; status=$?
if [ $status != 0 ] && [ $status != 124 ]; then ok "a rank that dies ends the run"; else bad "a rank that dies" "exit status $status"; fi
says "a rank that dies: said" err 'signal 9|Killed|KILLED'
ranks_ended
run train killed.json --resume --steps 1; status "its checkpoint" 0; says "it begins at a checkpoint" err '^resumed +after step [0-9]*[02468]$'

# ---- SIGTERM to mpirun, which passes it on: a checkpoint ----
config ended; sed -i 's/"steps": 6/"steps": 1000000/' ended.json
rm -f err # mpirun's own exit status is another one
rm -f pid.*
mpirun -n 2 "${noted[@]}" "$portico" train ended.json > out 2> err < /dev/null & pid=$!
for _ in $(seq 600); do grep -q '^step' err && break; sleep 0.1; done
kill -TERM $pid; wait $pid; status=$?
[ $status != 0 ] && ok "SIGTERM to mpirun" || bad "SIGTERM to mpirun" "exit status 0"
ranks_ended
says "SIGTERM to mpirun: said" err '^interrupted after step [0-9]+, which is saved'
steps=$(($(sed -n 's/^interrupted after step \([0-9]*\),.*/\1/p' err) + 1))
ranks 2 train ended.json --resume --steps $steps; status "SIGTERM to mpirun: resumed" 0

# ---- bad input: all end, and one says why ----
config bad '"stesp": 3'
ranks 3 train bad.json; status "an unknown key" 1; one_line "an unknown key" "bad.json: .*stesp"
ranks 2 train bad.json --stpes 3
[ $status != 0 ] && ok "an unknown option" || bad "an unknown option" "exit status 0"
one_line "an unknown option" "train: unknown option '--stpes'"
config few; sed -i 's/"batch_size": 8/"batch_size": 2/' few.json
ranks 3 train few.json; status "too few rows" 1; one_line "too few rows" 'a batch_size of 2 cannot be shared among 3 ranks'
config other; sed 's/"seed": 3/"seed": 4/' other.json > another.json
timeout 100 mpirun -n 1 "$portico" train other.json : -n 1 "$portico" train another.json > out 2> err; status=$?
status "two configs" 1; one_line "two configs" "rank 1: its config is another than rank 0's: 'seed' differs"
ranks 2 train other.json --device cpu/nonsense; status "a device of one rank" 1; one_line "a device of one rank" "rank 1: .*nonsense"
ranks 2 train three.json; status "a folder that holds a run" 1; one_line "a folder that holds a run" 'rank 0: three holds a run already'
# weights of 1e6 after one update, and soon of what no float holds
config nan '"optimizer": {"type": "sgd"}'
sed -i 's/"learning_rate": [0-9.e-]*/"learning_rate": 1e6/; s/"max_grad_norm": 1/"max_grad_norm": 0/; s/"batch_size": 8/"batch_size": 2/' nan.json
ranks 2 train nan.json --log nan.csv; status "a loss that is not finite" 1
one_line "a loss that is not finite" ".*the first tensor that is not finite is '"
finish
