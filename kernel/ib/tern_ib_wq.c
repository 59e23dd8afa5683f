// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Work queues of user space: receive queues without a QP, and tables of them.
 * In the device a work queue is a raw packet QP without a send queue.
 */

#include <linux/log2.h>
#include <linux/slab.h>
#include <linux/string.h>

#include <rdma/uverbs_ioctl.h>

#include "tern_ib.h"
#include "tern_ib_limits.h"
#include "tern_ib_raw.h"

/* Work queue. */
struct tern_rwq {
	struct ib_wq ibwq;	/* the WQ in ib_core; wq_num is the device's QP number */
	struct tern_uqueue queue;	/* its memory */
	struct tern_ref ref;	/* held by asynchronous events */
	struct mutex lock;	/* serializes modifications; protects the state in @ibwq */
};

static struct tern_rwq *to_trwq(struct ib_wq *ibwq)
{
	return container_of(ibwq, struct tern_rwq, ibwq);
}

/**
 * tern_rwq_fatal() - report that a WQ entered its error state
 * @dev: the device
 * @wqn: number of the WQ, which may no longer exist
 * @generation: generation in the event; a successor has another
 */
void tern_rwq_fatal(struct tern_ib_dev *dev, u32 wqn, u32 generation)
{
	struct ib_event ibevent = {
		.device = &dev->ibdev,
		.event = IB_EVENT_WQ_FATAL,
	};
	struct tern_ref *ref;
	struct tern_rwq *wq;

	ref = tern_ref_lookup(&dev->rwqs, wqn, generation);
	if (!ref)
		return;

	wq = container_of(ref, struct tern_rwq, ref);
	ibevent.element.wq = &wq->ibwq;
	if (wq->ibwq.event_handler)
		wq->ibwq.event_handler(&ibevent, wq->ibwq.wq_context);
	tern_ref_put(ref);
}

/*
 * Returns 0, -EOPNOTSUPP for an unsupported type or flag, -EINVAL for
 * attributes that exceed the device's limits or the buffer.
 */
int tern_check_create_wq(const struct tern_ib_dev *dev,
			 const struct ib_wq_init_attr *attr, const struct tern_ureq_create_wq *req)
{
	const struct tern_rsp_caps *caps = dev->core->caps;
	u32 max_wr = le32_to_cpu(caps->max_qp_wr);
	u32 flags = 0;

	if (tern_has_cap(dev, TERN_CAP_ETH_OFFLOAD))
		flags = IB_WQ_FLAGS_CVLAN_STRIPPING | IB_WQ_FLAGS_SCATTER_FCS;

	if (attr->wq_type != IB_WQT_RQ || attr->create_flags & ~flags)
		return tern_refuse(dev, -EOPNOTSUPP, "WQ of type %d, flags %#x",
				   attr->wq_type, attr->create_flags);

	if (tern_reserved_set(dev, req->reserved_d0, sizeof(req->reserved_d0)) ||
	    tern_exceeds(dev, "max_wr", attr->max_wr, max_wr) ||
	    tern_exceeds(dev, "max_sge", attr->max_sge,
			 le16_to_cpu(caps->max_recv_sge)))
		return -EINVAL;

	if (req->log_size > ilog2(max_wr) ||
	    BIT(req->log_size) < attr->max_wr ||
	    !tern_rq_stride_ok(req->log_stride, attr->max_sge) ||
	    !tern_queue_len_ok(req->buf_len,
			       BIT_ULL(req->log_size + req->log_stride)))
		return tern_refuse(dev, -EINVAL,
				   "WQ of 2^%u slots of 2^%u bytes in %llu, for %u of %u SGEs",
				   req->log_size, req->log_stride, req->buf_len,
				   attr->max_wr, attr->max_sge);

	return 0;
}

