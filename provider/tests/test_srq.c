// SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause)
/* SRQs: posting against the device's index, resizing, completions, threads. */

#include <errno.h>
#include <sched.h>

#include "fixture.h"

static struct ibv_pd *const pd = &test_pd.ibvpd;

static struct tern_srq *make_srq(uint32_t max_wr, uint32_t max_sge)
{
	struct ibv_srq_init_attr attr = { .attr = { max_wr, max_sge, 0 } };
	struct ibv_srq *srq;

	srq = tern_create_srq(pd, &attr);
	CHECK(srq && attr.attr.max_wr >= max_wr);
	CHECK(attr.attr.max_sge >= max_sge);
	CHECK(last_srq_attr.max_wr == attr.attr.max_wr);
	CHECK(last_srq_attr.max_sge == attr.attr.max_sge);
	CHECK(1U << last_srq.log_size == attr.attr.max_wr);
	CHECK(last_srq.buf_len % PAGE == 0);
	CHECK(last_srq.record_addr == (uintptr_t)to_tern_srq(srq)->record);
	return to_tern_srq(srq);
}

static struct ibv_srq *try_xrc_srq(struct tern_cq *cq)
{
	static struct verbs_xrcd xrcd;
	struct ibv_srq_init_attr_ex attr = {
		.attr = { 4, 1, 0 },
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
			     IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
		.srq_type = IBV_SRQT_XRC,
		.pd = pd,
		.xrcd = &xrcd.xrcd,
		.cq = &cq->vcq.cq,
	};

	return tern_create_srq_ex(&ctx->vctx.context, &attr);
}

static struct tern_srq *make_xrc_srq(struct tern_cq *cq)
{
	struct ibv_srq *srq = try_xrc_srq(cq);

	CHECK(srq && srq->context == &ctx->vctx.context && srq->pd == pd);
	return to_tern_srq(srq);
}

static uint32_t srq_pi(const struct tern_srq *srq)
{
	return tern_shared_read(&srq->record->pi);
}

/* The device fetches WQEs up to number ci. */
static void take(struct tern_srq *srq, uint32_t ci)
{
	atomic_store_explicit((atomic_uint *)&srq->record->ci,
			      (__force uint32_t)htole32(ci),
			      memory_order_release);
}

static int post(struct tern_srq *srq, uint64_t wr_id)
{
	struct ibv_recv_wr *bad, wr = { .wr_id = wr_id };
	int err = tern_post_srq_recv(&srq->vsrq.srq, &wr, &bad);

	CHECK(!err || bad == &wr);
	return err;
}

static uint64_t slot_id(const struct tern_srq *srq, uint32_t index)
{
	const struct tern_rq_hdr *hdr = tern_wq_slot(&srq->wq, index);

	return le64toh(hdr->wr_id);
}

/*
 * Only WQEs that the device has not fetched occupy slots, whatever has
 * completed. No doorbell is used.
 */
