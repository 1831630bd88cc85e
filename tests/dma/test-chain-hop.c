/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Chains, hops: steps whose job is on another reactor and its thread.
 *
 * The test's thread has the chain; a peer has the context.  At full speed two
 * peers have both.
 */

#include "tests/support/cores.h"
#include "tests/support/job-fixture.h"

#include <weir/chain.h>
#include <weir/crc32c.h>
#include <weir/domain-user.h>

/* A thread with a reactor and a context; in a world, a reactor of this one. */
struct peer {
	struct weir_reactor *r;
	struct weir_dma *dma;
	pthread_t thread;
	uint32_t backend;
	uint32_t jobs_max;
	sem_t up, done, leave;
	void (*fn)(struct peer *peer);
	int ret;
	struct weir_op op;
};

static void peer_create(struct peer *peer)
{
	struct weir_reactor_opts opts = {
		.size = sizeof(opts), .backend = peer->backend,
		.sim = harness_sim,
	};
	struct weir_dma_opts dma_opts = {
		.size = sizeof(dma_opts), .jobs_max = peer->jobs_max,
	};
	int err;

	do
		err = weir_reactor_create(&peer->r, &opts);
	while (err == -ENOMEM && !sched_yield());
	MUST(!err);
	MUST(!weir_dma_create(&peer->dma, peer->r, &dma_opts));
	MUST(!weir_dma_start(peer->dma));
}

static void peer_destroy(struct peer *peer)
{
	MUST(weir_dma_destroy(peer->dma) == 0);
	MUST(weir_reactor_destroy(peer->r) == 0);
}

static void *peer_main(void *arg)
{
	struct peer *peer = arg;

	peer_create(peer);
	sem_post(&peer->up);
	MUST(weir_reactor_run(peer->r) == 0);
	sem_post(&peer->done);
	while (sem_wait(&peer->leave))
		;
	peer_destroy(peer);
	return NULL;
}

static void peer_begin(struct peer *peer, void **state, uint32_t jobs_max)
{
	const struct world *w = *state;

	memset(peer, 0, sizeof(*peer));
	peer->backend = backend_of(w);
	peer->jobs_max = jobs_max;
	sem_init(&peer->up, 0, 0);
	sem_init(&peer->done, 0, 0);
	sem_init(&peer->leave, 0, 0);
	if (harness_sim) {
		peer_create(peer);
		return;
	}
	assert_int_equal(pthread_create(&peer->thread, NULL, peer_main, peer),
			 0);
	while (sem_wait(&peer->up))
		;
}

static void peer_wait(struct peer *peer)
{
	if (harness_sim)
		UNTIL(peer->r, !sem_trywait(&peer->done));
	else
		while (sem_wait(&peer->done))
			;
}

static void peer_stop(struct peer *peer)
{
	weir_reactor_stop(peer->r);
	if (harness_sim)
		MUST(weir_reactor_run(peer->r) == 0);
	else
		peer_wait(peer);
}

/* After its stop. */
static void peer_end(struct peer *peer)
{
	if (harness_sim) {
		peer_destroy(peer);
	} else {
		sem_post(&peer->leave);
		pthread_join(peer->thread, NULL);
	}
	sem_destroy(&peer->up);
	sem_destroy(&peer->done);
	sem_destroy(&peer->leave);
}

static void run_fn(void *arg)
{
	struct peer *peer = arg;

	peer->fn(peer);
	sem_post(&peer->done);
}

static int peer_do(struct peer *peer, void (*fn)(struct peer *peer))
{
	peer->fn = fn;
	while (weir_post(peer->r, run_fn, peer))
		sched_yield();
	peer_wait(peer);
	return peer->ret;
}

/* A domain that never answers; its functions run on the peer's thread. */
struct stuck {
	struct weir_domain *d;
	struct weir_op *op;
	_Atomic int called;
};

static int stuck_pull(struct weir_domain *d, struct weir_reactor *r,
		      struct weir_op *op, const struct weir_domain_move *move)
{
	struct stuck *s = weir_domain_ctx(d);

