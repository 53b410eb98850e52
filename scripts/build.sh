#!/bin/bash
# Builds a variant of accelopt with CMake, ninja and ccache.
# Usage: scripts/build.sh [release|sanitize|debug] [-- TARGETS...]
#   release   build/            what runs are made with (default)
#   sanitize  build-sanitize/   AddressSanitizer and UndefinedBehaviorSanitizer
#   debug     build-debug/      no optimisation, symbols
set -euo pipefail
cd "$(dirname "$0")/.."

variant=release
if [[ ${1:-} && ${1:-} != -- ]]; then variant=$1; shift; fi
[[ ${1:-} == -- ]] && shift
case $variant in
  release) folder=build; options=(-DCMAKE_BUILD_TYPE=Release) ;;
  sanitize) folder=build-sanitize
            options=(-DCMAKE_BUILD_TYPE=Sanitize "-DCMAKE_CXX_FLAGS_SANITIZE=-O1" -DACCELOPT_SANITIZE=ON) ;;
  debug) folder=build-debug; options=(-DCMAKE_BUILD_TYPE=Debug) ;;
  *) echo "usage: scripts/build.sh [release|sanitize|debug] [-- TARGETS...]" >&2; exit 2 ;;
esac
for tool in cmake ninja g++; do
  command -v $tool >/dev/null || { echo "build: $tool is missing; run scripts/setup.sh" >&2; exit 1; }
done

# One compiler per core, as far as 1.5 GiB each fit into the memory.
memory_mib=$(awk '/MemAvailable/ {print int($2 / 1024)}' /proc/meminfo)
jobs=$(nproc)
((jobs * 1536 <= memory_mib)) || jobs=$((memory_mib / 1536 > 0 ? memory_mib / 1536 : 1))

# Paths relative to the tree, so that another clone finds the same objects in the compiler cache.
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1

cmake -S . -B "$folder" -G Ninja "${options[@]}" >"$folder.log" 2>&1 || { cat "$folder.log" >&2; exit 1; }
rm -f "$folder.log"
ninja -C "$folder" -j "$jobs" "$@"
