// SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause)
/* Device memory: allocation, copies by the CPU, regions. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <infiniband/cmd_ioctl.h>

#include "tern.h"

/* Unit of a copy. Offset and length must be multiples of it. */
#define TERN_DM_WORD sizeof(uint32_t)

/*
 * Returns 0, EFAULT if the range exceeds the allocation, or EINVAL if it is not
 * made of whole words.
 */
static int tern_dm_check(const struct tern_dm *dm, uint64_t offset,
			 size_t length)
{
	if (length > dm->length || offset > dm->length - length)
		return EFAULT;

	if ((offset | length) % TERN_DM_WORD)
		return EINVAL;

	return 0;
}

/* ibv_memcpy_to_dm(3), with one CPU store per word. */
static int tern_memcpy_to_dm(struct ibv_dm *ibvdm, uint64_t offset,
			     const void *host_addr, size_t length)
{
	struct tern_dm *dm = to_tern_dm(ibvdm);
	atomic_uint *words = dm->addr + offset;
	uint32_t word;
	size_t i;
	int err;

	err = tern_dm_check(dm, offset, length);
	if (err)
		return err;

	for (i = 0; i < length / TERN_DM_WORD; i++) {
		memcpy(&word, host_addr + i * TERN_DM_WORD, sizeof(word));
		atomic_store_explicit(&words[i], word, memory_order_relaxed);
	}

	/*
	 * The mapping may be write-combining: flush the stores before the index
	 * or kick of a later post, or another process, can refer to the data.
	 */
	mmio_flush_writes();

	return 0;
}

/* ibv_memcpy_from_dm(3), with one CPU load per word. */
static int tern_memcpy_from_dm(void *host_addr, struct ibv_dm *ibvdm,
			       uint64_t offset, size_t length)
{
	struct tern_dm *dm = to_tern_dm(ibvdm);
	atomic_uint *words = dm->addr + offset;
	uint32_t word;
	size_t i;
	int err;

	err = tern_dm_check(dm, offset, length);
	if (err)
		return err;

	/* Order the loads after the event that announced the data. */
	udma_from_device_barrier();

	for (i = 0; i < length / TERN_DM_WORD; i++) {
		word = atomic_load_explicit(&words[i], memory_order_relaxed);
		memcpy(host_addr + i * TERN_DM_WORD, &word, sizeof(word));
	}

	return 0;
}

/* Maps the whole allocation and initializes dm. Returns 0 or an errno. */
static int tern_dm_map(struct ibv_context *ibvctx, struct tern_dm *dm,
		       const struct tern_uresp_alloc_dm *resp, uint64_t length)
{
	dm->mmap_size = resp->mmap_size;
	dm->mmap_offset = resp->mmap_offset;
	/* Too large for a 32-bit process. */
	if (dm->mmap_size != resp->mmap_size)
		return ENOMEM;

	dm->addr = mmap(NULL, dm->mmap_size, PROT_READ | PROT_WRITE,
			MAP_SHARED, ibvctx->cmd_fd, resp->mmap_offset);
	if (dm->addr == MAP_FAILED)
		return errno;

	dm->length = length;
#ifndef TERN_WITHOUT_DV
	tern_dm_init_ops(dm);
#endif
	dm->vdm.dm.memcpy_to_dm = tern_memcpy_to_dm;
	dm->vdm.dm.memcpy_from_dm = tern_memcpy_from_dm;

	return 0;
}

/* ibv_alloc_dm(3). */
struct ibv_dm *tern_alloc_dm(struct ibv_context *ibvctx,
			     struct ibv_alloc_dm_attr *attr)
{
	DECLARE_COMMAND_BUFFER(cmd, UVERBS_OBJECT_DM, UVERBS_METHOD_DM_ALLOC,
			       1);
	struct tern_uresp_alloc_dm resp;
	struct tern_dm *dm;
	int err;

	if (!check_comp_mask(attr->comp_mask, 0)) {
		errno = EINVAL;
		return NULL;
	}

	dm = calloc(1, sizeof(*dm));
	if (!dm)
		return NULL;

