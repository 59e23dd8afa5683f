// SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause)
/* Direct verbs: terndv.h. */

#include <ccan/array_size.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <infiniband/cmd_ioctl.h>

#include "tern.h"
#include "tern_dm_op.h"
#include "terndv.h"

static_assert((uint32_t)TERNDV_DM_OP_ADD == TERN_DM_OP_ADD, "ADD");
static_assert((uint32_t)TERNDV_DM_OP_OR == TERN_DM_OP_OR, "OR");
static_assert((uint32_t)TERNDV_DM_OP_CLEAR == TERN_DM_OP_CLEAR, "CLEAR");
static_assert((int)TERNDV_KEY_VALID == (int)TERN_KEY_STATE_VALID, "VALID");

/* Mapping of an operation page, until its device memory is freed. */
struct tern_dm_op {
	struct list_node entry; /* in tern_dm.ops */
	void *addr;
	uint64_t offset;
	uint8_t op;
};

/* terndv_is_supported(3). */
bool terndv_is_supported(struct ibv_device *ibvdev)
{
	return tern_is_tern(ibvdev);
}

/* terndv_query_device(3). */
int terndv_query_device(struct ibv_context *ibvctx,
			struct terndv_context *attrs)
{
	static const struct {
		uint32_t cap;
		uint32_t flag;
	} flags[] = {
		{ TERN_UCTX_CAP_ATOMIC_WRITE,
		  TERNDV_CONTEXT_FLAGS_ATOMIC_WRITE },
		{ TERN_UCTX_CAP_FLUSH, TERNDV_CONTEXT_FLAGS_FLUSH },
		{ TERN_UCTX_CAP_MW, TERNDV_CONTEXT_FLAGS_MW },
		{ TERN_UCTX_CAP_MW_2A, TERNDV_CONTEXT_FLAGS_MW_2A },
		{ TERN_UCTX_CAP_TIMESTAMP, TERNDV_CONTEXT_FLAGS_TIMESTAMP },
		{ TERN_UCTX_CAP_SEND_INV, TERNDV_CONTEXT_FLAGS_SEND_INV },
		{ TERN_UCTX_CAP_RAW_OFFLOAD, TERNDV_CONTEXT_FLAGS_RAW_OFFLOAD },
		{ TERN_UCTX_CAP_RSS, TERNDV_CONTEXT_FLAGS_RSS },
		{ TERN_UCTX_CAP_UDP_SPORT, TERNDV_CONTEXT_FLAGS_UDP_SPORT },
	};
	struct tern_context *ctx;
	uint64_t wanted;
	unsigned int i;

	if (!tern_is_tern(ibvctx->device))
		return EOPNOTSUPP;

	ctx = to_tern_ctx(ibvctx);
	wanted = attrs->comp_mask;
	attrs->comp_mask = wanted & TERNDV_CONTEXT_MASK_DM_OPS;
	attrs->version = 0;
	attrs->flags = 0;
	for (i = 0; i < ARRAY_SIZE(flags); i++)
		if (ctx->caps & flags[i].cap)
			attrs->flags |= flags[i].flag;
	attrs->max_send_wr = ctx->max_send_wr;
	attrs->max_recv_wr = ctx->max_recv_wr;
	attrs->max_srq_wr = ctx->max_srq_wr;
	attrs->max_cqe = ctx->max_cqe;
	attrs->max_send_sge = ctx->max_send_sge;
	attrs->max_recv_sge = ctx->max_recv_sge;
	attrs->max_inline_data = ctx->max_inline;
	if (attrs->comp_mask & TERNDV_CONTEXT_MASK_DM_OPS)
		attrs->dm_ops = ctx->caps & TERN_UCTX_CAP_DM_OPS ?
					BIT(TERN_DM_OP_NUM) - 1 : 0;

	return 0;
}

/* ---- terndv_init_obj(3) ---- */

/*
 * A program may have been built with a shorter structure than the library: each
 * field is stored by itself, and one that is added later only if the program
 * sets its bit in comp_mask. There are none yet, so no bit stays set.
 *
 * The structure of a queue is part of others and cannot grow. Its index is at
 * offset pi of the record: the program may have posted by itself already.
 */
static void tern_dv_queue(const struct tern_wq *wq, const void *record,
			  size_t pi, struct terndv_queue *out)
{
	*out = (struct terndv_queue) {};
	if (!wq->slots)
		return;

	out->buf = wq->slots;
	out->wqe_cnt = tern_wq_num(wq);
	out->stride = 1U << wq->log_stride;
	out->pi = tern_shared_read(record + pi);
}

