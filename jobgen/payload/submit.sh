#!/bin/sh
# submit.sh K COMMAND...: run attempt number K of submitting this run, at most once, ever.
# It is started detached, so that it outlives the connection that started it.
own_umask=$(umask)
umask 077
cd "$(dirname "$0")/.." || exit 1
attempt=$1
shift

[ ! -s submit/jobid ] || exit 0
[ ! -e cancel ] || exit 0

# A login profile must not set options behind our back; where the controller is stays known.
for name in $(env | while IFS='=' read -r found _; do
    case $found in
    *[!A-Za-z0-9_]*) ;;
    SLURM_CONF | SLURM_CONF_SERVER | SLURM_JWT | SLURM_SACK_*) ;;
    SBATCH_* | SLURM_*) printf '%s\n' "$found" ;;
    esac
done); do
    unset "$name"
done

# No room for the answer means that the question must not be asked.
printf '# attempt %s\n' "$attempt" >>"submit/out.$attempt" || exit 1
printf '' >>"submit/err.$attempt" || exit 1

# The one atomic step: a symbolic link is made by one process or by none, and says whose it is.
ln -sT "$(uname -n).$$.$(date +%s)" "submit/attempt.$attempt" 2>/dev/null || exit 0

# Slurm gives the umask of sbatch to the job: what the program writes is its user's own matter.
ask() {
    (umask "$own_umask" && exec "$@") </dev/null >>"submit/out.$attempt" 2>>"submit/err.$attempt"
}

ask "$@"
code=$?
# shellcheck disable=SC1091  # of a race only
[ ! -e submit/next_entry.sh ] || . submit/next_entry.sh

# A valid id in the output wins, whatever the exit code says. It is written before the exit code:
# who sees the code may count on the id.
id=''
while IFS= read -r line || [ -n "$line" ]; do
    case ${line%%;*} in
    '' | *[!0-9]*) ;;
    *) id=$line ;;
    esac
done <"submit/out.$attempt"
if [ -n "$id" ]; then
    printf '%s\n' "$id" >"submit/.jobid.$attempt" && mv -T "submit/.jobid.$attempt" submit/jobid
fi
printf '%s\n' "$code" >"submit/.rc.$attempt" && mv -T "submit/.rc.$attempt" "submit/rc.$attempt"
