// SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause)
/* Posting of work: ibv_post_send(), ibv_wr_*(), ibv_post_recv(). */

#include <ccan/array_size.h>
#include <ccan/minmax.h>
#include <errno.h>
#include <string.h>

#include <util/compiler.h>

#include "tern.h"

enum tern_seg {
	TERN_SEG_NONE,
	TERN_SEG_RDMA,
	TERN_SEG_ATOMIC,
};

enum {
	TERN_OP_SGES = 1 << 0, /* takes a list of SGEs; without it, one */
	TERN_OP_INLINE = 1 << 1, /* takes inline data */
};

/* How an opcode of the verbs becomes a WQE: segment, then data. */
struct tern_op {
	uint8_t opcode; /* TERN_WR_* */
	uint8_t seg; /* enum tern_seg */
	uint8_t seg_size; /* bytes */
	uint8_t flags; /* TERN_OP_* */
	uint64_t send_op; /* IBV_QP_EX_WITH_* */
};

static const struct tern_op tern_ops[] = {
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
};

static const struct tern_qp_type tern_qp_types[] = {
	{
		.qp_type = IBV_QPT_RC,
		.ops = BIT(IBV_WR_RDMA_WRITE) |
		       BIT(IBV_WR_RDMA_WRITE_WITH_IMM) |
		       BIT(IBV_WR_SEND) |
		       BIT(IBV_WR_SEND_WITH_IMM) |
		       BIT(IBV_WR_RDMA_READ) |
		       BIT(IBV_WR_ATOMIC_CMP_AND_SWP) |
		       BIT(IBV_WR_ATOMIC_FETCH_AND_ADD),
	},
};

/* NULL for a type tern does not have. */
const struct tern_qp_type *tern_qp_type_find(enum ibv_qp_type qp_type)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(tern_qp_types); i++)
		if (tern_qp_types[i].qp_type == qp_type)
			return &tern_qp_types[i];

	return NULL;
}

/* The IBV_QP_EX_WITH_* a type can serve. */
uint64_t tern_qp_type_send_ops(const struct tern_qp_type *type)
{
	uint64_t send_ops = 0;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(tern_ops); i++)
		if (type->ops & BIT(i))
			send_ops |= tern_ops[i].send_op;

	return send_ops;
}

/* Where a list of SGEs or inline data begins at the latest, bytes from the WQE's start. */
size_t tern_qp_type_data_offset(const struct tern_qp_type *type)
{
	size_t offset = sizeof(struct tern_sq_hdr);
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(tern_ops); i++)
		if ((type->ops & BIT(i)) && (tern_ops[i].flags & TERN_OP_SGES))
			offset = max_t(size_t, offset,
				       sizeof(struct tern_sq_hdr) +
					       tern_ops[i].seg_size);

	return offset;
}

/* Bytes that the largest opcode without a list of SGEs needs. */
size_t tern_qp_type_min_wqe(const struct tern_qp_type *type)
{
	size_t size = 0;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(tern_ops); i++)
		if ((type->ops & BIT(i)) && !(tern_ops[i].flags & TERN_OP_SGES))
			size = max_t(size_t, size,
				     sizeof(struct tern_sq_hdr) +
					     tern_ops[i].seg_size +
					     sizeof(struct tern_sge));

	return size;
}

