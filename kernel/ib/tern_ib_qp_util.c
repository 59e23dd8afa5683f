// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * QP attributes: checks of creation attributes and queue sizes, and conversion
 * to and from the device's format.
 */

#include <linux/log2.h>
#include <linux/minmax.h>
#include <linux/string.h>

#include "tern_ib.h"
#include "tern_ib_limits.h"
#include "tern_ib_qp_util.h"
#ifndef TERN_WITHOUT_RAW
#include "tern_ib_raw.h"
#endif

/* Difference between log2 of a path MTU and its enum ib_mtu value. */
#define TERN_MTU_SHIFT		7

static_assert(BIT(IB_MTU_256 + TERN_MTU_SHIFT) == 256);
static_assert(BIT(IB_MTU_4096 + TERN_MTU_SHIFT) == 4096);

/* Width of QP numbers and PSNs. */
#define TERN_24_BITS		GENMASK(23, 0)
/* Width of RNR timer codes and ACK timeout exponents. */
#define TERN_5_BITS		GENMASK(4, 0)
/* Width of retry counts. */
#define TERN_3_BITS		GENMASK(2, 0)

const struct tern_qp_kind tern_qp_kinds[IB_QPT_MAX] = {
	[IB_QPT_GSI] = {
		.cap = TERN_CAP_UD,
		.type = TERN_QPT_GSI,
		.op_bytes = sizeof(struct tern_ud_seg),
	},
	[IB_QPT_RC] = {
		.cap = TERN_CAP_RC,
		.type = TERN_QPT_RC,
		.op_bytes = sizeof(struct tern_rdma_seg),
	},
	[IB_QPT_UC] = {
		.cap = TERN_CAP_UC,
		.type = TERN_QPT_UC,
		.op_bytes = sizeof(struct tern_rdma_seg),
	},
	[IB_QPT_UD] = {
		.cap = TERN_CAP_UD,
		.type = TERN_QPT_UD,
		.op_bytes = sizeof(struct tern_ud_seg),
	},
#ifndef TERN_WITHOUT_RAW
	[IB_QPT_RAW_PACKET] = {
		.cap = TERN_CAP_RAW_QP,
		.type = TERN_QPT_RAW,
		.op_bytes = sizeof(struct tern_eth_offload),
	},
#endif
#ifndef TERN_WITHOUT_XRC
	[IB_QPT_XRC_INI] = {
		.cap = TERN_CAP_XRC,
		.type = TERN_QPT_XRC_INI,
		.flags = TERN_QP_F_NO_RQ,
		.op_bytes = sizeof(struct tern_rdma_seg),
	},
	[IB_QPT_XRC_TGT] = {
		.cap = TERN_CAP_XRC,
		.type = TERN_QPT_XRC_TGT,
		.flags = TERN_QP_F_NO_SQ | TERN_QP_F_NO_RQ,
	},
#endif
};

/* IB_QP_CREATE_* that a QP of the type may have. */
u32 tern_qp_create_flags(const struct tern_ib_dev *dev, enum ib_qp_type type)
{
	if (type == IB_QPT_UD && tern_has_cap(dev, TERN_CAP_UD_NO_LOOPBACK))
		return IB_QP_CREATE_BLOCK_MULTICAST_LOOPBACK;
#ifndef TERN_WITHOUT_RAW
	if (type == IB_QPT_RAW_PACKET)
		return tern_raw_qp_create_flags(dev);
#endif
	return 0;
}

/* Translates IB_QP_CREATE_* to TERN_QP_F_*. */
u8 tern_qp_create_flags_to_dev(u32 create_flags)
{
	u8 flags = 0;

	if (create_flags & IB_QP_CREATE_BLOCK_MULTICAST_LOOPBACK)
		flags |= TERN_QP_F_NO_MCAST_LOOPBACK;
#ifndef TERN_WITHOUT_RAW
	flags |= tern_raw_qp_create_flags_to_dev(create_flags);
#endif
	return flags;
}

/* Whether the QP has a receive queue of its own. */
bool tern_qp_has_rq(const struct ib_qp_init_attr *attr)
{
	return !attr->srq &&
	       !(tern_qp_kinds[attr->qp_type].flags & TERN_QP_F_NO_RQ);
}

