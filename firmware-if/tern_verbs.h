/* SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause) */
/*
 * tern hardware contract: the admin commands of the RDMA engine. The rules for
 * commands of tern_admin.h hold here. Kernel only.
 */
#ifndef TERN_VERBS_H
#define TERN_VERBS_H

#include <linux/types.h>

#include "tern_admin.h"
#include "tern_io.h"

/* Command codes. */
#define TERN_CMD_QUERY_OBJECTS		0x02
#define TERN_CMD_SET_GID		0x0a
#define TERN_CMD_ALLOC_UAR		0x10
#define TERN_CMD_FREE_UAR		0x11
#define TERN_CMD_ALLOC_PD		0x12
#define TERN_CMD_FREE_PD		0x13
#define TERN_CMD_ALLOC_XRCD		0x14
#define TERN_CMD_FREE_XRCD		0x15
#define TERN_CMD_QUERY_CQ		0x1b
#define TERN_CMD_RESIZE_CQ		0x1e
#define TERN_CMD_CREATE_MR		0x20
#define TERN_CMD_DESTROY_MR		0x21
#define TERN_CMD_UPDATE_PAGES		0x22
#define TERN_CMD_REREG_MR		0x23
#define TERN_CMD_QUERY_MR		0x24
#define TERN_CMD_ALLOC_MW		0x28
#define TERN_CMD_FREE_MW		0x29
#define TERN_CMD_ALLOC_DM		0x2c
#define TERN_CMD_FREE_DM		0x2d
#define TERN_CMD_MAP_DM_OP		0x2e
#define TERN_CMD_CREATE_QP		0x30
#define TERN_CMD_DESTROY_QP		0x31
#define TERN_CMD_MODIFY_QP		0x32
#define TERN_CMD_QUERY_QP		0x33
#define TERN_CMD_RESUME_QP		0x34
#define TERN_CMD_CREATE_SRQ		0x38
#define TERN_CMD_DESTROY_SRQ		0x39
#define TERN_CMD_MODIFY_SRQ		0x3a
#define TERN_CMD_QUERY_SRQ		0x3b
#define TERN_CMD_ATTACH_MCAST		0x3c
#define TERN_CMD_DETACH_MCAST		0x3d
#define TERN_CMD_CREATE_COUNTER_SET	0x50
#define TERN_CMD_DESTROY_COUNTER_SET	0x51
#define TERN_CMD_QUERY_COUNTER_SET	0x52
#define TERN_CMD_BIND_COUNTER_SET	0x53
#define TERN_CMD_CREATE_COMP_CNTR	0x54
#define TERN_CMD_DESTROY_COMP_CNTR	0x55
#define TERN_CMD_MODIFY_COMP_CNTR	0x56
#define TERN_CMD_ATTACH_COMP_CNTR	0x57

/* Capabilities of the RDMA engine. */
#define TERN_CAP_RC			BIT(0)
#define TERN_CAP_UC			BIT(1)
#define TERN_CAP_UD			BIT(2)
#define TERN_CAP_XRC			BIT(3)
#define TERN_CAP_SRQ			BIT(4)
#define TERN_CAP_SRQ_RESIZE		BIT(5)
#define TERN_CAP_ATOMIC			BIT(6)
#define TERN_CAP_MW_TYPE_1		BIT(7)
#define TERN_CAP_MW_TYPE_2A		BIT(8)
#define TERN_CAP_MW_TYPE_2B		BIT(9)
#define TERN_CAP_DM			BIT(10)
#define TERN_CAP_FRWR			BIT(11)	/* REG_MR, LOCAL_INV, SEND_WITH_INV */
#define TERN_CAP_RESIZE_CQ		BIT(12)
#define TERN_CAP_IGNORE_OVERRUN		BIT(14)
#define TERN_CAP_REREG_MR		BIT(15)
#define TERN_CAP_FLUSH			BIT(16)
#define TERN_CAP_ATOMIC_WRITE		BIT(17)
#define TERN_CAP_MCAST			BIT(18)
#define TERN_CAP_ODP			BIT(20)
#define TERN_CAP_RAW_QP			BIT(24)
#define TERN_CAP_COUNTER_SETS		BIT(25)
#define TERN_CAP_RSS_TUNNEL		BIT(26)	/* TERN_RSS_F_INNER, TERN_RSS_ESP4 and ESP6 */
#define TERN_CAP_UD_NO_LOOPBACK		BIT(27)	/* TERN_QP_F_NO_MCAST_LOOPBACK of UD */
#define TERN_CAP_ECE			BIT(28)	/* TERN_QPM_ECE_MASK */
#define TERN_CAP_RATE_LIMIT		BIT(29)	/* TERN_QPA_RATE_LIMIT, static_rate */
#define TERN_CAP_APM			BIT(31)	/* automatic path migration */
#define TERN_CAP_DM_OPS			BIT_ULL(32)
#define TERN_CAP_UDP_SPORT		BIT_ULL(33)	/* TERN_QPA_UDP_SPORT */
#define TERN_CAP_COMP_CNTR		BIT_ULL(35)	/* completion counters */

