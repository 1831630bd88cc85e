/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Sync events in one process: acceptance case 13, local; A10 of the catalogue.
 * Between processes: test-sync-shared.c.
 */

#include "tests/support/export-fixture.h"
#include "tests/support/peer-fixture.h"
#include "tests/support/table-fixture.h"

#include <pthread.h>
#include <sched.h>

#include <weir/chain.h>
#include <weir/sync.h>

#include "base/fault.h"
#include "dma/sync/internal.h"

static struct weir_sync *make(uint64_t value)
{
	struct weir_sync_opts opts = { .size = sizeof(opts), .value = value };
	struct weir_sync *sync = NULL;

	assert_int_equal(weir_sync_create(&sync, &opts), 0);
	return sync;
}

static uint64_t value_of(const struct weir_sync *sync)
{
	uint64_t value = 0;

	assert_int_equal(weir_sync_get(sync, &value), 0);
	return value;
}

/* A10.1, A10.2 */
static void sync_event_is_set_added_to_and_read(void **state)
{
	struct weir_sync *sync = make(7);
	uint64_t old = 0;

	(void)state;
	assert_int_equal(value_of(sync), 7);
	assert_int_equal(weir_sync_add(sync, 3, &old), 0);
	assert_int_equal(old, 7);
	assert_int_equal(weir_sync_add(sync, UINT64_MAX, NULL), 0);
	assert_int_equal(value_of(sync), 9);
	assert_int_equal(weir_sync_set(sync, UINT64_MAX), 0);
	assert_int_equal(weir_sync_add(sync, 2, &old), 0);
	assert_true(old == UINT64_MAX);
	assert_int_equal(value_of(sync), 1);
	assert_int_equal(weir_sync_destroy(sync), 0);
	assert_int_equal(weir_sync_destroy(NULL), 0);
}

static void bad_arguments_are_refused(void **state)
{
	static const struct {
		uint32_t cond;
		uint64_t value, mask;
	} bad[] = {
		{ 0, 1, WEIR_SYNC_ALL },
		{ 5, 1, WEIR_SYNC_ALL },
		{ WEIR_SYNC_EQ, 0, 0 },
		{ WEIR_SYNC_GE, 0x10, 0xf },
	};
	struct {
		struct weir_sync_opts known;
		uint64_t newer;
	} opts = { .known = { .size = sizeof(opts) }, .newer = 1 };
	struct weir_reactor *r = start_reactor(state);
	struct weir_sync *sync = make(1), *none = NULL;
	struct rec rec;
	size_t i;

	for (i = 0; i < N_OF(bad); i++) {
		rec_init(&rec);
		assert_int_equal(weir_sync_wait(sync, r, &rec.op, bad[i].cond,
						bad[i].value, bad[i].mask),
				 -EINVAL);
		assert_starts_with(weir_why(), "weir_sync_wait: ");
		assert_int_equal(weir_sync_wait_blocking(sync, bad[i].cond,
							 bad[i].value,
							 bad[i].mask, 0),
				 -EINVAL);
		assert_starts_with(weir_why(), "weir_sync_wait_blocking: ");
	}
	weir_op_init(&rec.op, NULL);
	assert_int_equal(weir_sync_wait(sync, r, &rec.op, WEIR_SYNC_EQ, 1,
					WEIR_SYNC_ALL), -EINVAL);
	assert_int_equal(weir_sync_create(&none, &opts.known), -E2BIG);
	opts.newer = 0;
	opts.known.flags = 2;
	assert_int_equal(weir_sync_create(&none, &opts.known), -EINVAL);
	assert_null(none);
	assert_int_equal(weir_sync_destroy(sync), 0);
}

