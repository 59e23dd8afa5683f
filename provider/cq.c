// SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause)
/* Completion queues: creation, both polling interfaces, events. */

#include <ccan/minmax.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <util/compiler.h>

#include "tern.h"
#include "tern_trace.h"

/* Maximum number of work queues whose slots are freed in one batch. */
#define TERN_RETIRE_MAX 16

/* In tern_cq.cur: a frame that the device cut into segments was sent. */
#define TERN_CUR_TSO 0x7f

/* Bits of a datagram's service level. */
#define TERN_SL_IPV6 1
#define TERN_SL_IPV4 2
#define TERN_SL_UDP 8 /* RoCE v2: a UDP header follows */

#define TERN_VLAN_PRIO_SHIFT 13

/*
 * Whether CQE number index has been written: its phase bit is 1 on even passes
 * over the buffer.
 */
static bool tern_cqe_ready(struct tern_cq *cq, uint32_t index)
{
	bool phase = tern_shared_read(&tern_cqe_at(cq, index)->phase) &
		     TERN_CQE_PHASE;

	return phase == !(((index - cq->base) >> cq->log_size) & 1);
}

static struct tern_cqe *tern_cq_next(struct tern_cq *cq)
{
	uint32_t ci = tern_cq_ci(cq);

	if (!tern_cqe_ready(cq, ci))
		return NULL;

	/* Read the phase before anything else in the CQE. */
	udma_from_device_barrier();
	atomic_store_explicit(&cq->ci, ci + 1, memory_order_relaxed);

	return tern_cqe_at(cq, ci);
}

/* Returns consumed CQEs to the device. */
static void tern_cq_publish(struct tern_cq *cq)
{
	/* Finish reading the CQEs before the device may overwrite them. */
	udma_ordering_read_barrier();
	tern_shared_write(&cq->record->ci, tern_cq_ci(cq));
}

static bool tern_cqe_is_recv(const struct tern_cqe *cqe)
{
	return cqe->flags & TERN_CQE_F_RECV;
}

/* Whether the CQE completes a WQE of an SRQ. */
static bool tern_cqe_is_srq(const struct tern_cqe *cqe)
{
	return cqe->srqn != htole32(0);
}

/*
 * WQEs completed by polled CQEs. Their slots become free only after the CQEs
 * were returned to the device, so that a poster that finds a free slot also
 * finds space in the CQ.
 */
struct tern_retire {
	struct tern_qp *qp; /* QP of the last CQE, a cache for the next lookup */
	unsigned int num;
	struct {
		atomic_uint *tail;
		uint32_t value;
	} done[TERN_RETIRE_MAX];
};

/*
 * Records the slots of the WQE and of unsignaled WQEs before it. An SRQ slot is
 * not recorded: it became free when the device fetched the WQE, and the QP may
 * be an XRC target that this process does not have.
 */
static void tern_retire_note(struct tern_context *ctx,
			     struct tern_retire *retire,
			     const struct tern_cqe *cqe)
{
	uint32_t qpn = le32toh(cqe->qpn);
	struct tern_qp *qp = retire->qp;
	atomic_uint *tail;

	if (tern_cqe_is_srq(cqe))
		return;

	if (!qp || qp->vqp.qp.qp_num != qpn) {
		qp = tern_find_qp(ctx, qpn);
		if (unlikely(!qp))
			return;
		retire->qp = qp;
	}

	tail = tern_cqe_is_recv(cqe) ? &qp->rq_tail : &qp->sq_tail;
	if (!retire->num || retire->done[retire->num - 1].tail != tail)
		retire->done[retire->num++].tail = tail;
	retire->done[retire->num - 1].value = le32toh(cqe->wqe_index) + 1;
}

/*
 * Pairs with tern_wq_full(): a poster that sees the slot free also sees the WQE
 * completed, and posts after the CQ's index was advanced.
 */
static void tern_free_slots(atomic_uint *tail, uint32_t value)
{
	atomic_store_explicit(tail, value, memory_order_release);
}

/* Returns the CQEs to the device, then frees the slots of their WQEs. */
static void tern_retire_flush(struct tern_cq *cq, struct tern_retire *retire)
{
	unsigned int i;

	tern_cq_publish(cq);

	for (i = 0; i < retire->num; i++)
		tern_free_slots(retire->done[i].tail, retire->done[i].value);
	retire->num = 0;
}

