#!/bin/bash
# `portico train`, `eval`, `plot` and `tokenizer` from outside: what they write, how they resume, and what they say of
# bad input.
#
#   test_train.sh PORTICO SOURCE
#
# PORTICO: the program. SOURCE: the source folder. Everything runs on cpu:native. Prints one line per check; exits 1 if
# one failed.
set -u
[ $# -ge 2 ] || { echo "usage: $0 PORTICO SOURCE"; exit 2; }
portico=$(realpath "$1")
source=$(realpath "$2")
. "$source/tests/cli/checks.sh"
export PORTICO_BACKEND=cpu:native
cd "$work" || exit 2

# config NAME DATA [FIELDS]: a small run that goes to the folder NAME
config() {
    cat > "$1.json" << JSON
{"model": {"d_model": 16, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2,
  "decoder_attention_heads": 2, "encoder_ffn_dim": 24, "decoder_ffn_dim": 24, "normalize_before": true,
  "final_norm": true, "scale_embedding": true, "add_eos_to_source": true, "dropout": 0.1},
 "data": $2, "schedule": {"type": "cosine", "learning_rate": 0.01, "warmup_steps": 2}, "max_grad_norm": 1,
 "steps": 12, "batch_size": 4, "seed": 3, "out": "$1"${3:+, $3}}
JSON
}

printf 'low\twol\tx\nlower\trewol\nnewest\ttsewen\nw\tw\nwest\ttsew\nlot\ttol\nten\tnet\nstew\twets\n' > pairs.tsv
for i in $(seq 40); do echo "the cat sat on the mat, $((i * 7 % 10)) times"; done > text.txt
pairs='{"kind": "pairs", "file": "pairs.tsv", "held_out": 0.3, "context_length": 8, "tokenizer": {"kind": "char"}}'
dates='{"kind": "dates", "source_buckets": [40], "target_buckets": [11], "held_out_count": 4}'

# ---- a run, and the same in two parts ----
config whole "$pairs" '"evaluation_interval": 6'
run train whole.json --log whole.csv; status "train" 0
says "train: stdout names the folder" out '^whole$'; says "train: plain lines" err '^step 12/12 .* loss [0-9.]+, [0-9]+ tokens/s'
says "train: validation" err 'step 6: validation loss'
says "train: memory" err '^memory +[0-9.]+ MiB of activations for 4 x [0-9]+ tokens$'
config again "$pairs" '"evaluation_interval": 6, "recompute": "blocks"'
run train again.json --log again.csv; status "train with recomputation" 0
says "train: memory of both" err '^memory .* tokens, [0-9.]+ MiB without recomputation$'
same "recomputed weights" whole/model.safetensors again/model.safetensors; rm -rf again
config half "$pairs" '"dtype": "f16", "loss_scaling": {"initial": 16777216, "interval": 5}'
run train half.json --log half.jsonl; status "train in f16" 0
says "train: memory in f16" err '^memory .* of activations in f16 for .* tokens, [0-9.]+ MiB in f32$'
says "a skipped update is said" err '^step 1: gradients overflow f16 with the loss times 16777216; nothing is updated$'
if head -1 half.jsonl | grep -q '"grad_norm":null.*"loss_scale":16777216'; then ok "it is in the log"; else bad "a skipped update in the log" "$(head -1 half.jsonl)"; fi
run plot half.jsonl; status "plot of a scaled log" 0
run train half.json --resume --steps 14 --log half.jsonl; status "resuming in f16" 0
for file in config.json model.safetensors checkpoint.safetensors; do
    if [ -s "whole/$file" ]; then ok "train wrote $file"; else bad "train" "no whole/$file"; fi
done
config parts "$pairs" '"evaluation_interval": 6'
run train parts.json --steps 6 --log parts.csv; status "train --steps" 0
echo '8,0.1,0.1,0.1,4,0.1,' >> parts.csv # a step that the checkpoint does not know
run train parts.json --resume --log parts.csv; status "train --resume" 0
says "train --resume: from where" err '^resumed +after step 6'
same "resumed weights" whole/model.safetensors parts/model.safetensors
cut -d, -f1-5,7 whole.csv > a; cut -d, -f1-5,7 parts.csv > b; same "resumed log" a b
cp parts.csv kept.csv; : > parts.csv # as a kill before the first record leaves it
run train parts.json --resume --steps 12 --log parts.csv; status "resuming with an empty log" 0
same "the log has its header" <(head -n 1 whole.csv) parts.csv; mv kept.csv parts.csv
for ours in 'csv notes.csv' 'jsonl notes.jsonl'; do # a file of another kind, and a link to it
    cp pairs.tsv "${ours#* }"; ln -sf "${ours#* }" "link.${ours% *}"
    for log in "${ours#* }" "link.${ours% *}"; do
        config guarded "$pairs"; run train guarded.json --steps 1 --log "$log"; status "train --log $log: no log" 1
        says "... which is said in a line" err "^portico: $log: this file is no log of a training, and is left as it is; use another one\$"
        run train parts.json --resume --steps 13 --log "$log"; status "resuming with it" 1
        same "... which is as it was" pairs.tsv "${ours#* }"
    done
done
rm -rf guarded; ln -s linked.csv linked-log.csv; config guarded "$pairs"
run train guarded.json --steps 1 --log linked-log.csv; status "train --log: a link to nothing" 0
run train guarded.json --steps 2 --resume --log linked-log.csv; status "... and on through the link" 0
if [ -L linked-log.csv ] && [ "$(wc -l < linked.csv)" = 3 ]; then ok "a log behind a link"; else bad "a log behind a link" "$(cat linked.csv)"; fi
rm -rf guarded linked.csv linked-log.csv; run train parts.json --resume; status "resuming what is done" 0; says "it says so" err 'nothing to do'
run train parts.json; status "a folder that holds a run" 1; says "it says what to do" err '--resume continues it'
run train parts.json --resume --seed 9; status "resuming with another seed" 1; says "it names the key" err "'seed' differs"
run train parts.json --resume --out nowhere; status "resuming nothing" 1; says "it names the folder" err 'nowhere holds no checkpoint'

# ---- data that changed since the checkpoint ----
cp pairs.tsv moving.tsv
config moved "${pairs/pairs.tsv/moving.tsv}"
run train moved.json --steps 3; status "a run whose data will change" 0
cp moved/checkpoint.safetensors kept
printf 'west\tstew\n' >> moving.tsv # no new character, so the same vocabulary
run train moved.json --resume --steps 4; status "resuming on changed data" 1
says "it names the file, and the way on" err '^portico: .*moving.tsv has changed since moved/checkpoint.safetensors was written; .* --changed-data$'
if [ "$(wc -l < "$work/err")" = 1 ]; then ok "changed data: one line"; else bad "changed data" "more than one line"; fi
same "the checkpoint stays" moved/checkpoint.safetensors kept
run train moved.json --changed-data; status "--changed-data alone" 2
run train moved.json --resume --changed-data --steps 4; status "resuming on changed data, as wished" 0
run train moved.json --resume --steps 5; status "after that the file is the run's" 0
printf 'zebra\tarbez\n' >> moving.tsv
run train moved.json --resume --changed-data --steps 6; status "resuming with another vocabulary" 1
says "the vocabulary is named" err 'moved/checkpoint.safetensors has another vocabulary than .*moving.tsv gives now'
sed 's/,\\"data\\":{\\"file\\"/,\\"date\\":{\\"file\\"/' kept > moved/checkpoint.safetensors; cp pairs.tsv moving.tsv
run train moved.json --resume; status "a checkpoint without digests" 1; says "it says so" err 'does not say on what data'

# ---- weights from a file ----
config again "$pairs" '"initial_weights": "whole/model.safetensors"'
run train again.json --steps 0; status "initial weights" 0; same "they are taken" whole/model.safetensors again/model.safetensors
sed -i 's/"decoder_ffn_dim": 24/"decoder_ffn_dim": 20/' again.json; rm -rf again
run train again.json; status "weights of another shape" 1; says "the tensor is named" err "'decoder.layers.0.fc1.weight'"

# ---- kill -9 at any moment ----
config killed "$dates" '"checkpoint_interval": 5'
sed -i 's/"steps": 12/"steps": 100000/' killed.json
"$portico" train killed.json > out 2> err & pid=$!
for _ in $(seq 200); do [ -f killed/checkpoint.safetensors ] && break; sleep 0.05; done
sleep 0.3; kill -9 $pid; wait $pid 2> /dev/null
echo part of one > killed/checkpoint.safetensors.portico-Ab3dEf # as a kill while a checkpoint is written leaves it
echo mine > killed/checkpoint.safetensors.backup
run train killed.json --resume --steps 1; status "resuming after kill -9" 0
says "it begins at a checkpoint" err '^resumed +after step [0-9]*[05]$'
if [ -e killed/checkpoint.safetensors.portico-Ab3dEf ]; then bad "left files" "one is still there"; else ok "left files are removed"; fi
[ -e killed/checkpoint.safetensors.backup ] && ok "other files stay" || bad "other files" "one was removed"
sed 's/\\"format\\":1,/\\"format\\":2,/' killed/checkpoint.safetensors > later; cp killed/checkpoint.safetensors now; cp later killed/checkpoint.safetensors
run train killed.json --resume; status "a checkpoint of a later format" 1; says "its format is named" err "killed/checkpoint.safetensors: key 'format' is 2"
cp now killed/checkpoint.safetensors
head -c 5000 killed/checkpoint.safetensors > cut; mv cut killed/checkpoint.safetensors
run train killed.json --resume; status "a truncated checkpoint" 1; says "it is named" err 'killed/checkpoint.safetensors'

# ---- a full disk: files cannot grow beyond 16 KiB; the last checkpoint stays ----
config full "$pairs" '"checkpoint_interval": 1'
run train full.json --steps 1; cp full/checkpoint.safetensors kept
(trap '' XFSZ; ulimit -f 16; timeout 100 "$portico" train full.json --resume > "$work/out" 2> "$work/err"; echo $? > code)
status=$(cat code); status "a full disk" 1; says "it names the file" err 'full/(model|checkpoint).safetensors'
same "the last checkpoint stays" full/checkpoint.safetensors kept

# ---- a run that ends between the files of a checkpoint goes on from the one before, and makes them all ----
rm full/model.safetensors; mkdir full/model.safetensors
run train full.json --resume --steps 2; status "a model that cannot be written" 1
same "its checkpoint is not written" full/checkpoint.safetensors kept
rmdir full/model.safetensors; run train full.json --resume --steps 2; status "and can again" 0
[ -f full/model.safetensors ] && ok "the model is there" || bad "the model" "a resumed run did not write it"
mkdir full/training.lock # as a lock that cannot be opened: of another user, say
run train full.json --resume --steps 3; status "a lock that cannot be opened" 1
says "it is named" err '^portico: full/training.lock: cannot be made: Is a directory; without'
rmdir full/training.lock

# ---- signals end a run with a checkpoint, which goes on as if nothing had been ----
config stopped "$dates"
sed -i 's/"steps": 12/"steps": 100000/' stopped.json
# signalled SIGNAL WANTED: the run stopped.json until its first step, then the signal
signalled() {
    rm -rf stopped err
    (set -m; "${heeding[@]}" "$portico" train stopped.json > out 2> err & pid=$!
     for _ in $(seq 400); do grep -q '^step' err && break; sleep 0.05; done
     kill "-$1" $pid; ended $pid; echo $? > code)
    status=$(cat code); status "SIG$1" "$2"
    says "SIG$1: said" err '^interrupted after step [0-9]+, which is saved; --resume goes on$'
    steps=$(($(sed -n 's/^interrupted after step \([0-9]*\),.*/\1/p' err) + 2))
}
for pair in INT:130 TERM:143 HUP:129; do
    signalled ${pair%:*} ${pair#*:}
    run train stopped.json --resume --steps $steps; status "SIG${pair%:*}: resumed" 0
    says "SIG${pair%:*}: from there" err "^resumed +after step $((steps - 2))\$"
    run train stopped.json --out straight --steps $steps; status "SIG${pair%:*}: the same in one go" 0
    same "SIG${pair%:*}: bit by bit" stopped/checkpoint.safetensors straight/checkpoint.safetensors; rm -rf straight
done
rm -rf stopped err # as timeout(1) does: it signals the process, and then its group
(set -m; "${heeding[@]}" "$portico" train stopped.json > out 2> err & pid=$!
 for _ in $(seq 400); do grep -q '^step' err && break; sleep 0.05; done
 kill -TERM $pid -$pid; ended $pid; echo $? > code)
status=$(cat code); status "SIGTERM twice" 143
says "SIGTERM twice: said" err '^interrupted'; [ -s stopped/checkpoint.safetensors ] && ok "SIGTERM twice: saved" || bad "SIGTERM twice" "nothing saved"
rm -f err
(set -m; nohup "$portico" train stopped.json --resume --steps 100000 > out 2> err & pid=$! # SIGHUP is ignored, and stays so
 for _ in $(seq 400); do grep -q '^step' err && break; sleep 0.05; done
 kill -HUP $pid; sleep 0.3; kill -TERM $pid; ended $pid; echo $? > code)
status=$(cat code); status "nohup" 143

# ---- two runs into one folder ----
config clock "$dates"
sed -i 's/"steps": 12/"steps": 100000/' clock.json
rm -f err2; "$portico" train clock.json > out2 2> err2 & pid=$!
for _ in $(seq 400); do grep -q '^step' err2 && break; sleep 0.05; done
run train clock.json; status "a folder that is trained into" 1
says "it is named, with who does" err "^portico: clock: process $pid on $(uname -n) trains into this folder; wait for it, or give --out another one\$"
if [ "$(wc -l < "$work/err")" = 1 ]; then ok "two runs: one line"; else bad "two runs" "more than one line"; fi
kill -9 $pid; wait $pid 2> /dev/null; [ -e clock/training.lock ] && ok "a lock file is left" || bad "kill -9" "no lock file"
run train clock.json --steps 2; status "a lock whose process is gone" 0
[ -e clock/training.lock ] && bad "the lock" "its file is left" || ok "the lock is gone with the run"
rm -rf clock

# ---- a checkpoint by the clock ----
config clock "$dates" '"checkpoint_seconds": 0.2'
sed -i 's/"steps": 12/"steps": 100000/' clock.json
"$portico" train clock.json > out 2> err & pid=$!
for _ in $(seq 400); do [ -f clock/checkpoint.safetensors ] && break; sleep 0.05; done
kill -9 $pid; wait $pid 2> /dev/null
run train clock.json --resume --steps 1; status "a checkpoint by the clock" 0; says "it begins there" err '^resumed +after step [1-9]'

# ---- bad input ----
refused() { # NAME PATTERN: the config bad.json
    rm -rf bad
    run train bad.json; status "$1" 1; says "$1: said" err "$2"
    if [ "$(wc -l < "$work/err")" = 1 ]; then ok "$1: one line"; else bad "$1" "more than one line"; fi
}
: > empty.tsv; config bad "${pairs/pairs.tsv/empty.tsv}"; refused "an empty file" 'empty.tsv:1: the file is empty'
printf 'a\tb\nlonely\n' > one.tsv; config bad "${pairs/pairs.tsv/one.tsv}"; refused "a missing column" 'one.tsv:2: column 2 is missing'
printf 'a\tb\n\377\tb\n' > latin.tsv; config bad "${pairs/pairs.tsv/latin.tsv}"; refused "not UTF-8" 'latin.tsv:2: .*not UTF-8'
config bad "${pairs/pairs.tsv/missing.tsv}"; refused "no file" 'missing.tsv'
config bad "$pairs" '"dtype": "bf16", "loss_scaling": {"initial": 2}'; refused "scaling of bf16" 'loss_scaling is for dtype f16 alone'
config bad "$pairs" '"dtype": "f16", "loss_scaling": {"initial": 3}'; refused "a factor that is no power of two" "'initial' of loss_scaling is 3"
config bad "$pairs" '"stesp": 1, "bacth": 2'; refused "unknown keys" 'stesp.*bacth'
config bad "${pairs/held_out/held_in}"; refused "an unknown key of the data" 'held_in'
config bad "$pairs"; sed -i 's/"dropout": 0.1/"dropout": 0.1, "vocab_size": 5/' bad.json
refused "a vocabulary that does not match" 'vocab_size does not match the tokenizer'
config untied "$pairs"; sed -i 's/"dropout": 0.1/"tie_word_embeddings": false/' untied.json
run train untied.json --steps 0; status "first values" 0
# a row of the embedding that the first batch does not use, near the largest float: lr * weight_decay = 3 makes it infinite
python3 - untied/model.safetensors huge.safetensors << 'PY'
import json, struct, sys
data = open(sys.argv[1], "rb").read()
size, = struct.unpack("<Q", data[:8])
begin = 8 + size + json.loads(data[8:8 + size])["shared.weight"]["data_offsets"][0]
row = begin + 16 * 4 * 4
open(sys.argv[2], "wb").write(data[:row] + struct.pack("<f", 3e38) * 16 + data[row + 64:])
PY
config bad "$pairs" '"optimizer": {"weight_decay": 3}, "initial_weights": "huge.safetensors", "checkpoint_interval": 1'
sed -i 's/"dropout": 0.1/"tie_word_embeddings": false/; s/"batch_size": 4/"batch_size": 1/' bad.json
sed -i 's/"type": "cosine", "learning_rate": 0.01, "warmup_steps": 2/"type": "constant", "learning_rate": 1/' bad.json
rm -rf bad; run train bad.json; status "a tensor that goes bad" 1
says "it is named" err "tensor 'model.shared.weight' is not finite; no checkpoint was written yet"
if [ -e bad ] && [ -n "$(ls bad)" ]; then bad "a bad checkpoint" "it was written"; else ok "no bad checkpoint"; fi
sed -i 's/"checkpoint_interval": 1/"checkpoint_interval": 0/' bad.json
rm -rf bad; run train bad.json; status "a loss that is not finite" 1
says "the first tensor is named" err "the loss of step [0-9]+ is -?nan: the first tensor that is not finite is 'shared.weight'; no checkpoint was written yet$"
for option in "--log x.txt" "--steps -1" "--seed x" "--device nonsense"; do
    run train whole.json $option; status "train $option" 2
done
run train missing.json; status "no config" 1; says "no config: its name" err 'missing.json'

# ---- what comes of it ----
run run whole --prompt low; status "run of a trained model" 0
run eval whole --data pairs.tsv; status "eval" 0
says "eval: perplexity" out '^perplexity +[0-9.]+'; says "eval: BLEU" out '^BLEU +[0-9.]+'; says "eval: exact" out 'of 8\)'
run eval whole --data pairs.tsv --held-out 0.3 --json; status "eval --json" 0; json "eval --json parses"
sed '3s/.*/anewestlowerlotten\tx/; 5s/.*/w\tlowlowlow/' pairs.tsv | sed 's/a//; s/x/w/' > long.tsv
run eval whole --data long.tsv; status "eval with pairs that are too long" 0
says "they are counted" out "^left out +2 pairs longer than the model's context of 8 tokens: lines 3, 5$"; says "the others are not" out 'of 6\)'
run eval whole --data long.tsv --json; json "left out, JSON"; says "left out, JSON: how many" out '"pairs":6,"left_out":2,'
sed -n 3p long.tsv > none.tsv; run eval whole --data none.tsv; status "eval of nothing but long pairs" 1
says "it says why" err 'nothing was evaluated: no pair fits into .* context of 8 tokens, and 1 were left out'
run eval whole --data one.tsv; status "eval of a bad file" 1; says "it names the line" err 'one.tsv:2'
run eval "$source/models/dates" --data dates --limit 5; status "eval dates" 0; says "eval dates: exact" out '100.00 % \(5 of 5\)'
run eval whole; status "eval without data" 2
run plot whole.csv parts.csv -o curve.svg; status "plot" 0; says "plot: both runs" out 'b  parts.csv: step 12'
if python3 -c 'import sys, xml.dom.minidom as x; d = x.parse("curve.svg"); sys.exit(len(d.getElementsByTagName("polyline")) != 4)'
then ok "plot: SVG"; else bad "plot" "no SVG with four curves"; fi
run plot pairs.tsv; status "plot of no log" 1
for line in 100000000000000000,1, 1,1e300, -1,1,; do
    printf 'step,loss,learning_rate,grad_norm,tokens,seconds,validation_loss\n1,1,,,,,\n%s\n' "$line" > wild.csv
    run plot wild.csv -o wild.svg; status "plot of the record $line" 1; says "its line is named" err 'wild.csv:3: '
done
printf 'step,loss\n5,-1e17,\n' > level.csv
run plot level.csv -o level.svg; status "plot of one large loss" 0

# ---- a language model, on a tokenizer of its own ----
run tokenizer train text.txt --kind bpe --size 270 --no-special --out bpe.json; status "tokenizer train" 0
says "tokenizer train: how many" out 'bpe.json: 270 tokens, 14 merges'
run tokenizer train pairs.tsv --kind char --columns 1,2 --out char.json; status "tokenizer train --columns" 0
run tokenizer train text.txt --kind bpe --size 256 --out x.json; status "a BPE that is too small" 1
run tokenizer train text.txt --kind word --out x.json; status "an unknown kind" 2
run tokenizer train empty.tsv --kind char --out x.json; status "an empty text" 1; says "it is named" err 'empty.tsv'
cat > text.json << 'JSON'
{"model": {"d_model": 16, "decoder_layers": 1, "decoder_attention_heads": 2, "decoder_ffn_dim": 24, "normalize_before": true,
  "final_norm": true, "position_embedding": "rope", "activation_function": "swiglu", "norm_type": "rms_norm"},
 "data": {"kind": "text", "file": "text.txt", "context_length": 16, "held_out": 0.2, "tokenizer": "bpe.json"},
 "steps": 10, "batch_size": 4, "gradient_accumulation_steps": 2, "out": "lm"}
JSON
run train text.json --log logs/new/text.jsonl; status "train a language model" 0
run run lm --prompt "the cat" -n 5; status "run of it" 0
run eval lm --data text.txt --held-out 0.2; status "eval of it" 0; says "eval: tokens" out '^tokens +[0-9]+'
run eval lm --data text.txt --context 4 --limit 3; status "eval --context" 0; says "eval: three windows" out '^tokens +12$'
for kind in svg json; do
    run run lm --prompt "the cat" -n 3 --attention "lm.$kind"; status "run --attention $kind of a decoder" 0
done
panels=$(python3 -c 'import json; c = json.load(open("lm/config.json"));
print(c["decoder_layers"] * c["decoder_attention_heads"])')
if python3 "$source/tests/cli/check_attention.py" lm.svg lm.json "$panels" > "$work/out" 2> "$work/err"; then
    ok "the picture of a decoder"
else
    bad "the picture of a decoder" "it is not as it should be"
fi
run inspect lm --memory; status "inspect --memory of it" 0
run inspect lm; status "inspect of it" 0
run compare lm --devices cpu:native,cpu:reference --prompt "the cat" --max-tokens 4; status "compare of it" 0
run conformance --bisect lm --devices cpu:native --prompt "the cat" --max-tokens 2; status "bisect of it" 0
run plot logs/new/text.jsonl --logarithmic; status "plot of JSON lines" 0
finish
