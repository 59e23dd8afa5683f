// SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause)
/* Resizing of CQs in use, moderation, and clocks of time stamps. */

#include <errno.h>
#include <sched.h>

#include "fixture.h"

/* ---- one thread, with the test acting as the device ---- */

static struct tern_cq *resized;
static uint32_t device_pi;

/* Executes the command as the device, and checks the new buffer. */
static int switch_at_pi(uint32_t *first_index)
{
	uint32_t entries = 1U << last_cq_resize.log_size;
	struct tern_cq_record *record = resized->record;
	const uint8_t *bytes;
	size_t i;

	bytes = (void *)(uintptr_t)last_cq_resize.buf_addr;
	CHECK(last_cq_resize.buf_len >= entries * sizeof(struct tern_cqe));
	for (i = 0; i < entries * sizeof(struct tern_cqe); i++)
		CHECK(!bytes[i]);
	CHECK(tern_shared_read(&record->ci) == atomic_load(&resized->ci));
	if (device_pi - le32toh((__force __le32)record->ci) > entries)
		return EINVAL;
	*first_index = device_pi;
	return 0;
}

/*
 * Random CQEs, polls, purges and resizes, checked against a plain queue.
 * Indices wrap.
 */
void test_cq_resize(void)
{
	static struct { uint32_t qpn; uint64_t id; } model[100000];
	uint32_t r = 4711, first = 0xffffff80;
	uint32_t head = 0, tail = 0, qpn, i, kept, size;
	unsigned int step, refused = 0;
	struct ibv_wc wc[4];
	uint64_t id = 0;
	int n;

	resized = make_cq(16);
	on_resize_cq = switch_at_pi;
	device_pi = first;
	atomic_store(&resized->ci, first);
	resized->record->ci = htole32(first);
	for (i = 0; i <= resized->mask; i++)
		resized->cqes[i].phase =
			htole32((first >> resized->log_size) & 1);

	for (step = 0; step < 30000; step++) {
		r = r * 1664525 + 1013904223; /* the high bits are random */
		switch (r >> 28) {
		default:
			if (device_pi - atomic_load(&resized->ci) >
			    resized->mask)
				break;
			qpn = 100 + (r >> 16) % 3;
			put_cqe(resized, device_pi++, qpn, id, 0, 0);
			model[tail].qpn = qpn;
			model[tail++].id = id++;
			break;
		case 11:
		case 12:
		case 13:
			n = tern_poll_cq(&resized->vcq.cq, 1 + (r >> 16) % 4,
					 wc);
			for (i = 0; i < (uint32_t)n; i++, head++) {
				CHECK(wc[i].wr_id == model[head].id);
				CHECK(wc[i].qp_num == model[head].qpn);
			}
			CHECK(n || head == tail);
			break;
		case 14:
			qpn = 100 + (r >> 16) % 3;
			tern_cq_purge_qp(resized, qpn, 0);
			for (kept = head, i = head; i < tail; i++)
				if (model[i].qpn != qpn)
					model[kept++] = model[i];
			tail = kept;
			break;
		case 15:
			size = 2U << (r >> 16) % 6;
			n = tern_resize_cq(&resized->vcq.cq, size - 1);
			CHECK(n == (tail - head > size ? EINVAL : 0));
			if (n)
				refused++;
			else
				CHECK(resized->mask + 1 == size);
			break;
		}
	}
	while ((n = tern_poll_cq(&resized->vcq.cq, 4, wc)))
		for (i = 0; i < (uint32_t)n; i++, head++)
			CHECK(wc[i].wr_id == model[head].id);
	CHECK(head == tail && head > 1000 && refused > 10);
	tern_destroy_cq(&resized->vcq.cq);
}

void test_cq_resize_arm(void)
{
	uint32_t arm;

	resized = make_cq(4);
	on_resize_cq = switch_at_pi;
	device_pi = 0;
	put_cqe(resized, device_pi++, 1, 1, 0, 0);
	CHECK(!tern_req_notify_cq(&resized->vcq.cq, 1));
	arm = tern_shared_read(&resized->record->arm);
	CHECK(arm & TERN_CQ_ARM_SOLICITED);
	CHECK(!tern_resize_cq(&resized->vcq.cq, 100));
	CHECK(tern_shared_read(&resized->record->arm) == arm);
	CHECK(resized->vcq.cq.cqe == 128);
	(void)last_kick();
	CHECK(!tern_req_notify_cq(&resized->vcq.cq, 0));
	CHECK(!(tern_shared_read(&resized->record->arm) &
		TERN_CQ_ARM_SOLICITED));
	CHECK(last_kick() == kick_of(TERN_DB_CMD_CQ_ARM, resized->cqn));
	tern_destroy_cq(&resized->vcq.cq);
}

