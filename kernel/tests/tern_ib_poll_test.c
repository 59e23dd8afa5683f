// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Tests of posting and polling: requests and the completions of a device that lies. */

#include <kunit/test.h>
#include <linux/dma-mapping.h>
#include <linux/module.h>

#include "tern_ib.h"
#include "tern_ib_ring.h"

MODULE_IMPORT_NS("EXPORTED_FOR_KUNIT_TESTING");

#define TERN_TEST_QPN		17
#define TERN_TEST_SQ_LOG	4
#define TERN_TEST_RQ_LOG	3
#define TERN_TEST_SRQ_WR	4
/* What a device that lies returns in place of a pointer. */
#define TERN_TEST_LIE		0xbad0bad0bad0bad0

/**
 * struct tern_test_poll - a CQ, and queues that complete into it
 * @dev: device
 * @core: its PCI function, whose doorbells are not rung
 * @caps: its limits
 * @cq: the CQ
 * @other: a CQ that the QP does not use
 * @qp: QP with number TERN_TEST_QPN
 * @record: doorbell record of the CQ
 * @qp_record: that of the QP
 * @pages: pages of the CQ's ring
 * @queues: page with the rings of the QP: the send queue, and the receive queue in
 *	the second half
 * @posted: requests of the QP
 * @wc: polled completions
 */
struct tern_test_poll {
	struct tern_ib_dev dev;
	struct tern_core core;
	struct tern_rsp_caps caps;
	struct tern_cq cq;
	struct tern_cq other;
	struct tern_qp qp;
	struct tern_cq_record record;
	struct tern_qp_record qp_record;
	struct tern_kpage pages[4];
	struct tern_kpage queues;
	struct tern_posted posted[512 + BIT(TERN_TEST_RQ_LOG)];
	struct ib_wc wc[64];
#ifndef TERN_WITHOUT_KSRQ
	/** @srq: SRQ, which @qp does not use at first */
	struct tern_srq srq;
	/** @srq_record: its doorbell record */
	struct tern_srq_record srq_record;
	/** @srq_page: page with its ring */
	struct tern_kpage srq_page;
	/** @srq_posted: its requests */
	struct tern_posted srq_posted[TERN_TEST_SRQ_WR];
#endif
};

static void tern_test_page(struct kunit *test, struct tern_kpage *page)
{
	page->cpu = kunit_kzalloc(test, PAGE_SIZE, GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, page->cpu);
}

static void tern_test_cq(struct tern_test_poll *poll, struct tern_cq *cq)
{
	cq->ibcq.device = &poll->dev.ibdev;
	spin_lock_init(&cq->kern.lock);
	xa_init_flags(&cq->kern.qps, XA_FLAGS_LOCK_IRQ);
	cq->kern.buf.pages = poll->pages;
	cq->kern.record = &poll->record;
	cq->kern.log_size = ilog2(ARRAY_SIZE(poll->pages) * PAGE_SIZE /
				  sizeof(struct tern_cqe));
}

static void tern_test_queues(struct kunit *test, struct tern_test_poll *poll)
{
	struct tern_kqp *kqp = &poll->qp.kern;

	tern_test_page(test, &poll->queues);
	spin_lock_init(&kqp->sq.lock);
	spin_lock_init(&kqp->rq.lock);
	kqp->record = &poll->qp_record;
	/* The device polls the queue: a post rings no doorbell. */
	poll->qp_record.status = cpu_to_le32(TERN_QP_ST_SQ_POLLED);
	kqp->sq.pages = &poll->queues;
	kqp->sq.posted = poll->posted;
	kqp->sq.log_size = TERN_TEST_SQ_LOG;
	kqp->sq.log_stride = 7;
	kqp->rq.pages = &poll->queues;
	kqp->rq.posted = poll->posted + 512;
	kqp->rq.offset = PAGE_SIZE / 2;
	kqp->rq.log_size = TERN_TEST_RQ_LOG;
	kqp->rq.log_stride = 6;
	poll->qp.state = IB_QPS_RTS;
	poll->qp.sq_sig_type = IB_SIGNAL_REQ_WR;
	poll->qp.cap.max_send_sge = 2;
	poll->qp.cap.max_recv_sge = 2;
}

