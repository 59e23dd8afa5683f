// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Tests of tern_ib_qp_util.c: checks and conversion of QP attributes. */

#include <kunit/test.h>
#include <linux/module.h>
#include <linux/sizes.h>

#include "tern_ib.h"
#ifndef TERN_WITHOUT_APM
#include "tern_ib_apm.h"
#endif
#include "tern_ib_qp_util.h"

MODULE_IMPORT_NS("EXPORTED_FOR_KUNIT_TESTING");

/* A device in memory that supports every transport. */
struct tern_test_dev {
	struct tern_ib_dev ib;
	struct tern_core core;
	struct tern_rsp_caps caps;
	struct ib_cq cq;
	struct ib_srq srq;
	struct ib_xrcd xrcd;
};

static int tern_qp_test_init(struct kunit *test)
{
	struct tern_test_dev *dev = kunit_kzalloc(test, sizeof(*dev), GFP_KERNEL);

	if (!dev)
		return -ENOMEM;

	dev->ib.core = &dev->core;
	dev->ib.ibdev.phys_port_cnt = 2;
	dev->core.caps = &dev->caps;
	dev->caps.flags = cpu_to_le64(TERN_CAP_RC | TERN_CAP_UC | TERN_CAP_UD |
				     TERN_CAP_XRC);
	dev->caps.max_qp_wr = cpu_to_le32(1024);
	dev->caps.max_send_sge = cpu_to_le16(16);
	dev->caps.max_recv_sge = cpu_to_le16(16);
	dev->caps.max_inline = cpu_to_le32(512);
	dev->caps.max_rd_atomic = cpu_to_le16(16);
	test->priv = dev;
	return 0;
}

static struct ib_qp_init_attr tern_test_attr(struct tern_test_dev *dev,
					     enum ib_qp_type type)
{
	return (struct ib_qp_init_attr){
		.qp_type = type,
		.send_cq = &dev->cq,
		.recv_cq = &dev->cq,
		.cap = {
			.max_send_wr = 16,
			.max_recv_wr = 32,
			.max_send_sge = 2,
			.max_recv_sge = 3,
			.max_inline_data = 64,
		},
	};
}

static void tern_test_create_types(struct kunit *test)
{
	static const enum ib_qp_type known[] = {
		IB_QPT_GSI, IB_QPT_RC, IB_QPT_UC, IB_QPT_UD,
#ifndef TERN_WITHOUT_XRC
		IB_QPT_XRC_INI,
#endif
	};
	struct tern_test_dev *dev = test->priv;
	struct ib_qp_init_attr attr;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(known); i++) {
		attr = tern_test_attr(dev, known[i]);
		KUNIT_EXPECT_EQ_MSG(test, tern_check_create_qp(&dev->ib, &attr), 0,
				    "type %d", known[i]);
	}

#ifndef TERN_WITHOUT_XRC
	attr = tern_test_attr(dev, IB_QPT_XRC_TGT);
	KUNIT_EXPECT_EQ(test, tern_check_create_qp(&dev->ib, &attr), -EINVAL);
	attr.xrcd = &dev->xrcd;
	KUNIT_EXPECT_EQ(test, tern_check_create_qp(&dev->ib, &attr), 0);

#endif
	/* No type without its capability bit, and none unknown to RoCE. */
	dev->caps.flags = 0;
	for (i = 0; i <= IB_QPT_MAX; i++) {
		attr = tern_test_attr(dev, i);
		attr.xrcd = &dev->xrcd;
		KUNIT_EXPECT_EQ_MSG(test, tern_check_create_qp(&dev->ib, &attr),
				    -EOPNOTSUPP, "type %u", i);
	}
	dev->caps.flags = cpu_to_le64(U64_MAX);
