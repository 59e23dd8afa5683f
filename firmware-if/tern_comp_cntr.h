/* SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause) */
/*
 * tern hardware contract: completion counters. The rules for commands of tern_admin.h
 * hold here.
 */
#ifndef TERN_COMP_CNTR_H
#define TERN_COMP_CNTR_H

#include <linux/types.h>

/*
 * ---- CREATE_COMP_CNTR: out: tern_rsp_object. DESTROY_COMP_CNTR, tern_cmd_object,
 * is BUSY while the counter is attached to a QP ----
 * A completion counter has two values: completions that succeeded, and completions
 * that failed. Both begin with 0, and wrap. The device stores a value whenever it
 * changes, in one access, and never reads it back.
 */
struct tern_cmd_create_comp_cntr {
	__le64	value[2];		/* DMA address of the __le64, aligned to 8 bytes */
	__u8	type;			/* TERN_COMP_CNTR_* */
	__u8	rsvd_11[7];
};

static_assert(sizeof(struct tern_cmd_create_comp_cntr) == 24, "tern_cmd_create_comp_cntr");

/* Indices of value[]. */
#define TERN_COMP_CNTR_COMP		0	/* completions that succeeded */
#define TERN_COMP_CNTR_ERR		1	/* completions that failed, flushes included */

/* What the first value counts; the second one always counts completions. */
#define TERN_COMP_CNTR_WRS		0
#define TERN_COMP_CNTR_BYTES		1	/* bytes of the messages */

/* ---- MODIFY_COMP_CNTR ---- */
struct tern_cmd_modify_comp_cntr {
	__le32	id;
	__u8	entry;			/* TERN_COMP_CNTR_COMP or ERR */
	__u8	op;			/* TERN_COMP_CNTR_SET or ADD */
	__le16	rsvd_6;
	__le64	operand;
};

static_assert(sizeof(struct tern_cmd_modify_comp_cntr) == 16, "tern_cmd_modify_comp_cntr");

#define TERN_COMP_CNTR_SET		0
#define TERN_COMP_CNTR_ADD		1

/*
 * ---- ATTACH_COMP_CNTR: only in RESET and INIT, and until the QP is destroyed.
 * BUSY if one of the operations has a counter ----
 */
struct tern_cmd_attach_comp_cntr {
	__le32	qpn;
	__le32	id;
	__le32	ops;			/* TERN_COMP_OP_* */
	__le32	rsvd_c;
};

static_assert(sizeof(struct tern_cmd_attach_comp_cntr) == 16, "tern_cmd_attach_comp_cntr");

#define TERN_COMP_OP_SEND		BIT(0)	/* WRs: SEND of all kinds */
#define TERN_COMP_OP_RECV		BIT(1)	/* WRs that receive */
#define TERN_COMP_OP_RDMA_READ		BIT(2)	/* WRs: RDMA_READ */
#define TERN_COMP_OP_REMOTE_READ	BIT(3)	/* READs of the peer, once answered */
#define TERN_COMP_OP_RDMA_WRITE		BIT(4)	/* WRs: RDMA_WRITE, also with immediate */
#define TERN_COMP_OP_REMOTE_WRITE	BIT(5)	/* those of the peer, once stored */
#define TERN_COMP_OP_NUM		6

#endif /* TERN_COMP_CNTR_H */
