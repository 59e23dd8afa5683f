/* SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause) */
/* Shared by the provider's tests: a context, and stubs for the kernel. */
#ifndef TERN_TEST_FIXTURE_H
#define TERN_TEST_FIXTURE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../tern.h"

#define PAGE 4096U

#define CHECK(cond)                                                            \
	do {                                                                   \
		if (!(cond)) {                                                 \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__,     \
				#cond);                                        \
			exit(1);                                               \
		}                                                              \
	} while (0)

/* Opcodes of an RC QP on any device. */
#define RC_OPS                                                                 \
	(IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM |                  \
	 IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM |      \
	 IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |        \
	 IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD)

/*
 * kernel_stub.c: numbers to return, the error to return instead, arguments of
 * the last call.
 */
extern uint32_t next_qpn;
extern uint32_t next_srqn;
extern atomic_int kernel_qps; /* created minus destroyed, without flags */
extern int create_err;
extern struct tern_ureq_create_qp last_qp;
extern struct tern_ureq_modify_qp last_request;
extern struct ibv_qp_attr last_modify;
extern int last_modify_mask;
extern struct tern_ureq_create_cq last_cq;
extern struct ibv_qp_cap last_cap;
extern struct tern_ureq_create_srq last_srq;
extern struct tern_ureq_modify_srq last_resize;
extern struct ibv_srq_attr last_srq_attr;
extern int last_srq_mask;
/* Called when the device would switch to the new queue. */
extern void (*on_modify_srq)(void);
extern struct tern_ureq_resize_cq last_cq_resize;
extern unsigned int cq_resizes; /* number of commands so far */
/* The same for CQs. Returns the first index in the new queue, or an error. */
extern int (*on_resize_cq)(uint32_t *first_index);
extern struct ibv_modify_cq_attr last_cq_attr;
/*
 * Calls of ibv_dontfork_range() minus those of ibv_dofork_range(), and the
 * error that the former returns after a given number of successes.
 */
extern int dontfork_ranges;
extern int dontfork_err;
extern unsigned int dontfork_left;

/*
 * raw_stub.c: arguments of the last call, number of objects that exist, values
 * to read.
 */
extern struct ibv_qp_init_attr_ex last_qp_ex;
extern struct tern_ureq_create_rss_qp last_rss;
extern struct tern_ureq_create_wq last_wq;
extern struct ibv_wq_attr last_wq_attr;
extern struct ibv_wq_init_attr last_wq_init;
extern unsigned int raw_objects;
extern uint64_t counter_packets, counter_bytes;
extern uint32_t last_read_flags;

/* memory_stub.c: error to return, calls, results, last arguments. */
#define DM_HANDLE 0x99U

struct last_mr {
	struct ibv_pd *pd;
	void *addr;
	size_t length;
	uint64_t offset; /* in device memory, or hca_va */
	unsigned int access;
	uint32_t flags;
};

extern int memory_err;
extern unsigned int memory_calls;
extern struct tern_uresp_create_ah ah_resp;
extern struct tern_uresp_alloc_dm dm_mapping;
extern uint64_t dm_length;
extern struct ibv_alloc_dm_attr last_dm;
extern struct last_mr last_mr;
extern struct tern_uresp_alloc_ucontext context_resp;
extern unsigned int contexts; /* existing contexts */
extern const struct verbs_device_ops *driver_ops;
extern const struct verbs_context_ops *context_ops;

/* An attribute that the command must have once, with this size; its output. */
struct ibv_command_buffer;
struct ib_uverbs_attr *find_attr(struct ibv_command_buffer *cmd, uint16_t id,
				 size_t len);
void put_attr(struct ibv_command_buffer *cmd, uint16_t id, const void *value,
	      size_t len);

/* dv_stub.c: the driver's own methods: error to return, calls, input, results. */
struct dv_input {
	uint32_t handle;
	uint32_t key;
	uint64_t offset;
	uint8_t op;
};

extern int dv_err;
extern unsigned int dv_calls;
extern struct dv_input dv_input;
extern struct tern_uresp_alloc_dm dv_op_mapping;
extern struct tern_uresp_query_key dv_key;
extern uint16_t dv_sport;
int dv_ioctl(struct ibv_command_buffer *cmd);

/*
 * lock_stub.c: hooks that run before a spinlock is taken, and before and after
 * it is released, in the same thread. A hook may do anything that another
 * thread could do at that point.
 */
typedef void (*lock_hook)(pthread_spinlock_t *lock);
extern lock_hook before_lock, before_unlock, after_unlock;

/* trace_stub.c: the tracepoints that this thread has hit; the test resets num. */
#define MAX_TRACES 4U

struct trace {
	const char *name;
	uint64_t wr_id;
	uint32_t opcode;
	uint32_t num; /* of the QP or SRQ */
	uint32_t num_sge;
	uint32_t length;
	uint32_t cqn;
	uint32_t status;
	uint32_t arm;
	bool kick;
};

extern _Thread_local struct trace traces[MAX_TRACES];
extern _Thread_local unsigned int num_traces;

