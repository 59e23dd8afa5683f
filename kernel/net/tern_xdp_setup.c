// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Setup of XDP: programs, pools of AF_XDP sockets, features. */

#include <linux/bpf.h>
#include <linux/filter.h>
#include <linux/netdevice.h>
#include <linux/rtnetlink.h>
#ifndef TERN_WITHOUT_XSK
#include <net/xdp_sock_drv.h>
#endif

#include "tern_net.h"
#ifndef TERN_WITHOUT_XSK
#include "tern_xsk.h"

/* The allocator synchronizes each buffer. */
#define TERN_XSK_DMA_ATTRS	DMA_ATTR_SKIP_CPU_SYNC
#endif

/*
 * Whether the program, if there is one, can use the buffers of @config. Programs
 * without fragments need each frame in one buffer. RTNL held.
 */
bool tern_xdp_fits(const struct tern_net *net, const struct tern_net_config *config)
{
#ifndef TERN_WITHOUT_XSK
	if (!tern_xsk_fits(net, config, net->xdp_prog))
		return false;
#endif
	return !net->xdp_prog || tern_rx_fits(config) ||
	       (net->xdp_prog->aux->xdp_has_frags &&
		config->rx_flags & TERN_ETH_QF_SCATTER);
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
#ifndef TERN_WITHOUT_XSK
		if (!tern_xsk_fits(net, &config, prog)) {
			NL_SET_ERR_MSG_MOD(extack,
					   "MTU too large for the buffers of an AF_XDP socket");
			return -EOPNOTSUPP;
		}
#endif
		/* The program needs frames as received. */
		config.rx_flags &= ~TERN_ETH_QF_COALESCE;
	}
	/* Remove the program before its buffers lose their headroom. */
	if (!prog)
		WRITE_ONCE(net->xdp_prog, NULL);
	if (config.xdp != net->config.xdp) {
		err = tern_net_reconfigure(net, &config);
		/* Removal always succeeds: buffers with headroom suit the stack, too. */
		if (err && prog) {
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

#ifndef TERN_WITHOUT_XSK
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

#endif
int tern_bpf(struct net_device *netdev, struct netdev_bpf *bpf)
{
	struct tern_net *net = netdev_priv(netdev);

	switch (bpf->command) {
	case XDP_SETUP_PROG:
		return tern_xdp_setup(net, bpf->prog, bpf->extack);
#ifndef TERN_WITHOUT_XSK
	case XDP_SETUP_XSK_POOL:
		return tern_xsk_setup_pool(net, bpf->xsk.pool, bpf->xsk.queue_id);
#endif
	default:
		return -EINVAL;
	}
}

/* Before the network device is registered. */
void tern_xdp_set_features(struct net_device *netdev)
{
	const struct tern_net *net = netdev_priv(netdev);
	xdp_features_t xdp = NETDEV_XDP_ACT_BASIC | NETDEV_XDP_ACT_REDIRECT |
			     NETDEV_XDP_ACT_NDO_XMIT | NETDEV_XDP_ACT_NDO_XMIT_SG;

	netdev->xdp_metadata_ops = &tern_xdp_metadata_ops;
	if (tern_net_has_cap(net, TERN_CAP_ETH_OFFLOAD))
		xdp |= NETDEV_XDP_ACT_RX_SG;
#ifndef TERN_WITHOUT_XSK
	xdp |= NETDEV_XDP_ACT_XSK_ZEROCOPY;
	netdev->xdp_zc_max_segs = TERN_XSK_MAX_SEGS;
	if (tern_net_has_cap(net, TERN_CAP_ETH_OFFLOAD))
		netdev->xsk_tx_metadata_ops = &tern_xsk_tx_metadata_ops;
#endif
	xdp_set_features_flag(netdev, xdp);
}
