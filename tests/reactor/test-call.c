/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Calls between reactors, of one group and of none, and waiting for capacity;
 * over real threads and in a simulated world.
 */

#include "tests/support/group-fixture.h"

#include <stdatomic.h>
#include <sys/syscall.h>

#define SMALL 4		/* Messages in a ring that is soon full. */

struct ask {
	struct rec rec;
	atomic_int ran;
	int64_t answer;
};

static int64_t answer(void *arg)
{
	struct ask *ask = arg;

	atomic_fetch_add(&ask->ran, 1);
	return ask->answer;
}

static void ask_init(struct ask *ask, int64_t value)
{
	rec_init(&ask->rec);
	atomic_init(&ask->ran, 0);
	ask->answer = value;
}

static void make(struct weir_reactor *r, struct ask *ask,
		 struct weir_reactor *to)
{
	STARTS(weir_call(r, &ask->rec.op, to, answer, ask));
}

/* It has run and has its result, or neither. */
static void check_outcome(struct ask *ask, int64_t otherwise)
{
	assert_int_equal(ask->rec.calls, 1);
	if (atomic_load(&ask->ran)) {
		assert_int_equal(atomic_load(&ask->ran), 1);
		assert_int_equal(ask->rec.res, ask->answer);
	} else {
		assert_int_equal(ask->rec.res, otherwise);
	}
}

static void a_call_runs_there_and_ends_here(void **state)
{
	struct ask ask;
	struct team t;

	team_begin(&t, state, 2, 0);
	ask_init(&ask, 42);
	make(t.r[0], &ask, t.r[1]);
	assert_int_equal(weir_op_is_busy(&ask.rec.op), 1);
	assert_int_equal(ask.rec.calls, 0);
	assert_int_equal(finish(t.r[0], &ask.rec), 42);
	assert_int_equal(atomic_load(&ask.ran), 1);
	ask_init(&ask, -EIO);
	make(t.r[0], &ask, t.r[1]);
	assert_int_equal(finish(t.r[0], &ask.rec), -EIO);
	team_end(&t);
}

static void a_reactor_can_call_itself(void **state)
{
	struct ask ask;
	struct team t;

	team_begin(&t, state, 2, 0);
	ask_init(&ask, 7);
	make(t.r[0], &ask, t.r[0]);
	assert_int_equal(atomic_load(&ask.ran), 0);
	assert_int_equal(finish(t.r[0], &ask.rec), 7);
	team_end(&t);
}

static void reactor_in_no_group_can_call(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct ask ask[2];
	struct team t;

	team_begin(&t, state, 2, 0);
	ask_init(&ask[0], 1);
	ask_init(&ask[1], 2);
	make(r, &ask[0], t.r[1]);
	make(t.r[0], &ask[1], r);
	assert_int_equal(finish(r, &ask[0].rec), 1);
	UNTIL(r, atomic_load(&ask[1].ran));
	UNTIL(t.r[0], ask[1].rec.calls);
	assert_int_equal(ask[1].rec.res, 2);
	team_end(&t);
}

static void bad_arguments_are_refused(void **state)
{
	struct ask ask;
	struct team t;

	team_begin(&t, state, 2, 0);
	ask_init(&ask, 1);
	assert_int_equal(weir_call(t.r[0], &ask.rec.op, NULL, answer, &ask),
			 -EINVAL);
	assert_int_equal(weir_call(t.r[0], &ask.rec.op, t.r[1], NULL, &ask),
			 -EINVAL);
	assert_int_equal(weir_capacity_wait(t.r[0], &ask.rec.op, NULL),
			 -EINVAL);
	make(t.r[0], &ask, t.r[1]);
	assert_int_equal(weir_call(t.r[0], &ask.rec.op, t.r[1], answer, &ask),
			 -EINVAL);
	assert_int_equal(weir_capacity_wait(t.r[0], &ask.rec.op, t.r[1]),
			 -EINVAL);
	finish(t.r[0], &ask.rec);
	team_end(&t);
}

