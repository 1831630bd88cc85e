/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_REACTOR_IO_H
#define WEIR_REACTOR_IO_H

/*
 * I/O operations: their parameters in op->u.io, how a short step is continued,
 * and how they run as blocking calls.
 *
 * io-kinds.h has the kinds and their parameters.  io.done counts the bytes of
 * the steps so far; io.seg and io.seg_off are the place in the iovecs at which
 * the next step begins.
 */

#include <linux/openat2.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "base/own.h"
#include "base/provider.h"
#include "reactor/op-inline.h"

#include <weir/file.h>
#include <weir/socket.h>

#define IO_STEP_MAX (1u << 30)	/* Bytes in one step: below the kernel's cap. */

extern const struct weir_op_class io_classes[IO_KINDS] PROVIDER_API(io_classes);

/* The same for what op_may_begin() has let pass, or what is never refused. */
void io_launch(struct weir_reactor *r, struct weir_op *op);

/* The same by a worker, although the backend could. */
void io_launch_worker(struct weir_reactor *r, struct weir_op *op);

/* The parameters of what has no steps; what is not named is 0. */
struct io_params {
	int fd;
	uint32_t flags;
	const void *addr;
	uint64_t len;
	uint64_t off;
	uint64_t aux;
};

/* io_launch() of @op as one of @kind with @p. */
void io_launch_params(struct weir_reactor *r, struct weir_op *op, int kind,
		      const struct io_params *p);

/* The same after op_admit(): returns 0, or its errno with a message. */
int io_start(struct weir_reactor *r, struct weir_op *op, int kind,
	     struct io_params p);

/*
 * Leave a message of the public call of @kind, and return its errno: @err of
 * op_admit(), or -EINVAL with @text.
 */
__attribute__((cold)) int io_refused(int err, const struct weir_op *op,
				     int kind);
__attribute__((cold)) int io_invalid(int kind, const char *text);

/*
 * The bytes in @n pieces.  -EINVAL: there are pieces that are none, or too many
 * bytes; -EMSGSIZE: too many pieces.
 */
int64_t io_iov_total(const struct iovec *iov, uint32_t n, int kind);

/* The next step of a transfer, after what was done before. */
struct io_step {
	uint64_t off;		/* WEIR_OFF_STREAM, or where in the file. */
	void *addr;		/* One piece, if n is 0. */
	size_t len;
	const struct iovec *iov; /* Or n whole pieces. */
	uint32_t n;
	uint32_t flags;		/* A world's: WEIR_RW_. */
};

void io_step_next(const struct weir_op *op, struct io_step *step)
	PROVIDER_API(io_step_next);

/*
 * A step of @op ended with *@res.  Returns true if the operation ends, with its
 * result in *@res, or false if another step is needed.  Any thread.
 */
bool io_step_account(struct weir_op *op, int64_t *res)
	PROVIDER_API(io_step_account);

/*
 * splice.c: the same for a splice, which backends see as a poll of u.io.fd.  If
 * it continues, that may be another descriptor than before.
 */
bool io_splice_account(struct weir_op *op, int64_t *res);

/* io.c: its memory is the library's from here; the caller's again. */
void io_release_received(struct weir_op *op) PROVIDER_API(io_release_received);
void io_release_again_received(struct weir_op *op);
void io_acquire_received(struct weir_op *op) PROVIDER_API(io_acquire_received);

static inline void io_release(struct weir_op *op)
{
	if (unlikely(own_heard()))
		io_release_received(op);
}

/* A step was tried in vain, and @op waits for the next. */
static inline void io_release_again(struct weir_op *op)
{
	if (unlikely(own_heard()))
		io_release_again_received(op);
}

static inline void io_acquire(struct weir_op *op)
{
	if (unlikely(own_heard()))
		io_acquire_received(op);
}

/*
 * @op ends with @res, whatever was done: for what has no steps.  A cancel that
 * came between two system calls shows as an interruption.
 */
static inline void io_end(struct weir_op *op, int64_t res)
{
	if (unlikely(res == -EINTR && op_cancel_wanted(op)))
		res = -ECANCELED;
	io_acquire(op);
	op->detail.bytes = op->u.io.done;
	op_complete(op, res);
}

/*
 * A step of @op ended with @res: complete @op and return true, or return false
 * if another step is needed; the caller submits it again.
 */
static inline bool io_step_done(struct weir_op *op, int64_t res)
{
	if (op->kind != IO_NOP && !io_step_account(op, &res)) {
		if (likely(!op_cancel_wanted(op)))
			return false;
		res = -ECANCELED;
	}
	io_end(op, res);
	return true;
}

/*
 * Do one step of @op by a system call.  Any thread.  For sockets this does not
 * wait, but returns -EAGAIN; for files and pipes the caller must see to that.
 * Returns the step's result.
 */
