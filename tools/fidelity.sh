#!/bin/sh
# The simulator against hardware measurements. $1: build folder. Prints the table and brings the one in docs/MACHINE.md up to date,
# or, with IPU_FIDELITY_CHECK=1, fails when that table is not what the simulator gives.
set -eu
build=${1:-build}
page=docs/MACHINE.md
table=$(mktemp)
new=$(mktemp)
trap 'rm -f "$table" "$new"' EXIT
"$build/fidelity"
"$build/fidelity" --markdown >"$table"
awk -v table="$table" '
    /^<!-- fidelity: end/ { inside = 0 }
    !inside { print }
    /^<!-- fidelity: begin/ {
        inside = 1
        print ""
        while ((getline line < table) > 0) print line
        print ""
    }' "$page" >"$new"
cmp -s "$new" "$page" && exit 0
if [ "${IPU_FIDELITY_CHECK:-0}" = 1 ]; then
    echo "fidelity: the table in $page is not what the simulator gives; run make fidelity and commit it" >&2
    exit 1
fi
cat "$new" >"$page"
echo "fidelity: brought the table in $page up to date"
