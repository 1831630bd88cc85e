/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_REACTOR_H
#define WEIR_REACTOR_H

/*
 * A reactor: the event loop of one thread.
 *
 * It belongs to the thread that created it: every call but those marked "any
 * thread" is made there.  One turn is
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
 * Waiting is adaptive.  If experience says that something will happen within
 * some microseconds, the loop spins for it, because a sleep and a wake-up cost
 * far more; otherwise it sleeps in the kernel at once.  weir_reactor_stats()
 * says how the time was spent.
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

/* What a reactor is built on; weir_reactor_opts.backend. */
#define WEIR_BACKEND_AUTO 0	/* io_uring, else libev */
#define WEIR_BACKEND_URING 1	/* io_uring or failure */
#define WEIR_BACKEND_EV 2	/* libev and worker threads; no probing */
#define WEIR_BACKEND_SIM 3	/* The world in .sim; see <weir/sim/world.h>. */

/* States of a reactor; weir_reactor_state(). */
#define WEIR_REACTOR_RUNNING 1
#define WEIR_REACTOR_STOPPING 2
#define WEIR_REACTOR_STOPPED 3

/* No spinning at all, as weir_reactor_opts.spin_ns. */
#define WEIR_SPIN_NONE UINT32_MAX

/*
 * Options of weir_reactor_create().  Set .size to the size of the struct and
 * leave what you do not care about at 0.  Members are only ever added at the
 * end: a library that is older than its caller answers -E2BIG if one that it
 * does not know is set.
 */
struct weir_reactor_opts {
	size_t size;
	uint32_t backend;	/* WEIR_BACKEND_; 0: WEIR_BACKEND, or auto. */
	uint32_t spin_ns;	/* Longest spin before a sleep; 0: 50 us. */
	uint32_t ops_max;	/* Operations in flight; 0: 65,536. */
	uint32_t turn_max;	/* Callbacks of a kind in a turn; 0: 256. */
	uint32_t mailbox;	/* Posts that fit, a power of 2; 0: 1024. */
	/*
	 * Threads for blocking calls; 0: 4.  On uring the kernel has as many of
	 * its own for work on files, and as many for all else that cannot be
	 * done without waiting; reactors of one thread share those, and the one
	 * that was created last says how many they are.
	 */
	uint32_t workers;
	uint32_t ring_entries;	/* Submission queue; 0: 256.  uring only. */
	uint32_t rx_bufs;	/* Receive buffers for receivers; 0: 256. */
	uint32_t rx_buf_size;	/* Bytes in each; 0: 4096. */
	uint32_t drain_ms;	/* Timeout of destroy; 0: 5000. */
	struct weir_sim *sim;	/* Simulated, in this world; NULL: not. */
	uint64_t hosted;	/* 1: weir_reactor_fd() may come at any time. */
};

/*
 * How a reactor has spent its time, and what it did.  The times add up to the
 * time since it was created, except what a host spent outside its turns, which
 * counts as sleep.
 */
struct weir_reactor_stats {
	size_t size;		/* Set by the caller: what it can hold. */
	uint64_t busy_ns;	/* In callbacks and in the loop itself. */
	uint64_t spin_ns;	/* Looking for work, in user space. */
	uint64_t sleep_ns;	/* In the kernel, waiting. */
	uint64_t turns;
	uint64_t sleeps;	/* Times it went to sleep. */
	uint64_t wakes;		/* Wake-ups that other threads paid for. */
	uint64_t started;	/* Operations. */
	uint64_t completed;
	uint64_t refused;	/* Starts that were answered -EAGAIN. */
	uint64_t timers;	/* Expiries. */
	uint64_t posts;		/* Taken from the mailbox; calls, too. */
	uint64_t syscalls;	/* Of the loop itself: submit and wait. */
	uint64_t overflows;	/* Times the completion queue ran over. */
	uint64_t in_flight;	/* Operations in flight now; the library has
				 * some of its own. */
};

