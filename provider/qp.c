// SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause)
/* Queue pairs: creation, state changes, destruction. */

#include <ccan/ilog.h>
#include <ccan/minmax.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tern.h"

static int tern_check_qp_attr(const struct tern_context *ctx,
			      const struct tern_qp_type *type,
			      const struct ibv_qp_init_attr_ex *attr)
{
	const struct ibv_qp_cap *cap = &attr->cap;

	if (!type || attr->srq ||
	    !check_comp_mask(attr->comp_mask,
			     IBV_QP_INIT_ATTR_PD |
			     IBV_QP_INIT_ATTR_CREATE_FLAGS |
			     IBV_QP_INIT_ATTR_SEND_OPS_FLAGS))
		return EOPNOTSUPP;

	if ((attr->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS) &&
	    attr->create_flags)
		return EOPNOTSUPP;

	if ((attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) &&
	    !check_comp_mask(attr->send_ops_flags, tern_qp_type_send_ops(type)))
		return EOPNOTSUPP;

	if (!(attr->comp_mask & IBV_QP_INIT_ATTR_PD) || !attr->pd ||
	    !attr->send_cq || !attr->recv_cq)
		return EINVAL;

	if (cap->max_send_wr > ctx->max_send_wr ||
	    cap->max_recv_wr > ctx->max_recv_wr ||
	    cap->max_send_sge > ctx->max_send_sge ||
	    cap->max_recv_sge > ctx->max_recv_sge ||
	    cap->max_inline_data > ctx->max_inline)
		return EINVAL;

	return 0;
}

/* Chooses slots and stride: at least one slot, whatever was asked for, of at least bytes. */
static void tern_wq_size(struct tern_wq *wq, uint32_t max_wr, size_t bytes,
			 uint32_t min_log_stride)
{
	wq->mask = max_wr ? roundup_pow_of_two(max_wr) - 1 : 0;
	wq->log_stride = max_t(uint32_t, min_log_stride, ilog32(bytes - 1));
}

static size_t tern_wq_bytes(const struct tern_wq *wq)
{
	return ((size_t)wq->mask + 1) << wq->log_stride;
}

/* Chooses the geometry of the queues; what fits is at least what cap asks for. */
static int tern_qp_size(const struct tern_context *ctx, struct tern_qp *qp,
			const struct ibv_qp_cap *cap)
{
	size_t sge_size = sizeof(struct tern_sge);
	size_t offset, bytes, room;

	offset = tern_qp_type_data_offset(qp->type);
	bytes = offset + max_t(size_t, cap->max_send_sge * sge_size,
			       cap->max_inline_data);
	bytes = max_t(size_t, bytes, tern_qp_type_min_wqe(qp->type));
	tern_wq_size(&qp->sq, cap->max_send_wr, bytes, TERN_SQ_STRIDE_MIN);
	room = (1U << qp->sq.log_stride) - offset;
	qp->sq.max_sge = min_t(uint32_t, room / sge_size, ctx->max_send_sge);
	qp->max_inline = min_t(uint32_t, room, ctx->max_inline);

	offset = sizeof(struct tern_rq_hdr);
	bytes = offset + cap->max_recv_sge * sge_size;
	tern_wq_size(&qp->rq, cap->max_recv_wr, bytes, TERN_RQ_STRIDE_MIN);
	room = (1U << qp->rq.log_stride) - offset;
	qp->rq.max_sge = min_t(uint32_t, room / sge_size, ctx->max_recv_sge);

	if (qp->sq.log_stride > TERN_SQ_STRIDE_MAX ||
	    qp->rq.log_stride > TERN_RQ_STRIDE_MAX)
		return EINVAL;

	return 0;
}

static void tern_qp_get_cap(const struct tern_qp *qp, struct ibv_qp_cap *cap)
{
	cap->max_send_wr = qp->sq.mask + 1;
	cap->max_recv_wr = qp->rq.mask + 1;
	cap->max_send_sge = qp->sq.max_sge;
	cap->max_recv_sge = qp->rq.max_sge;
	cap->max_inline_data = qp->max_inline;
}

/* Both CQs, in the order of their numbers so that no two threads wait for each other. */
static void tern_lock_cqs(struct tern_qp *qp)
{
	struct tern_cq *a = to_tern_cq(qp->vqp.qp.send_cq);
	struct tern_cq *b = to_tern_cq(qp->vqp.qp.recv_cq);

	tern_cq_lock(a->cqn <= b->cqn ? a : b);
	if (a != b)
		tern_cq_lock(a->cqn <= b->cqn ? b : a);
}

static void tern_unlock_cqs(struct tern_qp *qp)
{
	struct tern_cq *a = to_tern_cq(qp->vqp.qp.send_cq);
	struct tern_cq *b = to_tern_cq(qp->vqp.qp.recv_cq);

	tern_cq_unlock(a);
	if (a != b)
		tern_cq_unlock(b);
}

