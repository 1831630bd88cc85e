/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A device that is hostile, or broken: an engine, and a domain with functions,
 * whose answers are bytes of the input.  They refuse, put off, answer too much,
 * too little, codes that are none, late, and in any order, and translate to
 * nonsense.  What they may not do is what their contracts call once: end a job
 * twice, or refuse one that they have ended.
 *
 * Each job must get its callback once, with a result that is one; nothing
 * beside its memory may change; and all must come to its end.
 */

#include <weir/dma.h>
#include <weir/domain-user.h>
#include <weir/engine.h>
#include <weir/job.h>
#include <weir/reactor.h>

#include "dma/bounce.h"
#include "dma/job-internal.h"
#include "tests/fuzz/fuzz-fixture.h"

const char fuzz_name[] = "engine";

#define JOBS 12
#define PENDING 64
#define PIECES 12
#define LEN_MAX 3000
#define GUARD 16
#define GUARD_BYTE 0x5c
#define STORE_LEN 8192

struct work {
	struct weir_job job;
	struct weir_operand more;
	char *mem[3];		/* Of .len, with guards. */
	size_t len;
	int started, calls;
};

/* What the device has been asked for, and not answered: a job or an op. */
struct pending {
	struct weir_job *job;
	struct weir_op *op;
	uint64_t len;
	struct iovec touches[PIECES];	/* Memory of ours that it has. */
	uint32_t n_touches;
};

static struct {
	struct input in;
	struct weir_reactor *r;
	struct weir_dma *dma;
	struct weir_domain *store;
	struct work work[JOBS];
	struct pending pending[PENDING];
	unsigned int n_pending;
	int translations;
	bool orderly;		/* From now on it behaves. */
	char memory[STORE_LEN];
} f;

/* Is @p in memory of any job, of the store's, or in staging? */
static bool is_ours(const char *p, size_t len)
{
	size_t staging = f.dma->staging_len;
	unsigned int i, j;

	if (f.dma->staging && p >= f.dma->staging &&
	    p + len <= f.dma->staging + staging)
		return true;
	if (p >= f.memory && p + len <= f.memory + STORE_LEN)
		return true;
	for (i = 0; i < JOBS; i++)
		for (j = 0; j < 3; j++)
			if (f.work[i].mem[j] && p >= f.work[i].mem[j] &&
			    p + len <= f.work[i].mem[j] + f.work[i].len)
				return true;
	return false;
}

/* What it is shown is what is the job's; looked at in odd ways. */
static void look_at(const struct weir_job *job)
{
	uint64_t skip = take_rubbish(&f.in, weir_job_bytes(job)), sum = 0;
	int side = (int)take(&f.in, 6) - 1;
	struct iovec iov[3];
	uint32_t i, n;

	n = weir_job_pieces(job, side, skip, iov, take(&f.in, 4));
	MUST(n <= 3);
	for (i = 0; i < n; i++) {
		sum += iov[i].iov_len;
		if (weir_job_domain(job, side) != f.store)
			MUST(is_ours(iov[i].iov_base, iov[i].iov_len));
	}
	MUST(!n || sum <= weir_job_bytes(job) - skip);
}

static int64_t take_result(uint64_t len)
{
	switch (take(&f.in, 6)) {
	case 0:
		return -(int64_t)take(&f.in, 134);
	case 1:
		return INT64_MIN;
	case 2:
		return -(INT64_C(1) << 32);
	case 3:
		return (int64_t)take_rubbish(&f.in, len);
	default:
		return 0;
	}
}

static void answer_job(struct weir_job *job)
{
	uint64_t len = weir_job_bytes(job);

	if (f.orderly) {
		weir_job_end(job, len, 0, 0);
		return;
	}
	look_at(job);
	memset(weir_job_area(job), 0xee, WEIR_JOB_AREA);
	weir_job_set_crc(job, (uint32_t)len);
	weir_job_end(job, take_rubbish(&f.in, len), take_result(len),
		     (int32_t)take_u64(&f.in));
}

