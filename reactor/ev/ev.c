/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The backend over libev: descriptors, create, reap, wait, wake, and its table.
 */

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "base/own.h"
#include "base/why.h"
#include "reactor/ev/ev.h"

/* The descriptors of the ev backend: which operations and sources wait on each,
 * and for what. */

struct ev_fd *ev_fd_find(const struct ev_backend *b, int fd)
{
	uint32_t chunk = (uint32_t)fd / EV_FD_CHUNK;
	struct ev_fd *f;

	if (fd < 0 || chunk >= b->n_chunks || !b->chunks[chunk])
		return NULL;
	f = &b->chunks[chunk][fd % EV_FD_CHUNK];
	return f->in.last ? f : NULL; /* NULL: has not been used. */
}

static int grow(struct ev_backend *b, uint32_t chunk)
{
	uint32_t n = b->n_chunks ? b->n_chunks : 16;
	struct ev_fd **chunks;

	debug_check(chunk >= b->n_chunks);
	while (n <= chunk)
		n *= 2;
	chunks = mem_calloc(n, sizeof(*chunks));
	if (!chunks)
		return -ENOMEM;
	if (b->n_chunks)
		memcpy(chunks, b->chunks, b->n_chunks * sizeof(*chunks));
	free(b->chunks);
	b->chunks = chunks;
	b->n_chunks = n;
	return 0;
}

/* Many records may be due, but each is in the list once. */
static void report(struct ev_backend *b, struct ev_fd *f, int got)
{
	debug_check(got);
	f->got |= got;
	if (f->due)
		return;
	f->due = true;
	f->due_next = NULL;
	*b->due_last = f;
	b->due_last = &f->due_next;
	b->n_due++;
}

static void ev_unwatch(struct ev_backend *b, ev_io *io);

static void on_ready(struct ev_loop *loop, ev_io *io, int got)
{
	report(ev_userdata(loop), (struct ev_fd *)io, got); /* First member. */
}

/*
 * Whether libev may pass fd to epoll.  libev ends the process on EBADF, and on
 * EINVAL and ELOOP, with which epoll refuses its own set and any set that
 * contains it.  Only a file without a type (an epoll set, an eventfd) can be
 * such a set.
 */
static bool fd_is_fit(const struct ev_backend *b, int fd)
{
	struct epoll_event ev = { .data.u64 = UINT64_MAX };
	struct stat st;

	if (fstat(fd, &st))
		return false;
	if (st.st_mode & S_IFMT)
		return true;
	if (!epoll_ctl(b->set, EPOLL_CTL_ADD, fd, &ev)) {
		epoll_ctl(b->set, EPOLL_CTL_DEL, fd, &ev);
		return true;
	}
	return errno != EBADF && errno != EINVAL && errno != ELOOP;
}

/*
 * Called before each poll: libev calls abort() if a descriptor that it is about
 * to register with epoll has been closed.  The operations on such a descriptor
 * end with -EBADF.
 */
static void ev_fds_check(struct ev_backend *b)
{
	struct ev_fd *f;

	while ((f = b->fresh)) {
		b->fresh = f->fresh_next;
		f->fresh = false;
		if (!ev_is_active(&f->io) || fd_is_fit(b, f->io.fd))
			continue;
		ev_unwatch(b, &f->io);
		report(b, f, EV_ERROR);
	}
}

static void fd_init(struct ev_fd *f, int fd)
{
	ev_io_init(&f->io, on_ready, fd, EV_READ);
	op_queue_init(&f->in);
	op_queue_init(&f->out);
	op_queue_init(&f->polls);
	source_queue_init(&f->sources);
}

struct ev_fd *ev_fd_make(struct ev_backend *b, int fd)
{
	uint32_t chunk = (uint32_t)fd / EV_FD_CHUNK;
	struct ev_fd *f;

	if (ev_reserve(b, (uint32_t)fd + 1))
		return NULL;
	if (chunk >= b->n_chunks && grow(b, chunk))
		return NULL;
	if (!b->chunks[chunk])
		b->chunks[chunk] = mem_calloc(EV_FD_CHUNK, sizeof(*f));
	if (!b->chunks[chunk])
		return NULL;
	f = &b->chunks[chunk][fd % EV_FD_CHUNK];
	if (!f->in.last)
		fd_init(f, fd);
	return f;
}