/*
 * Create a reactor for the calling thread, in state RUNNING.
 *
 * The backend is the one of @opts, else of the environment variable
 * WEIR_BACKEND ("uring", "ev" or "auto"), else io_uring where the kernel allows
 * it, and libev where it or a seccomp filter refuses one of io_uring's calls
 * (ENOSYS, EPERM, EACCES, EINVAL, EOPNOTSUPP), where it lacks what is needed,
 * or where it has no memory left for this user's rings (ENOMEM).  A backend
 * that was asked for by name is used without probing for another: under a
 * seccomp filter that kills, name "ev".  With .sim it is simulated, whatever
 * the environment says.
 *
 * The reactor allocates here what operations need, except:
 *
 *   - A worker thread is made when an operation first needs one, and more, up
 *   to
 *     .workers, when operations wait for one.  If none can be made, the
 *     operation ends with -ENOMEM or -EAGAIN.
 *   - On libev, descriptors from 4096 on (from the limit RLIMIT_NOFILE on, if
 *   that
 *     is lower now) need memory, which a reactor takes when it accepts them,
 *     when they are watched, or with weir_fd_register().  An operation that
 *     has to wait on another one takes it then, and ends with -ENOMEM if
 *     there is none.
 *
 * libev has one allocator and one error callback for the process, which end the
 * process when memory is short or epoll fails.  The first reactor on libev sets
 * both: then libev never ends the process on account of a reactor.  For other
 * loops of the program they do what libev does by itself.  A program that sets
 * its own must do so before or after that, not meanwhile; they then hold for
 * reactors, too.  An allocator of its own must use malloc().
 *
 * Returns 0 with *@ret set, to be freed by weir_reactor_destroy(), or
 *   -EINVAL      an option is out of its range, or WEIR_BACKEND has no sense
 *   -E2BIG       @opts asks for what this version does not know
 *   -EOPNOTSUPP  the backend is not there; weir_why() says why
 *   -EMFILE      no descriptor left; so does weir_why()
 *   -EPERM, -EACCES, -ENOSYS a seccomp filter refuses an eventfd or an epoll
 *   set
 *   -ENOMEM      no memory, for us or for the kernel's rings
 *
 * Any thread; that thread then owns it.
 */
WEIR_API int weir_reactor_create(struct weir_reactor **ret,
				 const struct weir_reactor_opts *opts);

/*
 * Stop @r if it is not stopped, drain it, and free it.  NULL is allowed.
 *
 * Draining means that every operation in flight is cancelled and its callback
 * has run, so neither the kernel nor a worker touches the application's memory
 * afterwards.  That can take as long as a disk takes; it is given .drain_ms.
 *
 * Returns 0, or, with @r as it was (stopping, if operations remain):
 *   -EBUSY  operations could not be drained in time, or timers, watches,
 *           pools or other objects of @r still exist; weir_why() names them.
 *           Or the call comes from one of @r's own callbacks.
 *   -ENOMEM, -EIO  the kernel refused to wait; weir_why() says more
 *
 * Call on @r's thread, outside its callbacks.
 */
WEIR_API int weir_reactor_destroy(struct weir_reactor *r);

/*
 * Make turns until @r is stopped, or weir_reactor_break() is called.
 *
 * Returns 0 when stopped, 1 after a break, or
 *   -EBUSY  called from a callback of @r
 *   -EDEADLK  @r is simulated, and nothing will ever happen in its world
 *   -ENOMEM, -EIO  the kernel refused to wait, or, with another errno of its
 *           own, to do so at all (-EPERM: a seccomp filter); weir_why() says
 *           more
 *
 * Call on @r's thread.
 */
WEIR_API int weir_reactor_run(struct weir_reactor *r);

/*
 * Make one turn, and wait in it for at most @timeout_ns if nothing is due.
 *
 * 0 never waits; WEIR_FOREVER waits without end.  The turn ends after the
 * first wait that brings something, or brings nothing.
 *
 * Returns the number of callbacks that ran, or
 *   -EBUSY  called from a callback of @r
 *   -EDEADLK  @r is simulated, @timeout_ns is WEIR_FOREVER, and nothing will
 *           ever happen in its world
 *   -ENOMEM, -EIO  the kernel refused to wait; weir_why() says more
 *
 * Call on @r's thread.
 */
WEIR_API int weir_reactor_turn(struct weir_reactor *r, uint64_t timeout_ns);

/*
 * Ask @r to stop: no new work, cancel what is in flight, drain it, be idle.
 *
 * Starts are answered -ESHUTDOWN from the moment that @r's thread sees the
 * request.  Timers, watches and other sources fall silent, but still exist.
 * weir_reactor_run() returns when every operation has had its callback.
 * Stopping what is stopped, or stopping, has no effect.
 *
 * Any thread, callbacks and signal handlers included.  Never blocks.  @r must
 * not be destroyed before the call has returned: its thread may be woken, and
 * run() at its end, while another is still in here.
 */
WEIR_API void weir_reactor_stop(struct weir_reactor *r);

/*
 * Set a stopped reactor running again.
 *
 * Returns 0, also if it is running, or
 *   -EBUSY  it is stopping
 *
 * Call on @r's thread.
 */
WEIR_API int weir_reactor_start(struct weir_reactor *r);

/*
 * Make the weir_reactor_run() that is in flight, or else the next one, return
 * after its turn.  Nothing else is changed.
 *
 * Any thread, callbacks and signal handlers included.  Never blocks.
 */
WEIR_API void weir_reactor_break(struct weir_reactor *r);

/*
 * The state of @r: WEIR_REACTOR_RUNNING, _STOPPING or _STOPPED.
 *
 * Call on @r's thread.  Never blocks.
 */
WEIR_API int weir_reactor_state(const struct weir_reactor *r);

