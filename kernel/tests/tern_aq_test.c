// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Tests of tern.ko's admin queue with a device in memory: commands run on a
 * workqueue, and the test itself plays the device.
 */

#include <kunit/test.h>
#include <linux/delay.h>
#include <linux/module.h>

#include "tern_dev.h"
#ifndef TERN_WITHOUT_RESET
#include "tern_health.h"
#endif
#include "tern_util.h"
#include "tern_verbs.h"

MODULE_IMPORT_NS("EXPORTED_FOR_KUNIT_TESTING");

/* Number of concurrent commands, more than there are slots. */
#define TERN_TEST_CALLS		(TERN_AQ_SIZE + 8)

/* A command that does not move memory, and one that does. */
#define TERN_TEST_STAYS		TERN_CMD_QUERY_PORT
#define TERN_TEST_MOVES		TERN_CMD_CREATE_MR
#define TERN_TEST_FREES		TERN_CMD_DESTROY_MR

struct tern_test_call {
	struct work_struct work;
	struct tern_dev *tdev;
	u16 opcode;
	u64 in;
	u64 out[2];
	struct tern_aq_entry cmd;	/* as the device fetched it */
	int err;
	struct completion done;
};

/* A thread that takes the device down while another one declares it dead. */
struct tern_test_taker {
	struct work_struct work;
	struct tern_dev *tdev;
	struct completion done;
};

struct tern_test_aq {
	struct tern_dev tdev;
	struct pci_dev pdev;
	struct workqueue_struct *wq;
	u32 head;	/* commands that the device has fetched */
	u32 pi;		/* answers that the device has written */
	atomic_t deaths;
	atomic_t late_deaths;
	struct notifier_block event_nb;
	unsigned int num_events;	/* events that were delivered */
	unsigned int max_events;	/* events that the device reports */
	struct tern_test_taker taker;
	u8 regs[TERN_BAR_REGS_SIZE] __aligned(8);
	struct tern_test_call calls[TERN_TEST_CALLS];
};

static void tern_test_hear_death(struct work_struct *work)
{
	struct tern_test_aq *fake = container_of(work, struct tern_test_aq,
						 tdev.async_work);

	atomic_inc(&fake->deaths);
	if (completion_done(&fake->taker.done))
		atomic_inc(&fake->late_deaths);
}

static void tern_test_run(struct work_struct *work)
{
	struct tern_test_call *call = container_of(work, struct tern_test_call, work);

	/* Bytes that the device does not write must be zeroed. */
	memset(call->out, 0xee, sizeof(call->out));
	call->err = tern_cmd_exec(&call->tdev->core, call->opcode, &call->in,
				  sizeof(call->in), call->out, sizeof(call->out));
	complete(&call->done);
}

static void tern_test_start(struct tern_test_aq *fake, unsigned int i, u16 opcode)
{
	struct tern_test_call *call = &fake->calls[i];

	INIT_WORK(&call->work, tern_test_run);
	init_completion(&call->done);
	call->tdev = &fake->tdev;
	call->opcode = opcode;
	call->in = 0x5eed0000 + i;
	queue_work(fake->wq, &call->work);
}

/* Waits for the end of a call. The timeout only catches hangs. */
static int tern_test_end(struct kunit *test, unsigned int i)
{
	struct tern_test_aq *fake = test->priv;

	KUNIT_ASSERT_NE_MSG(test, wait_for_completion_timeout(&fake->calls[i].done, 60 * HZ),
			    0, "command %u does not end", i);
	return fake->calls[i].err;
}

static u32 *tern_test_reg(struct tern_test_aq *fake, u32 reg)
{
	return (u32 *)&fake->regs[reg];
}

static const __le32 *tern_test_tail(struct tern_test_aq *fake)
{
	return (__le32 *)tern_test_reg(fake, TERN_REG_AQ_TAIL);
}

/* Waits until a word that the driver writes is @value. */
static void tern_test_wait_word(struct kunit *test, const __le32 *word, u32 value)
{
	unsigned int tries;

	for (tries = 0; tries < 60 * MSEC_PER_SEC; tries++) {
		if (le32_to_cpu(READ_ONCE(*word)) == value)
			break;
		usleep_range(1000, 2000);
	}
	KUNIT_ASSERT_EQ(test, le32_to_cpu(READ_ONCE(*word)), value);
}

