#!/bin/bash
# with_slurm.sh leaves nothing behind: after success, after failure, and when it is told to stop while
# a job runs. Usage: teardown_test.sh WITH_SLURM
set -u
with_slurm=$1
fail() { echo "FAILED: $1"; exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# gone NAME: neither the folder of a cluster nor a live process that was started with it.
gone() {
  local root
  root=$(cat "$work/root")
  [[ $root == /tmp/accelopt-slurm-* ]] || fail "$1: no cluster was up"
  [[ ! -e $root ]] || fail "$1: $root is left"
  local file
  for file in /proc/[0-9]*/environ /proc/[0-9]*/cmdline; do
    grep -qzF "$root" "$file" 2>/dev/null && fail "$1: $(tr '\0' ' ' <"${file%/*}/cmdline") is left"
  done
}

export work
"$with_slurm" bash -c 'echo $SLURM_TEST_ROOT >$work/root; sinfo >/dev/null' || fail "success is passed on"
gone success
"$with_slurm" bash -c 'echo $SLURM_TEST_ROOT >$work/root; exit 7'
[[ $? == 7 ]] || fail "the status of the command is passed on"
gone failure

"$with_slurm" bash -c 'sbatch -o /dev/null --wrap "sleep 300" >/dev/null
  until [[ $(squeue -h -t R) ]]; do sleep 0.1; done; echo $SLURM_TEST_ROOT >$work/root.tmp
  mv $work/root.tmp $work/stop; sleep 300' &
pid=$!
for _ in $(seq 300); do [[ -e $work/stop ]] && break; sleep 0.1; done
[[ -e $work/stop ]] || fail "no job ran"
mv "$work/stop" "$work/root"
kill -TERM $pid
wait $pid
[[ $? == 143 ]] || fail "a stopped cluster says so"
gone "stop while a job runs"
echo ok
