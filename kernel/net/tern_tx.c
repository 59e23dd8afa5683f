// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Transmit queues. */

#include <linux/dma-mapping.h>
#include <linux/if_vlan.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/skbuff.h>
#include <linux/slab.h>
#include <linux/tcp.h>
#include <linux/udp.h>
#include <net/netdev_queues.h>
#ifndef TERN_WITHOUT_XSK
#include <net/xdp_sock_drv.h>
#endif

#include "tern_net.h"
#include "tern_util.h"
#ifndef TERN_WITHOUT_XSK
#include "tern_xsk.h"
#endif

/* Stop the transmit queue without space for a frame, wake it with twice that. */
#define TERN_TX_STOP		TERN_ETH_MAX_TXD
#define TERN_TX_WAKE		(2 * TERN_ETH_MAX_TXD)

static_assert(BIT(TERN_RING_LOG_MIN) > TERN_TX_WAKE);
static_assert(sizeof(struct tern_eth_offload) == sizeof(struct tern_eth_txd));

/* Number of free descriptors. */
u32 tern_tx_room(const struct tern_tx *tx)
{
	return tern_ring_free(READ_ONCE(tx->pi), READ_ONCE(tx->ci), tx->log_size);
}

#ifndef TERN_WITHOUT_XDP
/*
 * Number of free descriptors that XDP may use. It leaves space for one frame of the
 * network stack. If that was too little and its queue has stopped, as many
 * descriptors as wake it stay free: otherwise a busy sender could keep it stopped for
 * ever.
 */
u32 tern_tx_spare(const struct tern_channel *ch)
{
	u32 keep = netif_tx_queue_stopped(tern_txq(ch)) ? TERN_TX_WAKE : TERN_TX_STOP;
	u32 room = tern_tx_room(&ch->tx);

	return room - min(room, keep);
}

#endif
static void tern_tx_unmap(struct tern_net *net, const struct tern_tx_slot *slot)
{
	struct device *dev = tern_dma_dev(net->tdev);

	if (slot->mapping == TERN_TX_PAGE)
		dma_unmap_page(dev, slot->dma, slot->len, DMA_TO_DEVICE);
	else if (slot->mapping == TERN_TX_SINGLE)
		dma_unmap_single(dev, slot->dma, slot->len, DMA_TO_DEVICE);
}

/* Bytes of the headers with which each segment of a large frame begins. */
static unsigned int tern_tx_header_len(const struct sk_buff *skb)
{
	unsigned int l4 = skb_shinfo(skb)->gso_type & SKB_GSO_UDP_L4 ?
			  sizeof(struct udphdr) : tcp_hdrlen(skb);

	return skb_transport_offset(skb) + l4;
}

/* Builds the offload descriptor. Returns false if none is needed. */
bool tern_tx_offload(const struct sk_buff *skb, struct tern_eth_offload *offload)
{
	u16 ops = 0;

	*offload = (struct tern_eth_offload){
		.flags = cpu_to_le16(TERN_ETH_F_OFFLOAD),
	};
	if (skb_is_gso(skb)) {
		ops |= skb_shinfo(skb)->gso_type & SKB_GSO_UDP_L4 ?
		       TERN_ETH_OP_USO : TERN_ETH_OP_TSO;
		offload->csum_start = cpu_to_le16(skb_transport_offset(skb));
		offload->mss = cpu_to_le16(skb_shinfo(skb)->gso_size);
		offload->header_len = cpu_to_le16(tern_tx_header_len(skb));
	} else if (skb->ip_summed == CHECKSUM_PARTIAL) {
		ops |= TERN_ETH_OP_CSUM;
		offload->csum_start = cpu_to_le16(skb_checksum_start_offset(skb));
		offload->csum_offset = cpu_to_le16(skb->csum_offset);
	}
	if (skb_vlan_tag_present(skb)) {
		ops |= TERN_ETH_OP_VLAN;
		offload->vlan = cpu_to_le16(skb_vlan_tag_get(skb));
	}
	offload->ops = cpu_to_le16(ops);
	return ops;
}

