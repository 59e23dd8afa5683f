// SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause)
/* QP types: opcodes, WQEs of UD and XRC, refusals, completions. */

#include <errno.h>

#include "fixture.h"

#define UD_OPS (IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM)
#define UC_OPS                                                                 \
	(UD_OPS | IBV_QP_EX_WITH_RDMA_WRITE |                                  \
	 IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM)

/*
 * A type, its opcodes on any device, and whether it invalidates and binds on a
 * device that supports it.
 */
static const struct {
	enum ibv_qp_type type;
	uint64_t send_ops;
	uint32_t ops;
	bool windows;
} types[] = {
	{ IBV_QPT_RC, RC_OPS,
	  1 << IBV_WR_SEND | 1 << IBV_WR_SEND_WITH_IMM |
	  1 << IBV_WR_RDMA_WRITE | 1 << IBV_WR_RDMA_WRITE_WITH_IMM |
	  1 << IBV_WR_RDMA_READ | 1 << IBV_WR_ATOMIC_CMP_AND_SWP |
	  1 << IBV_WR_ATOMIC_FETCH_AND_ADD, true },
	{ IBV_QPT_UC, UC_OPS,
	  1 << IBV_WR_SEND | 1 << IBV_WR_SEND_WITH_IMM |
	  1 << IBV_WR_RDMA_WRITE | 1 << IBV_WR_RDMA_WRITE_WITH_IMM, true },
	{ IBV_QPT_UD, UD_OPS, 1 << IBV_WR_SEND | 1 << IBV_WR_SEND_WITH_IMM,
	  false },
	{ IBV_QPT_XRC_SEND, RC_OPS,
	  1 << IBV_WR_SEND | 1 << IBV_WR_SEND_WITH_IMM |
	  1 << IBV_WR_RDMA_WRITE | 1 << IBV_WR_RDMA_WRITE_WITH_IMM |
	  1 << IBV_WR_RDMA_READ | 1 << IBV_WR_ATOMIC_CMP_AND_SWP |
	  1 << IBV_WR_ATOMIC_FETCH_AND_ADD, true },
	{ IBV_QPT_XRC_RECV, 0, 0, false },
};

static struct tern_ah ah = {
	.av = {
		.dgid = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15,
			  16 },
		.dmac = { 0x52, 0x54, 0, 1, 2, 3 },
		.hop_limit = 64,
	},
};

/* Sets the fields that a request of the type needs besides the opcode. */
static void aim(struct ibv_send_wr *wr, enum ibv_qp_type type)
{
	if (type == IBV_QPT_UD) {
		wr->wr.ud.ah = &ah.ibvah;
		wr->wr.ud.remote_qpn = 0x123456;
		wr->wr.ud.remote_qkey = 0x80010000;
	} else if (type == IBV_QPT_XRC_SEND) {
		wr->qp_type.xrc.remote_srqn = 0x654321;
	}
}

