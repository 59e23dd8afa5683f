/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Raw packet QPs, RSS QPs, flows. */
#ifndef TERN_IB_RAW_H
#define TERN_IB_RAW_H

#include "tern_ib.h"

/* tern_ib_raw.c */
u32 tern_qp_create_flags(const struct tern_ib_dev *dev, enum ib_qp_type type);
u8 tern_qp_create_flags_to_dev(u32 create_flags);
int tern_create_rss_qp(struct tern_ib_dev *dev, struct tern_qp *qp,
		       struct ib_qp_init_attr *attr, struct ib_udata *udata);
void tern_destroy_rss_qp(struct tern_ib_dev *dev, struct tern_qp *qp);

#if IS_ENABLED(CONFIG_KUNIT)
void tern_rss_fields(u64 mask, u8 *fields);
int tern_check_rss(const struct tern_ib_dev *dev,
		   const struct tern_ureq_create_rss_qp *req,
		   const struct ib_rwq_ind_table *table);

/* tern_ib_flow.c */
int tern_flow_from_attr(const struct tern_ib_dev *dev,
			const struct ib_flow_attr *attr,
			struct tern_cmd_create_flow *cmd);

/* tern_ib_wq.c */
bool tern_rwq_transition_ok(enum ib_wq_state from, enum ib_wq_state to);
int tern_check_create_wq(const struct tern_ib_dev *dev,
			 const struct ib_wq_init_attr *attr,
			 const struct tern_ureq_create_wq *req);
#endif

#endif /* TERN_IB_RAW_H */
