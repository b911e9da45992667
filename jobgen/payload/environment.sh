#!/bin/bash
# environment.sh: record the packages and modules of rank 0's program with its own Python. rank.sh starts it
# beside the program; it is killed with rank.sh and given up after a minute.
exec </dev/null &>/dev/null
interpreter=$(sed -nE 's/^(exec )?([^ ]*python[0-9.]*) .*/\2/p;T;q' "$JOBGEN_BUNDLE_DIR/program.sh")
interpreter=$(command -v "$interpreter" || command -v python || command -v python3)
watched=(setpriv --pdeathsig KILL)
"${watched[@]}" true || watched=()
exec "${watched[@]}" timeout --foreground 60 "${watched[@]}" nice "$interpreter" \
    "$JOBGEN_RUN_DIR/submit/program_environment.py" "$JOBGEN_STATE_DIR/environment.$JOBGEN_RESTART"
