// SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause)
/* Work queues: receive queues without a QP, tables of them, and RSS QPs. */

#include <ccan/ilog.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tern.h"

/* ibv_post_wq_recv(3): fails like ibv_post_recv(). */
static int tern_post_wq_recv(struct ibv_wq *ibvwq, struct ibv_recv_wr *wr,
			     struct ibv_recv_wr **bad_wr)
{
	return tern_post_recv(&to_tern_rwq(ibvwq)->qp.vqp.qp, wr, bad_wr);
}

static int tern_check_wq_attr(const struct tern_context *ctx,
			      const struct ibv_wq_init_attr *attr)
{
	uint32_t flags = 0;

	if (ctx->caps & TERN_UCTX_CAP_RAW_OFFLOAD)
		flags = IBV_WQ_FLAGS_CVLAN_STRIPPING |
			IBV_WQ_FLAGS_SCATTER_FCS;

	if (!(ctx->caps & TERN_UCTX_CAP_RSS) || attr->wq_type != IBV_WQT_RQ ||
	    !check_comp_mask(attr->comp_mask, IBV_WQ_INIT_ATTR_FLAGS) ||
	    ((attr->comp_mask & IBV_WQ_INIT_ATTR_FLAGS) &&
	     !check_comp_mask(attr->create_flags, flags)))
		return EOPNOTSUPP;

	if (!attr->pd || !attr->cq || attr->max_wr > ctx->max_recv_wr ||
	    attr->max_sge > ctx->max_recv_sge)
		return EINVAL;

	return 0;
}

static int tern_wq_alloc_queue(struct ibv_context *ibvctx, struct tern_qp *qp,
			       struct tern_create_wq *cmd)
{
	int err;

	err = tern_qp_alloc_memory(ibvctx, qp, tern_wq_bytes(&qp->rq),
				   TERN_RES_WQ);
	if (err)
		return err;

	qp->rq.slots = qp->buf.addr;

	cmd->buf_addr = (uintptr_t)qp->buf.addr;
	cmd->buf_len = qp->buf.len;
	cmd->record_addr = (uintptr_t)qp->record;
	cmd->log_size = ilog32(qp->rq.mask + 1) - 1;
	cmd->log_stride = qp->rq.log_stride;
	return 0;
}

/* Creates the WQ and makes it findable; see tern_qp_create_attached(). */
static int tern_wq_create_attached(struct ibv_context *ibvctx,
				   struct tern_rwq *wq,
				   struct ibv_wq_init_attr *attr,
				   struct tern_create_wq *cmd)
{
	struct ibv_qp *ibvqp = &wq->qp.vqp.qp;
	struct tern_create_wq_resp resp = {};
	unsigned int i;
	int err;

	for (i = 0; i < TERN_NUMBER_TRIES; i++) {
		err = ibv_cmd_create_wq(ibvctx, attr, &wq->ibvwq,
					&cmd->ibv_cmd, sizeof(*cmd),
					&resp.ibv_resp, sizeof(resp));
		if (err)
			return err;

		wq->ibvwq.state = IBV_WQS_RESET;
		wq->ibvwq.post_recv = tern_post_wq_recv;
		ibvqp->context = ibvctx;
		ibvqp->qp_num = wq->ibvwq.wq_num;
		ibvqp->recv_cq = attr->cq;
		ibvqp->state = IBV_QPS_RESET;
		err = tern_qp_attach(to_tern_ctx(ibvctx), &wq->qp);
		if (!err)
			return 0;

		ibv_cmd_destroy_wq(&wq->ibvwq);
		if (err != EAGAIN)
			return err;
	}

	return ENOMEM;
}

static int tern_wq_init(struct ibv_context *ibvctx, struct tern_rwq *wq,
			struct ibv_wq_init_attr *attr)
{
	struct tern_context *ctx = to_tern_ctx(ibvctx);
	struct tern_create_wq cmd = {};
	int err;

	tern_rq_size(&wq->qp.rq, attr->max_wr, attr->max_sge,
		     ctx->max_recv_sge);
	if (wq->qp.rq.log_stride > TERN_RQ_STRIDE_MAX)
		return EINVAL;

	err = tern_wq_alloc_queue(ibvctx, &wq->qp, &cmd);
	if (err)
		return err;