/*
 * Whether the CQE completes a large frame. Only its WQE, whose slot is not free
 * yet, distinguishes it from other frames.
 */
static bool tern_cqe_is_tso(const struct tern_qp *qp,
			    const struct tern_cqe *cqe)
{
	const struct tern_sq_hdr *wqe;
	const struct tern_eth_offload *seg;

	if (likely(!qp || !qp->raw) || tern_cqe_is_recv(cqe) ||
	    !qp->sq.slots || qp->vqp.qp.qp_num != le32toh(cqe->qpn))
		return false;

	wqe = tern_wq_slot(&qp->sq, le32toh(cqe->wqe_index));
	seg = (const void *)(wqe + 1);
	return seg->ops & htole16(TERN_ETH_OP_TSO);
}

static enum ibv_wc_status tern_wc_status(const struct tern_cqe *cqe)
{
	switch (cqe->status) {
	case TERN_CQE_SUCCESS:
		return IBV_WC_SUCCESS;
	case TERN_CQE_LOC_LEN_ERR:
		return IBV_WC_LOC_LEN_ERR;
	case TERN_CQE_LOC_QP_OP_ERR:
		return IBV_WC_LOC_QP_OP_ERR;
	case TERN_CQE_LOC_PROT_ERR:
		return IBV_WC_LOC_PROT_ERR;
	case TERN_CQE_WR_FLUSH_ERR:
		return IBV_WC_WR_FLUSH_ERR;
	case TERN_CQE_MW_BIND_ERR:
		return IBV_WC_MW_BIND_ERR;
	case TERN_CQE_BAD_RESP_ERR:
		return IBV_WC_BAD_RESP_ERR;
	case TERN_CQE_LOC_ACCESS_ERR:
		return IBV_WC_LOC_ACCESS_ERR;
	case TERN_CQE_REM_INV_REQ_ERR:
		return IBV_WC_REM_INV_REQ_ERR;
	case TERN_CQE_REM_ACCESS_ERR:
		return IBV_WC_REM_ACCESS_ERR;
	case TERN_CQE_REM_OP_ERR:
		return IBV_WC_REM_OP_ERR;
	case TERN_CQE_RETRY_EXC_ERR:
		return IBV_WC_RETRY_EXC_ERR;
	case TERN_CQE_RNR_RETRY_EXC_ERR:
		return IBV_WC_RNR_RETRY_EXC_ERR;
	case TERN_CQE_REM_ABORT_ERR:
		return IBV_WC_REM_ABORT_ERR;
	case TERN_CQE_FATAL_ERR:
		return IBV_WC_FATAL_ERR;
	case TERN_CQE_RESP_TIMEOUT_ERR:
		return IBV_WC_RESP_TIMEOUT_ERR;
#ifndef TERN_WITHOUT_TM
	case TERN_CQE_TM_ERR:
		return IBV_WC_TM_ERR;
	case TERN_CQE_TM_RNDV_INCOMPLETE:
		return IBV_WC_TM_RNDV_INCOMPLETE;
#endif
	default:
		return IBV_WC_GENERAL_ERR;
	}
}

static enum ibv_wc_opcode tern_wc_opcode(const struct tern_cqe *cqe)
{
	switch (cqe->opcode) {
	case TERN_WR_RDMA_WRITE:
	case TERN_WR_RDMA_WRITE_WITH_IMM:
		return IBV_WC_RDMA_WRITE;
	case TERN_WR_RDMA_READ:
		return IBV_WC_RDMA_READ;
	case TERN_WR_ATOMIC_CMP_AND_SWP:
		return IBV_WC_COMP_SWAP;
	case TERN_WR_ATOMIC_FETCH_AND_ADD:
		return IBV_WC_FETCH_ADD;
	case TERN_WR_ATOMIC_WRITE:
		return IBV_WC_ATOMIC_WRITE;
	case TERN_WR_FLUSH:
		return IBV_WC_FLUSH;
	case TERN_WR_LOCAL_INV:
		return IBV_WC_LOCAL_INV;
	case TERN_WR_BIND_MW:
		return IBV_WC_BIND_MW;
	case TERN_RECV_SEND:
	case TERN_ETH_RX:
		return IBV_WC_RECV;
	case TERN_RECV_RDMA_WITH_IMM:
		return IBV_WC_RECV_RDMA_WITH_IMM;
	case TERN_CUR_TSO:
		return IBV_WC_TSO;
#ifndef TERN_WITHOUT_TM
	case TERN_RECV_TM:
	case TERN_RECV_TM_NO_TAG:
	case TERN_TM_CQE_ADD:
	case TERN_TM_CQE_DEL:
	case TERN_TM_CQE_SYNC:
		return tern_tm_wc_opcode(cqe);
#endif
	default: /* all kinds of SEND */
		return IBV_WC_SEND;
	}
}