static const struct {
	uint32_t cond;
	uint64_t value, mask;
	uint64_t no, yes;
} conds[] = {
	{ WEIR_SYNC_EQ, 5, WEIR_SYNC_ALL, 4, 5 },
	{ WEIR_SYNC_EQ, 5, 0xff, 0x504, 0x305 },
	{ WEIR_SYNC_NE, 0, WEIR_SYNC_ALL, 0, 1 },
	{ WEIR_SYNC_NE, 0x80, 0x80, 0x81, 0x7f },
	{ WEIR_SYNC_GE, 5, WEIR_SYNC_ALL, 4, 5 },
	{ WEIR_SYNC_GE, UINT64_MAX, WEIR_SYNC_ALL, UINT64_MAX - 1,
	  UINT64_MAX },
	{ WEIR_SYNC_GE, 5, 0xff, 0xff04, 0x06 },
	{ WEIR_SYNC_GT, 5, WEIR_SYNC_ALL, 5, 6 },
	{ WEIR_SYNC_GT, 254, WEIR_SYNC_ALL, 254, 255 },
};

static void start_wait(struct weir_sync *sync, struct weir_reactor *r,
		       struct rec *rec, uint32_t cond, uint64_t value)
{
	rec_init(rec);
	STARTS(weir_sync_wait(sync, r, &rec->op, cond, value, WEIR_SYNC_ALL));
}

/* A10.2; the range of values is not limited to 0 .. 254, nor the mask. */
static void a_wait_ends_when_its_condition_holds(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_sync *sync;
	struct rec rec;
	size_t i;

	for (i = 0; i < N_OF(conds); i++) {
		sync = make(conds[i].no);
		rec_init(&rec);
		STARTS(weir_sync_wait(sync, r, &rec.op, conds[i].cond,
				      conds[i].value, conds[i].mask));
		some_turns(r, 3);
		assert_int_equal(weir_sync_set(sync, conds[i].no), 0);
		some_turns(r, 3);
		assert_int_equal(rec.calls, 0);
		assert_int_equal(weir_sync_set(sync, conds[i].yes), 0);
		assert_int_equal(rec.calls, 0);
		assert_int_equal(finish(r, &rec), 0);

		/* It holds already. */
		rec_init(&rec);
		STARTS(weir_sync_wait(sync, r, &rec.op, conds[i].cond,
				      conds[i].value, conds[i].mask));
		assert_int_equal(finish(r, &rec), 0);
		assert_int_equal(weir_sync_wait_blocking(
			sync, conds[i].cond, conds[i].value, conds[i].mask,
			WEIR_FOREVER), 0);
		assert_int_equal(weir_sync_set(sync, conds[i].no), 0);
		assert_int_equal(weir_sync_wait_blocking(
			sync, conds[i].cond, conds[i].value, conds[i].mask, 1),
			-ETIMEDOUT);
		assert_int_equal(weir_sync_destroy(sync), 0);
	}
}

static int order;

static void ordered(struct weir_op *op, int64_t res)
{
	rec_done(op, res);
	assert_int_equal(order++, (int)(uintptr_t)op->data);
}

static void waiters_are_served_in_their_order(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_sync *sync = make(0);
	struct rec recs[1000];
	int i;

	order = 0;
	for (i = 0; i < 1000; i++) {
		rec_init(&recs[i]);
		weir_op_init(&recs[i].op, ordered);
		recs[i].op.data = (void *)(uintptr_t)i;
		STARTS(weir_sync_wait(sync, r, &recs[i].op, WEIR_SYNC_GE,
				      i < 500 ? 1 : 2, WEIR_SYNC_ALL));
	}
	assert_int_equal(weir_sync_add(sync, 1, NULL), 0);
	UNTIL(r, order == 500);
	some_turns(r, 3);
	assert_int_equal(order, 500);
	assert_int_equal(weir_sync_add(sync, 1, NULL), 0);
	UNTIL(r, order == 1000);
	assert_int_equal(weir_sync_destroy(sync), 0);
}

