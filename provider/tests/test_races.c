// SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause)
/* Two threads, one of which is stopped at the most critical point. */

#include <sched.h>
#include <signal.h>
#include <sys/mman.h>

#include "fixture.h"

/* ---- two threads arm one CQ ---- */

static struct tern_cq *armed;

/* The other thread takes the event of the first arm, and arms for the next. */
static void take_and_arm(pthread_spinlock_t *lock)
{
	if (lock != &armed->arm_lock.lock)
		return;
	before_lock = NULL;
	tern_cq_event(&armed->vcq.cq);
	CHECK(!tern_req_notify_cq(&armed->vcq.cq, 0));
}

/* The other thread requests an event for any completion. */
static void arm_any(pthread_spinlock_t *lock)
{
	if (lock != &armed->arm_lock.lock)
		return;
	before_lock = NULL;
	CHECK(!tern_req_notify_cq(&armed->vcq.cq, 0));
}

/* A delayed arm neither resets the sequence nor weakens the request. */
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

/* ---- one thread posts, another destroys the completed queue ---- */

static struct tern_qp *posted;
static struct tern_srq *posted_srq;
static pthread_spinlock_t *posted_lock;

static void destroy_queue(void)
{
	if (posted_srq)
		CHECK(!tern_destroy_srq(&posted_srq->vsrq.srq));
	else if (posted)
		CHECK(!tern_destroy_qp(&posted->vqp.qp));
	else
		CHECK(!tern_destroy_cq(&armed->vcq.cq));
}

static void destroy_posted(pthread_spinlock_t *lock)
{
	if (lock != posted_lock)
		return;
	after_unlock = NULL;
	destroy_queue();
}

static int post_by_list(void)
{
	struct ibv_send_wr *bad, wr = { .opcode = IBV_WR_SEND };

	return tern_post_send(&posted->vqp.qp, &wr, &bad);
}

static int post_by_calls(void)
{
	struct ibv_qp_ex *qpx = &posted->vqp.qp_ex;

	qpx->wr_start(qpx);
	qpx->wr_send(qpx);
	return qpx->wr_complete(qpx);
}

static int post_bind(void)
{
	struct ibv_mw mw = { .type = IBV_MW_TYPE_1, .rkey = 0x100 };
	struct ibv_mw_bind bind = {};

	return tern_bind_mw(&posted->vqp.qp, &mw, &bind);
}

static int post_recv(void)
{
	struct ibv_recv_wr *bad, wr = {};

	return tern_post_recv(&posted->vqp.qp, &wr, &bad);
}

static int post_srq_recv(void)
{
	struct ibv_recv_wr *bad, wr = {};

	return tern_post_srq_recv(&posted_srq->vsrq.srq, &wr, &bad);
}

static int arm_cq(void)
{
	return tern_req_notify_cq(&armed->vcq.cq, 0);
}

static int (*const posts[])(void) = {
	post_by_list, post_by_calls, post_bind, post_recv, post_srq_recv,
	arm_cq,
};

#define POSTS (sizeof(posts) / sizeof(posts[0]))

/* Creates the objects for posts[i], and determines the lock that it takes. */
static void make_posted(unsigned int i, struct tern_cq *cq)
{
	struct ibv_srq_init_attr attr = { .attr = { 4, 1, 0 } };
	struct ibv_pd *pd = &test_pd.ibvpd;

	posted = NULL;
	posted_srq = NULL;
	armed = NULL;
	if (posts[i] == post_srq_recv) {
		posted_srq = to_tern_srq(tern_create_srq(pd, &attr));
		posted_lock = &posted_srq->wq.lock.lock;
	} else if (posts[i] == arm_cq) {
		armed = make_cq(4);
		posted_lock = &armed->arm_lock.lock;
	} else {
		ctx->caps = TERN_UCTX_CAP_MW;
		posted = make_qp(cq, cq, small_cap);
		posted_lock = posts[i] == post_recv ? &posted->rq.lock.lock :
						      &posted->sq.lock.lock;
	}
}

