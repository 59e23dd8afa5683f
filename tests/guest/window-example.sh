#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# window-example.sh: runs Documentation/examples/window.c with the server in vm2: a window is bound,
# used, revoked and refused.
#
# Test: window-example
# Tier: quick, 600 s
# Boot: pcap
# Results: 2
# Proves: The example of memory-windows.rst.

bin=/mnt/tern/build/guest/window
group=window-example
# shellcheck source=tests/guest/results.sh
. "${0%/*}/results.sh"
ssh vm2 "timeout 1180 $bin -d tern0 -g \$(gid-index v4)" >/run/window.server 2>&1 &
server=$!
ssh vm2 'wait-listen 18517'
timeout 500 "$bin" -d tern0 -g "$(gid-index v4)" 10.78.0.2 >/run/window.client 2>&1
client=$?
wait $server
server=$?

says() { # NAME END STATUS LINE...: that end's program succeeded and printed each line
	local name=$1 end=$2 status=$3 line
	shift 3
	for line; do
		if ! grep -qE -- "$line" "/run/window.$end"; then
			not_ok "$name" "the $end did not print: $line"
			return
		fi
	done
	if [ "$status" != 0 ]; then
		not_ok "$name" "the $end ended with $status: $(tail -n 1 "/run/window.$end")"
	else
		ok "$name"
	fi
}
sed 's/^/# server: /' /run/window.server
sed 's/^/# client: /' /run/window.client
says server server $server '^lent 512 bytes' '^the client wrote: hello$' '^revoked$' '^the buffer still says: hello$'
says client client $client '^write: success$' '^read: success, hello$' '^write after it was revoked: remote access error$'
exit $failed
