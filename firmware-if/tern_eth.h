/* SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause) */
/*
 * tern hardware contract: the Ethernet function: descriptors, offloads, receive
 * filter and receive side scaling. The rules for commands of tern_admin.h hold here.
 */
#ifndef TERN_ETH_H
#define TERN_ETH_H

#include <linux/types.h>

#include "tern_admin.h"

/* Command codes. */
#define TERN_CMD_CREATE_ETH_QUEUE	0x40
#define TERN_CMD_DESTROY_ETH_QUEUE	0x41
#define TERN_CMD_SET_RX_FILTER		0x42
#define TERN_CMD_SET_RX_DEFAULT		0x43
#define TERN_CMD_CREATE_RSS		0x44
#define TERN_CMD_MODIFY_RSS		0x45
#define TERN_CMD_DESTROY_RSS		0x46

/*
 * Ethernet transmit descriptor. A frame is a run of descriptors, the last of them
 * with TERN_ETH_F_EOP; the frame's CQE carries the index of that descriptor. The
 * frame has no FCS.
 */
struct tern_eth_txd {
	__le64	addr;
	__le32	length;
	__le16	flags;		/* TERN_ETH_F_* */
	__le16	rsvd_e;
};

static_assert(sizeof(struct tern_eth_txd) == 16, "tern_eth_txd");

#define TERN_ETH_F_EOP			BIT(0)
#define TERN_ETH_F_OFFLOAD		BIT(1)	/* a struct tern_eth_offload */
#define TERN_ETH_MAX_TXD		20	/* descriptors of a frame */
#define TERN_ETH_MAX_FRAME		9238	/* bytes, with header, without FCS */
#define TERN_ETH_MAX_TSO		65536	/* bytes, with headers, of TSO and USO */
#define TERN_ETH_MAX_TSO_HEADER		256	/* bytes of the headers */

/*
 * Changes that the device makes to a frame before sending it: the first descriptor of the
 * frame, or the segment of a send WQE of a raw QP. Offsets count from the first
 * byte of the frame, before a tag is inserted.
 */
struct tern_eth_offload {
	__le16	csum_start;	/* CSUM, TSO: start of the TCP, UDP or other checksummed bytes */
	__le16	csum_offset;	/* CSUM: of the checksum, from csum_start */
	__le16	mss;		/* TSO: bytes of payload of a segment */
	__le16	header_len;	/* TSO: bytes of all headers, which each segment begins with */
	__le16	vlan;		/* VLAN: tag control information */
	__le16	ops;		/* TERN_ETH_OP_* */
	__le16	flags;		/* TERN_ETH_F_OFFLOAD; in a send WQE 0 */
	__le16	rsvd_e;
};

static_assert(sizeof(struct tern_eth_offload) == 16, "tern_eth_offload");

/*
 * CSUM: software has stored the checksum of the pseudo header; the device adds the
 * bytes from csum_start on and stores the complement.
 * IP_CSUM: the device parses the frame and fills in the checksums of an IPv4 header and of
 * TCP or UDP; a fragment gets only that of its header.
 * TSO: the device cuts TCP, or UDP with TERN_ETH_OP_USO, over IPv4 or IPv6 into segments
 * and completes the headers of each.
 * VLAN: the device inserts a tag of type 0x8100 after the addresses.
 * In a send WQE with TSO or USO, header_len bytes of headers follow the segment, padded to
 * 16 bytes; the SGEs or inline bytes after them are the payload.
 */
#define TERN_ETH_OP_CSUM		BIT(0)
#define TERN_ETH_OP_IP_CSUM		BIT(1)
#define TERN_ETH_OP_TSO			BIT(2)
#define TERN_ETH_OP_USO			BIT(3)
#define TERN_ETH_OP_VLAN		BIT(4)

/*
 * Ethernet receive descriptor: a buffer. A frame takes one buffer, or with
 * TERN_ETH_QF_SCATTER as many as it needs, up to TERN_ETH_MAX_RXD; its CQE carries the
 * index of the last one. Longer frames are dropped and counted.
 */
struct tern_eth_rxd {
	__le64	addr;
	__le32	length;
	__le32	rsvd_c;
};

static_assert(sizeof(struct tern_eth_rxd) == 16, "tern_eth_rxd");

#define TERN_ETH_MAX_RXD		18	/* 64 KiB in pages with space for an skb */

/* The device polls pi of this transmit queue, as TERN_QP_ST_SQ_POLLED says of a send queue. */
#define TERN_ETH_ST_POLLED		BIT(0)

struct tern_eth_record {
	__le32	pi;		/* poster: descriptors posted */
	__u8	rsvd_4[60];
	__le32	status;		/* device: TERN_ETH_ST_*, of a transmit queue */
	__u8	rsvd_44[60];
};

static_assert(sizeof(struct tern_eth_record) == 128, "tern_eth_record");

/*
 * CQE of a received frame, of an Ethernet queue or a raw QP: inv_rkey is the RSS hash,
 * pkey_index the TERN_ETH_HASH_* that it was computed from, src_qp the tag of the flow
 * that took the frame, or 0. With TERN_CQE_F_VLAN the outer tag has been stripped, and
 * vlan is its tag control information.
 */
#define TERN_ETH_HASH_NONE		0
#define TERN_ETH_HASH_L3		1	/* addresses only */
#define TERN_ETH_HASH_L4		2	/* ports, too */

