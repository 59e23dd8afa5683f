/* SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause) */
/*
 * Conversion of requests to WQEs, shared by ibv_post_send(), ibv_wr_*() and the
 * receive queues.
 */
#ifndef TERN_WQE_H
#define TERN_WQE_H

#include <errno.h>
#include <string.h>

#include <util/compiler.h>

#include "tern.h"
#include "tern_trace.h"

/* Checks that a value of the contract equals that of the verbs. */
#define TERN_SAME(tern, ibv) static_assert((int)(tern) == (int)(ibv), #tern)

/* Segment between a WQE's header and its data. */
enum tern_seg {
	TERN_SEG_NONE,
	TERN_SEG_RDMA,
	TERN_SEG_ATOMIC,
	TERN_SEG_FLUSH,
	TERN_SEG_BIND,
};

enum {
	TERN_OP_SGES = 1 << 0, /* any number of SGEs; else one, LOCAL: none */
	TERN_OP_INLINE = 1 << 1, /* takes inline data */
	TERN_OP_LOCAL = 1 << 2, /* sends nothing: no data, no address */
	TERN_OP_VALUE = 1 << 3, /* its builder writes the data, not a setter */
};

/* WQE format of a verbs opcode: a segment, then data. */
struct tern_op {
	uint8_t opcode; /* TERN_WR_* */
	uint8_t seg; /* enum tern_seg */
	uint8_t seg_size; /* bytes */
	uint8_t flags; /* TERN_OP_* */
	uint32_t caps; /* required TERN_UCTX_CAP_* */
	uint64_t send_op; /* IBV_QP_EX_WITH_* */
};

/* One more than the last opcode with an entry. */
#define TERN_NUM_OPS (IBV_WR_ATOMIC_WRITE + 1)

/*
 * Opcodes for which struct ibv_send_wr has no fields and ibv_post_send(3) no
 * entry: only ibv_wr_flush() and ibv_wr_atomic_write() build them.
 */
#define TERN_OPS_BUILT (BIT(IBV_WR_FLUSH) | BIT(IBV_WR_ATOMIC_WRITE))

extern const struct tern_op tern_ops[TERN_NUM_OPS];

/* Send flags that every QP accepts in a work request. */
#define TERN_SEND_FLAGS \
	(IBV_SEND_FENCE | IBV_SEND_SIGNALED | IBV_SEND_SOLICITED | \
	 IBV_SEND_INLINE)

/* Returns 0, or the errno for flags that the QP does not support. */
static inline int tern_check_flags(const struct tern_qp *qp,
				   unsigned int send_flags)
{
	if (likely(!(send_flags & ~qp->send_flags)))
		return 0;

	/* The device computes checksums only for raw packet QPs, if at all. */
	return send_flags & IBV_SEND_IP_CSUM ? EOPNOTSUPP : EINVAL;
}

/* Writes the header of WQE number index. Zeroes what no builder below sets. */
static inline struct tern_sq_hdr *tern_wqe_start(struct tern_qp *qp,
						 uint32_t index,
						 const struct tern_op *op,
						 uint64_t wr_id,
						 unsigned int send_flags)
{
	struct tern_sq_hdr *wqe = tern_wq_slot(&qp->sq, index);
	uint8_t flags = qp->wqe_flags;

	if (send_flags & IBV_SEND_SIGNALED)
		flags |= TERN_WQE_F_SIGNALED;
	if (send_flags & IBV_SEND_SOLICITED)
		flags |= TERN_WQE_F_SOLICITED;
	if (send_flags & IBV_SEND_FENCE)
		flags |= TERN_WQE_F_FENCE;

	*wqe = (struct tern_sq_hdr) {
		.opcode = op->opcode,
		.flags = flags,
		.wr_id = htole64(wr_id),
	};

	return wqe;
}

static inline void tern_wqe_rdma(struct tern_sq_hdr *wqe, uint64_t raddr,
				 uint32_t rkey)
{
	struct tern_rdma_seg *seg = (void *)(wqe + 1);

	*seg = (struct tern_rdma_seg) {
		.raddr = htole64(raddr),
		.rkey = htole32(rkey),
	};
}

