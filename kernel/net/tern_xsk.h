/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* tern.ko internals: AF_XDP without copies. */
#ifndef TERN_XSK_H
#define TERN_XSK_H

#include <linux/if_xdp.h>
#include <net/xdp_sock.h>

#include "tern_net.h"

/* Maximum number of data descriptors of an AF_XDP frame: one is for offloads. */
#define TERN_XSK_MAX_SEGS	(TERN_ETH_MAX_TXD - 1)

/* A frame among the descriptors of a pool. */
struct tern_xsk_frame {
	u32 num;		/* descriptors */
	bool good;		/* can be sent */
};

/* Data for a transmit time stamp. */
struct tern_xsk_completion {
	struct tern_net *net;
	const struct tern_cqe *cqe;
};

extern const struct xsk_tx_metadata_ops tern_xsk_tx_metadata_ops;

bool tern_xsk_pool_fits(struct xsk_buff_pool *pool, const struct tern_net_config *config,
			const struct bpf_prog *prog);
bool tern_xsk_fits(const struct tern_net *net, const struct tern_net_config *config,
		   const struct bpf_prog *prog);

int tern_xsk_rx_start(struct tern_channel *ch);
void tern_xsk_rx_config(struct tern_rx *rx, const struct tern_net_config *config);
void tern_xsk_rx_stop(struct tern_rx *rx);
bool tern_xsk_rx_fill(struct tern_rx *rx);
struct tern_xdp_buff *tern_xsk_rx_collect(struct tern_rx *rx, u32 len, u32 num);
struct sk_buff *tern_xsk_rx_build_skb(struct tern_channel *ch, struct xdp_buff *xdp);
bool tern_xsk_rx_starves(const struct tern_rx *rx);
bool tern_xsk_rx_refill(struct tern_rx *rx);

bool tern_xsk_tx(struct tern_channel *ch);
bool tern_xsk_tx_buff(struct tern_channel *ch, struct xdp_buff *xdp);
struct tern_xsk_frame tern_xsk_next_frame(const struct xdp_desc *descs, u32 num,
					  bool *skip);

#endif /* TERN_XSK_H */