/* Posting does not access the queue after its lock is released. */
void test_post_destroy(void)
{
	struct tern_cq *cq = make_cq(4);
	unsigned int i;

	for (i = 0; i < POSTS; i++) {
		make_posted(i, cq);
		after_unlock = destroy_posted;
		CHECK(!posts[i]());
		CHECK(!after_unlock);
	}
	tern_destroy_cq(&cq->vcq.cq);
}

/* Progress of the destroying thread when the poster drops its lock. */
static atomic_bool in_lock, destroy_at_lock, destroy_done;
static pthread_t poster;

static void hold_lock(pthread_spinlock_t *lock)
{
	if (lock != posted_lock || !pthread_equal(pthread_self(), poster))
		return;
	atomic_store(&in_lock, true);
	while (!atomic_load(&destroy_at_lock) && !atomic_load(&destroy_done))
		sched_yield();
	CHECK(!atomic_load(&destroy_done));
}

static void note_lock(pthread_spinlock_t *lock)
{
	if (lock == posted_lock && atomic_load(&in_lock))
		atomic_store(&destroy_at_lock, true);
}

static void *destroy_loop(void *arg)
{
	while (!atomic_load(&in_lock))
		sched_yield();
	destroy_queue();
	atomic_store(&destroy_done, true);
	return arg;
}

/* A queue and its record exist as long as a poster holds the queue's lock. */
void test_destroy_waits(void)
{
	struct tern_cq *cq = make_cq(4);
	pthread_t destroyer;
	unsigned int i;

	for (i = 0; i < POSTS; i++) {
		make_posted(i, cq);
		atomic_store(&in_lock, false);
		atomic_store(&destroy_at_lock, false);
		atomic_store(&destroy_done, false);
		poster = pthread_self();
		before_lock = note_lock;
		before_unlock = hold_lock;
		pthread_create(&destroyer, NULL, destroy_loop, NULL);
		CHECK(!posts[i]());
		pthread_join(destroyer, NULL);
		before_lock = NULL;
		before_unlock = NULL;
		CHECK(atomic_load(&destroy_at_lock));
	}
	tern_destroy_cq(&cq->vcq.cq);
}

/*
 * ---- a session creates objects while another thread destroys ones of its CQ
 */

static struct tern_cq *session_cq;
static atomic_bool at_session;

/* The destroying thread is about to wait for the session. */
static void note_session(pthread_spinlock_t *lock)
{
	if (lock == &session_cq->lock.lock &&
	    !pthread_equal(pthread_self(), poster))
		atomic_store(&at_session, true);
}

static void *destroy_once(void *arg)
{
	destroy_queue();
	return arg;
}

static struct tern_srq *make_session_srq(void)
{
	static struct verbs_xrcd xrcd;
	struct ibv_srq_init_attr_ex attr = {
		.attr = { 4, 1, 0 },
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
			     IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
		.srq_type = IBV_SRQT_XRC,
		.pd = &test_pd.ibvpd,
		.xrcd = &xrcd.xrcd,
		.cq = &session_cq->vcq.cq,
	};
	struct ibv_srq *srq = tern_create_srq_ex(&ctx->vctx.context, &attr);

	CHECK(srq);
	return to_tern_srq(srq);
}

/* Starts a session, and waits until another thread waits for it in a destroy. */
static pthread_t begin_and_destroy(void)
{
	struct ibv_cq_ex *cqx = &session_cq->vcq.cq_ex;
	struct ibv_poll_cq_attr attr = {};
	pthread_t destroyer;

	put_cqe(session_cq, tern_cq_ci(session_cq), 0xfff123, 1, 0, 0);
	CHECK(!cqx->start_poll(cqx, &attr));
	poster = pthread_self();
	atomic_store(&at_session, false);
	before_lock = note_session;
	pthread_create(&destroyer, NULL, destroy_once, NULL);
	while (!atomic_load(&at_session))
		sched_yield();
	return destroyer;
}

static void end_session(pthread_t destroyer)
{
	session_cq->vcq.cq_ex.end_poll(&session_cq->vcq.cq_ex);
	pthread_join(destroyer, NULL);
	before_lock = NULL;
}

