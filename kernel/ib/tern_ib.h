/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* tern_ib.ko internals: objects of the driver and interfaces of its files. */
#ifndef TERN_IB_H
#define TERN_IB_H

#include <linux/align.h>
#include <linux/atomic.h>
#include <linux/bits.h>
#include <linux/build_bug.h>
#include <linux/completion.h>
#include <linux/mm.h>
#include <linux/mutex.h>
#include <linux/notifier.h>
#include <linux/refcount.h>
#include <linux/spinlock.h>
#include <linux/workqueue.h>
#include <linux/xarray.h>

#include <rdma/ib_umem.h>
#include <rdma/ib_verbs.h>
#include <rdma/tern-abi.h>
#include <rdma/uverbs_ioctl.h>

#include "tern_regs.h"
#include "tern_io.h"
#include "tern_verbs.h"
#include "tern_eth.h"
#include "tern_core.h"
#include "tern_ib_kqueue.h"

#define TERN_IB_PORT		1

/* Capability bits of type 2 windows, and of all window types. */
#define TERN_CAPS_MW_2		(TERN_CAP_MW_TYPE_2A | TERN_CAP_MW_TYPE_2B)
#define TERN_CAPS_MW		(TERN_CAP_MW_TYPE_1 | TERN_CAPS_MW_2)

/* Reference count of an object that events look up. */
struct tern_ref {
	refcount_t count;	/* one for the object itself and one for each event being handled */
	struct completion idle;	/* completed when @count drops to 0 */
	u32 generation;	/* of the object's number, as in the object's events */
};

static inline void tern_ref_init(struct tern_ref *ref)
{
	refcount_set(&ref->count, 1);
	init_completion(&ref->idle);
}

static inline void tern_ref_get(struct tern_ref *ref)
{
	refcount_inc(&ref->count);
}

static inline void tern_ref_put(struct tern_ref *ref)
{
	if (refcount_dec_and_test(&ref->count))
		complete(&ref->idle);
}

/* Drops the object's own reference and waits until no event uses the object. */
static inline void tern_ref_drain(struct tern_ref *ref)
{
	tern_ref_put(ref);
	wait_for_completion(&ref->idle);
}

/* A completion event queue, with up to tern_ib_dev.cqs_per_eq CQs. */
struct tern_ib_eq {
	struct tern_eq *eq;
	atomic_t num_cqs;
};

/* RDMA device. */
struct tern_ib_dev {
	struct ib_device ibdev;
	struct tern_core *core;	/* the PCI function, owned by the network driver */
	struct notifier_block event_nb;	/* receives asynchronous events */
	/*
	 * CQs by number, for events: the struct tern_ref of each; this lock and those of the
	 * following are taken with interrupts disabled.
	 */
	struct xarray cqs;
	struct xarray qps;	/* QPs by number, for events */
	struct xarray srqs;	/* SRQs by number, for events */
	struct tern_ib_eq *eqs;	/* completion EQs, one per completion vector */
	unsigned int num_eqs;	/* number of @eqs */
	/* Number of CQs that an EQ may have; together the EQs have max_cq. */
	unsigned int cqs_per_eq;
	/* Completes kernel work requests when the device no longer does. */
	struct work_struct flush_work;
#ifndef TERN_WITHOUT_ODP
	struct xarray odps;	/* on-demand regions by index of their key */
	/* Event queue of page faults, NULL without on-demand paging. */
	struct tern_eq *fault_eq;
	struct work_struct fault_work;	/* takes faults from @fault_eq */
	struct workqueue_struct *fault_wq;	/* runs @fault_work and releases parts of regions */
	struct mutex fault_lock;	/* protects @queued_faults and the requests of all pagers */
	struct xarray queued_faults;	/* faults that no thread has taken, by QP and side */
#endif
#ifndef TERN_WITHOUT_RSS
	struct xarray rwqs;	/* work queues by number, for events */
	atomic_t num_rss;	/* number of RSS QPs */
#endif
#ifndef TERN_WITHOUT_SPEED
	u32 speed;	/* of the link in Mbit/s as of the last event, 0 without a link */
#endif
#ifndef TERN_WITHOUT_COUNTERS
	/*
	 * Value of the device's counter when the optional counter was enabled; under the lock
	 * of ib_core's statistics.
	 */
	u64 optional_base[7];
#endif
};

