#!/usr/bin/env bash
# The interface against the recorded one: check_abi.sh [--record] FOLDER-OF-HEADERS HEADER...
# Exit status 77: libabigail's tools are not here. `scripts/abi` calls it with what a build has.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
recorded=$here/libportico.abi
record=0
[ "$1" = --record ] && record=1 && shift
root=$1 && shift
if ! command -v abidw >/dev/null || ! command -v abidiff >/dev/null; then
  echo "abi: abidw and abidiff are not installed (package abigail-tools)"
  exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# describe NAME FOLDER...: $work/NAME.abi of the headers that lie in these folders.
describe() {
  local name=$1 include=() folder
  shift
  for folder in "$@"; do include+=("-I$folder"); done
  python3 "$here/surface.py" "${headers[@]}" "$work/$name.c" "$work/$name.suppr"
  cc -std=gnu11 -g -O0 -fPIC -shared -w "${include[@]}" "-Wl,--version-script=$here/../../core/portico.map" \
    -Wl,-soname,libportico.so.0 -o "$work/$name.so" "$work/$name.c"
  abidw --no-show-locs --no-comp-dir-path --no-corpus-path --no-parameter-names --out-file "$work/$name.abi" "$work/$name.so"
}

headers=("$@")
describe now "$root" "$here/../../core/include"
if [ $record = 1 ]; then
  cp "$work/now.abi" "$recorded"
  echo "abi: recorded in ${recorded#"$PWD"/}"
  exit 0
fi
status=0
abidiff --no-added-syms --suppressions "$work/now.suppr" "$recorded" "$work/now.abi" > "$work/changes" || status=$?
if [ $status != 0 ]; then
  cat "$work/changes"
  echo "abi: the interface is not that which was recorded (docs/abi.md says what may change). What is allowed, or"
  echo "abi: comes with another number of the library, is recorded with: scripts/abi --record"
  exit 1
fi

# The check can fail: a function that goes, a parameter, an enumerator and a struct without size that change are found;
# a new function and a struct with its size that grows are not.
# changed WHAT EXPECTED SED FILE
changed() {
  local folder=$work/changed found=no file
  rm -rf "$folder" && mkdir -p "$folder/portico"
  local kept=("${headers[@]}")
  headers=()
  for file in "${kept[@]}"; do cp "$file" "$folder/portico/"; headers+=("$folder/portico/$(basename "$file")"); done
  cp "$root/portico/plugin.h" "$folder/portico/"
  sed -i "$3" "$folder/portico/$4"
  cmp -s "$folder/portico/$4" "$root/portico/$4" && { echo "abi: '$1' changes nothing"; exit 1; }
  describe changed "$folder"
  abidiff --no-added-syms --suppressions "$work/changed.suppr" "$recorded" "$work/changed.abi" > "$work/changes" || found=yes
  headers=("${kept[@]}")
  [ $found = "$2" ] || { echo "abi: $1: found: $found"; cat "$work/changes"; exit 1; }
}
changed "a function that goes" yes '/pco_free(void \*memory);/d' portico.h
changed "another parameter" yes 's/pco_tensor_elements(const pco_tensor \*tensor)/pco_tensor_elements(const pco_tensor *tensor, int x)/' graph.h
changed "another number of an enumerator" yes 's/PCO_ERROR_FORMAT = 7/PCO_ERROR_FORMAT = 17/' plugin.h
changed "a struct without a size" yes 's/^    char message\[1024\];/    char message[2048];/' plugin.h
changed "a member in the middle" yes 's/^    int no_decomposition;/    int in_between, no_decomposition;/' session.h
changed "a struct that grows" no 's/^} pco_executable_params;/    int more, still;\n} pco_executable_params;/' session.h
changed "a new number of an operation" no 's/^    PCO_OP_GT = 12,/&\n    PCO_OP_NEWEST = 999,/' plugin.h
changed "a new element type" no 's/^    PCO_DTYPE_COUNT = .*/    PCO_NEWEST = 77,\n    PCO_DTYPE_COUNT = 78,/' plugin.h
changed "a new function" no 's/^PCO_EXPORT const char \*pco_version(void);/&\nPCO_EXPORT int pco_new(int x);/' portico.h
echo "abi: $(grep -c '<function-decl' "$recorded") functions as recorded"