#ifndef TERN_WITHOUT_RAW
	attr = tern_test_attr(dev, IB_QPT_RAW_PACKET);
	KUNIT_EXPECT_EQ(test, tern_check_create_qp(&dev->ib, &attr), 0);
	attr.create_flags = IB_QP_CREATE_SCATTER_FCS;
	KUNIT_EXPECT_EQ(test, tern_check_create_qp(&dev->ib, &attr), 0);
	attr.create_flags = IB_QP_CREATE_SOURCE_QPN;
	KUNIT_EXPECT_EQ(test, tern_check_create_qp(&dev->ib, &attr), -EOPNOTSUPP);
	attr = tern_test_attr(dev, IB_QPT_RAW_PACKET);
	attr.srq = &dev->srq;
	KUNIT_EXPECT_EQ(test, tern_check_create_qp(&dev->ib, &attr), 0);
#endif
	attr = tern_test_attr(dev, IB_QPT_UD);
	attr.create_flags = IB_QP_CREATE_BLOCK_MULTICAST_LOOPBACK;
	KUNIT_EXPECT_EQ(test, tern_check_create_qp(&dev->ib, &attr), 0);
	dev->caps.flags = cpu_to_le64(TERN_CAP_UD);
	KUNIT_EXPECT_EQ(test, tern_check_create_qp(&dev->ib, &attr), -EOPNOTSUPP);
	dev->caps.flags = cpu_to_le64(U64_MAX);
	attr = tern_test_attr(dev, IB_QPT_DRIVER);
	KUNIT_EXPECT_EQ(test, tern_check_create_qp(&dev->ib, &attr), -EOPNOTSUPP);
}

static void tern_test_create_limits(struct kunit *test)
{
	struct tern_test_dev *dev = test->priv;
	const struct ib_qp_init_attr good = tern_test_attr(dev, IB_QPT_RC);
	struct ib_qp_init_attr attr;

#define TERN_EXPECT(want, field, value) do {				\
	attr = good;							\
	attr.field = value;						\
	KUNIT_EXPECT_EQ(test, tern_check_create_qp(&dev->ib, &attr), want); \
} while (0)

	TERN_EXPECT(0, cap.max_send_wr, 1024);
	TERN_EXPECT(-EINVAL, cap.max_send_wr, 1025);
	TERN_EXPECT(0, cap.max_recv_wr, 1024);
	TERN_EXPECT(-EINVAL, cap.max_recv_wr, 1025);
	TERN_EXPECT(0, cap.max_send_sge, 16);
	TERN_EXPECT(-EINVAL, cap.max_send_sge, 17);
	TERN_EXPECT(0, cap.max_recv_sge, 16);
	TERN_EXPECT(-EINVAL, cap.max_recv_sge, 17);
	TERN_EXPECT(0, cap.max_inline_data, 512);
	TERN_EXPECT(-EINVAL, cap.max_inline_data, 513);
	TERN_EXPECT(-EINVAL, cap.max_send_wr, U32_MAX);
	TERN_EXPECT(-EINVAL, send_cq, NULL);
	TERN_EXPECT(-EINVAL, recv_cq, NULL);
	TERN_EXPECT(-EOPNOTSUPP, create_flags, IB_QP_CREATE_INTEGRITY_EN);
#undef TERN_EXPECT

	/* With an SRQ, the receive capacities are ignored. */
	attr = good;
	attr.srq = &dev->srq;
	attr.cap.max_recv_wr = U32_MAX;
	attr.cap.max_recv_sge = U32_MAX;
	KUNIT_EXPECT_EQ(test, tern_check_create_qp(&dev->ib, &attr), 0);
#ifndef TERN_WITHOUT_XRC

	attr = tern_test_attr(dev, IB_QPT_XRC_INI);
	attr.recv_cq = NULL;
	KUNIT_EXPECT_EQ(test, tern_check_create_qp(&dev->ib, &attr), 0);
#endif
}

