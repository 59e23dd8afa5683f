/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* tern.ko internals: the Ethernet function. */
#ifndef TERN_NET_H
#define TERN_NET_H

#include <linux/mutex.h>
#include <linux/netdevice.h>
#include <linux/spinlock.h>
#include <linux/u64_stats_sync.h>
#include <linux/workqueue.h>

#include "tern_dev.h"

/*
 * Log2 of the number of descriptors. A completion queue has the same size, so
 * that it cannot overflow.
 */
#define TERN_TX_LOG_SIZE	9
#define TERN_RX_LOG_SIZE	9

struct page_pool;

/* Completion queue, polled only by NAPI. */
struct tern_net_cq {
	struct tern_buf buf;
	struct tern_cqe *ring;
	struct tern_cq_record *record;
	u32 ci;
	u32 id;
	u32 generation;		/* of @id, as in the events of this queue */
	u8 log_size;
	u32 arm_seq;		/* events received; written by the event queue's handler */
	spinlock_t arm_lock;	/* the end of a poll may overlap the next poll */
};

/* Descriptors of a frame. The last one holds the skb. */
struct tern_tx_slot {
	struct sk_buff *skb;
	dma_addr_t dma;
	u32 len;
	bool frag;		/* mapped as a page */
};

struct tern_tx {
	struct tern_net_cq cq;
	struct tern_buf buf;
	struct tern_eth_txd *ring;
	struct tern_eth_record *record;
	struct tern_tx_slot *slots;
	u32 id;
	u32 pi;			/* written by the transmitter */
	u32 ci;			/* written by NAPI */
};

struct tern_rx_slot {
	struct page *page;
	u32 offset;
	u32 size;
};

struct tern_rx {
	struct tern_net_cq cq;
	struct tern_buf buf;
	struct tern_eth_rxd *ring;
	struct tern_eth_record *record;
	struct tern_rx_slot *slots;
	struct page_pool *pool;
	u32 id;
	u32 pi;
	u32 ci;
	u32 frame_len;		/* maximum frame length in bytes */
};

/**
 * struct tern_net - private data of the network device
 * @tdev: the PCI function
 * @netdev: the network device
 * @eq: event queue of both completion queues, while the interface is open
 * @napi: polls both completion queues
 * @tx: transmit queue
 * @rx: receive queue
 * @open: the queues have memory and the device has the configuration; under
 *	RTNL
 * @queues_up: the queues exist in the device; under RTNL
 * @filter: last filter given to SET_RX_FILTER; under RTNL
 * @link_lock: protects @port_up and the carrier
 * @port_up: the port is enabled, so the carrier follows its link
 * @restart_work: recreates the queues after a fault, with retries
 * @refill_work: allocates receive buffers in process context
 * @stats_work: refreshes @hw_counters
 * @hw_counters: counters of the device as last read, plus @counters_base;
 *	indexed by TERN_ETH_CNT_*
 * @hw_syncp: lets readers of @hw_counters detect a write
 * @counters_lock: serializes writers of @hw_counters; protects the members
 *	below
 * @counters_base: @hw_counters at the last reset, which clears the device's
 * @counters_frozen: the netdev is detached, so the device's counters do not
 *	count on top of @counters_base
 */
struct tern_net {
	struct tern_dev *tdev;
	struct net_device *netdev;
	struct tern_eq *eq;
	struct napi_struct napi;
	struct tern_tx tx;
	struct tern_rx rx;
	bool open;
	bool queues_up;
	struct tern_cmd_set_rx_filter filter;
	struct mutex link_lock;	/* see above */
	bool port_up;
	struct delayed_work restart_work;
	struct delayed_work refill_work;
	struct work_struct stats_work;
	u64_stats_t hw_counters[TERN_ETH_CNT_NUM];
	struct u64_stats_sync hw_syncp;
	struct mutex counters_lock;	/* see above */
	u64 counters_base[TERN_ETH_CNT_NUM];
	bool counters_frozen;
};

/* tern_netdev.c */
int tern_net_alloc(struct tern_dev *tdev);
void tern_net_free(struct tern_net *net);
int tern_net_register(struct tern_net *net);
void tern_net_unregister(struct tern_net *net);
void tern_net_detach(struct tern_net *net);
void tern_net_attach(struct tern_net *net);
void tern_net_update_link(struct tern_net *net);
void tern_net_lose_link(struct tern_net *net);
int tern_net_query_counters(struct tern_net *net, u64 *counters);

/* tern_txrx.c */
void tern_queues_init(struct tern_net *net);
void tern_net_cq_error(struct tern_net *net, const struct tern_eqe *eqe);
int tern_queues_alloc(struct tern_net *net);
void tern_queues_free(struct tern_net *net);
int tern_queues_resize(struct tern_net *net, unsigned int mtu);
int tern_queues_start(struct tern_net *net);
void tern_queues_stop(struct tern_net *net);
#if IS_ENABLED(CONFIG_KUNIT)
struct page_pool *tern_rx_pool_create(struct tern_net *net, unsigned int frame_len);
struct page *tern_rx_alloc_page(struct page_pool *pool, struct tern_rx_slot *slot,
				gfp_t gfp);
int tern_net_poll(struct napi_struct *napi, int budget);
#endif
netdev_tx_t tern_xmit(struct sk_buff *skb, struct net_device *netdev);

/* tern_ethtool.c */
extern const struct ethtool_ops tern_ethtool_ops;

#endif /* TERN_NET_H */