/* Waits until @num more commands are submitted. */
static void tern_test_expect(struct kunit *test, u32 num)
{
	struct tern_test_aq *fake = test->priv;

	tern_test_wait_word(test, tern_test_tail(fake), fake->head + num);
}

/* Copies the next command that the device has not fetched. */
static struct tern_aq_entry tern_test_fetch(struct tern_test_aq *fake)
{
	return fake->tdev.aq.mem->aq[tern_ring_slot(fake->head++, TERN_AQ_LOG_SIZE)];
}

/* Writes an answer without raising an interrupt. */
static void tern_test_answer(struct tern_test_aq *fake, u32 tag, u16 status, u16 out_len)
{
	struct tern_acq_entry *entry;

	entry = &fake->tdev.aq.mem->acq[tern_ring_slot(fake->pi, TERN_AQ_LOG_SIZE)];
	entry->tag = cpu_to_le32(tag);
	entry->status = cpu_to_le16(status);
	entry->out_len = cpu_to_le16(out_len);
	entry->aq_head = cpu_to_le32(fake->head);
	/* Write the rest of the entry before its phase. */
	smp_wmb();
	WRITE_ONCE(entry->phase, cpu_to_le32(~(fake->pi >> TERN_AQ_LOG_SIZE) &
					     TERN_CQE_PHASE));
	fake->pi++;
}

/* Executes a command. The reply is the input plus one, 8 bytes long. */
static void tern_test_serve(struct tern_test_aq *fake, const struct tern_aq_entry *cmd)
{
	void *mem = fake->tdev.aq.mem;
	u64 *in = mem + (le64_to_cpu(cmd->in_addr) - fake->tdev.aq.dma);
	u64 *out = mem + (le64_to_cpu(cmd->out_addr) - fake->tdev.aq.dma);

	*out = *in + 1;
	tern_test_answer(fake, le32_to_cpu(cmd->tag), TERN_ST_OK, sizeof(*out));
}

/* Checks that call @i got its own reply. */
static void tern_test_check(struct kunit *test, unsigned int i)
{
	struct tern_test_aq *fake = test->priv;

	KUNIT_EXPECT_EQ(test, tern_test_end(test, i), 0);
	KUNIT_EXPECT_EQ(test, fake->calls[i].out[0], fake->calls[i].in + 1);
	KUNIT_EXPECT_EQ(test, fake->calls[i].out[1], 0);
}

/* One command at a time, each answered with an interrupt. */
static void tern_test_one(struct kunit *test)
{
	struct tern_test_aq *fake = test->priv;
	struct tern_aq_entry cmd;

	tern_test_start(fake, 0, TERN_TEST_STAYS);
	tern_test_expect(test, 1);
	cmd = tern_test_fetch(fake);
	KUNIT_EXPECT_EQ(test, le16_to_cpu(cmd.opcode), TERN_TEST_STAYS);
	KUNIT_EXPECT_EQ(test, le16_to_cpu(cmd.version), TERN_CMD_VERSION);
	KUNIT_EXPECT_EQ(test, le16_to_cpu(cmd.in_len), sizeof(u64));
	KUNIT_EXPECT_EQ(test, le16_to_cpu(cmd.out_len), 2 * sizeof(u64));
	tern_test_serve(fake, &cmd);
	KUNIT_EXPECT_TRUE(test, tern_aq_reap(&fake->tdev));
	tern_test_check(test, 0);
}

/* Both rings wrap several times, and all slots are free at the end. */
static void tern_test_rounds(struct kunit *test)
{
	unsigned int i;

	for (i = 0; i < 5 * TERN_AQ_SIZE / 2; i++)
		tern_test_one(test);
}

static void tern_test_statuses(struct kunit *test)
{
	static const u16 statuses[] = { TERN_ST_BUSY, TERN_ST_BAD_HANDLE, U16_MAX };
	struct tern_test_aq *fake = test->priv;
	struct tern_aq_entry cmd;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(statuses); i++) {
		tern_test_start(fake, 0, TERN_TEST_MOVES);
		tern_test_expect(test, 1);
		cmd = tern_test_fetch(fake);
		tern_test_answer(fake, le32_to_cpu(cmd.tag), statuses[i], 0);
		tern_aq_reap(&fake->tdev);
		KUNIT_EXPECT_EQ(test, tern_test_end(test, 0),
				tern_status_to_errno(statuses[i]));
		/* An error leaves buffer and device alone. */
		KUNIT_EXPECT_EQ(test, fake->calls[0].out[0], 0xeeeeeeeeeeeeeeee);
		KUNIT_EXPECT_FALSE(test, tern_dev_dead(&fake->tdev));
	}
}

