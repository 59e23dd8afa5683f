/* SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause) */
/*
 * tern hardware contract: the file of the device's event log, for tools on the
 * host. Neither a driver nor a provider needs it. A header, then records in the order
 * of the events; Documentation/spec/event-log.rst says what each member means for each
 * type.
 */
#ifndef TERN_EVENT_LOG_H
#define TERN_EVENT_LOG_H

#include <linux/types.h>

#define TERN_LOG_MAGIC		"ternlog"	/* and a NUL */
#define TERN_LOG_VERSION	1

/* tern_log_header.clock */
#define TERN_LOG_CLOCK_MONOTONIC	0	/* CLOCK_MONOTONIC of the host */
#define TERN_LOG_CLOCK_VIRTUAL		1	/* stops while the machine is stopped */

struct tern_log_header {
	__u8	magic[8];	/* TERN_LOG_MAGIC */
	__le16	version;	/* TERN_LOG_VERSION */
	__le16	header_size;	/* offset of the first record */
	__le16	record_size;
	__u8	clock;		/* TERN_LOG_CLOCK_* */
	__u8	rsvd_f;
	__le64	epoch;		/* ns from 1970 to 0 of the device clock */
	__u8	mac[6];		/* permanent address of the port */
	__u8	rsvd_1e[2];
	__u8	name[32];	/* of the adapter, UTF-8; ends with a NUL */
};
static_assert(sizeof(struct tern_log_header) == 64, "tern_log_header");

/* tern_log_event.type */
#define TERN_LOG_LOST		1	/* records were lost here */
#define TERN_LOG_EPOCH		2	/* the device clock has a new epoch */
#define TERN_LOG_RESET		3	/* all objects are gone */
#define TERN_LOG_DOORBELL	4
#define TERN_LOG_POSTED		5	/* a new producer index was read */
#define TERN_LOG_WQE		6	/* a WQE was fetched */
#define TERN_LOG_SENT		7	/* a packet */
#define TERN_LOG_RECEIVED	8
#define TERN_LOG_DROPPED	9	/* a packet, by the device */
#define TERN_LOG_RETRY		10	/* the requester goes back */
#define TERN_LOG_CHECK		11	/* of a key */
#define TERN_LOG_KEY		12	/* a key or what it refers to changes */
#define TERN_LOG_PAGE_FAULT	13
#define TERN_LOG_CQE		14
#define TERN_LOG_INTERRUPT	15
#define TERN_LOG_FAULT		16	/* an injected fault */
#define TERN_LOG_QP_STATE	17
#define TERN_LOG_FULL		18	/* the file is at its limit */
#define TERN_LOG_RATE		19	/* a QP's rate changes */

/* tern_log_event.flags */
#define TERN_LOG_F_RECV		BIT(0)	/* receive WQE or its CQE; a fault of rx */
#define TERN_LOG_F_LOOPBACK	BIT(1)	/* the packet does not leave the device */
#define TERN_LOG_F_ACK_REQ	BIT(2)
#define TERN_LOG_F_SOLICITED	BIT(3)
#define TERN_LOG_F_CE		BIT(4)	/* ECN: congestion experienced */
#define TERN_LOG_F_BECN		BIT(5)
#define TERN_LOG_F_AETH		BIT(6)	/* detail has the AETH */
#define TERN_LOG_F_WRITE	BIT(7)	/* the access stores */
#define TERN_LOG_F_RESPONDER	BIT(8)	/* half of the QP, else the requester */
#define TERN_LOG_F_REFUSED	BIT(9)	/* the doorbell has no effect */

/* TERN_LOG_DROPPED: key */
#define TERN_LOG_DROP_LINK	1	/* the port is down */
#define TERN_LOG_DROP_MALFORMED	2
#define TERN_LOG_DROP_ICRC	3
#define TERN_LOG_DROP_NO_QP	4	/* no QP of this number and type, or P_Key */
#define TERN_LOG_DROP_QP_STATE	5	/* the QP does not take it now, or from there */

/* TERN_LOG_CHECK: code */
#define TERN_LOG_CHECK_LOCAL		1	/* access by an lkey */
#define TERN_LOG_CHECK_REMOTE		2	/* by an rkey */
#define TERN_LOG_CHECK_BIND		3
#define TERN_LOG_CHECK_REGISTER		4	/* REG_MR */
#define TERN_LOG_CHECK_LOCAL_INV	5
#define TERN_LOG_CHECK_REMOTE_INV	6	/* SEND_WITH_INV */

/* TERN_LOG_CHECK: index */
#define TERN_LOG_CHECK_OK	0
#define TERN_LOG_CHECK_ABSENT	1	/* a page is absent */
#define TERN_LOG_CHECK_DENIED	2	/* detail: TERN_LOG_RULE_* */
#define TERN_LOG_CHECK_DMA	3	/* an address is not RAM */

