#!/usr/bin/env bash
# What `meson install` makes: test_install.sh BUILD HOSTILE-PLUGIN HARDENED. The install lies in a folder of its own, with
# a stranger's plugins where a build tree would have Portico's. HARDENED: false where the build has other checks or none.
set -u
portico=unused
. "$(dirname "$0")/checks.sh"
build=$1 hostile=$2 hardened=$3

umask 022
DESTDIR=$work/dest meson install -C "$build" --no-rebuild --quiet > "$work/out" 2> "$work/err" || bad install "meson install failed"
portico=$(find "$work/dest" -path '*/bin/portico')
prefix=$(dirname "$(dirname "$portico")")

# plugins JSON: the files of plugins that are used, and their devices.
plugins() {
    python3 -c '
import json, sys
listed = json.load(open(sys.argv[1]))
print(*(p["path"] for p in listed["plugins"] if not p["reason"]), *(d["id"] for d in listed["devices"]))' "$work/out"
}

# Of the build and of the install.
hardened() {
    if python3 "$(dirname "$0")/check_elf.py" "${@:2}" > "$work/why"; then ok "$1"; else bad "$1" "$(cat "$work/why")"; fi
}
if [ "$hardened" = true ]; then
    hardened "the build is hardened" "$build/portico" "$build/portico-probe" "$build/libportico.so" "$build"/backends/*.so
    mapfile -t files < <(find "$prefix" -name portico-probe -o -name '*.so' -o -path '*bin/portico')
    hardened "the install is hardened" "${files[@]}"
else
    skip "hardening: not in a build with sanitizers, or without optimisation"
fi

# Documents point to nothing that is not there: but to reports, and to what is of the source alone.
dead=$(python3 - "$prefix/share/doc/portico" << 'TEXT'
import pathlib, re, sys
root = pathlib.Path(sys.argv[1])
elsewhere = re.compile(r"(tests|python|scripts|configs|core|conformance|backends|models|docs/devices/.*|docs/gpus/.*)(/|$)")
found = 0
for page in sorted(root.rglob("*.md")):
    for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        found += 1
        target = (page.parent / link).resolve().relative_to(root.resolve())
        if not (root / target).exists() and not elsewhere.match(str(target)):
            print(f"{page.relative_to(root)}: {link}")
if found < 50 or not (root / "LICENSE").is_file():
    print(f"{found} links, and no licence")
TEXT
)
if [ -z "$dead" ]; then ok "documents are installed"; else bad "documents are installed" "$dead"; fi

for folder in "$prefix/bin/backends" "$prefix/backends"; do
    mkdir -p "$folder"
    cp "$hostile" "$folder/hostile.so"
done
printf '#!/bin/sh\necho ok 0\n' > "$prefix/bin/portico-probe"
cp "$prefix/bin/portico-probe" "$prefix/portico-probe"
chmod +x "$prefix/bin/portico-probe" "$prefix/portico-probe"
run devices --json
status "an install works where it was moved to" 0
found=$(plugins)
case $found in *hostile*) bad "plugins beside an install are not its own" "$found" ;; *) ok "plugins beside an install are not its own" ;; esac
case $found in *"$prefix"*/portico/cpu.so*) ok "its own are found" ;; *) bad "its own are found" "$found" ;; esac
case $found in *null*) bad "the skeleton is not installed" "$found" ;; *) ok "the skeleton is not installed" ;; esac

# A probe that is not its own would call the broken plugin good.
printf 'broken' > "$(dirname "$(find "$prefix" -name cpu.so)")/broken.so"
run devices
says "the probe beside an install is not its own" out 'file too short'

