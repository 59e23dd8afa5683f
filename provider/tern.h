/* SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause) */
/* Private structures of the tern provider. */
#ifndef TERN_H
#define TERN_H

#include <assert.h>
#include <endian.h>
#include <errno.h>
#include <pthread.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <ccan/list.h>

#include <infiniband/driver.h>
#include <util/compiler.h>
#include <util/mmio.h>
#include <util/udma_barrier.h>
#include <util/util.h>

#ifndef TERN_WITHOUT_COMPAT
#include "compat.h"
#endif
#include "tern-abi.h"
#include "tern_regs.h"
#include "tern_io.h"
#include "tern_eth.h"
#ifndef TERN_WITHOUT_TM
#include "tern_tm.h"
#endif

/* 24-bit QP numbers: a directory of pages of pointers, made on demand. */
#define TERN_QP_TABLE_SHIFT 12
#define TERN_QP_TABLE_SIZE BIT(TERN_QP_TABLE_SHIFT)
#define TERN_QP_TABLE_MASK (TERN_QP_TABLE_SIZE - 1)

/* Numbers are allocated in sequence, so the low bits distribute them well. */
#define TERN_XRC_SRQ_BUCKETS 1024

/* Limit of numbers that a new object refuses because they have an owner. */
#define TERN_NUMBER_TRIES 16

struct tern_qp;

struct tern_device {
	struct verbs_device vdev;
	size_t page_size;
};

/* Types of doorbell records. A page holds records of one type. */
enum tern_record_type {
	TERN_RECORD_CQ,
	TERN_RECORD_SRQ,
	TERN_RECORD_QP,
#ifndef TERN_WITHOUT_COMP_CNTR
	TERN_RECORD_COMP_CNTR, /* the values of a completion counter */
#endif
	TERN_NUM_RECORD_TYPES,
};

struct tern_context {
	struct verbs_context vctx;
	void *uar; /* doorbell page */
	size_t uar_size;
#ifndef TERN_WITHOUT_CLOCK
	/* The kernel's clock page, NULL if there is none. */
	const struct ib_uverbs_clock_info *clock;
#endif
	uint32_t caps; /* TERN_UCTX_CAP_* */
	uint32_t max_send_wr;
	uint32_t max_recv_wr;
	uint32_t max_srq_wr;
	uint32_t max_cqe;
	uint32_t max_send_sge;
	uint32_t max_recv_sge;
	uint32_t max_inline;
#ifndef TERN_WITHOUT_RATE
	uint32_t max_rate; /* kbit/s */
#endif
	/*
	 * Entries change under qp_table_mutex, while no CQ has a CQE with the
	 * number: before the first, and after the last was removed. Pollers
	 * read them under the lock of the CQ that contains the number.
	 *
	 * Both mutexes may be taken in a polling session, which holds the lock
	 * of a CQ. So nothing waits for a CQ while it holds one of them.
	 */
	pthread_mutex_t qp_table_mutex;
	struct tern_qp **qp_table[TERN_QP_TABLE_SIZE];
	/*
	 * SRQs with a CQ, for XRC or tag matching, by number, whose completions
	 * have not been cleaned up yet; protected by the mutex.
	 */
	pthread_mutex_t xrc_srqs_mutex;
	struct list_head xrc_srqs[TERN_XRC_SRQ_BUCKETS];
	/* Pages with a free doorbell record; protected by the mutex. */
	pthread_mutex_t records_mutex;
	struct list_head record_pages[TERN_NUM_RECORD_TYPES];
};

/* A spinlock that is taken only where threads share its object. */
struct tern_spinlock {
	bool need_lock; /* false in a thread domain */
	pthread_spinlock_t lock;
};

struct tern_td {
	struct ibv_td ibvtd;
	atomic_uint users; /* parent domains */
};

/* Low half of resource_type: the kind of queue memory. */
enum tern_res_type {
	TERN_RES_QP = 1,
	TERN_RES_WQ,
	TERN_RES_SRQ,
	TERN_RES_CQ,
	TERN_RES_RECORD,
};

/* The driver's id is in the high half. */
#define TERN_RESOURCE(type) ((uint64_t)RDMA_DRIVER_TERN << 32 | (type))

/* A PD, or with a base a parent domain, which has the handle of its PD. */
struct tern_pd {
	struct ibv_pd ibvpd;
	atomic_uint refs; /* the owner, parent domains, queues of a parent domain */
	struct tern_pd *base; /* NULL for a PD */
	struct tern_td *td; /* or NULL */
	void *(*alloc)(struct ibv_pd *pd, void *pd_context, size_t size,
		       size_t alignment, uint64_t resource_type);
	void (*free)(struct ibv_pd *pd, void *pd_context, void *ptr,
		     uint64_t resource_type);
	void *pd_context;
};

