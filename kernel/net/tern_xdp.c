// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* XDP: programs, their verdicts, metadata, and frames from other devices. */

#include <linux/bpf.h>
#include <linux/bpf_trace.h>
#include <linux/filter.h>
#include <linux/if_vlan.h>
#include <linux/netdevice.h>
#include <linux/rtnetlink.h>
#include <net/xdp_sock_drv.h>

#include "tern_net.h"
#include "tern_xsk.h"

/* Sends a buffer of the channel's own receive queue. */
static bool tern_xdp_transmit(struct tern_channel *ch, struct xdp_buff *xdp)
{
	struct xdp_frame *frame;

	if (ch->rx.xsk_pool)
		return tern_xsk_tx_buff(ch, xdp);
	frame = xdp_convert_buff_to_frame(xdp);
	return frame && tern_tx_xdp(ch, &frame, 1, true) == 1;
}

static void tern_xdp_drop(struct tern_channel *ch, struct xdp_buff *xdp)
{
	if (ch->rx.xsk_pool)
		xsk_buff_free(xdp);
	else
		xdp_return_buff(xdp);
}

/* Runs the program and executes its verdict. NAPI context. */
enum tern_xdp_result tern_xdp_run(struct tern_channel *ch, struct bpf_prog *prog,
				  struct tern_xdp_buff *buff)
{
	struct net_device *netdev = ch->net->netdev;
	struct xdp_buff *xdp = &buff->xdp;
	u32 verdict = bpf_prog_run_xdp(prog, xdp);

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
		NL_SET_ERR_MSG(extack, "MTU too large for a program without fragments");
		return -EOPNOTSUPP;
	}
	if (!(config->rx_flags & TERN_ETH_QF_SCATTER)) {
		NL_SET_ERR_MSG(extack, "MTU too large for XDP: the device has no scatter");
		return -EOPNOTSUPP;
	}
	return 0;
}

static int tern_xdp_setup(struct tern_net *net, struct bpf_prog *prog,
			  struct netlink_ext_ack *extack)
{
	struct bpf_prog *old = net->xdp_prog;
	struct tern_net_config config = net->config;
	int err;

	config.xdp = prog;
	if (prog) {
		err = tern_xdp_check(&config, prog, extack);
		if (err)
			return err;
		if (!tern_xsk_fits(net, &config, prog)) {
			NL_SET_ERR_MSG(extack, "MTU too large for the buffers of an AF_XDP socket");
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
			NL_SET_ERR_MSG(extack, "cannot create queues for XDP");
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
