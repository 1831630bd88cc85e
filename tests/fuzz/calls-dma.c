/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls to contexts, jobs, engines, kinds and domains; and the engines, kinds
 * and domains of ours, all of whose functions make calls. */

#include <unistd.h>

#include "tests/fuzz/calls.h"

/* What engines and domains have begun. */

static bool pend(struct weir_job *job, struct weir_op *op, uint64_t total)
{
	if (w.n_pending == PENDING || w.ending)
		return false;
	w.pending[w.n_pending++] = (struct pending){ job, op, total };
	return true;
}

void pending_end(uint32_t i, int64_t res)
{
	struct pending p = w.pending[i];

	w.pending[i] = w.pending[--w.n_pending];
	if (p.job)
		CALLV(weir_job_end, p.job, res < 0 ? 0 : p.total,
		      res < 0 ? res : 0, 5);
	else
		CALLV(weir_domain_complete, p.op,
		      res < 0 ? res : (int64_t)p.total);
}

static int64_t some_end(void)
{
	return rnd(4) ? 0 : -EPROTO;
}

static int find_pending(const struct weir_job *job, const struct weir_op *op)
{
	uint32_t i;

	for (i = 0; i < w.n_pending; i++)
		if (w.pending[i].job == job && w.pending[i].op == op)
			return (int)i;
	return -1;
}

static void pending_pick(bool of_engine)
{
	uint32_t i, n = w.n_pending, from = n ? rnd(n) : 0;

	for (i = 0; i < n; i++)
		if ((w.pending[(from + i) % n].op == NULL) == of_engine) {
			pending_end((from + i) % n, some_end());
			return;
		}
}

static void call_job_end(struct core *c)
{
	(void)c;
	pending_pick(true);
}

static void call_domain_complete(struct core *c)
{
	(void)c;
	pending_pick(false);
}

/* A cancel function: of what is pending. */
static void cancelled(struct weir_job *job, struct weir_op *op)
{
	int i = find_pending(job, op);

	MUST(i >= 0 || w.ending);
	act(NULL);
	i = find_pending(job, op);
	if (i >= 0 && rnd(3))
		pending_end((uint32_t)i, -ECANCELED);
}

/* Some errno of a user's function: it has begun nothing. */
static int refusal(void)
{
	static const int errnos[] = { -EAGAIN, -EPROTO, -EXDEV, -EOPNOTSUPP };

	return errnos[rnd(4)];
}

/* Engines. */

struct card {
	uint32_t number;
};

static struct card cards[ENGINES] = { { 0 }, { 1 } };

static int card_can(void *arg, const struct weir_engine_query *q,
		    const char **why)
{
	const struct card *card = arg;

	act_not();
	*why = "not of this length";
	return q->bytes % (2 + card->number) == 0;
}

static int card_start(void *arg, struct weir_job *job)
{
	struct iovec iov[4];
	uint64_t total = GOT(weir_job_bytes, job);

	(void)arg;
	if (job->kind >= WEIR_JOB_USER)
		total = 0;
	act(NULL);
	(void)GOT(weir_job_pieces, job, (int)rnd(3), rnd(4), iov, 4);
	(void)GOT(weir_job_domain, job, (int)rnd(3));
	memset(GOT(weir_job_area, job), 1, WEIR_JOB_AREA);
	if (one_in(6))
		CALLV(weir_job_set_code, job, 3);
	if (one_in(6))
		return rnd(2) && !w.ending ? -EAGAIN : refusal();
	if (one_in(8))
		return GOT(weir_job_stage, job, -ENOENT);
	MUST(!GOT(weir_job_is_step, job) || job->kind == WEIR_JOB_COPY);
	(void)GOT(weir_job_is_stale, job);
	if (job->kind < WEIR_JOB_USER)
		CALLV(weir_job_skip, job, rnd(3));
	if (job->kind == WEIR_JOB_CRC32C || job->kind == WEIR_JOB_COPY_CRC32C)
		CALLV(weir_job_set_crc, job, 5);
	if (job->kind == WEIR_JOB_FETCH_ADD)
		CALLV(weir_job_set_old, job, 9);
	if (job->kind >= WEIR_JOB_USER)
		CALLV(weir_job_set_result, job, rnd(WEIR_KIND_RESULT), 7);
	if (rnd(2) && pend(job, NULL, total)) {
		act(NULL);
		return 0;
	}
	CALLV(weir_job_end, job, total, some_end(), 0);
	act(NULL);
	return 0;
}

