// SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause)
/* Posting by function calls: ibv_wr_*(). */

#include <string.h>

#include "wqe.h"

static void tern_wr_fail(struct tern_qp *qp, int err)
{
	if (!qp->wr_err)
		qp->wr_err = err;
	qp->wr_op = NULL;
}

/* Whether the WQE before still waits for its UD address or XRC SRQ number. */
static bool tern_wr_lacks_address(const struct tern_qp *qp)
{
	return qp->wr_op && qp->wr_no_address;
}

/* Begins a WQE of the session; NULL once the session has failed. */
static struct tern_sq_hdr *tern_wr_begin(struct ibv_qp_ex *ibvqp,
					 const struct tern_op *op)
{
	struct tern_qp *qp = to_tern_qp_ex(ibvqp);
	int err;

	if (unlikely(qp->wr_err))
		return NULL;

	err = tern_check_flags(ibvqp->wr_flags);
	if (unlikely(err)) {
		tern_wr_fail(qp, err);
		return NULL;
	}

	if (unlikely(tern_wr_lacks_address(qp))) {
		tern_wr_fail(qp, EINVAL);
		return NULL;
	}

	if (unlikely(tern_wq_full(&qp->sq, qp->wr_head))) {
		tern_wr_fail(qp, ENOMEM);
		return NULL;
	}

	qp->wr_op = op;
	qp->wr_no_address = (qp->type->ud_size || qp->type->xrc) &&
			    !(op->flags & TERN_OP_LOCAL);
	qp->wr_wqe = tern_wqe_start(qp, qp->wr_head++, op, ibvqp->wr_id,
				    ibvqp->wr_flags);

	return qp->wr_wqe;
}

static void tern_wr_send(struct ibv_qp_ex *ibvqp)
{
	tern_wr_begin(ibvqp, &tern_ops[IBV_WR_SEND]);
}

static void tern_wr_send_imm(struct ibv_qp_ex *ibvqp, __be32 imm_data)
{
	struct tern_sq_hdr *wqe;

	wqe = tern_wr_begin(ibvqp, &tern_ops[IBV_WR_SEND_WITH_IMM]);
	if (likely(wqe))
		wqe->imm = imm_data;
}

static void tern_wr_send_inv(struct ibv_qp_ex *ibvqp, uint32_t invalidate_rkey)
{
	struct tern_sq_hdr *wqe;

	wqe = tern_wr_begin(ibvqp, &tern_ops[IBV_WR_SEND_WITH_INV]);
	if (likely(wqe))
		wqe->inv_rkey = htole32(invalidate_rkey);
}

static void tern_wr_rdma_write(struct ibv_qp_ex *ibvqp, uint32_t rkey,
			       uint64_t remote_addr)
{
	struct tern_sq_hdr *wqe;

	wqe = tern_wr_begin(ibvqp, &tern_ops[IBV_WR_RDMA_WRITE]);
	if (likely(wqe))
		tern_wqe_rdma(wqe, remote_addr, rkey);
}

static void tern_wr_rdma_write_imm(struct ibv_qp_ex *ibvqp, uint32_t rkey,
				   uint64_t remote_addr, __be32 imm_data)
{
	struct tern_sq_hdr *wqe;

	wqe = tern_wr_begin(ibvqp, &tern_ops[IBV_WR_RDMA_WRITE_WITH_IMM]);
	if (likely(wqe)) {
		wqe->imm = imm_data;
		tern_wqe_rdma(wqe, remote_addr, rkey);
	}
}

static void tern_wr_rdma_read(struct ibv_qp_ex *ibvqp, uint32_t rkey,
			      uint64_t remote_addr)
{
	struct tern_sq_hdr *wqe;

	wqe = tern_wr_begin(ibvqp, &tern_ops[IBV_WR_RDMA_READ]);
	if (likely(wqe))
		tern_wqe_rdma(wqe, remote_addr, rkey);
}

static void tern_wr_atomic_cmp_swp(struct ibv_qp_ex *ibvqp, uint32_t rkey,
				   uint64_t remote_addr, uint64_t compare,
				   uint64_t swap)
{
	struct tern_sq_hdr *wqe;

	wqe = tern_wr_begin(ibvqp, &tern_ops[IBV_WR_ATOMIC_CMP_AND_SWP]);
	if (likely(wqe))
		tern_wqe_atomic(wqe, remote_addr, rkey, swap, compare);
}

static void tern_wr_atomic_fetch_add(struct ibv_qp_ex *ibvqp, uint32_t rkey,
				     uint64_t remote_addr, uint64_t add)
{
	struct tern_sq_hdr *wqe;

	wqe = tern_wr_begin(ibvqp, &tern_ops[IBV_WR_ATOMIC_FETCH_AND_ADD]);
	if (likely(wqe))
		tern_wqe_atomic(wqe, remote_addr, rkey, add, 0);
}

