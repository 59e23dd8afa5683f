/* SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause) */
/*
 * tern hardware contract: the admin queue, and the commands of the function: port,
 * event queues, completion queues. Kernel only.
 *
 * Rules for every command: the device copies in_len bytes, which must be at least
 * the size of the structure of that version. Bytes beyond the structure that the
 * device knows, and all reserved bytes, must be zero (TERN_ST_BAD_PARAM). The device
 * writes at most out_len bytes of the reply. A command that fails changes nothing,
 * unless stated otherwise.
 */
#ifndef TERN_ADMIN_H
#define TERN_ADMIN_H

#include <linux/types.h>

/*
 * Admin queue entry. Commands may complete in any order; the completion returns
 * tag. A completion that struct tern_aq_record requests, and entering
 * TERN_STATUS_FATAL, raises MSI-X vector 0, which event queues may use as well.
 * Software has at most as many commands outstanding as the queue has entries.
 */
struct tern_aq_entry {
	__le16	opcode;		/* TERN_CMD_* */
	__le16	version;	/* of the command, TERN_CMD_VERSION */
	__le32	tag;
	__le16	in_len;		/* bytes, up to TERN_CMD_MAX_LEN */
	__le16	out_len;
	__le32	rsvd_c;
	__le64	in_addr;	/* DMA, 8-byte aligned */
	__le64	out_addr;
};

static_assert(sizeof(struct tern_aq_entry) == 32, "tern_aq_entry");

#define TERN_CMD_VERSION		1
#define TERN_CMD_MAX_LEN		1024

struct tern_acq_entry {
	__le32	tag;
	__le16	status;		/* TERN_ST_* */
	__le16	out_len;	/* bytes written */
	__le32	aq_head;	/* index: AQ entries fetched so far */
	__le32	phase;		/* bit 0 as in struct tern_cqe, written last */
};

static_assert(sizeof(struct tern_acq_entry) == 16, "tern_acq_entry");

#define TERN_ST_OK			0
#define TERN_ST_BAD_OPCODE		1
#define TERN_ST_BAD_VERSION		2
#define TERN_ST_BAD_LENGTH		3
#define TERN_ST_BAD_PARAM		4	/* out of range, or reserved and not zero */
#define TERN_ST_BAD_HANDLE		5	/* no such object */
#define TERN_ST_BAD_STATE		6	/* the object's state does not allow it */
#define TERN_ST_BUSY			7	/* other objects still refer to it */
#define TERN_ST_NO_RESOURCE		8	/* a limit of QUERY_CAPS is reached */
#define TERN_ST_NO_MEMORY		9
#define TERN_ST_NOT_SUPPORTED		10
#define TERN_ST_DMA_ERROR		11	/* an address is not reachable */
#define TERN_ST_DENIED			12	/* needs a privileged PD */
#define TERN_ST_INTERNAL		13

/* Command codes. Other headers have those of their objects. */
#define TERN_CMD_NOP			0x00
#define TERN_CMD_QUERY_CAPS		0x01
#define TERN_CMD_QUERY_COUNTERS		0x03
#define TERN_CMD_QUERY_PORT		0x08
#define TERN_CMD_MODIFY_PORT		0x09
#define TERN_CMD_CREATE_EQ		0x18
#define TERN_CMD_DESTROY_EQ		0x19
#define TERN_CMD_CREATE_CQ		0x1c
#define TERN_CMD_DESTROY_CQ		0x1d
#define TERN_CMD_MODIFY_CQ		0x1f

/* Input of commands on one object. Replies without content have no structure. */
struct tern_cmd_object {
	__le32	id;		/* object number or key */
	__le32	rsvd_4;
};

static_assert(sizeof(struct tern_cmd_object) == 8, "tern_cmd_object");

/* Reply of commands that only return the new object's number or key. */
struct tern_rsp_object {
	__le32	id;
	__le32	generation;		/* CQ, QP, SRQ: as in its events; else 0 */
};

static_assert(sizeof(struct tern_rsp_object) == 8, "tern_rsp_object");

