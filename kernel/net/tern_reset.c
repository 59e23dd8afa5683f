// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Function level reset, error recovery, suspend and shutdown. */

#include <linux/pci.h>
#include <linux/pm.h>

#include "tern_dev.h"
#include "tern_health.h"

/* Takes the device down until tern_release(). Nothing else may bring it up. */
static void tern_hold(struct tern_dev *tdev)
{
	devl_lock(priv_to_devlink(tdev));
	set_bit(TERN_DEV_HELD, &tdev->flags);
	tern_dev_down(tdev);
	devl_unlock(priv_to_devlink(tdev));
}

/* Brings the function up again after tern_hold(). */
static int tern_bring_up(struct tern_dev *tdev)
{
	int err;

	devl_lock(priv_to_devlink(tdev));
	err = tern_dev_up(tdev);
	devl_unlock(priv_to_devlink(tdev));
	return err;
}

/*
 * Undoes tern_hold(): adds the auxiliary device if the function is up,
 * otherwise reports the failure.
 */
static void tern_release(struct tern_dev *tdev)
{
	devl_lock(priv_to_devlink(tdev));
	clear_bit(TERN_DEV_HELD, &tdev->flags);
	if (tern_dev_dead(tdev)) {
		schedule_work(&tdev->report_work);
	} else {
		tern_adev_add(tdev);
		tern_health_good(tdev);
	}
	devl_unlock(priv_to_devlink(tdev));
}

void tern_shutdown(struct pci_dev *pdev)
{
	tern_hold(pci_get_drvdata(pdev));
}

static void tern_reset_prepare(struct pci_dev *pdev)
{
	tern_hold(pci_get_drvdata(pdev));
}

static void tern_reset_done(struct pci_dev *pdev)
{
	struct tern_dev *tdev = pci_get_drvdata(pdev);

	tern_bring_up(tdev);
	tern_release(tdev);
}

static pci_ers_result_t tern_error_detected(struct pci_dev *pdev,
					    pci_channel_state_t state)
{
	struct tern_dev *tdev = pci_get_drvdata(pdev);

	if (state == pci_channel_io_normal)
		return PCI_ERS_RESULT_CAN_RECOVER;

	tern_dev_kill(tdev);
	tern_hold(tdev);
	return state == pci_channel_io_frozen ? PCI_ERS_RESULT_NEED_RESET :
						PCI_ERS_RESULT_DISCONNECT;
}

static pci_ers_result_t tern_slot_reset(struct pci_dev *pdev)
{
	struct tern_dev *tdev = pci_get_drvdata(pdev);

	pci_restore_state(pdev);
	return tern_bring_up(tdev) ? PCI_ERS_RESULT_DISCONNECT :
				     PCI_ERS_RESULT_RECOVERED;
}

static void tern_error_resume(struct pci_dev *pdev)
{
	tern_release(pci_get_drvdata(pdev));
}

const struct pci_error_handlers tern_err_handler = {
	.error_detected	= tern_error_detected,
	.slot_reset	= tern_slot_reset,
	.reset_prepare	= tern_reset_prepare,
	.reset_done	= tern_reset_done,
	.resume		= tern_error_resume,
};

static int tern_suspend(struct device *dev)
{
	tern_hold(dev_get_drvdata(dev));
	return 0;
}

static int tern_resume(struct device *dev)
{
	return tern_bring_up(dev_get_drvdata(dev));
}

/* Adds the child device, which tern_resume() must not do. */
static void tern_pm_complete(struct device *dev)
{
	tern_error_resume(to_pci_dev(dev));
}

const struct dev_pm_ops tern_pm_ops = {
	SYSTEM_SLEEP_PM_OPS(tern_suspend, tern_resume)
	.complete = pm_sleep_ptr(tern_pm_complete),
};
