// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Kernel queues of every maximum that an RDMA device advertises, created and
 * used while memory is fragmented. Independent of the driver: two RC QPs of one
 * device talk to each other. Prints the results when it is loaded.
 */

#include <linux/delay.h>
#include <linux/dma-mapping.h>
#include <linux/gfp.h>
#include <linux/module.h>
#include <linux/slab.h>

#include <rdma/ib_verbs.h>

#include "tern_kverbs.h"

/* No block of this order is free while memory is fragmented. */
#define KQ_ORDER	3
/* Messages under way at a time. */
#define KQ_BATCH	64
/* Receive requests posted by one call. */
#define KQ_CHAIN	1024
#define KQ_WAIT		(20 * HZ)
/* Upper bound of max_inline_data of any device. */
#define KQ_INLINE	4096

/* What ib_srpt asks for by default, if the device has as much. */
#define KQ_SRPT_SQ	4096
#define KQ_SRPT_RQ	4096

/**
 * struct kq - the test
 * @dev: the device
 * @gid: its address
 * @pd: PD of all objects
 * @held: pages that keep memory fragmented
 * @bytes: size of a message, a multiple of 4
 * @buf: messages of a batch to send, then as many to receive
 * @dma: DMA address of @buf
 * @sges: SGEs of a batch, first to send, then to receive, @max_sge of each
 * @max_sge: maximum number of SGEs of a request
 * @sends: send requests of a batch
 * @recvs: receive requests of a batch or a chain
 */
struct kq {
	struct ib_device *dev;
	const struct ib_gid_attr *gid;
	struct ib_pd *pd;
	struct list_head held;
	u32 bytes;
	u8 *buf;
	dma_addr_t dma;
	struct ib_sge *sges;
	u32 max_sge;
	struct ib_send_wr *sends;
	struct ib_recv_wr *recvs;
};

/* Two connected QPs. The first one sends, the second one receives. */
struct kq_pair {
	struct ib_cq *cq;
	struct ib_srq *srq;
	struct ib_qp *from;
	struct ib_qp *to;
};

/* ---- memory ---- */

/*
 * Takes the first page of each free block. The others are in use again for
 * single pages and pairs, but never become a block of KQ_ORDER.
 */
static void kq_fragment(struct kq *kq)
{
	const gfp_t gfp = __GFP_NOWARN | __GFP_NOMEMALLOC;
	struct page *page;
	unsigned int i;

	while ((page = alloc_pages(gfp, KQ_ORDER))) {
		split_page(page, KQ_ORDER);
		for (i = 1; i < BIT(KQ_ORDER); i++)
			__free_page(page + i);
		list_add(&page->lru, &kq->held);
		cond_resched();
	}

	/* Other processors may have kept a block, but no larger one. */
	page = alloc_pages(gfp, KQ_ORDER + 1);
	kv_check("fragmented", !page && !list_empty(&kq->held));
	if (page)
		__free_pages(page, KQ_ORDER + 1);
}

static void kq_restore(struct kq *kq)
{
	struct page *page, *next;

	list_for_each_entry_safe(page, next, &kq->held, lru) {
		list_del(&page->lru);
		__free_page(page);
	}
}

static size_t kq_buf_bytes(const struct kq *kq)
{
	return 2 * KQ_BATCH * (size_t)kq->bytes;
}

static void kq_free(struct kq *kq)
{
	kq_restore(kq);
	kvfree(kq->recvs);
	kvfree(kq->sends);
	kvfree(kq->sges);
	if (kq->buf)
		dma_free_coherent(kq->dev->dma_device, kq_buf_bytes(kq),
				  kq->buf, kq->dma);
	if (!IS_ERR_OR_NULL(kq->pd))
		ib_dealloc_pd(kq->pd);
	if (!IS_ERR_OR_NULL(kq->gid))
		rdma_put_gid_attr(kq->gid);
	kfree(kq);
}

