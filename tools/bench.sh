#!/bin/sh
# make bench: compiler and simulator benchmarks, then the daemon's latencies through ipuctl. $1: build folder.
set -eu
build=$1
"$build/bench"
work=$(mktemp -d)
daemon=
trap '[ -n "$daemon" ] && kill "$daemon" 2>/dev/null; wait 2>/dev/null; rm -rf "$work"' EXIT
export IPUD_SOCKET="$work/ipud.sock"
"$build/ipud" --state-dir "$work/state" --socket "$IPUD_SOCKET" --device sim 2>"$work/log" &
daemon=$!
until "$build/ipuctl" ping >/dev/null 2>&1; do
    kill -0 "$daemon" || { cat "$work/log" >&2; exit 1; }
    sleep 0.05
done
"$build/ipuctl" workload siglip-mlp --batch 1 --tokens 17 --dim 64 --hidden 128 --blocks 3 --tiles 64 -o "$work/w.pb"
"$build/ipuctl" submit "$work/w.pb" >/dev/null 2>&1
for _ in 1 2 3 4 5 6 7 8 9; do
    start=$(date +%s%N)
    "$build/ipuctl" submit "$work/w.pb" >/dev/null 2>&1
    end=$(date +%s%N)
    echo $(((end - start) / 1000))
done | sort -n | sed -n 5p | awk '{printf "bench=daemon cachedSubmitMs=%.1f target=50\n", $1 / 1000}'
