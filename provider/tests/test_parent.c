// SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause)
/* Parent domains: life time, allocators, and thread domains without locks. */

#include <errno.h>

#include "fixture.h"

#define MAX_ALLOCS 16

/* What an allocator was asked for, and not yet asked to free. */
static struct {
	void *addr;
	size_t size;
	uint64_t type;
} allocs[MAX_ALLOCS];
static unsigned int num_allocs, alloc_calls;
static bool use_default;
static unsigned int allocs_left; /* before the allocator fails */
static struct ibv_pd *parent;
static int context;

static void *allocate(struct ibv_pd *pd, void *pd_context, size_t size,
		      size_t alignment, uint64_t type)
{
	void *addr;

	CHECK(pd == parent && pd_context == &context);
	CHECK(type >> 32 == RDMA_DRIVER_TERN);
	CHECK(!(alignment & (alignment - 1)) && size % alignment == 0);
	alloc_calls++;
	if (use_default)
		return IBV_ALLOCATOR_USE_DEFAULT;
	if (!allocs_left)
		return NULL;
	allocs_left--;
	CHECK(num_allocs < MAX_ALLOCS);
	addr = aligned_alloc(alignment, size);
	CHECK(addr);
	memset(addr, 0, size);
	allocs[num_allocs].addr = addr;
	allocs[num_allocs].size = size;
	allocs[num_allocs++].type = type;
	return addr;
}

static void release(struct ibv_pd *pd, void *pd_context, void *ptr,
		    uint64_t type)
{
	unsigned int i;

	CHECK(pd == parent && pd_context == &context);
	for (i = 0; i < num_allocs && allocs[i].addr != ptr; i++)
		;
	CHECK(i < num_allocs && allocs[i].type == type);
	free(ptr);
	allocs[i] = allocs[--num_allocs];
}

static struct ibv_parent_domain_init_attr parent_attr(struct ibv_td *td)
{
	return (struct ibv_parent_domain_init_attr) {
		.pd = &test_pd.ibvpd,
		.td = td,
		.comp_mask = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS |
			     IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT,
		.alloc = allocate,
		.free = release,
		.pd_context = &context,
	};
}

static void make_parent(struct ibv_td *td)
{
	struct ibv_parent_domain_init_attr attr = parent_attr(td);

	use_default = false;
	allocs_left = MAX_ALLOCS;
	num_allocs = 0;
	alloc_calls = 0;
	parent = tern_alloc_parent_domain(&ctx->vctx.context, &attr);
	CHECK(parent && parent->context == &ctx->vctx.context);
	CHECK(parent->handle == test_pd.ibvpd.handle);
}

static struct ibv_td *make_td(void)
{
	struct ibv_td_init_attr attr = {};
	struct ibv_td *td = tern_alloc_td(&ctx->vctx.context, &attr);

	CHECK(td && td->context == &ctx->vctx.context);
	return td;
}

static struct ibv_cq_ex *create_cq(uint32_t comp_mask, struct ibv_pd *pd)
{
	struct ibv_cq_init_attr_ex attr = {
		.cqe = 16,
		.wc_flags = IBV_WC_STANDARD_FLAGS,
		.comp_mask = comp_mask,
		.parent_domain = pd,
	};

	return tern_create_cq_ex(&ctx->vctx.context, &attr);
}

static struct tern_cq *make_parent_cq(void)
{
	struct ibv_cq_ex *cq = create_cq(IBV_CQ_INIT_ATTR_MASK_PD, parent);

	CHECK(cq);
	return to_tern_cq_ex(cq);
}

static struct tern_qp *make_parent_qp(struct tern_cq *cq)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = &cq->vcq.cq,
		.recv_cq = &cq->vcq.cq,
		.cap = small_cap,
		.qp_type = IBV_QPT_RC,
	};
	struct ibv_qp *qp = tern_create_qp(parent, &attr);

	if (!qp)
		return NULL;
	qp->state = IBV_QPS_RTS;
	return to_tern_qp(qp);
}