static int tern_rwq_exec_create(struct tern_ib_dev *dev, struct tern_rwq *wq,
				struct ib_pd *ibpd,
				const struct ib_wq_init_attr *attr,
				const struct tern_ureq_create_wq *req, u32 uar)
{
	__le32 cqn = cpu_to_le32(to_tcq(attr->cq)->cqn);
	struct tern_cmd_create_qp cmd = {
		.record = cpu_to_le64(wq->queue.record.dma),
		.pdn = cpu_to_le32(to_tpd(ibpd)->pdn),
		.uar = cpu_to_le32(uar),
		/* The device requires a valid number even without a queue. */
		.send_cqn = cqn,
		.recv_cqn = cqn,
		.type = TERN_QPT_RAW,
		.flags = TERN_QP_F_NO_SQ,
		.log_rq_size = req->log_size,
		.log_rq_stride = req->log_stride,
	};
	struct tern_table table;
	int err;

	if (attr->create_flags & IB_WQ_FLAGS_CVLAN_STRIPPING)
		cmd.flags |= TERN_QP_F_STRIP_VLAN;
	if (attr->create_flags & IB_WQ_FLAGS_SCATTER_FCS)
		cmd.flags |= TERN_QP_F_KEEP_FCS;

	err = tern_table_from_queue(dev, &table, wq->queue.umem, &cmd.pages);
	if (err)
		return err;

	err = tern_ib_create_gen(dev, TERN_CMD_CREATE_QP, &cmd, sizeof(cmd),
				 &wq->ibwq.wq_num, &wq->ref.generation);
	tern_table_free(&table);
	return err;
}

/* Destroys the WQ in the device and releases its memory. */
static void tern_rwq_release(struct tern_ib_dev *dev, struct tern_rwq *wq)
{
	int err;

	/* Must precede DESTROY_QP, which makes the number reusable. */
	tern_fault_forget_qp(dev, wq->ibwq.wq_num);
	err = tern_ib_destroy(dev, TERN_CMD_DESTROY_QP, wq->ibwq.wq_num);
	tern_uqueue_done(dev, &wq->queue, err);
}

static void tern_rwq_unpublish(struct tern_ib_dev *dev, struct tern_rwq *wq)
{
	tern_ref_unpublish(&dev->rwqs, wq->ibwq.wq_num, &wq->ref);
}

/* Makes a WQ that exists in the device visible to events. */
static int tern_rwq_publish(struct tern_ib_dev *dev, struct tern_rwq *wq,
			    const struct ib_wq_init_attr *attr)
{
	wq->ibwq.device = &dev->ibdev;
	wq->ibwq.state = IB_WQS_RESET;
	wq->ibwq.wq_context = attr->wq_context;
	wq->ibwq.event_handler = attr->event_handler;
	mutex_init(&wq->lock);
	return tern_ref_publish(&dev->rwqs, wq->ibwq.wq_num, &wq->ref);
}

static int tern_rwq_init(struct tern_ib_dev *dev, struct tern_rwq *wq,
			 struct ib_pd *ibpd, const struct ib_wq_init_attr *attr,
			 const struct tern_ureq_create_wq *req,
			 struct ib_udata *udata)
{
	struct tern_ucontext *ucontext;
	struct ib_umem *umem;
	int err;

	/* The device only reads WQEs. */
	umem = ib_umem_get_va(&dev->ibdev, req->buf_addr, req->buf_len, 0);
	ucontext = rdma_udata_to_drv_context(udata, struct tern_ucontext,
					     ibucontext);
	err = tern_uqueue_get(ucontext, &wq->queue, umem, req->record_addr,
			      sizeof(struct tern_qp_record));
	if (err)
		return err;

	err = tern_rwq_exec_create(dev, wq, ibpd, attr, req,
				   ucontext->uar_entry->id);
	if (err)
		goto err_put_queue;

	err = tern_rwq_publish(dev, wq, attr);
	if (err)
		goto err_release_wq;

	err = ib_respond_empty_udata(udata);
	if (err)
		goto err_unpublish;

	return 0;

err_unpublish:
	tern_rwq_unpublish(dev, wq);
err_release_wq:
	tern_rwq_release(dev, wq);
	return err;
err_put_queue:
	tern_uqueue_put(&wq->queue);
	return err;
}