/* ---- CREATE_ETH_QUEUE: out: tern_rsp_object ---- */
struct tern_cmd_create_eth_queue {
	struct tern_pages	pages;		/* descriptors; the device only reads them */
	__le64			record;		/* DMA address of struct tern_eth_record */
	__le32			cqn;
	__le32			uar;
	__u8			direction;	/* TERN_ETH_QUEUE_* */
	__u8			log_size;	/* log2 of descriptors, 4..14 */
	__u8			port;
	__u8			flags;		/* TERN_ETH_QF_*, receive queues */
	__le32			rsvd_24;
};

static_assert(sizeof(struct tern_cmd_create_eth_queue) == 40, "tern_cmd_create_eth_queue");

#define TERN_ETH_QUEUE_TX		0
#define TERN_ETH_QUEUE_RX		1

#define TERN_ETH_QF_SCATTER		BIT(0)
#define TERN_ETH_QF_STRIP_VLAN		BIT(1)
#define TERN_ETH_QF_KEEP_FCS		BIT(2)	/* 4 bytes of FCS follow the frame */
#define TERN_ETH_QF_COALESCE		BIT(3)	/* needs SCATTER, not with KEEP_FCS */

/* ---- SET_RX_FILTER: frames accepted besides those to the port's MAC and broadcast ---- */
struct tern_cmd_set_rx_filter {
	__le16	flags;			/* TERN_RXF_* */
	__le16	num_macs;		/* entries of macs */
	__u8	port;
	__u8	rsvd_5[3];
	__u8	macs[64][6];		/* unicast and multicast */
	__le32	vlans[128];		/* bit map of VLAN ids; untagged frames always pass */
};

static_assert(sizeof(struct tern_cmd_set_rx_filter) == 904, "tern_cmd_set_rx_filter");

#define TERN_RXF_PROMISC		BIT(0)
#define TERN_RXF_ALLMULTI		BIT(1)
#define TERN_RXF_VLANS			BIT(2)	/* filter by the bit map */
#define TERN_RX_FILTER_MACS		64

/*
 * ---- CREATE_RSS: out: tern_rsp_object; MODIFY_RSS ---- A group of receive queues, or of
 * receive queues of raw QPs. The low bits of a frame's hash select the entry. A
 * frame to which no field applies has the hash 0. MODIFY_RSS replaces all but
 * the kind and the size. DESTROY_RSS, tern_cmd_object, is BUSY while a flow or the port
 * refers to the group. An object in a group cannot be destroyed either.
 */
struct tern_cmd_rss {
	__le32	id;			/* MODIFY_RSS; else 0 */
	__u8	port;
	__u8	log_entries;		/* 0..7 */
	__u8	kind;			/* TERN_DEST_ETH_QUEUE or TERN_DEST_QP */
	__u8	func;			/* TERN_RSS_FUNC_*, TERN_RSS_F_* */
	__u8	fields[8];		/* TERN_RSS_FIELD_* by TERN_RSS_* */
	__u8	key[40];
	__le32	entries[128];		/* numbers of queues or QPs */
};

static_assert(sizeof(struct tern_cmd_rss) == 568, "tern_cmd_rss");

#define TERN_RSS_ENTRIES		128

#define TERN_RSS_FUNC_TOEPLITZ		0
#define TERN_RSS_FUNC_SYMMETRIC		1	/* each field: XOR of both directions */
#define TERN_RSS_F_INNER		BIT(7)	/* hash the headers inside of VXLAN, if any */

/*
 * Index into fields. A fragment, or another protocol, is IPV4 or IPV6, and so is ESP
 * if its element is 0.
 */
#define TERN_RSS_IPV4			0
#define TERN_RSS_IPV6			1
#define TERN_RSS_TCP4			2
#define TERN_RSS_TCP6			3
#define TERN_RSS_UDP4			4
#define TERN_RSS_UDP6			5
#define TERN_RSS_ESP4			6
#define TERN_RSS_ESP6			7

#define TERN_RSS_FIELD_SRC_IP		BIT(0)
#define TERN_RSS_FIELD_DST_IP		BIT(1)
#define TERN_RSS_FIELD_SRC_PORT		BIT(2)
#define TERN_RSS_FIELD_DST_PORT		BIT(3)
#define TERN_RSS_FIELD_SPI		BIT(4)	/* ESP, TERN_RSS_FUNC_TOEPLITZ */

/* Destinations of frames. */
#define TERN_DEST_NONE			0	/* flow: drop; port: the lowest queue */
#define TERN_DEST_ETH_QUEUE		1
#define TERN_DEST_RSS			2
#define TERN_DEST_QP			3	/* a raw QP; TERN_FLOW_DATAGRAM: a UD QP */
#define TERN_DEST_WIRE			4	/* TERN_FLOW_SENT: sent as without the flow */

/* ---- SET_RX_DEFAULT: destination of frames that no flow takes and the filter passes ---- */
struct tern_cmd_set_rx_default {
	__le32	id;
	__u8	dest;			/* TERN_DEST_*, not QP */
	__u8	port;
	__u8	rsvd_6[2];
};

static_assert(sizeof(struct tern_cmd_set_rx_default) == 8, "tern_cmd_set_rx_default");

#endif /* TERN_ETH_H */
