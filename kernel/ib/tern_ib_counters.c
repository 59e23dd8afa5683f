// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Port counters of the RDMA function for "rdma statistic".
 */

#include "tern_counts.h"
#include "tern_ib.h"

#define TERN_OPTIONAL(index, text) \
	[TERN_CNT_RDMA_NUM + (index)] = { \
		.name = text, .flags = IB_STAT_FLAG_OPTIONAL, \
	}

static const struct rdma_stat_desc tern_counters[] = {
#define TERN_COUNTER(index, text) \
	[index].name = text,
#include "tern_counters.h"
	TERN_OPTIONAL(0, "cc_rx_ce_pkts"),
	TERN_OPTIONAL(1, "cc_rx_cnp_pkts"),
	TERN_OPTIONAL(2, "cc_tx_cnp_pkts"),
	TERN_OPTIONAL(3, "rdma_tx_packets"),
	TERN_OPTIONAL(4, "rdma_tx_bytes"),
	TERN_OPTIONAL(5, "rdma_rx_packets"),
	TERN_OPTIONAL(6, "rdma_rx_bytes"),
};

/*
 * The device counter from which each optional counter is computed. An optional
 * counter is 0 when it is enabled; the device counts all the time.
 */
static const u8 tern_optional_sources[] = {
	TERN_CNT_NP_ECN_MARKED,
	TERN_CNT_RP_CNP_HANDLED,
	TERN_CNT_NP_CNP_SENT,
	TERN_CNT_TX_RDMA_PACKETS,
	TERN_CNT_TX_RDMA_BYTES,
	TERN_CNT_RX_RDMA_PACKETS,
	TERN_CNT_RX_RDMA_BYTES,
};

static_assert(ARRAY_SIZE(tern_optional_sources) ==
	      sizeof_field(struct tern_ib_dev, optional_base) / sizeof(u64));
static_assert(ARRAY_SIZE(tern_counters) ==
	      TERN_CNT_RDMA_NUM + ARRAY_SIZE(tern_optional_sources));

struct rdma_hw_stats *tern_alloc_hw_port_stats(struct ib_device *ibdev,
					       u32 port)
{
	struct rdma_hw_stats *stats;

	stats = rdma_alloc_hw_stats_struct(tern_counters,
					   ARRAY_SIZE(tern_counters),
					   RDMA_HW_STATS_DEFAULT_LIFESPAN);
	/* Optional counters are off at first; ib_core leaves that to drivers. */
	if (stats)
		bitmap_set(stats->is_disabled, TERN_CNT_RDMA_NUM,
			   ARRAY_SIZE(tern_optional_sources));

	return stats;
}

/* Reads TERN_CNT_RDMA_NUM counters of the port. */
int tern_port_counters(struct tern_ib_dev *dev, u32 port, u64 *values)
{
	struct tern_cmd_query_counters cmd = {
		.group = cpu_to_le32(TERN_COUNTERS_RDMA),
		.port = port,
	};
	__le64 counters[TERN_CNT_RDMA_NUM];
	unsigned int i;
	int err;

	err = tern_cmd_exec(dev->core, TERN_CMD_QUERY_COUNTERS, &cmd,
			    sizeof(cmd), counters, sizeof(counters));
	if (err)
		return err;

	for (i = 0; i < ARRAY_SIZE(counters); i++)
		values[i] = le64_to_cpu(counters[i]);

	return 0;
}

/* One command reads all counters, whichever is asked for. */
int tern_get_hw_stats(struct ib_device *ibdev, struct rdma_hw_stats *stats,
		      u32 port, int index)
{
	u64 *optional = stats->value + TERN_CNT_RDMA_NUM;
	struct tern_ib_dev *dev = to_tdev(ibdev);
	unsigned int i;
	int err;

	err = tern_port_counters(dev, port, stats->value);
	if (err)
		return err;

	for (i = 0; i < ARRAY_SIZE(tern_optional_sources); i++)
		optional[i] = stats->value[tern_optional_sources[i]] -
			      dev->optional_base[i];

	return ARRAY_SIZE(tern_counters);
}

/* The core serializes it with tern_get_hw_stats(), and knows which are optional. */
int tern_modify_hw_stat(struct ib_device *ibdev, u32 port, unsigned int index,
			bool enable)
{
	unsigned int optional = index - TERN_CNT_RDMA_NUM;
	struct tern_ib_dev *dev = to_tdev(ibdev);
	u64 values[TERN_CNT_RDMA_NUM];
	int err;

	if (!enable)
		return 0;

	err = tern_port_counters(dev, port, values);
	if (err)
		return err;

	dev->optional_base[optional] = values[tern_optional_sources[optional]];
	return 0;
}
