// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* PCI driver: probe and removal. */

#include <linux/dma-mapping.h>
#include <linux/module.h>
#include <linux/sizes.h>

#include "tern_dev.h"
#ifndef TERN_WITHOUT_RESET
#include "tern_health.h"
#endif
#include "tern_net.h"

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
	/* An SGE has a 32-bit length; whole pages, as in other drivers. */
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
	spin_lock_init(&tdev->dead_lock);
	BLOCKING_INIT_NOTIFIER_HEAD(&tdev->events);
	INIT_WORK(&tdev->async_work, tern_async_work);
	INIT_DELAYED_WORK(&tdev->health_work, tern_health_work);
	tern_aq_init(tdev);
#ifndef TERN_WITHOUT_RESET
	tern_health_init(tdev);
#endif
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
	err = tern_alloc_vectors(tdev);
	if (err)
		goto unmap;
	/* Before any event can refer to it. */
	err = tern_net_alloc(tdev);
	if (err)
		goto free_vectors;
	devl_lock(priv_to_devlink(tdev));
	err = tern_hw_up(tdev);
	if (err)
		goto free_net;
	err = tern_devlink_port_register(tdev);
	if (err)
		goto hw_down;
	err = tern_net_register(tdev->net);
	if (err)
		goto unregister_port;
#ifndef TERN_WITHOUT_VERBS
	tern_adev_add(tdev);
#endif
	err = tern_devlink_register(tdev);
	if (err)
		goto unregister_net;

#ifndef TERN_WITHOUT_RESET
	/* Error recovery restores the configuration from here. */
	pci_save_state(pdev);
#endif
	pci_set_drvdata(pdev, tdev);
#ifndef TERN_WITHOUT_RESET
	tern_health_start(tdev);
#endif
#ifndef TERN_WITHOUT_DEBUGFS
	tern_debugfs_add(tdev);
#endif
	devl_unlock(priv_to_devlink(tdev));
	return 0;

unregister_net:
#ifndef TERN_WITHOUT_VERBS
	tern_adev_del(tdev);
#endif
	tern_net_unregister(tdev->net);
unregister_port:
	devl_port_unregister(&tdev->devlink_port);
hw_down:
	tern_hw_down(tdev);
free_net:
	devl_unlock(priv_to_devlink(tdev));
	tern_net_free(tdev->net);
free_vectors:
	pci_free_irq_vectors(pdev);
unmap:
	tern_unmap(tdev);
pci_disable:
	tern_pci_disable(pdev);
free_dev:
	devlink_free(priv_to_devlink(tdev));
	return err;
}

static void tern_remove(struct pci_dev *pdev)
{
	struct tern_dev *tdev = pci_get_drvdata(pdev);

	/* Do not wait for the answer of a removed device. */
	tern_dev_check(tdev);
#ifndef TERN_WITHOUT_DEBUGFS
	tern_debugfs_remove(tdev);
#endif
	tern_devlink_unregister(tdev);
	devl_lock(priv_to_devlink(tdev));
#ifndef TERN_WITHOUT_VERBS
	tern_adev_del(tdev);
#endif
	tern_net_unregister(tdev->net);
	devl_port_unregister(&tdev->devlink_port);
	if (test_bit(TERN_DEV_UP, &tdev->flags))
		tern_hw_down(tdev);
	devl_unlock(priv_to_devlink(tdev));
	tern_net_free(tdev->net);
	pci_free_irq_vectors(pdev);
	tern_unmap(tdev);
	tern_pci_disable(pdev);
	devlink_free(priv_to_devlink(tdev));
}

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
#ifndef TERN_WITHOUT_RESET
	.shutdown	= tern_shutdown,
	.err_handler	= &tern_err_handler,
	.driver.pm	= pm_sleep_ptr(&tern_pm_ops),
#endif
};

#ifdef TERN_WITHOUT_DEBUGFS
module_pci_driver(tern_pci_driver);
#else
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
#endif

MODULE_DESCRIPTION("tern Ethernet adapter");
MODULE_LICENSE("Dual BSD/GPL");
