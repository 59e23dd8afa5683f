/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What work requests and completions of ib_core are in the device's terms, and
 * the sizes of queues: pure functions, testable alone.
 */
#ifndef TERN_IB_UTIL_H
#define TERN_IB_UTIL_H

#include <linux/if_vlan.h>
#include <linux/log2.h>
#include <linux/minmax.h>
#include <linux/string.h>

#include <rdma/ib_verbs.h>

#include "tern_ib_kern.h"
#include "tern_util.h"

/* The least log2 of entries that CREATE_CQ takes. */
#define TERN_CQ_LOG_SIZE_MIN	1

/* No opcode of the device: what ib_core asks for does not exist in RoCE. */
#define TERN_WR_NONE		0xff

/* TERN_WR_* of a work request. */
static inline u8 tern_wr_opcode(enum ib_wr_opcode opcode)
{
	switch (opcode) {
	case IB_WR_SEND:
		return TERN_WR_SEND;
	case IB_WR_SEND_WITH_IMM:
		return TERN_WR_SEND_WITH_IMM;
	case IB_WR_SEND_WITH_INV:
		return TERN_WR_SEND_WITH_INV;
	case IB_WR_RDMA_WRITE:
		return TERN_WR_RDMA_WRITE;
	case IB_WR_RDMA_WRITE_WITH_IMM:
		return TERN_WR_RDMA_WRITE_WITH_IMM;
	case IB_WR_RDMA_READ:
		return TERN_WR_RDMA_READ;
	case IB_WR_ATOMIC_CMP_AND_SWP:
		return TERN_WR_ATOMIC_CMP_AND_SWP;
	case IB_WR_ATOMIC_FETCH_AND_ADD:
		return TERN_WR_ATOMIC_FETCH_AND_ADD;
	case IB_WR_ATOMIC_WRITE:
		return TERN_WR_ATOMIC_WRITE;
	case IB_WR_LOCAL_INV:
		return TERN_WR_LOCAL_INV;
	case IB_WR_REG_MR:
		return TERN_WR_REG_MR;
	default:
		return TERN_WR_NONE;
	}
}

/* Whether QPs of the type have the opcode; TERN_WR_NONE no one has. */
static inline bool tern_wr_allowed(enum ib_qp_type type, u8 opcode)
{
	switch (opcode) {
	case TERN_WR_SEND:
	case TERN_WR_SEND_WITH_IMM:
		return true;
	case TERN_WR_SEND_WITH_INV:
	case TERN_WR_RDMA_WRITE:
	case TERN_WR_RDMA_WRITE_WITH_IMM:
	case TERN_WR_LOCAL_INV:
	case TERN_WR_REG_MR:
		return type == IB_QPT_RC || type == IB_QPT_UC;
	case TERN_WR_RDMA_READ:
	case TERN_WR_ATOMIC_CMP_AND_SWP:
	case TERN_WR_ATOMIC_FETCH_AND_ADD:
	case TERN_WR_ATOMIC_WRITE:
		return type == IB_QPT_RC;
	default:
		return false;
	}
}

/* Whether the data of the request may stand in the WQE. */
static inline bool tern_wr_may_inline(u8 opcode)
{
	switch (opcode) {
	case TERN_WR_SEND:
	case TERN_WR_SEND_WITH_IMM:
	case TERN_WR_SEND_WITH_INV:
	case TERN_WR_RDMA_WRITE:
	case TERN_WR_RDMA_WRITE_WITH_IMM:
	case TERN_WR_ATOMIC_WRITE:
		return true;
	default:
		return false;
	}
}

/* Whether the request has SGEs at all. */
static inline bool tern_wr_has_data(u8 opcode)
{
	return opcode != TERN_WR_LOCAL_INV && opcode != TERN_WR_REG_MR;
}

/* TERN_WQE_F_* of IB_SEND_*, but for INLINE, which depends on the opcode. */
static inline u8 tern_wr_flags(int send_flags, enum ib_sig_type sig_type)
{
	u8 flags = 0;

	if (send_flags & IB_SEND_SIGNALED || sig_type == IB_SIGNAL_ALL_WR)
		flags |= TERN_WQE_F_SIGNALED;
	if (send_flags & IB_SEND_SOLICITED)
		flags |= TERN_WQE_F_SOLICITED;
	if (send_flags & IB_SEND_FENCE)
		flags |= TERN_WQE_F_FENCE;

	return flags;
}

