// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Receive queues. */

#include <linux/dma-mapping.h>
#include <linux/etherdevice.h>
#include <linux/if_vlan.h>
#include <linux/skbuff.h>
#include <linux/slab.h>
#include <net/page_pool/helpers.h>
#ifndef TERN_WITHOUT_XSK
#include <net/xdp_sock_drv.h>
#endif

#ifndef TERN_WITHOUT_HWGRO
#include "tern_coalesced.h"
#endif
#include "tern_net.h"
#include "tern_util.h"
#ifndef TERN_WITHOUT_XSK
#include "tern_xsk.h"
#endif

#define TERN_RX_HEADROOM	(NET_SKB_PAD + NET_IP_ALIGN)
/* Number of free receive descriptors that justifies a refill. */
#define TERN_RX_BATCH		16

/* Headroom and length of the buffers of a configuration. */
struct tern_rx_layout {
	u32 headroom;
	u32 buf_len;
	u32 buf_size;
};

/* A frame must fit into an skb. */
static_assert(TERN_ETH_MAX_RXD - 1 <= MAX_SKB_FRAGS);

/* A frame that is longer than a page takes several buffers if the device supports that. */
static struct tern_rx_layout tern_rx_layout(const struct tern_net_config *config)
{
	struct tern_rx_layout layout = {
		.headroom = TERN_RX_HEADROOM,
	};

#ifndef TERN_WITHOUT_XDP
	if (config->xdp)
		layout.headroom = XDP_PACKET_HEADROOM;
#endif
	layout.buf_len = config->frame_len;
	if (config->rx_flags & TERN_ETH_QF_KEEP_FCS)
		layout.buf_len += ETH_FCS_LEN;
	layout.buf_size = SKB_HEAD_ALIGN(layout.headroom + layout.buf_len);
#ifndef TERN_WITHOUT_HWGRO
	if (config->rx_flags & TERN_ETH_QF_COALESCE) {
		layout.buf_size = SZ_4K;
		layout.buf_len = SKB_WITH_OVERHEAD(SZ_4K) - layout.headroom;
		return layout;
	}
#endif
	if (layout.buf_size > PAGE_SIZE && config->rx_flags & TERN_ETH_QF_SCATTER) {
		layout.buf_size = PAGE_SIZE;
		layout.buf_len = SKB_WITH_OVERHEAD(PAGE_SIZE) - layout.headroom;
	}
	return layout;
}

#ifndef TERN_WITHOUT_XDP
/* Whether each frame fits into one page, as most XDP programs require. */
bool tern_rx_fits(const struct tern_net_config *config)
{
	struct tern_net_config single = *config;

	single.xdp = true;
	single.rx_flags &= ~(TERN_ETH_QF_SCATTER | TERN_ETH_QF_COALESCE);
	return tern_rx_layout(&single).buf_size <= PAGE_SIZE;
}

#endif
static void tern_rx_count_fail(struct tern_channel *ch)
{
	struct tern_stats *stats = &ch->net->stats[ch->index];
	unsigned long flags;

	/* Also in process context, where a writer must not be preempted. */
	flags = u64_stats_update_begin_irqsave(&stats->syncp);
	u64_stats_inc(&stats->rx[TERN_RX_STAT_ALLOC_FAIL]);
	u64_stats_update_end_irqrestore(&stats->syncp, flags);
}

/*
 * Posts as many receive buffers as can be allocated. Called by NAPI, or with
 * NAPI disabled.
 */
void tern_rx_fill(struct tern_channel *ch, gfp_t gfp)
{
	struct tern_rx *rx = &ch->rx;
	struct tern_rx_slot *slot;
	dma_addr_t dma;

#ifndef TERN_WITHOUT_XSK
	if (rx->xsk_pool) {
		tern_xsk_rx_fill(rx);
		return;
	}
#endif
	while (tern_ring_free(rx->pi, rx->ci, rx->log_size)) {
		slot = tern_rx_slot(rx, rx->pi);
		slot->size = rx->buf_size;
		slot->page = page_pool_alloc(rx->pool, &slot->offset, &slot->size, gfp);
		if (!slot->page) {
			tern_rx_count_fail(ch);
			break;
		}
		dma = page_pool_get_dma_addr(slot->page) + slot->offset + rx->headroom;
		rx->ring[tern_ring_slot(rx->pi, rx->log_size)] = (struct tern_eth_rxd){
			.addr = cpu_to_le64(dma),
			.length = cpu_to_le32(rx->buf_len),
		};
		rx->pi++;
	}
	/* Write the descriptors before the index that covers them. */
	dma_wmb();
	WRITE_ONCE(rx->record->pi, cpu_to_le32(rx->pi));
}

