// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Driver details of objects for "rdma resource show ... -dd". ib_core holds a
 * reference to the object during the call. Details that a dead device cannot
 * provide are omitted.
 */

#include <rdma/restrack.h>
#include <uapi/rdma/rdma_netlink.h>

#include "tern_ib.h"

static int tern_put_cq(struct sk_buff *msg, const struct tern_cq *cq)
{
	if (rdma_nl_put_driver_u32(msg, "cqn", cq->cqn) ||
	    rdma_nl_put_driver_u32(msg, "eqn", tern_eq_number(cq->eq->eq)))
		return -EMSGSIZE;

	if (tern_kcq_used(&cq->kern) &&
	    rdma_nl_put_driver_u32(msg, "bad", READ_ONCE(cq->kern.bad)))
		return -EMSGSIZE;

	return 0;
}

/* The device does not know the DMA lkey; other kernel keys change. */
static bool tern_mr_tracked(const struct tern_mr *mr)
{
	if (mr->odp)
		return true;
	return mr->umem || mr->dm_entry;
}

static int tern_put_mr(struct sk_buff *msg, struct tern_mr *mr)
{
	struct tern_ib_dev *dev = to_tdev(mr->ibmr.device);
	struct tern_rsp_mr rsp;

	if (!tern_mr_tracked(mr))
		return 0;

	if (mr->odp &&
	    rdma_nl_put_driver_string(msg, "memory",
				      mr->access & IB_ACCESS_ON_DEMAND ?
				      "on-demand" : "dma-buf"))
		return -EMSGSIZE;

	if (mr->umem &&
	    (rdma_nl_put_driver_u32_hex(msg, "page_size",
					BIT(mr->page_shift)) ||
	     rdma_nl_put_driver_u32(msg, "pages", mr->num_pages)))
		return -EMSGSIZE;

	if (mr->dm_entry &&
	    rdma_nl_put_driver_u32(msg, "dmn", to_tmmap(mr->dm_entry)->id))
		return -EMSGSIZE;

	if (tern_ib_query(dev, TERN_CMD_QUERY_MR, mr->ibmr.lkey, &rsp,
			  sizeof(rsp)))
		return 0;

	if (rdma_nl_put_driver_u32_hex(msg, "access",
				       le32_to_cpu(rsp.access)) ||
	    rdma_nl_put_driver_u32(msg, "windows",
				   le32_to_cpu(rsp.num_windows)))
		return -EMSGSIZE;

	return 0;
}

static int tern_put_qp(struct sk_buff *msg, struct tern_qp *qp)
{
	struct tern_ib_dev *dev = to_tdev(qp->ibqp.device);
	struct tern_rsp_query_qp rsp;

	if (rdma_nl_put_driver_u32(msg, "sq_wqes", qp->cap.max_send_wr) ||
	    rdma_nl_put_driver_u32(msg, "rq_wqes", qp->cap.max_recv_wr))
		return -EMSGSIZE;

	if (tern_ib_query(dev, TERN_CMD_QUERY_QP, qp->ibqp.qp_num, &rsp,
			  sizeof(rsp)))
		return 0;

	if (rdma_nl_put_driver_u32(msg, "sq_ci", le32_to_cpu(rsp.sq_ci)) ||
	    rdma_nl_put_driver_u32(msg, "rq_ci", le32_to_cpu(rsp.rq_ci)))
		return -EMSGSIZE;

#ifndef TERN_WITHOUT_RATE
	if (rdma_nl_put_driver_u32(msg, "rate_kbps", le32_to_cpu(rsp.rate)))
		return -EMSGSIZE;

#endif
	return 0;
}

static int tern_put_srq(struct sk_buff *msg, struct tern_srq *srq)
{
	struct tern_ib_dev *dev = to_tdev(srq->ibsrq.device);
	struct tern_rsp_query_srq rsp;

	if (rdma_nl_put_driver_u32(msg, "wqes", READ_ONCE(srq->max_wr)) ||
	    rdma_nl_put_driver_u32(msg, "sges", srq->max_sge))
		return -EMSGSIZE;

	if (tern_ib_query(dev, TERN_CMD_QUERY_SRQ, srq->srqn, &rsp,
			  sizeof(rsp)))
		return 0;

	if (rdma_nl_put_driver_u32(msg, "limit", le32_to_cpu(rsp.limit)) ||
	    rdma_nl_put_driver_u32(msg, "ci", le32_to_cpu(rsp.ci)))
		return -EMSGSIZE;

	return 0;
}

