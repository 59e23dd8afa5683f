// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Clock page: lets processes convert the device's time stamps to wall-clock
 * time without a register access.
 */

#include <linux/gfp.h>
#include <linux/math64.h>
#include <linux/timekeeping.h>

#include "tern_ib.h"

#define TERN_CLOCK_PERIOD	(HZ / 10)

/* The rate is chosen to correct the whole error within this time. */
#define TERN_CLOCK_HORIZON	NSEC_PER_SEC
/* A larger error means that CLOCK_REALTIME was set. */
#define TERN_CLOCK_STEP		(100 * (s64)NSEC_PER_MSEC)
#define TERN_CLOCK_ONE		((s64)BIT(TERN_CLOCK_SHIFT))
/* 500 ppm, as adjtime() slews; half speed to go back. */
#define TERN_CLOCK_SLEW		(TERN_CLOCK_ONE / 2000)
#define TERN_CLOCK_SLEW_BACK	(TERN_CLOCK_ONE / 2)

/* Returns the rate of the page if CLOCK_REALTIME is @error ns ahead of it. */
static u32 tern_clock_mult(s64 error)
{
	s64 least = error < -TERN_CLOCK_STEP ? -TERN_CLOCK_SLEW_BACK :
					       -TERN_CLOCK_SLEW;
	s64 slew;

	/*
	 * Within the horizon the product fits; larger errors are clamped to the
	 * slew limit anyway.
	 */
	error = clamp_t(s64, error, -TERN_CLOCK_HORIZON, TERN_CLOCK_HORIZON);
	slew = div_s64(error * TERN_CLOCK_ONE, TERN_CLOCK_HORIZON);
	return TERN_CLOCK_ONE + clamp_t(s64, slew, least, TERN_CLOCK_SLEW);
}

/**
 * tern_clock_next() - start a new segment of the page's time
 * @from: current contents of the page; ignored if its multiplier is 0
 * @device_ns: current device clock, not before that of @from
 * @real_ns: current CLOCK_REALTIME
 *
 * The segment starts at the current time of the page, so that time is
 * continuous, and its rate moves the page towards CLOCK_REALTIME by at most 500
 * ppm. If CLOCK_REALTIME was set forward by more than 100 ms, the page is set,
 * too. If it was set back by more than 100 ms, the page runs at half speed
 * until the error is below 100 ms, that is for twice the step.
 *
 * Return: the segment, without a sequence number.
 */
struct tern_clock_page tern_clock_next(const struct tern_clock_page *from,
				       u64 device_ns, u64 real_ns)
{
	u64 wall_ns = from->wall_ns +
		      mul_u64_u32_shr(device_ns - from->device_ns, from->mult,
				      TERN_CLOCK_SHIFT);
	s64 error = real_ns - wall_ns;

	if (!from->mult || error > TERN_CLOCK_STEP) {
		wall_ns = real_ns;
		error = 0;
	}

	return (struct tern_clock_page){
		.mult = tern_clock_mult(error),
		.device_ns = device_ns,
		.wall_ns = wall_ns,
	};
}

/* Readers retry if the sequence number is odd or has changed. */
static void tern_clock_write(struct tern_clock_page *page,
			     const struct tern_clock_page *next)
{
	WRITE_ONCE(page->sequence, page->sequence + 1);
	/* Make the odd number visible before the updates that follow. */
	smp_wmb();
	WRITE_ONCE(page->mult, next->mult);
	WRITE_ONCE(page->device_ns, next->device_ns);
	WRITE_ONCE(page->wall_ns, next->wall_ns);
	/* Make the updates visible before the even number. */
	smp_wmb();
	WRITE_ONCE(page->sequence, page->sequence + 1);
}

/* Called by the work, or by the first user before the work is queued. */
static void tern_clock_update(struct tern_ib_dev *dev,
			      const struct tern_clock_page *from)
{
	u64 before, after, device_ns;
	struct tern_clock_page next;

	before = ktime_get_real_ns();
	device_ns = tern_read_clock(dev->core);
	after = ktime_get_real_ns();
	/*
	 * A removed device reads as all ones, and CLOCK_REALTIME may be set
	 * between the two reads.
	 */
	if (upper_32_bits(device_ns) == U32_MAX ||
	    device_ns < from->device_ns || after < before)
		return;

	next = tern_clock_next(from, device_ns, before + (after - before) / 2);
	tern_clock_write(dev->clock.page, &next);
}

static void tern_clock_work(struct work_struct *work)
{
	struct tern_ib_dev *dev = container_of(to_delayed_work(work),
					       struct tern_ib_dev, clock.work);

	tern_clock_update(dev, dev->clock.page);
	schedule_delayed_work(&dev->clock.work, TERN_CLOCK_PERIOD);
}

/**
 * tern_clock_init() - allocate the clock page
 * @dev: the device
 *
 * Return: 0, also for a device without time stamps, which has no page, or
 * -ENOMEM.
 */
int tern_clock_init(struct tern_ib_dev *dev)
{
	struct tern_clock *clock = &dev->clock;

	mutex_init(&clock->lock);
	INIT_DELAYED_WORK(&clock->work, tern_clock_work);
	if (!tern_has_cap(dev, TERN_CAP_TIMESTAMP))
		return 0;

	clock->page = (void *)get_zeroed_page(GFP_KERNEL);
	return clock->page ? 0 : -ENOMEM;
}

/**
 * tern_clock_free() - undo tern_clock_init()
 * @dev: the device, which has no user contexts
 *
 * A process that has mapped the page keeps it with its last contents.
 */
void tern_clock_free(struct tern_ib_dev *dev)
{
	free_page((unsigned long)dev->clock.page);
}

/**
 * tern_clock_get() - start updating the clock page
 * @dev: a device with a clock page
 */
void tern_clock_get(struct tern_ib_dev *dev)
{
	/* First user: no continuity to preserve. */
	static const struct tern_clock_page zero_page;
	struct tern_clock *clock = &dev->clock;

	mutex_lock(&clock->lock);
	if (!clock->users++) {
		tern_clock_update(dev, &zero_page);
		schedule_delayed_work(&clock->work, TERN_CLOCK_PERIOD);
	}
	mutex_unlock(&clock->lock);
}

/**
 * tern_clock_put() - undo tern_clock_get()
 * @dev: the device
 */
void tern_clock_put(struct tern_ib_dev *dev)
{
	struct tern_clock *clock = &dev->clock;

	mutex_lock(&clock->lock);
	if (!--clock->users)
		cancel_delayed_work_sync(&clock->work);
	mutex_unlock(&clock->lock);
}
