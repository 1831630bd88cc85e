/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The echo server as liburing's own examples have it: one ring, an accept and a
 * receive for each connection that stay armed, buffers that the kernel picks, a
 * send for what came, one system call a turn.
 */

#include <errno.h>
#include <liburing.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "bench/bench.h"
#include "bench/echo.h"

#define ENTRIES 1024
#define GROUP 1

/* What a completion is of: in the upper half of its data, the rest below. */
enum { ACCEPT = 1, RECV, SEND };

static struct io_uring ring;
static struct io_uring_buf_ring *bufs;
static char *memory;

static struct io_uring_sqe *get_sqe(void)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&ring);

	if (!sqe) {
		io_uring_submit(&ring);
		sqe = io_uring_get_sqe(&ring);
	}
	return sqe;
}

static uint64_t tag(uint64_t what, int fd, uint32_t buf)
{
	return what << 56 | (uint64_t)buf << 32 | (uint32_t)fd;
}

static void arm_accept(int fd)
{
	struct io_uring_sqe *sqe = get_sqe();

	io_uring_prep_multishot_accept(sqe, fd, NULL, NULL, SOCK_CLOEXEC);
	io_uring_sqe_set_data64(sqe, tag(ACCEPT, fd, 0));
}

static void arm_recv(int fd)
{
	struct io_uring_sqe *sqe = get_sqe();

	io_uring_prep_recv_multishot(sqe, fd, NULL, 0, 0);
	sqe->flags |= IOSQE_BUFFER_SELECT;
	sqe->buf_group = GROUP;
	io_uring_sqe_set_data64(sqe, tag(RECV, fd, 0));
}

static void give_back(uint32_t buf)
{
	io_uring_buf_ring_add(bufs, memory + (size_t)buf * ECHO_BUF, ECHO_BUF,
			      (unsigned short)buf,
			      io_uring_buf_ring_mask(ECHO_CONNS_MAX), 0);
	io_uring_buf_ring_advance(bufs, 1);
}

static void on_accept(const struct io_uring_cqe *cqe, int fd)
{
	int on = 1;

	if (cqe->res >= 0) {
		setsockopt(cqe->res, IPPROTO_TCP, TCP_NODELAY, &on,
			   sizeof(on));
		arm_recv(cqe->res);
	}
	if (!(cqe->flags & IORING_CQE_F_MORE))
		arm_accept(fd);
}

static void on_recv(const struct io_uring_cqe *cqe, int fd)
{
	uint32_t buf = cqe->flags >> IORING_CQE_BUFFER_SHIFT;
	struct io_uring_sqe *sqe;

	if (cqe->res > 0) {
		sqe = get_sqe();
		io_uring_prep_send(sqe, fd, memory + (size_t)buf * ECHO_BUF,
				   (size_t)cqe->res, MSG_NOSIGNAL);
		io_uring_sqe_set_data64(sqe, tag(SEND, fd, buf));
	}
	if (!(cqe->flags & IORING_CQE_F_MORE) &&
	    (cqe->res > 0 || cqe->res == -ENOBUFS))
		arm_recv(fd);
}

static void on_cqe(const struct io_uring_cqe *cqe)
{
	int fd = (int)(uint32_t)cqe->user_data;

	switch (cqe->user_data >> 56) {
	case ACCEPT:
		on_accept(cqe, fd);
		break;
	case RECV:
		on_recv(cqe, fd);
		break;
	case SEND:
		give_back(cqe->user_data >> 32 & 0xffffff);
		break;
	}
}

static int open_ring(void)
{
	struct io_uring_buf_reg reg = {
		.ring_entries = ECHO_CONNS_MAX, .bgid = GROUP,
	};
	int err;

	err = io_uring_queue_init(ENTRIES, &ring, IORING_SETUP_SINGLE_ISSUER |
				  IORING_SETUP_DEFER_TASKRUN);
	if (err)
		return err;
	io_uring_register_ring_fd(&ring);
	if (posix_memalign((void **)&bufs, 4096, ECHO_CONNS_MAX *
			   sizeof(struct io_uring_buf)) ||
	    posix_memalign((void **)&memory, 4096,
			   (size_t)ECHO_CONNS_MAX * ECHO_BUF))
		return -ENOMEM;
	reg.ring_addr = (uintptr_t)bufs;
	io_uring_buf_ring_init(bufs);
	return io_uring_register_buf_ring(&ring, &reg, 0);
}

void serve_liburing(int fd)
{
	struct io_uring_cqe *cqe;
	unsigned int head, n;

	if (open_ring())
		return;
	for (uint32_t i = 0; i < ECHO_CONNS_MAX; i++)
		give_back(i);
	arm_accept(fd);
	for (;;) {
		n = 0;
		io_uring_submit_and_wait(&ring, 1);
		io_uring_for_each_cqe(&ring, head, cqe) {
			on_cqe(cqe);
			n++;
		}
		io_uring_cq_advance(&ring, n);
	}
}
