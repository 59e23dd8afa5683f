// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Memory regions (user memory, device memory, the kernel's DMA lkey) and windows. */

#include <linux/slab.h>

#include <rdma/iter.h>
#include <rdma/uverbs_ioctl.h>

#include "tern_ib.h"
#include "tern_ib_limits.h"

#define TERN_MR_ACCESS	(IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_WRITE | \
			 IB_ACCESS_REMOTE_READ | IB_ACCESS_REMOTE_ATOMIC | \
			 IB_ACCESS_MW_BIND | IB_ZERO_BASED | \
			 IB_ACCESS_FLUSH_GLOBAL | \
			 IB_ACCESS_HUGETLB | IB_ACCESS_OPTIONAL)

/* Memory that a region is about to use. */
struct tern_mr_span {
	struct ib_umem *umem;	/* the pinned memory */
	/* Largest page size in bytes that both the device and the memory support. */
	unsigned long pgsz;
	u32 num_pages;	/* number of pages */
	u64 iova;	/* I/O virtual address of the first byte */
	u64 offset;	/* offset of the first byte in the first page */
};

static int tern_mr_fill_span(struct tern_ib_dev *dev, struct tern_mr_span *span,
			     struct ib_umem *umem, u64 virt, int access)
{
	const struct tern_rsp_caps *caps = dev->core->caps;
	size_t num_pages;

	span->pgsz = ib_umem_find_best_pgsz(umem,
					    le64_to_cpu(caps->page_shift_mask),
					    virt);
	if (!span->pgsz)
		return tern_refuse(dev, -EINVAL, "no page size for address %#llx",
				   virt);

	num_pages = ib_umem_num_dma_blocks(umem, span->pgsz);
	if (num_pages > U32_MAX)
		return tern_refuse(dev, -EINVAL, "region of %zu pages", num_pages);

	span->umem = umem;
	span->num_pages = num_pages;
	span->iova = access & IB_ZERO_BASED ? 0 : virt;
	span->offset = virt & (span->pgsz - 1);
	return 0;
}

static struct ib_umem *tern_mr_pin(struct tern_ib_dev *dev, u64 start,
				   u64 length, int access)
{
	if (tern_exceeds(dev, "length", length,
			 le64_to_cpu(dev->core->caps->max_mr_size)))
		return ERR_PTR(-EINVAL);

	return ib_umem_get_va(&dev->ibdev, start, length, access);
}

/*
 * Fills in the page list of a command. If the list is too long for one command,
 * fills in only the number of pages, for tern_mr_update_pages(). @table is
 * allocated here in any case, because failing after the command would be too
 * late.
 */
static int tern_mr_pages(struct tern_ib_dev *dev, struct tern_mr_span *span,
			 struct tern_table *table, struct tern_pages *pages,
			 u8 *flags)
{
	u32 limit = tern_table_limit(dev->core->caps);
	int err;

	if (span->num_pages > limit) {
		err = tern_table_init(table, &dev->core->pdev->dev, limit);
		if (err) {
			tern_table_free(table);
			return err;
		}
		*pages = (struct tern_pages){
			.num = cpu_to_le32(span->num_pages),
			.page_shift = __ffs(span->pgsz),
			.kind = TERN_PAGES_LIST,
		};
		*flags = TERN_MR_F_INCOMPLETE;
		return 0;
	}

	err = tern_table_from_umem(dev, table, span->umem, span->pgsz, pages);
	if (err)
		return err;

	*flags = 0;
	/* A buffer without a list starts at the first byte of the region. */
	if (pages->kind == TERN_PAGES_DIRECT)
		span->offset = 0;
	return 0;
}

static int tern_mr_update(struct tern_ib_dev *dev, u32 key, u32 first,
			  struct tern_table *table, const struct tern_mr_span *span)
{
	struct tern_cmd_update_pages cmd = {
		.first = cpu_to_le64(first),
		.key = cpu_to_le32(key),
	};
	int err;

	if (first + table->num == span->num_pages)
		cmd.flags = cpu_to_le32(TERN_UPDATE_LAST);

