// SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause)
/* Binds and invalidations: WQEs, keys, refusals, completions. */

#include <errno.h>

#include "fixture.h"

#define WINDOW_OPS (IBV_QP_EX_WITH_BIND_MW | IBV_QP_EX_WITH_LOCAL_INV)
#define WINDOW_ACCESS                                                          \
	(IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |                    \
	 IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_ZERO_BASED |                    \
	 IBV_ACCESS_LOCAL_WRITE)

static const enum ibv_qp_type types[] = { IBV_QPT_RC, IBV_QPT_UC,
					  IBV_QPT_XRC_SEND };

static struct ibv_pd pd, other_pd;
static struct ibv_mr mr = { .pd = &pd, .lkey = 0x00776655 };

static const struct ibv_mw_bind_info info = {
	.mr = &mr,
	.addr = 0x1122334455667788,
	.length = 0x123456789abcdef0,
	.mw_access_flags = WINDOW_ACCESS,
};

static struct ibv_mw make_mw(enum ibv_mw_type type)
{
	return (struct ibv_mw) {
		.context = &ctx->vctx.context,
		.pd = &pd,
		.rkey = 0xabcdef12,
		.type = type,
	};
}

/* Creates a QP that may post binds through every interface. */
static struct tern_qp *make_window_qp(enum ibv_qp_type type, struct tern_cq *cq)
{
	ctx->caps = TERN_UCTX_CAP_MW;
	ctx->vctx.context.ops.bind_mw = tern_bind_mw;
	return make_typed_qp(type, cq, cq, NULL, small_cap,
			     WINDOW_OPS | IBV_QP_EX_WITH_SEND);
}

/*
 * Checks that WQE number index has exactly this header and segment, and that
 * the device was kicked.
 */
static void check_wqe(struct tern_qp *qp, uint32_t index,
		      const struct tern_sq_hdr *hdr, const void *seg,
		      size_t seg_size)
{
	uint8_t *wqe = tern_wq_slot(&qp->sq, index);

	CHECK(!memcmp(wqe, hdr, sizeof(*hdr)));
	CHECK(!seg || !memcmp(wqe + sizeof(*hdr), seg, seg_size));
	CHECK(sq_pi(qp) == index + 1);
	CHECK(last_kick() == kick_of(TERN_DB_CMD_SQ, qp->vqp.qp.qp_num));
}

static void check_bind(struct tern_qp *qp, uint32_t index,
		       const struct ibv_mw *mw, uint32_t rkey,
		       uint32_t new_rkey)
{
	const struct tern_sq_hdr hdr = {
		.opcode = TERN_WR_BIND_MW,
		.flags = TERN_WQE_F_SIGNALED | TERN_WQE_F_FENCE,
		.wr_id = htole64(0x8877665544332211),
	};
	const struct tern_bind_seg seg = {
		.addr = htole64(info.addr),
		.length = htole64(info.length),
		.lkey = htole32(mr.lkey),
		.rkey = htole32(rkey),
		.new_rkey = htole32(new_rkey),
		.access = htole32(TERN_ACCESS_LOCAL_WRITE |
				  TERN_ACCESS_REMOTE_WRITE |
				  TERN_ACCESS_REMOTE_READ |
				  TERN_ACCESS_REMOTE_ATOMIC |
				  TERN_ACCESS_ZERO_BASED),
		.type = mw->type,
	};

	check_wqe(qp, index, &hdr, &seg, sizeof(seg));
}

