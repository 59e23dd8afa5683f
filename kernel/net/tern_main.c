// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* The PCI function: found, reset, brought up, taken down, given to the RDMA driver. */

#include <kunit/visibility.h>
#include <linux/dma-mapping.h>
#include <linux/idr.h>
#include <linux/io.h>
#include <linux/io-64-nonatomic-lo-hi.h>
#include <linux/iopoll.h>
#include <linux/module.h>
#include <linux/sizes.h>
#include <linux/slab.h>

#include "tern_dev.h"
#include "tern_devlink.h"
#include "tern_net.h"
#include "tern_util.h"

#define TERN_RESET_TIMEOUT_US	(10 * USEC_PER_SEC)
#define TERN_RESET_POLL_US	1000
#define TERN_HEALTH_INTERVAL	HZ

static DEFINE_IDA(tern_adev_ida);

static u32 tern_read(struct tern_dev *tdev, u32 reg)
{
	return readl(tdev->regs + reg);
}

static void tern_write(struct tern_dev *tdev, u32 reg, u32 value)
{
	writel(value, tdev->regs + reg);
}

static void tern_write_addr(struct tern_dev *tdev, u32 reg_lo, dma_addr_t addr)
{
	static_assert(TERN_REG_AQ_BASE_HI - TERN_REG_AQ_BASE_LO == 4);
	static_assert(TERN_REG_ACQ_BASE_HI - TERN_REG_ACQ_BASE_LO == 4);

	tern_write(tdev, reg_lo, lower_32_bits(addr));
	tern_write(tdev, reg_lo + 4, upper_32_bits(addr));
}

/* Rings @command (TERN_DB_CMD_*) for queue @number on doorbell page 0. Any context. */
void tern_ring(struct tern_core *core, u32 command, u32 number)
{
	writel(FIELD_PREP(TERN_DB_CMD_MASK, command) |
	       FIELD_PREP(TERN_DB_NUM_MASK, number),
	       core->uar_kernel + TERN_UAR_DB);
}
EXPORT_SYMBOL_GPL(tern_ring);

/* The device clock in ns. Any context but NMI. */
u64 tern_read_clock(struct tern_core *core)
{
	struct tern_dev *tdev = core_to_tdev(core);
	unsigned long flags;
	u64 clock;

	spin_lock_irqsave(&tdev->clock_lock, flags);
	clock = lo_hi_readq(tdev->regs + TERN_REG_CLOCK_LO);
	spin_unlock_irqrestore(&tdev->clock_lock, flags);
	return clock;
}
EXPORT_SYMBOL_GPL(tern_read_clock);

/**
 * tern_core_dead() - whether the function answers no command any more
 * @core: the function
 *
 * Return: true once it is fatal, reset or gone. Its objects are gone too, and it
 * does no DMA: whoever destroys an object has succeeded.
 */
bool tern_core_dead(struct tern_core *core)
{
	return tern_dev_dead(core_to_tdev(core));
}
EXPORT_SYMBOL_GPL(tern_core_dead);

/*
 * Declares the device dead, for reason TERN_FATAL_*: no DMA, commands fail, listeners
 * are told. Any context.
 * Its steps are one under the lock, so nothing of it is left to do once another
 * thread has passed tern_dev_retire().
 */
static void tern_dev_fail(struct tern_dev *tdev, u32 fatal)
{
	unsigned long flags;

	spin_lock_irqsave(&tdev->dead_lock, flags);
	if (!tern_dev_dead(tdev)) {
		/* First: whoever sees the bit frees the memory that the device was given. */
		pci_clear_master(tdev->core.pdev);
		WRITE_ONCE(tdev->fatal, fatal);
		set_bit(TERN_DEV_DEAD, &tdev->flags);
		tern_aq_fail_all(tdev);
		set_bit(TERN_DEV_TELL_DEAD, &tdev->flags);
		schedule_work(&tdev->async_work);
	}
	spin_unlock_irqrestore(&tdev->dead_lock, flags);
}

