// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Tests of tern_ib.ko's verbs: a stub executes the commands as the device. */

#include <kunit/static_stub.h>
#include <kunit/test.h>
#include <linux/module.h>
#include <linux/scatterlist.h>

#ifndef TERN_WITHOUT_MAD
#include <rdma/ib_pma.h>

#endif
#include "tern_counts.h"
#include "tern_ib.h"
#include "tern_ib_ring.h"

MODULE_IMPORT_NS("EXPORTED_FOR_KUNIT_TESTING");

#define TERN_TEST_QPN	17
#define TERN_TEST_NUMBER	5

/**
 * struct tern_test_verbs - a device and its objects
 * @ib: the RDMA device
 * @qp: QP with number TERN_TEST_QPN
 * @state: state of the QP in the device
 * @num_pinned: number of pages pinned
 * @generation: last generation given out
 * @num_completions: number of calls of the CQ's completion handler
 * @num_events: number of calls of the event handlers
 * @packets: packets sent, by the device's counter
 */
struct tern_test_verbs {
	struct tern_ib_dev ib;
	struct tern_qp qp;
	u8 state;
	unsigned int num_pinned;
	u32 generation;
	unsigned int num_completions;
	unsigned int num_events;
	u64 packets;
};

/* Replaces tern_cmd_exec(). */
static int tern_test_exec(struct tern_core *core, u16 opcode, const void *in,
			  size_t in_len, void *out, size_t out_len)
{
	struct tern_test_verbs *dev = kunit_get_current_test()->priv;
	struct tern_rsp_query_qp *rsp = out;
	struct tern_rsp_object *object = out;
	__le64 *counters = out;

	memset(out, 0, out_len);
	switch (opcode) {
	case TERN_CMD_QUERY_COUNTERS:
		counters[TERN_CNT_TX_RDMA_PACKETS] = cpu_to_le64(dev->packets);
		counters[TERN_CNT_NP_ECN_MARKED] = cpu_to_le64(3);
		counters[TERN_CNT_TX_RDMA_BYTES] = cpu_to_le64(1ULL << 40);
		counters[TERN_CNT_RX_MALFORMED] = cpu_to_le64(U16_MAX + 1);
		return 0;
	case TERN_CMD_QUERY_QP:
		rsp->attr.state = dev->state;
		return 0;
	case TERN_CMD_CREATE_CQ:
	case TERN_CMD_CREATE_QP:
	case TERN_CMD_CREATE_SRQ:
		/* Each gets the number of the one before. */
		object->id = cpu_to_le32(TERN_TEST_NUMBER);
		object->generation = cpu_to_le32(++dev->generation);
		return 0;
	default:
		return 0;
	}
}

static int tern_test_verbs_init(struct kunit *test)
{
	struct tern_test_verbs *dev = kunit_kzalloc(test, sizeof(*dev), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, dev);
	test->priv = dev;
	dev->qp.ibqp.device = &dev->ib.ibdev;
	dev->qp.ibqp.qp_num = TERN_TEST_QPN;
	dev->qp.ibqp.qp_type = IB_QPT_RC;
	mutex_init(&dev->qp.lock);
	kunit_activate_static_stub(test, tern_cmd_exec, tern_test_exec);
	return 0;
}

/* A state that does not exist must not reach ib_core's tables. */
static void tern_test_query_state(struct kunit *test)
{
	struct tern_test_verbs *dev = test->priv;
	struct ib_qp_init_attr init_attr;
	struct ib_qp_attr attr;
	unsigned int state;

	for (state = 0; state <= U8_MAX; state++) {
		bool valid = state <= IB_QPS_ERR;

		dev->state = state;
		dev->qp.state = IB_QPS_SQD;
		KUNIT_EXPECT_EQ_MSG(test, tern_query_qp(&dev->qp.ibqp, &attr, 0,
							&init_attr),
				    valid ? 0 : -EIO, "state %u", state);
		KUNIT_EXPECT_EQ(test, dev->qp.state, valid ? state : IB_QPS_SQD);
	}
}

/**
 * struct tern_test_umem - pinned memory of the test
 * @umem: the memory as the driver sees it
 * @sg: its page
 */
struct tern_test_umem {
	struct ib_umem umem;
	struct scatterlist sg;
};

