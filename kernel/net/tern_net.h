/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* tern.ko internals: the Ethernet function. */
#ifndef TERN_NET_H
#define TERN_NET_H

#ifndef TERN_WITHOUT_COALESCE
#include <linux/dim.h>
#endif
#include <linux/ethtool.h>
#include <linux/mutex.h>
#include <linux/netdevice.h>
#include <linux/spinlock.h>
#include <linux/u64_stats_sync.h>
#include <linux/workqueue.h>
#ifndef TERN_WITHOUT_STEERING
#include <linux/xarray.h>
#endif
#include <net/xdp.h>
#ifndef TERN_WITHOUT_XSK
#include <net/xdp_sock.h>
#endif

#ifndef TERN_WITHOUT_STATS
#include "tern_counts.h"
#endif
#include "tern_dev.h"
#ifndef TERN_WITHOUT_PTP
#include "tern_ptp.h"
#endif
#include "tern_steer.h"
#include "tern_util.h"

#define TERN_MAX_CHANNELS	16

/*
 * Log2 of the number of descriptors. A completion queue has the same size, so
 * that it cannot overflow. By default the buffers of a receive ring hold the
 * 6 MB that a TCP connection may have in flight (net.ipv4.tcp_rmem).
 */
#define TERN_RING_LOG_MIN	6
#define TERN_TX_LOG_DEFAULT	9
#define TERN_RX_LOG_DEFAULT	11
#define TERN_RING_LOG_MAX	13

/* Limit of the device for the headers of a frame that it segments, in bytes. */
#define TERN_MAX_TSO_HEADERS	256

struct page_pool;
struct tern_channel;

/* Statistics of a transmit queue, in frames as on the wire. */
enum {
	TERN_TX_STAT_PACKETS,
	TERN_TX_STAT_BYTES,
	TERN_TX_STAT_CSUM_NONE,
	TERN_TX_STAT_NEEDS_CSUM,
	TERN_TX_STAT_GSO_PACKETS,
	TERN_TX_STAT_GSO_BYTES,
	TERN_TX_STAT_GSO_WIRE_PACKETS,
	TERN_TX_STAT_GSO_WIRE_BYTES,
	TERN_TX_STAT_ERRORS,
	TERN_TX_STAT_NUM
};

/* Statistics of a receive queue. */
enum {
	TERN_RX_STAT_PACKETS,
	TERN_RX_STAT_BYTES,
	TERN_RX_STAT_ALLOC_FAIL,
	TERN_RX_STAT_CSUM_UNNECESSARY,
	TERN_RX_STAT_CSUM_NONE,
	TERN_RX_STAT_ERRORS,
#ifndef TERN_WITHOUT_HWGRO
	TERN_RX_STAT_GRO_PACKETS,
	TERN_RX_STAT_GRO_BYTES,
	TERN_RX_STAT_GRO_WIRE_PACKETS,
	TERN_RX_STAT_GRO_WIRE_BYTES,
#endif
#ifndef TERN_WITHOUT_XDP
	TERN_RX_STAT_XDP_DROP,
	TERN_RX_STAT_XDP_TX,
	TERN_RX_STAT_XDP_REDIRECT,
#endif
	TERN_RX_STAT_NUM
};

/*
 * Statistics of the queues with one index, which outlive the queues. NAPI is
 * the only writer.
 */
struct tern_stats {
	struct u64_stats_sync syncp;
	u64_stats_t tx[TERN_TX_STAT_NUM];
	u64_stats_t rx[TERN_RX_STAT_NUM];
};

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
#ifndef TERN_WITHOUT_COALESCE
	struct dim dim;
#endif
};

/* Contents of a descriptor. */
enum tern_tx_owner {
	TERN_TX_PART,		/* nothing: other descriptors follow */
	TERN_TX_SKB,
#ifndef TERN_WITHOUT_XDP
	TERN_TX_XDP,
#endif
#ifndef TERN_WITHOUT_XSK
	TERN_TX_XSK,		/* a frame of an AF_XDP socket */
	TERN_TX_BUFF,		/* a receive buffer of an AF_XDP socket */
	TERN_TX_BUFF_PART,	/* the same, and others follow */
#endif
};

