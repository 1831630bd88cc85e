/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_REACTOR_BACKEND_H
#define WEIR_REACTOR_BACKEND_H

/*
 * What a reactor stands on: the table that uring, ev and sim fill.
 *
 * The rest of the library knows backends only by this.  All nondeterminism is
 * behind it: the clock, the wait, what completes and in which order, and what
 * worker threads do.  A backend keeps its own state behind r->backend_data.
 *
 * All are called on the reactor's thread but wake().
 */

#include <stdbool.h>
#include <stdint.h>

#include <weir/reactor.h>

#include "reactor/op-internal.h"

struct source;
struct iovec;

#define REPEATS_MAX 256		/* Cancels that are repeated in a turn. */

/* I/O operations: op->kind.  op->u.io holds the parameters; see io.c. */
enum io_kind {
	IO_NOP,
	IO_READ, IO_WRITE, IO_READV, IO_WRITEV,
	IO_FSYNC, IO_FALLOCATE, IO_OPEN, IO_CLOSE, IO_STATX, IO_RENAME,
	IO_UNLINK,
	IO_ACCEPT, IO_CONNECT, IO_RECV, IO_SEND, IO_SENDV, IO_SENDMSG,
	IO_RECVMSG, IO_SHUTDOWN, IO_POLL, IO_SPLICE,
	IO_COPY_RANGE, IO_WORK,		/* Always a worker's. */
	IO_KINDS,
};

struct backend {
	const char *name;
	bool simulated;	/* Nothing real: no thread, clock, descriptor. */

	/*
	 * Set up r->backend_data, and r->describe for people.
	 * Returns 0 or a negative errno with a message left: ENOSYS, EPERM,
	 * EACCES, EINVAL and EOPNOTSUPP mean "not on this system", and another
	 * backend may be tried.
	 */
	int (*create)(struct weir_reactor *r,
		      const struct weir_reactor_opts *opts);

	/* Nothing is in flight.  Give everything back. */
	void (*destroy)(struct weir_reactor *r);

	/* Nanoseconds; never goes back. */
	uint64_t (*now)(struct weir_reactor *r);

	/*
	 * Start the I/O that @op describes; it is PENDING.  What cannot be
	 * taken now is kept and taken later: this cannot fail.  What each step
	 * does is asked with io_step_next(), its end told with io_step_done(),
	 * or io_end() for a kind that has no steps; see io.h.  What it cannot
	 * do itself it may hand on with worker_submit().  A simulated one gets
	 * what is always a worker's, too.
	 */
	void (*submit)(struct weir_reactor *r, struct weir_op *op);

	/*
	 * See to it that @op, which submit() took and did not hand to the
	 * workers, ends early.  False: it may go on all the same, so this wants
	 * to be called again, until it has ended.
	 */
	bool (*cancel)(struct weir_reactor *r, struct weir_op *op);

	/*
	 * Whether something of the backend's own waits: a request of a source
	 * that was asked to end, or one that the kernel does not take now.
	 * With @ask, ask again, REPEATS_MAX of them.  Called from
	 * repeats_plan() on until it says no.  NULL: there is no such thing.
	 */
	bool (*repeat)(struct weir_reactor *r, bool ask);

	/*
	 * Take in what is complete, at most @max of it, without sleeping.
	 * Called at the start of a turn, after flush() or wait().
	 * Returns how much was taken in, or a negative errno.
	 */
	int (*reap)(struct weir_reactor *r, unsigned int max);

	/*
	 * The end of a turn's work: push out what was submitted.  May take in
	 * what was complete at once.  Returns 0 or more, or a negative errno.
	 */
	int (*flush)(struct weir_reactor *r);

	/* Cheaply, for spinning: would reap() find something? */
	bool (*ready)(struct weir_reactor *r);

	/*
	 * Sleep until there is something to reap, wake() is called or
	 * @timeout_ns have passed.  What was submitted has been pushed out.
	 * Returns 0 or a negative errno.
	 */
	int (*wait)(struct weir_reactor *r, uint64_t timeout_ns);

	/* End a wait(), or let the next one not begin.  Any thread, any time,
	 * signal handlers included. */
	void (*wake)(struct weir_reactor *r);

	/* A descriptor that is readable when reap() would find something that
	 * was pushed out before. */
	int (*pollfd)(struct weir_reactor *r);

	/* Sources, see source.h.  arm() asks for deliveries until disarm(). */
	int (*arm)(struct weir_reactor *r, struct source *s);
	void (*disarm)(struct weir_reactor *r, struct source *s);

	/* Buffers of the receive free list that came back; see rx.h. */
	void (*rx_returned)(struct weir_reactor *r, unsigned int id);

	/* Registered files: 1 if it is registered, 0 if not. */
	int (*fd_register)(struct weir_reactor *r, int fd);
	void (*fd_unregister)(struct weir_reactor *r, int fd);

	/*
	 * Registered buffers.  Make @iov known as one; returns its index >= 0,
	 * or a negative errno (EOPNOTSUPP: there is no such thing here).
	 */
	int (*buf_register)(struct weir_reactor *r, const struct iovec *iov);
	void (*buf_unregister)(struct weir_reactor *r, int index);
};

extern const struct backend backend_uring;
extern const struct backend backend_ev;	/* Only with HAVE_LIBEV. */
extern const struct backend backend_sim;

#endif /* WEIR_REACTOR_BACKEND_H */