int64_t io_sync_step(struct weir_op *op);

/* A system call of our own is about to write to the memory of @step; see
 * own_use(). */
void io_use(const struct io_step *step);

/*
 * Make @fd non-blocking for one call.  The flag is the open file's, so others
 * processes that share it see it for a moment; sockets are hardly ever shared,
 * and the alternative is a loop that hangs in accept() when another took the
 * connection, or for minutes in connect().  Returns the flags to restore, or a
 * negative errno.
 */
int io_nonblock_begin(int fd);
void io_nonblock_end(int fd, int flags);

/* Opens the file of @fd again with @flags, through /proc: a description of its own,
 * which the caller closes.  Returns -1 with errno set if that cannot be. */
int io_open_again(int fd, int flags);

/*
 * Returns RWF_NOSIGNAL if this kernel supports it, else 0: with it no write
 * ends the process by SIGPIPE.  Since Linux 6.18.
 */
int io_nosignal(void);

/* The other way, for one system call of this thread: SIGPIPE is blocked from
 * begin to end, and gone if the call @broke the pipe. */
struct io_sigpipe {
	sigset_t mask;
	bool pending;
};
void io_sigpipe_begin(struct io_sigpipe *s);
void io_sigpipe_end(struct io_sigpipe *s, bool broke);

/*
 * u.io.flags of a read or write, and op->rw before it: WEIR_RW_ flags, the
 * backend's own bits, and the priority.  Few have any.
 */
#define IO_RW_FLAGS 0x0fffu
#define IO_RW_OWN 0xf000u
#define IO_RW_PRIO_SHIFT 16

/* These are one transfer, whatever it makes. */
#define IO_RW_SINGLE (WEIR_RW_NOWAIT | WEIR_RW_ATOMIC)

static inline uint32_t io_rw_flags(const struct weir_op *op)
{
	return op->u.io.flags & IO_RW_FLAGS;
}

/* Returns which flags of WEIR_RW_ this kernel knows. */
uint32_t io_rw_known(void);

/* What an OPEN with .aux says, for openat2(2). */
static inline struct open_how io_how(const struct weir_op *op)
{
	return (struct open_how){ .flags = op->u.io.flags,
				  .mode = op->u.io.len,
				  .resolve = op->u.io.off };
}

/* Returns whether the kernel has openat2(2), and lets us call it. */
bool io_has_openat2(void);

/* MSG_ flags that go with one message to the kernel, as they are. */
#define IO_SENDMSG_FLAGS \
	((uint32_t)(MSG_MORE | MSG_DONTWAIT | MSG_OOB | MSG_EOR | MSG_CONFIRM | \
		    MSG_DONTROUTE))
#define IO_RECVMSG_FLAGS \
	((uint32_t)(MSG_DONTWAIT | MSG_PEEK | MSG_TRUNC | MSG_OOB | \
		    MSG_ERRQUEUE))

/* Whether -EAGAIN is the result of @op, and not a reason to wait. */
static inline bool io_never_waits(const struct weir_op *op)
{
	switch (op->kind) {
	case IO_READ:
	case IO_WRITE:
	case IO_READV:
	case IO_WRITEV:
		return op->u.io.flags & WEIR_RW_NOWAIT;
	case IO_SENDMSG:
	case IO_RECVMSG:
		return op->u.io.flags & MSG_DONTWAIT;
	default:
		return false;
	}
}

/* WEIR_SOCK_ flags for send(2); WEIR_ events for poll(2), and back, for
 * what asked for @events. */
int io_send_flags(uint32_t flags);
short io_poll_mask(uint32_t events);
uint32_t io_poll_events(int mask, uint32_t events);

/* Whether @fd is a socket whose close(2) waits for its peer. */
bool io_lingers(int fd);

/* Do all of @op by system calls, and return the result.  Any thread. */
int64_t io_sync(struct weir_op *op);

/*
 * worker.c: have a worker do @op by io_sync(), and return it.  If no thread can
 * be made, @op completes with that error; but a close is done here.
 */
void worker_submit(struct weir_reactor *r, struct weir_op *op);

/* Take @op off the workers' queue; false if one has it already. */
bool worker_cancel(struct weir_reactor *r, struct weir_op *op);

/* Make sure that there is at least one worker.  0 or a negative errno. */
int worker_ensure(struct weir_reactor *r);

/*
 * Start a thread of the library's own, which gets no signals, with *@ret set.
 * Any thread.  0 or a negative errno.
 */
int thread_start(pthread_t *ret, void *(*run)(void *arg), void *arg);

/* Nothing is queued.  Wait until all threads have ended. */
void worker_fini(struct weir_reactor *r);

#endif /* WEIR_REACTOR_IO_H */
