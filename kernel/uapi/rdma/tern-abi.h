/* SPDX-License-Identifier: ((GPL-2.0 WITH Linux-syscall-note) OR BSD-2-Clause) */
/*
 * tern: the ABI between the RDMA driver and its rdma-core provider. The hardware
 * contract (tern_io.h), not this file, defines the entries of the queues.
 */
#ifndef TERN_ABI_USER_H
#define TERN_ABI_USER_H

#include <linux/types.h>
#include <rdma/ib_user_ioctl_cmds.h>

#define TERN_UVERBS_ABI_VERSION 1

/* Every field is aligned to its size; reserved fields only pad to 8 bytes and are zero. */

enum {
	TERN_UCTX_CAP_ATOMIC_WRITE = 1 << 0,
	TERN_UCTX_CAP_FLUSH = 1 << 1,
	TERN_UCTX_CAP_MW = 1 << 2,
	TERN_UCTX_CAP_MW_2A = 1 << 3,		/* type 2 is 2A, else 2B */
	TERN_UCTX_CAP_TIMESTAMP = 1 << 4,
	TERN_UCTX_CAP_SEND_INV = 1 << 5,	/* SEND_WITH_INV: peers may invalidate */
	TERN_UCTX_CAP_UD_NO_LOOPBACK = 1 << 6,	/* of a UD QP's own multicasts */
#ifndef TERN_WITHOUT_RAW
	TERN_UCTX_CAP_RAW_OFFLOAD = 1 << 7,	/* raw packet QPs: checksums, TSO, VLANs, FCS */
#endif
#ifndef TERN_WITHOUT_RSS
	TERN_UCTX_CAP_RSS = 1 << 8,		/* RSS QPs */
	TERN_UCTX_CAP_RSS_TUNNEL = 1 << 9,	/* TERN_RX_HASH_IPSEC_SPI and INNER */
#endif
#ifndef TERN_WITHOUT_TM
	TERN_UCTX_CAP_TM = 1 << 10,		/* SRQs with tag matching */
#endif
#ifndef TERN_WITHOUT_ECE
	TERN_UCTX_CAP_ECE = 1 << 11,		/* options of a connection */
#endif
#ifndef TERN_WITHOUT_RATE
	TERN_UCTX_CAP_RATE_LIMIT = 1 << 12,	/* IB_QP_RATE_LIMIT, struct tern_ureq_modify_qp */
#endif
#ifndef TERN_WITHOUT_DV
	TERN_UCTX_CAP_DM_OPS = 1 << 13,		/* operation pages of device memory */
	TERN_UCTX_CAP_UDP_SPORT = 1 << 14,	/* UDP source ports of QPs */
#endif
};

struct tern_uresp_alloc_ucontext {
	__aligned_u64 uar_offset;	/* mmap offset of the doorbell page */
	__u32 uar_size;			/* bytes to map */
	__u32 caps;			/* TERN_UCTX_CAP_* */
	__u32 max_send_wr;
	__u32 max_recv_wr;
	__u32 max_srq_wr;
	__u32 max_cqe;
	__u16 max_send_sge;
	__u16 max_recv_sge;
	__u32 max_inline_data;
#ifndef TERN_WITHOUT_RATE
	__u32 max_rate;			/* largest rate limit of a QP, kbit/s */
	__u8 reserved_160[4];
#endif
#ifndef TERN_WITHOUT_CLOCK
	__aligned_u64 clock_offset;	/* mmap offset of struct ib_uverbs_clock_info; 0: none */
#endif
};

/*
 * Buffers are page-aligned memory of the provider that holds only entries: the
 * kernel pins each buffer for the access that the device makes. Doorbell records
 * are in other pages of the provider, many to a page, each aligned to its size; the
 * kernel pins such a page once for all its records.
 */
struct tern_ureq_create_cq {
	__aligned_u64 buf_addr;		/* written by the device */
	__aligned_u64 buf_len;
	__aligned_u64 record_addr;	/* struct tern_cq_record */
	__u32 log_size;			/* log2 of CQEs */
	__u8 reserved_e0[4];
};