/* Replaces tern_record_umem(). */
static struct ib_umem *tern_test_pin(struct tern_ucontext *ucontext,
				     unsigned long addr)
{
	struct kunit *test = kunit_get_current_test();
	struct tern_test_verbs *dev = test->priv;
	struct tern_test_umem *pinned;

	pinned = kunit_kzalloc(test, sizeof(*pinned), GFP_KERNEL);
	if (!pinned)
		return ERR_PTR(-ENOMEM);

	sg_init_table(&pinned->sg, 1);
	sg_dma_address(&pinned->sg) = (++dev->num_pinned) * PAGE_SIZE;
	sg_dma_len(&pinned->sg) = PAGE_SIZE;
	pinned->umem.sgt_append.sgt.sgl = &pinned->sg;
	pinned->umem.sgt_append.sgt.nents = 1;
	pinned->umem.sgt_append.sgt.orig_nents = 1;
	pinned->umem.owning_mm = current->mm;
	pinned->umem.address = addr;
	pinned->umem.length = PAGE_SIZE;
	return &pinned->umem;
}

/* No queue gets a record in a page in which the device keeps one. */
static void tern_test_record_kept(struct kunit *test)
{
	const u64 addr = 16 * PAGE_SIZE;
	struct tern_record a = {}, b = {}, c = {};
	struct tern_test_verbs *dev = test->priv;
	struct tern_ucontext *ucontext;

	ucontext = kunit_kzalloc(test, sizeof(*ucontext), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, ucontext);
	tern_records_init(ucontext);
	kunit_activate_static_stub(test, tern_record_umem, tern_test_pin);

	KUNIT_ASSERT_EQ(test, tern_record_get(ucontext, &a, addr, 64), 0);
	KUNIT_ASSERT_EQ(test, tern_record_get(ucontext, &b, addr + 64, 64), 0);
	KUNIT_EXPECT_EQ(test, dev->num_pinned, 1);
	KUNIT_EXPECT_PTR_EQ(test, a.page, b.page);
	tern_record_done(&a, -EBUSY);

	KUNIT_ASSERT_EQ(test, tern_record_get(ucontext, &c, addr, 64), 0);
	KUNIT_EXPECT_EQ(test, dev->num_pinned, 2);
	KUNIT_EXPECT_PTR_NE(test, a.page, c.page);
	KUNIT_EXPECT_NE(test, a.dma, c.dma);
	/* The page with the record that the device kept stays. */
	tern_record_done(&b, 0);
	tern_record_done(&c, -EBUSY);
	KUNIT_EXPECT_TRUE(test, list_empty(&ucontext->record_pages));

	kfree(a.page);
	kfree(c.page);
}

/* Creates the successor of an object and lets events find it. */
static void tern_test_succeed(struct kunit *test, u16 opcode, struct xarray *objects,
			      struct tern_ref *ref)
{
	struct tern_test_verbs *dev = test->priv;
	u32 id;

	dev->generation = U32_MAX - 1; /* of the object before */
	KUNIT_ASSERT_EQ(test, tern_ib_create_gen(&dev->ib, opcode, NULL, 0, &id,
						 &ref->generation), 0);
	KUNIT_ASSERT_EQ(test, ref->generation, U32_MAX);
	xa_init_flags(objects, XA_FLAGS_LOCK_IRQ);
	KUNIT_ASSERT_EQ(test, tern_ref_publish(objects, id, ref), 0);
}

static void tern_test_comp_handler(struct ib_cq *ibcq, void *context)
{
	struct tern_test_verbs *dev = context;

	dev->num_completions++;
}

static void tern_test_event_handler(struct ib_event *event, void *context)
{
	struct tern_test_verbs *dev = context;

	dev->num_events++;
}

/* A CQ whose predecessor had the same number. ib_core has not got to know it. */
static struct tern_cq *tern_test_new_cq(struct kunit *test)
{
	struct tern_test_verbs *dev = test->priv;
	struct tern_cq *cq = kunit_kzalloc(test, sizeof(*cq), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, cq);
	cq->ibcq.device = &dev->ib.ibdev;
	cq->ibcq.cq_context = dev;
	cq->ibcq.event_handler = tern_test_event_handler;
	cq->kern.record = kunit_kzalloc(test, sizeof(*cq->kern.record), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, cq->kern.record);
	spin_lock_init(&cq->kern.lock);
	xa_init_flags(&cq->kern.qps, XA_FLAGS_LOCK_IRQ);
	tern_test_succeed(test, TERN_CMD_CREATE_CQ, &dev->ib.cqs, &cq->ref);
	return cq;
}

