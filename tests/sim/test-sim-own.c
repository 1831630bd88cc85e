/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Operations of the program's own in a world: reactors ask each other for
 * answers, which come late, at once or never, and are cancelled, time out, or
 * are given up by a stop.  Each ends once, with a result that explains it, and
 * a seed gives the same run again.
 */

#include "tests/support/sim-fixture.h"

#define N_REACTORS 3
#define QUERIES 16		/* Of each reactor, at once. */
#define ROUNDS 60		/* Of each query. */
#define SEEDS 40

struct run;

/* A query travels to the reactor that answers it, and is answered from there. */
struct query {
	struct weir_op op;
	struct rec nap;		/* There, before the answer. */
	struct run *run;
	unsigned int from, to, rounds;
	bool away;		/* The other reactor has it. */
	bool over;		/* It was cancelled meanwhile. */
	bool deadline, cancelled;
};

struct run {
	struct weir_sim *sim;
	struct weir_reactor *r[N_REACTORS];
	struct query queries[N_REACTORS][QUERIES];
	unsigned int answered, cancelled, late, refused, cancels, afar;
	uint64_t hash;
	bool stopping;
};

static uint64_t below(struct run *run, uint64_t n)
{
	return weir_sim_random(run->sim) % n;
}

static void ask(struct query *q);

static void note(struct run *run, uint64_t what)
{
	run->hash = (run->hash ^ what) * 0x100000001b3u;
}

static void on_end(struct weir_op *op, int64_t res)
{
	struct query *q = weir_container_of(op, struct query, op);
	struct run *run = q->run;

	note(run, (uint64_t)res);
	note(run, weir_reactor_now(run->r[q->from]));
	switch (res) {
	case 7:
		assert_false(q->over);
		run->answered++;
		break;
	case -ECANCELED:
		assert_true(q->over && (q->cancelled || run->stopping));
		run->cancelled++;
		break;
	case -ETIMEDOUT:
		assert_true(q->over && q->deadline);
		run->late++;
		break;
	default:
		fail_msg("%lld", (long long)res);
	}
	if (!q->away && q->rounds)
		ask(q);
}

/* Back from the other reactor, which is done with it. */
static void come_back(void *arg)
{
	struct query *q = arg;

	q->away = false;
	if (!weir_op_is_busy(&q->op) && q->rounds)
		ask(q);
}

static void leave_there(struct query *q)
{
	if (weir_post(q->run->r[q->from], come_back, q))
		q->away = false;
}

/* On the reactor that answers; its answer goes by the mailbox. */
static void after_nap(struct weir_op *op, int64_t res)
{
	struct query *q = weir_container_of(op, struct query, nap.op);

	(void)res;
	if (!q->over) {
		q->run->afar += q->from != q->to;
		assert_int_equal(weir_op_finish(&q->op, 7), 0);
		assert_int_equal(weir_op_finish(&q->op, 8), -EALREADY);
	}
	leave_there(q);
}

static void arrive(void *arg)
{
	struct query *q = arg;
	struct weir_reactor *r = q->run->r[q->to];

	rec_init(&q->nap);
	q->nap.op.fn = after_nap;
	if (weir_sleep_until(r, &q->nap.op, weir_reactor_now(r) +
			     below(q->run, 100 * WEIR_USEC)))
		after_nap(&q->nap.op, 0);
}

/* The other reactor learns that nobody waits for its answer. */
static void on_cancel(struct weir_op *op, void *arg)
{
	struct query *q = arg;

	assert_false(q->over);
	q->run->cancels++;
	q->over = true;
	assert_int_equal(weir_op_finish(op, -ECANCELED), 0);
}

static void ask(struct query *q)
{
	struct run *run = q->run;
	struct weir_reactor *r = run->r[q->from];

	q->rounds--;
	q->to = (unsigned int)below(run, N_REACTORS);
	q->over = q->cancelled = false;
	q->deadline = !below(run, 3);
	weir_op_set_deadline(&q->op, q->deadline ? weir_reactor_now(r) +
			     below(run, 100 * WEIR_USEC) : WEIR_FOREVER);
	if (weir_op_start(r, &q->op, on_cancel, q)) {
		run->refused++;
		return;
	}
	q->away = true;
	if (weir_post(run->r[q->to], arrive, q)) {
		/* It stops: nobody will answer. */
		q->away = false;
		q->over = q->cancelled = true;
		assert_int_equal(weir_op_finish(&q->op, -ECANCELED), 0);
	} else if (!below(run, 4)) {
		q->cancelled = true;
		assert_int_equal(weir_op_cancel(&q->op), 0);
	}
}

static uint64_t run_world(uint64_t seed, uint64_t faults, bool stop)
{
	struct run run = { .sim = sim_world(seed, faults, 16), .hash = seed };
	unsigned int asked = 0, ended;

	for (unsigned int i = 0; i < N_REACTORS; i++)
		run.r[i] = sim_reactor_in(run.sim);
	for (unsigned int i = 0; i < N_REACTORS; i++)
		for (unsigned int j = 0; j < QUERIES; j++) {
			struct query *q = &run.queries[i][j];

			weir_op_init(&q->op, on_end);
			q->run = &run;
			q->from = i;
			q->rounds = ROUNDS;
			ask(q);
		}
	if (stop) {
		assert_int_equal(weir_sim_run(run.sim, WEIR_MSEC / 2, 0), 1);
		run.stopping = true;
		for (unsigned int i = 0; i < N_REACTORS; i++)
			weir_reactor_stop(run.r[i]);
	}
	sim_idle(run.sim);
	for (unsigned int i = 0; i < N_REACTORS; i++)
		for (unsigned int j = 0; j < QUERIES; j++) {
			asked += ROUNDS - run.queries[i][j].rounds;
			assert_int_equal(weir_op_is_busy(
				&run.queries[i][j].op), 0);
		}
	ended = run.answered + run.cancelled + run.late;
	assert_int_equal(ended + run.refused, asked);
	assert_true(run.answered && run.cancelled && run.afar);
	if (!stop) {
		assert_int_equal(asked, N_REACTORS * QUERIES * ROUNDS);
		assert_int_equal(run.refused, 0);
		assert_true(run.late);
	}
	for (unsigned int i = 0; i < N_REACTORS; i++)
		assert_int_equal(weir_reactor_destroy(run.r[i]), 0);
	assert_int_equal(weir_sim_destroy(run.sim), 0);
	return run.hash;
}

static void query_ends_once_whatever_happens(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= scaled(SEEDS); seed++)
		run_world(seed, 0, false);
}

static void query_ends_once_in_worlds_with_delays(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= scaled(SEEDS); seed++)
		run_world(seed, 0x112c, false);
}

static void query_ends_once_when_reactors_stop(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= scaled(SEEDS); seed++)
		run_world(seed, 0x112c, true);
}

static void seed_gives_the_same_run(void **state)
{
	(void)state;
	assert_true(run_world(5, 0x112c, false) ==
		    run_world(5, 0x112c, false));
	assert_true(run_world(5, 0x112c, false) !=
		    run_world(6, 0x112c, false));
}

int main(void)
{
	static const struct harness_case cases[] = {
		CASE(query_ends_once_whatever_happens),
		CASE(query_ends_once_in_worlds_with_delays),
		CASE(query_ends_once_when_reactors_stop),
		CASE(seed_gives_the_same_run),
	};

	return harness_run_plain(cases, N_OF(cases));
}
