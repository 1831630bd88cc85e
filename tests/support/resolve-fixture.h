/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TESTS_RESOLVE_FIXTURE_H
#define TESTS_RESOLVE_FIXTURE_H

/* For the tests of resolvers: cases over both sources, and counters. */

#include <weir/resolve/resolve.h>

#include "tests/support/harness.h"

static const uint32_t libc = WEIR_RESOLVE_LIBC;

#ifdef HAVE_CARES
static const uint32_t cares = WEIR_RESOLVE_CARES;

#define BOTH(fn) { "c-ares_" #fn, fn, &cares, true }, \
		 { "getaddrinfo_" #fn, fn, &libc, true }
#else
#define BOTH(fn) { "getaddrinfo_" #fn, fn, &libc, true }
#endif

static inline uint32_t source_of(void **state)
{
	const struct world *w = *state;

	return *(const uint32_t *)w->arg;
}

static inline struct weir_resolver_stats stats_of(const struct weir_resolver *v)
{
	struct weir_resolver_stats s = { .size = sizeof(s) };

	assert_int_equal(weir_resolver_stats(v, &s), 0);
	return s;
}

#endif /* TESTS_RESOLVE_FIXTURE_H */
