// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* What ethtool shows. */

#include <linux/ethtool.h>

#include "tern_net.h"

/* The device's own counts: frames that no queue took are among them. */
static const char tern_stat_names[][ETH_GSTRING_LEN] = {
	[TERN_ETH_CNT_TX_PACKETS]	= "hw_tx_packets",
	[TERN_ETH_CNT_TX_BYTES]		= "hw_tx_bytes",
	[TERN_ETH_CNT_TX_ERRORS]	= "hw_tx_errors",
	[TERN_ETH_CNT_RX_PACKETS]	= "hw_rx_packets",
	[TERN_ETH_CNT_RX_BYTES]		= "hw_rx_bytes",
	[TERN_ETH_CNT_RX_NO_BUFFER]	= "hw_rx_no_buffer",
	[TERN_ETH_CNT_RX_TOO_LONG]	= "hw_rx_too_long",
	[TERN_ETH_CNT_RX_FILTERED]	= "hw_rx_filtered",
	[TERN_ETH_CNT_RX_MULTICAST]	= "hw_rx_multicast",
};

static_assert(ARRAY_SIZE(tern_stat_names) == TERN_ETH_CNT_NUM);

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
	if (set == ETH_SS_STATS)
		memcpy(data, tern_stat_names, sizeof(tern_stat_names));
}

static int tern_get_sset_count(struct net_device *netdev, int set)
{
	return set == ETH_SS_STATS ? ARRAY_SIZE(tern_stat_names) : -EOPNOTSUPP;
}

static void tern_get_ethtool_stats(struct net_device *netdev,
				   struct ethtool_stats *stats, u64 *data)
{
	struct tern_net *net = netdev_priv(netdev);

	if (tern_cmd_query_eth_counters(net->tdev, data))
		memset(data, 0, sizeof(*data) * ARRAY_SIZE(tern_stat_names));
}

const struct ethtool_ops tern_ethtool_ops = {
	.get_drvinfo		= tern_get_drvinfo,
	.get_link		= ethtool_op_get_link,
	.get_ringparam		= tern_get_ringparam,
	.get_strings		= tern_get_strings,
	.get_ethtool_stats	= tern_get_ethtool_stats,
	.get_sset_count		= tern_get_sset_count,
	.get_channels		= tern_get_channels,
	.get_ts_info		= ethtool_op_get_ts_info,
	.get_link_ksettings	= tern_get_link_ksettings,
};
