#!/bin/sh
# Runs the tests in BUILD ($1) and ends with one line "N passed, M failed". $2: quick (unit tests), all, or long.
# A unit test is a libcheck program; a script test (tests/integration/*.sh BUILD) passes with exit code 0 and may print more
# "ok - ..." lines, each of which counts as a passed check.
set -u
build=$1
mode=${2:-all}
passed=0
failed=0
log=$(mktemp)
trap 'rm -f "$log"' EXIT

start=$(date +%s)
for test in "$build"/tests/*_test; do
    [ -x "$test" ] || continue
    began=$(date +%s)
    CK_FORK=${CK_FORK:-yes} IPUD_TEST_LEVEL=$mode "$test" >"$log" 2>&1
    code=$?
    line=$(grep -aE '^[0-9]+%: Checks: [0-9]+, Failures: [0-9]+, Errors: [0-9]+' "$log" | tail -n 1)
    checks=$(printf '%s' "$line" | sed -n 's/.*Checks: \([0-9]*\),.*/\1/p')
    bad=$(printf '%s' "$line" | sed -n 's/.*Failures: \([0-9]*\), Errors: \([0-9]*\).*/\1 \2/p' | awk '{print $1 + $2}')
    if [ -z "$checks" ]; then
        checks=1
        bad=1
    elif [ $code -ne 0 ] && [ "$bad" -eq 0 ]; then
        bad=1
    fi
    passed=$((passed + checks - bad))
    failed=$((failed + bad))
    if [ "$bad" -gt 0 ]; then
        echo "FAILED $(basename "$test") ($bad of $checks, exit $code):"
        tail -n 40 "$log"
    else
        echo "ok $(basename "$test") ($checks checks, $(($(date +%s) - began)) s)"
    fi
done

if [ "$mode" != quick ]; then
    for script in tests/integration/*.sh; do
        [ -f "$script" ] || continue
        began=$(date +%s)
        IPUD_TEST_LEVEL=$mode sh "$script" "$build" >"$log" 2>&1
        code=$?
        count=$(grep -ac '^ok ' "$log")
        [ "$count" -gt 0 ] || count=1
        if [ $code -eq 0 ]; then
            passed=$((passed + count))
            echo "ok $(basename "$script") ($count checks, $(($(date +%s) - began)) s)"
        else
            failed=$((failed + 1))
            echo "FAILED $(basename "$script") (exit $code):"
            tail -n 40 "$log"
        fi
    done
fi
echo "took $(($(date +%s) - start)) s"
echo "$passed passed, $failed failed"
[ $failed -eq 0 ] && [ $passed -gt 0 ]
