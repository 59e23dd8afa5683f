// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Capabilities of the device, as ib_core and the provider see them. */

#include <linux/array_size.h>
#include <linux/limits.h>
#include <linux/minmax.h>

#include "tern_ib.h"
#include "tern_ib_limits.h"
#ifndef TERN_WITHOUT_RAW
#include "tern_ib_raw.h"
#endif

/* Attributes that depend on window and device memory capabilities. */
static void tern_fill_mw_dm(const struct tern_ib_dev *dev,
			    struct ib_device_attr *attr)
{
	if (tern_has_cap(dev, TERN_CAPS_MW))
		attr->max_mw = tern_limit(dev->core->caps->max_mw);
	if (tern_has_cap(dev, TERN_CAP_MW_TYPE_1))
		attr->device_cap_flags |= IB_DEVICE_MEM_WINDOW;
	if (tern_has_cap(dev, TERN_CAP_MW_TYPE_2A))
		attr->device_cap_flags |= IB_DEVICE_MEM_WINDOW_TYPE_2A;
	if (tern_has_cap(dev, TERN_CAP_MW_TYPE_2B))
		attr->device_cap_flags |= IB_DEVICE_MEM_WINDOW_TYPE_2B;

	if (tern_has_cap(dev, TERN_CAP_DM))
		attr->max_dm_size = tern_max_dm_size(dev->core);
}

/* The device clock counts nanoseconds. */
#define TERN_CLOCK_KHZ		1000000

/* Attributes that depend on CQ capabilities. */
static void tern_fill_cq(const struct tern_ib_dev *dev,
			 struct ib_device_attr *attr)
{
#ifndef TERN_WITHOUT_MODERATE
	if (tern_has_cap(dev, TERN_CAP_MODERATE_CQ)) {
		attr->cq_caps.max_cq_moderation_count = U16_MAX;
		attr->cq_caps.max_cq_moderation_period = U16_MAX;
	}

#endif
	if (tern_has_cap(dev, TERN_CAP_TIMESTAMP)) {
		attr->timestamp_mask = U64_MAX;
		attr->hca_core_clock = TERN_CLOCK_KHZ;
	}
}

/* Attributes that depend on a capability; limits are 0 without it. */
void tern_fill_optional(const struct tern_ib_dev *dev,
			struct ib_device_attr *attr)
{
	const struct tern_rsp_caps *caps = dev->core->caps;
	u64 mcast_qps;

	if (tern_has_cap(dev, TERN_CAP_ATOMIC))
		attr->atomic_cap = IB_ATOMIC_HCA;

#ifndef TERN_WITHOUT_APM
	if (tern_has_cap(dev, TERN_CAP_APM))
		attr->device_cap_flags |= IB_DEVICE_AUTO_PATH_MIG;
#endif
	/* No persistent memory: FLUSH supports global visibility only. */
	if (tern_has_cap(dev, TERN_CAP_FLUSH))
		attr->device_cap_flags |= IB_DEVICE_FLUSH_GLOBAL;
	if (tern_has_cap(dev, TERN_CAP_ATOMIC_WRITE))
		attr->device_cap_flags |= IB_DEVICE_ATOMIC_WRITE;

	/* Address handles are host memory, so nothing limits their number. */
	if (tern_has_cap(dev, TERN_CAP_UD))
		attr->max_ah = INT_MAX;
	if (tern_has_cap(dev, TERN_CAP_UD_NO_LOOPBACK))
		attr->kernel_cap_flags |= IBK_BLOCK_MULTICAST_LOOPBACK;

	if (tern_has_cap(dev, TERN_CAP_FRWR)) {
		attr->device_cap_flags |= IB_DEVICE_MEM_MGT_EXTENSIONS;
		attr->max_fast_reg_page_list_len =
			tern_max_fast_reg_pages(caps);
	}

