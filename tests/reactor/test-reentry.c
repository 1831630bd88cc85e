/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Functions of a user's domain or engine that ask for the end of the very
 * operation for which they are called: each function, each request, and each
 * way in which the function may return.  And what tests/fuzz/fuzz-calls.c has
 * found, in which any function calls any other.
 */

#include "tests/support/job-fixture.h"

#include <malloc.h>

#include <weir/chain.h>
#include <weir/domain-user.h>
#include <weir/engine.h>
#include <weir/group.h>
#include <weir/inventory.h>
#include <weir/pipeline.h>
#include <weir/pool.h>
#include <weir/segment.h>
#include <weir/shared-pool.h>
#include <weir/sync.h>

#include "tests/support/sim-calls.h"

#define LEN 8192u
#define PENDING_MAX 64
#define TURNS_TO_SETTLE 20000

/* Functions that are entered. */
enum site {
	PULL, PUSH, TRANSFER, FILL, TRANSLATE, INVALIDATE, MOVE_CANCEL,
	ENGINE_START, ENGINE_CANCEL, ENGINE_FLUSH, N_SITES,
};

/* What they ask for. */
enum request {
	NOTHING, CANCEL, STOP_CONTEXT, DESTROY_CONTEXT, STOP_REACTOR,
	FLUSH_CONTEXT, START_CHAIN, TURN_REACTOR, ALL_OF_IT, N_REQUESTS,
};

/* How they return. */
enum ending { LATER, INSIDE, FULL, REFUSED, N_ENDINGS };

/* What the job is a part of. */
enum vehicle { JOB, LAZY, CHAIN, PIPELINE, N_VEHICLES };

struct combination {
	enum site site;
	enum request request;
	enum ending ending;
	enum vehicle vehicle;
	bool bounced;
	uint32_t jobs_max;
};

struct pending {
	struct weir_op *op;	/* Of a domain, or */
	struct weir_job *job;	/* of the engine. */
	uint64_t total;
	bool cancelled;
};

static struct fixture {
	struct combination c;
	struct weir_reactor *r;
	struct weir_dma *dma;
	struct weir_domain *user[2], *file;
	int fd;
	char *mem;
	bool armed;		/* The function has not asked yet. */
	bool asked;
	int depth;		/* Starts of moves and jobs on the stack. */
	int n_cancels;		/* Heard by the domain or the engine. */
	struct pending pending[PENDING_MAX];
	int n_pending;
	struct jrec j;
	struct weir_chain *chain;
	struct weir_pipeline *pipeline;
	int n_units;
	struct rec owner, stop;
	struct weir_chain *other;	/* Of one copy in memory. */
	struct jrec other_job;
	struct rec other_rec;
	bool stop_asked, other_asked;
} g;

static struct weir_op *owner_op(void)
{
	return g.c.vehicle == JOB || g.c.vehicle == LAZY ? &g.j.job.op :
							   &g.owner.op;
}

static int owner_calls(void)
{
	return g.c.vehicle == JOB || g.c.vehicle == LAZY ? g.j.calls :
							   g.owner.calls;
}

static int64_t owner_res(void)
{
	return g.c.vehicle == JOB || g.c.vehicle == LAZY ? g.j.res :
							   g.owner.res;
}

static void stop_context(void)
{
	int err;

	if (g.stop_asked)
		return;
	err = weir_dma_stop(g.dma, &g.stop.op);
	if (err != -ESHUTDOWN)
		assert_int_equal(err, 0);
	g.stop_asked = !err;
}

static void start_chain(void)
{
	int err;

	if (g.other_asked)
		return;
	err = weir_chain_start(g.other, &g.other_rec.op);
	if (err != -ESHUTDOWN)
		assert_int_equal(err, 0);
	g.other_asked = !err;
}

