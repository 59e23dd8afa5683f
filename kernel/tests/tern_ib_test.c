// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Tests of tern_ib.ko: conversions, page lists, send WQEs. */

#include <kunit/device.h>
#include <kunit/test.h>
#include <linux/dma-mapping.h>
#include <linux/module.h>

#include "tern_ib.h"
#include "tern_ib_ring.h"

MODULE_IMPORT_NS("EXPORTED_FOR_KUNIT_TESTING");

static void tern_test_access(struct kunit *test)
{
	static const struct {
		int ib;
		u32 tern;
	} bits[] = {
		{ IB_ACCESS_LOCAL_WRITE, TERN_ACCESS_LOCAL_WRITE },
		{ IB_ACCESS_REMOTE_WRITE, TERN_ACCESS_REMOTE_WRITE },
		{ IB_ACCESS_REMOTE_READ, TERN_ACCESS_REMOTE_READ },
		{ IB_ACCESS_REMOTE_ATOMIC, TERN_ACCESS_REMOTE_ATOMIC },
		{ IB_ACCESS_MW_BIND, TERN_ACCESS_MW_BIND },
		{ IB_ZERO_BASED, TERN_ACCESS_ZERO_BASED },
		{ IB_ACCESS_FLUSH_GLOBAL, TERN_ACCESS_FLUSH_GLOBAL },
		/* Hints. */
		{ IB_ACCESS_RELAXED_ORDERING, 0 },
		{ IB_ACCESS_HUGETLB, 0 },
	};
	unsigned int i, set;

	for (set = 0; set < BIT(ARRAY_SIZE(bits)); set++) {
		u32 want = 0;
		int ib = 0;

		for (i = 0; i < ARRAY_SIZE(bits); i++) {
			if (!(set & BIT(i)))
				continue;
			ib |= bits[i].ib;
			want |= bits[i].tern;
		}
		KUNIT_EXPECT_EQ_MSG(test, tern_mr_access(ib), want, "access %#x", ib);
	}
}

static const u8 tern_test_dgid[] = {
	0xfd, 0x77, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13,
};

static const u8 tern_test_dmac[ETH_ALEN] = { 2, 4, 6, 8, 10, 12 };

static const struct ib_gid_attr tern_test_sgid = {
	.gid_type = IB_GID_TYPE_ROCE_UDP_ENCAP,
	.index = 0x1234,
};

static void tern_test_ah_attr(struct rdma_ah_attr *attr)
{
	*attr = (struct rdma_ah_attr){
		.type = RDMA_AH_ATTR_TYPE_ROCE,
		.ah_flags = IB_AH_GRH,
		.sl = 6,
		.static_rate = 3,
		.port_num = 2,
		.grh = {
			.sgid_attr = &tern_test_sgid,
			.flow_label = 0xabcde,
			.hop_limit = 64,
			.traffic_class = 0x88,
		},
	};
	memcpy(attr->grh.dgid.raw, tern_test_dgid, sizeof(tern_test_dgid));
	memcpy(attr->roce.dmac, tern_test_dmac, sizeof(tern_test_dmac));
}

