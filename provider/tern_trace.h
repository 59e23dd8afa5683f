/* SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause) */
/*
 * Static tracepoints of posts, polls and arms, for LTTng or as USDT probes, as
 * rdma-core is configured (-DTRACING=). By default there are none.
 */

#if defined(LTTNG_ENABLED) && defined(USDT_ENABLED)

#error "Only one of LTTNG_ENABLED and USDT_ENABLED allowed"

#elif defined(LTTNG_ENABLED)

#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER rdma_core_tern

#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "tern_trace.h"

#if !defined(TERN_TRACE_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define TERN_TRACE_H

#include <lttng/tracepoint.h>
#include <infiniband/verbs.h>

/* A WQE that is about to become visible; opcode is TERN_WR_*. */
LTTNG_UST_TRACEPOINT_EVENT(
	rdma_core_tern, post_send,

	LTTNG_UST_TP_ARGS(
		const char *, dev_name,
		uint64_t, wr_id,
		uint8_t, opcode,
		uint32_t, qp_num,
		uint8_t, num_sge,
		uint32_t, inline_length
	),

	LTTNG_UST_TP_FIELDS(
		lttng_ust_field_string(dev_name, dev_name)
		lttng_ust_field_integer(uint64_t, wr_id, wr_id)
		lttng_ust_field_integer(uint8_t, opcode, opcode)
		lttng_ust_field_integer(uint32_t, qp_num, qp_num)
		lttng_ust_field_integer(uint8_t, num_sge, num_sge)
		lttng_ust_field_integer(uint32_t, inline_length, inline_length)
	)
)

/* A receive of a QP or a WQ. */
LTTNG_UST_TRACEPOINT_EVENT(
	rdma_core_tern, post_recv,

	LTTNG_UST_TP_ARGS(
		const char *, dev_name,
		uint64_t, wr_id,
		uint32_t, qp_num,
		int, num_sge
	),

	LTTNG_UST_TP_FIELDS(
		lttng_ust_field_string(dev_name, dev_name)
		lttng_ust_field_integer(uint64_t, wr_id, wr_id)
		lttng_ust_field_integer(uint32_t, qp_num, qp_num)
		lttng_ust_field_integer(int, num_sge, num_sge)
	)
)

LTTNG_UST_TRACEPOINT_EVENT(
	rdma_core_tern, post_srq_recv,

	LTTNG_UST_TP_ARGS(
		const char *, dev_name,
		uint64_t, wr_id,
		uint32_t, srqn,
		int, num_sge
	),

	LTTNG_UST_TP_FIELDS(
		lttng_ust_field_string(dev_name, dev_name)
		lttng_ust_field_integer(uint64_t, wr_id, wr_id)
		lttng_ust_field_integer(uint32_t, srqn, srqn)
		lttng_ust_field_integer(int, num_sge, num_sge)
	)
)

/* A completion, by either way to poll; opcode is IBV_WC_*. */
LTTNG_UST_TRACEPOINT_EVENT(
	rdma_core_tern, poll_cq,

	LTTNG_UST_TP_ARGS(
		const char *, dev_name,
		uint32_t, cqn,
		uint64_t, wr_id,
		int, status,
		int, opcode,
		uint32_t, qp_num,
		uint32_t, byte_len
	),

	LTTNG_UST_TP_FIELDS(
		lttng_ust_field_string(dev_name, dev_name)
		lttng_ust_field_integer(uint32_t, cqn, cqn)
		lttng_ust_field_integer(uint64_t, wr_id, wr_id)
		lttng_ust_field_integer(int, status, status)
		lttng_ust_field_integer(int, opcode, opcode)
		lttng_ust_field_integer(uint32_t, qp_num, qp_num)
		lttng_ust_field_integer(uint32_t, byte_len, byte_len)
	)
)

/* An arm, with its word in the doorbell record, and whether it kicks. */
LTTNG_UST_TRACEPOINT_EVENT(
	rdma_core_tern, arm_cq,

	LTTNG_UST_TP_ARGS(
		const char *, dev_name,
		uint32_t, cqn,
		uint32_t, arm,
		int, kick
	),

	LTTNG_UST_TP_FIELDS(
		lttng_ust_field_string(dev_name, dev_name)
		lttng_ust_field_integer(uint32_t, cqn, cqn)
		lttng_ust_field_integer_hex(uint32_t, arm, arm)
		lttng_ust_field_integer(int, kick, kick)
	)
)

#define rdma_tracepoint(arg...) lttng_ust_tracepoint(arg)

#endif /* TERN_TRACE_H */

#include <lttng/tracepoint-event.h>

#elif defined(USDT_ENABLED)

#ifndef TERN_TRACE_H
#define TERN_TRACE_H

#include <util/usdt.h>

#define rdma_tracepoint(arg...) USDT(arg)

#endif /* TERN_TRACE_H */

#else /* !defined(LTTNG_ENABLED) && !defined(USDT_ENABLED) */

#ifndef TERN_TRACE_H
#define TERN_TRACE_H

#define rdma_tracepoint(arg...)

#endif /* TERN_TRACE_H */

#endif /* defined(LTTNG_ENABLED) || defined(USDT_ENABLED) */
