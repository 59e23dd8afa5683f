// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Execution of admin commands, typed commands of the network driver, and queue
 * memory.
 */

#ifndef TERN_WITHOUT_KUNIT
#include <kunit/static_stub.h>
#endif
#include <linux/errno.h>
#include <linux/jiffies.h>
#ifndef TERN_WITHOUT_VERBS
#include <linux/math64.h>
#endif
#include <linux/sizes.h>

#include "tern_dev.h"
#include "tern_util.h"
#ifndef TERN_WITHOUT_VERBS
#include "tern_verbs.h"
#endif

/* Interval at which a waiting command checks for a lost interrupt. */
#define TERN_CMD_POLL		(HZ / 10)

#ifndef TERN_WITHOUT_VERBS
/* Device memory, in bytes, that a slow device zeroes per second. */
#define TERN_DM_ZERO_RATE	SZ_128M

#endif
/* The space for a record: every record fits, and is aligned to its size. */
#define TERN_BUF_RECORD		sizeof(struct tern_cq_record)
static_assert(sizeof(struct tern_eq_record) <= TERN_BUF_RECORD);
static_assert(sizeof(struct tern_eth_record) <= TERN_BUF_RECORD);

#ifndef TERN_WITHOUT_VERBS
/*
 * Whether the command takes as long as the device needs to zero memory. Only
 * TERN_AQ_MAX_SLOW such commands may be in flight, so that slots remain for others.
 */
static bool tern_cmd_is_slow(u16 opcode)
{
	return opcode == TERN_CMD_ALLOC_DM;
}

/*
 * Seconds to add to a command's timeout. ALLOC_DM completes once its memory is
 * zeroed, and all concurrent ALLOC_DM together zero at most @dm_size bytes.
 */
unsigned int tern_cmd_extra_seconds(u16 opcode, u64 dm_size)
{
	u64 seconds = div_u64(dm_size, TERN_DM_ZERO_RATE);

	return tern_cmd_is_slow(opcode) ? min_t(u64, seconds, SZ_1M) : 0;
}

#endif
/*
 * Whether the caller frees memory afterwards, also if the command fails. A
 * command that gives memory to the device changes nothing if it is not submitted.
 */
static bool tern_cmd_frees_memory(u16 opcode)
{
	switch (opcode) {
	case TERN_CMD_DESTROY_EQ:
	case TERN_CMD_DESTROY_CQ:
	case TERN_CMD_DESTROY_ETH_QUEUE:
#ifndef TERN_WITHOUT_VERBS
	case TERN_CMD_DESTROY_MR:
	case TERN_CMD_DESTROY_QP:
	case TERN_CMD_MODIFY_QP:	/* to RESET: drops posted work */
	case TERN_CMD_DESTROY_SRQ:
	case TERN_CMD_DESTROY_COMP_CNTR:
#endif
		return true;
	default:
		return false;
	}
}

/*
 * Whether a command gives memory to the device or takes it back. If such a
 * command is not answered, the owner of the memory is unknown.
 */
bool tern_cmd_moves_memory(u16 opcode)
{
	switch (opcode) {
	case TERN_CMD_CREATE_EQ:
	case TERN_CMD_CREATE_CQ:
	case TERN_CMD_CREATE_ETH_QUEUE:
#ifndef TERN_WITHOUT_VERBS
	case TERN_CMD_RESIZE_CQ:
	case TERN_CMD_CREATE_MR:
	case TERN_CMD_UPDATE_PAGES:
	case TERN_CMD_REREG_MR:
	case TERN_CMD_CREATE_QP:
	case TERN_CMD_CREATE_SRQ:
	case TERN_CMD_MODIFY_SRQ:
	case TERN_CMD_CREATE_COMP_CNTR:
#endif
		return true;
	default:
		return tern_cmd_frees_memory(opcode);
	}
}

/* Gives up on a late command, unless it completed at the last moment. */
static int tern_cmd_abandon(struct tern_dev *tdev, unsigned int index, u16 opcode)
{
	struct tern_aq *aq = &tdev->aq;

	if (!tern_aq_abandon(aq, index))
		return aq->slots[index].err;

	/* The caller will free memory that the device may still own. */
	if (tern_cmd_moves_memory(opcode))
		tern_dev_kill(tdev);

	/*
	 * Last: tern_aq_free() waits for this, and a device that was brought up
	 * again must not be killed.
	 */
	tern_aq_leave(aq);
	return -ETIMEDOUT;
}

/*
 * If this times out, the device has answered no command for that long. Memory that it
 * may still access would be lost, so it is stopped.
 */
static int tern_cmd_claim(struct tern_dev *tdev, u16 opcode)
{
	int index;

#ifndef TERN_WITHOUT_VERBS
	if (tern_cmd_is_slow(opcode))
		return tern_aq_claim_slow(tdev, tdev->aq.timeout +
					  HZ * tern_cmd_extra_seconds(opcode, tdev->core.dm_size));
#endif
	index = tern_aq_claim(tdev);
	if (index == -ETIMEDOUT && tern_cmd_frees_memory(opcode))
		tern_dev_kill(tdev);
	return index;
}

