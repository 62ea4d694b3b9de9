#!/bin/sh
# The main job on the simulated device: starts a daemon in a temporary directory, submits the three-block SigLIP MLP twice and shows
# both result lines and the time of the second, cached submission. $1: build folder.
set -eu
build=$1
work=$(mktemp -d)
daemon=
cleanup() {
    [ -n "$daemon" ] && kill "$daemon" 2>/dev/null && wait "$daemon" 2>/dev/null
    rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

export IPUD_SOCKET="$work/ipud.sock"
"$build/ipud" --state-dir "$work/state" --socket "$IPUD_SOCKET" --device sim 2>"$work/ipud.log" &
daemon=$!
tries=0
until "$build/ipuctl" ping >/dev/null 2>&1; do
    tries=$((tries + 1))
    if [ $tries -gt 200 ] || ! kill -0 "$daemon" 2>/dev/null; then
        echo "the daemon did not start:" >&2
        cat "$work/ipud.log" >&2
        exit 5
    fi
    sleep 0.05
done

"$build/ipuctl" workload siglip-mlp --batch 1 --tokens 17 --dim 64 --hidden 128 --blocks 3 --tiles 64 -o "$work/workload.pb"
echo "== first submission: plan, compile, load, run on 1,472 simulated tiles, check, profile"
"$build/ipuctl" submit --log "$work/workload.pb"
echo "== second submission: from the caches"
start=$(date +%s%N)
"$build/ipuctl" submit "$work/workload.pb"
end=$(date +%s%N)
echo "== second submission took $(((end - start) / 1000000)) ms; caches:"
"$build/ipuctl" cache stats
echo "== where the cycles go: every step of every tile sampled, predicted beside measured"
"$build/ipuctl" workload siglip-mlp --batch 1 --tokens 17 --dim 64 --hidden 128 --blocks 3 --tiles 64 --profile full \
    -o "$work/full.pb"
job=$("$build/ipuctl" submit --detach "$work/full.pb")
"$build/ipuctl" watch "$job" >/dev/null 2>&1
"$build/ipuctl" profile "$job" --summary
