// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Memory of kernel queues: pages of coherent memory, allocated one by one. */

#ifndef TERN_WITHOUT_KUNIT
#include <kunit/static_stub.h>
#endif
#include <linux/dma-mapping.h>
#include <linux/slab.h>

#include "tern_ib.h"

/*
 * A queue has many pages, and a peer can cause its creation: fail rather than
 * kill processes or complain.
 */
#define TERN_COHERENT_GFP	(GFP_KERNEL | __GFP_RETRY_MAYFAIL | __GFP_NOWARN)

/* Allocates zeroed memory that the device reads and writes. */
void *tern_coherent_alloc(struct tern_ib_dev *dev, size_t size, dma_addr_t *dma)
{
#ifndef TERN_WITHOUT_KUNIT
	KUNIT_STATIC_STUB_REDIRECT(tern_coherent_alloc, dev, size, dma);
#endif
	return dma_alloc_coherent(&dev->core->pdev->dev, size, dma,
				  TERN_COHERENT_GFP);
}

void tern_coherent_free(struct tern_ib_dev *dev, size_t size, void *cpu,
			dma_addr_t dma)
{
#ifndef TERN_WITHOUT_KUNIT
	KUNIT_STATIC_STUB_REDIRECT(tern_coherent_free, dev, size, cpu, dma);
#endif
	dma_free_coherent(&dev->core->pdev->dev, size, cpu, dma);
}

static void tern_report_kept(struct tern_ib_dev *dev, size_t size, int err)
{
	ibdev_err_ratelimited(&dev->ibdev,
			      "device keeps an object (%d), %zu bytes are not freed\n",
			      err, size);
}

/* May sleep. */
int tern_kpage_alloc(struct tern_ib_dev *dev, struct tern_kpage *page)
{
	page->cpu = tern_coherent_alloc(dev, PAGE_SIZE, &page->dma);
	return page->cpu ? 0 : -ENOMEM;
}

/* @page may be all zero. */
void tern_kpage_free(struct tern_ib_dev *dev, struct tern_kpage *page)
{
	if (page->cpu)
		tern_coherent_free(dev, PAGE_SIZE, page->cpu, page->dma);
	page->cpu = NULL;
}

/* @err is that of tern_ib_destroy(): a page that the device may use is never freed. */
void tern_kpage_done(struct tern_ib_dev *dev, struct tern_kpage *page, int err)
{
	if (!err)
		tern_kpage_free(dev, page);
	else if (page->cpu)
		tern_report_kept(dev, PAGE_SIZE, err);
}

/*
 * Allocates zeroed memory for a kernel queue: a ring of @ring_size bytes, not 0, and a
 * record of @record_size bytes, a power of two. It consists of single pages; an entry
 * whose offset is a multiple of its size, a power of two, does not cross a page.
 *
 * Returns 0; -EINVAL if the device cannot read the page list of the ring; -ENOMEM. May
 * sleep.
 */
int tern_kbuf_alloc(struct tern_ib_dev *dev, struct tern_kbuf *kbuf,
		    u64 ring_size, size_t record_size)
{
	u64 record = ALIGN(ring_size, (u64)record_size);
	u64 ring_pages = ((ring_size - 1) >> PAGE_SHIFT) + 1;
	unsigned int i;

	/* As in user queues, offsets have 32 bits. */
	if (record > U32_MAX ||
	    ring_pages > tern_table_limit(dev->core->caps))
		return tern_refuse(dev, -EINVAL, "queue of %llu bytes", ring_size);

	/* Aligned to its size, the record does not cross a page either. */
	kbuf->ring_pages = ring_pages;
	kbuf->num_pages = (record >> PAGE_SHIFT) + 1;
	kbuf->pages = kvzalloc_objs(*kbuf->pages, kbuf->num_pages);
	if (!kbuf->pages)
		return -ENOMEM;

	for (i = 0; i < kbuf->num_pages; i++)
		if (tern_kpage_alloc(dev, &kbuf->pages[i]))
			goto err_free_pages;

	kbuf->record = tern_kpage_at(kbuf->pages, record);
	kbuf->record_dma = kbuf->pages[i - 1].dma + offset_in_page(record);
	return 0;

err_free_pages:
	tern_kbuf_free(dev, kbuf);
	return -ENOMEM;
}

/* The device no longer uses the memory, which may be all zero. */
void tern_kbuf_free(struct tern_ib_dev *dev, struct tern_kbuf *kbuf)
{
	unsigned int i;

	if (!kbuf->pages)
		return;

	kvfree(kbuf->posted);
	kbuf->posted = NULL;
	for (i = 0; i < kbuf->num_pages; i++)
		tern_kpage_free(dev, &kbuf->pages[i]);
	kvfree(kbuf->pages);
	kbuf->pages = NULL;
}

/* @err is that of tern_ib_destroy(): pages that the device may write are never freed. */
void tern_kbuf_done(struct tern_ib_dev *dev, struct tern_kbuf *kbuf, int err)
{
	if (!err) {
		tern_kbuf_free(dev, kbuf);
	} else if (kbuf->pages) {
		tern_report_kept(dev, (size_t)kbuf->num_pages << PAGE_SHIFT,
				 err);
		kvfree(kbuf->posted);
		kbuf->posted = NULL;
		kvfree(kbuf->pages);
		kbuf->pages = NULL;
	}
}
