// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Exports memory as dma-bufs and takes it back when a test asks for it, as VFIO
 * does when a device is reset. ioctl() of /dev/tern_exporter:
 *
 *   TERN_EXPORT_ALLOC, size in bytes: returns the descriptor of a dma-buf
 *   TERN_EXPORT_REVOKE, that descriptor: revokes the memory for good; returns
 *	the number of importers that still map it, which must be 0
 */

#include <linux/dma-buf.h>
#include <linux/dma-mapping.h>
#include <linux/dma-resv.h>
#include <linux/file.h>
#include <linux/miscdevice.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/scatterlist.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>

/* MODULE_IMPORT_NS() takes a name in Linux 6.12, and a string later. */
MODULE_INFO(import_ns, "DMA_BUF");

#define TERN_EXPORT_ALLOC	_IO('t', 1)
#define TERN_EXPORT_REVOKE	_IO('t', 2)
#define TERN_EXPORT_MAX		SZ_64M

/* The operation and the function have other names in older kernels. */
#ifndef TERN_HAVE_INVALIDATE_MAPPINGS
#define invalidate_mappings		move_notify
#define dma_buf_invalidate_mappings	dma_buf_move_notify
#endif

/* The reservation lock of the dma-buf protects all but @va. */
struct tern_export {
	void *va;
	unsigned int num_mapped;
	bool revoked;
};

static int tern_export_attach(struct dma_buf *dmabuf,
			      struct dma_buf_attachment *attach)
{
	const struct dma_buf_attach_ops *ops = attach->importer_ops;

	return ops && ops->invalidate_mappings ? 0 : -EOPNOTSUPP;
}

static int tern_export_pin(struct dma_buf_attachment *attach)
{
	return 0;
}

static void tern_export_unpin(struct dma_buf_attachment *attach)
{
}

static int tern_export_fill(struct sg_table *sgt, const struct dma_buf *dmabuf)
{
	unsigned int i, num = dmabuf->size >> PAGE_SHIFT;
	struct tern_export *export = dmabuf->priv;
	struct page **pages;
	int err;

	pages = kvmalloc_array(num, sizeof(*pages), GFP_KERNEL);
	if (!pages)
		return -ENOMEM;

	for (i = 0; i < num; i++)
		pages[i] = vmalloc_to_page(export->va + i * PAGE_SIZE);
	err = sg_alloc_table_from_pages(sgt, pages, num, 0, dmabuf->size,
					GFP_KERNEL);
	kvfree(pages);
	return err;
}

static struct sg_table *tern_export_map(struct dma_buf_attachment *attach,
					enum dma_data_direction dir)
{
	struct tern_export *export = attach->dmabuf->priv;
	struct sg_table *sgt;
	int err;

	dma_resv_assert_held(attach->dmabuf->resv);
	if (export->revoked)
		return ERR_PTR(-ENODEV);

	sgt = kzalloc_obj(*sgt);
	if (!sgt)
		return ERR_PTR(-ENOMEM);

	err = tern_export_fill(sgt, attach->dmabuf);
	if (err)
		goto free;

	err = dma_map_sgtable(attach->dev, sgt, dir, 0);
	if (err)
		goto free_table;

	export->num_mapped++;
	return sgt;

free_table:
	sg_free_table(sgt);
free:
	kfree(sgt);
	return ERR_PTR(err);
}

static void tern_export_unmap(struct dma_buf_attachment *attach,
			      struct sg_table *sgt, enum dma_data_direction dir)
{
	struct tern_export *export = attach->dmabuf->priv;

	dma_resv_assert_held(attach->dmabuf->resv);
	dma_unmap_sgtable(attach->dev, sgt, dir, 0);
	sg_free_table(sgt);
	kfree(sgt);
	export->num_mapped--;
}

/* The test sees the memory also after it was revoked. */
static int tern_export_mmap(struct dma_buf *dmabuf, struct vm_area_struct *vma)
{
	struct tern_export *export = dmabuf->priv;

	return remap_vmalloc_range(vma, export->va, vma->vm_pgoff);
}

static void tern_export_release(struct dma_buf *dmabuf)
{
	struct tern_export *export = dmabuf->priv;

	vfree(export->va);
	kfree(export);
}

static const struct dma_buf_ops tern_export_ops = {
	.attach = tern_export_attach,
	.pin = tern_export_pin,
	.unpin = tern_export_unpin,
	.map_dma_buf = tern_export_map,
	.unmap_dma_buf = tern_export_unmap,
	.mmap = tern_export_mmap,
	.release = tern_export_release,
};

static int tern_export_alloc(size_t size)
{
	DEFINE_DMA_BUF_EXPORT_INFO(info);
	struct tern_export *export;
	struct dma_buf *dmabuf;
	int fd;

	if (!size || size > TERN_EXPORT_MAX)
		return -EINVAL;

	export = kzalloc_obj(*export);
	if (!export)
		return -ENOMEM;

	info.ops = &tern_export_ops;
	info.size = PAGE_ALIGN(size);
	info.flags = O_RDWR | O_CLOEXEC;
	info.priv = export;
	export->va = vmalloc_user(info.size);
	if (!export->va) {
		kfree(export);
		return -ENOMEM;
	}

	dmabuf = dma_buf_export(&info);
	if (IS_ERR(dmabuf)) {
		vfree(export->va);
		kfree(export);
		return PTR_ERR(dmabuf);
	}

	fd = dma_buf_fd(dmabuf, O_CLOEXEC);
	if (fd < 0)
		dma_buf_put(dmabuf);
	return fd;
}

static int tern_export_revoke(int fd)
{
	struct tern_export *export;
	struct dma_buf *dmabuf;
	int num;

	dmabuf = dma_buf_get(fd);
	if (IS_ERR(dmabuf))
		return PTR_ERR(dmabuf);

	if (dmabuf->ops != &tern_export_ops) {
		dma_buf_put(dmabuf);
		return -EINVAL;
	}

	export = dmabuf->priv;
	dma_resv_lock(dmabuf->resv, NULL);
	export->revoked = true;
	dma_buf_invalidate_mappings(dmabuf);
	num = export->num_mapped;
	dma_resv_unlock(dmabuf->resv);
	dma_buf_put(dmabuf);
	return num;
}

static long tern_export_ioctl(struct file *file, unsigned int cmd,
			      unsigned long arg)
{
	switch (cmd) {
	case TERN_EXPORT_ALLOC:
		return tern_export_alloc(arg);
	case TERN_EXPORT_REVOKE:
		return tern_export_revoke(arg);
	default:
		return -ENOTTY;
	}
}

static const struct file_operations tern_export_fops = {
	.owner = THIS_MODULE,
	.unlocked_ioctl = tern_export_ioctl,
};

static struct miscdevice tern_export_misc = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "tern_exporter",
	.fops = &tern_export_fops,
	.mode = 0600,
};

module_misc_device(tern_export_misc);

MODULE_DESCRIPTION("Exports dma-bufs that a test can revoke");
MODULE_LICENSE("Dual BSD/GPL");