/* Every opcode number on every type: posted, unknown, or not valid. */
void test_type_ops(void)
{
	/* Operations that need a capability other than those below. */
	static const uint64_t never[] = {
		IBV_QP_EX_WITH_TSO, IBV_QP_EX_WITH_FLUSH,
		IBV_QP_EX_WITH_ATOMIC_WRITE,
	};
	static const uint64_t windows[] = {
		IBV_QP_EX_WITH_SEND_WITH_INV, IBV_QP_EX_WITH_LOCAL_INV,
		IBV_QP_EX_WITH_BIND_MW,
	};
	struct tern_cq *cq = make_cq(64);
	struct ibv_mw mw = { .type = IBV_MW_TYPE_2 };
	struct ibv_mr mr = {};
	unsigned int i, j, caps;

	for (caps = 0; caps < 4; caps++)
		for (i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
			uint64_t all = types[i].send_ops;
			struct ibv_qp_init_attr_ex attr = {
				.send_cq = &cq->vcq.cq,
				.recv_cq = &cq->vcq.cq,
				.cap = small_cap,
				.qp_type = types[i].type,
				.comp_mask = IBV_QP_INIT_ATTR_PD |
					     IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
				.pd = &test_pd.ibvpd,
			};
			bool inv = (caps & 1) && types[i].windows;
			bool bind = (caps & 2) && types[i].windows;
			struct tern_qp *qp;

			ctx->caps = (caps & 1 ? TERN_UCTX_CAP_SEND_INV : 0) |
				    (caps & 2 ? TERN_UCTX_CAP_MW : 0);
			if (inv)
				all |= IBV_QP_EX_WITH_SEND_WITH_INV;
			if (bind)
				all |= IBV_QP_EX_WITH_LOCAL_INV |
				       IBV_QP_EX_WITH_BIND_MW;
			qp = make_typed_qp(types[i].type, cq, cq, NULL,
					   small_cap, all);
			for (j = 0; j < 40; j++) {
				struct ibv_send_wr *bad, wr = { .opcode = j };
				bool has = j < 32 &&
					   (types[i].ops & (1U << j));
				int err;

				if (j == IBV_WR_SEND_WITH_INV)
					has = inv;
				else if (j == IBV_WR_LOCAL_INV ||
					 j == IBV_WR_BIND_MW)
					has = bind;
				if (j == IBV_WR_BIND_MW) {
					wr.bind_mw.mw = &mw;
					wr.bind_mw.bind_info.mr = &mr;
				}
				aim(&wr, types[i].type);
				if (qp->record)
					qp->sq.head = 0;
				err = tern_post_send(&qp->vqp.qp, &wr, &bad);
				CHECK(has ? !err : err && bad == &wr);
				CHECK(has == !!last_kick());
			}
			tern_destroy_qp(&qp->vqp.qp);

			for (j = 0; j < sizeof(never) / sizeof(never[0]); j++) {
				attr.send_ops_flags = never[j];
				CHECK(!tern_create_qp_ex(&ctx->vctx.context,
							 &attr) &&
				      errno == EOPNOTSUPP);
			}
			for (j = 0; j < 3; j++) {
				attr.send_ops_flags = windows[j];
				if (all & windows[j])
					continue;
				CHECK(!tern_create_qp_ex(&ctx->vctx.context,
							 &attr) &&
				      errno == EOPNOTSUPP);
			}
			attr.send_ops_flags = ~all & IBV_QP_EX_WITH_RDMA_READ;
			if (attr.send_ops_flags)
				CHECK(!tern_create_qp_ex(&ctx->vctx.context,
							 &attr) &&
				      errno == EOPNOTSUPP);
		}
	tern_destroy_cq(&cq->vcq.cq);
}

/*
 * The errno for opcodes not valid for the type, not supported by the device,
 * and for unsupported flags.
 */