/* Whether so few buffers are posted that process context must allocate some. */
bool tern_rx_is_low(const struct tern_rx *rx)
{
#ifndef TERN_WITHOUT_XSK
	if (rx->xsk_pool)
		return false;
#endif
	return tern_ring_used(rx->pi, rx->ci) < BIT(rx->log_size) / 2;
}

/* Frees @num buffers from index rx->ci on. */
static void tern_rx_put(struct tern_rx *rx, u32 num, bool napi)
{
	struct tern_rx_slot *slot;

	for (; num; num--, rx->ci++) {
		slot = tern_rx_slot(rx, rx->ci);
#ifndef TERN_WITHOUT_XSK
		if (rx->xsk_pool) {
			xsk_buff_free(slot->xdp);
			continue;
		}
#endif
		page_pool_put_full_page(rx->pool, slot->page, napi);
	}
}

/* Collects the @num buffers of a frame of @len bytes. */
static void tern_rx_collect(struct tern_rx *rx, struct xdp_buff *xdp, u32 len, u32 num)
{
	struct skb_shared_info *sinfo;
	struct tern_rx_slot *slot;
	u32 part, i;

	for (i = 0; i < num; i++, rx->ci++, len -= part) {
		slot = tern_rx_slot(rx, rx->ci);
		part = min(len, rx->buf_len);
		page_pool_dma_sync_for_cpu(rx->pool, slot->page,
					   slot->offset + rx->headroom, part);
		if (!i) {
			xdp_init_buff(xdp, slot->size, &rx->xdp_rxq);
			xdp_prepare_buff(xdp, page_address(slot->page) + slot->offset,
					 rx->headroom, part, true);
			continue;
		}
		sinfo = xdp_get_shared_info_from_buff(xdp);
		if (i == 1) {
			xdp_buff_set_frags_flag(xdp);
			sinfo->nr_frags = 0;
			sinfo->xdp_frags_size = 0;
		}
		skb_frag_fill_page_desc(&sinfo->frags[sinfo->nr_frags++], slot->page,
					slot->offset + rx->headroom, part);
		sinfo->xdp_frags_size += part;
		if (page_is_pfmemalloc(slot->page))
			xdp_buff_set_frag_pfmemalloc(xdp);
	}
}

/* Makes an skb of a frame. Frees the frame without memory. */
static struct sk_buff *tern_rx_build_skb(struct tern_channel *ch, struct xdp_buff *xdp)
{
	unsigned int nr_frags = 0, metasize = xdp->data - xdp->data_meta;
	struct skb_shared_info *sinfo;
	struct sk_buff *skb;
	skb_frag_t *frag;
	unsigned int i;

#ifndef TERN_WITHOUT_XSK
	if (ch->rx.xsk_pool)
		return tern_xsk_rx_build_skb(ch, xdp);
#endif
	/* build_skb() clears the count, but not the array. */
	if (unlikely(xdp_buff_has_frags(xdp)))
		nr_frags = xdp_get_shared_info_from_buff(xdp)->nr_frags;
	skb = napi_build_skb(xdp->data_hard_start, xdp->frame_sz);
	if (unlikely(!skb)) {
		xdp_return_buff(xdp);
		return NULL;
	}
	skb_mark_for_recycle(skb);
	skb_reserve(skb, xdp->data - xdp->data_hard_start);
	__skb_put(skb, xdp->data_end - xdp->data);
	if (metasize)
		skb_metadata_set(skb, metasize);
	sinfo = skb_shinfo(skb);
	for (i = 0; i < nr_frags; i++) {
		frag = &sinfo->frags[i];
		skb_add_rx_frag(skb, i, skb_frag_page(frag), skb_frag_off(frag),
				skb_frag_size(frag), ch->rx.buf_size);
	}
	return skb;
}