static void tern_test_geometry(struct kunit *test)
{
	struct tern_test_dev *dev = test->priv;
	const struct ib_qp_init_attr attr = tern_test_attr(dev, IB_QPT_RC);
	/* 16 slots of 128 bytes, 32 of 64: 4096 bytes. */
	const struct tern_ureq_create_qp good = {
		.log_sq_size = 4, .log_sq_stride = 7,
		.log_rq_size = 5, .log_rq_stride = 6,
		.buf_len = 4096,
	};
	struct tern_ureq_create_qp req;
	unsigned int i;

	KUNIT_EXPECT_TRUE(test, tern_qp_geometry_ok(&dev->ib, &attr, &good));

#define TERN_EXPECT(want, field, value) do {				\
	req = good;							\
	req.field = value;						\
	KUNIT_EXPECT_EQ(test, tern_qp_geometry_ok(&dev->ib, &attr, &req), want); \
} while (0)

	TERN_EXPECT(true, buf_len, PAGE_SIZE);
	TERN_EXPECT(false, buf_len, 4096 - 64);
	TERN_EXPECT(false, buf_len, PAGE_SIZE + 64);
	/* Too few or too small slots. */
	TERN_EXPECT(false, log_sq_size, 3);
	TERN_EXPECT(false, log_rq_size, 4);
	TERN_EXPECT(false, log_sq_stride, 6);
	TERN_EXPECT(false, log_rq_stride, 5);
	TERN_EXPECT(false, reserved_e0[0], 1);
#undef TERN_EXPECT

	/* No input leads to a shift out of range. */
	for (i = 0; i <= U8_MAX; i++) {
		bool ok;

		req = good;
		req.buf_len = SZ_1G;
		req.log_sq_size = i;
		req.log_rq_size = i;
		ok = tern_qp_geometry_ok(&dev->ib, &attr, &req);
		KUNIT_EXPECT_FALSE_MSG(test, ok, "size %u", i);
		req = good;
		req.buf_len = SZ_1G;
		req.log_sq_stride = i;
		req.log_rq_stride = i;
		ok = tern_qp_geometry_ok(&dev->ib, &attr, &req);
		KUNIT_EXPECT_FALSE_MSG(test, ok, "stride %u", i);
	}
}

static void tern_test_geometry_srq(struct kunit *test)
{
	struct tern_test_dev *dev = test->priv;
	struct ib_qp_init_attr attr = tern_test_attr(dev, IB_QPT_UD);
	/* Sizes of a receive queue that does not exist are ignored. */
	const struct tern_ureq_create_qp req = {
		.log_sq_size = 4, .log_sq_stride = 7,
		.log_rq_size = U8_MAX, .log_rq_stride = U8_MAX,
		.buf_len = 2048,
	};

	attr.srq = &dev->srq;
	KUNIT_EXPECT_FALSE(test, tern_qp_has_rq(&attr));
	KUNIT_EXPECT_EQ(test, tern_rq_bytes(&attr, &req), 0);
	KUNIT_EXPECT_TRUE(test, tern_rq_geometry_ok(&attr, 10, &req));

#ifndef TERN_WITHOUT_XRC
	attr = tern_test_attr(dev, IB_QPT_XRC_INI);
	KUNIT_EXPECT_FALSE(test, tern_qp_has_rq(&attr));
#endif
	attr = tern_test_attr(dev, IB_QPT_UD);
	KUNIT_EXPECT_TRUE(test, tern_qp_has_rq(&attr));
	KUNIT_EXPECT_FALSE(test, tern_rq_geometry_ok(&attr, 10, &req));
}

#ifndef TERN_WITHOUT_TM
/* Without a send queue, a QP of an SRQ with tags fetches data. */
static void tern_test_qp_fetches(struct kunit *test)
{
	struct tern_test_dev *dev = test->priv;
	struct ib_qp_init_attr attr = tern_test_attr(dev, IB_QPT_RC);

	attr.cap.max_send_wr = 0;
	KUNIT_EXPECT_FALSE(test, tern_qp_is_rendezvous(&attr));
	attr.srq = &dev->srq;
	KUNIT_EXPECT_FALSE(test, tern_qp_is_rendezvous(&attr));
	dev->srq.srq_type = IB_SRQT_TM;
	KUNIT_EXPECT_TRUE(test, tern_qp_is_rendezvous(&attr));
	KUNIT_EXPECT_EQ(test, tern_check_create_qp(&dev->ib, &attr), 0);
	attr.cap.max_send_wr = 1;
	KUNIT_EXPECT_FALSE(test, tern_qp_is_rendezvous(&attr));

	attr.qp_type = IB_QPT_UD;
	KUNIT_EXPECT_EQ(test, tern_check_create_qp(&dev->ib, &attr), -EOPNOTSUPP);
}