static void *tern_dv_doorbell(struct ibv_context *ibvctx)
{
	return to_tern_ctx(ibvctx)->uar + TERN_UAR_DB;
}

/* Whether the object is one of this provider, and has a structure. */
static int tern_dv_check(const struct ibv_context *ibvctx, const void *out)
{
	if (!ibvctx || !out)
		return EINVAL;

	return tern_is_tern(ibvctx->device) ? 0 : EOPNOTSUPP;
}

static int tern_dv_init_qp(struct ibv_qp *ibvqp, struct terndv_qp *out)
{
	struct tern_qp *qp;
	int err;

	err = tern_dv_check(ibvqp ? ibvqp->context : NULL, out);
	if (err)
		return err;

	qp = to_tern_qp(ibvqp);
	out->comp_mask = 0;
	out->record = qp->record;
	out->doorbell = tern_dv_doorbell(ibvqp->context);
	/* The send queue of a QP that fetches is the device's. */
	if (qp->fetches)
		out->sq = (struct terndv_queue) {};
	else
		tern_dv_queue(&qp->sq, qp->record,
			      offsetof(struct tern_qp_record, sq_pi), &out->sq);
	tern_dv_queue(&qp->rq, qp->record,
		      offsetof(struct tern_qp_record, rq_pi), &out->rq);
	out->max_inline_data = qp->max_inline;
	out->reserved = 0;
	return 0;
}

static int tern_dv_init_cq(struct ibv_cq *ibvcq, struct terndv_cq *out)
{
	struct tern_cq *cq;
	int err;

	err = tern_dv_check(ibvcq ? ibvcq->context : NULL, out);
	if (err)
		return err;

	cq = to_tern_cq(ibvcq);
	tern_spin_lock(&cq->lock);
	cq->direct = true;
	out->comp_mask = 0;
	out->record = cq->record;
	out->doorbell = tern_dv_doorbell(ibvcq->context);
	out->buf = cq->cqes;
	out->cqe_cnt = cq->mask + 1;
	out->cqn = cq->cqn;
	out->ci = tern_cq_consumed(cq);
	out->base = cq->base;
	out->arm_seq = atomic_load(&cq->arm_seq);
	out->reserved = 0;
	tern_spin_unlock(&cq->lock);
	return 0;
}

static int tern_dv_init_srq(struct ibv_srq *ibvsrq, struct terndv_srq *out)
{
	struct tern_srq *srq;
	int err;

	err = tern_dv_check(ibvsrq ? ibvsrq->context : NULL, out);
	if (err)
		return err;

	srq = to_tern_srq(ibvsrq);
	out->comp_mask = 0;
	out->record = srq->record;
	tern_dv_queue(&srq->wq, srq->record,
		      offsetof(struct tern_srq_record, pi), &out->rq);
	out->srqn = srq->srqn;
	out->reserved = 0;
	return 0;
}

static int tern_dv_init_wq(struct ibv_wq *ibvwq, struct terndv_wq *out)
{
	struct tern_qp *qp;
	int err;

	err = tern_dv_check(ibvwq ? ibvwq->context : NULL, out);
	if (err)
		return err;

	qp = &to_tern_rwq(ibvwq)->qp;
	out->comp_mask = 0;
	out->record = qp->record;
	out->doorbell = tern_dv_doorbell(ibvwq->context);
	tern_dv_queue(&qp->rq, qp->record,
		      offsetof(struct tern_qp_record, rq_pi), &out->rq);
	out->wqn = ibvwq->wq_num;
	out->reserved = 0;
	return 0;
}

static int tern_dv_init_dm(struct ibv_dm *ibvdm, struct terndv_dm *out)
{
	const struct tern_dm *dm;
	int err;

	err = tern_dv_check(ibvdm ? ibvdm->context : NULL, out);
	if (err)
		return err;

	dm = to_tern_dm(ibvdm);
	out->comp_mask = 0;
	out->buf = dm->addr;
	out->length = dm->length;
	return 0;
}

static int tern_dv_init_ah(struct ibv_ah *ibvah, struct terndv_ah *out)
{
	int err;

	err = tern_dv_check(ibvah ? ibvah->context : NULL, out);
	if (err)
		return err;

	out->comp_mask = 0;
	out->av = &to_tern_ah(ibvah)->av;
	return 0;
}

