/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Jobs through staging: an engine of its own, which has other engines move the
 * data.
 *
 * A slot is staging memory for two blocks and a step for each side.  While one
 * block is pushed, the next is pulled:
 *
 *	EMPTY --pull--> FILLING ----> FULL --push--> DRAINING ----> EMPTY
 *
 * Blocks are moved in order, because a checksum continues from block to block.
 * The processor copies a side that is memory of this process.  A comparison
 * pulls its two sides into the two halves and needs no pushes.  A copy to two
 * places pushes each block twice.  An XOR keeps its sum in one half and pulls
 * each further source into the other.
 *
 * Jobs get slots in the order in which they came.  A job that has a slot needs
 * nothing else, so all jobs end, however few slots there are.  After some
 * blocks a job goes to the end of the queue, so that no job waits for all of
 * another.
 *
 * A step that is a function of the user's may need more: that function may
 * start a job through staging, and wait for it.  So jobs are divided into
 * classes, by how deeply they are nested in such functions (.nesting), and one
 * class for those that call none.  If all slots are taken, one job of each
 * class but the first gets an extra, small slot; so it ends, and the jobs that
 * wait for it continue. A job nested deeper than there are classes is refused
 * with -EDEADLK.
 *
 * A step does not refer to its job: it has copies of the pieces.  So when a job
 * is cancelled while only a pull into staging is in flight, the job ends at
 * once, and its slot is not used again until the device has finished:
 * quarantine.  A spare slot, also small, replaces it.  While a domain holds
 * QUARANTINED_MAX slots in quarantine, jobs over it wait, so that one device
 * cannot take all spares.
 */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <weir/route.h>

#include "base/alloc.h"
#include "base/mutation.h"
#include "base/fault.h"
#include "base/why.h"
#include "dma/bounce-internal.h"
#include "dma/route.h"

/* Jobs and slots. */

#define EXTRA_SLOTS (SLOT_CLASSES - 1)
#define SPARE_SLOTS 4
#define SMALL_SIZE (16u << 10)	/* Bytes of each of their halves. */

/* Slots that one domain may hold in quarantine before jobs over it wait. */
#define QUARANTINED_MAX 2

static void queue_init(struct job_queue *q)
{
	q->first = NULL;
	q->last = &q->first;
}

static void enqueue(struct job_queue *q, struct weir_job *job)
{
	struct job_priv *p = job_priv(job);

	debug_check(!p->q_pprev);
	bounce_of(job)->slot = NULL;
	bounce_of(job)->queue = q;
	p->q_next = NULL;
	p->q_pprev = q->last;
	*q->last = job;
	q->last = &p->q_next;
}

static void dequeue(struct weir_job *job)
{
	struct job_priv *p = job_priv(job);

	debug_check(p->q_pprev);
	*p->q_pprev = p->q_next;
	if (p->q_next)
		job_priv(p->q_next)->q_pprev = p->q_pprev;
	else
		bounce_of(job)->queue->last = p->q_pprev;
	p->q_pprev = NULL;
}

static void wait_for_slot(struct weir_dma *dma, struct weir_job *job)
{
	struct bounce *b = bounce_of(job);

	debug_check(bounce_of(job)->class < SLOT_CLASSES);
	b->ticket = ++dma->slot_ticket;
	enqueue(&dma->slot_wait[b->class], job);
	dma->n_slot_wait++;
}

static void wait_no_more(struct weir_dma *dma, struct weir_job *job)
{
	debug_check(dma->n_slot_wait || dma->n_slot_blocked);
	if (bounce_of(job)->queue == &dma->slot_blocked)
		dma->n_slot_blocked--;
	else
		dma->n_slot_wait--;
	dequeue(job);
}

static bool is_quarantined_by(const struct slot *s,
			      const struct weir_domain *domain)
{
	return !s->job && (s->src.held == domain || s->dst.held == domain);
}

static uint32_t all_slots(const struct weir_dma *dma)
{
	return dma->n_slots + EXTRA_SLOTS + SPARE_SLOTS;
}

/* The number of slots that steps of @domain hold in quarantine. */
static uint32_t quarantined_by(const struct weir_dma *dma,
			       const struct weir_domain *domain)
{
	uint32_t i, n = 0;

	for (i = 0; i < all_slots(dma); i++)
		n += is_quarantined_by(&dma->slots[i], domain);
	return n;
}

