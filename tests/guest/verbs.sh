#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# verbs.sh [OPTION...]: runs verbs_table with the pages of this lane's rdma-core, and with its
# verbs.
#
# Test: verbs
# Tier: quick, 900 s
# Also: testing
# Boot: pair
# Run: verbs.sh --compare /mnt/tern/tests/guest/verbs_table/pages.txt
# Proves: A probe of every page of section 3 that the lane's rdma-core has: 128 of 56.1, 147 of 65.
#   Each calls the verb and sees it work, with data where there is some, or refuse as the page says.
#   The list of pages comes from rdma-core's sources. It fails when a row of verbs_table/pages.txt
#   differs from what it saw.

pages=$RDMA_CORE_TESTS/../man
program=verbs_table
[ ! -e "$pages/ibv_alloc_buf.3.md" ] || program=verbs_table_65
exec "$program" --pages "$pages" "$@"