/* Writes a descriptor of a frame that is not its last. */
void tern_tx_write(struct tern_tx *tx, u32 index, dma_addr_t dma, u32 len,
		   enum tern_tx_mapping mapping)
{
	*tern_tx_slot(tx, index) = (struct tern_tx_slot){
		.dma = dma,
		.len = len,
		.mapping = mapping,
	};
	tx->ring[tern_ring_slot(index, tx->log_size)] = (struct tern_eth_txd){
		.addr = cpu_to_le64(dma),
		.length = cpu_to_le32(len),
	};
}

void tern_tx_write_offload(struct tern_tx *tx, u32 index,
			   const struct tern_eth_offload *offload)
{
	*tern_tx_slot(tx, index) = (struct tern_tx_slot){};
	memcpy(&tx->ring[tern_ring_slot(index, tx->log_size)], offload,
	       sizeof(*offload));
}

/* Ends a frame whose descriptors lie before @end, and whose owner is set. */
void tern_tx_end(struct tern_tx *tx, u32 end)
{
	u32 last = tern_ring_slot(end - 1, tx->log_size);

	tx->ring[last].flags = cpu_to_le16(TERN_ETH_F_EOP);
	WRITE_ONCE(tx->pi, end);
}

/* Takes back the descriptors from that of tx->pi up to @end. */
void tern_tx_unwind(struct tern_channel *ch, u32 end)
{
	while (end != ch->tx.pi)
		tern_tx_unmap(ch->net, tern_tx_slot(&ch->tx, --end));
}

/* Maps a frame and writes its descriptors. The device does not see them yet. */
static int tern_tx_map(struct tern_channel *ch, struct sk_buff *skb)
{
	struct device *dev = tern_dma_dev(ch->net->tdev);
	struct tern_eth_offload offload;
	struct tern_tx *tx = &ch->tx;
	const skb_frag_t *frag;
	u32 pi = tx->pi;
	dma_addr_t dma;
	unsigned int i;

	if (tern_tx_offload(skb, &offload))
		tern_tx_write_offload(tx, pi++, &offload);

	dma = dma_map_single(dev, skb->data, skb_headlen(skb), DMA_TO_DEVICE);
	if (dma_mapping_error(dev, dma))
		goto unwind;
	tern_tx_write(tx, pi++, dma, skb_headlen(skb), TERN_TX_SINGLE);
	for (i = 0; i < skb_shinfo(skb)->nr_frags; i++) {
		frag = &skb_shinfo(skb)->frags[i];
		dma = skb_frag_dma_map(dev, frag, 0, skb_frag_size(frag), DMA_TO_DEVICE);
		if (dma_mapping_error(dev, dma))
			goto unwind;
		tern_tx_write(tx, pi++, dma, skb_frag_size(frag), TERN_TX_PAGE);
	}
	tern_tx_slot(tx, pi - 1)->owner = TERN_TX_SKB;
	tern_tx_slot(tx, pi - 1)->skb = skb;
	tern_tx_end(tx, pi);
	return 0;

unwind:
	tern_tx_unwind(ch, pi);
	return -ENOMEM;
}

/* Publishes the descriptors to the device. */
static void tern_tx_publish(struct tern_tx *tx)
{
	/* From now on the frames may be freed. Pairs with tern_tx_in_flight(). */
	smp_store_release(&tx->posted, tx->pi);
	/* Write the descriptors before the index that covers them. */
	dma_wmb();
	WRITE_ONCE(tx->record->pi, cpu_to_le32(tx->pi));
}