static struct tern_srq *make_parent_srq(void)
{
	struct ibv_srq_init_attr attr = { .attr = { 8, 1, 0 } };
	struct ibv_srq *srq = tern_create_srq(parent, &attr);

	CHECK(srq);
	return to_tern_srq(srq);
}

/* Whether the allocator's live memory of the type has the address. */
static bool allocated(const void *addr, enum tern_res_type type)
{
	unsigned int i;

	for (i = 0; i < num_allocs; i++)
		if (allocs[i].addr == addr)
			return allocs[i].type == TERN_RESOURCE(type);
	return false;
}

void test_parent_objects(void)
{
	struct ibv_context *ibvctx = &ctx->vctx.context;
	struct ibv_pd *base = tern_alloc_pd(ibvctx), *imported;
	struct ibv_td *td = make_td();
	struct ibv_parent_domain_init_attr attr = { .pd = base, .td = td };
	struct ibv_pd *pd, *grandchild;
	unsigned int calls;

	base->handle = 33;
	pd = tern_alloc_parent_domain(ibvctx, &attr);
	CHECK(pd && pd->handle == 33 && pd->context == ibvctx);
	attr = (struct ibv_parent_domain_init_attr) { .pd = pd };
	grandchild = tern_alloc_parent_domain(ibvctx, &attr);
	CHECK(grandchild && grandchild->handle == 33);

	/* Each is in use by the next, and the kernel is not asked. */
	calls = memory_calls;
	CHECK(tern_dealloc_pd(base) == EBUSY);
	CHECK(tern_dealloc_pd(pd) == EBUSY);
	CHECK(tern_dealloc_td(td) == EBUSY);
	CHECK(!tern_dealloc_pd(grandchild));
	CHECK(tern_dealloc_td(td) == EBUSY);
	CHECK(!tern_dealloc_pd(pd) && !tern_dealloc_td(td));
	CHECK(memory_calls == calls);

	/* A PD that the kernel does not free stays. */
	memory_err = EBUSY;
	CHECK(tern_dealloc_pd(base) == EBUSY);
	memory_err = 0;
	CHECK(!tern_dealloc_pd(base) && memory_calls == calls + 2);

	/* Nobody may say no to the end of an import. */
	imported = tern_import_pd(ibvctx, 34);
	attr = (struct ibv_parent_domain_init_attr) { .pd = imported };
	pd = tern_alloc_parent_domain(ibvctx, &attr);
	CHECK(pd && pd->handle == 34);
	tern_unimport_pd(imported);
	CHECK(!tern_dealloc_pd(pd));
}

void test_parent_refused(void)
{
	struct ibv_context *ibvctx = &ctx->vctx.context;
	struct ibv_td_init_attr td_attr = { .comp_mask = 1 };
	struct ibv_parent_domain_init_attr attr;
	struct tern_td foreign = {};

	CHECK(!tern_alloc_td(ibvctx, &td_attr) && errno == EINVAL);

#define REFUSED(change)                                                        \
	do {                                                                   \
		attr = parent_attr(NULL);                                      \
		change;                                                        \
		errno = 0;                                                     \
		CHECK(!tern_alloc_parent_domain(ibvctx, &attr));               \
		CHECK(errno == EINVAL);                                        \
	} while (0)

	REFUSED(attr.pd = NULL);
	REFUSED(attr.alloc = NULL);
	REFUSED(attr.free = NULL);
	REFUSED(attr.comp_mask |= 1 << 8);
	REFUSED(attr.td = &foreign.ibvtd);
	CHECK(!foreign.users && test_pd.refs == 1);

	/* A CQ has no use for a PD that is none. */
	CHECK(!create_cq(IBV_CQ_INIT_ATTR_MASK_PD, NULL) && errno == EINVAL);
	CHECK(!create_cq(IBV_CQ_INIT_ATTR_MASK_PD, &test_pd.ibvpd) &&
	      errno == EINVAL);
	CHECK(!create_cq(1 << 8, NULL) && errno == EOPNOTSUPP);
}

