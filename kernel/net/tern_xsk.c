// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * AF_XDP without copies: the buffers of a channel are those of a socket. The
 * device sends a socket's frames from the transmit queue that the network stack
 * uses, too.
 */

#include <linux/bpf.h>
#include <linux/etherdevice.h>
#include <linux/filter.h>
#include <linux/skbuff.h>
#include <net/xdp_sock_drv.h>

#include "tern_util.h"
#include "tern_xsk.h"

/* Maximum number of buffers taken from a pool at once. */
#define TERN_XSK_RX_BATCH	32
/* Maximum number of descriptors sent in a poll. */
#define TERN_XSK_TX_BATCH	64

/* ---- Pools ---- */

/* Bytes of a stored frame of @len bytes, with @rx_flags. */
static u32 tern_xsk_stored_len(u32 len, u8 rx_flags)
{
	return len + (rx_flags & TERN_ETH_QF_KEEP_FCS ? ETH_FCS_LEN : 0);
}

static u32 tern_xsk_frame_len(const struct tern_net_config *config)
{
	return tern_xsk_stored_len(config->frame_len, config->rx_flags);
}

/*
 * Bytes that a buffer of the pool takes, or 0 if frames do not fit into as many
 * buffers as the device fills. If a frame needs several, the first one has the list
 * of the others at its end, even if the owner does not expect such frames.
 */
static u32 tern_xsk_buf_len(struct xsk_buff_pool *pool,
			    const struct tern_net_config *config)
{
	int tail = SKB_DATA_ALIGN(sizeof(struct skb_shared_info));
	int len = xsk_pool_get_rx_frame_size(pool);
	int frame_len = tern_xsk_frame_len(config);

	if (len < frame_len) {
		if (!(config->rx_flags & TERN_ETH_QF_SCATTER))
			return 0;
		len = min(len, (int)xsk_pool_get_chunk_size(pool) -
			       (int)xsk_pool_get_headroom(pool) - tail);
	}
	return len * TERN_ETH_MAX_RXD >= frame_len ? len : 0;
}

/* Whether the buffers of @pool suit @config and @prog. */
bool tern_xsk_pool_fits(struct xsk_buff_pool *pool, const struct tern_net_config *config,
			const struct bpf_prog *prog)
{
	u32 len = tern_xsk_buf_len(pool, config);

	return len && (len >= tern_xsk_frame_len(config) || !prog ||
		       prog->aux->xdp_has_frags);
}

/* Whether the buffers of all pools suit @config and @prog. RTNL held. */
bool tern_xsk_fits(const struct tern_net *net, const struct tern_net_config *config,
		   const struct bpf_prog *prog)
{
	unsigned int i;

	for (i = 0; i < TERN_MAX_CHANNELS; i++)
		if (net->xsk_pools[i] &&
		    !tern_xsk_pool_fits(net->xsk_pools[i], config, prog))
			return false;
	return true;
}

/* ---- Reception ---- */

/* Takes the pool of the channel, which is stopped, if it has one. */
int tern_xsk_rx_start(struct tern_channel *ch)
{
	struct xsk_buff_pool *pool = ch->net->xsk_pools[ch->index];
	struct tern_rx *rx = &ch->rx;
	int err;

	XSK_CHECK_PRIV_TYPE(struct tern_xdp_buff);
	if (!pool)
		return 0;
	err = __xdp_rxq_info_reg(&rx->xsk_rxq, ch->net->netdev, ch->index,
				 ch->napi.napi_id, xsk_pool_get_rx_frag_step(pool));
	if (err)
		return err;
	err = xdp_rxq_info_reg_mem_model(&rx->xsk_rxq, MEM_TYPE_XSK_BUFF_POOL, NULL);
	if (err) {
		xdp_rxq_info_unreg(&rx->xsk_rxq);
		return err;
	}
	xsk_pool_set_rxq_info(pool, &rx->xsk_rxq);
	WRITE_ONCE(rx->xsk_pool, pool);
	return 0;
}

/* A socket receives frames as on the wire, in buffers of the pool. */
void tern_xsk_rx_config(struct tern_rx *rx, const struct tern_net_config *config)
{
	rx->flags &= ~TERN_ETH_QF_COALESCE;
	rx->buf_len = tern_xsk_buf_len(rx->xsk_pool, config);
}

void tern_xsk_rx_stop(struct tern_rx *rx)
{
	if (!rx->xsk_pool)
		return;
	WRITE_ONCE(rx->xsk_pool, NULL);
	xdp_rxq_info_unreg(&rx->xsk_rxq);
}

