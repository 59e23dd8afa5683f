// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Shared receive queues. */

#include <linux/log2.h>
#include <linux/slab.h>

#include <rdma/uverbs_ioctl.h>

#include "tern_ib.h"
#include "tern_ib_limits.h"

/*
 * Returns 0, -EOPNOTSUPP for an unsupported type, -EINVAL for invalid or
 * excessive attributes.
 */
int tern_check_create_srq(struct tern_ib_dev *dev,
			  const struct ib_srq_init_attr *attr)
{
	const struct tern_rsp_caps *caps = dev->core->caps;
#ifndef TERN_WITHOUT_TM
	int err;
#endif

	switch (attr->srq_type) {
	case IB_SRQT_BASIC:
		break;
#ifndef TERN_WITHOUT_XRC
	case IB_SRQT_XRC:
		if (!tern_has_cap(dev, TERN_CAP_XRC))
			return tern_refuse(dev, -EOPNOTSUPP, "no XRC");
		if (!attr->ext.xrc.xrcd || !attr->ext.cq)
			return tern_refuse(dev, -EINVAL,
					   "XRC SRQ without domain or CQ");
		break;
#endif
#ifndef TERN_WITHOUT_TM
	case IB_SRQT_TM:
		err = tern_check_tm(dev, attr);
		if (err)
			return err;
		break;
#endif
	default:
		return tern_refuse(dev, -EOPNOTSUPP, "SRQ type %d",
				   attr->srq_type);
	}

	if (!attr->attr.max_wr)
		return tern_refuse(dev, -EINVAL, "SRQ of 0 requests");
	if (tern_exceeds(dev, "max_wr", attr->attr.max_wr,
			 le32_to_cpu(caps->max_srq_wr)) ||
	    tern_exceeds(dev, "max_sge", attr->attr.max_sge,
			 le16_to_cpu(caps->max_recv_sge)))
		return -EINVAL;

	return 0;
}

/* Reports an asynchronous event to the owner of the SRQ, if it still exists. */
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
#ifndef TERN_WITHOUT_KSRQ
	tern_kbuf_done(dev, &srq->kbuf, err);
#endif
}

static int tern_srq_publish(struct tern_ib_dev *dev, struct tern_srq *srq)
{
#ifndef TERN_WITHOUT_RESIZE
	mutex_init(&srq->modify_lock);
#endif
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

#ifndef TERN_WITHOUT_KSRQ
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

#endif
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
#ifndef TERN_WITHOUT_KSRQ
		err = tern_create_kernel_srq(dev, srq, attr);
#else
		err = tern_refuse(dev, -EOPNOTSUPP, "SRQ of the kernel");
#endif
	if (err)
		return err;

	attr->attr.max_wr = srq->max_wr;
	return 0;
}

/* Removes the number before the device can reuse it. */
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

#ifndef TERN_WITHOUT_RESIZE
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

static int tern_srq_set_size(struct tern_ib_dev *dev, struct tern_srq *srq,
			     const struct ib_srq_attr *attr,
			     enum ib_srq_attr_mask mask, struct ib_udata *udata)
{
	struct tern_ureq_modify_srq req;
	int err;

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

#endif
/* Kernel users cannot change the size. */
int tern_modify_srq(struct ib_srq *ibsrq, struct ib_srq_attr *attr,
		    enum ib_srq_attr_mask mask, struct ib_udata *udata)
{
	struct tern_ib_dev *dev = to_tdev(ibsrq->device);
	struct tern_srq *srq = to_tsrq(ibsrq);
	struct tern_cmd_modify_srq cmd = {};
	int err;

	if (mask & ~(IB_SRQ_LIMIT | IB_SRQ_MAX_WR))
		return tern_refuse(dev, -EINVAL, "SRQ attributes %#x", mask);

	if (mask & IB_SRQ_MAX_WR)
#ifndef TERN_WITHOUT_RESIZE
		return tern_srq_set_size(dev, srq, attr, mask, udata);
#else
		return tern_refuse(dev, -EOPNOTSUPP, "SRQ cannot be resized");
#endif

	err = ib_no_udata_io(udata);
	if (err || !mask)
		return err;

	return tern_srq_exec_modify(dev, srq, &cmd, attr, mask);
}

/* The limit is 0 once its event was generated. */
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
