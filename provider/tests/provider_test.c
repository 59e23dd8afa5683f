// SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause)
/*
 * Tests of the provider's queues without a device: the kernel's commands are
 * stubs, and the test itself reads WQEs and writes CQEs according to the
 * contract.
 */

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "fixture.h"

/* ---- tests ---- */

/* ibv_post_send() and ibv_wr_*() build the same WQE for a request. */
static void test_encoding(void)
{
	static const enum ibv_wr_opcode opcodes[] = {
		IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM,
		IBV_WR_SEND, IBV_WR_SEND_WITH_IMM, IBV_WR_RDMA_READ,
		IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WR_ATOMIC_FETCH_AND_ADD,
	};
	struct tern_cq *cq = make_cq(64);
	struct tern_qp *qp = make_qp(cq, cq, small_cap);
	struct ibv_qp_ex *qpx = &qp->vqp.qp_ex;
	size_t stride = 1U << qp->sq.log_stride;
	unsigned int i;

	for (i = 0; i < sizeof(opcodes) / sizeof(opcodes[0]); i++) {
		struct ibv_sge sge = { .addr = 0x1122334455667788,
				       .length = 8, .lkey = 0xabcdef01 };
		struct ibv_send_wr *bad, wr = {
			.wr_id = 0x8877665544332211,
			.sg_list = &sge,
			.num_sge = 1,
			.opcode = opcodes[i],
			.send_flags = IBV_SEND_SIGNALED | IBV_SEND_FENCE,
			.imm_data = htobe32(0x01020304),
		};
		uint8_t *slot = tern_wq_slot(&qp->sq, 0);
		uint8_t first[2048];

		if (opcodes[i] >= IBV_WR_ATOMIC_CMP_AND_SWP) {
			wr.wr.atomic.remote_addr = 0xfedcba9876543210;
			wr.wr.atomic.rkey = 0x55667788;
			wr.wr.atomic.compare_add = 0x1111111122222222;
			wr.wr.atomic.swap = 0x3333333344444444;
		} else {
			wr.wr.rdma.remote_addr = 0xfedcba9876543210;
			wr.wr.rdma.rkey = 0x55667788;
		}
		qp->sq.head = 0;
		memset(slot, 0, stride);
		CHECK(!tern_post_send(&qp->vqp.qp, &wr, &bad));
		CHECK(last_kick() ==
		      kick_of(TERN_DB_CMD_SQ, qp->vqp.qp.qp_num));
		CHECK(sq_pi(qp) == 1);
		memcpy(first, slot, stride);

		qp->sq.head = 0;
		memset(slot, 0, stride);
		qpx->wr_start(qpx);
		qpx->wr_id = wr.wr_id;
		qpx->wr_flags = IBV_SEND_SIGNALED | IBV_SEND_FENCE;
		switch (opcodes[i]) {
		case IBV_WR_RDMA_WRITE:
			qpx->wr_rdma_write(qpx, 0x55667788, 0xfedcba9876543210);
			break;
		case IBV_WR_RDMA_WRITE_WITH_IMM:
			qpx->wr_rdma_write_imm(qpx, 0x55667788,
					       0xfedcba9876543210,
					       htobe32(0x01020304));
			break;
		case IBV_WR_SEND:
			qpx->wr_send(qpx);
			break;
		case IBV_WR_SEND_WITH_IMM:
			qpx->wr_send_imm(qpx, htobe32(0x01020304));
			break;
		case IBV_WR_RDMA_READ:
			qpx->wr_rdma_read(qpx, 0x55667788, 0xfedcba9876543210);
			break;
		case IBV_WR_ATOMIC_CMP_AND_SWP:
			qpx->wr_atomic_cmp_swp(qpx, 0x55667788,
					       0xfedcba9876543210,
					       0x1111111122222222,
					       0x3333333344444444);
			break;
		default:
			qpx->wr_atomic_fetch_add(qpx, 0x55667788,
						 0xfedcba9876543210,
						 0x1111111122222222);
			break;
		}
		qpx->wr_set_sge(qpx, sge.lkey, sge.addr, sge.length);
		CHECK(!qpx->wr_complete(qpx));
		CHECK(last_kick() ==
		      kick_of(TERN_DB_CMD_SQ, qp->vqp.qp.qp_num));
		CHECK(!memcmp(first, slot, stride));
	}

	/* The last one, FETCH_AND_ADD, field by field. */
	{
		struct tern_sq_hdr *hdr = tern_wq_slot(&qp->sq, 0);
		struct tern_atomic_seg *seg = (void *)(hdr + 1);
		struct tern_sge *sge = (void *)(seg + 1);

		CHECK(hdr->opcode == TERN_WR_ATOMIC_FETCH_AND_ADD);
		CHECK(hdr->flags ==
		      (TERN_WQE_F_SIGNALED | TERN_WQE_F_FENCE));
		CHECK(hdr->num_sge == 1 && !le32toh(hdr->length));
		CHECK(le64toh(hdr->wr_id) == 0x8877665544332211);
		CHECK(le64toh(seg->raddr) == 0xfedcba9876543210);
		CHECK(le32toh(seg->rkey) == 0x55667788);
		CHECK(le64toh(seg->swap_add) == 0x1111111122222222);
		CHECK(!le64toh(seg->compare));
		CHECK(le64toh(sge->addr) == 0x1122334455667788);
		CHECK(le32toh(sge->length) == 8);
		CHECK(le32toh(sge->lkey) == 0xabcdef01);
	}
	tern_destroy_qp(&qp->vqp.qp);
	tern_destroy_cq(&cq->vcq.cq);
}

