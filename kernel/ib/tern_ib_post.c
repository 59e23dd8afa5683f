// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Posting to kernel queues. Any context but NMI. */

#include <linux/array_size.h>
#include <linux/minmax.h>
#include <linux/string.h>

#include "tern_ib.h"
#include "tern_ib_ring.h"

/* Translates the opcode of a work request to TERN_WR_*. */
u8 tern_wr_opcode(enum ib_wr_opcode opcode)
{
	static const u8 map[] = {
		[IB_WR_SEND] = TERN_WR_SEND,
		[IB_WR_SEND_WITH_IMM] = TERN_WR_SEND_WITH_IMM,
		[IB_WR_SEND_WITH_INV] = TERN_WR_SEND_WITH_INV,
		[IB_WR_RDMA_WRITE] = TERN_WR_RDMA_WRITE,
		[IB_WR_RDMA_WRITE_WITH_IMM] = TERN_WR_RDMA_WRITE_WITH_IMM,
		[IB_WR_RDMA_READ] = TERN_WR_RDMA_READ,
		[IB_WR_ATOMIC_CMP_AND_SWP] = TERN_WR_ATOMIC_CMP_AND_SWP,
		[IB_WR_ATOMIC_FETCH_AND_ADD] = TERN_WR_ATOMIC_FETCH_AND_ADD,
		[IB_WR_ATOMIC_WRITE] = TERN_WR_ATOMIC_WRITE,
		[IB_WR_LOCAL_INV] = TERN_WR_LOCAL_INV,
		[IB_WR_REG_MR] = TERN_WR_REG_MR,
	};

	/* No request is a NOP. */
	return opcode < ARRAY_SIZE(map) && map[opcode] ? map[opcode] :
							 TERN_WR_NONE;
}

/* Whether QPs of the type support the opcode. None supports TERN_WR_NONE. */
bool tern_wr_allowed(enum ib_qp_type type, u8 opcode)
{
	switch (opcode) {
	case TERN_WR_SEND:
	case TERN_WR_SEND_WITH_IMM:
		return true;
	case TERN_WR_SEND_WITH_INV:
	case TERN_WR_RDMA_WRITE:
	case TERN_WR_RDMA_WRITE_WITH_IMM:
	case TERN_WR_LOCAL_INV:
	case TERN_WR_REG_MR:
		return type == IB_QPT_RC || type == IB_QPT_UC;
	case TERN_WR_RDMA_READ:
	case TERN_WR_ATOMIC_CMP_AND_SWP:
	case TERN_WR_ATOMIC_FETCH_AND_ADD:
	case TERN_WR_ATOMIC_WRITE:
		return type == IB_QPT_RC;
	default:
		return false;
	}
}

/* Whether the request's data may be inline. */
bool tern_wr_may_inline(u8 opcode)
{
	switch (opcode) {
	case TERN_WR_SEND:
	case TERN_WR_SEND_WITH_IMM:
	case TERN_WR_SEND_WITH_INV:
	case TERN_WR_RDMA_WRITE:
	case TERN_WR_RDMA_WRITE_WITH_IMM:
	case TERN_WR_ATOMIC_WRITE:
		return true;
	default:
		return false;
	}
}

/* Whether the request has SGEs. */
bool tern_wr_has_data(u8 opcode)
{
	return opcode != TERN_WR_LOCAL_INV && opcode != TERN_WR_REG_MR;
}

/* Translates IB_SEND_* to TERN_WQE_F_*. INLINE depends on the opcode. */
u8 tern_wr_flags(int send_flags, enum ib_sig_type sig_type)
{
	u8 flags = 0;

	if (send_flags & IB_SEND_SIGNALED || sig_type == IB_SIGNAL_ALL_WR)
		flags |= TERN_WQE_F_SIGNALED;
	if (send_flags & IB_SEND_SOLICITED)
		flags |= TERN_WQE_F_SOLICITED;
	if (send_flags & IB_SEND_FENCE)
		flags |= TERN_WQE_F_FENCE;

	return flags;
}

/* Total length of the SGEs in bytes. */
u64 tern_sge_bytes(const struct ib_sge *sge, int num_sge)
{
	u64 bytes = 0;
	int i;

	for (i = 0; i < num_sge; i++)
		bytes += sge[i].length;

	return bytes;
}

static void tern_fill_rdma(struct tern_rdma_seg *seg,
			   const struct ib_send_wr *wr)
{
	*seg = (struct tern_rdma_seg){
		.raddr = cpu_to_le64(rdma_wr(wr)->remote_addr),
		.rkey = cpu_to_le32(rdma_wr(wr)->rkey),
	};
}

