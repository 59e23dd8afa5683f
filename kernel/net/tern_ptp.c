// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* PTP clock over the device clock, and time stamps of frames. */

#include <linux/ethtool.h>
#include <linux/gfp.h>
#include <linux/io-64-nonatomic-lo-hi.h>
#include <linux/ktime.h>
#include <linux/rtnetlink.h>
#include <linux/skbuff.h>
#include <rdma/ib_user_verbs.h>

#include "tern_net.h"

/*
 * The device clock counts ns. With this shift the rate has a resolution of
 * 4 ppb, and 2^36 ns, more than a minute, can pass between two updates.
 */
#define TERN_PTP_SHIFT		28
#define TERN_PTP_MULT		BIT(TERN_PTP_SHIFT)
#define TERN_PTP_UPDATE		(20 * HZ)
#define TERN_PTP_MAX_PPB	500000000
/* Less than 2^64 / (1.5 * TERN_PTP_MULT): at every rate the product fits. */
#define TERN_PTP_OVERFLOW_NS	BIT_ULL(35)

static struct tern_net *tern_ptp_net(struct ptp_clock_info *info)
{
	return container_of(info, struct tern_net, ptp.info);
}

/* A device that was removed, or that the PCI core is resetting, reads as all ones. */
static bool tern_ptp_is_gone(u64 device_ns)
{
	return upper_32_bits(device_ns) == U32_MAX;
}

/* Reads the device clock in ns. Any context but NMI. */
static u64 tern_ptp_read_clock(struct tern_net *net)
{
	unsigned long flags;
	u64 clock;

	spin_lock_irqsave(&net->ptp.clock_lock, flags);
	clock = lo_hi_readq(net->tdev->regs + TERN_REG_CLOCK_LO);
	spin_unlock_irqrestore(&net->ptp.clock_lock, flags);
	return clock;
}

static u64 tern_ptp_read_cc(struct cyclecounter *cc)
{
	struct tern_net *net = container_of(cc, struct tern_net, ptp.cc);
	u64 device_ns = tern_ptp_read_clock(net);

	/* Time stops. */
	if (tern_ptp_is_gone(device_ns))
		return net->ptp.tc.cycle_last;
	return device_ns;
}

/* Time of the PTP clock at @device_ns of the device clock. Any context. */
u64 tern_ptp_time(struct tern_net *net, u64 device_ns)
{
	struct tern_ptp *ptp = &net->ptp;
	unsigned int seq;
	u64 ns;

	do {
		seq = read_seqbegin(&ptp->lock);
		ns = timecounter_cyc2time(&ptp->tc, device_ns);
	} while (read_seqretry(&ptp->lock, seq));
	return ns;
}

/*
 * Shows processes the state of the clock. They start again if the sign is odd or
 * has changed. The caller holds the lock.
 */
static void tern_ptp_publish(struct tern_ptp *ptp)
{
	struct ib_uverbs_clock_info *page = ptp->page;

	WRITE_ONCE(page->sign, page->sign + 1);
	/* Make the odd sign visible before the updates that follow. */
	smp_wmb();
	WRITE_ONCE(page->nsec, ptp->tc.nsec);
	WRITE_ONCE(page->cycles, ptp->tc.cycle_last);
	WRITE_ONCE(page->frac, ptp->tc.frac);
	WRITE_ONCE(page->mult, ptp->cc.mult);
	/* Make the updates visible before the even sign. */
	smp_store_release(&page->sign, page->sign + 1);
}

/* Reports when a frame was sent. */
void tern_ptp_stamp_tx(struct tern_net *net, struct sk_buff *skb, u64 device_ns)
{
	struct skb_shared_hwtstamps stamps = {
		.hwtstamp = ns_to_ktime(tern_ptp_time(net, device_ns)),
	};

	skb_tstamp_tx(skb, &stamps);
}

