// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Ethernet queues: creation, transmit, receive. */

#include <kunit/static_stub.h>
#include <kunit/visibility.h>
#include <linux/etherdevice.h>
#include <linux/rtnetlink.h>
#include <linux/skbuff.h>
#include <linux/slab.h>
#include <net/netdev_queues.h>
#include <net/page_pool/helpers.h>

#include "tern_net.h"
#include "tern_util.h"

#define TERN_RX_HEADROOM	(NET_SKB_PAD + NET_IP_ALIGN)
/* Number of free receive descriptors that justifies a refill. */
#define TERN_RX_BATCH		16
/* Below this number of buffers, allocation is retried in process context. */
#define TERN_RX_LOW		(BIT(TERN_RX_LOG_SIZE) / 2)
#define TERN_REFILL_INTERVAL	(HZ / 2)
/* Stop the transmit queue without room for a frame, wake it with twice that. */
#define TERN_TX_STOP		TERN_ETH_MAX_TXD
#define TERN_TX_WAKE		(2 * TERN_ETH_MAX_TXD)

/* Handles a fault that only new queues repair. */
static void tern_net_fault(struct tern_net *net)
{
	schedule_delayed_work(&net->restart_work, 0);
}

/* Whether the event is about the queue, not about an earlier one with its number. */
static bool tern_net_cq_has(const struct tern_net_cq *cq, const struct tern_eqe *eqe)
{
	return le32_to_cpu(eqe->id) == READ_ONCE(cq->id) &&
	       le32_to_cpu(eqe->generation) == READ_ONCE(cq->generation);
}

/* The device reported an error of a completion queue. Process context. */
void tern_net_cq_error(struct tern_net *net, const struct tern_eqe *eqe)
{
	if (tern_net_cq_has(&net->tx.cq, eqe) || tern_net_cq_has(&net->rx.cq, eqe))
		tern_net_fault(net);
}
EXPORT_SYMBOL_IF_KUNIT(tern_net_cq_error);

static int tern_net_cq_alloc(struct tern_net *net, struct tern_net_cq *cq, u8 log_size)
{
	int err;

	err = tern_buf_alloc(net->tdev, &cq->buf, sizeof(*cq->ring), log_size);
	if (err)
		return err;
	cq->ring = cq->buf.va;
	cq->record = cq->buf.va + cq->buf.record_offset;
	cq->log_size = log_size;
	return 0;
}

/* Gives the memory of an empty completion queue to the device. */
static int tern_net_cq_create(struct tern_net *net, struct tern_net_cq *cq)
{
	struct tern_cmd_create_cq cmd = {
		.pages = tern_buf_pages(&cq->buf),
		.record = tern_buf_record(&cq->buf),
		.eqn = cpu_to_le32(tern_eq_number(net->eq)),
		.uar = cpu_to_le32(TERN_UAR_KERNEL),
		.log_size = cq->log_size,
	};
	struct tern_rsp_object rsp;
	int err;

	memset(cq->buf.va, 0, cq->buf.size);
	cq->ci = 0;
	cq->arm_seq = 0;
	err = tern_cmd_exec(&net->tdev->core, TERN_CMD_CREATE_CQ, &cmd, sizeof(cmd),
			    &rsp, sizeof(rsp));
	if (err)
		return err;
	WRITE_ONCE(cq->id, le32_to_cpu(rsp.id));
	WRITE_ONCE(cq->generation, le32_to_cpu(rsp.generation));
	return 0;
}

static void tern_net_cq_destroy(struct tern_net *net, struct tern_net_cq *cq)
{
	tern_cmd_destroy(net->tdev, TERN_CMD_DESTROY_CQ, cq->id);
}

static bool tern_net_cq_written(const struct tern_net_cq *cq, u32 index)
{
	const struct tern_cqe *cqe = &cq->ring[tern_ring_slot(index, cq->log_size)];

	return tern_phase_valid(le32_to_cpu(READ_ONCE(cqe->phase)), index,
				cq->log_size);
}

/* Returns the next entry, or NULL. */
static const struct tern_cqe *tern_net_cq_peek(const struct tern_net_cq *cq)
{
	if (!tern_net_cq_written(cq, cq->ci))
		return NULL;
	/* The rest of the entry was written before its phase. */
	dma_rmb();
	return &cq->ring[tern_ring_slot(cq->ci, cq->log_size)];
}

