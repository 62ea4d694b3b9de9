#!/bin/sh
# Installs the Debian packages named on the command line that are missing. As root or through sudo; with neither, prints the one
# command to run and fails.
set -u
missing=
for package in "$@"; do
    state=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null) || state=
    [ "$state" = installed ] || missing="$missing $package"
done
[ -z "$missing" ] && exit 0
if [ "$(id -u)" = 0 ]; then
    run=
elif command -v sudo >/dev/null 2>&1 && sudo -n true 2>/dev/null; then
    run=sudo
else
    echo "missing packages; run: sudo apt-get install -y$missing" >&2
    exit 1
fi
echo "installing:$missing" >&2
export DEBIAN_FRONTEND=noninteractive
# shellcheck disable=SC2086
$run apt-get install -y -qq --no-install-recommends $missing >/dev/null 2>&1 ||
    { $run apt-get update -qq && $run apt-get install -y -qq --no-install-recommends $missing >/dev/null; }