static int switch_cq(uint32_t *first_index)
{
	*first_index = 0;
	return 0;
}

/* Every buffer and record comes from the allocator, and goes back to it. */
void test_parent_buffers(void)
{
	struct ibv_srq_attr srq_attr = { .max_wr = 4096 };
	struct tern_srq *srq;
	struct tern_cq *cq;
	struct tern_qp *qp;
	int forks = dontfork_ranges;

	make_parent(NULL);
	cq = make_parent_cq();
	CHECK(allocated(cq->buf.addr, TERN_RES_CQ));
	CHECK(allocated(cq->record, TERN_RES_RECORD));
	CHECK(last_cq.buf_addr == (uintptr_t)cq->buf.addr);
	CHECK(last_cq.record_addr == (uintptr_t)cq->record);
	qp = make_parent_qp(cq);
	CHECK(qp && allocated(qp->buf.addr, TERN_RES_QP));
	CHECK(allocated(qp->record, TERN_RES_RECORD));
	CHECK(last_qp.buf_addr == (uintptr_t)qp->buf.addr);
	srq = make_parent_srq();
	CHECK(allocated(srq->buf.addr, TERN_RES_SRQ));
	CHECK(allocated(srq->record, TERN_RES_RECORD));
	CHECK(num_allocs == 6 && dontfork_ranges == forks);
	CHECK(cq->lock.need_lock && cq->arm_lock.need_lock &&
	      qp->sq.lock.need_lock && qp->rq.lock.need_lock &&
	      srq->wq.lock.need_lock);

	/* A resize asks again. */
	on_resize_cq = switch_cq;
	CHECK(!tern_resize_cq(&cq->vcq.cq, 1024));
	CHECK(allocated(cq->buf.addr, TERN_RES_CQ));
	CHECK(!tern_modify_srq(&srq->vsrq.srq, &srq_attr, IBV_SRQ_MAX_WR));
	CHECK(allocated(srq->buf.addr, TERN_RES_SRQ));
	CHECK(num_allocs == 6 && alloc_calls == 8);
	on_resize_cq = NULL;

	/* The allocator has to stay as long as there is something to free. */
	CHECK(tern_dealloc_pd(parent) == EBUSY);
	tern_destroy_qp(&qp->vqp.qp);
	CHECK(tern_dealloc_pd(parent) == EBUSY);
	tern_destroy_srq(&srq->vsrq.srq);
	CHECK(tern_dealloc_pd(parent) == EBUSY);
	tern_destroy_cq(&cq->vcq.cq);
	CHECK(!num_allocs && !tern_dealloc_pd(parent));
}

void test_parent_allocators(void)
{
	struct tern_cq *cq;
	struct tern_qp *qp;
	unsigned int i;

	/* USE_DEFAULT: asked, but nothing to free. */
	make_parent(NULL);
	use_default = true;
	cq = make_parent_cq();
	qp = make_parent_qp(cq);
	CHECK(qp && alloc_calls == 4 && !num_allocs);
	tern_destroy_qp(&qp->vqp.qp);
	tern_destroy_cq(&cq->vcq.cq);

	/* NULL: the verb fails and what it had is freed. */
	use_default = false;
	for (i = 0; i < 2; i++) {
		allocs_left = i;
		CHECK(!create_cq(IBV_CQ_INIT_ATTR_MASK_PD, parent));
		CHECK(errno == ENOMEM && !num_allocs);
	}
	cq = make_cq(16);
	for (i = 0; i < 2; i++) {
		allocs_left = i;
		CHECK(!make_parent_qp(cq) && errno == ENOMEM && !num_allocs);
	}

	/* So does a command that the kernel refuses. */
	allocs_left = MAX_ALLOCS;
	create_err = EPERM;
	CHECK(!make_parent_qp(cq) && errno == EPERM && !num_allocs);
	CHECK(!create_cq(IBV_CQ_INIT_ATTR_MASK_PD, parent) && errno == EPERM);
	create_err = 0;
	CHECK(!num_allocs && !tern_dealloc_pd(parent));
	tern_destroy_cq(&cq->vcq.cq);
}

