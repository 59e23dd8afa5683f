// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* ntuple rules: flows of the device that ethtool creates. */

#include <linux/ethtool.h>
#include <linux/etherdevice.h>
#include <linux/in.h>
#include <linux/rtnetlink.h>
#include <linux/slab.h>

#include "tern_net.h"
#include "tern_flow.h"

/* A rule. Its location is that of @spec. */
struct tern_rule {
	struct list_head entry;
	struct ethtool_rx_flow_spec spec;
	u32 context;		/* RSS context, with FLOW_RSS */
	u32 id;			/* in the device, while @created */
	bool created;
};

static void tern_ntuple_ether(const struct ethtool_rx_flow_spec *spec,
			      struct tern_cmd_create_flow *cmd)
{
	const struct ethhdr *value = &spec->h_u.ether_spec;
	const struct ethhdr *mask = &spec->m_u.ether_spec;

	ether_addr_copy(cmd->value.dmac, value->h_dest);
	ether_addr_copy(cmd->mask.dmac, mask->h_dest);
	ether_addr_copy(cmd->value.smac, value->h_source);
	ether_addr_copy(cmd->mask.smac, mask->h_source);
	cmd->value.ether_type = value->h_proto;
	cmd->mask.ether_type = mask->h_proto;
}

static void tern_ntuple_ip4(struct tern_flow_fields *fields, __be32 src, __be32 dst, u8 tos)
{
	memcpy(fields->src_ip, &src, sizeof(src));
	memcpy(fields->dst_ip, &dst, sizeof(dst));
	fields->tos = tos;
}

static void tern_ntuple_ip6(struct tern_flow_fields *fields, const __be32 *src,
			    const __be32 *dst, u8 tclass)
{
	memcpy(fields->src_ip, src, sizeof(fields->src_ip));
	memcpy(fields->dst_ip, dst, sizeof(fields->dst_ip));
	fields->tos = tclass;
}

static void tern_ntuple_l4_v4(struct tern_flow_fields *fields,
			      const struct ethtool_tcpip4_spec *spec)
{
	tern_ntuple_ip4(fields, spec->ip4src, spec->ip4dst, spec->tos);
	fields->src_port = spec->psrc;
	fields->dst_port = spec->pdst;
}

static void tern_ntuple_l4_v6(struct tern_flow_fields *fields,
			      const struct ethtool_tcpip6_spec *spec)
{
	tern_ntuple_ip6(fields, spec->ip6src, spec->ip6dst, spec->tclass);
	fields->src_port = spec->psrc;
	fields->dst_port = spec->pdst;
}

static int tern_ntuple_user4(const struct ethtool_rx_flow_spec *spec,
			     struct tern_cmd_create_flow *cmd)
{
	const struct ethtool_usrip4_spec *value = &spec->h_u.usr_ip4_spec;
	const struct ethtool_usrip4_spec *mask = &spec->m_u.usr_ip4_spec;

	if (mask->l4_4_bytes || mask->ip_ver || value->ip_ver != ETH_RX_NFC_IP4)
		return -EOPNOTSUPP;
	tern_ntuple_ip4(&cmd->value, value->ip4src, value->ip4dst, value->tos);
	tern_ntuple_ip4(&cmd->mask, mask->ip4src, mask->ip4dst, mask->tos);
	cmd->value.protocol = value->proto;
	cmd->mask.protocol = mask->proto;
	return 0;
}

static int tern_ntuple_user6(const struct ethtool_rx_flow_spec *spec,
			     struct tern_cmd_create_flow *cmd)
{
	const struct ethtool_usrip6_spec *value = &spec->h_u.usr_ip6_spec;
	const struct ethtool_usrip6_spec *mask = &spec->m_u.usr_ip6_spec;

	if (mask->l4_4_bytes)
		return -EOPNOTSUPP;
	tern_ntuple_ip6(&cmd->value, value->ip6src, value->ip6dst, value->tclass);
	tern_ntuple_ip6(&cmd->mask, mask->ip6src, mask->ip6dst, mask->tclass);
	cmd->value.protocol = value->l4_proto;
	cmd->mask.protocol = mask->l4_proto;
	return 0;
}

static int tern_ntuple_ext(const struct ethtool_rx_flow_spec *spec,
			   struct tern_cmd_create_flow *cmd)
{
	const struct ethtool_flow_ext *value = &spec->h_ext, *mask = &spec->m_ext;

