// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Page faults of the device, and prefetches.
 *
 * A page may take for ever to arrive, so each user context has a limited number
 * of requests in the work queue, and the others wait: a context delays only
 * itself. Nothing waits for a request but the end of the driver.
 */

#include <linux/sched/mm.h>
#include <linux/slab.h>

#include "tern_ib_odp.h"

/* Requests of one context that run at the same time. */
#define TERN_ODP_MAX_RUNNING	64

/* How often a page may go away between its arrival and its mapping. */
#define TERN_ODP_MAX_TRIES	16

/**
 * struct tern_odp_request - a page fault, or an asynchronous prefetch
 * @work: handles the request
 * @list: entry in tern_odp_user.waiting
 * @dev: the device
 * @user: the context
 * @run: handles the request
 * @fault: the fault, for tern_fault_run()
 * @flags: TERN_ODP_*, for tern_prefetch_run()
 * @num_sge: number of @sg
 * @sg: ranges to prefetch
 */
struct tern_odp_request {
	struct work_struct work;
	struct list_head list;
	struct tern_ib_dev *dev;
	struct tern_odp_user *user;
	void (*run)(struct tern_odp_request *request);
	struct tern_fault fault;
	unsigned int flags;
	u32 num_sge;
	struct ib_sge sg[] __counted_by(num_sge);
};

/**
 * tern_odp_user_alloc() - allocate what requests are charged to
 *
 * Return: the user, with a reference, or NULL.
 */
struct tern_odp_user *tern_odp_user_alloc(void)
{
	struct tern_odp_user *user;

	user = kzalloc_obj(*user);
	if (user) {
		refcount_set(&user->count, 1);
		INIT_LIST_HEAD(&user->waiting);
	}

	return user;
}

/* Returns a reference to the user of a PD. */
struct tern_odp_user *tern_odp_user_get(struct ib_pd *ibpd)
{
	struct tern_odp_user *user = to_tdev(ibpd->device)->kernel_faults;

	if (ibpd->uobject)
		user = to_tucontext(ibpd->uobject->context)->faults;
	refcount_inc(&user->count);
	return user;
}

void tern_odp_user_put(struct tern_odp_user *user)
{
	if (user && refcount_dec_and_test(&user->count))
		kfree(user);
}

static void tern_request_free(struct tern_odp_request *request)
{
	tern_odp_user_put(request->user);
	kfree(request);
}

static unsigned long tern_fault_slot(u32 qpn, unsigned int side)
{
	return (unsigned long)qpn << 1 | (side & 1);
}

static unsigned long tern_request_slot(const struct tern_odp_request *request)
{
	return tern_fault_slot(le32_to_cpu(request->fault.qpn),
			       request->fault.side);
}

/* Ends a fault. The QP may have left its state or be gone. */
static void tern_fault_resume(struct tern_ib_dev *dev,
			      const struct tern_fault *fault, u8 result)
{
	struct tern_cmd_resume_qp cmd = {
		.qpn = fault->qpn,
		.token = fault->token,
		.side = fault->side,
		.result = result,
	};

	tern_cmd_exec(dev->core, TERN_CMD_RESUME_QP, &cmd, sizeof(cmd), NULL,
		      0);
}

/*
 * Brings pages of a region into memory. Holds no reference to the region while
 * it waits, so that the region can be deregistered.
 */
static long tern_fault_in(struct tern_ib_dev *dev, u32 key, u64 va, u64 bytes,
			  unsigned int flags)
{
	struct tern_odp *odp = tern_odp_get(dev, key);
	struct mm_struct *mm;
	long ret;

	if (!odp)
		return -ENOENT;

	mm = odp->mm;
	if (mm && !mmget_not_zero(mm)) {
		tern_odp_put(odp);
		return -EFAULT;
	}
	tern_odp_put(odp);
	/* A dma-buf needs no address space. */
	if (!mm)
		return DIV_ROUND_UP(bytes + offset_in_page(va), PAGE_SIZE);

	ret = tern_odp_fault_in(mm, va, bytes, flags);
	mmput(mm);
	return ret;
}

/*
 * Maps the pages of [va, va + bytes), or the first of them. Returns their
 * number; -ENOENT if the region is gone; or another negative errno.
 */
static long tern_fault_map(struct tern_ib_dev *dev, u32 key, u64 va, u64 bytes,
			   unsigned int flags)
{
	unsigned int tries = 0;
	struct tern_odp *odp;
	u64 most;
	long ret;

	do {
		most = bytes;
		if (!(flags & TERN_ODP_SNAPSHOT)) {
			ret = tern_fault_in(dev, key, va, bytes, flags);
			if (ret < 0)
				return ret;
			most = min(bytes, ((u64)ret << PAGE_SHIFT) -
					  offset_in_page(va));
		}

		odp = tern_odp_get(dev, key);
		if (!odp)
			return -ENOENT;
		ret = tern_odp_map(odp, va, most, flags);
		if (ret > 0)
			atomic64_add(ret, flags & TERN_ODP_PREFETCH ?
					  &odp->prefetches : &odp->faults);
		tern_odp_put(odp);
	} while ((ret == -EFAULT || ret == -EBUSY) &&
		 ++tries < TERN_ODP_MAX_TRIES &&
		 !(flags & TERN_ODP_SNAPSHOT));

	return ret;
}

