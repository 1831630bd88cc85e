/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Engines at work: jobs that wait for capacity in one, and what an engine sees
 * of a job.
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <weir/provider.h>

#include "base/alloc.h"
#include "base/check.h"
#include "base/opts.h"
#include "base/probe.h"
#include "base/why.h"
#include "dma/bounce.h"
#include "dma/flow/chain-internal.h"
#include "dma/route.h"
#include "mem/buf-internal.h"

static void tick(struct weir_op *op, int64_t res);

/* Waiting for capacity. */

void engine_waits_init(struct weir_dma *dma)
{
	weir_op_init(&dma->engine_tick, tick);
}

void engine_waits_fini(struct weir_dma *dma)
{
	reactor_check_thread(dma->r);
	wheel_del(&dma->r->wheel, &dma->engine_nap);
}

void engines_arm(struct weir_dma *dma)
{
	static const struct weir_op_class tick_class = { .name = "engines" };

	reactor_check_thread(dma->r);
	if (weir_op_is_busy(&dma->engine_tick))
		return;
	op_enlist(dma->r, &dma->engine_tick, &tick_class);
	op_complete(&dma->engine_tick, 0);
}

static void nap_over(struct weir_timer_node *node)
{
	struct weir_dma *dma = weir_container_of(node, struct weir_dma,
						 engine_nap);
	bool waits = dma->translate.wait;

	for (uint32_t i = 0; i < dma->n_engines; i++)
		waits |= dma->engines[i].wait != NULL;
	if (waits)
		engines_arm(dma);
}

/*
 * The engine has no capacity, and no job of this context is in flight in it
 * whose end would free some: another context has taken it.  Ask again, soon at
 * first and then less often, so that the reactor can sleep.
 */
static void nap(struct weir_dma *dma)
{
	struct weir_reactor *r = dma->r;
	uint64_t ns = chain_backoff(dma->engine_naps);

	if (!ns || r->state != WEIR_REACTOR_RUNNING) {
		dma->engine_naps++;
		engines_arm(dma);
	} else if (!dma->engine_nap.pprev) {
		dma->engine_naps++;
		dma->engine_nap.fire = nap_over;
		wheel_add(&r->wheel, &dma->engine_nap, reactor_now(r) + ns);
	}
}

static void wait_last(struct engine *e, struct weir_job *job)
{
	struct job_priv *p = job_priv(job);

	debug_check(!p->waits);
	p->waits = true;
	p->q_next = NULL;
	p->q_pprev = e->wait_last;
	*e->wait_last = job;
	e->wait_last = &p->q_next;
	e->stats.waiting++;
}

static void wait_no_more(struct engine *e, struct weir_job *job)
{
	struct job_priv *p = job_priv(job);

	debug_check(p->waits);
	p->waits = false;
	*p->q_pprev = p->q_next;
	if (p->q_next)
		job_priv(p->q_next)->q_pprev = p->q_pprev;
	else
		e->wait_last = p->q_pprev;
	p->q_pprev = NULL;
	debug_check(e->stats.waiting > 0);
	e->stats.waiting--;
}

static void wait_first(struct engine *e, struct weir_job *job)
{
	struct job_priv *p = job_priv(job);

	debug_check(!p->waits);
	p->waits = true;
	p->q_next = e->wait;
	p->q_pprev = &e->wait;
	if (e->wait)
		job_priv(e->wait)->q_pprev = &p->q_next;
	else
		e->wait_last = &p->q_next;
	e->wait = job;
	e->stats.waiting++;
}

/* Counted before, for the job may end inside. */
static int call_start(struct engine *e, struct weir_job *job)
{
	int err;

	debug_check(job->op.state == OP_PENDING && job_priv(job)->engine == e);
	e->stats.under_way++;
	err = e->kind->ops.start(e->arg, job);
	if (unlikely(err)) {
		/* Refused, and ended by the engine, which must not do both. */
		check(job->op.state == OP_PENDING);
		e->stats.under_way--;
		return err < 0 ? (int)sane_result(err) : -EIO;
	}
	if (unlikely(e->kind->ops.flush) && !e->unflushed) {
		e->unflushed = true;
		engines_arm(job_priv(job)->dma);
	}
	return 0;
}