/* Contents of a mapping, returned to the device after the last unmap. */
enum tern_mmap_type {
	TERN_MMAP_UAR,
	TERN_MMAP_DM,
#ifndef TERN_WITHOUT_DV
	TERN_MMAP_DM_OP,
#endif
#ifndef TERN_WITHOUT_CLOCK
	TERN_MMAP_CLOCK,
#endif
};

/* Pages that user space may map. */
struct tern_mmap_entry {
	struct rdma_user_mmap_entry rdma_entry;
	phys_addr_t address;	/* bus address of the first page */
	enum tern_mmap_type type;	/* contents of the pages */
	u32 id;	/* the device's number for the pages */
#ifndef TERN_WITHOUT_DV
	/* TERN_MMAP_DM_OP: entry of the device memory, on which it holds a reference. */
	struct rdma_user_mmap_entry *memory;
#endif
};

/* User context. */
struct tern_ucontext {
	struct ib_ucontext ibucontext;
	struct tern_mmap_entry *uar_entry;	/* the doorbell page */
	struct mutex record_lock;	/* protects @record_pages and their reference counts */
	struct list_head record_pages;	/* pinned pages that hold doorbell records */
#ifndef TERN_WITHOUT_ODP
	/* Serves page faults of its regions, NULL without on-demand paging. */
	struct tern_pager *pager;
#endif
#ifndef TERN_WITHOUT_DV
	atomic_t num_dm_ops;	/* number of operation pages */
#endif
#ifndef TERN_WITHOUT_CLOCK
	struct tern_mmap_entry *clock_entry;	/* the clock page, NULL if there is none */
#endif
};

#ifndef TERN_WITHOUT_ODP
struct tern_odp;
struct tern_pager;
#endif
struct tern_record_page;

/* Doorbell record of a user queue. The page is NULL if there is none. */
struct tern_record {
	struct tern_record_page *page;
	dma_addr_t dma;
};

/* Memory of a user queue: the pinned ring, NULL for a kernel queue, and the record. */
struct tern_uqueue {
	struct ib_umem *umem;
	struct tern_record record;
};

/* Protection domain. TERN_LKEY_DMA is valid in a privileged one, which is the kernel's. */
struct tern_pd {
	struct ib_pd ibpd;
	u32 pdn;
	bool privileged;
};

/* Memory region. */
struct tern_mr {
	struct ib_mr ibmr;	/* the MR in ib_core; lkey and rkey are the device's key */
	struct ib_umem *umem;	/* the pinned memory, or NULL */
	/* The registered device memory, on which the region holds a reference, or NULL. */
	struct rdma_user_mmap_entry *dm_entry;
	/* Page with the list for REG_MR, used only for IB_MR_TYPE_MEM_REG. */
	struct tern_kpage page_list;
	int access;	/* IB_ACCESS_* flags */
	unsigned int page_shift;	/* log2 of the page size in the device */
	u32 num_pages;	/* number of pages */
	u32 max_pages;	/* maximum number of entries in @page_list */
	u32 first_offset;	/* with @page_list, offset of the first byte in the first page */
	bool dma;	/* it stands for TERN_LKEY_DMA, and is no object of the device */
#ifndef TERN_WITHOUT_ODP
	struct tern_odp *odp;	/* memory whose pages may be absent, or NULL */
#endif
};

/* Memory window, with its key as allocated: binding changes the variant. */
struct tern_mw {
	struct ib_mw ibmw;
	u32 key;
};

/* Device memory. */
struct tern_dm {
	struct ib_dm ibdm;
	/* Mmap entry of its pages, which owns the device's allocation. */
	struct tern_mmap_entry *entry;
#ifndef TERN_WITHOUT_DV
	struct mutex ops_lock;	/* serializes changes of @ops */
	struct xarray ops;	/* mmap entries of its operation pages */
#endif
};