	err = tern_table_map(table, __ffs(span->pgsz), &cmd.pages);
	if (!err)
		err = tern_cmd_exec(dev->core, TERN_CMD_UPDATE_PAGES, &cmd,
				    sizeof(cmd), NULL, 0);
	tern_table_reset(table);
	return err;
}

/*
 * Gives a region its page list in as many commands as needed. The last one
 * enables the key. @table is empty and of maximum capacity.
 */
static int tern_mr_update_pages(struct tern_ib_dev *dev, u32 key,
				const struct tern_mr_span *span,
				struct tern_table *table)
{
	struct ib_block_iter biter;
	u32 first = 0;
	bool full;
	int err = 0;

	rdma_umem_for_each_dma_block(span->umem, &biter, span->pgsz) {
		full = tern_table_add(table, rdma_block_iter_dma_address(&biter));
		if (!full && first + table->num < span->num_pages)
			continue;

		err = tern_mr_update(dev, key, first, table, span);
		if (err)
			break;
		first += table->max;
	}

	return err;
}

/*
 * Creates a region in the device. On failure, @kept is 0 or the errno for which
 * the device keeps it.
 */
static int tern_mr_create(struct tern_ib_dev *dev, struct tern_mr *mr,
			  struct tern_pd *pd, struct tern_mr_span *span,
			  int *kept)
{
	struct tern_cmd_create_mr cmd = {
		.iova = cpu_to_le64(span->iova),
		.length = cpu_to_le64(span->umem->length),
		.pdn = cpu_to_le32(pd->pdn),
		.access = cpu_to_le32(tern_mr_access(mr->access)),
		.kind = TERN_MR_MEMORY,
	};
	struct tern_table table;
	u32 key;
	int err;

	*kept = 0;
	err = tern_mr_pages(dev, span, &table, &cmd.pages, &cmd.flags);
	if (err)
		return err;

	cmd.offset = cpu_to_le64(span->offset);
	err = tern_ib_create_mr(dev, &cmd, &key);
	if (err)
		goto free_table;

	mr->ibmr.lkey = key;
	mr->ibmr.rkey = key;
	if (cmd.flags & TERN_MR_F_INCOMPLETE) {
		err = tern_mr_update_pages(dev, key, span, &table);
		if (err)
			*kept = tern_ib_destroy(dev, TERN_CMD_DESTROY_MR, key);
	}
free_table:
	tern_table_free(&table);
	return err;
}

static void tern_mr_set_span(struct tern_mr *mr, const struct tern_mr_span *span)
{
	mr->umem = span->umem;
	mr->page_shift = __ffs(span->pgsz);
	mr->num_pages = span->num_pages;
}

/* Registers pinned memory, which stays the caller's. @kept: tern_mr_create(). */
static struct tern_mr *tern_reg_umem(struct ib_pd *ibpd, struct ib_umem *umem,
				     u64 virt, int access, int *kept)
{
	struct tern_ib_dev *dev = to_tdev(ibpd->device);
	struct tern_mr_span span;
	struct tern_mr *mr;
	int err;

	*kept = 0;
	mr = kzalloc_obj(*mr);
	if (!mr)
		return ERR_PTR(-ENOMEM);

	mr->access = access;
	/* Before ib_core does: a dma-buf may be revoked at once. */
	mr->ibmr.device = ibpd->device;
	mr->ibmr.iova = virt;
	mr->ibmr.length = umem->length;
	err = tern_mr_fill_span(dev, &span, umem, virt, access);
	if (!err)
		err = tern_mr_create(dev, mr, to_tpd(ibpd), &span, kept);
	if (err) {
		kfree(mr);
		return ERR_PTR(err);
	}

	tern_mr_set_span(mr, &span);
	return mr;
}

struct ib_mr *tern_reg_user_mr(struct ib_pd *ibpd, u64 start, u64 length,
			       u64 virt, int access, struct ib_dmah *dmah,
			       struct ib_udata *udata)
{
	struct tern_ib_dev *dev = to_tdev(ibpd->device);
	struct ib_umem *umem;
	struct tern_mr *mr;
	int err, kept;

