// SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause)
/* Tag matching: SRQs, operations, completions, QPs without a send queue. */

#include <errno.h>

#include "fixture.h"

static struct ibv_pd *const pd = &test_pd.ibvpd;

static struct ibv_srq_init_attr_ex tm_attr(struct tern_cq *cq, uint32_t tags,
					   uint32_t ops)
{
	return (struct ibv_srq_init_attr_ex) {
		.attr = { 4, 1, 0 },
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
			     IBV_SRQ_INIT_ATTR_CQ | IBV_SRQ_INIT_ATTR_TM,
		.srq_type = IBV_SRQT_TM,
		.pd = pd,
		.cq = &cq->vcq.cq,
		.tm_cap = { tags, ops },
	};
}

static struct tern_srq *make_tm(struct tern_cq *cq, uint32_t tags, uint32_t ops)
{
	struct ibv_srq_init_attr_ex attr = tm_attr(cq, tags, ops);
	struct ibv_srq *srq;

	ctx->caps |= TERN_UCTX_CAP_TM;
	srq = tern_create_srq_ex(&ctx->vctx.context, &attr);
	CHECK(srq);
	return to_tern_srq(srq);
}

static struct tern_tm_op *op_at(unsigned int index)
{
	return (struct tern_tm_op *)(uintptr_t)last_srq.ops_addr + index;
}

static struct ibv_ops_wr add_wr(uint64_t tag, struct ibv_sge *sge, int num)
{
	return (struct ibv_ops_wr) {
		.wr_id = 10 + tag,
		.opcode = IBV_WR_TAG_ADD,
		.tm.add = { 20 + tag, sge, num, tag, 0xffff },
	};
}

void test_tm_create(void)
{
	struct tern_cq *cq = make_cq(4);
	struct ibv_srq_init_attr_ex attr = tm_attr(cq, 8, 5);
	struct ibv_srq_init_attr_ex bad;
	struct tern_srq *srq;
	uint32_t num;

	/* The device has no tag matching. */
	CHECK(!tern_create_srq_ex(&ctx->vctx.context, &attr));
	CHECK(errno == EOPNOTSUPP);

	srq = make_tm(cq, 8, 5);
	CHECK(last_srq.log_ops == 3 && last_srq.ops_addr);
	CHECK(last_srq.ops_len == PAGE && !(last_srq.ops_addr % PAGE));
	CHECK(tern_get_srq_num(&srq->vsrq.srq, &num) == EINVAL);
	CHECK(!tern_destroy_srq(&srq->vsrq.srq));
	srq = make_tm(cq, 1, 1);
	CHECK(last_srq.log_ops == 0);
	CHECK(!tern_destroy_srq(&srq->vsrq.srq));
	srq = make_tm(cq, 1, 4096);
	CHECK(last_srq.log_ops == 12 && last_srq.ops_len == 4096 * 128);
	CHECK(!tern_destroy_srq(&srq->vsrq.srq));

#define TM_REFUSED(change, err)                                                \
	do {                                                                   \
		bad = attr;                                                    \
		change;                                                        \
		CHECK(!tern_create_srq_ex(&ctx->vctx.context, &bad) &&         \
		      errno == (err));                                         \
	} while (0)

	TM_REFUSED(bad.tm_cap.max_ops = 4097, EINVAL);
	TM_REFUSED(bad.tm_cap.max_ops = 0, EINVAL);
	TM_REFUSED(bad.tm_cap.max_num_tags = 0, EINVAL);
	TM_REFUSED(bad.comp_mask &= ~IBV_SRQ_INIT_ATTR_CQ, EINVAL);
	TM_REFUSED(bad.comp_mask &= ~IBV_SRQ_INIT_ATTR_TM, EINVAL);
	TM_REFUSED(bad.comp_mask |= IBV_SRQ_INIT_ATTR_XRCD, EINVAL);
	create_err = ENOMEM;
	TM_REFUSED(, ENOMEM);
	create_err = 0;
	CHECK(!tern_destroy_cq(&cq->vcq.cq));
}

