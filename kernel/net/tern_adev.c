// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* The auxiliary device that the RDMA driver binds to, and what else only that driver uses. */

#include <linux/auxiliary_bus.h>
#include <linux/cpumask.h>
#include <linux/idr.h>
#include <linux/slab.h>

#include "tern_dev.h"
#include "tern_util.h"

static DEFINE_IDA(tern_adev_ida);

static void tern_adev_release(struct device *dev)
{
	struct tern_adev *adev = container_of(dev, struct tern_adev, adev.dev);

	ida_free(&tern_adev_ida, adev->adev.id);
	kfree(adev);
}

/* What the RDMA driver needs of the capabilities. */
static void tern_adev_fill_core(struct tern_dev *tdev)
{
	struct tern_core *core = &tdev->core;

	core->dm_size = min_t(u64, le64_to_cpu(tdev->caps.dm_size),
			      pci_resource_len(core->pdev, TERN_BAR_DM));
	core->dm_phys = core->dm_size ?
			pci_resource_start(core->pdev, TERN_BAR_DM) : 0;
	/* The other vectors are for channels of the netdev. */
	core->num_comp_vectors = min(tern_num_comp_vectors(tdev->num_vectors),
				     num_online_cpus());
}

/* Failure is not fatal: the network device works without an RDMA device. */
void tern_adev_add(struct tern_dev *tdev)
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

	tern_adev_fill_core(tdev);
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

void tern_adev_del(struct tern_dev *tdev)
{
	struct tern_adev *adev = tdev->adev;

	if (!adev)
		return;
	tdev->adev = NULL;
	auxiliary_device_delete(&adev->adev);
	auxiliary_device_uninit(&adev->adev);
}

/*
 * Whether the function failed, was reset or was removed. Its objects are gone then
 * and it does no DMA, so destroying an object counts as success.
 */
bool tern_core_dead(struct tern_core *core)
{
	return tern_dev_dead(core_to_tdev(core));
}
EXPORT_SYMBOL_GPL(tern_core_dead);

/*
 * Stops a device that may access memory it must not access. On return the function
 * does no DMA. Any context.
 */
void tern_core_stop(struct tern_core *core)
{
	tern_dev_kill(core_to_tdev(core));
}
EXPORT_SYMBOL_GPL(tern_core_stop);

/*
 * Creates a completion event queue on completion vector 0..num_comp_vectors - 1 with
 * space for at least @nent events: the completion queues that will be mapped to it.
 * @handler is called for each in hard interrupt context. Process context.
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

/*
 * @nb is called in process context, for one event at a time, with TERN_EV_* and a
 * const struct tern_eqe *, or with TERN_CORE_EV_DEAD and NULL.
 */
int tern_register_event_notifier(struct tern_core *core, struct notifier_block *nb)
{
	return blocking_notifier_chain_register(&core_to_tdev(core)->events, nb);
}
EXPORT_SYMBOL_GPL(tern_register_event_notifier);

/* @nb is not running, and will not be called, after this returned. */
void tern_unregister_event_notifier(struct tern_core *core, struct notifier_block *nb)
{
	blocking_notifier_chain_unregister(&core_to_tdev(core)->events, nb);
}
EXPORT_SYMBOL_GPL(tern_unregister_event_notifier);
