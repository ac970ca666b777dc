#!/usr/bin/env bash
# Kernels of operations of one's own, on the device of PORTICO_BACKEND: test_operations.sh PORTICO LIBRARY. What the
# library declares passes, and a device that can make kernels of texts refuses none of it.
set -u
portico=$(realpath "$1")
device=${PORTICO_BACKEND:-cpu:native}
. "$(dirname "$0")/../cli/checks.sh"

run conformance --devices "$device" --tier quick --verbose --ops-from "$2"
if grep -q 'there is neither; install libshaderc1' "$work/err"; then
    echo "neither libshaderc nor glslc is here: no kernels are made"
    exit 77
fi
status "operations of one's own" 0
says "none is refused" out ' 0 unsupported'
finish