/*
 * Whether @job waits if its engine returns -EAGAIN.  Some engines pass that on
 * to the caller (.passed_on), but a step, or a job that was held, has no
 * caller.
 */
static bool may_wait(const struct weir_job *job)
{
	const struct job_priv *p = job_priv((struct weir_job *)job);

	return !p->passed_on || p->is_step ||
	       (job->flags & (WEIR_JOB_FENCE | WEIR_JOB_LAZY));
}

int engine_start(struct engine *e, struct weir_job *job)
{
	struct job_priv *p = job_priv(job);
	int err = -EAGAIN;

	debug_check(job->op.state == OP_PENDING);
	p->engine = e;
	PROBE3(job_step, job, e->kind->ops.name, p->total);
	p->passed_on = e->kind->refuses;
	if (unlikely(p->imported && !p->entered) && job_enter_imports(job))
		return -ESTALE;
	if (likely(!e->wait))
		err = call_start(e, job);
	if (unlikely(err == -EAGAIN) && may_wait(job)) {
		wait_last(e, job);
		e->stats.waited++;
		engines_arm(p->dma);
		err = 0;
	}
	if (likely(!err) && p->is_step)
		e->stats.steps++;
	else if (likely(!err))
		e->stats.jobs++;
	return err;
}

void engine_wait(struct weir_job *job)
{
	struct engine *e = job_priv(job)->engine;

	debug_check(job->op.state == OP_PENDING);
	debug_check(e->stats.under_way > 0);
	e->stats.under_way--;
	e->stats.waited++;
	wait_last(e, job);
	engines_arm(job_priv(job)->dma);
}

void engine_cancel(struct weir_job *job)
{
	struct job_priv *p = job_priv(job);
	struct weir_dma *dma = p->dma;
	struct engine *e = p->engine;

	debug_check(job->op.state == OP_PENDING);
	if (p->waits) {
		job_end(job, -ECANCELED);
	} else if (e->kind->ops.cancel) {
		dma_enter(dma);
		e->kind->ops.cancel(e->arg, job);
		dma_exit(dma);
	}
}

void engine_left(struct weir_job *job, int64_t res)
{
	struct job_priv *p = job_priv(job);
	struct engine *e = p->engine;

	if (unlikely(p->waits))
		wait_no_more(e, job);
	else
		e->stats.under_way--;
	e->stats.bytes += p->done;
	e->stats.failed += res < 0;
	if (unlikely(e->wait))
		engines_arm(p->dma);
}

/* Offer @job, the first that waits, to @e again.  Returns the engine's
 * result. */
static int offer(struct weir_dma *dma, struct engine *e, struct weir_job *job)
{
	uint32_t nesting = dma->nesting;
	int err;

	debug_check(job_priv(job)->waits);
	job_enter(job);
	wait_no_more(e, job);
	if (job_priv(job)->is_step)
		dma->nesting = bounce_nesting(job);
	err = call_start(e, job);
	dma->nesting = nesting;
	if (err) {
		wait_first(e, job);
		if (err != -EAGAIN)
			job_end(job, err);
	}
	job_exit(dma, job);
	return err;
}

/* Those that wait for @e, in order, as far as there is capacity. */
static void retry(struct weir_dma *dma, struct engine *e)
{
	struct weir_job *job;
	int err;

	while ((job = e->wait)) {
		err = offer(dma, e, job);
		if (!err) {
			dma->engine_naps = 0;
		} else if (err == -EAGAIN) {
			if (e->wait && !e->stats.under_way)
				nap(dma);
			return;
		}
	}
}

void engines_flush(struct weir_dma *dma)
{
	struct engine *e;

	reactor_check_thread(dma->r);
	for (e = dma->engines; e < dma->engines + dma->n_engines; e++) {
		if (!e->unflushed)
			continue;
		e->unflushed = false;
		dma_enter(dma);
		e->kind->ops.flush(e->arg);
		dma_exit(dma);
	}
}