static unsigned int locks_taken;

static void count_lock(pthread_spinlock_t *lock)
{
	locks_taken++;
}

/* Posts, polls and arms everything once. Returns how many locks that took. */
static unsigned int locks_of_data_path(void)
{
	struct ibv_recv_wr recv = {}, *bad_recv;
	struct ibv_send_wr send = { .opcode = IBV_WR_SEND }, *bad_send;
	struct ibv_poll_cq_attr attr = {};
	struct tern_srq *srq = make_parent_srq();
	struct tern_cq *cq = make_parent_cq();
	struct tern_qp *qp = make_parent_qp(cq);
	struct ibv_cq_ex *cqx = &cq->vcq.cq_ex;
	struct ibv_wc wc;

	tern_qp_fill_wr_pfns(qp, IBV_QP_EX_WITH_SEND);
	locks_taken = 0;
	before_lock = count_lock;
	CHECK(!tern_post_send(&qp->vqp.qp, &send, &bad_send));
	CHECK(!tern_post_recv(&qp->vqp.qp, &recv, &bad_recv));
	CHECK(!tern_post_srq_recv(&srq->vsrq.srq, &recv, &bad_recv));
	qp->vqp.qp_ex.wr_start(&qp->vqp.qp_ex);
	qp->vqp.qp_ex.wr_send(&qp->vqp.qp_ex);
	CHECK(!qp->vqp.qp_ex.wr_complete(&qp->vqp.qp_ex));
	qp->vqp.qp_ex.wr_start(&qp->vqp.qp_ex);
	qp->vqp.qp_ex.wr_abort(&qp->vqp.qp_ex);
	put_cqe(cq, 0, qp->vqp.qp.qp_num, 1, 0, 0);
	put_cqe(cq, 1, qp->vqp.qp.qp_num, 2, 1, 0);
	CHECK(tern_poll_cq(&cq->vcq.cq, 1, &wc) == 1 && wc.wr_id == 1);
	CHECK(!cqx->start_poll(cqx, &attr) && cqx->wr_id == 2);
	CHECK(cqx->next_poll(cqx) == ENOENT);
	cqx->end_poll(cqx);
	CHECK(cqx->start_poll(cqx, &attr) == ENOENT);
	CHECK(!tern_req_notify_cq(&cq->vcq.cq, 0));
	before_lock = NULL;

	CHECK(sq_pi(qp) == 2 && atomic_load(&qp->sq_tail) == 2);
	CHECK(tern_shared_read(&qp->record->rq_pi) == 1);
	CHECK(tern_shared_read(&srq->record->pi) == 1);
	tern_destroy_qp(&qp->vqp.qp);
	tern_destroy_srq(&srq->vsrq.srq);
	tern_destroy_cq(&cq->vcq.cq);
	last_kick();
	return locks_taken;
}

/* A thread domain takes the locks away, and nothing else does. */
void test_parent_locks(void)
{
	const struct verbs_context_ops *ops = context_ops;
	struct ibv_td *td = make_td();

	/* Other threads may post: the context's operations stay as they are. */
	CHECK(context_ops == ops);
	make_parent(NULL);
	CHECK(locks_of_data_path() == 9);
	CHECK(!tern_dealloc_pd(parent));
	make_parent(td);
	CHECK(locks_of_data_path() == 0);
	CHECK(!tern_dealloc_pd(parent) && !tern_dealloc_td(td));
}
