# shellcheck shell=bash disable=SC2154
# Read by scripts/test: checks that are more than one command. Each returns 0 when all is well, and prints what it did.

# on_device DEVICE COMMAND...: with only that driver visible.
on_device() {
  use_device "$1"
  shift
  "$@"
}

# use_all COMMAND...: with all drivers visible.
use_all() {
  use_all_devices
  "$@"
}

# counted COMMAND...: runs it in a subshell and adds its line of counts to the array `counted`.
counted() {
  local output status=0 line passed failed skipped
  output=$(mktemp "$logs/counted.XXXXXX")
  ("$@") >"$output" 2>&1 || status=$?
  cat "$output"
  line=$(grep -E '^[0-9]+ passed, [0-9]+ failed, [0-9]+ skipped' "$output" | tail -n 1)
  rm -f "$output"
  read -r passed _ failed _ skipped _ <<<"${line:-0 passed, 1 failed, 0 skipped}"
  [ $status = 0 ] || [ "$failed" != 0 ] || failed=1
  counted[0]=$((counted[0] + passed)) counted[1]=$((counted[1] + failed)) counted[2]=$((counted[2] + skipped))
  return $status
}

# The tree that `meson install` makes, under $build/dest.
dest_tree() {
  local libdir
  dest=$build/dest
  rm -rf "$dest"
  DESTDIR=$dest meson install -C "$build" --no-rebuild --quiet || return 1
  libdir=$(dirname "$(find "$dest" -name portico.pc -printf '%h')")
  prefix=$(dirname "$(dirname "$(find "$dest" -path '*/bin/portico')")")
  export PKG_CONFIG_PATH=$libdir/pkgconfig PKG_CONFIG_SYSROOT_DIR=$dest LD_LIBRARY_PATH=$libdir
  export PATH=$prefix/bin:$PATH
}

# Is the code formatted as .clang-format says? Versions differ, so only the one that it names judges.
check_format() {
  find backends conformance core examples tests -name '*.[ch]' -print0 | xargs -0 clang-format-15 --dry-run -Werror
}

# answers_in_place PROGRAM: examples/generate.c, linked statically or not, as a program of the tree that was installed.
# Plugins need nothing of a host that has the library within itself but to be found: where they were installed, or, as
# this tree has moved, from the folder of the program.
answers_in_place() {
  cp "$1" "$prefix/bin/static" && LD_LIBRARY_PATH='' "$prefix/bin/static" "$root/models/dates" "3 Sep 51"
}

# Another way to link: pkg-config --static.
check_linking() {
  local libdir=$LD_LIBRARY_PATH room=$dest/linking
  mkdir -p "$room/archive" && cp "$root/examples/generate.c" "$room" || return 1
  ln -sf "$libdir/libportico.a" "$room/archive/libportico.a"
  # shellcheck disable=SC2046
  cc -o "$room/static" "$room/generate.c" -L"$room/archive" $(pkg-config --static --cflags --libs portico) || return 1
  if ldd "$room/static" | grep -q libportico; then
    echo "pkg-config --static: it needs libportico.so"
    return 1
  fi
  answers_in_place "$room/static"
}

# CMake's package, shared and static.
check_cmake() {
  if ! command -v cmake > /dev/null; then
    echo "cmake is not here"
    return 77
  fi
  dest_tree || return 1
  local room=$dest/cmake kind
  mkdir -p "$room" && cp "$root/examples/generate.c" "$room" || return 1
  cat > "$room/CMakeLists.txt" <<'EOF'
cmake_minimum_required(VERSION 3.13)
project(linking C)
find_package(portico 0.1 REQUIRED CONFIG)
foreach(kind shared static)
  add_executable(with_${kind} generate.c)
endforeach()
target_link_libraries(with_shared portico::portico)
target_link_libraries(with_static portico::static)
EOF
  if ! { cmake -G Ninja -S "$room" -B "$room/made" -DCMAKE_PREFIX_PATH="$prefix" && cmake --build "$room/made"; } > "$room/log" 2>&1; then
    cat "$room/log"
    return 1
  fi
  for kind in shared static; do
    answers_in_place "$room/made/with_$kind" || return 1
  done
  sed -i 's/portico 0.1/portico 0.2/' "$room/CMakeLists.txt"
  if cmake -G Ninja -S "$room" -B "$room/newer" -DCMAKE_PREFIX_PATH="$prefix" > /dev/null 2>&1; then
    echo "cmake: a version that is not there was found"
    return 1
  fi
}

