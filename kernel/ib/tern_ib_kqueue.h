/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Kernel queues: their state in the driver. Part of tern_ib.h. */
#ifndef TERN_IB_KQUEUE_H
#define TERN_IB_KQUEUE_H

#include <linux/spinlock.h>
#include <linux/types.h>
#include <linux/workqueue.h>
#include <linux/xarray.h>

#include <rdma/ib_verbs.h>

#include "tern_io.h"
#include "tern_verbs.h"
#include "tern_ib_kbuf.h"

struct tern_cq;
struct tern_ib_dev;
struct tern_qp;

/**
 * struct tern_posted - the driver's data of a posted request
 * @wr_id: the owner's data, often a pointer: the device never gets it
 * @length: receive request: its memory in bytes
 *
 * A completion only refers to a request; the device is not trusted to know what
 * was posted.
 */
struct tern_posted {
	u64 wr_id;
	u64 length;
#ifndef TERN_WITHOUT_KSRQ
	/** @index: SRQ: index of the WQE */
	u32 index;
	/** @next: SRQ: next entry without a request; TERN_POSTED if there is a request */
	u32 next;
#endif
};

#ifndef TERN_WITHOUT_KSRQ
/* Larger than the number of entries of any SRQ. */
#define TERN_POSTED		U32_MAX

#endif
/**
 * struct tern_wq - send or receive queue of a kernel QP
 * @lock: serializes posts; innermost lock
 * @pages: pages with the ring of WQEs, NULL if there is no ring
 * @offset: offset of the ring in @pages in bytes, a multiple of the entry size
 * @posted: the request of each slot
 * @pi: number of entries posted; written under @lock
 * @ci: number of entries that may be posted again; written under the CQ's lock
 * @polled: number of entries completed; protected by the CQ's lock
 * @log_size: log2 of the number of entries
 * @log_stride: log2 of the entry size in bytes
 */
struct tern_wq {
	spinlock_t lock;	/* serializes posts */
	const struct tern_kpage *pages;
	u32 offset;
	struct tern_posted *posted;
	u32 pi;
	u32 ci;
	u32 polled;
	u8 log_size;
	u8 log_stride;
};

/**
 * struct tern_kqp - queues of a kernel QP
 * @buf: memory of both queues and the record
 * @record: doorbell record in @buf, NULL for a user QP
 * @sq: send queue
 * @rq: receive queue, without a ring if the QP has an SRQ
 */
struct tern_kqp {
	struct tern_kbuf buf;
	struct tern_qp_record *record;
	struct tern_wq sq;
	struct tern_wq rq;
};

/**
 * struct tern_kcq - ring of a kernel CQ
 * @buf: memory of ring and record
 * @record: doorbell record in @buf, NULL for a user CQ
 * @lock: protects everything below but @arm_seq; outer to &struct tern_wq.lock
 * @qps: QPs that use this CQ, by number; entries are removed under @lock
 * @ci: number of entries polled
 * @bad: number of entries that completed no posted request, or more bytes than
 *	it has
 * @arm_seq: number of events received; written only by the event queue's
 *	handler
 * @log_size: log2 of the number of entries
 * @armed: the owner waits for its completion handler; not protected by @lock
 * @lost: the device writes no more entries, so the driver flushes posted work
 * @drained: @lost is set and all entries of the device were polled
 */
struct tern_kcq {
	struct tern_kbuf buf;
	struct tern_cq_record *record;
	spinlock_t lock;	/* polling and arming */
	struct xarray qps;
	u32 ci;
	u32 bad;
	u32 arm_seq;
	u8 log_size;
	bool armed;
	bool lost;
	bool drained;
};

/* tern_ib_kqueue.c */
int tern_kcq_init(struct tern_ib_dev *dev, struct tern_kcq *kcq, int cqe,
		  struct tern_cmd_create_cq *cmd);
int tern_kqp_init(struct tern_ib_dev *dev, struct tern_kqp *kqp,
		  struct ib_qp_init_attr *attr, struct tern_cmd_create_qp *cmd);
int tern_kqp_attach(struct tern_qp *qp);
void tern_kqp_detach(struct tern_qp *qp);
void tern_kqp_reset(struct tern_qp *qp);

/* tern_ib_poll.c */
int tern_poll_cq(struct ib_cq *ibcq, int num, struct ib_wc *wc);
int tern_req_notify_cq(struct ib_cq *ibcq, enum ib_cq_notify_flags flags);
void tern_kcq_event_taken(struct tern_kcq *kcq);
void tern_kcq_forget(struct tern_kcq *kcq, struct tern_qp *qp);
void tern_kcq_mark_lost(struct tern_cq *cq);
void tern_flush_work(struct work_struct *work);

/* tern_ib_post.c */
int tern_post_recv(struct ib_qp *ibqp, const struct ib_recv_wr *wr,
		   const struct ib_recv_wr **bad_wr);
int tern_post_send(struct ib_qp *ibqp, const struct ib_send_wr *wr,
		   const struct ib_send_wr **bad_wr);

/* tern_ib_frwr.c */
struct ib_mr *tern_alloc_mr(struct ib_pd *ibpd, enum ib_mr_type type,
			    u32 max_num_sg);
int tern_map_mr_sg(struct ib_mr *ibmr, struct scatterlist *sg, int sg_nents,
		   unsigned int *sg_offset);

/* Only kernel queues have memory of the driver. */
static inline bool tern_kcq_used(const struct tern_kcq *kcq)
{
	return kcq->record;
}

static inline bool tern_kqp_used(const struct tern_kqp *kqp)
{
	return kqp->record;
}

#endif /* TERN_IB_KQUEUE_H */
