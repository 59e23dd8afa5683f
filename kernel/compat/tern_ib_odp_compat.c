// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Replaces tern_ib_odp_pages.c on kernels whose ib_core maps on-demand pages
 * itself. Not part of the driver.
 */

#include <linux/hmm.h>

#include "../ib/tern_ib_odp.h"

int tern_umem_odp_map(struct ib_umem_odp *umem, u64 va, u64 bytes, void *scratch)
{
	return ib_umem_odp_map_dma_and_lock(umem, va, bytes,
					    ODP_READ_ALLOWED_BIT, false);
}

int tern_umem_odp_entry(struct ib_umem_odp *umem, size_t index, bool writable,
			u64 *entry)
{
	dma_addr_t *dma = &umem->dma_list[index];

	*entry = 0;
	if (!*dma)
		return 0;

	/* ib_core makes a page dirty only if it was mapped for writing. */
	if (writable && umem->pfn_list[index] & HMM_PFN_WRITE)
		*dma |= ODP_WRITE_ALLOWED_BIT;
	else
		*dma &= ~(dma_addr_t)ODP_WRITE_ALLOWED_BIT;
	*entry = (*dma & ODP_DMA_ADDR_MASK) | TERN_PAGE_READ;
	if (*dma & ODP_WRITE_ALLOWED_BIT)
		*entry |= TERN_PAGE_WRITE;
	return 0;
}
