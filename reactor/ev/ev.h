/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_REACTOR_EV_H
#define WEIR_REACTOR_EV_H

/*
 * The ev backend: libev reports which descriptors are ready, and the reactor
 * makes the system calls.  Operations on files, which have no readiness, go to
 * the reactor's workers, except short reads of data in the page cache.
 *
 *	ev.c         create, destroy, reap, wait, wake; descriptors
 *	ev/mem.c     libev's memory and errors: it never ends the process
 *	ev/op.c      operations: where each goes, and its system call
 *	ev/source.c  watches, acceptors, receivers
 *
 * Each descriptor number has a record once something had to wait on it.  The
 * record stays until the backend is destroyed; its watcher is registered with
 * libev exactly while there are waiters:
 *
 *	            first waits (ev_fd_update)
 *	  UNWATCHED --------------------------> WATCHED
 *	      ^      last leaves (ev_fd_update)    |
 *	      +------------------------------------+
 *
 * So when the last operation and the last source have left, the caller may
 * close the descriptor, and its number may belong to another file next, without
 * a call to the backend.  libev leaves the old file in the epoll set (removing
 * it would cost a call each time), but a watcher that is set and started anew
 * is added again, and libev numbers these additions: it does not report an
 * event of an older one for the new.
 *
 * An operation that waits is in one queue, whose head is the next to be tried:
 *
 *	state           queue            leaves by
 *	reads, accepts  fd->in           readable: steps until -EAGAIN
 *	writes,connects fd->out          writable: the same
 *	polls           fd->polls        either, if it is what was asked for
 *	splices         fd->polls        the same; then perhaps the other fd's
 *	NOP             backend->nops    the next reap
 *	UNIX connect to backend->retry   the retry timer: such a socket has
 *	a full backlog                   no readiness to wait for
 *	with a worker   worker.c's       worker.c
 *
 * A cancel takes an operation out of any of them.  A source that is armed is in
 * one of two:
 *
 *	fd->sources        deliveries follow readiness
 *	backend->starving  a receiver that found the free list empty; goes back to
 *	                   fd->sources when a buffer is returned, in turn
 *
 * All readiness is level-triggered: a source that stops early for fairness
 * drops its readiness, and the next poll reports it again.
 */

#include <ev.h>
#include <setjmp.h>
#include <weir/watch.h>

#include "reactor/io.h"
#include "reactor/source.h"

#define EV_FD_CHUNK 1024	/* Records allocated together. */
#define EV_FDS 4096		/* At most so many when a reactor is made. */
#define EV_STEPS_MAX 64		/* System calls for one direction in a turn. */
#define EV_TRIES_MAX 4		/* The same when an operation starts. */
#define EV_ACCEPTS_MAX 16	/* Connections of an acceptor in a turn. */
#define EV_RECVS_MAX 8		/* Buffers of a receiver in a turn. */
#define EV_DATAGRAMS_MAX 4	/* Calls for datagrams in a turn. */
#define EV_POLL_EVERY 4 /* A spinning loop skips three of four. */
#define EV_RETRY_NS 1000000	/* Between tries at a full UNIX backlog. */

struct source_queue {
	struct source *first;
	struct source **last;
};

struct ev_fd {
	ev_io io;		/* Its events are what is waited for. */
	int got;		/* EV_ bits that libev reported. */
	bool due;		/* In backend->due. */
	bool fresh;		/* In backend->fresh. */
	struct ev_fd *due_next;
	struct ev_fd *fresh_next;
	struct op_queue in;
	struct op_queue out;
	struct op_queue polls;
	struct source_queue sources;
};

struct ev_backend {
	struct ev_loop *loop;
	int set;			/* libev's epoll set. */
	struct ev_fd *due;		/* Reported ready, to be run. */
	struct ev_fd **due_last;
	uint32_t n_due;
	struct ev_fd *fresh;		/* Watched since the last poll. */
	uint32_t n_watched;		/* Records known to libev. */
	bool dirty;			/* libev has not told epoll yet. */
	bool woken;			/* By wake(), since the last reap. */
	bool remade;			/* libev made a new epoll set. */
	bool retry_due;			/* The retry timer has expired. */
	bool no_pwait2;			/* The kernel has no epoll_pwait2(). */
	uint8_t polls;
	uint64_t looked_turn;		/* The turn in which .due was polled. */

	struct op_queue nops;
	struct op_queue retry;
	struct source_queue starving;
	struct source_queue no_own_buf;	/* Of their own buffers none is free. */

