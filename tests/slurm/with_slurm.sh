#!/bin/bash
# Runs a command beside a private Slurm cluster (munged, slurmctld, one slurmd, all of this user, below
# a temporary folder) and takes the cluster down again, whatever happens.
# Usage: with_slurm.sh COMMAND [ARGUMENTS...]       exit status: the command's, or 99 without a cluster
#   SLURM_CPUS       CPUs of the node that jobs may use (default 8, whatever the machine has)
#   SLURM_KEEP=1     leave the folder with logs and state
# The command sees SLURM_CONF, SLURM_TEST_ROOT and what mpirun needs as root and on few cores.
set -u
(($# > 0)) || { echo "usage: with_slurm.sh COMMAND [ARGUMENTS...]" >&2; exit 2; }

export PATH=$PATH:/usr/sbin:/sbin
for tool in munged slurmctld slurmd sbatch scontrol; do
  command -v $tool >/dev/null || { echo "with_slurm: $tool is missing; run scripts/setup.sh --tests" >&2; exit 99; }
done

# Sockets have short names: not below a long TMPDIR.
root=$(mktemp -d /tmp/accelopt-slurm-XXXXXX) || exit 99
chmod 755 "$root"
conf=$root/slurm.conf
mkdir -p "$root"/{state,log,pid,spool-node1,tmp-node1}
: >"$root/plugstack.conf"
user=$(id -un)
host=$(hostname -s)

pid_of() { cat "$root/pid/$1.pid" 2>/dev/null; }

# running NAME PROGRAM: the daemon of that pid file is alive, and still that program.
running() {
  local pid
  pid=$(pid_of "$1") && [[ -n $pid && $(cat "/proc/$pid/comm" 2>/dev/null) == "$2" ]] &&
    [[ $(awk '{print $3}' "/proc/$pid/stat" 2>/dev/null) != Z ]]
}

stop_daemon() {
  running "$1" "$2" || return 0
  kill -TERM "$(pid_of "$1")" 2>/dev/null
  for _ in $(seq 50); do running "$1" "$2" || return 0; sleep 0.1; done
  kill -KILL "$(pid_of "$1")" 2>/dev/null
}

# Processes that were started with this cluster's configuration: steps that outlived their daemon.
leftovers() {
  local file
  for file in /proc/[0-9]*/environ; do
    grep -qzxF "SLURM_CONF=$conf" "$file" 2>/dev/null && echo "$file" | cut -d/ -f3
  done
}

tear_down() {
  trap '' INT TERM HUP
  if running slurmctld slurmctld; then
    export SLURM_CONF=$conf
    timeout 5 squeue -h -o %A 2>/dev/null | sort -u | xargs -r timeout 10 scancel 2>/dev/null
    for _ in $(seq 40); do [[ -z $(timeout 3 squeue -h -o %A 2>/dev/null) ]] && break; sleep 0.2; done
    export -n SLURM_CONF
  fi
  stop_daemon slurmd-node1 slurmd
  stop_daemon slurmctld slurmctld
  stop_daemon munged munged
  local left
  left=$(leftovers)
  [[ -n $left ]] && kill -KILL $left 2>/dev/null
  [[ ${SLURM_KEEP:-0} == 1 ]] && echo "with_slurm: kept $root" >&2 || rm -rf "$root"
}
trap tear_down EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

free_ports() {
  /usr/bin/python3 - <<'P'
import socket
held = [socket.socket() for _ in range(2)]
for s in held:
    s.bind(("127.0.0.1", 0))
print(*(s.getsockname()[1] for s in held))
P
}

write_configuration() {
  read -r controller_port node_port < <(free_ports)
  cat >"$conf" <<C
ClusterName=accelopt
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$controller_port
SlurmUser=$user
SlurmdUser=$user
AuthType=auth/munge
AuthInfo=socket=$root/munge.sock,cred_expire=5
CredType=cred/munge
StateSaveLocation=$root/state
SlurmdSpoolDir=$root/spool-%n
TmpFS=$root/tmp-%n
SlurmctldPidFile=$root/pid/slurmctld.pid
SlurmdPidFile=$root/pid/slurmd-%n.pid
SlurmctldLogFile=$root/log/slurmctld.log
SlurmdLogFile=$root/log/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
MpiDefault=pmix
ReturnToService=2
KillWait=5
MinJobAge=86400
SchedulerParameters=sched_interval=1,bf_interval=1
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
JobCompType=jobcomp/filetxt
JobCompLoc=$root/log/jobcomp.txt
PlugStackConfig=$root/plugstack.conf
MailProg=/bin/true
NodeName=node1 NodeHostname=$host NodeAddr=127.0.0.1 Port=$node_port CPUs=${SLURM_CPUS:-8} RealMemory=$(awk '/MemTotal/ {print int($2 / 1024 * 0.9)}' /proc/meminfo)
PartitionName=main Nodes=node1 Default=YES MaxTime=INFINITE State=UP
C
}

give_up() {
  echo "with_slurm: $1" >&2
  tail -n 20 "$root"/log/* >&2
  exit 99
}

(umask 077; head -c 128 /dev/urandom >"$root/munge.key")
munged --force --key-file="$root/munge.key" --socket="$root/munge.sock" --pid-file="$root/pid/munged.pid" \
  --log-file="$root/log/munged.log" --seed-file="$root/munge.seed" 2>"$root/log/munged.err" ||
  give_up "munged did not start"
write_configuration
# Not exported: only what the cluster starts, and the command, may carry it (see leftovers).
SLURM_CONF=$conf slurmctld -f "$conf" 2>"$root/log/slurmctld.err" || give_up "slurmctld did not start"
SLURM_CONF=$conf slurmd -f "$conf" -N node1 2>"$root/log/slurmd.err" || give_up "slurmd did not start"
for _ in $(seq 150); do
  [[ $(SLURM_CONF=$conf timeout 3 sinfo -h -N -t idle -o %N 2>/dev/null) == node1 ]] && up=1 && break
  sleep 0.1
done
[[ ${up:-0} == 1 ]] || give_up "the node did not come up"

SLURM_CONF=$conf SLURM_TEST_ROOT=$root OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 \
  OMPI_MCA_rmaps_base_oversubscribe=1 "$@" &
command_pid=$!
wait "$command_pid"