static void a_wait_can_be_cancelled(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_sync *sync = make(0);
	struct rec a, b, c;

	start_wait(sync, r, &a, WEIR_SYNC_EQ, 1);
	start_wait(sync, r, &b, WEIR_SYNC_EQ, 1);
	start_wait(sync, r, &c, WEIR_SYNC_EQ, 2);
	assert_int_equal(weir_op_cancel(&b.op), 0);
	assert_int_equal(finish(r, &b), -ECANCELED);
	assert_int_equal(weir_sync_set(sync, 1), 0);

	/* It is on its way: too late. */
	assert_int_equal(weir_op_cancel(&a.op), 0);
	assert_int_equal(finish(r, &a), 0);
	assert_int_equal(weir_sync_destroy(sync), -EBUSY);
	assert_int_equal(weir_op_set_deadline(&c.op, weir_reactor_now(r) + 1),
			 0);
	assert_int_equal(finish(r, &c), -ETIMEDOUT);
	assert_int_equal(weir_sync_destroy(sync), 0);
}

static void a_stopping_reactor_ends_waits(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_sync *sync = make(0);
	struct rec a, b;

	start_wait(sync, r, &a, WEIR_SYNC_EQ, 1);
	weir_reactor_stop(r);
	assert_int_equal(weir_reactor_run(r), 0);
	assert_int_equal(a.calls, 1);
	assert_int_equal(a.res, -ECANCELED);
	rec_init(&b);
	assert_int_equal(weir_sync_wait(sync, r, &b.op, WEIR_SYNC_EQ, 0,
					WEIR_SYNC_ALL), -ESHUTDOWN);
	assert_int_equal(weir_sync_destroy(sync), 0);
}

static void *signal_one(void *arg)
{
	assert_int_equal(weir_sync_add(arg, 1, NULL), 0);
	return NULL;
}

/* Asleep or not yet. */
static void signal_by_another_thread_wakes_the_reactor(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_sync *sync = make(0);
	pthread_t thread;
	struct rec rec;
	uint64_t i;

	for (i = 1; i <= scaled(200); i++) {
		start_wait(sync, r, &rec, WEIR_SYNC_GE, i);
		rec.stop = NULL;
		assert_int_equal(pthread_create(&thread, NULL, signal_one,
						sync), 0);
		assert_int_equal(finish(r, &rec), 0);
		pthread_join(thread, NULL);
	}
	assert_int_equal(weir_sync_destroy(sync), 0);
}

/* A10.4: what was written before the signal is there after the wait. */
struct line {
	struct weir_sync *there, *back;
	uint64_t data[16];	/* Not atomic: TSan looks, too. */
	uint64_t rounds;
	bool wrong;
};

static void fill(struct line *line, uint64_t round)
{
	size_t i;

	for (i = 0; i < N_OF(line->data); i++)
		line->data[i] = round * 31 + i;
}

static bool is_filled(const struct line *line, uint64_t round)
{
	size_t i;

	for (i = 0; i < N_OF(line->data); i++)
		if (line->data[i] != round * 31 + i)
			return false;
	return true;
}

static void *answer_blocking(void *arg)
{
	struct line *line = arg;
	uint64_t i;

	for (i = 1; i <= line->rounds; i++) {
		if (weir_sync_wait_blocking(line->there, WEIR_SYNC_EQ, i,
					    WEIR_SYNC_ALL, WEIR_FOREVER) ||
		    !is_filled(line, i))
			line->wrong = true;
		fill(line, ~i);
		weir_sync_set(line->back, i);
	}
	return NULL;
}

/* What the harness records is the main thread's. */
static void note(struct weir_op *op, int64_t res)
{
	*(int64_t *)op->data = res;
}

static void *answer_on_a_reactor(void *arg)
{
	struct line *line = arg;
	struct weir_reactor *r = NULL;
	struct weir_op op;
	int64_t res;
	uint64_t i;

	line->wrong |= weir_reactor_create(&r, NULL) != 0;
	for (i = 1; i <= line->rounds && !line->wrong; i++) {
		res = 1;
		weir_op_init(&op, note);
		op.data = &res;
		line->wrong |= weir_sync_wait(line->there, r, &op,
					      WEIR_SYNC_EQ, i,
					      WEIR_SYNC_ALL) != 0;
		while (res > 0)
			weir_reactor_turn(r, WEIR_SEC);
		line->wrong |= res || !is_filled(line, i);
		fill(line, ~i);
		weir_sync_set(line->back, i);
	}
	weir_reactor_destroy(r);
	return NULL;
}

