// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Page faults of the device, and prefetches: tern_ib_pager.c has the threads that
 * serve them.
 */

#include <linux/mm.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>

#include "tern_ib_odp.h"

/* Limit of the times that a page may go away between its arrival and its mapping. */
#define TERN_ODP_MAX_TRIES	16

/* Limit of faults that one run of the work takes. */
#define TERN_FAULT_BATCH	256

/*
 * Brings pages into memory, of an address space that stays meanwhile. May wait
 * for ever, for a userfaultfd or a file system in user space. Returns the number
 * of pages, or a negative errno.
 */
static long tern_fault_pages(struct mm_struct *mm, u64 va, u64 bytes,
			     unsigned int flags)
{
	/* tern_odp_map() does not see pages that wait for a NUMA hint. */
	unsigned int gup_flags = FOLL_HONOR_NUMA_FAULT;
	u64 last = va + bytes - 1;
	unsigned long num;
	int locked = 1;
	long ret;

	if (flags & TERN_ODP_WRITE)
		gup_flags |= FOLL_WRITE;
	num = min_t(u64, (last >> PAGE_SHIFT) - (va >> PAGE_SHIFT) + 1,
		    TERN_ODP_BATCH);
	mmap_read_lock(mm);
	ret = get_user_pages_remote(mm, va & PAGE_MASK, num, gup_flags, NULL,
				    &locked);
	if (locked)
		mmap_read_unlock(mm);

	return ret ?: -EFAULT;
}

/*
 * Like tern_fault_pages(). A thread of a pager does not use the device
 * meanwhile; after -ESHUTDOWN it must not use it any more.
 */
static long tern_fault_in(struct tern_pager_thread *thread,
			  struct mm_struct *mm, u64 va, u64 bytes,
			  unsigned int flags)
{
	long ret;

	if (!thread)
		return tern_fault_pages(mm, va, bytes, flags);

	if (!tern_pager_leave(thread))
		return -ENOENT;
	ret = tern_fault_pages(mm, va, bytes, flags);
	return tern_pager_enter(thread) ? ret : -ESHUTDOWN;
}

/* Maps pages that are in memory. Returns their number, or a negative errno. */
static long tern_fault_map_present(struct tern_ib_dev *dev, u32 key, u64 va,
				   u64 bytes, unsigned int flags)
{
	struct tern_odp *odp = tern_odp_get(dev, key);
	long ret;

	if (!odp)
		return -ENOENT;

	ret = odp->dmabuf ? tern_dmabuf_map(odp) :
			    tern_odp_map(odp, va, bytes, flags);
	if (ret > 0)
		atomic64_add(ret, flags & TERN_ODP_PREFETCH ?
				  &odp->prefetches : &odp->faults);
	tern_odp_put(odp);
	return ret;
}

/*
 * Brings the pages of [va, va + bytes) of an address space into memory and maps
 * them, or the first of them. Holds no reference to the region while it waits,
 * so that the region can be deregistered.
 */
static long tern_fault_map_mm(struct tern_ib_dev *dev,
			      struct tern_pager_thread *thread,
			      struct mm_struct *mm, u32 key, u64 va, u64 bytes,
			      unsigned int flags)
{
	unsigned int tries = 0;
	long ret;

	do {
		ret = tern_fault_in(thread, mm, va, bytes, flags);
		if (ret < 0)
			break;
		bytes = min(bytes,
			    ((u64)ret << PAGE_SHIFT) - offset_in_page(va));
		ret = tern_fault_map_present(dev, key, va, bytes, flags);
		/* The first page went away again. Retry with it alone: more may not fit. */
		if (!ret)
			bytes = 1;
	} while ((!ret || ret == -EBUSY) && ++tries < TERN_ODP_MAX_TRIES);

	return ret;
}

