// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Polling of kernel CQs. Any context but NMI, except where noted.
 *
 * A CQ is lost when the device is dead or the CQ overflowed. The driver then
 * flushes posted work, so that users waiting for their requests make progress.
 */

#include <linux/array_size.h>
#include <linux/if_vlan.h>
#include <linux/string.h>

#include "tern_ib.h"
#include "tern_ib_ring.h"

enum ib_wc_status tern_wc_status(u8 status)
{
	static const u8 map[] = {
		[TERN_CQE_SUCCESS] = IB_WC_SUCCESS,
		[TERN_CQE_LOC_LEN_ERR] = IB_WC_LOC_LEN_ERR,
		[TERN_CQE_LOC_QP_OP_ERR] = IB_WC_LOC_QP_OP_ERR,
		[TERN_CQE_LOC_PROT_ERR] = IB_WC_LOC_PROT_ERR,
		[TERN_CQE_WR_FLUSH_ERR] = IB_WC_WR_FLUSH_ERR,
		[TERN_CQE_MW_BIND_ERR] = IB_WC_MW_BIND_ERR,
		[TERN_CQE_BAD_RESP_ERR] = IB_WC_BAD_RESP_ERR,
		[TERN_CQE_LOC_ACCESS_ERR] = IB_WC_LOC_ACCESS_ERR,
		[TERN_CQE_REM_INV_REQ_ERR] = IB_WC_REM_INV_REQ_ERR,
		[TERN_CQE_REM_ACCESS_ERR] = IB_WC_REM_ACCESS_ERR,
		[TERN_CQE_REM_OP_ERR] = IB_WC_REM_OP_ERR,
		[TERN_CQE_RETRY_EXC_ERR] = IB_WC_RETRY_EXC_ERR,
		[TERN_CQE_RNR_RETRY_EXC_ERR] = IB_WC_RNR_RETRY_EXC_ERR,
		[TERN_CQE_REM_ABORT_ERR] = IB_WC_REM_ABORT_ERR,
		[TERN_CQE_FATAL_ERR] = IB_WC_FATAL_ERR,
		[TERN_CQE_RESP_TIMEOUT_ERR] = IB_WC_RESP_TIMEOUT_ERR,
	};

	return status < ARRAY_SIZE(map) ? map[status] : IB_WC_GENERAL_ERR;
}

/*
 * Opcode of a successful completion. ib_core has fewer; opcodes unknown here
 * are reported as a send.
 */
enum ib_wc_opcode tern_wc_opcode(u8 opcode)
{
	switch (opcode) {
	case TERN_WR_RDMA_WRITE:
	case TERN_WR_RDMA_WRITE_WITH_IMM:
		return IB_WC_RDMA_WRITE;
	case TERN_WR_RDMA_READ:
		return IB_WC_RDMA_READ;
	case TERN_WR_ATOMIC_CMP_AND_SWP:
		return IB_WC_COMP_SWAP;
	case TERN_WR_ATOMIC_FETCH_AND_ADD:
		return IB_WC_FETCH_ADD;
	case TERN_WR_ATOMIC_WRITE:
		return IB_WC_ATOMIC_WRITE;
	case TERN_WR_FLUSH:
		return IB_WC_FLUSH;
	case TERN_WR_LOCAL_INV:
		return IB_WC_LOCAL_INV;
	case TERN_WR_REG_MR:
		return IB_WC_REG_MR;
	case TERN_RECV_SEND:
		return IB_WC_RECV;
	case TERN_RECV_RDMA_WITH_IMM:
		return IB_WC_RECV_RDMA_WITH_IMM;
	default:
		return IB_WC_SEND;
	}
}

