// SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause)
/* Stubs for memory verbs and contexts. A file serves as device memory. */

#include <errno.h>
#include <sys/mman.h>

#include <infiniband/cmd_ioctl.h>

#include "fixture.h"

/* compat.h calls the stub. */
#undef ibv_cmd_get_context

int memory_err;
unsigned int memory_calls;
struct tern_uresp_create_ah ah_resp;
struct tern_uresp_alloc_dm dm_mapping;
uint64_t dm_length;
struct ibv_alloc_dm_attr last_dm;
struct last_mr last_mr;
struct tern_uresp_alloc_ucontext context_resp;
unsigned int contexts;
const struct verbs_device_ops *driver_ops;
const struct verbs_context_ops *context_ops;

/* Finds an attribute that the command must have once, with this size. */
struct ib_uverbs_attr *find_attr(struct ibv_command_buffer *cmd, uint16_t id,
				 size_t len)
{
	struct ib_uverbs_attr *attr, *found = NULL;

	for (attr = cmd->hdr.attrs; attr < cmd->next_attr; attr++)
		if (attr->attr_id == id) {
			CHECK(!found);
			found = attr;
		}
	CHECK(found && found->len == len);
	return found;
}

void put_attr(struct ibv_command_buffer *cmd, uint16_t id, const void *value,
	      size_t len)
{
	memcpy((void *)(uintptr_t)find_attr(cmd, id, len)->data, value, len);
}

int execute_ioctl(struct ibv_context *context, struct ibv_command_buffer *cmd)
{
	if (cmd->hdr.object_id != UVERBS_OBJECT_DM ||
	    cmd->hdr.method_id != TERN_IB_METHOD_DM_QUERY)
		return dv_ioctl(cmd);

	memory_calls++;
	if (memory_err)
		return memory_err;
	CHECK(find_attr(cmd, TERN_IB_ATTR_QUERY_DM_HANDLE, 0)->data ==
	      DM_HANDLE);
	put_attr(cmd, TERN_IB_ATTR_QUERY_DM_RESP, &dm_mapping,
		 sizeof(dm_mapping));
	put_attr(cmd, TERN_IB_ATTR_QUERY_DM_LENGTH, &dm_length,
		 sizeof(dm_length));
	return 0;
}

int ibv_cmd_alloc_dm(struct ibv_context *ibvctx,
		     const struct ibv_alloc_dm_attr *attr, struct verbs_dm *dm,
		     struct ibv_command_buffer *link)
{
	memory_calls++;
	last_dm = *attr;
	if (memory_err)
		return memory_err;
	put_attr(link, TERN_IB_ATTR_ALLOC_DM_RESP, &dm_mapping,
		 sizeof(dm_mapping));
	dm->handle = DM_HANDLE;
	dm->dm.handle = DM_HANDLE;
	dm->dm.comp_mask = IBV_DM_MASK_HANDLE;
	dm->dm.context = ibvctx;
	return 0;
}

int ibv_cmd_free_dm(struct verbs_dm *dm)
{
	memory_calls++;
	CHECK(dm->handle == DM_HANDLE);
	return memory_err;
}

int ibv_cmd_reg_dm_mr(struct ibv_pd *pd, struct verbs_dm *dm, uint64_t offset,
		      size_t length, unsigned int access, struct verbs_mr *vmr,
		      struct ibv_command_buffer *link)
{
	memory_calls++;
	if (memory_err)
		return memory_err;
	CHECK(dm->handle == DM_HANDLE && !link);
	last_mr = (struct last_mr) { .pd = pd, .length = length,
				     .offset = offset, .access = access };
	vmr->ibv_mr.pd = pd;
	vmr->ibv_mr.lkey = 0x700;
	return 0;
}

int ibv_cmd_reg_mr(struct ibv_pd *pd, void *addr, size_t length,
		   uint64_t hca_va, int access, struct verbs_mr *vmr,
		   struct ibv_reg_mr *cmd, size_t cmd_size,
		   struct ib_uverbs_reg_mr_resp *resp, size_t resp_size)
{
	memory_calls++;
	if (memory_err)
		return memory_err;
	vmr->ibv_mr.context = pd->context;
	vmr->ibv_mr.pd = pd;
	vmr->ibv_mr.lkey = 0x600;
	return 0;
}

int ibv_cmd_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length,
			  uint64_t iova, int fd, int access,
			  struct verbs_mr *vmr,
			  struct ibv_command_buffer *driver)
{
	memory_calls++;
	if (memory_err)
		return memory_err;
	CHECK(!driver);
	last_mr = (struct last_mr) { .pd = pd, .length = length,
				     .offset = offset, .access = access,
				     .flags = fd };
	vmr->ibv_mr.context = pd->context;
	vmr->ibv_mr.pd = pd;
	vmr->ibv_mr.lkey = 0x900;
	return 0;
}

int ibv_cmd_advise_mr(struct ibv_pd *pd, enum ibv_advise_mr_advice advice,
		      uint32_t flags, struct ibv_sge *sg_list, uint32_t num_sge)
{
	memory_calls++;
	return memory_err;
}

int ibv_cmd_rereg_mr(struct verbs_mr *vmr, uint32_t flags, void *addr,
		     size_t length, uint64_t hca_va, int access,
		     struct ibv_pd *pd, struct ibv_rereg_mr *cmd, size_t cmd_sz,
		     struct ib_uverbs_rereg_mr_resp *resp, size_t resp_sz)
{
	memory_calls++;
	last_mr = (struct last_mr) { .pd = pd, .addr = addr, .length = length,
				     .offset = hca_va, .access = access,
				     .flags = flags };
	return memory_err;
}

