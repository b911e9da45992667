# shellcheck shell=bash
# Sourced before deepspeed is called with pdsh. Every node's launcher is then started over ssh, which
# takes no environment along; DeepSpeed exports there what the file DS_ENV_FILE says. It takes
# NAME=VALUE lines and nothing else, puts a value with special characters into double quotes as it
# is, and pdsh reads % in it.
case $PWD in
*[!A-Za-z0-9_./+-]*)
    printf 'jobgen: over pdsh, deepspeed cannot go to a directory of this name: %s\n' "$PWD" >&2
    exit 96
    ;;
esac
export DS_ENV_FILE=$JOBGEN_STATE_DIR/deepspeed_env
# what was started over ssh must see by itself that the job has ended
export JOBGEN_GUARD=1

passes() {
    case $1 in
    SLURM_JOB_ID | SLURM_JOB_NAME | SLURM_JOB_NODELIST | SLURM_NNODES) return 0 ;;
    # what belongs to this node, this shell or its session alone
    SLURM* | HOSTNAME | PWD | OLDPWD | SHLVL | _ | TMPDIR | TERM | MAIL | DISPLAY) return 1 ;;
    BASH_* | SSH_* | XDG_*) return 1 ;;
    CUDA_VISIBLE_DEVICES | ROCR_VISIBLE_DEVICES | GPU_DEVICE_ORDINAL) return 1 ;;
    esac
    [[ ${!1} != *$'\n'* ]]
}

(umask 077 && : >"$DS_ENV_FILE") || exit 96
for name in $(compgen -e); do
    if passes "$name"; then
        value=${!name//\\/\\\\}
        value=${value//\"/\\\"}
        value=${value//\$/\\\$}
        value=${value//\`/\\\`}
        printf '%s=%s\n' "$name" "${value//%/%%}"
    fi
done >"$DS_ENV_FILE"
