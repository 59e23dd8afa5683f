// SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause)
/* Direct verbs: terndv.h alone describes what the provider and the device see. */

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fixture.h"
#include "../terndv.h"

static const struct verbs_device_ops other_ops;
static struct verbs_device other_device = { .ops = &other_ops };
static struct ibv_context other = { .device = &other_device.device };

void test_dv_device(void)
{
	struct terndv_context attrs;

	CHECK(terndv_is_supported(ctx->vctx.context.device));
	CHECK(!terndv_is_supported(&other_device.device));
	CHECK(terndv_query_device(&other, &attrs) == EOPNOTSUPP);

	memset(&attrs, 0xff, sizeof(attrs));
	attrs.comp_mask = 0;
	ctx->caps = TERN_UCTX_CAP_MW | TERN_UCTX_CAP_DM_OPS;
	CHECK(!terndv_query_device(&ctx->vctx.context, &attrs));
	CHECK(attrs.comp_mask == 0 && attrs.version == 0);
	CHECK(attrs.flags == TERNDV_CONTEXT_FLAGS_MW);
	CHECK(attrs.max_send_wr == 4096 && attrs.max_cqe == 65536);
	CHECK(attrs.max_inline_data == 512 && attrs.max_send_sge == 32);
	/* Not requested: the program's structure may end before it. */
	CHECK(attrs.dm_ops == UINT32_MAX);

	attrs.comp_mask = UINT64_MAX;
	CHECK(!terndv_query_device(&ctx->vctx.context, &attrs));
	CHECK(attrs.comp_mask == TERNDV_CONTEXT_MASK_DM_OPS);
	CHECK(attrs.dm_ops == (1 << TERNDV_DM_OP_ADD | 1 << TERNDV_DM_OP_OR |
			       1 << TERNDV_DM_OP_CLEAR));

	ctx->caps = TERN_UCTX_CAP_UDP_SPORT;
	CHECK(!terndv_query_device(&ctx->vctx.context, &attrs));
	CHECK(attrs.flags == TERNDV_CONTEXT_FLAGS_UDP_SPORT);
	CHECK(attrs.dm_ops == 0);
}

#define CANARY 0x5c

/* A structure of this program, and what is behind it. */
#define GUARDED(type, name)                                                    \
	struct {                                                               \
		struct type out;                                               \
		uint8_t behind[64];                                            \
	} name;                                                                \
	memset(&name, CANARY, sizeof(name))

static void check_behind(const uint8_t *behind)
{
	unsigned int i;

	for (i = 0; i < 64; i++)
		CHECK(behind[i] == CANARY);
}

/*
 * The library, which was built with longer structures, stores nothing behind
 * those of the program, and no bit of a field that it does not know.
 */
