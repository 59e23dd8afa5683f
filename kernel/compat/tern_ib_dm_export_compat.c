// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Replaces tern_ib_dm_export.c on kernels whose ib_core does not export
 * dma-bufs. Not part of the driver.
 */

#include "../ib/tern_ib.h"

int tern_dm_export_init(struct tern_ib_dev *dev)
{
	return 0;
}

const struct ib_device_ops tern_dm_export_ops = {};
