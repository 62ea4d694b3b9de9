#!/bin/sh
# Builds every tests/fuzz/*_fuzz.c with libFuzzer, ASan and UBSan and runs each for FUZZ_SECONDS (60).
# The first line of a target names the module that it tests; it links the libraries up to that
# module. Corpora grow in build-fuzz/corpus/NAME and what was found lies in build-fuzz/found/NAME.
# One line a target; fails when any crashed, leaked, hung (10 s for an input) or passed 2 GiB.
# Arguments: names of targets; none = all.
set -u
cd "$(dirname "$0")/.." || exit 1
build="build-fuzz"
seconds=${FUZZ_SECONDS:-60}
clang=${FUZZ_CC:-clang}
command -v "$clang" >/dev/null && "$clang" -print-file-name=libclang_rt.fuzzer-x86_64.a | grep -q / ||
    sh tools/install-deps.sh clang libclang-rt-14-dev || exit 1
packages=$(sed -n 's/^PKGS *:= //p' Makefile)
modules=$(sed -n '/^MODULES/,/[^\\]$/p' Makefile | sed 's/^MODULES *:=//; s/\\$//' | tr '\n' ' ')
sanitize=address,undefined

# The libraries of the modules up to $1.
libraries() {
    for module in $modules; do
        printf '%s/lib/%s.a ' "$build" "$(printf '%s' "$module" | tr / _)"
        [ "$module" = "$1" ] && return 0
    done
    echo "there is no module $1" >&2
    return 1
}

build_target() { # name
    source=tests/fuzz/$1_fuzz.c
    module=$(sed -n '1s,^/\* module: \([a-z0-9/]*\) \*/$,\1,p' "$source")
    [ -n "$module" ] || { echo "$source does not name its module in its first line"; return 1; }
    libs=$(libraries "$module") || return 1
    # shellcheck disable=SC2086,SC2046 # lists of words
    make --no-print-directory -j"${FUZZ_JOBS:-$(nproc)}" BUILD=$build CC="$clang" SAN="$sanitize,fuzzer-no-link" \
        OPT="-O1 -g -fno-math-errno -ffp-contract=off" $libs &&
        "$clang" -std=c17 -O1 -g -Wall -Wextra -Wshadow -Wconversion -Werror -D_GNU_SOURCE -I. -I$build/gen \
            -fsanitize=fuzzer,$sanitize -fno-sanitize-recover=all -fno-omit-frame-pointer \
            $(pkg-config --cflags $packages) -o "$build/$1_fuzz" "$source" \
            -Wl,--start-group $libs -Wl,--end-group $(pkg-config --libs $packages) -lm -pthread
}

run_target() { # name
    corpus=$build/corpus/$1 found=$build/found/$1 log=$build/$1_fuzz.log
    mkdir -p "$corpus" "$found"
    began=$(find "$found" -type f | wc -l)
    FUZZ_SEEDS=$corpus "$build/$1_fuzz" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -malloc_limit_mb=1024 \
        -max_len=65536 -print_final_stats=1 -artifact_prefix="$found/" "$corpus" >"$log" 2>&1
    code=$?
    inputs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
    coverage=$(sed -n 's/.* cov: \([0-9]*\) .*/\1/p' "$log" | tail -n 1)
    # A slow unit is a finding as well, though libFuzzer goes on.
    [ "$(find "$found" -type f ! -name 'slow-unit-*' | wc -l)" -le "$began" ] || [ $code -ne 0 ] || code=1
    if [ $code -eq 0 ] && [ "${inputs:-0}" -gt 0 ]; then
        echo "ok $1: $inputs inputs in $seconds s, $coverage edges"
        return 0
    fi
    echo "FAILED $1 (exit $code): $(grep -aE -m 1 'ERROR: |runtime error: |SUMMARY: ' "$log"); see $log and $found/"
    tail -n 25 "$log"
    return 1
}

# shellcheck disable=SC2046 # a list of words
[ $# -gt 0 ] || set -- $(ls tests/fuzz/*_fuzz.c | sed 's,.*/,,; s,_fuzz\.c$,,')
failed=0
mkdir -p $build
for name in "$@"; do
    build_target "$name" >"$build/$name.build.log" 2>&1 || {
        echo "FAILED $name: does not build:"
        tail -n 20 "$build/$name.build.log"
        failed=$((failed + 1))
        continue
    }
    run_target "$name" || failed=$((failed + 1))
done
echo "$(($# - failed)) passed, $failed failed"
[ $failed -eq 0 ]
