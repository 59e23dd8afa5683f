/* SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause) */
/* tern hardware contract: doorbell records in general, and completion queues. */
#ifndef TERN_CQ_H
#define TERN_CQ_H

#include <linux/types.h>

/*
 * Doorbell records are not part of the rings. Software gives the DMA address of a
 * record when it creates the queue. The device reads and writes records. It only
 * reads rings of WQEs and descriptors, and only writes rings of CQEs and EQEs.
 * A record is aligned to its size, so it never crosses a page, and many records
 * share a page. Each line of 64 bytes in a record has one writer. Indices are
 * free-running 32-bit counts of entries. The device reads an index once; an index
 * more than the queue's size ahead is an error of that queue.
 */
#define TERN_RECORD_LINE		64

struct tern_cq_record {
	__le32	ci;		/* consumer: CQEs consumed */
	__le32	arm;		/* consumer: TERN_CQ_ARM_* */
	__u8	rsvd_8[56];
	__le32	reported;	/* device: every CQE below this index was reported by an event */
	__u8	rsvd_44[60];
};

static_assert(sizeof(struct tern_cq_record) == 128, "tern_cq_record");

/*
 * An arm requests one event as soon as there is a CQE (or a solicited one) whose
 * index is not below CI and that no earlier event reported. Such a CQE may exist
 * already. The device ignores an arm whose sequence number has fired: software
 * increments the number for each event that it takes.
 *
 * The device reads the word after it has written CQEs. Software stores it, issues a
 * full barrier, and kicks TERN_DB_CMD_CQ_ARM only if the first CQE that is neither
 * consumed nor below "reported" is there already: the device may have read the word
 * before it was stored. The device writes the CQEs, issues a full barrier and reads
 * the word.
 */
#define TERN_CQ_ARM_CI_MASK		GENMASK(23, 0)
#define TERN_CQ_ARM_SOLICITED		BIT(24)
#define TERN_CQ_ARM_VALID		BIT(25)
#define TERN_CQ_ARM_SEQ_MASK		GENMASK(29, 28)

/*
 * Completion queue entry. The device writes the first 60 bytes, then (release)
 * the phase word. Bit 0 is 1 on the first pass over a zeroed queue, 0 on the
 * second, and so on. Software reads the phase word, then (acquire) the rest.
 */
struct tern_cqe {
	__le64	wr_id;
	__le32	qpn;		/* Ethernet: the queue number */
	__le32	byte_len;	/* bytes received, or of the send WQE's message */
	__be32	imm;
	__le32	inv_rkey;	/* received frame: RSS hash */
	__le32	src_qp;		/* UD; received frame: flow tag */
	__le32	wqe_index;	/* free-running index of the completed WQE */
	__le64	timestamp;	/* device clock, ns */
	__u8	opcode;		/* TERN_WR_* of the requester, TERN_RECV_* */
	__u8	status;		/* TERN_CQE_* */
	__u8	vendor_err;
	__u8	flags;		/* TERN_CQE_F_* */
	__le16	pkey_index;	/* received frame: TERN_ETH_HASH_* */
	__le16	vlan;		/* TERN_CQE_F_VLAN: VLAN id; received frame: the whole tag */
	__u8	smac[6];	/* UD; TERN_CQE_F_TM_MATCH: struct tern_tm_cqe */
	__u8	sl;
	__u8	net_type;	/* TERN_NET_IPV4 or TERN_NET_IPV6 */
	__le32	srqn;		/* SRQ of the receive WQE; received frame: TERN_ETH_COALESCED_* */
	__le32	phase;
};

static_assert(sizeof(struct tern_cqe) == 64, "tern_cqe");

#define TERN_CQE_PHASE			BIT(0)

#define TERN_CQE_F_RECV			BIT(0)	/* completion of a receive WQE */
#define TERN_CQE_F_GRH			BIT(1)	/* 40 bytes of GRH precede the payload */
#define TERN_CQE_F_IMM			BIT(2)
#define TERN_CQE_F_INV			BIT(3)
#define TERN_CQE_F_SOLICITED		BIT(4)
#define TERN_CQE_F_VLAN			BIT(5)
#define TERN_CQE_F_L3_OK		BIT(6)	/* received frame: IPv4 header checksum, or IPv6 */
#define TERN_CQE_F_L4_OK		BIT(7)	/* received frame: checksum of TCP or UDP */

/* Opcodes of completions of frames; tern_io.h has those of RDMA. */
#define TERN_ETH_TX			0x50
#define TERN_ETH_RX			0x51

#define TERN_NET_IPV4			1
#define TERN_NET_IPV6			2

/* Completion status, with names and order of the InfiniBand specification. */
#define TERN_CQE_SUCCESS		0
#define TERN_CQE_LOC_LEN_ERR		1
#define TERN_CQE_LOC_QP_OP_ERR		2
#define TERN_CQE_LOC_PROT_ERR		3
#define TERN_CQE_WR_FLUSH_ERR		4
#define TERN_CQE_MW_BIND_ERR		5
#define TERN_CQE_BAD_RESP_ERR		6
#define TERN_CQE_LOC_ACCESS_ERR		7
#define TERN_CQE_REM_INV_REQ_ERR	8
#define TERN_CQE_REM_ACCESS_ERR		9
#define TERN_CQE_REM_OP_ERR		10
#define TERN_CQE_RETRY_EXC_ERR		11
#define TERN_CQE_RNR_RETRY_EXC_ERR	12
#define TERN_CQE_REM_ABORT_ERR		13
#define TERN_CQE_FATAL_ERR		14
#define TERN_CQE_RESP_TIMEOUT_ERR	15
#define TERN_CQE_GENERAL_ERR		16
#define TERN_CQE_TM_ERR			17	/* DEL: the device does not hold the tag */
#define TERN_CQE_TM_RNDV_INCOMPLETE	18	/* only the request is in the buffer */

#endif /* TERN_CQ_H */
