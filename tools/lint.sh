#!/bin/sh
# clang-format, module layering, file sizes, then clang-tidy over every source of the project. $1: build folder with generated headers.
set -u
build=${1:-build}
status=0
sources=$(git ls-files '*.c' '*.h' | grep -v '\.def$')

for tool in clang-format clang-tidy; do
    command -v $tool >/dev/null 2>&1 || { echo "lint: $tool is missing; run: apt-get install clang-format clang-tidy" >&2; exit 1; }
done
# shellcheck disable=SC2086
clang-format --dry-run --Werror $sources || status=1

# Nothing runs back up: the simulator and the driver know no compiler, the compiler knows no simulator, the client only proto.
forbid() {
    if grep -nE "#include \"($2)" $(git ls-files "$1" | grep '\.[ch]$') 2>/dev/null; then
        echo "lint: $1 may not include $2" >&2
        status=1
    fi
}
forbid 'device/**' 'compiler/|daemon/|client/'
forbid 'compiler/**' 'device/sim/|device/driver/|daemon/|client/'
forbid 'client/**' 'compiler/|daemon/|device/|schema/'
forbid 'base/**' 'proto/|device/|compiler/|daemon/|client/|schema/'

for f in $sources; do
    lines=$(wc -l <"$f")
    [ "$lines" -le 800 ] || { echo "lint: $f has $lines lines, more than 800" >&2; status=1; }
done

make --no-print-directory BUILD="$build" "$build/gen/proto/.stamp" "$build/gen/build_id.h" >/dev/null || exit 1
flags="-std=c17 -D_GNU_SOURCE -I. -I$build/gen $(pkg-config --cflags libprotobuf-c libuv sqlite3 libelf libcrypto libzstd openblas libsystemd check)"
git ls-files '*.c' | xargs -P "$(nproc)" -n 8 sh -c 'flags=$0; clang-tidy --quiet "$@" -- $flags 2>/dev/null' "$flags" >"$build/tidy.log" || status=1
if grep -qE 'warning:|error:' "$build/tidy.log"; then
    cat "$build/tidy.log"
    status=1
fi
[ $status -eq 0 ] && echo "lint: clean"
exit $status
