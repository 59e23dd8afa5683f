// SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause)
/* Stubs of libibverbs; the test determines the kernel's results. */

#include <errno.h>
#include <string.h>

#include "fixture.h"

/* compat.h calls the stub. */
#undef ibv_cmd_create_cq_ex

uint32_t next_qpn = 0x11;
uint32_t next_srqn = 0x21;
static uint32_t next_cqn = 7;
atomic_int kernel_qps;
int create_err;
struct tern_ureq_create_qp last_qp;
struct tern_ureq_modify_qp last_request;
struct ibv_qp_attr last_modify;
int last_modify_mask;
struct tern_ureq_create_cq last_cq;
struct ibv_qp_cap last_cap;
struct tern_ureq_create_srq last_srq;
struct tern_ureq_modify_srq last_resize;
struct ibv_srq_attr last_srq_attr;
int last_srq_mask;
void (*on_modify_srq)(void);
struct tern_ureq_resize_cq last_cq_resize;
unsigned int cq_resizes;
int (*on_resize_cq)(uint32_t *first_index);
struct ibv_modify_cq_attr last_cq_attr;
int dontfork_ranges;
int dontfork_err;
unsigned int dontfork_left;

int ibv_cmd_create_qp_ex(struct ibv_context *context, struct verbs_qp *qp,
			 struct ibv_qp_init_attr_ex *attr,
			 struct ibv_create_qp *cmd, size_t cmd_size,
			 struct ib_uverbs_create_qp_resp *resp,
			 size_t resp_size)
{
	if (create_err)
		return create_err;
	last_qp = container_of(cmd, struct tern_create_qp, ibv_cmd)->drv_payload;
	last_cap = attr->cap;
	qp->qp.context = context;
	qp->qp.qp_num = next_qpn++;
	qp->qp.send_cq = attr->send_cq;
	qp->qp.recv_cq = attr->recv_cq;
	qp->qp.srq = attr->srq;
	qp->qp.qp_type = attr->qp_type;
	qp->qp.state = IBV_QPS_RESET;
	qp->comp_mask = 0;
	kernel_qps++;
	return 0;
}

int ibv_cmd_open_qp(struct ibv_context *context, struct verbs_qp *qp,
		    int vqp_sz, struct ibv_qp_open_attr *attr,
		    struct ibv_open_qp *cmd, size_t cmd_size,
		    struct ib_uverbs_create_qp_resp *resp, size_t resp_size)
{
	if (create_err)
		return create_err;
	qp->qp.context = context;
	qp->qp.qp_num = attr->qp_num;
	qp->qp.qp_type = attr->qp_type;
	qp->qp.state = IBV_QPS_UNKNOWN;
	return 0;
}

int ibv_cmd_create_srq(struct ibv_pd *pd, struct ibv_srq *srq,
		       struct ibv_srq_init_attr *attr,
		       struct ibv_create_srq *cmd, size_t cmd_size,
		       struct ib_uverbs_create_srq_resp *resp, size_t resp_size)
{
	struct tern_create_srq *tcmd =
		container_of(cmd, struct tern_create_srq, ibv_cmd);
	struct tern_create_srq_resp *tresp =
		container_of(resp, struct tern_create_srq_resp, ibv_resp);

	if (create_err)
		return create_err;
	last_srq = tcmd->drv_payload;
	last_srq_attr = attr->attr;
	srq->context = pd->context;
	tresp->srqn = next_srqn++;
	return 0;
}

int ibv_cmd_create_srq_ex(struct ibv_context *context, struct verbs_srq *srq,
			  struct ibv_srq_init_attr_ex *attr,
			  struct ibv_create_xsrq *cmd, size_t cmd_size,
			  struct ib_uverbs_create_srq_resp *resp,
			  size_t resp_size)
{
	struct tern_create_srq_ex *tcmd =
		container_of(cmd, struct tern_create_srq_ex, ibv_cmd);
	struct tern_create_srq_ex_resp *tresp =
		container_of(resp, struct tern_create_srq_ex_resp, ibv_resp);

	if (create_err)
		return create_err;
	last_srq = tcmd->drv_payload;
	last_srq_attr = attr->attr;
	srq->srq.context = context;
	srq->srq_type = attr->srq_type;
	srq->cq = attr->cq;
	tresp->srqn = next_srqn++;
	return 0;
}

