// SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause)
/* Records the tracepoints that the thread has hit. */

#include <util/usdt.h>

#include "fixture.h"

_Thread_local struct trace traces[MAX_TRACES];
_Thread_local unsigned int num_traces;

static void record(const char *group, const char *dev_name, const char *name,
		   struct trace trace)
{
	CHECK(!strcmp(group, "rdma_core_tern") && !strcmp(dev_name, "tern0"));
	trace.name = name;
	traces[num_traces++ % MAX_TRACES] = trace;
}

void trace_post_send(const char *group, const char *dev_name, uint64_t wr_id,
		     uint8_t opcode, uint32_t qp_num, uint8_t num_sge,
		     uint32_t inline_length)
{
	record(group, dev_name, "post_send",
	       (struct trace) { .wr_id = wr_id, .opcode = opcode,
				.num = qp_num, .num_sge = num_sge,
				.length = inline_length });
}

void trace_post_recv(const char *group, const char *dev_name, uint64_t wr_id,
		     uint32_t qp_num, int num_sge)
{
	record(group, dev_name, "post_recv",
	       (struct trace) { .wr_id = wr_id, .num = qp_num,
				.num_sge = num_sge });
}

void trace_post_srq_recv(const char *group, const char *dev_name,
			 uint64_t wr_id, uint32_t srqn, int num_sge)
{
	record(group, dev_name, "post_srq_recv",
	       (struct trace) { .wr_id = wr_id, .num = srqn,
				.num_sge = num_sge });
}

void trace_poll_cq(const char *group, const char *dev_name, uint32_t cqn,
		   uint64_t wr_id, int status, int opcode, uint32_t qp_num,
		   uint32_t byte_len)
{
	record(group, dev_name, "poll_cq",
	       (struct trace) { .wr_id = wr_id, .opcode = opcode,
				.num = qp_num, .length = byte_len,
				.cqn = cqn, .status = status });
}

void trace_arm_cq(const char *group, const char *dev_name, uint32_t cqn,
		  uint32_t arm, int kick)
{
	record(group, dev_name, "arm_cq",
	       (struct trace) { .cqn = cqn, .arm = arm, .kick = kick });
}
