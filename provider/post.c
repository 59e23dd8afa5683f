// SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause)
/* Posting lists of work requests: ibv_post_send(), ibv_post_recv(). */

#include <config.h>

#include <string.h>

#include "wqe.h"

/* Sum of the lengths. Overflowing 64 bits would take 2^32 SGEs. */
static uint64_t tern_sges_length(const struct ibv_sge *list, int num)
{
	uint64_t length = 0;
	int i;

	for (i = 0; i < num; i++)
		length += list[i].length;

	return length;
}

/* The errno for a full queue. A request that never fits gets another one. */
static int tern_full_errno(const struct tern_qp *qp,
			   const struct ibv_send_wr *wr)
{
	if (wr->send_flags & IBV_SEND_INLINE &&
	    tern_sges_length(wr->sg_list, wr->num_sge) > qp->max_inline)
		return EINVAL;

	return ENOMEM;
}

/* Checks a request that sends nothing. Its SGEs are ignored. */
static ALWAYS_INLINE inline int tern_check_local(const struct ibv_send_wr *wr)
{
	if (unlikely(wr->send_flags & IBV_SEND_INLINE))
		return EINVAL;

	if (wr->opcode == IBV_WR_BIND_MW)
		return tern_check_bind(wr->bind_mw.mw, IBV_MW_TYPE_2,
				       &wr->bind_mw.bind_info);

	return 0;
}

/* Checks the destination and the amount of data of a request with data. */
static ALWAYS_INLINE inline int tern_check_data(struct tern_qp *qp,
						const struct ibv_send_wr *wr)
{
	const struct tern_op *op = &tern_ops[wr->opcode];

	if (unlikely(qp->type->ud && !wr->wr.ud.ah))
		return EINVAL;

	if (unlikely((uint32_t)wr->num_sge > tern_max_sge(qp, op)))
		return EINVAL;

	if (wr->send_flags & IBV_SEND_INLINE &&
	    unlikely(!(op->flags & TERN_OP_INLINE)))
		return EINVAL;

	return 0;
}

/*
 * Makes the checks of ibv_post_send(3), except those that writing the WQE makes:
 * of the headers of a large frame, and of the amount of inline data.
 */
static ALWAYS_INLINE inline int tern_check_send(struct tern_qp *qp,
						const struct ibv_send_wr *wr,
						uint32_t head)
{
	int err;

	if (unlikely(wr->opcode >= TERN_NUM_OPS ||
		     !(qp->ops & ~TERN_OPS_BUILT & BIT(wr->opcode))))
		return tern_no_op_errno(qp->type, wr->opcode);

	err = tern_check_flags(qp, wr->send_flags);
	if (unlikely(err))
		return err;

	err = tern_ops[wr->opcode].flags & TERN_OP_LOCAL ?
		      tern_check_local(wr) :
		      tern_check_data(qp, wr);
	if (unlikely(err))
		return err;

	if (unlikely(tern_sq_full(qp, head)))
		return tern_full_errno(qp, wr);

	return 0;
}

/* Returns 0, or EINVAL for more data than fits. */
static int tern_build_inline(const struct tern_qp *qp, struct tern_sq_hdr *wqe,
			     void *data, const struct ibv_send_wr *wr)
{
	uint32_t length = 0;
	int i;

	for (i = 0; i < wr->num_sge; i++) {
		const struct ibv_sge *sge = &wr->sg_list[i];

		if (unlikely(sge->length > qp->max_inline - length))
			return EINVAL;
		memcpy(data + length, (void *)(uintptr_t)sge->addr,
		       sge->length);
		length += sge->length;
	}

	tern_wqe_inline(wqe, length);
	return 0;
}

/*
 * Writes the data of a request after everything else in its WQE. Returns 0, or
 * EINVAL for too much inline data.
 */
static int tern_build_data(const struct tern_qp *qp, struct tern_sq_hdr *wqe,
			   void *data, const struct ibv_send_wr *wr)
{
	if (wr->send_flags & IBV_SEND_INLINE)
		return tern_build_inline(qp, wqe, data, wr);

	tern_fill_sges(data, wr->sg_list, wr->num_sge);
	wqe->num_sge = wr->num_sge;
	return 0;
}

/* Builds the WQE of a frame. Returns 0, or EINVAL for its headers or data. */
static int tern_build_raw(struct tern_qp *qp, const struct ibv_send_wr *wr,
			  uint32_t index)
{
	const struct tern_op *op = &tern_ops[wr->opcode];
	struct tern_sq_hdr *wqe;
	void *data;
	int err;

	wqe = tern_wqe_start(qp, index, op, wr->wr_id, wr->send_flags);
	data = tern_wqe_data(qp, wqe, op);
	if (wr->opcode == IBV_WR_TSO) {
		err = tern_wqe_tso(qp, wqe, wr->tso.hdr, wr->tso.hdr_sz,
				   wr->tso.mss);
		if (unlikely(err))
			return err;
		data += tern_tso_size(wr->tso.hdr_sz);
	} else {
		tern_wqe_eth(wqe, wr->send_flags);
	}

	return tern_build_data(qp, wqe, data, wr);
}

