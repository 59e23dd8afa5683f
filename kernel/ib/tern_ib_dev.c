// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Device and port attributes, and the port's GID table. */

#include <linux/etherdevice.h>
#include <linux/if_vlan.h>
#include <net/ipv6.h>

#include <rdma/ib_addr.h>
#include <rdma/ib_cache.h>
#include <rdma/ib_mad.h>
#include <rdma/uverbs_ioctl.h>

#include "tern_ib.h"
#include "tern_ib_limits.h"

/* Attributes of features for which the driver has no verbs stay 0. */
int tern_query_device(struct ib_device *ibdev, struct ib_device_attr *attr,
		      struct ib_udata *udata)
{
	struct tern_ib_dev *dev = to_tdev(ibdev);
	const struct tern_rsp_caps *caps = dev->core->caps;
	struct pci_dev *pdev = dev->core->pdev;
	int err;

	err = ib_is_udata_in_empty(udata);
	if (err)
		return err;

	tern_fill_limits(dev->core, attr);
	attr->fw_ver = le32_to_cpu(caps->device_version);
	attr->sys_image_guid = cpu_to_be64(le64_to_cpu(caps->guid));
	attr->vendor_id = pdev->vendor;
	attr->vendor_part_id = pdev->device;
	attr->hw_ver = pdev->revision;
	attr->device_cap_flags = IB_DEVICE_CURR_QP_STATE_MOD |
				 IB_DEVICE_PORT_ACTIVE_EVENT |
				 IB_DEVICE_SYS_IMAGE_GUID |
				 IB_DEVICE_RC_RNR_NAK_GEN;
	attr->kernel_cap_flags = IBK_LOCAL_DMA_LKEY;
	tern_fill_optional(dev, attr);

	return ib_respond_empty_udata(udata);
}

void tern_get_dev_fw_str(struct ib_device *ibdev, char *str)
{
	const struct tern_rsp_caps *caps = to_tdev(ibdev)->core->caps;

	static_assert(sizeof(caps->fw_name) >= IB_FW_VERSION_NAME_MAX);
	strscpy(str, caps->fw_name, IB_FW_VERSION_NAME_MAX);
}

enum rdma_link_layer tern_get_link_layer(struct ib_device *ibdev, u32 port)
{
	return IB_LINK_LAYER_ETHERNET;
}

/* Memory of objects comes from the node that the device is attached to. */
int tern_get_numa_node(struct ib_device *ibdev)
{
	return dev_to_node(&to_tdev(ibdev)->core->pdev->dev);
}

/* MADs and the CM need the general services QP, which a device without UD lacks. */
int tern_get_port_immutable(struct ib_device *ibdev, u32 port,
			    struct ib_port_immutable *immutable)
{
	struct tern_ib_dev *dev = to_tdev(ibdev);
	const struct tern_rsp_caps *caps = dev->core->caps;

	if (tern_has_cap(dev, TERN_CAP_UD)) {
		immutable->core_cap_flags = RDMA_CORE_PORT_IBA_ROCE_UDP_ENCAP;
		immutable->max_mad_size = IB_MGMT_MAD_SIZE;
	} else {
		immutable->core_cap_flags = RDMA_CORE_CAP_PROT_ROCE_UDP_ENCAP |
					    RDMA_CORE_CAP_ETH_AH;
	}
	immutable->gid_tbl_len = le16_to_cpu(caps->gid_table_len);
	immutable->pkey_tbl_len = 1;
	return 0;
}

/* Takes the RTNL lock. */
int tern_query_port(struct ib_device *ibdev, u32 port,
		    struct ib_port_attr *attr)
{
	struct tern_ib_dev *dev = to_tdev(ibdev);
	const struct tern_rsp_caps *caps = dev->core->caps;
	struct net_device *ndev;
	int err;

	err = ib_get_eth_speed(ibdev, port, &attr->active_speed,
			       &attr->active_width);
	if (err)
		return err;

	ndev = ib_device_get_netdev(ibdev, port);
	if (!ndev)
		return -ENODEV;

	attr->state = ib_get_curr_port_state(ndev);
	if (attr->state == IB_PORT_ACTIVE)
		attr->phys_state = IB_PORT_PHYS_STATE_LINK_UP;
	else if (netif_running(ndev))
		attr->phys_state = IB_PORT_PHYS_STATE_POLLING;
	else
		attr->phys_state = IB_PORT_PHYS_STATE_DISABLED;

	/*
	 * Report the smallest MTU even if no frame can hold it: there is no
	 * value for none.
	 */
	attr->max_mtu = iboe_get_mtu(READ_ONCE(ndev->max_mtu)) ?: IB_MTU_256;
	attr->active_mtu = iboe_get_mtu(READ_ONCE(ndev->mtu)) ?: IB_MTU_256;
	dev_put(ndev);

	attr->gid_tbl_len = le16_to_cpu(caps->gid_table_len);
	attr->ip_gids = true;
	if (tern_has_cap(dev, TERN_CAP_UD))
		attr->port_cap_flags = IB_PORT_CM_SUP;
	attr->max_msg_sz = le32_to_cpu(caps->max_msg_size);
	attr->pkey_tbl_len = 1;
	attr->max_vl_num = 1;
	return 0;
}

int tern_query_pkey(struct ib_device *ibdev, u32 port, u16 index, u16 *pkey)
{
	if (index)
		return tern_refuse(to_tdev(ibdev), -EINVAL, "P_Key index %u", index);

	*pkey = IB_DEFAULT_PKEY_FULL;
	return 0;
}

/* Gives the device a GID and the source address of its frames. */
int tern_add_gid(const struct ib_gid_attr *attr, void **context)
{
	const struct in6_addr *addr = (const struct in6_addr *)attr->gid.raw;
	struct tern_ib_dev *dev = to_tdev(attr->device);
	struct tern_cmd_set_gid cmd = {
		.index = cpu_to_le16(attr->index),
		.port = attr->port_num,
		.valid = 1,
		.net_type = ipv6_addr_v4mapped(addr) ? TERN_NET_IPV4 :
						       TERN_NET_IPV6,
	};
	u16 vlan = TERN_VLAN_NONE;
	int err;

	static_assert(TERN_VLAN_NONE > VLAN_VID_MASK);

	err = rdma_read_gid_l2_fields(attr, &vlan, cmd.mac);
	if (err)
		return err;

	if (vlan < VLAN_N_VID && !tern_has_cap(dev, TERN_CAP_VLAN))
		return tern_refuse(dev, -EOPNOTSUPP, "GID of VLAN %u", vlan);

	cmd.vlan = cpu_to_le16(vlan < VLAN_N_VID ? vlan : TERN_VLAN_NONE);
	memcpy(cmd.gid, attr->gid.raw, sizeof(cmd.gid));

	return tern_cmd_exec(dev->core, TERN_CMD_SET_GID, &cmd, sizeof(cmd),
			     NULL, 0);
}

int tern_del_gid(const struct ib_gid_attr *attr, void **context)
{
	struct tern_ib_dev *dev = to_tdev(attr->device);
	struct tern_cmd_set_gid cmd = {
		.index = cpu_to_le16(attr->index),
		.port = attr->port_num,
	};

	return tern_cmd_exec(dev->core, TERN_CMD_SET_GID, &cmd, sizeof(cmd),
			     NULL, 0);
}
