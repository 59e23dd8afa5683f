// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Shared receive queues of user space and of the kernel. */

#include <linux/log2.h>
#include <linux/slab.h>

#include <rdma/uverbs_ioctl.h>

#include "tern_ib.h"
#include "tern_ib_limits.h"
#include "tern_ib_ring.h"

/**
 * tern_srq_event() - report an asynchronous event of an SRQ to its owner
 * @dev: the device
 * @srqn: number of the SRQ, which may no longer exist
 * @generation: generation in the event; a successor has another
 * @event: IB_EVENT_SRQ_*
 */
void tern_srq_event(struct tern_ib_dev *dev, u32 srqn, u32 generation,
		    enum ib_event_type event)
{
	struct ib_event ibevent = {
		.device = &dev->ibdev,
		.event = event,
	};
	struct tern_ref *ref;
	struct tern_srq *srq;

	ref = tern_ref_lookup(&dev->srqs, srqn, generation);
	if (!ref)
		return;

	srq = container_of(ref, struct tern_srq, ref);
	ibevent.element.srq = &srq->ibsrq;
	if (srq->ibsrq.event_handler)
		srq->ibsrq.event_handler(&ibevent, srq->ibsrq.srq_context);
	tern_ref_put(ref);
}

/* Creates the SRQ in the device, with the memory in @cmd. */
static int tern_srq_exec_create(struct tern_ib_dev *dev, struct tern_srq *srq,
				const struct ib_srq_init_attr *attr,
				struct tern_cmd_create_srq *cmd)
{
	int err;

	cmd->pdn = cpu_to_le32(to_tpd(srq->ibsrq.pd)->pdn);
	cmd->log_size = ilog2(srq->max_wr);
	cmd->log_stride = srq->log_stride;
#ifndef TERN_WITHOUT_XRC
	if (attr->srq_type == IB_SRQT_XRC) {
		cmd->flags = TERN_SRQ_F_XRC;
		cmd->xrcdn = cpu_to_le32(to_txrcd(attr->ext.xrc.xrcd)->xrcdn);
		cmd->cqn = cpu_to_le32(to_tcq(attr->ext.cq)->cqn);
	}
#endif
	err = tern_ib_create_gen(dev, TERN_CMD_CREATE_SRQ, cmd, sizeof(*cmd),
				 &srq->srqn, &srq->ref.generation);
#ifndef TERN_WITHOUT_XRC
	if (!err && attr->srq_type == IB_SRQT_XRC)
		srq->ibsrq.ext.xrc.srq_num = srq->srqn;
#endif
	return err;
}

/* Destroys the SRQ and releases its memory. */
static void tern_srq_release(struct tern_ib_dev *dev, struct tern_srq *srq)
{
	int err = tern_ib_destroy(dev, TERN_CMD_DESTROY_SRQ, srq->srqn);

	tern_uqueue_done(dev, &srq->queue, err);
#ifndef TERN_WITHOUT_TM
	tern_ib_umem_done(dev, srq->ops_umem, err);
#endif
	tern_kbuf_done(dev, &srq->kbuf, err);
}

static int tern_srq_publish(struct tern_ib_dev *dev, struct tern_srq *srq)
{
	mutex_init(&srq->modify_lock);
	spin_lock_init(&srq->post_lock);
	return tern_ref_publish(&dev->srqs, srq->srqn, &srq->ref);
}

static void tern_srq_unpublish(struct tern_ib_dev *dev, struct tern_srq *srq)
{
	tern_ref_unpublish(&dev->srqs, srq->srqn, &srq->ref);
}

/* Creates the SRQ in the device. Its ring and its record are pinned. */
static int tern_srq_create_user(struct tern_ib_dev *dev, struct tern_srq *srq,
				const struct ib_srq_init_attr *attr,
				const struct tern_ureq_create_srq *req, u32 uar)
{
	struct tern_cmd_create_srq cmd = {
		.record = cpu_to_le64(srq->queue.record.dma),
	};
#ifndef TERN_WITHOUT_TM
	struct tern_table ops = {};
#endif
	struct tern_table table;
	int err;

#ifndef TERN_WITHOUT_TM
	err = tern_tm_get_ops(dev, srq, attr, req, uar, &cmd, &ops);
	if (err)
		return err;
#endif
	err = tern_table_from_queue(dev, &table, srq->queue.umem, &cmd.pages);
	if (!err) {
		err = tern_srq_exec_create(dev, srq, attr, &cmd);
		tern_table_free(&table);
	}
#ifndef TERN_WITHOUT_TM
	tern_tm_put_ops(srq, &ops, err);
#endif
	return err;
}

