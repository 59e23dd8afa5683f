// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * The network device: registration, address, filters and MTU. While it is
 * down the port is disabled for RDMA, too: the RDMA port follows the state of
 * its netdev.
 */

#include <linux/cpumask.h>
#include <linux/etherdevice.h>
#include <linux/if_vlan.h>
#include <linux/rtnetlink.h>
#include <net/netdev_queues.h>

#include "tern_net.h"
#include "tern_util.h"

#define TERN_MAX_MTU		9000
/* Emulated machines may stall for seconds. */
#define TERN_TX_TIMEOUT		(15 * HZ)

static_assert(TERN_MAX_MTU + ETH_HLEN + 2 * VLAN_HLEN <= TERN_ETH_MAX_FRAME);

static int tern_net_send_filter(struct tern_net *net)
{
	return tern_cmd_exec(&net->tdev->core, TERN_CMD_SET_RX_FILTER,
			     &net->filter, sizeof(net->filter), NULL, 0);
}

/*
 * Takes over the addresses and flags of the netdev. The core did not report changes
 * while it was detached, and does not report them afterwards.
 */
static void tern_net_fill_filter(struct tern_net *net)
{
	struct net_device *netdev = net->netdev;

	netif_addr_lock_bh(netdev);
	tern_filter_fill(&net->filter, netdev->flags,
			 netdev->features & NETIF_F_HW_VLAN_CTAG_FILTER,
			 &netdev->uc, &netdev->mc);
	netif_addr_unlock_bh(netdev);
}

static int tern_net_open(struct net_device *netdev)
{
	struct tern_net *net = netdev_priv(netdev);
	struct tern_queues *queues;
	int err;

#ifndef TERN_WITHOUT_RESET
	/* After a reset the device may have fewer queues. */
	net->config.channels = min(net->config.channels, tern_max_channels(net));
#endif
	net->config.frame_len = tern_frame_len(netdev->mtu);
	queues = tern_queues_alloc(net, &net->config);
	if (IS_ERR(queues))
		return PTR_ERR(queues);
	rcu_assign_pointer(net->queues, queues);
	tern_net_fill_filter(net);
	err = tern_net_send_filter(net);
	if (err)
		goto free_queues;
	err = tern_net_up(net);
	if (err)
		goto free_queues;
	net->open = true;
	return 0;

free_queues:
	RCU_INIT_POINTER(net->queues, NULL);
	tern_queues_free(net, queues);
	return err;
}

static int tern_net_stop(struct net_device *netdev)
{
	struct tern_net *net = netdev_priv(netdev);
	struct tern_queues *queues;

	queues = rtnl_dereference(net->queues);
#ifndef TERN_WITHOUT_RESET
	/* It was already stopped before a reset. */
	if (!net->open)
		return 0;
#endif
	net->open = false;
	tern_net_down(net);
	RCU_INIT_POINTER(net->queues, NULL);
	tern_queues_free(net, queues);
	return 0;
}

static void tern_tx_timeout(struct net_device *netdev, unsigned int txqueue)
{
	tern_net_fault(netdev_priv(netdev));
}

static int tern_change_mtu(struct net_device *netdev, int mtu)
{
	struct tern_net *net = netdev_priv(netdev);
	struct tern_net_config config;
	int err;

	config = net->config;
	config.frame_len = tern_frame_len(mtu);
#ifndef TERN_WITHOUT_XDP
	if (!tern_xdp_fits(net, &config))
		return -EINVAL;
#endif
	if (!net->open) {
		net->config = config;
		WRITE_ONCE(netdev->mtu, mtu);
		return 0;
	}
	err = tern_net_modify_port(net, TERN_PORT_MTU, mtu, NULL, false);
	if (err)
		return err;
	if (config.frame_len != net->config.frame_len)
		err = tern_net_reconfigure(net, &config);
	if (err) {
		tern_net_modify_port(net, TERN_PORT_MTU, netdev->mtu, NULL, false);
		return err;
	}
	WRITE_ONCE(netdev->mtu, mtu);
	return 0;
}

