/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What the tests of kernel verbs share: results, and RC QPs of one device. */
#ifndef TERN_KVERBS_H
#define TERN_KVERBS_H

#include <linux/printk.h>

#include <rdma/ib_cache.h>
#include <rdma/ib_verbs.h>

#define KV_PORT		1
#define KV_ACCESS	(IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_WRITE | \
			 IB_ACCESS_REMOTE_READ | IB_ACCESS_REMOTE_ATOMIC)

static void kv_check(const char *name, bool ok)
{
	pr_info("kverbs: %sok kverbs/%s\n", ok ? "" : "not ", name);
}

static int kv_connect_qp(struct ib_qp *qp, struct ib_qp *peer,
			 const struct ib_gid_attr *gid)
{
	struct ib_qp_attr attr = {
		.qp_state = IB_QPS_INIT,
		.port_num = KV_PORT,
		.qp_access_flags = KV_ACCESS,
	};
	int err;

	err = ib_modify_qp(qp, &attr, IB_QP_STATE | IB_QP_PKEY_INDEX |
			   IB_QP_PORT | IB_QP_ACCESS_FLAGS);
	if (err)
		return err;

	attr.qp_state = IB_QPS_RTR;
	attr.path_mtu = IB_MTU_1024;
	attr.dest_qp_num = peer->qp_num;
	attr.max_dest_rd_atomic = 1;
	attr.min_rnr_timer = 1;
	attr.ah_attr.type = RDMA_AH_ATTR_TYPE_ROCE;
	rdma_ah_set_port_num(&attr.ah_attr, KV_PORT);
	rdma_ah_set_grh(&attr.ah_attr, (union ib_gid *)&gid->gid, 0,
			gid->index, 64, 0);
	/* The device connects to itself. */
	err = rdma_read_gid_l2_fields(gid, NULL, attr.ah_attr.roce.dmac);
	if (err)
		return err;

	err = ib_modify_qp(qp, &attr, IB_QP_STATE | IB_QP_AV |
			   IB_QP_PATH_MTU | IB_QP_DEST_QPN | IB_QP_RQ_PSN |
			   IB_QP_MAX_DEST_RD_ATOMIC | IB_QP_MIN_RNR_TIMER);
	if (err)
		return err;

	attr.qp_state = IB_QPS_RTS;
	attr.timeout = 14;
	attr.retry_cnt = 7;
	attr.rnr_retry = 7;
	attr.max_rd_atomic = 1;
	return ib_modify_qp(qp, &attr, IB_QP_STATE | IB_QP_SQ_PSN |
			    IB_QP_TIMEOUT | IB_QP_RETRY_CNT |
			    IB_QP_RNR_RETRY | IB_QP_MAX_QP_RD_ATOMIC);
}

static const struct ib_gid_attr *kv_find_gid(struct ib_device *dev)
{
	const struct ib_gid_attr *attr;
	int i;

	for (i = 0; i < dev->port_data[KV_PORT].immutable.gid_tbl_len; i++) {
		attr = rdma_get_gid_attr(dev, KV_PORT, i);
		if (IS_ERR(attr))
			continue;
		if (attr->gid_type == IB_GID_TYPE_ROCE_UDP_ENCAP)
			return attr;
		rdma_put_gid_attr(attr);
	}

	return ERR_PTR(-ENOENT);
}

#endif /* TERN_KVERBS_H */
