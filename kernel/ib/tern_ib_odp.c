// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * On-demand regions: their pages become present when the device faults or the
 * user gives advice, and absent when the kernel invalidates them.
 *
 * A region is divided into parts, each with its own notifier. A part is made
 * when one of its pages becomes present, so registration costs the same for
 * any length. An implicit region is as large as the address space: its parts
 * exist only while they have present pages.
 *
 * umem_mutex of a part protects the device's entries of its pages. Invalidation
 * takes it in memory reclaim, so nothing may allocate memory under it. map_lock
 * is taken before it, and before the address space's mmap_lock. key_sem of the
 * region is taken after it, or after the reservation lock of a dma-buf.
 */

#include <linux/mm.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>

#include <rdma/restrack.h>
#include <uapi/rdma/rdma_netlink.h>

#include "tern_ib_odp.h"

/* Maximum number of pages of a part. */
#define TERN_ODP_PART_PAGES	TERN_ODP_BATCH
#define TERN_ODP_PART_SIZE	((u64)TERN_ODP_PART_PAGES << PAGE_SHIFT)

static void tern_odp_part_put(struct tern_odp_part *part)
{
	if (refcount_dec_and_test(&part->count))
		queue_work(part->odp->dev->fault_wq, &part->release_work);
}

static void tern_odp_part_release(struct tern_odp_part *part)
{
	struct tern_odp *odp = part->odp;

	ib_umem_odp_release(part->umem);
	kfree(part);
	tern_ref_put(&odp->parts_ref);
}

static void tern_odp_release_work(struct work_struct *work)
{
	tern_odp_part_release(container_of(work, struct tern_odp_part,
					   release_work));
}

static bool tern_odp_is_implicit(const struct tern_odp *odp)
{
	return odp->length == U64_MAX;
}

/* Takes a part out of its region. */
static void tern_odp_part_retire(struct tern_odp_part *part)
{
	lockdep_assert_held(&part->umem->umem_mutex);

	if (part->retired)
		return;

	part->retired = true;
	xa_erase(&part->odp->parts, part->index);
	tern_odp_part_put(part);
}

/* Without present pages, a part of an implicit region is released. */
static void tern_odp_part_check(struct tern_odp_part *part)
{
	if (!part->umem->npages && tern_odp_is_implicit(part->odp))
		tern_odp_part_retire(part);
}

/* Maximum number of pages that one command makes present. */
u32 tern_odp_batch(const struct tern_odp *odp)
{
	return min_t(u32, TERN_ODP_BATCH,
		     tern_table_limit(odp->dev->core->caps));
}

/**
 * tern_odp_clear() - make pages absent in the device
 * @odp: the region
 * @first: index of the first page
 * @num: number of pages
 *
 * On return the device does not access the pages: a device that refuses is
 * stopped, and one that has destroyed the region is not asked. Sleeps, but
 * allocates no memory.
 */
void tern_odp_clear(struct tern_odp *odp, u64 first, u64 num)
{
	struct tern_core *core = odp->dev->core;
	u32 limit = tern_table_limit(core->caps);
	struct tern_cmd_update_pages cmd = {
		.pages.page_shift = PAGE_SHIFT,
		.pages.kind = TERN_PAGES_LIST,
		.key = cpu_to_le32(odp->key),
		.flags = cpu_to_le32(TERN_UPDATE_ABSENT),
	};
	u32 n;

	down_read(&odp->key_sem);
	for (; num && !odp->gone; num -= n, first += n) {
		n = min_t(u64, num, limit);
		cmd.first = cpu_to_le64(first);
		cmd.pages.num = cpu_to_le32(n);
		if (tern_cmd_exec(core, TERN_CMD_UPDATE_PAGES, &cmd,
				  sizeof(cmd), NULL, 0)) {
			tern_core_stop(core);
			break;
		}
	}
	up_read(&odp->key_sem);
}

