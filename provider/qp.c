// SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause)
/* Queue pairs: creation, state changes, destruction. */

#include <ccan/ilog.h>
#include <ccan/minmax.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tern.h"
#include "wqe.h"

/* Whether the QP has its own receive queue. */
static bool tern_has_own_rq(const struct tern_qp_type *type,
			    const struct ibv_srq *srq)
{
	return type->has_rq && !srq;
}

#ifndef TERN_WITHOUT_TM
/*
 * Whether the device uses the send queue: the SRQ matches tags, and the program
 * asks for no send queue.
 */
static bool tern_qp_fetches(const struct ibv_qp_init_attr_ex *attr)
{
	return attr->srq && to_tern_srq(attr->srq)->tm &&
	       !attr->cap.max_send_wr;
}

#endif
/* Checks that the attributes have exactly the objects of the QP type. */
static int tern_check_qp_objects(const struct tern_qp_type *type,
				 const struct ibv_qp_init_attr_ex *attr)
{
	bool has_xrcd = attr->comp_mask & IBV_QP_INIT_ATTR_XRCD;
	bool has_pd = attr->comp_mask & IBV_QP_INIT_ATTR_PD;

	/* Without queues it is an XRC target, which has the PDs of the SRQs. */
	if (type->has_sq ? has_xrcd || !has_pd || !attr->pd :
			   !has_xrcd || !attr->xrcd)
		return EINVAL;

	if ((type->has_sq && !attr->send_cq) ||
	    (type->has_rq && !attr->recv_cq) || (!type->has_rq && attr->srq))
		return EINVAL;

	return 0;
}

static int tern_check_qp_attr(const struct tern_context *ctx,
			      const struct tern_qp_type *type,
			      const struct ibv_qp_init_attr_ex *attr)
{
	const struct ibv_qp_cap *cap = &attr->cap;
	int err;

	if (!type ||
	    !check_comp_mask(attr->comp_mask,
			     IBV_QP_INIT_ATTR_PD |
			     IBV_QP_INIT_ATTR_XRCD |
			     IBV_QP_INIT_ATTR_CREATE_FLAGS |
			     IBV_QP_INIT_ATTR_MAX_TSO_HEADER |
			     IBV_QP_INIT_ATTR_SEND_OPS_FLAGS))
		return EOPNOTSUPP;

	err = tern_check_raw_qp(ctx, type, attr);
	if (err)
		return err;

	if ((attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) &&
	    !check_comp_mask(attr->send_ops_flags,
			     tern_send_ops(tern_qp_type_ops(type, ctx->caps))))
		return EOPNOTSUPP;

	err = tern_check_qp_objects(type, attr);
	if (err)
		return err;

#ifndef TERN_WITHOUT_TM
	/* Tags are matched on reliable connections only. */
	if (attr->srq && to_tern_srq(attr->srq)->tm &&
	    type->qp_type != IBV_QPT_RC)
		return EOPNOTSUPP;

	if (tern_qp_fetches(attr) &&
	    (attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) &&
	    attr->send_ops_flags)
		return EINVAL;

#endif
	if (type->has_sq && (cap->max_send_wr > ctx->max_send_wr ||
			     cap->max_send_sge > ctx->max_send_sge ||
			     cap->max_inline_data > ctx->max_inline))
		return EINVAL;

	if (tern_has_own_rq(type, attr->srq) &&
	    (cap->max_recv_wr > ctx->max_recv_wr ||
	     cap->max_recv_sge > ctx->max_recv_sge))
		return EINVAL;

	return 0;
}

/* Chooses the geometry of the queues, with at least the capacities in cap. */
static int tern_qp_size(const struct tern_context *ctx, struct tern_qp *qp,
			const struct ibv_qp_cap *cap, bool own_rq)
{
	size_t sge_size = sizeof(struct tern_sge);
	size_t offset, bytes, room;

	if (qp->type->has_sq) {
		offset = tern_qp_type_data_offset(qp->type) +
			 tern_tso_size(qp->max_tso_header);
		bytes = offset + max_t(size_t, cap->max_send_sge * sge_size,
				       cap->max_inline_data);
		bytes = max_t(size_t, bytes, tern_qp_type_min_wqe(qp->type));
		tern_wq_size(&qp->sq, cap->max_send_wr, bytes,
			     TERN_SQ_STRIDE_MIN);
		room = (1U << qp->sq.log_stride) - offset;
		qp->sq.max_sge = min_t(uint32_t, room / sge_size,
				       ctx->max_send_sge);
		qp->max_inline = min_t(uint32_t, room, ctx->max_inline);
	}

	if (own_rq)
		tern_rq_size(&qp->rq, cap->max_recv_wr, cap->max_recv_sge,
			     ctx->max_recv_sge);

	if (qp->sq.log_stride > TERN_SQ_STRIDE_MAX ||
	    qp->rq.log_stride > TERN_RQ_STRIDE_MAX)
		return EINVAL;

	return 0;
}