#endif
static void tern_test_qp_access(struct kunit *test)
{
	static const int five = IB_ACCESS_REMOTE_WRITE | IB_ACCESS_REMOTE_READ |
				IB_ACCESS_REMOTE_ATOMIC | IB_ACCESS_FLUSH_GLOBAL |
				IB_ACCESS_FLUSH_PERSISTENT;
	int flags;

	for (flags = 0; flags <= 0x3ff; flags++)
		KUNIT_EXPECT_EQ(test, tern_qp_access_flags(tern_qp_access(flags)),
				flags & five);
	KUNIT_EXPECT_EQ(test, tern_qp_access(IB_ACCESS_FLUSH_GLOBAL),
			TERN_ACCESS_FLUSH_GLOBAL);
	KUNIT_EXPECT_EQ(test, tern_qp_access(IB_ACCESS_FLUSH_PERSISTENT),
			TERN_ACCESS_FLUSH_PERSISTENT);
	KUNIT_EXPECT_EQ(test, tern_qp_access(IB_ACCESS_REMOTE_READ),
			TERN_ACCESS_REMOTE_READ);
	KUNIT_EXPECT_EQ(test, tern_qp_access_flags(TERN_ACCESS_REMOTE_ATOMIC),
			IB_ACCESS_REMOTE_ATOMIC);
}

static void tern_test_attr_ranges(struct kunit *test)
{
	struct tern_test_dev *dev = test->priv;
	struct ib_qp_attr attr;

#define TERN_EXPECT(want, bit, field, value) do {			\
	attr = (struct ib_qp_attr){ .field = value };			\
	KUNIT_EXPECT_EQ(test, tern_qp_attr_ok(&dev->ib, &attr, bit), want); \
	/* Attributes outside the mask are not checked. */		\
	KUNIT_EXPECT_TRUE(test, tern_qp_attr_ok(&dev->ib, &attr, 0));	\
} while (0)

	TERN_EXPECT(true, IB_QP_PORT, port_num, 1);
	TERN_EXPECT(false, IB_QP_PORT, port_num, 0);
	TERN_EXPECT(true, IB_QP_PORT, port_num, 2);
	TERN_EXPECT(false, IB_QP_PORT, port_num, 3);
	TERN_EXPECT(false, IB_QP_PORT, port_num, 257);
	TERN_EXPECT(false, IB_QP_PKEY_INDEX, pkey_index, 1);
	TERN_EXPECT(true, IB_QP_PATH_MTU, path_mtu, IB_MTU_256);
	TERN_EXPECT(true, IB_QP_PATH_MTU, path_mtu, IB_MTU_4096);
	TERN_EXPECT(false, IB_QP_PATH_MTU, path_mtu, 0);
	TERN_EXPECT(false, IB_QP_PATH_MTU, path_mtu, IB_MTU_4096 + 1);
	TERN_EXPECT(true, IB_QP_MAX_QP_RD_ATOMIC, max_rd_atomic, 16);
	TERN_EXPECT(false, IB_QP_MAX_QP_RD_ATOMIC, max_rd_atomic, 17);
	TERN_EXPECT(true, IB_QP_MAX_DEST_RD_ATOMIC, max_dest_rd_atomic, 16);
	TERN_EXPECT(false, IB_QP_MAX_DEST_RD_ATOMIC, max_dest_rd_atomic, 17);
	TERN_EXPECT(true, IB_QP_DEST_QPN, dest_qp_num, 0xffffff);
	TERN_EXPECT(false, IB_QP_DEST_QPN, dest_qp_num, 0x1000000);
	TERN_EXPECT(true, IB_QP_TIMEOUT, timeout, 31);
	TERN_EXPECT(false, IB_QP_TIMEOUT, timeout, 32);
	TERN_EXPECT(true, IB_QP_MIN_RNR_TIMER, min_rnr_timer, 31);
	TERN_EXPECT(false, IB_QP_MIN_RNR_TIMER, min_rnr_timer, 32);
	TERN_EXPECT(true, IB_QP_RETRY_CNT, retry_cnt, 7);
	TERN_EXPECT(false, IB_QP_RETRY_CNT, retry_cnt, 8);
	TERN_EXPECT(true, IB_QP_RNR_RETRY, rnr_retry, 7);
	TERN_EXPECT(false, IB_QP_RNR_RETRY, rnr_retry, 8);