static void tern_xsk_rx_post(struct tern_rx *rx, struct xdp_buff *xdp)
{
	tern_rx_slot(rx, rx->pi)->xdp = xdp;
	rx->ring[tern_ring_slot(rx->pi, rx->log_size)] = (struct tern_eth_rxd){
		.addr = cpu_to_le64(xsk_buff_xdp_get_dma(xdp)),
		.length = cpu_to_le32(rx->buf_len),
	};
	rx->pi++;
}

/*
 * Posts buffers of the pool. Returns false if it had too few. Called by NAPI, or with
 * NAPI disabled.
 */
bool tern_xsk_rx_fill(struct tern_rx *rx)
{
	struct xdp_buff *buffs[TERN_XSK_RX_BATCH];
	u32 want, num, i;

	do {
		want = min(tern_ring_free(rx->pi, rx->ci, rx->log_size),
			   TERN_XSK_RX_BATCH);
		num = want ? xsk_buff_alloc_batch(rx->xsk_pool, buffs, want) : 0;
		for (i = 0; i < num; i++)
			tern_xsk_rx_post(rx, buffs[i]);
	} while (num == TERN_XSK_RX_BATCH);
	/* Write the descriptors before the index that covers them. */
	dma_wmb();
	WRITE_ONCE(rx->record->pi, cpu_to_le32(rx->pi));
	return num == want;
}

/*
 * Whether too few buffers are posted for the longest frame: the device may drop all
 * frames then, so no completion would poll again.
 */
bool tern_xsk_rx_starves(const struct tern_rx *rx)
{
	u32 len = tern_xsk_stored_len(rx->frame_len, rx->flags);

	return tern_ring_used(rx->pi, rx->ci) < DIV_ROUND_UP(len, rx->buf_len);
}

/*
 * Posts buffers at the end of a poll. Returns true if the pool had too few, and its
 * owner cannot be asked to wake the driver.
 */
bool tern_xsk_rx_refill(struct tern_rx *rx)
{
	struct xsk_buff_pool *pool = rx->xsk_pool;
	bool full = tern_xsk_rx_fill(rx);

	if (!xsk_uses_need_wakeup(pool))
		return !full && tern_xsk_rx_starves(rx);
	if (!full) {
		xsk_set_rx_need_wakeup(pool);
		/* The owner may have added buffers before it could see the flag. */
		smp_mb();
		full = tern_xsk_rx_fill(rx);
	}
	if (full)
		xsk_clear_rx_need_wakeup(pool);
	return false;
}

/* Collects the @num buffers of a frame of @len bytes. */
struct tern_xdp_buff *tern_xsk_rx_collect(struct tern_rx *rx, u32 len, u32 num)
{
	struct xdp_buff *head = NULL, *xdp;
	u32 part, i;

	for (i = 0; i < num; i++, rx->ci++, len -= part) {
		xdp = tern_rx_slot(rx, rx->ci)->xdp;
		part = min(len, rx->buf_len);
		xsk_buff_set_size(xdp, part);
		xsk_buff_dma_sync_for_cpu(xdp);
		if (!head)
			head = xdp;
		else if (!xsk_buff_add_frag(head, xdp))
			xsk_buff_free(xdp);
	}
	return container_of(head, struct tern_xdp_buff, xdp);
}

/*
 * Separates the buffers of a frame. The owner of the pool can write to the list in
 * the first buffer, but not to the pool's list. Returns their number.
 */
static u32 tern_xsk_split(struct xdp_buff *head, struct xdp_buff **parts)
{
	struct xdp_buff *part;
	u32 num = 1;

	parts[0] = head;
	if (likely(!xdp_buff_has_frags(head)))
		return num;
	while (num < TERN_ETH_MAX_RXD && (part = xsk_buff_get_frag(head)))
		parts[num++] = part;
	xdp_buff_clear_frags_flag(head);
	return num;
}

static u32 tern_xsk_len(const struct xdp_buff *xdp)
{
	return xdp->data_end - xdp->data;
}

/* Copies a frame for the network stack and frees it. */
struct sk_buff *tern_xsk_rx_build_skb(struct tern_channel *ch, struct xdp_buff *xdp)
{
	unsigned int metasize = xdp->data - xdp->data_meta;
	struct xdp_buff *parts[TERN_ETH_MAX_RXD];
	u32 num = tern_xsk_split(xdp, parts);
	unsigned int len = metasize;
	struct sk_buff *skb;
	u32 i;