static unsigned int tern_wc_flags(const struct tern_cqe *cqe)
{
	const uint8_t csum_ok = TERN_CQE_F_L3_OK | TERN_CQE_F_L4_OK;
	unsigned int flags = 0;

	if (likely(!(cqe->flags & ~(TERN_CQE_F_RECV | TERN_CQE_F_SOLICITED))))
		return 0;

	if (cqe->flags & TERN_CQE_F_GRH)
		flags |= IBV_WC_GRH;
	if (cqe->flags & TERN_CQE_F_IMM)
		flags |= IBV_WC_WITH_IMM;
	if (cqe->flags & TERN_CQE_F_INV)
		flags |= IBV_WC_WITH_INV;
#ifndef TERN_WITHOUT_TM
	if (unlikely(tern_cqe_is_tm(cqe)))
		return flags | tern_tm_wc_flags(cqe);
#endif
	if ((cqe->flags & csum_ok) == csum_ok)
		flags |= IBV_WC_IP_CSUM_OK;

	return flags;
}

/*
 * A RoCE packet carries no service level. That of a datagram is the type of its
 * IP header, by which programs find the addresses in the GRH; the values are
 * those of mlx5. The priority in a VLAN tag is part of what read_cvlan() gives.
 */
static uint8_t tern_wc_sl(const struct tern_cqe *cqe)
{
	if (!(cqe->flags & TERN_CQE_F_GRH))
		return 0;

	return TERN_SL_UDP | (cqe->net_type == TERN_NET_IPV4 ? TERN_SL_IPV4 :
							       TERN_SL_IPV6);
}

/*
 * Only a datagram has a source QP and, like every message, P_Key 0. The CQE of
 * a frame has its flow tag and hash there instead.
 */
static uint32_t tern_wc_src_qp(const struct tern_cqe *cqe)
{
	return cqe->flags & TERN_CQE_F_GRH ? le32toh(cqe->src_qp) : 0;
}

static void tern_fill_wc(struct ibv_wc *wc, const struct tern_cqe *cqe)
{
	wc->wr_id = le64toh(cqe->wr_id);
	wc->status = tern_wc_status(cqe);
	wc->opcode = tern_wc_opcode(cqe);
	wc->vendor_err = cqe->vendor_err;
	wc->byte_len = le32toh(cqe->byte_len);
	if (cqe->flags & TERN_CQE_F_INV)
		wc->invalidated_rkey = le32toh(cqe->inv_rkey);
	else
		wc->imm_data = cqe->imm;
	wc->qp_num = le32toh(cqe->qpn);
	wc->src_qp = tern_wc_src_qp(cqe);
	wc->wc_flags = tern_wc_flags(cqe);
	wc->pkey_index = 0;
	wc->slid = 0;
	wc->sl = tern_wc_sl(cqe);
	wc->dlid_path_bits = 0;
}