/*
 * Page list: num pages of 1 << page_shift bytes.
 * TERN_PAGES_DIRECT: addr is the address of one contiguous buffer.
 * TERN_PAGES_LIST: addr is the address of num __le64 page addresses.
 * TERN_PAGES_INDIRECT: addr is the address of an array of __le64 addresses of
 * 4096-byte chunks. Each chunk has up to 512 __le64 page addresses; all chunks but
 * the last are full.
 * A command that would read more than max_cmd_pages entries fails with
 * TERN_ST_BAD_PARAM; one with which the device would hold more than max_pages
 * entries fails with TERN_ST_NO_MEMORY.
 */
struct tern_pages {
	__le64	addr;
	__le32	num;
	__u8	page_shift;	/* 12..31; DIRECT ignores it */
	__u8	kind;
	__le16	rsvd_e;
};

static_assert(sizeof(struct tern_pages) == 16, "tern_pages");

#define TERN_PAGES_DIRECT		0
#define TERN_PAGES_LIST			1
#define TERN_PAGES_INDIRECT		2
#define TERN_PAGES_CHUNK		512	/* entries of a chunk */

/* ---- QUERY_CAPS: no input ---- */
struct tern_rsp_caps {
	__le64	flags;			/* TERN_CAP_* */
	__le64	max_mr_size;		/* bytes */
	__le64	page_shift_mask;	/* bit n: an MR may have pages of 2^n bytes */
	__le64	dm_size;		/* bytes of device memory */
	__le64	guid;			/* node GUID; big-endian bytes are the EUI-64 */
	__le32	max_uar;
	__le32	max_pd;
	__le32	max_mr;
	__le32	max_mw;
	__le32	max_dm;
	__le32	max_eq;
	__le32	max_cq;
	__le32	max_cqe;		/* entries of a CQ */
	__le32	max_qp;
	__le32	max_qp_wr;		/* WQEs of an SQ or RQ */
	__le32	max_srq;
	__le32	max_srq_wr;
	__le32	max_xrcd;
	__le32	max_mcast_grp;
	__le32	max_mcast_qp_attach;	/* QPs of a group */
	__le32	max_msg_size;		/* bytes */
	__le32	max_inline;		/* bytes */
	__le32	max_fast_reg_pages;
	__le32	device_version;
	__le16	max_send_sge;
	__le16	max_recv_sge;
	__le16	max_sge_rd;
	__le16	max_rd_atomic;		/* of a QP, in each direction */
	__le16	gid_table_len;
	__le16	num_vectors;		/* MSI-X vectors, vector 0 included */
	__le16	max_eth_queues;		/* of each direction */
	__le16	max_tags;		/* of an SRQ; 0: no tag matching */
	__u8	mac[6];			/* permanent address of port 1 */
	__u8	local_ca_ack_delay;	/* 4.096 us * 2^n */
	__u8	num_ports;		/* ports are numbered from 1 */
	__le32	max_rate;		/* of a QP's rate limit, kbit/s */
	__u8	fw_name[32];		/* NUL-terminated text */
	__le64	max_pages;		/* most page list entries of all objects together */
	__le32	max_cmd_pages;		/* most page list entries that one command reads */
	__le32	max_rss;		/* groups */
	__le32	max_flows;
	__le32	max_flow_shapes;
	__le32	max_flow_counters;
	__le32	max_counter_sets;
	__le32	max_comp_cntrs;
	__le32	rsvd_d4;
};

static_assert(sizeof(struct tern_rsp_caps) == 216, "tern_rsp_caps");

/*
 * Capabilities; tern_verbs.h has those of RDMA. The device refuses the commands and
 * opcodes of a bit that is clear.
 */
#define TERN_CAP_MODERATE_CQ		BIT(13)
#define TERN_CAP_TIMESTAMP		BIT(19)
#define TERN_CAP_VLAN			BIT(21)	/* GIDs and frames with a VLAN tag */
#define TERN_CAP_ETH_OFFLOAD		BIT(22)	/* TERN_ETH_OP_*, QF_*, CQE_F_L3_OK, L4_OK */
#define TERN_CAP_STEERING		BIT(23)	/* RSS groups, flows, flow counters */
#define TERN_CAP_CC			BIT(30)	/* congestion control (DCQCN) */
#define TERN_CAP_ETH_COALESCE		BIT_ULL(34)	/* TERN_ETH_QF_COALESCE */

/* ---- QUERY_PORT ---- */
struct tern_cmd_query_port {
	__u8	port;			/* 1..num_ports; others: BAD_PARAM, in all commands */
	__u8	rsvd_1[7];
};