void test_dv_lengths(void)
{
	struct ibv_srq_init_attr attr = { .attr = { 5, 2, 0 } };
	struct ibv_srq *srq = tern_create_srq(&test_pd.ibvpd, &attr);
	struct tern_ah ah = { .ibvah.context = &ctx->vctx.context };
	struct tern_cq *cq = make_cq(8);
	struct tern_qp *qp = make_qp(cq, cq, small_cap);
	struct tern_dm dm = { .vdm.dm.context = &ctx->vctx.context };
	struct tern_rwq wq = { .ibvwq.context = &ctx->vctx.context };
	struct ibv_pd pd = { .context = &ctx->vctx.context };
	struct terndv_obj obj;

	GUARDED(terndv_context, context);
	GUARDED(terndv_qp, qp_out);
	GUARDED(terndv_cq, cq_out);
	GUARDED(terndv_srq, srq_out);
	GUARDED(terndv_wq, wq_out);
	GUARDED(terndv_dm, dm_out);
	GUARDED(terndv_ah, ah_out);
	GUARDED(terndv_key_attr, key);

	obj = (struct terndv_obj) {
		.qp = { &qp->vqp.qp, &qp_out.out },
		.cq = { &cq->vcq.cq, &cq_out.out },
		.srq = { srq, &srq_out.out },
		.wq = { &wq.ibvwq, &wq_out.out },
		.dm = { &dm.vdm.dm, &dm_out.out },
		.ah = { &ah.ibvah, &ah_out.out },
	};
	context.out.comp_mask = UINT64_MAX;
	CHECK(!terndv_query_device(&ctx->vctx.context, &context.out));
	CHECK(!terndv_init_obj(&obj, TERNDV_OBJ_QP | TERNDV_OBJ_CQ |
					     TERNDV_OBJ_SRQ | TERNDV_OBJ_WQ |
					     TERNDV_OBJ_DM | TERNDV_OBJ_AH));
	CHECK(!terndv_query_key(&pd, 1, &key.out));
	check_behind(context.behind);
	check_behind(qp_out.behind);
	check_behind(cq_out.behind);
	check_behind(srq_out.behind);
	check_behind(wq_out.behind);
	check_behind(dm_out.behind);
	check_behind(ah_out.behind);
	check_behind(key.behind);
	CHECK(context.out.comp_mask == TERNDV_CONTEXT_MASK_DM_OPS);
	CHECK(!qp_out.out.comp_mask && !cq_out.out.comp_mask);
	CHECK(!srq_out.out.comp_mask && !wq_out.out.comp_mask);
	CHECK(!dm_out.out.comp_mask && !ah_out.out.comp_mask);
	CHECK(!key.out.comp_mask && !qp_out.out.reserved);

	CHECK(!tern_destroy_qp(&qp->vqp.qp));
	CHECK(!tern_destroy_srq(srq));
	CHECK(!tern_destroy_cq(&cq->vcq.cq));
}

/* A WQE written through terndv.h is the one that ibv_post_send() writes. */
void test_dv_post(void)
{
	struct ibv_sge sge = { .addr = 0x1000, .length = 64, .lkey = 3 };
	struct ibv_send_wr *bad, wr = {
		.wr_id = 77,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED,
	};
	struct tern_cq *cq = make_cq(8);
	struct tern_qp *qp = make_qp(cq, cq, small_cap);
	struct terndv_qp out = { .comp_mask = UINT64_MAX };
	struct terndv_obj obj = { .qp = { &qp->vqp.qp, &out } };
	struct tern_sq_hdr *hdr;
	struct tern_sge *data;

	CHECK(!tern_post_send(&qp->vqp.qp, &wr, &bad));
	CHECK(!terndv_init_obj(&obj, TERNDV_OBJ_QP));
	CHECK(out.comp_mask == 0 && out.record == qp->record);
	CHECK(out.sq.pi == 1 && out.sq.wqe_cnt == tern_wq_num(&qp->sq));
	CHECK(out.rq.buf == qp->rq.slots && out.rq.pi == 0);
	CHECK(out.rq.stride == 1U << qp->rq.log_stride);
	CHECK(out.max_inline_data == qp->max_inline);
	CHECK(out.doorbell == ctx->uar);

	hdr = terndv_wqe_slot(&out.sq, 1);
	memset(hdr, 0, out.sq.stride);
	hdr->opcode = TERN_WR_SEND;
	hdr->flags = TERN_WQE_F_SIGNALED;
	hdr->num_sge = 1;
	hdr->wr_id = htole64(77);
	data = (void *)(hdr + 1);
	data->addr = htole64(0x1000);
	data->length = htole32(64);
	data->lkey = htole32(3);
	CHECK(!memcmp(hdr, terndv_wqe_slot(&out.sq, 0),
		      sizeof(*hdr) + sizeof(*data)));
	/* Numbers run on past the last slot. */
	CHECK(terndv_wqe_slot(&out.sq, out.sq.wqe_cnt + 1) == hdr);

	CHECK(!tern_destroy_qp(&qp->vqp.qp));
	CHECK(!tern_destroy_cq(&cq->vcq.cq));
}

