// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Tests of the pages of on-demand regions: a stub executes the commands as the device. */

#include <kunit/static_stub.h>
#include <kunit/test.h>
#include <linux/delay.h>
#include <linux/hmm.h>
#include <linux/mman.h>
#include <linux/module.h>
#include <linux/pci.h>
#include <linux/uaccess.h>

#include "tern_dev.h"
#include "tern_ib.h"
#include "tern_ib_odp.h"

MODULE_IMPORT_NS("EXPORTED_FOR_KUNIT_TESTING");

#define TERN_TEST_KEY		0x701
#define TERN_TEST_PART_SIZE	((unsigned long)TERN_ODP_BATCH << PAGE_SHIFT)
#define TERN_TEST_PAGES		3

/**
 * struct tern_test_pages - a device, a process, and an implicit region of it
 * @ib: the RDMA device
 * @tdev: its PCI function
 * @pdev: its PCI device
 * @caps: its limits
 * @pd: a PD of a kernel user
 * @mr: the region
 * @addr: address of TERN_TEST_PAGES pages, at the start of a part of the region
 * @present: the device knows the page
 * @map_work: maps the second page in another thread
 * @test: the test
 */
struct tern_test_pages {
	struct tern_ib_dev ib;
	struct tern_dev tdev;
	struct pci_dev pdev;
	struct tern_rsp_caps caps;
	struct tern_pd pd;
	struct tern_mr *mr;
	unsigned long addr;
	bool present[TERN_TEST_PAGES];
	struct work_struct map_work;
	struct kunit *test;
};

/* Executes UPDATE_PAGES. */
static int tern_test_update(struct tern_test_pages *fake,
			    const struct tern_cmd_update_pages *cmd)
{
	bool absent = cmd->flags & cpu_to_le32(TERN_UPDATE_ABSENT);
	u64 first = le64_to_cpu(cmd->first) - (fake->addr >> PAGE_SHIFT);
	u32 num = le32_to_cpu(cmd->pages.num);
	u64 i;

	if (!num || num > le32_to_cpu(fake->caps.max_cmd_pages))
		return -EINVAL;

	for (i = first; i < first + num; i++)
		if (i < TERN_TEST_PAGES)
			fake->present[i] = !absent;
	return 0;
}

/* Replaces tern_cmd_exec(). */
static int tern_test_exec(struct tern_core *core, u16 opcode, const void *in,
			  size_t in_len, void *out, size_t out_len)
{
	struct tern_test_pages *fake = kunit_get_current_test()->priv;
	struct tern_rsp_object *object = out;

	switch (opcode) {
	case TERN_CMD_CREATE_MR:
		memset(out, 0, out_len);
		object->id = cpu_to_le32(TERN_TEST_KEY);
		return 0;
	case TERN_CMD_UPDATE_PAGES:
		return tern_test_update(fake, in);
	default:
		return 0;
	}
}

static void tern_test_no_work(struct work_struct *work)
{
}

/* Maps pages that are in memory from page @index on. Returns their number. */
static long tern_test_map(struct tern_test_pages *fake, unsigned int index,
			  unsigned int num, unsigned int flags)
{
	return tern_odp_map(fake->mr->odp, fake->addr + index * PAGE_SIZE,
			    num * PAGE_SIZE, flags);
}

static void tern_test_map_work(struct work_struct *work)
{
	struct tern_test_pages *fake = container_of(work, struct tern_test_pages,
						    map_work);

	/* The stub serves this thread, too. */
	current->kunit_test = fake->test;
	KUNIT_EXPECT_EQ(fake->test, tern_test_map(fake, 1, 1, 0), 1);
	current->kunit_test = NULL;
}

static struct tern_odp_part *tern_test_part(struct tern_test_pages *fake)
{
	return xa_load(&fake->mr->odp->parts, fake->addr / TERN_TEST_PART_SIZE);
}