/* Returns consumed entries to the device. */
static void tern_net_cq_release(struct tern_net_cq *cq)
{
	/* Read them before the device learns that their slots are free. */
	dma_mb();
	WRITE_ONCE(cq->record->ci, cpu_to_le32(cq->ci));
}

/*
 * Requests an event. NAPI no longer owns the queue here: the lock keeps an arm
 * word with an old sequence number from overwriting that of a later poll on
 * another CPU. If such a poll advances ci, the entry may be a later one than it
 * seems.
 */
static void tern_net_cq_arm(struct tern_net *net, struct tern_net_cq *cq)
{
	u32 ci, next, word;

	spin_lock(&cq->arm_lock);
	ci = READ_ONCE(cq->ci);
	word = tern_cq_arm_word(ci, READ_ONCE(cq->arm_seq), false);
	WRITE_ONCE(cq->record->arm, cpu_to_le32(word));
	/* The device writes an entry, then reads the word. */
	dma_mb();
	next = tern_cq_unreported(ci, le32_to_cpu(READ_ONCE(cq->record->reported)));
	if (tern_net_cq_written(cq, next) || READ_ONCE(cq->ci) != ci)
		tern_ring(&net->tdev->core, TERN_DB_CMD_CQ_ARM, cq->id);
	spin_unlock(&cq->arm_lock);
}

/* Handles an event of a completion queue. Hard interrupt context. */
static void tern_net_event(void *context, const struct tern_eqe *eqe)
{
	struct tern_net *net = context;
	struct tern_net_cq *cq;

	if (tern_net_cq_has(&net->rx.cq, eqe))
		cq = &net->rx.cq;
	else if (tern_net_cq_has(&net->tx.cq, eqe))
		cq = &net->tx.cq;
	else
		return; /* stale event of a destroyed queue */
	/* The device ignores another arm with the same sequence number. */
	WRITE_ONCE(cq->arm_seq, cq->arm_seq + 1);
	napi_schedule_irqoff(&net->napi);
}

static int tern_eth_queue_create(struct tern_net *net, const struct tern_buf *buf,
				 const struct tern_net_cq *cq, u8 direction,
				 u8 log_size, u32 *id)
{
	struct tern_cmd_create_eth_queue cmd = {
		.pages = tern_buf_pages(buf),
		.record = tern_buf_record(buf),
		.cqn = cpu_to_le32(cq->id),
		.uar = cpu_to_le32(TERN_UAR_KERNEL),
		.direction = direction,
		.log_size = log_size,
		.port = TERN_ETH_PORT,
	};

	return tern_cmd_create(net->tdev, TERN_CMD_CREATE_ETH_QUEUE, &cmd,
			       sizeof(cmd), id);
}

static u32 tern_tx_free(const struct tern_tx *tx)
{
	return tern_ring_free(READ_ONCE(tx->pi), READ_ONCE(tx->ci),
			      TERN_TX_LOG_SIZE);
}

static void tern_tx_unmap(struct tern_net *net, struct tern_tx_slot *slot)
{
	struct device *dev = tern_dma_dev(net->tdev);

	if (slot->frag)
		dma_unmap_page(dev, slot->dma, slot->len, DMA_TO_DEVICE);
	else
		dma_unmap_single(dev, slot->dma, slot->len, DMA_TO_DEVICE);
}

/* Maps a part of a frame and writes its descriptor at index @pi. */
static int tern_tx_map_part(struct tern_net *net, struct sk_buff *skb,
			    const skb_frag_t *frag, u32 pi, bool last)
{
	struct device *dev = tern_dma_dev(net->tdev);
	u32 index = tern_ring_slot(pi, TERN_TX_LOG_SIZE);
	struct tern_tx_slot *slot = &net->tx.slots[index];

	slot->frag = frag;
	slot->len = frag ? skb_frag_size(frag) : skb_headlen(skb);
	slot->dma = frag ?
		skb_frag_dma_map(dev, frag, 0, slot->len, DMA_TO_DEVICE) :
		dma_map_single(dev, skb->data, slot->len, DMA_TO_DEVICE);
	if (dma_mapping_error(dev, slot->dma))
		return -ENOMEM;

	slot->skb = last ? skb : NULL;
	net->tx.ring[index] = (struct tern_eth_txd){
		.addr = cpu_to_le64(slot->dma),
		.length = cpu_to_le32(slot->len),
		.flags = cpu_to_le16(last ? TERN_ETH_F_EOP : 0),
	};
	return 0;
}

