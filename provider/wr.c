// SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause)
/* Posting through function calls: ibv_wr_*(). */

#include <string.h>

#include "wqe.h"

TERN_SAME(TERN_FLUSH_GLOBAL, IBV_FLUSH_GLOBAL);
TERN_SAME(TERN_FLUSH_PERSISTENT, IBV_FLUSH_PERSISTENT);
TERN_SAME(TERN_FLUSH_LEVEL_RANGE, IBV_FLUSH_RANGE);
TERN_SAME(TERN_FLUSH_LEVEL_MR, IBV_FLUSH_MR);

static void tern_wr_fail(struct tern_qp *qp, int err)
{
	if (!qp->wr_err)
		qp->wr_err = err;
	qp->wr_op = NULL;
}

/* Whether the previous WQE still needs its UD address or XRC SRQ number. */
static bool tern_wr_lacks_address(const struct tern_qp *qp)
{
	return qp->wr_op && qp->wr_no_address;
}

/*
 * Starts a WQE of the session. Returns NULL once the session has failed.
 * addressed tells whether WQEs of the QP contain an address, and is constant
 * wherever this is inlined.
 */
static inline struct tern_sq_hdr *tern_wr_begin(struct ibv_qp_ex *ibvqp,
						const struct tern_op *op,
						bool addressed)
{
	struct tern_qp *qp = to_tern_qp_ex(ibvqp);
	int err;

	if (unlikely(qp->wr_err))
		return NULL;

	err = tern_check_flags(qp, ibvqp->wr_flags);
	if (unlikely(err)) {
		tern_wr_fail(qp, err);
		return NULL;
	}

	if (addressed && unlikely(tern_wr_lacks_address(qp))) {
		tern_wr_fail(qp, EINVAL);
		return NULL;
	}

	if (unlikely(tern_sq_full(qp, qp->wr_head))) {
		tern_wr_fail(qp, ENOMEM);
		return NULL;
	}

	qp->wr_op = op;
	qp->wr_wqe = tern_wqe_start(qp, qp->wr_head++, op, ibvqp->wr_id,
				    ibvqp->wr_flags);
	qp->wr_data = (void *)(qp->wr_wqe + 1) + op->seg_size;
	if (addressed) {
		qp->wr_no_address = !(op->flags & TERN_OP_LOCAL);
		qp->wr_data += qp->type->prefix_size;
	}

	return qp->wr_wqe;
}

static inline void tern_wr_send(struct ibv_qp_ex *ibvqp, bool addressed)
{
	tern_wr_begin(ibvqp, &tern_ops[IBV_WR_SEND], addressed);
}

static inline void tern_wr_send_imm(struct ibv_qp_ex *ibvqp, __be32 imm_data,
				    bool addressed)
{
	struct tern_sq_hdr *wqe;

	wqe = tern_wr_begin(ibvqp, &tern_ops[IBV_WR_SEND_WITH_IMM], addressed);
	if (likely(wqe))
		wqe->imm = imm_data;
}

static inline void tern_wr_send_inv(struct ibv_qp_ex *ibvqp,
				    uint32_t invalidate_rkey, bool addressed)
{
	struct tern_sq_hdr *wqe;

	wqe = tern_wr_begin(ibvqp, &tern_ops[IBV_WR_SEND_WITH_INV], addressed);
	if (likely(wqe))
		wqe->inv_rkey = htole32(invalidate_rkey);
}

static inline void tern_wr_rdma_write(struct ibv_qp_ex *ibvqp, uint32_t rkey,
				      uint64_t remote_addr, bool addressed)
{
	struct tern_sq_hdr *wqe;

	wqe = tern_wr_begin(ibvqp, &tern_ops[IBV_WR_RDMA_WRITE], addressed);
	if (likely(wqe))
		tern_wqe_rdma(wqe, remote_addr, rkey);
}