/* Fills in the sender of a UD message. */
static void tern_cqe_to_ud_wc(const struct tern_cqe *cqe, struct ib_wc *wc)
{
	wc->src_qp = le32_to_cpu(cqe->src_qp);
	wc->pkey_index = le16_to_cpu(cqe->pkey_index);
	wc->sl = cqe->sl;
	memcpy(wc->smac, cqe->smac, sizeof(wc->smac));
	wc->network_hdr_type = cqe->net_type == TERN_NET_IPV4 ?
			       RDMA_NETWORK_IPV4 : RDMA_NETWORK_IPV6;
	wc->wc_flags |= IB_WC_GRH | IB_WC_WITH_SMAC |
			IB_WC_WITH_NETWORK_HDR_TYPE;
	if (cqe->flags & TERN_CQE_F_VLAN) {
		wc->vlan_id = le16_to_cpu(cqe->vlan) & VLAN_VID_MASK;
		wc->wc_flags |= IB_WC_WITH_VLAN;
	}
}

/* Fills in everything in a work completion but the QP and the request. */
void tern_cqe_to_wc(const struct tern_cqe *cqe, struct ib_wc *wc)
{
	*wc = (struct ib_wc){
		.status = tern_wc_status(cqe->status),
		.opcode = tern_wc_opcode(cqe->opcode),
		.vendor_err = cqe->vendor_err,
	};
	if (cqe->status != TERN_CQE_SUCCESS)
		return;

	wc->byte_len = le32_to_cpu(cqe->byte_len);
	if (cqe->flags & TERN_CQE_F_IMM) {
		wc->ex.imm_data = cqe->imm;
		wc->wc_flags |= IB_WC_WITH_IMM;
	}
	if (cqe->flags & TERN_CQE_F_INV) {
		wc->ex.invalidate_rkey = le32_to_cpu(cqe->inv_rkey);
		wc->wc_flags |= IB_WC_WITH_INVALIDATE;
	}
	/* Only a message that came without a connection has a GRH. */
	if (cqe->flags & TERN_CQE_F_GRH)
		tern_cqe_to_ud_wc(cqe, wc);
}

/* Completion of a posted request that the device no longer completes. */
void tern_flush_wc(struct ib_qp *ibqp, enum ib_wc_opcode opcode, u64 wr_id,
		   struct ib_wc *wc)
{
	*wc = (struct ib_wc){
		.wr_id = wr_id,
		.status = IB_WC_WR_FLUSH_ERR,
		.opcode = opcode,
		.qp = ibqp,
	};
}

/* Not a valid QP number. */
#define TERN_QPN_NONE		0

static struct tern_cqe *tern_kcq_slot(struct tern_kcq *kcq, u32 index)
{
	size_t slot = tern_ring_slot(index, kcq->log_size);

	return tern_kpage_at(kcq->buf.pages, slot * sizeof(struct tern_cqe));
}

/* Returns entry @index if the device has written it, otherwise NULL. */
static struct tern_cqe *tern_kcq_peek(struct tern_kcq *kcq, u32 index)
{
	struct tern_cqe *cqe = tern_kcq_slot(kcq, index);
	u32 phase = le32_to_cpu(READ_ONCE(cqe->phase));

	if (!tern_phase_valid(phase, index, kcq->log_size))
		return NULL;

	/* The rest of the entry was written before its phase. */
	dma_rmb();
	return cqe;
}

/* Returns the entries that were polled to the poster. */
static void tern_wq_complete(struct tern_wq *wq)
{
	/*
	 * Release: the next poster overwrites the slot, and its doorbell orders
	 * earlier writes for the device.
	 */
	smp_store_release(&wq->ci, wq->polled);
}

/* Batch size of ib_core's own pollers. */
#define TERN_POLL_BATCH		16

static bool tern_kcq_has_sq(const struct tern_kcq *kcq, const struct tern_qp *qp)
{
	return &to_tcq(qp->ibqp.send_cq)->kern == kcq;
}

static bool tern_kcq_has_rq(const struct tern_kcq *kcq, const struct tern_qp *qp)
{
	return &to_tcq(qp->ibqp.recv_cq)->kern == kcq;
}

/*
 * Finds the request that WQE @index was posted for. It completes that request
 * and, in a send queue, those before it that were not signaled.
 */
