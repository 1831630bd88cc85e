/* SPDX-License-Identifier: BSD-3-Clause */

/* The stop of an mmap that reactors of other threads have attached. */

#include "tests/support/job-fixture.h"
#include "tests/support/peer-fixture.h"

#include <sched.h>

#include <weir/inventory.h>

#include "mem/mmap-internal.h"

#define LEN 65536
#define PEERS 3

struct fixture {
	struct weir_reactor *r;
	struct weir_inventory *inv;
	struct weir_mmap *m;
	char *mem;
	struct peer peer[PEERS];
	struct weir_inventory *theirs[PEERS];
	struct rec stop;
};

/* What a peer is told to do, and with what. */
struct task {
	struct weir_inventory **inv;
	struct weir_mmap *m;
	char *mem;
	struct weir_buf *buf;
};

static int64_t do_attach(struct peer *p, void *arg)
{
	struct task *t = arg;
	int err = 0;

	if (!*t->inv)
		err = weir_inventory_create(t->inv, p->r, NULL);
	return err ? err : weir_inventory_attach(*t->inv, t->m);
}

static int64_t do_leave(struct peer *p, void *arg)
{
	struct task *t = arg;
	int err = weir_inventory_destroy(*t->inv);	/* NULL is fine. */

	(void)p;
	*t->inv = NULL;
	return err;
}

static int64_t do_get(struct peer *p, void *arg)
{
	struct task *t = arg;

	(void)p;
	return weir_inventory_get(&t->buf, *t->inv, t->m, t->mem, 16, NULL, 0);
}

static int64_t do_put(struct peer *p, void *arg)
{
	struct task *t = arg;

	(void)p;
	weir_buf_put(t->buf);
	return 0;
}

static int64_t do_registered(struct peer *p, void *arg)
{
	struct task *t = arg;

	return weir_mmap_registered(t->m, p->r, NULL);
}

static struct task task_of(struct fixture *g, int i)
{
	return (struct task){
		.inv = &g->theirs[i], .m = g->m, .mem = g->mem,
	};
}

static int64_t tell(struct fixture *g, int i,
		    int64_t (*fn)(struct peer *p, void *arg))
{
	struct task t = task_of(g, i);

	return peer_do(&g->peer[i], fn, &t);
}

static void fixture_begin(struct fixture *g, void **state)
{
	int i;

	memset(g, 0, sizeof(*g));
	g->r = start_reactor(state);
	g->mem = aligned_alloc(4096, LEN);
	g->m = start_mmap(g->mem, LEN, WEIR_MMAP_WRITE);
	assert_int_equal(weir_inventory_create(&g->inv, g->r, NULL), 0);
	assert_int_equal(weir_inventory_attach(g->inv, g->m), 0);
	for (i = 0; i < PEERS; i++) {
		peer_begin(&g->peer[i], state);
		assert_int_equal(tell(g, i, do_attach), 0);
	}
	rec_init(&g->stop);
}

static void fixture_end(struct fixture *g)
{
	int i;

	for (i = 0; i < PEERS; i++) {
		assert_int_equal(tell(g, i, do_leave), 0);
		peer_end(&g->peer[i]);
	}
	assert_int_equal(weir_inventory_destroy(g->inv), 0);
	assert_int_equal(weir_mmap_destroy(g->m), 0);
	free(g->mem);
}

static void begin_stop(struct fixture *g)
{
	STARTS(weir_mmap_stop(g->m, g->r, &g->stop.op));
	assert_int_equal(weir_mmap_state(g->m), WEIR_MMAP_STOPPING);
}

/* Everybody turns until the stop is over. */
static int64_t end_stop(struct fixture *g)
{
	int i;

	while (!g->stop.calls) {
		for (i = 0; i < PEERS; i++)
			peer_turn(&g->peer[i]);
		some_turns(g->r, 1);
	}
	assert_int_equal(g->stop.calls, 1);
	g->stop.calls = 0;
	return g->stop.res;
}

