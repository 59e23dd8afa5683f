// SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause)
/* Rate limits of QPs. */

#include <errno.h>

#include "tern.h"

/* ibv_modify_qp_rate_limit(3). */
int tern_modify_qp_rate_limit(struct ibv_qp *ibvqp,
			      struct ibv_qp_rate_limit_attr *attr)
{
	const struct tern_ureq_modify_qp req = {
		.max_burst = attr->max_burst_sz,
		.typical_packet = attr->typical_pkt_sz,
	};
	struct ibv_qp_attr qp_attr = {
		.rate_limit = attr->rate_limit,
	};

	if (!(to_tern_ctx(ibvqp->context)->caps & TERN_UCTX_CAP_RATE_LIMIT))
		return EOPNOTSUPP;
	if (attr->comp_mask)
		return EINVAL;
	if (!attr->rate_limit && (attr->max_burst_sz || attr->typical_pkt_sz))
		return EINVAL;

	return tern_exec_modify_qp(ibvqp, &qp_attr, IBV_QP_RATE_LIMIT, &req);
}

/* The limits in ibv_query_device_ex(3): those of every type with a send queue. */
void tern_rate_query_device(const struct tern_context *ctx,
			    struct ibv_device_attr_ex *attr, size_t attr_size)
{
	struct ibv_packet_pacing_caps *caps = &attr->packet_pacing_caps;

	if (attr_size < offsetofend(struct ibv_device_attr_ex,
				    packet_pacing_caps) ||
	    !(ctx->caps & TERN_UCTX_CAP_RATE_LIMIT))
		return;

	caps->qp_rate_limit_min = 1;
	caps->qp_rate_limit_max = ctx->max_rate;
	caps->supported_qpts = BIT(IBV_QPT_RC) | BIT(IBV_QPT_UC) |
			       BIT(IBV_QPT_UD) | BIT(IBV_QPT_RAW_PACKET) |
			       BIT(IBV_QPT_XRC_SEND);
}