/*
 * The reactor's time in nanoseconds: CLOCK_MONOTONIC, read once in a turn.
 *
 * In a long callback it may be a little old; it never goes back.
 *
 * Call on @r's thread.  Never blocks.
 */
WEIR_API uint64_t weir_reactor_now(struct weir_reactor *r);

/*
 * A descriptor that is readable whenever a turn of @r has work to do.
 *
 * So any other loop can drive @r: poll it for reading (level-triggered) and
 * call weir_reactor_turn(@r, 0) when it is ready.  Nothing else is needed: it
 * becomes readable too when an operation or a timer is started outside a turn,
 * when a timer is due, and when another thread posts.  From the first call on
 * @r pays for that with a few more system calls.  The descriptor is @r's: do
 * not read, write or close it.
 *
 * Make the first call before anything is started on @r or made for it (timers
 * excepted), or set .hosted when you create @r.  io_uring needs a ring of
 * another kind for a host: the usual one would tell the host up to 15 ms late
 * of what other threads write to an eventfd, and one that is in use cannot be
 * replaced. libev needs nothing of that, and has the same rule.
 *
 * Returns the descriptor, or
 *   -EBUSY       @r is in use already, and .hosted was not set
 *   -EMFILE, -ENOMEM  no more descriptors or memory
 *   -EOPNOTSUPP  @r is simulated: only weir_sim_run() drives it
 *
 * Call on @r's thread.
 *
 * Re-creates doca_pe_get_notification_handle(), without its arming.
 */
WEIR_API int weir_reactor_fd(struct weir_reactor *r);

/*
 * The name of @r's backend: "uring", "ev" or "sim".  The string is
 * static.
 *
 * Call on @r's thread.  Never blocks.
 */
WEIR_API const char *weir_reactor_backend(const struct weir_reactor *r);

/*
 * Why @r has the backend that it has, and which of its features are in use, as
 * one line for a person to read.
 *
 * The string is @r's and lives as long.
 *
 * Call on @r's thread.  Never blocks.
 */
WEIR_API const char *weir_reactor_describe(const struct weir_reactor *r);

/*
 * Copy how @r has spent its time to *@ret, whose .size the caller has set.
 *
 * Returns 0, or
 *   -EINVAL  .size is too small to hold even itself
 *
 * Call on @r's thread.  Never blocks.
 */
WEIR_API int weir_reactor_stats(struct weir_reactor *r,
				struct weir_reactor_stats *ret);

/*
 * Complete @op with 0 in @r's turn: run something later, from the loop.  In a
 * callback of a post or a source that may be later in this turn, else the next.
 *
 * What a deferred callback defers again waits behind all else that is due, so
 * that a chain of them cannot keep the loop from the rest.
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
 * Not before; after it by at most some microseconds of the timer's grain and
 * what the kernel takes to wake a thread.
 *
 * Returns 0, or what weir_defer() returns.
 *
 * Call on @r's thread.  Never blocks, never allocates, no system call.
 */
WEIR_API int weir_sleep_until(struct weir_reactor *r, struct weir_op *op,
			      uint64_t when_ns);

/*
 * Complete @op with 0 after a trip through the backend and nothing else: on
 * uring, IORING_OP_NOP.  What an operation costs, to measure and to test.
 *
 * Returns 0, or what weir_defer() returns.
 *
 * Call on @r's thread.  Never blocks, never allocates.
 */
WEIR_API int weir_nop(struct weir_reactor *r, struct weir_op *op);

/*
 * Run @fn(@arg) on one of @r's worker threads; @op completes with what it
 * returns.
 *
 * For what has no asynchronous form.  The work waits its turn if all workers
 * are busy.  A cancel reaches work that waits, not work that runs.
 *
 * Returns 0, or what weir_defer() returns, or
 *   -ENOMEM, -EAGAIN  not even one worker thread could be made
 *
 * Call on @r's thread; @fn runs on another.  Never blocks.
 *
 * Re-creates uv_queue_work().
 */
WEIR_API int weir_work(struct weir_reactor *r, struct weir_op *op,
		       int64_t (*fn)(void *arg), void *arg);

/*
 * Have @r run @fn(@arg) in its turn.
 *
 * Posts of one thread, if it has several reactors those of one's turns, are run
 * in order.  What does not fit the mailbox is refused: the sender decides.
 * A sleeping reactor is woken, once for all posts until it wakes.
 *
 * Returns 0, or
 *   -EAGAIN     the mailbox is full
 *   -ESHUTDOWN  @r is stopped or stopping: @fn will not run
 *
 * Any thread, also @r's own.  Never blocks, takes no lock.  @r must not be
 * destroyed meanwhile: the caller sees to that.
 *
 * Re-creates spdk_thread_send_msg() and uv_async_send(), bounded.
 */
WEIR_API int weir_post(struct weir_reactor *r, void (*fn)(void *arg),
		       void *arg);

#ifdef __cplusplus
}
#endif

#endif /* WEIR_REACTOR_H */
