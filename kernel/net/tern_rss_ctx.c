// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* RSS contexts, and the fields that RSS hashes. */

#include <linux/ethtool.h>
#include <linux/xarray.h>

#include "tern_net.h"

/* Converts to the fields of ethtool. */
u64 tern_rss_to_rxh(u8 fields)
{
	return (fields & TERN_RSS_FIELD_SRC_IP ? RXH_IP_SRC : 0) |
	       (fields & TERN_RSS_FIELD_DST_IP ? RXH_IP_DST : 0) |
	       (fields & TERN_RSS_FIELD_SRC_PORT ? RXH_L4_B_0_1 : 0) |
	       (fields & TERN_RSS_FIELD_DST_PORT ? RXH_L4_B_2_3 : 0);
}

/* The reverse. Returns the fields that the device does not hash. */
u32 tern_rss_from_rxh(u64 data, u8 *fields)
{
	*fields = (data & RXH_IP_SRC ? TERN_RSS_FIELD_SRC_IP : 0) |
		  (data & RXH_IP_DST ? TERN_RSS_FIELD_DST_IP : 0) |
		  (data & RXH_L4_B_0_1 ? TERN_RSS_FIELD_SRC_PORT : 0) |
		  (data & RXH_L4_B_2_3 ? TERN_RSS_FIELD_DST_PORT : 0);
	return data & ~(u64)(RXH_IP_SRC | RXH_IP_DST | RXH_L4_B_0_1 | RXH_L4_B_2_3);
}

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

/* Creates the groups of all contexts in the device, whose queues exist. */
int tern_rss_ctx_start(struct tern_net *net)
{
	struct ethtool_rxfh_context *ctx;
	unsigned long context;
	int err;

	xa_for_each(&net->netdev->ethtool->rss_ctx, context, ctx) {
		err = tern_rss_create(net, ethtool_rxfh_context_priv(ctx));
		if (err)
			return err;
	}
	return 0;
}

void tern_rss_ctx_stop(struct tern_net *net)
{
	struct ethtool_rxfh_context *ctx;
	unsigned long context;

	xa_for_each(&net->netdev->ethtool->rss_ctx, context, ctx)
		tern_rss_destroy(net, ethtool_rxfh_context_priv(ctx));
}

/* Writes the groups of all contexts again, after other channels are to be avoided. */
int tern_rss_ctx_modify(struct tern_net *net)
{
	struct ethtool_rxfh_context *ctx;
	unsigned long context;
	struct tern_rss *rss;
	int err;

	xa_for_each(&net->netdev->ethtool->rss_ctx, context, ctx) {
		rss = ethtool_rxfh_context_priv(ctx);
		err = tern_rss_modify(net, rss, rss);
		if (err)
			return err;
	}
	return 0;
}
