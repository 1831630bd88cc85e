/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Two cores and four threads that are none, all of which send to both cores as
 * fast as they can: none is lost, none comes twice, and none before an earlier
 * one of its sender.  Cores wait for capacity, the others try again.  In
 * full, 10^8 messages.
 *
 * What a message says lies in memory that is not atomic, so that TSan sees
 * whether rings order what was written before.
 */

#include "tests/support/group-fixture.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#define CORES 2
#define THREADS 4
#define SENDERS (CORES + THREADS)
#define NOTES 4096 /* Of a sender; used again when read. */

struct storm;

struct note {
	struct sender *sender;
	uint64_t number;
	uint32_t to;
	atomic_bool used;
};

struct sender {
	struct storm *storm;
	uint32_t index;
	uint64_t sent;
	struct weir_op capacity; /* Of a core. */
	pthread_t thread;
	struct note notes[NOTES];
};

/* What a core has got, of each sender. */
struct inbox {
	_Alignas(64) uint64_t next[SENDERS], got;
	bool disorder;
};

struct storm {
	struct team t;
	uint64_t n; /* Of each sender, to both in turn. */
	struct sender senders[SENDERS];
	struct inbox inbox[CORES];
	atomic_uint errors, over;
};

static void on_note(void *arg)
{
	struct note *note = arg;
	struct sender *s = note->sender;
	struct storm *st = s->storm;
	struct inbox *in = &st->inbox[note->to];

	in->disorder |= note->number < in->next[s->index];
	in->next[s->index] = note->number + 1;
	in->got++;
	atomic_store(&note->used, false);
}

/* 0, -EAGAIN if there is no capacity, or 1: the note itself is still used. */
static int send_one(struct sender *s)
{
	struct note *note = &s->notes[s->sent % NOTES];
	struct storm *st = s->storm;
	int err;

	if (atomic_load(&note->used))
		return 1;
	note->sender = s;
	note->number = s->sent;
	note->to = (uint32_t)(s->sent / 3 % CORES);
	atomic_store(&note->used, true);
	err = weir_post(st->t.r[note->to], on_note, note);
	if (err)
		atomic_store(&note->used, false);
	else
		s->sent++;
	return err;
}

static void *foreign_main(void *arg)
{
	struct sender *s = arg;
	int err;

	while (s->sent < s->storm->n) {
		err = send_one(s);
		if (err == -EAGAIN || err == 1)
			sched_yield();
		else if (err)
			atomic_fetch_add(&s->storm->errors, 1);
	}
	atomic_fetch_add(&s->storm->over, 1);
	return NULL;
}

/* As much as fits; then it waits for capacity, or for the next turn. */
static void send_more(struct sender *s)
{
	struct weir_reactor *r = s->storm->t.r[s->index];
	uint32_t to;
	int err = 0;

	while (s->sent < s->storm->n && !err)
		err = send_one(s);
	to = (uint32_t)(s->sent / 3 % CORES);
	if (err == -EAGAIN)
		err = weir_capacity_wait(r, &s->capacity, s->storm->t.r[to]);
	else if (err == 1)
		err = weir_defer(r, &s->capacity);
	else
		atomic_fetch_add(&s->storm->over, 1);
	if (err)
		atomic_fetch_add(&s->storm->errors, 1);
}

static void on_capacity(struct weir_op *op, int64_t res)
{
	struct sender *s = weir_container_of(op, struct sender, capacity);

	if (res)
		atomic_fetch_add(&s->storm->errors, 1);
	send_more(s);
}

static void begin(void *arg)
{
	send_more(arg);
}

static void check(const struct storm *st)
{
	uint64_t got = 0;
	int i;

	assert_int_equal(atomic_load(&st->errors), 0);
	for (i = 0; i < CORES; i++) {
		assert_false(st->inbox[i].disorder);
		got += st->inbox[i].got;
	}
	assert_int_equal(got, st->n * SENDERS);
}

static uint64_t how_many(void)
{
	if (want_long())
		return 100000000 / SENDERS + 1;
	return UNDER_TSAN ? 3000 : scaled(100000);
}