/* A device that claims to have written more bytes than requested. */
static void tern_test_reply_too_long(struct kunit *test)
{
	struct tern_test_aq *fake = test->priv;
	struct tern_aq_entry cmd;

	tern_test_start(fake, 0, TERN_TEST_STAYS);
	tern_test_expect(test, 1);
	cmd = tern_test_fetch(fake);
	tern_test_answer(fake, le32_to_cpu(cmd.tag), TERN_ST_OK, U16_MAX);
	tern_aq_reap(&fake->tdev);
	/* KASAN checks the memory behind the reply. */
	KUNIT_EXPECT_EQ(test, tern_test_end(test, 0), 0);
}

/* More commands than slots, each batch answered in reverse order. */
static void tern_test_out_of_order(struct kunit *test)
{
	struct tern_test_aq *fake = test->priv;
	struct tern_aq_entry cmds[TERN_AQ_SIZE];
	unsigned int i, n;

	for (i = 0; i < TERN_TEST_CALLS; i++)
		tern_test_start(fake, i, TERN_TEST_STAYS);
	for (n = TERN_AQ_SIZE; n; n = n == TERN_AQ_SIZE ? TERN_TEST_CALLS - n : 0) {
		tern_test_expect(test, n);
		for (i = 0; i < n; i++)
			cmds[i] = tern_test_fetch(fake);
		while (i--)
			tern_test_serve(fake, &cmds[i]);
		tern_aq_reap(&fake->tdev);
	}
	for (i = 0; i < TERN_TEST_CALLS; i++)
		tern_test_check(test, i);
}

/* The waiter finds an answer without an interrupt. */
static void tern_test_interrupt_lost(struct kunit *test)
{
	struct tern_test_aq *fake = test->priv;
	struct tern_aq_entry cmd;

	tern_test_start(fake, 0, TERN_TEST_STAYS);
	tern_test_expect(test, 1);
	cmd = tern_test_fetch(fake);
	tern_test_serve(fake, &cmd);
	tern_test_check(test, 0);
	KUNIT_EXPECT_FALSE(test, tern_aq_reap(&fake->tdev));
}

/* The answer is there right after the doorbell, before its interrupt. */
static void tern_test_at_once(struct kunit *test)
{
	struct tern_test_aq *fake = test->priv;

	tern_test_answer(fake, tern_tag_make(0, fake->tdev.aq.count),
			 TERN_ST_BUSY, 0);
	tern_test_start(fake, 0, TERN_TEST_STAYS);
	KUNIT_EXPECT_EQ(test, tern_test_end(test, 0),
			tern_status_to_errno(TERN_ST_BUSY));
	KUNIT_EXPECT_TRUE(test, tern_aq_reap(&fake->tdev));
	KUNIT_EXPECT_FALSE(test, tern_aq_reap(&fake->tdev));
}

/* A device that polls needs no doorbell. The caller sleeps after a while. */
static void tern_test_polled(struct kunit *test)
{
	struct tern_test_aq *fake = test->priv;
	struct tern_aq_record *record = &fake->tdev.aq.mem->record;
	struct tern_aq_entry cmd;

	tern_test_one(test);
	WRITE_ONCE(record->status, cpu_to_le32(TERN_AQ_ST_POLLED));
	tern_test_start(fake, 0, TERN_TEST_STAYS);
	tern_test_wait_word(test, &record->tail, 2);
	tern_test_wait_word(test, &record->arm, 1);
	KUNIT_EXPECT_EQ(test, le32_to_cpu(*tern_test_tail(fake)), 1);
	cmd = tern_test_fetch(fake);
	tern_test_serve(fake, &cmd);
	KUNIT_EXPECT_TRUE(test, tern_aq_reap(&fake->tdev));
	tern_test_check(test, 0);

	WRITE_ONCE(record->status, 0);
	tern_test_one(test);
	KUNIT_EXPECT_EQ(test, le32_to_cpu(*tern_test_tail(fake)), 3);
}

