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
 * The sender moves .next as it writes, .tail once in a turn, and .done as it
 * completes calls.  The receiver runs the messages one after the other and then
 * moves .head, so that calls are answered in the order in which they came, and
 * an answer needs no room but its message's own: it cannot be refused.
 *
 * A line of memory that two cores write to costs a hundred nanoseconds each
 * time it changes sides.  So each word that is shared has one writer, who keeps
 * copies of all that it needs, and shows it when a turn's work is together.
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

enum lane_kind {
	LANE_POST,
	LANE_CALL,
	LANE_CANCELLED,		/* A call; not to be run any more. */
};

struct lane_cell {
	union {
		void (*post)(void *arg);
		int64_t (*call)(void *arg);
	} fn;
	void *arg;
	_Atomic uint64_t kind;
};

struct lane {
	/* Written by the sender. */
	_Alignas(LANE_LINE) _Atomic uint64_t tail;
	atomic_bool wants_room;

	/* Written by the receiver. */
	_Alignas(LANE_LINE) _Atomic uint64_t head;
	atomic_bool closed;		/* It stops: no new work. */

	/* The sender's own. */
	_Alignas(LANE_LINE) uint64_t next;
	uint64_t shown;			/* What .tail is. */
	uint64_t done;
	uint64_t n_calls;		/* Whose end was not told yet. */
	struct weir_op **ops;		/* By position; NULL: a post. */
	struct op_queue waiting;	/* Operations that wait for room. */
	struct weir_reactor *to;
	struct lane *next_unshown;
	bool unshown;			/* In the list of those. */

	/* The receiver's own. */
	_Alignas(LANE_LINE) uint64_t taken;
	uint64_t seen;			/* What .tail was. */
	struct weir_reactor *from;

	/* Neither writes. */
	_Alignas(LANE_LINE) uint64_t mask;
	struct lane_cell *cells;
	int64_t *results;
};

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
 * The reactor whose thread this is, if it has lanes; in a simulated world,
 * whose turn it is.  What posts belong to: so all of one sender go one way.
 */
extern _Thread_local struct weir_reactor *lanes_here LANES_TLS;

/* The sender; and lane-inline.h. */
void lane_show(struct lane *lane);
void lane_cancel(struct lane *lane, uint64_t pos);
bool lane_has_room(struct lane *lane);

/* In the turn: run what came, complete what was answered, at most @max. */
unsigned int lanes_run(struct weir_reactor *r, unsigned int max);
/* Is there something for lanes_run()? */
bool lanes_have(const struct lanes *lanes);
/* Show what was written, and wake who sleeps.  NULL is allowed. */
void lanes_show(struct lanes *lanes);

/* The reactor stops. */
void lanes_close(struct lanes *lanes);
/* It is drained: are all others, too?  Then nothing can come any more. */
bool lanes_quiet(struct lanes *lanes);

#endif /* WEIR_REACTOR_LANE_H */