/* Messages of both kinds, each with its number, from core 0 to core 1. */
#define MESSAGES 200

struct series {
	struct team t;
	struct numbered {
		struct weir_op op;
		struct series *series;
		unsigned int number;
	} msg[MESSAGES];
	unsigned int got;	/* Core 1's. */
	bool disorder;
	unsigned int answered;
};

static int64_t take_call(void *arg)
{
	struct numbered *msg = arg;
	struct series *s = msg->series;

	s->disorder |= msg->number != s->got++;
	return msg->number;
}

static void take_post(void *arg)
{
	take_call(arg);
}

static void on_taken(struct weir_op *op, int64_t res)
{
	struct numbered *msg = weir_container_of(op, struct numbered, op);

	assert_int_equal(res, msg->number);
	msg->series->answered++;
}

static int send_numbered(struct numbered *msg)
{
	struct series *s = msg->series;

	if (msg->number % 3)
		return weir_post(s->t.r[1], take_post, msg);
	return weir_call(s->t.r[0], &msg->op, s->t.r[1], take_call, msg);
}

static void send_series(void *arg)
{
	struct series *s = arg;

	for (unsigned int i = 0; i < MESSAGES; i++)
		if (send_numbered(&s->msg[i]))
			abort();
}

static void calls_and_posts_keep_their_order(void **state)
{
	struct series *s = calloc(1, sizeof(*s));
	unsigned int i;

	assert_non_null(s);
	team_begin(&s->t, state, 2, 256);
	for (i = 0; i < MESSAGES; i++) {
		weir_op_init(&s->msg[i].op, on_taken);
		s->msg[i].series = s;
		s->msg[i].number = i;
	}
	assert_int_equal(weir_post(s->t.r[0], send_series, s), 0);
	UNTIL(s->t.r[0], s->answered == (MESSAGES + 2) / 3);
	team_end(&s->t);
	assert_int_equal(s->got, MESSAGES);
	assert_false(s->disorder);
	free(s);
}

/* Cancel and deadline. */

static void cancel_in(void **state, bool in_group)
{
	struct weir_reactor *r;
	struct ask ask;
	struct team t;

	team_begin(&t, state, 2, 0);
	r = in_group ? t.r[0] : start_reactor(state);
	for (unsigned int i = 0; i < scaled(1000); i++) {
		ask_init(&ask, 1);
		make(r, &ask, t.r[1]);
		for (unsigned int k = 0; k < i % 7 * 50; k++)
			atomic_thread_fence(memory_order_seq_cst);
		assert_int_equal(weir_op_cancel(&ask.rec.op), 0);
		assert_int_equal(weir_op_cancel(&ask.rec.op), 0);
		finish(r, &ask.rec);
		check_outcome(&ask, -ECANCELED);
	}
	team_end(&t);
}

static void a_cancel_reaches_what_was_not_run(void **state)
{
	cancel_in(state, true);
}

static void call_by_the_shared_mailbox_runs_there_and_ends_here(void **state)
{
	cancel_in(state, false);
}

/* In a world nobody else has had a turn; else others may be faster. */
static void a_call_that_is_cancelled_at_once_does_not_run(void **state)
{
	struct ask ask;
	struct team t;

	team_begin(&t, state, 2, 0);
	ask_init(&ask, 1);
	make(t.r[0], &ask, t.r[1]);
	weir_op_cancel(&ask.rec.op);
	finish(t.r[0], &ask.rec);
	check_outcome(&ask, -ECANCELED);
	assert_true(!harness_sim || !atomic_load(&ask.ran));
	team_end(&t);
}

static void deadline_may_end_a_call_at_any_time(void **state)
{
	struct ask ask;
	struct team t;

	team_begin(&t, state, 2, 0);
	for (unsigned int i = 0; i < scaled(300); i++) {
		ask_init(&ask, 1);
		weir_op_set_deadline(&ask.rec.op, i % 2 ?
			weir_reactor_now(t.r[0]) : WEIR_USEC);
		make(t.r[0], &ask, t.r[1]);
		finish(t.r[0], &ask.rec);
		check_outcome(&ask, -ETIMEDOUT);
	}
	team_end(&t);
}