/* Bytes of a bind, by ibv_bind_mw(), ibv_post_send(), ibv_wr_bind_mw(). */
void test_bind_encoding(void)
{
	struct tern_cq *cq = make_cq(64);
	unsigned int i;

	for (i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		struct tern_qp *qp = make_window_qp(types[i], cq);
		struct ibv_qp_ex *qpx = &qp->vqp.qp_ex;
		struct ibv_mw mw1 = make_mw(IBV_MW_TYPE_1);
		struct ibv_mw mw2 = make_mw(IBV_MW_TYPE_2);
		struct ibv_mw_bind bind = {
			.wr_id = 0x8877665544332211,
			.send_flags = IBV_SEND_SIGNALED | IBV_SEND_FENCE,
			.bind_info = info,
		};
		/* SGEs of a bind are ignored, even their address. */
		struct ibv_send_wr *bad, wr = {
			.wr_id = bind.wr_id,
			.opcode = IBV_WR_BIND_MW,
			.send_flags = bind.send_flags,
			.num_sge = 1000,
			.sg_list = (void *)8,
			.bind_mw = { .mw = &mw2, .rkey = 0xabcdef99,
				     .bind_info = info },
		};

		memset(qp->sq.slots, 0xff, tern_wq_bytes(&qp->sq));
		CHECK(!ibv_bind_mw(&qp->vqp.qp, &mw1, &bind));
		CHECK(mw1.rkey == 0xabcdef13);
		check_bind(qp, 0, &mw1, 0xabcdef12, 0xabcdef13);

		CHECK(!tern_post_send(&qp->vqp.qp, &wr, &bad));
		check_bind(qp, 1, &mw2, 0xabcdef12, 0xabcdef99);

		qpx->wr_start(qpx);
		qpx->wr_id = bind.wr_id;
		qpx->wr_flags = bind.send_flags;
		ibv_wr_bind_mw(qpx, &mw2, 0xabcdef12, &info);
		CHECK(!qpx->wr_complete(qpx));
		check_bind(qp, 2, &mw2, 0xabcdef12, 0xabcdef12);
		/* For type 2, the consumer manages the keys. */
		CHECK(mw2.rkey == 0xabcdef12);
		tern_destroy_qp(&qp->vqp.qp);
	}
	tern_destroy_cq(&cq->vcq.cq);
}

/*
 * Type 1 windows: keys count up in their last byte, also when unbinding and
 * without a region.
 */
void test_bind_keys(void)
{
	struct tern_cq *cq = make_cq(64);
	struct tern_qp *qp = make_window_qp(IBV_QPT_RC, cq);
	struct ibv_mw mw = make_mw(IBV_MW_TYPE_1);
	struct ibv_mw_bind bind = { .bind_info = info };
	struct tern_bind_seg *seg;
	struct tern_sq_hdr *hdr;
	uint32_t before;
	unsigned int i;

	qp->wqe_flags = TERN_WQE_F_SIGNALED; /* as with sq_sig_all */
	for (i = 0; i < 600; i++) {
		before = mw.rkey;
		qp->sq.head = 0;
		bind.bind_info = info;
		if (i % 3 == 1)
			bind.bind_info.length = 0;
		else if (i % 3 == 2)
			memset(&bind.bind_info, 0, sizeof(bind.bind_info));
		CHECK(!ibv_bind_mw(&qp->vqp.qp, &mw, &bind));
		CHECK(mw.rkey == ((before & ~0xffU) | ((before + 1) & 0xff)));
		hdr = tern_wq_slot(&qp->sq, 0);
		seg = (void *)(hdr + 1);
		CHECK(hdr->flags == TERN_WQE_F_SIGNALED);
		CHECK(le32toh(seg->rkey) == before);
		CHECK(le32toh(seg->new_rkey) == mw.rkey);
		CHECK(le32toh(seg->lkey) ==
		      (i % 3 == 2 ? TERN_KEY_INVALID : mr.lkey));
		CHECK(le64toh(seg->length) == (i % 3 ? 0 : info.length));
	}
	tern_destroy_qp(&qp->vqp.qp);
	tern_destroy_cq(&cq->vcq.cq);
}

/* A refused ibv_bind_mw() leaves key, queue and device unchanged. */
static void refuse_verb(struct tern_qp *qp, struct ibv_mw *mw,
			struct ibv_mw_bind *bind, int err)
{
	uint32_t pi = sq_pi(qp), head = qp->sq.head;
	uint32_t rkey = mw->rkey;

	last_kick();
	CHECK(ibv_bind_mw(&qp->vqp.qp, mw, bind) == err);
	CHECK(mw->rkey == rkey && sq_pi(qp) == pi && qp->sq.head == head);
	CHECK(!last_kick());
}