/* Removes the QP's CQEs from its CQs, whose locks the caller holds. */
static void tern_qp_purge_cqs(struct tern_qp *qp)
{
	struct ibv_qp *ibvqp = &qp->vqp.qp;

	tern_cq_purge(to_tern_cq(ibvqp->send_cq), ibvqp->qp_num);
	if (ibvqp->recv_cq != ibvqp->send_cq)
		tern_cq_purge(to_tern_cq(ibvqp->recv_cq), ibvqp->qp_num);
}

/*
 * Makes successor (or nobody, NULL) the owner of the number of a QP that the
 * kernel has destroyed, after removing the old owner's completions. Called
 * under qp_table_mutex.
 */
static void tern_qp_detach(struct tern_context *ctx, struct tern_qp *qp,
			   struct tern_qp *successor)
{
	uint32_t qpn = qp->vqp.qp.qp_num;
	struct tern_qp **page =
		ctx->qp_table[(qpn >> TERN_QP_TABLE_SHIFT) & TERN_QP_TABLE_MASK];

	tern_lock_cqs(qp);
	tern_qp_purge_cqs(qp);
	page[qpn & TERN_QP_TABLE_MASK] = successor;
	tern_unlock_cqs(qp);
}

/*
 * Makes the QP findable by its number. A number may come back from the kernel
 * before the thread that destroys its last owner got to detach it.
 */
static int tern_qp_attach(struct tern_context *ctx, struct tern_qp *qp)
{
	uint32_t qpn = qp->vqp.qp.qp_num;
	uint32_t dir = (qpn >> TERN_QP_TABLE_SHIFT) & TERN_QP_TABLE_MASK;
	struct tern_qp *old;
	int err = 0;

	pthread_mutex_lock(&ctx->qp_table_mutex);
	if (!ctx->qp_table[dir])
		ctx->qp_table[dir] = calloc(TERN_QP_TABLE_SIZE,
					    sizeof(*ctx->qp_table[dir]));
	if (!ctx->qp_table[dir]) {
		err = ENOMEM;
		goto out;
	}

	old = tern_find_qp(ctx, qpn);
	if (old)
		tern_qp_detach(ctx, old, qp);
	else
		ctx->qp_table[dir][qpn & TERN_QP_TABLE_MASK] = qp;
out:
	pthread_mutex_unlock(&ctx->qp_table_mutex);
	return err;
}

/* Send queue first, receive queue behind it, the record at the end. */
static int tern_qp_alloc_queues(struct ibv_context *ibvctx, struct tern_qp *qp,
				struct tern_create_qp *cmd)
{
	size_t sq_bytes = tern_wq_bytes(&qp->sq);
	int err;

	err = tern_alloc_buf(ibvctx, &qp->buf,
			     sq_bytes + tern_wq_bytes(&qp->rq) +
				     sizeof(struct tern_qp_record));
	if (err)
		return err;

	qp->sq.slots = qp->buf.addr;
	qp->rq.slots = qp->buf.addr + sq_bytes;
	qp->record = qp->buf.addr + qp->buf.len - sizeof(*qp->record);
	pthread_spin_init(&qp->sq.lock, PTHREAD_PROCESS_PRIVATE);
	pthread_spin_init(&qp->rq.lock, PTHREAD_PROCESS_PRIVATE);

	cmd->buf_addr = (uintptr_t)qp->buf.addr;
	cmd->buf_len = qp->buf.len;
	cmd->log_sq_size = ilog32(qp->sq.mask + 1) - 1;
	cmd->log_sq_stride = qp->sq.log_stride;
	cmd->log_rq_size = ilog32(qp->rq.mask + 1) - 1;
	cmd->log_rq_stride = qp->rq.log_stride;

	return 0;
}

static void tern_qp_free_queues(struct tern_qp *qp)
{
	pthread_spin_destroy(&qp->rq.lock);
	pthread_spin_destroy(&qp->sq.lock);
	tern_free_buf(&qp->buf);
}

static int tern_qp_init(struct ibv_context *ibvctx, struct tern_qp *qp,
			struct ibv_qp_init_attr_ex *attr)
{
	struct tern_context *ctx = to_tern_ctx(ibvctx);
	struct tern_create_qp_resp resp = {};
	struct tern_create_qp cmd = {};
	int err;

	err = tern_qp_size(ctx, qp, &attr->cap);
	if (err)
		return err;

	err = tern_qp_alloc_queues(ibvctx, qp, &cmd);
	if (err)
		return err;

	/* The kernel is told what the queues really take. */
	tern_qp_get_cap(qp, &attr->cap);
	attr->comp_mask &= ~IBV_QP_INIT_ATTR_CREATE_FLAGS;
	err = ibv_cmd_create_qp_ex(ibvctx, &qp->vqp, attr, &cmd.ibv_cmd,
				   sizeof(cmd), &resp.ibv_resp, sizeof(resp));
	if (err)
		goto err_free_queues;

	if (attr->sq_sig_all)
		qp->wqe_flags = TERN_WQE_F_SIGNALED;
	if (attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) {
		tern_qp_fill_wr_pfns(qp, attr->send_ops_flags);
		qp->vqp.comp_mask |= VERBS_QP_EX;
	}