struct tern_uresp_create_cq {
	__u32 cqn;			/* queue number for the doorbell */
	__u8 reserved_20[4];
};

#ifndef TERN_WITHOUT_RESIZE
struct tern_ureq_resize_cq {
	__aligned_u64 buf_addr;
	__aligned_u64 buf_len;
	__u32 log_size;
	__u8 reserved_a0[4];
};

struct tern_uresp_resize_cq {
	__u32 first_index;		/* of the first CQE in the new buffer */
	__u8 reserved_20[4];
};

#endif
/* The send queue begins at offset 0, the receive queue follows it. */
struct tern_ureq_create_qp {
	__aligned_u64 buf_addr;		/* read by the device */
	__aligned_u64 buf_len;
	__aligned_u64 record_addr;	/* struct tern_qp_record */
	__u8 log_sq_size;		/* log2 of WQEs; ignored without a send queue */
	__u8 log_sq_stride;		/* log2 of bytes */
	__u8 log_rq_size;		/* ignored without a receive queue */
	__u8 log_rq_stride;
	__u8 reserved_e0[4];
};

#ifndef TERN_WITHOUT_APM
enum {
	TERN_MODIFY_QP_ALT_PATH = 1 << 0,	/* instead of IB_QP_ALT_PATH in the mask */
};

/* The alternate path of ibv_modify_qp(3): an address, and the attributes that go with it. */
struct tern_ureq_alt_path {
	__u8 dgid[16];
	__u32 flow_label;
	__u16 pkey_index;
	__u8 sgid_index;
	__u8 hop_limit;
	__u8 traffic_class;
	__u8 sl;
	__u8 static_rate;
	__u8 port;
	__u8 timeout;
	__u8 reserved_e8[3];
};

#endif
#ifndef TERN_WITHOUT_ECE
/* Optional: without it, all of it is zero. */
struct tern_ureq_modify_qp {
	__u32 ece_options;		/* with RTR: those of the device that both ends accept */
	__u8 reserved_20[4];
#ifndef TERN_WITHOUT_RATE
	__u32 max_burst;		/* with IB_QP_RATE_LIMIT: bytes */
	__u16 typical_packet;		/* with IB_QP_RATE_LIMIT: bytes */
	__u8 reserved_70[2];
#endif
#ifndef TERN_WITHOUT_APM
	__u32 flags;			/* TERN_MODIFY_QP_* */
	__u8 reserved_a0[4];
	struct tern_ureq_alt_path alt;	/* with TERN_MODIFY_QP_ALT_PATH */
#endif
};

#endif
#ifndef TERN_WITHOUT_RSS
/* Fields of rx_hash_fields_mask, with the values of the verb. */
enum {
	TERN_RX_HASH_SRC_IPV4 = 1 << 0,
	TERN_RX_HASH_DST_IPV4 = 1 << 1,
	TERN_RX_HASH_SRC_IPV6 = 1 << 2,
	TERN_RX_HASH_DST_IPV6 = 1 << 3,
	TERN_RX_HASH_SRC_PORT_TCP = 1 << 4,
	TERN_RX_HASH_DST_PORT_TCP = 1 << 5,
	TERN_RX_HASH_SRC_PORT_UDP = 1 << 6,
	TERN_RX_HASH_DST_PORT_UDP = 1 << 7,
	TERN_RX_HASH_FIELDS = (1 << 8) - 1,	/* all of the above */
	TERN_RX_HASH_IPSEC_SPI = 1 << 8,
};

/* The fields are those inside of VXLAN. */
#define TERN_RX_HASH_INNER 0x80000000U

enum {
	TERN_RX_HASH_FUNC_TOEPLITZ = 1 << 0,
};

