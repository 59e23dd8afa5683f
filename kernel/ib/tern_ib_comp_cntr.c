// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Completion counters: counts of completions in user memory or in dma-bufs. */

#include <rdma/uverbs_ioctl.h>
#define UVERBS_MODULE_NAME tern_ib
#include <rdma/uverbs_named_ioctl.h>

#include "tern_comp_cntr.h"
#include "tern_ib.h"

/* A completion counter. */
struct tern_comp_cntr {
	struct ib_comp_cntr ibcc;
	u32 id;	/* its number in the device */
	struct ib_umem *umems[2];	/* memory of its values, by TERN_COMP_CNTR_* */
};

static_assert((int)IB_COMP_CNTR_ENTRY_COMP == TERN_COMP_CNTR_COMP);
static_assert((int)IB_COMP_CNTR_ENTRY_ERR == TERN_COMP_CNTR_ERR);
static_assert((int)IB_COMP_CNTR_MODIFY_OP_SET == TERN_COMP_CNTR_SET);
static_assert((int)IB_COMP_CNTR_MODIFY_OP_INC == TERN_COMP_CNTR_ADD);
static_assert((int)TERN_COMP_CNTR_TYPE_WRS == TERN_COMP_CNTR_WRS);
static_assert((int)TERN_COMP_CNTR_TYPE_BYTES == TERN_COMP_CNTR_BYTES);
static_assert((int)IB_QP_ATTACH_COMP_CNTR_OP_SEND == TERN_COMP_OP_SEND);
static_assert((int)IB_QP_ATTACH_COMP_CNTR_OP_RECV == TERN_COMP_OP_RECV);
static_assert((int)IB_QP_ATTACH_COMP_CNTR_OP_RDMA_READ == TERN_COMP_OP_RDMA_READ);
static_assert((int)IB_QP_ATTACH_COMP_CNTR_OP_REMOTE_RDMA_READ == TERN_COMP_OP_REMOTE_READ);
static_assert((int)IB_QP_ATTACH_COMP_CNTR_OP_RDMA_WRITE == TERN_COMP_OP_RDMA_WRITE);
static_assert((int)IB_QP_ATTACH_COMP_CNTR_OP_REMOTE_RDMA_WRITE == TERN_COMP_OP_REMOTE_WRITE);

static struct tern_comp_cntr *to_tcc(struct ib_comp_cntr *ibcc)
{
	return container_of(ibcc, struct tern_comp_cntr, ibcc);
}

static int tern_query_comp_cntr_caps(struct ib_device *ibdev,
				     struct ib_comp_cntr_caps *caps,
				     struct uverbs_attr_bundle *attrs)
{
	caps->max_value = U64_MAX;
	caps->max_counters = le32_to_cpu(to_tdev(ibdev)->core->caps->max_comp_cntrs);
	caps->supported_qp_attach_ops = BIT(TERN_COMP_OP_NUM) - 1;
	return 0;
}

static void tern_comp_cntr_done(struct tern_ib_dev *dev,
				struct tern_comp_cntr *cc, int err)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(cc->umems); i++)
		tern_ib_umem_done(dev, cc->umems[i], err);
}

/* Pins the memory of both values. */
static int tern_comp_cntr_get(struct tern_ib_dev *dev, struct tern_comp_cntr *cc,
			      struct uverbs_attr_bundle *attrs, __le64 *addr)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(cc->umems); i++) {
		struct ib_umem *umem;
		dma_addr_t dma;

		umem = ib_umem_get_attr(&dev->ibdev, attrs,
					TERN_IB_ATTR_CREATE_COMP_CNTR_COMP_BUFFER + i,
					sizeof(u64), IB_ACCESS_LOCAL_WRITE);
		if (IS_ERR(umem)) {
			tern_comp_cntr_done(dev, cc, 0);
			return PTR_ERR(umem);
		}

		/* An aligned value does not cross a page boundary. */
		cc->umems[i] = umem;
		dma = ib_umem_start_dma_addr(umem);
		if (!IS_ALIGNED(dma, sizeof(u64))) {
			tern_comp_cntr_done(dev, cc, 0);
			return tern_refuse(dev, -EINVAL,
					   "unaligned value of a completion counter");
		}
		addr[i] = cpu_to_le64(dma);
	}

	return 0;
}

/**
 * tern_create_comp_cntr() - create a completion counter
 * @ibcc: the counter
 * @attrs: enum tern_ib_create_comp_cntr_attrs
 *
 * The device stores 0 in both values.
 *
 * Return: 0; -EOPNOTSUPP for another type; -EINVAL if a value is not aligned to
 * 8 bytes or its buffer is shorter; or another negative errno.
 */
static int tern_create_comp_cntr(struct ib_comp_cntr *ibcc,
				 struct uverbs_attr_bundle *attrs)
{
	struct tern_ib_dev *dev = to_tdev(ibcc->device);
	struct tern_cmd_create_comp_cntr cmd = {};
	struct tern_comp_cntr *cc = to_tcc(ibcc);
	int err;