static bool tern_odp_invalidate(struct mmu_interval_notifier *mni,
				const struct mmu_notifier_range *range,
				unsigned long seq)
{
	struct ib_umem_odp *umem = container_of(mni, struct ib_umem_odp,
						notifier);
	struct tern_odp_part *part;
	u64 start, end, first, num;
	int before;

	if (!mmu_notifier_range_blockable(range))
		return false;

	mutex_lock(&umem->umem_mutex);
	mmu_interval_set_seq(mni, seq);
	/* Without pages, private may not be set yet. */
	if (!umem->npages)
		goto unlock;

	part = umem->private;
	start = max_t(u64, ib_umem_start(umem), range->start);
	end = min_t(u64, ib_umem_end(umem), range->end);
	first = (start - ib_umem_start(umem)) >> PAGE_SHIFT;
	num = (end - start) >> PAGE_SHIFT;
	before = umem->npages;
	tern_odp_clear(part->odp, part->first + first, num);
	ib_umem_odp_unmap_dma_pages(umem, start, end);
	atomic64_add(before - umem->npages, &part->odp->invalidations);
	tern_odp_part_check(part);
unlock:
	mutex_unlock(&umem->umem_mutex);
	return true;
}

static const struct mmu_interval_notifier_ops tern_odp_notifier_ops = {
	.invalidate = tern_odp_invalidate,
};

/**
 * tern_odp_update() - replace entries of the device's page list
 * @odp: the region
 * @first: index of the first entry
 * @table: the entries, with TERN_PAGE_* bits; emptied
 *
 * Allocates no memory.
 *
 * Return: 0; -ENOENT if the region is gone; or the errno of tern_cmd_exec().
 */
int tern_odp_update(struct tern_odp *odp, u64 first, struct tern_table *table)
{
	struct tern_cmd_update_pages cmd = {
		.first = cpu_to_le64(first),
		.key = cpu_to_le32(odp->key),
	};
	int err;

	down_read(&odp->key_sem);
	err = odp->gone ? -ENOENT :
			  tern_table_map(table, PAGE_SHIFT, &cmd.pages);
	if (!err)
		err = tern_cmd_exec(odp->dev->core, TERN_CMD_UPDATE_PAGES, &cmd,
				    sizeof(cmd), NULL, 0);
	up_read(&odp->key_sem);
	tern_table_reset(table);
	return err;
}

/* Whether an entry of the page list satisfies the request. */
static bool tern_odp_entry_ok(u64 entry, unsigned int flags)
{
	u64 bits = TERN_PAGE_READ;

	/* Advice about pages in memory accepts whatever is present. */
	if (flags & TERN_ODP_SNAPSHOT)
		return true;
	if (flags & TERN_ODP_WRITE)
		bits |= TERN_PAGE_WRITE;
	return (entry & bits) == bits;
}

/*
 * Maps pages of a part, at most tern_odp_batch(). Returns their number or a
 * negative errno.
 */
static long tern_odp_map_part(struct tern_odp_part *part, u64 va, u64 bytes,
			      unsigned int flags)
{
	struct ib_umem_odp *umem = part->umem;
	struct tern_odp *odp = part->odp;
	u32 max = tern_odp_batch(odp);
	struct tern_table table;
	u64 page;
	int i, err, num;
	size_t first;

	err = tern_table_init(&table, &odp->dev->core->pdev->dev, max);
	if (err)
		goto free;

	bytes = min(bytes, ((u64)max << PAGE_SHIFT) - offset_in_page(va));
	/*
	 * The page table is walked without umem_mutex. With two concurrent
	 * walks, one could replace the other's result by older entries. The list
	 * has no entries yet: the walk may use its memory.
	 */
	mutex_lock(&part->map_lock);
	num = tern_umem_odp_map(umem, va, bytes, table.chunks->entry);
	if (num < 0) {
		err = num;
		mutex_lock(&umem->umem_mutex);
		goto unlock;
	}

	if (part->retired) {
		err = -EAGAIN;
		goto unlock;
	}

	first = (va - ib_umem_start(umem)) >> PAGE_SHIFT;
	for (i = 0; i < num; i++) {
		/* 0 if the page is not in memory. */
		err = tern_umem_odp_entry(umem, first + i,
					  tern_odp_writable(odp), &page);
		if (err || !tern_odp_entry_ok(page, flags))
			break;
		tern_table_add(&table, page);
	}
	if (i)
		err = tern_odp_update(odp, part->first + first, &table);
	num = i;
unlock:
	tern_odp_part_check(part);
	mutex_unlock(&umem->umem_mutex);
	mutex_unlock(&part->map_lock);
free:
	tern_table_free(&table);
	return err ?: num;
}

