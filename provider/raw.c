// SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause)
/* Attributes of raw packet QPs, and of the device for them. */

#include <errno.h>

#include "tern.h"
#include "wqe.h"

#ifndef TERN_WITHOUT_RSS
TERN_SAME(TERN_RX_HASH_SRC_IPV4, IBV_RX_HASH_SRC_IPV4);
TERN_SAME(TERN_RX_HASH_DST_IPV4, IBV_RX_HASH_DST_IPV4);
TERN_SAME(TERN_RX_HASH_SRC_IPV6, IBV_RX_HASH_SRC_IPV6);
TERN_SAME(TERN_RX_HASH_DST_IPV6, IBV_RX_HASH_DST_IPV6);
TERN_SAME(TERN_RX_HASH_SRC_PORT_TCP, IBV_RX_HASH_SRC_PORT_TCP);
TERN_SAME(TERN_RX_HASH_DST_PORT_TCP, IBV_RX_HASH_DST_PORT_TCP);
TERN_SAME(TERN_RX_HASH_SRC_PORT_UDP, IBV_RX_HASH_SRC_PORT_UDP);
TERN_SAME(TERN_RX_HASH_DST_PORT_UDP, IBV_RX_HASH_DST_PORT_UDP);
TERN_SAME(TERN_RX_HASH_IPSEC_SPI, IBV_RX_HASH_IPSEC_SPI);
TERN_SAME(TERN_RX_HASH_INNER, IBV_RX_HASH_INNER);
TERN_SAME(TERN_RX_HASH_FUNC_TOEPLITZ, IBV_RX_HASH_FUNC_TOEPLITZ);

#endif
/* IBV_QP_CREATE_* of a QP of the type; the kernel checks them, too. */
static uint32_t tern_qp_create_flags(const struct tern_context *ctx,
				     const struct tern_qp_type *type)
{
	uint32_t flags;

	if (type->qp_type == IBV_QPT_UD &&
	    (ctx->caps & TERN_UCTX_CAP_UD_NO_LOOPBACK))
		return IBV_QP_CREATE_BLOCK_SELF_MCAST_LB;
	if (!type->raw)
		return 0;

	flags = IBV_QP_CREATE_BLOCK_SELF_MCAST_LB;
#ifndef TERN_WITHOUT_RAW
	if (ctx->caps & TERN_UCTX_CAP_RAW_OFFLOAD)
		flags |= IBV_QP_CREATE_SCATTER_FCS |
			 IBV_QP_CREATE_CVLAN_STRIPPING;

#endif
	return flags;
}

/*
 * Checks creation flags and TSO. Returns 0; EOPNOTSUPP for a flag or TSO that
 * the QP does not support; EINVAL for TSO headers that are too long.
 */
int tern_check_raw_qp(const struct tern_context *ctx,
		      const struct tern_qp_type *type,
		      const struct ibv_qp_init_attr_ex *attr)
{
	if ((attr->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS) &&
	    !check_comp_mask(attr->create_flags,
			     tern_qp_create_flags(ctx, type)))
		return EOPNOTSUPP;

	if (attr->comp_mask & IBV_QP_INIT_ATTR_MAX_TSO_HEADER) {
		if (!(tern_qp_type_ops(type, ctx->caps) & BIT(IBV_WR_TSO)))
			return EOPNOTSUPP;
		if (attr->max_tso_header > TERN_ETH_MAX_TSO_HEADER)
			return EINVAL;
	}

	return 0;
}
#ifndef TERN_WITHOUT_RSS

/* IBV_RX_HASH_* that an RSS QP may have. */
uint64_t tern_rx_hash_fields(const struct tern_context *ctx)
{
	uint64_t fields = TERN_RX_HASH_FIELDS;

	if (ctx->caps & TERN_UCTX_CAP_RSS_TUNNEL)
		fields |= TERN_RX_HASH_IPSEC_SPI | TERN_RX_HASH_INNER;

	return fields;
}
#endif
#ifndef TERN_WITHOUT_RAW

/* Fills in attributes that the kernel does not pass on. */
void tern_raw_query_device(const struct tern_context *ctx,
			   struct ibv_device_attr_ex *attr, size_t attr_size)
{
	if (attr_size >= offsetofend(struct ibv_device_attr_ex, tso_caps) &&
	    (ctx->caps & TERN_UCTX_CAP_RAW_OFFLOAD)) {
		attr->tso_caps.max_tso = TERN_ETH_MAX_TSO;
		attr->tso_caps.supported_qpts = BIT(IBV_QPT_RAW_PACKET);
	}
#ifndef TERN_WITHOUT_RSS
	if (attr_size >= offsetofend(struct ibv_device_attr_ex, rss_caps) &&
	    (ctx->caps & TERN_UCTX_CAP_RSS)) {
		attr->rss_caps.rx_hash_fields_mask = tern_rx_hash_fields(ctx);
		attr->rss_caps.rx_hash_function = IBV_RX_HASH_FUNC_TOEPLITZ;
	}
#endif
}
#endif
