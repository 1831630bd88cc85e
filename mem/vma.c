/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * VMAs, from /proc/self/maps: by PROCMAP_QUERY (since Linux 6.11), or from its
 * text.  Only the text of /proc/self/smaps says whether pages are locked in
 * memory.
 *
 * Where /proc is not mounted, msync(2) with MS_ASYNC still detects memory that
 * is not mapped, and has no other effect.  The rights are unknown then.
 */

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/why.h"
#include "mem/vma.h"

#define PAGE ((uintptr_t)4096)

/* As in <linux/fs.h> of 6.11, which is newer than that of the base system. */
struct query {
	uint64_t size;
	uint64_t flags;
	uint64_t addr;
	uint64_t vma_start, vma_end, vma_flags, vma_page_size, vma_offset;
	uint64_t inode;
	uint32_t dev_major, dev_minor;
	uint32_t name_size, build_id_size;
	uint64_t name, build_id;
};

#define QUERY _IOWR('f', 17, struct query)
#define QUERY_READABLE 1u
#define QUERY_WRITABLE 2u
#define QUERY_OR_NEXT 16u

int vma_begin(struct vma_walk *w, bool locked)
{
	const char *path = locked ? "/proc/self/smaps" : "/proc/self/maps";

	w->fd = fault("open") ? (errno = ENOENT, -1) :
				open(path, O_RDONLY | O_CLOEXEC);
	w->query = !locked;
	w->failed = false;
	w->has_line = false;
	w->len = w->at = 0;
	return w->fd < 0 ? -errno : 0;
}

void vma_end(struct vma_walk *w)
{
	close(w->fd);
}

/*
 * 1, 0, or a negative errno, for example because the kernel lacks the request.
 */
static int query(int fd, uintptr_t addr, struct vma *ret)
{
	struct query q = {
		.size = sizeof(q),
		.flags = QUERY_OR_NEXT,
		.addr = addr,
	};

	if (fault("ioctl"))
		return -ENOTTY;
	if (ioctl(fd, QUERY, &q))
		return errno == ENOENT ? 0 : -errno;
	ret->first = (uintptr_t)q.vma_start;
	ret->last = (uintptr_t)q.vma_end - 1;
	ret->read = q.vma_flags & QUERY_READABLE;
	ret->write = q.vma_flags & QUERY_WRITABLE;
	ret->locked = false;
	return 1;
}

/* The next byte of the text, or -1 at its end. */
static int next_char(struct vma_walk *w)
{
	ssize_t n;

	if (w->at == w->len) {
		do
			n = fault("read") ? (errno = EIO, -1) :
			    read(w->fd, w->text, sizeof(w->text));
		while (n < 0 && errno == EINTR);
		w->failed = n < 0;
		if (n <= 0)
			return -1;
		w->len = (size_t)n;
		w->at = 0;
	}
	return (unsigned char)w->text[w->at++];
}

/* Read the beginning of the next line to .line.  False: there is none. */
static bool next_line(struct vma_walk *w)
{
	size_t n = 0;
	int c;

	while ((c = next_char(w)) >= 0 && c != '\n')
		if (n < sizeof(w->line) - 1)
			w->line[n++] = (char)c;
	w->line[n] = '\0';
	return c >= 0;
}

/* Whether .line begins a VMA. */
static bool parse(const struct vma_walk *w, struct vma *ret)
{
	unsigned long long first, end;
	char rights[5];

	if (sscanf(w->line, "%llx-%llx %4s", &first, &end, rights) != 3)
		return false;
	ret->first = (uintptr_t)first;
	ret->last = (uintptr_t)end - 1;
	ret->read = rights[0] == 'r';
	ret->write = rights[1] == 'w';
	ret->locked = false;
	return true;
}

/* The next VMA of the text.  In smaps each VMA has further lines. */
static int read_vma(struct vma_walk *w, struct vma *ret)
{
	static const char flags[] = "VmFlags:";
	struct vma next;

	if (!w->has_line)
		w->has_line = next_line(w);
	if (!w->has_line || !parse(w, ret))
		return w->failed ? -EIO : 0;
	while ((w->has_line = next_line(w)) && !parse(w, &next))
		if (!strncmp(w->line, flags, strlen(flags)))
			ret->locked = strstr(w->line, " lo");
	return 1;
}

int vma_next(struct vma_walk *w, uintptr_t addr, struct vma *ret)
{
	int res;

	if (w->query) {
		res = query(w->fd, addr, ret);
		if (res >= 0)
			return res;
		w->query = false;
	}
	do
		res = read_vma(w, ret);
	while (res > 0 && ret->last < addr);
	return res;
}

/*
 * Whether the range from *@at to @last can be accessed: 0; 1: the kernel does
 * not tell; -ENOMEM or -EACCES: *@at is the first address that cannot, and
 * *@vma the VMA there.
 */
static int check_vmas(struct vma_walk *w, uintptr_t *at, uintptr_t last,
		      bool write, struct vma *vma)
{
	int res;

	for (;;) {
		res = vma_next(w, *at, vma);
		if (res < 0)
			return 1;
		if (!res || vma->first > *at)
			return -ENOMEM;
		if (!vma->read || (write && !vma->write))
			return -EACCES;
		if (vma->last >= last)
			return 0;
		*at = vma->last + 1;
	}
}

static int check_mapped(uintptr_t at, uintptr_t last)
{
	uintptr_t first = at & ~(PAGE - 1);

	if (!msync((void *)first, last - first + 1, MS_ASYNC) ||
	    errno != ENOMEM)
		return 0;
	return -ENOMEM;
}

int vma_check(const void *addr, size_t len, bool write, const char *call)
{
	uintptr_t at = (uintptr_t)addr, last = at + len - 1;
	struct vma vma = { .read = false };
	struct vma_walk w;
	int err = 1;

	if (!vma_begin(&w, false)) {
		err = check_vmas(&w, &at, last, write, &vma);
		vma_end(&w);
	}
	if (err > 0)
		err = check_mapped(at, last);
	if (err == -ENOMEM)
		return why(-EFAULT, "%s: of the %zu bytes at %p, those from %p "
			   "on are not mapped", call, len, addr, (void *)at);
	if (err)
		return why(-EFAULT, "%s: of the %zu bytes at %p, those from %p "
			   "on are mapped %c%c, but %s is needed; see "
			   "mprotect(2)", call, len, addr, (void *)at,
			   vma.read ? 'r' : '-', vma.write ? 'w' : '-',
			   write ? "rw" : "r");
	return 0;
}
