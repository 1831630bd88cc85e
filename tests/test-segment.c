/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Segments: what is in the map, walks, look-ups, sums, flags.  The numbers are
 * those of the rules and cases that are re-created, of DPDK's rte_memory.
 */

#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include "tests/segment-kit.h"

#include <pthread.h>
#include <sys/resource.h>

#include <weir/domain.h>
#include <weir/pool.h>

#include "base/fault.h"

#define N 8			/* Pages in the area of most tests. */

static void a_started_mmap_is_in_the_map_until_it_stops(void **state)
{
	struct weir_segment seg = SEGMENT;
	char *p = pages(N);
	struct weir_mmap *m = stopped_mmap(p, N * PAGE);
	uint64_t first;

	(void)state;
	assert_int_equal(weir_segment_find(&seg, p), -ENOENT);
	assert_int_equal(weir_mmap_start(m), 0);
	assert_int_equal(weir_segment_find(&seg, p + PAGE + 5), 0); /* C1.3 */
	assert_ptr_equal(seg.addr, p + PAGE);
	assert_int_equal(seg.len, PAGE);
	assert_int_equal(seg.page_size, PAGE);
	assert_int_equal(seg.iova, (uintptr_t)p + PAGE);
	assert_int_equal(seg.fd, -1);
	assert_int_equal(seg.domain_kind, WEIR_DOMAIN_SYSTEM);
	assert_int_equal(seg.flags, WEIR_SEGMENT_DIRTY);
	first = seg.list;
	assert_int_equal(weir_segment_find_list(&seg, p + N * PAGE - 1), 0);
	assert_ptr_equal(seg.addr, p);
	assert_int_equal(seg.len, N * PAGE);
	assert_int_equal(seg.list, first);
	assert_int_equal(weir_segment_find(&seg, p + N * PAGE), -ENOENT);
	assert_int_equal(weir_segment_find(&seg, p - 1), -ENOENT);
	assert_int_equal(weir_segment_find(&seg, NULL), -EINVAL);

	assert_int_equal(weir_mmap_start(m), 0);
	assert_int_equal(n_lists(), 1);
	assert_int_equal(weir_mmap_stop(m, NULL, NULL), 0);
	assert_int_equal(weir_segment_find(&seg, p), -ENOENT);
	assert_int_equal(weir_mmap_start(m), 0);
	assert_int_not_equal(list_of(p), first);
	assert_int_equal(weir_mmap_destroy(m), 0);
	assert_int_equal(n_lists(), 0);
	pages_end(p, N);
}

static void results_of_another_size_are_filled_as_far_as_they_go(void **state)
{
	struct weir_segment seg;
	struct weir_segment_stats stats;
	char *p = pages(N);
	struct weir_mmap *m = started_mmap(p, PAGE);

	(void)state;
	memset(&seg, 0xee, sizeof(seg));
	seg.size = offsetof(struct weir_segment, len);
	assert_int_equal(weir_segment_find(&seg, p), 0);
	assert_ptr_equal(seg.addr, p);
	assert_int_equal(seg.size, offsetof(struct weir_segment, len));
	assert_int_equal(seg.node, (int)0xeeeeeeee);
	seg.size = 3;
	seg.addr = NULL;
	assert_int_equal(weir_segment_find(&seg, p), -EINVAL);
	assert_int_equal(weir_segment_find_list(&seg, p), -EINVAL);
	assert_null(seg.addr);
	memset(&stats, 0xee, sizeof(stats));
	stats.size = offsetof(struct weir_segment_stats, bytes);
	assert_int_equal(weir_segment_stats(&stats), 0);
	assert_int_equal(stats.lists, 1);
	assert_int_equal(stats.mask_bits, 0xeeeeeeee);
	stats.size = 1;
	assert_int_equal(weir_segment_stats(&stats), -EINVAL);
	weir_mmap_destroy(m);
	pages_end(p, N);
}

