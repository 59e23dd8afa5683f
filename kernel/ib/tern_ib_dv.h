/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Methods for direct verbs, and operation pages of device memory. */
#ifndef TERN_IB_DV_H
#define TERN_IB_DV_H

#include "tern_ib.h"

void tern_dm_ops_init(struct tern_dm *dm);
void tern_dm_ops_remove(struct tern_dm *dm);
extern const struct uapi_definition tern_dv_defs[];

/* The methods, as their KUnit tests call them. */
int tern_query_key(struct ib_pd *ibpd, u32 key,
		   struct tern_uresp_query_key *resp);
int tern_qp_set_sport(struct ib_qp *ibqp, u16 sport);
int tern_qp_get_sport(struct ib_qp *ibqp, u16 *sport);

#endif /* TERN_IB_DV_H */
