/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The ring in a turn: one system call pushes out what was submitted and, with
 * deferred task work, takes in what is complete.  While there is nothing of
 * either there is none.
 *
 * Sleeping is done in one of two ways:
 *
 *   inside   in io_uring_enter(); the ring polls the eventfd of wake()
 *   outside  in poll(2) on that eventfd, by us or by a foreign loop; the ring
 *            writes to it.  The ring's own descriptor would not do: with
 *            deferred task work, nobody who waits for it is woken.
 *
 * A ring begins inside and goes outside for good, when pollfd() is called, or
 * under valgrind, which serialises threads and so must not block in the ring.
 */

#include <poll.h>
#include <time.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/own.h"
#include "reactor/uring/uring.h"

#define BUSY_WAIT_MS 1		/* The kernel is short of memory: a breath. */
#define BUSY_WAIT_NS (BUSY_WAIT_MS * WEIR_MSEC)

static inline unsigned int sq_flags(const struct uring *u)
{
	return __atomic_load_n(u->ring.sq.kflags, __ATOMIC_RELAXED);
}

/* Whether there is something that only a system call brings. */
static inline bool kernel_has_more(const struct uring *u)
{
	return sq_flags(u) & (IORING_SQ_CQ_OVERFLOW | IORING_SQ_TASKRUN);
}

static inline bool unsubmitted(const struct uring *u)
{
	return u->ring.sq.sqe_tail !=
	       __atomic_load_n(u->ring.sq.khead, __ATOMIC_RELAXED);
}

/* What passes by itself: the next turn tries again. */
static inline bool is_transient(int err)
{
	return err == -EINTR || err == -EAGAIN || err == -EBUSY ||
	       err == -ETIME;
}

/* Submit, and have deferred work done.  0 or a lasting error. */
static int enter(struct uring *u)
{
	int err;

	if (unlikely(fault("io_uring_enter")))
		return 0;
	u->r->stats.syscalls++;
	err = io_uring_submit_and_get_events(&u->ring);
	return err < 0 && !is_transient(err) ? err : 0;
}

struct io_uring_sqe *uring_sqe_slow(struct uring *u)
{
	if (fault("io_uring_enter"))
		return NULL;
	u->r->stats.syscalls++;
	io_uring_submit(&u->ring);
	return io_uring_get_sqe(&u->ring);
}

bool uring_cancel_request(struct uring *u, uint64_t user_data)
{
	struct io_uring_sqe *sqe = uring_sqe(u);

	if (unlikely(!sqe))
		return false;
	memset(sqe, 0, sizeof(*sqe));
	sqe->opcode = IORING_OP_ASYNC_CANCEL;
	sqe->fd = -1;
	sqe->addr = user_data;
	sqe->user_data = TAG_IGNORE;
	if (u->has_cqe_skip)
		sqe->flags = IOSQE_CQE_SKIP_SUCCESS;
	return true;
}

/*
 * Each write to the eventfd wakes the poll, whatever the count is, so a poll
 * that goes on needs no read.  Only a new one would find the old count.
 */
static void drain_eventfd(struct uring *u)
{
	uint64_t count;

	while (read(u->event_fd, &count, sizeof(count)) < 0 && errno == EINTR)
		;
}

void uring_poll_wake(struct uring *u)
{
	struct io_uring_sqe *sqe;

	sqe = uring_sqe(u);
	if (!sqe)
		return;
	memset(sqe, 0, sizeof(*sqe));
	uring_fill_poll(sqe, u->event_fd, POLLIN);
	if (!u->no_poll_multi)
		sqe->len = IORING_POLL_ADD_MULTI;
	sqe->user_data = TAG_WAKE;
	u->wake_polled = true;
}

static void wake_cqe(struct uring *u, int32_t res, uint32_t flags)
{
	if (flags & IORING_CQE_F_MORE)
		return;
	if (res == -EINVAL)
		u->no_poll_multi = true;
	u->wake_polled = false;
	if (u->wake_wanted)
		drain_eventfd(u);
}

