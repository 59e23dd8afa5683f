// SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause)
/* Wall-clock time from the clock page, which the test writes. */

#include <errno.h>
#include <signal.h>
#include <sys/mman.h>

#include "fixture.h"

#define SHIFT 28
#define ONE (1U << SHIFT)

/* Two pages: the sign ends the first, the rest starts the second. */
static uint8_t *pages;
static struct ib_uverbs_clock_info *clock_page;

static void make_page(void)
{
	pages = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(pages != MAP_FAILED);
	clock_page = (void *)(pages + PAGE -
			      offsetof(struct ib_uverbs_clock_info, nsec));
	clock_page->shift = SHIFT;
	clock_page->mask = UINT64_MAX;
	ctx->clock = clock_page;
}

static void free_page(void)
{
	munmap(pages, 2 * PAGE);
	ctx->clock = NULL;
}

static void store(void *word, uint32_t value)
{
	atomic_store_explicit((atomic_uint *)word, value, memory_order_release);
}

static void store_quad(__u64 *quad, uint64_t value)
{
	uint32_t *words = (uint32_t *)quad, halves[2];

	memcpy(halves, &value, sizeof(value));
	store(&words[0], halves[0]);
	store(&words[1], halves[1]);
}

static void begin_write(void)
{
	store(&clock_page->sign, clock_page->sign + 1);
}

static void end_write(uint32_t mult, uint64_t device_ns, uint64_t wall_ns)
{
	store(&clock_page->mult, mult);
	store_quad(&clock_page->cycles, device_ns);
	store_quad(&clock_page->nsec, wall_ns);
	store(&clock_page->sign, clock_page->sign + 1);
}

static void write_page(uint32_t mult, uint64_t device_ns, uint64_t wall_ns)
{
	begin_write();
	end_write(mult, device_ns, wall_ns);
}

/* Converts a stamp for a new CQ. */
static uint64_t wall_of(uint64_t stamp)
{
	struct ib_uverbs_clock_info clock = {};

	CHECK(!tern_clock_init(ctx, &clock));
	return tern_wallclock_ns(ctx, &clock, stamp);
}

/* The exact result for any rate, any distance and both directions. */
void test_wallclock(void)
{
	static const uint32_t mults[] = {
		ONE, ONE + 1, ONE - 1, ONE + ONE / 2000, ONE - ONE / 2000,
		UINT32_MAX, 1, 0,
	};
	static const int64_t deltas[] = {
		0, 1, -1, 999, -999, 1LL << 31, -(1LL << 31), 1LL << 32,
		-(1LL << 32), (1LL << 32) - 1, -(1LL << 32) - 1,
		86400000000001LL, -86400000000001LL, INT64_MAX, INT64_MIN,
	};
	static const uint64_t fracs[] = { 0, ONE / 2, ONE - 1 };
	static const uint32_t shifts[] = { SHIFT, 0, 32 };
	const uint64_t device = 1ULL << 40, wall = 1790000000123456789ULL;
	struct ib_uverbs_clock_info clock = {};
	unsigned int i, j, k;

	make_page();
	for (i = 0; i < sizeof(mults) / sizeof(mults[0]); i++)
		for (j = 0; j < sizeof(deltas) / sizeof(deltas[0]); j++)
			for (k = 0; k < 9; k++) {
				uint32_t shift = shifts[k % 3];
				uint64_t frac = fracs[k / 3];
				uint64_t expected = wall;

				if (frac >> shift)
					continue;
#ifdef __SIZEOF_INT128__
				expected += (uint64_t)(((__int128)deltas[j] *
							mults[i] + frac) >>
						       shift);
#else
				if (mults[i] != ONE || shift != SHIFT)
					continue;
				expected += deltas[j];
#endif
				clock_page->shift = shift;
				clock_page->frac = frac;
				write_page(mults[i], device, wall);
				CHECK(wall_of(device + deltas[j]) == expected);
			}
	clock_page->shift = 33;
	write_page(ONE, device, wall);
	CHECK(tern_clock_init(ctx, &clock) == EOPNOTSUPP);
	clock_page->shift = SHIFT;
	clock_page->frac = 0;
	/* A device clock that restarted is far behind the page. */
	write_page(ONE, UINT64_MAX - 5, wall);
	CHECK(wall_of(4) == wall + 10);
	free_page();
}

