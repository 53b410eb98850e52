#!/bin/bash
# Builds the fuzz programs of tests/fuzz under AddressSanitizer, and runs each; not part of CI.
# Usage: scripts/fuzz.sh [SECONDS [TARGET...]]     (default: 600 s each, all targets)
# libFuzzer targets are built with clang. fuzz_kernels (mutants of kernels through the whole Trainium
# model) and fuzz_protocol (mutated evaluator requests) are built with GCC, in build-sanitize; they
# print executions/s and the histogram of outcomes, and FUZZ_SEED (default 1) picks their inputs.
# One input again: build-sanitize/tests/fuzz/fuzz_kernels --seed SEED --first INDEX --executions 1
# What is found lies in build-fuzz/findings; what was learnt stays in build-fuzz/corpus. The last line
# is "N targets, N with findings"; the exit status is 0 only when nothing was found.
set -uo pipefail
cd "$(dirname "$0")/.." || exit
seconds=${1:-600}
[[ $# -gt 0 ]] && shift
[[ $seconds =~ ^[0-9]+$ ]] || { echo "usage: scripts/fuzz.sh [SECONDS [TARGET...]]" >&2; exit 2; }
mapfile -t mutation < <(sed -n 's/^ *accelopt_mutation_program(\(fuzz_[a-z_]*\).*/\1/p' tests/fuzz/CMakeLists.txt)
mapfile -t all < <(printf '%s\n' "${mutation[@]}"; sed -n 's/^accelopt_fuzz_target(\(fuzz_[a-z_]*\).*/\1/p' tests/fuzz/CMakeLists.txt)
targets=("$@")
[[ ${#targets[@]} -gt 0 ]] || targets=("${all[@]}")
for target in "${targets[@]}"; do
  [[ " ${all[*]} " == *" $target "* ]] || { echo "fuzz: no target $target; there are: ${all[*]}" >&2; exit 2; }
done
is_mutation() { [[ " ${mutation[*]} " == *" $1 "* ]]; }
clang=() gcc=()
for target in "${targets[@]}"; do
  if is_mutation "$target"; then gcc+=("$target"); else clang+=("$target"); fi
done
((${#clang[@]} == 0)) || command -v clang++ >/dev/null || { echo "fuzz: clang++ is missing (Debian package clang)" >&2; exit 2; }

export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1
mkdir -p build-fuzz/findings
((${#gcc[@]} == 0)) || scripts/build.sh sanitize -- "${gcc[@]}" || exit 1
if ((${#clang[@]} > 0)) && [[ ! -f build-fuzz/build.ninja ]]; then
  cmake -S . -B build-fuzz -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo -DCMAKE_CXX_COMPILER=clang++ \
    -DACCELOPT_FUZZ=ON >build-fuzz.log 2>&1 || { cat build-fuzz.log >&2; exit 1; }
  rm -f build-fuzz.log
fi
((${#clang[@]} == 0)) || ninja -C build-fuzz "${clang[@]}" || exit 1

# The interpreter of CPython keeps memory until the process ends, by design.
export ASAN_OPTIONS=detect_leaks=0
export UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1
found=0
for target in "${targets[@]}"; do
  corpus=build-fuzz/corpus/$target
  findings=build-fuzz/findings/$target
  mkdir -p "$corpus" "$findings"
  inputs=("$corpus")
  [[ -d tests/fuzz/seeds/$target ]] && inputs+=("tests/fuzz/seeds/$target")
  echo "== $target, $seconds s"
  if is_mutation "$target"; then
    "build-sanitize/tests/fuzz/$target" --seconds "$seconds" --seed "${FUZZ_SEED:-1}" \
      --findings "$findings" || found=$((found + 1))
    continue
  fi
  "build-fuzz/tests/fuzz/$target" -max_total_time="$seconds" -max_len=65536 -timeout=20 \
    -rss_limit_mb=2048 -print_final_stats=1 -artifact_prefix="$findings/" "${inputs[@]}" \
    >"build-fuzz/$target.log" 2>&1 || { found=$((found + 1)); tail -40 "build-fuzz/$target.log"; }
  grep -E 'stat::(number_of_executed_units|peak_rss_mb)' "build-fuzz/$target.log"
done
echo "${#targets[@]} targets, $found with findings"
((found == 0))
