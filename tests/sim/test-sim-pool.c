/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Pools of one shared_pool on the reactors of a world: buffers are taken,
 * waited for, handed to other reactors and given back there, by chance, while
 * caches are recalled from one to the other.
 *
 * A ledger says who has which buffer: each has at most one holder, whose bytes
 * stay as he has left them.  At the end all is there, and nobody waits.
 */

#include "tests/support/sim-fixture.h"

#include <weir/domain.h>
#include <weir/inventory.h>
#include <weir/mmap.h>
#include <weir/pool.h>
#include <weir/shared-pool.h>

#define N_REACTORS 3
#define HELD 12
#define WAITS 6
#define ACTIONS 150
#define SMALL 512
#define LARGE 4096

struct run;

struct held {
	struct weir_buf *buf;
	unsigned char stamp;
};

struct wait {
	struct weir_op op;
	struct run *run;
	unsigned int core;
	size_t size;
	bool busy;
};

/* A buffer on its way to another reactor. */
struct parcel {
	struct run *run;
	struct held held;
	unsigned int to;
};

struct core {
	struct weir_op op;
	struct run *run;
	struct weir_reactor *r;
	struct weir_pool *pool;
	struct held held[HELD];
	struct wait waits[WAITS];
	unsigned int left;
};

struct run {
	struct weir_sim *sim;
	struct weir_shared_pool *shared_pool;
	struct core cores[N_REACTORS];
	struct parcel parcels[64];
	unsigned int n_out, gets, empties, served, sent, cancelled, most;
	unsigned char stamp;
	bool over;
};

static uint64_t below(struct run *run, uint64_t n)
{
	return weir_sim_random(run->sim) % n;
}

static void check_held(const struct held *h)
{
	const unsigned char *p = weir_buf_addr(h->buf);
	size_t len = weir_buf_len(h->buf);

	assert_int_equal(p[0], h->stamp);
	assert_int_equal(p[len / 2], h->stamp);
	assert_int_equal(p[len - 1], h->stamp);
}

static void put(struct run *run, struct held *h)
{
	check_held(h);
	memset(weir_buf_addr(h->buf), 0, weir_buf_len(h->buf));
	weir_buf_put(h->buf);
	h->buf = NULL;
	run->n_out--;
}

/* It is ours now, and nobody else's. */
static void take(struct core *c, struct weir_buf *buf)
{
	struct run *run = c->run;
	struct held *h = c->held;

	assert_int_equal(((unsigned char *)weir_buf_addr(buf))[0], 0);
	run->n_out++;
	if (run->n_out > run->most)
		run->most = run->n_out;
	while (h < c->held + HELD && h->buf)
		h++;
	if (h == c->held + HELD)
		put(run, --h);
	h->buf = buf;
	h->stamp = (unsigned char)(1 + run->stamp++ % 255);
	memset(weir_buf_addr(buf), h->stamp, weir_buf_len(buf));
	if (run->over)
		put(run, h);
}

static void get_one(struct core *c)
{
	struct weir_buf *buf;
	int err = weir_pool_get_sized(&buf, c->pool,
				      below(c->run, 3) ? SMALL : LARGE);

	weir_sim_note(c->run->sim, "get", (uint64_t)err);
	if (err) {
		assert_int_equal(err, -EAGAIN);
		c->run->empties++;
		return;
	}
	c->run->gets++;
	take(c, buf);
}

static void waited(struct weir_op *op, int64_t res)
{
	struct wait *w = weir_container_of(op, struct wait, op);
	struct run *run = w->run;

	assert_true(w->busy);
	w->busy = false;
	weir_sim_note(run->sim, "wait", (uint64_t)res);
	if (res < 0) {
		assert_true(res == -ECANCELED || res == -ETIMEDOUT);
		assert_null(weir_pool_taken(op));
		run->cancelled++;
		return;
	}
	assert_true((size_t)res >= w->size);
	run->served++;
	take(&run->cores[w->core], weir_pool_taken(op));
}

