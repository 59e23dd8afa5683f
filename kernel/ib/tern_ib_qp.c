// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Queue pairs of user space and of the kernel; multicast groups of UD QPs. */

#include <linux/bitfield.h>
#include <linux/slab.h>

#include <rdma/uverbs_ioctl.h>

#include "tern_ib.h"
#ifndef TERN_WITHOUT_APM
#include "tern_ib_apm.h"
#endif
#include "tern_ib_limits.h"
#include "tern_ib_qp_util.h"
#ifndef TERN_WITHOUT_RSS
#include "tern_ib_raw.h"
#endif

/* The state values match those of ib_core. */
static_assert(TERN_QPS_RESET == (int)IB_QPS_RESET);
static_assert(TERN_QPS_INIT == (int)IB_QPS_INIT);
static_assert(TERN_QPS_RTR == (int)IB_QPS_RTR);
static_assert(TERN_QPS_RTS == (int)IB_QPS_RTS);
static_assert(TERN_QPS_SQD == (int)IB_QPS_SQD);
static_assert(TERN_QPS_SQE == (int)IB_QPS_SQE);
static_assert(TERN_QPS_ERR == (int)IB_QPS_ERR);

/* Supported attribute mask bits. */
#define TERN_QP_MASK	(IB_QP_STATE | IB_QP_CUR_STATE | \
			 IB_QP_EN_SQD_ASYNC_NOTIFY | IB_QP_ACCESS_FLAGS | \
			 IB_QP_PKEY_INDEX | IB_QP_PORT | IB_QP_QKEY | \
			 IB_QP_AV | \
			 IB_QP_PATH_MTU | IB_QP_TIMEOUT | IB_QP_RETRY_CNT | \
			 IB_QP_RNR_RETRY | IB_QP_RQ_PSN | \
			 IB_QP_MAX_QP_RD_ATOMIC | IB_QP_MIN_RNR_TIMER | \
			 IB_QP_SQ_PSN | IB_QP_MAX_DEST_RD_ATOMIC | \
			 IB_QP_DEST_QPN)

/* Reports an asynchronous event to the owner of the QP, if it still exists. */
void tern_qp_event(struct tern_ib_dev *dev, u32 qpn, u32 generation,
		   enum ib_event_type event)
{
	struct ib_event ibevent = {
		.device = &dev->ibdev,
		.event = event,
	};
	struct tern_ref *ref;
	struct tern_qp *qp;

	ref = tern_ref_lookup(&dev->qps, qpn, generation);
	if (!ref)
		return;

	qp = container_of(ref, struct tern_qp, ref);
	ibevent.element.qp = &qp->ibqp;
	if (qp->ibqp.event_handler)
		qp->ibqp.event_handler(&ibevent, qp->ibqp.qp_context);
	tern_ref_put(ref);
}

/*
 * Fills in the parameters that depend on the verb's attributes, not on queue
 * memory.
 */
static void tern_qp_fill_create(const struct tern_qp *qp,
				const struct ib_qp_init_attr *attr,
				struct tern_cmd_create_qp *cmd)
{
	const struct tern_qp_kind *kind = &tern_qp_kinds[attr->qp_type];

	cmd->type = kind->type;
	cmd->flags = kind->flags |
		     tern_qp_create_flags_to_dev(attr->create_flags);
#ifndef TERN_WITHOUT_XRC
	if (attr->qp_type == IB_QPT_XRC_TGT) {
		cmd->xrcdn = cpu_to_le32(to_txrcd(attr->xrcd)->xrcdn);
		return;
	}
#endif
	cmd->pdn = cpu_to_le32(to_tpd(qp->ibqp.pd)->pdn);
	cmd->send_cqn = cpu_to_le32(to_tcq(attr->send_cq)->cqn);
	/* A QP without a receive side still needs a valid CQ number. */
	cmd->recv_cqn = attr->recv_cq ?
			cpu_to_le32(to_tcq(attr->recv_cq)->cqn) : cmd->send_cqn;
	if (attr->srq) {
		cmd->flags |= TERN_QP_F_SRQ | TERN_QP_F_NO_RQ;
		cmd->srqn = cpu_to_le32(to_tsrq(attr->srq)->srqn);
	}
#ifndef TERN_WITHOUT_TM
	/* The device sends by itself and ignores the buffer. */
	if (tern_qp_is_rendezvous(attr))
		cmd->flags |= TERN_QP_F_NO_SQ;
#endif
}