	if (spec->flow_type & FLOW_MAC_EXT) {
		ether_addr_copy(cmd->value.dmac, value->h_dest);
		ether_addr_copy(cmd->mask.dmac, mask->h_dest);
	}
	if (!(spec->flow_type & FLOW_EXT))
		return 0;
	if (mask->data[0] || mask->data[1])
		return -EOPNOTSUPP;
	/* The device matches tags of this type only. */
	if (mask->vlan_etype && value->vlan_etype != htons(ETH_P_8021Q))
		return -EOPNOTSUPP;
	if (mask->vlan_etype || mask->vlan_tci)
		cmd->layers |= cpu_to_le16(TERN_LAYER_VLAN);
	cmd->value.vlan = value->vlan_tci;
	cmd->mask.vlan = mask->vlan_tci;
	return 0;
}

/* Clears the bits of the values that are not compared. */
static void tern_ntuple_mask(struct tern_cmd_create_flow *cmd)
{
	const u8 *mask = (const u8 *)&cmd->mask;
	u8 *value = (u8 *)&cmd->value;
	unsigned int i;

	for (i = 0; i < sizeof(cmd->value); i++)
		value[i] &= mask[i];
}

/* Fills in the layers, values and masks of a rule. */
int tern_ntuple_convert(const struct ethtool_rx_flow_spec *spec,
			struct tern_cmd_create_flow *cmd)
{
	u16 layers = TERN_LAYER_ETH;
	int err = 0;

	switch (spec->flow_type & ~(FLOW_EXT | FLOW_MAC_EXT | FLOW_RSS)) {
	case ETHER_FLOW:
		tern_ntuple_ether(spec, cmd);
		break;
	case IPV4_USER_FLOW:
		layers |= TERN_LAYER_IPV4;
		err = tern_ntuple_user4(spec, cmd);
		break;
	case IPV6_USER_FLOW:
		layers |= TERN_LAYER_IPV6;
		err = tern_ntuple_user6(spec, cmd);
		break;
	case TCP_V4_FLOW:
	case UDP_V4_FLOW:
		layers |= TERN_LAYER_IPV4;
		tern_ntuple_l4_v4(&cmd->value, &spec->h_u.tcp_ip4_spec);
		tern_ntuple_l4_v4(&cmd->mask, &spec->m_u.tcp_ip4_spec);
		break;
	case TCP_V6_FLOW:
	case UDP_V6_FLOW:
		layers |= TERN_LAYER_IPV6;
		tern_ntuple_l4_v6(&cmd->value, &spec->h_u.tcp_ip6_spec);
		tern_ntuple_l4_v6(&cmd->mask, &spec->m_u.tcp_ip6_spec);
		break;
	default:
		return -EOPNOTSUPP;
	}
	if (err)
		return err;

	switch (spec->flow_type & ~(FLOW_EXT | FLOW_MAC_EXT | FLOW_RSS)) {
	case TCP_V4_FLOW:
	case TCP_V6_FLOW:
		layers |= TERN_LAYER_TCP;
		break;
	case UDP_V4_FLOW:
	case UDP_V6_FLOW:
		layers |= TERN_LAYER_UDP;
		break;
	}
	cmd->layers = cpu_to_le16(layers);
	err = tern_ntuple_ext(spec, cmd);
	tern_ntuple_mask(cmd);
	return err;
}

/* The channel to which a rule sends frames, or TERN_NO_CHANNEL. */
static unsigned int tern_rule_channel(struct tern_net *net, const struct tern_rule *rule)
{
	const struct tern_queues *queues = rtnl_dereference(net->queues);
	const struct ethtool_rx_flow_spec *spec = &rule->spec;

	if (spec->ring_cookie == RX_CLS_FLOW_DISC || spec->flow_type & FLOW_RSS)
		return TERN_NO_CHANNEL;
	/* After a reset there may be fewer channels. */
	return (u32)spec->ring_cookie % queues->config.channels;
}

static bool tern_channel_has_socket(const struct tern_net *net, unsigned int channel)
{
	return channel != TERN_NO_CHANNEL && net->xsk_pools[channel];
}

/* Creates the rule in the device, whose queues and groups exist. */
static int tern_rule_create(struct tern_net *net, struct tern_rule *rule)
{
	const struct tern_queues *queues = rtnl_dereference(net->queues);
	const struct ethtool_rx_flow_spec *spec = &rule->spec;
	struct tern_cmd_create_flow cmd = {
		.priority = cpu_to_le32(TERN_RULE_PRIORITY + spec->location),
		.counter = cpu_to_le32(TERN_NO_COUNTER),
		.kind = TERN_FLOW_NORMAL,
		.port = TERN_ETH_PORT,
	};
	const struct tern_rss *rss;
	int err;

	err = tern_ntuple_convert(spec, &cmd);
	if (err)
		return err;
	if (spec->ring_cookie == RX_CLS_FLOW_DISC) {
		cmd.dest = TERN_DEST_NONE;
	} else if (spec->flow_type & FLOW_RSS) {
		cmd.dest = TERN_DEST_RSS;
		rss = tern_rss_find(net, rule->context);
		if (!rss)
			return -ENOENT;
		cmd.dest_id = cpu_to_le32(rss->id);
	} else {
		cmd.dest = TERN_DEST_ETH_QUEUE;
		cmd.dest_id = cpu_to_le32(queues->channel[tern_rule_channel(net, rule)].rx.id);
	}
	err = tern_cmd_create(net->tdev, TERN_CMD_CREATE_FLOW, &cmd, sizeof(cmd), &rule->id);
	rule->created = !err;
	return err;
}

