/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * What it costs to make memory known to io_uring, by the size of its pages:
 * ordinary ones, huge ones that the kernel joins by itself, and those that
 * were set aside.
 *
 * "weir" attaches an mmap to an inventory, "liburing" registers the same memory
 * by io_uring_register_buffers(); "detach" undoes it.
 */

#include <errno.h>
#include <liburing.h>
#include <string.h>
#include <sys/mman.h>

#include <weir/inventory.h>
#include <weir/mmap.h>
#include <weir/reactor.h>

#include "bench/bench.h"

#define PAGE ((size_t)4096)

struct kind {
	const char *name;
	char *mem;		/* NULL: there is none of this kind. */
	struct weir_mmap *mmap;
};

static struct weir_reactor *reactor;
static struct weir_inventory *inv;
static struct io_uring ring;
static bool have_ring;
static size_t size;

static void map_small(struct kind *k)
{
	k->mem = mmap(NULL, size, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (k->mem == MAP_FAILED)
		bench_die("mmap", errno);
	madvise(k->mem, size, MADV_NOHUGEPAGE);
	for (size_t i = 0; i < size; i += PAGE)
		k->mem[i] = 1;
	bench_must(weir_mmap_create(&k->mmap, NULL), "weir_mmap_create");
	bench_must(weir_mmap_set_memrange(k->mmap, k->mem, size), "memrange");
	bench_must(weir_mmap_start(k->mmap), "weir_mmap_start");
}

static void map_own(struct kind *k, uint32_t flags)
{
	void *addr = NULL;

	bench_must(weir_mmap_create(&k->mmap, NULL), "weir_mmap_create");
	bench_must(weir_mmap_alloc(k->mmap, size, flags), "weir_mmap_alloc");
	bench_must(weir_mmap_memrange(k->mmap, &addr, NULL), "memrange");
	bench_must(weir_mmap_start(k->mmap), "weir_mmap_start");
	k->mem = addr;
}

static void drop(struct kind *k)
{
	bench_must(weir_mmap_destroy(k->mmap), "weir_mmap_destroy");
	k->mmap = NULL;
	k->mem = NULL;
}

/* Of the memory at @mem, what the kernel has in huge pages of its own making. */
static size_t joined(const char *mem)
{
	unsigned long from, to, kb = 0;
	bool inside = false;
	char line[512];
	FILE *f = fopen("/proc/self/smaps", "re");

	if (!f)
		return 0;
	while (fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%lx-%lx ", &from, &to) == 2)
			inside = from <= (unsigned long)mem &&
				 (unsigned long)mem < to;
		else if (inside && sscanf(line, "AnonHugePages: %lu", &kb) == 1)
			break;
	}
	fclose(f);
	return (size_t)kb << 10;
}

/* The kernel may not give what was asked for: then it is left out, and said. */
static void map_all(struct kind kinds[3])
{
	const char *text;

	map_small(&kinds[0]);
	map_own(&kinds[1], 0);
	if (joined(kinds[1].mem) < size / 10 * 9) {
		bench_note("no transparent huge pages: the kernel has joined "
			   "%zu of %zu MiB", joined(kinds[1].mem) >> 20,
			   size >> 20);
		drop(&kinds[1]);
	}
	map_own(&kinds[2], WEIR_MMAP_ALLOC_HUGE_2M);
	if (weir_mmap_page_size(kinds[2].mmap, &text) == PAGE) {
		bench_note("no pages of 2 MiB: %s", text);
		drop(&kinds[2]);
	}
}

static double ms(uint64_t begin)
{
	return (double)(bench_wall_ns() - begin) / 1e6;
}

/* False if not all of it was registered: then it is no figure. */
static bool measure_weir(struct bench *b, struct kind *k, const char *what,
			 const char *undo)
{
	const char *text = NULL;
	uint64_t begin = bench_wall_ns();
	double attached, detached;
	bool all;

	bench_must(weir_inventory_attach(inv, k->mmap), "attach");
	attached = ms(begin);
	all = weir_mmap_registered(k->mmap, reactor, &text) == (int64_t)size;
	if (!all)
		bench_note("left out, %s: %s", what, text);
	begin = bench_wall_ns();
	bench_must(weir_inventory_detach(inv, k->mmap), "detach");
	detached = ms(begin);
	if (!all)
		return false;
	bench_add(b, what, "weir", "ms", attached);
	bench_add(b, undo, "weir", "ms", detached);
	return true;
}

/* False if the limit of locked memory is in the way. */
static bool measure_raw(struct bench *b, struct kind *k, const char *what,
			const char *undo)
{
	struct iovec iov = { .iov_base = k->mem, .iov_len = size };
	uint64_t begin = bench_wall_ns();
	int err = io_uring_register_buffers(&ring, &iov, 1);

	if (err == -ENOMEM) {
		bench_note("left out, %s: more than ulimit -l allows", what);
		return false;
	}
	bench_must(err, "register");
	bench_add(b, what, "liburing", "ms", ms(begin));
	begin = bench_wall_ns();
	bench_must(io_uring_unregister_buffers(&ring), "unregister");
	bench_add(b, undo, "liburing", "ms", ms(begin));
	return true;
}

static void measure(struct bench *b, struct kind *k)
{
	char what[48], undo[48];
	bool fits = true;

	if (!k->mem)
		return;
	snprintf(what, sizeof(what), "%zu MiB, %s", size >> 20, k->name);
	snprintf(undo, sizeof(undo), "detach, %s", k->name);
	if (have_ring && bench_wants(b, "liburing"))
		fits = measure_raw(b, k, what, undo);
	if (fits && bench_wants(b, "weir"))
		fits = measure_weir(b, k, what, undo);
	if (!fits)
		drop(k);
}

static int open_reactor(void)
{
	struct weir_reactor_opts opts = {
		.size = sizeof(opts), .backend = WEIR_BACKEND_URING,
	};
	int err = weir_reactor_create(&reactor, &opts);

	if (err)
		return err;
	bench_must(weir_inventory_create(&inv, reactor, NULL), "inventory");
	have_ring = !io_uring_queue_init(8, &ring, 0);
	return 0;
}

int main(int argc, char **argv)
{
	static struct kind kinds[3] = {
		{ .name = "4 KiB" }, { .name = "joined" }, { .name = "2 MiB" },
	};
	static struct bench b;
	char what[48];
	size_t i;

	bench_init(&b, "register", argc, argv);
	bench_pin(0);
	size = (size_t)(b.quick ? 4 : 256) << 20;
	if (open_reactor()) {
		bench_note("nothing to measure: %s", weir_why());
		return bench_done(&b);
	}
	map_all(kinds);
	for (bench_begin(&b); bench_next(&b); )
		for (i = 0; i < ARRAY_SIZE(kinds); i++)
			measure(&b, &kinds[i]);
	snprintf(what, sizeof(what), "%zu MiB, 4 KiB", size >> 20);
	bench_goal(&b, "registration: at most 1.2 x liburing", what, "weir",
		   "liburing", BENCH_AT_MOST, 1.2);

	for (i = 0; i < ARRAY_SIZE(kinds); i++)
		if (kinds[i].mem)
			bench_must(weir_mmap_destroy(kinds[i].mmap), "destroy");
	bench_must(weir_inventory_destroy(inv), "weir_inventory_destroy");
	bench_must(weir_reactor_destroy(reactor), "weir_reactor_destroy");
	if (have_ring)
		io_uring_queue_exit(&ring);
	return bench_done(&b);
}
