// SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause)
/* Completion counters: ibv_create_comp_cntr(3), terndv_create_comp_cntr(3). */

#include <errno.h>
#include <stdlib.h>

#include <infiniband/cmd_ioctl.h>

#include "tern.h"
#include "terndv.h"

#if IBVERBS_PABI_VERSION >= 65
static_assert((int)IBV_COMP_CNTR_TYPE_WRS == (int)TERN_COMP_CNTR_TYPE_WRS,
	      "WRS");
static_assert((int)IBV_COMP_CNTR_TYPE_BYTES == (int)TERN_COMP_CNTR_TYPE_BYTES,
	      "BYTES");

struct tern_comp_cntr {
	struct ibv_comp_cntr ibvcc;
	struct tern_record record;
	/* The values; NULL if they are in a dma-buf that is not mapped. */
	const __le64 *comp;
	const __le64 *err;
};

static struct tern_comp_cntr *to_tern_comp_cntr(struct ibv_comp_cntr *ibvcc)
{
	return container_of(ibvcc, struct tern_comp_cntr, ibvcc);
}

/* Describes a value, which is in own unless mem is not NULL, to the kernel. */
static const __le64 *tern_comp_cntr_desc(struct ib_uverbs_buffer_desc *desc,
					 __le64 *own,
					 const struct terndv_mem *mem)
{
	void *ptr = mem ? mem->ptr : own;

	*desc = (struct ib_uverbs_buffer_desc) { .length = sizeof(*own) };
	if (mem && mem->fd >= 0) {
		desc->type = IB_UVERBS_BUFFER_TYPE_DMABUF;
		desc->fd = mem->fd;
		desc->addr = mem->offset;
	} else {
		desc->type = IB_UVERBS_BUFFER_TYPE_VA;
		desc->addr = (uintptr_t)ptr;
	}

	return ptr;
}

static int tern_comp_cntr_exec(struct ibv_context *ibvctx,
			       struct tern_comp_cntr *cc, uint8_t type,
			       const struct terndv_comp_cntr_init_attr *mem)
{
	DECLARE_COMMAND_BUFFER_LINK(cmd, UVERBS_OBJECT_COMP_CNTR,
				    UVERBS_METHOD_COMP_CNTR_CREATE, 3, NULL);
	struct ib_uverbs_buffer_desc comp, err;
	__le64 *own = cc->record.addr;

	cc->comp = tern_comp_cntr_desc(
		&comp, &own[0],
		mem->comp_mask & TERNDV_COMP_CNTR_MASK_COMP_MEM ? &mem->comp : NULL);
	cc->err = tern_comp_cntr_desc(
		&err, &own[1],
		mem->comp_mask & TERNDV_COMP_CNTR_MASK_ERR_MEM ? &mem->err : NULL);
	fill_attr_in_ptr(cmd, TERN_IB_ATTR_CREATE_COMP_CNTR_COMP_BUFFER, &comp);
	fill_attr_in_ptr(cmd, TERN_IB_ATTR_CREATE_COMP_CNTR_ERR_BUFFER, &err);
	fill_attr_in(cmd, TERN_IB_ATTR_CREATE_COMP_CNTR_TYPE, &type,
		     sizeof(type));

	return ibv_cmd_create_comp_cntr(ibvctx, &cc->ibvcc, cmd);
}

/*
 * terndv_create_comp_cntr(3): EOPNOTSUPP for another type, flags, reserved fields,
 * bits of a comp_mask or device, EINVAL for a value that is not aligned.
 */
struct ibv_comp_cntr *
terndv_create_comp_cntr(struct ibv_context *ibvctx,
			struct ibv_comp_cntr_init_attr *attr,
			struct terndv_comp_cntr_init_attr *tern_attr)
{
	struct tern_comp_cntr *cc;
	int err = EOPNOTSUPP;

	if (!tern_is_tern(ibvctx->device) || attr->comp_mask || attr->flags ||
	    tern_attr->comp.reserved || tern_attr->err.reserved ||
	    (attr->type != IBV_COMP_CNTR_TYPE_WRS &&
	     attr->type != IBV_COMP_CNTR_TYPE_BYTES) ||
	    !check_comp_mask(tern_attr->comp_mask,
			     TERNDV_COMP_CNTR_MASK_COMP_MEM |
				     TERNDV_COMP_CNTR_MASK_ERR_MEM))
		goto err_out;