#ifndef TERN_WITHOUT_KSRQ
static void tern_test_srq(struct kunit *test, struct tern_test_poll *poll)
{
	struct tern_srq *srq = &poll->srq;
	unsigned int i;

	tern_test_page(test, &poll->srq_page);
	srq->ibsrq.device = &poll->dev.ibdev;
	spin_lock_init(&srq->post_lock);
	srq->kbuf.pages = &poll->srq_page;
	srq->kbuf.posted = poll->srq_posted;
	srq->record = &poll->srq_record;
	srq->max_wr = TERN_TEST_SRQ_WR;
	srq->max_sge = 1;
	srq->log_stride = TERN_RQ_STRIDE_MIN;
	for (i = 0; i < TERN_TEST_SRQ_WR; i++)
		srq->kbuf.posted[i].next = i + 1;
}

#endif
static struct tern_test_poll *tern_test_poll_init(struct kunit *test)
{
	struct tern_test_poll *poll = kunit_kzalloc(test, sizeof(*poll), GFP_KERNEL);
	struct ib_qp *ibqp;
	unsigned int i;
	void *old;

	KUNIT_ASSERT_NOT_NULL(test, poll);
	poll->dev.core = &poll->core;
	poll->core.caps = &poll->caps;
	for (i = 0; i < ARRAY_SIZE(poll->pages); i++)
		tern_test_page(test, &poll->pages[i]);
	tern_test_cq(poll, &poll->cq);
	tern_test_cq(poll, &poll->other);
	tern_test_queues(test, poll);
#ifndef TERN_WITHOUT_KSRQ
	tern_test_srq(test, poll);
#endif
	ibqp = &poll->qp.ibqp;
	ibqp->device = &poll->dev.ibdev;
	ibqp->qp_num = TERN_TEST_QPN;
	ibqp->qp_type = IB_QPT_RC;
	ibqp->send_cq = &poll->cq.ibcq;
	ibqp->recv_cq = &poll->cq.ibcq;
	old = xa_store_irq(&poll->cq.kern.qps, TERN_TEST_QPN, &poll->qp, GFP_KERNEL);
	KUNIT_ASSERT_EQ(test, xa_err(old), 0);
	return poll;
}

static void tern_test_poll_exit(struct tern_test_poll *poll)
{
	xa_destroy(&poll->cq.kern.qps);
}

/* Acts as the device: writes entry @index. */
static struct tern_cqe *tern_test_complete(struct tern_test_poll *poll,
					   u32 index, u32 qpn, u32 wqe_index,
					   u8 flags)
{
	const u32 in_page = PAGE_SIZE / sizeof(struct tern_cqe);
	u8 log_size = poll->cq.kern.log_size;
	u32 slot = index & (BIT(log_size) - 1);
	struct tern_cqe *page = poll->pages[slot / in_page].cpu;

	page[slot % in_page] = (struct tern_cqe){
		.qpn = cpu_to_le32(qpn),
		.wr_id = cpu_to_le64(TERN_TEST_LIE),
		.wqe_index = cpu_to_le32(wqe_index),
		.opcode = flags & TERN_CQE_F_RECV ? TERN_RECV_SEND : TERN_WR_SEND,
		.flags = flags,
		.phase = cpu_to_le32(index >> log_size & 1 ? 0 : TERN_CQE_PHASE),
	};
	return &page[slot % in_page];
}

static int tern_test_poll_all(struct tern_test_poll *poll)
{
	memset(poll->wc, 0xa5, sizeof(poll->wc));
	return tern_poll_cq(&poll->cq.ibcq, ARRAY_SIZE(poll->wc), poll->wc);
}

/* Acts as the poster: @num requests of a queue, with their index plus @base as data. */
static void tern_test_post(struct tern_wq *wq, u32 num, u64 base)
{
	for (; num; num--, wq->pi++)
		*tern_wq_posted(wq, wq->pi) = (struct tern_posted){
			.wr_id = base + wq->pi, .length = 100,
		};
}

