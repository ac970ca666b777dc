#!/usr/bin/env bash
# portico convert, and models in several files: test_convert.sh PORTICO, in a build tree.
. "$(dirname "$0")/checks.sh"
portico=$1
tests=$(dirname "$(realpath "$0")")/..
families=$tests/golden/families
export PORTICO_BACKEND=cpu:native

text_of() { run run "$1" --prompt "abc def" --max-tokens 12; status "run ${1##*/}" 0; cp "$work/out" "$work/${2:-text}"; }
same_text() { # NAME FILE OTHER
    text_of "$2" text1; text_of "$3" text2
    if cmp -s "$work/text1" "$work/text2"; then ok "$1"; else bad "$1" "the texts differ"; fi
}
types() { sed -n '/^tensors$/,$p' "$work/out" | awk 'NF >= 4 && $1 != "name" {print $2}' | sort | uniq -c | tr -s ' \n' ' '; }

# As it is: the same tensors and keys, and once more the same bytes.
for name in qwen2 gpt2; do
    run convert "$families/$name.gguf" "$work/$name.gguf"; status "convert $name" 0
    run convert "$work/$name.gguf" "$work/again.gguf"; status "convert $name again" 0
    if cmp -s "$work/$name.gguf" "$work/again.gguf"; then ok "$name: the same bytes"; else bad "$name: the same bytes" "they differ"; fi
    run inspect "$families/$name.gguf"; sed -n '/^tensors$/,$p' "$work/out" > "$work/before"
    run inspect "$work/$name.gguf"; sed -n '/^tensors$/,$p' "$work/out" > "$work/after"
    if cmp -s "$work/before" "$work/after"; then ok "$name: the same tensors"; else bad "$name: the same tensors" "$(diff "$work/before" "$work/after" | head -3)"; fi
    same_text "$name: the same text" "$families/$name.gguf" "$work/$name.gguf"
done

# Types. Rows of 32 and 48 are no whole blocks of 256: what is there instead is said.
run convert "$families/qwen2.gguf" "$work/q8.gguf" --type q8_0; status "q8_0" 0
says "what was written" out '^.*q8.gguf: .* of tensors as f32 \(11\), f16 \(2\), q8_0 \(14\); 133.1 KiB before'
says "rows that do not fit" out '^2 matrices have rows that are not whole blocks of q8_0'
run inspect "$work/q8.gguf"; says "what inspect says" out 'blk.0.attn_q.weight +Q8_0'
says "general.file_type" out 'general.file_type +7'
run convert "$families/qwen2.gguf" "$work/q4k.gguf" -t Q4_K --json; status "--json" 0; json "--json is JSON"
says "blocks of 32 instead" out '"q5_0": *13'
run inspect "$work/q4k.gguf"; says "the output projection has more bits" out ' output.weight +Q8_0'
run convert "$families/gpt2.gguf" "$work/tied.gguf" -t Q4_K
run inspect "$work/tied.gguf"; says "and embeddings that are one" out 'token_embd.weight +Q8_0'
run convert "$families/qwen2.gguf" "$work/q4.gguf" -t q4_0 --output-type f16; status "--output-type" 0
run inspect "$work/q4.gguf"; says "as asked" out ' output.weight +F16'
run convert "$work/q4.gguf" "$work/q8of4.gguf" -t q8_0; says "quantised twice" out 'were quantised before; what that lost stays lost'
run run "$work/q4.gguf" --prompt abc --max-tokens 4; status "quantised files run" 0
# Numbers do not depend on threads.
PORTICO_THREADS=1 run convert "$families/gpt2.gguf" "$work/one.gguf" -t q4_1
PORTICO_THREADS=5 run convert "$families/gpt2.gguf" "$work/five.gguf" -t q4_1
if cmp -s "$work/one.gguf" "$work/five.gguf"; then ok "threads change nothing"; else bad "threads change nothing" "the files differ"; fi

