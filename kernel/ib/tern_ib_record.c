// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Memory of user queues: rings, and doorbell records. Records that share a page
 * share one pinned reference to it.
 */

#ifndef TERN_WITHOUT_KUNIT
#include <kunit/static_stub.h>
#endif
#include <linux/slab.h>

#include <rdma/iter.h>

#include "tern_ib.h"

/* A naturally aligned record does not cross a page boundary. */
static_assert(PAGE_SIZE % sizeof(struct tern_cq_record) == 0);
static_assert(PAGE_SIZE % sizeof(struct tern_qp_record) == 0);
static_assert(PAGE_SIZE % sizeof(struct tern_srq_record) == 0);

/* Page of user memory that holds doorbell records. */
struct tern_record_page {
	struct list_head entry;	/* entry in the list of @ucontext */
	struct tern_ucontext *ucontext;	/* context whose queues have their records here */
	struct ib_umem *umem;	/* the pinned page; identifies the process that owns it */
	dma_addr_t dma;	/* DMA address of the page */
	/* Number of records in use; protected by the context's record_lock. */
	unsigned int refs;
};

/* Processes that share an imported context have their own memory each. */
static struct tern_record_page *
tern_record_page_find(struct tern_ucontext *ucontext, unsigned long addr)
{
	struct tern_record_page *page;

	list_for_each_entry(page, &ucontext->record_pages, entry)
		if (page->umem->owning_mm == current->mm &&
		    page->umem->address == addr)
			return page;

	return NULL;
}

struct ib_umem *tern_record_umem(struct tern_ucontext *ucontext,
				 unsigned long addr)
{
#ifndef TERN_WITHOUT_KUNIT
	KUNIT_STATIC_STUB_REDIRECT(tern_record_umem, ucontext, addr);
#endif
	/* The device reads software's words and writes its own. */
	return ib_umem_get_va(ucontext->ibucontext.device, addr, PAGE_SIZE,
			      IB_ACCESS_LOCAL_WRITE);
}

static struct tern_record_page *
tern_record_page_pin(struct tern_ucontext *ucontext, unsigned long addr)
{
	struct tern_record_page *page;
	struct ib_block_iter biter;
	int err;

	page = kzalloc_obj(*page);
	if (!page)
		return ERR_PTR(-ENOMEM);

	page->umem = tern_record_umem(ucontext, addr);
	if (IS_ERR(page->umem)) {
		err = PTR_ERR(page->umem);
		kfree(page);
		return ERR_PTR(err);
	}

	rdma_umem_for_each_dma_block(page->umem, &biter, PAGE_SIZE)
		page->dma = rdma_block_iter_dma_address(&biter);

	page->ucontext = ucontext;
	list_add(&page->entry, &ucontext->record_pages);
	return page;
}

/*
 * Pins a doorbell record of the current process. tern_record_put() or
 * tern_record_done() undoes it. Returns 0; -EINVAL if @addr is not aligned to @size;
 * -EFAULT if the memory is not writable; -ENOMEM, also if the limit of locked memory is
 * exceeded.
 */
int tern_record_get(struct tern_ucontext *ucontext, struct tern_record *record,
		    u64 addr, size_t size)
{
	struct tern_record_page *page;

	if (addr != (unsigned long)addr || !IS_ALIGNED(addr, size))
		return tern_refuse(to_tdev(ucontext->ibucontext.device), -EINVAL,
				   "doorbell record at %#llx", addr);

	mutex_lock(&ucontext->record_lock);
	page = tern_record_page_find(ucontext, addr & PAGE_MASK);
	if (!page)
		page = tern_record_page_pin(ucontext, addr & PAGE_MASK);
	if (!IS_ERR(page))
		page->refs++;
	mutex_unlock(&ucontext->record_lock);
	if (IS_ERR(page))
		return PTR_ERR(page);

	record->page = page;
	record->dma = page->dma + offset_in_page(addr);
	return 0;
}

/* Any process may call this. The page is unpinned with its last record. */
void tern_record_put(struct tern_record *record)
{
	struct tern_record_page *page = record->page;
	struct tern_ucontext *ucontext;

	if (!page)
		return;

	ucontext = page->ucontext;
	mutex_lock(&ucontext->record_lock);
	if (!--page->refs) {
		list_del(&page->entry);
		ib_umem_release(page->umem);
		kfree(page);
	}
	mutex_unlock(&ucontext->record_lock);
	record->page = NULL;
}

/*
 * If the device may still write to the record, its page stays pinned forever, and no
 * other queue finds it: the process may already use the memory for another record.
 */
void tern_record_done(struct tern_record *record, int err)
{
	struct tern_record_page *page = record->page;

	if (!err) {
		tern_record_put(record);
		return;
	}
	if (!page)
		return;

	mutex_lock(&page->ucontext->record_lock);
	list_del_init(&page->entry);
	mutex_unlock(&page->ucontext->record_lock);
}

void tern_records_init(struct tern_ucontext *ucontext)
{
	mutex_init(&ucontext->record_lock);
	INIT_LIST_HEAD(&ucontext->record_pages);
}

/* Takes @umem, or the error pointer of pinning it, and the record. Fails: ring released. */
int tern_uqueue_get(struct tern_ucontext *ucontext, struct tern_uqueue *queue,
		    struct ib_umem *umem, u64 record_addr, size_t record_size)
{
	int err;

	if (IS_ERR(umem))
		return PTR_ERR(umem);

	err = tern_record_get(ucontext, &queue->record, record_addr,
			      record_size);
	if (err) {
		ib_umem_release(umem);
		return err;
	}

	queue->umem = umem;
	return 0;
}

/* The device does not use the memory. */
void tern_uqueue_put(struct tern_uqueue *queue)
{
	tern_record_put(&queue->record);
	ib_umem_release(queue->umem);
	queue->umem = NULL;
}

/* @err is that of tern_ib_destroy(): what the device may write stays pinned forever. */
void tern_uqueue_done(struct tern_ib_dev *dev, struct tern_uqueue *queue,
		      int err)
{
	tern_ib_umem_done(dev, queue->umem, err);
	tern_record_done(&queue->record, err);
}
