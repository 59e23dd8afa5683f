// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Replaces tern_ib_qp_counters.c on kernels whose ib_core allocates the counters
 * of QPs itself: there they belong to the port only. Not part of the driver.
 */

#include "../ib/tern_ib.h"

const struct ib_device_ops tern_qp_counter_ops = {};