/* ibv_poll_cq(3). */
int tern_poll_cq(struct ibv_cq *ibvcq, int num_entries, struct ibv_wc *wc)
{
	struct tern_context *ctx = to_tern_ctx(ibvcq->context);
	struct tern_cq *cq = to_tern_cq(ibvcq);
	struct tern_retire retire;
	struct tern_cqe *cqe;
	int n;

	retire.qp = NULL;
	retire.num = 0;

	tern_spin_lock(&cq->lock);
	for (n = 0; n < num_entries; n++) {
		cqe = tern_cq_next(cq);
		if (!cqe)
			break;
		tern_fill_wc(&wc[n], cqe);
		tern_retire_note(ctx, &retire, cqe);
		if (unlikely(tern_cqe_is_tso(retire.qp, cqe)))
			wc[n].opcode = IBV_WC_TSO;
		rdma_tracepoint(rdma_core_tern, poll_cq,
				ibvcq->context->device->name, cq->cqn,
				wc[n].wr_id, wc[n].status, wc[n].opcode,
				wc[n].qp_num, wc[n].byte_len);
		if (unlikely(retire.num == TERN_RETIRE_MAX))
			tern_retire_flush(cq, &retire);
	}
	if (n)
		tern_retire_flush(cq, &retire);
	tern_spin_unlock(&cq->lock);

	return n;
}

/* Frees the slot of the WQE that the CQE of a session completes. */
static void tern_cq_retire_cur(struct tern_cq *cq)
{
	struct tern_cqe *cur = &cq->cur;
	struct tern_qp *qp = cq->cur_qp;
	uint32_t qpn;

	if (tern_cqe_is_srq(cur))
		return;

	qpn = le32toh(cur->qpn);
	if (!qp || qp->vqp.qp.qp_num != qpn) {
		qp = tern_find_qp(to_tern_ctx(cq->vcq.cq.context), qpn);
		if (unlikely(!qp))
			return;
		cq->cur_qp = qp;
	}
	if (unlikely(tern_cqe_is_tso(qp, cur)))
		cur->opcode = TERN_CUR_TSO;
	tern_free_slots(tern_cqe_is_recv(cur) ? &qp->rq_tail : &qp->sq_tail,
			le32toh(cur->wqe_index) + 1);
}

/*
 * Advances to the next CQE of a session. The CQE is copied and returned at
 * once, and then its WQE slot is freed, because a program may post before it
 * ends the session. If slots were freed in end_poll, it would find none. If
 * only the CQEs were returned then, it could overflow a CQ of exactly the
 * required size.
 */
static int tern_cq_advance(struct tern_cq *cq)
{
	struct tern_cqe *cur = &cq->cur;
	struct tern_cqe *cqe;

	cqe = tern_cq_next(cq);
	if (!cqe)
		return ENOENT;

	memcpy(cur, cqe, offsetof(struct tern_cqe, phase));
	tern_cq_publish(cq);
	cq->vcq.cq_ex.wr_id = le64toh(cur->wr_id);
	cq->vcq.cq_ex.status = tern_wc_status(cur);
	tern_cq_retire_cur(cq);
	rdma_tracepoint(rdma_core_tern, poll_cq,
			cq->vcq.cq.context->device->name, cq->cqn,
			cq->vcq.cq_ex.wr_id, cq->vcq.cq_ex.status,
			tern_wc_opcode(cur), le32toh(cur->qpn),
			le32toh(cur->byte_len));

	return 0;
}

/* ibv_create_cq_ex(3): holds the lock from a successful start to the end. */
static int tern_start_poll(struct ibv_cq_ex *ibvcq,
			   struct ibv_poll_cq_attr *attr)
{
	struct tern_cq *cq = to_tern_cq_ex(ibvcq);
	int err;

	if (unlikely(attr->comp_mask))
		return EINVAL;

	tern_spin_lock(&cq->lock);
	cq->cur_qp = NULL;
	err = tern_cq_advance(cq);
	if (err)
		tern_spin_unlock(&cq->lock);

	return err;
}

static int tern_next_poll(struct ibv_cq_ex *ibvcq)
{
	return tern_cq_advance(to_tern_cq_ex(ibvcq));
}

static void tern_end_poll(struct ibv_cq_ex *ibvcq)
{
	tern_spin_unlock(&to_tern_cq_ex(ibvcq)->lock);
}

static enum ibv_wc_opcode tern_read_opcode(struct ibv_cq_ex *ibvcq)
{
	return tern_wc_opcode(&to_tern_cq_ex(ibvcq)->cur);
}

static uint32_t tern_read_vendor_err(struct ibv_cq_ex *ibvcq)
{
	return to_tern_cq_ex(ibvcq)->cur.vendor_err;
}

