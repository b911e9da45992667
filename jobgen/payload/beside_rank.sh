#!/bin/bash
# beside_rank.sh RUN PID LABEL [WORD...]: run a command (default: a shell) in the working directory of a run,
# with the environment of the rank whose process this is.
run=$1 pid=$2 label=$3 start=$1/src
shift 3
# load_environment FILE: set the variables and functions of a process, but those of its own terminal and step.
load_environment() {
    local name pair
    for name in $(compgen -e); do
        case $name in
        TERM | SLURM_* | CUDA_VISIBLE_DEVICES | ROCR_VISIBLE_DEVICES) ;;
        *) unset -v "$name" 2>/dev/null ;;
        esac
    done
    while IFS= read -r -d '' pair; do
        name=${pair%%=*}
        case $name in
        PWD) start=${pair#*=} ;;
        # rank.sh kills every process with its JOBGEN_RANK_ID when the rank ends
        JOBGEN_RANK_ID | TERM | SHLVL | OLDPWD | _ | BASHOPTS | SHELLOPTS) ;;
        SLURM_STEP* | SLURM_SRUN_* | SLURM_TASK_PID | SLURM_PTY_*) ;;
        BASH_FUNC_*%%)
            name=${name:10:-2}
            [[ ! $name =~ ^[A-Za-z_][A-Za-z0-9_]*$ ]] || eval "$name ${pair#*=}; export -f $name"
            ;;
        '' | [0-9]* | *[!A-Za-z0-9_]*) ;;
        *) export "${pair?}" 2>/dev/null ;;
        esac
    done <"$1"
}
# another process may have the number of a rank that has ended
if [[ -n $pid ]] && grep -qszxF "JOBGEN_RUN_DIR=$run" "/proc/$pid/environ"; then
    load_environment "/proc/$pid/environ"
    export JOBGEN_RANK_PID=$pid # for py-spy, gdb and the like
else
    printf 'jobgen: no rank runs here: this has the environment of a plain Slurm step\n' >&2
fi
cd "$start" 2>/dev/null || cd "$run/src" || exit 1
if (($#)); then exec "$@"; fi
# a .bashrc, such as one that activates a conda environment, must not win over the rank's environment
exec bash --rcfile <(
    cat <<'LINES'
[[ ! -r ~/.bashrc ]] || . ~/.bashrc
# srun waits for all that holds the terminal, so a job in the background would keep the shell from ending
[[ $(trap -p EXIT) ]] || trap 'jobs=$(jobs -p); [[ ! $jobs ]] || kill -HUP $jobs' EXIT
LINES
    export -p
    printf 'PS1=%q\n' "($label) \\w\\\$ "
) -i
