// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Tests of tern.ko's channels: who may use them, and what a restart keeps. */

#include <kunit/test.h>
#include <linux/etherdevice.h>
#include <linux/ethtool.h>
#include <linux/module.h>
#include <linux/rtnetlink.h>
#include <net/sch_generic.h>
#ifndef TERN_WITHOUT_XDP
#include <net/xdp.h>
#endif
#ifndef TERN_WITHOUT_STEERING
#include <net/xsk_buff_pool.h>
#endif

#include "tern_net_fake.h"
#include "tern_util.h"

static struct tern_channel *tern_test_channel(struct kunit *test, unsigned int index)
{
	return &tern_test_queues(test)->channel[index];
}

static netdev_tx_t tern_test_xmit(struct kunit *test, unsigned int queue)
{
	struct net_device *netdev = tern_test_net(test)->netdev;
	struct sk_buff *skb = alloc_skb(ETH_ZLEN, GFP_KERNEL);
	netdev_tx_t result;

	KUNIT_ASSERT_NOT_NULL(test, skb);
	skb_put_zero(skb, ETH_ZLEN);
	skb->dev = netdev;
	skb_set_queue_mapping(skb, queue);
	local_bh_disable();
	result = netdev->netdev_ops->ndo_start_xmit(skb, netdev);
	local_bh_enable();
	return result;
}

#ifndef TERN_WITHOUT_XDP
/* Sends a frame as another device would redirect it. Returns whether it was taken. */
static bool tern_test_redirect(struct kunit *test)
{
	struct net_device *netdev = tern_test_net(test)->netdev;
	struct page *page = alloc_page(GFP_KERNEL);
	struct xdp_rxq_info rxq = { .mem.type = MEM_TYPE_PAGE_ORDER0 };
	struct xdp_frame *frame;
	struct xdp_buff xdp;
	int num;

	KUNIT_ASSERT_NOT_NULL(test, page);
	xdp_init_buff(&xdp, PAGE_SIZE, &rxq);
	xdp_prepare_buff(&xdp, page_address(page), XDP_PACKET_HEADROOM, ETH_ZLEN, false);
	memset(xdp.data, 0, ETH_ZLEN);
	frame = xdp_convert_buff_to_frame(&xdp);
	KUNIT_ASSERT_NOT_NULL(test, frame);
	local_bh_disable();
	num = netdev->netdev_ops->ndo_xdp_xmit(netdev, 1, &frame, 0);
	local_bh_enable();
	if (num != 1)
		xdp_return_frame(frame);
	return num == 1;
}

#endif
/* Writes a completion of the frames up to descriptor @index: entry @cqe. */
static void tern_test_complete(struct tern_tx *tx, u32 cqe, u32 index)
{
	struct tern_cqe *entry = &tx->cq.ring[tern_ring_slot(cqe, tx->cq.log_size)];

	entry->wqe_index = cpu_to_le32(index);
	entry->status = TERN_CQE_SUCCESS;
	/* Write the rest of the entry before its phase. */
	smp_wmb();
	WRITE_ONCE(entry->phase, cpu_to_le32(~(cqe >> tx->cq.log_size) & TERN_CQE_PHASE));
}

static void tern_test_poll(struct tern_channel *ch, int budget)
{
	local_bh_disable();
	tern_net_poll(&ch->napi, budget);
	local_bh_enable();
}

static u64 tern_test_dropped(struct kunit *test)
{
	struct rtnl_link_stats64 stats;

	dev_get_stats(tern_test_net(test)->netdev, &stats);
	return stats.tx_dropped;
}

/* A sender without a qdisc may use a queue that no longer exists. */
static void tern_test_removed_queue(struct kunit *test)
{
	tern_test_many(test);
	tern_test_open(test);
	KUNIT_EXPECT_EQ(test, tern_test_xmit(test, 3), NETDEV_TX_OK);
	KUNIT_EXPECT_EQ(test, tern_test_channel(test, 3)->tx.pi, 1);
	KUNIT_EXPECT_EQ(test, tern_test_dropped(test), 0);

	KUNIT_ASSERT_EQ(test, tern_test_set_channels(test, 1), 0);
	KUNIT_EXPECT_EQ(test, tern_test_xmit(test, 3), NETDEV_TX_OK);
	KUNIT_EXPECT_EQ(test, tern_test_xmit(test, 1), NETDEV_TX_OK);
	KUNIT_EXPECT_EQ(test, tern_test_channel(test, 0)->tx.pi, 0);
	KUNIT_EXPECT_EQ(test, tern_test_dropped(test), 2);
	KUNIT_EXPECT_EQ(test, tern_test_xmit(test, 0), NETDEV_TX_OK);
	KUNIT_EXPECT_EQ(test, tern_test_channel(test, 0)->tx.pi, 1);
}

