/* SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause) */
/* tern hardware contract: frames that the device puts into one packet. Kernel only. */
#ifndef TERN_COALESCED_H
#define TERN_COALESCED_H

/*
 * TERN_ETH_QF_COALESCE: the device puts TCP segments of one connection that follow each
 * other into one packet, of which segmentation makes the same frames again. srqn of the
 * CQE describes it, and is 0 for a single frame. The IP header has the packet's length
 * and checksum, the TCP header the flags of all segments, and as checksum the sum of the
 * pseudo header, as for TERN_ETH_OP_CSUM.
 */
#define TERN_ETH_COALESCED_SEGS_MASK	0x0000ffffU	/* segments, at least 2 */
#define TERN_ETH_COALESCED_MSS_MASK	0x7fff0000U	/* bytes of payload of all but the last */
#define TERN_ETH_COALESCED_FIXED_ID	0x80000000U	/* IPv4: all have the same identification */
#define TERN_ETH_MAX_COALESCED		65535	/* bytes of the IP packet */

#endif /* TERN_COALESCED_H */
