# shellcheck shell=sh
# ROOT NAME=VALUE...: the disk of the run directories, tried with a small folder that goes again.
# Every step is told before it is made, so that the one that hangs is known.
root=$1
shift
for variable; do
    case $variable in
    *=) printf 'unset %s\n' "${variable%=}" && exit 0 ;;
    esac
done
printf 'root %s\n' "$root"
case $root in
/*) ;;
*) printf 'relative %s\n' "$root" && exit 0 ;;
esac

printf 'doing look\n'
at=$root
while [ ! -d "$at" ]; do
    if [ -e "$at" ]; then
        printf 'file %s\n' "$at"
        exit 0
    fi
    at=$(dirname -- "$at")
done
printf 'at %s\n' "$at"
above=$(cd -- "$at" && pwd -P)
while :; do
    case $(stat -c %A -- "$above") in
    ????????w[!tT]*) printf 'everyone %s\n' "$above" ;;
    ?????w???[!tT]*) printf 'group %s\n' "$above" ;;
    *)
        case $(stat -c %u -- "$above") in
        0 | "$(id -u)") ;;
        *) printf 'owner %s\n' "$above" ;;
        esac
        ;;
    esac
    [ "$above" != / ] || break
    above=$(dirname -- "$above")
done
printf 'doing type\n'
printf 'type %s\n' "$(stat -f -c %T -- "$at" 2>/dev/null)"
printf 'doing free\n'
printf 'free %s\n' "$(df -Pk -- "$at" 2>/dev/null | tail -n 1)"
printf 'inodes %s\n' "$(df -Pi -- "$at" 2>/dev/null | tail -n 1)"

printf 'doing write\n'
tried=$at/.jobgen-doctor.$(uname -n).$$
trap 'rm -rf -- "$tried"' EXIT
trap 'exit 1' HUP INT TERM
if ! said=$(mkdir -m 700 -- "$tried" 2>&1); then
    printf 'refused %s\n' "$said"
    exit 0
fi
if ! said=$({ head -c 65536 /dev/zero >"$tried/file"; } 2>&1); then
    printf 'unwritten %s\n' "$said"
    exit 0
fi
said=$(sync -f -- "$tried/file" 2>&1) || printf 'unsynced %s\n' "$said"
said=$(ln -sT here "$tried/link" 2>&1) || printf 'unlinked %s\n' "$said"
printf '#!/bin/sh\nexit 0\n' >"$tried/program" && chmod 700 "$tried/program"
"$tried/program" 2>/dev/null || printf 'noexec\n'

if [ "$at" = "$root" ]; then
    printf 'doing list\n'
    half='[a-z2-7][a-z2-7][a-z2-7][a-z2-7]'
    printf 'runs %s\n' "$(find "$root/" -maxdepth 1 -type d -name "*-$half$half" 2>/dev/null | wc -l)"
fi
printf 'doing nothing\n'
