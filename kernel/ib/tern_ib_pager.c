// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Threads that serve page faults of the device, and prefetches.
 *
 * A page may never arrive, and not every wait for one can be interrupted. So
 * each user context has its own threads, and a thread that waits for a page
 * uses nothing of the device. When the context ends, such a thread is
 * abandoned: it holds a reference to the module, and ends when the page
 * arrives.
 */

#include <linux/kthread.h>
#include <linux/module.h>
#include <linux/sched.h>
#include <linux/slab.h>

#include "tern_ib_odp.h"

/* Limit of pages of one context that may be awaited at the same time. */
#define TERN_PAGER_MAX_THREADS	8

/* Limit of prefetches of one context that no thread has taken. QPs limit its faults. */
#define TERN_PAGER_MAX_PREFETCHES	64

/* Serves the requests of a user context, or those of one region of a kernel user. */
struct tern_pager {
	struct tern_ib_dev *dev;	/* the device; gone when @closed */
	refcount_t count;	/* references: one for the owner, one for each thread */
	wait_queue_head_t wait;	/* idle threads */
	/* Requests that no thread has taken, under tern_ib_dev.fault_lock. */
	struct list_head requests;
	unsigned int num_requests;	/* number of @requests, under the same lock */
	unsigned int num_prefetches;	/* number of prefetches of these, under the same lock */
	unsigned int num_threads;	/* number of threads started, under the same lock */
	unsigned int idle;	/* number of threads without a request, under the same lock */
	struct mutex lock;	/* protects the members below, and tern_pager_thread.away */
	struct list_head threads;	/* threads, without abandoned ones */
	bool closed;	/* threads must not use the device any more */
};

/* A thread. */
struct tern_pager_thread {
	struct list_head list;	/* entry in tern_pager.threads */
	struct tern_pager *pager;	/* the pager that it belongs to */
	struct task_struct *task;	/* the thread */
	struct tern_odp_request *request;	/* the request that it serves */
	bool away;	/* it waits for a page */
};

/**
 * tern_pager_alloc() - allocate a pager
 * @dev: the device
 *
 * Return: the pager, without threads, or NULL.
 */
struct tern_pager *tern_pager_alloc(struct tern_ib_dev *dev)
{
	struct tern_pager *pager;

	pager = kzalloc_obj(*pager);
	if (!pager)
		return NULL;

	pager->dev = dev;
	refcount_set(&pager->count, 1);
	init_waitqueue_head(&pager->wait);
	INIT_LIST_HEAD(&pager->requests);
	mutex_init(&pager->lock);
	INIT_LIST_HEAD(&pager->threads);
	return pager;
}

