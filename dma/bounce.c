/* SPDX-License-Identifier: BSD-3-Clause */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

/*
 * Jobs through staging: an engine of its own, which has the others do the work.
 *
 * A slot is staging memory for two blocks and a step for each side.  While one
 * block is pushed, the next is pulled:
 *
 *	EMPTY --pull--> FILLING ----> FULL --push--> DRAINING ----> EMPTY
 *
 * Blocks go in order, for a checksum goes on from block to block; a side that
 * is memory of this process is copied by the processor.  A comparison fills
 * both halves with the two sides and needs no pushes.  A copy to two places
 * pushes each block twice; an XOR has its sum in one half and pulls what is to
 * be added into the other.
 *
 * Jobs get slots in the order in which they came.  Whoever has one needs
 * nothing else, so however few there are, all come to an end; and after some
 * blocks it goes to the end of the queue, so that none waits for all of another.
 *
 * A step refers to nothing of the job: its pieces are copies.  So when a job is
 * cancelled while all that is under way is a pull into staging, it ends at once,
 * and its slot is not used until the device has let go of it: quarantine.
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <weir/route.h>

#include "base/alloc.h"
#include "base/canary.h"
#include "base/fault.h"
#include "dma/bounce-internal.h"
#include "dma/route.h"

/* Jobs and slots. */

static void enqueue(struct weir_dma *dma, struct weir_job *job)
{
	struct job_priv *p = job_priv(job);

	bounce_of(job)->slot = NULL;
	p->q_next = NULL;
	p->q_pprev = dma->bounce_last;
	*dma->bounce_last = job;
	dma->bounce_last = &p->q_next;
}

static void dequeue(struct weir_dma *dma, struct weir_job *job)
{
	struct job_priv *p = job_priv(job);

	*p->q_pprev = p->q_next;
	if (p->q_next)
		job_priv(p->q_next)->q_pprev = p->q_pprev;
	else
		dma->bounce_last = p->q_pprev;
	p->q_pprev = NULL;
}

/* The first that wait get the slots that are free. */
static void serve(struct weir_dma *dma)
{
	struct weir_job *job;
	struct slot *s;

	if (dma->in_serve)
		return;
	dma->in_serve = true;
	while ((s = dma->bounce_free) && (job = dma->bounce_queue)) {
		dequeue(dma, job);
		dma->bounce_free = s->next;
		s->job = job;
		s->in = 0;
		s->out = 0;
		s->blocks = 0;
		s->err = 0;
		s->sum = NULL;
		s->second = false;
		s->half[0].state = EMPTY;
		s->half[1].state = EMPTY;
		bounce_of(job)->slot = s;
		bounce_run(s);
	}
	dma->in_serve = false;
}

static int64_t outcome(const struct slot *s)
{
	const struct job_priv *p = job_priv(s->job);

	if (s->err)
		return s->err;
	if (p->done == p->total || p->differ)
		return 0;
	return s->job->flags & WEIR_JOB_SHORT_OK ? 0 : -ENODATA;
}

void bounce_leave(struct slot *s)
{
	struct weir_dma *dma = s->dma;
	struct weir_job *job = s->job;
	const struct job_priv *p = job_priv(job);
	bool over = s->err || bounce_of(job)->ended || p->done == p->total;
	int64_t res = outcome(s);

	s->job = NULL;
	s->next = dma->bounce_free;
	dma->bounce_free = s;
	if (over)
		job_end(job, res);
	else
		enqueue(dma, job);
	serve(dma);
}

void bounce_out_of_quarantine(struct slot *s)
{
	struct weir_dma *dma = s->dma;

	if (step_busy(&s->src) || step_busy(&s->dst))
		return;
	dma->stats.quarantined--;
	s->next = dma->bounce_free;
	dma->bounce_free = s;
	serve(dma);
	if (dma->stop_op)
		dma_left(dma);
}

/* The engine. */

static int can(void *arg, const struct weir_engine_query *q, const char **why)
{
	(void)arg, (void)q;
	*why = "asked by the plan only";
	return 0;
}

void bounce_prepare(struct weir_job *job, struct engine *pull,
		    struct engine *push, const uint8_t *more)
{
	struct bounce *b = bounce_of(job);
	struct job_route *route = job_route(job);

	*b = (struct bounce){ .pull = pull, .push = push };
	if (more && job->n_more)
		memcpy(b->more, more, job->n_more);
	route->engine = NULL;
	route->pull = pull ? pull->kind->ops.name : NULL;
	route->push = push ? push->kind->ops.name : NULL;
}

