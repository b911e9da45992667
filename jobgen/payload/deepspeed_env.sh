# shellcheck shell=bash
# Sourced before deepspeed is called with pdsh, which starts the launcher of every node over ssh without
# the environment; DeepSpeed exports the variables in the file DS_ENV_FILE there. It accepts only
# NAME=VALUE lines and puts values with special characters into double quotes unescaped; pdsh expands %.
case $PWD in
*[!A-Za-z0-9_./+-]*)
    printf 'jobgen: deepspeed with pdsh cannot use a directory with special characters: %s\n' "$PWD" >&2
    exit 96
    ;;
esac
export DS_ENV_FILE=$JOBGEN_STATE_DIR/deepspeed_env
# ranks started over ssh must notice the end of the job themselves
export JOBGEN_GUARD=1

passes() {
    case $1 in
    SLURM_JOB_ID | SLURM_JOB_NAME | SLURM_JOB_NODELIST | SLURM_NNODES) return 0 ;;
    # only valid on this node, in this shell or session
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
