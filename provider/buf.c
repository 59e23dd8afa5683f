// SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause)
/* Memory of queues, shared with the device. */

#include <errno.h>
#include <sys/mman.h>

#include "tern.h"

/*
 * Zeroed, page-aligned memory for a queue, len bytes rounded up to pages, kept
 * from fork()'s copy-on-write. Returns 0 or an errno.
 */
int tern_alloc_buf(struct ibv_context *ibvctx, struct tern_buf *buf, size_t len)
{
	int err;

	buf->len = align(len, to_tern_dev(ibvctx->device)->page_size);
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
	ibv_dofork_range(buf->addr, buf->len);
	munmap(buf->addr, buf->len);
}