static void tern_rule_destroy(struct tern_net *net, struct tern_rule *rule)
{
	if (!rule->created)
		return;
	rule->created = false;
	tern_cmd_destroy(net->tdev, TERN_CMD_DESTROY_FLOW, rule->id);
}

static void tern_rule_remove(struct tern_net *net, struct tern_rule *rule)
{
	tern_rule_destroy(net, rule);
	list_del(&rule->entry);
	net->steer.num_rules--;
	kfree(rule);
}

/**
 * tern_ntuple_sync() - create the rules that the device lacks
 * @net: the network device, with queues and groups
 *
 * A rule that the device refuses waits: flows of RDMA may have taken its place. Later
 * rules that lead to an AF_XDP socket of another channel wait, too: they might take
 * its frames, which are not for that process. RTNL held.
 *
 * Return: 0, or -EIO if the device does not answer.
 */
int tern_ntuple_sync(struct tern_net *net)
{
	unsigned int channel, common = TERN_NO_CHANNEL, num = 0;
	struct tern_rule *rule;
	int err = 0;

	list_for_each_entry(rule, &net->steer.rules, entry) {
		channel = tern_rule_channel(net, rule);
		if (num && channel != common && tern_channel_has_socket(net, channel))
			tern_rule_destroy(net, rule);
		else if (!rule->created)
			err = tern_rule_create(net, rule);
		if (err == -ETIMEDOUT || tern_dev_dead(net->tdev))
			return -EIO;
		if (rule->created)
			continue;
		common = !num || channel == common ? channel : TERN_NO_CHANNEL;
		num++;
	}
	net->steer.num_waiting = num;
	net->steer.waiting_channel = common;
	return 0;
}

void tern_ntuple_stop(struct tern_net *net)
{
	struct tern_rule *rule;

	list_for_each_entry(rule, &net->steer.rules, entry)
		tern_rule_destroy(net, rule);
	net->steer.num_waiting = 0;
	net->steer.waiting_channel = TERN_NO_CHANNEL;
}

/* Destroys the rules of a channel, whose receive queue is about to be destroyed. */
void tern_ntuple_detach(struct tern_net *net, unsigned int channel)
{
	struct tern_rule *rule;

	list_for_each_entry(rule, &net->steer.rules, entry)
		if (tern_rule_channel(net, rule) == channel)
			tern_rule_destroy(net, rule);
}

/* The netdev is gone, and so are the flows in the device. */
void tern_ntuple_free(struct tern_net *net)
{
	struct tern_rule *rule, *next;

	list_for_each_entry_safe(rule, next, &net->steer.rules, entry)
		kfree(rule);
}

bool tern_ntuple_uses_rss(const struct tern_net *net, u32 context)
{
	const struct tern_rule *rule;

	list_for_each_entry(rule, &net->steer.rules, entry)
		if (rule->spec.flow_type & FLOW_RSS && rule->context == context)
			return true;
	return false;
}

static u32 tern_ntuple_size(const struct tern_net *net)
{
	return min(le32_to_cpu(net->tdev->caps.max_flows), TERN_MAX_RULES);
}

static struct tern_rule *tern_ntuple_find(struct tern_net *net, u32 location)
{
	struct tern_rule *rule;

	list_for_each_entry(rule, &net->steer.rules, entry)
		if (rule->spec.location == location)
			return rule;
	return NULL;
}

static int tern_ntuple_get_rule(struct tern_net *net, struct ethtool_rxnfc *info)
{
	const struct tern_rule *rule = tern_ntuple_find(net, info->fs.location);

	if (!rule)
		return -ENOENT;
	info->fs = rule->spec;
	info->rss_context = rule->context;
	return 0;
}

static int tern_ntuple_get_all(struct tern_net *net, struct ethtool_rxnfc *info,
			       u32 *locations)
{
	const struct tern_rule *rule;
	u32 n = 0;

	list_for_each_entry(rule, &net->steer.rules, entry) {
		if (n == info->rule_cnt)
			return -EMSGSIZE;
		locations[n++] = rule->spec.location;
	}
	info->rule_cnt = n;
	info->data = tern_ntuple_size(net);
	return 0;
}

