/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* On-demand regions, and dma-bufs that may move: their pages and page faults. */
#ifndef TERN_IB_ODP_H
#define TERN_IB_ODP_H

#include <linux/rwsem.h>

#include <rdma/ib_umem_odp.h>

#include "tern_ib.h"
#include "tern_page_fault.h"

/* Maximum number of pages in one UPDATE_PAGES of a fault: a chunk. */
#define TERN_ODP_BATCH		TERN_PAGES_CHUNK

struct tern_odp;

/* A range of an on-demand region with its own notifier. */
struct tern_odp_part {
	struct tern_odp *odp;	/* the region */
	/* The range; its umem_mutex protects the device's entries of the range. */
	struct ib_umem_odp *umem;
	u64 first;	/* index of the first page in the device's page list */
	unsigned long index;	/* its key in @odp->parts */
	refcount_t count;	/* references: one for @odp->parts, one for each user */
	bool retired;	/* it is no longer in @odp->parts; protected by umem_mutex */
	/* Held while pages are mapped: one walk of the page table at a time. */
	struct mutex map_lock;
	struct work_struct release_work;	/* releases it */
};

struct tern_pager;
struct tern_pager_thread;

/**
 * struct tern_odp_request - a page fault, or an asynchronous prefetch
 * @list: entry in tern_pager.requests
 * @dev: the device
 * @pager: its threads call @serve
 * @serve: serves the request; returns false if the device is gone
 * @prefetch: it is a prefetch
 * @fault: the fault
 * @flags: TERN_ODP_* of a prefetch
 * @num_sge: number of @sg
 * @sg: ranges to prefetch
 */
struct tern_odp_request {
	struct list_head list;
	struct tern_ib_dev *dev;
	struct tern_pager *pager;
	bool (*serve)(struct tern_pager_thread *thread,
		      struct tern_odp_request *request);
	bool prefetch;
	struct tern_fault fault;
	unsigned int flags;
	u32 num_sge;
	struct ib_sge sg[] __counted_by(num_sge);
};

/* On-demand part of a region. */
struct tern_odp {
	struct tern_ib_dev *dev;
	struct ib_pd *pd;	/* the region's PD */
	struct tern_pager *pager;	/* serves its faults */
	bool owns_pager;	/* @pager is that of this region only */
	struct tern_ref ref;	/* held while pages are mapped */
	struct mm_struct *mm;	/* address space of the memory, NULL for a dma-buf */
	u64 start;	/* user virtual address, or offset in the dma-buf, of the first byte */
	u64 iova;	/* address of the first byte in the device */
	u64 length;	/* length in bytes */
	u32 key;	/* lkey and rkey */
	struct ib_umem_odp *root;	/* parent of the parts, NULL for a dma-buf */
	struct xarray parts;	/* parts, by address */
	struct tern_ref parts_ref;	/* held by parts that are not released, also retired ones */
	struct ib_umem_dmabuf *dmabuf;	/* the memory of a dma-buf region, or NULL */
	bool writable;	/* the region has a right to write */
	/*
	 * Held for reading during a command with @key, for writing while the region is
	 * destroyed. Memory reclaim waits for it: nothing may allocate memory under it.
	 */
	struct rw_semaphore key_sem;
	bool gone;	/* @key may be that of another region; protected by @key_sem */
	atomic64_t faults;	/* pages mapped for page faults */
	atomic64_t invalidations;	/* pages invalidated */
	atomic64_t prefetches;	/* pages mapped for ibv_advise_mr() */
};

/* How to map pages. */
#define TERN_ODP_WRITE		BIT(0)	/* the device is about to write */
#define TERN_ODP_SNAPSHOT	BIT(1)	/* only pages that are in memory */
#define TERN_ODP_PREFETCH	BIT(2)	/* for ibv_advise_mr() */

/* tern_ib_odp.c */
long tern_odp_map(struct tern_odp *odp, u64 va, u64 bytes, unsigned int flags);
u32 tern_odp_batch(const struct tern_odp *odp);
void tern_odp_clear(struct tern_odp *odp, u64 first, u64 num);
int tern_odp_update(struct tern_odp *odp, u64 first, struct tern_table *table);
struct tern_odp *tern_odp_get(struct tern_ib_dev *dev, u32 key);
void tern_odp_put(struct tern_odp *odp);
bool tern_odp_writable(const struct tern_odp *odp);
struct tern_odp *tern_odp_alloc(struct ib_pd *ibpd, u64 start, u64 length,
				u64 iova, int access);
int tern_odp_create(struct tern_odp *odp, struct tern_mr *mr,
		    struct tern_cmd_create_mr *cmd);
int tern_odp_open(struct tern_odp *odp);
void tern_odp_free(struct tern_odp *odp);
void tern_odp_abort(struct tern_odp *odp);

/* tern_ib_dmabuf.c */
long tern_dmabuf_map(struct tern_odp *odp);

/* tern_ib_pager.c */
void tern_fault_resume(struct tern_ib_dev *dev, const struct tern_fault *fault,
		       u8 result);
int tern_pager_queue(struct tern_pager *pager, struct tern_odp_request *request);
bool tern_pager_leave(struct tern_pager_thread *thread);
bool tern_pager_enter(struct tern_pager_thread *thread);

/* tern_ib_odp_pages.c */
int tern_umem_odp_map(struct ib_umem_odp *umem, u64 va, u64 bytes, void *scratch);
int tern_umem_odp_entry(struct ib_umem_odp *umem, size_t index, bool writable,
			u64 *entry);

#endif /* TERN_IB_ODP_H */