static bool tern_wq_take_posted(struct tern_wq *wq, u32 index,
				struct tern_posted *posted)
{
	/* Acquire: a hostile device may complete a request before it sees it. */
	u32 pi = smp_load_acquire(&wq->pi);

	if (index - wq->polled >= pi - wq->polled)
		return false;

	*posted = *tern_wq_posted(wq, index);
	wq->polled = index + 1;
	return true;
}

/* Finds the request that an entry completes, and its queue; none for an SRQ. */
static bool tern_cqe_take_posted(struct tern_kcq *kcq, struct tern_qp *qp,
				 const struct tern_cqe *cqe, bool recv,
				 struct tern_posted *posted,
				 struct tern_wq **done)
{
	if (!(recv ? tern_kcq_has_rq(kcq, qp) : tern_kcq_has_sq(kcq, qp)))
		return false;

#ifndef TERN_WITHOUT_KSRQ
	if (recv && qp->ibqp.srq) {
		*done = NULL;
		return tern_srq_take_posted(to_tsrq(qp->ibqp.srq), cqe, posted);
	}

#endif
	*done = recv ? &qp->kern.rq : &qp->kern.sq;
	return tern_wq_take_posted(*done,
				   le32_to_cpu(READ_ONCE(cqe->wqe_index)),
				   posted);
}

/*
 * The owner of a receive request relies on both: it might mistake the request
 * for a send by the opcode, and it reads as many bytes as were received.
 */
static void tern_check_wc(struct tern_kcq *kcq, bool recv,
			  const struct tern_posted *posted, struct ib_wc *wc)
{
	if (recv != !!(wc->opcode & IB_WC_RECV))
		wc->opcode = recv ? IB_WC_RECV : IB_WC_SEND;

	if (wc->opcode != IB_WC_RECV || wc->byte_len <= posted->length)
		return;

	wc->status = IB_WC_LOC_LEN_ERR;
	wc->byte_len = 0;
	wc->wc_flags = 0;
	kcq->bad++;
}

/* Returns false for an entry that completes no posted request. */
static bool tern_poll_cqe(struct tern_kcq *kcq, const struct tern_cqe *cqe,
			  struct ib_wc *wc, struct tern_wq **done)
{
	bool recv = READ_ONCE(cqe->flags) & TERN_CQE_F_RECV;
	u32 qpn = le32_to_cpu(READ_ONCE(cqe->qpn));
	struct tern_posted posted;
	struct tern_qp *qp;

	/* tern_kcq_forget() has cleared the number. */
	if (qpn == TERN_QPN_NONE)
		return false;

	/* Destroying a QP takes the CQ's lock before the QP is freed. */
	qp = xa_load(&kcq->qps, qpn);
	if (!qp || !tern_cqe_take_posted(kcq, qp, cqe, recv, &posted, done)) {
		kcq->bad++;
		return false;
	}

	tern_cqe_to_wc(cqe, wc);
	tern_check_wc(kcq, recv, &posted, wc);
	wc->wr_id = posted.wr_id;
	wc->qp = &qp->ibqp;
	return true;
}

/*
 * Polls up to TERN_POLL_BATCH completions. CQEs return to the device before
 * WQEs return to the poster: otherwise a queue as large as its CQ could
 * overflow it.
 */
static int tern_poll_batch(struct tern_kcq *kcq, int num, struct ib_wc *wc)
{
	struct tern_wq *done[TERN_POLL_BATCH];
	u32 first = kcq->ci;
	struct tern_cqe *cqe;
	int i, n = 0;

	/* At most one pass, even if the device writes only bad entries. */
	while (n < num && kcq->ci - first < BIT(kcq->log_size)) {
		cqe = tern_kcq_peek(kcq, kcq->ci);
		if (!cqe)
			break;
		if (tern_poll_cqe(kcq, cqe, &wc[n], &done[n]))
			n++;
		kcq->ci++;
	}
	if (kcq->ci == first)
		return 0;

	/* Finish reading the entries before the device may overwrite them. */
	dma_mb();
	WRITE_ONCE(kcq->record->ci, cpu_to_le32(kcq->ci));

	for (i = 0; i < n; i++)
		if (done[i])
			tern_wq_complete(done[i]);

	return n;
}