/* The largest WQEs of any capacity fit their slots, queues the buffer. */
static void test_geometry(void)
{
	static const uint32_t sges[] = { 0, 1, 2, 3, 5, 6, 13, 14, 32 };
	static const uint32_t inlines[] = { 0, 1, 80, 81, 208, 209, 512 };
	struct tern_cq *cq = make_cq(64);
	struct ibv_sge list[32];
	unsigned int i, j, k;
	uint8_t data[512];

	memset(data, 0x5a, sizeof(data));
	for (i = 0; i < 9; i++)
		for (j = 0; j < 7; j++) {
			struct ibv_qp_cap cap = { 3 + i, 1 + j, sges[i],
						  sges[8 - i], inlines[j] };
			struct tern_qp *qp = make_qp(cq, cq, cap);
			size_t stride = 1U << qp->sq.log_stride;
			uint8_t *slot = tern_wq_slot(&qp->sq, 0);
			struct ibv_send_wr *bad, wr = {
				.sg_list = list,
				.num_sge = qp->sq.max_sge,
				.opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
			};

			CHECK(last_qp.buf_len % PAGE == 0);
			CHECK((size_t)(qp->rq.slots - qp->sq.slots) ==
			      (size_t)(qp->sq.mask + 1) * stride);
			CHECK((uint8_t *)tern_wq_slot(&qp->rq, qp->rq.mask) +
				      (1U << qp->rq.log_stride) <=
			      (uint8_t *)qp->buf.addr + qp->buf.len);
			CHECK(1U << last_qp.log_sq_size == qp->sq.mask + 1);
			CHECK(1U << last_qp.log_rq_size == qp->rq.mask + 1);

			memset(list, 0xff, sizeof(list));
			memset(slot, 0, 2 * stride);
			CHECK(!tern_post_send(&qp->vqp.qp, &wr, &bad));
			list[0].addr = (uintptr_t)data;
			list[0].length = qp->max_inline;
			wr.num_sge = 1;
			wr.send_flags = IBV_SEND_INLINE;
			qp->sq.head = 0;
			CHECK(!tern_post_send(&qp->vqp.qp, &wr, &bad));
			if (qp->sq.mask)
				CHECK(!slot[stride] &&
				      !memcmp(slot + stride, slot + stride + 1,
					      stride - 1));
			list[0].length = qp->max_inline + 1;
			CHECK(tern_post_send(&qp->vqp.qp, &wr, &bad) == EINVAL);
			CHECK(bad == &wr);
			/* The sum counts, and has more than 32 bits. */
			list[0].length = qp->max_inline;
			list[1].addr = (uintptr_t)data;
			wr.num_sge = qp->sq.max_sge < 2 ? qp->sq.max_sge : 2;
			for (k = 0; k < 2 && wr.num_sge == 2; k++) {
				list[1].length = k ? UINT32_MAX : 1;
				CHECK(tern_post_send(&qp->vqp.qp, &wr, &bad) ==
				      EINVAL);
			}
			CHECK(sq_pi(qp) == 1);
			tern_destroy_qp(&qp->vqp.qp);
		}
	tern_destroy_cq(&cq->vcq.cq);
}