/* As long as a caller sleeps, the next answer raises an interrupt. */
static void tern_test_arm(struct kunit *test)
{
	struct tern_test_aq *fake = test->priv;
	struct tern_aq_record *record = &fake->tdev.aq.mem->record;
	struct tern_aq_entry cmds[2];
	unsigned int i;

	tern_test_one(test);
	for (i = 0; i < ARRAY_SIZE(cmds); i++) {
		tern_test_start(fake, i, TERN_TEST_STAYS);
		tern_test_expect(test, 1);
		cmds[i] = tern_test_fetch(fake);
	}
	tern_test_wait_word(test, &record->arm, 1);
	tern_test_serve(fake, &cmds[1]);
	KUNIT_EXPECT_TRUE(test, tern_aq_reap(&fake->tdev));
	tern_test_check(test, 1);
	KUNIT_EXPECT_EQ(test, le32_to_cpu(record->arm), 2);
	tern_test_serve(fake, &cmds[0]);
	KUNIT_EXPECT_TRUE(test, tern_aq_reap(&fake->tdev));
	tern_test_check(test, 0);
	/* Nobody waits. */
	KUNIT_EXPECT_EQ(test, le32_to_cpu(record->arm), 2);
	KUNIT_EXPECT_FALSE(test, tern_aq_reap(&fake->tdev));
}

/* Unsolicited and duplicate answers have no effect. */
static void tern_test_bogus(struct kunit *test)
{
	struct tern_test_aq *fake = test->priv;
	struct tern_aq_entry cmd;
	u32 tag;

	tern_test_start(fake, 0, TERN_TEST_STAYS);
	tern_test_expect(test, 1);
	cmd = tern_test_fetch(fake);
	tag = le32_to_cpu(cmd.tag);

	/*
	 * A slot that does not exist, an idle slot, an earlier and a later user
	 * of this slot.
	 */
	tern_test_answer(fake, tern_tag_make(TERN_AQ_SIZE, 0), TERN_ST_BUSY, 0);
	tern_test_answer(fake, U32_MAX, TERN_ST_BUSY, 0);
	tern_test_answer(fake, tern_tag_make(TERN_AQ_SIZE - 1, 0), TERN_ST_BUSY, 0);
	tern_test_answer(fake, tag - tern_tag_make(0, 1), TERN_ST_BUSY, 0);
	tern_test_answer(fake, tag + tern_tag_make(0, 1), TERN_ST_BUSY, 0);
	KUNIT_EXPECT_TRUE(test, tern_aq_reap(&fake->tdev));
	KUNIT_EXPECT_FALSE(test, completion_done(&fake->calls[0].done));

	tern_test_serve(fake, &cmd);
	tern_test_answer(fake, tag, TERN_ST_BUSY, 0);
	tern_aq_reap(&fake->tdev);
	tern_test_check(test, 0);
	/* Again, with the slot free. */
	tern_test_answer(fake, tag, TERN_ST_BUSY, 0);
	tern_aq_reap(&fake->tdev);

	tern_test_rounds(test);
	KUNIT_EXPECT_FALSE(test, tern_dev_dead(&fake->tdev));
}

/* The slot of a timed-out command becomes free only when the answer arrives. */
static void tern_test_late(struct kunit *test)
{
	struct tern_test_aq *fake = test->priv;
	struct tern_aq *aq = &fake->tdev.aq;
	struct tern_aq_entry cmd;

	aq->timeout = HZ / 10;
	tern_test_start(fake, 0, TERN_TEST_STAYS);
	tern_test_expect(test, 1);
	KUNIT_EXPECT_EQ(test, tern_test_end(test, 0), -ETIMEDOUT);
	KUNIT_EXPECT_EQ(test, fake->calls[0].out[0], 0xeeeeeeeeeeeeeeee);
	KUNIT_EXPECT_EQ(test, bitmap_weight(aq->free, TERN_AQ_SIZE), TERN_AQ_SIZE - 1);
	KUNIT_EXPECT_FALSE(test, tern_dev_dead(&fake->tdev));

	aq->timeout = 60 * HZ;
	cmd = tern_test_fetch(fake);
	tern_test_one(test);
	tern_test_serve(fake, &cmd);
	tern_aq_reap(&fake->tdev);
	KUNIT_EXPECT_EQ(test, bitmap_weight(aq->free, TERN_AQ_SIZE), TERN_AQ_SIZE);
	tern_test_rounds(test);
}