void test_bind_verb_refused(void)
{
	struct tern_cq *cq = make_cq(64);
	struct tern_qp *qp = make_window_qp(IBV_QPT_UC, cq);
	struct tern_qp *ud = make_typed_qp(IBV_QPT_UD, cq, cq, NULL, small_cap,
					   IBV_QP_EX_WITH_SEND);
	struct ibv_mw mw = make_mw(IBV_MW_TYPE_1), mw2;
	const struct ibv_mw_bind good = { .bind_info = info };
	struct tern_qp *without;
	struct ibv_mw_bind bind;
	unsigned int i;

#define REFUSED(change, err)                                                   \
	do {                                                                   \
		bind = good;                                                   \
		change;                                                        \
		refuse_verb(qp, &mw, &bind, err);                              \
	} while (0)

	for (i = 0; i < 32; i++)
		if (!(WINDOW_ACCESS & (1U << i)))
			REFUSED(bind.bind_info.mw_access_flags |= 1U << i,
				EINVAL);
	for (i = 0; i < 32; i++)
		if (!((IBV_SEND_FENCE | IBV_SEND_SIGNALED) & (1U << i)))
			REFUSED(bind.send_flags |= 1U << i,
				1U << i == IBV_SEND_IP_CSUM ? EOPNOTSUPP :
							      EINVAL);
	REFUSED(bind.bind_info.mr = NULL, EINVAL);
	REFUSED(bind.bind_info.mr = NULL; bind.bind_info.addr = 0, EINVAL);
	REFUSED(bind.bind_info.mr = NULL; bind.bind_info.length = 0, EINVAL);
	mw.pd = &other_pd;
	REFUSED(, EPERM);
	mw.pd = &pd;
	mw2 = make_mw(IBV_MW_TYPE_2);
	bind = good;
	refuse_verb(qp, &mw2, &bind, EINVAL);
	refuse_verb(ud, &mw, &bind, EINVAL);
	for (i = IBV_QPS_RESET; i < IBV_QPS_RTS; i++)
		REFUSED(qp->vqp.qp.state = i, EINVAL);
	qp->vqp.qp.state = IBV_QPS_RTS;

	ctx->caps = 0;
	without = make_typed_qp(IBV_QPT_UC, cq, cq, NULL, small_cap, 0);
	refuse_verb(without, &mw, &bind, EOPNOTSUPP);

	for (i = 0; i <= qp->sq.mask; i++)
		CHECK(!ibv_bind_mw(&qp->vqp.qp, &mw, &bind));
	CHECK(mw.rkey == 0xabcdef12 + i);
	REFUSED(, ENOMEM);
#undef REFUSED
	tern_destroy_qp(&without->vqp.qp);
	tern_destroy_qp(&ud->vqp.qp);
	tern_destroy_qp(&qp->vqp.qp);
	tern_destroy_cq(&cq->vcq.cq);
}

/*
 * Through either interface, after a valid request: the list posts that one, the
 * session posts nothing.
 */
static void refuse_bind(struct tern_qp *qp, struct ibv_mw *mw,
			const struct ibv_mw_bind_info *bind, int err)
{
	struct ibv_qp_ex *qpx = &qp->vqp.qp_ex;
	struct ibv_send_wr *bad, wr[2] = {
		{ .opcode = IBV_WR_SEND, .next = &wr[1] },
		{ .opcode = IBV_WR_BIND_MW,
		  .bind_mw = { .mw = mw, .rkey = 5, .bind_info = *bind } },
	};
	uint32_t pi;

	qp->sq.head = 0;
	CHECK(tern_post_send(&qp->vqp.qp, wr, &bad) == err);
	CHECK(bad == &wr[1] && sq_pi(qp) == 1 && last_kick());
	pi = sq_pi(qp);
	qpx->wr_start(qpx);
	qpx->wr_flags = 0;
	ibv_wr_send(qpx);
	if (qp->type->xrc)
		ibv_wr_set_xrc_srqn(qpx, 1);
	ibv_wr_bind_mw(qpx, mw, 5, bind);
	CHECK(qpx->wr_complete(qpx) == err);
	CHECK(sq_pi(qp) == pi && !last_kick());
}

