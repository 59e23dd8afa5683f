// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Tests of tern.ko's network device: its life, configuration and statistics. */

#include <kunit/device.h>
#include <kunit/test.h>
#ifndef TERN_WITHOUT_XDP
#include <linux/bpf.h>
#endif
#include <linux/delay.h>
#include <linux/etherdevice.h>
#include <linux/ethtool.h>
#include <linux/module.h>
#include <linux/rtnetlink.h>
#include <net/page_pool/helpers.h>

#include "tern_net_fake.h"
#include "tern_util.h"

MODULE_IMPORT_NS("EXPORTED_FOR_KUNIT_TESTING");

static bool tern_test_has_link(struct kunit *test)
{
	return netif_carrier_ok(tern_test_net(test)->netdev);
}

/* A restart wakes the queues last. */
static bool tern_test_transmits(struct kunit *test)
{
	return tern_test_has_link(test) &&
	       !netif_queue_stopped(tern_test_net(test)->netdev);
}

static void tern_test_expect_up(struct kunit *test, unsigned int mtu)
{
	struct tern_test_net *fake = test->priv;
	struct tern_net *net = fake->tdev.net;

	KUNIT_EXPECT_TRUE(test, netif_running(net->netdev));
	KUNIT_EXPECT_TRUE(test, tern_test_wait(tern_test_transmits, test));
	KUNIT_EXPECT_EQ(test, net->netdev->real_num_rx_queues, net->config.channels);
	KUNIT_EXPECT_EQ(test, net->netdev->mtu, mtu);
	KUNIT_EXPECT_EQ(test, READ_ONCE(fake->port_mtu), mtu);
	KUNIT_EXPECT_TRUE(test, READ_ONCE(fake->port_enabled));
	KUNIT_EXPECT_EQ(test, READ_ONCE(fake->eth_queues), 2 * net->config.channels);
	KUNIT_EXPECT_EQ(test, tern_test_queues(test)->channel[0].rx.frame_len,
			tern_frame_len(mtu));
}

/* A new MTU creates new queues. */
static void tern_test_mtu(struct kunit *test)
{
	tern_test_open(test);
	tern_test_expect_up(test, ETH_DATA_LEN);
	KUNIT_EXPECT_EQ(test, tern_test_set_mtu(test, 9000), 0);
	tern_test_expect_up(test, 9000);
	KUNIT_EXPECT_EQ(test, tern_test_set_mtu(test, 1280), 0);
	tern_test_expect_up(test, 1280);
}

/* If new queues cannot be allocated, the old ones go on. */
static void tern_test_mtu_no_memory(struct kunit *test)
{
	const struct tern_queues *queues;

	tern_test_open(test);
	queues = tern_test_queues(test);
	tern_test_exhaust(test, true);
	KUNIT_EXPECT_EQ(test, tern_test_set_mtu(test, 9000), -ENOMEM);
	tern_test_exhaust(test, false);
	tern_test_expect_up(test, ETH_DATA_LEN);
	KUNIT_EXPECT_PTR_EQ(test, tern_test_queues(test), queues);
}

/*
 * A device that refuses new queues, and to recreate the old ones: no link, for
 * RDMA either, until it accepts them.
 */
static void tern_test_refused(struct kunit *test)
{
	struct tern_test_net *fake = test->priv;
	struct tern_net *net = fake->tdev.net;

	tern_test_open(test);
	WRITE_ONCE(fake->refused, TERN_CMD_CREATE_ETH_QUEUE);
	KUNIT_EXPECT_EQ(test, tern_test_set_mtu(test, 9000), -ENOMEM);
	KUNIT_EXPECT_TRUE(test, netif_running(net->netdev));
	KUNIT_EXPECT_FALSE(test, netif_carrier_ok(net->netdev));
	KUNIT_EXPECT_FALSE(test, READ_ONCE(fake->port_enabled));
	KUNIT_EXPECT_EQ(test, READ_ONCE(fake->eth_queues), 0);
	WRITE_ONCE(fake->refused, 0);
	tern_test_expect_up(test, ETH_DATA_LEN);
}