	(void)r, (void)move;
	s->op = op;
	atomic_fetch_add(&s->called, 1);
	return 0;
}

static void stuck_cancel(struct weir_domain *d, struct weir_op *op)
{
	(void)d;
	weir_domain_complete(op, -ECANCELED);
}

static void stuck_begin(struct stuck *s)
{
	struct weir_domain_opts opts = {
		.size = sizeof(opts), .kind = WEIR_DOMAIN_USER, .ctx = s,
	};

	memset(s, 0, sizeof(*s));
	assert_int_equal(weir_domain_create(&s->d, &opts), 0);
	assert_int_equal(weir_domain_set_pull(s->d, stuck_pull), 0);
	assert_int_equal(weir_domain_set_cancel(s->d, stuck_cancel), 0);
}

struct fixture {
	struct weir_reactor *r;
	struct peer peer;
	struct stuck stuck;
	struct weir_chain *chain;
	struct weir_job job[2];
	struct rec rec;
	char src[64], dst[64];
};

static void fixture_begin(struct fixture *g, void **state, uint32_t jobs_max)
{
	int i;

	memset(g, 0, sizeof(*g));
	g->r = start_reactor(state);
	peer_begin(&g->peer, state, jobs_max);
	stuck_begin(&g->stuck);
	assert_int_equal(weir_chain_create(&g->chain, g->r, NULL), 0);
	for (i = 0; i < 2; i++) {
		weir_job_init(&g->job[i], NULL);
		assert_int_equal(weir_chain_add_job(g->chain, i - 1,
						    g->peer.dma, &g->job[i]),
				 i);
		weir_job_copy(&g->job[i], weir_operand_mem(g->dst, 64),
			      weir_operand_mem(g->src, 64));
	}
	fill_pattern(g->src, 64, 0, 1);
	rec_init(&g->rec);
}

static void fixture_end(struct fixture *g)
{
	assert_int_equal(weir_chain_destroy(g->chain), 0);
	peer_end(&g->peer);
	assert_int_equal(weir_domain_destroy(g->stuck.d), 0);
}

static struct weir_chain_step step_of(struct fixture *g, uint32_t n)
{
	struct weir_chain_step s = { .size = sizeof(s) };

	assert_int_equal(weir_chain_get_step(g->chain, n, &s), 0);
	return s;
}

static void pulls_stuck(struct fixture *g, int n)
{
	weir_job_copy(&g->job[n], weir_operand_mem(g->dst, 64),
		      weir_operand_at(g->stuck.d, 0, 64));
}

static void start_and_get_stuck(struct fixture *g)
{
	int before = atomic_load(&g->stuck.called);

	STARTS(weir_chain_start(g->chain, &g->rec.op));
	while (atomic_load(&g->stuck.called) == before) {
		some_turns(g->r, 1);
		sched_yield();
	}
}

static void dma_destroy(struct peer *peer)
{
	peer->ret = weir_dma_destroy(peer->dma);
}

static void a_step_hops_and_comes_home(void **state)
{
	struct fixture *g = malloc(sizeof(*g));
	int i;

	fixture_begin(g, state, 0);
	for (i = 0; i < 100; i++) {
		memset(g->dst, 0, 64);
		STARTS(weir_chain_start(g->chain, &g->rec.op));
		assert_int_equal(step_of(g, 0).state, WEIR_STEP_RUNNING);
		assert_int_equal(weir_chain_destroy(g->chain), -EBUSY);
		assert_int_equal(finish(g->r, &g->rec), 2);
		assert_memory_equal(g->src, g->dst, 64);
		assert_int_equal(step_of(g, 1).detail.bytes, 64);
		assert_string_equal(step_of(g, 1).engine, "cpu");
		rec_init(&g->rec);
	}
	assert_int_equal(peer_do(&g->peer, dma_destroy), -EBUSY);
	peer_stop(&g->peer);
	fixture_end(g);
	free(g);
}

