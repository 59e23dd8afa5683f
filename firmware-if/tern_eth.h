/* SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause) */
/*
 * tern hardware contract, part 4: the Ethernet function: descriptors, offloads,
 * receive filter, receive side scaling and steering. Include tern_io.h and
 * tern_admin.h first; the rules for commands of tern_admin.h hold here.
 */
#ifndef TERN_ETH_H
#define TERN_ETH_H

#include <linux/types.h>

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

/* ---- QUERY_COUNTERS, group TERN_COUNTERS_ETH ---- */
#define TERN_ETH_CNT_TX_PACKETS			0
#define TERN_ETH_CNT_TX_BYTES			1
#define TERN_ETH_CNT_TX_ERRORS			2
#define TERN_ETH_CNT_RX_PACKETS			3
#define TERN_ETH_CNT_RX_BYTES			4
#define TERN_ETH_CNT_RX_NO_BUFFER		5
#define TERN_ETH_CNT_RX_TOO_LONG		6
#define TERN_ETH_CNT_RX_FILTERED		7
#define TERN_ETH_CNT_RX_MULTICAST		8
#define TERN_ETH_CNT_TX_MULTICAST		9
#define TERN_ETH_CNT_TX_BROADCAST		10
#define TERN_ETH_CNT_RX_BROADCAST		11
#define TERN_ETH_CNT_RX_FLOW_DROPPED		12	/* by a flow without destination */
#define TERN_ETH_CNT_RX_CSUM_ERRORS		13	/* wrong checksum of IPv4, TCP or UDP */
#define TERN_ETH_CNT_TX_SEGMENTED		14	/* frames that the device cut */
/* Frames by bytes with FCS: up to 64, 127, 255, 511, 1023, 1518, and longer. */
#define TERN_ETH_CNT_TX_SIZES			15
#define TERN_ETH_CNT_RX_SIZES			22
#define TERN_ETH_SIZES				7
#define TERN_ETH_CNT_NUM			29

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

/*
 * Header fields that flows match, in network byte order. IPv4 addresses are in the
 * first 4 bytes.
 */
struct tern_flow_fields {
	__u8	dmac[6];
	__u8	smac[6];
	__be16	ether_type;		/* after the tags */
	__be16	vlan;			/* tag control information of the outer tag */
	__u8	src_ip[16];
	__u8	dst_ip[16];
	__be32	flow_label;		/* IPv6, 20 bits */
	__u8	tos;			/* or traffic class */
	__u8	ttl;			/* or hop limit */
	__u8	protocol;		/* or next header after the extension headers */
	__u8	frag;			/* TERN_FRAG_* */
	__be16	src_port;
	__be16	dst_port;
	__be32	spi;			/* ESP */
	__be32	esp_seq;
	__be32	mpls;			/* the first label, with class, bottom of stack and TTL */
};

static_assert(sizeof(struct tern_flow_fields) == 72, "tern_flow_fields");

#define TERN_FRAG_ANY			BIT(0)	/* a fragment */
#define TERN_FRAG_DONT			BIT(1)	/* IPv4: "don't fragment" */
#define TERN_FRAG_MORE			BIT(2)	/* IPv4: "more fragments" */

/* Fields of a tunnel between the outer and the inner headers, GRE in network byte order. */
struct tern_flow_tunnel {
	__le32	vni;			/* VXLAN, 24 bits */
	__be16	gre_flags;		/* the first 16 bits: checksum, key, sequence, version */
	__be16	gre_protocol;
	__be32	gre_key;		/* 0 without a key */
};

static_assert(sizeof(struct tern_flow_tunnel) == 12, "tern_flow_tunnel");

/*
 * ---- CREATE_FLOW: out: tern_rsp_object. DESTROY_FLOW: tern_cmd_object ----
 * A frame belongs to the matching flow with the lowest priority, of these the one that was created
 * first. It matches if it has all layers and all bits of the fields under the mask are
 * equal. Flows see frames before the receive filter; only SNIFFER and DATAGRAM see RoCE
 * packets to this port.
 * Masks of one device have at most max_flow_shapes different values of (kind, layers, masks,
 * priority); another one is NO_RESOURCE.
 */
struct tern_cmd_create_flow {
	__le32			priority;
	__le32			dest_id;
	__le32			tag;		/* of the CQE, 24 bits */
	__le32			counter;	/* TERN_NO_COUNTER: none */
	__u8			kind;		/* TERN_FLOW_* */
	__u8			dest;		/* TERN_DEST_* */
	__u8			port;
	__u8			flags;		/* TERN_FLOW_F_* */
	__le16			layers;		/* TERN_LAYER_* that the frame has */
	__le16			inner_layers;	/* the same inside of a tunnel */
	struct tern_flow_tunnel	tunnel_value;
	struct tern_flow_tunnel	tunnel_mask;
	struct tern_flow_fields	value;
	struct tern_flow_fields	mask;
	struct tern_flow_fields	inner_value;
	struct tern_flow_fields	inner_mask;
};

static_assert(sizeof(struct tern_cmd_create_flow) == 336, "tern_cmd_create_flow");

#define TERN_FLOW_NORMAL		0
#define TERN_FLOW_ALL			1	/* every frame; no layers */
#define TERN_FLOW_MULTICAST		2	/* frames to group addresses; no layers */
#define TERN_FLOW_SNIFFER		3	/* a copy of every frame, RoCE included */
#define TERN_FLOW_DATAGRAM		4	/* RoCE datagrams to QPs of this port */
#define TERN_FLOW_SENT			5	/* frames that raw QPs send */

#define TERN_FLOW_F_CONTINUE		BIT(0)	/* a copy: other flows see the frame, too */

#define TERN_LAYER_ETH			BIT(0)
#define TERN_LAYER_VLAN			BIT(1)
#define TERN_LAYER_IPV4			BIT(2)
#define TERN_LAYER_IPV6			BIT(3)
#define TERN_LAYER_TCP			BIT(4)
#define TERN_LAYER_UDP			BIT(5)
#define TERN_LAYER_VXLAN		BIT(6)	/* UDP port 4789 */
#define TERN_LAYER_ESP			BIT(7)
#define TERN_LAYER_GRE			BIT(8)
#define TERN_LAYER_MPLS			BIT(9)	/* after the Ethernet header */
#define TERN_LAYER_MPLS_TUNNEL		BIT(10)	/* in GRE, or UDP port 6635 */

#define TERN_NO_COUNTER			0xffffffffU

/*
 * ---- CREATE_FLOW_COUNTER: no input; out: tern_rsp_object. QUERY_FLOW_COUNTER,
 * DESTROY_FLOW_COUNTER (BUSY while a flow uses it): tern_cmd_object ----
 */
struct tern_rsp_flow_counter {
	__le64	packets;
	__le64	bytes;			/* of frames, without FCS */
};

static_assert(sizeof(struct tern_rsp_flow_counter) == 16, "tern_rsp_flow_counter");

#endif /* TERN_ETH_H */