static struct tern_odp_part *tern_odp_part_alloc(struct tern_odp *odp,
						 unsigned long index)
{
	u64 start = odp->start & PAGE_MASK;
	u64 last = odp->start + odp->length - 1;
	u64 first_byte = index * TERN_ODP_PART_SIZE;
	u64 last_byte = first_byte + TERN_ODP_PART_SIZE - 1;
	struct tern_odp_part *part;

	first_byte = max(first_byte, start);
	last_byte = min(last_byte, last | ~PAGE_MASK);

	part = kzalloc_obj(*part);
	if (!part)
		return ERR_PTR(-ENOMEM);

	part->odp = odp;
	part->index = index;
	part->first = (first_byte - start) >> PAGE_SHIFT;
	mutex_init(&part->map_lock);
	/* For odp->parts, and for the caller. */
	refcount_set(&part->count, 2);
	INIT_WORK(&part->release_work, tern_odp_release_work);
	part->umem = ib_umem_odp_alloc_child(odp->root, first_byte,
					     last_byte - first_byte + 1,
					     &tern_odp_notifier_ops);
	if (IS_ERR(part->umem)) {
		void *err = ERR_CAST(part->umem);

		kfree(part);
		return err;
	}

	part->umem->private = part;
	tern_ref_get(&odp->parts_ref);
	return part;
}

/* Returns the part with a reference, or an ERR_PTR. */
static struct tern_odp_part *tern_odp_part_get(struct tern_odp *odp,
					       unsigned long index)
{
	struct tern_odp_part *part;
	int err;

	do {
		xa_lock(&odp->parts);
		part = xa_load(&odp->parts, index);
		if (part)
			refcount_inc(&part->count);
		xa_unlock(&odp->parts);
		if (part)
			return part;

		part = tern_odp_part_alloc(odp, index);
		if (IS_ERR(part))
			return part;

		err = xa_insert(&odp->parts, index, part, GFP_KERNEL);
		if (!err)
			return part;
		tern_odp_part_release(part);
	} while (err == -EBUSY);

	return ERR_PTR(err);
}

/**
 * tern_odp_map() - make pages that are in memory present in the device
 * @odp: the region, not on a dma-buf
 * @va: user virtual address
 * @bytes: length in bytes, not 0, within the region
 * @flags: TERN_ODP_*
 *
 * Return: number of pages mapped from @va on, which may be fewer than asked
 * for: up to the first that is not in memory, or not writable; or a negative
 * errno.
 */
long tern_odp_map(struct tern_odp *odp, u64 va, u64 bytes, unsigned int flags)
{
	struct tern_odp_part *part;
	long num;

	bytes = min(bytes, TERN_ODP_PART_SIZE - va % TERN_ODP_PART_SIZE);
	do {
		part = tern_odp_part_get(odp, va / TERN_ODP_PART_SIZE);
		if (IS_ERR(part))
			return PTR_ERR(part);

		num = tern_odp_map_part(part, va, bytes, flags);
		tern_odp_part_put(part);
		/* Its last page was invalidated meanwhile. */
	} while (num == -EAGAIN);

	return num;
}

/**
 * tern_odp_get() - look up an on-demand region
 * @dev: the device
 * @key: lkey or rkey
 *
 * Return: the region, to be released with tern_odp_put(), or NULL.
 */
struct tern_odp *tern_odp_get(struct tern_ib_dev *dev, u32 key)
{
	struct tern_odp *odp;

	xa_lock(&dev->odps);
	odp = xa_load(&dev->odps, key >> TERN_KEY_INDEX_SHIFT);
	if (odp && odp->key == key)
		tern_ref_get(&odp->ref);
	else
		odp = NULL;
	xa_unlock(&dev->odps);

	return odp;
}

void tern_odp_put(struct tern_odp *odp)
{
	tern_ref_put(&odp->ref);
}

/* Whether the region's user may write to its memory. */
bool tern_odp_writable(const struct tern_odp *odp)
{
	return READ_ONCE(odp->writable);
}

/**
 * tern_odp_alloc() - allocate the on-demand part of a region
 * @ibpd: the PD
 * @start: user virtual address, or offset in the dma-buf, of the first byte
 * @length: length in bytes
 * @iova: address of the first byte in the device
 * @access: IB_ACCESS_*
 *
 * Return: the part, without memory, or NULL.
 */