static void exchange(void **state, void *(*answer)(void *arg))
{
	struct weir_reactor *r = start_reactor(state);
	struct line line = { .rounds = scaled(20000) };
	pthread_t thread;
	struct rec rec;
	uint64_t i;

	line.there = make(0);
	line.back = make(0);
	assert_int_equal(pthread_create(&thread, NULL, answer, &line), 0);
	for (i = 1; i <= line.rounds; i++) {
		fill(&line, i);
		assert_int_equal(weir_sync_set(line.there, i), 0);
		start_wait(line.back, r, &rec, WEIR_SYNC_GE, i);
		assert_int_equal(finish(r, &rec), 0);
		assert_true(is_filled(&line, ~i));
	}
	pthread_join(thread, NULL);
	assert_false(line.wrong);
	assert_int_equal(weir_sync_destroy(line.there), 0);
	assert_int_equal(weir_sync_destroy(line.back), 0);
}

static void a_signal_does_not_overtake_data_to_a_reactor(void **state)
{
	exchange(state, answer_on_a_reactor);
}

static void a_signal_does_not_overtake_data_to_a_thread(void **state)
{
	exchange(state, answer_blocking);
}

/* The other thread signals while the wait is being started, more or less. */
struct race {
	struct weir_sync *sync;
	_Atomic uint64_t round;
	uint64_t rounds;
};

static void *signal_each_round(void *arg)
{
	struct race *race = arg;
	uint64_t i, spins;

	for (i = 1; i <= race->rounds; i++) {
		while (atomic_load(&race->round) < i)
			sched_yield();
		for (spins = i % 64; spins; spins--)
			atomic_load(&race->round);
		weir_sync_set(race->sync, i);
	}
	return NULL;
}

static void a_signal_during_the_start_is_not_missed(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct race race = { .sync = make(0), .rounds = scaled(20000) };
	pthread_t thread;
	struct rec rec;
	uint64_t i;

	assert_int_equal(pthread_create(&thread, NULL, signal_each_round,
					&race), 0);
	for (i = 1; i <= race.rounds; i++) {
		atomic_store(&race.round, i);
		start_wait(race.sync, r, &rec, WEIR_SYNC_EQ, i);
		assert_int_equal(finish(r, &rec), 0);
	}
	pthread_join(thread, NULL);
	assert_int_equal(weir_sync_destroy(race.sync), 0);
}

/* Many on each of two reactors and many threads; one adds up for all. */
#define CROWD 50

struct crowd {
	struct weir_sync *sync;
	int64_t started;
	struct rec recs[CROWD];
};

static void *wait_for_all(void *arg)
{
	struct crowd *crowd = arg;

	return (void *)(intptr_t)weir_sync_wait_blocking(
		crowd->sync, WEIR_SYNC_GE, CROWD, WEIR_SYNC_ALL, WEIR_FOREVER);
}

static int64_t start_crowd(struct peer *p, void *arg)
{
	struct crowd *crowd = arg;
	int i, err = 0;

	for (i = 0; i < CROWD && !err; i++) {
		rec_init(&crowd->recs[i]);
		err = weir_sync_wait(crowd->sync, p->r, &crowd->recs[i].op,
				     WEIR_SYNC_GE, (uint64_t)i + 1,
				     WEIR_SYNC_ALL);
	}
	return err;
}

static int64_t finish_crowd(struct peer *p, void *arg)
{
	struct crowd *crowd = arg;
	int i, bad = 0;

	for (i = 0; i < CROWD; i++) {
		while (!crowd->recs[i].calls)
			weir_reactor_turn(p->r, WEIR_SEC);
		bad += crowd->recs[i].calls != 1 || crowd->recs[i].res;
	}
	return bad;
}

