/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* QP attributes: checks, and conversion to and from the device's format. */
#ifndef TERN_IB_QP_UTIL_H
#define TERN_IB_QP_UTIL_H

#include "tern_ib.h"

/* Properties of a QP type of ib_core. */
struct tern_qp_kind {
	u64 cap;	/* capability that it requires, 0 for an unsupported type */
	u8 type;	/* TERN_QPT_* */
	u8 flags;	/* TERN_QP_F_* common to all QPs of the type */
	u8 op_bytes;	/* size of the largest operation segment of a WQE with payload */
};

extern const struct tern_qp_kind tern_qp_kinds[IB_QPT_MAX];

bool tern_qp_has_rq(const struct ib_qp_init_attr *attr);
u32 tern_qp_create_flags(const struct tern_ib_dev *dev, enum ib_qp_type type);
u8 tern_qp_create_flags_to_dev(u32 create_flags);
#ifndef TERN_WITHOUT_TM
bool tern_qp_is_rendezvous(const struct ib_qp_init_attr *attr);
#endif
int tern_check_create_qp(struct tern_ib_dev *dev,
			 const struct ib_qp_init_attr *attr);
bool tern_qp_geometry_ok(struct tern_ib_dev *dev,
			 const struct ib_qp_init_attr *attr,
			 const struct tern_ureq_create_qp *req);
bool tern_qp_attr_ok(struct tern_ib_dev *dev, const struct ib_qp_attr *attr,
		     int mask);
u32 tern_qp_attr_to_dev(const struct ib_qp_attr *attr, int mask,
			struct tern_qp_attr *to);
void tern_qp_attr_from_dev(const struct tern_qp_attr *from,
			   struct ib_qp_attr *attr);
u64 tern_rq_bytes(const struct ib_qp_init_attr *attr,
		  const struct tern_ureq_create_qp *req);
bool tern_rq_geometry_ok(const struct ib_qp_init_attr *attr, int log_max,
			 const struct tern_ureq_create_qp *req);

#endif /* TERN_IB_QP_UTIL_H */