struct tern_odp *tern_odp_alloc(struct ib_pd *ibpd, u64 start, u64 length,
				u64 iova, int access)
{
	struct tern_odp *odp;

	odp = kzalloc_obj(*odp);
	if (!odp)
		return NULL;

	odp->dev = to_tdev(ibpd->device);
	odp->pd = ibpd;
	if (ibpd->uobject) {
		odp->pager = to_tucontext(ibpd->uobject->context)->pager;
	} else {
		/* One process must not make a kernel user wait for others. */
		odp->owns_pager = true;
		odp->pager = tern_pager_alloc(odp->dev);
		if (!odp->pager) {
			kfree(odp);
			return NULL;
		}
	}
	odp->start = start;
	odp->length = length;
	odp->iova = iova;
	odp->writable = ib_access_writable(access);
	init_rwsem(&odp->key_sem);
	tern_ref_init(&odp->ref);
	xa_init(&odp->parts);
	tern_ref_init(&odp->parts_ref);
	return odp;
}

/*
 * Destroys a region in the device. Returns the errno of tern_ib_destroy(). The
 * device may give the key to another region at once, so no other command with
 * the key is under way or follows.
 */
static int tern_odp_close(struct tern_odp *odp)
{
	int err;

	down_write(&odp->key_sem);
	err = tern_ib_destroy(odp->dev, TERN_CMD_DESTROY_MR, odp->key);
	odp->gone = !err;
	up_write(&odp->key_sem);

	return err;
}

/* Waits for the last user of a region, and stops a device that kept it. */
static void tern_odp_forget(struct tern_odp *odp, int err)
{
	struct tern_ib_dev *dev = odp->dev;

	/* Invalidations would no longer reach the device. */
	if (err)
		tern_core_stop(dev->core);

	/* The device may already have given its index to another region. */
	xa_cmpxchg(&dev->odps, odp->key >> TERN_KEY_INDEX_SHIFT, odp, NULL, 0);
	tern_ref_drain(&odp->ref);
}

/**
 * tern_odp_abort() - destroy a region that was not registered yet
 * @odp: the region's on-demand part; nothing uses it on return
 */
void tern_odp_abort(struct tern_odp *odp)
{
	tern_odp_forget(odp, tern_odp_close(odp));
}

/**
 * tern_odp_create() - create an on-demand region in the device
 * @odp: the region's on-demand part, with its memory
 * @mr: the region; receives the keys
 * @cmd: the command, without access; it must leave the key closed, for
 *	tern_odp_open(), or have a sparse list
 *
 * Return: 0, or a negative errno: the device does not have the region.
 */
int tern_odp_create(struct tern_odp *odp, struct tern_mr *mr,
		    struct tern_cmd_create_mr *cmd)
{
	struct tern_ib_dev *dev = odp->dev;
	int err;

	cmd->access = cpu_to_le32(tern_mr_access(mr->access) |
				  TERN_ACCESS_ON_DEMAND);
	cmd->pdn = cpu_to_le32(to_tpd(odp->pd)->pdn);
	cmd->kind = TERN_MR_MEMORY;
	cmd->pages.page_shift = PAGE_SHIFT;
	cmd->pages.kind = TERN_PAGES_LIST;
	err = tern_ib_create_mr(dev, cmd, &odp->key);
	if (err)
		return err;

	/* The previous region with this index may still be present. */
	err = xa_err(xa_store(&dev->odps, odp->key >> TERN_KEY_INDEX_SHIFT, odp,
			      GFP_KERNEL));
	if (err) {
		tern_odp_abort(odp);
		return err;
	}

	mr->odp = odp;
	mr->ibmr.lkey = odp->key;
	mr->ibmr.rkey = odp->key;
	return 0;
}

/**
 * tern_odp_open() - open the key of a region
 * @odp: the region, after tern_odp_create()
 *
 * The last step of a registration: a process that guesses an open key can bind a
 * window to it, and the device keeps a region with windows.
 *
 * Return: 0, or a negative errno: the device does not have the region.
 */
int tern_odp_open(struct tern_odp *odp)
{
	struct tern_cmd_update_pages cmd = {
		.pages.page_shift = PAGE_SHIFT,
		.key = cpu_to_le32(odp->key),
		.flags = cpu_to_le32(TERN_UPDATE_LAST),
	};
	int err;

	err = tern_cmd_exec(odp->dev->core, TERN_CMD_UPDATE_PAGES, &cmd,
			    sizeof(cmd), NULL, 0);
	if (err)
		tern_odp_abort(odp);
	return err;
}

