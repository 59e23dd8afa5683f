// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Flows: rules that steer received Ethernet frames to raw packet QPs and datagrams
 * to UD QPs, or that drop or count frames which raw packet QPs send.
 */

#include <linux/slab.h>
#include <linux/string.h>

#include <rdma/uverbs_ioctl.h>

#include "tern_ib.h"
#include "tern_ib_limits.h"
#include "tern_ib_raw.h"

/*
 * Priorities in the device's table. Default flows take the frames that no other
 * flow of verbs takes. All of them precede the rules of the network driver,
 * which begin at 0x20000.
 */
#define TERN_FLOW_PRIO_NORMAL		0x8000
#define TERN_FLOW_PRIO_MC_DEFAULT	(TERN_FLOW_PRIO_NORMAL + U16_MAX + 1)
#define TERN_FLOW_PRIO_ALL_DEFAULT	(TERN_FLOW_PRIO_MC_DEFAULT + 1)

/* Headers that follow IP, of which a packet has one. */
#define TERN_FLOW_L4	(TERN_LAYER_TCP | TERN_LAYER_UDP | TERN_LAYER_ESP | TERN_LAYER_GRE)

/* Flags of IPv4 in a spec, which number the bits of the header from its first. */
#define TERN_FLOW_IPV4_FLAGS	(IB_IPV4_DONT_FRAG | IB_IPV4_MORE_FRAG)
static_assert(TERN_FLOW_IPV4_FLAGS == (TERN_FRAG_DONT | TERN_FRAG_MORE));

/* Width of flow tags. */
#define TERN_FLOW_TAG_MASK		GENMASK(23, 0)

struct tern_flow {
	struct ib_flow ibflow;
	u32 id;
};

/* One side of a tunnel: the fields and layers of its headers. */
struct tern_flow_level {
	struct tern_flow_fields *value;
	struct tern_flow_fields *mask;
	u16 layers;
};

/* The flow so far. */
struct tern_flow_state {
	struct tern_cmd_create_flow *cmd;
	struct tern_flow_level outer;
	struct tern_flow_level inner;
	u32 prev;	/* type of the spec before, 0 at first */
	u32 actions;
};

/* Adds a layer, unless it or an alternative to it exists. */
static int tern_flow_add_layer(const struct tern_ib_dev *dev,
			       struct tern_flow_level *level, u16 layer,
			       u16 alternatives)
{
	if (level->layers & (layer | alternatives))
		return tern_refuse(dev, -EINVAL, "layer %#x beside layers %#x",
				   layer, level->layers);

	level->layers |= layer;
	return 0;
}

static void tern_flow_eth(struct tern_flow_fields *to,
			  const struct ib_flow_eth_filter *from)
{
	memcpy(to->dmac, from->dst_mac, sizeof(to->dmac));
	memcpy(to->smac, from->src_mac, sizeof(to->smac));
	to->ether_type = from->ether_type;
	to->vlan = from->vlan_tag;
}

static void tern_flow_ipv4(struct tern_flow_fields *to,
			   const struct ib_flow_ipv4_filter *from)
{
	memcpy(to->src_ip, &from->src_ip, sizeof(from->src_ip));
	memcpy(to->dst_ip, &from->dst_ip, sizeof(from->dst_ip));
	to->protocol = from->proto;
	to->tos = from->tos;
	to->ttl = from->ttl;
	to->frag = from->flags & TERN_FLOW_IPV4_FLAGS;
}

static void tern_flow_ipv6(struct tern_flow_fields *to,
			   const struct ib_flow_ipv6_filter *from)
{
	memcpy(to->src_ip, from->src_ip, sizeof(to->src_ip));
	memcpy(to->dst_ip, from->dst_ip, sizeof(to->dst_ip));
	to->flow_label = from->flow_label;
	to->protocol = from->next_hdr;
	to->tos = from->traffic_class;
	to->ttl = from->hop_limit;
}

static void tern_flow_ports(struct tern_flow_fields *to,
			    const struct ib_flow_tcp_udp_filter *from)
{
	to->src_port = from->src_port;
	to->dst_port = from->dst_port;
}

static void tern_flow_esp(struct tern_flow_fields *to,
			  const struct ib_flow_esp_filter *from)
{
	to->spi = from->spi;
	to->esp_seq = from->seq;
}

