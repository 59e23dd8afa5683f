/* SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause) */
/*
 * What the provider takes from libibverbs, as if the kernel did as told.
 * Included once, by the tests.
 */
#ifndef TERN_KERNEL_STUB_H
#define TERN_KERNEL_STUB_H

#include <string.h>

#include "../tern.h"

static uint32_t next_qpn = 0x11;
static uint32_t next_cqn = 7;
static int create_err;
static struct tern_create_qp last_qp;
static struct ibv_qp_cap last_cap;

int ibv_cmd_create_qp_ex(struct ibv_context *context, struct verbs_qp *qp,
			 struct ibv_qp_init_attr_ex *attr,
			 struct ibv_create_qp *cmd, size_t cmd_size,
			 struct ib_uverbs_create_qp_resp *resp,
			 size_t resp_size)
{
	if (create_err)
		return create_err;
	memcpy(&last_qp, cmd, sizeof(last_qp));
	last_cap = attr->cap;
	qp->qp.context = context;
	qp->qp.qp_num = next_qpn;
	qp->qp.send_cq = attr->send_cq;
	qp->qp.recv_cq = attr->recv_cq;
	qp->qp.qp_type = attr->qp_type;
	qp->qp.state = IBV_QPS_RESET;
	qp->comp_mask = 0;
	return 0;
}

int ibv_cmd_destroy_qp(struct ibv_qp *qp)
{
	return 0;
}

int ibv_cmd_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr,
		      int attr_mask, struct ibv_modify_qp *cmd, size_t cmd_size)
{
	return 0;
}

int ibv_cmd_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask,
		     struct ibv_qp_init_attr *init_attr,
		     struct ibv_query_qp *cmd, size_t cmd_size)
{
	return 0;
}

int ibv_cmd_create_cq_ex(struct ibv_context *context,
			 const struct ibv_cq_init_attr_ex *attr,
			 struct verbs_cq *cq, struct ibv_create_cq_ex *cmd,
			 size_t cmd_size,
			 struct ib_uverbs_ex_create_cq_resp *resp,
			 size_t resp_size, uint32_t cmd_flags)
{
	struct tern_create_cq_resp *tresp =
		container_of(resp, struct tern_create_cq_resp, ibv_resp);

	cq->cq.context = context;
	tresp->cqn = next_cqn++;
	return 0;
}

int ibv_cmd_destroy_cq(struct ibv_cq *cq)
{
	return 0;
}

int ibv_dontfork_range(void *base, size_t size)
{
	return 0;
}

int ibv_dofork_range(void *base, size_t size)
{
	return 0;
}

#endif /* TERN_KERNEL_STUB_H */
