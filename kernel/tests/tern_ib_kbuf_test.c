// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Tests of the memory of kernel queues: layout, page lists, shortage. */

#include <kunit/static_stub.h>
#include <kunit/test.h>
#include <linux/io.h>
#include <linux/module.h>
#include <linux/pci.h>
#include <linux/sizes.h>

#include "tern_ib.h"
#include "tern_ib_ring.h"

MODULE_IMPORT_NS("EXPORTED_FOR_KUNIT_TESTING");

/**
 * struct tern_test_mem - a device, and memory of which only single pages are
 * free
 * @ib: the RDMA device
 * @core: its PCI function
 * @pdev: its PCI device
 * @caps: its limits
 * @used: number of pages allocated
 * @free: number of pages that can still be allocated
 */
struct tern_test_mem {
	struct tern_ib_dev ib;
	struct tern_core core;
	struct pci_dev pdev;
	struct tern_rsp_caps caps;
	unsigned int used;
	unsigned int free;
};

static struct tern_test_mem *tern_test_mem(struct tern_ib_dev *dev)
{
	return container_of(dev, struct tern_test_mem, ib);
}

static void *tern_test_alloc(struct tern_ib_dev *dev, size_t size,
			     dma_addr_t *dma)
{
	struct tern_test_mem *mem = tern_test_mem(dev);
	void *cpu;

	if (size > PAGE_SIZE || !mem->free)
		return NULL;
	cpu = (void *)get_zeroed_page(GFP_KERNEL);
	if (!cpu)
		return NULL;

	mem->free--;
	mem->used++;
	*dma = virt_to_phys(cpu);
	return cpu;
}

static void tern_test_free(struct tern_ib_dev *dev, size_t size, void *cpu,
			   dma_addr_t dma)
{
	tern_test_mem(dev)->used--;
	free_page((unsigned long)cpu);
}

/* Limits as in Documentation/spec/limits.rst. */
static int tern_mem_test_init(struct kunit *test)
{
	struct tern_test_mem *mem = kunit_kzalloc(test, sizeof(*mem), GFP_KERNEL);

	if (!mem)
		return -ENOMEM;

	mem->ib.core = &mem->core;
	mem->core.pdev = &mem->pdev;
	mem->core.caps = &mem->caps;
	mem->pdev.dev.init_name = "tern_mem";
	mem->pdev.dev.dma_mask = &mem->pdev.dma_mask;
	mem->pdev.dma_mask = DMA_BIT_MASK(64);
	mem->caps.max_cmd_pages = cpu_to_le32(65536);
	mem->caps.max_cqe = cpu_to_le32(BIT(22));
	mem->caps.max_qp_wr = cpu_to_le32(BIT(15));
	mem->caps.max_srq_wr = cpu_to_le32(BIT(15));
	mem->caps.max_send_sge = cpu_to_le16(32);
	mem->caps.max_recv_sge = cpu_to_le16(32);
	mem->caps.max_inline = cpu_to_le32(1024);
	mem->free = UINT_MAX;
	kunit_activate_static_stub(test, tern_coherent_alloc, tern_test_alloc);
	kunit_activate_static_stub(test, tern_coherent_free, tern_test_free);
	test->priv = mem;
	return 0;
}

static struct ib_qp_init_attr tern_test_max_qp(const struct tern_rsp_caps *caps)
{
	return (struct ib_qp_init_attr){
		.qp_type = IB_QPT_RC,
		.cap.max_send_wr = le32_to_cpu(caps->max_qp_wr),
		.cap.max_recv_wr = le32_to_cpu(caps->max_qp_wr),
		.cap.max_send_sge = le16_to_cpu(caps->max_send_sge),
		.cap.max_recv_sge = le16_to_cpu(caps->max_recv_sge),
		.cap.max_inline_data = le32_to_cpu(caps->max_inline),
	};
}

/* Reads the page list as the device does: the address of byte @offset. */
static u64 tern_test_device_addr(const struct tern_pages *pages, u64 offset)
{
	const __le64 *list = phys_to_virt(le64_to_cpu(pages->addr));
	u64 i = offset >> pages->page_shift;
	u64 in_page = offset & (BIT_ULL(pages->page_shift) - 1);

	if (pages->kind == TERN_PAGES_DIRECT)
		return le64_to_cpu(pages->addr) + offset;
	if (pages->kind == TERN_PAGES_INDIRECT) {
		list = phys_to_virt(le64_to_cpu(list[i / TERN_PAGES_CHUNK]));
		i %= TERN_PAGES_CHUNK;
	}
	return le64_to_cpu(list[i]) + in_page;
}

