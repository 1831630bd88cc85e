/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TESTS_OWN_MALLOC_H
#define TESTS_OWN_MALLOC_H

/*
 * Defines malloc() and its sisters, and mmap(), for all libraries of a process,
 * by glibc's.  The file that includes this defines may_allocate(): false sets
 * errno, and the call fails.
 */

#include <errno.h>
#include <malloc.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static bool may_allocate(void);

#pragma GCC visibility push(default)
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t size);
void *__libc_memalign(size_t align, size_t size);

void *malloc(size_t size)
{
	return may_allocate() ? __libc_malloc(size) : NULL;
}

void *calloc(size_t n, size_t size)
{
	return may_allocate() ? __libc_calloc(n, size) : NULL;
}

void *realloc(void *p, size_t size)
{
	return may_allocate() ? __libc_realloc(p, size) : NULL;
}

void *memalign(size_t align, size_t size)
{
	return may_allocate() ? __libc_memalign(align, size) : NULL;
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
	if (!may_allocate())
		return MAP_FAILED;
	return (void *)syscall(SYS_mmap, addr, len, prot, flags, fd, off);
}
#pragma GCC visibility pop

#endif /* TESTS_OWN_MALLOC_H */
