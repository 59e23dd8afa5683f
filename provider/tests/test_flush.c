// SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause)
/*
 * FLUSH and ATOMIC WRITE: their WQEs, refused requests, and that only
 * ibv_wr_*() builds them.
 */

#include <errno.h>

#include "fixture.h"

#define BUILT_OPS (IBV_QP_EX_WITH_FLUSH | IBV_QP_EX_WITH_ATOMIC_WRITE)
#define BUILT_CAPS (TERN_UCTX_CAP_FLUSH | TERN_UCTX_CAP_ATOMIC_WRITE)

static const enum ibv_qp_type types[] = { IBV_QPT_RC, IBV_QPT_XRC_SEND };

static struct tern_qp *make_built_qp(enum ibv_qp_type type, struct tern_cq *cq)
{
	ctx->caps = BUILT_CAPS;

	return make_typed_qp(type, cq, type == IBV_QPT_RC ? cq : NULL, NULL,
			     small_cap, RC_OPS | BUILT_OPS);
}

static struct ibv_qp_ex *start(struct tern_qp *qp)
{
	struct ibv_qp_ex *qpx = &qp->vqp.qp_ex;

	qpx->wr_start(qpx);
	qpx->wr_id = 0x1122334455667788;
	qpx->wr_flags = IBV_SEND_SIGNALED | IBV_SEND_FENCE;

	return qpx;
}

static int complete(struct tern_qp *qp)
{
	struct ibv_qp_ex *qpx = &qp->vqp.qp_ex;

	if (qp->type->xrc)
		qpx->wr_set_xrc_srqn(qpx, 0x654321);

	return qpx->wr_complete(qpx);
}

/* Header of the last posted WQE. */
static struct tern_sq_hdr *last_hdr(struct tern_qp *qp, uint8_t opcode,
				    uint8_t flags)
{
	struct tern_sq_hdr *hdr = tern_wq_slot(&qp->sq, sq_pi(qp) - 1);

	CHECK(hdr->opcode == opcode && hdr->flags == flags);
	CHECK(le64toh(hdr->wr_id) == 0x1122334455667788);
	CHECK(le32toh(hdr->xrc_srqn) == (qp->type->xrc ? 0x654321 : 0));
	CHECK(last_kick() == kick_of(TERN_DB_CMD_SQ, qp->vqp.qp.qp_num));

	return hdr;
}

/* The session posts nothing and returns the error. */
#define REFUSED(build, err)                                                    \
	do {                                                                   \
		uint32_t before = sq_pi(qp);                                   \
		qpx = start(qp);                                               \
		build;                                                         \
		CHECK(complete(qp) == (err));                                  \
		CHECK(sq_pi(qp) == before && !last_kick());                    \
	} while (0)

void test_flush(void)
{
	const uint8_t flags = TERN_WQE_F_SIGNALED | TERN_WQE_F_FENCE;
	struct tern_cq *cq = make_cq(64);
	unsigned int i;

	for (i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		struct tern_qp *qp = make_built_qp(types[i], cq);
		struct tern_flush_seg *seg;
		struct tern_sq_hdr *hdr;
		struct ibv_qp_ex *qpx;
		char data[8] = {};

		qpx = start(qp);
		qpx->wr_flush(qpx, 0xa1b2c3d4, 0x1122334455667788, 4096,
			      IBV_FLUSH_GLOBAL, IBV_FLUSH_RANGE);
		CHECK(!complete(qp));
		hdr = last_hdr(qp, TERN_WR_FLUSH, flags);
		seg = (void *)(hdr + 1);
		CHECK(!hdr->num_sge && !hdr->length);
		CHECK(le64toh(seg->raddr) == 0x1122334455667788);
		CHECK(le32toh(seg->rkey) == 0xa1b2c3d4);
		CHECK(seg->type == TERN_FLUSH_GLOBAL);
		CHECK(seg->level == TERN_FLUSH_LEVEL_RANGE);
		CHECK(le64toh(seg->length) == 4096 && !seg->rsvd_18);

		/*
		 * Lengths are not truncated. A device without persistent memory
		 * refuses persistence itself.
		 */
		qpx = start(qp);
		qpx->wr_flush(qpx, 1, 2, SIZE_MAX,
			      IBV_FLUSH_GLOBAL | IBV_FLUSH_PERSISTENT,
			      IBV_FLUSH_MR);
		qpx->wr_set_sge(qpx, 7, (uintptr_t)data, 8);
		CHECK(!complete(qp));
		hdr = last_hdr(qp, TERN_WR_FLUSH, flags);
		seg = (void *)(hdr + 1);
		CHECK(le64toh(seg->length) == UINT64_MAX);
		CHECK(seg->type == (TERN_FLUSH_GLOBAL | TERN_FLUSH_PERSISTENT));
		CHECK(seg->level == TERN_FLUSH_LEVEL_MR);

		REFUSED(qpx->wr_flush(qpx, 1, 2, 3, 0, 0), EINVAL);
		REFUSED(qpx->wr_flush(qpx, 1, 2, 3, 4, 0), EINVAL);
		REFUSED(qpx->wr_flush(qpx, 1, 2, 3, 0x81, 0), EINVAL);
		REFUSED(qpx->wr_flush(qpx, 1, 2, 3, 1, 2), EINVAL);
		REFUSED(qpx->wr_flush(qpx, 1, 2, 3, 1, 0x10), EINVAL);
		REFUSED(qpx->wr_flush(qpx, 1, 2, 3, 1, 0);
			qpx->wr_set_inline_data(qpx, data, 8), EINVAL);
		tern_destroy_qp(&qp->vqp.qp);
	}
	ctx->caps = 0;
	tern_destroy_cq(&cq->vcq.cq);
}

