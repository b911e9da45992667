#!/bin/bash
# attach.sh INSIDE RUN PIDS RUNTIME LABEL [WORD...]: on a node of a running job, run a command (default: a
# shell) as INSIDE, a script, has it: in the container of a rank, if the job has one.
inside=$1 run=$2 pids=$3 runtime=$4 label=$5
shift 5
say() { printf 'jobgen: %s\n' "$*" >&2; }
outside() {
    say "cannot enter the container${1:+: $1}: this runs outside of it, without the environment of its ranks"
    pid='' enter=()
}
pid=$(cat "$pids" 2>/dev/null) enter=()
[[ $pid =~ ^[0-9]+$ ]] || pid=''
case $runtime in
'') ;;
docker | podman)
    # ranks of a container have other process ids outside of it
    filters=(--filter "volume=$run")
    part=${pids##*/} # STEP@NODE.RANK, of a step or a group
    [[ $part != *@* ]] || filters+=(--filter "label=jobgen.step=${part%%@*}")
    container=$("$runtime" ps --quiet "${filters[@]}" | head -n 1)
    if [[ -n $container ]]; then
        enter=("$runtime" exec --interactive)
        [[ ! -t 0 ]] || enter+=(--tty)
        enter+=("$container")
    else
        outside "$runtime lists none that mounts $run"
    fi
    ;;
*)
    same() { [[ $(readlink "/proc/$pid/ns/$1") == "$(readlink "/proc/self/ns/$1")" ]]; }
    if [[ -z $pid || ! -r /proc/$pid/environ ]]; then
        outside 'no rank runs in it on this node'
    elif same user; then
        outside 'its runtime was installed with root permissions'
    else
        enter=(nsenter --target "$pid" --user --mount --preserve-credentials --)
        "${enter[@]}" bash -c : 2>/dev/null || outside 'nsenter is not permitted'
    fi
    ;;
esac
exec "${enter[@]}" bash -c "$inside" jobgen "$run" "$pid" "$label" "$@"
