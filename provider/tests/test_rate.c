// SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause)
/* Rate limits: what reaches the kernel, and what is refused before. */

#include <errno.h>
#include <string.h>

#include "fixture.h"

static int set_limit(struct tern_qp *qp, uint32_t rate, uint32_t burst,
		     uint16_t typical)
{
	struct ibv_qp_rate_limit_attr attr = {
		.rate_limit = rate,
		.max_burst_sz = burst,
		.typical_pkt_sz = typical,
	};

	last_modify_mask = 0;
	return tern_modify_qp_rate_limit(&qp->vqp.qp, &attr);
}

void test_rate(void)
{
	struct ibv_qp_rate_limit_attr unknown = { .comp_mask = 1 };
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTS };
	struct tern_cq *cq = make_cq(64);
	struct tern_qp *qp = make_qp(cq, cq, small_cap);

	ctx->caps = 0;
	CHECK(set_limit(qp, 1000, 0, 0) == EOPNOTSUPP && !last_modify_mask);
	ctx->caps = TERN_UCTX_CAP_RATE_LIMIT;

	CHECK(!set_limit(qp, 1000, 4096, 512));
	CHECK(last_modify_mask == IBV_QP_RATE_LIMIT);
	CHECK(last_modify.rate_limit == 1000);
	CHECK(last_request.max_burst == 4096 && last_request.typical_packet == 512);
	CHECK(!set_limit(qp, 0, 0, 0) && !last_modify.rate_limit);
	CHECK(!last_request.max_burst && !last_request.typical_packet);

	/* Without a limit there is no burst. */
	CHECK(set_limit(qp, 0, 1, 0) == EINVAL && !last_modify_mask);
	CHECK(set_limit(qp, 0, 0, 1) == EINVAL && !last_modify_mask);
	CHECK(tern_modify_qp_rate_limit(&qp->vqp.qp, &unknown) == EINVAL);

	attr.rate_limit = 77;
	memset(&last_request, 0xff, sizeof(last_request));
	CHECK(!tern_modify_qp(&qp->vqp.qp, &attr,
			      IBV_QP_STATE | IBV_QP_RATE_LIMIT));
	CHECK(last_modify_mask == (IBV_QP_STATE | IBV_QP_RATE_LIMIT));
	CHECK(last_modify.rate_limit == 77 && !last_request.max_burst);
	last_modify_mask = 0;
	CHECK(!tern_modify_qp(&qp->vqp.qp, &attr, IBV_QP_STATE));
	CHECK(!last_modify_mask);

	create_err = ENOMEM;
	CHECK(set_limit(qp, 1000, 0, 0) == ENOMEM);
	create_err = 0;
	ctx->caps = 0;
	tern_destroy_qp(&qp->vqp.qp);
	tern_destroy_cq(&cq->vcq.cq);
}

void test_rate_caps(void)
{
	struct ibv_device_attr_ex attr = {};
	const struct ibv_packet_pacing_caps *caps = &attr.packet_pacing_caps;
	const size_t before = offsetof(struct ibv_device_attr_ex,
				       packet_pacing_caps);

	ctx->max_rate = 25000000;
	tern_rate_query_device(ctx, &attr, sizeof(attr));
	CHECK(!caps->qp_rate_limit_max && !caps->supported_qpts);
	ctx->caps = TERN_UCTX_CAP_RATE_LIMIT;
	tern_rate_query_device(ctx, &attr, before);
	CHECK(!caps->qp_rate_limit_max && !caps->supported_qpts);
	tern_rate_query_device(ctx, &attr, sizeof(attr));
	CHECK(caps->qp_rate_limit_min == 1);
	CHECK(caps->qp_rate_limit_max == 25000000);
	CHECK(caps->supported_qpts & 1 << IBV_QPT_RAW_PACKET);
	CHECK(!(caps->supported_qpts & 1 << IBV_QPT_XRC_RECV));
	ctx->caps = 0;
}