/* The caller's 8 bytes, whatever their alignment. */
static void tern_wr_atomic_write(struct ibv_qp_ex *ibvqp, uint32_t rkey,
				 uint64_t remote_addr, const void *atomic_wr)
{
	const struct tern_op *op = &tern_ops[IBV_WR_ATOMIC_WRITE];
	struct tern_sq_hdr *wqe;

	wqe = tern_wr_begin(ibvqp, op);
	if (unlikely(!wqe))
		return;

	tern_wqe_rdma(wqe, remote_addr, rkey);
	memcpy(tern_wqe_data(to_tern_qp_ex(ibvqp), wqe, op), atomic_wr, 8);
	tern_wqe_inline(wqe, 8);
}

/*
 * ibv_wr_post(3) has data setters for FLUSH, which has no data: an SGE may be set,
 * and the device does not look at it.
 */
static void tern_wr_flush(struct ibv_qp_ex *ibvqp, uint32_t rkey,
			  uint64_t remote_addr, size_t len, uint8_t type,
			  uint8_t level)
{
	struct tern_sq_hdr *wqe;
	int err;

	wqe = tern_wr_begin(ibvqp, &tern_ops[IBV_WR_FLUSH]);
	if (unlikely(!wqe))
		return;

	err = tern_check_flush(type, level);
	if (unlikely(err)) {
		tern_wr_fail(to_tern_qp_ex(ibvqp), err);
		return;
	}

	tern_wqe_flush(wqe, remote_addr, rkey, len, type, level);
}

/* ibv_wr_post(3): windows of type 2. */
static void tern_wr_bind_mw(struct ibv_qp_ex *ibvqp, struct ibv_mw *mw,
			    uint32_t rkey, const struct ibv_mw_bind_info *info)
{
	struct tern_sq_hdr *wqe;
	int err;

	wqe = tern_wr_begin(ibvqp, &tern_ops[IBV_WR_BIND_MW]);
	if (unlikely(!wqe))
		return;

	err = tern_check_bind(mw, IBV_MW_TYPE_2, info);
	if (unlikely(err)) {
		tern_wr_fail(to_tern_qp_ex(ibvqp), err);
		return;
	}

	tern_wqe_bind(wqe, mw, mw->rkey, rkey, info);
}

static void tern_wr_local_inv(struct ibv_qp_ex *ibvqp, uint32_t invalidate_rkey)
{
	struct tern_sq_hdr *wqe;

	wqe = tern_wr_begin(ibvqp, &tern_ops[IBV_WR_LOCAL_INV]);
	if (likely(wqe))
		wqe->inv_rkey = htole32(invalidate_rkey);
}

static void tern_wr_set_ud_addr(struct ibv_qp_ex *ibvqp, struct ibv_ah *ah,
				uint32_t remote_qpn, uint32_t remote_qkey)
{
	struct tern_qp *qp = to_tern_qp_ex(ibvqp);

	if (unlikely(!qp->wr_op || !ah)) {
		tern_wr_fail(qp, EINVAL);
		return;
	}

	tern_wqe_ud(qp->wr_wqe, ah, remote_qpn, remote_qkey);
	qp->wr_no_address = false;
}

static void tern_wr_set_xrc_srqn(struct ibv_qp_ex *ibvqp, uint32_t remote_srqn)
{
	struct tern_qp *qp = to_tern_qp_ex(ibvqp);

	if (unlikely(!qp->wr_op || (qp->wr_op->flags & TERN_OP_LOCAL))) {
		tern_wr_fail(qp, EINVAL);
		return;
	}

	qp->wr_wqe->xrc_srqn = htole32(remote_srqn);
	qp->wr_no_address = false;
}

static void tern_wr_set_sge_list(struct ibv_qp_ex *ibvqp, size_t num_sge,
				 const struct ibv_sge *sg_list)
{
	struct tern_qp *qp = to_tern_qp_ex(ibvqp);

	/* Without an opcode, or after an error, there is no WQE to fill. */
	if (unlikely(!qp->wr_op || num_sge > tern_max_sge(qp, qp->wr_op))) {
		tern_wr_fail(qp, EINVAL);
		return;
	}

	tern_wqe_sges(qp, qp->wr_wqe, qp->wr_op, sg_list, num_sge);
}

static void tern_wr_set_sge(struct ibv_qp_ex *ibvqp, uint32_t lkey,
			    uint64_t addr, uint32_t length)
{
	struct ibv_sge sge = { .addr = addr, .length = length, .lkey = lkey };

	tern_wr_set_sge_list(ibvqp, 1, &sge);
}