/* A full queue, wrap-around at 2^32, and slots freed by completions. */
static void test_send_queue(void)
{
	struct tern_cq *cq = make_cq(16);
	struct tern_qp *qp = make_qp(cq, cq, small_cap);
	struct ibv_send_wr *bad, wr[6] = {};
	struct ibv_sge sge = {};
	uint32_t start = 0xfffffffa;
	uint32_t ci = 0;
	struct ibv_wc wc;
	unsigned int i;

	for (i = 0; i < 6; i++) {
		wr[i].opcode = IBV_WR_SEND;
		wr[i].next = i < 5 ? &wr[i + 1] : NULL;
	}
	qp->sq.head = start;
	atomic_store(&qp->sq_tail, start);
	CHECK(tern_post_send(&qp->vqp.qp, wr, &bad) == ENOMEM);
	CHECK(bad == &wr[4]);
	CHECK(sq_pi(qp) == start + 4);
	CHECK(last_kick());
	/* The completion of the second WQE also frees the slot of the first. */
	put_cqe(cq, ci++, qp->vqp.qp.qp_num, 1, start + 1, 0);
	CHECK(tern_poll_cq(&cq->vcq.cq, 1, &wc) == 1 && wc.wr_id == 1);
	CHECK(tern_post_send(&qp->vqp.qp, &wr[4], &bad) == 0);
	CHECK(tern_post_send(&qp->vqp.qp, &wr[5], &bad) == ENOMEM);
	/* Data that never fits is not a matter of the queue. */
	wr[5].sg_list = &sge;
	wr[5].num_sge = 1;
	wr[5].send_flags = IBV_SEND_INLINE;
	CHECK(tern_post_send(&qp->vqp.qp, &wr[5], &bad) == ENOMEM);
	sge.length = qp->max_inline + 1;
	CHECK(tern_post_send(&qp->vqp.qp, &wr[5], &bad) == EINVAL);
	wr[5].num_sge = 0;
	CHECK(sq_pi(qp) == start + 6 && start + 6 == 0);
	for (i = 0; i < 100; i++) {
		put_cqe(cq, ci++, qp->vqp.qp.qp_num, i, start + 5 + i, 0);
		CHECK(tern_poll_cq(&cq->vcq.cq, 4, &wc) == 1 && wc.wr_id == i);
		CHECK(tern_shared_read(&cq->record->ci) == ci);
		CHECK(!tern_post_send(&qp->vqp.qp, &wr[5], &bad));
	}
	last_kick();
	/* No kick for a list whose first request is refused. */
	wr[0].opcode = IBV_WR_TSO;
	CHECK(tern_post_send(&qp->vqp.qp, wr, &bad) == EINVAL && bad == wr);
	CHECK(!last_kick());
	tern_destroy_qp(&qp->vqp.qp);
	tern_destroy_cq(&cq->vcq.cq);
}

/* A send queue that the device polls needs no kick. */
static void test_polled(void)
{
	struct tern_cq *cq = make_cq(16);
	struct tern_qp *qp = make_qp(cq, cq, small_cap);
	struct ibv_qp_ex *qpx = &qp->vqp.qp_ex;
	struct ibv_send_wr *bad, wr = { .opcode = IBV_WR_SEND };
	struct ibv_recv_wr *bad_recv, recv = {};

	tern_shared_write(&qp->record->status, TERN_QP_ST_SQ_POLLED);
	CHECK(!tern_post_send(&qp->vqp.qp, &wr, &bad));
	CHECK(sq_pi(qp) == 1 && !last_kick());
	qpx->wr_start(qpx);
	qpx->wr_send(qpx);
	CHECK(!qpx->wr_complete(qpx));
	CHECK(sq_pi(qp) == 2 && !last_kick());
	CHECK(!tern_post_recv(&qp->vqp.qp, &recv, &bad_recv) && !last_kick());
	/* The status bit for receives does not affect sends. */
	tern_shared_write(&qp->record->status, TERN_QP_ST_RQ_KICK);
	CHECK(!tern_post_send(&qp->vqp.qp, &wr, &bad));
	CHECK(sq_pi(qp) == 3);
	CHECK(last_kick() == kick_of(TERN_DB_CMD_SQ, qp->vqp.qp.qp_num));
	tern_destroy_qp(&qp->vqp.qp);
	tern_destroy_cq(&cq->vcq.cq);
}