static void tern_flow_gre(struct tern_flow_tunnel *to,
			  const struct ib_flow_gre_filter *from)
{
	to->gre_flags = from->c_ks_res0_ver;
	to->gre_protocol = from->protocol;
	to->gre_key = from->key;
}

/* Converts the spec of a header; IB_FLOW_SPEC_INNER is not in the type. */
static int tern_flow_header(const struct tern_ib_dev *dev,
			    struct tern_flow_level *level,
			    const union ib_flow_spec *spec, u32 type)
{
	switch (type) {
	case IB_FLOW_SPEC_ETH:
		tern_flow_eth(level->value, &spec->eth.val);
		tern_flow_eth(level->mask, &spec->eth.mask);
		if (tern_flow_add_layer(dev, level, TERN_LAYER_ETH, 0))
			return -EINVAL;
		/* Without a mask, the tag need not exist. */
		if (spec->eth.mask.vlan_tag)
			level->layers |= TERN_LAYER_VLAN;
		return 0;
	case IB_FLOW_SPEC_IPV4:
		if (spec->ipv4.mask.flags & ~TERN_FLOW_IPV4_FLAGS)
			return tern_refuse(dev, -EOPNOTSUPP, "IPv4 flags %#x",
					   spec->ipv4.mask.flags);
		tern_flow_ipv4(level->value, &spec->ipv4.val);
		tern_flow_ipv4(level->mask, &spec->ipv4.mask);
		return tern_flow_add_layer(dev, level, TERN_LAYER_IPV4,
					   TERN_LAYER_IPV6);
	case IB_FLOW_SPEC_IPV6:
		tern_flow_ipv6(level->value, &spec->ipv6.val);
		tern_flow_ipv6(level->mask, &spec->ipv6.mask);
		return tern_flow_add_layer(dev, level, TERN_LAYER_IPV6,
					   TERN_LAYER_IPV4);
	case IB_FLOW_SPEC_TCP:
	case IB_FLOW_SPEC_UDP:
		tern_flow_ports(level->value, &spec->tcp_udp.val);
		tern_flow_ports(level->mask, &spec->tcp_udp.mask);
		return tern_flow_add_layer(dev, level,
					   type == IB_FLOW_SPEC_TCP ?
					   TERN_LAYER_TCP : TERN_LAYER_UDP,
					   TERN_FLOW_L4);
	case IB_FLOW_SPEC_ESP:
		tern_flow_esp(level->value, &spec->esp.val);
		tern_flow_esp(level->mask, &spec->esp.mask);
		return tern_flow_add_layer(dev, level, TERN_LAYER_ESP,
					   TERN_FLOW_L4);
	default:
		return tern_refuse(dev, -EOPNOTSUPP, "flow spec %#x", type);
	}
}

/*
 * Converts an MPLS spec, whose place in the list is that of the label: after IP,
 * UDP or GRE it is the first of a tunnel, otherwise it follows the Ethernet
 * header. With IB_FLOW_SPEC_INNER, too, it belongs to the tunnel that comes
 * right before it.
 */
static int tern_flow_mpls(const struct tern_ib_dev *dev,
			  struct tern_flow_state *flow,
			  const union ib_flow_spec *spec)
{
	const u16 below = TERN_LAYER_IPV4 | TERN_LAYER_IPV6 | TERN_LAYER_UDP |
			  TERN_LAYER_GRE;
	bool inner = spec->type & IB_FLOW_SPEC_INNER &&
		     flow->prev != IB_FLOW_SPEC_UDP &&
		     flow->prev != IB_FLOW_SPEC_GRE;
	struct tern_flow_level *level = inner ? &flow->inner : &flow->outer;
	u16 layer = !inner && level->layers & below ? TERN_LAYER_MPLS_TUNNEL :
						      TERN_LAYER_MPLS;

	level->value->mpls = spec->mpls.val.tag;
	level->mask->mpls = spec->mpls.mask.tag;
	return tern_flow_add_layer(dev, level, layer,
				   TERN_LAYER_MPLS | TERN_LAYER_MPLS_TUNNEL);
}