void test_bind_send_refused(void)
{
	struct tern_cq *cq = make_cq(64);
	struct ibv_mw mw1 = make_mw(IBV_MW_TYPE_1);
	struct ibv_mw mw2 = make_mw(IBV_MW_TYPE_2);
	struct ibv_mw_bind_info bind;
	struct ibv_send_wr *bad, wr;
	unsigned int i, j;

	for (i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		struct tern_qp *qp = make_window_qp(types[i], cq);

		refuse_bind(qp, &mw1, &info, EINVAL);
		refuse_bind(qp, NULL, &info, EINVAL);
		for (j = 0; j < 32; j++) {
			bind = info;
			bind.mw_access_flags |= 1U << j;
			if (!(WINDOW_ACCESS & (1U << j)))
				refuse_bind(qp, &mw2, &bind, EINVAL);
		}
		bind = info;
		bind.mr = NULL;
		refuse_bind(qp, &mw2, &bind, EINVAL);
		bind.addr = 0;
		bind.length = 0;
		refuse_bind(qp, &mw2, &bind, EINVAL);
		wr = (struct ibv_send_wr) {
			.opcode = IBV_WR_BIND_MW,
			.send_flags = IBV_SEND_INLINE,
			.bind_mw = { .mw = &mw2, .bind_info = info },
		};
		CHECK(tern_post_send(&qp->vqp.qp, &wr, &bad) == EINVAL);
		/* Errors that only the device can detect. */
		mw2.pd = &other_pd;
		wr.send_flags = 0;
		wr.bind_mw.bind_info.length = 0;
		CHECK(!tern_post_send(&qp->vqp.qp, &wr, &bad));
		mw2.pd = &pd;
		last_kick();
		tern_destroy_qp(&qp->vqp.qp);
	}
	tern_destroy_cq(&cq->vcq.cq);
}

/* Bytes of LOCAL_INV. Local requests need no address and take no data. */
void test_local_inv(void)
{
	const struct tern_sq_hdr hdr = {
		.opcode = TERN_WR_LOCAL_INV,
		.flags = TERN_WQE_F_SIGNALED,
		.wr_id = htole64(3),
		.inv_rkey = htole32(0x87654321),
	};
	struct tern_cq *cq = make_cq(64);
	struct ibv_data_buf buf = { .addr = "x", .length = 1 };
	struct ibv_sge sge = { .length = 1 };
	unsigned int i, j;

	for (i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		struct tern_qp *qp = make_window_qp(types[i], cq);
		struct ibv_qp_ex *qpx = &qp->vqp.qp_ex;
		struct ibv_send_wr *bad, wr = {
			.wr_id = 3,
			.opcode = IBV_WR_LOCAL_INV,
			.send_flags = IBV_SEND_SIGNALED,
			.num_sge = 1000,
			.sg_list = (void *)8,
			.invalidate_rkey = 0x87654321,
		};

		memset(qp->sq.slots, 0xff, tern_wq_bytes(&qp->sq));
		CHECK(!tern_post_send(&qp->vqp.qp, &wr, &bad));
		check_wqe(qp, 0, &hdr, NULL, 0);
		qpx->wr_start(qpx);
		qpx->wr_id = 3;
		qpx->wr_flags = IBV_SEND_SIGNALED;
		ibv_wr_local_inv(qpx, 0x87654321);
		CHECK(!qpx->wr_complete(qpx));
		check_wqe(qp, 1, &hdr, NULL, 0);

		wr.send_flags = IBV_SEND_INLINE;
		CHECK(tern_post_send(&qp->vqp.qp, &wr, &bad) == EINVAL);
		for (j = 0; j < 4; j++) {
			qpx->wr_start(qpx);
			ibv_wr_local_inv(qpx, 1);
			if (j == 0)
				ibv_wr_set_sge_list(qpx, 1, &sge);
			else if (j == 1)
				ibv_wr_set_inline_data_list(qpx, 1, &buf);
			else if (j == 2 && qp->type->xrc)
				ibv_wr_set_xrc_srqn(qpx, 1);
			else
				ibv_wr_set_sge(qpx, 1, 2, 3);
			CHECK(qpx->wr_complete(qpx) == EINVAL);
		}
		CHECK(sq_pi(qp) == 2 && !last_kick());
		tern_destroy_qp(&qp->vqp.qp);
	}
	tern_destroy_cq(&cq->vcq.cq);
}

