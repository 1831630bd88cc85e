/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_REACTOR_SPSC_H
#define WEIR_REACTOR_SPSC_H

/*
 * Rings: the messages between the reactors of a group.
 *
 * From each reactor to each other one there is a ring with one writer and one
 * reader.  A message has a position in the ring, and so do its cell, which the
 * sender fills, the result of a call, which the receiver fills, and the
 * operation of that call, which only the sender uses:
 *
 *	done          head            tail          next
 *	  | answered,   | in flight     | written,    | capacity
 *	  | to be told  |               | not shown   |
 *
 * The sender moves .next as it writes, .tail now and then and at the end of its
 * turn, and .done as it completes calls.  The receiver runs the messages one
 * after the other and then moves .head.  So calls are answered in the order in
 * which they came, and an answer takes no capacity beyond that of its message:
 * it cannot be refused.
 *
 * A cache line that two cores write to costs tens of nanoseconds each time it
 * moves between them.  So each shared word has one writer, which keeps copies
 * of all that it needs, and stores the shared word once for a turn's work.
 *
 * A cell is a quarter of a line.  Kinds are stored apart from cells, because
 * messages of the same kind as those before leave them unchanged.  Up to .limit
 * the sender writes messages without reading anything shared.  .limit is .next
 * when a turn begins, and is moved by SPSC_PUBLISH_EVERY at most, after a check
 * that there is capacity and that neither side stops.
 *
 * Wake-ups are those of the mailbox, see mailbox.h: each side publishes its
 * work, and then checks whether the other sleeps, or waits for capacity.
 */

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "reactor/op-internal.h"

struct weir_reactor;

/*
 * The address is fixed when the library is loaded, which saves each post a
 * call. The space that the system reserves for such variables is small; this is
 * one word.
 */
#define RINGS_TLS __attribute__((tls_model("initial-exec")))

#define SPSC_LINE 64 /* A cache line, moved as a whole. */
#define SPSC_PUBLISH_EVERY 32 /* So the other side can begin early. */

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
	atomic_uchar *kinds; /* The kind of each cell. */
	int64_t *results;
	struct weir_reactor *from, *to;

	/* The sender's own. */
	_Alignas(SPSC_LINE) uint64_t next;
	uint64_t limit; /* At .next == .limit, check more. */
	uint64_t done;
	uint64_t n_calls; /* Not completed yet. */
	struct weir_op **ops; /* By position; of calls only. */
	struct op_queue waiting; /* Operations that wait for capacity. */
	struct spsc *next_unshown; /* Itself: the last; NULL: in no list. */

	/* The receiver's own. */
	_Alignas(SPSC_LINE) uint64_t taken;
	uint64_t seen; /* .tail as last loaded. */
};

_Static_assert(sizeof(struct spsc) == 5 * SPSC_LINE,
	       "what one side writes is on one line");

/* All reactors of a group. */
struct ring_matrix {
	uint32_t n;
	uint32_t size; /* Cells of a ring. */
	atomic_uint n_quiet;
	struct rings *rings; /* One per reactor. */
};

/* One reactor's. */
struct rings {
	struct ring_matrix *mesh;
	struct weir_reactor *r;
	uint32_t self;
	uint32_t cursor; /* First ring of this turn. */
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
 * The reactor whose turn this thread runs, or outside of turns the reactor of
 * this thread; NULL if that has no rings.  Posts are sent on its rings, so that
 * all posts of one sender take the same path.
 */
extern _Thread_local struct weir_reactor *rings_here RINGS_TLS;

/*
 * A turn inside a callback of another reactor, or on a thread that has one: the
 * turn may destroy that, as the core of a group that is run in it.
 */
struct rings_frame {
	struct weir_reactor *outer;
	struct rings_frame *prev;
};

/* Those that are on the stack, the last first. */
extern _Thread_local struct rings_frame *rings_frames RINGS_TLS;

/* @r is being destroyed by this thread. */
static inline void rings_forget(const struct weir_reactor *r)
{
	struct rings_frame *f;

	if (rings_here == r)
		rings_here = NULL;
	for (f = rings_frames; f; f = f->prev)
		if (f->outer == r)
			f->outer = NULL;
}

/* The sender; and group/spsc-inline.h. */
/* .next is at .limit; 0, -EAGAIN or -ESHUTDOWN. */
int spsc_write_slowly(struct spsc *spsc, union spsc_fn fn, void *arg,
		      enum spsc_kind kind);
void spsc_cancel(struct spsc *spsc, uint64_t pos);
bool spsc_has_capacity(struct spsc *spsc);

/* Called in a turn: run the messages that came, and complete the calls that
 * were answered, at most @max of each.  Returns how many of both. */
unsigned int rings_run(struct weir_reactor *r, unsigned int max);
/* Is there something for rings_run()? */
bool rings_have(const struct rings *rings);
/* Is there a call that has not been answered, or not completed? */
bool rings_owed(const struct rings *rings);
/* Publish what was written, and wake the readers.  NULL is allowed. */
void rings_publish(struct rings *rings);

/* The reactor stops. */
void rings_close(struct rings *rings);
/* The reactor is drained.  Returns whether all others are, too; then no message
 * can come any more. */
bool rings_quiet(struct rings *rings);

#endif /* WEIR_REACTOR_SPSC_H */