static inline void tern_wr_rdma_write_imm(struct ibv_qp_ex *ibvqp,
					  uint32_t rkey, uint64_t remote_addr,
					  __be32 imm_data, bool addressed)
{
	struct tern_sq_hdr *wqe;

	wqe = tern_wr_begin(ibvqp, &tern_ops[IBV_WR_RDMA_WRITE_WITH_IMM],
			    addressed);
	if (likely(wqe)) {
		wqe->imm = imm_data;
		tern_wqe_rdma(wqe, remote_addr, rkey);
	}
}

static inline void tern_wr_rdma_read(struct ibv_qp_ex *ibvqp, uint32_t rkey,
				     uint64_t remote_addr, bool addressed)
{
	struct tern_sq_hdr *wqe;

	wqe = tern_wr_begin(ibvqp, &tern_ops[IBV_WR_RDMA_READ], addressed);
	if (likely(wqe))
		tern_wqe_rdma(wqe, remote_addr, rkey);
}

static inline void tern_wr_atomic_cmp_swp(struct ibv_qp_ex *ibvqp,
					  uint32_t rkey, uint64_t remote_addr,
					  uint64_t compare, uint64_t swap,
					  bool addressed)
{
	struct tern_sq_hdr *wqe;

	wqe = tern_wr_begin(ibvqp, &tern_ops[IBV_WR_ATOMIC_CMP_AND_SWP],
			    addressed);
	if (likely(wqe))
		tern_wqe_atomic(wqe, remote_addr, rkey, swap, compare);
}

static inline void tern_wr_atomic_fetch_add(struct ibv_qp_ex *ibvqp,
					    uint32_t rkey, uint64_t remote_addr,
					    uint64_t add, bool addressed)
{
	struct tern_sq_hdr *wqe;

	wqe = tern_wr_begin(ibvqp, &tern_ops[IBV_WR_ATOMIC_FETCH_AND_ADD],
			    addressed);
	if (likely(wqe))
		tern_wqe_atomic(wqe, remote_addr, rkey, add, 0);
}

/* The caller's 8 bytes need not be aligned. */
static inline void tern_wr_atomic_write(struct ibv_qp_ex *ibvqp, uint32_t rkey,
					uint64_t remote_addr,
					const void *atomic_wr, bool addressed)
{
	const struct tern_op *op = &tern_ops[IBV_WR_ATOMIC_WRITE];
	struct tern_sq_hdr *wqe;

	wqe = tern_wr_begin(ibvqp, op, addressed);
	if (unlikely(!wqe))
		return;

	tern_wqe_rdma(wqe, remote_addr, rkey);
	memcpy(to_tern_qp_ex(ibvqp)->wr_data, atomic_wr, 8);
	tern_wqe_inline(wqe, 8);
}

/* Returns 0, or EINVAL for an invalid placement type or selectivity. */
static int tern_check_flush(uint8_t type, uint8_t level)
{
	if (unlikely(!type ||
		     (type & ~(IBV_FLUSH_GLOBAL | IBV_FLUSH_PERSISTENT)) ||
		     level > IBV_FLUSH_MR))
		return EINVAL;

	return 0;
}

static void tern_wqe_flush(struct tern_sq_hdr *wqe, uint64_t raddr,
			   uint32_t rkey, uint64_t length, uint8_t type,
			   uint8_t level)
{
	struct tern_flush_seg *seg = (void *)(wqe + 1);

	*seg = (struct tern_flush_seg) {
		.raddr = htole64(raddr),
		.rkey = htole32(rkey),
		.type = type,
		.level = level,
		.length = htole64(length),
	};
}

/*
 * ibv_wr_post(3) lists data setters for FLUSH, which has no data: an SGE may be
 * set, but the device ignores it.
 */
static inline void tern_wr_flush(struct ibv_qp_ex *ibvqp, uint32_t rkey,
				 uint64_t remote_addr, size_t len, uint8_t type,
				 uint8_t level, bool addressed)
{
	struct tern_sq_hdr *wqe;
	int err;

	wqe = tern_wr_begin(ibvqp, &tern_ops[IBV_WR_FLUSH], addressed);
	if (unlikely(!wqe))
		return;

	err = tern_check_flush(type, level);
	if (unlikely(err)) {
		tern_wr_fail(to_tern_qp_ex(ibvqp), err);
		return;
	}

	tern_wqe_flush(wqe, remote_addr, rkey, len, type, level);
}