static int tern_cmd_wait(struct tern_dev *tdev, unsigned int index, u16 opcode)
{
	unsigned long deadline = jiffies + tdev->aq.timeout;
	struct tern_cmd_slot *slot = &tdev->aq.slots[index];

#ifndef TERN_WITHOUT_VERBS
	deadline += HZ * tern_cmd_extra_seconds(opcode, tdev->core.dm_size);
#endif
#ifndef TERN_WITHOUT_AQ_POLL
	tern_aq_expect(&tdev->aq, index);
#endif
	while (!wait_for_completion_timeout(&slot->done, TERN_CMD_POLL)) {
		/*
		 * Sample the deadline first, so that the queue is checked once
		 * after it expires.
		 */
		bool late = time_after(jiffies, deadline);

		tern_aq_reap(tdev);
		tern_dev_check(tdev);
		if (late && !completion_done(&slot->done))
			return tern_cmd_abandon(tdev, index, opcode);
	}
	return slot->err;
}

/*
 * Executes an admin command and waits for its completion, up to a minute, or longer
 * while the device is busy with the commands of earlier callers. Bytes of @out that the
 * device does not write are zeroed. Process context.
 *
 * Returns 0; the errno of the device's status, see tern_status_to_errno(); -ETIMEDOUT
 * if no slot became free, or without an answer: the device may still execute the
 * command, unless the command moves memory, in which case the device was stopped; -EIO
 * if the device is dead.
 */
int tern_cmd_exec(struct tern_core *core, u16 opcode, const void *in,
		  size_t in_len, void *out, size_t out_len)
{
	struct tern_dev *tdev = core_to_tdev(core);
	struct tern_aq *aq = &tdev->aq;
	struct tern_mailbox *mbox;
	size_t written;
	int index;
	int err;

#ifndef TERN_WITHOUT_KUNIT
	KUNIT_STATIC_STUB_REDIRECT(tern_cmd_exec, core, opcode, in, in_len, out,
				   out_len);

#endif
	might_sleep();
	if (WARN_ON_ONCE(in_len > TERN_CMD_MAX_LEN || out_len > TERN_CMD_MAX_LEN))
		return -EINVAL;

	index = tern_cmd_claim(tdev, opcode);
	if (index < 0)
		return index;

	mbox = &aq->mem->mbox[index];
	if (in_len)
		memcpy(mbox->in, in, in_len);
	tern_aq_submit(tdev, index, opcode, in_len, out_len);
	err = tern_cmd_wait(tdev, index, opcode);
	if (err == -ETIMEDOUT)
		return err;

	if (!err && out_len) {
		written = min_t(size_t, aq->slots[index].out_len, out_len);
		memcpy(out, mbox->out, written);
		memset(out + written, 0, out_len - written);
	}
	tern_aq_release(aq, index);
	return err;
}
EXPORT_SYMBOL_GPL(tern_cmd_exec);

/* Allocates zeroed memory for 1 << @log_size entries and a doorbell record. */
int tern_buf_alloc(struct tern_dev *tdev, struct tern_buf *buf,
		   size_t entry_size, u8 log_size)
{
	size_t entries = ALIGN(entry_size << log_size, TERN_BUF_RECORD);

	buf->size = entries + TERN_BUF_RECORD;
	buf->record_offset = entries;
	buf->va = dma_alloc_coherent(tern_dma_dev(tdev), buf->size, &buf->dma,
				     GFP_KERNEL);
	return buf->va ? 0 : -ENOMEM;
}

void tern_buf_free(struct tern_dev *tdev, struct tern_buf *buf)
{
	dma_free_coherent(tern_dma_dev(tdev), buf->size, buf->va, buf->dma);
	buf->va = NULL;
}

struct tern_pages tern_buf_pages(const struct tern_buf *buf)
{
	return (struct tern_pages){
		.addr = cpu_to_le64(buf->dma),
		.num = cpu_to_le32(DIV_ROUND_UP(buf->record_offset, SZ_4K)),
		.page_shift = ilog2(SZ_4K),
		.kind = TERN_PAGES_DIRECT,
	};
}

/* DMA address of the doorbell record. */
__le64 tern_buf_record(const struct tern_buf *buf)
{
	return cpu_to_le64(buf->dma + buf->record_offset);
}

/* Executes a command that creates an object and stores its number in @id. */
int tern_cmd_create(struct tern_dev *tdev, u16 opcode, const void *in,
		    size_t in_len, u32 *id)
{
	struct tern_rsp_object rsp;
	int err;

	err = tern_cmd_exec(&tdev->core, opcode, in, in_len, &rsp, sizeof(rsp));
	if (!err)
		*id = le32_to_cpu(rsp.id);
	return err;
}

/*
 * Destroys object @id. On return the device no longer accesses the object's
 * memory: a device that refuses is stopped.
 */
void tern_cmd_destroy(struct tern_dev *tdev, u16 opcode, u32 id)
{
	struct tern_cmd_object cmd = { .id = cpu_to_le32(id) };

	if (tern_cmd_exec(&tdev->core, opcode, &cmd, sizeof(cmd), NULL, 0))
		tern_dev_kill(tdev);
}

int tern_cmd_query_port(struct tern_dev *tdev, struct tern_rsp_port *port)
{
	struct tern_cmd_query_port cmd = { .port = TERN_ETH_PORT };

	return tern_cmd_exec(&tdev->core, TERN_CMD_QUERY_PORT, &cmd,
			     sizeof(cmd), port, sizeof(*port));
}
