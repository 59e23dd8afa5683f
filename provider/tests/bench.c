// SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause)
/*
 * CPU cost of the data path, without a device: nanoseconds per operation, the
 * best of many rounds, with locks and in a thread domain, which has none; then
 * with two threads on one QP, the median of many rounds.
 * tests/bench/verbs measures the same with a device.
 */

#include <sched.h>
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
	tern_shared_write(&qp->record->status, TERN_QP_ST_SQ_POLLED);
	atomic_store(&qp->sq_tail, qp->sq.head);
	atomic_store(&qp->rq_tail, qp->rq.head);
}

/* Kicks are stores to memory here. */
static void free_rung_slots(void)
{
	free_slots();
	tern_shared_write(&qp->record->status, 0);
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

static void post_inline_list(void)
{
	static char data[32];
	struct ibv_sge sges[] = {
		{ .addr = (uintptr_t)data, .length = 16 },
		{ .addr = (uintptr_t)data + 16, .length = 16 },
	};
	struct ibv_send_wr *bad, wr = {
		.sg_list = sges,
		.num_sge = 2,
		.opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE,
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

/* Makes the queues, with td in a thread domain. */
static void make_queues(unsigned int td)
{
	const struct ibv_qp_cap cap = { SLOTS, SLOTS, 2, 1, 32 };

	static struct tern_td domain;

	/* As of a parent domain. */
	test_pd.base = td ? &test_pd : NULL;
	test_pd.td = td ? &domain : NULL;
	cqs[td] = make_cq(SLOTS);
	cqs[td]->lock.need_lock = !td;
	cqs[td]->arm_lock.need_lock = !td;
	qps[td] = make_qp(cqs[td], cqs[td], cap);
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

/* ---- two threads ---- */

#define SHARED_OPS 20000U
#define SHARED_ROUNDS 201U

static struct tern_cq *shared_cqs[2];
static struct tern_qp *shared_qp;
static uint32_t shared_pis[2], shared_sent, shared_received;
static pthread_barrier_t shared_start;

static void shared_send(void)
{
	struct ibv_sge sge = { .addr = 0x1000, .length = 64, .lkey = 7 };
	struct ibv_send_wr *bad, wr = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_RDMA_WRITE,
		.send_flags = IBV_SEND_SIGNALED,
	};

	while (tern_post_send(&shared_qp->vqp.qp, &wr, &bad))
		sched_yield();
}

static void shared_recv(void)
{
	struct ibv_sge sge = { .addr = 0x1000, .length = 64, .lkey = 7 };
	struct ibv_recv_wr *bad, wr = { .sg_list = &sge, .num_sge = 1 };

	while (tern_post_recv(&shared_qp->vqp.qp, &wr, &bad))
		sched_yield();
}

/* Completes and polls up to 16 WQEs that wait. Returns how many. */
static unsigned int shared_poll(unsigned int i, uint32_t *done, uint32_t posted)
{
	uint32_t qpn = shared_qp->vqp.qp.qp_num;
	unsigned int n = posted - *done < 16 ? posted - *done : 16, k;
	struct ibv_wc wc[16];

	for (k = 0; k < n; k++, ++*done)
		put_cqe(shared_cqs[i], shared_pis[i]++, qpn, *done, *done,
			i ? TERN_CQE_F_RECV : 0);
	if (n)
		sink += tern_poll_cq(&shared_cqs[i]->vcq.cq, 16, wc);
	return n;
}

static void *send_only(void *arg)
{
	unsigned int i;

	pthread_barrier_wait(&shared_start);
	for (i = 0; i < SHARED_OPS; i++)
		shared_send();
	return arg;
}

static void poll_sends(void)
{
	unsigned int left = SHARED_OPS, n;

	while (left) {
		n = shared_poll(0, &shared_sent, sq_pi(shared_qp));
		left -= n;
		if (!n)
			sched_yield();
	}
}

static void *recv_and_poll(void *arg)
{
	uint32_t posted = shared_received;
	unsigned int i;

	pthread_barrier_wait(&shared_start);
	for (i = 0; i < SHARED_OPS; i++) {
		shared_recv();
		if (++posted % 16 == 0)
			shared_poll(1, &shared_received, posted);
	}
	return arg;
}

static void send_and_poll(void)
{
	uint32_t posted = shared_sent;
	unsigned int i;

	for (i = 0; i < SHARED_OPS; i++) {
		shared_send();
		if (++posted % 16 == 0)
			shared_poll(0, &shared_sent, posted);
	}
}

/* Time of this thread alone, as others may take its processor. */
static uint64_t thread_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

static int compare_times(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static void bench_shared(const char *name, void *(*other)(void *arg),
			 void (*run)(void))
{
	double times[SHARED_ROUNDS];
	pthread_t thread;
	uint64_t begin;
	unsigned int i;

	for (i = 0; i < SHARED_ROUNDS; i++) {
		pthread_create(&thread, NULL, other, NULL);
		pthread_barrier_wait(&shared_start);
		begin = thread_ns();
		run();
		times[i] = (double)(thread_ns() - begin) / SHARED_OPS;
		pthread_join(thread, NULL);
	}
	qsort(times, SHARED_ROUNDS, sizeof(times[0]), compare_times);
	printf("%6.2f ns  %s\n", times[SHARED_ROUNDS / 2], name);
}

static void bench_threads(void)
{
	const struct ibv_qp_cap cap = { SLOTS, SLOTS, 1, 1, 32 };
	unsigned int i;

	test_pd.base = NULL;
	test_pd.td = NULL;
	for (i = 0; i < 2; i++)
		shared_cqs[i] = make_cq(SLOTS);
	shared_qp = make_qp(shared_cqs[0], shared_cqs[1], cap);
	tern_shared_write(&shared_qp->record->status, TERN_QP_ST_SQ_POLLED);
	pthread_barrier_init(&shared_start, NULL, 2);
	bench_shared("one thread posts sends, another polls them", send_only,
		     poll_sends);
	bench_shared("one thread sends, another receives", recv_and_poll,
		     send_and_poll);
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
		{ "post_send, WRITE, with a kick", free_rung_slots, post_list },
		{ "post_send, SEND inline", free_slots, post_inline_list },
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
	bench_threads();
	return sink == 1;
}
