/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Posts and returned operations; mailbox.h says how they travel, and why there
 * are no fences.
 *
 * The order of memory, by purpose.  S is a sender, R the reactor.
 *
 * 1. R sees what S wrote before a post or a return.  S fills the cell and
 * stores .seq = full; R loads .seq, finds it full, and reads the cell: a
 * release that is paired with an acquire.  If these were relaxed, R could read
 * the cell as it was a round before.  For .returned the same: the exchange of
 * op_return() releases the operation and its result, and that of
 * take_returned() acquires them.  R takes the whole stack and never compares
 * with an operation on it, so no operation can leave and come back in between
 * (no ABA).
 *
 * 2. S does not fill a cell before R has read it.  R stores .seq = free for the
 * next round after it has read .fn and .arg; S loads .seq, finds it free for
 * its position, and only then claims: release and acquire again, in the other
 * direction.  If S still finds a cell full that R has emptied, S is refused,
 * which does no harm.
 *
 * 3. One sender for each position.  The exchange of .tail decides; no read
 * depends on its order, because .seq has already provided that of (2).
 * Positions have 64 bits and never repeat, and .seq differs from round to
 * round: if S was suspended between its loads, its exchange of .tail fails, or
 * it finds that .seq has moved on and loads both again.
 *
 * 4. The wake-up.  S stores .seq (or exchanges .returned, or sets a bit of the
 * reactor's .requests), then loads .asleep; R stores .asleep, then loads .seq,
 * .returned and .requests.  Release and acquire are too weak for this: each
 * side may delay its store until after its load, so that neither sees the
 * other, and R sleeps on a full mailbox.  If they are sequentially consistent,
 * all threads agree on one order of the four, in which one of the stores comes
 * first and the other side's load sees it.  So of the atomics above the store
 * of full, the exchange of .returned, the stores and loads of .asleep, and R's
 * loads cannot be weaker.  R checks only the cell at its head: a sender that
 * fills another cell leaves the wake-up to the sender that fills that one.
 *
 * 5. One wake-up for each sleep.  Of the senders that load .asleep as true, the
 * one whose exchange clears it wakes R.  R stores false after it has woken: a
 * wake-up for work that R has found by itself ends a later sleep early, and a
 * new sleep goes through all of (4) again.
 *
 * R's store of free is in none of these but (2), and so only a release: on x86
 * that saves a locked instruction for each post.  The others could be weaker:
 * S's loads of .tail (relaxed) and .seq (acquire), .wakes (relaxed).  That
 * would save nothing, and one order for all of them is easier to argue.
 *
 * tests/models/mailbox.pml explores all orders of these steps, and finds that a
 * variant without R's second check hangs.  tests/reactor/test-mailbox.c runs
 * them under load.
 */

#include <stdlib.h>

#include "base/alloc.h"
#include "base/mutation.h"
#include "base/own.h"
#include "base/probe.h"
#include "base/why.h"
#include "reactor/group/spsc-inline.h"

/*
 * A cell's sequence is even when it is free for a position, odd when it is full
 * there, and is moved on by a whole round when it is emptied.  Doubled, because
 * in a mailbox of one cell the next round begins at the next position.
 */
static inline uint64_t free_at(uint64_t pos)
{
	return 2 * pos;
}

static inline uint64_t full_at(uint64_t pos)
{
	return 2 * pos + 1;
}

int mailbox_init(struct mailbox *box, uint32_t n)
{
	debug_check(n && !(n & (n - 1)));
	box->cells = mem_calloc(n, sizeof(*box->cells));
	if (!box->cells)
		return -ENOMEM;
	box->mask = n - 1;
	box->waiting_last = &box->waiting;
	for (uint32_t i = 0; i < n; i++) {
		atomic_init(&box->cells[i].seq, free_at(i));
		own_words(&box->cells[i].seq, sizeof(box->cells[i].seq));
	}
	own_words(&box->tail, sizeof(box->tail));
	own_words(&box->returned, sizeof(box->returned));
	own_words(&box->asleep, sizeof(box->asleep));
	own_words(&box->wakes, sizeof(box->wakes));
	own_words(&box->visitors, sizeof(box->visitors));
	own_words(&box->refused, sizeof(box->refused));
	return 0;
}

void mailbox_fini(struct mailbox *box)
{
	free(box->cells);
}

int mailbox_refuses(struct mailbox *box)
{
	atomic_fetch_add_explicit(&box->refused, 1, memory_order_relaxed);
	return why_static(-EAGAIN, "the mailbox of the other reactor, or the "
			  "ring to it, is full; see weir_capacity_wait()");
}

static inline int put(struct mailbox *box, void (*fn)(void *arg), void *arg)
{
	uint64_t pos = atomic_load(&box->tail);
	struct mailbox_cell *cell;
	uint64_t seq;

	for (;;) {
		cell = &box->cells[pos & box->mask];
		seq = atomic_load(&cell->seq);
		if (seq < free_at(pos))
			return -EAGAIN;
		if (seq > free_at(pos))
			pos = atomic_load(&box->tail);
		else if (atomic_compare_exchange_weak(&box->tail, &pos,
						      pos + 1))
			break;
	}
	own_after(&box->tail); /* One word for all cells: drd is slow. */
	cell->fn = fn;
	cell->arg = arg;
	own_before(&box->tail);
	atomic_store(&cell->seq, full_at(pos));
	return 0;
}

int mailbox_put(struct mailbox *box, void (*fn)(void *arg), void *arg)
{
	return put(box, fn, arg);
}

static inline bool has_post(struct mailbox *box)
{
	struct mailbox_cell *cell = &box->cells[box->head & box->mask];

	return atomic_load(&cell->seq) == full_at(box->head);
}

static bool has_more(struct mailbox *box)
{
	return (box->rings && rings_have(box->rings)) ||
	       (box->waiting && mailbox_has_capacity(box));
}

bool mailbox_has(struct mailbox *box)
{
	return box->due || has_post(box) ||
	       (atomic_load(&box->returned) && !mutation(lost_wakeup)) ||
	       (unlikely(box->more) && has_more(box));
}

uint64_t mailbox_capacity(struct mailbox *box)
{
	debug_check(atomic_load(&box->tail) - box->head <= box->mask + 1);
	return box->mask + 1 - (atomic_load(&box->tail) - box->head);
}

/* Report capacity only when half is free, so that a waiter can push many
 * messages and not just one. */
bool mailbox_has_capacity(struct mailbox *box)
{
	return mailbox_capacity(box) >= (box->mask + 2) / 2;
}

/* The stack has the last on top; results are due in the order they came. */
static void take_returned(struct mailbox *box)
{
	struct weir_op *op, *next, *list = NULL, **end = &box->due;

	op = atomic_exchange(&box->returned, NULL);
	own_after(&box->returned);
	for (; op; op = next) {
		next = op->next;
		op->next = list;
		list = op;
	}
	while (*end)
		end = &(*end)->next;
	*end = list;
}

bool mailbox_take(struct weir_reactor *r, const struct weir_op *op)
{
	struct mailbox *box = &r->mailbox;
	struct weir_op **at = &box->due;

	reactor_check_thread(r);
	take_returned(box);
	while (*at && *at != op)
		at = &(*at)->next;
	if (!*at)
		return false;
	*at = op->next;
	return true;
}

static void bring_back(struct weir_reactor *r)
{
	struct mailbox *box = &r->mailbox;
	struct weir_op *op;

	if (unlikely(atomic_load(&box->returned)))
		take_returned(box);
	while (unlikely((op = box->due))) {
		box->due = op->next;
		if (op->cls->returned)
			op->cls->returned(op);
		else
			op_complete(op, op->res);
	}
}

static unsigned int run_more(struct weir_reactor *r, unsigned int max)
{
	if (unlikely(r->mailbox.waiting))
		capacity_waits_tell(r);
	return r->mailbox.rings ? rings_run(r, max) : 0;
}

__attribute__((noinline)) static unsigned int run(struct weir_reactor *r,
						  unsigned int max)
{
	struct mailbox *box = &r->mailbox;
	struct mailbox_cell *cell;
	void (*fn)(void *arg);
	unsigned int n;
	void *arg;

	bring_back(r);
	for (n = 0; n < max; n++) {
		cell = &box->cells[box->head & box->mask];
		if (atomic_load(&cell->seq) != full_at(box->head))
			break;
		own_after(&box->tail);
		fn = cell->fn;
		arg = cell->arg;
		box->head++;
		own_before(&box->tail);
		atomic_store_explicit(&cell->seq, free_at(box->head + box->mask),
				      memory_order_release);
		fn(arg);
	}
	r->stats.posts += n;
	if (unlikely(box->more))
		n += run_more(r, max);
	return n;
}

/* Most turns do no more than this. */
unsigned int mailbox_run(struct weir_reactor *r, unsigned int max)
{
	struct mailbox *box = &r->mailbox;

	reactor_check_thread(r);
	if (likely(!box->more && !box->due && !atomic_load(&box->returned) &&
		   !has_post(box)))
		return 0;
	return run(r, max);
}

void mailbox_wake(struct weir_reactor *r)
{
	if (atomic_load(&r->mailbox.asleep) &&
	    atomic_exchange(&r->mailbox.asleep, false)) {
		PROBE1(wake, r);
		atomic_fetch_add(&r->mailbox.wakes, 1);
		r->backend->wake(r);
	}
}

void mailbox_send(struct weir_reactor *r, struct weir_op *op)
{
	struct weir_op *top = atomic_load(&r->mailbox.returned);

	do {
		op->next = top;
		own_before(&r->mailbox.returned);
	} while (!atomic_compare_exchange_weak(&r->mailbox.returned, &top, op));
	mailbox_wake(r);
}

void op_return(struct weir_op *op)
{
	mailbox_send(op->reactor, op);
}

/* These two apart, so that a post that a ring takes has no call in it. */
__attribute__((noinline)) static int post_slowly(struct spsc *spsc,
						 void (*fn)(void *arg),
						 void *arg)
{
	int err = spsc_post(spsc, fn, arg);

	return likely(err != -EAGAIN) ? err :
					mailbox_refuses(&spsc->to->mailbox);
}

static inline int post_to_mailbox(struct weir_reactor *r, void (*fn)(void *arg),
				  void *arg)
{
	if (unlikely(put(&r->mailbox, fn, arg)))
		return mailbox_refuses(&r->mailbox);
	if (unlikely(atomic_load(&r->mailbox.asleep)))
		mailbox_wake(r);
	return 0;
}

/* The reactor is stopping, or one of a world, which refuses other threads. */
__attribute__((cold, noinline)) static int
post_if_allowed(struct weir_reactor *r, void (*fn)(void *arg), void *arg)
{
	if (reactor_is_down(r))
		return -ESHUTDOWN;
	if (!pthread_equal(r->thread, pthread_self()))
		return why_static(-EOPNOTSUPP,
				  "weir_post: the reactor is simulated, and the "
				  "post is of another thread than its world's: "
				  "no seed decides when that comes");
	return post_to_mailbox(r, fn, arg);
}

__attribute__((noinline)) static int post_from_afar(struct weir_reactor *r,
						    void (*fn)(void *arg),
						    void *arg)
{
	if (unlikely(atomic_load(&r->refuses)))
		return post_if_allowed(r, fn, arg);
	return post_to_mailbox(r, fn, arg);
}

int weir_post(struct weir_reactor *r, void (*fn)(void *arg), void *arg)
{
	struct spsc *spsc;

	if (r->mailbox.rings && rings_here) {
		spsc = spsc_between(rings_here, r);
		if (likely(spsc && spsc->next != spsc->limit))
			return spsc_post(spsc, fn, arg);
		if (spsc)
			return post_slowly(spsc, fn, arg);
	}
	return post_from_afar(r, fn, arg);
}

/* Requests of any thread, which the next turn heeds. */

void weir_reactor_stop(struct weir_reactor *r)
{
	own_before(&r->requests);
	atomic_fetch_or(&r->requests, REQUEST_STOP);
	mailbox_wake(r);
}

void weir_reactor_break(struct weir_reactor *r)
{
	own_before(&r->requests);
	atomic_fetch_or(&r->requests, REQUEST_BREAK);
	mailbox_wake(r);
}