static void test_recv_queue(void)
{
	struct tern_cq *cq = make_cq(16);
	struct tern_qp *qp = make_qp(cq, cq, small_cap);
	struct ibv_sge sge = { .addr = 0x1000, .length = 64, .lkey = 3 };
	struct ibv_recv_wr *bad, wr = { .wr_id = 5, .sg_list = &sge,
					.num_sge = 1 };
	struct tern_rq_hdr *hdr = tern_wq_slot(&qp->rq, 0);
	struct ibv_wc wc;
	unsigned int i;

	for (i = 0; i <= qp->rq.mask; i++)
		CHECK(!tern_post_recv(&qp->vqp.qp, &wr, &bad));
	CHECK(tern_post_recv(&qp->vqp.qp, &wr, &bad) == ENOMEM && bad == &wr);
	CHECK(tern_shared_read(&qp->record->rq_pi) == qp->rq.mask + 1);
	CHECK(hdr->num_sge == 1 && le64toh(hdr->wr_id) == 5);
	CHECK(le32toh(((struct tern_sge *)(hdr + 1))->lkey) == 3);
	CHECK(!last_kick());
	put_cqe(cq, 0, qp->vqp.qp.qp_num, 5, 0, TERN_CQE_F_RECV);
	CHECK(tern_poll_cq(&cq->vcq.cq, 1, &wc) == 1 &&
	      wc.opcode == IBV_WC_RECV);
	/* The device wants kicks for receives only when the QP is in error. */
	tern_shared_write(&qp->record->status, TERN_QP_ST_RQ_KICK);
	CHECK(!tern_post_recv(&qp->vqp.qp, &wr, &bad));
	CHECK(last_kick() == kick_of(TERN_DB_CMD_RQ, qp->vqp.qp.qp_num));
	qp->vqp.qp.state = IBV_QPS_RESET;
	CHECK(tern_post_recv(&qp->vqp.qp, &wr, &bad) == EINVAL);
	tern_destroy_qp(&qp->vqp.qp);
	tern_destroy_cq(&cq->vcq.cq);
}

static void test_session(void)
{
	struct tern_cq *cq = make_cq(16);
	struct tern_qp *qp = make_qp(cq, cq, small_cap);
	struct ibv_qp_ex *qpx = &qp->vqp.qp_ex;
	struct ibv_data_buf bufs[2];
	char data[64] = "abc";
	unsigned int i;

	/* Too long by one: nothing is posted. */
	qpx->wr_start(qpx);
	for (i = 0; i <= qp->sq.mask + 1; i++) {
		qpx->wr_send(qpx);
		qpx->wr_set_sge_list(qpx, 0, NULL);
	}
	CHECK(qpx->wr_complete(qpx) == ENOMEM);
	CHECK(!sq_pi(qp) && !last_kick());

	/* A setter without an opcode. */
	qpx->wr_start(qpx);
	qpx->wr_set_sge(qpx, 1, 2, 3);
	CHECK(qpx->wr_complete(qpx) == EINVAL);

	/* Inline data exceeds the limit in the second buffer, or wraps. */
	bufs[0] = (struct ibv_data_buf) { .addr = data, .length = 3 };
	bufs[1] = (struct ibv_data_buf) { .addr = data, .length = SIZE_MAX };
	qpx->wr_start(qpx);
	qpx->wr_send(qpx);
	qpx->wr_set_inline_data_list(qpx, 2, bufs);
	CHECK(qpx->wr_complete(qpx) == EINVAL);

	qpx->wr_start(qpx);
	qpx->wr_send(qpx);
	qpx->wr_abort(qpx);
	CHECK(!sq_pi(qp) && !last_kick());

	qpx->wr_start(qpx);
	qpx->wr_send(qpx);
	bufs[1].length = 2;
	qpx->wr_set_inline_data_list(qpx, 2, bufs);
	CHECK(!qpx->wr_complete(qpx));
	CHECK(sq_pi(qp) == 1);
	{
		struct tern_sq_hdr *hdr = tern_wq_slot(&qp->sq, 0);

		CHECK(hdr->flags == TERN_WQE_F_INLINE);
		CHECK(le32toh(hdr->length) == 5 && !hdr->num_sge);
		CHECK(!memcmp(hdr + 1, "abcab", 5));
	}
	qp->vqp.qp.state = IBV_QPS_RTR;
	qpx->wr_start(qpx);
	CHECK(qpx->wr_complete(qpx) == EINVAL);
	tern_destroy_qp(&qp->vqp.qp);
	tern_destroy_cq(&cq->vcq.cq);
}