/* Whether the ring fits the request. Returns 0 or -EINVAL. */
static int tern_check_user_srq(struct tern_ib_dev *dev,
			       const struct ib_srq_init_attr *attr,
			       const struct tern_ureq_create_srq *req)
{
	if (tern_reserved_set(dev, req->reserved_d0, sizeof(req->reserved_d0)))
		return -EINVAL;
	if (!tern_rq_stride_ok(req->log_stride, attr->attr.max_sge))
		return tern_refuse(dev, -EINVAL, "slots of 2^%u bytes for %u SGEs",
				   req->log_stride, attr->attr.max_sge);
	if (!tern_srq_size_ok(dev, req->buf_len, req->log_size, req->log_stride,
			      attr->attr.max_wr))
		return tern_refuse(dev, -EINVAL,
				   "SRQ of 2^%u slots in %llu bytes, for %u",
				   req->log_size, req->buf_len,
				   attr->attr.max_wr);
#ifndef TERN_WITHOUT_TM
	if (!tern_tm_ring_ok(req, attr->srq_type == IB_SRQT_TM))
		return tern_refuse(dev, -EINVAL,
				   "ring of 2^%u operations in %llu bytes",
				   req->log_ops, req->ops_len);
#endif
	return 0;
}

static int tern_create_user_srq(struct tern_ib_dev *dev, struct tern_srq *srq,
				struct ib_srq_init_attr *attr,
				struct ib_udata *udata)
{
	struct tern_uresp_create_srq resp = {};
	struct tern_ureq_create_srq req;
	struct tern_ucontext *ucontext;
	struct ib_umem *umem;
	int err;

	err = ib_copy_validate_udata_in(udata, req, reserved_d0);
	if (err)
		return err;

	err = tern_check_user_srq(dev, attr, &req);
	if (err)
		return err;

	/* The device only reads WQEs. */
	umem = ib_umem_get_attr_or_va(&dev->ibdev,
				      rdma_udata_to_uverbs_attr_bundle(udata),
				      UVERBS_ATTR_CREATE_SRQ_BUF_UMEM,
				      req.buf_addr, req.buf_len, 0);
	ucontext = rdma_udata_to_drv_context(udata, struct tern_ucontext,
					     ibucontext);
	err = tern_uqueue_get(ucontext, &srq->queue, umem, req.record_addr,
			      sizeof(struct tern_srq_record));
	if (err)
		return err;

	srq->max_wr = BIT(req.log_size);
	srq->log_stride = req.log_stride;
	err = tern_srq_create_user(dev, srq, attr, &req,
				   ucontext->uar_entry->id);
	if (err)
		goto err_put_queue;

	err = tern_srq_publish(dev, srq);
	if (err)
		goto err_release_srq;

	resp.srqn = srq->srqn;
	err = ib_respond_udata(udata, resp);
	if (err)
		goto err_unpublish;

	return 0;

err_unpublish:
	tern_srq_unpublish(dev, srq);
err_release_srq:
	tern_srq_release(dev, srq);
	return err;
err_put_queue:
	tern_uqueue_put(&srq->queue);
	return err;
}

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
	return 0;
}

static int tern_create_kernel_srq(struct tern_ib_dev *dev,
				  struct tern_srq *srq,
				  struct ib_srq_init_attr *attr)
{
	struct tern_cmd_create_srq cmd = {};
	struct tern_table table;
	int err;

	if (attr->srq_type != IB_SRQT_BASIC)
		return tern_refuse(dev, -EOPNOTSUPP, "kernel SRQ of type %d",
				   attr->srq_type);

