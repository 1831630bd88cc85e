/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_REACTOR_LANE_H
#define WEIR_REACTOR_LANE_H

/*
 * Lanes: what the reactors of a group have for each other.
 *
 * From each reactor to each other one there is a lane, a ring with one writer
 * and one reader.  A message has a position in it, and so do its cell, which
 * the sender fills, the result of a call, which the receiver fills, and the
 * operation of that call, which only the sender looks at:
 *
 *	done          head            tail          next
 *	  | answered,   | under way     | written,    | room
 *	  | to be told  |               | not shown   |
 *
 * The sender moves .next as it writes, .tail now and then and at the end of its
 * turn, and .done as it completes calls.  The receiver runs the messages one
 * after the other and then moves .head, so that calls are answered in the order
 * in which they came, and an answer needs no room but its message's own: it
 * cannot be refused.
 *
 * A line of memory that two cores write to costs tens of nanoseconds each time
 * it changes sides.  So each word that is shared has one writer, who keeps
 * copies of all that it needs, and shows it when a turn's work is together.
 *
 * A cell is a fourth of a line; kinds are apart, where messages of one kind
 * after those of the same write nothing at all.  Up to .limit a message is
 * written without a look at anything else: it is .next when a turn begins, and
 * moved by LANE_SHOW_EVERY at most, after a look at whether there is room and
 * whether either side stops.
 *
 * Bells are as those of the mailbox, see mailbox.h: each side shows what it has
 * done, and then looks whether the other sleeps, or waits for room.
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
#define LANES_TLS __attribute__((tls_model("initial-exec")))

#define LANE_LINE 64	/* What is on one is moved between cores together. */
#define LANE_SHOW_EVERY 32	/* The other side begins while this goes on. */

enum lane_kind {
	LANE_POST,
	LANE_CALL,
	LANE_CANCELLED,		/* A call; not to be run any more. */
};

union lane_fn {
	void (*post)(void *arg);
	int64_t (*call)(void *arg);
};

struct lane_cell {
	union lane_fn fn;
	void *arg;
};

struct lane {
	/* Written by the sender. */
	_Alignas(LANE_LINE) _Atomic uint64_t tail;

	/* Written by the receiver. */
	_Alignas(LANE_LINE) _Atomic uint64_t head;

	/* Seldom written, or never. */
	_Alignas(LANE_LINE) atomic_bool wants_room;	/* The sender. */
	atomic_bool closed;		/* The receiver stops: no new work. */
	uint64_t mask;
	struct lane_cell *cells;
	atomic_uchar *kinds;		/* Of cells. */
	int64_t *results;
	struct weir_reactor *from, *to;

	/* The sender's own. */
	_Alignas(LANE_LINE) uint64_t next;
	uint64_t limit;			/* Of .next; then look closer. */
	uint64_t done;
	uint64_t n_calls;		/* Whose end was not told yet. */
	struct weir_op **ops;		/* By position; of calls only. */
	struct op_queue waiting;	/* Operations that wait for room. */
	struct lane *next_unshown;	/* Itself: the last; NULL: in no list. */

	/* The receiver's own. */
	_Alignas(LANE_LINE) uint64_t taken;
	uint64_t seen;			/* What .tail was. */
};

_Static_assert(sizeof(struct lane) == 5 * LANE_LINE,
	       "what one side writes is on one line");

/* All reactors of a group. */
struct lane_mesh {
	uint32_t n;
	uint32_t size;			/* Of a lane. */
	atomic_uint n_quiet;
	struct lanes *lanes;		/* Of each reactor. */
};

/* One reactor's. */
struct lanes {
	struct lane_mesh *mesh;
	struct weir_reactor *r;
	uint32_t self;
	uint32_t cursor;		/* Who is first in this turn. */
	bool quiet;			/* Counted in the mesh. */
	struct lane *unshown;		/* Until the end of the turn. */
	struct lane **in, **out;	/* By index; NULL: itself. */
};

/* Control calls, by who makes the group; reactors join before any runs. */
struct lane_mesh *lane_mesh_create(uint32_t n, uint32_t size);
void lane_mesh_destroy(struct lane_mesh *mesh);
void lanes_join(struct lane_mesh *mesh, uint32_t index, struct weir_reactor *r);

/*
 * Whose turn it is, or outside of turns whose thread; NULL if it has no lanes.
 * What posts belong to: so all of one sender go one way.
 */
extern _Thread_local struct weir_reactor *lanes_here LANES_TLS;

/* The sender; and lane-inline.h. */
/* .next is at .limit; 0, -EAGAIN or -ESHUTDOWN. */
int lane_write_slowly(struct lane *lane, union lane_fn fn, void *arg,
		      enum lane_kind kind);
void lane_cancel(struct lane *lane, uint64_t pos);
bool lane_has_room(struct lane *lane);

/* In the turn: run what came, and complete what was answered, at most @max of
 * each; returns how many of both. */
unsigned int lanes_run(struct weir_reactor *r, unsigned int max);
/* Is there something for lanes_run()? */
bool lanes_have(const struct lanes *lanes);
/* Is there a call that has not been answered, or not told of? */
bool lanes_owed(const struct lanes *lanes);
/* Show what was written, and wake who sleeps.  NULL is allowed. */
void lanes_show(struct lanes *lanes);

/* The reactor stops. */
void lanes_close(struct lanes *lanes);
/* It is drained: are all others, too?  Then nothing can come any more. */
bool lanes_quiet(struct lanes *lanes);

#endif /* WEIR_REACTOR_LANE_H */
