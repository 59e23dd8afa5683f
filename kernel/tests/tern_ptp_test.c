// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Tests of tern.ko's PTP clock: the page that processes map follows the clock. */

#include <kunit/test.h>
#include <linux/ktime.h>
#include <linux/math64.h>
#include <linux/module.h>
#include <rdma/ib_user_verbs.h>

#include "tern_net_fake.h"

#define TERN_TEST_MAX_PPM	(500000L << 16)	/* scaled, of max_adj */

static void tern_test_set_clock(struct kunit *test, u64 device_ns)
{
	struct tern_test_net *fake = test->priv;
	__le32 *lo = (__le32 *)&fake->regs[TERN_REG_CLOCK_LO];

	WRITE_ONCE(lo[0], cpu_to_le32(lower_32_bits(device_ns)));
	WRITE_ONCE(lo[1], cpu_to_le32(upper_32_bits(device_ns)));
}

/* Gives the device a clock, and the network device a PTP clock. */
static struct tern_ptp *tern_test_ptp(struct kunit *test, u64 device_ns)
{
	struct tern_test_net *fake = test->priv;
	struct tern_net *net = tern_test_net(test);

	tern_test_set_clock(test, device_ns);
	fake->tdev.caps.flags = cpu_to_le64(TERN_CAP_TIMESTAMP);
	KUNIT_ASSERT_EQ(test, tern_ptp_register(net), 0);
	KUNIT_ASSERT_NOT_NULL(test, net->ptp.clock);
	KUNIT_ASSERT_PTR_EQ(test, fake->tdev.core.clock, net->ptp.page);
	return &net->ptp;
}

/* What a process computes of a stamp that is not before the last update. */
static u64 tern_test_wall(const struct ib_uverbs_clock_info *page, u64 stamp)
{
	return page->nsec + (((stamp - page->cycles) * page->mult + page->frac) >> page->shift);
}

/*
 * The device's clock goes on for @ns. The page, last updated when the sign was
 * below @sign, converts stamps as the driver does.
 */
static void tern_test_agree(struct kunit *test, u32 sign, u64 ns)
{
	struct tern_net *net = tern_test_net(test);
	const struct ib_uverbs_clock_info *page = net->ptp.page;
	u64 device_ns = net->ptp.tc.cycle_last + ns;

	tern_test_set_clock(test, device_ns);
	KUNIT_EXPECT_GT(test, page->sign, sign);
	KUNIT_EXPECT_EQ(test, page->sign & 1, 0);
	KUNIT_EXPECT_EQ(test, page->cycles, net->ptp.tc.cycle_last);
	KUNIT_EXPECT_EQ(test, tern_test_wall(page, page->cycles), page->nsec);
	KUNIT_EXPECT_EQ(test, tern_test_wall(page, device_ns), tern_ptp_time(net, device_ns));
	KUNIT_EXPECT_EQ(test, tern_test_wall(page, page->cycles + page->overflow_period),
			tern_ptp_time(net, page->cycles + page->overflow_period));
}