	err = tern_ksrq_init(dev, srq, &attr->attr);
	if (err)
		return err;

	cmd.record = cpu_to_le64(srq->kbuf.record_dma);
	err = tern_table_from_kbuf(dev, &table, &srq->kbuf, &cmd.pages);
	if (err)
		goto err_free_kbuf;

	err = tern_srq_exec_create(dev, srq, attr, &cmd);
	tern_table_free(&table);
	if (err)
		goto err_free_kbuf;

	err = tern_srq_publish(dev, srq);
	if (err)
		goto err_release_srq;

	return 0;

err_release_srq:
	tern_srq_release(dev, srq);
	return err;
err_free_kbuf:
	tern_kbuf_free(dev, &srq->kbuf);
	return err;
}

/**
 * tern_create_srq() - create an SRQ
 * @ibsrq: the SRQ
 * @attr: type and requested size, which is updated to the actual one
 * @udata: struct tern_ureq_create_srq, struct tern_uresp_create_srq; NULL for
 *	kernel users
 *
 * Return: 0; -EOPNOTSUPP for an unsupported type; -EINVAL for attributes that
 * exceed the device's limits or are inconsistent; or another negative errno.
 */
int tern_create_srq(struct ib_srq *ibsrq, struct ib_srq_init_attr *attr,
		    struct ib_udata *udata)
{
	struct tern_ib_dev *dev = to_tdev(ibsrq->device);
	struct tern_srq *srq = to_tsrq(ibsrq);
	int err;

	err = tern_check_create_srq(dev, attr);
	if (err)
		return err;

	srq->max_sge = attr->attr.max_sge;
	if (udata)
		err = tern_create_user_srq(dev, srq, attr, udata);
	else
		err = tern_create_kernel_srq(dev, srq, attr);
	if (err)
		return err;

	attr->attr.max_wr = srq->max_wr;
	return 0;
}

/**
 * tern_destroy_srq() - destroy an SRQ
 * @ibsrq: the SRQ
 * @udata: unused
 *
 * The SRQ's number is removed before the device can reuse it.
 *
 * Return: 0.
 */
int tern_destroy_srq(struct ib_srq *ibsrq, struct ib_udata *udata)
{
	struct tern_ib_dev *dev = to_tdev(ibsrq->device);
	struct tern_srq *srq = to_tsrq(ibsrq);

	tern_srq_unpublish(dev, srq);
	tern_srq_release(dev, srq);
	return 0;
}

static int tern_srq_exec_modify(struct tern_ib_dev *dev, struct tern_srq *srq,
				struct tern_cmd_modify_srq *cmd,
				const struct ib_srq_attr *attr,
				enum ib_srq_attr_mask mask)
{
	cmd->srqn = cpu_to_le32(srq->srqn);
	if (mask & IB_SRQ_LIMIT) {
		cmd->mask |= cpu_to_le32(TERN_SRQA_LIMIT);
		cmd->limit = cpu_to_le32(attr->srq_limit);
	}

	return tern_cmd_exec(dev->core, TERN_CMD_MODIFY_SRQ, cmd, sizeof(*cmd),
			     NULL, 0);
}

/* Switches the SRQ to a new buffer, to which the user has copied the WQEs. */
static int tern_srq_resize(struct tern_ib_dev *dev, struct tern_srq *srq,
			   const struct ib_srq_attr *attr,
			   enum ib_srq_attr_mask mask,
			   const struct tern_ureq_modify_srq *req)
{
	struct tern_cmd_modify_srq cmd = {
		.mask = cpu_to_le32(TERN_SRQA_RESIZE),
		.log_size = req->log_size,
	};
	struct tern_table table;
	struct ib_umem *umem;
	int err;

	lockdep_assert_held(&srq->modify_lock);

	umem = ib_umem_get_va(&dev->ibdev, req->buf_addr, req->buf_len, 0);
	if (IS_ERR(umem))
		return PTR_ERR(umem);

	err = tern_table_from_queue(dev, &table, umem, &cmd.pages);
	if (err)
		goto err_release_umem;

	err = tern_srq_exec_modify(dev, srq, &cmd, attr, mask);
	tern_table_free(&table);
	if (err)
		goto err_release_umem;

	swap(srq->queue.umem, umem);
	WRITE_ONCE(srq->max_wr, BIT(req->log_size));
	ib_umem_release(umem);
	return 0;

err_release_umem:
	ib_umem_release(umem);
	return err;
}

