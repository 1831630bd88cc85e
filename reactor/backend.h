/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_REACTOR_BACKEND_H
#define WEIR_REACTOR_BACKEND_H

/*
 * The backend of a reactor: the table that uring, ev and sim fill in.
 *
 * The rest of the library uses backends only through it.  All nondeterminism is
 * behind it: the clock, the wait, the results and the order of completions, and
 * the work of worker threads.  A backend keeps its own state in
 * r->backend_data.
 *
 * All functions but wake() are called on the reactor's thread.
 */

#include <stdbool.h>
#include <stdint.h>

#include <weir/reactor.h>

#include "base/provider.h"
#include "reactor/io-kinds.h"
#include "reactor/op-internal.h"

struct msghdr;
struct sockaddr_storage;
struct rx_free_list;
struct source;
struct iovec;

#define REPEATS_MAX 256		/* Cancels that are repeated in a turn. */

/* I/O operations: op->kind.  op->u.io holds the parameters; see io.c. */
#define IO_KIND(name, ...) IO_##name,
enum io_kind {
	IO_ROWS(IO_KIND)
	IO_WORKER_ROWS(IO_KIND)
	IO_ENTRY,	/* The caller's own for io_uring; uring/entry.c. */
	IO_KINDS,
};
#undef IO_KIND

#define IO_ALL UINT64_MAX
#define IO_BIT(kind) (UINT64_C(1) << (kind))
/* The kinds that io_uring and readiness can do; a worker does the others. */
#define IO_OF_KERNEL (IO_BIT(IO_COPY_RANGE) - 1)

/* Observes events outside of a simulated world: the world calls its function
 * some time after every other event.  Embedded in the object that waits. */
struct observer {
	void (*fn)(struct observer *observer);
	const struct weir_reactor *reactor; /* Set by .observe(). */
	struct observer *next;
	struct observer **pprev; /* NULL: not in a list. */
};

static inline void observer_del(struct observer *observer)
{
	if (!observer->pprev)
		return;
	*observer->pprev = observer->next;
	if (observer->next)
		observer->next->pprev = observer->pprev;
	observer->pprev = NULL;
}

struct backend {
	const char *name;

	/* IO_BIT()s: the operations that submit() takes; workers do the others,
	 * if a system call can. */
	uint64_t io_kinds;

	/*
	 * Reactors of this backend share nothing with the kernel, other
	 * processes or other threads: no descriptor of the system can be
	 * watched, no thread started, and a call that blocks stops all of them.
	 */
	bool isolated;

	/*
	 * Set up r->backend_data, and r->describe for people.
	 * Returns 0 or a negative errno with a message left: ENOSYS, EPERM,
	 * EACCES, EINVAL and EOPNOTSUPP mean "not on this system", and another
	 * backend may be tried.
	 */
	int (*create)(struct weir_reactor *r,
		      const struct weir_reactor_opts *opts);

	/* Nothing is in flight.  Free everything. */
	void (*destroy)(struct weir_reactor *r);

	/* Nanoseconds; never goes back. */
	uint64_t (*now)(struct weir_reactor *r);

	/*
	 * Start the I/O that @op describes; it is PENDING.  If the backend
	 * cannot take it now it keeps it and takes it later: this cannot fail.
	 * For each step the backend calls io_step_next(), and at its end
	 * io_step_done(), or io_end() for a kind that has no steps; see io.h.
	 * If it cannot do @op itself it may call worker_submit().
	 */
	void (*submit)(struct weir_reactor *r, struct weir_op *op);

	/*
	 * End @op early, which submit() took and did not pass to the workers.
	 * False: it may continue in spite of that, so the caller calls this
	 * again until it has ended.
	 */
	bool (*cancel)(struct weir_reactor *r, struct weir_op *op);

	/*
	 * Whether something of the backend's own waits: a request of a source
	 * that was cancelled and has not ended, or one that the kernel does not
	 * take now.  With @ask, repeat up to REPEATS_MAX of these requests.
	 * Called from repeats_plan() on until it returns false.  NULL: the
	 * backend needs no repeats.
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
	 * @timeout_ns have passed.  All submissions were flushed before.
	 * Returns 0 or a negative errno.
	 */
	int (*wait)(struct weir_reactor *r, uint64_t timeout_ns);

	/* End a wait(), or let the next one not begin.  Any thread, any time,
	 * signal handlers included. */
	void (*wake)(struct weir_reactor *r);

	/* A descriptor that is readable when reap() would find something that
	 * was pushed out before. */
	int (*pollfd)(struct weir_reactor *r);

