#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# micro.sh: micro with both ends here, then with the other end in vm2, which end-test ends if it is left over.
bin=/mnt/tern/build/guest/micro
status=0
"$bin" -g "$(gid-index v4)" "$@" || status=1
ssh vm2 "$bin -s -g \$(gid-index v4)" &
ssh vm2 'wait-listen 18517'
"$bin" -g "$(gid-index v4)" -c vm2 "$@" || status=1
exit $status
