// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Tests of tern_ib_limits.c: device limits and capabilities. */

#include <kunit/test.h>
#include <linux/module.h>
#include <linux/sizes.h>

#include "tern_ib.h"
#include "tern_ib_limits.h"

MODULE_IMPORT_NS("EXPORTED_FOR_KUNIT_TESTING");

/* A device in memory. */
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
	const struct tern_core core = { .caps = &caps, .num_comp_vectors = 1 };
	struct ib_device_attr attr = {};

	/* ib_core uses signed numbers. */
	KUNIT_EXPECT_EQ(test, tern_limit(cpu_to_le32(0)), 0);
	KUNIT_EXPECT_EQ(test, tern_limit(cpu_to_le32(INT_MAX)), INT_MAX);
	KUNIT_EXPECT_EQ(test, tern_limit(cpu_to_le32(1U << 31)), INT_MAX);
	KUNIT_EXPECT_EQ(test, tern_limit(cpu_to_le32(U32_MAX)), INT_MAX);

	tern_fill_limits(&core, &attr);
	KUNIT_EXPECT_EQ(test, attr.max_qp, INT_MAX);
	KUNIT_EXPECT_EQ(test, attr.max_qp_wr, 100);
	KUNIT_EXPECT_EQ(test, attr.max_mr_size, U64_MAX);
	KUNIT_EXPECT_EQ(test, attr.page_size_cap, SZ_4K | SZ_2M);
	KUNIT_EXPECT_EQ(test, attr.max_send_sge, 3);
	KUNIT_EXPECT_EQ(test, attr.max_qp_rd_atom, 16);
	/* The product of QPs and READs per QP exceeds an int. */
	KUNIT_EXPECT_EQ(test, attr.max_res_rd_atom, INT_MAX);
	KUNIT_EXPECT_EQ(test, attr.max_pkeys, 1);
	KUNIT_EXPECT_EQ(test, attr.local_ca_ack_delay, 15);

	caps.max_qp = cpu_to_le32(10);
	tern_fill_limits(&core, &attr);
	KUNIT_EXPECT_EQ(test, attr.max_res_rd_atom, 160);
}

/* Users can create max_cq CQs, and the netdev two for each of its channels. */
static void tern_test_cqs(struct kunit *test)
{
	static const struct {
		u32 max_cq, num_vectors, per_vector, sum;
	} cases[] = {
		{ 16384, 16, 1022, 16352 },
		{ 16384, 5, 3270, 16350 },
		{ 48, 16, 1, 16 },
		/* RDMA cannot do without. */
		{ 1, 2, 1, 1 },
		{ U32_MAX, 1, U32_MAX - 32, INT_MAX },
	};
	struct tern_rsp_caps caps = { .max_eth_queues = cpu_to_le16(16) };
	struct tern_core core = { .caps = &caps };
	struct ib_device_attr attr = {};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		caps.max_cq = cpu_to_le32(cases[i].max_cq);
		core.num_comp_vectors = cases[i].num_vectors;
		KUNIT_EXPECT_EQ(test, tern_cqs_per_vector(&core), cases[i].per_vector);
		tern_fill_limits(&core, &attr);
		KUNIT_EXPECT_EQ(test, attr.max_cq, cases[i].sum);
	}
}