/* Have the poll on the eventfd, or not, as it should be. */
static void keep_wake_poll(struct uring *u)
{
	if (u->wake_wanted)
		uring_poll_wake(u);
	else if (!u->wake_ending)
		u->wake_ending = uring_cancel_request(u, TAG_WAKE);
}

void uring_other_cqe(struct uring *u, uint64_t user_data, int32_t res,
		     uint32_t flags)
{
	switch (user_data & TAG_MASK) {
	case TAG_SOURCE:
		source_catch_up(u->r);
		uring_source_cqe(u, user_data, res, flags);
		break;
	case TAG_WAKE:
		wake_cqe(u, res, flags);
		break;
	}
}

/* Whether something that serve() would see to has found no entry. */
static bool is_unserved(const struct uring *u)
{
	return uring_sources_wait(u) ||
	       (u->backlog.first && uring_in_flight(u) < u->limit) ||
	       (u->wake_wanted ? !u->wake_polled :
				 u->wake_polled && !u->wake_ending);
}

__attribute__((noinline)) static bool serve_apart(struct uring *u)
{
	if (u->backlog.first)
		uring_serve_ops(u);
	if (u->retry.first || u->starving.first)
		uring_serve_sources(u);
	if (u->wake_polled != u->wake_wanted)
		keep_wake_poll(u);
	return is_unserved(u);
}

/* What waited for capacity or for an entry goes on.  Returns whether some of
 * it has found no entry. */
static inline bool serve(struct uring *u)
{
	return unlikely(u->backlog.first || u->retry.first ||
			u->starving.first || u->wake_polled != u->wake_wanted) &&
	       serve_apart(u);
}

static bool uring_repeat(struct weir_reactor *r, bool ask)
{
	struct uring *u = uring_of(r);

	if (ask) {
		uring_repeat_sources(u);
		uring_repeat_connects(u);
		u->wake_ending = false;
	}
	return u->stale.first || u->connects.first ||
	       u->wake_polled > u->wake_wanted || unsubmitted(u) ||
	       is_unserved(u);
}

static void count_overflow(struct uring *u)
{
	bool now = sq_flags(u) & IORING_SQ_CQ_OVERFLOW;

	if (unlikely(now && !u->overflowed))
		u->r->stats.overflows++;
	u->overflowed = now;
}

/*
 * A ring with deferred task work may have told its eventfd for the last time,
 * see uring_undefer(): a bit in the kernel that says "signal in flight" is
 * never cleared.  To register it anew clears it.
 */
static void renew_eventfd(struct uring *u)
{
	if (!(u->ring.flags & IORING_SETUP_DEFER_TASKRUN))
		return;
	io_uring_unregister_eventfd(&u->ring);
	io_uring_register_eventfd(&u->ring, u->event_fd);
	u->r->stats.syscalls += 2;
}

static int uring_flush(struct weir_reactor *r)
{
	struct uring *u = uring_of(r);
	int err = 0;

	/* A turn will come for what is left, if nothing else brings one. */
	if (unlikely(serve(u)))
		repeats_plan(r);
	if (unsubmitted(u)) {
		err = enter(u);
		if (unlikely(unsubmitted(u)))
			repeats_plan(r);
	}
	if (unlikely(u->outside))
		renew_eventfd(u);
	return err;
}

int uring_reap(struct weir_reactor *r, unsigned int max)
{
	struct uring *u = uring_of(r);
	uint64_t ended = u->ended;
	unsigned int n;
	int err = 0;

	/* First, so that what comes from now on makes it readable again. */
	if (unlikely(u->outside))
		drain_eventfd(u);
	count_overflow(u);
	if (unsubmitted(u) || kernel_has_more(u))
		err = enter(u);
	n = uring_take(u, max);
	u->cried = !n && kernel_has_more(u);
	if (unlikely(u->backlog.first || u->limit != u->window))
		uring_move_limit(u, u->ended != ended);
	serve(u);
	return unlikely(err) ? err : (int)n;
}

static bool uring_ready(struct weir_reactor *r)
{
	const struct uring *u = uring_of(r);

	return io_uring_cq_ready(&u->ring) ||
	       (kernel_has_more(u) && !u->cried) || uring_is_stuck(u);
}

