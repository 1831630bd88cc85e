/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What is shared between the parts of a simulated world as if they were
 * processes: exported memory, sync events in it, and the end of an exporter.
 * And what a world has not.
 */

#include "tests/support/export-fixture.h"
#include "tests/support/sim-fixture.h"


#include <weir/inventory.h>
#include <weir/route.h>
#include <weir/sync.h>

#define LEN 65536

/* An exporter, and an importer with a reactor each, in one world. */
struct sides {
	struct weir_sim *sim;
	struct weir_reactor *here, *there;
	struct weir_mmap *m, *im;
	struct weir_sync *sync, *isync;
};

static void begin(struct sides *s, uint64_t seed, uint64_t faults)
{
	struct parcel p;

	s->sim = sim_world(seed, faults, 4);
	s->here = sim_reactor_in(s->sim);
	s->there = sim_reactor_in(s->sim);
	s->m = fixture_started(LEN, RW);
	assert_int_equal(weir_sync_create_in(&s->sync, s->m, 0, NULL), 0);
	parcel_of(&p, s->m, NULL);
	assert_int_equal(parcel_import(&s->im, &p, NULL), 0);
	parcel_drop(&p);
	assert_int_equal(weir_sync_open(&s->isync, s->im, 0), 0);
}

static void end(struct sides *s)
{
	assert_int_equal(weir_sync_destroy(s->isync), 0);
	assert_int_equal(weir_mmap_destroy(s->im), 0);
	assert_int_equal(weir_sync_destroy(s->sync), 0);
	assert_int_equal(weir_mmap_destroy(s->m), 0);
	assert_int_equal(weir_reactor_destroy(s->here), 0);
	assert_int_equal(weir_reactor_destroy(s->there), 0);
	assert_int_equal(weir_sim_destroy(s->sim), 0);
}

static void signal_it(void *arg)
{
	assert_int_equal(weir_sync_add(arg, 1, NULL), 0);
}

static uint64_t ping(uint64_t seed)
{
	struct sides s;
	struct rec waits[40];
	struct rec pause;
	uint64_t begun, digest;

	begin(&s, seed, 0);
	for (unsigned int i = 0; i < N_OF(waits); i++) {
		rec_init(&waits[i]);
		STARTS(weir_sync_wait(s.isync, s.there, &waits[i].op,
				      WEIR_SYNC_GE, 1 + i % 3,
				      WEIR_SYNC_ALL));
	}
	/* Nobody signals: the world is idle, and says so. */
	sim_idle(s.sim);
	assert_int_equal(waits[0].calls, 0);
	for (unsigned int n = 1; n <= 3; n++) {
		begun = weir_sim_now(s.sim);
		rec_init(&pause);
		STARTS(weir_sleep_until(s.here, &pause.op,
					begun + WEIR_SEC));
		assert_int_equal(weir_post(s.here, signal_it, s.sync), 0);
		assert_int_equal(weir_sim_run(s.sim, 10 * WEIR_MSEC, 0), 1);
		for (unsigned int i = 0; i < N_OF(waits); i++)
			assert_int_equal(waits[i].calls, 1 + i % 3 <= n);
		sim_idle(s.sim);
	}
	assert_int_equal(count_threads(), 1);
	digest = weir_sim_digest(s.sim);
	end(&s);
	return digest;
}

static void a_sync_event_of_an_import_is_seen_in_virtual_time(void **state)
{
	(void)state;
	for (uint64_t seed = 0; seed < 30; seed++)
		assert_true(ping(seed) == ping(seed));
}

