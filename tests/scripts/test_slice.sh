#!/bin/bash
# Which slice of a tier does scripts/test take? Each commit the next; any, but always the same, in a shallow clone; one
# without git, too. And is SwiftShader, one of the drivers that take them, fetched by every run?
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
