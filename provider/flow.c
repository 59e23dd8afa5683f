// SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause)
/* Flows and their counters. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <ccan/list.h>

#include "tern.h"

/* A value of a counter and its index in the caller's array. */
struct tern_counter_point {
	struct list_node entry;
	enum ibv_counter_description desc;
	uint32_t index;
};

/* The kernel has both values; only the provider knows the indices. */
struct tern_counters {
	struct verbs_counters vcounters;
	pthread_mutex_t lock; /* protects the members below */
	struct list_head points;
	unsigned int flows; /* that refer to the counters */
};

struct tern_flow {
	struct ibv_flow ibvflow;
	struct tern_counters *counters; /* or NULL */
};

static struct tern_counters *to_tern_counters(struct ibv_counters *ibvcounters)
{
	return container_of(ibvcounters, struct tern_counters,
			    vcounters.counters);
}

/*
 * Returns the counters of a flow that the kernel has accepted, or NULL. The
 * specs need not be aligned.
 */
static struct tern_counters *tern_flow_counters(const struct ibv_flow_attr *attr)
{
	struct ibv_flow_spec_counter_action spec;
	const void *next = attr + 1;
	unsigned int i;

	for (i = 0; i < attr->num_of_specs; i++) {
		memcpy(&spec, next, offsetof(typeof(spec), counters));
		if (spec.type == IBV_FLOW_SPEC_ACTION_COUNT) {
			memcpy(&spec, next, sizeof(spec));
			return to_tern_counters(spec.counters);
		}
		next += spec.size;
	}

	return NULL;
}

/* Adds or subtracts a flow. */
static void tern_counters_add_flow(struct tern_counters *counters, int change)
{
	if (!counters)
		return;

	pthread_mutex_lock(&counters->lock);
	counters->flows += change;
	pthread_mutex_unlock(&counters->lock);
}

/* ibv_create_flow(3): the kernel checks type, priority and specs. */
struct ibv_flow *tern_create_flow(struct ibv_qp *ibvqp,
				  struct ibv_flow_attr *attr)
{
	struct tern_flow *flow;
	int err;

	if (attr->comp_mask) {
		errno = EOPNOTSUPP;
		return NULL;
	}

	flow = calloc(1, sizeof(*flow));
	if (!flow)
		return NULL;

	err = ibv_cmd_create_flow(ibvqp, &flow->ibvflow, attr, NULL, 0);
	if (err) {
		free(flow);
		errno = err;
		return NULL;
	}

	flow->counters = tern_flow_counters(attr);
	tern_counters_add_flow(flow->counters, 1);
	return &flow->ibvflow;
}

int tern_destroy_flow(struct ibv_flow *ibvflow)
{
	struct tern_flow *flow = container_of(ibvflow, struct tern_flow,
					      ibvflow);
	int err;

	err = ibv_cmd_destroy_flow(ibvflow);
	if (err)
		return err;

	tern_counters_add_flow(flow->counters, -1);
	free(flow);
	return 0;
}

/* ibv_create_counters(3). */
struct ibv_counters *tern_create_counters(struct ibv_context *ibvctx,
					  struct ibv_counters_init_attr *attr)
{
	struct tern_counters *counters;
	int err;

	counters = calloc(1, sizeof(*counters));
	if (!counters)
		return NULL;

	err = tern_method_err(ibv_cmd_create_counters(
		ibvctx, attr, &counters->vcounters, NULL));
	if (err) {
		free(counters);
		errno = err;
		return NULL;
	}

	pthread_mutex_init(&counters->lock, NULL);
	list_head_init(&counters->points);
	return &counters->vcounters.counters;
}

int tern_destroy_counters(struct ibv_counters *ibvcounters)
{
	struct tern_counters *counters = to_tern_counters(ibvcounters);
	struct tern_counter_point *point, *next;
	int err;

	err = ibv_cmd_destroy_counters(&counters->vcounters);
	if (err)
		return err;

	list_for_each_safe(&counters->points, point, next, entry)
		free(point);
	pthread_mutex_destroy(&counters->lock);
	free(counters);
	return 0;
}

/*
 * ibv_attach_counters_point_flow(3): EOPNOTSUPP for a flow that exists, which
 * has its counters from its specs, and for a counter that the device lacks;
 * EBUSY while a flow refers to the counters.
 */
int tern_attach_counters_point_flow(struct ibv_counters *ibvcounters,
				    struct ibv_counter_attach_attr *attr,
				    struct ibv_flow *ibvflow)
{
	struct tern_counters *counters = to_tern_counters(ibvcounters);
	struct tern_counter_point *point;
	int err = 0;

	if (ibvflow || !check_comp_mask(attr->comp_mask, 0) ||
	    (attr->counter_desc != IBV_COUNTER_PACKETS &&
	     attr->counter_desc != IBV_COUNTER_BYTES))
		return EOPNOTSUPP;

	point = calloc(1, sizeof(*point));
	if (!point)
		return ENOMEM;

	point->desc = attr->counter_desc;
	point->index = attr->index;
	pthread_mutex_lock(&counters->lock);
	if (counters->flows)
		err = EBUSY;
	else
		list_add_tail(&counters->points, &point->entry);
	pthread_mutex_unlock(&counters->lock);
	if (err)
		free(point);

	return err;
}

/* Checks that all indices are in the array. Called under the lock. */
static int tern_check_points(const struct tern_counters *counters,
			     uint32_t num_values)
{
	const struct tern_counter_point *point;

	if (list_empty(&counters->points))
		return EINVAL;

	list_for_each(&counters->points, point, entry)
		if (point->index >= num_values)
			return EINVAL;

	return 0;
}

/*
 * ibv_read_counters(3), with the sum of what is attached to an index, as
 * ibv_attach_counters_point_flow(3) says. EINVAL if nothing is attached, if no
 * flow refers to the counters, or if the array is too small.
 */
int tern_read_counters(struct ibv_counters *ibvcounters, uint64_t *values,
		       uint32_t num_values, uint32_t flags)
{
	struct tern_counters *counters = to_tern_counters(ibvcounters);
	uint64_t read[] = {
		[IBV_COUNTER_PACKETS] = 0,
		[IBV_COUNTER_BYTES] = 0,
	};
	struct tern_counter_point *point;
	int err;

	pthread_mutex_lock(&counters->lock);
	err = tern_check_points(counters, num_values);
	if (!err)
		err = ibv_cmd_read_counters(&counters->vcounters, read, 2,
					    flags, NULL);
	if (!err) {
		memset(values, 0, num_values * sizeof(*values));
		list_for_each(&counters->points, point, entry)
			values[point->index] += read[point->desc];
	}
	pthread_mutex_unlock(&counters->lock);

	return err;
}