/* Maps a frame and writes its descriptors. The device does not see them yet. */
static int tern_tx_map(struct tern_net *net, struct sk_buff *skb)
{
	unsigned int nr_frags = skb_shinfo(skb)->nr_frags;
	struct tern_tx *tx = &net->tx;
	const skb_frag_t *frag = NULL;
	u32 pi = tx->pi;
	unsigned int i;

	for (i = 0; i <= nr_frags; i++, pi++) {
		if (i)
			frag = &skb_shinfo(skb)->frags[i - 1];
		if (tern_tx_map_part(net, skb, frag, pi, i == nr_frags))
			goto unmap;
	}
	WRITE_ONCE(tx->pi, pi);
	return 0;

unmap:
	while (pi-- != tx->pi)
		tern_tx_unmap(net, &tx->slots[tern_ring_slot(pi, TERN_TX_LOG_SIZE)]);
	return -ENOMEM;
}

static void tern_tx_kick(struct tern_net *net)
{
	tern_ring(&net->tdev->core, TERN_DB_CMD_ETH_TX, net->tx.id);
}

netdev_tx_t tern_xmit(struct sk_buff *skb, struct net_device *netdev)
{
	struct netdev_queue *txq = netdev_get_tx_queue(netdev, 0);
	struct tern_net *net = netdev_priv(netdev);
	struct tern_tx *tx = &net->tx;
	bool kick;

	/* Spurious wake-up: stop again unless there is room by now. */
	if (unlikely(!netif_txq_maybe_stop(txq, tern_tx_free(tx), TERN_TX_STOP,
					   TERN_TX_WAKE)))
		return NETDEV_TX_BUSY;

	if (skb_shinfo(skb)->nr_frags >= TERN_ETH_MAX_TXD && skb_linearize(skb))
		goto drop;
	if (tern_tx_map(net, skb))
		goto drop;

	skb_tx_timestamp(skb);
	netif_txq_maybe_stop(txq, tern_tx_free(tx), TERN_TX_STOP, TERN_TX_WAKE);
	/* Account for the frame before the device can complete it. */
	kick = __netdev_tx_sent_queue(txq, skb->len, netdev_xmit_more());
	/* Write the descriptors before the index that covers them. */
	dma_wmb();
	WRITE_ONCE(tx->record->pi, cpu_to_le32(tx->pi));
	if (kick)
		tern_tx_kick(net);
	return NETDEV_TX_OK;

drop:
	dev_kfree_skb_any(skb);
	DEV_STATS_INC(netdev, tx_dropped);
	/* Later frames of the batch share one kick. */
	if (!netdev_xmit_more())
		tern_tx_kick(net);
	return NETDEV_TX_OK;
}

/* Completed frames and bytes. */
struct tern_tx_count {
	unsigned int packets;
	unsigned int bytes;
};

/* Frees frames up to descriptor @end. False if it is not in flight. */
static bool tern_tx_complete(struct tern_net *net, u32 *ci, u32 end, int budget,
			     struct tern_tx_count *done)
{
	struct tern_tx *tx = &net->tx;
	struct tern_tx_slot *slot;

	if (tern_ring_used(end, *ci) >= tern_ring_used(READ_ONCE(tx->pi), *ci))
		return false;

	do {
		slot = &tx->slots[tern_ring_slot(*ci, TERN_TX_LOG_SIZE)];
		tern_tx_unmap(net, slot);
		if (!slot->skb)
			continue;
		done->packets++;
		done->bytes += slot->skb->len;
		napi_consume_skb(slot->skb, budget);
		slot->skb = NULL;
	} while ((*ci)++ != end);
	return true;
}

