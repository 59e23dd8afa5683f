// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Tests of arithmetic: rings, tags, status codes, timeouts, vectors. */

#include <kunit/test.h>
#include <linux/limits.h>
#include <linux/module.h>
#include <linux/sizes.h>

#include "tern_dev.h"
#include "tern_core.h"
#include "tern_util.h"
#include "tern_verbs.h"

MODULE_IMPORT_NS("EXPORTED_FOR_KUNIT_TESTING");

static void tern_test_status(struct kunit *test)
{
	static const struct {
		u16 status;
		int err;
	} cases[] = {
		{ TERN_ST_OK, 0 },
		{ TERN_ST_BAD_OPCODE, -EOPNOTSUPP },
		{ TERN_ST_BAD_VERSION, -EOPNOTSUPP },
		{ TERN_ST_NOT_SUPPORTED, -EOPNOTSUPP },
		{ TERN_ST_BAD_LENGTH, -EINVAL },
		{ TERN_ST_BAD_PARAM, -EINVAL },
		{ TERN_ST_BAD_STATE, -EINVAL },
		{ TERN_ST_BAD_HANDLE, -ENOENT },
		{ TERN_ST_BUSY, -EBUSY },
		{ TERN_ST_NO_RESOURCE, -ENOMEM },
		{ TERN_ST_NO_MEMORY, -ENOMEM },
		{ TERN_ST_DMA_ERROR, -EFAULT },
		{ TERN_ST_DENIED, -EPERM },
		/* An unknown status is an error, too. */
		{ U16_MAX, -EIO },
	};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(cases); i++)
		KUNIT_EXPECT_EQ_MSG(test, tern_status_to_errno(cases[i].status),
				    cases[i].err, "status %u", cases[i].status);

	for (i = 1; i <= U16_MAX; i++)
		if (tern_status_to_errno(i) >= 0)
			KUNIT_FAIL(test, "status %u is taken for success", i);
}

static void tern_test_moves_memory(struct kunit *test)
{
	static const u16 moves[] = {
		TERN_CMD_CREATE_EQ, TERN_CMD_DESTROY_EQ,
		TERN_CMD_CREATE_CQ, TERN_CMD_DESTROY_CQ, TERN_CMD_RESIZE_CQ,
		TERN_CMD_CREATE_MR, TERN_CMD_DESTROY_MR, TERN_CMD_REREG_MR,
		TERN_CMD_UPDATE_PAGES,
		TERN_CMD_CREATE_QP, TERN_CMD_DESTROY_QP, TERN_CMD_MODIFY_QP,
		TERN_CMD_CREATE_SRQ, TERN_CMD_DESTROY_SRQ, TERN_CMD_MODIFY_SRQ,
		TERN_CMD_CREATE_ETH_QUEUE, TERN_CMD_DESTROY_ETH_QUEUE,
		TERN_CMD_CREATE_COMP_CNTR, TERN_CMD_DESTROY_COMP_CNTR,
	};
	static const u16 stays[] = {
		TERN_CMD_NOP, TERN_CMD_QUERY_CAPS, TERN_CMD_QUERY_QP,
		TERN_CMD_ALLOC_PD, TERN_CMD_FREE_PD, TERN_CMD_SET_GID,
	};
	unsigned int i, count = 0;

	for (i = 0; i < ARRAY_SIZE(moves); i++)
		KUNIT_EXPECT_TRUE_MSG(test, tern_cmd_moves_memory(moves[i]),
				      "opcode %#x", moves[i]);
	for (i = 0; i < ARRAY_SIZE(stays); i++)
		KUNIT_EXPECT_FALSE_MSG(test, tern_cmd_moves_memory(stays[i]),
				       "opcode %#x", stays[i]);
	for (i = 0; i <= U16_MAX; i++)
		count += tern_cmd_moves_memory(i);
	KUNIT_EXPECT_EQ(test, count, ARRAY_SIZE(moves));
}

/*
 * The time to zero memory is proportional to its size. Other commands get no
 * extra time.
 */
