/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_REACTOR_H
#define WEIR_REACTOR_H

/*
 * A reactor: the event loop of one thread.
 *
 * A reactor belongs to the thread that created it.  Make all calls on that
 * thread, except those marked "any thread".  One turn is
 *
 *	posts from other threads -> completions -> due timers -> pollers
 *	-> submit, and wait if nothing is due
 *
 * and does a bounded amount of each, so that no source starves another.
 *
 *	weir_reactor_create(&r, NULL);
 *	weir_read(r, &rq->op, fd, rq->block, sizeof(rq->block), 0);
 *	weir_reactor_run(r);		// until a callback calls weir_reactor_stop()
 *	weir_reactor_destroy(r);
 *
 * Waiting is adaptive.  If spinning has found work recently, the loop spins for
 * some microseconds, because a sleep and a wake-up cost far more; otherwise it
 * sleeps in the kernel at once.  weir_reactor_stats() reports the time spent
 * working, spinning and sleeping.
 *
 * A child of fork() must neither use nor destroy its parent's reactors, whose
 * rings or epoll sets are the parent's: it creates its own, or calls exec.
 * Nothing of the parent's changes meanwhile.
 *
 * States:
 *
 *	            stop()                drained
 *	RUNNING -------------> STOPPING ----------> STOPPED
 *	   ^                                           |
 *	   +------------------ start() ----------------+
 *
 * Re-creates doca_pe, the SPDK reactor and libev's loop.
 */

#include <weir/base.h>
#include <weir/op.h>

