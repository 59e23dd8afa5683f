// SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause)
/* Device, port, AH, XRCD and multicast verbs; creation of any kind of QP. */

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tern.h"

/* ibv_query_device_ex(3), with the device's own firmware version. */
int tern_query_device_ex(struct ibv_context *ibvctx,
			 const struct ibv_query_device_ex_input *input,
			 struct ibv_device_attr_ex *attr, size_t attr_size)
{
	struct ib_uverbs_ex_query_device_resp resp = {};
	size_t resp_size = sizeof(resp);
	int err;

	err = ibv_cmd_query_device_any(ibvctx, input, attr, attr_size, &resp,
				       &resp_size);
	if (err)
		return err;

	snprintf(attr->orig_attr.fw_ver, sizeof(attr->orig_attr.fw_ver),
		 "%" PRIu64, (uint64_t)resp.base.fw_ver);
#ifndef TERN_WITHOUT_RAW
	tern_raw_query_device(to_tern_ctx(ibvctx), attr, attr_size);
#endif
#ifndef TERN_WITHOUT_RATE
	tern_rate_query_device(to_tern_ctx(ibvctx), attr, attr_size);
#endif

	return 0;
}

int tern_query_port(struct ibv_context *ibvctx, uint8_t port,
		    struct ibv_port_attr *attr)
{
	struct ibv_query_port cmd;

	return ibv_cmd_query_port(ibvctx, port, attr, &cmd, sizeof(cmd));
}

/*
 * ibv_create_ah(3). The address vector is stored here and copied to each WQE.
 * The kernel checks the attributes and resolves the destination's MAC address.
 */
struct ibv_ah *tern_create_ah(struct ibv_pd *ibvpd, struct ibv_ah_attr *attr)
{
	struct tern_create_ah_resp resp = {};
	struct tern_ah *ah;
	int err;

	ah = calloc(1, sizeof(*ah));
	if (!ah)
		return NULL;

	err = ibv_cmd_create_ah(ibvpd, &ah->ibvah, attr, &resp.ibv_resp,
				sizeof(resp));
	if (err) {
		free(ah);
		errno = err;
		return NULL;
	}

	memcpy(ah->av.dgid, attr->grh.dgid.raw, sizeof(ah->av.dgid));
	memcpy(ah->av.dmac, resp.dmac, sizeof(ah->av.dmac));
	ah->av.flow_label = htole32(attr->grh.flow_label);
	ah->av.sgid_index = htole16(attr->grh.sgid_index);
	ah->av.udp_sport = htole16(resp.udp_sport);
	ah->av.hop_limit = attr->grh.hop_limit;
	ah->av.traffic_class = attr->grh.traffic_class;
	ah->av.sl = attr->sl;
	ah->av.static_rate = attr->static_rate;
	ah->av.port = attr->port_num;

	return &ah->ibvah;
}

int tern_destroy_ah(struct ibv_ah *ibvah)
{
	int err;

	err = ibv_cmd_destroy_ah(ibvah);
	if (err)
		return err;

	free(to_tern_ah(ibvah));
	return 0;
}

/* ibv_open_xrcd(3). */
struct ibv_xrcd *tern_open_xrcd(struct ibv_context *ibvctx,
				struct ibv_xrcd_init_attr *attr)
{
	struct ib_uverbs_open_xrcd_resp resp;
	struct ibv_open_xrcd cmd;
	struct verbs_xrcd *xrcd;
	int err;

	xrcd = calloc(1, sizeof(*xrcd));
	if (!xrcd)
		return NULL;

	err = ibv_cmd_open_xrcd(ibvctx, xrcd, sizeof(*xrcd), attr, &cmd,
				sizeof(cmd), &resp, sizeof(resp));
	if (err) {
		free(xrcd);
		errno = err;
		return NULL;
	}

	return &xrcd->xrcd;
}

int tern_close_xrcd(struct ibv_xrcd *ibvxrcd)
{
	struct verbs_xrcd *xrcd =
		container_of(ibvxrcd, struct verbs_xrcd, xrcd);
	int err;

	err = ibv_cmd_close_xrcd(xrcd);
	if (err)
		return err;

	free(xrcd);
	return 0;
}

/* ibv_attach_mcast(3): the kernel checks QP and group. */
int tern_attach_mcast(struct ibv_qp *ibvqp, const union ibv_gid *gid,
		      uint16_t lid)
{
	return ibv_cmd_attach_mcast(ibvqp, gid, lid);
}

int tern_detach_mcast(struct ibv_qp *ibvqp, const union ibv_gid *gid,
		      uint16_t lid)
{
	return ibv_cmd_detach_mcast(ibvqp, gid, lid);
}

/* ibv_create_qp_ex(3). */
struct ibv_qp *tern_create_qp_ex(struct ibv_context *ibvctx,
				 struct ibv_qp_init_attr_ex *attr)
{
#ifndef TERN_WITHOUT_RSS
	if (attr->comp_mask & (IBV_QP_INIT_ATTR_IND_TABLE |
			       IBV_QP_INIT_ATTR_RX_HASH))
		return tern_create_rss_qp(ibvctx, attr);

#endif
	return tern_create_basic_qp(ibvctx, attr);
}

/* ibv_create_qp(3). */
struct ibv_qp *tern_create_qp(struct ibv_pd *ibvpd,
			      struct ibv_qp_init_attr *attr)
{
	struct ibv_qp_init_attr_ex attr_ex = {
		.qp_context = attr->qp_context,
		.send_cq = attr->send_cq,
		.recv_cq = attr->recv_cq,
		.srq = attr->srq,
		.cap = attr->cap,
		.qp_type = attr->qp_type,
		.sq_sig_all = attr->sq_sig_all,
		.comp_mask = IBV_QP_INIT_ATTR_PD,
		.pd = ibvpd,
	};
	struct ibv_qp *ibvqp;

	ibvqp = tern_create_qp_ex(ibvpd->context, &attr_ex);
	if (ibvqp)
		attr->cap = attr_ex.cap;

	return ibvqp;
}
