# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Sourced after lib.sh by the scripts for messaging. Their programs are built on the host
# (lab/build/messaging).
# shellcheck disable=SC2034,SC2154
programs=$modules

# Settings for UCX, one in a word. Over tern there are none. Soft-RoCE is chosen by name, and TCP
# brings up its connections: see $drops.
ucx_settings() {
	[ "$via" = tern ] || printf '%s\n' "UCX_NET_DEVICES=rxe0:1,$netdev" UCX_TLS=rc_verbs,tcp,self,sm
}
drops="UCX up to 1.18 reads the IP version of a datagram in its service level, where Soft-RoCE has 0, and drops it (openucx/ucx#10209)"
by_tcp="over Soft-RoCE with UCX_TLS=rc_verbs,tcp, because UCX drops its datagrams"

# late_failure STATUS FILE: whether a program failed over Soft-RoCE only after it had compared
# everything. Soft-RoCE reports the last WQE of a QP each time its responder runs in the error state
# (flush_recv_queue(), Linux 6.12), and UCX asserts that it does once. Seldom a rank does not end,
# until the time limit (STATUS 124); the cause of that is not known.
late_failure() {
	[ "$via" = soft-roce ] && grep -q 'all ranks compared everything' "$2" &&
		{ [ "$1" = 124 ] || grep -q "Assertion .wait_ctx->cb_id == UCS_CALLBACKQ_ID_NULL' failed" "$2"; }
}

# last FILE: the first and the last lines of a program that failed.
last() {
	head -n 15 "$1"
	[ "$(wc -l <"$1")" -lt 26 ] || echo ...
	tail -n +16 "$1" | tail -n 10
}