/* Takes over the device's results for a frame. */
static void tern_rx_offload(struct tern_channel *ch, struct sk_buff *skb,
			    const struct tern_cqe *cqe, u64 *count)
{
	struct net_device *netdev = ch->net->netdev;
	u16 hash = le16_to_cpu(cqe->pkey_index);

	if (cqe->flags & TERN_CQE_F_L4_OK && netdev->features & NETIF_F_RXCSUM) {
		skb->ip_summed = CHECKSUM_UNNECESSARY;
		count[TERN_RX_STAT_CSUM_UNNECESSARY]++;
	} else {
		count[TERN_RX_STAT_CSUM_NONE]++;
	}
	if (hash != TERN_ETH_HASH_NONE && netdev->features & NETIF_F_RXHASH)
		skb_set_hash(skb, le32_to_cpu(cqe->inv_rkey),
			     hash == TERN_ETH_HASH_L4 ? PKT_HASH_TYPE_L4 :
							PKT_HASH_TYPE_L3);
	if (cqe->flags & TERN_CQE_F_VLAN && ch->rx.flags & TERN_ETH_QF_STRIP_VLAN)
		__vlan_hwaccel_put_tag(skb, htons(ETH_P_8021Q), le16_to_cpu(cqe->vlan));
#ifndef TERN_WITHOUT_PTP
	if (unlikely(READ_ONCE(ch->net->ptp.config.rx_filter) != HWTSTAMP_FILTER_NONE))
		skb_hwtstamps(skb)->hwtstamp =
			ns_to_ktime(tern_ptp_time(ch->net, le64_to_cpu(cqe->timestamp)));
#endif
	skb_record_rx_queue(skb, ch->index);
	skb->protocol = eth_type_trans(skb, netdev);
}

/* Passes a frame to the network stack. */
static void tern_rx_pass(struct tern_channel *ch, struct tern_xdp_buff *buff, u64 *count)
{
	struct sk_buff *skb = tern_rx_build_skb(ch, &buff->xdp);

	if (unlikely(!skb)) {
		count[TERN_RX_STAT_ALLOC_FAIL]++;
		return;
	}
	tern_rx_offload(ch, skb, buff->cqe, count);
#ifndef TERN_WITHOUT_HWGRO
	if (unlikely(buff->cqe->srqn) &&
	    !tern_gro_complete(skb, le32_to_cpu(buff->cqe->srqn),
			       READ_ONCE(ch->rx.frame_len), count)) {
		count[TERN_RX_STAT_ERRORS]++;
		kfree_skb(skb);
		return;
	}
#endif
	napi_gro_receive(&ch->napi, skb);
}

/* Number of buffers that @cqe completes, or 0 if that is impossible. */
static u32 tern_rx_num_buffers(const struct tern_rx *rx, const struct tern_cqe *cqe)
{
	u32 num = le32_to_cpu(READ_ONCE(cqe->wqe_index)) - rx->ci + 1;

	/* A queue completes in order, unless it failed. */
	if (unlikely(cqe->status == TERN_CQE_LOC_QP_OP_ERR || !num ||
		     num > TERN_ETH_MAX_RXD ||
		     num > tern_ring_used(rx->pi, rx->ci)))
		return 0;
	return num;
}

/* Whether a frame of @len bytes in @num buffers can be passed on. */
static bool tern_rx_is_good(const struct tern_rx *rx, const struct tern_cqe *cqe, u32 len,
			    u32 num)
{
	u32 max_len = READ_ONCE(rx->frame_len);

#ifndef TERN_WITHOUT_HWGRO
	if (cqe->srqn) {
		if (!(rx->flags & TERN_ETH_QF_COALESCE))
			return false;
		max_len = VLAN_ETH_HLEN + TERN_ETH_MAX_COALESCED;
	}
#endif
	if (rx->flags & TERN_ETH_QF_KEEP_FCS)
		max_len += ETH_FCS_LEN;
	return cqe->status == TERN_CQE_SUCCESS && len >= ETH_HLEN && len <= max_len &&
	       num == DIV_ROUND_UP(len, rx->buf_len);
}