/* What a walk has seen. */
struct seen {
	int n;
	struct weir_segment seg[64];
	int stop_at;		/* The call that answers: */
	int answer;
};

static int see(const struct weir_segment *seg, void *arg)
{
	struct seen *seen = arg;

	assert_int_equal(seg->size, sizeof(*seg));
	assert_true(seen->n < 64);
	seen->seg[seen->n++] = *seg;
	return seen->n == seen->stop_at ? seen->answer : 0;
}

static void segments_are_what_is_in_a_page(void **state)
{
	struct seen seen = { 0 };
	char *p = pages(N);
	struct weir_mmap *m = started_mmap(p + 100, 2 * PAGE);
	struct weir_segment one = SEGMENT;

	(void)state;
	assert_int_equal(weir_segment_walk(see, &seen), 0);
	assert_int_equal(seen.n, 3);
	assert_ptr_equal(seen.seg[0].addr, p + 100);
	assert_int_equal(seen.seg[0].len, PAGE - 100);
	assert_ptr_equal(seen.seg[1].addr, p + PAGE);
	assert_int_equal(seen.seg[1].len, PAGE);
	assert_ptr_equal(seen.seg[2].addr, p + 2 * PAGE);
	assert_int_equal(seen.seg[2].len, 100);
	assert_int_equal(weir_segment_find(&one, p + 2 * PAGE + 99), 0);
	assert_memory_equal(&one, &seen.seg[2], sizeof(one));
	assert_int_equal(weir_segment_find(&one, p + 100), 0);
	assert_memory_equal(&one, &seen.seg[0], sizeof(one));
	seen.n = 0;
	assert_int_equal(weir_segment_walk_list(list_of(p + 100), see, &seen),
			 0);
	assert_int_equal(seen.n, 3);
	weir_mmap_destroy(m);
	pages_end(p, N);
}

typedef int walk_fn(weir_segment_fn *fn, void *arg);

static int walk_the_list(weir_segment_fn *fn, void *arg)
{
	struct seen seen = { .stop_at = 1, .answer = 1 };

	assert_int_equal(weir_segment_walk_lists(see, &seen), 1);
	return weir_segment_walk_list(seen.seg[0].list, fn, arg);
}

/* C1.1 */
static void a_walk_answers_what_its_callback_does(void **state)
{
	static walk_fn *const walks[] = {
		weir_segment_walk, weir_segment_walk_lists,
		weir_segment_walk_runs, walk_the_list,
	};
	char *p = pages(N);
	struct weir_mmap *m = started_mmap(p, PAGE);
	struct weir_mmap *m2 = started_mmap(p + 3 * PAGE, PAGE);
	size_t i;

	(void)state;
	for (i = 0; i < N_OF(walks); i++) {
		struct seen all = { 0 }, stop = { .stop_at = 1, .answer = 1 },
			    err = { .stop_at = 1, .answer = -EIO };

		assert_int_equal(walks[i](see, &all), 0);
		assert_int_equal(all.n, walks[i] == walk_the_list ? 1 : 2);
		assert_int_equal(walks[i](see, &stop), 1);
		assert_int_equal(stop.n, 1);
		assert_int_equal(walks[i](see, &err), -EIO);
		assert_int_equal(err.n, 1);
		assert_int_equal(walks[i](NULL, NULL), -EINVAL);
	}
	assert_int_equal(weir_segment_walk_list(0, see, NULL), -ENOENT);
	assert_int_equal(weir_segment_walk_list(1u << 30, see, NULL), -ENOENT);
	weir_mmap_destroy(m);
	weir_mmap_destroy(m2);
	pages_end(p, N);
}

