/* SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause) */
/*
 * tern hardware contract: what the device counts: events and live objects. The rules
 * for commands of tern_admin.h hold here.
 */
#ifndef TERN_COUNTS_H
#define TERN_COUNTS_H

#include <linux/types.h>

/* ---- QUERY_COUNTERS: out: __le64 counter[] ---- */
struct tern_cmd_query_counters {
	__le32	group;			/* TERN_COUNTERS_* */
	__u8	port;
	__u8	rsvd_5[3];
};

static_assert(sizeof(struct tern_cmd_query_counters) == 8, "tern_cmd_query_counters");

#define TERN_COUNTERS_RDMA		0
#define TERN_COUNTERS_ETH		1

/* Counters of TERN_COUNTERS_RDMA. */
#define TERN_CNT_RX_WRITE_REQUESTS		0
#define TERN_CNT_RX_READ_REQUESTS		1
#define TERN_CNT_RX_ATOMIC_REQUESTS		2
#define TERN_CNT_OUT_OF_BUFFER			3	/* RNR NAKs, drops without a WQE */
#define TERN_CNT_OUT_OF_SEQUENCE		4
#define TERN_CNT_DUPLICATE_REQUEST		5
#define TERN_CNT_RNR_NAK_RETRY_ERR		6
#define TERN_CNT_PACKET_SEQ_ERR			7
#define TERN_CNT_IMPLIED_NAK_SEQ_ERR		8
#define TERN_CNT_LOCAL_ACK_TIMEOUT_ERR		9
#define TERN_CNT_RESP_LOCAL_LENGTH_ERROR	10
#define TERN_CNT_RESP_CQE_ERROR			11
#define TERN_CNT_REQ_CQE_ERROR			12
#define TERN_CNT_REQ_REMOTE_INVALID_REQUEST	13
#define TERN_CNT_REQ_REMOTE_ACCESS_ERRORS	14
#define TERN_CNT_RESP_REMOTE_ACCESS_ERRORS	15
#define TERN_CNT_RESP_CQE_FLUSH_ERROR		16
#define TERN_CNT_REQ_CQE_FLUSH_ERROR		17
#define TERN_CNT_RX_ICRC_ERRORS			18
#define TERN_CNT_RX_MALFORMED			19
#define TERN_CNT_RX_QP_MISMATCH			20	/* no QP takes the packet */
#define TERN_CNT_QKEY_VIOLATIONS		21
#define TERN_CNT_BAD_DOORBELL			22
#define TERN_CNT_DMA_ERRORS			23
#define TERN_CNT_CQ_OVERRUNS			24
#define TERN_CNT_TX_RDMA_PACKETS		25
#define TERN_CNT_TX_RDMA_BYTES			26
#define TERN_CNT_RX_RDMA_PACKETS		27
#define TERN_CNT_RX_RDMA_BYTES			28
#define TERN_CNT_NP_ECN_MARKED			29
#define TERN_CNT_NP_CNP_SENT			30
#define TERN_CNT_RP_CNP_HANDLED			31
#define TERN_CNT_EQ_COALESCED			32	/* events coalesced with a waiting one */
#define TERN_CNT_PAGE_FAULTS			33	/* accesses that found a page absent */
#define TERN_CNT_RP_CNP_IGNORED			34	/* of a priority without rp_enable */
#define TERN_CNT_RDMA_NUM			35

/* Counters of TERN_COUNTERS_ETH. */
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

/* ---- QUERY_OBJECTS: live objects of each type, including the kernel's own ---- */
struct tern_rsp_objects {
	__le32	uar;
	__le32	pd;
	__le32	eq;
	__le32	cq;
	__le32	mr;
	__le32	mw;
	__le32	dm;
	__le32	qp;
	__le32	srq;
	__le32	xrcd;
	__le32	mcast;			/* attachments */
	__le32	gid;
	__le32	eth_queue;
	__le32	parked;			/* page faults that wait for RESUME_QP */
	__le64	dm_bytes;
	__le64	page_entries;		/* page list entries that all objects hold */
	__le32	rss;
	__le32	flow;
	__le32	flow_counter;
	__le32	counter_set;
	__le32	comp_cntr;
	__le32	rsvd_5c;
};

static_assert(sizeof(struct tern_rsp_objects) == 96, "tern_rsp_objects");

/*
 * ---- CREATE_COUNTER_SET: no input; out: tern_rsp_object. QUERY_COUNTER_SET:
 * tern_cmd_object; out: __le64 counter[TERN_CNT_RDMA_NUM] ----
 * Events of a QP count in the set that the QP is bound to, and otherwise in
 * TERN_COUNTERS_RDMA. Packets, and counters that do not concern one QP, stay 0.
 * DESTROY_COUNTER_SET, tern_cmd_object, is BUSY while a QP is bound to the set.
 */

/* ---- BIND_COUNTER_SET: allowed in every state of the QP, and kept by RESET ---- */
struct tern_cmd_bind_counter_set {
	__le32	qpn;
	__le32	set;			/* 0: none */
};

static_assert(sizeof(struct tern_cmd_bind_counter_set) == 8, "tern_cmd_bind_counter_set");

#endif /* TERN_COUNTS_H */
