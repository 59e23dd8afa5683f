// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* On-demand memory in ib_core: mapping of its pages for DMA. */

#include <linux/hmm.h>
#include <linux/pci-p2pdma.h>

#include "tern_ib_odp.h"

/**
 * tern_umem_odp_map() - bring pages of on-demand memory into a stable state
 * @umem: the memory
 * @va: user virtual address
 * @bytes: length in bytes
 *
 * Return: the number of pages, with umem_mutex held, or a negative errno. Pages
 * that are not in memory stay absent.
 */
int tern_umem_odp_map(struct ib_umem_odp *umem, u64 va, u64 bytes)
{
	return ib_umem_odp_map_dma_and_lock(umem, va, bytes, 0, false);
}

/**
 * tern_umem_odp_entry() - map a page for DMA
 * @umem: the memory, with umem_mutex held
 * @index: index of the page in @umem
 * @writable: the region has a right to write
 * @entry: output: the page list entry, 0 for a page that is not in memory
 *
 * Return: 0 or -EFAULT.
 */
int tern_umem_odp_entry(struct ib_umem_odp *umem, size_t index, bool writable,
			u64 *entry)
{
	struct device *dma_dev = umem->umem.ibdev->dma_device;
	unsigned long pfn = umem->map.pfn_list[index];
	struct pci_p2pdma_map_state p2pdma = {};
	dma_addr_t dma;

	*entry = 0;
	if (!(pfn & HMM_PFN_VALID))
		return 0;

	dma = hmm_dma_map_pfn(dma_dev, &umem->map, index, &p2pdma);
	if (dma_mapping_error(dma_dev, dma))
		return -EFAULT;

	/* A page that was mapped before may have become writable. */
	if (!(pfn & HMM_PFN_DMA_MAPPED))
		umem->npages++;
	*entry = dma | TERN_PAGE_READ;
	if (writable && pfn & HMM_PFN_WRITE)
		*entry |= TERN_PAGE_WRITE;
	return 0;
}
