// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Raw packet QPs: capabilities and creation flags. */

#include "tern_ib.h"
#include "tern_ib_limits.h"
#include "tern_ib_raw.h"

/* IB_QP_CREATE_* that a raw packet QP may have. */
u32 tern_raw_qp_create_flags(const struct tern_ib_dev *dev)
{
	u32 flags = IB_QP_CREATE_BLOCK_MULTICAST_LOOPBACK;

	if (tern_has_cap(dev, TERN_CAP_ETH_OFFLOAD))
		flags |= IB_QP_CREATE_CVLAN_STRIPPING |
			 IB_QP_CREATE_SCATTER_FCS;

	return flags;
}

/* Translates the flags that only raw packet QPs have to TERN_QP_F_*. */
u8 tern_raw_qp_create_flags_to_dev(u32 create_flags)
{
	u8 flags = 0;

	if (create_flags & IB_QP_CREATE_CVLAN_STRIPPING)
		flags |= TERN_QP_F_STRIP_VLAN;
	if (create_flags & IB_QP_CREATE_SCATTER_FCS)
		flags |= TERN_QP_F_KEEP_FCS;

	return flags;
}

/* Device attributes of raw packet QPs. */
void tern_fill_raw(const struct tern_ib_dev *dev, struct ib_device_attr *attr)
{
	if (!tern_has_cap(dev, TERN_CAP_RAW_QP))
		return;

	attr->max_raw_ethy_qp = tern_limit(dev->core->caps->max_qp);
	if (tern_has_cap(dev, TERN_CAP_ETH_OFFLOAD)) {
		attr->raw_packet_caps = IB_RAW_PACKET_CAP_CVLAN_STRIPPING |
					IB_RAW_PACKET_CAP_SCATTER_FCS |
					IB_RAW_PACKET_CAP_IP_CSUM;
		attr->device_cap_flags |= IB_DEVICE_RAW_IP_CSUM |
					  IB_DEVICE_RAW_SCATTER_FCS;
	}
}

/* Returns the TERN_UCTX_CAP_* that concern raw packet QPs. */
u32 tern_raw_uctx_caps(const struct tern_ib_dev *dev)
{
	if (tern_has_cap(dev, TERN_CAP_RAW_QP) &&
	    tern_has_cap(dev, TERN_CAP_ETH_OFFLOAD))
		return TERN_UCTX_CAP_RAW_OFFLOAD;

	return 0;
}
