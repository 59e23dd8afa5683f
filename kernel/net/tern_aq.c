// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Admin queue rings: many commands in flight, answered in any order. */

#include <linux/array_size.h>
#include <linux/errno.h>
#include <linux/io.h>
#include <linux/jiffies.h>
#include <linux/ktime.h>
#include <linux/sched.h>

#include "tern_dev.h"
#include "tern_util.h"

/* Timeout of a command. */
#define TERN_CMD_TIMEOUT	(30 * HZ)

static_assert(TERN_AQ_SIZE - 1 <= TERN_TAG_SLOT_MASK);

/* Translates the TERN_ST_* of an admin command to a negative errno. */
int tern_status_to_errno(u16 status)
{
	static const int map[] = {
		[TERN_ST_OK] = 0,
		[TERN_ST_BAD_OPCODE] = -EOPNOTSUPP,
		[TERN_ST_BAD_VERSION] = -EOPNOTSUPP,
		[TERN_ST_BAD_LENGTH] = -EINVAL,
		[TERN_ST_BAD_PARAM] = -EINVAL,
		[TERN_ST_BAD_HANDLE] = -ENOENT,
		[TERN_ST_BAD_STATE] = -EINVAL,
		[TERN_ST_BUSY] = -EBUSY,
		[TERN_ST_NO_RESOURCE] = -ENOMEM,
		[TERN_ST_NO_MEMORY] = -ENOMEM,
		[TERN_ST_NOT_SUPPORTED] = -EOPNOTSUPP,
		[TERN_ST_DMA_ERROR] = -EFAULT,
		[TERN_ST_DENIED] = -EPERM,
	};

	return status < ARRAY_SIZE(map) ? map[status] : -EIO;
}

void tern_aq_init(struct tern_dev *tdev)
{
	struct tern_aq *aq = &tdev->aq;
	unsigned int i;

	aq->timeout = TERN_CMD_TIMEOUT;
	spin_lock_init(&aq->lock);
	init_waitqueue_head(&aq->wait);
	INIT_LIST_HEAD(&aq->waiters);
#ifndef TERN_WITHOUT_VERBS
	INIT_LIST_HEAD(&aq->slow_waiters);
#endif
	for (i = 0; i < TERN_AQ_SIZE; i++)
		init_completion(&aq->slots[i].done);
}

/* Allocates empty rings. The device must have been reset. */
int tern_aq_alloc(struct tern_dev *tdev)
{
	struct tern_aq *aq = &tdev->aq;
	unsigned int i;

	aq->mem = dma_alloc_coherent(tern_dma_dev(tdev), sizeof(*aq->mem),
				     &aq->dma, GFP_KERNEL);
	if (!aq->mem)
		return -ENOMEM;

	aq->tail = 0;
	aq->ci = 0;
#ifndef TERN_WITHOUT_AQ_POLL
	aq->arm = 0;
	aq->early = false;
#endif
	bitmap_fill(aq->free, TERN_AQ_SIZE);
	for (i = 0; i < TERN_AQ_SIZE; i++)
		aq->slots[i].state = TERN_CMD_IDLE;
	return 0;
}

/* The device must be dead and do no DMA, and its interrupt must be freed. */
void tern_aq_free(struct tern_dev *tdev)
{
	struct tern_aq *aq = &tdev->aq;

	wait_event(aq->wait, !READ_ONCE(aq->users));
	/* The last user may still be inside the lock. */
	spin_lock_irq(&aq->lock);
	spin_unlock_irq(&aq->lock);

	dma_free_coherent(tern_dma_dev(tdev), sizeof(*aq->mem), aq->mem, aq->dma);
	aq->mem = NULL;
}

#ifndef TERN_WITHOUT_VERBS
/* Returns the number of slots that slow commands use, also abandoned ones. */
static unsigned int tern_aq_num_slow(const struct tern_aq *aq)
{
	unsigned int i, num = 0;

	lockdep_assert_held(&aq->lock);

	for_each_clear_bit(i, aq->free, TERN_AQ_SIZE)
		num += aq->slots[i].slow;
	return num;
}