/* Types of events. */
#define TERN_EV_QP_FATAL		1
#define TERN_EV_QP_REQ_ERR		2
#define TERN_EV_QP_ACCESS_ERR		3
#define TERN_EV_COMM_EST		4
#define TERN_EV_SQ_DRAINED		5
#define TERN_EV_QP_LAST_WQE		6
#define TERN_EV_PATH_MIG		7
#define TERN_EV_PATH_MIG_ERR		8
#define TERN_EV_SRQ_ERR			10
#define TERN_EV_SRQ_LIMIT		11

/* ---- SET_GID: writes an entry of the GID table, or clears it (valid 0) ---- */
struct tern_cmd_set_gid {
	__le16	index;
	__u8	valid;
	__u8	net_type;		/* TERN_NET_IPV4: gid is ::ffff:a.b.c.d */
	__le16	vlan;			/* VLAN id, or TERN_VLAN_NONE */
	__u8	mac[6];			/* source MAC of its frames */
	__u8	port;			/* each port has a table of its own */
	__u8	rsvd_d[3];
	__u8	gid[16];
};

static_assert(sizeof(struct tern_cmd_set_gid) == 32, "tern_cmd_set_gid");

#define TERN_VLAN_NONE			0xffff

/* ---- ALLOC_UAR: no input; out: tern_rsp_object, id = page of BAR2. FREE_UAR ---- */

/* ---- ALLOC_PD ---- */
struct tern_cmd_alloc_pd {
	__le32	flags;			/* TERN_PD_* */
	__le32	rsvd_4;
};

static_assert(sizeof(struct tern_cmd_alloc_pd) == 8, "tern_cmd_alloc_pd");

#define TERN_PD_PRIVILEGED		BIT(0)	/* TERN_LKEY_DMA and REG_MR work */

/* ---- QUERY_CQ: tern_cmd_object ---- */
struct tern_rsp_query_cq {
	__le32	pi;			/* index: CQEs written */
	__le32	ci;			/* index: CQEs consumed, by the record */
	__le32	reported;		/* index: CQEs reported by events */
	__le32	eqn;			/* or TERN_NO_EQ */
	__le32	generation;		/* as in its events */
	__le16	count;			/* of MODIFY_CQ */
	__le16	period;
	__u8	log_size;
	__u8	flags;			/* TERN_CQ_F_* */
	__u8	state;			/* TERN_CQ_ST_* */
	__u8	rsvd_1b;
	__le32	rsvd_1c;
};

static_assert(sizeof(struct tern_rsp_query_cq) == 32, "tern_rsp_query_cq");

#define TERN_CQ_ST_ARMED		BIT(0)	/* for any completion, unless SOLICITED */
#define TERN_CQ_ST_SOLICITED		BIT(1)
#define TERN_CQ_ST_FAILED		BIT(2)	/* it takes no more completions */

/*
 * Entries of an MR with TERN_ACCESS_ON_DEMAND carry these bits; a page without
 * TERN_PAGE_READ is absent. Entries of all other lists have zeros there.
 */
#define TERN_PAGE_READ			BIT(0)
#define TERN_PAGE_WRITE			BIT(1)

/*
 * ---- CREATE_MR: out: tern_rsp_object, id = key (both lkey and rkey) ----
 * With TERN_MR_F_INCOMPLETE pages.addr is 0 and the MR has space for pages.num
 * entries. UPDATE_PAGES fills them, and with TERN_UPDATE_LAST opens the key.
 * With TERN_MR_F_SPARSE pages.addr and num are 0, and UPDATE_PAGES makes space.
 */
struct tern_cmd_create_mr {
	struct tern_pages	pages;		/* TERN_MR_FAST: num = entries to hold */
	__le64			iova;		/* address of its first byte */
	__le64			length;		/* bytes, may be 0 */
	__le64			offset;		/* of its first byte in the first page or DM */
	__le32			pdn;
	__le32			access;		/* TERN_ACCESS_* */
	__le32			dmn;		/* TERN_MR_DM */
	__u8			kind;		/* TERN_MR_* */
	__u8			flags;		/* TERN_MR_F_* */
	__le16			rsvd_36;
};

