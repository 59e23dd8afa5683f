// SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause)
/*
 * Slots of a work queue become free only after the CQ has room for what is
 * posted into them.
 */

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>

#include "fixture.h"

static const struct ibv_qp_cap four = { 4, 4, 1, 1, 0 };

/* ---- a poll that is stopped where it returns the CQEs ---- */

#define QPS 20U

static struct tern_cq *stopped_cq;
static struct tern_qp *stopped_qps[QPS];
static volatile sig_atomic_t stops;
static volatile sig_atomic_t early;

/* The page contains CQ records only, and there is one CQ. */
static int protect_record(int prot)
{
	uintptr_t record = (uintptr_t)stopped_cq->record;

	return mprotect((void *)(record & ~(uintptr_t)(PAGE - 1)), PAGE, prot);
}

/* Detects slots freed before ci was stored, then lets the store proceed. */
static void on_store(int sig)
{
	uint32_t ci = tern_shared_read(&stopped_cq->record->ci);
	uint32_t freed = 0;
	unsigned int i;

	for (i = 0; i < QPS; i++)
		freed += atomic_load(&stopped_qps[i]->sq_tail) +
			 atomic_load(&stopped_qps[i]->rq_tail);
	early += freed > ci;
	stops++;
	if (protect_record(PROT_READ | PROT_WRITE))
		abort();
}

/*
 * One CQE for each queue of each QP, polled num at a time. Returns the number
 * of stores to ci.
 */
static void poll_stopped(bool extended, int num)
{
	struct ibv_cq_ex *cqx;
	struct ibv_poll_cq_attr attr = {};
	struct ibv_wc wc[2 * QPS];
	uint32_t got = 0;
	unsigned int i;

	stopped_cq = make_cq(64);
	cqx = &stopped_cq->vcq.cq_ex;
	for (i = 0; i < QPS; i++) {
		stopped_qps[i] = make_qp(stopped_cq, stopped_cq, four);
		put_cqe(stopped_cq, 2 * i, stopped_qps[i]->vqp.qp.qp_num, i, 0,
			0);
		put_cqe(stopped_cq, 2 * i + 1, stopped_qps[i]->vqp.qp.qp_num,
			i, 0, TERN_CQE_F_RECV);
	}
	stops = 0;
	early = 0;
	while (got < 2 * QPS) {
		int stopped = stops;

		CHECK(!protect_record(PROT_READ));
		if (extended) {
			CHECK(!cqx->start_poll(cqx, &attr));
			CHECK(cqx->wr_id == got / 2);
			cqx->end_poll(cqx);
			got++;
		} else {
			got += tern_poll_cq(&stopped_cq->vcq.cq, num, wc);
		}
		CHECK(stops == stopped + 1);
		CHECK(tern_shared_read(&stopped_cq->record->ci) == got);
	}
	CHECK(!early);
	for (i = 0; i < QPS; i++) {
		CHECK(atomic_load(&stopped_qps[i]->sq_tail) == 1);
		CHECK(atomic_load(&stopped_qps[i]->rq_tail) == 1);
		tern_destroy_qp(&stopped_qps[i]->vqp.qp);
	}
	tern_destroy_cq(&stopped_cq->vcq.cq);
}

/*
 * Both interfaces, with one or many CQEs at a time, also with more work queues
 * than fit a batch.
 */
void test_retire_order(void)
{
	struct sigaction action = { .sa_handler = on_store }, before;

	sigaction(SIGSEGV, &action, &before);
	poll_stopped(false, 1);
	poll_stopped(false, 7);
	poll_stopped(false, 2 * QPS);
	poll_stopped(true, 1);
	sigaction(SIGSEGV, &before, NULL);
}

/* ---- threads: a poster, the device, two pollers; CQ as large as SQ ---- */

#define EACH 4000U

static struct tern_cq *small_cq;
static struct tern_qp *small_qp;
static atomic_uint polled;

static void *post_loop(void *arg)
{
	struct ibv_send_wr *bad, wr = { .opcode = IBV_WR_SEND };
	unsigned int i = 0;

	while (i < EACH) {
		if (tern_post_send(&small_qp->vqp.qp, &wr, &bad))
			sched_yield();
		else
			i++;
	}
	return arg;
}

