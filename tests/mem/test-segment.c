/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Segments: what is in the map, walks, look-ups.  The numbers are those of the
 * rules and cases that are re-created, of DPDK's rte_memory.
 */

#include "tests/support/segment-fixture.h"

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

static void a_list_has_the_kind_of_its_domain(void **state)
{
	struct weir_segment seg = SEGMENT;
	char *p = pages(N);
	struct weir_mmap *m;

	(void)state;
	assert_int_equal(weir_mmap_create(&m, weir_domain_hugepage()), 0);
	assert_int_equal(weir_mmap_set_memrange(m, p, PAGE), 0);
	assert_int_equal(weir_mmap_start(m), 0);
	assert_int_equal(weir_segment_find(&seg, p), 0);
	assert_int_equal(seg.domain_kind, WEIR_DOMAIN_HUGEPAGE);
	weir_mmap_destroy(m);
	pages_end(p, N);
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

/* C1.4 */
static void the_file_behind_memory_is_found(void **state)
{
	struct weir_segment seg = SEGMENT;
	char *p = pages(N), *mem, byte = 0;
	struct weir_mmap *anon = started_mmap(p, PAGE), *m;
	uint64_t off = 5;
	int fd = -5;

	(void)state;
	assert_int_equal(weir_mmap_create(&m, NULL), 0);
	assert_int_equal(weir_mmap_alloc(m, 3 * PAGE, WEIR_MMAP_ALLOC_MEMFD),
			 0);
	assert_int_equal(weir_mmap_memrange(m, (void **)&mem, NULL), 0);
	assert_int_equal(weir_segment_fd(&fd, &off, mem), -ENOENT);
	assert_int_equal(weir_mmap_start(m), 0);
	assert_int_equal(weir_segment_fd(&fd, &off, p), -ENODEV);
	assert_int_equal(weir_segment_fd(&fd, &off, NULL), -EINVAL);
	assert_int_equal(weir_segment_fd(NULL, &off, mem), -EINVAL);
	assert_int_equal(weir_segment_fd(&fd, NULL, mem), -EINVAL);
	fault_arm(0);
	assert_int_equal(weir_segment_fd(&fd, &off, mem), -EMFILE);
	assert_int_equal(fault_disarm(), 1);
	assert_int_equal(fd, -5);
	assert_int_equal(off, 5);
	assert_int_equal(weir_segment_find(&seg, mem + PAGE + 9), 0);
	assert_int_equal(seg.fd_off, PAGE);
	assert_int_equal(weir_segment_fd(&fd, &off, mem + PAGE + 9), 0);
	assert_int_equal(off, PAGE + 9);
	assert_int_not_equal(fd, seg.fd);
	mem[PAGE + 9] = 'm';
	/* It is the caller's: the mmap may go. */
	weir_mmap_destroy(m);
	assert_int_equal(pread(fd, &byte, 1, (off_t)off), 1);
	assert_int_equal(byte, 'm');
	close(fd);
	weir_mmap_destroy(anon);
	pages_end(p, N);
}

static void the_file_of_a_range_begins_where_it_does(void **state)
{
	struct seen seen = { 0 };
	int fd = test_file(state, "file", 8 * PAGE, 1), copy;
	struct weir_mmap *m;
	uint64_t off;
	char *mem;

	assert_int_equal(weir_mmap_create(&m, NULL), 0);
	assert_int_equal(weir_mmap_set_fd(m, fd, 2 * PAGE, 3 * PAGE,
					  WEIR_MMAP_FD_TRUSTED), 0);
	assert_int_equal(weir_mmap_start(m), 0);
	assert_int_equal(weir_mmap_memrange(m, (void **)&mem, NULL), 0);
	assert_int_equal(weir_segment_walk(see, &seen), 0);
	assert_int_equal(seen.n, 3);
	assert_int_equal(seen.seg[2].fd_off, 4 * PAGE);
	assert_int_equal(weir_segment_fd(&copy, &off, mem + 7), 0);
	assert_int_equal(off, 2 * PAGE + 7);
	close(copy);
	weir_mmap_destroy(m);
	close(fd);
}

#define HUGE ((size_t)2 << 20)

static void huge_pages_are_large_segments(void **state)
{
	char *area = mmap(NULL, 3 * HUGE, PROT_NONE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *p = area + (-(uintptr_t)area & (HUGE - 1));
	struct seen seen = { 0 };

	(void)state;
	assert_int_equal(weir_segment_register(p, 2 * HUGE, NULL, 0, HUGE), 0);
	assert_int_equal(weir_segment_walk(see, &seen), 0);
	assert_int_equal(seen.n, 2);
	assert_int_equal(seen.seg[1].len, HUGE);
	assert_ptr_equal(seen.seg[1].addr, p + HUGE);
	assert_true(seen.seg[1].flags & WEIR_SEGMENT_HUGE);
	assert_int_equal(weir_segment_unregister(p, 2 * HUGE), 0);
	munmap(area, 3 * HUGE);
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
static void segment_is_as_its_description_says(void **state)
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

/* One of each call that allocates.  *@fd: to be closed, if >= 0. */
static int do_much(struct weir_mmap *m, char *p, int *fd)
{
	const uint64_t iovas[] = { PAGE, 2 * PAGE };
	struct seen seen = { 0 };
	int err = weir_mmap_start(m);

	if (!err)
		err = weir_segment_register(p + PAGE, 2 * PAGE, iovas, 2, PAGE);
	if (!err)
		err = weir_segment_walk(see, &seen);
	if (!err)
		err = weir_segment_share(fd, p + PAGE, 2 * PAGE);
	if (!err)
		err = weir_segment_attach(p + 4 * PAGE, 2 * PAGE, *fd);
	if (!err)
		err = weir_segment_lock(list_of(p));
	return err;
}

static void a_failing_allocation_changes_nothing(void **state)
{
	char *p = pages(N);
	struct weir_mmap *m = stopped_mmap(p, PAGE);
	int fd, err, n, fired = 1, fds = count_fds();

	(void)state;
	for (n = 0; fired && n < 100; n++) {
		fd = -1;
		fault_arm(n);
		err = do_much(m, p, &fd);
		fired = fault_disarm();
		if (err > 0 || (err && (!fired || !*weir_why())))
			fail_msg("%d at %s: %s", err, fault_last(), weir_why());
		if (fd >= 0)
			close(fd);
		weir_segment_detach(p + 4 * PAGE, 2 * PAGE);
		weir_segment_unregister(p + PAGE, 2 * PAGE);
		assert_int_equal(weir_mmap_stop(m, NULL, NULL), 0);
		assert_int_equal(n_lists(), 0);
		assert_int_equal(count_fds(), fds);
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
		CASE(a_list_has_the_kind_of_its_domain),
		CASE(segments_are_what_is_in_a_page),
		CASE(a_walk_answers_what_its_callback_does),
		CASE(runs_are_addresses_without_a_gap),
		CASE(a_walk_sees_what_was_there_whatever_its_callback_does),
		CASE(the_file_behind_memory_is_found),
		CASE(the_file_of_a_range_begins_where_it_does),
		CASE(huge_pages_are_large_segments),
		CASE(segment_is_as_its_description_says),
		CASE(a_failing_allocation_changes_nothing),
	};

	return harness_run_plain(cases, N_OF(cases));
}