void test_tm_ops(void)
{
	struct ibv_sge sge[4] = {
		{ 0x1000, 10, 7 }, { 0x2000, 20, 8 }, { 0x3000, 30, 9 },
		{ 0x4000, 40, 11 },
	};
	struct tern_cq *cq = make_cq(4);
	struct tern_srq *srq = make_tm(cq, 8, 8);
	struct ibv_ops_wr wr[3], *bad;
	struct tern_tm_op *op;

	last_kick();
	wr[0] = add_wr(5, sge, 4);
	wr[0].flags = IBV_OPS_SIGNALED | IBV_OPS_TM_SYNC;
	wr[0].tm.unexpected_cnt = 0x12345678;
	wr[1] = add_wr(6, NULL, 0);
	/* Ignored without the flag. */
	wr[1].tm.unexpected_cnt = 3;
	wr[2] = (struct ibv_ops_wr){
		.wr_id = 99,
		.opcode = IBV_WR_TAG_SYNC,
		.flags = IBV_OPS_TM_SYNC,
		.tm.unexpected_cnt = 4,
	};
	wr[0].next = &wr[1];
	wr[1].next = &wr[2];
	CHECK(!tern_post_srq_ops(&srq->vsrq.srq, wr, &bad));
	CHECK(last_kick() == kick_of(TERN_DB_CMD_TM, srq->srqn));
	CHECK(tern_shared_read(&srq->record->ops_pi) == 3);
	CHECK(wr[0].tm.handle != wr[1].tm.handle);

	op = op_at(0);
	CHECK(op->opcode == TERN_TM_ADD && op->num_sge == 4);
	CHECK(op->flags == (TERN_TM_F_SIGNALED | TERN_TM_F_SYNC));
	CHECK(le32toh(op->handle) == wr[0].tm.handle);
	CHECK(le64toh(op->wr_id) == 15 && le64toh(op->recv_wr_id) == 25);
	CHECK(le64toh(op->tag) == 5 && le64toh(op->mask) == 0xffff);
	CHECK(le32toh(op->unexpected) == 0x12345678);
	CHECK(le64toh(op->sge[3].addr) == 0x4000);
	CHECK(le32toh(op->sge[3].length) == 40);
	CHECK(le32toh(op->sge[3].lkey) == 11);
	op = op_at(1);
	CHECK(op->opcode == TERN_TM_ADD && !op->num_sge && !op->flags);
	CHECK(!op->unexpected);
	op = op_at(2);
	CHECK(op->opcode == TERN_TM_SYNC && op->flags == TERN_TM_F_SYNC);
	CHECK(le32toh(op->unexpected) == 4 && le64toh(op->wr_id) == 99);

	wr[2] = (struct ibv_ops_wr){
		.opcode = IBV_WR_TAG_DEL,
		.tm.handle = wr[0].tm.handle,
	};
	CHECK(!tern_post_srq_ops(&srq->vsrq.srq, &wr[2], &bad));
	op = op_at(3);
	CHECK(op->opcode == TERN_TM_DEL && !op->flags);
	CHECK(le32toh(op->handle) == wr[0].tm.handle);

	CHECK(!tern_destroy_srq(&srq->vsrq.srq));
	CHECK(!tern_destroy_cq(&cq->vcq.cq));
}