static void ev_fd_free_all(struct ev_backend *b)
{
	uint32_t i;

	for (i = 0; i < b->n_chunks; i++)
		free(b->chunks[i]);
	free(b->chunks);
	b->chunks = NULL;
	b->n_chunks = 0;
}

static int polls_want(const struct ev_fd *f)
{
	const struct weir_op *op;
	int want = 0;

	for (op = f->polls.first; op; op = op->next) {
		if (op->u.io.flags & WEIR_READABLE)
			want |= EV_READ;
		if (op->u.io.flags & WEIR_WRITABLE)
			want |= EV_WRITE;
	}
	/* Neither: the peer's end, which libev reports as both. */
	if (f->polls.first && !want)
		want = EV_READ;
	return want;
}

void ev_fd_update(struct ev_backend *b, struct ev_fd *f)
{
	int want = polls_want(f) | ev_sources_want(f);
	int have = ev_is_active(&f->io) ? f->io.events : 0;

	debug_check(f->io.fd >= 0);
	if (!op_queue_empty(&f->in))
		want |= EV_READ;
	if (!op_queue_empty(&f->out))
		want |= EV_WRITE;
	if (want == have)
		return;
	if (have) {
		ev_unwatch(b, &f->io);
		b->n_watched--;
	}
	if (want) {
		ev_watch(b, &f->io, f->io.fd, want);
		b->n_watched++;
		if (!f->fresh) {
			f->fresh = true;
			f->fresh_next = b->fresh;
			b->fresh = f;
		}
	}
}

static unsigned int run_queue(struct weir_reactor *r, struct op_queue *q,
			      unsigned int max)
{
	unsigned int n = 0, steps = 0;
	enum ev_did did;

	while (q->first && n < max && steps++ < EV_STEPS_MAX) {
		did = ev_op_step(r, q, q->first);
		if (did == EV_WAITS)
			break;
		if (did == EV_ENDED)
			n++;
	}
	return n;
}

static unsigned int run_polls(struct weir_reactor *r, struct ev_fd *f,
			      unsigned int max)
{
	struct weir_op *op, *next;
	unsigned int n = 0;

	for (op = f->polls.first; op && n < max; op = next) {
		next = op->next;
		if (ev_op_step(r, &f->polls, op) == EV_ENDED)
			n++;
	}
	return n;
}

static unsigned int end_queue(struct op_queue *q, int err)
{
	struct weir_op *op;
	unsigned int n = 0;

	while ((op = op_queue_pop(q))) {
		io_end(op, err);
		n++;
	}
	return n;
}

/*
 * epoll refused the descriptor.  libev has dropped it and does not report the
 * errno, so ask epoll again.  The usual cause is that the user's epoll watches
 * are used up.
 */
static unsigned int fail(struct weir_reactor *r, struct ev_fd *f)
{
	struct ev_backend *b = ev_of(r);
	struct epoll_event ev = { .data.u64 = UINT64_MAX };
	int set = b->set, err = -EIO;
	unsigned int n;

	if (!epoll_ctl(set, EPOLL_CTL_ADD, f->io.fd, &ev))
		epoll_ctl(set, EPOLL_CTL_DEL, f->io.fd, &ev);
	else
		err = -errno;
	debug_check(b->n_watched > 0);
	b->n_watched--;
	if (ev_is_active(&f->io)) {	/* Watched again since. */
		ev_unwatch(b, &f->io);
		b->n_watched--;
	}
	n = end_queue(&f->in, err) + end_queue(&f->out, err) +
	    end_queue(&f->polls, err);
	return n + ev_sources_run(r, f, UINT32_MAX, err);
}

/* Do what @f's readiness allows, at most @max.  Returns how much was done. */
static unsigned int ev_fd_run(struct weir_reactor *r, struct ev_fd *f,
		       unsigned int max)
{
	unsigned int n = 0;
	int got = f->got;

	f->got = 0;
	if (unlikely(got & EV_ERROR))
		return fail(r, f);
	if (got & EV_READ)
		n += run_queue(r, &f->in, max);
	if (got & EV_WRITE && n < max)
		n += run_queue(r, &f->out, max - n);
	if (f->polls.first && n < max)
		n += run_polls(r, f, max - n);
	if (f->sources.first && n < max)
		n += ev_sources_run(r, f, max - n, 0);
	ev_fd_update(ev_of(r), f);
	return n;
}

