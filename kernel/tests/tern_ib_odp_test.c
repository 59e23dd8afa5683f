// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Tests of on-demand regions: a stub executes the commands as the device. */

#include <kunit/static_stub.h>
#include <kunit/test.h>
#include <linux/delay.h>
#include <linux/dma-direct.h>
#include <linux/irq.h>
#include <linux/module.h>
#include <linux/pci.h>
#include <linux/sched/mm.h>

#include "tern_dev.h"
#include "tern_ib.h"
#include "tern_ib_odp.h"

MODULE_IMPORT_NS("EXPORTED_FOR_KUNIT_TESTING");

/* The only index that the device has for regions. */
#define TERN_TEST_INDEX	7

/**
 * struct tern_test_odp - a device with room for one region
 * @ib: the RDMA device
 * @tdev: its PCI function
 * @pdev: its PCI device
 * @caps: its limits
 * @pd: a PD of a kernel user
 * @variant: variant of the last key
 * @destroy_err: result of DESTROY_MR
 * @update_err: result of UPDATE_PAGES
 * @next: region that another thread creates as soon as the index is free
 * @next_mr: its MR
 * @next_err: result of creating it
 * @num_updates: number of UPDATE_PAGES
 * @destroy_work: destroys @mr in another thread
 * @destroy_early: the device executed DESTROY_MR during UPDATE_PAGES
 * @destroyed: completed when the device has executed DESTROY_MR
 * @mr: the MR of a region
 * @arrived: completed when the pages of all requests arrive
 * @test: the test
 */
struct tern_test_odp {
	struct tern_ib_dev ib;
	struct tern_dev tdev;
	struct pci_dev pdev;
	struct tern_rsp_caps caps;
	struct tern_pd pd;
	u32 variant;
	int destroy_err;
	int update_err;
	struct tern_odp *next;
	struct tern_mr next_mr;
	int next_err;
	unsigned int num_updates;
	struct work_struct destroy_work;
	bool destroy_early;
	struct completion destroyed;
	struct tern_mr mr;
	struct completion arrived;
	struct kunit *test;
};

static int tern_test_create(struct tern_odp *odp, struct tern_mr *mr)
{
	struct tern_cmd_create_mr cmd = { .flags = TERN_MR_F_SPARSE };

	return tern_odp_create(odp, mr, &cmd);
}

/* Reports a page fault by the queue that is being created. */
static void tern_test_fault(struct tern_test_odp *fake,
			    const struct tern_cmd_create_eq *cmd)
{
	struct tern_fault *entry;

	entry = phys_to_virt(dma_to_phys(&fake->pdev.dev,
					 le64_to_cpu(cmd->pages.addr)));
	WRITE_ONCE(entry->phase, cpu_to_le32(TERN_CQE_PHASE));
	generic_handle_irq_safe(fake->pdev.irq);
	flush_workqueue(fake->ib.fault_wq);
}

/* Replaces tern_cmd_exec(). */
static int tern_test_exec(struct tern_core *core, u16 opcode, const void *in,
			  size_t in_len, void *out, size_t out_len)
{
	struct tern_test_odp *fake = kunit_get_current_test()->priv;
	struct tern_rsp_object *object = out;
	struct tern_odp *next = fake->next;
	unsigned int flags;

	switch (opcode) {
	case TERN_CMD_CREATE_EQ:
		tern_test_fault(fake, in);
		return 0;
	case TERN_CMD_CREATE_MR:
		memset(out, 0, out_len);
		object->id = cpu_to_le32(TERN_TEST_INDEX << TERN_KEY_INDEX_SHIFT |
					 ++fake->variant);
		return 0;
	case TERN_CMD_DESTROY_MR:
		fake->next = NULL;
		if (next) {
			/* Another thread would allocate memory without the caller's locks. */
			flags = memalloc_noreclaim_save();
			fake->next_err = tern_test_create(next, &fake->next_mr);
			memalloc_noreclaim_restore(flags);
		}
		complete(&fake->destroyed);
		return fake->destroy_err;
	case TERN_CMD_UPDATE_PAGES:
		fake->num_updates++;
		if (fake->mr.odp && fake->num_updates == 1) {
			schedule_work(&fake->destroy_work);
			msleep(100);
			fake->destroy_early = completion_done(&fake->destroyed);
		}
		/* Ends an endless number of commands. */
		return fake->num_updates > 100 ? -EIO : fake->update_err;
	default:
		return 0;
	}
}

