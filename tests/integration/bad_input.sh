#!/bin/sh
# Every bad input through the real daemon and client: one clear sentence, the right exit code, nothing else disturbed. $1: build folder.
. tests/integration/common.inc

# refused KIND CODE SENTENCE: the workload is refused with that one sentence, prints no data, and the daemon goes on.
refused() {
    workload "$1"
    expect "$2" "$ipuctl" submit "$work/$1.pb"
    silent_stdout
    one_sentence "$3"
    still_serves "$1"
    ok "$1: exit code $2, one sentence, an ordinary job passes afterwards"
}

workload good
start_daemon
still_serves "the start"
ok "an ordinary job passes"

refused shape-mismatch 2 'matmul .up.*\[3, 5\].*\[4, 7\]'
refused unknown-operation 2 'operation 0.*unknown operation.*matmul'
refused f8 2 '\(x\).*f8 is not supported'
refused dangling 2 'matmul .up.*value 77.*not defined'
refused cyclic 2 'matmul .up.*value 3.*not defined'
refused tiles-63 2 'tiles is 63.*multiple of 64 from 64 to 1472'
refused tiles-1536 2 'tiles is 1536.*multiple of 64 from 64 to 1472'
refused nan 2 'input x: element 1087 is NaN'
refused infinity 2 'input x: element 1087 is NaN or infinite'
refused nested 2 'more than 64 nested messages'
refused random 2 'malformed message'
refused no-fit 3 'matmul up.*no layout fits.*needs [0-9]+ bytes.*has [0-9]+'
refused compile-timeout 4 '^compiling took longer than its limit'

for size in 1 20 47 70 89; do
    head -c $size "$work/good.pb" >"$work/truncated.pb"
    expect 2 "$ipuctl" submit "$work/truncated.pb"
    silent_stdout
    one_sentence '^(workload|input|parameter|operation).*: '
done
still_serves "truncated files"
ok "a file cut at 5 places: exit code 2, one sentence"

: >"$work/empty.pb"
expect 2 "$ipuctl" submit "$work/empty.pb"
one_sentence 'is empty'
expect 2 "$ipuctl" submit "$work/absent.pb"
one_sentence 'absent.pb: No such file'
expect 2 "$ipuctl" submit "$work"
one_sentence 'cannot read'
ok "empty, absent and unreadable files: exit code 2, one sentence"

workload strict
expect 1 "$ipuctl" submit "$work/strict.pb"
printed 'deviceTest=FAIL$'
one_sentence '^output y: relative RMS error .* above the tolerance 1e-09'
still_serves "a failed check"
ok "a tolerance of 1e-9 fails the check: exit code 1, result lines with deviceTest=FAIL"

expect 0 "$hostile" peer "$IPUD_SOCKET" huge-length
still_serves "a frame of 2 GiB"
ok "a length prefix of 2 GiB is refused and the connection closed"
expect 0 "$hostile" peer "$IPUD_SOCKET" random
still_serves "random bytes on the socket"
ok "random bytes on the socket: the connection closes"

connections() {
    "$ipuctl" --json info | grep -q "\"connections\":$1,"
}
mkfifo "$work/hold"
"$hostile" peer "$IPUD_SOCKET" mid-upload <"$work/hold" >"$work/peer" &
peer=$!
others=$peer
exec 3>"$work/hold"
poll "half an upload" grep -q uploading "$work/peer"
kill -9 $peer
wait $peer 2>/dev/null || :
poll "the connection of the killed client to go" connections 1
still_serves "a client killed in the middle of an upload"
"$ipuctl" --json cache list --kind workload >"$work/out"
! grep -q '"bytes":1048576' "$work/out" || fail "half an upload was kept"
ok "a client killed in the middle of an upload leaves nothing behind"

"$hostile" peer "$IPUD_SOCKET" never-read 1 <"$work/hold" >"$work/peer" 3>&- &
others=$!
poll "a client that never reads" grep -q asked "$work/peer"
still_serves "a client that never reads"
bytes=$("$ipuctl" --json info | sed 's/.*"memory_bytes":\([0-9]*\).*/\1/')
[ "$bytes" -lt $((512 << 20)) ] || fail "the daemon has grown to $bytes bytes"
exec 3>&-
wait "$others" || fail "the client that never reads was not served: exit code $?"
others=
poll "its connection to go" connections 1
ok "60 watches that are never read disturb nobody"

expect 1 "$build/ipud" --state-dir "$work/state" --socket "$work/second.sock" --device sim
one_sentence 'state'
still_serves "a second ipud on the same state directory"
ok "a second ipud on the same state directory: one sentence, the first goes on"

stop_daemon
"$hostile" damage "$work/state/ipud.db"
start_daemon
expect 0 "$ipuctl" submit --no-cache "$work/good.pb"
printed 'deviceTest=PASS$'
damaged=$("$ipuctl" cache stats | awk '$1 == "kernel" { print $6 }')
[ "$damaged" -gt 0 ] || fail "no damaged kernel was counted"
expect 0 "$ipuctl" --json cache verify
printed '"damaged":0'
ok "kernels damaged in the database are rebuilt and counted, the result is right"
stop_daemon
ok "SIGTERM ends the daemon with exit code 0"