/* Declares a device dead that has not failed by itself. Any context. */
void tern_dev_kill(struct tern_dev *tdev)
{
	tern_dev_fail(tdev, TERN_FATAL_NONE);
}
EXPORT_SYMBOL_IF_KUNIT(tern_dev_kill);

/* Declares the device dead without telling anybody: its driver takes it down. */
VISIBLE_IF_KUNIT void tern_dev_retire(struct tern_dev *tdev)
{
	unsigned long flags;

	spin_lock_irqsave(&tdev->dead_lock, flags);
	set_bit(TERN_DEV_DEAD, &tdev->flags);
	tern_aq_fail_all(tdev);
	spin_unlock_irqrestore(&tdev->dead_lock, flags);
}
EXPORT_SYMBOL_IF_KUNIT(tern_dev_retire);

/* Looks at the device's pulse. False, and the device is declared dead, without one. */
bool tern_dev_check(struct tern_dev *tdev)
{
	u32 status = tern_read(tdev, TERN_REG_STATUS);
	u32 fatal = TERN_FATAL_NONE;

	if (tern_dev_dead(tdev))
		return false;
	/* One that is enabled no more was reset behind our back. */
	if (status != TERN_REG_GONE &&
	    (status & (TERN_STATUS_ENABLED | TERN_STATUS_FATAL)) == TERN_STATUS_ENABLED)
		return true;
	if (status != TERN_REG_GONE && status & TERN_STATUS_FATAL) {
		fatal = tern_read(tdev, TERN_REG_FATAL);
		dev_err(tern_dma_dev(tdev), "device failed, reason %u\n", fatal);
	}
	tern_dev_fail(tdev, fatal);
	return false;
}

/* Whether the function was pulled out. */
bool tern_dev_gone(struct tern_dev *tdev)
{
	return tern_read(tdev, TERN_REG_STATUS) == TERN_REG_GONE;
}

static void tern_health_work(struct work_struct *work)
{
	struct tern_dev *tdev = container_of(to_delayed_work(work),
					     struct tern_dev, health_work);

	if (!tern_dev_check(tdev))
		return;
	/* Should an interrupt get lost, its answers and events are not. */
	tern_aq_reap(tdev);
	if (tern_async_eq_pending(tdev))
		schedule_work(&tdev->async_work);
	schedule_delayed_work(&tdev->health_work, TERN_HEALTH_INTERVAL);
}

/* Waits until the bits of @mask read @want in STATUS. */
static int tern_wait_status(struct tern_dev *tdev, u32 mask, u32 want)
{
	u32 status;
	int err;

	err = read_poll_timeout(tern_read, status,
				status == TERN_REG_GONE ||
				status & TERN_STATUS_FATAL & ~mask ||
				(status & mask) == want,
				TERN_RESET_POLL_US, TERN_RESET_TIMEOUT_US, false,
				tdev, TERN_REG_STATUS);
	if (err)
		return err;
	return (status & mask) == want && status != TERN_REG_GONE ? 0 : -EIO;
}

static int tern_hw_reset(struct tern_dev *tdev)
{
	tern_write(tdev, TERN_REG_CTRL, TERN_CTRL_RESET);
	return tern_wait_status(tdev, TERN_STATUS_READY | TERN_STATUS_ENABLED |
				TERN_STATUS_FATAL, TERN_STATUS_READY);
}

static int tern_hw_check_version(struct tern_dev *tdev)
{
	u32 magic = tern_read(tdev, TERN_REG_MAGIC);
	u32 version = tern_read(tdev, TERN_REG_VERSION);

	if (magic != TERN_MAGIC)
		return -ENODEV;
	if (version >> 16 != TERN_VERSION_MAJOR) {
		dev_err(tern_dma_dev(tdev), "device has version %u, driver knows %u\n",
			version >> 16, TERN_VERSION_MAJOR);
		return -EOPNOTSUPP;
	}
	return 0;
}