/*
 * Opcodes in completions of binds and invalidations, with both polling
 * interfaces.
 */
void test_window_cqes(void)
{
	static const struct {
		uint8_t opcode, status;
		enum ibv_wc_opcode wc_opcode;
		enum ibv_wc_status wc_status;
	} cases[] = {
		{ TERN_WR_BIND_MW, TERN_CQE_SUCCESS, IBV_WC_BIND_MW,
		  IBV_WC_SUCCESS },
		{ TERN_WR_BIND_MW, TERN_CQE_MW_BIND_ERR, IBV_WC_BIND_MW,
		  IBV_WC_MW_BIND_ERR },
		{ TERN_WR_LOCAL_INV, TERN_CQE_SUCCESS, IBV_WC_LOCAL_INV,
		  IBV_WC_SUCCESS },
		{ TERN_WR_LOCAL_INV, TERN_CQE_LOC_QP_OP_ERR, IBV_WC_LOCAL_INV,
		  IBV_WC_LOC_QP_OP_ERR },
		{ TERN_WR_SEND_WITH_INV, TERN_CQE_SUCCESS, IBV_WC_SEND,
		  IBV_WC_SUCCESS },
	};
	struct tern_cq *cq = make_cq(4);
	struct ibv_cq_ex *cqx = &cq->vcq.cq_ex;
	struct ibv_poll_cq_attr attr = {};
	struct ibv_wc wc;
	uint32_t ci = 0;
	unsigned int i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct tern_cqe cqe = { .qpn = htole32(0x999),
					.opcode = cases[i].opcode,
					.status = cases[i].status };

		put_whole_cqe(cq, ci++, &cqe);
		CHECK(tern_poll_cq(&cq->vcq.cq, 1, &wc) == 1);
		CHECK(wc.opcode == cases[i].wc_opcode);
		CHECK(wc.status == cases[i].wc_status && !wc.wc_flags);
		put_whole_cqe(cq, ci++, &cqe);
		CHECK(!cqx->start_poll(cqx, &attr));
		CHECK(ibv_wc_read_opcode(cqx) == cases[i].wc_opcode);
		CHECK(cqx->status == cases[i].wc_status);
		cqx->end_poll(cqx);
	}
	tern_destroy_cq(&cq->vcq.cq);
}

/*
 * ---- two threads bind one window on one QP: each bind contains the key of the
 * previous one ----
 */

#define BINDS 1000U

static struct tern_qp *shared_qp;
static struct ibv_mw shared_mw;

static void *bind_loop(void *arg)
{
	struct ibv_mw_bind bind = { .bind_info = info };
	unsigned int i;

	for (i = 0; i < BINDS; i++)
		CHECK(!tern_bind_mw(&shared_qp->vqp.qp, &shared_mw, &bind));
	return arg;
}

void test_bind_threads(void)
{
	struct ibv_qp_cap cap = { .max_send_wr = 2 * BINDS };
	struct tern_cq *cq = make_cq(4);
	uint32_t rkey = 0xabcdef12;
	pthread_t threads[2];
	unsigned int i;

	ctx->caps = TERN_UCTX_CAP_MW;
	shared_qp = make_typed_qp(IBV_QPT_RC, cq, cq, NULL, cap, 0);
	shared_mw = make_mw(IBV_MW_TYPE_1);
	for (i = 0; i < 2; i++)
		pthread_create(&threads[i], NULL, bind_loop, NULL);
	for (i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	CHECK(sq_pi(shared_qp) == 2 * BINDS);
	for (i = 0; i < 2 * BINDS; i++) {
		struct tern_sq_hdr *hdr = tern_wq_slot(&shared_qp->sq, i);
		struct tern_bind_seg *seg = (void *)(hdr + 1);

		CHECK(le32toh(seg->rkey) == rkey);
		rkey = le32toh(seg->new_rkey);
	}
	CHECK(shared_mw.rkey == rkey);
	tern_destroy_qp(&shared_qp->vqp.qp);
	tern_destroy_cq(&cq->vcq.cq);
}
