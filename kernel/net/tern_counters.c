// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Counters of the device. */

#include <linux/netdevice.h>

#include "tern_net.h"

static_assert(TERN_ETH_CNT_NUM * sizeof(__le64) <= TERN_CMD_MAX_LEN);

/* Reads all TERN_ETH_CNT_NUM counters of the Ethernet function. */
static int tern_cmd_query_eth_counters(struct tern_dev *tdev, u64 *counters)
{
	struct tern_cmd_query_counters cmd = {
		.group = cpu_to_le32(TERN_COUNTERS_ETH),
		.port = TERN_ETH_PORT,
	};
	__le64 rsp[TERN_ETH_CNT_NUM];
	unsigned int i;
	int err;

	err = tern_cmd_exec(&tdev->core, TERN_CMD_QUERY_COUNTERS, &cmd,
			    sizeof(cmd), rsp, sizeof(rsp));
	if (err)
		return err;
	for (i = 0; i < TERN_ETH_CNT_NUM; i++)
		counters[i] = le64_to_cpu(rsp[i]);
	return 0;
}

/*
 * Adds the device's counters to those from before its last reset, and stores the sum.
 * Does not query the device while the netdev is detached. After an error, the sum that
 * was stored last remains.
 */
static void tern_net_update_counters(struct tern_net *net)
{
	u64 counters[TERN_ETH_CNT_NUM];
	unsigned long flags;
	unsigned int i;

	lockdep_assert_held(&net->counters_lock);

	if (net->counters_frozen || tern_cmd_query_eth_counters(net->tdev, counters))
		return;
	/* Where this takes a lock, its holder must not be preempted. */
	flags = u64_stats_update_begin_irqsave(&net->hw_syncp);
	for (i = 0; i < TERN_ETH_CNT_NUM; i++)
		u64_stats_set(&net->hw_counters[i],
			      net->counters_base[i] + counters[i]);
	u64_stats_update_end_irqrestore(&net->hw_syncp, flags);
}

/**
 * tern_net_query_counters() - read the counters of the Ethernet function
 * @net: the network device
 * @counters: output, TERN_ETH_CNT_NUM counters, which a reset does not clear; those of
 *            a dead device as last read
 *
 * Process context.
 */
void tern_net_query_counters(struct tern_net *net, u64 *counters)
{
	unsigned int i;

	mutex_lock(&net->counters_lock);
	tern_net_update_counters(net);
	for (i = 0; i < TERN_ETH_CNT_NUM; i++)
		counters[i] = u64_stats_read(&net->hw_counters[i]);
	mutex_unlock(&net->counters_lock);
}

/*
 * Called before a reset, which clears the device's counters. For a dead device the
 * values read last remain.
 */
void tern_net_freeze_counters(struct tern_net *net)
{
	unsigned int i;

	mutex_lock(&net->counters_lock);
	tern_net_update_counters(net);
	for (i = 0; i < TERN_ETH_CNT_NUM; i++)
		net->counters_base[i] = u64_stats_read(&net->hw_counters[i]);
	net->counters_frozen = true;
	mutex_unlock(&net->counters_lock);
}

void tern_net_thaw_counters(struct tern_net *net)
{
	mutex_lock(&net->counters_lock);
	net->counters_frozen = false;
	mutex_unlock(&net->counters_lock);
}

static void tern_net_stats_work(struct work_struct *work)
{
	struct tern_net *net = container_of(work, struct tern_net, stats_work);

	mutex_lock(&net->counters_lock);
	tern_net_update_counters(net);
	mutex_unlock(&net->counters_lock);
}

void tern_counters_init(struct tern_net *net)
{
	mutex_init(&net->counters_lock);
	u64_stats_init(&net->hw_syncp);
	INIT_WORK(&net->stats_work, tern_net_stats_work);
}

void tern_counters_exit(struct tern_net *net)
{
	disable_work_sync(&net->stats_work);
	mutex_destroy(&net->counters_lock);
}

/* Atomic context: device counters are as old as the previous call. */
void tern_get_all_stats64(struct net_device *netdev, struct rtnl_link_stats64 *stats)
{
	struct tern_net *net = netdev_priv(netdev);
	u64 no_buffer, too_long, multicast;
	unsigned int start;

	tern_get_stats64(netdev, stats);
	do {
		start = u64_stats_fetch_begin(&net->hw_syncp);
		no_buffer = u64_stats_read(&net->hw_counters[TERN_ETH_CNT_RX_NO_BUFFER]);
		too_long = u64_stats_read(&net->hw_counters[TERN_ETH_CNT_RX_TOO_LONG]);
		multicast = u64_stats_read(&net->hw_counters[TERN_ETH_CNT_RX_MULTICAST]);
	} while (u64_stats_fetch_retry(&net->hw_syncp, start));

	stats->rx_missed_errors += no_buffer;
	stats->rx_length_errors += too_long;
	stats->rx_errors += too_long;
	stats->multicast += multicast;
	if (netif_running(netdev) && !tern_dev_dead(net->tdev))
		schedule_work(&net->stats_work);
}
