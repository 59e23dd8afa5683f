#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# windows-loop.sh [OPTION...]: runs windows with owner and peer in this machine, and compares the
# results with tern's column in Documentation/windows-comparison.rst.
status=0
windows --table /run/windows-loop "$@" || status=1
/mnt/tern/tests/windows-against --tern /run/windows-loop || status=1
exit $status