/* Each capability bit enables its own attributes only. */
static void tern_test_optional(struct kunit *test)
{
	struct tern_test_dev *dev = test->priv;
	struct ib_device_attr *attr = kunit_kzalloc(test, sizeof(*attr), GFP_KERNEL);
	u64 bit;

	KUNIT_ASSERT_NOT_NULL(test, attr);
	dev->caps.max_fast_reg_pages = cpu_to_le32(512);
	dev->caps.max_mcast_grp = cpu_to_le32(20);
	dev->caps.max_mcast_qp_attach = cpu_to_le32(30);
	dev->caps.max_srq = cpu_to_le32(U32_MAX);
	dev->caps.max_mw = cpu_to_le32(65536);
	/* The last page is incomplete. */
	dev->core.dm_size = SZ_16M + SZ_1K;

	for (bit = 1; bit; bit <<= 1) {
		dev->caps.flags = cpu_to_le64(bit);
		memset(attr, 0, sizeof(*attr));
		tern_fill_optional(&dev->ib, attr);

		KUNIT_EXPECT_EQ(test, attr->atomic_cap,
				bit == TERN_CAP_ATOMIC ? IB_ATOMIC_HCA : IB_ATOMIC_NONE);
		KUNIT_EXPECT_EQ(test, attr->max_ah, bit == TERN_CAP_UD ? INT_MAX : 0);
		KUNIT_EXPECT_EQ(test, !!(attr->kernel_cap_flags & IBK_BLOCK_MULTICAST_LOOPBACK),
				bit == TERN_CAP_UD_NO_LOOPBACK);
		KUNIT_EXPECT_EQ(test, attr->max_fast_reg_page_list_len,
				bit == TERN_CAP_FRWR ? 512 : 0);
		KUNIT_EXPECT_EQ(test, attr->max_mcast_grp,
				bit == TERN_CAP_MCAST ? 20 : 0);
		KUNIT_EXPECT_EQ(test, attr->max_mcast_qp_attach,
				bit == TERN_CAP_MCAST ? 30 : 0);
		KUNIT_EXPECT_EQ(test, attr->max_total_mcast_qp_attach,
				bit == TERN_CAP_MCAST ? 600 : 0);
		KUNIT_EXPECT_EQ(test, attr->max_srq,
				bit == TERN_CAP_SRQ ? INT_MAX : 0);
		KUNIT_EXPECT_EQ(test, attr->max_srq_wr, bit == TERN_CAP_SRQ ? 512 : 0);
		KUNIT_EXPECT_EQ(test, attr->max_srq_sge, bit == TERN_CAP_SRQ ? 8 : 0);
		KUNIT_EXPECT_EQ(test, attr->device_cap_flags,
				(bit == TERN_CAP_FRWR ? IB_DEVICE_MEM_MGT_EXTENSIONS : 0) |
#ifndef TERN_WITHOUT_RESIZE
				(bit == TERN_CAP_SRQ_RESIZE ? IB_DEVICE_SRQ_RESIZE : 0) |
#endif
#ifndef TERN_WITHOUT_XRC
				(bit == TERN_CAP_XRC ? IB_DEVICE_XRC : 0) |
#endif
				(bit == TERN_CAP_FLUSH ? IB_DEVICE_FLUSH_GLOBAL : 0) |
				(bit == TERN_CAP_ATOMIC_WRITE ? IB_DEVICE_ATOMIC_WRITE : 0) |
				(bit == TERN_CAP_MW_TYPE_1 ? IB_DEVICE_MEM_WINDOW : 0) |
				(bit == TERN_CAP_MW_TYPE_2A ? IB_DEVICE_MEM_WINDOW_TYPE_2A : 0) |
#ifndef TERN_WITHOUT_APM
				(bit == TERN_CAP_APM ? IB_DEVICE_AUTO_PATH_MIG : 0) |
#endif
				(bit == TERN_CAP_MW_TYPE_2B ? IB_DEVICE_MEM_WINDOW_TYPE_2B : 0));
		KUNIT_EXPECT_EQ(test, attr->max_mw, bit & TERN_CAPS_MW ? 65536 : 0);
		KUNIT_EXPECT_EQ(test, attr->max_dm_size,
				bit == TERN_CAP_DM ? SZ_16M : 0);
#ifndef TERN_WITHOUT_MODERATE
		KUNIT_EXPECT_EQ(test, attr->cq_caps.max_cq_moderation_count,
				bit == TERN_CAP_MODERATE_CQ ? U16_MAX : 0);
		KUNIT_EXPECT_EQ(test, attr->cq_caps.max_cq_moderation_period,
				bit == TERN_CAP_MODERATE_CQ ? U16_MAX : 0);
#endif
		KUNIT_EXPECT_EQ(test, attr->timestamp_mask,
				bit == TERN_CAP_TIMESTAMP ? U64_MAX : 0);
		/* In kHz: the clock counts nanoseconds. */
		KUNIT_EXPECT_EQ(test, attr->hca_core_clock,
				bit == TERN_CAP_TIMESTAMP ? 1000000 : 0);
	}

#ifndef TERN_WITHOUT_ODP
	/* What a region on demand supports depends on the other capabilities. */
	dev->caps.flags = cpu_to_le64(TERN_CAP_ODP | TERN_CAP_ATOMIC | TERN_CAP_XRC);
	memset(attr, 0, sizeof(*attr));
	tern_fill_optional(&dev->ib, attr);
	if (IS_ENABLED(CONFIG_INFINIBAND_ON_DEMAND_PAGING)) {
		KUNIT_EXPECT_EQ(test, attr->odp_caps.general_caps,
				IB_ODP_SUPPORT | IB_ODP_SUPPORT_IMPLICIT);
		KUNIT_EXPECT_EQ(test, attr->odp_caps.per_transport_caps.rc_odp_caps,
				IB_ODP_SUPPORT_SEND | IB_ODP_SUPPORT_RECV |
				IB_ODP_SUPPORT_WRITE | IB_ODP_SUPPORT_READ |
				IB_ODP_SUPPORT_SRQ_RECV | IB_ODP_SUPPORT_ATOMIC);
		KUNIT_EXPECT_EQ(test, attr->odp_caps.per_transport_caps.xrc_odp_caps,
				attr->odp_caps.per_transport_caps.rc_odp_caps);
		KUNIT_EXPECT_EQ(test, attr->odp_caps.per_transport_caps.ud_odp_caps, 0);
		KUNIT_EXPECT_TRUE(test, attr->kernel_cap_flags & IBK_ON_DEMAND_PAGING);
	}
	dev->caps.flags &= ~cpu_to_le64(TERN_CAP_ODP);
	memset(attr, 0, sizeof(*attr));
	tern_fill_optional(&dev->ib, attr);
	KUNIT_EXPECT_EQ(test, attr->odp_caps.general_caps, 0);
	KUNIT_EXPECT_FALSE(test, attr->kernel_cap_flags & IBK_ON_DEMAND_PAGING);

#endif
	/* Existing flags stay. Groups times QPs exceeds an int. */
	dev->caps.flags = cpu_to_le64(TERN_CAP_FLUSH | TERN_CAP_MCAST);
	dev->caps.max_mcast_grp = cpu_to_le32(U32_MAX);
	dev->caps.max_mcast_qp_attach = cpu_to_le32(U32_MAX);
	memset(attr, 0, sizeof(*attr));
	attr->device_cap_flags = IB_DEVICE_SYS_IMAGE_GUID;
	tern_fill_optional(&dev->ib, attr);
	KUNIT_EXPECT_EQ(test, attr->device_cap_flags,
			IB_DEVICE_SYS_IMAGE_GUID | IB_DEVICE_FLUSH_GLOBAL);
	KUNIT_EXPECT_EQ(test, attr->max_total_mcast_qp_attach, INT_MAX);
}