static int kq_init(struct kq *kq)
{
	const struct ib_device_attr *attrs = &kq->dev->attrs;

	kq->max_sge = max(attrs->max_send_sge, attrs->max_recv_sge);
	kq->bytes = 4 * kq->max_sge;
	kq->buf = dma_alloc_coherent(kq->dev->dma_device, kq_buf_bytes(kq),
				     &kq->dma, GFP_KERNEL);
	kq->sges = kvcalloc(2 * KQ_BATCH * kq->max_sge, sizeof(*kq->sges),
			    GFP_KERNEL);
	kq->sends = kvcalloc(KQ_BATCH, sizeof(*kq->sends), GFP_KERNEL);
	kq->recvs = kvcalloc(KQ_CHAIN, sizeof(*kq->recvs), GFP_KERNEL);
	if (!kq->buf || !kq->sges || !kq->sends || !kq->recvs)
		return -ENOMEM;

	kq->gid = kv_find_gid(kq->dev);
	if (IS_ERR(kq->gid))
		return PTR_ERR(kq->gid);
	kq->pd = ib_alloc_pd(kq->dev, 0);
	return PTR_ERR_OR_ZERO(kq->pd);
}

/* ---- messages ---- */

/* A message in @num pieces: all of 4 bytes, but the first or last one. */
static void kq_split(struct kq *kq, struct ib_sge *sge, u32 num, u32 message,
		     bool first)
{
	u64 addr = kq->dma + (u64)message * kq->bytes;
	u32 i;

	for (i = 0; i < num; i++) {
		sge[i].addr = addr;
		sge[i].length = 4;
		sge[i].lkey = kq->pd->local_dma_lkey;
		if (i == (first ? 0 : num - 1))
			sge[i].length = kq->bytes - 4 * (num - 1);
		addr += sge[i].length;
	}
}

/* Prepares the requests of a batch for WQEs with as many SGEs. */
static void kq_prepare(struct kq *kq, u32 send_sge, u32 recv_sge)
{
	struct ib_sge *sge = kq->sges;
	u32 i;

	for (i = 0; i < KQ_BATCH; i++, sge += kq->max_sge) {
		kq_split(kq, sge, send_sge, i, false);
		kq->sends[i] = (struct ib_send_wr){
			.next = i + 1 < KQ_BATCH ? &kq->sends[i + 1] : NULL,
			.opcode = IB_WR_SEND,
			.send_flags = IB_SEND_SIGNALED,
			.sg_list = sge,
			.num_sge = send_sge,
		};
	}
	for (i = 0; i < KQ_BATCH; i++, sge += kq->max_sge) {
		kq_split(kq, sge, recv_sge, KQ_BATCH + i, true);
		kq->recvs[i] = (struct ib_recv_wr){
			.next = i + 1 < KQ_BATCH ? &kq->recvs[i + 1] : NULL,
			.sg_list = sge,
			.num_sge = recv_sge,
		};
	}
}

static void kq_fill(struct kq *kq, u64 first)
{
	u32 words = KQ_BATCH * kq->bytes / 4;
	u32 *word = (u32 *)kq->buf;
	u32 i;

	for (i = 0; i < words; i++)
		word[i] = ((u32)first + i) * 2654435761U;
	memset(kq->buf + KQ_BATCH * kq->bytes, 0, KQ_BATCH * kq->bytes);
}

static bool kq_sent_and_received(const struct kq *kq)
{
	return !memcmp(kq->buf, kq->buf + KQ_BATCH * kq->bytes,
		       KQ_BATCH * kq->bytes);
}