#endif
/* Gives a free slot to the caller. Returns false if it must wait for one. */
static bool tern_aq_take_slot(struct tern_aq *aq, struct tern_aq_waiter *waiter)
{
	unsigned int index;

	lockdep_assert_held(&aq->lock);

#ifndef TERN_WITHOUT_VERBS
	if (waiter->slow && tern_aq_num_slow(aq) >= TERN_AQ_MAX_SLOW)
		return false;
#endif
	index = find_first_bit(aq->free, TERN_AQ_SIZE);
	if (index >= TERN_AQ_SIZE)
		return false;
	__clear_bit(index, aq->free);
#ifndef TERN_WITHOUT_VERBS
	aq->slots[index].slow = waiter->slow;
#endif
	aq->users++;
	waiter->index = index;
	return true;
}

static void tern_aq_wake(struct tern_aq_waiter *waiter)
{
	list_del(&waiter->entry);
	complete(&waiter->done);
}

/* Gives free slots to the callers that have waited longest. */
static void tern_aq_grant(struct tern_aq *aq, struct list_head *waiters)
{
	struct tern_aq_waiter *waiter, *next;

	list_for_each_entry_safe(waiter, next, waiters, entry) {
		if (!tern_aq_take_slot(aq, waiter))
			return;
		tern_aq_wake(waiter);
	}
}

/* Makes a slot free. */
static void tern_aq_put(struct tern_aq *aq, unsigned int index)
{
	lockdep_assert_held(&aq->lock);

	aq->slots[index].state = TERN_CMD_IDLE;
	__set_bit(index, aq->free);
#ifndef TERN_WITHOUT_VERBS
	/* Slow commands use only a part of the slots, so they do not starve others. */
	tern_aq_grant(aq, &aq->slow_waiters);
#endif
	tern_aq_grant(aq, &aq->waiters);
}

static void tern_aq_complete(struct tern_aq *aq, const struct tern_acq_entry *entry)
{
	u32 tag = le32_to_cpu(entry->tag);
	struct tern_cmd_slot *slot;
	unsigned int index;

	index = tern_tag_slot(tag);
	lockdep_assert_held(&aq->lock);

	if (index >= TERN_AQ_SIZE)
		return;
	slot = &aq->slots[index];
	if (slot->tag != tag)
		return;

	switch (slot->state) {
	case TERN_CMD_SUBMITTED:
		slot->err = tern_status_to_errno(le16_to_cpu(entry->status));
		slot->out_len = le16_to_cpu(entry->out_len);
		slot->state = TERN_CMD_DONE;
		aq->answered++;
		complete(&slot->done);
		break;
	case TERN_CMD_ABANDONED:
		aq->answered++;
		tern_aq_put(aq, index);
		break;
	default:
		/* A duplicate or unsolicited answer. */
		break;
	}
}

/* Returns the next answer, or NULL if there is none. */
static const struct tern_acq_entry *tern_aq_answer(const struct tern_aq *aq)
{
	const struct tern_acq_entry *entry;
	u32 ci = READ_ONCE(aq->ci);

	entry = &aq->mem->acq[tern_ring_slot(ci, TERN_AQ_LOG_SIZE)];
	return tern_phase_valid(le32_to_cpu(READ_ONCE(entry->phase)), ci,
				TERN_AQ_LOG_SIZE) ? entry : NULL;
}

/* Processes pending answers. Returns whether there were any. */
static bool tern_aq_take(struct tern_aq *aq)
{
	const struct tern_acq_entry *entry;
	unsigned int n;

	lockdep_assert_held(&aq->lock);

	for (n = 0; n < TERN_AQ_SIZE; n++) {
		entry = tern_aq_answer(aq);
		if (!entry)
			break;
		/* The rest of the entry was written before its phase. */
		dma_rmb();
		tern_aq_complete(aq, entry);
		WRITE_ONCE(aq->ci, aq->ci + 1);
	}
	return n;
}