/*
 * Random completions of several QPs, polls and purges, checked against a plain
 * queue. Indices start shortly before they wrap.
 */
static void test_purge(void)
{
	uint32_t r = 12345;
	struct tern_cq *cq = make_cq(16);
	uint32_t pi = 0xffffff80, first = pi;
	static struct { uint32_t qpn; uint64_t id; } model[100000];
	uint32_t head = 0, tail = 0, qpn, i, kept;
	struct ibv_wc wc[4];
	unsigned int step;
	uint64_t id = 0;
	int n;

	atomic_store(&cq->ci, first);
	/* Slots with the phase of the previous pass. */
	for (i = 0; i <= cq->mask; i++)
		cq->cqes[i].phase = htole32((first >> cq->log_size) & 1);

	for (step = 0; step < 30000; step++) {
		r = r * 1664525 + 1013904223; /* the high bits are random */
		switch (r >> 29) {
		default:
			if (pi - atomic_load(&cq->ci) > cq->mask)
				break;
			qpn = 100 + (r >> 16) % 3;
			put_cqe(cq, pi++, qpn, id, 0, 0);
			model[tail].qpn = qpn;
			model[tail++].id = id++;
			break;
		case 5:
		case 6:
			n = tern_poll_cq(&cq->vcq.cq, 1 + (r >> 16) % 4, wc);
			for (i = 0; i < (uint32_t)n; i++, head++) {
				CHECK(wc[i].wr_id == model[head].id);
				CHECK(wc[i].qp_num == model[head].qpn);
			}
			CHECK(n || head == tail);
			break;
		case 7:
			qpn = 100 + (r >> 16) % 3;
			tern_cq_purge_qp(cq, qpn, 0);
			for (kept = head, i = head; i < tail; i++)
				if (model[i].qpn != qpn)
					model[kept++] = model[i];
			tail = kept;
			break;
		}
		CHECK(pi - atomic_load(&cq->ci) == tail - head);
		CHECK(tern_shared_read(&cq->record->ci) ==
			      atomic_load(&cq->ci) ||
		      !tern_shared_read(&cq->record->ci));
	}
	CHECK(pi < first);
	tern_destroy_cq(&cq->vcq.cq);
}

static void test_cq_ex(void)
{
	struct tern_cq *cq = make_cq(4);
	struct tern_qp *qp = make_qp(cq, cq, small_cap);
	struct ibv_cq_ex *cqx = &cq->vcq.cq_ex;
	struct ibv_poll_cq_attr attr = {};
	uint32_t index = 0;
	unsigned int i;

	CHECK(cqx->start_poll(cqx, &attr) == ENOENT);
	for (i = 0; i < 50; i++) {
		put_cqe(cq, index, qp->vqp.qp.qp_num, i, i, 0);
		put_cqe(cq, index + 1, qp->vqp.qp.qp_num, i + 1000, i, 0);
		CHECK(!cqx->start_poll(cqx, &attr));
		CHECK(cqx->wr_id == i && cqx->status == IBV_WC_SUCCESS);
		CHECK(cqx->read_opcode(cqx) == IBV_WC_SEND);
		CHECK(cqx->read_qp_num(cqx) == qp->vqp.qp.qp_num);
		CHECK(!cqx->next_poll(cqx));
		CHECK(cqx->wr_id == i + 1000);
		CHECK(tern_shared_read(&cq->record->ci) == index + 2);
		/* The CQE was returned: the device may overwrite it. */
		put_cqe(cq, index + 5, 0x999, 0, 0, 0);
		CHECK(cqx->read_qp_num(cqx) == qp->vqp.qp.qp_num);
		index += 2;
		if (i % 2) {
			CHECK(cqx->next_poll(cqx) == ENOENT);
			CHECK(tern_shared_read(&cq->record->ci) == index);
		}
		cqx->end_poll(cqx);
		CHECK(tern_shared_read(&cq->record->ci) == index);
		CHECK(atomic_load(&qp->sq_tail) == i + 1);
	}
	attr.comp_mask = 1;
	CHECK(cqx->start_poll(cqx, &attr) == EINVAL);
	tern_destroy_qp(&qp->vqp.qp);
	tern_destroy_cq(&cq->vcq.cq);
}

