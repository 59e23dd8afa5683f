/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Raw packet QPs, RSS QPs, flows. */
#ifndef TERN_IB_RAW_H
#define TERN_IB_RAW_H

#include "tern_flow.h"
#include "tern_ib.h"

/* tern_ib_raw.c */
u32 tern_raw_qp_create_flags(const struct tern_ib_dev *dev);
u8 tern_raw_qp_create_flags_to_dev(u32 create_flags);
void tern_fill_raw(const struct tern_ib_dev *dev, struct ib_device_attr *attr);
u32 tern_raw_uctx_caps(const struct tern_ib_dev *dev);
#ifndef TERN_WITHOUT_RSS

/* The core keeps the table of work queues; the driver has nothing to add. */
struct tern_rwq_ind_table {
	struct ib_rwq_ind_table ibtable;
};

/* Whether the device has what RSS QPs, and flows, need. */
static inline bool tern_has_steering(const struct tern_ib_dev *dev)
{
	return tern_has_cap(dev, TERN_CAP_RAW_QP) &&
	       tern_has_cap(dev, TERN_CAP_STEERING);
}

/* Whether the QP spreads frames over work queues and has no queues itself. */
static inline bool tern_qp_is_rss(const struct tern_qp *qp)
{
	return qp->ibqp.rwq_ind_tbl;
}

/* tern_ib_rss.c */
int tern_create_rss_qp(struct tern_ib_dev *dev, struct tern_qp *qp,
		       struct ib_qp_init_attr *attr, struct ib_udata *udata);
void tern_destroy_rss_qp(struct tern_ib_dev *dev, struct tern_qp *qp);
int tern_rss_exec_create(struct tern_ib_dev *dev, struct tern_qp *qp,
			 const struct ib_rwq_ind_table *table,
			 const struct tern_ureq_create_rss_qp *req);
void tern_fill_rss(const struct tern_ib_dev *dev, struct ib_device_attr *attr);
u32 tern_rss_uctx_caps(const struct tern_ib_dev *dev);
void tern_rss_fields(u64 mask, u8 *fields);
int tern_check_rss(const struct tern_ib_dev *dev,
		   const struct tern_ureq_create_rss_qp *req,
		   const struct ib_rwq_ind_table *table);

/* tern_ib_wq.c */
extern const struct ib_device_ops tern_wq_ops;
void tern_rwq_fatal(struct tern_ib_dev *dev, u32 wqn, u32 generation);
bool tern_rwq_transition_ok(enum ib_wq_state from, enum ib_wq_state to);
int tern_check_create_wq(const struct tern_ib_dev *dev,
			 const struct ib_wq_init_attr *attr,
			 const struct tern_ureq_create_wq *req);
#endif
#ifndef TERN_WITHOUT_FLOW

/* A counter of flows. */
struct tern_counters {
	struct ib_counters ibcounters;
	u32 id;
};

static inline struct tern_counters *to_tcounters(struct ib_counters *counters)
{
	return container_of(counters, struct tern_counters, ibcounters);
}

/* tern_ib_flow.c */
extern const struct ib_device_ops tern_flow_ops;
struct ib_flow *tern_create_flow(struct ib_qp *ibqp, struct ib_flow_attr *attr,
				 struct ib_udata *udata);
int tern_destroy_flow(struct ib_flow *ibflow);
int tern_create_counters(struct ib_counters *ibcounters,
			 struct uverbs_attr_bundle *attrs);
int tern_read_counters(struct ib_counters *ibcounters,
		       struct ib_counters_read_attr *attr,
		       struct uverbs_attr_bundle *attrs);
int tern_flow_from_attr(const struct tern_ib_dev *dev,
			const struct ib_flow_attr *attr,
			struct tern_cmd_create_flow *cmd);
#endif

#endif /* TERN_IB_RAW_H */
