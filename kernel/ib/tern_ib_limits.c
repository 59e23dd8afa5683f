// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Device limits, and checks of CQs and device memory against them. Checks of
 * SRQs and QPs are in tern_ib_srq.c and tern_ib_qp_util.c.
 */

#include <linux/limits.h>
#include <linux/log2.h>
#include <linux/minmax.h>
#include <linux/string.h>

#include "tern_ib.h"
#include "tern_ib_limits.h"

/* Whether a value of a request must be refused. */
bool tern_exceeds(const struct tern_ib_dev *dev, const char *name, u64 value,
		  u64 limit)
{
	if (value <= limit)
		return false;

	ibdev_dbg(&dev->ibdev, "%s %llu exceeds %llu\n", name, value, limit);
	return true;
}

/* Whether reserved @bytes of a request are not 0, so that it must be refused. */
bool tern_reserved_set(const struct tern_ib_dev *dev, const void *bytes,
		       size_t size)
{
	if (!memchr_inv(bytes, 0, size))
		return false;

	ibdev_dbg(&dev->ibdev, "reserved bytes of the request are not 0\n");
	return true;
}

/* Whether doorbell page @uar is inside the BAR and is not the kernel's own. */
bool tern_uar_ok(u64 bar_len, unsigned int page_shift, u32 uar)
{
	return uar != TERN_UAR_KERNEL && uar < bar_len >> page_shift;
}

/* Whether @len is @need bytes, rounded up to whole pages at most. */
bool tern_queue_len_ok(u64 len, u64 need)
{
	return len >= need && len <= ALIGN(need, (u64)PAGE_SIZE) &&
	       len <= U32_MAX;
}

/* Whether a receive WQE of @max_sge SGEs fits 1 << @log_stride bytes. */
bool tern_rq_stride_ok(unsigned int log_stride, u32 max_sge)
{
	return log_stride >= TERN_RQ_STRIDE_MIN &&
	       log_stride <= TERN_RQ_STRIDE_MAX &&
	       sizeof(struct tern_rq_hdr) +
	       (u64)max_sge * sizeof(struct tern_sge) <= BIT(log_stride);
}

/* The list that a work request registers is contiguous: it is one page. */
u32 tern_max_fast_reg_pages(const struct tern_rsp_caps *caps)
{
	return min_t(u32, le32_to_cpu(caps->max_fast_reg_pages),
		     PAGE_SIZE / sizeof(__le64));
}

/*
 * Number of CQs for each completion vector. The device has two more for each pair of
 * Ethernet queues: however many CQs users hold, the netdev can create its queues again.
 */
u32 tern_cqs_per_vector(const struct tern_core *core)
{
	u32 max = le32_to_cpu(core->caps->max_cq);
	u32 netdev = 2 * le16_to_cpu(core->caps->max_eth_queues);

	return max((max - min(max, netdev)) / core->num_comp_vectors, 1);
}

/* Device limits, without those that depend on a capability. */
void tern_fill_limits(const struct tern_core *core, struct ib_device_attr *attr)
{
	const struct tern_rsp_caps *caps = core->caps;
	u16 max_rd_atomic = le16_to_cpu(caps->max_rd_atomic);

	attr->max_mr_size = le64_to_cpu(caps->max_mr_size);
	attr->page_size_cap = le64_to_cpu(caps->page_shift_mask);
	attr->max_qp = tern_limit(caps->max_qp);
	attr->max_qp_wr = tern_limit(caps->max_qp_wr);
	attr->max_send_sge = le16_to_cpu(caps->max_send_sge);
	attr->max_recv_sge = le16_to_cpu(caps->max_recv_sge);
	attr->max_sge_rd = le16_to_cpu(caps->max_sge_rd);
	attr->max_cq = min_t(u64, tern_limit(caps->max_cq),
			     (u64)tern_cqs_per_vector(core) * core->num_comp_vectors);
	attr->max_cqe = tern_limit(caps->max_cqe);
	attr->max_mr = tern_limit(caps->max_mr);
	attr->max_pd = tern_limit(caps->max_pd);
	attr->max_qp_rd_atom = max_rd_atomic;
	attr->max_qp_init_rd_atom = max_rd_atomic;
	attr->max_res_rd_atom = min_t(u64, (u64)attr->max_qp * max_rd_atomic,
				      INT_MAX);
	attr->max_pkeys = 1;
	attr->local_ca_ack_delay = caps->local_ca_ack_delay;
}