	err = ib_no_udata_io(udata);
	if (err)
		return ERR_PTR(err);

#ifndef TERN_WITHOUT_ODP
	if (!dmah && access & IB_ACCESS_ON_DEMAND &&
	    !(access & ~(TERN_MR_ACCESS | IB_ACCESS_ON_DEMAND)))
		return tern_reg_odp_mr(ibpd, start, length, virt, access);
#endif
	if (access & ~TERN_MR_ACCESS)
		return ERR_PTR(tern_refuse(dev, -EOPNOTSUPP, "access %#x", access));

	umem = tern_mr_pin(dev, start, length, access);
	if (IS_ERR(umem))
		return ERR_CAST(umem);

	mr = tern_reg_umem(ibpd, umem, virt, access, &kept);
	if (IS_ERR(mr)) {
		tern_ib_umem_done(dev, umem, kept);
		return ERR_CAST(mr);
	}

	return &mr->ibmr;
}

#ifndef TERN_WITHOUT_DMABUF
/*
 * The exporter takes its memory back, with its reservation lock held. The region
 * keeps its key, which refers to nothing from now on. On return the device does
 * not access the memory: a device that refuses is stopped.
 */
static void tern_mr_revoke(void *priv)
{
	struct tern_mr *mr = priv;
	struct tern_cmd_update_pages cmd = {
		.key = cpu_to_le32(mr->ibmr.lkey),
		.flags = cpu_to_le32(TERN_UPDATE_CLOSE),
	};
	struct tern_core *core = to_tdev(mr->ibmr.device)->core;

	if (tern_cmd_exec(core, TERN_CMD_UPDATE_PAGES, &cmd, sizeof(cmd), NULL,
			  0))
		tern_core_stop(core);
}

/*
 * Without page faults the memory must not move; an exporter that cannot
 * guarantee this refuses. It may revoke the memory, except on kernels without
 * such imports.
 */
static struct ib_mr *tern_reg_pinned_dmabuf(struct ib_pd *ibpd, u64 offset,
					    u64 length, u64 virt, int fd,
					    int access)
{
	struct tern_ib_dev *dev = to_tdev(ibpd->device);
	struct ib_umem_dmabuf *dmabuf;
	struct tern_mr *mr;
	int kept;

	if (tern_exceeds(dev, "length", length,
			 le64_to_cpu(dev->core->caps->max_mr_size)))
		return ERR_PTR(-EINVAL);

	dmabuf = ib_umem_dmabuf_get_pinned_revocable_and_lock(&dev->ibdev,
							      offset, length,
							      fd, access);
	if (IS_ERR(dmabuf))
		return ERR_CAST(dmabuf);

	mr = tern_reg_umem(ibpd, &dmabuf->umem, virt, access, &kept);
	if (!IS_ERR(mr))
		ib_umem_dmabuf_set_revoke_locked(dmabuf, tern_mr_revoke, mr);
	else if (kept)
		tern_core_stop(dev->core);
	ib_umem_dmabuf_revoke_unlock(dmabuf);
	if (IS_ERR(mr)) {
		ib_umem_release(&dmabuf->umem);
		return ERR_CAST(mr);
	}

	return &mr->ibmr;
}

struct ib_mr *tern_reg_user_mr_dmabuf(struct ib_pd *ibpd, u64 offset,
				      u64 length, u64 virt, int fd, int access,
				      struct ib_dmah *dmah,
				      struct uverbs_attr_bundle *attrs)
{
	int err = ib_no_udata_io(&attrs->driver_udata);

	if (err)
		return ERR_PTR(err);

	if (tern_has_odp(to_tdev(ibpd->device)))
		return tern_reg_odp_dmabuf(ibpd, offset, length, virt, fd,
					   access);

	return tern_reg_pinned_dmabuf(ibpd, offset, length, virt, fd, access);
}

#endif
#ifndef TERN_WITHOUT_REREG
/* Returns the current memory of a region. */
static struct tern_mr_span tern_mr_get_span(const struct tern_mr *mr)
{
	/* Stored there by ib_umem_find_best_pgsz(). */
	u64 virt = mr->umem->iova;

