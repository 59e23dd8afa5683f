#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# devmem-across.sh: devmem with the far end in vm2, which end-test ends if it is left over.
bin=/mnt/tern/build/guest/devmem
ssh vm2 "$bin -s -g \$(gid-index v4)" &
ssh vm2 'wait-listen 18516'
"$bin" -g "$(gid-index v4)" -c 10.78.0.2 -m "${1:-0}"