static int tern_hw_enable(struct tern_dev *tdev)
{
	struct tern_aq *aq = &tdev->aq;

	tern_write(tdev, TERN_REG_PAGE_SHIFT, PAGE_SHIFT);
	tern_write_addr(tdev, TERN_REG_AQ_BASE_LO,
			aq->dma + offsetof(struct tern_aq_mem, aq));
	tern_write_addr(tdev, TERN_REG_ACQ_BASE_LO,
			aq->dma + offsetof(struct tern_aq_mem, acq));
	tern_write(tdev, TERN_REG_AQ_LOG_SIZE, TERN_AQ_LOG_SIZE);
	tern_write(tdev, TERN_REG_CTRL, TERN_CTRL_ENABLE);
	return tern_wait_status(tdev, TERN_STATUS_ENABLED, TERN_STATUS_ENABLED);
}

static int tern_hw_query_caps(struct tern_dev *tdev)
{
	struct tern_core *core = &tdev->core;
	struct tern_rsp_caps *caps = &tdev->caps;
	int err;

	err = tern_cmd_exec(core, TERN_CMD_QUERY_CAPS, NULL, 0, caps, sizeof(*caps));
	if (err)
		return err;
	if (!caps->max_eth_queues || caps->num_ports < TERN_ETH_PORT)
		return -EOPNOTSUPP;

	caps->fw_name[sizeof(caps->fw_name) - 1] = '\0';
	core->dm_size = min_t(u64, le64_to_cpu(caps->dm_size),
			      pci_resource_len(core->pdev, TERN_BAR_DM));
	core->dm_phys = core->dm_size ?
			pci_resource_start(core->pdev, TERN_BAR_DM) : 0;
	core->num_comp_vectors = tern_num_comp_vectors(tdev->num_vectors);
	return 0;
}

static int tern_hw_alloc_vectors(struct tern_dev *tdev)
{
	/* Admin, netdev, and a completion vector for each processor. */
	int n = pci_alloc_irq_vectors(tdev->core.pdev, 1, num_online_cpus() + 2,
				      PCI_IRQ_MSIX);

	if (n < 0)
		return n;
	tdev->num_vectors = n;
	return 0;
}

/* From reset to a device that answers commands and reports events. */
static int tern_hw_up(struct tern_dev *tdev)
{
	struct pci_dev *pdev = tdev->core.pdev;
	int err;

	err = tern_hw_check_version(tdev);
	if (err)
		return err;
	err = tern_hw_reset(tdev);
	if (err)
		return err;
	err = tern_hw_alloc_vectors(tdev);
	if (err)
		return err;
	err = tern_aq_alloc(tdev);
	if (err)
		goto free_vectors;
	err = tern_async_eq_alloc(tdev);
	if (err)
		goto free_aq;
	err = pci_request_irq(pdev, 0, tern_admin_irq, NULL, tdev,
			      "tern-admin@pci:%s", pci_name(pdev));
	if (err)
		goto free_async_eq;

	pci_set_master(pdev);
	err = tern_hw_enable(tdev);
	if (err)
		goto reset;
	clear_bit(TERN_DEV_DEAD, &tdev->flags);
	err = tern_hw_query_caps(tdev);
	if (err)
		goto kill;
	err = tern_async_eq_start(tdev);
	if (err)
		goto kill;

	schedule_delayed_work(&tdev->health_work, TERN_HEALTH_INTERVAL);
	set_bit(TERN_DEV_UP, &tdev->flags);
	return 0;

kill:
	tern_dev_kill(tdev);
reset:
	tern_hw_reset(tdev);
	pci_clear_master(pdev);
	pci_free_irq(pdev, 0, tdev);
	cancel_work_sync(&tdev->async_work);
	clear_bit(TERN_DEV_TELL_DEAD, &tdev->flags);
free_async_eq:
	tern_async_eq_free(tdev);
free_aq:
	tern_aq_free(tdev);
free_vectors:
	pci_free_irq_vectors(pdev);
	return err;
}