/* The core has seen the link, which sets the time stamps of the queues. */
static bool tern_test_is_active(struct kunit *test)
{
	return !qdisc_tx_is_noop(tern_test_net(test)->netdev);
}

/*
 * Queues that are stopped to be recreated are not hung: stopping sets their time
 * stamp, also that of queues behind the last channel.
 */
static void tern_test_watchdog(struct kunit *test)
{
	struct net_device *netdev = tern_test_net(test)->netdev;
	unsigned long before, now;
	unsigned int i;

	tern_test_open(test);
	KUNIT_ASSERT_TRUE(test, tern_test_wait(tern_test_is_active, test));
	before = jiffies - 20 * HZ;
	for (i = 0; i < netdev->num_tx_queues; i++)
		WRITE_ONCE(netdev_get_tx_queue(netdev, i)->trans_start, before);
	KUNIT_EXPECT_EQ(test, tern_test_set_mtu(test, 1280), 0);
	for (i = 0; i < netdev->num_tx_queues; i++) {
		now = READ_ONCE(netdev_get_tx_queue(netdev, i)->trans_start);
		KUNIT_EXPECT_TRUE_MSG(test, time_in_range(now, before + 10 * HZ, jiffies),
				      "queue %u", i);
	}
}

/* A device that completes a frame before it has got it: the sender still uses the frame. */
static void tern_test_early_completion(struct kunit *test)
{
	struct tern_net *net = tern_test_net(test);
	struct tern_channel *ch;
	struct tern_tx *tx;

	tern_test_open(test);
	ch = tern_test_channel(test, 0);
	tx = &ch->tx;
	/* The work that recreates the queues waits for the lock. */
	rtnl_lock();
	napi_disable(&ch->napi);
	KUNIT_EXPECT_EQ(test, tern_test_xmit(test, 0), NETDEV_TX_OK);
	/* Another frame is in the ring, but not posted. */
	tx->pi++;
	tern_test_complete(tx, 0, 1);
	tern_test_poll(ch, NAPI_POLL_WEIGHT);
	KUNIT_EXPECT_EQ(test, tx->ci, 0);
	KUNIT_EXPECT_TRUE(test, work_busy(&net->restart_work.work));
	napi_enable(&ch->napi);
	rtnl_unlock();
}

/* Entries that a faulty device writes do not keep a poll busy. */
static void tern_test_wrong_completions(struct kunit *test)
{
	struct tern_channel *ch;
	struct tern_tx *tx;
	u32 i;

	tern_test_open(test);
	ch = tern_test_channel(test, 0);
	tx = &ch->tx;
	/* The work that recreates the queues waits for the lock. */
	rtnl_lock();
	napi_disable(&ch->napi);
	KUNIT_EXPECT_EQ(test, tern_test_xmit(test, 0), NETDEV_TX_OK);
	tern_test_complete(tx, 0, 0);
	for (i = 1; i < 5; i++)
		tern_test_complete(tx, i, 100);
	tern_test_poll(ch, NAPI_POLL_WEIGHT);
	KUNIT_EXPECT_EQ(test, tx->ci, 1);
	KUNIT_EXPECT_EQ(test, tx->cq.ci, 2);
	napi_enable(&ch->napi);
	rtnl_unlock();
}