#ifndef TERN_WITHOUT_AQ_POLL
/* The same before an interrupt, which comes if the armed answer is among them. */
static bool tern_aq_take_early(struct tern_aq *aq)
{
	u32 ci = aq->ci;

	if (!tern_aq_take(aq))
		return false;
	if (aq->arm - ci < aq->ci - ci)
		aq->early = true;
	return true;
}

/*
 * Requests an interrupt for the next answer. Processes answers that came before.
 * Returns whether there were any.
 */
static bool tern_aq_arm(struct tern_aq *aq)
{
	unsigned int n;

	/* A device has no more answers than there are slots. */
	for (n = 0; n <= TERN_AQ_SIZE; n++) {
		aq->arm = aq->ci;
		WRITE_ONCE(aq->mem->record.arm, cpu_to_le32(aq->arm));
		/* The device writes an answer, issues a full barrier and reads arm. */
		dma_mb();
		if (!tern_aq_take_early(aq))
			break;
	}
	return n;
}

/* Whether the device polls for commands. */
static bool tern_aq_polled(const struct tern_aq *aq)
{
	return le32_to_cpu(READ_ONCE(aq->mem->record.status)) & TERN_AQ_ST_POLLED;
}

#endif
/*
 * Processes pending answers. Returns whether there were any since the last interrupt.
 * Any context.
 */
bool tern_aq_reap(struct tern_dev *tdev)
{
	struct tern_aq *aq = &tdev->aq;
	unsigned long flags;
	bool any;

	spin_lock_irqsave(&aq->lock, flags);
	any = tern_aq_take(aq);
#ifndef TERN_WITHOUT_AQ_POLL
	any |= aq->early;
	aq->early = false;
	if (aq->ci != aq->tail)
		any |= tern_aq_arm(aq);
#endif
	spin_unlock_irqrestore(&aq->lock, flags);
	return any;
}

static void tern_aq_fail(struct list_head *waiters)
{
	struct tern_aq_waiter *waiter, *next;

	list_for_each_entry_safe(waiter, next, waiters, entry) {
		waiter->index = -EIO;
		tern_aq_wake(waiter);
	}
}

/* Wakes all waiters with -EIO. TERN_DEV_DEAD must be set. Any context. */
void tern_aq_fail_all(struct tern_dev *tdev)
{
	struct tern_aq *aq = &tdev->aq;
	unsigned long flags;
	unsigned int i;

	spin_lock_irqsave(&aq->lock, flags);
	for (i = 0; i < TERN_AQ_SIZE; i++) {
		if (aq->slots[i].state != TERN_CMD_SUBMITTED)
			continue;
		aq->slots[i].err = -EIO;
		aq->slots[i].state = TERN_CMD_DONE;
		complete(&aq->slots[i].done);
	}
	tern_aq_fail(&aq->waiters);
#ifndef TERN_WITHOUT_VERBS
	tern_aq_fail(&aq->slow_waiters);
#endif
	spin_unlock_irqrestore(&aq->lock, flags);
}

#ifndef TERN_WITHOUT_RESET
/* Makes a live device detect a queue overrun, which is fatal to it. */
int tern_aq_overrun(struct tern_dev *tdev)
{
	struct tern_aq *aq = &tdev->aq;
	unsigned long flags;
	int err = -EIO;

	spin_lock_irqsave(&aq->lock, flags);
	if (!tern_dev_dead(tdev)) {
		writel(aq->tail + TERN_AQ_SIZE + 1, tdev->regs + TERN_REG_AQ_TAIL);
		err = 0;
	}
	spin_unlock_irqrestore(&aq->lock, flags);
	return err;
}

