// SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause)
/* Tag matching: operations on the tags of an SRQ, and its completions. */

#include <ccan/ilog.h>
#include <stdlib.h>
#include <string.h>

#include "wqe.h"

/* The operations of an SRQ with tags. */
struct tern_tm {
	struct tern_buf buf;
	struct tern_tm_op *ops;
	uint32_t mask; /* slots - 1 */
	uint32_t max_tags;
	struct tern_spinlock lock; /* protects the members below */
	uint32_t head; /* operations posted */
	uint32_t added; /* tags posted; also the handle of the next one */
};

/* The kernel knows how many tags there may be. */
bool tern_tm_cap_ok(const struct ibv_tm_cap *cap)
{
	return cap->max_num_tags && cap->max_ops &&
	       cap->max_ops <= 1U << TERN_TM_MAX_LOG_OPS;
}

/* Allocates the ring, which tern_tm_free() frees, and describes it in req. */
int tern_tm_alloc(struct ibv_context *ibvctx, struct tern_srq *srq,
		  const struct ibv_tm_cap *cap,
		  struct tern_ureq_create_srq *req)
{
	struct tern_tm *tm;
	int err;

	tm = calloc(1, sizeof(*tm));
	if (!tm)
		return ENOMEM;

	tm->max_tags = cap->max_num_tags;
	tm->mask = roundup_pow_of_two(cap->max_ops) - 1;
	err = tern_alloc_buf(ibvctx, srq->pd, &tm->buf,
			     (tm->mask + 1) * sizeof(struct tern_tm_op),
			     TERN_RES_SRQ);
	if (err) {
		free(tm);
		return err;
	}

	tm->ops = tm->buf.addr;
	tern_spin_init(&tm->lock, true);
	req->ops_addr = (uintptr_t)tm->buf.addr;
	req->ops_len = tm->buf.len;
	req->log_ops = ilog32(tm->mask + 1) - 1;
	srq->tm = tm;

	return 0;
}

void tern_tm_free(struct tern_srq *srq)
{
	struct tern_tm *tm = srq->tm;

	if (!tm)
		return;

	tern_spin_drain(&tm->lock);
	tern_spin_destroy(&tm->lock);
	tern_free_buf(&tm->buf);
	free(tm);
	srq->tm = NULL;
}

/* Makes the checks of ibv_post_srq_ops(3) before anything is written. */
static int tern_tm_check(const struct tern_srq *srq,
			 const struct ibv_ops_wr *wr)
{
	const struct tern_tm *tm = srq->tm;

	if (wr->flags & ~(IBV_OPS_SIGNALED | IBV_OPS_TM_SYNC))
		return EINVAL;

	if (tm->head - tern_shared_read(&srq->record->ops_ci) > tm->mask)
		return ENOMEM;
	/* The device copied the operations below ops_ci before it stored it. */
	udma_ordering_read_barrier();

	switch (wr->opcode) {
	case IBV_WR_TAG_ADD:
		if ((uint32_t)wr->tm.add.num_sge > TERN_TM_MAX_SGE)
			return EINVAL;
		if (tm->added - tern_shared_read(&srq->record->tags_released) >=
		    tm->max_tags)
			return ENOMEM;
		return 0;
	case IBV_WR_TAG_DEL:
	case IBV_WR_TAG_SYNC:
		return 0;
	default:
		return EINVAL;
	}
}

static void tern_tm_fill_add(struct tern_tm_op *op, const struct ibv_ops_wr *wr)
{
	const struct ibv_sge *sge = wr->tm.add.sg_list;
	int i;

	op->opcode = TERN_TM_ADD;
	op->num_sge = wr->tm.add.num_sge;
	op->recv_wr_id = htole64(wr->tm.add.recv_wr_id);
	op->tag = htole64(wr->tm.add.tag);
	op->mask = htole64(wr->tm.add.mask);
	for (i = 0; i < wr->tm.add.num_sge; i++) {
		op->sge[i].addr = htole64(sge[i].addr);
		op->sge[i].length = htole32(sge[i].length);
		op->sge[i].lkey = htole32(sge[i].lkey);
	}
}