static void tern_test_av(struct kunit *test)
{
	struct rdma_ah_attr attr, back = {};
	struct tern_av av;

	tern_test_ah_attr(&attr);
	memset(&av, 0xa5, sizeof(av));
	KUNIT_ASSERT_EQ(test, tern_av_from_attr(NULL, &av, &attr, 0xc123), 0);
	KUNIT_EXPECT_MEMEQ(test, av.dgid, tern_test_dgid, sizeof(av.dgid));
	KUNIT_EXPECT_MEMEQ(test, av.dmac, tern_test_dmac, sizeof(av.dmac));
	KUNIT_EXPECT_EQ(test, le32_to_cpu(av.flow_label), 0xabcde);
	KUNIT_EXPECT_EQ(test, le16_to_cpu(av.sgid_index), 0x1234);
	KUNIT_EXPECT_EQ(test, le16_to_cpu(av.udp_sport), 0xc123);
	KUNIT_EXPECT_EQ(test, av.hop_limit, 64);
	KUNIT_EXPECT_EQ(test, av.traffic_class, 0x88);
	KUNIT_EXPECT_EQ(test, av.sl, 6);
	KUNIT_EXPECT_EQ(test, av.static_rate, 3);
	KUNIT_EXPECT_EQ(test, av.port, 2);
	KUNIT_EXPECT_NULL(test, memchr_inv(av.rsvd_23, 0, sizeof(av.rsvd_23)));
	attr.static_rate = 1;	/* no such code */
	KUNIT_EXPECT_EQ(test, tern_av_from_attr(NULL, &av, &attr, 0), -EINVAL);
	attr.static_rate = 3;

	tern_av_to_attr(&av, &back);
	KUNIT_EXPECT_EQ(test, back.type, attr.type);
	KUNIT_EXPECT_EQ(test, back.sl, attr.sl);
	KUNIT_EXPECT_EQ(test, back.static_rate, attr.static_rate);
	KUNIT_EXPECT_EQ(test, back.port_num, 2);
	KUNIT_EXPECT_EQ(test, back.ah_flags, IB_AH_GRH);
	KUNIT_EXPECT_MEMEQ(test, back.grh.dgid.raw, tern_test_dgid,
			   sizeof(tern_test_dgid));
	KUNIT_EXPECT_EQ(test, back.grh.flow_label, attr.grh.flow_label);
	KUNIT_EXPECT_EQ(test, back.grh.sgid_index, 0x34);
	KUNIT_EXPECT_EQ(test, back.grh.hop_limit, attr.grh.hop_limit);
	KUNIT_EXPECT_EQ(test, back.grh.traffic_class, attr.grh.traffic_class);
	KUNIT_EXPECT_MEMEQ(test, back.roce.dmac, tern_test_dmac,
			   sizeof(tern_test_dmac));

	/* The flow label has 20 bits on the wire. */
	attr.grh.flow_label = U32_MAX;
	KUNIT_ASSERT_EQ(test, tern_av_from_attr(NULL, &av, &attr, 0), 0);
	KUNIT_EXPECT_EQ(test, le32_to_cpu(av.flow_label), 0xfffff);
}

static void tern_test_av_refused(struct kunit *test)
{
	static const struct ib_gid_attr v1 = { .gid_type = IB_GID_TYPE_ROCE };
	struct rdma_ah_attr attr;
	struct tern_av av;

	tern_test_ah_attr(&attr);
	attr.type = RDMA_AH_ATTR_TYPE_IB;
	KUNIT_EXPECT_EQ(test, tern_av_from_attr(NULL, &av, &attr, 0), -EINVAL);

	tern_test_ah_attr(&attr);
	attr.ah_flags = 0;
	KUNIT_EXPECT_EQ(test, tern_av_from_attr(NULL, &av, &attr, 0), -EINVAL);

	tern_test_ah_attr(&attr);
	attr.grh.sgid_attr = NULL;
	KUNIT_EXPECT_EQ(test, tern_av_from_attr(NULL, &av, &attr, 0), -EINVAL);

	tern_test_ah_attr(&attr);
	attr.grh.sgid_attr = &v1;
	KUNIT_EXPECT_EQ(test, tern_av_from_attr(NULL, &av, &attr, 0), -EINVAL);
}

static struct device *tern_test_dma_dev(struct kunit *test)
{
	struct device *dev = kunit_device_register(test, "tern_dma");
	u64 *mask = kunit_kzalloc(test, sizeof(*mask), GFP_KERNEL);

	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, dev);
	KUNIT_ASSERT_NOT_NULL(test, mask);
	*mask = DMA_BIT_MASK(64);
	dev->dma_mask = mask;
	dev->coherent_dma_mask = *mask;
	return dev;
}