# A program with more rights than its caller does not look for plugins where its caller's argv[0] points to.
# Is there such a thing here? Not without root, and not in a folder that is mounted nosuid, as /tmp often is.
chmod 755 "$work"
cp "$(command -v id)" "$work/id" && chmod u+s "$work/id"
if [ "$(setpriv --reuid 65534 --clear-groups "$work/id" -u 2> /dev/null)" = "$(id -u)" ]; then
    elsewhere=$work/elsewhere
    cp -r "$prefix" "$elsewhere"
    mv "$(find "$elsewhere" -name cpu.so)" "$(dirname "$(find "$elsewhere" -name cpu.so)")/planted.so"
    chown -R 65534 "$elsewhere"
    chmod u+s "$portico"
    setpriv --reuid 65534 --clear-groups bash -c 'exec -a "$0" "$1" devices --json' "$elsewhere/bin/portico" "$portico" \
        > "$work/out" 2> "$work/err"
    case $(plugins) in
    *planted*) bad "a set-user-ID program takes its own plugins" "$(plugins)" ;;
    *cpu.so*) ok "a set-user-ID program takes its own plugins" ;;
    *) bad "a set-user-ID program takes its own plugins" "$(cat "$work/err")" ;;
    esac
    # Nor does it take anything from the caller's environment, which counts for the same program without the bit.
    plain=$prefix/bin/plain home=$work/home
    cp "$portico" "$plain" && chmod u-s "$plain" && mkdir "$home" && chown 65534 "$home"
    # called PROGRAM VARIABLE=VALUE...: `devices`, called by the other user, who says that. Leaks are not looked for:
    # that takes ptrace, which a set-user-ID program does not allow.
    called() {
        setpriv --reuid 65534 --clear-groups env -u PORTICO_CACHE_DIR -u XDG_CACHE_HOME HOME="$home/none" \
            ASAN_OPTIONS="${ASAN_OPTIONS:-}:detect_leaks=0" "${@:2}" "$1" devices > "$work/out" 2> "$work/err" < /dev/null
        status=$?
    }
    for setting in PORTICO_LOG=loud PORTICO_FALLBACK=never PORTICO_SELF_TEST=maybe PORTICO_THREADS=many \
        PORTICO_BACKEND="$(printf '%02000d' 0)"; do
        name=${setting%%=*}
        called "$plain" "$setting"; status "otherwise $name counts" 2; says "and is named" err "$name is "
        called "$portico" "$setting"; status "for a set-user-ID program $name does not count" 0
    done
    # What Portico keeps is in a folder of its name; drivers have caches of their own.
    for setting in PORTICO_CACHE_DIR="$home/portico" XDG_CACHE_HOME="$home/xdg" HOME="$home"; do
        name=${setting%%=*}
        called "$portico" "$setting"; kept=$(find "$home" -name portico); find "$home" -mindepth 1 -delete
        if [ "$kept" = "" ]; then ok "for a set-user-ID program $name does not count"; else bad "for a set-user-ID program $name does not count" "it wrote $kept"; fi
        called "$plain" "$setting"; kept=$(find "$home" -name portico); find "$home" -mindepth 1 -delete
        if [ "$kept" != "" ]; then ok "otherwise $name counts"; else bad "otherwise $name counts" "nothing is kept there"; fi
    done
    called "$portico" PORTICO_PLUGIN_PATH="$elsewhere/nowhere"
    if grep -q nowhere "$work/err"; then bad "for a set-user-ID program PORTICO_PLUGIN_PATH does not count" "it is searched"; else ok "for a set-user-ID program PORTICO_PLUGIN_PATH does not count"; fi
    called "$plain" PORTICO_PLUGIN_PATH="$elsewhere/nowhere"; says "otherwise PORTICO_PLUGIN_PATH counts" err nowhere
    chmod u-s "$portico"
else
    skip "a set-user-ID program: there are none here"
fi

# The build tree, which the program knows by its name, has its plugins in folders of that name.
portico=$build/portico
run devices --json
case $(plugins) in *"$build"/backends/cpu.so*) ok "a build tree has its own" ;; *) bad "a build tree has its own" "$(plugins)" ;; esac

finish
