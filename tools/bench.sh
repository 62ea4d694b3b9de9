#!/bin/sh
# make bench: compiler and simulator benchmarks, then the daemon's latencies through ipuctl, on an idle machine and with every
# core kept busy by something else. Medians of 15. $1: build folder; $2 = daemon: only the latter part.
set -eu
build=$1
[ "${2:-all}" = daemon ] || "$build/bench"
work=$(mktemp -d)
daemon=
burners=
finish() {
    for pid in $burners $daemon; do
        kill "$pid" 2>/dev/null || :
    done
    wait 2>/dev/null || :
    rm -rf "$work"
}
trap finish EXIT
export IPUD_SOCKET="$work/ipud.sock"
"$build/ipud" --state-dir "$work/state" --socket "$IPUD_SOCKET" --device sim 2>"$work/log" &
daemon=$!
until "$build/ipuctl" ping >/dev/null 2>&1; do
    kill -0 "$daemon" || { cat "$work/log" >&2; exit 1; }
    sleep 0.05
done
"$build/ipuctl" workload siglip-mlp --batch 1 --tokens 17 --dim 64 --hidden 128 --blocks 3 --tiles 64 -o "$work/w.pb"
"$build/ipuctl" submit "$work/w.pb" >/dev/null 2>&1

median() { sort -n | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }

# microseconds COMMAND...: wall time of each of 15 runs, from the start of the process to its end.
microseconds() {
    for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15; do
        start=$(date +%s%N)
        "$@" >/dev/null 2>&1 || exit 1
        end=$(date +%s%N)
        echo $(((end - start) / 1000))
    done
}

# What the daemon itself takes: from the commit of the job to that of its outcome, without and with the device's part.
inside() {
    "$build/ipuctl" --json status -n 15 | tr '{' '\n' | awk -F'[:,]' '{
        for (i = 1; i < NF; i++) {
            if ($i == "\"submitted_us\"") s = $(i + 1)
            if ($i == "\"finished_us\"") f = $(i + 1)
            if ($i == "\"run_ms\"") print (f - s) / 1000 - ($(i + 1)), (f - s) / 1000
        }
    }'
}

report() { # condition
    microseconds "$build/ipuctl" submit "$work/w.pb" >"$work/submit"
    inside >"$work/inside"
    microseconds "$build/ipuctl" ping >"$work/ping"
    printf 'bench=daemon cores=%s cachedSubmitMs=%.1f target=50 jobMs=%.1f withoutDeviceMs=%.2f pingMs=%.1f\n' "$1" \
        "$(median <"$work/submit" | awk '{ print $1 / 1000 }')" "$(awk '{ print $2 }' "$work/inside" | median)" \
        "$(median <"$work/inside")" "$(median <"$work/ping" | awk '{ print $1 / 1000 }')"
}

report idle
cores=$(getconf _NPROCESSORS_ONLN)
i=0
while [ "$i" -lt "$cores" ]; do
    sh -c 'while :; do :; done' &
    burners="$burners $!"
    i=$((i + 1))
done
report busy
for pid in $burners; do
    kill "$pid" 2>/dev/null || :
done
burners=
for _ in 1 2 3 4 5; do
    "$build/ipuctl" submit --no-cache --log --debug "$work/w.pb" 2>&1 >/dev/null | sed -n 's/.*kernel cache hit .*elapsed_us=\([0-9]*\)$/\1/p'
done >"$work/hits"
[ -s "$work/hits" ] || { echo "bench: no kernel came from the cache" >&2; exit 1; }
printf 'bench=daemon kernelCacheHitMs=%.3f target=0.2 hits=%d\n' "$(median <"$work/hits" | awk '{ print $1 / 1000 }')" \
    "$(wc -l <"$work/hits")"
