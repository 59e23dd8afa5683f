/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Device limits and capabilities, and checks against them. */
#ifndef TERN_IB_LIMITS_H
#define TERN_IB_LIMITS_H

#include <linux/limits.h>
#include <linux/minmax.h>

#include "tern_ib.h"
#ifndef TERN_WITHOUT_REREG
#include "tern_change.h"
#endif

/* ib_core's limits are signed. */
static inline int tern_limit(__le32 value)
{
	return min_t(u32, le32_to_cpu(value), INT_MAX);
}

/* Maximum size of a device memory allocation, which consists of whole pages. */
static inline u64 tern_max_dm_size(const struct tern_core *core)
{
	return ALIGN_DOWN(core->dm_size, (u64)PAGE_SIZE);
}

bool tern_exceeds(const struct tern_ib_dev *dev, const char *name, u64 value,
		  u64 limit);
bool tern_reserved_set(const struct tern_ib_dev *dev, const void *bytes,
		       size_t size);
bool tern_uar_ok(u64 bar_len, unsigned int page_shift, u32 uar);
bool tern_queue_len_ok(u64 len, u64 need);
bool tern_rq_stride_ok(unsigned int log_stride, u32 max_sge);
u32 tern_max_fast_reg_pages(const struct tern_rsp_caps *caps);
u32 tern_cqs_per_vector(const struct tern_core *core);
void tern_fill_limits(const struct tern_core *core, struct ib_device_attr *attr);
void tern_fill_optional(const struct tern_ib_dev *dev,
			struct ib_device_attr *attr);
u32 tern_uctx_caps(const struct tern_ib_dev *dev);
bool tern_cq_size_ok(struct tern_ib_dev *dev, u64 buf_len, u32 log_size,
		     u32 cqe);
int tern_check_create_cq(struct tern_ib_dev *dev,
			 const struct ib_cq_init_attr *attr,
			 const struct tern_ureq_create_cq *req);
int tern_check_create_srq(struct tern_ib_dev *dev,
			  const struct ib_srq_init_attr *attr);
bool tern_srq_size_ok(struct tern_ib_dev *dev, u64 buf_len,
		      unsigned int log_size, unsigned int log_stride,
		      u32 max_wr);
int tern_check_alloc_dm(const struct tern_core *core,
			const struct ib_dm_alloc_attr *attr);
#ifndef TERN_WITHOUT_REREG
u32 tern_rereg_mask(int flags);
#endif
bool tern_dm_rsp_ok(const struct tern_core *core,
		    const struct tern_rsp_alloc_dm *rsp, u64 length);
u32 tern_user_cq_flags(const struct tern_ib_dev *dev);

#endif /* TERN_IB_LIMITS_H */