static u32 tern_test_rx_id(struct kunit *test, unsigned int channel)
{
	return tern_test_queues(test)->channel[channel].rx.id;
}

/* The default group spreads frames over all channels, how many there are. */
static void tern_test_channels(struct kunit *test)
{
	struct tern_test_net *fake = test->priv;
	unsigned int i;

	tern_test_many(test);
	tern_test_open(test);
	tern_test_expect_up(test, ETH_DATA_LEN);
	KUNIT_EXPECT_EQ(test, READ_ONCE(fake->rss_groups), 1);
	KUNIT_EXPECT_EQ(test, fake->rx_default.dest, TERN_DEST_RSS);
	for (i = 0; i < TERN_RSS_ENTRIES; i++)
		KUNIT_EXPECT_EQ(test, le32_to_cpu(fake->rss.entries[i]),
				tern_test_rx_id(test, i % 4));

	KUNIT_EXPECT_EQ(test, tern_test_set_channels(test, 3), 0);
	tern_test_expect_up(test, ETH_DATA_LEN);
	KUNIT_EXPECT_EQ(test, READ_ONCE(fake->rss_groups), 1);
	for (i = 0; i < TERN_RSS_ENTRIES; i++)
		KUNIT_EXPECT_EQ(test, le32_to_cpu(fake->rss.entries[i]),
				tern_test_rx_id(test, i % 3));

	/* Without memory for new queues, the three continue. */
	tern_test_exhaust(test, true);
	KUNIT_EXPECT_EQ(test, tern_test_set_channels(test, 2), -ENOMEM);
	tern_test_exhaust(test, false);
	KUNIT_EXPECT_EQ(test, tern_test_net(test)->config.channels, 3);
	tern_test_expect_up(test, ETH_DATA_LEN);
}

#ifndef TERN_WITHOUT_STEERING
/* Groups and rules exist in the device again after a reset. */
static void tern_test_steering(struct kunit *test)
{
	struct tern_test_net *fake = test->priv;
	struct net_device *netdev = fake->tdev.net->netdev;
	const struct ethtool_ops *ops = netdev->ethtool_ops;
	struct ethtool_rxnfc info = {
		.cmd = ETHTOOL_SRXCLSRLINS,
		.fs = {
			.flow_type = TCP_V4_FLOW,
			.location = 5,
			.ring_cookie = 2,
			.h_u.tcp_ip4_spec.pdst = htons(80),
			.m_u.tcp_ip4_spec.pdst = htons(0xffff),
		},
	};

	tern_test_many(test);
	tern_test_open(test);
	rtnl_lock();
	KUNIT_EXPECT_EQ(test, ops->set_rxnfc(netdev, &info), 0);
	KUNIT_EXPECT_EQ(test, le32_to_cpu(fake->flow.dest_id), tern_test_rx_id(test, 2));
	info.fs.location = RX_CLS_LOC_ANY;
	KUNIT_EXPECT_EQ(test, ops->set_rxnfc(netdev, &info), 0);
	KUNIT_EXPECT_EQ(test, info.fs.location, 0);
	info.fs.location = 1;
	info.fs.ring_cookie = 4;
	KUNIT_EXPECT_EQ(test, ops->set_rxnfc(netdev, &info), -EINVAL);
	rtnl_unlock();
	KUNIT_EXPECT_EQ(test, READ_ONCE(fake->flows), 2);

	tern_net_detach(fake->tdev.net);
	KUNIT_EXPECT_EQ(test, READ_ONCE(fake->flows), 0);
	KUNIT_EXPECT_EQ(test, READ_ONCE(fake->rss_groups), 0);
	tern_net_attach(fake->tdev.net);
	KUNIT_EXPECT_EQ(test, READ_ONCE(fake->flows), 2);
	/* Rules are created by their location. */
	KUNIT_EXPECT_EQ(test, le32_to_cpu(fake->flow.priority), TERN_RULE_PRIORITY + 5);
	KUNIT_EXPECT_EQ(test, le32_to_cpu(fake->flow.dest_id), tern_test_rx_id(test, 2));

	rtnl_lock();
	info.cmd = ETHTOOL_SRXCLSRLDEL;
	info.fs.location = 5;
	KUNIT_EXPECT_EQ(test, ops->set_rxnfc(netdev, &info), 0);
	KUNIT_EXPECT_EQ(test, ops->set_rxnfc(netdev, &info), -ENOENT);
	rtnl_unlock();
	KUNIT_EXPECT_EQ(test, READ_ONCE(fake->flows), 1);
}