/* Polls until all of a batch has completed, in order. */
static bool kq_poll(struct kq *kq, struct kq_pair *pair, u64 first)
{
	unsigned long deadline = jiffies + KQ_WAIT;
	u64 sent = first, received = first;
	struct ib_wc wc[16];
	int i, n;

	while (sent < first + KQ_BATCH || received < first + KQ_BATCH) {
		n = ib_poll_cq(pair->cq, ARRAY_SIZE(wc), wc);
		for (i = 0; i < n; i++) {
			if (wc[i].status != IB_WC_SUCCESS)
				return false;
			if (wc[i].qp == pair->from ? wc[i].wr_id != sent++ :
			    wc[i].wr_id != received++ ||
			    wc[i].byte_len != kq->bytes)
				return false;
		}
		if (!n) {
			if (time_after(jiffies, deadline))
				return false;
			usleep_range(20, 50);
		}
	}

	return true;
}

static bool kq_batch(struct kq *kq, struct kq_pair *pair, u64 first)
{
	u32 i;
	int err;

	for (i = 0; i < KQ_BATCH; i++) {
		kq->sends[i].wr_id = first + i;
		kq->recvs[i].wr_id = first + i;
	}
	kq_fill(kq, first);
	err = pair->srq ? ib_post_srq_recv(pair->srq, kq->recvs, NULL) :
			  ib_post_recv(pair->to, kq->recvs, NULL);
	return !err && !ib_post_send(pair->from, kq->sends, NULL) &&
	       kq_poll(kq, pair, first) && kq_sent_and_received(kq);
}

/* Messages for more than a round of a queue with @num entries. */
static bool kq_around(struct kq *kq, struct kq_pair *pair, u32 num,
		      u32 send_sge, u32 recv_sge)
{
	u64 i;

	kq_prepare(kq, send_sge, recv_sge);
	for (i = 0; i < (u64)num + 2 * KQ_BATCH; i += KQ_BATCH)
		if (!kq_batch(kq, pair, i)) {
			pr_info("kverbs: message %llu of a batch failed\n", i);
			return false;
		}

	return true;
}

/* ---- queues ---- */

static void kq_destroy(struct kq_pair *pair)
{
	if (!IS_ERR_OR_NULL(pair->to))
		ib_destroy_qp(pair->to);
	if (!IS_ERR_OR_NULL(pair->from))
		ib_destroy_qp(pair->from);
	if (!IS_ERR_OR_NULL(pair->srq))
		ib_destroy_srq(pair->srq);
	if (!IS_ERR_OR_NULL(pair->cq))
		ib_free_cq(pair->cq);
}

/* Creates and connects QPs of these capacities. */
static int kq_create(struct kq *kq, struct kq_pair *pair,
		     const struct ib_qp_cap *cap)
{
	struct ib_qp_init_attr attr = {
		.cap = *cap,
		.srq = pair->srq,
		.qp_type = IB_QPT_RC,
		.sq_sig_type = IB_SIGNAL_REQ_WR,
		.port_num = KV_PORT,
	};

	pair->cq = ib_alloc_cq(kq->dev, NULL, 4 * KQ_BATCH, 0, IB_POLL_DIRECT);
	if (IS_ERR(pair->cq))
		return PTR_ERR(pair->cq);

	attr.send_cq = pair->cq;
	attr.recv_cq = pair->cq;
	pair->from = ib_create_qp(kq->pd, &attr);
	if (IS_ERR(pair->from))
		return PTR_ERR(pair->from);

	attr.cap = *cap;
	pair->to = ib_create_qp(kq->pd, &attr);
	if (IS_ERR(pair->to))
		return PTR_ERR(pair->to);

	return kv_connect_qp(pair->from, pair->to, kq->gid) ?:
	       kv_connect_qp(pair->to, pair->from, kq->gid);
}

static struct ib_qp_cap kq_max_cap(const struct kq *kq)
{
	const struct ib_device_attr *attrs = &kq->dev->attrs;

	return (struct ib_qp_cap){
		.max_send_wr = attrs->max_qp_wr,
		.max_recv_wr = attrs->max_qp_wr,
		.max_send_sge = attrs->max_send_sge,
		.max_recv_sge = attrs->max_recv_sge,
	};
}

