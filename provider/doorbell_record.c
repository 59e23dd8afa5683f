// SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause)
/*
 * Doorbell records: pages of memory shared with the device, divided into
 * records of equal size.
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tern.h"

struct tern_record_page {
	struct list_node entry; /* in record_pages while any record is free */
	struct tern_buf buf;
	uint32_t num; /* number of records in the page */
	uint32_t num_free;
	uint16_t free[]; /* stack of free record numbers */
};

static size_t tern_record_size(enum tern_record_type type)
{
	switch (type) {
	case TERN_RECORD_CQ:
		return sizeof(struct tern_cq_record);
	case TERN_RECORD_SRQ:
		return sizeof(struct tern_srq_record);
#ifndef TERN_WITHOUT_COMP_CNTR
	case TERN_RECORD_COMP_CNTR:
		return 2 * sizeof(__le64);
#endif
	default:
		return sizeof(struct tern_qp_record);
	}
}

void tern_init_records(struct tern_context *ctx)
{
	unsigned int i;

	pthread_mutex_init(&ctx->records_mutex, NULL);
	for (i = 0; i < TERN_NUM_RECORD_TYPES; i++)
		list_head_init(&ctx->record_pages[i]);
}

void tern_uninit_records(struct tern_context *ctx)
{
	pthread_mutex_destroy(&ctx->records_mutex);
}

/*
 * Allocates a page of free records and adds it to the list of its type. Returns
 * NULL without memory.
 */
static struct tern_record_page *
tern_add_record_page(struct tern_context *ctx, enum tern_record_type type)
{
	struct ibv_context *ibvctx = &ctx->vctx.context;
	struct tern_record_page *page;
	uint32_t num, i;

	num = to_tern_dev(ibvctx->device)->page_size / tern_record_size(type);
	page = malloc(sizeof(*page) + num * sizeof(page->free[0]));
	if (!page)
		return NULL;

	if (tern_alloc_buf(ibvctx, NULL, &page->buf,
			   num * tern_record_size(type), TERN_RES_RECORD)) {
		free(page);
		return NULL;
	}

	page->num = num;
	page->num_free = num;
	for (i = 0; i < num; i++)
		page->free[i] = num - 1 - i;
	list_add(&ctx->record_pages[type], &page->entry);

	return page;
}

/* Takes a record from a page of the context. */
static int tern_take_record(struct tern_context *ctx,
			    struct tern_record *record,
			    enum tern_record_type type)
{
	size_t size = tern_record_size(type);
	struct tern_record_page *page;

	pthread_mutex_lock(&ctx->records_mutex);
	page = list_top(&ctx->record_pages[type], struct tern_record_page,
			entry);
	if (!page)
		page = tern_add_record_page(ctx, type);
	if (page) {
		record->page = page;
		record->addr = page->buf.addr +
			       page->free[--page->num_free] * size;
		if (!page->num_free)
			list_del(&page->entry);
	}
	pthread_mutex_unlock(&ctx->records_mutex);

	if (!page)
		return ENOMEM;

	/* The previous owner's indices are still there. */
	memset(record->addr, 0, size);

	return 0;
}

/*
 * Allocates a zeroed record, from pd's allocator if it has one; pd may be NULL.
 * Its page is excluded from fork()'s copy-on-write. Returns 0 or an errno.
 */
int tern_alloc_record(struct tern_context *ctx, struct tern_pd *pd,
		      struct tern_record *record, enum tern_record_type type)
{
	size_t size = tern_record_size(type);
	int err;

	*record = (struct tern_record){};
	err = tern_pd_alloc(pd, size, size, TERN_RES_RECORD, &record->addr);
	if (err)
		return err;
	if (record->addr) {
		record->pd = pd;
		return 0;
	}

	return tern_take_record(ctx, record, type);
}

/* The kernel has destroyed the queue: nobody uses the record. */
void tern_free_record(struct tern_context *ctx, struct tern_record *record,
		      enum tern_record_type type)
{
	struct tern_record_page *page = record->page;
	bool empty;

	if (record->pd) {
		tern_pd_free(record->pd, record->addr, TERN_RES_RECORD);
		return;
	}

	pthread_mutex_lock(&ctx->records_mutex);
	if (!page->num_free)
		list_add(&ctx->record_pages[type], &page->entry);
	page->free[page->num_free++] =
		(record->addr - page->buf.addr) / tern_record_size(type);
	empty = page->num_free == page->num;
	if (empty)
		list_del(&page->entry);
	pthread_mutex_unlock(&ctx->records_mutex);

	if (empty) {
		tern_free_buf(&page->buf);
		free(page);
	}
}