/* TERN_ETH_QF_* of receive queues with @features. */
static u8 tern_rx_flags(const struct tern_net *net, netdev_features_t features)
{
	u8 flags = TERN_ETH_QF_SCATTER;

	if (!tern_net_has_cap(net, TERN_CAP_ETH_OFFLOAD))
		return 0;
	if (features & NETIF_F_HW_VLAN_CTAG_RX)
		flags |= TERN_ETH_QF_STRIP_VLAN;
	if (features & NETIF_F_RXFCS)
		flags |= TERN_ETH_QF_KEEP_FCS;
#ifndef TERN_WITHOUT_HWGRO
	if (features & NETIF_F_GRO_HW)
		flags |= TERN_ETH_QF_COALESCE;
#endif
	return flags;
}

static int tern_set_features(struct net_device *netdev, netdev_features_t features)
{
	struct tern_net *net = netdev_priv(netdev);
	struct tern_net_config config;

	config = net->config;
	config.rx_flags = tern_rx_flags(net, features);
	if (config.rx_flags == net->config.rx_flags)
		return 0;
#ifndef TERN_WITHOUT_XDP
	/* The FCS may not fit the buffer of a program, or those of a socket. */
	if (!tern_xdp_fits(net, &config))
		return -EINVAL;
#endif
	return tern_net_reconfigure(net, &config);
}

static int tern_set_mac_address(struct net_device *netdev, void *addr)
{
	struct tern_net *net = netdev_priv(netdev);
	struct sockaddr *sa = addr;
	int err;

	err = eth_prepare_mac_addr_change(netdev, addr);
	if (err)
		return err;
	if (net->open) {
		err = tern_net_modify_port(net, TERN_PORT_MAC, 0, sa->sa_data, false);
		if (err)
			return err;
	}
	eth_commit_mac_addr_change(netdev, addr);
	return 0;
}

static int tern_set_rx_mode_async(struct net_device *netdev,
				  struct netdev_hw_addr_list *uc,
				  struct netdev_hw_addr_list *mc)
{
	struct tern_net *net = netdev_priv(netdev);

	tern_filter_fill(&net->filter, netdev->flags,
			 netdev->features & NETIF_F_HW_VLAN_CTAG_FILTER, uc, mc);
	return net->open ? tern_net_send_filter(net) : 0;
}

static int tern_set_vlan(struct net_device *netdev, __be16 proto, u16 vid, bool on)
{
	struct tern_net *net = netdev_priv(netdev);
	__le32 bit = cpu_to_le32(BIT(vid % 32));
	__le32 before;
	__le32 *word;
	int err = 0;

	word = &net->filter.vlans[vid / 32];
	before = *word;
	if (proto != htons(ETH_P_8021Q))
		return -EPROTONOSUPPORT;
	*word = on ? before | bit : before & ~bit;
	if (net->open)
		err = tern_net_send_filter(net);
	if (err)
		*word = before;
	return err;
}

static int tern_vlan_rx_add_vid(struct net_device *netdev, __be16 proto, u16 vid)
{
	return tern_set_vlan(netdev, proto, vid, true);
}

static int tern_vlan_rx_kill_vid(struct net_device *netdev, __be16 proto, u16 vid)
{
	return tern_set_vlan(netdev, proto, vid, false);
}

static const struct net_device_ops tern_netdev_ops = {
	.ndo_open		= tern_net_open,
	.ndo_stop		= tern_net_stop,
	.ndo_start_xmit		= tern_xmit,
	.ndo_set_rx_mode_async	= tern_set_rx_mode_async,
	.ndo_set_mac_address	= tern_set_mac_address,
	.ndo_validate_addr	= eth_validate_addr,
	.ndo_change_mtu		= tern_change_mtu,
	.ndo_tx_timeout		= tern_tx_timeout,
#ifdef TERN_WITHOUT_STATS
	.ndo_get_stats64	= tern_get_stats64,
#else
	.ndo_get_stats64	= tern_get_all_stats64,
#endif
	.ndo_features_check	= tern_features_check,
#ifndef TERN_WITHOUT_HWGRO
	.ndo_fix_features	= tern_fix_features,
#endif
	.ndo_set_features	= tern_set_features,
	.ndo_vlan_rx_add_vid	= tern_vlan_rx_add_vid,
	.ndo_vlan_rx_kill_vid	= tern_vlan_rx_kill_vid,
#ifndef TERN_WITHOUT_XDP
	.ndo_bpf		= tern_bpf,
	.ndo_xdp_xmit		= tern_xdp_xmit,
#endif
#ifndef TERN_WITHOUT_XSK
	.ndo_xsk_wakeup		= tern_xsk_wakeup,
#endif
#ifndef TERN_WITHOUT_PTP
	.ndo_hwtstamp_get	= tern_hwtstamp_get,
	.ndo_hwtstamp_set	= tern_hwtstamp_set,
#endif
};

