/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The hardware contract, with the headers that it depends on. */
#ifndef TERN_HW_H
#define TERN_HW_H

#include <linux/bitfield.h>
#include <linux/bits.h>
#include <linux/build_bug.h>
#include <linux/types.h>

#include "tern_regs.h"
#include "tern_cq.h"
#include "tern_admin.h"
#include "tern_eth.h"

#endif /* TERN_HW_H */
