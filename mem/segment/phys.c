/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Physical addresses, from /proc/self/pagemap.
 *
 * A page's entry is valid only if the page is present; a swapped page has other
 * data in the same bits.  Without CAP_SYS_ADMIN the kernel sets the frame
 * number to 0, which is neither an error nor an address.  A page that was only
 * read is present, but it is the page of zeros that all processes share.
 * /proc/kpageflags tells; where that cannot be read, this file maps a page of
 * zeros and compares.
 */

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/why.h"
#include "mem/segment/table.h"

#define PRESENT (UINT64_C(1) << 63)
#define SWAPPED (UINT64_C(1) << 62)
#define FRAME ((UINT64_C(1) << 55) - 1)
#define FLAG_ZERO_PAGE (UINT64_C(1) << 24)

/* Read entry number @n, of 8 bytes, of a file of such entries. */
static int read_entry(uint64_t *ret, const char *path, uint64_t n)
{
	ssize_t got;
	int fd, err = 0;

	fd = fault("open") ? (errno = EMFILE, -1) :
			     open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	got = fault("pread") ? (errno = EIO, -1) :
	      pread(fd, ret, sizeof(*ret), (off_t)(n * sizeof(*ret)));
	if (got < 0)
		err = -errno;
	else if (got != sizeof(*ret))
		err = -ENXIO;	/* Beyond the address space. */
	close(fd);
	return err;
}

static int pagemap_entry(uint64_t *ret, const void *addr)
{
	return read_entry(ret, "/proc/self/pagemap",
			  (uintptr_t)addr / segment_base_page());
}

/* The frame of the page of zeros in this process; 0: unknown. */
static uint64_t zero_frame(void)
{
	size_t page = segment_base_page();
	uint64_t entry = 0;
	char *p;

	if (fault("mmap"))
		return 0;
	p = mmap(NULL, page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED)
		return 0;
	(void)*(volatile char *)p;
	if (pagemap_entry(&entry, p))
		entry = 0;
	munmap(p, page);
	return entry & PRESENT ? entry & FRAME : 0;
}

static bool is_zero_page(uint64_t frame)
{
	uint64_t flags;

	if (!read_entry(&flags, "/proc/kpageflags", frame))
		return flags & FLAG_ZERO_PAGE;
	return frame == zero_frame();
}

static int say_open(int err, const char *call)
{
	if (err == -EACCES || err == -EPERM)
		return why(-EPERM, "%s: this process may not open "
			   "/proc/self/pagemap; if it changed its user, "
			   "prctl(PR_SET_DUMPABLE, 1) gives it back", call);
	return why(-EIO, "%s: /proc/self/pagemap: %s", call, strerror(-err));
}

/* The frame number in the entry, or why there is none. */
static int frame_of(uint64_t *ret, uint64_t entry, const void *addr,
		    const char *call)
{
	if (entry & SWAPPED)
		return why(-ENOENT, "%s: the page at %p is swapped out; "
			   "weir_segment_lock() keeps it in memory", call,
			   addr);
	if (!(entry & PRESENT))
		return why(-ENOENT, "%s: there is no page at %p: it is not "
			   "mapped, or was never touched", call, addr);
	if (!(entry & FRAME))
		return why(-EPERM, "%s: the kernel does not tell this process "
			   "physical addresses; it needs CAP_SYS_ADMIN", call);
	if (is_zero_page(entry & FRAME))
		return why(-ENOENT, "%s: the page at %p was never written to, "
			   "and is the page of zeros that all share", call,
			   addr);
	*ret = entry & FRAME;
	return 0;
}

static int phys(uint64_t *ret, const void *addr, const char *call)
{
	size_t page = segment_base_page();
	uint64_t entry, frame = 0;
	int err = pagemap_entry(&entry, addr);

	if (err == -ENXIO)
		return why(-ENOENT, "%s: there is no memory at %p", call, addr);
	if (err)
		return say_open(err, call);
	err = frame_of(&frame, entry, addr, call);
	if (!err)
		*ret = frame * page + ((uintptr_t)addr & (page - 1));
	return err;
}

int weir_segment_phys(uint64_t *ret, const void *addr)
{
	if (!ret)
		return why(-EINVAL, "weir_segment_phys: nowhere to put it");
	return phys(ret, addr, "weir_segment_phys");
}

/* The stack's page is present. */
int weir_segment_phys_allowed(void)
{
	volatile char here = 1;
	uint64_t addr;
	int err = phys(&addr, (const void *)&here,
		       "weir_segment_phys_allowed");

	return err == -ENOENT ? -EIO : err;
}
