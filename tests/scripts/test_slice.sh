#!/bin/bash
# Which slice of a tier does scripts/test take? Each commit the next; any, but always the same, in a shallow clone; one
# without git, too. Does scripts/test say which, and does --all take all of them? And is SwiftShader, one of the drivers
# that take slices, fetched by every run?
#
#   test_slice.sh SOURCE
set -u
command -v git > /dev/null || exit 77
build=$(mktemp -d)
trap 'rm -rf "$build"' EXIT
. "$1/scripts/common.sh"
export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_SYSTEM=/dev/null
failed=0
check() { if [ "$2" = "$3" ]; then echo "ok    $1"; else echo "FAIL  $1: $2, expected $3"; failed=1; fi; }

root=$build/tree
git -c init.defaultBranch=main init -q "$root"
taken=""
for number in 1 2 3 4 5; do
  git -C "$root" -c user.name=x -c user.email=x@example.org commit -q --allow-empty -m "$number"
  taken="$taken $(slice_of 4)"
done
check "each commit takes the next slice" "$taken" " 2/4 3/4 4/4 1/4 2/4"

git clone -q --depth 1 "file://$root" "$build/shallow"
commit=$(git -C "$root" rev-parse HEAD)
root=$build/shallow
check "a shallow clone: the hash chooses" "$(slice_of 4)" "$((16#${commit:0:8} % 4 + 1))/4"

root=$build/plain
mkdir "$root"
check "without git: the day" "$(slice_of 4)" "$(($(date +%s) / 86400 % 4 + 1))/4"
mkdir "$build/tree/inside"
root=$build/tree/inside
check "a copy in somebody else's tree: the day" "$(slice_of 4)" "$(($(date +%s) / 86400 % 4 + 1))/4"

# scripts/test in the tree of five commits, where steps are only noted, as "GROUP: NAME COMMAND ...".
root=$build/tree
mkdir "$root/scripts"
ln -s "$1"/scripts/{test,checks.sh,roots.sh} "$root/scripts"
touch "$root/meson.options" "$root/scripts/results.py"
printf '#!/bin/sh\n' | tee "$root/scripts/setup-debian" > "$root/scripts/fetch-models"
chmod +x "$root/scripts/"{setup-debian,fetch-models}
cat > "$root/scripts/common.sh" << TEXT
. "$1/scripts/common.sh"
root=$root
step() { echo "\$1: \${*:2}" >> "$build/steps"; failed=0; }
skip() { step "\$1" skipped; }
have_device() { true; }
tests_listed() { seq 40; }
find_python() { :; }
prepare_drivers() { :; }
fetch_swiftshader() { :; }
TEXT
# steps_of DEVICE: the commands that judge it
steps_of() { sed -n "s/^$1: conformance.* on_device $1 //p" "$build/steps" | tr '\n' ';'; }
said=$("$root/scripts/test" --build "$root/build" 2>&1)
# numbered GROUP: NAME: the tests that a step names, of the forty that are listed
numbered() { sed -n "s/^$1 .* tests //p" "$build/steps" | grep -oE '( [0-9]+)+$'; }
check "scripts/test says its slice" "$(grep -c 'slice 2/4 of the tiny tier and 6/16 of quick' <<< "$said")" 1
check "and how to run its quarter again" "$(grep -c 'conformance .*--tier tiny --slice 2/4$' <<< "$said")" 1
check "and how to run it again" "$(grep -c 'conformance .*--tier quick --slice 6/16$' <<< "$said")" 1
check "a slow device takes it" "$(steps_of opencl:pocl)" "conformance tiny --slice 2/4;conformance quick --slice 6/16;"
check "so does SwiftShader" "$(steps_of vulkan:swiftshader)" "conformance tiny --slice 2/4;conformance quick --slice 6/16;"
check "a fast one takes the whole tier" "$(steps_of cpu:native)" "conformance quick;"
check "lavapipe takes every third test" "$(numbered 'vulkan:lavapipe: tests, one of 3')" "$(seq -s ' ' 3 3 40 | sed 's/^/ /')"
check "the longest tests without a device take turns" "$(numbered 'all: tests without a device')" \
  "$({ seq 40; seq 2 2 40; } | tr '\n' ' ' | sed 's/^/ /; s/ $//')"
rm "$build/steps"
said=$("$root/scripts/test" --all --build "$root/build" 2>&1)
check "--all: no slice is said" "$(grep -c slice <<< "$said")" 0
for device in opencl:pocl vulkan:swiftshader cpu:native; do
  check "--all: $device takes the whole tier" "$(steps_of $device)" "conformance quick;"
done
check "--all: no step takes a slice" "$(grep -c slice "$build/steps")" 0
check "--all: lavapipe takes all tests" "$(numbered 'vulkan:lavapipe: tests')" ""
check "--all: and so do those without a device" "$(numbered 'all: tests without a device')" ""

mkdir "$build/bin"
cat > "$build/bin/apt-get" << 'TEXT'
#!/bin/bash
case ${!#} in "$PACKAGE") touch "$PACKAGE"_1_amd64.deb ;; *) exit 100 ;; esac
TEXT
cat > "$build/bin/dpkg-deb" << 'TEXT'
#!/bin/bash
mkdir -p "$3/usr/lib/chromium" && touch "$3/usr/lib/chromium/"{vk_swiftshader_icd.json,libvk_swiftshader.so}
TEXT
chmod +x "$build/bin/"*
root=$1
swiftshader_manifest() { echo "$swiftshader/vk_swiftshader_icd.json"; } # none that is installed
for package in chromium-common chromium; do
  swiftshader=$build/$package
  said=$(PATH=$build/bin:$PATH PACKAGE=$package fetch_swiftshader 2>&1)
  check "SwiftShader from $package" "$(ls "$swiftshader" | tr '\n' ' ')$said" "libvk_swiftshader.so vk_swiftshader_icd.json "
done
swiftshader=$build/neither
said=$(PATH=$build/bin:$PATH PACKAGE=none fetch_swiftshader 2>&1)
check "none can be had: one line" "${said%%:*}" "SwiftShader is not tested"
check "scripts/test fetches it without --all, too" "$(grep -c '^fetch_swiftshader' "$1/scripts/test")" 1
exit $failed