enum tern_tx_mapping {
	TERN_TX_UNMAPPED,	/* nothing to unmap */
	TERN_TX_SINGLE,
	TERN_TX_PAGE,
};

struct tern_tx_slot {
#ifdef TERN_WITHOUT_XDP
	struct sk_buff *skb;
#else
	union {
		struct sk_buff *skb;
		struct xdp_frame *frame;
#ifndef TERN_WITHOUT_XSK
		struct xdp_buff *xdp;
		struct xsk_tx_metadata_compl compl;
#endif
	};
#endif
#ifdef TERN_WITHOUT_XSK
	dma_addr_t dma;
#else
	union {
		dma_addr_t dma;
		u32 xsk_descs;	/* that the pool's owner gets back */
	};
#endif
	u32 len;
	u8 owner;		/* enum tern_tx_owner */
	u8 mapping;		/* enum tern_tx_mapping */
#ifndef TERN_WITHOUT_XSK
	bool needs_csum;	/* of TERN_TX_XSK */
#endif
};

struct tern_tx {
	struct tern_net_cq cq;
	struct tern_buf buf;
	struct tern_eth_txd *ring;
	struct tern_eth_record *record;
	struct tern_tx_slot *slots;
	u32 id;
	u8 log_size;
	bool created;		/* exists in the device */
	u32 pi;			/* written by the transmitter */
	u32 posted;		/* the same, after it has finished with the frames */
	u32 ci;			/* written by NAPI */
#ifndef TERN_WITHOUT_XSK
	struct xsk_buff_pool *xsk_pool;
	u32 xsk_last;		/* last descriptor of the last frame of the pool */
	bool xsk_skip;		/* a refused frame of the pool goes on */
#endif
};

struct tern_rx_slot {
#ifdef TERN_WITHOUT_XSK
	struct page *page;
#else
	union {
		struct page *page;
		struct xdp_buff *xdp;	/* of an AF_XDP socket */
	};
#endif
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
	struct xdp_rxq_info xdp_rxq;
	u32 id;
	u8 log_size;
	u8 flags;		/* TERN_ETH_QF_* */
	bool created;		/* exists in the device */
	u32 pi;
	u32 ci;
	u32 frame_len;		/* maximum frame length in bytes */
	u32 headroom;		/* in front of a buffer's data */
	u32 buf_len;		/* bytes that a buffer takes */
	u32 buf_size;		/* with headroom and what build_skb() needs */
#ifndef TERN_WITHOUT_XDP
	bool xdp_redirected;	/* a frame, in this poll */
#endif
#ifndef TERN_WITHOUT_XSK
	struct xsk_buff_pool *xsk_pool;	/* the buffers, if not NULL */
	struct xdp_rxq_info xsk_rxq;
#endif
};

/* A received frame. The first member is @xdp, by which XDP finds the others. */
struct tern_xdp_buff {
	struct xdp_buff xdp;
#ifndef TERN_WITHOUT_XDP
	struct tern_channel *ch;
#endif
	const struct tern_cqe *cqe;
};

/* A transmit and a receive queue with one NAPI context. */
struct tern_channel {
	struct tern_net *net;
	unsigned int index;	/* of both queues */
	struct tern_eq *eq;	/* event queue of both completion queues */
	bool up;	/* NAPI and the transmit queue run; written under RTNL */
	struct napi_struct napi;	/* polls both completion queues */
	struct tern_tx tx;	/* transmit queue */
	struct tern_rx rx;	/* receive queue */
};