#endif
/* A pool of pages that are too large for any allocation to succeed. */
static struct page_pool *tern_test_empty_pool(struct kunit *test)
{
	const struct page_pool_params params = {
		.pool_size = 16,
		.nid = NUMA_NO_NODE,
	};
	struct page_pool *pool = page_pool_create(&params);

	KUNIT_ASSERT_FALSE(test, IS_ERR(pool));
	/* Creation would refuse it. */
	pool->p.order = MAX_PAGE_ORDER + 1;
	return pool;
}

static bool tern_test_ring_is_full(struct kunit *test)
{
	struct tern_rx *rx = &tern_test_queues(test)->channel[0].rx;

	return READ_ONCE(rx->pi) - READ_ONCE(rx->ci) == BIT(rx->log_size);
}

/*
 * A receive ring without buffers: NAPI completes, and buffers are posted once
 * there is memory.
 */
static void tern_test_empty_ring(struct kunit *test)
{
	struct tern_net *net = tern_test_net(test);
	struct tern_rx_slot *slot;
	struct tern_channel *ch;
	struct page_pool *pool;
	struct tern_rx *rx;
	int done;

	tern_test_open(test);
	ch = &tern_test_queues(test)->channel[0];
	rx = &ch->rx;
	napi_disable(&ch->napi);
	for (; rx->ci != rx->pi; rx->ci++) {
		slot = &rx->slots[tern_ring_slot(rx->ci, rx->log_size)];
		page_pool_put_full_page(rx->pool, slot->page, false);
	}
	pool = rx->pool;
	rx->pool = tern_test_empty_pool(test);
	/*
	 * A poll that never completes would show here. The work waits for the
	 * lock, so it runs later.
	 */
	rtnl_lock();
	local_bh_disable();
	done = tern_net_poll(&ch->napi, NAPI_POLL_WEIGHT);
	local_bh_enable();
	KUNIT_EXPECT_LT(test, done, NAPI_POLL_WEIGHT);
	KUNIT_EXPECT_TRUE(test, work_busy(&net->refill_work.work));
	swap(rx->pool, pool);
	page_pool_destroy(pool);
	napi_enable(&ch->napi);
	rtnl_unlock();

	KUNIT_EXPECT_TRUE(test, tern_test_wait(tern_test_ring_is_full, test));
	tern_test_expect_up(test, ETH_DATA_LEN);
}

#ifndef TERN_WITHOUT_RESET
static bool tern_test_filter_has(struct kunit *test, const u8 *mac)
{
	struct tern_test_net *fake = test->priv;
	unsigned int i;

	for (i = 0; i < le16_to_cpu(fake->filter.num_macs); i++)
		if (ether_addr_equal(fake->filter.macs[i], mac))
			return true;
	return false;
}

/* The filter changes during a reset, in which the core reports nothing. */
static void tern_test_filter_detached(struct kunit *test)
{
	static const u8 group[ETH_ALEN] = { 0x33, 0x33, 0, 0, 0x12, 0x34 };
	struct tern_test_net *fake = test->priv;
	struct net_device *netdev = fake->tdev.net->netdev;

	tern_test_open(test);
	KUNIT_EXPECT_FALSE(test, tern_test_filter_has(test, group));
	tern_net_detach(fake->tdev.net);
	rtnl_lock();
	KUNIT_EXPECT_EQ(test, dev_mc_add(netdev, group), 0);
	KUNIT_EXPECT_EQ(test, dev_set_promiscuity(netdev, 1), 0);
	rtnl_unlock();
	tern_net_attach(fake->tdev.net);
	KUNIT_EXPECT_TRUE(test, tern_test_filter_has(test, group));
	KUNIT_EXPECT_TRUE(test, le16_to_cpu(fake->filter.flags) & TERN_RXF_PROMISC);
	tern_test_expect_up(test, ETH_DATA_LEN);

	rtnl_lock();
	dev_set_promiscuity(netdev, -1);
	dev_mc_del(netdev, group);
	rtnl_unlock();
}