/* Queue memory shared with the device. */
struct tern_buf {
	void *addr;
	size_t len;
	struct tern_pd *pd; /* whose allocator it comes from, or NULL */
	enum tern_res_type type;
};

struct tern_record_page;

/* A doorbell record and the page that contains it. */
struct tern_record {
	void *addr;
	struct tern_record_page *page;
	struct tern_pd *pd; /* whose allocator it comes from instead, or NULL */
};

struct tern_ah {
	struct ibv_ah ibvah;
	struct tern_av av;
};

struct tern_dm {
	struct verbs_dm vdm;
	void *addr; /* mapping of the whole allocation */
	size_t mmap_size;
	uint64_t mmap_offset;
	uint64_t length; /* requested size in bytes */
#ifndef TERN_WITHOUT_DV
	/* Mappings of operation pages; protected by the mutex. */
	pthread_mutex_t ops_mutex;
	struct list_head ops;
#endif
};

/* What a CQ is armed for. A later one includes those before it. */
enum tern_notify {
	TERN_NOTIFY_NONE,
	TERN_NOTIFY_SOLICITED,
	TERN_NOTIFY_ANY,
};

struct tern_cq {
	struct verbs_cq vcq;
	struct tern_buf buf;
	struct tern_cqe *cqes;
	struct tern_record record_ref;
	struct tern_cq_record *record; /* record_ref.addr */
	uint32_t log_size;
	uint32_t mask;
	uint32_t base; /* number of the CQE in slot 0 on the first pass */
	uint32_t cqn;
	struct tern_spinlock lock;
	/* Protects the arm word and its inputs; may nest inside lock. */
	struct tern_spinlock arm_lock;
	/*
	 * Index of the next CQE to consume; written under lock, read by
	 * req_notify without it.
	 */
	atomic_uint ci;
	/* Number of events taken so far. Each arm is for one event. */
	atomic_uint arm_seq;
	/* Requests for the event arm_seq, under arm_lock. */
	enum tern_notify armed;
	uint32_t armed_at; /* first CQE that could satisfy the first request */
	/* Those that the device may ignore, because the event was fired. */
	enum tern_notify deferred;
	/*
	 * The CQE that the ibv_cq_ex accessors read, without its phase: the
	 * slot was returned.
	 */
	struct tern_cqe cur;
	struct tern_qp *cur_qp; /* of an earlier CQE, a cache */
#ifndef TERN_WITHOUT_DV
	bool direct; /* the program polls by direct verbs; under lock */
#endif
#ifndef TERN_WITHOUT_CLOCK
	struct ib_uverbs_clock_info clock; /* last state; under lock */
#endif
	struct tern_pd *pd; /* parent domain, or NULL */
};

struct tern_wq {
	uint8_t *slots; /* NULL if the queue does not exist */
	uint32_t mask; /* slots - 1 */
	uint16_t max_sge;
	uint8_t log_stride;
	struct tern_spinlock lock;
	uint32_t head; /* number of WQEs posted, under lock */
	/*
	 * A copy, under lock, of the number of WQEs whose slots are free again.
	 * It is refreshed when it indicates a full queue. SQ, RQ: from the tail
	 * that pollers write. SRQ: from the index of WQEs that the device has
	 * fetched.
	 */
	uint32_t tail_seen;
};

/* Distance between members that different threads write. */
#define TERN_CACHE_LINE 64

#ifndef TERN_WITHOUT_TM
struct tern_tm;

#endif
struct tern_srq {
	struct verbs_srq vsrq;
	struct tern_buf buf;
	struct tern_record record_ref;
	struct tern_srq_record *record; /* record_ref.addr */
	struct tern_wq wq;
#ifndef TERN_WITHOUT_RESIZE
	/* Target of a resize: posts go to both queues. Under wq.lock. */
	struct tern_wq *next;
	pthread_mutex_t resize_mutex; /* serializes resizes */
#endif
	uint32_t srqn;
	struct list_node xrc_entry; /* in xrc_srqs, SRQs with a CQ only */
#ifndef TERN_WITHOUT_TM
	struct tern_tm *tm; /* NULL without tag matching */
#endif
	struct tern_pd *pd; /* parent domain, or NULL */
};

