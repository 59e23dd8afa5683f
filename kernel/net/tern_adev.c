// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* The auxiliary device that the RDMA driver binds to. */

#include <linux/auxiliary_bus.h>
#include <linux/idr.h>
#include <linux/slab.h>

#include "tern_dev.h"

static DEFINE_IDA(tern_adev_ida);

static void tern_adev_release(struct device *dev)
{
	struct tern_adev *adev = container_of(dev, struct tern_adev, adev.dev);

	ida_free(&tern_adev_ida, adev->adev.id);
	kfree(adev);
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
