/* SPDX-License-Identifier: BSD-3-Clause */
/* The operations of the ev backend: where each goes, and its system call. */

#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/fault.h"
#include "reactor/cached.h"
#include "reactor/ev/ev.h"

/* In u.io.flags of a READ or WRITE: what kind of file it is on. */
enum ev_file {
	EV_FILE_STREAM,		/* A pipe, an eventfd: no offsets. */
	EV_FILE_DEVICE,		/* A character device: perhaps with offsets. */
	EV_FILE_SOCKET,
	EV_FILE_BLOCKS,		/* Has no readiness: a worker's. */
};

/* The same of a CONNECT. */
enum ev_connect_state {
	EV_CONNECT_NEW,
	EV_CONNECT_UNDER_WAY,
};

#define OWN_SHIFT 12		/* IO_RW_OWN */

static uint32_t own(const struct weir_op *op)
{
	return (op->u.io.flags & IO_RW_OWN) >> OWN_SHIFT;
}

static void set_own(struct weir_op *op, uint32_t value)
{
	op->u.io.flags &= ~IO_RW_OWN;
	op->u.io.flags |= value << OWN_SHIFT;
}

/* Results of a step that are no errno. */
#define EV_RES_WORKER INT64_MIN		/* Only a worker can wait. */
#define EV_RES_RETRY (INT64_MIN + 1)	/* No event comes; retry later. */

int ev_accept(int fd, struct sockaddr *addr, socklen_t *addrlen, int how)
{
	int flags = io_nonblock_begin(fd), res;

	if (flags < 0)
		return flags;
	res = accept4(fd, addr, addrlen, how);
	if (res < 0)
		res = -errno;
	io_nonblock_end(fd, flags);
	return res;
}

int ev_connect(int fd, const void *addr, socklen_t len)
{
	int flags = io_nonblock_begin(fd), res;

	if (flags < 0)
		return flags;
	res = connect(fd, addr, len) ? -errno : 0;
	io_nonblock_end(fd, flags);
	return res;
}

/*
 * SO_ERROR is the result of the connect.  If it is 0 the socket is connected,
 * unless the readiness dates from before the connect.
 */
static int64_t connect_result(int fd)
{
	struct sockaddr_storage peer;
	socklen_t len = sizeof(int);
	int err = 0;

	if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &len))
		return -errno;
	if (err)
		return -err;
	len = sizeof(peer);
	if (!getpeername(fd, (struct sockaddr *)&peer, &len))
		return 0;
	if (errno != ENOTCONN)
		return -errno;
	/* Ready for ever, no error and no peer: the error was read by another
	 * call. */
	return ev_poll(fd, WEIR_WRITABLE) == -EAGAIN ? -EAGAIN : -ENOTCONN;
}

static int64_t connect_step(struct weir_op *op)
{
	int fd = op->u.io.fd, res;

	debug_check(op->kind == IO_CONNECT);
	if (own(op) == EV_CONNECT_UNDER_WAY)
		return connect_result(fd);
	res = ev_connect(fd, (const void *)(uintptr_t)op->u.io.addr,
			 (socklen_t)op->u.io.len);
	if (res == -EAGAIN)
		return EV_RES_RETRY;
	if (res != -EINPROGRESS && res != -EINTR)
		return res;
	set_own(op, EV_CONNECT_UNDER_WAY);
	return -EAGAIN;
}

int64_t ev_poll(int fd, uint32_t events)
{
	struct pollfd p = { .fd = fd, .events = io_poll_mask(events) };

	/* Never interrupted: it does not sleep.  Out of memory: as if not. */
	if (poll(&p, 1, 0) <= 0)
		return -EAGAIN;
	if (p.revents & POLLNVAL)
		return -EBADF;
	return io_poll_events(p.revents, events);
}

static bool reads(const struct weir_op *op)
{
	return op->kind == IO_READ || op->kind == IO_READV;
}