/* A core that holds still until it may go on; and, if @asleep is set, until that
 * thread sleeps. */
struct hold {
	atomic_bool held, go;
	pid_t asleep;
};

static bool is_asleep(pid_t tid)
{
	char path[64], text[256];
	int fd, n;

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", (int)tid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : (int)read(fd, text, sizeof(text) - 1);
	if (fd >= 0)
		close(fd);
	if (n <= 0)
		return true;
	text[n] = 0;
	return strstr(text, ") S ") != NULL;
}

static void hold_still(void *arg)
{
	struct hold *hold = arg;

	atomic_store(&hold->held, true);
	while (!atomic_load(&hold->go) ||
	       (hold->asleep && !is_asleep(hold->asleep)))
		sched_yield();
}

static void hold_begin(struct hold *hold, struct weir_reactor *r)
{
	hold->asleep = 0;
	atomic_init(&hold->held, false);
	atomic_init(&hold->go, false);
	assert_int_equal(weir_post(r, hold_still, hold), 0);
	while (!atomic_load(&hold->held))
		sched_yield();
}

static void hold_end(struct hold *hold)
{
	atomic_store(&hold->go, true);
}

/* Capacity. */

static void nothing(void *arg)
{
	(void)arg;
}

static unsigned int fill(struct weir_reactor *r)
{
	unsigned int n = 0;
	int err;

	while (!(err = weir_post(r, nothing, NULL)))
		n++;
	assert_int_equal(err, -EAGAIN);
	return n;
}

static void a_full_spsc_refuses_and_tells_of_capacity(void **state)
{
	struct rec capacity[2];
	struct hold hold;
	struct ask ask;
	struct team t;

	team_begin(&t, state, 2, SMALL);
	hold_begin(&hold, t.r[1]);
	fill(t.r[1]);
	ask_init(&ask, 1);
	assert_int_equal(weir_call(t.r[0], &ask.rec.op, t.r[1], answer, &ask),
			 -EAGAIN);
	rec_init(&capacity[0]);
	rec_init(&capacity[1]);
	STARTS(weir_capacity_wait(t.r[0], &capacity[0].op, t.r[1]));
	STARTS(weir_capacity_wait(t.r[0], &capacity[1].op, t.r[1]));
	some_turns(t.r[0], 3);
	assert_int_equal(capacity[0].calls + capacity[1].calls, 0);
	weir_op_cancel(&capacity[1].op);
	assert_int_equal(finish(t.r[0], &capacity[1]), -ECANCELED);
	/* Once it is asleep nothing but the notice wakes it. */
	hold.asleep = (pid_t)syscall(SYS_gettid);
	hold_end(&hold);
	while (!capacity[0].calls)
		assert_true(weir_reactor_turn(t.r[0], WEIR_FOREVER) >= 0);
	assert_int_equal(capacity[0].res, 0);
	make(t.r[0], &ask, t.r[1]);
	assert_int_equal(finish(t.r[0], &ask.rec), 1);
	assert_int_equal(capacity[0].calls, 1);
	team_end(&t);
}

static void capacity_wait_ends_at_once_while_there_is_capacity(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct rec capacity[20];
	struct team t;
	int i;

	team_begin(&t, state, 2, SMALL);
	for (i = 0; i < 20; i++) {
		rec_init(&capacity[i]);
		STARTS(weir_capacity_wait(i % 2 ? t.r[0] : r, &capacity[i].op,
					  t.r[1]));
	}
	for (i = 0; i < 20; i++) {
		UNTIL(i % 2 ? t.r[0] : r, capacity[i].calls);
		assert_int_equal(capacity[i].res, 0);
		assert_int_equal(capacity[i].calls, 1);
	}
	team_end(&t);
}

/* A mailbox that is full again after each turn of its reactor. */
struct refill {
	struct weir_reactor *r;
	bool on;
};

