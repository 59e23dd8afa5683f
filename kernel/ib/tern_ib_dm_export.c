// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Device memory as dma-bufs: ib_core is the exporter, and revokes the memory when
 * the context or the device goes.
 */

#include <linux/pci-p2pdma.h>

#include "tern_ib.h"

struct rdma_user_mmap_entry *
tern_pgoff_to_mmap_entry(struct ib_ucontext *ibucontext, off_t offset)
{
	return rdma_user_mmap_entry_get_pgoff(ibucontext, offset >> PAGE_SHIFT);
}

int tern_mmap_get_pfns(struct rdma_user_mmap_entry *rdma_entry,
		       struct phys_vec *vec, struct p2pdma_provider **provider)
{
	struct tern_ib_dev *dev = to_tdev(rdma_entry->ucontext->device);
	struct tern_mmap_entry *entry = to_tmmap(rdma_entry);

	/* The other pages belong to one process. */
	if (entry->type != TERN_MMAP_DM)
		return tern_refuse(dev, -EINVAL, "no device memory to export");

	*provider = pcim_p2pdma_provider(dev->core->pdev, TERN_BAR_DM);
	/* The kernel has no peer-to-peer DMA. */
	if (!*provider)
		return tern_refuse(dev, -EOPNOTSUPP, "no peer-to-peer DMA");

	vec->paddr = entry->address;
	vec->len = rdma_entry->npages * PAGE_SIZE;
	return 0;
}

/* Prepares the BARs for peer-to-peer DMA. Returns 0 or a negative errno. */
int tern_dm_export_init(struct tern_ib_dev *dev)
{
	int err = pcim_p2pdma_init(dev->core->pdev);

	return err == -EOPNOTSUPP ? 0 : err;
}
