// SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause)
/* Shared receive queues, including XRC SRQs. */

#include <config.h>

#include <ccan/ilog.h>
#include <stdlib.h>
#include <string.h>

#include "wqe.h"

static uint32_t tern_srq_ci(const struct tern_srq *srq)
{
	return tern_shared_read(&srq->record->ci);
}

/* Whether the queue is full according to the cached device index. */
static bool tern_srq_looks_full(struct tern_srq *srq, uint32_t head)
{
#ifndef TERN_WITHOUT_RESIZE
	if (unlikely(srq->next) &&
	    head - srq->wq.tail_seen > srq->next->mask)
		return true;

#endif
	return head - srq->wq.tail_seen > srq->wq.mask;
}

/* Whether no slot is free. Refreshes the cached index if it indicates that. */
static bool tern_srq_full(struct tern_srq *srq, uint32_t head)
{
	if (likely(!tern_srq_looks_full(srq, head)))
		return false;

	srq->wq.tail_seen = tern_srq_ci(srq);
	/* The device copied the WQEs below ci before it stored ci. */
	udma_ordering_read_barrier();

	return tern_srq_looks_full(srq, head);
}

/* ibv_post_srq_recv(3): EINVAL for too many SGEs, ENOMEM if full. */
int tern_post_srq_recv(struct ibv_srq *ibvsrq, struct ibv_recv_wr *wr,
		       struct ibv_recv_wr **bad_wr)
{
	struct tern_srq *srq = to_tern_srq(ibvsrq);
	struct tern_wq *wq = &srq->wq;
	uint32_t head;
	int err = 0;

	tern_spin_lock(&wq->lock);
	for (head = wq->head; wr; wr = wr->next) {
		if (unlikely((uint32_t)wr->num_sge > wq->max_sge))
			err = EINVAL;
		else if (unlikely(tern_srq_full(srq, head)))
			err = ENOMEM;
		if (unlikely(err)) {
			*bad_wr = wr;
			break;
		}

		tern_build_recv(wq, head, wr);
#ifndef TERN_WITHOUT_RESIZE
		if (unlikely(srq->next))
			tern_build_recv(srq->next, head, wr);
#endif
		rdma_tracepoint(rdma_core_tern, post_srq_recv,
				ibvsrq->context->device->name, wr->wr_id,
				srq->srqn, wr->num_sge);
		head++;
	}

	if (likely(head != wq->head)) {
		wq->head = head;
		/* Write the WQEs before the index. */
		udma_to_device_barrier();
		tern_shared_write(&srq->record->pi, head);
	}
	tern_spin_unlock(&wq->lock);

	return err;
}

static int tern_check_srq_attr(const struct tern_context *ctx,
			       const struct ibv_srq_init_attr_ex *attr)
{
	enum ibv_srq_type type = IBV_SRQT_BASIC;
	uint32_t needed = IBV_SRQ_INIT_ATTR_PD;

	if (attr->comp_mask & IBV_SRQ_INIT_ATTR_TYPE)
		type = attr->srq_type;

	switch (type) {
	case IBV_SRQT_BASIC:
		break;
	case IBV_SRQT_XRC:
		needed |= IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
		break;
#ifndef TERN_WITHOUT_TM
	case IBV_SRQT_TM:
		if (!(ctx->caps & TERN_UCTX_CAP_TM))
			return EOPNOTSUPP;
		needed |= IBV_SRQ_INIT_ATTR_TM | IBV_SRQ_INIT_ATTR_CQ;
		break;
#endif
	default:
		return EOPNOTSUPP;
	}

	if (!check_comp_mask(attr->comp_mask, IBV_SRQ_INIT_ATTR_TYPE |
					      IBV_SRQ_INIT_ATTR_PD |
					      IBV_SRQ_INIT_ATTR_XRCD |
					      IBV_SRQ_INIT_ATTR_CQ |
					      IBV_SRQ_INIT_ATTR_TM))
		return EOPNOTSUPP;
	if ((attr->comp_mask & ~IBV_SRQ_INIT_ATTR_TYPE) != needed)
		return EINVAL;
#ifndef TERN_WITHOUT_TM
	if (type == IBV_SRQT_TM && !tern_tm_cap_ok(&attr->tm_cap))
		return EINVAL;
#endif

	if (!attr->attr.max_wr || attr->attr.max_wr > ctx->max_srq_wr ||
	    attr->attr.max_sge > ctx->max_recv_sge)
		return EINVAL;

	return 0;
}