int ibv_cmd_modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr,
		       int attr_mask, struct ibv_modify_srq *cmd,
		       size_t cmd_size)
{
	last_srq_attr = *attr;
	last_srq_mask = attr_mask;
	/* Only a new size comes with a new buffer. */
	if (cmd_size == sizeof(struct tern_modify_srq))
		last_resize = container_of(cmd, struct tern_modify_srq,
					   ibv_cmd)->drv_payload;
	else
		memset(&last_resize, 0, sizeof(last_resize));
	if (on_modify_srq)
		on_modify_srq();
	return create_err;
}

int ibv_cmd_query_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr,
		      struct ibv_query_srq *cmd, size_t cmd_size)
{
	*attr = last_srq_attr;
	return 0;
}

int ibv_cmd_destroy_srq(struct ibv_srq *srq)
{
	return 0;
}

int ibv_cmd_destroy_qp(struct ibv_qp *qp)
{
	kernel_qps--;
	return 0;
}

int ibv_cmd_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr,
		      int attr_mask, struct ibv_modify_qp *cmd, size_t cmd_size)
{
	CHECK(cmd_size == sizeof(*cmd));
	last_request = (struct tern_ureq_modify_qp){};
	if (attr_mask & IBV_QP_STATE)
		qp->state = attr->qp_state;
	return 0;
}

int ibv_cmd_modify_qp_ex(struct ibv_qp *qp, struct ibv_qp_attr *attr,
			 int attr_mask, struct ibv_modify_qp_ex *cmd,
			 size_t cmd_size,
			 struct ib_uverbs_ex_modify_qp_resp *resp,
			 size_t resp_size)
{
	CHECK(cmd_size == sizeof(struct tern_modify_qp_ex));
	last_request = container_of(cmd, struct tern_modify_qp_ex,
				    ibv_cmd)->drv_payload;
	last_modify = *attr;
	last_modify_mask = attr_mask;
	if (!create_err && (attr_mask & IBV_QP_STATE))
		qp->state = attr->qp_state;
	return create_err;
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

	if (create_err)
		return create_err;
	last_cq = container_of(cmd, struct tern_create_cq, ibv_cmd)->drv_payload;
	cq->cq.context = context;
	tresp->cqn = next_cqn++;
	return 0;
}

int ibv_cmd_resize_cq(struct ibv_cq *cq, int cqe, struct ibv_resize_cq *cmd,
		      size_t cmd_size, struct ib_uverbs_resize_cq_resp *resp,
		      size_t resp_size)
{
	struct tern_resize_cq *tcmd =
		container_of(cmd, struct tern_resize_cq, ibv_cmd);
	struct tern_resize_cq_resp *tresp =
		container_of(resp, struct tern_resize_cq_resp, ibv_resp);
	int err;

	if (create_err)
		return create_err;
	last_cq_resize = tcmd->drv_payload;
	cq_resizes++;
	err = on_resize_cq(&tresp->first_index);
	if (err)
		return err;
	cq->cqe = cqe;
	return 0;
}

int ibv_cmd_modify_cq(struct ibv_cq *cq, struct ibv_modify_cq_attr *attr,
		      struct ibv_modify_cq *cmd, size_t cmd_size)
{
	last_cq_attr = *attr;
	return create_err;
}

int ibv_cmd_destroy_cq(struct ibv_cq *cq)
{
	return 0;
}

int ibv_dontfork_range(void *base, size_t size)
{
	if (dontfork_err && !dontfork_left--) {
		dontfork_left = 0;
		errno = dontfork_err;
		return -1;
	}
	dontfork_ranges++;
	return 0;
}

int ibv_dofork_range(void *base, size_t size)
{
	dontfork_ranges--;
	return 0;
}
