/* SPDX-License-Identifier: BSD-3-Clause */
/* Watches, acceptors and receivers on the ev backend. */

#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/own.h"
#include "reactor/ev/ev.h"
#include "reactor/rx.h"

/* libev knows nothing but readable and writable. */
#define BEYOND_LIBEV (WEIR_PRI | WEIR_RDHUP)

/* The descriptor that libev watches for @s. */
static int watched_fd(const struct source *s)
{
	return s->set ? s->set - 1 : s->fd;
}

static int source_wants(const struct source *s)
{
	int want = 0;

	if (s->kind != SOURCE_WATCH || s->set)
		return EV_READ;
	if (s->events & WEIR_READABLE)
		want |= EV_READ;
	if (s->events & WEIR_WRITABLE)
		want |= EV_WRITE;
	return want;
}

int ev_sources_want(const struct ev_fd *f)
{
	const struct source *s;
	int want = 0;

	for (s = f->sources.first; s; s = s->next)
		want |= source_wants(s);
	return want;
}

/*
 * libev aborts the process, or loops without end, on descriptors that epoll
 * refuses, so ask epoll first.  Once for each source is enough: its descriptor
 * stays open.
 */
static int probe(struct ev_backend *b, struct source *s)
{
	struct epoll_event ev = { .data.u64 = UINT64_MAX };
	int set = b->set;

	if (s->gen)
		return 0;
	if (fault("epoll_ctl"))
		return -ENOMEM;
	if (epoll_ctl(set, EPOLL_CTL_ADD, s->fd, &ev)) {
		if (errno != EEXIST)
			return -errno;
	} else {
		epoll_ctl(set, EPOLL_CTL_DEL, s->fd, &ev);
	}
	s->gen = 1;
	return 0;
}

int ev_arm(struct weir_reactor *r, struct source *s)
{
	struct ev_backend *b = ev_of(r);
	int err = probe(b, s);
	struct ev_fd *f;

	reactor_check_thread(r);
	if (!err && s->kind == SOURCE_WATCH && s->events & BEYOND_LIBEV)
		err = source_set_open(s);
	if (err)
		return err;
	f = ev_fd_make(b, watched_fd(s));
	if (!f) {
		source_set_close(s);
		return -ENOMEM;
	}
	s->armed = true;
	source_queue_push(&f->sources, s);
	ev_fd_update(b, f);
	return 0;
}

/* Where @s waits for a buffer. */
static struct source_queue *starving_of(struct ev_backend *b,
					const struct source *s)
{
	return s->rx->source ? &b->no_own_buf : &b->starving;
}

static void unlink_source(struct ev_backend *b, struct source *s)
{
	struct ev_fd *f = ev_fd_find(b, watched_fd(s));

	if (b->cursor == s)
		b->cursor = s->next;
	if (b->current == s)
		b->current = NULL;
	source_queue_del(s->queued ? starving_of(b, s) : &f->sources, s);
	s->queued = false;
	s->armed = false;
	ev_fd_update(b, f);
	source_set_close(s);
}

void ev_disarm(struct weir_reactor *r, struct source *s)
{
	reactor_check_thread(r);
	if (s->armed)
		unlink_source(ev_of(r), s);
}

void ev_rx_returned(struct weir_reactor *r, struct rx_free_list *rx,
		    unsigned int id)
{
	struct ev_backend *b = ev_of(r);
	struct source *s = rx->source ? rx->source : b->starving.first;
	struct ev_fd *f;

	reactor_check_thread(r);
	(void)id;
	if (!s || !s->queued)
		return;
	f = ev_fd_find(b, s->fd);
	source_queue_del(starving_of(b, s), s);
	s->queued = false;
	source_queue_push(&f->sources, s);
	ev_fd_update(b, f);
}

/* Last words to a source.  It may be gone afterwards. */
static void end_source(struct ev_backend *b, struct source *s, int err)
{
	unlink_source(b, s);
	source_deliver(s, err, -1);
}

static unsigned int run_watch(struct weir_reactor *r, struct source *s)
{
	int64_t seen = s->set ? source_set_take(s) :
				ev_poll(s->fd, s->events);

	if (seen == -EAGAIN)
		return 0;
	if (seen < 0)
		end_source(ev_of(r), s, (int)seen);
	else
		source_deliver(s, seen, -1);
	return 1;
}

/* Whether only one connection failed, and not the listening socket. */
static bool only_that_one(int err)
{
	switch (err) {
	case -EINTR:
	case -ECONNABORTED:
	case -EPROTO:
	case -EPERM:
	case -ENETDOWN:
	case -ENETUNREACH:
	case -EHOSTDOWN:
	case -EHOSTUNREACH:
		return true;
	default:
		return false;
	}
}

