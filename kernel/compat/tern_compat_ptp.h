/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Included by the file with the PTP clock. */
#ifndef TERN_COMPAT_PTP_H
#define TERN_COMPAT_PTP_H

#include <linux/timecounter.h>
#include <rdma/ib_user_verbs.h>

#ifndef TERN_HAVE_CLOCK_INFO
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

/*
 * The argument was constant. Only the function definition has a parenthesis
 * after the name.
 */
#ifndef TERN_HAVE_CYCLECOUNTER_READ
#define tern_ptp_read_cc(argument) tern_ptp_read_cc(const argument)
#endif

#endif /* TERN_COMPAT_PTP_H */