/*
 * Opens the pipe @fd again, so that it does not wait; what others have of it stays
 * as it is.  Only a pipe: opening a device again can have effects.  Returns -1 if
 * it is none, or cannot be opened again.
 */
static int open_pipe_again(int fd, int flags)
{
	struct stat st;

	if (fstat(fd, &st) || !S_ISFIFO(st.st_mode))
		return -1;
	return io_open_again(fd, (flags & (O_ACCMODE | O_DIRECT)) | O_NONBLOCK);
}

static int64_t stream_call(const struct weir_op *op, int fd,
			   const struct iovec *iov, int n, uint64_t off)
{
	long res;

	if (reads(op) && off == WEIR_OFF_STREAM)
		res = syscall(SYS_readv, fd, iov, n);
	else if (reads(op))
		res = syscall(SYS_preadv, fd, iov, n, off, 0L);
	else if (off == WEIR_OFF_STREAM)
		res = syscall(SYS_writev, fd, iov, n);
	else
		res = syscall(SYS_pwritev, fd, iov, n, off, 0L);
	return res < 0 ? -errno : res;
}

/*
 * A file without RWF_NOWAIT, which pipes have since Linux 6.4: when it is ready, and
 * by its own flag or, for a pipe, by that of another description.  Of the others, a
 * read is done here, and a write, which may be longer than what there is space for,
 * by a worker.
 */
static int64_t stream_step_old(struct weir_op *op, const struct iovec *iov,
			       int n, uint64_t off)
{
	int fd = op->u.io.fd, flags = fcntl(fd, F_GETFL), again;
	int64_t res;

	if (flags < 0)
		return -errno;
	if (flags & O_NONBLOCK)
		return stream_call(op, fd, iov, n, off);
	if (ev_poll(fd, reads(op) ? WEIR_READABLE : WEIR_WRITABLE) == -EAGAIN)
		return -EAGAIN;
	again = open_pipe_again(fd, flags);
	if (again < 0)
		return reads(op) ? stream_call(op, fd, iov, n, off) :
				   EV_RES_WORKER;
	res = stream_call(op, again, iov, n, off);
	close(again);
	return res;
}

static int64_t socket_step(struct weir_op *op, const struct iovec *iov, int n)
{
	struct msghdr msg = {
		.msg_iov = (struct iovec *)iov,
		.msg_iovlen = (size_t)n,
	};
	long res;

	if (op->u.io.flags & (WEIR_RW_ATOMIC | WEIR_RW_DONTCACHE))
		return -EOPNOTSUPP;
	if (reads(op))
		res = syscall(SYS_recvmsg, op->u.io.fd, &msg, MSG_DONTWAIT);
	else
		res = syscall(SYS_sendmsg, op->u.io.fd, &msg,
			      MSG_DONTWAIT | MSG_NOSIGNAL);
	return res < 0 ? -errno : res;
}

/* Flags that no other call can do without. */
#define NEEDS_SUPPORT (WEIR_RW_ATOMIC | WEIR_RW_DONTCACHE)

static int64_t rw_call(struct weir_op *op, const struct iovec *iov, int n,
		       uint64_t off)
{
	int flags = RWF_NOWAIT | (reads(op) ? 0 : io_nosignal());
	uint32_t wanted = io_rw_flags(op);
	long res;

	flags |= (int)wanted;
	res = syscall(reads(op) ? SYS_preadv2 : SYS_pwritev2, op->u.io.fd, iov,
		      n, off, off == WEIR_OFF_STREAM ? -1L : 0L, flags);
	if (res < 0 && errno == ESPIPE && own(op) == EV_FILE_DEVICE) {
		set_own(op, EV_FILE_STREAM); /* E.g. a terminal. */
		return -EINTR;
	}
	/* Then it was because of RWF_NOWAIT; and to be durable, or at the end,
	 * means nothing where there is no file. */
	if (res < 0 && (errno == EOPNOTSUPP || errno == ENOSYS) &&
	    !(wanted & NEEDS_SUPPORT))
		return stream_step_old(op, iov, n, off);
	return res < 0 ? -errno : res;
}

