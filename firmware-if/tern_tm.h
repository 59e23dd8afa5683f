/* SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause) */
/*
 * tern hardware contract: tag matching, of an SRQ with TERN_SRQ_F_TM: operations on its
 * list of tags, headers of messages, completions.
 */
#ifndef TERN_TM_H
#define TERN_TM_H

#include <linux/types.h>

#include "tern_io.h"

/*
 * Tag matching (SRQ with TERN_SRQ_F_TM): an operation on its list of tags. The slot
 * of operation i is i modulo the ring's size.
 */
struct tern_tm_op {
	__u8	opcode;		/* TERN_TM_* */
	__u8	flags;		/* TERN_TM_F_* */
	__u8	num_sge;	/* ADD */
	__u8	rsvd_3;
	__le32	handle;		/* ADD: the tag's name, chosen by software; DEL: that of the tag */
	__le64	wr_id;		/* returned in the CQE of the operation */
	__le64	recv_wr_id;	/* ADD: returned in the CQEs of the message */
	__le64	tag;		/* ADD: matches a message with (its tag & mask) == tag */
	__le64	mask;
	__le32	unexpected;	/* TERN_TM_F_SYNC: unexpected messages that software has handled */
	__u8	rsvd_2c[20];
	struct tern_sge	sge[4];	/* ADD: destination of the message */
};

static_assert(sizeof(struct tern_tm_op) == 128, "tern_tm_op");

#define TERN_TM_ADD			1
#define TERN_TM_DEL			2
#define TERN_TM_SYNC			3

#define TERN_TM_F_SIGNALED		BIT(0)
#define TERN_TM_F_SYNC			BIT(1)

#define TERN_TM_MAX_SGE			4
#define TERN_TM_MAX_LOG_OPS		12	/* log2 of the operations of a ring */

/*
 * Header of a message to such an SRQ, on the wire. In a rendezvous request the
 * second structure follows it, and the request has at most TERN_TM_MAX_RNDV
 * bytes in all.
 */
struct tern_tm_header {
	__u8	opcode;		/* TERN_TMH_* */
	__u8	rsvd_1[3];
	__be32	app_ctx;
	__be64	tag;
};

static_assert(sizeof(struct tern_tm_header) == 16, "tern_tm_header");

struct tern_tm_rndv {
	__be64	va;
	__be32	rkey;
	__be32	length;
};

static_assert(sizeof(struct tern_tm_rndv) == 16, "tern_tm_rndv");

#define TERN_TMH_NO_TAG			0
#define TERN_TMH_RNDV			1
#define TERN_TMH_FIN			2
#define TERN_TMH_EAGER			3

#define TERN_TM_MAX_RNDV		64

/* Fields that differ in a CQE with TERN_CQE_F_TM_MATCH; the rest is as in struct tern_cqe. */
struct tern_tm_cqe {
	__u8	rsvd_0[24];
	__le32	app_ctx;	/* of the message's header */
	__u8	rsvd_1c[20];
	__le64	tag;
	__u8	rsvd_38[8];
};

static_assert(sizeof(struct tern_tm_cqe) == 64, "tern_tm_cqe");

/* Flags of a CQE with TERN_RECV_TM or TERN_TM_CQE_*. */
#define TERN_CQE_F_TM_SYNC_REQ		BIT(5)	/* a tag waits for TERN_TM_F_SYNC */
#define TERN_CQE_F_TM_MATCH		BIT(6)	/* a tag has matched the message */
#define TERN_CQE_F_TM_DATA_VALID	BIT(7)	/* the message is in the tag's buffer */

#endif /* TERN_TM_H */