/* The list of a fast registration is one page, even if the device reads more. */
static void tern_test_fast_reg(struct kunit *test)
{
	const u32 max = PAGE_SIZE / sizeof(__le64);
	const u32 cases[][2] = {
		{ 0, 0 }, { 1, 1 }, { 511, 511 }, { max, max },
		{ max + 1, max }, { U32_MAX, max },
	};
	struct tern_rsp_caps caps = {};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		caps.max_fast_reg_pages = cpu_to_le32(cases[i][0]);
		KUNIT_EXPECT_EQ_MSG(test, tern_max_fast_reg_pages(&caps),
				    cases[i][1], "device reads %u", cases[i][0]);
	}
}

static void tern_test_uctx_caps(struct kunit *test)
{
	struct tern_test_dev *dev = test->priv;
	u64 bit;

	for (bit = 1; bit; bit <<= 1) {
		u32 want = 0;

		if (bit & (TERN_CAP_FRWR | TERN_CAPS_MW_2))
			want |= TERN_UCTX_CAP_SEND_INV;
		if (bit & TERN_CAPS_MW)
			want |= TERN_UCTX_CAP_MW;
		if (bit == TERN_CAP_MW_TYPE_2A)
			want |= TERN_UCTX_CAP_MW_2A;
		if (bit == TERN_CAP_TIMESTAMP)
			want |= TERN_UCTX_CAP_TIMESTAMP;
		if (bit == TERN_CAP_FLUSH)
			want |= TERN_UCTX_CAP_FLUSH;
		if (bit == TERN_CAP_ATOMIC_WRITE)
			want |= TERN_UCTX_CAP_ATOMIC_WRITE;
		if (bit == TERN_CAP_UD_NO_LOOPBACK)
			want |= TERN_UCTX_CAP_UD_NO_LOOPBACK;
#ifndef TERN_WITHOUT_ECE
		if (bit == TERN_CAP_ECE)
			want |= TERN_UCTX_CAP_ECE;
#endif
#ifndef TERN_WITHOUT_RATE
		if (bit == TERN_CAP_RATE_LIMIT)
			want |= TERN_UCTX_CAP_RATE_LIMIT;
#endif
#ifndef TERN_WITHOUT_DV
		if (bit == TERN_CAP_DM_OPS)
			want |= TERN_UCTX_CAP_DM_OPS;
		if (bit == TERN_CAP_UDP_SPORT)
			want |= TERN_UCTX_CAP_UDP_SPORT;
#endif
		dev->caps.flags = cpu_to_le64(bit);
		KUNIT_EXPECT_EQ_MSG(test, tern_uctx_caps(&dev->ib), want,
				    "capability %#llx", bit);
	}
	dev->caps.flags = cpu_to_le64(U64_MAX);
	KUNIT_EXPECT_EQ(test, tern_uctx_caps(&dev->ib),
			TERN_UCTX_CAP_SEND_INV | TERN_UCTX_CAP_MW |
			TERN_UCTX_CAP_MW_2A | TERN_UCTX_CAP_TIMESTAMP |
			TERN_UCTX_CAP_FLUSH | TERN_UCTX_CAP_ATOMIC_WRITE |
#ifndef TERN_WITHOUT_RAW
			TERN_UCTX_CAP_RAW_OFFLOAD |
#endif
#ifndef TERN_WITHOUT_RSS
			TERN_UCTX_CAP_RSS | TERN_UCTX_CAP_RSS_TUNNEL |
#endif
#ifndef TERN_WITHOUT_ECE
			TERN_UCTX_CAP_ECE |
#endif
#ifndef TERN_WITHOUT_RATE
			TERN_UCTX_CAP_RATE_LIMIT |
#endif
#ifndef TERN_WITHOUT_DV
			TERN_UCTX_CAP_DM_OPS | TERN_UCTX_CAP_UDP_SPORT |
#endif
			TERN_UCTX_CAP_UD_NO_LOOPBACK);
#ifndef TERN_WITHOUT_RSS
	dev->caps.flags = cpu_to_le64(TERN_CAP_RAW_QP | TERN_CAP_STEERING);
	KUNIT_EXPECT_EQ(test, tern_uctx_caps(&dev->ib), TERN_UCTX_CAP_RSS);
#endif
	dev->caps.flags = 0;
	KUNIT_EXPECT_EQ(test, tern_uctx_caps(&dev->ib), 0);
}