void test_dv_poll(void)
{
	struct tern_cq *cq = make_cq(4);
	struct terndv_cq out;
	struct terndv_obj obj = { .cq = { &cq->vcq.cq, &out } };
	uint32_t i, base;

	for (base = 0; base < 8; base += 5) {
		cq->base = base;
		tern_shared_write(&cq->record->ci, base + 1);
		CHECK(!terndv_init_obj(&obj, TERNDV_OBJ_CQ));
		CHECK(out.cqe_cnt == 4 && out.cqn == cq->cqn);
		CHECK(out.ci == base + 1 && out.base == base);
		CHECK(out.record == cq->record && out.doorbell == ctx->uar);
		for (i = base; i < base + 12; i++) {
			struct tern_cqe *slot = terndv_cqe_slot(&out, i);

			CHECK(slot == tern_cqe_at(cq, i));
			put_cqe(cq, i, 5, i, i, 0);
			CHECK((le32toh(slot->phase) & TERN_CQE_PHASE) ==
			      terndv_cqe_phase(&out, i));
			CHECK(le64toh(slot->wr_id) == i);
		}
	}
	cq->base = 0;
	tern_cq_event(&cq->vcq.cq);
	CHECK(!terndv_init_obj(&obj, TERNDV_OBJ_CQ) && out.arm_seq == 1);
	CHECK(!tern_destroy_cq(&cq->vcq.cq));
}

/* A program that polls by itself keeps the CQEs of a destroyed QP. */
void test_dv_purge(void)
{
	struct tern_cq *cq = make_cq(4);
	struct tern_qp *qp = make_qp(cq, cq, small_cap);
	struct terndv_cq out;
	struct terndv_obj obj = { .cq = { &cq->vcq.cq, &out } };
	struct tern_cqe before[4];
	uint32_t i;

	CHECK(!terndv_init_obj(&obj, TERNDV_OBJ_CQ));
	for (i = 0; i < 4; i++)
		put_cqe(cq, i, i % 2 ? qp->vqp.qp.qp_num : 1, i, 0, 0);
	tern_shared_write(&out.record->ci, 2);
	memcpy(before, out.buf, sizeof(before));
	CHECK(!tern_destroy_qp(&qp->vqp.qp));
	CHECK(!memcmp(before, out.buf, sizeof(before)));
	CHECK(tern_shared_read(&out.record->ci) == 2);
	CHECK(!tern_destroy_cq(&cq->vcq.cq));
}

/* The device writes CQE 3 to the new buffer before the others are moved. */
static int switch_at_3(uint32_t *first_index)
{
	struct tern_cqe *slot = (void *)(uintptr_t)last_cq_resize.buf_addr;

	slot->wr_id = htole64(3);
	slot->phase = htole32(TERN_CQE_PHASE);
	*first_index = 3;
	return 0;
}

/* The records have the indices that a program advances by itself. */
void test_dv_cq_indices(void)
{
	struct tern_cq *cq = make_cq(4);
	struct ibv_cq *ibvcq = &cq->vcq.cq;
	struct terndv_cq out;
	struct terndv_obj obj = { .cq = { ibvcq, &out } };
	const uint32_t arm = TERN_CQ_ARM_VALID;
	uint32_t i;

	CHECK(!terndv_init_obj(&obj, TERNDV_OBJ_CQ));
	for (i = 0; i < 3; i++)
		put_cqe(cq, i, 1, i, 0, 0);
	(void)last_kick();
	tern_shared_write(&out.record->ci, 3);
	CHECK(!tern_req_notify_cq(ibvcq, 0) && !last_kick());
	CHECK(tern_shared_read(&out.record->arm) == (arm | 3));
	tern_shared_write(&out.record->ci, 2);
	CHECK(!tern_req_notify_cq(ibvcq, 0) && last_kick());
	CHECK(tern_shared_read(&out.record->arm) == (arm | 2));

	on_resize_cq = switch_at_3;
	CHECK(!tern_resize_cq(ibvcq, 2));
	CHECK(!terndv_init_obj(&obj, TERNDV_OBJ_CQ));
	CHECK(out.ci == 2 && out.base == 3 && out.cqe_cnt == 2);
	for (i = 2; i < 4; i++)
		CHECK(le64toh(terndv_cqe_slot(&out, i)->wr_id) == i);
	CHECK(!tern_destroy_cq(ibvcq));
}