void test_tm_limits(void)
{
	struct ibv_ops_wr sync = { .opcode = IBV_WR_TAG_SYNC };
	struct tern_cq *cq = make_cq(4);
	struct tern_srq *srq = make_tm(cq, 2, 4);
	struct ibv_sge sge[5] = {};
	struct ibv_ops_wr wr[2], *bad;
	struct ibv_srq_init_attr basic_attr = { .attr = { 4, 1, 0 } };
	struct ibv_srq *basic;

	/* Not an SRQ with tags. */
	basic = tern_create_srq(pd, &basic_attr);
	CHECK(basic);
	CHECK(tern_post_srq_ops(basic, &sync, &bad) == EINVAL && bad == &sync);
	CHECK(!tern_destroy_srq(basic));

	/* Invalid operations; those before them are posted. */
	last_kick();
	wr[0] = add_wr(1, sge, 1);
	wr[1] = add_wr(2, sge, 5);
	wr[0].next = &wr[1];
	CHECK(tern_post_srq_ops(&srq->vsrq.srq, wr, &bad) == EINVAL);
	CHECK(bad == &wr[1] && last_kick());
	CHECK(tern_shared_read(&srq->record->ops_pi) == 1);
	wr[1].tm.add.num_sge = -1;
	CHECK(tern_post_srq_ops(&srq->vsrq.srq, &wr[1], &bad) == EINVAL);
	wr[1] = sync;
	wr[1].opcode = 3;
	CHECK(tern_post_srq_ops(&srq->vsrq.srq, &wr[1], &bad) == EINVAL);
	wr[1] = sync;
	wr[1].flags = 4;
	CHECK(tern_post_srq_ops(&srq->vsrq.srq, &wr[1], &bad) == EINVAL);
	CHECK(!last_kick());

	/* As many tags as the SRQ may hold; others go on. */
	wr[0] = add_wr(2, sge, 1);
	CHECK(!tern_post_srq_ops(&srq->vsrq.srq, wr, &bad));
	CHECK(tern_post_srq_ops(&srq->vsrq.srq, wr, &bad) == ENOMEM);
	CHECK(bad == wr);
	CHECK(!tern_post_srq_ops(&srq->vsrq.srq, &sync, &bad));
	tern_shared_write(&srq->record->tags_released, 1);
	CHECK(!tern_post_srq_ops(&srq->vsrq.srq, wr, &bad));
	CHECK(tern_post_srq_ops(&srq->vsrq.srq, wr, &bad) == ENOMEM);

	/* As many operations as may be outstanding. */
	tern_shared_write(&srq->record->tags_released, 2);
	CHECK(tern_post_srq_ops(&srq->vsrq.srq, &sync, &bad) == ENOMEM);
	tern_shared_write(&srq->record->ops_ci, 1);
	CHECK(!tern_post_srq_ops(&srq->vsrq.srq, &sync, &bad));
	CHECK(tern_post_srq_ops(&srq->vsrq.srq, &sync, &bad) == ENOMEM);
	CHECK(tern_shared_read(&srq->record->ops_pi) == 5);

	CHECK(!tern_destroy_srq(&srq->vsrq.srq));
	CHECK(!tern_destroy_cq(&cq->vcq.cq));
}

