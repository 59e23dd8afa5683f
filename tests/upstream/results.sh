# Shared by export-linux and export-rdma-core, which set work, tree and failed; sourced, never run.
# shellcheck shell=bash
export GIT_CONFIG_COUNT=2 GIT_CONFIG_KEY_0=user.name GIT_CONFIG_VALUE_0="A Tester" \
	GIT_CONFIG_KEY_1=user.email GIT_CONFIG_VALUE_1=tester@example.org

# The rest in the sysroot, where nothing can be fetched: the sources are there by now.
command -v clang++-19 >/dev/null || exec "$LAB/sysroot-run" "$TERN_TOP/tests/upstream/${0##*/}"

inside() { env -C "$tree" "$@"; }

# judge NAME CMD...; not in a condition, where bash would ignore failures inside of CMD.
judge() {
	local status
	set +e
	(set -e && "${@:2}") >"$work/out" 2>&1
	status=$?
	set -e
	if [ $status = 0 ]; then
		echo "ok $1"
	else
		failed=1
		tail -n 30 "$work/out"
		echo "not ok $1"
	fi
}

# code DIR FILE...: into DIR without comments, empty lines and includes, which are what an upstream
# tree has otherwise, and without what stays here.
code() {
	mkdir "$1"
	# shellcheck disable=SC2016
	inside env "kept=$TERN_TOP/tests/upstream/kept.sed" bash -ec 'dir=$1; shift
	for f; do sed -f "$kept" "$f" | gcc -fpreprocessed -dD -E -P -w -xc - | grep -v "^#include" >"$dir/${f##*/}"; done' - "$@"
}