static_assert(sizeof(struct tern_cmd_query_port) == 8, "tern_cmd_query_port");

struct tern_rsp_port {
	__u8	link_up;
	__u8	mac[6];
	__u8	rsvd_7;
	__le32	mtu;			/* Ethernet MTU in force, bytes */
	__le32	max_mtu;
	__le32	speed;			/* Mbit/s */
	__le32	rsvd_14;
};

static_assert(sizeof(struct tern_rsp_port) == 24, "tern_rsp_port");

/* ---- MODIFY_PORT ---- */
struct tern_cmd_modify_port {
	__le32	mask;			/* TERN_PORT_*: values to set */
	__le32	mtu;			/* 68..max_mtu: limit of the Ethernet function */
	__u8	mac[6];
	__u8	enable;			/* 0: the Ethernet function and RDMA are down */
	__u8	port;
};

static_assert(sizeof(struct tern_cmd_modify_port) == 16, "tern_cmd_modify_port");

#define TERN_PORT_MTU			BIT(0)
#define TERN_PORT_MAC			BIT(1)
#define TERN_PORT_ENABLE		BIT(2)

/*
 * ---- CREATE_EQ: out: tern_rsp_object ----
 * A completion EQ has an entry for each CQ mapped to it, so it cannot overflow. An
 * event for which the asynchronous or the fault EQ has no space stays pending in its
 * object.
 * Software stores ci past an entry before it acts on the entry.
 */
struct tern_cmd_create_eq {
	struct tern_pages	pages;		/* struct tern_eqe[], or struct tern_fault[] */
	__le64			record;		/* DMA address of struct tern_eq_record */
	__le16			vector;		/* MSI-X vector */
	__u8			log_size;	/* log2 of entries, 4..20 */
	__u8			kind;		/* TERN_EQ_* */
	__le32			rsvd_1c;
};

static_assert(sizeof(struct tern_cmd_create_eq) == 32, "tern_cmd_create_eq");

#define TERN_EQ_COMPLETION		0
#define TERN_EQ_ASYNC			1	/* one; after ci, kick TERN_DB_CMD_EQ_CI */
#define TERN_EQ_FAULT			2	/* likewise; its entries are page faults */

struct tern_eq_record {
	__le32	ci;			/* consumer: entries consumed */
	__u8	rsvd_4[60];
};

static_assert(sizeof(struct tern_eq_record) == 64, "tern_eq_record");

struct tern_eqe {
	__le16	type;			/* TERN_EV_* */
	__le16	detail;
	__le32	id;			/* QP, CQ, SRQ or port number; 0 for the device */
	__le32	generation;		/* of the QP, CQ or SRQ with this number; else 0 */
	__le32	phase;			/* bit 0 as in struct tern_cqe, written last */
};

static_assert(sizeof(struct tern_eqe) == 16, "tern_eqe");

/* Types of events; tern_verbs.h has those of QPs and SRQs. */
#define TERN_EV_COMPLETION		0
#define TERN_EV_CQ_ERR			9
#define TERN_EV_PORT_CHANGE		12	/* link, speed or MTU changed */
#define TERN_EV_NUM			13

/* ---- CREATE_CQ: out: tern_rsp_object ---- */
struct tern_cmd_create_cq {
	struct tern_pages	pages;		/* struct tern_cqe[]; the device only writes it */
	__le64			record;		/* DMA address of struct tern_cq_record */
	__le32			eqn;		/* TERN_EQ_COMPLETION; or TERN_NO_EQ */
	__le32			uar;
	__u8			log_size;	/* log2 of entries */
	__u8			flags;		/* TERN_CQ_F_* */
	__u8			rsvd_22[6];
};

static_assert(sizeof(struct tern_cmd_create_cq) == 40, "tern_cmd_create_cq");

#define TERN_NO_EQ			0xffffffffU
#define TERN_CQ_F_IGNORE_OVERRUN	BIT(0)

/* ---- MODIFY_CQ: event after count CQEs (0: any number) or period us; 0, 0: every CQE ---- */
struct tern_cmd_modify_cq {
	__le32	cqn;
	__le16	count;
	__le16	period;		/* must not be 0 with a count above 1 */
};

static_assert(sizeof(struct tern_cmd_modify_cq) == 8, "tern_cmd_modify_cq");

#endif /* TERN_ADMIN_H */
