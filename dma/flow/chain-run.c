/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Chains at work: which step may run next, its end, and two steps that are done
 * in one pass.
 */

#include <errno.h>
#include <string.h>

#include "base/probe.h"
#include "base/why.h"
#include "dma/flow/chain-internal.h"
#include "mem/buf-internal.h"

/*
 * Chains, fusing: a copy followed by the CRC of its result is done in one pass
 * over the data.
 *
 * The graph decides which steps may be such a pair: the second comes after the
 * first and after nothing else, and is its first dependant, so that no function
 * of the user's runs between them.  Whether the jobs fit is checked when the
 * first begins, because only then are they filled in; and again when the second
 * would begin, because its job is the user's until then.  If the checks differ,
 * the second runs by itself.  It also does if a function of a concurrent step
 * was called meanwhile, because that may have changed the bytes.
 *
 * The user cannot observe the fusion: if the copy fails the CRC is skipped, and
 * after a cancel in between the copy is done and the CRC has not begun.
 */

static bool may_pair(const struct step *s, const struct step *t)
{
	return s->kind == STEP_JOB && t->kind == STEP_JOB && t->n_deps == 1 &&
	       !t->finally &&
	       s->deps->on == WEIR_CHAIN_ON_DONE && s->dma == t->dma &&
	       s->job != t->job;
}

/* Find the pairs of steps that one pass may serve. */
static void fuse_pairs(struct weir_chain *chain)
{
	struct step *s, *t, *end = chain->steps + chain->n_steps;

	for (s = chain->steps; s < end; s++)
		s->pair = NULL;
	for (s = chain->steps; s < end; s++) {
		if (!s->deps || s->pair)
			continue;
		t = &chain->steps[s->deps->to];
		if (may_pair(s, t)) {
			s->pair = t;
			t->pair = s;
		}
	}
}

/* Memory of this process, and nothing that another kind of job would refuse. */
static bool is_plain(const struct weir_operand *operand)
{
	return domain_is_memory(operand_domain(operand)) &&
	       !operand->reserved0 && !operand->translation;
}

static bool is_same(const struct weir_operand *a, const struct weir_operand *b)
{
	return a->buf == b->buf && a->addr == b->addr && a->len == b->len &&
	       a->n_iov == b->n_iov && (!a->n_iov || a->iov == b->iov);
}

/*
 * Whether the destination of @copy will contain just the bytes that it copied.
 * Only for one piece: of two, the second might overlap the first.
 */
static bool is_result(const struct weir_job *copy)
{
	const struct weir_buf *buf = copy->dst.buf;

	if (!buf)
		return copy->dst.n_iov <= 1;
	return !buf->next && (copy->flags & WEIR_JOB_OVERWRITE ||
			      !buf->data_len);
}

static bool is_crc(const struct weir_job *job)
{
	return job->kind == WEIR_JOB_CRC32C && !job->flags && !job->n_extra &&
	       job->op.state == OP_IDLE && is_plain(&job->src);
}

/* Whether @crc, which is one, is that of the @side of @copy. */
static bool is_crc_of(const struct weir_job *crc, const struct weir_job *copy,
		      enum fused side)
{
	const struct weir_operand *of = &crc->src;

	if (side == FUSED_SRC)
		return is_same(of, &copy->src);
	if (copy->dst.buf)
		return of->buf == copy->dst.buf && !of->addr && !of->len;
	return is_same(of, &copy->dst);
}

/* A user's engine gets the jobs that it was made for. */
static enum fused may_fuse(const struct step *s)
{
	const struct weir_job *copy = s->job, *crc;

	if (copy->kind != WEIR_JOB_COPY || s->dma->n_for_memory ||
	    copy->flags & ~WEIR_JOB_OVERWRITE || !is_plain(&copy->src) ||
	    !is_plain(&copy->dst))
		return FUSED_NOT;
	crc = s->pair->job;
	if (!is_crc(crc))
		return FUSED_NOT;
	if (is_crc_of(crc, copy, FUSED_SRC))
		return FUSED_SRC;
	if (is_crc_of(crc, copy, FUSED_DST) && is_result(copy))
		return FUSED_DST;
	return FUSED_NOT;
}