static void tick(struct weir_op *op, int64_t res)
{
	struct weir_dma *dma = weir_container_of(op, struct weir_dma,
						 engine_tick);
	uint32_t i;

	(void)res;
	for (i = 0; i < dma->n_engines; i++)
		retry(dma, &dma->engines[i]);
	retry(dma, &dma->translate);
	dma->bounce.kind->serve(dma);
	weir_dma_flush(dma);
}

/* The part of a job that engines see. */

/* Set @c to @skip bytes after the beginning of a side of @job, which an engine
 * has.  False: there is nothing. */
static bool job_cursor(const struct weir_job *job, int side, uint64_t skip,
		       struct cursor *c)
{
	const struct job_priv *p = job_priv((struct weir_job *)job);
	uint32_t i = (uint32_t)side - WEIR_JOB_EXTRA;

	*c = side == WEIR_JOB_SRC ? p->src : p->dst;
	if (side >= WEIR_JOB_EXTRA && i < job->n_extra)
		extra_cursor(job, i, 0, c);
	else if (side >= WEIR_JOB_EXTRA)
		return false;
	if (!c->side || skip >= c->left)
		return false;
	cursor_skip(c, skip);
	return true;
}

uint32_t weir_job_pieces(const struct weir_job *job, int side, uint64_t skip,
			 struct iovec *iov, uint32_t n)
{
	struct cursor c;
	uint64_t len;

	if (!n || !job_cursor(job, side, skip, &c))
		return 0;
	return cursor_gather(&c, iov, n, c.left, &len);
}

/*
 * Registrations of a context's staging with devices: for engines whose device
 * moves bytes between it and elsewhere.  One is made when an engine asks for it
 * first, and kept until the context is destroyed, as the device is kept open.
 */

struct staging_key {
	struct weir_device *device;
	struct device_mr mr;
	struct staging_key *next;
};

static int staging_register(struct staging_key *key, struct weir_dma *dma,
			    struct weir_device *device)
{
	const struct device_range range = {
		.kind = DEVICE_RANGE_MEM,
		.permissions = WEIR_MMAP_READ | WEIR_MMAP_WRITE,
		.addr = dma->staging,
		.len = dma->staging_len,
	};
	struct weir_device *same = NULL;
	int err;

	if (!device->info.cls->mr_register ||
	    !device_can(device, WEIR_DEVICE_CAP_MMAP))
		return why(-EOPNOTSUPP, "weir_job_start: device %s registers no "
			   "memory", device_name(device));
	err = weir_device_open(&same, &device->info);
	if (err)
		return why_call(err, "weir_device_open", "weir_job_start");
	if (same != device)
		err = why(-ENODEV, "weir_job_start: %s was removed or reset",
			  device_name(device));
	if (!err)
		err = device->info.cls->mr_register(device, &range, &key->mr);
	if (!err)
		return 0;
	(void)weir_device_close(same);
	return why_call(err, "weir_mmap_keys", "weir_job_start");
}

/* Returns 0 with the key gone, or an errno of the device. */
static int staging_deregister(struct staging_key *key)
{
	int err = key->device->info.cls->mr_deregister(key->device, &key->mr);

	if (err)
		return err;
	(void)weir_device_close(key->device);
	free(key);
	return 0;
}

/* A device that is there again has taken the place of one that was removed or
 * reset, and is not to stay open for that one's registration.  If that is refused, it
 * is asked for again. */
static void staging_replaces(struct weir_dma *dma, const struct weir_device *device)
{
	struct staging_key **at = &dma->staging_keys, *key, *next;

	while ((key = *at)) {
		next = key->next;
		if (key->device != device &&
		    !strcmp(device_name(key->device), device_name(device)) &&
		    !staging_deregister(key))
			*at = next;
		else
			at = &key->next;
	}
}

static int staging_mr(struct weir_dma *dma, struct weir_device *device,
		      struct device_mr *ret)
{
	struct staging_key *key = dma->staging_keys;
	int err;

