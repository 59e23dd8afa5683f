// SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause)
/* Tracepoints: what they say, and that nothing else is traced. */

#include <errno.h>

#include "fixture.h"

/* Whether the thread has hit exactly these tracepoints, and forgets them. */
static bool traced(const struct trace *expected, unsigned int num)
{
	bool same = num_traces == num;
	unsigned int i;

	for (i = 0; same && i < num; i++)
		same = !strcmp(traces[i].name, expected[i].name) &&
		       traces[i].wr_id == expected[i].wr_id &&
		       traces[i].opcode == expected[i].opcode &&
		       traces[i].num == expected[i].num &&
		       traces[i].num_sge == expected[i].num_sge &&
		       traces[i].length == expected[i].length &&
		       traces[i].cqn == expected[i].cqn &&
		       traces[i].status == expected[i].status &&
		       traces[i].arm == expected[i].arm &&
		       traces[i].kick == expected[i].kick;
	num_traces = 0;
	return same;
}

#define TRACED(...)                                                            \
	traced((const struct trace[]){ __VA_ARGS__ },                          \
	       sizeof((const struct trace[]){ __VA_ARGS__ }) /                 \
		       sizeof(struct trace))

/* A list is traced up to its bad request, a session when it is complete. */
static void check_sends(struct tern_qp *qp)
{
	struct ibv_sge sges[2] = { { 0x1000, 64, 7 }, { 0x2000, 1, 7 } };
	struct ibv_send_wr *bad, wr[3] = {
		{ .wr_id = 5, .next = &wr[1], .sg_list = sges, .num_sge = 2,
		  .opcode = IBV_WR_RDMA_WRITE },
		{ .wr_id = 6, .next = &wr[2], .opcode = IBV_WR_SEND },
		{ .wr_id = 7, .opcode = IBV_WR_TSO },
	};
	struct ibv_qp_ex *qpx = &qp->vqp.qp_ex;
	uint32_t qpn = qp->vqp.qp.qp_num;
	char data[3] = {};

	CHECK(tern_post_send(&qp->vqp.qp, wr, &bad) && bad == &wr[2]);
	CHECK(TRACED({ "post_send", .wr_id = 5, .opcode = TERN_WR_RDMA_WRITE,
		       .num = qpn, .num_sge = 2 },
		     { "post_send", .wr_id = 6, .opcode = TERN_WR_SEND,
		       .num = qpn }));

	qpx->wr_start(qpx);
	qpx->wr_id = 8;
	qpx->wr_send(qpx);
	qpx->wr_abort(qpx);
	CHECK(!num_traces);
	qpx->wr_start(qpx);
	qpx->wr_id = 9;
	qpx->wr_send(qpx);
	qpx->wr_set_inline_data(qpx, data, sizeof(data));
	CHECK(!num_traces);
	CHECK(!qpx->wr_complete(qpx));
	CHECK(TRACED({ "post_send", .wr_id = 9, .opcode = TERN_WR_SEND,
		       .num = qpn, .length = sizeof(data) }));
}

static void check_recvs(struct tern_qp *qp)
{
	struct ibv_srq_init_attr attr = { .attr = { 4, 1, 0 } };
	struct ibv_srq *srq = tern_create_srq(&test_pd.ibvpd, &attr);
	struct ibv_sge sge = { 0x1000, 64, 7 };
	struct ibv_recv_wr *bad, wr = {
		.wr_id = 10, .sg_list = &sge, .num_sge = 1,
	};

	CHECK(!tern_post_recv(&qp->vqp.qp, &wr, &bad));
	CHECK(TRACED({ "post_recv", .wr_id = 10, .num = qp->vqp.qp.qp_num,
		       .num_sge = 1 }));
	CHECK(!tern_post_srq_recv(srq, &wr, &bad));
	CHECK(TRACED({ "post_srq_recv", .wr_id = 10,
		       .num = to_tern_srq(srq)->srqn, .num_sge = 1 }));
	wr.num_sge = 100;
	CHECK(tern_post_recv(&qp->vqp.qp, &wr, &bad) == EINVAL);
	CHECK(tern_post_srq_recv(srq, &wr, &bad) == EINVAL);
	CHECK(!num_traces);
	CHECK(!tern_destroy_srq(srq));
}

/* Each completion is traced once, by both ways to poll. */
static void check_polls(struct tern_cq *cq, uint32_t qpn)
{
	struct tern_cqe cqe = {
		.wr_id = htole64(11),
		.qpn = htole32(qpn),
		.byte_len = htole32(12),
		.status = TERN_CQE_LOC_PROT_ERR,
		.opcode = TERN_WR_RDMA_READ,
	};
	struct trace expected = {
		"poll_cq", .wr_id = 11, .opcode = IBV_WC_RDMA_READ, .num = qpn,
		.length = 12, .cqn = cq->cqn, .status = IBV_WC_LOC_PROT_ERR,
	};
	struct ibv_cq_ex *cqx = &cq->vcq.cq_ex;
	struct ibv_poll_cq_attr attr = {};
	struct ibv_wc wc[2];

	CHECK(!tern_poll_cq(&cq->vcq.cq, 2, wc) && !num_traces);
	put_whole_cqe(cq, 0, &cqe);
	CHECK(tern_poll_cq(&cq->vcq.cq, 2, wc) == 1);
	CHECK(traced(&expected, 1));
	put_whole_cqe(cq, 1, &cqe);
	CHECK(!cqx->start_poll(cqx, &attr));
	CHECK(traced(&expected, 1));
	CHECK(cqx->next_poll(cqx) == ENOENT);
	cqx->end_poll(cqx);
	CHECK(!num_traces);
}

/* The arm word, and whether the device has to be kicked for a CQE. */
static void check_arms(struct tern_cq *cq, uint32_t qpn)
{
	uint32_t arm = TERN_CQ_ARM_VALID | TERN_CQ_ARM_SOLICITED |
		       FIELD_PREP(TERN_CQ_ARM_CI_MASK, 2);

	CHECK(!tern_req_notify_cq(&cq->vcq.cq, 1));
	CHECK(TRACED({ "arm_cq", .cqn = cq->cqn, .arm = arm }));
	put_cqe(cq, 2, qpn, 1, 0, 0);
	CHECK(!tern_req_notify_cq(&cq->vcq.cq, 1) && last_kick());
	CHECK(TRACED({ "arm_cq", .cqn = cq->cqn, .arm = arm, .kick = 1 }));
}

void test_trace(void)
{
	struct tern_cq *cq = make_cq(8);
	struct tern_qp *qp = make_qp(cq, cq, small_cap);

	num_traces = 0;
	check_sends(qp);
	check_recvs(qp);
	check_polls(cq, qp->vqp.qp.qp_num);
	check_arms(cq, qp->vqp.qp.qp_num);
	CHECK(!tern_destroy_qp(&qp->vqp.qp));
	CHECK(!tern_destroy_cq(&cq->vcq.cq));
	CHECK(!num_traces);
	last_kick();
}
