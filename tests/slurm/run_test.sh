#!/bin/bash
# The real program as a real job: the same table and winners as without a scheduler.
# Usage (by with_slurm.sh): run_test.sh SOURCE_TREE BUILD
set -euo pipefail
source=$1
build=$2
cd "$SLURM_TEST_ROOT"
mkdir -p work && cd work
config=$source/tests/integration/small.yaml
export ACCELOPT=$build/accelopt

fail() { echo "FAILED: $1"; cat ./*.log 2>/dev/null; exit 1; }

"$build/accelopt" run "$config" >plain.txt 2>plain.err || fail "the run without a scheduler failed"
id=$(sbatch --parsable -W -n 3 -c 1 "$source/scripts/slurm/job.sbatch" "$config") ||
  fail "the job failed"
for table in summary rounds outcomes; do
  diff <("$build/accelopt" report runs/small-1 --table $table) \
       <("$build/accelopt" report "runs/job-$id" --table $table) || fail "$table differs"
done
diff -r runs/small-1/best "runs/job-$id/best" || fail "best/ differs"
echo "job $id gave the table of the run without a scheduler"