static void a_signal_between_two_runs_is_seen(void **state)
{
	struct sides s;
	struct rec wait;

	(void)state;
	begin(&s, 1, 0);
	rec_init(&wait);
	STARTS(weir_sync_wait(s.isync, s.there, &wait.op, WEIR_SYNC_GE, 1,
			      WEIR_SYNC_ALL));
	sim_idle(s.sim);
	signal_it(s.sync);
	sim_idle(s.sim);
	assert_int_equal(wait.calls, 1);
	rec_init(&wait);
	STARTS(weir_sync_wait(s.isync, s.there, &wait.op, WEIR_SYNC_GE, 2,
			      WEIR_SYNC_ALL));
	assert_int_equal(weir_post(s.here, signal_it, s.sync), 0);
	while (!wait.calls)
		assert_true(weir_reactor_turn(s.there, WEIR_FOREVER) >= 0);
	assert_int_equal(wait.res, 0);
	assert_int_equal(weir_reactor_turn(s.there, WEIR_FOREVER), -EDEADLK);
	end(&s);
}

static void a_wait_can_be_cancelled_or_time_out(void **state)
{
	struct sides s;
	struct rec wait[2];

	(void)state;
	begin(&s, 2, 0);
	for (int i = 0; i < 2; i++) {
		rec_init(&wait[i]);
		STARTS(weir_sync_wait(s.isync, s.there, &wait[i].op,
				      WEIR_SYNC_GE, 1, WEIR_SYNC_ALL));
	}
	weir_op_set_deadline(&wait[1].op, weir_sim_now(s.sim) + 5 * WEIR_SEC);
	assert_int_equal(weir_op_cancel(&wait[0].op), 0);
	sim_idle(s.sim);
	assert_int_equal(wait[0].res, -ECANCELED);
	assert_int_equal(wait[1].res, -ETIMEDOUT);
	end(&s);
}

static void the_end_of_an_exporter_is_seen_in_virtual_time(void **state)
{
	struct sides s;
	struct rec watch[2], wait;

	(void)state;
	begin(&s, 3, 0);
	for (int i = 0; i < 2; i++) {
		rec_init(&watch[i]);
		STARTS(weir_mmap_watch(s.im, s.there, &watch[i].op));
	}
	assert_int_equal(weir_op_cancel(&watch[1].op), 0);
	rec_init(&wait);
	STARTS(weir_sync_wait(s.isync, s.there, &wait.op, WEIR_SYNC_GE, 1,
			      WEIR_SYNC_ALL));
	sim_idle(s.sim);
	assert_int_equal(watch[0].calls, 0);
	assert_int_equal(watch[1].res, -ECANCELED);
	assert_int_equal(weir_sync_destroy(s.sync), 0);
	s.sync = NULL;
	assert_int_equal(weir_mmap_stop(s.m, NULL, NULL), 0);
	sim_idle(s.sim);
	assert_int_equal(watch[0].calls, 1);
	assert_int_equal(watch[0].res, -ESTALE);
	assert_int_equal(wait.calls, 1);
	assert_int_equal(wait.res, -ESTALE);
	end(&s);
}

/* A copy to imported memory, which its exporter takes back meanwhile, and uses for
 * something else as soon as it has it. */
struct taken {
	struct sides s;
	struct jrec j;
	struct rec stop;
	bool revokes;
	struct weir_sync *sync;
};

#define OURS 0x11

static void taken_back(struct weir_op *op, int64_t res)
{
	struct taken *t = weir_container_of(op, struct taken, stop.op);

	memset(fixture_addr(t->s.m), OURS, LEN);
	rec_done(op, res);
}

static void take_back(void *arg)
{
	struct taken *t = arg;

	assert_int_equal(weir_sync_destroy(t->s.sync), 0);
	t->s.sync = NULL;
	if (t->revokes)
		STARTS(weir_mmap_revoke(t->s.m, t->s.here, &t->stop.op));
	else
		STARTS(weir_mmap_stop(t->s.m, t->s.here, &t->stop.op));
}

