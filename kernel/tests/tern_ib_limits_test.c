// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Tests of tern_ib_limits.h: the device's limits, and CQs and SRQs that keep them. */

#include <kunit/test.h>
#include <linux/module.h>
#include <linux/sizes.h>

#include "tern_ib.h"
#include "tern_ib_limits.h"

/* A device that exists in memory only. */
struct tern_test_dev {
	struct tern_ib_dev ib;
	struct tern_core core;
	struct tern_rsp_caps caps;
	struct ib_cq cq;
	struct ib_xrcd xrcd;
};

static int tern_limits_test_init(struct kunit *test)
{
	struct tern_test_dev *dev = kunit_kzalloc(test, sizeof(*dev), GFP_KERNEL);

	if (!dev)
		return -ENOMEM;

	dev->ib.core = &dev->core;
	dev->core.caps = &dev->caps;
	dev->caps.flags = cpu_to_le64(TERN_CAP_SRQ | TERN_CAP_XRC);
	dev->caps.max_cqe = cpu_to_le32(1024);
	dev->caps.max_srq_wr = cpu_to_le32(512);
	dev->caps.max_recv_sge = cpu_to_le16(8);
	test->priv = dev;
	return 0;
}

static void tern_test_limits(struct kunit *test)
{
	struct tern_rsp_caps caps = {
		.max_qp = cpu_to_le32(U32_MAX),
		.max_qp_wr = cpu_to_le32(100),
		.max_mr_size = cpu_to_le64(U64_MAX),
		.page_shift_mask = cpu_to_le64(SZ_4K | SZ_2M),
		.max_rd_atomic = cpu_to_le16(16),
		.max_send_sge = cpu_to_le16(3),
		.local_ca_ack_delay = 15,
	};
	struct ib_device_attr attr = {};

	/* ib_core counts in signed numbers. */
	KUNIT_EXPECT_EQ(test, tern_limit(cpu_to_le32(0)), 0);
	KUNIT_EXPECT_EQ(test, tern_limit(cpu_to_le32(INT_MAX)), INT_MAX);
	KUNIT_EXPECT_EQ(test, tern_limit(cpu_to_le32(1U << 31)), INT_MAX);
	KUNIT_EXPECT_EQ(test, tern_limit(cpu_to_le32(U32_MAX)), INT_MAX);

	tern_fill_limits(&caps, &attr);
	KUNIT_EXPECT_EQ(test, attr.max_qp, INT_MAX);
	KUNIT_EXPECT_EQ(test, attr.max_qp_wr, 100);
	KUNIT_EXPECT_EQ(test, attr.max_mr_size, U64_MAX);
	KUNIT_EXPECT_EQ(test, attr.page_size_cap, SZ_4K | SZ_2M);
	KUNIT_EXPECT_EQ(test, attr.max_send_sge, 3);
	KUNIT_EXPECT_EQ(test, attr.max_qp_rd_atom, 16);
	/* So many QPs with so many READs each are more than an int holds. */
	KUNIT_EXPECT_EQ(test, attr.max_res_rd_atom, INT_MAX);
	KUNIT_EXPECT_EQ(test, attr.max_pkeys, 1);
	KUNIT_EXPECT_EQ(test, attr.local_ca_ack_delay, 15);

	caps.max_qp = cpu_to_le32(10);
	tern_fill_limits(&caps, &attr);
	KUNIT_EXPECT_EQ(test, attr.max_res_rd_atom, 160);
}

static void tern_test_cq(struct kunit *test)
{
	struct tern_test_dev *dev = test->priv;
	const size_t record = sizeof(struct tern_cq_record);
	const size_t entry = sizeof(struct tern_cqe);
	struct ib_cq_init_attr attr = { .cqe = 100 };
	const struct tern_ureq_create_cq good = {
		.log_size = 7, .buf_len = 128 * entry + record,
	};
	struct tern_ureq_create_cq req;
	unsigned int i;

	KUNIT_EXPECT_EQ(test, tern_check_create_cq(&dev->ib, &attr, &good), 0);

#define TERN_EXPECT(want, field, value) do {				\
	req = good;							\
	req.field = value;						\
	KUNIT_EXPECT_EQ(test, tern_check_create_cq(&dev->ib, &attr, &req), want); \
} while (0)

	/* Fewer entries than were asked for, a buffer too short or far too long. */
	TERN_EXPECT(-EINVAL, log_size, 6);
	TERN_EXPECT(-EINVAL, log_size, 0);
	TERN_EXPECT(-EINVAL, buf_len, 128 * entry);
	TERN_EXPECT(-EINVAL, buf_len, SZ_1M);
	TERN_EXPECT(-EINVAL, buf_len, U64_MAX);
	TERN_EXPECT(-EINVAL, reserved_a0[0], 1);
