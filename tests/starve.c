/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * A library for LD_PRELOAD: allocations and mappings of a program fail by chance,
 * whichever library asks for them.
 *
 *	STARVE_PROGRAM	the name of the program; others are left alone
 *	STARVE_SEED	of the chances
 *	STARVE_PERCENT	that fail
 *
 * They begin to fail when the libraries have been loaded: a loader that fails
 * says so itself.
 */

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <errno.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__GLIBC__) && defined(__LP64__)
#pragma GCC visibility push(default)

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t size);
void *__libc_memalign(size_t align, size_t size);

static atomic_uint percent;
static atomic_ullong state;

/* splitmix64: each call its own number, also among threads. */
static bool fails(void)
{
	unsigned int limit = atomic_load(&percent);
	uint64_t x;

	if (!limit)
		return false;
	x = atomic_fetch_add(&state, 0x9e3779b97f4a7c15) +
	    0x9e3779b97f4a7c15;
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
	x = (x ^ x >> 27) * 0x94d049bb133111eb;
	x ^= x >> 31;
	if (x % 100 >= limit)
		return false;
	errno = ENOMEM;
	return true;
}

void *malloc(size_t size)
{
	return fails() ? NULL : __libc_malloc(size);
}

void *calloc(size_t n, size_t size)
{
	return fails() ? NULL : __libc_calloc(n, size);
}

void *realloc(void *p, size_t size)
{
	return fails() ? NULL : __libc_realloc(p, size);
}

void *memalign(size_t align, size_t size)
{
	return fails() ? NULL : __libc_memalign(align, size);
}

void *aligned_alloc(size_t align, size_t size)
{
	return memalign(align, size);
}

int posix_memalign(void **ret, size_t align, size_t size)
{
	void *p = memalign(align, size);

	if (p)
		*ret = p;
	return p ? 0 : ENOMEM;
}

void *mmap(void *addr, size_t len, int prot, int flags, int fd, off_t off)
{
	if (fails())
		return MAP_FAILED;
	return (void *)syscall(SYS_mmap, addr, len, prot, flags, fd, off);
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
