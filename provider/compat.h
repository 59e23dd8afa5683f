/* SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause) */
/*
 * The provider is code for rdma-core 65.0 (Debian testing, private ABI 65). Included
 * where Debian 13's 56.1, private ABI 34, has other calls; not part of the provider.
 */
#ifndef TERN_COMPAT_H
#define TERN_COMPAT_H

#include <config.h>
#include <infiniband/driver.h>

/*
 * The id is assigned when the driver is merged. Until then the kernel has this one in
 * each ioctl, and libibverbs, which does not match by it, finds the device by its PCI id.
 */
#define RDMA_DRIVER_TERN RDMA_DRIVER_UNKNOWN

/* Both calls got an argument that tern has no use for. */
#if IBVERBS_PABI_VERSION <= 34
#define ibv_cmd_get_context(context, cmd, cmd_size, fd_arr, resp, resp_size)   \
	ibv_cmd_get_context(context, cmd, cmd_size, resp, resp_size)
#define ibv_cmd_create_cq_ex(context, attr, prov_attr, cq, cmd, cmd_size,      \
			     resp, resp_size, flags)                           \
	ibv_cmd_create_cq_ex(context, attr, cq, cmd, cmd_size, resp,           \
			     resp_size, flags)
#endif

/* What export/rdma-core adds to util/udma_barrier.h. */
#ifndef udma_full_barrier
#include "udma_barrier.inc"
#endif

#endif
