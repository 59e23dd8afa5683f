/* SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause) */
/*
 * tern hardware contract: page faults of on-demand regions. The rules for commands of
 * tern_admin.h hold here.
 */
#ifndef TERN_PAGE_FAULT_H
#define TERN_PAGE_FAULT_H

#include <linux/types.h>

/*
 * Entry of the fault EQ. The QP accessed an on-demand region and found a page
 * absent, or not writable for a store. The half of the QP that made the access is
 * parked until RESUME_QP. Each half has at most one fault at a time.
 */
struct tern_fault {
	__le64	addr;			/* first absent byte, an address of the region */
	__le64	length;			/* bytes from there on that the access needs */
	__le32	key;			/* of the region, also for an access by a window */
	__le32	qpn;
	__le32	token;			/* for RESUME_QP */
	__u8	side;			/* TERN_FAULT_* */
	__u8	write;			/* 1: the access is a store */
	__u8	port;
	__u8	rsvd_1f;
	__u8	rsvd_20[28];
	__le32	phase;			/* bit 0 as in struct tern_cqe, written last */
};

static_assert(sizeof(struct tern_fault) == 64, "tern_fault");

#define TERN_FAULT_REQUESTER		0
#define TERN_FAULT_RESPONDER		1

/*
 * ---- RESUME_QP ---- ends a fault: the parked half of the QP continues where it
 * stopped. BAD_STATE if the fault is not pending: the QP has left its state.
 */
struct tern_cmd_resume_qp {
	__le32	qpn;
	__le32	token;			/* of struct tern_fault */
	__u8	side;			/* TERN_FAULT_* */
	__u8	result;			/* TERN_RESUME_* */
	__u8	rsvd_a[6];
};

static_assert(sizeof(struct tern_cmd_resume_qp) == 16, "tern_cmd_resume_qp");

#define TERN_RESUME_RETRY		0	/* the device makes the access again */
#define TERN_RESUME_FAIL		1	/* it fails like one outside the region */

#endif /* TERN_PAGE_FAULT_H */