#ifndef TERN_WITHOUT_TM
/*
 * Whether the device uses the send queue to fetch the data of rendezvous: the
 * SRQ matches tags, and the user asks for no send queue.
 */
bool tern_qp_is_rendezvous(const struct ib_qp_init_attr *attr)
{
	return attr->srq && attr->srq->srq_type == IB_SRQT_TM &&
	       !attr->cap.max_send_wr;
}

#endif
/*
 * Returns 0, -EOPNOTSUPP for unsupported features, -EINVAL for invalid or
 * excessive attributes.
 */
int tern_check_create_qp(struct tern_ib_dev *dev,
			 const struct ib_qp_init_attr *attr)
{
	const struct tern_rsp_caps *caps = dev->core->caps;
	const struct ib_qp_cap *cap = &attr->cap;
	u32 max_wr = le32_to_cpu(caps->max_qp_wr);

	if (attr->qp_type >= IB_QPT_MAX ||
	    !tern_has_cap(dev, tern_qp_kinds[attr->qp_type].cap) ||
	    attr->rwq_ind_tbl)
		return tern_refuse(dev, -EOPNOTSUPP, "QP type %d", attr->qp_type);
	if (attr->create_flags & ~tern_qp_create_flags(dev, attr->qp_type))
		return tern_refuse(dev, -EOPNOTSUPP, "QP flags %#x",
				   attr->create_flags);

#ifndef TERN_WITHOUT_TM
	/* Tags are matched on reliable connections only. */
	if (attr->qp_type != IB_QPT_RC && attr->srq &&
	    attr->srq->srq_type == IB_SRQT_TM)
		return tern_refuse(dev, -EOPNOTSUPP, "tag matching by QP type %d",
				   attr->qp_type);
#endif
#ifndef TERN_WITHOUT_XRC
	/* An XRC target has no queues, so the remaining checks do not apply. */
	if (attr->qp_type == IB_QPT_XRC_TGT)
		return attr->xrcd ? 0 :
		       tern_refuse(dev, -EINVAL, "XRC target without domain");
#endif
	if (!attr->send_cq ||
	    (!attr->recv_cq && !(tern_qp_kinds[attr->qp_type].flags & TERN_QP_F_NO_RQ)))
		return tern_refuse(dev, -EINVAL, "QP without CQ");
	if (tern_exceeds(dev, "max_send_wr", cap->max_send_wr, max_wr) ||
	    tern_exceeds(dev, "max_send_sge", cap->max_send_sge,
			 le16_to_cpu(caps->max_send_sge)) ||
	    tern_exceeds(dev, "max_inline_data", cap->max_inline_data,
			 le32_to_cpu(caps->max_inline)))
		return -EINVAL;

	/* Receive capacities are ignored without a receive queue. */
	if (tern_qp_has_rq(attr) &&
	    (tern_exceeds(dev, "max_recv_wr", cap->max_recv_wr, max_wr) ||
	     tern_exceeds(dev, "max_recv_sge", cap->max_recv_sge,
			  le16_to_cpu(caps->max_recv_sge))))
		return -EINVAL;

	return 0;
}

u64 tern_rq_bytes(const struct ib_qp_init_attr *attr,
		  const struct tern_ureq_create_qp *req)
{
	return tern_qp_has_rq(attr) ?
	       BIT_ULL(req->log_rq_size + req->log_rq_stride) : 0;
}

/* Whether the receive slots, if any, satisfy the QP's capacities. */
bool tern_rq_geometry_ok(const struct ib_qp_init_attr *attr, int log_max,
			 const struct tern_ureq_create_qp *req)
{
	const struct ib_qp_cap *cap = &attr->cap;

	if (!tern_qp_has_rq(attr))
		return true;

	return req->log_rq_size <= log_max &&
	       BIT(req->log_rq_size) >= cap->max_recv_wr &&
	       tern_rq_stride_ok(req->log_rq_stride, cap->max_recv_sge);
}

/*
 * Whether the slots of both queues satisfy the QP's capacities, and the buffer
 * holds both queues.
 */