static void tern_pager_put(struct tern_pager *pager)
{
	if (refcount_dec_and_test(&pager->count))
		kfree(pager);
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

/* Takes a request out of its queue. */
static void tern_request_del(struct tern_pager *pager,
			     struct tern_odp_request *request)
{
	lockdep_assert_held(&pager->dev->fault_lock);

	list_del(&request->list);
	pager->num_requests--;
	pager->num_prefetches -= request->prefetch;
}

/* Waits for a request. Returns NULL if the thread must end. */
static struct tern_odp_request *tern_pager_take(struct tern_pager *pager)
{
	struct tern_odp_request *request = NULL;
	struct tern_ib_dev *dev = pager->dev;

	mutex_lock(&dev->fault_lock);
	pager->idle++;
	while (list_empty(&pager->requests) && !kthread_should_stop()) {
		mutex_unlock(&dev->fault_lock);
		wait_event_idle_exclusive(pager->wait,
					  !list_empty(&pager->requests) ||
					  kthread_should_stop());
		mutex_lock(&dev->fault_lock);
	}
	pager->idle--;
	if (!kthread_should_stop()) {
		request = list_first_entry(&pager->requests,
					   struct tern_odp_request, list);
		tern_request_del(pager, request);
		if (!request->prefetch)
			xa_erase(&dev->queued_faults,
				 tern_request_slot(request));
	}
	mutex_unlock(&dev->fault_lock);

	return request;
}

/* Ends an abandoned thread: nobody will stop it. */
static void __noreturn tern_pager_exit(struct tern_pager_thread *thread)
{
	struct tern_pager *pager = thread->pager;

	kfree(thread);
	tern_pager_put(pager);
	module_put_and_kthread_exit(0);
}

static int tern_pager_main(void *data)
{
	struct tern_pager_thread *thread = data;
	struct tern_pager *pager = thread->pager;
	struct tern_odp_request *request;
	bool ok;

	while ((request = tern_pager_take(pager))) {
		thread->request = request;
		ok = request->serve(thread, request);
		kfree(request);
		if (!ok)
			tern_pager_exit(thread);
		cond_resched();
	}

	/* tern_pager_close() waits for the end of the thread. */
	return 0;
}

/**
 * tern_pager_leave() - stop using the device, in order to wait
 * @thread: the calling thread
 *
 * Return: false if the device or the driver is about to be removed. Otherwise
 * tern_pager_enter() has to follow.
 */
bool tern_pager_leave(struct tern_pager_thread *thread)
{
	struct tern_pager *pager = thread->pager;
	bool ok;

	mutex_lock(&pager->lock);
	/*
	 * The module cannot be unloaded now, because tern_pager_close() waits
	 * for this thread. It must not be unloaded while the thread is away.
	 */
	ok = !pager->closed && try_module_get(THIS_MODULE);
	thread->away = ok;
	mutex_unlock(&pager->lock);

	return ok;
}

/**
 * tern_pager_enter() - use the device again
 * @thread: the calling thread, after tern_pager_leave()
 *
 * Return: false if the thread was abandoned: the device is gone.
 */
bool tern_pager_enter(struct tern_pager_thread *thread)
{
	struct tern_pager *pager = thread->pager;
	bool ok;

	mutex_lock(&pager->lock);
	ok = !pager->closed;
	if (ok)
		thread->away = false;
	mutex_unlock(&pager->lock);
	if (ok)
		module_put(THIS_MODULE);

	return ok;
}

static int tern_pager_start(struct tern_pager *pager)
{
	struct tern_pager_thread *thread;

	lockdep_assert_held(&pager->dev->fault_lock);

	thread = kzalloc_obj(*thread);
	if (!thread)
		return -ENOMEM;

	thread->pager = pager;
	thread->task = kthread_create(tern_pager_main, thread, "tern_fault");
	if (IS_ERR(thread->task)) {
		int err = PTR_ERR(thread->task);

		kfree(thread);
		return err;
	}

	refcount_inc(&pager->count);
	pager->num_threads++;
	mutex_lock(&pager->lock);
	list_add(&thread->list, &pager->threads);
	mutex_unlock(&pager->lock);
	wake_up_process(thread->task);
	return 0;
}

/* Starts another thread if requests need one, and wakes an idle one. */
static int tern_pager_wake(struct tern_pager *pager)
{
	int err;

	if (pager->num_requests > pager->idle &&
	    pager->num_threads < TERN_PAGER_MAX_THREADS) {
		err = tern_pager_start(pager);
		if (err && !pager->num_threads)
			return err;
	}

	wake_up(&pager->wait);
	return 0;
}

/**
 * tern_pager_queue() - have a request served
 * @pager: the pager, which is not closed during this call
 * @request: the request, freed in the end
 *
 * Return: 0, or a negative errno: then @request is still the caller's. -ENOMEM
 * also for a prefetch while TERN_PAGER_MAX_PREFETCHES wait for a thread.
 */
int tern_pager_queue(struct tern_pager *pager, struct tern_odp_request *request)
{
	struct tern_odp_request *old = NULL;
	struct tern_ib_dev *dev = pager->dev;
	int err = 0;

	request->pager = pager;
	mutex_lock(&dev->fault_lock);
	if (!request->prefetch) {
		/* A new fault of the same half of a QP: the old one has ended. */
		old = xa_store(&dev->queued_faults, tern_request_slot(request),
			       request, GFP_KERNEL);
		err = xa_err(old);
		if (err) {
			old = NULL;
			goto unlock;
		}
		if (old)
			tern_request_del(old->pager, old);
	} else if (pager->num_prefetches == TERN_PAGER_MAX_PREFETCHES) {
		err = -ENOMEM;
		goto unlock;
	}

	list_add_tail(&request->list, &pager->requests);
	pager->num_requests++;
	pager->num_prefetches += request->prefetch;
	err = tern_pager_wake(pager);
	if (err) {
		tern_request_del(pager, request);
		if (!request->prefetch)
			xa_erase(&dev->queued_faults,
				 tern_request_slot(request));
	}
unlock:
	mutex_unlock(&dev->fault_lock);
	kfree(old);
	return err;
}

/**
 * tern_fault_forget_qp() - drop the queued faults of a destroyed QP
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
		request = xa_erase(&dev->queued_faults,
				   tern_fault_slot(qpn, side));
		if (request)
			tern_request_del(request->pager, request);
		mutex_unlock(&dev->fault_lock);
		kfree(request);
	}
}

/* Ends a fault. The QP may have left its state or be gone. */
void tern_fault_resume(struct tern_ib_dev *dev, const struct tern_fault *fault,
		       u8 result)
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
 * Ends the fault of a request that is not served. Its QP may belong to another
 * context. The device checks the access again: the region is gone.
 */
static void tern_request_end(struct tern_ib_dev *dev,
			     const struct tern_odp_request *request)
{
	if (!request->prefetch)
		tern_fault_resume(dev, &request->fault, TERN_RESUME_RETRY);
}

static void tern_pager_drain(struct tern_pager *pager)
{
	struct tern_odp_request *request, *next;
	struct tern_ib_dev *dev = pager->dev;
	LIST_HEAD(requests);

	mutex_lock(&dev->fault_lock);
	list_for_each_entry(request, &pager->requests, list)
		if (!request->prefetch)
			xa_erase(&dev->queued_faults,
				 tern_request_slot(request));
	list_splice_init(&pager->requests, &requests);
	mutex_unlock(&dev->fault_lock);

	list_for_each_entry_safe(request, next, &requests, list) {
		tern_request_end(dev, request);
		kfree(request);
	}
}

/**
 * tern_pager_close() - release a pager
 * @pager: the pager, whose regions are gone, or NULL
 *
 * Does not wait for pages. On return nothing of the pager uses the device.
 */
void tern_pager_close(struct tern_pager *pager)
{
	struct tern_pager_thread *thread, *next;

	if (!pager)
		return;

	mutex_lock(&pager->lock);
	pager->closed = true;
	list_for_each_entry_safe(thread, next, &pager->threads, list) {
		if (!thread->away)
			continue;
		/* It frees itself when it returns. */
		list_del(&thread->list);
		tern_request_end(pager->dev, thread->request);
	}
	mutex_unlock(&pager->lock);

	list_for_each_entry_safe(thread, next, &pager->threads, list) {
		kthread_stop(thread->task);
		kfree(thread);
		tern_pager_put(pager);
	}
	tern_pager_drain(pager);
	tern_pager_put(pager);
}