static void chain_fails_when_the_other_core_refuses_its_step(void **state)
{
	struct fixture *g = malloc(sizeof(*g));

	fixture_begin(g, state, 0);
	g->job[1].kind = 77;
	STARTS(weir_chain_start(g->chain, &g->rec.op));
	assert_int_equal(finish(g->r, &g->rec), -EINVAL);
	assert_int_equal(weir_chain_failed_step(g->chain), 1);
	assert_int_equal(step_of(g, 1).state, WEIR_STEP_FAILED);
	peer_stop(&g->peer);
	fixture_end(g);
	free(g);
}

static void cancel_reaches_a_chain_on_another_core(void **state)
{
	struct fixture *g = malloc(sizeof(*g));
	int i;

	fixture_begin(g, state, 0);
	pulls_stuck(g, 0);
	for (i = 0; i < 20; i++) {
		rec_init(&g->rec);
		if (i % 2)
			start_and_get_stuck(g);
		else
			STARTS(weir_chain_start(g->chain, &g->rec.op));
		assert_int_equal(weir_op_cancel(&g->rec.op), 0);
		assert_int_equal(finish(g->r, &g->rec), -ECANCELED);
		assert_true(step_of(g, 0).state == WEIR_STEP_CANCELLED ||
			    (step_of(g, 0).state == WEIR_STEP_SKIPPED &&
			     !(i % 2)));
		assert_int_equal(step_of(g, 1).state, WEIR_STEP_SKIPPED);
	}
	peer_stop(&g->peer);
	fixture_end(g);
	free(g);
}

static void deadline_reaches_a_chain_on_another_core(void **state)
{
	struct fixture *g = malloc(sizeof(*g));

	fixture_begin(g, state, 0);
	pulls_stuck(g, 1);
	weir_op_set_deadline(&g->rec.op, weir_reactor_now(g->r) + WEIR_MSEC);
	STARTS(weir_chain_start(g->chain, &g->rec.op));
	assert_int_equal(finish(g->r, &g->rec), -ETIMEDOUT);
	peer_stop(&g->peer);
	fixture_end(g);
	free(g);
}

static void unstick(struct peer *peer)
{
	struct fixture *g = weir_container_of(peer, struct fixture, peer);

	weir_domain_complete(g->stuck.op, 64);
}

/* The context has space for one. */
static void capacity_there_is_waited_for(void **state)
{
	struct fixture *g = malloc(sizeof(*g));
	struct weir_chain *other = NULL;
	struct rec rec;
	struct weir_job job;

	fixture_begin(g, state, 1);
	rec_init(&rec);
	weir_job_init(&job, NULL);
	weir_job_copy(&job, weir_operand_mem(g->dst, 64),
		      weir_operand_mem(g->src, 64));
	assert_int_equal(weir_chain_create(&other, g->r, NULL), 0);
	assert_int_equal(weir_chain_add_job(other, -1, g->peer.dma, &job), 0);
	pulls_stuck(g, 0);

	start_and_get_stuck(g);
	STARTS(weir_chain_start(other, &rec.op));
	some_turns(g->r, 100);
	assert_int_equal(rec.calls, 0);
	peer_do(&g->peer, unstick);
	/* Which of them is first is up to the other thread. */
	UNTIL(g->r, rec.calls && g->rec.calls);
	assert_int_equal(rec.res, 1);
	assert_int_equal(g->rec.res, 2);

	/* Who waits has not begun. */
	rec_init(&rec);
	rec_init(&g->rec);
	start_and_get_stuck(g);
	STARTS(weir_chain_start(other, &rec.op));
	assert_int_equal(weir_op_cancel(&rec.op), 0);
	assert_int_equal(finish(g->r, &rec), -ECANCELED);
	peer_do(&g->peer, unstick);
	assert_int_equal(finish(g->r, &g->rec), 2);
	peer_stop(&g->peer);
	assert_int_equal(weir_chain_destroy(other), 0);
	fixture_end(g);
	free(g);
}