static void tern_fill_atomic(struct tern_atomic_seg *seg,
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

static void tern_fill_ud(struct tern_ud_seg *seg, const struct ib_send_wr *wr)
{
	*seg = (struct tern_ud_seg){
		.av = to_tah(ud_wr(wr)->ah)->av,
		.dqpn = cpu_to_le32(ud_wr(wr)->remote_qpn),
		.qkey = cpu_to_le32(ud_wr(wr)->remote_qkey),
	};
}

static void tern_fill_reg(struct tern_reg_seg *seg, const struct ib_send_wr *wr)
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

/* Writes the opcode's segment. Returns the address of the data. */
void *tern_fill_segment(enum ib_qp_type type, u8 opcode, void *seg,
			const struct ib_send_wr *wr)
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

/* Copies the request's data to @to, which has space for it. */
void tern_copy_inline(void *to, const struct ib_send_wr *wr)
{
	int i;

	for (i = 0; i < wr->num_sge; i++) {
		memcpy(to, (void *)(uintptr_t)wr->sg_list[i].addr,
		       wr->sg_list[i].length);
		to += wr->sg_list[i].length;
	}
}

/* Maximum number of SGEs of a request with data. */
static u32 tern_wr_max_sge(const struct tern_qp *qp, u8 opcode)
{
	const struct tern_ib_dev *dev = to_tdev(qp->ibqp.device);
	u32 max_sge = qp->cap.max_send_sge;

	switch (opcode) {
	case TERN_WR_RDMA_READ:
		return min_t(u32, max_sge,
			     le16_to_cpu(dev->core->caps->max_sge_rd));
	case TERN_WR_ATOMIC_CMP_AND_SWP:
	case TERN_WR_ATOMIC_FETCH_AND_ADD:
		/* The result, 8 bytes. The slot has no space for more. */
		return 1;
	default:
		return max_sge;
	}
}

/* Whether the QP accepts the request. */
bool tern_send_wr_ok(const struct tern_qp *qp, const struct ib_send_wr *wr,
		     u8 opcode)
{
	if (!tern_wr_allowed(qp->ibqp.qp_type, opcode))
		return false;
	if (!tern_wr_has_data(opcode))
		return true;
	if (wr->num_sge < 0 || wr->num_sge > tern_wr_max_sge(qp, opcode))
		return false;
	if (!(wr->send_flags & IB_SEND_INLINE))
		return true;

	return tern_wr_may_inline(opcode) &&
	       tern_sge_bytes(wr->sg_list, wr->num_sge) <=
	       qp->cap.max_inline_data;
}

/* Returns the slot of the next entry, or NULL if the queue is full. */
static void *tern_wq_next(struct tern_wq *wq)
{
	lockdep_assert_held(&wq->lock);

	/* Acquire: the poll that freed the slot has finished reading it. */
	if (!tern_ring_free(wq->pi, smp_load_acquire(&wq->ci), wq->log_size))
		return NULL;

	return tern_wq_slot(wq, wq->pi);
}

/* Writes inline data or SGEs to @data, and describes it in the header. */
static void tern_fill_data(struct tern_sq_hdr *hdr, void *data,
			   const struct ib_send_wr *wr)
{
	if (wr->send_flags & IB_SEND_INLINE) {
		hdr->flags |= TERN_WQE_F_INLINE;
		hdr->length = cpu_to_le32(tern_sge_bytes(wr->sg_list,
							 wr->num_sge));
		tern_copy_inline(data, wr);
	} else {
		hdr->num_sge = wr->num_sge;
		tern_fill_sges(data, wr->sg_list, wr->num_sge);
	}
}

static int tern_post_one_send(struct tern_qp *qp, const struct ib_send_wr *wr)
{
	u8 opcode = tern_wr_opcode(wr->opcode);
	struct tern_wq *sq = &qp->kern.sq;
	struct tern_sq_hdr *hdr;
	void *data;

	if (!tern_send_wr_ok(qp, wr, opcode))
		return tern_refuse(to_tdev(qp->ibqp.device), -EINVAL,
				   "send of opcode %d with %d SGEs, flags %#x",
				   wr->opcode, wr->num_sge, wr->send_flags);

	hdr = tern_wq_next(sq);
	if (!hdr)
		return -ENOMEM;

	*hdr = (struct tern_sq_hdr){
		.opcode = opcode,
		.flags = tern_wr_flags(wr->send_flags, qp->sq_sig_type),
	};
	switch (opcode) {
	case TERN_WR_SEND_WITH_IMM:
	case TERN_WR_RDMA_WRITE_WITH_IMM:
		hdr->imm = wr->ex.imm_data;
		break;
	case TERN_WR_SEND_WITH_INV:
	case TERN_WR_LOCAL_INV:
		hdr->inv_rkey = cpu_to_le32(wr->ex.invalidate_rkey);
		break;
	}

	data = tern_fill_segment(qp->ibqp.qp_type, opcode, hdr + 1, wr);
	if (tern_wr_has_data(opcode))
		tern_fill_data(hdr, data, wr);

	tern_wq_posted(sq, sq->pi)->wr_id = wr->wr_id;
	/* Release: a poll that sees the index also sees the request. */
	smp_store_release(&sq->pi, sq->pi + 1);
	return 0;
}

/* Returns the device's status bits of a QP's queues, TERN_QP_ST_*. */
static u32 tern_qp_status(struct tern_qp *qp)
{
	return le32_to_cpu(READ_ONCE(qp->kern.record->status));
}

/* Called after a post: if the CQ is lost, the driver must flush the request. */
static void tern_posted(struct tern_ib_dev *dev, struct ib_cq *ibcq)
{
	if (READ_ONCE(to_tcq(ibcq)->kern.lost))
		schedule_work(&dev->flush_work);
}

/* Requests before @bad_wr are posted. A dead device, like state ERR, flushes them. */
int tern_post_send(struct ib_qp *ibqp, const struct ib_send_wr *wr,
		   const struct ib_send_wr **bad_wr)
{
	struct tern_ib_dev *dev = to_tdev(ibqp->device);
	struct tern_qp *qp = to_tqp(ibqp);
	struct tern_wq *sq = &qp->kern.sq;
	enum ib_qp_state state;
	unsigned long flags;
	int err = 0;
	u32 first;

	spin_lock_irqsave(&sq->lock, flags);
	first = sq->pi;
	state = READ_ONCE(qp->state);
	if (state < IB_QPS_RTS)
		err = tern_refuse(dev, -EINVAL, "send in state %d", state);
	while (wr && !err) {
		err = tern_post_one_send(qp, wr);
		if (!err)
			wr = wr->next;
	}
	if (err)
		*bad_wr = wr;

	if (sq->pi != first) {
		/* Write the WQEs before the index that covers them. */
		dma_wmb();
		WRITE_ONCE(qp->kern.record->sq_pi, cpu_to_le32(sq->pi));
		/* The device clears the bit, then reads the index. */
		dma_mb();
		if (!(tern_qp_status(qp) & TERN_QP_ST_SQ_POLLED))
			tern_ring(dev->core, TERN_DB_CMD_SQ, ibqp->qp_num);
	}
	spin_unlock_irqrestore(&sq->lock, flags);

	tern_posted(dev, ibqp->send_cq);
	return err;
}

static int tern_post_one_recv(struct tern_qp *qp, const struct ib_recv_wr *wr)
{
	struct tern_wq *rq = &qp->kern.rq;
	void *slot;

	if (wr->num_sge < 0 || wr->num_sge > qp->cap.max_recv_sge)
		return tern_refuse(to_tdev(qp->ibqp.device), -EINVAL, "%d SGEs",
				   wr->num_sge);

	slot = tern_wq_next(rq);
	if (!slot)
		return -ENOMEM;

	tern_recv_wqe_fill(slot, wr, 0, tern_wq_posted(rq, rq->pi));
	/* Release: as for sends. */
	smp_store_release(&rq->pi, rq->pi + 1);
	return 0;
}

/* See tern_post_send(). */
int tern_post_recv(struct ib_qp *ibqp, const struct ib_recv_wr *wr,
		   const struct ib_recv_wr **bad_wr)
{
	struct tern_ib_dev *dev = to_tdev(ibqp->device);
	struct tern_qp *qp = to_tqp(ibqp);
	struct tern_wq *rq = &qp->kern.rq;
	enum ib_qp_state state;
	unsigned long flags;
	int err = 0;
	u32 first;

	spin_lock_irqsave(&rq->lock, flags);
	first = rq->pi;
	state = READ_ONCE(qp->state);
	if (state == IB_QPS_RESET || !rq->pages)
		err = tern_refuse(dev, -EINVAL, "receive in state %d", state);
	while (wr && !err) {
		err = tern_post_one_recv(qp, wr);
		if (!err)
			wr = wr->next;
	}
	if (err)
		*bad_wr = wr;

	if (rq->pi != first) {
		/* See tern_post_send(). */
		dma_wmb();
		WRITE_ONCE(qp->kern.record->rq_pi, cpu_to_le32(rq->pi));
		/* No barrier: a flushing device reads the index again later. */
		if (tern_qp_status(qp) & TERN_QP_ST_RQ_KICK)
			tern_ring(dev->core, TERN_DB_CMD_RQ, ibqp->qp_num);
	}
	spin_unlock_irqrestore(&rq->lock, flags);

	tern_posted(dev, ibqp->recv_cq);
	return err;
}