static void waiters_of_all_kinds_are_woken(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct crowd here, there;
	pthread_t threads[8];
	struct peer peer, self = { .r = r };
	void *res;
	size_t i;

	here.sync = there.sync = make(0);
	peer_begin(&peer, state);
	assert_int_equal(start_crowd(&self, &here), 0);
	assert_int_equal(peer_do(&peer, start_crowd, &there), 0);
	for (i = 0; i < N_OF(threads); i++)
		assert_int_equal(pthread_create(&threads[i], NULL, wait_for_all,
						&here), 0);
	for (i = 0; i < CROWD; i++)
		assert_int_equal(weir_sync_add(here.sync, 1, NULL), 0);
	assert_int_equal(finish_crowd(&self, &here), 0);
	assert_int_equal(peer_do(&peer, finish_crowd, &there), 0);
	for (i = 0; i < N_OF(threads); i++) {
		pthread_join(threads[i], &res);
		assert_null(res);
	}
	peer_end(&peer);
	assert_int_equal(weir_sync_destroy(here.sync), 0);
}

static void *set_it(void *arg)
{
	weir_sync_set(arg, 1);
	return NULL;
}

/* Whose signal it was may not have returned yet. */
static void a_waiter_may_destroy_it_at_once(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	unsigned int rounds = scaled(500);
	struct weir_sync *sync;
	pthread_t thread;
	struct rec rec;

	while (rounds--) {
		sync = make(0);
		start_wait(sync, r, &rec, WEIR_SYNC_EQ, 1);
		assert_int_equal(pthread_create(&thread, NULL, set_it, sync),
				 0);
		if (rounds % 2) {
			assert_int_equal(finish(r, &rec), 0);
		} else {
			while (!value_of(sync))
				;
			if (!weir_op_cancel(&rec.op))
				finish(r, &rec);
		}
		assert_int_equal(weir_sync_destroy(sync), 0);
		pthread_join(thread, NULL);
	}
}

static void random_cancels_and_signals_end_each_wait_once(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	unsigned int rounds = scaled(2000), seed = 3, i;
	struct weir_sync *sync = make(0);
	struct rec recs[8];
	pthread_t thread;
	bool threaded;

	while (rounds--) {
		weir_sync_set(sync, 0);
		for (i = 0; i < N_OF(recs); i++) {
			start_wait(sync, r, &recs[i], WEIR_SYNC_GE, 1);
			if (rand_r(&seed) % 4 == 0)
				weir_op_set_deadline(&recs[i].op,
						     weir_reactor_now(r) + 1);
		}
		threaded = rand_r(&seed) % 4 == 0 &&
			   !pthread_create(&thread, NULL, signal_one, sync);
		for (i = 0; i < N_OF(recs); i++)
			if (rand_r(&seed) % 2 && !recs[i].calls)
				weir_op_cancel(&recs[i].op);
		some_turns(r, (int)(rand_r(&seed) % 3));
		if (!threaded)
			weir_sync_add(sync, 1, NULL);
		for (i = 0; i < N_OF(recs); i++) {
			UNTIL(r, recs[i].calls);
			assert_int_equal(recs[i].calls, 1);
			assert_true(!recs[i].res || recs[i].res == -ECANCELED ||
				    recs[i].res == -ETIMEDOUT);
		}
		if (threaded)
			pthread_join(thread, NULL);
	}
	assert_int_equal(weir_sync_destroy(sync), 0);
}