/* Address of page @i of a list; any unique number. */
static u64 tern_test_page(u32 i)
{
	return 0x1000000000ULL + (u64)i * PAGE_SIZE;
}

/* Checks a list of @num pages; callers use the boundaries of each kind. */
static void tern_test_list(struct kunit *test, struct device *dev, u32 num)
{
	struct tern_table table;
	struct tern_pages pages;
	bool full = false;
	u32 i, wrong = 0;

	KUNIT_ASSERT_EQ(test, tern_table_init(&table, dev, num), 0);
	for (i = 0; i < num; i++) {
		KUNIT_EXPECT_FALSE_MSG(test, full, "full before entry %u", i);
		full = tern_table_add(&table, tern_test_page(i));
	}
	KUNIT_EXPECT_TRUE_MSG(test, full, "%u pages", num);

	KUNIT_ASSERT_EQ(test, tern_table_map(&table, PAGE_SHIFT, &pages), 0);
	KUNIT_EXPECT_EQ(test, le32_to_cpu(pages.num), num);
	KUNIT_EXPECT_EQ(test, pages.page_shift, PAGE_SHIFT);
	KUNIT_EXPECT_EQ_MSG(test, pages.kind, num > TERN_PAGES_CHUNK ?
			    TERN_PAGES_INDIRECT : TERN_PAGES_LIST, "%u pages", num);
	KUNIT_EXPECT_EQ(test, le64_to_cpu(pages.addr), num > TERN_PAGES_CHUNK ?
			table.root.dma : table.chunks[0].dma);

	for (i = 0; i < num; i++) {
		struct tern_chunk *chunk = &table.chunks[i / TERN_PAGES_CHUNK];

		wrong += le64_to_cpu(chunk->entry[i % TERN_PAGES_CHUNK]) !=
			 tern_test_page(i);
	}
	KUNIT_EXPECT_EQ_MSG(test, wrong, 0, "%u pages", num);
	for (i = 0; num > TERN_PAGES_CHUNK && i < table.num_chunks; i++)
		KUNIT_EXPECT_EQ(test, le64_to_cpu(table.root.entry[i]),
				table.chunks[i].dma);

	tern_table_free(&table);
	KUNIT_EXPECT_NULL(test, table.chunks);
	/* A second call is harmless. */
	tern_table_free(&table);
}

static void tern_test_table(struct kunit *test)
{
	static const u32 nums[] = {
		1, 2, TERN_PAGES_CHUNK - 1, TERN_PAGES_CHUNK, TERN_PAGES_CHUNK + 1,
		3 * TERN_PAGES_CHUNK, TERN_TABLE_MAX - 1, TERN_TABLE_MAX,
	};
	struct device *dev = tern_test_dma_dev(test);
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(nums); i++)
		tern_test_list(test, dev, nums[i]);
}

/*
 * A table has room for at least one entry, and for at most what the device
 * reads at once.
 */
static void tern_test_table_limit(struct kunit *test)
{
	static const u32 limits[][2] = {
		{ 0, 1 }, { 1, 1 }, { 700, 700 }, { TERN_TABLE_MAX - 1, TERN_TABLE_MAX - 1 },
		{ TERN_TABLE_MAX + 1, TERN_TABLE_MAX }, { U32_MAX, TERN_TABLE_MAX },
	};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(limits); i++) {
		const struct tern_rsp_caps caps = {
			.max_cmd_pages = cpu_to_le32(limits[i][0]),
		};

		KUNIT_EXPECT_EQ_MSG(test, tern_table_limit(&caps), limits[i][1],
				    "max_cmd_pages %u", limits[i][0]);
	}
}

/*
 * A list longer than the table takes several rounds. tern_table_add() reports
 * the end of each.
 */
