#!/bin/sh
# The real programs together: submit, cache, bad input, deaths, restart. $1: build folder.
set -u
build=$(cd "$1" && pwd)
work=$(mktemp -d)
daemon=
stop() {
    [ -n "$daemon" ] && kill "$daemon" 2>/dev/null && wait "$daemon" 2>/dev/null
    rm -rf "$work"
}
trap stop EXIT
fail() {
    echo "FAILED: $1"
    [ -f "$work/out" ] && cat "$work/out"
    tail -n 20 "$work/log"
    exit 1
}
export IPUD_SOCKET="$work/sock"

start() {
    "$build/ipud" --state-dir "$work/state" --socket "$IPUD_SOCKET" --device sim --workers 1 2>>"$work/log" &
    daemon=$!
    tries=0
    until "$build/ipuctl" ping >/dev/null 2>&1; do
        tries=$((tries + 1))
        [ $tries -lt 400 ] || fail "the daemon does not answer"
        sleep 0.05
    done
}
child() { # process id of the daemon's child of that name
    for entry in /proc/[0-9]*; do
        name=$(cat "$entry/cmdline" 2>/dev/null | tr '\0' ' ' | cut -d' ' -f1)
        parent=$(sed 's/.*) . \([0-9]*\) .*/\1/' "$entry/stat" 2>/dev/null)
        if [ "$name" = "$1" ] && [ "$parent" = "$daemon" ]; then
            basename "$entry"
            return
        fi
    done
}

start
"$build/ipuctl" workload gemm --rows 17 --inner 64 --columns 48 --tiles 64 -o "$work/gemm.pb" || fail "no workload"
"$build/ipuctl" submit "$work/gemm.pb" >"$work/out" 2>"$work/err" || fail "the gemm did not pass: $(cat "$work/err")"
grep -q '^workload=.* cycles=[1-9]' "$work/out" || fail "no result line"
grep -q '^package=.* tiles=1472 device=sim deviceTest=PASS$' "$work/out" || fail "no verdict"
cycles=$(sed -n 's/^workload=.* cycles=\([0-9]*\).*/\1/p' "$work/out")
echo "ok - a gemm compiles, runs and passes in $cycles cycles"

"$build/ipuctl" submit "$work/gemm.pb" >"$work/out" 2>"$work/err" || fail "the second submission did not pass"
grep -q "cached package" "$work/err" || fail "the second submission was compiled again: $(cat "$work/err")"
again=$(sed -n 's/^workload=.* cycles=\([0-9]*\).*/\1/p' "$work/out")
[ "$cycles" = "$again" ] || fail "cached run took $again cycles, the first $cycles"
echo "ok - the second submission comes from the cache, with the same cycles"

"$build/ipuctl" package 1 -o "$work/gemm.ipuexe" || fail "no package"
"$build/ipu-run" "$work/gemm.ipuexe" --strict >"$work/out" 2>&1 || fail "ipu-run refuses the package"
grep -q "cycles=$cycles\b" "$work/out" || fail "ipu-run counts other cycles than the daemon's $cycles"
echo "ok - ipu-run executes the fetched package in the same cycles"

head -c 3000 /dev/urandom >"$work/noise.pb"
"$build/ipuctl" submit "$work/noise.pb" >"$work/out" 2>"$work/err"
code=$?
[ $code = 2 ] || fail "random bytes gave exit code $code: $(cat "$work/err")"
"$build/ipuctl" ping >/dev/null || fail "the daemon does not answer after random bytes"
echo "ok - random bytes are one invalid workload"

"$build/ipud" --state-dir "$work/state" --socket "$work/sock2" 2>"$work/err"
[ $? = 1 ] || fail "a second daemon was not refused"
[ "$(wc -l <"$work/err")" = 1 ] && grep -q "already serving the state directory" "$work/err" ||
    fail "the refusal is not one sentence: $(cat "$work/err")"
echo "ok - a second daemon on the state directory is refused with one sentence"

"$build/ipuctl" workload mlp --rows 33 --dim 96 --hidden 160 --tiles 128 -o "$work/mlp.pb" || fail "no workload"
job=$("$build/ipuctl" submit --detach "$work/mlp.pb") || fail "no job"
kill -9 "$daemon"
wait "$daemon" 2>/dev/null
start
"$build/ipuctl" watch "$job" >"$work/out" 2>"$work/err" || fail "job $job was lost by kill -9: $(cat "$work/err")"
echo "ok - a job that was accepted before kill -9 is finished after the restart"

kill -9 "$(child ipud-device)" "$(child ipud-compile)"
"$build/ipuctl" submit "$work/gemm.pb" >"$work/out" 2>"$work/err" || fail "no recovery from dead children: $(cat "$work/err")"
echo "ok - killed workers come back"

kill -TERM "$daemon"
wait "$daemon"
[ $? = 0 ] || fail "the daemon did not end well"
daemon=
[ ! -e "$IPUD_SOCKET" ] || fail "the socket was left behind"
echo "ok - SIGTERM ends the daemon with status 0"