/* .crc of both jobs is what it was again. */
static void part(struct step *s)
{
	s->job->kind = WEIR_JOB_COPY;
	s->job->crc = s->crc;
}

/* If the fused job is refused, start the two separately, so that each reports
 * its own error. */
static int fuse_start(struct step *s)
{
	enum fused side = s->pair && s->pair > s ? may_fuse(s) : FUSED_NOT;
	int err;

	debug_check(s->kind == STEP_JOB && !s->fused);
	if (side == FUSED_NOT)
		return weir_job_start(s->dma, s->job);
	s->crc = s->job->crc;
	s->crc_in = s->pair->job->crc;
	s->job->kind = WEIR_JOB_COPY_CRC32C;
	s->job->crc = s->crc_in;
	err = weir_job_start(s->dma, s->job);
	if (!err) {
		s->fused = (uint8_t)side;
		return 0;
	}
	part(s);
	return err == -EAGAIN ? err : weir_job_start(s->dma, s->job);
}

/* The job of @s has ended: it is as the user left it again. */
static void fuse_ended(struct step *s, int64_t res)
{
	uint32_t crc = s->job->crc;

	if (!s->fused)
		return;
	part(s);
	s->crc = crc;
	s->calls = s->chain->n_calls;
	if (res < 0)
		s->fused = FUSED_NOT;
}

/* Whether the pass that has just ended did @s too; its result is in the job
 * and in .detail. */
static bool fuse_take(struct step *s, int64_t *res)
{
	struct step *copy = s->pair;

	if (!copy || copy > s || !copy->fused ||
	    copy->calls != s->chain->n_calls || !is_crc(s->job) ||
	    !is_crc_of(s->job, copy->job, (enum fused)copy->fused) ||
	    s->job->crc != copy->crc_in)
		return false;
	s->job->crc = copy->crc;
	s->detail = copy->detail;
	if (copy->fused == FUSED_DST)
		s->detail.segment = 0;
	s->job->op.detail = s->detail;
	s->job->op.deadline.expires_ns = 0;
	s->engine = copy->engine;
	*res = copy->res;
	s->dma->stats.fused++;
	return true;
}

/*
 * Chains, running: which steps may run next.
 *
 * A step waits for n_waiting dependencies.  When one of them ends, the edge
 * between the two is evaluated once: either its condition holds, or the step is
 * unmet and will be skipped.  After the last one the step goes to the runnable
 * list, from which run() takes it, and begins or skips it.  So there is no
 * recursion, and the work is proportional to the number of steps and edges.
 *
 * A job that has ended within its start, as small copies do, is taken off the
 * ready list again: the next step begins at once, and not a turn later.
 */

/*
 * Compute what depends on the steps and dependencies only.  Whether steps wait
 * for the failure of this one, for example, is evaluated at each end.
 */
static void prepare(struct weir_chain *chain)
{
	struct step *s, *end = chain->steps + chain->n_steps;
	struct dep *dep;

	debug_check(chain->changed);
	chain->changed = false;
	fuse_pairs(chain);

	chain->n_finally = 0;
	for (s = chain->steps; s < end; s++) {
		chain->n_finally += s->finally;
		s->last = s->n_deps != 0;
		s->has_branch = false;
	}
	for (s = chain->steps; s < end; s++)
		for (dep = s->deps; dep; dep = dep->next) {
			if (dep->on == WEIR_CHAIN_ON_FAILED)
				s->has_branch = true;
			if (dep->on != WEIR_CHAIN_ON_END)
				chain->steps[dep->to].last = false;
		}
}

