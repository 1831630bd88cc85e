/* SPDX-License-Identifier: BSD-3-Clause */

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/libc.h"
#include "reactor/cached.h"
#include "reactor/io.h"
#include "reactor/reactor-internal.h"

#define TRIES_MAX 4		/* Calls for one read. */

bool cached_is_off;

static struct cached_file *file_of(struct weir_reactor *r, int fd)
{
	return &r->cached.files[(uint32_t)fd % CACHED_FILES];
}

/*
 * With O_DIRECT the call would wait for the disk.  A number that close(2) gave to
 * such a file meanwhile waits until the next question: slow, and still right.
 */
static bool is_cached_file(int fd)
{
	struct stat st;
	int flags = fcntl(fd, F_GETFL);

	return flags >= 0 && !(flags & O_DIRECT) && !fstat(fd, &st) &&
	       (S_ISREG(st.st_mode) || S_ISBLK(st.st_mode));
}

static bool is_to_be_tried(struct cached_file *file, int fd)
{
	if (unlikely(file->fd != fd))
		*file = (struct cached_file){ .fd = fd };
	if (file->passes) {
		file->passes--;
		return false;
	}
	if (unlikely(!file->uses)) {
		if (!is_cached_file(fd)) {
			file->passes = CACHED_NEVER;
			return false;
		}
		file->uses = CACHED_USES;
	}
	file->uses--;
	return true;
}

/* -EAGAIN: it was not in the cache.  Another error: the file system cannot say. */
static void missed(struct cached_file *file, int err)
{
	if (file->penalty < CACHED_PASSES)
		file->penalty = file->penalty ? 2 * file->penalty : 1;
	file->passes = err == EAGAIN ? file->penalty : CACHED_NEVER;
}

/* Whether another way of reading was asked for. */
static bool is_plain(const struct weir_op *op)
{
	uint64_t len = op->kind == IO_READV ? op->u.io.aux : op->u.io.len;

	return len <= CACHED_MAX && !(op->u.io.flags & ~IO_RW_OWN);
}

static int64_t read_now(const struct weir_op *op, const struct io_step *step)
{
	struct iovec one = { step->addr, step->len };
	bool stream = step->off == WEIR_OFF_STREAM;
	long res;

	if (fault_choice("uncached"))
		return -EAGAIN;
	io_use(step);
	res = syscall(SYS_preadv2, op->u.io.fd, step->n ? step->iov : &one,
		      step->n ? step->n : 1, step->off, stream ? -1L : 0L,
		      RWF_NOWAIT);
	return res < 0 ? -errno : res;
}

bool cached_read(struct weir_reactor *r, struct weir_op *op)
{
	struct cached_file *file = file_of(r, op->u.io.fd);
	struct io_step step;
	int64_t res;

	debug_check(op->kind == IO_READ || op->kind == IO_READV);
	if (cached_is_off || !is_plain(op) ||
	    !is_to_be_tried(file, op->u.io.fd))
		return false;
	for (int i = 0; i < TRIES_MAX; i++) {
		io_step_next(op, &step);
		res = read_now(op, &step);
		if (res < 0) {
			missed(file, (int)-res);
			return false;
		}
		if (io_step_done(op, res)) {
			file->penalty = 0;
			return true;
		}
	}
	return false;
}

void cached_forget(struct weir_reactor *r, int fd)
{
	struct cached_file *file = file_of(r, fd);

	if (file->fd == fd)
		*file = (struct cached_file){ .fd = fd };
}
