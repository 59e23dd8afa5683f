// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Interrupt moderation, also adaptive. */

#include <linux/dim.h>
#include <linux/ethtool.h>
#include <linux/rtnetlink.h>

#include "tern_net.h"

/* Makes events wait for @frames completions or @usecs. */
static int tern_net_cq_moderate(struct tern_net *net, const struct tern_net_cq *cq,
				u16 usecs, u16 frames)
{
	struct tern_cmd_modify_cq cmd = {
		.cqn = cpu_to_le32(cq->id),
		/* Without a timer, nothing would report the last frames. */
		.count = cpu_to_le16(usecs ? frames : 0),
		.period = cpu_to_le16(usecs),
	};

	return tern_cmd_exec(&net->tdev->core, TERN_CMD_MODIFY_CQ, &cmd, sizeof(cmd),
			     NULL, 0);
}

/* Gives a new completion queue the moderation of its direction. */
int tern_moderate_new(struct tern_channel *ch, const struct tern_net_cq *cq)
{
	const struct tern_moderation *moderation;

	moderation = cq == &ch->rx.cq ? &ch->net->rx_moderation : &ch->net->tx_moderation;
	if (!moderation->usecs)
		return 0;
	return tern_net_cq_moderate(ch->net, cq, moderation->usecs, moderation->frames);
}

static void tern_dim_apply(struct tern_net *net, struct tern_net_cq *cq,
			   struct dim_cq_moder moder)
{
	/* On failure the previous moderation remains. */
	tern_net_cq_moderate(net, cq, moder.usec, moder.pkts);
	cq->dim.state = DIM_START_MEASURE;
}

static void tern_rx_dim_work(struct work_struct *work)
{
	struct dim *dim = container_of(work, struct dim, work);
	struct tern_channel *ch;

	ch = container_of(dim, struct tern_channel, rx.cq.dim);
	tern_dim_apply(ch->net, &ch->rx.cq,
		       net_dim_get_rx_moderation(dim->mode, dim->profile_ix));
}

static void tern_tx_dim_work(struct work_struct *work)
{
	struct dim *dim = container_of(work, struct dim, work);
	struct tern_channel *ch;

	ch = container_of(dim, struct tern_channel, tx.cq.dim);
	tern_dim_apply(ch->net, &ch->tx.cq,
		       net_dim_get_tx_moderation(dim->mode, dim->profile_ix));
}

void tern_dim_init(struct tern_channel *ch)
{
	INIT_WORK(&ch->rx.cq.dim.work, tern_rx_dim_work);
	INIT_WORK(&ch->tx.cq.dim.work, tern_tx_dim_work);
	ch->rx.cq.dim.mode = DIM_CQ_PERIOD_MODE_START_FROM_EQE;
	ch->tx.cq.dim.mode = DIM_CQ_PERIOD_MODE_START_FROM_EQE;
}

/* Measures a completion queue that got another event. NAPI context. */
static void tern_dim_sample(struct tern_net_cq *cq, u64 packets, u64 bytes)
{
	struct dim_sample sample = {};

	dim_update_sample(READ_ONCE(cq->arm_seq), packets, bytes, &sample);
	net_dim(&cq->dim, &sample);
}

/* At the end of a poll, before the queues are armed. */
void tern_dim_update(struct tern_channel *ch)
{
	struct tern_net *net = ch->net;
	struct tern_stats *stats;

	stats = &net->stats[ch->index];
	/* NAPI is the writer of the statistics. */
	if (READ_ONCE(net->rx_moderation.adaptive))
		tern_dim_sample(&ch->rx.cq,
				u64_stats_read(&stats->rx[TERN_RX_STAT_PACKETS]),
				u64_stats_read(&stats->rx[TERN_RX_STAT_BYTES]));
	if (READ_ONCE(net->tx_moderation.adaptive))
		tern_dim_sample(&ch->tx.cq,
				u64_stats_read(&stats->tx[TERN_TX_STAT_PACKETS]),
				u64_stats_read(&stats->tx[TERN_TX_STAT_BYTES]));
}

/* NAPI is disabled. On return the completion queues can be destroyed. */
void tern_dim_stop(struct tern_channel *ch)
{
	cancel_work_sync(&ch->rx.cq.dim.work);
	cancel_work_sync(&ch->tx.cq.dim.work);
	ch->rx.cq.dim.state = DIM_START_MEASURE;
	ch->tx.cq.dim.state = DIM_START_MEASURE;
}