#undef TERN_EXPECT

	for (i = 0; i <= U8_MAX; i++) {
		req = good;
		req.log_size = i;
		if (i != 7)
			KUNIT_EXPECT_EQ_MSG(test,
					    tern_check_create_cq(&dev->ib, &attr, &req),
					    -EINVAL, "size %u", i);
	}

	attr.cqe = 1025;
	KUNIT_EXPECT_EQ(test, tern_check_create_cq(&dev->ib, &attr, &good), -EINVAL);
	attr.cqe = 100;
	attr.flags = IB_UVERBS_CQ_FLAGS_IGNORE_OVERRUN;
	KUNIT_EXPECT_EQ(test, tern_check_create_cq(&dev->ib, &attr, &good),
			-EOPNOTSUPP);
}

static void tern_test_srq(struct kunit *test)
{
	struct tern_test_dev *dev = test->priv;
	const struct ib_srq_init_attr good = {
		.srq_type = IB_SRQT_BASIC,
		.attr = { .max_wr = 512, .max_sge = 8 },
	};
	struct ib_srq_init_attr attr = good;

	KUNIT_EXPECT_EQ(test, tern_check_create_srq(&dev->ib, &attr), 0);
	attr.attr.max_wr = 513;
	KUNIT_EXPECT_EQ(test, tern_check_create_srq(&dev->ib, &attr), -EINVAL);
	attr.attr.max_wr = 0;
	KUNIT_EXPECT_EQ(test, tern_check_create_srq(&dev->ib, &attr), -EINVAL);
	attr = good;
	attr.attr.max_sge = 9;
	KUNIT_EXPECT_EQ(test, tern_check_create_srq(&dev->ib, &attr), -EINVAL);

	attr = good;
	attr.srq_type = IB_SRQT_TM;
	KUNIT_EXPECT_EQ(test, tern_check_create_srq(&dev->ib, &attr), -EOPNOTSUPP);

	attr.srq_type = IB_SRQT_XRC;
	KUNIT_EXPECT_EQ(test, tern_check_create_srq(&dev->ib, &attr), -EINVAL);
	attr.ext.cq = &dev->cq;
	KUNIT_EXPECT_EQ(test, tern_check_create_srq(&dev->ib, &attr), -EINVAL);
	attr.ext.xrc.xrcd = &dev->xrcd;
	KUNIT_EXPECT_EQ(test, tern_check_create_srq(&dev->ib, &attr), 0);
	dev->caps.flags = cpu_to_le64(TERN_CAP_SRQ);
	KUNIT_EXPECT_EQ(test, tern_check_create_srq(&dev->ib, &attr), -EOPNOTSUPP);
}

static void tern_test_srq_size(struct kunit *test)
{
	struct tern_test_dev *dev = test->priv;
	const u64 len = 16 * 64 + sizeof(struct tern_srq_record);
	unsigned int i;

	KUNIT_EXPECT_TRUE(test, tern_srq_size_ok(&dev->ib, len, 4, 6, 16));
	KUNIT_EXPECT_FALSE(test, tern_srq_size_ok(&dev->ib, len, 4, 6, 17));
	KUNIT_EXPECT_FALSE(test, tern_srq_size_ok(&dev->ib, len - 64, 4, 6, 16));
	KUNIT_EXPECT_FALSE(test, tern_srq_size_ok(&dev->ib, len, 4, 7, 16));
	for (i = 10; i <= U8_MAX; i++)
		KUNIT_EXPECT_FALSE_MSG(test, tern_srq_size_ok(&dev->ib, len, i, 6, 1),
				       "size %u", i);
}

static struct kunit_case tern_ib_limits_cases[] = {
	KUNIT_CASE(tern_test_limits),
	KUNIT_CASE(tern_test_cq),
	KUNIT_CASE(tern_test_srq),
	KUNIT_CASE(tern_test_srq_size),
	{}
};

static struct kunit_suite tern_ib_limits_suite = {
	.name = "tern_ib_limits",
	.init = tern_limits_test_init,
	.test_cases = tern_ib_limits_cases,
};

kunit_test_suite(tern_ib_limits_suite);

MODULE_DESCRIPTION("KUnit tests of the limits of tern's CQs and SRQs");
MODULE_LICENSE("Dual BSD/GPL");