static unsigned int tern_read_wc_flags(struct ibv_cq_ex *ibvcq)
{
	return tern_wc_flags(&to_tern_cq_ex(ibvcq)->cur);
}

static uint32_t tern_read_byte_len(struct ibv_cq_ex *ibvcq)
{
	return le32toh(to_tern_cq_ex(ibvcq)->cur.byte_len);
}

/* Also for ibv_wc_read_invalidated_rkey(), in host byte order. */
static __be32 tern_read_imm_data(struct ibv_cq_ex *ibvcq)
{
	const struct tern_cqe *cqe = &to_tern_cq_ex(ibvcq)->cur;

	if (cqe->flags & TERN_CQE_F_INV)
		return (__force __be32)le32toh(cqe->inv_rkey);

	return cqe->imm;
}

static uint32_t tern_read_qp_num(struct ibv_cq_ex *ibvcq)
{
	return le32toh(to_tern_cq_ex(ibvcq)->cur.qpn);
}

static uint32_t tern_read_src_qp(struct ibv_cq_ex *ibvcq)
{
	return tern_wc_src_qp(&to_tern_cq_ex(ibvcq)->cur);
}

#ifndef TERN_WITHOUT_RSS
/* Tag of the flow that took a frame, 0 if there is none. */
static uint32_t tern_read_flow_tag(struct ibv_cq_ex *ibvcq)
{
	const struct tern_cqe *cqe = &to_tern_cq_ex(ibvcq)->cur;

#ifndef TERN_WITHOUT_TM
	if (tern_cqe_is_tm(cqe))
		return 0;
#endif
	if (cqe->flags & TERN_CQE_F_GRH)
		return 0;

	return le32toh(cqe->src_qp);
}

#endif
/* RoCE has no LIDs. */
static uint32_t tern_read_slid(struct ibv_cq_ex *ibvcq)
{
	return 0;
}

static uint8_t tern_read_sl(struct ibv_cq_ex *ibvcq)
{
	return tern_wc_sl(&to_tern_cq_ex(ibvcq)->cur);
}

static uint8_t tern_read_dlid_path_bits(struct ibv_cq_ex *ibvcq)
{
	return 0;
}

/*
 * VLAN tag of a datagram with its priority, or stripped from a frame; 0 if there
 * is none. In a CQE of tag matching the flag has another meaning.
 */
static uint16_t tern_read_cvlan(struct ibv_cq_ex *ibvcq)
{
	const struct tern_cqe *cqe = &to_tern_cq_ex(ibvcq)->cur;

#ifndef TERN_WITHOUT_TM
	if (tern_cqe_is_tm(cqe))
		return 0;
#endif
	if (!(cqe->flags & TERN_CQE_F_VLAN))
		return 0;

	return le16toh(cqe->vlan) | cqe->sl << TERN_VLAN_PRIO_SHIFT;
}

static uint64_t tern_read_completion_ts(struct ibv_cq_ex *ibvcq)
{
	return le64toh(to_tern_cq_ex(ibvcq)->cur.timestamp);
}

#ifndef TERN_WITHOUT_CLOCK
/* Nanoseconds of the PHC. */
static uint64_t tern_read_completion_wallclock(struct ibv_cq_ex *ibvcq)
{
	struct tern_cq *cq = to_tern_cq_ex(ibvcq);

	return tern_wallclock_ns(to_tern_ctx(ibvcq->context), &cq->clock,
				 le64toh(cq->cur.timestamp));
}

