// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Event queues and their interrupts. */

#include <linux/slab.h>
#include <linux/stddef.h>
#include <linux/string.h>

#include "tern_dev.h"
#include "tern_util.h"

/* An entry ends with its phase. */
static_assert(offsetofend(struct tern_eqe, phase) == sizeof(struct tern_eqe));

/* Allocates the memory of an empty queue with entries of @entry_size bytes. */
int tern_eq_alloc_buf(struct tern_dev *tdev, struct tern_eq *eq, size_t entry_size,
		      u8 log_size)
{
	int err;

	err = tern_buf_alloc(tdev, &eq->buf, entry_size, log_size);
	if (err)
		return err;
	eq->tdev = tdev;
	eq->ring = eq->buf.va;
	eq->record = eq->buf.va + eq->buf.record_offset;
	eq->entry_size = entry_size;
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

static const void *tern_eq_entry(const struct tern_eq *eq, u32 index)
{
	return eq->ring + tern_ring_slot(index, eq->log_size) * eq->entry_size;
}

/* Whether the device has written the next entry. */
bool tern_eq_pending(const struct tern_eq *eq)
{
	u32 ci = READ_ONCE(eq->ci);
	const __le32 *phase;

	phase = tern_eq_entry(eq, ci) + eq->entry_size - sizeof(*phase);
	return tern_phase_valid(le32_to_cpu(READ_ONCE(*phase)), ci, eq->log_size);
}

/* Returns the next entry, or NULL. The caller copies it, then calls tern_eq_advance(). */
const void *tern_eq_peek(const struct tern_eq *eq)
{
	if (!tern_eq_pending(eq))
		return NULL;
	/* The rest of the entry was written before its phase. */
	dma_rmb();
	return tern_eq_entry(eq, eq->ci);
}

/* Returns the slot of the next entry to the device. */
void tern_eq_advance(struct tern_eq *eq)
{
	/* Finish the copy before the device learns that the slot is free. */
	dma_mb();
	WRITE_ONCE(eq->ci, eq->ci + 1);
	WRITE_ONCE(eq->record->ci, cpu_to_le32(eq->ci));
}

/* Takes an event, if there is one. */
bool tern_eq_next(struct tern_eq *eq, struct tern_eqe *eqe)
{
	const struct tern_eqe *entry = tern_eq_peek(eq);

	if (!entry)
		return false;
	*eqe = *entry;
	tern_eq_advance(eq);
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

/* The caller sets the handler before tern_eq_start(). */
struct tern_eq *tern_eq_alloc(struct tern_dev *tdev, unsigned int vector, size_t entry_size,
			      u8 log_size)
{
	struct tern_eq *eq;
	int err;

	eq = kzalloc_obj(*eq);
	if (!eq)
		return ERR_PTR(-ENOMEM);
	err = tern_eq_alloc_buf(tdev, eq, entry_size, log_size);
	if (err) {
		kfree(eq);
		return ERR_PTR(err);
	}
	eq->vector = vector;
	return eq;
}

static void tern_eq_free(struct tern_eq *eq)
{
	tern_buf_free(eq->tdev, &eq->buf);
	kfree(eq);
}

/* Requests the interrupt of a queue of @kind and creates the queue, or frees it. */
struct tern_eq *tern_eq_start(struct tern_eq *eq, u8 kind, irq_handler_t handler,
			      const char *name)
{
	struct pci_dev *pdev = eq->tdev->core.pdev;
	int err;

	/* Queues share vectors, each with its own dev_id. */
	err = pci_request_irq(pdev, eq->vector, handler, NULL, eq, "tern-%s%u@pci:%s",
			      name, eq->vector, pci_name(pdev));
	if (err)
		goto free_eq;
	err = tern_eq_cmd_create(eq, kind);
	if (err)
		goto free_irq;
	return eq;

free_irq:
	pci_free_irq(pdev, eq->vector, eq);
free_eq:
	tern_eq_free(eq);
	return ERR_PTR(err);
}

/* Like tern_eq_create(), for an MSI-X vector. */
struct tern_eq *tern_eq_create_on(struct tern_dev *tdev, unsigned int vector,
				  unsigned int nent, tern_eq_handler_t handler,
				  void *context)
{
	struct tern_eq *eq;

	if (nent > TERN_EQ_MAX_ENTRIES)
		return ERR_PTR(-EINVAL);
	eq = tern_eq_alloc(tdev, vector, sizeof(struct tern_eqe), tern_eq_log_size(nent));
	if (IS_ERR(eq))
		return eq;
	eq->handler = handler;
	eq->context = context;
	return tern_eq_start(eq, TERN_EQ_COMPLETION, tern_comp_irq, "comp");
}

/*
 * No completion queue is mapped to the queue, and nobody takes entries. No handler runs
 * after this returned. Process context.
 */
void tern_eq_destroy(struct tern_eq *eq)
{
	tern_cmd_destroy(eq->tdev, TERN_CMD_DESTROY_EQ, eq->id);
	pci_free_irq(eq->tdev->core.pdev, eq->vector, eq);
	tern_eq_free(eq);
}
EXPORT_SYMBOL_GPL(tern_eq_destroy);

/* Queue number for CREATE_CQ. */
u32 tern_eq_number(const struct tern_eq *eq)
{
	return eq->id;
}
EXPORT_SYMBOL_GPL(tern_eq_number);
