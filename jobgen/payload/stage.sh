# shellcheck shell=sh
# stage ROOT FOLDER TOKEN NONCE: take the run directory as a tar on standard input, check it, and
# give it its name in one step. Whoever comes second with the same token finds it done.
stage_fail() {
    emit failed "$1"
    emit free "$(df -Pk -- "$stage_root" 2>/dev/null | tail -n 1)"
    cat >/dev/null
    if [ -n "$stage_part" ]; then
        rm -rf -- "$stage_part"
    fi
    exit 1
}

# stage_needs FOLDER HINT: the code of a job that uploads none.
stage_needs() {
    if ! [ -d "$1" ]; then
        emit failed "there is no directory $1 on $(uname -n)"
        emit hint "$2"
        exit 1
    fi
}

stage_same() {
    [ -e "$1/TOKEN" ] && [ "$(cat -- "$1/TOKEN" 2>/dev/null)" = "$stage_token" ]
}

# stage_guard: whoever may write to a directory above can put another one in the place of the run
# directory and wait for the job to start, unless a sticky bit forbids it.
stage_guard() {
    stage_at=$stage_root
    while :; do
        case $(stat -c %A -- "$stage_at") in
        ????????w[!tT]*)
            stage_fail "everyone may write to $stage_at, which has no sticky bit, and replace what lies in it"
            ;;
        ?????w???[!tT]*) emit shared "$stage_at" ;;
        *)
            # the sticky bit does not bind the owner
            stage_owner=$(stat -c %u -- "$stage_at")
            [ "$stage_owner" = 0 ] || [ "$stage_owner" = "$(id -u)" ] || emit shared "$stage_at"
            ;;
        esac
        [ "$stage_at" != / ] || break
        stage_at=$(dirname -- "$stage_at")
    done
}

stage() {
    stage_root=$1 stage_folder=$2 stage_token=$3 stage_part=''
    case $stage_root in
    /*) ;;
    *) stage_fail "not an absolute path: $stage_root" ;;
    esac
    said=$(mkdir -p -- "$stage_root" 2>&1) || stage_fail "$said"
    cd -- "$stage_root" || stage_fail "cannot enter $stage_root"
    stage_root=$(pwd -P)
    stage_guard
    emit now "$(date +%s)"
    emit directory "$stage_root/$stage_folder"
    if [ -e "$stage_folder" ] || [ -L "$stage_folder" ]; then
        stage_same "$stage_folder" || stage_fail "$stage_root/$stage_folder is there already, of another run"
        cat >/dev/null
        emit staged again
        return
    fi
    # what a cut connection left behind more than a day ago
    find . -maxdepth 1 -type d -name '*-????????.part-*' -mmin +1440 -exec rm -rf -- {} + 2>/dev/null
    stage_new=$stage_folder.part-$4
    # a default ACL of the root sets umask aside, -m does not
    said=$(mkdir -m 700 -- "$stage_new" 2>&1) || stage_fail "$said"
    stage_part=$stage_root/$stage_new
    trap 'rm -rf -- "$stage_part"; exit 1' HUP INT TERM
    # GNU tar reads 10 KiB at a time otherwise; another tar does not look at the variable
    said=$(TAR_OPTIONS=--blocking-factor=512 tar -x -m -f - -C "$stage_new" --no-same-owner --no-same-permissions 2>&1) || stage_fail "$said"
    stage_same "$stage_new" || stage_fail 'the upload arrived incomplete: its TOKEN is missing'
    [ -f "$stage_new/MANIFEST.sha256" ] || stage_fail 'the upload arrived incomplete: its MANIFEST is missing'
    # The connection authenticates every byte and tar tells of every failed write: to read a large
    # src/ once more would take longer than to send it. What Slurm is given is small, and read again.
    stage_sums=$(grep '^[0-9a-f]*  bundle/' "$stage_new/MANIFEST.sha256")
    if [ -n "$stage_sums" ]; then
        said=$(cd -- "$stage_new" && printf '%s\n' "$stage_sums" | sha256sum --quiet --strict -c - 2>&1) ||
            stage_fail "the upload arrived damaged: $said"
    fi
    mkdir -p -- "$stage_new/submit" "$stage_new/state" "$stage_new/logs" "$stage_new/src" ||
        stage_fail 'cannot make the folders of the run'
    said=$(sync -f -- "$stage_new/TOKEN" 2>&1) || stage_fail "$said"
    if ! said=$(mv -T -- "$stage_new" "$stage_folder" 2>&1); then
        stage_same "$stage_folder" || stage_fail "$said"
        rm -rf -- "$stage_part"
    fi
    emit staged new
}
