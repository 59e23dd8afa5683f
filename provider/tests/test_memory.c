// SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause)
/*
 * Device memory, regions, windows and contexts: arguments passed to the kernel,
 * and state after errors.
 */

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fixture.h"

#define DM_PAGES 8U
#define DM_OFFSET (3 * PAGE)
#define DM_BYTES 100U

/* All device memory, behind the mappings. */
static uint8_t *storage;

static struct ibv_pd *const pd = &test_pd.ibvpd;

/* A file acts as the device: the context's commands and mappings use it. */
static void open_storage(void)
{
	int fd = memfd_create("dm", 0);

	CHECK(fd >= 0 && !ftruncate(fd, DM_PAGES * PAGE));
	storage = mmap(NULL, DM_PAGES * PAGE, PROT_READ | PROT_WRITE,
		       MAP_SHARED, fd, 0);
	CHECK(storage != MAP_FAILED);
	memset(storage, 0xc5, DM_PAGES * PAGE);
	ctx->vctx.context.cmd_fd = fd;
	dm_mapping.mmap_offset = DM_OFFSET;
	dm_mapping.mmap_size = PAGE;
	dm_length = DM_BYTES;
	memory_err = 0;
}

static void close_storage(void)
{
	munmap(storage, DM_PAGES * PAGE);
	close(ctx->vctx.context.cmd_fd);
}

static struct ibv_dm *alloc_dm(void)
{
	struct ibv_alloc_dm_attr attr = { .length = DM_BYTES,
					  .log_align_req = 6 };
	struct ibv_dm *dm = tern_alloc_dm(&ctx->vctx.context, &attr);

	CHECK(dm && last_dm.length == DM_BYTES && last_dm.log_align_req == 6);
	return dm;
}

static bool is_mapped(void *addr)
{
	unsigned char there;

	return !mincore(addr, PAGE, &there);
}

/* Storage outside [first, last) of the allocation must be unchanged. */
static void check_untouched(size_t first, size_t last)
{
	size_t i;

	for (i = 0; i < DM_PAGES * PAGE; i++)
		if (i < DM_OFFSET + first || i >= DM_OFFSET + last)
			CHECK(storage[i] == 0xc5);
}

/* Copies to and from unaligned host addresses touch nothing else. */
void test_dm_copy(void)
{
	static const uint32_t ranges[][2] = {
		{ 0, 0 }, { 0, 4 }, { 96, 4 }, { 0, 100 }, { 4, 92 },
		{ 100, 0 }, { 52, 8 },
	};
	uint8_t buf[DM_BYTES + 8], back[DM_BYTES + 8];
	struct ibv_dm *dm;
	unsigned int i, j, skew;

	open_storage();
	dm = alloc_dm();
	for (i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++)
		for (skew = 0; skew < 4; skew++) {
			uint32_t at = ranges[i][0], len = ranges[i][1];

			memset(storage, 0xc5, DM_PAGES * PAGE);
			for (j = 0; j < sizeof(buf); j++)
				buf[j] = j * 7 + i + skew;
			CHECK(!ibv_memcpy_to_dm(dm, at, buf + skew, len));
			CHECK(!memcmp(storage + DM_OFFSET + at, buf + skew,
				      len));
			check_untouched(at, at + len);

			memset(back, 0x99, sizeof(back));
			CHECK(!ibv_memcpy_from_dm(back + skew, dm, at, len));
			CHECK(!memcmp(back + skew, buf + skew, len));
			for (j = 0; j < sizeof(back); j++)
				CHECK(back[j] == 0x99 ||
				      (j >= skew && j < skew + len));
		}
	CHECK(!tern_free_dm(dm));
	close_storage();
}

/*
 * Ranges outside the allocation, also with overflowing sums, and partial words.
 * Nothing is copied.
 */
