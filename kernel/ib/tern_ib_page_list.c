// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Page lists, which tell the device the memory of a region or queue. */

#include <linux/dma-mapping.h>
#include <linux/slab.h>

#include <rdma/iter.h>

#include "tern_ib.h"

#define TERN_CHUNK_BYTES	(TERN_PAGES_CHUNK * sizeof(__le64))

static_assert(TERN_CHUNK_BYTES == 4096);

static int tern_chunk_alloc(struct tern_chunk *chunk)
{
	chunk->dma = DMA_MAPPING_ERROR;
	chunk->entry = kmalloc(TERN_CHUNK_BYTES, GFP_KERNEL);
	return chunk->entry ? 0 : -ENOMEM;
}

static int tern_chunk_map(struct device *dma_dev, struct tern_chunk *chunk)
{
	chunk->dma = dma_map_single(dma_dev, chunk->entry, TERN_CHUNK_BYTES,
				    DMA_TO_DEVICE);
	return dma_mapping_error(dma_dev, chunk->dma) ? -ENOMEM : 0;
}

static void tern_chunk_unmap(struct device *dma_dev, struct tern_chunk *chunk)
{
	if (chunk->dma == DMA_MAPPING_ERROR)
		return;

	dma_unmap_single(dma_dev, chunk->dma, TERN_CHUNK_BYTES, DMA_TO_DEVICE);
	chunk->dma = DMA_MAPPING_ERROR;
}

/* Maximum number of entries in one command, at least 1. */
u32 tern_table_limit(const struct tern_rsp_caps *caps)
{
	return clamp_t(u32, le32_to_cpu(caps->max_cmd_pages), 1,
		       TERN_TABLE_MAX);
}

/* @max is 1..TERN_TABLE_MAX. tern_table_free() is called after a failure, too. */
int tern_table_init(struct tern_table *table, struct device *dma_dev, u32 max)
{
	unsigned int num_chunks = DIV_ROUND_UP(max, TERN_PAGES_CHUNK);

	*table = (struct tern_table){
		.dma_dev = dma_dev,
		.root.dma = DMA_MAPPING_ERROR,
		.max = max,
	};

	table->chunks = kvcalloc(num_chunks, sizeof(*table->chunks),
				 GFP_KERNEL);
	if (!table->chunks)
		return -ENOMEM;

	if (num_chunks > 1 && tern_chunk_alloc(&table->root))
		return -ENOMEM;

	for (; table->num_chunks < num_chunks; table->num_chunks++)
		if (tern_chunk_alloc(&table->chunks[table->num_chunks]))
			return -ENOMEM;

	return 0;
}

/* No command is reading the table. */
void tern_table_reset(struct tern_table *table)
{
	unsigned int i;

	tern_chunk_unmap(table->dma_dev, &table->root);
	for (i = 0; i < table->num_chunks; i++)
		tern_chunk_unmap(table->dma_dev, &table->chunks[i]);
	table->num = 0;
}

/* No command is reading the table, which may be all zero. */
void tern_table_free(struct tern_table *table)
{
	unsigned int i;

	if (!table->chunks)
		return;

	tern_table_reset(table);
	for (i = 0; i < table->num_chunks; i++)
		kfree(table->chunks[i].entry);
	kfree(table->root.entry);
	kvfree(table->chunks);
	table->chunks = NULL;
}

/* Returns whether the table, which is not mapped, is full now. */
bool tern_table_add(struct tern_table *table, dma_addr_t page)
{
	struct tern_chunk *chunk = &table->chunks[table->num / TERN_PAGES_CHUNK];

	chunk->entry[table->num % TERN_PAGES_CHUNK] = cpu_to_le64(page);
	table->num++;

	return table->num == table->max;
}

/* tern_table_reset() or tern_table_free() undoes it, also after a failure. */
int tern_table_map(struct tern_table *table, unsigned int page_shift,
		   struct tern_pages *pages)
{
	unsigned int used = DIV_ROUND_UP(table->num, TERN_PAGES_CHUNK);
	struct tern_chunk *top = &table->chunks[0];
	unsigned int i;

	for (i = 0; i < used; i++)
		if (tern_chunk_map(table->dma_dev, &table->chunks[i]))
			return -ENOMEM;

