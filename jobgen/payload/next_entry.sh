# shellcheck shell=sh disable=SC2154
# next_entry.sh: of a race, the next entry stands in for one that Slurm refuses. submit.sh sources it after it has asked
# for the first entry, with that command. submit/race.NUMBER holds the options of an entry (and words of its shape, which
# are not for sbatch: bundle/race.NUMBER has its scripts). submit/entry is the number
# of the one that was asked for last, if that is not the first; submit/.failed has "NUMBER WHY" of each refused one.
# shellcheck disable=SC1091
. submit/refusals.sh

# ask_entry NUMBER WORD...: the command with the options of this entry in the place of those of the first one
ask_entry() {
    chosen=$1
    shift
    for word; do
        shift
        ! grep -q -x -F -e "$word" submit/race.0 || continue
        if [ "$word" = bundle/job.sbatch ]; then
            while IFS= read -r option; do
                case $option in
                --*) set -- "$@" "$option" ;;
                esac
            done <"submit/race.$chosen"
            [ ! -e "bundle/race.$chosen/job.sbatch" ] || word=bundle/race.$chosen/job.sbatch
        fi
        set -- "$@" "$word"
    done
    ask "$@"
}

number=0 reasons=''
while is_refused "$code" "submit/err.$attempt"; do
    why=$(tr '\n' ' ' <"submit/err.$attempt")
    printf '%s %.200s\n' "$number" "$why" >>submit/.failed
    reasons="$reasons$(tr '\n' ',' <"submit/race.$number" | sed 's/--//g; s/,$//'): $why
"
    number=$((number + 1))
    if [ ! -s "submit/race.$number" ]; then
        # nobody takes it: each answer
        printf '%s' "$reasons" >"submit/err.$attempt"
        break
    fi
    printf '%s\n' "$number" >submit/entry || break
    : >"submit/err.$attempt"
    ask_entry "$number" "$@"
    code=$?
done