	fill_attr_out_ptr(cmd, TERN_IB_ATTR_ALLOC_DM_RESP, &resp);
	err = tern_method_err(ibv_cmd_alloc_dm(ibvctx, attr, &dm->vdm, cmd));
	if (err)
		goto err_free;

	err = tern_dm_map(ibvctx, dm, &resp, attr->length);
	if (err)
		goto err_free_dm;

	return &dm->vdm.dm;

err_free_dm:
	ibv_cmd_free_dm(&dm->vdm);
err_free:
	free(dm);
	errno = err;
	return NULL;
}

/* The device gets the pages back when the last mapping in any process is gone. */
static void tern_dm_unmap(struct ibv_dm *ibvdm)
{
	struct tern_dm *dm = to_tern_dm(ibvdm);

#ifndef TERN_WITHOUT_DV
	tern_dm_uninit_ops(to_tern_dev(ibvdm->context->device), dm);
#endif
	munmap(dm->addr, dm->mmap_size);
	free(dm);
}

/* ibv_free_dm(3): EBUSY while a region uses the memory, which then stays. */
int tern_free_dm(struct ibv_dm *ibvdm)
{
	int err;

	err = ibv_cmd_free_dm(&to_tern_dm(ibvdm)->vdm);
	if (err)
		return err;

	tern_dm_unmap(ibvdm);
	return 0;
}

#ifndef TERN_WITHOUT_IMPORT
/* ibv_import_dm(3): the kernel returns the same data as on allocation. */
struct ibv_dm *tern_import_dm(struct ibv_context *ibvctx, uint32_t handle)
{
	DECLARE_COMMAND_BUFFER(cmd, UVERBS_OBJECT_DM, TERN_IB_METHOD_DM_QUERY,
			       3);
	struct tern_uresp_alloc_dm resp;
	struct tern_dm *dm;
	uint64_t length;
	int err;

	dm = calloc(1, sizeof(*dm));
	if (!dm)
		return NULL;

	fill_attr_in_obj(cmd, TERN_IB_ATTR_QUERY_DM_HANDLE, handle);
	fill_attr_out_ptr(cmd, TERN_IB_ATTR_QUERY_DM_RESP, &resp);
	fill_attr_out_ptr(cmd, TERN_IB_ATTR_QUERY_DM_LENGTH, &length);
	err = tern_method_err(execute_ioctl(ibvctx, cmd));
	if (err)
		goto err_free;

	err = tern_dm_map(ibvctx, dm, &resp, length);
	if (err)
		goto err_free;

	dm->vdm.dm.context = ibvctx;
	dm->vdm.dm.comp_mask = IBV_DM_MASK_HANDLE;
	dm->vdm.dm.handle = handle;
	dm->vdm.handle = handle;

	return &dm->vdm.dm;

err_free:
	free(dm);
	errno = err;
	return NULL;
}

/* ibv_unimport_dm(3). */
void tern_unimport_dm(struct ibv_dm *ibvdm)
{
	tern_dm_unmap(ibvdm);
}

#endif
/* ibv_reg_dm_mr(3): always zero-based; libibverbs and the kernel check. */
struct ibv_mr *tern_reg_dm_mr(struct ibv_pd *ibvpd, struct ibv_dm *ibvdm,
			      uint64_t offset, size_t length,
			      unsigned int access)
{
	struct verbs_mr *vmr;
	int err;

	vmr = calloc(1, sizeof(*vmr));
	if (!vmr)
		return NULL;

	err = ibv_cmd_reg_dm_mr(ibvpd, &to_tern_dm(ibvdm)->vdm, offset, length,
				access, vmr, NULL);

	return tern_new_mr(vmr, err);
}

#if IBVERBS_PABI_VERSION >= 62
/* ibv_dm_export_dmabuf_fd(3). */
int tern_dm_export_dmabuf_fd(struct ibv_dm *ibvdm)
{
	return ibv_cmd_export_dmabuf_fd(ibvdm->context,
					to_tern_dm(ibvdm)->mmap_offset);
}
#endif