#endif
#ifndef TERN_WITHOUT_STATS
static u64 tern_test_missed(struct kunit *test)
{
	struct tern_net *net = tern_test_net(test);
	struct rtnl_link_stats64 stats;

	/* The values are as old as the previous call. */
	dev_get_stats(net->netdev, &stats);
	flush_work(&net->stats_work);
	dev_get_stats(net->netdev, &stats);
	flush_work(&net->stats_work);
	return stats.rx_missed_errors;
}

static u64 tern_test_filtered(struct kunit *test)
{
	struct net_device *netdev = tern_test_net(test)->netdev;
	u64 data[16] = {};

	/* hw_rx_filtered is the second one. */
	netdev->ethtool_ops->get_ethtool_stats(netdev, NULL, data);
	return data[1];
}

/* Statistics do not run backwards at a reset, which clears the device's. */
static void tern_test_counters(struct kunit *test)
{
	struct tern_test_net *fake = test->priv;
	u64 *missed = &fake->counters[TERN_ETH_CNT_RX_NO_BUFFER];
	u64 *filtered = &fake->counters[TERN_ETH_CNT_RX_FILTERED];

	tern_test_open(test);
	WRITE_ONCE(*missed, 5);
	KUNIT_EXPECT_EQ(test, tern_test_missed(test), 5);
	WRITE_ONCE(*missed, 7);
	WRITE_ONCE(*filtered, 100);
	tern_net_detach(fake->tdev.net);
	KUNIT_EXPECT_EQ(test, tern_test_missed(test), 7);
	WRITE_ONCE(*missed, 0);
	WRITE_ONCE(*filtered, 0);
	KUNIT_EXPECT_EQ(test, tern_test_missed(test), 7);
	tern_net_attach(fake->tdev.net);
	KUNIT_EXPECT_EQ(test, tern_test_missed(test), 7);
	KUNIT_EXPECT_EQ(test, tern_test_filtered(test), 100);
	WRITE_ONCE(*missed, 2);
	WRITE_ONCE(*filtered, 1);
	KUNIT_EXPECT_EQ(test, tern_test_missed(test), 9);
	KUNIT_EXPECT_EQ(test, tern_test_filtered(test), 101);

	/* Nor if the device no longer answers. */
	WRITE_ONCE(fake->refused, TERN_CMD_QUERY_COUNTERS);
	KUNIT_EXPECT_EQ(test, tern_test_filtered(test), 101);
	WRITE_ONCE(fake->refused, 0);
}

#endif
#ifndef TERN_WITHOUT_XDP
/* An XDP program that no frame reaches. */
static struct bpf_prog *tern_test_prog(struct kunit *test)
{
	struct bpf_prog_aux *aux = kunit_kzalloc(test, sizeof(*aux), GFP_KERNEL);
	struct bpf_prog *prog = kunit_kzalloc(test, sizeof(*prog), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, aux);
	KUNIT_ASSERT_NOT_NULL(test, prog);
	/* The driver releases references, but not the last one. */
	atomic64_set(&aux->refcnt, 100);
	prog->aux = aux;
	return prog;
}

static int tern_test_set_prog(struct kunit *test, struct bpf_prog *prog)
{
	struct net_device *netdev = tern_test_net(test)->netdev;
	struct netdev_bpf bpf = { .command = XDP_SETUP_PROG, .prog = prog };
	int err;

	rtnl_lock();
	err = netdev->netdev_ops->ndo_bpf(netdev, &bpf);
	rtnl_unlock();
	return err;
}

static u32 tern_test_headroom(struct kunit *test)
{
	return tern_test_queues(test)->channel[0].rx.headroom;
}

