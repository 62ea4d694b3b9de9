#!/bin/sh
# The commands of ipuctl against a real daemon: exit codes, data on stdout alone, JSON of each, Ctrl-C. $1: build folder.
. tests/integration/common.inc

# --- without a daemon ---
expect 5 "$ipuctl" ping
silent_stdout
one_sentence 'no ipud answers at'
expect 5 "$ipuctl" submit tests/integration/common.inc
silent_stdout
ok "an unreachable daemon: exit code 5, one sentence"

for arguments in "" "frobnicate" "--frobnicate ping" "status x" "status 0" "submit" "submit a b" "result" "profile 1" "package 1" \
    "workload" "workload gemm" "workload frob -o -" "workload gemm --tiles 63 -o -" "workload gemm --rows 0 -o -" \
    "workload mlp --activation tanh -o -" "workload gemm --profile some -o -" "submit --priority 21 x"; do
    # shellcheck disable=SC2086
    expect 2 "$ipuctl" $arguments
    silent_stdout
    [ -s "$work/err" ] || fail "no word about: $arguments"
done
ok "wrong usage: exit code 2, nothing on stdout"

for command in submit status watch cancel log result profile package cache search device info ping workload; do
    expect 0 "$ipuctl" "$command" --help
    printed "^usage: ipuctl .*$command"
    silent_stderr
done
expect 0 "$ipuctl" --help
printed '6 cancelled'
expect 0 "$ipuctl" --man
printed '^ipuctl\(1\)'
ok "--help of each command goes to stdout, exit code 0"

# --- jobs ---
start_daemon
workload good
expect 0 "$ipuctl" submit --detach --name first "$work/good.pb"
silent_stderr
job=$(cat "$work/out")
[ "$job" = 1 ] || fail "the job number is $job"
expect 0 "$ipuctl" watch "$job"
printed '^workload=good .*executionTiles=64 .* cycles=[0-9]+ '
printed '^package=[0-9a-f]{64} tiles=1472 device=sim deviceTest=PASS$'
said '^done$'
[ "$(wc -l <"$work/out")" = 3 ] || fail "stdout is not the three result lines"
mv "$work/out" "$work/results"
ok "submit --detach prints the job, watch shows its three result lines on stdout and its states on stderr"

expect 0 "$ipuctl" status "$job"
printed '^state +done'
printed '^name +first'
expect 0 "$ipuctl" status
printed '1 +0? *[0-9]+ .*done|done'
silent_stderr
expect 0 "$ipuctl" log "$job"
printed ' INFO lower_mid '
printed ' INFO .*loading application .*tile_count=1472'
silent_stderr
grep -Evq '^[0-9T:.-]+Z +(DEBUG|INFO|WARN|ERROR) ' "$work/out" && fail "a line of the log is no log line"
ok "status and log print data alone"

expect 0 "$ipuctl" submit "$work/good.pb"
said 'cached package'
expect 0 "$ipuctl" cache stats
hits=$(awk '$1 == "package" { print $4 }' "$work/out")
[ "$hits" -ge 1 ] || fail "the second submission did not come from the cache"
expect 0 "$ipuctl" submit --no-cache "$work/good.pb"
! grep -q 'cached package' "$work/err" || fail "--no-cache took a cached package"
ok "a second submission comes from the cache, --no-cache does not"

for arguments in "status 1" "status" "watch 1" "log 1" "result 1" "profile 1 --summary" "cache stats" "cache list" "cache verify" \
    "cache explain 1" "search list" "info" "ping" "cancel 1" "submit $work/good.pb" "submit --detach $work/good.pb"; do
    # shellcheck disable=SC2086
    expect 0 "$ipuctl" --json $arguments
    silent_stderr
    json_lines
done
ok "--json of every command is JSON, one value a line, with a silent stderr"

