/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Queues of the kernel's own: memory the device reads and writes, and what the
 * driver knows of it. Part of tern_ib.h.
 */
#ifndef TERN_IB_KERN_H
#define TERN_IB_KERN_H

#include <linux/list.h>
#include <linux/spinlock.h>
#include <linux/types.h>
#include <linux/workqueue.h>

#include <rdma/ib_verbs.h>

#include "tern_io.h"
#include "tern_admin.h"

struct tern_cq;
struct tern_ib_dev;
struct tern_qp;

/**
 * struct tern_kbuf - a kernel queue's memory, which the device reads and writes
 * @cpu: its address, NULL for none
 * @dma: the device's address of it
 * @size: bytes
 */
struct tern_kbuf {
	void *cpu;
	dma_addr_t dma;
	size_t size;
};

/**
 * struct tern_wq - a send or receive queue of the kernel's
 * @lock: posts, one at a time; innermost
 * @slots: its entries
 * @pi: entries posted; protected by @lock
 * @ci: entries completed; written under the CQ's lock
 * @log_size: log2 of the entries
 * @log_stride: log2 of the bytes of one
 * @cq_entry: among the queues that complete into the CQ
 */
struct tern_wq {
	spinlock_t lock;	/* posts */
	void *slots;
	u32 pi;
	u32 ci;
	u8 log_size;
	u8 log_stride;
	struct list_head cq_entry;
};

/**
 * struct tern_kqp - the queues of a kernel QP
 * @buf: both queues and the record
 * @record: in @buf, NULL for a QP of user space
 * @sq: send queue
 * @rq: receive queue; no slots for a QP with an SRQ
 */
struct tern_kqp {
	struct tern_kbuf buf;
	struct tern_qp_record *record;
	struct tern_wq sq;
	struct tern_wq rq;
};

/**
 * struct tern_kcq - the queue of a kernel CQ
 * @buf: entries and record
 * @cqes: the entries, NULL for a CQ of user space
 * @record: in @buf
 * @lock: everything below but @arm_seq; around &struct tern_wq.lock
 * @sqs: send queues that complete here
 * @rqs: receive queues that complete here
 * @ci: entries polled
 * @arm_seq: events taken; written by the event queue's handler alone
 * @log_size: log2 of the entries
 * @armed: the owner waits for a call of its completion handler; no lock
 * @lost: no entry comes any more, the driver flushes what is posted
 * @drained: lost, and what had come is polled
 */
struct tern_kcq {
	struct tern_kbuf buf;
	struct tern_cqe *cqes;
	struct tern_cq_record *record;
	spinlock_t lock;	/* polls and arms */
	struct list_head sqs;
	struct list_head rqs;
	u32 ci;
	u32 arm_seq;
	u8 log_size;
	bool armed;
	bool lost;
	bool drained;
};

/* tern_ib_mem.c */
int tern_kbuf_alloc(struct tern_ib_dev *dev, struct tern_kbuf *kbuf,
		    size_t size, struct tern_pages *pages);
void tern_kbuf_free(struct tern_ib_dev *dev, struct tern_kbuf *kbuf);
void tern_kbuf_done(struct tern_ib_dev *dev, struct tern_kbuf *kbuf, int err);

/* tern_ib_kern.c */
int tern_kcq_init(struct tern_ib_dev *dev, struct tern_kcq *kcq, int cqe,
		  struct tern_cmd_create_cq *cmd);
int tern_kqp_init(struct tern_ib_dev *dev, struct tern_kqp *kqp,
		  struct ib_qp_init_attr *attr, struct tern_cmd_create_qp *cmd);
void tern_kqp_attach(struct tern_qp *qp);
void tern_kqp_detach(struct tern_qp *qp);
void tern_kqp_reset(struct tern_qp *qp);

/* tern_ib_poll.c */
int tern_poll_cq(struct ib_cq *ibcq, int num, struct ib_wc *wc);
int tern_req_notify_cq(struct ib_cq *ibcq, enum ib_cq_notify_flags flags);
void tern_kcq_event_taken(struct tern_kcq *kcq);
void tern_kcq_forget(struct tern_kcq *kcq, u32 qpn);
void tern_kcq_lose(struct tern_cq *cq);
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

/* Queues of user space lie in its own memory. */
static inline bool tern_kcq_used(const struct tern_kcq *kcq)
{
	return kcq->cqes;
}

static inline bool tern_kqp_used(const struct tern_kqp *kqp)
{
	return kqp->record;
}

#endif /* TERN_IB_KERN_H */