void test_srq_queue(void)
{
	struct tern_srq *srq = make_srq(3, 2);
	struct ibv_sge sge = { .addr = 0x1000, .length = 64, .lkey = 3 };
	struct ibv_recv_wr *bad, wr[6] = {};
	uint32_t start = 0xfffffffe;
	struct tern_rq_hdr *hdr;
	uint32_t num;
	unsigned int i;

	CHECK(srq->wq.mask == 3);
	srq->wq.head = start;
	srq->wq.tail_seen = start;
	take(srq, start);
	for (i = 0; i < 6; i++) {
		wr[i].wr_id = i;
		wr[i].sg_list = &sge;
		wr[i].num_sge = 1;
		wr[i].next = i < 5 ? &wr[i + 1] : NULL;
	}
	CHECK(tern_post_srq_recv(&srq->vsrq.srq, wr, &bad) == ENOMEM);
	CHECK(bad == &wr[4] && srq_pi(srq) == start + 4 && !last_kick());
	hdr = tern_wq_slot(&srq->wq, start);
	CHECK(hdr->num_sge == 1 && !le64toh(hdr->wr_id));
	CHECK(le32toh(((struct tern_sge *)(hdr + 1))->lkey) == 3);
	take(srq, start + 1);
	CHECK(tern_post_srq_recv(&srq->vsrq.srq, &wr[4], &bad) == ENOMEM);
	CHECK(bad == &wr[5] && srq_pi(srq) == start + 5);
	CHECK(slot_id(srq, start + 4) == 4);
	take(srq, start + 5);
	for (i = 0; i < 4; i++)
		CHECK(!post(srq, 100 + i));
	CHECK(post(srq, 0) == ENOMEM);
	/* Too many SGEs, after a request that is posted. */
	take(srq, start + 9);
	wr[1].num_sge = srq->wq.max_sge + 1;
	CHECK(tern_post_srq_recv(&srq->vsrq.srq, wr, &bad) == EINVAL);
	CHECK(bad == &wr[1] && srq_pi(srq) == start + 10);
	wr[1].num_sge = -1;
	CHECK(tern_post_srq_recv(&srq->vsrq.srq, &wr[1], &bad) == EINVAL);
	CHECK(tern_get_srq_num(&srq->vsrq.srq, &num) == EINVAL);
	tern_destroy_srq(&srq->vsrq.srq);
}

static struct tern_srq *resized;

/* The device fetched one more WQE before it switched. */
static void take_one_more(void)
{
	take(resized, tern_shared_read(&resized->record->ci) + 1);
}

/* Posted WQEs are preserved in order by a change of size, at any index. */
void test_srq_resize(void)
{
	static const uint32_t sizes[] = { 16, 64, 5, 32, 8, 4096, 8 };
	struct tern_srq *srq = resized = make_srq(16, 3);
	struct ibv_srq_attr attr = {};
	uint32_t ci = 0xfffffff9, pi = ci, stride = srq->wq.log_stride;
	unsigned int i, k;

	srq->wq.head = ci;
	srq->wq.tail_seen = ci;
	take(srq, ci);
	for (k = 0; k < sizeof(sizes) / sizeof(sizes[0]); k++) {
		while (pi - ci < 4)
			CHECK(!post(srq, 1000 + pi++));
		attr.max_wr = sizes[k];
		attr.srq_limit = 2;
		CHECK(!tern_modify_srq(&srq->vsrq.srq, &attr,
				       IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT));
		CHECK(last_srq_mask == (IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT));
		CHECK(last_srq_attr.srq_limit == 2);
		CHECK(attr.max_wr >= sizes[k]);
		CHECK(attr.max_wr == srq->wq.mask + 1);
		CHECK(last_resize.buf_addr == (uintptr_t)srq->buf.addr);
		CHECK(last_resize.buf_len == srq->buf.len);
		CHECK(1U << last_resize.log_size == attr.max_wr);
		CHECK(srq->wq.log_stride == stride);
		CHECK(srq_pi(srq) == pi);
		CHECK(tern_shared_read(&srq->record->ci) == ci);
		for (i = ci; i != pi; i++)
			CHECK(slot_id(srq, i) == 1000 + i);
		ci += 3;
		take(srq, ci);
		/* Every slot of the new queue is usable. */
		while (pi - ci <= srq->wq.mask)
			CHECK(!post(srq, 1000 + pi++));
		CHECK(post(srq, 0) == ENOMEM);
		ci = pi - 1;
		take(srq, ci);
	}

	/*
	 * A WQE that the device fetches meanwhile was copied needlessly: its
	 * slot is free.
	 */
	on_modify_srq = take_one_more;
	attr.max_wr = 16;
	CHECK(!tern_modify_srq(&srq->vsrq.srq, &attr, IBV_SRQ_MAX_WR));
	on_modify_srq = NULL;
	CHECK(tern_shared_read(&srq->record->ci) == ci + 1);
	take(srq, pi);

	/*
	 * A queue too small for the posted WQEs, a refusal by the kernel, a
	 * size out of range: nothing changes.
	 */
	for (i = 0; i < 9; i++)
		CHECK(!post(srq, i));
	attr.max_wr = 8;
	CHECK(tern_modify_srq(&srq->vsrq.srq, &attr, IBV_SRQ_MAX_WR) == EINVAL);
	create_err = EPERM;
	attr.max_wr = 32;
	CHECK(tern_modify_srq(&srq->vsrq.srq, &attr, IBV_SRQ_MAX_WR) == EPERM);
	CHECK(attr.max_wr == 32);
	create_err = 0;
	attr.max_wr = ctx->max_srq_wr + 1;
	CHECK(tern_modify_srq(&srq->vsrq.srq, &attr, IBV_SRQ_MAX_WR) == EINVAL);
	attr.max_wr = 0;
	CHECK(tern_modify_srq(&srq->vsrq.srq, &attr, IBV_SRQ_MAX_WR) == EINVAL);
	CHECK(tern_modify_srq(&srq->vsrq.srq, &attr, 4) == EINVAL);
	CHECK(srq->wq.mask == 15 && srq_pi(srq) == pi + 9);
	for (i = 0; i < 9; i++)
		CHECK(slot_id(srq, pi + i) == i);

	/* Setting only a limit passes no buffer. */
	last_resize.buf_len = 1;
	attr.srq_limit = 5;
	CHECK(!tern_modify_srq(&srq->vsrq.srq, &attr, IBV_SRQ_LIMIT));
	CHECK(!last_resize.buf_len && last_srq_attr.srq_limit == 5);
	tern_destroy_srq(&srq->vsrq.srq);
}