static void is_as_before(struct fixture *g)
{
	struct weir_buf *buf;
	struct task t;
	int i;

	assert_int_equal(weir_mmap_state(g->m), WEIR_MMAP_STARTED);
	assert_true(weir_mmap_registered(g->m, g->r, NULL) >= 0);
	assert_int_equal(weir_inventory_get(&buf, g->inv, g->m, g->mem, 1,
					    NULL, 0), 0);
	weir_buf_put(buf);
	for (i = 0; i < PEERS; i++) {
		t = task_of(g, i);
		assert_true(tell(g, i, do_registered) >= 0);
		assert_int_equal(peer_do(&g->peer[i], do_get, &t), 0);
		peer_do(&g->peer[i], do_put, &t);
	}
}

static void a_stop_visits_all_who_have_it_attached(void **state)
{
	struct fixture g;
	int i, again;

	fixture_begin(&g, state);
	for (again = 0; again < 3; again++) {
		begin_stop(&g);
		assert_int_equal(end_stop(&g), 0);
		assert_int_equal(weir_mmap_state(g.m), WEIR_MMAP_STOPPED);
		for (i = 0; i < PEERS; i++) {
			assert_int_equal(tell(&g, i, do_registered), -ENOENT);
			assert_int_equal(tell(&g, i, do_get), -ENOENT);
			assert_int_equal(tell(&g, i, do_attach), -EBADFD);
		}
		assert_int_equal(weir_mmap_start(g.m), 0);
		assert_int_equal(weir_inventory_attach(g.inv, g.m), 0);
		for (i = 0; i < PEERS; i++)
			assert_int_equal(tell(&g, i, do_attach), 0);
		is_as_before(&g);
	}
	fixture_end(&g);
}

static void a_second_stop_is_refused_while_one_is_in_flight(void **state)
{
	struct fixture g;
	struct rec second;

	fixture_begin(&g, state);
	begin_stop(&g);
	rec_init(&second);
	assert_int_equal(weir_mmap_stop(g.m, g.r, &second.op), -EBUSY);
	assert_non_null(strstr(weir_why(), "a stop is in flight"));
	assert_int_equal(weir_mmap_stop(g.m, NULL, NULL), -EBUSY);
	assert_int_equal(weir_mmap_start(g.m), -EBUSY);
	assert_int_equal(weir_mmap_destroy(g.m), -EBUSY);
	assert_int_equal(weir_mmap_state(g.m), WEIR_MMAP_STOPPING);
	assert_int_equal(end_stop(&g), 0);
	assert_int_equal(second.calls, 0);
	fixture_end(&g);
}

static void no_buf_is_taken_while_it_travels(void **state)
{
	struct weir_buf *buf;
	struct fixture g;
	int i;

	fixture_begin(&g, state);
	begin_stop(&g);
	for (i = 0; i < PEERS; i++)
		assert_int_equal(tell(&g, i, do_get), -EBADFD);
	assert_int_equal(weir_inventory_get(&buf, g.inv, g.m, g.mem, 1, NULL,
					    0), -EBADFD);
	assert_int_equal(end_stop(&g), 0);
	fixture_end(&g);
}

static void a_buf_that_is_out_elsewhere_is_in_the_way(void **state)
{
	struct task t;
	struct fixture g;

	fixture_begin(&g, state);
	t = task_of(&g, 1);
	assert_int_equal(peer_do(&g.peer[1], do_get, &t), 0);
	assert_int_equal(weir_mmap_stop(g.m, g.r, &g.stop.op), -EBUSY);
	assert_int_equal(weir_mmap_destroy(g.m), -EBUSY);
	peer_do(&g.peer[1], do_put, &t);
	is_as_before(&g);
	fixture_end(&g);
}

/* As a core sees it that has not seen yet that the mmap is stopping. */
static int64_t do_count(struct peer *p, void *arg)
{
	struct fixture *g = arg;
	struct mmap_use *use;

	for (use = g->m->uses; use->r != p->r; use = use->next)
		;
	mmap_use_count(use, use->n_bufs ? -1 : 1);
	return 0;
}

