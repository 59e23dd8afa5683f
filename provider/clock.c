// SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause)
/* The device's clock: read without the kernel, and compared with the system's. */

#include <errno.h>
#include <time.h>

#include "tern.h"

/* The shortest of so many looks at both clocks tells best how they differ. */
#define TERN_WALLCLOCK_SAMPLES 4
/* How long that is believed: the two clocks run apart by up to 500 ppm, 50 us. */
#define TERN_WALLCLOCK_NS 100000000ULL

/*
 * The device's clock in ns, as it was at some instant between call and return;
 * all ones when the device is gone. Others that read through the same page, in
 * other processes too, may latch another high half in between: if the low half
 * has not wrapped around since, the instant lies there all the same.
 */
uint64_t tern_read_clock(struct tern_context *ctx)
{
	uint32_t first, high, low;

	do {
		first = mmio_read32(ctx->uar + TERN_UAR_CLOCK_LO);
		high = mmio_read32(ctx->uar + TERN_UAR_CLOCK_HI);
		low = mmio_read32(ctx->uar + TERN_UAR_CLOCK_LO);
	} while (low < first);

	return (uint64_t)high << 32 | low;
}

/*
 * ibv_query_rt_values_ex(3): the clock of the completion time stamps, all of it in
 * tv_nsec. EOPNOTSUPP for other values and without a clock, EIO when the device is gone.
 */
int tern_query_rt_values(struct ibv_context *ibvctx,
			 struct ibv_values_ex *values)
{
	struct tern_context *ctx = to_tern_ctx(ibvctx);
	uint32_t wanted = values->comp_mask;
	uint64_t clock;

	values->comp_mask = 0;
	if (!check_comp_mask(wanted, IBV_VALUES_MASK_RAW_CLOCK))
		return EOPNOTSUPP;
	if (!wanted)
		return 0;
	if (!(ctx->caps & TERN_UCTX_CAP_TIMESTAMP))
		return EOPNOTSUPP;

	clock = tern_read_clock(ctx);
	if (clock == UINT64_MAX)
		return EIO;

	values->raw_clock.tv_sec = 0;
	values->raw_clock.tv_nsec = clock;
	values->comp_mask = IBV_VALUES_MASK_RAW_CLOCK;

	return 0;
}

static uint64_t tern_system_ns(clockid_t id)
{
	struct timespec ts;

	clock_gettime(id, &ts);

	return (uint64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

static void tern_wallclock_take(struct tern_context *ctx,
				struct tern_wallclock *wc, uint64_t now)
{
	uint64_t best = UINT64_MAX;
	uint64_t before, clock, took;
	unsigned int i;

	for (i = 0; i < TERN_WALLCLOCK_SAMPLES; i++) {
		before = tern_system_ns(CLOCK_REALTIME);
		clock = tern_read_clock(ctx);
		took = tern_system_ns(CLOCK_REALTIME) - before;
		/* Set back meanwhile, it looks like a very long time. */
		if (took >= best)
			continue;
		best = took;
		wc->offset = before + took / 2 - clock;
	}

	wc->due = now + TERN_WALLCLOCK_NS;
}

/*
 * What CLOCK_REALTIME was at a time of the device's clock. The caller has a lock
 * around wc.
 */
uint64_t tern_wallclock_ns(struct tern_context *ctx, struct tern_wallclock *wc,
			   uint64_t stamp)
{
	uint64_t now = tern_system_ns(CLOCK_MONOTONIC_COARSE);

	if (unlikely(!wc->due || now >= wc->due))
		tern_wallclock_take(ctx, wc, now);

	return stamp + wc->offset;
}