static void tern_test_poll(struct kunit *test)
{
	struct tern_test_poll *poll = tern_test_poll_init(test);
	struct tern_kqp *kqp = &poll->qp.kern;
	struct ib_cq *ibcq = &poll->cq.ibcq;
	u32 i;
	int n;

	/* More than one batch, some of them of an unknown QP. */
	kqp->sq.log_size = 9;
	tern_test_post(&kqp->sq, 40, 0);
	tern_test_post(&kqp->rq, 8, 1000);
	for (i = 0; i < 40; i++)
		tern_test_complete(poll, i, i % 8 == 5 ? 99 : TERN_TEST_QPN, i, 0);
	tern_test_complete(poll, 40, TERN_TEST_QPN, 7, TERN_CQE_F_RECV);

	KUNIT_EXPECT_EQ(test, tern_poll_cq(ibcq, 1, poll->wc), 1);
	KUNIT_EXPECT_EQ(test, le32_to_cpu(poll->record.ci), 1);
	KUNIT_EXPECT_EQ(test, kqp->sq.ci, 1);

	n = tern_poll_cq(ibcq, 20, poll->wc);
	KUNIT_EXPECT_EQ(test, n, 20);
	KUNIT_EXPECT_EQ(test, poll->wc[n - 1].wr_id, 23);
	KUNIT_EXPECT_EQ(test, le32_to_cpu(poll->record.ci), 24);
	KUNIT_EXPECT_EQ(test, kqp->sq.ci, 24);

	n = tern_test_poll_all(poll);
	KUNIT_EXPECT_EQ(test, n, 15);
	KUNIT_EXPECT_EQ(test, poll->wc[n - 1].wr_id, 1007);
	KUNIT_EXPECT_PTR_EQ(test, poll->wc[0].qp, &poll->qp.ibqp);
	KUNIT_EXPECT_EQ(test, le32_to_cpu(poll->record.ci), 41);
	KUNIT_EXPECT_EQ(test, kqp->sq.ci, 40);
	KUNIT_EXPECT_EQ(test, kqp->rq.ci, 8);

	/* Entries of a destroyed QP only: returned to the device, too. */
	tern_test_complete(poll, 41, 99, 0, 0);
	KUNIT_EXPECT_EQ(test, tern_test_poll_all(poll), 0);
	KUNIT_EXPECT_EQ(test, le32_to_cpu(poll->record.ci), 42);
	KUNIT_EXPECT_EQ(test, tern_test_poll_all(poll), 0);
	KUNIT_EXPECT_EQ(test, poll->cq.kern.bad, 6);
	tern_test_poll_exit(poll);
}

/* Three times around a ring of several pages. */
static void tern_test_poll_pages(struct kunit *test)
{
	struct tern_test_poll *poll = tern_test_poll_init(test);
	u32 end = 3 << poll->cq.kern.log_size;
	u32 i, pi = 0, wrong = 0;
	int n, k;

	poll->qp.kern.sq.log_size = 9;
	for (i = 0; i < end; i += n) {
		/* The ring is not full, and not always equally full. */
		while (pi < end && pi - i < 16 + pi % 32) {
			tern_test_post(&poll->qp.kern.sq, 1, 0);
			tern_test_complete(poll, pi, TERN_TEST_QPN, pi, 0);
			pi++;
		}
		n = tern_test_poll_all(poll);
		KUNIT_ASSERT_EQ(test, n, pi - i);
		for (k = 0; k < n; k++)
			wrong += poll->wc[k].wr_id != i + k;
	}
	KUNIT_EXPECT_EQ(test, wrong, 0);
	KUNIT_EXPECT_EQ(test, le32_to_cpu(poll->record.ci), end);
	tern_test_poll_exit(poll);
}