key=$("$ipuctl" search list | awk '$5 == "good" { print $1 }')
[ -n "$key" ] || fail "no search state"
attempts=$("$ipuctl" search list | awk '$5 == "good" { print $3 }')
[ "$attempts" -gt 0 ] || fail "the search state counts no attempts"
full=$("$ipuctl" --json search list | sed 's/.*"key":"\([0-9a-f]*\)".*/\1/')
expect 0 "$ipuctl" search show "$full"
printed '^workload good$'
expect 0 "$ipuctl" --json search show "$full"
json_lines
expect 0 "$ipuctl" search drop "$full"
expect 2 "$ipuctl" search show "$full"
silent_stdout
ok "search list, show and drop"

expect 0 "$ipuctl" cache verify
printed '^objects=[1-9][0-9]* bytes=[1-9][0-9]* damaged=0$'
expect 0 "$ipuctl" cache explain "$job"
printed 'compiler_build'
printed 'search_key'
expect 2 "$ipuctl" cache gc
expect 0 "$ipuctl" cache gc --all
expect 0 "$ipuctl" cache stats
printed '^total 0 of '
expect 0 "$ipuctl" submit "$work/good.pb"
tail -n 1 "$work/out" | grep -q 'deviceTest=PASS$' || fail "no pass after the caches were emptied"
ok "cache verify, explain and gc; a job passes with emptied caches"

expect 2 "$ipuctl" cache gc --target 5X
said 'expects bytes, such as'
expect 0 "$ipuctl" cache gc --target 8K
expect 0 "$ipuctl" --json cache stats
python3 -c 'import json, sys; sys.exit(json.load(open(sys.argv[1]))["bytes"] > 8192)' "$work/out" || fail "more than 8 KiB are left"
ok "cache gc takes sizes with suffixes"

expect 0 "$ipuctl" status -n 2
said 'there are earlier jobs: --before [0-9]+ shows them'
before=$(sed -n 's/.*--before \([0-9]*\) .*/\1/p' "$work/err")
expect 0 "$ipuctl" status -n 2 --before "$before"
[ "$(awk 'NR == 2 { print $1 }' "$work/out")" -eq $((before - 1)) ] || fail "the next page does not begin with job $((before - 1))"
ok "many jobs are listed page by page"

expect 0 "$ipuctl" device selftest
[ "$(grep -c ' passed ' "$work/out")" -eq 8 ] || fail "not every step passed"
silent_stderr
expect 0 "$ipuctl" --json device selftest
json_lines
[ "$(grep -c '"outcome":"SELFTEST_PASSED"' "$work/out")" -eq 8 ] || fail "not every step passed"
expect 2 "$ipuctl" device frob
expect 0 "$ipuctl" submit "$work/good.pb"
ok "device selftest: eight steps pass, and the device runs jobs again"

if [ "$(id -u)" -eq 0 ] && command -v setpriv >/dev/null; then
    cp "$ipuctl" "$work/ipuctl"
    chmod 755 "$work" "$work/ipuctl"
    expect 5 setpriv --reuid 65534 --regid 65534 --clear-groups "$work/ipuctl" ping
    one_sentence 'your user may not use the ipud at'
    said 'start your own with'
    chown :daemon "$IPUD_SOCKET"
    chmod 660 "$IPUD_SOCKET"
    expect 5 setpriv --reuid 65534 --regid 65534 --clear-groups "$work/ipuctl" ping
    one_sentence 'it has to be in the group daemon'
    expect 0 setpriv --reuid 65534 --regid 65534 --groups 1 "$work/ipuctl" ping
    chmod 600 "$IPUD_SOCKET"
    ok "a user who is not in the group is told so, a member is served"

    mkdir "$work/home"
    chown 65534 "$work/home"
    cp "$build/ipud" "$work/ipud"
    chmod 755 "$work/ipud"
    env -u IPUD_SOCKET -u XDG_STATE_HOME -u XDG_RUNTIME_DIR HOME="$work/home" \
        setpriv --reuid 65534 --regid 65534 --clear-groups "$work/ipud" 2>>"$work/ipud.log" &
    others=$!
    mine() { env -u IPUD_SOCKET -u XDG_STATE_HOME -u XDG_RUNTIME_DIR HOME="$work/home" setpriv --reuid 65534 --regid 65534 --clear-groups "$@"; }
    poll "the daemon of an ordinary user" mine "$work/ipuctl" ping
    chmod 644 "$work/good.pb"
    mine "$work/ipuctl" submit "$work/good.pb" >"$work/out" 2>"$work/err" || fail "the user's job does not pass"
    printed 'deviceTest=PASS$'
    [ -S "$work/home/.local/state/ipud/ipud.sock" ] || fail "the socket is not in the user's state directory"
    kill -TERM "$others"
    wait "$others" || fail "the user's daemon ended with exit code $?"
    others=
    ok "a user without root has a daemon with the default paths"