static void tern_test_no_work(struct work_struct *work)
{
}

static void tern_test_destroy_work(struct work_struct *work)
{
	struct tern_test_odp *fake = container_of(work, struct tern_test_odp,
						  destroy_work);

	/* The stub serves this thread, too. */
	current->kunit_test = fake->test;
	KUNIT_EXPECT_EQ(fake->test, tern_odp_destroy(&fake->mr), 0);
	current->kunit_test = NULL;
}

static int tern_odp_test_init(struct kunit *test)
{
	struct tern_test_odp *fake = kunit_kzalloc(test, sizeof(*fake), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, fake);
	test->priv = fake;
	fake->test = test;
	device_initialize(&fake->pdev.dev);
	fake->pdev.dev.init_name = "tern-odp";
	fake->pdev.dev.dma_mask = &fake->pdev.dma_mask;
	fake->pdev.dma_mask = DMA_BIT_MASK(64);
	fake->pdev.dev.coherent_dma_mask = DMA_BIT_MASK(64);
	fake->ib.core = &fake->tdev.core;
	fake->tdev.core.pdev = &fake->pdev;
	fake->tdev.core.caps = &fake->caps;
	fake->pdev.error_state = pci_channel_io_perm_failure;
	fake->caps.max_cmd_pages = cpu_to_le32(512);
	spin_lock_init(&fake->tdev.dead_lock);
	INIT_WORK(&fake->tdev.async_work, tern_test_no_work);
	INIT_WORK(&fake->destroy_work, tern_test_destroy_work);
	init_completion(&fake->destroyed);
	init_completion(&fake->arrived);
	tern_aq_init(&fake->tdev);
	xa_init(&fake->ib.odps);
	xa_init(&fake->ib.queued_faults);
	mutex_init(&fake->ib.fault_lock);
	fake->pd.ibpd.device = &fake->ib.ibdev;
	kunit_activate_static_stub(test, tern_cmd_exec, tern_test_exec);
	return 0;
}

static void tern_odp_test_exit(struct kunit *test)
{
	struct tern_test_odp *fake = test->priv;

	cancel_work_sync(&fake->tdev.async_work);
	KUNIT_EXPECT_TRUE(test, xa_empty(&fake->ib.odps));
}

static struct tern_odp *tern_test_region(struct kunit *test)
{
	struct tern_test_odp *fake = test->priv;
	struct tern_odp *odp;

	odp = tern_odp_alloc(&fake->pd.ibpd, 0, U64_MAX, 0,
			     IB_ACCESS_LOCAL_WRITE);
	KUNIT_ASSERT_NOT_NULL(test, odp);
	return odp;
}

/* A device may give the index of a region to the next one at once. */
static void tern_test_index_reused(struct kunit *test)
{
	struct tern_test_odp *fake = test->priv;
	struct tern_odp *next = tern_test_region(test), *found;
	struct tern_mr mr = {};

	KUNIT_ASSERT_EQ(test, tern_test_create(tern_test_region(test), &mr), 0);
	fake->next = next;
	KUNIT_EXPECT_EQ(test, tern_odp_destroy(&mr), 0);
	KUNIT_ASSERT_EQ(test, fake->next_err, 0);
	KUNIT_EXPECT_NE(test, next->key, mr.ibmr.lkey);
	found = tern_odp_get(&fake->ib, next->key);
	KUNIT_EXPECT_PTR_EQ(test, found, next);
	if (found)
		tern_odp_put(found);
	KUNIT_EXPECT_EQ(test, tern_odp_destroy(&fake->next_mr), 0);
	KUNIT_EXPECT_FALSE(test, tern_core_dead(&fake->tdev.core));
}

