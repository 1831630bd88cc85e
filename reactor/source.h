/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_REACTOR_SOURCE_H
#define WEIR_REACTOR_SOURCE_H

/*
 * A source: an object to which the backend delivers again and again after one
 * request.  Embedded, first, in watches, acceptors, receivers and UDP sockets.
 *
 *	       arm()                destroy()
 *	QUIET --------> ARMED   ------------------+
 *	  ^               | disarm()              |
 *	  +---------------+                       v
 *	                 freed <-- last word -- ZOMBIE
 *
 * The kernel may still complete the request of a source that was destroyed or
 * disarmed.  So the backend counts in @engaged the requests that it has in
 * flight, and frees a destroyed source when that is 0 (uring); ev frees it at
 * once. The backend drops deliveries to a source that is not armed, after it
 * has released what they brought: it closes a descriptor, and returns a buffer.
 * An exception: data for a SOURCE_RECV that is no zombie are always delivered,
 * armed or not, because a stream must not lose bytes; the receiver keeps them.  A
 * SOURCE_DATAGRAM is the same.
 * Connections for a paused acceptor, with .keeps set, are so, too.
 */

#include <stdbool.h>
#include <stdint.h>

#include "reactor/reactor-internal.h"

enum source_kind {
	SOURCE_WATCH,	/* res: events seen */
	SOURCE_ACCEPT,	/* res: a descriptor */
	SOURCE_RECV,	/* res: bytes, rx_id: the free list's buffer */
	SOURCE_DATAGRAM, /* The same, the buffer is out, and begins with a struct
			  * rx_head, of which @res includes the bytes.
			  * After an error for which rx_error_passes() it is
			  * still armed. */
};

struct rx_free_list;
struct msghdr;

struct source {
	struct reactor_obj obj;
	struct weir_reactor *reactor;
	enum source_kind kind;
	int fd;
	uint32_t events;	/* SOURCE_WATCH: WEIR_ bits, WEIR_EDGE too. */
	uint32_t udp_flags;	/* SOURCE_DATAGRAM: of weir_udp_opts. */
	struct rx_free_list *rx; /* SOURCE_RECV, SOURCE_DATAGRAM: buffers. */
	struct msghdr *shape;	/* SOURCE_DATAGRAM: of what is before each. */

	/*
	 * By source_deliver(), in the turn: @res >= 0, or a negative errno,
	 * after which the source is no longer armed.  @rx_id: see
	 * SOURCE_RECV. May disarm and destroy the source.
	 */
	void (*deliver)(struct source *s, int64_t res, int rx_id);

	/* Free the memory; called when nothing refers to it any more. */
	void (*release)(struct source *s);

	bool wanted;		/* By its owner; armed while the reactor runs. */
	bool keeps;		/* SOURCE_ACCEPT: see above. */

	/* The backend's; arm() and disarm() set @armed. */
	bool armed;		/* Deliveries are wanted. */
	bool zombie;		/* Destroyed; waits for @engaged to be 0. */
	bool queued;		/* In one of the backend's lists. */
	uint8_t gen;		/* Tells an old request from a new one. */
	bool stale;		/* Its request was cancelled. */
	bool multi;		/* It is a multishot request, */
	bool bundles;		/* of several buffers at a time. */
	uint32_t place;		/* After its request, in the submissions. */
	uint32_t batch;		/* SOURCE_DATAGRAM: to take at a time. */
	int set;		/* See source_set_open(); + 1, or 0. */
	uint32_t engaged;	/* Requests the kernel has. */
	struct source *next;
	struct source **pprev;
};

/* Initialise and attach; not armed yet. */
int source_init(struct source *s, struct weir_reactor *r, const char *what,
		enum source_kind kind, int fd);

/* The reactor was set running again; as reactor_obj.start. */
void source_start(struct reactor_obj *obj);

/* Whether @fd can be watched: 0 or a negative errno; a message of @call. */
int source_check_fd(struct weir_reactor *r, int fd, const char *call);

int source_arm(struct source *s);
void source_disarm(struct source *s);

/* Disarm, detach if it is attached, and release, now or when the backend has no
 * request of it. */
void source_destroy(struct source *s);

/*
 * For backends, before a delivery: run the callbacks of operations that have
 * ended before.  A delivery may be a consequence of them, as an answer follows
 * a send, so its callback must come after theirs.  May destroy any source.
 */
static inline void source_catch_up(struct weir_reactor *r)
{
	if (r->ready)
		r->delivered += op_run_ready(r, UINT32_MAX);
}

/* For backends: call the owner, and count it as a callback of this turn. */
static inline void source_deliver(struct source *s, int64_t res, int rx_id)
{
	s->reactor->delivered++;
	s->deliver(s, res, rx_id);
}

/*
 * For backends that cannot wait for all events of the watch @s: make an epoll
 * set for it alone, which is readable when one of its events is there (with
 * WEIR_EDGE: until that is taken).  0 or a negative errno.
 */
int source_set_open(struct source *s);
void source_set_close(struct source *s);

/* Its set was readable: the events, or -EAGAIN if there are none any more. */
int64_t source_set_take(struct source *s);

/* For backends: a request of a zombie has ended. */
void source_unref(struct source *s);

#endif /* WEIR_REACTOR_SOURCE_H */