static void tern_tx_ring(struct tern_channel *ch)
{
	/* The device clears the bit, then reads the index. */
	dma_mb();
	if (le32_to_cpu(READ_ONCE(ch->tx.record->status)) & TERN_ETH_ST_POLLED)
		return;
	tern_ring(&ch->net->tdev->core, TERN_DB_CMD_ETH_TX, ch->tx.id);
}

#ifndef TERN_WITHOUT_XDP
/* Gives all complete frames to the device. */
void tern_tx_submit(struct tern_channel *ch)
{
	tern_tx_publish(&ch->tx);
	tern_tx_ring(ch);
}

#endif
/* Frees a frame that is not sent. */
static netdev_tx_t tern_tx_refuse(struct sk_buff *skb, struct net_device *netdev)
{
	dev_kfree_skb_any(skb);
	dev_core_stats_tx_dropped_inc(netdev);
	return NETDEV_TX_OK;
}

netdev_tx_t tern_xmit(struct sk_buff *skb, struct net_device *netdev)
{
	struct tern_net *net = netdev_priv(netdev);
	u16 index = skb_get_queue_mapping(skb);
	struct tern_queues *queues;
	struct netdev_queue *txq;
	struct tern_channel *ch;
	struct tern_tx *tx;
	bool kick;

	txq = netdev_get_tx_queue(netdev, index);
	queues = rcu_dereference_bh(net->queues);
	/* Senders without a qdisc may have chosen a queue that was removed since. */
	if (unlikely(!queues || index >= queues->config.channels))
		return tern_tx_refuse(skb, netdev);
	ch = &queues->channel[index];
	tx = &ch->tx;

	/* Spurious wake-up: stop again unless there is space by now. */
	if (unlikely(!netif_txq_maybe_stop(txq, tern_tx_room(tx), TERN_TX_STOP,
					   TERN_TX_WAKE)))
		return NETDEV_TX_BUSY;

	/* The head and an offload descriptor. */
	if (skb_shinfo(skb)->nr_frags + 2 > TERN_ETH_MAX_TXD && skb_linearize(skb))
		goto drop;
#ifndef TERN_WITHOUT_PTP
	if (unlikely(skb_shinfo(skb)->tx_flags & SKBTX_HW_TSTAMP &&
		     READ_ONCE(net->ptp.config.tx_type) == HWTSTAMP_TX_ON))
		skb_shinfo(skb)->tx_flags |= SKBTX_IN_PROGRESS;
#endif
	if (tern_tx_map(ch, skb))
		goto drop;

	skb_tx_timestamp(skb);
	netif_txq_maybe_stop(txq, tern_tx_room(tx), TERN_TX_STOP, TERN_TX_WAKE);
	/* Account for the frame before the device can complete it. */
	kick = __netdev_tx_sent_queue(txq, skb->len, netdev_xmit_more());
	tern_tx_publish(tx);
	if (kick)
		tern_tx_ring(ch);
	return NETDEV_TX_OK;

drop:
	/* Later frames of the batch share one kick. */
	if (!netdev_xmit_more())
		tern_tx_ring(ch);
	return tern_tx_refuse(skb, netdev);
}

/*
 * Whether the device can segment a frame of TCP or UDP. It sums up the addresses of the
 * IP header, but with a source route the destination is in an option or in an
 * extension header.
 */
static bool tern_tx_can_segment(const struct sk_buff *skb)
{
	u32 ip_len = ip_hdr(skb)->version == 4 ? sizeof(struct iphdr) :
						 sizeof(struct ipv6hdr);

	return skb_network_header_len(skb) == ip_len &&
	       tern_tx_header_len(skb) <= TERN_MAX_TSO_HEADERS;
}

netdev_features_t tern_features_check(struct sk_buff *skb, struct net_device *netdev,
				      netdev_features_t features)
{
	unsigned int types = SKB_GSO_TCPV4 | SKB_GSO_TCPV6 | SKB_GSO_UDP_L4;

	if (skb_is_gso(skb) && skb_shinfo(skb)->gso_type & types &&
	    !tern_tx_can_segment(skb))
		features &= ~NETIF_F_GSO_MASK;
	return vlan_features_check(skb, features);
}

