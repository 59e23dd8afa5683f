// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * The network device: registration, address, filters, MTU and link. While it is
 * down the port is disabled for RDMA, too: the RDMA port follows the state of
 * its netdev.
 */

#include <kunit/visibility.h>
#include <linux/etherdevice.h>
#include <linux/if_vlan.h>
#include <linux/rtnetlink.h>

#include "tern_filter.h"
#include "tern_net.h"
#include "tern_util.h"

#define TERN_MAX_MTU		9000
/* Emulated machines may stall for seconds. */
#define TERN_TX_TIMEOUT		(15 * HZ)
/* Delay between attempts to start queues that the device refused. */
#define TERN_RESTART_INTERVAL	HZ

static_assert(TERN_MAX_MTU + ETH_HLEN + 2 * VLAN_HLEN <= TERN_ETH_MAX_FRAME);

/* Sets the port attributes in @mask, TERN_PORT_*. */
static int tern_net_modify_port(struct tern_net *net, u32 mask, unsigned int mtu,
				const u8 *mac, bool enable)
{
	struct tern_cmd_modify_port cmd = {
		.mask = cpu_to_le32(mask),
		.mtu = cpu_to_le32(mtu),
		.enable = enable,
		.port = TERN_ETH_PORT,
	};

	if (mac)
		ether_addr_copy(cmd.mac, mac);
	return tern_cmd_exec(&net->tdev->core, TERN_CMD_MODIFY_PORT, &cmd,
			     sizeof(cmd), NULL, 0);
}

static int tern_net_send_filter(struct tern_net *net)
{
	return tern_cmd_exec(&net->tdev->core, TERN_CMD_SET_RX_FILTER,
			     &net->filter, sizeof(net->filter), NULL, 0);
}

/* Updates the carrier, if the port is enabled. Process context. */
void tern_net_update_link(struct tern_net *net)
{
	struct tern_rsp_port port;

	mutex_lock(&net->link_lock);
	if (net->port_up) {
		if (!tern_cmd_query_port(net->tdev, &port) && port.link_up)
			netif_carrier_on(net->netdev);
		else
			netif_carrier_off(net->netdev);
	}
	mutex_unlock(&net->link_lock);
}

/* Called when the device is dead. */
void tern_net_lose_link(struct tern_net *net)
{
	mutex_lock(&net->link_lock);
	net->port_up = false;
	netif_carrier_off(net->netdev);
	mutex_unlock(&net->link_lock);
}

/* Starts the queues and enables the port. RTNL held. */
static int tern_net_up(struct tern_net *net)
{
	struct net_device *netdev = net->netdev;
	int err;

	err = tern_queues_start(net);
	if (err)
		return err;
	err = tern_net_modify_port(net, TERN_PORT_MTU | TERN_PORT_MAC |
				   TERN_PORT_ENABLE, netdev->mtu,
				   netdev->dev_addr, true);
	if (err) {
		tern_queues_stop(net);
		return err;
	}

	mutex_lock(&net->link_lock);
	net->port_up = true;
	mutex_unlock(&net->link_lock);
	tern_net_update_link(net);
	return 0;
}

/* Disables the port, for RDMA too, and stops the queues. RTNL held. */
static void tern_net_down(struct tern_net *net)
{
	tern_net_lose_link(net);
	tern_net_modify_port(net, TERN_PORT_ENABLE, 0, NULL, false);
	tern_queues_stop(net);
}

/*
 * Takes over the addresses and flags of the netdev. While it was detached, the
 * core did not report changes, and it does not do so afterwards.
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
	int err;

	err = tern_queues_alloc(net);
	if (err)
		return err;
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
	tern_queues_free(net);
	return err;
}

static int tern_net_stop(struct net_device *netdev)
{
	struct tern_net *net = netdev_priv(netdev);

	/* It was already stopped before a reset. */
	if (!net->open)
		return 0;
	net->open = false;
	tern_net_down(net);
	tern_queues_free(net);
	return 0;
}

/*
 * Recreates the queues; the port is left as it is. Needs no host memory. If the
 * device refuses, the interface has no link until a retry succeeds. RTNL held.
 */
static void tern_net_restart(struct tern_net *net)
{
	tern_queues_stop(net);
	if (!tern_net_up(net))
		return;
	tern_net_down(net);
	schedule_delayed_work(&net->restart_work, TERN_RESTART_INTERVAL);
}

static void tern_net_restart_work(struct work_struct *work)
{
	struct tern_net *net = container_of(to_delayed_work(work),
					    struct tern_net, restart_work);

	rtnl_lock();
	if (net->open && !tern_dev_dead(net->tdev))
		tern_net_restart(net);
	rtnl_unlock();
}

static void tern_tx_timeout(struct net_device *netdev, unsigned int txqueue)
{
	struct tern_net *net = netdev_priv(netdev);

	schedule_delayed_work(&net->restart_work, 0);
}

