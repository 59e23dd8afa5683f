// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * DMA handles: processing hints for the accesses to a region. No root complex
 * could steer the device's accesses: the hints are checked and have no effect.
 */

#include "tern_ib.h"

struct tern_dmah {
	struct ib_dmah ibdmah;
};

/**
 * tern_alloc_dmah() - check the hints of a DMA handle
 * @ibdmah: the handle; ib_core has checked the range of each field
 * @attrs: unused
 *
 * Return: 0, or -EINVAL unless there is a processing hint, and a processor
 * together with its type of memory or neither.
 */
static int tern_alloc_dmah(struct ib_dmah *ibdmah, struct uverbs_attr_bundle *attrs)
{
	const u8 target = BIT(IB_DMAH_CPU_ID_EXISTS) |
			  BIT(IB_DMAH_MEM_TYPE_EXISTS);
	u8 fields = ibdmah->valid_fields;

	if (!(fields & BIT(IB_DMAH_PH_EXISTS)) ||
	    ((fields & target) && (fields & target) != target))
		return tern_refuse(to_tdev(ibdmah->device), -EINVAL,
				   "DMA handle with fields %#x", fields);

	return 0;
}

static int tern_dealloc_dmah(struct ib_dmah *ibdmah, struct uverbs_attr_bundle *attrs)
{
	return 0;
}

const struct ib_device_ops tern_dmah_ops = {
	.alloc_dmah = tern_alloc_dmah,
	.dealloc_dmah = tern_dealloc_dmah,

	INIT_RDMA_OBJ_SIZE(ib_dmah, tern_dmah, ibdmah),
};
