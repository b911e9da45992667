# shellcheck shell=sh
# emit_limits ACCOUNT QOS: what the account (the user's default if empty) and QOS may use, one line of fields each:
# the user's association with the account, the account, those above it, and the QOS. Needs common.sh before it.
emit_limits() {
    JG_ACCOUNT=$1 JG_QOS=$2 JG_USER=$(id -un)
    export JG_ACCOUNT JG_QOS JG_USER
    emit limits "$(timeout 10 scontrol -o show assoc_mgr flags=assoc,qos 2>/dev/null | awk '
        function field(name) { return match($0, " " name "=[^ ]*") ? substr($0, RSTART + length(name) + 2, RLENGTH - length(name) - 2) : "" }
        function keep(line) { if (n++ < 20) print line }
        /^QOS=/ && ENVIRON["JG_QOS"] != "" && index($0, "QOS=" ENVIRON["JG_QOS"] "(") == 1 { keep($0) }
        /^ClusterName=/ {
            account = field("Account")
            user = field("UserName")
            if (user == "") {
                whole[account] = $0
                above[account] = field("ParentAccount")
                sub(/\(.*/, "", above[account])
            } else if (index(user, ENVIRON["JG_USER"] "(") == 1 && field("Partition") == "" &&
                (ENVIRON["JG_ACCOUNT"] == "" ? field("DefAssoc") == "Yes" : account == tolower(ENVIRON["JG_ACCOUNT"]))) {
                first = account
                keep($0)
            }
        }
        END {
            for (account = first; account in whole && deep++ < 10; account = above[account]) keep(whole[account])
        }')"
}