static int tern_end_entry(struct sk_buff *msg, struct nlattr *table, int err)
{
	if (err)
		nla_nest_cancel(msg, table);
	else
		nla_nest_end(msg, table);

	return err;
}

int tern_fill_res_cq_entry(struct sk_buff *msg, struct ib_cq *ibcq)
{
	struct nlattr *table = nla_nest_start(msg, RDMA_NLDEV_ATTR_DRIVER);

	if (!table)
		return -EMSGSIZE;

	return tern_end_entry(msg, table, tern_put_cq(msg, to_tcq(ibcq)));
}

int tern_fill_res_mr_entry(struct sk_buff *msg, struct ib_mr *ibmr)
{
	struct nlattr *table = nla_nest_start(msg, RDMA_NLDEV_ATTR_DRIVER);

	if (!table)
		return -EMSGSIZE;

	return tern_end_entry(msg, table, tern_put_mr(msg, to_tmr(ibmr)));
}

int tern_fill_res_qp_entry(struct sk_buff *msg, struct ib_qp *ibqp)
{
	struct nlattr *table = nla_nest_start(msg, RDMA_NLDEV_ATTR_DRIVER);

	if (!table)
		return -EMSGSIZE;

	return tern_end_entry(msg, table, tern_put_qp(msg, to_tqp(ibqp)));
}

int tern_fill_res_srq_entry(struct sk_buff *msg, struct ib_srq *ibsrq)
{
	struct nlattr *table = nla_nest_start(msg, RDMA_NLDEV_ATTR_DRIVER);

	if (!table)
		return -EMSGSIZE;

	return tern_end_entry(msg, table, tern_put_srq(msg, to_tsrq(ibsrq)));
}

/* Adds the device's reply to a query of @len bytes. */
static int tern_put_raw(struct sk_buff *msg, struct tern_ib_dev *dev,
			u16 opcode, u32 id, void *rsp, size_t len)
{
	if (tern_ib_query(dev, opcode, id, rsp, len))
		return 0;

	return nla_put(msg, RDMA_NLDEV_ATTR_RES_RAW, len, rsp);
}

int tern_fill_res_cq_entry_raw(struct sk_buff *msg, struct ib_cq *ibcq)
{
	struct tern_rsp_query_cq rsp;

	return tern_put_raw(msg, to_tdev(ibcq->device), TERN_CMD_QUERY_CQ,
			    to_tcq(ibcq)->cqn, &rsp, sizeof(rsp));
}

int tern_fill_res_mr_entry_raw(struct sk_buff *msg, struct ib_mr *ibmr)
{
	struct tern_mr *mr = to_tmr(ibmr);
	struct tern_rsp_mr rsp;

	if (!tern_mr_tracked(mr))
		return 0;

	return tern_put_raw(msg, to_tdev(ibmr->device), TERN_CMD_QUERY_MR,
			    ibmr->lkey, &rsp, sizeof(rsp));
}

int tern_fill_res_qp_entry_raw(struct sk_buff *msg, struct ib_qp *ibqp)
{
	struct tern_rsp_query_qp rsp;

	return tern_put_raw(msg, to_tdev(ibqp->device), TERN_CMD_QUERY_QP,
			    ibqp->qp_num, &rsp, sizeof(rsp));
}

int tern_fill_res_srq_entry_raw(struct sk_buff *msg, struct ib_srq *ibsrq)
{
	struct tern_rsp_query_srq rsp;

	return tern_put_raw(msg, to_tdev(ibsrq->device), TERN_CMD_QUERY_SRQ,
			    to_tsrq(ibsrq)->srqn, &rsp, sizeof(rsp));
}
