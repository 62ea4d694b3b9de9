#!/bin/sh
# ipu-run's eyes for kernel writers: --trace, --watch, --stop-at. $1: build folder.
. tests/integration/common.inc

start_daemon
"$ipuctl" workload mlp --rows 17 --dim 64 --hidden 128 --tiles 64 -o "$work/w.pb"
expect 0 "$ipuctl" submit "$work/w.pb"
expect 0 "$ipuctl" package 1 -o "$work/p.ipuexe"
expect 0 "$build/ipu-run" "$work/p.ipuexe"
cp "$work/out" "$work/plain"
cycles=$(sed -n 's/^cycles=\([0-9]*\) .*/\1/p' "$work/plain")
silent_stderr

expect 0 "$build/ipu-run" "$work/p.ipuexe" --trace 5
printed "^cycles=$cycles "
grep -Eq '^[0-9]+ tile 5 supervisor 0x[0-9a-f]{5} (\([a-z_0-9+]+\) )?runall ' "$work/err" || fail "no launch in the trace"
grep -Eq '^[0-9]+ tile 5 worker [0-5] 0x[0-9a-f]{5} \(gemm[a-z_0-9]*\+0x[0-9a-f]+\) .*f16v4hihov4amp' "$work/err" || fail "no AMP in the trace"
grep -Evq '^[0-9]+ tile 5 ' "$work/err" && fail "something else than tile 5 is in its trace"
for worker in 0 1 2 3 4 5; do
    grep -q "tile 5 worker $worker .* exitz" "$work/err" || fail "worker $worker never exits"
done
ok "a trace shows every context of the tile and changes no cycle"

lines=$(wc -l <"$work/err")
expect 0 "$build/ipu-run" "$work/p.ipuexe" --trace 5:supervisor --trace 9:supervisor
grep -q 'worker' "$work/err" && fail "a worker is in the trace of supervisors"
grep -q '^[0-9]* tile 9 supervisor' "$work/err" || fail "tile 9 is not traced"
[ "$(wc -l <"$work/err")" -lt "$lines" ] || fail "two supervisors issue more than a whole tile"
ok "contexts and tiles can be chosen"

expect 0 "$build/ipu-run" "$work/p.ipuexe" --trace 5:supervisor
cursor=$(sed -n 's/.*(rt_sample+0x8) ld32 .*| $m2=\(0x[0-9a-f]*\)$/\1/p' "$work/err" | head -1)
cell=$(printf '0x%x' $((0x4c000 + cursor)))
expect 0 "$build/ipu-run" "$work/p.ipuexe" --trace 5:1 --watch "$cell" --watch 0x5800c
printed "^cycles=$cycles "
grep -Eq "^[0-9]+ tile 5 watch $cell: 0x[0-9a-f]{8} -> 0x[0-9a-f]{8} by worker 0 at 0x[0-9a-f]{5} \(rt_sample\+0x24\)$" "$work/err" ||
    fail "the store of a sample was not seen: $(grep watch "$work/err" | head -3)"
grep -Eq '^[0-9]+ tile 5 watch 0x5800c: .* by supervisor at 0x[0-9a-f]{5} \(rt_sample\+0x14\)$' "$work/err" || fail "the cursor was not seen to move"
ok "a watched word tells who wrote it, where and when"

stop=$(sed -n '200s/^\([0-9]*\) .*/\1/p' "$work/err")
expect 0 "$build/ipu-run" "$work/p.ipuexe" --trace 5 --stop-at "$stop"
silent_stdout
grep -q "^stopped at cycle $stop$" "$work/err" || fail "it did not say that it stopped"
sed -n "/^stopped/,\$p" "$work/err" | grep -Eq '^    \$m0=0x[0-9a-f]+ \$m1=' || fail "no registers"
late=$(sed '/^stopped/,$d' "$work/err" | awk -v stop="$stop" '$1 >= stop' | wc -l)
[ "$late" = 0 ] || fail "$late instructions were issued at or after the stop"
ok "a run stops at the cycle that was asked for and shows the registers"

for bad in '--trace 1472' '--trace 5:6' '--trace five' '--watch 0x58001' '--watch 0x40000' '--watch nothing' '--stop-at -1' '--stop-at 0'; do
    # shellcheck disable=SC2086
    expect 2 "$build/ipu-run" "$work/p.ipuexe" $bad
    silent_stdout
done
ok "bad tiles, addresses and cycles are refused with exit code 2"