static void refill(void *arg)
{
	struct refill *f = arg;

	if (f->on)
		(void)weir_post(f->r, refill, f);
}

static void refill_begin(struct refill *f, struct weir_reactor *r)
{
	f->r = r;
	f->on = true;
	for (int i = 0; i < SMALL; i++)
		STARTS(weir_post(r, refill, f));
}

static void wait_for_capacity(struct weir_reactor *r, struct rec *rec,
			      struct weir_reactor *to)
{
	rec_init(rec);
	STARTS(weir_capacity_wait(r, &rec->op, to));
	some_turns(to, 2);
	some_turns(r, 2);
	assert_int_equal(rec->calls, 0);
}

/* Turns of both until the wait that @rec is has ended. */
static int64_t wait_ends(struct weir_reactor *r, struct rec *rec,
			 struct weir_reactor *to)
{
	UNTIL(to, weir_reactor_turn(r, 0) >= 0 && rec->calls);
	assert_int_equal(rec->calls, 1);
	return rec->res;
}

static void capacity_wait_at_a_full_mailbox_ends_as_asked(void **state)
{
	struct weir_reactor *r = start_reactor_with(state,
		(struct weir_reactor_opts){ .mailbox = SMALL });
	struct rec told, late, gone;
	struct refill f;
	struct team t;

	team_begin(&t, state, 2, 0);
	refill_begin(&f, r);
	wait_for_capacity(t.r[0], &told, r);
	wait_for_capacity(t.r[0], &gone, r);
	weir_op_cancel(&gone.op);
	assert_int_equal(wait_ends(t.r[0], &gone, r), -ECANCELED);
	rec_init(&late);
	weir_op_set_deadline(&late.op, WEIR_USEC);
	STARTS(weir_capacity_wait(t.r[0], &late.op, r));
	assert_int_equal(wait_ends(t.r[0], &late, r), -ETIMEDOUT);
	assert_int_equal(told.calls, 0);
	f.on = false;
	assert_int_equal(wait_ends(t.r[0], &told, r), 0);
	team_end(&t);
}

/* By a mailbox: of no group, so one thread can have both. */
static void calls_refused_by_a_full_mailbox_are_counted(void **state)
{
	struct weir_reactor *to = start_reactor_with(state,
		(struct weir_reactor_opts){ .mailbox = SMALL });
	struct weir_reactor_stats stats = { .size = sizeof(stats) };
	struct weir_reactor *r;
	struct ask ask;

	assert_int_equal(weir_reactor_create(&r, &(struct weir_reactor_opts){
				 .size = sizeof(struct weir_reactor_opts),
				 .sim = harness_sim }), 0);
	fill(to);
	ask_init(&ask, 1);
	assert_int_equal(weir_call(r, &ask.rec.op, to, answer, &ask), -EAGAIN);
	assert_int_equal(weir_reactor_stats(r, &stats), 0);
	assert_int_equal(stats.refused, 1);
	some_turns(to, 2);
	assert_int_equal(weir_reactor_destroy(r), 0);
}

/* Those that are told find the capacity that they were told of. */
static void waiters_are_told_of_no_more_capacity_than_there_is(void **state)
{
	struct weir_reactor *to = start_reactor_with(state,
		(struct weir_reactor_opts){ .mailbox = SMALL });
	struct rec capacity[3 * SMALL];
	struct weir_reactor *r;
	unsigned int told = 0;
	int i;

	assert_int_equal(weir_reactor_create(&r, &(struct weir_reactor_opts){
				 .size = sizeof(struct weir_reactor_opts),
				 .sim = harness_sim }), 0);
	fill(to);
	for (i = 0; i < 3 * SMALL; i++) {
		rec_init(&capacity[i]);
		STARTS(weir_capacity_wait(r, &capacity[i].op, to));
	}
	while (told < 3 * SMALL) {
		unsigned int n = 0;

		some_turns(to, 1);
		some_turns(r, 1);
		for (i = 0; i < 3 * SMALL; i++)
			n += capacity[i].calls;
		assert_true(n - told <= SMALL);
		for (; told < n; told++)
			assert_int_equal(weir_post(to, nothing, NULL), 0);
	}
	some_turns(to, 2);
	assert_int_equal(weir_reactor_destroy(r), 0);
}