/* Completion queue. */
struct tern_cq {
	struct ib_cq ibcq;
	struct tern_uqueue queue;	/* memory of a user CQ */
	struct tern_kcq kern;	/* ring and record of a kernel CQ */
	struct tern_ref ref;	/* held by completion events */
	struct tern_ib_eq *eq;	/* EQ for its completion events */
	u32 cqn;	/* CQ number */
#ifndef TERN_WITHOUT_RESIZE
	struct mutex resize_lock;	/* serializes resizes; protects the ring in @queue */
#endif
};

/* Shared receive queue. */
struct tern_srq {
	struct ib_srq ibsrq;
	struct tern_uqueue queue;	/* memory of a user SRQ */
	struct tern_ref ref;	/* held by asynchronous events */
	u32 srqn;	/* SRQ number */
	u32 max_wr;	/* number of slots */
	u32 max_sge;	/* maximum number of SGEs per WQE */
	u8 log_stride;	/* log2 of the slot size in bytes */
#ifndef TERN_WITHOUT_RESIZE
	/* Serializes resizes; protects the ring in @queue and @max_wr. */
	struct mutex modify_lock;
#endif
#ifndef TERN_WITHOUT_KSRQ
	struct tern_kbuf kbuf;	/* ring and record of a kernel SRQ */
	/* protects @pi, @free, the ring and the requests in @kbuf; inner to tern_kcq.lock */
	spinlock_t post_lock;		/* kernel posters */
	struct tern_srq_record *record;	/* doorbell record in @kbuf */
	u32 pi;	/* number of WQEs posted to @kbuf */
	/* First entry of the requests in @kbuf without a request, @max_wr if there is none. */
	u32 free;
#endif
#ifndef TERN_WITHOUT_TM
	struct ib_umem *ops_umem;	/* ring of operations on tags, NULL without tag matching */
#endif
};
#ifndef TERN_WITHOUT_XRC

struct tern_xrcd {
	struct ib_xrcd ibxrcd;
	u32 xrcdn;
};
#endif

/* Queue pair. */
struct tern_qp {
	struct ib_qp ibqp;	/* the QP in ib_core; qp_num is the device's number */
	struct tern_uqueue queue;	/* memory of the queues of a user QP */
	struct tern_kqp kern;	/* queues and record of a kernel QP */
	struct tern_ref ref;	/* held by asynchronous events */
	/* serializes state changes; protects @state and @dest_qpn */
	struct mutex lock;	/* serializes state changes */
	/* Last state commanded or queried; the device may have moved to an error state since. */
	enum ib_qp_state state;
	u32 dest_qpn;	/* QP number of the peer */
	struct ib_qp_cap cap;	/* actual queue capacities */
	enum ib_sig_type sq_sig_type;	/* which send requests generate a completion */
#ifndef TERN_WITHOUT_RSS
	u32 rssn;	/* the RSS group of an RSS QP, which has none of the above */
#endif
#ifndef TERN_WITHOUT_APM
	/* GID of a former alternate path that the QP may use, or NULL. */
	const struct ib_gid_attr *path_sgid;
	const struct ib_gid_attr *alt_sgid;	/* GID of the alternate path, or NULL */
#endif
};

/* Address handle: the vector for UD send WQEs. */
struct tern_ah {
	struct ib_ah ibah;
	struct tern_av av;
};

static inline struct tern_ib_dev *to_tdev(struct ib_device *ibdev)
{
	return container_of(ibdev, struct tern_ib_dev, ibdev);
}

static inline struct tern_ucontext *to_tucontext(struct ib_ucontext *ibucontext)
{
	return container_of(ibucontext, struct tern_ucontext, ibucontext);
}

static inline struct tern_mmap_entry *
to_tmmap(struct rdma_user_mmap_entry *rdma_entry)
{
	return container_of(rdma_entry, struct tern_mmap_entry, rdma_entry);
}

static inline struct tern_pd *to_tpd(struct ib_pd *ibpd)
{
	return container_of(ibpd, struct tern_pd, ibpd);
}

static inline struct tern_mr *to_tmr(struct ib_mr *ibmr)
{
	return container_of(ibmr, struct tern_mr, ibmr);
}

