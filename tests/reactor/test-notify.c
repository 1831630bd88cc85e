/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Wake-ups: however many messages come while a reactor sleeps, its senders
 * pay for one wake-up, and for none while it is awake.
 *
 * The reactor is held where it matters, so that nothing depends on time.  Each
 * round goes through these stages:
 *
 *	ASLEEP       it goes to sleep in the kernel, and does not come out until
 *	SENT_ASLEEP  a burst was sent to it
 *	BUSY         it is in the first message, and does not come out until
 *	SENT_BUSY    another burst was sent; it runs all the rest
 *
 * The sender is a thread that is no core, or the other core of a group.
 */

#include "tests/support/group-fixture.h"

#include <pthread.h>
#include <stdatomic.h>

#include "reactor/backend.h"
#include "reactor/reactor-internal.h"

#define BURST 60 /* Some of it is shown before the sender's turn ends. */

enum {
	BEGINS,
	ASLEEP,
	SENT_ASLEEP,
	BUSY,
	SENT_BUSY,
	OVER,
};

struct sharing {
	struct weir_reactor *r;
	struct backend backend; /* The real one, but held in wait(). */
	const struct backend *real;
	atomic_int stage;
	unsigned int got; /* The reactor's. */
	bool sent; /* The sender's: in this stage. */
	pthread_t thread; /* It is this, */
	struct weir_reactor *sender; /* or this, */
	struct weir_op turn; /* by this. */
};

/* Where wait() finds it. */
static struct sharing *sharing;

static void await_stage(struct sharing *s, int stage)
{
	while (atomic_load(&s->stage) != stage)
		sched_yield();
}

/* Until the burst is there: else it would sleep for each message of it. */
static int held_wait(struct weir_reactor *r, uint64_t timeout_ns)
{
	int err;

	atomic_store(&sharing->stage, ASLEEP);
	err = sharing->real->wait(r, timeout_ns);
	await_stage(sharing, SENT_ASLEEP);
	return err;
}

static void on_message(void *arg)
{
	struct sharing *s = arg;

	if (s->got++ % (2 * BURST))
		return;
	atomic_store(&s->stage, BUSY);
	await_stage(s, SENT_BUSY);
}

static void send_burst(struct sharing *s)
{
	for (int i = 0; i < BURST; i++)
		if (weir_post(s->r, on_message, s))
			abort();
}

/*
 * One step of the sender: send, and in the next step say so.  For a core they
 * are of two turns, the first of which has shown all when the second begins.
 */
static void act(struct sharing *s)
{
	int stage = atomic_load(&s->stage);

	if (stage != ASLEEP && stage != BUSY)
		return;
	if (!s->sent)
		send_burst(s);
	else
		atomic_store(&s->stage, stage + 1);
	s->sent = !s->sent;
}

static void *send_as_thread(void *arg)
{
	struct sharing *s = arg;

	while (atomic_load(&s->stage) != OVER) {
		act(s);
		sched_yield();
	}
	return NULL;
}

/* Deferred again and again: once in each turn. */
static void send_as_core(struct weir_op *op, int64_t res)
{
	struct sharing *s = weir_container_of(op, struct sharing, turn);

	(void)res;
	if (atomic_load(&s->stage) == OVER)
		return;
	act(s);
	sched_yield();
	if (weir_defer(s->sender, op))
		abort();
}

static void begin_to_send(void *arg)
{
	struct sharing *s = arg;

	weir_op_init(&s->turn, send_as_core);
	send_as_core(&s->turn, 0);
}

static void hold(struct sharing *s)
{
	sharing = s;
	s->real = s->r->backend;
	s->backend = *s->real;
	s->backend.wait = held_wait;
	s->r->backend = &s->backend;
}

static void let_go(struct sharing *s)
{
	s->r->backend = s->real;
	sharing = NULL;
}

/* Each round has a wake-up, and a sleep for each wake-up. */
static void count_notifies(struct sharing *s)
{
	struct weir_reactor_stats before = { .size = sizeof(before) };
	struct weir_reactor_stats after = { .size = sizeof(after) };
	unsigned int rounds = scaled(100), i;

	assert_int_equal(weir_reactor_stats(s->r, &before), 0);
	for (i = 1; i <= rounds; i++)
		UNTIL(s->r, s->got == i * 2 * BURST);
	atomic_store(&s->stage, OVER);
	assert_int_equal(weir_reactor_stats(s->r, &after), 0);
	assert_int_equal(after.wakes - before.wakes, rounds);
	assert_true(after.sleeps - before.sleeps >= rounds);
}

static void a_thread_rings_once_a_sleep_and_never_else(void **state)
{
	struct sharing s = { .r = start_reactor(state) };

	hold(&s);
	assert_int_equal(pthread_create(&s.thread, NULL, send_as_thread, &s),
			 0);
	count_notifies(&s);
	pthread_join(s.thread, NULL);
	let_go(&s);
}

static void core_of_the_same_group_notifies_as_any_thread(void **state)
{
	struct sharing s = { 0 };
	struct team t;

	team_begin(&t, state, 2, 0);
	s.r = t.r[0];
	s.sender = t.r[1];
	hold(&s);
	assert_int_equal(weir_post(s.sender, begin_to_send, &s), 0);
	count_notifies(&s);
	let_go(&s);
	team_end(&t);
}

int main(void)
{
	static const struct harness_case cases[] = {
		CASE(a_thread_rings_once_a_sleep_and_never_else),
		CASE(core_of_the_same_group_notifies_as_any_thread),
	};

	return harness_run(cases, N_OF(cases));
}