	/* The source that is being delivered to, and the next one; a disarm of
	 * either changes these. */
	struct source *current;
	struct source *cursor;

	struct ev_fd **chunks;		/* Records, by number / EV_FD_CHUNK. */
	uint32_t n_chunks;

	/* libev allocates nothing for descriptors below n_fds; see ev/mem.c. */
	uint32_t n_fds;
	struct ev_block *blocks;	/* Of block_size bytes, for libev. */
	size_t block_size;
	int err;			/* Of epoll, in this poll. */
	jmp_buf give_up;

	ev_io wake;			/* On an eventfd. */
	ev_io retry_timer;		/* On a timerfd, from the first use. */
	ev_fork fork;			/* Called before epoll is remade. */
	int outer;			/* For foreign loops; -1: none yet. */
};

static inline struct ev_backend *ev_of(const struct weir_reactor *r)
{
	return r->backend_data;
}

/*
 * ev/mem.c: reserve what libev needs for descriptors below @n_fds.  0 or
 * -ENOMEM.  Each call of libev that may allocate or call epoll stands between
 * ev_enter() and ev_leave(), and none of its callbacks calls libev.
 */
int ev_reserve(struct ev_backend *b, uint32_t n_fds);
void ev_reserve_free(struct ev_backend *b);
void ev_enter(struct ev_backend *b);
void ev_leave(void);

/* ev.c: watch @io on @fd, which is below n_fds; the next poll registers it with
 * epoll.  Never fails. */
void ev_watch(struct ev_backend *b, ev_io *io, int fd, int events);

/* ev/ev.c: the record of @fd, or NULL: there is none yet. */
struct ev_fd *ev_fd_find(const struct ev_backend *b, int fd);

/*
 * The record of @fd, made if need be; NULL: no memory.  Called where
 * descriptors come in, so that an operation normally finds its own.
 */
struct ev_fd *ev_fd_make(struct ev_backend *b, int fd);

/* The queue of operations for one direction, EV_READ or EV_WRITE. */
static inline struct op_queue *ev_fd_queue(struct ev_fd *f, int dir)
{
	return dir == EV_READ ? &f->in : &f->out;
}

/* The waiters on @f have changed: watch for them. */
void ev_fd_update(struct ev_backend *b, struct ev_fd *f);

/* ev/op.c */
enum ev_did {
	EV_ENDED,	/* It has its result, or is a worker's. */
	EV_WAITS,	/* Not ready now. */
	EV_GOES_ON,	/* Did a part, and can try again. */
};

/* Make one system call for @op, which is in @q, if that is not NULL. */
enum ev_did ev_op_step(struct weir_reactor *r, struct op_queue *q,
		       struct weir_op *op);

void ev_submit(struct weir_reactor *r, struct weir_op *op);
bool ev_cancel(struct weir_reactor *r, struct weir_op *op);

/* accept4() and connect() that wait on no socket, blocking or not. */
int ev_accept(int fd, struct sockaddr *addr, socklen_t *addrlen, int how);
int ev_connect(int fd, const void *addr, socklen_t len);

/* Returns which of @events (WEIR_ bits) hold for @fd now, or -EAGAIN or
 * -EBADF. */
int64_t ev_poll(int fd, uint32_t events);

/* Try those again that wait for a place in a UNIX socket's backlog. */
void ev_retry_all(struct weir_reactor *r);

/* ev/source.c */
int ev_arm(struct weir_reactor *r, struct source *s);
void ev_disarm(struct weir_reactor *r, struct source *s);
void ev_rx_returned(struct weir_reactor *r, struct rx_free_list *rx,
		    unsigned int id);

/* The EV_ bits that the sources of @f wait for. */
int ev_sources_want(const struct ev_fd *f);

/* Make deliveries, at most @max.  @err: deliver that to all, and nothing
 * else. */
unsigned int ev_sources_run(struct weir_reactor *r, struct ev_fd *f,
			    unsigned int max, int err);

static inline void source_queue_init(struct source_queue *q)
{
	q->first = NULL;
	q->last = &q->first;
}

static inline void source_queue_push(struct source_queue *q, struct source *s)
{
	s->next = NULL;
	s->pprev = q->last;
	*q->last = s;
	q->last = &s->next;
}

static inline void source_queue_del(struct source_queue *q, struct source *s)
{
	if (s->next)
		s->next->pprev = s->pprev;
	else
		q->last = s->pprev;
	*s->pprev = s->next;
}

#endif /* WEIR_REACTOR_EV_H */