bool tern_qp_geometry_ok(struct tern_ib_dev *dev,
			 const struct ib_qp_init_attr *attr,
			 const struct tern_ureq_create_qp *req)
{
	int log_max = ilog2(le32_to_cpu(dev->core->caps->max_qp_wr));
	const struct ib_qp_cap *cap = &attr->cap;
	u64 send_bytes, need;

	if (memchr_inv(req->reserved_e0, 0, sizeof(req->reserved_e0)) ||
	    req->log_sq_size > log_max ||
	    req->log_sq_stride < TERN_SQ_STRIDE_MIN ||
	    req->log_sq_stride > TERN_SQ_STRIDE_MAX)
		return false;

	send_bytes = sizeof(struct tern_sq_hdr) +
		     tern_qp_kinds[attr->qp_type].op_bytes +
		     max_t(u64, cap->max_inline_data,
			   cap->max_send_sge * sizeof(struct tern_sge));
	if (BIT(req->log_sq_size) < cap->max_send_wr ||
	    BIT(req->log_sq_stride) < send_bytes ||
	    !tern_rq_geometry_ok(attr, log_max, req))
		return false;

	need = BIT_ULL(req->log_sq_size + req->log_sq_stride) +
	       tern_rq_bytes(attr, req);
	return tern_queue_len_ok(req->buf_len, need);
}

/* Whether the attributes in @mask are in range. */
bool tern_qp_attr_ok(struct tern_ib_dev *dev, const struct ib_qp_attr *attr,
		     int mask)
{
	u16 max_rd_atomic = le16_to_cpu(dev->core->caps->max_rd_atomic);

	if (mask & IB_QP_PORT &&
	    !rdma_is_port_valid(&dev->ibdev, attr->port_num))
		return false;
	if (mask & IB_QP_PKEY_INDEX && attr->pkey_index)
		return false;
#ifndef TERN_WITHOUT_RATE
	if (mask & IB_QP_RATE_LIMIT &&
	    attr->rate_limit > le32_to_cpu(dev->core->caps->max_rate))
		return false;
#endif
	if (mask & IB_QP_PATH_MTU &&
	    (attr->path_mtu < IB_MTU_256 || attr->path_mtu > IB_MTU_4096))
		return false;
	if (mask & IB_QP_MAX_QP_RD_ATOMIC &&
	    attr->max_rd_atomic > max_rd_atomic)
		return false;
	if (mask & IB_QP_MAX_DEST_RD_ATOMIC &&
	    attr->max_dest_rd_atomic > max_rd_atomic)
		return false;
	if (mask & IB_QP_DEST_QPN && attr->dest_qp_num > TERN_24_BITS)
		return false;
	if (mask & IB_QP_TIMEOUT && attr->timeout > TERN_5_BITS)
		return false;
	if (mask & IB_QP_MIN_RNR_TIMER && attr->min_rnr_timer > TERN_5_BITS)
		return false;
	if (mask & IB_QP_RETRY_CNT && attr->retry_cnt > TERN_3_BITS)
		return false;
	if (mask & IB_QP_RNR_RETRY && attr->rnr_retry > TERN_3_BITS)
		return false;
#ifndef TERN_WITHOUT_APM
	/* Only the device arms a QP. */
	if (mask & IB_QP_PATH_MIG_STATE && attr->path_mig_state > IB_MIG_REARM)
		return false;
#endif

	return true;
}