#endif
static void tern_cq_fill_pfns(struct ibv_cq_ex *cq, uint64_t wc_flags)
{
	cq->start_poll = tern_start_poll;
	cq->next_poll = tern_next_poll;
	cq->end_poll = tern_end_poll;
	cq->read_opcode = tern_read_opcode;
	cq->read_vendor_err = tern_read_vendor_err;
	cq->read_wc_flags = tern_read_wc_flags;

	if (wc_flags & IBV_WC_EX_WITH_BYTE_LEN)
		cq->read_byte_len = tern_read_byte_len;
	if (wc_flags & IBV_WC_EX_WITH_IMM)
		cq->read_imm_data = tern_read_imm_data;
	if (wc_flags & IBV_WC_EX_WITH_QP_NUM)
		cq->read_qp_num = tern_read_qp_num;
	if (wc_flags & IBV_WC_EX_WITH_SRC_QP)
		cq->read_src_qp = tern_read_src_qp;
	if (wc_flags & IBV_WC_EX_WITH_SLID)
		cq->read_slid = tern_read_slid;
	if (wc_flags & IBV_WC_EX_WITH_SL)
		cq->read_sl = tern_read_sl;
	if (wc_flags & IBV_WC_EX_WITH_DLID_PATH_BITS)
		cq->read_dlid_path_bits = tern_read_dlid_path_bits;
	if (wc_flags & IBV_WC_EX_WITH_COMPLETION_TIMESTAMP)
		cq->read_completion_ts = tern_read_completion_ts;
#ifndef TERN_WITHOUT_CLOCK
	if (wc_flags & IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK)
		cq->read_completion_wallclock_ns =
			tern_read_completion_wallclock;
#endif
	if (wc_flags & IBV_WC_EX_WITH_CVLAN)
		cq->read_cvlan = tern_read_cvlan;
#ifndef TERN_WITHOUT_RSS
	if (wc_flags & IBV_WC_EX_WITH_FLOW_TAG)
		cq->read_flow_tag = tern_read_flow_tag;
#endif
#ifndef TERN_WITHOUT_TM
	if (wc_flags & IBV_WC_EX_WITH_TM_INFO)
		cq->read_tm_info = tern_read_tm_info;
#endif
}

static int tern_cq_init(struct ibv_context *ibvctx, struct tern_cq *cq,
			struct ibv_cq_init_attr_ex *attr)
{
	struct tern_context *ctx = to_tern_ctx(ibvctx);
	struct tern_create_cq_resp resp = {};
	struct tern_create_cq cmd = {};
	int err;

#ifndef TERN_WITHOUT_CLOCK
	if (attr->wc_flags & IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK) {
		err = tern_clock_init(ctx, &cq->clock);
		if (err)
			return err;
	}

#endif
	err = tern_cq_alloc_buf(ibvctx, cq->pd, cq, attr->cqe);
	if (err)
		return err;

	err = tern_alloc_record(ctx, cq->pd, &cq->record_ref, TERN_RECORD_CQ);
	if (err)
		goto err_free_buf;
	cq->record = cq->record_ref.addr;

	/* Tell the kernel the actual size. */
	attr->cqe = cq->mask + 1;
	cmd.buf_addr = (uintptr_t)cq->buf.addr;
	cmd.buf_len = cq->buf.len;
	cmd.record_addr = (uintptr_t)cq->record;
	cmd.log_size = cq->log_size;
	err = ibv_cmd_create_cq_ex(ibvctx, attr, NULL, &cq->vcq, &cmd.ibv_cmd,
				   sizeof(cmd), &resp.ibv_resp, sizeof(resp),
				   0);
	if (err)
		goto err_free_record;

	cq->cqn = resp.cqn;
	cq->vcq.cq.cqe = attr->cqe;
	tern_spin_init(&cq->lock, !tern_cq_single_threaded(attr));
	tern_spin_init(&cq->arm_lock, cq->lock.need_lock);

	return 0;

err_free_record:
	tern_free_record(ctx, &cq->record_ref, TERN_RECORD_CQ);
err_free_buf:
	tern_free_buf(&cq->buf);
	return err;
}

/*
 * ibv_create_cq_ex(3): EOPNOTSUPP for flags that the device does not support,
 * EINVAL for a size out of range and for a PD that is no parent domain, EBUSY
 * if the clock page cannot be read.
 */
struct ibv_cq_ex *tern_create_cq_ex(struct ibv_context *ibvctx,
				    struct ibv_cq_init_attr_ex *attr)
{
	struct ibv_cq_init_attr_ex actual = *attr;
	struct tern_cq *cq;
	int err;

	err = tern_check_cq_attr(to_tern_ctx(ibvctx), attr);
	if (err)
		goto err_out;

	cq = calloc(1, sizeof(*cq));
	if (!cq) {
		err = ENOMEM;
		goto err_out;
	}

