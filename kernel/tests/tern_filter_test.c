// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Tests of tern_filter.c: addresses that the Ethernet function receives. */

#include <kunit/test.h>
#include <linux/etherdevice.h>
#include <linux/module.h>
#include <linux/netdevice.h>

#include "tern_net.h"
#include "tern_hw.h"

MODULE_IMPORT_NS("EXPORTED_FOR_KUNIT_TESTING");

/* More addresses than fit the filter. */
#define TERN_TEST_ADDRS		(TERN_RX_FILTER_MACS + 1)

struct tern_test_filter {
	struct tern_cmd_set_rx_filter filter;
	struct netdev_hw_addr_list uc, mc;
	struct netdev_hw_addr uc_addrs[TERN_TEST_ADDRS];
	struct netdev_hw_addr mc_addrs[TERN_TEST_ADDRS];
};

/* Address @index of the list. */
static void tern_test_addr(u8 *addr, bool multicast, unsigned int index)
{
	const u8 want[ETH_ALEN] = { multicast ? 3 : 2, 0, 0, 0, 7, index };

	ether_addr_copy(addr, want);
}

static void tern_test_list(struct netdev_hw_addr_list *list,
			   struct netdev_hw_addr *addrs, bool multicast,
			   unsigned int num)
{
	unsigned int i;

	INIT_LIST_HEAD(&list->list);
	list->count = num;
	for (i = 0; i < num; i++) {
		tern_test_addr(addrs[i].addr, multicast, i);
		list_add_tail(&addrs[i].list, &list->list);
	}
}

static void tern_test_lists(struct tern_test_filter *t, unsigned int num_uc,
			    unsigned int num_mc)
{
	tern_test_list(&t->uc, t->uc_addrs, false, num_uc);
	tern_test_list(&t->mc, t->mc_addrs, true, num_mc);
}

/* Whether entries from @first on are @num addresses of a list. */
static bool tern_test_holds(const struct tern_test_filter *t, unsigned int first,
			    bool multicast, unsigned int num)
{
	u8 want[ETH_ALEN];
	unsigned int i;

	for (i = 0; i < num; i++) {
		tern_test_addr(want, multicast, i);
		if (memcmp(t->filter.macs[first + i], want, ETH_ALEN))
			return false;
	}
	return true;
}

static int tern_filter_test_init(struct kunit *test)
{
	test->priv = kunit_kzalloc(test, sizeof(struct tern_test_filter),
				   GFP_KERNEL);
	return test->priv ? 0 : -ENOMEM;
}

static void tern_test_filter_add(struct kunit *test)
{
	struct tern_test_filter *t = test->priv;
	unsigned int num = 0;

	tern_test_lists(t, 3, TERN_RX_FILTER_MACS - 3);
	KUNIT_EXPECT_TRUE(test, tern_filter_add(&t->filter, &num, &t->uc));
	KUNIT_EXPECT_EQ(test, num, 3);
	KUNIT_EXPECT_TRUE(test, tern_filter_add(&t->filter, &num, &t->mc));
	KUNIT_EXPECT_EQ(test, num, TERN_RX_FILTER_MACS);
	KUNIT_EXPECT_TRUE(test, tern_test_holds(t, 0, false, 3));
	KUNIT_EXPECT_TRUE(test, tern_test_holds(t, 3, true,
						TERN_RX_FILTER_MACS - 3));

	/* A full filter accepts an empty list only. */
	tern_test_lists(t, 1, 0);
	KUNIT_EXPECT_FALSE(test, tern_filter_add(&t->filter, &num, &t->uc));
	KUNIT_EXPECT_TRUE(test, tern_filter_add(&t->filter, &num, &t->mc));
	KUNIT_EXPECT_EQ(test, num, TERN_RX_FILTER_MACS);

	/* A list that does not fit changes nothing. */
	memset(&t->filter, 0xa5, sizeof(t->filter));
	num = 1;
	tern_test_lists(t, TERN_RX_FILTER_MACS, 0);
	KUNIT_EXPECT_FALSE(test, tern_filter_add(&t->filter, &num, &t->uc));
	KUNIT_EXPECT_EQ(test, num, 1);
	KUNIT_EXPECT_PTR_EQ(test, memchr_inv(&t->filter, 0xa5, sizeof(t->filter)),
			    NULL);
}