/* A raw packet QP with an indirection table. */
struct tern_ureq_create_rss_qp {
	__aligned_u64 rx_hash_fields_mask;	/* TERN_RX_HASH_* */
	__u8 rx_hash_function;			/* TERN_RX_HASH_FUNC_* */
	__u8 rx_hash_key_len;			/* bytes, 40 */
	__u8 reserved_50[6];
	__u8 rx_hash_key[40];
};

struct tern_ureq_create_wq {
	__aligned_u64 buf_addr;		/* read by the device */
	__aligned_u64 buf_len;
	__aligned_u64 record_addr;	/* struct tern_qp_record */
	__u8 log_size;
	__u8 log_stride;
	__u8 reserved_d0[6];
};

#endif
struct tern_ureq_create_srq {
	__aligned_u64 buf_addr;		/* read by the device */
	__aligned_u64 buf_len;
	__aligned_u64 record_addr;	/* struct tern_srq_record */
	__u8 log_size;
	__u8 log_stride;
	__u8 reserved_d0[6];
#ifndef TERN_WITHOUT_TM
	/* Tag matching, else 0: */
	__aligned_u64 ops_addr;		/* struct tern_tm_op[], read by the device */
	__aligned_u64 ops_len;
	__u8 log_ops;			/* log2 of operations */
	__u8 reserved_188[7];
#endif
};

struct tern_uresp_create_srq {
	__u32 srqn;
	__u8 reserved_20[4];
};

#ifndef TERN_WITHOUT_RESIZE
struct tern_ureq_modify_srq {
	__aligned_u64 buf_addr;
	__aligned_u64 buf_len;
	__u8 log_size;
	__u8 reserved_88[7];
};

#endif
/* Fields of the address vector that the driver fills; the provider puts it into UD WQEs. */
struct tern_uresp_create_ah {
	__u8 dmac[6];
	__u16 udp_sport;
};

/*
 * Any holder of the context's file may map the whole allocation, in whole pages.
 * The allocation includes the bytes of the last page beyond the requested length.
 */
struct tern_uresp_alloc_dm {
	__aligned_u64 mmap_offset;
	__aligned_u64 mmap_size;	/* bytes to map: the length rounded up to pages */
};

/* UVERBS_METHOD_DM_ALLOC: struct tern_uresp_alloc_dm. */
enum tern_ib_alloc_dm_attrs {
	TERN_IB_ATTR_ALLOC_DM_RESP = (1U << UVERBS_ID_NS_SHIFT),
};

#ifndef TERN_WITHOUT_IMPORT
/* UVERBS_METHOD_QUERY_CONTEXT: struct tern_uresp_alloc_ucontext for an imported context. */
enum tern_ib_query_context_attrs {
	TERN_IB_ATTR_QUERY_CONTEXT_RESP = (1U << UVERBS_ID_NS_SHIFT),
};

#endif
#ifndef TERN_WITHOUT_COMP_CNTR
/*
 * UVERBS_METHOD_COMP_CNTR_CREATE. A buffer, struct ib_uverbs_buffer_desc, is an
 * aligned __le64.
 */
enum tern_ib_create_comp_cntr_attrs {
	TERN_IB_ATTR_CREATE_COMP_CNTR_COMP_BUFFER = (1U << UVERBS_ID_NS_SHIFT),
	TERN_IB_ATTR_CREATE_COMP_CNTR_ERR_BUFFER,
	TERN_IB_ATTR_CREATE_COMP_CNTR_TYPE,	/* __u8: TERN_COMP_CNTR_TYPE_* */
};

enum tern_comp_cntr_type {
	TERN_COMP_CNTR_TYPE_WRS,
	TERN_COMP_CNTR_TYPE_BYTES,
};

#endif
#ifndef TERN_WITHOUT_IMPORT
/* Methods of UVERBS_OBJECT_DM. */
enum tern_ib_dm_methods {
	TERN_IB_METHOD_DM_QUERY = (1U << UVERBS_ID_NS_SHIFT),
#ifndef TERN_WITHOUT_DV
	TERN_IB_METHOD_DM_MAP_OP,
#endif
};

