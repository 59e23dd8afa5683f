// SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause)
/* A context without a device, with its objects. */

#include "fixture.h"

static struct tern_device device = { .page_size = PAGE };
struct tern_context *ctx;
struct tern_pd test_pd;

void setup(void)
{
	unsigned int i;

	ctx = calloc(1, sizeof(*ctx));
	device.vdev.ops = driver_ops;
	strcpy(device.vdev.device.name, "tern0");
	ctx->vctx.context.device = &device.vdev.device;
	atomic_store(&test_pd.refs, 1);
	test_pd.ibvpd.context = &ctx->vctx.context;
	ctx->uar = aligned_alloc(PAGE, PAGE);
	memset(ctx->uar, 0, PAGE);
	ctx->max_send_wr = 4096;
	ctx->max_recv_wr = 4096;
	ctx->max_srq_wr = 4096;
	ctx->max_cqe = 65536;
	ctx->max_send_sge = 32;
	ctx->max_recv_sge = 32;
	ctx->max_inline = 512;
	pthread_mutex_init(&ctx->qp_table_mutex, NULL);
	pthread_mutex_init(&ctx->xrc_srqs_mutex, NULL);
	for (i = 0; i < TERN_XRC_SRQ_BUCKETS; i++)
		list_head_init(&ctx->xrc_srqs[i]);
	tern_init_records(ctx);
}

void teardown(void)
{
	unsigned int i;

	for (i = 0; i < TERN_XRC_SRQ_BUCKETS; i++)
		CHECK(list_empty(&ctx->xrc_srqs[i]));
	for (i = 0; i < TERN_NUM_RECORD_TYPES; i++)
		CHECK(list_empty(&ctx->record_pages[i]));
	tern_uninit_records(ctx);
	for (i = 0; i < TERN_QP_TABLE_SIZE; i++)
		free(ctx->qp_table[i]);
	free(ctx->uar);
	free(ctx);
}

uint32_t last_kick(void)
{
	atomic_uint *db = ctx->uar + TERN_UAR_DB;

	return le32toh((__force __le32)atomic_exchange(db, 0));
}

uint32_t kick_of(uint32_t cmd, uint32_t num)
{
	return cmd << 28 | num;
}

struct tern_cq *make_cq(uint32_t cqe)
{
	struct ibv_cq_init_attr_ex attr = {
		.cqe = cqe,
		.wc_flags = IBV_WC_STANDARD_FLAGS,
	};
	struct ibv_cq_ex *cq = tern_create_cq_ex(&ctx->vctx.context, &attr);

	CHECK(cq);
	return to_tern_cq_ex(cq);
}

struct tern_qp *make_typed_qp(enum ibv_qp_type qp_type, struct tern_cq *scq,
			      struct tern_cq *rcq, struct ibv_srq *srq,
			      struct ibv_qp_cap cap, uint64_t send_ops)
{
	bool target = qp_type == IBV_QPT_XRC_RECV;
	bool own_rq = !target && qp_type != IBV_QPT_XRC_SEND && !srq;
	static struct verbs_xrcd xrcd;
	struct ibv_qp_init_attr_ex attr = {
		.send_cq = scq ? &scq->vcq.cq : NULL,
		.recv_cq = rcq ? &rcq->vcq.cq : NULL,
		.srq = srq,
		.cap = cap,
		.qp_type = qp_type,
		.comp_mask = (target ? IBV_QP_INIT_ATTR_XRCD :
				       IBV_QP_INIT_ATTR_PD) |
			     IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.pd = target ? NULL : &test_pd.ibvpd,
		.xrcd = target ? &xrcd.xrcd : NULL,
		.send_ops_flags = send_ops,
	};
	struct ibv_qp *qp = tern_create_qp_ex(&ctx->vctx.context, &attr);

	CHECK(qp);
	if (!target) {
		CHECK(attr.cap.max_send_wr >= cap.max_send_wr);
		CHECK(attr.cap.max_send_sge >= cap.max_send_sge);
		CHECK(attr.cap.max_inline_data >= cap.max_inline_data);
	}
	CHECK(own_rq ? attr.cap.max_recv_wr >= cap.max_recv_wr :
		       !attr.cap.max_recv_wr);
	CHECK(own_rq ? attr.cap.max_recv_sge >= cap.max_recv_sge :
		       !attr.cap.max_recv_sge);
	CHECK(!memcmp(&attr.cap, &last_cap, sizeof(last_cap)));
	qp->state = IBV_QPS_RTS;
	return to_tern_qp(qp);
}

struct tern_qp *make_qp(struct tern_cq *scq, struct tern_cq *rcq,
			struct ibv_qp_cap cap)
{
	return make_typed_qp(IBV_QPT_RC, scq, rcq, NULL, cap, RC_OPS);
}

const struct ibv_qp_cap small_cap = { 4, 4, 2, 2, 32 };

uint32_t sq_pi(struct tern_qp *qp)
{
	return tern_shared_read(&qp->record->sq_pi);
}

void put_whole_cqe(struct tern_cq *cq, uint32_t index,
		   const struct tern_cqe *cqe)
{
	struct tern_cqe *slot = tern_cqe_at(cq, index);

	memcpy(slot, cqe, offsetof(struct tern_cqe, phase));
	/* The test acts as the device, so a CPU release orders the stores. */
	atomic_store_explicit((atomic_uint *)&slot->phase,
			      (__force uint32_t)htole32(
				      !(((index - cq->base) >> cq->log_size) &
					1)),
			      memory_order_release);
}

void put_cqe(struct tern_cq *cq, uint32_t index, uint32_t qpn, uint64_t wr_id,
	     uint32_t wqe_index, uint8_t flags)
{
	struct tern_cqe cqe = {
		.wr_id = htole64(wr_id),
		.qpn = htole32(qpn),
		.wqe_index = htole32(wqe_index),
		.flags = flags,
		.opcode = flags & TERN_CQE_F_RECV ? TERN_RECV_SEND :
						    TERN_WR_SEND,
	};

	put_whole_cqe(cq, index, &cqe);
}

void put_srq_cqe(struct tern_cq *cq, uint32_t index, uint32_t qpn,
		 uint64_t wr_id, uint32_t srqn)
{
	struct tern_cqe cqe = {
		.wr_id = htole64(wr_id),
		.qpn = htole32(qpn),
		.flags = TERN_CQE_F_RECV,
		.opcode = TERN_RECV_SEND,
		.srqn = htole32(srqn),
	};

	put_whole_cqe(cq, index, &cqe);
}