void test_post_refused(void)
{
	struct tern_cq *cq = make_cq(64);
	struct tern_qp *rc = make_qp(cq, cq, small_cap);
	struct tern_qp *ud = make_typed_qp(IBV_QPT_UD, cq, cq, NULL, small_cap,
					   UD_OPS);
	struct ibv_qp_ex *udx = &ud->vqp.qp_ex;
	struct ibv_send_wr *bad, wr[3] = {};
	unsigned int i;

	for (i = 0; i < 3; i++) {
		wr[i].next = i < 2 ? &wr[i + 1] : NULL;
		wr[i].opcode = IBV_WR_SEND;
		aim(&wr[i], IBV_QPT_UD);
	}
	/*
	 * Each time, the first request is posted and rung, and the second is
	 * the invalid one.
	 */
	wr[1].opcode = IBV_WR_TSO;
	CHECK(tern_post_send(&ud->vqp.qp, wr, &bad) == EOPNOTSUPP);
	CHECK(bad == &wr[1] && sq_pi(ud) == 1 && last_kick());
	wr[1].opcode = IBV_WR_RDMA_READ;
	CHECK(tern_post_send(&ud->vqp.qp, wr, &bad) == EINVAL);
	CHECK(bad == &wr[1] && sq_pi(ud) == 2 && last_kick());
	wr[1].opcode = IBV_WR_SEND;
	wr[1].wr.ud.ah = NULL;
	CHECK(tern_post_send(&ud->vqp.qp, wr, &bad) == EINVAL);
	CHECK(bad == &wr[1] && sq_pi(ud) == 3 && last_kick());
	wr[1].wr.ud.ah = &ah.ibvah;
	wr[1].send_flags = IBV_SEND_IP_CSUM;
	CHECK(tern_post_send(&ud->vqp.qp, &wr[1], &bad) == EOPNOTSUPP);
	CHECK(bad == &wr[1] && sq_pi(ud) == 3 && !last_kick());
	wr[1].send_flags = 1 << 5;
	CHECK(tern_post_send(&ud->vqp.qp, &wr[1], &bad) == EINVAL);
	udx->wr_start(udx);
	udx->wr_flags = IBV_SEND_IP_CSUM;
	udx->wr_send(udx);
	CHECK(udx->wr_complete(udx) == EOPNOTSUPP);

	for (i = IBV_WR_LOCAL_INV; i <= IBV_WR_SEND_WITH_INV; i++) {
		wr[0].opcode = i;
		wr[0].send_flags = 0;
		CHECK(tern_post_send(&rc->vqp.qp, wr, &bad) == EOPNOTSUPP);
		CHECK(bad == wr && !last_kick());
	}
	wr[0].opcode = IBV_WR_DRIVER1;
	CHECK(tern_post_send(&rc->vqp.qp, wr, &bad) == EINVAL);
	wr[0].opcode = IBV_WR_FLUSH;
	CHECK(tern_post_send(&rc->vqp.qp, wr, &bad) == EINVAL);
	CHECK(tern_post_send(&ud->vqp.qp, wr, &bad) == EINVAL);
	tern_destroy_qp(&rc->vqp.qp);
	tern_destroy_qp(&ud->vqp.qp);
	tern_destroy_cq(&cq->vcq.cq);
}

static void check_ud_wqe(struct tern_qp *qp, uint32_t index, bool inlined)
{
	struct tern_sq_hdr *hdr = tern_wq_slot(&qp->sq, index);
	struct tern_ud_seg *seg = (void *)(hdr + 1);
	struct tern_sge *sge = (void *)(seg + 1);

	CHECK(hdr->opcode == TERN_WR_SEND_WITH_IMM);
	CHECK(hdr->imm == htobe32(0x01020304));
	CHECK(!memcmp(&seg->av, &ah.av, sizeof(ah.av)));
	CHECK(le32toh(seg->dqpn) == 0x123456);
	CHECK(le32toh(seg->qkey) == 0x80010000);
	if (inlined) {
		CHECK(hdr->flags & TERN_WQE_F_INLINE);
		CHECK(le32toh(hdr->length) == 3 && !memcmp(sge, "abc", 3));
	} else {
		CHECK(hdr->num_sge == 1 && le32toh(sge->length) == 3);
		CHECK(le32toh(sge->lkey) == 7);
	}
}

