// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Completion queues and their event queues. Polling of kernel CQs is in
 * tern_ib_poll.c.
 */

#include <linux/log2.h>
#include <linux/slab.h>

#include <rdma/uverbs_ioctl.h>

#include "tern_ib.h"
#include "tern_ib_limits.h"

/* Space for outstanding events of CQs that were destroyed. */
#define TERN_EQ_SLACK		64

/* Returns the CQ that an event names, with a reference, or NULL if it is gone. */
static struct tern_cq *tern_cq_get(struct tern_ib_dev *dev, u32 cqn,
				   u32 generation)
{
	struct tern_ref *ref = tern_ref_lookup(&dev->cqs, cqn, generation);

	return ref ? container_of(ref, struct tern_cq, ref) : NULL;
}

/* Hard interrupt context. Events of destroyed CQs are ignored. */
void tern_completion_event(void *context, const struct tern_eqe *eqe)
{
	struct tern_ib_dev *dev = context;
	struct tern_cq *cq;

	cq = tern_cq_get(dev, le32_to_cpu(eqe->id),
			 le32_to_cpu(eqe->generation));
	if (!cq)
		return;

	if (tern_kcq_used(&cq->kern))
		tern_kcq_event_taken(&cq->kern);
	/* ib_core sets it only after it has created a kernel CQ. */
	if (cq->ibcq.comp_handler)
		cq->ibcq.comp_handler(&cq->ibcq, cq->ibcq.cq_context);
	tern_ref_put(&cq->ref);
}

/* Reports an asynchronous event to the owner of the CQ, if it still exists. */
void tern_cq_event(struct tern_ib_dev *dev, u32 cqn, u32 generation,
		   enum ib_event_type event)
{
	struct ib_event ibevent = {
		.device = &dev->ibdev,
		.event = event,
	};
	struct tern_cq *cq;

	cq = tern_cq_get(dev, cqn, generation);
	if (!cq)
		return;

	ibevent.element.cq = &cq->ibcq;
	if (cq->ibcq.event_handler)
		cq->ibcq.event_handler(&ibevent, cq->ibcq.cq_context);
	if (tern_kcq_used(&cq->kern))
		tern_kcq_mark_lost(cq);
	tern_ref_put(&cq->ref);
}

/* Creates an EQ for each completion vector. Together they hold as many CQs as there may be. */
int tern_ib_create_eqs(struct tern_ib_dev *dev)
{
	struct tern_core *core = dev->core;
	unsigned int num = core->num_comp_vectors;
	struct tern_eq *eq;

	dev->eqs = kcalloc(num, sizeof(*dev->eqs), GFP_KERNEL);
	if (!dev->eqs)
		return -ENOMEM;

	dev->cqs_per_eq = tern_cqs_per_vector(core);
	for (; dev->num_eqs < num; dev->num_eqs++) {
		eq = tern_eq_create(core, dev->num_eqs,
				    dev->cqs_per_eq + TERN_EQ_SLACK,
				    tern_completion_event, dev);
		if (IS_ERR(eq)) {
			tern_ib_destroy_eqs(dev);
			return PTR_ERR(eq);
		}
		dev->eqs[dev->num_eqs].eq = eq;
	}

	return 0;
}

/* After this no completion event is being handled. */
void tern_ib_destroy_eqs(struct tern_ib_dev *dev)
{
	while (dev->num_eqs)
		tern_eq_destroy(dev->eqs[--dev->num_eqs].eq);
	kfree(dev->eqs);
	dev->eqs = NULL;
}

/*
 * Returns the EQ of the vector or, if that is full, the next one with space; NULL if
 * there are as many CQs as there may be.
 */
