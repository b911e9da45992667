# shellcheck shell=sh
# What run directories hold, and their removal. No symbolic link is followed: find never does (-P), a
# run directory that is one is passed over, and removal works below the directory that was entered.

# measure: reads run directories from standard input, one a line, and emits "sizes" with one line for
# each that is there: bytes of sources, logs, outputs and scripts, then the directory.
# A file of src/ is an output if it was written after the first attempt to submit began; where that
# is not known any more, every file is.
measure() {
    measure_all=$(cat)
    emit sizes "$(
        {
            measure_list /submit/attempt.1 | measure_find 'began %T@ 0 %H\n' -maxdepth 0
            measure_list /src /logs /bundle /state /submit /provenance | measure_find '%C@ %s 0 %H\n' -type f
        } | awk '
            { place = $0; sub(/^[^ ]+ [^ ]+ [^ ]+ /, "", place) }
            $1 == "began" { sub(/\/submit\/attempt\.1$/, "", place); began[place] = $2 + 0; next }
            {
                kind = place; sub(/.*\//, "", kind); sub(/\/[^\/]*$/, "", place)
                if (kind == "src" && !((place in began) && $1 <= began[place])) kind = "out"
                if (kind != "src" && kind != "out" && kind != "logs") kind = "scripts"
                size[kind, place] += $2; seen[place] = 1
            }
            END {
                for (place in seen)
                    printf "%.0f %.0f %.0f %.0f %s\n", size["src", place], size["logs", place],
                        size["out", place], size["scripts", place], place
            }'
    )"
}

# measure_list PART...: these parts of each directory that is none of a link, for xargs -0.
measure_list() {
    printf '%s\n' "$measure_all" | while IFS= read -r measure_one; do
        if [ -d "$measure_one" ] && ! [ -L "$measure_one" ]; then
            for measure_part; do
                printf '%s\0' "$measure_one$measure_part"
            done
        fi
    done
}

# measure_find FORMAT WORD...: one find for as many paths of standard input as it takes.
measure_find() {
    # shellcheck disable=SC2016  # for the inner shell
    xargs -0 -r sh -c '
        format=$1 words=$2
        shift 2
        exec find -P "$@" -xdev $words -printf "$format"' sh "$1" "$2 ${3-}" 2>/dev/null
}

# look_for_live COMMAND...: keeps what the scheduler says of jobs that have not ended, one a line:
# state, a separator, and what tells whose it is. Fails if the scheduler does not answer.
look_for_live() {
    if ! live=$(timeout 15 "$@" </dev/null 2>&1); then
        emit failed "$live"
        return 1
    fi
    live=$(printf '%s\n' "$live" | grep -Ev \
        '^(BOOT_FAIL|CANCELLED|COMPLETED|DEADLINE|FAILED|NODE_FAIL|OUT_OF_MEMORY|PREEMPTED|REVOKED|TIMEOUT)[^A-Z_]')
    return 0
}

# prune DIRECTORY TOKEN MARK PART...: remove these parts of a run: sources, logs, outputs, scripts (with what the job recorded).
prune() (
    emit run "$1"
    if [ -L "$1" ] || ! enter "$1" "$2"; then
        emit missing yes
        exit 0
    fi
    if printf '%s\n' "$live" | grep -qF -e "$3" -e "$(pwd -P)"; then
        emit live yes
        exit 0
    fi
    prune_name=$(basename -- "$1")
    shift 3
    prune_said=$(for part; do "prune_$part"; done 2>&1)
    case " $* " in
    *' scripts '*)
        if ! [ -e src ] && ! [ -L src ]; then
            rm -f -- run.json TOKEN && cd .. && rmdir -- "$prune_name"
        fi
        ;;
    esac
    emit said "$(printf '%s' "$prune_said" | head -c 1000)"
    emit gone "$([ -e "../$prune_name" ] && echo no || echo yes)"
)

# prune_src TEST...: the files of src/ that pass a test of find, and folders that are empty then.
prune_src() {
    if [ -e src ] || [ -L src ]; then
        find -P src -xdev -depth ! -type d "$@" -delete
        find -P src -xdev -depth -type d -empty -delete
    fi
}

prune_sources() {
    if [ -L submit/attempt.1 ]; then
        prune_src ! -cnewer submit/attempt.1
    fi
}

prune_outputs() {
    if [ -L submit/attempt.1 ]; then
        prune_src -cnewer submit/attempt.1
    else
        prune_src
    fi
}

prune_logs() {
    if [ -e logs ] || [ -L logs ]; then
        find -P logs -xdev -depth -delete
    fi
}

prune_scripts() {
    find -P . -xdev -mindepth 1 -depth ! -path ./src ! -path './src/*' ! -path ./logs \
        ! -path './logs/*' ! -path ./TOKEN ! -path ./run.json -delete
}
