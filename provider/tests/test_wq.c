// SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause)
/* Work queues, their tables, flows and counters. */

#include <errno.h>

#include "fixture.h"

static struct ibv_wq_init_attr wq_attr(struct tern_cq *cq)
{
	return (struct ibv_wq_init_attr) {
		.wq_type = IBV_WQT_RQ,
		.max_wr = 3,
		.max_sge = 2,
		.pd = &test_pd.ibvpd,
		.cq = &cq->vcq.cq,
		.create_flags = 0xff, /* not valid without the mask */
	};
}

static int set_state(struct ibv_wq *wq, enum ibv_wq_state state)
{
	struct ibv_wq_attr attr = {
		.attr_mask = IBV_WQ_ATTR_STATE,
		.wq_state = state,
	};

	return tern_modify_wq(wq, &attr);
}

/* Receives are posted and completed as those of a QP. */
void test_wq(void)
{
	struct ibv_sge sge = { .addr = 0x1000, .length = 2048, .lkey = 5 };
	struct ibv_recv_wr *bad, recv = {
		.wr_id = 9,
		.sg_list = &sge,
		.num_sge = 1,
	};
	struct tern_cq *cq = make_cq(16);
	struct ibv_wq_init_attr attr = wq_attr(cq);
	struct tern_rq_hdr *hdr;
	struct tern_sge *slot;
	struct tern_qp *qp;
	struct ibv_wq *wq;
	struct ibv_wc wc;
	int i;

	ctx->caps = TERN_UCTX_CAP_RSS;
	wq = tern_create_wq(&ctx->vctx.context, &attr);
	CHECK(wq && wq->post_recv && wq->state == IBV_WQS_RESET);
	CHECK(attr.max_wr == 4 && attr.max_sge >= 2);
	CHECK(!last_wq_init.create_flags && last_wq.log_size == 2);
	qp = &to_tern_rwq(wq)->qp;
	CHECK(last_wq.buf_addr == (uintptr_t)qp->buf.addr &&
	      last_wq.record_addr == (uintptr_t)qp->record);
	CHECK(tern_find_qp(ctx, wq->wq_num) == qp);

	/* Nothing can be posted before the queue is ready. */
	CHECK(wq->post_recv(wq, &recv, &bad) == EINVAL);
	CHECK(!set_state(wq, IBV_WQS_RDY));
	for (i = 0; i < 4; i++)
		CHECK(!wq->post_recv(wq, &recv, &bad));
	CHECK(wq->post_recv(wq, &recv, &bad) == ENOMEM && bad == &recv);
	CHECK(tern_shared_read(&qp->record->rq_pi) == 4);
	hdr = tern_wq_slot(&qp->rq, 3);
	slot = (void *)(hdr + 1);
	CHECK(hdr->num_sge == 1 && le64toh(hdr->wr_id) == 9);
	CHECK(le64toh(slot->addr) == 0x1000 && le32toh(slot->lkey) == 5);

	put_cqe(cq, 0, wq->wq_num, 9, 0, TERN_CQE_F_RECV);
	CHECK(tern_poll_cq(&cq->vcq.cq, 1, &wc) == 1);
	CHECK(wc.opcode == IBV_WC_RECV && wc.qp_num == wq->wq_num);
	CHECK(!wq->post_recv(wq, &recv, &bad));

	/* A queue in error takes requests, to flush them; RESET drops all. */
	CHECK(!set_state(wq, IBV_WQS_ERR));
	put_cqe(cq, 1, wq->wq_num, 9, 1, TERN_CQE_F_RECV);
	CHECK(tern_poll_cq(&cq->vcq.cq, 1, &wc) == 1);
	CHECK(!wq->post_recv(wq, &recv, &bad));
	put_cqe(cq, 2, wq->wq_num, 9, 2, TERN_CQE_F_RECV);
	CHECK(!set_state(wq, IBV_WQS_RESET));
	CHECK(!tern_poll_cq(&cq->vcq.cq, 1, &wc));
	CHECK(!tern_shared_read(&qp->record->rq_pi));
	CHECK(wq->post_recv(wq, &recv, &bad) == EINVAL);

	create_err = EINVAL;
	CHECK(set_state(wq, IBV_WQS_RDY) == EINVAL);
	create_err = 0;
	CHECK(wq->post_recv(wq, &recv, &bad) == EINVAL);
	i = wq->wq_num;
	CHECK(!tern_destroy_wq(wq) && !tern_find_qp(ctx, i) && !raw_objects);
	tern_destroy_cq(&cq->vcq.cq);
}