static void tern_tx_poll(struct tern_net *net, int budget)
{
	struct netdev_queue *txq = netdev_get_tx_queue(net->netdev, 0);
	struct tern_tx_count queued = {}, sent = {};
	struct tern_tx *tx = &net->tx;
	const struct tern_cqe *cqe;
	u32 ci = tx->ci;

	while ((cqe = tern_net_cq_peek(&tx->cq))) {
		struct tern_tx_count done = {};

		/* With this status the device has stopped the queue. */
		if (unlikely(cqe->status == TERN_CQE_LOC_QP_OP_ERR ||
			     !tern_tx_complete(net, &ci,
					       le32_to_cpu(cqe->wqe_index),
					       budget, &done)))
			tern_net_fault(net);
		queued.packets += done.packets;
		queued.bytes += done.bytes;
		if (likely(cqe->status == TERN_CQE_SUCCESS)) {
			sent.packets += done.packets;
			sent.bytes += done.bytes;
		} else {
			DEV_STATS_INC(net->netdev, tx_errors);
		}
		tx->cq.ci++;
	}
	tern_net_cq_release(&tx->cq);
	/* Release CQ entries first: new frames will need them. */
	smp_store_release(&tx->ci, ci);

	dev_sw_netstats_tx_add(net->netdev, sent.packets, sent.bytes);
	netif_txq_completed_wake(txq, queued.packets, queued.bytes,
				 tern_tx_free(tx), TERN_TX_WAKE);
}

/* Allocates at least @slot->size bytes. Returns NULL without memory. */
VISIBLE_IF_KUNIT struct page *tern_rx_alloc_page(struct page_pool *pool,
						 struct tern_rx_slot *slot,
						 gfp_t gfp)
{
	KUNIT_STATIC_STUB_REDIRECT(tern_rx_alloc_page, pool, slot, gfp);
	return page_pool_alloc(pool, &slot->offset, &slot->size, gfp);
}
EXPORT_SYMBOL_IF_KUNIT(tern_rx_alloc_page);

/*
 * Posts as many receive buffers as can be allocated. Called by NAPI, or with
 * NAPI disabled.
 */
static void tern_rx_fill(struct tern_rx *rx, gfp_t gfp)
{
	unsigned int need = SKB_HEAD_ALIGN(TERN_RX_HEADROOM + rx->frame_len);
	struct tern_rx_slot *slot;
	dma_addr_t dma;
	u32 index;

	while (tern_ring_free(rx->pi, rx->ci, TERN_RX_LOG_SIZE)) {
		index = tern_ring_slot(rx->pi, TERN_RX_LOG_SIZE);
		slot = &rx->slots[index];
		slot->size = need;
		slot->page = tern_rx_alloc_page(rx->pool, slot, gfp);
		if (!slot->page)
			break;
		dma = page_pool_get_dma_addr(slot->page) + slot->offset +
		      TERN_RX_HEADROOM;
		rx->ring[index] = (struct tern_eth_rxd){
			.addr = cpu_to_le64(dma),
			.length = cpu_to_le32(rx->frame_len),
		};
		rx->pi++;
	}
	/* Write the descriptors before the index that covers them. */
	dma_wmb();
	WRITE_ONCE(rx->record->pi, cpu_to_le32(rx->pi));
}

static bool tern_rx_is_low(const struct tern_rx *rx)
{
	return tern_ring_used(rx->pi, rx->ci) < TERN_RX_LOW;
}

/* Passes a received frame of @len bytes to the stack. */
static void tern_rx_frame(struct tern_net *net, struct tern_rx_slot *slot, u32 len)
{
	struct tern_rx *rx = &net->rx;
	struct sk_buff *skb;

	page_pool_dma_sync_for_cpu(rx->pool, slot->page,
				   slot->offset + TERN_RX_HEADROOM, len);
	skb = napi_build_skb(page_address(slot->page) + slot->offset, slot->size);
	if (unlikely(!skb)) {
		page_pool_put_full_page(rx->pool, slot->page, true);
		DEV_STATS_INC(net->netdev, rx_dropped);
		return;
	}
	skb_mark_for_recycle(skb);
	skb_reserve(skb, TERN_RX_HEADROOM);
	__skb_put(skb, len);
	skb->protocol = eth_type_trans(skb, net->netdev);
	napi_gro_receive(&net->napi, skb);
}