/**
 * tern_modify_srq() - modify limit and size of an SRQ
 * @ibsrq: the SRQ
 * @attr: new values
 * @mask: the valid attributes
 * @udata: struct tern_ureq_modify_srq with IB_SRQ_MAX_WR, otherwise no driver
 *	data; NULL for kernel users, who cannot change the size
 *
 * Return: 0; -EOPNOTSUPP for an attribute that cannot be changed; -EINVAL for
 * an invalid value; or another negative errno.
 */
int tern_modify_srq(struct ib_srq *ibsrq, struct ib_srq_attr *attr,
		    enum ib_srq_attr_mask mask, struct ib_udata *udata)
{
	struct tern_ib_dev *dev = to_tdev(ibsrq->device);
	struct tern_srq *srq = to_tsrq(ibsrq);
	struct tern_cmd_modify_srq cmd = {};
	struct tern_ureq_modify_srq req;
	int err;

	if (mask & ~(IB_SRQ_LIMIT | IB_SRQ_MAX_WR))
		return tern_refuse(dev, -EINVAL, "SRQ attributes %#x", mask);

	if (!(mask & IB_SRQ_MAX_WR)) {
		err = ib_no_udata_io(udata);
		if (err || !mask)
			return err;

		mutex_lock(&srq->modify_lock);
		err = tern_srq_exec_modify(dev, srq, &cmd, attr, mask);
		mutex_unlock(&srq->modify_lock);
		return err;
	}

	if (!udata || !tern_has_cap(dev, TERN_CAP_SRQ_RESIZE))
		return tern_refuse(dev, -EOPNOTSUPP, "SRQ cannot be resized");

	err = ib_copy_validate_udata_in(udata, req, reserved_88);
	if (err)
		return err;

	if (tern_reserved_set(dev, req.reserved_88, sizeof(req.reserved_88)))
		return -EINVAL;
	if (!attr->max_wr ||
	    !tern_srq_size_ok(dev, req.buf_len, req.log_size, srq->log_stride,
			      attr->max_wr))
		return tern_refuse(dev, -EINVAL,
				   "SRQ of 2^%u slots in %llu bytes, for %u",
				   req.log_size, req.buf_len, attr->max_wr);

	err = ib_respond_empty_udata(udata);
	if (err)
		return err;

	mutex_lock(&srq->modify_lock);
	err = tern_srq_resize(dev, srq, attr, mask, &req);
	mutex_unlock(&srq->modify_lock);

	return err;
}

/**
 * tern_query_srq() - query size and limit of an SRQ
 * @ibsrq: the SRQ
 * @attr: output; the limit is 0 once its event was generated
 *
 * Return: 0, -EIO if the device is dead, or another negative errno.
 */
int tern_query_srq(struct ib_srq *ibsrq, struct ib_srq_attr *attr)
{
	struct tern_ib_dev *dev = to_tdev(ibsrq->device);
	struct tern_srq *srq = to_tsrq(ibsrq);
	struct tern_rsp_query_srq rsp;
	int err;

	err = tern_ib_query(dev, TERN_CMD_QUERY_SRQ, srq->srqn, &rsp,
			    sizeof(rsp));
	if (err)
		return err;

	*attr = (struct ib_srq_attr){
		.max_wr = READ_ONCE(srq->max_wr),
		.max_sge = srq->max_sge,
		.srq_limit = le32_to_cpu(rsp.limit),
	};
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

/**
 * tern_post_srq_recv() - post receive requests to a kernel SRQ
 * @ibsrq: the SRQ
 * @wr: list of requests
 * @bad_wr: on failure, the first request that was not posted
 *
 * Any context.
 *
 * Return: 0; -EINVAL for too many SGEs; -ENOMEM if the queue is full, or if as
 * many requests as it has slots have not completed.
 */
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
