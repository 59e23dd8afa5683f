// SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause)
/*
 * Enhanced connection establishment: options of a connection that both ends
 * accept. rdma_cm carries them in both directions.
 */

#include <errno.h>

#include "tern.h"
#include "tern_verbs.h"

/* The options that the QP may have. */
static uint32_t tern_ece_supported(const struct tern_qp *qp)
{
	const struct tern_context *ctx = to_tern_ctx(qp->vqp.qp.context);

	if (!(ctx->caps & TERN_UCTX_CAP_ECE))
		return 0;

	switch (qp->type->qp_type) {
	case IBV_QPT_RC:
	case IBV_QPT_XRC_SEND:
	case IBV_QPT_XRC_RECV:
		return TERN_ECE_OPTIONS;
	default:
		return 0;
	}
}

/*
 * ibv_query_ece(3): the options that were accepted, or if none were requested
 * yet, all that the QP may have.
 */
int tern_query_ece(struct ibv_qp *ibvqp, struct ibv_ece *ece)
{
	const struct tern_qp *qp = to_tern_qp(ibvqp);

	ece->vendor_id = TERN_PCI_VENDOR_ID;
	ece->options = qp->ece_set ? qp->ece : tern_ece_supported(qp);
	ece->comp_mask = 0;

	return 0;
}

/*
 * ibv_set_ece(3): accepts the options that the QP may have, and returns them.
 * They hold from the move to RTR. EINVAL from there on, and for another vendor.
 */
int tern_set_ece(struct ibv_qp *ibvqp, struct ibv_ece *ece)
{
	struct tern_qp *qp = to_tern_qp(ibvqp);

	if (ece->comp_mask || ece->vendor_id != TERN_PCI_VENDOR_ID ||
	    (ibvqp->state != IBV_QPS_RESET && ibvqp->state != IBV_QPS_INIT))
		return EINVAL;

	qp->ece = ece->options & tern_ece_supported(qp);
	qp->ece_set = true;
	ece->options = qp->ece;

	return 0;
}
