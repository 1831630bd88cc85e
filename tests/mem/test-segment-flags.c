/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Segments: sums and the dump, the address mask, flags, zeroing, locking in
 * memory.  The numbers are those of the rules and cases that are re-created, of
 * DPDK's rte_memory.
 */

#include "tests/support/segment-fixture.h"

#include <sys/resource.h>

#define N 8

/* 49 */
static void dump_lists_the_segments(void **state)
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
	const uint64_t beyond = UINT64_C(1) << b;
	char *p = arg;
	struct weir_mmap *m = stopped_mmap(p, PAGE);
	int fd;

	WANT(!weir_segment_register(p + 4 * PAGE, PAGE, &beyond, 1, PAGE));
	WANT(!weir_segment_share(&fd, p + 4 * PAGE, PAGE));
	WANT(!weir_segment_unregister(p + 4 * PAGE, PAGE));
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
	WANT(weir_segment_register(p + 4 * PAGE, PAGE, &beyond, 1, PAGE) ==
	     -ERANGE);
	WANT(weir_segment_attach(p + 4 * PAGE, PAGE, fd) == -ERANGE);
	close(fd);
	WANT(!weir_segment_register(p + 4 * PAGE, PAGE, NULL, 0, PAGE));
	WANT(weir_segment_set_mask(64) == -EINVAL);
	WANT(!weir_segment_set_mask(12) && weir_mmap_start(m) == -ERANGE);
	WANT(!weir_segment_set_mask(0) && !weir_mmap_start(m));
	WANT(!weir_mmap_destroy(m));

	/* In external memory by its own pages, whatever the others have. */
	m = stopped_mmap(p + PAGE + 50, 100);
	WANT(!weir_segment_set_mask(13) && !weir_mmap_start(m));
	WANT(!weir_mmap_destroy(m));
	m = stopped_mmap(p + 2 * PAGE + 50, 100);
	WANT(weir_mmap_start(m) == -ERANGE);
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
	/* 52 */
	assert_int_equal(weir_segment_set_flags(id + 1, 0, 0), -ENOENT);
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
static void dirty_segment_is_zeroed_once(void **state)
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

static void memory_that_cannot_be_written_is_not_zeroed(void **state)
{
	struct weir_segment seg = SEGMENT;
	char *p = pages(N);
	struct weir_mmap *m = started_mmap(p, PAGE);
	char *ext = p + 2 * PAGE;

	(void)state;
	memset(p, 'x', N * PAGE);
	assert_int_equal(weir_segment_register(ext, 2 * PAGE, NULL, 0, PAGE), 0);
	mprotect(p, PAGE, PROT_READ);
	mprotect(ext + PAGE, PAGE, PROT_READ);
	assert_int_equal(weir_segment_clean(list_of(p)), -EFAULT);
	assert_int_equal(weir_segment_clean(list_of(ext)), -EFAULT);
	assert_non_null(strstr(weir_why(), "mapped r-"));
	assert_int_equal(ext[0], 'x');
	assert_int_equal(weir_segment_find(&seg, ext), 0);
	assert_true(seg.flags & WEIR_SEGMENT_DIRTY);
	munmap(ext + PAGE, PAGE);
	assert_int_equal(weir_segment_clean(list_of(ext)), -EFAULT);
	assert_int_equal(weir_segment_unregister(ext, 2 * PAGE), 0);
	weir_mmap_destroy(m);
	pages_end(p, N);
}

/* KiB of this process that are locked. */
static long locked_kib(void)
{
	return status_of(getpid(), "VmLck:");
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

/* The program has locked the third and fourth of eight pages. */
static void check_program_locks(void *arg)
{
	char *p = arg;
	struct weir_mmap *m = started_mmap(p, 6 * PAGE);
	struct weir_mmap *m2 = started_mmap(p + 3 * PAGE + 8, 4 * PAGE);
	uint64_t a = list_of(p), b = list_of(p + 6 * PAGE);
	long before = locked_kib();
	int i;

	WANT(!mlock(p + 2 * PAGE, 2 * PAGE));
	for (i = 0; i < 2; i++) {
		WANT(!weir_segment_lock(a) && locked_kib() - before == 24);
		WANT(!weir_segment_lock(b) && locked_kib() - before == 32);
		WANT(!weir_segment_unlock(i ? a : b));
		WANT(locked_kib() - before == 24);
		WANT(!weir_segment_unlock(i ? b : a));
		WANT(locked_kib() - before == 8);
	}
	WANT(!weir_segment_lock(a) && !weir_segment_lock(b));
	WANT(!weir_mmap_destroy(m) && !weir_mmap_destroy(m2));
	WANT(locked_kib() - before == 8);
	/* What cannot be locked as a whole is not locked in part. */
	m = started_mmap(p, 6 * PAGE);
	WANT(!munmap(p + 5 * PAGE, PAGE));
	WANT(weir_segment_lock(list_of(p)) == -ENOMEM);
	WANT(locked_kib() - before == 8);
	WANT(!weir_mmap_destroy(m));
}

static void check_mlockall(void *arg)
{
	char *p = arg;
	struct weir_mmap *m = started_mmap(p, 4 * PAGE);
	long locked;

	WANT(!mlockall(MCL_CURRENT));
	locked = locked_kib();
	WANT(!weir_segment_lock(list_of(p)) && locked_kib() == locked);
	WANT(!weir_mmap_destroy(m) && locked_kib() >= locked);
}

static void memory_locked_by_the_program_stays_locked(void **state)
{
	char *p = pages(N);

	(void)state;
	need_mlock();
	in_child(check_program_locks, p, false);
	if (geteuid() == 0 && !under_valgrind())
		in_child(check_mlockall, p, false);
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

int main(void)
{
	static const struct harness_case cases[] = {
		CASE(dump_lists_the_segments),
		CASE(sums_count_a_byte_once),
		CASE(memory_beyond_the_mask_is_refused),
		CASE(flags_are_set_and_cleared),
		CASE(dirty_segment_is_zeroed_once),
		REAL(memory_that_cannot_be_written_is_not_zeroed),
		CASE(a_list_is_locked_in_memory),
		CASE(memory_locked_by_the_program_stays_locked),
		CASE(the_limit_of_locked_memory_is_said),
	};

	return harness_run_plain(cases, N_OF(cases));
}