static inline void tern_wqe_atomic(struct tern_sq_hdr *wqe, uint64_t raddr,
				   uint32_t rkey, uint64_t swap_add,
				   uint64_t compare)
{
	struct tern_atomic_seg *seg = (void *)(wqe + 1);

	*seg = (struct tern_atomic_seg) {
		.raddr = htole64(raddr),
		.rkey = htole32(rkey),
		.swap_add = htole64(swap_add),
		.compare = htole64(compare),
	};
}

/* Access flags that a bind may have. LOCAL_WRITE has no effect on a window. */
#define TERN_MW_ACCESS \
	(IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | \
	 IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_ZERO_BASED | \
	 IBV_ACCESS_LOCAL_WRITE)

TERN_SAME(TERN_ACCESS_LOCAL_WRITE, IBV_ACCESS_LOCAL_WRITE);
TERN_SAME(TERN_ACCESS_REMOTE_WRITE, IBV_ACCESS_REMOTE_WRITE);
TERN_SAME(TERN_ACCESS_REMOTE_READ, IBV_ACCESS_REMOTE_READ);
TERN_SAME(TERN_ACCESS_REMOTE_ATOMIC, IBV_ACCESS_REMOTE_ATOMIC);
TERN_SAME(TERN_ACCESS_ZERO_BASED, IBV_ACCESS_ZERO_BASED);

/*
 * Refuses binds that cannot succeed: a window whose type does not match the
 * verb, access flags that windows do not have, no region. The device checks
 * everything else when it executes the bind.
 */
static inline int tern_check_bind(const struct ibv_mw *mw,
				  enum ibv_mw_type type,
				  const struct ibv_mw_bind_info *info)
{
	if (unlikely(!mw || mw->type != type ||
		     (info->mw_access_flags & ~TERN_MW_ACCESS)))
		return EINVAL;

	/* Only a type 1 window is unbound by a bind. */
	if (unlikely(!info->mr && (type != IBV_MW_TYPE_1 || info->addr ||
				   info->length)))
		return EINVAL;

	return 0;
}

static inline void tern_wqe_bind(struct tern_sq_hdr *wqe,
				 const struct ibv_mw *mw, uint32_t rkey,
				 uint32_t new_rkey,
				 const struct ibv_mw_bind_info *info)
{
	struct tern_bind_seg *seg = (void *)(wqe + 1);

	*seg = (struct tern_bind_seg) {
		.addr = htole64(info->addr),
		.length = htole64(info->length),
		.lkey = htole32(info->mr ? info->mr->lkey : TERN_KEY_INVALID),
		.rkey = htole32(rkey),
		.new_rkey = htole32(new_rkey),
		.access = htole32(info->mw_access_flags),
		.type = mw->type,
	};
}

static inline void tern_wqe_ud(struct tern_sq_hdr *wqe, struct ibv_ah *ibvah,
			       uint32_t qpn, uint32_t qkey)
{
	struct tern_ud_seg *seg = (void *)(wqe + 1);

	*seg = (struct tern_ud_seg) {
		.av = to_tern_ah(ibvah)->av,
		.dqpn = htole32(qpn),
		.qkey = htole32(qkey),
	};
}

/* Writes the offloads of a frame that is sent unchanged. */
static inline void tern_wqe_eth(struct tern_sq_hdr *wqe,
				unsigned int send_flags)
{
	struct tern_eth_offload *seg = (void *)(wqe + 1);
	uint16_t ops = send_flags & IBV_SEND_IP_CSUM ? TERN_ETH_OP_IP_CSUM : 0;

	*seg = (struct tern_eth_offload) { .ops = htole16(ops) };
}

/* Bytes of the headers of a large frame in a WQE. */
static inline size_t tern_tso_size(size_t header_size)
{
	return align(header_size, sizeof(struct tern_sge));
}