/* The rule that a denied operation breaks. The first 29 are those of windows. */
#define TERN_LOG_RULE_NONE		0
#define TERN_LOG_RULE_MW_PD		1
#define TERN_LOG_RULE_MW_QP		2
#define TERN_LOG_RULE_MW_LOW		3
#define TERN_LOG_RULE_MW_HIGH		4
#define TERN_LOG_RULE_MW_WRAP		5
#define TERN_LOG_RULE_MW_READ		6
#define TERN_LOG_RULE_MW_WRITE		7
#define TERN_LOG_RULE_MW_ATOMIC		8
#define TERN_LOG_RULE_MW_FLUSH		9
#define TERN_LOG_RULE_MW_VARIANT	10
#define TERN_LOG_RULE_MW_UNBOUND	11
#define TERN_LOG_RULE_MW_MR_WRITE	12
#define TERN_LOG_RULE_BIND_QP_PD	13
#define TERN_LOG_RULE_BIND_MR_PD	14
#define TERN_LOG_RULE_BIND_MR_RIGHT	15
#define TERN_LOG_RULE_BIND_LOCAL_WRITE	16
#define TERN_LOG_RULE_BIND_RANGE	17
#define TERN_LOG_RULE_BIND_WRAP		18
#define TERN_LOG_RULE_BIND_FREE		19
#define TERN_LOG_RULE_BIND_TYPE		20
#define TERN_LOG_RULE_BIND_ZERO_LENGTH	21
#define TERN_LOG_RULE_BIND_KEY		22
#define TERN_LOG_RULE_INV_FREE		23
#define TERN_LOG_RULE_INV_TYPE		24
#define TERN_LOG_RULE_INV_QP		25
#define TERN_LOG_RULE_INV_PD		26
#define TERN_LOG_RULE_INV_VARIANT	27
#define TERN_LOG_RULE_MR_BUSY		28
#define TERN_LOG_RULE_INV_MR_BOUND	29
#define TERN_LOG_RULE_KEY		32	/* nothing has the key */
#define TERN_LOG_RULE_MR_CLOSED		33
#define TERN_LOG_RULE_MR_PD		34
#define TERN_LOG_RULE_MR_LOCAL_WRITE	35
#define TERN_LOG_RULE_MR_REMOTE_WRITE	36
#define TERN_LOG_RULE_MR_REMOTE_READ	37
#define TERN_LOG_RULE_MR_REMOTE_ATOMIC	38
#define TERN_LOG_RULE_MR_FLUSH		39
#define TERN_LOG_RULE_MR_LOW		40
#define TERN_LOG_RULE_MR_HIGH		41
#define TERN_LOG_RULE_PRIVILEGED	42
#define TERN_LOG_RULE_FIELDS		43	/* a field of the WQE */
#define TERN_LOG_RULE_FAST		44	/* not a region of kind FAST */
#define TERN_LOG_RULE_FAST_OPEN		45
#define TERN_LOG_RULE_INV_RIGHTS	46
#define TERN_LOG_RULE_QP_RIGHTS		47

/* TERN_LOG_KEY: code */
#define TERN_LOG_KEY_CREATED		1
#define TERN_LOG_KEY_DESTROYED		2
#define TERN_LOG_KEY_CHANGED		3	/* REREG_MR */
#define TERN_LOG_KEY_OPENED		4
#define TERN_LOG_KEY_CLOSED		5
#define TERN_LOG_KEY_BOUND		6
#define TERN_LOG_KEY_UNBOUND		7

/* TERN_LOG_KEY: index */
#define TERN_LOG_KIND_MR	1
#define TERN_LOG_KIND_FAST	2
#define TERN_LOG_KIND_MR_ON_DM	3
#define TERN_LOG_KIND_MW_1	4
#define TERN_LOG_KIND_MW_2	5
#define TERN_LOG_KIND_DM	6	/* key is the number of the allocation */

/* TERN_LOG_PAGE_FAULT: code */
#define TERN_LOG_PF_RAISED	1
#define TERN_LOG_PF_RESUMED	2
#define TERN_LOG_PF_FAILED	3
#define TERN_LOG_PF_CANCELLED	4

/* TERN_LOG_FAULT: code, the action of the rule */
#define TERN_LOG_FAULT_DROP		0
#define TERN_LOG_FAULT_DUPLICATE	1
#define TERN_LOG_FAULT_DELAY		2
#define TERN_LOG_FAULT_REORDER		3
#define TERN_LOG_FAULT_CORRUPT		4
#define TERN_LOG_FAULT_MARK		5
#define TERN_LOG_FAULT_FATAL		6
#define TERN_LOG_FAULT_ADMIN_DROP	7
#define TERN_LOG_FAULT_DMA_ERROR	8

/* TERN_LOG_QP_STATE: value, the cause; code and index: no QP before or after it */
#define TERN_LOG_BY_COMMAND	0
#define TERN_LOG_BY_DEVICE	1
#define TERN_LOG_NO_QP		0xff

struct tern_log_event {
	__le64	time;	/* device clock, ns */
	__u8	type;
	__u8	code;
	__le16	flags;
	__le32	qpn;
	__le64	addr;
	__le64	length;
	__le32	key;
	__le32	index;
	__le32	value;
	__le32	detail;
};
static_assert(sizeof(struct tern_log_event) == 48, "tern_log_event");

#endif /* TERN_EVENT_LOG_H */