/* Converts a tunnel or an action; there may be one of each. */
static int tern_flow_tunnel_or_action(const struct tern_ib_dev *dev,
				      struct tern_flow_state *flow,
				      const union ib_flow_spec *spec)
{
	struct tern_cmd_create_flow *cmd = flow->cmd;
	struct tern_counters *counters;
	u32 action = 0;

	switch (spec->type) {
	case IB_FLOW_SPEC_VXLAN_TUNNEL:
		cmd->tunnel_value.vni =
			cpu_to_le32(be32_to_cpu(spec->tunnel.val.tunnel_id));
		cmd->tunnel_mask.vni =
			cpu_to_le32(be32_to_cpu(spec->tunnel.mask.tunnel_id));
		return tern_flow_add_layer(dev, &flow->outer, TERN_LAYER_VXLAN,
					   TERN_LAYER_GRE);
	case IB_FLOW_SPEC_GRE:
		tern_flow_gre(&cmd->tunnel_value, &spec->gre.val);
		tern_flow_gre(&cmd->tunnel_mask, &spec->gre.mask);
		return tern_flow_add_layer(dev, &flow->outer, TERN_LAYER_GRE,
					   TERN_FLOW_L4 | TERN_LAYER_VXLAN);
	case IB_FLOW_SPEC_MPLS:
	case IB_FLOW_SPEC_INNER | IB_FLOW_SPEC_MPLS:
		return tern_flow_mpls(dev, flow, spec);
	case IB_FLOW_SPEC_ACTION_TAG:
		if (tern_exceeds(dev, "flow tag", spec->flow_tag.tag_id,
				 TERN_FLOW_TAG_MASK))
			return -EINVAL;
		cmd->tag = cpu_to_le32(spec->flow_tag.tag_id);
		action = BIT(0);
		break;
	case IB_FLOW_SPEC_ACTION_DROP:
		cmd->dest = TERN_DEST_NONE;
		action = BIT(1);
		break;
	case IB_FLOW_SPEC_ACTION_COUNT:
		counters = to_tcounters(spec->flow_count.counters);
		cmd->counter = cpu_to_le32(counters->id);
		action = BIT(2);
		break;
	default:
		return tern_refuse(dev, -EOPNOTSUPP, "flow spec %#x", spec->type);
	}

	if (flow->actions & action)
		return tern_refuse(dev, -EINVAL, "two flow specs %#x", spec->type);

	flow->actions |= action;
	return 0;
}

/* Clears the bits of the value that the mask excludes. */
static void tern_flow_mask_value(void *value, const void *mask, size_t size)
{
	const u8 *bits = mask;
	u8 *bytes = value;
	size_t i;

	for (i = 0; i < size; i++)
		bytes[i] &= bits[i];
}

/* The level of a header. What follows MPLS over Ethernet is inside of it. */
static struct tern_flow_level *tern_flow_level(struct tern_flow_state *flow,
					       u32 type)
{
	if (type & IB_FLOW_SPEC_INNER ||
	    (type != IB_FLOW_SPEC_ETH && flow->outer.layers & TERN_LAYER_MPLS))
		return &flow->inner;

	return &flow->outer;
}

static int tern_flow_specs(const struct tern_ib_dev *dev,
			   const struct ib_flow_attr *attr,
			   struct tern_cmd_create_flow *cmd)
{
	struct tern_flow_state flow = {
		.cmd = cmd,
		.outer = { &cmd->value, &cmd->mask },
		.inner = { &cmd->inner_value, &cmd->inner_mask },
	};
	const union ib_flow_spec *spec = attr->flows;
	unsigned int i;
	u32 type;
	int err;

	for (i = 0; i < attr->num_of_specs; i++) {
		type = spec->type & ~IB_FLOW_SPEC_INNER;
		if (type < IB_FLOW_SPEC_VXLAN_TUNNEL)
			err = tern_flow_header(dev,
					       tern_flow_level(&flow, spec->type),
					       spec, type);
		else
			err = tern_flow_tunnel_or_action(dev, &flow, spec);
		if (err)
			return err;
		flow.prev = spec->type;
		spec = (const void *)spec + spec->size;
	}

	tern_flow_mask_value(&cmd->value, &cmd->mask, sizeof(cmd->mask));
	tern_flow_mask_value(&cmd->inner_value, &cmd->inner_mask,
			     sizeof(cmd->inner_mask));
	tern_flow_mask_value(&cmd->tunnel_value, &cmd->tunnel_mask,
			     sizeof(cmd->tunnel_mask));
	cmd->layers = cpu_to_le16(flow.outer.layers);
	cmd->inner_layers = cpu_to_le16(flow.inner.layers);
	return 0;
}

static int tern_flow_kind(const struct tern_ib_dev *dev,
			  const struct ib_flow_attr *attr,
			  struct tern_cmd_create_flow *cmd)
{
	u32 priority = TERN_FLOW_PRIO_NORMAL + attr->priority;