/* Bytes of all SGEs. */
static inline u64 tern_sge_bytes(const struct ib_sge *sge, int num_sge)
{
	u64 bytes = 0;
	int i;

	for (i = 0; i < num_sge; i++)
		bytes += sge[i].length;

	return bytes;
}

static inline void tern_fill_sges(struct tern_sge *to, const struct ib_sge *sge,
				  int num_sge)
{
	int i;

	for (i = 0; i < num_sge; i++)
		to[i] = (struct tern_sge){
			.addr = cpu_to_le64(sge[i].addr),
			.length = cpu_to_le32(sge[i].length),
			.lkey = cpu_to_le32(sge[i].lkey),
		};
}

/* Writes a receive WQE; its slot has room for the request's SGEs. */
static inline void tern_recv_wqe_fill(void *slot, const struct ib_recv_wr *wr)
{
	struct tern_rq_hdr *hdr = slot;

	*hdr = (struct tern_rq_hdr){
		.num_sge = wr->num_sge,
		.wr_id = cpu_to_le64(wr->wr_id),
	};
	tern_fill_sges(slot + sizeof(*hdr), wr->sg_list, wr->num_sge);
}

/* Where WQE @index of a queue stands. */
static inline void *tern_wq_slot(const struct tern_wq *wq, u32 index)
{
	return wq->slots + ((size_t)tern_ring_slot(index, wq->log_size)
			    << wq->log_stride);
}

/* Bytes of all its slots. */
static inline size_t tern_wq_bytes(const struct tern_wq *wq)
{
	return (size_t)1 << (wq->log_size + wq->log_stride);
}

/* Bytes that a send WQE of the kernel's may need, whatever its opcode. */
static inline size_t tern_send_wqe_bytes(enum ib_qp_type type, u32 max_sge,
					 u32 max_inline)
{
	size_t data = max_t(size_t, max_inline,
			    max_sge * sizeof(struct tern_sge));
	size_t bytes;

	if (type == IB_QPT_UD || type == IB_QPT_GSI)
		return sizeof(struct tern_sq_hdr) + sizeof(struct tern_ud_seg) +
		       data;

	bytes = sizeof(struct tern_rdma_seg) + data;
	bytes = max(bytes, sizeof(struct tern_atomic_seg) +
			   sizeof(struct tern_sge));
	bytes = max(bytes, sizeof(struct tern_reg_seg));
	return sizeof(struct tern_sq_hdr) + bytes;
}

/* Log2 of a slot for send WQEs of @bytes; above TERN_SQ_STRIDE_MAX there is none. */
static inline u8 tern_send_stride(size_t bytes)
{
	return max_t(u8, order_base_2(bytes), TERN_SQ_STRIDE_MIN);
}

/* The same for receive WQEs of @max_sge SGEs. */
static inline u8 tern_recv_stride(u32 max_sge)
{
	size_t bytes = sizeof(struct tern_rq_hdr) +
		       max_sge * sizeof(struct tern_sge);

	return max_t(u8, order_base_2(bytes), TERN_RQ_STRIDE_MIN);
}

/* Log2 of the entries of a queue for @num. */
static inline u8 tern_queue_log_size(u32 num, u8 min)
{
	return max_t(u8, order_base_2(num), min);
}

static inline enum ib_wc_status tern_wc_status(u8 status)
{
	switch (status) {
	case TERN_CQE_SUCCESS:
		return IB_WC_SUCCESS;
	case TERN_CQE_LOC_LEN_ERR:
		return IB_WC_LOC_LEN_ERR;
	case TERN_CQE_LOC_QP_OP_ERR:
		return IB_WC_LOC_QP_OP_ERR;
	case TERN_CQE_LOC_PROT_ERR:
		return IB_WC_LOC_PROT_ERR;
	case TERN_CQE_WR_FLUSH_ERR:
		return IB_WC_WR_FLUSH_ERR;
	case TERN_CQE_MW_BIND_ERR:
		return IB_WC_MW_BIND_ERR;
	case TERN_CQE_BAD_RESP_ERR:
		return IB_WC_BAD_RESP_ERR;
	case TERN_CQE_LOC_ACCESS_ERR:
		return IB_WC_LOC_ACCESS_ERR;
	case TERN_CQE_REM_INV_REQ_ERR:
		return IB_WC_REM_INV_REQ_ERR;
	case TERN_CQE_REM_ACCESS_ERR:
		return IB_WC_REM_ACCESS_ERR;
	case TERN_CQE_REM_OP_ERR:
		return IB_WC_REM_OP_ERR;
	case TERN_CQE_RETRY_EXC_ERR:
		return IB_WC_RETRY_EXC_ERR;
	case TERN_CQE_RNR_RETRY_EXC_ERR:
		return IB_WC_RNR_RETRY_EXC_ERR;
	case TERN_CQE_REM_ABORT_ERR:
		return IB_WC_REM_ABORT_ERR;
	case TERN_CQE_FATAL_ERR:
		return IB_WC_FATAL_ERR;
	case TERN_CQE_RESP_TIMEOUT_ERR:
		return IB_WC_RESP_TIMEOUT_ERR;
	default:
		return IB_WC_GENERAL_ERR;
	}
}

