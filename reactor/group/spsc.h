/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_REACTOR_SPSC_H
#define WEIR_REACTOR_SPSC_H

/*
 * Rings: what the reactors of a group have for each other.
 *
 * From each reactor to each other one there is a ring, a ring with one writer
 * and one reader.  A message has a position in it, and so do its cell, which
 * the sender fills, the result of a call, which the receiver fills, and the
 * operation of that call, which only the sender looks at:
 *
 *	done          head            tail          next
 *	  | answered,   | in flight     | written,    | capacity
 *	  | to be told  |               | not shown   |
 *
 * The sender moves .next as it writes, .tail now and then and at the end of its
 * turn, and .done as it completes calls.  The receiver runs the messages one
 * after the other and then moves .head, so that calls are answered in the order
 * in which they came, and an answer needs no capacity but its message's own: it
 * cannot be refused.
 *
 * A line of memory that two cores write to costs tens of nanoseconds each time
 * it changes sides.  So each word that is shared has one writer, which keeps
 * copies of all that it needs, and shows it when a turn's work is together.
 *
 * A cell is a fourth of a line; kinds are apart, where messages of one kind
 * after those of the same write nothing at all.  Up to .limit a message is
 * written without a look at anything else: it is .next when a turn begins, and
 * moved by SPSC_PUBLISH_EVERY at most, after a look at whether there is
 * capacity and whether either side stops.
 *
 * Wake-ups are as those of the mailbox, see mailbox.h: each side shows what
 * it has done, and then looks whether the other sleeps, or waits for
 * capacity.
 */

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "reactor/op-internal.h"

struct weir_reactor;

/*
 * Where it lies is known when the library is loaded, which saves each post a
 * call; it is one word of the few that are kept free for such.
 */
#define RINGS_TLS __attribute__((tls_model("initial-exec")))

#define SPSC_LINE 64 /* What is on one is moved between cores together. */
#define SPSC_PUBLISH_EVERY 32 /* The other side begins while this goes on. */

enum spsc_kind {
	SPSC_POST,
	SPSC_CALL,
	SPSC_CANCELLED, /* A call; not to be run any more. */
};

union spsc_fn {
	void (*post)(void *arg);
	int64_t (*call)(void *arg);
};

struct spsc_cell {
	union spsc_fn fn;
	void *arg;
};

struct spsc {
	/* Written by the sender. */
	_Alignas(SPSC_LINE) _Atomic uint64_t tail;

	/* Written by the receiver. */
	_Alignas(SPSC_LINE) _Atomic uint64_t head;

	/* Seldom written, or never. */
	_Alignas(SPSC_LINE) atomic_bool wants_capacity; /* The sender. */
	atomic_bool closed; /* The receiver stops: no new work. */
	uint64_t mask;
	struct spsc_cell *cells;
	atomic_uchar *kinds; /* Of cells. */
	int64_t *results;
	struct weir_reactor *from, *to;

	/* The sender's own. */
	_Alignas(SPSC_LINE) uint64_t next;
	uint64_t limit; /* Of .next; then look closer. */
	uint64_t done;
	uint64_t n_calls; /* Whose end was not told yet. */
	struct weir_op **ops; /* By position; of calls only. */
	struct op_queue waiting; /* Operations that wait for capacity. */
	struct spsc *next_unshown; /* Itself: the last; NULL: in no list. */

	/* The receiver's own. */
	_Alignas(SPSC_LINE) uint64_t taken;
	uint64_t seen; /* What .tail was. */
};

_Static_assert(sizeof(struct spsc) == 5 * SPSC_LINE,
	       "what one side writes is on one line");

/* All reactors of a group. */
struct ring_matrix {
	uint32_t n;
	uint32_t size; /* Of a ring. */
	atomic_uint n_quiet;
	struct rings *rings; /* Of each reactor. */
};

/* One reactor's. */
struct rings {
	struct ring_matrix *mesh;
	struct weir_reactor *r;
	uint32_t self;
	uint32_t cursor; /* Which is first in this turn. */
	bool quiet; /* Counted in the mesh. */
	struct spsc *unshown; /* Until the end of the turn. */
	struct spsc **in, **out; /* By index; NULL: itself. */
};

/* Control calls, by the thread that makes the group; reactors join before any
 * runs. */
struct ring_matrix *ring_matrix_create(uint32_t n, uint32_t size);
void ring_matrix_destroy(struct ring_matrix *mesh);
void rings_join(struct ring_matrix *mesh, uint32_t index,
		struct weir_reactor *r);

/*
 * Whose turn it is, or outside of turns whose thread; NULL if it has no rings.
 * What posts belong to: so all of one sender go one way.
 */
extern _Thread_local struct weir_reactor *rings_here RINGS_TLS;

/* The sender; and group/spsc-inline.h. */
/* .next is at .limit; 0, -EAGAIN or -ESHUTDOWN. */
int spsc_write_slowly(struct spsc *spsc, union spsc_fn fn, void *arg,
		      enum spsc_kind kind);
void spsc_cancel(struct spsc *spsc, uint64_t pos);
bool spsc_has_capacity(struct spsc *spsc);

/* In the turn: run what came, and complete what was answered, at most @max of
 * each; returns how many of both. */
unsigned int rings_run(struct weir_reactor *r, unsigned int max);
/* Is there something for rings_run()? */
bool rings_have(const struct rings *rings);
/* Is there a call that has not been answered, or not told of? */
bool rings_owed(const struct rings *rings);
/* Publish what was written, and wake its readers.  NULL is allowed. */
void rings_publish(struct rings *rings);

/* The reactor stops. */
void rings_close(struct rings *rings);
/* It is drained: are all others, too?  Then nothing can come any more. */
bool rings_quiet(struct rings *rings);

#endif /* WEIR_REACTOR_SPSC_H */
