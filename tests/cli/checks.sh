# shellcheck shell=bash disable=SC2154
# Read by the tests of the program, once `portico` is set: a folder $work that is removed at the end, the program run
# with what it prints kept, and checks that count.

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
unset PORTICO_BACKEND PORTICO_PLUGIN_PATH PORTICO_LOG PORTICO_FALLBACK PORTICO_SELF_TEST PORTICO_THREADS
export PORTICO_CACHE_DIR=$work/cache LC_ALL=C
passed=0
failed=0
skipped=0

ok() { passed=$((passed + 1)); echo "ok    $1"; }
bad() {
    failed=$((failed + 1))
    echo "FAIL  $1: $2"
    head -c 600 "$work/err" | sed 's/^/      /'
}
skip() { skipped=$((skipped + 1)); echo "skip  $1"; }

# run ARGUMENT...: the program, with $work/out, $work/err and $status.
run() {
    timeout 300 "$portico" "$@" > "$work/out" 2> "$work/err" < /dev/null
    status=$?
}

# status NAME WANTED: the last run's exit status. A run that fails says why in at least one line: on stderr, or, when
# the verdict is what was asked for (1), in its output.
status() {
    if [ "$status" != "$2" ]; then
        bad "$1" "exit status $status, and $2 was expected"
    elif [ "$2" != 0 ] && ! grep -q . "$work/err" && { [ "$2" != 1 ] || ! grep -q . "$work/out"; }; then
        bad "$1" "it fails without a word"
    else
        ok "$1"
    fi
}

# says NAME FILE PATTERN: out or err holds a line like that.
# A reason may be wrapped, wherever the path of $work puts the break.
says() {
    if grep -Eq -- "$3" "$work/$2" || tr -s '[:space:]' ' ' < "$work/$2" | grep -Eq -- "$3"; then ok "$1"; else bad "$1" "no '$3' in std$2"; fi
}
silent() { if [ -s "$work/$2" ]; then bad "$1" "std$2 is not empty"; else ok "$1"; fi; }
# same NAME FILE FILE
same() { if cmp -s "$2" "$3"; then ok "$1"; else bad "$1" "$2 and $3 differ"; fi; }
json() {
    if python3 -c 'import json, sys; json.load(open(sys.argv[1]))' "$work/out" 2> /dev/null; then
        ok "$1"
    else
        bad "$1" "stdout is not JSON"
    fi
}

# Can there be terminals? A bare chroot has none.
have_terminals() { python3 -c 'import pty; pty.openpty()' 2> /dev/null; }

# The last line, and the test's exit status.
finish() {
    echo "$passed passed, $failed failed, $skipped skipped"
    [ $failed = 0 ]
}

# Before a command that is to be signalled: what the caller ignores (nohup: SIGHUP) is not ignored.
heeding=(env --default-signal=HUP,INT,TERM)
# ended PID: its exit status; what does not end within a minute is killed
ended() {
    for _ in $(seq 600); do kill -0 "$1" 2> /dev/null || break; sleep 0.1; done
    kill -9 "$1" 2> /dev/null
    wait "$1"
}