/*
 * The ev backend: its loop.
 *
 * libev's own clock and timers are not used: the wheel computes how long to
 * sleep, to the nanosecond, while libev counts in milliseconds under epoll.  A
 * sleep with a timeout is therefore an epoll call of our own on libev's epoll
 * set.  Only a sleep without a timeout is left to ev_run(), which then also
 * collects what is ready.
 */

void ev_watch(struct ev_backend *b, ev_io *io, int fd, int events)
{
	/* Set each time, even to the same number: it may belong to another file
	 * by now, and setting it makes libev register it with the kernel
	 * again. */
	debug_check((uint32_t)fd < b->n_fds);
	ev_enter(b);
	ev_io_set(io, fd, events);
	ev_io_start(b->loop, io);
	ev_leave();
	b->dirty = true;
}

static void ev_unwatch(struct ev_backend *b, ev_io *io)
{
	ev_enter(b);
	ev_io_stop(b->loop, io);
	ev_leave();
	b->dirty = true;
}

/*
 * Find libev's epoll set, for which libev has no getter.  A loop can be
 * embedded in another, here in itself, and the descriptor that the embedding
 * watches is the set.
 */
static int find_set(struct ev_backend *b)
{
	ev_embed embed;

	ev_enter(b);
	ev_embed_init(&embed, NULL, b->loop);
	ev_embed_start(b->loop, &embed);
	ev_embed_stop(b->loop, &embed);
	ev_leave();
	return embed.io.fd;
}

/* libev has a new set: have a host's see it. */
static void follow(struct ev_backend *b)
{
	struct epoll_event ev = { .events = EPOLLIN };

	debug_check(b->outer < 0 || b->remade);
	b->set = find_set(b);
	if (b->outer < 0 || !epoll_ctl(b->outer, EPOLL_CTL_ADD, b->set, &ev))
		b->remade = false; /* Else the next poll tries again. */
}

/*
 * Have libev pass its changes to epoll, and collect what is ready.  Returns 0,
 * or the errno of epoll; the next poll tries again.
 */
static int run_loop(struct weir_reactor *r, int how)
{
	struct ev_backend *b = ev_of(r);

	ev_fds_check(b);
	b->err = 0;
	ev_enter(b);
	if (!setjmp(b->give_up))
		ev_run(b->loop, how);
	ev_leave();
	r->stats.syscalls++;
	if (unlikely(b->err))
		return b->err;
	b->dirty = false;
	if (unlikely(b->remade))
		follow(b);
	if (unlikely(b->retry_due)) {
		b->retry_due = false;
		ev_retry_all(r);
	}
	return 0;
}

/* Nothing can be ready if nothing is watched; with a foreign host, always
 * poll. */
static bool worth_a_look(const struct ev_backend *b)
{
	return b->n_watched || b->dirty || b->remade || b->outer >= 0 ||
	       b->retry.first;
}

static bool something_due(const struct ev_backend *b)
{
	return b->due || b->nops.first;
}

static struct ev_fd *pop_due(struct ev_backend *b)
{
	struct ev_fd *f = b->due;

	debug_check(b->due);
	b->due = f->due_next;
	if (!b->due)
		b->due_last = &b->due;
	debug_check(b->n_due > 0);
	b->n_due--;
	f->due = false;
	return f;
}

static int ev_reap(struct weir_reactor *r, unsigned int max)
{
	struct ev_backend *b = ev_of(r);
	unsigned int n = 0, left;
	struct weir_op *op;

	/* If epoll fails, what is due is still done; ev_wait() returns why. */
	if (b->looked_turn != r->stats.turns && worth_a_look(b))
		(void)run_loop(r, EVRUN_NOWAIT);
	b->looked_turn = 0;
	b->woken = false;
	while (n < max && (op = op_queue_pop(&b->nops))) {
		io_end(op, 0);
		n++;
	}
	for (left = b->n_due; left && n < max; left--)
		n += ev_fd_run(r, pop_due(b), max - n);
	return (int)n;
}

/* What was started has been tried already; the rest waits for the next poll. */
static int ev_flush(struct weir_reactor *r)
{
	(void)r;
	return 0;
}

/* epoll_wait(0) costs more than all else in a spin, so not every time. */
static bool ev_ready(struct weir_reactor *r)
{
	struct ev_backend *b = ev_of(r);

	if (something_due(b))
		return true;
	if (!worth_a_look(b))
		return false;
	if (!b->dirty && b->outer < 0 && ++b->polls % EV_POLL_EVERY)
		return false;
	(void)run_loop(r, EVRUN_NOWAIT);
	b->looked_turn = r->stats.turns;
	return something_due(b);
}