	tern_fill_mw_dm(dev, attr);
	tern_fill_cq(dev, attr);
#ifndef TERN_WITHOUT_ODP
	if (tern_has_odp(dev))
		tern_fill_odp(dev, attr);
#endif
#ifndef TERN_WITHOUT_RAW
	tern_fill_raw(dev, attr);
#endif
#ifndef TERN_WITHOUT_RSS
	tern_fill_rss(dev, attr);
#endif

	if (tern_has_cap(dev, TERN_CAP_MCAST)) {
		attr->max_mcast_grp = tern_limit(caps->max_mcast_grp);
		attr->max_mcast_qp_attach =
			tern_limit(caps->max_mcast_qp_attach);
		mcast_qps = (u64)attr->max_mcast_grp *
			    attr->max_mcast_qp_attach;
		attr->max_total_mcast_qp_attach = min(mcast_qps, INT_MAX);
	}

	if (tern_has_cap(dev, TERN_CAP_SRQ)) {
		attr->max_srq = tern_limit(caps->max_srq);
		attr->max_srq_wr = tern_limit(caps->max_srq_wr);
		attr->max_srq_sge = le16_to_cpu(caps->max_recv_sge);
	}
#ifndef TERN_WITHOUT_RESIZE
	if (tern_has_cap(dev, TERN_CAP_SRQ_RESIZE))
		attr->device_cap_flags |= IB_DEVICE_SRQ_RESIZE;
#endif
#ifndef TERN_WITHOUT_TM
	tern_fill_tm(dev, attr);
#endif
#ifndef TERN_WITHOUT_XRC
	if (tern_has_cap(dev, TERN_CAP_XRC))
		attr->device_cap_flags |= IB_DEVICE_XRC;
#endif
}

/* Capabilities that only the provider uses: user verbs and the data path. */
u32 tern_uctx_caps(const struct tern_ib_dev *dev)
{
	static const struct {
		u64 cap;
		u32 uctx;
	} map[] = {
		{ TERN_CAP_FRWR | TERN_CAPS_MW_2, TERN_UCTX_CAP_SEND_INV },
		{ TERN_CAPS_MW, TERN_UCTX_CAP_MW },
		{ TERN_CAP_MW_TYPE_2A, TERN_UCTX_CAP_MW_2A },
		{ TERN_CAP_TIMESTAMP, TERN_UCTX_CAP_TIMESTAMP },
		{ TERN_CAP_FLUSH, TERN_UCTX_CAP_FLUSH },
		{ TERN_CAP_ATOMIC_WRITE, TERN_UCTX_CAP_ATOMIC_WRITE },
		{ TERN_CAP_UD_NO_LOOPBACK, TERN_UCTX_CAP_UD_NO_LOOPBACK },
#ifndef TERN_WITHOUT_ECE
		{ TERN_CAP_ECE, TERN_UCTX_CAP_ECE },
#endif
#ifndef TERN_WITHOUT_RATE
		{ TERN_CAP_RATE_LIMIT, TERN_UCTX_CAP_RATE_LIMIT },
#endif
#ifndef TERN_WITHOUT_DV
		{ TERN_CAP_DM_OPS, TERN_UCTX_CAP_DM_OPS },
		{ TERN_CAP_UDP_SPORT, TERN_UCTX_CAP_UDP_SPORT },
#endif
	};
	unsigned int i;
	u32 caps = 0;

	for (i = 0; i < ARRAY_SIZE(map); i++)
		if (tern_has_cap(dev, map[i].cap))
			caps |= map[i].uctx;
#ifndef TERN_WITHOUT_RAW
	caps |= tern_raw_uctx_caps(dev);
#endif
#ifndef TERN_WITHOUT_RSS
	caps |= tern_rss_uctx_caps(dev);
#endif
#ifndef TERN_WITHOUT_TM
	if (tern_has_tm(dev))
		caps |= TERN_UCTX_CAP_TM;
#endif

	return caps;
}