/* C1.2 */
static void runs_are_addresses_without_a_gap(void **state)
{
	struct seen seen = { 0 };
	char *p = pages(N);
	struct weir_mmap *m[4] = {
		started_mmap(p, 2 * PAGE),
		started_mmap(p + PAGE, PAGE / 2),	/* Within the first. */
		started_mmap(p + 3 * PAGE, PAGE),	/* After a gap. */
	};
	size_t i;

	(void)state;
	assert_int_equal(weir_segment_register(p + 4 * PAGE, PAGE, NULL, 0,
					       PAGE), 0);
	m[3] = started_mmap(p + 4 * PAGE, PAGE);
	assert_int_equal(weir_segment_walk_runs(see, &seen), 0);
	assert_int_equal(seen.n, 2);
	assert_ptr_equal(seen.seg[0].addr, p);
	assert_int_equal(seen.seg[0].len, 2 * PAGE);
	assert_int_equal(seen.seg[0].list, list_of(p));
	assert_ptr_equal(seen.seg[1].addr, p + 3 * PAGE);
	assert_int_equal(seen.seg[1].len, 2 * PAGE);
	assert_int_equal(seen.seg[1].flags, WEIR_SEGMENT_DIRTY);
	for (i = 0; i < 4; i++)
		weir_mmap_destroy(m[i]);
	assert_int_equal(weir_segment_unregister(p + 4 * PAGE, PAGE), 0);
	pages_end(p, N);
}

/* What the callback below needs, and does. */
struct churn {
	char *p;
	struct weir_mmap *seen_first;	/* Destroyed by the first call. */
	struct weir_mmap *added;
	struct seen inner;
	struct seen outer;
};

static int churn(const struct weir_segment *seg, void *arg)
{
	struct churn *c = arg;

	see(seg, &c->outer);
	if (c->outer.n > 1)
		return 0;
	assert_int_equal(weir_mmap_destroy(c->seen_first), 0);
	c->added = started_mmap(c->p + 6 * PAGE, PAGE);
	assert_int_equal(weir_segment_register(c->p + 7 * PAGE, PAGE, NULL, 0,
					       PAGE), 0);
	assert_int_equal(weir_segment_walk(see, &c->inner), 0);
	return 0;
}

/* C1.1, gotcha 20 */
static void a_walk_sees_what_was_there_whatever_its_callback_does(void **state)
{
	struct churn c = { .p = pages(N) };
	struct weir_mmap *m;

	(void)state;
	c.seen_first = started_mmap(c.p, 2 * PAGE);
	m = started_mmap(c.p + 3 * PAGE, PAGE);
	assert_int_equal(weir_segment_walk(churn, &c), 0);
	assert_int_equal(c.outer.n, 3);
	assert_ptr_equal(c.outer.seg[1].addr, c.p + PAGE);
	assert_int_equal(c.inner.n, 3);
	assert_ptr_equal(c.inner.seg[0].addr, c.p + 3 * PAGE);
	assert_ptr_equal(c.inner.seg[2].addr, c.p + 7 * PAGE);
	assert_int_equal(weir_segment_unregister(c.p + 7 * PAGE, PAGE), 0);
	weir_mmap_destroy(c.added);
	weir_mmap_destroy(m);
	pages_end(c.p, N);
}

static int check_segment(const struct weir_segment *seg, void *arg)
{
	char *p = seg->addr;
	uint64_t iova, off, at;
	int fd, err, *n = arg;
	void *back;
	size_t i;

	for (i = 0; i < seg->len; i += 512)
		(void)*(volatile char *)&p[i];
	err = weir_segment_fd(&fd, &off, seg->addr);
	if (seg->flags & WEIR_SEGMENT_EXTERNAL) {
		assert_int_equal(err, -EOPNOTSUPP);
	} else if (seg->fd < 0) {
		assert_int_equal(err, -ENODEV);
	} else {
		assert_int_equal(err, 0);
		assert_int_equal(off, seg->fd_off);
		close(fd);
	}
	assert_int_equal(weir_segment_iova(&iova, seg->addr), 0);
	assert_int_equal(iova, seg->iova);
	for (i = 0; i < seg->len; i += 333) {
		assert_int_equal(weir_segment_iova(&at, &p[i]), 0);
		assert_int_equal(at, iova + i);	/* C1.8 */
		assert_int_equal(weir_segment_from_iova(&back, at), 0);
		assert_ptr_equal(back, &p[i]);
	}
	++*n;
	return 0;
}

