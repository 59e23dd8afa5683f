// SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause)
/* Opcodes, the opcodes of each QP type, and the maximum size of their WQEs. */

#include <ccan/array_size.h>
#include <ccan/minmax.h>

#include "wqe.h"

const struct tern_op tern_ops[TERN_NUM_OPS] = {
	[IBV_WR_RDMA_WRITE] = {
		.opcode = TERN_WR_RDMA_WRITE,
		.seg = TERN_SEG_RDMA,
		.seg_size = sizeof(struct tern_rdma_seg),
		.flags = TERN_OP_SGES | TERN_OP_INLINE,
		.send_op = IBV_QP_EX_WITH_RDMA_WRITE,
	},
	[IBV_WR_RDMA_WRITE_WITH_IMM] = {
		.opcode = TERN_WR_RDMA_WRITE_WITH_IMM,
		.seg = TERN_SEG_RDMA,
		.seg_size = sizeof(struct tern_rdma_seg),
		.flags = TERN_OP_SGES | TERN_OP_INLINE,
		.send_op = IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM,
	},
	[IBV_WR_SEND] = {
		.opcode = TERN_WR_SEND,
		.flags = TERN_OP_SGES | TERN_OP_INLINE,
		.send_op = IBV_QP_EX_WITH_SEND,
	},
	[IBV_WR_SEND_WITH_IMM] = {
		.opcode = TERN_WR_SEND_WITH_IMM,
		.flags = TERN_OP_SGES | TERN_OP_INLINE,
		.send_op = IBV_QP_EX_WITH_SEND_WITH_IMM,
	},
	[IBV_WR_RDMA_READ] = {
		.opcode = TERN_WR_RDMA_READ,
		.seg = TERN_SEG_RDMA,
		.seg_size = sizeof(struct tern_rdma_seg),
		.flags = TERN_OP_SGES,
		.send_op = IBV_QP_EX_WITH_RDMA_READ,
	},
	[IBV_WR_ATOMIC_CMP_AND_SWP] = {
		.opcode = TERN_WR_ATOMIC_CMP_AND_SWP,
		.seg = TERN_SEG_ATOMIC,
		.seg_size = sizeof(struct tern_atomic_seg),
		.send_op = IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP,
	},
	[IBV_WR_ATOMIC_FETCH_AND_ADD] = {
		.opcode = TERN_WR_ATOMIC_FETCH_AND_ADD,
		.seg = TERN_SEG_ATOMIC,
		.seg_size = sizeof(struct tern_atomic_seg),
		.send_op = IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD,
	},
	[IBV_WR_LOCAL_INV] = {
		.opcode = TERN_WR_LOCAL_INV,
		.flags = TERN_OP_LOCAL,
		.caps = TERN_UCTX_CAP_MW,
		.send_op = IBV_QP_EX_WITH_LOCAL_INV,
	},
	[IBV_WR_BIND_MW] = {
		.opcode = TERN_WR_BIND_MW,
		.seg = TERN_SEG_BIND,
		.seg_size = sizeof(struct tern_bind_seg),
		.flags = TERN_OP_LOCAL,
		.caps = TERN_UCTX_CAP_MW,
		.send_op = IBV_QP_EX_WITH_BIND_MW,
	},
	[IBV_WR_SEND_WITH_INV] = {
		.opcode = TERN_WR_SEND_WITH_INV,
		.flags = TERN_OP_SGES | TERN_OP_INLINE,
		.caps = TERN_UCTX_CAP_SEND_INV,
		.send_op = IBV_QP_EX_WITH_SEND_WITH_INV,
	},
#ifndef TERN_WITHOUT_RAW
	[IBV_WR_TSO] = {
		.opcode = TERN_WR_SEND,
		.flags = TERN_OP_SGES | TERN_OP_INLINE,
		.caps = TERN_UCTX_CAP_RAW_OFFLOAD,
		.send_op = IBV_QP_EX_WITH_TSO,
	},
#endif
	[IBV_WR_FLUSH] = {
		.opcode = TERN_WR_FLUSH,
		.seg = TERN_SEG_FLUSH,
		.seg_size = sizeof(struct tern_flush_seg),
		.caps = TERN_UCTX_CAP_FLUSH,
		.send_op = IBV_QP_EX_WITH_FLUSH,
	},
	[IBV_WR_ATOMIC_WRITE] = {
		.opcode = TERN_WR_ATOMIC_WRITE,
		.seg = TERN_SEG_RDMA,
		.seg_size = sizeof(struct tern_rdma_seg),
		.flags = TERN_OP_VALUE,
		.caps = TERN_UCTX_CAP_ATOMIC_WRITE,
		.send_op = IBV_QP_EX_WITH_ATOMIC_WRITE,
	},
};

#define TERN_OPS_RELIABLE \
	(BIT(IBV_WR_RDMA_WRITE) | BIT(IBV_WR_RDMA_WRITE_WITH_IMM) | \
	 BIT(IBV_WR_SEND) | BIT(IBV_WR_SEND_WITH_IMM) | \
	 BIT(IBV_WR_SEND_WITH_INV) | BIT(IBV_WR_RDMA_READ) | \
	 BIT(IBV_WR_ATOMIC_CMP_AND_SWP) | BIT(IBV_WR_ATOMIC_FETCH_AND_ADD) | \
	 BIT(IBV_WR_FLUSH) | BIT(IBV_WR_ATOMIC_WRITE))