/* The device learns no wr_id, and those that it returns do not count. */
static void tern_test_posted_send(struct kunit *test)
{
	struct tern_test_poll *poll = tern_test_poll_init(test);
	struct tern_mr *mr = kunit_kzalloc(test, sizeof(*mr), GFP_KERNEL);
	struct ib_sge sge = { .length = 8 };
	struct ib_send_wr send = {
		.wr_id = 0x1111111111111111, .opcode = IB_WR_SEND, .sg_list = &sge,
		.num_sge = 1,
	};
	struct ib_reg_wr reg = {
		.wr = { .wr_id = 0x2222222222222222, .opcode = IB_WR_REG_MR,
			.send_flags = IB_SEND_SIGNALED },
	};
	struct ib_send_wr inv = {
		.wr_id = 0x3333333333333333, .opcode = IB_WR_LOCAL_INV,
		.send_flags = IB_SEND_SIGNALED,
	};
	const struct ib_send_wr *bad;
	const struct tern_sq_hdr *hdr;
	unsigned int i;

	KUNIT_ASSERT_NOT_NULL(test, mr);
	reg.mr = &mr->ibmr;
	send.next = &reg.wr;
	reg.wr.next = &inv;
	KUNIT_ASSERT_EQ(test, tern_post_send(&poll->qp.ibqp, &send, &bad), 0);
	for (i = 0; i < 3; i++) {
		hdr = tern_wq_slot(&poll->qp.kern.sq, i);
		KUNIT_EXPECT_EQ(test, le64_to_cpu(hdr->wr_id), 0);
	}

	/* The first was not signaled. */
	tern_test_complete(poll, 0, TERN_TEST_QPN, 1, 0)->opcode = TERN_WR_REG_MR;
	tern_test_complete(poll, 1, TERN_TEST_QPN, 2, 0)->opcode = TERN_WR_LOCAL_INV;
	KUNIT_EXPECT_EQ(test, tern_test_poll_all(poll), 2);
	KUNIT_EXPECT_EQ(test, poll->wc[0].wr_id, reg.wr.wr_id);
	KUNIT_EXPECT_EQ(test, poll->wc[0].opcode, IB_WC_REG_MR);
	KUNIT_EXPECT_EQ(test, poll->wc[1].wr_id, inv.wr_id);
	KUNIT_EXPECT_EQ(test, poll->wc[1].opcode, IB_WC_LOCAL_INV);
	KUNIT_EXPECT_EQ(test, poll->qp.kern.sq.ci, 3);
	KUNIT_EXPECT_EQ(test, poll->cq.kern.bad, 0);
	tern_test_poll_exit(poll);
}

/* The GSI QP is of the same kind. */
static void tern_test_posted_recv(struct kunit *test)
{
	struct tern_test_poll *poll = tern_test_poll_init(test);
	struct ib_sge sge[] = { { .length = 40 }, { .length = 256 } };
	struct ib_recv_wr wr = {
		.wr_id = 0x4444444444444444, .sg_list = sge, .num_sge = 2,
	};
	const struct ib_recv_wr *bad;
	const struct tern_rq_hdr *hdr;
	struct tern_cqe *cqe;

	poll->qp.ibqp.qp_type = IB_QPT_GSI;
	KUNIT_ASSERT_EQ(test, tern_post_recv(&poll->qp.ibqp, &wr, &bad), 0);
	hdr = tern_wq_slot(&poll->qp.kern.rq, 0);
	KUNIT_EXPECT_EQ(test, le64_to_cpu(hdr->wr_id), 0);
	cqe = tern_test_complete(poll, 0, TERN_TEST_QPN, 0,
				 TERN_CQE_F_RECV | TERN_CQE_F_GRH);
	cqe->byte_len = cpu_to_le32(296);
	KUNIT_EXPECT_EQ(test, tern_test_poll_all(poll), 1);
	KUNIT_EXPECT_EQ(test, poll->wc[0].wr_id, wr.wr_id);
	KUNIT_EXPECT_EQ(test, poll->wc[0].status, IB_WC_SUCCESS);
	KUNIT_EXPECT_EQ(test, poll->wc[0].byte_len, 296);
	tern_test_poll_exit(poll);
}

