/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Limits of the device, what it is able to do, and whether CQs and SRQs that are asked
 * for keep the limits: pure functions, testable alone. tern_ib_qp_util.h has those of QPs.
 */
#ifndef TERN_IB_LIMITS_H
#define TERN_IB_LIMITS_H

#include <linux/limits.h>
#include <linux/log2.h>
#include <linux/minmax.h>
#include <linux/string.h>

#include "tern_ib.h"

/* The limits of ib_core are signed. */
static inline int tern_limit(__le32 value)
{
	return min_t(u32, le32_to_cpu(value), INT_MAX);
}

/* What a device's limits are to ib_core, but for those behind a capability bit. */
static inline void tern_fill_limits(const struct tern_rsp_caps *caps,
				    struct ib_device_attr *attr)
{
	u16 max_rd_atomic = le16_to_cpu(caps->max_rd_atomic);

	attr->max_mr_size = le64_to_cpu(caps->max_mr_size);
	attr->page_size_cap = le64_to_cpu(caps->page_shift_mask);
	attr->max_qp = tern_limit(caps->max_qp);
	attr->max_qp_wr = tern_limit(caps->max_qp_wr);
	attr->max_send_sge = le16_to_cpu(caps->max_send_sge);
	attr->max_recv_sge = le16_to_cpu(caps->max_recv_sge);
	attr->max_sge_rd = le16_to_cpu(caps->max_sge_rd);
	attr->max_cq = tern_limit(caps->max_cq);
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

/* What stands behind a capability bit: a device without it has limits of 0. */
static inline void tern_fill_optional(const struct tern_ib_dev *dev,
				      struct ib_device_attr *attr)
{
	const struct tern_rsp_caps *caps = dev->core->caps;
	u64 mcast_qps;

	if (tern_has_cap(dev, TERN_CAP_ATOMIC))
		attr->atomic_cap = IB_ATOMIC_HCA;

	/* An address handle is a few bytes of memory and nothing else. */
	if (tern_has_cap(dev, TERN_CAP_UD))
		attr->max_ah = INT_MAX;

	if (tern_has_cap(dev, TERN_CAP_FRWR)) {
		attr->device_cap_flags |= IB_DEVICE_MEM_MGT_EXTENSIONS;
		attr->max_fast_reg_page_list_len =
			le32_to_cpu(caps->max_fast_reg_pages);
	}

	if (tern_has_cap(dev, TERN_CAP_MCAST)) {
		attr->max_mcast_grp = tern_limit(caps->max_mcast_grp);
		attr->max_mcast_qp_attach =
			tern_limit(caps->max_mcast_qp_attach);
		mcast_qps = (u64)attr->max_mcast_grp *
			    attr->max_mcast_qp_attach;
		attr->max_total_mcast_qp_attach = min(mcast_qps, INT_MAX);
	}

	if (tern_has_cap(dev, TERN_CAP_SRQ)) {
		attr->max_srq = tern_limit(caps->max_srq);
		attr->max_srq_wr = tern_limit(caps->max_srq_wr);
		attr->max_srq_sge = le16_to_cpu(caps->max_recv_sge);
	}
	if (tern_has_cap(dev, TERN_CAP_SRQ_RESIZE))
		attr->device_cap_flags |= IB_DEVICE_SRQ_RESIZE;

	if (tern_has_cap(dev, TERN_CAP_XRC))
		attr->device_cap_flags |= IB_DEVICE_XRC;
}

/* What the provider may use: verbs and data path alone, the kernel needs none of it. */
static inline u32 tern_uctx_caps(const struct tern_ib_dev *dev)
{
	u32 caps = 0;

	if (tern_has_cap(dev, TERN_CAP_FRWR))
		caps |= TERN_UCTX_CAP_SEND_INV;

	return caps;
}

/* 0, -EOPNOTSUPP for flags, -EINVAL for a queue that does not hold what is asked for. */
static inline int tern_check_create_cq(struct tern_ib_dev *dev,
				       const struct ib_cq_init_attr *attr,
				       const struct tern_ureq_create_cq *req)
{
	u32 max_cqe = le32_to_cpu(dev->core->caps->max_cqe);
	u64 need;

	if (attr->flags)
		return -EOPNOTSUPP;

	if (memchr_inv(req->reserved_a0, 0, sizeof(req->reserved_a0)) ||
	    attr->cqe > max_cqe || !req->log_size ||
	    req->log_size > ilog2(max_cqe) || BIT(req->log_size) < attr->cqe)
		return -EINVAL;

	need = ((u64)sizeof(struct tern_cqe) << req->log_size) +
	       sizeof(struct tern_cq_record);
	if (!tern_queue_len_ok(req->buf_len, need))
		return -EINVAL;

	return 0;
}

/* 0, -EOPNOTSUPP for a type the device lacks, -EINVAL for what makes no sense or is too much. */
static inline int tern_check_create_srq(struct tern_ib_dev *dev,
					const struct ib_srq_init_attr *attr)
{
	const struct tern_rsp_caps *caps = dev->core->caps;

	switch (attr->srq_type) {
	case IB_SRQT_BASIC:
		break;
	case IB_SRQT_XRC:
		if (!tern_has_cap(dev, TERN_CAP_XRC))
			return -EOPNOTSUPP;
		if (!attr->ext.xrc.xrcd || !attr->ext.cq)
			return -EINVAL;
		break;
	default:
		return -EOPNOTSUPP;
	}

	if (!attr->attr.max_wr ||
	    attr->attr.max_wr > le32_to_cpu(caps->max_srq_wr) ||
	    attr->attr.max_sge > le16_to_cpu(caps->max_recv_sge))
		return -EINVAL;

	return 0;
}

/* Whether the buffer holds 1 << @log_size slots, and those what was asked for. */
static inline bool tern_srq_size_ok(struct tern_ib_dev *dev, u64 buf_len,
				    unsigned int log_size,
				    unsigned int log_stride, u32 max_wr)
{
	u32 max_srq_wr = le32_to_cpu(dev->core->caps->max_srq_wr);

	return log_size <= ilog2(max_srq_wr) && BIT(log_size) >= max_wr &&
	       tern_queue_len_ok(buf_len, BIT_ULL(log_size + log_stride) +
					  sizeof(struct tern_srq_record));
}

#endif /* TERN_IB_LIMITS_H */