static void tern_qp_get_cap(const struct tern_qp *qp, struct ibv_qp_cap *cap)
{
	cap->max_send_wr = tern_wq_num(&qp->sq);
#ifndef TERN_WITHOUT_TM
	if (qp->fetches)
		cap->max_send_wr = 0;
#endif
	cap->max_recv_wr = tern_wq_num(&qp->rq);
	cap->max_send_sge = qp->sq.max_sge;
	cap->max_recv_sge = qp->rq.max_sge;
	cap->max_inline_data = qp->max_inline;
}

/* Inserts a CQ into the n cqs, unless it is there. Returns their number. */
static int tern_add_cq(struct tern_cq **cqs, int n, struct ibv_cq *ibvcq)
{
	struct tern_cq *cq = to_tern_cq(ibvcq);
	int i = 0;

	while (i < n && cqs[i]->cqn < cq->cqn)
		i++;
	if (i < n && cqs[i] == cq)
		return n;

	memmove(&cqs[i + 1], &cqs[i], (n - i) * sizeof(*cqs));
	cqs[i] = cq;
	return n + 1;
}

/* Send, receive, and that of the SRQ. */
#define TERN_QP_CQS 3

/*
 * Stores the QP's CQs in cqs, each once and in the order of their numbers, so
 * that threads that lock them cannot deadlock. Returns their number.
 */
static int tern_qp_cqs(struct tern_qp *qp, struct tern_cq *cqs[TERN_QP_CQS])
{
	struct ibv_qp *ibvqp = &qp->vqp.qp;
	int n = 0;

	if (qp->type->has_sq)
		n = tern_add_cq(cqs, n, ibvqp->send_cq);
	if (qp->type->has_rq)
		n = tern_add_cq(cqs, n, ibvqp->recv_cq);
	if (ibvqp->srq && to_tern_srq(ibvqp->srq)->vsrq.cq)
		n = tern_add_cq(cqs, n, to_tern_srq(ibvqp->srq)->vsrq.cq);

	return n;
}

static void tern_lock_cqs(struct tern_qp *qp)
{
	struct tern_cq *cqs[TERN_QP_CQS];
	int i, n;

	n = tern_qp_cqs(qp, cqs);
	for (i = 0; i < n; i++)
		tern_spin_lock(&cqs[i]->lock);
}

static void tern_unlock_cqs(struct tern_qp *qp)
{
	struct tern_cq *cqs[TERN_QP_CQS];
	int i, n;

	n = tern_qp_cqs(qp, cqs);
	for (i = 0; i < n; i++)
		tern_spin_unlock(&cqs[i]->lock);
}

/* Removes the QP's CQEs from its CQs. The caller holds their locks. */
static void tern_qp_purge_cqs(struct tern_qp *qp)
{
	struct tern_cq *cqs[TERN_QP_CQS];
	int i, n;

	n = tern_qp_cqs(qp, cqs);
	for (i = 0; i < n; i++)
		tern_cq_purge_qp(cqs[i], qp->vqp.qp.qp_num, qp->srqn);
}

/*
 * Makes the QP findable by number. EAGAIN: the kernel has reused the number
 * before the thread that destroys the previous owner has removed the owner's
 * completions. That thread would also remove those of the new owner.
 */