/* The address precedes the data, in any order of the setters. */
void test_ud(void)
{
	struct ibv_qp_cap cap = { 8, 8, 32, 1, 512 };
	struct tern_cq *cq = make_cq(64);
	struct tern_qp *qp = make_typed_qp(IBV_QPT_UD, cq, cq, NULL, cap,
					   UD_OPS);
	struct ibv_qp_ex *qpx = &qp->vqp.qp_ex;
	struct ibv_sge list[32], sge = { .length = 3, .lkey = 7 };
	struct ibv_send_wr *bad, wr = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_SEND_WITH_IMM,
		.imm_data = htobe32(0x01020304),
	};
	static char data[512] = "abc";
	uint32_t i;

	sge.addr = (uintptr_t)data;
	aim(&wr, IBV_QPT_UD);
	CHECK(!tern_post_send(&qp->vqp.qp, &wr, &bad));
	check_ud_wqe(qp, 0, false);
	wr.send_flags = IBV_SEND_INLINE;
	CHECK(!tern_post_send(&qp->vqp.qp, &wr, &bad));
	check_ud_wqe(qp, 1, true);

	qpx->wr_start(qpx);
	for (i = 0; i < 2; i++) {
		qpx->wr_send_imm(qpx, htobe32(0x01020304));
		if (i)
			qpx->wr_set_ud_addr(qpx, &ah.ibvah, 0x123456,
					    0x80010000);
		qpx->wr_set_sge(qpx, 7, sge.addr, 3);
		if (!i)
			qpx->wr_set_ud_addr(qpx, &ah.ibvah, 0x123456,
					    0x80010000);
	}
	qpx->wr_send_imm(qpx, htobe32(0x01020304));
	qpx->wr_set_inline_data(qpx, data, 3);
	qpx->wr_set_ud_addr(qpx, &ah.ibvah, 0x123456, 0x80010000);
	CHECK(!qpx->wr_complete(qpx));
	check_ud_wqe(qp, 2, false);
	check_ud_wqe(qp, 3, false);
	check_ud_wqe(qp, 4, true);
	CHECK(sq_pi(qp) == 5);

	/* If any request lacks an address, nothing is posted. */
	for (i = 0; i < 2; i++) {
		qpx->wr_start(qpx);
		qpx->wr_send(qpx);
		if (i)
			qpx->wr_set_ud_addr(qpx, &ah.ibvah, 1, 2);
		qpx->wr_send(qpx);
		if (!i)
			qpx->wr_set_ud_addr(qpx, &ah.ibvah, 1, 2);
		CHECK(qpx->wr_complete(qpx) == EINVAL);
	}
	qpx->wr_start(qpx);
	qpx->wr_send(qpx);
	qpx->wr_set_ud_addr(qpx, NULL, 1, 2);
	CHECK(qpx->wr_complete(qpx) == EINVAL);
	CHECK(sq_pi(qp) == 5);

	/* The largest requests fit their slots. */
	memset(list, 0, sizeof(list));
	wr.sg_list = list;
	wr.num_sge = qp->sq.max_sge;
	wr.send_flags = 0;
	memset(tern_wq_slot(&qp->sq, 6), 0, 1U << qp->sq.log_stride);
	for (i = 0; i < 32; i++)
		list[i].lkey = 0xffffffff;
	CHECK(!tern_post_send(&qp->vqp.qp, &wr, &bad));
	qp->sq.head = 5;
	list[0].addr = (uintptr_t)data;
	list[0].length = 512;
	wr.num_sge = 1;
	wr.send_flags = IBV_SEND_INLINE;
	CHECK(!tern_post_send(&qp->vqp.qp, &wr, &bad));
	for (i = 0; i < 1U << qp->sq.log_stride; i++)
		CHECK(!((uint8_t *)tern_wq_slot(&qp->sq, 6))[i]);
	tern_destroy_qp(&qp->vqp.qp);
	tern_destroy_cq(&cq->vcq.cq);
}

/*
 * SRQ numbers in every request. An XRC sender has no receive queue, a target
 * has no queue at all.
 */
