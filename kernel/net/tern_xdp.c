// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * XDP: programs, their metadata, pools of AF_XDP sockets, and frames from other
 * devices.
 */

#include <linux/bpf.h>
#include <linux/dma-mapping.h>
#include <linux/filter.h>
#include <linux/if_vlan.h>
#include <linux/netdevice.h>
#include <linux/rtnetlink.h>
#include <net/xdp_sock_drv.h>

#include "tern_net.h"
#include "tern_xsk.h"

/* The allocator synchronizes each buffer. */
#define TERN_XSK_DMA_ATTRS	DMA_ATTR_SKIP_CPU_SYNC

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

/* Whether @prog can use the buffers of @config. */
static int tern_xdp_check(const struct tern_net_config *config,
			  const struct bpf_prog *prog, struct netlink_ext_ack *extack)
{
	if (tern_rx_fits(config))
		return 0;
	if (!prog->aux->xdp_has_frags) {
		NL_SET_ERR_MSG_MOD(extack, "MTU too large for a program without fragments");
		return -EOPNOTSUPP;
	}
	if (!(config->rx_flags & TERN_ETH_QF_SCATTER)) {
		NL_SET_ERR_MSG_MOD(extack, "MTU too large for XDP: the device has no scatter");
		return -EOPNOTSUPP;
	}
	return 0;
}

static int tern_xdp_setup(struct tern_net *net, struct bpf_prog *prog,
			  struct netlink_ext_ack *extack)
{
	struct tern_net_config config = net->config;
	struct bpf_prog *old = net->xdp_prog;
	int err;

	config.xdp = prog;
	if (prog) {
		err = tern_xdp_check(&config, prog, extack);
		if (err)
			return err;
		if (!tern_xsk_fits(net, &config, prog)) {
			NL_SET_ERR_MSG_MOD(extack,
					   "MTU too large for the buffers of an AF_XDP socket");
			return -EOPNOTSUPP;
		}
		/* The program needs frames as received. */
		config.rx_flags &= ~TERN_ETH_QF_COALESCE;
	}
	/* Remove the program before its buffers lose their headroom. */
	if (!prog)
		WRITE_ONCE(net->xdp_prog, NULL);
	if (!prog != !old) {
		err = tern_net_reconfigure(net, &config);
		if (err) {
			WRITE_ONCE(net->xdp_prog, old);
			NL_SET_ERR_MSG_MOD(extack, "cannot create queues for XDP");
			return err;
		}
	}
	WRITE_ONCE(net->xdp_prog, prog);
	if (old)
		bpf_prog_put(old);
	/* NETIF_F_GRO_HW depends on it. */
	netdev_update_features(net->netdev);
	return 0;
}

static int tern_xsk_enable(struct tern_net *net, struct xsk_buff_pool *pool, u16 qid)
{
	int err;

	if (qid >= net->config.channels)
		return -EINVAL;
	err = xsk_pool_dma_map(pool, tern_dma_dev(net->tdev), TERN_XSK_DMA_ATTRS);
	if (err)
		return err;
	/* The size of a buffer depends on the mapping. */
	if (tern_xsk_pool_fits(pool, &net->config, net->xdp_prog))
		err = tern_net_set_xsk_pool(net, pool, qid);
	else
		err = -EINVAL;
	if (err)
		xsk_pool_dma_unmap(pool, TERN_XSK_DMA_ATTRS);
	return err;
}

/* The owner of the pool does not expect this to fail. */
static void tern_xsk_disable(struct tern_net *net, u16 qid)
{
	struct xsk_buff_pool *pool;

	if (qid >= TERN_MAX_CHANNELS)
		return;
	pool = net->xsk_pools[qid];
	if (!pool)
		return;
	tern_net_set_xsk_pool(net, NULL, qid);
	xsk_pool_dma_unmap(pool, TERN_XSK_DMA_ATTRS);
}

/* Gives a pool to a channel, or removes it if @pool is NULL. RTNL held. */
static int tern_xsk_setup_pool(struct tern_net *net, struct xsk_buff_pool *pool, u16 qid)
{
	if (pool)
		return tern_xsk_enable(net, pool, qid);
	tern_xsk_disable(net, qid);
	return 0;
}

/* Called for a socket with frames to send or buffers to receive. Under RCU. */
int tern_xsk_wakeup(struct net_device *netdev, u32 qid, u32 flags)
{
	struct tern_net *net = netdev_priv(netdev);
	struct tern_queues *queues;
	struct tern_channel *ch;

	queues = rcu_dereference(net->queues);
	if (!queues || !READ_ONCE(net->queues_up))
		return -ENETDOWN;
	if (qid >= queues->config.channels)
		return -EINVAL;
	ch = &queues->channel[qid];
	if (!READ_ONCE(ch->rx.xsk_pool))
		return -EINVAL;
	/* A poll that has checked the rings already runs once more. */
	if (!napi_if_scheduled_mark_missed(&ch->napi)) {
		local_bh_disable();
		napi_schedule(&ch->napi);
		local_bh_enable();
	}
	return 0;
}

int tern_bpf(struct net_device *netdev, struct netdev_bpf *bpf)
{
	struct tern_net *net = netdev_priv(netdev);

	switch (bpf->command) {
	case XDP_SETUP_PROG:
		return tern_xdp_setup(net, bpf->prog, bpf->extack);
	case XDP_SETUP_XSK_POOL:
		return tern_xsk_setup_pool(net, bpf->xsk.pool, bpf->xsk.queue_id);
	default:
		return -EINVAL;
	}
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
