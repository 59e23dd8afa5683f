// SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause)
/* Parts of WQEs that are not worth inlining: headers of large frames. */

#include <ccan/minmax.h>

#include "wqe.h"

#define TERN_ETH_HLEN 14
#define TERN_VLAN_HLEN 4
#define TERN_IPV4_HLEN 20
#define TERN_IPV6_HLEN 40
#define TERN_TCP_HLEN 20

/* Offset of the checksum in the header of TCP. */
#define TERN_TCP_CSUM_OFFSET 16

#define TERN_ETHERTYPE_IPV4 0x0800
#define TERN_ETHERTYPE_IPV6 0x86dd
#define TERN_ETHERTYPE_VLAN 0x8100
#define TERN_ETHERTYPE_QINQ 0x88a8
#define TERN_IPPROTO_TCP 6

static uint16_t tern_be16(const uint8_t *bytes)
{
	return bytes[0] << 8 | bytes[1];
}

/*
 * Offset of the TCP header in the headers of a large frame, 0 if they are not
 * those of TCP over IPv4 or IPv6. The device checks the rest.
 */
uint16_t tern_tso_csum_start(const void *header, size_t length)
{
	const uint8_t *bytes = header;
	size_t l3 = TERN_ETH_HLEN;
	uint16_t type;
	size_t l4;

	if (length < l3)
		return 0;

	type = tern_be16(bytes + l3 - sizeof(type));
	while (type == TERN_ETHERTYPE_VLAN || type == TERN_ETHERTYPE_QINQ) {
		l3 += TERN_VLAN_HLEN;
		if (length < l3)
			return 0;
		type = tern_be16(bytes + l3 - sizeof(type));
	}

	if (type == TERN_ETHERTYPE_IPV4 && length >= l3 + TERN_IPV4_HLEN &&
	    bytes[l3 + 9] == TERN_IPPROTO_TCP)
		l4 = l3 + max_t(size_t, (bytes[l3] & 0xf) * 4, TERN_IPV4_HLEN);
	else if (type == TERN_ETHERTYPE_IPV6 && length >= l3 + TERN_IPV6_HLEN &&
		 bytes[l3 + 6] == TERN_IPPROTO_TCP)
		l4 = l3 + TERN_IPV6_HLEN;
	else
		return 0;

	return length >= l4 + TERN_TCP_HLEN ? l4 : 0;
}

/*
 * Writes the offloads of a large frame, whose headers follow. The device
 * completes their checksums, whatever the flags. Returns 0, or EINVAL for
 * headers that are too long or not those of a TCP segment.
 */
int tern_wqe_tso(const struct tern_qp *qp, struct tern_sq_hdr *wqe,
		 const void *header, uint16_t header_size, uint16_t mss)
{
	struct tern_eth_offload *seg = (void *)(wqe + 1);
	uint16_t csum_start;

	if (unlikely(header_size > qp->max_tso_header || !mss))
		return EINVAL;

	csum_start = tern_tso_csum_start(header, header_size);
	if (unlikely(!csum_start))
		return EINVAL;

	*seg = (struct tern_eth_offload) {
		.csum_start = htole16(csum_start),
		.csum_offset = htole16(TERN_TCP_CSUM_OFFSET),
		.mss = htole16(mss),
		.header_len = htole16(header_size),
		.ops = htole16(TERN_ETH_OP_TSO),
	};
	memcpy(seg + 1, header, header_size);
	return 0;
}
