// SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause)
/*
 * CPU cost of the data path, without a device: nanoseconds per operation, the
 * best of many rounds, with locks and in a thread domain, which has none.
 * tests/bench/verbs measures the same with a device.
 */

#include <time.h>

#include "fixture.h"

#define SLOTS 1024U
#define ROUNDS 2000U
#define BLOCK 200U

static struct tern_cq *cq, *cqs[2];
static struct tern_qp *qp, *qps[2];
static uint32_t *device_pi, device_pis[2]; /* producer index of the CQ */
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
		put_cqe(cq, (*device_pi)++, qp->vqp.qp.qp_num, i,
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
	int (*post_send)(struct ibv_qp *qp, struct ibv_send_wr *wr,
			 struct ibv_send_wr **bad) =
		qp->sq.single_threaded ? tern_post_send_any : tern_post_send;
	unsigned int i;

	for (i = 0; i < SLOTS; i++)
		sink += post_send(&qp->vqp.qp, &wr, &bad);
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
	int (*post_recv)(struct ibv_qp *qp, struct ibv_recv_wr *wr,
			 struct ibv_recv_wr **bad) =
		qp->rq.single_threaded ? tern_post_recv_any : tern_post_recv;
	unsigned int i;

	for (i = 0; i < SLOTS; i++)
		sink += post_recv(&qp->vqp.qp, &wr, &bad);
}

/* Makes the queues, with td in a thread domain. */
static void make_queues(unsigned int td)
{
	const struct ibv_qp_cap cap = { SLOTS, SLOTS, 1, 1, 32 };

	static struct tern_td domain;

	/* As of a parent domain. */
	test_pd.base = td ? &test_pd : NULL;
	test_pd.td = td ? &domain : NULL;
	cqs[td] = make_cq(SLOTS);
	cqs[td]->single_threaded = td;
	qps[td] = make_qp(cqs[td], cqs[td], cap);
	/* Suppress kicks: here they would be stores to memory. */
	tern_shared_write(&qps[td]->record->status, TERN_QP_ST_SQ_POLLED);
}

static double round_ns(void (*prepare)(void), void (*run)(void))
{
	uint64_t begin, took;

	prepare();
	begin = now_ns();
	run();
	took = now_ns() - begin;
	free_slots();
	return took;
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
	double best[2], took;
	unsigned int i, k, td;

	setup();
	for (td = 0; td < 2; td++)
		make_queues(td);
	for (i = 0; i < sizeof(benches) / sizeof(benches[0]); i++) {
		best[0] = best[1] = 1e18;
		/* In turns, but long enough to keep one's queues in the cache. */
		for (k = 0; k < 2 * ROUNDS; k++) {
			td = k / BLOCK % 2;
			cq = cqs[td];
			qp = qps[td];
			device_pi = &device_pis[td];
			took = round_ns(benches[i].prepare, benches[i].run);
			if (took < best[td])
				best[td] = took;
		}
		printf("%6.2f ns  %6.2f ns in a thread domain  %s\n",
		       best[0] / SLOTS, best[1] / SLOTS, benches[i].name);
	}
	return sink == 1;
}