static void tern_test_stale_completion(struct kunit *test)
{
	struct tern_test_verbs *dev = test->priv;
	struct tern_eqe eqe = { .id = cpu_to_le32(TERN_TEST_NUMBER) };
	struct tern_cq *cq = tern_test_new_cq(test);

	eqe.generation = cpu_to_le32(U32_MAX - 1);
	tern_completion_event(&dev->ib, &eqe);
	KUNIT_EXPECT_EQ(test, cq->kern.arm_seq, 0);
	/* Not even its own event calls a handler that is not there. */
	eqe.generation = cpu_to_le32(U32_MAX);
	tern_completion_event(&dev->ib, &eqe);
	KUNIT_EXPECT_EQ(test, cq->kern.arm_seq, 1);

	cq->ibcq.comp_handler = tern_test_comp_handler;
	eqe.generation = cpu_to_le32(U32_MAX - 1);
	tern_completion_event(&dev->ib, &eqe);
	KUNIT_EXPECT_EQ(test, dev->num_completions, 0);
	eqe.generation = cpu_to_le32(U32_MAX);
	tern_completion_event(&dev->ib, &eqe);
	KUNIT_EXPECT_EQ(test, dev->num_completions, 1);
	KUNIT_EXPECT_EQ(test, cq->kern.arm_seq, 2);
	xa_destroy(&dev->ib.cqs);
}

/* A healthy CQ must not be taken for the broken one whose number it has. */
static void tern_test_stale_cq_error(struct kunit *test)
{
	struct tern_test_verbs *dev = test->priv;
	struct tern_cq *cq = tern_test_new_cq(test);

	tern_cq_event(&dev->ib, TERN_TEST_NUMBER, U32_MAX - 1, IB_EVENT_CQ_ERR);
	KUNIT_EXPECT_FALSE(test, cq->kern.lost);
	KUNIT_EXPECT_EQ(test, dev->num_events, 0);
	tern_cq_event(&dev->ib, TERN_TEST_NUMBER, U32_MAX, IB_EVENT_CQ_ERR);
	KUNIT_EXPECT_TRUE(test, cq->kern.lost);
	KUNIT_EXPECT_EQ(test, dev->num_events, 1);
	xa_destroy(&dev->ib.cqs);
}

static void tern_test_stale_qp_event(struct kunit *test)
{
	struct tern_test_verbs *dev = test->priv;
	struct tern_qp *qp = &dev->qp;

	qp->ibqp.event_handler = tern_test_event_handler;
	qp->ibqp.qp_context = dev;
	tern_test_succeed(test, TERN_CMD_CREATE_QP, &dev->ib.qps, &qp->ref);
	tern_qp_event(&dev->ib, TERN_TEST_NUMBER, U32_MAX - 1, IB_EVENT_QP_FATAL);
	KUNIT_EXPECT_EQ(test, dev->num_events, 0);
	tern_qp_event(&dev->ib, TERN_TEST_NUMBER, U32_MAX, IB_EVENT_QP_FATAL);
	KUNIT_EXPECT_EQ(test, dev->num_events, 1);
	xa_destroy(&dev->ib.qps);
}

static void tern_test_stale_srq_event(struct kunit *test)
{
	struct tern_test_verbs *dev = test->priv;
	struct tern_srq *srq = kunit_kzalloc(test, sizeof(*srq), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, srq);
	srq->ibsrq.event_handler = tern_test_event_handler;
	srq->ibsrq.srq_context = dev;
	tern_test_succeed(test, TERN_CMD_CREATE_SRQ, &dev->ib.srqs, &srq->ref);
	tern_srq_event(&dev->ib, TERN_TEST_NUMBER, U32_MAX - 1, IB_EVENT_SRQ_ERR);
	KUNIT_EXPECT_EQ(test, dev->num_events, 0);
	tern_srq_event(&dev->ib, TERN_TEST_NUMBER, U32_MAX, IB_EVENT_SRQ_ERR);
	KUNIT_EXPECT_EQ(test, dev->num_events, 1);
	xa_destroy(&dev->ib.srqs);
}

