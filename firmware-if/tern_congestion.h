/* SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause) */
/*
 * tern hardware contract: the admin commands of congestion control (DCQCN).
 * Kernel only.
 */
#ifndef TERN_CONGESTION_H
#define TERN_CONGESTION_H

#include <linux/types.h>

/* Command codes. */
#define TERN_CMD_QUERY_CC		0x58
#define TERN_CMD_SET_CC			0x59

/*
 * ---- QUERY_CC: tern_cmd_query_port; out: tern_cc_params. SET_CC ---- Parameters of
 * congestion control, for all QPs of the port. tern_cc.h has names, ranges and
 * defaults. Rates are in Mbit/s, times in us.
 */
#define TERN_CC_RP_CLAMP_TGT_RATE		0	/* each CNP makes the rate the target */
#define TERN_CC_RP_CLAMP_TGT_RATE_ATI		1	/* ... or one after a timer's increase */
#define TERN_CC_RP_TIME_RESET			2	/* between increases */
#define TERN_CC_RP_BYTE_RESET			3	/* bytes between increases, 0: none */
#define TERN_CC_RP_THRESHOLD			4	/* increases of fast recovery */
#define TERN_CC_RP_AI_RATE			5	/* additive increase */
#define TERN_CC_RP_MAX_RATE			6	/* 0: port speed */
#define TERN_CC_RP_HAI_RATE			7	/* hyper increase */
#define TERN_CC_RP_MIN_DEC_FAC			8	/* a cut leaves at least this percentage */
#define TERN_CC_RP_MIN_RATE			9
#define TERN_CC_RP_RATE_TO_SET_ON_FIRST_CNP	10	/* 0: cut the maximum */
#define TERN_CC_RP_DCE_TCP_G			11	/* weight of a CNP in alpha, of 1024 */
#define TERN_CC_RP_DCE_TCP_RTT			12	/* without a CNP alpha decays */
#define TERN_CC_RP_RATE_REDUCE_MONITOR_PERIOD	13	/* minimum time between cuts */
#define TERN_CC_RP_INITIAL_ALPHA_VALUE		14	/* of 1024 */
#define TERN_CC_RP_GD				15	/* a cut takes alpha / 2^gd of the rate */
#define TERN_CC_RP_ENABLE			16	/* bit n: QPs of priority n */
#define TERN_CC_NP_ENABLE			17	/* likewise */
#define TERN_CC_NP_MIN_TIME_BETWEEN_CNPS	18	/* of a QP */
#define TERN_CC_NP_CNP_DSCP			19
#define TERN_CC_NP_CNP_PRIO_MODE		20	/* 0: np_cnp_prio, 1: that of the QP */
#define TERN_CC_NP_CNP_PRIO			21
#define TERN_CC_NUM				22

struct tern_cc_params {
	__le32	value[32];		/* TERN_CC_*; the rest is 0 */
};

static_assert(sizeof(struct tern_cc_params) == 128, "tern_cc_params");

struct tern_cmd_set_cc {
	__le32			mask;	/* bit n: set TERN_CC_* number n */
	__u8			port;
	__u8			rsvd_5[3];
	struct tern_cc_params	params;
};

static_assert(sizeof(struct tern_cmd_set_cc) == 136, "tern_cmd_set_cc");

#endif /* TERN_CONGESTION_H */
