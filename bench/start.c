/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The programs that bench-start starts: the least that can be linked with a
 * library.  With an argument one also creates the library's loop, and ends it.
 *
 * That of weir has another use: "core" makes what a program has on a core, for a
 * second one, and prints the KiB that this took beside the data of the pool's
 * buffers.  (The first one's has the library's own pages, which all cores share.)
 */

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#if defined(START_WEIR)
#include <weir/dma.h>
#include <weir/pool.h>
#include <weir/reactor.h>

#define BUFS 64
#define BUF_LEN ((size_t)64 << 10)

/* Resident pages of this process in KiB, or a negative number. */
static long resident(void)
{
	FILE *f = fopen("/proc/self/statm", "r");
	long all, pages = -1;

	if (!f)
		return -1;
	if (fscanf(f, "%ld %ld", &all, &pages) != 2)
		pages = -1;
	fclose(f);
	return pages < 0 ? -1 : pages * (sysconf(_SC_PAGESIZE) / 1024);
}

/* A reactor, a pool and a context, which the end of the process frees. */
static int make_core(void)
{
	struct weir_pool_opts opts = {
		.size = sizeof(opts), .bufs = BUFS, .buf_size = BUF_LEN,
	};
	struct weir_reactor *r;
	struct weir_pool *pool;
	struct weir_dma *dma;

	return weir_reactor_create(&r, NULL) ||
	       weir_pool_create(&pool, r, &opts) ||
	       weir_dma_create(&dma, r, NULL) || weir_dma_start(dma);
}

/* A pool's pages are in memory from its creation on. */
static int print_core(void)
{
	long before, after;

	if (make_core())
		return 1;
	before = resident();
	if (make_core())
		return 1;
	after = resident();
	if (before < 0 || after < before)
		return 1;
	printf("%ld\n", after - before - (long)(BUFS * BUF_LEN / 1024));
	return 0;
}

static int loop(const char *how)
{
	struct weir_reactor *r;

	if (!strcmp(how, "core"))
		return print_core();
	return weir_reactor_create(&r, NULL) || weir_reactor_destroy(r);
}

static int nothing(void)
{
	return !weir_version();
}
#elif defined(START_LIBEV)
#include <ev.h>

static int loop(const char *how)
{
	struct ev_loop *l = ev_loop_new(EVFLAG_AUTO);

	(void)how;
	if (l)
		ev_loop_destroy(l);
	return !l;
}

static int nothing(void)
{
	return !ev_version_major();
}
#elif defined(START_LIBUV)
#include <uv.h>

static int loop(const char *how)
{
	uv_loop_t l;

	(void)how;
	return uv_loop_init(&l) || uv_loop_close(&l);
}

static int nothing(void)
{
	return !uv_version();
}
#else
static int loop(const char *how)
{
	(void)how;
	return 0;
}

static int nothing(void)
{
	return 0;
}
#endif

int main(int argc, char **argv)
{
	return argc > 1 ? loop(argv[1]) : nothing();
}