/* For kernels that cannot write without SIGPIPE. */
static int64_t rw_call_no_signal(struct weir_op *op, const struct iovec *iov,
				 int n, uint64_t off)
{
	struct io_sigpipe sigpipe;
	int64_t res;

	debug_check(!reads(op));
	io_sigpipe_begin(&sigpipe);
	res = rw_call(op, iov, n, off);
	io_sigpipe_end(&sigpipe, res == -EPIPE);
	return res;
}

/*
 * Raw system calls: the memory to read into is lent, and so poisoned, and the
 * sanitizers' wrappers would report it.
 */
static int64_t rw_step(struct weir_op *op)
{
	const struct iovec *iov;
	struct io_step step;
	struct iovec one;
	int n = 1;

	debug_check(op->kind != IO_ACCEPT && op->kind != IO_CONNECT);
	io_step_next(op, &step);
	one = (struct iovec){ step.addr, step.len };
	iov = &one;
	if (step.n) {
		iov = step.iov;
		n = (int)step.n;
	}
	if (reads(op))
		io_use(&step);
	if (own(op) == EV_FILE_SOCKET)
		return socket_step(op, iov, n);
	if (own(op) == EV_FILE_STREAM)
		step.off = WEIR_OFF_STREAM;
	if (reads(op) || io_nosignal())
		return rw_call(op, iov, n, step.off);
	return rw_call_no_signal(op, iov, n, step.off);
}

static int64_t step(struct weir_op *op)
{
	switch (op->kind) {
	case IO_READ:
	case IO_WRITE:
	case IO_READV:
	case IO_WRITEV:
	case IO_ACCEPT:
	case IO_CONNECT:
		break;
	default:
		return io_sync_step(op);
	}
	if (fault(io_classes[op->kind].name))
		return -EIO;
	if (op->kind == IO_ACCEPT)
		return ev_accept(op->u.io.fd,
				 (struct sockaddr *)(uintptr_t)op->u.io.addr,
				 (socklen_t *)(uintptr_t)op->u.io.aux,
				 (int)op->u.io.flags);
	if (op->kind == IO_CONNECT)
		return connect_step(op);
	return rw_step(op);
}

static bool has_steps(const struct weir_op *op)
{
	switch (op->kind) {
	case IO_READ:
	case IO_WRITE:
	case IO_READV:
	case IO_WRITEV:
	case IO_RECV:
	case IO_SEND:
	case IO_SENDV:
	case IO_SENDMSG:	/* One, but it counts its bytes. */
	case IO_RECVMSG:
	case IO_SPLICE:		/* Between polls. */
		return true;
	default:
		return false;
	}
}

static void push_front(struct op_queue *q, struct weir_op *op)
{
	debug_check(!(op->flags & OP_QUEUED));
	op->next = q->first;
	op->pprev = &q->first;
	if (q->first)
		q->first->pprev = &op->next;
	else
		q->last = &op->next;
	q->first = op;
	op->flags |= OP_QUEUED;
}

/* If there is no timer for the retry, the kernel's errno becomes the result. */
static void retry_later(struct weir_reactor *r, struct weir_op *op)
{
	struct itimerspec its = { .it_value.tv_nsec = EV_RETRY_NS };
	struct ev_backend *b = ev_of(r);
	int fd = b->retry_timer.fd;

	debug_check(op->reactor == r && op->kind == IO_CONNECT);
	if (fd < 0) {
		if (!fault("timerfd"))
			fd = timerfd_create(CLOCK_MONOTONIC,
					    TFD_CLOEXEC | TFD_NONBLOCK);
		if (fd < 0 || ev_reserve(b, (uint32_t)fd + 1)) {
			if (fd >= 0)
				close(fd);
			io_end(op, -EAGAIN);
			return;
		}
		ev_watch(b, &b->retry_timer, fd, EV_READ);
	}
	if (op_queue_empty(&b->retry))
		timerfd_settime(fd, 0, &its, NULL);
	op_queue_push(&b->retry, op);
}

