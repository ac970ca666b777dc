#!/bin/bash
# `portico chat` from outside: from a pipe, with files of talks, at a terminal.
#
#   test_chat.sh PORTICO SOURCE
#
# PORTICO: the program. SOURCE: the source folder. Prints one line per check; exits 1 if one failed.
set -u
[ $# -ge 2 ] || { echo "usage: $0 PORTICO SOURCE"; exit 2; }
portico=$(realpath "$1")
source=$(realpath "$2")
model=$source/tests/golden/families/qwen2.gguf
. "$source/tests/cli/checks.sh"
cd "$work" || exit 1
export PORTICO_BACKEND=cpu:native

cat > chat.jinja <<'TEXT'
{% for m in messages %}
<{{ m.role }}>{{ m.content }}<|endoftext|>
{% endfor %}
{% if add_generation_prompt %}<assistant>{% endif %}
TEXT
# What comes from a pipe; `run` has nothing there.
piped() {
    timeout 300 "$portico" "$@" > out 2> err < lines
    status=$?
}
chat() { piped chat "$model" --template chat.jinja "$@"; }

# ---- from a pipe ----
printf 'one two\nthree\n' > lines
chat --context 400 -n 8; status "two lines" 0; cp out both
if [ "$(wc -l < out)" -ge 2 ]; then ok "each has an answer"; else bad "each has an answer" "$(cat out)"; fi
printf 'one two\n/save talk.json\n' > lines
chat --context 400 -n 8; status "/save" 0; says "/save is said" err '2 messages in talk.json'
if python3 -c '
import json
talk = json.load(open("talk.json"))
assert [m["role"] for m in talk] == ["user", "assistant"] and talk[0]["content"] == "one two", talk'; then
    ok "a talk is JSON"
else
    bad "a talk is JSON" "$(cat talk.json)"
fi
cp out first; printf 'three\n' > lines
chat --context 400 -n 8 --load talk.json; status "--load" 0
cat first out > again
if cmp -s again both; then ok "a talk goes on where it was"; else bad "a talk goes on" "$(diff again both)"; fi
printf '/load talk.json\nthree\n' > lines
chat --context 400 -n 8; status "/load" 0; says "/load is said" err '2 messages from talk.json'
if tail -n +1 out | cmp -s - <(tail -c +$(($(wc -c < first) + 1)) both); then ok "as --load"; else bad "as --load" "differs"; fi
printf '/load nothing.json\n/nonsense\n/save\n/help\n\n' > lines
chat; status "what fails in a pipe" 1; says "no such file" err 'nothing.json'
says "no such command" err 'there is no command /nonsense; /help'; says "no file" err '/save needs a file'
says "/help" err '^/clear'; silent "and nothing on stdout" out
echo '[{"role": "robot", "content": "x"}]' > bad.json
chat --load bad.json; status "a file that is no talk" 1; says "its role is named" err "role"
printf 'a \\\nb\n//x\n/system be brief\n/save t.json\n/clear\n/save u.json\n/quit\nnever\n' > lines
chat -n 2 --context 300; status "commands" 0
if python3 -c '
import json
t, u = json.load(open("t.json")), json.load(open("u.json"))
assert [m["content"] for m in t if m["role"] != "assistant"] == ["be brief", "a \nb", "/x"], t
assert [m["role"] for m in u] == ["system"], u'; then ok "they do what they say"; else bad "commands" "$(cat t.json u.json)"; fi

# ---- what does not fit ----
for i in 1 2 3 4 5 6 7 8; do echo "message number $i"; done > lines
chat --context 96 -n 8 --system s; status "a long talk" 0
says "its oldest turns are left out" err 'the context of 96 tokens is full: the [24] oldest messages were left out'
printf '%s\nhi\n' "$(printf 'word %.0s' {1..200})" > lines
chat --context 96 -n 4; status "a message that is too long" 1; says "both numbers" err 'have [0-9]+ tokens, and the context of 96'
if [ -s out ]; then ok "the next one is answered"; else bad "the next one" "no answer"; fi
echo hi > lines
piped chat "$model"; status "no template" 1; says "it is said" err 'has no chat template'
piped chat "$source/models/dates"; status "an encoder-decoder" 1; says "it is said" err 'encoder-decoder'
echo '{% if %}' > wrong.jinja
piped chat "$model" --template wrong.jinja; status "no Jinja" 1; says "its line" err 'line 1: expected an expression'
echo '{{ raise_exception("no " ~ messages[0].role) }}' > wrong.jinja
run chat "$model" --template wrong.jinja -p x; status "a template that refuses" 1; says "its words" err 'refuses these messages: no user'
run chat "$model" --template chat.jinja -p hi -n 4 --stats; status "--prompt" 0; says "--stats" err '^\([0-9]+ tokens read'
if [ "$(wc -l < err)" -le 2 ]; then ok "no more than that"; else bad "--prompt" "$(cat err)"; fi

# ---- at a terminal ----
if have_terminals; then
    cat > terminal.py <<'TEXT'
import os, pty, select, signal, sys, time

portico, model, device = sys.argv[1:4]
os.environ.update(PORTICO_BACKEND=device, TERM="xterm", COLUMNS="200", LC_ALL="C.UTF-8")
pid, fd = pty.fork()
if pid == 0:
    os.execv(portico, [portico, "chat", model, "--template", "chat.jinja", "--context", "60000"])
seen = b""

def wait(done, what, limit=60):
    """Reads until done(whether nothing comes any more)."""
    global seen
    end = time.time() + limit
    while True:
        quiet = not select.select([fd], [], [], 1)[0]
        if not quiet:
            try:
                seen += os.read(fd, 65536)
            except OSError:
                sys.exit(f"ended before {what}: {seen[-500:]!r}")
        if done(quiet):
            return
        if time.time() > end:
            sys.exit(f"no {what}: {seen[-500:]!r}")

def prompt():
    """A random model may write anything, a prompt too; but then it goes on."""
    wait(lambda quiet: quiet and seen.endswith(b"> "), "prompt")

def say(keys):
    """A message; Ctrl-C when its answer, which is long, has begun."""
    at = len(seen)
    os.write(fd, keys)
    wait(lambda quiet: len(seen) > at + 60, "answer")
    os.write(fd, b"\x03")
    prompt()

prompt()
os.write(fd, b"\x03")  # at the prompt: a new one
prompt()
say("hell\u00f6\n".encode())
os.write(fd, b"/save talk2.json\n")
prompt()
say(b"\x1b[A\x1b[A\n" if len(sys.argv) > 4 else "hell\u00f6\n".encode())  # two up: the message again
os.write(fd, b"/save talk3.json\n")
prompt()
os.write(fd, b"\x04")  # Ctrl-D
end = time.time() + 60
while time.time() < end:
    try:
        if not os.read(fd, 65536):
            break
    except OSError:
        break
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
TEXT
    edited=()
    if grep -q libedit <(ldd "$portico"); then edited=(edited); fi
    if python3 terminal.py "$portico" "$model" cpu:native "${edited[@]}" > out 2> err; then
        ok "Ctrl-C ends an answer and not the program; Ctrl-D does"
    else
        bad "a terminal" "$(cat err)"
    fi
    if python3 -c '
import json
talk = json.load(open("talk3.json"))
assert [m["content"] for m in talk[::2]] == ["hellö", "hellö"] and talk[1]["content"], talk[::2]'; then
        ok "what was typed"
    else
        bad "what was typed" "$(head -c 300 talk3.json)"
    fi
else
    skip "at a terminal: this machine has none"
fi
finish