/*
 * Each object is initialized only if it is requested. Returns 0, EINVAL without
 * an object or a structure for it, EOPNOTSUPP for another driver's object.
 */
int terndv_init_obj(struct terndv_obj *obj, uint64_t obj_type)
{
	int err = 0;

	if (!check_comp_mask(obj_type, TERNDV_OBJ_QP | TERNDV_OBJ_CQ |
				       TERNDV_OBJ_SRQ | TERNDV_OBJ_WQ |
				       TERNDV_OBJ_DM | TERNDV_OBJ_AH))
		return EOPNOTSUPP;

	if (obj_type & TERNDV_OBJ_QP)
		err = tern_dv_init_qp(obj->qp.in, obj->qp.out);
	if (!err && (obj_type & TERNDV_OBJ_CQ))
		err = tern_dv_init_cq(obj->cq.in, obj->cq.out);
	if (!err && (obj_type & TERNDV_OBJ_SRQ))
		err = tern_dv_init_srq(obj->srq.in, obj->srq.out);
	if (!err && (obj_type & TERNDV_OBJ_WQ))
		err = tern_dv_init_wq(obj->wq.in, obj->wq.out);
	if (!err && (obj_type & TERNDV_OBJ_DM))
		err = tern_dv_init_dm(obj->dm.in, obj->dm.out);
	if (!err && (obj_type & TERNDV_OBJ_AH))
		err = tern_dv_init_ah(obj->ah.in, obj->ah.out);

	return err;
}

/* Executes a method of the driver. */
static int tern_dv_ioctl(struct ibv_context *ibvctx,
			 struct ibv_command_buffer *cmd)
{
	return tern_method_err(execute_ioctl(ibvctx, cmd));
}

/* ---- device memory ---- */

/* Gets the page's offset in the file from the kernel, and maps it. */
static int tern_dm_op_map(struct ibv_dm *ibvdm, struct tern_dm_op *dm_op)
{
	DECLARE_COMMAND_BUFFER(cmd, UVERBS_OBJECT_DM, TERN_IB_METHOD_DM_MAP_OP,
			       4);
	struct tern_uresp_alloc_dm resp;
	int err;

	fill_attr_in_obj(cmd, TERN_IB_ATTR_MAP_DM_OP_DM,
			 to_tern_dm(ibvdm)->vdm.handle);
	fill_attr_in(cmd, TERN_IB_ATTR_MAP_DM_OP_OP, &dm_op->op,
		     sizeof(dm_op->op));
	fill_attr_in_uint64(cmd, TERN_IB_ATTR_MAP_DM_OP_OFFSET, dm_op->offset);
	fill_attr_out_ptr(cmd, TERN_IB_ATTR_MAP_DM_OP_RESP, &resp);
	err = tern_dv_ioctl(ibvdm->context, cmd);
	if (err)
		return err;

	dm_op->addr = mmap(NULL, resp.mmap_size, PROT_READ | PROT_WRITE,
			   MAP_SHARED, ibvdm->context->cmd_fd,
			   resp.mmap_offset);
	return dm_op->addr == MAP_FAILED ? errno : 0;
}

/* Returns the mapping of the page at offset, NULL and errno if there is none. */
static struct tern_dm_op *tern_dm_op_get(struct ibv_dm *ibvdm, uint8_t op,
					 uint64_t offset)
{
	struct tern_dm *dm = to_tern_dm(ibvdm);
	struct tern_dm_op *dm_op;
	int err;

	list_for_each(&dm->ops, dm_op, entry)
		if (dm_op->op == op && dm_op->offset == offset)
			return dm_op;

	dm_op = calloc(1, sizeof(*dm_op));
	if (!dm_op)
		return NULL;

	dm_op->op = op;
	dm_op->offset = offset;
	err = tern_dm_op_map(ibvdm, dm_op);
	if (err) {
		free(dm_op);
		errno = err;
		return NULL;
	}

	list_add(&dm->ops, &dm_op->entry);
	return dm_op;
}