#ifndef TERN_WITHOUT_COUNTERS
static u64 tern_test_stat(struct rdma_hw_stats *stats, const char *name)
{
	unsigned int i;

	for (i = 0; i < stats->num_counters; i++)
		if (!strcmp(stats->descs[i].name, name))
			return stats->value[i];

	return U64_MAX;
}

/* An optional counter begins with 0 whenever it is enabled. */
static void tern_test_optional_counters(struct kunit *test)
{
	struct tern_test_verbs *dev = test->priv;
	struct ib_device *ibdev = &dev->ib.ibdev;
	struct rdma_hw_stats *stats = tern_alloc_hw_port_stats(ibdev, 1);
	unsigned int i, index = 0, optional = 0;

	KUNIT_ASSERT_NOT_NULL(test, stats);
	for (i = 0; i < stats->num_counters; i++) {
		bool is_optional = stats->descs[i].flags & IB_STAT_FLAG_OPTIONAL;

		KUNIT_EXPECT_NOT_NULL(test, stats->descs[i].name);
		KUNIT_EXPECT_EQ(test, is_optional, i >= TERN_CNT_RDMA_NUM);
		KUNIT_EXPECT_EQ(test, is_optional, test_bit(i, stats->is_disabled));
		optional += is_optional;
		if (!strcmp(stats->descs[i].name, "rdma_tx_packets"))
			index = i;
	}
	KUNIT_EXPECT_EQ(test, optional, ARRAY_SIZE(dev->ib.optional_base));
	KUNIT_ASSERT_NE(test, index, 0);

	dev->packets = 10;
	KUNIT_EXPECT_EQ(test, tern_modify_hw_stat(ibdev, 1, index, true), 0);
	dev->packets = 17;
	KUNIT_EXPECT_EQ(test, tern_get_hw_stats(ibdev, stats, 1, 0),
			stats->num_counters);
	KUNIT_EXPECT_EQ(test, tern_test_stat(stats, "rdma_tx_packets"), 7);
	KUNIT_EXPECT_EQ(test, tern_test_stat(stats, "tx_rdma_packets"), 17);
	KUNIT_EXPECT_EQ(test, tern_test_stat(stats, "cc_rx_ce_pkts"), 3);
	KUNIT_EXPECT_EQ(test, tern_modify_hw_stat(ibdev, 1, index, false), 0);
	KUNIT_EXPECT_EQ(test, tern_modify_hw_stat(ibdev, 1, index, true), 0);
	tern_get_hw_stats(ibdev, stats, 1, 0);
	KUNIT_EXPECT_EQ(test, tern_test_stat(stats, "rdma_tx_packets"), 0);
	rdma_free_hw_stats_struct(stats);
}

#endif
#ifndef TERN_WITHOUT_MAD
/* Answers a MAD. Returns the result of the operation. */
static int tern_test_mad(struct kunit *test, u8 class, u8 method, __be16 attr,
			 u8 port, struct ib_mad *out)
{
	struct tern_test_verbs *dev = test->priv;
	struct ib_mad *in = kunit_kzalloc(test, sizeof(*in), GFP_KERNEL);
	u16 pkey = 0;
	size_t size;

	KUNIT_ASSERT_NOT_NULL(test, in);
	in->mad_hdr.base_version = IB_MGMT_BASE_VERSION;
	in->mad_hdr.mgmt_class = class;
	in->mad_hdr.class_version = 1;
	in->mad_hdr.method = method;
	in->mad_hdr.attr_id = attr;
	in->mad_hdr.tid = cpu_to_be64(99);
	in->data[41] = port;
	return tern_process_mad(&dev->ib.ibdev, 0, 1, NULL, NULL, in, out, &size,
				&pkey);
}