static void ask(enum request request)
{
	switch (request) {
	case CANCEL:
		(void)weir_op_cancel(owner_op());
		break;
	case STOP_CONTEXT:
		stop_context();
		break;
	case DESTROY_CONTEXT:
		assert_int_equal(weir_dma_destroy(g.dma), -EBUSY);
		break;
	case STOP_REACTOR:
		weir_reactor_stop(g.r);
		break;
	case FLUSH_CONTEXT:
		weir_dma_flush(g.dma);
		break;
	case START_CHAIN:
		start_chain();
		break;
	case TURN_REACTOR:
		/* It would run callbacks inside the start. */
		assert_int_equal(weir_reactor_turn(g.r, 0), -EBUSY);
		assert_int_equal(weir_reactor_run(g.r), -EBUSY);
		assert_int_equal(weir_reactor_destroy(g.r), -EBUSY);
		break;
	case ALL_OF_IT:
		for (request = CANCEL; request < ALL_OF_IT; request++)
			if (request != STOP_REACTOR)
				ask(request);
		break;
	default:
		break;
	}
}

/* @site is entered.  Returns whether it is what the combination is about. */
static bool entered(enum site site)
{
	if (!g.armed || site != g.c.site)
		return false;
	g.armed = false;
	g.asked = true;
	ask(g.c.request);
	return true;
}

static void add_pending(struct weir_op *op, struct weir_job *job,
			uint64_t total)
{
	assert_in_range(g.n_pending, 0, PENDING_MAX - 1);
	g.pending[g.n_pending++] = (struct pending){ op, job, total, false };
}

static void end_pending(int i)
{
	struct pending p = g.pending[i];

	g.pending[i] = g.pending[--g.n_pending];
	if (p.op)
		weir_domain_complete(p.op, p.cancelled ? -ECANCELED :
							 (int64_t)p.total);
	else
		weir_job_end(p.job, p.cancelled ? 0 : p.total,
			     p.cancelled ? -ECANCELED : 0, 0);
}

/* @site is entered while something starts.  Returns 1 if it is what the
 * combination is about, or the error with which it is to return. */
static int entered_by_start(enum site site)
{
	bool this_one;

	g.depth++;
	this_one = entered(site);
	g.depth--;
	if (this_one && g.c.ending == FULL)
		return -EAGAIN;
	if (this_one && g.c.ending == REFUSED)
		return -ENXIO;
	return this_one;
}

/* @op or @job starts. */
static int begin(enum site site, struct weir_op *op, struct weir_job *job,
		 uint64_t total)
{
	int this_one = entered_by_start(site);

	if (this_one < 0)
		return this_one;
	add_pending(op, job, total);
	if (this_one && g.c.ending == INSIDE)
		end_pending(g.n_pending - 1);
	return 0;
}

/* The cancel function @site is called for @op or @job. */
static void cancel_pending(enum site site, const struct weir_op *op,
			   const struct weir_job *job)
{
	/* What was asked for inside is acted upon when that has returned. */
	assert_int_equal(g.depth, 0);
	g.n_cancels++;
	entered(site);
	for (int i = 0; i < g.n_pending; i++) {
		if (g.pending[i].op != op || g.pending[i].job != job)
			continue;
		g.pending[i].cancelled = true;
		if (g.c.site == site && g.c.ending == INSIDE)
			end_pending(i);
		return;
	}
	fail_msg("function %d cancels what is not in flight", site);
}

static uint64_t total_of(const struct weir_domain_move *m)
{
	uint64_t n = 0;

	for (uint32_t i = 0; i < m->dst.n_iov; i++)
		n += m->dst.iov[i].iov_len;
	return n;
}

#define MOVE_FN(name, site)                                            \
	static int name(struct weir_domain *d, struct weir_reactor *r, \
			struct weir_op *op,                            \
			const struct weir_domain_move *m)              \
	{                                                              \
		(void)d, (void)r;                                      \
		return begin(site, op, NULL, total_of(m));             \
	}

