/* SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause) */
/* Direct verbs of tern: what the device can do beyond ibverbs. See terndv(7). */
#ifndef _TERNDV_H_
#define _TERNDV_H_

#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>
/* Layout of the queues, and how to ring a doorbell. */
#include <infiniband/tern_io.h>
#include <infiniband/tern_regs.h>

#ifdef __cplusplus
extern "C" {
#endif

bool terndv_is_supported(struct ibv_device *device);

enum terndv_context_flags {
	TERNDV_CONTEXT_FLAGS_ATOMIC_WRITE = 1 << 0,
	TERNDV_CONTEXT_FLAGS_FLUSH = 1 << 1,
	TERNDV_CONTEXT_FLAGS_MW = 1 << 2,
	TERNDV_CONTEXT_FLAGS_MW_2A = 1 << 3, /* type 2 is 2A, else 2B */
	TERNDV_CONTEXT_FLAGS_TIMESTAMP = 1 << 4,
	TERNDV_CONTEXT_FLAGS_SEND_INV = 1 << 5,
	TERNDV_CONTEXT_FLAGS_RAW_OFFLOAD = 1 << 6,
	TERNDV_CONTEXT_FLAGS_RSS = 1 << 7,
	TERNDV_CONTEXT_FLAGS_UDP_SPORT = 1 << 8,
};

enum terndv_context_comp_mask {
	TERNDV_CONTEXT_MASK_DM_OPS = 1 << 0,
};

struct terndv_context {
	uint64_t comp_mask; /* TERNDV_CONTEXT_MASK_*: in and out */
	uint32_t version; /* of the direct verbs, 0 */
	uint32_t flags; /* TERNDV_CONTEXT_FLAGS_* */
	uint32_t max_send_wr;
	uint32_t max_recv_wr;
	uint32_t max_srq_wr;
	uint32_t max_cqe;
	uint32_t max_send_sge;
	uint32_t max_recv_sge;
	uint32_t max_inline_data;
	uint32_t dm_ops; /* bit 1 << TERNDV_DM_OP_* */
};

int terndv_query_device(struct ibv_context *context,
			struct terndv_context *attrs);

/*
 * A queue of WQEs. WQE number i, which is free-running, is in the slot at
 * buf + (i & (wqe_cnt - 1)) * stride.
 */
struct terndv_queue {
	void *buf; /* NULL if the object has no such queue */
	uint32_t wqe_cnt; /* a power of two */
	uint32_t stride; /* bytes */
	uint32_t pi; /* number of the next WQE to post */
	uint32_t reserved;
};

struct terndv_qp {
	uint64_t comp_mask;
	struct tern_qp_record *record; /* NULL without queues */
	void *doorbell; /* store TERN_DB_CMD_SQ and the QP number */
	struct terndv_queue sq;
	struct terndv_queue rq;
	uint32_t max_inline_data;
	uint32_t reserved;
};

struct terndv_cq {
	uint64_t comp_mask;
	struct tern_cq_record *record;
	void *doorbell; /* store TERN_DB_CMD_CQ_ARM and the CQ number */
	struct tern_cqe *buf;
	uint32_t cqe_cnt; /* a power of two */
	uint32_t cqn;
	uint32_t ci; /* number of the next CQE to consume */
	uint32_t base; /* number of a CQE in slot 0, on a pass with phase 1 */
	uint32_t arm_seq; /* sequence number of the next arm */
	uint32_t reserved;
};

struct terndv_srq {
	uint64_t comp_mask;
	struct tern_srq_record *record;
	struct terndv_queue rq;
	uint32_t srqn;
	uint32_t reserved;
};

struct terndv_wq {
	uint64_t comp_mask;
	struct tern_qp_record *record;
	void *doorbell; /* store TERN_DB_CMD_RQ and the WQ number */
	struct terndv_queue rq;
	uint32_t wqn;
	uint32_t reserved;
};

struct terndv_dm {
	uint64_t comp_mask;
	void *buf; /* mapping of the memory */
	uint64_t length; /* as requested */
};

struct terndv_ah {
	uint64_t comp_mask;
	const struct tern_av *av; /* for struct tern_ud_seg */
};

struct terndv_obj {
	struct {
		struct ibv_qp *in;
		struct terndv_qp *out;
	} qp;
	struct {
		struct ibv_cq *in;
		struct terndv_cq *out;
	} cq;
	struct {
		struct ibv_srq *in;
		struct terndv_srq *out;
	} srq;
	struct {
		struct ibv_wq *in;
		struct terndv_wq *out;
	} wq;
	struct {
		struct ibv_dm *in;
		struct terndv_dm *out;
	} dm;
	struct {
		struct ibv_ah *in;
		struct terndv_ah *out;
	} ah;
};

enum terndv_obj_type {
	TERNDV_OBJ_QP = 1 << 0,
	TERNDV_OBJ_CQ = 1 << 1,
	TERNDV_OBJ_SRQ = 1 << 2,
	TERNDV_OBJ_WQ = 1 << 3,
	TERNDV_OBJ_DM = 1 << 4,
	TERNDV_OBJ_AH = 1 << 5,
};

int terndv_init_obj(struct terndv_obj *obj, uint64_t obj_type);

/* The slot of a WQE or CQE. */
static inline void *terndv_wqe_slot(const struct terndv_queue *queue,
				    uint32_t number)
{
	return (char *)queue->buf +
	       (size_t)(number & (queue->wqe_cnt - 1)) * queue->stride;
}

static inline struct tern_cqe *terndv_cqe_slot(const struct terndv_cq *cq,
					       uint32_t number)
{
	return &cq->buf[(number - cq->base) & (cq->cqe_cnt - 1)];
}

/* The phase that says that the device has written CQE number. */
static inline uint32_t terndv_cqe_phase(const struct terndv_cq *cq,
					uint32_t number)
{
	return ((number - cq->base) & cq->cqe_cnt) ? 0 : TERN_CQE_PHASE;
}

/* Operations on 32-bit words of device memory. */
enum terndv_dm_op {
	TERNDV_DM_OP_ADD, /* a store of v adds v; a load returns x, adds 1 */
	TERNDV_DM_OP_OR, /* x | v; a load returns x, sets bit 0 */
	TERNDV_DM_OP_CLEAR, /* x & ~v; a load returns x, stores 0 */
};

void *terndv_dm_map_op_addr(struct ibv_dm *dm, uint8_t op, uint64_t offset);

int terndv_modify_qp_udp_sport(struct ibv_qp *qp, uint16_t udp_sport);
int terndv_query_qp_udp_sport(struct ibv_qp *qp, uint16_t *udp_sport);

enum terndv_key_state {
	TERNDV_KEY_FREE, /* window not bound, region closed by an invalidation */
	TERNDV_KEY_VALID,
};

struct terndv_key_attr {
	uint64_t comp_mask;
	uint64_t addr; /* of the first byte */
	uint64_t length;
	uint32_t key; /* as valid now */
	uint32_t access; /* IBV_ACCESS_* */
	uint32_t qp_num; /* of a bound type 2 window, else 0 */
	uint32_t num_windows; /* region: windows bound to it */
	uint32_t mr_key; /* bound window: key of its region, else 0 */
	uint8_t state; /* TERNDV_KEY_* */
	uint8_t type; /* 0: region, 1 or 2: window of that type */
	uint8_t reserved[2];
};

int terndv_query_key(struct ibv_pd *pd, uint32_t key,
		     struct terndv_key_attr *attr);
int terndv_query_mw(struct ibv_mw *mw, struct terndv_key_attr *attr);

/* Memory of 8 bytes: at ptr, or at an offset of a dma-buf. */
struct terndv_mem {
	void *ptr; /* with a dma-buf: where the process has mapped it, or NULL */
	uint64_t offset; /* in the dma-buf */
	int32_t fd; /* file descriptor of the dma-buf, or -1 */
	uint32_t reserved; /* 0 */
};

enum terndv_comp_cntr_comp_mask {
	TERNDV_COMP_CNTR_MASK_COMP_MEM = 1 << 0,
	TERNDV_COMP_CNTR_MASK_ERR_MEM = 1 << 1,
};

struct terndv_comp_cntr_init_attr {
	uint64_t comp_mask; /* TERNDV_COMP_CNTR_MASK_* */
	struct terndv_mem comp; /* where the completion count is */
	struct terndv_mem err; /* where the error count is */
};

/* From rdma-core 65 on. */
struct ibv_comp_cntr;
struct ibv_comp_cntr_init_attr;
struct ibv_comp_cntr *
terndv_create_comp_cntr(struct ibv_context *context,
			struct ibv_comp_cntr_init_attr *attr,
			struct terndv_comp_cntr_init_attr *tern_attr);

#ifdef __cplusplus
}
#endif

#endif /* _TERNDV_H_ */