static void card_cancel(void *arg, struct weir_job *job)
{
	(void)arg;
	cancelled(job, NULL);
}

static void card_flush(void *arg)
{
	(void)arg;
	act(NULL);
}

static void call_dma_add_engine(struct core *c)
{
	static const char *const names[] = { "card-0", "card-1" };
	struct object *o = any(A_DMA);
	uint32_t i = rnd(ENGINES);
	struct weir_engine_ops ops = {
		.size = sizeof(ops),
		.name = names[i],
		.can = card_can,
		.start = card_start,
		.cancel = i ? card_cancel : NULL,
		.flush = rnd(2) ? card_flush : NULL,
	};

	(void)c;
	if (o)
		(void)CALL(weir_dma_add_engine, o->h, &ops, &cards[i]);
}

/* Kinds of jobs: one byte for another; all at once; without output. */

uint32_t kinds[KINDS];

static int kind_shape(const struct weir_job *job, uint64_t bytes,
		      struct weir_kind_shape *ret)
{
	(void)job, (void)ret;
	act_not();
	return bytes % 7 == 6 ? -EPROTO : 0;
}

static int kind_begin(const struct weir_job *job)
{
	(void)job;
	act(NULL);
	return one_in(8) ? -EPROTO : 0;
}

/* On a worker, too: what it does depends on its input only. */
static int kind_run(struct weir_kind_run *run)
{
	size_t n = run->in_len, i;

	if (run->out && n > run->out_len)
		n = run->out_len;
	for (i = 0; run->out && i < n; i++)
		((unsigned char *)run->out)[i] =
			((const unsigned char *)run->in)[i] ^ 1;
	run->consumed = n;
	run->produced = run->out ? n : 0;
	return run->last && n == run->in_len;
}

static void kind_end(const struct weir_job *job, int64_t res)
{
	MUST(job->kind >= WEIR_JOB_USER && res > -4096);
	act_not();
}

void kinds_register(void)
{
	static const char *const names[] = { "calls-xor", "calls-whole",
					     "calls-sum" };
	static const uint32_t flags[] = {
		WEIR_KIND_OUTPUT | WEIR_KIND_IN_PLACE,
		WEIR_KIND_OUTPUT | WEIR_KIND_WHOLE,
		0,
	};
	struct weir_kind_ops ops = {
		.size = sizeof(ops),
		.shape = kind_shape,
		.run = kind_run,
		.begin = kind_begin,
		.end = kind_end,
	};
	uint32_t i;

	for (i = 0; i < KINDS; i++) {
		ops.name = names[i];
		ops.flags = flags[i];
		MUST(!weir_kind_register(&ops, &kinds[i]));
	}
}

/* A kind stays, so there is none to register any more. */
static void call_kind_register(struct core *c)
{
	struct weir_kind_ops ops = {
		.size = sizeof(ops),
		.name = "calls-xor",
		.run = kind_run,
	};
	uint32_t kind;

	(void)c;
	MUST(CALL(weir_kind_register, &ops, &kind) == -EEXIST);
}

static void call_kind_find(struct core *c)
{
	(void)c;
	MUST(GOT(weir_kind_find, "calls-sum") == kinds[2]);
	MUST(!GOT(weir_kind_find, "none"));
}

static void call_kind_name(struct core *c)
{
	(void)c;
	MUST(GOT(weir_kind_name, kinds[rnd(KINDS)]));
}

/* Domains. */

static struct object *object_of(struct weir_domain *domain)
{
	uint32_t i;

	for (i = 0; i < OF_EACH; i++)
		if (w.objects[A_DOMAIN][i] &&
		    w.objects[A_DOMAIN][i]->h == domain)
			return w.objects[A_DOMAIN][i];
	return NULL;
}

static uint64_t length(const struct weir_domain_side *side)
{
	uint64_t n = 0;
	uint32_t i;

	for (i = 0; i < side->n_iov; i++)
		n += side->iov[i].iov_len;
	return n;
}

static int on_move(struct weir_domain *domain, struct weir_reactor *r,
		   struct weir_op *op, const struct weir_domain_move *move)
{
	struct weir_op_detail detail = { .bytes = 1, .code = 3 };
	uint64_t total = length(&move->dst);