static int start(void *arg, struct weir_job *job)
{
	struct weir_dma *dma = arg;

	dma->stats.bounced++;
	dma->stats.bounce_waits += !dma->bounce_free;
	enqueue(dma, job);
	serve(dma);
	return 0;
}

/* It may have ended, with only its callback due: then nobody is waited for. */
static bool is_with_device(const struct step *step)
{
	return step->job.op.state == OP_PENDING;
}

/*
 * Whether what is under way in @step touches nothing but staging, and knows
 * nothing that is the caller's.  A device that reads from a peer has a copy of
 * what it needs to know.
 */
static bool is_ours(const struct slot *s, const struct step *step)
{
	const struct weir_loc *loc = step->loc;

	if (!step_busy(step))
		return true;
	if (step_is_push(s, step))
		return canary(early_release);
	return domain_is_remote(loc_domain(loc)) ||
	       (!loc->buf && !loc->ctx && !loc->translation);
}

static void hold(struct step *step)
{
	if (!step_busy(step))
		return;
	step->held = loc_domain(&step->job.src);
	domain_use(step->held);
}

/* The job ends now; its slot when the device has let go. */
static void quarantine(struct slot *s, struct weir_job *job)
{
	s->job = NULL;
	s->dma->stats.quarantined++;
	s->dma->stats.quarantines++;
	hold(&s->src);
	hold(&s->dst);
	job_end(job, -ECANCELED);
}

static void cancel(void *arg, struct weir_job *job)
{
	struct bounce *b = bounce_of(job);
	struct slot *s = b->slot;

	if (!s) {
		dequeue(arg, job);
		job_end(job, -ECANCELED);
		return;
	}
	slot_fail(s, -ECANCELED, 0);
	if (step_busy(&s->src))
		weir_op_cancel(&s->src.job.op);
	if (step_busy(&s->dst))
		weir_op_cancel(&s->dst.job.op);
	if (!is_with_device(&s->src) && !is_with_device(&s->dst))
		return;
	if (is_ours(s, &s->src) && is_ours(s, &s->dst))
		quarantine(s, job);
}

void bounce_instead(struct weir_job *job, int64_t err)
{
	struct job_priv *p = job_priv(job);
	struct weir_dma *dma = p->dma;
	struct engine *e = p->engine;

	if (op_cancel_wanted(&job->op)) {
		job_end(job, -ECANCELED);
		return;
	}
	e->stats.under_way--;
	job_route(job)->route = WEIR_ROUTE_BOUNCE;
	job_route(job)->refused = (int32_t)err;
	bounce_prepare(job, is_foreign(loc_domain(&job->src)) ? e : NULL,
		       is_foreign(loc_domain(&job->dst)) ? e : NULL, NULL);
	dma->stats.fallbacks++;
	engine_start(&dma->bounce, job);
}

const struct engine_kind engine_bounce = {
	.ops = {
		.size = sizeof(struct weir_engine_ops),
		.name = "bounce",
		.can = can,
		.start = start,
		.cancel = cancel,
	},
};

/* Room for all, of which nothing is there until it is used. */
static char *map(size_t len)
{
	void *mem;

	if (fault("mmap"))
		return NULL;
	mem = mmap(NULL, len, PROT_READ | PROT_WRITE,
		   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	return mem == MAP_FAILED ? NULL : mem;
}

static void slot_init(struct weir_dma *dma, struct slot *s, char *mem)
{
	s->dma = dma;
	s->half[0].mem = mem;
	s->half[1].mem = mem + dma->staging_size;
	s->src.slot = s;
	s->dst.slot = s;
	weir_job_init(&s->src.job, bounce_step_ended);
	weir_job_init(&s->dst.job, bounce_step_ended);
	s->next = dma->bounce_free;
	dma->bounce_free = s;
}

int bounce_create(struct weir_dma *dma)
{
	size_t len = (size_t)dma->staging_size * 2;
	uint32_t i;

	dma->bounce_last = &dma->bounce_queue;
	dma->slots = mem_calloc(dma->n_slots, sizeof(*dma->slots));
	if (!dma->slots)
		return -ENOMEM;
	dma->staging = map(len * dma->n_slots);
	if (!dma->staging) {
		free(dma->slots);
		return -ENOMEM;
	}
	for (i = dma->n_slots; i--;)
		slot_init(dma, &dma->slots[i], dma->staging + i * len);
	return 0;
}

void bounce_destroy(struct weir_dma *dma)
{
	munmap(dma->staging, (size_t)dma->staging_size * 2 * dma->n_slots);
	free(dma->slots);
}