static inline struct tern_mw *to_tmw(struct ib_mw *ibmw)
{
	return container_of(ibmw, struct tern_mw, ibmw);
}

static inline struct tern_dm *to_tdm(struct ib_dm *ibdm)
{
	return container_of(ibdm, struct tern_dm, ibdm);
}

static inline struct tern_cq *to_tcq(struct ib_cq *ibcq)
{
	return container_of(ibcq, struct tern_cq, ibcq);
}

static inline struct tern_qp *to_tqp(struct ib_qp *ibqp)
{
	return container_of(ibqp, struct tern_qp, ibqp);
}

static inline struct tern_srq *to_tsrq(struct ib_srq *ibsrq)
{
	return container_of(ibsrq, struct tern_srq, ibsrq);
}

#ifndef TERN_WITHOUT_XRC
static inline struct tern_xrcd *to_txrcd(struct ib_xrcd *ibxrcd)
{
	return container_of(ibxrcd, struct tern_xrcd, ibxrcd);
}

#endif
static inline struct tern_ah *to_tah(struct ib_ah *ibah)
{
	return container_of(ibah, struct tern_ah, ibah);
}

/* Whether the device has any of the capabilities in @cap. */
static inline bool tern_has_cap(const struct tern_ib_dev *dev, u64 cap)
{
	return le64_to_cpu(dev->core->caps->flags) & cap;
}

/*
 * Tells whoever has enabled dynamic debug why a request of a user is refused.
 * Evaluates to @err.
 */
