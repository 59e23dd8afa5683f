// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Tests of the methods for direct verbs: a stub executes the commands. */

#include <kunit/static_stub.h>
#include <kunit/test.h>
#include <linux/module.h>
#include <linux/string.h>

#include "tern_ib_dv.h"

MODULE_IMPORT_NS("EXPORTED_FOR_KUNIT_TESTING");

#define TERN_TEST_PDN	4
#define TERN_TEST_QPN	17
#define TERN_TEST_KEY	0x12345678

/**
 * struct tern_test_dv - a device and its objects
 * @ib: the RDMA device
 * @core: its PCI function
 * @caps: capabilities
 * @pd: a PD
 * @qp: a QP
 * @key: reply to QUERY_MR
 * @attr: attributes of the QP in the device
 * @modify: the last MODIFY_QP
 * @num_modify: number of them
 */
struct tern_test_dv {
	struct tern_ib_dev ib;
	struct tern_core core;
	struct tern_rsp_caps caps;
	struct tern_pd pd;
	struct tern_qp qp;
	struct tern_rsp_mr key;
	struct tern_qp_attr attr;
	struct tern_cmd_modify_qp modify;
	unsigned int num_modify;
};

/* Replaces tern_cmd_exec(). */
static int tern_test_exec(struct tern_core *core, u16 opcode, const void *in,
			  size_t in_len, void *out, size_t out_len)
{
	struct tern_test_dv *dev = kunit_get_current_test()->priv;
	const struct tern_cmd_object *object = in;
	struct tern_rsp_query_qp *qp = out;

	switch (opcode) {
	case TERN_CMD_QUERY_MR:
		if (object->id != cpu_to_le32(TERN_TEST_KEY))
			return -ENOENT;
		memcpy(out, &dev->key, sizeof(dev->key));
		return 0;
	case TERN_CMD_QUERY_QP:
		memset(out, 0, out_len);
		qp->attr = dev->attr;
		return 0;
	case TERN_CMD_MODIFY_QP:
		memcpy(&dev->modify, in, sizeof(dev->modify));
		dev->num_modify++;
		return 0;
	default:
		return -EOPNOTSUPP;
	}
}

static int tern_test_dv_init(struct kunit *test)
{
	struct tern_test_dv *dev = kunit_kzalloc(test, sizeof(*dev), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, dev);
	test->priv = dev;
	dev->core.caps = &dev->caps;
	dev->ib.core = &dev->core;
	dev->caps.flags = cpu_to_le64(TERN_CAP_UDP_SPORT);
	dev->pd.ibpd.device = &dev->ib.ibdev;
	dev->pd.pdn = TERN_TEST_PDN;
	dev->qp.ibqp.device = &dev->ib.ibdev;
	dev->qp.ibqp.qp_num = TERN_TEST_QPN;
	dev->qp.ibqp.real_qp = &dev->qp.ibqp;
	mutex_init(&dev->qp.lock);
	kunit_activate_static_stub(test, tern_cmd_exec, tern_test_exec);
	return 0;
}

static void tern_test_query_key(struct kunit *test)
{
	struct tern_test_dv *dev = test->priv;
	struct tern_uresp_query_key resp;

	dev->key = (struct tern_rsp_mr){
		.iova = cpu_to_le64(0x1122334455667788),
		.length = cpu_to_le64(99),
		.key = cpu_to_le32(TERN_TEST_KEY + 1),
		.pdn = cpu_to_le32(TERN_TEST_PDN),
		.access = cpu_to_le32(TERN_ACCESS_LOCAL_WRITE |
				      TERN_ACCESS_REMOTE_ATOMIC |
				      TERN_ACCESS_MW_BIND |
				      TERN_ACCESS_ZERO_BASED |
				      TERN_ACCESS_FLUSH_GLOBAL),
		.qpn = cpu_to_le32(TERN_TEST_QPN),
		.num_windows = cpu_to_le32(6),
		.mr_key = cpu_to_le32(7),
		.state = TERN_KEY_ST_VALID,
		.type = 2,
	};
	memset(&resp, 0xff, sizeof(resp));
	KUNIT_ASSERT_EQ(test, tern_query_key(&dev->pd.ibpd, TERN_TEST_KEY,
					     &resp), 0);
	KUNIT_EXPECT_EQ(test, resp.addr, 0x1122334455667788);
	KUNIT_EXPECT_EQ(test, resp.length, 99);
	KUNIT_EXPECT_EQ(test, resp.key, TERN_TEST_KEY + 1);
	KUNIT_EXPECT_EQ(test, resp.access,
			IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_ATOMIC |
			IB_ACCESS_MW_BIND | IB_ZERO_BASED |
			IB_ACCESS_FLUSH_GLOBAL);
	KUNIT_EXPECT_EQ(test, resp.qp_num, TERN_TEST_QPN);
	KUNIT_EXPECT_EQ(test, resp.num_windows, 6);
	KUNIT_EXPECT_EQ(test, resp.mr_key, 7);
	KUNIT_EXPECT_EQ(test, resp.state, TERN_KEY_STATE_VALID);
	KUNIT_EXPECT_EQ(test, resp.type, 2);
	KUNIT_EXPECT_EQ(test, resp.reserved_130[0], 0);
	KUNIT_EXPECT_EQ(test, resp.reserved_130[1], 0);
}

