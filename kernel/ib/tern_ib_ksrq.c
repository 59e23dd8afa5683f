// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Shared receive queues of the kernel. */

#include <linux/log2.h>
#include <linux/slab.h>

#include "tern_ib.h"
#include "tern_ib_limits.h"
#include "tern_ib_ring.h"

/**
 * tern_ksrq_init() - allocate the memory of a kernel SRQ
 * @dev: the device
 * @srq: the SRQ
 * @attr: requested capacities
 *
 * tern_kbuf_free() or tern_kbuf_done() undoes it.
 *
 * Return: 0; -EINVAL if no slot is large enough for the WQEs, or if the device
 * cannot read the page list; -ENOMEM.
 */
int tern_ksrq_init(struct tern_ib_dev *dev, struct tern_srq *srq,
		   const struct ib_srq_attr *attr)
{
	u32 i;
	int err;

	srq->max_wr = roundup_pow_of_two(attr->max_wr);
	srq->log_stride = max_t(int, TERN_RQ_STRIDE_MIN,
				order_base_2(sizeof(struct tern_rq_hdr) +
					     attr->max_sge *
					     sizeof(struct tern_sge)));
	if (tern_exceeds(dev, "log2 of the bytes of a request",
			 srq->log_stride, TERN_RQ_STRIDE_MAX))
		return -EINVAL;

	err = tern_kbuf_alloc(dev, &srq->kbuf,
			      (u64)srq->max_wr << srq->log_stride,
			      sizeof(*srq->record));
	if (err)
		return err;

	srq->kbuf.posted = kvzalloc_objs(*srq->kbuf.posted, srq->max_wr);
	if (!srq->kbuf.posted) {
		tern_kbuf_free(dev, &srq->kbuf);
		return -ENOMEM;
	}

	for (i = 0; i < srq->max_wr; i++)
		srq->kbuf.posted[i].next = i + 1;
	srq->record = srq->kbuf.record;
	spin_lock_init(&srq->post_lock);
	return 0;
}

/* Writes one request without making it visible to the device. */
static int tern_srq_post_one(struct tern_srq *srq, const struct ib_recv_wr *wr)
{
	u32 slot = srq->pi & (srq->max_wr - 1), free = srq->free;
	struct tern_posted *posted;

	if (wr->num_sge < 0 || wr->num_sge > srq->max_sge)
		return tern_refuse(to_tdev(srq->ibsrq.device), -EINVAL, "%d SGEs",
				   wr->num_sge);

	/* The device read the slot before it advanced ci. */
	if (free == srq->max_wr ||
	    srq->pi - le32_to_cpu(READ_ONCE(srq->record->ci)) >= srq->max_wr)
		return -ENOMEM;

	/*
	 * Completions are not in the order of requests, so the slot may be
	 * posted again before this request completes, but the entry may not.
	 */
	posted = &srq->kbuf.posted[free];
	tern_recv_wqe_fill(tern_kpage_at(srq->kbuf.pages,
					 (size_t)slot << srq->log_stride), wr,
			   free, posted);
	srq->free = posted->next;
	posted->next = TERN_POSTED;
	posted->index = srq->pi++;
	return 0;
}

/**
 * tern_srq_take_posted() - find the request that a receive completes
 * @srq: a kernel SRQ
 * @cqe: the entry, which need not be one that the device may write
 * @posted: output
 *
 * Return: whether the request was posted and has not completed before.
 */
bool tern_srq_take_posted(struct tern_srq *srq, const struct tern_cqe *cqe,
			  struct tern_posted *posted)
{
	u32 entry = le64_to_cpu(READ_ONCE(cqe->wr_id)) & (srq->max_wr - 1);
	struct tern_posted *found = &srq->kbuf.posted[entry];
	unsigned long flags;
	bool ok;

	spin_lock_irqsave(&srq->post_lock, flags);
	ok = found->next == TERN_POSTED &&
	     found->index == le32_to_cpu(READ_ONCE(cqe->wqe_index));
	if (ok) {
		*posted = *found;
		found->next = srq->free;
		srq->free = entry;
	}
	spin_unlock_irqrestore(&srq->post_lock, flags);

	return ok;
}

/* -ENOMEM: as many requests as there are slots have not completed. Any context. */
int tern_post_srq_recv(struct ib_srq *ibsrq, const struct ib_recv_wr *wr,
		       const struct ib_recv_wr **bad_wr)
{
	struct tern_srq *srq = to_tsrq(ibsrq);
	unsigned long flags;
	int err = 0;

	spin_lock_irqsave(&srq->post_lock, flags);
	for (; wr; wr = wr->next) {
		err = tern_srq_post_one(srq, wr);
		if (err) {
			*bad_wr = wr;
			break;
		}
	}

	/* Write the WQEs before the index that covers them. */
	dma_wmb();
	WRITE_ONCE(srq->record->pi, cpu_to_le32(srq->pi));
	spin_unlock_irqrestore(&srq->post_lock, flags);

	return err;
}
