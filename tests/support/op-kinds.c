/* SPDX-License-Identifier: BSD-3-Clause */

#include "tests/support/harness.h"
#include "tests/support/op-kinds.h"

#include <arpa/inet.h>
#include <linux/openat2.h>

#include <weir/fs.h>

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
	static unsigned int n;

	memset(s, 0, sizeof(*s));
	snprintf(s->new_name, sizeof(s->new_name), "new%u", n++);
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

#define STARTS_BY(name, call)                                       \
	static int start_##name(struct stage *s, struct weir_op *op) \
	{                                                            \
		return call;                                         \
	}

STARTS_BY(nop, weir_nop(s->r, op))
STARTS_BY(defer, weir_defer(s->r, op))
STARTS_BY(sleep, weir_sleep_until(s->r, op, weir_reactor_now(s->r) + WEIR_MSEC))
STARTS_BY(long_sleep, weir_sleep_until(s->r, op, WEIR_FOREVER - 1))

static int64_t seven(void *arg)
{
	(void)arg;
	return 7;
}

STARTS_BY(work, weir_work(s->r, op, seven, s))
STARTS_BY(read, weir_read(s->r, op, s->file, s->buf, sizeof(s->buf), 0))
STARTS_BY(write, weir_write(s->r, op, s->file2, s->buf, sizeof(s->buf), 0))
STARTS_BY(readv, weir_readv(s->r, op, s->file, s->iov, 3, 0))
STARTS_BY(writev, weir_writev(s->r, op, s->file2, s->iov, 3, 0))
STARTS_BY(pipe_read, weir_read(s->r, op, s->pipe[0], s->buf, 1000,
	  WEIR_OFF_STREAM))

static void fill_pipe(struct stage *s)
{
	assert_int_equal(write(s->pipe[1], s->buf2, 100), 100);
}

STARTS_BY(pipe_write, weir_write(s->r, op, s->full_pipe[1], s->buf, 3000,
	  WEIR_OFF_STREAM))

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

STARTS_BY(fsync, weir_fsync(s->r, op, s->file, WEIR_FSYNC_DATA))
STARTS_BY(fsync_range, weir_fsync_range(s->r, op, s->file, 0, 100, 50))

static const struct open_how beneath = { .flags = O_RDONLY,
					 .resolve = RESOLVE_BENEATH };

STARTS_BY(open_how, weir_open_how(s->r, op, s->dir, "file", &beneath,
	  sizeof(beneath)))
STARTS_BY(fallocate, weir_fallocate(s->r, op, s->file2, 0, 0, 4096))
STARTS_BY(open, weir_open(s->r, op, s->dir, "file", O_RDONLY, 0))

/* A descriptor that there is not: nothing of ours is lost if it is done. */
STARTS_BY(close, weir_close(s->r, op, 1 << 20))
STARTS_BY(statx, weir_statx(s->r, op, s->dir, "file", 0, STATX_BASIC_STATS,
	  &s->stx))
STARTS_BY(rename, weir_rename(s->r, op, s->dir, "file", s->dir, "renamed",
	  0))
STARTS_BY(unlink, weir_unlink(s->r, op, s->dir, "file", 0))
STARTS_BY(mkdir, weir_mkdir(s->r, op, s->dir, s->new_name, 0700))
STARTS_BY(link, weir_link(s->r, op, s->dir, "file", s->dir, s->new_name, 0))
STARTS_BY(ftruncate, weir_ftruncate(s->r, op, s->file2, 4096))
STARTS_BY(readdir, weir_readdir(s->r, op, s->dir, s->buf, 40))

STARTS_BY(symlink, weir_symlink(s->r, op, "x", s->dir, s->new_name))
STARTS_BY(readlink, weir_readlink(s->r, op, s->dir, "file", s->buf, 8))
STARTS_BY(chmod, weir_chmod(s->r, op, s->dir, "file", 0600, 0))
STARTS_BY(chown, weir_chown(s->r, op, s->dir, "file", (uid_t)-1, (gid_t)-1, 0))
STARTS_BY(utimens, weir_utimens(s->r, op, s->dir, "file", NULL, 0))

