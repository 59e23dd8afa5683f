// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * ethtool operations that change rings, channels and the default RSS group, and what
 * follows the number of channels: transmit queues by CPU (XPS).
 */

#include <linux/cpumask.h>
#include <linux/ethtool.h>
#include <linux/rtnetlink.h>
#include <net/netdev_queues.h>

#include "tern_net.h"

/* Sets the number of queues of the network device. RTNL held. */
int tern_net_set_num_queues(struct tern_net *net, unsigned int num)
{
	/* The network stack drops the XPS maps of queues that go. */
	if (num != net->netdev->real_num_tx_queues)
		net->xps_set = false;
	return netif_set_real_num_queues(net->netdev, num, num);
}

/* Changes the number of channels before the interface is opened. RTNL held. */
int tern_net_preset_channels(struct tern_net *net, unsigned int channels)
{
	int err = 0;

	if (channels != net->config.channels)
		err = tern_net_set_num_queues(net, channels);
	if (!err)
		tern_rss_spread(net, channels);
	return err;
}

/*
 * Gives each transmit queue the CPU of its vector. After that the maps belong to
 * the user, until the number of channels changes. RTNL held.
 */
void tern_queues_set_xps(struct tern_net *net, unsigned int num)
{
	struct device *dev = tern_dma_dev(net->tdev);
	unsigned int i;

	if (net->xps_set)
		return;
	net->xps_set = true;
	for (i = 0; num > 1 && i < num; i++)
		netif_set_xps_queue(net->netdev, cpumask_of(tern_vector_cpu(dev, i)), i);
}

/* Log2 of the largest ring, which needs a completion queue of its size. */
static u8 tern_ring_log_max(const struct tern_net *net)
{
	return clamp(ilog2(le32_to_cpu(net->tdev->caps.max_cqe) | 1), TERN_RING_LOG_MIN,
		     TERN_RING_LOG_MAX);
}

void tern_get_ringparam(struct net_device *netdev,
			struct ethtool_ringparam *ring,
			struct kernel_ethtool_ringparam *kernel_ring,
			struct netlink_ext_ack *extack)
{
	struct tern_net *net = netdev_priv(netdev);

	ring->rx_max_pending = BIT(tern_ring_log_max(net));
	ring->rx_pending = BIT(net->config.rx_log_size);
	ring->tx_max_pending = BIT(tern_ring_log_max(net));
	ring->tx_pending = BIT(net->config.tx_log_size);
}

int tern_set_ringparam(struct net_device *netdev,
		       struct ethtool_ringparam *ring,
		       struct kernel_ethtool_ringparam *kernel_ring,
		       struct netlink_ext_ack *extack)
{
	struct tern_net *net = netdev_priv(netdev);
	struct tern_net_config config;

	config = net->config;
	if (ring->rx_pending < BIT(TERN_RING_LOG_MIN) ||
	    ring->tx_pending < BIT(TERN_RING_LOG_MIN)) {
		NL_SET_ERR_MSG_MOD(extack, "a ring has at least 64 descriptors");
		return -EINVAL;
	}
	config.rx_log_size = order_base_2(ring->rx_pending);
	config.tx_log_size = order_base_2(ring->tx_pending);
	if (config.rx_log_size == net->config.rx_log_size &&
	    config.tx_log_size == net->config.tx_log_size)
		return 0;
	return tern_net_reconfigure(net, &config);
}

void tern_get_channels(struct net_device *netdev,
		       struct ethtool_channels *channels)
{
	struct tern_net *net = netdev_priv(netdev);

	channels->max_combined = tern_max_channels(net);
	channels->combined_count = net->config.channels;
}

int tern_set_channels(struct net_device *netdev, struct ethtool_channels *channels)
{
	struct tern_net *net = netdev_priv(netdev);
	struct tern_net_config config;

	config = net->config;
	/* The core has compared it with the maximum, the table and the rules. */
	config.channels = channels->combined_count;
	if (config.channels == net->config.channels)
		return 0;
	return tern_net_reconfigure(net, &config);
}

