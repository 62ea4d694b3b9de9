#!/bin/sh
# clang-tidy over the named sources, except those that passed before with the same bytes: the
# digests of a source, of every project header it includes, of .clang-tidy and of the command lie in
# BUILD/lint/<source>.ok and are compared again. tools/tidy-model.h tells the analyser about functions
# of other files. Findings go to stdout; the exit code is 1 when there is one.
# usage: tools/tidy.sh BUILD FILE.c...      (BUILD must hold the generated headers)
set -u
build=$1
shift
flags="-std=c17 -D_GNU_SOURCE -I. -I$build/gen $(pkg-config --cflags \
    libprotobuf-c libuv sqlite3 libelf libcrypto libzstd openblas libsystemd check)"
mkdir -p "$build/lint"
command=$build/lint/command
{ clang-tidy --version; echo "$flags"; } >"$command.$$"
if cmp -s "$command.$$" "$command"; then rm "$command.$$"; else mv "$command.$$" "$command"; fi
status=0

for source in "$@"; do
    stamp=$build/lint/$(echo "$source" | tr / _).ok
    sha256sum --check --status "$stamp" 2>/dev/null && continue
    # The digests are taken before the run, so that an edit meanwhile is seen by the next one.
    case $source in
    base/alloc.c | base/error.c) model= ;; # they define what the model stands for
    *) model="-include tools/tidy-model.h" ;;
    esac
    # shellcheck disable=SC2086
    inputs=$(clang $flags $model -MM -MT - "$source" | sed 's/^-://' | tr -d '\\\n')
    # shellcheck disable=SC2086
    if [ -n "$inputs" ] && sha256sum $inputs .clang-tidy "$command" >"$stamp.$$" &&
        clang-tidy --quiet "$source" -- $flags $model >"$stamp.log.$$" 2>/dev/null; then
        mv "$stamp.$$" "$stamp"
    else
        cat "$stamp.log.$$"
        rm -f "$stamp.$$" "$stamp"
        status=1
    fi
    rm -f "$stamp.log.$$"
done
exit $status
