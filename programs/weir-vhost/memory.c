/* SPDX-License-Identifier: CC0-1.0 */
/*
 * The front end's memory: descriptors that it has sent, mapped by weir's mmaps.
 * If it made one shorter, an access would end this process, so only memfds that
 * are sealed against that are taken, unless it is trusted.
 */
#define _GNU_SOURCE 1
#include <errno.h>
#include <stdatomic.h>
#include <sys/stat.h>

#include "weir-vhost.h"

#define PAGE_SHIFT 12	/* Of the log, whatever pages the machine has. */

int map_fd(struct weir_mmap **ret, uint8_t **at, int fd, uint64_t offset,
	   uint64_t size, bool trust)
{
	struct weir_mmap *mmap;
	struct stat st;
	uint64_t extra;
	void *addr;
	size_t len;
	int err;

	if (fstat(fd, &st))
		return -errno;
	if (!size || size > INT64_MAX || offset > INT64_MAX - size)
		return weir_why_set(-EINVAL, "memory that wraps around");
	/* For huge pages the alignment is their size. */
	extra = offset % (uint64_t)(st.st_blksize > 4096 ? st.st_blksize : 4096);
	err = weir_mmap_create(&mmap, NULL);
	if (err)
		return err;
	err = weir_mmap_set_fd(mmap, fd, offset - extra, size + extra,
			       trust ? WEIR_MMAP_FD_TRUSTED : 0);
	if (!err)
		err = weir_mmap_set_permissions(mmap, WEIR_MMAP_READ |
						      WEIR_MMAP_WRITE);
	if (!err)
		err = weir_mmap_start(mmap);
	if (!err)
		err = weir_mmap_memrange(mmap, &addr, &len);
	if (err) {
		weir_mmap_destroy(mmap);
		return err;
	}
	*ret = mmap;
	*at = (uint8_t *)addr + extra;
	return 0;
}

static bool overlap(uint64_t a, uint64_t b, uint64_t a_size, uint64_t b_size)
{
	return a < b + b_size && b < a + a_size;
}

int memory_add(struct memory *m, int fd, uint64_t gpa, uint64_t size,
	       uint64_t uva, uint64_t offset, bool trust)
{
	struct region r = { .gpa = gpa, .size = size, .uva = uva };
	int err;

	if (m->n == REGIONS_MAX)
		return weir_why_set(-ENOSPC, "more than %u regions of memory",
				    REGIONS_MAX);
	if (!size || gpa + size < gpa || uva + size < uva)
		return weir_why_set(-EINVAL, "memory that wraps around");
	for (uint32_t i = 0; i < m->n; i++)
		if (overlap(gpa, m->regions[i].gpa, size, m->regions[i].size))
			return weir_why_set(-EINVAL, "memory that overlaps");
	err = map_fd(&r.mmap, &r.at, fd, offset, size, trust);
	if (!err)
		m->regions[m->n++] = r;
	return err;
}

int memory_remove(struct memory *m, uint64_t gpa, uint64_t size, uint64_t uva)
{
	for (uint32_t i = 0; i < m->n; i++) {
		const struct region *r = &m->regions[i];

		if (r->gpa != gpa || r->size != size || r->uva != uva)
			continue;
		weir_mmap_destroy(r->mmap);
		m->regions[i] = m->regions[--m->n];
		return 0;
	}
	return weir_why_set(-ENOENT, "there is no such region of memory");
}

static void clear_log(struct memory *m)
{
	weir_mmap_destroy(m->log_mmap);
	m->log_mmap = NULL;
	m->log = NULL;
	m->log_words = 0;
}

void memory_clear_regions(struct memory *m)
{
	while (m->n)
		weir_mmap_destroy(m->regions[--m->n].mmap);
}

void memory_clear(struct memory *m)
{
	memory_clear_regions(m);
	clear_log(m);
}

int memory_set_log(struct memory *m, int fd, uint64_t offset, uint64_t size,
		   bool trust)
{
	struct weir_mmap *mmap;
	uint8_t *at;
	int err;

	if (offset % sizeof(uint64_t))
		return weir_why_set(-EINVAL, "a log that is not aligned");
	err = map_fd(&mmap, &at, fd, offset, size, trust);
	if (err)
		return err;
	clear_log(m);
	m->log_mmap = mmap;
	m->log = (uint64_t *)(void *)at;
	m->log_words = size / sizeof(uint64_t);
	return 0;
}

void *memory_at_uva(const struct memory *m, uint64_t uva, uint64_t len)
{
	for (uint32_t i = 0; i < m->n; i++) {
		const struct region *r = &m->regions[i];
		uint64_t off = uva - r->uva;

		if (uva >= r->uva && off < r->size && len <= r->size - off)
			return r->at + off;
	}
	return NULL;
}

static const struct region *find(const struct memory *m, uint64_t gpa)
{
	for (uint32_t i = 0; i < m->n; i++)
		if (gpa >= m->regions[i].gpa &&
		    gpa - m->regions[i].gpa < m->regions[i].size)
			return &m->regions[i];
	return NULL;
}

int memory_map(const struct memory *m, uint64_t gpa, uint64_t len,
	       struct iovec *iov, uint32_t *n, uint32_t max)
{
	if (len > UINT64_MAX - gpa)
		return -EFAULT;
	while (len) {
		const struct region *r = find(m, gpa);
		uint64_t here;

		if (!r)
			return -EFAULT;
		if (*n == max)
			return -E2BIG;
		here = r->size - (gpa - r->gpa);
		if (here > len)
			here = len;
		iov[(*n)++] = (struct iovec){ r->at + (gpa - r->gpa), here };
		gpa += here;
		len -= here;
	}
	return 0;
}

void memory_log_gpa(const struct memory *m, uint64_t gpa, uint64_t len)
{
	uint64_t first = gpa >> PAGE_SHIFT;
	uint64_t last = (gpa + len - 1) >> PAGE_SHIFT;

	for (uint64_t page = first; m->log && len && page <= last; page++) {
		_Atomic uint64_t *word;

		if (page / 64 >= m->log_words)
			return;
		word = (_Atomic uint64_t *)&m->log[page / 64];
		atomic_fetch_or(word, UINT64_C(1) << page % 64);
	}
}

void memory_log(const struct memory *m, const void *p, uint64_t len)
{
	for (uint32_t i = 0; m->log && i < m->n; i++) {
		const struct region *r = &m->regions[i];
		uint64_t off = (uint64_t)((const uint8_t *)p - r->at);

		if ((const uint8_t *)p >= r->at && off < r->size) {
			memory_log_gpa(m, r->gpa + off, len);
			return;
		}
	}
}