u32 tern_get_rx_ring_count(struct net_device *netdev)
{
	struct tern_net *net = netdev_priv(netdev);

	return net->config.channels;
}

/* Replaces the contents of a group in the device, if it exists there. */
int tern_rss_modify(struct tern_net *net, const struct tern_rss *rss,
		    const struct tern_rss *next)
{
	struct tern_cmd_rss cmd;

	if (!rss->created)
		return 0;
	tern_rss_cmd(net, next, rss->id, &cmd);
	return tern_cmd_exec(&net->tdev->core, TERN_CMD_MODIFY_RSS, &cmd, sizeof(cmd),
			     NULL, 0);
}

/* Replaces the contents of a group. */
int tern_rss_update(struct tern_net *net, struct tern_rss *rss,
		    const struct tern_rss *next)
{
	int err = tern_rss_modify(net, rss, next);

	if (!err)
		*rss = *next;
	return err;
}

/* Applies the changes in @param to @rss. */
int tern_rss_apply(struct tern_rss *rss, const struct ethtool_rxfh_param *param,
		   struct netlink_ext_ack *extack)
{
	unsigned int i;

	if (param->hfunc != ETH_RSS_HASH_NO_CHANGE && param->hfunc != ETH_RSS_HASH_TOP) {
		NL_SET_ERR_MSG_MOD(extack, "only the Toeplitz hash is supported");
		return -EOPNOTSUPP;
	}
	if (param->input_xfrm != RXH_XFRM_NO_CHANGE) {
		if (param->input_xfrm & ~RXH_XFRM_SYM_XOR) {
			NL_SET_ERR_MSG_MOD(extack, "only symmetric-xor is supported");
			return -EOPNOTSUPP;
		}
		rss->symmetric = param->input_xfrm & RXH_XFRM_SYM_XOR;
	}
	if (param->key)
		memcpy(rss->key, param->key, sizeof(rss->key));
	for (i = 0; param->indir && i < TERN_RSS_ENTRIES; i++)
		rss->indir[i] = param->indir[i];
	return 0;
}

u32 tern_get_rxfh_size(struct net_device *netdev)
{
	return tern_net_has_cap(netdev_priv(netdev), TERN_CAP_STEERING) ?
	       TERN_RSS_ENTRIES : 0;
}

u32 tern_get_rxfh_key_size(struct net_device *netdev)
{
	return tern_net_has_cap(netdev_priv(netdev), TERN_CAP_STEERING) ?
	       TERN_RSS_KEY_SIZE : 0;
}

int tern_get_rxfh(struct net_device *netdev, struct ethtool_rxfh_param *param)
{
	struct tern_net *net = netdev_priv(netdev);
	const struct tern_rss *rss;
	unsigned int i;

	if (!tern_net_has_cap(net, TERN_CAP_STEERING))
		return -EOPNOTSUPP;
	rss = &net->steer.rss;
#ifndef TERN_WITHOUT_STEERING
	rss = tern_rss_find(net, param->rss_context);
	if (!rss)
		return -ENOENT;
#endif
	param->hfunc = ETH_RSS_HASH_TOP;
	param->input_xfrm = rss->symmetric ? RXH_XFRM_SYM_XOR : 0;
	if (param->key)
		memcpy(param->key, rss->key, sizeof(rss->key));
	for (i = 0; param->indir && i < TERN_RSS_ENTRIES; i++)
		param->indir[i] = rss->indir[i];
	return 0;
}

int tern_set_rxfh(struct net_device *netdev, struct ethtool_rxfh_param *param,
		  struct netlink_ext_ack *extack)
{
	struct tern_net *net = netdev_priv(netdev);
	struct tern_rss next = net->steer.rss;
	int err;

	if (!tern_net_has_cap(net, TERN_CAP_STEERING))
		return -EOPNOTSUPP;
	err = tern_rss_apply(&next, param, extack);
	if (err)
		return err;
	return tern_rss_update(net, &net->steer.rss, &next);
}
