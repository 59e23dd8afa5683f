/* SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause) */
/*
 * The provider is written for rdma-core 65.0 (Debian testing, private ABI 65).
 * This file adapts calls that differ in Debian 13's 56.1, private ABI 34. It is
 * not part of the provider.
 */
#ifndef TERN_COMPAT_H
#define TERN_COMPAT_H

#include <config.h>
#include <infiniband/driver.h>

/*
 * The id will be assigned when the driver is merged. Until then the kernel
 * expects this one in each ioctl. libibverbs does not match by it, and finds
 * the device by PCI id.
 */
#define RDMA_DRIVER_TERN RDMA_DRIVER_UNKNOWN

/* These calls gained an argument that tern does not use. */
#if IBVERBS_PABI_VERSION <= 34
#define ibv_cmd_create_qp_ex2(context, qp, attr, cmd, cmd_size, resp,          \
			      resp_size, driver)                               \
	ibv_cmd_create_qp_ex2(context, qp, attr, cmd, cmd_size, resp,          \
			      resp_size)
#define ibv_cmd_get_context(context, cmd, cmd_size, fd_arr, resp, resp_size)   \
	ibv_cmd_get_context(context, cmd, cmd_size, resp, resp_size)
#define ibv_cmd_create_cq_ex(context, attr, prov_attr, cq, cmd, cmd_size,      \
			     resp, resp_size, flags)                           \
	ibv_cmd_create_cq_ex(context, attr, cq, cmd, cmd_size, resp,           \
			     resp_size, flags)
#endif

/* Memory for confidential computing came with 64.0. */
#if IBVERBS_PABI_VERSION < 64
#define IBV_PARENT_DOMAIN_INIT_ATTR_ALLOW_CC_UNPROTECTED_ALLOC 0
#endif

/* The clock page common to all providers came with 65.0. */
#if IBVERBS_PABI_VERSION < 65
struct ib_uverbs_clock_info {
	__u32 sign;
	__u32 resv;
	__aligned_u64 nsec;
	__aligned_u64 cycles;
	__aligned_u64 frac;
	__u32 mult;
	__u32 shift;
	__aligned_u64 mask;
	__aligned_u64 overflow_period;
};
#endif

/* Added to util/udma_barrier.h by packaging/upstream/rdma-core. */
#ifndef udma_full_barrier
#include "udma_barrier.inc"
#endif

#endif