/*
 * The device finds each page of the ring by one command. Frees the memory. The
 * device addresses of a table are physical ones, as those of the pages are.
 */
static void tern_test_ring_list(struct kunit *test, struct tern_kbuf *kbuf,
				u64 ring_size)
{
	struct tern_test_mem *mem = test->priv;
	u32 num = DIV_ROUND_UP_ULL(ring_size, PAGE_SIZE);
	struct tern_table table;
	struct tern_pages pages;
	u32 i, wrong = 0;

	KUNIT_ASSERT_EQ(test, tern_table_from_kbuf(&mem->ib, &table, kbuf, &pages), 0);
	KUNIT_EXPECT_EQ(test, le32_to_cpu(pages.num), num);
	KUNIT_EXPECT_LE(test, num, le32_to_cpu(mem->caps.max_cmd_pages));
	KUNIT_EXPECT_EQ(test, pages.page_shift, PAGE_SHIFT);
	for (i = 0; i < num; i++)
		wrong += tern_test_device_addr(&pages, (u64)i << PAGE_SHIFT) !=
			 kbuf->pages[i].dma;
	KUNIT_EXPECT_EQ(test, wrong, 0);
	tern_table_free(&table);

	tern_kbuf_free(&mem->ib, kbuf);
	KUNIT_EXPECT_NULL(test, kbuf->pages);
	KUNIT_EXPECT_EQ(test, mem->used, 0);
}

/* Each advertised maximum fits one command, and needs single pages only. */
static void tern_test_max_cq(struct kunit *test)
{
	struct tern_test_mem *mem = test->priv;
	u32 max = le32_to_cpu(mem->caps.max_cqe);
	struct tern_cmd_create_cq cmd = {};
	struct tern_kcq kcq = {};

	KUNIT_ASSERT_EQ(test, tern_kcq_init(&mem->ib, &kcq, max, &cmd), 0);
	KUNIT_EXPECT_EQ(test, BIT(kcq.log_size), max);
	tern_test_ring_list(test, &kcq.buf, (u64)max * sizeof(struct tern_cqe));
}

static void tern_test_max_qp_of(struct kunit *test, enum ib_qp_type type)
{
	struct tern_test_mem *mem = test->priv;
	struct ib_qp_init_attr attr = tern_test_max_qp(&mem->caps);
	u32 max = le32_to_cpu(mem->caps.max_qp_wr);
	struct tern_cmd_create_qp cmd = {};
	struct tern_kqp kqp = {};

	attr.qp_type = type;
	KUNIT_ASSERT_EQ(test, tern_kqp_init(&mem->ib, &kqp, &attr, &cmd), 0);
	KUNIT_EXPECT_EQ(test, attr.cap.max_send_wr, max);
	KUNIT_EXPECT_EQ(test, attr.cap.max_recv_wr, max);
	tern_test_ring_list(test, &kqp.buf,
			    tern_wq_bytes(&kqp.sq) + tern_wq_bytes(&kqp.rq));
}

static void tern_test_max_qps(struct kunit *test)
{
	tern_test_max_qp_of(test, IB_QPT_RC);
	tern_test_max_qp_of(test, IB_QPT_UD);
}

#ifndef TERN_WITHOUT_KSRQ
static void tern_test_max_srq(struct kunit *test)
{
	struct tern_test_mem *mem = test->priv;
	const struct ib_srq_attr attr = {
		.max_wr = le32_to_cpu(mem->caps.max_srq_wr),
		.max_sge = le16_to_cpu(mem->caps.max_recv_sge),
	};
	struct tern_srq *srq = kunit_kzalloc(test, sizeof(*srq), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, srq);
	KUNIT_ASSERT_EQ(test, tern_ksrq_init(&mem->ib, srq, &attr), 0);
	KUNIT_EXPECT_EQ(test, srq->max_wr, attr.max_wr);
	tern_test_ring_list(test, &srq->kbuf, (u64)srq->max_wr << srq->log_stride);
}