	if (attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_PD)
		cq->pd = to_tern_pd(attr->parent_domain);
	err = tern_cq_init(ibvctx, cq, &actual);
	if (err)
		goto err_free;

	if (cq->pd)
		tern_pd_get(cq->pd);
	tern_cq_fill_pfns(&cq->vcq.cq_ex, attr->wc_flags);

	return &cq->vcq.cq_ex;

err_free:
	free(cq);
err_out:
	errno = err;
	return NULL;
}

/* ibv_create_cq(3). */
struct ibv_cq *tern_create_cq(struct ibv_context *ibvctx, int cqe,
			      struct ibv_comp_channel *channel, int vector)
{
	struct ibv_cq_init_attr_ex attr = {
		.cqe = cqe,
		.channel = channel,
		.comp_vector = vector,
	};
	struct ibv_cq_ex *cq;

	cq = tern_create_cq_ex(ibvctx, &attr);

	return cq ? ibv_cq_ex_to_cq(cq) : NULL;
}

int tern_destroy_cq(struct ibv_cq *ibvcq)
{
	struct tern_cq *cq = to_tern_cq(ibvcq);
	int err;

	err = ibv_cmd_destroy_cq(ibvcq);
	if (err)
		return err;

	tern_spin_drain(&cq->arm_lock);
	tern_spin_destroy(&cq->arm_lock);
	tern_spin_destroy(&cq->lock);
	tern_free_record(to_tern_ctx(ibvcq->context), &cq->record_ref,
			 TERN_RECORD_CQ);
	tern_free_buf(&cq->buf);
	if (cq->pd)
		tern_pd_put(cq->pd);
	free(cq);

	return 0;
}

/* Number of the first CQE that may satisfy an arm with consumer index ci. */
static uint32_t tern_cq_unreported(struct tern_cq *cq, uint32_t ci)
{
	uint32_t reported = tern_shared_read(&cq->record->reported);

	return (int32_t)(reported - ci) > 0 ? reported : ci;
}

/*
 * Whether the device may have written a CQE that satisfies the arm with
 * consumer index ci before it could see the arm. It reads the arm word after
 * the next CQE.
 */
static bool tern_cq_must_kick(struct tern_cq *cq, uint32_t ci)
{
	/*
	 * A slot keeps its CQE until the index has passed it. If another thread
	 * polls concurrently, the phase may be that of a later CQE.
	 */
	return tern_cqe_ready(cq, tern_cq_unreported(cq, ci)) ||
	       tern_cq_consumed(cq) != ci;
}

/*
 * Requests an event. The arm word is computed and stored under the lock: an
 * older word must not replace a newer one, because the device serves each event
 * once.
 */
static void tern_cq_arm(struct tern_cq *cq, enum tern_notify notify)
{
	uint32_t ci, seq, first, arm;
	bool kick;

	/*
	 * If another thread advances the index concurrently, the only effect is
	 * a spurious event.
	 */
	ci = tern_cq_consumed(cq);
	first = tern_cq_unreported(cq, ci);
	if (cq->armed == TERN_NOTIFY_NONE)
		cq->armed_at = first;
	else if (first != cq->armed_at) /* the event may have been fired */
		cq->deferred = max_t(enum tern_notify, cq->deferred, notify);
	/* A request for any completion stands until its event was taken. */
	cq->armed = max_t(enum tern_notify, cq->armed, notify);

	seq = atomic_load_explicit(&cq->arm_seq, memory_order_relaxed);
	arm = TERN_CQ_ARM_VALID | FIELD_PREP(TERN_CQ_ARM_CI_MASK, ci) |
	      FIELD_PREP(TERN_CQ_ARM_SEQ_MASK, seq);
	if (cq->armed == TERN_NOTIFY_SOLICITED)
		arm |= TERN_CQ_ARM_SOLICITED;
	tern_shared_write(&cq->record->arm, arm);

	/* Write the arm word before checking for CQEs, and before the kick. */
	udma_full_barrier();
	kick = tern_cq_must_kick(cq, ci);
	if (kick)
		tern_ring(to_tern_ctx(cq->vcq.cq.context), TERN_DB_CMD_CQ_ARM,
			  cq->cqn);
	rdma_tracepoint(rdma_core_tern, arm_cq,
			cq->vcq.cq.context->device->name, cq->cqn, arm, kick);
}

