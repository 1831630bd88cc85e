/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The timer wheel: every deadline of a reactor, in O(1) per add and del.
 *
 * Most deadlines guard an operation that finishes long before, so they are
 * added and deleted, or re-armed, far more often than they expire.  A heap pays
 * log(n) and a handful of cache misses for each of these; a wheel pays a list
 * insertion.  The price is resolution: times are rounded up to ticks of 16 us,
 * so a node is never early and at most a tick late.
 *
 * The wheel allocates nothing and uses nothing of its nodes but their time. It
 * returns the nodes that are due to the caller, which knows what they are
 * embedded in.
 *
 * All functions are called on the thread of the reactor that the wheel is in.
 * None of them blocks, allocates or makes a system call.
 */
#ifndef REACTOR_WHEEL_H
#define REACTOR_WHEEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weir/op.h>

#include "base/provider.h"

/*
 * 2^14 ns = 16.4 us: shorter than the delay of a sleeping thread's wake-up (50
 * us of timer slack by default), and coarse enough that a burst shares slots.
 */
#define WHEEL_TICK_SHIFT 14
#define WHEEL_TICK_NS ((uint64_t)1 << WHEEL_TICK_SHIFT)

/* One bit of a 64-bit map per slot of a level. */
#define WHEEL_SLOT_SHIFT 6
#define WHEEL_SLOTS (1 << WHEEL_SLOT_SHIFT)

/*
 * Nine times 6 bits cover all 2^50 ticks of a 64-bit clock.  Five would do
 * for four hours, but then what is later needs a rule of its own; the upper
 * levels cost 2 KiB each that are not touched.
 */
#define WHEEL_LEVELS 9

struct wheel {
	uint64_t clk;		/* Ticks; every node's tick is >= this. */
	uint64_t now_ns;	/* Highest time seen by wheel_expire(). */
	size_t n;		/* Nodes in the wheel. */

	/* The slot whose nodes are being moved down, or NULL. */
	struct weir_timer_node *moving;

	uint64_t levels;		/* Bit l: map[l] is not 0. */
	uint64_t map[WHEEL_LEVELS];	/* Bit s: slot[l][s] is not empty. */

	/*
	 * Heads of circular lists; an empty one points at itself.  A head's
	 * expires_ns is the tick that its nodes have in common; see wheel.c.
	 */
	struct weir_timer_node slot[WHEEL_LEVELS][WHEEL_SLOTS];
};

/* The wheel points into itself: do not copy or move it. */
void wheel_init(struct wheel *w, uint64_t now_ns);

/*
 * Add @n, which must not be in a wheel, to expire at @expires_ns.
 *
 * A time that wheel_expire() has passed already is due at once, or with the
 * next tick if it is later than some node that is due and has not been taken
 * yet. UINT64_MAX means never, and so does, rounded up, the last tick before
 * it.
 */
void wheel_add(struct wheel *w, struct weir_timer_node *n, uint64_t expires_ns);

/* Take @n out.  Harmless if it is in no wheel. */
void wheel_del(struct wheel *w, struct weir_timer_node *n)
	PROVIDER_API(wheel_del);

/*
 * wheel_del() and wheel_add() in one.  Far cheaper for a node that is to expire
 * later than before: the wheel moves it only at its old time.  A node in no
 * wheel is simply added.
 */
void wheel_rearm(struct wheel *w, struct weir_timer_node *n,
		 uint64_t expires_ns);

/*
 * The time to call wheel_expire() again, at most a tick after the earliest
 * expiry; not after the last time seen if there is something due now.
 *
 * It may be earlier than any expiry when a node was re-armed for later, or when
 * a crowded slot is to be spread over the level below, which is better done
 * before its first node is due.  A slot with a few nodes is not worth waking up
 * for.
 *
 * Returns UINT64_MAX if nothing will ever be due.
 */
uint64_t wheel_next(struct wheel *w);

/*
 * Take one due node out of the wheel.  They come in the order of their ticks
 * and, where these are equal, in the order they were added, except those that
 * were re-armed or added while a slot was being spread.  A @now_ns in the past
 * counts as the highest so far.
 *
 * The caller calls this in a loop; between two calls any node may be added,
 * deleted or freed.
 *
 * Returns NULL if no node is due, or if none was found with the work that one
 * call may do (that of moving a few hundred nodes).  In the latter case
 * wheel_next() is not after @now_ns, so call it before going to sleep.
 */
struct weir_timer_node *wheel_expire(struct wheel *w, uint64_t now_ns);

static inline bool wheel_pending(const struct weir_timer_node *n)
{
	return n->pprev != NULL;
}

#endif
