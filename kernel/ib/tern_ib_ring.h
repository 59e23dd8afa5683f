/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Slots of kernel queues: sizes, and receive WQEs. */
#ifndef TERN_IB_RING_H
#define TERN_IB_RING_H

#include <linux/log2.h>
#include <linux/minmax.h>

#include <rdma/ib_verbs.h>

#include "tern_ib_kqueue.h"
#include "tern_util.h"

struct tern_ib_dev;
struct tern_qp;

/* Minimum log2 of entries for CREATE_CQ. */
#define TERN_CQ_LOG_SIZE_MIN	1

/* Not an opcode of the device: the request does not exist in RoCE. */
#define TERN_WR_NONE		0xff

/*
 * Returns the length of the SGEs. Inline, because every receive request executes
 * this and the next function.
 */
static inline u64 tern_fill_sges(struct tern_sge *to, const struct ib_sge *sge,
				 int num_sge)
{
	u64 bytes = 0;
	int i;

	for (i = 0; i < num_sge; i++) {
		to[i] = (struct tern_sge){
			.addr = cpu_to_le64(sge[i].addr),
			.length = cpu_to_le32(sge[i].length),
			.lkey = cpu_to_le32(sge[i].lkey),
		};
		bytes += sge[i].length;
	}

	return bytes;
}

/*
 * Writes a receive WQE, whose completion returns @cookie. The slot must have
 * space for all SGEs of the request.
 */
static inline void tern_recv_wqe_fill(void *slot, const struct ib_recv_wr *wr,
				      u32 cookie, struct tern_posted *posted)
{
	struct tern_rq_hdr *hdr = slot;

	*hdr = (struct tern_rq_hdr){
		.num_sge = wr->num_sge,
		.wr_id = cpu_to_le64(cookie),
	};
	posted->wr_id = wr->wr_id;
	posted->length = tern_fill_sges(slot + sizeof(*hdr), wr->sg_list,
					wr->num_sge);
}

/* Returns the slot of WQE @index. */
static inline void *tern_wq_slot(const struct tern_wq *wq, u32 index)
{
	size_t slot = tern_ring_slot(index, wq->log_size);

	return tern_kpage_at(wq->pages, wq->offset + (slot << wq->log_stride));
}

/* Returns the driver's data of WQE @index. */
static inline struct tern_posted *tern_wq_posted(const struct tern_wq *wq,
						 u32 index)
{
	return &wq->posted[tern_ring_slot(index, wq->log_size)];
}

/* Total size of the slots in bytes. */
static inline u64 tern_wq_bytes(const struct tern_wq *wq)
{
	return BIT_ULL(wq->log_size + wq->log_stride);
}

/*
 * Log2 of the slot size for send WQEs of @bytes. No slot is larger than
 * TERN_SQ_STRIDE_MAX.
 */
static inline u8 tern_send_stride(size_t bytes)
{
	return max_t(u8, order_base_2(bytes), TERN_SQ_STRIDE_MIN);
}

/* Log2 of the size of a queue for @num entries. */
static inline u8 tern_queue_log_size(u32 num, u8 min)
{
	return max_t(u8, order_base_2(num), min);
}

/* tern_ib_kqueue.c */
size_t tern_send_wqe_bytes(enum ib_qp_type type, u32 max_sge, u32 max_inline);
u8 tern_recv_stride(u32 max_sge);

/* tern_ib_post.c */
u8 tern_wr_opcode(enum ib_wr_opcode opcode);
bool tern_wr_allowed(enum ib_qp_type type, u8 opcode);
bool tern_wr_may_inline(u8 opcode);
bool tern_wr_has_data(u8 opcode);
u8 tern_wr_flags(int send_flags, enum ib_sig_type sig_type);
u64 tern_sge_bytes(const struct ib_sge *sge, int num_sge);
void *tern_fill_segment(enum ib_qp_type type, u8 opcode, void *seg,
			const struct ib_send_wr *wr);
void tern_copy_inline(void *to, const struct ib_send_wr *wr);
bool tern_send_wr_ok(const struct tern_qp *qp, const struct ib_send_wr *wr,
		     u8 opcode);

/* tern_ib_poll.c */
enum ib_wc_status tern_wc_status(u8 status);
enum ib_wc_opcode tern_wc_opcode(u8 opcode);
void tern_cqe_to_wc(const struct tern_cqe *cqe, struct ib_wc *wc);
void tern_flush_wc(struct ib_qp *ibqp, enum ib_wc_opcode opcode, u64 wr_id,
		   struct ib_wc *wc);

#endif /* TERN_IB_RING_H */
