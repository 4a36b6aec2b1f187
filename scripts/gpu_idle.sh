#!/bin/sh
# Waits until the boards are idle: no compute process, no utilisation, a power draw that has settled. Whatever else runs
# on a board is measured along with the model.
# Usage: sh scripts/gpu_idle.sh [MINUTES]   (default 10)   ECO_GPUS: the boards, as for mlcube: all, or device=1
# Exit status: 0 idle; 2 usage; 3 still busy, or no board answers. One sentence says which.
set -eu
export LC_ALL=C
every=2     # seconds between two looks
same=5      # looks in a row that must agree
slack_pct=5 # by which power may differ between them,
slack_w=3   # or this much: a small board idles at 5 W and the sensor has steps

say() { printf '%s\n' "ecocompute: $1" >&2; }

minutes=${1:-10}
case $minutes in
'' | *[!0-9]*)
    say "usage: gpu_idle.sh [MINUTES], in whole minutes, not '$minutes'."
    exit 2
    ;;
esac
boards=$(printf '%s' "${ECO_GPUS:-all}" | tr -d "\"'") # two boards are written with quotes for two shells
boards=${boards#device=}

ask() {
    if [ "$boards" = all ]; then
        nvidia-smi "$1" --format=csv,noheader,nounits
    else
        nvidia-smi "$1" --format=csv,noheader,nounits --id="$boards"
    fi
}

# Why the looks so far do not show idle boards; nothing if they do.
trouble() {
    printf '%s\n' "$seen" | awk -F ' *, *' -v same="$same" -v pct="$slack_pct" -v watts="$slack_w" '
        function tell(text) { if (!told) print text; told = 1 }
        { looks[$1]++ }
        $2 + 0 > 0 { tell("board " $1 " is in use (" $2 + 0 " %)") }
        $3 ~ /^[0-9.]+$/ {
            if (!($1 in low) || $3 + 0 < low[$1]) low[$1] = $3 + 0
            if (!($1 in high) || $3 + 0 > high[$1]) high[$1] = $3 + 0
        }
        END {
            for (board in high) {
                slack = high[board] * pct / 100
                if (high[board] - low[board] > (slack > watts ? slack : watts))
                    tell("the power draw of board " board " has not settled (" low[board] " to " high[board] " W)")
            }
            for (board in looks) if (looks[board] < same) tell("board " board " was idle for a moment only")
        }'
}

look=0
seen=
while :; do
    if ! processes=$(ask --query-compute-apps=pid) || ! now=$(ask --query-gpu=index,utilization.gpu,power.draw) ||
        [ -z "$now" ]; then
        say "nvidia-smi shows no board '$boards' here; its own words are above."
        exit 3
    fi
    if [ -n "$processes" ]; then
        seen= # what it draws on its way down counts for nothing
        why="process $(printf '%s' "$processes" | head -n 1) computes on a board"
    else
        count=$(printf '%s\n' "$now" | wc -l)
        seen=$(printf '%s\n%s\n' "$seen" "$now" | sed '/^$/d' | tail -n $((same * count)))
        why=$(trouble)
    fi
    [ -n "$why" ] || break
    look=$((look + 1))
    if [ "$look" -ge $((minutes * 60 / every + same)) ]; then
        say "not idle after $minutes minutes: $why."
        exit 3
    fi
    sleep "$every"
done
say "idle: $(printf '%s\n' "$now" | tr '\n' ';' | sed 's/;$//; s/;/; /g') (board, %, W)."