static void answer_op(struct weir_op *op, uint64_t len)
{
	struct weir_op_detail detail = { 0 };

	if (f.orderly) {
		weir_domain_complete(op, (int64_t)len);
		return;
	}
	if (take(&f.in, 2)) {
		detail.bytes = take_rubbish(&f.in, len);
		detail.code = (int32_t)take_u64(&f.in);
		detail.segment = (uint32_t)take_u64(&f.in);
		weir_domain_set_detail(op, &detail);
	}
	weir_domain_complete(op, take(&f.in, 2) ?
			     (int64_t)take_rubbish(&f.in, len) :
			     take_result(len));
}

static void answer(unsigned int i)
{
	struct pending p = f.pending[i];

	f.pending[i] = f.pending[--f.n_pending];
	if (p.job)
		answer_job(p.job);
	else
		answer_op(p.op, p.len);
}

static void touches(struct pending *p, const struct iovec *iov, uint32_t n)
{
	while (n-- && p->n_touches < PIECES)
		p->touches[p->n_touches++] = *iov++;
}

static void keep(struct pending p)
{
	struct iovec iov[4];
	int side;

	for (side = 0; p.job && side < 3; side++)
		if (weir_job_domain(p.job, side) != f.store)
			touches(&p, iov, weir_job_pieces(p.job, side, 0, iov,
							 4));
	MUST(f.n_pending < PENDING);
	f.pending[f.n_pending++] = p;
	if (!take(&f.in, 4))
		answer(f.n_pending - 1);
}

/* 0, or why not: now and then something that is no errno. */
static int take_refusal(void)
{
	static const int refusals[] = { -EAGAIN, -EIO, -EAGAIN, INT32_MIN,
					-4096, -EINVAL };

	if (f.orderly || take(&f.in, 3))
		return 0;
	return refusals[take(&f.in, 6)];
}

static int card_can(void *arg, const struct weir_engine_query *q,
		    const char **why)
{
	(void)arg;
	*why = "it does not like it";
	return (q->kind ^ q->bytes) & 1;	/* By what it is asked only. */
}

static int card_start(void *arg, struct weir_job *job)
{
	int err = take_refusal();

	(void)arg;
	if (!err && !f.orderly && !take(&f.in, 16))
		err = 7;	/* No errno, and no 0. */
	if (!err)
		keep((struct pending){ .job = job });
	return err;
}

static void cancel_of(const struct weir_job *job, const struct weir_op *op)
{
	unsigned int i;

	for (i = 0; i < f.n_pending; i++)
		if (f.pending[i].job == job && f.pending[i].op == op)
			break;
	MUST(i < f.n_pending);	/* Only what is in flight. */
	if (take(&f.in, 2))
		answer(i);
}

static void card_cancel(void *arg, struct weir_job *job)
{
	(void)arg;
	cancel_of(job, NULL);
}

static void card_flush(void *arg)
{
	(void)arg;
	if (f.n_pending && take(&f.in, 2))
		answer(take(&f.in, f.n_pending));
}

static uint64_t check_side(const struct weir_domain_side *side)
{
	uint64_t sum = 0;
	uint32_t i;

	for (i = 0; i < side->n_iov; i++) {
		sum += side->iov[i].iov_len;
		if (side->domain != f.store)
			MUST(is_ours(side->iov[i].iov_base,
				     side->iov[i].iov_len));
	}
	return sum;
}

static int store_move(struct weir_domain *domain, struct weir_reactor *r,
		      struct weir_op *op, const struct weir_domain_move *move)
{
	struct pending p = { .op = op, .len = check_side(&move->dst) };
	int err = take_refusal();

	(void)domain, (void)r;
	MUST(!move->src.n_iov || check_side(&move->src) == p.len);
	if (move->src.domain != f.store)
		touches(&p, move->src.iov, move->src.n_iov);
	if (move->dst.domain != f.store)
		touches(&p, move->dst.iov, move->dst.n_iov);
	if (!err)
		keep(p);
	return err;
}

static void store_cancel(struct weir_domain *domain, struct weir_op *op)
{
	(void)domain;
	cancel_of(NULL, op);
}