/* The core does not expect that a program cannot be removed: it needs no memory. */
static void tern_test_xdp_no_memory(struct kunit *test)
{
	struct bpf_prog *prog = tern_test_prog(test);
	struct tern_net *net = tern_test_net(test);

	tern_test_open(test);
	KUNIT_EXPECT_EQ(test, tern_test_set_prog(test, prog), 0);
	KUNIT_EXPECT_EQ(test, tern_test_headroom(test), XDP_PACKET_HEADROOM);
	tern_test_exhaust(test, true);
	KUNIT_EXPECT_EQ(test, tern_test_set_prog(test, NULL), 0);
	KUNIT_EXPECT_NULL(test, net->xdp_prog);
	tern_test_expect_up(test, ETH_DATA_LEN);
	/* The buffers kept their headroom. */
	KUNIT_EXPECT_EQ(test, tern_test_headroom(test), XDP_PACKET_HEADROOM);
	KUNIT_EXPECT_EQ(test, tern_test_set_prog(test, prog), 0);
	tern_test_exhaust(test, false);
	KUNIT_EXPECT_EQ(test, tern_test_set_prog(test, NULL), 0);
	KUNIT_EXPECT_NE(test, tern_test_headroom(test), XDP_PACKET_HEADROOM);
	tern_test_exhaust(test, true);
	KUNIT_EXPECT_EQ(test, tern_test_set_prog(test, prog), -ENOMEM);
	tern_test_exhaust(test, false);
	KUNIT_EXPECT_NULL(test, net->xdp_prog);
	tern_test_expect_up(test, ETH_DATA_LEN);
}

static int tern_test_set_features(struct kunit *test, netdev_features_t features)
{
	struct net_device *netdev = tern_test_net(test)->netdev;
	int err;

	rtnl_lock();
	err = netdev->netdev_ops->ndo_set_features(netdev, features);
	rtnl_unlock();
	return err;
}

/* A frame with its FCS must fit the buffer of a program, too. */
static void tern_test_xdp_fcs(struct kunit *test)
{
	int mtu = SKB_WITH_OVERHEAD(PAGE_SIZE) - XDP_PACKET_HEADROOM - ETH_HLEN - 2 * VLAN_HLEN;
	struct bpf_prog *prog = tern_test_prog(test);
	struct tern_test_net *fake = test->priv;

	fake->tdev.caps.flags = cpu_to_le64(TERN_CAP_ETH_OFFLOAD);
	tern_test_open(test);
	KUNIT_EXPECT_EQ(test, tern_test_set_mtu(test, mtu), 0);
	KUNIT_EXPECT_EQ(test, tern_test_set_prog(test, prog), 0);
	KUNIT_EXPECT_EQ(test, tern_test_set_mtu(test, mtu + 1), -EINVAL);
	KUNIT_EXPECT_EQ(test, tern_test_set_features(test, NETIF_F_RXFCS), -EINVAL);
	KUNIT_EXPECT_EQ(test, tern_test_set_mtu(test, mtu - ETH_FCS_LEN), 0);
	KUNIT_EXPECT_EQ(test, tern_test_set_features(test, NETIF_F_RXFCS), 0);
	KUNIT_EXPECT_EQ(test, tern_test_set_prog(test, NULL), 0);
}

#endif
static bool tern_test_restarted(struct kunit *test)
{
	struct tern_test_net *fake = test->priv;
	struct tern_queues *queues = tern_test_queues(test);

	return READ_ONCE(queues->channel[0].rx.cq.id) != fake->old_id &&
	       tern_test_has_link(test);
}

