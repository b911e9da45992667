#!/bin/bash
# Runs once per start, on the first node, before the program: before: in job.yaml:7.
# shellcheck disable=SC1090,SC1091,SC2016,SC2046,SC2086  # unchanged from the job file
node=${SLURMD_NODENAME:-$HOSTNAME}
die() { printf 'jobgen: %s: %s\n' "$node" "$2" >&2; exit "$1"; } # CODE TEXT
cd "$JOBGEN_WORK_DIR" || die 96 'the working directory does not exist on this node'
# ---- Setup: a failing line ends the job, unless it ends in || true -----------------------------
setup_failed() {
    local code=$?
    # ignore failures inside the site's own files
    [[ ${#BASH_SOURCE[@]} -gt 2 ]] || die "$code" "setup failed: $1"
}
trap 'setup_failed "$BASH_COMMAND"' ERR
# job.yaml:6
source .venv/bin/activate
trap - ERR
# ---- Commands: a failing one is the last, unless it ends in || true -----------------------------
set -o pipefail
trap 'die "$?" "before failed: $BASH_COMMAND"' ERR
python tokenize_corpus.py --out $SCRATCH/tokens