/* An SRQ with a CQ, for XRC or tag matching, needs the extended command. */
static int tern_srq_cmd_create(struct ibv_context *ibvctx, struct tern_srq *srq,
			       struct ibv_srq_init_attr_ex *attr,
			       const struct tern_ureq_create_srq *req)
{
	struct tern_create_srq_ex_resp resp_ex = {};
	struct tern_create_srq_ex cmd_ex = {};
	struct tern_create_srq_resp resp = {};
	struct tern_create_srq cmd = {};
	struct ibv_srq_init_attr basic;
	int err;

	if (attr->comp_mask & IBV_SRQ_INIT_ATTR_CQ) {
		cmd_ex.drv_payload = *req;
		err = ibv_cmd_create_srq_ex(ibvctx, &srq->vsrq, attr,
					    &cmd_ex.ibv_cmd, sizeof(cmd_ex),
					    &resp_ex.ibv_resp, sizeof(resp_ex));
		srq->srqn = resp_ex.srqn;
		return err;
	}

	basic = (struct ibv_srq_init_attr) {
		.srq_context = attr->srq_context,
		.attr = attr->attr,
	};
	cmd.drv_payload = *req;
	err = ibv_cmd_create_srq(attr->pd, &srq->vsrq.srq, &basic, &cmd.ibv_cmd,
				 sizeof(cmd), &resp.ibv_resp, sizeof(resp));
	srq->srqn = resp.srqn;

	return err;
}

/*
 * EAGAIN: the kernel has reused the number before the thread that destroys the
 * previous owner has removed the owner's completions. That thread would also
 * remove those of the new owner.
 */
static int tern_xrc_srq_attach(struct tern_context *ctx, struct tern_srq *srq)
{
	struct list_head *bucket =
		&ctx->xrc_srqs[srq->srqn % TERN_XRC_SRQ_BUCKETS];
	struct tern_srq *old;
	int err = 0;

	pthread_mutex_lock(&ctx->xrc_srqs_mutex);
	list_for_each(bucket, old, xrc_entry)
		if (old->srqn == srq->srqn)
			err = EAGAIN;
	if (!err)
		list_add(bucket, &srq->xrc_entry);
	pthread_mutex_unlock(&ctx->xrc_srqs_mutex);

	return err;
}

/* Called for an SRQ with a CQ that the kernel has destroyed. */
static void tern_xrc_srq_forget(struct tern_context *ctx, struct tern_srq *srq)
{
	struct tern_cq *cq = to_tern_cq(srq->vsrq.cq);

	tern_spin_lock(&cq->lock);
	tern_cq_purge_srq(cq, srq->srqn);
	tern_spin_unlock(&cq->lock);

	pthread_mutex_lock(&ctx->xrc_srqs_mutex);
	list_del(&srq->xrc_entry);
	pthread_mutex_unlock(&ctx->xrc_srqs_mutex);
}

/*
 * Creates the SRQ, and lists it if it has a CQ. If the number still has an
 * owner, the next SRQ has another number: the device reuses numbers as late as
 * it can.
 */
static int tern_srq_create_attached(struct ibv_context *ibvctx,
				    struct tern_srq *srq,
				    struct ibv_srq_init_attr_ex *attr,
				    const struct tern_ureq_create_srq *req)
{
	unsigned int i;
	int err;

	for (i = 0; i < TERN_NUMBER_TRIES; i++) {
		err = tern_srq_cmd_create(ibvctx, srq, attr, req);
		if (err || !(attr->comp_mask & IBV_SRQ_INIT_ATTR_CQ))
			return err;

		err = tern_xrc_srq_attach(to_tern_ctx(ibvctx), srq);
		if (!err)
			return 0;

		ibv_cmd_destroy_srq(&srq->vsrq.srq);
	}

	return ENOMEM;
}

static int tern_srq_init(struct ibv_context *ibvctx, struct tern_srq *srq,
			 struct ibv_srq_init_attr_ex *attr)
{
	struct tern_context *ctx = to_tern_ctx(ibvctx);
	struct tern_ureq_create_srq req = {};
	int err;

	tern_rq_size(&srq->wq, attr->attr.max_wr, attr->attr.max_sge,
		     ctx->max_recv_sge);
	if (srq->wq.log_stride > TERN_RQ_STRIDE_MAX)
		return EINVAL;

	err = tern_alloc_buf(ibvctx, srq->pd, &srq->buf,
			     tern_wq_bytes(&srq->wq), TERN_RES_SRQ);
	if (err)
		return err;
	srq->wq.slots = srq->buf.addr;

	err = tern_alloc_record(ctx, srq->pd, &srq->record_ref,
				TERN_RECORD_SRQ);
	if (err)
		goto err_free_buf;
	srq->record = srq->record_ref.addr;

