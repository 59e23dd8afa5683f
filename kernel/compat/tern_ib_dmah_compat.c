// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Replaces tern_ib_dmah.c on kernels whose ib_core has no DMA handles. Not part
 * of the driver.
 */

#include "../ib/tern_ib.h"

const struct ib_device_ops tern_dmah_ops = {};
