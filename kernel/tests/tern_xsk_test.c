// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Tests of the frames of AF_XDP sockets. */

#include <kunit/test.h>
#include <linux/if_xdp.h>
#include <linux/module.h>

#include "tern_xsk.h"

MODULE_IMPORT_NS("EXPORTED_FOR_KUNIT_TESTING");

/* Makes @num descriptors of a frame, without its end unless @end. */
static void tern_test_descs(struct xdp_desc *descs, u32 num, bool end)
{
	u32 i;

	for (i = 0; i < num; i++)
		descs[i] = (struct xdp_desc){ .len = 100, .options = XDP_PKT_CONTD };
	if (end)
		descs[num - 1].options = 0;
}

static void tern_test_frame(struct kunit *test, const struct xdp_desc *descs, u32 num,
			    bool *skip, u32 frame_num, bool good)
{
	struct tern_xsk_frame frame = tern_xsk_next_frame(descs, num, skip);

	KUNIT_EXPECT_EQ(test, frame.num, frame_num);
	KUNIT_EXPECT_EQ(test, frame.good, good);
}

static void tern_test_frames(struct kunit *test)
{
	struct xdp_desc descs[1 + 3 + TERN_XSK_MAX_SEGS];
	bool skip = false;

	tern_test_descs(&descs[0], 1, true);
	tern_test_descs(&descs[1], 3, true);
	tern_test_descs(&descs[4], TERN_XSK_MAX_SEGS, true);
	tern_test_frame(test, &descs[0], ARRAY_SIZE(descs), &skip, 1, true);
	tern_test_frame(test, &descs[1], ARRAY_SIZE(descs) - 1, &skip, 3, true);
	tern_test_frame(test, &descs[4], TERN_XSK_MAX_SEGS, &skip, TERN_XSK_MAX_SEGS, true);
	KUNIT_EXPECT_FALSE(test, skip);
}

/* A frame of more descriptors than the device takes would stop the queue. */
static void tern_test_frame_too_long(struct kunit *test)
{
	struct xdp_desc descs[TERN_XSK_MAX_SEGS + 2];
	bool skip = false;

	tern_test_descs(&descs[0], TERN_XSK_MAX_SEGS + 1, true);
	tern_test_descs(&descs[TERN_XSK_MAX_SEGS + 1], 1, true);
	tern_test_frame(test, descs, ARRAY_SIZE(descs), &skip, TERN_XSK_MAX_SEGS + 1, false);
	tern_test_frame(test, &descs[TERN_XSK_MAX_SEGS + 1], 1, &skip, 1, true);
}

/* The rest of a frame must not be sent as another one. */
static void tern_test_frame_cut(struct kunit *test)
{
	struct xdp_desc descs[4];
	bool skip = false;

	tern_test_descs(descs, 4, false);
	tern_test_frame(test, descs, 4, &skip, 4, false);
	KUNIT_EXPECT_TRUE(test, skip);
	/* More of it, then its end, then the next frame. */
	tern_test_frame(test, descs, 2, &skip, 2, false);
	KUNIT_EXPECT_TRUE(test, skip);
	tern_test_descs(&descs[0], 2, true);
	tern_test_descs(&descs[2], 2, true);
	tern_test_frame(test, descs, 4, &skip, 2, false);
	KUNIT_EXPECT_FALSE(test, skip);
	tern_test_frame(test, &descs[2], 2, &skip, 2, true);
}

/* A socket may request a time stamp of a device that has none. */
static void tern_test_no_timestamp(struct kunit *test)
{
	struct tern_net *net = kunit_kzalloc(test, sizeof(*net), GFP_KERNEL);
	struct tern_cqe cqe = { .timestamp = cpu_to_le64(1000) };
	struct tern_xsk_completion completion = { .net = net, .cqe = &cqe };

	KUNIT_ASSERT_NOT_NULL(test, net);
	KUNIT_EXPECT_EQ(test, tern_xsk_tx_metadata_ops.tmo_fill_timestamp(&completion), 0);
}

/* A ring is empty if its buffers do not take a whole frame. */
static void tern_test_starves(struct kunit *test)
{
	struct tern_rx *rx = kunit_kzalloc(test, sizeof(*rx), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, rx);
	rx->buf_len = 3000;
	rx->frame_len = 9000;
	rx->ci = U32_MAX - 1;
	rx->pi = rx->ci;
	KUNIT_EXPECT_TRUE(test, tern_xsk_rx_starves(rx));
	rx->pi = rx->ci + 2;
	KUNIT_EXPECT_TRUE(test, tern_xsk_rx_starves(rx));
	rx->pi = rx->ci + 3;
	KUNIT_EXPECT_FALSE(test, tern_xsk_rx_starves(rx));
	/* The FCS needs another buffer. */
	rx->flags = TERN_ETH_QF_KEEP_FCS;
	KUNIT_EXPECT_TRUE(test, tern_xsk_rx_starves(rx));
	rx->pi = rx->ci + 4;
	KUNIT_EXPECT_FALSE(test, tern_xsk_rx_starves(rx));
}

static struct kunit_case tern_xsk_cases[] = {
	KUNIT_CASE(tern_test_frames),
	KUNIT_CASE(tern_test_frame_too_long),
	KUNIT_CASE(tern_test_frame_cut),
	KUNIT_CASE(tern_test_starves),
	KUNIT_CASE(tern_test_no_timestamp),
	{}
};

static struct kunit_suite tern_xsk_suite = {
	.name = "tern_xsk",
	.test_cases = tern_xsk_cases,
};

kunit_test_suite(tern_xsk_suite);

MODULE_DESCRIPTION("KUnit tests of tern's AF_XDP");
MODULE_LICENSE("Dual BSD/GPL");