static int tern_odp_pages_test_init(struct kunit *test)
{
	struct tern_test_pages *fake = kunit_kzalloc(test, sizeof(*fake), GFP_KERNEL);
	unsigned long addr;
	struct ib_mr *mr;

	KUNIT_ASSERT_NOT_NULL(test, fake);
	test->priv = fake;
	fake->test = test;
	device_initialize(&fake->pdev.dev);
	fake->pdev.dev.init_name = "tern-odp-pages";
	fake->pdev.dev.dma_mask = &fake->pdev.dma_mask;
	KUNIT_ASSERT_EQ(test, dma_set_mask_and_coherent(&fake->pdev.dev,
							DMA_BIT_MASK(64)), 0);
	fake->ib.core = &fake->tdev.core;
	fake->ib.ibdev.dma_device = &fake->pdev.dev;
	fake->tdev.core.pdev = &fake->pdev;
	fake->tdev.core.caps = &fake->caps;
	fake->pdev.error_state = pci_channel_io_perm_failure;
	fake->caps.flags = cpu_to_le64(TERN_CAP_ODP);
	fake->caps.max_cmd_pages = cpu_to_le32(512);
	spin_lock_init(&fake->tdev.dead_lock);
	INIT_WORK(&fake->tdev.async_work, tern_test_no_work);
	INIT_WORK(&fake->map_work, tern_test_map_work);
	tern_aq_init(&fake->tdev);
	xa_init(&fake->ib.odps);
	xa_init(&fake->ib.queued_faults);
	mutex_init(&fake->ib.fault_lock);
	fake->ib.fault_wq = alloc_workqueue("tern-odp-pages", WQ_UNBOUND, 0);
	KUNIT_ASSERT_NOT_NULL(test, fake->ib.fault_wq);
	fake->pd.ibpd.device = &fake->ib.ibdev;
	kunit_activate_static_stub(test, tern_cmd_exec, tern_test_exec);

	addr = kunit_vm_mmap(test, NULL, 0, 2 * TERN_TEST_PART_SIZE,
			     PROT_READ | PROT_WRITE, MAP_ANONYMOUS | MAP_PRIVATE, 0);
	KUNIT_ASSERT_NE(test, addr, 0);
	KUNIT_ASSERT_FALSE(test, IS_ERR_VALUE(addr));
	fake->addr = ALIGN(addr, TERN_TEST_PART_SIZE);
	mr = tern_reg_odp_mr(&fake->pd.ibpd, 0, U64_MAX, 0, IB_ACCESS_LOCAL_WRITE);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, mr);
	fake->mr = to_tmr(mr);
	return 0;
}

/* The last step of a test: its process ends with it. */
static void tern_test_end(struct kunit *test)
{
	struct tern_test_pages *fake = test->priv;

	KUNIT_EXPECT_FALSE(test, tern_core_dead(&fake->tdev.core));
	KUNIT_EXPECT_EQ(test, tern_odp_destroy(fake->mr), 0);
	kfree(fake->mr);
	destroy_workqueue(fake->ib.fault_wq);
	cancel_work_sync(&fake->tdev.async_work);
}

static void tern_test_write(struct kunit *test, unsigned int num)
{
	struct tern_test_pages *fake = test->priv;

	KUNIT_ASSERT_EQ(test, clear_user((void __user *)fake->addr,
					 num * PAGE_SIZE), 0);
}