static int tern_ptp_adjfine(struct ptp_clock_info *info, long scaled_ppm)
{
	struct tern_ptp *ptp = &tern_ptp_net(info)->ptp;
	unsigned long flags;

	write_seqlock_irqsave(&ptp->lock, flags);
	timecounter_read(&ptp->tc);
	ptp->cc.mult = adjust_by_scaled_ppm(TERN_PTP_MULT, scaled_ppm);
	tern_ptp_publish(ptp);
	write_sequnlock_irqrestore(&ptp->lock, flags);
	return 0;
}

static int tern_ptp_adjtime(struct ptp_clock_info *info, s64 delta)
{
	struct tern_ptp *ptp = &tern_ptp_net(info)->ptp;
	unsigned long flags;

	write_seqlock_irqsave(&ptp->lock, flags);
	timecounter_adjtime(&ptp->tc, delta);
	tern_ptp_publish(ptp);
	write_sequnlock_irqrestore(&ptp->lock, flags);
	return 0;
}

static int tern_ptp_gettimex(struct ptp_clock_info *info, struct timespec64 *ts,
			     struct ptp_system_timestamp *sts)
{
	struct tern_net *net = tern_ptp_net(info);
	u64 device_ns;

	if (tern_dev_dead(net->tdev))
		return -EIO;
	ptp_read_system_prets(sts);
	device_ns = tern_ptp_read_clock(net);
	ptp_read_system_postts(sts);
	if (tern_ptp_is_gone(device_ns))
		return -EIO;
	*ts = ns_to_timespec64(tern_ptp_time(net, device_ns));
	return 0;
}

static void tern_ptp_set(struct tern_ptp *ptp, u64 ns)
{
	unsigned long flags;

	write_seqlock_irqsave(&ptp->lock, flags);
	timecounter_init(&ptp->tc, &ptp->cc, ns);
	tern_ptp_publish(ptp);
	write_sequnlock_irqrestore(&ptp->lock, flags);
}

static int tern_ptp_settime(struct ptp_clock_info *info, const struct timespec64 *ts)
{
	tern_ptp_set(&tern_ptp_net(info)->ptp, timespec64_to_ns(ts));
	return 0;
}

/* Reads the clock before the product with the rate overflows. */
static long tern_ptp_work(struct ptp_clock_info *info)
{
	struct tern_net *net = tern_ptp_net(info);
	unsigned long flags;

	if (!tern_dev_dead(net->tdev)) {
		write_seqlock_irqsave(&net->ptp.lock, flags);
		timecounter_read(&net->ptp.tc);
		tern_ptp_publish(&net->ptp);
		write_sequnlock_irqrestore(&net->ptp.lock, flags);
	}
	return TERN_PTP_UPDATE;
}

static const struct ptp_clock_info tern_ptp_info = {
	.owner		= THIS_MODULE,
	.name		= "tern",
	.max_adj	= TERN_PTP_MAX_PPB,
	.adjfine	= tern_ptp_adjfine,
	.adjtime	= tern_ptp_adjtime,
	.gettimex64	= tern_ptp_gettimex,
	.settime64	= tern_ptp_settime,
	.do_aux_work	= tern_ptp_work,
};

/* Must run before the interface can be opened. */
void tern_ptp_init(struct tern_net *net)
{
	struct tern_ptp *ptp = &net->ptp;

	seqlock_init(&ptp->lock);
	spin_lock_init(&ptp->clock_lock);
	ptp->info = tern_ptp_info;
	ptp->cc.read = tern_ptp_read_cc;
	ptp->cc.mask = CYCLECOUNTER_MASK(64);
	ptp->cc.mult = TERN_PTP_MULT;
	ptp->cc.shift = TERN_PTP_SHIFT;
}

/* Processes that have mapped the page keep it with its last contents. */
static void tern_ptp_free_page(struct tern_ptp *ptp)
{
	free_page((unsigned long)ptp->page);
	ptp->page = NULL;
}