/* An entry that completes nothing, or the same again, is dropped and counted. */
static void tern_test_poll_index(struct kunit *test)
{
	struct tern_test_poll *poll = tern_test_poll_init(test);
	struct tern_wq *sq = &poll->qp.kern.sq, *rq = &poll->qp.kern.rq;

	tern_test_post(sq, 3, 0);
	tern_test_post(rq, 1, 1000);
	tern_test_complete(poll, 0, TERN_TEST_QPN, 1, 0);
	/* The same again and an older one, before the first was returned. */
	tern_test_complete(poll, 1, TERN_TEST_QPN, 1, 0);
	tern_test_complete(poll, 2, TERN_TEST_QPN, 0, 0);
	/* Requests that were never posted. */
	tern_test_complete(poll, 3, TERN_TEST_QPN, 3, 0);
	tern_test_complete(poll, 4, TERN_TEST_QPN, U32_MAX, 0);
	tern_test_complete(poll, 5, TERN_TEST_QPN, 1, TERN_CQE_F_RECV);
	KUNIT_EXPECT_EQ(test, tern_test_poll_all(poll), 1);
	KUNIT_EXPECT_EQ(test, poll->wc[0].wr_id, 1);
	KUNIT_EXPECT_EQ(test, sq->ci, 2);
	KUNIT_EXPECT_EQ(test, rq->ci, 0);
	KUNIT_EXPECT_EQ(test, poll->cq.kern.bad, 5);

	/* Again in a later poll, and then what is due. */
	tern_test_complete(poll, 6, TERN_TEST_QPN, 1, 0);
	tern_test_complete(poll, 7, TERN_TEST_QPN, 2, 0);
	tern_test_complete(poll, 8, TERN_TEST_QPN, 0, TERN_CQE_F_RECV);
	KUNIT_EXPECT_EQ(test, tern_test_poll_all(poll), 2);
	KUNIT_EXPECT_EQ(test, poll->wc[0].wr_id, 2);
	KUNIT_EXPECT_EQ(test, poll->wc[1].wr_id, 1000);
	KUNIT_EXPECT_EQ(test, sq->ci, 3);
	KUNIT_EXPECT_EQ(test, rq->ci, 1);
	KUNIT_EXPECT_EQ(test, poll->cq.kern.bad, 6);
	tern_test_poll_exit(poll);
}

/* A queue that completes into another CQ belongs to that CQ's lock. */
static void tern_test_poll_other_cq(struct kunit *test)
{
	struct tern_test_poll *poll = tern_test_poll_init(test);

	poll->qp.ibqp.recv_cq = &poll->other.ibcq;
	tern_test_post(&poll->qp.kern.sq, 1, 0);
	tern_test_post(&poll->qp.kern.rq, 1, 1000);
	tern_test_complete(poll, 0, TERN_TEST_QPN, 0, TERN_CQE_F_RECV);
	tern_test_complete(poll, 1, TERN_TEST_QPN, 0, 0);
	KUNIT_EXPECT_EQ(test, tern_test_poll_all(poll), 1);
	KUNIT_EXPECT_EQ(test, poll->wc[0].wr_id, 0);
	KUNIT_EXPECT_EQ(test, poll->qp.kern.rq.ci, 0);
	KUNIT_EXPECT_EQ(test, poll->cq.kern.bad, 1);
	tern_test_poll_exit(poll);
}

/* A QP that the device gave the number of another takes nothing from that one. */
static void tern_test_poll_twin(struct kunit *test)
{
	struct tern_test_poll *poll = tern_test_poll_init(test);
	struct tern_qp *twin = kunit_kzalloc(test, sizeof(*twin), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, twin);
	twin->ibqp = poll->qp.ibqp;
	tern_test_post(&poll->qp.kern.sq, 2, 0);
	tern_test_complete(poll, 0, TERN_TEST_QPN, 0, 0);
	tern_kqp_detach(twin);
	KUNIT_EXPECT_EQ(test, tern_test_poll_all(poll), 1);
	tern_test_complete(poll, 1, TERN_TEST_QPN, 1, 0);
	tern_kqp_detach(&poll->qp);
	KUNIT_EXPECT_EQ(test, tern_test_poll_all(poll), 0);
	KUNIT_EXPECT_EQ(test, poll->cq.kern.bad, 0);
	KUNIT_EXPECT_TRUE(test, xa_empty(&poll->cq.kern.qps));
	tern_test_poll_exit(poll);
}

