// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Admin interrupt and delivery of asynchronous events. */

#include "tern_dev.h"
#include "tern_net.h"

/* Vector 0: answers to commands, asynchronous events, fatal errors. */
irqreturn_t tern_admin_irq(int irq, void *data)
{
	struct tern_dev *tdev = data;
	bool answers;

	answers = tern_aq_reap(tdev);
	/*
	 * A spurious interrupt may signal a fatal device error. If there is only one
	 * vector, completions raise it, too, and the health work must detect errors.
	 */
	if (tern_eq_pending(&tdev->async_eq) || (!answers && tdev->num_vectors > 1))
		schedule_work(&tdev->async_work);
	else if (!answers)
		return IRQ_NONE;
	return IRQ_HANDLED;
}

/* Delivers asynchronous events and reports the device's death. */
void tern_async_work(struct work_struct *work)
{
	struct tern_dev *tdev = container_of(work, struct tern_dev, async_work);
	struct tern_eq *eq = &tdev->async_eq;
	struct tern_eqe eqe;
	unsigned int n;
	u16 type;

	tern_dev_check(tdev);
	for (n = 0; n < BIT(eq->log_size) && tern_eq_next(eq, &eqe); n++) {
		type = le16_to_cpu(eqe.type);
		if (type == TERN_EV_PORT_CHANGE &&
		    le32_to_cpu(eqe.id) == TERN_ETH_PORT)
			tern_net_update_link(tdev->net);
		else if (type == TERN_EV_CQ_ERR)
			tern_net_cq_error(tdev->net, &eqe);
		blocking_notifier_call_chain(&tdev->events, type, &eqe);
	}
	/* Events that did not fit wait in the device for this kick. */
	if (n && !tern_dev_dead(tdev))
		tern_ring(&tdev->core, TERN_DB_CMD_EQ_CI, eq->id);
	/* A device that reports events endlessly must not delay its removal. */
	if (n == BIT(eq->log_size))
		schedule_work(work);

	if (test_and_clear_bit(TERN_DEV_TELL_DEAD, &tdev->flags)) {
		tern_net_lose_link(tdev->net);
		blocking_notifier_call_chain(&tdev->events, TERN_CORE_EV_DEAD,
					     NULL);
#ifndef TERN_WITHOUT_RESET
		schedule_work(&tdev->report_work);
#endif
	}
}