	for (i = 0; i < num; i++)
		len += tern_xsk_len(parts[i]);
	skb = napi_alloc_skb(&ch->napi, len);
	if (likely(skb))
		skb_put_data(skb, xdp->data_meta, metasize);
	for (i = 0; i < num; i++) {
		if (likely(skb))
			skb_put_data(skb, parts[i]->data, tern_xsk_len(parts[i]));
		xsk_buff_free(parts[i]);
	}
	if (skb && metasize) {
		__skb_pull(skb, metasize);
		skb_metadata_set(skb, metasize);
	}
	return skb;
}

/* ---- Transmission ---- */

/* Offload request of an AF_XDP frame. */
struct tern_xsk_request {
	struct tern_eth_offload offload;
	bool checksum;
};

static void tern_xsk_request_timestamp(void *priv)
{
	/* The device reports the time of each frame. */
}

static u64 tern_xsk_fill_timestamp(void *priv)
{
	const struct tern_xsk_completion *completion = priv;

	/* Sockets may request time stamps of any device with offloads. */
	if (!completion->net->ptp.clock)
		return 0;
	return tern_ptp_time(completion->net, le64_to_cpu(completion->cqe->timestamp));
}

static void tern_xsk_request_checksum(u16 csum_start, u16 csum_offset, void *priv)
{
	struct tern_xsk_request *request = priv;

	request->checksum = true;
	request->offload = (struct tern_eth_offload){
		.flags = cpu_to_le16(TERN_ETH_F_OFFLOAD),
		.ops = cpu_to_le16(TERN_ETH_OP_CSUM),
		.csum_start = cpu_to_le16(csum_start),
		.csum_offset = cpu_to_le16(csum_offset),
	};
}

const struct xsk_tx_metadata_ops tern_xsk_tx_metadata_ops = {
	.tmo_request_timestamp	= tern_xsk_request_timestamp,
	.tmo_fill_timestamp	= tern_xsk_fill_timestamp,
	.tmo_request_checksum	= tern_xsk_request_checksum,
};

/*
 * Finds the end of the frame that @descs begin with. A frame that is too long for the
 * device, or incomplete, is not sent: @skip then means that its rest is at the
 * beginning of the next descriptors.
 */
struct tern_xsk_frame
tern_xsk_next_frame(const struct xdp_desc *descs, u32 num, bool *skip)
{
	struct tern_xsk_frame frame = {};
	bool rest = *skip;
	bool end = false;

	while (!end && frame.num < num)
		end = xsk_is_eop_desc(&descs[frame.num++]);
	*skip = !end;
	frame.good = end && !rest && frame.num <= TERN_XSK_MAX_SEGS;
	return frame;
}

/* Posts a frame. The pool's owner may change it until the device has read it. */
static void tern_xsk_tx_frame(struct tern_channel *ch, const struct xdp_desc *descs,
			      u32 num)
{
	const struct xsk_tx_metadata_ops *ops = ch->net->netdev->xsk_tx_metadata_ops;
	struct tern_xsk_request request = {};
	struct xsk_tx_metadata *meta = NULL;
	struct tern_tx *tx = &ch->tx;
	struct xsk_buff_pool *pool;
	u32 bytes = 0, pi = tx->pi;
	struct tern_tx_slot *slot;
	dma_addr_t dma;
	u32 i;

	pool = tx->xsk_pool;
	if (ops) {
		meta = xsk_buff_get_metadata(pool, descs[0].addr, descs[0].options);
		xsk_tx_metadata_request(pool, &meta, ops, &request);
	}
	if (request.checksum)
		tern_tx_write_offload(tx, pi++, &request.offload);
	for (i = 0; i < num; i++) {
		dma = xsk_buff_raw_get_dma(pool, descs[i].addr);
		xsk_buff_raw_dma_sync_for_device(pool, dma, descs[i].len);
		tern_tx_write(tx, pi++, dma, descs[i].len, TERN_TX_UNMAPPED);
		bytes += descs[i].len;
	}
	tx->xsk_last = pi - 1;
	slot = tern_tx_slot(tx, tx->xsk_last);
	slot->owner = TERN_TX_XSK;
	slot->needs_csum = request.checksum;
	slot->xsk_descs = num;
	slot->len = bytes;
	xsk_tx_metadata_to_compl(meta, &slot->compl);
	tern_tx_end(tx, pi);
}

/* Returns descriptors to the pool's owner, in the order in which it posted them. */
static void tern_xsk_tx_refuse(struct tern_tx *tx, u32 num)
{
	struct tern_tx_slot *slot = tern_tx_slot(tx, tx->xsk_last);

	if (slot->owner == TERN_TX_XSK)
		slot->xsk_descs += num;
	else
		xsk_tx_completed(tx->xsk_pool, num);
}

