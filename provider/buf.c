// SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause)
/* Memory of queues, shared with the device, and the layout of queues in it. */

#include <ccan/ilog.h>
#include <ccan/minmax.h>
#include <errno.h>
#include <sys/mman.h>

#include "tern.h"

/*
 * Allocates zeroed, page-aligned memory for a queue: len bytes, rounded up to
 * pages, excluded from fork()'s copy-on-write. pd's allocator comes first; pd
 * may be NULL. Returns 0 or an errno.
 */
int tern_alloc_buf(struct ibv_context *ibvctx, struct tern_pd *pd,
		   struct tern_buf *buf, size_t len, enum tern_res_type type)
{
	size_t page_size = to_tern_dev(ibvctx->device)->page_size;
	int err;

	*buf = (struct tern_buf){ .len = align(len, page_size), .type = type };
	err = tern_pd_alloc(pd, buf->len, page_size, type, &buf->addr);
	if (err)
		return err;
	if (buf->addr) {
		buf->pd = pd;
		return 0;
	}

	buf->addr = mmap(NULL, buf->len, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (buf->addr == MAP_FAILED)
		return errno;

	if (ibv_dontfork_range(buf->addr, buf->len)) {
		err = errno;
		munmap(buf->addr, buf->len);
		return err;
	}

	return 0;
}

void tern_free_buf(struct tern_buf *buf)
{
	if (buf->pd) {
		tern_pd_free(buf->pd, buf->addr, buf->type);
		return;
	}

	ibv_dofork_range(buf->addr, buf->len);
	munmap(buf->addr, buf->len);
}

/*
 * Chooses number and stride of slots: at least one slot, of at least bytes and
 * at least 1 << min_log_stride.
 */
void tern_wq_size(struct tern_wq *wq, uint32_t max_wr, size_t bytes,
		  uint32_t min_log_stride)
{
	wq->mask = max_wr ? roundup_pow_of_two(max_wr) - 1 : 0;
	wq->log_stride = max_t(uint32_t, min_log_stride, ilog32(bytes - 1));
}

/* The same for receive WQEs. Sets max_sge to the number that fits, up to sge_limit. */
void tern_rq_size(struct tern_wq *wq, uint32_t max_wr, uint32_t max_sge,
		  uint32_t sge_limit)
{
	size_t offset = sizeof(struct tern_rq_hdr);
	size_t room;

	tern_wq_size(wq, max_wr, offset + max_sge * sizeof(struct tern_sge),
		     TERN_RQ_STRIDE_MIN);
	room = ((size_t)1 << wq->log_stride) - offset;
	wq->max_sge = min_t(uint32_t, room / sizeof(struct tern_sge),
			    sge_limit);
}

size_t tern_wq_bytes(const struct tern_wq *wq)
{
	return ((size_t)wq->mask + 1) << wq->log_stride;
}