#ifdef __cplusplus
extern "C" {
#endif

struct weir_reactor;
struct weir_sim;

/* Backends of a reactor; weir_reactor_opts.backend. */
#define WEIR_BACKEND_AUTO 0	/* io_uring, else libev */
#define WEIR_BACKEND_URING 1	/* io_uring or failure */
#define WEIR_BACKEND_EV 2	/* libev and worker threads; no probing */
#define WEIR_BACKEND_SIM 3	/* The world in .sim; see <weir/sim/world.h>. */

/* States of a reactor; weir_reactor_state(). */
#define WEIR_REACTOR_RUNNING 1
#define WEIR_REACTOR_STOPPING 2
#define WEIR_REACTOR_STOPPED 3

/* Never spin; weir_reactor_opts.spin_ns. */
#define WEIR_SPIN_NONE UINT32_MAX

/*
 * Options of weir_reactor_create().  Set .size to the size of the struct; 0 is
 * the default of every other member.  Later versions add members at the end
 * only.  A library that is older than its caller returns -E2BIG if the caller
 * has set a member that the library does not have.
 */
struct weir_reactor_opts {
	size_t size;
	uint32_t backend;	/* WEIR_BACKEND_; 0: WEIR_BACKEND, or auto. */
	uint32_t spin_ns;	/* Longest spin before a sleep; 0: 50 us. */
	uint32_t ops_max;	/* Operations in flight; 0: 65,536. */
	uint32_t turn_max;	/* Callbacks of a kind in a turn; 0: 256.  The
				 * buffers of a receive that came together
				 * count as one. */
	uint32_t mailbox;	/* Posts that fit, a power of 2; 0: 1024. */
	/*
	 * Threads for blocking calls; 0: 4.  On uring the kernel has up to as
	 * many threads for files, and as many for other operations that block.
	 * Reactors of one thread share these; the one that was created last
	 * sets their number.
	 */
	uint32_t workers;
	uint32_t ring_entries;	/* Submission queue; 0: 256.  uring only. */
	uint32_t rx_bufs;	/* Receive buffers for receivers; 0: 256. */
	uint32_t rx_buf_size;	/* Bytes in each; 0: 4096. */
	uint32_t drain_ms;	/* Timeout of destroy; 0: 5000. */
	struct weir_sim *sim;	/* Simulated, in this world; NULL: not, but in
				 * the program of a host (<weir/sim/host.h>)
				 * in that host's. */
	uint64_t hosted;	/* 1: allow weir_reactor_fd() at any time. */
	/*
	 * 1: a ring with SQEs of 128 bytes, or with CQEs of 32, for
	 * weir_uring_submit().  uring only; where the kernel has none (before
	 * Linux 5.19) it is taken to have no io_uring.
	 */
	uint32_t sqe128;
	uint32_t cqe32;
	/*
	 * Before each sleep, busy-poll for up to this many microseconds (at
	 * most 1 s) the queues of network cards that sockets of this reactor
	 * receive from; 0: do not.  It saves the time of an interrupt, and
	 * takes CPU.  It needs uring and Linux 6.9, and has no effect while
	 * another loop waits (weir_reactor_fd()).  WEIR_URING_NAPI of
	 * weir_uring_get_info() says whether the kernel has it.
	 */
	uint32_t napi_us;
	/*
	 * 1: the cards also hold back interrupts while they are polled, as with
	 * SO_PREFER_BUSY_POLL; it takes napi_defer_hard_irqs and
	 * gro_flush_timeout of the interface.  With .napi_us only.
	 */
	uint32_t napi_prefer;
};

/*
 * How a reactor has spent its time, and its counters.  The times add up to the
 * time since its creation; time that a host spends outside its turns counts as
 * sleep.
 */
struct weir_reactor_stats {
	size_t size;		/* Set by the caller: the size of the struct. */
	uint64_t busy_ns;	/* In callbacks and in the loop itself. */
	uint64_t spin_ns;	/* Looking for work, in user space. */
	uint64_t sleep_ns;	/* In the kernel, waiting. */
	uint64_t turns;
	uint64_t sleeps;	/* Times it went to sleep. */
	uint64_t wakes;		/* Wake-ups by other threads. */
	uint64_t started;	/* Operations. */
	uint64_t completed;
	uint64_t refused;	/* Starts that returned -EAGAIN. */
	uint64_t timers;	/* Expiries. */
	uint64_t posts;		/* Run from the mailbox; calls too. */
	uint64_t syscalls;	/* Of the loop itself: submit and wait. */
	uint64_t overflows;	/* Times the completion queue overflowed. */
	uint64_t in_flight;	/* Operations in flight now; the library has
				 * some of its own. */
};

/*
 * Create a reactor for the calling thread, in state RUNNING.
 *
 * The library chooses the backend in this order: the one of @opts; the one of
 * the environment variable WEIR_BACKEND ("uring", "ev" or "auto"); io_uring; or
 * libev, if the kernel or a seccomp filter refuses one of io_uring's calls
 * (ENOSYS, EPERM, EACCES, EINVAL, EOPNOTSUPP), if the kernel lacks a feature
 * that weir needs, or if it has no memory left for this user's rings (ENOMEM).
 * A backend that is named is used without probing for another: under a seccomp
 * filter that kills, name "ev".  With .sim the reactor is simulated, whatever
 * the environment says.
 *
 * The reactor allocates here what operations need, with two exceptions:
 *
 *   - A worker thread is created when an operation first needs one, and
 *     further ones, up to .workers, when operations wait for one.  If none can
 *     be created, the operation ends with -ENOMEM or -EAGAIN.
 *   - On libev, descriptors from 4096 on (or from the limit RLIMIT_NOFILE on,
 *     if that is lower now) need memory.  A reactor allocates it when it
 *     accepts such a descriptor, when a watch is created, or in
 *     weir_fd_register().  An operation that has to wait on another such
 *     descriptor allocates it then, and ends with -ENOMEM if there is none.
 *
 * libev has one allocator and one error callback for the process, which end the
 * process when memory is short or epoll fails.  The first reactor on libev sets
 * both, so that libev never ends the process because of a reactor.  For other
 * loops of the program they behave like libev's own.  A program that sets its
 * own must do so before or after this call, not meanwhile; they then apply to
 * reactors too.  Its allocator must use malloc().
 *
 * Returns 0 with *@ret set, to be freed by weir_reactor_destroy(), or
 *   -EINVAL      an option is out of its range, or WEIR_BACKEND is invalid
 *   -E2BIG       @opts sets a member that this version does not have
 *   -EOPNOTSUPP  the backend is not available; weir_why() says why
 *   -EMFILE      no descriptor left; weir_why() says more
 *   -EPERM, -EACCES, -ENOSYS  a seccomp filter refuses an eventfd or an epoll
 *                set
 *   -ENOMEM      no memory for the library or for the kernel's rings
 *
 * Any thread; that thread then owns the reactor.
 *
 * Re-creates uv_loop_init(), io_uring_queue_init(), doca_pe_create() and
 * spdk_thread_create().
 */
WEIR_API int weir_reactor_create(struct weir_reactor **ret,
				 const struct weir_reactor_opts *opts);

/*
 * Stop @r if it is not stopped, drain it, and free it.  NULL is allowed.
 *
 * Draining cancels every operation in flight and waits for its callback, so
 * that neither the kernel nor a worker accesses the application's memory
 * afterwards.  That can take as long as a disk takes, but at most .drain_ms.
 *
 * Returns 0, or, with @r as it was (stopping, if operations remain):
 *   -EBUSY  operations could not be drained in time, or timers, watches,
 *           pools or other objects of @r still exist; weir_why() names them;
 *           or the call comes from one of @r's own callbacks
 *   -ENOMEM, -EIO  the kernel refused to wait; weir_why() says more
 *
 * Call on @r's thread, outside its callbacks.
 *
 * Re-creates uv_loop_close(), io_uring_queue_exit() and doca_pe_destroy(), which
 * do not wait for what is in flight.
 */
WEIR_API int weir_reactor_destroy(struct weir_reactor *r);

/*
 * Run the loop until @r is stopped, or weir_reactor_break() is called.
 *
 * Returns 0 when stopped, 1 after a break, or
 *   -EBUSY  called from a callback of @r
 *   -EDEADLK  @r is simulated, and nothing will ever happen in its world
 *   -ENOMEM, -EIO  the kernel refused to wait, or with another errno of the
 *           kernel (-EPERM: a seccomp filter); weir_why() says more
 *
 * Call on @r's thread.
 *
 * Re-creates uv_run() and ev_run().
 */
WEIR_API int weir_reactor_run(struct weir_reactor *r);

/*
 * Make one turn, and wait in it for at most @timeout_ns if nothing is due.
 *
 * With a timeout of 0 the call never waits; with WEIR_FOREVER it waits without
 * a limit.  A turn waits at most once, and then runs what has become due.
 *
 * Returns the number of callbacks that ran, or
 *   -EBUSY  called from a callback of @r
 *   -EDEADLK  @r is simulated, @timeout_ns is WEIR_FOREVER, and nothing will
 *           ever happen in its world
 *   -ENOMEM, -EIO  the kernel refused to wait; weir_why() says more
 *
 * Call on @r's thread.
 *
 * Re-creates doca_pe_progress(), spdk_thread_poll(), and uv_run() with
 * UV_RUN_NOWAIT.
 */
WEIR_API int weir_reactor_turn(struct weir_reactor *r, uint64_t timeout_ns);

/*
 * Request the stop of @r: it refuses new work, cancels operations in flight and
 * drains them.
 *
 * Starts return -ESHUTDOWN from the moment that @r's thread sees the request.
 * Timers, watches and other sources stop calling back, but still exist.
 * weir_reactor_run() returns when every operation has had its callback.
 * The call has no effect if @r is stopping or stopped.
 *
 * Any thread, callbacks and signal handlers included.  Never blocks.  Do not
 * destroy @r before the call has returned: the call may wake @r's thread, whose
 * weir_reactor_run() may return before this call does.
 */
WEIR_API void weir_reactor_stop(struct weir_reactor *r);

/*
 * Start a stopped reactor again.
 *
 * If a watch cannot be set again, as without a free descriptor, its callback is
 * called with WEIR_ERROR before this call returns.
 *
 * Returns 0, also if @r is running, or
 *   -EBUSY  @r is stopping
 *
 * Call on @r's thread.
 */
WEIR_API int weir_reactor_start(struct weir_reactor *r);

/*
 * Make weir_reactor_run() return after its turn, or after one turn if it is not
 * running now, without stopping @r.
 *
 * Any thread, callbacks and signal handlers included.  Never blocks.
 *
 * Re-creates uv_stop() and ev_break().
 */
WEIR_API void weir_reactor_break(struct weir_reactor *r);

/*
 * Get the state of @r: WEIR_REACTOR_RUNNING, _STOPPING or _STOPPED.
 *
 * Returns the state.  Call on @r's thread.  Never blocks.
 */
WEIR_API int weir_reactor_state(const struct weir_reactor *r);

/*
 * Tell whether the calling thread is @r's, which has created it; in a simulated
 * world, whether it is @r's turn.
 *
 * Returns 1 or 0.  Any thread, while @r exists.  Never blocks.
 *
 * Re-creates running_in_this_thread() of Asio, and a comparison with
 * spdk_get_thread().
 */
WEIR_API int weir_reactor_is_here(const struct weir_reactor *r);

/*
 * Get the reactor's time in nanoseconds: CLOCK_MONOTONIC, read once in a turn.
 *
 * It may be late in a long callback; it never goes back.
 *
 * Returns the time.  Call on @r's thread.  Never blocks.
 *
 * Re-creates uv_now() and ev_now().
 */
WEIR_API uint64_t weir_reactor_now(struct weir_reactor *r);

/*
 * Get a descriptor that is readable whenever a turn of @r has work to do.
 *
 * With it another loop can drive @r: poll it for reading (level-triggered) and
 * call weir_reactor_turn(@r, 0) when it is ready.  No other call is needed: the
 * descriptor is also readable after an operation or a timer was started outside
 * a turn, when a timer is due, and when another thread posts.  From the first
 * call on, @r makes a few more system calls for this.  @r owns the descriptor:
 * do not read, write or close it.  A wait of the host's loop may fail with EINTR,
 * without a signal: the kernel interrupts it to complete requests of io_uring.
 *
 * Make the first call before any operation is started on @r and before any
 * object other than a timer is created for it, or set .hosted when you create
 * @r.  A host needs another kind of io_uring ring: the usual one would signal
 * up to 15 ms late that another thread has written to an eventfd, and a ring
 * that is in use cannot be replaced.  The rule is the same on libev.
 *
 * Returns the descriptor, or
 *   -EBUSY       @r is in use, and .hosted was not set
 *   -EMFILE, -ENOMEM  no more descriptors or memory
 *   -EOPNOTSUPP  @r is simulated: only weir_sim_run() drives it
 *
 * Call on @r's thread.
 *
 * Re-creates uv_backend_fd(), and doca_pe_get_notification_handle() without its
 * arming.
 */
WEIR_API int weir_reactor_fd(struct weir_reactor *r);

/*
 * Get the name of @r's backend: "uring", "ev" or "sim".  The string is static.
 *
 * Returns the name.  Call on @r's thread.  Never blocks.
 */
WEIR_API const char *weir_reactor_backend(const struct weir_reactor *r);

/*
 * Describe in one line why @r has its backend, and which features it uses.
 *
 * The string is valid as long as @r.
 *
 * Returns the line.  Call on @r's thread.  Never blocks.
 */
WEIR_API const char *weir_reactor_describe(const struct weir_reactor *r);

/*
 * Get the counters of @r, and how it has spent its time.
 *
 * The caller sets .size of *@ret.
 *
 * Returns 0, or
 *   -EINVAL  .size is smaller than the member itself
 *
 * Call on @r's thread.  Never blocks.
 */
WEIR_API int weir_reactor_stats(struct weir_reactor *r,
				struct weir_reactor_stats *ret);

/*
 * Complete @op with 0 from the loop, to run its callback later.
 *
 * If the caller is a callback of a post or a source, this may be later in the
 * same turn; otherwise it is the next turn.  An operation that is deferred by
 * such a callback waits for all other due callbacks, so that a sequence of them
 * cannot starve the loop.
 *
 * Returns 0, or
 *   -EINVAL     @op is in flight, or has no callback
 *   -EAGAIN     .ops_max operations are in flight
 *   -ESHUTDOWN  @r is stopping
 *
 * Call on @r's thread.  Never blocks, never allocates, no system call.
 */
WEIR_API int weir_defer(struct weir_reactor *r, struct weir_op *op);

/*
 * Complete @op with 0 at @when_ns, a time on weir_reactor_now()'s clock.
 *
 * Never early; late by at most some microseconds of the timer's resolution and
 * the time that the kernel takes to wake a thread.
 *
 * Returns 0, or what weir_defer() returns.
 *
 * Call on @r's thread.  Never blocks, never allocates, no system call.
 *
 * Re-creates io_uring_prep_timeout().
 */
WEIR_API int weir_sleep_until(struct weir_reactor *r, struct weir_op *op,
			      uint64_t when_ns);

/*
 * Complete @op with 0 after it has passed through the backend, to measure and
 * test the cost of an operation.
 *
 * On uring this is IORING_OP_NOP.
 *
 * Returns 0, or what weir_defer() returns.
 *
 * Call on @r's thread.  Never blocks, never allocates.
 *
 * Re-creates io_uring_prep_nop().
 */
WEIR_API int weir_nop(struct weir_reactor *r, struct weir_op *op);

/*
 * Run @fn(@arg), which may block, on one of @r's worker threads.
 *
 * @op completes with the result of @fn.  The work is queued if all workers are
 * busy.  A cancel ends queued work; it does not stop @fn.
 *
 * Returns 0, or what weir_defer() returns, or
 *   -ENOMEM, -EAGAIN  not even one worker thread could be created
 *
 * Call on @r's thread; @fn runs on another.  Never blocks.
 *
 * Re-creates uv_queue_work().
 */
WEIR_API int weir_work(struct weir_reactor *r, struct weir_op *op,
		       int64_t (*fn)(void *arg), void *arg);

/*
 * Run @fn(@arg) on @r's thread, in its turn.
 *
 * Posts of one thread run in order; if the thread has several reactors, posts
 * of each reactor's turns do.  If the mailbox is full the post is refused.
 * A sleeping reactor is woken once for all posts until it wakes.
 *
 * Returns 0, or
 *   -EAGAIN     the mailbox is full
 *   -ESHUTDOWN  @r is stopped or stopping: @fn will not run
 *   -EOPNOTSUPP  @r is simulated, and this is not the thread of its world
 *
 * Any thread, also @r's own.  Never blocks, takes no lock.  The caller makes
 * sure that @r is not destroyed meanwhile.
 *
 * Re-creates spdk_thread_send_msg(), uv_async_send() and
 * io_uring_prep_msg_ring(), bounded.
 */
WEIR_API int weir_post(struct weir_reactor *r, void (*fn)(void *arg),
		       void *arg);

#ifdef __cplusplus
}
#endif

#endif /* WEIR_REACTOR_H */
