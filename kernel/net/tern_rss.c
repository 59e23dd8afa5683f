// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Receive side scaling: groups of the device, and their ethtool operations. */

#include <kunit/visibility.h>
#include <linux/ethtool.h>
#include <linux/rtnetlink.h>
#include <linux/xarray.h>

#include "tern_net.h"

/* Delay between attempts to create rules that the device refused; it doubles. */
#define TERN_RULES_INTERVAL	HZ
#define TERN_RULES_INTERVAL_MAX	(64 * HZ)

#define TERN_RSS_L3	(TERN_RSS_FIELD_SRC_IP | TERN_RSS_FIELD_DST_IP)
#define TERN_RSS_L4	(TERN_RSS_L3 | TERN_RSS_FIELD_SRC_PORT | TERN_RSS_FIELD_DST_PORT)

/* Converts to the fields of ethtool. */
VISIBLE_IF_KUNIT u64 tern_rss_to_rxh(u8 fields)
{
	return (fields & TERN_RSS_FIELD_SRC_IP ? RXH_IP_SRC : 0) |
	       (fields & TERN_RSS_FIELD_DST_IP ? RXH_IP_DST : 0) |
	       (fields & TERN_RSS_FIELD_SRC_PORT ? RXH_L4_B_0_1 : 0) |
	       (fields & TERN_RSS_FIELD_DST_PORT ? RXH_L4_B_2_3 : 0);
}
EXPORT_SYMBOL_IF_KUNIT(tern_rss_to_rxh);

/* The reverse. Returns the fields that the device does not hash. */
VISIBLE_IF_KUNIT u32 tern_rss_from_rxh(u64 data, u8 *fields)
{
	*fields = (data & RXH_IP_SRC ? TERN_RSS_FIELD_SRC_IP : 0) |
		  (data & RXH_IP_DST ? TERN_RSS_FIELD_DST_IP : 0) |
		  (data & RXH_L4_B_0_1 ? TERN_RSS_FIELD_SRC_PORT : 0) |
		  (data & RXH_L4_B_2_3 ? TERN_RSS_FIELD_DST_PORT : 0);
	return data & ~(u64)(RXH_IP_SRC | RXH_IP_DST | RXH_L4_B_0_1 | RXH_L4_B_2_3);
}
EXPORT_SYMBOL_IF_KUNIT(tern_rss_from_rxh);

/* Index of the fields of a flow type, or -1. Other protocols count as IP. */
static int tern_rss_index(u32 flow_type, bool exact)
{
	switch (flow_type) {
	case TCP_V4_FLOW:
		return TERN_RSS_TCP4;
	case UDP_V4_FLOW:
		return TERN_RSS_UDP4;
	case TCP_V6_FLOW:
		return TERN_RSS_TCP6;
	case UDP_V6_FLOW:
		return TERN_RSS_UDP6;
	case IPV4_FLOW:
		return TERN_RSS_IPV4;
	case IPV6_FLOW:
		return TERN_RSS_IPV6;
	case SCTP_V4_FLOW:
	case AH_ESP_V4_FLOW:
	case AH_V4_FLOW:
	case ESP_V4_FLOW:
		return exact ? -1 : TERN_RSS_IPV4;
	case SCTP_V6_FLOW:
	case AH_ESP_V6_FLOW:
	case AH_V6_FLOW:
	case ESP_V6_FLOW:
		return exact ? -1 : TERN_RSS_IPV6;
	default:
		return -1;
	}
}

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

void tern_steer_init(struct tern_net *net)
{
	struct tern_rss *rss = &net->steer.rss;

	INIT_LIST_HEAD(&net->steer.rules);
	net->steer.detached = TERN_NO_CHANNEL;
	net->steer.waiting_channel = TERN_NO_CHANNEL;
	netdev_rss_key_fill(rss->key, sizeof(rss->key));
	rss->fields[TERN_RSS_IPV4] = TERN_RSS_L3;
	rss->fields[TERN_RSS_IPV6] = TERN_RSS_L3;
	rss->fields[TERN_RSS_TCP4] = TERN_RSS_L4;
	rss->fields[TERN_RSS_TCP6] = TERN_RSS_L4;
	rss->fields[TERN_RSS_UDP4] = TERN_RSS_L4;
	rss->fields[TERN_RSS_UDP6] = TERN_RSS_L4;
}

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

	/* The frames of a rule that waits are not for the sockets of other channels. */
	return channel == steer->detached ||
	       (steer->num_waiting && channel != steer->waiting_channel &&
		net->xsk_pools[channel]);
}