void test_tm_cqes(void)
{
	static const struct {
		uint8_t opcode, status, flags;
		enum ibv_wc_opcode wc_opcode;
		enum ibv_wc_status wc_status;
		unsigned int wc_flags;
	} rows[] = {
		{ TERN_TM_CQE_ADD, 0, 0, IBV_WC_TM_ADD, 0, 0 },
		{ TERN_TM_CQE_ADD, 0, TERN_CQE_F_TM_SYNC_REQ, IBV_WC_TM_ADD, 0,
		  IBV_WC_TM_SYNC_REQ },
		{ TERN_TM_CQE_DEL, TERN_CQE_TM_ERR, 0, IBV_WC_TM_DEL,
		  IBV_WC_TM_ERR, 0 },
		{ TERN_TM_CQE_SYNC, 0, 0, IBV_WC_TM_SYNC, 0, 0 },
		{ TERN_RECV_TM, 0, TERN_CQE_F_RECV, IBV_WC_TM_RECV, 0, 0 },
		{ TERN_RECV_TM, 0,
		  TERN_CQE_F_RECV | TERN_CQE_F_TM_MATCH |
			  TERN_CQE_F_TM_DATA_VALID,
		  IBV_WC_TM_RECV, 0, IBV_WC_TM_MATCH | IBV_WC_TM_DATA_VALID },
		{ TERN_RECV_TM, TERN_CQE_TM_RNDV_INCOMPLETE,
		  TERN_CQE_F_RECV | TERN_CQE_F_TM_MATCH, IBV_WC_TM_RECV,
		  IBV_WC_TM_RNDV_INCOMPLETE, IBV_WC_TM_MATCH },
		{ TERN_RECV_TM_NO_TAG, 0, TERN_CQE_F_RECV | TERN_CQE_F_IMM,
		  IBV_WC_TM_NO_TAG, 0, IBV_WC_WITH_IMM },
	};
	struct ibv_cq_init_attr_ex attr = {
		.cqe = 16,
		.wc_flags = IBV_WC_STANDARD_FLAGS | IBV_WC_EX_WITH_TM_INFO |
			    IBV_WC_EX_WITH_CVLAN,
	};
	struct ibv_poll_cq_attr poll = {};
	struct ibv_wc_tm_info info;
	struct ibv_cq_ex *cqx;
	struct tern_tm_cqe *match;
	struct tern_cqe cqe;
	struct tern_cq *cq;
	struct ibv_wc wc;
	unsigned int i;

	CHECK(!tern_create_cq_ex(&ctx->vctx.context, &attr));
	CHECK(errno == EOPNOTSUPP);
	ctx->caps |= TERN_UCTX_CAP_TM;
	cqx = tern_create_cq_ex(&ctx->vctx.context, &attr);
	CHECK(cqx);
	cq = to_tern_cq_ex(cqx);

	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		memset(&cqe, 0, sizeof(cqe));
		match = (struct tern_tm_cqe *)&cqe;
		match->tag = htole64(0x1122334455667788);
		match->app_ctx = htole32(0x99aabbcc);
		cqe.wr_id = htole64(i);
		cqe.srqn = htole32(0x21);
		cqe.opcode = rows[i].opcode;
		cqe.status = rows[i].status;
		cqe.flags = rows[i].flags;
		put_whole_cqe(cq, 2 * i, &cqe);
		CHECK(tern_poll_cq(&cq->vcq.cq, 1, &wc) == 1);
		CHECK(wc.wr_id == i && wc.opcode == rows[i].wc_opcode);
		CHECK(wc.status == rows[i].wc_status);
		CHECK(wc.wc_flags == rows[i].wc_flags);

		put_whole_cqe(cq, 2 * i + 1, &cqe);
		CHECK(!cqx->start_poll(cqx, &poll));
		CHECK(cqx->status == rows[i].wc_status);
		CHECK(cqx->read_opcode(cqx) == rows[i].wc_opcode);
		CHECK(cqx->read_wc_flags(cqx) == rows[i].wc_flags);
		memset(&info, 0xff, sizeof(info));
		cqx->read_tm_info(cqx, &info);
		if (rows[i].wc_flags & IBV_WC_TM_MATCH)
			CHECK(info.tag == 0x1122334455667788 &&
			      info.priv == 0x99aabbcc);
		else
			CHECK(!info.tag && !info.priv);
		CHECK(!cqx->read_cvlan(cqx));
		cqx->end_poll(cqx);
	}

	CHECK(!tern_destroy_cq(&cq->vcq.cq));
}

static pthread_spinlock_t *locked[3];
static unsigned int num_locked;

static void note_locked(pthread_spinlock_t *lock)
{
	if (num_locked < 3)
		locked[num_locked] = lock;
	num_locked++;
}

