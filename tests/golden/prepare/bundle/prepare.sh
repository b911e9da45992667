#!/bin/bash
# Runs once per node, outside a container, before the program: job.yaml:12.
# shellcheck disable=SC1090,SC1091  # the cluster's files are not available here
# shellcheck disable=SC2016,SC2317,SC2329  # names of variables are shown, a trap calls setup_failed
set -uo pipefail
node=${SLURMD_NODENAME:-$HOSTNAME}
die() { printf 'jobgen: %s: %s\n' "$node" "$2" >&2; record_end "$1" "$2"; exit "$1"; } # CODE TEXT
# record_end CODE TEXT: record why no rank starts, like the exit of a rank: srun may drop a node's last output.
record_end() {
    local record=$JOBGEN_STATE_DIR/events/$JOBGEN_RESTART.$node.node${SLURM_LOCALID:-0} why=${2%%$'\n'*}
    (($1)) && mkdir -p "${record%/*}" && [[ ! -e $record ]] || return # the first failure counts
    why=${why//[[:cntrl:]]/ } why=${why//%/%25} why=${why// /%20}
    printf '%s\n' "v=1 time=$(date +%s.%N) kind=exit node=$node rank=- code=$1 signal=0 why=$why" >"$record"
}
trap 'record_end "$?" ""' EXIT
# ---- Stage: data for the node's own disk ---------------------------------------------------------
# stage SOURCE FOLDER: bring it into a directory of this node; a marker, written last, says that it is whole.
stage() {
    local source=$1 folder=$2 id part marker stamp need free said lock
    [[ -r $source ]] || die 96 "stage failed: $source does not exist, or cannot be read"
    said=$(mkdir -p "$folder" 2>&1) || die 96 "stage failed: $said"
    id=$(printf '%s' "$source" | sha256sum | cut -c 1-16)
    part=$folder/.part-$id marker=$folder/.staged-$id stamp=$(stat -Lc '%s %Y' "$source")
    { exec {lock}>"$folder/.lock-$id" && flock "$lock"; } || die 96 "stage failed: cannot lock $folder"
    if [[ -O $marker && $(<"$marker") == "$stamp" ]]; then
        printf 'jobgen: %s is in %s on %s already\n' "$source" "$folder" "$node" >&2
        exec {lock}>&-
        return
    fi
    rm -rf "$part" "$marker" # of a start that did not come to its end
    # an archive needs at least its own size
    if [[ $source == *.zip ]]; then
        need=$(unzip -l "$source" | awk 'END { print int($1 / 1024) }')
    else
        need=$(du -skL --apparent-size "$source" | cut -f 1)
    fi
    free=$(df -Pk "$folder" | awk 'END { print $4 }')
    ((${need:-0} <= ${free:-0})) ||
        die 96 "stage failed: $source needs at least $((need / 1024)) MiB in $folder, which has $((free / 1024)) MiB free"
    said=$(mkdir "$part" 2>&1 && unpack 2>&1) || fail_stage "$said"
    # links instead of copies: merges with what other sources have brought
    said=$(cp -alf "$part/." "$folder" 2>&1) || fail_stage "$said"
    rm -rf "$part"
    printf '%s\n' "$stamp" >"$marker" || die 96 "stage failed: cannot write $marker"
    exec {lock}>&-
    printf 'jobgen: %s is in %s on %s\n' "$source" "$folder" "$node" >&2
}
# fail_stage TEXT: with the tool's first line, the cause; what was unpacked would keep the disk full
fail_stage() {
    rm -rf "$part"
    die 96 "stage failed: $source: ${1%%$'\n'*}"
}
# unpack: an archive, or a copy of a directory's content or of a file
unpack() {
    if [[ -d $source ]]; then
        cp -a "$source/." "$part"
    elif [[ $source =~ \.(tar|tar\.[a-z0-9]+|tgz|tbz2?|txz|tzst)$ ]]; then
        tar -xf "$source" -C "$part" --no-same-owner
    elif [[ $source == *.zip ]]; then
        unzip -q "$source" -d "$part"
    else
        cp "$source" "$part"
    fi
}
[[ -n ${SLURM_TMPDIR:-} ]] || die 96 'stage failed: $SLURM_TMPDIR is not set here; name a directory of the node, such as /tmp/$USER/data'
stage /data/corpus.tar.gz "${SLURM_TMPDIR}/corpus"
# ---- Setup: a failing line ends the job, unless it ends in || true -----------------------------
setup_failed() {
    local code=$?
    # ignore failures inside the site's own files
    [[ ${#BASH_SOURCE[@]} -gt 2 ]] || die "$code" "setup failed: $1"
}
trap 'setup_failed "$BASH_COMMAND"' ERR
# job.yaml:9
module load enroot
mkdir -p /tmp/spool
trap - ERR
exit 0