	return (struct tern_mr_span){
		.umem = mr->umem,
		.pgsz = BIT(mr->page_shift),
		.num_pages = mr->num_pages,
		.iova = mr->access & IB_ZERO_BASED ? 0 : virt,
		.offset = virt & (BIT(mr->page_shift) - 1),
	};
}

/*
 * Changes the memory of a region, and the other attributes in @cmd. On failure,
 * *@closed tells whether the device has dropped the old memory.
 */
static int tern_mr_rereg_span(struct tern_ib_dev *dev,
			      struct tern_cmd_rereg_mr *cmd,
			      struct tern_mr_span *span, bool *closed)
{
	struct tern_table table;
	int err;

	*closed = false;
	err = tern_mr_pages(dev, span, &table, &cmd->pages, &cmd->flags);
	if (err)
		return err;

	cmd->iova = cpu_to_le64(span->iova);
	cmd->length = cpu_to_le64(span->umem->length);
	cmd->offset = cpu_to_le64(span->offset);
	err = tern_cmd_exec(dev->core, TERN_CMD_REREG_MR, cmd, sizeof(*cmd),
			    NULL, 0);
	if (!err && cmd->flags & TERN_MR_F_INCOMPLETE) {
		*closed = true;
		err = tern_mr_update_pages(dev, le32_to_cpu(cmd->key), span,
					   &table);
	}
	tern_table_free(&table);

	return err;
}

/*
 * Consumes the memory of @span if it succeeds. A long page list takes several
 * commands. If a later one fails, the region gets its old memory back.
 */
static int tern_mr_rereg_trans(struct tern_ib_dev *dev, struct tern_mr *mr,
			       struct tern_cmd_rereg_mr *cmd,
			       struct tern_mr_span *span)
{
	struct tern_mr_span old = tern_mr_get_span(mr);
	bool closed;
	int err;

	err = tern_mr_rereg_span(dev, cmd, span, &closed);
	if (!err) {
		ib_umem_release(mr->umem);
		tern_mr_set_span(mr, span);
		return 0;
	}

	if (closed) {
		cmd->pdn = cpu_to_le32(to_tpd(mr->ibmr.pd)->pdn);
		cmd->access = cpu_to_le32(tern_mr_access(mr->access));
		/*
		 * If this fails, too, the region is unusable until it is
		 * deregistered.
		 */
		tern_mr_rereg_span(dev, cmd, &old, &closed);
	}
	return err;
}

#ifndef TERN_WITHOUT_ODP
/* Returns 0, -EBUSY if windows are bound to a region, or another negative errno. */
static int tern_mr_check_windows(struct tern_mr *mr)
{
	struct tern_rsp_mr rsp;
	int err;

	err = tern_ib_query(to_tdev(mr->ibmr.device), TERN_CMD_QUERY_MR,
			    mr->ibmr.lkey, &rsp, sizeof(rsp));
	return err ?: (rsp.num_windows ? -EBUSY : 0);
}

/*
 * Changing between pinned and on-demand memory requires a new registration:
 * ib_core then replaces the region.
 */
static struct ib_mr *tern_rereg_odp_mr(struct tern_mr *mr, int flags, u64 start,
				       u64 length, u64 virt, int access,
				       struct ib_pd *ibpd,
				       struct ib_udata *udata)
{
	struct tern_ib_dev *dev = to_tdev(mr->ibmr.device);
	struct tern_cmd_rereg_mr cmd = {
		.key = cpu_to_le32(mr->ibmr.lkey),
		.mask = cpu_to_le32(tern_rereg_mask(flags)),
	};
	struct ib_pd *pd = flags & IB_MR_REREG_PD ? ibpd : mr->ibmr.pd;
	int err;