static void tern_wr_set_inline_data_list(struct ibv_qp_ex *ibvqp,
					 size_t num_buf,
					 const struct ibv_data_buf *buf_list)
{
	struct tern_qp *qp = to_tern_qp_ex(ibvqp);
	size_t length = 0;
	uint8_t *data;
	size_t i;

	if (unlikely(!qp->wr_op || !(qp->wr_op->flags & TERN_OP_INLINE))) {
		tern_wr_fail(qp, EINVAL);
		return;
	}

	data = tern_wqe_data(qp, qp->wr_wqe, qp->wr_op);
	for (i = 0; i < num_buf; i++) {
		if (unlikely(buf_list[i].length > qp->max_inline - length)) {
			tern_wr_fail(qp, EINVAL);
			return;
		}
		memcpy(data + length, buf_list[i].addr, buf_list[i].length);
		length += buf_list[i].length;
	}

	tern_wqe_inline(qp->wr_wqe, length);
}

static void tern_wr_set_inline_data(struct ibv_qp_ex *ibvqp, void *addr,
				    size_t length)
{
	struct ibv_data_buf buf = { .addr = addr, .length = length };

	tern_wr_set_inline_data_list(ibvqp, 1, &buf);
}

/* ibv_wr_start(3): the queue's lock is held until complete or abort. */
static void tern_wr_start(struct ibv_qp_ex *ibvqp)
{
	struct tern_qp *qp = to_tern_qp_ex(ibvqp);

	pthread_spin_lock(&qp->sq.lock);
	qp->wr_head = qp->sq.head;
	qp->wr_op = NULL;
	qp->wr_err = tern_sq_closed(qp) ? EINVAL : 0;
}

/* ibv_wr_complete(3): posts all WQEs of the session, or none and returns the first error. */
static int tern_wr_complete(struct ibv_qp_ex *ibvqp)
{
	struct tern_qp *qp = to_tern_qp_ex(ibvqp);
	int err;

	if (unlikely(tern_wr_lacks_address(qp)))
		tern_wr_fail(qp, EINVAL);

	err = qp->wr_err;
	if (likely(!err && qp->wr_head != qp->sq.head))
		tern_sq_publish(qp, qp->wr_head);
	pthread_spin_unlock(&qp->sq.lock);

	return err;
}

static void tern_wr_abort(struct ibv_qp_ex *ibvqp)
{
	pthread_spin_unlock(&to_tern_qp_ex(ibvqp)->sq.lock);
}

/* Sets the functions behind ibv_wr_*() for the IBV_QP_EX_WITH_* in send_ops. */
void tern_qp_fill_wr_pfns(struct tern_qp *qp, uint64_t send_ops)
{
	struct ibv_qp_ex *qpx = &qp->vqp.qp_ex;

	qpx->wr_start = tern_wr_start;
	qpx->wr_complete = tern_wr_complete;
	qpx->wr_abort = tern_wr_abort;
	qpx->wr_set_sge = tern_wr_set_sge;
	qpx->wr_set_sge_list = tern_wr_set_sge_list;
	qpx->wr_set_inline_data = tern_wr_set_inline_data;
	qpx->wr_set_inline_data_list = tern_wr_set_inline_data_list;

	if (qp->type->ud_size)
		qpx->wr_set_ud_addr = tern_wr_set_ud_addr;
	if (qp->type->xrc)
		qpx->wr_set_xrc_srqn = tern_wr_set_xrc_srqn;

	if (send_ops & IBV_QP_EX_WITH_SEND)
		qpx->wr_send = tern_wr_send;
	if (send_ops & IBV_QP_EX_WITH_SEND_WITH_IMM)
		qpx->wr_send_imm = tern_wr_send_imm;
	if (send_ops & IBV_QP_EX_WITH_SEND_WITH_INV)
		qpx->wr_send_inv = tern_wr_send_inv;
	if (send_ops & IBV_QP_EX_WITH_RDMA_WRITE)
		qpx->wr_rdma_write = tern_wr_rdma_write;
	if (send_ops & IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM)
		qpx->wr_rdma_write_imm = tern_wr_rdma_write_imm;
	if (send_ops & IBV_QP_EX_WITH_RDMA_READ)
		qpx->wr_rdma_read = tern_wr_rdma_read;
	if (send_ops & IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP)
		qpx->wr_atomic_cmp_swp = tern_wr_atomic_cmp_swp;
	if (send_ops & IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD)
		qpx->wr_atomic_fetch_add = tern_wr_atomic_fetch_add;
	if (send_ops & IBV_QP_EX_WITH_ATOMIC_WRITE)
		qpx->wr_atomic_write = tern_wr_atomic_write;
	if (send_ops & IBV_QP_EX_WITH_FLUSH)
		qpx->wr_flush = tern_wr_flush;
	if (send_ops & IBV_QP_EX_WITH_BIND_MW)
		qpx->wr_bind_mw = tern_wr_bind_mw;
	if (send_ops & IBV_QP_EX_WITH_LOCAL_INV)
		qpx->wr_local_inv = tern_wr_local_inv;
}