/* Before it has come to where it would wait. */
static void capacity_wait_that_is_cancelled_on_its_way_ends_so(void **state)
{
	struct weir_reactor *to = start_reactor_with(state,
		(struct weir_reactor_opts){ .mailbox = SMALL });
	struct weir_reactor *r;
	struct rec rec;

	assert_int_equal(weir_reactor_create(&r, &(struct weir_reactor_opts){
				 .size = sizeof(struct weir_reactor_opts),
				 .sim = harness_sim }), 0);
	fill(to);
	rec_init(&rec);
	STARTS(weir_capacity_wait(r, &rec.op, to));
	assert_int_equal(weir_op_cancel(&rec.op), 0);
	assert_int_equal(wait_ends(r, &rec, to), -ECANCELED);
	assert_int_equal(weir_reactor_destroy(r), 0);
}

/* A waiter is to get some work done, not to wait for each place. */
static void waiter_is_told_when_half_of_a_mailbox_is_free(void **state)
{
	struct weir_reactor *to = start_reactor_with(state,
		(struct weir_reactor_opts){ .mailbox = 8, .turn_max = 1 });
	struct weir_reactor *r;
	struct rec capacity;

	assert_int_equal(weir_reactor_create(&r, NULL), 0);
	assert_int_equal(fill(to), 8);
	rec_init(&capacity);
	STARTS(weir_capacity_wait(r, &capacity.op, to));
	while (!capacity.calls) {
		some_turns(to, 1);
		some_turns(r, 1);
	}
	assert_true(fill(to) >= 4);
	some_turns(to, 20);
	assert_int_equal(weir_reactor_destroy(r), 0);
}

static void capacity_wait_ends_when_the_reactor_ends(void **state)
{
	struct weir_reactor *r = start_reactor_with(state,
		(struct weir_reactor_opts){ .mailbox = SMALL });
	struct rec capacity, late;
	struct refill f;
	struct team t;

	team_begin(&t, state, 2, 0);
	refill_begin(&f, r);
	wait_for_capacity(t.r[0], &capacity, r);
	rec_init(&late);
	weir_reactor_stop(r);
	assert_int_equal(wait_ends(t.r[0], &capacity, r), -ESHUTDOWN);
	assert_int_equal(weir_reactor_run(r), 0);
	assert_int_equal(weir_capacity_wait(t.r[0], &late.op, r), -ESHUTDOWN);
	team_end(&t);
}

/* The end. */

static void stopping_reactor_takes_no_calls_but_answers_all(void **state)
{
	struct ask asks[8], late;
	struct team t;
	int i;

	team_begin(&t, state, 2, 0);
	for (i = 0; i < 8; i++) {
		ask_init(&asks[i], i);
		make(t.r[0], &asks[i], t.r[1]);
	}
	assert_int_equal(weir_group_stop(t.group), 0);
	UNTIL(t.r[0], weir_reactor_state(t.r[0]) != WEIR_REACTOR_RUNNING);
	ask_init(&late, 1);
	assert_int_equal(weir_call(t.r[0], &late.rec.op, t.r[1], answer,
				   &late), -ESHUTDOWN);
	assert_int_equal(weir_post(t.r[1], nothing, NULL), -ESHUTDOWN);
	team_end(&t);
	for (i = 0; i < 8; i++)
		check_outcome(&asks[i], -ECANCELED);
}

static void reactor_that_stops_alone_refuses_calls_of_the_others(void **state)
{
	struct rec capacity;
	struct ask ask;
	struct team t;
	int err;

	team_begin(&t, state, 2, SMALL);
	weir_reactor_stop(t.r[1]);
	do {
		ask_init(&ask, 1);
		err = weir_call(t.r[0], &ask.rec.op, t.r[1], answer, &ask);
		if (!err)
			finish(t.r[0], &ask.rec);
	} while (!err);
	assert_int_equal(err, -ESHUTDOWN);
	rec_init(&capacity);
	assert_int_equal(weir_capacity_wait(t.r[0], &capacity.op, t.r[1]),
			 -ESHUTDOWN);
	team_end(&t);
}

