// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* ethtool operations. */

#include <linux/ethtool.h>

#include "tern_net.h"

static void tern_get_drvinfo(struct net_device *netdev,
			     struct ethtool_drvinfo *info)
{
	struct tern_net *net = netdev_priv(netdev);

	strscpy(info->fw_version, (const char *)net->tdev->caps.fw_name,
		sizeof(info->fw_version));
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

#ifndef TERN_WITHOUT_STEERING
static int tern_get_rxnfc(struct net_device *netdev, struct ethtool_rxnfc *info,
			  u32 *locations)
{
	return tern_ntuple_get(netdev_priv(netdev), info, locations);
}

static int tern_set_rxnfc(struct net_device *netdev, struct ethtool_rxnfc *info)
{
	struct tern_net *net = netdev_priv(netdev);
	int err = tern_ntuple_set(net, info);

	if (!err)
		tern_steer_rules_changed(net);
	return err;
}

#endif
const struct ethtool_ops tern_ethtool_ops = {
#ifndef TERN_WITHOUT_SETTINGS
	.supported_input_xfrm	= RXH_XFRM_SYM_XOR,
	.rxfh_indir_space	= TERN_RSS_ENTRIES,
	.rxfh_key_space		= TERN_RSS_KEY_SIZE,
	.get_ringparam		= tern_get_ringparam,
	.set_ringparam		= tern_set_ringparam,
	.get_channels		= tern_get_channels,
	.set_channels		= tern_set_channels,
	.get_rx_ring_count	= tern_get_rx_ring_count,
	.get_rxfh_indir_size	= tern_get_rxfh_size,
	.get_rxfh_key_size	= tern_get_rxfh_key_size,
	.get_rxfh		= tern_get_rxfh,
	.set_rxfh		= tern_set_rxfh,
#endif
#ifndef TERN_WITHOUT_COALESCE
	.supported_coalesce_params = ETHTOOL_COALESCE_USECS |
				     ETHTOOL_COALESCE_MAX_FRAMES |
				     ETHTOOL_COALESCE_USE_ADAPTIVE,
	.get_coalesce		= tern_get_coalesce,
	.set_coalesce		= tern_set_coalesce,
#endif
#ifndef TERN_WITHOUT_STEERING
	.rxfh_priv_size		= sizeof(struct tern_rss),
	.rxfh_max_num_contexts	= TERN_MAX_RSS,
	.rxfh_per_ctx_fields	= 1,
	.rxfh_per_ctx_key	= 1,
	.get_rxnfc		= tern_get_rxnfc,
	.set_rxnfc		= tern_set_rxnfc,
	.get_rxfh_fields	= tern_get_rxfh_fields,
	.set_rxfh_fields	= tern_set_rxfh_fields,
	.create_rxfh_context	= tern_create_rxfh_context,
	.modify_rxfh_context	= tern_modify_rxfh_context,
	.remove_rxfh_context	= tern_remove_rxfh_context,
#endif
#ifndef TERN_WITHOUT_STATS
	.get_strings		= tern_get_strings,
	.get_ethtool_stats	= tern_get_ethtool_stats,
	.get_sset_count		= tern_get_sset_count,
	.get_eth_mac_stats	= tern_get_eth_mac_stats,
	.get_rmon_stats		= tern_get_rmon_stats,
#endif
	.get_drvinfo		= tern_get_drvinfo,
	.get_link		= ethtool_op_get_link,
	.get_link_ksettings	= tern_get_link_ksettings,
#ifdef TERN_WITHOUT_PTP
	.get_ts_info		= ethtool_op_get_ts_info,
#else
	.get_ts_info		= tern_get_ts_info,
#endif
};