/* The domain of @job that holds too many slots in quarantine, or NULL. */
static const struct weir_domain *blocked_by(const struct weir_dma *dma,
					    const struct weir_job *job)
{
	const struct weir_domain *domain;
	uint32_t i;

	if (likely(dma->stats.quarantined < QUARANTINED_MAX))
		return NULL;
	for (i = 0; i < job->n_extra + 2; i++) {
		if ((i == 0 && job->kind == WEIR_JOB_FILL) ||
		    (i == 1 && job->kind == WEIR_JOB_CRC32C))
			continue;
		domain = operand_domain(i == 0 ? &job->src :
					i == 1 ? &job->dst :
						 &job->more[i - 2]);
		if (is_foreign(domain) &&
		    quarantined_by(dma, domain) >= QUARANTINED_MAX)
			return domain;
	}
	return NULL;
}

/* If all slots are taken, the first job of a class but 0 gets an extra one. */
static struct slot *slot_for(struct weir_dma *dma, uint32_t class)
{
	if (dma->slots_free)
		return dma->slots_free;
	return class && !dma->n_slot_jobs[class] ? dma->slots_extra : NULL;
}

/* The job that gets the next slot, or NULL.  Nested ones come first, the
 * deepest of all, because others wait for them; the rest in the order of
 * asking. */
static struct weir_job *next_job(struct weir_dma *dma)
{
	struct weir_job *job, *best = NULL;
	uint32_t class;

	for (class = 0; class < SLOT_CLASSES; class++) {
		job = dma->slot_wait[class].first;
		if (!job || !slot_for(dma, class))
			continue;
		if (!best || (class > 0 && class < NESTING_MAX) ||
		    (!bounce_of(best)->class &&
		     bounce_of(job)->ticket < bounce_of(best)->ticket))
			best = job;
	}
	return best;
}

static void give_slot(struct weir_dma *dma, struct weir_job *job)
{
	struct slot *s = slot_for(dma, bounce_of(job)->class);

	debug_check(s);
	*s->list = s->next;
	dma->n_slot_jobs[bounce_of(job)->class]++;
	s->job = job;
	s->in = 0;
	s->out = 0;
	s->blocks = 0;
	s->err = 0;
	s->sum = NULL;
	s->second = false;
	s->blockwise = job->kind != WEIR_JOB_COMPARE &&
		       !kind_is_user(job->kind);
	s->half[0].off = 0;
	s->half[1].off = 0;
	s->half[0].state = EMPTY;
	s->half[1].state = EMPTY;
	bounce_of(job)->slot = s;
	bounce_run(s);
}

static void free_slot(struct slot *s)
{
	debug_check(!s->job);
	s->next = *s->list;
	*s->list = s;
}

static void bounce_serve(struct weir_dma *dma)
{
	struct weir_job *job;

	if (!dma->n_slot_wait || dma->in_serve)
		return;
	dma->in_serve = true;
	while (dma->n_slot_wait && (job = next_job(dma))) {
		wait_no_more(dma, job);
		if (unlikely(blocked_by(dma, job))) {
			enqueue(&dma->slot_blocked, job);
			dma->n_slot_blocked++;
			continue;
		}
		give_slot(dma, job);
	}
	dma->in_serve = false;
}

/* A slot has left quarantine: queue the jobs that waited for that again. */
static void unblock(struct weir_dma *dma)
{
	struct weir_job *job;

	while ((job = dma->slot_blocked.first)) {
		wait_no_more(dma, job);
		wait_for_slot(dma, job);
	}
}

static int64_t outcome(const struct slot *s)
{
	const struct job_priv *p = job_priv(s->job);

	debug_check(s->job);
	if (s->err)
		return s->err;
	if (p->differ || (p->done == p->total && !kind_is_user(s->job->kind)))
		return 0;
	return s->job->flags & WEIR_JOB_SHORT_OK ? 0 : -ENODATA;
}

void bounce_leave(struct slot *s)
{
	struct weir_dma *dma = s->dma;
	struct weir_job *job = s->job;
	bool over = s->err || bounce_is_over(job);
	int64_t res = outcome(s);

	debug_check(s->job && bounce_of(s->job)->slot == s);
	reactor_check_thread(s->dma->r);
	s->job = NULL;
	free_slot(s);
	debug_check(dma->n_slot_jobs[bounce_of(job)->class] > 0);
	dma->n_slot_jobs[bounce_of(job)->class]--;
	if (over)
		job_end(job, res);
	else
		wait_for_slot(dma, job);
	bounce_serve(dma);
}