static void wait_for_one(struct core *c)
{
	struct wait *w = &c->waits[below(c->run, WAITS)];

	if (w->busy)
		return;
	weir_op_init(&w->op, waited);
	w->run = c->run;
	w->core = (unsigned int)(c - c->run->cores);
	w->size = below(c->run, 3) ? SMALL : LARGE;
	if (!below(c->run, 4))
		weir_op_set_deadline(&w->op, weir_sim_now(c->run->sim) +
				     below(c->run, 50 * WEIR_USEC));
	w->busy = true;
	STARTS(weir_pool_wait_sized(c->pool, &w->op, w->size));
}

static void arrived(void *arg)
{
	struct parcel *p = arg;
	struct core *c = &p->run->cores[p->to];
	struct held h = p->held;

	p->held.buf = NULL;
	check_held(&h);
	/* To be given back there; or kept for a while. */
	for (unsigned int i = 0; i < HELD && below(p->run, 2); i++) {
		if (c->held[i].buf || p->run->over)
			continue;
		c->held[i] = h;
		return;
	}
	put(p->run, &h);
}

static void send_over(struct core *c, struct held *h)
{
	struct run *run = c->run;
	struct parcel *p = run->parcels;

	while (p < run->parcels + N_OF(run->parcels) && p->held.buf)
		p++;
	if (p == run->parcels + N_OF(run->parcels))
		return;
	p->run = run;
	p->held = *h;
	p->to = (unsigned int)below(run, N_REACTORS);
	if (weir_post(run->cores[p->to].r, arrived, p)) {
		p->held.buf = NULL;
		return;
	}
	h->buf = NULL;
	run->sent++;
}

static void act(struct core *c)
{
	struct held *h = &c->held[below(c->run, HELD)];
	struct wait *w = &c->waits[below(c->run, WAITS)];

	switch (below(c->run, 10)) {
	case 0: case 1: case 2:
		get_one(c);
		break;
	case 3: case 4: case 5:
		wait_for_one(c);
		break;
	case 6:
		if (w->busy)
			assert_int_equal(weir_op_cancel(&w->op), 0);
		break;
	case 7:
		if (h->buf)
			send_over(c, h);
		break;
	default:
		if (h->buf)
			put(c->run, h);
	}
}

static void put_all(struct core *c)
{
	for (unsigned int i = 0; i < HELD; i++)
		if (c->held[i].buf)
			put(c->run, &c->held[i]);
}

static void drive(struct weir_op *op, int64_t res)
{
	struct core *c = weir_container_of(op, struct core, op);

	(void)res;
	for (uint64_t n = 1 + below(c->run, 4); n && c->left; n--, c->left--)
		act(c);
	if (c->left)
		assert_int_equal(weir_sleep_until(c->r, op,
			weir_sim_now(c->run->sim) +
			below(c->run, 1 + (UINT64_C(1) <<
					   below(c->run, 18)))), 0);
	else
		put_all(c);
}

static void begin(struct run *run, uint64_t seed,
		  const struct weir_sim_opts *opts)
{
	struct weir_shared_pool_class classes[] = {
		{ .buf_size = SMALL, .bufs = 10 },
		{ .buf_size = LARGE, .bufs = 5 },
	};
	struct weir_shared_pool_opts so = {
		.size = sizeof(so),
		.classes = classes,
		.n_classes = 2,
		.flags = WEIR_SHARED_POOL_NO_HUGE,
	};
	struct weir_pool_opts po = { .size = sizeof(po) };

	memset(run, 0, sizeof(*run));
	assert_int_equal(weir_sim_create(&run->sim, seed, opts), 0);
	assert_int_equal(weir_shared_pool_create(&run->shared_pool, &so), 0);
	po.shared_pool = run->shared_pool;
	for (unsigned int i = 0; i < N_REACTORS; i++) {
		struct core *c = &run->cores[i];

		po.cache = i ? 4 : 0;
		po.flags = i ? 0 : WEIR_POOL_NO_CACHE;
		c->run = run;
		c->left = ACTIONS;
		c->r = sim_reactor_in(run->sim);
		if (weir_pool_create(&c->pool, c->r, &po))
			fail_msg("%s", weir_why());
		weir_op_init(&c->op, drive);
		assert_int_equal(weir_defer(c->r, &c->op), 0);
	}
}