/* Converts the attributes in @mask to the device's format. */
u32 tern_qp_attr_to_dev(const struct ib_qp_attr *attr, int mask,
			struct tern_qp_attr *to)
{
	static const struct {
		int ib;
		u32 dev;
	} bits[] = {
		{ IB_QP_STATE, TERN_QPA_STATE },
		{ IB_QP_CUR_STATE, TERN_QPA_CUR_STATE },
		{ IB_QP_ACCESS_FLAGS, TERN_QPA_ACCESS },
		{ IB_QP_PKEY_INDEX, TERN_QPA_PKEY_INDEX },
		{ IB_QP_QKEY, TERN_QPA_QKEY },
		{ IB_QP_AV, TERN_QPA_AV },
		{ IB_QP_PATH_MTU, TERN_QPA_PATH_MTU },
		{ IB_QP_TIMEOUT, TERN_QPA_TIMEOUT },
		{ IB_QP_RETRY_CNT, TERN_QPA_RETRY_CNT },
		{ IB_QP_RNR_RETRY, TERN_QPA_RNR_RETRY },
		{ IB_QP_RQ_PSN, TERN_QPA_RQ_PSN },
		{ IB_QP_MAX_QP_RD_ATOMIC, TERN_QPA_MAX_RD_ATOMIC },
		{ IB_QP_MAX_DEST_RD_ATOMIC, TERN_QPA_MAX_DEST_RD_ATOMIC },
		{ IB_QP_MIN_RNR_TIMER, TERN_QPA_MIN_RNR_TIMER },
		{ IB_QP_SQ_PSN, TERN_QPA_SQ_PSN },
		{ IB_QP_DEST_QPN, TERN_QPA_DEST_QPN },
		{ IB_QP_PORT, TERN_QPA_PORT },
#ifndef TERN_WITHOUT_RATE
		{ IB_QP_RATE_LIMIT, TERN_QPA_RATE_LIMIT },
#endif
#ifndef TERN_WITHOUT_APM
		{ IB_QP_ALT_PATH, TERN_QPA_ALT_PATH },
		{ IB_QP_PATH_MIG_STATE, TERN_QPA_MIG_STATE },
#endif
	};
	u32 result = 0;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(bits); i++)
		if (mask & bits[i].ib)
			result |= bits[i].dev;

	if (mask & IB_QP_STATE)
		to->state = attr->qp_state;
	if (mask & IB_QP_ACCESS_FLAGS)
		to->access = cpu_to_le32(tern_qp_access(attr->qp_access_flags));
	if (mask & IB_QP_QKEY)
		to->qkey = cpu_to_le32(attr->qkey);
	if (mask & IB_QP_PATH_MTU)
		to->path_mtu = attr->path_mtu + TERN_MTU_SHIFT;
	if (mask & IB_QP_TIMEOUT)
		to->timeout = attr->timeout;
	if (mask & IB_QP_RETRY_CNT)
		to->retry_cnt = attr->retry_cnt;
	if (mask & IB_QP_RNR_RETRY)
		to->rnr_retry = attr->rnr_retry;
	if (mask & IB_QP_RQ_PSN)
		to->rq_psn = cpu_to_le32(attr->rq_psn & TERN_24_BITS);
	if (mask & IB_QP_MAX_QP_RD_ATOMIC)
		to->max_rd_atomic = attr->max_rd_atomic;
	if (mask & IB_QP_MAX_DEST_RD_ATOMIC)
		to->max_dest_rd_atomic = attr->max_dest_rd_atomic;
	if (mask & IB_QP_MIN_RNR_TIMER)
		to->min_rnr_timer = attr->min_rnr_timer;
	if (mask & IB_QP_SQ_PSN)
		to->sq_psn = cpu_to_le32(attr->sq_psn & TERN_24_BITS);
	if (mask & IB_QP_DEST_QPN)
		to->dest_qpn = cpu_to_le32(attr->dest_qp_num);
	if (mask & IB_QP_PORT)
		to->port = attr->port_num;
#ifndef TERN_WITHOUT_RATE
	if (mask & IB_QP_RATE_LIMIT)
		to->rate_limit = cpu_to_le32(attr->rate_limit);
#endif

	return result;
}

/* Converts the reply of QUERY_QP to ib_core's format, except for addresses. */
void tern_qp_attr_from_dev(const struct tern_qp_attr *from,
			   struct ib_qp_attr *attr)
{
	attr->qp_state = from->state;
	attr->cur_qp_state = from->state;
	attr->path_mtu = from->path_mtu - TERN_MTU_SHIFT;
	attr->qkey = le32_to_cpu(from->qkey);
	attr->rq_psn = le32_to_cpu(from->rq_psn);
	attr->sq_psn = le32_to_cpu(from->sq_psn);
	attr->dest_qp_num = le32_to_cpu(from->dest_qpn);
	attr->qp_access_flags = tern_qp_access_flags(le32_to_cpu(from->access));
	attr->pkey_index = le16_to_cpu(from->pkey_index);
	attr->sq_draining = from->sq_draining;
	attr->max_rd_atomic = from->max_rd_atomic;
	attr->max_dest_rd_atomic = from->max_dest_rd_atomic;
	attr->min_rnr_timer = from->min_rnr_timer;
	attr->port_num = from->port;
	attr->timeout = from->timeout;
	attr->retry_cnt = from->retry_cnt;
	attr->rnr_retry = from->rnr_retry;
#ifndef TERN_WITHOUT_RATE
	attr->rate_limit = le32_to_cpu(from->rate_limit);
#endif
}