/* Where it says that bytes are they may be touched: so it is the store's
 * memory, or so much nonsense that it has to be refused. */
static int store_translate(struct weir_domain *src, void *src_ctx,
			   struct weir_domain *dst, void *dst_ctx,
			   uint64_t addr, size_t len,
			   struct weir_translation *ret)
{
	static struct iovec iov[2];
	int err = take_refusal();

	(void)src, (void)src_ctx, (void)dst, (void)dst_ctx, (void)addr;
	if (err)
		return err;
	f.translations++;
	ret->domain = take(&f.in, 8) ? weir_domain_system() : NULL;
	ret->iov.iov_base = take(&f.in, 8) ? f.memory : NULL;
	ret->iov.iov_len = len;
	ret->n_iov = 1;
	switch (take(&f.in, 6)) {
	case 0:
		ret->iov.iov_len = take_rubbish(&f.in, len);
		break;
	case 1:	/* The sum is right, but for what went over. */
		iov[0] = (struct iovec){ f.memory, SIZE_MAX - 10 };
		iov[1] = (struct iovec){ f.memory, len + 11 };
		ret->iovs = iov;
		ret->n_iov = 2;
		break;
	case 2:
		ret->n_iov = (uint32_t)take_rubbish(&f.in, 1);
		break;
	case 3:	/* To the end of all addresses, and over. */
		ret->iov.iov_base = (void *)(UINTPTR_MAX - len / 2);
		break;
	}
	return 0;
}

static void store_invalidate(struct weir_domain *domain, void *ctx,
			     const struct weir_translation *t)
{
	(void)domain, (void)ctx, (void)t;
	f.translations--;
	MUST(f.translations >= 0);
}

/* Nothing that is in flight may touch memory of what has ended. */
static void check_let_go(const struct work *w)
{
	const struct pending *p;
	const char *at;
	uint32_t i, j;

	for (p = f.pending; p < f.pending + f.n_pending; p++)
		for (i = 0; i < p->n_touches; i++)
			for (j = 0; j < 3; j++) {
				at = p->touches[i].iov_base;
				MUST(at + p->touches[i].iov_len <= w->mem[j] ||
				     at >= w->mem[j] + w->len);
			}
}

static void done(struct weir_op *op, int64_t res)
{
	struct work *w = weir_container_of(op, struct work, job.op);
	struct weir_op_detail detail;

	w->calls++;
	MUST(w->calls == w->started);
	check_let_go(w);
	MUST(res >= -4095 && res <= (int64_t)w->len);
	MUST(!weir_op_get_detail(op, &detail));
	MUST(detail.bytes <= w->len);
	MUST(res < 0 || (uint64_t)res == detail.bytes);
	if (res >= 0 && w->job.kind != WEIR_JOB_COMPARE &&
	    !(w->job.flags & WEIR_JOB_SHORT_OK))
		MUST(res == (int64_t)w->len);
}

static char *guarded(size_t len)
{
	char *p = malloc(len + 2 * GUARD);

	MUST(p);
	memset(p, GUARD_BYTE, len + 2 * GUARD);
	memset(p + GUARD, 'a', len);
	return p + GUARD;
}

static void free_guarded(char *p, size_t len)
{
	size_t i;

	for (i = 0; i < GUARD; i++)
		MUST(p[-1 - (ptrdiff_t)i] == GUARD_BYTE &&
		     p[len + i] == GUARD_BYTE);
	free(p - GUARD);
}

static void release(struct work *w)
{
	int i;

	for (i = 0; i < 3 && w->mem[i]; i++) {
		free_guarded(w->mem[i], w->len);
		w->mem[i] = NULL;
	}
}

static struct weir_operand place(struct work *w, int which)
{
	if (take(&f.in, 2))
		return weir_operand_mem(w->mem[which], w->len);
	return weir_operand_at(f.store, take(&f.in, 100), w->len);
}