/* A10.2: as tasks.  The first chain waits for what the second one signals. */
static void steps_of_chains_wait_and_signal(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_sync *there = make(0), *back = make(40);
	struct weir_sync_step wait = {
		.sync = there, .cond = WEIR_SYNC_EQ, .value = 9,
	}, add = {
		.sync = back, .action = WEIR_SYNC_DO_ADD, .value = 2,
	}, set = {
		.sync = there, .action = WEIR_SYNC_DO_SET, .value = 9,
	}, get = {
		.sync = back, .action = WEIR_SYNC_DO_GET,
	};
	struct weir_chain *first = NULL, *second = NULL;
	struct rec a, b;

	assert_int_equal(weir_chain_create(&first, r, NULL), 0);
	assert_int_equal(weir_chain_create(&second, r, NULL), 0);
	assert_int_equal(weir_chain_add_sync(first, WEIR_CHAIN_FIRST, &wait),
			 0);
	assert_int_equal(weir_chain_add_sync(first, 0, &add), 1);
	assert_int_equal(weir_chain_add_sync(first, 1, &get), 2);
	assert_int_equal(weir_chain_add_sync(first, 1, NULL), -EINVAL);
	assert_int_equal(weir_chain_add_sync(second, WEIR_CHAIN_FIRST, &set),
			 0);
	rec_init(&a);
	rec_init(&b);
	STARTS(weir_chain_start(first, &a.op));
	some_turns(r, 4);
	assert_int_equal(a.calls, 0);
	STARTS(weir_chain_start(second, &b.op));
	UNTIL(r, a.calls && b.calls);
	assert_int_equal(b.res, 1);
	assert_int_equal(a.res, 3);
	assert_int_equal(add.got, 40);
	assert_int_equal(get.got, 42);

	/* A deadline reaches the wait; an unknown action is a failure. */
	wait.value = 10;
	rec_init(&a);
	assert_int_equal(weir_op_set_deadline(&a.op, weir_reactor_now(r) +
							 WEIR_MSEC), 0);
	STARTS(weir_chain_start(first, &a.op));
	assert_int_equal(finish(r, &a), -ETIMEDOUT);
	wait.action = 9;
	rec_init(&a);
	STARTS(weir_chain_start(first, &a.op));
	assert_int_equal(finish(r, &a), -EINVAL);
	assert_int_equal(weir_chain_destroy(first), 0);
	assert_int_equal(weir_chain_destroy(second), 0);
	assert_int_equal(weir_sync_destroy(there), 0);
	assert_int_equal(weir_sync_destroy(back), 0);
}

static void failed_sync_call_leaves_nothing_behind(void **state)
{
	struct weir_sync *sync = NULL;
	int err, n = 0, fired;

	(void)state;
	do {
		fault_arm(n++);
		err = weir_sync_create(&sync, NULL);
		fired = fault_disarm();
		assert_int_equal(err, fired ? -ENOMEM : 0);
	} while (fired);
	assert_int_equal(weir_sync_destroy(sync), 0);
}

/* docs/internals/dma.md, "sync event: call by state" */
enum column { IDLE, OP_WAITS, THREAD_WAITS, READING, DESTROYED, REVOKED };

static const char *const columns[] = {
	"nobody waits", "an operation waits", "a thread waits",
	"import for reading", "destroyed by its creator", "revoked import",
};

struct fixture {
	struct weir_reactor *r;	/* Of all cells. */
	struct weir_mmap *m, *im;
	struct weir_sync *creator, *sync;
	struct rec waits;
	pthread_t thread;
	int blocked;	/* What the thread got. */
	bool gone;	/* .sync is. */
};

/* For the bit that no call sets. */
static void *block_for_the_bit(void *arg)
{
	struct fixture *g = arg;

	g->blocked = weir_sync_wait_blocking(g->sync, WEIR_SYNC_EQ, 64, 64,
					     WEIR_FOREVER);
	return NULL;
}

static void fixture_import(struct fixture *g, uint32_t rights)
{
	struct weir_sync_opts opts = { .size = sizeof(opts) };
	struct parcel p;

	g->m = fixture_started(FIXTURE_LEN, rights);
	assert_int_equal(weir_sync_create_in(&g->creator, g->m, 64, &opts), 0);
	parcel_of(&p, g->m, NULL);
	assert_int_equal(parcel_import(&g->im, &p, NULL), 0);
	parcel_drop(&p);
	assert_int_equal(weir_sync_open(&g->sync, g->im, 64), 0);
}

static void fixture_begin(struct fixture *g, enum column column)
{
	*g = (struct fixture){ .r = g->r };
	if (column >= READING)
		fixture_import(g, column == READING ? RO : RW);
	else
		g->sync = make(0);
	if (column == OP_WAITS) {
		rec_init(&g->waits);
		STARTS(weir_sync_wait(g->sync, g->r, &g->waits.op, WEIR_SYNC_EQ,
				      64, 64));
	} else if (column == THREAD_WAITS) {
		assert_int_equal(pthread_create(&g->thread, NULL,
						block_for_the_bit, g), 0);
		while (!atomic_load(&g->sync->n_blocked))
			sched_yield();
	} else if (column >= DESTROYED) {
		assert_int_equal(weir_sync_destroy(g->creator), 0);
		g->creator = NULL;
		if (column == REVOKED)
			assert_int_equal(weir_mmap_stop(g->m, NULL, NULL), 0);
	}
}