/* Another region may have the key of one that was destroyed: no command has it. */
static void tern_test_key_reused(struct kunit *test)
{
	struct tern_test_odp *fake = test->priv;
	struct tern_odp *odp = tern_test_region(test);
	struct tern_table table;

	KUNIT_ASSERT_EQ(test, tern_table_init(&table, &fake->pdev.dev, 1), 0);
	KUNIT_ASSERT_EQ(test, tern_test_create(odp, &fake->mr), 0);
	KUNIT_ASSERT_PTR_EQ(test, tern_odp_get(&fake->ib, odp->key), odp);
	tern_table_add(&table, TERN_PAGE_READ);
	KUNIT_EXPECT_EQ(test, tern_odp_update(odp, 0, &table), 0);
	KUNIT_EXPECT_FALSE(test, fake->destroy_early);

	wait_for_completion(&fake->destroyed);
	/* The other thread waits until this one releases the region. */
	tern_table_add(&table, TERN_PAGE_READ);
	KUNIT_EXPECT_EQ(test, tern_odp_update(odp, 0, &table), -ENOENT);
	tern_odp_clear(odp, 0, 1);
	KUNIT_EXPECT_EQ(test, fake->num_updates, 1);
	tern_odp_put(odp);
	flush_work(&fake->destroy_work);
	KUNIT_EXPECT_FALSE(test, tern_core_dead(&fake->tdev.core));
	tern_table_free(&table);
}

/* Pages may be freed only if the device does not access them. */
static void tern_test_clear_refused(struct kunit *test)
{
	struct tern_test_odp *fake = test->priv;
	struct tern_odp *odp = tern_test_region(test);
	struct tern_mr mr = {};

	KUNIT_ASSERT_EQ(test, tern_test_create(odp, &mr), 0);
	tern_odp_clear(odp, 0, 1);
	KUNIT_EXPECT_FALSE(test, tern_core_dead(&fake->tdev.core));
	fake->update_err = -ENOENT;
	tern_odp_clear(odp, 0, 1);
	KUNIT_EXPECT_TRUE(test, tern_core_dead(&fake->tdev.core));
	KUNIT_EXPECT_EQ(test, tern_odp_destroy(&mr), 0);
}

/* Pages become absent also in a device that can read no page list. */
static void tern_test_clear_limit(struct kunit *test)
{
	struct tern_test_odp *fake = test->priv;
	struct tern_odp *odp = tern_test_region(test);
	struct tern_mr mr = {};

	KUNIT_ASSERT_EQ(test, tern_test_create(odp, &mr), 0);
	fake->caps.max_cmd_pages = 0;
	tern_odp_clear(odp, 0, 3);
	KUNIT_EXPECT_EQ(test, fake->num_updates, 3);
	KUNIT_EXPECT_FALSE(test, tern_core_dead(&fake->tdev.core));
	KUNIT_EXPECT_EQ(test, tern_odp_destroy(&mr), 0);
}

/* With windows bound, a region stays; one that nobody has seen cannot. */
static void tern_test_busy(struct kunit *test)
{
	struct tern_test_odp *fake = test->priv;
	struct tern_odp *odp = tern_test_region(test);
	struct tern_mr mr = {};

	KUNIT_ASSERT_EQ(test, tern_test_create(odp, &mr), 0);
	fake->destroy_err = -EBUSY;
	KUNIT_EXPECT_EQ(test, tern_odp_destroy(&mr), -EBUSY);
	KUNIT_EXPECT_FALSE(test, tern_core_dead(&fake->tdev.core));
	tern_odp_clear(odp, 0, 1);
	KUNIT_EXPECT_EQ(test, fake->num_updates, 1);
	tern_odp_abort(odp);
	KUNIT_EXPECT_TRUE(test, tern_core_dead(&fake->tdev.core));
	KUNIT_EXPECT_NULL(test, tern_odp_get(&fake->ib, mr.ibmr.lkey));
	tern_odp_free(odp);
}