/* Parameters on which the memory of the queues depends. */
struct tern_net_config {
	unsigned int channels;	/* number of channels */
	u8 tx_log_size;	/* log2 of the descriptors of a transmit queue */
	u8 rx_log_size;	/* log2 of the descriptors of a receive queue */
	u8 rx_flags;	/* TERN_ETH_QF_* of receive queues */
	u32 frame_len;	/* maximum length of received frames */
#ifndef TERN_WITHOUT_XDP
	bool xdp;	/* an XDP program may use the buffers: with headroom, and to transmit */
#endif
};

/* The channels of one configuration. */
struct tern_queues {
	struct tern_net_config config;
	struct tern_channel channel[];
};

#ifndef TERN_WITHOUT_COALESCE
/* Interrupt moderation of one direction. */
struct tern_moderation {
	u16 usecs;
	u16 frames;
	bool adaptive;
};

#endif
/* Private data of the network device. */
struct tern_net {
	struct tern_dev *tdev;
	struct net_device *netdev;
	/* The channels, while the interface is open; written under RTNL. */
	struct tern_queues __rcu *queues;
	/* Configuration of @queues, also for the next open; under RTNL. */
	struct tern_net_config config;
#ifndef TERN_WITHOUT_SETTINGS
	bool xps_set;	/* XPS was set for the number of channels; under RTNL */
#endif
#ifndef TERN_WITHOUT_COALESCE
	/* Moderation of receive queues; written under RTNL. */
	struct tern_moderation rx_moderation;
	/* Moderation of transmit queues; written under RTNL. */
	struct tern_moderation tx_moderation;
#endif
#ifndef TERN_WITHOUT_XDP
	struct bpf_prog *xdp_prog;	/* XDP program, or NULL */
#endif
#ifndef TERN_WITHOUT_XSK
	/* Buffers of AF_XDP sockets by channel, or NULL; under RTNL. */
	struct xsk_buff_pool *xsk_pools[TERN_MAX_CHANNELS];
#endif
	struct tern_stats stats[TERN_MAX_CHANNELS];	/* statistics by channel */
	struct tern_steer steer;	/* steering of received frames; under RTNL */
#ifndef TERN_WITHOUT_PTP
	struct tern_ptp ptp;	/* PTP clock and time stamping */
#endif
	/* The queues have memory and the device has the configuration; under RTNL. */
	bool open;
	bool queues_up;	/* the queues exist in the device; written under RTNL */
	struct tern_cmd_set_rx_filter filter;	/* last filter given to SET_RX_FILTER; under RTNL */
	struct mutex link_lock;	/* protects @port_up and the carrier */
	bool port_up;	/* the port is enabled, so the carrier follows its link */
	/* Recreates the queues after a fault, with retries. */
	struct delayed_work restart_work;
	struct delayed_work refill_work;	/* allocates receive buffers in process context */
#ifndef TERN_WITHOUT_STEERING
	/* Creates ntuple rules that the device refused, with retries. */
	struct delayed_work rules_work;
#endif
#ifndef TERN_WITHOUT_STATS
	struct work_struct stats_work;	/* refreshes @hw_counters */
	/* Counters of the device as last read, plus @counters_base; indexed by TERN_ETH_CNT_*. */
	u64_stats_t hw_counters[TERN_ETH_CNT_NUM];
	struct u64_stats_sync hw_syncp;	/* lets readers of @hw_counters detect a write */
	/* Serializes writers of @hw_counters; protects the members below. */
	struct mutex counters_lock;
	/* @hw_counters at the last reset, which clears the device's. */
	u64 counters_base[TERN_ETH_CNT_NUM];
	/*
	 * The netdev is detached, so the device's counters do not count on top of
	 * @counters_base.
	 */
	bool counters_frozen;
#endif
};

static inline struct netdev_queue *tern_txq(const struct tern_channel *ch)
{
	return netdev_get_tx_queue(ch->net->netdev, ch->index);
}

static inline struct tern_tx_slot *tern_tx_slot(const struct tern_tx *tx, u32 index)
{
	return &tx->slots[tern_ring_slot(index, tx->log_size)];
}