/* A circle of cores, each of which has more for the next than fits. */
#define CIRCLE 3
#define LAPS 50

struct circle {
	struct team t;
	struct member {
		struct circle *circle;
		struct weir_op capacity;
		bool waits;
		uint32_t index;
		unsigned int held;	/* To be handed on. */
		unsigned int seen;
	} member[CIRCLE];
	unsigned int wanted;
	atomic_uint over;
};

static void hand_on(struct member *m);

static void token(void *arg)
{
	struct member *m = arg;

	m->held++;
	if (++m->seen == m->circle->wanted)
		atomic_fetch_add(&m->circle->over, 1);
	hand_on(m);
}

static void hand_on(struct member *m)
{
	struct circle *c = m->circle;
	uint32_t next = (m->index + 1) % CIRCLE;
	int err = 0;

	while (m->held && !(err = weir_post(c->t.r[next], token,
					    &c->member[next])))
		m->held--;
	if (err == -EAGAIN && !m->waits)
		m->waits = !weir_capacity_wait(c->t.r[m->index], &m->capacity,
					       c->t.r[next]);
}

static void on_capacity(struct weir_op *op, int64_t res)
{
	struct member *m = weir_container_of(op, struct member, capacity);

	m->waits = false;
	if (!res)
		hand_on(m);
}

static void begin_handing_on(void *arg)
{
	struct member *m = arg;

	m->held += 10 * SMALL;
	hand_on(m);
}

static void full_rings_in_a_circle_do_not_block_each_other(void **state)
{
	struct circle *c = calloc(1, sizeof(*c));
	uint32_t i;

	assert_non_null(c);
	c->wanted = LAPS * 10 * SMALL;
	team_begin(&c->t, state, CIRCLE, SMALL);
	for (i = 0; i < CIRCLE; i++) {
		c->member[i].circle = c;
		c->member[i].index = i;
		weir_op_init(&c->member[i].capacity, on_capacity);
	}
	for (i = 0; i < CIRCLE; i++)
		assert_int_equal(weir_post(c->t.r[i], begin_handing_on,
					   &c->member[i]), 0);
	UNTIL(c->t.r[0], atomic_load(&c->over) == CIRCLE);
	team_end(&c->t);
	free(c);
}

int main(void)
{
	static const struct harness_case cases[] = {
		REAL(waiter_is_told_when_half_of_a_mailbox_is_free),
		REAL(waiters_are_told_of_no_more_capacity_than_there_is),
		CASE(calls_refused_by_a_full_mailbox_are_counted),
		CASE(a_call_runs_there_and_ends_here),
		CASE(a_reactor_can_call_itself),
		CASE(reactor_in_no_group_can_call),
		CASE(bad_arguments_are_refused),
		CASE(calls_and_posts_keep_their_order),
		CASE(a_cancel_reaches_what_was_not_run),
		CASE(call_by_the_shared_mailbox_runs_there_and_ends_here),
		CASE(a_call_that_is_cancelled_at_once_does_not_run),
		CASE(deadline_may_end_a_call_at_any_time),
		REAL(a_full_spsc_refuses_and_tells_of_capacity),
		CASE(capacity_wait_ends_at_once_while_there_is_capacity),
		CASE(capacity_wait_at_a_full_mailbox_ends_as_asked),
		CASE(capacity_wait_ends_when_the_reactor_ends),
		CASE(capacity_wait_that_is_cancelled_on_its_way_ends_so),
		CASE(stopping_reactor_takes_no_calls_but_answers_all),
		CASE(reactor_that_stops_alone_refuses_calls_of_the_others),
		CASE(full_rings_in_a_circle_do_not_block_each_other),
	};

	return harness_run_all(cases, N_OF(cases));
}
