// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What a doorbell costs: times 32-bit stores to a PCI BAR against posting work
 * to memory and storing once per batch. Run in a guest, as root:
 *
 *   mmio_store RESOURCE [OFFSET [VALUE]]
 *
 * RESOURCE is a device's resourceN in sysfs. The store must be harmless there:
 * VALUE 0 at OFFSET 0 of tern's doorbell BAR kicks the queues of page 0, of which
 * there are none without a driver.
 */
#include <err.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define ROUNDS	60
#define SPAN_NS	20000000ULL	/* of one round */

struct wqe {
	uint32_t word[16];
};

static volatile uint32_t *mmio;
static uint32_t value;
static struct wqe ring[256];
static _Atomic uint32_t record;

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ULL + t.tv_nsec;
}

/* One batch: posts WQEs, updates the record if wanted, and stores to the BAR. */
static void post(unsigned int wqes, int with_record, unsigned int stores)
{
	static uint32_t pi;
	struct wqe wqe;

	for (unsigned int i = 0; i < wqes; i++) {
		memset(&wqe, (int)pi, sizeof(wqe));
		ring[pi++ % 256] = wqe;
	}
	if (with_record)
		atomic_store_explicit(&record, pi, memory_order_release);
	atomic_signal_fence(memory_order_seq_cst);
	while (stores--)
		*mmio = value;
}

/* Returns the best of all rounds, in ns per batch: noise only adds to the time. */
static double measure(unsigned int wqes, int with_record, unsigned int stores)
{
	double best = 1e18;

	for (int round = 0; round < ROUNDS; round++) {
		uint64_t start = now_ns(), end, n = 0;
		double ns;

		do {
			for (int i = 0; i < 100; i++)
				post(wqes, with_record, stores);
			n += 100;
			end = now_ns();
		} while (end - start < SPAN_NS);
		ns = (double)(end - start) / (double)n;
		if (ns < best)
			best = ns;
	}
	return best;
}

static void enable_device(const char *resource)
{
	char path[4096];
	const char *slash = strrchr(resource, '/');
	int fd;

	if (!slash)
		return;
	snprintf(path, sizeof(path), "%.*s/enable", (int)(slash - resource), resource);
	fd = open(path, O_WRONLY);
	if (fd < 0)
		return;
	if (write(fd, "1", 1) != 1)
		warn("%s", path);
	close(fd);
}

int main(int argc, char **argv)
{
	static const unsigned int batches[] = { 1, 8, 64 };
	off_t offset = argc > 2 ? strtoll(argv[2], NULL, 0) : 0;
	long page = sysconf(_SC_PAGESIZE);
	char *map;
	int fd;

	if (argc < 2)
		errx(2, "usage: %s RESOURCE [OFFSET [VALUE]]", argv[0]);
	value = argc > 3 ? (uint32_t)strtoul(argv[3], NULL, 0) : 0;
	enable_device(argv[1]);
	fd = open(argv[1], O_RDWR | O_SYNC);
	if (fd < 0)
		err(1, "%s", argv[1]);
	map = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, offset & -page);
	if (map == MAP_FAILED)
		err(1, "mmap");
	mmio = (volatile uint32_t *)(map + (offset & (page - 1)));

	printf("one store to the BAR             %9.1f ns\n", measure(0, 0, 1));
	printf("one store to a record in memory  %9.1f ns\n", measure(0, 1, 0));
	printf("one 64-byte WQE and its record   %9.1f ns\n", measure(1, 1, 0));
	printf("\nns a WQE, posted in batches of  one BAR store each  record and one BAR store\n");
	for (unsigned int i = 0; i < sizeof(batches) / sizeof(batches[0]); i++) {
		unsigned int k = batches[i];

		printf("%30u  %18.1f  %24.1f\n", k, measure(k, 0, k) / k, measure(k, 1, 1) / k);
	}
	return 0;
}