	if (flags & IB_MR_REREG_TRANS) {
		err = tern_mr_check_windows(mr);
		if (err)
			return ERR_PTR(err);
		return tern_reg_user_mr(pd, start, length, virt, access, NULL,
					udata);
	}

#ifndef TERN_WITHOUT_DMABUF
	/* A dma-buf keeps the rights of its registration. */
	if (mr->odp && tern_odp_is_dmabuf(mr->odp))
		return ERR_PTR(tern_refuse(dev, -EOPNOTSUPP,
					   "dma-buf cannot be reregistered"));
#endif
	if (!mr->odp ||
	    access & ~(TERN_MR_ACCESS | IB_ACCESS_ON_DEMAND) ||
	    (access ^ mr->access) & (IB_ACCESS_ON_DEMAND | IB_ZERO_BASED))
		return ERR_PTR(tern_refuse(dev, -EOPNOTSUPP, "access %#x after %#x",
					   access, mr->access));

	cmd.pdn = cpu_to_le32(to_tpd(pd)->pdn);
	cmd.access = cpu_to_le32(tern_mr_access(access) |
				 TERN_ACCESS_ON_DEMAND);
	if (flags) {
		err = tern_cmd_exec(dev->core, TERN_CMD_REREG_MR, &cmd,
				    sizeof(cmd), NULL, 0);
		if (err)
			return ERR_PTR(err);
	}

	tern_odp_set_access(mr->odp, pd, access);
	mr->access = access;
	return NULL;
}

#endif
/**
 * tern_rereg_user_mr() - change a region in place, keeping its key
 * @ibmr: the region
 * @flags: IB_MR_REREG_*, the attributes to change
 * @start: user virtual address, with TRANS
 * @length: length in bytes, with TRANS
 * @virt: I/O virtual address of the first byte, with TRANS
 * @access: IB_ACCESS_*, with ACCESS
 * @ibpd: new PD, with PD
 * @udata: user request without driver data
 *
 * Return: NULL, or a new region that replaces this one; or an ERR_PTR with the
 * region unchanged: -EBUSY for TRANS or PD while windows are bound; -EACCES for
 * write access without TRANS to memory that was pinned read-only; or another
 * errno.
 */
static struct ib_mr *tern_rereg_user_mr(struct ib_mr *ibmr, int flags, u64 start,
					u64 length, u64 virt, int access,
					struct ib_pd *ibpd, struct ib_udata *udata)
{
	struct tern_ib_dev *dev = to_tdev(ibmr->device);
	struct tern_cmd_rereg_mr cmd = {
		.key = cpu_to_le32(ibmr->lkey),
	};
	struct tern_mr *mr = to_tmr(ibmr);
	struct tern_mr_span span;
	struct ib_umem *umem;
	int err;

	if (flags & ~IB_MR_REREG_SUPPORTED)
		return ERR_PTR(tern_refuse(dev, -EOPNOTSUPP, "rereg flags %#x",
					   flags));

	err = ib_no_udata_io(udata);
	if (err)
		return ERR_PTR(err);

	if (!(flags & IB_MR_REREG_ACCESS))
		access = mr->access;
#ifndef TERN_WITHOUT_ODP
	if ((access | mr->access) & IB_ACCESS_ON_DEMAND || mr->odp)
		return tern_rereg_odp_mr(mr, flags, start, length, virt, access,
					 ibpd, udata);
#endif
#ifndef TERN_WITHOUT_DMABUF
	/* A dma-buf keeps the rights of its registration. */
	if (mr->umem && mr->umem->is_dmabuf)
		return ERR_PTR(tern_refuse(dev, -EOPNOTSUPP,
					   "dma-buf cannot be reregistered"));
#endif
	/* Whether the region is zero-based is part of the translation. */
	if (access & ~TERN_MR_ACCESS ||
	    (!(flags & IB_MR_REREG_TRANS) &&
	     (access ^ mr->access) & IB_ZERO_BASED))
		return ERR_PTR(tern_refuse(dev, -EOPNOTSUPP, "access %#x after %#x",
					   access, mr->access));

	err = ib_umem_check_rereg(mr->umem, flags, access);
	if (err)
		return ERR_PTR(err);