struct tern_op;
struct tern_qp_type;

struct tern_qp {
	struct verbs_qp vqp;
	struct tern_qp_record *record; /* record_ref.addr; NULL without queues */
	const struct tern_qp_type *type;
	uint32_t ops; /* BIT(IBV_WR_*) that may be posted */
	uint32_t send_flags; /* IBV_SEND_* that may be posted */
	uint32_t srqn; /* number of its SRQ, or 0 */
#ifndef TERN_WITHOUT_TM
	bool fetches; /* the device sends by itself; nothing can be posted */
#endif
	uint8_t wqe_flags; /* TERN_WQE_F_* set in every send WQE */
	uint16_t max_tso_header;
	uint32_t max_inline;

	/* Threads that post sends. */
	alignas(TERN_CACHE_LINE) struct tern_wq sq;
	/* State of an ibv_wr_start() .. complete() session, under sq.lock. */
	uint32_t wr_head; /* number of the next WQE */
	uint16_t wr_err; /* first error, or 0 */
	bool wr_no_address; /* UD address or XRC SRQ number missing */
	const struct tern_op *wr_op; /* of the current WQE, NULL if there is none */
	struct tern_sq_hdr *wr_wqe;
	void *wr_data; /* where its SGEs or inline data are written */

	/* Threads that post receives. */
	alignas(TERN_CACHE_LINE) struct tern_wq rq;

	/*
	 * Threads that poll: numbers of completed WQEs of both queues, under
	 * the lock of the CQ. Posters read them only when their copy indicates
	 * a full queue.
	 */
	alignas(TERN_CACHE_LINE) atomic_uint sq_tail;
	atomic_uint rq_tail;
	bool raw; /* type->raw, for polls */

	/* Members that posting and polling do not need. */
	struct tern_buf buf;
	struct tern_record record_ref;
	struct tern_pd *pd; /* parent domain, or NULL */
#ifndef TERN_WITHOUT_ECE
	uint32_t ece; /* options to connect with, if ece_set */
	bool ece_set;
#endif
};

/* Device and data path treat a work queue as a raw packet QP. */
struct tern_rwq {
	struct ibv_wq ibvwq;
	struct tern_qp qp;
};

/* The kernel returns EPROTONOSUPPORT for a method that it or the device lacks. */
static inline int tern_method_err(int err)
{
	return err == EPROTONOSUPPORT ? EOPNOTSUPP : err;
}

static inline struct tern_device *to_tern_dev(struct ibv_device *ibvdev)
{
	return container_of(ibvdev, struct tern_device, vdev.device);
}

static inline struct tern_context *to_tern_ctx(struct ibv_context *ibvctx)
{
	return container_of(ibvctx, struct tern_context, vctx.context);
}

static inline struct tern_td *to_tern_td(struct ibv_td *ibvtd)
{
	return container_of(ibvtd, struct tern_td, ibvtd);
}

static inline struct tern_pd *to_tern_pd(struct ibv_pd *ibvpd)
{
	return container_of(ibvpd, struct tern_pd, ibvpd);
}

/* NULL for a PD, and for an object without one. */
static inline struct tern_pd *to_tern_parent(struct ibv_pd *ibvpd)
{
	return ibvpd && to_tern_pd(ibvpd)->base ? to_tern_pd(ibvpd) : NULL;
}

/* Whether queues of a parent domain, or of none, are shared by threads. */
static inline bool tern_needs_lock(const struct tern_pd *parent)
{
	return !parent || !parent->td;
}

static inline struct tern_ah *to_tern_ah(struct ibv_ah *ibvah)
{
	return container_of(ibvah, struct tern_ah, ibvah);
}

static inline struct tern_dm *to_tern_dm(struct ibv_dm *ibvdm)
{
	return container_of(ibvdm, struct tern_dm, vdm.dm);
}

static inline struct tern_cq *to_tern_cq(struct ibv_cq *ibvcq)
{
	return container_of(ibvcq, struct tern_cq, vcq.cq);
}

static inline struct tern_cq *to_tern_cq_ex(struct ibv_cq_ex *ibvcq)
{
	return container_of(ibvcq, struct tern_cq, vcq.cq_ex);
}

static inline struct tern_qp *to_tern_qp(struct ibv_qp *ibvqp)
{
	return container_of(ibvqp, struct tern_qp, vqp.qp);
}

static inline struct tern_qp *to_tern_qp_ex(struct ibv_qp_ex *ibvqp)
{
	return container_of(ibvqp, struct tern_qp, vqp.qp_ex);
}