#ifndef TERN_WITHOUT_RATE
	dev->caps.max_rate = cpu_to_le32(1000);
	TERN_EXPECT(true, IB_QP_RATE_LIMIT, rate_limit, 0);
	TERN_EXPECT(true, IB_QP_RATE_LIMIT, rate_limit, 1000);
	TERN_EXPECT(false, IB_QP_RATE_LIMIT, rate_limit, 1001);
#endif
#ifndef TERN_WITHOUT_APM
	TERN_EXPECT(true, IB_QP_PATH_MIG_STATE, path_mig_state, IB_MIG_MIGRATED);
	TERN_EXPECT(true, IB_QP_PATH_MIG_STATE, path_mig_state, IB_MIG_REARM);
	TERN_EXPECT(false, IB_QP_PATH_MIG_STATE, path_mig_state, IB_MIG_ARMED);
	TERN_EXPECT(false, IB_QP_PATH_MIG_STATE, path_mig_state, 3);
#endif
#undef TERN_EXPECT
}

static void tern_test_attr_there_and_back(struct kunit *test)
{
	const struct ib_qp_attr attr = {
		.qp_state = IB_QPS_RTS,
		.path_mtu = IB_MTU_2048,
		.qkey = 0x80010000,
		/* PSNs have 24 bits; the other bits are dropped. */
		.rq_psn = 0xab123456,
		.sq_psn = 0xcd654321,
		.dest_qp_num = 0xfedcba,
		.qp_access_flags = IB_ACCESS_REMOTE_READ | IB_ACCESS_LOCAL_WRITE,
		.max_rd_atomic = 3,
		.max_dest_rd_atomic = 5,
		.min_rnr_timer = 12,
		.timeout = 14,
		.retry_cnt = 6,
		.rnr_retry = 7,
		.port_num = 2,
		.rate_limit = 12345678,
	};
	const int mask = IB_QP_STATE | IB_QP_PATH_MTU | IB_QP_QKEY | IB_QP_RQ_PSN |
			 IB_QP_SQ_PSN | IB_QP_DEST_QPN | IB_QP_ACCESS_FLAGS |
			 IB_QP_MAX_QP_RD_ATOMIC | IB_QP_MAX_DEST_RD_ATOMIC |
			 IB_QP_MIN_RNR_TIMER | IB_QP_TIMEOUT | IB_QP_RETRY_CNT |
#ifndef TERN_WITHOUT_APM
			 IB_QP_ALT_PATH | IB_QP_PATH_MIG_STATE |
#endif
#ifndef TERN_WITHOUT_RATE
			 IB_QP_RATE_LIMIT |
#endif
			 IB_QP_RNR_RETRY | IB_QP_PORT;
	struct tern_qp_attr to = {};
	struct ib_qp_attr back = {};
	u32 bits;

	bits = tern_qp_attr_to_dev(&attr, mask, &to);
	KUNIT_EXPECT_EQ(test, hweight32(bits), hweight32(mask));
	KUNIT_EXPECT_EQ(test, to.path_mtu, 11);

	tern_qp_attr_from_dev(&to, &back);
	KUNIT_EXPECT_EQ(test, back.qp_state, IB_QPS_RTS);
	KUNIT_EXPECT_EQ(test, back.cur_qp_state, IB_QPS_RTS);
	KUNIT_EXPECT_EQ(test, back.path_mtu, IB_MTU_2048);
	KUNIT_EXPECT_EQ(test, back.qkey, 0x80010000);
	KUNIT_EXPECT_EQ(test, back.rq_psn, 0x123456);
	KUNIT_EXPECT_EQ(test, back.sq_psn, 0x654321);
	KUNIT_EXPECT_EQ(test, back.dest_qp_num, 0xfedcba);
	KUNIT_EXPECT_EQ(test, back.qp_access_flags, IB_ACCESS_REMOTE_READ);
	KUNIT_EXPECT_EQ(test, back.max_rd_atomic, 3);
	KUNIT_EXPECT_EQ(test, back.max_dest_rd_atomic, 5);
	KUNIT_EXPECT_EQ(test, back.min_rnr_timer, 12);
	KUNIT_EXPECT_EQ(test, back.timeout, 14);
	KUNIT_EXPECT_EQ(test, back.retry_cnt, 6);
	KUNIT_EXPECT_EQ(test, back.rnr_retry, 7);
	KUNIT_EXPECT_EQ(test, back.port_num, 2);
#ifndef TERN_WITHOUT_RATE
	KUNIT_EXPECT_EQ(test, back.rate_limit, 12345678);
#endif

	/* Attributes outside the mask are left unchanged. */
	memset(&to, 0, sizeof(to));
	KUNIT_EXPECT_EQ(test, tern_qp_attr_to_dev(&attr, 0, &to), 0);
	KUNIT_EXPECT_NULL(test, memchr_inv(&to, 0, sizeof(to)));
}