void test_dm_copy_refused(void)
{
	static const struct {
		uint64_t offset;
		size_t length;
		int err;
	} refused[] = {
		{ 0, DM_BYTES + 4, EFAULT },
		{ 4, DM_BYTES, EFAULT },
		{ DM_BYTES, 4, EFAULT },
		{ DM_BYTES + 4, 0, EFAULT },
		{ DM_BYTES + 4, 4, EFAULT },
		{ PAGE, 4, EFAULT },
		{ UINT64_MAX - 3, 4, EFAULT },
		{ UINT64_MAX - 3, 8, EFAULT },
		{ UINT64_MAX - 99, DM_BYTES, EFAULT },
		{ (uint64_t)1 << 32, 4, EFAULT },
		{ 4, SIZE_MAX - 3, EFAULT },
		{ 8, SIZE_MAX - 7, EFAULT },
		{ 0, SIZE_MAX, EFAULT },
		{ 1, 4, EINVAL },
		{ 2, 4, EINVAL },
		{ 4, 3, EINVAL },
		{ 3, 1, EINVAL },
		{ 2, 2, EINVAL },
		{ 1, 0, EINVAL },
	};
	uint8_t buf[2 * DM_BYTES];
	struct ibv_dm *dm;
	unsigned int i, j;

	open_storage();
	dm = alloc_dm();
	memset(buf, 0x11, sizeof(buf));
	for (i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
		CHECK(ibv_memcpy_to_dm(dm, refused[i].offset, buf,
				       refused[i].length) == refused[i].err);
		CHECK(ibv_memcpy_from_dm(buf, dm, refused[i].offset,
					 refused[i].length) == refused[i].err);
	}
	check_untouched(0, 0);
	for (j = 0; j < sizeof(buf); j++)
		CHECK(buf[j] == 0x11);
	CHECK(!tern_free_dm(dm));
	close_storage();
}

/*
 * An allocation that the kernel refuses, one that cannot be mapped, and one
 * that is busy.
 */
void test_dm_objects(void)
{
	struct ibv_alloc_dm_attr attr = { .length = DM_BYTES };
	struct ibv_context *ibvctx = &ctx->vctx.context;
	struct ibv_mr *mr;
	struct ibv_dm *dm;
	uint32_t word = 5;
	void *addr;

	open_storage();
	memory_calls = 0;
	attr.comp_mask = 1;
	CHECK(!tern_alloc_dm(ibvctx, &attr) && errno == EINVAL);
	attr.comp_mask = 1U << 31;
	CHECK(!tern_alloc_dm(ibvctx, &attr) && errno == EINVAL);
	CHECK(!memory_calls);
	attr.comp_mask = 0;
	memory_err = ENOMEM;
	CHECK(!tern_alloc_dm(ibvctx, &attr) && errno == ENOMEM);
	CHECK(memory_calls == 1);
	/*
	 * The kernel's error for a verb that the device lacks, and the error
	 * that verbs define.
	 */
	memory_err = EPROTONOSUPPORT;
	CHECK(!tern_alloc_dm(ibvctx, &attr) && errno == EOPNOTSUPP);
	CHECK(memory_calls == 2);
	memory_err = 0;
	dm_mapping.mmap_offset = DM_OFFSET + 1;
	CHECK(!tern_alloc_dm(ibvctx, &attr) && errno == EINVAL);
	/* Allocated and freed again. */
	CHECK(memory_calls == 4);
	dm_mapping.mmap_offset = DM_OFFSET;

	dm = alloc_dm();
	CHECK(dm->handle == DM_HANDLE && dm->comp_mask == IBV_DM_MASK_HANDLE);
	mr = tern_reg_dm_mr(pd, dm, 8, 16, IBV_ACCESS_ZERO_BASED);
	CHECK(mr && mr->lkey == 0x700);
	CHECK(last_mr.offset == 8 && last_mr.length == 16);
	CHECK(last_mr.access == IBV_ACCESS_ZERO_BASED && last_mr.pd == pd);
	memory_err = EINVAL;
	CHECK(!tern_reg_dm_mr(pd, dm, 8, 16, 0) && errno == EINVAL);
	memory_err = EBUSY;
	CHECK(tern_free_dm(dm) == EBUSY);
	CHECK(!ibv_memcpy_to_dm(dm, 0, &word, 4));
	CHECK(storage[DM_OFFSET] == 5);
	CHECK(tern_dereg_mr(verbs_get_mr(mr)) == EBUSY && mr->lkey == 0x700);
	memory_err = 0;
	CHECK(!tern_dereg_mr(verbs_get_mr(mr)));
	addr = to_tern_dm(dm)->addr;
	CHECK(is_mapped(addr));
	CHECK(!tern_free_dm(dm));
	CHECK(!is_mapped(addr));
	close_storage();
}