/* Queries the attributes of a DM that an importer does not know. */
enum tern_ib_query_dm_attrs {
	TERN_IB_ATTR_QUERY_DM_HANDLE = (1U << UVERBS_ID_NS_SHIFT),
	TERN_IB_ATTR_QUERY_DM_RESP,	/* struct tern_uresp_alloc_dm */
	TERN_IB_ATTR_QUERY_DM_LENGTH,	/* __u64: bytes requested */
};

#endif
#ifndef TERN_WITHOUT_DV
/* Operations: of a word x, with the operand v. A mapping of each is one page. */
enum tern_dm_map_op {
	TERN_DM_MAP_OP_ADD,		/* a store of v: x + v; a load: x + 1 */
	TERN_DM_MAP_OP_OR,		/* x | v; x | 1 */
	TERN_DM_MAP_OP_CLEAR,		/* x & ~v; 0 */
	TERN_DM_MAP_OP_NUM,
};

/* Maps the operation of a page of a DM: EOPNOTSUPP, EINVAL, or ENOSPC beyond a limit. */
enum tern_ib_map_dm_op_attrs {
	TERN_IB_ATTR_MAP_DM_OP_DM = (1U << UVERBS_ID_NS_SHIFT),
	TERN_IB_ATTR_MAP_DM_OP_OP,	/* __u8: TERN_DM_MAP_OP_* */
	TERN_IB_ATTR_MAP_DM_OP_OFFSET,	/* __u64: of the page in the DM */
	TERN_IB_ATTR_MAP_DM_OP_RESP,	/* struct tern_uresp_alloc_dm: the mapping */
};

/* Methods of UVERBS_OBJECT_PD. */
enum tern_ib_pd_methods {
	TERN_IB_METHOD_PD_QUERY_KEY = (1U << UVERBS_ID_NS_SHIFT),
};

/* Queries a key of the PD. ENOENT: the PD has no such key. */
enum tern_ib_query_key_attrs {
	TERN_IB_ATTR_QUERY_KEY_PD = (1U << UVERBS_ID_NS_SHIFT),
	TERN_IB_ATTR_QUERY_KEY_KEY,	/* __u32 */
	TERN_IB_ATTR_QUERY_KEY_RESP,	/* struct tern_uresp_query_key */
};

enum tern_key_state {
	TERN_KEY_STATE_FREE,
	TERN_KEY_STATE_VALID,
};

struct tern_uresp_query_key {
	__aligned_u64 addr;		/* of its first byte */
	__aligned_u64 length;
	__u32 key;			/* as valid now */
	__u32 access;			/* enum ib_uverbs_access_flags */
	__u32 qp_num;			/* of a bound type 2 window */
	__u32 num_windows;		/* bound to this region */
	__u32 mr_key;			/* of the region that a window is bound to */
	__u8 state;			/* TERN_KEY_STATE_* */
	__u8 type;			/* 0: region, 1 or 2: window of that type */
	__u8 reserved_130[2];
};

/* Methods of UVERBS_OBJECT_QP. */
enum tern_ib_qp_methods {
	TERN_IB_METHOD_QP_SET_SPORT = (1U << UVERBS_ID_NS_SHIFT),
	TERN_IB_METHOD_QP_GET_SPORT,
};

/* Sets the UDP source port of a connected QP. */
enum tern_ib_set_sport_attrs {
	TERN_IB_ATTR_SET_SPORT_QP = (1U << UVERBS_ID_NS_SHIFT),
	TERN_IB_ATTR_SET_SPORT_PORT,	/* __u16, not 0 */
};

/* Queries it. */
enum tern_ib_get_sport_attrs {
	TERN_IB_ATTR_GET_SPORT_QP = (1U << UVERBS_ID_NS_SHIFT),
	TERN_IB_ATTR_GET_SPORT_PORT,	/* __u16 */
};

#endif
#endif /* TERN_ABI_USER_H */
