// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* The event queue for page faults of on-demand regions. */

#include <linux/slab.h>

#include "tern_dev.h"
#include "tern_util.h"

/* Faults that do not fit wait in the device. */
#define TERN_FAULT_EQ_LOG_SIZE	8

/**
 * struct tern_fault_eq - the fault event queue
 * @tdev: the PCI function
 * @buf: memory of @ring and @record
 * @ring: entries, written by the device
 * @record: doorbell record
 * @ci: number of entries consumed
 * @id: queue number
 * @vector: MSI-X vector
 * @notify: called in hard interrupt context when there are entries
 * @context: passed to @notify
 */
struct tern_fault_eq {
	struct tern_dev *tdev;
	struct tern_buf buf;
	struct tern_fault *ring;
	struct tern_eq_record *record;
	u32 ci;
	u32 id;
	unsigned int vector;
	void (*notify)(void *context);
	void *context;
};

static bool tern_fault_pending(const struct tern_fault_eq *eq)
{
	u32 ci = READ_ONCE(eq->ci);
	u32 slot = tern_ring_slot(ci, TERN_FAULT_EQ_LOG_SIZE);
	__le32 phase = READ_ONCE(eq->ring[slot].phase);

	return tern_phase_valid(le32_to_cpu(phase), ci, TERN_FAULT_EQ_LOG_SIZE);
}

static irqreturn_t tern_fault_irq(int irq, void *data)
{
	struct tern_fault_eq *eq = data;

	if (!tern_fault_pending(eq))
		return IRQ_NONE;
	eq->notify(eq->context);
	return IRQ_HANDLED;
}

/**
 * tern_fault_eq_create() - create the fault event queue
 * @core: the PCI function
 * @notify: called in hard interrupt context when there are faults to take
 * @context: passed to @notify
 *
 * Context: Process context.
 *
 * Return: the queue, or an error pointer: -ENOMEM, or the error of
 * tern_cmd_exec().
 */
struct tern_fault_eq *tern_fault_eq_create(struct tern_core *core,
					   void (*notify)(void *context),
					   void *context)
{
	struct tern_dev *tdev = core_to_tdev(core);
	struct tern_cmd_create_eq cmd = {
		.log_size = TERN_FAULT_EQ_LOG_SIZE,
		.kind = TERN_EQ_FAULT,
	};
	struct pci_dev *pdev = core->pdev;
	struct tern_fault_eq *eq;
	int err;

	eq = kzalloc_obj(*eq);
	if (!eq)
		return ERR_PTR(-ENOMEM);

	err = tern_buf_alloc(tdev, &eq->buf, sizeof(*eq->ring),
			     TERN_FAULT_EQ_LOG_SIZE);
	if (err)
		goto free_eq;
	eq->tdev = tdev;
	eq->ring = eq->buf.va;
	eq->record = eq->buf.va + eq->buf.record_offset;
	eq->vector = tern_comp_to_msix(0, tdev->num_vectors);
	eq->notify = notify;
	eq->context = context;
	/* Queues share vectors, each with its own dev_id. */
	err = pci_request_irq(pdev, eq->vector, tern_fault_irq, NULL, eq,
			      "tern-fault@pci:%s", pci_name(pdev));
	if (err)
		goto free_buf;

	cmd.pages = tern_buf_pages(&eq->buf);
	cmd.record = tern_buf_record(&eq->buf);
	cmd.vector = cpu_to_le16(eq->vector);
	err = tern_cmd_create(tdev, TERN_CMD_CREATE_EQ, &cmd, sizeof(cmd),
			      &eq->id);
	if (err)
		goto free_irq;
	return eq;

free_irq:
	pci_free_irq(pdev, eq->vector, eq);
free_buf:
	tern_buf_free(tdev, &eq->buf);
free_eq:
	kfree(eq);
	return ERR_PTR(err);
}
EXPORT_SYMBOL_GPL(tern_fault_eq_create);

/**
 * tern_fault_eq_destroy() - destroy the fault event queue
 * @eq: the queue; the caller has stopped its consumer
 *
 * Context: Process context. @notify does not run after this returned.
 */
void tern_fault_eq_destroy(struct tern_fault_eq *eq)
{
	struct tern_dev *tdev = eq->tdev;

	tern_cmd_destroy(tdev, TERN_CMD_DESTROY_EQ, eq->id);
	pci_free_irq(tdev->core.pdev, eq->vector, eq);
	tern_buf_free(tdev, &eq->buf);
	kfree(eq);
}
EXPORT_SYMBOL_GPL(tern_fault_eq_destroy);

/**
 * tern_fault_eq_next() - take a fault
 * @eq: the queue; one thread at a time takes faults from it
 * @fault: output, a copy
 *
 * Return: whether there was one. After the last one, the caller calls
 * tern_fault_eq_done().
 */
bool tern_fault_eq_next(struct tern_fault_eq *eq, struct tern_fault *fault)
{
	if (!tern_fault_pending(eq))
		return false;
	/* The rest of the entry was written before its phase. */
	dma_rmb();
	*fault = eq->ring[tern_ring_slot(eq->ci, TERN_FAULT_EQ_LOG_SIZE)];
	/* Finish the copy before the device learns that the slot is free. */
	dma_mb();
	WRITE_ONCE(eq->ci, eq->ci + 1);
	WRITE_ONCE(eq->record->ci, cpu_to_le32(eq->ci));
	return true;
}
EXPORT_SYMBOL_GPL(tern_fault_eq_next);

/* Notifies the device that there is space for faults that did not fit. */
void tern_fault_eq_done(struct tern_fault_eq *eq)
{
	if (!tern_dev_dead(eq->tdev))
		tern_ring(&eq->tdev->core, TERN_DB_CMD_EQ_CI, eq->id);
}
EXPORT_SYMBOL_GPL(tern_fault_eq_done);