/* Of a successful completion; ib_core's are fewer, and an opcode unknown here is a send. */
static inline enum ib_wc_opcode tern_wc_opcode(u8 opcode)
{
	switch (opcode) {
	case TERN_WR_RDMA_WRITE:
	case TERN_WR_RDMA_WRITE_WITH_IMM:
		return IB_WC_RDMA_WRITE;
	case TERN_WR_RDMA_READ:
		return IB_WC_RDMA_READ;
	case TERN_WR_ATOMIC_CMP_AND_SWP:
		return IB_WC_COMP_SWAP;
	case TERN_WR_ATOMIC_FETCH_AND_ADD:
		return IB_WC_FETCH_ADD;
	case TERN_WR_ATOMIC_WRITE:
		return IB_WC_ATOMIC_WRITE;
	case TERN_WR_FLUSH:
		return IB_WC_FLUSH;
	case TERN_WR_LOCAL_INV:
		return IB_WC_LOCAL_INV;
	case TERN_WR_REG_MR:
		return IB_WC_REG_MR;
	case TERN_RECV_SEND:
		return IB_WC_RECV;
	case TERN_RECV_RDMA_WITH_IMM:
		return IB_WC_RECV_RDMA_WITH_IMM;
	default:
		return IB_WC_SEND;
	}
}

/* What a UD receive tells of the sender. */
static inline void tern_cqe_to_ud_wc(const struct tern_cqe *cqe,
				     struct ib_wc *wc)
{
	wc->src_qp = le32_to_cpu(cqe->src_qp);
	wc->pkey_index = le16_to_cpu(cqe->pkey_index);
	wc->sl = cqe->sl;
	memcpy(wc->smac, cqe->smac, sizeof(wc->smac));
	wc->network_hdr_type = cqe->net_type == TERN_NET_IPV4 ?
			       RDMA_NETWORK_IPV4 : RDMA_NETWORK_IPV6;
	wc->wc_flags |= IB_WC_GRH | IB_WC_WITH_SMAC |
			IB_WC_WITH_NETWORK_HDR_TYPE;
	if (cqe->flags & TERN_CQE_F_VLAN) {
		wc->vlan_id = le16_to_cpu(cqe->vlan) & VLAN_VID_MASK;
		wc->wc_flags |= IB_WC_WITH_VLAN;
	}
}

/* Everything of a work completion but the QP. */
static inline void tern_cqe_to_wc(const struct tern_cqe *cqe, struct ib_wc *wc)
{
	*wc = (struct ib_wc){
		.wr_id = le64_to_cpu(cqe->wr_id),
		.status = tern_wc_status(cqe->status),
		.opcode = tern_wc_opcode(cqe->opcode),
		.vendor_err = cqe->vendor_err,
	};
	if (cqe->status != TERN_CQE_SUCCESS)
		return;

	wc->byte_len = le32_to_cpu(cqe->byte_len);
	if (cqe->flags & TERN_CQE_F_IMM) {
		wc->ex.imm_data = cqe->imm;
		wc->wc_flags |= IB_WC_WITH_IMM;
	}
	if (cqe->flags & TERN_CQE_F_INV) {
		wc->ex.invalidate_rkey = le32_to_cpu(cqe->inv_rkey);
		wc->wc_flags |= IB_WC_WITH_INVALIDATE;
	}
	/* Only what came without a connection has a header of its own. */
	if (cqe->flags & TERN_CQE_F_GRH)
		tern_cqe_to_ud_wc(cqe, wc);
}

/* The completion of posted work that the device does not complete any more. */
static inline void tern_flush_wc(struct ib_qp *ibqp, enum ib_wc_opcode opcode,
				 __le64 wr_id, struct ib_wc *wc)
{
	*wc = (struct ib_wc){
		.wr_id = le64_to_cpu(wr_id),
		.status = IB_WC_WR_FLUSH_ERR,
		.opcode = opcode,
		.qp = ibqp,
	};
}

#endif /* TERN_IB_UTIL_H */