static int tern_change_mtu(struct net_device *netdev, int mtu)
{
	struct tern_net *net = netdev_priv(netdev);
	int err;

	if (!net->open) {
		WRITE_ONCE(netdev->mtu, mtu);
		return 0;
	}
	err = tern_net_modify_port(net, TERN_PORT_MTU, mtu, NULL, false);
	if (err)
		return err;
	err = tern_queues_resize(net, mtu);
	if (err) {
		tern_net_modify_port(net, TERN_PORT_MTU, netdev->mtu, NULL, false);
		return err;
	}
	WRITE_ONCE(netdev->mtu, mtu);
	if (!net->queues_up)
		tern_net_restart(net);
	return 0;
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
	__le32 *word = &net->filter.vlans[vid / 32];
	__le32 before = *word;
	int err = 0;

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

/*
 * Adds the device's counters to those of the time before its last reset, and
 * stores the sum. While the netdev is detached, the device is not asked.
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
 * Before a reset, which clears the device's counters. Of a dead device the
 * values read last remain.
 */
static void tern_net_freeze_counters(struct tern_net *net)
{
	unsigned int i;

	mutex_lock(&net->counters_lock);
	tern_net_update_counters(net);
	for (i = 0; i < TERN_ETH_CNT_NUM; i++)
		net->counters_base[i] = u64_stats_read(&net->hw_counters[i]);
	net->counters_frozen = true;
	mutex_unlock(&net->counters_lock);
}

static void tern_net_thaw_counters(struct tern_net *net)
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

/* Atomic context: device counters are as old as the previous call. */
static void tern_get_stats64(struct net_device *netdev,
			     struct rtnl_link_stats64 *stats)
{
	struct tern_net *net = netdev_priv(netdev);
	u64 no_buffer, too_long, multicast;
	unsigned int start;

	dev_get_tstats64(netdev, stats);
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

static const struct net_device_ops tern_netdev_ops = {
	.ndo_open		= tern_net_open,
	.ndo_stop		= tern_net_stop,
	.ndo_start_xmit		= tern_xmit,
	.ndo_set_rx_mode_async	= tern_set_rx_mode_async,
	.ndo_set_mac_address	= tern_set_mac_address,
	.ndo_validate_addr	= eth_validate_addr,
	.ndo_change_mtu		= tern_change_mtu,
	.ndo_tx_timeout		= tern_tx_timeout,
	.ndo_get_stats64	= tern_get_stats64,
	.ndo_vlan_rx_add_vid	= tern_vlan_rx_add_vid,
	.ndo_vlan_rx_kill_vid	= tern_vlan_rx_kill_vid,
};

int tern_net_alloc(struct tern_dev *tdev)
{
	struct net_device *netdev;
	struct tern_net *net;

	netdev = alloc_etherdev(sizeof(*net));
	if (!netdev)
		return -ENOMEM;
	SET_NETDEV_DEV(netdev, tern_dma_dev(tdev));
	netdev->netdev_ops = &tern_netdev_ops;
	netdev->ethtool_ops = &tern_ethtool_ops;
	netdev->pcpu_stat_type = NETDEV_PCPU_STAT_TSTATS;
	netdev->watchdog_timeo = TERN_TX_TIMEOUT;
	netdev->priv_flags |= IFF_UNICAST_FLT | IFF_LIVE_ADDR_CHANGE;

	net = netdev_priv(netdev);
	net->tdev = tdev;
	net->netdev = netdev;
	net->filter.port = TERN_ETH_PORT;
	mutex_init(&net->link_lock);
	mutex_init(&net->counters_lock);
	u64_stats_init(&net->hw_syncp);
	INIT_DELAYED_WORK(&net->restart_work, tern_net_restart_work);
	INIT_WORK(&net->stats_work, tern_net_stats_work);
	tern_queues_init(net);

	tdev->net = net;
	tdev->core.netdev = netdev;
	return 0;
}
EXPORT_SYMBOL_IF_KUNIT(tern_net_alloc);

/*
 * The network device must have no users. Its work items may still be queued:
 * device events queue them until the device is down.
 */
void tern_net_free(struct tern_net *net)
{
	disable_delayed_work_sync(&net->restart_work);
	disable_delayed_work_sync(&net->refill_work);
	disable_work_sync(&net->stats_work);
	mutex_destroy(&net->counters_lock);
	mutex_destroy(&net->link_lock);
	free_netdev(net->netdev);
}
EXPORT_SYMBOL_IF_KUNIT(tern_net_free);

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

	netdev->features = NETIF_F_SG | NETIF_F_HIGHDMA;
	netdev->hw_features = NETIF_F_SG;
	netdev->vlan_features = NETIF_F_SG | NETIF_F_HIGHDMA;
	if (le64_to_cpu(caps->flags) & TERN_CAP_VLAN)
		netdev->features |= NETIF_F_HW_VLAN_CTAG_FILTER;

	if (is_valid_ether_addr(caps->mac))
		eth_hw_addr_set(netdev, caps->mac);
	else
		eth_hw_addr_random(netdev);

	netif_carrier_off(netdev);
	return register_netdev(netdev);
}
EXPORT_SYMBOL_IF_KUNIT(tern_net_register);

void tern_net_unregister(struct tern_net *net)
{
	unregister_netdev(net->netdev);
}
EXPORT_SYMBOL_IF_KUNIT(tern_net_unregister);

/* Before a reset: keeps the interface configured but inactive. */
void tern_net_detach(struct tern_net *net)
{
	struct net_device *netdev = net->netdev;

	rtnl_lock();
	netif_device_detach(netdev);
	tern_net_freeze_counters(net);
	if (netif_running(netdev))
		tern_net_stop(netdev);
	rtnl_unlock();
}
EXPORT_SYMBOL_IF_KUNIT(tern_net_detach);

/* After a reset: reopens the interface with its configuration. */
void tern_net_attach(struct tern_net *net)
{
	struct net_device *netdev = net->netdev;

	tern_net_thaw_counters(net);
	rtnl_lock();
	if (netif_running(netdev) && tern_net_open(netdev))
		dev_close(netdev);
	netif_device_attach(netdev);
	rtnl_unlock();
}
EXPORT_SYMBOL_IF_KUNIT(tern_net_attach);