/* The counters of the port: 32 bits stop at all ones, 64 bits go on. */
static void tern_test_performance_mad(struct kunit *test)
{
	const int reply = IB_MAD_RESULT_SUCCESS | IB_MAD_RESULT_REPLY;
	const u8 class = IB_MGMT_CLASS_PERF_MGMT, get = IB_MGMT_METHOD_GET;
	struct ib_pma_portcounters_ext *ext;
	struct ib_pma_portcounters *basic;
	struct tern_test_verbs *dev = test->priv;
	struct ib_mad *out = kunit_kzalloc(test, sizeof(*out), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, out);
	basic = (void *)&out->data[40];
	ext = (void *)&out->data[40];
	dev->packets = 17;
	KUNIT_EXPECT_EQ(test, tern_test_mad(test, class, get, IB_PMA_PORT_COUNTERS, 1,
					    out), reply);
	KUNIT_EXPECT_EQ(test, out->mad_hdr.method, IB_MGMT_METHOD_GET_RESP);
	KUNIT_EXPECT_EQ(test, be64_to_cpu(out->mad_hdr.tid), 99);
	KUNIT_EXPECT_EQ(test, be16_to_cpu(out->mad_hdr.status), 0);
	KUNIT_EXPECT_EQ(test, be32_to_cpu(basic->port_xmit_packets), 17);
	KUNIT_EXPECT_EQ(test, be32_to_cpu(basic->port_xmit_data), U32_MAX);
	KUNIT_EXPECT_EQ(test, be16_to_cpu(basic->port_rcv_errors), U16_MAX);

	KUNIT_EXPECT_EQ(test, tern_test_mad(test, class, get, IB_PMA_PORT_COUNTERS_EXT,
					    U8_MAX, out), reply);
	KUNIT_EXPECT_EQ(test, be64_to_cpu(ext->port_xmit_packets), 17);
	KUNIT_EXPECT_EQ(test, be64_to_cpu(ext->port_xmit_data), 1ULL << 38);

	/* Another port, an unknown attribute, a clear. */
	tern_test_mad(test, class, get, IB_PMA_PORT_COUNTERS, 2, out);
	KUNIT_EXPECT_EQ(test, be16_to_cpu(out->mad_hdr.status),
			IB_MGMT_MAD_STATUS_INVALID_ATTRIB_VALUE);
	tern_test_mad(test, class, get, IB_PMA_PORT_SAMPLES_CONTROL, 1, out);
	KUNIT_EXPECT_EQ(test, be16_to_cpu(out->mad_hdr.status),
			IB_MGMT_MAD_STATUS_UNSUPPORTED_METHOD_ATTRIB);
	tern_test_mad(test, class, IB_MGMT_METHOD_SET, IB_PMA_PORT_COUNTERS, 1, out);
	KUNIT_EXPECT_EQ(test, be16_to_cpu(out->mad_hdr.status),
			IB_MGMT_MAD_STATUS_UNSUPPORTED_METHOD_ATTRIB);

	/* Answers, and other classes, are for agents. */
	KUNIT_EXPECT_EQ(test, tern_test_mad(test, class, IB_MGMT_METHOD_GET_RESP,
					    IB_PMA_PORT_COUNTERS, 1, out),
			IB_MAD_RESULT_SUCCESS);
	KUNIT_EXPECT_EQ(test, tern_test_mad(test, IB_MGMT_CLASS_CM, get, 0, 1, out),
			IB_MAD_RESULT_SUCCESS);
}

#endif
static struct kunit_case tern_ib_verbs_cases[] = {
	KUNIT_CASE(tern_test_query_state),
	KUNIT_CASE(tern_test_record_kept),
	KUNIT_CASE(tern_test_stale_completion),
	KUNIT_CASE(tern_test_stale_cq_error),
	KUNIT_CASE(tern_test_stale_qp_event),
	KUNIT_CASE(tern_test_stale_srq_event),
#ifndef TERN_WITHOUT_COUNTERS
	KUNIT_CASE(tern_test_optional_counters),
#endif
#ifndef TERN_WITHOUT_MAD
	KUNIT_CASE(tern_test_performance_mad),
#endif
	{}
};

static struct kunit_suite tern_ib_verbs_suite = {
	.name = "tern_ib_verbs",
	.init = tern_test_verbs_init,
	.test_cases = tern_ib_verbs_cases,
};

kunit_test_suite(tern_ib_verbs_suite);

MODULE_DESCRIPTION("KUnit tests of tern_ib's verbs");
MODULE_LICENSE("Dual BSD/GPL");
