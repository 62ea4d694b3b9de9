#!/bin/sh
# Style and static analysis over every source of the project: clang-format, the rules of
# tools/lint-style.awk, shellcheck where it is installed, then clang-tidy over what changed since it
# last passed (tools/tidy.sh). $1: build folder.
set -u
build=${1:-build}
status=0
sources=$(git ls-files '*.c' '*.h')

for tool in clang-format clang-tidy clang; do
    command -v $tool >/dev/null 2>&1 || {
        echo "lint: $tool is missing; run: apt-get install clang clang-format clang-tidy" >&2
        exit 1
    }
done
echo "$sources" | xargs -P "$(nproc)" -n 32 clang-format --dry-run --Werror || status=1

modules=$(sed -n '/^MODULES/,/[^\\]$/{s/^MODULES *:=//;s/\\$//;p}' Makefile | tr '\n' ' ')
mains=$(sed -n '/^MAINS/,/[^\\]$/{s/^MAINS *:=//;s/\\$//;p}' Makefile | tr '\n' ' ')
git ls-files '*.c' '*.h' '*.S' '*.inc' '*.def' '*.sh' '*.awk' '*.proto' .ci systemd Makefile |
    xargs awk -v modules="$modules" -v mains="$mains" -f tools/lint-style.awk || status=1

if command -v shellcheck >/dev/null 2>&1; then
    git ls-files '*.sh' tests/integration/common.inc .ci/run |
        xargs shellcheck --severity=warning --shell=sh || status=1
fi

make --no-print-directory BUILD="$build" "$build/gen/proto/.stamp" "$build/gen/build_id.h" \
    >/dev/null || exit 1
git ls-files '*.c' | xargs -P "$(nproc)" -n 1 sh tools/tidy.sh "$build" || status=1

[ $status -eq 0 ] && echo "lint: clean"
exit $status
