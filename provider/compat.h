/* SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause) */
/*
 * What differs between the releases of rdma-core that tern builds in: Debian 13
 * has 56.1 with private ABI 34, testing has 65.0 with 65.
 */
#ifndef TERN_COMPAT_H
#define TERN_COMPAT_H

#include <config.h>
#include <infiniband/driver.h>

/* Both calls got an argument that tern has no use for: NULL. */
static inline int tern_cmd_get_context(struct verbs_context *context,
				       struct ibv_get_context *cmd,
				       size_t cmd_size,
				       struct ib_uverbs_get_context_resp *resp,
				       size_t resp_size)
{
#if IBVERBS_PABI_VERSION > 34
	return ibv_cmd_get_context(context, cmd, cmd_size, NULL, resp,
				   resp_size);
#else
	return ibv_cmd_get_context(context, cmd, cmd_size, resp, resp_size);
#endif
}

static inline int
tern_cmd_create_cq_ex(struct ibv_context *context,
		      const struct ibv_cq_init_attr_ex *attr,
		      struct verbs_cq *cq, struct ibv_create_cq_ex *cmd,
		      size_t cmd_size, struct ib_uverbs_ex_create_cq_resp *resp,
		      size_t resp_size)
{
#if IBVERBS_PABI_VERSION > 34
	return ibv_cmd_create_cq_ex(context, attr, NULL, cq, cmd, cmd_size,
				    resp, resp_size, 0);
#else
	return ibv_cmd_create_cq_ex(context, attr, cq, cmd, cmd_size, resp,
				    resp_size, 0);
#endif
}

#endif