static void test_reset(void)
{
	struct tern_cq *cq = make_cq(16);
	struct tern_qp *qp = make_qp(cq, cq, small_cap);
	struct ibv_send_wr *bad, wr = { .opcode = IBV_WR_SEND };
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RESET };
	struct ibv_recv_wr *bad_recv, recv = {};
	struct ibv_wc wc;

	CHECK(!tern_post_send(&qp->vqp.qp, &wr, &bad));
	CHECK(!tern_post_recv(&qp->vqp.qp, &recv, &bad_recv));
	tern_shared_write(&qp->record->status, TERN_QP_ST_RQ_KICK);
	put_cqe(cq, 0, qp->vqp.qp.qp_num, 1, 0, 0);
	CHECK(!tern_modify_qp(&qp->vqp.qp, &attr, IBV_QP_STATE));
	CHECK(!tern_poll_cq(&cq->vcq.cq, 1, &wc));
	CHECK(!sq_pi(qp) && !tern_shared_read(&qp->record->rq_pi));
	/* The device owns the status and clears it with the command. */
	CHECK(tern_shared_read(&qp->record->status) == TERN_QP_ST_RQ_KICK);
	CHECK(!qp->sq.head && !atomic_load(&qp->sq_tail));
	CHECK(!qp->rq.head && !atomic_load(&qp->rq_tail));
	tern_destroy_qp(&qp->vqp.qp);
	tern_destroy_cq(&cq->vcq.cq);
}

static void test_refusals(void)
{
	struct tern_cq *cq = make_cq(1);
	struct ibv_cq_init_attr_ex cattr = { .cqe = ctx->max_cqe + 1 };
	struct ibv_qp_init_attr attr = {
		.send_cq = &cq->vcq.cq,
		.recv_cq = &cq->vcq.cq,
		.qp_type = IBV_QPT_DRIVER,
	};
	struct ibv_pd *pd = &test_pd.ibvpd;

	CHECK(!tern_create_cq_ex(&ctx->vctx.context, &cattr) &&
	      errno == EINVAL);
	cattr.cqe = 0;
	CHECK(!tern_create_cq_ex(&ctx->vctx.context, &cattr) &&
	      errno == EINVAL);
	cattr.cqe = 1;
	cattr.wc_flags = IBV_WC_EX_WITH_COMPLETION_TIMESTAMP;
	CHECK(!tern_create_cq_ex(&ctx->vctx.context, &cattr) &&
	      errno == EOPNOTSUPP);
	CHECK(!tern_create_cq(&ctx->vctx.context, -1, NULL, 0) &&
	      errno == EINVAL);

	CHECK(!tern_create_qp(pd, &attr) && errno == EOPNOTSUPP);
	attr.qp_type = IBV_QPT_RC;
	attr.cap.max_send_wr = UINT32_MAX;
	CHECK(!tern_create_qp(pd, &attr) && errno == EINVAL);
	attr.cap.max_send_wr = 1;
	attr.cap.max_inline_data = ctx->max_inline + 1;
	CHECK(!tern_create_qp(pd, &attr) && errno == EINVAL);
	attr.cap.max_inline_data = 0;
	create_err = EPERM;
	CHECK(!tern_create_qp(pd, &attr) && errno == EPERM);
	create_err = 0;
	tern_destroy_cq(&cq->vcq.cq);
}

/* ---- threads: two posters, the device, a poller ---- */

#define EACH 5000U

static struct tern_qp *shared_qp;
static struct tern_cq *shared_cq;

static void *post_loop(void *arg)
{
	struct ibv_send_wr *bad, wr = { .opcode = IBV_WR_SEND };
	unsigned int i = 0;

	while (i < EACH) {
		int err = tern_post_send(&shared_qp->vqp.qp, &wr, &bad);

		CHECK(!err || err == ENOMEM);
		i += !err;
		if (err)
			sched_yield();
	}
	return arg;
}