/* The device knows pages while the process has them, and loses a part with its last. */
static void tern_test_follow(struct kunit *test)
{
	struct tern_test_pages *fake = test->priv;
	unsigned int i;
	u8 byte;

	KUNIT_EXPECT_EQ(test, tern_test_map(fake, 0, 1, 0), 0);
	KUNIT_ASSERT_EQ(test, get_user(byte, (u8 __user *)fake->addr), 0);
	/* The page of zeros may be read. */
	KUNIT_EXPECT_EQ(test, tern_test_map(fake, 0, 2, 0), 1);
	KUNIT_EXPECT_EQ(test, tern_test_map(fake, 0, 1, TERN_ODP_WRITE), 0);
	KUNIT_EXPECT_TRUE(test, fake->present[0]);
	KUNIT_EXPECT_FALSE(test, fake->present[1]);

	tern_test_write(test, 2);
	KUNIT_EXPECT_FALSE(test, fake->present[0]);
	for (i = 0; i < 2; i++) {
		KUNIT_EXPECT_EQ(test, tern_test_map(fake, 0, 2, TERN_ODP_WRITE), 2);
		KUNIT_ASSERT_NOT_NULL(test, tern_test_part(fake));
		KUNIT_EXPECT_EQ(test, tern_test_part(fake)->umem->npages, 2);
		KUNIT_EXPECT_TRUE(test, fake->present[1]);
	}

	KUNIT_EXPECT_EQ(test, vm_munmap(fake->addr, PAGE_SIZE), 0);
	KUNIT_EXPECT_FALSE(test, fake->present[0]);
	KUNIT_EXPECT_TRUE(test, fake->present[1]);
	KUNIT_ASSERT_NOT_NULL(test, tern_test_part(fake));
	KUNIT_EXPECT_EQ(test, tern_test_part(fake)->umem->npages, 1);
	KUNIT_EXPECT_EQ(test, vm_munmap(fake->addr + PAGE_SIZE, PAGE_SIZE), 0);
	KUNIT_EXPECT_FALSE(test, fake->present[1]);
	KUNIT_EXPECT_NULL(test, tern_test_part(fake));
	tern_test_end(test);
}

/* A walk of the page table leaves alone what an invalidation may be changing. */
static void tern_test_walk_beside(struct kunit *test)
{
	struct tern_test_pages *fake = test->priv;
	struct ib_umem_odp *umem;

	tern_test_write(test, 2);
	KUNIT_EXPECT_EQ(test, tern_test_map(fake, 0, 1, 0), 1);
	KUNIT_ASSERT_NOT_NULL(test, tern_test_part(fake));
	umem = tern_test_part(fake)->umem;

	mutex_lock(&umem->umem_mutex);
	schedule_work(&fake->map_work);
	msleep(100);
	KUNIT_EXPECT_EQ(test, umem->map.pfn_list[1], 0);
	mutex_unlock(&umem->umem_mutex);
	flush_work(&fake->map_work);
	KUNIT_EXPECT_TRUE(test, umem->map.pfn_list[1] & HMM_PFN_VALID);
	KUNIT_EXPECT_EQ(test, umem->npages, 2);
	KUNIT_EXPECT_TRUE(test, fake->present[1]);
	tern_test_end(test);
}

/* A command has no more pages than the device accepts. */
static void tern_test_map_limit(struct kunit *test)
{
	struct tern_test_pages *fake = test->priv;

	tern_test_write(test, TERN_TEST_PAGES);
	fake->caps.max_cmd_pages = cpu_to_le32(2);
	KUNIT_EXPECT_EQ(test, tern_test_map(fake, 0, TERN_TEST_PAGES, 0), 2);
	KUNIT_EXPECT_TRUE(test, fake->present[1]);
	KUNIT_EXPECT_FALSE(test, fake->present[2]);
	tern_test_end(test);
}

static struct kunit_case tern_odp_pages_cases[] = {
	KUNIT_CASE(tern_test_follow),
	KUNIT_CASE(tern_test_walk_beside),
	KUNIT_CASE(tern_test_map_limit),
	{}
};

static struct kunit_suite tern_odp_pages_suite = {
	.name = "tern_ib_odp_pages",
	.init = tern_odp_pages_test_init,
	.test_cases = tern_odp_pages_cases,
};

kunit_test_suite(tern_odp_pages_suite);

MODULE_DESCRIPTION("KUnit tests of the pages of tern's on-demand regions");
MODULE_LICENSE("Dual BSD/GPL");