#ifndef TERN_WITHOUT_APM
/* A QP without an alternate path has none in ib_core's format either. */
static void tern_test_alt_path(struct kunit *test)
{
	struct tern_qp_alt alt = {
		.av = {
			.dgid = { 0xfe, 0x80, [15] = 7 },
			.sgid_index = cpu_to_le16(3),
			.hop_limit = 9,
			.port = 2,
		},
		.port = 2,
		.timeout = 11,
		.mig_state = TERN_MIG_ARMED,
	};
	struct ib_qp_attr attr = {};

	tern_alt_path_to_attr(&alt, &attr);
	KUNIT_EXPECT_EQ(test, attr.path_mig_state, IB_MIG_ARMED);
	KUNIT_EXPECT_EQ(test, attr.alt_port_num, 2);
	KUNIT_EXPECT_EQ(test, attr.alt_timeout, 11);
	KUNIT_EXPECT_EQ(test, rdma_ah_get_port_num(&attr.alt_ah_attr), 2);
	KUNIT_EXPECT_EQ(test, rdma_ah_read_grh(&attr.alt_ah_attr)->sgid_index, 3);
	KUNIT_EXPECT_EQ(test, rdma_ah_read_grh(&attr.alt_ah_attr)->hop_limit, 9);
	KUNIT_EXPECT_EQ(test, rdma_ah_read_grh(&attr.alt_ah_attr)->dgid.raw[15], 7);

	memset(&attr, 0, sizeof(attr));
	alt.port = 0;
	alt.mig_state = TERN_MIG_MIGRATED;
	tern_alt_path_to_attr(&alt, &attr);
	KUNIT_EXPECT_NULL(test, memchr_inv(&attr, 0, sizeof(attr)));
}

#endif
static struct kunit_case tern_ib_qp_cases[] = {
	KUNIT_CASE(tern_test_create_types),
	KUNIT_CASE(tern_test_create_limits),
	KUNIT_CASE(tern_test_geometry),
	KUNIT_CASE(tern_test_geometry_srq),
#ifndef TERN_WITHOUT_TM
	KUNIT_CASE(tern_test_qp_fetches),
#endif
	KUNIT_CASE(tern_test_qp_access),
	KUNIT_CASE(tern_test_attr_ranges),
	KUNIT_CASE(tern_test_attr_there_and_back),
#ifndef TERN_WITHOUT_APM
	KUNIT_CASE(tern_test_alt_path),
#endif
	{}
};

static struct kunit_suite tern_ib_qp_suite = {
	.name = "tern_ib_qp",
	.init = tern_qp_test_init,
	.test_cases = tern_ib_qp_cases,
};

kunit_test_suite(tern_ib_qp_suite);

MODULE_DESCRIPTION("KUnit tests of what tern's QPs may be asked for");
MODULE_LICENSE("Dual BSD/GPL");
