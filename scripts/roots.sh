# shellcheck shell=bash disable=SC2154
# Read by scripts/test --all: what scripts/package makes, each in a bare root of this Debian, as one who gets it would use
# it there. Each returns 0 when all is well, 77 where there can be no such roots.

# in_root FOLDER SCRIPT: a shell within, with nothing of our environment. What is mounted goes with the shell.
in_root() {
  cp -L /etc/resolv.conf "$1/etc/"
  # shellcheck disable=SC2016 # $0 is for the shell within
  unshare --mount sh -c 'mount -t devpts devpts "$0/dev/pts"; # apt writes its log through a terminal
    mount -t proc proc "$0/proc" && mount -t sysfs sys "$0/sys" && exec chroot "$0" "$@"' "$1" \
    env -i HOME=/root LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    sh -euc "$2"
}

# bare_root NAME PACKAGE...: sets `bare` to a root that has nothing but these and what every Debian has. It is made once,
# unless NAME is "debs": what is installed there is what is tested.
bare_root() {
  local name=$1 log=$logs/root-$1.log
  shift
  if [ "$(id -u)" != 0 ] || ! command -v debootstrap > /dev/null; then
    echo "a bare root takes debootstrap, and root"
    return 77
  fi
  bare=$build/bare/$name
  if [ "$name" = debs ]; then rm -rf "$bare"; fi
  if [ -e "$bare/complete" ]; then return; fi
  rm -rf "$bare"
  mkdir -p "$build/bare"
  {
    (
      flock 9 # the others wait for the one that begins
      [ -e "$build/bare/base/complete" ] && exit
      rm -rf "$build/bare/base"
      debootstrap --variant=minbase "$(. /etc/os-release; echo "$VERSION_CODENAME")" "$build/bare/base" &&
        touch "$build/bare/base/complete"
    ) 9> "$build/bare/lock" && cp -a "$build/bare/base" "$bare" && rm "$bare/complete" &&
      in_root "$bare" "apt-get update && apt-get install -y --no-install-recommends $*"
  } > "$log" 2>&1 || {
    tail -n 5 "$log"
    return 1
  }
  touch "$bare/complete"
}

# packaged WHAT: sets `packages` to a folder with it, built twice with the same bytes.
packaged() {
  packages=$build/packages/$1
  rm -rf "$packages"
  scripts/package --twice --output "$packages" "$1"
}

# The wheel: no compiler, no glslc, no SDK.
check_wheel() {
  bare_root wheel python3-numpy python3-pip libvulkan1 mesa-vulkan-drivers || return
  packaged wheel || return 1
  rm -f "$bare"/tmp/*.whl
  cp "$packages"/*.whl "$root/README.md" "$root/python/tests/check_wheel.py" "$bare/tmp/"
  in_root "$bare" 'cd /tmp
    python3 -m pip uninstall -q -y --root-user-action=ignore --break-system-packages portico 2> /dev/null || true
    python3 -m pip install -q --root-user-action=ignore --break-system-packages --no-index ./*.whl
    python3 check_wheel.py README.md'
}

# The source archive: the Vulkan plugin is built from what is within, for there is no glslc; then the README from the top.
check_source() {
  bare_root source gcc libc6-dev meson pkg-config python3 libcjson-dev libedit-dev libjpeg-dev libpcre2-dev libpng-dev libprotobuf-c-dev \
    libutf8proc-dev libvulkan-dev opencl-headers protobuf-c-compiler mesa-vulkan-drivers || return
  packaged source || return 1
  rm -rf "$bare"/root/portico*
  tar -xf "$packages"/portico-*.tar.xz -C "$bare/root"
  in_root "$bare" 'cd /root/portico-*
    if command -v glslc; then echo "there is glslc: this is no bare machine"; exit 1; fi
    meson setup build -Dvulkan=enabled > setup.log || { cat setup.log; exit 1; }
    meson compile -C build > compile.log || { tail -n 30 compile.log; exit 1; }
    build/portico conformance --devices vulkan:llvmpipe --tier tiny --ops "softmax,matmul"
    scripts/check-docs README.md'
}

# Debian's packages: lintian is silent, and autopkgtest runs debian/tests, of which one is the README.
check_debs() {
  if ! command -v lintian > /dev/null || ! command -v dh > /dev/null; then
    echo "lintian and debhelper are not here"
    return 77
  fi
  bare_root debs autopkgtest || return
  packaged debs || return 1
  if ! lintian --allow-root --fail-on error,warning "$packages"/*.deb > "$packages/lintian" 2>&1 || [ -s "$packages/lintian" ]; then
    cat "$packages/lintian"
    return 1
  fi
  mkdir "$bare/root/debs" "$bare/root/portico"
  cp "$packages"/*.deb "$bare/root/debs/"
  git -C "$root" archive HEAD | tar -x -C "$bare/root/portico"
  in_root "$bare" 'autopkgtest --no-built-binaries /root/debs/*.deb /root/portico/ -- null'
}

# llama_texts ROOT: tests/parity/export.py beside llama-completion of that root, which sees no path outside of it.
llama_texts() {
  # shellcheck disable=SC2016 # for the shell within
  local within='root=$0; for a; do shift; set -- "$@" "${a#"$root"}"; done; exec chroot "$root" llama-completion "$@"'
  TMPDIR=$1/tmp PYTHONDONTWRITEBYTECODE=1 python3 "$root/tests/parity/export.py" "$build/portico" llama sh -c "$within" "$1" || return 1
  echo "1 passed, 0 failed, 0 skipped"
}

# What llama.cpp of Debian sid makes of its architectures: our logits beside its own, on every device. gguf, which rewrites
# the files, is the root's; its packages with machine code are for another Python. Then what its llama-completion makes of
# models that Portico trained and converted: they are written where the root has them, too.
check_llama() {
  local sid=$build/bare/llama modules=$build/bare/llama-python python devices=() device module status=0
  python_with numpy || return
  if [ "$(id -u)" != 0 ] || ! command -v debootstrap > /dev/null; then
    echo "a root of sid takes debootstrap, and root"
    return 77
  fi
  if [ ! -e "$sid/complete" ] || [ ! -e "$sid/usr/bin/llama-completion" ]; then
    rm -rf "$sid"
    mkdir -p "$sid"
    {
      # A mirror that stands still has an index of sid that is out of date, and signed all the same.
      debootstrap --variant=minbase sid "$sid" && in_root "$sid" "apt-get -o Acquire::Check-Valid-Until=false update &&
        apt-get install -y --no-install-recommends llama.cpp llama.cpp-tests gcc libc6-dev libllama-dev libggml-dev python3-gguf"
    } > "$logs/root-llama.log" 2>&1 || {
      tail -n 5 "$logs/root-llama.log"
      return 1
    }
    touch "$sid/complete"
  fi
  rm -rf "$modules"
  mkdir -p "$modules"
  for module in gguf tqdm yaml requests; do ln -s "$sid/usr/lib/python3/dist-packages/$module" "$modules/$module"; done
  use_all_devices
  for device in $DEVICES; do
    if have_device "$device"; then devices+=("$device"); fi
  done
  counted=(0 0 0)
  PORTICO_FALLBACK=error PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$build/python:$modules counted "$python" \
    "$root/tests/parity/llama_archs.py" "$sid" --devices "$(IFS=,; echo "${devices[*]}")" || status=1
  counted llama_texts "$sid" || status=1
  echo "${counted[0]} passed, ${counted[1]} failed, ${counted[2]} skipped"
  return $status
}