	/* Tell the kernel the actual capacities. */
	attr->max_wr = tern_wq_num(&wq->qp.rq);
	attr->max_sge = wq->qp.rq.max_sge;
	/* Without the mask, old kernels get the flags all the same. */
	if (!(attr->comp_mask & IBV_WQ_INIT_ATTR_FLAGS))
		attr->create_flags = 0;
	err = tern_wq_create_attached(ibvctx, wq, attr, &cmd);
	if (err)
		tern_qp_free_memory(ctx, &wq->qp);

	return err;
}

static void tern_wq_free(struct tern_rwq *wq)
{
	tern_spin_destroy(&wq->qp.rq.lock);
	tern_spin_destroy(&wq->qp.sq.lock);
	free(wq);
}

/*
 * ibv_create_wq(3): EOPNOTSUPP for a type or flag that the device does not
 * support, EINVAL for capacities beyond the device's.
 */
struct ibv_wq *tern_create_wq(struct ibv_context *ibvctx,
			      struct ibv_wq_init_attr *attr)
{
	struct ibv_wq_init_attr actual = *attr;
	struct tern_rwq *wq;
	int err;

	err = tern_check_wq_attr(to_tern_ctx(ibvctx), attr);
	if (err)
		goto err_out;

	wq = tern_zalloc_aligned(sizeof(*wq));
	if (!wq) {
		err = ENOMEM;
		goto err_out;
	}

	wq->qp.type = &tern_rwq_type;
	wq->qp.raw = true;
	tern_spin_init(&wq->qp.sq.lock, true);
	tern_spin_init(&wq->qp.rq.lock, true);
	tern_qp_set_pd(&wq->qp, attr->pd);
	err = tern_wq_init(ibvctx, wq, &actual);
	if (err) {
		tern_wq_free(wq);
		goto err_out;
	}

	attr->max_wr = actual.max_wr;
	attr->max_sge = actual.max_sge;
	return &wq->ibvwq;

err_out:
	errno = err;
	return NULL;
}

/* The state of a raw packet QP that receives as the WQ does. */
static enum ibv_qp_state tern_wq_qp_state(enum ibv_wq_state state)
{
	switch (state) {
	case IBV_WQS_RDY:
		return IBV_QPS_RTR;
	case IBV_WQS_ERR:
		return IBV_QPS_ERR;
	default:
		return IBV_QPS_RESET;
	}
}

/* Linux up to 7.2 refuses other states, but leaves the work queue locked. */
static bool tern_wq_states_ok(const struct ibv_wq_attr *attr)
{
	if (attr->attr_mask & IBV_WQ_ATTR_STATE &&
	    (unsigned int)attr->wq_state > IBV_WQS_ERR)
		return false;

	return !(attr->attr_mask & IBV_WQ_ATTR_CURR_STATE) ||
	       (unsigned int)attr->curr_wq_state <= IBV_WQS_ERR;
}

/* ibv_modify_wq(3): the kernel checks the transition and the flags. */
int tern_modify_wq(struct ibv_wq *ibvwq, struct ibv_wq_attr *attr)
{
	struct tern_rwq *wq = to_tern_rwq(ibvwq);
	struct ibv_modify_wq cmd = {};
	int err;

	if (!tern_wq_states_ok(attr))
		return EINVAL;

	err = ibv_cmd_modify_wq(ibvwq, attr, &cmd, sizeof(cmd));
	if (err || !(attr->attr_mask & IBV_WQ_ATTR_STATE))
		return err;

	wq->qp.vqp.qp.state = tern_wq_qp_state(attr->wq_state);
	if (attr->wq_state == IBV_WQS_RESET)
		tern_qp_reset(&wq->qp);

	return 0;
}

/* ibv_destroy_wq(3). */
int tern_destroy_wq(struct ibv_wq *ibvwq)
{
	struct tern_context *ctx = to_tern_ctx(ibvwq->context);
	struct tern_rwq *wq = to_tern_rwq(ibvwq);
	int err;

	err = ibv_cmd_destroy_wq(ibvwq);
	if (err)
		return err;

	tern_qp_forget(ctx, &wq->qp);
	tern_qp_free_memory(ctx, &wq->qp);
	tern_wq_free(wq);
	return 0;
}

/* ibv_create_rwq_ind_table(3): the kernel checks the size. */
struct ibv_rwq_ind_table *
tern_create_rwq_ind_table(struct ibv_context *ibvctx,
			  struct ibv_rwq_ind_table_init_attr *attr)
{
	struct ib_uverbs_ex_create_rwq_ind_table_resp resp = {};
	struct ibv_rwq_ind_table *table;
	int err;