	MUST(r && total);
	act(object_of(domain));
	if (one_in(6))
		return w.ending ? -EPROTO : refusal();
	MUST(!GOT(weir_domain_op_data, op));
	CALLV(weir_domain_set_op_data, op, &w);
	CALLV(weir_domain_set_detail, op, &detail);
	if (rnd(2) && pend(NULL, op, total)) {
		act(object_of(domain));
		return 0;
	}
	CALLV(weir_domain_complete, op,
	      rnd(4) ? (int64_t)total : rnd(2) ? 1 : -EPROTO);
	act(object_of(domain));
	return 0;
}

static void on_move_cancel(struct weir_domain *domain, struct weir_op *op)
{
	MUST(domain);
	cancelled(NULL, op);
}

/* Memory of translations, of one each until it is invalidated: no two jobs have the
 * same. */
#define TRANSLATIONS 16
static char translated[TRANSLATIONS][LEN_MAX];
static bool is_translated[TRANSLATIONS];

void domains_begin(void)
{
	memset(translated, 0, sizeof(translated));
	memset(is_translated, 0, sizeof(is_translated));
}

static int on_translate(struct weir_domain *src, void *src_ctx,
			struct weir_domain *dst, void *dst_ctx, uint64_t addr,
			size_t len, struct weir_translation *ret)
{
	unsigned int i = 0;

	(void)src_ctx, (void)dst, (void)dst_ctx, (void)addr;
	act(object_of(src));
	while (i < TRANSLATIONS && is_translated[i])
		i++;
	if (rnd(2) || len > LEN_MAX || i == TRANSLATIONS)
		return refusal();
	is_translated[i] = true;
	ret->domain = GOT(weir_domain_system);
	ret->iov = (struct iovec){ translated[i], len };
	ret->n_iov = 1;
	return 0;
}

static void on_invalidate(struct weir_domain *domain, void *ctx,
			  const struct weir_translation *t)
{
	size_t i = (size_t)((char *)t->iov.iov_base - translated[0]) / LEN_MAX;

	(void)ctx;
	MUST(t->n_iov == 1 && i < TRANSLATIONS && is_translated[i]);
	is_translated[i] = false;
	act(object_of(domain));
}

static void call_domain_create(struct core *c)
{
	struct weir_domain_opts opts = { .size = sizeof(opts) };
	struct object *o = object_new(A_DOMAIN, NULL);
	struct weir_domain *domain;

	(void)c;
	if (!o)
		return;
	opts.kind = WEIR_DOMAIN_USER + rnd(3);
	opts.id = "calls";
	opts.ctx = &opts;
	opts.ctx_size = rnd(2) * 8;
	object_made(o, &domain, CALL(weir_domain_create, &domain, &opts));
}

#define SET(name, fn) \
	static void call_domain_set_##name(struct core *c) \
	{ \
		struct object *o = any(A_DOMAIN); \
\
		(void)c; \
		if (o) \
			(void)CALL(weir_domain_set_##name, o->h, \
				   rnd(8) ? fn : NULL); \
	}

SET(pull, on_move)
SET(push, on_move)
SET(transfer, on_move)
SET(fill, on_move)
SET(translate, on_translate)
SET(invalidate, on_invalidate)
SET(cancel, on_move_cancel)

static void call_domain_file_create(struct core *c)
{
	struct object *o, *fd = any(A_FD);
	struct weir_domain *domain;

	(void)c;
	if (!fd || fd->fd_kind != FD_FILE)
		return;
	o = object_new(A_DOMAIN, NULL);
	if (!o)
		return;
	o->flag = true;
	object_pin(o, fd);
	object_made(o, &domain,
		    CALL(weir_domain_file_create, &domain, fd->fd, NULL));
}

static void call_domain_process_create(struct core *c)
{
	struct object *o = object_new(A_DOMAIN, NULL);
	struct weir_domain *domain;

	(void)c;
	if (o)
		object_made(o, &domain, CALL(weir_domain_process_create,
					     &domain, (int)getpid(), NULL));
}

static void call_domain_process_create_pidfd(struct core *c)
{
	struct weir_domain *domain;

	(void)c;
	MUST(CALL(weir_domain_process_create_pidfd, &domain, -1, NULL) < 0);
}

static void call_domain_remote_create(struct core *c)
{
	struct object *o = object_new(A_DOMAIN, NULL);
	struct weir_domain *domain;

	(void)c;
	if (o)
		object_made(o, &domain, CALL(weir_domain_remote_create, &domain,
					     NULL));
}

