/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Splice: bytes from a socket to a pipe and from a pipe to a socket, by
 * splice(2), where the kernel hands over pages instead of bytes.
 *
 *	weir_splice() ---> splice(2) ---- moved, end, error ----> READY
 *	                    ^   |
 *	              ready |   | EAGAIN: one of the two is not ready
 *	                    +---+ a poll of that one
 *
 * To a backend such an operation is a poll, whose end is tried on by
 * io_splice_account(); but a simulated one moves the bytes.  IORING_OP_SPLICE is not
 * used: the kernel hands each one to a thread of its own, which costs more than it
 * saves.
 */

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <weir/watch.h>

#include "base/fault.h"
#include "base/why.h"
#include "reactor/io.h"

static int in_of(const struct weir_op *op)
{
	return (int)op->u.io.addr;
}

static int out_of(const struct weir_op *op)
{
	return (int)op->u.io.aux;
}

/* The kinds of the two descriptors, in u.io.off. */
#define IN_IS_PIPE 1
#define OUT_IS_PIPE 2

/*
 * A file or a block device never returns EAGAIN, so it would block the loop;
 * weir_read() is for these.
 */
static int learn(struct weir_op *op, int fd, uint64_t pipe)
{
	struct stat st;

	if (fstat(fd, &st))
		return -errno;
	if (S_ISREG(st.st_mode) || S_ISBLK(st.st_mode))
		return -EINVAL;
	if (S_ISFIFO(st.st_mode))
		op->u.io.off |= pipe;
	return 0;
}

/*
 * Sockets use only their own mode, pipes the call's flags too; so only the mode
 * of sockets is changed.
 */
static int nonblock_begin(const struct weir_op *op, int fd, uint64_t pipe)
{
	return op->u.io.off & pipe ? O_NONBLOCK : io_nonblock_begin(fd);
}

static int64_t move(int in, int out, size_t len, bool to_pipe)
{
	struct io_sigpipe sigpipe;
	int64_t n;

	if (fault("splice"))
		return -EIO;
	io_sigpipe_begin(&sigpipe);
	do {
		n = splice(in, NULL, out, NULL, len,
			   SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
		n = n < 0 ? -errno : n;
	} while (n == -EINTR);
	/* A socket may have raised the signal after it had taken a part. */
	io_sigpipe_end(&sigpipe, n == -EPIPE ||
				 (!to_pipe && n != (int64_t)len));
	return n;
}

/*
 * splice(2) has returned 0, for the end.  It also returns 0 if an urgent byte
 * is next, followed by the end.
 */
static bool has_more(int in)
{
	char byte;

	return recv(in, &byte, 1, MSG_PEEK | MSG_DONTWAIT) > 0;
}

static int64_t try_splice(const struct weir_op *op)
{
	int in = in_of(op), out = out_of(op), in_mode, out_mode;
	int64_t res;

	in_mode = nonblock_begin(op, in, IN_IS_PIPE);
	if (in_mode < 0)
		return in_mode;
	out_mode = nonblock_begin(op, out, OUT_IS_PIPE);
	res = out_mode < 0 ? out_mode : move(in, out, op->u.io.len,
					     op->u.io.off & OUT_IS_PIPE);
	if (out_mode >= 0)
		io_nonblock_end(out, out_mode);
	io_nonblock_end(in, in_mode);
	if (!res && !(op->u.io.off & IN_IS_PIPE) && has_more(in))
		return -EAGAIN;
	return res;
}

/* Returns false if both are ready, and there is nothing to wait for. */
static bool choose_side(struct weir_op *op)
{
	op->u.io.fd = out_of(op);
	op->u.io.flags = WEIR_WRITABLE;
	if (io_sync_step(op) == -EAGAIN)
		return true;
	op->u.io.fd = in_of(op);
	op->u.io.flags = WEIR_READABLE;
	return io_sync_step(op) == -EAGAIN;
}

/*
 * If both are ready, one may have become so just now, so splice(2) is tried
 * once more.  If that moves nothing, the socket has an urgent byte, which
 * splice(2) never moves, and a poll would end at once for ever.  From a pipe it
 * can only mean that the kernel is short of memory, and splice(2) is tried
 * again.
 */
bool io_splice_account(struct weir_op *op, int64_t *res)
{
	int tries;

	if (*res < 0)
		return *res != -EINTR;
	if (fd_is_virtual(in_of(op))) {
		op->u.io.done = (uint64_t)*res;
		return true;
	}
	for (tries = 0; tries < 2; tries++) {
		*res = try_splice(op);
		if (*res != -EAGAIN)
			break;
		if (choose_side(op))
			return false;
	}
	if (*res > 0)
		op->u.io.done = (uint64_t)*res;
	return *res != -EAGAIN || !(op->u.io.off & IN_IS_PIPE);
}

int weir_splice(struct weir_reactor *r, struct weir_op *op, int in, int out,
		size_t len)
{
	uint64_t since;
	int64_t res;
	int err;

	if (!len || len > INT64_MAX)
		return io_invalid(IO_SPLICE, "no bytes, or too many");
	err = op_admit(r, op);
	if (err)
		return io_refused(err, op, IO_SPLICE);
	since = op_time_now(r);
	op->kind = IO_SPLICE;
	op->u.io.addr = (uint64_t)in;
	op->u.io.aux = (uint64_t)out;
	op->u.io.len = len;
	op->u.io.off = 0;
	op->u.io.done = 0;
	if (r->backend->isolated) {
		op->u.io.fd = in;
		io_launch(r, op);
		return 0;
	}
	res = learn(op, in, IN_IS_PIPE);
	if (!res)
		res = learn(op, out, OUT_IS_PIPE);
	/* 0 is treated as the end of a poll: splice(2) is tried. */
	if (!res && !io_splice_account(op, &res)) {
		io_launch(r, op);
		return 0;
	}
	op_begin_ready(r, op, &io_classes[IO_SPLICE], res, since);
	op->detail.bytes = op->u.io.done;
	return 0;
}