/* No attribute has the limit of inline data: finds it. */
static void kq_test_max_qp(struct kq *kq)
{
	struct ib_qp_cap cap = kq_max_cap(kq);
	struct kq_pair pair = {};
	int err;

	for (cap.max_inline_data = KQ_INLINE;; cap.max_inline_data /= 2) {
		err = kq_create(kq, &pair, &cap);
		if (err != -EINVAL || !cap.max_inline_data)
			break;
		kq_destroy(&pair);
		pair = (struct kq_pair){};
	}
	kv_check("max-qp-created", !err);
	kv_check("max-qp", !err && kq_around(kq, &pair, cap.max_send_wr,
					     cap.max_send_sge,
					     cap.max_recv_sge));
	kq_destroy(&pair);
}

static void kq_test_max_srq(struct kq *kq)
{
	const struct ib_device_attr *attrs = &kq->dev->attrs;
	struct ib_srq_init_attr attr = {
		.attr.max_wr = attrs->max_srq_wr,
		.attr.max_sge = attrs->max_srq_sge,
		.srq_type = IB_SRQT_BASIC,
	};
	struct ib_qp_cap cap = {
		.max_send_wr = KQ_BATCH,
		.max_send_sge = attrs->max_send_sge,
	};
	struct kq_pair pair = {};
	bool ok;

	pair.srq = ib_create_srq(kq->pd, &attr);
	kv_check("max-srq-created", !IS_ERR(pair.srq));
	ok = !IS_ERR(pair.srq) && !kq_create(kq, &pair, &cap) &&
	     kq_around(kq, &pair, attrs->max_srq_wr, cap.max_send_sge,
		       attrs->max_srq_sge);
	kv_check("max-srq", ok);
	kq_destroy(&pair);
}

/* A QP of ib_srpt's channels; ib_core adds requests for the contexts. */
static void kq_test_srpt(struct kq *kq)
{
	const struct ib_device_attr *attrs = &kq->dev->attrs;
	struct ib_qp_cap cap = {
		.max_send_wr = min(KQ_SRPT_SQ / 2, attrs->max_qp_wr),
		.max_rdma_ctxs = KQ_SRPT_SQ / 2,
		.max_recv_wr = min(KQ_SRPT_RQ, attrs->max_qp_wr),
		.max_send_sge = attrs->max_send_sge,
		.max_recv_sge = 1,
	};
	struct ib_qp_init_attr init = {};
	struct ib_qp_attr attr = {};
	struct kq_pair pair = {};
	bool ok;

	ok = !kq_create(kq, &pair, &cap) &&
	     !ib_query_qp(pair.from, &attr, IB_QP_CAP, &init) &&
	     kq_around(kq, &pair, init.cap.max_send_wr, cap.max_send_sge, 1);
	kv_check("srpt", ok);
	kq_destroy(&pair);
}

/* ---- CQ ---- */

/* Posts @num receives without SGEs. */
static int kq_post_empty(struct kq *kq, struct ib_qp *qp, u64 first, u32 num)
{
	u32 i, n;
	int err;

	for (; num; first += n, num -= n) {
		n = min_t(u32, num, KQ_CHAIN);
		for (i = 0; i < n; i++)
			kq->recvs[i] = (struct ib_recv_wr){
				.next = i + 1 < n ? &kq->recvs[i + 1] : NULL,
				.wr_id = first + i,
			};
		err = ib_post_recv(qp, kq->recvs, NULL);
		if (err)
			return err;
	}

	return 0;
}

static bool kq_poll_flushed(struct ib_cq *cq, struct ib_qp *qp, u64 first,
			    u32 num)
{
	unsigned long deadline = jiffies + KQ_WAIT;
	u64 next = first;
	struct ib_wc wc[16];
	int i, n;

	while (next < first + num) {
		n = ib_poll_cq(cq, ARRAY_SIZE(wc), wc);
		for (i = 0; i < n; i++)
			if (wc[i].status != IB_WC_WR_FLUSH_ERR ||
			    wc[i].qp != qp || wc[i].wr_id != next++)
				return false;
		if (!n) {
			if (time_after(jiffies, deadline))
				return false;
			usleep_range(20, 50);
		}
		cond_resched();
	}

	return true;
}