static uint32_t old_mask;

/* Another thread posts before and after the device switches. */
static void post_meanwhile(void)
{
	const struct tern_rq_hdr *hdr;
	uint32_t pi = srq_pi(resized);

	CHECK(!pthread_spin_trylock(&resized->wq.lock.lock));
	pthread_spin_unlock(&resized->wq.lock.lock);
	CHECK(resized->wq.mask == old_mask);
	CHECK(!post(resized, 7000 + pi));
	CHECK(srq_pi(resized) == pi + 1);
	/* The WQE is wherever the device looks. */
	CHECK(slot_id(resized, pi) == 7000 + pi);
	hdr = (void *)(uintptr_t)(last_resize.buf_addr +
				  ((uint64_t)(pi & ((1U << last_resize.log_size) -
						    1))
				   << resized->wq.log_stride));
	CHECK(le64toh(hdr->wr_id) == 7000 + pi);
	/* As many as fit both queues. */
	while (!post(resized, 7000 + ++pi))
		;
	CHECK(pi - tern_shared_read(&resized->record->ci) ==
	      (old_mask < (1U << last_resize.log_size) - 1 ?
		       old_mask + 1 :
		       1U << last_resize.log_size));
}

/* Posting continues during a resize, whether it succeeds or fails. */
void test_srq_resize_posts(void)
{
	static const uint32_t sizes[] = { 32, 8 };
	struct ibv_srq_attr attr = {};
	uint32_t ci = 0xfffffff9, i;
	unsigned int k, fails;

	resized = make_srq(16, 3);
	resized->wq.head = ci;
	resized->wq.tail_seen = ci;
	take(resized, ci);
	for (k = 0; k < 2; k++)
		for (fails = 0; fails < 2; fails++) {
			uint32_t pi = ci;

			for (i = 0; i < 3; i++, pi++)
				CHECK(!post(resized, 7000 + pi));
			old_mask = resized->wq.mask;
			on_modify_srq = post_meanwhile;
			create_err = fails ? EPERM : 0;
			attr.max_wr = sizes[k] << fails;
			CHECK(tern_modify_srq(&resized->vsrq.srq, &attr,
					      IBV_SRQ_MAX_WR) == create_err);
			create_err = 0;
			on_modify_srq = NULL;
			CHECK(resized->wq.mask ==
			      (fails ? old_mask : sizes[k] - 1));
			CHECK(srq_pi(resized) == resized->wq.head);
			for (i = ci; i != srq_pi(resized); i++)
				CHECK(slot_id(resized, i) == 7000 + i);
			ci = srq_pi(resized);
			take(resized, ci);
		}
	tern_destroy_srq(&resized->vsrq.srq);
}

