/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Registered files and buffers: tables in the ring, empty at first.
 *
 * A file has the index of its descriptor, so nothing is to be looked up, and
 * descriptors beyond the table are simply not registered.
 */

#include <stdlib.h>
#include <sys/resource.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "reactor/uring/uring.h"

/* The kernel wants no more files than the process may have open. */
static uint32_t files_max(void)
{
	struct rlimit lim;

	if (getrlimit(RLIMIT_NOFILE, &lim) || lim.rlim_cur > URING_FILES)
		return URING_FILES;
	return (uint32_t)lim.rlim_cur;
}

static void setup_files(struct uring *u)
{
	uint32_t n = files_max();

	u->files = mem_calloc(n, sizeof(*u->files));
	if (!u->files)
		return;
	if (fault("io_uring_register") ||
	    io_uring_register_files_sparse(&u->ring, n)) {
		free(u->files);
		u->files = NULL;
		return;
	}
	u->n_files = n;
}

static void setup_bufs(struct uring *u)
{
	uint32_t i;

	u->free_bufs = mem_calloc(URING_BUFS, sizeof(*u->free_bufs));
	if (!u->free_bufs)
		return;
	if (fault("io_uring_register") ||
	    io_uring_register_buffers_sparse(&u->ring, URING_BUFS)) {
		free(u->free_bufs);
		u->free_bufs = NULL;
		return;
	}
	/* So that the lowest is taken first. */
	for (i = 0; i < URING_BUFS; i++)
		u->free_bufs[i] = (uint16_t)(URING_BUFS - 1 - i);
	u->n_free_bufs = URING_BUFS;
}

void uring_files_setup(struct uring *u)
{
	setup_files(u);
	setup_bufs(u);
}

/* The kernel drops its tables with the ring. */
void uring_files_fini(struct uring *u)
{
	free(u->files);
	free(u->free_bufs);
}

int uring_fd_register(struct weir_reactor *r, int fd)
{
	struct uring *u = uring_of(r);

	if (fd < 0 || (uint32_t)fd >= u->n_files)
		return 0;
	if (fault("io_uring_register") ||
	    io_uring_register_files_update(&u->ring, (unsigned int)fd, &fd,
					   1) != 1)
		return 0;
	u->files[fd] = true;
	if (u->files_top <= (uint32_t)fd)
		u->files_top = (uint32_t)fd + 1;
	return 1;
}

void uring_fd_unregister(struct weir_reactor *r, int fd)
{
	struct uring *u = uring_of(r);
	int none = -1;

	if (fd < 0 || (uint32_t)fd >= u->files_top || !u->files[fd])
		return;
	/* What was started but not pushed out has only its index so far. */
	if (io_uring_sq_ready(&u->ring))
		io_uring_submit(&u->ring);
	u->files[fd] = false;
	io_uring_register_files_update(&u->ring, (unsigned int)fd, &none, 1);
	while (u->files_top && !u->files[u->files_top - 1])
		u->files_top--;
}

static int update_buf(struct uring *u, unsigned int index,
		      const struct iovec *iov)
{
	static const uint64_t no_tag;
	int n;

	n = io_uring_register_buffers_update_tag(&u->ring, index, iov,
						 (const __u64 *)&no_tag, 1);
	return n < 0 ? n : 0;
}

int uring_buf_register(struct weir_reactor *r, const struct iovec *iov)
{
	struct uring *u = uring_of(r);
	unsigned int index;
	int err;

	if (!u->free_bufs)
		return -EOPNOTSUPP;
	if (!u->n_free_bufs)
		return -ENOBUFS;
	index = u->free_bufs[u->n_free_bufs - 1];
	if (fault("io_uring_register"))
		return -ENOMEM;
	err = update_buf(u, index, iov);
	if (err)
		return err;
	u->n_free_bufs--;
	return (int)index;
}

void uring_buf_unregister(struct weir_reactor *r, int index)
{
	struct uring *u = uring_of(r);
	struct iovec none = { 0 };

	check(index >= 0 && index < URING_BUFS);
	update_buf(u, (unsigned int)index, &none);
	u->free_bufs[u->n_free_bufs++] = (uint16_t)index;
}