/* terndv_dm_map_op_addr(3). */
void *terndv_dm_map_op_addr(struct ibv_dm *ibvdm, uint8_t op, uint64_t offset)
{
	uint64_t in_page, page_size;
	struct tern_dm_op *dm_op;
	struct tern_dm *dm;

	if (!tern_is_tern(ibvdm->context->device)) {
		errno = EOPNOTSUPP;
		return NULL;
	}

	dm = to_tern_dm(ibvdm);
	if (offset >= dm->length || offset % sizeof(uint32_t)) {
		errno = EINVAL;
		return NULL;
	}

	page_size = to_tern_dev(ibvdm->context->device)->page_size;
	in_page = offset & (page_size - 1);
	pthread_mutex_lock(&dm->ops_mutex);
	dm_op = tern_dm_op_get(ibvdm, op, offset - in_page);
	pthread_mutex_unlock(&dm->ops_mutex);

	return dm_op ? dm_op->addr + in_page : NULL;
}

void tern_dm_init_ops(struct tern_dm *dm)
{
	pthread_mutex_init(&dm->ops_mutex, NULL);
	list_head_init(&dm->ops);
}

/* Unmaps the operation pages. */
void tern_dm_uninit_ops(struct tern_device *dev, struct tern_dm *dm)
{
	struct tern_dm_op *dm_op, *next;

	list_for_each_safe(&dm->ops, dm_op, next, entry) {
		munmap(dm_op->addr, dev->page_size);
		free(dm_op);
	}
	pthread_mutex_destroy(&dm->ops_mutex);
}

/* ---- QPs and keys ---- */

/* terndv_modify_qp_udp_sport(3). */
int terndv_modify_qp_udp_sport(struct ibv_qp *ibvqp, uint16_t udp_sport)
{
	DECLARE_COMMAND_BUFFER(cmd, UVERBS_OBJECT_QP,
			       TERN_IB_METHOD_QP_SET_SPORT, 2);

	if (!tern_is_tern(ibvqp->context->device))
		return EOPNOTSUPP;

	fill_attr_in_obj(cmd, TERN_IB_ATTR_SET_SPORT_QP, ibvqp->handle);
	fill_attr_in(cmd, TERN_IB_ATTR_SET_SPORT_PORT, &udp_sport,
		     sizeof(udp_sport));

	return tern_dv_ioctl(ibvqp->context, cmd);
}

/* terndv_query_qp_udp_sport(3). */
int terndv_query_qp_udp_sport(struct ibv_qp *ibvqp, uint16_t *udp_sport)
{
	DECLARE_COMMAND_BUFFER(cmd, UVERBS_OBJECT_QP,
			       TERN_IB_METHOD_QP_GET_SPORT, 2);

	if (!tern_is_tern(ibvqp->context->device))
		return EOPNOTSUPP;

	fill_attr_in_obj(cmd, TERN_IB_ATTR_GET_SPORT_QP, ibvqp->handle);
	fill_attr_out_ptr(cmd, TERN_IB_ATTR_GET_SPORT_PORT, udp_sport);

	return tern_dv_ioctl(ibvqp->context, cmd);
}

/* terndv_query_key(3). */
int terndv_query_key(struct ibv_pd *ibvpd, uint32_t key,
		     struct terndv_key_attr *attr)
{
	DECLARE_COMMAND_BUFFER(cmd, UVERBS_OBJECT_PD,
			       TERN_IB_METHOD_PD_QUERY_KEY, 3);
	struct tern_uresp_query_key resp;
	int err;

	if (!tern_is_tern(ibvpd->context->device))
		return EOPNOTSUPP;

	fill_attr_in_obj(cmd, TERN_IB_ATTR_QUERY_KEY_PD, ibvpd->handle);
	fill_attr_in_uint32(cmd, TERN_IB_ATTR_QUERY_KEY_KEY, key);
	fill_attr_out_ptr(cmd, TERN_IB_ATTR_QUERY_KEY_RESP, &resp);
	err = tern_dv_ioctl(ibvpd->context, cmd);
	if (err)
		return err;

	attr->comp_mask = 0;
	attr->addr = resp.addr;
	attr->length = resp.length;
	attr->key = resp.key;
	attr->access = resp.access;
	attr->qp_num = resp.qp_num;
	attr->num_windows = resp.num_windows;
	attr->mr_key = resp.mr_key;
	attr->state = resp.state;
	attr->type = resp.type;
	memset(attr->reserved, 0, sizeof(attr->reserved));
	return 0;
}

/* terndv_query_mw(3). */
int terndv_query_mw(struct ibv_mw *ibvmw, struct terndv_key_attr *attr)
{
	return terndv_query_key(ibvmw->pd, ibvmw->rkey, attr);
}