static inline struct tern_srq *to_tern_srq(struct ibv_srq *ibvsrq)
{
	return container_of(ibvsrq, struct tern_srq, vsrq.srq);
}

static inline struct tern_rwq *to_tern_rwq(struct ibv_wq *ibvwq)
{
	return container_of(ibvwq, struct tern_rwq, ibvwq);
}

/*
 * Words of doorbell records and phase words: a single access each, neither torn
 * nor cached.
 */
static inline void tern_shared_write(__le32 *word, uint32_t value)
{
	atomic_store_explicit((atomic_uint *)word,
			      (__force uint32_t)htole32(value),
			      memory_order_relaxed);
}

static inline uint32_t tern_shared_read(const __le32 *word)
{
	uint32_t raw = atomic_load_explicit((atomic_uint *)word,
					    memory_order_relaxed);

	return le32toh((__force __le32)raw);
}

/* Kicks the device with TERN_DB_CMD_*. The caller provides barriers. */
static inline void tern_ring(struct tern_context *ctx, uint32_t cmd,
			     uint32_t num)
{
	mmio_write32(ctx->uar + TERN_UAR_DB,
		     FIELD_PREP(TERN_DB_CMD_MASK, cmd) |
			     FIELD_PREP(TERN_DB_NUM_MASK, num));
}

static inline void tern_spin_init(struct tern_spinlock *lock, bool need_lock)
{
	pthread_spin_init(&lock->lock, PTHREAD_PROCESS_PRIVATE);
	lock->need_lock = need_lock;
}

static inline void tern_spin_destroy(struct tern_spinlock *lock)
{
	pthread_spin_destroy(&lock->lock);
}

static inline void tern_spin_lock(struct tern_spinlock *lock)
{
	if (likely(lock->need_lock))
		pthread_spin_lock(&lock->lock);
}

static inline void tern_spin_unlock(struct tern_spinlock *lock)
{
	if (likely(lock->need_lock))
		pthread_spin_unlock(&lock->lock);
}

/*
 * Waits for a thread that still holds the lock. Its work under the lock may be
 * the reason why the object is destroyed: its post completed, or its arm got an
 * event.
 */
static inline void tern_spin_drain(struct tern_spinlock *lock)
{
	tern_spin_lock(lock);
	tern_spin_unlock(lock);
}

/* Slot of CQE number index, which is free-running. */
static inline struct tern_cqe *tern_cqe_at(const struct tern_cq *cq,
					   uint32_t index)
{
	return &cq->cqes[(index - cq->base) & cq->mask];
}

#ifndef TERN_WITHOUT_TM
/* Whether the CQE is one of tag matching. */
static inline bool tern_cqe_is_tm(const struct tern_cqe *cqe)
{
	return cqe->opcode >= TERN_RECV_TM && cqe->opcode <= TERN_TM_CQE_SYNC;
}

#endif
static inline uint32_t tern_cq_ci(struct tern_cq *cq)
{
	return atomic_load_explicit(&cq->ci, memory_order_relaxed);
}

/* The same, also if the program polls by direct verbs. */
static inline uint32_t tern_cq_consumed(struct tern_cq *cq)
{
#ifndef TERN_WITHOUT_DV
	if (cq->direct)
		return tern_shared_read(&cq->record->ci);

#endif
	return tern_cq_ci(cq);
}

/* Slot of WQE number index, which is free-running. */
static inline void *tern_wq_slot(const struct tern_wq *wq, uint32_t index)
{
	return wq->slots + ((size_t)(index & wq->mask) << wq->log_stride);
}

/* Number of slots, 0 if the queue does not exist. */
static inline uint32_t tern_wq_num(const struct tern_wq *wq)
{
	return wq->slots ? wq->mask + 1 : 0;
}

/*
 * Whether a queue whose next WQE has number head is full. tail is written by
 * its pollers. Called under the queue's lock.
 */
static inline bool tern_wq_full(struct tern_wq *wq, const atomic_uint *tail,
				uint32_t head)
{
	if (likely(head - wq->tail_seen <= wq->mask))
		return false;

	/* Pairs with the poller's release: the slot's WQE has completed. */
	wq->tail_seen = atomic_load_explicit(tail, memory_order_acquire);
	return head - wq->tail_seen > wq->mask;
}

static inline bool tern_sq_full(struct tern_qp *qp, uint32_t head)
{
	return tern_wq_full(&qp->sq, &qp->sq_tail, head);
}