/* States that do not exist stay in the provider, if the mask says that they are given. */
static void wq_states_refused(struct ibv_wq *wq)
{
	static const int wrong[] = { IBV_WQS_UNKNOWN, 7, -1, 0x7fffffff };
	struct ibv_wq_attr attr = {};
	unsigned int i;

	for (i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		last_wq_attr.flags = 0x5a;
		attr.wq_state = wrong[i];
		attr.curr_wq_state = IBV_WQS_RESET;
		attr.attr_mask = IBV_WQ_ATTR_STATE | IBV_WQ_ATTR_CURR_STATE;
		CHECK(tern_modify_wq(wq, &attr) == EINVAL);
		attr.wq_state = IBV_WQS_RDY;
		attr.curr_wq_state = wrong[i];
		CHECK(tern_modify_wq(wq, &attr) == EINVAL);
		attr.attr_mask = IBV_WQ_ATTR_CURR_STATE;
		CHECK(tern_modify_wq(wq, &attr) == EINVAL);
		CHECK(last_wq_attr.flags == 0x5a);
		attr.attr_mask = IBV_WQ_ATTR_STATE;
		CHECK(!tern_modify_wq(wq, &attr) && !last_wq_attr.flags);
	}
}

void test_wq_refused(void)
{
	struct tern_cq *cq = make_cq(16);
	struct ibv_wq_init_attr attr = wq_attr(cq);
	struct ibv_rwq_ind_table_init_attr table_attr = {};
	struct ibv_rwq_ind_table *table;
	struct ibv_wq *wq;

#define REFUSED(err, field, value) do {                                        \
	attr = wq_attr(cq);                                                    \
	attr.comp_mask = IBV_WQ_INIT_ATTR_FLAGS;                               \
	attr.create_flags = 0;                                                 \
	attr.field = value;                                                    \
	CHECK(!tern_create_wq(&ctx->vctx.context, &attr) && errno == err);     \
} while (0)
	REFUSED(EOPNOTSUPP, create_flags, 0);
	ctx->caps = TERN_UCTX_CAP_RSS;
	REFUSED(EOPNOTSUPP, create_flags, IBV_WQ_FLAGS_CVLAN_STRIPPING);
	ctx->caps |= TERN_UCTX_CAP_RAW_OFFLOAD;
	REFUSED(EOPNOTSUPP, create_flags, IBV_WQ_FLAGS_DELAY_DROP);
	REFUSED(EOPNOTSUPP, create_flags, IBV_WQ_FLAGS_PCI_WRITE_END_PADDING);
	REFUSED(EOPNOTSUPP, comp_mask, 2);
	REFUSED(EOPNOTSUPP, wq_type, 1);
	REFUSED(EINVAL, max_wr, 4097);
	REFUSED(EINVAL, max_sge, 33);
	REFUSED(EINVAL, cq, NULL);
	REFUSED(ENOSPC, create_flags, (create_err = ENOSPC, 0));
#undef REFUSED
	create_err = 0;
	attr = wq_attr(cq);
	attr.comp_mask = IBV_WQ_INIT_ATTR_FLAGS;
	attr.create_flags = IBV_WQ_FLAGS_CVLAN_STRIPPING |
			    IBV_WQ_FLAGS_SCATTER_FCS;
	wq = tern_create_wq(&ctx->vctx.context, &attr);
	CHECK(wq && last_wq_init.create_flags == 3);
	wq_states_refused(wq);

	table_attr.ind_tbl = &wq;
	table = tern_create_rwq_ind_table(&ctx->vctx.context, &table_attr);
	CHECK(table && !tern_destroy_rwq_ind_table(table));
	table_attr.log_ind_tbl_size = 8;
	CHECK(!tern_create_rwq_ind_table(&ctx->vctx.context, &table_attr) &&
	      errno == EINVAL);
	table_attr.log_ind_tbl_size = 64;
	CHECK(!tern_create_rwq_ind_table(&ctx->vctx.context, &table_attr) &&
	      errno == EINVAL);
	table_attr.log_ind_tbl_size = 0;
	create_err = EPERM;
	CHECK(!tern_create_rwq_ind_table(&ctx->vctx.context, &table_attr) &&
	      errno == EPERM);
	create_err = 0;
	CHECK(!tern_destroy_wq(wq) && !raw_objects);
	tern_destroy_cq(&cq->vcq.cq);
}

