#!/usr/bin/env bash
# portico classify, and portico embed --image: test_images.sh PORTICO, in a build tree.
. "$(dirname "$0")/checks.sh"
portico=$1
images=$(dirname "$(realpath "$0")")/../golden/images
vit=$images/vit clip=$images/clip one=$images/files/rgb.ppm other=$images/files/text.ppm
export PORTICO_BACKEND=cpu:native

one_line() { if [ "$(wc -l < "$work/err")" = 1 ]; then ok "$1: one line"; else bad "$1: one line" "$(cat "$work/err")"; fi; }
refused() { # STATUS MESSAGE ARGUMENTS...
    local want=$1 message=$2 name="${*:3}"
    name=${name//"$images/"/}
    run "${@:3}"; status "$name" "$want"; silent "$name: nothing on stdout" out; says "$name: why" err "$message"; one_line "$name"
}
python() { if python3 -c "import json, sys; x = json.load(open(sys.argv[1])); $2" "$work/out"; then ok "$1"; else bad "$1" "$(cat "$work/out")"; fi; }

# Labels: the likeliest first, of each image.
run classify "$vit" "$one"; status "classify" 0
says "the likeliest" out '^0\.5[0-9]+  a cat$'; says "a label with quotes" out '^0\.[0-9]+  a "quoted" bird$'
if [ "$(wc -l < "$work/out")" = 3 ]; then ok "all three"; else bad "all three" "$(cat "$work/out")"; fi
if sort -rc "$work/out" 2> /dev/null; then ok "in order"; else bad "in order" "$(cat "$work/out")"; fi
run classify "$vit" "$one" "$other" --top 1; status "classify: two images" 0; says "each under its name" out 'text.ppm:$'
run classify "$vit" "$one" "$other" --json; status "classify --json" 0
python "an object for each image" 'assert [i["image"][-4:] for i in x] == [".ppm"] * 2 and all(abs(sum(l["score"] for l in i["labels"]) - 1) < 1e-6 for i in x)'
run classify "$clip" "$one" --labels " a dog,, a leaf " --json; status "classify --labels" 0
python "the labels that were given" 'assert sorted(l["label"] for l in x[0]["labels"]) == ["a dog", "a leaf"]'
cp "$work/out" "$work/chosen"
printf 'a dog\r\n\na leaf\n' > "$work/lines"
run classify "$clip" "$one" --labels-file "$work/lines" --json; status "classify --labels-file" 0
same "the same from lines" "$work/out" "$work/chosen"

# Vectors.
run embed "$clip" --image "$one" --image "$other" --normalize --json; status "embed --image" 0
python "two of length 1" 'assert x["width"] == 20 and all(abs(sum(v * v for v in e) - 1) < 1e-6 for e in x["embeddings"]) and len(x["embeddings"]) == 2'
run embed "$clip" --prompt "a dog" --json; status "embed: a text" 0; python "as long as an image's" 'assert x["width"] == 20'
run embed "$images/vit_pooled" --image "$one" --pooling mean --json; status "embed --pooling" 0; python "as wide as the model" 'assert x["width"] == 24'
run embed "$vit" --image "$one" --output "$work/v.npy"; status "embed --output" 0
if [ "$(head -c 6 "$work/v.npy" | tail -c 5)" = NUMPY ]; then ok "a .npy file"; else bad "a .npy file" "$(head -c 80 "$work/v.npy")"; fi

# What cannot be done.
printf 'GIF89a....' > "$work/a.gif"; head -c 100 "$one" > "$work/cut.ppm"
refused 1 'none.png: cannot open' classify "$vit" "$work/none.png"
refused 1 'is no image that Portico knows' classify "$vit" "$vit/config.json"
refused 1 'is a GIF file; Portico reads' classify "$vit" "$work/a.gif"
refused 1 'ends before its samples do' classify "$vit" "$one" "$work/cut.ppm"
refused 1 'has no classifier$' classify "$images/vit_pooled" "$one"
refused 1 'no classifier; it needs labels' classify "$clip" "$one"
refused 1 'reads no texts' classify "$vit" "$one" --labels "a,b"
refused 1 "reads no images \\('bert'\\)" classify "$images/../encoders/bert" "$one"
refused 1 "reads no images \\('bert'\\)" embed "$images/../encoders/bert" --image "$one"
refused 1 "reads images \\('vit'\\), and no text" embed "$vit" --prompt "a dog"
refused 1 'is no image that Portico knows' embed "$clip" --image "$vit/config.json"
refused 1 'writes no text' run "$clip" --prompt "a dog"
refused 2 'there are no labels' classify "$clip" "$one" --labels " , "
refused 2 'exclude each other' classify "$clip" "$one" --labels a --labels-file b
refused 2 'an image is missing' classify "$clip" --labels a
refused 2 'is for texts' embed "$clip" --image "$one" --context 5
refused 2 'excludes --prompt and --input' embed "$clip" --image "$one" --prompt a
refused 1 'portico classify and portico embed --image run it' run "$vit" --prompt "a dog"

# What inspect says of encoders: who runs them, and what they take.
for model in "$vit" "$images/vit_pooled" "$clip" "$images/../encoders/bert"; do
    name=${model##*/}
    run inspect "$model"; status "inspect $name" 0; says "inspect $name: its memory" out '^  fits on cpu:0'
    case $name in
        vit) says "inspect $name: who runs it" out '; portico classify and portico embed --image run it$' ;;
        vit_pooled) says "inspect $name: who runs it" out '; portico embed --image runs it$' ;;
        clip) says "inspect $name: who runs it" out '; portico embed and portico classify run it$' ;;
        *) says "inspect $name: who runs it" out '; portico embed runs it$' ;;
    esac
    run inspect "$model" --memory; status "inspect --memory $name" 0; says "inspect --memory $name: its programs" out '^  encoder, '