static int tern_qp_exec_create(struct tern_ib_dev *dev, struct tern_qp *qp,
			       const struct tern_cmd_create_qp *cmd)
{
	return tern_ib_create_gen(dev, TERN_CMD_CREATE_QP, cmd, sizeof(*cmd),
				  &qp->ibqp.qp_num, &qp->ref.generation);
}

/* Creates the QP in the device. Its memory is pinned. */
static int tern_qp_create_user(struct tern_ib_dev *dev, struct tern_qp *qp,
			       const struct ib_qp_init_attr *attr,
			       const struct tern_ureq_create_qp *req, u32 uar)
{
	struct tern_cmd_create_qp cmd = {
		.record = cpu_to_le64(qp->queue.record.dma),
		.uar = cpu_to_le32(uar),
		.log_sq_size = req->log_sq_size,
		.log_sq_stride = req->log_sq_stride,
	};
	struct tern_table table;
	int err;

	tern_qp_fill_create(qp, attr, &cmd);
	if (tern_qp_has_rq(attr)) {
		cmd.rq_offset = cpu_to_le32(BIT(req->log_sq_size +
						req->log_sq_stride));
		cmd.log_rq_size = req->log_rq_size;
		cmd.log_rq_stride = req->log_rq_stride;
	}

	err = tern_table_from_queue(dev, &table, qp->queue.umem, &cmd.pages);
	if (err)
		return err;

	err = tern_qp_exec_create(dev, qp, &cmd);
	tern_table_free(&table);
	return err;
}

/* Fails only if the device is dead, which completes nothing. */
static void tern_kqp_set_state(struct tern_ib_dev *dev, struct tern_qp *qp,
			       u8 state)
{
	struct tern_cmd_modify_qp cmd = {
		.qpn = cpu_to_le32(qp->ibqp.qp_num),
		.mask = cpu_to_le32(TERN_QPA_STATE),
		.attr.state = state,
	};

	tern_cmd_exec(dev->core, TERN_CMD_MODIFY_QP, &cmd, sizeof(cmd), NULL,
		      0);
}

#ifndef TERN_WITHOUT_KSRQ
/*
 * Called before a kernel QP is reset or destroyed. The request that it has
 * taken from its SRQ completes on the way to ERR, not in RESET, and keeps its
 * entry of the SRQ until then.
 */
static void tern_kqp_flush_srq(struct tern_ib_dev *dev, struct tern_qp *qp)
{
	if (qp->ibqp.srq && qp->state != IB_QPS_RESET)
		tern_kqp_set_state(dev, qp, TERN_QPS_ERR);
}

#endif
/* Stops a kernel QP and drops its completions. */
static void tern_kqp_quiesce(struct tern_ib_dev *dev, struct tern_qp *qp)
{
#ifndef TERN_WITHOUT_KSRQ
	tern_kqp_flush_srq(dev, qp);
#endif
	tern_kqp_set_state(dev, qp, TERN_QPS_RESET);
	tern_kqp_detach(qp);
}

/* Destroys the QP and releases its memory. */
static void tern_qp_release(struct tern_ib_dev *dev, struct tern_qp *qp)
{
	int err;

	/*
	 * Before the number is free: polling would take the completions for
	 * those of a new QP with this number.
	 */
	if (tern_kqp_used(&qp->kern))
		tern_kqp_quiesce(dev, qp);
#ifndef TERN_WITHOUT_ODP
	/* Must precede DESTROY_QP, which makes the number reusable. */
	tern_fault_forget_qp(dev, qp->ibqp.qp_num);
#endif
	err = tern_ib_destroy(dev, TERN_CMD_DESTROY_QP, qp->ibqp.qp_num);
	tern_uqueue_done(dev, &qp->queue, err);
	tern_kbuf_done(dev, &qp->kern.buf, err);
#ifndef TERN_WITHOUT_APM
	tern_alt_path_forget(qp);
#endif
}