/*
 * The receive queue of a QP in error is filled again and again, until its
 * completions have used more than all entries of the CQ.
 */
static bool kq_cq_around(struct kq *kq, struct ib_cq *cq, struct ib_qp *qp,
			 u32 wrs)
{
	u64 first;

	for (first = 0; first <= cq->cqe; first += wrs)
		if (kq_post_empty(kq, qp, first, wrs) ||
		    !kq_poll_flushed(cq, qp, first, wrs)) {
			pr_info("kverbs: completion %llu or later failed\n",
				first);
			return false;
		}

	return true;
}

static struct ib_qp *kq_create_error_qp(struct kq *kq, struct ib_cq *cq,
					u32 wrs)
{
	struct ib_qp_init_attr init = {
		.send_cq = cq,
		.recv_cq = cq,
		.cap.max_send_wr = 1,
		.cap.max_recv_wr = wrs,
		.qp_type = IB_QPT_RC,
	};
	struct ib_qp_attr attr = {
		.qp_state = IB_QPS_INIT,
		.port_num = KV_PORT,
	};
	struct ib_qp *qp;
	int err;

	qp = ib_create_qp(kq->pd, &init);
	if (IS_ERR(qp))
		return qp;

	err = ib_modify_qp(qp, &attr, IB_QP_STATE | IB_QP_PKEY_INDEX |
			   IB_QP_PORT | IB_QP_ACCESS_FLAGS);
	attr.qp_state = IB_QPS_ERR;
	err = err ?: ib_modify_qp(qp, &attr, IB_QP_STATE);
	if (!err)
		return qp;

	ib_destroy_qp(qp);
	return ERR_PTR(err);
}

static void kq_test_max_cq(struct kq *kq)
{
	u32 wrs = kq->dev->attrs.max_qp_wr;
	struct ib_qp *qp;
	struct ib_cq *cq;

	cq = ib_alloc_cq(kq->dev, NULL, kq->dev->attrs.max_cqe, 0,
			 IB_POLL_DIRECT);
	kv_check("max-cq-created", !IS_ERR(cq));
	if (IS_ERR(cq)) {
		kv_check("max-cq", false);
		return;
	}

	qp = kq_create_error_qp(kq, cq, wrs);
	kv_check("max-cq", !IS_ERR(qp) && kq_cq_around(kq, cq, qp, wrs));
	if (!IS_ERR(qp))
		ib_destroy_qp(qp);
	ib_free_cq(cq);
}

static int kq_add(struct ib_device *dev)
{
	struct kq *kq;
	int err;

	kq = kzalloc_obj(*kq);
	if (!kq)
		return -ENOMEM;

	kq->dev = dev;
	INIT_LIST_HEAD(&kq->held);
	err = kq_init(kq);
	kv_check("init", !err);
	if (!err) {
		kq_fragment(kq);
		kq_test_max_qp(kq);
		kq_test_max_srq(kq);
		kq_test_max_cq(kq);
		kq_test_srpt(kq);
	}
	kq_free(kq);
	return err;
}

static void kq_remove(struct ib_device *dev, void *client_data)
{
}

static struct ib_client kq_client = {
	.name = "kqueues",
	.add = kq_add,
	.remove = kq_remove,
};

static int __init kq_module_init(void)
{
	return ib_register_client(&kq_client);
}

static void __exit kq_module_exit(void)
{
	ib_unregister_client(&kq_client);
}

module_init(kq_module_init);
module_exit(kq_module_exit);

MODULE_DESCRIPTION("Test of an RDMA device's largest kernel queues");
MODULE_LICENSE("Dual BSD/GPL");