# An install works where it was moved to: the program finds its plugins, a program of the user's compiles and runs.
check_install() {
  dest_tree || return 1
  cd "$dest" || return 1
  "$prefix/bin/portico" devices || return 1
  "$prefix/bin/portico" devices --json | python3 -c '
import json, sys
plugins = json.load(sys.stdin)["plugins"]
names = {p["name"] for p in plugins if not p["reason"]}
print("plugins:", " ".join(sorted(names)))
sys.exit(not {"cpu", "opencl", "vulkan"} <= names or any(sys.argv[1] not in p["path"] for p in plugins))' "$dest" || return 1
  local header
  for header in "$prefix"/include/portico/*.h; do
    printf '#include <portico/%s>\nint main(void) { return 0; }\n' "$(basename "$header")" > "$dest/alone.c"
    # shellcheck disable=SC2046
    cc -std=c11 -pedantic -Wall -Wextra -Werror -fsyntax-only $(pkg-config --cflags portico) "$dest/alone.c" || return 1
    if command -v c++ > /dev/null; then
      # shellcheck disable=SC2046
      c++ -std=c++17 -Wall -Wextra -Werror -fsyntax-only -x c++ $(pkg-config --cflags portico) "$dest/alone.c" || return 1
    fi
  done
  local example kit
  for example in "$root"/examples/*.c; do
    kit=()
    if grep -q '"kit.h"' "$example"; then kit=("$root/examples/kit.c"); fi
    example=$(basename "$example" .c)
    [ "$example" != kit ] || continue
    # shellcheck disable=SC2046
    cc -std=c11 -Wall -Wextra -Werror -o "$build/$example" "$root/examples/$example.c" "${kit[@]}" \
      $(pkg-config --cflags --libs portico) -lm || return 1
  done
  PORTICO_BACKEND=cpu:native "$build/norms" || return 1
  "$build/generate" "$root/models/dates" "3 Sep 51" || return 1
  check_linking || return 1
  # shellcheck disable=SC2046
  cc -shared -fPIC -o "$dest/own_op.so" "$root/examples/own_op.c" $(pkg-config --cflags --libs portico) -lm || return 1
  local device first=
  for device in $DEVICES; do
    { have_device "$device" && has_turn "$device"; } || continue
    use_device "$device" || return 1 # hides the drivers of the others
    PORTICO_FALLBACK=error "$build/own_op" "$device" || return 1
    "$prefix/bin/portico" conformance --devices "$device" --tier tiny --ops-from "$dest/own_op.so" || return 1
    PORTICO_FALLBACK=error "$build/graph" > "$dest/losses" || return 1
    [ -n "$first" ] || first=$(cat "$dest/losses")
    if [ "$(cat "$dest/losses")" != "$first" ]; then
      echo "examples/graph on $device:"
      cat "$dest/losses"
      return 1
    fi
    case $device in
      cpu:native | opencl:pocl | vulkan:lavapipe)
        PORTICO_FALLBACK=error "$build/train" | tee "$dest/losses" || return 1
        grep -q 'backwards: 9 5 1 4 1 3$' "$dest/losses" || return 1 ;;
    esac
  done
}

# The plugin in examples/plugin, compiled against the installed header alone, is found and judged.
check_plugin() {
  dest_tree || return 1
  local scratch=$build/plugin-out-of-tree
  rm -rf "$scratch"
  cp -r "$root/examples/plugin" "$scratch" && cd "$scratch" || return 1
  # shellcheck disable=SC2046
  cc -std=c11 -O2 -Wall -Wextra -Werror -ffp-contract=off -shared -fPIC -fvisibility=hidden -o plugin.so ./*.c \
    $(pkg-config --cflags portico) -lm || return 1
  export PORTICO_PLUGIN_PATH=$scratch
  local names name
  names=$(portico devices --json | python3 -c '
import json, sys
for p in json.load(sys.stdin)["plugins"]:
    if sys.argv[1] in p["path"]:
        print(p["name"] or "?", file=sys.stdout)
        if p["reason"]: sys.exit(p["reason"])' "$scratch") || return 1
  [ -n "$names" ] || { echo "the plugin was not found"; return 1; }
  for name in $names; do portico conformance --devices "$name" --tier quick || return 1; done
}

# python_with MODULE...: sets `python` to the first that has these packages: PORTICO_TEST_PYTHON, the one of PATH (pyenv's,
# say), or Debian's.
python_with() {
  local modules=$*
  for python in "${PORTICO_TEST_PYTHON:-}" python3 /usr/bin/python3; do
    if [ -n "$python" ] && "$python" -c "import ${modules// /, }" 2> /dev/null; then return 0; fi
  done
  echo "no Python here has the packages $modules"
  return 77
}

# The Python package of the build, on the device that is chosen.
check_python() {
  local python status=0 log
  python_with numpy pytest || return
  log=$(mktemp "$logs/pytest.XXXXXX") || return 1 # devices are judged beside each other
  PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$build/python "$python" -m pytest -q -p no:cacheprovider "$root/python/tests" > "$log" 2>&1 || status=$?
  cat "$log"
  python3 -c '
import re, sys
counts = {word: int(n) for n, word in re.findall(r"(\d+) (passed|failed|skipped|error)", open(sys.argv[1]).read().splitlines()[-1])}
print("%d passed, %d failed, %d skipped" % (counts.get("passed", 0), counts.get("failed", 0) + counts.get("error", 0), counts.get("skipped", 0)))' "$log"
  return $status
}

# with_packages SCRIPT MODULE...: a script of the Python package's tests, with a Python that has these.
with_packages() {
  local python script=$1
  python_with "${@:2}" || return
  PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$build/python "$python" "$root/python/tests/$script"
}

# peers: a Python with the packages that tests compare with, made once in the build's folder. pip is that of the system, for
# a Debian without python3-venv. PyTorch comes as the package index has it, which for x86_64 is with CUDA's libraries.
peers() {
  local folder=$build/peers log=$logs/peers.log
  [ ! -e "$folder/complete" ] || return 0
  rm -rf "$folder"
  if ! { python3 -m venv --without-pip "$folder" && python3 -m pip --python "$folder/bin/python" install \
    torch transformers peft gguf tokenizers sentencepiece protobuf numpy safetensors jinja2 pytest; } > "$log" 2>&1; then
    echo "pip cannot install transformers, PEFT and others: is the package index reached? ($(grep -v '^WARNING' "$log" | tail -n 1))"
    return 77
  fi
  touch "$folder/complete"
}

# The tests that take packages of others, which skip where no Python has these; with them none may.
check_peers() {
  local status=0
  peers || return
  export PORTICO_TEST_PYTHON=$build/peers/bin/python
  counted=(0 0 0)
  counted use_all tests peers minilm marian export_transformers export_pairs_transformers tokenizers_random \
    convert_tokenizers_package fine_tune || status=1
  if [ "${counted[2]}" != 0 ]; then
    echo "FAIL: ${counted[2]} were skipped, though the packages are there"
    counted[1]=$((counted[1] + counted[2])) counted[2]=0 status=1
  fi
  counted on_device cpu:native check_python || status=1
  echo "${counted[0]} passed, ${counted[1]} failed, ${counted[2]} skipped"
  return $status
}

# Deleting a plugin's file leaves a program that works with the others.
check_without_plugin() {
  dest_tree || return 1
  find "$dest" -name 'vulkan.so' -print -delete
  portico devices --json | python3 -c '
import json, sys
names = {p["name"] for p in json.load(sys.stdin)["plugins"]}
print("plugins:", " ".join(sorted(names)))
sys.exit("vulkan" in names or "cpu" not in names)' || return 1
  portico conformance --devices cpu:native --tier tiny --ops 'matmul,softmax' || return 1
  local status=0
  PORTICO_BACKEND=vulkan portico run "$root/models/dates" --prompt "3 Sep 51" || status=$?
  [ $status != 0 ] || { echo "a plugin that is gone was used"; return 1; }
}

# Everything again, compiled with AddressSanitizer and UndefinedBehaviorSanitizer, in a build of its own.
sanitizer_build() {
  # MPI libraries leak by design; the threads of tests/unit/test_ranks.c go through the same code.
  prepare_build "$build/sanitize" -Db_sanitize=address,undefined -Db_lundef=false -Dbuildtype=debugoptimized -Dmpi=disabled \
    "${with_data[@]}"
}

# The library and the cpu plugin under ThreadSanitizer: two threads with two contexts, and one context of two threads.
check_threads() {
  local races=$build/races
  prepare_build "$races" -Db_sanitize=thread -Db_lundef=false -Dbuildtype=debugoptimized -Dmpi=disabled -Dvulkan=disabled \
    -Dopencl=disabled -Donnx=disabled || return 1
  TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1 PORTICO_THREADS=3 "$races/tests/test_threads" "$root/models/dates"
}

# sanitized COMMAND...: with that build, and with the sanitizers' options.
sanitized() {
  local supp=$root/tests/suppressions
  build=$build/sanitize
  # Not detect_stack_use_after_return: GCC 12 then lays 64-byte vectors on the stack at any address (its bug 110027).
  # Memory that is not there is NULL, as without sanitizers: tests ask for too much.
  export ASAN_OPTIONS=abort_on_error=0:detect_stack_use_after_return=0:allocator_may_return_null=1
  export LSAN_OPTIONS=suppressions=$supp/lsan.txt:print_suppressions=0
  export UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
  "$@"
}

# sanitized_device DEVICE [meson options]: its tests and the quick tier, or the tiny one where kernels compile slowly.
sanitized_device() {
  local device=$1 status=0 tier=quick
  case $device in opencl:* | vulkan:swiftshader) tier=tiny ;; esac
  shift
  counted=(0 0 0)
  counted sanitized on_device "$device" tests "$device" --suite device --timeout-multiplier 5 "$@" || status=1
  counted sanitized on_device "$device" conformance $tier || status=1
  echo "${counted[0]} passed, ${counted[1]} failed, ${counted[2]} skipped"
  return $status
}

# The settings of the validation layer, in a folder of their own: validation_settings FOLDER [LOG]. Without a log the
# messages go to stdout: of several processes, each would begin the file anew.
validation_settings() {
  mkdir -p "$1"
  {
    echo 'khronos_validation.debug_action = VK_DBG_LAYER_ACTION_LOG_MSG'
    echo 'khronos_validation.report_flags = error,warn'
    echo 'khronos_validation.enables = VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT'
    if [ -n "${2:-}" ]; then echo "khronos_validation.log_filename = $2"; fi
  } >"$1/vk_layer_settings.txt"
  export VK_LAYER_SETTINGS_PATH=$1 VK_INSTANCE_LAYERS=VK_LAYER_KHRONOS_validation
}

# The validation layer with synchronisation validation says nothing: validated_device DEVICE [meson options].
# Conformance runs in one process, so that the layer's log is whole; what the tests print is searched.
validated_device() {
  local device=$1 name=validation-${1#*:} status=0 messages
  shift
  messages=$logs/$name.txt
  counted=(0 0 0)
  rm -f "$messages"
  validation_settings "$build/$name/file" "$messages"
  counted on_device "$device" conformance tiny --in-process || status=1
  if [ -s "$messages" ] || [ ! -e "$messages" ]; then
    echo "messages of the validation layer on $device (no file at all: it was not loaded):"
    head -n 60 "$messages"
    counted[1]=$((counted[1] + 1)) status=1
  fi
  validation_settings "$build/$name/stdout"
  counted on_device "$device" tests "$name" --suite device --timeout-multiplier 5 "$@" || status=1
  if grep -E 'VUID-|SYNC-HAZARD|Validation (Error|Warning)' "$build/meson-logs/$name.txt" | head -n 60 | grep .; then
    counted[1]=$((counted[1] + 1)) status=1
  fi
  echo "${counted[0]} passed, ${counted[1]} failed, ${counted[2]} skipped"
  return $status
}

# subgroup_of DEVICE: the width of its subgroups, as `portico devices` shows it.
subgroup_of() {
  "$build/portico" devices --json | python3 -c '
import json, sys
for device in json.load(sys.stdin)["devices"]:
    if device["id"].startswith("vulkan") and device["subgroup_min"] == device["subgroup_max"]:
        print(device["subgroup_min"])'
}

# lavapipe's subgroup has as many invocations as its vectors have lanes of 32 bits, and its own variable chooses them:
# check_widths DEVICE BITS TIER [conformance options]. Each width is what it is claimed to be, and passes.
check_widths() {
  local device=$1 widths=$2 tier=$3 status=0 bits got
  shift 3
  counted=(0 0 0)
  for bits in $widths; do
    export LP_NATIVE_VECTOR_WIDTH=$bits
    local logs=$build/logs/width-$bits
    mkdir -p "$logs"
    got=$(use_device "$device" && subgroup_of)
    echo "$bits bits: subgroups of ${got:-no known width}"
    if [ "$got" != $((bits / 32)) ]; then
      echo "FAIL: they should have $((bits / 32)) invocations"
      counted[1]=$((counted[1] + 1)) status=1
    fi
    counted on_device "$device" conformance "$tier" "$@" || status=1
  done
  echo "${counted[0]} passed, ${counted[1]} failed, ${counted[2]} skipped"
  return $status
}

# llvmpipe of Debian sid has what this one's lacks, as lavapipe cooperative matrices, as rusticl dot products of bytes:
# check_newer_lavapipe NAME [options of scripts/newer-lavapipe], in the quick tier.
check_newer_lavapipe() {
  local json=$logs/newer-$1.json status=0
  shift
  "$root/scripts/newer-lavapipe" --build "$build" --tier quick --json "$@" >"$json" || status=$?
  [ $status != 77 ] || return 77
  python3 "$root/scripts/results.py" conformance "$json"
  return $status
}

# The kernels of matrix units, and in tier tiny all others beside them: they share a device, and what is enabled for it.
check_newer_validation() {
  "$root/scripts/newer-lavapipe" --build "$build" --validation --tier tiny &&
    "$root/scripts/newer-lavapipe" --build "$build" --validation --tier quick --variant 'matrix*' \
      --ops matmul,scaled_dot_product_attention,scaled_dot_product_attention_backward
}

# oclgrind's interpreter sees every access of a kernel: races, and what is out of bounds.
check_races() {
  local log=$logs/oclgrind.txt
  export OCLGRIND_DATA_RACES=1 OCLGRIND_LOG=$log OCLGRIND_CHECK_API=1
  rm -f "$log"
  on_device opencl:oclgrind conformance tiny || return 1
  if [ -s "$log" ]; then head -n 60 "$log"; return 1; fi
}

# Libraries for aarch64 are unpacked beside the build; apt's own state is left alone.
aarch64_sysroot() {
  local sysroot=$1 apt=$build/aarch64-apt options
  [ -e "$sysroot/complete" ] && return
  rm -rf "$sysroot" "$apt"
  mkdir -p "$sysroot" "$apt/lists/partial" "$apt/cache/archives/partial"
  : >"$apt/status"
  options=(-q -o "Dir::State::Lists=$apt/lists" -o "Dir::Cache=$apt/cache" -o "Dir::State::Status=$apt/status"
           -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o Acquire::Languages=none)
  apt-get "${options[@]}" update || echo "some lists could not be read"
  (cd "$apt" && apt-get "${options[@]}" download libcjson1 libcjson-dev libpcre2-8-0 libpcre2-16-0 libpcre2-32-0 \
    libpcre2-posix3 libpcre2-dev libutf8proc2 libutf8proc-dev libcmocka0 libcmocka-dev) || return 1
  local package
  for package in "$apt"/*.deb; do dpkg-deb -x "$package" "$sysroot" || return 1; done
  rm -rf "$apt"
  : >"$sysroot/complete"
}

# The CPU plugin's other architecture, run by an emulator.
check_aarch64() {
  local plain=$build sysroot=$build/aarch64-sysroot status=0 probe
  aarch64_sysroot "$sysroot" || return 1
  build=$plain/aarch64
  cat >"$plain/aarch64-sysroot.txt" <<TEXT
[properties]
sys_root = '$sysroot'
pkg_config_libdir = '$sysroot/usr/lib/aarch64-linux-gnu/pkgconfig'
TEXT
  export QEMU_LD_PREFIX=/usr/aarch64-linux-gnu
  export QEMU_SET_ENV=LD_LIBRARY_PATH=$sysroot/usr/lib/aarch64-linux-gnu
  prepare_build "$build" --cross-file "$root/cross/aarch64.txt" --cross-file "$plain/aarch64-sysroot.txt" -Dmpi=disabled \
    -Dvulkan=disabled -Dopencl=disabled -Donnx=disabled "${with_data[@]}" || return 1
  # The kernel starts the probe by itself, and knows nothing of the emulator.
  probe=$build/portico-probe
  if [ "$(head -c 4 "$probe" | tail -c 3)" = ELF ]; then
    mv "$probe" "$probe.aarch64"
    printf '#!/bin/sh\nexec qemu-aarch64 "%s" "$@"\n' "$probe.aarch64" >"$probe"
    chmod +x "$probe"
  fi
  # Not here: scripts (what starts the program starts it as a native one; the others read files that are the same
  # everywhere), the oracle's test (it needs no device, and minutes under the emulator), and what devices leave behind (the
  # test names devices that are not built).
  local device names
  names=$(meson introspect "$build" --tests | python3 -c '
import json, sys
print(*(t["name"] for t in json.load(sys.stdin)
        if any(s.split(":")[-1] == "unit" for s in t["suite"]) and t["name"] not in ("oracle", "leaks", "leaks_long")
        and not any(word.endswith((".py", ".sh")) for word in t["cmd"])))')
  counted=(0 0 0)
  emulator=qemu-aarch64
  # shellcheck disable=SC2086
  counted use_all tests aarch64 $names --timeout-multiplier 10 || status=1
  for device in cpu:reference cpu:native; do
    counted on_device "$device" tests "$device" --suite device --timeout-multiplier 10 || status=1
    counted on_device "$device" conformance tiny || status=1
  done
  echo "${counted[0]} passed, ${counted[1]} failed, ${counted[2]} skipped"
  return $status
}
