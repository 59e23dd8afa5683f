/* SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause) */
/*
 * tern hardware contract: new memory of a CQ or a region. The rules for commands of
 * tern_admin.h hold here.
 */
#ifndef TERN_CHANGE_H
#define TERN_CHANGE_H

#include <linux/types.h>

#include "tern_admin.h"

/*
 * ---- RESIZE_CQ ---- out: tern_rsp_resize_cq. From the next CQE on, the device
 * writes to the new buffer. Indices continue from the old buffer. The record stays
 * where it is.
 */
struct tern_cmd_resize_cq {
	struct tern_pages	pages;
	__le32			cqn;
	__u8			log_size;
	__u8			rsvd_15[3];
};

static_assert(sizeof(struct tern_cmd_resize_cq) == 24, "tern_cmd_resize_cq");

struct tern_rsp_resize_cq {
	__le32	pi;			/* first index in the new buffer */
	__le32	rsvd_4;
};

static_assert(sizeof(struct tern_rsp_resize_cq) == 8, "tern_rsp_resize_cq");

/* ---- REREG_MR: changes all that mask selects at once; TRANS, PD with windows: BUSY ---- */
struct tern_cmd_rereg_mr {
	struct tern_pages	pages;
	__le64			iova;
	__le64			length;
	__le64			offset;
	__le32			key;
	__le32			mask;		/* TERN_REREG_* */
	__le32			pdn;
	__le32			access;
	__u8			flags;		/* TERN_MR_F_INCOMPLETE with TRANS */
	__u8			rsvd_39[7];
};

static_assert(sizeof(struct tern_cmd_rereg_mr) == 64, "tern_cmd_rereg_mr");

#define TERN_REREG_TRANS		BIT(0)
#define TERN_REREG_PD			BIT(1)
#define TERN_REREG_ACCESS		BIT(2)

#endif /* TERN_CHANGE_H */