static_assert(sizeof(struct tern_cmd_create_mr) == 56, "tern_cmd_create_mr");

#define TERN_MR_MEMORY			0
#define TERN_MR_DM			1	/* device memory: no pages */
#define TERN_MR_FAST			2	/* for REG_MR: no pages yet, key closed */
#define TERN_MR_F_INCOMPLETE		BIT(0)
#define TERN_MR_F_SPARSE		BIT(1)	/* ON_DEMAND: up to 2^64 - 1 bytes */

/* ---- DESTROY_MR: tern_cmd_object with the key; BUSY while windows are bound ---- */

/* ---- UPDATE_PAGES ---- */
struct tern_cmd_update_pages {
	struct tern_pages	pages;		/* num entries, the MR's page_shift */
	__le64			first;		/* index of the first entry */
	__le32			key;
	__le32			flags;		/* TERN_UPDATE_* */
};

static_assert(sizeof(struct tern_cmd_update_pages) == 32, "tern_cmd_update_pages");

#define TERN_UPDATE_LAST		BIT(0)	/* opens the key */
#define TERN_UPDATE_CLOSE		BIT(1)	/* closes it: accesses fail until LAST */
#define TERN_UPDATE_ABSENT		BIT(2)	/* ON_DEMAND: num entries, without a list */

/* ---- QUERY_MR: tern_cmd_object with a key of a region or window ---- */
struct tern_rsp_mr {
	__le64	iova;
	__le64	length;
	__le32	key;			/* as valid now */
	__le32	pdn;
	__le32	access;
	__le32	qpn;			/* of a bound type 2 window */
	__le32	num_windows;		/* bound to this region */
	__le32	mr_key;			/* window: of the region it is bound to, else 0 */
	__u8	state;			/* TERN_KEY_ST_* */
	__u8	type;			/* 0 region, 1 or 2 window */
	__u8	rsvd_2a[6];
};

static_assert(sizeof(struct tern_rsp_mr) == 48, "tern_rsp_mr");

#define TERN_KEY_ST_FREE		0
#define TERN_KEY_ST_VALID		1

/* ---- ALLOC_MW: out: tern_rsp_object, id = key. FREE_MW unbinds a bound window ---- */
struct tern_cmd_alloc_mw {
	__le32	pdn;
	__u8	type;			/* 1 or 2 */
	__u8	rsvd_5[3];
};

static_assert(sizeof(struct tern_cmd_alloc_mw) == 8, "tern_cmd_alloc_mw");

/*
 * ---- ALLOC_DM ---- The memory is zeroed and has whole pages (PAGE_SHIFT). The
 * command completes when all of it is zero; others may complete in the meantime.
 * FREE_DM is BUSY while an MR or an operation page is on the memory.
 */
struct tern_cmd_alloc_dm {
	__le64	length;			/* bytes, 1..dm_size */
	__le32	log_align;		/* log2 of the alignment of its offset in BAR4 */
	__le32	rsvd_c;
};

static_assert(sizeof(struct tern_cmd_alloc_dm) == 16, "tern_cmd_alloc_dm");

struct tern_rsp_alloc_dm {
	__le64	offset;			/* in BAR4 */
	__le64	size;			/* length rounded up to pages */
	__le32	dmn;
	__le32	rsvd_14;
};

static_assert(sizeof(struct tern_rsp_alloc_dm) == 24, "tern_rsp_alloc_dm");

/*
 * ---- CREATE_QP: out: tern_rsp_object, id = QP number ----
 * One buffer holds SQ and RQ at the given offsets, which are 64-byte aligned. The
 * device only reads it.
 */
struct tern_cmd_create_qp {
	struct tern_pages	pages;
	__le64			record;		/* DMA address of struct tern_qp_record */
	__le32			sq_offset;
	__le32			rq_offset;
	__le32			pdn;
	__le32			uar;
	__le32			send_cqn;
	__le32			recv_cqn;
	__le32			srqn;		/* with TERN_QP_F_SRQ */
	__le32			xrcdn;		/* XRC target */
	__u8			type;		/* TERN_QPT_* */
	__u8			flags;		/* TERN_QP_F_* */
	__u8			log_sq_size;	/* log2 of WQEs */
	__u8			log_sq_stride;	/* log2 of bytes */
	__u8			log_rq_size;
	__u8			log_rq_stride;
	__u8			rsvd_3e[2];
};

static_assert(sizeof(struct tern_cmd_create_qp) == 64, "tern_cmd_create_qp");

