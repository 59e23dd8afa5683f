// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Statistics of the network device, by queue and as a whole. */

#include <linux/netdevice.h>
#include <net/netdev_queues.h>

#include "tern_net.h"

/*
 * Adds the device's counters to those from before its last reset, and stores the sum.
 * Does not query the device while the netdev is detached.
 */
static int tern_net_update_counters(struct tern_net *net)
{
	u64 counters[TERN_ETH_CNT_NUM];
	unsigned long flags;
	unsigned int i;
	int err;

	lockdep_assert_held(&net->counters_lock);

	if (net->counters_frozen)
		return 0;
	err = tern_cmd_query_eth_counters(net->tdev, counters);
	if (err)
		return err;
	/* Where this takes a lock, its holder must not be preempted. */
	flags = u64_stats_update_begin_irqsave(&net->hw_syncp);
	for (i = 0; i < TERN_ETH_CNT_NUM; i++)
		u64_stats_set(&net->hw_counters[i],
			      net->counters_base[i] + counters[i]);
	u64_stats_update_end_irqrestore(&net->hw_syncp, flags);
	return 0;
}

/**
 * tern_net_query_counters() - read the counters of the Ethernet function
 * @net: the network device
 * @counters: output, TERN_ETH_CNT_NUM counters, which a reset does not clear
 *
 * Process context.
 *
 * Return: 0, or the error of tern_cmd_exec().
 */
