// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Counters of QPs for "rdma statistic qp". */

#include <rdma/ib_verbs.h>
#include <rdma/rdma_counter.h>

#include "tern_counts.h"
#include "tern_ib.h"

/* The core requires a driver's structure: it allocates the counter in it. */
struct tern_counter {
	struct rdma_counter counter;
};

/* The core calls it unconditionally. */
static void tern_counter_init(struct rdma_counter *counter)
{
}

/* The same counters as the port's, because the core adds them up. */
static struct rdma_hw_stats *tern_counter_alloc_stats(struct rdma_counter *counter)
{
	return tern_alloc_hw_port_stats(counter->device, counter->port);
}

/**
 * tern_counter_update_stats() - read the counters of a set
 * @counter: the set
 *
 * Return: 0 or a negative errno.
 */
static int tern_counter_update_stats(struct rdma_counter *counter)
{
	__le64 values[TERN_CNT_RDMA_NUM];
	unsigned int i;
	int err;

	err = tern_ib_query(to_tdev(counter->device), TERN_CMD_QUERY_COUNTER_SET,
			    counter->id, values, sizeof(values));
	if (err)
		return err;

	for (i = 0; i < ARRAY_SIZE(values); i++)
		counter->stats->value[i] = le64_to_cpu(values[i]);

	return 0;
}

static int tern_counter_dealloc(struct rdma_counter *counter)
{
	/* If a live device refuses, it keeps the set until its next reset. */
	if (counter->id)
		tern_ib_destroy(to_tdev(counter->device),
				TERN_CMD_DESTROY_COUNTER_SET, counter->id);
	return 0;
}

static int tern_counter_set(struct ib_qp *ibqp, u32 id)
{
	struct tern_cmd_bind_counter_set cmd = {
		.qpn = cpu_to_le32(ibqp->qp_num),
		.set = cpu_to_le32(id),
	};

	return tern_cmd_exec(to_tdev(ibqp->device)->core, TERN_CMD_BIND_COUNTER_SET,
			     &cmd, sizeof(cmd), NULL, 0);
}

/**
 * tern_counter_bind_qp() - let a QP count in a set
 * @counter: the set, which is created with its first QP
 * @ibqp: the QP
 * @port: 1
 *
 * Return: 0; -EOPNOTSUPP for optional counters, which only the port has; or
 * another negative errno.
 */
static int tern_counter_bind_qp(struct rdma_counter *counter, struct ib_qp *ibqp,
				u32 port)
{
	bool new = !counter->id;
	int err;

	if (counter->mode.bind_opcnt)
		return tern_refuse(to_tdev(ibqp->device), -EOPNOTSUPP,
				   "optional counters of a QP");

	if (new) {
		err = tern_ib_create(to_tdev(ibqp->device),
				     TERN_CMD_CREATE_COUNTER_SET, NULL, 0,
				     &counter->id);
		if (err)
			return err;
	}

	err = tern_counter_set(ibqp, counter->id);
	if (err) {
		/* The core does not deallocate a counter that has had no QP. */
		if (new) {
			tern_counter_dealloc(counter);
			counter->id = 0;
		}
		return err;
	}

	ibqp->counter = counter;
	return 0;
}

static int tern_counter_unbind_qp(struct ib_qp *ibqp, u32 port)
{
	int err = tern_counter_set(ibqp, 0);

	/* A dead device counts nothing. */
	if (err && !tern_core_dead(to_tdev(ibqp->device)->core))
		return err;

	ibqp->counter = NULL;
	return 0;
}

const struct ib_device_ops tern_qp_counter_ops = {
	.counter_alloc_stats = tern_counter_alloc_stats,
	.counter_bind_qp = tern_counter_bind_qp,
	.counter_dealloc = tern_counter_dealloc,
	.counter_init = tern_counter_init,
	.counter_unbind_qp = tern_counter_unbind_qp,
	.counter_update_stats = tern_counter_update_stats,

	INIT_RDMA_OBJ_SIZE(rdma_counter, tern_counter, counter),
};
