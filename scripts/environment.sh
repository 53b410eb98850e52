# shellcheck shell=bash
# Sourced by the other scripts: what mpirun needs as root, on few cores, and beside an evaluator.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_rmaps_base_oversubscribe=1
# Ranks start evaluators that use several cores; a rank bound to one core would starve them.
export OMPI_MCA_hwloc_base_binding_policy=none