/* Completes everything posted so far. Returns its number. */
static uint32_t complete_posted(uint32_t done)
{
	uint32_t pi = atomic_load_explicit(
		(atomic_uint *)&shared_qp->record->sq_pi, memory_order_acquire);

	CHECK(pi - done <= shared_qp->sq.mask + 1);
	for (; done != pi; done++)
		put_cqe(shared_cq, done, shared_qp->vqp.qp.qp_num, done, done,
			0);
	return done;
}

static void *device_loop(void *arg)
{
	uint32_t before, done = 0;

	while (done < 2 * EACH) {
		before = done;
		done = complete_posted(done);
		if (done == before)
			sched_yield();
	}
	return arg;
}

#define HANDOVERS 100000U

/*
 * After each kick the device polls the queue for a moment and then waits for
 * the next kick. A post that neither notices never completes.
 */
static void *polling_device(void *arg)
{
	unsigned int i, empty = 0;
	uint32_t done = 0;

	while (done < HANDOVERS) {
		if (!last_kick()) {
			if (++empty % 64 == 0)
				sched_yield();
			continue;
		}
		tern_shared_write(&shared_qp->record->status,
				  TERN_QP_ST_SQ_POLLED);
		for (i = done % 64; i; i--)
			done = complete_posted(done);
		tern_shared_write(&shared_qp->record->status, 0);
		atomic_thread_fence(memory_order_seq_cst);
		done = complete_posted(done);
	}
	return arg;
}

static void test_handover(void)
{
	struct ibv_send_wr *bad, wr = { .opcode = IBV_WR_SEND };
	unsigned int i, empty = 0;
	pthread_t device;
	struct ibv_wc wc;

	shared_cq = make_cq(16);
	shared_qp = make_qp(shared_cq, shared_cq, small_cap);
	pthread_create(&device, NULL, polling_device, NULL);
	for (i = 0; i < HANDOVERS; i++) {
		CHECK(!tern_post_send(&shared_qp->vqp.qp, &wr, &bad));
		while (!tern_poll_cq(&shared_cq->vcq.cq, 1, &wc))
			if (++empty % 64 == 0)
				sched_yield();
	}
	pthread_join(device, NULL);
	tern_destroy_qp(&shared_qp->vqp.qp);
	tern_destroy_cq(&shared_cq->vcq.cq);
}