static int tern_poll_cqes(struct tern_kcq *kcq, int num, struct ib_wc *wc)
{
	int n = 0, want, got;

	do {
		want = min(num - n, TERN_POLL_BATCH);
		got = tern_poll_batch(kcq, want, wc + n);
		n += got;
	} while (got == TERN_POLL_BATCH);

	return n;
}

static int tern_flush_wq(struct tern_qp *qp, struct tern_wq *wq,
			 enum ib_wc_opcode opcode, int num, struct ib_wc *wc)
{
	int n;

	spin_lock(&wq->lock);
	for (n = 0; n < num && wq->polled != wq->pi; n++) {
		tern_flush_wc(&qp->ibqp, opcode,
			      tern_wq_posted(wq, wq->polled)->wr_id, &wc[n]);
		wq->polled++;
	}
	tern_wq_complete(wq);
	spin_unlock(&wq->lock);

	return n;
}

/* Flushes the requests posted to queues of a lost CQ. */
static int tern_flush_kcq(struct tern_kcq *kcq, int num, struct ib_wc *wc)
{
	struct tern_qp *qp;
	unsigned long qpn;
	int n = 0;

	xa_for_each(&kcq->qps, qpn, qp) {
		if (tern_kcq_has_sq(kcq, qp))
			n += tern_flush_wq(qp, &qp->kern.sq, IB_WC_SEND,
					   num - n, wc + n);
		if (tern_kcq_has_rq(kcq, qp))
			n += tern_flush_wq(qp, &qp->kern.rq, IB_WC_RECV,
					   num - n, wc + n);
	}

	return n;
}

int tern_poll_cq(struct ib_cq *ibcq, int num, struct ib_wc *wc)
{
	struct tern_kcq *kcq = &to_tcq(ibcq)->kern;
	unsigned long flags;
	int n = 0;

	spin_lock_irqsave(&kcq->lock, flags);
	if (!kcq->drained)
		n = tern_poll_cqes(kcq, num, wc);
	if (n < num && kcq->lost) {
		/* A late entry would complete a request twice. */
		kcq->drained = true;
		n += tern_flush_kcq(kcq, num - n, wc + n);
	}
	spin_unlock_irqrestore(&kcq->lock, flags);

	return n;
}

static bool tern_wq_pending(struct tern_wq *wq)
{
	bool pending;

	spin_lock(&wq->lock);
	pending = wq->ci != wq->pi;
	spin_unlock(&wq->lock);

	return pending;
}

/* Whether a poll would return something. */
static bool tern_kcq_pending(struct tern_kcq *kcq)
{
	struct tern_qp *qp;
	unsigned long qpn;

	lockdep_assert_held(&kcq->lock);

	if (!kcq->drained && tern_kcq_peek(kcq, kcq->ci))
		return true;
	if (!kcq->lost)
		return false;

	xa_for_each(&kcq->qps, qpn, qp)
		if ((tern_kcq_has_sq(kcq, qp) && tern_wq_pending(&qp->kern.sq)) ||
		    (tern_kcq_has_rq(kcq, qp) && tern_wq_pending(&qp->kern.rq)))
			return true;

	return false;
}

int tern_req_notify_cq(struct ib_cq *ibcq, enum ib_cq_notify_flags flags)
{
	struct tern_ib_dev *dev = to_tdev(ibcq->device);
	struct tern_cq *cq = to_tcq(ibcq);
	struct tern_kcq *kcq = &cq->kern;
	unsigned long irq_flags;
	bool solicited;
	int missed = 0;
	u32 arm, next;

	solicited = (flags & IB_CQ_SOLICITED_MASK) == IB_CQ_SOLICITED;

	spin_lock_irqsave(&kcq->lock, irq_flags);
	WRITE_ONCE(kcq->armed, true);
	if (kcq->lost) {
		schedule_work(&dev->flush_work);
	} else {
		arm = tern_cq_arm_word(kcq->ci, READ_ONCE(kcq->arm_seq),
				       solicited);
		WRITE_ONCE(kcq->record->arm, cpu_to_le32(arm));
		/* The device writes a CQE, then reads the word. */
		dma_mb();
		next = tern_cq_unreported(kcq->ci,
					  le32_to_cpu(READ_ONCE(kcq->record->reported)));
		if (tern_kcq_peek(kcq, next))
			tern_ring(dev->core, TERN_DB_CMD_CQ_ARM, cq->cqn);
	}
	if (flags & IB_CQ_REPORT_MISSED_EVENTS)
		missed = tern_kcq_pending(kcq);
	spin_unlock_irqrestore(&kcq->lock, irq_flags);

	return missed;
}