	/* libibverbs reads the table before it calls the kernel. */
	if (attr->log_ind_tbl_size >= 32 ||
	    BIT(attr->log_ind_tbl_size) > TERN_RSS_ENTRIES) {
		errno = EINVAL;
		return NULL;
	}

	table = calloc(1, sizeof(*table));
	if (!table)
		return NULL;

	err = ibv_cmd_create_rwq_ind_table(ibvctx, attr, table, &resp,
					   sizeof(resp));
	if (err) {
		free(table);
		errno = err;
		return NULL;
	}

	return table;
}

int tern_destroy_rwq_ind_table(struct ibv_rwq_ind_table *table)
{
	int err;

	err = ibv_cmd_destroy_rwq_ind_table(table);
	if (err)
		return err;

	free(table);
	return 0;
}

static int tern_check_rss_qp(const struct tern_context *ctx,
			     const struct ibv_qp_init_attr_ex *attr)
{
	const uint32_t needed = IBV_QP_INIT_ATTR_PD |
				IBV_QP_INIT_ATTR_IND_TABLE |
				IBV_QP_INIT_ATTR_RX_HASH;
	const struct ibv_rx_hash_conf *conf = &attr->rx_hash_conf;
	const struct ibv_qp_cap *cap = &attr->cap;

	if (!(ctx->caps & TERN_UCTX_CAP_RSS) ||
	    attr->qp_type != IBV_QPT_RAW_PACKET ||
	    !check_comp_mask(attr->comp_mask,
			     needed | IBV_QP_INIT_ATTR_CREATE_FLAGS))
		return EOPNOTSUPP;

	if ((attr->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS) &&
	    attr->create_flags)
		return EOPNOTSUPP;

	if ((attr->comp_mask & needed) != needed || !attr->pd ||
	    !attr->rwq_ind_tbl || attr->send_cq || attr->recv_cq ||
	    attr->srq || cap->max_send_wr || cap->max_recv_wr ||
	    cap->max_recv_sge)
		return EINVAL;

	if (conf->rx_hash_function != IBV_RX_HASH_FUNC_TOEPLITZ ||
	    !check_comp_mask(conf->rx_hash_fields_mask,
			     tern_rx_hash_fields(ctx)))
		return EOPNOTSUPP;

	if (conf->rx_hash_key_len !=
		    sizeof(((struct tern_ureq_create_rss_qp *)NULL)->rx_hash_key) ||
	    !conf->rx_hash_key)
		return EINVAL;

	return 0;
}

static int tern_rss_qp_cmd_create(struct ibv_context *ibvctx,
				  struct tern_qp *qp,
				  struct ibv_qp_init_attr_ex *attr)
{
	const struct ibv_rx_hash_conf *conf = &attr->rx_hash_conf;
	struct tern_create_rss_qp_resp resp = {};
	struct tern_create_rss_qp cmd = {};

	cmd.rx_hash_fields_mask = conf->rx_hash_fields_mask;
	cmd.rx_hash_function = conf->rx_hash_function;
	cmd.rx_hash_key_len = conf->rx_hash_key_len;
	memcpy(cmd.rx_hash_key, conf->rx_hash_key, sizeof(cmd.rx_hash_key));

	return ibv_cmd_create_qp_ex2(ibvctx, &qp->vqp, attr, &cmd.ibv_cmd,
				     sizeof(cmd), &resp.ibv_resp, sizeof(resp),
				     NULL);
}

/*
 * ibv_create_qp_ex(3) with an indirection table: EOPNOTSUPP for a type, flag,
 * hash function or hash field that the device does not support, EINVAL for
 * attributes that are missing or that such a QP does not have.
 */
struct ibv_qp *tern_create_rss_qp(struct ibv_context *ibvctx,
				  struct ibv_qp_init_attr_ex *attr)
{
	struct tern_context *ctx = to_tern_ctx(ibvctx);
	struct ibv_qp_init_attr_ex actual = *attr;
	struct tern_qp *qp;
	int err;

	err = tern_check_rss_qp(ctx, attr);
	if (err)
		goto err_out;

	qp = tern_qp_alloc(&tern_rss_qp_type, ctx->caps);
	if (!qp) {
		err = ENOMEM;
		goto err_out;
	}

	err = tern_rss_qp_cmd_create(ibvctx, qp, &actual);
	if (err) {
		tern_qp_free(qp);
		goto err_out;
	}

	attr->cap = (struct ibv_qp_cap){};
	return &qp->vqp.qp;

err_out:
	errno = err;
	return NULL;
}