int tern_qp_attach(struct tern_context *ctx, struct tern_qp *qp)
{
	uint32_t qpn = qp->vqp.qp.qp_num;
	uint32_t dir = (qpn >> TERN_QP_TABLE_SHIFT) & TERN_QP_TABLE_MASK;
	int err = 0;

	pthread_mutex_lock(&ctx->qp_table_mutex);
	if (!ctx->qp_table[dir])
		ctx->qp_table[dir] = calloc(TERN_QP_TABLE_SIZE,
					    sizeof(*ctx->qp_table[dir]));
	if (!ctx->qp_table[dir]) {
		err = ENOMEM;
		goto out;
	}

	if (tern_find_qp(ctx, qpn))
		err = EAGAIN;
	else
		ctx->qp_table[dir][qpn & TERN_QP_TABLE_MASK] = qp;
out:
	pthread_mutex_unlock(&ctx->qp_table_mutex);
	return err;
}

/* Called for a QP that the kernel has destroyed, before its memory is freed. */
void tern_qp_forget(struct tern_context *ctx, struct tern_qp *qp)
{
	uint32_t qpn = qp->vqp.qp.qp_num;
	uint32_t dir = (qpn >> TERN_QP_TABLE_SHIFT) & TERN_QP_TABLE_MASK;

	tern_lock_cqs(qp);
	tern_qp_purge_cqs(qp);
	tern_unlock_cqs(qp);

	pthread_mutex_lock(&ctx->qp_table_mutex);
	ctx->qp_table[dir][qpn & TERN_QP_TABLE_MASK] = NULL;
	pthread_mutex_unlock(&ctx->qp_table_mutex);

	tern_spin_drain(&qp->sq.lock);
	tern_spin_drain(&qp->rq.lock);
}

/*
 * Allocates a buffer for queues of @bytes, and the record. They keep the parent
 * domain, if any, in use.
 */
int tern_qp_alloc_memory(struct ibv_context *ibvctx, struct tern_qp *qp,
			 size_t bytes, enum tern_res_type type)
{
	int err;

	err = tern_alloc_buf(ibvctx, qp->pd, &qp->buf, bytes, type);
	if (err)
		return err;

	err = tern_alloc_record(to_tern_ctx(ibvctx), qp->pd, &qp->record_ref,
				TERN_RECORD_QP);
	if (err) {
		tern_free_buf(&qp->buf);
		return err;
	}

	if (qp->pd)
		tern_pd_get(qp->pd);
	qp->record = qp->record_ref.addr;
	return 0;
}

void tern_qp_free_memory(struct tern_context *ctx, struct tern_qp *qp)
{
	tern_free_record(ctx, &qp->record_ref, TERN_RECORD_QP);
	tern_free_buf(&qp->buf);
	if (qp->pd)
		tern_pd_put(qp->pd);
}

/* Takes allocators and thread domain from the PD, if it is a parent domain. */
void tern_qp_set_pd(struct tern_qp *qp, struct ibv_pd *ibvpd)
{
	qp->pd = to_tern_parent(ibvpd);
	qp->sq.lock.need_lock = tern_needs_lock(qp->pd);
	qp->rq.lock.need_lock = tern_needs_lock(qp->pd);
}

/* Allocates the send queue, then the receive queue if any, and the record. */
static int tern_qp_alloc_queues(struct ibv_context *ibvctx, struct tern_qp *qp,
				bool own_rq, struct tern_ureq_create_qp *cmd)
{
	size_t sq_bytes = tern_wq_bytes(&qp->sq);
	size_t rq_bytes = own_rq ? tern_wq_bytes(&qp->rq) : 0;
	int err;

	/*
	 * An XRC target exists only in the kernel and the device: nothing is
	 * posted to it.
	 */
	if (!qp->type->has_sq)
		return 0;

	err = tern_qp_alloc_memory(ibvctx, qp, sq_bytes + rq_bytes,
				   TERN_RES_QP);
	if (err)
		return err;

	qp->sq.slots = qp->buf.addr;

	cmd->buf_addr = (uintptr_t)qp->buf.addr;
	cmd->buf_len = qp->buf.len;
	cmd->record_addr = (uintptr_t)qp->record;
	cmd->log_sq_size = ilog32(qp->sq.mask + 1) - 1;
	cmd->log_sq_stride = qp->sq.log_stride;
	if (own_rq) {
		qp->rq.slots = qp->buf.addr + sq_bytes;
		cmd->log_rq_size = ilog32(qp->rq.mask + 1) - 1;
		cmd->log_rq_stride = qp->rq.log_stride;
	}

	return 0;
}