	/* Tell the kernel the actual capacity. */
	attr->attr.max_wr = tern_wq_num(&srq->wq);
	attr->attr.max_sge = srq->wq.max_sge;
	req.buf_addr = (uintptr_t)srq->buf.addr;
	req.buf_len = srq->buf.len;
	req.record_addr = (uintptr_t)srq->record;
	req.log_size = ilog32(srq->wq.mask + 1) - 1;
	req.log_stride = srq->wq.log_stride;
#ifndef TERN_WITHOUT_TM
	if (attr->comp_mask & IBV_SRQ_INIT_ATTR_TM) {
		err = tern_tm_alloc(ibvctx, srq, &attr->tm_cap, &req);
		if (err)
			goto err_free_record;
	}

#endif
	err = tern_srq_create_attached(ibvctx, srq, attr, &req);
	if (err)
		goto err_free_record;

	tern_spin_init(&srq->wq.lock, tern_needs_lock(srq->pd));
#ifndef TERN_WITHOUT_RESIZE
	pthread_mutex_init(&srq->resize_mutex, NULL);
#endif

	return 0;

err_free_record:
#ifndef TERN_WITHOUT_TM
	tern_tm_free(srq);
#endif
	tern_free_record(ctx, &srq->record_ref, TERN_RECORD_SRQ);
err_free_buf:
	tern_free_buf(&srq->buf);
	return err;
}

/*
 * ibv_create_srq_ex(3): EOPNOTSUPP for a type that tern does not support,
 * EINVAL for capacities beyond the device's and for objects that are missing or
 * not allowed for the type.
 */
struct ibv_srq *tern_create_srq_ex(struct ibv_context *ibvctx,
				   struct ibv_srq_init_attr_ex *attr)
{
	struct ibv_srq_init_attr_ex actual = *attr;
	struct tern_srq *srq;
	int err;

	err = tern_check_srq_attr(to_tern_ctx(ibvctx), attr);
	if (err)
		goto err_out;

	srq = calloc(1, sizeof(*srq));
	if (!srq) {
		err = ENOMEM;
		goto err_out;
	}

	srq->pd = to_tern_parent(attr->pd);
	err = tern_srq_init(ibvctx, srq, &actual);
	if (err)
		goto err_free;

	if (srq->pd)
		tern_pd_get(srq->pd);
	srq->vsrq.srq.srq_context = attr->srq_context;
	srq->vsrq.srq.pd = attr->pd;
	attr->attr.max_wr = tern_wq_num(&srq->wq);
	attr->attr.max_sge = srq->wq.max_sge;

	return &srq->vsrq.srq;

err_free:
	free(srq);
err_out:
	errno = err;
	return NULL;
}

/* ibv_create_srq(3). */
struct ibv_srq *tern_create_srq(struct ibv_pd *ibvpd,
				struct ibv_srq_init_attr *attr)
{
	struct ibv_srq_init_attr_ex attr_ex = {
		.srq_context = attr->srq_context,
		.attr = attr->attr,
		.comp_mask = IBV_SRQ_INIT_ATTR_PD,
		.pd = ibvpd,
	};
	struct ibv_srq *ibvsrq;

	ibvsrq = tern_create_srq_ex(ibvpd->context, &attr_ex);
	if (ibvsrq)
		attr->attr = attr_ex.attr;

	return ibvsrq;
}

#ifndef TERN_WITHOUT_RESIZE
/*
 * Copies WQEs that the device has not fetched into a queue of another size, and
 * makes posts go to both queues. WQEs that the device fetches from the old
 * queue meanwhile are copied needlessly. EINVAL if the WQEs do not fit.
 */
static int tern_srq_begin_resize(struct tern_srq *srq, struct tern_wq *new)
{
	const struct tern_wq *wq = &srq->wq;
	uint32_t ci, pi, i;
	int err = 0;

	tern_spin_lock(&srq->wq.lock);
	ci = tern_srq_ci(srq);
	/* Only the record has the index of a program that posts by direct verbs. */
	pi = tern_shared_read(&srq->record->pi);
	if (pi - ci > new->mask + 1) {
		err = EINVAL;
		goto out;
	}

	for (i = ci; i != pi; i++)
		memcpy(tern_wq_slot(new, i), tern_wq_slot(wq, i),
		       (size_t)1 << wq->log_stride);
	srq->next = new;
out:
	tern_spin_unlock(&srq->wq.lock);
	return err;
}

/* Ends a resize. If the device has switched, buf becomes the old buffer. */
static void tern_srq_end_resize(struct tern_srq *srq, struct tern_buf *buf,
				bool switched)
{
	struct tern_buf old = srq->buf;

	tern_spin_lock(&srq->wq.lock);
	if (switched) {
		srq->wq.slots = srq->next->slots;
		srq->wq.mask = srq->next->mask;
		srq->buf = *buf;
		*buf = old;
	}
	srq->next = NULL;
	tern_spin_unlock(&srq->wq.lock);
}

