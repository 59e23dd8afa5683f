#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# windows-loop.sh [OPTION...]: windows with owner and peer in this machine; the results have to be those of tern in
# Documentation/windows-comparison.rst.
status=0
windows --table /run/windows-loop "$@" || status=1
/mnt/tern/tests/windows-against --tern /run/windows-loop || status=1
exit $status
