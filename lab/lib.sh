# Shared by the scripts of the lab: sourced by bash, not run.
# shellcheck shell=bash

set -euo pipefail
export LC_ALL=C.UTF-8

TERN_TOP=$(cd -- "${BASH_SOURCE[0]%/*}/.." && pwd -P)
: "${TERN_CACHE:=${XDG_CACHE_HOME:-$HOME/.cache}/tern}"
mkdir -p -- "$TERN_CACHE" || exit 1
TERN_CACHE=$(cd -- "$TERN_CACHE" && pwd -P)
LAB=$TERN_TOP/lab
SUITE=trixie
export TERN_TOP TERN_CACHE

# Progress messages show the time since the outermost script started.
: "${TERN_T0:=$(date +%s)}"
export TERN_T0
say() {
	local t=$(($(date +%s) - TERN_T0))
	printf '[%3d:%02d] %s\n' $((t / 60)) $((t % 60)) "$*" >&2
}

# die WHAT REMEDY: prints one line with the error and its remedy, and exits.
die() {
	printf 'tern: %s%s\n' "$1" "${2:+; $2}" >&2
	exit 1
}

# key FILE|STRING...: a short hash of file contents and strings.
key() {
	local a
	for a; do
		if [ -f "$a" ]; then cat -- "$a"; else printf '%s\n' "$a"; fi
	done | sha256sum | cut -c1-16
}

# lock NAME: allows one build of a kind at a time in this cache; held until the script ends.
lock() {
	mkdir -p "$TERN_CACHE/locks"
	exec 9>"$TERN_CACHE/locks/$1"
	flock -n 9 && return
	say "waiting for another build of $1"
	flock 9
}

# logged NAME CMD...: runs CMD quietly with progress messages; keeps its output and shows its end if
# CMD fails.
logged() {
	local log=$TERN_CACHE/log/$1.log name=$1 status=0 ticker
	shift
	mkdir -p "${log%/*}"
	: >"$log"
	# Its sleep outlives it: a caller that reads our output must not wait for it.
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
		say "  $1 is running: ${at:-$(stat -c %s "$2" | numfmt --to=iec)B of log}"
	done
}

# tidy PREFIX: deletes what has not been used for a month.
tidy() {
	find "$TERN_CACHE" -maxdepth 1 -name "$1-*" -mtime +30 -exec rm -rf --one-file-system {} +
}

# room: the GiB that must be free on $TERN_CACHE's disk. The lab fills 4, and more while it makes
# the image; the tests (TERN_TESTS=1) add the kernels of the other lanes and the compiler cache.
# Once these are there, a run needs little.
room() {
	local need=6
	if [ -e "$TERN_CACHE/sysroot/.complete" ] && compgen -G "$TERN_CACHE/image-*/root.erofs" >/dev/null &&
		compgen -G "$TERN_CACHE/qemu-*/build/qemu-system-x86_64" >/dev/null; then
		need=1
	fi
	[ "${TERN_TESTS:-0}" = 0 ] || compgen -G "$TERN_CACHE/linux-kunit-*" >/dev/null || need=$((need + 4))
	echo $need
}

# from_debian OS-RELEASE: whether the file belongs to a Debian system.
from_debian() {
	# shellcheck disable=SC1090
	(ID='' && . "$1" && [ "$ID" = debian ]) 2>/dev/null
}
MIRROR_REMEDY="set TERN_MIRROR=http://deb.debian.org/debian or another Debian mirror, which only the lab uses; leave /etc/apt alone: a Debian mirror there would mix two systems. Only Debian 12 and 13 are tested as hosts"

# explain LOG: names a known cause with its remedy, or shows the end of the log.
explain() {
	if grep -q 'No space left on device' "$1"; then
		die "the disk is full ($TERN_CACHE)" "free some space ($(room) GiB are needed) or set TERN_CACHE to a larger disk, then run the same command again"
	elif grep -qE 'Temporary failure (in name resolution|resolving)|Could not (resolve|connect to)|Network is unreachable|Connection timed out' "$1"; then
		die "the Debian mirror of this machine's apt sources, or of TERN_MIRROR, does not answer" "check the network or the proxy in /etc/apt, then run the same command again"
	fi
	tail -n 25 "$1" >&2
	die "this step failed; the whole log is $1" "fix the cause and run the same command again: finished stages are kept"
}

# A user who is not root needs a user namespace.
if [ "$(id -u)" = 0 ]; then
	UNSHARE=(unshare)
else
	UNSHARE=(unshare --user --map-root-user --map-auto)
fi

# bind_tree TREE: prints TERN_BIND with a kernel tree of the user's and the source from which it was
# built. The headers of a distribution's package refer to each other by absolute paths: they appear
# at the paths of the package.
bind_tree() {
	local source root=${1%%/usr/src/*} dir binds=${TERN_BIND:+$TERN_BIND:}
	if [ "$root" = "$1" ]; then
		source=$(readlink -e "$1/source" || true)
		printf '%s' "$binds$1${source:+:$source}"
		return
	fi
	binds+=$root/usr/src=/usr/src
	for dir in "$root"/usr/lib/linux-kbuild-*; do
		[ ! -d "$dir" ] || binds+=:$dir=${dir#"$root"}
	done
	printf '%s' "$binds"
}

# copy RSYNC-ARG...: copies files whose contents differ, so that the others keep their date.
copy() {
	"$LAB/sysroot-run" rsync -rlcp "$@"
}

# Two builds of a commit are equal: no file has a path of this machine.
PREFIX_MAP="-ffile-prefix-map=$TERN_CACHE=cache -ffile-prefix-map=$TERN_TOP=."

# ninja_build NAME SOURCE [CMAKE-OPTION]... -- TARGET...: builds the targets of the CMake project
# qemu-device/SOURCE in build/NAME.
ninja_build() {
	local name=$1 source=$TERN_TOP/qemu-device/$2 build=$TERN_TOP/build/$1 options=()
	shift 2
	while [ "$1" != -- ]; do
		options+=("$1")
		shift
	done
	shift
	# Lets ccache take compilations that use CMake's precompiled header, which is made with the
	# same definitions.
	export CCACHE_SLOPPINESS=pch_defines,time_macros
	mkdir -p "$build"
	lock "$name-$(key "$TERN_TOP")"
	[ -e "$build/build.ninja" ] ||
		logged "$name-configure" "$LAB/sysroot-run" cmake -G Ninja -S "$source" -B "$build" \
			-DCMAKE_BUILD_TYPE=RelWithDebInfo -DCMAKE_EXPORT_COMPILE_COMMANDS=ON \
			"-DCMAKE_C_FLAGS=$PREFIX_MAP" "-DCMAKE_CXX_FLAGS=$PREFIX_MAP" "${options[@]}"
	logged "$name" "$LAB/sysroot-run" ninja -C "$build" "$@"
}
