/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Alternate paths of QPs (automatic path migration). */
#ifndef TERN_IB_APM_H
#define TERN_IB_APM_H

#include "tern_ib.h"

/* An alternate path that is about to be loaded. */
struct tern_alt_path {
	struct tern_qp_alt dev;	/* the path in the device's format */
	/* Its source GID, with a reference; NULL if there is no path. */
	const struct ib_gid_attr *sgid;
};

int tern_alt_path_get(struct ib_qp *ibqp, const struct tern_ureq_modify_qp *req,
		      struct tern_alt_path *alt);
void tern_alt_path_put(struct tern_alt_path *alt);
void tern_alt_path_to_dev(const struct tern_qp *qp,
			  const struct ib_qp_attr *attr, int mask,
			  const struct tern_alt_path *alt,
			  struct tern_qp_alt *to);
void tern_alt_path_loaded(struct tern_ib_dev *dev, struct tern_qp *qp,
			  struct tern_alt_path *alt);
void tern_alt_path_forget(struct tern_qp *qp);
void tern_alt_path_to_attr(const struct tern_qp_alt *from,
			   struct ib_qp_attr *attr);

#endif /* TERN_IB_APM_H */