#ifndef TERN_WITHOUT_XDP
/* netpoll completes frames of the stack up to the first one of XDP. */
static void tern_test_netpoll(struct kunit *test)
{
	struct tern_channel *ch;
	struct tern_tx *tx;
	unsigned int i;

	tern_test_open(test);
	ch = tern_test_channel(test, 0);
	tx = &ch->tx;
	napi_disable(&ch->napi);
	for (i = 0; i < 2; i++) {
		tern_test_xmit(test, 0);
		KUNIT_EXPECT_TRUE(test, tern_test_redirect(test));
		tern_test_xmit(test, 0);
	}
	KUNIT_EXPECT_EQ(test, tx->pi, 6);

	for (i = 0; i < 3; i++)
		tern_test_complete(tx, i, i);
	tern_test_poll(ch, 0);
	KUNIT_EXPECT_EQ(test, tx->ci, 1);
	KUNIT_EXPECT_EQ(test, tx->cq.ci, 1);
	tern_test_poll(ch, NAPI_POLL_WEIGHT);
	KUNIT_EXPECT_EQ(test, tx->ci, 3);

	/* A completion of several frames, one of them of XDP. */
	tern_test_complete(tx, 3, 5);
	tern_test_poll(ch, 0);
	KUNIT_EXPECT_EQ(test, tx->ci, 3);
	tern_test_poll(ch, NAPI_POLL_WEIGHT);
	KUNIT_EXPECT_EQ(test, tx->ci, 6);
	KUNIT_EXPECT_EQ(test, tx->cq.ci, 4);
	napi_enable(&ch->napi);
}

static u32 tern_test_free(const struct tern_tx *tx)
{
	return tern_ring_free(tx->pi, tx->ci, tx->log_size);
}

static void tern_test_small_ring(struct kunit *test)
{
	struct net_device *netdev = tern_test_net(test)->netdev;
	struct ethtool_ringparam ring = {
		.rx_pending = BIT(TERN_RING_LOG_MIN),
		.tx_pending = BIT(TERN_RING_LOG_MIN),
	};
	int err;

	rtnl_lock();
	err = netdev->ethtool_ops->set_ringparam(netdev, &ring, NULL, NULL);
	rtnl_unlock();
	KUNIT_ASSERT_EQ(test, err, 0);
}

/* Frames of XDP do not take the room that wakes the queue of the stack. */
static void tern_test_room(struct kunit *test)
{
	struct net_device *netdev = tern_test_net(test)->netdev;
	struct netdev_queue *txq = netdev_get_tx_queue(netdev, 0);
	struct tern_channel *ch;
	struct tern_tx *tx;
	unsigned int num;

	tern_test_small_ring(test);
	tern_test_open(test);
	ch = tern_test_channel(test, 0);
	tx = &ch->tx;
	napi_disable(&ch->napi);
	for (num = 0; num < BIT(tx->log_size) && !netif_tx_queue_stopped(txq); num++)
		KUNIT_EXPECT_EQ(test, tern_test_xmit(test, 0), NETDEV_TX_OK);
	KUNIT_EXPECT_TRUE(test, netif_tx_queue_stopped(txq));
	KUNIT_EXPECT_LT(test, tern_test_free(tx), TERN_ETH_MAX_TXD);

	/* Room for a frame, but too little to wake the queue. */
	tern_test_complete(tx, 0, TERN_ETH_MAX_TXD - 1);
	tern_test_poll(ch, NAPI_POLL_WEIGHT);
	KUNIT_EXPECT_TRUE(test, netif_tx_queue_stopped(txq));
	KUNIT_EXPECT_GE(test, tern_test_free(tx), TERN_ETH_MAX_TXD);
	KUNIT_EXPECT_FALSE(test, tern_test_redirect(test));

	tern_test_complete(tx, 1, TERN_ETH_MAX_TXD + 1);
	tern_test_poll(ch, NAPI_POLL_WEIGHT);
	KUNIT_EXPECT_FALSE(test, netif_tx_queue_stopped(txq));
	for (num = 0; num < BIT(tx->log_size) && tern_test_redirect(test); num++)
		;
	KUNIT_EXPECT_GT(test, num, 0);
	/* A frame of the stack still fits. */
	KUNIT_EXPECT_EQ(test, tern_test_free(tx), TERN_ETH_MAX_TXD);
	napi_enable(&ch->napi);
}

