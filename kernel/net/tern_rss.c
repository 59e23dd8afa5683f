// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Receive side scaling: groups of the device. */

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
void tern_rss_cmd(struct tern_net *net, const struct tern_rss *rss, u32 id,
		  struct tern_cmd_rss *cmd)
{
#ifndef TERN_WITHOUT_XSK
	unsigned int substitute = tern_steer_substitute(net, net->steer.detached);
#endif
	const struct tern_queues *queues = rtnl_dereference(net->queues);
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