#define TERN_QPT_RC			0
#define TERN_QPT_UC			1
#define TERN_QPT_UD			2
#define TERN_QPT_XRC_INI		3
#define TERN_QPT_XRC_TGT		4
#define TERN_QPT_GSI			5	/* QP 1, privileged PD, at most one */
#define TERN_QPT_RAW			6	/* Ethernet frames */

#define TERN_QP_F_SRQ			BIT(0)
#define TERN_QP_F_NO_SQ			BIT(1)	/* XRC_TGT, RAW, RC with TERN_SRQ_F_TM */
#define TERN_QP_F_NO_RQ			BIT(2)	/* SRQ, XRC, RAW */
#define TERN_QP_F_STRIP_VLAN		BIT(3)	/* RAW */
#define TERN_QP_F_KEEP_FCS		BIT(4)	/* RAW: 4 bytes of FCS follow the frame */
#define TERN_QP_F_NO_MCAST_LOOPBACK	BIT(5)	/* RAW, UD: of its own frames to groups */

/* Attributes that MODIFY_QP sets and QUERY_QP returns. */
struct tern_qp_attr {
	struct tern_av	av;
	__le32		dest_qpn;
	__le32		qkey;
	__le32		sq_psn;
	__le32		rq_psn;
	__le32		access;			/* TERN_ACCESS_* that a peer may use */
	__le16		pkey_index;
	__u8		state;			/* TERN_QPS_* */
	__u8		path_mtu;		/* log2 of bytes, 8..12 */
	__u8		max_rd_atomic;		/* as initiator */
	__u8		max_dest_rd_atomic;	/* as target */
	__u8		min_rnr_timer;		/* AETH code 0..31 */
	__u8		timeout;		/* 4.096 us * 2^n, 0: none, 0..31 */
	__u8		retry_cnt;		/* 0..7 */
	__u8		rnr_retry;		/* 0..7, 7: for ever */
	__u8		sq_draining;		/* query only */
	__u8		port;			/* 1..num_ports */
	__le32		rate_limit;		/* kbit/s, up to max_rate; 0: none */
	__le32		max_burst;		/* bytes, up to 2^24; 0: one packet */
	__le16		typical_packet;		/* bytes, counted in a burst; 0: the path MTU */
	__u8		rsvd_52[6];
};

static_assert(sizeof(struct tern_qp_attr) == 88, "tern_qp_attr");

/*
 * Automatic path migration of an RC, UC or XRC QP: the alternate path and the state.
 * When the QP migrates, av, pkey_index, port and timeout become those of the primary
 * path, and there is no alternate path any more: port is 0.
 */
struct tern_qp_alt {
	struct tern_av	av;
	__le16		pkey_index;
	__u8		port;			/* 1..num_ports */
	__u8		timeout;		/* as in struct tern_qp_attr */
	__u8		mig_state;		/* TERN_MIG_*; set by TERN_QPA_MIG_STATE */
	__u8		rsvd_2d[3];
};

static_assert(sizeof(struct tern_qp_alt) == 48, "tern_qp_alt");

#define TERN_MIG_MIGRATED		0	/* set: migrate if ARMED */
#define TERN_MIG_REARM			1	/* set: arm when the peer is ready */
#define TERN_MIG_ARMED			2	/* query only */

#define TERN_QPS_RESET			0
#define TERN_QPS_INIT			1
#define TERN_QPS_RTR			2
#define TERN_QPS_RTS			3
#define TERN_QPS_SQD			4
#define TERN_QPS_SQE			5
#define TERN_QPS_ERR			6

struct tern_cmd_modify_qp {
	__le32			qpn;
	__le32			mask;		/* TERN_QPA_* */
	__le32			cur_state;	/* TERN_QPA_CUR_STATE: expected, or BAD_STATE */
	__le32			flags;		/* TERN_QPM_* */
	struct tern_qp_attr	attr;
	struct tern_qp_alt	alt;
};

static_assert(sizeof(struct tern_cmd_modify_qp) == 152, "tern_cmd_modify_qp");