	if (used > 1) {
		top = &table->root;
		for (i = 0; i < used; i++)
			top->entry[i] = cpu_to_le64(table->chunks[i].dma);
		if (tern_chunk_map(table->dma_dev, top))
			return -ENOMEM;
	}

	*pages = (struct tern_pages){
		.addr = cpu_to_le64(top->dma),
		.num = cpu_to_le32(table->num),
		.page_shift = page_shift,
		.kind = used > 1 ? TERN_PAGES_INDIRECT : TERN_PAGES_LIST,
	};
	return 0;
}

/* Memory within a single page needs no list. */
static struct tern_pages tern_pages_direct(dma_addr_t addr,
					   unsigned int page_shift)
{
	return (struct tern_pages){
		.addr = cpu_to_le64(addr),
		.num = cpu_to_le32(1),
		.page_shift = page_shift,
		.kind = TERN_PAGES_DIRECT,
	};
}

/* DMA address of the first byte of a umem of a single page. */
static dma_addr_t tern_umem_addr(struct ib_umem *umem, unsigned long pgsz)
{
	struct ib_block_iter biter;
	dma_addr_t page = 0;

	rdma_umem_for_each_dma_block(umem, &biter, pgsz)
		page = rdma_block_iter_dma_address(&biter);

	return page + (umem->iova & (pgsz - 1));
}

/*
 * Describes an entire umem of at most tern_table_limit() pages to the device. @pgsz is
 * from ib_umem_find_best_pgsz(). A single page needs no list: @pages then has the
 * address of the first byte. tern_table_free() frees the list after the command.
 * Returns 0 or -ENOMEM.
 */
int tern_table_from_umem(struct tern_ib_dev *dev, struct tern_table *table,
			 struct ib_umem *umem, unsigned long pgsz,
			 struct tern_pages *pages)
{
	size_t num = ib_umem_num_dma_blocks(umem, pgsz);
	struct ib_block_iter biter;
	int err;

	if (num == 1) {
		*table = (struct tern_table){};
		*pages = tern_pages_direct(tern_umem_addr(umem, pgsz),
					   __ffs(pgsz));
		return 0;
	}

	err = tern_table_init(table, &dev->core->pdev->dev, num);
	if (err)
		goto err_free;

	rdma_umem_for_each_dma_block(umem, &biter, pgsz)
		tern_table_add(table, rdma_block_iter_dma_address(&biter));

	err = tern_table_map(table, __ffs(pgsz), pages);
	if (err)
		goto err_free;

	return 0;

err_free:
	tern_table_free(table);
	return err;
}

/* The same for the buffer of a queue. -EINVAL: not page-aligned, or too long. */
int tern_table_from_queue(struct tern_ib_dev *dev, struct tern_table *table,
			  struct ib_umem *umem, struct tern_pages *pages)
{
	u64 page_sizes = le64_to_cpu(dev->core->caps->page_shift_mask);
	unsigned long pgsz;

	/* With an offset, the umem would unpin fewer pages than it pinned. */
	if (!PAGE_ALIGNED(umem->address))
		return tern_refuse(dev, -EINVAL, "queue at offset %lu of a page",
				   offset_in_page(umem->address));

	pgsz = ib_umem_find_best_pgoff(umem, page_sizes, 0);
	if (!pgsz || ib_umem_num_dma_blocks(umem, pgsz) >
		     tern_table_limit(dev->core->caps))
		return tern_refuse(dev, -EINVAL, "queue of %zu bytes",
				   umem->length);

	return tern_table_from_umem(dev, table, umem, pgsz, pages);
}

/* The same for the ring of a kernel queue. */
int tern_table_from_kbuf(struct tern_ib_dev *dev, struct tern_table *table,
			 const struct tern_kbuf *kbuf, struct tern_pages *pages)
{
	unsigned int i;
	int err;

	if (kbuf->ring_pages == 1) {
		*table = (struct tern_table){};
		*pages = tern_pages_direct(kbuf->pages[0].dma, PAGE_SHIFT);
		return 0;
	}

	err = tern_table_init(table, &dev->core->pdev->dev, kbuf->ring_pages);
	if (err)
		goto err_free;

	for (i = 0; i < kbuf->ring_pages; i++)
		tern_table_add(table, kbuf->pages[i].dma);

	err = tern_table_map(table, PAGE_SHIFT, pages);
	if (err)
		goto err_free;

	return 0;

err_free:
	tern_table_free(table);
	return err;
}