static struct tern_ib_eq *tern_get_eq(struct tern_ib_dev *dev,
				      unsigned int vector)
{
	struct tern_ib_eq *eq;
	unsigned int i;

	for (i = 0; i < dev->num_eqs; i++) {
		eq = &dev->eqs[(vector + i) % dev->num_eqs];
		if (atomic_add_unless(&eq->num_cqs, 1, dev->cqs_per_eq))
			return eq;
	}

	return NULL;
}

static void tern_put_eq(struct tern_ib_eq *eq)
{
	atomic_dec(&eq->num_cqs);
}

static int tern_cq_exec_create(struct tern_ib_dev *dev, struct tern_cq *cq,
			       struct tern_cmd_create_cq *cmd)
{
	cmd->eqn = cpu_to_le32(tern_eq_number(cq->eq->eq));
	return tern_ib_create_gen(dev, TERN_CMD_CREATE_CQ, cmd, sizeof(*cmd),
				  &cq->cqn, &cq->ref.generation);
}

/* Creates the CQ in the device. Its memory is pinned. */
static int tern_cq_create_user(struct tern_ib_dev *dev, struct tern_cq *cq,
			       const struct tern_ureq_create_cq *req, u32 flags,
			       u32 uar)
{
	struct tern_cmd_create_cq cmd = {
		.record = cpu_to_le64(cq->queue.record.dma),
		.uar = cpu_to_le32(uar),
		.log_size = req->log_size,
	};
	struct tern_table table;
	int err;

	if (flags & IB_UVERBS_CQ_FLAGS_IGNORE_OVERRUN)
		cmd.flags = TERN_CQ_F_IGNORE_OVERRUN;

	err = tern_table_from_queue(dev, &table, cq->queue.umem, &cmd.pages);
	if (err)
		return err;

	err = tern_cq_exec_create(dev, cq, &cmd);
	tern_table_free(&table);
	return err;
}

/* Destroys the CQ and releases its memory. */
static void tern_cq_release(struct tern_ib_dev *dev, struct tern_cq *cq)
{
	int err = tern_ib_destroy(dev, TERN_CMD_DESTROY_CQ, cq->cqn);

	tern_uqueue_done(dev, &cq->queue, err);
	tern_kbuf_done(dev, &cq->kern.buf, err);
	tern_put_eq(cq->eq);
}

/* Makes a CQ that exists in the device visible to events. */
static int tern_cq_publish(struct tern_ib_dev *dev, struct tern_cq *cq)
{
#ifndef TERN_WITHOUT_RESIZE
	mutex_init(&cq->resize_lock);
#endif
	return tern_ref_publish(&dev->cqs, cq->cqn, &cq->ref);
}

static void tern_cq_unpublish(struct tern_ib_dev *dev, struct tern_cq *cq)
{
	tern_ref_unpublish(&dev->cqs, cq->cqn, &cq->ref);
}

int tern_create_user_cq(struct ib_cq *ibcq, const struct ib_cq_init_attr *attr,
			struct uverbs_attr_bundle *attrs)
{
	struct ib_udata *udata = &attrs->driver_udata;
	struct tern_ib_dev *dev = to_tdev(ibcq->device);
	struct tern_uresp_create_cq resp = {};
	struct tern_ureq_create_cq req;
	struct tern_cq *cq = to_tcq(ibcq);
	struct tern_ucontext *ucontext;
	struct ib_umem *umem;
	int err;

	err = ib_copy_validate_udata_in(udata, req, reserved_e0);
	if (err)
		return err;

	err = tern_check_create_cq(dev, attr, &req);
	if (err)
		return err;

	cq->eq = tern_get_eq(dev, attr->comp_vector);
	if (!cq->eq)
		return -ENOMEM;

	umem = ib_umem_get_cq_buf_or_va(&dev->ibdev, attrs, req.buf_addr,
					req.buf_len, IB_ACCESS_LOCAL_WRITE);
	ucontext = rdma_udata_to_drv_context(udata, struct tern_ucontext,
					     ibucontext);
	err = tern_uqueue_get(ucontext, &cq->queue, umem, req.record_addr,
			      sizeof(struct tern_cq_record));
	if (err)
		goto err_put_eq;