	/* Only flows of received frames have other types. */
	if (attr->type != IB_FLOW_ATTR_NORMAL && cmd->kind != TERN_FLOW_NORMAL)
		return tern_refuse(dev, -EINVAL, "flow type %d of datagrams or sent frames",
				   attr->type);

	switch (attr->type) {
	case IB_FLOW_ATTR_NORMAL:
		break;
	case IB_FLOW_ATTR_ALL_DEFAULT:
		cmd->kind = TERN_FLOW_ALL;
		priority = TERN_FLOW_PRIO_ALL_DEFAULT;
		break;
	case IB_FLOW_ATTR_MC_DEFAULT:
		cmd->kind = TERN_FLOW_MULTICAST;
		priority = TERN_FLOW_PRIO_MC_DEFAULT;
		break;
	case IB_FLOW_ATTR_SNIFFER:
		cmd->kind = TERN_FLOW_SNIFFER;
		break;
	default:
		return tern_refuse(dev, -EINVAL, "flow type %d", attr->type);
	}

	cmd->priority = cpu_to_le32(priority);
	return 0;
}

/* Sent frames have a stage of their own; the QP only names the device. */
static void tern_flow_egress(const struct ib_flow_attr *attr,
			     struct tern_cmd_create_flow *cmd)
{
	if (!(attr->flags & IB_FLOW_ATTR_FLAGS_EGRESS))
		return;

	cmd->kind = TERN_FLOW_SENT;
	cmd->dest = TERN_DEST_WIRE;
	cmd->dest_id = 0;
}

/*
 * Converts all but the kind of a flow of a UD QP and the destination, which are
 * set on entry, and of which an action to drop clears the latter. Returns 0,
 * -EOPNOTSUPP for an unsupported spec or flag, -EINVAL for specs or flags that
 * contradict each other.
 */
int tern_flow_from_attr(const struct tern_ib_dev *dev,
			const struct ib_flow_attr *attr, struct tern_cmd_create_flow *cmd)
{
	bool drop;
	int err;

	if (attr->flags & ~(IB_FLOW_ATTR_FLAGS_DONT_TRAP |
			    IB_FLOW_ATTR_FLAGS_EGRESS))
		return tern_refuse(dev, -EOPNOTSUPP, "flow flags %#x", attr->flags);

	cmd->port = attr->port;
	cmd->counter = cpu_to_le32(TERN_NO_COUNTER);
	tern_flow_egress(attr, cmd);
	err = tern_flow_kind(dev, attr, cmd) ?: tern_flow_specs(dev, attr, cmd);
	if (err)
		return err;

	/* Only a normal flow matches headers. */
	if (attr->type != IB_FLOW_ATTR_NORMAL && (cmd->layers || cmd->inner_layers))
		return tern_refuse(dev, -EINVAL, "headers with flow type %d",
				   attr->type);

	/* The completion of a datagram has the sender in place of a tag. */
	if (cmd->tag && (cmd->kind == TERN_FLOW_DATAGRAM ||
			 cmd->kind == TERN_FLOW_SENT))
		return tern_refuse(dev, -EOPNOTSUPP, "tag of flow kind %u",
				   cmd->kind);

	drop = cmd->dest == TERN_DEST_NONE;
	if (drop)
		cmd->dest_id = 0;

	/* A frame that other flows also get cannot be dropped. */
	if (drop && (attr->flags & IB_FLOW_ATTR_FLAGS_DONT_TRAP ||
		     cmd->kind == TERN_FLOW_SNIFFER))
		return tern_refuse(dev, -EINVAL,
				   "drop with flow type %d, flags %#x",
				   attr->type, attr->flags);

	/* A sniffer gets copies in any case. */
	if (attr->flags & IB_FLOW_ATTR_FLAGS_DONT_TRAP &&
	    cmd->kind != TERN_FLOW_SNIFFER)
		cmd->flags = TERN_FLOW_F_CONTINUE;

	return 0;
}

/**
 * tern_create_flow() - create a flow
 * @ibqp: raw packet QP or RSS QP that receives the frames, or UD QP that receives
 *	the datagrams; ib_core destroys the flow before the QP
 * @attr: type, priority, flags, specs and actions
 * @udata: user request without driver data
 *
 * Return: the flow, or an ERR_PTR: -EINVAL for a QP of another type, or specs
 * that contradict each other; -EOPNOTSUPP for an unsupported spec or flag; or
 * another negative errno.
 */