/* Makes a QP that exists in the device visible to events. */
static int tern_qp_publish(struct tern_ib_dev *dev, struct tern_qp *qp,
			   const struct ib_qp_init_attr *attr)
{
	qp->cap = attr->cap;
	qp->sq_sig_type = attr->sq_sig_type;
	qp->state = IB_QPS_RESET;
	mutex_init(&qp->lock);
	return tern_ref_publish(&dev->qps, qp->ibqp.qp_num, &qp->ref);
}

static void tern_qp_unpublish(struct tern_ib_dev *dev, struct tern_qp *qp)
{
	tern_ref_unpublish(&dev->qps, qp->ibqp.qp_num, &qp->ref);
}

#ifndef TERN_WITHOUT_XRC
/*
 * Creates an XRC target. ib_core creates it without a user context, because
 * processes that share it come and go.
 */
static int tern_create_xrc_tgt(struct tern_ib_dev *dev, struct tern_qp *qp,
			       struct ib_qp_init_attr *attr)
{
	struct tern_cmd_create_qp cmd = {};
	int err;

	tern_qp_fill_create(qp, attr, &cmd);
	err = tern_qp_exec_create(dev, qp, &cmd);
	if (err)
		return err;

	attr->cap = (struct ib_qp_cap){};
	err = tern_qp_publish(dev, qp, attr);
	if (err)
		tern_qp_release(dev, qp);

	return err;
}

#endif
/* The GSI QP is a kernel QP. The device ensures that there is only one. */
static int tern_create_kernel_qp(struct tern_ib_dev *dev, struct tern_qp *qp,
				 struct ib_qp_init_attr *attr)
{
	struct tern_cmd_create_qp cmd = {};
	struct tern_table table;
	int err;

#ifndef TERN_WITHOUT_XRC
	if (attr->qp_type == IB_QPT_XRC_INI)
		return tern_refuse(dev, -EOPNOTSUPP, "kernel XRC QP");
#endif
#ifndef TERN_WITHOUT_RAW
	if (attr->qp_type == IB_QPT_RAW_PACKET)
		return tern_refuse(dev, -EOPNOTSUPP, "kernel raw packet QP");
#endif
	tern_qp_fill_create(qp, attr, &cmd);
	err = tern_kqp_init(dev, &qp->kern, attr, &cmd);
	if (err)
		return err;

	err = tern_table_from_kbuf(dev, &table, &qp->kern.buf, &cmd.pages);
	if (err)
		goto err_free_kbuf;

	err = tern_qp_exec_create(dev, qp, &cmd);
	tern_table_free(&table);
	if (err)
		goto err_free_kbuf;

	err = tern_qp_publish(dev, qp, attr);
	if (err)
		goto err_release;

	err = tern_kqp_attach(qp);
	if (err)
		goto err_unpublish;

	return 0;

err_unpublish:
	tern_qp_unpublish(dev, qp);
err_release:
	tern_qp_release(dev, qp);
	return err;
err_free_kbuf:
	tern_kbuf_free(dev, &qp->kern.buf);
	return err;
}

static int tern_create_user_qp(struct tern_ib_dev *dev, struct tern_qp *qp,
			       struct ib_qp_init_attr *attr,
			       struct ib_udata *udata)
{
	struct uverbs_attr_bundle *attrs;
	struct tern_ucontext *ucontext;
	struct tern_ureq_create_qp req;
	struct ib_umem *umem;
	u32 send_wr;
	int err;

	err = ib_copy_validate_udata_in(udata, req, reserved_e0);
	if (err)
		return err;

	if (!tern_qp_geometry_ok(dev, attr, &req))
		return tern_refuse(dev, -EINVAL,
				   "queues of 2^%u and 2^%u slots of 2^%u and 2^%u bytes in %llu",
				   req.log_sq_size, req.log_rq_size,
				   req.log_sq_stride, req.log_rq_stride,
				   req.buf_len);

