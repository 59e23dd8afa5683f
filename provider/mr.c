// SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause)
/* Memory regions and windows, without binds (post.c, wr.c). */

#include <errno.h>
#include <stdlib.h>

#include "tern.h"

/* Returns a region; if its command failed with @err, frees it and sets errno. */
struct ibv_mr *tern_new_mr(struct verbs_mr *vmr, int err)
{
	if (err) {
		free(vmr);
		errno = err;
		return NULL;
	}

	return &vmr->ibv_mr;
}

/* ibv_reg_mr(3), ibv_reg_mr_iova(3). */
struct ibv_mr *tern_reg_mr(struct ibv_pd *ibvpd, void *addr, size_t length,
			   uint64_t hca_va, int access)
{
	struct ib_uverbs_reg_mr_resp resp;
	struct ibv_reg_mr cmd;
	struct verbs_mr *vmr;
	int err;

	vmr = calloc(1, sizeof(*vmr));
	if (!vmr)
		return NULL;

	err = ibv_cmd_reg_mr(ibvpd, addr, length, hca_va, access, vmr, &cmd,
			     sizeof(cmd), &resp, sizeof(resp));

	return tern_new_mr(vmr, err);
}

/*
 * ibv_rereg_mr(3): libibverbs checks the arguments and updates the caller's
 * view of the region.
 */
int tern_rereg_mr(struct verbs_mr *vmr, int flags, struct ibv_pd *ibvpd,
		  void *addr, size_t length, int access)
{
	struct ib_uverbs_rereg_mr_resp resp;
	struct ibv_rereg_mr cmd;

	if ((flags & IBV_REREG_MR_CHANGE_PD) && !ibvpd)
		return EINVAL;

	return ibv_cmd_rereg_mr(vmr, flags, addr, length, (uintptr_t)addr,
				access, ibvpd, &cmd, sizeof(cmd), &resp,
				sizeof(resp));
}

/* ibv_reg_dmabuf_mr(3). */
struct ibv_mr *tern_reg_dmabuf_mr(struct ibv_pd *ibvpd, uint64_t offset,
				  size_t length, uint64_t iova, int fd,
				  int access)
{
	struct verbs_mr *vmr;
	int err;

	vmr = calloc(1, sizeof(*vmr));
	if (!vmr)
		return NULL;

	err = ibv_cmd_reg_dmabuf_mr(ibvpd, offset, length, iova, fd, access,
				    vmr, NULL);

	return tern_new_mr(vmr, err);
}

/* ibv_advise_mr(3). */
int tern_advise_mr(struct ibv_pd *ibvpd, enum ibv_advise_mr_advice advice,
		   uint32_t flags, struct ibv_sge *sg_list, uint32_t num_sge)
{
	return tern_method_err(ibv_cmd_advise_mr(ibvpd, advice, flags, sg_list,
						 num_sge));
}

#if IBVERBS_PABI_VERSION >= 62
/* ibv_reg_mr_ex(3). */
struct ibv_mr *tern_reg_mr_ex(struct ibv_pd *ibvpd,
			      struct ibv_mr_init_attr *attr)
{
	struct verbs_mr *vmr;
	int err;

	vmr = calloc(1, sizeof(*vmr));
	if (!vmr)
		return NULL;

	err = ibv_cmd_reg_mr_ex(ibvpd, vmr, attr);

	return tern_new_mr(vmr, err);
}
#ifndef TERN_WITHOUT_DMAH

/* ibv_alloc_dmah(3): the kernel checks the combination of hints. */
struct ibv_dmah *tern_alloc_dmah(struct ibv_context *ibvctx,
				 struct ibv_dmah_init_attr *attr)
{
	struct verbs_dmah *dmah;
	int err;

	if (!check_comp_mask(attr->comp_mask,
			     IBV_DMAH_INIT_ATTR_MASK_CPU_ID |
			     IBV_DMAH_INIT_ATTR_MASK_PH |
			     IBV_DMAH_INIT_ATTR_MASK_TPH_MEM_TYPE)) {
		errno = EOPNOTSUPP;
		return NULL;
	}

	dmah = calloc(1, sizeof(*dmah));
	if (!dmah)
		return NULL;

	err = tern_method_err(ibv_cmd_alloc_dmah(ibvctx, dmah, attr));
	if (err) {
		free(dmah);
		errno = err;
		return NULL;
	}

	return &dmah->dmah;
}

/* ibv_dealloc_dmah(3): EBUSY while regions use the handle. */
int tern_dealloc_dmah(struct ibv_dmah *ibvdmah)
{
	struct verbs_dmah *dmah = verbs_get_dmah(ibvdmah);
	int err;

	err = ibv_cmd_free_dmah(dmah);
	if (err)
		return err;

	free(dmah);
	return 0;
}
#endif
#endif

/* ibv_alloc_null_mr(3): the device has the key; the kernel has no region. */
struct ibv_mr *tern_alloc_null_mr(struct ibv_pd *ibvpd)
{
	struct verbs_mr *vmr;

	vmr = calloc(1, sizeof(*vmr));
	if (!vmr)
		return NULL;

	vmr->ibv_mr.context = ibvpd->context;
	vmr->ibv_mr.pd = ibvpd;
	vmr->ibv_mr.length = SIZE_MAX;
	vmr->ibv_mr.lkey = TERN_LKEY_NULL;
	vmr->mr_type = IBV_MR_TYPE_NULL_MR;

	return &vmr->ibv_mr;
}

/* ibv_dereg_mr(3): EBUSY while windows are bound to the region. */
int tern_dereg_mr(struct verbs_mr *vmr)
{
	int err;

	if (vmr->mr_type == IBV_MR_TYPE_NULL_MR) {
		free(vmr);
		return 0;
	}

	err = ibv_cmd_dereg_mr(vmr);
	if (err)
		return err;

	free(vmr);
	return 0;
}

#ifndef TERN_WITHOUT_IMPORT
/* ibv_import_mr(3). */
struct ibv_mr *tern_import_mr(struct ibv_pd *ibvpd, uint32_t handle)
{
	struct verbs_mr *vmr;
	int err;

	vmr = calloc(1, sizeof(*vmr));
	if (!vmr)
		return NULL;

	err = ibv_cmd_query_mr(ibvpd, vmr, handle);

	return tern_new_mr(vmr, err);
}

void tern_unimport_mr(struct ibv_mr *ibvmr)
{
	free(verbs_get_mr(ibvmr));
}

#endif
/* ibv_alloc_mw(3). */
struct ibv_mw *tern_alloc_mw(struct ibv_pd *ibvpd, enum ibv_mw_type type)
{
	struct ib_uverbs_alloc_mw_resp resp;
	struct ibv_alloc_mw cmd;
	struct ibv_mw *mw;
	int err;

	mw = calloc(1, sizeof(*mw));
	if (!mw)
		return NULL;

	err = ibv_cmd_alloc_mw(ibvpd, type, mw, &cmd, sizeof(cmd), &resp,
			       sizeof(resp));
	if (err) {
		free(mw);
		errno = err;
		return NULL;
	}

	return mw;
}

/* ibv_dealloc_mw(3): unbinds a bound window. */
int tern_dealloc_mw(struct ibv_mw *ibvmw)
{
	int err;

	err = ibv_cmd_dealloc_mw(ibvmw);
	if (err)
		return err;

	free(ibvmw);
	return 0;
}
