#!/bin/bash
# Builds and passes the tests: everything on the release build (unit, golden kernels, MPI, integration,
# Slurm), then what fits in minutes under AddressSanitizer and UndefinedBehaviorSanitizer.
# Usage: scripts/test.sh [--no-sanitize]
# The last line is "N passed, N failed"; the exit status is 0 only when tests ran and none failed.
set -uo pipefail
cd "$(dirname "$0")/.." || exit
sanitize=1
case "${1:-}" in
  "") ;;
  --no-sanitize) sanitize=0 ;;
  *) echo "usage: scripts/test.sh [--no-sanitize]" >&2; exit 2 ;;
esac
source scripts/environment.sh

passed=0
failed=0
broken=0
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT

finish() {
  echo "$passed passed, $failed failed"
  ((failed == 0 && broken == 0 && passed > 0))
  exit
}

# run_tests NAME FOLDER CTEST-OPTIONS...: adds ctest's counts to the totals.
run_tests() {
  local name=$1 folder=$2 status line
  shift 2
  echo "== tests: $name"
  ctest --test-dir "$folder" --output-on-failure --no-tests=error "$@" 2>&1 | tee "$logs/$name"
  status=${PIPESTATUS[0]}
  line=$(grep -E '^[0-9]+% tests passed, [0-9]+ tests? failed out of [0-9]+' "$logs/$name" | tail -1)
  if [[ $line =~ ,\ ([0-9]+)\ tests?\ failed\ out\ of\ ([0-9]+) ]]; then
    failed=$((failed + BASH_REMATCH[1]))
    passed=$((passed + BASH_REMATCH[2] - BASH_REMATCH[1]))
    ((status == 0 || BASH_REMATCH[1] > 0)) || broken=1
  else
    echo "test: ctest gave no result for $name (status $status)" >&2
    broken=1
  fi
}

scripts/setup.sh --tests || { broken=1; finish; }
scripts/build.sh release || { broken=1; finish; }
run_tests release build -j "$(nproc)"

if ((sanitize)); then
  scripts/build.sh sanitize || { broken=1; finish; }
  # The interpreter of CPython keeps memory until the process ends, by design: no leak checks.
  export ASAN_OPTIONS=detect_leaks=0:strict_string_checks=1:detect_stack_use_after_return=1
  export UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1
  # Kills, ranks and job schedulers are tested above; here it is the code that is looked at.
  run_tests sanitize build-sanitize -j "$(nproc)" -LE 'mpi|slurm|integration|bench'
fi
finish