done

# A path may be as long as the system lets it be; one that is too long is refused, with the reason.
long=$work/$(printf "%0250d/" {1..15})
mkdir -p "$long"; cp -r "$vit" "$clip" "$images/../../../models/dates" "$images/../speech/whisper" "$images/../ct2/table" "$long"
run classify "$long/vit" "$one" --top 1; status "classify: a long path" 0; says "its labels" out '  a cat$'
run embed "$long/clip" --image "$one"; status "embed: a long path" 0
cp -r "$long/dates" "$work/short"
printf '[{"type": "a.Transformer", "path": ""}, {"type": "a.Pooling", "path": "1_Pooling"}]' | tee "$work/short/modules.json" > "$long/dates/modules.json"
mkdir "$work/short/1_Pooling" "$long/dates/1_Pooling"
printf '{"pooling_mode_cls_token": true}' | tee "$work/short/1_Pooling/config.json" > "$long/dates/1_Pooling/config.json"
run embed "$work/short" --prompt "3 May"; cp "$work/out" "$work/vector"
run embed "$long/dates" --prompt "3 May"; status "embed: modules of a long path" 0; same "its modules.json counts" "$work/out" "$work/vector"
run embed "$long/dates" --prompt "3 May" --pooling mean
if cmp -s "$work/out" "$work/vector"; then bad "modules.json" "it changes nothing"; else ok "which is not the usual pooling"; fi
run transcribe "$long/whisper" "$images/../speech/sound.wav"; status "transcribe: a long path" 0
run translate "$long/table" --text "a b"; status "translate: a long path" 0
for name in vit whisper table; do run inspect "$long/$name"; status "inspect $name: a long path" 0; says "inspect $name: it fits" out '^  fits on cpu:0'; done
longer=$long$(printf "%0250d" 0)
longer=${longer:0:4090}; mkdir -p "$longer"
refused 1 'too long|has no config.json' classify "$longer" "$one"
cp -r "$vit" "$work/bare"; rm "$work/bare/preprocessor_config.json"
refused 1 'has no preprocessor_config.json' classify "$work/bare" "$one"
cp -r "$vit" "$work/strange"; printf '[1]' > "$work/strange/preprocessor_config.json"
refused 1 'preprocessor_config.json: not an object' classify "$work/strange" "$one"
printf '{"resample": 2.5}' > "$work/strange/preprocessor_config.json"
refused 1 "'resample'" classify "$work/strange" "$one"
printf '{"image_processor_type": "DonutImageProcessor"}' > "$work/strange/preprocessor_config.json"
refused 1 "'DonutImageProcessor' is an image processor that Portico does not have" classify "$work/strange" "$one"
finish