/* Builds any other WQE. Returns 0, or EINVAL for too much inline data. */
static int tern_build_send(struct tern_qp *qp, const struct ibv_send_wr *wr,
			   uint32_t index)
{
	const struct tern_op *op = &tern_ops[wr->opcode];
	struct tern_sq_hdr *wqe;

	wqe = tern_wqe_start(qp, index, op, wr->wr_id, wr->send_flags);

	switch (wr->opcode) {
	case IBV_WR_SEND_WITH_IMM:
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		wqe->imm = wr->imm_data;
		break;
	case IBV_WR_SEND_WITH_INV:
	case IBV_WR_LOCAL_INV:
		wqe->inv_rkey = htole32(wr->invalidate_rkey);
		break;
	case IBV_WR_BIND_MW:
		tern_wqe_bind(wqe, wr->bind_mw.mw, wr->bind_mw.mw->rkey,
			      wr->bind_mw.rkey, &wr->bind_mw.bind_info);
		break;
	default:
		break;
	}

	if (op->flags & TERN_OP_LOCAL)
		return 0;

	if (qp->type->ud)
		tern_wqe_ud(wqe, wr->wr.ud.ah, wr->wr.ud.remote_qpn,
			    wr->wr.ud.remote_qkey);
	else if (qp->type->xrc)
		wqe->xrc_srqn = htole32(wr->qp_type.xrc.remote_srqn);

	switch (op->seg) {
	case TERN_SEG_RDMA:
		tern_wqe_rdma(wqe, wr->wr.rdma.remote_addr, wr->wr.rdma.rkey);
		break;
	case TERN_SEG_ATOMIC:
		if (wr->opcode == IBV_WR_ATOMIC_CMP_AND_SWP)
			tern_wqe_atomic(wqe, wr->wr.atomic.remote_addr,
					wr->wr.atomic.rkey, wr->wr.atomic.swap,
					wr->wr.atomic.compare_add);
		else
			tern_wqe_atomic(wqe, wr->wr.atomic.remote_addr,
					wr->wr.atomic.rkey,
					wr->wr.atomic.compare_add, 0);
		break;
	default:
		break;
	}

	return tern_build_data(qp, wqe, tern_wqe_data(qp, wqe, op), wr);
}

static int tern_post_sends(struct tern_qp *qp, struct ibv_send_wr *wr,
			   struct ibv_send_wr **bad_wr)
{
	uint32_t first = qp->sq.head;
	uint32_t head = first;
	int err = 0;

	if (unlikely(tern_sq_closed(qp))) {
		*bad_wr = wr;
		return EINVAL;
	}

	for (; wr; wr = wr->next) {
		err = tern_check_send(qp, wr, head);
		if (likely(!err))
			err = unlikely(qp->type->raw) ?
				      tern_build_raw(qp, wr, head) :
				      tern_build_send(qp, wr, head);
		if (unlikely(err)) {
			*bad_wr = wr;
			break;
		}
		head++;
	}

	if (likely(head != first))
		tern_sq_publish(qp, head);

	return err;
}

/*
 * ibv_post_send(3): EINVAL for a QP below RTS, an opcode that its type lacks,
 * too many SGEs, too much inline data, an invalid bind or invalid headers;
 * EOPNOTSUPP for an opcode or flag that the device does not support; ENOMEM if
 * the queue is full.
 */
int tern_post_send(struct ibv_qp *ibvqp, struct ibv_send_wr *wr,
		   struct ibv_send_wr **bad_wr)
{
	struct tern_qp *qp = to_tern_qp(ibvqp);
	int err;

	tern_spin_lock(&qp->sq.lock);
	err = tern_post_sends(qp, wr, bad_wr);
	tern_spin_unlock(&qp->sq.lock);

	return err;
}

/* Makes the checks of ibv_bind_mw(3). */
static int tern_check_bind_verb(struct tern_qp *qp, const struct ibv_mw *mw,
				const struct ibv_mw_bind *bind)
{
	int err;

	if (unlikely(!(qp->ops & BIT(IBV_WR_BIND_MW))))
		return tern_no_op_errno(qp->type, IBV_WR_BIND_MW);

	err = tern_check_flags(qp, bind->send_flags);
	if (unlikely(err))
		return err;

	if (unlikely(bind->send_flags &
		     ~(IBV_SEND_FENCE | IBV_SEND_SIGNALED)))
		return EINVAL;

	err = tern_check_bind(mw, IBV_MW_TYPE_1, &bind->bind_info);
	if (unlikely(err))
		return err;

	if (unlikely(tern_sq_full(qp, qp->sq.head)))
		return ENOMEM;

	return 0;
}