void test_xrc(void)
{
	struct tern_cq *cq = make_cq(64);
	struct tern_qp *qp = make_typed_qp(IBV_QPT_XRC_SEND, cq, NULL, NULL,
					   small_cap, RC_OPS);
	struct tern_qp *tgt = make_typed_qp(IBV_QPT_XRC_RECV, NULL, NULL, NULL,
					    small_cap, 0);
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RESET };
	struct ibv_qp_open_attr open = { .qp_num = tgt->vqp.qp.qp_num };
	struct ibv_qp_ex *qpx = &qp->vqp.qp_ex;
	struct ibv_send_wr *bad, wr = { .opcode = IBV_WR_RDMA_WRITE };
	struct ibv_recv_wr *bad_recv, recv = {};
	struct ibv_qp_init_attr init = {};
	struct tern_sq_hdr *hdr;
	struct ibv_qp *opened;

	aim(&wr, IBV_QPT_XRC_SEND);
	CHECK(!tern_post_send(&qp->vqp.qp, &wr, &bad));
	hdr = tern_wq_slot(&qp->sq, 0);
	CHECK(le32toh(hdr->xrc_srqn) == 0x654321);
	qpx->wr_start(qpx);
	qpx->wr_atomic_fetch_add(qpx, 1, 2, 3);
	qpx->wr_set_xrc_srqn(qpx, 0x98);
	qpx->wr_set_sge(qpx, 1, 2, 8);
	CHECK(!qpx->wr_complete(qpx));
	hdr = tern_wq_slot(&qp->sq, 1);
	CHECK(le32toh(hdr->xrc_srqn) == 0x98 && sq_pi(qp) == 2);
	qpx->wr_start(qpx);
	qpx->wr_send(qpx);
	CHECK(qpx->wr_complete(qpx) == EINVAL);
	qpx->wr_start(qpx);
	qpx->wr_set_xrc_srqn(qpx, 0x98);
	CHECK(qpx->wr_complete(qpx) == EINVAL);
	CHECK(sq_pi(qp) == 2);
	CHECK(tern_post_recv(&qp->vqp.qp, &recv, &bad_recv) == EINVAL);
	CHECK(bad_recv == &recv);

	CHECK(!tgt->buf.addr && !tgt->record);
	CHECK(!tern_find_qp(ctx, tgt->vqp.qp.qp_num));
	CHECK(tern_post_send(&tgt->vqp.qp, &wr, &bad) == EINVAL);
	CHECK(tern_post_recv(&tgt->vqp.qp, &recv, &bad_recv) == EINVAL);
	CHECK(!tern_modify_qp(&tgt->vqp.qp, &attr, IBV_QP_STATE));
	init.cap = small_cap;
	CHECK(!tern_query_qp(&tgt->vqp.qp, &attr, IBV_QP_CAP, &init));
	CHECK(!init.cap.max_send_wr && !init.cap.max_recv_wr);

	opened = tern_open_qp(&ctx->vctx.context, &open);
	CHECK(opened && opened->qp_num == tgt->vqp.qp.qp_num);
	CHECK(tern_post_recv(opened, &recv, &bad_recv) == EINVAL);
	CHECK(tern_post_send(opened, &wr, &bad) == EINVAL);
	CHECK(!tern_destroy_qp(opened));
	create_err = EINVAL;
	CHECK(!tern_open_qp(&ctx->vctx.context, &open) && errno == EINVAL);
	create_err = 0;
	CHECK(!tern_modify_qp(&qp->vqp.qp, &attr, IBV_QP_STATE));
	CHECK(!sq_pi(qp));
	tern_destroy_qp(&tgt->vqp.qp);
	tern_destroy_qp(&qp->vqp.qp);
	tern_destroy_cq(&cq->vcq.cq);
}

/* An alternate path leaves the mask and becomes driver data. */
void test_alt_path(void)
{
	struct tern_cq *cq = make_cq(64);
	struct tern_qp *qp = make_typed_qp(IBV_QPT_RC, cq, cq, NULL, small_cap,
					   RC_OPS);
	struct ibv_qp_attr attr = {
		.path_mig_state = IBV_MIG_REARM,
		.alt_ah_attr = {
			.grh = {
				.flow_label = 0x12345,
				.sgid_index = 3,
				.hop_limit = 9,
				.traffic_class = 10,
			},
			.sl = 4,
			.is_global = 1,
			.port_num = 1,
		},
		.alt_port_num = 1,
		.alt_timeout = 14,
		.alt_pkey_index = 5,
	};
	const int mask = IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE;

	attr.alt_ah_attr.grh.dgid.raw[15] = 77;
	CHECK(!tern_modify_qp(&qp->vqp.qp, &attr, mask));
	CHECK(last_modify_mask == IBV_QP_PATH_MIG_STATE);
	CHECK(last_request.flags == TERN_MODIFY_QP_ALT_PATH);
	CHECK(last_request.alt.dgid[15] == 77 && last_request.alt.sgid_index == 3);
	CHECK(last_request.alt.flow_label == 0x12345 && last_request.alt.sl == 4);
	CHECK(last_request.alt.hop_limit == 9 &&
	      last_request.alt.traffic_class == 10);
	CHECK(last_request.alt.port == 1 && last_request.alt.timeout == 14 &&
	      last_request.alt.pkey_index == 5);

	create_err = EBUSY;
	CHECK(tern_modify_qp(&qp->vqp.qp, &attr, mask) == EBUSY);
	create_err = 0;
	attr.alt_port_num = 2;
	CHECK(tern_modify_qp(&qp->vqp.qp, &attr, mask) == EINVAL);
	attr.alt_port_num = 1;
	attr.alt_ah_attr.is_global = 0;
	CHECK(tern_modify_qp(&qp->vqp.qp, &attr, mask) == EINVAL);
	tern_destroy_qp(&qp->vqp.qp);
	tern_destroy_cq(&cq->vcq.cq);
}