#endif
#ifndef TERN_WITHOUT_COALESCE
static int tern_test_set_coalesce(struct kunit *test, u32 rx, u32 tx)
{
	struct net_device *netdev = tern_test_net(test)->netdev;
	struct ethtool_coalesce coal = {
		.rx_coalesce_usecs = rx,
		.tx_coalesce_usecs = tx,
	};
	int err;

	rtnl_lock();
	err = netdev->ethtool_ops->set_coalesce(netdev, &coal, NULL, NULL);
	rtnl_unlock();
	return err;
}

static void tern_test_expect_coalesce(struct kunit *test, u32 rx, u32 tx)
{
	struct tern_test_net *fake = test->priv;
	struct net_device *netdev = fake->tdev.net->netdev;
	struct ethtool_coalesce coal = {};
	struct tern_channel *ch;
	unsigned int i;

	rtnl_lock();
	KUNIT_EXPECT_EQ(test, netdev->ethtool_ops->get_coalesce(netdev, &coal, NULL, NULL), 0);
	rtnl_unlock();
	KUNIT_EXPECT_EQ(test, coal.rx_coalesce_usecs, rx);
	KUNIT_EXPECT_EQ(test, coal.tx_coalesce_usecs, tx);
	for (i = 0; i < 4; i++) {
		ch = tern_test_channel(test, i);
		KUNIT_EXPECT_EQ(test, fake->periods[tern_test_cq_slot(ch->rx.cq.id)], rx);
		KUNIT_EXPECT_EQ(test, fake->periods[tern_test_cq_slot(ch->tx.cq.id)], tx);
	}
}

/* A moderation that a queue refuses changes nothing. */
static void tern_test_coalesce_refused(struct kunit *test)
{
	struct tern_test_net *fake = test->priv;

	tern_test_many(test);
	tern_test_open(test);
	KUNIT_EXPECT_EQ(test, tern_test_set_coalesce(test, 10, 20), 0);
	tern_test_expect_coalesce(test, 10, 20);
	/* The second receive queue, then the second transmit queue. */
	fake->modify_cq_left = 2;
	KUNIT_EXPECT_EQ(test, tern_test_set_coalesce(test, 30, 40), -ENOMEM);
	tern_test_expect_coalesce(test, 10, 20);
	fake->modify_cq_left = 6;
	KUNIT_EXPECT_EQ(test, tern_test_set_coalesce(test, 30, 40), -ENOMEM);
	tern_test_expect_coalesce(test, 10, 20);
	KUNIT_EXPECT_EQ(test, tern_test_set_coalesce(test, 30, 40), 0);
	tern_test_expect_coalesce(test, 30, 40);
}

#endif
static bool tern_test_has_xps(const struct net_device *netdev)
{
#ifdef CONFIG_XPS
	return rcu_access_pointer(netdev->xps_maps[XPS_CPUS]);
#else
	return false;
#endif
}

/* The user's XPS maps survive a restart, but not another number of queues. */
static void tern_test_xps(struct kunit *test)
{
	struct net_device *netdev = tern_test_net(test)->netdev;
	unsigned int i;

	if (!IS_ENABLED(CONFIG_XPS))
		kunit_skip(test, "no XPS");
	tern_test_many(test);
	tern_test_open(test);
	KUNIT_EXPECT_TRUE(test, tern_test_has_xps(netdev));
	for (i = 0; i < 4; i++)
		netif_set_xps_queue(netdev, cpu_none_mask, i);
	KUNIT_EXPECT_FALSE(test, tern_test_has_xps(netdev));
	KUNIT_EXPECT_EQ(test, tern_test_set_mtu(test, 1280), 0);
	KUNIT_EXPECT_FALSE(test, tern_test_has_xps(netdev));
	KUNIT_EXPECT_EQ(test, tern_test_set_channels(test, 3), 0);
	KUNIT_EXPECT_TRUE(test, tern_test_has_xps(netdev));

	/* Queues that go and come back while the interface is down. */
	for (i = 0; i < 3; i++)
		netif_set_xps_queue(netdev, cpu_none_mask, i);
	rtnl_lock();
	dev_close(netdev);
	rtnl_unlock();
	KUNIT_EXPECT_EQ(test, tern_test_set_channels(test, 2), 0);
	KUNIT_EXPECT_EQ(test, tern_test_set_channels(test, 3), 0);
	KUNIT_EXPECT_FALSE(test, tern_test_has_xps(netdev));
	tern_test_open(test);
	KUNIT_EXPECT_TRUE(test, tern_test_has_xps(netdev));
}