static void a_buf_taken_while_it_travels_undoes_the_stop(void **state)
{
	struct fixture g;
	int who;

	fixture_begin(&g, state);
	for (who = 0; who < PEERS; who++) {
		begin_stop(&g);
		peer_do(&g.peer[who], do_count, &g);
		assert_int_equal(end_stop(&g), -EBUSY);
		peer_do(&g.peer[who], do_count, &g);
		is_as_before(&g);
	}
	begin_stop(&g);
	assert_int_equal(end_stop(&g), 0);
	fixture_end(&g);
}

static void a_cancel_undoes_it_at_once(void **state)
{
	struct fixture g;

	fixture_begin(&g, state);
	begin_stop(&g);
	peer_turn(&g.peer[0]);
	assert_int_equal(weir_op_cancel(&g.stop.op), 0);
	assert_int_equal(finish(g.r, &g.stop), -ECANCELED);
	is_as_before(&g);

	/* Deferred work of the first may still be in flight to the second. */
	g.stop.calls = 0;
	begin_stop(&g);
	assert_int_equal(end_stop(&g), 0);
	fixture_end(&g);
}

static void a_deadline_ends_a_stop_that_nobody_answers(void **state)
{
	struct fixture g;

	fixture_begin(&g, state);
	weir_op_set_deadline(&g.stop.op, weir_reactor_now(g.r) + WEIR_MSEC);
	begin_stop(&g);
	assert_int_equal(finish(g.r, &g.stop), -ETIMEDOUT);
	is_as_before(&g);
	fixture_end(&g);
}

/* All have been found idle; their answers are on the way. */
static void a_cancel_of_what_is_on_its_way_home_counts(void **state)
{
	struct fixture g;
	int i;

	fixture_begin(&g, state);
	begin_stop(&g);
	for (i = 0; i < PEERS; i++)
		peer_turn(&g.peer[i]);
	assert_int_equal(weir_op_cancel(&g.stop.op), 0);
	assert_int_equal(end_stop(&g), -ECANCELED);
	is_as_before(&g);
	fixture_end(&g);
}

static void a_cancel_after_the_decision_is_too_late(void **state)
{
	struct fixture g;
	int i;

	fixture_begin(&g, state);
	begin_stop(&g);
	for (i = 0; i < PEERS; i++)
		peer_turn(&g.peer[i]);
	some_turns(g.r, 1);
	assert_int_equal(weir_mmap_state(g.m), WEIR_MMAP_STOPPING);
	assert_int_equal(weir_mmap_registered(g.m, g.r, NULL), -ENOENT);
	assert_int_equal(weir_op_cancel(&g.stop.op), 0);
	assert_int_equal(end_stop(&g), 0);
	assert_int_equal(weir_mmap_state(g.m), WEIR_MMAP_STOPPED);
	fixture_end(&g);
}

static void stop_does_not_wait_for_a_thread_that_left(void **state)
{
	struct fixture g;
	int i, round;

	fixture_begin(&g, state);
	for (round = 0; round < 2; round++) {
		begin_stop(&g);
		if (round) {
			for (i = 0; i < PEERS; i++)
				peer_turn(&g.peer[i]);
			some_turns(g.r, 1);
		}
		for (i = 0; i < PEERS; i++)
			assert_int_equal(tell(&g, i, do_leave), 0);
		UNTIL(g.r, g.stop.calls);
		assert_int_equal(g.stop.res, 0);
		g.stop.calls = 0;
		assert_int_equal(weir_mmap_start(g.m), 0);
		assert_int_equal(weir_inventory_attach(g.inv, g.m), 0);
		for (i = 0; i < PEERS; i++)
			assert_int_equal(tell(&g, i, do_attach), 0);
	}
	is_as_before(&g);
	fixture_end(&g);
}

static void an_deferred_may_come_after_the_mmap_is_gone(void **state)
{
	struct fixture g;
	int i;

	fixture_begin(&g, state);
	begin_stop(&g);
	weir_op_cancel(&g.stop.op);
	assert_int_equal(finish(g.r, &g.stop), -ECANCELED);
	for (i = 0; i < PEERS; i++)
		assert_int_equal(tell(&g, i, do_leave), 0);
	assert_int_equal(weir_mmap_destroy(g.m), 0);
	for (i = 0; i < PEERS; i++)
		peer_turn(&g.peer[i]);
	g.m = NULL;
	fixture_end(&g);
}