	/* The device only reads WQEs. */
	attrs = rdma_udata_to_uverbs_attr_bundle(udata);
	umem = ib_umem_get_attr_or_va(&dev->ibdev, attrs,
				      UVERBS_ATTR_CREATE_QP_BUF_UMEM,
				      req.buf_addr, req.buf_len, 0);
	ucontext = rdma_udata_to_drv_context(udata, struct tern_ucontext,
					     ibucontext);
	err = tern_uqueue_get(ucontext, &qp->queue, umem, req.record_addr,
			      sizeof(struct tern_qp_record));
	if (err)
		return err;

	err = tern_qp_create_user(dev, qp, attr, &req,
				  ucontext->uar_entry->id);
	if (err)
		goto err_put_queue;

	send_wr = BIT(req.log_sq_size);
#ifndef TERN_WITHOUT_TM
	if (tern_qp_is_rendezvous(attr))
		send_wr = 0;
#endif
	attr->cap.max_send_wr = send_wr;
	attr->cap.max_recv_wr = tern_qp_has_rq(attr) ? BIT(req.log_rq_size) : 0;
	if (!tern_qp_has_rq(attr))
		attr->cap.max_recv_sge = 0;
	err = tern_qp_publish(dev, qp, attr);
	if (err)
		goto err_release_qp;

	err = ib_respond_empty_udata(udata);
	if (err)
		goto err_unpublish;

	return 0;

err_unpublish:
	tern_qp_unpublish(dev, qp);
err_release_qp:
	tern_qp_release(dev, qp);
	return err;
err_put_queue:
	tern_uqueue_put(&qp->queue);
	return err;
}

int tern_create_qp(struct ib_qp *ibqp, struct ib_qp_init_attr *attr,
		   struct ib_udata *udata)
{
	struct tern_ib_dev *dev = to_tdev(ibqp->device);
	struct tern_qp *qp = to_tqp(ibqp);
	int err;

#ifndef TERN_WITHOUT_RSS
	if (attr->rwq_ind_tbl)
		return tern_create_rss_qp(dev, qp, attr, udata);
#endif
	err = tern_check_create_qp(dev, attr);
	if (err)
		return err;

#ifndef TERN_WITHOUT_XRC
	if (attr->qp_type == IB_QPT_XRC_TGT)
		return tern_create_xrc_tgt(dev, qp, attr);
#endif
	if (!udata)
		return tern_create_kernel_qp(dev, qp, attr);

	return tern_create_user_qp(dev, qp, attr, udata);
}

/* Removes the number before the device can reuse it. */
int tern_destroy_qp(struct ib_qp *ibqp, struct ib_udata *udata)
{
	struct tern_ib_dev *dev = to_tdev(ibqp->device);
	struct tern_qp *qp = to_tqp(ibqp);

#ifndef TERN_WITHOUT_RSS
	if (tern_qp_is_rss(qp)) {
		tern_destroy_rss_qp(dev, qp);
		return 0;
	}
#endif
	tern_qp_unpublish(dev, qp);
	tern_qp_release(dev, qp);
	return 0;
}

/*
 * A dead device executes nothing and has no QPs. Kernel users must still be
 * able to stop using one: the driver flushes its requests.
 */
static int tern_kqp_modify_dead(struct tern_ib_dev *dev, struct tern_qp *qp,
				enum ib_qp_state next)
{
	if (!tern_kqp_used(&qp->kern) || !tern_core_dead(dev->core) ||
	    (next != IB_QPS_ERR && next != IB_QPS_RESET))
		return -EIO;

#ifndef TERN_WITHOUT_KSRQ
	/* The owner of a QP with an SRQ waits for the last WQE event. */
	if (next == IB_QPS_ERR && qp->ibqp.srq)
		tern_qp_event(dev, qp->ibqp.qp_num, qp->ref.generation,
			      IB_EVENT_QP_LAST_WQE_REACHED);
#endif
	return 0;
}