void test_cq_resize_refused(void)
{
	struct tern_cq_record *record;
	struct ibv_wc wc[4];
	unsigned int before;
	uint32_t i;

	resized = make_cq(4);
	on_resize_cq = switch_at_pi;
	device_pi = 0;
	for (i = 0; i < 4; i++)
		put_cqe(resized, device_pi++, 1, i, 0, 0);
	record = resized->record;
	before = cq_resizes;
	CHECK(tern_resize_cq(&resized->vcq.cq, 0) == EINVAL);
	CHECK(tern_resize_cq(&resized->vcq.cq, -1) == EINVAL);
	CHECK(tern_resize_cq(&resized->vcq.cq, ctx->max_cqe + 1) == EINVAL);
	CHECK(!tern_resize_cq(&resized->vcq.cq, 3));
	CHECK(cq_resizes == before);
	CHECK(tern_resize_cq(&resized->vcq.cq, 1) == EINVAL);
	CHECK(cq_resizes == before + 1);
	create_err = EOPNOTSUPP;
	CHECK(tern_resize_cq(&resized->vcq.cq, 100) == EOPNOTSUPP);
	create_err = 0;
	CHECK(resized->record == record && resized->mask == 3);
	CHECK(tern_poll_cq(&resized->vcq.cq, 4, wc) == 4 && wc[3].wr_id == 3);
	CHECK(!tern_resize_cq(&resized->vcq.cq, ctx->max_cqe));
	CHECK(resized->mask + 1 == ctx->max_cqe);
	tern_destroy_cq(&resized->vcq.cq);
}

/* ---- threads: the device, a poller, an armer, a resizer ---- */

#define CQES 20000U
#define RESIZES 400U

static pthread_mutex_t device_lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
	struct tern_cqe *cqes;
	struct tern_cq_record *record;
	uint32_t log_size, base, pi;
} device;
static atomic_bool polled_all;

static int device_switch(uint32_t *first_index)
{
	int err = 0;

	pthread_mutex_lock(&device_lock);
	if (device.pi - tern_shared_read(&device.record->ci) >
	    1U << last_cq_resize.log_size) {
		err = EINVAL;
	} else {
		device.cqes = (void *)(uintptr_t)last_cq_resize.buf_addr;
		device.log_size = last_cq_resize.log_size;
		device.base = device.pi;
		*first_index = device.pi;
	}
	pthread_mutex_unlock(&device_lock);
	return err;
}

/*
 * Writes one CQE if there is room. TSan does not know the barriers that order a
 * CQE and an index.
 */
__attribute__((no_sanitize_thread)) static bool device_write(void)
{
	uint32_t place = device.pi - device.base;
	uint32_t size = 1U << device.log_size;
	struct tern_cqe *slot = &device.cqes[place & (size - 1)];

	if (device.pi - tern_shared_read(&device.record->ci) >= size)
		return false;
	/* The consumer read the slot before it advanced its index. */
	atomic_thread_fence(memory_order_acquire);
	slot->wr_id = htole64(device.pi);
	slot->qpn = htole32(1);
	atomic_store_explicit((atomic_uint *)&slot->phase,
			      !((place >> device.log_size) & 1),
			      memory_order_release);
	device.pi++;
	return true;
}

static void *device_loop(void *arg)
{
	bool written;
	uint32_t i;

	for (i = 0; i < CQES; i += written) {
		pthread_mutex_lock(&device_lock);
		written = device_write();
		pthread_mutex_unlock(&device_lock);
		if (!written)
			sched_yield();
	}
	return arg;
}

/* When the doorbell rings, the device finds each arm in the record. */
static void *arm_loop(void *arg)
{
	uint32_t seq = 0, arm;

	while (!atomic_load(&polled_all)) {
		CHECK(!tern_req_notify_cq(&resized->vcq.cq, 0));
		pthread_mutex_lock(&device_lock);
		arm = tern_shared_read(&device.record->arm);
		pthread_mutex_unlock(&device_lock);
		CHECK(FIELD_GET(TERN_CQ_ARM_SEQ_MASK, arm) == seq % 4);
		tern_cq_event(&resized->vcq.cq);
		seq++;
		sched_yield();
	}
	return arg;
}

