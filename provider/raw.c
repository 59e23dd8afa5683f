// SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause)
/* Raw packet QPs: attributes, headers of large frames, RSS QPs. */

#include <ccan/minmax.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "compat.h"
#include "tern.h"
#include "wqe.h"

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

#define TERN_ETH_HLEN 14
#define TERN_VLAN_HLEN 4
#define TERN_IPV4_HLEN 20
#define TERN_IPV6_HLEN 40
#define TERN_TCP_HLEN 20

#define TERN_ETHERTYPE_IPV4 0x0800
#define TERN_ETHERTYPE_IPV6 0x86dd
#define TERN_ETHERTYPE_VLAN 0x8100
#define TERN_ETHERTYPE_QINQ 0x88a8
#define TERN_IPPROTO_TCP 6

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
	if (ctx->caps & TERN_UCTX_CAP_RAW_OFFLOAD)
		flags |= IBV_QP_CREATE_SCATTER_FCS |
			 IBV_QP_CREATE_CVLAN_STRIPPING;

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

/* IBV_RX_HASH_* that an RSS QP may have. */
static uint64_t tern_rx_hash_fields(const struct tern_context *ctx)
{
	uint64_t fields = TERN_RX_HASH_FIELDS;

	if (ctx->caps & TERN_UCTX_CAP_RSS_TUNNEL)
		fields |= TERN_RX_HASH_IPSEC_SPI | TERN_RX_HASH_INNER;

	return fields;
}

/* Fills in attributes that the kernel does not pass on. */
void tern_raw_query_device(const struct tern_context *ctx,
			   struct ibv_device_attr_ex *attr, size_t attr_size)
{
	if (attr_size >= offsetofend(struct ibv_device_attr_ex, tso_caps) &&
	    (ctx->caps & TERN_UCTX_CAP_RAW_OFFLOAD)) {
		attr->tso_caps.max_tso = TERN_ETH_MAX_TSO;
		attr->tso_caps.supported_qpts = BIT(IBV_QPT_RAW_PACKET);
	}

	if (attr_size >= offsetofend(struct ibv_device_attr_ex, rss_caps) &&
	    (ctx->caps & TERN_UCTX_CAP_RSS)) {
		attr->rss_caps.rx_hash_fields_mask = tern_rx_hash_fields(ctx);
		attr->rss_caps.rx_hash_function = IBV_RX_HASH_FUNC_TOEPLITZ;
	}
}

static uint16_t tern_be16(const uint8_t *bytes)
{
	return bytes[0] << 8 | bytes[1];
}

/*
 * Offset of the TCP header in the headers of a large frame, 0 if they are not
 * those of TCP over IPv4 or IPv6. The device checks the rest.
 */
uint16_t tern_tso_csum_start(const void *header, size_t length)
{
	const uint8_t *bytes = header;
	size_t l3 = TERN_ETH_HLEN;
	uint16_t type;
	size_t l4;

	if (length < l3)
		return 0;

	type = tern_be16(bytes + l3 - sizeof(type));
	while (type == TERN_ETHERTYPE_VLAN || type == TERN_ETHERTYPE_QINQ) {
		l3 += TERN_VLAN_HLEN;
		if (length < l3)
			return 0;
		type = tern_be16(bytes + l3 - sizeof(type));
	}

	if (type == TERN_ETHERTYPE_IPV4 && length >= l3 + TERN_IPV4_HLEN &&
	    bytes[l3 + 9] == TERN_IPPROTO_TCP)
		l4 = l3 + max_t(size_t, (bytes[l3] & 0xf) * 4, TERN_IPV4_HLEN);
	else if (type == TERN_ETHERTYPE_IPV6 && length >= l3 + TERN_IPV6_HLEN &&
		 bytes[l3 + 6] == TERN_IPPROTO_TCP)
		l4 = l3 + TERN_IPV6_HLEN;
	else
		return 0;

	return length >= l4 + TERN_TCP_HLEN ? l4 : 0;
}

static int tern_check_rss_qp(const struct tern_context *ctx,
			     const struct ibv_qp_init_attr_ex *attr)
{
	const uint32_t needed = IBV_QP_INIT_ATTR_PD |
				IBV_QP_INIT_ATTR_IND_TABLE |
				IBV_QP_INIT_ATTR_RX_HASH;
	const struct ibv_rx_hash_conf *conf = &attr->rx_hash_conf;
	const struct ibv_qp_cap *cap = &attr->cap;

	if (!(ctx->caps & TERN_UCTX_CAP_RSS) ||
	    attr->qp_type != IBV_QPT_RAW_PACKET ||
	    !check_comp_mask(attr->comp_mask,
			     needed | IBV_QP_INIT_ATTR_CREATE_FLAGS))
		return EOPNOTSUPP;

	if ((attr->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS) &&
	    attr->create_flags)
		return EOPNOTSUPP;

	if ((attr->comp_mask & needed) != needed || !attr->pd ||
	    !attr->rwq_ind_tbl || attr->send_cq || attr->recv_cq ||
	    attr->srq || cap->max_send_wr || cap->max_recv_wr ||
	    cap->max_recv_sge)
		return EINVAL;

	if (conf->rx_hash_function != IBV_RX_HASH_FUNC_TOEPLITZ ||
	    !check_comp_mask(conf->rx_hash_fields_mask,
			     tern_rx_hash_fields(ctx)))
		return EOPNOTSUPP;

	if (conf->rx_hash_key_len !=
		    sizeof(((struct tern_ureq_create_rss_qp *)NULL)->rx_hash_key) ||
	    !conf->rx_hash_key)
		return EINVAL;

	return 0;
}

static int tern_rss_qp_cmd_create(struct ibv_context *ibvctx,
				  struct tern_qp *qp,
				  struct ibv_qp_init_attr_ex *attr)
{
	const struct ibv_rx_hash_conf *conf = &attr->rx_hash_conf;
	struct tern_create_rss_qp_resp resp = {};
	struct tern_create_rss_qp cmd = {};

	cmd.rx_hash_fields_mask = conf->rx_hash_fields_mask;
	cmd.rx_hash_function = conf->rx_hash_function;
	cmd.rx_hash_key_len = conf->rx_hash_key_len;
	memcpy(cmd.rx_hash_key, conf->rx_hash_key, sizeof(cmd.rx_hash_key));

	return ibv_cmd_create_qp_ex2(ibvctx, &qp->vqp, attr, &cmd.ibv_cmd,
				     sizeof(cmd), &resp.ibv_resp, sizeof(resp),
				     NULL);
}

/*
 * ibv_create_qp_ex(3) with an indirection table: EOPNOTSUPP for a type, flag,
 * hash function or hash field that the device does not support, EINVAL for
 * attributes that are missing or that such a QP does not have.
 */
struct ibv_qp *tern_create_rss_qp(struct ibv_context *ibvctx,
				  struct ibv_qp_init_attr_ex *attr)
{
	struct tern_context *ctx = to_tern_ctx(ibvctx);
	struct ibv_qp_init_attr_ex actual = *attr;
	struct tern_qp *qp;
	int err;

	err = tern_check_rss_qp(ctx, attr);
	if (err)
		goto err_out;

	qp = tern_qp_alloc(&tern_rss_qp_type, ctx->caps);
	if (!qp) {
		err = ENOMEM;
		goto err_out;
	}

	err = tern_rss_qp_cmd_create(ibvctx, qp, &actual);
	if (err) {
		tern_qp_free(qp);
		goto err_out;
	}

	attr->cap = (struct ibv_qp_cap){};
	return &qp->vqp.qp;

err_out:
	errno = err;
	return NULL;
}