/*
 * Resizes the SRQ together with the other changes in attr_mask. Posting
 * continues: each WQE is in both queues, whenever the device switches.
 */
static int tern_srq_resize(struct tern_srq *srq, struct ibv_srq_attr *attr,
			   int attr_mask)
{
	struct ibv_context *ibvctx = srq->vsrq.srq.context;
	struct ibv_srq_attr actual = *attr;
	struct tern_modify_srq cmd = {};
	struct tern_wq new = {};
	struct tern_buf buf;
	int err;

	if (!attr->max_wr || attr->max_wr > to_tern_ctx(ibvctx)->max_srq_wr)
		return EINVAL;

	tern_wq_size(&new, attr->max_wr, 1U << srq->wq.log_stride,
		     srq->wq.log_stride);
	err = tern_alloc_buf(ibvctx, srq->pd, &buf, tern_wq_bytes(&new),
			     TERN_RES_SRQ);
	if (err)
		return err;
	new.slots = buf.addr;

	actual.max_wr = tern_wq_num(&new);
	cmd.buf_addr = (uintptr_t)buf.addr;
	cmd.buf_len = buf.len;
	cmd.log_size = ilog32(actual.max_wr) - 1;

	pthread_mutex_lock(&srq->resize_mutex);
	err = tern_srq_begin_resize(srq, &new);
	if (!err) {
		err = ibv_cmd_modify_srq(&srq->vsrq.srq, &actual, attr_mask,
					 &cmd.ibv_cmd, sizeof(cmd));
		tern_srq_end_resize(srq, &buf, !err);
	}
	pthread_mutex_unlock(&srq->resize_mutex);

	/* The old queue, or the new one after a failure. */
	tern_free_buf(&buf);
	if (!err)
		attr->max_wr = actual.max_wr;

	return err;
}

#endif
/*
 * ibv_modify_srq(3): EINVAL if more WQEs are posted than fit, or for a limit
 * above the size.
 */
int tern_modify_srq(struct ibv_srq *ibvsrq, struct ibv_srq_attr *attr,
		    int attr_mask)
{
	struct ibv_modify_srq cmd;

	if (!check_comp_mask(attr_mask, IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT))
		return EINVAL;

	if (attr_mask & IBV_SRQ_MAX_WR)
#ifndef TERN_WITHOUT_RESIZE
		return tern_srq_resize(to_tern_srq(ibvsrq), attr, attr_mask);
#else
		return EOPNOTSUPP;
#endif

	return ibv_cmd_modify_srq(ibvsrq, attr, attr_mask, &cmd, sizeof(cmd));
}

/* ibv_query_srq(3). */
int tern_query_srq(struct ibv_srq *ibvsrq, struct ibv_srq_attr *attr)
{
	struct ibv_query_srq cmd;

	return ibv_cmd_query_srq(ibvsrq, attr, &cmd, sizeof(cmd));
}

/* ibv_get_srq_num(3): the number that XRC peers use; EINVAL for other SRQs. */
int tern_get_srq_num(struct ibv_srq *ibvsrq, uint32_t *srq_num)
{
	struct tern_srq *srq = to_tern_srq(ibvsrq);

	if (srq->vsrq.srq_type != IBV_SRQT_XRC)
		return EINVAL;

	*srq_num = srq->srqn;
	return 0;
}

/*
 * ibv_destroy_srq(3). No completion of an SRQ with a CQ remains. Those of other
 * SRQs were removed with their QPs, which are destroyed first.
 */
int tern_destroy_srq(struct ibv_srq *ibvsrq)
{
	struct tern_context *ctx = to_tern_ctx(ibvsrq->context);
	struct tern_srq *srq = to_tern_srq(ibvsrq);
	int err;

	err = ibv_cmd_destroy_srq(ibvsrq);
	if (err)
		return err;

	if (srq->vsrq.cq)
		tern_xrc_srq_forget(ctx, srq);

#ifndef TERN_WITHOUT_TM
	tern_tm_free(srq);
#endif
	tern_spin_drain(&srq->wq.lock);
	tern_spin_destroy(&srq->wq.lock);
#ifndef TERN_WITHOUT_RESIZE
	pthread_mutex_destroy(&srq->resize_mutex);
#endif
	tern_free_record(ctx, &srq->record_ref, TERN_RECORD_SRQ);
	tern_free_buf(&srq->buf);
	if (srq->pd)
		tern_pd_put(srq->pd);
	free(srq);

	return 0;
}