int tern_net_query_counters(struct tern_net *net, u64 *counters)
{
	unsigned int i;
	int err;

	mutex_lock(&net->counters_lock);
	err = tern_net_update_counters(net);
	for (i = 0; i < TERN_ETH_CNT_NUM && !err; i++)
		counters[i] = u64_stats_read(&net->hw_counters[i]);
	mutex_unlock(&net->counters_lock);
	return err;
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

void tern_stats_init(struct tern_net *net)
{
	unsigned int i;

	for (i = 0; i < TERN_MAX_CHANNELS; i++)
		u64_stats_init(&net->stats[i].syncp);
	mutex_init(&net->counters_lock);
	u64_stats_init(&net->hw_syncp);
	INIT_WORK(&net->stats_work, tern_net_stats_work);
}

void tern_stats_exit(struct tern_net *net)
{
	disable_work_sync(&net->stats_work);
	mutex_destroy(&net->counters_lock);
}

static_assert((int)TERN_TX_STAT_NUM <= (int)TERN_RX_STAT_NUM);

/* Adds the statistics of one index to @sum. */
static void tern_stats_read(const struct tern_stats *stats, const u64_stats_t *from,
			    u64 *sum, unsigned int num)
{
	u64 value[TERN_RX_STAT_NUM];
	unsigned int start, i;

	do {
		start = u64_stats_fetch_begin(&stats->syncp);
		for (i = 0; i < num; i++)
			value[i] = u64_stats_read(&from[i]);
	} while (u64_stats_fetch_retry(&stats->syncp, start));
	for (i = 0; i < num; i++)
		sum[i] += value[i];
}

/* Adds the statistics of the transmit queues from @first on to @sum, TERN_TX_STAT_*. */
static void tern_stats_sum_tx(const struct tern_net *net, unsigned int first, u64 *sum)
{
	unsigned int i;

	for (i = first; i < TERN_MAX_CHANNELS; i++)
		tern_stats_read(&net->stats[i], net->stats[i].tx, sum, TERN_TX_STAT_NUM);
}

/* The same for the receive queues, TERN_RX_STAT_*. */
void tern_stats_sum_rx(const struct tern_net *net, unsigned int first, u64 *sum)
{
	unsigned int i;

	for (i = first; i < TERN_MAX_CHANNELS; i++)
		tern_stats_read(&net->stats[i], net->stats[i].rx, sum, TERN_RX_STAT_NUM);
}

/* Atomic context: device counters are as old as the previous call. */
void tern_get_stats64(struct net_device *netdev, struct rtnl_link_stats64 *stats)
{
	u64 tx[TERN_TX_STAT_NUM] = {}, rx[TERN_RX_STAT_NUM] = {};
	struct tern_net *net = netdev_priv(netdev);
	u64 no_buffer, too_long, multicast;
	unsigned int start;

	tern_stats_sum_tx(net, 0, tx);
	tern_stats_sum_rx(net, 0, rx);
	stats->tx_packets = tx[TERN_TX_STAT_PACKETS];
	stats->tx_bytes = tx[TERN_TX_STAT_BYTES];
	stats->tx_errors = tx[TERN_TX_STAT_ERRORS];
	stats->rx_packets = rx[TERN_RX_STAT_PACKETS];
	stats->rx_bytes = rx[TERN_RX_STAT_BYTES];
	stats->rx_errors = rx[TERN_RX_STAT_ERRORS];
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

static void tern_fill_rx(const u64 *count, struct netdev_queue_stats_rx *stats)
{
	stats->packets = count[TERN_RX_STAT_PACKETS];
	stats->bytes = count[TERN_RX_STAT_BYTES];
	stats->alloc_fail = count[TERN_RX_STAT_ALLOC_FAIL];
	stats->csum_unnecessary = count[TERN_RX_STAT_CSUM_UNNECESSARY];
	stats->csum_none = count[TERN_RX_STAT_CSUM_NONE];
	stats->hw_gro_packets = count[TERN_RX_STAT_GRO_PACKETS];
	stats->hw_gro_bytes = count[TERN_RX_STAT_GRO_BYTES];
	stats->hw_gro_wire_packets = count[TERN_RX_STAT_GRO_WIRE_PACKETS];
	stats->hw_gro_wire_bytes = count[TERN_RX_STAT_GRO_WIRE_BYTES];
}

static void tern_fill_tx(const u64 *count, struct netdev_queue_stats_tx *stats)
{
	stats->packets = count[TERN_TX_STAT_PACKETS];
	stats->bytes = count[TERN_TX_STAT_BYTES];
	stats->csum_none = count[TERN_TX_STAT_CSUM_NONE];
	stats->needs_csum = count[TERN_TX_STAT_NEEDS_CSUM];
	stats->hw_gso_packets = count[TERN_TX_STAT_GSO_PACKETS];
	stats->hw_gso_bytes = count[TERN_TX_STAT_GSO_BYTES];
	stats->hw_gso_wire_packets = count[TERN_TX_STAT_GSO_WIRE_PACKETS];
	stats->hw_gso_wire_bytes = count[TERN_TX_STAT_GSO_WIRE_BYTES];
}

static void tern_get_queue_stats_rx(struct net_device *netdev, int index,
				    struct netdev_queue_stats_rx *stats)
{
	struct tern_net *net = netdev_priv(netdev);
	u64 count[TERN_RX_STAT_NUM] = {};

	tern_stats_read(&net->stats[index], net->stats[index].rx, count,
			TERN_RX_STAT_NUM);
	tern_fill_rx(count, stats);
}

static void tern_get_queue_stats_tx(struct net_device *netdev, int index,
				    struct netdev_queue_stats_tx *stats)
{
	struct tern_net *net = netdev_priv(netdev);
	u64 count[TERN_TX_STAT_NUM] = {};

	tern_stats_read(&net->stats[index], net->stats[index].tx, count,
			TERN_TX_STAT_NUM);
	tern_fill_tx(count, stats);
}

/* Totals of destroyed queues. */
static void tern_get_base_stats(struct net_device *netdev,
				struct netdev_queue_stats_rx *rx,
				struct netdev_queue_stats_tx *tx)
{
	struct tern_net *net = netdev_priv(netdev);
	u64 count_tx[TERN_TX_STAT_NUM] = {};
	u64 count_rx[TERN_RX_STAT_NUM] = {};

	tern_stats_sum_tx(net, netdev->real_num_tx_queues, count_tx);
	tern_stats_sum_rx(net, netdev->real_num_rx_queues, count_rx);
	tern_fill_tx(count_tx, tx);
	tern_fill_rx(count_rx, rx);
}

const struct netdev_stat_ops tern_stat_ops = {
	.get_queue_stats_rx	= tern_get_queue_stats_rx,
	.get_queue_stats_tx	= tern_get_queue_stats_tx,
	.get_base_stats		= tern_get_base_stats,
};
