// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Flow counters: packets and bytes of the flows that refer to them. */

#include <kunit/visibility.h>

#include <rdma/uverbs_ioctl.h>

#include "tern_ib.h"

int tern_create_counters(struct ib_counters *ibcounters,
			 struct uverbs_attr_bundle *attrs)
{
	return tern_ib_create(to_tdev(ibcounters->device),
			      TERN_CMD_CREATE_FLOW_COUNTER, NULL, 0,
			      &to_tcounters(ibcounters)->id);
}
EXPORT_SYMBOL_IF_KUNIT(tern_create_counters);

int tern_destroy_counters(struct ib_counters *ibcounters)
{
	/* If a live device refuses, it keeps the counter until its next reset. */
	tern_ib_destroy(to_tdev(ibcounters->device),
			TERN_CMD_DESTROY_FLOW_COUNTER,
			to_tcounters(ibcounters)->id);
	return 0;
}

/**
 * tern_read_counters() - read a flow counter
 * @ibcounters: the counter
 * @attr: output, values by IB_COUNTER_*; the rest is zero on entry. The flag to
 *	prefer cached values has no effect: the device's are as fast to read.
 * @attrs: unused
 *
 * Return: 0 or a negative errno.
 */
int tern_read_counters(struct ib_counters *ibcounters,
		       struct ib_counters_read_attr *attr,
		       struct uverbs_attr_bundle *attrs)
{
	struct tern_rsp_flow_counter rsp = {};
	int err;

	err = tern_ib_query(to_tdev(ibcounters->device),
			    TERN_CMD_QUERY_FLOW_COUNTER,
			    to_tcounters(ibcounters)->id, &rsp, sizeof(rsp));
	if (err)
		return err;

	if (attr->ncounters > IB_COUNTER_PACKETS)
		attr->counters_buff[IB_COUNTER_PACKETS] =
			le64_to_cpu(rsp.packets);
	if (attr->ncounters > IB_COUNTER_BYTES)
		attr->counters_buff[IB_COUNTER_BYTES] = le64_to_cpu(rsp.bytes);

	return 0;
}
EXPORT_SYMBOL_IF_KUNIT(tern_read_counters);