static inline struct tern_qp *tern_find_qp(struct tern_context *ctx,
					   uint32_t qpn)
{
	struct tern_qp **page =
		ctx->qp_table[(qpn >> TERN_QP_TABLE_SHIFT) & TERN_QP_TABLE_MASK];

	return page ? page[qpn & TERN_QP_TABLE_MASK] : NULL;
}

#ifndef TERN_WITHOUT_DV
/* provider.c */
bool tern_is_tern(const struct ibv_device *ibvdev);

#endif
/* buf.c */
int tern_alloc_buf(struct ibv_context *ibvctx, struct tern_pd *pd,
		   struct tern_buf *buf, size_t len, enum tern_res_type type);
void tern_free_buf(struct tern_buf *buf);

/* doorbell_record.c */
void tern_init_records(struct tern_context *ctx);
void tern_uninit_records(struct tern_context *ctx);
int tern_alloc_record(struct tern_context *ctx, struct tern_pd *pd,
		      struct tern_record *record, enum tern_record_type type);
void tern_free_record(struct tern_context *ctx, struct tern_record *record,
		      enum tern_record_type type);

/* clock.c */
uint64_t tern_read_clock(struct tern_context *ctx);
int tern_query_rt_values(struct ibv_context *ibvctx,
			 struct ibv_values_ex *values);
#ifndef TERN_WITHOUT_CLOCK
int tern_clock_init(const struct tern_context *ctx,
		    struct ib_uverbs_clock_info *clock);
uint64_t tern_wallclock_ns(const struct tern_context *ctx,
			   struct ib_uverbs_clock_info *clock, uint64_t stamp);
#endif

/* verbs.c: device, port, AH, XRCD, multicast, any kind of QP */
int tern_query_device_ex(struct ibv_context *ibvctx,
			 const struct ibv_query_device_ex_input *input,
			 struct ibv_device_attr_ex *attr, size_t attr_size);
int tern_query_port(struct ibv_context *ibvctx, uint8_t port,
		    struct ibv_port_attr *attr);
struct ibv_ah *tern_create_ah(struct ibv_pd *ibvpd, struct ibv_ah_attr *attr);
int tern_destroy_ah(struct ibv_ah *ibvah);
struct ibv_xrcd *tern_open_xrcd(struct ibv_context *ibvctx,
				struct ibv_xrcd_init_attr *attr);
int tern_close_xrcd(struct ibv_xrcd *ibvxrcd);
int tern_attach_mcast(struct ibv_qp *ibvqp, const union ibv_gid *gid,
		      uint16_t lid);
int tern_detach_mcast(struct ibv_qp *ibvqp, const union ibv_gid *gid,
		      uint16_t lid);
struct ibv_qp *tern_create_qp(struct ibv_pd *ibvpd,
			      struct ibv_qp_init_attr *attr);
struct ibv_qp *tern_create_qp_ex(struct ibv_context *ibvctx,
				 struct ibv_qp_init_attr_ex *attr);

/* pd.c: PDs, parent domains, thread domains */
struct ibv_pd *tern_alloc_pd(struct ibv_context *ibvctx);
int tern_dealloc_pd(struct ibv_pd *ibvpd);
#ifndef TERN_WITHOUT_IMPORT
struct ibv_pd *tern_import_pd(struct ibv_context *ibvctx, uint32_t handle);
void tern_unimport_pd(struct ibv_pd *ibvpd);
#endif
void tern_pd_get(struct tern_pd *pd);
void tern_pd_put(struct tern_pd *pd);
struct ibv_td *tern_alloc_td(struct ibv_context *ibvctx,
			     struct ibv_td_init_attr *attr);
int tern_dealloc_td(struct ibv_td *ibvtd);
struct ibv_pd *
tern_alloc_parent_domain(struct ibv_context *ibvctx,
			 struct ibv_parent_domain_init_attr *attr);
int tern_pd_alloc(struct tern_pd *pd, size_t size, size_t alignment,
		  enum tern_res_type type, void **addr);
void tern_pd_free(struct tern_pd *pd, void *addr, enum tern_res_type type);

/* mr.c: MR, MW */
struct ibv_mr *tern_reg_mr(struct ibv_pd *ibvpd, void *addr, size_t length,
			   uint64_t hca_va, int access);
int tern_rereg_mr(struct verbs_mr *vmr, int flags, struct ibv_pd *ibvpd,
		  void *addr, size_t length, int access);
struct ibv_mr *tern_reg_dmabuf_mr(struct ibv_pd *ibvpd, uint64_t offset,
				  size_t length, uint64_t iova, int fd,
				  int access);
