/* SPDX-License-Identifier: BSD-3-Clause */

#include <errno.h>
#include <stdint.h>
#include <sys/mman.h>

#include "base/fault.h"
#include "mem/available.h"
#include "mem/pages.h"

#define PAGE ((size_t)4096)
#define HUGE_PAGE ((size_t)2 << 20)

/* How much is touched at once, and the size below which the free memory is not
 * checked first. */
#define SLICE ((size_t)256 << 20)
#define LARGE ((size_t)4 << 20)

/* The kernel needs a byte of page tables for this many bytes. */
#define PER_TABLE_BYTE 512

#ifndef MAP_HUGE_SHIFT
#define MAP_HUGE_SHIFT 26
#endif

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

static char *map(size_t len)
{
	char *p;

	if (fault("mmap"))
		return NULL;
	p = mmap(NULL, len, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return p == MAP_FAILED ? NULL : p;
}

/* mmap(2) aligns to pages only, so map more and unmap the excess. */
static char *map_aligned(size_t len, size_t align)
{
	size_t before, after;
	char *p;

	if (align == PAGE)
		return map(len);
	if (len > SIZE_MAX - align)
		return NULL;
	p = map(len + align);
	if (!p)
		return NULL;
	before = (align - ((uintptr_t)p & (align - 1))) & (align - 1);
	after = align - before;
	if (before)
		munmap(p, before);
	if (after)
		munmap(p + before + len, after);
	return p + before;
}

/* One call on Linux 5.14 and later; otherwise, and under valgrind, page by
 * page. */
static int touch(char *p, size_t len, size_t page)
{
	size_t i;

	if (!madvise(p, len, MADV_POPULATE_WRITE))
		return 0;
	if (errno != EINVAL)
		return -errno;
	for (i = 0; i < len; i += page)
		*(volatile char *)(p + i) = 0;
	return 0;
}

/*
 * Touch slice by slice, each only if there is memory for the whole rest,
 * because other processes allocate meanwhile.  Huge pages need no check: they
 * were reserved, or the kernel has refused.
 */
int pages_populate(char *p, size_t len, size_t page)
{
	size_t n;
	int err;

	if (fault("madvise"))
		return -ENOMEM;
	for (; len; p += n, len -= n) {
		n = page == PAGE && len > SLICE ? SLICE : len;
		if (page == PAGE && len >= LARGE &&
		    memory_available(NULL) < len + len / PER_TABLE_BYTE)
			return -ENOMEM;
		err = touch(p, n, page);
		if (err)
			return err;
	}
	return 0;
}

void *pages_alloc(size_t len, size_t align, bool *huge)
{
	bool want = *huge && len >= HUGE_PAGE;
	char *p;

	if (want && align < HUGE_PAGE)
		align = HUGE_PAGE;
	p = map_aligned(len, align);
	if (!p)
		return NULL;
	*huge = want && !madvise(p, len, MADV_HUGEPAGE);
	if (pages_populate(p, len, PAGE)) {
		munmap(p, len);
		return NULL;
	}
	return p;
}

void pages_free(void *p, size_t len)
{
	munmap(p, len);
}

/* The mode of the file or a seal may forbid writing. */
int pages_map_fd(char **ret, size_t len, size_t page, int fd, uint64_t off,
		 bool *readonly)
{
	char *p;

	if (fault("mmap"))
		return -ENOMEM;
	len = pages_round(len, page);
	*readonly = false;
	p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)off);
	if (p == MAP_FAILED && (errno == EACCES || errno == EPERM)) {
		*readonly = true;
		p = mmap(NULL, len, PROT_READ, MAP_SHARED, fd, (off_t)off);
	}
	if (p == MAP_FAILED)
		return -errno;
	*ret = p;
	return 0;
}

int pages_map_huge(char **ret, size_t len, size_t page)
{
	int log = __builtin_ctzll(page);
	char *p;

	if (fault("mmap"))
		return -ENOMEM;
	p = mmap(NULL, len, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB |
			 log << MAP_HUGE_SHIFT, -1, 0);
	if (p == MAP_FAILED)
		return -errno;
	*ret = p;
	return 0;
}
