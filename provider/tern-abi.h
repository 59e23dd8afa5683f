/* SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause) */
/* Driver-specific part of each verbs command, as rdma-core sends it. */
#ifndef TERN_PROVIDER_ABI_H
#define TERN_PROVIDER_ABI_H

#include <infiniband/kern-abi.h>
#include <kernel-abi/tern-abi.h>
#include <rdma/tern-abi.h>

DECLARE_DRV_CMD(tern_alloc_ucontext, IB_USER_VERBS_CMD_GET_CONTEXT, empty,
		tern_uresp_alloc_ucontext);
DECLARE_DRV_CMD(tern_create_cq, IB_USER_VERBS_EX_CMD_CREATE_CQ,
		tern_ureq_create_cq, tern_uresp_create_cq);
#ifndef TERN_WITHOUT_RESIZE
DECLARE_DRV_CMD(tern_resize_cq, IB_USER_VERBS_CMD_RESIZE_CQ,
		tern_ureq_resize_cq, tern_uresp_resize_cq);
#endif
DECLARE_DRV_CMD(tern_create_qp, IB_USER_VERBS_CMD_CREATE_QP,
		tern_ureq_create_qp, empty);
DECLARE_DRV_CMD(tern_create_qp_ex, IB_USER_VERBS_EX_CMD_CREATE_QP,
		tern_ureq_create_qp, empty);
#ifndef TERN_WITHOUT_ECE
DECLARE_DRV_CMD(tern_modify_qp_ex, IB_USER_VERBS_EX_CMD_MODIFY_QP,
		tern_ureq_modify_qp, empty);
#endif
#ifndef TERN_WITHOUT_RSS
DECLARE_DRV_CMD(tern_create_rss_qp, IB_USER_VERBS_EX_CMD_CREATE_QP,
		tern_ureq_create_rss_qp, empty);
DECLARE_DRV_CMD(tern_create_wq, IB_USER_VERBS_EX_CMD_CREATE_WQ,
		tern_ureq_create_wq, empty);
#endif
DECLARE_DRV_CMD(tern_create_srq, IB_USER_VERBS_CMD_CREATE_SRQ,
		tern_ureq_create_srq, tern_uresp_create_srq);
DECLARE_DRV_CMD(tern_create_srq_ex, IB_USER_VERBS_CMD_CREATE_XSRQ,
		tern_ureq_create_srq, tern_uresp_create_srq);
#ifndef TERN_WITHOUT_RESIZE
DECLARE_DRV_CMD(tern_modify_srq, IB_USER_VERBS_CMD_MODIFY_SRQ,
		tern_ureq_modify_srq, empty);
#endif
DECLARE_DRV_CMD(tern_create_ah, IB_USER_VERBS_CMD_CREATE_AH, empty,
		tern_uresp_create_ah);

#endif /* TERN_PROVIDER_ABI_H */