/* Neither waits for the other, also when the kernel has reused the number. */
void test_session_destroy(void)
{
	struct tern_srq *srq;
	pthread_t destroyer;
	struct tern_qp *qp;
	uint32_t number;
	struct ibv_wc wc;

	session_cq = make_cq(4);
	posted_srq = NULL;
	posted = make_qp(session_cq, session_cq, small_cap);
	number = posted->vqp.qp.qp_num;
	destroyer = begin_and_destroy();
	CHECK(!pthread_mutex_trylock(&ctx->qp_table_mutex));
	pthread_mutex_unlock(&ctx->qp_table_mutex);
	next_qpn = number;
	qp = make_qp(session_cq, session_cq, small_cap);
	CHECK(qp->vqp.qp.qp_num != number);
	put_cqe(session_cq, 1, number, 2, 0, 0);
	put_cqe(session_cq, 2, qp->vqp.qp.qp_num, 3, 0, 0);
	end_session(destroyer);
	CHECK(!tern_find_qp(ctx, number));
	CHECK(tern_poll_cq(&session_cq->vcq.cq, 1, &wc) == 1 && wc.wr_id == 3);
	CHECK(!tern_destroy_qp(&qp->vqp.qp));

	posted_srq = make_session_srq();
	number = posted_srq->srqn;
	destroyer = begin_and_destroy();
	CHECK(!pthread_mutex_trylock(&ctx->xrc_srqs_mutex));
	pthread_mutex_unlock(&ctx->xrc_srqs_mutex);
	next_srqn = number;
	srq = make_session_srq();
	CHECK(srq->srqn != number);
	put_srq_cqe(session_cq, 4, 0xfff123, 4, number);
	put_srq_cqe(session_cq, 5, 0xfff123, 5, srq->srqn);
	end_session(destroyer);
	CHECK(tern_poll_cq(&session_cq->vcq.cq, 1, &wc) == 1 && wc.wr_id == 5);
	CHECK(!tern_destroy_srq(&srq->vsrq.srq));
	tern_destroy_cq(&session_cq->vcq.cq);
}

/* ---- two threads bind one window through two QPs ---- */

static struct tern_qp *binding[2];
static struct ibv_mw *window; /* in a page of its own */
static volatile sig_atomic_t stopped;

/* The first bind is about to change the window: the other thread binds now. */
static void bind_other(int sig)
{
	struct ibv_mw_bind bind = {};

	if (mprotect(window, PAGE, PROT_READ | PROT_WRITE))
		abort();
	stopped++;
	CHECK(!tern_bind_mw(&binding[1]->vqp.qp, window, &bind));
}

static const struct tern_bind_seg *bind_seg(const struct tern_qp *qp)
{
	const struct tern_sq_hdr *hdr = tern_wq_slot(&qp->sq, 0);

	return (const void *)(hdr + 1);
}

/* No two binds start from one key; the window has the last one. */
void test_bind_race(void)
{
	struct sigaction action = { .sa_handler = bind_other }, before;
	struct tern_cq *cq = make_cq(4);
	struct ibv_mw_bind bind = {};
	unsigned int i;

	ctx->caps = TERN_UCTX_CAP_MW;
	for (i = 0; i < 2; i++)
		binding[i] = make_qp(cq, cq, small_cap);
	window = mmap(NULL, PAGE, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(window != MAP_FAILED);
	window->type = IBV_MW_TYPE_1;
	window->rkey = 0x12345678;
	sigaction(SIGSEGV, &action, &before);
	stopped = 0;
	CHECK(!mprotect(window, PAGE, PROT_READ));
	CHECK(!tern_bind_mw(&binding[0]->vqp.qp, window, &bind));
	sigaction(SIGSEGV, &before, NULL);
	CHECK(stopped == 1);

	CHECK(le32toh(bind_seg(binding[1])->rkey) == 0x12345678);
	CHECK(le32toh(bind_seg(binding[1])->new_rkey) == 0x12345679);
	CHECK(le32toh(bind_seg(binding[0])->rkey) == 0x12345679);
	CHECK(le32toh(bind_seg(binding[0])->new_rkey) == 0x1234567a);
	CHECK(window->rkey == 0x1234567a);

	munmap(window, PAGE);
	for (i = 0; i < 2; i++)
		tern_destroy_qp(&binding[i]->vqp.qp);
	tern_destroy_cq(&cq->vcq.cq);
}
