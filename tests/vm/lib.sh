# Shared by the scripts of the lab; sourced by bash, never run.
# shellcheck shell=bash

set -euo pipefail
export LC_ALL=C.UTF-8

TERN_TOP=$(cd -- "${BASH_SOURCE[0]%/*}/../.." && pwd -P)
: "${TERN_CACHE:=${XDG_CACHE_HOME:-$HOME/.cache}/tern}"
mkdir -p -- "$TERN_CACHE" || exit 1
TERN_CACHE=$(cd -- "$TERN_CACHE" && pwd -P)
VM_DIR=$TERN_TOP/tests/vm
SUITE=trixie
export TERN_TOP TERN_CACHE

# Progress is told with the time since the outermost script began.
: "${TERN_T0:=$(date +%s)}"
export TERN_T0
say() {
	local t=$(($(date +%s) - TERN_T0))
	printf '[%3d:%02d] %s\n' $((t / 60)) $((t % 60)) "$*" >&2
}

# die WHAT MEND: one line, with what to do about it.
die() {
	printf 'tern: %s%s\n' "$1" "${2:+; $2}" >&2
	exit 1
}

# key FILE|STRING...: a short key of the contents of files and of strings.
key() {
	local a
	for a; do
		if [ -f "$a" ]; then cat -- "$a"; else printf '%s\n' "$a"; fi
	done | sha256sum | cut -c1-16
}

# lock NAME: one build of a kind at a time in this cache, until the script ends.
lock() {
	mkdir -p "$TERN_CACHE/locks"
	exec 9>"$TERN_CACHE/locks/$1"
	flock -n 9 && return
	say "waiting for another run that is building $1"
	flock 9
}

# logged NAME CMD...: run CMD quietly, with a sign of life now and then; its output is kept, and shown if it fails.
logged() {
	local log=$TERN_CACHE/log/$1.log name=$1 status=0 ticker
	shift
	mkdir -p "${log%/*}"
	: >"$log"
	# Its sleep outlives it: a caller that reads our output must not wait for that.
	tick "$name" "$log" $$ </dev/null >/dev/null 9>&- &
	ticker=$!
	"$@" >"$log" 2>&1 </dev/null 9>&- || status=$?
	kill $ticker 2>/dev/null || true
	wait $ticker 2>/dev/null || true
	[ $status != 0 ] || return 0
	explain "$log"
}
tick() {
	local at
	while sleep 20 && kill -0 "$3" 2>/dev/null; do
		at=$(tail -n 1 "$2" | tr -d '\r' | grep -oE '^\[[0-9]+/[0-9]+\]' || true)
		say "  $1 is at work ${at:-$(stat -c %s "$2" | numfmt --to=iec) of log}"
	done
}

# tidy PREFIX: forget what nobody used for a month.
tidy() {
	find "$TERN_CACHE" -maxdepth 1 -name "$1-*" -mtime +30 -exec rm -rf --one-file-system {} +
}

# room: how many GiB of $TERN_CACHE's disk have to be free: with an empty cache, which grows to 4 GiB and takes 1 GiB more on the
# way, and later for what a run makes again.
room() {
	if [ -e "$TERN_CACHE/sysroot/.complete" ] && compgen -G "$TERN_CACHE/image-*/root.erofs" >/dev/null &&
		compgen -G "$TERN_CACHE/qemu-*/build/qemu-system-x86_64" >/dev/null; then
		echo 1
	else
		echo 6
	fi
}

# from_debian OS-RELEASE: whether it is of Debian, or of a system that names its releases as Debian does.
from_debian() {
	# shellcheck disable=SC1090
	(ID='' && . "$1" && [ "$ID" = debian ]) 2>/dev/null
}
MIRROR_MEND="set TERN_MIRROR=http://deb.debian.org/debian or another Debian mirror, which only the lab reads; leave /etc/apt alone: a Debian mirror there would mix two systems. Debian 12 and 13 are tested as hosts, others are not"

# explain LOG: the known troubles, each with its mend.
explain() {
	if grep -q 'No space left on device' "$1"; then
		die "the disk is full ($TERN_CACHE)" "free some space ($(room) GiB are needed) or set TERN_CACHE to a larger disk, then run the same command again"
	elif grep -qE 'Temporary failure (in name resolution|resolving)|Could not (resolve|connect to)|Network is unreachable|Connection timed out' "$1"; then
		die "no network: the Debian mirror of this machine's apt sources, or of TERN_MIRROR, does not answer" "check the network or the proxy in /etc/apt, then run the same command again"
	fi
	tail -n 25 "$1" >&2
	die "that did not work; the whole log is $1" "mend what it says and run the same command again, finished stages are kept"
}

# One place that knows whether we are root or need a user namespace.
if [ "$(id -u)" = 0 ]; then
	UNSHARE=(unshare)
else
	UNSHARE=(unshare --user --map-root-user --map-auto)
fi

# copy RSYNC-ARG...: copies by content, so that a file gets a new date only when its text differs.
copy() {
	"$VM_DIR/sysroot-run" rsync -rlcp "$@"
}
