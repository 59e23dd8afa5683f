# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# Sourced by tests that run under `set -e`; tests/guest/results.sh is for those that do not.

# check NAME CMD...: prints a result line, ok if CMD succeeds.
check() {
	local name=$1
	shift
	if "$@"; then echo "ok $name"; else echo "not ok $name - $*"; fi
}
