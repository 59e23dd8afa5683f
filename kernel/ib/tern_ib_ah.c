// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Address handles and address vectors. An address handle is host memory only:
 * the device receives address vectors in WQEs and in MODIFY_QP. Creating one
 * must not sleep.
 */

#include <linux/etherdevice.h>

#include <rdma/uverbs_ioctl.h>

#include "tern_ib.h"

/*
 * Converts a resolved address; @udp_sport 0 lets the device derive the port. -EINVAL: not RoCEv2.
 */
int tern_av_from_attr(const struct tern_ib_dev *dev, struct tern_av *av,
		      const struct rdma_ah_attr *attr, u16 udp_sport)
{
	const struct ib_global_route *grh = &attr->grh;

	if (attr->type != RDMA_AH_ATTR_TYPE_ROCE ||
	    !(attr->ah_flags & IB_AH_GRH) || !grh->sgid_attr ||
	    grh->sgid_attr->gid_type != IB_GID_TYPE_ROCE_UDP_ENCAP)
		return tern_refuse(dev, -EINVAL, "address without a RoCEv2 GID");

	if (attr->static_rate != IB_RATE_PORT_CURRENT &&
	    ib_rate_to_mbps(attr->static_rate) < 0)
		return tern_refuse(dev, -EINVAL, "static rate %u",
				   attr->static_rate);

	*av = (struct tern_av){
		.flow_label = cpu_to_le32(grh->flow_label &
					  IB_GRH_FLOWLABEL_MASK),
		.sgid_index = cpu_to_le16(grh->sgid_attr->index),
		.udp_sport = cpu_to_le16(udp_sport),
		.hop_limit = grh->hop_limit,
		.traffic_class = grh->traffic_class,
		.sl = attr->sl,
		.static_rate = attr->static_rate,
		.port = rdma_ah_get_port_num(attr),
	};
	memcpy(av->dgid, grh->dgid.raw, sizeof(av->dgid));
	ether_addr_copy(av->dmac, attr->roce.dmac);
	return 0;
}

/* The reverse, without a reference to the source GID. */
void tern_av_to_attr(const struct tern_av *av, struct rdma_ah_attr *attr)
{
	union ib_gid dgid;

	memcpy(dgid.raw, av->dgid, sizeof(dgid.raw));
	attr->type = RDMA_AH_ATTR_TYPE_ROCE;
	rdma_ah_set_port_num(attr, av->port);
	rdma_ah_set_sl(attr, av->sl);
	rdma_ah_set_static_rate(attr, av->static_rate);
	rdma_ah_set_grh(attr, &dgid, le32_to_cpu(av->flow_label),
			le16_to_cpu(av->sgid_index), av->hop_limit,
			av->traffic_class);
	ether_addr_copy(attr->roce.dmac, av->dmac);
}

/* The response of a user is struct tern_uresp_create_ah. */
static int tern_create_ah(struct ib_ah *ibah, struct rdma_ah_init_attr *init_attr,
			  struct ib_udata *udata)
{
	const struct rdma_ah_attr *attr = init_attr->ah_attr;
	struct tern_uresp_create_ah resp = {};
	struct tern_ah *ah = to_tah(ibah);
	u32 flow_label;
	int err;

	err = ib_is_udata_in_empty(udata);
	if (err)
		return err;

	/* Without a flow label the device distinguishes flows by QP numbers. */
	flow_label = attr->grh.flow_label & IB_GRH_FLOWLABEL_MASK;
	if (flow_label)
		resp.udp_sport = rdma_flow_label_to_udp_sport(flow_label);

	err = tern_av_from_attr(to_tdev(ibah->device), &ah->av, attr, resp.udp_sport);
	if (err || !udata)
		return err;

	ether_addr_copy(resp.dmac, ah->av.dmac);
	return ib_respond_udata(udata, resp);
}

static int tern_destroy_ah(struct ib_ah *ibah, u32 flags)
{
	return 0;
}

static int tern_query_ah(struct ib_ah *ibah, struct rdma_ah_attr *attr)
{
	tern_av_to_attr(&to_tah(ibah)->av, attr);
	return 0;
}

const struct ib_device_ops tern_ah_ops = {
	.create_ah = tern_create_ah,
	.create_user_ah = tern_create_ah,
	.destroy_ah = tern_destroy_ah,
	.query_ah = tern_query_ah,

	INIT_RDMA_OBJ_SIZE(ib_ah, tern_ah, ibah),
};