# Several files.
mkdir "$work/parts"
python3 "$tests/scripts/split_gguf.py" "$families/qwen2.gguf" "$work/parts/m" 3
same_text "three files are one model" "$families/qwen2.gguf" "$work/parts/m-00001-of-00003.gguf"
run convert "$work/parts/m-00001-of-00003.gguf" "$work/joined.gguf"; status "convert joins" 0
run convert "$families/qwen2.gguf" "$work/whole.gguf"
if cmp -s "$work/joined.gguf" "$work/whole.gguf"; then ok "joined: the same bytes"; else bad "joined: the same bytes" "they differ"; fi
run inspect "$work/parts/m-00001-of-00003.gguf"; says "inspect has all tensors" out '^tensors +27,'
run run "$work/parts/m-00002-of-00003.gguf" --prompt a; status "another part" 1; says "give the first" err 'part 2 of 3 of a model; give the first: .*m-00001-of-00003.gguf'
mv "$work/parts/m-00003-of-00003.gguf" "$work/elsewhere.gguf"
run run "$work/parts/m-00001-of-00003.gguf" --prompt a; status "a part is missing" 1; says "which" err 'm-00003-of-00003.gguf: cannot open'
python3 "$tests/scripts/split_gguf.py" "$families/qwen2.gguf" "$work/parts/n" 4
cp "$work/parts/n-00003-of-00004.gguf" "$work/parts/m-00003-of-00003.gguf"
run run "$work/parts/m-00001-of-00003.gguf" --prompt a; status "a part of another model" 1; says "it is told" err 'says that it is part 3 of 4, and by its name it is part 3 of 3'
cp "$work/parts/m-00002-of-00003.gguf" "$work/parts/m-00003-of-00003.gguf"
run run "$work/parts/m-00001-of-00003.gguf" --prompt a; status "a part twice" 1; says "it is told, too" err 'says that it is part 2 of 3'
cp "$work/parts/m-00001-of-00003.gguf" "$work/parts/other.gguf"
run run "$work/parts/other.gguf" --prompt a; status "a part by another name" 1; says "its name must end so" err 'its name must end with -00001-of-00003.gguf'

# A folder of Hugging Face: weights, keys and tokenizer.
python3 "$tests/scripts/make_folder.py" "$work/tiny"
run convert "$work/tiny" "$work/tiny.gguf"; status "a folder" 0; says "its weights stay as they are" out 'as f32 \(5\), bf16 \(16\)'
same_text "the same text from both" "$work/tiny" "$work/tiny.gguf"
for text in "hello world  12345 it's" "a[user]b" "x<|end|>y"; do
    printf %s "$text" > "$work/in"
    run tokenizer encode "$work/tiny" "$work/in" --special; cp "$work/out" "$work/ids1"
    run tokenizer encode "$work/tiny.gguf" "$work/in" --special
    if [ -s "$work/out" ] && cmp -s "$work/out" "$work/ids1"; then ok "the same ids of '$text'"; else bad "the same ids of '$text'" "$(diff "$work/out" "$work/ids1" | head -2)"; fi
done
for model in tiny tiny.gguf; do
    run chat "$work/$model" --prompt hello --max-tokens 12; status "a chat with $model" 0; cp "$work/out" "$work/$model.said"
done
if cmp -s "$work/tiny.said" "$work/tiny.gguf.said"; then ok "the same chat template"; else bad "the same chat template" "the answers differ"; fi
run inspect "$work/tiny.gguf"; says "the template" out 'tokenizer.chat_template +\{\{ bos_token'; says "the pre-tokenizer has its name" out 'tokenizer.ggml.pre +llama-bpe'
run convert "$work/tiny" "$work/tiny-q8.gguf" --type q8_0; status "a folder, quantised" 0
run run "$work/tiny-q8.gguf" --prompt hello --max-tokens 4; status "it runs" 0
run convert "$work/tiny" "$work/tiny.gguf" --json
says "--json tells of the tokenizer" out '"no_tokenizer": *false, *"other_ids": *false'
sed -i.bak 's/"bos_token": "<|begin|>"/"bos_token": "<|end|>"/' "$work/tiny/tokenizer_config.json"
run convert "$work/tiny" "$work/x.gguf"; status "BOS is not what stands in front of texts" 1
says "both are named" err "puts '<\\|begin\\|>' in front of a text and has '<\\|end\\|>' as BOS"
mv "$work/tiny/tokenizer_config.json.bak" "$work/tiny/tokenizer_config.json"
echo '{"eos_token_id": [267, 7, 8]}' > "$work/tiny/generation_config.json"
run convert "$work/tiny" "$work/three.gguf"; status "three ends of a text" 0
run inspect "$work/three.gguf"; says "all are said" out 'tokenizer.ggml.eom_token_id +8'
echo '{"eos_token_id": [267, 7, 8, 9]}' > "$work/tiny/generation_config.json"
run convert "$work/tiny" "$work/x.gguf"; status "four ends" 1; says "GGUF has three" err "'eos_token_id' has more tokens than the three"
rm "$work/tiny/generation_config.json"
# Numbers beyond F16 are refused where F16 was asked for, and keep their type where it was not.
python3 "$tests/scripts/make_folder.py" "$work/large" 40 1267650600228229401496703205376
run convert "$work/large" "$work/x.gguf" -t f16; status "too large for f16" 1
says "which number" err "tensor 'lm_head.weight': element 0 of row 0 is 1.26765e\\+30, which f16 cannot hold; take bf16"
run convert "$work/large" "$work/large.gguf" -t q8_0; status "rows of 40" 0; says "they stay bf16" out 'as f32 \(5\), bf16 \(14\), q8_0 \(2\)'
run convert "$work/large" "$work/wide.gguf" -t f32; run convert "$work/wide.gguf" "$work/mixed.gguf" -t q8_0
says "f32 becomes f16 but for that" out 'as f32 \(6\), f16 \(13\), q8_0 \(2\)'
run inspect "$work/mixed.gguf"; says "it is that" out ' output.weight +F32'
sed -i 's/{1,3}/{1,4}/' "$work/tiny/tokenizer.json"
run convert "$work/tiny" "$work/x.gguf"; status "an unknown pre-tokenizer" 1; says "it has no name" err 'in a way that has no name in GGUF'
rm "$work/tiny/tokenizer.json" "$work/tiny/tokenizer_config.json"
run convert "$work/tiny" "$work/mute.gguf"; status "no tokenizer" 0; says "that is said" out 'the folder has no tokenizer'
sed -i 's/"silu"/"gelu_pytorch_tanh"/' "$work/tiny/config.json"
run convert "$work/tiny" "$work/x.gguf"; status "what GGUF cannot say" 1; says "by name" err "cannot say that activation_function"
run convert "$tests/golden/encoders/bert" "$work/x.gguf"; status "a family without GGUF" 1; says "it is named" err "no models of type 'bert'"