/* Adds a completed frame to @count, TERN_TX_STAT_*. */
void tern_tx_account(const struct sk_buff *skb, u64 *count)
{
	unsigned int segs = 1, bytes = skb->len;

	if (skb_is_gso(skb)) {
		segs = skb_shinfo(skb)->gso_segs;
		count[TERN_TX_STAT_GSO_PACKETS]++;
		count[TERN_TX_STAT_GSO_BYTES] += bytes;
		bytes += (segs - 1) * tern_tx_header_len(skb);
		count[TERN_TX_STAT_GSO_WIRE_PACKETS] += segs;
		count[TERN_TX_STAT_GSO_WIRE_BYTES] += bytes;
	}
	if (skb->ip_summed == CHECKSUM_PARTIAL)
		count[TERN_TX_STAT_NEEDS_CSUM] += segs;
	else
		count[TERN_TX_STAT_CSUM_NONE] += segs;
	count[TERN_TX_STAT_PACKETS] += segs;
	count[TERN_TX_STAT_BYTES] += bytes;
}

/* Completed frames. */
struct tern_tx_done {
	unsigned int packets;
	unsigned int bytes;	/* as accounted in BQL */
};

static void tern_tx_complete_skb(struct tern_channel *ch, struct sk_buff *skb,
				 const struct tern_cqe *cqe, int budget,
				 struct tern_tx_done *done, u64 *count)
{
	done->bytes += skb->len;
	if (likely(cqe->status == TERN_CQE_SUCCESS))
		tern_tx_account(skb, count);
	else
		count[TERN_TX_STAT_ERRORS]++;
#ifndef TERN_WITHOUT_PTP
	if (unlikely(skb_shinfo(skb)->tx_flags & SKBTX_IN_PROGRESS &&
		     cqe->status == TERN_CQE_SUCCESS))
		tern_ptp_stamp_tx(ch->net, skb, le64_to_cpu(cqe->timestamp));
#endif
	napi_consume_skb(skb, budget);
}

#ifndef TERN_WITHOUT_XDP
static void tern_tx_complete_xdp(struct xdp_frame *frame, const struct tern_cqe *cqe,
				 u64 *count)
{
	if (likely(cqe->status == TERN_CQE_SUCCESS)) {
		count[TERN_TX_STAT_PACKETS]++;
		count[TERN_TX_STAT_CSUM_NONE]++;
		count[TERN_TX_STAT_BYTES] += xdp_get_frame_len(frame);
	} else {
		count[TERN_TX_STAT_ERRORS]++;
	}
	xdp_return_frame(frame);
}

#endif
#ifndef TERN_WITHOUT_XSK
/* Ends the use of a descriptor with a frame or buffer of the pool. */
static void tern_tx_drop_xsk(struct tern_tx *tx, struct tern_tx_slot *slot)
{
	if (slot->owner == TERN_TX_XSK)
		xsk_tx_completed(tx->xsk_pool, slot->xsk_descs);
	else
		xsk_buff_free(slot->xdp);
}

/* Ends a frame of the pool, or one that was received into it. */
static void tern_tx_complete_xsk(struct tern_channel *ch, struct tern_tx_slot *slot,
				 const struct tern_cqe *cqe, u64 *count)
{
	struct tern_xsk_completion completion = { .net = ch->net, .cqe = cqe };

	if (unlikely(cqe->status != TERN_CQE_SUCCESS)) {
		count[TERN_TX_STAT_ERRORS] += slot->owner != TERN_TX_BUFF_PART;
	} else {
		count[TERN_TX_STAT_BYTES] += slot->len;
		if (slot->owner != TERN_TX_BUFF_PART) {
			count[TERN_TX_STAT_PACKETS]++;
			count[slot->needs_csum ? TERN_TX_STAT_NEEDS_CSUM :
						 TERN_TX_STAT_CSUM_NONE]++;
		}
		if (slot->owner == TERN_TX_XSK)
			xsk_tx_metadata_complete(&slot->compl,
						 ch->net->netdev->xsk_tx_metadata_ops,
						 &completion);
	}
	tern_tx_drop_xsk(&ch->tx, slot);
}