static void tern_rss_cmd(struct tern_net *net, const struct tern_rss *rss, u32 id,
			 struct tern_cmd_rss *cmd)
{
	const struct tern_queues *queues = rtnl_dereference(net->queues);
	unsigned int substitute = tern_steer_substitute(net, net->steer.detached);
	unsigned int i, index;

	cmd->id = cpu_to_le32(id);
	cmd->port = TERN_ETH_PORT;
	cmd->log_entries = ilog2(TERN_RSS_ENTRIES);
	cmd->kind = TERN_DEST_ETH_QUEUE;
	cmd->func = rss->symmetric ? TERN_RSS_FUNC_SYMMETRIC : TERN_RSS_FUNC_TOEPLITZ;
	memcpy(cmd->fields, rss->fields, sizeof(cmd->fields));
	memcpy(cmd->key, rss->key, sizeof(cmd->key));
	for (i = 0; i < TERN_RSS_ENTRIES; i++) {
		/* After a reset there may be fewer channels. */
		index = rss->indir[i] % queues->config.channels;
		if (tern_rss_avoids(net, index) && substitute != TERN_NO_CHANNEL)
			index = substitute;
		cmd->entries[i] = cpu_to_le32(queues->channel[index].rx.id);
	}
}

static int tern_rss_create(struct tern_net *net, struct tern_rss *rss)
{
	struct tern_cmd_rss cmd;
	int err;

	tern_rss_cmd(net, rss, 0, &cmd);
	err = tern_cmd_create(net->tdev, TERN_CMD_CREATE_RSS, &cmd, sizeof(cmd), &rss->id);
	rss->created = !err;
	return err;
}

static void tern_rss_destroy(struct tern_net *net, struct tern_rss *rss)
{
	if (!rss->created)
		return;
	rss->created = false;
	tern_cmd_destroy(net->tdev, TERN_CMD_DESTROY_RSS, rss->id);
}

static int tern_set_rx_default(struct tern_net *net, u8 dest, u32 id)
{
	struct tern_cmd_set_rx_default cmd = {
		.id = cpu_to_le32(id),
		.dest = dest,
		.port = TERN_ETH_PORT,
	};

	return tern_cmd_exec(&net->tdev->core, TERN_CMD_SET_RX_DEFAULT, &cmd, sizeof(cmd),
			     NULL, 0);
}

/* Replaces the contents of a group in the device, if it exists there. */
static int tern_rss_modify(struct tern_net *net, const struct tern_rss *rss,
			   const struct tern_rss *next)
{
	struct tern_cmd_rss cmd;

	if (!rss->created)
		return 0;
	tern_rss_cmd(net, next, rss->id, &cmd);
	return tern_cmd_exec(&net->tdev->core, TERN_CMD_MODIFY_RSS, &cmd, sizeof(cmd),
			     NULL, 0);
}

/* The same for all groups, after other channels are to be avoided. */
static int tern_rss_modify_all(struct tern_net *net)
{
	struct ethtool_rxfh_context *ctx;
	unsigned long context;
	struct tern_rss *rss;
	int err;

	err = tern_rss_modify(net, &net->steer.rss, &net->steer.rss);
	xa_for_each(&net->netdev->ethtool->rss_ctx, context, ctx) {
		if (err)
			return err;
		rss = ethtool_rxfh_context_priv(ctx);
		err = tern_rss_modify(net, rss, rss);
	}
	return err;
}

/* Schedules the next attempt to create the rules that wait, if there are any. */
static void tern_steer_schedule(struct tern_net *net, unsigned long delay)
{
	if (!net->steer.num_waiting)
		return;
	net->steer.retry_delay = min(delay, TERN_RULES_INTERVAL_MAX);
	/* It may be scheduled already, but for later. */
	cancel_delayed_work(&net->rules_work);
	schedule_delayed_work(&net->rules_work, net->steer.retry_delay);
}