int tern_get_coalesce(struct net_device *netdev, struct ethtool_coalesce *coal,
		      struct kernel_ethtool_coalesce *kernel_coal,
		      struct netlink_ext_ack *extack)
{
	struct tern_net *net = netdev_priv(netdev);

	if (!tern_net_has_cap(net, TERN_CAP_MODERATE_CQ))
		return -EOPNOTSUPP;
	coal->rx_coalesce_usecs = net->rx_moderation.usecs;
	coal->rx_max_coalesced_frames = net->rx_moderation.frames;
	coal->use_adaptive_rx_coalesce = net->rx_moderation.adaptive;
	coal->tx_coalesce_usecs = net->tx_moderation.usecs;
	coal->tx_max_coalesced_frames = net->tx_moderation.frames;
	coal->use_adaptive_tx_coalesce = net->tx_moderation.adaptive;
	return 0;
}

static int tern_check_moderation(u32 usecs, u32 frames, struct netlink_ext_ack *extack)
{
	if (usecs > U16_MAX || frames > U16_MAX) {
		NL_SET_ERR_MSG_MOD(extack, "at most 65535 usecs and frames");
		return -ERANGE;
	}
	if (!usecs && frames > 1) {
		NL_SET_ERR_MSG_MOD(extack, "more than one frame needs usecs");
		return -EINVAL;
	}
	return 0;
}

/* Changes the queues of one direction, which exist if the interface is up. */
static int tern_moderate_queues(struct tern_net *net, struct tern_moderation *moderation,
				const struct tern_moderation *next, bool is_rx)
{
	struct tern_queues *queues = rtnl_dereference(net->queues);
	struct tern_net_cq *cq;
	unsigned int i;
	int err = 0;

	WRITE_ONCE(moderation->adaptive, next->adaptive);
	moderation->usecs = next->usecs;
	moderation->frames = next->frames;
	if (!net->queues_up)
		return 0;
	/* Waits for polls that have seen the old flag. */
	if (!next->adaptive)
		synchronize_net();
	for (i = 0; i < queues->config.channels; i++) {
		cq = is_rx ? &queues->channel[i].rx.cq : &queues->channel[i].tx.cq;
		if (!next->adaptive)
			cancel_work_sync(&cq->dim.work);
		cq->dim.state = DIM_START_MEASURE;
		if (!err)
			err = tern_net_cq_moderate(net, cq, next->usecs, next->frames);
	}
	return err;
}

/* After an error, restores the queues that were changed. */
static int tern_moderate(struct tern_net *net, struct tern_moderation *moderation,
			 const struct tern_moderation *next, bool is_rx)
{
	struct tern_moderation old = *moderation;
	int err;

	err = tern_moderate_queues(net, moderation, next, is_rx);
	if (err)
		tern_moderate_queues(net, moderation, &old, is_rx);
	return err;
}

int tern_set_coalesce(struct net_device *netdev, struct ethtool_coalesce *coal,
		      struct kernel_ethtool_coalesce *kernel_coal,
		      struct netlink_ext_ack *extack)
{
	struct tern_net *net = netdev_priv(netdev);
	struct tern_moderation rx = {
		.usecs = coal->rx_coalesce_usecs,
		.frames = coal->rx_max_coalesced_frames,
		.adaptive = coal->use_adaptive_rx_coalesce,
	};
	struct tern_moderation tx = {
		.usecs = coal->tx_coalesce_usecs,
		.frames = coal->tx_max_coalesced_frames,
		.adaptive = coal->use_adaptive_tx_coalesce,
	};
	struct tern_moderation old;
	int err;

	if (!tern_net_has_cap(net, TERN_CAP_MODERATE_CQ))
		return -EOPNOTSUPP;
	err = tern_check_moderation(coal->rx_coalesce_usecs,
				    coal->rx_max_coalesced_frames, extack);
	if (!err)
		err = tern_check_moderation(coal->tx_coalesce_usecs,
					    coal->tx_max_coalesced_frames, extack);
	if (err)
		return err;
	old = net->rx_moderation;
	err = tern_moderate(net, &net->rx_moderation, &rx, true);
	if (err)
		return err;
	err = tern_moderate(net, &net->tx_moderation, &tx, false);
	if (err)
		tern_moderate(net, &net->rx_moderation, &old, true);
	return err;
}
