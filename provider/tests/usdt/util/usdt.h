/* SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause) */
/* In the place of rdma-core's: tracepoints call functions of trace_stub.c. */
#ifndef TERN_TEST_USDT_H
#define TERN_TEST_USDT_H

#include <stdint.h>

#define USDT(group, name, ...) trace_##name(#group, __VA_ARGS__)

void trace_post_send(const char *group, const char *dev_name, uint64_t wr_id,
		     uint8_t opcode, uint32_t qp_num, uint8_t num_sge,
		     uint32_t inline_length);
void trace_post_recv(const char *group, const char *dev_name, uint64_t wr_id,
		     uint32_t qp_num, int num_sge);
void trace_post_srq_recv(const char *group, const char *dev_name,
			 uint64_t wr_id, uint32_t srqn, int num_sge);
void trace_poll_cq(const char *group, const char *dev_name, uint32_t cqn,
		   uint64_t wr_id, int status, int opcode, uint32_t qp_num,
		   uint32_t byte_len);
void trace_arm_cq(const char *group, const char *dev_name, uint32_t cqn,
		  uint32_t arm, int kick);

#endif /* TERN_TEST_USDT_H */
