/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory that is shared as it is: a memfd that holds the range and nothing
 * else, and the seals that make it safe for both.
 *
 * SHRINK, because a file that is cut under a mapping is a SIGBUS.  GROW, so
 * that nothing else comes into it.  SEAL, lest an importer seals it against us.
 * FUTURE_WRITE for what importers may only read: nothing weaker holds, for a
 * memfd can be opened again through /proc by a process of the same user.
 */

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/why.h"
#include "mem/export/internal.h"

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW)
#define READ_ONLY (F_SEAL_FUTURE_WRITE | F_SEAL_WRITE)

#define HUGETLBFS 0x958458f6

#define CALL "weir_mmap_export: "
#define OR_COPY "; WEIR_EXPORT_COPY exports it by copying"

/* Whether @fd has huge pages, which can run out after a hole was punched. */
static bool is_huge(int fd, size_t *ret_page_size)
{
	struct statfs fs;

	if (fstatfs(fd, &fs))
		return false;
	*ret_page_size = (size_t)fs.f_bsize;
	return fs.f_type == HUGETLBFS;
}

/*
 * Whether what importers will see behind the range, up to the end of its last
 * page, is 0.  The kernel maps the page of which the file has a part as a
 * whole, so it is looked at where it is mapped: behind the end of the file
 * there may be something, too.
 */
static bool padding_is_zero(const struct weir_mmap *mmap, size_t page_size)
{
	const char *p = mmap->addr + mmap->len;
	const char *end = mmap->addr + memfd_round(mmap->len, page_size);

	while (p < end && !*p)
		p++;
	return p == end;
}

static int check_alone(const struct weir_mmap *mmap, bool write)
{
	size_t page_size = mmap->page_size;
	struct stat st;

	if (mmap->fd < 0 || (mmap->range != MMAP_FD &&
			     mmap->range != MMAP_ALLOC))
		return why(-EOPNOTSUPP, CALL "the memory is not a memfd's, see "
			   "weir_mmap_alloc()" OR_COPY);
	if (fcntl(mmap->fd, F_GET_SEALS) < 0)
		return why(-EOPNOTSUPP, CALL "the file is not a memfd" OR_COPY);
	if (is_huge(mmap->fd, &page_size) && write)
		return why(-EOPNOTSUPP, CALL "who writes to a memfd of huge "
			   "pages can also take them away from under us; use "
			   "ordinary pages, or let importers only read");
	if (fstat(mmap->fd, &st) || mmap->fd_off ||
	    (size_t)st.st_size < mmap->len ||
	    (size_t)st.st_size > memfd_round(mmap->len, page_size) ||
	    !padding_is_zero(mmap, page_size))
		return why(-EOPNOTSUPP, CALL "the memfd holds other data "
			   "beside the range; give it one of its own" OR_COPY);
	return 0;
}

int memfd_seal(const struct weir_mmap *mmap, bool write)
{
	int err = check_alone(mmap, write);
	int seals;

	if (err)
		return err;
	seals = fcntl(mmap->fd, F_GET_SEALS);
	if (write && (seals & READ_ONLY))
		return why(-EACCES, CALL "the memfd was exported for reading "
			   "only, which cannot be undone");
	if (!write && !(seals & READ_ONLY) && (seals & F_SEAL_SEAL))
		return why(-EACCES, CALL "the memfd was exported for writing, "
			   "and has one right for all importers");
	if ((seals & F_SEAL_SEAL) && (seals & SEALS) == SEALS)
		return 0;
	seals = SEALS | F_SEAL_SEAL | (write ? 0 : F_SEAL_FUTURE_WRITE);
	if (fault("seal") || fcntl(mmap->fd, F_ADD_SEALS, seals))
		return why(-EOPNOTSUPP, CALL "the memfd cannot be sealed; make "
			   "it with MFD_ALLOW_SEALING" OR_COPY);
	return 0;
}

static int bad_memfd(const char *what)
{
	return why(-EBADMSG, "weir_mmap_import: file descriptor %d is not the "
		   "memory of the export: %s", EXPORT_FD_RANGE, what);
}

static int check_memfd(size_t *page_size, int fd, uint64_t len, bool write)
{
	int seals = fcntl(fd, F_GET_SEALS);
	struct stat st;

	if (seals < 0 || (seals & SEALS) != SEALS)
		return bad_memfd("it is not sealed against being cut");
	if (is_huge(fd, page_size) && (write || !(seals & READ_ONLY)))
		return why(-EOPNOTSUPP, "weir_mmap_import: huge pages that "
			   "others can take away cannot be imported");
	if (!*page_size || fstat(fd, &st) || st.st_size < 0 ||
	    (uint64_t)st.st_size < len)
		return bad_memfd("it is too short");
	return 0;
}

int memfd_map(void **ret, size_t *page_size, int fd, uint64_t len, bool write)
{
	int err, prot = PROT_READ | (write ? PROT_WRITE : 0);
	void *p;

	*page_size = 0;
	err = check_memfd(page_size, fd, len, write);
	if (err)
		return err;
	p = fault("mmap") ? (errno = ENOMEM, MAP_FAILED) :
	    mmap(NULL, memfd_round((size_t)len, *page_size), prot, MAP_SHARED,
		 fd, 0);
	if (p == MAP_FAILED)
		return errno == EPERM || errno == EACCES ?
		       bad_memfd("it is sealed against the writing that is "
				 "promised") :
		       why(-errno, "weir_mmap_import: %llu bytes cannot be "
			   "mapped: %s", (unsigned long long)len,
			   strerror(errno));
	*ret = p;
	return 0;
}