static uint64_t copy_and_take_back(uint64_t seed, unsigned int *stale)
{
	struct weir_dma_opts opts = { .turn_bytes = 4096 };
	struct weir_inventory *inv;
	static char mem[LEN];
	struct weir_buf *buf;
	struct taken t;
	uint64_t digest;

	begin(&t.s, seed, 0);
	struct weir_dma *dma = start_dma(t.s.there, opts);

	assert_int_equal(weir_inventory_create(&inv, t.s.there, NULL), 0);
	assert_int_equal(weir_inventory_attach(inv, t.s.im), 0);
	assert_int_equal(weir_inventory_get(&buf, inv, t.s.im,
					    fixture_addr(t.s.im), LEN, NULL,
					    0),
			 0);
	rec_init(&t.stop);
	weir_op_init(&t.stop.op, taken_back);
	t.revokes = seed & 1;
	jrec_init(&t.j);
	weir_job_copy(&t.j.job, weir_operand_buf(buf),
		      weir_operand_mem(mem, LEN));
	STARTS(weir_job_start(dma, &t.j.job));
	assert_int_equal(weir_post(t.s.here, take_back, &t), 0);
	sim_idle(t.s.sim);
	assert_int_equal(t.j.calls, 1);
	assert_int_equal(t.stop.calls, 1);
	assert_int_equal(t.stop.res, 0);
	for (int i = 0; i < LEN; i++)
		assert_int_equal(fixture_addr(t.s.m)[i], OURS);
	assert_true(t.j.res == LEN || t.j.res == -ESTALE);
	*stale += t.j.res == -ESTALE;
	weir_sim_note(t.s.sim, "job", (uint64_t)t.j.res);
	weir_buf_put(buf);
	assert_int_equal(weir_inventory_destroy(inv), 0);
	sim_end_dma(t.s.sim, dma);
	digest = weir_sim_digest(t.s.sim);
	end(&t.s);
	return digest;
}

static void a_job_on_memory_that_is_taken_back_is_stale(void **state)
{
	unsigned int stale = 0;

	(void)state;
	for (uint64_t seed = 0; seed < 10; seed++)
		assert_true(copy_and_take_back(seed, &stale) ==
			    copy_and_take_back(seed, &stale));
	assert_true(stale > 0);
}

/* Two reactors that have one mmap attached, and a buf of the second's. */
struct pair {
	struct sides s;
	struct weir_inventory *inv[2];
	struct weir_buf *buf;
	struct rec stop;
	int err, out;
};

static int n_out(const struct weir_inventory *inv)
{
	struct weir_inventory_stats stats = { .size = sizeof(stats) };

	assert_int_equal(weir_inventory_stats(inv, &stats), 0);
	return (int)stats.out;
}

static void stop_from_here(void *arg)
{
	struct pair *p = arg;

	p->err = weir_mmap_stop(p->s.m, NULL, NULL);
	STARTS(weir_mmap_stop(p->s.m, p->s.here, &p->stop.op));
}

static void put_from_here(void *arg)
{
	struct pair *p = arg;

	weir_buf_put(p->buf);
	p->out = n_out(p->inv[1]);
}

static void reactors_are_strangers_as_on_threads(void **state)
{
	struct pair p;

	(void)state;
	begin(&p.s, 6, 0);
	assert_int_equal(weir_sync_destroy(p.s.sync), 0);
	p.s.sync = NULL;
	for (int i = 0; i < 2; i++) {
		struct weir_reactor *r = i ? p.s.there : p.s.here;

		assert_int_equal(weir_inventory_create(&p.inv[i], r, NULL), 0);
		assert_int_equal(weir_inventory_attach(p.inv[i], p.s.m), 0);
	}
	assert_int_equal(weir_inventory_get(&p.buf, p.inv[1], p.s.m,
					    fixture_addr(p.s.m), 100, NULL, 0),
			 0);
	/* A buf is out: seen by who visits the other reactor. */
	rec_init(&p.stop);
	p.stop.op.fn = rec_done;
	assert_int_equal(weir_mmap_stop(p.s.m, NULL, NULL), -EBUSY);
	assert_int_equal(weir_post(p.s.here, put_from_here, &p), 0);
	sim_idle(p.s.sim);
	assert_int_equal(p.out, 1);
	assert_int_equal(n_out(p.inv[1]), 0);
	/* At once it is refused in a turn, for there is somebody else. */
	assert_int_equal(weir_post(p.s.here, stop_from_here, &p), 0);
	sim_idle(p.s.sim);
	assert_int_equal(p.err, -EBUSY);
	assert_int_equal(p.stop.calls, 1);
	assert_int_equal(p.stop.res, 0);
	assert_int_equal(weir_mmap_state(p.s.m), WEIR_MMAP_STOPPED);
	for (int i = 0; i < 2; i++)
		assert_int_equal(weir_inventory_destroy(p.inv[i]), 0);
	end(&p.s);
}