#ifndef TERN_WITHOUT_STEERING
/* Where frames go: to the four channels by RSS, and to the third by a rule. */
static void tern_test_expect_steered(struct kunit *test)
{
	struct tern_test_net *fake = test->priv;
	unsigned int i;

	for (i = 0; i < TERN_RSS_ENTRIES; i++)
		KUNIT_EXPECT_EQ(test, le32_to_cpu(fake->rss.entries[i]),
				tern_test_channel(test, i % 4)->rx.id);
	KUNIT_EXPECT_EQ(test, fake->flows, 1);
	KUNIT_EXPECT_EQ(test, le32_to_cpu(fake->flow.dest_id),
			tern_test_channel(test, 2)->rx.id);
	KUNIT_EXPECT_EQ(test, fake->rss_groups, 1);
	KUNIT_EXPECT_EQ(test, fake->eth_queues, 8);
	KUNIT_EXPECT_EQ(test, fake->dangling, 0);
}

static int tern_test_set_pool(struct kunit *test, u16 qid)
{
	int err;

	rtnl_lock();
	err = tern_net_set_xsk_pool(tern_test_net(test), NULL, qid);
	rtnl_unlock();
	return err;
}

static int tern_test_set_rule(struct kunit *test, u32 cmd, u32 location, u32 channel)
{
	struct net_device *netdev = tern_test_net(test)->netdev;
	struct ethtool_rxnfc info = {
		.cmd = cmd,
		.fs = {
			.flow_type = TCP_V4_FLOW,
			.location = location,
			.ring_cookie = channel,
			.h_u.tcp_ip4_spec.pdst = htons(80),
			.m_u.tcp_ip4_spec.pdst = htons(0xffff),
		},
	};
	int err;

	rtnl_lock();
	err = netdev->ethtool_ops->set_rxnfc(netdev, &info);
	rtnl_unlock();
	return err;
}

static int tern_test_add_rule(struct kunit *test, u32 location, u32 channel)
{
	return tern_test_set_rule(test, ETHTOOL_SRXCLSRLINS, location, channel);
}

static bool tern_test_is_up(struct kunit *test)
{
	return READ_ONCE(tern_test_net(test)->queues_up);
}

/* Another pool of an AF_XDP socket recreates the queues of its channel only. */
static void tern_test_replace(struct kunit *test)
{
	struct tern_test_net *fake = test->priv;
	struct net_device *netdev = fake->tdev.net->netdev;
	u32 ids[4];
	unsigned int i;

	tern_test_many(test);
	tern_test_open(test);
	KUNIT_ASSERT_EQ(test, tern_test_add_rule(test, 5, 2), 0);
	tern_test_expect_steered(test);
	for (i = 0; i < 4; i++)
		ids[i] = tern_test_channel(test, i)->rx.id;

	fake->eth_created = 0;
	fake->steered = tern_test_channel(test, 2);
	KUNIT_EXPECT_EQ(test, tern_test_set_pool(test, 2), 0);
	fake->steered = NULL;
	KUNIT_EXPECT_EQ(test, fake->steered_late, 0);
	KUNIT_EXPECT_EQ(test, fake->eth_created, 2);
	for (i = 0; i < 4; i++)
		KUNIT_EXPECT_EQ(test, tern_test_channel(test, i)->rx.id == ids[i], i != 2);
	tern_test_expect_steered(test);
	for (i = 0; i < 4; i++) {
		KUNIT_EXPECT_FALSE(test, netif_tx_queue_stopped(netdev_get_tx_queue(netdev, i)));
		KUNIT_EXPECT_TRUE(test, tern_test_channel(test, i)->up);
	}
	KUNIT_EXPECT_EQ(test, tern_test_xmit(test, 2), NETDEV_TX_OK);
	KUNIT_EXPECT_EQ(test, tern_test_channel(test, 2)->tx.pi, 1);
}

/* A pool of which the driver only asks whether it exists. */
static struct xsk_buff_pool *tern_test_pool(struct kunit *test)
{
	struct xsk_buff_pool *pool = kunit_kzalloc(test, sizeof(*pool), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, pool);
	return pool;
}