static void tern_fault_run(struct tern_odp_request *request)
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
		return;
	}

	offset = le64_to_cpu(fault->addr) - odp->iova;
	if (length && offset < odp->length && length <= odp->length - offset &&
	    (!fault->write || tern_odp_writable(odp))) {
		start = odp->start;
		ok = true;
	}
	tern_odp_put(odp);

	ret = ok ? tern_fault_map(dev, key, start + offset, length,
				  fault->write ? TERN_ODP_WRITE : 0) : -EFAULT;
	tern_fault_resume(dev, fault, ret > 0 || ret == -ENOENT ?
				      TERN_RESUME_RETRY : TERN_RESUME_FAIL);
}

static void tern_request_work(struct work_struct *work)
{
	struct tern_odp_request *request =
		container_of(work, struct tern_odp_request, work);
	struct tern_odp_user *user = request->user;
	struct tern_ib_dev *dev = request->dev;
	struct tern_odp_request *next;

	request->run(request);

	mutex_lock(&dev->fault_lock);
	next = list_first_entry_or_null(&user->waiting, struct tern_odp_request,
					list);
	if (next) {
		list_del(&next->list);
		if (next->run == tern_fault_run)
			xa_erase(&dev->waiting_faults, tern_request_slot(next));
		queue_work(dev->fault_wq, &next->work);
	} else {
		user->running--;
	}
	mutex_unlock(&dev->fault_lock);
	tern_request_free(request);
}

/* Queues a request, or lets it wait. Returns false if neither is possible. */
static bool tern_request_queue(struct tern_odp_request *request)
{
	struct tern_odp_user *user = request->user;
	struct tern_ib_dev *dev = request->dev;
	struct tern_odp_request *old = NULL;
	bool queued = true;

	INIT_WORK(&request->work, tern_request_work);
	mutex_lock(&dev->fault_lock);
	if (user->running < TERN_ODP_MAX_RUNNING) {
		user->running++;
		queue_work(dev->fault_wq, &request->work);
		goto unlock;
	}

	if (request->run == tern_fault_run) {
		/* A new fault of the same half of a QP: the old one has ended. */
		old = xa_store(&dev->waiting_faults, tern_request_slot(request),
			       request, GFP_KERNEL);
		if (xa_is_err(old)) {
			old = NULL;
			queued = false;
			goto unlock;
		}
		if (old)
			list_del(&old->list);
	}
	list_add_tail(&request->list, &user->waiting);
unlock:
	mutex_unlock(&dev->fault_lock);
	if (old)
		tern_request_free(old);
	return queued;
}

static struct tern_odp_request *tern_request_alloc(struct tern_ib_dev *dev,
						   struct tern_odp_user *user,
						   u32 num_sge)
{
	struct tern_odp_request *request;

	request = kzalloc_flex(*request, sg, num_sge, GFP_KERNEL_ACCOUNT);
	if (!request)
		return NULL;

	request->dev = dev;
	request->num_sge = num_sge;
	refcount_inc(&user->count);
	request->user = user;
	return request;
}

static void tern_fault_dispatch(struct tern_ib_dev *dev,
				const struct tern_fault *fault)
{
	struct tern_odp *odp = tern_odp_get(dev, le32_to_cpu(fault->key));
	struct tern_odp_request *request = NULL;

	if (odp) {
		request = tern_request_alloc(dev, odp->user, 0);
		tern_odp_put(odp);
	}
	if (request) {
		request->run = tern_fault_run;
		request->fault = *fault;
		if (tern_request_queue(request))
			return;
		tern_request_free(request);
	}
	/* The device makes the access, and reports it, again. */
	tern_fault_resume(dev, fault, TERN_RESUME_RETRY);
}

static void tern_fault_take_work(struct work_struct *work)
{
	struct tern_ib_dev *dev = container_of(work, struct tern_ib_dev,
					       fault_work);
	struct tern_fault fault;

	while (tern_fault_eq_next(dev->fault_eq, &fault))
		tern_fault_dispatch(dev, &fault);
	tern_fault_eq_done(dev->fault_eq);
}

static void tern_fault_notify(void *context)
{
	struct tern_ib_dev *dev = context;

	schedule_work(&dev->fault_work);
}

/**
 * tern_fault_forget_qp() - drop the waiting faults of a destroyed QP
 * @dev: the device
 * @qpn: QP number
 */