/**
 * tern_create_wq() - create a work queue
 * @ibpd: PD of its receive buffers
 * @attr: type, CQ and requested size, which is updated to the actual one
 * @udata: struct tern_ureq_create_wq, no response; NULL for kernel users
 *
 * Return: the WQ, or an ERR_PTR: -EOPNOTSUPP for an unsupported type or flag,
 * and for kernel users; -EINVAL for attributes that exceed the device's limits;
 * or another negative errno.
 */
static struct ib_wq *tern_create_wq(struct ib_pd *ibpd,
				    struct ib_wq_init_attr *attr,
				    struct ib_udata *udata)
{
	struct tern_ib_dev *dev = to_tdev(ibpd->device);
	struct tern_ureq_create_wq req;
	struct tern_rwq *wq;
	int err;

	if (!udata)
		return ERR_PTR(tern_refuse(dev, -EOPNOTSUPP, "WQ of the kernel"));

	err = ib_copy_validate_udata_in(udata, req, reserved_d0);
	if (err)
		return ERR_PTR(err);

	err = tern_check_create_wq(dev, attr, &req);
	if (err)
		return ERR_PTR(err);

	wq = kzalloc_obj(*wq);
	if (!wq)
		return ERR_PTR(-ENOMEM);

	err = tern_rwq_init(dev, wq, ibpd, attr, &req, udata);
	if (err) {
		kfree(wq);
		return ERR_PTR(err);
	}

	attr->max_wr = BIT(req.log_size);
	return &wq->ibwq;
}

/**
 * tern_destroy_wq() - destroy a work queue
 * @ibwq: the WQ, which no table refers to
 * @udata: unused
 *
 * Return: 0.
 */
static int tern_destroy_wq(struct ib_wq *ibwq, struct ib_udata *udata)
{
	struct tern_ib_dev *dev = to_tdev(ibwq->device);
	struct tern_rwq *wq = to_trwq(ibwq);

	tern_rwq_unpublish(dev, wq);
	tern_rwq_release(dev, wq);
	kfree(wq);
	return 0;
}

/* From the error state, a WQ becomes ready by way of RESET. */
bool tern_rwq_transition_ok(enum ib_wq_state from, enum ib_wq_state to)
{
	return to != IB_WQS_RDY || from != IB_WQS_ERR;
}

static int tern_rwq_exec_state(struct tern_ib_dev *dev, u32 wqn, u8 state)
{
	struct tern_cmd_modify_qp cmd = {
		.qpn = cpu_to_le32(wqn),
		.mask = cpu_to_le32(TERN_QPA_STATE),
		.attr.state = state,
	};

	if (state == TERN_QPS_INIT) {
		cmd.mask |= cpu_to_le32(TERN_QPA_PORT);
		cmd.attr.port = TERN_IB_PORT;
	}

	return tern_cmd_exec(dev->core, TERN_CMD_MODIFY_QP, &cmd, sizeof(cmd),
			     NULL, 0);
}

/* A QP receives from RTR on. */
static int tern_rwq_exec_ready(struct tern_ib_dev *dev, u32 wqn)
{
	int err;

	err = tern_rwq_exec_state(dev, wqn, TERN_QPS_INIT);
	if (err)
		return err;

	err = tern_rwq_exec_state(dev, wqn, TERN_QPS_RTR);
	if (err)
		tern_rwq_exec_state(dev, wqn, TERN_QPS_RESET);

	return err;
}

static int tern_rwq_set_state(struct tern_ib_dev *dev, struct tern_rwq *wq,
			      enum ib_wq_state state)
{
	u32 wqn = wq->ibwq.wq_num;
	int err;

	lockdep_assert_held(&wq->lock);

	if (state == wq->ibwq.state)
		return 0;