void ev_retry_all(struct weir_reactor *r)
{
	struct ev_backend *b = ev_of(r);
	struct op_queue again;
	struct weir_op *op;

	reactor_check_thread(r);
	/* Those that fail once more go back to b->retry. */
	op_queue_init(&again);
	while ((op = op_queue_pop(&b->retry)))
		op_queue_push(&again, op);
	while ((op = op_queue_pop(&again)))
		ev_submit(r, op);
}

/* A splice was tried, and waits for one of its two descriptors. */
static void wait_as_poll(struct weir_reactor *r, struct weir_op *op)
{
	struct ev_backend *b = ev_of(r);
	struct ev_fd *f = ev_fd_make(b, op->u.io.fd);

	debug_check(op->reactor == r && op->kind == IO_SPLICE);
	if (!f) {
		io_end(op, -ENOMEM);
		return;
	}
	op_queue_push(&f->polls, op);
	ev_fd_update(b, f);
}

enum ev_did ev_op_step(struct weir_reactor *r, struct op_queue *q,
		       struct weir_op *op)
{
	int64_t res = step(op);

	debug_check(op->reactor == r && op->state == OP_PENDING);
	reactor_check_thread(r);
	if (res == -EAGAIN && !io_never_waits(op)) {
		io_release_again(op);
		return EV_WAITS;
	}
	if (res == -EINTR)
		return EV_GOES_ON;
	if (q)
		op_queue_del(q, op);
	if (res == EV_RES_WORKER) {
		/* A write: the worker does not know what kind of file it is,
		 * and is refused an offset where there is none. */
		if (own(op) == EV_FILE_STREAM)
			op->u.io.off = WEIR_OFF_STREAM;
		worker_submit(r, op);
		return EV_ENDED;
	}
	if (res == EV_RES_RETRY) {
		retry_later(r, op);
		return EV_ENDED;
	}
	if (!has_steps(op)) {
		if (op->kind == IO_ACCEPT && res >= 0)
			(void)ev_fd_make(ev_of(r), (int)res);
		io_end(op, res);
		return EV_ENDED;
	}
	if (io_step_done(op, res))
		return EV_ENDED;
	if (op->kind == IO_SPLICE) {
		wait_as_poll(r, op);
		return EV_ENDED;
	}
	if (q)
		push_front(q, op);
	return EV_GOES_ON;
}

/* Try @op now, unless others wait before it; what is left of it waits. */
static void start(struct weir_reactor *r, struct weir_op *op, int dir)
{
	struct ev_backend *b = ev_of(r);
	struct ev_fd *f = ev_fd_find(b, op->u.io.fd);
	enum ev_did did = EV_GOES_ON;
	struct op_queue *q;
	int tries;

	debug_check(op->reactor == r && op->state == OP_PENDING);
	if (op->u.io.fd < 0) {
		io_end(op, -EBADF); /* poll(2) ignores it. */
		return;
	}
	if (!f || op->kind == IO_POLL || io_never_waits(op) ||
	    !ev_fd_queue(f, dir)->first)
		for (tries = 0; tries < EV_TRIES_MAX && did == EV_GOES_ON;
		     tries++)
			did = ev_op_step(r, NULL, op);
	if (did == EV_ENDED)
		return;
	if (!f)
		f = ev_fd_make(b, op->u.io.fd);
	if (!f) {
		io_end(op, -ENOMEM);
		return;
	}
	q = op->kind == IO_POLL ? &f->polls : ev_fd_queue(f, dir);
	op_queue_push(q, op);
	ev_fd_update(b, f);
}

static enum ev_file file_kind(int fd)
{
	struct stat st;

	if (fstat(fd, &st))
		return EV_FILE_STREAM; /* The read ends with EBADF. */
	switch (st.st_mode & S_IFMT) {
	case S_IFSOCK:
		return EV_FILE_SOCKET;
	case S_IFCHR:
		return EV_FILE_DEVICE;
	case S_IFIFO:
	case 0: /* An eventfd, a timerfd. */
		return EV_FILE_STREAM;
	default:
		return EV_FILE_BLOCKS;
	}
}