/* Tries to create the rules that wait. Returns an error as tern_steer_detach(). */
static int tern_steer_sync(struct tern_net *net)
{
	unsigned int channel = net->steer.waiting_channel;
	unsigned int num = net->steer.num_waiting;
	int err;

	err = tern_ntuple_sync(net);
	if (err)
		return err;
	if (num == net->steer.num_waiting && channel == net->steer.waiting_channel) {
		tern_steer_schedule(net, 2 * net->steer.retry_delay);
		return 0;
	}
	tern_steer_schedule(net, TERN_RULES_INTERVAL);
	return tern_rss_modify_all(net);
}

/* Creates groups and rules in the device, whose queues exist. RTNL held. */
int tern_steer_start(struct tern_net *net)
{
	const struct tern_queues *queues = rtnl_dereference(net->queues);
	struct ethtool_rxfh_context *ctx;
	unsigned long context;
	int err;

	if (!tern_net_has_cap(net, TERN_CAP_STEERING))
		return 0;
	tern_rss_spread(net, queues->config.channels);
	err = tern_rss_create(net, &net->steer.rss);
	xa_for_each(&net->netdev->ethtool->rss_ctx, context, ctx) {
		if (err)
			break;
		err = tern_rss_create(net, ethtool_rxfh_context_priv(ctx));
	}
	if (!err)
		err = tern_steer_sync(net);
	/* Last, so that the group takes no frames of rules. */
	if (!err)
		err = tern_set_rx_default(net, TERN_DEST_RSS, net->steer.rss.id);
	if (err)
		tern_steer_stop(net);
	return err;
}

/* Undoes tern_steer_start(). The queues must still exist. */
void tern_steer_stop(struct tern_net *net)
{
	struct ethtool_rxfh_context *ctx;
	unsigned long context;

	if (!tern_net_has_cap(net, TERN_CAP_STEERING))
		return;
	net->steer.detached = TERN_NO_CHANNEL;
	tern_ntuple_stop(net);
	/* On failure the device refuses to destroy the group, and is stopped. */
	tern_set_rx_default(net, TERN_DEST_NONE, 0);
	tern_rss_destroy(net, &net->steer.rss);
	xa_for_each(&net->netdev->ethtool->rss_ctx, context, ctx)
		tern_rss_destroy(net, ethtool_rxfh_context_priv(ctx));
}

/**
 * tern_steer_detach() - keep frames from a receive queue
 * @net: the network device
 * @channel: index of the channel, whose queue can be destroyed then; it has a substitute
 *
 * A substitute takes its place in RSS groups; its ntuple rules are gone until
 * tern_steer_attach(). RTNL held.
 *
 * Return: 0, or an error, after which all steering must be stopped.
 */
int tern_steer_detach(struct tern_net *net, unsigned int channel)
{
	net->steer.detached = channel;
	tern_ntuple_detach(net, channel);
	return tern_rss_modify_all(net);
}

/* Undoes tern_steer_detach(), with the same errors. Rules that are refused wait. */
int tern_steer_attach(struct tern_net *net)
{
	int err;

	net->steer.detached = TERN_NO_CHANNEL;
	err = tern_ntuple_sync(net) ?: tern_rss_modify_all(net);
	if (!err)
		tern_steer_schedule(net, TERN_RULES_INTERVAL);
	return err;
}

/* Called after the user has changed the rules: those that wait may fit now. */
void tern_steer_rules_changed(struct tern_net *net)
{
	if (net->steer.num_waiting && tern_steer_sync(net))
		tern_net_fault(net);
}

void tern_steer_rules_work(struct work_struct *work)
{
	struct tern_net *net = container_of(to_delayed_work(work),
					    struct tern_net, rules_work);

	rtnl_lock();
	if (net->queues_up && !tern_dev_dead(net->tdev))
		tern_steer_rules_changed(net);
	rtnl_unlock();
}

/* Replaces the contents of a group. */
static int tern_rss_update(struct tern_net *net, struct tern_rss *rss,
			   const struct tern_rss *next)
{
	int err = tern_rss_modify(net, rss, next);

	if (!err)
		*rss = *next;
	return err;
}

