// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Receive side scaling: groups of the device, and their ethtool operations. */

#include <linux/ethtool.h>
#include <linux/rtnetlink.h>

#include "tern_net.h"

/* Spreads the default group evenly, unless the user has set its table. */
void tern_rss_spread(struct tern_net *net, unsigned int channels)
{
	struct tern_rss *rss = &net->steer.rss;
	unsigned int i;

	if (netif_is_rxfh_configured(net->netdev))
		return;
	for (i = 0; i < TERN_RSS_ENTRIES; i++)
		rss->indir[i] = ethtool_rxfh_indir_default(i, channels);
}

#ifndef TERN_WITHOUT_XSK
/**
 * tern_steer_substitute() - choose the channel that takes the frames of another
 * @net: the network device, with queues
 * @channel: index of the other channel
 *
 * The frames may not be for the process whose AF_XDP socket has a channel. RTNL held.
 *
 * Return: index of a channel without a pool, or TERN_NO_CHANNEL.
 */
unsigned int tern_steer_substitute(const struct tern_net *net, unsigned int channel)
{
	const struct tern_queues *queues = rtnl_dereference(net->queues);
	unsigned int i;

	for (i = 0; i < queues->config.channels; i++)
		if (i != channel && !net->xsk_pools[i])
			return i;
	return TERN_NO_CHANNEL;
}

/* Whether groups must not refer to a channel, if another one can take its frames. */
static bool tern_rss_avoids(const struct tern_net *net, unsigned int channel)
{
	const struct tern_steer *steer = &net->steer;

#ifndef TERN_WITHOUT_STEERING
	/* The frames of a rule that waits are not for the sockets of other channels. */
	if (steer->num_waiting && channel != steer->waiting_channel &&
	    net->xsk_pools[channel])
		return true;
#endif
	return channel == steer->detached;
}

#endif
static void tern_rss_cmd(struct tern_net *net, const struct tern_rss *rss, u32 id,
			 struct tern_cmd_rss *cmd)
{
	const struct tern_queues *queues = rtnl_dereference(net->queues);
#ifndef TERN_WITHOUT_XSK
	unsigned int substitute = tern_steer_substitute(net, net->steer.detached);
#endif
	unsigned int i, index;

	cmd->id = cpu_to_le32(id);
	cmd->port = TERN_ETH_PORT;
	cmd->log_entries = ilog2(TERN_RSS_ENTRIES);
	cmd->kind = TERN_DEST_ETH_QUEUE;
	cmd->func = rss->symmetric ? TERN_RSS_FUNC_SYMMETRIC : TERN_RSS_FUNC_TOEPLITZ;
	memcpy(cmd->fields, rss->fields, sizeof(cmd->fields));
	memcpy(cmd->key, rss->key, sizeof(cmd->key));
	for (i = 0; i < TERN_RSS_ENTRIES; i++) {
		/* There may be fewer channels than when the user set the table. */
		index = rss->indir[i] % queues->config.channels;
#ifndef TERN_WITHOUT_XSK
		if (tern_rss_avoids(net, index) && substitute != TERN_NO_CHANNEL)
			index = substitute;
#endif
		cmd->entries[i] = cpu_to_le32(queues->channel[index].rx.id);
	}
}

int tern_rss_create(struct tern_net *net, struct tern_rss *rss)
{
	struct tern_cmd_rss cmd;
	int err;

	tern_rss_cmd(net, rss, 0, &cmd);
	err = tern_cmd_create(net->tdev, TERN_CMD_CREATE_RSS, &cmd, sizeof(cmd), &rss->id);
	rss->created = !err;
	return err;
}

void tern_rss_destroy(struct tern_net *net, struct tern_rss *rss)
{
	if (!rss->created)
		return;
	rss->created = false;
	tern_cmd_destroy(net->tdev, TERN_CMD_DESTROY_RSS, rss->id);
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
	const struct tern_rss *rss = &net->steer.rss;
	unsigned int i;

	if (!tern_net_has_cap(net, TERN_CAP_STEERING))
		return -EOPNOTSUPP;
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
