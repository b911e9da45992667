# shellcheck shell=sh
# monitored DIRECTORY: what the monitors of one run wrote, summed up on this side: of the newest
# start of each task, a line for each node and a line for each GPU, in frames "monitor". Each byte
# is read once, by one awk; of many nodes only the newest part of each file, 128 MiB in all. The last
# frame is "summed yes".
monitored() {
    if ! cd -- "$1" 2>/dev/null; then
        emit missing "$1"
        return 0
    fi
    if ! command -v awk >/dev/null; then
        emit unread 'awk is not on PATH there'
        return 0
    fi
    for task in state/*; do
        newest=-1
        for folder in "$task"/monitor.*; do
            number=${folder##*.}
            case $number in
            '' | *[!0-9]* | ???????*) ;;
            *) if [ -d "$folder" ] && [ "$number" -gt "$newest" ]; then newest=$number; fi ;;
            esac
        done
        if [ "$newest" -ge 0 ]; then
            monitored_files "$task/monitor.$newest"
        fi
    done
    emit summed yes
}

monitored_files() {
    files=$(find "$1" -maxdepth 1 -name '*.csv' | wc -l)
    [ "$files" -gt 0 ] || files=1
    share=$((134217728 / files))
    [ "$share" -lt 4194304 ] || share=4194304
    if summed=$(
        {
            find "$1" -maxdepth 1 -name '*.csv' -exec tail -v -c "$share" -- {} + 2>/dev/null &&
                printf "\ncomplete\n"
        } | timeout 30 awk -F, "$monitored_awk"
    ); then
        emit monitor "$summed"
    else
        emit unread 'the files of the monitor could not be read whole, or not in half a minute'
    fi
    if [ -s "$1/log" ]; then
        emit complaints "$(tail -c 4096 -- "$1/log")"
    fi
}

# The columns: time gpu util mem mem_total temp power power_limit sm sm_max mem_clock throttle
# load cpu host host_total rx tx rdma_rx rdma_tx
# shellcheck disable=SC2016  # the dollars are for awk
monitored_awk='
function say(name, value) { if (value != "") printf " %s=%s", name, value }
function whole(value) { return value == "" ? "" : sprintf("%.0f", value) }
function mean(sum, n) { return n > 0 ? sprintf("%.2f", sum / n) : "" }
function rate(sum) { return span > 0 ? sprintf("%.0f", sum / span) : "" }
function top(id, column) { if ($column != "" && (!((id, column) in most) || $column + 0 > most[id, column])) most[id, column] = $column + 0 }
function sum(id, column) { if ($column != "") { total[id, column] += $column; seen[id, column]++ } }
function grown(name, column) {
    if ($column == "") return
    if (name in before && $column - before[name] > 0) moved[name] += $column - before[name]
    if (!(name in moved)) moved[name] = 0
    before[name] = $column
}
function tell(id, column) { return (id, column) in most ? whole(most[id, column]) : "" }
function flush(   id, i, n, part, word, words) {
    if (node != "" && samples > 0) {
        printf "node %s samples=%d first=%.0f last=%.0f", node, samples, last - span, last
        say("load", mean(total["host", 13], seen["host", 13]))
        say("cpu", mean(total["host", 14], seen["host", 14]))
        say("mem", tell("host", 15)); say("mem_total", tell("host", 16))
        for (word in moved) say(word, rate(moved[word]))
        printf "\n"
        for (id in count) {
            printf "gpu %s %s samples=%d", node, id, count[id]
            n = seen[id, 3]
            if (n > 0) {
                say("util", mean(total[id, 3], n))
                part = 0
                for (i = 0; i <= 100; i++) { part += hist[id, i]; if (part >= n / 10) break }
                say("p10", i)
                printf " idle=%d", idle[id]
            }
            say("mem", tell(id, 4)); say("mem_total", tell(id, 5)); say("temp", tell(id, 6))
            say("power", mean(total[id, 7], seen[id, 7])); say("limit", tell(id, 8))
            say("clock", mean(busy[id], work[id])); say("clock_max", tell(id, 10))
            n = split(reasons[id], words, "+")
            for (i = 1; i <= n; i++) if (words[i] != "") printf " by.%s=%d", words[i], why[id, words[i]]
            split(newest[id], words, ",")
            printf " at=%s", words[1]
            say("now.util", words[3]); say("now.mem", words[4]); say("now.temp", words[6])
            say("now.power", words[7]); say("now.clock", words[9]); say("now.by", words[12])
            printf "\n"
        }
    }
    node = ""; samples = 0; span = 0; last = 0
    split("", count); split("", most); split("", total); split("", seen); split("", hist)
    split("", idle); split("", busy); split("", work); split("", reasons); split("", why)
    split("", newest); split("", before); split("", moved)
}
$0 == "complete" { complete = 1; next }
/^==> .* <==$/ { flush(); node = $0; sub(/ <==$/, "", node); sub(/^.*\//, "", node); sub(/\.csv$/, "", node); next }
NF != 20 || $1 + 0 < 1000000000 || $1 !~ /^[0-9]+$/ { next }
# a clock that is set back takes no time
{ if (last && $1 > last) span += $1 - last; last = $1 + 0 }
$2 == "host" {
    samples++
    sum("host", 13); sum("host", 14); top("host", 15); top("host", 16)
    grown("rx", 17); grown("tx", 18); grown("rdma_rx", 19); grown("rdma_tx", 20)
    next
}
$2 ~ /^[0-9]+$/ {
    id = $2; count[id]++
    if ($3 != "") {
        sum(id, 3); hist[id, int($3)]++
        if ($3 < 5) idle[id]++
        else if ($9 != "") { busy[id] += $9; work[id]++ }
    }
    top(id, 4); top(id, 5); top(id, 6); sum(id, 7); top(id, 8); top(id, 10)
    if ($12 != "") {
        n = split($12, found, "+")
        for (i = 1; i <= n; i++) if (!why[id, found[i]]++) reasons[id] = reasons[id] "+" found[i]
    }
    newest[id] = $0
}
END { flush(); exit !complete }
'