	cmd.mask = cpu_to_le32(tern_rereg_mask(flags));
	if (flags & IB_MR_REREG_PD)
		cmd.pdn = cpu_to_le32(to_tpd(ibpd)->pdn);
	if (flags & IB_MR_REREG_ACCESS)
		cmd.access = cpu_to_le32(tern_mr_access(access));

	if (flags & IB_MR_REREG_TRANS) {
		umem = tern_mr_pin(dev, start, length, access);
		if (IS_ERR(umem))
			return ERR_CAST(umem);

		err = tern_mr_fill_span(dev, &span, umem, virt, access);
		if (!err)
			err = tern_mr_rereg_trans(dev, mr, &cmd, &span);
		if (err)
			ib_umem_release(umem);
	} else if (flags) {
		err = tern_cmd_exec(dev->core, TERN_CMD_REREG_MR, &cmd,
				    sizeof(cmd), NULL, 0);
	}
	if (err)
		return ERR_PTR(err);

	mr->access = access;
	return NULL;
}

const struct ib_device_ops tern_rereg_ops = {
	.rereg_user_mr = tern_rereg_user_mr,
};

#endif
static int tern_dm_mr_create(struct tern_ib_dev *dev, struct tern_mr *mr,
			     struct tern_pd *pd, u32 dmn,
			     const struct ib_dm_mr_attr *attr)
{
	struct tern_cmd_create_mr cmd = {
		.length = cpu_to_le64(attr->length),
		.offset = cpu_to_le64(attr->offset),
		.pdn = cpu_to_le32(pd->pdn),
		.access = cpu_to_le32(tern_mr_access(mr->access)),
		.dmn = cpu_to_le32(dmn),
		.kind = TERN_MR_DM,
	};
	int err;

	err = tern_ib_create_mr(dev, &cmd, &mr->ibmr.lkey);
	if (err)
		return err;

	mr->ibmr.rkey = mr->ibmr.lkey;
	return 0;
}

/* The region is zero-based. ib_core has checked the range. */
struct ib_mr *tern_reg_dm_mr(struct ib_pd *ibpd, struct ib_dm *ibdm,
			     struct ib_dm_mr_attr *attr,
			     struct uverbs_attr_bundle *attrs)
{
	struct tern_mmap_entry *entry = to_tdm(ibdm)->entry;
	struct tern_ib_dev *dev = to_tdev(ibpd->device);
	struct tern_mr *mr;
	int err;

#ifndef TERN_WITHOUT_ODP
	/* Device memory is always present. */
	if (attr->access_flags & IB_ACCESS_ON_DEMAND)
		return ERR_PTR(tern_refuse(dev, -EINVAL,
					   "device memory on demand"));
#endif
	if (attr->access_flags & ~TERN_MR_ACCESS)
		return ERR_PTR(tern_refuse(dev, -EOPNOTSUPP, "access %#x",
					   attr->access_flags));

	mr = kzalloc_obj(*mr);
	if (!mr)
		return ERR_PTR(-ENOMEM);

	mr->access = attr->access_flags;
	mr->ibmr.length = attr->length;
	mr->dm_entry =
		rdma_user_mmap_entry_get_pgoff(entry->rdma_entry.ucontext,
					       entry->rdma_entry.start_pgoff);
	if (!mr->dm_entry) {
		err = tern_refuse(dev, -EINVAL, "device memory is gone");
		goto err_free;
	}

	err = tern_dm_mr_create(dev, mr, to_tpd(ibpd), entry->id, attr);
	if (err)
		goto err_put_entry;

	return &mr->ibmr;

err_put_entry:
	rdma_user_mmap_entry_put(mr->dm_entry);
err_free:
	kfree(mr);
	return ERR_PTR(err);
}

/* Peers never get access to all memory. The region is no object of the device. */
struct ib_mr *tern_get_dma_mr(struct ib_pd *ibpd, int access)
{
	struct tern_mr *mr;

	if (!to_tpd(ibpd)->privileged || access & ~IB_ACCESS_LOCAL_WRITE)
		return ERR_PTR(tern_refuse(to_tdev(ibpd->device), -EOPNOTSUPP,
					   "access %#x to all memory", access));