	err = tern_qp_attach(ctx, qp);
	if (err)
		goto err_destroy;

	return 0;

err_destroy:
	ibv_cmd_destroy_qp(&qp->vqp.qp);
err_free_queues:
	tern_qp_free_queues(qp);
	return err;
}

/*
 * ibv_create_qp_ex(3): EOPNOTSUPP for a type, flag or send op that tern lacks,
 * EINVAL for capacities past the device's.
 */
struct ibv_qp *tern_create_qp_ex(struct ibv_context *ibvctx,
				 struct ibv_qp_init_attr_ex *attr)
{
	const struct tern_qp_type *type = tern_qp_type_find(attr->qp_type);
	struct ibv_qp_init_attr_ex actual = *attr;
	struct tern_qp *qp;
	int err;

	err = tern_check_qp_attr(to_tern_ctx(ibvctx), type, attr);
	if (err)
		goto err_out;

	qp = calloc(1, sizeof(*qp));
	if (!qp) {
		err = ENOMEM;
		goto err_out;
	}

	qp->type = type;
	err = tern_qp_init(ibvctx, qp, &actual);
	if (err)
		goto err_free;

	tern_qp_get_cap(qp, &attr->cap);
	return &qp->vqp.qp;

err_free:
	free(qp);
err_out:
	errno = err;
	return NULL;
}

/* ibv_create_qp(3). */
struct ibv_qp *tern_create_qp(struct ibv_pd *ibvpd,
			      struct ibv_qp_init_attr *attr)
{
	struct ibv_qp_init_attr_ex attr_ex = {
		.qp_context = attr->qp_context,
		.send_cq = attr->send_cq,
		.recv_cq = attr->recv_cq,
		.srq = attr->srq,
		.cap = attr->cap,
		.qp_type = attr->qp_type,
		.sq_sig_all = attr->sq_sig_all,
		.comp_mask = IBV_QP_INIT_ATTR_PD,
		.pd = ibvpd,
	};
	struct ibv_qp *ibvqp;

	ibvqp = tern_create_qp_ex(ibvpd->context, &attr_ex);
	if (ibvqp)
		attr->cap = attr_ex.cap;

	return ibvqp;
}

static void tern_wq_reset(struct tern_wq *wq, __le32 *index)
{
	pthread_spin_lock(&wq->lock);
	wq->head = 0;
	atomic_store_explicit(&wq->tail, 0, memory_order_relaxed);
	tern_shared_write(index, 0);
	pthread_spin_unlock(&wq->lock);
}

/* After the move to RESET: the device counts from 0 again and has forgotten all work. */
static void tern_qp_reset(struct tern_qp *qp)
{
	tern_lock_cqs(qp);
	tern_qp_purge_cqs(qp);
	tern_unlock_cqs(qp);

	tern_shared_write(&qp->record->status, 0);
	tern_wq_reset(&qp->sq, &qp->record->sq_pi);
	tern_wq_reset(&qp->rq, &qp->record->rq_pi);
}

/* ibv_modify_qp(3). */
int tern_modify_qp(struct ibv_qp *ibvqp, struct ibv_qp_attr *attr,
		   int attr_mask)
{
	struct ibv_modify_qp cmd = {};
	int err;

	err = ibv_cmd_modify_qp(ibvqp, attr, attr_mask, &cmd, sizeof(cmd));
	if (err)
		return err;

	if ((attr_mask & IBV_QP_STATE) && attr->qp_state == IBV_QPS_RESET)
		tern_qp_reset(to_tern_qp(ibvqp));

	return 0;
}

/* ibv_query_qp(3). */
int tern_query_qp(struct ibv_qp *ibvqp, struct ibv_qp_attr *attr,
		  int attr_mask, struct ibv_qp_init_attr *init_attr)
{
	struct ibv_query_qp cmd;
	int err;

	err = ibv_cmd_query_qp(ibvqp, attr, attr_mask, init_attr, &cmd,
			       sizeof(cmd));
	if (err)
		return err;

	tern_qp_get_cap(to_tern_qp(ibvqp), &init_attr->cap);
	attr->cap = init_attr->cap;

	return 0;
}

/* ibv_destroy_qp(3). */
int tern_destroy_qp(struct ibv_qp *ibvqp)
{
	struct tern_context *ctx = to_tern_ctx(ibvqp->context);
	struct tern_qp *qp = to_tern_qp(ibvqp);
	int err;

	err = ibv_cmd_destroy_qp(ibvqp);
	if (err)
		return err;

	pthread_mutex_lock(&ctx->qp_table_mutex);
	/* Unless a new QP took over the number, and cleaned up, in the meantime. */
	if (tern_find_qp(ctx, ibvqp->qp_num) == qp)
		tern_qp_detach(ctx, qp, NULL);
	pthread_mutex_unlock(&ctx->qp_table_mutex);

	tern_qp_free_queues(qp);
	free(qp);

	return 0;
}