static void tern_test_extra_time(struct kunit *test)
{
	unsigned int i;

	KUNIT_EXPECT_EQ(test, tern_cmd_extra_seconds(TERN_CMD_ALLOC_DM, 0), 0);
	/* 64 GiB at 128 MiB per second. */
	KUNIT_EXPECT_EQ(test, tern_cmd_extra_seconds(TERN_CMD_ALLOC_DM, 64ULL * SZ_1G), 512);
	/* No size leads to a time that overflows jiffies. */
	KUNIT_EXPECT_EQ(test, tern_cmd_extra_seconds(TERN_CMD_ALLOC_DM, U64_MAX), SZ_1M);
	for (i = 0; i <= U16_MAX; i++)
		if (i != TERN_CMD_ALLOC_DM && tern_cmd_extra_seconds(i, U64_MAX))
			KUNIT_FAIL(test, "opcode %#x has extra time", i);
}

static void tern_test_tag(struct kunit *test)
{
	unsigned int slot;

	for (slot = 0; slot <= TERN_TAG_SLOT_MASK; slot++) {
		KUNIT_EXPECT_EQ(test, tern_tag_slot(tern_tag_make(slot, 0)), slot);
		KUNIT_EXPECT_EQ(test, tern_tag_slot(tern_tag_make(slot, U32_MAX)),
				slot);
	}
	KUNIT_EXPECT_NE(test, tern_tag_make(3, 7), tern_tag_make(3, 8));
	/* The count wraps at its width. */
	KUNIT_EXPECT_EQ(test, tern_tag_make(3, BIT(24)), tern_tag_make(3, 0));
	KUNIT_EXPECT_NE(test, tern_tag_make(3, BIT(23)), tern_tag_make(3, 0));
}

static void tern_test_phase(struct kunit *test)
{
	const u8 log_size = 4;
	const u32 size = BIT(log_size);
	u32 index;

	/* The phase is 1 on the first pass, 0 on the second. */
	for (index = 0; index < 4 * size; index++) {
		bool one = !(index / size % 2);

		KUNIT_EXPECT_EQ(test, tern_phase_valid(1, index, log_size), one);
		KUNIT_EXPECT_EQ(test, tern_phase_valid(0, index, log_size), !one);
	}

	/* The phase is a single bit of the word. */
	KUNIT_EXPECT_EQ(test, tern_phase_valid((u32)~TERN_CQE_PHASE, 0, log_size),
			tern_phase_valid(0, 0, log_size));
	KUNIT_EXPECT_EQ(test, tern_phase_valid(U32_MAX, 0, log_size),
			tern_phase_valid(TERN_CQE_PHASE, 0, log_size));

	/* The last pass before the index wraps to 0 is a second pass. */
	KUNIT_EXPECT_TRUE(test, tern_phase_valid(0, U32_MAX, log_size));
	KUNIT_EXPECT_FALSE(test, tern_phase_valid(1, U32_MAX, log_size));
}

static void tern_test_ring(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, tern_ring_used(5, 5), 0);
	KUNIT_EXPECT_EQ(test, tern_ring_used(9, 5), 4);
	KUNIT_EXPECT_EQ(test, tern_ring_used(2, U32_MAX), 3);
	KUNIT_EXPECT_EQ(test, tern_ring_free(5, 5, 3), 8);
	KUNIT_EXPECT_EQ(test, tern_ring_free(13, 5, 3), 0);
	KUNIT_EXPECT_EQ(test, tern_ring_free(2, U32_MAX - 4, 3), 1);
	KUNIT_EXPECT_EQ(test, tern_ring_slot(0, 3), 0);
	KUNIT_EXPECT_EQ(test, tern_ring_slot(7, 3), 7);
	KUNIT_EXPECT_EQ(test, tern_ring_slot(8, 3), 0);
	KUNIT_EXPECT_EQ(test, tern_ring_slot(U32_MAX, 3), 7);
	KUNIT_EXPECT_EQ(test, tern_ring_slot(U32_MAX, 0), 0);
}

static void tern_test_arm_word(struct kunit *test)
{
	u32 word = tern_cq_arm_word(0x123456, 2, false);

	KUNIT_EXPECT_EQ(test, FIELD_GET(TERN_CQ_ARM_CI_MASK, word), 0x123456);
	KUNIT_EXPECT_EQ(test, FIELD_GET(TERN_CQ_ARM_SEQ_MASK, word), 2);
	KUNIT_EXPECT_FALSE(test, word & TERN_CQ_ARM_SOLICITED);
	KUNIT_EXPECT_TRUE(test, word & TERN_CQ_ARM_VALID);

	word = tern_cq_arm_word(0, 0, true);
	KUNIT_EXPECT_EQ(test, word, TERN_CQ_ARM_SOLICITED | TERN_CQ_ARM_VALID);

	/* No field overflows into its neighbour. */
	word = tern_cq_arm_word(U32_MAX, 0, false);
	KUNIT_EXPECT_EQ(test, word, TERN_CQ_ARM_CI_MASK | TERN_CQ_ARM_VALID);
	word = tern_cq_arm_word(0, U32_MAX, false);
	KUNIT_EXPECT_EQ(test, word, TERN_CQ_ARM_SEQ_MASK | TERN_CQ_ARM_VALID);
}