static void tern_test_filter_fill(struct kunit *test)
{
	static const struct {
		unsigned int iff;
		bool vlans;
		unsigned int uc, mc;
		u16 flags, num_macs;
	} cases[] = {
		{ 0, false, 0, 0, 0, 0 },
		{ 0, true, 2, 3, TERN_RXF_VLANS, 5 },
		{ 0, true, TERN_RX_FILTER_MACS, 0, TERN_RXF_VLANS,
		  TERN_RX_FILTER_MACS },
		/* Promiscuous mode needs neither VLAN filters nor addresses. */
		{ IFF_PROMISC, true, 2, 3, TERN_RXF_PROMISC, 3 },
		{ IFF_ALLMULTI, true, 2, 3, TERN_RXF_VLANS | TERN_RXF_ALLMULTI, 2 },
		{ IFF_PROMISC | IFF_ALLMULTI, true, 2, 3,
		  TERN_RXF_PROMISC | TERN_RXF_ALLMULTI, 0 },
		{ IFF_UP | IFF_BROADCAST | IFF_MULTICAST, false, 1, 1, 0, 2 },
		/* Too many addresses: receive all. */
		{ 0, true, TERN_TEST_ADDRS, 3, TERN_RXF_PROMISC, 3 },
		{ 0, true, 2, TERN_TEST_ADDRS, TERN_RXF_VLANS | TERN_RXF_ALLMULTI,
		  2 },
		{ 0, true, TERN_RX_FILTER_MACS, 1,
		  TERN_RXF_VLANS | TERN_RXF_ALLMULTI, TERN_RX_FILTER_MACS },
	};
	struct tern_test_filter *t = test->priv;
	unsigned int i, num_uc, num;
	bool promisc;
	u8 *macs;

	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		/* Leaves the VLANs alone and overwrites everything else. */
		memset(&t->filter, 0xa5, sizeof(t->filter));
		tern_test_lists(t, cases[i].uc, cases[i].mc);
		tern_filter_fill(&t->filter, cases[i].iff, cases[i].vlans,
				 &t->uc, &t->mc);

		num = le16_to_cpu(t->filter.num_macs);
		KUNIT_EXPECT_EQ_MSG(test, le16_to_cpu(t->filter.flags),
				    cases[i].flags, "case %u", i);
		KUNIT_ASSERT_EQ_MSG(test, num, cases[i].num_macs, "case %u", i);

		promisc = cases[i].flags & TERN_RXF_PROMISC;
		num_uc = promisc ? 0 : cases[i].uc;
		KUNIT_EXPECT_TRUE_MSG(test, tern_test_holds(t, 0, false, num_uc),
				      "case %u", i);
		KUNIT_EXPECT_TRUE_MSG(test, tern_test_holds(t, num_uc, true,
							    num - num_uc),
				      "case %u", i);
		macs = (u8 *)t->filter.macs;
		KUNIT_EXPECT_PTR_EQ_MSG(test,
					memchr_inv(macs + num * ETH_ALEN, 0,
						   sizeof(t->filter.macs) - num * ETH_ALEN),
					NULL, "case %u", i);
		KUNIT_EXPECT_PTR_EQ_MSG(test,
					memchr_inv(t->filter.vlans, 0xa5,
						   sizeof(t->filter.vlans)),
					NULL, "case %u", i);
	}
}

static struct kunit_case tern_filter_cases[] = {
	KUNIT_CASE(tern_test_filter_add),
	KUNIT_CASE(tern_test_filter_fill),
	{}
};

static struct kunit_suite tern_filter_suite = {
	.name = "tern_filter",
	.init = tern_filter_test_init,
	.test_cases = tern_filter_cases,
};

kunit_test_suite(tern_filter_suite);

MODULE_DESCRIPTION("KUnit tests of tern's receive filter");
MODULE_LICENSE("Dual BSD/GPL");