#define tern_refuse(dev, err, format, ...) \
	({ ibdev_dbg(&(dev)->ibdev, format "\n", ##__VA_ARGS__); (err); })

/* tern_ib_ref.c */
int tern_ref_publish(struct xarray *objects, u32 id, struct tern_ref *ref);
void tern_ref_unpublish(struct xarray *objects, u32 id, struct tern_ref *ref);
struct tern_ref *tern_ref_lookup(struct xarray *objects, u32 id, u32 generation);

/* tern_ib_cmd.c */
u32 tern_mr_access(int access);
u32 tern_qp_access(int flags);
int tern_qp_access_flags(u32 access);
int tern_ib_create_gen(struct tern_ib_dev *dev, u16 opcode, const void *cmd,
		       size_t len, u32 *id, u32 *generation);
int tern_ib_create(struct tern_ib_dev *dev, u16 opcode, const void *cmd,
		   size_t len, u32 *id);
int tern_ib_create_mr(struct tern_ib_dev *dev,
		      const struct tern_cmd_create_mr *cmd, u32 *key);
int tern_ib_destroy(struct tern_ib_dev *dev, u16 opcode, u32 id);
int tern_ib_query(struct tern_ib_dev *dev, u16 opcode, u32 id, void *out,
		  size_t out_len);
void tern_ib_umem_done(struct tern_ib_dev *dev, struct ib_umem *umem, int err);

/* tern_ib_page_list.c */

/* 4096 bytes of a page list. @dma is DMA_MAPPING_ERROR while it is not mapped. */
struct tern_chunk {
	__le64 *entry;
	dma_addr_t dma;
};

/* Page list that the device reads while it executes a command. */
struct tern_table {
	struct device *dma_dev;	/* device that reads the list */
	struct tern_chunk root;	/* addresses of the chunks, used if there is more than one */
	struct tern_chunk *chunks;	/* chunks with the entries */
	unsigned int num_chunks;	/* number of chunks */
	u32 num;	/* number of entries added so far */
	u32 max;	/* capacity in entries */
};

/* Maximum capacity of a table, whatever the device can read: 2 MiB. */
#define TERN_TABLE_MAX		(TERN_PAGES_CHUNK * TERN_PAGES_CHUNK)

u32 tern_table_limit(const struct tern_rsp_caps *caps);
int tern_table_init(struct tern_table *table, struct device *dma_dev, u32 max);
void tern_table_free(struct tern_table *table);
bool tern_table_add(struct tern_table *table, dma_addr_t page);
int tern_table_map(struct tern_table *table, unsigned int page_shift,
		   struct tern_pages *pages);
void tern_table_reset(struct tern_table *table);
int tern_table_from_umem(struct tern_ib_dev *dev, struct tern_table *table,
			 struct ib_umem *umem, unsigned long pgsz,
			 struct tern_pages *pages);
int tern_table_from_queue(struct tern_ib_dev *dev, struct tern_table *table,
			  struct ib_umem *umem, struct tern_pages *pages);
int tern_table_from_kbuf(struct tern_ib_dev *dev, struct tern_table *table,
			 const struct tern_kbuf *kbuf,
			 struct tern_pages *pages);

/* tern_ib_record.c */
int tern_record_get(struct tern_ucontext *ucontext, struct tern_record *record,
		    u64 addr, size_t size);
void tern_record_put(struct tern_record *record);
void tern_record_done(struct tern_record *record, int err);
void tern_records_init(struct tern_ucontext *ucontext);
int tern_uqueue_get(struct tern_ucontext *ucontext, struct tern_uqueue *queue,
		    struct ib_umem *umem, u64 record_addr, size_t record_size);
void tern_uqueue_put(struct tern_uqueue *queue);
void tern_uqueue_done(struct tern_ib_dev *dev, struct tern_uqueue *queue,
		      int err);
struct ib_umem *tern_record_umem(struct tern_ucontext *ucontext,
				 unsigned long addr);

/* tern_ib_dev.c */
int tern_add_gid(const struct ib_gid_attr *attr, void **context);
int tern_del_gid(const struct ib_gid_attr *attr, void **context);
void tern_get_dev_fw_str(struct ib_device *ibdev, char *str);
enum rdma_link_layer tern_get_link_layer(struct ib_device *ibdev, u32 port);
int tern_get_numa_node(struct ib_device *ibdev);
int tern_get_port_immutable(struct ib_device *ibdev, u32 port,
			    struct ib_port_immutable *immutable);
int tern_query_device(struct ib_device *ibdev, struct ib_device_attr *attr,
		      struct ib_udata *udata);
int tern_query_pkey(struct ib_device *ibdev, u32 port, u16 index, u16 *pkey);
int tern_query_port(struct ib_device *ibdev, u32 port,
		    struct ib_port_attr *attr);

#ifndef TERN_WITHOUT_SPEED
/* tern_ib_speed.c */
bool tern_ib_update_speed(struct tern_ib_dev *dev);
void tern_ib_port_changed(struct tern_ib_dev *dev);
int tern_query_port_speed(struct ib_device *ibdev, u32 port, u64 *speed);

#endif
/* tern_ib_ucontext.c */
int tern_alloc_pd(struct ib_pd *ibpd, struct ib_udata *udata);
int tern_alloc_ucontext(struct ib_ucontext *ibucontext, struct ib_udata *udata);
int tern_dealloc_pd(struct ib_pd *ibpd, struct ib_udata *udata);
void tern_dealloc_ucontext(struct ib_ucontext *ibucontext);
void tern_disassociate_ucontext(struct ib_ucontext *ibucontext);
#ifndef TERN_WITHOUT_IMPORT
int tern_query_ucontext(struct ib_ucontext *ibucontext,
			struct uverbs_attr_bundle *attrs);
extern const struct uapi_definition tern_ctx_defs[];
#endif
#ifndef TERN_WITHOUT_DMAH

/* tern_ib_dmah.c */
extern const struct ib_device_ops tern_dmah_ops;
#endif

/* tern_ib_mmap.c */
int tern_mmap(struct ib_ucontext *ibucontext, struct vm_area_struct *vma);
struct tern_mmap_entry *tern_mmap_add(struct ib_ucontext *ibucontext,
				      enum tern_mmap_type type, u32 id,
				      phys_addr_t address, size_t size);
struct tern_mmap_entry *tern_mmap_add_uar(struct ib_ucontext *ibucontext,
					  enum tern_mmap_type type, u32 uar);
void tern_mmap_free(struct rdma_user_mmap_entry *rdma_entry);

/* tern_ib_dm.c */
struct ib_dm *tern_alloc_dm(struct ib_device *ibdev,
			    struct ib_ucontext *ibucontext,
			    struct ib_dm_alloc_attr *attr,
			    struct uverbs_attr_bundle *attrs);
int tern_dealloc_dm(struct ib_dm *ibdm, struct uverbs_attr_bundle *attrs);
extern const struct uapi_definition tern_dm_defs[];

#ifndef TERN_WITHOUT_DMABUF
/* tern_ib_dm_export.c */
int tern_dm_export_init(struct tern_ib_dev *dev);
int tern_mmap_get_pfns(struct rdma_user_mmap_entry *rdma_entry,
		       struct phys_vec *vec, struct p2pdma_provider **provider);
struct rdma_user_mmap_entry *
tern_pgoff_to_mmap_entry(struct ib_ucontext *ibucontext, off_t offset);

#endif
#ifndef TERN_WITHOUT_COMP_CNTR
/* tern_ib_comp_cntr.c */
extern const struct ib_device_ops tern_comp_cntr_ops;
extern const struct uapi_definition tern_comp_cntr_defs[];

#endif
#ifndef TERN_WITHOUT_QP_COUNTERS
/* tern_ib_qp_counters.c */
extern const struct ib_device_ops tern_qp_counter_ops;

#endif
/* tern_ib_mr.c */
extern const struct ib_device_ops tern_mw_ops;
int tern_dereg_mr(struct ib_mr *ibmr, struct ib_udata *udata);
struct ib_mr *tern_get_dma_mr(struct ib_pd *ibpd, int access);
struct ib_mr *tern_reg_dm_mr(struct ib_pd *ibpd, struct ib_dm *ibdm,
			     struct ib_dm_mr_attr *attr,
			     struct uverbs_attr_bundle *attrs);
struct ib_mr *tern_reg_user_mr(struct ib_pd *ibpd, u64 start, u64 length,
			       u64 virt, int access, struct ib_dmah *dmah,
			       struct ib_udata *udata);
#ifndef TERN_WITHOUT_DMABUF
struct ib_mr *tern_reg_user_mr_dmabuf(struct ib_pd *ibpd, u64 offset,
				      u64 length, u64 virt, int fd, int access,
				      struct ib_dmah *dmah,
				      struct uverbs_attr_bundle *attrs);
#endif
#ifndef TERN_WITHOUT_REREG
extern const struct ib_device_ops tern_rereg_ops;
#endif

#ifndef TERN_WITHOUT_ODP
/* Whether regions may be registered on demand. */
static inline bool tern_has_odp(const struct tern_ib_dev *dev)
{
	return IS_ENABLED(CONFIG_INFINIBAND_ON_DEMAND_PAGING) &&
	       tern_has_cap(dev, TERN_CAP_ODP);
}

/* tern_ib_odp.c, tern_ib_fault.c, tern_ib_pager.c */
#ifdef CONFIG_INFINIBAND_ON_DEMAND_PAGING
void tern_fill_odp(const struct tern_ib_dev *dev, struct ib_device_attr *attr);
struct ib_mr *tern_reg_odp_mr(struct ib_pd *ibpd, u64 start, u64 length,
			      u64 virt, int access);
int tern_fill_stat_mr_entry(struct sk_buff *msg, struct ib_mr *ibmr);
int tern_advise_mr(struct ib_pd *ibpd, enum ib_uverbs_advise_mr_advice advice,
		   u32 flags, struct ib_sge *sg, u32 num_sge,
		   struct uverbs_attr_bundle *attrs);
int tern_faults_init(struct tern_ib_dev *dev);
void tern_faults_free(struct tern_ib_dev *dev);
void tern_fault_forget_qp(struct tern_ib_dev *dev, u32 qpn);
struct tern_pager *tern_pager_alloc(struct tern_ib_dev *dev);
void tern_pager_close(struct tern_pager *pager);
int tern_odp_destroy(struct tern_mr *mr);
void tern_odp_set_access(struct tern_odp *odp, struct ib_pd *ibpd, int access);
#ifndef TERN_WITHOUT_DMABUF
bool tern_odp_is_dmabuf(const struct tern_odp *odp);

/* tern_ib_dmabuf.c */
struct ib_mr *tern_reg_odp_dmabuf(struct ib_pd *ibpd, u64 offset, u64 length,
				  u64 virt, int fd, int access);
#endif
#else
/* tern_has_odp() is false, and no region has on-demand memory. */
static inline void tern_fill_odp(const struct tern_ib_dev *dev,
				 struct ib_device_attr *attr)
{
}

static inline struct ib_mr *tern_reg_odp_mr(struct ib_pd *ibpd, u64 start,
					    u64 length, u64 virt, int access)
{
	return ERR_PTR(-EOPNOTSUPP);
}

static inline int tern_faults_init(struct tern_ib_dev *dev)
{
	return 0;
}

static inline void tern_faults_free(struct tern_ib_dev *dev) {}
static inline void tern_fault_forget_qp(struct tern_ib_dev *dev, u32 qpn) {}

static inline struct tern_pager *tern_pager_alloc(struct tern_ib_dev *dev)
{
	return NULL;
}

static inline void tern_pager_close(struct tern_pager *pager) {}

static inline int tern_odp_destroy(struct tern_mr *mr)
{
	return 0;
}

static inline void tern_odp_set_access(struct tern_odp *odp, struct ib_pd *ibpd,
				       int access)
{
}
#ifndef TERN_WITHOUT_DMABUF

static inline bool tern_odp_is_dmabuf(const struct tern_odp *odp)
{
	return false;
}

static inline struct ib_mr *tern_reg_odp_dmabuf(struct ib_pd *ibpd, u64 offset,
						u64 length, u64 virt, int fd,
						int access)
{
	return ERR_PTR(-EOPNOTSUPP);
}
#endif
#endif
/* Used only where tern_has_odp() may be true. */
extern const struct ib_device_ops tern_dev_odp_ops;

#endif
/* tern_ib_cq.c */
int tern_create_cq(struct ib_cq *ibcq, const struct ib_cq_init_attr *attr,
		   struct uverbs_attr_bundle *attrs);
int tern_create_user_cq(struct ib_cq *ibcq, const struct ib_cq_init_attr *attr,
			struct uverbs_attr_bundle *attrs);
int tern_destroy_cq(struct ib_cq *ibcq, struct ib_udata *udata);
#ifndef TERN_WITHOUT_MODERATE
extern const struct ib_device_ops tern_moderate_ops;
#endif
#ifndef TERN_WITHOUT_RESIZE
int tern_resize_user_cq(struct ib_cq *ibcq, unsigned int cqe,
			struct ib_udata *udata);
#endif
int tern_ib_create_eqs(struct tern_ib_dev *dev);
void tern_ib_destroy_eqs(struct tern_ib_dev *dev);
void tern_cq_event(struct tern_ib_dev *dev, u32 cqn, u32 generation,
		   enum ib_event_type event);
void tern_completion_event(void *context, const struct tern_eqe *eqe);

/* tern_ib_qp.c */
extern const struct ib_device_ops tern_mcast_ops;
int tern_create_qp(struct ib_qp *ibqp, struct ib_qp_init_attr *attr,
		   struct ib_udata *udata);
int tern_destroy_qp(struct ib_qp *ibqp, struct ib_udata *udata);
int tern_modify_qp(struct ib_qp *ibqp, struct ib_qp_attr *attr, int mask,
		   struct ib_udata *udata);
int tern_query_qp(struct ib_qp *ibqp, struct ib_qp_attr *attr, int mask,
		  struct ib_qp_init_attr *init_attr);
void tern_qp_event(struct tern_ib_dev *dev, u32 qpn, u32 generation,
		   enum ib_event_type event);

/* tern_ib_srq.c */
int tern_create_srq(struct ib_srq *ibsrq, struct ib_srq_init_attr *attr,
		    struct ib_udata *udata);
int tern_destroy_srq(struct ib_srq *ibsrq, struct ib_udata *udata);
int tern_modify_srq(struct ib_srq *ibsrq, struct ib_srq_attr *attr,
		    enum ib_srq_attr_mask mask, struct ib_udata *udata);
int tern_query_srq(struct ib_srq *ibsrq, struct ib_srq_attr *attr);
void tern_srq_event(struct tern_ib_dev *dev, u32 srqn, u32 generation,
		    enum ib_event_type event);
#ifndef TERN_WITHOUT_KSRQ

/* tern_ib_ksrq.c */
int tern_ksrq_init(struct tern_ib_dev *dev, struct tern_srq *srq,
		   const struct ib_srq_attr *attr);
int tern_post_srq_recv(struct ib_srq *ibsrq, const struct ib_recv_wr *wr,
		       const struct ib_recv_wr **bad_wr);
bool tern_srq_take_posted(struct tern_srq *srq, const struct tern_cqe *cqe,
			  struct tern_posted *posted);
#endif
#ifndef TERN_WITHOUT_TM

/* tern_ib_tm.c */
bool tern_has_tm(const struct tern_ib_dev *dev);
void tern_fill_tm(const struct tern_ib_dev *dev, struct ib_device_attr *attr);
int tern_check_tm(const struct tern_ib_dev *dev,
		  const struct ib_srq_init_attr *attr);
bool tern_tm_ring_ok(const struct tern_ureq_create_srq *req, bool tags);
int tern_tm_get_ops(struct tern_ib_dev *dev, struct tern_srq *srq,
		    const struct ib_srq_init_attr *attr,
		    const struct tern_ureq_create_srq *req, u32 uar,
		    struct tern_cmd_create_srq *cmd, struct tern_table *table);
void tern_tm_put_ops(struct tern_srq *srq, struct tern_table *table, int err);
#endif
#ifndef TERN_WITHOUT_XRC

/* tern_ib_xrc.c */
extern const struct ib_device_ops tern_xrc_ops;
#endif

/* tern_ib_ah.c */
extern const struct ib_device_ops tern_ah_ops;
int tern_av_from_attr(const struct tern_ib_dev *dev, struct tern_av *av,
		      const struct rdma_ah_attr *attr, u16 udp_sport);
void tern_av_to_attr(const struct tern_av *av, struct rdma_ah_attr *attr);

#ifndef TERN_WITHOUT_COUNTERS
/* tern_ib_counters.c */
struct rdma_hw_stats *tern_alloc_hw_port_stats(struct ib_device *ibdev,
					       u32 port);
int tern_port_counters(struct tern_ib_dev *dev, u32 port, u64 *values);
int tern_get_hw_stats(struct ib_device *ibdev, struct rdma_hw_stats *stats,
		      u32 port, int index);
int tern_modify_hw_stat(struct ib_device *ibdev, u32 port, unsigned int index,
			bool enable);

#endif
#ifndef TERN_WITHOUT_MAD
/* tern_ib_mad.c */
int tern_process_mad(struct ib_device *ibdev, int flags, u32 port,
		     const struct ib_wc *in_wc, const struct ib_grh *in_grh,
		     const struct ib_mad *in, struct ib_mad *out,
		     size_t *out_size, u16 *pkey_index);

#endif
#ifndef TERN_WITHOUT_RESTRACK
/* tern_ib_restrack.c */
int tern_fill_res_cq_entry(struct sk_buff *msg, struct ib_cq *ibcq);
int tern_fill_res_mr_entry(struct sk_buff *msg, struct ib_mr *ibmr);
int tern_fill_res_qp_entry(struct sk_buff *msg, struct ib_qp *ibqp);
int tern_fill_res_srq_entry(struct sk_buff *msg, struct ib_srq *ibsrq);
int tern_fill_res_cq_entry_raw(struct sk_buff *msg, struct ib_cq *ibcq);
int tern_fill_res_mr_entry_raw(struct sk_buff *msg, struct ib_mr *ibmr);
int tern_fill_res_qp_entry_raw(struct sk_buff *msg, struct ib_qp *ibqp);
int tern_fill_res_srq_entry_raw(struct sk_buff *msg, struct ib_srq *ibsrq);

#endif
#endif /* TERN_IB_H */
