#!/bin/bash
# Fuzzes the product under AddressSanitizer and UndefinedBehaviorSanitizer; not part of CI.
# Usage: scripts/fuzz.sh [kernels|protocol|all] [SECONDS] [SEED]
#   kernels   mutants of kernels: parse, trace, legality, timing, execution
#   protocol  mutated requests of the evaluator's JSON line protocol
# SECONDS per program (default 1800). Prints executions, executions/s and the histogram of
# outcomes; inputs of findings are kept in build-sanitize/fuzz-findings. The exit status is 0 only
# when there was no finding. One finding again: fuzz_kernels --seed SEED --first INDEX --executions 1
set -uo pipefail
cd "$(dirname "$0")/.." || exit
what=${1:-all}
seconds=${2:-1800}
seed=${3:-1}
case $what in
  kernels | protocol) programs=$what ;;
  all) programs="kernels protocol" ;;
  *) echo "usage: scripts/fuzz.sh [kernels|protocol|all] [SECONDS] [SEED]" >&2; exit 2 ;;
esac
source scripts/environment.sh

targets=()
for program in $programs; do targets+=("fuzz_$program"); done
scripts/build.sh sanitize -- "${targets[@]}" || exit
# The interpreter of CPython keeps memory until the process ends, by design; the programs compare
# the heap before and after instead.
export ASAN_OPTIONS=detect_leaks=0:strict_string_checks=1
export UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1
status=0
for program in $programs; do
  echo "== fuzz_$program: $seconds s, seed $seed"
  build-sanitize/tests/fuzz/fuzz_"$program" --seconds "$seconds" --seed "$seed" \
    --findings build-sanitize/fuzz-findings --progress || status=1
done
exit $status
