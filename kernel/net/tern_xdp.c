// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* XDP programs and their frames. */

#include <linux/bpf.h>
#include <linux/bpf_trace.h>
#include <linux/dma-mapping.h>
#include <linux/filter.h>
#include <linux/if_vlan.h>
#include <linux/netdevice.h>
#include <linux/skbuff.h>
#include <net/page_pool/helpers.h>
#ifndef TERN_WITHOUT_XSK
#include <net/xdp_sock_drv.h>
#endif

#include "tern_net.h"
#ifndef TERN_WITHOUT_XSK
#include "tern_xsk.h"
#endif

/* What became of a frame that a program has seen. */
enum tern_xdp_result {
	TERN_XDP_PASS,
	TERN_XDP_CONSUMED,
	TERN_XDP_REDIRECTED,
	TERN_XDP_TRANSMITTED,
};

/* Sends an XDP frame. The caller holds the queue's lock and kicks. */
static int tern_tx_xdp_frame(struct tern_channel *ch, struct xdp_frame *frame, bool pooled)
{
	enum tern_tx_mapping mapping = pooled ? TERN_TX_UNMAPPED : TERN_TX_SINGLE;
	struct device *dev = tern_dma_dev(ch->net->tdev);
	const struct skb_shared_info *sinfo = NULL;
	struct tern_tx *tx = &ch->tx;
	unsigned int i, parts = 1;
	void *data = frame->data;
	u32 len = frame->len;
	u32 pi = tx->pi;
	dma_addr_t dma;

	if (unlikely(xdp_frame_has_frags(frame))) {
		sinfo = xdp_get_shared_info_from_frame(frame);
		parts += sinfo->nr_frags;
	}
	if (tern_tx_spare(ch) < parts || parts > TERN_ETH_MAX_TXD)
		return -ENOSPC;

	for (i = 0; i < parts; i++) {
		if (i) {
			data = skb_frag_address(&sinfo->frags[i - 1]);
			len = skb_frag_size(&sinfo->frags[i - 1]);
		}
		if (pooled) {
			dma = page_pool_get_dma_addr(virt_to_page(data)) +
			      offset_in_page(data);
			dma_sync_single_for_device(dev, dma, len, DMA_BIDIRECTIONAL);
		} else {
			dma = dma_map_single(dev, data, len, DMA_TO_DEVICE);
			if (dma_mapping_error(dev, dma))
				goto unwind;
		}
		tern_tx_write(tx, pi++, dma, len, mapping);
	}
	tern_tx_slot(tx, pi - 1)->owner = TERN_TX_XDP;
	tern_tx_slot(tx, pi - 1)->frame = frame;
	tern_tx_end(tx, pi);
	return 0;

unwind:
	tern_tx_unwind(ch, pi);
	return -ENOMEM;
}

/**
 * tern_tx_xdp() - send XDP frames
 * @ch: the channel, whose transmit queue the network stack uses, too
 * @frames: the frames
 * @num: number of @frames
 * @pooled: the frames are buffers of a receive queue with an XDP program
 *
 * The channel may have stopped, or be about to if its own NAPI calls. Softirqs are
 * disabled.
 *
 * Return: the number of frames that were taken.
 */
int tern_tx_xdp(struct tern_channel *ch, struct xdp_frame **frames, int num, bool pooled)
{
	struct netdev_queue *txq = tern_txq(ch);
	int n = 0;

	__netif_tx_lock(txq, smp_processor_id());
	/* Stopping the channel takes this lock after it has cleared the flag. */
	if (READ_ONCE(ch->up)) {
		txq_trans_cond_update(txq);
		while (n < num && !tern_tx_xdp_frame(ch, frames[n], pooled))
			n++;
		if (n)
			tern_tx_submit(ch);
	}
	__netif_tx_unlock(txq);
	return n;
}

/* Sends frames of other devices. */
int tern_xdp_xmit(struct net_device *netdev, int num, struct xdp_frame **frames,
		  u32 flags)
{
	struct tern_net *net = netdev_priv(netdev);
	struct tern_queues *queues;
	unsigned int index;
	int n = 0;

	if (unlikely(flags & ~XDP_XMIT_FLAGS_MASK))
		return -EINVAL;
	if (unlikely(!netif_carrier_ok(netdev)))
		return -ENETDOWN;

	rcu_read_lock();
	queues = rcu_dereference(net->queues);
	if (likely(queues && READ_ONCE(net->queues_up))) {
		index = smp_processor_id() % queues->config.channels;
		n = tern_tx_xdp(&queues->channel[index], frames, num, false);
	}
	rcu_read_unlock();
	return n;
}

/* Sends a buffer of the channel's own receive queue. */
static bool tern_xdp_transmit(struct tern_channel *ch, struct xdp_buff *xdp)
{
	struct xdp_frame *frame;

#ifndef TERN_WITHOUT_XSK
	if (ch->rx.xsk_pool)
		return tern_xsk_tx_buff(ch, xdp);
#endif
	frame = xdp_convert_buff_to_frame(xdp);
	return frame && tern_tx_xdp(ch, &frame, 1, true) == 1;
}