void test_dv_wq_indices(void)
{
	struct ibv_srq_init_attr init = { .attr = { 4, 1, 0 } };
	struct ibv_srq *srq = tern_create_srq(&test_pd.ibvpd, &init);
	struct ibv_srq_attr attr = { .max_wr = 16 };
	struct tern_cq *cq = make_cq(4);
	struct tern_qp *qp = make_qp(cq, cq, small_cap);
	struct tern_rq_hdr *hdr;
	struct terndv_srq srq_out;
	struct terndv_qp qp_out;
	struct terndv_obj obj = {
		.qp = { &qp->vqp.qp, &qp_out },
		.srq = { srq, &srq_out },
	};
	uint32_t i;

	CHECK(!terndv_init_obj(&obj, TERNDV_OBJ_QP | TERNDV_OBJ_SRQ));
	for (i = 0; i < 3; i++) {
		hdr = terndv_wqe_slot(&srq_out.rq, i);
		hdr->wr_id = htole64(i);
	}
	tern_shared_write(&srq_out.record->pi, 3);
	tern_shared_write(&srq_out.record->ci, 1);
	tern_shared_write(&qp_out.record->sq_pi, 5);
	tern_shared_write(&qp_out.record->rq_pi, 6);
	CHECK(!tern_modify_srq(srq, &attr, IBV_SRQ_MAX_WR));
	CHECK(!terndv_init_obj(&obj, TERNDV_OBJ_QP | TERNDV_OBJ_SRQ));
	CHECK(srq_out.rq.pi == 3 && srq_out.rq.wqe_cnt == 16);
	for (i = 1; i < 3; i++) {
		hdr = terndv_wqe_slot(&srq_out.rq, i);
		CHECK(le64toh(hdr->wr_id) == i);
	}
	CHECK(qp_out.sq.pi == 5 && qp_out.rq.pi == 6);
	CHECK(!tern_destroy_qp(&qp->vqp.qp));
	CHECK(!tern_destroy_srq(srq));
	CHECK(!tern_destroy_cq(&cq->vcq.cq));
}

void test_dv_objects(void)
{
	struct ibv_pd *pd = &test_pd.ibvpd;
	struct ibv_srq_init_attr attr = { .attr = { 5, 2, 0 } };
	struct ibv_srq *srq = tern_create_srq(pd, &attr);
	struct tern_ah ah = { .ibvah.context = &ctx->vctx.context };
	struct tern_cq *cq = make_cq(8);
	struct tern_qp *qp = make_typed_qp(IBV_QPT_RC, cq, cq, srq, small_cap,
					   RC_OPS);
	struct terndv_srq srq_out;
	struct terndv_qp qp_out;
	struct terndv_ah ah_out;
	struct terndv_obj obj = {
		.qp = { &qp->vqp.qp, &qp_out },
		.srq = { srq, &srq_out },
		.ah = { &ah.ibvah, &ah_out },
	};

	CHECK(!terndv_init_obj(&obj, TERNDV_OBJ_QP | TERNDV_OBJ_SRQ |
					     TERNDV_OBJ_AH));
	CHECK(!qp_out.rq.buf && !qp_out.rq.wqe_cnt);
	CHECK(srq_out.rq.wqe_cnt == 8 && srq_out.rq.stride >= 48);
	CHECK(srq_out.srqn == to_tern_srq(srq)->srqn);
	CHECK(srq_out.record == to_tern_srq(srq)->record);
	CHECK(ah_out.av == &ah.av);

	CHECK(terndv_init_obj(&obj, TERNDV_OBJ_CQ) == EINVAL);
	CHECK(terndv_init_obj(&obj, 1ULL << 40) == EOPNOTSUPP);
	obj.srq.out = NULL;
	CHECK(terndv_init_obj(&obj, TERNDV_OBJ_SRQ) == EINVAL);
	ah.ibvah.context = &other;
	CHECK(terndv_init_obj(&obj, TERNDV_OBJ_AH) == EOPNOTSUPP);

	CHECK(!tern_destroy_qp(&qp->vqp.qp));
	CHECK(!tern_destroy_srq(srq));
	CHECK(!tern_destroy_cq(&cq->vcq.cq));
}

