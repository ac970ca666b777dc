# shellcheck shell=bash
# Sourced: sees to it that the first `python3` of the path works, for the commands of a script, for what they start and
# for first lines that say `#!/usr/bin/env python3`. The first may be a shim of pyenv's that has no such version (it
# exits with 127), or older than 3.9. Then the folder of the next one that works comes first.

works_as_python() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 9))' >/dev/null 2>&1; }

# Again after what may have installed one.
find_python() {
  local python
  works_as_python python3 && return
  while read -r python; do
    if works_as_python "$python"; then
      PATH=$(dirname "$python"):$PATH
      hash -r
      return
    fi
  done < <(type -ap python3 || true; echo /usr/bin/python3)
}

find_python
