// SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause)
/* Stubs of libibverbs for raw packet QPs, work queues, flows and counters. */

#include <errno.h>
#include <string.h>

#include "fixture.h"

/* compat.h calls the stub. */
#undef ibv_cmd_create_qp_ex2

struct ibv_qp_init_attr_ex last_qp_ex;
struct tern_ureq_create_rss_qp last_rss;
struct tern_ureq_create_wq last_wq;
struct ibv_wq_attr last_wq_attr;
struct ibv_wq_init_attr last_wq_init;
unsigned int raw_objects;
uint64_t counter_packets, counter_bytes;
uint32_t last_read_flags;

int ibv_cmd_create_qp_ex2(struct ibv_context *context, struct verbs_qp *qp,
			  struct ibv_qp_init_attr_ex *attr,
			  struct ibv_create_qp_ex *cmd, size_t cmd_size,
			  struct ib_uverbs_ex_create_qp_resp *resp,
			  size_t resp_size)
{
	bool rss = attr->comp_mask & IBV_QP_INIT_ATTR_IND_TABLE;

	if (create_err)
		return create_err;
	CHECK(cmd_size == (rss ? sizeof(struct tern_create_rss_qp) :
				 sizeof(struct tern_create_qp_ex)));
	last_qp_ex = *attr;
	if (rss)
		last_rss = container_of(cmd, struct tern_create_rss_qp,
					ibv_cmd)->drv_payload;
	else
		last_qp = container_of(cmd, struct tern_create_qp_ex,
				       ibv_cmd)->drv_payload;
	last_cap = attr->cap;
	qp->qp.context = context;
	qp->qp.qp_num = rss ? 0 : next_qpn++;
	qp->qp.send_cq = attr->send_cq;
	qp->qp.recv_cq = attr->recv_cq;
	qp->qp.qp_type = attr->qp_type;
	qp->qp.state = IBV_QPS_RESET;
	qp->comp_mask = 0;
	return 0;
}

int ibv_cmd_create_wq(struct ibv_context *context,
		      struct ibv_wq_init_attr *attr, struct ibv_wq *wq,
		      struct ibv_create_wq *cmd, size_t cmd_size,
		      struct ib_uverbs_ex_create_wq_resp *resp,
		      size_t resp_size)
{
	if (create_err)
		return create_err;
	last_wq = container_of(cmd, struct tern_create_wq, ibv_cmd)->drv_payload;
	last_wq_init = *attr;
	wq->context = context;
	wq->cq = attr->cq;
	wq->pd = attr->pd;
	wq->wq_num = next_qpn++;
	raw_objects++;
	return 0;
}

int ibv_cmd_modify_wq(struct ibv_wq *wq, struct ibv_wq_attr *attr,
		      struct ibv_modify_wq *cmd, size_t cmd_size)
{
	if (create_err)
		return create_err;
	last_wq_attr = *attr;
	if (attr->attr_mask & IBV_WQ_ATTR_STATE)
		wq->state = attr->wq_state;
	return 0;
}

int ibv_cmd_destroy_wq(struct ibv_wq *wq)
{
	raw_objects--;
	return 0;
}

int ibv_cmd_create_rwq_ind_table(
	struct ibv_context *context, struct ibv_rwq_ind_table_init_attr *attr,
	struct ibv_rwq_ind_table *table,
	struct ib_uverbs_ex_create_rwq_ind_table_resp *resp, size_t resp_size)
{
	if (create_err)
		return create_err;
	table->context = context;
	raw_objects++;
	return 0;
}

int ibv_cmd_destroy_rwq_ind_table(struct ibv_rwq_ind_table *table)
{
	raw_objects--;
	return 0;
}

int ibv_cmd_create_flow(struct ibv_qp *qp, struct ibv_flow *flow,
			struct ibv_flow_attr *attr, void *ucmd,
			size_t ucmd_size)
{
	if (create_err)
		return create_err;
	CHECK(!ucmd && !ucmd_size);
	flow->context = qp->context;
	raw_objects++;
	return 0;
}

int ibv_cmd_destroy_flow(struct ibv_flow *flow)
{
	raw_objects--;
	return 0;
}

int ibv_cmd_create_counters(struct ibv_context *context,
			    struct ibv_counters_init_attr *attr,
			    struct verbs_counters *vcounters,
			    struct ibv_command_buffer *link)
{
	if (create_err)
		return create_err;
	vcounters->counters.context = context;
	raw_objects++;
	return 0;
}

int ibv_cmd_destroy_counters(struct verbs_counters *vcounters)
{
	raw_objects--;
	return 0;
}

int ibv_cmd_read_counters(struct verbs_counters *vcounters, uint64_t *values,
			  uint32_t num_values, uint32_t flags,
			  struct ibv_command_buffer *link)
{
	if (create_err)
		return create_err;
	CHECK(num_values == 2);
	values[IBV_COUNTER_PACKETS] = counter_packets;
	values[IBV_COUNTER_BYTES] = counter_bytes;
	last_read_flags = flags;
	return 0;
}
