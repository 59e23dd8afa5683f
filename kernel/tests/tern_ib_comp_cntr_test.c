// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Tests of completion counters: a stub executes the commands as the device. */

#include <kunit/static_stub.h>
#include <kunit/test.h>
#include <linux/module.h>

#include "tern_comp_cntr.h"
#include "tern_ib.h"

MODULE_IMPORT_NS("EXPORTED_FOR_KUNIT_TESTING");

/**
 * struct tern_test_cntr - a device and its last command
 * @ib: the RDMA device
 * @core: its PCI function
 * @caps: its limits
 * @opcode: the last command, 0 if there was none
 * @in: its input
 * @len: number of bytes in @in
 */
struct tern_test_cntr {
	struct tern_ib_dev ib;
	struct tern_core core;
	struct tern_rsp_caps caps;
	u16 opcode;
	u8 in[64];
	size_t len;
};

/* Replaces tern_cmd_exec(). */
static int tern_test_exec(struct tern_core *core, u16 opcode, const void *in,
			  size_t in_len, void *out, size_t out_len)
{
	struct tern_test_cntr *dev = kunit_get_current_test()->priv;

	dev->opcode = opcode;
	dev->len = in_len;
	memcpy(dev->in, in, min(in_len, sizeof(dev->in)));
	return 0;
}

static int tern_test_cntr_init(struct kunit *test)
{
	struct tern_test_cntr *dev = kunit_kzalloc(test, sizeof(*dev), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, dev);
	test->priv = dev;
	dev->caps.max_comp_cntrs = cpu_to_le32(77);
	dev->core.caps = &dev->caps;
	dev->ib.core = &dev->core;
	kunit_activate_static_stub(test, tern_cmd_exec, tern_test_exec);
	return 0;
}

/* A counter of the device; the driver's structure is larger than the core's. */
static struct ib_comp_cntr *tern_test_cntr_alloc(struct kunit *test)
{
	struct tern_test_cntr *dev = test->priv;
	struct ib_comp_cntr *cc;

	cc = kunit_kzalloc(test, tern_comp_cntr_ops.size_ib_comp_cntr, GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, cc);
	cc->device = &dev->ib.ibdev;
	return cc;
}

static void tern_test_cntr_caps(struct kunit *test)
{
	struct tern_test_cntr *dev = test->priv;
	struct ib_comp_cntr_caps caps = {};
	int err;

	err = tern_comp_cntr_ops.query_comp_cntr_caps(&dev->ib.ibdev, &caps, NULL);
	KUNIT_ASSERT_EQ(test, err, 0);
	KUNIT_EXPECT_EQ(test, caps.max_counters, 77);
	KUNIT_EXPECT_EQ(test, caps.max_value, U64_MAX);
	KUNIT_EXPECT_EQ(test, caps.supported_qp_attach_ops, 0x3f);
}

static void tern_test_cntr_modify(struct kunit *test)
{
	struct ib_comp_cntr *cc = tern_test_cntr_alloc(test);
	struct tern_test_cntr *dev = test->priv;
	struct tern_cmd_modify_comp_cntr cmd;
	int err;

	err = tern_comp_cntr_ops.modify_comp_cntr(cc, IB_COMP_CNTR_ENTRY_ERR,
						  IB_COMP_CNTR_MODIFY_OP_INC,
						  0x123456789abcULL);
	KUNIT_ASSERT_EQ(test, err, 0);
	KUNIT_EXPECT_EQ(test, dev->opcode, TERN_CMD_MODIFY_COMP_CNTR);
	KUNIT_ASSERT_EQ(test, dev->len, sizeof(cmd));
	memcpy(&cmd, dev->in, sizeof(cmd));
	KUNIT_EXPECT_EQ(test, cmd.entry, TERN_COMP_CNTR_ERR);
	KUNIT_EXPECT_EQ(test, cmd.op, TERN_COMP_CNTR_ADD);
	KUNIT_EXPECT_EQ(test, le64_to_cpu(cmd.operand), 0x123456789abcULL);
}

static void tern_test_cntr_attach(struct kunit *test)
{
	struct ib_qp_attach_comp_cntr_attr attr = {
		.op_mask = IB_QP_ATTACH_COMP_CNTR_OP_REMOTE_RDMA_WRITE,
	};
	struct ib_comp_cntr *cc = tern_test_cntr_alloc(test);
	struct tern_test_cntr *dev = test->priv;
	struct ib_rwq_ind_table table = {};
	struct tern_cmd_attach_comp_cntr cmd;
	struct ib_qp *qp;

	qp = kunit_kzalloc(test, sizeof(*qp), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, qp);
	qp->device = &dev->ib.ibdev;
	qp->qp_num = 17;
	KUNIT_ASSERT_EQ(test, tern_comp_cntr_ops.qp_attach_comp_cntr(qp, cc, &attr), 0);
	KUNIT_EXPECT_EQ(test, dev->opcode, TERN_CMD_ATTACH_COMP_CNTR);
	KUNIT_ASSERT_EQ(test, dev->len, sizeof(cmd));
	memcpy(&cmd, dev->in, sizeof(cmd));
	KUNIT_EXPECT_EQ(test, le32_to_cpu(cmd.qpn), 17);
	KUNIT_EXPECT_EQ(test, le32_to_cpu(cmd.ops), TERN_COMP_OP_REMOTE_WRITE);

	/* An RSS QP has no queues in the device. */
	dev->opcode = 0;
	qp->rwq_ind_tbl = &table;
	KUNIT_EXPECT_EQ(test, tern_comp_cntr_ops.qp_attach_comp_cntr(qp, cc, &attr),
			-EOPNOTSUPP);
	KUNIT_EXPECT_EQ(test, dev->opcode, 0);
}

static struct kunit_case tern_comp_cntr_cases[] = {
	KUNIT_CASE(tern_test_cntr_caps),
	KUNIT_CASE(tern_test_cntr_modify),
	KUNIT_CASE(tern_test_cntr_attach),
	{}
};

static struct kunit_suite tern_comp_cntr_suite = {
	.name = "tern_ib_comp_cntr",
	.init = tern_test_cntr_init,
	.test_cases = tern_comp_cntr_cases,
};

kunit_test_suite(tern_comp_cntr_suite);

MODULE_DESCRIPTION("KUnit tests of tern's completion counters");
MODULE_LICENSE("Dual BSD/GPL");
