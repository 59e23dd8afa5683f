/* SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause) */
/*
 * tern hardware contract: flows, which steer frames of the Ethernet function and of
 * raw QPs. The rules for commands of tern_admin.h hold here.
 */
#ifndef TERN_FLOW_H
#define TERN_FLOW_H

#include <linux/types.h>

/* Command codes. */
#define TERN_CMD_CREATE_FLOW		0x48
#define TERN_CMD_DESTROY_FLOW		0x49
#define TERN_CMD_CREATE_FLOW_COUNTER	0x4a
#define TERN_CMD_QUERY_FLOW_COUNTER	0x4b
#define TERN_CMD_DESTROY_FLOW_COUNTER	0x4c

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

#endif /* TERN_FLOW_H */
