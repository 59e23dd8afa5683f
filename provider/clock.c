// SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause)
/* The device's clock. */

#include <errno.h>
#ifndef TERN_WITHOUT_CLOCK
#include <string.h>

#include <util/compiler.h>
#endif

#include "tern.h"

/*
 * Returns the device's clock in ns at some instant between call and return. If
 * the device is gone, returns all ones, or 0 once the kernel has replaced the
 * doorbell page by zeroed memory. Other readers of the same page, also in other
 * processes, may latch another high half in between. If the low half has not
 * wrapped since, the result is still an instant within the call.
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
 * ibv_query_rt_values_ex(3): the clock of completion time stamps, entirely in
 * tv_nsec. EOPNOTSUPP for other values, without a clock, and where tv_nsec has
 * 32 bits, which the clock exceeds within seconds; EIO if the device is gone.
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
	if (!(ctx->caps & TERN_UCTX_CAP_TIMESTAMP) ||
	    sizeof(values->raw_clock.tv_nsec) < sizeof(clock))
		return EOPNOTSUPP;

	clock = tern_read_clock(ctx);
	if (clock == 0 || clock == UINT64_MAX)
		return EIO;

	values->raw_clock.tv_sec = 0;
	values->raw_clock.tv_nsec = clock;
	values->comp_mask = IBV_VALUES_MASK_RAW_CLOCK;

	return 0;
}
#ifndef TERN_WITHOUT_CLOCK

/*
 * The page with which the kernel relates the device's clock to wall-clock time.
 */

static uint32_t tern_clock_word(const void *word)
{
	/* Acquire: the sequence is read again after all other words. */
	return atomic_load_explicit((atomic_uint *)word, memory_order_acquire);
}

/* Two halves, for 32-bit CPUs. The sequence detects a mismatch. */
static uint64_t tern_clock_quad(const __u64 *quad)
{
	const uint32_t *words = (const uint32_t *)quad;
	uint32_t halves[2];
	uint64_t value;

	halves[0] = tern_clock_word(&words[0]);
	halves[1] = tern_clock_word(&words[1]);
	memcpy(&value, halves, sizeof(value));

	return value;
}

/* Reads a consistent copy of the clock page. */
static void tern_clock_read(const struct tern_clock_page *page,
			    struct tern_clock_page *copy)
{
	do {
		do
			copy->sequence = tern_clock_word(&page->sequence);
		while (unlikely(copy->sequence & 1));

		copy->mult = tern_clock_word(&page->mult);
		copy->device_ns = tern_clock_quad(&page->device_ns);
		copy->wall_ns = tern_clock_quad(&page->wall_ns);
	} while (unlikely(tern_clock_word(&page->sequence) != copy->sequence));
}

/*
 * Returns delta * mult >> TERN_CLOCK_SHIFT, rounded down. The 96-bit product is
 * computed in two parts.
 */
static uint64_t tern_clock_scale(int64_t delta, uint32_t mult)
{
	int64_t high = delta >> 32;
	uint64_t low = (uint32_t)delta;

	return ((uint64_t)(high * mult) << (32 - TERN_CLOCK_SHIFT)) +
	       (low * mult >> TERN_CLOCK_SHIFT);
}

/*
 * Converts a time of the device's clock to nanoseconds since 1970. The caller
 * holds a lock that protects last. The kernel may change the rate between two
 * calls, and time stamps from before the change are converted at the new rate:
 * last ensures that a later stamp never converts to an earlier time.
 */
uint64_t tern_wallclock_ns(struct tern_context *ctx,
			   struct tern_wallclock *last, uint64_t stamp)
{
	struct tern_clock_page page;
	uint64_t wall;

	tern_clock_read(ctx->clock, &page);
	wall = page.wall_ns + tern_clock_scale(stamp - page.device_ns,
					       page.mult);
	if (unlikely(stamp >= last->stamp && wall < last->wall))
		wall = last->wall;

	last->stamp = stamp;
	last->wall = wall;

	return wall;
}
#endif