/* A CQ error creates new queues, unless it is that of an earlier queue. */
static void tern_test_cq_error(struct kunit *test)
{
	struct tern_test_net *fake = test->priv;
	struct tern_net *net = fake->tdev.net;
	struct tern_eqe eqe = { .type = cpu_to_le16(TERN_EV_CQ_ERR) };
	struct tern_net_cq *cq;

	tern_test_open(test);
	cq = &tern_test_queues(test)->channel[0].rx.cq;
	fake->old_id = cq->id;
	eqe.id = cpu_to_le32(cq->id);
	eqe.generation = cpu_to_le32(cq->generation - 1);
	tern_net_cq_error(net, &eqe);
	KUNIT_EXPECT_EQ(test, work_busy(&net->restart_work.work), 0);
	eqe.generation = cpu_to_le32(cq->id + TERN_TEST_GENERATION);
	tern_net_cq_error(net, &eqe);
	KUNIT_EXPECT_TRUE(test, tern_test_wait(tern_test_restarted, test));
	tern_test_expect_up(test, ETH_DATA_LEN);
}

/* A fault that is found while the interface is removed. */
static void tern_test_late_fault(struct kunit *test)
{
	struct tern_test_net *fake = test->priv;
	struct tern_net *net = fake->tdev.net;

	tern_test_open(test);
	tern_net_unregister(net);
	queue_work(system_unbound_wq, &fake->rtnl_work);
	wait_for_completion(&fake->rtnl_taken);
	/* The restart waits for the lock that the other thread holds. */
	net->netdev->netdev_ops->ndo_tx_timeout(net->netdev, 0);
	while (delayed_work_pending(&net->restart_work))
		usleep_range(100, 200);
	tern_net_free(net);
	fake->tdev.net = NULL;
	KUNIT_EXPECT_TRUE(test, READ_ONCE(fake->rtnl_released));
	flush_work(&fake->rtnl_work);
}

#ifndef TERN_WITHOUT_CC
static const struct devlink_ops tern_test_devlink_ops;

/* A device may have other capabilities after a reset. */
static void tern_test_cc_lost(struct kunit *test)
{
	struct device *dev = kunit_device_register(test, "tern-cc");
	struct devlink *devlink;
	struct tern_dev *tdev;

	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, dev);
	devlink = devlink_alloc(&tern_test_devlink_ops, sizeof(*tdev), dev);
	KUNIT_ASSERT_NOT_NULL(test, devlink);
	tdev = devlink_priv(devlink);
	devl_lock(devlink);
	tdev->caps.flags = cpu_to_le64(TERN_CAP_CC);
	KUNIT_EXPECT_EQ(test, tern_cc_register(tdev), 0);
	tdev->caps.flags = 0;
	tern_cc_unregister(tdev);
	/* The parameters are gone, or this would fail. */
	tdev->caps.flags = cpu_to_le64(TERN_CAP_CC);
	KUNIT_EXPECT_EQ(test, tern_cc_register(tdev), 0);
	tern_cc_unregister(tdev);
	devl_unlock(devlink);
	devlink_free(devlink);
}

#endif
static struct kunit_case tern_net_cases[] = {
	KUNIT_CASE(tern_test_mtu),
	KUNIT_CASE(tern_test_mtu_no_memory),
	KUNIT_CASE(tern_test_refused),
	KUNIT_CASE(tern_test_empty_ring),
#ifndef TERN_WITHOUT_RESET
	KUNIT_CASE(tern_test_filter_detached),
#endif
#ifndef TERN_WITHOUT_STATS
	KUNIT_CASE(tern_test_counters),
#endif
	KUNIT_CASE(tern_test_channels),
#ifndef TERN_WITHOUT_STEERING
	KUNIT_CASE(tern_test_steering),
#endif
#ifndef TERN_WITHOUT_XDP
	KUNIT_CASE(tern_test_xdp_no_memory),
	KUNIT_CASE(tern_test_xdp_fcs),
#endif
	KUNIT_CASE(tern_test_cq_error),
	KUNIT_CASE(tern_test_late_fault),
#ifndef TERN_WITHOUT_CC
	KUNIT_CASE(tern_test_cc_lost),
#endif
	{}
};

static struct kunit_suite tern_net_suite = {
	.name = "tern_net",
	.init = tern_test_net_init,
	.exit = tern_test_net_exit,
	.test_cases = tern_net_cases,
};

kunit_test_suite(tern_net_suite);

MODULE_DESCRIPTION("KUnit tests of tern's network device");
MODULE_LICENSE("Dual BSD/GPL");