/* A socket that lingers makes close(2) wait, and so may a file's last close. */
static bool close_may_block(int fd)
{
	switch (file_kind(fd)) {
	case EV_FILE_STREAM:
		return false;
	case EV_FILE_SOCKET:
		return io_lingers(fd);
	default:
		return true;
	}
}

/*
 * Without a priority, and not durable, a call that never waits needs no worker.
 */
static bool is_quick(const struct weir_op *op)
{
	return op->u.io.flags & WEIR_RW_NOWAIT &&
	       !(op->u.io.flags & (WEIR_RW_DSYNC | WEIR_RW_SYNC)) &&
	       !(op->u.io.flags >> IO_RW_PRIO_SHIFT);
}

static void submit_rw(struct weir_reactor *r, struct weir_op *op)
{
	debug_check(op->reactor == r);
	if (reads(op) && cached_read(r, op))
		return;
	set_own(op, file_kind(op->u.io.fd));
	if (own(op) == EV_FILE_BLOCKS && unlikely(is_quick(op)))
		io_end(op, io_sync(op));
	else if (own(op) != EV_FILE_BLOCKS)
		start(r, op, reads(op) ? EV_READ : EV_WRITE);
	else
		worker_submit(r, op);
}

void ev_submit(struct weir_reactor *r, struct weir_op *op)
{
	debug_check(op->reactor == r && op->state == OP_PENDING);
	reactor_check_thread(r);
	switch (op->kind) {
	case IO_NOP:
		op_queue_push(&ev_of(r)->nops, op);
		break;
	case IO_READ:
	case IO_WRITE:
	case IO_READV:
	case IO_WRITEV:
		submit_rw(r, op);
		break;
	case IO_CONNECT:
		set_own(op, EV_CONNECT_NEW);
		start(r, op, EV_WRITE);
		break;
	case IO_SEND:
	case IO_SENDV:
	case IO_SENDMSG:
		start(r, op, EV_WRITE);
		break;
	case IO_ACCEPT:
	case IO_RECV:
	case IO_RECVMSG:
	case IO_POLL:
		start(r, op, EV_READ);
		break;
	case IO_SPLICE:
		wait_as_poll(r, op);
		break;
	case IO_SHUTDOWN:
		io_end(op, io_sync_step(op));
		break;
	case IO_CLOSE:
		if (close_may_block(op->u.io.fd))
			worker_submit(r, op);
		else
			io_end(op, io_sync_step(op));
		break;
	default:
		worker_submit(r, op);
	}
}

static struct op_queue *queue_of(struct ev_backend *b, struct ev_fd *f,
				 const struct weir_op *op)
{
	const struct weir_op *it;

	switch (op->kind) {
	case IO_NOP:
		return &b->nops;
	case IO_POLL:
	case IO_SPLICE:
		return &f->polls;
	case IO_ACCEPT:
	case IO_RECV:
	case IO_RECVMSG:
	case IO_READ:
	case IO_READV:
		return &f->in;
	case IO_CONNECT:
		for (it = b->retry.first; it; it = it->next)
			if (it == op)
				return &b->retry;
		return &f->out;
	default:
		return &f->out;
	}
}

bool ev_cancel(struct weir_reactor *r, struct weir_op *op)
{
	struct ev_backend *b = ev_of(r);
	struct ev_fd *f = NULL;

	debug_check(op->reactor == r && op->state == OP_PENDING);
	reactor_check_thread(r);
	debug_check(op->flags & OP_QUEUED);
	if (op->kind != IO_NOP)
		f = ev_fd_find(b, op->u.io.fd);
	op_queue_del(queue_of(b, f, op), op);
	if (f)
		ev_fd_update(b, f);
	io_end(op, -ECANCELED);
	return true;
}