int ibv_cmd_dereg_mr(struct verbs_mr *vmr)
{
	memory_calls++;
	return memory_err;
}

int ibv_cmd_query_mr(struct ibv_pd *pd, struct verbs_mr *vmr, uint32_t handle)
{
	memory_calls++;
	if (memory_err)
		return memory_err;
	vmr->ibv_mr.handle = handle;
	vmr->ibv_mr.context = pd->context;
	vmr->ibv_mr.pd = pd;
	vmr->ibv_mr.lkey = 0x800;
	vmr->mr_type = IBV_MR_TYPE_IMPORTED_MR;
	return 0;
}

int ibv_cmd_alloc_pd(struct ibv_context *context, struct ibv_pd *pd,
		     struct ibv_alloc_pd *cmd, size_t cmd_size,
		     struct ib_uverbs_alloc_pd_resp *resp, size_t resp_size)
{
	memory_calls++;
	pd->context = context;
	return memory_err;
}

int ibv_cmd_dealloc_pd(struct ibv_pd *pd)
{
	memory_calls++;
	return memory_err;
}

int ibv_cmd_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type,
		     struct ibv_mw *mw, struct ibv_alloc_mw *cmd,
		     size_t cmd_size, struct ib_uverbs_alloc_mw_resp *resp,
		     size_t resp_size)
{
	memory_calls++;
	if (memory_err)
		return memory_err;
	mw->context = pd->context;
	mw->pd = pd;
	mw->type = type;
	mw->rkey = 0x123400;
	return 0;
}

int ibv_cmd_dealloc_mw(struct ibv_mw *mw)
{
	memory_calls++;
	return memory_err;
}

int ibv_cmd_create_ah(struct ibv_pd *pd, struct ibv_ah *ah,
		      struct ibv_ah_attr *attr,
		      struct ib_uverbs_create_ah_resp *resp, size_t resp_size)
{
	memory_calls++;
	if (memory_err)
		return memory_err;
	container_of(resp, struct tern_create_ah_resp, ibv_resp)->drv_payload =
		ah_resp;
	ah->context = pd->context;
	ah->pd = pd;
	return 0;
}

int ibv_cmd_destroy_ah(struct ibv_ah *ah)
{
	memory_calls++;
	return memory_err;
}

/* ---- contexts ---- */

void verbs_register_driver(const struct verbs_device_ops *ops)
{
	driver_ops = ops;
}

void *_verbs_init_and_alloc_context(struct ibv_device *device, int cmd_fd,
				    size_t alloc_size,
				    struct verbs_context *context_offset,
				    uint32_t driver_id)
{
	void *made = calloc(1, alloc_size);
	struct verbs_context *vctx = made + (uintptr_t)context_offset;

	CHECK(made);
	vctx->context.device = device;
	vctx->context.cmd_fd = cmd_fd;
	contexts++;
	return made;
}

void verbs_uninit_context(struct verbs_context *context)
{
	contexts--;
}

void verbs_set_ops(struct verbs_context *vctx,
		   const struct verbs_context_ops *ops)
{
	context_ops = ops;
}

int ibv_cmd_query_context(struct ibv_context *context,
			  struct ibv_command_buffer *driver)
{
	if (memory_err)
		return memory_err;
	put_attr(driver, TERN_IB_ATTR_QUERY_CONTEXT_RESP, &context_resp,
		 sizeof(context_resp));
	return 0;
}

int ibv_cmd_get_context(struct verbs_context *context,
			struct ibv_get_context *cmd, size_t cmd_size,
			struct ib_uverbs_get_context_resp *resp,
			size_t resp_size)
{
	if (memory_err)
		return memory_err;
	container_of(resp, struct tern_alloc_ucontext_resp, ibv_resp)
		->drv_payload = context_resp;
	return 0;
}

void __verbs_log(struct verbs_context *ctx, uint32_t level, const char *fmt,
		 ...)
{
}

/* ---- context methods that the tests do not use ---- */

int ibv_cmd_query_device_any(struct ibv_context *context,
			     const struct ibv_query_device_ex_input *input,
			     struct ibv_device_attr_ex *attr, size_t attr_size,
			     struct ib_uverbs_ex_query_device_resp *resp,
			     size_t *resp_size)
{
	return ENOSYS;
}

int ibv_cmd_query_port(struct ibv_context *context, uint8_t port_num,
		       struct ibv_port_attr *port_attr,
		       struct ibv_query_port *cmd, size_t cmd_size)
{
	return ENOSYS;
}

int ibv_cmd_open_xrcd(struct ibv_context *context, struct verbs_xrcd *xrcd,
		      int vxrcd_size, struct ibv_xrcd_init_attr *attr,
		      struct ibv_open_xrcd *cmd, size_t cmd_size,
		      struct ib_uverbs_open_xrcd_resp *resp, size_t resp_size)
{
	return ENOSYS;
}

int ibv_cmd_close_xrcd(struct verbs_xrcd *xrcd)
{
	return ENOSYS;
}

int ibv_cmd_attach_mcast(struct ibv_qp *qp, const union ibv_gid *gid,
			 uint16_t lid)
{
	return ENOSYS;
}

int ibv_cmd_detach_mcast(struct ibv_qp *qp, const union ibv_gid *gid,
			 uint16_t lid)
{
	return ENOSYS;
}