static void tern_odp_release_parts(struct tern_odp *odp)
{
	struct tern_odp_part *part;
	unsigned long index;

	/* An invalidation may retire parts at the same time. */
	xa_for_each(&odp->parts, index, part) {
		xa_lock(&odp->parts);
		part = xa_load(&odp->parts, index);
		if (part)
			refcount_inc(&part->count);
		xa_unlock(&odp->parts);
		if (!part)
			continue;

		mutex_lock(&part->umem->umem_mutex);
		tern_odp_part_retire(part);
		mutex_unlock(&part->umem->umem_mutex);
		tern_odp_part_put(part);
	}
	tern_ref_drain(&odp->parts_ref);
	xa_destroy(&odp->parts);
}

/**
 * tern_odp_free() - free the on-demand part of a region
 * @odp: the part, which the device and tern_odp_get() do not know
 */
void tern_odp_free(struct tern_odp *odp)
{
	tern_odp_release_parts(odp);
	if (odp->root)
		ib_umem_odp_release(odp->root);
	if (odp->dmabuf)
		ib_umem_release(&odp->dmabuf->umem);
	if (odp->mm)
		mmdrop(odp->mm);
	if (odp->owns_pager)
		tern_pager_close(odp->pager);
	kfree(odp);
}

/**
 * tern_odp_destroy() - destroy an on-demand region
 * @mr: the region
 *
 * Waits for the mapping of pages, but not for a page that does not arrive.
 *
 * Return: 0, or -EBUSY while memory windows are bound to the region, which is
 * unchanged then.
 */
int tern_odp_destroy(struct tern_mr *mr)
{
	struct tern_odp *odp = mr->odp;
	int err = tern_odp_close(odp);

	if (err == -EBUSY)
		return err;

	tern_odp_forget(odp, err);
	tern_odp_free(odp);
	return 0;
}

static int tern_odp_create_explicit(struct tern_odp *odp, struct tern_mr *mr)
{
	struct tern_cmd_create_mr cmd = {
		.iova = cpu_to_le64(odp->iova),
		.length = cpu_to_le64(odp->length),
		.offset = cpu_to_le64(offset_in_page(odp->start)),
		.flags = TERN_MR_F_INCOMPLETE,
	};
	u64 max = le64_to_cpu(odp->dev->core->caps->max_mr_size);
	u64 end, num_pages;

	if (!odp->length || odp->length > max)
		return tern_refuse(odp->dev, -EINVAL, "region of %llu bytes",
				   odp->length);
	if (check_add_overflow(odp->start, odp->length, &end) ||
	    end > PAGE_ALIGN_DOWN(ULONG_MAX))
		return -EOVERFLOW;

	num_pages = PFN_UP(end) - PFN_DOWN(odp->start);
	if (num_pages > U32_MAX)
		return tern_refuse(odp->dev, -EINVAL, "region of %llu pages",
				   num_pages);

	cmd.pages.num = cpu_to_le32(num_pages);
	return tern_odp_create(odp, mr, &cmd) ?: tern_odp_open(odp);
}

static int tern_odp_create_implicit(struct tern_odp *odp, struct tern_mr *mr)
{
	struct tern_cmd_create_mr cmd = {
		.length = cpu_to_le64(odp->length),
		.flags = TERN_MR_F_SPARSE,
	};

	return tern_odp_create(odp, mr, &cmd);
}

/**
 * tern_reg_odp_mr() - register memory on demand
 * @ibpd: the PD
 * @start: user virtual address; 0 with length U64_MAX for the address space
 * @length: length in bytes
 * @virt: I/O virtual address of the first byte; 0 with IB_ZERO_BASED
 * @access: IB_ACCESS_*
 *
 * Return: the region, without present pages, or an ERR_PTR.
 */
