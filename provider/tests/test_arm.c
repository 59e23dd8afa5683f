// SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause)
/* Arming: the arm word, and when it takes a doorbell. */

#include <sched.h>
#include <time.h>

#include "fixture.h"

void test_arm(void)
{
	struct tern_cq *cq = make_cq(16);
	struct ibv_cq *ibvcq = &cq->vcq.cq;
	uint32_t any = TERN_CQ_ARM_VALID;
	uint32_t seq;

	atomic_store(&cq->ci, 0x12345678);
	for (seq = 0; seq < 6; seq++) {
		uint32_t word = any | 0x345678 | (seq & 3) << 28;

		CHECK(!tern_req_notify_cq(ibvcq, 1));
		CHECK(tern_shared_read(&cq->record->arm) ==
		      (word | TERN_CQ_ARM_SOLICITED));
		CHECK(!tern_req_notify_cq(ibvcq, 0));
		CHECK(tern_shared_read(&cq->record->arm) == word);
		/* The stronger of two requests for one event stands. */
		CHECK(!tern_req_notify_cq(ibvcq, 1));
		CHECK(tern_shared_read(&cq->record->arm) == word);
		tern_cq_event(ibvcq);
	}
	tern_destroy_cq(ibvcq);
}

static uint32_t arm_word(uint32_t ci, uint32_t seq)
{
	return TERN_CQ_ARM_VALID | ci | FIELD_PREP(TERN_CQ_ARM_SEQ_MASK, seq);
}

/*
 * The device ignores a request between an event and its taking. The provider
 * makes it when the event is taken.
 */
void test_arm_untaken(void)
{
	struct tern_cq *cq = make_cq(4);
	struct ibv_cq *ibvcq = &cq->vcq.cq;
	__le32 *arm = &cq->record->arm;
	struct ibv_wc wc;

	CHECK(!tern_req_notify_cq(ibvcq, 0));
	put_cqe(cq, 0, 1, 1, 0, 0);
	put_cqe(cq, 1, 1, 1, 0, 0);
	tern_shared_write(&cq->record->reported, 2);
	CHECK(tern_poll_cq(ibvcq, 1, &wc) == 1);
	CHECK(!tern_req_notify_cq(ibvcq, 0));
	(void)last_kick();
	tern_cq_event(ibvcq);
	CHECK(tern_shared_read(arm) == arm_word(1, 1) && !last_kick());

	/* That has not fired, so another request is not one more. */
	CHECK(tern_poll_cq(ibvcq, 1, &wc) == 1);
	CHECK(!tern_req_notify_cq(ibvcq, 0));
	tern_cq_event(ibvcq);
	CHECK(tern_shared_read(arm) == arm_word(2, 1));

	/* The CQE may be polled before the device has stored that it fired. */
	CHECK(!tern_req_notify_cq(ibvcq, 0));
	put_cqe(cq, 2, 1, 1, 0, 0);
	CHECK(tern_poll_cq(ibvcq, 1, &wc) == 1);
	CHECK(!tern_req_notify_cq(ibvcq, 1));
	tern_shared_write(&cq->record->reported, 3);
	put_cqe(cq, 3, 1, 1, 0, 0);
	(void)last_kick();
	tern_cq_event(ibvcq);
	CHECK(tern_shared_read(arm) ==
	      (arm_word(3, 3) | TERN_CQ_ARM_SOLICITED));
	CHECK(last_kick() == kick_of(TERN_DB_CMD_CQ_ARM, cq->cqn));

	/* The stronger of the requests that wait counts. */
	tern_shared_write(&cq->record->reported, 4);
	CHECK(!tern_req_notify_cq(ibvcq, 1));
	CHECK(!tern_req_notify_cq(ibvcq, 0));
	CHECK(!tern_req_notify_cq(ibvcq, 1));
	tern_cq_event(ibvcq);
	CHECK(tern_shared_read(arm) == arm_word(3, 0));
	tern_destroy_cq(ibvcq);
}