int tern_net_alloc(struct tern_dev *tdev)
{
	struct net_device *netdev;
	struct tern_net *net;

	netdev = alloc_etherdev_mqs(sizeof(*net), TERN_MAX_CHANNELS, TERN_MAX_CHANNELS);
	if (!netdev)
		return -ENOMEM;
	net = netdev_priv(netdev);
	SET_NETDEV_DEV(netdev, tern_dma_dev(tdev));
	netdev->netdev_ops = &tern_netdev_ops;
	netdev->ethtool_ops = &tern_ethtool_ops;
#ifndef TERN_WITHOUT_STATS
	netdev->stat_ops = &tern_stat_ops;
#endif
	netdev->watchdog_timeo = TERN_TX_TIMEOUT;
	netdev->priv_flags |= IFF_UNICAST_FLT | IFF_LIVE_ADDR_CHANGE;

	net->tdev = tdev;
	net->netdev = netdev;
	net->filter.port = TERN_ETH_PORT;
	mutex_init(&net->link_lock);
	tern_steer_init(net);
	tern_stats_init(net);
#ifndef TERN_WITHOUT_STATS
	tern_counters_init(net);
#endif
#ifndef TERN_WITHOUT_PTP
	tern_ptp_init(net);
#endif
	INIT_DELAYED_WORK(&net->restart_work, tern_net_restart_work);
	INIT_DELAYED_WORK(&net->refill_work, tern_queues_refill_work);

	tdev->net = net;
	tdev->core.netdev = netdev;
	return 0;
}

/*
 * The network device must have no users. Its work items may still be queued:
 * device events queue them until the device is down.
 */
void tern_net_free(struct tern_net *net)
{
	disable_delayed_work_sync(&net->restart_work);
	disable_delayed_work_sync(&net->refill_work);
#ifndef TERN_WITHOUT_STEERING
	tern_steer_exit(net);
#endif
#ifndef TERN_WITHOUT_STATS
	tern_counters_exit(net);
#endif
	mutex_destroy(&net->link_lock);
	free_netdev(net->netdev);
}

/* Features that need TERN_CAP_ETH_OFFLOAD. */
#define TERN_OFFLOADS	(NETIF_F_HW_CSUM | NETIF_F_TSO | NETIF_F_TSO6 | NETIF_F_TSO_ECN | \
			 NETIF_F_GSO_UDP_L4)

static void tern_net_set_features(struct tern_net *net)
{
	netdev_features_t hw = NETIF_F_SG, on = NETIF_F_SG | NETIF_F_HIGHDMA;
	struct net_device *netdev = net->netdev;

	if (tern_net_has_cap(net, TERN_CAP_ETH_OFFLOAD)) {
		hw |= TERN_OFFLOADS | NETIF_F_RXCSUM | NETIF_F_HW_VLAN_CTAG_TX |
		      NETIF_F_HW_VLAN_CTAG_RX;
		on |= hw;
		/* The device numbers the IPv4 packets of a segmented frame. */
		hw |= NETIF_F_TSO_MANGLEID | NETIF_F_RXFCS;
		netif_set_tso_max_size(netdev, TERN_ETH_MAX_TSO);
	}
#ifndef TERN_WITHOUT_HWGRO
	if (tern_net_has_cap(net, TERN_CAP_ETH_OFFLOAD) &&
	    tern_net_has_cap(net, TERN_CAP_ETH_COALESCE)) {
		hw |= NETIF_F_GRO_HW;
		on |= NETIF_F_GRO_HW;
	}
#endif
	if (tern_net_has_cap(net, TERN_CAP_STEERING)) {
		hw |= NETIF_F_RXHASH;
		on |= NETIF_F_RXHASH;
#ifndef TERN_WITHOUT_STEERING
		on |= NETIF_F_NTUPLE;
#endif
	}
	if (tern_net_has_cap(net, TERN_CAP_VLAN))
		on |= NETIF_F_HW_VLAN_CTAG_FILTER;
	netdev->hw_features = hw;
	netdev->features = on;
	/* Checksums are by offset, so inner ones are possible, too. */
	netdev->hw_enc_features = on & (NETIF_F_HW_CSUM | NETIF_F_SG | NETIF_F_HIGHDMA);
	netdev->vlan_features = on & (TERN_OFFLOADS | NETIF_F_SG | NETIF_F_HIGHDMA);
#ifndef TERN_WITHOUT_XDP
	tern_xdp_set_features(netdev);
#endif
}

