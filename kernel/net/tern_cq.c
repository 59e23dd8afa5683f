// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Completion queues of the network device, and creation of Ethernet queues. */

#include <linux/dma-mapping.h>

#include "tern_net.h"
#include "tern_util.h"

/* Whether the event is about the queue, not about an earlier one with its number. */
static bool tern_net_cq_has(const struct tern_net_cq *cq, const struct tern_eqe *eqe)
{
	return le32_to_cpu(eqe->id) == READ_ONCE(cq->id) &&
	       le32_to_cpu(eqe->generation) == READ_ONCE(cq->generation);
}

static bool tern_channel_has(const struct tern_channel *ch, const struct tern_eqe *eqe)
{
	return tern_net_cq_has(&ch->tx.cq, eqe) || tern_net_cq_has(&ch->rx.cq, eqe);
}

/* The device reported an error of a completion queue. Process context. */
void tern_net_cq_error(struct tern_net *net, const struct tern_eqe *eqe)
{
	const struct tern_queues *queues;
	unsigned int i;

	rcu_read_lock();
	queues = rcu_dereference(net->queues);
	for (i = 0; queues && i < queues->config.channels; i++)
		if (tern_channel_has(&queues->channel[i], eqe))
			tern_net_fault(net);
	rcu_read_unlock();
}

int tern_net_cq_alloc(struct tern_net *net, struct tern_net_cq *cq, u8 log_size)
{
	int err;

	err = tern_buf_alloc(net->tdev, &cq->buf, sizeof(*cq->ring), log_size);
	if (err)
		return err;
	cq->ring = cq->buf.va;
	cq->record = cq->buf.va + cq->buf.record_offset;
	cq->log_size = log_size;
	spin_lock_init(&cq->arm_lock);
	return 0;
}

void tern_net_cq_destroy(struct tern_net *net, struct tern_net_cq *cq)
{
	tern_cmd_destroy(net->tdev, TERN_CMD_DESTROY_CQ, cq->id);
}

/* Gives the memory of an empty completion queue to the device. */
int tern_net_cq_create(struct tern_channel *ch, struct tern_net_cq *cq)
{
	struct tern_cmd_create_cq cmd = {
		.pages = tern_buf_pages(&cq->buf),
		.record = tern_buf_record(&cq->buf),
		.eqn = cpu_to_le32(tern_eq_number(ch->eq)),
		.uar = cpu_to_le32(TERN_UAR_KERNEL),
		.log_size = cq->log_size,
	};
	struct tern_net *net = ch->net;
	struct tern_rsp_object rsp;
	int err;

	memset(cq->buf.va, 0, cq->buf.size);
	cq->ci = 0;
	cq->arm_seq = 0;
	err = tern_cmd_exec(&net->tdev->core, TERN_CMD_CREATE_CQ, &cmd, sizeof(cmd),
			    &rsp, sizeof(rsp));
	if (err)
		return err;
	WRITE_ONCE(cq->id, le32_to_cpu(rsp.id));
	WRITE_ONCE(cq->generation, le32_to_cpu(rsp.generation));
#ifndef TERN_WITHOUT_COALESCE
	err = tern_moderate_new(ch, cq);
	if (err)
		tern_net_cq_destroy(net, cq);
#endif
	return err;
}

static bool tern_net_cq_written(const struct tern_net_cq *cq, u32 index)
{
	const struct tern_cqe *cqe = &cq->ring[tern_ring_slot(index, cq->log_size)];

	return tern_phase_valid(le32_to_cpu(READ_ONCE(cqe->phase)), index,
				cq->log_size);
}

/* Returns the next entry, or NULL. */
const struct tern_cqe *tern_net_cq_peek(const struct tern_net_cq *cq)
{
	if (!tern_net_cq_written(cq, cq->ci))
		return NULL;
	/* The rest of the entry was written before its phase. */
	dma_rmb();
	return &cq->ring[tern_ring_slot(cq->ci, cq->log_size)];
}

/* Returns consumed entries to the device. */
void tern_net_cq_release(struct tern_net_cq *cq)
{
	/* Read them before the device learns that their slots are free. */
	dma_mb();
	WRITE_ONCE(cq->record->ci, cpu_to_le32(cq->ci));
}

/*
 * Requests an event. NAPI no longer owns the queue here: the lock keeps an arm word
 * with an old sequence number from overwriting that of a later poll on another CPU.
 * If such a poll advances ci, the entry may belong to a later pass.
 */
void tern_net_cq_arm(struct tern_net *net, struct tern_net_cq *cq)
{
	u32 ci, next, word;

	spin_lock(&cq->arm_lock);
	ci = READ_ONCE(cq->ci);
	word = tern_cq_arm_word(ci, READ_ONCE(cq->arm_seq), false);
	WRITE_ONCE(cq->record->arm, cpu_to_le32(word));
	/* The device writes an entry, then reads the word. */
	dma_mb();
	next = tern_cq_unreported(ci, le32_to_cpu(READ_ONCE(cq->record->reported)));
	if (tern_net_cq_written(cq, next) || READ_ONCE(cq->ci) != ci)
		tern_ring(&net->tdev->core, TERN_DB_CMD_CQ_ARM, cq->id);
	spin_unlock(&cq->arm_lock);
}

/* Handles an event of a completion queue. Hard interrupt context. */
void tern_net_event(void *context, const struct tern_eqe *eqe)
{
	struct tern_channel *ch = context;
	struct tern_net_cq *cq;

	if (tern_net_cq_has(&ch->rx.cq, eqe))
		cq = &ch->rx.cq;
	else if (tern_net_cq_has(&ch->tx.cq, eqe))
		cq = &ch->tx.cq;
	else
		return; /* stale event of a destroyed queue */
	/* The device ignores another arm with the same sequence number. */
	WRITE_ONCE(cq->arm_seq, cq->arm_seq + 1);
	napi_schedule_irqoff(&ch->napi);
}

/* Gives the descriptors in @buf to the device; the caller sets the direction. */
int tern_eth_queue_create(struct tern_net *net,
			  struct tern_cmd_create_eth_queue *cmd,
			  const struct tern_buf *buf, const struct tern_net_cq *cq,
			  u32 *id)
{
	cmd->pages = tern_buf_pages(buf);
	cmd->record = tern_buf_record(buf);
	cmd->cqn = cpu_to_le32(cq->id);
	cmd->uar = cpu_to_le32(TERN_UAR_KERNEL);
	cmd->port = TERN_ETH_PORT;
	return tern_cmd_create(net->tdev, TERN_CMD_CREATE_ETH_QUEUE, cmd, sizeof(*cmd),
			       id);
}