int tern_ntuple_get(struct tern_net *net, struct ethtool_rxnfc *info, u32 *locations)
{
	if (!tern_net_has_cap(net, TERN_CAP_STEERING))
		return -EOPNOTSUPP;
	switch (info->cmd) {
	case ETHTOOL_GRXCLSRLCNT:
		info->rule_cnt = net->steer.num_rules;
		info->data = tern_ntuple_size(net) | RX_CLS_LOC_SPECIAL;
		return 0;
	case ETHTOOL_GRXCLSRULE:
		return tern_ntuple_get_rule(net, info);
	case ETHTOOL_GRXCLSRLALL:
		return tern_ntuple_get_all(net, info, locations);
	default:
		return -EOPNOTSUPP;
	}
}

/* Chooses a free location for RX_CLS_LOC_*, else checks the given one. */
static int tern_ntuple_locate(struct tern_net *net, struct ethtool_rx_flow_spec *spec)
{
	u32 size = tern_ntuple_size(net), location = 0;
	const struct tern_rule *rule;

	if (!(spec->location & RX_CLS_LOC_SPECIAL))
		return spec->location < size ? 0 : -EINVAL;
	switch (spec->location) {
	case RX_CLS_LOC_ANY:
	case RX_CLS_LOC_FIRST:
		list_for_each_entry(rule, &net->steer.rules, entry) {
			if (rule->spec.location != location)
				break;
			location++;
		}
		break;
	case RX_CLS_LOC_LAST:
		location = size - 1;
		list_for_each_entry_reverse(rule, &net->steer.rules, entry) {
			if (rule->spec.location != location)
				break;
			location--;
		}
		break;
	default:
		return -EINVAL;
	}
	/* Also catches underflow. */
	if (location >= size)
		return -ENOSPC;
	spec->location = location;
	return 0;
}

static int tern_ntuple_check(struct tern_net *net, const struct ethtool_rxnfc *info)
{
	const struct ethtool_rx_flow_spec *spec = &info->fs;
	struct tern_cmd_create_flow cmd = {};

	if (spec->flow_type & FLOW_RSS && !tern_rss_find(net, info->rss_context))
		return -ENOENT;
	/* The group selects the queue: nothing is added to its choice. */
	if (spec->flow_type & FLOW_RSS && spec->ring_cookie &&
	    spec->ring_cookie != RX_CLS_FLOW_DISC)
		return -EOPNOTSUPP;
	if (!(spec->flow_type & FLOW_RSS) && spec->ring_cookie != RX_CLS_FLOW_DISC &&
	    spec->ring_cookie >= net->config.channels)
		return -EINVAL;
	return tern_ntuple_convert(spec, &cmd);
}

static void tern_ntuple_insert(struct tern_net *net, struct tern_rule *rule)
{
	struct tern_rule *other;

	list_for_each_entry(other, &net->steer.rules, entry)
		if (other->spec.location > rule->spec.location)
			break;
	/* If there is none, this is the head of the list. */
	list_add_tail(&rule->entry, &other->entry);
	net->steer.num_rules++;
}

static int tern_ntuple_add(struct tern_net *net, struct ethtool_rxnfc *info)
{
	struct tern_rule *rule, *old;
	int err;

	err = tern_ntuple_check(net, info);
	if (!err)
		err = tern_ntuple_locate(net, &info->fs);
	if (err)
		return err;
	rule = kzalloc_obj(*rule);
	if (!rule)
		return -ENOMEM;
	rule->spec = info->fs;
	rule->context = info->fs.flow_type & FLOW_RSS ? info->rss_context : 0;
	old = tern_ntuple_find(net, rule->spec.location);
	if (net->queues_up)
		err = tern_rule_create(net, rule);
	if (err) {
		kfree(rule);
		return err;
	}
	if (old)
		tern_rule_remove(net, old);
	tern_ntuple_insert(net, rule);
	return 0;
}

int tern_ntuple_set(struct tern_net *net, struct ethtool_rxnfc *info)
{
	struct tern_rule *rule;

	if (!tern_net_has_cap(net, TERN_CAP_STEERING))
		return -EOPNOTSUPP;
	switch (info->cmd) {
	case ETHTOOL_SRXCLSRLINS:
		return tern_ntuple_add(net, info);
	case ETHTOOL_SRXCLSRLDEL:
		rule = tern_ntuple_find(net, info->fs.location);
		if (!rule)
			return -ENOENT;
		tern_rule_remove(net, rule);
		return 0;
	default:
		return -EOPNOTSUPP;
	}
}