# To folders of Hugging Face.
sed 's/qwen2/mamba/g' "$families/qwen2.gguf" > "$work/mamba.gguf"
run convert "$families/qwen2.gguf" "$work/folder"; status "to a folder" 0; says "matrices stay as they are" out 'as f32 \(27\)'
same_text "a folder: the same text" "$families/qwen2.gguf" "$work/folder"
run convert "$families/qwen2.gguf" "$work/half/" -t bf16 --json; status "... in another type" 0; json "--json of a folder is JSON"
if grep -q '"torch_dtype":.*"bfloat16"' "$work/half/config.json"; then ok "config.json says the type"; else bad "config.json says the type" "it does not"; fi
run convert "$work/half" "$work/half.gguf"; status "and back" 0
run convert "$work/q8.gguf" "$work/of-q8"; status "quantised" 0; says "it becomes f32" out 'as f32 \('
same_text "quantised: the same text" "$work/q8.gguf" "$work/of-q8"
run convert "$work/three.gguf" "$work/chatty"; status "with a chat template" 0
run chat "$work/chatty" --prompt hello --max-tokens 12; status "a chat with the folder" 0
if cmp -s "$work/out" "$work/tiny.said"; then ok "the template is there"; else bad "the template is there" "another answer"; fi
ends=$(tr -d ' \t\n' < "$work/chatty/generation_config.json")
case $ends in *'"eos_token_id":[7,8,267]'*) ok "all ends of a text" ;; *) bad "all ends of a text" "$ends" ;; esac
mkdir "$work/empty"
run convert "$work/large" "$work/empty" --type f32; status "a folder to an empty one" 0
if cmp -s "$work/large/tokenizer.json" "$work/empty/tokenizer.json"; then ok "its tokenizer goes along"; else bad "its tokenizer goes along" "it is another"; fi
same_text "the same text from both folders" "$work/large" "$work/empty"
run convert "$work/large" "$work/empty"; status "a folder that is not empty" 1; says "that is said" err 'is there already, and not empty'
run convert "$families/qwen2.gguf" "$work/x" -t q8_0; status "no such type in folders" 1; says "which there are" err 'f32, f16 or bf16'
run convert "$families/qwen2.gguf" "$work/x" -t f16 --output-type f32; status "... nor two" 1
run convert "$work/mamba.gguf" "$work/x"; status "a model that nobody knows" 1
run convert "$families/qwen2.gguf" "$work/no/such/place"; status "no folder above it" 1; says "where" err 'no/such/place cannot be made'
run convert "$tests/golden/encoders/bert" "$work/x"; status "a family that is not written" 1
run convert "$tests/../models/dates" "$work/x.gguf"; status "an encoder-decoder as GGUF" 1
run convert "$tests/../models/dates" "$work/dates"; status "... as a folder" 0
for model in "$tests/../models/dates" "$work/dates"; do
    run run "$model" --prompt "March 5, 1999"; status "run ${model##*/}" 0; says "the same answer" out '^1999-03-05$'
