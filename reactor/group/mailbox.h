/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_REACTOR_MAILBOX_H
#define WEIR_REACTOR_MAILBOX_H

/*
 * The mailbox of a reactor, by which other threads send it posts, which are new
 * work and bounded, and return operations, which is never refused.
 *
 * Posts go through a ring of cells with a sequence number each: a sender claims
 * a cell by moving the tail, fills it, and publishes it by its sequence number;
 * the reactor takes cells in order.  Senders never wait for one another, and a
 * sender that is suspended between claim and publish delays only later posts.
 * Operations are returned on a stack that is linked through them.  Reactors of
 * one group use rings to each other, see spsc.h; the mailbox is for all other
 * threads.
 *
 * Sleeping: the reactor sets @asleep, checks again for messages, and sleeps; a
 * sender publishes and then checks @asleep.  All four are sequentially
 * consistent operations, so that one of the two sees the other, and no fence is
 * needed, which TSan would not understand.  The thread that clears @asleep
 * wakes the reactor: once for each sleep, however many posts there are.
 */

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/provider.h"

struct rings;
struct weir_op;
struct weir_reactor;

struct mailbox_cell {
	_Atomic uint64_t seq;
	void (*fn)(void *arg);
	void *arg;
};

struct mailbox {
	/* The reactor's. */
	struct mailbox_cell *cells;
	uint64_t mask;
	uint64_t head;
	struct weir_op *due;		/* Returned; completed in order. */
	struct rings *rings; /* NULL: it is in no group. */
	struct weir_op *waiting;	/* Waits of others; see call.c. */
	struct weir_op **waiting_last;
	bool more;		/* .rings or .waiting is set. */

	/* The senders'. */
	_Atomic uint64_t tail;
	_Atomic(struct weir_op *) returned;
	atomic_bool asleep;
	atomic_ulong wakes;
	atomic_uint visitors;		/* Other threads inside; see call.c. */

	/* On a line of its own: a sender that retries while it is full is
	 * not to disturb the reactor that empties it. */
	_Alignas(64) _Atomic uint64_t refused;
};

int mailbox_init(struct mailbox *box, uint32_t n);
void mailbox_fini(struct mailbox *box);

/* Any thread.  0 or -EAGAIN; the caller wakes the reactor. */
int mailbox_put(struct mailbox *box, void (*fn)(void *arg), void *arg);

/* Any thread: a sender got -EAGAIN.  Returns that, with a message. */
__attribute__((cold)) int mailbox_refuses(struct mailbox *box);

/* Whether something is there for the reactor. */
bool mailbox_has(struct mailbox *box) PROVIDER_API(mailbox_has);

/* Complete what was returned; run at most @max each of posts, messages of rings
 * and ends of calls, so that none can starve the others.  Returns how many. */
unsigned int mailbox_run(struct weir_reactor *r, unsigned int max);

/* Take only @op, which another thread returns; others stay.  Returns false if
 * it has not arrived yet.  The handler of a returned operation may call
 * this. */
bool mailbox_take(struct weir_reactor *r, const struct weir_op *op);

/* Any thread: put @op on @r's stack, and wake it.  Never fails. */
void mailbox_send(struct weir_reactor *r, struct weir_op *op);

/*
 * Its reactor: for how many posts there is capacity; whether for half of all.
 */
uint64_t mailbox_capacity(struct mailbox *box);
bool mailbox_has_capacity(struct mailbox *box);

/* Call after .rings or .waiting has changed: each turn checks only .more. */
static inline void mailbox_note_more(struct mailbox *box)
{
	box->more = box->rings || box->waiting;
}

/* call.c: end the waits for capacity: because there is some; because the
 * reactor stops; those that were marked as cancelled. */
void capacity_waits_tell(struct weir_reactor *r);
void capacity_waits_end(struct weir_reactor *r);
void capacity_waits_recall(struct weir_reactor *r);
void mailbox_await_visitors(struct weir_reactor *r);

/* Any thread: wake @r if it sleeps and no thread did yet. */
void mailbox_wake(struct weir_reactor *r);

#endif /* WEIR_REACTOR_MAILBOX_H */
