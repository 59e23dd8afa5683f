// SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause)
/* Attributes, resizing and moderation of completion queues. */

#include <ccan/ilog.h>
#include <ccan/minmax.h>
#include <errno.h>
#include <string.h>

#include "tern.h"

/*
 * Returns 0; EOPNOTSUPP for fields and flags that the device does not support;
 * EINVAL for a size out of range and for a PD that is no parent domain.
 */
int tern_check_cq_attr(const struct tern_context *ctx,
		       const struct ibv_cq_init_attr_ex *attr)
{
	uint64_t wc_flags = IBV_WC_STANDARD_FLAGS | IBV_WC_EX_WITH_CVLAN;

#ifndef TERN_WITHOUT_RSS
	if (ctx->caps & TERN_UCTX_CAP_RSS)
		wc_flags |= IBV_WC_EX_WITH_FLOW_TAG;
#endif
#ifndef TERN_WITHOUT_TM
	if (ctx->caps & TERN_UCTX_CAP_TM)
		wc_flags |= IBV_WC_EX_WITH_TM_INFO;
#endif
	if (ctx->caps & TERN_UCTX_CAP_TIMESTAMP)
		wc_flags |= IBV_WC_EX_WITH_COMPLETION_TIMESTAMP;
#ifndef TERN_WITHOUT_CLOCK
	if (ctx->caps & TERN_UCTX_CAP_TIMESTAMP && ctx->clock)
		wc_flags |= IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;
#endif

	if (!check_comp_mask(attr->wc_flags, wc_flags) ||
	    !check_comp_mask(attr->comp_mask, IBV_CQ_INIT_ATTR_MASK_FLAGS |
					      IBV_CQ_INIT_ATTR_MASK_PD))
		return EOPNOTSUPP;

	if ((attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS) &&
	    !check_comp_mask(attr->flags, IBV_CREATE_CQ_ATTR_SINGLE_THREADED |
					  IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN))
		return EOPNOTSUPP;

	if (!attr->cqe || attr->cqe > ctx->max_cqe)
		return EINVAL;

	/* A PD that is no parent domain has nothing for a CQ. */
	if ((attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_PD) &&
	    (!attr->parent_domain || !to_tern_parent(attr->parent_domain) ||
	     attr->parent_domain->context != &ctx->vctx.context))
		return EINVAL;

	return 0;
}

/* Whether one thread at a time uses the CQ: by its flag or its thread domain. */
bool tern_cq_single_threaded(const struct ibv_cq_init_attr_ex *attr)
{
	if ((attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS) &&
	    (attr->flags & IBV_CREATE_CQ_ATTR_SINGLE_THREADED))
		return true;

	return (attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_PD) &&
	       to_tern_pd(attr->parent_domain)->td;
}

/*
 * Allocates memory for at least cqe CQEs, and at least two. All entries are
 * usable, because the device compares its index with that in the record.
 * Returns 0 or an errno.
 */
int tern_cq_alloc_buf(struct ibv_context *ibvctx, struct tern_pd *pd,
		      struct tern_cq *cq, uint32_t cqe)
{
	uint32_t num = roundup_pow_of_two(max_t(uint32_t, cqe, 2));
	int err;

	err = tern_alloc_buf(ibvctx, pd, &cq->buf,
			     num * sizeof(struct tern_cqe), TERN_RES_CQ);
	if (err)
		return err;

	cq->mask = num - 1;
	cq->log_size = ilog32(num) - 1;
	cq->cqes = cq->buf.addr;

	return 0;
}

#ifndef TERN_WITHOUT_RESIZE
/*
 * Makes the device write to another buffer. The number of the first CQE there
 * becomes the buffer's base.
 */
static int tern_cq_switch(struct tern_cq *cq, struct tern_cq *new)
{
	struct tern_resize_cq_resp resp = {};
	struct tern_resize_cq cmd = {};
	int err;

	cmd.buf_addr = (uintptr_t)new->buf.addr;
	cmd.buf_len = new->buf.len;
	cmd.log_size = new->log_size;
	err = ibv_cmd_resize_cq(&cq->vcq.cq, new->mask + 1, &cmd.ibv_cmd,
				sizeof(cmd), &resp.ibv_resp, sizeof(resp));
	if (err)
		return err;

	new->base = resp.first_index;
	return 0;
}

/*
 * Moves unpolled CQEs into the new buffer, in front of its base, with the
 * matching phase. The device already writes from the base on, and does not
 * touch slots in front of it before they are consumed: the caller's lock keeps
 * the record's ci constant.
 */
static void tern_cq_move(struct tern_cq *cq, const struct tern_cq *new)
{
	uint32_t i;

	/* The device wrote all of them before it answered the command. */
	udma_from_device_barrier();
	for (i = tern_cq_consumed(cq); i != new->base; i++)
		memcpy(tern_cqe_at(new, i), tern_cqe_at(cq, i),
		       offsetof(struct tern_cqe, phase));

	cq->buf = new->buf;
	cq->cqes = new->cqes;
	cq->log_size = new->log_size;
	cq->mask = new->mask;
	cq->base = new->base;
}

/*
 * ibv_resize_cq(3): EINVAL for a size out of range, or if more completions are
 * outstanding than fit. Polling and arming wait meanwhile: both check CQEs.
 */
int tern_resize_cq(struct ibv_cq *ibvcq, int cqe)
{
	struct tern_context *ctx = to_tern_ctx(ibvcq->context);
	struct tern_cq *cq = to_tern_cq(ibvcq);
	struct tern_cq new = {};
	struct tern_buf unused;
	int err = 0;

	if (cqe < 1 || (uint32_t)cqe > ctx->max_cqe)
		return EINVAL;

	err = tern_cq_alloc_buf(ibvcq->context, cq->pd, &new, cqe);
	if (err)
		return err;

	tern_spin_lock(&cq->lock);
	tern_spin_lock(&cq->arm_lock);
	unused = new.buf;
	/* A CQ that already has this size keeps its buffer. */
	if (new.mask != cq->mask) {
		err = tern_cq_switch(cq, &new);
		if (!err) {
			unused = cq->buf;
			tern_cq_move(cq, &new);
		}
	}
	tern_spin_unlock(&cq->arm_lock);
	tern_spin_unlock(&cq->lock);

	tern_free_buf(&unused);

	return err;
}

#endif
/* ibv_modify_cq(3): EINVAL for a count above 1 without a period. */
int tern_modify_cq(struct ibv_cq *ibvcq, struct ibv_modify_cq_attr *attr)
{
	struct ibv_modify_cq cmd = {};

	return ibv_cmd_modify_cq(ibvcq, attr, &cmd, sizeof(cmd));
}