/* An imported handle maps the same bytes again, with the same limits. */
void test_dm_import(void)
{
	struct ibv_context *ibvctx = &ctx->vctx.context;
	struct ibv_dm *dm, *other;
	uint32_t word = 0x01020304, back = 0;
	unsigned int calls;
	void *addr;

	open_storage();
	memory_err = ENOENT;
	CHECK(!tern_import_dm(ibvctx, DM_HANDLE) && errno == ENOENT);
	memory_err = EPROTONOSUPPORT;
	CHECK(!tern_import_dm(ibvctx, DM_HANDLE) && errno == EOPNOTSUPP);
	memory_err = 0;
	dm_mapping.mmap_size = 0;
	CHECK(!tern_import_dm(ibvctx, DM_HANDLE) && errno == EINVAL);
	dm_mapping.mmap_size = PAGE;

#if SIZE_MAX < UINT64_MAX
	/* Truncated to 32 bits this would be a page, and would be mapped. */
	dm_mapping.mmap_size = (1ULL << 32) + PAGE;
	CHECK(!tern_import_dm(ibvctx, DM_HANDLE) && errno == ENOMEM);
	dm_mapping.mmap_size = PAGE;
#endif

	dm = alloc_dm();
	other = tern_import_dm(ibvctx, DM_HANDLE);
	CHECK(other && other->context == ibvctx);
	CHECK(other->handle == DM_HANDLE);
	CHECK(other->comp_mask == IBV_DM_MASK_HANDLE);
	CHECK(!ibv_memcpy_to_dm(dm, 96, &word, 4));
	CHECK(!ibv_memcpy_from_dm(&back, other, 96, 4) && back == word);
	CHECK(ibv_memcpy_from_dm(&back, other, 100, 4) == EFAULT);
	addr = to_tern_dm(other)->addr;
	calls = memory_calls;
	tern_unimport_dm(other);
	CHECK(!is_mapped(addr) && memory_calls == calls);
	CHECK(!ibv_memcpy_from_dm(&back, dm, 96, 4));

	/* The importer may also be the one to free it. */
	other = tern_import_dm(ibvctx, DM_HANDLE);
	CHECK(other && !tern_free_dm(other));
	tern_unimport_dm(dm);
	close_storage();
}

void test_memory_objects(void)
{
	struct ibv_context *ibvctx = &ctx->vctx.context;
	struct ibv_pd *made, *imported;
	unsigned int calls;
	struct ibv_mr *mr;
	struct ibv_mw *mw;
	char byte;

	memory_err = 0;
	made = tern_alloc_pd(ibvctx);
	CHECK(made && made->context == ibvctx);
	calls = memory_calls;
	imported = tern_import_pd(ibvctx, 17);
	CHECK(imported && imported->context == ibvctx);
	CHECK(imported->handle == 17);
	tern_unimport_pd(imported);
	CHECK(memory_calls == calls);

	mr = tern_reg_mr(made, &byte, 1, 0, 0);
	CHECK(mr && mr->lkey == 0x600);
	CHECK(!tern_rereg_mr(verbs_get_mr(mr), IBV_REREG_MR_CHANGE_TRANSLATION,
			     NULL, &byte, 1, 0));
	CHECK(last_mr.addr == &byte && last_mr.length == 1);
	CHECK(last_mr.offset == (uintptr_t)&byte);
	CHECK(last_mr.flags == IBV_REREG_MR_CHANGE_TRANSLATION);
	CHECK(!tern_rereg_mr(verbs_get_mr(mr), IBV_REREG_MR_CHANGE_PD, made,
			     NULL, 0, 0));
	CHECK(last_mr.pd == made);
	calls = memory_calls;
	CHECK(tern_rereg_mr(verbs_get_mr(mr), IBV_REREG_MR_CHANGE_PD, NULL,
			    NULL, 0, 0) == EINVAL);
	CHECK(memory_calls == calls);
	memory_err = EBUSY;
	CHECK(tern_rereg_mr(verbs_get_mr(mr), IBV_REREG_MR_CHANGE_ACCESS, NULL,
			    NULL, 0, IBV_ACCESS_LOCAL_WRITE) == EBUSY);
	CHECK(last_mr.access == IBV_ACCESS_LOCAL_WRITE);
	CHECK(tern_dereg_mr(verbs_get_mr(mr)) == EBUSY);
	CHECK(mr->lkey == 0x600);
	CHECK(!tern_import_mr(made, 18) && errno == EBUSY);
	memory_err = EPROTONOSUPPORT;
	CHECK(tern_advise_mr(made, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, NULL, 0) ==
	      EOPNOTSUPP);
	memory_err = 0;
	CHECK(!tern_dereg_mr(verbs_get_mr(mr)));
	mr = tern_import_mr(made, 18);
	CHECK(mr && mr->handle == 18 && mr->pd == made && mr->lkey == 0x800);
	calls = memory_calls;
	tern_unimport_mr(mr);
	CHECK(memory_calls == calls);

	memory_err = EOPNOTSUPP;
	CHECK(!tern_alloc_mw(made, IBV_MW_TYPE_1) && errno == EOPNOTSUPP);
	memory_err = 0;
	mw = tern_alloc_mw(made, IBV_MW_TYPE_2);
	CHECK(mw && mw->type == IBV_MW_TYPE_2 && mw->pd == made);
	memory_err = EIO;
	CHECK(tern_dealloc_mw(mw) == EIO && mw->rkey == 0x123400);
	memory_err = 0;
	CHECK(!tern_dealloc_mw(mw));
	CHECK(!tern_dealloc_pd(made));
}

