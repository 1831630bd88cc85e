/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Mailboxes hammered: reactors and threads that are none post to all reactors,
 * whose mailboxes are full most of the time, so that claims, refusals, sleeps
 * and wake-ups of all kinds meet.  Of each sender each reactor gets everything,
 * once, in order.  What the posts say lies in memory that is not atomic: so
 * TSan sees whether a mailbox orders what was written before a post.
 */

#include "tests/support/harness.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sched.h>

#define REACTORS_MAX 3
#define SENDERS_MAX 11
#define WINDOW 8	/* Notes of a sender to a reactor; more than fit. */

struct note {
	struct town *town;
	unsigned int from, to, number;
	atomic_bool posted;	/* It is the receiver's. */
};

/* One way: a sender's notes to a reactor. */
struct way {
	struct note notes[WINDOW];
	unsigned int sent;	/* The sender's. */
	unsigned int got;	/* The receiver's. */
	bool disorder;
};

struct town {
	uint32_t backend, mailbox;
	uint64_t spin_ns;
	unsigned int reactors;
	unsigned int senders;	/* The reactors, and then threads. */
	unsigned int n;		/* Notes each way. */
	_Atomic(struct weir_reactor *) r[REACTORS_MAX];
	unsigned int got[REACTORS_MAX];
	struct way way[SENDERS_MAX][REACTORS_MAX];
	pthread_barrier_t barrier;
	atomic_uint errors;
};

static void on_note(void *arg)
{
	struct note *note = arg;
	struct town *town = note->town;
	struct way *way = &town->way[note->from][note->to];

	way->disorder |= note->number != way->got;
	way->got++;
	town->got[note->to]++;
	atomic_store(&note->posted, false);
}

/* One note more, if there is capacity.  Returns whether one was sent. */
static bool send_one(struct town *town, unsigned int from, unsigned int to)
{
	struct way *way = &town->way[from][to];
	struct note *note = &way->notes[way->sent % WINDOW];
	int err;

	if (way->sent == town->n || atomic_load(&note->posted))
		return false;
	note->town = town;
	note->from = from;
	note->to = to;
	note->number = way->sent;
	atomic_store(&note->posted, true);
	err = weir_post(atomic_load(&town->r[to]), on_note, note);
	if (err) {
		atomic_store(&note->posted, false);
		if (err != -EAGAIN)
			atomic_fetch_add(&town->errors, 1);
		return false;
	}
	way->sent++;
	return true;
}

/* Some to each.  Returns whether all have been sent. */
static bool send_some(struct town *town, unsigned int from)
{
	bool all = true;
	unsigned int to;

	for (to = 0; to < town->reactors; to++) {
		while (send_one(town, from, to))
			;
		all &= town->way[from][to].sent == town->n;
	}
	return all;
}

struct dweller {
	struct town *town;
	unsigned int number;
	pthread_t thread;
};

static void *foreign_main(void *arg)
{
	struct dweller *d = arg;

	pthread_barrier_wait(&d->town->barrier);
	while (!send_some(d->town, d->number))
		sched_yield();
	pthread_barrier_wait(&d->town->barrier);
	return NULL;
}

/* While something is to be sent it must not sleep: nobody tells it of
 * capacity. */
static void send_and_receive(struct dweller *d, struct weir_reactor *r)
{
	struct town *town = d->town;
	bool sent, got;

	for (;;) {
		sent = send_some(town, d->number);
		got = town->got[d->number] == town->senders * town->n;
		if (sent && got)
			return;
		if (weir_reactor_turn(r, sent ? WEIR_FOREVER : 0) < 0)
			atomic_fetch_add(&town->errors, 1);
	}
}

static void *reactor_main(void *arg)
{
	struct dweller *d = arg;
	struct weir_reactor_opts opts = {
		.size = sizeof(opts),
		.backend = d->town->backend,
		.mailbox = d->town->mailbox,
		.spin_ns = d->town->spin_ns,
	};
	struct weir_reactor *r;
	int err;

	while ((err = weir_reactor_create(&r, &opts)) == -ENOMEM)
		sched_yield();
	if (err)
		abort();
	atomic_store(&d->town->r[d->number], r);
	pthread_barrier_wait(&d->town->barrier);
	send_and_receive(d, r);
	/* The last post may still be ringing. */
	pthread_barrier_wait(&d->town->barrier);
	if (weir_reactor_destroy(r))
		abort();
	return NULL;
}

static void check_ways(const struct town *town)
{
	unsigned int from, to;

	assert_int_equal(atomic_load(&town->errors), 0);
	for (from = 0; from < town->senders; from++)
		for (to = 0; to < town->reactors; to++) {
			assert_int_equal(town->way[from][to].got, town->n);
			assert_false(town->way[from][to].disorder);
		}
}

static void hammer(void **state, const struct town *how)
{
	struct town *town = calloc(1, sizeof(*town));
	struct dweller d[SENDERS_MAX];
	unsigned int i;

	assert_non_null(town);
	*town = *how;
	town->backend = backend_of(*state);
	town->n = want_long() ? 100000 : scaled(3000);
	pthread_barrier_init(&town->barrier, NULL, town->senders);
	for (i = 0; i < town->senders; i++) {
		d[i] = (struct dweller){ .town = town, .number = i };
		assert_int_equal(pthread_create(&d[i].thread, NULL,
			i < town->reactors ? reactor_main : foreign_main,
			&d[i]), 0);
	}
	for (i = 0; i < town->senders; i++)
		pthread_join(d[i].thread, NULL);
	pthread_barrier_destroy(&town->barrier);
	check_ways(town);
	free(town);
}

static void mailbox_of_one_cell_loses_nothing_and_keeps_the_order(void **state)
{
	hammer(state, &(struct town){ .reactors = 3, .senders = 6,
				      .mailbox = 1,
				      .spin_ns = WEIR_SPIN_NONE });
}

static void a_few_cells_lose_nothing_and_keep_the_order(void **state)
{
	hammer(state, &(struct town){ .reactors = 3, .senders = 6,
				      .mailbox = 4,
				      .spin_ns = WEIR_SPIN_NONE });
}

static void mailbox_works_for_reactors_that_spin(void **state)
{
	hammer(state, &(struct town){ .reactors = 3, .senders = 6,
				      .mailbox = 4 });
}

/* One reactor, which sends itself some as well. */
static void ten_threads_can_post_to_one_reactor_at_once(void **state)
{
	hammer(state, &(struct town){ .reactors = 1, .senders = 11,
				      .mailbox = 16,
				      .spin_ns = WEIR_SPIN_NONE });
}

int main(void)
{
	static const struct harness_case cases[] = {
		CASE(mailbox_of_one_cell_loses_nothing_and_keeps_the_order),
		CASE(a_few_cells_lose_nothing_and_keep_the_order),
		CASE(mailbox_works_for_reactors_that_spin),
		CASE(ten_threads_can_post_to_one_reactor_at_once),
	};

	return harness_run(cases, N_OF(cases));
}