/* Back to a reset device. Nobody uses it any more but late readers of counters. */
static void tern_hw_down(struct tern_dev *tdev)
{
	struct pci_dev *pdev = tdev->core.pdev;

	clear_bit(TERN_DEV_UP, &tdev->flags);
	tern_async_eq_stop(tdev);
	tern_dev_retire(tdev);
	tern_hw_reset(tdev);
	pci_clear_master(pdev);

	pci_free_irq(pdev, 0, tdev);
	cancel_delayed_work_sync(&tdev->health_work);
	cancel_work_sync(&tdev->async_work);
	clear_bit(TERN_DEV_TELL_DEAD, &tdev->flags);
	tern_async_eq_free(tdev);
	tern_aq_free(tdev);
	pci_free_irq_vectors(pdev);
}

static void tern_adev_release(struct device *dev)
{
	struct tern_adev *adev = container_of(dev, struct tern_adev, adev.dev);

	ida_free(&tern_adev_ida, adev->adev.id);
	kfree(adev);
}

/* Without an RDMA device the network device is of use all the same. */
static void tern_adev_add(struct tern_dev *tdev)
{
	struct tern_adev *adev;
	int id;

	if (tdev->adev)
		return;
	adev = kzalloc_obj(*adev);
	if (!adev)
		return;
	id = ida_alloc(&tern_adev_ida, GFP_KERNEL);
	if (id < 0)
		goto free_adev;

	adev->core = &tdev->core;
	adev->adev.name = TERN_AUX_RDMA_NAME;
	adev->adev.id = id;
	adev->adev.dev.parent = tern_dma_dev(tdev);
	adev->adev.dev.release = tern_adev_release;
	if (auxiliary_device_init(&adev->adev))
		goto free_id;
	if (auxiliary_device_add(&adev->adev)) {
		auxiliary_device_uninit(&adev->adev);
		return;
	}
	tdev->adev = adev;
	return;

free_id:
	ida_free(&tern_adev_ida, id);
free_adev:
	kfree(adev);
}

static void tern_adev_del(struct tern_dev *tdev)
{
	struct tern_adev *adev = tdev->adev;

	if (!adev)
		return;
	tdev->adev = NULL;
	auxiliary_device_delete(&adev->adev);
	auxiliary_device_uninit(&adev->adev);
}

/* Takes everything off the device, the registered netdev stays. Devlink lock held. */
static void tern_quiesce(struct tern_dev *tdev)
{
	if (!test_bit(TERN_DEV_UP, &tdev->flags))
		return;
	tern_adev_del(tdev);
	tern_net_detach(tdev->net);
	tern_hw_down(tdev);
}

/* Undoes tern_quiesce() but for the auxiliary device. Devlink lock held. */
static int tern_revive(struct tern_dev *tdev)
{
	int err;

	if (test_bit(TERN_DEV_UP, &tdev->flags))
		return 0;
	err = tern_hw_up(tdev);
	if (err) {
		dev_err(tern_dma_dev(tdev), "reset failed: %d\n", err);
		return err;
	}
	tern_net_attach(tdev->net);
	return 0;
}

/* Takes the device down until tern_release(): nothing else may bring it up. */
static void tern_hold(struct tern_dev *tdev)
{
	tern_devlink_lock(tdev);
	set_bit(TERN_DEV_HELD, &tdev->flags);
	tern_quiesce(tdev);
	tern_devlink_unlock(tdev);
}

/* Brings the function up again after tern_hold(). */
static int tern_bring_up(struct tern_dev *tdev)
{
	int err;

	tern_devlink_lock(tdev);
	err = tern_revive(tdev);
	tern_devlink_unlock(tdev);
	return err;
}

/* Undoes tern_hold(): a function that is up gets its auxiliary device, another is reported. */
static void tern_release(struct tern_dev *tdev)
{
	tern_devlink_lock(tdev);
	clear_bit(TERN_DEV_HELD, &tdev->flags);
	if (tern_dev_dead(tdev)) {
		schedule_work(&tdev->report_work);
	} else {
		tern_adev_add(tdev);
		tern_devlink_healthy(tdev);
	}
	tern_devlink_unlock(tdev);
}

