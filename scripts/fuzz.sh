#!/bin/bash
# Builds the libFuzzer targets of tests/fuzz with clang and AddressSanitizer, and runs each.
# Usage: scripts/fuzz.sh [SECONDS [TARGET...]]     (default: 600 s each, all targets)
# What is found lies in build-fuzz/findings; what was learnt stays in build-fuzz/corpus. The last line
# is "N targets, N with findings"; the exit status is 0 only when nothing was found.
set -uo pipefail
cd "$(dirname "$0")/.." || exit
seconds=${1:-600}
[[ $# -gt 0 ]] && shift
[[ $seconds =~ ^[0-9]+$ ]] || { echo "usage: scripts/fuzz.sh [SECONDS [TARGET...]]" >&2; exit 2; }
mapfile -t all < <(sed -n 's/^accelopt_fuzz_target(\(fuzz_[a-z_]*\).*/\1/p' tests/fuzz/CMakeLists.txt)
targets=("$@")
[[ ${#targets[@]} -gt 0 ]] || targets=("${all[@]}")
for target in "${targets[@]}"; do
  [[ " ${all[*]} " == *" $target "* ]] || { echo "fuzz: no target $target; there are: ${all[*]}" >&2; exit 2; }
done
command -v clang++ >/dev/null || { echo "fuzz: clang++ is missing (Debian package clang)" >&2; exit 2; }

export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1
if [[ ! -f build-fuzz/build.ninja ]]; then
  cmake -S . -B build-fuzz -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo -DCMAKE_CXX_COMPILER=clang++ \
    -DACCELOPT_FUZZ=ON >build-fuzz.log 2>&1 || { cat build-fuzz.log >&2; exit 1; }
  rm -f build-fuzz.log
fi
ninja -C build-fuzz "${targets[@]}" || exit 1

# The interpreter of CPython keeps memory until the process ends, by design.
export ASAN_OPTIONS=detect_leaks=0
found=0
for target in "${targets[@]}"; do
  corpus=build-fuzz/corpus/$target
  findings=build-fuzz/findings/$target
  mkdir -p "$corpus" "$findings"
  inputs=("$corpus")
  [[ -d tests/fuzz/seeds/$target ]] && inputs+=("tests/fuzz/seeds/$target")
  echo "== $target, $seconds s"
  "build-fuzz/tests/fuzz/$target" -max_total_time="$seconds" -max_len=65536 -timeout=20 \
    -rss_limit_mb=2048 -print_final_stats=1 -artifact_prefix="$findings/" "${inputs[@]}" \
    >"build-fuzz/$target.log" 2>&1 || { found=$((found + 1)); tail -40 "build-fuzz/$target.log"; }
  grep -E 'stat::(number_of_executed_units|peak_rss_mb)' "build-fuzz/$target.log"
done
echo "${#targets[@]} targets, $found with findings"
((found == 0))