#define TERN_QPA_STATE			BIT(0)
#define TERN_QPA_CUR_STATE		BIT(1)
#define TERN_QPA_ACCESS			BIT(2)
#define TERN_QPA_PKEY_INDEX		BIT(3)
#define TERN_QPA_QKEY			BIT(4)
#define TERN_QPA_AV			BIT(5)
#define TERN_QPA_PATH_MTU		BIT(6)
#define TERN_QPA_TIMEOUT		BIT(7)
#define TERN_QPA_RETRY_CNT		BIT(8)
#define TERN_QPA_RNR_RETRY		BIT(9)
#define TERN_QPA_RQ_PSN			BIT(10)
#define TERN_QPA_MAX_RD_ATOMIC		BIT(11)
#define TERN_QPA_MAX_DEST_RD_ATOMIC	BIT(12)
#define TERN_QPA_MIN_RNR_TIMER		BIT(13)
#define TERN_QPA_SQ_PSN			BIT(14)
#define TERN_QPA_DEST_QPN		BIT(15)
#define TERN_QPA_PORT			BIT(16)
#define TERN_QPA_RATE_LIMIT		BIT(17)	/* with max_burst and typical_packet */
#define TERN_QPA_ALT_PATH		BIT(18)	/* struct tern_qp_alt but mig_state */
#define TERN_QPA_MIG_STATE		BIT(19)
#define TERN_QPA_UDP_SPORT		BIT(24)	/* av.udp_sport alone, not 0 */

#define TERN_QPM_SQD_NOTIFY		BIT(0)	/* to SQD: TERN_EV_SQ_DRAINED when drained */
#define TERN_QPM_STRIP_VLAN		BIT(1)	/* RAW, in any state: sets TERN_QP_F_STRIP_VLAN */
#define TERN_QPM_KEEP_VLAN		BIT(2)	/* RAW, in any state: clears it */
#define TERN_QPM_ECE_MASK		GENMASK(15, 8)	/* to RTR, RC and XRC: TERN_ECE_* */

/* Options that both ends of a connection agreed on; needs TERN_CAP_ECE. */
#define TERN_ECE_REPEAT_NAK		BIT(0)	/* sequence NAKs may come more than once */
#define TERN_ECE_OPTIONS		TERN_ECE_REPEAT_NAK	/* all of them */

/* ---- QUERY_QP: tern_cmd_object ---- */
struct tern_rsp_query_qp {
	struct tern_qp_attr	attr;
	__le32			sq_ci;		/* index: WQEs completed */
	__le32			rq_ci;		/* index: WQEs consumed */
	__le32			rate;		/* now in force, kbit/s; 0: no limit */
	__le32			rsvd_64;
	struct tern_qp_alt	alt;
};

static_assert(sizeof(struct tern_rsp_query_qp) == 152, "tern_rsp_query_qp");

/* ---- CREATE_SRQ: out: tern_rsp_object ---- */
struct tern_cmd_create_srq {
	struct tern_pages	pages;		/* receive WQEs; the device only reads them */
	__le64			record;		/* DMA address of struct tern_srq_record */
	__le32			pdn;
	__le32			xrcdn;		/* with TERN_SRQ_F_XRC */
	__le32			cqn;		/* with TERN_SRQ_F_XRC or TERN_SRQ_F_TM */
	__u8			log_size;
	__u8			log_stride;
	__u8			flags;		/* TERN_SRQ_F_*, one of them or none */
	/* TERN_SRQ_F_TM, else 0: */
	__u8			log_ops;	/* log2 of operations, 0..TERN_TM_MAX_LOG_OPS */
	struct tern_pages	ops_pages;	/* struct tern_tm_op[], read only */
	__le32			uar;
	__le32			max_tags;	/* 1..max_tags of QUERY_CAPS */
};

static_assert(sizeof(struct tern_cmd_create_srq) == 64, "tern_cmd_create_srq");

#define TERN_SRQ_F_XRC			BIT(0)
#define TERN_SRQ_F_TM			BIT(1)	/* tag matching, for RC QPs */

/* ---- MODIFY_SRQ: the record stays where it is ---- */
struct tern_cmd_modify_srq {
	struct tern_pages	pages;		/* TERN_SRQA_RESIZE: the new buffer */
	__le32			srqn;
	__le32			mask;		/* TERN_SRQA_* */
	__le32			limit;
	__u8			log_size;
	__u8			rsvd_1d[3];
};

static_assert(sizeof(struct tern_cmd_modify_srq) == 32, "tern_cmd_modify_srq");

#define TERN_SRQA_LIMIT			BIT(0)
#define TERN_SRQA_RESIZE		BIT(1)

/* ---- QUERY_SRQ: tern_cmd_object ---- */
struct tern_rsp_query_srq {
	__le32	limit;
	__le32	ci;			/* index: WQEs taken */
};

static_assert(sizeof(struct tern_rsp_query_srq) == 8, "tern_rsp_query_srq");

/* ---- ATTACH_MCAST, DETACH_MCAST ---- */
struct tern_cmd_mcast {
	__u8	gid[16];
	__le32	qpn;
	__u8	port;			/* that of the QP */
	__u8	rsvd_15[3];
};

static_assert(sizeof(struct tern_cmd_mcast) == 24, "tern_cmd_mcast");

#endif /* TERN_VERBS_H */
