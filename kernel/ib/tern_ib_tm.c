// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* SRQs that match tags: their capabilities, and the ring of operations on tags. */

#include <linux/bits.h>
#include <linux/string.h>

#include "tern_ib.h"
#include "tern_ib_limits.h"
#include "tern_tm.h"

/* Whether SRQs may match tags. */
bool tern_has_tm(const struct tern_ib_dev *dev)
{
	return tern_has_cap(dev, TERN_CAP_SRQ) && dev->core->caps->max_tags;
}

/* Tag matching, which is for reliable connections only. */
void tern_fill_tm(const struct tern_ib_dev *dev, struct ib_device_attr *attr)
{
	if (!tern_has_tm(dev))
		return;

	attr->tm_caps = (struct ib_tm_caps){
		.max_rndv_hdr_size = TERN_TM_MAX_RNDV,
		.max_num_tags = le16_to_cpu(dev->core->caps->max_tags),
		.flags = IB_TM_CAP_RNDV_RC,
		.max_ops = BIT(TERN_TM_MAX_LOG_OPS),
		.max_sge = TERN_TM_MAX_SGE,
	};
}

/* Returns 0, -EOPNOTSUPP or -EINVAL, like tern_check_create_srq(). */
int tern_check_tm(const struct tern_ib_dev *dev,
		  const struct ib_srq_init_attr *attr)
{
	if (!tern_has_tm(dev))
		return tern_refuse(dev, -EOPNOTSUPP, "no tag matching");
	if (!attr->ext.cq || !attr->ext.tag_matching.max_num_tags)
		return tern_refuse(dev, -EINVAL,
				   "tag matching without CQ or tags");
	if (tern_exceeds(dev, "max_num_tags",
			 attr->ext.tag_matching.max_num_tags,
			 le16_to_cpu(dev->core->caps->max_tags)))
		return -EINVAL;

	return 0;
}

/*
 * Whether the operation ring matches its declared size, or does not exist if the
 * SRQ has no tags.
 */
bool tern_tm_ring_ok(const struct tern_ureq_create_srq *req, bool tags)
{
	if (memchr_inv(req->reserved_188, 0, sizeof(req->reserved_188)))
		return false;
	if (!tags)
		return !req->ops_addr && !req->ops_len && !req->log_ops;

	return req->log_ops <= TERN_TM_MAX_LOG_OPS &&
	       tern_queue_len_ok(req->ops_len,
				 (u64)sizeof(struct tern_tm_op) <<
					 req->log_ops);
}

/**
 * tern_tm_get_ops() - pin the ring of operations on tags, if the SRQ has tags
 * @dev: the device
 * @srq: the SRQ
 * @attr: its attributes
 * @req: the request of the user, which tern_tm_ring_ok() has accepted
 * @uar: doorbell page of the context
 * @cmd: the ring and the other parameters of tags are added
 * @table: output, the page list of the ring
 *
 * tern_tm_put_ops() undoes it.
 *
 * Return: 0 or a negative errno.
 */
int tern_tm_get_ops(struct tern_ib_dev *dev, struct tern_srq *srq,
		    const struct ib_srq_init_attr *attr,
		    const struct tern_ureq_create_srq *req, u32 uar,
		    struct tern_cmd_create_srq *cmd, struct tern_table *table)
{
	struct ib_umem *umem;
	int err;

	if (attr->srq_type != IB_SRQT_TM)
		return 0;

	/* The device only reads operations. */
	umem = ib_umem_get_va(&dev->ibdev, req->ops_addr, req->ops_len, 0);
	if (IS_ERR(umem))
		return PTR_ERR(umem);

	err = tern_table_from_queue(dev, table, umem, &cmd->ops_pages);
	if (err) {
		ib_umem_release(umem);
		return err;
	}

	srq->ops_umem = umem;
	cmd->flags = TERN_SRQ_F_TM;
	cmd->cqn = cpu_to_le32(to_tcq(attr->ext.cq)->cqn);
	cmd->log_ops = req->log_ops;
	cmd->uar = cpu_to_le32(uar);
	cmd->max_tags = cpu_to_le32(attr->ext.tag_matching.max_num_tags);
	return 0;
}

/* Undoes tern_tm_get_ops() after a failure, or its page list after success. */
void tern_tm_put_ops(struct tern_srq *srq, struct tern_table *table, int err)
{
	tern_table_free(table);
	if (err) {
		ib_umem_release(srq->ops_umem);
		srq->ops_umem = NULL;
	}
}