static int tern_ptp_alloc_page(struct tern_ptp *ptp)
{
	ptp->page = (void *)get_zeroed_page(GFP_KERNEL);
	if (!ptp->page)
		return -ENOMEM;
	ptp->page->mask = ptp->cc.mask;
	ptp->page->shift = ptp->cc.shift;
	ptp->page->overflow_period = TERN_PTP_OVERFLOW_NS;
	return 0;
}

/* Must run before the RDMA driver is bound. */
int tern_ptp_register(struct tern_net *net)
{
	struct tern_ptp *ptp = &net->ptp;
	struct ptp_clock *clock;
	int err;

	if (!tern_net_has_cap(net, TERN_CAP_TIMESTAMP))
		return 0;
	err = tern_ptp_alloc_page(ptp);
	if (err)
		return err;
	tern_ptp_set(ptp, ktime_get_real_ns());
	/* NULL in a kernel without PTP clocks. */
	clock = ptp_clock_register(&ptp->info, tern_dma_dev(net->tdev));
	if (IS_ERR_OR_NULL(clock)) {
		tern_ptp_free_page(ptp);
		return PTR_ERR_OR_ZERO(clock);
	}
	ptp->clock = clock;
	net->tdev->core.clock = ptp->page;
	ptp_schedule_worker(clock, TERN_PTP_UPDATE);
	return 0;
}

/* Must run after the RDMA driver was unbound. */
void tern_ptp_unregister(struct tern_net *net)
{
	struct tern_ptp *ptp = &net->ptp;

	if (!ptp->clock)
		return;
	net->tdev->core.clock = NULL;
	/* Waits for the last update. */
	ptp_clock_unregister(ptp->clock);
	ptp->clock = NULL;
	tern_ptp_free_page(ptp);
}

/* After a reset the device clock may have any value. The rate is kept. */
void tern_ptp_reset(struct tern_net *net)
{
	if (net->ptp.clock)
		tern_ptp_set(&net->ptp, ktime_get_real_ns());
}

int tern_hwtstamp_get(struct net_device *netdev, struct kernel_hwtstamp_config *config)
{
	struct tern_net *net = netdev_priv(netdev);

	if (!net->ptp.clock)
		return -EOPNOTSUPP;
	*config = net->ptp.config;
	return 0;
}

/* Each CQE has a time stamp: all received frames get one, or none. */
int tern_hwtstamp_set(struct net_device *netdev, struct kernel_hwtstamp_config *config,
		      struct netlink_ext_ack *extack)
{
	struct tern_net *net = netdev_priv(netdev);

	if (!net->ptp.clock)
		return -EOPNOTSUPP;
	if (config->tx_type != HWTSTAMP_TX_OFF && config->tx_type != HWTSTAMP_TX_ON) {
		NL_SET_ERR_MSG_MOD(extack, "the device does not change frames");
		return -ERANGE;
	}
	if (config->rx_filter != HWTSTAMP_FILTER_NONE)
		config->rx_filter = HWTSTAMP_FILTER_ALL;
	WRITE_ONCE(net->ptp.config.tx_type, config->tx_type);
	WRITE_ONCE(net->ptp.config.rx_filter, config->rx_filter);
	return 0;
}

int tern_get_ts_info(struct net_device *netdev, struct kernel_ethtool_ts_info *info)
{
	struct tern_net *net = netdev_priv(netdev);

	if (!net->ptp.clock)
		return ethtool_op_get_ts_info(netdev, info);
	info->so_timestamping = SOF_TIMESTAMPING_TX_SOFTWARE |
				SOF_TIMESTAMPING_TX_HARDWARE |
				SOF_TIMESTAMPING_RX_HARDWARE |
				SOF_TIMESTAMPING_RAW_HARDWARE;
	info->phc_index = ptp_clock_index(net->ptp.clock);
	info->tx_types = BIT(HWTSTAMP_TX_OFF) | BIT(HWTSTAMP_TX_ON);
	info->rx_filters = BIT(HWTSTAMP_FILTER_NONE) | BIT(HWTSTAMP_FILTER_ALL);
	return 0;
}
