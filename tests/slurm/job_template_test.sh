#!/bin/bash
# The job template against a real scheduler, with a program that plays the ends a run can have:
# first its rank is killed, then it stops for the time limit, then it ends well; another run fails
# for good. Run by with_slurm.sh.
set -euo pipefail
template=$1
cd "$SLURM_TEST_ROOT"
mkdir -p work && cd work

cat >program <<'P'
#!/bin/bash
# Only the first rank decides; all of them write down how they were called, and live through USR1.
trap : USR1
directory=; for word in "$@"; do [[ $word == run.directory=* ]] && directory=${word#*=}; done
echo "rank=${OMPI_COMM_WORLD_RANK} of=${OMPI_COMM_WORLD_SIZE} $*" >>calls
[[ ${OMPI_COMM_WORLD_RANK} == 0 ]] || { sleep 1; exit 0; }
mkdir -p "$directory"
: >"$directory/resolved.yaml"
lives=$(grep -c "rank=0 .*$2" calls)
case $2-$lives in
  good.yaml-1) kill -KILL $$ ;;
  good.yaml-2) trap 'exit 6' USR1
               until (($(grep -c -- 'good.yaml.*--resume' calls) == 3)); do sleep 0.1; done
               scancel --batch --signal=USR1 "$SLURM_JOB_ID"
               for _ in $(seq 100); do sleep 0.1; done; exit 70 ;;
  good.yaml-3) exit 0 ;;
  *) exit 2 ;;
esac
P
chmod +x program
: >good.yaml
: >bad.yaml
export ACCELOPT=./program

fail() { echo "FAILED: $1"; cat calls ./*.log 2>/dev/null; exit 1; }

# (sbatch -W gives up at a requeue, so the end is waited for here.)
id=$(sbatch --parsable -n 3 -c 1 "$template" good.yaml --fail-fast)
bad=$(sbatch --parsable -n 2 -c 1 "$template" bad.yaml)
for _ in $(seq 240); do
  state=$(scontrol show job "$id" | grep -oP 'JobState=\K\w+')
  [[ $state == COMPLETED || $state == FAILED || $state == CANCELLED ]] && break
  sleep 0.5
done
[[ $state == COMPLETED ]] || fail "the job ended as $state"
scontrol show job "$id" | grep -q 'Restarts=1 ' || fail "the job was not requeued once"

mapfile -t lives < <(grep 'rank=0 .*good.yaml' calls)
((${#lives[@]} == 3)) || fail "three lives, not ${#lives[@]}"
[[ ${lives[0]} == "rank=0 of=3 run good.yaml --set run.directory=runs/job-$id --fail-fast" ]] ||
  fail "first life: ${lives[0]}"
for life in 1 2; do
  [[ ${lives[life]} == "rank=0 of=3 run good.yaml --set run.directory=runs/job-$id --resume --fail-fast" ]] ||
    fail "later life: ${lives[life]}"
done
grep -q 'code=137' "accelopt-$id.log" || fail "the killed rank was not seen"
grep -q 'code=6 warned=1' "accelopt-$id.log" || fail "the warning was not passed on"

scontrol show job "$bad" | grep -q 'ExitCode=2:0' || fail "a configuration error must end the job with 2"
(($(grep -c 'rank=0 .*bad.yaml' calls) == 1)) || fail "a configuration error was tried again"
echo "ok"