#endif
/* Whether a frame that ends at @end may be complete. */
static bool tern_tx_in_flight(const struct tern_tx *tx, u32 ci, u32 end)
{
	/* Read the index before the slots. The device may see descriptors earlier. */
	u32 posted = smp_load_acquire(&tx->posted);

	return tern_ring_used(end, ci) < tern_ring_used(posted, ci);
}

#ifndef TERN_WITHOUT_XDP
/* Whether all frames in flight from @ci up to @end are skbs. */
static bool tern_tx_only_skbs(const struct tern_tx *tx, u32 ci, u32 end)
{
	u8 owner;

	if (!tern_tx_in_flight(tx, ci, end))
		return true;
	do {
		owner = tern_tx_slot(tx, ci)->owner;
		if (owner != TERN_TX_PART && owner != TERN_TX_SKB)
			return false;
	} while (ci++ != end);
	return true;
}

#endif
/* Frees frames up to @end, that of @cqe. Returns false if it is not in flight. */
static bool tern_tx_complete(struct tern_channel *ch, u32 *ci, u32 end,
			     const struct tern_cqe *cqe, int budget,
			     struct tern_tx_done *done, u64 *count)
{
	struct tern_tx *tx = &ch->tx;
	struct tern_tx_slot *slot;

	if (!tern_tx_in_flight(tx, *ci, end))
		return false;

	do {
		slot = tern_tx_slot(tx, *ci);
		tern_tx_unmap(ch->net, slot);
		if (slot->owner == TERN_TX_SKB)
			tern_tx_complete_skb(ch, slot->skb, cqe, budget, done, count);
#ifndef TERN_WITHOUT_XDP
		else if (slot->owner == TERN_TX_XDP)
			tern_tx_complete_xdp(slot->frame, cqe, count);
#endif
#ifndef TERN_WITHOUT_XSK
		else if (slot->owner != TERN_TX_PART)
			tern_tx_complete_xsk(ch, slot, cqe, count);
#endif
		if (slot->owner != TERN_TX_PART)
			done->packets++;
		slot->owner = TERN_TX_PART;
	} while ((*ci)++ != end);
	return true;
}

/* Frees sent frames. netpoll calls this without a budget, also with interrupts disabled. */
void tern_tx_poll(struct tern_channel *ch, int budget)
{
	struct tern_stats *stats = &ch->net->stats[ch->index];
	u64 count[TERN_TX_STAT_NUM] = {};
	struct tern_tx_done done = {};
	struct tern_tx *tx = &ch->tx;
	u32 left = BIT(tx->cq.log_size);
	const struct tern_cqe *cqe;
	u32 ci = tx->ci;
	u32 end;

	/* Until entries are released there is no space for more. */
	for (; left && (cqe = tern_net_cq_peek(&tx->cq)); left--) {
		/* Read it once: the device can write to the entry. */
		end = le32_to_cpu(READ_ONCE(cqe->wqe_index));
#ifndef TERN_WITHOUT_XDP
		/* Without a budget, XDP frames, and all frames after them, stay. */
		if (unlikely(!budget) && !tern_tx_only_skbs(tx, ci, end))
			break;
#endif
		tx->cq.ci++;
		/* With this status the device has stopped the queue. */
		if (unlikely(cqe->status == TERN_CQE_LOC_QP_OP_ERR ||
			     !tern_tx_complete(ch, &ci, end, cqe, budget, &done,
					       count))) {
			tern_net_fault(ch->net);
			break;
		}
	}
	tern_net_cq_release(&tx->cq);
	/* Release CQ entries first: new frames will need them. */
	smp_store_release(&tx->ci, ci);

	tern_stats_add(stats, stats->tx, count, TERN_TX_STAT_NUM);
	netif_txq_completed_wake(tern_txq(ch), done.packets, done.bytes,
				 tern_tx_room(tx), TERN_TX_WAKE);
}

