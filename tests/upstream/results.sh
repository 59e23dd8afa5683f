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