static void tern_test_cq(struct kunit *test)
{
	struct tern_test_dev *dev = test->priv;
	const size_t entry = sizeof(struct tern_cqe);
	struct ib_cq_init_attr attr = { .cqe = 100 };
	const struct tern_ureq_create_cq good = {
		.log_size = 7, .buf_len = 128 * entry,
	};
	struct tern_ureq_create_cq req;
	unsigned int i;

	KUNIT_EXPECT_EQ(test, tern_check_create_cq(&dev->ib, &attr, &good), 0);

#define TERN_EXPECT(want, field, value) do {				\
	req = good;							\
	req.field = value;						\
	KUNIT_EXPECT_EQ(test, tern_check_create_cq(&dev->ib, &attr, &req), want); \
} while (0)

	/* Too few entries, a buffer that is too short or far too long. */
	TERN_EXPECT(-EINVAL, log_size, 6);
	TERN_EXPECT(-EINVAL, log_size, 0);
	TERN_EXPECT(-EINVAL, buf_len, 128 * entry - 1);
	TERN_EXPECT(-EINVAL, buf_len, SZ_1M);
	TERN_EXPECT(-EINVAL, buf_len, U64_MAX);
	TERN_EXPECT(-EINVAL, reserved_e0[0], 1);
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

	/* A device without CQEs. */
	dev->caps.max_cqe = 0;
	attr = (struct ib_cq_init_attr){};
	for (i = 0; i <= U8_MAX; i++) {
		req.log_size = i;
		req.buf_len = (u64)entry << (i % BITS_PER_TYPE(u64));
		KUNIT_EXPECT_EQ_MSG(test, tern_check_create_cq(&dev->ib, &attr, &req),
				    -EINVAL, "size %u", i);
	}
}