static void tern_qp_free_queues(struct tern_context *ctx, struct tern_qp *qp)
{
	if (qp->type->has_sq)
		tern_qp_free_memory(ctx, qp);
}

/* Zeroed memory for an object with members in cache lines of their own. */
void *tern_zalloc_aligned(size_t size)
{
	void *addr;

	if (posix_memalign(&addr, TERN_CACHE_LINE, size))
		return NULL;
	memset(addr, 0, size);

	return addr;
}

/* A nonexistent queue has a lock, too: posts take it before they fail. */
struct tern_qp *tern_qp_alloc(const struct tern_qp_type *type, uint32_t caps)
{
	struct tern_qp *qp;

	qp = tern_zalloc_aligned(sizeof(*qp));
	if (!qp)
		return NULL;

	qp->type = type;
	qp->raw = type->raw;
	qp->ops = tern_qp_type_ops(type, caps);
	qp->send_flags = tern_qp_type_send_flags(type, caps);
	tern_spin_init(&qp->sq.lock, true);
	tern_spin_init(&qp->rq.lock, true);

	return qp;
}

void tern_qp_free(struct tern_qp *qp)
{
	tern_spin_destroy(&qp->rq.lock);
	tern_spin_destroy(&qp->sq.lock);
	free(qp);
}

/* Creates the QP in the kernel. Only flags need the extended command. */
static int tern_qp_cmd_create(struct ibv_context *ibvctx, struct tern_qp *qp,
			      struct ibv_qp_init_attr_ex *attr,
			      const struct tern_ureq_create_qp *req)
{
	struct tern_create_qp_ex_resp resp_ex = {};
	struct tern_create_qp_ex cmd_ex = {};
	struct tern_create_qp_resp resp = {};
	struct tern_create_qp cmd = {};

	attr->comp_mask &= ~IBV_QP_INIT_ATTR_MAX_TSO_HEADER;
	if ((attr->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS) &&
	    attr->create_flags) {
		cmd_ex.drv_payload = *req;
		return ibv_cmd_create_qp_ex2(ibvctx, &qp->vqp, attr,
					     &cmd_ex.ibv_cmd, sizeof(cmd_ex),
					     &resp_ex.ibv_resp,
					     sizeof(resp_ex), NULL);
	}

	attr->comp_mask &= ~IBV_QP_INIT_ATTR_CREATE_FLAGS;
	cmd.drv_payload = *req;
	return ibv_cmd_create_qp_ex(ibvctx, &qp->vqp, attr, &cmd.ibv_cmd,
				    sizeof(cmd), &resp.ibv_resp, sizeof(resp));
}

/*
 * Creates the QP, and makes it findable if it has queues. If the number still
 * has an owner, the next QP has another number: the device reuses numbers as
 * late as it can.
 */
static int tern_qp_create_attached(struct ibv_context *ibvctx,
				   struct tern_qp *qp,
				   struct ibv_qp_init_attr_ex *attr,
				   const struct tern_ureq_create_qp *req)
{
	unsigned int i;
	int err;

	for (i = 0; i < TERN_NUMBER_TRIES; i++) {
		err = tern_qp_cmd_create(ibvctx, qp, attr, req);
		if (err || !qp->type->has_sq)
			return err;

		err = tern_qp_attach(to_tern_ctx(ibvctx), qp);
		if (!err)
			return 0;

		ibv_cmd_destroy_qp(&qp->vqp.qp);
		if (err != EAGAIN)
			return err;
	}

	return ENOMEM;
}

static int tern_qp_init(struct ibv_context *ibvctx, struct tern_qp *qp,
			struct ibv_qp_init_attr_ex *attr)
{
	struct tern_context *ctx = to_tern_ctx(ibvctx);
	bool own_rq = tern_has_own_rq(qp->type, attr->srq);
	struct tern_ureq_create_qp req = {};
	int err;

	if (attr->comp_mask & IBV_QP_INIT_ATTR_PD)
		tern_qp_set_pd(qp, attr->pd);
	if (attr->comp_mask & IBV_QP_INIT_ATTR_MAX_TSO_HEADER)
		qp->max_tso_header = attr->max_tso_header;
#ifndef TERN_WITHOUT_TM
	if (tern_qp_fetches(attr)) {
		qp->fetches = true;
		qp->ops = 0;
	}
#endif