/* Applies the changes in @param to @rss. */
static int tern_rss_apply(struct tern_rss *rss, const struct ethtool_rxfh_param *param,
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
	rss = tern_rss_find(net, param->rss_context);
	if (!rss)
		return -ENOENT;
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

int tern_get_rxfh_fields(struct net_device *netdev, struct ethtool_rxfh_fields *fields)
{
	int index = tern_rss_index(fields->flow_type, false);
	struct tern_net *net = netdev_priv(netdev);
	const struct tern_rss *rss;

	if (!tern_net_has_cap(net, TERN_CAP_STEERING) || index < 0)
		return -EOPNOTSUPP;
	rss = tern_rss_find(net, fields->rss_context);
	if (!rss)
		return -ENOENT;
	fields->data = tern_rss_to_rxh(rss->fields[index]);
	return 0;
}

int tern_set_rxfh_fields(struct net_device *netdev,
			 const struct ethtool_rxfh_fields *fields,
			 struct netlink_ext_ack *extack)
{
	int index = tern_rss_index(fields->flow_type, true);
	struct tern_net *net = netdev_priv(netdev);
	struct tern_rss *rss, next;

	if (!tern_net_has_cap(net, TERN_CAP_STEERING))
		return -EOPNOTSUPP;
	rss = tern_rss_find(net, fields->rss_context);
	if (!rss)
		return -ENOENT;
	if (index < 0) {
		NL_SET_ERR_MSG_MOD(extack, "the flow type has the fields of its IP version");
		return -EOPNOTSUPP;
	}
	next = *rss;
	if (tern_rss_from_rxh(fields->data, &next.fields[index]) ||
	    (index <= TERN_RSS_IPV6 && next.fields[index] & ~TERN_RSS_L3)) {
		NL_SET_ERR_MSG_MOD(extack, "the device does not hash these fields");
		return -EOPNOTSUPP;
	}
	return tern_rss_update(net, rss, &next);
}

int tern_create_rxfh_context(struct net_device *netdev, struct ethtool_rxfh_context *ctx,
			     const struct ethtool_rxfh_param *param,
			     struct netlink_ext_ack *extack)
{
	struct tern_rss *rss = ethtool_rxfh_context_priv(ctx);
	u32 *indir = ethtool_rxfh_context_indir(ctx);
	struct tern_net *net = netdev_priv(netdev);
	unsigned int i;
	int err;

	if (!tern_net_has_cap(net, TERN_CAP_STEERING))
		return -EOPNOTSUPP;
	if (param->rss_context >= le32_to_cpu(net->tdev->caps.max_rss)) {
		NL_SET_ERR_MSG_MOD(extack, "the device has no more RSS groups");
		return -ENOSPC;
	}
	/* Unspecified settings are copied from the default context. */
	*rss = net->steer.rss;
	rss->created = false;
	err = tern_rss_apply(rss, param, extack);
	if (!err && net->queues_up)
		err = tern_rss_create(net, rss);
	if (err)
		return err;

	ctx->hfunc = ETH_RSS_HASH_TOP;
	ctx->input_xfrm = rss->symmetric ? RXH_XFRM_SYM_XOR : 0;
	memcpy(ethtool_rxfh_context_key(ctx), rss->key, sizeof(rss->key));
	for (i = 0; i < TERN_RSS_ENTRIES; i++)
		indir[i] = rss->indir[i];
	return 0;
}

int tern_modify_rxfh_context(struct net_device *netdev, struct ethtool_rxfh_context *ctx,
			     const struct ethtool_rxfh_param *param,
			     struct netlink_ext_ack *extack)
{
	struct tern_rss *rss = ethtool_rxfh_context_priv(ctx);
	struct tern_net *net = netdev_priv(netdev);
	struct tern_rss next = *rss;
	int err;

	err = tern_rss_apply(&next, param, extack);
	if (err)
		return err;
	return tern_rss_update(net, rss, &next);
}

int tern_remove_rxfh_context(struct net_device *netdev, struct ethtool_rxfh_context *ctx,
			     u32 context, struct netlink_ext_ack *extack)
{
	struct tern_net *net = netdev_priv(netdev);

	if (tern_ntuple_uses_rss(net, context)) {
		NL_SET_ERR_MSG_MOD(extack, "an ntuple rule uses the context");
		return -EBUSY;
	}
	tern_rss_destroy(net, ethtool_rxfh_context_priv(ctx));
	return 0;
}
