// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Statistics of the queues. */

#include <linux/netdevice.h>

#include "tern_net.h"

void tern_stats_init(struct tern_net *net)
{
	unsigned int i;

	for (i = 0; i < TERN_MAX_CHANNELS; i++)
		u64_stats_init(&net->stats[i].syncp);
}

/* Size of an array for the statistics of either direction. */
#define TERN_STAT_MAX	MAX((int)TERN_TX_STAT_NUM, (int)TERN_RX_STAT_NUM)

/* Adds the statistics of one index to @sum. */
void tern_stats_read(const struct tern_stats *stats, const u64_stats_t *from,
		     u64 *sum, unsigned int num)
{
	u64 value[TERN_STAT_MAX];
	unsigned int start, i;

	do {
		start = u64_stats_fetch_begin(&stats->syncp);
		for (i = 0; i < num; i++)
			value[i] = u64_stats_read(&from[i]);
	} while (u64_stats_fetch_retry(&stats->syncp, start));
	for (i = 0; i < num; i++)
		sum[i] += value[i];
}

/* Adds those of the indices from @first on to @tx, TERN_TX_STAT_*, and @rx, TERN_RX_STAT_*. */
void tern_stats_sum(const struct tern_net *net, unsigned int first, u64 *tx, u64 *rx)
{
	unsigned int i;

	for (i = first; i < TERN_MAX_CHANNELS; i++) {
		tern_stats_read(&net->stats[i], net->stats[i].tx, tx, TERN_TX_STAT_NUM);
		tern_stats_read(&net->stats[i], net->stats[i].rx, rx, TERN_RX_STAT_NUM);
	}
}

/* May be called in atomic context. */
void tern_get_stats64(struct net_device *netdev, struct rtnl_link_stats64 *stats)
{
	u64 tx[TERN_TX_STAT_NUM] = {}, rx[TERN_RX_STAT_NUM] = {};
	struct tern_net *net = netdev_priv(netdev);

	tern_stats_sum(net, 0, tx, rx);
	stats->tx_packets = tx[TERN_TX_STAT_PACKETS];
	stats->tx_bytes = tx[TERN_TX_STAT_BYTES];
	stats->tx_errors = tx[TERN_TX_STAT_ERRORS];
	stats->rx_packets = rx[TERN_RX_STAT_PACKETS];
	stats->rx_bytes = rx[TERN_RX_STAT_BYTES];
	stats->rx_errors = rx[TERN_RX_STAT_ERRORS];
}