MOVE_FN(on_pull, PULL)
MOVE_FN(on_push, PUSH)
MOVE_FN(on_transfer, TRANSFER)
MOVE_FN(on_fill, FILL)

static void on_move_cancel(struct weir_domain *d, struct weir_op *op)
{
	(void)d;
	cancel_pending(MOVE_CANCEL, op, NULL);
}

static int on_translate(struct weir_domain *src, void *src_ctx,
			struct weir_domain *dst, void *dst_ctx, uint64_t addr,
			size_t len, struct weir_translation *ret)
{
	int err = entered_by_start(TRANSLATE);

	(void)src, (void)src_ctx, (void)dst_ctx;
	if (err < 0)
		return err;
	ret->domain = dst;
	ret->iov = (struct iovec){ g.mem + addr, len };
	ret->n_iov = 1;
	return 0;
}

static void on_invalidate(struct weir_domain *d, void *ctx,
			  const struct weir_translation *t)
{
	(void)d, (void)ctx, (void)t;
	entered(INVALIDATE);
}

/* Copies in memory, and out of files. */
static int card_can(void *arg, const struct weir_engine_query *q,
		    const char **why)
{
	(void)arg;
	*why = "only its own";
	return q->kind == WEIR_JOB_COPY && q->dst == weir_domain_system() &&
	       weir_domain_kind(q->src) < WEIR_DOMAIN_USER;
}

static int card_start(void *arg, struct weir_job *job)
{
	(void)arg;
	return begin(ENGINE_START, NULL, job, weir_job_bytes(job));
}

static void card_cancel(void *arg, struct weir_job *job)
{
	(void)arg;
	cancel_pending(ENGINE_CANCEL, NULL, job);
}

static void card_flush(void *arg)
{
	(void)arg;
	entered(ENGINE_FLUSH);
}

static const struct weir_engine_ops card = {
	.size = sizeof(card), .name = "card", .can = card_can,
	.start = card_start, .cancel = card_cancel, .flush = card_flush,
};

static bool is_engines(enum site site)
{
	return site >= ENGINE_START;
}

/* A job that comes to the function of the combination. */
static void set_job(void)
{
	struct weir_operand mem = weir_operand_mem(g.mem, LEN);
	struct weir_operand to = weir_operand_mem(g.mem + LEN, LEN);
	struct weir_operand user = weir_operand_at(g.user[0], 0, LEN);
	struct weir_operand file = weir_operand_at(g.file, 0, LEN);

	jrec_init(&g.j);
	switch (g.c.site) {
	case PUSH:
		weir_job_copy(&g.j.job, user, g.c.bounced ? file : mem);
		break;
	case TRANSFER:
		weir_job_copy(&g.j.job, user,
			      weir_operand_at(g.user[1], 0, LEN));
		break;
	case FILL:
		weir_job_fill(&g.j.job, user, 7);
		break;
	case ENGINE_START:
	case ENGINE_CANCEL:
	case ENGINE_FLUSH:
		weir_job_copy(&g.j.job, g.c.bounced ? user : to,
			      g.c.bounced ? file : mem);
		break;
	default:
		weir_job_copy(&g.j.job, g.c.bounced ? file : to, user);
	}
	if (g.c.vehicle == LAZY)
		g.j.job.flags |= WEIR_JOB_LAZY;
}

static int64_t on_call(struct weir_chain *chain, uint32_t step, void *arg)
{
	(void)chain, (void)step, (void)arg;
	return 0;
}

static int on_build(struct weir_slot *slot, void *arg)
{
	int n = weir_chain_add_job(weir_slot_chain(slot), WEIR_CHAIN_FIRST,
				   g.dma, &g.j.job);

	(void)arg;
	return n < 0 ? n : 0;
}

static int on_next(struct weir_slot *slot, void *arg)
{
	(void)slot, (void)arg;
	return g.n_units++ < 2 ? WEIR_PIPELINE_UNIT : WEIR_PIPELINE_END;
}

