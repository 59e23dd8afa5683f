/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Included by the file with the PTP clock. */
#ifndef TERN_COMPAT_PTP_H
#define TERN_COMPAT_PTP_H

#include <linux/timecounter.h>

/*
 * The argument was constant. Only the function definition has a parenthesis
 * after the name.
 */
#ifndef TERN_HAVE_CYCLECOUNTER_READ
#define tern_ptp_read_cc(argument) tern_ptp_read_cc(const argument)
#endif

#endif /* TERN_COMPAT_PTP_H */