static void tern_test_cq_flags(struct kunit *test)
{
	struct tern_test_dev *dev = test->priv;
	u64 bit;

	for (bit = 1; bit; bit <<= 1) {
		u32 want = 0;

		if (bit == TERN_CAP_TIMESTAMP)
			want = IB_UVERBS_CQ_FLAGS_TIMESTAMP_COMPLETION;
		if (bit == TERN_CAP_IGNORE_OVERRUN)
			want = IB_UVERBS_CQ_FLAGS_IGNORE_OVERRUN;
		dev->caps.flags = cpu_to_le64(bit);
		KUNIT_EXPECT_EQ_MSG(test, tern_user_cq_flags(&dev->ib), want,
				    "capability %#llx", bit);
	}
	dev->caps.flags = cpu_to_le64(U64_MAX);
	KUNIT_EXPECT_EQ(test, tern_user_cq_flags(&dev->ib),
			IB_UVERBS_CQ_FLAGS_TIMESTAMP_COMPLETION |
			IB_UVERBS_CQ_FLAGS_IGNORE_OVERRUN);
}

static void tern_test_cq_size(struct kunit *test)
{
	struct tern_test_dev *dev = test->priv;
	const u64 len = 16 * sizeof(struct tern_cqe);

	KUNIT_EXPECT_TRUE(test, tern_cq_size_ok(&dev->ib, len, 4, 16));
	KUNIT_EXPECT_TRUE(test, tern_cq_size_ok(&dev->ib, len, 4, 1));
	KUNIT_EXPECT_TRUE(test, tern_cq_size_ok(&dev->ib, ALIGN(len, PAGE_SIZE), 4, 16));
	KUNIT_EXPECT_FALSE(test, tern_cq_size_ok(&dev->ib, len, 4, 17));
	KUNIT_EXPECT_FALSE(test, tern_cq_size_ok(&dev->ib, len - 64, 4, 16));
	KUNIT_EXPECT_FALSE(test, tern_cq_size_ok(&dev->ib, PAGE_SIZE + 1, 4, 16));
	KUNIT_EXPECT_FALSE(test, tern_cq_size_ok(&dev->ib, len, 0, 1));
	/* User input is not used as a shift count unless it is in range. */
	KUNIT_EXPECT_FALSE(test, tern_cq_size_ok(&dev->ib, len, 11, 16));
	KUNIT_EXPECT_FALSE(test, tern_cq_size_ok(&dev->ib, len, 64, 16));
	KUNIT_EXPECT_FALSE(test, tern_cq_size_ok(&dev->ib, len, U32_MAX, 16));
	KUNIT_EXPECT_FALSE(test, tern_cq_size_ok(&dev->ib, len, 4, U32_MAX));
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
}