static int on_done(struct weir_slot *slot, int64_t res, void *arg)
{
	(void)slot, (void)arg;
	return res < 0 ? (int)res : 0;
}

static void fixture_begin(void)
{
	const struct weir_pipeline_opts opts = {
		.size = sizeof(opts), .build = on_build, .next = on_next,
		.done = on_done, .depth = 1,
	};
	struct weir_dma_opts dma_opts = {
		.size = sizeof(dma_opts), .jobs_max = g.c.jobs_max,
	};
	int job;

	assert_int_equal(weir_dma_create(&g.dma, g.r, &dma_opts), 0);
	if (is_engines(g.c.site))
		assert_int_equal(weir_dma_add_engine(g.dma, &card, NULL), 0);
	assert_int_equal(weir_dma_start(g.dma), 0);
	set_job();
	rec_init(&g.owner);
	rec_init(&g.stop);
	rec_init(&g.other_rec);
	jrec_init(&g.other_job);
	weir_job_fill(&g.other_job.job, weir_operand_mem(g.mem, 64), 1);
	assert_int_equal(weir_chain_create(&g.other, g.r, NULL), 0);
	assert_int_equal(weir_chain_add_job(g.other, WEIR_CHAIN_FIRST, g.dma,
					    &g.other_job.job), 0);
	g.n_units = 0;
	g.chain = NULL;
	g.pipeline = NULL;
	if (g.c.vehicle == CHAIN) {
		assert_int_equal(weir_chain_create(&g.chain, g.r, NULL), 0);
		job = weir_chain_add_job(g.chain, WEIR_CHAIN_FIRST, g.dma,
					 &g.j.job);
		assert_int_equal(weir_chain_add_call(g.chain, job, on_call,
						     NULL), 1);
	} else if (g.c.vehicle == PIPELINE) {
		assert_int_equal(weir_pipeline_create(&g.pipeline, g.r, &opts),
				 0);
	}
	g.armed = true;
	g.asked = g.stop_asked = g.other_asked = false;
	g.n_pending = g.n_cancels = 0;
	if (g.c.site == TRANSFER)
		assert_int_equal(weir_domain_set_transfer(g.user[0],
							  on_transfer), 0);
	if (g.c.site != TRANSLATE && g.c.site != INVALIDATE)
		return;
	assert_int_equal(weir_domain_set_translate(g.user[0], on_translate), 0);
	assert_int_equal(weir_domain_set_invalidate(g.user[0], on_invalidate),
			 0);
}

static void fixture_end(void)
{
	assert_int_equal(weir_domain_users(g.user[0]), 0);
	assert_int_equal(weir_domain_users(g.user[1]), 0);
	assert_int_equal(weir_domain_set_transfer(g.user[0], NULL), 0);
	assert_int_equal(weir_domain_set_translate(g.user[0], NULL), 0);
	assert_int_equal(weir_domain_set_invalidate(g.user[0], NULL), 0);
	assert_int_equal(weir_chain_destroy(g.other), 0);
	assert_int_equal(weir_chain_destroy(g.chain), 0);
	assert_int_equal(weir_pipeline_destroy(g.pipeline), 0);
	assert_int_equal(weir_dma_in_flight(g.dma), 0);
	assert_int_equal(weir_dma_destroy(g.dma), 0);
}

static int start_owner(void)
{
	int err;

	harness_starting++;
	if (g.c.vehicle == CHAIN)
		err = weir_chain_start(g.chain, &g.owner.op);
	else if (g.c.vehicle == PIPELINE)
		err = weir_pipeline_start(g.pipeline, &g.owner.op);
	else
		err = weir_job_start(g.dma, &g.j.job);
	harness_starting--;
	return err;
}

static bool is_settled(bool started)
{
	struct weir_dma_stats s = { .size = sizeof(s) };

	assert_int_equal(weir_dma_stats(g.dma, &s), 0);
	return (!started || owner_calls()) && !s.in_flight && !s.quarantined &&
	       (!g.stop_asked || g.stop.calls) &&
	       (!g.other_asked || g.other_rec.calls) && !g.n_pending;
}