/* A key of another PD is like one that does not exist, and nothing leaks. */
static void tern_test_foreign_key(struct kunit *test)
{
	struct tern_test_dv *dev = test->priv;
	struct tern_uresp_query_key resp = {};

	dev->key.pdn = cpu_to_le32(TERN_TEST_PDN + 1);
	dev->key.length = cpu_to_le64(99);
	KUNIT_EXPECT_EQ(test, tern_query_key(&dev->pd.ibpd, TERN_TEST_KEY,
					     &resp), -ENOENT);
	KUNIT_EXPECT_EQ(test, tern_query_key(&dev->pd.ibpd, TERN_TEST_KEY + 1,
					     &resp), -ENOENT);
	KUNIT_EXPECT_EQ(test, resp.length, 0);
}

static void tern_test_set_sport(struct kunit *test)
{
	static const enum ib_qp_type with_path[] = {
		IB_QPT_RC, IB_QPT_UC, IB_QPT_XRC_INI, IB_QPT_XRC_TGT,
	};
	static const enum ib_qp_type without[] = {
		IB_QPT_UD, IB_QPT_GSI, IB_QPT_RAW_PACKET,
	};
	struct tern_test_dv *dev = test->priv;
	struct ib_qp *qp = &dev->qp.ibqp;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(with_path); i++) {
		qp->qp_type = with_path[i];
		KUNIT_EXPECT_EQ(test, tern_qp_set_sport(qp, 0xc123), 0);
		KUNIT_EXPECT_EQ(test, tern_qp_set_sport(qp, 0), -EINVAL);
	}
	KUNIT_EXPECT_EQ(test, dev->num_modify, ARRAY_SIZE(with_path));
	KUNIT_EXPECT_EQ(test, le32_to_cpu(dev->modify.qpn), TERN_TEST_QPN);
	KUNIT_EXPECT_EQ(test, le32_to_cpu(dev->modify.mask),
			TERN_QPA_UDP_SPORT);
	KUNIT_EXPECT_EQ(test, le16_to_cpu(dev->modify.attr.av.udp_sport),
			0xc123);

	for (i = 0; i < ARRAY_SIZE(without); i++) {
		qp->qp_type = without[i];
		KUNIT_EXPECT_EQ(test, tern_qp_set_sport(qp, 1), -EOPNOTSUPP);
	}
	qp->qp_type = IB_QPT_RC;
	dev->caps.flags = cpu_to_le64(~(u64)TERN_CAP_UDP_SPORT);
	KUNIT_EXPECT_EQ(test, tern_qp_set_sport(qp, 1), -EOPNOTSUPP);
	KUNIT_EXPECT_EQ(test, dev->num_modify, ARRAY_SIZE(with_path));
}

static void tern_test_get_sport(struct kunit *test)
{
	struct tern_test_dv *dev = test->priv;
	u16 sport = 0;

	dev->qp.ibqp.qp_type = IB_QPT_UC;
	dev->attr.av.udp_sport = cpu_to_le16(0xd234);
	KUNIT_EXPECT_EQ(test, tern_qp_get_sport(&dev->qp.ibqp, &sport), -EINVAL);
	dev->attr.path_mtu = 12;
	KUNIT_EXPECT_EQ(test, tern_qp_get_sport(&dev->qp.ibqp, &sport), 0);
	KUNIT_EXPECT_EQ(test, sport, 0xd234);
	dev->qp.ibqp.qp_type = IB_QPT_UD;
	KUNIT_EXPECT_EQ(test, tern_qp_get_sport(&dev->qp.ibqp, &sport), -EOPNOTSUPP);
}

/*
 * The uobject of an XRC target has an object of ib_core's, which is smaller than the
 * driver's and has no number of its own here.
 */
static void tern_test_sport_of_view(struct kunit *test)
{
	struct tern_test_dv *dev = test->priv;
	struct ib_qp *view = kunit_kzalloc(test, sizeof(*view), GFP_KERNEL);
	u16 sport = 0;

	KUNIT_ASSERT_NOT_NULL(test, view);
	dev->qp.ibqp.qp_type = IB_QPT_XRC_TGT;
	dev->attr.av.udp_sport = cpu_to_le16(0xe345);
	dev->attr.path_mtu = 12;
	view->device = &dev->ib.ibdev;
	view->qp_type = IB_QPT_XRC_TGT;
	view->real_qp = &dev->qp.ibqp;
	KUNIT_EXPECT_EQ(test, tern_qp_set_sport(view, 0xc123), 0);
	KUNIT_EXPECT_EQ(test, dev->num_modify, 1);
	KUNIT_EXPECT_EQ(test, le32_to_cpu(dev->modify.qpn), TERN_TEST_QPN);
	KUNIT_EXPECT_EQ(test, tern_qp_get_sport(view, &sport), 0);
	KUNIT_EXPECT_EQ(test, sport, 0xe345);
}

static struct kunit_case tern_ib_dv_cases[] = {
	KUNIT_CASE(tern_test_query_key),
	KUNIT_CASE(tern_test_foreign_key),
	KUNIT_CASE(tern_test_set_sport),
	KUNIT_CASE(tern_test_get_sport),
	KUNIT_CASE(tern_test_sport_of_view),
	{}
};

static struct kunit_suite tern_ib_dv_suite = {
	.name = "tern_ib_dv",
	.init = tern_test_dv_init,
	.test_cases = tern_ib_dv_cases,
};

kunit_test_suite(tern_ib_dv_suite);

MODULE_DESCRIPTION("KUnit tests of tern_ib's methods for direct verbs");
MODULE_LICENSE("Dual BSD/GPL");