/* Nanoseconds, where the kernel has the call; it is from Linux 5.11. */
static int sleep_on(struct ev_backend *b, uint64_t timeout_ns)
{
	struct timespec ts = {
		.tv_sec = (time_t)(timeout_ns / WEIR_SEC),
		.tv_nsec = (long)(timeout_ns % WEIR_SEC),
	};
	struct pollfd p = { .fd = b->set, .events = POLLIN };
	int n;

#ifdef SYS_epoll_pwait2
	struct epoll_event ev;

	if (!b->no_pwait2) {
		n = (int)syscall(SYS_epoll_pwait2, b->set, &ev, 1, &ts, NULL,
				 0L);
		if (n >= 0 || errno != ENOSYS)
			return n < 0 ? -errno : n;
		b->no_pwait2 = true;
	}
#endif
	n = ppoll(&p, 1, &ts, NULL);
	return n < 0 ? -errno : n;
}

static int ev_wait(struct weir_reactor *r, uint64_t timeout_ns)
{
	struct ev_backend *b = ev_of(r);
	int n, err;

	if (something_due(b) || b->woken)
		return 0;
	if (fault("epoll_wait"))
		return -ENOMEM;
	b->looked_turn = r->stats.turns;
	if (timeout_ns == WEIR_FOREVER)
		return run_loop(r, EVRUN_ONCE);
	if (b->dirty || b->remade) {
		err = run_loop(r, EVRUN_NOWAIT);
		if (err || something_due(b) || b->woken)
			return err;
	}
	n = sleep_on(b, timeout_ns);
	r->stats.syscalls++;
	/* Collect here.  If this is only a wake-up, no reap follows to collect
	 * it, and it would end every later sleep at once. */
	err = n ? run_loop(r, EVRUN_NOWAIT) : 0;
	return n < 0 && n != -EINTR ? n : err;
}

static void ev_wake(struct weir_reactor *r)
{
	int saved = errno;

	/* A full counter is as good: it is readable. */
	(void)!write(ev_of(r)->wake.fd, &(uint64_t){ 1 }, sizeof(uint64_t));
	errno = saved;
}

static void on_wake(struct ev_loop *loop, ev_io *io, int got)
{
	struct ev_backend *b = ev_userdata(loop);
	eventfd_t n;

	(void)got;
	b->woken = true;
	eventfd_read(io->fd, &n);
}

static void on_retry(struct ev_loop *loop, ev_io *io, int got)
{
	struct ev_backend *b = ev_userdata(loop);
	uint64_t n;

	(void)got;
	if (read(io->fd, &n, sizeof(n)) > 0)
		b->retry_due = true;
}

/* This runs not only after fork(): libev also makes a new set when the kernel
 * reports a file that was closed here and is still open elsewhere. */
static void on_fork(struct ev_loop *loop, ev_fork *w, int got)
{
	struct ev_backend *b = ev_userdata(loop);

	(void)w, (void)got;
	b->remade = true;
}

static uint64_t ev_clock(struct weir_reactor *r)
{
	struct timespec ts;

	(void)r;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * WEIR_SEC + (uint64_t)ts.tv_nsec;
}

/* An epoll set between libev's set, which libev may replace, and the host's
 * loop. */