void test_atomic_write(void)
{
	const uint8_t flags = TERN_WQE_F_SIGNALED | TERN_WQE_F_FENCE |
			      TERN_WQE_F_INLINE;
	static char bytes[] = "x01234567";
	struct tern_cq *cq = make_cq(64);
	unsigned int i;

	for (i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		struct tern_qp *qp = make_built_qp(types[i], cq);
		struct tern_rdma_seg *seg;
		struct tern_sq_hdr *hdr;
		struct ibv_qp_ex *qpx;

		qpx = start(qp);
		qpx->wr_atomic_write(qpx, 0xa1b2c3d4, 0x1122334455667788,
				     bytes + 1);
		CHECK(!complete(qp));
		hdr = last_hdr(qp, TERN_WR_ATOMIC_WRITE, flags);
		seg = (void *)(hdr + 1);
		CHECK(!hdr->num_sge && le32toh(hdr->length) == 8);
		CHECK(le64toh(seg->raddr) == 0x1122334455667788);
		CHECK(le32toh(seg->rkey) == 0xa1b2c3d4);
		CHECK(!memcmp(seg + 1, "01234567", 8));

		/* The value is set, so further data is refused. */
		REFUSED(qpx->wr_atomic_write(qpx, 1, 8, bytes);
			qpx->wr_set_sge(qpx, 7, 8, 8), EINVAL);
		REFUSED(qpx->wr_atomic_write(qpx, 1, 8, bytes);
			qpx->wr_set_inline_data(qpx, bytes, 8), EINVAL);
		tern_destroy_qp(&qp->vqp.qp);
	}
	ctx->caps = 0;
	tern_destroy_cq(&cq->vcq.cq);
}

/* A full queue, ibv_post_send(), missing opcodes, completions. */
void test_built_ops(void)
{
	static const enum ibv_qp_type all[] = {
		IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD, IBV_QPT_XRC_SEND,
	};
	static const uint64_t asked[] = {
		IBV_QP_EX_WITH_FLUSH, IBV_QP_EX_WITH_ATOMIC_WRITE,
	};
	static const struct {
		uint8_t opcode;
		enum ibv_wc_opcode wc;
	} done[] = {
		{ TERN_WR_FLUSH, IBV_WC_FLUSH },
		{ TERN_WR_ATOMIC_WRITE, IBV_WC_ATOMIC_WRITE },
	};
	struct tern_cq *cq = make_cq(64);
	struct tern_qp *qp = make_built_qp(IBV_QPT_RC, cq);
	struct ibv_qp_ex *qpx = &qp->vqp.qp_ex;
	struct ibv_send_wr *bad, wr = {};
	struct ibv_wc wc;
	unsigned int i, j;

	for (i = 0; i < 2; i++) {
		wr.opcode = i ? IBV_WR_ATOMIC_WRITE : IBV_WR_FLUSH;
		bad = NULL;
		CHECK(tern_post_send(&qp->vqp.qp, &wr, &bad) == EINVAL);
		CHECK(bad == &wr && !sq_pi(qp) && !last_kick());
	}
	qpx->wr_start(qpx);
	for (i = 0; i <= qp->sq.mask + 1; i++)
		qpx->wr_flush(qpx, 1, 2, 3, IBV_FLUSH_GLOBAL, IBV_FLUSH_RANGE);
	CHECK(qpx->wr_complete(qpx) == ENOMEM && !sq_pi(qp));

	for (i = 0; i < 2; i++) {
		struct tern_cqe cqe = {
			.wr_id = htole64(i),
			.qpn = htole32(qp->vqp.qp.qp_num),
			.opcode = done[i].opcode,
		};

		put_whole_cqe(cq, i, &cqe);
		CHECK(tern_poll_cq(&cq->vcq.cq, 1, &wc) == 1);
		CHECK(wc.wr_id == i && wc.opcode == done[i].wc);
		CHECK(wc.status == IBV_WC_SUCCESS && !wc.wc_flags);
	}
	tern_destroy_qp(&qp->vqp.qp);

	for (i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		for (j = 0; j < 4; j++) {
			bool has = all[i] == IBV_QPT_RC ||
				   all[i] == IBV_QPT_XRC_SEND;
			struct ibv_qp_init_attr_ex attr = {
				.send_cq = &cq->vcq.cq,
				.recv_cq = &cq->vcq.cq,
				.cap = small_cap,
				.qp_type = all[i],
				.comp_mask = IBV_QP_INIT_ATTR_PD |
					     IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
				.pd = &test_pd.ibvpd,
				.send_ops_flags = asked[j & 1],
			};
			struct ibv_qp *made;

			/* Neither capability enables the other opcode. */
			ctx->caps = (j & 1) ^ (j >> 1) ?
					    TERN_UCTX_CAP_ATOMIC_WRITE :
					    TERN_UCTX_CAP_FLUSH;
			has = has && !(j >> 1);
			made = tern_create_qp_ex(&ctx->vctx.context, &attr);
			CHECK(has ? !!made : !made && errno == EOPNOTSUPP);
			if (made)
				tern_destroy_qp(made);
		}
	ctx->caps = 0;
	tern_destroy_cq(&cq->vcq.cq);
}