static int tern_rx_poll(struct tern_net *net, int budget)
{
	struct tern_rx *rx = &net->rx;
	const struct tern_cqe *cqe;
	struct tern_rx_slot *slot;
	int done = 0;
	u32 len;

	while (done < budget && (cqe = tern_net_cq_peek(&rx->cq))) {
		rx->cq.ci++;
		done++;
		/* A queue completes in order, unless it failed. */
		if (unlikely(cqe->status == TERN_CQE_LOC_QP_OP_ERR ||
			     rx->ci == rx->pi ||
			     le32_to_cpu(cqe->wqe_index) != rx->ci)) {
			tern_net_fault(net);
			break;
		}
		len = le32_to_cpu(cqe->byte_len);
		slot = &rx->slots[tern_ring_slot(rx->ci++, TERN_RX_LOG_SIZE)];
		if (unlikely(cqe->status != TERN_CQE_SUCCESS ||
			     len < ETH_HLEN || len > rx->frame_len)) {
			page_pool_put_full_page(rx->pool, slot->page, true);
			DEV_STATS_INC(net->netdev, rx_errors);
			continue;
		}
		dev_sw_netstats_rx_add(net->netdev, len);
		tern_rx_frame(net, slot, len);
	}
	tern_net_cq_release(&rx->cq);
	if (tern_ring_free(rx->pi, rx->ci, TERN_RX_LOG_SIZE) >= TERN_RX_BATCH)
		tern_rx_fill(rx, GFP_ATOMIC | __GFP_NOWARN);
	/*
	 * Jumbo frames need high-order allocations, which are unlikely to
	 * succeed in atomic context.
	 */
	if (unlikely(tern_rx_is_low(rx)))
		schedule_delayed_work(&net->refill_work, 0);
	return done;
}

VISIBLE_IF_KUNIT int tern_net_poll(struct napi_struct *napi, int budget)
{
	struct tern_net *net = container_of(napi, struct tern_net, napi);
	int done;

	tern_tx_poll(net, budget);
	/* netpoll only needs transmit completions. */
	if (!budget)
		return 0;
	done = tern_rx_poll(net, budget);
	if (done < budget && napi_complete_done(napi, done)) {
		tern_net_cq_arm(net, &net->tx.cq);
		tern_net_cq_arm(net, &net->rx.cq);
	}
	return done;
}
EXPORT_SYMBOL_IF_KUNIT(tern_net_poll);

/* The first poll arms the completion queues. */
static void tern_net_napi_start(struct tern_net *net)
{
	napi_enable(&net->napi);
	local_bh_disable();
	napi_schedule(&net->napi);
	local_bh_enable();
}

static void tern_net_refill_work(struct work_struct *work)
{
	struct tern_net *net = container_of(to_delayed_work(work),
					    struct tern_net, refill_work);

	rtnl_lock();
	if (net->queues_up) {
		napi_disable(&net->napi);
		/* Writing pages out may use this very interface. */
		tern_rx_fill(&net->rx, GFP_NOIO | __GFP_NOWARN);
		/* Before NAPI, which would not delay the work. */
		if (tern_rx_is_low(&net->rx))
			schedule_delayed_work(&net->refill_work,
					      TERN_REFILL_INTERVAL);
		tern_net_napi_start(net);
	}
	rtnl_unlock();
}

