// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Tests of pinned dma-bufs that their exporter revokes: a stub executes the
 * commands as the device.
 */

#include <kunit/device.h>
#include <kunit/static_stub.h>
#include <kunit/test.h>
#include <linux/dma-buf.h>
#include <linux/dma-resv.h>
#include <linux/fdtable.h>
#include <linux/file.h>
#include <linux/module.h>
#include <linux/pci.h>

#include <rdma/uverbs_ioctl.h>

#include "tern_dev.h"
#include "tern_ib.h"

MODULE_IMPORT_NS("DMA_BUF");
MODULE_IMPORT_NS("EXPORTED_FOR_KUNIT_TESTING");

#define TERN_TEST_KEY	0x701
#define TERN_TEST_DMA	0x12345000

/**
 * struct tern_test_revoke - a device, an exporter, and a region
 * @ib: the RDMA device
 * @tdev: its PCI function
 * @pdev: its PCI device
 * @caps: its limits: no on-demand paging
 * @pd: a PD
 * @dmabuf: the exporter's memory
 * @fd: its descriptor
 * @num_mapped: number of importers that map it
 * @num_pinned: number of importers that have pinned it
 * @mr: the region
 * @key: key of the next region
 * @create_err: result of CREATE_MR
 * @close_err: result of UPDATE_PAGES
 * @destroy_err: result of DESTROY_MR
 * @num_closed: number of UPDATE_PAGES that closed the key
 * @num_destroyed: number of DESTROY_MR
 * @early: the memory was unmapped before the key was closed
 */
struct tern_test_revoke {
	struct tern_ib_dev ib;
	struct tern_dev tdev;
	struct pci_dev pdev;
	struct tern_rsp_caps caps;
	struct tern_pd pd;
	struct dma_buf *dmabuf;
	int fd;
	int num_mapped;
	int num_pinned;
	struct ib_mr *mr;
	u32 key;
	int create_err;
	int close_err;
	int destroy_err;
	unsigned int num_closed;
	unsigned int num_destroyed;
	bool early;
};

/* ---- the exporter ---- */

static int tern_test_pin(struct dma_buf_attachment *attach)
{
	struct tern_test_revoke *fake = attach->dmabuf->priv;

	fake->num_pinned++;
	return 0;
}

static void tern_test_unpin(struct dma_buf_attachment *attach)
{
	struct tern_test_revoke *fake = attach->dmabuf->priv;

	fake->num_pinned--;
}

static struct sg_table *tern_test_map(struct dma_buf_attachment *attach,
				      enum dma_data_direction dir)
{
	struct tern_test_revoke *fake = attach->dmabuf->priv;
	struct sg_table *sgt;

	sgt = kzalloc_obj(*sgt);
	if (!sgt || sg_alloc_table(sgt, 1, GFP_KERNEL)) {
		kfree(sgt);
		return ERR_PTR(-ENOMEM);
	}

	sg_set_page(sgt->sgl, ZERO_PAGE(0), PAGE_SIZE, 0);
	sg_dma_address(sgt->sgl) = TERN_TEST_DMA;
	sg_dma_len(sgt->sgl) = PAGE_SIZE;
	fake->num_mapped++;
	return sgt;
}

static void tern_test_unmap(struct dma_buf_attachment *attach,
			    struct sg_table *sgt, enum dma_data_direction dir)
{
	struct tern_test_revoke *fake = attach->dmabuf->priv;

	fake->num_mapped--;
	sg_free_table(sgt);
	kfree(sgt);
}

static void tern_test_release(struct dma_buf *dmabuf)
{
}

static const struct dma_buf_ops tern_test_dmabuf_ops = {
	.pin = tern_test_pin,
	.unpin = tern_test_unpin,
	.map_dma_buf = tern_test_map,
	.unmap_dma_buf = tern_test_unmap,
	.release = tern_test_release,
};

static void tern_test_revoke(struct tern_test_revoke *fake)
{
	dma_resv_lock(fake->dmabuf->resv, NULL);
	dma_buf_invalidate_mappings(fake->dmabuf);
	dma_resv_unlock(fake->dmabuf->resv);
}

/* ---- the device ---- */

/* Replaces tern_cmd_exec(). */
static int tern_test_exec(struct tern_core *core, u16 opcode, const void *in,
			  size_t in_len, void *out, size_t out_len)
{
	struct tern_test_revoke *fake = kunit_get_current_test()->priv;
	const struct tern_cmd_update_pages *update = in;
	struct tern_rsp_object *object = out;

	switch (opcode) {
	case TERN_CMD_CREATE_MR:
		memset(out, 0, out_len);
		object->id = cpu_to_le32(fake->key);
		return fake->create_err;
	case TERN_CMD_UPDATE_PAGES:
		fake->early |= fake->num_mapped != 1 || fake->num_pinned != 1;
		if (update->key == cpu_to_le32(TERN_TEST_KEY) &&
		    update->flags == cpu_to_le32(TERN_UPDATE_CLOSE) &&
		    !update->pages.num)
			fake->num_closed++;
		return fake->close_err;
	case TERN_CMD_DESTROY_MR:
		fake->num_destroyed++;
		return fake->destroy_err;
	default:
		return -EINVAL;
	}
}