/* Missing and forbidden objects; capacities of missing queues. */
void test_types_refused(void)
{
	struct tern_cq *cq = make_cq(4);
	struct tern_srq srq = {};
	struct verbs_xrcd xrcd = {};
	struct ibv_qp_init_attr_ex good = {
		.send_cq = &cq->vcq.cq,
		.recv_cq = &cq->vcq.cq,
		.cap = small_cap,
		.qp_type = IBV_QPT_UD,
		.comp_mask = IBV_QP_INIT_ATTR_PD,
		.pd = &test_pd.ibvpd,
		.xrcd = &xrcd.xrcd,
	};
	struct ibv_qp_init_attr_ex attr;
	struct ibv_qp *qp;

#define REFUSED(change, err)                                                   \
	do {                                                                   \
		attr = good;                                                   \
		change;                                                        \
		CHECK(!tern_create_qp_ex(&ctx->vctx.context, &attr) &&         \
		      errno == (err));                                         \
	} while (0)

	REFUSED(attr.send_cq = NULL, EINVAL);
	REFUSED(attr.recv_cq = NULL, EINVAL);
	REFUSED(attr.pd = NULL, EINVAL);
	REFUSED(attr.comp_mask |= IBV_QP_INIT_ATTR_XRCD, EINVAL);
	REFUSED(attr.comp_mask |= IBV_QP_INIT_ATTR_MAX_TSO_HEADER, EOPNOTSUPP);
	REFUSED(attr.qp_type = IBV_QPT_DRIVER, EOPNOTSUPP);
	REFUSED(attr.cap.max_recv_wr = ctx->max_recv_wr + 1, EINVAL);

	good.srq = &srq.vsrq.srq;
	attr = good;
	attr.cap.max_recv_wr = UINT32_MAX;
	attr.cap.max_recv_sge = UINT32_MAX;
	qp = tern_create_qp_ex(&ctx->vctx.context, &attr);
	CHECK(qp && !attr.cap.max_recv_wr && !attr.cap.max_recv_sge);
	tern_destroy_qp(qp);
	REFUSED(attr.qp_type = IBV_QPT_XRC_SEND, EINVAL);

	good.srq = NULL;
	good.qp_type = IBV_QPT_XRC_SEND;
	REFUSED(attr.comp_mask = IBV_QP_INIT_ATTR_XRCD, EINVAL);
	REFUSED(attr.send_cq = NULL, EINVAL);
	good.qp_type = IBV_QPT_XRC_RECV;
	REFUSED(attr.comp_mask = IBV_QP_INIT_ATTR_PD, EINVAL);
	REFUSED(attr.comp_mask = IBV_QP_INIT_ATTR_XRCD; attr.xrcd = NULL,
		EINVAL);
	tern_destroy_cq(&cq->vcq.cq);
}

/* The service level of the next completion, by the interface that poll names. */
static uint8_t sl_of(struct tern_cq *cq, uint32_t index,
		     const struct tern_cqe *cqe, bool extended)
{
	struct ibv_cq_ex *cqx = &cq->vcq.cq_ex;
	struct ibv_poll_cq_attr poll = {};
	struct ibv_wc wc;
	uint8_t sl;

	put_whole_cqe(cq, index, cqe);
	if (!extended) {
		CHECK(tern_poll_cq(&cq->vcq.cq, 1, &wc) == 1);
		return wc.sl;
	}
	CHECK(!cqx->start_poll(cqx, &poll));
	sl = cqx->read_sl(cqx);
	cqx->end_poll(cqx);

	return sl;
}