/* ibv_wr_post(3): type 2 windows. */
static inline void tern_wr_bind_mw(struct ibv_qp_ex *ibvqp, struct ibv_mw *mw,
				   uint32_t rkey,
				   const struct ibv_mw_bind_info *info,
				   bool addressed)
{
	struct tern_sq_hdr *wqe;
	int err;

	wqe = tern_wr_begin(ibvqp, &tern_ops[IBV_WR_BIND_MW], addressed);
	if (unlikely(!wqe))
		return;

	err = tern_check_bind(mw, IBV_MW_TYPE_2, info);
	if (unlikely(err)) {
		tern_wr_fail(to_tern_qp_ex(ibvqp), err);
		return;
	}

	tern_wqe_bind(wqe, mw, mw->rkey, rkey, info);
}

static inline void tern_wr_local_inv(struct ibv_qp_ex *ibvqp,
				     uint32_t invalidate_rkey, bool addressed)
{
	struct tern_sq_hdr *wqe;

	wqe = tern_wr_begin(ibvqp, &tern_ops[IBV_WR_LOCAL_INV], addressed);
	if (likely(wqe))
		wqe->inv_rkey = htole32(invalidate_rkey);
}

/* Frames: sent unchanged, or segmented. */
static void tern_wr_send_raw(struct ibv_qp_ex *ibvqp)
{
	struct tern_qp *qp = to_tern_qp_ex(ibvqp);
	struct tern_sq_hdr *wqe;

	wqe = tern_wr_begin(ibvqp, &tern_ops[IBV_WR_SEND], false);
	if (unlikely(!wqe))
		return;

	tern_wqe_eth(wqe, ibvqp->wr_flags);
	qp->wr_data += sizeof(struct tern_eth_offload);
}

static void tern_wr_send_tso(struct ibv_qp_ex *ibvqp, void *hdr,
			     uint16_t hdr_sz, uint16_t mss)
{
	struct tern_qp *qp = to_tern_qp_ex(ibvqp);
	struct tern_sq_hdr *wqe;
	int err;

	wqe = tern_wr_begin(ibvqp, &tern_ops[IBV_WR_TSO], false);
	if (unlikely(!wqe))
		return;

	err = tern_wqe_tso(qp, wqe, hdr, hdr_sz, mss);
	if (unlikely(err)) {
		tern_wr_fail(qp, err);
		return;
	}

	qp->wr_data += sizeof(struct tern_eth_offload) + tern_tso_size(hdr_sz);
}

/*
 * Each builder has two variants: for QPs whose WQEs contain an address, UD and
 * XRC_SEND, and for connected QPs, which need no check for it.
 */
#define TERN_WR_BUILDER(name, params, ...)                                     \
	static void tern_wr_##name##_addressed params                          \
	{                                                                      \
		tern_wr_##name(__VA_ARGS__, true);                             \
	}                                                                      \
	static void tern_wr_##name##_connected params                          \
	{                                                                      \
		tern_wr_##name(__VA_ARGS__, false);                            \
	}

TERN_WR_BUILDER(send, (struct ibv_qp_ex *ibvqp), ibvqp)
TERN_WR_BUILDER(send_imm, (struct ibv_qp_ex *ibvqp, __be32 imm_data), ibvqp,
		imm_data)
TERN_WR_BUILDER(send_inv, (struct ibv_qp_ex *ibvqp, uint32_t invalidate_rkey),
		ibvqp, invalidate_rkey)
TERN_WR_BUILDER(rdma_write, (struct ibv_qp_ex *ibvqp, uint32_t rkey,
		uint64_t remote_addr), ibvqp, rkey, remote_addr)
TERN_WR_BUILDER(rdma_write_imm, (struct ibv_qp_ex *ibvqp, uint32_t rkey,
		uint64_t remote_addr, __be32 imm_data), ibvqp, rkey,
		remote_addr, imm_data)