	reactor_check_thread(dma->r);
	while (key && key->device != device)
		key = key->next;
	if (!key) {
		key = mem_calloc(1, sizeof(*key));
		err = key ? staging_register(key, dma, device) :
			    why(-ENOMEM, "weir_job_start: no memory");
		if (err) {
			free(key);
			return err;
		}
		staging_replaces(dma, device);
		key->device = device;
		key->next = dma->staging_keys;
		dma->staging_keys = key;
	}
	*ret = key->mr;
	return 0;
}

/* A device may be busy once.  What it refuses to give back twice goes with it. */
void staging_keys_drop(struct weir_dma *dma)
{
	struct staging_key *key;

	reactor_check_thread(dma->r);
	while ((key = dma->staging_keys)) {
		dma->staging_keys = key->next;
		if (staging_deregister(key) && staging_deregister(key))
			free(key);
	}
}

/* Of bufs of another reactor only the mmap may be read. */
static int key_of_buf(const struct weir_buf *buf, const struct weir_reactor *r,
		      struct weir_device *dev, struct device_mr *mr,
		      const char *call)
{
	int err;

	if (unlikely(buf->use->mmap->import) &&
	    mmap_import_key(buf->use->mmap, dev, mr))
		return 0;
	if (unlikely(buf->use->r != r))
		return mmap_mr(buf->use->mmap, dev, 0, 0, 0, NULL, mr, call);
	err = mmap_use_key(buf->use, dev, &mr->lkey);
	mr->priv = buf->use->key_data;
	return err;
}

/* Whether the piece of @job at @c is staging. */
static bool is_staging(const struct weir_job *job, const struct cursor *c)
{
	const struct job_priv *p = job_priv((struct weir_job *)job);

	return p->is_step && domain_is_memory(operand_domain(c->operand)) &&
	       c->addr - (uintptr_t)p->dma->staging < p->dma->staging_len;
}

/* Neither .mem_register() nor .import(). */
static bool has_no_keys(const struct weir_device *dev)
{
	return !dev->info.cls->mr_register && !dev->info.cls->import;
}

/* What @dev has for the piece of @job at @c. */
static int key_of(const struct weir_job *job, const struct cursor *c,
		  struct weir_device *dev, struct weir_provider_key *ret)
{
	struct weir_dma *dma = job_priv((struct weir_job *)job)->dma;
	struct device_mr mr = { NULL, 0, 0 };
	int err;

	if (likely(c->buf))
		err = key_of_buf(c->buf, dma->r, dev, &mr, "weir_job_keys");
	else if (is_staging(job, c))
		err = staging_mr(dma, dev, &mr);
	else
		err = why_static(-ENOENT, "weir_job_keys: a piece is not a "
				 "buf, so it has no registration");
	if (likely(!err))
		*ret = (struct weir_provider_key){ mr.priv, mr.lkey, 0 };
	return err;
}

int weir_buf_key(const struct weir_buf *buf, struct weir_device *dev,
		 struct weir_provider_key *ret)
{
	const struct weir_reactor *r = buf->use->r;
	struct device_mr mr = { NULL, 0, 0 };
	int err;

	if (has_no_keys(dev))
		return why_static(-EPERM, "weir_buf_key: the device registers "
				  "and imports no memory");
	err = key_of_buf(buf, reactor_is_here(r) ? r : NULL, dev, &mr,
			 "weir_buf_key");
	if (likely(!err))
		*ret = (struct weir_provider_key){ mr.priv, mr.lkey, 0 };
	return err;
}

int weir_job_keys(const struct weir_job *job, int side, uint64_t skip,
		  struct weir_device *dev, struct iovec *iov,
		  struct weir_provider_key *keys, uint32_t n)
{
	struct cursor c;
	uint32_t i = 0;
	int err = 0;