static void begin_job(struct work *w)
{
	int i;

	if (w->calls != w->started)
		return;
	release(w);
	w->len = 1 + take_u64(&f.in) % LEN_MAX;
	for (i = 0; i < 3; i++)
		w->mem[i] = guarded(w->len);
	weir_job_init(&w->job, done);
	weir_job_copy(&w->job, place(w, 0), place(w, 1));
	w->job.kind = 1 + take(&f.in, 9);
	w->job.flags = take(&f.in, 8) << 1;
	if (w->job.kind == WEIR_JOB_DUALCAST || w->job.kind == WEIR_JOB_XOR) {
		w->more = place(w, 2);
		w->job.more = &w->more;
		w->job.n_extra = 1;
	}
	if (!weir_job_start(f.dma, &w->job))
		w->started++;
}

static bool all_done(void)
{
	unsigned int i;

	for (i = 0; i < JOBS; i++)
		if (f.work[i].calls != f.work[i].started)
			return false;
	return true;
}

static void step(void)
{
	struct work *w = &f.work[take(&f.in, JOBS)];

	switch (take(&f.in, 8)) {
	case 0:
	case 1:
		begin_job(w);
		break;
	case 2:
		if (w->calls != w->started)
			weir_op_cancel(&w->job.op);
		break;
	case 3:
	case 4:
		if (f.n_pending)
			answer(take(&f.in, f.n_pending));
		break;
	case 5:
		weir_dma_flush(f.dma);
		break;
	default:
		MUST(weir_reactor_turn(f.r, 0) >= 0);
	}
}

/* Progress once faults stop.  A cancelled job may end before its device has let
 * go of the staging. */
static void drain(void)
{
	unsigned int i;

	f.orderly = true;
	for (i = 0; i < 100000 && !(all_done() && !f.n_pending); i++) {
		if (f.n_pending)
			answer(f.n_pending - 1);
		MUST(weir_reactor_turn(f.r, 0) >= 0);
	}
	MUST(all_done() && !f.n_pending);
	for (i = 0; i < 8; i++)
		MUST(weir_reactor_turn(f.r, 0) >= 0);
}

static void begin(void)
{
	static const struct weir_engine_ops card = {
		.size = sizeof(card), .name = "card", .can = card_can,
		.start = card_start, .cancel = card_cancel,
		.flush = card_flush,
	};
	struct weir_domain_opts domain = {
		.size = sizeof(domain), .kind = WEIR_DOMAIN_USER,
	};
	struct weir_dma_opts dma = {
		.size = sizeof(dma), .staging_bufs = 2, .staging_size = 4096,
		.jobs_max = 8, .turn_bytes = 4096,
	};
	uint32_t has = take(&f.in, 64);

	/* One for all inputs: it costs more than they do. */
	if (!f.r)
		MUST(!weir_reactor_create(&f.r, NULL));
	MUST(!weir_dma_create(&f.dma, f.r, &dma));
	MUST(!weir_domain_create(&f.store, &domain));
	MUST(!weir_domain_set_pull(f.store, has & 1 ? NULL : store_move));
	MUST(!weir_domain_set_push(f.store, has & 2 ? NULL : store_move));
	MUST(!weir_domain_set_transfer(f.store,
				       has & 4 ? store_move : NULL));
	MUST(!weir_domain_set_fill(f.store, has & 4 ? store_move : NULL));
	MUST(!weir_domain_set_cancel(f.store, store_cancel));
	if (has & 8) {
		MUST(!weir_domain_set_translate(f.store,
						store_translate));
		MUST(!weir_domain_set_invalidate(f.store,
						 store_invalidate));
	}
	if (has & 16)
		MUST(!weir_dma_add_engine(f.dma, &card, NULL));
	MUST(!weir_dma_start(f.dma));
}

static void end(void)
{
	unsigned int i;

	drain();
	MUST(!weir_dma_destroy(f.dma));
	MUST(!weir_domain_destroy(f.store));
	MUST(!f.translations);
	for (i = 0; i < JOBS; i++)
		release(&f.work[i]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	f.in = (struct input){ data, data + size };
	memset(f.work, 0, sizeof(f.work));
	f.orderly = false;
	begin();
	while (f.in.p < f.in.end)
		step();
	end();
	return 0;
}
