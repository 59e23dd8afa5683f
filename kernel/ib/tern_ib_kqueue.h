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

/*
 * The driver's data of a posted request. A completion only refers to a request; the device is
 * not trusted to know what was posted.
 */
struct tern_posted {
	u64 wr_id;	/* the owner's data, often a pointer: the device never gets it */
	u64 length;	/* receive request: its memory in bytes */
#ifndef TERN_WITHOUT_KSRQ
	u32 index;	/* SRQ: index of the WQE */
	u32 next;	/* SRQ: next entry without a request; TERN_POSTED if there is a request */
#endif
};

#ifndef TERN_WITHOUT_KSRQ
/* Larger than the number of entries of any SRQ. */
#define TERN_POSTED		U32_MAX

#endif
/* Send or receive queue of a kernel QP. */
struct tern_wq {
	/* serializes posts; innermost lock */
	spinlock_t lock;	/* serializes posts */
	const struct tern_kpage *pages;	/* pages with the ring of WQEs, NULL if there is no ring */
	u32 offset;	/* offset of the ring in @pages in bytes, a multiple of the entry size */
	struct tern_posted *posted;	/* the request of each slot */
	u32 pi;	/* number of entries posted; written under @lock */
	u32 ci;	/* number of entries that may be posted again; written under the CQ's lock */
	u32 polled;	/* number of entries completed; protected by the CQ's lock */
	u8 log_size;	/* log2 of the number of entries */
	u8 log_stride;	/* log2 of the entry size in bytes */
};

/* Queues of a kernel QP. */
struct tern_kqp {
	struct tern_kbuf buf;	/* memory of both queues and the record */
	struct tern_qp_record *record;	/* doorbell record in @buf, NULL for a user QP */
	struct tern_wq sq;	/* send queue */
	struct tern_wq rq;	/* receive queue, without a ring if the QP has an SRQ */
};

/* Ring of a kernel CQ. */
struct tern_kcq {
	struct tern_kbuf buf;	/* memory of ring and record */
	struct tern_cq_record *record;	/* doorbell record in @buf, NULL for a user CQ */
	/* protects everything below but @arm_seq; outer to tern_wq.lock */
	spinlock_t lock;	/* polling and arming */
	/* QPs that use this CQ, by number; entries are removed under @lock. */
	struct xarray qps;
	u32 ci;	/* number of entries polled */
	/* Number of entries that completed no posted request, or more bytes than it has. */
	u32 bad;
	u32 arm_seq;	/* number of events received; written only by the event queue's handler */
	u8 log_size;	/* log2 of the number of entries */
	bool armed;	/* the owner waits for its completion handler; not protected by @lock */
	bool lost;	/* the device writes no more entries, so the driver flushes posted work */
	bool drained;	/* @lost is set and all entries of the device were polled */
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
extern const struct ib_device_ops tern_frwr_ops;

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