	mr = kzalloc_obj(*mr);
	if (!mr)
		return ERR_PTR(-ENOMEM);

	mr->access = access;
	mr->ibmr.lkey = TERN_LKEY_DMA;
	mr->dma = true;
	return &mr->ibmr;
}

#ifndef TERN_WITHOUT_DMABUF
/*
 * Destroys a region in the device. Returns 0 or the errno for which the device
 * keeps it. The exporter of a dma-buf may take back what the device keeps, so the
 * device is stopped unless windows keep the region.
 */
static int tern_mr_destroy(struct tern_ib_dev *dev, struct tern_mr *mr)
{
	struct ib_umem_dmabuf *dmabuf;
	int err;

	if (!mr->umem || !mr->umem->is_dmabuf)
		return tern_ib_destroy(dev, TERN_CMD_DESTROY_MR, mr->ibmr.lkey);

	dmabuf = to_ib_umem_dmabuf(mr->umem);
	ib_umem_dmabuf_revoke_lock(dmabuf);
	err = tern_ib_destroy(dev, TERN_CMD_DESTROY_MR, mr->ibmr.lkey);
	if (err != -EBUSY) {
		/* The key may be that of another region by now. */
		ib_umem_dmabuf_set_revoke_locked(dmabuf, NULL, NULL);
		if (err)
			tern_core_stop(dev->core);
		err = 0;
	}
	ib_umem_dmabuf_revoke_unlock(dmabuf);

	return err;
}

#endif
/* -EBUSY, and no change, while windows are bound. A dead device has none. */
int tern_dereg_mr(struct ib_mr *ibmr, struct ib_udata *udata)
{
	struct tern_ib_dev *dev = to_tdev(ibmr->device);
	struct tern_mr *mr = to_tmr(ibmr);
	int err;

	if (mr->dma) {
		kfree(mr);
		return 0;
	}

#ifndef TERN_WITHOUT_ODP
	if (mr->odp) {
		err = tern_odp_destroy(mr);
		if (!err)
			kfree(mr);
		return err;
	}

#endif
#ifndef TERN_WITHOUT_DMABUF
	err = tern_mr_destroy(dev, mr);
#else
	err = tern_ib_destroy(dev, TERN_CMD_DESTROY_MR, ibmr->lkey);
#endif
	if (err == -EBUSY)
		return err;

	tern_ib_umem_done(dev, mr->umem, err);
	tern_kpage_done(dev, &mr->page_list, err);
	if (mr->dm_entry)
		rdma_user_mmap_entry_put(mr->dm_entry);
	kfree(mr);
	return 0;
}

/*
 * ---- memory windows ----
 *
 * Work requests of user space bind them, so only the device knows the bindings.
 */

static int tern_alloc_mw(struct ib_mw *ibmw, struct ib_udata *udata)
{
	struct tern_ib_dev *dev = to_tdev(ibmw->device);
	struct tern_cmd_alloc_mw cmd = {
		.pdn = cpu_to_le32(to_tpd(ibmw->pd)->pdn),
		.type = ibmw->type == IB_MW_TYPE_1 ? 1 : 2,
	};
	struct tern_mw *mw = to_tmw(ibmw);
	int err;

	err = ib_no_udata_io(udata);
	if (err)
		return err;

	err = tern_ib_create(dev, TERN_CMD_ALLOC_MW, &cmd, sizeof(cmd),
			     &mw->key);
	if (err)
		return err;

	ibmw->rkey = mw->key;
	return 0;
}

/* Bound or not. */
static int tern_dealloc_mw(struct ib_mw *ibmw)
{
	/* If a live device refuses, it keeps the window until its next reset. */
	tern_ib_destroy(to_tdev(ibmw->device), TERN_CMD_FREE_MW,
			to_tmw(ibmw)->key);
	return 0;
}

const struct ib_device_ops tern_mw_ops = {
	.alloc_mw = tern_alloc_mw,
	.dealloc_mw = tern_dealloc_mw,

	INIT_RDMA_OBJ_SIZE(ib_mw, tern_mw, ibmw),
};
