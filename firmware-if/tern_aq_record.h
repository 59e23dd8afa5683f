/* SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause) */
/* tern hardware contract: the doorbell record of the admin queue. Kernel only. */
#ifndef TERN_AQ_RECORD_H
#define TERN_AQ_RECORD_H

#include <linux/types.h>

/*
 * Doorbell record of the admin queue, as in tern_cq.h. Without one, software writes
 * TERN_REG_AQ_TAIL for each command, and each completion raises vector 0.
 *
 * Software stores the entries and tail, issues a full barrier and reads status: it
 * need not write TERN_REG_AQ_TAIL while the device polls. To stop polling, the device
 * clears the bit, issues a full barrier and reads tail once more.
 *
 * The device writes a completion, issues a full barrier, reads arm and raises vector 0
 * if that is the index of the completion. Software stores arm, issues a full barrier
 * and looks for that completion: it may have been written before.
 */
struct tern_aq_record {
	__le32	tail;		/* software: as TERN_REG_AQ_TAIL */
	__le32	arm;		/* software: index of a completion */
	__u8	rsvd_8[56];
	__le32	status;		/* device: TERN_AQ_ST_* */
	__u8	rsvd_44[60];
};

static_assert(sizeof(struct tern_aq_record) == 128, "tern_aq_record");

#define TERN_AQ_ST_POLLED		BIT(0)

#endif /* TERN_AQ_RECORD_H */