static void call_domain_attach(struct core *c)
{
	struct object *o = any(A_DOMAIN);

	(void)c;
	if (!o || CALL(weir_domain_attach, o->h, o, "fuzz"))
		return;
	MUST(GOT(weir_domain_link, o->h) == o);
	CALLV(weir_domain_detach, o->h, o);
	MUST(!GOT(weir_domain_link, o->h));
}

static void call_domain_destroy(struct core *c)
{
	struct object *o = any(A_DOMAIN);

	(void)c;
	if (o)
		object_destroy(o);
}

static void call_domain_get(struct core *c)
{
	struct object *o = any(A_DOMAIN);

	(void)c;
	if (!o)
		return;
	(void)GOT(weir_domain_kind, o->h);
	(void)GOT(weir_domain_is_memory, o->h);
	MUST(GOT(weir_domain_id, o->h));
	(void)GOT(weir_domain_ctx, o->h);
	(void)GOT(weir_domain_ctx_size, o->h);
	(void)GOT(weir_domain_users, o->h);
	(void)GOT(weir_domain_process_pid, o->h);
}

static void call_domain_next(struct core *c)
{
	struct weir_domain *d = GOT(weir_domain_next, NULL,
				    rnd(2) ? "calls" : NULL);

	(void)c;
	if (d && rnd(2))
		d = GOT(weir_domain_next, d, NULL);
	CALLV(weir_domain_put, d);
}

static void call_domain_always(struct core *c)
{
	(void)c;
	MUST(GOT(weir_domain_system) != GOT(weir_domain_hugepage));
}

static void set_side(struct weir_domain_side *side, struct object *domain,
		     const struct iovec *iov)
{
	side->domain = domain ? domain->h : NULL;
	side->iov = iov;
	side->n_iov = 1;
}