#ifndef TERN_WITHOUT_XRC
static void tern_test_srq_xrc(struct kunit *test)
{
	struct tern_test_dev *dev = test->priv;
	struct ib_srq_init_attr attr = {
		.srq_type = IB_SRQT_XRC,
		.attr = { .max_wr = 512, .max_sge = 8 },
	};

	KUNIT_EXPECT_EQ(test, tern_check_create_srq(&dev->ib, &attr), -EINVAL);
	attr.ext.cq = &dev->cq;
	KUNIT_EXPECT_EQ(test, tern_check_create_srq(&dev->ib, &attr), -EINVAL);
	attr.ext.xrc.xrcd = &dev->xrcd;
	KUNIT_EXPECT_EQ(test, tern_check_create_srq(&dev->ib, &attr), 0);
	dev->caps.flags = cpu_to_le64(TERN_CAP_SRQ);
	KUNIT_EXPECT_EQ(test, tern_check_create_srq(&dev->ib, &attr), -EOPNOTSUPP);
}

#endif
#ifndef TERN_WITHOUT_TM
static void tern_test_srq_tags(struct kunit *test)
{
	struct tern_test_dev *dev = test->priv;
	struct ib_srq_init_attr attr = {
		.srq_type = IB_SRQT_TM,
		.attr = { .max_wr = 512, .max_sge = 8 },
		.ext = { .cq = &dev->cq, .tag_matching.max_num_tags = 100 },
	};

	/* The device has no tag matching. */
	KUNIT_EXPECT_EQ(test, tern_check_create_srq(&dev->ib, &attr), -EOPNOTSUPP);
	KUNIT_EXPECT_FALSE(test, tern_uctx_caps(&dev->ib) & TERN_UCTX_CAP_TM);

	dev->caps.max_tags = cpu_to_le16(100);
	KUNIT_EXPECT_EQ(test, tern_check_create_srq(&dev->ib, &attr), 0);
	KUNIT_EXPECT_TRUE(test, tern_uctx_caps(&dev->ib) & TERN_UCTX_CAP_TM);
	attr.ext.tag_matching.max_num_tags = 101;
	KUNIT_EXPECT_EQ(test, tern_check_create_srq(&dev->ib, &attr), -EINVAL);
	attr.ext.tag_matching.max_num_tags = 0;
	KUNIT_EXPECT_EQ(test, tern_check_create_srq(&dev->ib, &attr), -EINVAL);
	attr.ext.tag_matching.max_num_tags = 1;
	attr.ext.cq = NULL;
	KUNIT_EXPECT_EQ(test, tern_check_create_srq(&dev->ib, &attr), -EINVAL);
}

static void tern_test_tm_caps(struct kunit *test)
{
	struct tern_test_dev *dev = test->priv;
	struct ib_device_attr *attr = kunit_kzalloc(test, sizeof(*attr), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, attr);
	tern_fill_optional(&dev->ib, attr);
	KUNIT_EXPECT_EQ(test, attr->tm_caps.max_num_tags, 0);
	KUNIT_EXPECT_EQ(test, attr->tm_caps.flags, 0);

	dev->caps.max_tags = cpu_to_le16(100);
	tern_fill_optional(&dev->ib, attr);
	KUNIT_EXPECT_EQ(test, attr->tm_caps.max_num_tags, 100);
	KUNIT_EXPECT_EQ(test, attr->tm_caps.flags, IB_TM_CAP_RNDV_RC);
	KUNIT_EXPECT_EQ(test, attr->tm_caps.max_ops, 4096);
	KUNIT_EXPECT_EQ(test, attr->tm_caps.max_sge, 4);
	KUNIT_EXPECT_EQ(test, attr->tm_caps.max_rndv_hdr_size, 64);
}

