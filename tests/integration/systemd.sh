#!/bin/sh
# The units: accepted by systemd-analyze verify without a word, exposure at most 1.5, and the traps that would hide the clients or the
# device are not set. $1: build folder.
set -eu
build=$(cd "$1" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

for unit in ipud.service ipud.socket; do
    sed "s|/usr/bin/ipud|$build/ipud|" "systemd/$unit" >"$work/$unit"
done
said=$(SYSTEMD_UNIT_PATH="$work:" systemd-analyze verify --man=no "$work/ipud.service" "$work/ipud.socket" 2>&1) || {
    echo "$said"
    exit 1
}
[ -z "$said" ] || {
    echo "systemd-analyze verify says: $said"
    exit 1
}
echo "ok - systemd-analyze verify is silent"

line=$(systemd-analyze security --offline=true "$work/ipud.service" 2>/dev/null | grep 'Overall exposure')
exposure=$(printf '%s' "$line" | sed 's/.*: \([0-9.]*\) .*/\1/')
awk "BEGIN { exit !($exposure <= 1.5) }" || {
    echo "exposure is $exposure"
    exit 1
}
echo "ok - exposure is $exposure"

if grep -Eq '^(PrivateUsers|PrivateDevices)=(yes|true|1)' systemd/ipud.service; then
    echo "PrivateUsers= makes every client nobody, PrivateDevices= hides /dev/ipu0"
    exit 1
fi
grep -q '^DeviceAllow=/dev/ipu0 rw' systemd/ipud.service
grep -q '^WatchdogSec=' systemd/ipud.service
grep -q '^Type=notify' systemd/ipud.service
echo "ok - clients and device stay visible, readiness and watchdog are used"

# Socket activation as systemd does it: the socket is inherited, the daemon takes no file of its own.
command -v systemd-socket-activate >/dev/null
systemd-socket-activate --listen="$work/act.sock" "$build/ipud" --state-dir "$work/state" --device sim 2>"$work/log" &
daemon=$!
trap 'kill $daemon 2>/dev/null; wait $daemon 2>/dev/null; rm -rf "$work"' EXIT
tries=0
until [ -S "$work/act.sock" ]; do
    tries=$((tries + 1))
    [ $tries -lt 200 ]
    sleep 0.05
done
"$build/ipuctl" --socket "$work/act.sock" ping >/dev/null
echo "ok - a socket of systemd is served"