int tern_tx_alloc(struct tern_channel *ch, u8 log_size)
{
	struct tern_net *net = ch->net;
	struct tern_tx *tx = &ch->tx;
	int err;

	tx->log_size = log_size;
	tx->slots = kvzalloc_objs(*tx->slots, BIT(log_size));
	if (!tx->slots)
		return -ENOMEM;
	err = tern_net_cq_alloc(net, &tx->cq, log_size);
	if (err)
		goto free_slots;
	err = tern_buf_alloc(net->tdev, &tx->buf, sizeof(*tx->ring), log_size);
	if (err)
		goto free_cq;
	tx->ring = tx->buf.va;
	tx->record = tx->buf.va + tx->buf.record_offset;
	return 0;

free_cq:
	tern_buf_free(net->tdev, &tx->cq.buf);
free_slots:
	kvfree(tx->slots);
	return err;
}

void tern_tx_free(struct tern_channel *ch)
{
	struct tern_net *net = ch->net;
	struct tern_tx *tx = &ch->tx;

	tern_buf_free(net->tdev, &tx->buf);
	tern_buf_free(net->tdev, &tx->cq.buf);
	kvfree(tx->slots);
}

int tern_tx_create(struct tern_channel *ch)
{
	struct tern_cmd_create_eth_queue cmd = {
		.direction = TERN_ETH_QUEUE_TX,
		.log_size = ch->tx.log_size,
	};
	struct tern_net *net = ch->net;
	struct tern_tx *tx = &ch->tx;
	int err;

	err = tern_net_cq_create(ch, &tx->cq);
	if (err)
		return err;
	memset(tx->buf.va, 0, tx->buf.size);
	tx->pi = 0;
	tx->posted = 0;
	tx->ci = 0;
#ifndef TERN_WITHOUT_XSK
	tx->xsk_pool = net->xsk_pools[ch->index];
	tx->xsk_skip = false;
#endif
	err = tern_eth_queue_create(net, &cmd, &tx->buf, &tx->cq, &tx->id);
	if (err)
		tern_net_cq_destroy(net, &tx->cq);
	tx->created = !err;
	return err;
}

/* Frees a frame that the device has not completed. */
static void tern_tx_drop(struct tern_tx *tx, struct tern_tx_slot *slot)
{
	if (slot->owner == TERN_TX_SKB)
		dev_kfree_skb(slot->skb);
#ifndef TERN_WITHOUT_XDP
	else if (slot->owner == TERN_TX_XDP)
		xdp_return_frame(slot->frame);
#endif
#ifndef TERN_WITHOUT_XSK
	else if (slot->owner != TERN_TX_PART)
		tern_tx_drop_xsk(tx, slot);
#endif
	slot->owner = TERN_TX_PART;
}

void tern_tx_destroy(struct tern_channel *ch)
{
	struct tern_net *net = ch->net;
	struct tern_tx *tx = &ch->tx;
	struct tern_tx_slot *slot;

	if (!tx->created)
		return;
	tx->created = false;
	tern_cmd_destroy(net->tdev, TERN_CMD_DESTROY_ETH_QUEUE, tx->id);
	tern_net_cq_destroy(net, &tx->cq);
	for (; tx->ci != tx->pi; tx->ci++) {
		slot = tern_tx_slot(tx, tx->ci);
		tern_tx_unmap(net, slot);
		tern_tx_drop(tx, slot);
	}
	netdev_tx_reset_queue(tern_txq(ch));
}