static void test_threads(void)
{
	pthread_t threads[3];
	struct ibv_wc wc[8];
	uint32_t got = 0;
	unsigned int i;
	int n;

	shared_cq = make_cq(16);
	shared_qp = make_qp(shared_cq, shared_cq, small_cap);
	pthread_create(&threads[0], NULL, post_loop, NULL);
	pthread_create(&threads[1], NULL, post_loop, NULL);
	pthread_create(&threads[2], NULL, device_loop, NULL);
	while (got < 2 * EACH) {
		n = tern_poll_cq(&shared_cq->vcq.cq, 8, wc);
		for (i = 0; i < (unsigned int)n; i++)
			CHECK(wc[i].wr_id == got++);
		if (!n)
			sched_yield();
	}
	for (i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	tern_destroy_qp(&shared_qp->vqp.qp);
	tern_destroy_cq(&shared_cq->vcq.cq);
}

int main(void)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} tests[] = {
		{ "encoding", test_encoding },
		{ "geometry", test_geometry },
		{ "send_queue", test_send_queue },
		{ "cache_lines", test_cache_lines },
		{ "polled", test_polled },
		{ "recv_queue", test_recv_queue },
		{ "session", test_session },
		{ "purge", test_purge },
		{ "cq_ex", test_cq_ex },
		{ "arm", test_arm },
		{ "arm_untaken", test_arm_untaken },
		{ "arm_kick", test_arm_kick },
		{ "arm_threads", test_arm_threads },
		{ "number_reuse", test_number_reuse },
		{ "number_shortage", test_number_shortage },
		{ "reset", test_reset },
		{ "refusals", test_refusals },
		{ "ece", test_ece },
		{ "ece_types", test_ece_types },
		{ "parent_objects", test_parent_objects },
		{ "parent_refused", test_parent_refused },
		{ "parent_buffers", test_parent_buffers },
		{ "parent_allocators", test_parent_allocators },
		{ "parent_locks", test_parent_locks },
		{ "trace", test_trace },
		{ "type_ops", test_type_ops },
		{ "rate", test_rate },
		{ "rate_caps", test_rate_caps },
		{ "raw_send", test_raw_send },
		{ "raw_send_refused", test_raw_send_refused },
		{ "raw_tso", test_raw_tso },
		{ "raw_tso_refused", test_raw_tso_refused },
		{ "raw_tso_cqe", test_raw_tso_cqe },
		{ "raw_flags", test_raw_flags },
		{ "raw_recv", test_raw_recv },
		{ "raw_attr", test_raw_attr },
		{ "rss_qp", test_rss_qp },
		{ "wq", test_wq },
		{ "wq_refused", test_wq_refused },
		{ "flow_objects", test_flow_objects },
		{ "flow_counters", test_flow_counters },
		{ "ud", test_ud },
		{ "xrc", test_xrc },
		{ "alt_path", test_alt_path },
		{ "types_refused", test_types_refused },
		{ "post_refused", test_post_refused },
		{ "cq_fields", test_cq_fields },
		{ "cq_sl", test_cq_sl },
		{ "cq_session", test_cq_session },
		{ "flush", test_flush },
		{ "atomic_write", test_atomic_write },
		{ "built_ops", test_built_ops },
		{ "records", test_records },
		{ "record_addresses", test_record_addresses },
		{ "record_refused", test_record_refused },
		{ "ah", test_ah },
		{ "retire_order", test_retire_order },
		{ "retire_threads", test_retire_threads },
		{ "bind_encoding", test_bind_encoding },
		{ "bind_keys", test_bind_keys },
		{ "bind_verb_refused", test_bind_verb_refused },
		{ "bind_send_refused", test_bind_send_refused },
		{ "local_inv", test_local_inv },
		{ "window_cqes", test_window_cqes },
		{ "bind_threads", test_bind_threads },
		{ "dm_copy", test_dm_copy },
		{ "dm_copy_refused", test_dm_copy_refused },
		{ "other_regions", test_other_regions },
		{ "dm_objects", test_dm_objects },
		{ "dm_import", test_dm_import },
		{ "memory_objects", test_memory_objects },
		{ "contexts", test_contexts },
		{ "dv_device", test_dv_device },
		{ "dv_lengths", test_dv_lengths },
		{ "dv_post", test_dv_post },
		{ "dv_poll", test_dv_poll },
		{ "dv_purge", test_dv_purge },
		{ "dv_cq_indices", test_dv_cq_indices },
		{ "dv_wq_indices", test_dv_wq_indices },
		{ "dv_objects", test_dv_objects },
		{ "dv_wq", test_dv_wq },
		{ "dv_dm_ops", test_dv_dm_ops },
		{ "dv_keys", test_dv_keys },
		{ "dv_sport", test_dv_sport },
		{ "cq_resize", test_cq_resize },
		{ "cq_resize_arm", test_cq_resize_arm },
		{ "cq_resize_refused", test_cq_resize_refused },
		{ "cq_resize_threads", test_cq_resize_threads },
		{ "cq_modify", test_cq_modify },
		{ "clock", test_clock },
		{ "wallclock", test_wallclock },
		{ "wallclock_cq", test_wallclock_cq },
		{ "wallclock_writer", test_wallclock_writer },
		{ "wallclock_threads", test_wallclock_threads },
		{ "srq_queue", test_srq_queue },
		{ "srq_resize", test_srq_resize },
		{ "srq_resize_posts", test_srq_resize_posts },
		{ "srq_cqes", test_srq_cqes },
		{ "srq_refused", test_srq_refused },
		{ "srq_numbers", test_srq_numbers },
		{ "srq_threads", test_srq_threads },
		{ "tm_create", test_tm_create },
		{ "tm_ops", test_tm_ops },
		{ "tm_limits", test_tm_limits },
		{ "tm_cqes", test_tm_cqes },
		{ "tm_qp", test_tm_qp },
		{ "arm_race", test_arm_race },
		{ "post_destroy", test_post_destroy },
		{ "destroy_waits", test_destroy_waits },
		{ "bind_race", test_bind_race },
		{ "session_destroy", test_session_destroy },
		{ "threads", test_threads },
		{ "handover", test_handover },
	};
	unsigned int i;

	for (i = 0; i < sizeof(tests) / sizeof(tests[0]); i++) {
		setup();
		tests[i].run();
		teardown();
		printf("ok provider_%s\n", tests[i].name);
		fflush(stdout);
	}
	return 0;
}