/* 49 */
static void every_segment_is_as_it_is_said_to_be(void **state)
{
	struct weir_pool_opts opts = { .size = sizeof(opts), .bufs = 4 };
	struct weir_reactor *r;
	const uint64_t iovas[] = { 0x800000, 0x100000, 0x900000 };
	struct weir_segment seg = SEGMENT;
	struct weir_pool *pool;
	char *p = pages(N);
	struct weir_mmap *m = started_mmap(p + 7, PAGE);
	struct weir_mmap *in;
	void *mem;
	int n = 0;

	(void)state;
	assert_int_equal(weir_reactor_create(&r, NULL), 0);
	assert_int_equal(weir_pool_create(&pool, r, &opts), 0);
	assert_int_equal(weir_segment_register(p + 4 * PAGE, 3 * PAGE, iovas, 3,
					       PAGE), 0);
	in = started_mmap(p + 5 * PAGE + 10, PAGE);
	assert_int_equal(weir_segment_walk(check_segment, &n), 0);
	assert_int_equal(n, 2 + 4 * 16 + 3 + 2);
	assert_true(own_bytes() > 0);
	assert_int_equal(weir_mmap_memrange(weir_pool_mmap(pool), &mem, NULL),
			 0);
	assert_int_equal(weir_segment_find(&seg, mem), 0);
	weir_mmap_destroy(in);
	weir_mmap_destroy(m);
	assert_int_equal(weir_segment_unregister(p + 4 * PAGE, 3 * PAGE), 0);
	assert_int_equal(weir_pool_destroy(pool), 0);
	assert_int_equal(weir_reactor_destroy(r), 0);
	assert_int_equal(n_lists(), 0);
	pages_end(p, N);
}

/* 49 */
static void the_dump_says_what_is_there(void **state)
{
	char text[4096] = "", want[64];
	char *p = pages(N);
	struct weir_mmap *m = started_mmap(p, 3 * PAGE);
	int fd = test_file(state, "dump", 0, 0);

	assert_int_equal(weir_segment_register(p + 4 * PAGE, PAGE, NULL, 0,
					       PAGE), 0);
	assert_int_equal(weir_segment_dump(fd), 0);
	assert_true(pread(fd, text, sizeof(text) - 1, 0) > 0);
	snprintf(want, sizeof(want), "12288 bytes at %p", (void *)p);
	assert_non_null(strstr(text, want));
	assert_non_null(strstr(text, "iova unknown"));
	assert_non_null(strstr(text, "external dirty\n"));
	assert_non_null(strstr(text,
			       "total: 2 lists, 12288 bytes, 4096 external"));
	assert_int_equal(weir_segment_dump(-1), -EBADF);
	assert_starts_with(weir_why(), "weir_segment_dump: fd -1");
	close(fd);
	weir_mmap_destroy(m);
	assert_int_equal(weir_segment_unregister(p + 4 * PAGE, PAGE), 0);
	pages_end(p, N);
}

static void sums_count_a_byte_once(void **state)
{
	struct weir_segment_stats stats = { .size = sizeof(stats) };
	char *p = pages(N);
	struct weir_mmap *m[3] = {
		started_mmap(p, 2 * PAGE), started_mmap(p + PAGE, 2 * PAGE),
	};

	(void)state;
	assert_int_equal(own_bytes(), 3 * PAGE);
	assert_int_equal(weir_segment_node_bytes(0), 3 * PAGE);
	assert_int_equal(weir_segment_node_bytes(9), 0);
	assert_int_equal(weir_segment_node_bytes(-1), 0);
	assert_int_equal(weir_segment_register(p + 4 * PAGE, 2 * PAGE, NULL, 0,
					       PAGE), 0);
	m[2] = started_mmap(p + 4 * PAGE, PAGE);
	assert_int_equal(weir_segment_stats(&stats), 0);
	assert_int_equal(stats.lists, 4);
	assert_int_equal(stats.bytes, 3 * PAGE);	/* C1.2 */
	assert_int_equal(stats.external, 2 * PAGE);
	assert_int_equal(stats.imported, 0);
	assert_true(stats.nodes >= 1);
	weir_mmap_destroy(m[0]);
	assert_int_equal(own_bytes(), 2 * PAGE);
	weir_mmap_destroy(m[1]);
	weir_mmap_destroy(m[2]);
	assert_int_equal(weir_segment_unregister(p + 4 * PAGE, 2 * PAGE), 0);
	pages_end(p, N);
}