/* SRQ completions need no local QP, and go with their SRQ or QP. */
void test_srq_cqes(void)
{
	struct tern_cq *cq = make_cq(16);
	struct tern_srq *basic = make_srq(4, 1);
	struct tern_qp *qp = make_typed_qp(IBV_QPT_RC, cq, cq,
					   &basic->vsrq.srq, small_cap, 0);
	struct tern_srq *srq = make_xrc_srq(cq);
	struct tern_srq *other = make_xrc_srq(cq);
	struct ibv_qp_attr reset = { .qp_state = IBV_QPS_RESET };
	struct tern_srq *new;
	uint32_t qpn = qp->vqp.qp.qp_num;
	struct ibv_recv_wr *bad, wr = {};
	struct ibv_wc wc[4];
	uint32_t num;

	CHECK(tern_post_recv(&qp->vqp.qp, &wr, &bad) == EINVAL && bad == &wr);
	CHECK(!tern_get_srq_num(&srq->vsrq.srq, &num) && num == srq->srqn);

	/* The target QP's number is that of an unrelated local QP. */
	put_srq_cqe(cq, 0, qpn, 1, srq->srqn);
	put_srq_cqe(cq, 1, 0xfff123, 2, srq->srqn);
	CHECK(tern_poll_cq(&cq->vcq.cq, 4, wc) == 2);
	CHECK(wc[0].wr_id == 1 && wc[1].wr_id == 2);
	CHECK(wc[1].qp_num == 0xfff123 && wc[1].opcode == IBV_WC_RECV);
	CHECK(!atomic_load(&qp->rq_tail) && !atomic_load(&qp->sq_tail));

	/* Destroying an XRC SRQ removes its completions and no others. */
	put_srq_cqe(cq, 2, 0xfff123, 3, srq->srqn);
	put_srq_cqe(cq, 3, 0xfff123, 4, other->srqn);
	put_cqe(cq, 4, qpn, 5, 0, 0);
	num = srq->srqn;
	CHECK(!tern_destroy_srq(&srq->vsrq.srq));
	CHECK(tern_poll_cq(&cq->vcq.cq, 4, wc) == 2);
	CHECK(wc[0].wr_id == 4 && wc[1].wr_id == 5);

	/* A number that is reused before its previous owner is cleaned up. */
	put_srq_cqe(cq, 5, 0xfff123, 6, other->srqn);
	next_srqn = other->srqn;
	new = make_xrc_srq(cq);
	CHECK(new->srqn == other->srqn + 1 && num != new->srqn);
	put_srq_cqe(cq, 6, 0xfff123, 7, new->srqn);
	CHECK(!tern_destroy_srq(&other->vsrq.srq));
	CHECK(tern_poll_cq(&cq->vcq.cq, 4, wc) == 1 && wc[0].wr_id == 7);
	next_srqn = 0x200;

	/*
	 * Receives from a QP's SRQ are removed with the QP, like its sends.
	 * Receives of an XRC target that had the number before are removed with
	 * its XRC SRQ.
	 */
	put_srq_cqe(cq, 7, qpn, 8, basic->srqn);
	put_srq_cqe(cq, 8, 0xfff123, 9, new->srqn);
	put_srq_cqe(cq, 9, qpn, 10, new->srqn);
	put_cqe(cq, 10, qpn, 11, 0, 0);
	CHECK(!tern_destroy_qp(&qp->vqp.qp));
	CHECK(tern_poll_cq(&cq->vcq.cq, 4, wc) == 2);
	CHECK(wc[0].wr_id == 9 && wc[1].wr_id == 10);

	/* The same for a QP without an SRQ, and for a reset. */
	next_qpn = qpn;
	qp = make_qp(cq, cq, small_cap);
	put_srq_cqe(cq, 11, qpn, 12, new->srqn);
	put_cqe(cq, 12, qpn, 13, 0, TERN_CQE_F_RECV);
	CHECK(!tern_modify_qp(&qp->vqp.qp, &reset, IBV_QP_STATE));
	CHECK(tern_poll_cq(&cq->vcq.cq, 4, wc) == 1 && wc[0].wr_id == 12);
	CHECK(!tern_destroy_qp(&qp->vqp.qp));
	tern_destroy_srq(&new->vsrq.srq);
	tern_destroy_srq(&basic->vsrq.srq);
	tern_destroy_cq(&cq->vcq.cq);
}