static int wait_outside(struct uring *u, uint64_t timeout_ns)
{
	struct pollfd p = { .fd = u->event_fd, .events = POLLIN };
	struct timespec ts;
	int err = enter(u);

	u->r->stats.syscalls++;
	if (err || uring_ready(u->r))
		return err;
	if (unlikely(unsubmitted(u)) && timeout_ns > BUSY_WAIT_NS)
		timeout_ns = BUSY_WAIT_NS;
	ts.tv_sec = (time_t)(timeout_ns / WEIR_SEC);
	ts.tv_nsec = (long)(timeout_ns % WEIR_SEC);
	if (ppoll(&p, 1, timeout_ns == WEIR_FOREVER ? NULL : &ts, NULL) < 0)
		err = -errno;
	return is_transient(err) ? 0 : err;
}

static int wait_inside(struct uring *u, uint64_t timeout_ns)
{
	struct __kernel_timespec ts = {
		.tv_sec = (long long)(timeout_ns / WEIR_SEC),
		.tv_nsec = (long long)(timeout_ns % WEIR_SEC),
	};
	struct io_uring_cqe *cqe;

	u->r->stats.syscalls++;
	if (timeout_ns == WEIR_FOREVER)
		return io_uring_submit_and_wait(&u->ring, 1);
	return io_uring_submit_and_wait_timeout(&u->ring, &cqe, 1, &ts, NULL);
}

int uring_wait(struct weir_reactor *r, uint64_t timeout_ns)
{
	struct uring *u = uring_of(r);
	bool some = serve(u);
	int err;

	/* That may have taken the last capacity: the next turn moves the
	 * limit. */
	if (uring_is_stuck(u))
		return 0;
	/* Nothing else would end this sleep for it. */
	if (unlikely(some) && timeout_ns > BUSY_WAIT_NS)
		timeout_ns = BUSY_WAIT_NS;
	if (unlikely(u->outside))
		return wait_outside(u, timeout_ns);
	if (unlikely(fault("io_uring_enter")))
		return 0;
	err = wait_inside(u, timeout_ns);
	if (err >= 0)
		return 0;
	/* Not a reason to sleep for as long as nothing could be submitted. */
	if (err == -EAGAIN || err == -EBUSY)
		poll(NULL, 0, BUSY_WAIT_MS);
	return is_transient(err) ? 0 : err;
}

/* The count cannot run over, and errno may be that of whom a signal hit. */
static void uring_wake(struct weir_reactor *r)
{
	static const uint64_t one = 1;
	int saved = errno;

	while (write(uring_of(r)->event_fd, &one, sizeof(one)) < 0 &&
	       errno == EINTR)
		;
	errno = saved;
}

int uring_pollfd(struct weir_reactor *r)
{
	struct uring *u = uring_of(r);
	int err;

	if (u->outside)
		return u->event_fd;
	err = uring_undefer(r);
	if (err)
		return err;
	u = uring_of(r);
	if (fault("io_uring_register"))
		return -ENOMEM;
	err = io_uring_register_eventfd(&u->ring, u->event_fd);
	if (err)
		return err;
	u->outside = true;
	u->wake_wanted = false;
	repeats_plan(r);
	/* What is there already has not been told. */
	uring_wake(r);
	return u->event_fd;
}

static uint64_t uring_now(struct weir_reactor *r)
{
	struct timespec ts;

	(void)r;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * WEIR_SEC + (uint64_t)ts.tv_nsec;
}

const struct backend backend_uring = {
	.name = "uring",
	.io_kinds = IO_OF_KERNEL,
	.create = uring_create,
	.destroy = uring_destroy,
	.now = uring_now,
	.submit = uring_submit,
	.cancel = uring_cancel,
	.repeat = uring_repeat,
	.flush = uring_flush,
	.reap = uring_reap,
	.ready = uring_ready,
	.wait = uring_wait,
	.wake = uring_wake,
	.pollfd = uring_pollfd,
	.arm = uring_arm,
	.disarm = uring_disarm,
	.rx_returned = uring_rx_returned,
	.fd_register = uring_fd_register,
	.fd_unregister = uring_fd_unregister,
	.buf_register = uring_buf_register,
	.buf_unregister = uring_buf_unregister,
};
