/* SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause) */
/*
 * tern hardware contract: queues of the RDMA engine: doorbell records, send and
 * receive WQEs. A kernel-bypass provider needs this, tern_cq.h and tern_regs.h.
 */
#ifndef TERN_IO_H
#define TERN_IO_H

#include <linux/types.h>

#include "tern_cq.h"

struct tern_qp_record {
	__le32	sq_pi;		/* poster of sends: WQEs posted */
	__u8	rsvd_4[60];
	__le32	rq_pi;		/* poster of receives: WQEs posted */
	__u8	rsvd_44[60];
	__le32	status;		/* device: TERN_QP_ST_* */
	__u8	rsvd_84[124];
};

static_assert(sizeof(struct tern_qp_record) == 256, "tern_qp_record");

/*
 * The QP is in error: software that posts a receive and finds this bit set after
 * storing rq_pi must kick TERN_DB_CMD_RQ. No barrier is needed between the two.
 * The device stores the word, reads rq_pi and flushes, and reads rq_pi once more
 * after TERN_RQ_SETTLE_NS. By then the device sees the rq_pi of software that
 * read an older value of this word.
 */
#define TERN_RQ_SETTLE_NS		1000000
#define TERN_QP_ST_RQ_KICK		BIT(0)
/*
 * The device polls sq_pi: the poster need not kick TERN_DB_CMD_SQ. The poster stores
 * sq_pi, issues a full barrier and reads this word. To stop polling, the device
 * clears the bit, issues a full barrier and reads sq_pi once more.
 */
#define TERN_QP_ST_SQ_POLLED		BIT(1)

struct tern_srq_record {
	__le32	pi;		/* poster: WQEs posted */
	__le32	ops_pi;		/* poster: struct tern_tm_op posted */
	__u8	rsvd_8[56];
	__le32	ci;		/* device: WQEs taken, whose slots are free */
	__le32	ops_ci;		/* device: operations executed, whose slots are free */
	__le32	tags_released;	/* device: tags added that it no longer holds */
	__u8	rsvd_4c[52];
};

static_assert(sizeof(struct tern_srq_record) == 128, "tern_srq_record");

/* Scatter/gather element; a length of 0 means 0 bytes. */
struct tern_sge {
	__le64	addr;
	__le32	length;
	__le32	lkey;
};

static_assert(sizeof(struct tern_sge) == 16, "tern_sge");

/*
 * Lkeys without a region: for DMA addresses, in privileged PDs only; and for
 * any address in any PD: stores there are discarded, and loads return zeros.
 */
#define TERN_LKEY_DMA			0x00000100U
#define TERN_LKEY_NULL			0x00000200U
/* Key index 0 is never assigned, 1 and 2 are TERN_LKEY_DMA and TERN_LKEY_NULL. */
#define TERN_KEY_INDEX_SHIFT		8
#define TERN_KEY_VARIANT_MASK		GENMASK(7, 0)
#define TERN_KEY_INVALID		0U

/*
 * Send WQE: a 32-byte header, the segment of the opcode, whose size depends on the
 * opcode, then num_sge SGEs or, with TERN_WQE_F_INLINE, length bytes of payload.
 * The slot of WQE i is i modulo the queue's size; a slot has 1 << log stride bytes.
 */
struct tern_sq_hdr {
	__u8	opcode;		/* TERN_WR_* */
	__u8	flags;		/* TERN_WQE_F_* */
	__u8	num_sge;
	__u8	rsvd_3;
	__le32	length;		/* bytes of inline payload, else 0 */
	__le64	wr_id;		/* returned in the CQE */
	__be32	imm;		/* *_WITH_IMM: sent unchanged */
	__le32	inv_rkey;	/* SEND_WITH_INV, LOCAL_INV: the key */
	__le32	xrc_srqn;	/* XRC: number of the remote SRQ */
	__le32	rsvd_1c;
};

static_assert(sizeof(struct tern_sq_hdr) == 32, "tern_sq_hdr");

#define TERN_WQE_F_SIGNALED		BIT(0)
#define TERN_WQE_F_SOLICITED		BIT(1)
#define TERN_WQE_F_FENCE		BIT(2)
#define TERN_WQE_F_INLINE		BIT(3)

/* Opcodes of send WQEs; the comments give the segment that follows the header. */
#define TERN_WR_NOP			0x00	/* - */
#define TERN_WR_SEND			0x01	/* - ; UD: tern_ud_seg; raw QP: tern_eth_offload */
#define TERN_WR_SEND_WITH_IMM		0x02	/* - ; UD: tern_ud_seg */
#define TERN_WR_SEND_WITH_INV		0x03	/* - */
#define TERN_WR_RDMA_WRITE		0x04	/* tern_rdma_seg */
#define TERN_WR_RDMA_WRITE_WITH_IMM	0x05	/* tern_rdma_seg */
#define TERN_WR_RDMA_READ		0x06	/* tern_rdma_seg */
#define TERN_WR_ATOMIC_CMP_AND_SWP	0x07	/* tern_atomic_seg */
#define TERN_WR_ATOMIC_FETCH_AND_ADD	0x08	/* tern_atomic_seg */
#define TERN_WR_ATOMIC_WRITE		0x09	/* tern_rdma_seg, 8 bytes of payload */
#define TERN_WR_FLUSH			0x0a	/* tern_flush_seg */
#define TERN_WR_LOCAL_INV		0x0b	/* - ; inv_rkey of the header */
#define TERN_WR_BIND_MW			0x0c	/* tern_bind_seg */
#define TERN_WR_REG_MR			0x0d	/* tern_reg_seg, privileged PDs only */