struct ib_flow *tern_create_flow(struct ib_qp *ibqp, struct ib_flow_attr *attr,
				 struct ib_udata *udata)
{
	struct tern_ib_dev *dev = to_tdev(ibqp->device);
	struct tern_qp *qp = to_tqp(ibqp);
	struct tern_cmd_create_flow cmd = {};
	struct tern_flow *flow;
	int err;

	err = ib_no_udata_io(udata);
	if (err)
		return ERR_PTR(err);

	if (ibqp->qp_type != IB_QPT_RAW_PACKET && ibqp->qp_type != IB_QPT_UD)
		return ERR_PTR(tern_refuse(dev, -EINVAL, "flow to QP type %d",
					   ibqp->qp_type));

	if (ibqp->qp_type == IB_QPT_UD)
		cmd.kind = TERN_FLOW_DATAGRAM;
	if (tern_qp_is_rss(qp)) {
		cmd.dest = TERN_DEST_RSS;
		cmd.dest_id = cpu_to_le32(qp->rssn);
	} else {
		cmd.dest = TERN_DEST_QP;
		cmd.dest_id = cpu_to_le32(ibqp->qp_num);
	}

	err = tern_flow_from_attr(dev, attr, &cmd);
	if (err)
		return ERR_PTR(err);

	flow = kzalloc_obj(*flow);
	if (!flow)
		return ERR_PTR(-ENOMEM);

	err = tern_ib_create(dev, TERN_CMD_CREATE_FLOW, &cmd, sizeof(cmd),
			     &flow->id);
	if (err) {
		kfree(flow);
		return ERR_PTR(err);
	}

	return &flow->ibflow;
}

int tern_destroy_flow(struct ib_flow *ibflow)
{
	struct tern_flow *flow = container_of(ibflow, struct tern_flow, ibflow);

	/* If a live device refuses, it keeps the flow until its next reset. */
	tern_ib_destroy(to_tdev(ibflow->device), TERN_CMD_DESTROY_FLOW,
			flow->id);
	kfree(flow);
	return 0;
}

/* ---- counters ---- */

int tern_create_counters(struct ib_counters *ibcounters,
			 struct uverbs_attr_bundle *attrs)
{
	return tern_ib_create(to_tdev(ibcounters->device),
			      TERN_CMD_CREATE_FLOW_COUNTER, NULL, 0,
			      &to_tcounters(ibcounters)->id);
}

static int tern_destroy_counters(struct ib_counters *ibcounters)
{
	/* If a live device refuses, it keeps the counter until its next reset. */
	tern_ib_destroy(to_tdev(ibcounters->device),
			TERN_CMD_DESTROY_FLOW_COUNTER,
			to_tcounters(ibcounters)->id);
	return 0;
}

/**
 * tern_read_counters() - read a flow counter
 * @ibcounters: the counter
 * @attr: output, values by IB_COUNTER_*; the rest is zero on entry. The flag to
 *	prefer cached values has no effect: the device's are as fast to read.
 * @attrs: unused
 *
 * Return: 0 or a negative errno.
 */
int tern_read_counters(struct ib_counters *ibcounters,
		       struct ib_counters_read_attr *attr,
		       struct uverbs_attr_bundle *attrs)
{
	struct tern_rsp_flow_counter rsp = {};
	int err;

	err = tern_ib_query(to_tdev(ibcounters->device),
			    TERN_CMD_QUERY_FLOW_COUNTER,
			    to_tcounters(ibcounters)->id, &rsp, sizeof(rsp));
	if (err)
		return err;

	if (attr->ncounters > IB_COUNTER_PACKETS)
		attr->counters_buff[IB_COUNTER_PACKETS] =
			le64_to_cpu(rsp.packets);
	if (attr->ncounters > IB_COUNTER_BYTES)
		attr->counters_buff[IB_COUNTER_BYTES] = le64_to_cpu(rsp.bytes);

	return 0;
}

const struct ib_device_ops tern_flow_ops = {
	.create_counters = tern_create_counters,
	.create_flow = tern_create_flow,
	.destroy_counters = tern_destroy_counters,
	.destroy_flow = tern_destroy_flow,
	.read_counters = tern_read_counters,

	INIT_RDMA_OBJ_SIZE(ib_counters, tern_counters, ibcounters),
};
