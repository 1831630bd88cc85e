/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How importers learn that an export is over: a page with a generation, which
 * they compare before and after each job, and a pipe that hangs up, which they
 * can wait for.  The page tells of a stop at once, without a system call; the
 * pipe tells of a death, too.
 */

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/why.h"
#include "mem/export/internal.h"

#define CONTROL_SEALS \
	(F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL)

#define TMPFS 0x01021994

static size_t page_size(void)
{
	return (size_t)sysconf(_SC_PAGESIZE);
}

int export_dup(int fd)
{
	int copy = fault("dup") ? (errno = EMFILE, -1) :
				  fcntl(fd, F_DUPFD_CLOEXEC, 0);

	return copy < 0 ? -errno : copy;
}

/* Our mapping is older than the seals: it is the only one that writes. */
static int page_fill(struct lifeline *line)
{
	struct control *page;

	if (fault("ftruncate") || ftruncate(line->page_fd, (off_t)page_size()))
		return -ENOMEM;
	page = fault("mmap") ? MAP_FAILED :
	       mmap(NULL, page_size(), PROT_READ | PROT_WRITE, MAP_SHARED,
		    line->page_fd, 0);
	if (page == MAP_FAILED)
		return -ENOMEM;
	line->page = page;
	atomic_store(&page->generation, 1);
	if (fault("getrandom") ||
	    getrandom(page->export_id, sizeof(page->export_id), 0) !=
		    (ssize_t)sizeof(page->export_id))
		return -EIO;
	if (fault("seal") || fcntl(line->page_fd, F_ADD_SEALS, CONTROL_SEALS))
		return -EOPNOTSUPP;
	return 0;
}

static int open_all(struct lifeline *line)
{
	int ends[2];

	line->page_fd = fault("memfd_create") ? (errno = EMFILE, -1) :
			memfd_create("weir-control",
				     MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (line->page_fd < 0)
		return -errno;
	if (fault("pipe") ? (errno = EMFILE) :
			    pipe2(ends, O_CLOEXEC | O_NONBLOCK))
		return -errno;
	line->read_fd = ends[0];
	line->write_fd = ends[1];
	return page_fill(line);
}

static void close_all(struct lifeline *line)
{
	if (line->page)
		munmap(line->page, page_size());
	if (line->page_fd >= 0)
		close(line->page_fd);
	if (line->read_fd >= 0)
		close(line->read_fd);
	if (line->write_fd >= 0)
		close(line->write_fd);
	*line = (struct lifeline){ NULL, -1, -1, -1 };
}

int lifeline_open(struct lifeline *line)
{
	int err;

	*line = (struct lifeline){ NULL, -1, -1, -1 };
	err = open_all(line);
	if (err) {
		close_all(line);
		return why(err, "weir_mmap_export: the control page cannot be "
			   "made: %s", strerror(-err));
	}
	return 0;
}

/*
 * The generation first: who is woken must see it.  And a byte into the pipe,
 * lest a child that we forked holds up the news by holding the end of it.
 */
void lifeline_cut(struct lifeline *line)
{
	ssize_t n;

	atomic_fetch_add(&line->page->generation, 1);
	n = write(line->write_fd, "", 1);
	(void)n;	/* It is closed next. */
	close_all(line);
}

static int bad_control(const char *what)
{
	return why(-EBADMSG, "weir_mmap_import: file descriptor %d is not the "
		   "control page of the export: %s", EXPORT_FD_CONTROL, what);
}

int control_map(const struct control **ret, int fd)
{
	int seals = fcntl(fd, F_GET_SEALS);
	const struct control *page;
	struct statfs fs;
	struct stat st;

	if (seals < 0 || (seals & CONTROL_SEALS) != CONTROL_SEALS)
		return bad_control("it is not sealed");
	if (fstatfs(fd, &fs) || fs.f_type != TMPFS)
		return bad_control("it is no memfd of ordinary pages");
	if (fstat(fd, &st) || (size_t)st.st_size != page_size())
		return bad_control("it is not one page");
	page = fault("mmap") ? (errno = ENOMEM, MAP_FAILED) :
	       mmap(NULL, page_size(), PROT_READ, MAP_SHARED, fd, 0);
	if (page == MAP_FAILED)
		return why(-ENOMEM, "weir_mmap_import: no memory to map the "
			   "control page");
	*ret = page;
	return 0;
}

void control_unmap(const struct control *page)
{
	munmap((void *)page, page_size());
}

bool lifeline_is_one(int fd)
{
	int flags = fcntl(fd, F_GETFL);
	struct stat st;

	return flags >= 0 && (flags & O_ACCMODE) == O_RDONLY &&
	       !fstat(fd, &st) && S_ISFIFO(st.st_mode);
}