static void fail_here(const char *what)
{
	fail_msg("function %d asks for %d and returns %d, %s%s, jobs_max %u: "
		 "%s (%d of 1 callbacks, %lld)", g.c.site, g.c.request,
		 g.c.ending,
		 (const char *const[]){ "job", "lazy job", "chain",
					"pipeline" }[g.c.vehicle],
		 g.c.bounced ? ", bounced" : "", g.c.jobs_max, what,
		 owner_calls(), (long long)owner_res());
}

/* Functions that end something are called when something is to be ended. */
static bool is_cancels(enum site site)
{
	return site == MOVE_CANCEL || site == ENGINE_CANCEL;
}

static void settle(bool started)
{
	unsigned int turns;

	for (turns = 0; !is_settled(started); turns++) {
		if (turns > TURNS_TO_SETTLE)
			fail_here("does not end");
		if (turns == 3 && is_cancels(g.c.site))
			(void)weir_op_cancel(owner_op());
		if (turns > 4 && g.n_pending)
			end_pending(0);
		assert_true(weir_reactor_turn(g.r, g.n_pending || turns < 5 ?
					      0 : WEIR_SEC / 1000) >= 0);
	}
}

static bool is_starts(enum site site)
{
	return site == PULL || site == PUSH || site == TRANSFER ||
	       site == FILL || site == ENGINE_START;
}

static void check(int err)
{
	bool started = !err;

	if (!g.asked)
		fail_here("was not called");
	if (owner_calls() != started)
		fail_here("the number of callbacks is wrong");
	if (err && (g.c.ending == LATER || g.c.ending == INSIDE))
		fail_here("must start");
	if (started && g.c.request == CANCEL && owner_res() != -ECANCELED &&
	    (g.c.ending == LATER || g.c.ending == FULL) &&
	    g.c.site != INVALIDATE && g.c.site != ENGINE_FLUSH &&
	    g.c.site != TRANSLATE)
		fail_here("was not cancelled");
	if (g.c.request == CANCEL && g.c.ending == LATER &&
	    is_starts(g.c.site) && !g.n_cancels)
		fail_here("the cancel was lost");
	if (g.stop_asked && weir_dma_state(g.dma) != WEIR_DMA_STOPPED)
		fail_here("the context has not stopped");
	if (g.stop_asked && (g.stop.calls != 1 || g.stop.res))
		fail_here("the stop has not ended");
	if (g.other_asked && g.other_rec.calls != 1)
		fail_here("another chain has not ended");
	if (g.other_asked && !g.stop_asked && g.other_rec.res != 1)
		fail_here("another chain has not run");
}

static void run_one(void)
{
	int err;

	fixture_begin();
	err = start_owner();
	settle(!err);
	check(err);
	if (g.c.request == STOP_REACTOR) {
		UNTIL(g.r, weir_reactor_state(g.r) == WEIR_REACTOR_STOPPED);
		assert_int_equal(weir_reactor_start(g.r), 0);
	}
	/* What changed or was due is told. */
	some_turns(g.r, 2);
	fixture_end();
}

static bool makes_sense(void)
{
	if (g.c.bounced && (g.c.site == TRANSFER || g.c.site == FILL ||
			    g.c.site == TRANSLATE || g.c.site == INVALIDATE))
		return false;
	/* These return nothing; a cancel may end what it is about. */
	if (g.c.site == INVALIDATE || g.c.site == ENGINE_FLUSH)
		return g.c.ending == LATER;
	if (is_cancels(g.c.site))
		return g.c.ending == LATER || g.c.ending == INSIDE;
	return true;
}

static struct weir_domain *make_domain(void)
{
	struct weir_domain_opts opts = {
		.size = sizeof(opts), .kind = WEIR_DOMAIN_USER,
	};
	struct weir_domain *d = NULL;