void bounce_out_of_quarantine(struct slot *s)
{
	struct weir_dma *dma = s->dma;

	debug_check(!s->job);
	reactor_check_thread(s->dma->r);
	if (step_busy(&s->src) || step_busy(&s->dst))
		return;
	debug_check(dma->stats.quarantined > 0);
	dma->stats.quarantined--;
	free_slot(s);
	unblock(dma);
	bounce_serve(dma);
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

#define TOO_DEEP 255	/* In place of a class. */

/* Whether functions of the user's, which may start jobs and wait for them, move
 * what @e does.  NULL: the processor does. */
static bool is_user(const struct engine *e)
{
	return e && (bounce_is_own(e) || e->kind == &engine_domain);
}

/* Whether they move a part of @job. */
static bool needs_user(struct weir_job *job)
{
	const struct bounce *b = bounce_of(job);
	bool user = is_user(b->pull) || is_user(b->push);
	uint32_t i;

	for (i = 0; i < job->n_extra && !user; i++)
		user = is_user(bounce_extra(job, i));
	return user;
}

void bounce_prepare(struct weir_job *job, struct engine *pull,
		    struct engine *push, const uint8_t *more)
{
	struct bounce *b = bounce_of(job);
	struct job_route *route = job_route(job);

	*b = (struct bounce){
		.pull = pull,
		.push = push,
		.nesting = (uint8_t)job_priv(job)->dma->nesting,
	};
	if (more && job->n_extra)
		memcpy(b->more, more, job->n_extra);
	if (!needs_user(job))
		b->class = SLOT_LEAF;
	else
		b->class = b->nesting < NESTING_MAX ? b->nesting : TOO_DEEP;
	route->engine = NULL;
	route->pull = pull ? pull->kind->ops.name : NULL;
	route->push = push ? push->kind->ops.name : NULL;
}

static int start(void *arg, struct weir_job *job)
{
	struct weir_dma *dma = arg;

	if (unlikely(bounce_of(job)->class == TOO_DEEP))
		return why(-EDEADLK, "weir_job_start: functions of domains or "
			   "engines have started jobs through staging inside "
			   "each other, %u deep; start it when they have "
			   "returned, or in another context", NESTING_MAX);
	if (unlikely(kind_is_user(job->kind))) {
		int err = kind_begin(job);

		if (err)
			return err;
	}
	dma->stats.bounced++;
	if (likely(dma->slots_free && !dma->n_slot_wait && !dma->in_serve &&
		   !blocked_by(dma, job))) {
		dma->in_serve = true;
		give_slot(dma, job);
		dma->in_serve = false;
	} else {
		dma->stats.bounce_waits += !dma->slots_free;
		wait_for_slot(dma, job);
	}
	bounce_serve(dma);
	return 0;
}

/* It may have ended, with only its callback due: then there is nothing to wait
 * for. */
static bool is_with_device(const struct step *step)
{
	return step->job.op.state == OP_PENDING;
}

/*
 * Whether the transfer in flight in @step touches only staging, and refers to
 * nothing of the caller's.  A device that reads from a peer has its own copy of
 * the key.
 */
static bool is_ours(const struct slot *s, const struct step *step)
{
	const struct weir_operand *operand = step->operand;

	if (!step_busy(step))
		return true;
	if (step_is_push(s, step))
		return mutation(early_release);
	return domain_is_remote(operand_domain(operand)) ||
	       (!operand->buf && !operand->ctx && !operand->translation);
}

static void hold(struct step *step)
{
	if (!step_busy(step))
		return;
	step->held = operand_domain(&step->job.src);
	domain_use(step->held);
}

/* End the job now, and its slot when the device has finished. */
static void quarantine(struct slot *s, struct weir_job *job)
{
	struct weir_dma *dma = s->dma;
	struct slot *spare = dma->slots_spare;

	s->job = NULL;
	debug_check(dma->n_slot_jobs[bounce_of(job)->class] > 0);
	dma->n_slot_jobs[bounce_of(job)->class]--;
	dma->stats.quarantined++;
	dma->stats.quarantines++;
	hold(&s->src);
	hold(&s->dst);
	if (spare) {
		dma->slots_spare = spare->next;
		spare->list = s->list;
		free_slot(spare);
		s->list = &dma->slots_spare;
	}
	job_end(job, -ECANCELED);
	if (dma->n_slot_wait)
		engines_arm(dma);
}

static void cancel(void *arg, struct weir_job *job)
{
	struct bounce *b = bounce_of(job);
	struct slot *s = b->slot;

	if (!s) {
		wait_no_more(arg, job);
		job_end(job, -ECANCELED);
		return;
	}
	slot_fail(s, -ECANCELED, 0);
	if (step_busy(&s->src))
		weir_op_cancel(&s->src.job.op);
	if (step_busy(&s->dst))
		weir_op_cancel(&s->dst.job.op);
	/* The worker's callback goes on, when it has stopped. */
	if (s->working) {
		job_work_cancel(job);
		return;
	}
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
	job_route(job)->route = WEIR_ROUTE_BOUNCE;
	job_route(job)->refused = (int32_t)err;
	bounce_prepare(job, is_foreign(operand_domain(p->src.operand)) ? e : NULL,
		       is_foreign(operand_domain(p->dst.operand)) ? e : NULL,
		       NULL);
	if (unlikely(bounce_of(job)->class == TOO_DEEP)) {
		job_end(job, -EDEADLK);
		return;
	}
	debug_check(e->stats.under_way > 0);
	e->stats.under_way--;
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
	.serve = bounce_serve,
};

/* Capacity for all, of which nothing is there until it is used. */
static char *map(size_t len)
{
	void *mem;

	if (fault("mmap"))
		return NULL;
	mem = mmap(NULL, len, PROT_READ | PROT_WRITE,
		   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	return mem == MAP_FAILED ? NULL : mem;
}

static char *slot_init(struct weir_dma *dma, struct slot *s, struct slot **list,
		       uint32_t size, char *mem)
{
	s->dma = dma;
	s->list = list;
	s->size = size;
	s->half[0].mem = mem;
	s->half[1].mem = mem + size;
	s->src.slot = s;
	s->dst.slot = s;
	weir_job_init(&s->src.job, bounce_step_ended);
	weir_job_init(&s->dst.job, bounce_step_ended);
	free_slot(s);
	return mem + 2 * (size_t)size;
}

static uint32_t small_size(const struct weir_dma *dma)
{
	return dma->staging_size < SMALL_SIZE ? dma->staging_size : SMALL_SIZE;
}

static size_t staging_len(const struct weir_dma *dma)
{
	return 2 * ((size_t)dma->staging_size * dma->n_slots +
		    (size_t)small_size(dma) * (EXTRA_SLOTS + SPARE_SLOTS));
}

int bounce_create(struct weir_dma *dma)
{
	struct slot *s;
	char *mem;
	uint32_t i;

	reactor_check_thread(dma->r);
	for (i = 0; i < SLOT_CLASSES; i++)
		queue_init(&dma->slot_wait[i]);
	queue_init(&dma->slot_blocked);
	dma->slots = mem_calloc(all_slots(dma), sizeof(*dma->slots));
	if (!dma->slots)
		return -ENOMEM;
	dma->staging_len = staging_len(dma);
	dma->staging = map(dma->staging_len);
	if (!dma->staging) {
		free(dma->slots);
		return -ENOMEM;
	}
	mem = dma->staging;
	s = dma->slots;
	for (i = 0; i < dma->n_slots; i++)
		mem = slot_init(dma, s++, &dma->slots_free, dma->staging_size,
				mem);
	for (i = 0; i < EXTRA_SLOTS; i++)
		mem = slot_init(dma, s++, &dma->slots_extra, small_size(dma),
				mem);
	for (i = 0; i < SPARE_SLOTS; i++)
		mem = slot_init(dma, s++, &dma->slots_spare, small_size(dma),
				mem);
	return 0;
}

void bounce_destroy(struct weir_dma *dma)
{
	reactor_check_thread(dma->r);
	munmap(dma->staging, dma->staging_len);
	free(dma->slots);
}

void bounce_say(const struct weir_dma *dma, const struct weir_job *job,
		char *out, size_t len)
{
	const struct weir_domain *domain = blocked_by(dma, job);

	reactor_check_thread(dma->r);
	*out = '\0';
	if (domain)
		snprintf(out, len, "domain '%s' has not let go of %u staging "
			 "buffers of jobs that were cancelled; jobs over it "
			 "wait until it does", weir_domain_id(domain),
			 quarantined_by(dma, domain));
	else if (!dma->slots_free)
		snprintf(out, len, "all %u staging buffers are in use, %llu "
			 "more are in quarantine, and %u jobs wait",
			 dma->n_slots,
			 (unsigned long long)dma->stats.quarantined,
			 dma->n_slot_wait + dma->n_slot_blocked);
}