/* A doorbell is for CQEs that are neither consumed nor reported. */
void test_arm_kick(void)
{
	struct tern_cq *cq = make_cq(4);
	struct ibv_cq *ibvcq = &cq->vcq.cq;
	uint32_t kick = kick_of(TERN_DB_CMD_CQ_ARM, cq->cqn);
	struct ibv_wc wc[4];
	uint32_t pi;

	for (pi = 0; pi < 20; pi += 4) {
		(void)last_kick();
		CHECK(!tern_req_notify_cq(ibvcq, 0));
		CHECK(!last_kick());
		put_cqe(cq, pi, 1, 1, 0, 0);
		put_cqe(cq, pi + 1, 1, 1, 0, 0);
		CHECK(!tern_req_notify_cq(ibvcq, 0));
		CHECK(last_kick() == kick);
		tern_shared_write(&cq->record->reported, pi + 1);
		CHECK(!tern_req_notify_cq(ibvcq, 0));
		CHECK(last_kick() == kick);
		/* Programs arm before they poll what an event reported. */
		tern_shared_write(&cq->record->reported, pi + 2);
		CHECK(!tern_req_notify_cq(ibvcq, 0));
		CHECK(!last_kick());
		put_cqe(cq, pi + 2, 1, 1, 0, 0);
		CHECK(!tern_req_notify_cq(ibvcq, 0));
		CHECK(last_kick() == kick);
		CHECK(tern_poll_cq(ibvcq, 4, wc) == 3);
		CHECK(!tern_req_notify_cq(ibvcq, 0));
		CHECK(!last_kick());
		put_cqe(cq, pi + 3, 1, 1, 0, 0);
		CHECK(!tern_req_notify_cq(ibvcq, 0));
		CHECK(last_kick() == kick);
		CHECK(tern_poll_cq(ibvcq, 4, wc) == 1);
	}
	tern_destroy_cq(ibvcq);
}

/* ---- threads: the device and a program that sleeps until an event ---- */

#define CQES 100000U
/* A lost event: nothing comes any more. */
#define LOST_SECONDS 20

static struct tern_cq *slept;
static atomic_uint events;
static atomic_bool sleeping;
/* Before every so many bursts, the device waits until the program sleeps. */
#define SLEEP_BURSTS 64

static void device_reads_arm(uint32_t pi, uint32_t *reported, uint32_t *fired)
{
	uint32_t arm = tern_shared_read(&slept->record->arm);
	uint32_t seq = FIELD_GET(TERN_CQ_ARM_SEQ_MASK, arm);
	uint32_t unseen = (pi - arm) & TERN_CQ_ARM_CI_MASK;

	if (!(arm & TERN_CQ_ARM_VALID) || seq == *fired ||
	    unseen > TERN_CQ_ARM_CI_MASK / 2 || !unseen || pi == *reported)
		return;
	*reported = pi;
	*fired = seq;
	tern_shared_write(&slept->record->reported, pi);
	atomic_fetch_add(&events, 1);
}

/* TSan does not know the barriers that order a CQE and an index. */
__attribute__((no_sanitize_thread)) static void device_writes(uint32_t index)
{
	struct tern_cqe *slot = tern_cqe_at(slept, index);

	slot->wr_id = htole64(index);
	slot->qpn = htole32(1);
	atomic_store_explicit((atomic_uint *)&slot->phase,
			      (__force uint32_t)htole32(!((index >> 2) & 1)),
			      memory_order_release);
}

/*
 * Writes bursts of CQEs, each when the last was consumed: no later CQE makes up
 * for an event that is lost.
 */
static void *device_loop(void *arg)
{
	uint32_t pi = 0, reported = 0, fired = ~0U, bursts = 0, i;

	while (pi < CQES || tern_shared_read(&slept->record->ci) != pi) {
		if (last_kick())
			device_reads_arm(pi, &reported, &fired);
		if (pi == CQES || tern_shared_read(&slept->record->ci) != pi)
			continue;
		if (bursts % SLEEP_BURSTS == 0 && !atomic_load(&sleeping))
			continue;
		for (i = 0; i <= bursts % 3 && pi < CQES; i++, pi++)
			device_writes(pi);
		bursts++;
		atomic_thread_fence(memory_order_seq_cst);
		device_reads_arm(pi, &reported, &fired);
	}
	return arg;
}

static bool wait_event(unsigned int *taken)
{
	time_t end = time(NULL) + LOST_SECONDS;

	atomic_store(&sleeping, true);
	while (atomic_load(&events) == *taken) {
		if (time(NULL) >= end)
			return false;
		sched_yield();
	}
	atomic_store(&sleeping, false);
	++*taken;
	tern_cq_event(&slept->vcq.cq);
	return true;
}

void test_arm_threads(void)
{
	unsigned int taken = 0;
	struct ibv_wc wc[4];
	pthread_t device;
	uint32_t got = 0;
	int n, i;

	slept = make_cq(4);
	atomic_store(&events, 0);
	(void)last_kick();
	pthread_create(&device, NULL, device_loop, NULL);
	while (got < CQES) {
		CHECK(!tern_req_notify_cq(&slept->vcq.cq, 0));
		n = tern_poll_cq(&slept->vcq.cq, got % 5 ? 1 : 4, wc);
		for (i = 0; i < n; i++)
			CHECK(wc[i].wr_id == got++);
		if (!n)
			CHECK(wait_event(&taken));
	}
	pthread_join(device, NULL);
	CHECK(taken >= CQES / 2 / SLEEP_BURSTS);
	tern_destroy_cq(&slept->vcq.cq);
}