#define MOVE(name, has_src, src_domain, dst_domain) \
	static void call_domain_##name(struct core *c) \
	{ \
		struct object *o = any(A_DOMAIN); \
		struct object *other = any(A_DOMAIN); \
		struct task *t = o && other ? task_new(c) : NULL; \
\
		if (!t) \
			return; \
		task_buf(t); \
		t->any_errno = true; \
		t->iov[0] = (struct iovec){ t->buf, t->len }; \
		t->iov[1] = (struct iovec){ t->buf, t->len }; \
		t->move.size = sizeof(t->move); \
		if (has_src) \
			set_side(&t->move.src, src_domain, &t->iov[0]); \
		set_side(&t->move.dst, dst_domain, &t->iov[1]); \
		START(t, weir_domain_##name, c->r, OP(t), &t->move); \
	}

MOVE(pull, true, o, NULL)
MOVE(push, true, NULL, o)
MOVE(transfer, true, o, other)
MOVE(fill, false, NULL, o)

/* The domain is in use until it is invalidated. */
static void call_domain_translate(struct core *c)
{
	struct object *from = any(A_DOMAIN), *o;
	struct weir_translation *t;
	int64_t err;

	(void)c;
	o = from ? object_new(A_TRANSLATION, NULL) : NULL;
	if (!o)
		return;
	t = calloc(1, sizeof(*t));
	MUST(t);
	t->size = sizeof(*t);
	err = CALL(weir_domain_translate, from->h, NULL,
		   weir_domain_system(), NULL, 4096, 16, t);
	if (err) {
		free(t);
		object_free(o);
		return;
	}
	o->h = t;
}

static void call_domain_invalidate(struct core *c)
{
	struct object *o = any(A_TRANSLATION);

	(void)c;
	if (o)
		object_destroy(o);
}

/* Contexts. */

static void on_state(struct weir_dma *dma, int prev, int next, void *arg)
{
	struct object *o = arg;

	MUST(o->h == dma && prev != next);
	act(o);
}

static void call_dma_create(struct core *c)
{
	static const uint32_t limits[] = { 0, 1, 4 };
	struct weir_dma_opts opts = { .size = sizeof(opts) };
	struct object *o = object_new(A_DMA, c);
	struct weir_dma *dma;

	if (!o)
		return;
	opts.jobs_max = limits[rnd(3)];
	opts.turn_bytes = rnd(2) * 4096;
	opts.worker_min = rnd(2) * 512;
	opts.staging_bufs = 1 + rnd(2);
	opts.staging_size = 4096;
	object_made(o, &dma, CALL(weir_dma_create, &dma, c->r, &opts));
}

static void call_dma_start(struct core *c)
{
	struct object *o = any(A_DMA);

	(void)c;
	if (o)
		(void)CALL(weir_dma_start, o->h);
}

static void call_dma_stop(struct core *c)
{
	struct object *o = any(A_DMA);
	struct task *t = o ? task_new(o->core) : NULL;

	(void)c;
	if (t)
		START(t, weir_dma_stop, o->h, OP(t));
}

static void call_dma_destroy(struct core *c)
{
	struct object *o = any(A_DMA);

	(void)c;
	if (o)
		object_destroy(o);
}

static void call_dma_set_state_cb(struct core *c)
{
	struct object *o = any(A_DMA);

	(void)c;
	if (o)
		(void)CALL(weir_dma_set_state_cb, o->h,
			   rnd(4) ? on_state : NULL, o);
}

static void call_dma_flush(struct core *c)
{
	struct object *o = any(A_DMA);

	(void)c;
	if (o)
		CALLV(weir_dma_flush, o->h);
}

static void call_dma_get(struct core *c)
{
	struct weir_dma_engine_stats engine = { .size = sizeof(engine) };
	struct weir_dma_stats stats = { .size = sizeof(stats) };
	struct object *o = any(A_DMA);

	(void)c;
	if (!o)
		return;
	(void)GOT(weir_dma_state, o->h);
	MUST(GOT(weir_dma_reactor, o->h) == o->core->r);
	MUST(!CALL(weir_dma_stats, o->h, &stats));
	MUST(stats.in_flight == GOT(weir_dma_in_flight, o->h));
	(void)CALL(weir_dma_engine_stats, o->h, rnd(8), &engine);
}

/* Jobs. */

/* Somewhere @len bytes can be; a task's own memory is its .buf. */
bool operand_some(struct core *c, struct weir_operand *ret, struct task *t,
		  size_t len, bool is_dst)
{
	struct object *o;

	switch (rnd(4)) {
	case 0:
		o = any(A_DOMAIN);
		if (!o || (o->h && GOT(weir_domain_kind, o->h) ==
				   WEIR_DOMAIN_PROCESS))
			return false;
		*ret = weir_operand_at(o->h, 4096, len);
		break;
	case 1:
		o = any(A_BUF);
		if (!o || o->core != c || o->flag)
			return false;
		*ret = weir_operand_buf(o->h);
		if (!is_dst && rnd(2))
			ret->len = len;
		break;
	default:
		*ret = weir_operand_mem(t->buf + (is_dst ? LEN_MAX : 0), len);
	}
	return true;
}

static bool job_set(struct core *c, struct task *t)
{
	struct weir_job *job = &t->job;
	struct weir_operand src, dst;
	size_t len = 1 + rnd(64) * 16 % (LEN_MAX / 2);

	if (!operand_some(c, &src, t, len, false) ||
	    !operand_some(c, &dst, t, len, true))
		return false;
	switch (rnd(10)) {
	case 0:
		weir_job_fill(job, dst, 1);
		break;
	case 1:
		weir_job_crc32c(job, src, 0);
		break;
	case 2:
		weir_job_copy_crc32c(job, dst, src, 0);
		break;
	case 3:
		weir_job_compare(job, src, dst);
		break;
	case 4:
		t->more = weir_operand_mem(t->buf + 2 * LEN_MAX, len);
		weir_job_dualcast(job, dst, &t->more, src);
		break;
	case 5:
		weir_job_fetch_add(job, weir_operand_mem(t->buf, 8), 1);
		break;
	case 6:
		weir_job_registered(job, kinds[0], dst, src, &t->args);
		break;
	case 7:
		weir_job_registered(job, kinds[1 + rnd(2)], dst, src,
				    &t->args);
		if (job->kind == kinds[2])
			job->dst = weir_operand_mem(NULL, 0);
		break;
	default:
		weir_job_copy(job, dst, src);
	}
	if (one_in(6))
		job->flags |= WEIR_JOB_FENCE;
	if (one_in(6))
		job->flags |= WEIR_JOB_LAZY;
	if (one_in(4))
		job->flags |= WEIR_JOB_OVERWRITE;
	if (job->kind < WEIR_JOB_USER && rnd(2))
		job->flags |= WEIR_JOB_SHORT_OK;
	return true;
}

static struct task *job_task(struct object **dma)
{
	struct object *o = any(A_DMA);
	struct task *t = o ? task_new(o->core) : NULL;

	if (!t)
		return NULL;
	*dma = o;
	task_buf(t);
	t->any_errno = true;
	if (job_set(o->core, t))
		return t;
	task_drop(t);
	return NULL;
}

static void call_job_start(struct core *c)
{
	struct object *o;
	struct task *t = job_task(&o);

	(void)c;
	if (t)
		START(t, weir_job_start, o->h, &t->job);
}

/* The second is refused, if it does not go to the same reactor. */
static void call_job_start_batch(struct core *c)
{
	struct weir_job *jobs[1];
	uint32_t n_started;
	struct object *o;
	struct task *t = job_task(&o);

	(void)c;
	if (!t)
		return;
	jobs[0] = &t->job;
	START(t, weir_job_start_batch, o->h, jobs, 1, &n_started);
}

static void call_job_get(struct core *c)
{
	struct weir_job_route route = { .size = sizeof(route) };
	struct task *t = w.ended;

	(void)c;
	if (!t || strncmp(t->fn->name, "weir_job_start", 14))
		return;
	(void)CALL(weir_job_get_route, &t->job, &route);
	(void)GOT(weir_job_old, &t->job);
	(void)GOT(weir_job_result, &t->job);
}

static void call_route_explain(struct core *c)
{
	struct object *o;
	struct task *t = job_task(&o);
	char text[512];

	(void)c;
	if (!t)
		return;
	(void)CALL(weir_route_explain, o->h, &t->job, text, sizeof(text));
	task_drop(t);
}

const struct call calls_dma[] = {
	{ "weir_job_end", call_job_end, 40 },
	{ "weir_domain_complete", call_domain_complete, 40 },
	{ "weir_dma_add_engine", call_dma_add_engine, 12 },
	{ "weir_kind_register", call_kind_register, 1 },
	{ "weir_kind_find", call_kind_find, 1 },
	{ "weir_kind_name", call_kind_name, 1 },
	{ "weir_domain_create", call_domain_create, 8 },
	{ "weir_domain_set_pull", call_domain_set_pull, 8 },
	{ "weir_domain_set_push", call_domain_set_push, 8 },
	{ "weir_domain_set_transfer", call_domain_set_transfer, 8 },
	{ "weir_domain_set_fill", call_domain_set_fill, 6 },
	{ "weir_domain_set_translate", call_domain_set_translate, 6 },
	{ "weir_domain_set_invalidate", call_domain_set_invalidate, 6 },
	{ "weir_domain_set_cancel", call_domain_set_cancel, 8 },
	{ "weir_domain_file_create", call_domain_file_create, 4 },
	{ "weir_domain_process_create", call_domain_process_create, 1 },
	{ "weir_domain_process_create_pidfd",
	  call_domain_process_create_pidfd, 1 },
	{ "weir_domain_remote_create", call_domain_remote_create, 1 },
	{ "weir_domain_attach", call_domain_attach, 4 },
	{ "weir_domain_destroy", call_domain_destroy, 8 },
	{ "weir_domain_kind", call_domain_get, 2 },
	{ "weir_domain_is_memory", call_domain_get, 1 },
	{ "weir_domain_next", call_domain_next, 2 },
	{ "weir_domain_system", call_domain_always, 1 },
	{ "weir_domain_pull", call_domain_pull, 16 },
	{ "weir_domain_push", call_domain_push, 16 },
	{ "weir_domain_transfer", call_domain_transfer, 8 },
	{ "weir_domain_fill", call_domain_fill, 8 },
	{ "weir_domain_translate", call_domain_translate, 8 },
	{ "weir_domain_invalidate", call_domain_invalidate, 12 },
	{ "weir_dma_create", call_dma_create, 8 },
	{ "weir_dma_start", call_dma_start, 24 },
	{ "weir_dma_stop", call_dma_stop, 8 },
	{ "weir_dma_destroy", call_dma_destroy, 8 },
	{ "weir_dma_set_state_cb", call_dma_set_state_cb, 6 },
	{ "weir_dma_flush", call_dma_flush, 12 },
	{ "weir_dma_state", call_dma_get, 4 },
	{ "weir_job_start", call_job_start, 96 },
	{ "weir_job_start_batch", call_job_start_batch, 16 },
	{ "weir_job_get_route", call_job_get, 12 },
	{ "weir_route_explain", call_route_explain, 8 },
	{ NULL, NULL, 0 },
};
