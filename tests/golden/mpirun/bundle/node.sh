#!/bin/bash
# Runs on the first node: setup, then the launcher, which starts the other nodes.
node=${SLURMD_NODENAME:-$HOSTNAME}
die() { printf 'jobgen: %s: %s\n' "$node" "$2" >&2; record_end "$1" "$2"; exit "$1"; } # CODE TEXT
# record_end CODE TEXT: record why no rank starts, like the exit of a rank: srun may drop a node's last output.
record_end() {
    local record=$JOBGEN_STATE_DIR/events/$JOBGEN_RESTART.$node.node${SLURM_LOCALID:-0} why=${2%%$'\n'*}
    (($1)) && mkdir -p "${record%/*}" && [[ ! -e $record ]] || return # the first failure counts
    why=${why//[[:cntrl:]]/ } why=${why//%/%25} why=${why// /%20}
    printf '%s\n' "v=1 time=$(date +%s.%N) kind=exit node=$node rank=- code=$1 signal=0 why=$why" >"$record"
}
trap 'record_end "$?" ""' EXIT
cd "$JOBGEN_WORK_DIR" || die 96 'the working directory does not exist on this node'
# ---- Launch ------------------------------------------------------------------------------------
set -uo pipefail
command -v mpirun >/dev/null || die 127 "mpirun is not on PATH; activate its environment in the job's setup key"
# mpirun reads its slots here, and Slurm counts one task per node
export SLURM_TASKS_PER_NODE="8(x$SLURM_JOB_NUM_NODES)"
# srun starts mpirun's daemons: they get this environment and all CPUs, and end with the job.
# PRTE_* is for Open MPI 5 and newer.
export OMPI_MCA_plm=slurm PRTE_MCA_plm=slurm SLURM_CPU_BIND=none SLURM_WAIT=0
exec mpirun -np 16 \
  --hostfile "$JOBGEN_STATE_DIR/hostfile" --map-by ppr:8:node --bind-to none \
  --mca pml ucx \
  bash "$JOBGEN_BUNDLE_DIR/rank.sh" bash "$JOBGEN_BUNDLE_DIR/program.sh"
