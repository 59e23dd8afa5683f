// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Port counters of the RDMA function for "rdma statistic".
 */

#include "tern_ib.h"

static const struct rdma_stat_desc tern_counters[] = {
#define TERN_COUNTER(index, text) \
	[index].name = text,
#include "tern_counters.h"
};

static_assert(ARRAY_SIZE(tern_counters) == TERN_CNT_RDMA_NUM);

struct rdma_hw_stats *tern_alloc_hw_port_stats(struct ib_device *ibdev,
					       u32 port)
{
	return rdma_alloc_hw_stats_struct(tern_counters,
					  ARRAY_SIZE(tern_counters),
					  RDMA_HW_STATS_DEFAULT_LIFESPAN);
}

/**
 * tern_get_hw_stats() - read all counters
 * @ibdev: the device
 * @stats: output
 * @port: 1
 * @index: requested counter; ignored, because one command reads all of them
 *
 * Return: number of counters filled, or a negative errno.
 */
int tern_get_hw_stats(struct ib_device *ibdev, struct rdma_hw_stats *stats,
		      u32 port, int index)
{
	struct tern_cmd_query_counters cmd = {
		.group = cpu_to_le32(TERN_COUNTERS_RDMA),
		.port = port,
	};
	__le64 counters[TERN_CNT_RDMA_NUM];
	unsigned int i;
	int err;

	err = tern_cmd_exec(to_tdev(ibdev)->core, TERN_CMD_QUERY_COUNTERS, &cmd,
			    sizeof(cmd), counters, sizeof(counters));
	if (err)
		return err;

	for (i = 0; i < ARRAY_SIZE(counters); i++)
		stats->value[i] = le64_to_cpu(counters[i]);

	return ARRAY_SIZE(counters);
}