int tern_advise_mr(struct ibv_pd *ibvpd, enum ibv_advise_mr_advice advice,
		   uint32_t flags, struct ibv_sge *sg_list, uint32_t num_sge);
struct ibv_mr *tern_alloc_null_mr(struct ibv_pd *ibvpd);
struct ibv_mr *tern_new_mr(struct verbs_mr *vmr, int err);
#if IBVERBS_PABI_VERSION >= 62
struct ibv_mr *tern_reg_mr_ex(struct ibv_pd *ibvpd,
			      struct ibv_mr_init_attr *attr);
#ifndef TERN_WITHOUT_DMAH
struct ibv_dmah *tern_alloc_dmah(struct ibv_context *ibvctx,
				 struct ibv_dmah_init_attr *attr);
int tern_dealloc_dmah(struct ibv_dmah *ibvdmah);
#endif
#endif
int tern_dereg_mr(struct verbs_mr *vmr);
#ifndef TERN_WITHOUT_IMPORT
struct ibv_mr *tern_import_mr(struct ibv_pd *ibvpd, uint32_t handle);
void tern_unimport_mr(struct ibv_mr *ibvmr);
#endif
struct ibv_mw *tern_alloc_mw(struct ibv_pd *ibvpd, enum ibv_mw_type type);
int tern_dealloc_mw(struct ibv_mw *ibvmw);

#ifndef TERN_WITHOUT_COMP_CNTR
/* comp_cntr.c */
#if IBVERBS_PABI_VERSION >= 65
struct ibv_comp_cntr *tern_create_comp_cntr(struct ibv_context *ibvctx,
					    struct ibv_comp_cntr_init_attr *attr);
int tern_query_comp_cntr_caps(struct ibv_context *ibvctx,
			      struct ibv_comp_cntr_caps *caps, size_t size);
int tern_qp_attach_comp_cntr(struct ibv_qp *ibvqp, struct ibv_comp_cntr *ibvcc,
			     struct ibv_qp_attach_comp_cntr_attr *attr);
int tern_destroy_comp_cntr(struct ibv_comp_cntr *ibvcc);
int tern_read_comp_cntr(struct ibv_comp_cntr *ibvcc, uint64_t *value);
int tern_read_err_comp_cntr(struct ibv_comp_cntr *ibvcc, uint64_t *value);
#endif

#endif
/* dm.c */
struct ibv_dm *tern_alloc_dm(struct ibv_context *ibvctx,
			     struct ibv_alloc_dm_attr *attr);
int tern_dm_export_dmabuf_fd(struct ibv_dm *ibvdm);
int tern_free_dm(struct ibv_dm *ibvdm);
#ifndef TERN_WITHOUT_IMPORT
struct ibv_dm *tern_import_dm(struct ibv_context *ibvctx, uint32_t handle);
void tern_unimport_dm(struct ibv_dm *ibvdm);
#endif
struct ibv_mr *tern_reg_dm_mr(struct ibv_pd *ibvpd, struct ibv_dm *ibvdm,
			      uint64_t offset, size_t length,
			      unsigned int access);

#ifndef TERN_WITHOUT_DV
/* dv.c */
void tern_dm_init_ops(struct tern_dm *dm);
void tern_dm_uninit_ops(struct tern_device *dev, struct tern_dm *dm);

#endif
/* cq.c */
struct ibv_cq *tern_create_cq(struct ibv_context *ibvctx, int cqe,
			      struct ibv_comp_channel *channel, int vector);
struct ibv_cq_ex *tern_create_cq_ex(struct ibv_context *ibvctx,
				    struct ibv_cq_init_attr_ex *attr);
int tern_destroy_cq(struct ibv_cq *ibvcq);
int tern_poll_cq(struct ibv_cq *ibvcq, int num_entries, struct ibv_wc *wc);
int tern_req_notify_cq(struct ibv_cq *ibvcq, int solicited_only);
void tern_cq_event(struct ibv_cq *ibvcq);
void tern_cq_purge_qp(struct tern_cq *cq, uint32_t qpn, uint32_t srqn);
void tern_cq_purge_srq(struct tern_cq *cq, uint32_t srqn);

/* cq_resize.c */
int tern_check_cq_attr(const struct tern_context *ctx,
		       const struct ibv_cq_init_attr_ex *attr);