static void tern_test_rounds_of(struct kunit *test, struct device *dev, u32 max)
{
	struct tern_table table;
	struct tern_pages pages;
	unsigned int round;
	u32 i;

	KUNIT_ASSERT_EQ(test, tern_table_init(&table, dev, max), 0);
	KUNIT_EXPECT_EQ(test, table.num_chunks, DIV_ROUND_UP(max, TERN_PAGES_CHUNK));
	for (round = 0; round < 2; round++) {
		for (i = 0; i < max; i++)
			if (tern_table_add(&table, tern_test_page(i)))
				break;
		KUNIT_EXPECT_EQ(test, i, max - 1);
		KUNIT_ASSERT_EQ(test, tern_table_map(&table, PAGE_SHIFT, &pages), 0);
		KUNIT_EXPECT_EQ(test, le32_to_cpu(pages.num), max);
		tern_table_reset(&table);
	}
	/* The last round is shorter. */
	tern_table_add(&table, tern_test_page(0));
	KUNIT_ASSERT_EQ(test, tern_table_map(&table, PAGE_SHIFT, &pages), 0);
	KUNIT_EXPECT_EQ(test, le32_to_cpu(pages.num), 1);
	KUNIT_EXPECT_EQ(test, pages.kind, TERN_PAGES_LIST);
	tern_table_free(&table);
}

static void tern_test_table_rounds(struct kunit *test)
{
	static const u32 sizes[] = { 1, 511, 512, 513, 700, TERN_TABLE_MAX };
	struct device *dev = tern_test_dma_dev(test);
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(sizes); i++)
		tern_test_rounds_of(test, dev, sizes[i]);
}

static void tern_test_segments(struct kunit *test)
{
	struct tern_ah ah = { .av = { .hop_limit = 9 } };
	struct ib_rdma_wr rdma = { .remote_addr = 0x1122334455667788, .rkey = 0x99 };
	struct ib_ud_wr ud = { .ah = &ah.ibah, .remote_qpn = 7, .remote_qkey = 0x11 };
	struct ib_atomic_wr atomic = {
		.remote_addr = 0x1000, .rkey = 5, .compare_add = 0xc0, .swap = 0x5a,
	};
	union {
		struct tern_rdma_seg rdma;
		struct tern_atomic_seg atomic;
		struct tern_ud_seg ud;
	} seg;
	void *end;

	rdma.wr.opcode = IB_WR_RDMA_WRITE;
	end = tern_fill_segment(IB_QPT_RC, TERN_WR_RDMA_WRITE, &seg, &rdma.wr);
	KUNIT_EXPECT_PTR_EQ(test, end, (void *)(&seg.rdma + 1));
	KUNIT_EXPECT_EQ(test, le64_to_cpu(seg.rdma.raddr), 0x1122334455667788);
	KUNIT_EXPECT_EQ(test, le32_to_cpu(seg.rdma.rkey), 0x99);

	atomic.wr.opcode = IB_WR_ATOMIC_CMP_AND_SWP;
	end = tern_fill_segment(IB_QPT_RC, TERN_WR_ATOMIC_CMP_AND_SWP, &seg, &atomic.wr);
	KUNIT_EXPECT_PTR_EQ(test, end, (void *)(&seg.atomic + 1));
	KUNIT_EXPECT_EQ(test, le64_to_cpu(seg.atomic.swap_add), 0x5a);
	KUNIT_EXPECT_EQ(test, le64_to_cpu(seg.atomic.compare), 0xc0);

	/*
	 * For the other atomic, the operand is where ib_core has the compare
	 * value of CMP_AND_SWP.
	 */
	atomic.wr.opcode = IB_WR_ATOMIC_FETCH_AND_ADD;
	tern_fill_segment(IB_QPT_RC, TERN_WR_ATOMIC_FETCH_AND_ADD, &seg, &atomic.wr);
	KUNIT_EXPECT_EQ(test, le64_to_cpu(seg.atomic.swap_add), 0xc0);
	KUNIT_EXPECT_EQ(test, seg.atomic.compare, 0);

	/* A send has a segment only on a QP without a connection. */
	ud.wr.opcode = IB_WR_SEND;
	end = tern_fill_segment(IB_QPT_UD, TERN_WR_SEND, &seg, &ud.wr);
	KUNIT_EXPECT_PTR_EQ(test, end, (void *)(&seg.ud + 1));
	KUNIT_EXPECT_EQ(test, le32_to_cpu(seg.ud.dqpn), 7);
	KUNIT_EXPECT_EQ(test, le32_to_cpu(seg.ud.qkey), 0x11);
	KUNIT_EXPECT_EQ(test, seg.ud.av.hop_limit, 9);
	end = tern_fill_segment(IB_QPT_UC, TERN_WR_SEND, &seg, &ud.wr);
	KUNIT_EXPECT_PTR_EQ(test, end, (void *)&seg);
}

