/* SPDX-License-Identifier: BSD-3-Clause */

#include "tests/support/harness.h"
#include "tests/support/op-kinds.h"

#include <arpa/inet.h>

#include "tests/support/sim-calls.h"

/* Operations of the test's own that are in flight. */
static struct weir_op *own[64];
static size_t n_own;

void stage_use_own_memory(struct stage *s)
{
	s->iov[0] = (struct iovec){ s->buf, 100 };
	s->iov[1] = (struct iovec){ s->buf, 0 };
	s->iov[2] = (struct iovec){ s->buf + 100, 900 };
	s->msg.msg_iov = s->iov;
	s->msg.msg_iovlen = 3;
}

static int listener(struct sockaddr_in *addr)
{
	socklen_t len = sizeof(*addr);
	int fd;

	if (harness_sim)
		return sim_listener(addr, 8);
	fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	addr->sin_family = AF_INET;
	addr->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	assert_int_equal(bind(fd, (struct sockaddr *)addr, len), 0);
	assert_int_equal(listen(fd, 8), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)addr, &len), 0);
	return fd;
}

void stage_begin(struct stage *s, void **state, struct weir_reactor *r)
{
	memset(s, 0, sizeof(*s));
	s->r = r;
	s->connecting = -1;
	n_own = 0;
	snprintf(s->dir_path, sizeof(s->dir_path), "%s", test_dir(state));
	s->dir = open(s->dir_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	s->file = test_file(state, "file", STAGE_FILE_LEN, 1);
	s->file2 = test_file(state, "file2", 0, 2);
	socket_pair(s->sv);
	socket_pair(s->full);
	pipe_pair(s->pipe);
	pipe_pair(s->full_pipe);
	stuff(s->full[0]);
	stuff(s->full_pipe[1]);

	s->listener = listener(&s->addr);
	s->client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	stage_use_own_memory(s);
}

void stage_end(struct stage *s)
{
	close(s->dir);
	close(s->file);
	close(s->file2);
	close_pair(s->sv);
	close_pair(s->full);
	close_pair(s->pipe);
	close_pair(s->full_pipe);
	close(s->listener);
	close(s->client);
	if (s->connecting >= 0)
		close(s->connecting);
}

static int start_nop(struct stage *s, struct weir_op *op)
{
	return weir_nop(s->r, op);
}

static int start_defer(struct stage *s, struct weir_op *op)
{
	return weir_defer(s->r, op);
}

static int start_sleep(struct stage *s, struct weir_op *op)
{
	return weir_sleep_until(s->r, op, weir_reactor_now(s->r) + WEIR_MSEC);
}

static int start_long_sleep(struct stage *s, struct weir_op *op)
{
	return weir_sleep_until(s->r, op, WEIR_FOREVER - 1);
}

static int64_t seven(void *arg)
{
	(void)arg;
	return 7;
}

static int start_work(struct stage *s, struct weir_op *op)
{
	return weir_work(s->r, op, seven, s);
}

static int start_read(struct stage *s, struct weir_op *op)
{
	return weir_read(s->r, op, s->file, s->buf, sizeof(s->buf), 0);
}

static int start_write(struct stage *s, struct weir_op *op)
{
	return weir_write(s->r, op, s->file2, s->buf, sizeof(s->buf), 0);
}

static int start_readv(struct stage *s, struct weir_op *op)
{
	return weir_readv(s->r, op, s->file, s->iov, 3, 0);
}

static int start_writev(struct stage *s, struct weir_op *op)
{
	return weir_writev(s->r, op, s->file2, s->iov, 3, 0);
}

static int start_pipe_read(struct stage *s, struct weir_op *op)
{
	return weir_read(s->r, op, s->pipe[0], s->buf, 1000, WEIR_OFF_STREAM);
}

static void fill_pipe(struct stage *s)
{
	assert_int_equal(write(s->pipe[1], s->buf2, 100), 100);
}

static int start_pipe_write(struct stage *s, struct weir_op *op)
{
	return weir_write(s->r, op, s->full_pipe[1], s->buf, 3000,
			  WEIR_OFF_STREAM);
}

/* All that is in it now: a second operation may have to find capacity too. */
static void drain(int fd)
{
	char sink[4096];
	ssize_t n;

	set_nonblock(fd);
	do {
		n = read(fd, sink, sizeof(sink));
	} while (n > 0);
	fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
}

static void drain_pipe(struct stage *s)
{
	drain(s->full_pipe[0]);
}

static int start_fsync(struct stage *s, struct weir_op *op)
{
	return weir_fsync(s->r, op, s->file, WEIR_FSYNC_DATA);
}

static int start_fallocate(struct stage *s, struct weir_op *op)
{
	return weir_fallocate(s->r, op, s->file2, 0, 0, 4096);
}

static int start_open(struct stage *s, struct weir_op *op)
{
	return weir_open(s->r, op, s->dir, "file", O_RDONLY, 0);
}

/* A descriptor that there is not: nothing of ours is lost if it is done. */
static int start_close(struct stage *s, struct weir_op *op)
{
	return weir_close(s->r, op, 1 << 20);
}

static int start_statx(struct stage *s, struct weir_op *op)
{
	return weir_statx(s->r, op, s->dir, "file", 0, STATX_BASIC_STATS,
			  &s->stx);
}

static int start_rename(struct stage *s, struct weir_op *op)
{
	return weir_rename(s->r, op, s->dir, "file", "renamed", 0);
}

static int start_unlink(struct stage *s, struct weir_op *op)
{
	return weir_unlink(s->r, op, s->dir, "file", 0);
}

static int start_copy(struct stage *s, struct weir_op *op)
{
	return weir_copy_range(s->r, op, s->file, 0, s->file2, 0,
			       STAGE_FILE_LEN);
}

static int start_accept(struct stage *s, struct weir_op *op)
{
	return weir_accept(s->r, op, s->listener);
}

static void knock(struct stage *s)
{
	s->connecting = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(connect(s->connecting, (struct sockaddr *)&s->addr,
				 sizeof(s->addr)), 0);
}

static int start_connect(struct stage *s, struct weir_op *op)
{
	return weir_connect(s->r, op, s->client, (struct sockaddr *)&s->addr,
			    sizeof(s->addr));
}

static int start_recv(struct stage *s, struct weir_op *op)
{
	return weir_recv(s->r, op, s->sv[0], s->buf, sizeof(s->buf), 0);
}

static int start_recv_all(struct stage *s, struct weir_op *op)
{
	return weir_recv(s->r, op, s->sv[0], s->buf, 1000, WEIR_SOCK_ALL);
}

static int start_recvmsg(struct stage *s, struct weir_op *op)
{
	return weir_recvmsg(s->r, op, s->sv[0], &s->msg, 0);
}

static void send_100(struct stage *s)
{
	assert_int_equal(write(s->sv[1], s->buf2, 100), 100);
}

static void send_1000(struct stage *s)
{
	assert_int_equal(write(s->sv[1], s->buf2, 1000), 1000);
}

static int start_send(struct stage *s, struct weir_op *op)
{
	return weir_send(s->r, op, s->full[0], s->buf, 3000, 0);
}

static int start_zerocopy(struct stage *s, struct weir_op *op)
{
	return weir_send(s->r, op, s->full[0], s->buf, 3000,
			 WEIR_SOCK_ZEROCOPY);
}

static int start_sendv(struct stage *s, struct weir_op *op)
{
	return weir_sendv(s->r, op, s->full[0], s->iov, 3, 0);
}

static int start_sendmsg(struct stage *s, struct weir_op *op)
{
	return weir_sendmsg(s->r, op, s->full[0], &s->msg, 0);
}

static void drain_full(struct stage *s)
{
	drain(s->full[1]);
}

static int start_shutdown(struct stage *s, struct weir_op *op)
{
	return weir_shutdown(s->r, op, s->sv[0], SHUT_WR);
}

static int start_poll(struct stage *s, struct weir_op *op)
{
	return weir_poll(s->r, op, s->sv[0], WEIR_READABLE);
}

static void forget_own(const struct weir_op *op)
{
	for (size_t i = 0; i < n_own; i++)
		if (own[i] == op)
			own[i--] = own[--n_own];
}

static void cancel_own(struct weir_op *op, void *arg)
{
	assert_ptr_equal(arg, own);
	forget_own(op);
	assert_int_equal(weir_op_finish(op, -ECANCELED), 0);
}

static int start_own(struct stage *s, struct weir_op *op)
{
	int err = weir_op_start(s->r, op, cancel_own, own);

	assert_true(n_own < N_OF(own));
	if (!err)
		own[n_own++] = op;
	return err;
}

static void finish_own(struct stage *s)
{
	(void)s;
	while (n_own)
		assert_int_equal(weir_op_finish(own[--n_own], 9), 0);
}

static int start_own_and_finish(struct stage *s, struct weir_op *op)
{
	int err = weir_op_start(s->r, op, cancel_own, own);

	if (!err)
		assert_int_equal(weir_op_finish(op, 8), 0);
	return err;
}

#define WAITS .waits = true
#define MOVES .moves = true

const struct op_kind op_kinds[] = {
	{ "nop:", start_nop, .res = 0 },
	{ "defer:", start_defer, .res = 0 },
	{ "sleep:", start_sleep, .res = 0 },
	{ "long sleep:", start_long_sleep, WAITS, .never = true },
	{ "work:", start_work, .res = 7 },
	{ "read:", start_read, .res = STAGE_FILE_LEN, MOVES },
	{ "write:", start_write, .res = STAGE_FILE_LEN, MOVES },
	{ "readv:", start_readv, .res = 1000, MOVES },
	{ "writev:", start_writev, .res = 1000, MOVES },
	{ "read of an empty pipe:", start_pipe_read, fill_pipe, 100, WAITS,
	  MOVES },
	{ "write to a full pipe:", start_pipe_write, drain_pipe, 3000, WAITS,
	  MOVES },
	{ "fsync:", start_fsync, .res = 0 },
	{ "fallocate:", start_fallocate, .res = 0 },
	{ "open:", start_open, .res = OP_GIVES_FD },
	{ "close:", start_close, .res = -EBADF, .always = true },
	{ "statx:", start_statx, .res = 0 },
	{ "rename:", start_rename, .res = 0 },
	{ "unlink:", start_unlink, .res = 0 },
	{ "copy range:", start_copy, .res = STAGE_FILE_LEN, MOVES },
	{ "accept:", start_accept, knock, OP_GIVES_FD, WAITS },
	{ "connect:", start_connect, .res = 0 },
	{ "recv:", start_recv, send_100, 100, WAITS, MOVES },
	{ "recv all:", start_recv_all, send_1000, 1000, WAITS, MOVES },
	{ "recvmsg:", start_recvmsg, send_100, 100, WAITS, MOVES },
	{ "send:", start_send, drain_full, 3000, WAITS, MOVES },
	{ "zero-copy send:", start_zerocopy, drain_full, 3000, WAITS, MOVES },
	{ "sendv:", start_sendv, drain_full, 1000, WAITS, MOVES },
	{ "sendmsg:", start_sendmsg, drain_full, 1000, WAITS, MOVES },
	{ "shutdown:", start_shutdown, .res = 0 },
	{ "poll:", start_poll, send_100, WEIR_READABLE, WAITS },
	{ "own:", start_own, finish_own, 9, WAITS,
	  .begins = true },
	{ "own, finished at once:", start_own_and_finish, .res = 8,
	  .begins = true },
};
const size_t n_op_kinds = N_OF(op_kinds);