	err = tern_cq_create_user(dev, cq, &req, attr->flags,
				  ucontext->uar_entry->id);
	if (err)
		goto err_put_queue;

	ibcq->cqe = BIT(req.log_size);
	err = tern_cq_publish(dev, cq);
	if (err)
		goto err_release_cq;

	resp.cqn = cq->cqn;
	err = ib_respond_udata(udata, resp);
	if (err)
		goto err_unpublish;

	return 0;

err_unpublish:
	tern_cq_unpublish(dev, cq);
err_release_cq:
	tern_cq_release(dev, cq);
	return err;
err_put_queue:
	tern_uqueue_put(&cq->queue);
err_put_eq:
	tern_put_eq(cq->eq);
	return err;
}

int tern_create_cq(struct ib_cq *ibcq, const struct ib_cq_init_attr *attr,
		   struct uverbs_attr_bundle *attrs)
{
	struct tern_ib_dev *dev = to_tdev(ibcq->device);
	struct tern_cmd_create_cq cmd = {};
	struct tern_cq *cq = to_tcq(ibcq);
	struct tern_table table;
	int err;

	if (attr->flags)
		return tern_refuse(dev, -EOPNOTSUPP, "CQ flags %#x", attr->flags);
	if (!attr->cqe)
		return tern_refuse(dev, -EINVAL, "CQ of 0 entries");
	if (tern_exceeds(dev, "cqe", attr->cqe,
			 le32_to_cpu(dev->core->caps->max_cqe)))
		return -EINVAL;

	cq->eq = tern_get_eq(dev, attr->comp_vector);
	if (!cq->eq)
		return -ENOMEM;

	err = tern_kcq_init(dev, &cq->kern, attr->cqe, &cmd);
	if (err)
		goto err_put_eq;

	err = tern_table_from_kbuf(dev, &table, &cq->kern.buf, &cmd.pages);
	if (err)
		goto err_free_kbuf;

	err = tern_cq_exec_create(dev, cq, &cmd);
	tern_table_free(&table);
	if (err)
		goto err_free_kbuf;

	ibcq->cqe = BIT(cq->kern.log_size);
	err = tern_cq_publish(dev, cq);
	if (err)
		goto err_release_cq;

	/* The device may have died before the CQ was visible. */
	if (tern_core_dead(dev->core))
		schedule_work(&dev->flush_work);

	return 0;

err_release_cq:
	tern_cq_release(dev, cq);
	return err;
err_free_kbuf:
	tern_kbuf_free(dev, &cq->kern.buf);
err_put_eq:
	tern_put_eq(cq->eq);
	return err;
}

/* Removes the number before the device can reuse it. */
int tern_destroy_cq(struct ib_cq *ibcq, struct ib_udata *udata)
{
	struct tern_ib_dev *dev = to_tdev(ibcq->device);
	struct tern_cq *cq = to_tcq(ibcq);

	tern_cq_unpublish(dev, cq);
	tern_cq_release(dev, cq);
	return 0;
}
#ifndef TERN_WITHOUT_MODERATE

/* If both are 0, each completion triggers an event. Kernel users call this, too. */
static int tern_modify_cq(struct ib_cq *ibcq, u16 cq_count, u16 cq_period)
{
	struct tern_cmd_modify_cq cmd = {
		.cqn = cpu_to_le32(to_tcq(ibcq)->cqn),
		.count = cpu_to_le16(cq_count),
		.period = cpu_to_le16(cq_period),
	};

	return tern_cmd_exec(to_tdev(ibcq->device)->core, TERN_CMD_MODIFY_CQ,
			     &cmd, sizeof(cmd), NULL, 0);
}

const struct ib_device_ops tern_moderate_ops = {
	.modify_cq = tern_modify_cq,
};
#endif