static void tern_test_tm_ring(struct kunit *test)
{
	const struct tern_ureq_create_srq good = { .ops_len = 128 << 3, .log_ops = 3 };
	struct tern_ureq_create_srq req = good;

	KUNIT_EXPECT_TRUE(test, tern_tm_ring_ok(&req, true));
	req.ops_len--;
	KUNIT_EXPECT_FALSE(test, tern_tm_ring_ok(&req, true));
	req = good;
	req.reserved_188[6] = 1;
	KUNIT_EXPECT_FALSE(test, tern_tm_ring_ok(&req, true));

	/* Without tags there is no ring. */
	KUNIT_EXPECT_FALSE(test, tern_tm_ring_ok(&good, false));
	req = (struct tern_ureq_create_srq){};
	KUNIT_EXPECT_TRUE(test, tern_tm_ring_ok(&req, false));
	req.log_ops = 1;
	KUNIT_EXPECT_FALSE(test, tern_tm_ring_ok(&req, false));
	req = (struct tern_ureq_create_srq){ .ops_addr = 4096 };
	KUNIT_EXPECT_FALSE(test, tern_tm_ring_ok(&req, false));

	/* User input is not used as a shift count unless it is in range. */
	req = (struct tern_ureq_create_srq){ .ops_len = 128 << 12, .log_ops = 12 };
	KUNIT_EXPECT_TRUE(test, tern_tm_ring_ok(&req, true));
	req = (struct tern_ureq_create_srq){ .ops_len = 128 << 13, .log_ops = 13 };
	KUNIT_EXPECT_FALSE(test, tern_tm_ring_ok(&req, true));
	req.log_ops = 255;
	KUNIT_EXPECT_FALSE(test, tern_tm_ring_ok(&req, true));
}

#endif
static void tern_test_srq_size(struct kunit *test)
{
	struct tern_test_dev *dev = test->priv;
	const u64 len = 16 * 64;
	unsigned int i;

	KUNIT_EXPECT_TRUE(test, tern_srq_size_ok(&dev->ib, len, 4, 6, 16));
	KUNIT_EXPECT_FALSE(test, tern_srq_size_ok(&dev->ib, len, 4, 6, 17));
	KUNIT_EXPECT_FALSE(test, tern_srq_size_ok(&dev->ib, len - 64, 4, 6, 16));
	KUNIT_EXPECT_FALSE(test, tern_srq_size_ok(&dev->ib, len, 4, 7, 16));
	for (i = 10; i <= U8_MAX; i++)
		KUNIT_EXPECT_FALSE_MSG(test, tern_srq_size_ok(&dev->ib, len, i, 6, 1),
				       "size %u", i);
}

static void tern_test_alloc_dm(struct kunit *test)
{
	static const struct {
		u64 dm_size;
		u64 length;
		u32 alignment;
		int err;
	} cases[] = {
		{ SZ_16M, 1, 0, 0 },
		{ SZ_16M, SZ_16M, 24, 0 },
		{ SZ_16M, 0, 0, -EINVAL },
		{ SZ_16M, 1, 25, -EINVAL },
		{ SZ_16M, 1, 63, -EINVAL },
		{ SZ_16M, 1, U32_MAX, -EINVAL },
		{ SZ_16M, SZ_16M + 1, 0, -ENOMEM },
		{ SZ_16M, U64_MAX, 0, -ENOMEM },
		/* Neither a power of two nor a multiple of the page size. */
		{ 3 * SZ_1M + SZ_1K, 3 * SZ_1M, 22, 0 },
		{ 3 * SZ_1M + SZ_1K, 3 * SZ_1M + 1, 0, -ENOMEM },
		{ 3 * SZ_1M + SZ_1K, 1, 23, -EINVAL },
		/* A device with the capability but without the BAR. */
		{ 0, 1, 0, -EINVAL },
	};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		const struct tern_core core = { .dm_size = cases[i].dm_size };
		const struct ib_dm_alloc_attr attr = {
			.length = cases[i].length,
			.alignment = cases[i].alignment,
		};

		KUNIT_EXPECT_EQ_MSG(test, tern_check_alloc_dm(&core, &attr),
				    cases[i].err, "case %u", i);
	}
}

/* Doorbell pages outside the BAR, and the kernel's own, are rejected. */
static void tern_test_uar(struct kunit *test)
{
	static const struct {
		u64 bar_len;
		unsigned int page_shift;
		u32 uar;
		bool ok;
	} cases[] = {
		{ SZ_1M, 12, 0, false },
		{ SZ_1M, 12, 1, true },
		{ SZ_1M, 12, 255, true },
		{ SZ_1M, 12, 256, false },
		{ SZ_1M, 12, U32_MAX, false },
		/* The stride is the page size of the host. */
		{ SZ_1M, 16, 15, true },
		{ SZ_1M, 16, 16, false },
		{ SZ_4K - 1, 12, 1, false },
		{ 0, 12, 1, false },
	};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(cases); i++)
		KUNIT_EXPECT_EQ_MSG(test,
				    tern_uar_ok(cases[i].bar_len,
						cases[i].page_shift,
						cases[i].uar),
				    cases[i].ok, "case %u", i);
}

