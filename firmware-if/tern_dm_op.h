/* SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause) */
/*
 * tern hardware contract: operation pages of device memory. The rules for commands of
 * tern_admin.h hold here.
 */
#ifndef TERN_DM_OP_H
#define TERN_DM_OP_H

#include <linux/types.h>

/*
 * ---- MAP_DM_OP: out: tern_rsp_object, id = page of BAR2, ended by FREE_UAR ----
 * The page of BAR2 executes an operation on a page of device memory. No queue can
 * use it for doorbells.
 */
struct tern_cmd_map_dm_op {
	__le64	offset;			/* in the allocation, whole pages */
	__le32	dmn;
	__u8	op;			/* TERN_DM_OP_* */
	__u8	rsvd_d[3];
};

static_assert(sizeof(struct tern_cmd_map_dm_op) == 16, "tern_cmd_map_dm_op");

/*
 * Operation page (MAP_DM_OP): no doorbell, but the operation TERN_DM_OP_* on the
 * 32-bit word of device memory at the same offset in the page. A store of v makes
 * the word x op v. A load makes it x op the constant of the operation, and returns
 * x. Both are atomic with regard to accesses of the device and of CPUs. A store is
 * posted: loads of operation pages come after it, loads of BAR4 may come before.
 */
#define TERN_DM_OP_ADD			0	/* x + v; a load adds 1 */
#define TERN_DM_OP_OR			1	/* x | v; a load sets bit 0 */
#define TERN_DM_OP_CLEAR		2	/* x & ~v; a load clears all bits */
#define TERN_DM_OP_NUM			3

#endif /* TERN_DM_OP_H */