/* A device without answers: all slots are taken, later callers time out. */
static void tern_test_silent(struct kunit *test)
{
	struct tern_test_aq *fake = test->priv;
	unsigned int i;

	fake->tdev.aq.timeout = HZ / 5;
	for (i = 0; i < TERN_TEST_CALLS; i++)
		tern_test_start(fake, i, TERN_TEST_STAYS);
	for (i = 0; i < TERN_TEST_CALLS; i++)
		KUNIT_EXPECT_EQ(test, tern_test_end(test, i), -ETIMEDOUT);
	tern_test_expect(test, TERN_AQ_SIZE);
	KUNIT_EXPECT_TRUE(test, bitmap_empty(fake->tdev.aq.free, TERN_AQ_SIZE));
	KUNIT_EXPECT_EQ(test, fake->tdev.aq.users, 0);

	/* All slots become free with the answers. */
	fake->tdev.aq.timeout = 60 * HZ;
	while (i-- > TERN_TEST_CALLS - TERN_AQ_SIZE) {
		struct tern_aq_entry cmd = tern_test_fetch(fake);

		tern_test_serve(fake, &cmd);
	}
	tern_aq_reap(&fake->tdev);
	tern_test_rounds(test);
}

/*
 * Commands that take long, more than there are slots: others find a slot, and
 * the device is not taken for dead.
 */
static void tern_test_slow(struct kunit *test)
{
	const unsigned int last = TERN_TEST_CALLS - 1;
	struct tern_test_aq *fake = test->priv;
	struct tern_aq_entry cmds[TERN_AQ_MAX_SLOW], cmd;
	unsigned int i, n, left;

	for (i = 0; i < last; i++)
		tern_test_start(fake, i, TERN_CMD_ALLOC_DM);
	for (left = last; left; left -= n) {
		n = min(left, TERN_AQ_MAX_SLOW);
		tern_test_expect(test, n);
		for (i = 0; i < n; i++)
			cmds[i] = tern_test_fetch(fake);

		tern_test_start(fake, last, TERN_TEST_MOVES);
		tern_test_expect(test, 1);
		cmd = tern_test_fetch(fake);
		KUNIT_EXPECT_EQ(test, le16_to_cpu(cmd.opcode), TERN_TEST_MOVES);
		tern_test_serve(fake, &cmd);
		tern_aq_reap(&fake->tdev);
		tern_test_check(test, last);

		for (i = 0; i < n; i++)
			tern_test_serve(fake, &cmds[i]);
		tern_aq_reap(&fake->tdev);
	}
	for (i = 0; i < last; i++)
		tern_test_check(test, i);
	KUNIT_EXPECT_FALSE(test, tern_dev_dead(&fake->tdev));
	tern_test_rounds(test);
}

/* A device that has not answered for so long must not keep memory that is freed. */
static void tern_test_no_slot_for_memory(struct kunit *test)
{
	struct tern_test_aq *fake = test->priv;
	unsigned int i;

	fake->tdev.aq.timeout = HZ / 5;
	for (i = 0; i < TERN_AQ_SIZE; i++)
		tern_test_start(fake, i, TERN_TEST_STAYS);
	for (i = 0; i < TERN_AQ_SIZE; i++)
		KUNIT_EXPECT_EQ(test, tern_test_end(test, i), -ETIMEDOUT);
	/* It never saw this command, so it has no new memory. */
	tern_test_start(fake, 0, TERN_TEST_MOVES);
	KUNIT_EXPECT_EQ(test, tern_test_end(test, 0), -ETIMEDOUT);
	KUNIT_EXPECT_FALSE(test, tern_dev_dead(&fake->tdev));
	tern_test_start(fake, 0, TERN_TEST_FREES);
	KUNIT_EXPECT_EQ(test, tern_test_end(test, 0), -ETIMEDOUT);
	KUNIT_EXPECT_TRUE(test, tern_dev_dead(&fake->tdev));
}

/* Waits until @num callers wait for a slot. */
static void tern_test_expect_waiters(struct kunit *test, unsigned int num)
{
	struct tern_test_aq *fake = test->priv;
	struct tern_aq *aq = &fake->tdev.aq;
	unsigned int tries, waiters;

	for (tries = 0; tries < 60 * MSEC_PER_SEC; tries++) {
		spin_lock_irq(&aq->lock);
		waiters = list_count_nodes(&aq->waiters);
		spin_unlock_irq(&aq->lock);
		if (waiters == num)
			break;
		usleep_range(1000, 2000);
	}
	KUNIT_ASSERT_EQ(test, waiters, num);
}