static void tern_test_no_work(struct work_struct *work)
{
}

static struct ib_mr *tern_test_reg(struct tern_test_revoke *fake)
{
	struct uverbs_attr_bundle attrs = {};

	return tern_reg_user_mr_dmabuf(&fake->pd.ibpd, 0, PAGE_SIZE, 0, fake->fd,
				       IB_ACCESS_LOCAL_WRITE |
				       IB_ACCESS_REMOTE_WRITE, NULL, &attrs);
}

static int tern_revoke_test_init(struct kunit *test)
{
	DEFINE_DMA_BUF_EXPORT_INFO(info);
	struct tern_test_revoke *fake;
	struct device *dev;

	fake = kunit_kzalloc(test, sizeof(*fake), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, fake);
	test->priv = fake;
	fake->key = TERN_TEST_KEY;
	dev = kunit_device_register(test, "tern-revoke");
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, dev);
	fake->ib.core = &fake->tdev.core;
	fake->ib.ibdev.dma_device = dev;
	fake->tdev.core.pdev = &fake->pdev;
	fake->tdev.core.caps = &fake->caps;
	fake->pdev.error_state = pci_channel_io_perm_failure;
	fake->caps.max_cmd_pages = cpu_to_le32(512);
	fake->caps.max_mr_size = cpu_to_le64(SZ_1G);
	fake->caps.page_shift_mask = cpu_to_le64(GENMASK(31, PAGE_SHIFT));
	spin_lock_init(&fake->tdev.dead_lock);
	INIT_WORK(&fake->tdev.async_work, tern_test_no_work);
	tern_aq_init(&fake->tdev);
	fake->pd.ibpd.device = &fake->ib.ibdev;
	kunit_activate_static_stub(test, tern_cmd_exec, tern_test_exec);

	info.ops = &tern_test_dmabuf_ops;
	info.size = PAGE_SIZE;
	info.flags = O_RDWR;
	info.priv = fake;
	fake->dmabuf = dma_buf_export(&info);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, fake->dmabuf);
	fake->fd = dma_buf_fd(fake->dmabuf, O_CLOEXEC);
	KUNIT_ASSERT_GE(test, fake->fd, 0);
	return 0;
}

static void tern_revoke_test_exit(struct kunit *test)
{
	struct tern_test_revoke *fake = test->priv;

	KUNIT_EXPECT_EQ(test, fake->num_mapped, 0);
	KUNIT_EXPECT_EQ(test, fake->num_pinned, 0);
	KUNIT_EXPECT_FALSE(test, fake->early);
	close_fd(fake->fd);
	flush_delayed_fput();
	cancel_work_sync(&fake->tdev.async_work);
}

static struct tern_test_revoke *tern_test_region(struct kunit *test)
{
	struct tern_test_revoke *fake = test->priv;

	fake->mr = tern_test_reg(fake);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, fake->mr);
	KUNIT_EXPECT_EQ(test, fake->mr->rkey, TERN_TEST_KEY);
	KUNIT_EXPECT_EQ(test, fake->num_mapped, 1);
	return fake;
}

/* The memory is unmapped once the device has closed the key, which stays. */
static void tern_test_revoked(struct kunit *test)
{
	struct tern_test_revoke *fake = tern_test_region(test);

	tern_test_revoke(fake);
	KUNIT_EXPECT_EQ(test, fake->num_closed, 1);
	KUNIT_EXPECT_EQ(test, fake->num_mapped, 0);
	KUNIT_EXPECT_EQ(test, fake->num_pinned, 0);
	KUNIT_EXPECT_EQ(test, fake->num_destroyed, 0);
	tern_test_revoke(fake);
	KUNIT_EXPECT_EQ(test, tern_dereg_mr(fake->mr, NULL), 0);
	KUNIT_EXPECT_EQ(test, fake->num_closed, 1);
	KUNIT_EXPECT_EQ(test, fake->num_destroyed, 1);
	KUNIT_EXPECT_FALSE(test, tern_core_dead(&fake->tdev.core));
}

/* Another region may have the key of one that was deregistered. */
static void tern_test_deregistered(struct kunit *test)
{
	struct tern_test_revoke *fake = tern_test_region(test);

	KUNIT_EXPECT_EQ(test, tern_dereg_mr(fake->mr, NULL), 0);
	KUNIT_EXPECT_EQ(test, fake->num_mapped, 0);
	tern_test_revoke(fake);
	KUNIT_EXPECT_EQ(test, fake->num_closed, 0);
	KUNIT_EXPECT_EQ(test, fake->num_destroyed, 1);
}