/* Resets a dead device and starts everything anew. Devlink lock held. */
int tern_dev_recover(struct tern_dev *tdev)
{
	int err;

	if (!tern_dev_dead(tdev))
		return 0;
	tern_quiesce(tdev);
	err = tern_revive(tdev);
	if (!err)
		tern_adev_add(tdev);
	return err;
}

static int tern_map(struct tern_dev *tdev)
{
	struct pci_dev *pdev = tdev->core.pdev;
	struct tern_core *core = &tdev->core;

	if (pci_resource_len(pdev, TERN_BAR_REGS) < TERN_BAR_REGS_SIZE ||
	    pci_resource_len(pdev, TERN_BAR_UAR) < PAGE_SIZE)
		return -ENODEV;

	tdev->regs = pci_iomap(pdev, TERN_BAR_REGS, TERN_BAR_REGS_SIZE);
	if (!tdev->regs)
		return -ENOMEM;
	/* The other doorbell pages belong to user processes. */
	core->uar_kernel = pci_iomap(pdev, TERN_BAR_UAR, PAGE_SIZE);
	if (!core->uar_kernel) {
		pci_iounmap(pdev, tdev->regs);
		return -ENOMEM;
	}
	core->uar_phys = pci_resource_start(pdev, TERN_BAR_UAR);
	core->page_shift = PAGE_SHIFT;
	return 0;
}

static void tern_unmap(struct tern_dev *tdev)
{
	pci_iounmap(tdev->core.pdev, tdev->core.uar_kernel);
	pci_iounmap(tdev->core.pdev, tdev->regs);
}

static int tern_pci_enable(struct pci_dev *pdev)
{
	int err;

	err = pci_enable_device_mem(pdev);
	if (err)
		return err;
	err = dma_set_mask_and_coherent(&pdev->dev, DMA_BIT_MASK(64));
	if (err)
		goto disable;
	/* An SGE has 32 bits of length; whole pages, as other RDMA devices say it. */
	dma_set_max_seg_size(&pdev->dev, SZ_2G);
	err = pci_request_mem_regions(pdev, TERN_DRV_NAME);
	if (err)
		goto disable;
	return 0;

disable:
	pci_disable_device(pdev);
	return err;
}

static void tern_pci_disable(struct pci_dev *pdev)
{
	pci_release_mem_regions(pdev);
	pci_disable_device(pdev);
}

static struct tern_dev *tern_dev_alloc(struct pci_dev *pdev)
{
	struct tern_dev *tdev;

	tdev = tern_devlink_alloc(pdev);
	if (!tdev)
		return NULL;
	tdev->core.pdev = pdev;
	tdev->core.caps = &tdev->caps;
	tdev->flags = BIT(TERN_DEV_DEAD);
	spin_lock_init(&tdev->clock_lock);
	spin_lock_init(&tdev->dead_lock);
	BLOCKING_INIT_NOTIFIER_HEAD(&tdev->events);
	INIT_WORK(&tdev->async_work, tern_async_work);
	INIT_DELAYED_WORK(&tdev->health_work, tern_health_work);
	tern_aq_init(tdev);
	return tdev;
}

