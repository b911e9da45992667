# shellcheck shell=sh
# array_limits.sh ACCOUNT QOS: how large a job array may be, how many jobs the account (the user's default if empty)
# and QOS may have, and how many they have. Needs common.sh and account_limits.sh before it.
clean_environment
ask config scontrol show config
emit_limits "$1" "$2"