	err = tern_qp_size(ctx, qp, &attr->cap, own_rq);
	if (err)
		return err;

	err = tern_qp_alloc_queues(ibvctx, qp, own_rq, &req);
	if (err)
		return err;

	/* Tell the kernel the actual capacities. */
	tern_qp_get_cap(qp, &attr->cap);
	err = tern_qp_create_attached(ibvctx, qp, attr, &req);
	if (err) {
		tern_qp_free_queues(ctx, qp);
		return err;
	}

	if (attr->srq)
		qp->srqn = to_tern_srq(attr->srq)->srqn;
	if (attr->sq_sig_all)
		qp->wqe_flags = TERN_WQE_F_SIGNALED;
	if (attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) {
		tern_qp_fill_wr_pfns(qp, attr->send_ops_flags);
		qp->vqp.comp_mask |= VERBS_QP_EX;
	}

	return 0;
}

/*
 * ibv_create_qp_ex(3) without an indirection table: EOPNOTSUPP for a type, flag
 * or send op that tern does not support, EINVAL for capacities beyond the
 * device's and for objects that are missing or not allowed for the type.
 */
struct ibv_qp *tern_create_basic_qp(struct ibv_context *ibvctx,
				    struct ibv_qp_init_attr_ex *attr)
{
	const struct tern_qp_type *type = tern_qp_type_find(attr->qp_type);
	struct ibv_qp_init_attr_ex actual = *attr;
	struct tern_qp *qp;
	int err;

	err = tern_check_qp_attr(to_tern_ctx(ibvctx), type, attr);
	if (err)
		goto err_out;

	qp = tern_qp_alloc(type, to_tern_ctx(ibvctx)->caps);
	if (!qp) {
		err = ENOMEM;
		goto err_out;
	}

	err = tern_qp_init(ibvctx, qp, &actual);
	if (err)
		goto err_free;

	tern_qp_get_cap(qp, &attr->cap);
	return &qp->vqp.qp;

err_free:
	tern_qp_free(qp);
err_out:
	errno = err;
	return NULL;
}

/*
 * ibv_open_qp(3): an XRC target that this or another process created. It has no
 * queues; its receives complete into the CQs of the SRQs.
 */
struct ibv_qp *tern_open_qp(struct ibv_context *ibvctx,
			    struct ibv_qp_open_attr *attr)
{
	struct ib_uverbs_create_qp_resp resp;
	struct ibv_open_qp cmd;
	struct tern_qp *qp;
	int err;

	qp = tern_qp_alloc(tern_qp_type_find(IBV_QPT_XRC_RECV),
			   to_tern_ctx(ibvctx)->caps);
	if (!qp)
		return NULL;

	err = ibv_cmd_open_qp(ibvctx, &qp->vqp, sizeof(qp->vqp), attr, &cmd,
			      sizeof(cmd), &resp, sizeof(resp));
	if (err) {
		tern_qp_free(qp);
		errno = err;
		return NULL;
	}

	return &qp->vqp.qp;
}

static void tern_wq_reset(struct tern_wq *wq, atomic_uint *tail, __le32 *index)
{
	tern_spin_lock(&wq->lock);
	wq->head = 0;
	wq->tail_seen = 0;
	atomic_store_explicit(tail, 0, memory_order_relaxed);
	tern_shared_write(index, 0);
	tern_spin_unlock(&wq->lock);
}

/*
 * Called after the move to RESET: the device counts from 0 again, has dropped
 * all work and has cleared the status.
 */
void tern_qp_reset(struct tern_qp *qp)
{
	tern_lock_cqs(qp);
	tern_qp_purge_cqs(qp);
	tern_unlock_cqs(qp);
#ifndef TERN_WITHOUT_ECE
	qp->ece_set = false;
#endif

	if (!qp->record)
		return;

	tern_wq_reset(&qp->sq, &qp->sq_tail, &qp->record->sq_pi);
	tern_wq_reset(&qp->rq, &qp->rq_tail, &qp->record->rq_pi);
}

#ifndef TERN_WITHOUT_ECE
/*
 * Executes the verb with tern's own part of the request. Only the extended
 * command passes it to the driver.
 */