/*
 * A device that answers one command after the other: callers get slots in the
 * order in which they came, and the last one waits longer than the timeout. Its
 * command takes memory back, but the device is not taken for dead.
 */
static void tern_test_busy(struct kunit *test)
{
	const unsigned int last = TERN_TEST_CALLS - 1;
	struct tern_test_aq *fake = test->priv;
	struct tern_aq *aq = &fake->tdev.aq;
	struct tern_aq_entry *cmd;
	unsigned int i;
	u64 *in;

	for (i = 0; i < TERN_AQ_SIZE; i++)
		tern_test_start(fake, i, TERN_TEST_STAYS);
	tern_test_expect(test, TERN_AQ_SIZE);
	for (; i <= last; i++) {
		if (i == last)
			WRITE_ONCE(aq->timeout, HZ / 4);
		tern_test_start(fake, i, i == last ? TERN_TEST_FREES : TERN_TEST_STAYS);
		tern_test_expect_waiters(test, i + 1 - TERN_AQ_SIZE);
	}
	/* Only the last call has read this timeout. */
	WRITE_ONCE(aq->timeout, 60 * HZ);

	for (i = 0; i < TERN_TEST_CALLS; i++) {
		cmd = &fake->calls[i].cmd;
		*cmd = tern_test_fetch(fake);
		in = (void *)aq->mem + (le64_to_cpu(cmd->in_addr) - aq->dma);
		if (i >= TERN_AQ_SIZE)
			KUNIT_EXPECT_EQ(test, *in, fake->calls[i].in);
		if (i < TERN_AQ_SIZE - 1)
			continue;
		/* More than the timeout for all of them, less for each. */
		msleep(100);
		tern_test_serve(fake, &fake->calls[i + 1 - TERN_AQ_SIZE].cmd);
		tern_aq_reap(&fake->tdev);
		if (i < last)
			tern_test_expect(test, 1);
	}
	while (i-- > TERN_TEST_CALLS - TERN_AQ_SIZE + 1)
		tern_test_serve(fake, &fake->calls[i].cmd);
	tern_aq_reap(&fake->tdev);
	for (i = 0; i < TERN_TEST_CALLS; i++)
		tern_test_check(test, i);
	KUNIT_EXPECT_FALSE(test, tern_dev_dead(&fake->tdev));
}

/* A device that may own memory is stopped before the memory is freed. */
static void tern_test_late_with_memory(struct kunit *test)
{
	struct tern_test_aq *fake = test->priv;

	fake->pdev.is_busmaster = 1;
	fake->tdev.aq.timeout = HZ / 10;
	tern_test_start(fake, 0, TERN_TEST_MOVES);
	KUNIT_EXPECT_EQ(test, tern_test_end(test, 0), -ETIMEDOUT);
	KUNIT_EXPECT_TRUE(test, tern_dev_dead(&fake->tdev));
	KUNIT_EXPECT_FALSE(test, fake->pdev.is_busmaster);
	flush_work(&fake->tdev.async_work);
	KUNIT_EXPECT_EQ(test, atomic_read(&fake->deaths), 1);
}

/*
 * The death of the device wakes waiters for answers and for slots, and fails
 * new commands.
 */
static void tern_test_dies(struct kunit *test)
{
	struct tern_test_aq *fake = test->priv;
	unsigned int i;

	for (i = 0; i < TERN_TEST_CALLS; i++)
		tern_test_start(fake, i, TERN_TEST_STAYS);
	tern_test_expect(test, TERN_AQ_SIZE);
	/*
	 * All registers of a removed function read as all ones, which every
	 * waiter checks.
	 */
	WRITE_ONCE(*tern_test_reg(fake, TERN_REG_STATUS), TERN_REG_GONE);
	for (i = 0; i < TERN_TEST_CALLS; i++)
		KUNIT_EXPECT_EQ(test, tern_test_end(test, i), -EIO);
	tern_test_start(fake, 0, TERN_TEST_STAYS);
	KUNIT_EXPECT_EQ(test, tern_test_end(test, 0), -EIO);
	flush_work(&fake->tdev.async_work);
	KUNIT_EXPECT_EQ(test, atomic_read(&fake->deaths), 1);
}