static void tern_test_cq_unreported(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, tern_cq_unreported(0, 0), 0);
	KUNIT_EXPECT_EQ(test, tern_cq_unreported(3, 2), 3);
	KUNIT_EXPECT_EQ(test, tern_cq_unreported(3, 7), 7);
	KUNIT_EXPECT_EQ(test, tern_cq_unreported(U32_MAX - 1, 2), 2);
	KUNIT_EXPECT_EQ(test, tern_cq_unreported(2, U32_MAX - 1), 2);
}

static void tern_test_eq_size(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, tern_eq_log_size(1), 4);
	KUNIT_EXPECT_EQ(test, tern_eq_log_size(16), 4);
	KUNIT_EXPECT_EQ(test, tern_eq_log_size(17), 5);
	KUNIT_EXPECT_EQ(test, tern_eq_log_size(TERN_EQ_MAX_ENTRIES), 20);
	KUNIT_EXPECT_EQ(test, tern_eq_log_size(TERN_EQ_MAX_ENTRIES - 1), 20);
}

static void tern_test_frame_len(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, tern_frame_len(1500), 1522);
	KUNIT_EXPECT_EQ(test, tern_frame_len(TERN_ETH_MAX_FRAME - 22),
			TERN_ETH_MAX_FRAME);
	KUNIT_EXPECT_EQ(test, tern_frame_len(TERN_ETH_MAX_FRAME),
			TERN_ETH_MAX_FRAME);
}

static void tern_test_vectors(struct kunit *test)
{
	unsigned int num, comp;

	/*
	 * With few vectors, they are shared. There is always at least one
	 * completion vector.
	 */
	KUNIT_EXPECT_EQ(test, tern_num_comp_vectors(1), 1);
	KUNIT_EXPECT_EQ(test, tern_comp_to_msix(0, 1), 0);
	KUNIT_EXPECT_EQ(test, tern_num_comp_vectors(2), 1);
	KUNIT_EXPECT_EQ(test, tern_comp_to_msix(0, 2), 1);

	for (num = 3; num <= 64; num++) {
		KUNIT_EXPECT_EQ(test, tern_num_comp_vectors(num), num - 2);
		for (comp = 0; comp < num - 2; comp++)
			KUNIT_EXPECT_EQ(test, tern_comp_to_msix(comp, num),
					comp + 2);
	}
}

/* Channels never take vector 0, unless there is no other. */
static void tern_test_channel_vectors(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, tern_net_to_msix(0, 1), 0);
	KUNIT_EXPECT_EQ(test, tern_net_to_msix(5, 1), 0);
	KUNIT_EXPECT_EQ(test, tern_net_to_msix(1, 2), 1);
	KUNIT_EXPECT_EQ(test, tern_net_to_msix(0, 4), 1);
	KUNIT_EXPECT_EQ(test, tern_net_to_msix(2, 4), 3);
	KUNIT_EXPECT_EQ(test, tern_net_to_msix(3, 4), 1);
}

static struct kunit_case tern_util_cases[] = {
	KUNIT_CASE(tern_test_status),
	KUNIT_CASE(tern_test_moves_memory),
	KUNIT_CASE(tern_test_extra_time),
	KUNIT_CASE(tern_test_tag),
	KUNIT_CASE(tern_test_phase),
	KUNIT_CASE(tern_test_ring),
	KUNIT_CASE(tern_test_arm_word),
	KUNIT_CASE(tern_test_cq_unreported),
	KUNIT_CASE(tern_test_eq_size),
	KUNIT_CASE(tern_test_frame_len),
	KUNIT_CASE(tern_test_vectors),
	KUNIT_CASE(tern_test_channel_vectors),
	{}
};

static struct kunit_suite tern_util_suite = {
	.name = "tern_util",
	.test_cases = tern_util_cases,
};

kunit_test_suite(tern_util_suite);

MODULE_DESCRIPTION("KUnit tests of tern's rings, tags and status codes");
MODULE_LICENSE("Dual BSD/GPL");
