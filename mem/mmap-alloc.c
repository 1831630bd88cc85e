/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Pages that an mmap allocates: huge pages if there are any, otherwise ordinary
 * ones, with a message that says what is missing and how to get it.
 *
 * All pages are touched here, so that no later transfer runs out of memory.
 * The kernel may refuse even reserved huge pages, for example because of a
 * cgroup, and would then kill the process with SIGBUS.
 */

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/why.h"
#include "mem/available.h"
#include "mem/domain-internal.h"
#include "mem/mmap-internal.h"
#include "mem/pages.h"

#define PAGE ((size_t)4096)
#define HUGE_2M ((size_t)2 << 20)
#define HUGE_1G ((size_t)1 << 30)
#define ALLOC_FLAGS                                          \
	(WEIR_MMAP_ALLOC_HUGE_2M | WEIR_MMAP_ALLOC_HUGE_1G | \
	 WEIR_MMAP_ALLOC_MEMFD)

#ifndef MFD_HUGETLB
#define MFD_HUGETLB 4u
#endif
#ifndef MFD_HUGE_SHIFT
#define MFD_HUGE_SHIFT 26
#endif
#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 8u
#endif

static const char *page_name(size_t page)
{
	return page == HUGE_1G ? "1 GiB" : page == HUGE_2M ? "2 MiB" : "4 KiB";
}

/* A number from the kernel's statistics of huge pages; -1: there is none. */
static long huge_count(size_t page, const char *what)
{
	char path[96];
	long n = -1;
	FILE *f;

	snprintf(path, sizeof(path), "/sys/kernel/mm/hugepages/"
		 "hugepages-%zukB/%s_hugepages", page >> 10, what);
	f = fopen(path, "re");
	if (!f)
		return -1;
	if (fscanf(f, "%ld", &n) != 1)
		n = -1;
	fclose(f);
	return n;
}

/* Append to the message why there are no huge pages of @page bytes. */
static void say_no_huge(struct weir_mmap *mmap, size_t len, size_t page,
			int err)
{
	size_t used = strlen(mmap->page_why), want = len / page;
	size_t capacity = sizeof(mmap->page_why) - used;
	char *p = mmap->page_why + used;
	const char *sep = used ? "; " : "";
	long have = huge_count(page, "free");

	if (have < 0)
		snprintf(p, capacity, "%sthe kernel has no pages of %s", sep,
			 page_name(page));
	else if ((size_t)have < want)
		snprintf(p, capacity,
			 "%s%zu pages of %s are needed, %ld are free: "
			 "add them with vm.nr_hugepages or under "
			 "/sys/kernel/mm/hugepages",
			 sep, want, page_name(page), have);
	else
		snprintf(p, capacity,
			 "%sno pages of %s: %s; a cgroup may limit "
			 "them (hugetlb.max)",
			 sep, page_name(page), strerror(-err));
}

/* Without the flag that kernels before 6.3 do not know. */
static int make_memfd(unsigned int flags)
{
	int fd;

	if (fault("memfd_create"))
		return -ENOMEM;
	flags |= MFD_CLOEXEC | MFD_ALLOW_SEALING;
	fd = memfd_create("weir", flags | MFD_NOEXEC_SEAL);
	if (fd < 0 && errno == EINVAL)
		fd = memfd_create("weir", flags);
	return fd < 0 ? -errno : fd;
}

/* The length is final. */
static int memfd_open(size_t len, size_t page)
{
	unsigned int flags = 0;
	int fd, err;

	if (page > PAGE)
		flags = MFD_HUGETLB | (unsigned int)__builtin_ctzll(page)
					      << MFD_HUGE_SHIFT;
	fd = make_memfd(flags);
	if (fd < 0)
		return fd;
	if (fault("ftruncate"))
		errno = ENOMEM;
	else if (!ftruncate(fd, (off_t)len) &&
		 !fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW))
		return fd;
	err = -errno;
	close(fd);
	return err;
}

