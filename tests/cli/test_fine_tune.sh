#!/bin/bash
# `portico train` that goes on with a model, and what becomes of the adapters: run, eval, convert, PEFT.
#
#   test_fine_tune.sh PORTICO SOURCE
#
# PORTICO: the program. SOURCE: the source folder. Everything runs on cpu:native. Prints one line per check; exits 1 if
# one failed. What needs PEFT (a Python with peft, transformers and gguf: PORTICO_TEST_PYTHON, or that of PATH) is skipped
# without it.
set -u
[ $# -ge 2 ] || { echo "usage: $0 PORTICO SOURCE"; exit 2; }
portico=$(realpath "$1")
source=$(realpath "$2")
. "$source/tests/cli/checks.sh"
export PORTICO_BACKEND=cpu:native
cd "$work" || exit 2

one_line() { if [ "$(wc -l < err)" = 1 ]; then ok "$1: one line"; else bad "$1" "$(wc -l < err) lines"; fi; }

base=$source/tests/parity/llama-q4_1.gguf
text='{"kind": "text", "file": "text.txt", "context_length": 16}'
for i in $(seq 120); do echo "the cat sat on the mat, $((i * 7 % 10)) times"; done > text.txt

# config NAME FROM DATA [FIELDS]: a run that goes to the folder NAME
config() {
    cat > "$1.json" << JSON
{"from": "$2", "data": $3, "schedule": {"type": "cosine", "learning_rate": 0.02, "warmup_steps": 2}, "max_grad_norm": 1,
 "steps": 40, "batch_size": 4, "seed": 3, "out": "$1"${4:+, $4}}
JSON
}

# falls NAME LOG: the loss at the end is below that at the beginning
falls() {
    if awk -F, 'NR == 2 { first = $2 } { last = $2 } END { exit !(NR > 4 && last < 0.9 * first) }' "$2"; then
        ok "$1"
    else
        bad "$1" "the loss does not fall"
    fi
}
# fails NAME CONFIG PATTERN: refused in one line that matches, and nothing is written
fails() {
    run train "$2"; status "$1" 1; one_line "$1"; says "$1: why" err "$3"
}

# ---- all weights ----
config full "$base" "$text"
run train full.json --log full.csv; status "all weights" 0; falls "all weights: the loss falls" full.csv
says "it says what is trained" err '^trained +all 82240 parameters$'
says "it says of which model" err '^model +.*/llama-q4_1.gguf, vocabulary of 320 tokens$'
config parts "$base" "$text"
run train parts.json --steps 5; status "a part of it" 0
run train parts.json --resume; status "the rest of it" 0; says "from where" err '^resumed +after step 5'
same "the same model, bit by bit" full/model.gguf parts/model.gguf
run run full --prompt "the cat" -n 8; status "running the folder" 0; says "it has learned" out '^ sat on the'
run inspect full/model.gguf; status "inspecting the file" 0
run convert full again.gguf --type q4_1; status "the folder as Q4_1" 0
python3 "$source/tests/scripts/make_folder.py" hub
config tuned hub "$text" '"optimizer": {"type": "sgd", "momentum": 0.5}'
run train tuned.json --log hub.csv; status "a folder of Hugging Face" 0; falls "its loss falls" hub.csv
run run tuned --prompt "the cat" -n 3; status "what became of it" 0
config dates "$source/models/dates" "{\"kind\": \"pairs\", \"file\": \"$source/models/dates/test.tsv\", \"target_buckets\": [64], \"source_buckets\": [64]}"
run train dates.json --log dates.csv --steps 2; status "a model of Portico's" 0
if awk -F, 'NR == 2 { exit !($2 < 0.5) }' dates.csv; then ok "it reads sources as it was taught to"; else bad "its first loss" "$(sed -n 2p dates.csv)"; fi
run convert "$source/models/dates" pair; status "it as a folder of Hugging Face" 0
sed 's/"from": "[^"]*"/"from": "pair"/; s/"out": "dates"/"out": "pairs"/; s/"learning_rate": 0.02/"learning_rate": 1e-4/' dates.json > pairs.json
run train pairs.json --log pairs.csv --steps 2; status "an encoder-decoder of Hugging Face" 0
same "the same config.json" pair/config.json pairs/config.json
if [ "$(sed -n 2p pairs.csv | cut -d, -f2)" = "$(sed -n 2p dates.csv | cut -d, -f2)" ]; then ok "the same first loss"; else bad "the first loss" "$(sed -n 2p pairs.csv)"; fi
run run pairs --prompt "March 5, 1999"; status "what became of it" 0; says "it has not forgotten" out '^1999-03-05$'
run convert pairs again.hf -t f16; status "it as a folder, in f16" 0
run train pairs.json --resume --steps 3; status "going on with it" 0
sed 's/"learning_rate": 1e-4/"learning_rate": 0.1/; s/"out": "pairs"/"lora": {"r": 4, "target_modules": "all-linear"}, "out": "beside"/' pairs.json > beside.json
run train beside.json --steps 3; status "adapters beside it" 0
run convert pair merged.hf --adapter beside; status "... merged" 0
run run pair --adapter beside --prompt "March 5, 1999" -n 12; cp out with; run run pair --prompt "March 5, 1999" -n 12; cp out without
if cmp -s with without; then bad "the adapters" "they change nothing"; fi
run run merged.hf --prompt "March 5, 1999" -n 12; same "the merged model says what both say" out with
run eval dates --data dates --limit 3; status "evaluating what became of Portico's" 0

# ---- adapters ----
config lora "$base" "$text" '"lora": {"r": 4, "lora_alpha": 16, "target_modules": "all-linear"}, "checkpoint_interval": 4'
run train lora.json --log lora.csv; status "adapters" 0; falls "adapters: the loss falls" lora.csv
says "it says what is trained" err '^trained +7424 parameters of adapters of rank 4$'
for file in adapter_config.json adapter_model.safetensors checkpoint.safetensors; do
    if [ -s "lora/$file" ]; then ok "train wrote $file"; else bad "adapters" "no lora/$file"; fi
done
config half "$base" "$text" '"lora": {"r": 4, "lora_alpha": 16, "target_modules": "all-linear"}, "checkpoint_interval": 4'
run train half.json --steps 7; status "a part of them" 0
run train half.json --resume; status "the rest of them" 0
same "the same adapters, bit by bit" lora/adapter_model.safetensors half/adapter_model.safetensors
sed 's/"steps": 40/"steps": 100000/; s/"out": "half"/"out": "killed"/' half.json > killed.json
"$portico" train killed.json > killed.out 2>&1 & pid=$!
for _ in $(seq 200); do [ -e killed/checkpoint.safetensors ] && break; sleep 0.1; done
kill -TERM $pid; wait $pid
if [ $? = 143 ]; then ok "SIGTERM ends it"; else bad "SIGTERM" "$(tail -1 killed.out)"; fi
if grep -q 'which is saved; --resume goes on' killed.out; then ok "and is saved"; else bad "SIGTERM" "nothing saved"; fi
step=$(grep -o 'interrupted after step [0-9]*' killed.out | grep -o '[0-9]*$')
run train killed.json --resume --steps $((step + 1)); status "going on after SIGTERM" 0
sed 's/"out": "killed"/"out": "unkilled"/' killed.json > unkilled.json
run train unkilled.json --steps $((step + 1)); status "the same without SIGTERM" 0
same "SIGTERM changes no bit" killed/adapter_model.safetensors unkilled/adapter_model.safetensors
config dropped "$base" "$text" '"lora": {"lora_dropout": 0.3, "use_rslora": true, "target_modules": ["q_proj", "mlp.down_proj"]}'
run train dropped.json --log dropped.csv; status "with dropout" 0; falls "with dropout: the loss falls" dropped.csv
config f16 "$base" "$text" '"lora": {}, "dtype": "f16", "recompute": "blocks", "gradient_accumulation_steps": 2'
run train f16.json --log f16.csv; status "in f16, with recomputation, of two batches" 0; falls "in f16: the loss falls" f16.csv

# ---- using them ----
run run "$base" --prompt "the cat" -n 8; cp out plain
run run "$base" --adapter lora --prompt "the cat" -n 8; status "run --adapter" 0; says "it has learned" out 'on the (cat|mat)'
if cmp -s out plain; then bad "run --adapter" "the same as without"; else ok "it is another text than without"; fi
cp out with
run convert "$base" merged.gguf --adapter lora --type f32; status "convert --adapter" 0
run run merged.gguf --prompt "the cat" -n 8; same "the merged model says the same" out with
run eval "$base" --adapter lora --data text.txt --json; status "eval --adapter" 0; cp out a
run eval merged.gguf --data text.txt --json; status "eval of the merged model" 0; cp out b
# sums of 64 and 96 products in f32, in another order: a loss within 1e-5 of itself, as in tests/parity
if python3 -c 'import json, math; a, b = (json.load(open(n))["perplexity"] for n in "ab"); exit(not abs(math.log(a) - math.log(b)) <= 1e-5 * math.log(a))'; then
    ok "both give the text the same probability"
else
    bad "eval --adapter" "$(cat a b)"
fi
run convert "$base" small.gguf --adapter lora; status "convert --adapter, types kept" 0; says "it says so" out 'q4_1 \(15\)'
run chat "$base" --adapter lora --prompt "the cat" -n 3; status "chat --adapter" 0
run embed "$base" --adapter lora --prompt "the cat"; status "embed --adapter" 0

# ---- experts ----
for kind in mixtral qwen3_moe; do
    names='"w1", "w2", "w3"'; [ $kind = mixtral ] || names='"gate_proj", "up_proj", "down_proj"'
    python3 "$source/tests/scripts/make_folder.py" $kind $kind
    config of-$kind $kind "$text" "\"lora\": {\"r\": 3, \"lora_alpha\": 12, \"target_modules\": [\"q_proj\", $names]}"
    run train of-$kind.json --log $kind.csv; status "$kind: adapters of experts" 0; falls "$kind: the loss falls" $kind.csv
    # A [3,32] and B [32,3] of 4 experts, of gate, up and down in 2 layers, and of q_proj
    says "$kind: one for each" err '^trained +4992 parameters of adapters of rank 3$'
    python3 "$source/tests/scripts/fuse_adapter.py" of-$kind fused-$kind
    for adapter in of fused; do
        run eval $kind --adapter $adapter-$kind --data text.txt --json; status "$kind: eval with $adapter" 0; cp out $adapter
    done
    same "$kind: as PEFT writes them for transformers 5" of fused
    run convert $kind $kind.gguf --adapter of-$kind --type f32; status "$kind: merged" 0
    run convert $kind fused.gguf --adapter fused-$kind --type f32; status "$kind: the others merged" 0
    same "$kind: the same, bit by bit" $kind.gguf fused.gguf
    run convert $kind $kind.hf --adapter of-$kind --type f32; status "$kind: merged as a folder" 0
    run convert $kind plain.gguf; status "$kind as a GGUF file" 0
    for merged in $kind.gguf $kind.hf "plain.gguf --adapter of-$kind"; do
        run eval $merged --data text.txt --json; status "eval of $merged" 0; cp out b
        # sums of 32 products in f32 in another order, as above
        if python3 -c 'import json, math; a, b = (math.log(json.load(open(n))["perplexity"]) for n in ("of", "b")); exit(not abs(a - b) <= 1e-5 * a)'; then
            ok "$merged gives the text the same probability"
        else
            bad "eval of $merged" "$(cat of b)"
        fi
    done
done
sed 's/"out": "of-mixtral"/"out": "half"/; s/"lora": {/"dtype": "f16", "recompute": "blocks", "lora": {"lora_dropout": 0.1, /' of-mixtral.json > half.json
rm -rf half; run train half.json --log half.csv; status "of experts in f16, with dropout" 0; falls "in f16: the loss falls" half.csv
run convert mixtral q8_0.gguf --type q8_0; status "mixtral in Q8_0" 0
sed 's/"from": "mixtral"/"from": "q8_0.gguf"/; s/"out": "of-mixtral"/"out": "beside-q8_0"/' of-mixtral.json > q8_0.json
run train q8_0.json --log q8_0.csv; status "over experts in Q8_0" 0; falls "over experts in Q8_0: the loss falls" q8_0.csv
run run q8_0.gguf --adapter beside-q8_0 --prompt "the cat" -n 3; status "running them" 0
config linear mixtral "$text" '"lora": {"r": 3, "target_modules": "all-linear"}'
run train linear.json --steps 1; status "all-linear beside experts" 0
# 3 (32 + 32) of q_proj and o_proj, 3 (32 + 16) of k_proj and v_proj, in 2 layers
says "experts have to be named" err '^trained +1344 parameters'
# edited NAME SCRIPT PATTERN: an adapter whose tensors `t` and config `c` the script has changed is refused
edited() {
    rm -rf edited
    PYTHONPATH=$source/tests/scripts python3 - "$2" << 'PYTHON'
import json, os, sys
import fuse_adapter
t, c = fuse_adapter.read("of-mixtral/adapter_model.safetensors"), json.load(open("of-mixtral/adapter_config.json"))
f, e = fuse_adapter.read("fused-mixtral/adapter_model.safetensors"), "base_model.model.model.layers.0."
scope = {"t": t, "c": c, "f": f, "o": e + "block_sparse_moe.experts.", "e": e + "mlp.experts."}
exec(sys.argv[1], scope)
os.mkdir("edited")
fuse_adapter.write("edited/adapter_model.safetensors", scope["t"])
json.dump(c, open("edited/adapter_config.json", "w"))
PYTHON
    run run mixtral --adapter edited --prompt x; status "$1" 1; one_line "$1"; says "$1: why" err "$3"
}
edited "an expert without an adapter" 'del t[o + "2.w1.lora_A.weight"]' "no '.*experts.2.w1.lora_A.weight'; Portico adapts all experts or none"
edited "one that is not there" 't[o + "4.w1.lora_A.weight"] = t[o + "0.w1.lora_A.weight"]' 'is of expert 4, and mixtral has 4'
edited "one that is alone" 't[o + "3.w2.lora_A.weight"] = t.pop(o + "0.w2.lora_A.weight")' "no '.*experts.0.w2.lora_A.weight'"
edited "an expert of another rank" 't[o + "1.w1.lora_A.weight"].pop()' 'has another shape than that of expert 0'
edited "all without B" 't = f; del f[e + "lora_B.weight"]' "has no '.*mlp.experts.lora_B.weight' beside it"
edited "all without A" 't = f; del f[e + "lora_A.weight"]' "has no '.*mlp.experts.lora_A.weight' beside it"
edited "all with rows too few" 't = f; f[e + "lora_A.weight"].pop()' 'has 11 rows and its B 12 columns'
edited "all of other matrices" 't = f; f[e + "lora_B.weight"].pop()' 'of matrices .31,32., which the experts of mixtral have not'
edited "no module of all" 't[e + "w1.lora_A.weight"] = t[o + "0.w1.lora_A.weight"]' 'is of no projection of mixtral'
edited "a pattern that is wrong" 'c["alpha_pattern"] = {"q_proj(": 3}' "expression 'q_proj.' of alpha_pattern is wrong"
edited "an alpha that is no number" 'c["alpha_pattern"] = {"q_proj": "3"}' "'q_proj' "
# twice the alpha of w1 is twice its B
python3 - << 'PYTHON'
import json, shutil
for name in ("pattern", "doubled"):
    shutil.copytree("of-mixtral", name, ignore=shutil.ignore_patterns("checkpoint*"))
config = json.load(open("pattern/adapter_config.json"))
config["alpha_pattern"] = {"w1": 24, "experts.1.w1": 1, r".*\.layers\.0\..*q_proj": 24}
json.dump(config, open("pattern/adapter_config.json", "w"))
PYTHON
PYTHONPATH=$source/tests/scripts python3 - << 'PYTHON'
import fuse_adapter
tensors = fuse_adapter.read("doubled/adapter_model.safetensors")
for name, rows in tensors.items():
    if "lora_B" in name and (".w1." in name or "layers.0.self_attn.q_proj" in name):
        rows[:] = [[2 * value for value in row] for row in rows]
fuse_adapter.write("doubled/adapter_model.safetensors", tensors)
PYTHON
for adapter in pattern doubled; do
    run eval mixtral --adapter $adapter --data text.txt --json; status "eval with $adapter" 0; cp out $adapter.out
done
same "alpha_pattern: the first that fits counts" pattern.out doubled.out

# ---- conversations ----
chat='{"kind": "chat", "file": "chat.jsonl", "context_length": 56, "held_out": 0}'
cp "$source/tests/parity/chat.jsonl" .
config talk "$base" "$chat" '"lora": {}'
run train talk.json --log talk.csv; status "chats" 0; falls "chats: the loss falls" talk.csv
says "it says how many" err '^data +chat.jsonl: 7 chats, 0 held out$'
says "it says what is left out" err '^ +5 chats are longer than 56 tokens and left out$'
wrong() { # NAME LINE PATTERN
    echo "$2" > chat.jsonl; rm -rf talk; fails "$1" talk.json "$3"
    if [ -e talk/checkpoint.safetensors ]; then bad "$1" "something was written"; fi
}
wrong "a line that is no JSON" '{"messages": [' 'chat.jsonl:1: .*JSON'
wrong "a line without messages" '{"text": "x"}' "chat.jsonl:1: a chat is an object with a list 'messages'"
wrong "a message without content" '{"messages": [{"role": "user"}]}' "chat.jsonl:1: message 1 must have a 'role' and a 'content'"
wrong "no answer" '{"messages": [{"role": "user", "content": "x"}]}' "no message has the role 'assistant'"
wrong "all too long" "{\"messages\": [{\"role\": \"user\", \"content\": \"$(printf 'word %.0s' $(seq 99))\"}, {\"role\": \"assistant\", \"content\": \"x\"}]}" \
    'no chat is left to train on: 1 are longer than context_length 56'

# ---- what is refused ----
config bad "$base" "$text" '"lora": {"rank": 4}'; fails "an unknown key" bad.json "'lora': .*'rank'"
config bad "$base" "$text" '"lora": {"r": 0}'; fails "rank 0" bad.json "'r' .*1"
config bad "$base" "$text" '"lora": {"target_modules": ["q_proj", "attn_q"]}'
fails "a target that is not there" bad.json "no projection of .* is called 'attn_q'; its layers have self_attn.q_proj, "
config bad "$base" "$text" '"lora": {"target_modules": "q.*"}'; fails "a pattern" bad.json "must be a list of names"
config bad "$base" "$text" '"model": {}'; fails "from and model" bad.json "'from' excludes 'model'"
config bad "$base" '{"kind": "text", "file": "text.txt", "tokenizer": {"kind": "char"}}'
fails "another tokenizer" bad.json "'from' excludes 'tokenizer'"
config bad "$base" '{"kind": "pairs", "file": "text.txt"}'; fails "pairs for a decoder" bad.json "data are of kind 'text' or 'chat'"
config bad "$source/models/dates" "$text"; fails "a text for an encoder-decoder" bad.json "data are of kind 'pairs'"
config bad nowhere "$text"; fails "no model" bad.json "'from': .*nowhere cannot be opened: .*--from .*scripts/fetch-models"
config bad "$source/models/dates" '{"kind": "dates"}'; fails "dates" bad.json "leave 'from' out"
sed 's/"from": "[^"]*", //; s/"out"/"lora": {}, "out"/' full.json > bad.json; fails "no model at all" bad.json "'from' name a model"
cp "$base" other.gguf; config moved other.gguf "$text" '"lora": {}'
run train moved.json --steps 1; status "a model that will change" 0
cp "$base" other.gguf; printf '\x7f' | dd of=other.gguf bs=1 seek=$(($(stat -c %s other.gguf) - 9)) conv=notrunc 2> /dev/null
fails_resume() { run train moved.json --resume; status "$1" 1; one_line "$1"; says "$1: why" err 'began with another model'; }
fails_resume "a model that has changed"
uses() { run run "$base" --adapter "$2" --prompt x; status "$1" 1; one_line "$1"; says "$1: why" err "$3"; }
uses "no adapter" nowhere 'nowhere is no adapter: it has no adapter_config.json'
cp -r lora dora; sed -i 's/"r":/"use_dora": true, "r":/' dora/adapter_config.json
uses "what is not known" dora "'use_dora' is set"
cp -r lora cut; head -c 3000 lora/adapter_model.safetensors > cut/adapter_model.safetensors; uses "a file cut short" cut 'adapter_model.safetensors'
run run hub --adapter lora --prompt x; status "an adapter of another model" 1; one_line "another model"
says "another model: why" err "lora_[AB].weight' .*shape|lora_[AB].weight' has .* rows"
run run lora --prompt x; status "an adapter is no model" 1; says "it says what to do" err '\-\-adapter'

# ---- PEFT ----
for python in "${PORTICO_TEST_PYTHON:-}" python3 /usr/bin/python3; do
    if [ -n "$python" ] && "$python" -c "import peft, transformers, gguf" 2> /dev/null; then break; fi
    python=
done
if [ -n "$python" ]; then
    if "$python" "$source/tests/parity/check_peft.py" "$portico" "$base" lora made 2> err; then
        ok "PEFT merges the adapters as Portico does, and the other way round"
    else
        bad "PEFT" "$(tail -1 err)"
    fi
    run run "$base" --adapter made --prompt "the cat" -n 3; status "an adapter that PEFT made" 0
    for kind in mixtral qwen3_moe; do
        if "$python" "$source/tests/parity/check_peft.py" "$portico" $kind of-$kind made-$kind 2> err; then
            ok "PEFT and Portico merge each other's adapters of experts of $kind"
        else
            bad "PEFT, experts of $kind" "$(tail -1 err)"
        fi
    done
else
    skip "no Python here has the packages peft, transformers and gguf"
fi
finish