static void tern_test_segment_reg(struct kunit *test)
{
	struct tern_mr *mr = kunit_kzalloc(test, sizeof(*mr), GFP_KERNEL);
	struct ib_reg_wr reg = { .key = 0xabcd, .access = IB_ACCESS_REMOTE_READ };
	struct tern_reg_seg seg;
	void *end;

	KUNIT_ASSERT_NOT_NULL(test, mr);
	mr->ibmr.iova = 0x7000000123;
	mr->ibmr.length = 0x5000;
	mr->page_list.dma = 0x12340000;
	mr->num_pages = 6;
	mr->page_shift = 12;
	mr->first_offset = 0x123;
	reg.mr = &mr->ibmr;
	reg.wr.opcode = IB_WR_REG_MR;

	end = tern_fill_segment(IB_QPT_RC, TERN_WR_REG_MR, &seg, &reg.wr);
	KUNIT_EXPECT_PTR_EQ(test, end, (void *)(&seg + 1));
	KUNIT_EXPECT_EQ(test, le64_to_cpu(seg.iova), 0x7000000123);
	KUNIT_EXPECT_EQ(test, le64_to_cpu(seg.length), 0x5000);
	KUNIT_EXPECT_EQ(test, le64_to_cpu(seg.pages), 0x12340000);
	KUNIT_EXPECT_EQ(test, le32_to_cpu(seg.num_pages), 6);
	KUNIT_EXPECT_EQ(test, le32_to_cpu(seg.key), 0xabcd);
	KUNIT_EXPECT_EQ(test, le32_to_cpu(seg.access), TERN_ACCESS_REMOTE_READ);
	KUNIT_EXPECT_EQ(test, seg.page_shift, 12);
	KUNIT_EXPECT_EQ(test, le64_to_cpu(seg.first_offset), 0x123);
}

static void tern_test_inline(struct kunit *test)
{
	const char *one = "gather", *two = "ing";
	struct ib_sge sge[] = {
		{ .addr = (uintptr_t)one, .length = 6 },
		{ .addr = (uintptr_t)two, .length = 0 },
		{ .addr = (uintptr_t)two, .length = 3 },
	};
	struct ib_send_wr wr = { .sg_list = sge, .num_sge = 3 };
	char to[10] = "..........";

	tern_copy_inline(to, &wr);
	KUNIT_EXPECT_MEMEQ(test, to, "gathering.", sizeof(to));
}

