#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# windows-across.sh [OPTION...]: windows with the peer in vm2, which end-test ends if it is left over.
bin=/mnt/tern/build/guest/windows
ssh vm2 "$bin --serve -g \$(gid-index v4)" &
ssh vm2 'wait-listen 18516'
"$bin" -g "$(gid-index v4)" --across 10.78.0.2 "$@"
