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

/* Attempts to read a page that the kernel is writing, which takes it 100 ns. */
#define TERN_CLOCK_TRIES 100

static uint32_t tern_clock_word(const void *word)
{
	/* Acquire: the sign is read again after all other words. */
	return atomic_load_explicit((atomic_uint *)word, memory_order_acquire);
}

/* Two halves, for 32-bit CPUs. The sign detects a mismatch. */
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

/*
 * Brings a copy of the kernel's clock page up to date. Returns false, and
 * leaves the copy as it is, if the kernel was writing at every attempt.
 */
static bool tern_clock_update(const struct ib_uverbs_clock_info *page,
			      struct ib_uverbs_clock_info *copy)
{
	struct ib_uverbs_clock_info now = {};
	unsigned int i;

	for (i = 0; i < TERN_CLOCK_TRIES; i++) {
		now.sign = tern_clock_word(&page->sign);
		if (unlikely(now.sign & 1))
			continue;
		if (likely(now.sign == copy->sign))
			return true;

		now.nsec = tern_clock_quad(&page->nsec);
		now.cycles = tern_clock_quad(&page->cycles);
		now.frac = tern_clock_quad(&page->frac);
		now.mult = tern_clock_word(&page->mult);
		now.shift = tern_clock_word(&page->shift);
		if (tern_clock_word(&page->sign) == now.sign) {
			*copy = now;
			return true;
		}
	}

	return false;
}

/*
 * Reads the clock page for the first time. Returns 0; EBUSY if the kernel does
 * not finish an update; EOPNOTSUPP if the page is in a form that the kernel
 * driver does not use.
 */
int tern_clock_init(const struct tern_context *ctx,
		    struct ib_uverbs_clock_info *clock)
{
	clock->sign = 1; /* an update ends with an even sign */
	if (!tern_clock_update(ctx->clock, clock))
		return EBUSY;

	return clock->shift > 32 ? EOPNOTSUPP : 0;
}

/*
 * Returns the time of the PHC, in ns, at a time stamp. The caller holds a lock
 * that protects clock, the last state of the page. The 96-bit product is
 * computed in two parts. Stamps from before an update have a negative distance.
 */
uint64_t tern_wallclock_ns(const struct tern_context *ctx,
			   struct ib_uverbs_clock_info *clock, uint64_t stamp)
{
	int64_t delta, high;
	uint64_t low;

	tern_clock_update(ctx->clock, clock);
	delta = stamp - clock->cycles;
	high = (delta >> 32) * clock->mult;
	low = (uint64_t)(uint32_t)delta * clock->mult + clock->frac;

	return clock->nsec + ((uint64_t)high << (32 - clock->shift)) +
	       (low >> clock->shift);
}
#endif