static void push(struct weir_chain *chain, struct step *s)
{
	debug_check(s->state == WEIR_STEP_IDLE);
	s->next = NULL;
	*chain->runnable_last = s;
	chain->runnable_last = &s->next;
}

static struct step *pop(struct weir_chain *chain)
{
	struct step *s = chain->runnable;

	debug_check(!chain->runnable || *chain->runnable_last == NULL);
	if (!s)
		return NULL;
	chain->runnable = s->next;
	if (!s->next)
		chain->runnable_last = &chain->runnable;
	return s;
}

/* No time off any more: in the next turn. */
static void wake_tick(struct weir_chain *chain)
{
	if (chain->sleeps)
		weir_op_cancel(&chain->tick);
	chain->sleeps = false;
}

/* @now: some step can begin in the next turn; otherwise check later if one
 * can. */
static void arm_tick(struct weir_chain *chain, bool now)
{
	static const struct weir_op_class tick_class = { .name = "chain turn" };
	uint64_t ns = now ? 0 : chain_backoff(chain->tries++);

	if (now)
		wake_tick(chain);
	if (chain->tick.state != OP_IDLE)
		return;
	chain->sleeps = ns != 0;
	reactor_reserve(chain->r, 1);
	if (ns) {
		op_sleep(chain->r, &chain->tick, reactor_now(chain->r) + ns);
		return;
	}
	op_enlist(chain->r, &chain->tick, &tick_class);
	op_complete(&chain->tick, 0);
}

static bool is_met(uint32_t on, uint32_t state)
{
	switch (on) {
	case WEIR_CHAIN_ON_DONE:
		return state == WEIR_STEP_DONE;
	case WEIR_CHAIN_ON_FAILED:
		return state == WEIR_STEP_FAILED;
	default:
		return true;
	}
}

/* All ordinary steps have ended; finally steps depend on that, too. */
static void release_finally(struct weir_chain *chain)
{
	struct step *s, *end = chain->steps + chain->n_steps;

	debug_check(!chain->n_ordinary);
	if (!chain->n_left)
		return;
	for (s = chain->steps; s < end; s++)
		if (s->finally && !--s->n_waiting)
			push(chain, s);
}

/* @s has ended: remember how, and release the steps that wait for it. */
static void end_step(struct step *s, uint32_t state, int64_t res)
{
	struct weir_chain *chain = s->chain;
	struct step *to;
	struct dep *dep;

	debug_check(s->state <= WEIR_STEP_RUNNING && s->chain->n_left > 0);
	if (unlikely(chain->extra == s)) {
		chain->extra = NULL;
		reactor_reserve(chain->r, -1);
	}
	s->state = state;
	s->res = res;
	PROBE3(chain_step_done, s, state, res);
	chain->n_left--;
	if (state == WEIR_STEP_DONE)
		chain->n_done++;
	if (state == WEIR_STEP_FAILED && !s->has_branch && !chain->err &&
	    !(s->finally && chain->cut)) {
		chain->err = res;
		chain->failed_step = (int)(s - chain->steps);
	}
	for (dep = s->deps; dep; dep = dep->next) {
		to = &chain->steps[dep->to];
		if (!is_met(dep->on, state))
			to->unmet = true;
		if (!--to->n_waiting)
			push(chain, to);
	}
	if (!s->finally && !--chain->n_ordinary)
		release_finally(chain);
}

static void cut_step(struct step *s, uint32_t state, int64_t res)
{
	s->chain->cut = true;
	end_step(s, state, res);
}

/* If the chain was cancelled, a step that ends with -ECANCELED counts as
 * cancelled. */
static void end_begun(struct step *s, int64_t res)
{
	debug_check(s->state == WEIR_STEP_RUNNING);
	if (res >= 0)
		end_step(s, WEIR_STEP_DONE, res);
	else if (s->chain->cancelled && res == -ECANCELED)
		cut_step(s, WEIR_STEP_CANCELLED, res);
	else
		end_step(s, WEIR_STEP_FAILED, res);
}