static int map_memfd(struct weir_mmap *mmap, size_t len, size_t page)
{
	bool readonly;
	int fd = memfd_open(len, page), err;

	if (fd < 0)
		return fd;
	err = pages_map_fd(&mmap->addr, len, page, fd, 0, &readonly);
	if (err) {
		close(fd);
		return err;
	}
	mmap->fd = fd;
	return 0;
}

/* Ordinary pages; ask the kernel for transparent huge pages. */
static int map_plain(struct weir_mmap *mmap, size_t len)
{
	bool huge = true;

	mmap->addr = pages_alloc(len, PAGE, &huge);
	return mmap->addr ? 0 : -ENOMEM;
}

/* Map the whole length in pages of @page bytes, or fail. */
static int try_pages(struct weir_mmap *mmap, size_t len, size_t page,
		     bool memfd)
{
	size_t capacity = pages_round(len, page);
	int err;

	if (memfd)
		err = map_memfd(mmap, capacity, page);
	else if (page > PAGE)
		err = pages_map_huge(&mmap->addr, capacity, page);
	else
		return map_plain(mmap, capacity);
	if (err)
		return err;
	err = pages_populate(mmap->addr, capacity, page);
	if (!err)
		return 0;
	pages_free(mmap->addr, capacity);
	mmap->addr = NULL;
	if (mmap->fd >= 0)
		close(mmap->fd);
	mmap->fd = -1;
	return err;
}

/* Use the largest of the requested pages that exist. */
static int find_pages(struct weir_mmap *mmap, size_t len, uint32_t flags)
{
	static const size_t sizes[] = { HUGE_1G, HUGE_2M, PAGE };
	bool wanted = flags & WEIR_MMAP_ALLOC_HUGE_1G;
	int err = 0;
	size_t i;

	mmap->page_why[0] = '\0';
	for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		wanted |= sizes[i] == PAGE || (sizes[i] == HUGE_2M &&
					       flags & WEIR_MMAP_ALLOC_HUGE_2M);
		if (!wanted)
			continue;
		err = try_pages(mmap, len, sizes[i],
				flags & WEIR_MMAP_ALLOC_MEMFD);
		if (!err) {
			mmap->page_size = sizes[i];
			return 0;
		}
		if (sizes[i] > PAGE)
			say_no_huge(mmap, pages_round(len, sizes[i]), sizes[i],
				    err);
	}
	return err;
}

static int say_no_memory(int err, size_t len)
{
	const char *from;
	uint64_t left = memory_available(&from);

	if (err == -ENOMEM && left < len + len / 256)
		return why(err, "weir_mmap_alloc: no %zu bytes of memory: "
			   "%llu are left, by %s", len,
			   (unsigned long long)left, from);
	return why(err, "weir_mmap_alloc: no %zu bytes of memory: %s", len,
		   strerror(-err));
}

int weir_mmap_alloc(struct weir_mmap *mmap, size_t len, uint32_t flags)
{
	size_t asked = len < PTRDIFF_MAX ? len : PTRDIFF_MAX;
	int err = mmap_refuse_range(mmap, "weir_mmap_alloc", 0, asked);

	if (err)
		return err;
	if (flags & ~ALLOC_FLAGS)
		return why(-EINVAL, "weir_mmap_alloc: unknown flags %x", flags);
	if (!(flags & WEIR_MMAP_ALLOC_HUGE_1G))
		flags |= mmap->domain->cls->alloc_flags;
	if (len > PTRDIFF_MAX / 2)
		return why(-ENOMEM, "weir_mmap_alloc: %zu bytes are more than "
			   "an address space has", len);
	err = find_pages(mmap, len, flags);
	if (err)
		return say_no_memory(err, len);
	mmap_set_domain(mmap, mmap->page_size > PAGE ? weir_domain_hugepage() :
						       weir_domain_system());
	mmap->len = len;
	mmap->cpu = true;
	mmap->release = mmap_unmap;
	mmap->range = MMAP_ALLOC;
	mmap->has_range = true;
	return 0;
}

size_t weir_mmap_page_size(const struct weir_mmap *mmap, const char **ret_why)
{
	if (ret_why)
		*ret_why = mmap->page_why;
	return mmap->page_size;
}
