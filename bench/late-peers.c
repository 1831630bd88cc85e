/* SPDX-License-Identifier: BSD-3-Clause */

/* See the header. */

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include <liburing.h>

#include "bench/bench.h"
#include "bench/late-peers.h"

uint64_t late_after(char *memory, size_t size)
{
	uint64_t n = 0;

	memset(memory, LATE_OURS, size);
	/* What is still being read is read within this. */
	usleep(20000);
	for (size_t i = 0; i < size; i++)
		n += (unsigned char)memory[i] != LATE_OURS;
	return n;
}

bool late_has_liburing(void)
{
	struct io_uring ring;

	if (io_uring_queue_init(4, &ring, 0))
		return false;
	io_uring_queue_exit(&ring);
	return true;
}

uint64_t late_liburing(int fd, char *memory, size_t size)
{
	struct io_uring_sqe *sqe;
	struct io_uring ring;

	if (io_uring_queue_init(4, &ring, 0))
		return 0;
	sqe = io_uring_get_sqe(&ring);
	io_uring_prep_read(sqe, fd, memory, (unsigned int)size, 0);
	/* Otherwise a cached file is read in the submission. */
	sqe->flags |= IOSQE_ASYNC;
	if (io_uring_submit(&ring) != 1)
		bench_die("io_uring_submit", EIO);
	io_uring_queue_exit(&ring);
	return late_after(memory, size);
}