/* Frames of a channel that is recreated do not go to the AF_XDP socket of another. */
static void tern_test_replace_substitute(struct kunit *test)
{
	struct tern_test_net *fake = test->priv;
	struct tern_net *net = fake->tdev.net;
	struct xsk_buff_pool *pool = tern_test_pool(test);
	unsigned int i;

	tern_test_many(test);
	tern_test_open(test);
	net->xsk_pools[3] = pool;
	KUNIT_EXPECT_EQ(test, tern_test_set_pool(test, 2), 0);
	net->xsk_pools[3] = NULL;
	KUNIT_ASSERT_EQ(test, fake->rss_modified, 2);
	for (i = 0; i < TERN_RSS_ENTRIES; i++)
		KUNIT_EXPECT_EQ(test, le32_to_cpu(fake->old_rss.entries[i]),
				tern_test_channel(test, i % 4 == 2 ? 0 : i % 4)->rx.id);
	KUNIT_EXPECT_EQ(test, fake->dangling, 0);
}

/* If all other channels have sockets, all queues are recreated. */
static void tern_test_replace_all(struct kunit *test)
{
	struct tern_test_net *fake = test->priv;
	struct tern_net *net = fake->tdev.net;
	struct xsk_buff_pool *pool = tern_test_pool(test);

	tern_test_many(test);
	KUNIT_ASSERT_EQ(test, tern_test_set_channels(test, 2), 0);
	tern_test_open(test);
	net->xsk_pools[1] = pool;
	/* The first queue fails, so that the device never gets the pool. */
	WRITE_ONCE(fake->refused, TERN_CMD_CREATE_ETH_QUEUE);
	KUNIT_EXPECT_EQ(test, tern_test_set_pool(test, 0), -ENOMEM);
	net->xsk_pools[1] = NULL;
	WRITE_ONCE(fake->refused, 0);
	KUNIT_EXPECT_EQ(test, fake->rss_modified, 0);
	KUNIT_EXPECT_TRUE(test, tern_test_wait(tern_test_is_up, test));
	KUNIT_EXPECT_EQ(test, fake->eth_queues, 4);
}

/* The pool of a channel that does not exist recreates no queue. */
static void tern_test_replace_none(struct kunit *test)
{
	struct tern_test_net *fake = test->priv;

	tern_test_many(test);
	tern_test_open(test);
	fake->eth_created = 0;
	KUNIT_EXPECT_EQ(test, tern_test_set_pool(test, 5), 0);
	KUNIT_EXPECT_EQ(test, fake->eth_created, 0);
}

/* If the device refuses, all queues are recreated, once it accepts them. */
static void tern_test_replace_refused(struct kunit *test)
{
	static const u16 opcodes[] = { TERN_CMD_MODIFY_RSS, TERN_CMD_CREATE_ETH_QUEUE };
	struct tern_test_net *fake = test->priv;
	unsigned int i;

	tern_test_many(test);
	tern_test_open(test);
	for (i = 0; i < ARRAY_SIZE(opcodes); i++) {
		fake->eth_created = 0;
		WRITE_ONCE(fake->refused, opcodes[i]);
		KUNIT_EXPECT_EQ(test, tern_test_set_pool(test, 2), -ENOMEM);
		WRITE_ONCE(fake->refused, 0);
		KUNIT_EXPECT_TRUE(test, tern_test_wait(tern_test_is_up, test));
		KUNIT_EXPECT_EQ(test, fake->eth_created, 8);
		KUNIT_EXPECT_EQ(test, fake->eth_queues, 8);
		KUNIT_EXPECT_EQ(test, fake->rss_groups, 1);
		KUNIT_EXPECT_EQ(test, fake->dangling, 0);
	}
}