/* A device may report a fault before it has answered CREATE_EQ. */
static void tern_test_fault_early(struct kunit *test)
{
	struct tern_test_odp *fake = test->priv;
	int irq = irq_alloc_desc(NUMA_NO_NODE);

	KUNIT_ASSERT_GE(test, irq, 0);
	irq_set_chip_and_handler(irq, &dummy_irq_chip, handle_simple_irq);
	irq_clear_status_flags(irq, IRQ_NOREQUEST);
	fake->pdev.irq = irq;
	fake->tdev.num_vectors = 1;
	fake->caps.flags = cpu_to_le64(TERN_CAP_ODP);
	/* The stub does not serve the thread that takes the fault. */
	set_bit(TERN_DEV_DEAD, &fake->tdev.flags);

	KUNIT_EXPECT_EQ(test, tern_faults_init(&fake->ib), 0);
	if (fake->ib.fault_eq) {
		flush_workqueue(fake->ib.fault_wq);
		KUNIT_EXPECT_EQ(test, fake->ib.fault_eq->ci, 1);
		tern_faults_free(&fake->ib);
	}
	irq_free_desc(irq);
}

/* Waits for a page. */
static bool tern_test_serve(struct tern_pager_thread *thread,
			    struct tern_odp_request *request)
{
	struct tern_test_odp *fake = container_of(request->dev,
						  struct tern_test_odp, ib);

	wait_for_completion(&fake->arrived);
	return true;
}

static int tern_test_queue(struct tern_pager *pager, struct tern_ib_dev *dev,
			   bool prefetch)
{
	struct tern_odp_request *request = kzalloc_obj(*request);
	int err;

	if (!request)
		return -EIO;

	request->dev = dev;
	request->serve = tern_test_serve;
	request->prefetch = prefetch;
	err = tern_pager_queue(pager, request);
	if (err)
		kfree(request);
	return err;
}

/* A process must not fill memory with prefetches. Faults are not refused. */
static void tern_test_prefetch_limit(struct kunit *test)
{
	struct tern_test_odp *fake = test->priv;
	struct tern_pager *pager = tern_pager_alloc(&fake->ib);
	unsigned int num, tries = 0;
	int err = 0;

	KUNIT_ASSERT_NOT_NULL(test, pager);
	for (num = 0; !err && num < 1000; num++)
		err = tern_test_queue(pager, &fake->ib, true);
	KUNIT_EXPECT_EQ(test, err, -ENOMEM);
	/* With those that threads have taken. */
	KUNIT_EXPECT_LE(test, num, 64 + 8 + 1);
	KUNIT_EXPECT_GT(test, num, 64);
	KUNIT_EXPECT_EQ(test, tern_test_queue(pager, &fake->ib, false), 0);

	complete_all(&fake->arrived);
	do {
		usleep_range(1000, 2000);
		err = tern_test_queue(pager, &fake->ib, true);
	} while (err == -ENOMEM && ++tries < 10000);
	KUNIT_EXPECT_EQ(test, err, 0);
	tern_pager_close(pager);
	KUNIT_EXPECT_TRUE(test, xa_empty(&fake->ib.queued_faults));
}

static struct kunit_case tern_odp_cases[] = {
	KUNIT_CASE(tern_test_index_reused),
	KUNIT_CASE(tern_test_key_reused),
	KUNIT_CASE(tern_test_clear_refused),
	KUNIT_CASE(tern_test_clear_limit),
	KUNIT_CASE(tern_test_busy),
	KUNIT_CASE(tern_test_fault_early),
	KUNIT_CASE(tern_test_prefetch_limit),
	{}
};

static struct kunit_suite tern_odp_suite = {
	.name = "tern_ib_odp",
	.init = tern_odp_test_init,
	.exit = tern_odp_test_exit,
	.test_cases = tern_odp_cases,
};

kunit_test_suite(tern_odp_suite);

MODULE_DESCRIPTION("KUnit tests of tern's on-demand regions");
MODULE_LICENSE("Dual BSD/GPL");
