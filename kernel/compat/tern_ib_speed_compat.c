// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Replaces tern_ib_speed.c on kernels whose ib_core does not ask for the speed.
 * Not part of the driver.
 */

#include "../ib/tern_ib.h"

const struct ib_device_ops tern_speed_ops = {};