/* Opcodes of completions of receives and of operations on tags. */
#define TERN_RECV_SEND			0x40
#define TERN_RECV_RDMA_WITH_IMM		0x41
#define TERN_RECV_TM			0x42	/* message with a tag */
#define TERN_RECV_TM_NO_TAG		0x43	/* any other message to an SRQ with tags */
#define TERN_TM_CQE_ADD			0x48
#define TERN_TM_CQE_DEL			0x49
#define TERN_TM_CQE_SYNC		0x4a

struct tern_rdma_seg {
	__le64	raddr;
	__le32	rkey;
	__le32	rsvd_c;
};

static_assert(sizeof(struct tern_rdma_seg) == 16, "tern_rdma_seg");

/* The operands are plain 64-bit numbers; the device converts them for the wire. */
struct tern_atomic_seg {
	__le64	raddr;
	__le32	rkey;
	__le32	rsvd_c;
	__le64	swap_add;
	__le64	compare;
};

static_assert(sizeof(struct tern_atomic_seg) == 32, "tern_atomic_seg");

struct tern_flush_seg {
	__le64	raddr;
	__le32	rkey;
	__u8	type;		/* TERN_FLUSH_* placement types */
	__u8	level;		/* TERN_FLUSH_LEVEL_* */
	__u8	rsvd_e[2];
	__le64	length;		/* bytes, up to 2^31 */
	__le64	rsvd_18;
};

static_assert(sizeof(struct tern_flush_seg) == 32, "tern_flush_seg");

#define TERN_FLUSH_GLOBAL		BIT(0)
#define TERN_FLUSH_PERSISTENT		BIT(1)
#define TERN_FLUSH_LEVEL_RANGE		0
#define TERN_FLUSH_LEVEL_MR		1

struct tern_bind_seg {
	__le64	addr;
	__le64	length;
	__le32	lkey;		/* of the region; ignored with length 0 */
	__le32	rkey;		/* the window's key before the bind */
	__le32	new_rkey;	/* its key after the bind: same index */
	__le32	access;		/* TERN_ACCESS_*, TERN_ACCESS_ZERO_BASED */
	__u8	type;		/* 1 or 2: which verb requested the bind */
	__u8	rsvd_21[15];
};

static_assert(sizeof(struct tern_bind_seg) == 48, "tern_bind_seg");

struct tern_reg_seg {
	__le64	iova;
	__le64	length;
	__le64	pages;		/* DMA address of num_pages __le64 DMA addresses */
	__le32	num_pages;
	__le32	key;		/* new key: same index, any variant */
	__le32	access;
	__u8	page_shift;
	__u8	rsvd_25[3];
	__le64	first_offset;	/* offset of iova in the first page */
};

static_assert(sizeof(struct tern_reg_seg) == 48, "tern_reg_seg");

/*
 * Address vector of RoCEv2. The source address, MAC and VLAN come from the GID
 * table entry; without a valid entry the WQE fails with LOC_QP_OP_ERR.
 */
struct tern_av {
	__u8	dgid[16];	/* IPv4 as ::ffff:a.b.c.d */
	__le32	flow_label;	/* 20 bits */
	__le16	sgid_index;
	__le16	udp_sport;	/* 0: derived from the flow label or the QP numbers */
	__u8	dmac[6];
	__u8	hop_limit;
	__u8	traffic_class;
	__u8	sl;		/* also the VLAN priority */
	__u8	static_rate;
	__u8	port;		/* that of the QP, 1..num_ports */
	__u8	rsvd_23[5];
};

static_assert(sizeof(struct tern_av) == 40, "tern_av");

struct tern_ud_seg {
	struct tern_av	av;
	__le32		dqpn;
	__le32		qkey;	/* bit 31 set: the QP's own Q_Key */
};

static_assert(sizeof(struct tern_ud_seg) == 48, "tern_ud_seg");

/* Receive WQE, for RQs and SRQs: a 16-byte header, then num_sge SGEs. */
struct tern_rq_hdr {
	__u8	num_sge;
	__u8	rsvd_1[7];
	__le64	wr_id;
};

static_assert(sizeof(struct tern_rq_hdr) == 16, "tern_rq_hdr");

/* Log2 of the bytes of a slot. */
#define TERN_SQ_STRIDE_MIN		6
#define TERN_SQ_STRIDE_MAX		11
#define TERN_RQ_STRIDE_MIN		5
#define TERN_RQ_STRIDE_MAX		10

/* Access rights of regions, windows and QPs. */
#define TERN_ACCESS_LOCAL_WRITE		BIT(0)
#define TERN_ACCESS_REMOTE_WRITE	BIT(1)
#define TERN_ACCESS_REMOTE_READ		BIT(2)
#define TERN_ACCESS_REMOTE_ATOMIC	BIT(3)
#define TERN_ACCESS_MW_BIND		BIT(4)
#define TERN_ACCESS_ZERO_BASED		BIT(5)
#define TERN_ACCESS_ON_DEMAND		BIT(6)
#define TERN_ACCESS_FLUSH_GLOBAL	BIT(7)
#define TERN_ACCESS_FLUSH_PERSISTENT	BIT(8)

#endif /* TERN_IO_H */