/* An arm has fired. Called for one event at a time, before the owner is notified. */
void tern_kcq_event_taken(struct tern_kcq *kcq)
{
	WRITE_ONCE(kcq->armed, false);
	WRITE_ONCE(kcq->arm_seq, kcq->arm_seq + 1);
}

/* Drops the completions of a QP that generates no more; its number may be reused. */
void tern_kcq_forget(struct tern_kcq *kcq, struct tern_qp *qp)
{
#ifndef TERN_WITHOUT_KSRQ
	struct tern_posted posted;
#endif
	struct tern_cqe *cqe;
	u32 i;

	lockdep_assert_held(&kcq->lock);

	for (i = 0; i < BIT(kcq->log_size); i++) {
		cqe = tern_kcq_peek(kcq, kcq->ci + i);
		if (!cqe)
			break;
		if (le32_to_cpu(READ_ONCE(cqe->qpn)) != qp->ibqp.qp_num)
			continue;

		cqe->qpn = cpu_to_le32(TERN_QPN_NONE);
#ifndef TERN_WITHOUT_KSRQ
		/* Other QPs of the SRQ can post in place of the request. */
		if (qp->ibqp.srq && READ_ONCE(cqe->flags) & TERN_CQE_F_RECV)
			tern_srq_take_posted(to_tsrq(qp->ibqp.srq), cqe,
					     &posted);
#endif
	}
}

/*
 * The device no longer writes to the CQ, on which the caller holds a reference. Calls
 * the completion handler, in process context, if the owner waits and can poll something.
 */
void tern_kcq_mark_lost(struct tern_cq *cq)
{
	struct tern_kcq *kcq = &cq->kern;
	bool call;

	spin_lock_irq(&kcq->lock);
	WRITE_ONCE(kcq->lost, true);
	call = kcq->armed && tern_kcq_pending(kcq);
	if (call)
		WRITE_ONCE(kcq->armed, false);
	spin_unlock_irq(&kcq->lock);

	if (call)
		cq->ibcq.comp_handler(&cq->ibcq, cq->ibcq.cq_context);
}

/* Returns the next CQ with a number of at least @cqn, with a reference. */
static struct tern_cq *tern_cq_find(struct tern_ib_dev *dev, unsigned long *cqn)
{
	struct tern_ref *ref;

	xa_lock_irq(&dev->cqs);
	ref = xa_find(&dev->cqs, cqn, ULONG_MAX, XA_PRESENT);
	if (ref)
		tern_ref_get(ref);
	xa_unlock_irq(&dev->cqs);

	return ref ? container_of(ref, struct tern_cq, ref) : NULL;
}

/* Queued when the device died, and when a lost CQ was armed or work posted to it. */
void tern_flush_work(struct work_struct *work)
{
	struct tern_ib_dev *dev = container_of(work, struct tern_ib_dev,
					       flush_work);
	bool dead = tern_core_dead(dev->core);
	unsigned long cqn = 0;
	struct tern_cq *cq;

	for (; (cq = tern_cq_find(dev, &cqn)); cqn++) {
		if (tern_kcq_used(&cq->kern) &&
		    (dead || READ_ONCE(cq->kern.lost)))
			tern_kcq_mark_lost(cq);
		tern_ref_put(&cq->ref);
	}
}