/*
 * Allocates and imports a context: the doorbell page is at the kernel's offset,
 * and failures leave nothing behind.
 */
void test_contexts(void)
{
	struct ibv_device *device = ctx->vctx.context.device;
	struct verbs_context *vctx;
	struct tern_context *made;
	unsigned int import;

	open_storage();
	context_resp = (struct tern_uresp_alloc_ucontext) {
		.uar_offset = 5 * PAGE,
		.uar_size = PAGE,
		.clock_offset = 2 * PAGE,
		.caps = TERN_UCTX_CAP_MW,
		.max_send_wr = 1, .max_recv_wr = 2, .max_srq_wr = 3,
		.max_cqe = 4, .max_send_sge = 5, .max_recv_sge = 6,
		.max_inline_data = 7,
	};
	contexts = 0;
	for (import = 0; import < 2; import++) {
		int fd = ctx->vctx.context.cmd_fd;

#define MAKE() (import ? driver_ops->import_context(device, fd) :              \
			 driver_ops->alloc_context(device, fd, NULL))
		memory_err = EPROTONOSUPPORT;
		errno = 0;
		CHECK(!MAKE() && !contexts);
		CHECK(errno == EPROTONOSUPPORT);
		memory_err = 0;
		context_resp.uar_offset++;
		CHECK(!MAKE() && !contexts);
		CHECK(errno == EINVAL);
		context_resp.uar_offset--;
		context_resp.clock_offset++;
		CHECK(!MAKE() && !contexts);
		CHECK(errno == EINVAL);
		context_resp.clock_offset--;

		vctx = MAKE();
		CHECK(vctx && contexts == 1);
		made = to_tern_ctx(&vctx->context);
		CHECK(made->caps == TERN_UCTX_CAP_MW);
		CHECK(made->max_send_wr == 1 && made->max_recv_wr == 2);
		CHECK(made->max_srq_wr == 3 && made->max_cqe == 4);
		CHECK(made->max_send_sge == 5 && made->max_recv_sge == 6);
		CHECK(made->max_inline == 7);
		storage[2 * PAGE + offsetof(struct ib_uverbs_clock_info,
					    nsec)] = 0x40 + import;
		CHECK(made->clock &&
		      *(const uint8_t *)&made->clock->nsec == 0x40 + import);
		tern_ring(made, TERN_DB_CMD_SQ, 0x123 + import);
		CHECK(storage[5 * PAGE + TERN_UAR_DB] == 0x23 + import);
		CHECK(context_ops->import_dm && context_ops->bind_mw);
		context_ops->free_context(&vctx->context);
		CHECK(!contexts);

		/* A kernel without a clock page. */
		context_resp.clock_offset = 0;
		vctx = MAKE();
		CHECK(vctx && !to_tern_ctx(&vctx->context)->clock);
		context_ops->free_context(&vctx->context);
		context_resp.clock_offset = 2 * PAGE;
#undef MAKE
	}
	close_storage();
}

/* A region of a dma-buf, and one that only the device knows. */
void test_other_regions(void)
{
	struct ibv_mr *mr;
	unsigned int calls;

	open_storage();
	mr = tern_reg_dmabuf_mr(pd, 4096, 8192, 0x10000, 33,
				IBV_ACCESS_LOCAL_WRITE);
	CHECK(mr && mr->lkey == 0x900 && last_mr.offset == 4096 &&
	      last_mr.length == 8192 && last_mr.flags == 33);
	memory_err = EBUSY;
	CHECK(tern_dereg_mr(verbs_get_mr(mr)) == EBUSY);
	errno = 0;
	CHECK(!tern_reg_dmabuf_mr(pd, 0, 1, 0, 33, 0) && errno == EBUSY);
	memory_err = 0;
	CHECK(!tern_dereg_mr(verbs_get_mr(mr)));

	calls = memory_calls;
	mr = tern_alloc_null_mr(pd);
	CHECK(mr && mr->lkey == TERN_LKEY_NULL && mr->pd == pd &&
	      mr->length == SIZE_MAX);
	CHECK(!tern_dereg_mr(verbs_get_mr(mr)));
	CHECK(memory_calls == calls);
	close_storage();
}