/* A name without a class, which no file system has. */
STARTS_BY(xattr_get, weir_xattr_get(s->r, op, s->file, "none", s->buf, 8))
STARTS_BY(xattr_set, weir_xattr_set(s->r, op, s->file, "none", s->buf, 8, 0))
STARTS_BY(xattr_list, weir_xattr_list(s->r, op, -1, s->buf, 8))
STARTS_BY(xattr_remove, weir_xattr_remove(s->r, op, s->file, "none"))
STARTS_BY(copy, weir_copy_range(s->r, op, s->file, 0, s->file2, 0,
	  STAGE_FILE_LEN))
STARTS_BY(accept, weir_accept(s->r, op, s->listener, NULL, NULL, 0))

static void knock(struct stage *s)
{
	s->connecting = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(connect(s->connecting, (struct sockaddr *)&s->addr,
				 sizeof(s->addr)), 0);
}

STARTS_BY(connect, weir_connect(s->r, op, s->client,
	  (struct sockaddr *)&s->addr, sizeof(s->addr)))
STARTS_BY(recv, weir_recv(s->r, op, s->sv[0], s->buf, sizeof(s->buf), 0))
STARTS_BY(recv_all, weir_recv(s->r, op, s->sv[0], s->buf, 1000, WEIR_SOCK_ALL))
STARTS_BY(recvmsg, weir_recvmsg(s->r, op, s->sv[0], &s->msg, 0))

static void send_100(struct stage *s)
{
	assert_int_equal(write(s->sv[1], s->buf2, 100), 100);
}

static void send_1000(struct stage *s)
{
	assert_int_equal(write(s->sv[1], s->buf2, 1000), 1000);
}

STARTS_BY(send, weir_send(s->r, op, s->full[0], s->buf, 3000, 0))
STARTS_BY(zerocopy, weir_send(s->r, op, s->full[0], s->buf, 3000,
	  WEIR_SOCK_ZEROCOPY))
STARTS_BY(sendv, weir_sendv(s->r, op, s->full[0], s->iov, 3, 0))
STARTS_BY(sendmsg, weir_sendmsg(s->r, op, s->full[0], &s->msg, 0))

static void drain_full(struct stage *s)
{
	drain(s->full[1]);
}

STARTS_BY(shutdown, weir_shutdown(s->r, op, s->sv[0], SHUT_WR))
STARTS_BY(poll, weir_poll(s->r, op, s->sv[0], WEIR_READABLE))

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
#define NOT_SIM .not_sim = true

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
	{ "fsync range:", start_fsync_range, .res = 0 },
	{ "fallocate:", start_fallocate, .res = 0 },
	{ "open:", start_open, .res = OP_GIVES_FD },
	{ "open how:", start_open_how, .res = OP_GIVES_FD },
	{ "close:", start_close, .res = -EBADF, .always = true },
	{ "statx:", start_statx, .res = 0 },
	{ "rename:", start_rename, .res = 0 },
	{ "unlink:", start_unlink, .res = 0 },
	{ "mkdir:", start_mkdir, .res = 0 },
	{ "link:", start_link, .res = 0 },
	{ "ftruncate:", start_ftruncate, .res = 0 },
	{ "readdir:", start_readdir, .res = 24 },
	{ "symlink:", start_symlink, .res = 0, NOT_SIM },
	{ "readlink:", start_readlink, .res = -EINVAL, NOT_SIM },
	{ "chmod:", start_chmod, .res = 0, NOT_SIM },
	{ "chown:", start_chown, .res = 0, NOT_SIM },
	{ "utimens:", start_utimens, .res = 0, NOT_SIM },
	{ "xattr get:", start_xattr_get, .res = -EOPNOTSUPP },
	{ "xattr set:", start_xattr_set, .res = -EOPNOTSUPP },
	{ "xattr list:", start_xattr_list, .res = -EBADF },
	{ "xattr remove:", start_xattr_remove, .res = -EOPNOTSUPP },
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