	err = uverbs_copy_from(&cmd.type, attrs,
			       TERN_IB_ATTR_CREATE_COMP_CNTR_TYPE);
	if (err)
		return err;
	if (cmd.type > TERN_COMP_CNTR_BYTES)
		return tern_refuse(dev, -EOPNOTSUPP, "completion counter of type %u",
				   cmd.type);

	err = tern_comp_cntr_get(dev, cc, attrs, cmd.value);
	if (err)
		return err;

	err = tern_ib_create(dev, TERN_CMD_CREATE_COMP_CNTR, &cmd, sizeof(cmd),
			     &cc->id);
	if (err)
		tern_comp_cntr_done(dev, cc, 0);

	return err;
}

static int tern_destroy_comp_cntr(struct ib_comp_cntr *ibcc)
{
	struct tern_ib_dev *dev = to_tdev(ibcc->device);
	struct tern_comp_cntr *cc = to_tcc(ibcc);

	tern_comp_cntr_done(dev, cc,
			    tern_ib_destroy(dev, TERN_CMD_DESTROY_COMP_CNTR, cc->id));
	return 0;
}

static int tern_modify_comp_cntr(struct ib_comp_cntr *ibcc,
				 enum ib_comp_cntr_entry entry,
				 enum ib_comp_cntr_modify_op op, u64 value)
{
	struct tern_cmd_modify_comp_cntr cmd = {
		.id = cpu_to_le32(to_tcc(ibcc)->id),
		.entry = entry,
		.op = op,
		.operand = cpu_to_le64(value),
	};

	return tern_cmd_exec(to_tdev(ibcc->device)->core, TERN_CMD_MODIFY_COMP_CNTR,
			     &cmd, sizeof(cmd), NULL, 0);
}

/**
 * tern_qp_attach_comp_cntr() - let a counter count completions of a QP
 * @ibqp: the QP, in RESET or INIT
 * @ibcc: the counter
 * @attr: the operations to count, none of which has a counter
 *
 * It counts until the QP is destroyed.
 *
 * Return: 0; -EOPNOTSUPP for an RSS QP, which has no queues; -EINVAL in another
 * state; or another negative errno. ib_core refuses XRC targets.
 */
static int tern_qp_attach_comp_cntr(struct ib_qp *ibqp, struct ib_comp_cntr *ibcc,
				    struct ib_qp_attach_comp_cntr_attr *attr)
{
	struct tern_ib_dev *dev = to_tdev(ibqp->device);
	struct tern_cmd_attach_comp_cntr cmd = {
		.qpn = cpu_to_le32(ibqp->qp_num),
		.id = cpu_to_le32(to_tcc(ibcc)->id),
		.ops = cpu_to_le32(attr->op_mask),
	};

	if (ibqp->rwq_ind_tbl)
		return tern_refuse(dev, -EOPNOTSUPP,
				   "completion counter of an RSS QP");

	return tern_cmd_exec(dev->core, TERN_CMD_ATTACH_COMP_CNTR, &cmd, sizeof(cmd),
			     NULL, 0);
}

const struct ib_device_ops tern_comp_cntr_ops = {
	.create_comp_cntr = tern_create_comp_cntr,
	.destroy_comp_cntr = tern_destroy_comp_cntr,
	.modify_comp_cntr = tern_modify_comp_cntr,
	.qp_attach_comp_cntr = tern_qp_attach_comp_cntr,
	.query_comp_cntr_caps = tern_query_comp_cntr_caps,

	INIT_RDMA_OBJ_SIZE(ib_comp_cntr, tern_comp_cntr, ibcc),
};

ADD_UVERBS_ATTRIBUTES_SIMPLE(tern_comp_cntr_create,
			     UVERBS_OBJECT_COMP_CNTR,
			     UVERBS_METHOD_COMP_CNTR_CREATE,
			     UVERBS_ATTR_PTR_IN(TERN_IB_ATTR_CREATE_COMP_CNTR_COMP_BUFFER,
						UVERBS_ATTR_STRUCT(struct ib_uverbs_buffer_desc,
								   length),
						UA_MANDATORY),
			     UVERBS_ATTR_PTR_IN(TERN_IB_ATTR_CREATE_COMP_CNTR_ERR_BUFFER,
						UVERBS_ATTR_STRUCT(struct ib_uverbs_buffer_desc,
								   length),
						UA_MANDATORY),
			     UVERBS_ATTR_PTR_IN(TERN_IB_ATTR_CREATE_COMP_CNTR_TYPE,
						UVERBS_ATTR_TYPE(u8),
						UA_MANDATORY));

const struct uapi_definition tern_comp_cntr_defs[] = {
	UAPI_DEF_CHAIN_OBJ_TREE(UVERBS_OBJECT_COMP_CNTR, &tern_comp_cntr_create),
	{}
};