#ifndef TERN_WITHOUT_KSRQ
/* Returns the post's error, and what the device gets as the request's wr_id in @got. */
static int tern_test_post_srq(struct tern_test_poll *poll, u64 wr_id, __le64 *got)
{
	u32 slot = poll->srq.pi & (TERN_TEST_SRQ_WR - 1);
	struct ib_sge sge = { .length = 64 };
	struct ib_recv_wr wr = { .wr_id = wr_id, .sg_list = &sge, .num_sge = 1 };
	const struct tern_rq_hdr *hdr = poll->srq_page.cpu + (slot << TERN_RQ_STRIDE_MIN);
	const struct ib_recv_wr *bad;
	int err = tern_post_srq_recv(&poll->srq.ibsrq, &wr, &bad);

	if (!err)
		*got = hdr->wr_id;
	return err;
}

static void tern_test_complete_srq(struct tern_test_poll *poll, u32 index,
				   u32 wqe_index, __le64 wr_id)
{
	struct tern_cqe *cqe = tern_test_complete(poll, index, TERN_TEST_QPN, wqe_index,
						  TERN_CQE_F_RECV);

	cqe->wr_id = wr_id;
	/* Not what finds the SRQ. */
	cqe->srqn = cpu_to_le32(99);
}

/* Requests of an SRQ complete in any order, long after their slots were read. */
static void tern_test_poll_srq(struct kunit *test)
{
	struct tern_test_poll *poll = tern_test_poll_init(test);
	__le64 id[8] = {};
	unsigned int i;

	poll->qp.ibqp.srq = &poll->srq.ibsrq;
	for (i = 0; i < 4; i++)
		KUNIT_ASSERT_EQ(test, tern_test_post_srq(poll, 0x5500000000 + i, &id[i]), 0);
	poll->srq_record.ci = cpu_to_le32(4);
	/* The device has taken all, but completed none: their entries are in use. */
	KUNIT_EXPECT_EQ(test, tern_test_post_srq(poll, 0, &id[4]), -ENOMEM);

	tern_test_complete_srq(poll, 0, 2, id[2]);
	tern_test_complete_srq(poll, 1, 1, id[1]);
	KUNIT_EXPECT_EQ(test, tern_test_poll_all(poll), 2);
	KUNIT_EXPECT_EQ(test, poll->wc[0].wr_id, 0x5500000002);
	KUNIT_EXPECT_EQ(test, poll->wc[1].wr_id, 0x5500000001);

	/* Into the slots of the two that have not completed. */
	KUNIT_EXPECT_EQ(test, tern_test_post_srq(poll, 0x5500000004, &id[4]), 0);
	KUNIT_EXPECT_EQ(test, tern_test_post_srq(poll, 0x5500000005, &id[5]), 0);
	tern_test_complete_srq(poll, 2, 0, id[0]);
	tern_test_complete_srq(poll, 3, 5, id[5]);
	KUNIT_EXPECT_EQ(test, tern_test_poll_all(poll), 2);
	KUNIT_EXPECT_EQ(test, poll->wc[0].wr_id, 0x5500000000);
	KUNIT_EXPECT_EQ(test, poll->wc[1].wr_id, 0x5500000005);
	KUNIT_EXPECT_EQ(test, poll->cq.kern.bad, 0);
	tern_test_poll_exit(poll);
}