/* Posts buffers after a poll. */
static void tern_rx_refill(struct tern_channel *ch)
{
	struct tern_rx *rx = &ch->rx;

	if (tern_ring_free(rx->pi, rx->ci, rx->log_size) >= TERN_RX_BATCH)
		tern_rx_fill(ch, GFP_ATOMIC | __GFP_NOWARN);
	/* Under memory pressure, process context can wait for memory. */
	if (unlikely(tern_rx_is_low(rx)))
		schedule_delayed_work(&ch->net->refill_work, 0);
}

/* Handles a received frame. Returns false if the device is faulty. */
static bool tern_rx_one(struct tern_channel *ch, const struct tern_cqe *cqe, u64 *count)
{
	struct tern_xdp_buff local, *buff = &local;
	/* Read it once: the device can write to the entry. */
	u32 len = le32_to_cpu(READ_ONCE(cqe->byte_len));
	struct tern_rx *rx = &ch->rx;
#ifndef TERN_WITHOUT_XDP
	struct bpf_prog *prog;
#endif
	u32 num;

	num = tern_rx_num_buffers(rx, cqe);
	if (unlikely(!num))
		return false;
	if (unlikely(!tern_rx_is_good(rx, cqe, len, num))) {
		tern_rx_put(rx, num, true);
		count[TERN_RX_STAT_ERRORS]++;
		return true;
	}
	count[TERN_RX_STAT_PACKETS]++;
	count[TERN_RX_STAT_BYTES] += len;
#ifdef TERN_WITHOUT_XSK
	tern_rx_collect(rx, &buff->xdp, len, num);
#else
	if (rx->xsk_pool)
		buff = tern_xsk_rx_collect(rx, len, num);
	else
		tern_rx_collect(rx, &buff->xdp, len, num);
#endif
	buff->cqe = cqe;
#ifndef TERN_WITHOUT_XDP
	buff->ch = ch;
	prog = READ_ONCE(ch->net->xdp_prog);
	if (prog && !tern_xdp_run(ch, prog, buff, count))
		return true;
#endif
	tern_rx_pass(ch, buff, count);
	return true;
}

int tern_rx_poll(struct tern_channel *ch, int budget)
{
	struct tern_stats *stats = &ch->net->stats[ch->index];
	u64 count[TERN_RX_STAT_NUM] = {};
	struct tern_rx *rx = &ch->rx;
	const struct tern_cqe *cqe;
	int done = 0;

	while (done < budget && (cqe = tern_net_cq_peek(&rx->cq))) {
		rx->cq.ci++;
		done++;
		if (unlikely(!tern_rx_one(ch, cqe, count))) {
			tern_net_fault(ch->net);
			break;
		}
	}
#ifndef TERN_WITHOUT_XDP
	tern_xdp_flush(ch);
#endif
	tern_net_cq_release(&rx->cq);
	tern_stats_add(stats, stats->rx, count, TERN_RX_STAT_NUM);
#ifndef TERN_WITHOUT_XSK
	if (rx->xsk_pool)
		return tern_xsk_rx_refill(rx) ? budget : done;
#endif
	tern_rx_refill(ch);
	return done;
}

/* Creates a pool of the buffers of a configuration. */
static struct page_pool *tern_rx_pool_create(struct tern_channel *ch,
					     const struct tern_net_config *config)
{
	unsigned int order = get_order(tern_rx_layout(config).buf_size);
	struct page_pool_params params = {
		.flags = PP_FLAG_DMA_MAP | PP_FLAG_DMA_SYNC_DEV,
		.order = order,
		.pool_size = BIT(config->rx_log_size),
		.nid = NUMA_NO_NODE,
		.dev = tern_dma_dev(ch->net->tdev),
		.napi = &ch->napi,
		.dma_dir = DMA_FROM_DEVICE,
		.max_len = PAGE_SIZE << order,
		.netdev = ch->net->netdev,
		.queue_idx = ch->index,
	};

#ifndef TERN_WITHOUT_XDP
	/* XDP_TX sends the buffers. */
	if (config->xdp)
		params.dma_dir = DMA_BIDIRECTIONAL;
#endif
	return page_pool_create(&params);
}

