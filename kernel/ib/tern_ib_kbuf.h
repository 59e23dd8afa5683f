/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Memory of kernel queues, which they share with the device. Part of tern_ib.h. */
#ifndef TERN_IB_KBUF_H
#define TERN_IB_KBUF_H

#include <linux/mm.h>
#include <linux/types.h>

struct tern_ib_dev;
struct tern_posted;

/* Page of coherent memory. @cpu is NULL if there is none. */
struct tern_kpage {
	void *cpu;
	dma_addr_t dma;
};

/* Memory of a kernel queue: the ring, followed by the doorbell record. */
struct tern_kbuf {
	/* The pages, which need not be adjacent; NULL if there are none. */
	struct tern_kpage *pages;
	unsigned int num_pages;	/* number of @pages */
	/* Number of pages that hold entries of the ring: the first ones. */
	unsigned int ring_pages;
	void *record;	/* the record, in the last page */
	dma_addr_t record_dma;	/* DMA address of the record */
	/* The requests of the queues, NULL for a CQ; not shared with the device. */
	struct tern_posted *posted;
};

int tern_kpage_alloc(struct tern_ib_dev *dev, struct tern_kpage *page);
void tern_kpage_free(struct tern_ib_dev *dev, struct tern_kpage *page);
void tern_kpage_done(struct tern_ib_dev *dev, struct tern_kpage *page, int err);
int tern_kbuf_alloc(struct tern_ib_dev *dev, struct tern_kbuf *kbuf,
		    u64 ring_size, size_t record_size);
void tern_kbuf_free(struct tern_ib_dev *dev, struct tern_kbuf *kbuf);
void tern_kbuf_done(struct tern_ib_dev *dev, struct tern_kbuf *kbuf, int err);
void *tern_coherent_alloc(struct tern_ib_dev *dev, size_t size,
			  dma_addr_t *dma);
void tern_coherent_free(struct tern_ib_dev *dev, size_t size, void *cpu,
			dma_addr_t dma);

/* Address of an entry that does not cross a page, at an offset in bytes. */
static inline void *tern_kpage_at(const struct tern_kpage *pages, size_t offset)
{
	return pages[offset >> PAGE_SHIFT].cpu + offset_in_page(offset);
}

#endif /* TERN_IB_KBUF_H */
