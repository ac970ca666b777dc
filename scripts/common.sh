# shellcheck shell=bash disable=SC2034
# Read by the other scripts: the build, the devices to test on, and steps whose time and result are kept.
# Sets: root, build, logs, drivers, swiftshader. Expects: build (optional).

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=$(realpath -m "${build:-$root/build}")
logs=$build/logs
drivers=$build/drivers
swiftshader=$build/swiftshader

# Everything that the drivers and Portico keep goes into the build folder.
export PORTICO_CACHE_DIR=$build/cache/portico
export MESA_SHADER_CACHE_DIR=$build/cache/mesa
export POCL_CACHE_DIR=$build/cache/pocl
unset PORTICO_BACKEND PORTICO_PLUGIN_PATH PORTICO_LOG PORTICO_FALLBACK PORTICO_SELF_TEST PORTICO_THREADS

. "$root/scripts/python.sh"

emulator= # in front of the build's programs, where they are not for this machine
DEVICES="cpu:reference cpu:native opencl:pocl opencl:rusticl vulkan:lavapipe vulkan:swiftshader"

# Configures FOLDER, or brings it up to date, and compiles: prepare_build FOLDER [meson options].
prepare_build() {
  local folder=$1
  shift
  if [ -f "$folder/build.ninja" ]; then
    meson configure "$folder" "$@" >/dev/null
  else
    meson setup "$folder" "$root" "$@"
  fi
  meson compile -C "$folder"
}

# One folder per OpenCL driver, so that a test loads that driver and no other.
prepare_drivers() {
  local icd name
  mkdir -p "$drivers/none" "$PORTICO_CACHE_DIR" "$MESA_SHADER_CACHE_DIR" "$POCL_CACHE_DIR" "$logs"
  for icd in /etc/OpenCL/vendors/*.icd; do
    [ -e "$icd" ] || continue
    name=$(basename "$icd" .icd)
    mkdir -p "$drivers/$name"
    cp -f "$icd" "$drivers/$name/"
  done
  for icd in /usr/lib/oclgrind/liboclgrind-rt-icd.so /usr/lib/*/oclgrind/liboclgrind-rt-icd.so; do
    [ -e "$icd" ] || continue
    mkdir -p "$drivers/oclgrind"
    echo "$icd" >"$drivers/oclgrind/oclgrind.icd"
  done
  describe_machine
}

# PoCL learns from hwloc how much memory there is, and hwloc from /sys; in a bare chroot without it PoCL would abort.
describe_machine() {
  local file=$drivers/machine.xml
  [ -d /sys/devices/system/cpu ] && return
  python3 - "$file" <<'TEXT'
import os, sys
count = min(os.cpu_count(), 32)
memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
node = 'nodeset="0x00000001" complete_nodeset="0x00000001"'
cpus = lambda mask: f'cpuset="{mask:#010x}" complete_cpuset="{mask:#010x}" {node}'
every = (1 << count) - 1
with open(sys.argv[1], "w", encoding="utf-8") as file:
    print('<?xml version="1.0" encoding="UTF-8"?>\n<!DOCTYPE topology SYSTEM "hwloc2.dtd">\n<topology version="2.0">\n'
          f'<object type="Machine" os_index="0" {cpus(every)} allowed_cpuset="{every:#010x}" '
          'allowed_nodeset="0x00000001" gp_index="1">\n'
          f'<object type="NUMANode" os_index="0" {cpus(every)} gp_index="2" local_memory="{memory}"/>', file=file)
    for i in range(count):
        print(f'<object type="Core" os_index="{i}" {cpus(1 << i)} gp_index="{10 + i}">'
              f'<object type="PU" os_index="{i}" {cpus(1 << i)} gp_index="{100 + i}"/></object>', file=file)
    print("</object></topology>", file=file)
TEXT
  export HWLOC_XMLFILE=$file
}

# SwiftShader's manifest: from the browser if it is installed, or as unpacked by scripts/test.
swiftshader_manifest() {
  local file
  for file in "$swiftshader/vk_swiftshader_icd.json" /usr/lib/chromium/vk_swiftshader_icd.json; do
    if [ -e "$file" ]; then echo "$file"; return; fi
  done
  echo "$drivers/none/swiftshader.json"
}

lavapipe_manifest() {
  local file
  for file in /usr/share/vulkan/icd.d/lvp_icd*.json; do
    if [ -e "$file" ]; then echo "$file"; return; fi
  done
  echo "$drivers/none/lavapipe.json"
}