static int tern_probe(struct pci_dev *pdev, const struct pci_device_id *id)
{
	struct tern_dev *tdev;
	int err;

	BUILD_BUG_ON(PAGE_SHIFT < TERN_PAGE_SHIFT_MIN);
	BUILD_BUG_ON(PAGE_SHIFT > TERN_PAGE_SHIFT_MAX);

	tdev = tern_dev_alloc(pdev);
	if (!tdev)
		return -ENOMEM;
	err = tern_pci_enable(pdev);
	if (err)
		goto free_dev;
	err = tern_map(tdev);
	if (err)
		goto pci_disable;
	/* Before the events that speak of it. */
	err = tern_net_alloc(tdev);
	if (err)
		goto unmap;
	tern_devlink_lock(tdev);
	err = tern_hw_up(tdev);
	if (err)
		goto free_net;
	err = tern_devlink_port_register(tdev);
	if (err)
		goto hw_down;
	err = tern_net_register(tdev->net);
	if (err)
		goto unregister_port;
	tern_debugfs_add(tdev);
	tern_adev_add(tdev);
	err = tern_devlink_register(tdev);
	if (err)
		goto unregister_net;

	/* Error recovery wants the configuration as it is now. */
	pci_save_state(pdev);
	pci_set_drvdata(pdev, tdev);
	tern_devlink_unlock(tdev);
	return 0;

unregister_net:
	tern_adev_del(tdev);
	tern_debugfs_remove(tdev);
	tern_net_unregister(tdev->net);
unregister_port:
	tern_devlink_port_unregister(tdev);
hw_down:
	tern_hw_down(tdev);
free_net:
	tern_devlink_unlock(tdev);
	tern_net_free(tdev->net);
unmap:
	tern_unmap(tdev);
pci_disable:
	tern_pci_disable(pdev);
free_dev:
	tern_devlink_free(tdev);
	return err;
}

static void tern_remove(struct pci_dev *pdev)
{
	struct tern_dev *tdev = pci_get_drvdata(pdev);

	/* A device that was pulled out answers nobody: do not wait for it. */
	tern_dev_check(tdev);
	tern_debugfs_remove(tdev);
	tern_devlink_unregister(tdev);
	tern_devlink_lock(tdev);
	tern_adev_del(tdev);
	tern_net_unregister(tdev->net);
	tern_devlink_port_unregister(tdev);
	if (test_bit(TERN_DEV_UP, &tdev->flags))
		tern_hw_down(tdev);
	tern_devlink_unlock(tdev);
	tern_net_free(tdev->net);
	tern_unmap(tdev);
	tern_pci_disable(pdev);
	tern_devlink_free(tdev);
}

static void tern_shutdown(struct pci_dev *pdev)
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
	/* Restoring uses up what was saved. */
	pci_save_state(pdev);
	return tern_bring_up(tdev) ? PCI_ERS_RESULT_DISCONNECT :
				     PCI_ERS_RESULT_RECOVERED;
}

static void tern_error_resume(struct pci_dev *pdev)
{
	tern_release(pci_get_drvdata(pdev));
}

static const struct pci_error_handlers tern_err_handler = {
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

/* Only now a child may be added: tern_resume() runs with children forbidden. */
static void tern_pm_complete(struct device *dev)
{
	tern_error_resume(to_pci_dev(dev));
}

static const struct dev_pm_ops tern_pm_ops = {
	SYSTEM_SLEEP_PM_OPS(tern_suspend, tern_resume)
	.complete = pm_sleep_ptr(tern_pm_complete),
};

static const struct pci_device_id tern_pci_tbl[] = {
	{ PCI_DEVICE(TERN_PCI_VENDOR_ID, TERN_PCI_DEVICE_ID) },
	{ }
};
MODULE_DEVICE_TABLE(pci, tern_pci_tbl);

static struct pci_driver tern_pci_driver = {
	.name		= TERN_DRV_NAME,
	.id_table	= tern_pci_tbl,
	.probe		= tern_probe,
	.remove		= tern_remove,
	.shutdown	= tern_shutdown,
	.err_handler	= &tern_err_handler,
	.driver.pm	= pm_sleep_ptr(&tern_pm_ops),
};

static int __init tern_module_init(void)
{
	int err;

	tern_debugfs_init();
	err = pci_register_driver(&tern_pci_driver);
	if (err)
		tern_debugfs_exit();
	return err;
}
module_init(tern_module_init);

static void __exit tern_module_exit(void)
{
	pci_unregister_driver(&tern_pci_driver);
	tern_debugfs_exit();
}
module_exit(tern_module_exit);

MODULE_DESCRIPTION("tern Ethernet adapter");
MODULE_LICENSE("Dual BSD/GPL");