static void tern_test_take_down(struct work_struct *work)
{
	struct tern_test_taker *taker = container_of(work, struct tern_test_taker, work);

	tern_dev_retire(taker->tdev);
	cancel_work_sync(&taker->tdev->async_work);
	complete(&taker->done);
}

/* Races the two threads, the other one a bit later each time. */
static void tern_test_race_down(struct tern_test_aq *fake, unsigned int delay_ns)
{
	reinit_completion(&fake->taker.done);
	clear_bit(TERN_DEV_DEAD, &fake->tdev.flags);
	queue_work(fake->wq, &fake->taker.work);
	ndelay(delay_ns);
	tern_dev_kill(&fake->tdev);
	flush_work(&fake->taker.work);
	flush_work(&fake->tdev.async_work);
}

/* The work that reports a death is not queued once it was cancelled. */
static void tern_test_dies_while_taken_down(struct kunit *test)
{
	struct tern_test_aq *fake = test->priv;
	unsigned int i;

	fake->taker.tdev = &fake->tdev;
	INIT_WORK(&fake->taker.work, tern_test_take_down);
	for (i = 0; i < 2000; i++)
		tern_test_race_down(fake, 10 * i);
	KUNIT_EXPECT_TRUE(test, completion_done(&fake->taker.done));
	KUNIT_EXPECT_EQ(test, atomic_read(&fake->late_deaths), 0);
	KUNIT_EXPECT_TRUE(test, tern_dev_dead(&fake->tdev));
}

#ifndef TERN_WITHOUT_RESET
/* Only the failure of a device that nobody else brings up is reported. */
static void tern_test_report_due(struct kunit *test)
{
	struct tern_test_aq *fake = test->priv;
	struct tern_dev *tdev = &fake->tdev;

	/* The work was queued, and then the device was recovered. */
	KUNIT_EXPECT_FALSE(test, tern_report_due(tdev));
	tern_dev_kill(tdev);
	KUNIT_EXPECT_TRUE(test, tern_report_due(tdev));
	set_bit(TERN_DEV_HELD, &tdev->flags);
	KUNIT_EXPECT_FALSE(test, tern_report_due(tdev));
	clear_bit(TERN_DEV_HELD, &tdev->flags);
	WRITE_ONCE(*tern_test_reg(fake, TERN_REG_STATUS), TERN_REG_GONE);
	KUNIT_EXPECT_FALSE(test, tern_report_due(tdev));
}

#endif
/* Reports the next event, if there is one. */
static void tern_test_report(struct tern_test_aq *fake)
{
	struct tern_eq *eq = &fake->tdev.async_eq;
	struct tern_eqe *entry;

	if (fake->num_events == fake->max_events)
		return;
	entry = eq->buf.va + tern_ring_slot(eq->ci, eq->log_size) * sizeof(*entry);
	entry->type = cpu_to_le16(TERN_EV_COMM_EST);
	entry->phase = cpu_to_le32(~(eq->ci >> eq->log_size) & TERN_CQE_PHASE);
}

static int tern_test_event(struct notifier_block *nb, unsigned long action, void *data)
{
	struct tern_test_aq *fake = container_of(nb, struct tern_test_aq, event_nb);

	fake->num_events++;
	tern_test_report(fake);
	return NOTIFY_OK;
}

/* A device that reports an event for each one that it can: the work lets others run. */
static void tern_test_events_endless(struct kunit *test)
{
	struct tern_test_aq *fake = test->priv;
	struct tern_dev *tdev = &fake->tdev;
	struct tern_eq *eq = &tdev->async_eq;
	u32 *uar = tern_test_reg(fake, TERN_MSIX_PBA_OFFSET);

	tdev->core.uar_kernel = (__force void __iomem *)uar;
	eq->buf.va = kunit_kcalloc(test, 16, sizeof(struct tern_eqe), GFP_KERNEL);
	eq->record = kunit_kzalloc(test, sizeof(*eq->record), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, eq->buf.va);
	KUNIT_ASSERT_NOT_NULL(test, eq->record);
	eq->tdev = tdev;
	eq->ring = eq->buf.va;
	eq->entry_size = sizeof(struct tern_eqe);
	eq->log_size = 4;
	BLOCKING_INIT_NOTIFIER_HEAD(&tdev->events);
	fake->event_nb.notifier_call = tern_test_event;
	blocking_notifier_chain_register(&tdev->events, &fake->event_nb);

	fake->max_events = 10000;
	tern_test_report(fake);
	tern_async_work(&tdev->async_work);
	KUNIT_EXPECT_EQ(test, fake->num_events, 16);
	KUNIT_EXPECT_EQ(test, le32_to_cpu(eq->record->ci), 16);
	KUNIT_EXPECT_NE(test, uar[TERN_UAR_DB / sizeof(*uar)], 0);
	/* The work runs again. */
	flush_work(&tdev->async_work);
	KUNIT_EXPECT_EQ(test, atomic_read(&fake->deaths), 1);

	fake->max_events = 17;
	tern_async_work(&tdev->async_work);
	KUNIT_EXPECT_EQ(test, fake->num_events, 17);
	flush_work(&tdev->async_work);
	KUNIT_EXPECT_EQ(test, atomic_read(&fake->deaths), 1);
}