static void chain_job_ended(struct weir_op *op, int64_t res);

static void job_ended(struct step *s, int64_t res)
{
	debug_check(s->kind == STEP_JOB && s->state == WEIR_STEP_RUNNING);
	s->detail = s->job->op.detail;
	s->engine = job_priv(s->job)->engine->kind->ops.name;
	fuse_ended(s, res);
	end_begun(s, res);
}

/* The job may be a step of other chains too, or another step of this one. */
static int begin_job(struct step *s)
{
	struct weir_op **last = s->chain->r->ready_last;
	struct weir_op *op = &s->job->op;
	int64_t res;
	int err;

	debug_check(s->kind == STEP_JOB);
	if (unlikely(op->state != OP_IDLE))
		return -EINVAL;
	if (fuse_take(s, &res)) {
		end_begun(s, res);
		return 0;
	}
	op->fn = chain_job_ended;
	op->data = s;
	err = fuse_start(s);
	if (!err && op_take_ended(op, last))
		job_ended(s, op->res);
	return err;
}

static int begin_op(struct step *s)
{
	struct weir_chain *chain = s->chain;
	int err;

	debug_check(s->kind == STEP_OP && !s->chain->in_fn);
	chain->n_calls++;
	chain->in_fn = true;
	err = s->start(chain, (uint32_t)(s - chain->steps), &s->away->op, s->arg);
	chain->in_fn = false;

	/* An operation in flight will call back, whatever the function
	 * returned. */
	if (weir_op_is_busy(&s->away->op))
		return 0;
	return err ? err : -EINVAL;
}

static void begin_call(struct step *s)
{
	struct weir_chain *chain = s->chain;
	int64_t res;

	debug_check(s->kind == STEP_CALL && !s->chain->in_fn);
	chain->n_calls++;
	chain->in_fn = true;
	res = s->call(chain, (uint32_t)(s - chain->steps), s->arg);
	chain->in_fn = false;
	end_begun(s, res);
}

/* Whether the chain's cancel is for it. */
static bool is_cancelled(const struct step *s)
{
	return s->chain->cancelled && !s->finally;
}

static void cancel_step(struct step *s)
{
	debug_check(s->state == WEIR_STEP_RUNNING);
	if (s->kind == STEP_HOP)
		hop_cancel(s);
	else if (s->kind == STEP_JOB)
		weir_op_cancel(&s->job->op);
	else if (s->kind == STEP_OP)
		weir_op_cancel(&s->away->op);
}

/* Begin a step that takes time.  Returns as start functions do. */
static int begin_long(struct step *s)
{
	switch (s->kind) {
	case STEP_JOB:
		return begin_job(s);
	case STEP_HOP:
		return hop_begin(s);
	default:
		return begin_op(s);
	}
}

/*
 * One step of each chain may be beyond .ops_max: chains could else fill the
 * reactor among themselves, so that none of their steps ever begins.
 */
static int begin_beyond(struct step *s)
{
	struct weir_chain *chain = s->chain;
	int err;

	debug_check(s->state == WEIR_STEP_RUNNING);
	if (chain->extra || !reactor_is_full(chain->r))
		return -EAGAIN;
	chain->extra = s;
	reactor_reserve(chain->r, 1);
	err = begin_long(s);
	if (err && chain->extra == s) {
		chain->extra = NULL;
		reactor_reserve(chain->r, -1);
	}
	return err;
}

/* Returns false if there is no capacity for it now. */
static bool begin(struct step *s)
{
	int err;

	debug_check(s->state == WEIR_STEP_IDLE && !s->n_waiting);
	s->state = WEIR_STEP_RUNNING;
	PROBE3(chain_step, s->chain, s, s - s->chain->steps);
	if (s->kind == STEP_CALL) {
		begin_call(s);
		return true;
	}
	if (s->kind == STEP_FENCE) {
		end_step(s, WEIR_STEP_DONE, 0);
		return true;
	}
	err = begin_long(s);
	if (err == -EAGAIN)
		err = begin_beyond(s);
	if (err == -EAGAIN) {
		s->state = WEIR_STEP_IDLE;
		return false;
	}
	s->chain->tries = 0;
	if (err)
		end_begun(s, err > 0 ? 0 : err);
	else if (unlikely(is_cancelled(s)) && s->state == WEIR_STEP_RUNNING)
		cancel_step(s);
	return true;
}