	assert_int_equal(weir_domain_create(&d, &opts), 0);
	assert_int_equal(weir_domain_set_pull(d, on_pull), 0);
	assert_int_equal(weir_domain_set_push(d, on_push), 0);
	assert_int_equal(weir_domain_set_fill(d, on_fill), 0);
	assert_int_equal(weir_domain_set_cancel(d, on_move_cancel), 0);
	return d;
}

static void run_all(void **state, enum vehicle vehicle)
{
	uint32_t i, n = N_SITES * N_REQUESTS * N_ENDINGS * 2 * 2;

	memset(&g, 0, sizeof(g));
	g.r = start_reactor(state);
	g.mem = calloc(2, LEN);
	g.fd = test_file(state, "f", LEN, 1);
	g.file = file_domain(g.fd);
	g.user[0] = make_domain();
	g.user[1] = make_domain();
	for (i = 0; i < n; i++) {
		g.c = (struct combination){
			.site = (enum site)(i % N_SITES),
			.request = (enum request)(i / N_SITES % N_REQUESTS),
			.ending = (enum ending)(i / N_SITES / N_REQUESTS %
						N_ENDINGS),
			.vehicle = vehicle,
			.bounced = i / N_SITES / N_REQUESTS / N_ENDINGS % 2,
			.jobs_max = i >= n / 2,
		};
		if (makes_sense())
			run_one();
	}
	assert_int_equal(weir_domain_destroy(g.user[0]), 0);
	assert_int_equal(weir_domain_destroy(g.user[1]), 0);
	assert_int_equal(weir_domain_destroy(g.file), 0);
	close(g.fd);
	free(g.mem);
}

static void functions_may_end_their_job(void **state)
{
	run_all(state, JOB);
}

static void functions_may_end_their_lazy_job(void **state)
{
	run_all(state, LAZY);
}

static void functions_may_end_the_chain_of_their_job(void **state)
{
	run_all(state, CHAIN);
}

static void functions_may_end_the_pipeline_of_their_job(void **state)
{
	run_all(state, PIPELINE);
}

/* Moves without a job. */

static int begin_move(struct weir_domain *d, struct weir_reactor *r,
		      struct weir_op *op, const struct weir_domain_move *m)
{
	(void)d, (void)r, (void)op, (void)m;
	return 0;
}

static void turn_in_cancel(struct weir_domain *d, struct weir_op *op)
{
	struct weir_reactor *r = weir_domain_ctx(d);

	assert_int_equal(weir_reactor_turn(r, 0), -EBUSY);
	weir_domain_complete(op, -ECANCELED);
	assert_int_equal(weir_reactor_turn(r, 0), -EBUSY);
}

static void cancel_function_of_a_domain_cannot_turn_the_reactor(void **state)
{
	struct weir_domain_opts opts = {
		.size = sizeof(opts), .kind = WEIR_DOMAIN_USER,
	};
	struct weir_domain_move m = { .size = sizeof(m) };
	struct weir_domain *d;
	struct iovec iov;
	struct rec rec;
	char mem[16];

	g.r = start_reactor(state);
	opts.ctx = g.r;
	assert_int_equal(weir_domain_create(&d, &opts), 0);
	assert_int_equal(weir_domain_set_pull(d, begin_move), 0);
	assert_int_equal(weir_domain_set_cancel(d, turn_in_cancel), 0);
	iov = (struct iovec){ mem, sizeof(mem) };
	m.src = (struct weir_domain_side){ .domain = d, .iov = &iov,
					   .n_iov = 1 };
	m.dst = (struct weir_domain_side){ .iov = &iov, .n_iov = 1 };
	rec_init(&rec);
	STARTS(weir_domain_pull(g.r, &rec.op, &m));
	assert_int_equal(weir_op_cancel(&rec.op), 0);
	assert_int_equal(rec.calls, 0);
	assert_int_equal(finish(g.r, &rec), -ECANCELED);
	assert_int_equal(weir_domain_destroy(d), 0);
}