static void tern_test_send_wr(struct kunit *test)
{
	struct tern_ib_dev *dev = kunit_kzalloc(test, sizeof(*dev), GFP_KERNEL);
	struct tern_qp *qp = kunit_kzalloc(test, sizeof(*qp), GFP_KERNEL);
	struct tern_rsp_caps caps = { .max_sge_rd = cpu_to_le16(1) };
	struct tern_core core = { .caps = &caps };
	struct ib_sge sge[4] = { { .length = 60 }, { .length = 4 }, { .length = 1 } };
	struct ib_send_wr wr = { .sg_list = sge, .num_sge = 3 };

	KUNIT_ASSERT_NOT_NULL(test, dev);
	KUNIT_ASSERT_NOT_NULL(test, qp);
	dev->core = &core;
	qp->ibqp.device = &dev->ibdev;
	qp->ibqp.qp_type = IB_QPT_RC;
	qp->cap.max_send_sge = 3;
	qp->cap.max_inline_data = 64;

	KUNIT_EXPECT_TRUE(test, tern_send_wr_ok(qp, &wr, TERN_WR_SEND));
	KUNIT_EXPECT_FALSE(test, tern_send_wr_ok(qp, &wr, TERN_WR_NONE));
	/* READ may have a lower SGE limit. */
	KUNIT_EXPECT_FALSE(test, tern_send_wr_ok(qp, &wr, TERN_WR_RDMA_READ));
	/* The slot of an atomic has room for one SGE. */
	wr.num_sge = 2;
	KUNIT_EXPECT_TRUE(test, tern_send_wr_ok(qp, &wr, TERN_WR_ATOMIC_WRITE));
	KUNIT_EXPECT_FALSE(test, tern_send_wr_ok(qp, &wr, TERN_WR_ATOMIC_CMP_AND_SWP));
	KUNIT_EXPECT_FALSE(test, tern_send_wr_ok(qp, &wr, TERN_WR_ATOMIC_FETCH_AND_ADD));
	wr.num_sge = 1;
	KUNIT_EXPECT_TRUE(test, tern_send_wr_ok(qp, &wr, TERN_WR_RDMA_READ));
	KUNIT_EXPECT_TRUE(test, tern_send_wr_ok(qp, &wr, TERN_WR_ATOMIC_CMP_AND_SWP));
	KUNIT_EXPECT_TRUE(test, tern_send_wr_ok(qp, &wr, TERN_WR_ATOMIC_FETCH_AND_ADD));
	wr.num_sge = 4;
	KUNIT_EXPECT_FALSE(test, tern_send_wr_ok(qp, &wr, TERN_WR_SEND));
	wr.num_sge = -1;
	KUNIT_EXPECT_FALSE(test, tern_send_wr_ok(qp, &wr, TERN_WR_SEND));
	/* The number of SGEs of a request without data is ignored. */
	KUNIT_EXPECT_TRUE(test, tern_send_wr_ok(qp, &wr, TERN_WR_LOCAL_INV));

	wr.send_flags = IB_SEND_INLINE;
	wr.num_sge = 2;
	KUNIT_EXPECT_TRUE(test, tern_send_wr_ok(qp, &wr, TERN_WR_SEND));
	KUNIT_EXPECT_FALSE(test, tern_send_wr_ok(qp, &wr, TERN_WR_ATOMIC_CMP_AND_SWP));
	wr.num_sge = 3;
	KUNIT_EXPECT_FALSE(test, tern_send_wr_ok(qp, &wr, TERN_WR_SEND));
	/* Lengths whose 32-bit sum overflows to a small value. */
	sge[0].length = U32_MAX;
	KUNIT_EXPECT_FALSE(test, tern_send_wr_ok(qp, &wr, TERN_WR_SEND));
}

static struct kunit_case tern_ib_cases[] = {
	KUNIT_CASE(tern_test_segments),
	KUNIT_CASE(tern_test_segment_reg),
	KUNIT_CASE(tern_test_inline),
	KUNIT_CASE(tern_test_send_wr),
	KUNIT_CASE(tern_test_access),
	KUNIT_CASE(tern_test_av),
	KUNIT_CASE(tern_test_av_refused),
	KUNIT_CASE(tern_test_table),
	KUNIT_CASE(tern_test_table_limit),
	KUNIT_CASE(tern_test_table_rounds),
	{}
};

static struct kunit_suite tern_ib_suite = {
	.name = "tern_ib",
	.test_cases = tern_ib_cases,
};

kunit_test_suite(tern_ib_suite);

MODULE_DESCRIPTION("KUnit tests of tern_ib's conversions, page lists and send requests");
MODULE_LICENSE("Dual BSD/GPL");