/* These require memory windows: user space has no other key to invalidate. */
#define TERN_OPS_WINDOW (BIT(IBV_WR_LOCAL_INV) | BIT(IBV_WR_BIND_MW))

static const struct tern_qp_type tern_qp_types[] = {
	{
		.qp_type = IBV_QPT_RC,
		.ops = TERN_OPS_RELIABLE | TERN_OPS_WINDOW,
		.has_sq = true,
		.has_rq = true,
	},
	{
		.qp_type = IBV_QPT_UC,
		.ops = BIT(IBV_WR_RDMA_WRITE) |
		       BIT(IBV_WR_RDMA_WRITE_WITH_IMM) |
		       BIT(IBV_WR_SEND) |
		       BIT(IBV_WR_SEND_WITH_IMM) |
		       BIT(IBV_WR_SEND_WITH_INV) | TERN_OPS_WINDOW,
		.has_sq = true,
		.has_rq = true,
	},
	{
		.qp_type = IBV_QPT_UD,
		.ops = BIT(IBV_WR_SEND) | BIT(IBV_WR_SEND_WITH_IMM),
		.missing = BIT(IBV_WR_TSO),
		.prefix_size = sizeof(struct tern_ud_seg),
		.ud = true,
		.has_sq = true,
		.has_rq = true,
	},
	{
		.qp_type = IBV_QPT_RAW_PACKET,
		.ops = BIT(IBV_WR_SEND) | BIT(IBV_WR_TSO),
		.prefix_size = sizeof(struct tern_eth_offload),
		.raw = true,
		.has_sq = true,
		.has_rq = true,
	},
	{
		.qp_type = IBV_QPT_XRC_SEND,
		.ops = TERN_OPS_RELIABLE | TERN_OPS_WINDOW,
		.has_sq = true,
		.xrc = true,
	},
	{
		.qp_type = IBV_QPT_XRC_RECV,
	},
};

/* A raw packet QP with an indirection table exists only in the kernel. */
const struct tern_qp_type tern_rss_qp_type = {
	.qp_type = IBV_QPT_RAW_PACKET,
	.raw = true,
};

const struct tern_qp_type tern_rwq_type = {
	.qp_type = IBV_QPT_RAW_PACKET,
	.raw = true,
	.has_rq = true,
};

/* Returns NULL for a type that tern does not support. */
const struct tern_qp_type *tern_qp_type_find(enum ibv_qp_type qp_type)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(tern_qp_types); i++)
		if (tern_qp_types[i].qp_type == qp_type)
			return &tern_qp_types[i];

	return NULL;
}

/* BIT(IBV_WR_*) of the type on a device with these TERN_UCTX_CAP_*. */
uint32_t tern_qp_type_ops(const struct tern_qp_type *type, uint32_t caps)
{
	uint32_t ops = type->ops;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(tern_ops); i++)
		if (tern_ops[i].caps & ~caps)
			ops &= ~BIT(i);

	return ops;
}

/* IBV_SEND_* of the type on a device with these TERN_UCTX_CAP_*. */
uint32_t tern_qp_type_send_flags(const struct tern_qp_type *type, uint32_t caps)
{
	uint32_t flags = TERN_SEND_FLAGS;

#ifndef TERN_WITHOUT_RAW
	if (type->raw && (caps & TERN_UCTX_CAP_RAW_OFFLOAD))
		flags |= IBV_SEND_IP_CSUM;

#endif
	return flags;
}

/* Converts a mask of BIT(IBV_WR_*) to IBV_QP_EX_WITH_*. */
uint64_t tern_send_ops(uint32_t ops)
{
	uint64_t send_ops = 0;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(tern_ops); i++)
		if (ops & BIT(i))
			send_ops |= tern_ops[i].send_op;

	return send_ops;
}

/*
 * The errno for an opcode that a QP lacks: not valid for its type, or not
 * supported by the device.
 */
int tern_no_op_errno(const struct tern_qp_type *type, unsigned int opcode)
{
	if (opcode < 32 &&
	    ((type->ops | type->missing) & ~TERN_OPS_BUILT & BIT(opcode)))
		return EOPNOTSUPP;

	return EINVAL;
}

/* Maximum offset in a WQE, in bytes, of the SGE list or inline data. */
size_t tern_qp_type_data_offset(const struct tern_qp_type *type)
{
	size_t seg_size = 0;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(tern_ops); i++)
		if ((type->ops & BIT(i)) && (tern_ops[i].flags & TERN_OP_SGES))
			seg_size = max_t(size_t, seg_size,
					 tern_ops[i].seg_size);

	return sizeof(struct tern_sq_hdr) + type->prefix_size + seg_size;
}

/* Size in bytes of the largest WQE without an SGE list. */
size_t tern_qp_type_min_wqe(const struct tern_qp_type *type)
{
	size_t size = 0, op_size;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(tern_ops); i++) {
		if (!(type->ops & BIT(i)) || (tern_ops[i].flags & TERN_OP_SGES))
			continue;
		op_size = sizeof(struct tern_sq_hdr) + tern_ops[i].seg_size;
		if (!(tern_ops[i].flags & TERN_OP_LOCAL))
			op_size += sizeof(struct tern_sge);
		size = max_t(size_t, size, op_size);
	}

	return size;
}