static void tern_test_poll_srq_lies(struct kunit *test)
{
	struct tern_test_poll *poll = tern_test_poll_init(test);
	__le64 first, second, third;

	poll->qp.ibqp.srq = &poll->srq.ibsrq;
	KUNIT_ASSERT_EQ(test, tern_test_post_srq(poll, 1, &first), 0);
	KUNIT_ASSERT_EQ(test, tern_test_post_srq(poll, 2, &second), 0);
	tern_test_complete_srq(poll, 0, 0, cpu_to_le64(TERN_TEST_LIE));
	KUNIT_EXPECT_EQ(test, tern_test_poll_all(poll), 1);
	KUNIT_EXPECT_EQ(test, poll->wc[0].wr_id, 1);

	/* Completed, never posted, entry and index of two requests. */
	tern_test_complete_srq(poll, 1, 0, first);
	tern_test_complete_srq(poll, 2, 3, cpu_to_le64(3));
	tern_test_complete_srq(poll, 3, 0, second);
	tern_test_complete_srq(poll, 4, 1, first);
	KUNIT_EXPECT_EQ(test, tern_test_poll_all(poll), 0);
	KUNIT_EXPECT_EQ(test, poll->cq.kern.bad, 4);

	/* The entry of the first again, whose old completion is still void. */
	poll->srq_record.ci = cpu_to_le32(1);
	KUNIT_ASSERT_EQ(test, tern_test_post_srq(poll, 3, &third), 0);
	KUNIT_EXPECT_EQ(test, third, first);
	tern_test_complete_srq(poll, 5, 0, first);
	KUNIT_EXPECT_EQ(test, tern_test_poll_all(poll), 0);
	tern_test_complete_srq(poll, 6, 2, third);
	tern_test_complete_srq(poll, 7, 1, second);
	KUNIT_EXPECT_EQ(test, tern_test_poll_all(poll), 2);
	KUNIT_EXPECT_EQ(test, poll->wc[0].wr_id, 3);
	KUNIT_EXPECT_EQ(test, poll->wc[1].wr_id, 2);
	tern_test_poll_exit(poll);
}

/* Completions of a QP that goes return what it has taken from its SRQ. */
static void tern_test_poll_srq_forget(struct kunit *test)
{
	struct tern_test_poll *poll = tern_test_poll_init(test);
	struct tern_kcq *kcq = &poll->cq.kern;
	unsigned int i;
	__le64 id;

	poll->qp.ibqp.srq = &poll->srq.ibsrq;
	for (i = 0; i < 4; i++) {
		KUNIT_ASSERT_EQ(test, tern_test_post_srq(poll, i, &id), 0);
		tern_test_complete_srq(poll, i, i, id);
	}
	poll->srq_record.ci = cpu_to_le32(4);
	KUNIT_EXPECT_EQ(test, tern_test_post_srq(poll, 4, &id), -ENOMEM);

	spin_lock_irq(&kcq->lock);
	tern_kcq_forget(kcq, &poll->qp);
	spin_unlock_irq(&kcq->lock);
	KUNIT_EXPECT_EQ(test, tern_test_poll_all(poll), 0);
	KUNIT_EXPECT_EQ(test, kcq->bad, 0);
	for (i = 0; i < 4; i++)
		KUNIT_EXPECT_EQ(test, tern_test_post_srq(poll, 4 + i, &id), 0);
	tern_test_poll_exit(poll);
}

#endif
/* The owner reads as many bytes as were received, and tells sends by the opcode. */
static void tern_test_poll_lies(struct kunit *test)
{
	struct tern_test_poll *poll = tern_test_poll_init(test);
	struct tern_cqe *cqe;

	tern_test_post(&poll->qp.kern.sq, 1, 0);
	tern_test_post(&poll->qp.kern.rq, 4, 1000);
	cqe = tern_test_complete(poll, 0, TERN_TEST_QPN, 0,
				 TERN_CQE_F_RECV | TERN_CQE_F_INV);
	cqe->byte_len = cpu_to_le32(101);
	cqe = tern_test_complete(poll, 1, TERN_TEST_QPN, 1, TERN_CQE_F_RECV);
	cqe->byte_len = cpu_to_le32(100);
	cqe->opcode = TERN_WR_RDMA_READ;
	/* The bytes of a write are in other memory. */
	cqe = tern_test_complete(poll, 2, TERN_TEST_QPN, 2, TERN_CQE_F_RECV);
	cqe->byte_len = cpu_to_le32(U32_MAX);
	cqe->opcode = TERN_RECV_RDMA_WITH_IMM;
	tern_test_complete(poll, 3, TERN_TEST_QPN, 0, 0)->opcode = TERN_RECV_SEND;

	KUNIT_EXPECT_EQ(test, tern_test_poll_all(poll), 4);
	KUNIT_EXPECT_EQ(test, poll->wc[0].wr_id, 1000);
	KUNIT_EXPECT_EQ(test, poll->wc[0].status, IB_WC_LOC_LEN_ERR);
	KUNIT_EXPECT_EQ(test, poll->wc[0].byte_len, 0);
	KUNIT_EXPECT_EQ(test, poll->wc[0].wc_flags, 0);
	KUNIT_EXPECT_EQ(test, poll->wc[1].status, IB_WC_SUCCESS);
	KUNIT_EXPECT_EQ(test, poll->wc[1].byte_len, 100);
	KUNIT_EXPECT_EQ(test, poll->wc[1].opcode, IB_WC_RECV);
	KUNIT_EXPECT_EQ(test, poll->wc[2].status, IB_WC_SUCCESS);
	KUNIT_EXPECT_EQ(test, poll->wc[2].byte_len, U32_MAX);
	KUNIT_EXPECT_EQ(test, poll->wc[3].opcode, IB_WC_SEND);
	KUNIT_EXPECT_EQ(test, poll->cq.kern.bad, 1);
	tern_test_poll_exit(poll);
}

