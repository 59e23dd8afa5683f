// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Device memory: allocations in BAR4. tern_ib_mr.c registers them.
 *
 * An allocation belongs to its mmap entry. It returns to the device once the
 * entry is removed and no mapping or region uses it.
 */

#include <linux/slab.h>

#include <rdma/uverbs_ioctl.h>
#define UVERBS_MODULE_NAME tern_ib
#include <rdma/uverbs_named_ioctl.h>

#include "tern_ib.h"
#ifndef TERN_WITHOUT_DV
#include "tern_ib_dv.h"
#endif
#include "tern_ib_limits.h"

static struct tern_mmap_entry *tern_dm_create(struct tern_ib_dev *dev,
					      struct ib_ucontext *ibucontext,
					      const struct ib_dm_alloc_attr *attr)
{
	struct tern_cmd_alloc_dm cmd = {
		.length = cpu_to_le64(attr->length),
		.log_align = cpu_to_le32(attr->alignment),
	};
	struct tern_core *core = dev->core;
	struct tern_rsp_alloc_dm rsp = {};
	u32 dmn;
	int err;

	err = tern_cmd_exec(core, TERN_CMD_ALLOC_DM, &cmd, sizeof(cmd), &rsp,
			    sizeof(rsp));
	if (err)
		return ERR_PTR(err);

	dmn = le32_to_cpu(rsp.dmn);
	/* Never map memory of another owner, even if the device offers it. */
	if (!tern_dm_rsp_ok(core, &rsp, attr->length)) {
		tern_ib_destroy(dev, TERN_CMD_FREE_DM, dmn);
		return ERR_PTR(-EIO);
	}

	return tern_mmap_add(ibucontext, TERN_MMAP_DM, dmn,
			     core->dm_phys + le64_to_cpu(rsp.offset),
			     le64_to_cpu(rsp.size));
}

static struct tern_uresp_alloc_dm tern_dm_resp(const struct tern_dm *dm)
{
	struct rdma_user_mmap_entry *entry = &dm->entry->rdma_entry;

	return (struct tern_uresp_alloc_dm){
		.mmap_offset = rdma_user_mmap_get_offset(entry),
		.mmap_size = (u64)entry->npages * PAGE_SIZE,
	};
}

struct ib_dm *tern_alloc_dm(struct ib_device *ibdev,
			    struct ib_ucontext *ibucontext,
			    struct ib_dm_alloc_attr *attr,
			    struct uverbs_attr_bundle *attrs)
{
	struct tern_ib_dev *dev = to_tdev(ibdev);
	struct tern_uresp_alloc_dm resp;
	struct tern_mmap_entry *entry;
	struct tern_dm *dm;
	int err;

	err = tern_check_alloc_dm(dev->core, attr);
	if (err)
		return ERR_PTR(tern_refuse(dev, err,
					   "%llu bytes, alignment 2^%u, of %llu of device memory",
					   attr->length, attr->alignment,
					   dev->core->dm_size));

	dm = kzalloc_obj(*dm);
	if (!dm)
		return ERR_PTR(-ENOMEM);

	entry = tern_dm_create(dev, ibucontext, attr);
	if (IS_ERR(entry)) {
		err = PTR_ERR(entry);
		goto err_free;
	}

	dm->entry = entry;
#ifndef TERN_WITHOUT_DV
	tern_dm_ops_init(dm);
#endif
	resp = tern_dm_resp(dm);
	err = uverbs_copy_to_struct_or_zero(attrs, TERN_IB_ATTR_ALLOC_DM_RESP,
					    &resp, sizeof(resp));
	if (err)
		goto err_remove;

	return &dm->ibdm;

err_remove:
	rdma_user_mmap_entry_remove(&entry->rdma_entry);
err_free:
	kfree(dm);
	return ERR_PTR(err);
}

/* Mappings, and the memory that they map, remain until they are unmapped. */
int tern_dealloc_dm(struct ib_dm *ibdm, struct uverbs_attr_bundle *attrs)
{
	struct tern_dm *dm = to_tdm(ibdm);

#ifndef TERN_WITHOUT_DV
	tern_dm_ops_remove(dm);
#endif
	rdma_user_mmap_entry_remove(&dm->entry->rdma_entry);
	kfree(dm);
	return 0;
}

#ifndef TERN_WITHOUT_IMPORT
/* Returns the attributes with which a process maps imported device memory. */
static int UVERBS_HANDLER(TERN_IB_METHOD_DM_QUERY)(struct uverbs_attr_bundle *attrs)
{
	struct ib_dm *ibdm = uverbs_attr_get_obj(attrs,
						 TERN_IB_ATTR_QUERY_DM_HANDLE);
	struct tern_uresp_alloc_dm resp = tern_dm_resp(to_tdm(ibdm));
	u64 length = ibdm->length;
	int err;

	err = uverbs_copy_to_struct_or_zero(attrs, TERN_IB_ATTR_QUERY_DM_RESP,
					    &resp, sizeof(resp));
	if (err)
		return err;

	return uverbs_copy_to(attrs, TERN_IB_ATTR_QUERY_DM_LENGTH, &length,
			      sizeof(length));
}

#endif
#define TERN_DM_RESP_ATTR \
	UVERBS_ATTR_STRUCT(struct tern_uresp_alloc_dm, mmap_size)

ADD_UVERBS_ATTRIBUTES_SIMPLE(tern_dm_alloc, UVERBS_OBJECT_DM,
			     UVERBS_METHOD_DM_ALLOC,
			     UVERBS_ATTR_PTR_OUT(TERN_IB_ATTR_ALLOC_DM_RESP,
						 TERN_DM_RESP_ATTR,
						 UA_MANDATORY));

#ifndef TERN_WITHOUT_IMPORT
DECLARE_UVERBS_NAMED_METHOD(TERN_IB_METHOD_DM_QUERY,
			    UVERBS_ATTR_IDR(TERN_IB_ATTR_QUERY_DM_HANDLE,
					    UVERBS_OBJECT_DM,
					    UVERBS_ACCESS_READ, UA_MANDATORY),
			    UVERBS_ATTR_PTR_OUT(TERN_IB_ATTR_QUERY_DM_RESP,
						TERN_DM_RESP_ATTR,
						UA_MANDATORY),
			    UVERBS_ATTR_PTR_OUT(TERN_IB_ATTR_QUERY_DM_LENGTH,
						UVERBS_ATTR_TYPE(u64),
						UA_MANDATORY));

DECLARE_UVERBS_GLOBAL_METHODS(UVERBS_OBJECT_DM,
			      &UVERBS_METHOD(TERN_IB_METHOD_DM_QUERY));

#endif
const struct uapi_definition tern_dm_defs[] = {
	UAPI_DEF_CHAIN_OBJ_TREE(UVERBS_OBJECT_DM, &tern_dm_alloc),
#ifndef TERN_WITHOUT_IMPORT
	UAPI_DEF_CHAIN_OBJ_TREE_NAMED(UVERBS_OBJECT_DM),
#endif
	{}
};
