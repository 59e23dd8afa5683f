// SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause)
/* Two threads, one of which is stopped where it hurts. */

#include "fixture.h"

/* ---- two threads arm one CQ ---- */

static struct tern_cq *armed;

/* The other thread takes the event that the first arm was for, and arms for the next. */
static void take_and_arm(pthread_spinlock_t *lock)
{
	if (lock != &armed->arm_lock)
		return;
	before_lock = NULL;
	tern_cq_event(&armed->vcq.cq);
	CHECK(!tern_req_notify_cq(&armed->vcq.cq, 0));
}

/* The other thread asks for the event of any completion. */
static void arm_any(pthread_spinlock_t *lock)
{
	if (lock != &armed->arm_lock)
		return;
	before_lock = NULL;
	CHECK(!tern_req_notify_cq(&armed->vcq.cq, 0));
}

/* An arm that is held up neither takes back the sequence number nor makes the request weaker. */
void test_arm_race(void)
{
	uint32_t arm;

	armed = make_cq(4);
	CHECK(!tern_req_notify_cq(&armed->vcq.cq, 0));
	before_lock = take_and_arm;
	CHECK(!tern_req_notify_cq(&armed->vcq.cq, 0));
	CHECK(!before_lock);
	arm = tern_shared_read(&armed->record->arm);
	CHECK(FIELD_GET(TERN_CQ_ARM_SEQ_MASK, arm) == 1);

	tern_cq_event(&armed->vcq.cq);
	before_lock = arm_any;
	CHECK(!tern_req_notify_cq(&armed->vcq.cq, 1));
	CHECK(!before_lock);
	arm = tern_shared_read(&armed->record->arm);
	CHECK(FIELD_GET(TERN_CQ_ARM_SEQ_MASK, arm) == 2);
	CHECK(!(arm & TERN_CQ_ARM_SOLICITED));
	tern_destroy_cq(&armed->vcq.cq);
}
