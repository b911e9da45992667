# shellcheck shell=sh
# code_folder FOLDER: where a directory is, its commit, how many files differ from it, and the digest of what differs.
# Needs common.sh before it.
code_folder() {
    cd -- "$1" 2>/dev/null || return 1
    emit path "$(pwd)"
    commit=$(read_git rev-parse HEAD) || return 0
    emit commit "$commit"
    changed=$(read_git diff --name-only HEAD -- . | wc -l)
    emit changed "$changed"
    diff=$(read_git diff --no-ext-diff --no-textconv HEAD -- . | sha256sum)
    emit diff "${diff%% *}"
}

read_git() {
    timeout 20 git --no-optional-locks -c safe.directory='*' -c core.fsmonitor=false "$@" 2>/dev/null
}