/*
 * The service level of a datagram is the type of its IP header, as mlx5 reports
 * it for RoCE v2, and not the priority of a VLAN tag. Of a message that came by
 * a connection it is 0.
 */
void test_cq_sl(void)
{
	struct ibv_cq_init_attr_ex attr = {
		.cqe = 16,
		.wc_flags = IBV_WC_STANDARD_FLAGS,
	};
	static const struct {
		uint8_t flags;
		uint8_t net_type;
		uint8_t priority;
		uint8_t sl;
	} row[] = {
		{ TERN_CQE_F_GRH, TERN_NET_IPV4, 0, 0xa },
		{ TERN_CQE_F_GRH, TERN_NET_IPV6, 0, 0x9 },
		{ TERN_CQE_F_GRH | TERN_CQE_F_VLAN, TERN_NET_IPV4, 5, 0xa },
		{ TERN_CQE_F_GRH | TERN_CQE_F_VLAN, TERN_NET_IPV6, 2, 0x9 },
		{ 0, 0, 0, 0 },
		{ 0, TERN_NET_IPV4, 0, 0 },
	};
	struct tern_cq *cq;
	unsigned int i;

	cq = to_tern_cq_ex(tern_create_cq_ex(&ctx->vctx.context, &attr));
	CHECK(cq);
	for (i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		struct tern_cqe cqe = {
			.qpn = htole32(0x40),
			.opcode = TERN_RECV_SEND,
			.flags = TERN_CQE_F_RECV | row[i].flags,
			.vlan = htole16(7),
			.sl = row[i].priority,
			.net_type = row[i].net_type,
		};

		CHECK(sl_of(cq, 2 * i, &cqe, false) == row[i].sl);
		CHECK(sl_of(cq, 2 * i + 1, &cqe, true) == row[i].sl);
	}
	tern_destroy_cq(&cq->vcq.cq);
}

/* Contents of a datagram's completion, with both polling interfaces. */
void test_cq_fields(void)
{
	struct ibv_cq_init_attr_ex attr = {
		.cqe = 4,
		.wc_flags = IBV_WC_STANDARD_FLAGS | IBV_WC_EX_WITH_CVLAN,
	};
	struct tern_cqe cqe = {
		.wr_id = htole64(77),
		.qpn = htole32(0x40),
		.byte_len = htole32(140),
		.imm = htobe32(0xa0b0c0d0),
		.src_qp = htole32(0xabcdef),
		.opcode = TERN_RECV_SEND,
		.flags = TERN_CQE_F_RECV | TERN_CQE_F_GRH | TERN_CQE_F_IMM |
			 TERN_CQE_F_VLAN,
		.vlan = htole16(5),
		.sl = 3,
		.net_type = TERN_NET_IPV4,
	};
	static const uint64_t refused[] = {
		IBV_WC_EX_WITH_FLOW_TAG, IBV_WC_EX_WITH_TM_INFO,
		IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK, 1 << 20,
	};
	struct ibv_poll_cq_attr poll = {};
	struct ibv_cq_ex *cqx;
	struct tern_cq *cq;
	struct ibv_wc wc;
	unsigned int i;

	cqx = tern_create_cq_ex(&ctx->vctx.context, &attr);
	CHECK(cqx);
	cq = to_tern_cq_ex(cqx);
	put_whole_cqe(cq, 0, &cqe);
	CHECK(tern_poll_cq(&cq->vcq.cq, 1, &wc) == 1);
	CHECK(wc.wr_id == 77 && wc.qp_num == 0x40 && wc.byte_len == 140);
	CHECK(wc.opcode == IBV_WC_RECV && wc.status == IBV_WC_SUCCESS);
	CHECK(wc.wc_flags == (IBV_WC_GRH | IBV_WC_WITH_IMM));
	CHECK(wc.imm_data == htobe32(0xa0b0c0d0));
	CHECK(wc.src_qp == 0xabcdef);
	CHECK(!wc.slid && !wc.dlid_path_bits && !wc.pkey_index);

	put_whole_cqe(cq, 1, &cqe);
	CHECK(!cqx->start_poll(cqx, &poll));
	CHECK(cqx->wr_id == 77 && cqx->read_src_qp(cqx) == 0xabcdef);
	CHECK(cqx->read_cvlan(cqx) == 0x6005);
	CHECK(!cqx->read_slid(cqx) && !cqx->read_dlid_path_bits(cqx));
	CHECK(cqx->read_byte_len(cqx) == 140);
	CHECK(cqx->read_wc_flags(cqx) == (IBV_WC_GRH | IBV_WC_WITH_IMM));
	CHECK(cqx->read_imm_data(cqx) == htobe32(0xa0b0c0d0));
	cqx->end_poll(cqx);

	/* An invalidated key in place of immediate data; no VLAN tag. */
	cqe.flags = TERN_CQE_F_RECV | TERN_CQE_F_INV;
	cqe.inv_rkey = htole32(0x1234);
	cqe.opcode = TERN_RECV_RDMA_WITH_IMM;
	put_whole_cqe(cq, 2, &cqe);
	CHECK(!cqx->start_poll(cqx, &poll));
	CHECK(ibv_wc_read_invalidated_rkey(cqx) == 0x1234);
	CHECK(!cqx->read_cvlan(cqx));
	CHECK(cqx->read_opcode(cqx) == IBV_WC_RECV_RDMA_WITH_IMM);
	cqx->end_poll(cqx);
	put_whole_cqe(cq, 3, &cqe);
	CHECK(tern_poll_cq(&cq->vcq.cq, 1, &wc) == 1);
	CHECK(wc.wc_flags == IBV_WC_WITH_INV && wc.invalidated_rkey == 0x1234);
	tern_destroy_cq(&cq->vcq.cq);

	for (i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
		attr.wc_flags = refused[i];
		CHECK(!tern_create_cq_ex(&ctx->vctx.context, &attr) &&
		      errno == EOPNOTSUPP);
	}
}