static int tern_qp_exec_modify(struct tern_ib_dev *dev, struct tern_qp *qp,
			       enum ib_qp_state next,
			       const struct tern_cmd_modify_qp *cmd)
{
	int err;

#ifndef TERN_WITHOUT_KSRQ
	if (next == IB_QPS_RESET && tern_kqp_used(&qp->kern))
		tern_kqp_flush_srq(dev, qp);
#endif
	err = tern_cmd_exec(dev->core, TERN_CMD_MODIFY_QP, cmd, sizeof(*cmd),
			    NULL, 0);
	return err == -EIO ? tern_kqp_modify_dead(dev, qp, next) : err;
}

/* Adds the attributes of the verb to @cmd, and executes it. */
static int tern_qp_modify_locked(struct tern_ib_dev *dev, struct tern_qp *qp,
				 const struct ib_qp_attr *attr, int mask,
				 struct tern_cmd_modify_qp *cmd)
{
	enum ib_qp_state cur = mask & IB_QP_CUR_STATE ? attr->cur_qp_state :
							qp->state;
	enum ib_qp_state next = mask & IB_QP_STATE ? attr->qp_state : cur;
	u32 dest_qpn = mask & IB_QP_DEST_QPN ? attr->dest_qp_num : qp->dest_qpn;
	u16 udp_sport;
	u32 dev_mask;
	int err;

	lockdep_assert_held(&qp->lock);

	if (!ib_modify_qp_is_ok(cur, next, qp->ibqp.qp_type, mask))
		return tern_refuse(dev, -EINVAL, "state %d to %d with attributes %#x",
				   cur, next, mask);

	cmd->qpn = cpu_to_le32(qp->ibqp.qp_num);
	cmd->cur_state = cpu_to_le32(cur);
	if (mask & IB_QP_AV) {
		udp_sport = rdma_get_udp_sport(attr->ah_attr.grh.flow_label,
					       qp->ibqp.qp_num, dest_qpn);
		err = tern_av_from_attr(dev, &cmd->attr.av, &attr->ah_attr,
					udp_sport);
		if (err)
			return err;
	}

	if (mask & IB_QP_EN_SQD_ASYNC_NOTIFY && attr->en_sqd_async_notify)
		cmd->flags |= cpu_to_le32(TERN_QPM_SQD_NOTIFY);
	dev_mask = tern_qp_attr_to_dev(attr, mask, &cmd->attr);
	/* ib_core sets the port of a GSI QP at creation. */
	if (qp->ibqp.qp_type == IB_QPT_GSI && cur == IB_QPS_RESET &&
	    next == IB_QPS_INIT) {
		cmd->attr.port = qp->ibqp.port;
		dev_mask |= TERN_QPA_PORT;
	}
	cmd->mask = cpu_to_le32(dev_mask);
	err = tern_qp_exec_modify(dev, qp, next, cmd);
	if (err)
		return err;

	if (next == IB_QPS_RESET && tern_kqp_used(&qp->kern))
		tern_kqp_reset(qp);
#ifndef TERN_WITHOUT_APM
	if (next == IB_QPS_RESET)
		tern_alt_path_forget(qp);
#endif
	/* Posters read the state without the lock. */
	WRITE_ONCE(qp->state, next);
	qp->dest_qpn = dest_qpn;
	return 0;
}

#ifndef TERN_WITHOUT_ECE
/* The device refuses options for a QP that cannot have them. */
static int tern_qp_add_ece(struct tern_ib_dev *dev,
			   const struct ib_qp_attr *attr, int mask, u32 options,
			   struct tern_cmd_modify_qp *cmd)
{
	if (!options)
		return 0;
	if (!tern_has_cap(dev, TERN_CAP_ECE))
		return tern_refuse(dev, -EOPNOTSUPP, "no ECE");
	if (options & ~TERN_ECE_OPTIONS || !(mask & IB_QP_STATE) ||
	    attr->qp_state != IB_QPS_RTR)
		return tern_refuse(dev, -EINVAL,
				   "ECE options %#x, which go with RTR", options);