static inline struct tern_rx_slot *tern_rx_slot(const struct tern_rx *rx, u32 index)
{
	return &rx->slots[tern_ring_slot(index, rx->log_size)];
}

static inline bool tern_net_has_cap(const struct tern_net *net, u64 cap)
{
	return le64_to_cpu(net->tdev->caps.flags) & cap;
}

#ifndef TERN_WITHOUT_STEERING
/* Returns an RSS group, or NULL if there is no such context. RTNL held. */
static inline struct tern_rss *tern_rss_find(struct tern_net *net, u32 context)
{
	struct ethtool_rxfh_context *ctx;

	if (!context)
		return &net->steer.rss;
	ctx = xa_load(&net->netdev->ethtool->rss_ctx, context);
	return ctx ? ethtool_rxfh_context_priv(ctx) : NULL;
}

#endif
/* Handles a fault that only new queues can repair. */
static inline void tern_net_fault(struct tern_net *net)
{
	schedule_delayed_work(&net->restart_work, 0);
}

/* Adds @count to the statistics of a direction. NAPI context. */
static inline void tern_stats_add(struct tern_stats *stats, u64_stats_t *to,
				  const u64 *count, unsigned int num)
{
	unsigned int i;

	u64_stats_update_begin(&stats->syncp);
	for (i = 0; i < num; i++)
		u64_stats_add(&to[i], count[i]);
	u64_stats_update_end(&stats->syncp);
}

/* tern_netdev.c */
int tern_net_alloc(struct tern_dev *tdev);
void tern_net_free(struct tern_net *net);
int tern_net_register(struct tern_net *net);
void tern_net_unregister(struct tern_net *net);
#ifndef TERN_WITHOUT_RESET
void tern_net_detach(struct tern_net *net);
void tern_net_attach(struct tern_net *net);
#endif

/* tern_filter.c */
bool tern_filter_add(struct tern_cmd_set_rx_filter *filter, unsigned int *num,
		     struct netdev_hw_addr_list *list);
void tern_filter_fill(struct tern_cmd_set_rx_filter *filter, unsigned int iff,
		      bool filters_vlans, struct netdev_hw_addr_list *uc,
		      struct netdev_hw_addr_list *mc);

/* tern_stats.c */
void tern_stats_init(struct tern_net *net);
void tern_stats_read(const struct tern_stats *stats, const u64_stats_t *from,
		     u64 *sum, unsigned int num);
void tern_stats_sum(const struct tern_net *net, unsigned int first, u64 *tx, u64 *rx);
void tern_get_stats64(struct net_device *netdev, struct rtnl_link_stats64 *stats);

#ifndef TERN_WITHOUT_STATS
/* tern_counters.c */
void tern_counters_init(struct tern_net *net);
void tern_counters_exit(struct tern_net *net);
void tern_net_query_counters(struct tern_net *net, u64 *counters);
void tern_net_freeze_counters(struct tern_net *net);
void tern_net_thaw_counters(struct tern_net *net);
void tern_get_all_stats64(struct net_device *netdev, struct rtnl_link_stats64 *stats);

/* tern_ethtool_stats.c */
extern const struct netdev_stat_ops tern_stat_ops;
void tern_get_strings(struct net_device *netdev, u32 set, u8 *data);
int tern_get_sset_count(struct net_device *netdev, int set);
void tern_get_ethtool_stats(struct net_device *netdev,
			    struct ethtool_stats *stats, u64 *data);
void tern_get_eth_mac_stats(struct net_device *netdev,
			    struct ethtool_eth_mac_stats *stats);
void tern_get_rmon_stats(struct net_device *netdev,
			 struct ethtool_rmon_stats *stats,
			 const struct ethtool_rmon_hist_range **ranges);