/*
 * C1.7.  The mask stays, so that it is another process's.  The table reaches to
 * two bits less than the addresses do.
 */
static void check_masks(void *arg)
{
	struct weir_segment_stats stats = { .size = sizeof(stats) };
	unsigned int b = 62 - (unsigned int)__builtin_clzll((uintptr_t)arg);
	uint64_t iovas[] = { 0x1000, (UINT64_C(1) << b) - PAGE };
	char *p = arg;
	struct weir_mmap *m = stopped_mmap(p, PAGE);

	WANT(weir_segment_check_mask(0) == -EINVAL);
	WANT(weir_segment_check_mask(64) == -EINVAL);
	WANT(!weir_segment_register(p + PAGE, 2 * PAGE, iovas, 2, PAGE));
	WANT(weir_segment_check_mask(b - 1) == -ERANGE);
	WANT(!weir_mmap_start(m));
	WANT(weir_segment_check_mask(b) == -ERANGE);
	WANT(!weir_mmap_stop(m, NULL, NULL));
	WANT(!weir_segment_check_mask(b + 1));
	WANT(!weir_segment_check_mask(b));
	WANT(!weir_segment_check_mask(63));	/* The tightest is kept. */
	WANT(!weir_segment_stats(&stats) && stats.mask_bits == b);
	WANT(weir_mmap_start(m) == -ERANGE);
	WANT(weir_mmap_state(m) == WEIR_MMAP_STOPPED && n_lists() == 1);
	iovas[0] = UINT64_C(1) << b;
	WANT(weir_segment_register(p + 4 * PAGE, PAGE, iovas, 1, PAGE) ==
	     -ERANGE);
	WANT(!weir_segment_register(p + 4 * PAGE, PAGE, NULL, 0, PAGE));
	WANT(weir_segment_set_mask(64) == -EINVAL);
	WANT(!weir_segment_set_mask(12) && weir_mmap_start(m) == -ERANGE);
	WANT(!weir_segment_set_mask(0) && !weir_mmap_start(m));
	WANT(!weir_mmap_destroy(m));
}

static void memory_beyond_the_mask_is_refused(void **state)
{
	char *p = pages(N);

	(void)state;
	in_child(check_masks, p, false);
	pages_end(p, N);
}

static void flags_are_set_and_cleared(void **state)
{
	struct weir_segment seg = SEGMENT;
	char *p = pages(N);
	struct weir_mmap *m = started_mmap(p, 2 * PAGE);
	uint64_t id = list_of(p);

	(void)state;
	assert_int_equal(weir_segment_set_flags(id, WEIR_SEGMENT_HUGE, 0),
			 -EINVAL);
	assert_int_equal(weir_segment_set_flags(id, 0, WEIR_SEGMENT_LOCKED),
			 -EINVAL);
	assert_int_equal(weir_segment_set_flags(id, WEIR_SEGMENT_DIRTY,
						WEIR_SEGMENT_DIRTY), -EINVAL);
	assert_int_equal(weir_segment_set_flags(id + 1, 0, 0), -ENOENT); /* 52 */
	assert_int_equal(weir_segment_set_flags(id, WEIR_SEGMENT_DO_NOT_FREE,
						WEIR_SEGMENT_DIRTY), 0);
	assert_int_equal(weir_segment_find(&seg, p + PAGE), 0);
	assert_int_equal(seg.flags, WEIR_SEGMENT_DO_NOT_FREE);
	assert_int_equal(weir_mmap_stop(m, NULL, NULL), -EBUSY);
	assert_non_null(strstr(weir_why(), "WEIR_SEGMENT_DO_NOT_FREE"));
	assert_int_equal(weir_mmap_destroy(m), -EBUSY);
	assert_int_equal(weir_mmap_state(m), WEIR_MMAP_STARTED);
	assert_int_equal(weir_segment_set_flags(id, 0,
						WEIR_SEGMENT_DO_NOT_FREE), 0);
	assert_int_equal(weir_mmap_destroy(m), 0);
	pages_end(p, N);
}

