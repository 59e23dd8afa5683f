// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Alternate paths of QPs. ib_core refuses IB_QP_ALT_PATH on RoCE ports, so the
 * provider passes the path as driver data of the verb, and the driver does what
 * ib_core does for the primary path: it resolves the address and holds a reference
 * to the source GID.
 */

#include <linux/minmax.h>

#include <rdma/ib_cache.h>
#include <rdma/uverbs_ioctl.h>

#include "tern_ib.h"
#include "tern_ib_apm.h"

/* The state values match those of ib_core. */
static_assert(TERN_MIG_MIGRATED == (int)IB_MIG_MIGRATED);
static_assert(TERN_MIG_REARM == (int)IB_MIG_REARM);
static_assert(TERN_MIG_ARMED == (int)IB_MIG_ARMED);

static void tern_gid_put(const struct ib_gid_attr *sgid)
{
	if (sgid)
		rdma_put_gid_attr(sgid);
}

/*
 * Makes ib_core resolve the address, which it does only for an address handle.
 * An XRC target has no PD to create one in.
 */
static struct ib_ah *tern_alt_create_ah(struct ib_qp *ibqp, struct ib_pd *pd,
					const struct tern_ureq_alt_path *req)
{
	struct rdma_ah_attr attr = {
		.type = rdma_ah_find_type(ibqp->device, req->port),
	};
	union ib_gid dgid;

	memcpy(dgid.raw, req->dgid, sizeof(dgid.raw));
	rdma_ah_set_port_num(&attr, req->port);
	rdma_ah_set_sl(&attr, req->sl);
	rdma_ah_set_static_rate(&attr, req->static_rate);
	rdma_ah_set_grh(&attr, &dgid, req->flow_label, req->sgid_index,
			req->hop_limit, req->traffic_class);
	return rdma_create_user_ah(pd, &attr, NULL);
}

static int tern_alt_resolve(struct ib_qp *ibqp,
			    const struct tern_ureq_alt_path *req,
			    struct tern_alt_path *alt)
{
	struct ib_pd *own = NULL;
	struct ib_ah *ah;

	if (!ibqp->pd) {
		own = ib_alloc_pd(ibqp->device, 0);
		if (IS_ERR(own))
			return PTR_ERR(own);
	}

	ah = tern_alt_create_ah(ibqp, own ?: ibqp->pd, req);
	if (!IS_ERR(ah)) {
		alt->dev.av = to_tah(ah)->av;
		alt->sgid = ah->sgid_attr;
		rdma_hold_gid_attr(alt->sgid);
		rdma_destroy_ah(ah, RDMA_DESTROY_AH_SLEEPABLE);
	}
	if (own)
		ib_dealloc_pd(own);

	return PTR_ERR_OR_ZERO(ah);
}

/**
 * tern_alt_path_get() - resolve the alternate path in a request of modify_qp
 * @ibqp: the QP
 * @req: the request, all zeros without one
 * @alt: output, without a GID if there is no path; tern_alt_path_put() releases it
 *
 * Return: 0; -EOPNOTSUPP if the device has no automatic path migration; -EINVAL for
 * an invalid path; or another negative errno.
 */
int tern_alt_path_get(struct ib_qp *ibqp, const struct tern_ureq_modify_qp *req,
		      struct tern_alt_path *alt)
{
	struct tern_ib_dev *dev = to_tdev(ibqp->device);

	*alt = (struct tern_alt_path){};
	if (!(req->flags & TERN_MODIFY_QP_ALT_PATH))
		return 0;
	if (!tern_has_cap(dev, TERN_CAP_APM))
		return tern_refuse(dev, -EOPNOTSUPP, "no path migration");
	if (!rdma_is_port_valid(ibqp->device, req->alt.port) ||
	    req->alt.pkey_index)
		return tern_refuse(dev, -EINVAL,
				   "alternate path with port %u, P_Key index %u",
				   req->alt.port, req->alt.pkey_index);

	alt->dev.port = req->alt.port;
	alt->dev.timeout = req->alt.timeout;
	return tern_alt_resolve(ibqp, &req->alt, alt);
}

/* Releases a path that no QP has taken. */
void tern_alt_path_put(struct tern_alt_path *alt)
{
	tern_gid_put(alt->sgid);
	alt->sgid = NULL;
}

/* Fills in the alternate path and the migration state if they are given. */
void tern_alt_path_to_dev(const struct tern_qp *qp,
			  const struct ib_qp_attr *attr, int mask,
			  const struct tern_alt_path *alt,
			  struct tern_qp_alt *to)
{
	u32 dest_qpn = mask & IB_QP_DEST_QPN ? attr->dest_qp_num : qp->dest_qpn;
	u32 flow_label = le32_to_cpu(alt->dev.av.flow_label);
	u16 udp_sport;

	*to = alt->dev;
	udp_sport = rdma_get_udp_sport(flow_label, qp->ibqp.qp_num, dest_qpn);
	to->av.udp_sport = cpu_to_le16(udp_sport);
	if (mask & IB_QP_PATH_MIG_STATE)
		to->mig_state = attr->path_mig_state;
}

/**
 * tern_alt_path_loaded() - keep the GID of a path that the device has taken
 * @dev: the device
 * @qp: the QP, locked
 * @alt: the path
 *
 * The QP may have migrated to the alternate path before this one at any time up to
 * now. If so, the GID of that one stays referenced as well.
 */
void tern_alt_path_loaded(struct tern_ib_dev *dev, struct tern_qp *qp,
			  struct tern_alt_path *alt)
{
	const struct ib_gid_attr *unused = qp->alt_sgid;
	struct tern_rsp_query_qp rsp;

	lockdep_assert_held(&qp->lock);

	if (unused &&
	    !tern_ib_query(dev, TERN_CMD_QUERY_QP, qp->ibqp.qp_num, &rsp,
			   sizeof(rsp)) &&
	    le16_to_cpu(rsp.attr.av.sgid_index) == unused->index)
		swap(unused, qp->path_sgid);
	tern_gid_put(unused);
	qp->alt_sgid = alt->sgid;
	alt->sgid = NULL;
}

/* The device has forgotten the paths of the QP, or the QP is gone. */
void tern_alt_path_forget(struct tern_qp *qp)
{
	tern_gid_put(qp->path_sgid);
	tern_gid_put(qp->alt_sgid);
	qp->path_sgid = NULL;
	qp->alt_sgid = NULL;
}

/* Converts the state and the alternate path of QUERY_QP to ib_core's format. */
void tern_alt_path_to_attr(const struct tern_qp_alt *from,
			   struct ib_qp_attr *attr)
{
	attr->path_mig_state = from->mig_state;
	if (!from->port)
		return;

	tern_av_to_attr(&from->av, &attr->alt_ah_attr);
	attr->alt_pkey_index = le16_to_cpu(from->pkey_index);
	attr->alt_port_num = from->port;
	attr->alt_timeout = from->timeout;
}