void test_dv_wq(void)
{
	struct tern_cq *cq = make_cq(16);
	struct ibv_wq_init_attr attr = {
		.wq_type = IBV_WQT_RQ,
		.max_wr = 3,
		.max_sge = 2,
		.pd = &test_pd.ibvpd,
		.cq = &cq->vcq.cq,
	};
	struct terndv_obj obj = {};
	struct terndv_wq out;
	struct ibv_wq *wq;

	ctx->caps = TERN_UCTX_CAP_RSS;
	wq = tern_create_wq(&ctx->vctx.context, &attr);
	CHECK(wq);
	obj.wq.in = wq;
	obj.wq.out = &out;
	CHECK(!terndv_init_obj(&obj, TERNDV_OBJ_WQ));
	CHECK(out.wqn == wq->wq_num && out.doorbell == ctx->uar);
	CHECK((uintptr_t)out.record == last_wq.record_addr);
	CHECK((uintptr_t)out.rq.buf == last_wq.buf_addr);
	CHECK(out.rq.wqe_cnt == 4 && out.rq.stride == 1U << last_wq.log_stride);
	CHECK(!tern_destroy_wq(wq));
	CHECK(!tern_destroy_cq(&cq->vcq.cq));
}

/* A file acts as the device memory and its operation pages. */
static struct ibv_dm *open_dm(void)
{
	struct ibv_alloc_dm_attr attr = { .length = 2 * PAGE };
	int fd = memfd_create("dm", 0);
	struct ibv_dm *dm;

	CHECK(fd >= 0 && !ftruncate(fd, 4 * PAGE));
	ctx->vctx.context.cmd_fd = fd;
	dm_mapping.mmap_offset = PAGE;
	dm_mapping.mmap_size = 2 * PAGE;
	memory_err = 0;
	dm = tern_alloc_dm(&ctx->vctx.context, &attr);
	CHECK(dm);
	return dm;
}

