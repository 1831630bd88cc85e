/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * A library for LD_PRELOAD: allocations and mappings of a program fail by
 * chance, whichever library asks for them.
 *
 *	STARVE_PROGRAM	the name of the program; others are left alone
 *	STARVE_SEED	of the chances
 *	STARVE_PERCENT	that fail
 *
 * They begin to fail when the libraries have been loaded: a loader that fails
 * says so itself.
 */

#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#if defined(__GLIBC__) && defined(__LP64__)
#include "tests/support/own-malloc.h"

static atomic_uint percent;
static atomic_ullong state;

/* splitmix64: each call its own number, also among threads. */
static bool may_allocate(void)
{
	unsigned int limit = atomic_load(&percent);
	uint64_t x;

	if (!limit)
		return true;
	x = atomic_fetch_add(&state, 0x9e3779b97f4a7c15) +
	    0x9e3779b97f4a7c15;
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
	x = (x ^ x >> 27) * 0x94d049bb133111eb;
	x ^= x >> 31;
	if (x % 100 >= limit)
		return true;
	errno = ENOMEM;
	return false;
}

__attribute__((constructor)) static void begin(void)
{
	const char *name = getenv("STARVE_PROGRAM"), *me;
	const char *seed = getenv("STARVE_SEED"), *n = getenv("STARVE_PERCENT");

	me = program_invocation_short_name;
	if (!strncmp(me, "lt-", 3))	/* libtool's, in the build tree. */
		me += 3;
	if (!name || !seed || !n || strcmp(name, me))
		return;
	atomic_store(&state, strtoull(seed, NULL, 0));
	atomic_store(&percent, (unsigned int)atoi(n));
}
#endif