void tern_fault_forget_qp(struct tern_ib_dev *dev, u32 qpn)
{
	struct tern_odp_request *request;
	unsigned int side;

	if (!dev->fault_eq)
		return;

	for (side = TERN_FAULT_REQUESTER; side <= TERN_FAULT_RESPONDER; side++) {
		mutex_lock(&dev->fault_lock);
		request = xa_erase(&dev->waiting_faults,
				   tern_fault_slot(qpn, side));
		if (request)
			list_del(&request->list);
		mutex_unlock(&dev->fault_lock);
		if (request)
			tern_request_free(request);
	}
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

/* Maps a range. Returns 0 or a negative errno. */
static int tern_prefetch_range(struct tern_ib_dev *dev,
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

		ret = tern_fault_map(dev, sge->lkey, va, bytes, flags);
		if (ret < 0)
			return ret;
		if (!ret)
			return -EFAULT;
		step = min(bytes, ((u64)ret << PAGE_SHIFT) - offset_in_page(va));
		cond_resched();
	}
	return 0;
}

static void tern_prefetch_run(struct tern_odp_request *request)
{
	u32 i;

	/* Advice: a range that fails does not matter to the others. */
	for (i = 0; i < request->num_sge; i++)
		tern_prefetch_range(request->dev, &request->sg[i],
				    request->flags);
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
 * that is not mapped; -ENOMEM; -EINTR.
 */
int tern_advise_mr(struct ib_pd *ibpd, enum ib_uverbs_advise_mr_advice advice,
		   u32 flags, struct ib_sge *sg, u32 num_sge,
		   struct uverbs_attr_bundle *attrs)
{
	struct tern_ib_dev *dev = to_tdev(ibpd->device);
	struct tern_odp_request *request;
	struct tern_odp_user *user;
	unsigned int how = TERN_ODP_PREFETCH;
	u32 i;
	int err;

	switch (advice) {
	case IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH:
		break;
	case IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_WRITE:
		how |= TERN_ODP_WRITE;
		break;
	case IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT:
		how |= TERN_ODP_SNAPSHOT;
		break;
	default:
		return -EOPNOTSUPP;
	}

	for (i = 0; i < num_sge; i++) {
		err = tern_prefetch_check(ibpd, &sg[i], how);
		if (err)
			return err;
	}

	if (flags & IB_UVERBS_ADVISE_MR_FLAG_FLUSH) {
		for (i = 0; i < num_sge; i++) {
			err = tern_prefetch_range(dev, &sg[i], how);
			if (err)
				return err;
		}
		return 0;
	}

	user = tern_odp_user_get(ibpd);
	request = tern_request_alloc(dev, user, num_sge);
	tern_odp_user_put(user);
	if (!request)
		return -ENOMEM;

	request->run = tern_prefetch_run;
	request->flags = how;
	memcpy(request->sg, sg, array_size(num_sge, sizeof(*sg)));
	tern_request_queue(request);
	return 0;
}

/**
 * tern_faults_init() - prepare for page faults
 * @dev: the device, which is not registered
 *
 * Return: 0, also for a device without on-demand paging, or a negative errno.
 */
int tern_faults_init(struct tern_ib_dev *dev)
{
	struct tern_fault_eq *eq;
	int err = -ENOMEM;

	xa_init(&dev->odps);
	xa_init(&dev->waiting_faults);
	mutex_init(&dev->fault_lock);
	INIT_WORK(&dev->fault_work, tern_fault_take_work);
	if (!tern_has_odp(dev))
		return 0;

	dev->kernel_faults = tern_odp_user_alloc();
	if (!dev->kernel_faults)
		return -ENOMEM;

	/* Its work waits for pages, and must not hold up that of others. */
	dev->fault_wq = alloc_workqueue("tern_fault", WQ_UNBOUND, WQ_MAX_ACTIVE);
	if (!dev->fault_wq)
		goto free_user;

	eq = tern_fault_eq_create(dev->core, tern_fault_notify, dev);
	if (IS_ERR(eq)) {
		err = PTR_ERR(eq);
		goto destroy_fault_wq;
	}

	dev->fault_eq = eq;
	return 0;

destroy_fault_wq:
	destroy_workqueue(dev->fault_wq);
free_user:
	tern_odp_user_put(dev->kernel_faults);
	return err;
}

/**
 * tern_faults_free() - undo tern_faults_init()
 * @dev: the device, which has no regions any more
 *
 * Waits until pages that were asked for have arrived.
 */
void tern_faults_free(struct tern_ib_dev *dev)
{
	if (!dev->fault_eq)
		return;

	/* The interrupt may still come, but the work does not run again. */
	disable_work_sync(&dev->fault_work);
	tern_fault_eq_destroy(dev->fault_eq);
	/* Requests queue those that wait. */
	drain_workqueue(dev->fault_wq);
	destroy_workqueue(dev->fault_wq);
	tern_odp_user_put(dev->kernel_faults);
	WARN_ON(!xa_empty(&dev->odps));
	WARN_ON(!xa_empty(&dev->waiting_faults));
}