static void fixture_end(struct fixture *g, enum column column)
{
	if (column == OP_WAITS || column == THREAD_WAITS)
		assert_int_equal(weir_sync_set(g->sync, 64), 0);
	if (column == OP_WAITS)
		assert_int_equal(finish(g->r, &g->waits), 0);
	if (column == THREAD_WAITS) {
		pthread_join(g->thread, NULL);
		assert_int_equal(g->blocked, 0);
	}
	if (!g->gone)
		assert_int_equal(weir_sync_destroy(g->sync), 0);
	assert_int_equal(weir_sync_destroy(g->creator), 0);
	assert_int_equal(weir_mmap_destroy(g->im), 0);
	assert_int_equal(weir_mmap_destroy(g->m), 0);
}

static int call_set(void *fixture)
{
	return weir_sync_set(((struct fixture *)fixture)->sync, 1);
}

static int call_add(void *fixture)
{
	return weir_sync_add(((struct fixture *)fixture)->sync, 1, NULL);
}

static int call_get(void *fixture)
{
	uint64_t value;

	return weir_sync_get(((struct fixture *)fixture)->sync, &value);
}

static int call_wait(void *fixture)
{
	struct fixture *g = fixture;
	struct rec rec;
	int err;

	rec_init(&rec);
	err = weir_sync_wait(g->sync, g->r, &rec.op, WEIR_SYNC_EQ, 0,
			     WEIR_SYNC_ALL);
	return err ? err : (int)finish(g->r, &rec);
}

static int call_blocking(void *fixture)
{
	return weir_sync_wait_blocking(((struct fixture *)fixture)->sync,
				       WEIR_SYNC_EQ, 0, WEIR_SYNC_ALL, 0);
}

static int call_destroy(void *fixture)
{
	struct fixture *g = fixture;
	int err = weir_sync_destroy(g->sync);

	g->gone = !err;
	return err;
}

static void the_table_of_the_page_holds(void **state)
{
	static const struct table_call calls[] = {
		{ "set", call_set }, { "add", call_add }, { "get", call_get },
		{ "wait", call_wait }, { "wait_blocking", call_blocking },
		{ "destroy", call_destroy },
	};
	struct table_cell c;
	struct table t;
	struct fixture g;

	g.r = start_reactor(state);
	table_open(&t, "docs/internals/dma.md", "sync event: call by state", calls,
		   N_OF(calls), columns, N_OF(columns));
	while (table_next(&t, &c)) {
		fixture_begin(&g, (enum column)c.column);
		table_result(&c, c.call->fn(&g));
		fixture_end(&g, (enum column)c.column);
	}
	table_close(&t);
}

int main(void)
{
	static const struct harness_case cases[] = {
		CASE(sync_event_is_set_added_to_and_read),
		CASE(bad_arguments_are_refused),
		CASE(a_wait_ends_when_its_condition_holds),
		CASE(waiters_are_served_in_their_order),
		CASE(a_wait_can_be_cancelled),
		CASE(a_stopping_reactor_ends_waits),
		CASE(signal_by_another_thread_wakes_the_reactor),
		CASE(a_signal_does_not_overtake_data_to_a_reactor),
		CASE(a_signal_does_not_overtake_data_to_a_thread),
		CASE(a_signal_during_the_start_is_not_missed),
		REAL(waiters_of_all_kinds_are_woken),
		CASE(a_waiter_may_destroy_it_at_once),
		CASE(random_cancels_and_signals_end_each_wait_once),
		CASE(steps_of_chains_wait_and_signal),
		CASE(failed_sync_call_leaves_nothing_behind),
		CASE(the_table_of_the_page_holds),
	};

	return harness_run_all(cases, N_OF(cases));
}