static void check_end(struct run *run)
{
	struct weir_shared_pool_stats stats = { .size = sizeof(stats) };

	for (unsigned int i = 0; i < N_REACTORS; i++)
		for (unsigned int n = 0; n < WAITS; n++)
			assert_false(run->cores[i].waits[n].busy);
	assert_int_equal(run->n_out, 0);
	for (unsigned int i = 0; i < N_REACTORS; i++)
		assert_int_equal(weir_pool_destroy(run->cores[i].pool), 0);
	assert_int_equal(weir_shared_pool_stats(run->shared_pool, 0, &stats), 0);
	assert_int_equal(stats.free, stats.total);
	assert_int_equal(stats.waiting, 0);
	assert_int_equal(stats.in_transit, 0);
}

static uint64_t one_run(struct run *run, uint64_t seed,
			const struct weir_sim_opts *opts)
{
	uint64_t digest;

	begin(run, seed, opts);
	weir_sim_run(run->sim, 10 * WEIR_SEC, 0);
	weir_sim_set_faults(run->sim, 0);
	run->over = true;
	for (unsigned int i = 0; i < N_REACTORS; i++)
		put_all(&run->cores[i]);
	assert_int_equal(weir_sim_run(run->sim, WEIR_FOREVER, 0), 0);
	digest = weir_sim_digest(run->sim);
	check_end(run);
	for (unsigned int i = 0; i < N_REACTORS; i++)
		assert_int_equal(weir_reactor_destroy(run->cores[i].r), 0);
	assert_int_equal(weir_shared_pool_destroy(run->shared_pool), 0);
	assert_int_equal(weir_sim_destroy(run->sim), 0);
	return digest;
}

static void buffer_has_one_holder_and_no_waiter_is_forgotten(void **state)
{
	struct weir_sim_opts opts = {
		.size = sizeof(opts), .faults = WEIR_SIM_ALL_FAULTS,
		.flags = WEIR_SIM_SWARM, .rate = 32,
	};
	struct weir_sim_opts calm = { .size = sizeof(calm) };
	unsigned int served = 0, sent = 0, empties = 0, most = 0;
	static struct run run;
	uint64_t digest;

	(void)state;
	for (uint64_t seed = 0; seed < (want_long() ? 20000 : 150); seed++) {
		digest = one_run(&run, seed, seed % 3 ? &opts : &calm);
		served += run.served;
		sent += run.sent;
		empties += run.empties;
		most = run.most > most ? run.most : most;
		if (one_run(&run, seed, seed % 3 ? &opts : &calm) != digest)
			fail_msg("two runs of seed %llu differ",
				 (unsigned long long)seed);
	}
	assert_true(served > 5000);
	assert_true(sent > 1000);
	assert_true(empties > 1000);
	assert_int_equal(most, 15);
}

struct refused {
	struct weir_op op;
	struct weir_reactor *r;
	struct weir_pool *pool;
	int64_t registered;
};

/* In a turn, because faults are the world's. */
static void make_refused_pool(struct weir_op *op, int64_t res)
{
	struct refused *f = weir_container_of(op, struct refused, op);
	struct weir_pool_opts opts = { .size = sizeof(opts), .bufs = 4 };

	assert_int_equal(res, 0);
	assert_int_equal(weir_pool_create(&f->pool, f->r, &opts), 0);
	f->registered = weir_mmap_registered(weir_pool_mmap(f->pool), f->r,
					     NULL);
}