/* Each call that changes the clock changes the page. */
static void tern_test_ptp_page(struct kunit *test)
{
	static const struct timespec64 at = { .tv_sec = 1000 };
	const u64 start = BIT_ULL(40) + 12345;
	u64 real = ktime_get_real_ns();
	struct tern_ptp *ptp = tern_test_ptp(test, start);
	const struct ib_uverbs_clock_info *page = ptp->page;
	u32 sign;
	u64 wall;

	KUNIT_EXPECT_EQ(test, page->mask, U64_MAX);
	KUNIT_EXPECT_EQ(test, page->cycles, start);
	KUNIT_EXPECT_GE(test, page->nsec, real);
	KUNIT_EXPECT_LE(test, page->nsec, ktime_get_real_ns());
	tern_test_agree(test, 0, 1000);

	/* The rate changes now, not since the last update. */
	sign = page->sign;
	wall = tern_test_wall(page, start + 1000);
	ptp->info.adjfine(&ptp->info, TERN_TEST_MAX_PPM);
	KUNIT_EXPECT_EQ(test, page->cycles, start + 1000);
	KUNIT_EXPECT_EQ(test, page->nsec, wall);
	tern_test_agree(test, sign, 100001);
	KUNIT_EXPECT_EQ(test, tern_test_wall(page, start + 101001), wall + 150001);

	/* Nothing of the fraction is lost. */
	sign = page->sign;
	ptp->info.adjfine(&ptp->info, -TERN_TEST_MAX_PPM);
	KUNIT_EXPECT_NE(test, page->frac, 0);
	tern_test_agree(test, sign, 100001);
	KUNIT_EXPECT_EQ(test, tern_test_wall(page, start + 201002), wall + 200002);

	sign = page->sign;
	wall = tern_test_wall(page, start + 201002);
	ptp->info.adjtime(&ptp->info, -1000 * (s64)NSEC_PER_SEC);
	tern_test_agree(test, sign, 100001);
	KUNIT_EXPECT_EQ(test, tern_test_wall(page, start + 201002), wall - 1000 * NSEC_PER_SEC);

	sign = page->sign;
	ptp->info.settime64(&ptp->info, &at);
	KUNIT_EXPECT_EQ(test, page->nsec, 1000 * NSEC_PER_SEC);
	tern_test_agree(test, sign, 20 * NSEC_PER_SEC);

	/* The regular update, before products overflow. */
	sign = page->sign;
	ptp->info.do_aux_work(&ptp->info);
	tern_test_agree(test, sign, 20 * NSEC_PER_SEC);
	KUNIT_EXPECT_EQ(test, page->nsec, 1010 * NSEC_PER_SEC);

	/* After a reset the device's clock starts anywhere; the rate stays. */
	sign = page->sign;
	tern_test_set_clock(test, 77);
	tern_ptp_reset(tern_test_net(test));
	KUNIT_EXPECT_EQ(test, page->cycles, 77);
	KUNIT_EXPECT_GE(test, page->nsec, real);
	KUNIT_EXPECT_EQ(test, page->mult, ptp->cc.mult);
	tern_test_agree(test, sign, 1000);
}

/* The clock of a removed device stands still, and cannot be read. */
static void tern_test_ptp_gone(struct kunit *test)
{
	struct tern_ptp *ptp = tern_test_ptp(test, 1000);
	u64 wall = ptp->page->nsec;
	struct timespec64 ts;

	KUNIT_EXPECT_EQ(test, ptp->info.gettimex64(&ptp->info, &ts, NULL), 0);
	KUNIT_EXPECT_EQ(test, timespec64_to_ns(&ts), wall);
	tern_test_set_clock(test, U64_MAX);
	KUNIT_EXPECT_EQ(test, ptp->info.gettimex64(&ptp->info, &ts, NULL), -EIO);
	ptp->info.adjfine(&ptp->info, 0);
	ptp->info.do_aux_work(&ptp->info);
	KUNIT_EXPECT_EQ(test, ptp->page->cycles, 1000);
	KUNIT_EXPECT_EQ(test, ptp->page->nsec, wall);
}

/* A device without time stamps has neither clock nor page. */
static void tern_test_ptp_none(struct kunit *test)
{
	struct tern_test_net *fake = test->priv;

	fake->tdev.caps.flags = 0;
	KUNIT_EXPECT_EQ(test, tern_ptp_register(tern_test_net(test)), 0);
	KUNIT_EXPECT_NULL(test, tern_test_net(test)->ptp.clock);
	KUNIT_EXPECT_NULL(test, fake->tdev.core.clock);
}

static struct kunit_case tern_ptp_cases[] = {
	KUNIT_CASE(tern_test_ptp_page),
	KUNIT_CASE(tern_test_ptp_gone),
	KUNIT_CASE(tern_test_ptp_none),
	{}
};

static struct kunit_suite tern_ptp_suite = {
	.name = "tern_ptp",
	.init = tern_test_net_init,
	.exit = tern_test_net_exit,
	.test_cases = tern_ptp_cases,
};

kunit_test_suite(tern_ptp_suite);