done
run convert "$tests/golden/seq2seq/t5" "$work/t5"; status "T5" 0
if cmp -s "$tests/golden/seq2seq/t5/config.json" "$work/t5/config.json"; then ok "its config.json, byte by byte"; else bad "its config.json" "it is another"; fi
run convert "$work/t5" "$work/t5-half" -t f16; status "... in f16" 0
sed 's/"dtype": "float32"/"dtype": "float16"/' "$work/t5/config.json" > "$work/config.f16"
if cmp -s "$work/config.f16" "$work/t5-half/config.json"; then ok "only the type is another"; else bad "only the type is another" "more is"; fi
sed -i '/"dtype"/d' "$work/t5/config.json"
run convert "$work/t5" "$work/t5-bf16" -t bf16; status "a type that was not said" 0
if grep -q '^  "torch_dtype": "bfloat16",$' "$work/t5-bf16/config.json"; then ok "is said"; else bad "is said" "it is not"; fi
run convert "$tests/golden/speech/whisper" "$work/whisper"; status "Whisper" 0
run transcribe "$tests/golden/speech/whisper" "$tests/golden/speech/sound.wav" --json; cp "$work/out" "$work/heard"
run transcribe "$work/whisper" "$tests/golden/speech/sound.wav" --json; status "... transcribes" 0; same "the same text" "$work/out" "$work/heard"
python3 "$tests/scripts/make_folder.py" "$work/floats"
python3 "$tests/scripts/whole_folder.py" "$work/floats" "$work/i8" "$work/f32"
for type in i8 f32; do
    run run "$work/$type" --prompt "abc def" --max-tokens 12 --json --logprobs 3; status "weights of $type" 0
    cp "$work/out" "$work/$type.text"
done
run inspect "$work/i8"; says "they are whole numbers" out 'q_proj.weight +I8'
same "the same logarithms of probabilities" "$work/i8.text" "$work/f32.text"
if [ -e "$work/x" ] || ls -d "$work"/*.portico-* > /dev/null 2>&1; then bad "no folder is left" "$(ls "$work")"; else ok "no folder is left"; fi

# Nothing half written.
run convert "$families/none.gguf" "$work/x.gguf"; status "no such model" 1
run convert "$families/qwen2.gguf" "$work/x.gguf" --type q9; status "no such type" 2; says "those that there are" err 'q4_k'
run convert "$families/qwen2.gguf" "$work/x.gguf" --type i32; status "no type of weights" 1
run convert "$work/mamba.gguf" "$work/same.gguf"; status "a model that nobody here knows, as it is" 0
run convert "$work/mamba.gguf" "$work/x.gguf" -t q8_0; status "... and in another type" 1; says "it is named" err "architecture 'mamba'"
run convert "$families/qwen2.gguf" "$work/x.gguf" --output-type f16; status "--output-type alone" 2
run convert "$families/qwen2.gguf" "$work/parts"; status "a folder is there" 1
run convert "$families/qwen2.gguf"; status "nothing to write" 2
run convert "$tests/golden/quants.gguf" "$work/parts/y/z.gguf"; status "no such folder" 1
if [ -e "$work/x.gguf" ] || ls "$work"/*.portico-* > /dev/null 2>&1; then bad "nothing is left" "$(ls "$work")"; else ok "nothing is left"; fi
cp "$work/q8.gguf" "$work/keep.gguf"; before=$(stat -c %i "$work/keep.gguf")
head -c 20000 "$families/qwen2.gguf" > "$work/cut.gguf"
run convert "$work/cut.gguf" "$work/keep.gguf"; status "a file that is cut off" 1
if cmp -s "$work/q8.gguf" "$work/keep.gguf" && [ "$before" = "$(stat -c %i "$work/keep.gguf")" ]; then ok "what was there stays"; else bad "what was there stays" "it changed"; fi
run convert "$work/q8.gguf" "$work/q8.gguf" -t q8_0; status "a file onto itself" 0
run run "$work/q8.gguf" --prompt abc --max-tokens 4; status "it is whole" 0
"$portico" convert "$families/qwen2.gguf" /dev/stdout 2> /dev/null | cat > "$work/piped.gguf"
if cmp -s "$work/piped.gguf" "$work/whole.gguf"; then ok "through a pipe: the same bytes"; else bad "through a pipe: the same bytes" "they differ"; fi
finish