static void tern_tm_fill(struct tern_tm *tm, struct ibv_ops_wr *wr)
{
	struct tern_tm_op *op = &tm->ops[tm->head & tm->mask];

	memset(op, 0, offsetof(struct tern_tm_op, sge));
	switch (wr->opcode) {
	case IBV_WR_TAG_ADD:
		tern_tm_fill_add(op, wr);
		wr->tm.handle = tm->added++;
		break;
	case IBV_WR_TAG_DEL:
		op->opcode = TERN_TM_DEL;
		break;
	default:
		op->opcode = TERN_TM_SYNC;
		break;
	}

	op->handle = htole32(wr->tm.handle);
	op->wr_id = htole64(wr->wr_id);
	if (wr->flags & IBV_OPS_SIGNALED)
		op->flags |= TERN_TM_F_SIGNALED;
	if (wr->flags & IBV_OPS_TM_SYNC) {
		op->flags |= TERN_TM_F_SYNC;
		op->unexpected = htole32(wr->tm.unexpected_cnt);
	}
	tm->head++;
}

/*
 * ibv_post_srq_ops(3): EINVAL for another SRQ or an invalid operation, ENOMEM if
 * too many operations are outstanding or the SRQ holds all the tags it can.
 */
int tern_post_srq_ops(struct ibv_srq *ibvsrq, struct ibv_ops_wr *wr,
		      struct ibv_ops_wr **bad_wr)
{
	struct tern_srq *srq = to_tern_srq(ibvsrq);
	struct tern_tm *tm = srq->tm;
	uint32_t before;
	int err = 0;

	if (!tm) {
		*bad_wr = wr;
		return EINVAL;
	}

	tern_spin_lock(&tm->lock);
	before = tm->head;
	for (; wr; wr = wr->next) {
		err = tern_tm_check(srq, wr);
		if (unlikely(err)) {
			*bad_wr = wr;
			break;
		}

		tern_tm_fill(tm, wr);
	}

	if (tm->head != before) {
		/* Write the operations before the index. */
		udma_to_device_barrier();
		tern_shared_write(&srq->record->ops_pi, tm->head);
		/* Write the index before the kick. */
		udma_to_device_barrier();
		tern_ring(to_tern_ctx(ibvsrq->context), TERN_DB_CMD_TM,
			  srq->srqn);
	}
	tern_spin_unlock(&tm->lock);

	return err;
}

enum ibv_wc_opcode tern_tm_wc_opcode(const struct tern_cqe *cqe)
{
	switch (cqe->opcode) {
	case TERN_TM_CQE_ADD:
		return IBV_WC_TM_ADD;
	case TERN_TM_CQE_DEL:
		return IBV_WC_TM_DEL;
	case TERN_TM_CQE_SYNC:
		return IBV_WC_TM_SYNC;
	case TERN_RECV_TM_NO_TAG:
		return IBV_WC_TM_NO_TAG;
	default:
		return IBV_WC_TM_RECV;
	}
}

/* The flags that only tag matching has. */
unsigned int tern_tm_wc_flags(const struct tern_cqe *cqe)
{
	unsigned int flags = 0;

	if (cqe->flags & TERN_CQE_F_TM_SYNC_REQ)
		flags |= IBV_WC_TM_SYNC_REQ;
	if (cqe->flags & TERN_CQE_F_TM_MATCH)
		flags |= IBV_WC_TM_MATCH;
	if (cqe->flags & TERN_CQE_F_TM_DATA_VALID)
		flags |= IBV_WC_TM_DATA_VALID;

	return flags;
}

/* ibv_create_cq_ex(3): zeros unless the completion reports a match. */
void tern_read_tm_info(struct ibv_cq_ex *ibvcq, struct ibv_wc_tm_info *info)
{
	const struct tern_cqe *cqe = &to_tern_cq_ex(ibvcq)->cur;
	struct tern_tm_cqe match;

	memset(info, 0, sizeof(*info));
	if (!tern_cqe_is_tm(cqe) || !(cqe->flags & TERN_CQE_F_TM_MATCH))
		return;

	memcpy(&match, cqe, sizeof(match));
	info->tag = le64toh(match.tag);
	info->priv = le32toh(match.app_ctx);
}