#endif
/* tern_cq.c */
int tern_net_cq_alloc(struct tern_net *net, struct tern_net_cq *cq, u8 log_size);
int tern_net_cq_create(struct tern_channel *ch, struct tern_net_cq *cq);
void tern_net_cq_destroy(struct tern_net *net, struct tern_net_cq *cq);
const struct tern_cqe *tern_net_cq_peek(const struct tern_net_cq *cq);
void tern_net_cq_release(struct tern_net_cq *cq);
void tern_net_cq_arm(struct tern_net *net, struct tern_net_cq *cq);
void tern_net_event(void *context, const struct tern_eqe *eqe);
void tern_net_cq_error(struct tern_net *net, const struct tern_eqe *eqe);
int tern_eth_queue_create(struct tern_net *net,
			  struct tern_cmd_create_eth_queue *cmd,
			  const struct tern_buf *buf, const struct tern_net_cq *cq,
			  u32 *id);

/* tern_queue.c */
unsigned int tern_max_channels(const struct tern_net *net);
struct tern_queues *tern_queues_alloc(struct tern_net *net,
				      const struct tern_net_config *config);
void tern_queues_free(struct tern_net *net, struct tern_queues *queues);
int tern_queues_start(struct tern_net *net);
void tern_queues_stop(struct tern_net *net);
void tern_queues_refill_work(struct work_struct *work);
int tern_net_modify_port(struct tern_net *net, u32 mask, unsigned int mtu,
			 const u8 *mac, bool enable);
void tern_net_update_link(struct tern_net *net);
void tern_net_lose_link(struct tern_net *net);
int tern_net_up(struct tern_net *net);
void tern_net_down(struct tern_net *net);
void tern_net_restart_work(struct work_struct *work);
int tern_net_reconfigure(struct tern_net *net, const struct tern_net_config *config);
#ifndef TERN_WITHOUT_XSK
int tern_net_set_xsk_pool(struct tern_net *net, struct xsk_buff_pool *pool, u16 qid);
#endif
int tern_net_poll(struct napi_struct *napi, int budget);

/* tern_tx.c */
int tern_tx_alloc(struct tern_channel *ch, u8 log_size);
void tern_tx_free(struct tern_channel *ch);
int tern_tx_create(struct tern_channel *ch);
void tern_tx_destroy(struct tern_channel *ch);
void tern_tx_poll(struct tern_channel *ch, int budget);
u32 tern_tx_room(const struct tern_tx *tx);
#ifndef TERN_WITHOUT_XDP
u32 tern_tx_spare(const struct tern_channel *ch);
void tern_tx_submit(struct tern_channel *ch);
#endif
void tern_tx_write(struct tern_tx *tx, u32 index, dma_addr_t dma, u32 len,
		   enum tern_tx_mapping mapping);
void tern_tx_write_offload(struct tern_tx *tx, u32 index,
			   const struct tern_eth_offload *offload);
void tern_tx_end(struct tern_tx *tx, u32 end);
void tern_tx_unwind(struct tern_channel *ch, u32 end);
netdev_tx_t tern_xmit(struct sk_buff *skb, struct net_device *netdev);
netdev_features_t tern_features_check(struct sk_buff *skb, struct net_device *netdev,
				      netdev_features_t features);
bool tern_tx_offload(const struct sk_buff *skb, struct tern_eth_offload *offload);
void tern_tx_account(const struct sk_buff *skb, u64 *count);

/* tern_rx.c */
#ifndef TERN_WITHOUT_XDP
bool tern_rx_fits(const struct tern_net_config *config);
#endif
int tern_rx_alloc(struct tern_channel *ch, const struct tern_net_config *config);
void tern_rx_free(struct tern_channel *ch);
int tern_rx_create(struct tern_channel *ch, const struct tern_net_config *config);
void tern_rx_destroy(struct tern_channel *ch);
void tern_rx_fill(struct tern_channel *ch, gfp_t gfp);
bool tern_rx_is_low(const struct tern_rx *rx);
int tern_rx_poll(struct tern_channel *ch, int budget);