static void a_reactor_that_stops_there_ends_it(void **state)
{
	struct fixture *g = malloc(sizeof(*g));

	fixture_begin(g, state, 0);
	pulls_stuck(g, 0);
	start_and_get_stuck(g);
	peer_stop(&g->peer);
	assert_int_equal(finish(g->r, &g->rec), -ECANCELED);
	assert_int_equal(step_of(g, 0).state, WEIR_STEP_FAILED);

	rec_init(&g->rec);
	STARTS(weir_chain_start(g->chain, &g->rec.op));
	assert_int_equal(finish(g->r, &g->rec), -ESHUTDOWN);
	assert_int_equal(step_of(g, 0).res, -ESHUTDOWN);
	fixture_end(g);
	free(g);
}

/* Two peers with chains of their own, whose steps hop to the other. */

#define FLOWS 8
#define BYTES 4096u
#define N_STEPS 4

struct flow {
	struct weir_op op;
	struct storm *storm;
	struct weir_chain *chain;
	struct weir_job copy, crc, back;
	char src[BYTES], mid[BYTES], dst[BYTES];
	size_t len;
};

struct storm {
	struct peer peer;
	struct storm *other;
	struct flow flows[FLOWS];
	unsigned int left, running, ended, cut, shut;
	uint64_t rng;
	bool never_stops;
	sem_t over;
};

static uint64_t rnd(struct storm *s, uint64_t n)
{
	s->rng ^= s->rng << 13;
	s->rng ^= s->rng >> 7;
	s->rng ^= s->rng << 17;
	return s->rng % n;
}

static void flow_start(struct flow *l);

static void flow_check(struct flow *l, int64_t res)
{
	struct storm *s = l->storm;

	if (res == N_STEPS) {
		MUST(!memcmp(l->src, l->dst, l->len));
		MUST(l->crc.crc == weir_crc32c(5, l->src, l->len));
	} else if (res == -ECANCELED || res == -ETIMEDOUT) {
		s->cut++;
	} else {
		MUST(res == -ESHUTDOWN || res == -EBADFD);
		MUST(!s->other->never_stops);
		s->shut++;
	}
}

static void flow_ended(struct weir_op *op, int64_t res)
{
	struct flow *l = weir_container_of(op, struct flow, op);
	struct storm *s = l->storm;

	flow_check(l, res);
	s->ended++;
	s->running--;
	if (s->left)
		flow_start(l);
	else if (!s->running)
		sem_post(&s->over);
	if (rnd(s, 8) == 0)
		weir_op_cancel(&s->flows[rnd(s, FLOWS)].op);
}

static int64_t flow_call(struct weir_chain *chain, uint32_t step, void *arg)
{
	struct flow *l = arg;

	(void)chain, (void)step;
	if (rnd(l->storm, 20) == 0)
		weir_op_cancel(&l->op);
	return 0;
}

/* A peer that is stopping has no more to start. */
static void flow_start(struct flow *l)
{
	struct storm *s = l->storm;
	uint64_t now = weir_reactor_now(s->peer.r);
	int err;

	l->len = 1 + rnd(s, BYTES);
	fill_pattern(l->src, l->len, rnd(s, 1000), 1);
	weir_job_copy(&l->copy, weir_operand_mem(l->mid, l->len),
		      weir_operand_mem(l->src, l->len));
	weir_job_crc32c(&l->crc, weir_operand_mem(l->mid, l->len), 5);
	weir_job_copy(&l->back, weir_operand_mem(l->dst, l->len),
		      weir_operand_mem(l->mid, l->len));
	if (rnd(s, 8) == 0)
		weir_op_set_deadline(&l->op, now + rnd(s, 50 * WEIR_USEC));
	err = weir_chain_start(l->chain, &l->op);
	if (err) {
		MUST(err == -ESHUTDOWN && !s->never_stops);
		s->left = 0;
		if (!s->running)
			sem_post(&s->over);
		return;
	}
	s->left--;
	s->running++;
}

static void flow_make(struct flow *l, struct storm *s)
{
	struct weir_dma *there = s->other->peer.dma;
	int a;

	l->storm = s;
	weir_op_init(&l->op, flow_ended);
	weir_job_init(&l->copy, NULL);
	weir_job_init(&l->crc, NULL);
	weir_job_init(&l->back, NULL);
	MUST(!weir_chain_create(&l->chain, s->peer.r, NULL));
	a = weir_chain_add_job(l->chain, WEIR_CHAIN_FIRST, s->peer.dma,
			       &l->copy);
	MUST(weir_chain_add_job(l->chain, a, there, &l->crc) == 1);
	MUST(weir_chain_add_job(l->chain, a, there, &l->back) == 2);
	MUST(weir_chain_add_call(l->chain, 2, flow_call, l) == 3);
}

