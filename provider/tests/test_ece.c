// SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause)
/* Options of a connection: what is accepted, and when the kernel gets them. */

#include <errno.h>

#include "fixture.h"
#include "tern_verbs.h"

static void to_state(struct tern_qp *qp, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = { .qp_state = state };

	CHECK(!tern_modify_qp(&qp->vqp.qp, &attr, IBV_QP_STATE));
}

static uint32_t query(struct tern_qp *qp)
{
	struct ibv_ece ece = { .vendor_id = 1, .options = ~0, .comp_mask = 1 };

	CHECK(!tern_query_ece(&qp->vqp.qp, &ece));
	CHECK(ece.vendor_id == TERN_PCI_VENDOR_ID && !ece.comp_mask);
	return ece.options;
}

/* Returns what of the options was accepted. */
static uint32_t set(struct tern_qp *qp, uint32_t options)
{
	struct ibv_ece ece = {
		.vendor_id = TERN_PCI_VENDOR_ID,
		.options = options,
	};

	CHECK(!tern_set_ece(&qp->vqp.qp, &ece));
	CHECK(ece.vendor_id == TERN_PCI_VENDOR_ID && !ece.comp_mask);
	return ece.options;
}

static void refuse(struct tern_qp *qp, struct ibv_ece ece)
{
	uint32_t before = query(qp);

	CHECK(tern_set_ece(&qp->vqp.qp, &ece) == EINVAL);
	CHECK(query(qp) == before);
}

void test_ece(void)
{
	const struct ibv_ece all = { .vendor_id = TERN_PCI_VENDOR_ID,
				     .options = TERN_ECE_OPTIONS };
	struct tern_cq *cq = make_cq(16);
	struct tern_qp *qp;

	ctx->caps = TERN_UCTX_CAP_ECE;
	qp = make_qp(cq, cq, small_cap);
	qp->vqp.qp.state = IBV_QPS_RESET;
	CHECK(query(qp) == TERN_ECE_OPTIONS);
	refuse(qp, (struct ibv_ece){ .vendor_id = 0x15b3 });
	refuse(qp, (struct ibv_ece){ .vendor_id = TERN_PCI_VENDOR_ID,
				     .comp_mask = 1 });

	/* Nobody asked: the connection has no options. */
	to_state(qp, IBV_QPS_INIT);
	to_state(qp, IBV_QPS_RTR);
	CHECK(!last_request.ece_options);
	refuse(qp, all);

	/* Unknown options are left out, the others go with the move to RTR. */
	to_state(qp, IBV_QPS_RESET);
	CHECK(set(qp, ~0) == TERN_ECE_OPTIONS);
	to_state(qp, IBV_QPS_INIT);
	CHECK(!last_request.ece_options && query(qp) == TERN_ECE_OPTIONS);
	to_state(qp, IBV_QPS_RTR);
	CHECK(last_request.ece_options == TERN_ECE_OPTIONS);
	to_state(qp, IBV_QPS_RTS);
	CHECK(!last_request.ece_options && query(qp) == TERN_ECE_OPTIONS);
	refuse(qp, all);

	/* The peer may want none, and the next connection may be another. */
	to_state(qp, IBV_QPS_RESET);
	to_state(qp, IBV_QPS_INIT);
	CHECK(!set(qp, 0) && !query(qp));
	to_state(qp, IBV_QPS_RTR);
	CHECK(!last_request.ece_options && !query(qp));
	to_state(qp, IBV_QPS_RESET);
	CHECK(query(qp) == TERN_ECE_OPTIONS);

	tern_destroy_qp(&qp->vqp.qp);
	tern_destroy_cq(&cq->vcq.cq);
}

/* A QP that cannot have options says so, and takes none. */
void test_ece_types(void)
{
	struct tern_cq *cq = make_cq(16);
	struct tern_qp *ud, *rc;

	ctx->caps = TERN_UCTX_CAP_ECE;
	ud = make_typed_qp(IBV_QPT_UD, cq, cq, NULL, small_cap, 0);
	ud->vqp.qp.state = IBV_QPS_RESET;
	CHECK(!query(ud) && !set(ud, ~0));
	to_state(ud, IBV_QPS_RTR);
	CHECK(!last_request.ece_options);

	ctx->caps = 0;
	rc = make_qp(cq, cq, small_cap);
	rc->vqp.qp.state = IBV_QPS_RESET;
	CHECK(!query(rc) && !set(rc, ~0));
	to_state(rc, IBV_QPS_RTR);
	CHECK(!last_request.ece_options);

	tern_destroy_qp(&rc->vqp.qp);
	tern_destroy_qp(&ud->vqp.qp);
	tern_destroy_cq(&cq->vcq.cq);
}