void test_dv_dm_ops(void)
{
	struct terndv_dm out;
	struct terndv_obj obj = { .dm = { .out = &out } };
	struct ibv_dm *dm = open_dm();
	char *first, *second;

	obj.dm.in = dm;
	CHECK(!terndv_init_obj(&obj, TERNDV_OBJ_DM));
	CHECK(out.buf == to_tern_dm(dm)->addr && out.length == 2 * PAGE);

	dv_calls = 0;
	dv_op_mapping = (struct tern_uresp_alloc_dm) {
		.mmap_offset = dm_mapping.mmap_offset,
		.mmap_size = PAGE,
	};
	CHECK(!terndv_dm_map_op_addr(dm, 0, 2) && errno == EINVAL);
	CHECK(!terndv_dm_map_op_addr(dm, 0, 2 * PAGE) && errno == EINVAL);
	CHECK(!terndv_dm_map_op_addr(dm, 0, UINT64_MAX - 3) && errno == EINVAL);
	CHECK(!dv_calls);
	dv_err = EPROTONOSUPPORT;
	CHECK(!terndv_dm_map_op_addr(dm, 0, 0) && errno == EOPNOTSUPP);
	dv_err = ENOSPC;
	CHECK(!terndv_dm_map_op_addr(dm, 0, 0) && errno == ENOSPC);
	dv_err = 0;
	dv_op_mapping.mmap_offset++;
	CHECK(!terndv_dm_map_op_addr(dm, 0, 0) && errno == EINVAL);
	dv_op_mapping.mmap_offset--;
	/* The kernel has the page, and returns it to the next call. */
	CHECK(terndv_dm_map_op_addr(dm, 0, 0));

	dv_calls = 0;
	first = terndv_dm_map_op_addr(dm, 1, PAGE + 12);
	CHECK(first && dv_input.handle == DM_HANDLE && dv_input.op == 1);
	CHECK(dv_input.offset == PAGE && ((uintptr_t)first & (PAGE - 1)) == 12);
	CHECK(terndv_dm_map_op_addr(dm, 1, PAGE) == first - 12);
	CHECK(dv_calls == 1);
	second = terndv_dm_map_op_addr(dm, 2, PAGE);
	CHECK(second && second != first - 12 && dv_calls == 2);
	CHECK(terndv_dm_map_op_addr(dm, 1, 0) && dv_calls == 3);

	CHECK(!tern_free_dm(dm));
	/* Nothing is mapped there any more. */
	CHECK(msync(first - 12, PAGE, MS_ASYNC) && errno == ENOMEM);
	CHECK(msync(second, PAGE, MS_ASYNC) && errno == ENOMEM);
	close(ctx->vctx.context.cmd_fd);
}

void test_dv_keys(void)
{
	struct ibv_pd pd = { .context = &ctx->vctx.context, .handle = 0x21 };
	struct ibv_mw mw = { .pd = &pd, .rkey = 0x12345678 };
	struct terndv_key_attr attr;

	dv_key = (struct tern_uresp_query_key) {
		.addr = 1, .length = 2, .key = 3, .access = 4, .qp_num = 5,
		.num_windows = 6, .mr_key = 7, .state = 1, .type = 2,
	};
	CHECK(!terndv_query_mw(&mw, &attr));
	CHECK(dv_input.handle == 0x21 && dv_input.key == 0x12345678);
	CHECK(attr.comp_mask == 0 && attr.addr == 1 && attr.length == 2);
	CHECK(attr.key == 3 && attr.access == 4 && attr.qp_num == 5);
	CHECK(attr.num_windows == 6 && attr.mr_key == 7);
	CHECK(attr.state == TERNDV_KEY_VALID && attr.type == 2);
	dv_err = ENOENT;
	CHECK(terndv_query_key(&pd, 9, &attr) == ENOENT);
	dv_err = EPROTONOSUPPORT;
	CHECK(terndv_query_key(&pd, 9, &attr) == EOPNOTSUPP);
	dv_err = 0;
	pd.context = &other;
	CHECK(terndv_query_key(&pd, 9, &attr) == EOPNOTSUPP);
}

void test_dv_sport(void)
{
	struct ibv_qp qp = { .context = &ctx->vctx.context, .handle = 0x31 };
	uint16_t sport = 0;

	CHECK(!terndv_modify_qp_udp_sport(&qp, 0xc123));
	CHECK(dv_input.handle == 0x31 && dv_sport == 0xc123);
	dv_input.handle = 0;
	CHECK(!terndv_query_qp_udp_sport(&qp, &sport) && sport == 0xc123);
	CHECK(dv_input.handle == 0x31);
	dv_err = EINVAL;
	CHECK(terndv_modify_qp_udp_sport(&qp, 0) == EINVAL);
	dv_err = EPROTONOSUPPORT;
	CHECK(terndv_query_qp_udp_sport(&qp, &sport) == EOPNOTSUPP);
	dv_err = 0;
	qp.context = &other;
	CHECK(terndv_modify_qp_udp_sport(&qp, 1) == EOPNOTSUPP);
	CHECK(terndv_query_qp_udp_sport(&qp, &sport) == EOPNOTSUPP);
}
