#!/bin/bash
# From a fresh clone to a finished search: installs what is missing, builds, and runs AccelOpt's beam
# search on five kernels of NKIBench with the builtin rewriter. No key and no network are needed by
# the search itself. Arguments are passed on, e.g. --set search.rounds=8
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup.sh
scripts/build.sh release -- accelopt accelopt-eval
source scripts/environment.sh
echo "+ mpirun -n 3 build/accelopt run configs/quickstart.yaml $*"
exec mpirun -n 3 build/accelopt run configs/quickstart.yaml "$@"