/* Expects @waiting of @rules rules to wait, while the link is up. */
static void tern_test_expect_rules(struct kunit *test, u32 rules, u64 waiting)
{
	struct tern_test_net *fake = test->priv;
	struct net_device *netdev = fake->tdev.net->netdev;
	const struct ethtool_ops *ops = netdev->ethtool_ops;
	struct ethtool_rxnfc info = { .cmd = ETHTOOL_GRXCLSRLCNT };
	u64 stats[16] = {};
	int num = ops->get_sset_count(netdev, ETH_SS_STATS);

	KUNIT_ASSERT_LE(test, num, ARRAY_SIZE(stats));
	rtnl_lock();
	ops->get_ethtool_stats(netdev, NULL, stats);
	KUNIT_EXPECT_EQ(test, ops->get_rxnfc(netdev, &info, NULL), 0);
	rtnl_unlock();
	KUNIT_EXPECT_EQ(test, stats[num - 1], waiting);
	KUNIT_EXPECT_EQ(test, info.rule_cnt, rules);
	KUNIT_EXPECT_EQ(test, fake->flows, rules - waiting);
	KUNIT_EXPECT_TRUE(test, tern_test_is_up(test));
	KUNIT_EXPECT_TRUE(test, netif_carrier_ok(netdev));
	KUNIT_EXPECT_EQ(test, work_busy(&fake->tdev.net->restart_work.work), 0);
}

/* A rule that a new channel does not get costs neither the link nor the rule. */
static void tern_test_rule_waits(struct kunit *test)
{
	struct tern_test_net *fake = test->priv;
	struct tern_net *net = fake->tdev.net;
	unsigned long delay;

	tern_test_many(test);
	tern_test_open(test);
	KUNIT_ASSERT_EQ(test, tern_test_add_rule(test, 5, 2), 0);
	fake->eth_created = 0;
	WRITE_ONCE(fake->refused, TERN_CMD_CREATE_FLOW);
	KUNIT_EXPECT_EQ(test, tern_test_set_pool(test, 2), 0);
	tern_test_expect_rules(test, 1, 1);
	KUNIT_EXPECT_EQ(test, fake->eth_created, 2);

	delay = net->steer.retry_delay;
	flush_delayed_work(&net->rules_work);
	tern_test_expect_rules(test, 1, 1);
	KUNIT_EXPECT_GE(test, net->steer.retry_delay, 2 * delay);
	KUNIT_EXPECT_EQ(test, tern_test_add_rule(test, 6, 1), -ENOMEM);

	WRITE_ONCE(fake->refused, 0);
	flush_delayed_work(&net->rules_work);
	tern_test_expect_rules(test, 1, 0);
	tern_test_expect_steered(test);
	KUNIT_EXPECT_FALSE(test, delayed_work_pending(&net->rules_work));
}

/* The same when all queues are new, after a reset, and when the interface is removed. */
static void tern_test_rule_waits_start(struct kunit *test)
{
	struct tern_test_net *fake = test->priv;
	struct tern_net *net = fake->tdev.net;

	tern_test_many(test);
	tern_test_open(test);
	KUNIT_ASSERT_EQ(test, tern_test_add_rule(test, 5, 2), 0);
	WRITE_ONCE(fake->refused, TERN_CMD_CREATE_FLOW);
	KUNIT_EXPECT_EQ(test, tern_test_set_mtu(test, 1280), 0);
	tern_test_expect_rules(test, 1, 1);
	tern_net_detach(net);
	flush_delayed_work(&net->rules_work);
	KUNIT_EXPECT_EQ(test, fake->flows, 0);
	tern_net_attach(net);
	tern_test_expect_rules(test, 1, 1);
	WRITE_ONCE(fake->refused, 0);
	flush_delayed_work(&net->rules_work);
	tern_test_expect_rules(test, 1, 0);
	tern_test_expect_steered(test);

	/* The closed interface has no flows; opening it needs none. */
	WRITE_ONCE(fake->refused, TERN_CMD_CREATE_FLOW);
	KUNIT_EXPECT_EQ(test, tern_test_set_mtu(test, ETH_DATA_LEN), 0);
	rtnl_lock();
	dev_close(net->netdev);
	rtnl_unlock();
	flush_delayed_work(&net->rules_work);
	KUNIT_EXPECT_FALSE(test, delayed_work_pending(&net->rules_work));
	tern_test_open(test);
	tern_test_expect_rules(test, 1, 1);
	KUNIT_EXPECT_TRUE(test, delayed_work_pending(&net->rules_work));
}