#endif
/* Fills the slots of a queue with @mark, at the addresses of the device. */
static void tern_test_mark(struct kunit *test, const struct tern_wq *wq,
			   const struct tern_pages *pages, u8 mark)
{
	size_t size = BIT(wq->log_stride);
	u32 i;

	for (i = 0; i < BIT(wq->log_size); i++) {
		u64 addr = tern_test_device_addr(pages, wq->offset + i * size);

		KUNIT_ASSERT_LE(test, offset_in_page(addr) + size, PAGE_SIZE);
		memset(phys_to_virt(addr), mark, size);
	}
}

/* Whether the driver finds @mark in each slot. */
static bool tern_test_marked(const struct tern_wq *wq, u8 mark)
{
	u32 i;

	for (i = 0; i < BIT(wq->log_size); i++)
		if (memchr_inv(tern_wq_slot(wq, i), mark, BIT(wq->log_stride)))
			return false;

	return true;
}

static void tern_test_layout(struct kunit *test, struct ib_qp_init_attr *attr)
{
	struct tern_test_mem *mem = test->priv;
	struct tern_cmd_create_qp cmd = {};
	struct tern_kqp kqp = {};
	struct tern_table table;

	KUNIT_ASSERT_EQ(test, tern_kqp_init(&mem->ib, &kqp, attr, &cmd), 0);
	KUNIT_ASSERT_EQ(test, tern_table_from_kbuf(&mem->ib, &table, &kqp.buf,
						   &cmd.pages), 0);
	KUNIT_EXPECT_EQ(test, kqp.sq.offset, le32_to_cpu(cmd.sq_offset));
	KUNIT_EXPECT_EQ(test, kqp.rq.offset, le32_to_cpu(cmd.rq_offset));
	/* The contract: queues are 64-byte aligned. */
	KUNIT_EXPECT_TRUE(test, IS_ALIGNED(kqp.rq.offset, 64));
	KUNIT_EXPECT_EQ(test, virt_to_phys(kqp.record), le64_to_cpu(cmd.record));
	KUNIT_EXPECT_TRUE(test, IS_ALIGNED(le64_to_cpu(cmd.record),
					   sizeof(*kqp.record)));

	memset(kqp.record, 1, sizeof(*kqp.record));
	tern_test_mark(test, &kqp.sq, &cmd.pages, 2);
	tern_test_mark(test, &kqp.rq, &cmd.pages, 3);
	KUNIT_EXPECT_NULL(test, memchr_inv(kqp.record, 1, sizeof(*kqp.record)));
	KUNIT_EXPECT_TRUE(test, tern_test_marked(&kqp.sq, 2));
	KUNIT_EXPECT_TRUE(test, tern_test_marked(&kqp.rq, 3));

	tern_table_free(&table);
	tern_kbuf_free(&mem->ib, &kqp.buf);
}

/*
 * Queues of all proportions: no slot crosses a page, queues and record do not
 * overlap, and the device finds each slot where the driver does.
 */
static void tern_test_layouts(struct kunit *test)
{
	static const u32 wrs[] = { 1, 2, 16, 128 }, sges[] = { 0, 1, 2, 32 };
	struct ib_qp_init_attr attr;
	unsigned int i;

	for (i = 0; i < 256; i++) {
		attr = (struct ib_qp_init_attr){
			.qp_type = IB_QPT_RC,
			.cap.max_send_wr = wrs[i % 4],
			.cap.max_recv_wr = wrs[i / 4 % 4],
			.cap.max_send_sge = sges[i / 16 % 4],
			.cap.max_recv_sge = sges[i / 64],
		};
		tern_test_layout(test, &attr);
	}
}

/* A ring of one page needs no list, with or without the record in the page. */
static void tern_test_one_page(struct kunit *test)
{
	struct tern_test_mem *mem = test->priv;
	const u32 entries = PAGE_SIZE / sizeof(struct tern_cqe);
	struct tern_cmd_create_cq cmd;
	struct tern_pages pages;
	struct tern_table table;
	u32 cqe;

	for (cqe = entries / 2; cqe <= entries; cqe *= 2) {
		struct tern_kcq kcq = {};

		KUNIT_ASSERT_EQ(test, tern_kcq_init(&mem->ib, &kcq, cqe, &cmd), 0);
		KUNIT_EXPECT_EQ(test, mem->used, cqe < entries ? 1 : 2);
		KUNIT_ASSERT_EQ(test, tern_table_from_kbuf(&mem->ib, &table,
							   &kcq.buf, &pages), 0);
		KUNIT_EXPECT_EQ(test, pages.kind, TERN_PAGES_DIRECT);
		KUNIT_EXPECT_EQ(test, le64_to_cpu(pages.addr), kcq.buf.pages[0].dma);
		tern_table_free(&table);
		tern_kbuf_free(&mem->ib, &kcq.buf);
	}
}