/* ibv_req_notify_cq(3). */
int tern_req_notify_cq(struct ibv_cq *ibvcq, int solicited_only)
{
	struct tern_cq *cq = to_tern_cq(ibvcq);

	tern_spin_lock(&cq->arm_lock);
	tern_cq_arm(cq, solicited_only ? TERN_NOTIFY_SOLICITED :
					 TERN_NOTIFY_ANY);
	tern_spin_unlock(&cq->arm_lock);

	return 0;
}

/*
 * ibv_get_cq_event() took an event: the next arm is for a new one. Requests made
 * after the event was fired are for it.
 */
void tern_cq_event(struct ibv_cq *ibvcq)
{
	struct tern_cq *cq = to_tern_cq(ibvcq);
	enum tern_notify deferred;

	tern_spin_lock(&cq->arm_lock);
	atomic_fetch_add_explicit(&cq->arm_seq, 1, memory_order_relaxed);
	deferred = cq->deferred;
	cq->armed = TERN_NOTIFY_NONE;
	cq->deferred = TERN_NOTIFY_NONE;
	if (deferred != TERN_NOTIFY_NONE)
		tern_cq_arm(cq, deferred);
	tern_spin_unlock(&cq->arm_lock);
}

/* Removes the CQEs for which match() holds. The others keep their order. */
static void tern_cq_purge(struct tern_cq *cq,
			  bool (*match)(const struct tern_cqe *cqe,
					uint32_t qpn, uint32_t srqn),
			  uint32_t qpn, uint32_t srqn)
{
	uint32_t first = tern_cq_ci(cq);
	uint32_t end = first;
	uint32_t removed = 0;
	struct tern_cqe *cqe;
	uint32_t i;

#ifndef TERN_WITHOUT_DV
	/* The program would not learn of the new index. */
	if (cq->direct)
		return;

#endif
	while (end - first <= cq->mask && tern_cqe_ready(cq, end))
		end++;

	/* Read the phases before anything else in the CQEs. */
	udma_from_device_barrier();

	/*
	 * From the newest CQE on, move those that stay over those removed.
	 * Phases belong to the slots.
	 */
	for (i = end; i-- != first;) {
		cqe = tern_cqe_at(cq, i);
		if (match(cqe, qpn, srqn))
			removed++;
		else if (removed)
			memcpy(tern_cqe_at(cq, i + removed), cqe,
			       offsetof(struct tern_cqe, phase));
	}

	if (removed) {
		atomic_store_explicit(&cq->ci, first + removed,
				      memory_order_relaxed);
		tern_cq_publish(cq);
	}
}

/*
 * Whether the CQE belongs to the QP. Its number is not enough: an XRC target
 * may have had the number before, and its receives belong to its XRC SRQ. A
 * message with a tag belongs to the SRQ: software counts it, or waits for the
 * tag.
 */
static bool tern_cqe_of_qp(const struct tern_cqe *cqe, uint32_t qpn,
			   uint32_t srqn)
{
	return le32toh(cqe->qpn) == qpn && cqe->opcode != TERN_RECV_TM &&
	       (!tern_cqe_is_srq(cqe) || le32toh(cqe->srqn) == srqn);
}

/*
 * Called for a QP that was reset or destroyed, so no new CQEs of it can arrive.
 * srqn is the number of its SRQ, or 0. The caller holds the CQ's lock.
 */
void tern_cq_purge_qp(struct tern_cq *cq, uint32_t qpn, uint32_t srqn)
{
	/* Without locking, the caller itself may be inside a session. */
	cq->cur_qp = NULL;
	tern_cq_purge(cq, tern_cqe_of_qp, qpn, srqn);
}

static bool tern_cqe_of_srq(const struct tern_cqe *cqe, uint32_t qpn,
			    uint32_t srqn)
{
	return le32toh(cqe->srqn) == srqn;
}

/* The same for an SRQ that was destroyed. */
void tern_cq_purge_srq(struct tern_cq *cq, uint32_t srqn)
{
	tern_cq_purge(cq, tern_cqe_of_srq, 0, srqn);
}
