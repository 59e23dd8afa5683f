#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# verbs.sh [OPTION...]: runs verbs_table with the pages of this lane's rdma-core, and with its
# verbs.
pages=$RDMA_CORE_TESTS/../man
program=verbs_table
[ ! -e "$pages/ibv_alloc_buf.3.md" ] || program=verbs_table_65
exec "$program" --pages "$pages" "$@"