/*
 * Maps the pages of [va, va + bytes), or the first of them. Returns their
 * number; 0 if the first does not stay; -ENOENT if the region is gone;
 * -ESHUTDOWN if the device is gone; or another negative errno.
 */
static long tern_fault_map(struct tern_ib_dev *dev,
			   struct tern_pager_thread *thread, u32 key, u64 va,
			   u64 bytes, unsigned int flags)
{
	struct tern_odp *odp = tern_odp_get(dev, key);
	struct mm_struct *mm;
	long ret;

	if (!odp)
		return -ENOENT;

	/* A dma-buf needs no address space. */
	mm = odp->mm;
	if (mm && !mmget_not_zero(mm)) {
		tern_odp_put(odp);
		return -EFAULT;
	}
	tern_odp_put(odp);

	if (mm && !(flags & TERN_ODP_SNAPSHOT))
		ret = tern_fault_map_mm(dev, thread, mm, key, va, bytes, flags);
	else
		ret = tern_fault_map_present(dev, key, va, bytes, flags);
	/* Freeing an address space may wait, too: do not do that here. */
	if (mm)
		mmput_async(mm);
	return ret;
}

/* Serves a page fault. Returns false if the device is gone. */
static bool tern_fault_run(struct tern_pager_thread *thread,
			   struct tern_odp_request *request)
{
	const struct tern_fault *fault = &request->fault;
	struct tern_ib_dev *dev = request->dev;
	u32 key = le32_to_cpu(fault->key);
	u64 length = le64_to_cpu(fault->length);
	u64 offset = 0, start = 0;
	struct tern_odp *odp;
	bool ok = false;
	long ret;

	/* The device checks the access again and refuses a key that is gone. */
	odp = tern_odp_get(dev, key);
	if (!odp) {
		tern_fault_resume(dev, fault, TERN_RESUME_RETRY);
		return true;
	}

	offset = le64_to_cpu(fault->addr) - odp->iova;
	if (length && offset < odp->length && length <= odp->length - offset &&
	    (!fault->write || tern_odp_writable(odp))) {
		start = odp->start;
		ok = true;
	}
	tern_odp_put(odp);

	ret = ok ? tern_fault_map(dev, thread, key, start + offset, length,
				  fault->write ? TERN_ODP_WRITE : 0) : -EFAULT;
	if (ret == -ESHUTDOWN)
		return false;

	tern_fault_resume(dev, fault, ret > 0 || ret == -ENOENT ?
				      TERN_RESUME_RETRY : TERN_RESUME_FAIL);
	return true;
}

static struct tern_odp_request *tern_request_alloc(struct tern_ib_dev *dev,
						   u32 num_sge)
{
	struct tern_odp_request *request;

	request = kzalloc_flex(*request, sg, num_sge, GFP_KERNEL_ACCOUNT);
	if (!request)
		return NULL;

	request->dev = dev;
	request->num_sge = num_sge;
	return request;
}

/* Hands a fault to its pager. Returns false without memory to do so. */
static bool tern_fault_queue(struct tern_odp *odp,
			     const struct tern_fault *fault)
{
	struct tern_odp_request *request = tern_request_alloc(odp->dev, 0);

	if (!request)
		return false;

	request->serve = tern_fault_run;
	request->fault = *fault;
	if (!tern_pager_queue(odp->pager, request))
		return true;
	kfree(request);
	return false;
}

static void tern_fault_dispatch(struct tern_ib_dev *dev,
				const struct tern_fault *fault)
{
	struct tern_odp *odp = tern_odp_get(dev, le32_to_cpu(fault->key));

	if (!odp) {
		/* The device checks the access again, and refuses it. */
		tern_fault_resume(dev, fault, TERN_RESUME_RETRY);
		return;
	}

	if (!tern_fault_queue(odp, fault))
		tern_fault_resume(dev, fault, TERN_RESUME_FAIL);
	tern_odp_put(odp);
}

