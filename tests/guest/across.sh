#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# across.sh PORT SERVER-OPTIONS PROGRAM OPTION...: starts PROGRAM as a server in vm2, waits until it
# listens at PORT, then runs PROGRAM here as the client. end-test kills a server that is left over.
port=$1 serve=$2 program=$3
shift 3
ssh vm2 "/mnt/tern/build/guest/$program $serve -g \$(gid-index v4)" &
ssh vm2 "wait-listen $port"
"$program" -g "$(gid-index v4)" "$@"