/* Each allocation fails once. Nothing is left allocated. */
static void tern_test_no_pages(struct kunit *test)
{
	struct tern_test_mem *mem = test->priv;
	struct tern_cmd_create_cq cmd;
	const u32 pages = 9;
	u32 i;

	for (i = 0; i <= pages; i++) {
		u32 cqe = (pages - 1) * PAGE_SIZE / sizeof(struct tern_cqe);
		struct tern_kcq kcq = {};

		mem->free = i;
		KUNIT_EXPECT_EQ_MSG(test, tern_kcq_init(&mem->ib, &kcq, cqe, &cmd),
				    i < pages ? -ENOMEM : 0, "%u pages", i);
		KUNIT_EXPECT_EQ(test, mem->used, i < pages ? 0 : pages);
		tern_kbuf_free(&mem->ib, &kcq.buf);
		KUNIT_EXPECT_EQ(test, mem->used, 0);
	}
}

/* Queues whose page list the device does not read are refused. */
static void tern_test_too_long(struct kunit *test)
{
	struct tern_test_mem *mem = test->priv;
	struct tern_kbuf kbuf = {};

	mem->caps.max_cmd_pages = cpu_to_le32(3);
	KUNIT_EXPECT_EQ(test, tern_kbuf_alloc(&mem->ib, &kbuf, 3 * PAGE_SIZE + 64, 64),
			-EINVAL);
	KUNIT_EXPECT_EQ(test, tern_kbuf_alloc(&mem->ib, &kbuf, SZ_4G, 64), -EINVAL);
	KUNIT_EXPECT_EQ(test, tern_kbuf_alloc(&mem->ib, &kbuf, SZ_8G, 64), -EINVAL);
	KUNIT_EXPECT_NULL(test, kbuf.pages);

	/* The page with the record is not in the list. */
	KUNIT_ASSERT_EQ(test, tern_kbuf_alloc(&mem->ib, &kbuf, 3 * PAGE_SIZE, 64), 0);
	KUNIT_EXPECT_EQ(test, mem->used, 4);
	tern_test_ring_list(test, &kbuf, 3 * PAGE_SIZE);
}

/* Memory of an object that a live device keeps is not freed. */
static void tern_test_kept(struct kunit *test)
{
	struct tern_test_mem *mem = test->priv;
	struct tern_kbuf kbuf = {};
	void *pages[2];

	KUNIT_ASSERT_EQ(test, tern_kbuf_alloc(&mem->ib, &kbuf, PAGE_SIZE, 64), 0);
	pages[0] = kbuf.pages[0].cpu;
	pages[1] = kbuf.pages[1].cpu;
	tern_kbuf_done(&mem->ib, &kbuf, -EINVAL);
	KUNIT_EXPECT_EQ(test, mem->used, 2);
	free_page((unsigned long)pages[0]);
	free_page((unsigned long)pages[1]);

	mem->used = 0;
	KUNIT_ASSERT_EQ(test, tern_kbuf_alloc(&mem->ib, &kbuf, PAGE_SIZE, 64), 0);
	tern_kbuf_done(&mem->ib, &kbuf, 0);
	KUNIT_EXPECT_EQ(test, mem->used, 0);
	/* A user queue has no memory of the driver. */
	tern_kbuf_done(&mem->ib, &kbuf, -EINVAL);
}

static struct kunit_case tern_ib_mem_cases[] = {
	KUNIT_CASE(tern_test_max_cq),
	KUNIT_CASE(tern_test_max_qps),
#ifndef TERN_WITHOUT_KSRQ
	KUNIT_CASE(tern_test_max_srq),
#endif
	KUNIT_CASE(tern_test_layouts),
	KUNIT_CASE(tern_test_one_page),
	KUNIT_CASE(tern_test_no_pages),
	KUNIT_CASE(tern_test_too_long),
	KUNIT_CASE(tern_test_kept),
	{}
};

static struct kunit_suite tern_ib_mem_suite = {
	.name = "tern_ib_kbuf",
	.init = tern_mem_test_init,
	.test_cases = tern_ib_mem_cases,
};

kunit_test_suite(tern_ib_mem_suite);

MODULE_DESCRIPTION("KUnit tests of the memory of tern's kernel queues");
MODULE_LICENSE("Dual BSD/GPL");