/* Completes what is posted. Everything outstanding has room in the CQ. */
static void *device_loop(void *arg)
{
	uint32_t done = 0;

	while (done < EACH) {
		uint32_t pi = atomic_load(
			(atomic_uint *)&small_qp->record->sq_pi);
		uint32_t ci = atomic_load(
			(atomic_uint *)&small_cq->record->ci);

		CHECK(pi - ci <= small_cq->mask + 1);
		if (pi == done)
			sched_yield();
		for (; done != pi; done++)
			put_cqe(small_cq, done, small_qp->vqp.qp.qp_num, done,
				done, 0);
	}
	return arg;
}

static void *poll_loop(void *arg)
{
	struct ibv_wc wc[4];
	int n;

	while (atomic_load(&polled) < EACH) {
		n = tern_poll_cq(&small_cq->vcq.cq, 4, wc);
		atomic_fetch_add(&polled, n);
		if (!n)
			sched_yield();
	}
	return arg;
}

static void *poll_ex_loop(void *arg)
{
	struct ibv_cq_ex *cqx = &small_cq->vcq.cq_ex;
	struct ibv_poll_cq_attr attr = {};

	while (atomic_load(&polled) < EACH) {
		if (cqx->start_poll(cqx, &attr)) {
			sched_yield();
			continue;
		}
		do {
			uint64_t wr_id = cqx->wr_id;

			/*
			 * Let the others run now and then. The CQE being read
			 * must not change.
			 */
			if (atomic_fetch_add(&polled, 1) % 8 == 0)
				sched_yield();
			CHECK(cqx->read_qp_num(cqx) ==
			      small_qp->vqp.qp.qp_num);
			CHECK(le32toh(small_cq->cur.wqe_index) ==
			      (uint32_t)wr_id);
		} while (!cqx->next_poll(cqx));
		cqx->end_poll(cqx);
	}
	return arg;
}

void test_retire_threads(void)
{
	void *(*const loops[])(void *) = {
		post_loop, device_loop, poll_loop, poll_ex_loop,
	};
	pthread_t threads[4];
	unsigned int i;

	small_cq = make_cq(4);
	small_qp = make_qp(small_cq, small_cq, four);
	CHECK(small_cq->mask == small_qp->sq.mask);
	for (i = 0; i < 4; i++)
		pthread_create(&threads[i], NULL, loops[i], NULL);
	for (i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	tern_destroy_qp(&small_qp->vqp.qp);
	tern_destroy_cq(&small_cq->vcq.cq);
}

#define LINE_OF(member) (offsetof(struct tern_qp, member) / TERN_CACHE_LINE)

static_assert(sizeof(struct tern_wq) <= TERN_CACHE_LINE / 2 + 8, "queue");
static_assert(LINE_OF(vqp.qp.qp_num) < LINE_OF(sq), "number");
static_assert(LINE_OF(wr_data) == LINE_OF(sq), "session");
static_assert(LINE_OF(sq) < LINE_OF(rq), "receives");
static_assert(LINE_OF(rq.tail_seen) < LINE_OF(sq_tail), "polls");
static_assert(LINE_OF(sq_tail) == LINE_OF(raw), "polls");

/*
 * Threads that send, receive and poll write to cache lines of their own. A
 * poster reads the poller's only when its copy says that the queue is full.
 */
void test_cache_lines(void)
{
	struct tern_cq *cq = make_cq(16);
	struct tern_qp *qp = make_qp(cq, cq, small_cap);
	struct ibv_send_wr *bad, wr = { .opcode = IBV_WR_SEND };
	struct ibv_recv_wr *bad_recv, recv = {};
	unsigned int i;

	CHECK((uintptr_t)qp % TERN_CACHE_LINE == 0);
	for (i = 0; i < 12; i++) {
		uint32_t tail = i < 4 ? 0xf0000000 : i - 3;

		/* A full queue reads one freed slot. */
		atomic_store(&qp->sq_tail, tail);
		atomic_store(&qp->rq_tail, tail);
		CHECK(!tern_post_send(&qp->vqp.qp, &wr, &bad));
		CHECK(!tern_post_recv(&qp->vqp.qp, &recv, &bad_recv));
	}
	CHECK(tern_post_send(&qp->vqp.qp, &wr, &bad) == ENOMEM);
	CHECK(tern_post_recv(&qp->vqp.qp, &recv, &bad_recv) == ENOMEM);
	tern_destroy_qp(&qp->vqp.qp);
	tern_destroy_cq(&cq->vcq.cq);
}
