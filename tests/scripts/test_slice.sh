#!/bin/bash
# Which slice of a tier does scripts/test take? Each commit the next; any, but always the same, in a shallow clone; one
# without git, too.
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
exit $failed