fi

for arguments in "status 4711" "watch 4711" "log 4711" "result 4711" "package 4711 -o -" "cancel 4711" "cache explain 4711" \
    "search show feed" "cache frob" "search frob"; do
    # shellcheck disable=SC2086
    expect 2 "$ipuctl" $arguments
    silent_stdout
    [ "$(wc -l <"$work/err")" = 1 ] || fail "not one sentence"
done
ok "what does not exist: exit code 2, one sentence"

# --- interrupts ---
# Files that are polled are emptied first: the shell truncates them for a background command at some later moment.
workload long
state_is() { "$ipuctl" --json status "$1" | grep -q "\"state\":\"$2\""; }
: >"$work/err"
"$ipuctl" submit "$work/long.pb" >"$work/out" 2>"$work/err" &
others=$!
poll "the long job to compile" grep -q compiling "$work/err"
newest=$("$ipuctl" --json status --limit 1 | sed 's/[^0-9]*\([0-9]*\).*/\1/')
kill -INT "$others"
code=0
wait "$others" || code=$?
others=
[ $code -eq 6 ] || fail "Ctrl-C ended the client with exit code $code"
said "interrupted, job $newest cancelled"
poll "the job to be cancelled" state_is "$newest" JOB_CANCELLED
ok "Ctrl-C cancels the job: exit code 6"

"$ipuctl" submit --detach "$work/long.pb" >"$work/out"
job=$(cat "$work/out")
: >"$work/err"
"$ipuctl" watch "$job" >"$work/out" 2>"$work/err" &
others=$!
poll "the watcher" grep -q compiling "$work/err"
kill -INT "$others"
wait "$others" || fail "leaving a watch is no failure"
said 'left; the job goes on'
for state in JOB_CANCELLED JOB_FAILED JOB_DONE; do
    ! state_is "$job" $state || fail "leaving a watch touched the job: $state"
done
"$ipuctl" watch "$job" >"$work/out" 2>"$work/err" &
others=$!
expect 0 "$ipuctl" cancel "$job"
code=0
wait "$others" || code=$?
others=
[ $code -eq 6 ] || fail "the watcher of a cancelled job ended with $code"
ok "a watcher may leave; one that stays ends with exit code 6 when the job is cancelled"

: >"$work/err"
"$ipuctl" submit "$work/long.pb" >"$work/out" 2>"$work/err" &
others=$!
poll "the long job to compile" grep -q compiling "$work/err"
newest=$("$ipuctl" --json status --limit 1 | sed 's/[^0-9]*\([0-9]*\).*/\1/')
kill -9 "$others"
wait "$others" 2>/dev/null || :
others=
poll "the job of the killed client to be cancelled" state_is "$newest" JOB_CANCELLED
ok "a client that is killed takes its job with it"

expect 2 sh -c "'$ipuctl' result 1 >/dev/full; '$ipuctl' workload gemm -o - >/dev/full"
said 'cannot write'
ok "a full standard output is told"
stop_daemon
expect 5 "$ipuctl" info
ok "after SIGTERM the daemon is gone and the client says so"