void test_flow_objects(void)
{
	struct ibv_qp qp = { .context = &ctx->vctx.context };
	struct ibv_flow_attr attr = {};
	struct ibv_flow *flow = tern_create_flow(&qp, &attr);

	CHECK(flow && flow->context == qp.context && raw_objects == 1);
	CHECK(!tern_destroy_flow(flow) && !raw_objects);
	attr.comp_mask = 1;
	CHECK(!tern_create_flow(&qp, &attr) && errno == EOPNOTSUPP);
	attr.comp_mask = 0;
	create_err = EPERM;
	CHECK(!tern_create_flow(&qp, &attr) && errno == EPERM);
	create_err = 0;
}

/* Values go where the program attached them. */
void test_flow_counters(void)
{
	struct ibv_counter_attach_attr attach = {
		.counter_desc = IBV_COUNTER_BYTES,
		.index = 3,
	};
	struct ibv_counters_init_attr init = {};
	uint64_t values[4] = { 1, 2, 3, 4 };
	struct {
		struct ibv_flow_attr attr;
		struct ibv_flow_spec_eth eth;
		struct ibv_flow_spec_counter_action count;
	} __attribute__((packed)) flow_attr = {
		.attr = { .num_of_specs = 2 },
		.eth = { IBV_FLOW_SPEC_ETH, sizeof(flow_attr.eth) },
		.count = { IBV_FLOW_SPEC_ACTION_COUNT,
			   sizeof(flow_attr.count) },
	};
	struct ibv_qp qp = { .context = &ctx->vctx.context };
	struct ibv_counters *counters;
	struct ibv_flow flow, *bound;

	counters = tern_create_counters(&ctx->vctx.context, &init);
	CHECK(counters && raw_objects == 1);
	counter_packets = 10;
	counter_bytes = 1000;
	CHECK(tern_read_counters(counters, values, 4, 0) == EINVAL);

	CHECK(tern_attach_counters_point_flow(counters, &attach, &flow) ==
	      EOPNOTSUPP);
	CHECK(!tern_attach_counters_point_flow(counters, &attach, NULL));
	attach.counter_desc = IBV_COUNTER_PACKETS;
	attach.index = 0;
	CHECK(!tern_attach_counters_point_flow(counters, &attach, NULL));
	attach.counter_desc = 2;
	CHECK(tern_attach_counters_point_flow(counters, &attach, NULL) ==
	      EOPNOTSUPP);
	attach.counter_desc = IBV_COUNTER_PACKETS;
	flow_attr.count.counters = counters;
	bound = tern_create_flow(&qp, (void *)&flow_attr);
	CHECK(bound);
	CHECK(tern_attach_counters_point_flow(counters, &attach, NULL) ==
	      EBUSY);
	CHECK(!tern_destroy_flow(bound));
	CHECK(!tern_attach_counters_point_flow(counters, &attach, NULL));
	attach.comp_mask = 1;
	CHECK(tern_attach_counters_point_flow(counters, &attach, NULL) ==
	      EOPNOTSUPP);

	CHECK(!tern_read_counters(counters, values, 4,
				  IBV_READ_COUNTERS_ATTR_PREFER_CACHED));
	CHECK(last_read_flags == IBV_READ_COUNTERS_ATTR_PREFER_CACHED);
	/* The index that was attached twice has the sum. */
	CHECK(values[0] == 20 && !values[1] && !values[2] && values[3] == 1000);
	CHECK(tern_read_counters(counters, values, 3, 0) == EINVAL);
	create_err = EIO;
	CHECK(tern_read_counters(counters, values, 4, 0) == EIO);
	CHECK(!tern_create_counters(&ctx->vctx.context, &init) && errno == EIO);
	create_err = EPROTONOSUPPORT;
	CHECK(!tern_create_counters(&ctx->vctx.context, &init) &&
	      errno == EOPNOTSUPP);
	create_err = 0;
	CHECK(!tern_destroy_counters(counters) && !raw_objects);
}