static struct list_head *bucket_of(uint32_t srqn)
{
	return &ctx->xrc_srqs[srqn % TERN_XRC_SRQ_BUCKETS];
}

static unsigned int list_length(struct list_head *list)
{
	struct tern_srq *srq;
	unsigned int num = 0;

	list_for_each(list, srq, xrc_entry)
		num++;
	return num;
}

/*
 * A thousand XRC SRQs: a new one is compared with few others, and gets a number
 * that none of them has.
 */
void test_srq_numbers(void)
{
	static struct tern_srq *srqs[1000];
	struct tern_cq *cq = make_cq(4);
	struct tern_srq *again;
	unsigned int i;

	for (i = 0; i < 1000; i++) {
		srqs[i] = make_xrc_srq(cq);
		CHECK(list_length(bucket_of(srqs[i]->srqn)) <= 2);
	}
	next_srqn = srqs[1000 - TERN_NUMBER_TRIES]->srqn;
	CHECK(!try_xrc_srq(cq) && errno == ENOMEM);
	next_srqn = srqs[1001 - TERN_NUMBER_TRIES]->srqn;
	again = make_xrc_srq(cq);
	CHECK(again->srqn == srqs[999]->srqn + 1);
	for (i = 0; i < 1000; i++)
		CHECK(!tern_destroy_srq(&srqs[i]->vsrq.srq));
	CHECK(list_length(bucket_of(again->srqn)) == 1);
	CHECK(!tern_destroy_srq(&again->vsrq.srq));
	next_srqn = 0x2000;
	tern_destroy_cq(&cq->vcq.cq);
}

void test_srq_refused(void)
{
	struct tern_cq *cq = make_cq(4);
	struct verbs_xrcd xrcd = {};
	struct ibv_srq_init_attr_ex good = {
		.attr = { 4, 1, 0 },
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
			     IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
		.srq_type = IBV_SRQT_XRC,
		.pd = pd,
		.xrcd = &xrcd.xrcd,
		.cq = &cq->vcq.cq,
	};
	struct ibv_srq_init_attr_ex attr;

#define SRQ_REFUSED(change, err)                                               \
	do {                                                                   \
		attr = good;                                                   \
		change;                                                        \
		CHECK(!tern_create_srq_ex(&ctx->vctx.context, &attr) &&        \
		      errno == (err));                                         \
	} while (0)

	SRQ_REFUSED(attr.srq_type = IBV_SRQT_TM, EOPNOTSUPP);
	SRQ_REFUSED(attr.comp_mask |= IBV_SRQ_INIT_ATTR_TM, EINVAL);
	SRQ_REFUSED(attr.comp_mask &= ~IBV_SRQ_INIT_ATTR_CQ, EINVAL);
	SRQ_REFUSED(attr.comp_mask &= ~IBV_SRQ_INIT_ATTR_XRCD, EINVAL);
	SRQ_REFUSED(attr.comp_mask &= ~IBV_SRQ_INIT_ATTR_PD, EINVAL);
	SRQ_REFUSED(attr.comp_mask &= ~IBV_SRQ_INIT_ATTR_TYPE, EINVAL);
	SRQ_REFUSED(attr.srq_type = IBV_SRQT_BASIC, EINVAL);
	SRQ_REFUSED(attr.attr.max_wr = 0, EINVAL);
	SRQ_REFUSED(attr.attr.max_wr = ctx->max_srq_wr + 1, EINVAL);
	SRQ_REFUSED(attr.attr.max_sge = ctx->max_recv_sge + 1, EINVAL);
	create_err = ENOMEM;
	SRQ_REFUSED(, ENOMEM);
	create_err = 0;
	tern_destroy_cq(&cq->vcq.cq);
}

