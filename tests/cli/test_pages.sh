#!/usr/bin/env bash
# Manual pages and completions: test_pages.sh PORTICO PAGES, the folder in which the build made them.
. "$(dirname "$0")/checks.sh"
portico=$1 pages=$2
PATH=$(dirname "$(realpath "$portico")"):$PATH

run --help
commands=$(sed -n '/^commands:/,/^$/s/^  \([a-z]*\) .*/\1/p' "$work/out")
for command in "" $commands; do
    page=$pages/portico${command:+-$command}.1
    if [ ! -s "$page" ]; then bad "a page of ${command:-portico}" "$page is not there"; continue; fi
    if command -v mandoc > /dev/null; then
        why=$(mandoc -T lint -W warning "$page" | grep -v 'missing date')
    elif command -v groff > /dev/null; then
        why=$(groff -man -ww -z -Tutf8 "$page" 2>&1)
    else
        why=$(grep -q '^\.SH NAME' "$page" || echo "no section NAME")
    fi
    [ -z "$why" ] && ok "the page of ${command:-portico}" || bad "the page of ${command:-portico}" "$why"
done
# What an option's help says is there, and all options are.
for command in $commands; do
    run "$command" --help
    options=$(sed -n 's/^  \(--[a-z-]*\).*/\1/p' "$work/out")
    for option in $options; do
        grep -q "^\.B .*${option//-/\\\\-}" "$pages/portico-$command.1" || bad "$command: $option has a place in its page" "it has none"
    done
done
ok "options have a place in their pages"

for shell in bash zsh fish; do run completion $shell; status "completion $shell" 0; cp "$work/out" "$work/completion.$shell"; done
run completion tcsh; status "completion of another shell" 2; says "it says which there are" err 'bash, zsh and fish'

# complete LINE: the words that bash is offered behind LINE, a line each.
complete_bash() {
    bash -c '
        compopt() { :; }
        source "$1"
        COMP_LINE=$2 COMP_POINT=${#2} COMP_WORDBREAKS=$(printf " \t\n\"'"'"'><=;|&(:")
        read -ra COMP_WORDS <<<"${2//:/ : }"
        [[ $2 == *" " ]] && COMP_WORDS+=("")
        COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
        _portico
        printf "%s\n" "${COMPREPLY[@]}"' bash "$work/completion.bash" "$1" | sort > "$work/out"
}
offers() { # NAME LINE WORD...: exactly these
    complete_bash "$2"
    printf '%s\n' "${@:3}" | sort > "$work/wanted"
    if cmp -s "$work/out" "$work/wanted"; then ok "$1"; else bad "$1" "'$2': $(tr '\n' ' ' < "$work/out")"; fi
}
offers "bash: a command" "portico insp" inspect
offers "bash: an option" "portico run --temp" --temperature
offers "bash: hidden options are not offered" "portico conformance --work" ""
offers "bash: a word of an option" "portico conformance --judge n" nmse
offers "bash: behind =" "portico conformance --judge=f" field
offers "bash: an operation" "portico ops logsum" logsumexp
offers "bash: the last of a list" "portico conformance --ops matmul,logsum" matmul,logsumexp
offers "bash: a command to help with" "portico help tok" tokenizer
complete_bash "portico run --device cp"
says "bash: devices are asked for" out '^cpu:0$'
complete_bash "portico compare --devices vulkan,cpu:"
says "bash: a colon is no end of a word" out '^0$'
cd "$work" && touch model.gguf
offers "bash: files" "portico inspect mod" model.gguf

if command -v zsh > /dev/null; then
    zsh -n "$work/completion.zsh" 2> "$work/err" && ok "zsh reads its file" || bad "zsh reads its file" "$(cat "$work/err")"
else skip "zsh is not here"; fi
if command -v fish > /dev/null; then
    fish -c "source $work/completion.fish; complete -C 'portico conformance --judge n'" > "$work/out" 2> "$work/err"
    says "fish: a word of an option" out '^nmse'
    fish -c "source $work/completion.fish; complete -C 'portico run --temp'" > "$work/out" 2> "$work/err"
    says "fish: an option, and what it is" out '^--temperature.*likeliest token'
else skip "fish is not here"; fi

finish
