// SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause)
/* write [DEVICE [GID_INDEX]]: a QP writes into the memory of another one on the same adapter. */
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SIZE 4096

static void need(int ok, const char *what)
{
	if (ok)
		return;
	perror(what);
	exit(1);
}

static struct ibv_context *open_device(const char *name)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context = NULL;

	for (int i = 0; list && list[i] && !context; i++)
		if (!name || !strcmp(ibv_get_device_name(list[i]), name))
			context = ibv_open_device(list[i]);
	need(context != NULL, "no such RDMA device");
	ibv_free_device_list(list);
	return context;
}

static void connect_to(struct ibv_qp *qp, const struct ibv_qp *peer, int gid_index)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE,
		.path_mtu = IBV_MTU_1024, .dest_qp_num = peer->qp_num, .max_dest_rd_atomic = 1,
		.min_rnr_timer = 12, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 1,
		.ah_attr = { .is_global = 1, .port_num = 1, .grh.sgid_index = gid_index,
			     .grh.hop_limit = 1 },
	};

	need(!ibv_query_gid(qp->context, 1, gid_index, &attr.ah_attr.grh.dgid), "ibv_query_gid");
	need(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
			    IBV_QP_ACCESS_FLAGS), "INIT");
	attr.qp_state = IBV_QPS_RTR;
	need(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_RQ_PSN |
			    IBV_QP_DEST_QPN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
	     "RTR");
	attr.qp_state = IBV_QPS_RTS;
	need(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
			    IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC), "RTS");
}

int main(int argc, char **argv)
{
	struct ibv_context *context = open_device(argc > 1 ? argv[1] : NULL);
	int gid_index = argc > 2 ? atoi(argv[2]) : 0;
	struct ibv_pd *pd = ibv_alloc_pd(context);
	struct ibv_cq *cq = ibv_create_cq(context, 4, NULL, NULL, 0);
	static char from[SIZE], to[SIZE];
	struct ibv_mr *source = ibv_reg_mr(pd, from, SIZE, IBV_ACCESS_LOCAL_WRITE);
	struct ibv_mr *target = ibv_reg_mr(pd, to, SIZE, IBV_ACCESS_LOCAL_WRITE |
					   IBV_ACCESS_REMOTE_WRITE);
	struct ibv_qp_init_attr init = {
		.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 1, .max_send_sge = 1 },
	};
	struct ibv_qp *a = ibv_create_qp(pd, &init), *b = ibv_create_qp(pd, &init);

	need(source && target && a && b, "resources");
	connect_to(a, b, gid_index);
	connect_to(b, a, gid_index);
	memset(from, 'x', SIZE);
	struct ibv_sge sge = { (uintptr_t)from, SIZE, source->lkey };
	struct ibv_send_wr *bad, wr = {
		.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE,
		.send_flags = IBV_SEND_SIGNALED, .wr.rdma = { (uintptr_t)to, target->rkey },
	};
	struct ibv_wc wc = {};

	need(!ibv_post_send(a, &wr, &bad), "ibv_post_send");
	while (!ibv_poll_cq(cq, 1, &wc))
		;
	printf("WRITE of %d bytes: %s\n", SIZE, ibv_wc_status_str(wc.status));
	return wc.status != IBV_WC_SUCCESS || memcmp(from, to, SIZE);
}