	err = ENOMEM;
	cc = calloc(1, sizeof(*cc));
	if (!cc)
		goto err_out;

	err = tern_alloc_record(to_tern_ctx(ibvctx), NULL, &cc->record,
				TERN_RECORD_COMP_CNTR);
	if (err)
		goto err_free;

	err = tern_method_err(
		tern_comp_cntr_exec(ibvctx, cc, attr->type, tern_attr));
	if (err)
		goto err_free_record;

	return &cc->ibvcc;

err_free_record:
	tern_free_record(to_tern_ctx(ibvctx), &cc->record,
			 TERN_RECORD_COMP_CNTR);
err_free:
	free(cc);
err_out:
	errno = err;
	return NULL;
}

struct ibv_comp_cntr *tern_create_comp_cntr(struct ibv_context *ibvctx,
					    struct ibv_comp_cntr_init_attr *attr)
{
	struct terndv_comp_cntr_init_attr own = {};

	return terndv_create_comp_cntr(ibvctx, attr, &own);
}

/* ibv_query_comp_cntr_caps(3). */
int tern_query_comp_cntr_caps(struct ibv_context *ibvctx,
			      struct ibv_comp_cntr_caps *caps, size_t size)
{
	return tern_method_err(
		ibv_cmd_query_comp_cntr_caps(ibvctx, caps, size));
}

/*
 * ibv_qp_attach_comp_cntr(3): EOPNOTSUPP for a comp_mask and for operations that
 * libibverbs does not know and would not pass to the kernel.
 */
int tern_qp_attach_comp_cntr(struct ibv_qp *ibvqp, struct ibv_comp_cntr *ibvcc,
			     struct ibv_qp_attach_comp_cntr_attr *attr)
{
	const uint32_t ops = IBV_QP_ATTACH_COMP_CNTR_OP_SEND |
			     IBV_QP_ATTACH_COMP_CNTR_OP_RECV |
			     IBV_QP_ATTACH_COMP_CNTR_OP_RDMA_READ |
			     IBV_QP_ATTACH_COMP_CNTR_OP_REMOTE_RDMA_READ |
			     IBV_QP_ATTACH_COMP_CNTR_OP_RDMA_WRITE |
			     IBV_QP_ATTACH_COMP_CNTR_OP_REMOTE_RDMA_WRITE;

	if (attr->comp_mask || !check_comp_mask(attr->op_mask, ops))
		return EOPNOTSUPP;

	return ibv_cmd_qp_attach_comp_cntr(ibvqp, ibvcc, attr);
}

/* EBUSY while it is attached to a QP. */
int tern_destroy_comp_cntr(struct ibv_comp_cntr *ibvcc)
{
	struct tern_comp_cntr *cc = to_tern_comp_cntr(ibvcc);
	int err;

	err = ibv_cmd_destroy_comp_cntr(ibvcc);
	if (err)
		return err;

	tern_free_record(to_tern_ctx(ibvcc->context), &cc->record,
			 TERN_RECORD_COMP_CNTR);
	free(cc);
	return 0;
}

/* Reads a value that the device stores in one access. */
static int tern_comp_cntr_read(const __le64 *from, uint64_t *value)
{
	const int last = sizeof(*from) / sizeof(long) - 1;
	atomic_ulong *words = (atomic_ulong *)from;
	union {
		unsigned long words[sizeof(*from) / sizeof(long)];
		__le64 value;
	} read;

	if (!from)
		return EOPNOTSUPP;

	/* A machine of 32 bits reads two words: again if the first has changed. */
	do {
		read.words[0] =
			atomic_load_explicit(&words[0], memory_order_acquire);
		if (!last)
			break;

		read.words[last] = atomic_load_explicit(&words[last],
							memory_order_acquire);
	} while (read.words[0] !=
		 atomic_load_explicit(&words[0], memory_order_relaxed));
	/* What was received comes after its count. */
	udma_from_device_barrier();
	*value = le64toh(read.value);
	return 0;
}

/* EOPNOTSUPP if its value is in a dma-buf that is not mapped. */
int tern_read_comp_cntr(struct ibv_comp_cntr *ibvcc, uint64_t *value)
{
	return tern_comp_cntr_read(to_tern_comp_cntr(ibvcc)->comp, value);
}

int tern_read_err_comp_cntr(struct ibv_comp_cntr *ibvcc, uint64_t *value)
{
	return tern_comp_cntr_read(to_tern_comp_cntr(ibvcc)->err, value);
}
#endif