/* Callbacks of the map of memory. */

struct hook {
	void (*then)(struct hook *hook, int event);
	struct weir_reactor *r;
	struct weir_pool *pool;
	struct weir_shared_pool *shared;
	struct weir_op *op;
	int n, err;
};

static void on_event(int event, const struct weir_segment *list, void *arg)
{
	struct hook *hook = arg;

	assert_true(list->len);
	hook->n++;
	hook->then(hook, event);
}

static void hook_on(struct hook *hook)
{
	assert_int_equal(weir_segment_event_register("reentry", on_event, hook),
			 0);
}

static void hook_off(struct hook *hook)
{
	assert_int_equal(weir_segment_event_unregister("reentry", hook), 0);
}

static void cancel_op(struct hook *hook, int event)
{
	if (event == WEIR_SEGMENT_REMOVING)
		hook->err = weir_op_cancel(hook->op);
}

/* The request is recorded, and then it is too late. */
static void segment_callback_may_cancel_the_stop_of_its_mmap(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct hook hook = { .then = cancel_op, .err = 1 };
	struct weir_mmap *m;
	struct rec rec;

	assert_int_equal(weir_mmap_create(&m, NULL), 0);
	assert_int_equal(weir_mmap_alloc(m, 4096, 0), 0);
	assert_int_equal(weir_mmap_start(m), 0);
	rec_init(&rec);
	hook.op = &rec.op;
	hook_on(&hook);
	assert_int_equal(weir_mmap_stop(m, r, &rec.op), 0);
	assert_int_equal(hook.n, 1);
	assert_int_equal(hook.err, 0);
	assert_int_equal(finish(r, &rec), 0);
	assert_int_equal(weir_mmap_state(m), WEIR_MMAP_STOPPED);
	hook_off(&hook);
	assert_int_equal(weir_mmap_destroy(m), 0);
}

static void destroy_pool(struct hook *hook, int event)
{
	if (event == WEIR_SEGMENT_ADDED)
		hook->err = hook->shared ?
				    weir_shared_pool_destroy(hook->shared) :
				    weir_pool_destroy(hook->pool);
}

static void segment_callback_cannot_destroy_a_pool_that_grows(void **state)
{
	struct weir_shared_pool_class cls = { .buf_size = 4096, .bufs = 1 };
	struct weir_shared_pool_opts shared_opts = {
		.size = sizeof(shared_opts), .classes = &cls, .n_classes = 1,
	};
	struct weir_pool_opts opts = { .size = sizeof(opts), .bufs = 1,
				       .buf_size = 4096 };
	struct weir_reactor *r = start_reactor(state);
	struct hook hook = { .then = destroy_pool };

	assert_int_equal(weir_pool_create(&hook.pool, r, &opts), 0);
	hook_on(&hook);
	assert_int_equal(weir_pool_grow(hook.pool, 1), 0);
	assert_int_equal(hook.err, -EBUSY);
	hook_off(&hook);
	assert_int_equal(weir_pool_destroy(hook.pool), 0);

	assert_int_equal(weir_shared_pool_create(&hook.shared, &shared_opts),
			 0);
	hook.err = 0;
	hook_on(&hook);
	assert_int_equal(weir_shared_pool_grow(hook.shared, 4096, 1), 0);
	assert_int_equal(hook.err, -EBUSY);
	hook_off(&hook);
	assert_int_equal(weir_shared_pool_destroy(hook.shared), 0);
}

static void destroy_reactor(struct hook *hook, int event)
{
	if (event == WEIR_SEGMENT_ADDED)
		hook->err = weir_reactor_destroy(hook->r);
}