/*
 * Inside a session: a slot is free at once, and the session's cached QP is
 * dropped with the QP.
 */
void test_cq_session(void)
{
	struct ibv_cq_init_attr_ex attr = {
		.cqe = 4,
		.wc_flags = IBV_WC_STANDARD_FLAGS,
		.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS,
		.flags = IBV_CREATE_CQ_ATTR_SINGLE_THREADED,
	};
	struct ibv_cq_ex *cqx = tern_create_cq_ex(&ctx->vctx.context, &attr);
	struct tern_cq *cq = to_tern_cq_ex(cqx);
	const struct ibv_qp_cap one = { 1, 1, 1, 1, 0 };
	struct tern_qp *qp = make_qp(cq, cq, one), *other;
	uint32_t qpn = qp->vqp.qp.qp_num;
	struct ibv_send_wr *bad, wr = { .opcode = IBV_WR_SEND };
	struct ibv_poll_cq_attr poll = {};

	CHECK(!tern_post_send(&qp->vqp.qp, &wr, &bad));
	CHECK(tern_post_send(&qp->vqp.qp, &wr, &bad) == ENOMEM);
	put_cqe(cq, 0, qpn, 1, 0, 0);
	CHECK(!cqx->start_poll(cqx, &poll));
	CHECK(tern_shared_read(&cq->record->ci) == 1);
	CHECK(!tern_post_send(&qp->vqp.qp, &wr, &bad));
	put_cqe(cq, 1, qpn, 2, 1, 0);
	CHECK(!cqx->next_poll(cqx) && cqx->wr_id == 2);
	CHECK(!tern_post_send(&qp->vqp.qp, &wr, &bad));

	/* The next owner of the number, in the same session. */
	CHECK(!tern_destroy_qp(&qp->vqp.qp));
	next_qpn = qpn;
	other = make_qp(cq, cq, one);
	put_cqe(cq, 2, qpn, 3, 0, TERN_CQE_F_RECV);
	CHECK(!cqx->next_poll(cqx) && cqx->wr_id == 3);
	CHECK(atomic_load(&other->rq_tail) == 1);
	cqx->end_poll(cqx);
	next_qpn = 0x300;
	tern_destroy_qp(&other->vqp.qp);
	tern_destroy_cq(&cq->vcq.cq);
}