/* As many turns as it takes: of some progress in each million. */
static void until_over(struct storm *st)
{
	uint64_t got;

	do {
		got = st->inbox[0].got;
		UNTIL(st->t.r[0], atomic_load(&st->over) == SENDERS ||
					  st->inbox[0].got > got + 1000);
	} while (atomic_load(&st->over) != SENDERS);
}

static void run_storm(void **state, uint32_t spsc)
{
	struct storm *st = aligned_alloc(64, sizeof(*st));
	int i;

	assert_non_null(st);
	memset(st, 0, sizeof(*st));
	st->n = how_many();
	team_begin(&st->t, state, CORES, spsc);
	for (i = 0; i < SENDERS; i++) {
		st->senders[i].storm = st;
		st->senders[i].index = (uint32_t)i;
		weir_op_init(&st->senders[i].capacity, on_capacity);
	}
	for (i = 0; i < CORES; i++)
		assert_int_equal(weir_post(st->t.r[i], begin, &st->senders[i]),
				 0);
	for (i = CORES; i < SENDERS; i++)
		assert_int_equal(pthread_create(&st->senders[i].thread, NULL,
						foreign_main, &st->senders[i]),
				 0);
	until_over(st);
	for (i = CORES; i < SENDERS; i++)
		pthread_join(st->senders[i].thread, NULL);
	team_end(&st->t);
	check(st);
	free(st);
}

static void message_is_not_lost_and_does_not_overtake(void **state)
{
	run_storm(state, 0);
}

static void message_through_a_full_ring_is_not_lost(void **state)
{
	if (want_long())
		skip_because("the other one is the long one");
	run_storm(state, 2);
}

/* A core that is told to stop while another one is in its turn. */
struct late {
	struct team t;
	struct weir_op sleep; /* Its end says that core 1 stops. */
	atomic_bool begun, stops;
	unsigned int sent, ran;
	int refusal;
	bool over;
};

static void on_stop(struct weir_op *op, int64_t res)
{
	struct late *l = weir_container_of(op, struct late, sleep);

	(void)res;
	atomic_store(&l->stops, true);
}

static void sleep_long(void *arg)
{
	struct late *l = arg;

	l->ran++;
	weir_op_init(&l->sleep, on_stop);
	if (weir_sleep_until(l->t.r[1], &l->sleep, WEIR_FOREVER - 1))
		abort();
	atomic_store(&l->begun, true);
}

static void count_late(void *arg)
{
	struct late *l = arg;

	l->ran++;
}

/* On core 0: what it may write without a look ends soon. */
static void send_late(void *arg)
{
	struct late *l = arg;

	l->refusal = weir_post(l->t.r[1], count_late, l);
	l->sent += !l->refusal;
	weir_reactor_stop(l->t.r[1]);
	while (!atomic_load(&l->stops))
		sched_yield();
	while (!l->refusal && l->sent < 1000) {
		l->refusal = weir_post(l->t.r[1], count_late, l);
		l->sent += !l->refusal;
	}
	l->over = true;
}

static void message_sent_before_the_end_is_known_is_run(void **state)
{
	static struct late l;

	memset(&l, 0, sizeof(l));
	team_begin(&l.t, state, CORES, 0);
	assert_int_equal(weir_post(l.t.r[1], sleep_long, &l), 0);
	l.sent++;
	UNTIL(l.t.r[0], atomic_load(&l.begun));
	assert_int_equal(weir_post(l.t.r[0], send_late, &l), 0);
	UNTIL(l.t.r[0], l.over);
	assert_int_equal(l.refusal, -ESHUTDOWN);
	assert_int_equal(weir_post(l.t.r[1], count_late, &l), -ESHUTDOWN);
	team_end(&l.t);
	assert_true(l.sent < 100);
	assert_int_equal(l.ran, l.sent);
}

int main(void)
{
	static const struct harness_case cases[] = {
		CASE(message_is_not_lost_and_does_not_overtake),
		CASE(message_through_a_full_ring_is_not_lost),
		CASE(message_sent_before_the_end_is_known_is_run),
	};

	return harness_run(cases, N_OF(cases));
}
