#!/bin/sh
# Puts promtool, which the tests of the alerts run, into a folder unless one is there or on PATH. It is
# taken out of Debian's package `prometheus`; nothing is installed, and no root is needed. Where that
# does not work, one line says so and the tests are skipped.
#
# Usage: tools/get_promtool.sh FOLDER
set -u

bin="${1:?usage: tools/get_promtool.sh FOLDER}"
command -v promtool >/dev/null && exit 0
[ -x "$bin/promtool" ] && exit 0

give_up() {
    echo "No promtool: $1. The tests of alerts and dashboard are skipped; it comes with Prometheus." >&2
    exit 0
}

command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null || give_up 'this is no Debian'

work="$(mktemp -d)" || give_up 'no temporary folder could be made'
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/lists/partial" "$work/cache/archives/partial"

# Lists and cache of its own, so that neither root nor fresh lists of the machine are needed.
apt() {
    apt-get --quiet=2 -o Dir::State::Lists="$work/lists" -o Dir::Cache="$work/cache" \
        -o Debug::NoLocking=1 -o APT::Sandbox::User="$(id -un)" \
        -o Acquire::Retries=2 -o Acquire::http::Timeout=30 "$@" >"$work/log" 2>&1
}

cd "$work" || give_up "$work cannot be entered"
apt update || give_up "apt-get update failed ($(tail -n 1 "$work/log"))"
apt download prometheus || give_up "the package prometheus was not found ($(tail -n 1 "$work/log"))"
dpkg-deb --extract prometheus_*.deb unpacked || give_up 'the package prometheus could not be unpacked'
cd "$OLDPWD" || give_up "$OLDPWD cannot be entered"
{ cp "$work/unpacked/usr/bin/promtool" "$bin/.promtool" && mv "$bin/.promtool" "$bin/promtool"; } ||
    give_up "$bin cannot be written to"
