// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Kernel queues: their memory, and the association of QPs with CQs. */

#include <linux/log2.h>
#include <linux/minmax.h>

#include "tern_ib.h"
#include "tern_ib_limits.h"
#include "tern_ib_ring.h"

/* A slot that is aligned to its size does not cross a page. */
static_assert(BIT(TERN_SQ_STRIDE_MAX) <= PAGE_SIZE);
static_assert(BIT(TERN_RQ_STRIDE_MAX) <= PAGE_SIZE);
static_assert(PAGE_SIZE % sizeof(struct tern_cqe) == 0);

/* Maximum size in bytes of a send WQE, for any opcode. */
size_t tern_send_wqe_bytes(enum ib_qp_type type, u32 max_sge, u32 max_inline)
{
	size_t data = max_t(size_t, max_inline,
			    max_sge * sizeof(struct tern_sge));
	size_t bytes;

	if (type == IB_QPT_UD || type == IB_QPT_GSI)
		return sizeof(struct tern_sq_hdr) + sizeof(struct tern_ud_seg) +
		       data;

	bytes = sizeof(struct tern_rdma_seg) + data;
	bytes = max(bytes, sizeof(struct tern_atomic_seg) +
			   sizeof(struct tern_sge));
	bytes = max(bytes, sizeof(struct tern_reg_seg));
	return sizeof(struct tern_sq_hdr) + bytes;
}

/* Log2 of the slot size for receive WQEs of @max_sge SGEs. */
u8 tern_recv_stride(u32 max_sge)
{
	size_t bytes = sizeof(struct tern_rq_hdr) +
		       max_sge * sizeof(struct tern_sge);

	return max_t(u8, order_base_2(bytes), TERN_RQ_STRIDE_MIN);
}

/* Allocates the memory of a kernel CQ and fills in @cmd, but for the page list. */
int tern_kcq_init(struct tern_ib_dev *dev, struct tern_kcq *kcq, int cqe,
		  struct tern_cmd_create_cq *cmd)
{
	int err;

	kcq->log_size = tern_queue_log_size(cqe, TERN_CQ_LOG_SIZE_MIN);
	err = tern_kbuf_alloc(dev, &kcq->buf,
			      (u64)sizeof(struct tern_cqe) << kcq->log_size,
			      sizeof(*kcq->record));
	if (err)
		return err;

	kcq->record = kcq->buf.record;
	spin_lock_init(&kcq->lock);
	xa_init_flags(&kcq->qps, XA_FLAGS_LOCK_IRQ);

	cmd->record = cpu_to_le64(kcq->buf.record_dma);
	cmd->uar = cpu_to_le32(TERN_UAR_KERNEL);
	cmd->log_size = kcq->log_size;
	return 0;
}

static void tern_wq_init(struct tern_wq *wq, u32 num, u8 log_stride)
{
	spin_lock_init(&wq->lock);
	wq->log_size = tern_queue_log_size(num, 0);
	wq->log_stride = log_stride;
}

/* Allocates the memory of a kernel QP likewise. @attr gets the actual capacities. */
int tern_kqp_init(struct tern_ib_dev *dev, struct tern_kqp *kqp,
		  struct ib_qp_init_attr *attr, struct tern_cmd_create_qp *cmd)
{
	struct tern_wq *sq = &kqp->sq, *rq = &kqp->rq;
	struct ib_qp_cap *cap = &attr->cap;
	u64 rq_offset = 0, end;
	size_t send_bytes, num;
	int err;

	send_bytes = tern_send_wqe_bytes(attr->qp_type, cap->max_send_sge,
					 cap->max_inline_data);
	if (tern_exceeds(dev, "bytes of a send request", send_bytes,
			 BIT(TERN_SQ_STRIDE_MAX)))
		return -EINVAL;

	tern_wq_init(sq, cap->max_send_wr, tern_send_stride(send_bytes));
	tern_wq_init(rq, cap->max_recv_wr, tern_recv_stride(cap->max_recv_sge));
	end = tern_wq_bytes(sq);
	if (!attr->srq) {
		if (tern_exceeds(dev, "log2 of the bytes of a receive request",
				 rq->log_stride, TERN_RQ_STRIDE_MAX))
			return -EINVAL;
		rq_offset = ALIGN(end, BIT_ULL(rq->log_stride));
		end = rq_offset + tern_wq_bytes(rq);
	}

