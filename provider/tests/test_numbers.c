// SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause)
/* Numbers of QPs: one owner each, whenever the kernel reuses them. */

#include <errno.h>

#include "fixture.h"

/*
 * A number that the kernel reuses before its previous owner is cleaned up: the
 * new QP gets another one, and the completions of both stay apart.
 */
void test_number_reuse(void)
{
	struct tern_cq *cq = make_cq(16);
	struct tern_qp *old = make_qp(cq, cq, small_cap);
	struct tern_qp *other = make_qp(cq, cq, small_cap);
	uint32_t qpn = old->vqp.qp.qp_num, new_qpn;
	struct tern_qp *new;
	struct ibv_wc wc;

	put_cqe(cq, 0, qpn, 1, 0, 0);
	put_cqe(cq, 1, other->vqp.qp.qp_num, 2, 0, 0);
	/* Both numbers have owners. */
	next_qpn = qpn;
	new = make_qp(cq, cq, small_cap);
	new_qpn = new->vqp.qp.qp_num;
	CHECK(new_qpn != qpn && new_qpn != other->vqp.qp.qp_num);
	CHECK(tern_find_qp(ctx, qpn) == old);
	CHECK(tern_find_qp(ctx, new_qpn) == new);
	put_cqe(cq, 2, new_qpn, 3, 0, 0);
	CHECK(!tern_destroy_qp(&old->vqp.qp));
	CHECK(!tern_find_qp(ctx, qpn));
	CHECK(tern_poll_cq(&cq->vcq.cq, 1, &wc) == 1 && wc.wr_id == 2);
	CHECK(tern_poll_cq(&cq->vcq.cq, 1, &wc) == 1 && wc.wr_id == 3);
	/* Completions of unknown QP numbers are still returned. */
	put_cqe(cq, 3, 0xfff123, 4, 0, 0);
	CHECK(tern_poll_cq(&cq->vcq.cq, 1, &wc) == 1 && wc.wr_id == 4);
	next_qpn = 0x200;
	tern_destroy_qp(&new->vqp.qp);
	tern_destroy_qp(&other->vqp.qp);
	tern_destroy_cq(&cq->vcq.cq);
}

/* Every number that the kernel offers still has an owner. */
void test_number_shortage(void)
{
	struct tern_cq *cq = make_cq(16);
	struct tern_qp *qps[TERN_NUMBER_TRIES];
	struct ibv_qp_init_attr attr = {
		.send_cq = &cq->vcq.cq,
		.recv_cq = &cq->vcq.cq,
		.qp_type = IBV_QPT_RC,
	};
	struct ibv_qp *qp;
	unsigned int i;

	for (i = 0; i < TERN_NUMBER_TRIES; i++)
		qps[i] = make_qp(cq, cq, small_cap);
	next_qpn = qps[0]->vqp.qp.qp_num;
	kernel_qps = 0;
	CHECK(!tern_create_qp(&test_pd.ibvpd, &attr) && errno == ENOMEM);
	CHECK(!kernel_qps);
	next_qpn = qps[1]->vqp.qp.qp_num;
	qp = tern_create_qp(&test_pd.ibvpd, &attr);
	CHECK(qp && kernel_qps == 1);
	CHECK(!tern_destroy_qp(qp));
	for (i = 0; i < TERN_NUMBER_TRIES; i++)
		tern_destroy_qp(&qps[i]->vqp.qp);
	tern_destroy_cq(&cq->vcq.cq);
}