static int tern_rx_alloc_pool(struct tern_channel *ch, const struct tern_net_config *config)
{
	struct tern_rx *rx = &ch->rx;
	int err;

	rx->pool = tern_rx_pool_create(ch, config);
	if (IS_ERR(rx->pool))
		return PTR_ERR(rx->pool);
	/* Frames of several buffers have buffers of a page. */
	err = __xdp_rxq_info_reg(&rx->xdp_rxq, ch->net->netdev, ch->index,
				 ch->napi.napi_id, PAGE_SIZE);
	if (err)
		goto destroy_pool;
	err = xdp_rxq_info_reg_mem_model(&rx->xdp_rxq, MEM_TYPE_PAGE_POOL, rx->pool);
	if (err)
		goto unreg;
	return 0;

unreg:
	xdp_rxq_info_unreg(&rx->xdp_rxq);
destroy_pool:
	page_pool_destroy(rx->pool);
	return err;
}

static void tern_rx_free_pool(struct tern_rx *rx)
{
	xdp_rxq_info_unreg(&rx->xdp_rxq);
	page_pool_destroy(rx->pool);
}

int tern_rx_alloc(struct tern_channel *ch, const struct tern_net_config *config)
{
	struct tern_rx_layout layout = tern_rx_layout(config);
	struct tern_net *net = ch->net;
	struct tern_rx *rx = &ch->rx;
	int err;

	rx->log_size = config->rx_log_size;
	rx->frame_len = config->frame_len;
	rx->headroom = layout.headroom;
	rx->buf_size = layout.buf_size;
	rx->slots = kvzalloc_objs(*rx->slots, BIT(rx->log_size));
	if (!rx->slots)
		return -ENOMEM;
	err = tern_rx_alloc_pool(ch, config);
	if (err)
		goto free_slots;
	err = tern_net_cq_alloc(net, &rx->cq, rx->log_size);
	if (err)
		goto free_pool;
	err = tern_buf_alloc(net->tdev, &rx->buf, sizeof(*rx->ring), rx->log_size);
	if (err)
		goto free_cq;
	rx->ring = rx->buf.va;
	rx->record = rx->buf.va + rx->buf.record_offset;
	return 0;

free_cq:
	tern_buf_free(net->tdev, &rx->cq.buf);
free_pool:
	tern_rx_free_pool(rx);
free_slots:
	kvfree(rx->slots);
	return err;
}

void tern_rx_free(struct tern_channel *ch)
{
	struct tern_net *net = ch->net;
	struct tern_rx *rx = &ch->rx;

	tern_buf_free(net->tdev, &rx->buf);
	tern_buf_free(net->tdev, &rx->cq.buf);
	tern_rx_free_pool(rx);
	kvfree(rx->slots);
}

int tern_rx_create(struct tern_channel *ch, const struct tern_net_config *config)
{
	struct tern_cmd_create_eth_queue cmd = {
		.direction = TERN_ETH_QUEUE_RX,
		.log_size = ch->rx.log_size,
	};
	struct tern_net *net = ch->net;
	struct tern_rx *rx = &ch->rx;
	int err;

	rx->flags = config->rx_flags;
	rx->buf_len = tern_rx_layout(config).buf_len;
#ifndef TERN_WITHOUT_XSK
	if (rx->xsk_pool)
		tern_xsk_rx_config(rx, config);
#endif
	cmd.flags = rx->flags;
	err = tern_net_cq_create(ch, &rx->cq);
	if (err)
		return err;
	memset(rx->buf.va, 0, rx->buf.size);
	rx->pi = 0;
	rx->ci = 0;
	err = tern_eth_queue_create(net, &cmd, &rx->buf, &rx->cq, &rx->id);
	if (err) {
		tern_net_cq_destroy(net, &rx->cq);
		return err;
	}
	rx->created = true;
	/*
	 * Writing out pages may use this channel. If the ring is not full, the first poll
	 * refills it.
	 */
	tern_rx_fill(ch, GFP_NOIO | __GFP_NOWARN);
	return 0;
}

void tern_rx_destroy(struct tern_channel *ch)
{
	struct tern_net *net = ch->net;
	struct tern_rx *rx = &ch->rx;

	if (!rx->created)
		return;
	rx->created = false;
	tern_cmd_destroy(net->tdev, TERN_CMD_DESTROY_ETH_QUEUE, rx->id);
	tern_net_cq_destroy(net, &rx->cq);
	tern_rx_put(rx, tern_ring_used(rx->pi, rx->ci), false);
}