/*
 * Advances the window's key and returns the new one; *old is the previous one.
 * QPs share no lock: two binds through two QPs must not start from the same
 * key.
 */
static uint32_t tern_next_rkey(struct ibv_mw *mw, uint32_t *old)
{
	atomic_uint *rkey = (atomic_uint *)&mw->rkey;
	uint32_t new_rkey;

	*old = atomic_load_explicit(rkey, memory_order_relaxed);
	do
		new_rkey = ibv_inc_rkey(*old);
	while (!atomic_compare_exchange_weak_explicit(rkey, old, new_rkey,
						      memory_order_relaxed,
						      memory_order_relaxed));

	return new_rkey;
}

/*
 * ibv_bind_mw(3): fails like ibv_post_send(). Only a posted request changes the
 * window's key. A consumer that gets an error completion for it restores the
 * previous key.
 */
int tern_bind_mw(struct ibv_qp *ibvqp, struct ibv_mw *mw,
		 struct ibv_mw_bind *bind)
{
	struct tern_qp *qp = to_tern_qp(ibvqp);
	struct tern_sq_hdr *wqe;
	uint32_t rkey, new_rkey;
	int err = EINVAL;

	/*
	 * The key changes under the lock, so that binds are posted in the order
	 * of their keys.
	 */
	tern_spin_lock(&qp->sq.lock);
	if (likely(!tern_sq_closed(qp)))
		err = tern_check_bind_verb(qp, mw, bind);
	if (unlikely(err)) {
		tern_spin_unlock(&qp->sq.lock);
		return err;
	}

	new_rkey = tern_next_rkey(mw, &rkey);
	wqe = tern_wqe_start(qp, qp->sq.head, &tern_ops[IBV_WR_BIND_MW],
			     bind->wr_id, bind->send_flags);
	tern_wqe_bind(wqe, mw, rkey, new_rkey, &bind->bind_info);
	tern_sq_publish(qp, qp->sq.head + 1);
	tern_spin_unlock(&qp->sq.lock);

	return 0;
}

static ALWAYS_INLINE inline void tern_rq_publish(struct tern_qp *qp,
						 uint32_t head)
{
	qp->rq.head = head;
	/* WQEs before the index: the device reads it when a message comes. */
	udma_to_device_barrier();
	tern_shared_write(&qp->record->rq_pi, head);

	/*
	 * No barrier needed: a device that flushes reads the index again after
	 * TERN_RQ_SETTLE_NS, when a store made before this load is visible.
	 */
	if (unlikely(tern_shared_read(&qp->record->status) &
		     TERN_QP_ST_RQ_KICK)) {
		/* Write the index before the kick. */
		udma_to_device_barrier();
		tern_ring(to_tern_ctx(qp->vqp.qp.context), TERN_DB_CMD_RQ,
			  qp->vqp.qp.qp_num);
	}
}

static int tern_post_recvs(struct tern_qp *qp, struct ibv_recv_wr *wr,
			   struct ibv_recv_wr **bad_wr)
{
	struct tern_wq *rq = &qp->rq;
	uint32_t head = rq->head;
	int err = 0;

	for (; wr; wr = wr->next) {
		if (unlikely(!rq->slots ||
			     qp->vqp.qp.state == IBV_QPS_RESET ||
			     (uint32_t)wr->num_sge > rq->max_sge))
			err = EINVAL;
		else if (unlikely(tern_wq_full(rq, &qp->rq_tail, head)))
			err = ENOMEM;
		if (unlikely(err)) {
			*bad_wr = wr;
			break;
		}

		tern_build_recv(rq, head++, wr);
		rdma_tracepoint(rdma_core_tern, post_recv,
				qp->vqp.qp.context->device->name, wr->wr_id,
				qp->vqp.qp.qp_num, wr->num_sge);
	}

	if (likely(head != rq->head))
		tern_rq_publish(qp, head);

	return err;
}

/*
 * ibv_post_recv(3): EINVAL for a QP without its own receive queue or in RESET,
 * or too many SGEs; ENOMEM if the queue is full.
 */
int tern_post_recv(struct ibv_qp *ibvqp, struct ibv_recv_wr *wr,
		   struct ibv_recv_wr **bad_wr)
{
	struct tern_qp *qp = to_tern_qp(ibvqp);
	int err;

	tern_spin_lock(&qp->rq.lock);
	err = tern_post_recvs(qp, wr, bad_wr);
	tern_spin_unlock(&qp->rq.lock);

	return err;
}