/* IB_UVERBS_CQ_FLAGS_* that a user CQ may have. */
u32 tern_user_cq_flags(const struct tern_ib_dev *dev)
{
	u32 flags = 0;

	/* Each CQE contains the time stamp, whether requested or not. */
	if (tern_has_cap(dev, TERN_CAP_TIMESTAMP))
		flags |= IB_UVERBS_CQ_FLAGS_TIMESTAMP_COMPLETION;
	if (tern_has_cap(dev, TERN_CAP_IGNORE_OVERRUN))
		flags |= IB_UVERBS_CQ_FLAGS_IGNORE_OVERRUN;

	return flags;
}

/* Whether 1 << @log_size CQEs fit the buffer and satisfy the request. */
bool tern_cq_size_ok(struct tern_ib_dev *dev, u64 buf_len, u32 log_size,
		     u32 cqe)
{
	u32 max_cqe = le32_to_cpu(dev->core->caps->max_cqe);

	/* There is no ilog2(0). */
	return max_cqe && cqe <= max_cqe && log_size &&
	       log_size <= ilog2(max_cqe) && BIT(log_size) >= cqe &&
	       tern_queue_len_ok(buf_len,
				 (u64)sizeof(struct tern_cqe) << log_size);
}

/*
 * Returns 0, -EOPNOTSUPP for unsupported flags, -EINVAL if the queue is too
 * small for the request.
 */
int tern_check_create_cq(struct tern_ib_dev *dev,
			 const struct ib_cq_init_attr *attr,
			 const struct tern_ureq_create_cq *req)
{
	if (attr->flags & ~tern_user_cq_flags(dev))
		return tern_refuse(dev, -EOPNOTSUPP, "CQ flags %#x", attr->flags);

	if (tern_reserved_set(dev, req->reserved_e0, sizeof(req->reserved_e0)))
		return -EINVAL;
	if (!tern_cq_size_ok(dev, req->buf_len, req->log_size, attr->cqe))
		return tern_refuse(dev, -EINVAL,
				   "CQ of 2^%u entries in %llu bytes, for %u",
				   req->log_size, req->buf_len, attr->cqe);

	return 0;
}

/* Whether 1 << @log_size slots fit the buffer and satisfy the request. */
bool tern_srq_size_ok(struct tern_ib_dev *dev, u64 buf_len,
		      unsigned int log_size, unsigned int log_stride,
		      u32 max_wr)
{
	u32 max_srq_wr = le32_to_cpu(dev->core->caps->max_srq_wr);

	return log_size <= ilog2(max_srq_wr) && BIT(log_size) >= max_wr &&
	       tern_queue_len_ok(buf_len, BIT_ULL(log_size + log_stride));
}

/*
 * Returns 0, -EINVAL for length 0 or an alignment that exceeds that of the
 * whole device memory, -ENOMEM if there is not enough memory.
 */
int tern_check_alloc_dm(const struct tern_core *core,
			const struct ib_dm_alloc_attr *attr)
{
	if (!attr->length || !core->dm_size ||
	    attr->alignment > order_base_2(core->dm_size))
		return -EINVAL;

	return attr->length <= tern_max_dm_size(core) ? 0 : -ENOMEM;
}

#ifndef TERN_WITHOUT_REREG
/* Translates IB_MR_REREG_* to TERN_REREG_*. */
u32 tern_rereg_mask(int flags)
{
	u32 mask = 0;

	if (flags & IB_MR_REREG_TRANS)
		mask |= TERN_REREG_TRANS;
	if (flags & IB_MR_REREG_PD)
		mask |= TERN_REREG_PD;
	if (flags & IB_MR_REREG_ACCESS)
		mask |= TERN_REREG_ACCESS;

	return mask;
}

#endif
/* Whether the device returned enough whole pages inside the BAR. */
bool tern_dm_rsp_ok(const struct tern_core *core,
		    const struct tern_rsp_alloc_dm *rsp, u64 length)
{
	u64 offset = le64_to_cpu(rsp->offset), size = le64_to_cpu(rsp->size);

	return PAGE_ALIGNED(offset) && PAGE_ALIGNED(size) && size >= length &&
	       offset <= core->dm_size && size <= core->dm_size - offset;
}
