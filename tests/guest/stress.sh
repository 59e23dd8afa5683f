#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# stress.sh: stress with the other end in vm2, which end-test ends if it is left over.
bin=/mnt/tern/build/guest/stress
ssh vm2 "$bin -s -g \$(gid-index v4)" &
ssh vm2 'wait-listen 18518'
"$bin" -g "$(gid-index v4)" -c vm2 "$@"