#endif
/*
 * Returns true when the claim is settled: the waiter has a slot, or -EIO if the
 * device is dead. Otherwise the waiter queues after earlier ones.
 */
static bool tern_aq_try_claim(struct tern_dev *tdev, struct tern_aq_waiter *waiter)
{
	struct list_head *waiters = &tdev->aq.waiters;
	struct tern_aq *aq = &tdev->aq;
	unsigned long flags;
	bool settled = true;

#ifndef TERN_WITHOUT_VERBS
	if (waiter->slow)
		waiters = &aq->slow_waiters;
#endif
	init_completion(&waiter->done);
	spin_lock_irqsave(&aq->lock, flags);
	/*
	 * Checked under the lock, so that a thread that sets the bit and then
	 * takes the lock sees every user.
	 */
	if (tern_dev_dead(tdev)) {
		waiter->index = -EIO;
	} else if (!list_empty(waiters) || !tern_aq_take_slot(aq, waiter)) {
		list_add_tail(&waiter->entry, waiters);
		settled = false;
	}
	spin_unlock_irqrestore(&aq->lock, flags);
	return settled;
}

/*
 * Stops waiting. Returns the slot if the waiter got one at the last moment,
 * otherwise @err.
 */
static int tern_aq_give_up(struct tern_aq *aq, struct tern_aq_waiter *waiter, int err)
{
	unsigned long flags;

	spin_lock_irqsave(&aq->lock, flags);
	if (completion_done(&waiter->done))
		err = waiter->index;
	else
		list_del(&waiter->entry);
	spin_unlock_irqrestore(&aq->lock, flags);
	return err;
}

/*
 * Claims a free slot, after earlier callers. Returns -EIO if the device is dead,
 * -ETIMEDOUT if no slot became free and the device answered no command for the
 * timeout.
 */
int tern_aq_claim(struct tern_dev *tdev)
{
	unsigned long left, timeout = READ_ONCE(tdev->aq.timeout);
	struct tern_aq_waiter waiter = {};
	struct tern_aq *aq = &tdev->aq;
	u32 answered;

	if (tern_aq_try_claim(tdev, &waiter))
		return waiter.index;
	do {
		answered = READ_ONCE(aq->answered);
		left = wait_for_completion_timeout(&waiter.done, timeout);
	} while (!left && answered != READ_ONCE(aq->answered));
	return left ? waiter.index : tern_aq_give_up(aq, &waiter, -ETIMEDOUT);
}

#ifndef TERN_WITHOUT_VERBS
/*
 * The same for a slow command, which waits @timeout jiffies for other slow commands.
 * The wait also ends with -EINTR when the caller is killed.
 */
int tern_aq_claim_slow(struct tern_dev *tdev, unsigned long timeout)
{
	struct tern_aq_waiter waiter = { .slow = true };
	long left;

	if (tern_aq_try_claim(tdev, &waiter))
		return waiter.index;
	left = wait_for_completion_killable_timeout(&waiter.done, timeout);
	if (left > 0)
		return waiter.index;
	return tern_aq_give_up(&tdev->aq, &waiter, left ? -EINTR : -ETIMEDOUT);
}

#endif
/* Returns a slot whose command was answered. */
void tern_aq_release(struct tern_aq *aq, unsigned int index)
{
	unsigned long flags;

	spin_lock_irqsave(&aq->lock, flags);
	tern_aq_put(aq, index);
	aq->users--;
	wake_up(&aq->wait);
	spin_unlock_irqrestore(&aq->lock, flags);
}

