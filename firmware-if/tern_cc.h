/* SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause) */
/*
 * The parameters of congestion control, in the order of TERN_CC_*: names and units
 * are mlx5's where it has the parameter. Defaults are those of Zhu et al., "Congestion
 * Control for Large-Scale RDMA Deployments" (SIGCOMM 2015). The including file defines
 * TERN_CC_PARAM(index, name, min, max, default), which this file undefines.
 */
TERN_CC_PARAM(TERN_CC_RP_CLAMP_TGT_RATE, "rp_clamp_tgt_rate", 0, 1, 1)
TERN_CC_PARAM(TERN_CC_RP_CLAMP_TGT_RATE_ATI, "rp_clamp_tgt_rate_ati", 0, 1, 1)
TERN_CC_PARAM(TERN_CC_RP_TIME_RESET, "rp_time_reset", 1, 131071, 55)
TERN_CC_PARAM(TERN_CC_RP_BYTE_RESET, "rp_byte_reset", 0, 0x7fffffff, 10000000)
TERN_CC_PARAM(TERN_CC_RP_THRESHOLD, "rp_threshold", 1, 31, 5)
TERN_CC_PARAM(TERN_CC_RP_AI_RATE, "rp_ai_rate", 1, 1000000, 40)
TERN_CC_PARAM(TERN_CC_RP_MAX_RATE, "rp_max_rate", 0, 1000000, 0)
TERN_CC_PARAM(TERN_CC_RP_HAI_RATE, "rp_hai_rate", 1, 1000000, 400)
TERN_CC_PARAM(TERN_CC_RP_MIN_DEC_FAC, "rp_min_dec_fac", 1, 100, 50)
TERN_CC_PARAM(TERN_CC_RP_MIN_RATE, "rp_min_rate", 1, 1000000, 1)
TERN_CC_PARAM(TERN_CC_RP_RATE_TO_SET_ON_FIRST_CNP, "rp_rate_to_set_on_first_cnp", 0, 1000000, 0)
TERN_CC_PARAM(TERN_CC_RP_DCE_TCP_G, "rp_dce_tcp_g", 0, 1023, 4)
TERN_CC_PARAM(TERN_CC_RP_DCE_TCP_RTT, "rp_dce_tcp_rtt", 1, 131071, 55)
TERN_CC_PARAM(TERN_CC_RP_RATE_REDUCE_MONITOR_PERIOD, "rp_rate_reduce_monitor_period", 0, 65535, 4)
TERN_CC_PARAM(TERN_CC_RP_INITIAL_ALPHA_VALUE, "rp_initial_alpha_value", 0, 1023, 1023)
TERN_CC_PARAM(TERN_CC_RP_GD, "rp_gd", 0, 15, 11)
TERN_CC_PARAM(TERN_CC_RP_ENABLE, "rp_enable", 0, 255, 255)
TERN_CC_PARAM(TERN_CC_NP_ENABLE, "np_enable", 0, 255, 255)
TERN_CC_PARAM(TERN_CC_NP_MIN_TIME_BETWEEN_CNPS, "np_min_time_between_cnps", 0, 4095, 50)
TERN_CC_PARAM(TERN_CC_NP_CNP_DSCP, "np_cnp_dscp", 0, 63, 48)
TERN_CC_PARAM(TERN_CC_NP_CNP_PRIO_MODE, "np_cnp_prio_mode", 0, 1, 0)
TERN_CC_PARAM(TERN_CC_NP_CNP_PRIO, "np_cnp_prio", 0, 7, 6)

#undef TERN_CC_PARAM