static void tern_fault_take_work(struct work_struct *work)
{
	struct tern_ib_dev *dev = container_of(work, struct tern_ib_dev,
					       fault_work);
	struct tern_fault fault;
	unsigned int n;

	for (n = 0; n < TERN_FAULT_BATCH; n++) {
		if (!tern_fault_eq_next(dev->fault_eq, &fault)) {
			tern_fault_eq_done(dev->fault_eq);
			return;
		}
		tern_fault_dispatch(dev, &fault);
	}
	/* A device that reports faults endlessly must not delay its removal. */
	queue_work(dev->fault_wq, work);
}

static void tern_fault_notify(void *context)
{
	struct tern_ib_dev *dev = context;

	queue_work(dev->fault_wq, &dev->fault_work);
}

/* Checks a range that is to be prefetched. */
static int tern_prefetch_check(struct ib_pd *ibpd, const struct ib_sge *sge,
			       unsigned int flags)
{
	struct tern_odp *odp = tern_odp_get(to_tdev(ibpd->device), sge->lkey);
	u64 offset;
	int err = 0;

	if (!odp)
		return -ENOENT;

	offset = sge->addr - odp->iova;
	if (READ_ONCE(odp->pd) != ibpd ||
	    (flags & TERN_ODP_WRITE && !tern_odp_writable(odp)))
		err = -EPERM;
	else if (offset > odp->length || sge->length > odp->length - offset)
		err = -EFAULT;
	tern_odp_put(odp);
	return err;
}

/* Maps a range. Returns 0 or a negative errno, see tern_fault_map(). */
static int tern_prefetch_range(struct tern_ib_dev *dev,
			       struct tern_pager_thread *thread,
			       const struct ib_sge *sge, unsigned int flags)
{
	u64 start, bytes = sge->length;
	struct tern_odp *odp;
	u64 va, step;
	long ret;

	odp = tern_odp_get(dev, sge->lkey);
	if (!odp)
		return -ENOENT;
	start = odp->start + (sge->addr - odp->iova);
	tern_odp_put(odp);

	for (va = start; bytes; va += step, bytes -= step) {
		if (fatal_signal_pending(current))
			return -EINTR;

		ret = tern_fault_map(dev, thread, sge->lkey, va, bytes, flags);
		if (ret < 0)
			return ret;
		if (!ret)
			return -EFAULT;
		step = min(bytes, ((u64)ret << PAGE_SHIFT) - offset_in_page(va));
		cond_resched();
	}
	return 0;
}

/* Serves an asynchronous prefetch. Returns false if the device is gone. */
static bool tern_prefetch_run(struct tern_pager_thread *thread,
			      struct tern_odp_request *request)
{
	u32 i;

	/* Advice: a range that fails does not affect the others. */
	for (i = 0; i < request->num_sge; i++)
		if (tern_prefetch_range(request->dev, thread, &request->sg[i],
					request->flags) == -ESHUTDOWN)
			return false;
	return true;
}

static int tern_prefetch_queue(struct tern_ib_dev *dev,
			       const struct ib_sge *sg, u32 num_sge,
			       unsigned int flags)
{
	struct tern_odp_request *request;
	struct tern_odp *odp;
	int err;

	/* All regions have the same PD, and thus the same pager. */
	odp = num_sge ? tern_odp_get(dev, sg->lkey) : NULL;
	if (!odp)
		return num_sge ? -ENOENT : 0;

	err = -ENOMEM;
	request = tern_request_alloc(dev, num_sge);
	if (!request)
		goto put;

	request->serve = tern_prefetch_run;
	request->prefetch = true;
	request->flags = flags;
	memcpy(request->sg, sg, array_size(num_sge, sizeof(*sg)));
	err = tern_pager_queue(odp->pager, request);
	if (err)
		kfree(request);
put:
	tern_odp_put(odp);
	return err;
}

