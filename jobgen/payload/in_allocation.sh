#!/bin/bash
# in_allocation.sh DIGEST: run the batch script within a step of an allocation, with the variables that it would have in
# a batch job. The step has one task on each node, so that it ends with its nodes; the first one runs the script.
((SLURM_PROCID == 0)) || exit 0
job=$SLURM_JOB_ID hosts=$SLURM_JOB_NODELIST count=$SLURM_NNODES partition=${SLURM_JOB_PARTITION:-}
# list_cpus: of each group of nodes its CPUs, as "64(x2)", out of "Nodes=n[1-2] CPU_IDs=0-63 Mem="
list_cpus() {
    local node ids ranges range cpus same
    while read -r node ids; do
        cpus=0
        IFS=, read -ra ranges <<<"$ids"
        for range in "${ranges[@]}"; do cpus=$((cpus + ${range#*-} - ${range%-*} + 1)); done
        same=$(scontrol show hostnames "$node" | wc -l)
        ((same > 1)) && cpus="$cpus(x$same)"
        printf '%s\n' "$cpus"
    done | paste -sd,
}
cpus=$(scontrol show job --details --oneliner "$job" |
    grep -o ' Nodes=[^ ]* CPU_IDs=[0-9,-]*' | sed 's/^ Nodes=\([^ ]*\) CPU_IDs=/\1 /' | list_cpus)
# what srun sets for this step would become the default of the steps of the script
for name in "${!SLURM_@}"; do
    case $name in
    SLURM_CONF | SLURM_CONF_SERVER | SLURM_JWT | SLURM_SACK_* | SLURM_CLUSTER_NAME) ;;
    *) unset "$name" ;;
    esac
done
export SLURM_JOB_ID=$job SLURM_JOBID=$job SLURM_JOB_NODELIST=$hosts SLURM_NODELIST=$hosts SLURM_NNODES=$count
export SLURM_JOB_NUM_NODES=$count SLURM_JOB_CPUS_PER_NODE=$cpus SLURM_JOB_PARTITION=$partition
# the user's own steps and this one go on beside those of the script
export SLURM_OVERLAP=1
exec bash bundle/job.sbatch "$1"