TERN_WR_BUILDER(rdma_read, (struct ibv_qp_ex *ibvqp, uint32_t rkey,
		uint64_t remote_addr), ibvqp, rkey, remote_addr)
TERN_WR_BUILDER(atomic_cmp_swp, (struct ibv_qp_ex *ibvqp, uint32_t rkey,
		uint64_t remote_addr, uint64_t compare, uint64_t swap), ibvqp,
		rkey, remote_addr, compare, swap)
TERN_WR_BUILDER(atomic_fetch_add, (struct ibv_qp_ex *ibvqp, uint32_t rkey,
		uint64_t remote_addr, uint64_t add), ibvqp, rkey, remote_addr,
		add)
TERN_WR_BUILDER(atomic_write, (struct ibv_qp_ex *ibvqp, uint32_t rkey,
		uint64_t remote_addr, const void *atomic_wr), ibvqp, rkey,
		remote_addr, atomic_wr)
TERN_WR_BUILDER(flush, (struct ibv_qp_ex *ibvqp, uint32_t rkey,
		uint64_t remote_addr, size_t len, uint8_t type, uint8_t level),
		ibvqp, rkey, remote_addr, len, type, level)
TERN_WR_BUILDER(bind_mw, (struct ibv_qp_ex *ibvqp, struct ibv_mw *mw,
		uint32_t rkey, const struct ibv_mw_bind_info *info), ibvqp, mw,
		rkey, info)
TERN_WR_BUILDER(local_inv, (struct ibv_qp_ex *ibvqp, uint32_t invalidate_rkey),
		ibvqp, invalidate_rkey)

static void tern_wr_set_ud_addr(struct ibv_qp_ex *ibvqp, struct ibv_ah *ah,
				uint32_t remote_qpn, uint32_t remote_qkey)
{
	struct tern_qp *qp = to_tern_qp_ex(ibvqp);

	if (unlikely(!qp->wr_op || !ah)) {
		tern_wr_fail(qp, EINVAL);
		return;
	}

	tern_wqe_ud(qp->wr_wqe, ah, remote_qpn, remote_qkey);
	qp->wr_no_address = false;
}

static void tern_wr_set_xrc_srqn(struct ibv_qp_ex *ibvqp, uint32_t remote_srqn)
{
	struct tern_qp *qp = to_tern_qp_ex(ibvqp);

	if (unlikely(!qp->wr_op || (qp->wr_op->flags & TERN_OP_LOCAL))) {
		tern_wr_fail(qp, EINVAL);
		return;
	}

	qp->wr_wqe->xrc_srqn = htole32(remote_srqn);
	qp->wr_no_address = false;
}

static void tern_wr_set_sge_list(struct ibv_qp_ex *ibvqp, size_t num_sge,
				 const struct ibv_sge *sg_list)
{
	struct tern_qp *qp = to_tern_qp_ex(ibvqp);

	/* Without an opcode, or after an error, there is no WQE to fill in. */
	if (unlikely(!qp->wr_op || num_sge > tern_max_sge(qp, qp->wr_op))) {
		tern_wr_fail(qp, EINVAL);
		return;
	}

	tern_fill_sges(qp->wr_data, sg_list, num_sge);
	qp->wr_wqe->num_sge = num_sge;
}

static void tern_wr_set_sge(struct ibv_qp_ex *ibvqp, uint32_t lkey,
			    uint64_t addr, uint32_t length)
{
	struct ibv_sge sge = { .addr = addr, .length = length, .lkey = lkey };
	struct tern_qp *qp = to_tern_qp_ex(ibvqp);

	/* Every WQE has space for one SGE, but some opcodes take none. */
	if (unlikely(!qp->wr_op ||
		     (qp->wr_op->flags & (TERN_OP_LOCAL | TERN_OP_VALUE)))) {
		tern_wr_fail(qp, EINVAL);
		return;
	}

	tern_fill_sges(qp->wr_data, &sge, 1);
	qp->wr_wqe->num_sge = 1;
}

