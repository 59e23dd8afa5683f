#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# micro.sh: runs micro in this machine, then with the server in vm2.
status=0
micro -g "$(gid-index v4)" "$@" || status=1
across.sh 18517 -s micro -c vm2 "$@" || status=1
exit $status
