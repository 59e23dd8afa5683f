// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* The event queue of page faults, which the RDMA driver serves. */

#include <linux/stddef.h>

#include "tern_dev.h"
#include "tern_page_fault.h"
#include "tern_util.h"

/* Faults that do not fit wait in the device. */
#define TERN_FAULT_EQ_LOG_SIZE	8

/* An entry ends with its phase. */
static_assert(offsetofend(struct tern_fault, phase) == sizeof(struct tern_fault));

static irqreturn_t tern_fault_irq(int irq, void *data)
{
	struct tern_eq *eq = data;

	if (!tern_eq_pending(eq))
		return IRQ_NONE;
	eq->notify(eq->context);
	return IRQ_HANDLED;
}

/**
 * tern_fault_eq_create() - create the event queue for page faults
 * @core: the PCI function
 * @notify: called in hard interrupt context when there are faults to take
 * @context: passed to @notify
 *
 * Context: Process context.
 *
 * Return: the queue, or an error pointer: -ENOMEM, or the error of
 * tern_cmd_exec().
 */
struct tern_eq *tern_fault_eq_create(struct tern_core *core,
				     void (*notify)(void *context), void *context)
{
	struct tern_dev *tdev = core_to_tdev(core);
	struct tern_eq *eq;

	eq = tern_eq_alloc(tdev, tern_comp_to_msix(0, tdev->num_vectors),
			   sizeof(struct tern_fault), TERN_FAULT_EQ_LOG_SIZE);
	if (IS_ERR(eq))
		return eq;
	eq->notify = notify;
	eq->context = context;
	return tern_eq_start(eq, TERN_EQ_FAULT, tern_fault_irq, "fault");
}
EXPORT_SYMBOL_GPL(tern_fault_eq_create);

/**
 * tern_fault_eq_next() - take a fault
 * @eq: the queue; one thread at a time takes faults from it
 * @fault: output, a copy
 *
 * Return: whether there was one. After the last one, the caller calls
 * tern_fault_eq_done().
 */
bool tern_fault_eq_next(struct tern_eq *eq, struct tern_fault *fault)
{
	const struct tern_fault *entry = tern_eq_peek(eq);

	if (!entry)
		return false;
	*fault = *entry;
	tern_eq_advance(eq);
	return true;
}
EXPORT_SYMBOL_GPL(tern_fault_eq_next);

/* Notifies the device that there is space for faults that did not fit. */
void tern_fault_eq_done(struct tern_eq *eq)
{
	if (!tern_dev_dead(eq->tdev))
		tern_ring(&eq->tdev->core, TERN_DB_CMD_EQ_CI, eq->id);
}
EXPORT_SYMBOL_GPL(tern_fault_eq_done);