/* With windows bound, a region stays, and can still be revoked. */
static void tern_test_revoked_after_busy(struct kunit *test)
{
	struct tern_test_revoke *fake = tern_test_region(test);

	fake->destroy_err = -EBUSY;
	KUNIT_EXPECT_EQ(test, tern_dereg_mr(fake->mr, NULL), -EBUSY);
	KUNIT_EXPECT_EQ(test, fake->num_mapped, 1);
	tern_test_revoke(fake);
	KUNIT_EXPECT_EQ(test, fake->num_closed, 1);
	KUNIT_EXPECT_EQ(test, fake->num_mapped, 0);
	fake->destroy_err = 0;
	KUNIT_EXPECT_EQ(test, tern_dereg_mr(fake->mr, NULL), 0);
	KUNIT_EXPECT_FALSE(test, tern_core_dead(&fake->tdev.core));
}

/* A device that does not close the key must not reach the memory. */
static void tern_test_close_refused(struct kunit *test)
{
	struct tern_test_revoke *fake = tern_test_region(test);

	fake->close_err = -EIO;
	tern_test_revoke(fake);
	KUNIT_EXPECT_TRUE(test, tern_core_dead(&fake->tdev.core));
	KUNIT_EXPECT_EQ(test, fake->num_mapped, 0);
	KUNIT_EXPECT_EQ(test, tern_dereg_mr(fake->mr, NULL), 0);
}

/* Nor one that keeps the region: the exporter takes the memory back some day. */
static void tern_test_destroy_refused(struct kunit *test)
{
	struct tern_test_revoke *fake = tern_test_region(test);

	fake->destroy_err = -EINVAL;
	KUNIT_EXPECT_EQ(test, tern_dereg_mr(fake->mr, NULL), 0);
	KUNIT_EXPECT_TRUE(test, tern_core_dead(&fake->tdev.core));
	KUNIT_EXPECT_EQ(test, fake->num_mapped, 0);
	tern_test_revoke(fake);
	KUNIT_EXPECT_EQ(test, fake->num_closed, 0);
}

static void tern_test_create_refused(struct kunit *test)
{
	struct tern_test_revoke *fake = test->priv;

	fake->create_err = -ENOMEM;
	KUNIT_EXPECT_EQ(test, PTR_ERR_OR_ZERO(tern_test_reg(fake)), -ENOMEM);
	KUNIT_EXPECT_EQ(test, fake->num_mapped, 0);
	tern_test_revoke(fake);
	KUNIT_EXPECT_EQ(test, fake->num_closed, 0);
	KUNIT_EXPECT_EQ(test, fake->num_destroyed, 0);
	KUNIT_EXPECT_FALSE(test, tern_core_dead(&fake->tdev.core));
}

/* The MR of the kernel's DMA lkey is no region, and no region has this key. */
static void tern_test_dma_key(struct kunit *test)
{
	struct tern_test_revoke *fake = test->priv;
	struct ib_mr *mr;

	fake->pd.privileged = true;
	mr = tern_get_dma_mr(&fake->pd.ibpd, IB_ACCESS_LOCAL_WRITE);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, mr);
	mr->device = &fake->ib.ibdev;
	KUNIT_EXPECT_EQ(test, tern_dereg_mr(mr, NULL), 0);
	KUNIT_EXPECT_EQ(test, fake->num_destroyed, 0);

	fake->key = TERN_LKEY_DMA;
	KUNIT_EXPECT_EQ(test, PTR_ERR_OR_ZERO(tern_test_reg(fake)), -EIO);
	KUNIT_EXPECT_EQ(test, fake->num_mapped, 0);
	KUNIT_EXPECT_TRUE(test, tern_core_dead(&fake->tdev.core));
}

static struct kunit_case tern_revoke_cases[] = {
	KUNIT_CASE(tern_test_revoked),
	KUNIT_CASE(tern_test_deregistered),
	KUNIT_CASE(tern_test_revoked_after_busy),
	KUNIT_CASE(tern_test_close_refused),
	KUNIT_CASE(tern_test_destroy_refused),
	KUNIT_CASE(tern_test_create_refused),
	KUNIT_CASE(tern_test_dma_key),
	{}
};

static struct kunit_suite tern_revoke_suite = {
	.name = "tern_ib_revoke",
	.init = tern_revoke_test_init,
	.exit = tern_revoke_test_exit,
	.test_cases = tern_revoke_cases,
};

kunit_test_suite(tern_revoke_suite);

MODULE_DESCRIPTION("KUnit tests of tern's pinned dma-bufs");
MODULE_LICENSE("Dual BSD/GPL");