/* Submits the command in the mailbox of slot @index. */
void tern_aq_submit(struct tern_dev *tdev, unsigned int index, u16 opcode,
		    size_t in_len, size_t out_len)
{
	struct tern_aq *aq = &tdev->aq;
	struct tern_aq_entry *entry;
	struct tern_cmd_slot *slot;
	unsigned long flags;
	dma_addr_t mbox;

	mbox = aq->dma + offsetof(struct tern_aq_mem, mbox[index]);
	slot = &aq->slots[index];
	spin_lock_irqsave(&aq->lock, flags);
	reinit_completion(&slot->done);
	slot->tag = tern_tag_make(index, aq->count++);
	if (tern_dev_dead(tdev)) {
		slot->err = -EIO;
		slot->state = TERN_CMD_DONE;
		complete(&slot->done);
		goto unlock;
	}

	entry = &aq->mem->aq[tern_ring_slot(aq->tail, TERN_AQ_LOG_SIZE)];
	*entry = (struct tern_aq_entry){
		.opcode = cpu_to_le16(opcode),
		.version = cpu_to_le16(TERN_CMD_VERSION),
		.tag = cpu_to_le32(slot->tag),
		.in_len = cpu_to_le16(in_len),
		.out_len = cpu_to_le16(out_len),
		.in_addr = cpu_to_le64(mbox + offsetof(struct tern_mailbox, in)),
		.out_addr = cpu_to_le64(mbox + offsetof(struct tern_mailbox, out)),
	};
	slot->state = TERN_CMD_SUBMITTED;
	aq->tail++;
#ifdef TERN_WITHOUT_AQ_POLL
	writel(aq->tail, tdev->regs + TERN_REG_AQ_TAIL);
#else
	/* The device reads tail first, then the entry and the mailbox. */
	dma_wmb();
	WRITE_ONCE(aq->mem->record.tail, cpu_to_le32(aq->tail));
	/* The device clears the bit, issues a full barrier and reads tail. */
	dma_mb();
	if (!tern_aq_polled(aq)) {
		writel(aq->tail, tdev->regs + TERN_REG_AQ_TAIL);
		/* If the device answers at once, the caller need not sleep. */
		tern_aq_take_early(aq);
	}
#endif
unlock:
	spin_unlock_irqrestore(&aq->lock, flags);
}

#ifndef TERN_WITHOUT_AQ_POLL
/* A device that polls answers most commands in this time: less than an interrupt takes. */
#define TERN_AQ_POLL_NS		(20 * NSEC_PER_USEC)

/*
 * Polls for the answer while the device polls for commands, then requests an
 * interrupt. The caller may sleep afterwards.
 */
void tern_aq_expect(struct tern_aq *aq, unsigned int index)
{
	struct tern_cmd_slot *slot = &aq->slots[index];
	unsigned long flags;
	u64 end;

	if (completion_done(&slot->done))
		return;

	end = ktime_get_ns() + TERN_AQ_POLL_NS;
	while (tern_aq_polled(aq) && !completion_done(&slot->done) &&
	       !tern_aq_answer(aq) && !need_resched() && ktime_get_ns() < end)
		cpu_relax();

	spin_lock_irqsave(&aq->lock, flags);
	tern_aq_take_early(aq);
	if (slot->state == TERN_CMD_SUBMITTED)
		tern_aq_arm(aq);
	spin_unlock_irqrestore(&aq->lock, flags);
}

#endif
/*
 * Gives up on a command that timed out. Returns false if it completed at the
 * last moment. Otherwise the caller must call tern_aq_leave().
 */
bool tern_aq_abandon(struct tern_aq *aq, unsigned int index)
{
	struct tern_cmd_slot *slot = &aq->slots[index];
	unsigned long flags;
	bool late;

	spin_lock_irqsave(&aq->lock, flags);
	late = slot->state != TERN_CMD_DONE;
	if (late)
		slot->state = TERN_CMD_ABANDONED;
	spin_unlock_irqrestore(&aq->lock, flags);
	return late;
}

/* Ends the caller's use of the queue after it abandoned its slot. */
void tern_aq_leave(struct tern_aq *aq)
{
	unsigned long flags;

	spin_lock_irqsave(&aq->lock, flags);
	aq->users--;
	wake_up(&aq->wait);
	spin_unlock_irqrestore(&aq->lock, flags);
}
