// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Statistics as ethtool and "netdev-genl" show them. */

#include <linux/ethtool.h>
#include <net/netdev_queues.h>

#include "tern_net.h"

/* Indices of values in tern_ethtool_stats. Those of the device come first. */
#define TERN_STAT_RX(counter)	(TERN_ETH_CNT_NUM + (counter))
#define TERN_STAT_RULES		TERN_STAT_RX(TERN_RX_STAT_NUM)

/* Statistics that have no standard. */
static const struct {
	const char name[ETH_GSTRING_LEN];
	unsigned int index;
} tern_ethtool_stats[] = {
	{ "hw_tx_errors", TERN_ETH_CNT_TX_ERRORS },
	{ "hw_rx_filtered", TERN_ETH_CNT_RX_FILTERED },
	{ "hw_rx_flow_dropped", TERN_ETH_CNT_RX_FLOW_DROPPED },
	{ "hw_rx_csum_errors", TERN_ETH_CNT_RX_CSUM_ERRORS },
	{ "hw_tx_segmented", TERN_ETH_CNT_TX_SEGMENTED },
	/* Verdicts of XDP programs. */
	{ "rx_xdp_drop", TERN_STAT_RX(TERN_RX_STAT_XDP_DROP) },
	{ "rx_xdp_tx", TERN_STAT_RX(TERN_RX_STAT_XDP_TX) },
	{ "rx_xdp_redirect", TERN_STAT_RX(TERN_RX_STAT_XDP_REDIRECT) },
	/* Number of rules that wait for a place in the device (tern_ntuple_sync()). */
	{ "ntuple_rules_waiting", TERN_STAT_RULES },
};

void tern_get_strings(struct net_device *netdev, u32 set, u8 *data)
{
	unsigned int i;

	if (set != ETH_SS_STATS)
		return;
	for (i = 0; i < ARRAY_SIZE(tern_ethtool_stats); i++)
		ethtool_puts(&data, tern_ethtool_stats[i].name);
}

int tern_get_sset_count(struct net_device *netdev, int set)
{
	if (set != ETH_SS_STATS)
		return -EOPNOTSUPP;
	return ARRAY_SIZE(tern_ethtool_stats);
}

void tern_get_ethtool_stats(struct net_device *netdev,
			    struct ethtool_stats *stats, u64 *data)
{
	u64 value[TERN_STAT_RX(TERN_RX_STAT_NUM) + 1] = {};
	struct tern_net *net = netdev_priv(netdev);
	u64 tx[TERN_TX_STAT_NUM] = {};
	unsigned int i;

	tern_net_query_counters(net, value);
	tern_stats_sum(net, 0, tx, &value[TERN_STAT_RX(0)]);
	value[TERN_STAT_RULES] = net->steer.num_waiting;
	for (i = 0; i < ARRAY_SIZE(tern_ethtool_stats); i++)
		data[i] = value[tern_ethtool_stats[i].index];
}

/*
 * The device counts frames that reached no queue; the netdev's own statistics
 * do not.
 */
void tern_get_eth_mac_stats(struct net_device *netdev,
			    struct ethtool_eth_mac_stats *stats)
{
	struct tern_net *net = netdev_priv(netdev);
	u64 counters[TERN_ETH_CNT_NUM];

	tern_net_query_counters(net, counters);
	stats->FramesTransmittedOK = counters[TERN_ETH_CNT_TX_PACKETS];
	stats->OctetsTransmittedOK = counters[TERN_ETH_CNT_TX_BYTES];
	stats->FramesReceivedOK = counters[TERN_ETH_CNT_RX_PACKETS];
	stats->OctetsReceivedOK = counters[TERN_ETH_CNT_RX_BYTES];
	stats->MulticastFramesReceivedOK = counters[TERN_ETH_CNT_RX_MULTICAST];
	stats->BroadcastFramesReceivedOK = counters[TERN_ETH_CNT_RX_BROADCAST];
	stats->MulticastFramesXmittedOK = counters[TERN_ETH_CNT_TX_MULTICAST];
	stats->BroadcastFramesXmittedOK = counters[TERN_ETH_CNT_TX_BROADCAST];
	stats->FrameTooLongErrors = counters[TERN_ETH_CNT_RX_TOO_LONG];
}

static const struct ethtool_rmon_hist_range tern_rmon_ranges[] = {
	{    0,   64 },
	{   65,  127 },
	{  128,  255 },
	{  256,  511 },
	{  512, 1023 },
	{ 1024, 1518 },
	{ 1519, TERN_ETH_MAX_FRAME + ETH_FCS_LEN },
	{}
};

static_assert(ARRAY_SIZE(tern_rmon_ranges) == TERN_ETH_SIZES + 1);

void tern_get_rmon_stats(struct net_device *netdev,
			 struct ethtool_rmon_stats *stats,
			 const struct ethtool_rmon_hist_range **ranges)
{
	struct tern_net *net = netdev_priv(netdev);
	u64 counters[TERN_ETH_CNT_NUM];
	unsigned int i;

	*ranges = tern_rmon_ranges;
	tern_net_query_counters(net, counters);
	stats->oversize_pkts = counters[TERN_ETH_CNT_RX_TOO_LONG];
	for (i = 0; i < TERN_ETH_SIZES; i++) {
		stats->hist[i] = counters[TERN_ETH_CNT_RX_SIZES + i];
		stats->hist_tx[i] = counters[TERN_ETH_CNT_TX_SIZES + i];
	}
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

	tern_stats_sum(net, netdev->real_num_tx_queues, count_tx, count_rx);
	tern_fill_tx(count_tx, tx);
	tern_fill_rx(count_rx, rx);
}

const struct netdev_stat_ops tern_stat_ops = {
	.get_queue_stats_rx	= tern_get_queue_stats_rx,
	.get_queue_stats_tx	= tern_get_queue_stats_tx,
	.get_base_stats		= tern_get_base_stats,
};