/* Invalid ranges from a faulty device are never mapped. */
static void tern_test_dm_rsp(struct kunit *test)
{
	static const struct {
		u64 offset;
		u64 size;
		u64 length;
		bool ok;
	} cases[] = {
		{ 0, PAGE_SIZE, 1, true },
		{ 0, SZ_16M, SZ_16M, true },
		{ SZ_16M - PAGE_SIZE, PAGE_SIZE, PAGE_SIZE, true },
		{ PAGE_SIZE, PAGE_SIZE, PAGE_SIZE + 1, false },
		{ 0, 0, 1, false },
		{ 64, PAGE_SIZE, 1, false },
		{ 0, PAGE_SIZE + 64, 1, false },
		{ SZ_16M, PAGE_SIZE, 1, false },
		{ PAGE_SIZE, SZ_16M, 1, false },
		{ SZ_32M, PAGE_SIZE, 1, false },
		{ -(u64)PAGE_SIZE, PAGE_SIZE, 1, false },
		{ PAGE_SIZE, -(u64)PAGE_SIZE, 1, false },
	};
	const struct tern_core core = { .dm_size = SZ_16M };
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		const struct tern_rsp_alloc_dm rsp = {
			.offset = cpu_to_le64(cases[i].offset),
			.size = cpu_to_le64(cases[i].size),
		};

		KUNIT_EXPECT_EQ_MSG(test,
				    tern_dm_rsp_ok(&core, &rsp, cases[i].length),
				    cases[i].ok, "case %u", i);
	}
}

#ifndef TERN_WITHOUT_REREG
static void tern_test_rereg_mask(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, tern_rereg_mask(0), 0);
	KUNIT_EXPECT_EQ(test, tern_rereg_mask(IB_MR_REREG_TRANS), TERN_REREG_TRANS);
	KUNIT_EXPECT_EQ(test, tern_rereg_mask(IB_MR_REREG_PD), TERN_REREG_PD);
	KUNIT_EXPECT_EQ(test, tern_rereg_mask(IB_MR_REREG_ACCESS), TERN_REREG_ACCESS);
	KUNIT_EXPECT_EQ(test, tern_rereg_mask(IB_MR_REREG_SUPPORTED),
			TERN_REREG_TRANS | TERN_REREG_PD | TERN_REREG_ACCESS);
}

#endif
static struct kunit_case tern_ib_limits_cases[] = {
	KUNIT_CASE(tern_test_limits),
	KUNIT_CASE(tern_test_cqs),
	KUNIT_CASE(tern_test_optional),
	KUNIT_CASE(tern_test_fast_reg),
	KUNIT_CASE(tern_test_uctx_caps),
	KUNIT_CASE(tern_test_cq),
	KUNIT_CASE(tern_test_cq_flags),
	KUNIT_CASE(tern_test_cq_size),
	KUNIT_CASE(tern_test_srq),
#ifndef TERN_WITHOUT_XRC
	KUNIT_CASE(tern_test_srq_xrc),
#endif
#ifndef TERN_WITHOUT_TM
	KUNIT_CASE(tern_test_srq_tags),
	KUNIT_CASE(tern_test_tm_caps),
	KUNIT_CASE(tern_test_tm_ring),
#endif
	KUNIT_CASE(tern_test_srq_size),
	KUNIT_CASE(tern_test_alloc_dm),
	KUNIT_CASE(tern_test_dm_rsp),
	KUNIT_CASE(tern_test_uar),
#ifndef TERN_WITHOUT_REREG
	KUNIT_CASE(tern_test_rereg_mask),
#endif
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
