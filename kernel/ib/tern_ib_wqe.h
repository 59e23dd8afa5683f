/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Send WQEs of the kernel's requests: pure functions, testable alone.
 */
#ifndef TERN_IB_WQE_H
#define TERN_IB_WQE_H

#include <linux/minmax.h>
#include <linux/string.h>

#include "tern_ib.h"
#include "tern_ib_util.h"

static inline void tern_fill_rdma(struct tern_rdma_seg *seg,
				  const struct ib_send_wr *wr)
{
	*seg = (struct tern_rdma_seg){
		.raddr = cpu_to_le64(rdma_wr(wr)->remote_addr),
		.rkey = cpu_to_le32(rdma_wr(wr)->rkey),
	};
}

static inline void tern_fill_atomic(struct tern_atomic_seg *seg,
				    const struct ib_send_wr *wr)
{
	const struct ib_atomic_wr *atomic = atomic_wr(wr);

	*seg = (struct tern_atomic_seg){
		.raddr = cpu_to_le64(atomic->remote_addr),
		.rkey = cpu_to_le32(atomic->rkey),
	};
	if (wr->opcode == IB_WR_ATOMIC_CMP_AND_SWP) {
		seg->swap_add = cpu_to_le64(atomic->swap);
		seg->compare = cpu_to_le64(atomic->compare_add);
	} else {
		seg->swap_add = cpu_to_le64(atomic->compare_add);
	}
}

static inline void tern_fill_ud(struct tern_ud_seg *seg,
				const struct ib_send_wr *wr)
{
	*seg = (struct tern_ud_seg){
		.av = to_tah(ud_wr(wr)->ah)->av,
		.dqpn = cpu_to_le32(ud_wr(wr)->remote_qpn),
		.qkey = cpu_to_le32(ud_wr(wr)->remote_qkey),
	};
}

static inline void tern_fill_reg(struct tern_reg_seg *seg,
				 const struct ib_send_wr *wr)
{
	const struct tern_mr *mr = to_tmr(reg_wr(wr)->mr);

	*seg = (struct tern_reg_seg){
		.iova = cpu_to_le64(mr->ibmr.iova),
		.length = cpu_to_le64(mr->ibmr.length),
		.pages = cpu_to_le64(mr->page_list.dma),
		.num_pages = cpu_to_le32(mr->num_pages),
		.key = cpu_to_le32(reg_wr(wr)->key),
		.access = cpu_to_le32(tern_mr_access(reg_wr(wr)->access)),
		.page_shift = mr->page_shift,
		.first_offset = cpu_to_le64(mr->first_offset),
	};
}

/* Fills the opcode's segment behind the header; returns where the data goes. */
static inline void *tern_fill_segment(enum ib_qp_type type, u8 opcode,
				      void *seg, const struct ib_send_wr *wr)
{
	switch (opcode) {
	case TERN_WR_RDMA_WRITE:
	case TERN_WR_RDMA_WRITE_WITH_IMM:
	case TERN_WR_RDMA_READ:
	case TERN_WR_ATOMIC_WRITE:
		tern_fill_rdma(seg, wr);
		return seg + sizeof(struct tern_rdma_seg);
	case TERN_WR_ATOMIC_CMP_AND_SWP:
	case TERN_WR_ATOMIC_FETCH_AND_ADD:
		tern_fill_atomic(seg, wr);
		return seg + sizeof(struct tern_atomic_seg);
	case TERN_WR_REG_MR:
		tern_fill_reg(seg, wr);
		return seg + sizeof(struct tern_reg_seg);
	default:
		if (type == IB_QPT_RC || type == IB_QPT_UC)
			return seg;
		tern_fill_ud(seg, wr);
		return seg + sizeof(struct tern_ud_seg);
	}
}

/* Puts the data of the request at @to, which has room for it. */
static inline void tern_copy_inline(void *to, const struct ib_send_wr *wr)
{
	int i;

	for (i = 0; i < wr->num_sge; i++) {
		memcpy(to, (void *)(uintptr_t)wr->sg_list[i].addr,
		       wr->sg_list[i].length);
		to += wr->sg_list[i].length;
	}
}

/* Whether the QP takes the request. */
static inline bool tern_send_wr_ok(const struct tern_qp *qp,
				   const struct ib_send_wr *wr, u8 opcode)
{
	const struct tern_ib_dev *dev = to_tdev(qp->ibqp.device);
	u32 max_sge = qp->cap.max_send_sge;

	if (!tern_wr_allowed(qp->ibqp.qp_type, opcode))
		return false;
	if (!tern_wr_has_data(opcode))
		return true;
	if (opcode == TERN_WR_RDMA_READ)
		max_sge = min_t(u32, max_sge,
				le16_to_cpu(dev->core->caps->max_sge_rd));
	if (wr->num_sge < 0 || wr->num_sge > max_sge)
		return false;
	if (!(wr->send_flags & IB_SEND_INLINE))
		return true;

	return tern_wr_may_inline(opcode) &&
	       tern_sge_bytes(wr->sg_list, wr->num_sge) <=
	       qp->cap.max_inline_data;
}

#endif /* TERN_IB_WQE_H */