static void *resize_loop(void *arg)
{
	unsigned int i, done = 0;
	int err;

	for (i = 0; i < RESIZES; i++) {
		err = tern_resize_cq(&resized->vcq.cq, 1 << i % 7);
		CHECK(!err || err == EINVAL);
		done += !err;
		sched_yield();
	}
	CHECK(done > RESIZES / 10);
	return arg;
}

void test_cq_resize_threads(void)
{
	pthread_t threads[3];
	struct ibv_wc wc[8];
	uint32_t got = 0;
	unsigned int i;
	int n;

	resized = make_cq(16);
	on_resize_cq = device_switch;
	device.cqes = resized->cqes;
	device.record = resized->record;
	device.log_size = resized->log_size;
	device.base = 0;
	device.pi = 0;
	atomic_store(&polled_all, false);
	pthread_create(&threads[0], NULL, device_loop, NULL);
	pthread_create(&threads[1], NULL, arm_loop, NULL);
	pthread_create(&threads[2], NULL, resize_loop, NULL);
	while (got < CQES) {
		n = tern_poll_cq(&resized->vcq.cq, 8, wc);
		for (i = 0; i < (unsigned int)n; i++)
			CHECK(wc[i].wr_id == got++);
		if (!n)
			sched_yield();
	}
	pthread_join(threads[0], NULL);
	pthread_join(threads[2], NULL);
	atomic_store(&polled_all, true);
	pthread_join(threads[1], NULL);
	tern_destroy_cq(&resized->vcq.cq);
}

/* ---- moderation ---- */

void test_cq_modify(void)
{
	struct ibv_modify_cq_attr attr = {
		.attr_mask = IBV_CQ_ATTR_MODERATE,
		.moderate = { .cq_count = 16, .cq_period = 100 },
	};
	struct tern_cq *cq = make_cq(4);

	CHECK(!tern_modify_cq(&cq->vcq.cq, &attr));
	CHECK(last_cq_attr.moderate.cq_count == 16);
	CHECK(last_cq_attr.moderate.cq_period == 100);
	create_err = EINVAL;
	CHECK(tern_modify_cq(&cq->vcq.cq, &attr) == EINVAL);
	create_err = 0;
	tern_destroy_cq(&cq->vcq.cq);
}

/* ---- clocks ---- */

static void set_clock(uint64_t ns)
{
	__le32 *lo = ctx->uar + TERN_UAR_CLOCK_LO;
	__le32 *hi = ctx->uar + TERN_UAR_CLOCK_HI;

	*lo = htole32(ns);
	*hi = htole32(ns >> 32);
}

void test_clock(void)
{
	struct ibv_values_ex values = { .comp_mask = IBV_VALUES_MASK_RAW_CLOCK };
	struct ibv_context *ibvctx = &ctx->vctx.context;

	set_clock(0x123456789a);
	CHECK(tern_read_clock(ctx) == 0x123456789a);
	CHECK(tern_query_rt_values(ibvctx, &values) == EOPNOTSUPP);
	CHECK(!values.comp_mask);

	ctx->caps = TERN_UCTX_CAP_TIMESTAMP;
	values.comp_mask = IBV_VALUES_MASK_RAW_CLOCK;
	CHECK(!tern_query_rt_values(ibvctx, &values));
	CHECK(values.comp_mask == IBV_VALUES_MASK_RAW_CLOCK);
	CHECK(!values.raw_clock.tv_sec);
	CHECK(values.raw_clock.tv_nsec == 0x123456789a);

	values.comp_mask = 0;
	CHECK(!tern_query_rt_values(ibvctx, &values) && !values.comp_mask);
	values.comp_mask = IBV_VALUES_MASK_RAW_CLOCK | 2;
	CHECK(tern_query_rt_values(ibvctx, &values) == EOPNOTSUPP);
	CHECK(!values.comp_mask);
	/* A device that is gone, before and after ib_core has removed it. */
	set_clock(UINT64_MAX);
	values.comp_mask = IBV_VALUES_MASK_RAW_CLOCK;
	CHECK(tern_query_rt_values(ibvctx, &values) == EIO);
	CHECK(!values.comp_mask);
	set_clock(0);
	values.comp_mask = IBV_VALUES_MASK_RAW_CLOCK;
	CHECK(tern_query_rt_values(ibvctx, &values) == EIO);
	CHECK(!values.comp_mask);
}
