// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Doorbell and health of the PCI function. */

#include <linux/io.h>

#include "tern_dev.h"

/* Rings TERN_DB_CMD_* @command for queue @number. Any context. */
void tern_ring(struct tern_core *core, u32 command, u32 number)
{
	writel(FIELD_PREP(TERN_DB_CMD_MASK, command) |
	       FIELD_PREP(TERN_DB_NUM_MASK, number),
	       core->uar_kernel + TERN_UAR_DB);
}
EXPORT_SYMBOL_GPL(tern_ring);

/*
 * Declares the device dead for reason TERN_FATAL_*: stops DMA, fails commands,
 * notifies listeners. Any context. All steps happen under the lock, so none is
 * left to do once another thread has passed tern_dev_retire().
 */
static void tern_dev_fail(struct tern_dev *tdev, u32 fatal)
{
	unsigned long flags;

	spin_lock_irqsave(&tdev->dead_lock, flags);
	if (!tern_dev_dead(tdev)) {
		/*
		 * First: a thread that sees the bit frees memory that the
		 * device was given.
		 */
		pci_clear_master(tdev->core.pdev);
		WRITE_ONCE(tdev->fatal, fatal);
		set_bit(TERN_DEV_DEAD, &tdev->flags);
		tern_aq_fail_all(tdev);
		set_bit(TERN_DEV_TELL_DEAD, &tdev->flags);
		schedule_work(&tdev->async_work);
	}
	spin_unlock_irqrestore(&tdev->dead_lock, flags);
}

/* Declares a device dead that did not report a failure itself. Any context. */
void tern_dev_kill(struct tern_dev *tdev)
{
	tern_dev_fail(tdev, TERN_FATAL_NONE);
}

/*
 * Declares the device dead without notifying listeners, for a driver that takes it
 * down.
 */
void tern_dev_retire(struct tern_dev *tdev)
{
	unsigned long flags;

	spin_lock_irqsave(&tdev->dead_lock, flags);
	set_bit(TERN_DEV_DEAD, &tdev->flags);
	tern_aq_fail_all(tdev);
	spin_unlock_irqrestore(&tdev->dead_lock, flags);
}

/*
 * Checks the health of the device. Returns false, and declares the device dead,
 * if it failed.
 */
bool tern_dev_check(struct tern_dev *tdev)
{
	u32 status = readl(tdev->regs + TERN_REG_STATUS);
	u32 fatal = TERN_FATAL_NONE;

	if (tern_dev_dead(tdev))
		return false;
	/* A device that is no longer enabled was reset by someone else. */
	if (status != TERN_REG_GONE &&
	    (status & (TERN_STATUS_ENABLED | TERN_STATUS_FATAL)) == TERN_STATUS_ENABLED)
		return true;
	if (status != TERN_REG_GONE && status & TERN_STATUS_FATAL) {
		fatal = readl(tdev->regs + TERN_REG_FATAL);
		dev_err(tern_dma_dev(tdev), "device failed, reason %u\n", fatal);
	}
	tern_dev_fail(tdev, fatal);
	return false;
}
#ifndef TERN_WITHOUT_RESET

/* Whether the function was removed. */
bool tern_dev_gone(struct tern_dev *tdev)
{
	return readl(tdev->regs + TERN_REG_STATUS) == TERN_REG_GONE;
}
#endif
