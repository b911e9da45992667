# shellcheck shell=sh
# Sent to the login host by `cluster add` and `cluster check`: who we are there, where files can
# go, which modules there are. Nothing is written.

# survey_paths: the folders that this account may write to, each with its file system, by the names
# that a login shell knows them by: "NAME PATH" of HOME, SCRATCH and the like.
survey_paths() {
    survey_found=$(
        {
            printf 'HOME %s\n' "$HOME"
            # shellcheck disable=SC2016  # the login shell expands them
            timeout 15 bash -lc 'for name in SCRATCH PSCRATCH SCRATCHDIR WORK WORKDIR PROJECT; do
                    [ -z "${!name:-}" ] || printf "jg:%s %s\n" "$name" "${!name}"
                done' 2>/dev/null </dev/null | sed -n 's/^jg://p'
            for survey_top in scratch work project data; do
                printf -- '- /%s/%s\n' "$survey_top" "$1"
            done
        } | while read -r survey_name survey_path; do
            case $survey_path in
            /*) if [ -d "$survey_path" ] && [ -w "$survey_path" ]; then
                survey_type=$(timeout 5 stat -f -c %T -- "$survey_path" 2>/dev/null || echo unknown)
                survey_free=$(timeout 5 df -Pk -- "$survey_path" 2>/dev/null | awk 'NR == 2 {print $4}')
                printf '%s %s %s %s\n' "$survey_name" "$survey_type" "${survey_free:-0}" "$survey_path"
            fi ;;
            esac
        done
    )
    emit paths "$survey_found"
}

# survey_modules: the names of all modules, one a line; nothing where there is no module command.
survey_modules() {
    emit modules "$(timeout 15 bash -lc 'module -t avail' 2>&1 </dev/null |
        grep -E '^[A-Za-z0-9][A-Za-z0-9._+/-]*(\(default\))?$' | head -n 2000)"
}

# survey: everything that is no question to Slurm.
survey() {
    survey_user=$(id -un)
    emit user "$survey_user"
    emit home "$HOME"
    emit host "$(hostname)"
    survey_paths "$survey_user"
    survey_modules
}