/**
 * tern_advise_mr() - prefetch ranges of on-demand regions
 * @ibpd: the PD
 * @advice: IB_UVERBS_ADVISE_MR_ADVICE_*
 * @flags: IB_UVERBS_ADVISE_MR_FLAG_FLUSH: wait for the pages
 * @sg: the ranges
 * @num_sge: number of ranges
 * @attrs: unused
 *
 * Return: 0; -EOPNOTSUPP for other advice; -ENOENT for a key that is not one of
 * an on-demand region; -EPERM for a region of another PD or without the right
 * to write; -EFAULT for a range outside the region and, with FLUSH, for memory
 * that is not mapped; -ENOMEM, without FLUSH also while many calls wait for a
 * thread; -EINTR.
 */
int tern_advise_mr(struct ib_pd *ibpd, enum ib_uverbs_advise_mr_advice advice,
		   u32 flags, struct ib_sge *sg, u32 num_sge,
		   struct uverbs_attr_bundle *attrs)
{
	struct tern_ib_dev *dev = to_tdev(ibpd->device);
	unsigned int map_flags = TERN_ODP_PREFETCH;
	u32 i;
	int err;

	switch (advice) {
	case IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH:
		break;
	case IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_WRITE:
		map_flags |= TERN_ODP_WRITE;
		break;
	case IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT:
		map_flags |= TERN_ODP_SNAPSHOT;
		break;
	default:
		return tern_refuse(dev, -EOPNOTSUPP, "advice %d", advice);
	}

	for (i = 0; i < num_sge; i++) {
		err = tern_prefetch_check(ibpd, &sg[i], map_flags);
		if (err)
			return err;
	}

	if (flags & IB_UVERBS_ADVISE_MR_FLAG_FLUSH) {
		for (i = 0; i < num_sge; i++) {
			err = tern_prefetch_range(dev, NULL, &sg[i],
						  map_flags);
			if (err)
				return err;
		}
		return 0;
	}

	return tern_prefetch_queue(dev, sg, num_sge, map_flags);
}

/**
 * tern_faults_init() - prepare for page faults
 * @dev: the device, which is not registered
 *
 * Return: 0, also for a device without on-demand paging, or a negative errno.
 */
int tern_faults_init(struct tern_ib_dev *dev)
{
	struct tern_eq *eq;

	xa_init(&dev->odps);
	xa_init(&dev->queued_faults);
	mutex_init(&dev->fault_lock);
	INIT_WORK(&dev->fault_work, tern_fault_take_work);
	if (!tern_has_odp(dev))
		return 0;

	/* The device may raise the interrupt before it answers. */
	disable_work(&dev->fault_work);

	/* Destroying it waits until the last work has returned. */
	dev->fault_wq = alloc_workqueue("tern_fault", WQ_UNBOUND, 0);
	if (!dev->fault_wq)
		return -ENOMEM;

	eq = tern_fault_eq_create(dev->core, tern_fault_notify, dev);
	if (IS_ERR(eq)) {
		destroy_workqueue(dev->fault_wq);
		return PTR_ERR(eq);
	}

	dev->fault_eq = eq;
	enable_and_queue_work(dev->fault_wq, &dev->fault_work);
	return 0;
}

/**
 * tern_faults_free() - undo tern_faults_init()
 * @dev: the device, which has no regions any more
 */
void tern_faults_free(struct tern_ib_dev *dev)
{
	if (!dev->fault_eq)
		return;

	/* The interrupt may still occur, but the work does not run again. */
	disable_work_sync(&dev->fault_work);
	tern_eq_destroy(dev->fault_eq);
	destroy_workqueue(dev->fault_wq);
	WARN_ON(!xa_empty(&dev->odps));
	WARN_ON(!xa_empty(&dev->queued_faults));
}

const struct ib_device_ops tern_dev_odp_ops = {
	.advise_mr = tern_advise_mr,
	.fill_stat_mr_entry = tern_fill_stat_mr_entry,
};