# Takes SwiftShader out of Debian's chromium-common package (chromium, where that has none), without installing the
# browser and all that it needs. Where that fails, what is not tested is said in a line.
fetch_swiftshader() {
  local folder=$swiftshader scratch package
  [ -e "$(swiftshader_manifest)" ] && return
  scratch=$(mktemp -d)
  chmod 755 "$scratch" # apt downloads as a user of its own
  mkdir -p "$folder"
  for package in chromium-common chromium; do
    (cd "$scratch" && apt-get -q download "$package" >/dev/null 2>&1 && dpkg-deb -x "$package"_*.deb .) || continue
    cp "$scratch"/usr/lib/chromium/*swiftshader* "$folder/" 2>/dev/null && break
  done
  rm -rf "$scratch"
  [ -e "$folder/vk_swiftshader_icd.json" ] ||
    echo "SwiftShader is not tested: chromium-common cannot be downloaded, or has none; install chromium, or try again" >&2
}

# Sets the environment for one device of DEVICES (or opencl:oclgrind): only its driver is visible.
use_device() {
  export PORTICO_BACKEND=$1 OCL_ICD_VENDORS=$drivers/none
  export VK_DRIVER_FILES=$drivers/none/none.json
  unset RUSTICL_ENABLE PORTICO_FALLBACK
  case $1 in
    opencl:pocl) OCL_ICD_VENDORS=$drivers/pocl ;;
    opencl:rusticl) OCL_ICD_VENDORS=$drivers/rusticl; export RUSTICL_ENABLE=llvmpipe ;;
    opencl:oclgrind) OCL_ICD_VENDORS=$drivers/oclgrind ;;
    vulkan:lavapipe) VK_DRIVER_FILES=$(lavapipe_manifest) ;;
    vulkan:swiftshader) VK_DRIVER_FILES=$(swiftshader_manifest) ;;
  esac
  export VK_ICD_FILENAMES=$VK_DRIVER_FILES
  case $1 in cpu:*) ;; *) export PORTICO_FALLBACK=error ;; esac
}

# All drivers of DEVICES at once.
use_all_devices() {
  unset PORTICO_BACKEND PORTICO_FALLBACK OCL_ICD_VENDORS
  export RUSTICL_ENABLE=llvmpipe
  VK_DRIVER_FILES=$(lavapipe_manifest):$(swiftshader_manifest)
  export VK_DRIVER_FILES VK_ICD_FILENAMES=$VK_DRIVER_FILES
}

# Is there such a device?
have_device() (
  use_device "$1"
  "$build/portico" devices --json >/dev/null 2>&1
)

seconds_since() { awk -v a="$1" -v b="$EPOCHREALTIME" 'BEGIN { printf "%.1f", b - a }'; }

# step GROUP NAME COMMAND...: runs it (in a subshell, output to a log) and keeps its counts. A log may end in a line
# "N passed, N failed, N skipped"; without one, the step is one test by its exit status (77: skipped). Sets `failed`
# to 0 or 1, and goes on.
step() {
  local group=$1 name=$2 start=$EPOCHREALTIME log status=0
  shift 2
  log=$logs/$(tr -c 'A-Za-z0-9\n' '-' <<<"$group-$name").log
  (set +e; "$@") >"$log" 2>&1 </dev/null || status=$?
  failed=0
  python3 "$root/scripts/results.py" step --results "$logs/results.tsv" --group "$group" --name "$name" \
    --seconds "$(seconds_since "$start")" --status "$status" --log "$log" || failed=1
}

# skip GROUP NAME WHY: a step that cannot be run here.
skip() {
  python3 "$root/scripts/results.py" step --results "$logs/results.tsv" --group "$1" --name "$2" \
    --seconds 0 --status 77 --why "$3"
}

# tests LOGNAME MESON-TEST-OPTIONS...: meson's tests, ending in a line of counts.
tests() {
  local name status=0
  name=$(tr -c 'A-Za-z0-9\n' '-' <<<"$1")
  shift
  rm -f "$build/meson-logs/$name.json"
  # Limits are for hangs: a machine that has other work gets several times as long.
  meson test -C "$build" --no-rebuild --logbase "$name" --timeout-multiplier 4 "$@" || status=$?
  [ -s "$build/meson-logs/$name.json" ] || { echo "no test was selected: $*"; echo "0 passed, 1 failed"; return 1; }
  python3 "$root/scripts/results.py" meson "$build/meson-logs/$name.json"
  return $status
}

# tests_listed [options of meson test]: their names, a line each
tests_listed() { meson test -C "$build" --no-rebuild --list "$@" | sed -n 's#.* / ##p'; }

# slice_of COUNT: which of COUNT slices of a tier this commit takes, "K/COUNT". One commit after the other takes the
# next, so that as many commits as there are slices see the whole tier. Where commits cannot be counted, in a shallow
# clone, the hash chooses; without git, the day.
slice_of() {
  local count=$1 number="" hash
  if hash=$(git -C "$root" rev-parse --verify HEAD 2>/dev/null) &&
    [ -z "$(git -C "$root" rev-parse --show-prefix)" ]; then
    if [ "$(git -C "$root" rev-parse --is-shallow-repository)" = true ]; then
      number=$((16#${hash:0:8}))
    else
      number=$(git -C "$root" rev-list --count HEAD)
    fi
  fi
  echo "$((${number:-$(($(date +%s) / 86400))} % count + 1))/$count"
}

# conformance TIER [OPTION...]: the suite on the device of PORTICO_BACKEND, ending in a line of counts.
conformance() {
  local status=0 json tier=$1
  # Named after the build, too: others, with sanitizers or for another architecture, run at the same time.
  json=$logs/conformance-$(tr -c 'A-Za-z0-9\n' '-' <<<"${build##*/}-$PORTICO_BACKEND-$*").json
  shift
  # shellcheck disable=SC2086
  timeout 3600 $emulator "$build/portico" conformance ${emulator:+--in-process} --devices "$PORTICO_BACKEND" --tier "$tier" "$@" --json >"$json" || status=$?
  python3 "$root/scripts/results.py" conformance "$json"
  return $status
}