/* Whether @s now waits in the context's queue for capacity. */
static bool waits_for_capacity(struct step *s)
{
	if (s->kind != STEP_JOB || !capacity_none(s->dma))
		return false;
	capacity_wait(s->dma, &s->capacity);
	return true;
}

static bool is_skipped(const struct step *s)
{
	return !s->finally && (s->unmet || (s->chain->err && !s->last));
}

static int64_t result(const struct weir_chain *chain)
{
	if (chain->err)
		return chain->err;
	return chain->cut ? -ECANCELED : (int64_t)chain->n_done;
}

/* The callback may destroy the chain, so the tick must not be due. */
static void finish(struct weir_chain *chain, bool from_loop)
{
	struct weir_op *op = chain->op;
	int64_t res = result(chain);

	debug_check(!chain->n_left && chain->op);
	wake_tick(chain);
	if (from_loop && chain->tick.state == OP_IDLE)
		op_finish(op, res);
	else
		op_complete(op, res);
}

/* Steps that run() could not begin. */
struct held {
	struct step *first;
	struct step **last;
	bool now;		/* In the next turn they can be. */
};

static void hold(struct held *held, struct step *s)
{
	s->next = NULL;
	*held->last = s;
	held->last = &s->next;
}

static bool calls_user(const struct step *s)
{
	return s->kind == STEP_CALL || s->kind == STEP_OP;
}

static void run_step(struct step *s, bool from_loop, struct held *held)
{
	debug_check(s->state == WEIR_STEP_IDLE);
	if (is_skipped(s)) {
		end_step(s, WEIR_STEP_SKIPPED, 0);
	} else if (is_cancelled(s)) {
		cut_step(s, WEIR_STEP_SKIPPED, 0);
	} else if (!from_loop && calls_user(s)) {
		held->now = true;
		hold(held, s);
	} else if (!begin(s)) {
		/* The function that was to start it may have cancelled the
		 * chain. */
		if (unlikely(is_cancelled(s)))
			cut_step(s, WEIR_STEP_SKIPPED, 0);
		else if (!waits_for_capacity(s))
			hold(held, s);
	}
}

/*
 * Begin or skip the steps that can be.  @from_loop: functions of the user's may
 * be called, including the chain's callback; in a start or a cancel they are
 * left to the tick.  So are steps that lack capacity now, without delaying
 * those behind them.  The chain may be destroyed after this.
 */
static void run(struct weir_chain *chain, bool from_loop)
{
	struct held held = { .last = &held.first };
	struct step *s;

	if (chain->in_run)
		return;
	chain->in_run = true;
	while ((s = pop(chain)))
		run_step(s, from_loop, &held);
	chain->in_run = false;
	if (unlikely(held.first)) {
		chain->runnable = held.first;
		chain->runnable_last = held.last;
		arm_tick(chain, held.now);
	}
	if (!chain->n_left)
		finish(chain, from_loop);
}

void chain_tick(struct weir_op *op, int64_t res)
{
	struct weir_chain *chain = weir_container_of(op, struct weir_chain,
						     tick);

	(void)res;
	reactor_reserve(chain->r, -1);
	chain->sleeps = false;
	if (chain->n_left)
		run(chain, true);
}

static void chain_job_ended(struct weir_op *op, int64_t res)
{
	struct step *s = op->data;

	job_ended(s, res);
	run(s->chain, true);
}