	err = tern_kbuf_alloc(dev, &kqp->buf, end, sizeof(*kqp->record));
	if (err)
		return err;

	num = BIT(sq->log_size) + (attr->srq ? 0 : BIT(rq->log_size));
	kqp->buf.posted = kvzalloc_objs(*kqp->buf.posted, num);
	if (!kqp->buf.posted) {
		tern_kbuf_free(dev, &kqp->buf);
		return -ENOMEM;
	}

	sq->posted = kqp->buf.posted;
	sq->pages = kqp->buf.pages;
	kqp->record = kqp->buf.record;
	cmd->record = cpu_to_le64(kqp->buf.record_dma);
	cmd->uar = cpu_to_le32(TERN_UAR_KERNEL);
	cmd->log_sq_size = sq->log_size;
	cmd->log_sq_stride = sq->log_stride;
	cap->max_send_wr = BIT(sq->log_size);
	if (attr->srq) {
		cap->max_recv_wr = 0;
		cap->max_recv_sge = 0;
		return 0;
	}

	rq->posted = sq->posted + BIT(sq->log_size);
	rq->pages = kqp->buf.pages;
	rq->offset = rq_offset;
	cmd->rq_offset = cpu_to_le32(rq_offset);
	cmd->log_rq_size = rq->log_size;
	cmd->log_rq_stride = rq->log_stride;
	cap->max_recv_wr = BIT(rq->log_size);
	return 0;
}

static int tern_kcq_add(struct ib_cq *ibcq, struct tern_qp *qp)
{
	return xa_err(xa_store_irq(&to_tcq(ibcq)->kern.qps, qp->ibqp.qp_num, qp,
				   GFP_KERNEL));
}

/* Makes a QP known to its CQs. tern_kqp_detach() undoes it, also after a failure. */
int tern_kqp_attach(struct tern_qp *qp)
{
	return tern_kcq_add(qp->ibqp.send_cq, qp) ?:
	       tern_kcq_add(qp->ibqp.recv_cq, qp);
}

static void tern_kcq_remove(struct ib_cq *ibcq, struct tern_qp *qp)
{
	struct tern_kcq *kcq = &to_tcq(ibcq)->kern;

	spin_lock_irq(&kcq->lock);
	/* Not the entry of another QP, if the device has given a number twice. */
	if (xa_load(&kcq->qps, qp->ibqp.qp_num) == qp) {
		tern_kcq_forget(kcq, qp);
		xa_erase(&kcq->qps, qp->ibqp.qp_num);
	}
	spin_unlock_irq(&kcq->lock);
}

/* The QP generates no more completions. */
void tern_kqp_detach(struct tern_qp *qp)
{
	tern_kcq_remove(qp->ibqp.send_cq, qp);
	if (qp->ibqp.recv_cq != qp->ibqp.send_cq)
		tern_kcq_remove(qp->ibqp.recv_cq, qp);
}

static void tern_wq_reset(struct tern_wq *wq, struct ib_cq *ibcq,
			  struct tern_qp *qp, __le32 *index)
{
	struct tern_kcq *kcq = &to_tcq(ibcq)->kern;

	spin_lock_irq(&kcq->lock);
	/* An old completion must not count for a new request. */
	tern_kcq_forget(kcq, qp);
	spin_lock(&wq->lock);
	wq->pi = 0;
	wq->ci = 0;
	wq->polled = 0;
	WRITE_ONCE(*index, 0);
	spin_unlock(&wq->lock);
	spin_unlock_irq(&kcq->lock);
}

/* Empties the queues of a QP in RESET, to which nobody posts. */
void tern_kqp_reset(struct tern_qp *qp)
{
	struct tern_kqp *kqp = &qp->kern;
	struct ib_qp *ibqp = &qp->ibqp;

	tern_wq_reset(&kqp->sq, ibqp->send_cq, qp, &kqp->record->sq_pi);
	tern_wq_reset(&kqp->rq, ibqp->recv_cq, qp, &kqp->record->rq_pi);
}