/* fixture.c */
extern struct tern_context *ctx;
extern struct tern_pd test_pd; /* no parent domain */
extern const struct ibv_qp_cap small_cap;

void setup(void);
void teardown(void);

/* The doorbell store since the last call, or 0; the expected value. */
uint32_t last_kick(void);
uint32_t kick_of(uint32_t cmd, uint32_t num);

struct tern_cq *make_cq(uint32_t cqe);
/*
 * Creates a QP in RTS with ibv_wr_*() for send_ops, and the CQs and SRQ that
 * the type needs.
 */
struct tern_qp *make_typed_qp(enum ibv_qp_type qp_type, struct tern_cq *scq,
			      struct tern_cq *rcq, struct ibv_srq *srq,
			      struct ibv_qp_cap cap, uint64_t send_ops);
/* Creates an RC QP in RTS with RC_OPS. */
struct tern_qp *make_qp(struct tern_cq *scq, struct tern_cq *rcq,
			struct ibv_qp_cap cap);
uint32_t sq_pi(struct tern_qp *qp);
/* Writes CQE number index like the device, phase last. */
void put_whole_cqe(struct tern_cq *cq, uint32_t index,
		   const struct tern_cqe *cqe);
void put_cqe(struct tern_cq *cq, uint32_t index, uint32_t qpn, uint64_t wr_id,
	     uint32_t wqe_index, uint8_t flags);
/* The same for a receive from an SRQ. */
void put_srq_cqe(struct tern_cq *cq, uint32_t index, uint32_t qpn,
		 uint64_t wr_id, uint32_t srqn);

/* test_ece.c */
void test_ece(void);
void test_ece_types(void);

/* test_trace.c */
void test_trace(void);

/* test_parent.c */
void test_parent_objects(void);
void test_parent_refused(void);
void test_parent_buffers(void);
void test_parent_allocators(void);
void test_parent_locks(void);

/* test_opcodes.c */
void test_type_ops(void);
void test_rate(void);
void test_rate_caps(void);
void test_raw_send(void);
void test_raw_send_refused(void);
void test_raw_tso(void);
void test_raw_tso_refused(void);
void test_raw_tso_cqe(void);
void test_raw_flags(void);
void test_raw_recv(void);
void test_raw_attr(void);
void test_rss_qp(void);
void test_wq(void);
void test_wq_refused(void);
void test_flow_objects(void);
void test_flow_counters(void);
void test_ud(void);
void test_xrc(void);
void test_alt_path(void);
void test_types_refused(void);
void test_post_refused(void);
void test_cq_fields(void);
void test_cq_sl(void);
void test_cq_session(void);

/* test_wallclock.c */
void test_wallclock(void);
void test_wallclock_cq(void);
void test_wallclock_writer(void);
void test_wallclock_threads(void);

/* test_races.c */
void test_arm_race(void);
void test_post_destroy(void);
void test_destroy_waits(void);
void test_bind_race(void);
void test_session_destroy(void);

/* test_flush.c */
void test_flush(void);
void test_atomic_write(void);
void test_built_ops(void);

/* test_doorbell_record.c */
void test_records(void);
void test_record_addresses(void);
void test_record_refused(void);
void test_ah(void);

/* test_numbers.c */
void test_number_reuse(void);
void test_number_shortage(void);

/* test_retire.c */
void test_cache_lines(void);
void test_retire_order(void);
void test_retire_threads(void);

/* test_windows.c */
void test_bind_encoding(void);
void test_bind_keys(void);
void test_bind_verb_refused(void);
void test_bind_send_refused(void);
void test_local_inv(void);
void test_window_cqes(void);
void test_bind_threads(void);

/* test_memory.c */
void test_dm_copy(void);
void test_dm_copy_refused(void);
void test_other_regions(void);
void test_dm_objects(void);
void test_dm_import(void);
void test_memory_objects(void);
void test_contexts(void);

/* test_dv.c */
void test_dv_device(void);
void test_dv_lengths(void);
void test_dv_post(void);
void test_dv_poll(void);
void test_dv_purge(void);
void test_dv_cq_indices(void);
void test_dv_wq_indices(void);
void test_dv_objects(void);
void test_dv_wq(void);
void test_dv_dm_ops(void);
void test_dv_keys(void);
void test_dv_sport(void);

/* test_arm.c */
void test_arm(void);
void test_arm_untaken(void);
void test_arm_kick(void);
void test_arm_threads(void);

/* test_cq_resize.c */
void test_cq_resize(void);
void test_cq_resize_arm(void);
void test_cq_resize_refused(void);
void test_cq_resize_threads(void);
void test_cq_modify(void);
void test_clock(void);

/* test_srq.c */
void test_srq_queue(void);
void test_srq_resize(void);
void test_srq_resize_posts(void);
void test_srq_cqes(void);
void test_srq_refused(void);
void test_srq_numbers(void);
void test_srq_threads(void);

/* test_tm.c */
void test_tm_create(void);
void test_tm_ops(void);
void test_tm_limits(void);
void test_tm_cqes(void);
void test_tm_qp(void);

#endif /* TERN_TEST_FIXTURE_H */