	/* Sources, see source.h.  After arm() the backend delivers until
	 * disarm(). */
	int (*arm)(struct weir_reactor *r, struct source *s);
	void (*disarm)(struct weir_reactor *r, struct source *s);

	/* Buffer @id was returned to its receive free list; see rx.h. */
	void (*rx_returned)(struct weir_reactor *r, struct rx_free_list *rx,
			    unsigned int id);

	/* No request uses @rx any more, which will be freed.  NULL: the backend
	 * has nothing of it. */
	void (*rx_end)(struct weir_reactor *r, struct rx_free_list *rx);

	/* Registered files: 1 if it is registered, 0 if not. */
	int (*fd_register)(struct weir_reactor *r, int fd);
	void (*fd_unregister)(struct weir_reactor *r, int fd);

	/*
	 * Registered buffers.  Make @iov known as one; returns its index >= 0,
	 * or a negative errno (EOPNOTSUPP: there is no such thing here).
	 */
	int (*buf_register)(struct weir_reactor *r, const struct iovec *iov);
	void (*buf_unregister)(struct weir_reactor *r, int index);

	/* The rest is set by isolated backends alone. */

	/* Whether @fd suits a source of @kind (enum source_kind); @call is for
	 * the message. */
	int (*check_fd)(struct weir_reactor *r, uint32_t kind, int fd,
			const char *call);

	/* Whether the caller may act for @r: its thread, and no other reactor
	 * of that thread is in its turn. */
	bool (*is_here)(const struct weir_reactor *r);

	/* Make sure that there is a worker.  Returns 0 or a negative errno. */
	int (*worker_ensure)(struct weir_reactor *r);

	/* A counter, as eventfd(2): its descriptor, or a negative errno. */
	int (*counter_open)(struct weir_reactor *r);

	/* Call @observer until observer_del(). */
	void (*observe)(struct weir_reactor *r, struct observer *observer);
};

extern const struct backend backend_uring;
extern const struct backend backend_uring_wide; /* The same; see uring.h. */
extern const struct backend backend_ev;	/* Only with HAVE_LIBEV. */

/* weir_reactor_opts.sim points to a struct that begins with this. */
struct backend_world {
	const struct backend *backend;
};

/*
 * Descriptors that a backend has beside the kernel's: numbers from VFD_BASE on,
 * which the kernel never gives.  Set before there is one, and never changed.
 */
#define VFD_BASE (1 << 30)

struct vfd_info {
	int flags;		/* O_ACCMODE, O_DIRECT, O_APPEND, ... */
	bool is_dir;
	bool has_offsets;
	uint64_t file[2];	/* The file's identity. */
	uint32_t align, mem_align;
};

struct vfd_counter_ops {
	void (*add)(int fd, uint64_t n);
	uint64_t (*take)(int fd);	/* Its value, which is 0 then. */
};

struct vfd_signal_ops {
	/* The descriptor to watch for a signal, or a negative errno. */
	int (*open)(struct weir_reactor *r, int signo);
	/* Whether it was sent since the last call. */
	bool (*take)(int fd);
};

struct vfd_ops {
	bool (*is_open)(int fd);
	void (*close)(int fd);
	int (*info)(int fd, struct vfd_info *ret);	/* Or -EBADF. */
	int (*reopen)(int fd, int flags);		/* Its file again. */
	/* getpeername(2) and getsockname(2): 0, or a negative errno. */
	int (*peer)(int fd, struct sockaddr_storage *ret, uint32_t *len);
	int (*name)(int fd, struct sockaddr_storage *ret, uint32_t *len);
	/* An option of a datagram socket, which is set to what is not 0: 0, or
	 * -EOPNOTSUPP. */
	int (*option)(int fd, int level, int name);
	/* sendmsg(2) for it, that does not wait. */
	int64_t (*sendmsg)(int fd, const struct msghdr *msg);
	/* The world of the host whose program runs on this thread, or NULL. */
	struct weir_sim *(*world_here)(void);
	const struct vfd_signal_ops *signals;
	const struct vfd_counter_ops *counters;
};

extern const struct vfd_ops *vfd_ops PROVIDER_API(vfd_ops);

static inline bool fd_is_virtual(int fd)
{
	return fd >= VFD_BASE && vfd_ops;
}

/* A program that is tested in a world need not know of it. */
static inline struct weir_sim *world_here(void)
{
	return vfd_ops ? vfd_ops->world_here() : NULL;
}

/* An isolated backend runs on this thread: blocking it would be for ever. */
extern _Thread_local unsigned int backend_isolates PROVIDER_API(backend_isolates);

#endif /* WEIR_REACTOR_BACKEND_H */