/* The headers of a large frame may leave no space for an SGE. */
static void tern_wr_set_raw_sge(struct ibv_qp_ex *ibvqp, uint32_t lkey,
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

	data = qp->wr_data;
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

/*
 * ibv_wr_start(3): holds the queue's lock until complete or abort. locked is
 * false in a thread domain, and constant wherever this is inlined.
 */
static inline void tern_wr_start(struct ibv_qp_ex *ibvqp, bool locked)
{
	struct tern_qp *qp = to_tern_qp_ex(ibvqp);

	if (locked)
		pthread_spin_lock(&qp->sq.lock.lock);
	qp->wr_head = qp->sq.head;
	qp->wr_op = NULL;
	qp->wr_err = tern_sq_closed(qp) ? EINVAL : 0;
}

/* ibv_wr_complete(3): posts the whole session, or returns its first error. */
static inline int tern_wr_complete(struct ibv_qp_ex *ibvqp, bool locked)
{
	struct tern_qp *qp = to_tern_qp_ex(ibvqp);
	int err;

	if (unlikely(tern_wr_lacks_address(qp)))
		tern_wr_fail(qp, EINVAL);

	err = qp->wr_err;
	if (likely(!err && qp->wr_head != qp->sq.head))
		tern_sq_publish(qp, qp->wr_head);
	if (locked)
		pthread_spin_unlock(&qp->sq.lock.lock);

	return err;
}

static void tern_wr_start_locked(struct ibv_qp_ex *ibvqp)
{
	tern_wr_start(ibvqp, true);
}

static int tern_wr_complete_locked(struct ibv_qp_ex *ibvqp)
{
	return tern_wr_complete(ibvqp, true);
}

static void tern_wr_abort_locked(struct ibv_qp_ex *ibvqp)
{
	pthread_spin_unlock(&to_tern_qp_ex(ibvqp)->sq.lock.lock);
}

static void tern_wr_start_unlocked(struct ibv_qp_ex *ibvqp)
{
	tern_wr_start(ibvqp, false);
}

static int tern_wr_complete_unlocked(struct ibv_qp_ex *ibvqp)
{
	return tern_wr_complete(ibvqp, false);
}

/* Nothing was published. */
static void tern_wr_abort_unlocked(struct ibv_qp_ex *ibvqp)
{
}

/* Sets the builders of connected QPs that send_ops asks for. */
static void tern_set_connected_wrs(struct ibv_qp_ex *qpx, uint64_t send_ops)
{
	if (send_ops & IBV_QP_EX_WITH_SEND)
		qpx->wr_send = tern_wr_send_connected;
	if (send_ops & IBV_QP_EX_WITH_SEND_WITH_IMM)
		qpx->wr_send_imm = tern_wr_send_imm_connected;
	if (send_ops & IBV_QP_EX_WITH_SEND_WITH_INV)
		qpx->wr_send_inv = tern_wr_send_inv_connected;
	if (send_ops & IBV_QP_EX_WITH_RDMA_WRITE)
		qpx->wr_rdma_write = tern_wr_rdma_write_connected;
	if (send_ops & IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM)
		qpx->wr_rdma_write_imm = tern_wr_rdma_write_imm_connected;
	if (send_ops & IBV_QP_EX_WITH_RDMA_READ)
		qpx->wr_rdma_read = tern_wr_rdma_read_connected;
	if (send_ops & IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP)
		qpx->wr_atomic_cmp_swp = tern_wr_atomic_cmp_swp_connected;
	if (send_ops & IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD)
		qpx->wr_atomic_fetch_add = tern_wr_atomic_fetch_add_connected;
	if (send_ops & IBV_QP_EX_WITH_ATOMIC_WRITE)
		qpx->wr_atomic_write = tern_wr_atomic_write_connected;
	if (send_ops & IBV_QP_EX_WITH_FLUSH)
		qpx->wr_flush = tern_wr_flush_connected;
	if (send_ops & IBV_QP_EX_WITH_BIND_MW)
		qpx->wr_bind_mw = tern_wr_bind_mw_connected;
	if (send_ops & IBV_QP_EX_WITH_LOCAL_INV)
		qpx->wr_local_inv = tern_wr_local_inv_connected;
}

/* Sets the builders of QPs whose WQEs contain an address that send_ops asks for. */
static void tern_set_addressed_wrs(struct ibv_qp_ex *qpx, uint64_t send_ops)
{
	if (send_ops & IBV_QP_EX_WITH_SEND)
		qpx->wr_send = tern_wr_send_addressed;
	if (send_ops & IBV_QP_EX_WITH_SEND_WITH_IMM)
		qpx->wr_send_imm = tern_wr_send_imm_addressed;
	if (send_ops & IBV_QP_EX_WITH_SEND_WITH_INV)
		qpx->wr_send_inv = tern_wr_send_inv_addressed;
	if (send_ops & IBV_QP_EX_WITH_RDMA_WRITE)
		qpx->wr_rdma_write = tern_wr_rdma_write_addressed;
	if (send_ops & IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM)
		qpx->wr_rdma_write_imm = tern_wr_rdma_write_imm_addressed;
	if (send_ops & IBV_QP_EX_WITH_RDMA_READ)
		qpx->wr_rdma_read = tern_wr_rdma_read_addressed;
	if (send_ops & IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP)
		qpx->wr_atomic_cmp_swp = tern_wr_atomic_cmp_swp_addressed;
	if (send_ops & IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD)
		qpx->wr_atomic_fetch_add = tern_wr_atomic_fetch_add_addressed;
	if (send_ops & IBV_QP_EX_WITH_ATOMIC_WRITE)
		qpx->wr_atomic_write = tern_wr_atomic_write_addressed;
	if (send_ops & IBV_QP_EX_WITH_FLUSH)
		qpx->wr_flush = tern_wr_flush_addressed;
	if (send_ops & IBV_QP_EX_WITH_BIND_MW)
		qpx->wr_bind_mw = tern_wr_bind_mw_addressed;
	if (send_ops & IBV_QP_EX_WITH_LOCAL_INV)
		qpx->wr_local_inv = tern_wr_local_inv_addressed;
}

/* Sets the functions of ibv_wr_*() for the IBV_QP_EX_WITH_* in send_ops. */
void tern_qp_fill_wr_pfns(struct tern_qp *qp, uint64_t send_ops)
{
	struct ibv_qp_ex *qpx = &qp->vqp.qp_ex;

	if (qp->sq.lock.need_lock) {
		qpx->wr_start = tern_wr_start_locked;
		qpx->wr_complete = tern_wr_complete_locked;
		qpx->wr_abort = tern_wr_abort_locked;
	} else {
		qpx->wr_start = tern_wr_start_unlocked;
		qpx->wr_complete = tern_wr_complete_unlocked;
		qpx->wr_abort = tern_wr_abort_unlocked;
	}
	qpx->wr_set_sge = tern_wr_set_sge;
	qpx->wr_set_sge_list = tern_wr_set_sge_list;
	qpx->wr_set_inline_data = tern_wr_set_inline_data;
	qpx->wr_set_inline_data_list = tern_wr_set_inline_data_list;

	if (qp->type->ud)
		qpx->wr_set_ud_addr = tern_wr_set_ud_addr;
	if (qp->type->xrc)
		qpx->wr_set_xrc_srqn = tern_wr_set_xrc_srqn;

	if (qp->type->raw) {
		qpx->wr_set_sge = tern_wr_set_raw_sge;
		if (send_ops & IBV_QP_EX_WITH_SEND)
			qpx->wr_send = tern_wr_send_raw;
		if (send_ops & IBV_QP_EX_WITH_TSO)
			qpx->wr_send_tso = tern_wr_send_tso;
	} else if (qp->type->ud || qp->type->xrc) {
		tern_set_addressed_wrs(qpx, send_ops);
	} else {
		tern_set_connected_wrs(qpx, send_ops);
	}
}
