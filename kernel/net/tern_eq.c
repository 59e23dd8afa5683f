// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Event queues, interrupts, and the way of asynchronous events to their hearers. */

#include <linux/slab.h>

#include "tern_dev.h"
#include "tern_net.h"
#include "tern_util.h"

/* Entries of the asynchronous queue; what does not fit waits in the device. */
#define TERN_ASYNC_EQ_LOG_SIZE	8

static int tern_eq_alloc_buf(struct tern_dev *tdev, struct tern_eq *eq, u8 log_size)
{
	int err;

	err = tern_buf_alloc(tdev, &eq->buf, sizeof(*eq->ring), log_size);
	if (err)
		return err;
	eq->tdev = tdev;
	eq->ring = eq->buf.va;
	eq->record = eq->buf.va + eq->buf.record_offset;
	eq->log_size = log_size;
	eq->ci = 0;
	return 0;
}

static int tern_eq_cmd_create(struct tern_eq *eq, u8 kind)
{
	struct tern_cmd_create_eq cmd = {
		.pages = tern_buf_pages(&eq->buf),
		.record = tern_buf_record(&eq->buf),
		.vector = cpu_to_le16(eq->vector),
		.log_size = eq->log_size,
		.kind = kind,
	};

	return tern_cmd_create(eq->tdev, TERN_CMD_CREATE_EQ, &cmd, sizeof(cmd),
			       &eq->id);
}

static bool tern_eq_pending(const struct tern_eq *eq)
{
	u32 ci = READ_ONCE(eq->ci);
	__le32 phase = READ_ONCE(eq->ring[tern_ring_slot(ci, eq->log_size)].phase);

	return tern_phase_valid(le32_to_cpu(phase), ci, eq->log_size);
}

/* Copies the next entry, if there is one, and gives its place back to the device. */
static bool tern_eq_next(struct tern_eq *eq, struct tern_eqe *eqe)
{
	if (!tern_eq_pending(eq))
		return false;
	/* The rest of the entry was written before its phase. */
	dma_rmb();
	*eqe = eq->ring[tern_ring_slot(eq->ci, eq->log_size)];
	/* The copy is made before the device learns that the place is free. */
	dma_mb();
	WRITE_ONCE(eq->ci, eq->ci + 1);
	WRITE_ONCE(eq->record->ci, cpu_to_le32(eq->ci));
	return true;
}

static irqreturn_t tern_comp_irq(int irq, void *data)
{
	struct tern_eq *eq = data;
	struct tern_eqe eqe;
	u32 n;

	/* Whatever comes after one round has an interrupt of its own. */
	for (n = 0; n < BIT(eq->log_size) && tern_eq_next(eq, &eqe); n++)
		eq->handler(eq->context, &eqe);
	return IRQ_HANDLED;
}

/* As tern_eq_create(), on an MSI-X vector. */
struct tern_eq *tern_eq_create_on(struct tern_dev *tdev, unsigned int vector,
				  unsigned int nent, tern_eq_handler_t handler,
				  void *context)
{
	struct pci_dev *pdev = tdev->core.pdev;
	struct tern_eq *eq;
	int err;

	if (nent > TERN_EQ_MAX_ENTRIES)
		return ERR_PTR(-EINVAL);

	eq = kzalloc_obj(*eq);
	if (!eq)
		return ERR_PTR(-ENOMEM);

	err = tern_eq_alloc_buf(tdev, eq, tern_eq_log_size(nent));
	if (err)
		goto free_eq;
	eq->vector = vector;
	eq->handler = handler;
	eq->context = context;
	/* Queues share vectors: each has an action of its own on the interrupt. */
	err = pci_request_irq(pdev, vector, tern_comp_irq, NULL, eq,
			      "tern-comp%u@pci:%s", vector, pci_name(pdev));
	if (err)
		goto free_buf;
	err = tern_eq_cmd_create(eq, TERN_EQ_COMPLETION);
	if (err)
		goto free_irq;
	return eq;

free_irq:
	pci_free_irq(pdev, vector, eq);
free_buf:
	tern_buf_free(tdev, &eq->buf);
free_eq:
	kfree(eq);
	return ERR_PTR(err);
}

/**
 * tern_eq_create() - create a completion event queue
 * @core: the function
 * @vector: completion vector, below @core->num_comp_vectors
 * @nent: events it has room for: completion queues mapped to it
 * @handler: called for each event in hard interrupt context
 * @context: what @handler gets
 *
 * Process context.
 *
 * Return: the queue, or an error pointer: -EINVAL for a vector or size out of
 * range, -ENOMEM, or what tern_cmd_exec() says.
 */
struct tern_eq *tern_eq_create(struct tern_core *core, unsigned int vector,
			       unsigned int nent, tern_eq_handler_t handler,
			       void *context)
{
	struct tern_dev *tdev = core_to_tdev(core);

	if (vector >= core->num_comp_vectors)
		return ERR_PTR(-EINVAL);
	return tern_eq_create_on(tdev, tern_comp_to_msix(vector, tdev->num_vectors),
				 nent, handler, context);
}
EXPORT_SYMBOL_GPL(tern_eq_create);