static unsigned int run_accept(struct weir_reactor *r, struct source *s,
			       unsigned int max)
{
	struct ev_backend *b = ev_of(r);
	unsigned int n = 0, calls;
	int fd;

	for (calls = 0; calls < EV_ACCEPTS_MAX && n < max; calls++) {
		fd = ev_accept(s->fd, NULL, NULL, SOCK_CLOEXEC);
		if (fd == -EAGAIN)
			break;
		if (only_that_one(fd))
			continue;
		n++;
		if (fd < 0) {
			end_source(b, s, fd);
			break;
		}
		(void)ev_fd_make(b, fd);
		source_deliver(s, fd, -1);
		if (b->current != s)
			break;
	}
	return n;
}

/* The free list is empty: stop watching until a buffer is released. */
static void starve(struct ev_backend *b, struct source *s)
{
	struct ev_fd *f = ev_fd_find(b, s->fd);

	source_queue_del(&f->sources, s);
	source_queue_push(starving_of(b, s), s);
	s->queued = true;
	ev_fd_update(b, f);
}

/*
 * One buffer.  Returns its bytes, or why there are none.  A raw system call,
 * because a buffer in the free list is poisoned.
 */
static long receive(struct weir_reactor *r, struct source *s, int *id)
{
	struct rx_free_list *rx = s->rx;
	void *buf;
	long res;

	*id = rx_take(rx);
	if (*id < 0)
		return *id;
	buf = rx_buf(rx, *id);
	own_use(buf, rx->size);
	res = syscall(SYS_recvfrom, s->fd, buf, rx->size, MSG_DONTWAIT, NULL,
		      NULL);
	if (res > 0)
		return res;
	res = res ? -errno : 0;
	rx_put(r, rx, *id);
	*id = -1;
	return res;
}

static unsigned int run_recv(struct weir_reactor *r, struct source *s,
			     unsigned int max)
{
	struct ev_backend *b = ev_of(r);
	unsigned int n = 0;
	long res;
	int id;

	while (n < EV_RECVS_MAX && n < max) {
		res = receive(r, s, &id);
		if (res == -EAGAIN || res == -EINTR)
			break;
		if (res == -ENOBUFS && id < 0) {
			starve(b, s);
			break;
		}
		n++;
		if (res < 0) {
			end_source(b, s, (int)res);
			break;
		}
		source_deliver(s, res, id);
		/* A read that does not fill the buffer has emptied the
		 * socket. */
		if (b->current != s || (size_t)res < s->rx->size)
			break;
	}
	return n;
}

/*
 * Engaged meanwhile, so that a callback may destroy it.  What the network reports
 * does not end it.
 */
static unsigned int run_datagrams(struct weir_reactor *r, struct source *s,
				  unsigned int max)
{
	struct ev_backend *b = ev_of(r);
	unsigned int n = 0, calls, asked;
	int got;

	s->engaged = 1;
	for (calls = 0; calls < EV_DATAGRAMS_MAX && n < max; calls++) {
		asked = s->batch;
		got = rx_take_datagrams(s, max - n);
		if (got == -ENOBUFS)
			starve(b, s);
		if (got == -EAGAIN || got == -ENOBUFS)
			break;
		n += got < 0 ? 1 : (unsigned int)got;
		if (rx_error_passes(got))
			source_deliver(s, got, -1);
		else if (got < 0)
			end_source(b, s, got);
		/* A call that takes fewer than it might has emptied the
		 * socket. */
		if (b->current != s || (got > 0 && (unsigned int)got < asked))
			break;
	}
	s->engaged = 0;
	source_unref(s);
	return n;
}

static unsigned int run_one(struct weir_reactor *r, struct source *s,
			    unsigned int max)
{
	switch (s->kind) {
	case SOURCE_WATCH:
		return run_watch(r, s);
	case SOURCE_ACCEPT:
		return run_accept(r, s, max);
	case SOURCE_RECV:
		return run_recv(r, s, max);
	case SOURCE_DATAGRAM:
		return run_datagrams(r, s, max);
	}
	return 0;
}

/*
 * Callbacks may arm, disarm and destroy what they like.  A source that comes
 * back to the list meanwhile, at its end, is not run again: hence the count.
 */
unsigned int ev_sources_run(struct weir_reactor *r, struct ev_fd *f,
			    unsigned int max, int err)
{
	struct ev_backend *b = ev_of(r);
	unsigned int n = 0, left = 0;
	struct source *s;

	reactor_check_thread(r);
	for (s = f->sources.first; s; s = s->next)
		left++;
	b->cursor = f->sources.first;
	while (b->cursor && left-- && n < max) {
		s = b->cursor;
		b->cursor = s->next;
		b->current = s;
		source_catch_up(r);
		if (b->current != s)
			continue;
		if (err) {
			end_source(b, s, err);
			n++;
		} else {
			n += run_one(r, s, max - n);
		}
	}
	b->cursor = NULL;
	b->current = NULL;
	return n;
}