/* ---- threads: two posters, the device, a resizer ---- */

#define EACH 2000U

static struct tern_srq *shared;
static pthread_mutex_t device_lock = PTHREAD_MUTEX_INITIALIZER;
static struct tern_srq_record *device_record;
static uint8_t *device_slots;
static uint32_t device_mask, device_ci;

static void *post_loop(void *arg)
{
	unsigned int i = 0;

	while (i < EACH) {
		int err = post(shared, i);

		CHECK(!err || err == ENOMEM);
		i += !err;
		if (err)
			sched_yield();
	}
	return arg;
}

/* Publishes the device's index to software. */
static void device_tell(void)
{
	atomic_store_explicit((atomic_uint *)&device_record->ci,
			      (__force uint32_t)htole32(device_ci),
			      memory_order_release);
}

/*
 * Acts as the device for the command: continues in the new queue. Every other
 * time, it first fetches everything from the old queue since software copied
 * it.
 */
static void device_switch(void)
{
	static unsigned int switches;

	pthread_mutex_lock(&device_lock);
	if (++switches & 1)
		device_ci = le32toh((__force __le32)atomic_load_explicit(
			(atomic_uint *)&device_record->pi,
			memory_order_acquire));
	device_slots = (uint8_t *)(uintptr_t)last_resize.buf_addr;
	device_mask = (1U << last_resize.log_size) - 1;
	device_tell();
	pthread_mutex_unlock(&device_lock);
}

/* TSan does not know the barrier that orders a WQE and its index. */
static void check_slot(const void *slot)
{
#ifndef __SANITIZE_THREAD__
	const struct tern_rq_hdr *hdr = slot;

	CHECK(le64toh(hdr->wr_id) < EACH && !hdr->num_sge);
#endif
}

static void *device_loop(void *arg)
{
	uint32_t stride = shared->wq.log_stride;
	bool took, done;

	do {
		uint32_t pi;

		pthread_mutex_lock(&device_lock);
		pi = atomic_load_explicit((atomic_uint *)&device_record->pi,
					  memory_order_acquire);
		CHECK(pi - device_ci <= device_mask + 1);
		took = pi != device_ci;
		if (took) {
			check_slot(device_slots +
				   ((size_t)(device_ci & device_mask)
				    << stride));
			device_ci++;
			device_tell();
		}
		done = device_ci == 2 * EACH;
		pthread_mutex_unlock(&device_lock);
		if (!took)
			sched_yield();
	} while (!done);
	return arg;
}

void test_srq_threads(void)
{
	struct ibv_srq_attr attr = {};
	pthread_t threads[3];
	unsigned int i;
	int err;

	shared = make_srq(16, 1);
	device_record = shared->record;
	device_slots = shared->wq.slots;
	device_mask = shared->wq.mask;
	device_ci = 0;
	on_modify_srq = device_switch;
	pthread_create(&threads[0], NULL, post_loop, NULL);
	pthread_create(&threads[1], NULL, post_loop, NULL);
	pthread_create(&threads[2], NULL, device_loop, NULL);
	for (i = 0; i < 200; i++) {
		attr.max_wr = 8 << i % 3;
		err = tern_modify_srq(&shared->vsrq.srq, &attr, IBV_SRQ_MAX_WR);
		CHECK(!err || err == EINVAL);
		sched_yield();
	}
	for (i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	on_modify_srq = NULL;
	tern_destroy_srq(&shared->vsrq.srq);
}