void test_tm_qp(void)
{
	static const struct ibv_qp_cap none;
	struct tern_cq *cq = make_cq(16), *scq, *rcq;
	struct tern_srq *srq = make_tm(cq, 8, 8);
	struct ibv_send_wr send = { .opcode = IBV_WR_SEND }, *bad;
	struct ibv_qp_init_attr_ex attr = {
		.send_cq = &cq->vcq.cq,
		.recv_cq = &cq->vcq.cq,
		.srq = &srq->vsrq.srq,
		.qp_type = IBV_QPT_UD,
		.comp_mask = IBV_QP_INIT_ATTR_PD,
		.pd = pd,
	};
	struct tern_cqe cqe = {
		.flags = TERN_CQE_F_RECV,
		.srqn = htole32(srq->srqn),
	};
	struct ibv_wc wc[4];
	struct tern_qp *qp;
	unsigned int i;

	CHECK(!tern_create_qp_ex(&ctx->vctx.context, &attr));
	CHECK(errno == EOPNOTSUPP);
	attr.qp_type = IBV_QPT_RC;
	attr.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
	attr.send_ops_flags = IBV_QP_EX_WITH_SEND;
	CHECK(!tern_create_qp_ex(&ctx->vctx.context, &attr) && errno == EINVAL);

	/* The device sends, and nothing else does. */
	qp = make_typed_qp(IBV_QPT_RC, cq, cq, &srq->vsrq.srq, none, 0);
	CHECK(!last_cap.max_send_wr);
	CHECK(tern_post_send(&qp->vqp.qp, &send, &bad) && bad == &send);

	/* Messages with a tag stay when their QP goes. */
	cqe.qpn = htole32(qp->vqp.qp.qp_num);
	for (i = 0; i < 3; i++) {
		cqe.wr_id = htole64(i);
		cqe.opcode = i == 1 ? TERN_RECV_TM_NO_TAG : TERN_RECV_TM;
		put_whole_cqe(cq, i, &cqe);
	}
	CHECK(!tern_destroy_qp(&qp->vqp.qp));
	CHECK(tern_poll_cq(&cq->vcq.cq, 4, wc) == 2);
	CHECK(wc[0].wr_id == 0 && wc[1].wr_id == 2);

	/* The SRQ's CQ need not be one of the QP's. */
	rcq = make_cq(4);
	scq = make_cq(4);
	qp = make_typed_qp(IBV_QPT_RC, scq, rcq, &srq->vsrq.srq, none, 0);
	cqe.qpn = htole32(qp->vqp.qp.qp_num);
	cqe.opcode = TERN_RECV_TM_NO_TAG;
	put_whole_cqe(cq, 3, &cqe);
	num_locked = 0;
	before_lock = note_locked;
	CHECK(!tern_destroy_qp(&qp->vqp.qp));
	before_lock = NULL;
	CHECK(num_locked >= 3 && locked[0] == &cq->lock.lock);
	CHECK(locked[1] == &rcq->lock.lock && locked[2] == &scq->lock.lock);
	CHECK(!tern_poll_cq(&cq->vcq.cq, 4, wc));
	CHECK(!tern_destroy_cq(&rcq->vcq.cq) && !tern_destroy_cq(&scq->vcq.cq));
	cqe.opcode = TERN_RECV_TM;

	/* With a send queue it is an ordinary QP. */
	qp = make_typed_qp(IBV_QPT_RC, cq, cq, &srq->vsrq.srq, small_cap,
			   RC_OPS);
	CHECK(last_cap.max_send_wr == 4);
	CHECK(!tern_post_send(&qp->vqp.qp, &send, &bad));
	CHECK(!tern_destroy_qp(&qp->vqp.qp));

	/* Nothing of the SRQ remains. */
	put_whole_cqe(cq, 4, &cqe);
	cqe.opcode = TERN_TM_CQE_ADD;
	cqe.flags = 0;
	put_whole_cqe(cq, 5, &cqe);
	CHECK(!tern_destroy_srq(&srq->vsrq.srq));
	CHECK(!tern_poll_cq(&cq->vcq.cq, 4, wc));
	CHECK(!tern_destroy_cq(&cq->vcq.cq));
}
