// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Event queues and their completion interrupts. */

#include <linux/slab.h>

#include "tern_dev.h"
#include "tern_util.h"

/* Allocates the memory of an empty queue. */
int tern_eq_alloc_buf(struct tern_dev *tdev, struct tern_eq *eq, u8 log_size)
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

/* Gives the queue to the device. */
int tern_eq_cmd_create(struct tern_eq *eq, u8 kind)
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

/* Whether the device has written the next entry. */
bool tern_eq_pending(const struct tern_eq *eq)
{
	u32 ci = READ_ONCE(eq->ci);
	__le32 phase = READ_ONCE(eq->ring[tern_ring_slot(ci, eq->log_size)].phase);

	return tern_phase_valid(le32_to_cpu(phase), ci, eq->log_size);
}

/* Copies the next entry, if any, and returns its slot to the device. */
bool tern_eq_next(struct tern_eq *eq, struct tern_eqe *eqe)
{
	if (!tern_eq_pending(eq))
		return false;
	/* The rest of the entry was written before its phase. */
	dma_rmb();
	*eqe = eq->ring[tern_ring_slot(eq->ci, eq->log_size)];
	/* Finish the copy before the device learns that the slot is free. */
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

	/* Entries that arrive later raise another interrupt. */
	for (n = 0; n < BIT(eq->log_size) && tern_eq_next(eq, &eqe); n++)
		eq->handler(eq->context, &eqe);
	return IRQ_RETVAL(n);
}

/* Like tern_eq_create(), for an MSI-X vector. */
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
	/* Queues share vectors, each with its own dev_id. */
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
 * @core: the PCI function
 * @vector: completion vector, less than @core->num_comp_vectors
 * @nent: minimum number of events: the completion queues that will be mapped to
 *	it
 * @handler: called for each event in hard interrupt context
 * @context: passed to @handler
 *
 * Context: Process context.
 *
 * Return: the queue, or an error pointer: -EINVAL if @vector or @nent is out of
 * range, -ENOMEM, or the error of tern_cmd_exec().
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
 * @eq: the queue; no completion queue may be mapped to it
 *
 * Process context. No handler runs after this returned.
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

/* Queue number for CREATE_CQ. */
u32 tern_eq_number(const struct tern_eq *eq)
{
	return eq->id;
}
EXPORT_SYMBOL_GPL(tern_eq_number);
