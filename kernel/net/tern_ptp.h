/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* PTP clock over the device clock, and time stamps of frames. */
#ifndef TERN_PTP_H
#define TERN_PTP_H

#include <linux/net_tstamp.h>
#include <linux/ptp_clock_kernel.h>
#include <linux/seqlock.h>
#include <linux/timecounter.h>

struct ib_uverbs_clock_info;
struct kernel_ethtool_ts_info;
struct sk_buff;
struct tern_net;

/* The PTP clock. */
struct tern_ptp {
	struct ptp_clock_info info;	/* operations */
	struct ptp_clock *clock;	/* the clock, NULL if there is none */
	seqlock_t lock;	/* protects @cc, @tc and @page */
	spinlock_t clock_lock;	/* reading the low word of the clock latches the high word */
	struct cyclecounter cc;	/* the device clock, whose multiplier is the rate */
	struct timecounter tc;	/* time of the PTP clock */
	/* @cc and @tc as processes see them; NULL without a clock. */
	struct ib_uverbs_clock_info *page;
	struct kernel_hwtstamp_config config;	/* time stamps in use; written under RTNL */
};

void tern_ptp_init(struct tern_net *net);
int tern_ptp_register(struct tern_net *net);
void tern_ptp_unregister(struct tern_net *net);
void tern_ptp_reset(struct tern_net *net);
u64 tern_ptp_time(struct tern_net *net, u64 device_ns);
void tern_ptp_stamp_tx(struct tern_net *net, struct sk_buff *skb, u64 device_ns);
int tern_hwtstamp_get(struct net_device *netdev, struct kernel_hwtstamp_config *config);
int tern_hwtstamp_set(struct net_device *netdev, struct kernel_hwtstamp_config *config,
		      struct netlink_ext_ack *extack);
int tern_get_ts_info(struct net_device *netdev, struct kernel_ethtool_ts_info *info);

#endif /* TERN_PTP_H */