	if (state == IB_WQS_RDY)
		err = tern_rwq_exec_ready(dev, wqn);
	else
		err = tern_rwq_exec_state(dev, wqn, state == IB_WQS_RESET ?
					  TERN_QPS_RESET :
					  TERN_QPS_ERR);
	if (!err)
		wq->ibwq.state = state;

	return err;
}

static int tern_rwq_set_stripping(struct tern_ib_dev *dev, struct tern_rwq *wq,
				  bool strip)
{
	struct tern_cmd_modify_qp cmd = {
		.qpn = cpu_to_le32(wq->ibwq.wq_num),
		.flags = cpu_to_le32(strip ? TERN_QPM_STRIP_VLAN :
					     TERN_QPM_KEEP_VLAN),
	};

	return tern_cmd_exec(dev->core, TERN_CMD_MODIFY_QP, &cmd, sizeof(cmd),
			     NULL, 0);
}

/**
 * tern_modify_wq() - modify state and flags of a work queue
 * @ibwq: the WQ
 * @attr: new attributes
 * @mask: IB_WQ_*, the valid attributes
 * @udata: user request without driver data
 *
 * Return: 0; -EOPNOTSUPP for a flag that cannot change; -EINVAL for an invalid
 * transition; or another negative errno.
 */
static int tern_modify_wq(struct ib_wq *ibwq, struct ib_wq_attr *attr, u32 mask,
			  struct ib_udata *udata)
{
	struct tern_ib_dev *dev = to_tdev(ibwq->device);
	struct tern_rwq *wq = to_trwq(ibwq);
	u32 flags = 0;
	int err;

	err = ib_no_udata_io(udata);
	if (err)
		return err;

	if (mask & IB_WQ_FLAGS)
		flags = attr->flags_mask;
	if (flags & ~IB_WQ_FLAGS_CVLAN_STRIPPING ||
	    (flags && !tern_has_cap(dev, TERN_CAP_ETH_OFFLOAD)))
		return tern_refuse(dev, -EOPNOTSUPP, "WQ flags %#x", flags);

	mutex_lock(&wq->lock);
	if ((mask & IB_WQ_CUR_STATE && attr->curr_wq_state != ibwq->state) ||
	    (mask & IB_WQ_STATE &&
	     !tern_rwq_transition_ok(ibwq->state, attr->wq_state))) {
		err = tern_refuse(dev, -EINVAL, "WQ state %d to %d", ibwq->state,
				  attr->wq_state);
		goto out_unlock;
	}

	if (flags)
		err = tern_rwq_set_stripping(dev, wq, attr->flags & flags);
	if (!err && mask & IB_WQ_STATE)
		err = tern_rwq_set_state(dev, wq, attr->wq_state);
out_unlock:
	mutex_unlock(&wq->lock);

	return err;
}

/**
 * tern_create_rwq_ind_table() - check the size of a table of work queues
 * @table: the table, which ib_core keeps; the device gets it with an RSS QP
 * @attr: its size and entries
 * @udata: user request without driver data
 *
 * Return: 0, or -EINVAL if the device supports only smaller tables.
 */
static int tern_create_rwq_ind_table(struct ib_rwq_ind_table *table,
				     struct ib_rwq_ind_table_init_attr *attr,
				     struct ib_udata *udata)
{
	if (tern_exceeds(to_tdev(table->device), "entries of the table",
			 BIT(attr->log_ind_tbl_size), TERN_RSS_ENTRIES))
		return -EINVAL;

	return ib_no_udata_io(udata);
}

static int tern_destroy_rwq_ind_table(struct ib_rwq_ind_table *table)
{
	return 0;
}

const struct ib_device_ops tern_wq_ops = {
	.create_rwq_ind_table = tern_create_rwq_ind_table,
	.create_wq = tern_create_wq,
	.destroy_rwq_ind_table = tern_destroy_rwq_ind_table,
	.destroy_wq = tern_destroy_wq,
	.modify_wq = tern_modify_wq,

	INIT_RDMA_OBJ_SIZE(ib_rwq_ind_table, tern_rwq_ind_table, ibtable),
};