	cmd->flags = cpu_to_le32(FIELD_PREP(TERN_QPM_ECE_MASK, options));
	return 0;
}

/* Reads the driver data that come with the attributes, and adds them to @cmd. */
static int tern_qp_copy_request(struct tern_ib_dev *dev,
				const struct ib_qp_attr *attr, int mask,
				struct ib_udata *udata,
				struct tern_ureq_modify_qp *req,
				struct tern_cmd_modify_qp *cmd)
{
	int err;

	err = ib_copy_validate_udata_in(udata, *req, reserved_20);
	if (err)
		return err;

	if (tern_reserved_set(dev, req->reserved_20, sizeof(req->reserved_20)))
		return -EINVAL;
#ifndef TERN_WITHOUT_RATE
	if (tern_reserved_set(dev, req->reserved_70, sizeof(req->reserved_70)))
		return -EINVAL;
	if ((req->max_burst || req->typical_packet) && !(mask & IB_QP_RATE_LIMIT))
		return tern_refuse(dev, -EINVAL, "burst without rate limit");
	cmd->attr.max_burst = cpu_to_le32(req->max_burst);
	cmd->attr.typical_packet = cpu_to_le16(req->typical_packet);
#endif
#ifndef TERN_WITHOUT_APM
	if (tern_reserved_set(dev, req->reserved_a0, sizeof(req->reserved_a0)) ||
	    tern_reserved_set(dev, req->alt.reserved_e8,
			      sizeof(req->alt.reserved_e8)))
		return -EINVAL;
	if (req->flags & ~TERN_MODIFY_QP_ALT_PATH)
		return tern_refuse(dev, -EINVAL, "flags %#x", req->flags);
#endif
	return tern_qp_add_ece(dev, attr, mask, req->ece_options, cmd);
}

#endif
/* @udata: optional driver data. ib_core has resolved addresses. */
int tern_modify_qp(struct ib_qp *ibqp, struct ib_qp_attr *attr, int mask,
		   struct ib_udata *udata)
{
	struct tern_ib_dev *dev = to_tdev(ibqp->device);
	struct tern_qp *qp = to_tqp(ibqp);
	struct tern_cmd_modify_qp cmd = {};
#ifndef TERN_WITHOUT_ECE
	struct tern_ureq_modify_qp req = {};
#endif
#ifndef TERN_WITHOUT_APM
	struct tern_alt_path alt;
#endif
	int supported = TERN_QP_MASK;
	int err;

#ifndef TERN_WITHOUT_RATE
	if (tern_has_cap(dev, TERN_CAP_RATE_LIMIT))
		supported |= IB_QP_RATE_LIMIT;
#endif
#ifndef TERN_WITHOUT_APM
	if (tern_has_cap(dev, TERN_CAP_APM))
		supported |= IB_QP_PATH_MIG_STATE;
#endif
	if (mask & ~supported)
		return tern_refuse(dev, -EOPNOTSUPP, "QP attributes %#x", mask);
#ifndef TERN_WITHOUT_RSS
	if (tern_qp_is_rss(qp))
		return tern_refuse(dev, -EOPNOTSUPP, "RSS QP has no attributes");
#endif

#ifndef TERN_WITHOUT_ECE
	if (udata && udata->inlen) {
		err = tern_qp_copy_request(dev, attr, mask, udata, &req, &cmd);
		if (err)
			return err;
	}
#else
	err = ib_is_udata_in_empty(udata);
	if (err)
		return err;
#endif

	if (!tern_qp_attr_ok(dev, attr, mask))
		return tern_refuse(dev, -EINVAL, "value of one of the attributes %#x",
				   mask);

	err = ib_respond_empty_udata(udata);
	if (err)
		return err;

#ifndef TERN_WITHOUT_APM
	err = tern_alt_path_get(ibqp, &req, &alt);
	if (err)
		return err;