/* C1.10, 59: zeroed */
static void what_is_dirty_is_zeroed_once(void **state)
{
	static const char zeros[2 * PAGE];
	char *p = pages(N);
	struct weir_mmap *m = started_mmap(p + 10, 2 * PAGE);
	uint64_t id = list_of(p + 10);

	(void)state;
	memset(p, 'x', N * PAGE);
	assert_int_equal(weir_segment_clean(id), 1);
	assert_memory_equal(p + 10, zeros, 2 * PAGE);
	assert_int_equal(p[9], 'x');
	assert_int_equal(p[10 + 2 * PAGE], 'x');
	p[10] = 'y';
	assert_int_equal(weir_segment_clean(id), 0);
	assert_int_equal(p[10], 'y');
	assert_int_equal(weir_segment_set_flags(id, WEIR_SEGMENT_DIRTY, 0), 0);
	assert_int_equal(weir_segment_clean(id), 1);
	assert_int_equal(p[10], 0);
	assert_int_equal(weir_segment_clean(id + 1), -ENOENT);
	weir_mmap_stop(m, NULL, NULL);
	assert_int_equal(weir_mmap_set_permissions(m, WEIR_MMAP_READ), 0);
	assert_int_equal(weir_mmap_start(m), 0);
	assert_int_equal(weir_segment_clean(list_of(p + 10)), -EACCES);
	weir_mmap_destroy(m);
	pages_end(p, N);
}

/* KiB of this process that are locked. */
static long locked_kib(void)
{
	FILE *f = fopen("/proc/self/status", "r");
	char line[256];
	long n = -1;

	while (f && fgets(line, sizeof(line), f))
		sscanf(line, "VmLck: %ld", &n);
	if (f)
		fclose(f);
	return n;
}

static void check_locks(void *arg)
{
	char *p = arg;
	struct weir_mmap *m = started_mmap(p + 8, 2 * PAGE);
	struct weir_mmap *m2 = started_mmap(p + PAGE, 4 * PAGE);
	uint64_t a = list_of(p + 8), b = list_of(p + 3 * PAGE);
	struct weir_segment seg = SEGMENT;
	long before = locked_kib();

	WANT(!weir_segment_lock(a) && !weir_segment_lock(a));
	WANT(locked_kib() - before == 12);
	WANT(!weir_segment_lock(b));
	WANT(locked_kib() - before == 20);
	WANT(!weir_segment_find(&seg, p + PAGE));
	WANT(seg.flags & WEIR_SEGMENT_LOCKED);
	/* What the other has locked too stays. */
	WANT(!weir_segment_unlock(a));
	WANT(locked_kib() - before == 16);
	WANT(!weir_segment_lock(a));
	WANT(!weir_segment_unlock(b));
	WANT(locked_kib() - before == 12);
	WANT(!weir_segment_unlock(b));
	/* A removal unlocks. */
	WANT(!weir_mmap_destroy(m));
	WANT(locked_kib() == before);
	WANT(weir_segment_lock(a) == -ENOENT);
	WANT(weir_segment_unlock(a) == -ENOENT);
	WANT(!weir_mmap_destroy(m2));
}

static void need_mlock(void)
{
	if (UNDER_ASAN || UNDER_TSAN)
		skip_because("sanitizers make mlock() do nothing");
}