static void tern_xdp_drop(struct tern_channel *ch, struct xdp_buff *xdp)
{
#ifndef TERN_WITHOUT_XSK
	if (ch->rx.xsk_pool) {
		xsk_buff_free(xdp);
		return;
	}
#endif
	xdp_return_buff(xdp);
}

/* Runs the program and executes its verdict. NAPI context. */
static enum tern_xdp_result tern_xdp_verdict(struct tern_channel *ch, struct bpf_prog *prog,
					     struct tern_xdp_buff *buff)
{
	struct net_device *netdev = ch->net->netdev;
	struct xdp_buff *xdp = &buff->xdp;
	u32 verdict;

	verdict = bpf_prog_run_xdp(prog, xdp);
	switch (verdict) {
	case XDP_PASS:
		return TERN_XDP_PASS;
	case XDP_TX:
		if (tern_xdp_transmit(ch, xdp))
			return TERN_XDP_TRANSMITTED;
		break;
	case XDP_REDIRECT:
		if (!xdp_do_redirect(netdev, xdp, prog))
			return TERN_XDP_REDIRECTED;
		break;
	case XDP_DROP:
		tern_xdp_drop(ch, xdp);
		return TERN_XDP_CONSUMED;
	default:
		bpf_warn_invalid_xdp_action(netdev, prog, verdict);
		break;
	case XDP_ABORTED:
		break;
	}
	trace_xdp_exception(netdev, prog, verdict);
	tern_xdp_drop(ch, xdp);
	return TERN_XDP_CONSUMED;
}

/**
 * tern_xdp_run() - pass a received frame to the XDP program
 * @ch: the channel
 * @prog: the program
 * @buff: the frame
 * @count: statistics, TERN_RX_STAT_*
 *
 * NAPI context. The caller calls tern_xdp_flush() after the last frame.
 *
 * Return: whether the frame is for the network stack. Otherwise it is gone.
 */
bool tern_xdp_run(struct tern_channel *ch, struct bpf_prog *prog,
		  struct tern_xdp_buff *buff, u64 *count)
{
	switch (tern_xdp_verdict(ch, prog, buff)) {
	case TERN_XDP_CONSUMED:
		count[TERN_RX_STAT_XDP_DROP]++;
		return false;
	case TERN_XDP_REDIRECTED:
		ch->rx.xdp_redirected = true;
		count[TERN_RX_STAT_XDP_REDIRECT]++;
		return false;
	case TERN_XDP_TRANSMITTED:
		count[TERN_RX_STAT_XDP_TX]++;
		return false;
	default:
		return true;
	}
}

/* At the end of a poll. */
void tern_xdp_flush(struct tern_channel *ch)
{
	if (!ch->rx.xdp_redirected)
		return;
	ch->rx.xdp_redirected = false;
	xdp_do_flush();
}

static int tern_xdp_rx_timestamp(const struct xdp_md *ctx, u64 *timestamp)
{
	const struct tern_xdp_buff *buff = (void *)ctx;
	struct tern_net *net = buff->ch->net;

	if (READ_ONCE(net->ptp.config.rx_filter) == HWTSTAMP_FILTER_NONE)
		return -ENODATA;
	*timestamp = tern_ptp_time(net, le64_to_cpu(buff->cqe->timestamp));
	return 0;
}

static int tern_xdp_rx_hash(const struct xdp_md *ctx, u32 *hash,
			    enum xdp_rss_hash_type *rss_type)
{
	const struct tern_xdp_buff *buff = (void *)ctx;
	u16 type = le16_to_cpu(buff->cqe->pkey_index);

	if (type == TERN_ETH_HASH_NONE ||
	    !(buff->ch->net->netdev->features & NETIF_F_RXHASH))
		return -ENODATA;
	*hash = le32_to_cpu(buff->cqe->inv_rkey);
	/* The device does not report which protocols it has hashed. */
	*rss_type = type == TERN_ETH_HASH_L4 ? XDP_RSS_TYPE_L4_ANY : XDP_RSS_TYPE_NONE;
	return 0;
}

static int tern_xdp_rx_vlan_tag(const struct xdp_md *ctx, __be16 *proto, u16 *tci)
{
	const struct tern_xdp_buff *buff = (void *)ctx;

	if (!(buff->cqe->flags & TERN_CQE_F_VLAN) ||
	    !(buff->ch->rx.flags & TERN_ETH_QF_STRIP_VLAN))
		return -ENODATA;
	*proto = htons(ETH_P_8021Q);
	*tci = le16_to_cpu(buff->cqe->vlan);
	return 0;
}

const struct xdp_metadata_ops tern_xdp_metadata_ops = {
	.xmo_rx_timestamp	= tern_xdp_rx_timestamp,
	.xmo_rx_hash		= tern_xdp_rx_hash,
	.xmo_rx_vlan_tag	= tern_xdp_rx_vlan_tag,
};