int tern_exec_modify_qp(struct ibv_qp *ibvqp, struct ibv_qp_attr *attr,
			int attr_mask, const struct tern_ureq_modify_qp *req)
{
	static const struct tern_ureq_modify_qp nothing;
	struct ib_uverbs_ex_modify_qp_resp resp = {};
	struct tern_modify_qp_ex cmd_ex = {};
	struct ibv_modify_qp cmd = {};

	if (!(attr_mask & IBV_QP_RATE_LIMIT) &&
	    !memcmp(req, &nothing, sizeof(nothing)))
		return ibv_cmd_modify_qp(ibvqp, attr, attr_mask, &cmd,
					 sizeof(cmd));

	cmd_ex.drv_payload = *req;
	return ibv_cmd_modify_qp_ex(ibvqp, attr, attr_mask, &cmd_ex.ibv_cmd,
				    sizeof(cmd_ex), &resp, sizeof(resp));
}

#ifndef TERN_WITHOUT_APM
/*
 * The kernel's verb takes no alternate path on RoCE ports: the path is driver data,
 * instead of an attribute.
 */
static int tern_fill_alt_path(const struct ibv_qp_attr *attr,
			      struct tern_ureq_modify_qp *req)
{
	const struct ibv_ah_attr *ah = &attr->alt_ah_attr;

	if (!ah->is_global || ah->port_num != attr->alt_port_num)
		return EINVAL;

	req->flags = TERN_MODIFY_QP_ALT_PATH;
	req->alt = (struct tern_ureq_alt_path) {
		.flow_label = ah->grh.flow_label,
		.sgid_index = ah->grh.sgid_index,
		.pkey_index = attr->alt_pkey_index,
		.hop_limit = ah->grh.hop_limit,
		.traffic_class = ah->grh.traffic_class,
		.sl = ah->sl,
		.static_rate = ah->static_rate,
		.port = attr->alt_port_num,
		.timeout = attr->alt_timeout,
	};
	memcpy(req->alt.dgid, ah->grh.dgid.raw, sizeof(req->alt.dgid));

	return 0;
}

#endif
#endif
/* ibv_modify_qp(3). */
int tern_modify_qp(struct ibv_qp *ibvqp, struct ibv_qp_attr *attr,
		   int attr_mask)
{
	struct tern_qp *qp = to_tern_qp(ibvqp);
#ifndef TERN_WITHOUT_ECE
	struct tern_ureq_modify_qp req = {};
#else
	struct ibv_modify_qp cmd = {};
#endif
	int err;

#ifndef TERN_WITHOUT_RATE
	if ((attr_mask & IBV_QP_RATE_LIMIT) &&
	    !(to_tern_ctx(ibvqp->context)->caps & TERN_UCTX_CAP_RATE_LIMIT))
		return EOPNOTSUPP;

#endif
#ifndef TERN_WITHOUT_ECE
	/* Options of the connection, if any. */
	if ((attr_mask & IBV_QP_STATE) && attr->qp_state == IBV_QPS_RTR &&
	    qp->ece_set)
		req.ece_options = qp->ece;

#endif
#ifndef TERN_WITHOUT_APM
	if (attr_mask & IBV_QP_ALT_PATH) {
		err = tern_fill_alt_path(attr, &req);
		if (err)
			return err;

		attr_mask &= ~IBV_QP_ALT_PATH;
	}

#endif
#ifndef TERN_WITHOUT_ECE
	err = tern_exec_modify_qp(ibvqp, attr, attr_mask, &req);
#else
	err = ibv_cmd_modify_qp(ibvqp, attr, attr_mask, &cmd, sizeof(cmd));
#endif
	if (err)
		return err;

	if ((attr_mask & IBV_QP_STATE) && attr->qp_state == IBV_QPS_RESET)
		tern_qp_reset(qp);

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

/*
 * ibv_query_qp_data_in_order(3): no order is guaranteed, for any operation, not
 * even within blocks of 128 bytes. The device copies the payload of a packet in
 * the fastest way the host offers. It stores the end of a message last, but the
 * bytes before that in any order.
 */
int tern_query_qp_data_in_order(struct ibv_qp *ibvqp, enum ibv_wr_opcode op,
				uint32_t flags)
{
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

	if (!qp->type->has_sq)
		goto out;

	tern_qp_forget(ctx, qp);
	tern_qp_free_queues(ctx, qp);
out:
	tern_qp_free(qp);

	return 0;
}