/* Sends up to @max descriptors. Returns their number. */
static u32 tern_xsk_tx_batch(struct tern_channel *ch, u32 max)
{
	struct tern_stats *stats = &ch->net->stats[ch->index];
	u64 count[TERN_TX_STAT_NUM] = {};
	struct tern_tx *tx = &ch->tx;
	const struct xdp_desc *descs;
	struct tern_xsk_frame frame;
	u32 pi = tx->pi;
	u32 num, i;

	num = xsk_tx_peek_release_desc_batch(tx->xsk_pool, max);
	/* Only now: the first socket that sends may just have allocated it. */
	descs = tx->xsk_pool->tx_descs;
	for (i = 0; i < num; i += frame.num) {
		frame = tern_xsk_next_frame(&descs[i], num - i, &tx->xsk_skip);
		if (likely(frame.good)) {
			tern_xsk_tx_frame(ch, &descs[i], frame.num);
		} else {
			tern_xsk_tx_refuse(tx, frame.num);
			count[TERN_TX_STAT_ERRORS]++;
		}
	}
	if (tx->pi != pi)
		tern_tx_submit(ch);
	if (unlikely(count[TERN_TX_STAT_ERRORS]))
		tern_stats_add(stats, stats->tx, count, TERN_TX_STAT_NUM);
	return num;
}

/* Sends frames of the pool. Returns true if there may be more. NAPI context. */
bool tern_xsk_tx(struct tern_channel *ch)
{
	struct netdev_queue *txq = tern_txq(ch);
	u32 limit = TERN_XSK_TX_BATCH, num = 0;
	struct tern_tx *tx = &ch->tx;
	struct xsk_buff_pool *pool;
	u32 room;

	pool = ch->tx.xsk_pool;
	if (xsk_uses_need_wakeup(pool)) {
		xsk_set_tx_need_wakeup(pool);
		/* Before the last check of the ring: a later frame sees the flag. */
		smp_mb();
	}
	__netif_tx_lock(txq, smp_processor_id());
	room = tern_tx_spare(ch);
	/* Each frame may need an offload descriptor. */
	if (pool->tx_metadata_len) {
		limit /= 2;
		room /= 2;
	}
	if (room) {
		txq_trans_cond_update(txq);
		num = tern_xsk_tx_batch(ch, min(room, limit));
	}
	/* A completion polls again. */
	if (xsk_uses_need_wakeup(pool) && tx->pi != tx->ci)
		xsk_clear_tx_need_wakeup(pool);
	__netif_tx_unlock(txq);
	return num == limit;
}

/* The address of the data, which a program may have moved. */
static dma_addr_t tern_xsk_buff_dma(struct xdp_buff *xdp)
{
	return xsk_buff_xdp_get_dma(xdp) + (xdp->data - xdp->data_hard_start) -
	       XDP_PACKET_HEADROOM;
}

static void tern_xsk_tx_part(struct tern_tx *tx, u32 index, struct xdp_buff *xdp)
{
	dma_addr_t dma = tern_xsk_buff_dma(xdp);
	u32 len = tern_xsk_len(xdp);
	struct tern_tx_slot *slot;

	xsk_buff_raw_dma_sync_for_device(tx->xsk_pool, dma, len);
	tern_tx_write(tx, index, dma, len, TERN_TX_UNMAPPED);
	slot = tern_tx_slot(tx, index);
	slot->owner = TERN_TX_BUFF_PART;
	slot->xdp = xdp;
}

/*
 * Sends a received frame from its buffers. Without space, the caller frees the rest
 * of the frame. NAPI context.
 */
bool tern_xsk_tx_buff(struct tern_channel *ch, struct xdp_buff *xdp)
{
	struct xdp_buff *parts[TERN_ETH_MAX_RXD];
	struct netdev_queue *txq = tern_txq(ch);
	u32 num = tern_xsk_split(xdp, parts);
	struct tern_tx *tx = &ch->tx;
	bool room;
	u32 i;

	static_assert(TERN_ETH_MAX_RXD <= TERN_ETH_MAX_TXD);
	__netif_tx_lock(txq, smp_processor_id());
	room = tern_tx_spare(ch) >= num;
	if (room) {
		txq_trans_cond_update(txq);
		for (i = 0; i < num; i++)
			tern_xsk_tx_part(tx, tx->pi + i, parts[i]);
		tern_tx_slot(tx, tx->pi + num - 1)->owner = TERN_TX_BUFF;
		tern_tx_end(tx, tx->pi + num);
		tern_tx_submit(ch);
	}
	__netif_tx_unlock(txq);
	for (i = 1; i < num && !room; i++)
		xsk_buff_free(parts[i]);
	return room;
}