static void storm_make(struct peer *peer)
{
	struct storm *s = weir_container_of(peer, struct storm, peer);
	int i;

	for (i = 0; i < FLOWS; i++)
		flow_make(&s->flows[i], s);
}

static void storm_go(struct peer *peer)
{
	struct storm *s = weir_container_of(peer, struct storm, peer);
	int i;

	for (i = 0; i < FLOWS && s->left; i++)
		flow_start(&s->flows[i]);
}

/* A peer that has stopped lets its chains go by itself. */
static void storm_unmake(struct peer *peer)
{
	struct storm *s = weir_container_of(peer, struct storm, peer);
	int i;

	for (i = 0; i < FLOWS; i++)
		MUST(!weir_chain_destroy(s->flows[i].chain));
}

static void storm_begin(struct storm *s, struct storm *other, void **state,
			uint64_t seed, unsigned int n)
{
	memset(s, 0, sizeof(*s));
	s->other = other;
	s->rng = seed;
	s->left = n;
	sem_init(&s->over, 0, 0);
	peer_begin(&s->peer, state, 3);
}

static void chains_that_hop_at_full_speed_all_end(void **state)
{
	struct storm *s = calloc(2, sizeof(*s));
	unsigned int n = want_long() ? 1000000 : scaled(20000), i;

	start_reactor(state);
	for (i = 0; i < 2; i++) {
		storm_begin(&s[i], &s[1 - i], state, 77 + i, n);
		s[i].never_stops = true;
	}
	for (i = 0; i < 2; i++)
		peer_do(&s[i].peer, storm_make);
	for (i = 0; i < 2; i++)
		peer_do(&s[i].peer, storm_go);
	for (i = 0; i < 2; i++)
		await(&s[i].over);
	for (i = 0; i < 2; i++) {
		assert_int_equal(s[i].ended, n);
		assert_true(s[i].cut && s[i].cut < n);
		peer_do(&s[i].peer, storm_unmake);
	}
	for (i = 0; i < 2; i++) {
		peer_stop(&s[i].peer);
		peer_end(&s[i].peer);
		sem_destroy(&s[i].over);
	}
	free(s);
}

/* One that has the contexts only, and stops at some time. */
static void reactor_may_stop_while_chains_hop(void **state)
{
	unsigned int rounds = scaled(100), i;
	struct storm *s;

	start_reactor(state);
	for (i = 0; i < rounds; i++) {
		s = calloc(2, sizeof(*s));
		storm_begin(&s[0], &s[1], state, 99 + i, 300);
		storm_begin(&s[1], &s[0], state, 1, 0);
		s[0].never_stops = true;
		peer_do(&s[0].peer, storm_make);
		peer_do(&s[0].peer, storm_go);
		if (rnd(&s[1], 2))
			sched_yield();
		peer_stop(&s[1].peer);
		await(&s[0].over);
		assert_int_equal(s[0].ended, 300);
		peer_do(&s[0].peer, storm_unmake);
		peer_end(&s[1].peer);
		peer_stop(&s[0].peer);
		peer_end(&s[0].peer);
		sem_destroy(&s[0].over);
		sem_destroy(&s[1].over);
		free(s);
	}
}

int main(void)
{
	static const struct harness_case cases[] = {
		CASE(a_step_hops_and_comes_home),
		CASE(chain_fails_when_the_other_core_refuses_its_step),
		CASE(cancel_reaches_a_chain_on_another_core),
		CASE(deadline_reaches_a_chain_on_another_core),
		CASE(capacity_there_is_waited_for),
		REAL(a_reactor_that_stops_there_ends_it),
		CASE(chains_that_hop_at_full_speed_all_end),
		CASE(reactor_may_stop_while_chains_hop),
	};

	return harness_run_all(cases, N_OF(cases));
}