bool tern_cq_single_threaded(const struct ibv_cq_init_attr_ex *attr);
int tern_cq_alloc_buf(struct ibv_context *ibvctx, struct tern_pd *pd,
		      struct tern_cq *cq, uint32_t cqe);
#ifndef TERN_WITHOUT_RESIZE
int tern_resize_cq(struct ibv_cq *ibvcq, int cqe);
#endif
int tern_modify_cq(struct ibv_cq *ibvcq, struct ibv_modify_cq_attr *attr);

/* opcodes.c */

/* Properties of a QP type. */
struct tern_qp_type {
	enum ibv_qp_type qp_type;
	uint32_t ops; /* BIT(IBV_WR_*); some need a device capability */
	uint32_t missing; /* BIT(IBV_WR_*) of the type that tern lacks */
	/* Size of the address or offloads in each send WQE, in bytes. */
	uint8_t prefix_size;
	bool ud; /* each send WQE contains an address */
	bool raw; /* Ethernet frames; each send WQE contains offloads */
	bool has_sq;
	bool has_rq; /* can receive, into its own queue or an SRQ */
	bool xrc; /* each send WQE contains an SRQ number */
};

extern const struct tern_qp_type tern_rss_qp_type;
extern const struct tern_qp_type tern_rwq_type;
const struct tern_qp_type *tern_qp_type_find(enum ibv_qp_type qp_type);
uint32_t tern_qp_type_ops(const struct tern_qp_type *type, uint32_t caps);
uint64_t tern_send_ops(uint32_t ops);
int tern_no_op_errno(const struct tern_qp_type *type, unsigned int opcode);
size_t tern_qp_type_data_offset(const struct tern_qp_type *type);
uint32_t tern_qp_type_send_flags(const struct tern_qp_type *type,
				 uint32_t caps);
size_t tern_qp_type_min_wqe(const struct tern_qp_type *type);

/* qp.c */
struct ibv_qp *tern_create_basic_qp(struct ibv_context *ibvctx,
				    struct ibv_qp_init_attr_ex *attr);
struct tern_qp *tern_qp_alloc(const struct tern_qp_type *type, uint32_t caps);
void tern_qp_free(struct tern_qp *qp);
void *tern_zalloc_aligned(size_t size);
void tern_qp_set_pd(struct tern_qp *qp, struct ibv_pd *ibvpd);
int tern_qp_alloc_memory(struct ibv_context *ibvctx, struct tern_qp *qp,
			 size_t bytes, enum tern_res_type type);
void tern_qp_free_memory(struct tern_context *ctx, struct tern_qp *qp);
int tern_qp_attach(struct tern_context *ctx, struct tern_qp *qp);
void tern_qp_forget(struct tern_context *ctx, struct tern_qp *qp);
void tern_qp_reset(struct tern_qp *qp);
struct ibv_qp *tern_open_qp(struct ibv_context *ibvctx,
			    struct ibv_qp_open_attr *attr);
int tern_modify_qp(struct ibv_qp *ibvqp, struct ibv_qp_attr *attr,
		   int attr_mask);
#ifndef TERN_WITHOUT_ECE
int tern_exec_modify_qp(struct ibv_qp *ibvqp, struct ibv_qp_attr *attr,
			int attr_mask, const struct tern_ureq_modify_qp *req);
#endif
int tern_query_qp(struct ibv_qp *ibvqp, struct ibv_qp_attr *attr,
		  int attr_mask, struct ibv_qp_init_attr *init_attr);
int tern_query_qp_data_in_order(struct ibv_qp *ibvqp, enum ibv_wr_opcode op,
				uint32_t flags);
int tern_destroy_qp(struct ibv_qp *ibvqp);

#ifndef TERN_WITHOUT_RATE
/* rate.c */
int tern_modify_qp_rate_limit(struct ibv_qp *ibvqp,
			      struct ibv_qp_rate_limit_attr *attr);
void tern_rate_query_device(const struct tern_context *ctx,
			    struct ibv_device_attr_ex *attr, size_t attr_size);

#endif
/* buf.c: queue layout */
void tern_wq_size(struct tern_wq *wq, uint32_t max_wr, size_t bytes,
		  uint32_t min_log_stride);
void tern_rq_size(struct tern_wq *wq, uint32_t max_wr, uint32_t max_sge,
		  uint32_t sge_limit);
size_t tern_wq_bytes(const struct tern_wq *wq);

/* srq.c */
struct ibv_srq *tern_create_srq(struct ibv_pd *ibvpd,
				struct ibv_srq_init_attr *attr);