static atomic_ulong all_gets;

/* Takes and puts bufs for a while, attaching anew when detached, and leaves. */
static int64_t do_work(struct peer *p, void *arg)
{
	struct task *t = arg;
	unsigned int gets = 0;
	int err;

	while (gets < scaled(500)) {
		err = (int)do_get(p, t);
		if (!err) {
			gets++;
			atomic_fetch_add(&all_gets, 1);
			if (gets % 3)
				weir_reactor_turn(p->r, 0);
			weir_buf_put(t->buf);
		} else if (err == -ENOENT) {
			err = weir_inventory_attach(*t->inv, t->m);
		}
		if (err && err != -EBADFD)
			return err;
		weir_reactor_turn(p->r, 0);
	}
	return do_leave(p, t);
}

struct worker {
	struct fixture *g;
	int i;
	atomic_bool done;
};

static void *drive(void *arg)
{
	struct worker *w = arg;
	int64_t err = tell(w->g, w->i, do_work);

	atomic_store(&w->done, true);
	return (void *)(intptr_t)err;
}

static bool is_done(struct worker *w)
{
	return atomic_load(&w[0].done) && atomic_load(&w[1].done);
}

/* Stops until both workers are done; each either works or changes nothing. */
static void stop_and_start(struct fixture *g, struct worker *w)
{
	unsigned long gets;
	int err;

	while (!is_done(w)) {
		err = weir_mmap_stop(g->m, g->r, &g->stop.op);
		if (!err) {
			UNTIL(g->r, g->stop.calls);
			g->stop.calls = 0;
			err = (int)g->stop.res;
		}
		if (err) {
			assert_int_equal(err, -EBUSY);
			assert_int_equal(weir_mmap_state(g->m),
					 WEIR_MMAP_STARTED);
		} else {
			assert_int_equal(weir_mmap_num_bufs(g->m), 0);
			gets = atomic_load(&all_gets);
			assert_int_equal(weir_mmap_start(g->m), 0);
			while (atomic_load(&all_gets) == gets && !is_done(w))
				sched_yield();
		}
	}
}

static void mmap_under_full_use_stops_or_stays_whole(void **state)
{
	struct worker w[2] = { { .i = 0 }, { .i = 1 } };
	pthread_t thread[2];
	struct fixture g;
	void *err;
	int i;

	fixture_begin(&g, state);
	assert_int_equal(tell(&g, 2, do_leave), 0);
	for (i = 0; i < 2; i++) {
		w[i].g = &g;
		assert_int_equal(pthread_create(&thread[i], NULL, drive, &w[i]),
				 0);
	}
	stop_and_start(&g, w);
	for (i = 0; i < 2; i++) {
		pthread_join(thread[i], &err);
		assert_int_equal((intptr_t)err, 0);
	}
	fixture_end(&g);
}

int main(void)
{
	static const struct harness_case cases[] = {
		CASE(a_stop_visits_all_who_have_it_attached),
		CASE(a_second_stop_is_refused_while_one_is_in_flight),
		CASE(no_buf_is_taken_while_it_travels),
		CASE(a_buf_that_is_out_elsewhere_is_in_the_way),
		CASE(a_buf_taken_while_it_travels_undoes_the_stop),
		CASE(a_cancel_undoes_it_at_once),
		CASE(a_deadline_ends_a_stop_that_nobody_answers),
		CASE(a_cancel_of_what_is_on_its_way_home_counts),
		CASE(a_cancel_after_the_decision_is_too_late),
		CASE(stop_does_not_wait_for_a_thread_that_left),
		CASE(an_deferred_may_come_after_the_mmap_is_gone),
		CASE(mmap_under_full_use_stops_or_stays_whole),
	};

	return harness_run(cases, N_OF(cases));
}
