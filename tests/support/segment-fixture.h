/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TESTS_SEGMENT_FIXTURE_H
#define TESTS_SEGMENT_FIXTURE_H

/* What the tests of segments share: memory, mmaps over it, other processes. */

#include "tests/support/harness.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include <weir/mmap.h>
#include <weir/segment.h>

#define PAGE ((size_t)4096)
#define SEGMENT \
	{ \
		.size = sizeof(struct weir_segment) \
	}

/* As many bytes as a name may not have. */
#define LONG_NAME \
	"0123456789012345678901234567890123456789012345678901234567890123"
#define FITTING_NAME (&LONG_NAME[1])

/* Whole pages at an address with capacity around it that is not mapped. */
static inline char *pages(size_t n)
{
	char *p = mmap(NULL, (n + 2) * PAGE, PROT_NONE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_true(p != MAP_FAILED);
	assert_int_equal(mprotect(p + PAGE, n * PAGE, PROT_READ | PROT_WRITE),
			 0);
	return p + PAGE;
}

static inline void pages_end(char *p, size_t n)
{
	munmap(p - PAGE, (n + 2) * PAGE);
}

static inline struct weir_mmap *stopped_mmap(void *addr, size_t len)
{
	struct weir_mmap *m;

	assert_int_equal(weir_mmap_create(&m, NULL), 0);
	assert_int_equal(weir_mmap_set_permissions(m, WEIR_MMAP_WRITE), 0);
	assert_int_equal(weir_mmap_set_memrange(m, addr, len), 0);
	return m;
}

static inline struct weir_mmap *started_mmap(void *addr, size_t len)
{
	struct weir_mmap *m = stopped_mmap(addr, len);

	assert_int_equal(weir_mmap_start(m), 0);
	return m;
}

static inline uint64_t list_of(const void *addr)
{
	struct weir_segment seg = SEGMENT;

	return weir_segment_find_list(&seg, addr) ? 0 : seg.list;
}

static inline uint64_t n_lists(void)
{
	struct weir_segment_stats stats = { .size = sizeof(stats) };

	assert_int_equal(weir_segment_stats(&stats), 0);
	return stats.lists;
}

static inline uint64_t own_bytes(void)
{
	struct weir_segment_stats stats = { .size = sizeof(stats) };

	assert_int_equal(weir_segment_stats(&stats), 0);
	return stats.bytes;
}

/* External memory of two pages, and how devices see it. */
#define EXT_LEN (2 * PAGE)

static const uint64_t ext_iovas[] = { 0x40000000, 0x10000000 };

/* The description of a range of this length, as another process would have. */
static inline int description(char *p)
{
	int fd;

	assert_int_equal(weir_segment_register(p, EXT_LEN, ext_iovas, 2, PAGE),
			 0);
	assert_int_equal(weir_segment_share(&fd, p, EXT_LEN), 0);
	assert_int_equal(weir_segment_unregister(p, EXT_LEN), 0);
	return fd;
}

/*
 * In another process nothing of cmocka works: what must hold there is said with
 * WANT, and the first line where it does not is the exit status.
 */
#define WANT(cond) \
	do { \
		if (!(cond)) \
			_exit(__LINE__ % 250 + 1); \
	} while (0)

/* Status 0, or the test fails with the line. */
static inline void join_child(pid_t pid)
{
	int status;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (status)
		fail_msg("the other process: status %#x: line %d", status,
			 WEXITSTATUS(status) - 1);
}

/*
 * Run @fn(@arg) in a child, as nobody if @nobody; or as who we are, if that is
 * not root anyway.
 */
static inline void in_child(void (*fn)(void *), void *arg, bool nobody)
{
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (!pid) {
		if (nobody && geteuid() == 0)
			WANT(!setgid(65534) && !setuid(65534));
		fn(arg);
		_exit(0);
	}
	join_child(pid);
}

#endif /* TESTS_SEGMENT_FIXTURE_H */