/* A rule that was deleted while it waited does not come back. */
static void tern_test_rule_waits_deleted(struct kunit *test)
{
	struct tern_test_net *fake = test->priv;

	tern_test_many(test);
	tern_test_open(test);
	KUNIT_ASSERT_EQ(test, tern_test_add_rule(test, 5, 2), 0);
	WRITE_ONCE(fake->refused, TERN_CMD_CREATE_FLOW);
	KUNIT_EXPECT_EQ(test, tern_test_set_pool(test, 2), 0);
	tern_test_expect_rules(test, 1, 1);
	KUNIT_EXPECT_EQ(test, tern_test_set_rule(test, ETHTOOL_SRXCLSRLDEL, 5, 0), 0);
	tern_test_expect_rules(test, 0, 0);
	WRITE_ONCE(fake->refused, 0);
	flush_delayed_work(&fake->tdev.net->rules_work);
	tern_test_expect_rules(test, 0, 0);
}

/*
 * Frames of a rule that waits do not go to the AF_XDP socket of another channel, neither
 * by a group nor by a later rule.
 */
static void tern_test_rule_waits_socket(struct kunit *test)
{
	struct tern_test_net *fake = test->priv;
	struct tern_net *net = fake->tdev.net;
	struct xsk_buff_pool *pool = tern_test_pool(test);
	unsigned int i;

	tern_test_many(test);
	tern_test_open(test);
	KUNIT_ASSERT_EQ(test, tern_test_add_rule(test, 4, 3), 0);
	KUNIT_ASSERT_EQ(test, tern_test_add_rule(test, 5, 2), 0);
	KUNIT_ASSERT_EQ(test, tern_test_add_rule(test, 6, 3), 0);
	KUNIT_ASSERT_EQ(test, tern_test_add_rule(test, 7, 1), 0);
	net->xsk_pools[3] = pool;
	WRITE_ONCE(fake->refused, TERN_CMD_CREATE_FLOW);
	KUNIT_EXPECT_EQ(test, tern_test_set_pool(test, 2), 0);
	tern_test_expect_rules(test, 4, 2);
	for (i = 0; i < TERN_RSS_ENTRIES; i++)
		KUNIT_EXPECT_EQ(test, le32_to_cpu(fake->rss.entries[i]),
				tern_test_channel(test, i % 4 == 3 ? 0 : i % 4)->rx.id);

	WRITE_ONCE(fake->refused, 0);
	flush_delayed_work(&net->rules_work);
	net->xsk_pools[3] = NULL;
	tern_test_expect_rules(test, 4, 0);
	KUNIT_EXPECT_EQ(test, le32_to_cpu(fake->flow.priority), TERN_RULE_PRIORITY + 6);
	for (i = 0; i < TERN_RSS_ENTRIES; i++)
		KUNIT_EXPECT_EQ(test, le32_to_cpu(fake->rss.entries[i]),
				tern_test_channel(test, i % 4)->rx.id);
}

#endif
static struct kunit_case tern_queue_cases[] = {
	KUNIT_CASE(tern_test_removed_queue),
	KUNIT_CASE(tern_test_watchdog),
	KUNIT_CASE(tern_test_early_completion),
	KUNIT_CASE(tern_test_wrong_completions),
#ifndef TERN_WITHOUT_XDP
	KUNIT_CASE(tern_test_netpoll),
	KUNIT_CASE(tern_test_room),
#endif
#ifndef TERN_WITHOUT_COALESCE
	KUNIT_CASE(tern_test_coalesce_refused),
#endif
	KUNIT_CASE(tern_test_xps),
#ifndef TERN_WITHOUT_STEERING
	KUNIT_CASE(tern_test_replace),
	KUNIT_CASE(tern_test_replace_substitute),
	KUNIT_CASE(tern_test_replace_all),
	KUNIT_CASE(tern_test_replace_none),
	KUNIT_CASE(tern_test_replace_refused),
	KUNIT_CASE(tern_test_rule_waits),
	KUNIT_CASE(tern_test_rule_waits_start),
	KUNIT_CASE(tern_test_rule_waits_deleted),
	KUNIT_CASE(tern_test_rule_waits_socket),
#endif
	{}
};

static struct kunit_suite tern_queue_suite = {
	.name = "tern_queue",
	.init = tern_test_net_init,
	.exit = tern_test_net_exit,
	.test_cases = tern_queue_cases,
};

kunit_test_suite(tern_queue_suite);