static int tern_tx_alloc(struct tern_net *net)
{
	struct tern_tx *tx = &net->tx;
	int err;

	tx->slots = kvzalloc_objs(*tx->slots, BIT(TERN_TX_LOG_SIZE));
	if (!tx->slots)
		return -ENOMEM;
	err = tern_net_cq_alloc(net, &tx->cq, TERN_TX_LOG_SIZE);
	if (err)
		goto free_slots;
	err = tern_buf_alloc(net->tdev, &tx->buf, sizeof(*tx->ring), TERN_TX_LOG_SIZE);
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

static void tern_tx_free_memory(struct tern_net *net)
{
	struct tern_tx *tx = &net->tx;

	tern_buf_free(net->tdev, &tx->buf);
	tern_buf_free(net->tdev, &tx->cq.buf);
	kvfree(tx->slots);
}

static int tern_tx_create(struct tern_net *net)
{
	struct tern_tx *tx = &net->tx;
	int err;

	err = tern_net_cq_create(net, &tx->cq);
	if (err)
		return err;
	memset(tx->buf.va, 0, tx->buf.size);
	tx->pi = 0;
	tx->ci = 0;
	err = tern_eth_queue_create(net, &tx->buf, &tx->cq, TERN_ETH_QUEUE_TX,
				    TERN_TX_LOG_SIZE, &tx->id);
	if (err)
		tern_net_cq_destroy(net, &tx->cq);
	return err;
}

static void tern_tx_destroy(struct tern_net *net)
{
	struct tern_tx *tx = &net->tx;
	struct tern_tx_slot *slot;

	tern_cmd_destroy(net->tdev, TERN_CMD_DESTROY_ETH_QUEUE, tx->id);
	tern_net_cq_destroy(net, &tx->cq);
	for (; tx->ci != tx->pi; tx->ci++) {
		slot = &tx->slots[tern_ring_slot(tx->ci, TERN_TX_LOG_SIZE)];
		tern_tx_unmap(net, slot);
		dev_kfree_skb(slot->skb);
		slot->skb = NULL;
	}
	netdev_tx_reset_queue(netdev_get_tx_queue(net->netdev, 0));
}

/* Creates a pool of buffers for frames of @frame_len bytes. */
VISIBLE_IF_KUNIT struct page_pool *tern_rx_pool_create(struct tern_net *net,
						       unsigned int frame_len)
{
	unsigned int need = SKB_HEAD_ALIGN(TERN_RX_HEADROOM + frame_len);
	struct page_pool_params params = {
		.flags = PP_FLAG_DMA_MAP | PP_FLAG_DMA_SYNC_DEV,
		.order = get_order(need),
		.pool_size = BIT(TERN_RX_LOG_SIZE),
		.nid = NUMA_NO_NODE,
		.dev = tern_dma_dev(net->tdev),
		.napi = &net->napi,
		.dma_dir = DMA_FROM_DEVICE,
		.max_len = PAGE_SIZE << get_order(need),
		.netdev = net->netdev,
	};

	KUNIT_STATIC_STUB_REDIRECT(tern_rx_pool_create, net, frame_len);
	return page_pool_create(&params);
}
EXPORT_SYMBOL_IF_KUNIT(tern_rx_pool_create);

static int tern_rx_alloc(struct tern_net *net)
{
	struct tern_rx *rx = &net->rx;
	int err;

	rx->slots = kvzalloc_objs(*rx->slots, BIT(TERN_RX_LOG_SIZE));
	if (!rx->slots)
		return -ENOMEM;
	rx->frame_len = tern_frame_len(net->netdev->mtu);
	rx->pool = tern_rx_pool_create(net, rx->frame_len);
	if (IS_ERR(rx->pool)) {
		err = PTR_ERR(rx->pool);
		goto free_slots;
	}
	err = tern_net_cq_alloc(net, &rx->cq, TERN_RX_LOG_SIZE);
	if (err)
		goto destroy_pool;
	err = tern_buf_alloc(net->tdev, &rx->buf, sizeof(*rx->ring), TERN_RX_LOG_SIZE);
	if (err)
		goto free_cq;
	rx->ring = rx->buf.va;
	rx->record = rx->buf.va + rx->buf.record_offset;
	return 0;

free_cq:
	tern_buf_free(net->tdev, &rx->cq.buf);
destroy_pool:
	page_pool_destroy(rx->pool);
free_slots:
	kvfree(rx->slots);
	return err;
}

static void tern_rx_free_memory(struct tern_net *net)
{
	struct tern_rx *rx = &net->rx;

	tern_buf_free(net->tdev, &rx->buf);
	tern_buf_free(net->tdev, &rx->cq.buf);
	page_pool_destroy(rx->pool);
	kvfree(rx->slots);
}

static int tern_rx_create(struct tern_net *net)
{
	struct tern_rx *rx = &net->rx;
	int err;

	err = tern_net_cq_create(net, &rx->cq);
	if (err)
		return err;
	memset(rx->buf.va, 0, rx->buf.size);
	rx->pi = 0;
	rx->ci = 0;
	err = tern_eth_queue_create(net, &rx->buf, &rx->cq, TERN_ETH_QUEUE_RX,
				    TERN_RX_LOG_SIZE, &rx->id);
	if (err) {
		tern_net_cq_destroy(net, &rx->cq);
		return err;
	}
	/* If the ring is not full, the first poll refills it. */
	tern_rx_fill(rx, GFP_KERNEL);
	return 0;
}

static void tern_rx_destroy(struct tern_net *net)
{
	struct tern_rx *rx = &net->rx;
	struct tern_rx_slot *slot;

	tern_cmd_destroy(net->tdev, TERN_CMD_DESTROY_ETH_QUEUE, rx->id);
	tern_net_cq_destroy(net, &rx->cq);
	for (; rx->ci != rx->pi; rx->ci++) {
		slot = &rx->slots[tern_ring_slot(rx->ci, TERN_RX_LOG_SIZE)];
		page_pool_put_full_page(rx->pool, slot->page, false);
	}
}

/* Called once, before any queue is created. */
void tern_queues_init(struct tern_net *net)
{
	spin_lock_init(&net->tx.cq.arm_lock);
	spin_lock_init(&net->rx.cq.arm_lock);
	INIT_DELAYED_WORK(&net->refill_work, tern_net_refill_work);
	netif_napi_add(net->netdev, &net->napi, tern_net_poll);
}

/*
 * Allocates all memory of the queues, for the current MTU, and their event
 * queue. It is kept until tern_queues_free(), so that the queues can be stopped
 * and restarted without allocations. RTNL held.
 */
int tern_queues_alloc(struct tern_net *net)
{
	struct tern_dev *tdev = net->tdev;
	unsigned int vector = min(1U, tdev->num_vectors - 1);
	int err;

	err = tern_tx_alloc(net);
	if (err)
		return err;
	err = tern_rx_alloc(net);
	if (err)
		goto free_tx;
	net->eq = tern_eq_create_on(tdev, vector, 2, tern_net_event, net);
	if (IS_ERR(net->eq)) {
		err = PTR_ERR(net->eq);
		goto free_rx;
	}
	return 0;

free_rx:
	tern_rx_free_memory(net);
free_tx:
	tern_tx_free_memory(net);
	return err;
}

/* The queues must be stopped. RTNL held. */
void tern_queues_free(struct tern_net *net)
{
	tern_eq_destroy(net->eq);
	tern_rx_free_memory(net);
	tern_tx_free_memory(net);
}

/*
 * Creates the queues in the device and starts them. Needs no memory except for
 * receive buffers. RTNL held.
 */
int tern_queues_start(struct tern_net *net)
{
	int err;

	err = tern_tx_create(net);
	if (err)
		return err;
	err = tern_rx_create(net);
	if (err) {
		tern_tx_destroy(net);
		return err;
	}

	net->queues_up = true;
	tern_net_napi_start(net);
	netif_wake_queue(net->netdev);
	return 0;
}

/* Stops and destroys the queues, if they exist. RTNL held. */
void tern_queues_stop(struct tern_net *net)
{
	if (!net->queues_up)
		return;
	net->queues_up = false;

	/* NAPI first, because it wakes the transmit queue. */
	napi_disable(&net->napi);
	netif_tx_disable(net->netdev);
	netif_trans_update(net->netdev);
	/* The end of the last poll may still be arming. */
	synchronize_net();

	tern_rx_destroy(net);
	tern_tx_destroy(net);
}

/*
 * Adapts receive buffers to @mtu. If they must change, the queues are stopped.
 * On failure nothing is changed. RTNL held.
 */
int tern_queues_resize(struct tern_net *net, unsigned int mtu)
{
	unsigned int frame_len = tern_frame_len(mtu);
	struct page_pool *pool;

	if (frame_len == net->rx.frame_len)
		return 0;
	pool = tern_rx_pool_create(net, frame_len);
	if (IS_ERR(pool))
		return PTR_ERR(pool);

	tern_queues_stop(net);
	page_pool_destroy(net->rx.pool);
	net->rx.pool = pool;
	net->rx.frame_len = frame_len;
	return 0;
}
