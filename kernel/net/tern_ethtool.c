// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* ethtool operations. */

#include <linux/ethtool.h>

#include "tern_net.h"

/* Device counters that no standard statistic covers. */
static const struct {
	const char name[ETH_GSTRING_LEN];
	unsigned int counter;	/* TERN_ETH_CNT_* */
} tern_stats[] = {
	{ "hw_tx_errors", TERN_ETH_CNT_TX_ERRORS },
	{ "hw_rx_filtered", TERN_ETH_CNT_RX_FILTERED },
};

static void tern_get_drvinfo(struct net_device *netdev,
			     struct ethtool_drvinfo *info)
{
	struct tern_net *net = netdev_priv(netdev);

	strscpy(info->fw_version, (const char *)net->tdev->caps.fw_name,
		sizeof(info->fw_version));
}

static void tern_get_ringparam(struct net_device *netdev,
			       struct ethtool_ringparam *ring,
			       struct kernel_ethtool_ringparam *kernel_ring,
			       struct netlink_ext_ack *extack)
{
	ring->rx_max_pending = BIT(TERN_RX_LOG_SIZE);
	ring->rx_pending = BIT(TERN_RX_LOG_SIZE);
	ring->tx_max_pending = BIT(TERN_TX_LOG_SIZE);
	ring->tx_pending = BIT(TERN_TX_LOG_SIZE);
}

static void tern_get_channels(struct net_device *netdev,
			      struct ethtool_channels *channels)
{
	channels->max_combined = 1;
	channels->combined_count = 1;
}

static int tern_get_link_ksettings(struct net_device *netdev,
				   struct ethtool_link_ksettings *settings)
{
	struct tern_net *net = netdev_priv(netdev);
	struct tern_rsp_port port;

	ethtool_link_ksettings_zero_link_mode(settings, supported);
	ethtool_link_ksettings_zero_link_mode(settings, advertising);
	settings->base.port = PORT_OTHER;
	settings->base.autoneg = AUTONEG_DISABLE;
	settings->base.speed = SPEED_UNKNOWN;
	settings->base.duplex = DUPLEX_UNKNOWN;
	if (netif_carrier_ok(netdev) &&
	    !tern_cmd_query_port(net->tdev, &port)) {
		settings->base.speed = le32_to_cpu(port.speed);
		settings->base.duplex = DUPLEX_FULL;
	}
	return 0;
}

static void tern_get_strings(struct net_device *netdev, u32 set, u8 *data)
{
	unsigned int i;

	if (set != ETH_SS_STATS)
		return;
	for (i = 0; i < ARRAY_SIZE(tern_stats); i++)
		ethtool_puts(&data, tern_stats[i].name);
}

static int tern_get_sset_count(struct net_device *netdev, int set)
{
	return set == ETH_SS_STATS ? ARRAY_SIZE(tern_stats) : -EOPNOTSUPP;
}

static void tern_get_ethtool_stats(struct net_device *netdev,
				   struct ethtool_stats *stats, u64 *data)
{
	struct tern_net *net = netdev_priv(netdev);
	u64 counters[TERN_ETH_CNT_NUM] = {};
	unsigned int i;

	if (tern_net_query_counters(net, counters))
		memset(counters, 0, sizeof(counters));
	for (i = 0; i < ARRAY_SIZE(tern_stats); i++)
		data[i] = counters[tern_stats[i].counter];
}

/*
 * The device counts frames that reached no queue; the netdev's own statistics
 * do not.
 */
static void tern_get_eth_mac_stats(struct net_device *netdev,
				   struct ethtool_eth_mac_stats *stats)
{
	struct tern_net *net = netdev_priv(netdev);
	u64 counters[TERN_ETH_CNT_NUM];

	if (tern_net_query_counters(net, counters))
		return;
	stats->FramesTransmittedOK = counters[TERN_ETH_CNT_TX_PACKETS];
	stats->OctetsTransmittedOK = counters[TERN_ETH_CNT_TX_BYTES];
	stats->FramesReceivedOK = counters[TERN_ETH_CNT_RX_PACKETS];
	stats->OctetsReceivedOK = counters[TERN_ETH_CNT_RX_BYTES];
	stats->MulticastFramesReceivedOK = counters[TERN_ETH_CNT_RX_MULTICAST];
	stats->FrameTooLongErrors = counters[TERN_ETH_CNT_RX_TOO_LONG];
}

const struct ethtool_ops tern_ethtool_ops = {
	.get_drvinfo		= tern_get_drvinfo,
	.get_link		= ethtool_op_get_link,
	.get_ringparam		= tern_get_ringparam,
	.get_strings		= tern_get_strings,
	.get_ethtool_stats	= tern_get_ethtool_stats,
	.get_sset_count		= tern_get_sset_count,
	.get_eth_mac_stats	= tern_get_eth_mac_stats,
	.get_channels		= tern_get_channels,
	.get_ts_info		= ethtool_op_get_ts_info,
	.get_link_ksettings	= tern_get_link_ksettings,
};