	if (has_no_keys(dev))
		return why_static(-EPERM, "weir_job_keys: the device registers "
				  "and imports no memory");
	if (!job_cursor(job, side, skip, &c))
		return 0;
	while (i < n && c.left && !err) {
		err = key_of(job, &c, dev, &keys[i]);
		if (iov)
			iov[i] = (struct iovec){ (void *)(uintptr_t)c.addr,
						 c.len };
		i++;
		cursor_advance(&c, c.len);
	}
	return err ? err : (int)i;
}

static void skip_side(struct cursor *c, uint64_t n)
{
	if (c->side)
		cursor_skip(c, n < c->left ? n : c->left);
}

void weir_job_skip(struct weir_job *job, uint64_t n)
{
	struct job_priv *p = job_priv(job);

	check(!kind_is_user(job->kind));
	skip_side(&p->src, n);
	skip_side(&p->dst, n);
}

int weir_job_is_stale(const struct weir_job *job)
{
	return job_is_stale(job);
}

int weir_job_is_step(const struct weir_job *job)
{
	return job_priv((struct weir_job *)job)->is_step;
}

/* Whether staging can take the place of the side of @job that is memory. */
static bool may_stage(const struct weir_job *job)
{
	const struct job_priv *p = job_priv((struct weir_job *)job);

	return (job->kind == WEIR_JOB_COPY || job->kind == WEIR_JOB_PULL ||
		job->kind == WEIR_JOB_PUSH) &&
	       is_foreign(operand_domain(p->src.operand)) !=
		       is_foreign(operand_domain(p->dst.operand));
}

int weir_job_stage(struct weir_job *job, int err)
{
	struct job_priv *p = job_priv(job);

	check(job->op.state == OP_PENDING && !p->waits && !p->done);
	if (p->is_step)
		return err;
	if (job->flags & WEIR_JOB_SIGNAL)
		return why_static(-EXDEV, "weir_job_start: a signal goes with "
				  "bytes that the device knows: use bufs of an "
				  "mmap that has it, or few bytes");
	if (!may_stage(job))
		return err == -ENOENT ? -EOPNOTSUPP : err;
	bounce_instead(job, err);
	return 0;
}

struct weir_domain *weir_job_domain(const struct weir_job *job, int side)
{
	const struct job_priv *p = job_priv((struct weir_job *)job);
	const struct cursor *c = side == WEIR_JOB_SRC ? &p->src : &p->dst;
	uint32_t i = (uint32_t)side - WEIR_JOB_EXTRA;

	if (side >= WEIR_JOB_EXTRA)
		return i < job->n_extra ? operand_domain(&job->more[i]) : NULL;
	return c->side ? operand_domain(c->operand) : NULL;
}

uint64_t weir_job_bytes(const struct weir_job *job)
{
	return job_priv((struct weir_job *)job)->total;
}

_Static_assert(sizeof(((struct job_priv *)0)->area) >= WEIR_JOB_AREA,
	       "what engines were promised");

void *weir_job_area(struct weir_job *job)
{
	return job_priv(job)->area;
}

void weir_job_set_crc(struct weir_job *job, uint32_t crc)
{
	job_priv(job)->crc = crc;
}

void weir_job_set_code(struct weir_job *job, int32_t code)
{
	job->op.detail.code = code;
}

void weir_job_set_old(struct weir_job *job, uint64_t old)
{
	job_priv(job)->old = old;
}

void weir_job_end(struct weir_job *job, uint64_t bytes, int64_t res,
		  int32_t code)
{
	struct job_priv *p = job_priv(job);
	bool user = kind_is_user(job->kind);
	uint64_t max = user && p->dst.side ? p->dst.left : p->total;

	check(job->op.state == OP_PENDING && !p->waits);
	res = sane_result(res);
	if (bytes > max) {
		bytes = max;
		res = res < 0 ? res : -EIO;
	}
	p->done = bytes;
	job->op.detail.code = code;
	if (res >= 0 && bytes < p->total && job->kind != WEIR_JOB_COMPARE &&
	    !user &&
	    !(job->flags & WEIR_JOB_SHORT_OK))
		res = -ENODATA;
	job_end(job, res < 0 ? res : 0);
}
