/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TESTS_ALLOC_FIXTURE_H
#define TESTS_ALLOC_FIXTURE_H

/*
 * Calls of the allocator and of mmap(), by whichever thread and library, are
 * counted, and fail when told to; page faults are counted, too.  For one file
 * of a program: it defines malloc() and its sisters, for all libraries of the
 * process.  COUNTS is 0 where a sanitizer has defined them.
 */

#include "tests/support/harness.h"

#include <stdatomic.h>
#include <sys/resource.h>

__attribute__((unused)) static atomic_uint allocations;

/* So many more succeed, then all fail; < 0: all succeed. */
__attribute__((unused)) static atomic_long allocations_left = -1;

#if defined(__GLIBC__) && defined(__LP64__) && !UNDER_ASAN && !UNDER_TSAN
#define COUNTS 1

#include "tests/support/own-malloc.h"

static bool may_allocate(void)
{
	atomic_fetch_add(&allocations, 1);
	if (atomic_load(&allocations_left) < 0)
		return true;
	if (atomic_load(&allocations_left) == 0) {
		errno = ENOMEM;
		return false;
	}
	atomic_fetch_sub(&allocations_left, 1);
	return true;
}
#else
#define COUNTS 0
#endif

static inline bool has_counts(void)
{
	return COUNTS && !under_valgrind();
}

/* For the tests that count: skips where nothing can be counted. */
static inline void need_counts(void)
{
	if (!has_counts())
		skip_because("the allocator is a tool's");
}

/* Of all threads. */
static inline long minor_faults(void)
{
	struct rusage u;

	assert_int_equal(getrusage(RUSAGE_SELF, &u), 0);
	return u.ru_minflt;
}

#endif /* TESTS_ALLOC_FIXTURE_H */
