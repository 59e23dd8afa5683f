// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Posting work to queues of the kernel. Any context but NMI.
 */

#include "tern_ib.h"
#include "tern_ib_util.h"
#include "tern_ib_wqe.h"

/* The slot of the next entry, NULL while the queue is full. */
static void *tern_wq_next(struct tern_wq *wq)
{
	lockdep_assert_held(&wq->lock);

	/* Acquire: the poll that freed the slot has read it. */
	if (!tern_ring_free(wq->pi, smp_load_acquire(&wq->ci), wq->log_size))
		return NULL;

	return tern_wq_slot(wq, wq->pi);
}

/* Inline bytes or a list of SGEs at @data, and what the header says of them. */
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
		return -EINVAL;

	hdr = tern_wq_next(sq);
	if (!hdr)
		return -ENOMEM;

	*hdr = (struct tern_sq_hdr){
		.opcode = opcode,
		.flags = tern_wr_flags(wr->send_flags, qp->sq_sig_type),
		.wr_id = cpu_to_le64(wr->wr_id),
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

	sq->pi++;
	return 0;
}

/* What the device says of a QP's queues, TERN_QP_ST_*. */
static u32 tern_qp_status(struct tern_qp *qp)
{
	return le32_to_cpu(READ_ONCE(qp->kern.record->status));
}

/* After a post: a CQ that nothing comes into any more is completed by the driver. */
static void tern_posted(struct tern_ib_dev *dev, struct ib_cq *ibcq)
{
	if (READ_ONCE(to_tcq(ibcq)->kern.lost))
		schedule_work(&dev->flush_work);
}

/**
 * tern_post_send() - post send requests
 * @ibqp: a QP of the kernel's, in RTS or later
 * @wr: a list of requests; inline data has virtual addresses
 * @bad_wr: becomes the first request that was not posted
 *
 * Those before @bad_wr are posted. In the error state, and when the device is
 * dead, all of them complete with IB_WC_WR_FLUSH_ERR.
 *
 * Return: 0; -EINVAL for a request that the QP does not have or a QP in an
 * earlier state; -ENOMEM for a full queue.
 */
int tern_post_send(struct ib_qp *ibqp, const struct ib_send_wr *wr,
		   const struct ib_send_wr **bad_wr)
{
	struct tern_ib_dev *dev = to_tdev(ibqp->device);
	struct tern_qp *qp = to_tqp(ibqp);
	struct tern_wq *sq = &qp->kern.sq;
	unsigned long flags;
	int err = 0;
	u32 first;

	spin_lock_irqsave(&sq->lock, flags);
	first = sq->pi;
	if (READ_ONCE(qp->state) < IB_QPS_RTS)
		err = -EINVAL;
	while (wr && !err) {
		err = tern_post_one_send(qp, wr);
		if (!err)
			wr = wr->next;
	}
	if (err)
		*bad_wr = wr;

	if (sq->pi != first) {
		/* The device finds whole WQEs below the index. */
		dma_wmb();
		WRITE_ONCE(qp->kern.record->sq_pi, cpu_to_le32(sq->pi));
		/* The device does it crosswise: clears the bit, then reads the index. */
		dma_mb();
		if (!(tern_qp_status(qp) & TERN_QP_ST_SQ_WATCHED))
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
		return -EINVAL;

	slot = tern_wq_next(rq);
	if (!slot)
		return -ENOMEM;

	tern_recv_wqe_fill(slot, wr);
	rq->pi++;
	return 0;
}

/**
 * tern_post_recv() - post receive requests
 * @ibqp: a QP of the kernel's without SRQ, in INIT or later
 * @wr: a list of requests
 * @bad_wr: becomes the first request that was not posted
 *
 * As tern_post_send().
 *
 * Return: 0; -EINVAL for too many SGEs, a QP in RESET or with an SRQ; -ENOMEM for
 * a full queue.
 */
int tern_post_recv(struct ib_qp *ibqp, const struct ib_recv_wr *wr,
		   const struct ib_recv_wr **bad_wr)
{
	struct tern_ib_dev *dev = to_tdev(ibqp->device);
	struct tern_qp *qp = to_tqp(ibqp);
	struct tern_wq *rq = &qp->kern.rq;
	unsigned long flags;
	int err = 0;
	u32 first;

	spin_lock_irqsave(&rq->lock, flags);
	first = rq->pi;
	if (READ_ONCE(qp->state) == IB_QPS_RESET || !rq->slots)
		err = -EINVAL;
	while (wr && !err) {
		err = tern_post_one_recv(qp, wr);
		if (!err)
			wr = wr->next;
	}
	if (err)
		*bad_wr = wr;

	if (rq->pi != first) {
		/* As in tern_post_send(). */
		dma_wmb();
		WRITE_ONCE(qp->kern.record->rq_pi, cpu_to_le32(rq->pi));
		/* No barrier: a device that flushes reads the index again later. */
		if (tern_qp_status(qp) & TERN_QP_ST_RQ_KICK)
			tern_ring(dev->core, TERN_DB_CMD_RQ, ibqp->qp_num);
	}
	spin_unlock_irqrestore(&rq->lock, flags);

	tern_posted(dev, ibqp->recv_cq);
	return err;
}