static void a_list_is_locked_in_memory(void **state)
{
	char *p = pages(N);

	(void)state;
	need_mlock();
	in_child(check_locks, p, false);
	in_child(check_locks, p, true);
	pages_end(p, N);
}

static void check_lock_limit(void *arg)
{
	struct rlimit lim = { 64 << 10, 64 << 10 };
	char *p = arg;
	struct weir_mmap *m = started_mmap(p, 128 << 10);

	WANT(!setrlimit(RLIMIT_MEMLOCK, &lim));
	WANT(weir_segment_lock(list_of(p)) == -ENOMEM);
	WANT(strstr(weir_why(), "64 KiB") && strstr(weir_why(), "ulimit -l"));
	lim.rlim_cur = lim.rlim_max = 0;
	WANT(!setrlimit(RLIMIT_MEMLOCK, &lim));
	WANT(weir_segment_lock(list_of(p)) == -EPERM);
	WANT(strstr(weir_why(), "ulimit -l"));
	WANT(!weir_mmap_destroy(m));
}

static void the_limit_of_locked_memory_is_said(void **state)
{
	char *p = pages(32);

	(void)state;
	need_mlock();
	in_child(check_lock_limit, p, true);
	pages_end(p, 32);
}

static void a_failing_allocation_changes_nothing(void **state)
{
	const uint64_t iovas[] = { PAGE, 2 * PAGE };
	struct seen seen = { 0 };
	char *p = pages(N);
	struct weir_mmap *m = stopped_mmap(p, PAGE);
	int fd = -1, err, fired, fds = count_fds(), n;

	(void)state;
	for (n = 0; n < 100; n++) {
		fault_arm(n);
		err = weir_mmap_start(m);
		if (!err)
			err = weir_segment_register(p + PAGE, 2 * PAGE, iovas,
						    2, PAGE);
		if (!err)
			err = weir_segment_walk(see, &seen);
		if (!err)
			err = weir_segment_share(&fd, p + PAGE, 2 * PAGE);
		if (!err)
			err = weir_segment_attach(p + 4 * PAGE, 2 * PAGE, fd);
		if (!err)
			err = weir_segment_lock(list_of(p));
		if (err > 0 || (err && !*weir_why()))
			fail_msg("%d at %s", err, fault_last());
		fired = fault_disarm();
		if (!fired && err)
			fail_msg("%d without a fault: %s", err, weir_why());
		if (fd >= 0)
			close(fd);
		fd = -1;
		weir_segment_detach(p + 4 * PAGE, 2 * PAGE);
		weir_segment_unregister(p + PAGE, 2 * PAGE);
		assert_int_equal(weir_mmap_stop(m, NULL, NULL), 0);
		assert_int_equal(n_lists(), 0);
		assert_int_equal(count_fds(), fds);
		seen.n = 0;
		if (!fired)
			break;
	}
	assert_true(n > 5 && n < 100);
	weir_mmap_destroy(m);
	pages_end(p, N);
}

int main(void)
{
	static const struct harness_case cases[] = {
		CASE(a_started_mmap_is_in_the_map_until_it_stops),
		CASE(results_of_another_size_are_filled_as_far_as_they_go),
		CASE(segments_are_what_is_in_a_page),
		CASE(a_walk_answers_what_its_callback_does),
		CASE(runs_are_addresses_without_a_gap),
		CASE(a_walk_sees_what_was_there_whatever_its_callback_does),
		CASE(every_segment_is_as_it_is_said_to_be),
		CASE(the_dump_says_what_is_there),
		CASE(sums_count_a_byte_once),
		CASE(memory_beyond_the_mask_is_refused),
		CASE(flags_are_set_and_cleared),
		CASE(what_is_dirty_is_zeroed_once),
		CASE(a_list_is_locked_in_memory),
		CASE(the_limit_of_locked_memory_is_said),
		CASE(a_failing_allocation_changes_nothing),
	};

	return harness_run_plain(cases, N_OF(cases));
}