#ifndef TERN_WITHOUT_HWGRO
/* tern_gro.c */
netdev_features_t tern_fix_features(struct net_device *netdev,
				    netdev_features_t features);
bool tern_gro_complete(struct sk_buff *skb, u32 coalesced, u32 frame_len, u64 *count);

#endif
#ifndef TERN_WITHOUT_XDP
/* tern_xdp.c */
extern const struct xdp_metadata_ops tern_xdp_metadata_ops;
int tern_tx_xdp(struct tern_channel *ch, struct xdp_frame **frames, int num, bool pooled);
int tern_xdp_xmit(struct net_device *netdev, int num, struct xdp_frame **frames,
		  u32 flags);
bool tern_xdp_run(struct tern_channel *ch, struct bpf_prog *prog,
		  struct tern_xdp_buff *buff, u64 *count);
void tern_xdp_flush(struct tern_channel *ch);

/* tern_xdp_setup.c */
bool tern_xdp_fits(const struct tern_net *net, const struct tern_net_config *config);
int tern_bpf(struct net_device *netdev, struct netdev_bpf *bpf);
#ifndef TERN_WITHOUT_XSK
int tern_xsk_wakeup(struct net_device *netdev, u32 qid, u32 flags);
#endif
void tern_xdp_set_features(struct net_device *netdev);

#endif
#ifndef TERN_WITHOUT_COALESCE
/* tern_coalesce.c */
int tern_moderate_new(struct tern_channel *ch, const struct tern_net_cq *cq);
void tern_dim_init(struct tern_channel *ch);
void tern_dim_update(struct tern_channel *ch);
void tern_dim_stop(struct tern_channel *ch);
int tern_get_coalesce(struct net_device *netdev, struct ethtool_coalesce *coal,
		      struct kernel_ethtool_coalesce *kernel_coal,
		      struct netlink_ext_ack *extack);
int tern_set_coalesce(struct net_device *netdev, struct ethtool_coalesce *coal,
		      struct kernel_ethtool_coalesce *kernel_coal,
		      struct netlink_ext_ack *extack);

#endif
/* tern_ethtool.c */
extern const struct ethtool_ops tern_ethtool_ops;

#ifndef TERN_WITHOUT_SETTINGS
/* tern_ethtool_settings.c */
int tern_net_set_num_queues(struct tern_net *net, unsigned int num);
int tern_net_preset_channels(struct tern_net *net, unsigned int channels);
void tern_queues_set_xps(struct tern_net *net, unsigned int num);
void tern_get_ringparam(struct net_device *netdev,
			struct ethtool_ringparam *ring,
			struct kernel_ethtool_ringparam *kernel_ring,
			struct netlink_ext_ack *extack);
int tern_set_ringparam(struct net_device *netdev,
		       struct ethtool_ringparam *ring,
		       struct kernel_ethtool_ringparam *kernel_ring,
		       struct netlink_ext_ack *extack);
void tern_get_channels(struct net_device *netdev,
		       struct ethtool_channels *channels);
int tern_set_channels(struct net_device *netdev, struct ethtool_channels *channels);
u32 tern_get_rx_ring_count(struct net_device *netdev);
int tern_rss_modify(struct tern_net *net, const struct tern_rss *rss,
		    const struct tern_rss *next);
int tern_rss_update(struct tern_net *net, struct tern_rss *rss,
		    const struct tern_rss *next);
int tern_rss_apply(struct tern_rss *rss, const struct ethtool_rxfh_param *param,
		   struct netlink_ext_ack *extack);
u32 tern_get_rxfh_size(struct net_device *netdev);
u32 tern_get_rxfh_key_size(struct net_device *netdev);
int tern_get_rxfh(struct net_device *netdev, struct ethtool_rxfh_param *param);
int tern_set_rxfh(struct net_device *netdev, struct ethtool_rxfh_param *param,
		  struct netlink_ext_ack *extack);

#endif
#endif /* TERN_NET_H */