/* Needs the page, not the device's clock, and follows each change of the page. */
void test_wallclock_cq(void)
{
	struct ibv_cq_init_attr_ex attr = {
		.cqe = 4,
		.wc_flags = IBV_WC_EX_WITH_COMPLETION_TIMESTAMP |
			    IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK,
	};
	const uint64_t device = 1ULL << 40, wall = 1790000000000000000ULL;
	struct ibv_poll_cq_attr poll = {};
	struct tern_cqe cqe = {};
	struct ibv_cq_ex *cqx;
	struct tern_cq *cq;
	unsigned int i;
	void *uar;

	CHECK(!tern_create_cq_ex(&ctx->vctx.context, &attr) &&
	      errno == EOPNOTSUPP);
	ctx->caps = TERN_UCTX_CAP_TIMESTAMP;
	CHECK(!tern_create_cq_ex(&ctx->vctx.context, &attr) &&
	      errno == EOPNOTSUPP);
	make_page();
	ctx->caps = 0;
	CHECK(!tern_create_cq_ex(&ctx->vctx.context, &attr) &&
	      errno == EOPNOTSUPP);
	ctx->caps = TERN_UCTX_CAP_TIMESTAMP;
	begin_write();
	CHECK(!tern_create_cq_ex(&ctx->vctx.context, &attr) && errno == EBUSY);
	end_write(ONE, device, wall);
	cqx = tern_create_cq_ex(&ctx->vctx.context, &attr);
	CHECK(cqx);
	cqx->context = &ctx->vctx.context;
	cq = to_tern_cq_ex(cqx);
	for (i = 0; i < 4; i++) {
		cqe.timestamp = htole64(device + i * 1000);
		put_whole_cqe(cq, i, &cqe);
	}

	uar = ctx->uar;
	ctx->uar = NULL;
	CHECK(!cqx->start_poll(cqx, &poll));
	CHECK(cqx->read_completion_ts(cqx) == device);
	CHECK(cqx->read_completion_wallclock_ns(cqx) == wall);
	CHECK(!cqx->next_poll(cqx));
	CHECK(cqx->read_completion_wallclock_ns(cqx) == wall + 1000);
	/* The PHC was set back, at twice the rate. */
	write_page(2 * ONE, device, wall - 1000000);
	CHECK(!cqx->next_poll(cqx));
	CHECK(cqx->read_completion_wallclock_ns(cqx) == wall - 996000);
	/* An update that does not end: the state before it. */
	begin_write();
	store(&clock_page->mult, 7);
	CHECK(!cqx->next_poll(cqx));
	CHECK(cqx->read_completion_wallclock_ns(cqx) == wall - 994000);
	end_write(ONE, device, wall);
	CHECK(cqx->read_completion_wallclock_ns(cqx) == wall + 3000);
	cqx->end_poll(cqx);
	ctx->uar = uar;
	tern_destroy_cq(&cq->vcq.cq);
	free_page();
}

/* ---- the kernel writes during a read ---- */

static volatile sig_atomic_t writes;

/* The reader has read the sign, and is about to read the rest. */
static void write_meanwhile(int sig)
{
	if (mprotect(pages + PAGE, PAGE, PROT_READ | PROT_WRITE))
		abort();
	writes++;
	write_page(2 * ONE, 5000, 1000000);
}

static atomic_bool write_done;

void test_wallclock_writer(void)
{
	struct sigaction action = { .sa_handler = write_meanwhile }, before;

	make_page();
	write_page(ONE, 1000, 2000);
	sigaction(SIGSEGV, &action, &before);
	CHECK(!mprotect(pages + PAGE, PAGE, PROT_NONE));
	CHECK(wall_of(5100) == 1000200 && writes == 1);
	sigaction(SIGSEGV, &before, NULL);
	free_page();
}

#define WRITES 20000U

/* All versions of the page agree on each stamp; mixtures do not. */
static void *write_loop(void *arg)
{
	unsigned int i;

	for (i = 0; i < WRITES; i++) {
		uint64_t device = (uint64_t)i << 31;

		if (i & 1)
			write_page(ONE, device, device + 1000);
		else
			write_page(0, device, (5ULL << 31) + 1000);
	}
	atomic_store(&write_done, true);
	return arg;
}

void test_wallclock_threads(void)
{
	struct ib_uverbs_clock_info clock = {};
	pthread_t writer;

	make_page();
	write_page(ONE, 0, 1000);
	CHECK(!tern_clock_init(ctx, &clock));
	atomic_store(&write_done, false);
	pthread_create(&writer, NULL, write_loop, NULL);
	while (!atomic_load(&write_done))
		CHECK(tern_wallclock_ns(ctx, &clock, 5ULL << 31) ==
		      (5ULL << 31) + 1000);
	pthread_join(writer, NULL);
	free_page();
}