static int tern_test_aq_init(struct kunit *test)
{
	struct tern_test_aq *fake = kunit_kzalloc(test, sizeof(*fake), GFP_KERNEL);
	struct device *dev;

	KUNIT_ASSERT_NOT_NULL(test, fake);
	test->priv = fake;

	dev = &fake->pdev.dev;
	device_initialize(dev);
	dev->init_name = "tern-fake";
	dev->dma_mask = &fake->pdev.dma_mask;
	fake->pdev.dma_mask = DMA_BIT_MASK(64);
	dev->coherent_dma_mask = DMA_BIT_MASK(64);
	/* There is no configuration space to access. */
	fake->pdev.error_state = pci_channel_io_perm_failure;

	fake->tdev.core.pdev = &fake->pdev;
	fake->tdev.regs = (__force void __iomem *)fake->regs;
	*tern_test_reg(fake, TERN_REG_STATUS) = (__force u32)cpu_to_le32(TERN_STATUS_ENABLED);
	spin_lock_init(&fake->tdev.dead_lock);
	init_completion(&fake->taker.done);
	INIT_WORK(&fake->tdev.async_work, tern_test_hear_death);
	tern_aq_init(&fake->tdev);
	fake->tdev.aq.timeout = 60 * HZ;

	fake->wq = alloc_workqueue("tern-aq-test", WQ_UNBOUND, TERN_TEST_CALLS);
	KUNIT_ASSERT_NOT_NULL(test, fake->wq);
	return tern_aq_alloc(&fake->tdev);
}

static void tern_test_aq_exit(struct kunit *test)
{
	struct tern_test_aq *fake = test->priv;

	if (!fake || !fake->wq)
		return;
	/* Unblocks callers that a failed assertion left waiting. */
	tern_dev_kill(&fake->tdev);
	destroy_workqueue(fake->wq);
	cancel_work_sync(&fake->tdev.async_work);
	if (fake->tdev.aq.mem)
		tern_aq_free(&fake->tdev);
}

static struct kunit_case tern_aq_cases[] = {
	KUNIT_CASE(tern_test_one),
	KUNIT_CASE(tern_test_rounds),
	KUNIT_CASE(tern_test_statuses),
	KUNIT_CASE(tern_test_reply_too_long),
	KUNIT_CASE(tern_test_out_of_order),
	KUNIT_CASE(tern_test_interrupt_lost),
	KUNIT_CASE(tern_test_at_once),
	KUNIT_CASE(tern_test_polled),
	KUNIT_CASE(tern_test_arm),
	KUNIT_CASE(tern_test_bogus),
	KUNIT_CASE(tern_test_late),
	KUNIT_CASE(tern_test_silent),
	KUNIT_CASE(tern_test_slow),
	KUNIT_CASE(tern_test_no_slot_for_memory),
	KUNIT_CASE(tern_test_busy),
	KUNIT_CASE(tern_test_late_with_memory),
	KUNIT_CASE(tern_test_dies),
	KUNIT_CASE(tern_test_dies_while_taken_down),
#ifndef TERN_WITHOUT_RESET
	KUNIT_CASE(tern_test_report_due),
#endif
	KUNIT_CASE(tern_test_events_endless),
	{}
};

static struct kunit_suite tern_aq_suite = {
	.name = "tern_aq",
	.init = tern_test_aq_init,
	.exit = tern_test_aq_exit,
	.test_cases = tern_aq_cases,
};

kunit_test_suite(tern_aq_suite);

MODULE_DESCRIPTION("KUnit tests of tern's admin queue");
MODULE_LICENSE("Dual BSD/GPL");