struct ibv_srq *tern_create_srq_ex(struct ibv_context *ibvctx,
				   struct ibv_srq_init_attr_ex *attr);
int tern_modify_srq(struct ibv_srq *ibvsrq, struct ibv_srq_attr *attr,
		    int attr_mask);
int tern_query_srq(struct ibv_srq *ibvsrq, struct ibv_srq_attr *attr);
int tern_destroy_srq(struct ibv_srq *ibvsrq);
int tern_get_srq_num(struct ibv_srq *ibvsrq, uint32_t *srq_num);
int tern_post_srq_recv(struct ibv_srq *ibvsrq, struct ibv_recv_wr *wr,
		       struct ibv_recv_wr **bad_wr);

#ifndef TERN_WITHOUT_TM
/* tm.c */
bool tern_tm_cap_ok(const struct ibv_tm_cap *cap);
int tern_tm_alloc(struct ibv_context *ibvctx, struct tern_srq *srq,
		  const struct ibv_tm_cap *cap,
		  struct tern_ureq_create_srq *req);
void tern_tm_free(struct tern_srq *srq);
int tern_post_srq_ops(struct ibv_srq *ibvsrq, struct ibv_ops_wr *wr,
		      struct ibv_ops_wr **bad_wr);
enum ibv_wc_opcode tern_tm_wc_opcode(const struct tern_cqe *cqe);
unsigned int tern_tm_wc_flags(const struct tern_cqe *cqe);
void tern_read_tm_info(struct ibv_cq_ex *ibvcq, struct ibv_wc_tm_info *info);

#endif
/* post.c */
int tern_post_send(struct ibv_qp *ibvqp, struct ibv_send_wr *wr,
		   struct ibv_send_wr **bad_wr);
int tern_post_recv(struct ibv_qp *ibvqp, struct ibv_recv_wr *wr,
		   struct ibv_recv_wr **bad_wr);
int tern_bind_mw(struct ibv_qp *ibvqp, struct ibv_mw *mw,
		 struct ibv_mw_bind *bind);

/* raw.c */
int tern_check_raw_qp(const struct tern_context *ctx,
		      const struct tern_qp_type *type,
		      const struct ibv_qp_init_attr_ex *attr);
#ifndef TERN_WITHOUT_RAW
void tern_raw_query_device(const struct tern_context *ctx,
			   struct ibv_device_attr_ex *attr, size_t attr_size);
#endif
#ifndef TERN_WITHOUT_RSS
uint64_t tern_rx_hash_fields(const struct tern_context *ctx);
#endif

#ifndef TERN_WITHOUT_RSS
/* wq.c */
struct ibv_wq *tern_create_wq(struct ibv_context *ibvctx,
			      struct ibv_wq_init_attr *attr);
int tern_modify_wq(struct ibv_wq *ibvwq, struct ibv_wq_attr *attr);
int tern_destroy_wq(struct ibv_wq *ibvwq);
struct ibv_rwq_ind_table *
tern_create_rwq_ind_table(struct ibv_context *ibvctx,
			  struct ibv_rwq_ind_table_init_attr *attr);
int tern_destroy_rwq_ind_table(struct ibv_rwq_ind_table *table);
struct ibv_qp *tern_create_rss_qp(struct ibv_context *ibvctx,
				  struct ibv_qp_init_attr_ex *attr);

#endif
#ifndef TERN_WITHOUT_FLOW
/* flow.c */
struct ibv_flow *tern_create_flow(struct ibv_qp *ibvqp,
				  struct ibv_flow_attr *attr);
int tern_destroy_flow(struct ibv_flow *ibvflow);
struct ibv_counters *tern_create_counters(struct ibv_context *ibvctx,
					  struct ibv_counters_init_attr *attr);
int tern_destroy_counters(struct ibv_counters *ibvcounters);
int tern_attach_counters_point_flow(struct ibv_counters *ibvcounters,
				    struct ibv_counter_attach_attr *attr,
				    struct ibv_flow *ibvflow);
int tern_read_counters(struct ibv_counters *ibvcounters, uint64_t *values,
		       uint32_t num_values, uint32_t flags);

#endif
#ifndef TERN_WITHOUT_ECE
/* ece.c */
int tern_query_ece(struct ibv_qp *ibvqp, struct ibv_ece *ece);
int tern_set_ece(struct ibv_qp *ibvqp, struct ibv_ece *ece);

#endif
/* wr.c */
void tern_qp_fill_wr_pfns(struct tern_qp *qp, uint64_t send_ops);

#endif /* TERN_H */