static void segment_callback_cannot_destroy_the_reactor_of_a_new_pool(
	void **state)
{
	struct hook hook = { .then = destroy_reactor };

	hook.r = start_reactor(state);
	hook_on(&hook);
	assert_int_equal(weir_pool_create(&hook.pool, hook.r, NULL), 0);
	assert_int_equal(hook.err, -EBUSY);
	hook_off(&hook);
	assert_int_equal(weir_pool_destroy(hook.pool), 0);
}

/* What else makes the end of a pool impossible is refused, too. */
static void pool_whose_mmap_is_used_is_not_destroyed(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_inventory *inventory;
	struct weir_mmap *m;
	struct weir_pool *pool;
	struct weir_sync *sync;
	struct weir_buf *buf;
	void *addr;

	assert_int_equal(weir_pool_create(&pool, r, NULL), 0);
	m = weir_pool_mmap(pool);
	assert_int_equal(weir_sync_create_in(&sync, m, 0, NULL), 0);
	assert_int_equal(weir_pool_destroy(pool), -EBUSY);
	assert_int_equal(weir_sync_destroy(sync), 0);

	assert_int_equal(weir_inventory_create(&inventory, r, NULL), 0);
	assert_int_equal(weir_inventory_attach(inventory, m), 0);
	assert_int_equal(weir_mmap_memrange(m, &addr, NULL), 0);
	assert_int_equal(weir_inventory_get_by_addr(&buf, inventory, m, addr,
						    64), 0);
	assert_int_equal(weir_pool_destroy(pool), -EBUSY);
	weir_buf_put(buf);
	assert_int_equal(weir_pool_destroy(pool), 0);
	assert_int_equal(weir_inventory_destroy(inventory), 0);
}

/* Groups. */

static void run_group(void *arg)
{
	assert_int_equal(weir_group_stop(arg), 0);
	assert_int_equal(weir_group_run(arg), 0);
}

/* The thread's own reactor was the group's, and is gone. */
static void callback_of_another_reactor_may_run_a_group_to_its_end(void **state)
{
	struct weir_group_opts opts = {
		.size = sizeof(opts), .n_cores = 1,
		.flags = WEIR_GROUP_ADOPT | WEIR_GROUP_NO_PIN,
	};
	struct weir_reactor *r = start_reactor(state);
	struct weir_reactor_opts own = { .size = sizeof(own) };
	struct weir_group *group;
	struct rec rec;

	/* What was freed is seen to be. */
	mallopt(M_PERTURB, 0xa5);
	own.backend = backend_of(*state);
	opts.reactor = &own;
	assert_int_equal(weir_group_create(&group, &opts), 0);
	assert_int_equal(weir_group_start(group), 0);
	assert_int_equal(weir_post(r, run_group, group), 0);
	rec_init(&rec);
	STARTS(weir_nop(r, &rec.op));
	assert_int_equal(finish(r, &rec), 0);
	assert_int_equal(weir_group_state(group), WEIR_GROUP_STOPPED);
	assert_int_equal(weir_group_run(group), 0);
	/* Both ask whose reactor this thread is. */
	assert_int_equal(weir_group_start(group), 0);
	run_group(group);
	assert_int_equal(weir_group_destroy(group), 0);
}

int main(void)
{
	static const struct harness_case cases[] = {
		CASE(functions_may_end_their_job),
		CASE(functions_may_end_their_lazy_job),
		CASE(functions_may_end_the_chain_of_their_job),
		CASE(functions_may_end_the_pipeline_of_their_job),
		CASE(cancel_function_of_a_domain_cannot_turn_the_reactor),
		CASE(segment_callback_may_cancel_the_stop_of_its_mmap),
		CASE(segment_callback_cannot_destroy_a_pool_that_grows),
		CASE(segment_callback_cannot_destroy_the_reactor_of_a_new_pool),
		CASE(pool_whose_mmap_is_used_is_not_destroyed),
		REAL(callback_of_another_reactor_may_run_a_group_to_its_end),
	};

	return harness_run_all(cases, N_OF(cases));
}