/* Fills the header of WQE number index; zeroes what no builder below sets. */
static struct tern_sq_hdr *tern_wqe_start(struct tern_qp *qp, uint32_t index,
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

static void tern_wqe_rdma(struct tern_sq_hdr *wqe, uint64_t raddr,
			  uint32_t rkey)
{
	struct tern_rdma_seg *seg = (void *)(wqe + 1);

	*seg = (struct tern_rdma_seg) {
		.raddr = htole64(raddr),
		.rkey = htole32(rkey),
	};
}

static void tern_wqe_atomic(struct tern_sq_hdr *wqe, uint64_t raddr,
			    uint32_t rkey, uint64_t swap_add, uint64_t compare)
{
	struct tern_atomic_seg *seg = (void *)(wqe + 1);

	*seg = (struct tern_atomic_seg) {
		.raddr = htole64(raddr),
		.rkey = htole32(rkey),
		.swap_add = htole64(swap_add),
		.compare = htole64(compare),
	};
}

static void *tern_wqe_data(struct tern_sq_hdr *wqe, const struct tern_op *op)
{
	return (void *)(wqe + 1) + op->seg_size;
}

static void tern_fill_sges(struct tern_sge *sge, const struct ibv_sge *list,
			   size_t num)
{
	size_t i;

	for (i = 0; i < num; i++)
		sge[i] = (struct tern_sge) {
			.addr = htole64(list[i].addr),
			.length = htole32(list[i].length),
			.lkey = htole32(list[i].lkey),
		};
}

static void tern_wqe_sges(struct tern_sq_hdr *wqe, const struct tern_op *op,
			  const struct ibv_sge *list, size_t num)
{
	tern_fill_sges(tern_wqe_data(wqe, op), list, num);
	wqe->num_sge = num;
}

/* The caller knows that all of length bytes fit. */
static void tern_wqe_inline(struct tern_sq_hdr *wqe, size_t length)
{
	wqe->flags |= TERN_WQE_F_INLINE;
	wqe->length = htole32(length);
}

static uint32_t tern_max_sge(const struct tern_qp *qp, const struct tern_op *op)
{
	return op->flags & TERN_OP_SGES ? qp->sq.max_sge : 1;
}

/* Sum of the lengths; a sum past 64 bits would take 2^32 SGEs. */
static uint64_t tern_sges_length(const struct ibv_sge *list, int num)
{
	uint64_t length = 0;
	int i;

	for (i = 0; i < num; i++)
		length += list[i].length;

	return length;
}

/* What ibv_post_send(3) can refuse at once: nothing was written yet. */
static int tern_check_send(struct tern_qp *qp, const struct ibv_send_wr *wr,
			   uint32_t head)
{
	const struct tern_op *op;

	if (unlikely(wr->opcode >= ARRAY_SIZE(tern_ops) ||
		     !(qp->type->ops & BIT(wr->opcode))))
		return EINVAL;

	op = &tern_ops[wr->opcode];
	if (unlikely((uint32_t)wr->num_sge > tern_max_sge(qp, op)))
		return EINVAL;

	if (wr->send_flags & IBV_SEND_INLINE &&
	    unlikely(!(op->flags & TERN_OP_INLINE) ||
		     tern_sges_length(wr->sg_list, wr->num_sge) >
			     qp->max_inline))
		return EINVAL;

	if (unlikely(tern_wq_full(&qp->sq, head)))
		return ENOMEM;

	return 0;
}

static void tern_copy_inline(void *data, const struct ibv_send_wr *wr)
{
	int i;

	for (i = 0; i < wr->num_sge; i++) {
		memcpy(data, (void *)(uintptr_t)wr->sg_list[i].addr,
		       wr->sg_list[i].length);
		data += wr->sg_list[i].length;
	}
}

static void tern_build_send(struct tern_qp *qp, const struct ibv_send_wr *wr,
			    uint32_t index)
{
	const struct tern_op *op = &tern_ops[wr->opcode];
	struct tern_sq_hdr *wqe;

	wqe = tern_wqe_start(qp, index, op, wr->wr_id, wr->send_flags);

	switch (wr->opcode) {
	case IBV_WR_SEND_WITH_IMM:
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		wqe->imm = wr->imm_data;
		break;
	default:
		break;
	}

	switch (op->seg) {
	case TERN_SEG_RDMA:
		tern_wqe_rdma(wqe, wr->wr.rdma.remote_addr, wr->wr.rdma.rkey);
		break;
	case TERN_SEG_ATOMIC:
		if (wr->opcode == IBV_WR_ATOMIC_CMP_AND_SWP)
			tern_wqe_atomic(wqe, wr->wr.atomic.remote_addr,
					wr->wr.atomic.rkey, wr->wr.atomic.swap,
					wr->wr.atomic.compare_add);
		else
			tern_wqe_atomic(wqe, wr->wr.atomic.remote_addr,
					wr->wr.atomic.rkey,
					wr->wr.atomic.compare_add, 0);
		break;
	default:
		break;
	}

	if (wr->send_flags & IBV_SEND_INLINE) {
		tern_copy_inline(tern_wqe_data(wqe, op), wr);
		tern_wqe_inline(wqe,
				tern_sges_length(wr->sg_list, wr->num_sge));
	} else {
		tern_wqe_sges(wqe, op, wr->sg_list, wr->num_sge);
	}
}

/* Below RTS there is nowhere to send to; in SQE and ERR the device flushes. */
static bool tern_sq_closed(const struct tern_qp *qp)
{
	return qp->vqp.qp.state < IBV_QPS_RTS;
}

/* Hands the WQEs up to number head to the device; the kick is still to come. */
static void tern_sq_publish(struct tern_qp *qp, uint32_t head)
{
	qp->sq.head = head;
	/* The WQEs and the data they point at before the index: it may be read at any time. */
	udma_to_device_barrier();
	tern_shared_write(&qp->record->sq_pi, head);
}

/*
 * One kick says all: its value carries no index, so that kicks of threads that
 * pass each other here lose nothing and need no lock.
 */
static void tern_sq_kick(struct tern_qp *qp)
{
	/* The index before the kick that makes the device read it. */
	udma_to_device_barrier();
	tern_ring(to_tern_ctx(qp->vqp.qp.context), TERN_DB_CMD_SQ,
		  qp->vqp.qp.qp_num);
}

/*
 * ibv_post_send(3): EINVAL for a QP below RTS, an opcode its type lacks, too
 * many SGEs or too much inline data; ENOMEM when the queue is full.
 */
int tern_post_send(struct ibv_qp *ibvqp, struct ibv_send_wr *wr,
		   struct ibv_send_wr **bad_wr)
{
	struct tern_qp *qp = to_tern_qp(ibvqp);
	uint32_t first, head;
	int err = 0;

	pthread_spin_lock(&qp->sq.lock);
	first = qp->sq.head;
	head = first;

	if (unlikely(tern_sq_closed(qp))) {
		err = EINVAL;
		*bad_wr = wr;
		goto out;
	}

	for (; wr; wr = wr->next) {
		err = tern_check_send(qp, wr, head);
		if (unlikely(err)) {
			*bad_wr = wr;
			break;
		}
		tern_build_send(qp, wr, head++);
	}

	if (likely(head != first))
		tern_sq_publish(qp, head);
out:
	pthread_spin_unlock(&qp->sq.lock);
	if (likely(head != first))
		tern_sq_kick(qp);

	return err;
}

static void tern_wr_fail(struct tern_qp *qp, int err)
{
	if (!qp->wr_err)
		qp->wr_err = err;
	qp->wr_op = NULL;
}

/* Begins a WQE of the session; NULL once the session has failed. */
static struct tern_sq_hdr *tern_wr_begin(struct ibv_qp_ex *ibvqp,
					 const struct tern_op *op)
{
	struct tern_qp *qp = to_tern_qp_ex(ibvqp);

	if (unlikely(qp->wr_err))
		return NULL;

	if (unlikely(tern_wq_full(&qp->sq, qp->wr_head))) {
		tern_wr_fail(qp, ENOMEM);
		return NULL;
	}

	qp->wr_op = op;
	qp->wr_wqe = tern_wqe_start(qp, qp->wr_head++, op, ibvqp->wr_id,
				    ibvqp->wr_flags);

	return qp->wr_wqe;
}

static void tern_wr_send(struct ibv_qp_ex *ibvqp)
{
	tern_wr_begin(ibvqp, &tern_ops[IBV_WR_SEND]);
}

static void tern_wr_send_imm(struct ibv_qp_ex *ibvqp, __be32 imm_data)
{
	struct tern_sq_hdr *wqe;

	wqe = tern_wr_begin(ibvqp, &tern_ops[IBV_WR_SEND_WITH_IMM]);
	if (likely(wqe))
		wqe->imm = imm_data;
}

static void tern_wr_rdma_write(struct ibv_qp_ex *ibvqp, uint32_t rkey,
			       uint64_t remote_addr)
{
	struct tern_sq_hdr *wqe;

	wqe = tern_wr_begin(ibvqp, &tern_ops[IBV_WR_RDMA_WRITE]);
	if (likely(wqe))
		tern_wqe_rdma(wqe, remote_addr, rkey);
}

static void tern_wr_rdma_write_imm(struct ibv_qp_ex *ibvqp, uint32_t rkey,
				   uint64_t remote_addr, __be32 imm_data)
{
	struct tern_sq_hdr *wqe;

	wqe = tern_wr_begin(ibvqp, &tern_ops[IBV_WR_RDMA_WRITE_WITH_IMM]);
	if (likely(wqe)) {
		wqe->imm = imm_data;
		tern_wqe_rdma(wqe, remote_addr, rkey);
	}
}

static void tern_wr_rdma_read(struct ibv_qp_ex *ibvqp, uint32_t rkey,
			      uint64_t remote_addr)
{
	struct tern_sq_hdr *wqe;

	wqe = tern_wr_begin(ibvqp, &tern_ops[IBV_WR_RDMA_READ]);
	if (likely(wqe))
		tern_wqe_rdma(wqe, remote_addr, rkey);
}

static void tern_wr_atomic_cmp_swp(struct ibv_qp_ex *ibvqp, uint32_t rkey,
				   uint64_t remote_addr, uint64_t compare,
				   uint64_t swap)
{
	struct tern_sq_hdr *wqe;

	wqe = tern_wr_begin(ibvqp, &tern_ops[IBV_WR_ATOMIC_CMP_AND_SWP]);
	if (likely(wqe))
		tern_wqe_atomic(wqe, remote_addr, rkey, swap, compare);
}

static void tern_wr_atomic_fetch_add(struct ibv_qp_ex *ibvqp, uint32_t rkey,
				     uint64_t remote_addr, uint64_t add)
{
	struct tern_sq_hdr *wqe;

	wqe = tern_wr_begin(ibvqp, &tern_ops[IBV_WR_ATOMIC_FETCH_AND_ADD]);
	if (likely(wqe))
		tern_wqe_atomic(wqe, remote_addr, rkey, add, 0);
}

static void tern_wr_set_sge_list(struct ibv_qp_ex *ibvqp, size_t num_sge,
				 const struct ibv_sge *sg_list)
{
	struct tern_qp *qp = to_tern_qp_ex(ibvqp);

	/* Without an opcode, or after an error, there is no WQE to fill. */
	if (unlikely(!qp->wr_op || num_sge > tern_max_sge(qp, qp->wr_op))) {
		tern_wr_fail(qp, EINVAL);
		return;
	}

	tern_wqe_sges(qp->wr_wqe, qp->wr_op, sg_list, num_sge);
}

static void tern_wr_set_sge(struct ibv_qp_ex *ibvqp, uint32_t lkey,
			    uint64_t addr, uint32_t length)
{
	struct ibv_sge sge = { .addr = addr, .length = length, .lkey = lkey };

	tern_wr_set_sge_list(ibvqp, 1, &sge);
}

static void tern_wr_set_inline_data_list(struct ibv_qp_ex *ibvqp,
					 size_t num_buf,
					 const struct ibv_data_buf *buf_list)
{
	struct tern_qp *qp = to_tern_qp_ex(ibvqp);
	size_t length = 0;
	uint8_t *data;
	size_t i;

	if (unlikely(!qp->wr_op || !(qp->wr_op->flags & TERN_OP_INLINE))) {
		tern_wr_fail(qp, EINVAL);
		return;
	}

	data = tern_wqe_data(qp->wr_wqe, qp->wr_op);
	for (i = 0; i < num_buf; i++) {
		if (unlikely(buf_list[i].length > qp->max_inline - length)) {
			tern_wr_fail(qp, EINVAL);
			return;
		}
		memcpy(data + length, buf_list[i].addr, buf_list[i].length);
		length += buf_list[i].length;
	}

	tern_wqe_inline(qp->wr_wqe, length);
}

static void tern_wr_set_inline_data(struct ibv_qp_ex *ibvqp, void *addr,
				    size_t length)
{
	struct ibv_data_buf buf = { .addr = addr, .length = length };

	tern_wr_set_inline_data_list(ibvqp, 1, &buf);
}

/* ibv_wr_start(3): the queue's lock is held until complete or abort. */
static void tern_wr_start(struct ibv_qp_ex *ibvqp)
{
	struct tern_qp *qp = to_tern_qp_ex(ibvqp);

	pthread_spin_lock(&qp->sq.lock);
	qp->wr_head = qp->sq.head;
	qp->wr_op = NULL;
	qp->wr_err = tern_sq_closed(qp) ? EINVAL : 0;
}

/* ibv_wr_complete(3): posts all WQEs of the session, or none and returns the first error. */
static int tern_wr_complete(struct ibv_qp_ex *ibvqp)
{
	struct tern_qp *qp = to_tern_qp_ex(ibvqp);
	int err = qp->wr_err;
	bool kick;

	kick = !err && qp->wr_head != qp->sq.head;
	if (likely(kick))
		tern_sq_publish(qp, qp->wr_head);
	pthread_spin_unlock(&qp->sq.lock);
	if (likely(kick))
		tern_sq_kick(qp);

	return err;
}

static void tern_wr_abort(struct ibv_qp_ex *ibvqp)
{
	pthread_spin_unlock(&to_tern_qp_ex(ibvqp)->sq.lock);
}

/* Sets the functions behind ibv_wr_*() for the IBV_QP_EX_WITH_* in send_ops. */
void tern_qp_fill_wr_pfns(struct tern_qp *qp, uint64_t send_ops)
{
	struct ibv_qp_ex *qpx = &qp->vqp.qp_ex;

	qpx->wr_start = tern_wr_start;
	qpx->wr_complete = tern_wr_complete;
	qpx->wr_abort = tern_wr_abort;
	qpx->wr_set_sge = tern_wr_set_sge;
	qpx->wr_set_sge_list = tern_wr_set_sge_list;
	qpx->wr_set_inline_data = tern_wr_set_inline_data;
	qpx->wr_set_inline_data_list = tern_wr_set_inline_data_list;

	if (send_ops & IBV_QP_EX_WITH_SEND)
		qpx->wr_send = tern_wr_send;
	if (send_ops & IBV_QP_EX_WITH_SEND_WITH_IMM)
		qpx->wr_send_imm = tern_wr_send_imm;
	if (send_ops & IBV_QP_EX_WITH_RDMA_WRITE)
		qpx->wr_rdma_write = tern_wr_rdma_write;
	if (send_ops & IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM)
		qpx->wr_rdma_write_imm = tern_wr_rdma_write_imm;
	if (send_ops & IBV_QP_EX_WITH_RDMA_READ)
		qpx->wr_rdma_read = tern_wr_rdma_read;
	if (send_ops & IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP)
		qpx->wr_atomic_cmp_swp = tern_wr_atomic_cmp_swp;
	if (send_ops & IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD)
		qpx->wr_atomic_fetch_add = tern_wr_atomic_fetch_add;
}

/* Whether the device wants a kick for receives because the QP is in error. */
static bool tern_rq_wants_kick(const struct tern_qp *qp)
{
	/*
	 * The index is out before the status is read: either this thread sees
	 * the status or the device sees the index. udma_barrier.h has nothing
	 * that orders a store before a load.
	 */
	atomic_thread_fence(memory_order_seq_cst);

	return tern_shared_read(&qp->record->status) & TERN_QP_ST_RQ_KICK;
}

static void tern_rq_publish(struct tern_qp *qp, uint32_t head)
{
	qp->rq.head = head;
	/* The WQEs before the index: the device looks when a message comes. */
	udma_to_device_barrier();
	tern_shared_write(&qp->record->rq_pi, head);

	if (unlikely(tern_rq_wants_kick(qp))) {
		/* The index before the kick that makes the device read it. */
		udma_to_device_barrier();
		tern_ring(to_tern_ctx(qp->vqp.qp.context), TERN_DB_CMD_RQ,
			  qp->vqp.qp.qp_num);
	}
}

/*
 * ibv_post_recv(3): EINVAL for a QP in RESET or too many SGEs; ENOMEM when the
 * queue is full.
 */
int tern_post_recv(struct ibv_qp *ibvqp, struct ibv_recv_wr *wr,
		   struct ibv_recv_wr **bad_wr)
{
	struct tern_qp *qp = to_tern_qp(ibvqp);
	struct tern_wq *rq = &qp->rq;
	struct tern_rq_hdr *wqe;
	uint32_t head;
	int err = 0;

	pthread_spin_lock(&rq->lock);
	head = rq->head;

	for (; wr; wr = wr->next) {
		if (unlikely(ibvqp->state == IBV_QPS_RESET ||
			     (uint32_t)wr->num_sge > rq->max_sge))
			err = EINVAL;
		else if (unlikely(tern_wq_full(rq, head)))
			err = ENOMEM;
		if (unlikely(err)) {
			*bad_wr = wr;
			break;
		}

		wqe = tern_wq_slot(rq, head++);
		*wqe = (struct tern_rq_hdr) {
			.num_sge = wr->num_sge,
			.wr_id = htole64(wr->wr_id),
		};
		tern_fill_sges((void *)(wqe + 1), wr->sg_list, wr->num_sge);
	}

	if (likely(head != rq->head))
		tern_rq_publish(qp, head);
	pthread_spin_unlock(&rq->lock);

	return err;
}
