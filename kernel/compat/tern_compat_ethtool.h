/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Included by the file with the ethtool_ops. Before there was
 * get_rx_ring_count(), get_rxnfc() had a command for it.
 */
#ifndef TERN_COMPAT_ETHTOOL_H
#define TERN_COMPAT_ETHTOOL_H

#ifndef TERN_HAVE_RX_RING_COUNT

#include <linux/ethtool.h>
#include <linux/netdevice.h>

/* The operations of such a kernel, followed by the new one. */
struct tern_compat_ethtool_ops {
	struct ethtool_ops;
	u32 (*get_rx_ring_count)(struct net_device *netdev);
};

#define ethtool_ops tern_compat_ethtool_ops

/*
 * Only the function definition has a parenthesis after the name, so only there
 * is this macro expanded.
 */
#define tern_get_rxnfc(...)						\
	tern_compat_get_rxnfc(__VA_ARGS__);				\
	static int tern_get_rxnfc(struct net_device *netdev,		\
				  struct ethtool_rxnfc *info, u32 *locations) \
	{								\
		if (info->cmd != ETHTOOL_GRXRINGS)			\
			return tern_compat_get_rxnfc(netdev, info, locations); \
		info->data = tern_get_rx_ring_count(netdev);		\
		return 0;						\
	}								\
	static int tern_compat_get_rxnfc(__VA_ARGS__)

#endif /* TERN_HAVE_RX_RING_COUNT */

#endif /* TERN_COMPAT_ETHTOOL_H */
