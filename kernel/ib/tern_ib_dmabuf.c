// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Regions on dma-bufs. Their memory may move: the exporter invalidates it, and
 * the next access is a page fault.
 */

#include <linux/dma-buf.h>
#include <linux/dma-resv.h>
#include <linux/module.h>
#include <linux/slab.h>

#include <rdma/iter.h>

#include "tern_ib_odp.h"

MODULE_IMPORT_NS("DMA_BUF");

static u64 tern_dmabuf_num_pages(const struct tern_odp *odp)
{
	return ib_umem_num_pages(&odp->dmabuf->umem);
}

/* The exporter moves or revokes the memory. Its reservation lock is held. */
static void tern_dmabuf_invalidate(struct dma_buf_attachment *attach)
{
	struct ib_umem_dmabuf *umem = attach->importer_priv;
	struct tern_odp *odp = umem->private;

	/* A region that is not mapped yet has nothing to invalidate. */
	if (!umem->sgt || !odp)
		return;

	tern_odp_clear(odp, 0, tern_dmabuf_num_pages(odp));
	atomic64_add(tern_dmabuf_num_pages(odp), &odp->invalidations);
	ib_umem_dmabuf_unmap_pages(umem);
}

static struct dma_buf_attach_ops tern_dmabuf_ops = {
	.allow_peer2peer = true,
	.invalidate_mappings = tern_dmabuf_invalidate,
};

static int tern_dmabuf_update(struct tern_odp *odp, struct tern_table *table)
{
	u64 bits = TERN_PAGE_READ;
	struct ib_block_iter biter;
	u64 first = 0;
	int err;

	if (tern_odp_writable(odp))
		bits |= TERN_PAGE_WRITE;

	rdma_umem_for_each_dma_block(&odp->dmabuf->umem, &biter, PAGE_SIZE) {
		if (!tern_table_add(table, rdma_block_iter_dma_address(&biter) |
					   bits))
			continue;

		err = tern_odp_update(odp, first, table);
		if (err)
			return err;
		first += table->max;
	}

	return table->num ? tern_odp_update(odp, first, table) : 0;
}

/**
 * tern_dmabuf_map() - make all pages of a dma-buf present in the device
 * @odp: the region
 *
 * Return: number of pages, or a negative errno.
 */
long tern_dmabuf_map(struct tern_odp *odp)
{
	struct dma_resv *resv = odp->dmabuf->attach->dmabuf->resv;
	struct tern_table table;
	int err;

	/* Not under the reservation lock, which memory reclaim may take. */
	err = tern_table_init(&table, &odp->dev->core->pdev->dev,
			      tern_odp_batch(odp));
	if (err)
		goto free;

	dma_resv_lock(resv, NULL);
	err = ib_umem_dmabuf_map_pages(odp->dmabuf);
	if (!err)
		err = tern_dmabuf_update(odp, &table);
	dma_resv_unlock(resv);
free:
	tern_table_free(&table);
	return err ?: tern_dmabuf_num_pages(odp);
}

static int tern_dmabuf_create(struct tern_odp *odp, struct tern_mr *mr, int fd)
{
	struct tern_cmd_create_mr cmd = {
		.iova = cpu_to_le64(odp->iova),
		.length = cpu_to_le64(odp->length),
		.offset = cpu_to_le64(offset_in_page(odp->start)),
		.flags = TERN_MR_F_INCOMPLETE,
	};
	struct ib_umem_dmabuf *umem;
	u64 num_pages;
	long ret;
	int err;

	umem = ib_umem_dmabuf_get(&odp->dev->ibdev, odp->start, odp->length, fd,
				  mr->access, &tern_dmabuf_ops);
	if (IS_ERR(umem))
		return PTR_ERR(umem);

	umem->private = odp;
	/* For the block iterator. */
	umem->umem.iova = odp->start;
	odp->dmabuf = umem;
	num_pages = tern_dmabuf_num_pages(odp);
	if (num_pages > U32_MAX)
		return tern_refuse(odp->dev, -EINVAL, "dma-buf of %llu pages",
				   num_pages);

	cmd.pages.num = cpu_to_le32(num_pages);
	err = tern_odp_create(odp, mr, &cmd);
	if (err)
		return err;

	/* Unreachable memory makes the registration fail. */
	ret = tern_dmabuf_map(odp);
	if (ret < 0) {
		tern_odp_abort(odp);
		return ret;
	}
	return tern_odp_open(odp);
}

/* Like tern_reg_user_mr_dmabuf(), for memory that may move. */
struct ib_mr *tern_reg_odp_dmabuf(struct ib_pd *ibpd, u64 offset, u64 length,
				  u64 virt, int fd, int access)
{
	struct tern_odp *odp;
	struct tern_mr *mr;
	int err = -ENOMEM;

	mr = kzalloc_obj(*mr);
	if (!mr)
		return ERR_PTR(-ENOMEM);

	odp = tern_odp_alloc(ibpd, offset, length, virt, access);
	if (!odp)
		goto free_mr;

	mr->access = access;
	mr->ibmr.iova = virt;
	mr->ibmr.length = length;
	err = tern_dmabuf_create(odp, mr, fd);
	if (err)
		goto free_odp;

	return &mr->ibmr;

free_odp:
	tern_odp_free(odp);
free_mr:
	kfree(mr);
	return ERR_PTR(err);
}
