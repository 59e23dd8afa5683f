// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* On-demand memory in ib_core: mapping of its pages for DMA. */

#include <linux/hmm.h>
#include <linux/jiffies.h>
#include <linux/pci-p2pdma.h>
#include <linux/string.h>

#include "tern_ib_odp.h"

/* How a page is mapped for DMA. */
#define TERN_PFN_DMA	(HMM_PFN_DMA_MAPPED | HMM_PFN_P2PDMA | HMM_PFN_P2PDMA_BUS)

static_assert(sizeof(unsigned long) <= sizeof(__le64));

/*
 * Reads the page table. Returns 0 with umem_mutex held, -EBUSY if pages were
 * invalidated meanwhile, or another negative errno.
 */
static int tern_umem_odp_walk(struct ib_umem_odp *umem, struct hmm_range *range)
{
	struct mm_struct *mm = umem->umem.owning_mm;
	int err;

	range->notifier_seq = mmu_interval_read_begin(range->notifier);
	err = mmap_read_lock_killable(mm);
	if (err)
		return err;
	err = hmm_range_fault(range);
	mmap_read_unlock(mm);
	if (err)
		return err;

	mutex_lock(&umem->umem_mutex);
	if (!mmu_interval_read_retry(range->notifier, range->notifier_seq))
		return 0;

	mutex_unlock(&umem->umem_mutex);
	return -EBUSY;
}

/* A page that is mapped for DMA stays so until it is invalidated. */
static void tern_umem_odp_merge(struct ib_umem_odp *umem, size_t index,
				unsigned long pfn)
{
	unsigned long *entry = &umem->map.pfn_list[index];

	if (pfn & HMM_PFN_VALID)
		*entry = (pfn & ~TERN_PFN_DMA) | (*entry & TERN_PFN_DMA);
	else if (!(*entry & HMM_PFN_DMA_MAPPED))
		*entry = 0;
}

/**
 * tern_umem_odp_map() - bring pages of on-demand memory into a stable state
 * @umem: the memory, whose address space stays meanwhile
 * @va: user virtual address
 * @bytes: length in bytes, at most TERN_ODP_BATCH pages
 * @scratch: memory for TERN_ODP_BATCH page list entries
 *
 * ib_umem_odp_map_dma_and_lock() would write to the list of @umem without
 * umem_mutex, and undo what an invalidation does at the same time.
 *
 * Return: the number of pages, with umem_mutex held, or a negative errno. Pages
 * that are not in memory stay absent.
 */
int tern_umem_odp_map(struct ib_umem_odp *umem, u64 va, u64 bytes, void *scratch)
{
	struct hmm_range range = {
		.notifier = &umem->notifier,
		.start = ALIGN_DOWN(va, PAGE_SIZE),
		.end = ALIGN(va + bytes, PAGE_SIZE),
		.hmm_pfns = scratch,
	};
	unsigned long deadline = jiffies +
				 msecs_to_jiffies(HMM_RANGE_DEFAULT_TIMEOUT);
	size_t first, num, i;
	int err;

	if (va < ib_umem_start(umem) || va + bytes > ib_umem_end(umem))
		return -EFAULT;

	first = (range.start - ib_umem_start(umem)) >> PAGE_SHIFT;
	num = (range.end - range.start) >> PAGE_SHIFT;
	memset(scratch, 0, num * sizeof(*range.hmm_pfns));
	do {
		err = tern_umem_odp_walk(umem, &range);
	} while (err == -EBUSY && time_before(jiffies, deadline));
	if (err)
		return err;

	for (i = 0; i < num; i++)
		tern_umem_odp_merge(umem, first + i, range.hmm_pfns[i]);
	return num;
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