/* wqe.c */
uint16_t tern_tso_csum_start(const void *header, size_t length);
int tern_wqe_tso(const struct tern_qp *qp, struct tern_sq_hdr *wqe,
		 const void *header, uint16_t header_size, uint16_t mss);

/* Start of the SGEs or the inline data. */
static inline void *tern_wqe_data(const struct tern_qp *qp,
				  struct tern_sq_hdr *wqe,
				  const struct tern_op *op)
{
	return (void *)(wqe + 1) + qp->type->prefix_size + op->seg_size;
}

static inline void tern_fill_sges(struct tern_sge *sge,
				  const struct ibv_sge *list, size_t num)
{
	size_t i;

	for (i = 0; i < num; i++)
		sge[i] = (struct tern_sge) {
			.addr = htole64(list[i].addr),
			.length = htole32(list[i].length),
			.lkey = htole32(list[i].lkey),
		};
}

/* The caller has checked that length bytes fit. */
static inline void tern_wqe_inline(struct tern_sq_hdr *wqe, size_t length)
{
	wqe->flags |= TERN_WQE_F_INLINE;
	wqe->length = htole32(length);
}

static inline uint32_t tern_max_sge(const struct tern_qp *qp,
				    const struct tern_op *op)
{
	if (op->flags & TERN_OP_SGES)
		return qp->sq.max_sge;

	return op->flags & (TERN_OP_LOCAL | TERN_OP_VALUE) ? 0 : 1;
}

/* Below RTS there is no destination; in SQE and ERR the device flushes. */
static inline bool tern_sq_closed(const struct tern_qp *qp)
{
	return qp->vqp.qp.state < IBV_QPS_RTS;
}

/* Whether the device was polling the queue at the last check. */
static inline bool tern_sq_polled(const struct tern_qp *qp)
{
	return tern_shared_read(&qp->record->status) & TERN_QP_ST_SQ_POLLED;
}

static inline void tern_trace_send(const struct tern_qp *qp,
				   const struct tern_sq_hdr *wqe)
{
	rdma_tracepoint(rdma_core_tern, post_send,
			qp->vqp.qp.context->device->name, le64toh(wqe->wr_id),
			wqe->opcode, qp->vqp.qp.qp_num, wqe->num_sge,
			le32toh(wqe->length));
}

/*
 * Makes the WQEs before number head visible to the device, and kicks it unless
 * it polls the index. All of this happens under the queue's lock: once the
 * index is stored, the WQEs may complete, and a thread that polls the
 * completions may destroy the QP.
 */
static inline void tern_sq_publish(struct tern_qp *qp, uint32_t head)
{
	uint32_t i;

	/* Without tracing the loop is gone. */
	for (i = qp->sq.head; i != head; i++)
		tern_trace_send(qp, tern_wq_slot(&qp->sq, i));

	qp->sq.head = head;
	/*
	 * Write the WQEs and the data they refer to before the index, which the
	 * device may read at any time.
	 */
	udma_to_device_barrier();
	tern_shared_write(&qp->record->sq_pi, head);

	if (tern_sq_polled(qp)) {
		/*
		 * Write the index before reading the status again: either this
		 * thread sees that the device has stopped polling, or the
		 * device sees the index.
		 */
		udma_full_barrier();
		if (tern_sq_polled(qp))
			return;
	}

	/* Write the index before the kick that makes the device read it. */
	udma_to_device_barrier();
	tern_ring(to_tern_ctx(qp->vqp.qp.context), TERN_DB_CMD_SQ,
		  qp->vqp.qp.qp_num);
}

/* Writes receive WQE number index; the number of SGEs was checked. */
static inline void tern_build_recv(struct tern_wq *wq, uint32_t index,
				   const struct ibv_recv_wr *wr)
{
	struct tern_rq_hdr *wqe = tern_wq_slot(wq, index);

	*wqe = (struct tern_rq_hdr) {
		.num_sge = wr->num_sge,
		.wr_id = htole64(wr->wr_id),
	};
	tern_fill_sges((void *)(wqe + 1), wr->sg_list, wr->num_sge);
}

#endif /* TERN_WQE_H */
