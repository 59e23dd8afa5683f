#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# micro.sh loop|across: runs micro in this machine, or with the server in vm2.
case $1 in
loop) exec micro -g "$(gid-index v4)" ;;
across) exec across.sh 18517 -s micro -c vm2 ;;
*) echo "usage: micro.sh loop|across" >&2; exit 2 ;;
esac
