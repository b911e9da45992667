# shellcheck shell=sh
# LOCALE UMASK PROGRAM...: how the account finds itself on this host, a line each.
own_locale=$1 own_umask=$2
shift 2
printf 'user %s\n' "$(id -un)"
printf 'groups %s\n' "$(id -Gn)"
printf 'host %s\n' "$(uname -n)"
printf 'system %s\n' "$(uname -srm)"
printf 'umask %s\n' "$own_umask"
# at the end of an ssh connection bash reads ~/.bashrc even so, which may print
# shellcheck disable=SC2016
printf 'bash %s\n' "$(bash --norc -c 'printf "%s" "$BASH_VERSION"' 2>/dev/null)"
if [ -n "$own_locale" ]; then
    LC_ALL=$own_locale
else
    unset LC_ALL
fi
printf 'locale %s\n' "$(locale charmap 2>/dev/null)"
locale 2>&1 >/dev/null | while read -r complaint; do
    printf 'nolocale %s\n' "$complaint"
done
for program; do
    command -v "$program" >/dev/null 2>&1 || printf 'missing %s\n' "$program"
done
printf 'sbatch %s\n' "$(command -v sbatch)"
# only the names: a value may be a secret
env | while IFS='=' read -r name _; do
    case $name in
    *[!A-Za-z0-9_]*) ;;
    SLURM_CONF | SLURM_CONF_SERVER | SLURM_JWT | SLURM_SACK_* | SLURM_TIME_FORMAT) ;;
    SBATCH_* | SLURM_* | SQUEUE_* | SACCT_* | SCONTROL_* | SCANCEL_*) printf 'stray %s\n' "$name" ;;
    esac
done