/* The configuration until the user changes it. */
static int tern_net_set_config(struct tern_net *net)
{
	struct net_device *netdev = net->netdev;

	net->config = (struct tern_net_config){
		.channels = min(tern_max_channels(net), num_online_cpus()),
		.tx_log_size = TERN_TX_LOG_DEFAULT,
		.rx_log_size = TERN_RX_LOG_DEFAULT,
		.rx_flags = tern_rx_flags(net, netdev->features),
		.frame_len = tern_frame_len(netdev->mtu),
	};
	tern_rss_spread(net, net->config.channels);
	return netif_set_real_num_queues(netdev, net->config.channels,
					 net->config.channels);
}

/* Sets attributes from QUERY_CAPS and QUERY_PORT, and registers the netdev. */
int tern_net_register(struct tern_net *net)
{
	const struct tern_rsp_caps *caps = &net->tdev->caps;
	struct net_device *netdev = net->netdev;
	struct tern_rsp_port port;
	int err;

	err = tern_cmd_query_port(net->tdev, &port);
	if (err)
		return err;
	netdev->min_mtu = ETH_MIN_MTU;
	netdev->max_mtu = min(le32_to_cpu(port.max_mtu), TERN_MAX_MTU);
	netdev->mtu = min(netdev->max_mtu, ETH_DATA_LEN);

	tern_net_set_features(net);
	err = tern_net_set_config(net);
	if (err)
		return err;

	if (is_valid_ether_addr(caps->mac))
		eth_hw_addr_set(netdev, caps->mac);
	else
		eth_hw_addr_random(netdev);

	netif_carrier_off(netdev);
#ifndef TERN_WITHOUT_PTP
	err = tern_ptp_register(net);
	if (err)
		return err;
#endif
	err = register_netdev(netdev);
#ifndef TERN_WITHOUT_PTP
	if (err)
		tern_ptp_unregister(net);
#endif
	return err;
}

void tern_net_unregister(struct tern_net *net)
{
	unregister_netdev(net->netdev);
#ifndef TERN_WITHOUT_PTP
	tern_ptp_unregister(net);
#endif
}
#ifndef TERN_WITHOUT_RESET

/* Before a reset: keeps the interface configured but inactive. */
void tern_net_detach(struct tern_net *net)
{
	struct net_device *netdev = net->netdev;

	rtnl_lock();
	netif_device_detach(netdev);
#ifndef TERN_WITHOUT_STATS
	tern_net_freeze_counters(net);
#endif
	if (netif_running(netdev))
		tern_net_stop(netdev);
	rtnl_unlock();
}

/* After a reset: reopens the interface with its configuration. */
void tern_net_attach(struct tern_net *net)
{
	struct net_device *netdev = net->netdev;

#ifndef TERN_WITHOUT_STATS
	tern_net_thaw_counters(net);
#endif
#ifndef TERN_WITHOUT_PTP
	tern_ptp_reset(net);
#endif
	rtnl_lock();
	if (netif_running(netdev) && tern_net_open(netdev))
		dev_close(netdev);
	netif_device_attach(netdev);
	rtnl_unlock();
}
#endif