/* A flush reads nothing that the device could have written. */
static void tern_test_poll_flush(struct kunit *test)
{
	struct tern_test_poll *poll = tern_test_poll_init(test);
	struct tern_kqp *kqp = &poll->qp.kern;
	int i;

	tern_test_post(&kqp->sq, 3, 0);
	tern_test_post(&kqp->rq, 2, 1000);
	tern_test_complete(poll, 0, TERN_TEST_QPN, 0, 0);
	memset(poll->queues.cpu, 0xba, PAGE_SIZE);
	poll->cq.kern.lost = true;
	KUNIT_EXPECT_EQ(test, tern_test_poll_all(poll), 5);
	KUNIT_EXPECT_EQ(test, poll->wc[0].status, IB_WC_SUCCESS);
	for (i = 0; i < 3; i++)
		KUNIT_EXPECT_EQ(test, poll->wc[i].wr_id, i);
	for (i = 0; i < 2; i++)
		KUNIT_EXPECT_EQ(test, poll->wc[3 + i].wr_id, 1000 + i);
	for (i = 1; i < 5; i++)
		KUNIT_EXPECT_EQ(test, poll->wc[i].status, IB_WC_WR_FLUSH_ERR);
	KUNIT_EXPECT_EQ(test, kqp->sq.ci, 3);
	KUNIT_EXPECT_EQ(test, kqp->rq.ci, 2);

	/* A late entry completes nothing again. */
	tern_test_complete(poll, 1, TERN_TEST_QPN, 1, 0);
	KUNIT_EXPECT_EQ(test, tern_test_poll_all(poll), 0);
	tern_test_poll_exit(poll);
}

static struct kunit_case tern_ib_poll_cases[] = {
	KUNIT_CASE(tern_test_poll),
	KUNIT_CASE(tern_test_poll_pages),
	KUNIT_CASE(tern_test_posted_send),
	KUNIT_CASE(tern_test_posted_recv),
	KUNIT_CASE(tern_test_poll_index),
	KUNIT_CASE(tern_test_poll_other_cq),
	KUNIT_CASE(tern_test_poll_twin),
#ifndef TERN_WITHOUT_KSRQ
	KUNIT_CASE(tern_test_poll_srq),
	KUNIT_CASE(tern_test_poll_srq_lies),
	KUNIT_CASE(tern_test_poll_srq_forget),
#endif
	KUNIT_CASE(tern_test_poll_lies),
	KUNIT_CASE(tern_test_poll_flush),
	{}
};

static struct kunit_suite tern_ib_poll_suite = {
	.name = "tern_ib_poll",
	.test_cases = tern_ib_poll_cases,
};

kunit_test_suite(tern_ib_poll_suite);

MODULE_DESCRIPTION("KUnit tests of tern_ib's posting and polling");
MODULE_LICENSE("Dual BSD/GPL");