	if (alt.sgid)
		mask |= IB_QP_ALT_PATH;
#endif
	mutex_lock(&qp->lock);
#ifndef TERN_WITHOUT_APM
	tern_alt_path_to_dev(qp, attr, mask, &alt, &cmd.alt);
#endif
	err = tern_qp_modify_locked(dev, qp, attr, mask, &cmd);
#ifndef TERN_WITHOUT_APM
	if (!err && mask & IB_QP_ALT_PATH)
		tern_alt_path_loaded(dev, qp, &alt);
	tern_alt_path_put(&alt);
#endif
	mutex_unlock(&qp->lock);
	return err;
}

/* All attributes are filled in, whatever @mask is. */
int tern_query_qp(struct ib_qp *ibqp, struct ib_qp_attr *attr, int mask,
		  struct ib_qp_init_attr *init_attr)
{
	struct tern_ib_dev *dev = to_tdev(ibqp->device);
	struct tern_qp *qp = to_tqp(ibqp);
	struct tern_rsp_query_qp rsp;
	int err;

#ifndef TERN_WITHOUT_RSS
	if (tern_qp_is_rss(qp))
		return tern_refuse(dev, -EOPNOTSUPP, "RSS QP has no attributes");
#endif
	mutex_lock(&qp->lock);
	err = tern_ib_query(dev, TERN_CMD_QUERY_QP, ibqp->qp_num, &rsp,
			    sizeof(rsp));
	/* ib_modify_qp_is_ok() indexes a table with the state. */
	if (!err && rsp.attr.state > TERN_QPS_ERR)
		err = -EIO;
	if (!err)
		WRITE_ONCE(qp->state, rsp.attr.state);
	mutex_unlock(&qp->lock);
	if (err)
		return err;

	memset(attr, 0, sizeof(*attr));
	memset(init_attr, 0, sizeof(*init_attr));
	tern_qp_attr_from_dev(&rsp.attr, attr);
	/* A QP that was never connected, like any UD QP, has no path. */
	if (rsp.attr.path_mtu)
		tern_av_to_attr(&rsp.attr.av, &attr->ah_attr);
	else
		attr->path_mtu = IB_MTU_256;
#ifndef TERN_WITHOUT_APM
	tern_alt_path_to_attr(&rsp.alt, attr);
#endif

	attr->cap = qp->cap;
	init_attr->cap = qp->cap;
	init_attr->qp_type = ibqp->qp_type;
	init_attr->send_cq = ibqp->send_cq;
	init_attr->recv_cq = ibqp->recv_cq;
	init_attr->srq = ibqp->srq;
	init_attr->sq_sig_type = qp->sq_sig_type;
	return 0;
}

/*
 * ---- multicast ----
 *
 * The device delivers UD packets for a group to the attached QPs, regardless of
 * the Ethernet receive filter. ib_core handles group membership on the network.
 */

static int tern_mcast(struct ib_qp *ibqp, const union ib_gid *gid, u16 opcode)
{
	struct tern_cmd_mcast cmd = {
		.qpn = cpu_to_le32(ibqp->qp_num),
		/* A QP in RESET has no port yet. */
		.port = ibqp->port ?: TERN_IB_PORT,
	};

	memcpy(cmd.gid, gid->raw, sizeof(cmd.gid));
	return tern_cmd_exec(to_tdev(ibqp->device)->core, opcode, &cmd,
			     sizeof(cmd), NULL, 0);
}

static int tern_attach_mcast(struct ib_qp *ibqp, union ib_gid *gid, u16 lid)
{
	return tern_mcast(ibqp, gid, TERN_CMD_ATTACH_MCAST);
}

/*
 * ib_core treats attachments to one group with different LIDs as distinct. For the
 * device they are the same, so detaching the second one finds nothing.
 */
static int tern_detach_mcast(struct ib_qp *ibqp, union ib_gid *gid, u16 lid)
{
	int err = tern_mcast(ibqp, gid, TERN_CMD_DETACH_MCAST);

	if (err == -ENOENT || tern_core_dead(to_tdev(ibqp->device)->core))
		return 0;

	return err;
}

const struct ib_device_ops tern_mcast_ops = {
	.attach_mcast = tern_attach_mcast,
	.detach_mcast = tern_detach_mcast,
};
