// SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause)
/*
 * CPU cost of the data path, without a device: nanoseconds per operation, the
 * best of many rounds. tests/bench/verbs measures the same with a device.
 */

#include <time.h>

#include "fixture.h"

#define SLOTS 1024U
#define ROUNDS 2000U

static struct tern_cq *cq;
static struct tern_qp *qp;
static uint32_t device_pi; /* producer index of the CQ */
static uint64_t sink;

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

/* The device completes every 32nd WQE: SLOTS CQEs in total. */
static void fill_cq(void)
{
	unsigned int i;

	for (i = 0; i < SLOTS; i++)
		put_cqe(cq, device_pi++, qp->vqp.qp.qp_num, i,
			qp->sq.head - SLOTS + i, 0);
}

static void free_slots(void)
{
	atomic_store(&qp->sq.tail, qp->sq.head);
	atomic_store(&qp->rq.tail, qp->rq.head);
}

static void poll_list(void)
{
	struct ibv_wc wc[16];
	unsigned int i;

	for (i = 0; i < SLOTS; i += 16)
		sink += tern_poll_cq(&cq->vcq.cq, 16, wc) + wc[3].wr_id;
}

/* Sessions of num CQEs. */
static void poll_sessions(unsigned int num)
{
	struct ibv_cq_ex *cqx = &cq->vcq.cq_ex;
	struct ibv_poll_cq_attr attr = {};
	unsigned int i, k;

	for (i = 0; i < SLOTS; i += num) {
		sink += cqx->start_poll(cqx, &attr);
		for (k = 1;; k++) {
			sink += cqx->wr_id + cqx->status +
				cqx->read_opcode(cqx) + cqx->read_byte_len(cqx);
			if (k == num)
				break;
			sink += cqx->next_poll(cqx);
		}
		cqx->end_poll(cqx);
	}
}

static void poll_one(void)
{
	poll_sessions(1);
}

static void poll_many(void)
{
	poll_sessions(16);
}

static void post_list(void)
{
	struct ibv_sge sge = { .addr = 0x1000, .length = 64, .lkey = 7 };
	struct ibv_send_wr *bad, wr = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_RDMA_WRITE,
		.send_flags = IBV_SEND_SIGNALED,
	};
	unsigned int i;

	for (i = 0; i < SLOTS; i++)
		sink += tern_post_send(&qp->vqp.qp, &wr, &bad);
}

static void post_calls_of(unsigned int num)
{
	struct ibv_qp_ex *qpx = &qp->vqp.qp_ex;
	unsigned int i, k;

	for (i = 0; i < SLOTS; i += num) {
		qpx->wr_start(qpx);
		for (k = 0; k < num; k++) {
			qpx->wr_id = k;
			qpx->wr_flags = IBV_SEND_SIGNALED;
			qpx->wr_rdma_write(qpx, 1, 2);
			qpx->wr_set_sge(qpx, 7, 0x1000, 64);
		}
		sink += qpx->wr_complete(qpx);
	}
}

static void post_calls(void)
{
	post_calls_of(1);
}

static void post_calls_many(void)
{
	post_calls_of(16);
}

static void post_inline_many(void)
{
	struct ibv_qp_ex *qpx = &qp->vqp.qp_ex;
	static char data[32];
	unsigned int i, k;

	for (i = 0; i < SLOTS; i += 16) {
		qpx->wr_start(qpx);
		for (k = 0; k < 16; k++) {
			qpx->wr_id = k;
			qpx->wr_flags = IBV_SEND_SIGNALED;
			qpx->wr_send(qpx);
			qpx->wr_set_inline_data(qpx, data, sizeof(data));
		}
		sink += qpx->wr_complete(qpx);
	}
}

static void post_recvs(void)
{
	struct ibv_sge sge = { .addr = 0x1000, .length = 64, .lkey = 7 };
	struct ibv_recv_wr *bad, wr = { .sg_list = &sge, .num_sge = 1 };
	unsigned int i;

	for (i = 0; i < SLOTS; i++)
		sink += tern_post_recv(&qp->vqp.qp, &wr, &bad);
}

int main(void)
{
	static const struct {
		const char *name;
		void (*prepare)(void);
		void (*run)(void);
	} benches[] = {
		{ "poll_cq, 16 at a time", fill_cq, poll_list },
		{ "start_poll .. end_poll, 1", fill_cq, poll_one },
		{ "start_poll .. end_poll, 16", fill_cq, poll_many },
		{ "post_send, WRITE", free_slots, post_list },
		{ "wr_start .. wr_complete, 1 WRITE", free_slots, post_calls },
		{ "wr_start .. wr_complete, 16 WRITE", free_slots,
		  post_calls_many },
		{ "wr_start .. wr_complete, 16 SEND inline", free_slots,
		  post_inline_many },
		{ "post_recv", free_slots, post_recvs },
	};
	const struct ibv_qp_cap cap = { SLOTS, SLOTS, 1, 1, 32 };
	unsigned int i, k;

	setup();
	cq = make_cq(SLOTS);
	qp = make_qp(cq, cq, cap);
	/* Suppress kicks: here they would be stores to memory. */
	tern_shared_write(&qp->record->status, TERN_QP_ST_SQ_POLLED);
	for (i = 0; i < sizeof(benches) / sizeof(benches[0]); i++) {
		uint64_t best = UINT64_MAX;

		for (k = 0; k < ROUNDS; k++) {
			uint64_t begin, took;

			benches[i].prepare();
			begin = now_ns();
			benches[i].run();
			took = now_ns() - begin;
			if (took < best)
				best = took;
			free_slots();
		}
		printf("%6.2f ns  %s\n", (double)best / SLOTS,
		       benches[i].name);
	}
	return sink == 1;
}