/**
 * tern_eq_destroy() - destroy a completion event queue
 * @eq: the queue; no completion queue may be mapped to it any more
 *
 * Process context. No handler runs when it returns.
 */
void tern_eq_destroy(struct tern_eq *eq)
{
	struct tern_dev *tdev = eq->tdev;

	tern_cmd_destroy(tdev, TERN_CMD_DESTROY_EQ, eq->id);
	pci_free_irq(tdev->core.pdev, eq->vector, eq);
	tern_buf_free(tdev, &eq->buf);
	kfree(eq);
}
EXPORT_SYMBOL_GPL(tern_eq_destroy);

/* Number of the queue, as CREATE_CQ wants it. */
u32 tern_eq_number(const struct tern_eq *eq)
{
	return eq->id;
}
EXPORT_SYMBOL_GPL(tern_eq_number);

bool tern_async_eq_pending(struct tern_dev *tdev)
{
	return tern_eq_pending(&tdev->async_eq);
}

/* Vector 0: answers to admin commands, asynchronous events, or a fatal device. */
irqreturn_t tern_admin_irq(int irq, void *data)
{
	struct tern_dev *tdev = data;
	bool answers = tern_aq_reap(tdev);

	/*
	 * A message without a cause may be a fatal device's cry. When there is only
	 * this vector, completions raise it too, and the health work has to do.
	 */
	if (tern_async_eq_pending(tdev) || (!answers && tdev->num_vectors > 1))
		schedule_work(&tdev->async_work);
	return IRQ_HANDLED;
}

/* Before the interrupt is there, which looks at the queue. */
int tern_async_eq_alloc(struct tern_dev *tdev)
{
	return tern_eq_alloc_buf(tdev, &tdev->async_eq, TERN_ASYNC_EQ_LOG_SIZE);
}

void tern_async_eq_free(struct tern_dev *tdev)
{
	tern_buf_free(tdev, &tdev->async_eq.buf);
}

int tern_async_eq_start(struct tern_dev *tdev)
{
	return tern_eq_cmd_create(&tdev->async_eq, TERN_EQ_ASYNC);
}

void tern_async_eq_stop(struct tern_dev *tdev)
{
	tern_cmd_destroy(tdev, TERN_CMD_DESTROY_EQ, tdev->async_eq.id);
}

/* Delivers what is in the asynchronous queue, and the news of the device's death. */
void tern_async_work(struct work_struct *work)
{
	struct tern_dev *tdev = container_of(work, struct tern_dev, async_work);
	struct tern_eq *eq = &tdev->async_eq;
	struct tern_eqe eqe;
	bool any = false;
	u16 type;

	tern_dev_check(tdev);
	while (tern_eq_next(eq, &eqe)) {
		any = true;
		type = le16_to_cpu(eqe.type);
		if (type == TERN_EV_PORT_CHANGE &&
		    le32_to_cpu(eqe.id) == TERN_ETH_PORT)
			tern_net_update_link(tdev->net);
		else if (type == TERN_EV_CQ_ERR)
			tern_net_cq_error(tdev->net, le32_to_cpu(eqe.id));
		blocking_notifier_call_chain(&tdev->events, type, &eqe);
	}
	/* Events that found no place wait in the device for this kick. */
	if (any && !tern_dev_dead(tdev))
		tern_ring(&tdev->core, TERN_DB_CMD_EQ_CI, eq->id);

	if (test_and_clear_bit(TERN_DEV_TELL_DEAD, &tdev->flags)) {
		tern_net_lose_link(tdev->net);
		blocking_notifier_call_chain(&tdev->events, TERN_CORE_EV_DEAD,
					     NULL);
		schedule_work(&tdev->report_work);
	}
}

/**
 * tern_register_event_notifier() - hear asynchronous events
 * @core: the function
 * @nb: its action is TERN_EV_* or TERN_CORE_EV_DEAD, its data the
 *	const struct tern_eqe *, NULL with TERN_CORE_EV_DEAD
 *
 * The notifier is called in process context, one event after the other.
 *
 * Return: 0, or -EEXIST when @nb is registered already.
 */
int tern_register_event_notifier(struct tern_core *core, struct notifier_block *nb)
{
	return blocking_notifier_chain_register(&core_to_tdev(core)->events, nb);
}
EXPORT_SYMBOL_GPL(tern_register_event_notifier);

/* No call of @nb runs when it returns. */
void tern_unregister_event_notifier(struct tern_core *core, struct notifier_block *nb)
{
	blocking_notifier_chain_unregister(&core_to_tdev(core)->events, nb);
}
EXPORT_SYMBOL_GPL(tern_unregister_event_notifier);