struct ib_mr *tern_reg_odp_mr(struct ib_pd *ibpd, u64 start, u64 length,
			      u64 virt, int access)
{
	struct tern_ib_dev *dev = to_tdev(ibpd->device);
	bool implicit = !start && length == U64_MAX;
	struct ib_umem_odp *root;
	struct tern_odp *odp;
	struct tern_mr *mr;
	int err = -ENOMEM;

	if (!tern_has_odp(dev))
		return ERR_PTR(tern_refuse(dev, -EOPNOTSUPP,
					   "no on-demand paging"));
	if (implicit && virt)
		return ERR_PTR(tern_refuse(dev, -EINVAL,
					   "implicit region at %#llx", virt));

	mr = kzalloc_obj(*mr);
	if (!mr)
		return ERR_PTR(-ENOMEM);

	odp = tern_odp_alloc(ibpd, start, length,
			     access & IB_ZERO_BASED ? 0 : virt, access);
	if (!odp)
		goto free_mr;

	mr->access = access;
	mr->ibmr.iova = virt;
	mr->ibmr.length = length;
	odp->mm = current->mm;
	mmgrab(odp->mm);
	/* The entries are single pages also where huge pages are mapped. */
	root = ib_umem_odp_alloc_implicit(ibpd->device,
					  access & ~IB_ACCESS_HUGETLB);
	if (IS_ERR(root)) {
		err = PTR_ERR(root);
		goto free_odp;
	}

	odp->root = root;
	if (implicit)
		err = tern_odp_create_implicit(odp, mr);
	else
		err = tern_odp_create_explicit(odp, mr);
	if (err)
		goto free_odp;

	return &mr->ibmr;

free_odp:
	tern_odp_free(odp);
free_mr:
	kfree(mr);
	return ERR_PTR(err);
}

/**
 * tern_odp_set_access() - follow a change of a region's rights
 * @odp: the region, whose key has the new rights
 * @ibpd: its PD
 * @access: IB_ACCESS_*
 */
void tern_odp_set_access(struct tern_odp *odp, struct ib_pd *ibpd, int access)
{
	WRITE_ONCE(odp->pd, ibpd);
	WRITE_ONCE(odp->writable, ib_access_writable(access));
}

/* "rdma statistic show mr", with mlx5's names. */
int tern_fill_stat_mr_entry(struct sk_buff *msg, struct ib_mr *ibmr)
{
	struct tern_odp *odp = to_tmr(ibmr)->odp;
	struct nlattr *table;

	if (!odp)
		return 0;

	table = nla_nest_start(msg, RDMA_NLDEV_ATTR_STAT_HWCOUNTERS);
	if (!table)
		return -EMSGSIZE;

	if (rdma_nl_stat_hwcounter_entry(msg, "page_faults",
					 atomic64_read(&odp->faults)) ||
	    rdma_nl_stat_hwcounter_entry(msg, "page_invalidations",
					 atomic64_read(&odp->invalidations)) ||
	    rdma_nl_stat_hwcounter_entry(msg, "page_prefetch",
					 atomic64_read(&odp->prefetches))) {
		nla_nest_cancel(msg, table);
		return -EMSGSIZE;
	}

	nla_nest_end(msg, table);
	return 0;
}

#ifndef TERN_WITHOUT_DMABUF
/* Whether the region is on a dma-buf. */
bool tern_odp_is_dmabuf(const struct tern_odp *odp)
{
	return odp->dmabuf;
}

#endif
#define TERN_ODP_REQUESTER	IB_ODP_SUPPORT_SEND
#define TERN_ODP_RELIABLE	(IB_ODP_SUPPORT_SEND | IB_ODP_SUPPORT_RECV | \
				 IB_ODP_SUPPORT_WRITE | IB_ODP_SUPPORT_READ | \
				 IB_ODP_SUPPORT_SRQ_RECV)

/*
 * On-demand paging. An unreliable transport loses the message for which its
 * receiver faults, so only sends are supported there.
 */
void tern_fill_odp(const struct tern_ib_dev *dev, struct ib_device_attr *attr)
{
	struct ib_odp_caps *caps = &attr->odp_caps;
	u32 reliable = TERN_ODP_RELIABLE;

	if (tern_has_cap(dev, TERN_CAP_ATOMIC))
		reliable |= IB_ODP_SUPPORT_ATOMIC;
	if (tern_has_cap(dev, TERN_CAP_FLUSH))
		reliable |= IB_ODP_SUPPORT_FLUSH;
	if (tern_has_cap(dev, TERN_CAP_ATOMIC_WRITE))
		reliable |= IB_ODP_SUPPORT_ATOMIC_WRITE;

	attr->kernel_cap_flags |= IBK_ON_DEMAND_PAGING;
	caps->general_caps = IB_ODP_SUPPORT | IB_ODP_SUPPORT_IMPLICIT;
	caps->per_transport_caps.rc_odp_caps = reliable;
	caps->per_transport_caps.uc_odp_caps = TERN_ODP_REQUESTER;
	if (tern_has_cap(dev, TERN_CAP_UD))
		caps->per_transport_caps.ud_odp_caps = TERN_ODP_REQUESTER;
	if (tern_has_cap(dev, TERN_CAP_XRC))
		caps->per_transport_caps.xrc_odp_caps = reliable;
}
