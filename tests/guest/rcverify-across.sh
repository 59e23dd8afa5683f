#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# rcverify-across.sh: rcverify with the other end in vm2, which end-test ends if it is left over.
bin=/mnt/tern/build/guest/rcverify
ssh vm2 "$bin -s -1 -g \$(gid-index v4)" &
ssh vm2 'wait-listen 18515'
"$bin" -g "$(gid-index v4)" -c 10.78.0.2