static void block(void *arg)
{
	int *err = arg;
	struct weir_sync *sync;

	assert_int_equal(weir_sync_create(&sync, NULL), 0);
	*err = weir_sync_wait_blocking(sync, WEIR_SYNC_GE, 1, WEIR_SYNC_ALL,
				       WEIR_FOREVER);
	assert_non_null(strstr(weir_why(), "world"));
	assert_int_equal(weir_sync_destroy(sync), 0);
}

static void call_that_a_world_lacks_is_refused_with_a_message(void **state)
{
	struct weir_exporter *x;
	struct sides s;
	struct rec op;
	int err = 0;

	(void)state;
	begin(&s, 4, 0);
	assert_int_equal(weir_exporter_create(&x, s.here, "/nowhere/x", NULL),
			 -EOPNOTSUPP);
	assert_non_null(strstr(weir_why(), "world"));
	rec_init(&op);
	assert_int_equal(weir_mmap_import_from(s.here, &op.op, "/nowhere/x",
					       "m", NULL), -EOPNOTSUPP);
	assert_non_null(strstr(weir_why(), "world"));
	assert_int_equal(weir_post(s.here, block, &err), 0);
	sim_idle(s.sim);
	assert_int_equal(err, -EOPNOTSUPP);
	end(&s);
}

static void process_domain_in_a_world_reaches_this_process_only(void **state)
{
	struct weir_dma_opts opts = { 0 };
	struct weir_domain *self, *parent;
	char text[2048], from[64] = "by a worker", to[64];
	struct weir_dma *dma;
	struct sides s;
	struct jrec j;

	(void)state;
	if (weir_domain_process_create(&self, getpid(), NULL))
		skip_because("%s", weir_why());
	begin(&s, 5, 0);
	dma = start_dma(s.here, opts);
	jrec_init(&j);
	weir_job_copy(&j.job, weir_operand_mem(to, 64),
		      weir_operand_at(self, (uintptr_t)from, 64));
	STARTS(weir_job_start(dma, &j.job));
	sim_idle(s.sim);
	assert_int_equal(j.res, 64);
	assert_memory_equal(to, from, 64);
	if (!weir_domain_process_create(&parent, getppid(), NULL)) {
		weir_job_copy(&j.job, weir_operand_mem(to, 64),
			      weir_operand_at(parent, (uintptr_t)from, 64));
		assert_int_equal(weir_job_start(dma, &j.job), -EXDEV);
		assert_int_equal(weir_route_explain(dma, &j.job, text,
						    sizeof(text)), -EXDEV);
		assert_non_null(strstr(text, "no other processes"));
		assert_int_equal(weir_domain_destroy(parent), 0);
	}
	sim_end_dma(s.sim, dma);
	assert_int_equal(weir_domain_destroy(self), 0);
	end(&s);
}

static const struct harness_case cases[] = {
	CASE(a_sync_event_of_an_import_is_seen_in_virtual_time),
	CASE(a_signal_between_two_runs_is_seen),
	CASE(a_wait_can_be_cancelled_or_time_out),
	CASE(the_end_of_an_exporter_is_seen_in_virtual_time),
	CASE(a_job_on_memory_that_is_taken_back_is_stale),
	CASE(reactors_are_strangers_as_on_threads),
	CASE(call_that_a_world_lacks_is_refused_with_a_message),
	CASE(process_domain_in_a_world_reaches_this_process_only),
};

int main(void)
{
	return harness_run_plain(cases, N_OF(cases));
}