static int ev_pollfd(struct weir_reactor *r)
{
	struct ev_backend *b = ev_of(r);
	struct epoll_event ev = { .events = EPOLLIN };
	int fd, err;

	if (b->outer >= 0)
		return b->outer;
	if (fault("epoll_create"))
		return -EMFILE;
	fd = epoll_create1(EPOLL_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (epoll_ctl(fd, EPOLL_CTL_ADD, b->set, &ev)) {
		err = -errno;
		close(fd);
		return err;
	}
	b->outer = fd;
	return fd;
}

/* Nothing is registered, but the record of the descriptor is allocated here. */
static int ev_fd_register(struct weir_reactor *r, int fd)
{
	(void)ev_fd_make(ev_of(r), fd);
	return 0;
}

static void ev_fd_unregister(struct weir_reactor *r, int fd)
{
	(void)r, (void)fd;
}

static int ev_buf_register(struct weir_reactor *r, const struct iovec *iov)
{
	(void)r, (void)iov;
	return -EOPNOTSUPP;
}

static void ev_buf_unregister(struct weir_reactor *r, int index)
{
	(void)r, (void)index;
}

/* Records for descriptors that the process may have, but for EV_FDS at most. */
static int reserve_fds(struct ev_backend *b)
{
	struct rlimit limit = { .rlim_cur = EV_FDS };
	int fd, n;

	getrlimit(RLIMIT_NOFILE, &limit);
	n = limit.rlim_cur < EV_FDS ? (int)limit.rlim_cur : EV_FDS;
	/* All of it first: what calloc() then takes was never used, so that it
	 * need not touch it. */
	if (n && ev_reserve(b, (uint32_t)n))
		return -ENOMEM;
	for (fd = 0; fd < n; fd += EV_FD_CHUNK)
		if (!ev_fd_make(b, fd))
			return -ENOMEM;
	return ev_reserve(b, (uint32_t)b->wake.fd + 1);
}

static bool make_loop(struct ev_backend *b)
{
	if (fault("epoll_create")) {
		errno = EMFILE;
		return false;
	}
	ev_enter(b);
	b->loop = ev_loop_new(EVFLAG_NOENV | EVFLAG_NOSIGMASK |
			      EVBACKEND_EPOLL);
	ev_leave();
	return b->loop;
}

static int open_loop(struct ev_backend *b)
{
	int fd, err;

	fd = fault("eventfd") ? (errno = EMFILE, -1) :
	     eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (fd < 0)
		return why_no_fd(-errno, "weir_reactor_create", "an eventfd");
	ev_io_init(&b->wake, on_wake, fd, EV_READ);
	err = reserve_fds(b);
	if (err)
		return why(err, "weir_reactor_create: no memory for libev");
	errno = 0;
	if (!make_loop(b))
		return why_no_fd(errno ? -errno : -EIO, "weir_reactor_create",
				 "an epoll set for libev");
	ev_set_userdata(b->loop, b);
	ev_watch(b, &b->wake, fd, EV_READ);
	ev_fork_init(&b->fork, on_fork);
	ev_enter(b);
	ev_fork_start(b->loop, &b->fork);
	ev_leave();
	b->set = find_set(b);
	return 0;
}

static void ev_free(struct ev_backend *b)
{
	if (b->loop)
		ev_loop_destroy(b->loop);
	if (b->wake.fd >= 0)
		close(b->wake.fd);
	if (b->retry_timer.fd >= 0)
		close(b->retry_timer.fd);
	if (b->outer >= 0)
		close(b->outer);
	ev_fd_free_all(b);
	ev_reserve_free(b);
	free(b);
}

static int ev_create(struct weir_reactor *r,
		     const struct weir_reactor_opts *opts)
{
	struct ev_backend *b = mem_calloc(1, sizeof(*b));
	int err;

	if (!b)
		return why(-ENOMEM, "weir_reactor_create: no memory for the ev "
			   "backend");
	b->due_last = &b->due;
	op_queue_init(&b->nops);
	op_queue_init(&b->retry);
	source_queue_init(&b->starving);
	source_queue_init(&b->no_own_buf);
	b->wake.fd = -1;
	b->outer = -1;
	b->no_pwait2 = own_on_valgrind(); /* 3.19 would complain. */
	ev_io_init(&b->retry_timer, on_retry, -1, EV_READ);
	err = open_loop(b);
	if (err) {
		ev_free(b);
		return err;
	}
	r->backend_data = b;
	snprintf(r->describe, sizeof(r->describe),
		 "ev: libev %d.%d on epoll, files on up to %u workers",
		 ev_version_major(), ev_version_minor(), opts->workers);
	return 0;
}

static void ev_destroy(struct weir_reactor *r)
{
	ev_free(ev_of(r));
	r->backend_data = NULL;
}

const struct backend backend_ev = {
	.name = "ev",
	.io_kinds = IO_OF_KERNEL,
	.create = ev_create,
	.destroy = ev_destroy,
	.now = ev_clock,
	.submit = ev_submit,
	.cancel = ev_cancel,
	.reap = ev_reap,
	.flush = ev_flush,
	.ready = ev_ready,
	.wait = ev_wait,
	.wake = ev_wake,
	.pollfd = ev_pollfd,
	.arm = ev_arm,
	.disarm = ev_disarm,
	.rx_returned = ev_rx_returned,
	.fd_register = ev_fd_register,
	.fd_unregister = ev_fd_unregister,
	.buf_register = ev_buf_register,
	.buf_unregister = ev_buf_unregister,
};