void chain_op_ended(struct weir_op *op, int64_t res)
{
	struct step *s = away_of(op)->step;

	debug_check(op->state == OP_IDLE);
	s->detail = op->detail;
	end_begun(s, res);
	run(s->chain, true);
}

void chain_step_ended(struct step *s, int64_t res)
{
	debug_check(s->state == WEIR_STEP_RUNNING);
	reactor_check_thread(s->chain->r);
	end_begun(s, res);
	run(s->chain, false);
}

void chain_step_not_begun(struct step *s)
{
	reactor_check_thread(s->chain->r);
	cut_step(s, WEIR_STEP_SKIPPED, 0);
	run(s->chain, false);
}

void chain_capacity(struct dma_capacity *capacity)
{
	struct step *s = weir_container_of(capacity, struct step, capacity);

	push(s->chain, s);
	run(s->chain, false);
}

static void chain_cancel(struct weir_op *op)
{
	struct weir_chain *chain =
		(struct weir_chain *)(uintptr_t)op->u.words[0];
	struct step *s, *end = chain->steps + chain->n_steps;

	debug_check(op_cancel_wanted(op));
	chain->cancelled = true;
	for (s = chain->steps; s < end; s++) {
		if (s->finally)
			continue;
		if (s->state == WEIR_STEP_RUNNING) {
			cancel_step(s);
		} else if (s->capacity.pprev && s->kind == STEP_JOB) {
			capacity_wait_no_more(s->dma, &s->capacity);
			push(chain, s);
		}
	}
	run(chain, false);
}

/* Release the chain only here: the callback may destroy it or start it
 * again. */
static void chain_leave(struct weir_op *op)
{
	((struct weir_chain *)(uintptr_t)op->u.words[0])->op = NULL;
}

static const struct weir_op_class chain_class = {
	.name = "chain",
	.cancel = chain_cancel,
	.leave = chain_leave,
};

static void reset(struct weir_chain *chain)
{
	struct step *s, *end = chain->steps + chain->n_steps;

	debug_check(!chain->runnable && !chain->n_left);
	if (chain->changed)
		prepare(chain);
	chain->tries = 0;
	chain->n_left = chain->n_steps;
	chain->n_ordinary = chain->n_steps - chain->n_finally;
	chain->n_done = 0;
	chain->err = 0;
	chain->failed_step = WEIR_CHAIN_FIRST;
	chain->cancelled = chain->cut = false;
	for (s = chain->steps; s < end; s++) {
		s->state = WEIR_STEP_IDLE;
		s->n_waiting = s->n_deps + (s->finally && chain->n_ordinary);
		s->unmet = false;
		s->fused = FUSED_NOT;
		s->engine = NULL;
		s->res = 0;
		s->detail = (struct weir_op_detail){ 0 };
		if (!s->n_waiting)
			push(chain, s);
	}
}

static int start(struct weir_chain *chain, struct weir_op *op, bool always)
{
	int err;

	if (chain->op)
		return why_static(-EBUSY, "weir_chain_start: the chain is "
				  "running; wait for its callback");
	if (!chain->n_steps)
		return why_static(-EINVAL, "weir_chain_start: the chain has no "
				  "steps; see weir_chain_add_job()");
	err = always ? 0 : op_may_begin(chain->r, op);
	if (!err)
		err = op_begin_always(chain->r, op, &chain_class);
	if (err)
		return op_refused(err, op, "weir_chain_start");
	op->u.words[0] = (uintptr_t)chain;
	op->flags |= OP_LEAVES;
	chain->op = op;
	reset(chain);
	/* The steps end as skipped. */
	if (op_is_late(chain->r, op))
		op_request_cancel(op, OP_TIMED_OUT);
	else
		run(chain, false);
	return 0;
}

int weir_chain_start(struct weir_chain *chain, struct weir_op *op)
{
	return start(chain, op, false);
}

int chain_start_always(struct weir_chain *chain, struct weir_op *op)
{
	reactor_check_thread(chain->r);
	return start(chain, op, true);
}