/* A kernel that registers nothing: until it does, or for good. */
static void refused_registration_is_tried_again_for_a_time(void **state)
{
	struct weir_sim_stats stats = { .size = sizeof(stats) };
	struct refused f = { .registered = -1 };
	uint64_t tried;
	int heals;

	(void)state;
	for (heals = 0; heals < 2; heals++) {
		struct weir_sim *sim = sim_world(1,
						 ALWAYS(WEIR_SIM_REGISTER), 1);

		f.r = sim_reactor_in(sim);
		weir_op_init(&f.op, make_refused_pool);
		STARTS(weir_defer(f.r, &f.op));
		assert_int_equal(weir_sim_run(sim, 1000000, 0), 1);
		assert_int_equal(f.registered, 0);
		weir_sim_stats(sim, &stats);
		tried = stats.faults[WEIR_SIM_REGISTER];
		if (heals)
			weir_sim_set_faults(sim, 0);
		/* Comes to an end, some seconds of the world later. */
		sim_idle(sim);
		f.registered = weir_mmap_registered(weir_pool_mmap(f.pool),
						    f.r, NULL);
		assert_int_equal(f.registered, heals ? 4 * 65536 : 0);
		weir_sim_stats(sim, &stats);
		if (!heals)
			assert_true(stats.faults[WEIR_SIM_REGISTER] >
				    2 * tried);
		assert_int_equal(weir_pool_destroy(f.pool), 0);
		assert_int_equal(weir_reactor_destroy(f.r), 0);
		assert_int_equal(weir_sim_destroy(sim), 0);
	}
}

/* Begun where another reactor's use of it was elsewhere. */
struct stop {
	struct weir_mmap *mmap;
	struct weir_reactor *r;
	struct rec rec;
};

static void begin_stop(void *arg)
{
	struct stop *s = arg;

	assert_int_equal(weir_mmap_stop(s->mmap, s->r, &s->rec.op), 0);
}

static void stop_of_an_mmap_can_be_cancelled_between_turns(void **state)
{
	static char memory[4096];
	struct weir_reactor_opts opts = { .size = sizeof(opts) };
	struct weir_inventory *inventories[2];
	struct weir_reactor *r[2];
	struct weir_sim *sim;
	struct stop s;

	(void)state;
	assert_int_equal(weir_sim_create(&sim, 1, NULL), 0);
	opts.sim = sim;
	assert_int_equal(weir_mmap_create(&s.mmap, weir_domain_system()), 0);
	assert_int_equal(weir_mmap_set_memrange(s.mmap, memory,
						sizeof(memory)), 0);
	assert_int_equal(weir_mmap_start(s.mmap), 0);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(weir_reactor_create(&r[i], &opts), 0);
		assert_int_equal(weir_inventory_create(&inventories[i], r[i],
						       NULL), 0);
		assert_int_equal(weir_inventory_attach(inventories[i], s.mmap),
				 0);
	}
	s.r = r[0];
	rec_init(&s.rec);
	assert_int_equal(weir_post(r[0], begin_stop, &s), 0);
	assert_int_equal(weir_sim_run(sim, WEIR_FOREVER, 1), 1);
	assert_int_equal(weir_mmap_state(s.mmap), WEIR_MMAP_STOPPING);
	assert_int_equal(weir_op_cancel(&s.rec.op), 0);
	assert_int_equal(weir_mmap_state(s.mmap), WEIR_MMAP_STARTED);
	assert_int_equal(weir_sim_run(sim, WEIR_FOREVER, 0), 0);
	assert_int_equal(s.rec.calls, 1);
	assert_int_equal(s.rec.res, -ECANCELED);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(weir_inventory_destroy(inventories[i]), 0);
		assert_int_equal(weir_reactor_destroy(r[i]), 0);
	}
	assert_int_equal(weir_mmap_destroy(s.mmap), 0);
	assert_int_equal(weir_sim_destroy(sim), 0);
}

static const struct harness_case cases[] = {
	CASE(stop_of_an_mmap_can_be_cancelled_between_turns),
	CASE(refused_registration_is_tried_again_for_a_time),
	CASE(buffer_has_one_holder_and_no_waiter_is_forgotten),
};

int main(void)
{
	return harness_run_plain(cases, N_OF(cases));
}
