/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Scenario: pools of one shared pool under contention.  Buffers are taken,
 * waited for, written to, handed to other reactors and put there.  Descriptors
 * are taken from an inventory for ranges around the ends of its memory.
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <weir/domain.h>
#include <weir/inventory.h>
#include <weir/mmap.h>
#include <weir/pool.h>
#include <weir/shared-pool.h>

#include "sim-fixture.h"

#define REACTORS 4
#define HELD 12		/* Buffers that a core has at most, */
#define WAITS 4		/* and waits for. */
#define RANGE 4096	/* Bytes of the inventory's memory, */
#define BUFS 4		/* and its bufs. */

static const size_t sizes[] = { 512, 2048 };

/* A buffer, and what its holder has written to it. */
struct held {
	struct weir_buf *buf;
	struct core *from;	/* Whose pool it is of. */
	uint64_t stamp;
	size_t len;
};

struct core {
	struct program *program;
	struct weir_pool *pool;
	struct weir_inventory *inventory;
	struct weir_reactor *r;
	uint32_t cache;		/* Buffers of a size that it keeps at most. */
	uint32_t waiters_max;	/* 0: any number. */
	bool attached;		/* The mmap, to its inventory. */
	struct weir_buf *kept;	/* A buf of the mmap, or NULL. */
	struct held held[HELD];
	struct task waits[WAITS];
	unsigned int wait_class[WAITS];	/* Index of its size. */
};

struct program {
	struct run *run;
	struct weir_shared_pool *shared_pool;
	struct weir_mmap *mmap;
	struct core cores[REACTORS];
	uint32_t bufs[2];	/* Of each size. */
	struct task stop;	/* Of the mmap, */
	bool is_off;		/* which may be stopped. */
	struct task count;	/* Of all buffers. */
	struct weir_shared_pool_count counted;
	uint64_t stamps;
	uint64_t out, travelling;
	char range[RANGE];
};

static void act(struct core *c);

static void hold(struct core *c, struct held *h, struct weir_buf *buf)
{
	struct program *p = c->program;

	h->buf = buf;
	h->from = c;
	h->stamp = ++p->stamps;
	h->len = weir_buf_len(buf);
	pattern_fill(weir_buf_addr(buf), h->len, h->stamp, 0);
}

static void check_held(struct core *c, const struct held *h)
{
	must(pattern_is(c->program->run, weir_buf_addr(h->buf), h->len,
			h->stamp, 0),
	     "a buffer is its holder's alone", "stamp %llu",
	     (unsigned long long)h->stamp);
}

static void put(struct core *c, struct held *h)
{
	check_held(c, h);
	weir_buf_put(h->buf);
	h->buf = NULL;
	c->program->out--;
}

static struct held *a_place(struct core *c)
{
	for (unsigned int i = 0; i < HELD; i++)
		if (!c->held[i].buf)
			return &c->held[i];
	return NULL;
}

static void get_one(struct core *c)
{
	struct held *h = a_place(c);
	struct weir_buf *buf;
	int err;

	if (!h)
		return;
	err = weir_pool_get_sized(&buf, c->pool,
				  1 + rnd(c->program->run, 2048));
	must(!err || err == -EAGAIN, "a get is refused for a reason", "%d",
	     err);
	if (err)
		return;
	c->program->out++;
	hold(c, h, buf);
}

/* All or none, of one size. */
static void get_some(struct core *c)
{
	struct weir_buf *bufs[HELD];
	uint32_t places = 0, n;
	int err;

	for (uint32_t i = 0; i < HELD; i++)
		places += !c->held[i].buf;
	if (!places)
		return;
	n = 1 + rnd(c->program->run, places);
	err = weir_pool_get_bulk(bufs, c->pool, 1 + rnd(c->program->run, 2048),
				 n);
	must(!err || err == -EAGAIN, "a get is refused for a reason", "%d",
	     err);
	for (uint32_t i = 0; !err && i < n; i++) {
		must(weir_buf_len(bufs[i]) == weir_buf_len(bufs[0]),
		     "a bulk is of one size", "%zu, %zu",
		     weir_buf_len(bufs[i]), weir_buf_len(bufs[0]));
		c->program->out++;
		hold(c, a_place(c), bufs[i]);
	}
}

static struct held *some_held(struct core *c)
{
	struct held *h = &c->held[rnd(c->program->run, HELD)];

	return h->buf ? h : NULL;
}

static void put_one(struct core *c)
{
	struct held *h = some_held(c);

	if (h)
		put(c, h);
}

static void wait_end(struct task *task, int64_t res)
{
	struct core *c = task->op.data;
	struct weir_buf *buf;
	struct held *h;

	must(res > 0 || task_was_ended(task, res),
	     "a result that is documented", "a wait: %lld", (long long)res);
	if (res > 0) {
		buf = weir_pool_taken(&task->op);
		must(buf && (size_t)res == weir_buf_len(buf),
		     "a wait brings a buffer of its size", "%lld",
		     (long long)res);
		c->program->out++;
		h = a_place(c);
		if (h) {
			hold(c, h, buf);
		} else {
			weir_buf_put(buf);
			c->program->out--;
		}
	}
	act(c);
}

static void wait_one(struct core *c)
{
	struct run *run = c->program->run;
	struct weir_pool_stats s = { .size = sizeof(s) };
	unsigned int i = rnd(run, WAITS);
	struct task *task = &c->waits[i];
	size_t size;
	int err;

	if (task->is_under_way) {
		if (one_in(run, 2))
			task_cancel(task);
		else
			task_deadline(task, rnd(run, 100000));
		return;
	}
	task_init(task, run, "wait", wait_end);
	task->op.data = c;
	task->ends_at_once = true;
	size = 1 + rnd(run, 2048);
	c->wait_class[i] = size > sizes[0];
	err = weir_pool_wait_sized(c->pool, &task->op, size);
	must(!err || err == -EAGAIN, "a wait is refused for a reason", "%d",
	     err);
	if (!task_began(task, err))
		return;
	must(!weir_pool_stats(c->pool, &s) &&
	     (!c->waiters_max || s.waiting <= c->waiters_max),
	     "no more wait than may", "%llu of %u",
	     (unsigned long long)s.waiting, c->waiters_max);
}

/* A pool with buffers out, or with a waiter, cannot be destroyed. */
static void misuse(struct core *c)
{
	bool used = false;

	/* A cancelled wait may have ended, with its callback due. */
	for (unsigned int i = 0; i < WAITS; i++)
		used |= c->waits[i].is_under_way &&
			!c->waits[i].may_be_cancelled &&
			!c->waits[i].has_deadline;
	for (unsigned int i = 0; i < HELD; i++)
		used |= c->held[i].buf &&
			c->held[i].from == c;
	if (used)
		must(weir_pool_destroy(c->pool) == -EBUSY,
		     "what is in use is busy", "a pool");
}

static void check_cache(struct core *c)
{
	struct weir_pool_stats s = { .size = sizeof(s) };

	must(!weir_pool_stats(c->pool, &s) && s.free <= 2 * c->cache,
	     "a pool keeps no more than it may", "%llu of 2 sizes, %u of each",
	     (unsigned long long)s.free, c->cache);
}

/* Send it to another reactor, which keeps it or puts it there. */
struct parcel {
	struct core *to;
	struct held held;
};

static void on_parcel(void *arg)
{
	struct parcel *parcel = arg;
	struct core *c = parcel->to;
	struct held *h = one_in(c->program->run, 2) ? a_place(c) : NULL;

	c->program->travelling--;
	if (h)
		*h = parcel->held;
	else
		put(c, &parcel->held);
	free(parcel);
	act(c);
}

static void send_one(struct core *c)
{
	struct program *p = c->program;
	struct held *h = some_held(c);
	struct parcel *parcel;

	if (!h)
		return;
	parcel = malloc(sizeof(*parcel));
	if (!parcel)
		return;
	parcel->to = &p->cores[rnd(p->run, p->run->n_reactors)];
	parcel->held = *h;
	if (weir_post(parcel->to->r, on_parcel, parcel)) {
		free(parcel);
		return;
	}
	h->buf = NULL;
	p->travelling++;
}

/* The owner of the mmap stops and starts it, whichever reactors have it
 * attached. */

static void start_again(struct program *p)
{
	int err = weir_mmap_start(p->mmap);

	must(!err || p->run->trial->faults, "nothing fails without a cause",
	     "a start: %d: %s", err, weir_why());
	p->is_off = err;
}

static void attach(struct core *c)
{
	int err = weir_inventory_attach(c->inventory, c->program->mmap);

	must(!err || c->program->run->trial->faults,
	     "nothing fails without a cause", "an attach: %d: %s", err,
	     weir_why());
	c->attached = !err;
}

static bool keeps_any(const struct program *p)
{
	for (unsigned int i = 0; i < p->run->n_reactors; i++)
		if (p->cores[i].kept)
			return true;
	return false;
}

static void stop_end(struct task *task, int64_t res)
{
	struct program *p = task->op.data;

	must(!res || task_was_ended(task, res) || res == -EBUSY,
	     "a result that is documented", "a stop: %lld", (long long)res);
	must(res || !keeps_any(p), "what has a buf out is not stopped", "any");
	must((weir_mmap_state(p->mmap) == WEIR_MMAP_STARTED) == !!res,
	     "what was stopped is so, or as it was", "%lld: %d",
	     (long long)res, weir_mmap_state(p->mmap));
	p->is_off = !res;
	for (unsigned int i = 0; !res && i < p->run->n_reactors; i++)
		p->cores[i].attached = false;
}

static void touch_mmap(struct core *c)
{
	struct program *p = c->program;
	struct weir_op op;
	int err;

	if (p->stop.is_under_way) {
		if (weir_mmap_state(p->mmap) == WEIR_MMAP_STOPPING) {
			weir_op_init(&op, p->stop.op.fn);
			must(weir_mmap_stop(p->mmap, c->r, &op) == -EBUSY,
			     "what is in use is busy", "a stop is in flight");
		}
		task_cancel(&p->stop);
		return;
	}
	if (p->is_off) {
		start_again(p);
		return;
	}
	task_init(&p->stop, p->run, "stop of an mmap", stop_end);
	p->stop.op.data = p;
	err = weir_mmap_stop(p->mmap, c->r, &p->stop.op);
	/* Between turns all buffers have arrived. */
	must(!err || err == -EAGAIN || (err == -EBUSY && keeps_any(p)),
	     "a stop is refused for a reason", "%d: %s", err, weir_why());
	p->is_off = task_began(&p->stop, err);
}

/* The counts of all buffers add up. */

static void count_end(struct task *task, int64_t res)
{
	struct program *p = task->op.data;
	const struct weir_shared_pool_count *n = &p->counted;

	must(res < 0 ? task_was_ended(task, res) :
	     (uint64_t)res == n->total && n->total == p->bufs[0] + p->bufs[1] &&
		     n->total == n->free + n->cached + n->out + n->in_transit,
	     "a count finds each buffer once",
	     "%lld: %llu of %u: %llu, %llu, %llu, %llu", (long long)res,
	     (unsigned long long)n->total, p->bufs[0] + p->bufs[1],
	     (unsigned long long)n->free, (unsigned long long)n->cached,
	     (unsigned long long)n->out, (unsigned long long)n->in_transit);
}

static void count_all(struct core *c)
{
	struct program *p = c->program;
	int err;

	if (p->count.is_under_way) {
		if (p->count.op.reactor == c->r)
			task_cancel(&p->count);
		return;
	}
	task_init(&p->count, p->run, "count", count_end);
	p->count.op.data = p;
	p->counted.size = sizeof(p->counted);
	err = weir_shared_pool_count(p->shared_pool, c->r, &p->count.op,
				     &p->counted);
	must(!err || err == -EAGAIN, "a count is refused for a reason", "%d",
	     err);
	task_began(&p->count, err);
}

/* A range near one of the ends: refused if and only if it goes beyond. */
static void describe_one(struct core *c)
{
	struct program *p = c->program;
	int64_t from = (int64_t)rnd(p->run, 64) - 32;
	int64_t len = 1 + rnd(p->run, 64);
	struct weir_buf *buf;
	int64_t want;
	int err;

	weir_buf_put(c->kept);
	c->kept = NULL;
	if (p->is_off)
		return;
	if (!c->attached)
		attach(c);
	if (!c->attached)
		return;
	if (one_in(p->run, 2))
		from += RANGE - 32;
	want = from >= 0 && from + len <= RANGE ? 0 : -ERANGE;
	err = weir_inventory_get(&buf, c->inventory, p->mmap,
				 (void *)((uintptr_t)p->range +
					  (uintptr_t)from),
				 (size_t)len, NULL, 0);
	must(err == want, "a range inside is taken, one beyond is not",
	     "[%lld, %lld) of %d: %d", (long long)from,
	     (long long)(from + len), RANGE, err);
	if (!err && one_in(p->run, 2))
		c->kept = buf;
	else if (!err)
		weir_buf_put(buf);
}

static void act_once(void *actor)
{
	struct core *c = actor;

	check_cache(c);
	if (c == c->program->cores && one_in(c->program->run, 30))
		touch_mmap(c);
	if (one_in(c->program->run, 40))
		count_all(c);
	switch (rnd(c->program->run, 10)) {
	case 0:
	case 1:
		get_one(c);
		break;
	case 7:
		get_some(c);
		break;
	case 8:
		misuse(c);
		break;
	case 2:
	case 3:
		put_one(c);
		break;
	case 4:
	case 5:
		wait_one(c);
		break;
	case 6:
		send_one(c);
		break;
	default:
		describe_one(c);
	}
}

static void act(struct core *c)
{
	struct run *run = c->program->run;

	act_often(run, 1 + rnd(run, 3), act_once, c);
}

static void set_up_core(struct program *p, struct core *c,
			struct weir_reactor *r)
{
	struct weir_pool_opts opts = { .size = sizeof(opts) };
	struct weir_inventory_opts inv = { .size = sizeof(inv), .bufs = BUFS };
	int err;

	c->program = p;
	c->r = r;
	opts.shared_pool = p->shared_pool;
	if (one_in(p->run, 4))
		opts.flags = WEIR_POOL_NO_CACHE;
	else
		opts.cache = 1 + rnd(p->run, 4);
	opts.waiters_max = one_in(p->run, 4) ? 1 + rnd(p->run, 3) : 0;
	c->cache = opts.cache;
	c->waiters_max = opts.waiters_max;
	err = weir_pool_create(&c->pool, r, &opts);
	must(!err, "a pool can be made", "%d: %s", err, weir_why());
	err = weir_inventory_create(&c->inventory, r, &inv);
	if (!err)
		err = weir_inventory_attach(c->inventory, p->mmap);
	must(!err, "an inventory can be made", "%d: %s", err, weir_why());
	c->attached = true;
}

static void set_up(struct program *p)
{
	uint32_t small = 4 + rnd(p->run, 12), large = 4 + rnd(p->run, 6);
	struct weir_shared_pool_class classes[2] = {
		{ .buf_size = sizes[0], .bufs = small },
		{ .buf_size = sizes[1], .bufs = large },
	};
	struct weir_shared_pool_opts opts = {
		.size = sizeof(opts),
		.classes = classes,
		.n_classes = 2,
		.flags = WEIR_SHARED_POOL_NO_HUGE,
	};
	int err = weir_shared_pool_create(&p->shared_pool, &opts);

	must(!err, "a shared pool can be made", "%d: %s", err, weir_why());
	p->bufs[0] = small;
	p->bufs[1] = large;
	err = weir_mmap_create(&p->mmap, weir_domain_system());
	if (!err)
		err = weir_mmap_set_memrange(p->mmap, p->range, RANGE);
	if (!err)
		err = weir_mmap_start(p->mmap);
	must(!err, "an mmap can be made", "%d: %s", err, weir_why());
	make_reactors(p->run, 1 + rnd(p->run, REACTORS));
	for (unsigned int i = 0; i < p->run->n_reactors; i++)
		set_up_core(p, &p->cores[i], p->run->reactors[i]);
}

/* Nothing else will happen by itself, so no operation waits for a buffer that
 * is not out. */
static void check_waiters(struct program *p)
{
	uint32_t out[2] = { 0, 0 };
	bool waits[2] = { false, false };

	for (unsigned int i = 0; i < p->run->n_reactors; i++) {
		struct core *c = &p->cores[i];

		for (unsigned int j = 0; j < HELD; j++)
			if (c->held[j].buf)
				out[c->held[j].len > sizes[0]]++;
		for (unsigned int j = 0; j < WAITS; j++)
			if (c->waits[j].is_under_way)
				waits[c->wait_class[j]] = true;
	}
	for (unsigned int i = 0; i < 2; i++)
		must(!waits[i] || out[i] == p->bufs[i],
		     "no one waits while a buffer is free anywhere",
		     "%u of %u are out, of %zu bytes", out[i], p->bufs[i],
		     sizes[i]);
}

static void all_end(struct task *task, int64_t res)
{
	uint32_t *n = task->op.data;

	must(res > 0, "all buffers can be had again", "%lld", (long long)res);
	++*n;
}

/* When all buffers are back, each core can get all of them, whichever core has
 * them cached. */
static void take_all(struct program *p)
{
	struct core *c = &p->cores[rnd(p->run, p->run->n_reactors)];
	struct weir_buf *bufs[32];
	uint32_t i = rnd(p->run, 2), n = 0;
	struct task task;

	while (n < p->bufs[i]) {
		uint32_t before = n;

		task_init(&task, p->run, "wait", all_end);
		task.op.data = &n;
		must(task_began(&task, weir_pool_wait_sized(c->pool, &task.op,
							    sizes[i])),
		     "all buffers can be had again", "refused at %u", n);
		(void)weir_sim_run(p->run->sim, WEIR_SEC, 0);
		must(n == before + 1, "all buffers can be had again",
		     "%u of %u", n, p->bufs[i]);
		bufs[before] = weir_pool_taken(&task.op);
	}
	while (n)
		weir_buf_put(bufs[--n]);
	(void)weir_sim_run(p->run->sim, WEIR_SEC, 0);
}

/* An inventory has all its bufs. */
static void check_inventory(struct program *p, struct core *c)
{
	struct weir_buf *bufs[BUFS + 1];
	uint32_t n = 0;

	weir_buf_put(c->kept);
	c->kept = NULL;
	if (p->is_off)
		start_again(p);
	if (!c->attached)
		attach(c);
	must(c->attached, "nothing fails without a cause", "an attach: %s",
	     weir_why());
	while (n <= BUFS && !weir_inventory_get(&bufs[n], c->inventory,
						p->mmap, p->range, 1, NULL, 0))
		n++;
	must(n == BUFS, "a limit is at the end what it was", "%u bufs of %d",
	     n, BUFS);
	while (n)
		weir_buf_put(bufs[--n]);
}

static void put_all(struct program *p)
{
	for (unsigned int i = 0; i < p->run->n_reactors; i++)
		for (unsigned int j = 0; j < HELD; j++)
			if (p->cores[i].held[j].buf)
				put(&p->cores[i], &p->cores[i].held[j]);
}

/* At the end of the run no buffer is kept, so all waiters must be served. */
static bool is_done(struct run *run)
{
	struct program *p = run->program;

	put_all(p);
	return !p->travelling && !p->out;
}

static void check_shared_pool(struct program *p)
{
	struct weir_shared_pool_stats s = { .size = sizeof(s) };

	for (unsigned int i = 0; i < 2; i++) {
		must(!weir_shared_pool_stats(p->shared_pool, sizes[i], &s),
		     "stats", "none");
		must(s.total == s.free + s.held + s.in_transit && !s.waiting &&
		     !s.in_transit, "free, held and in transit are all",
		     "%llu: %llu, %llu, %llu", (unsigned long long)s.total,
		     (unsigned long long)s.free, (unsigned long long)s.held,
		     (unsigned long long)s.in_transit);
	}
}

static void take_down(struct program *p)
{
	int err = 0;

	for (unsigned int i = 0; !err && i < p->run->n_reactors; i++) {
		err = weir_pool_destroy(p->cores[i].pool);
		if (!err)
			err = weir_inventory_destroy(p->cores[i].inventory);
	}
	must(!err, "all is back, so it can be destroyed", "%d: %s", err,
	     weir_why());
	end_reactors(p->run);
	err = weir_shared_pool_destroy(p->shared_pool);
	if (!err)
		err = weir_mmap_destroy(p->mmap);
	must(!err, "the memory is unused", "%d: %s", err, weir_why());
}

static void run_pools(struct weir_sim_trial *trial)
{
	struct run *run = run_begin(trial);
	static struct program p;

	program_begin(run, &p, sizeof(p));
	p.run = run;
	set_up(&p);
	while (run->budget) {
		for (unsigned int i = 0; i < run->n_reactors; i++)
			act(&p.cores[i]);
		if (!weir_sim_run(run->sim, WEIR_MSEC, 1 + rnd(run, 100)))
			check_waiters(&p);
	}
	run_to_end(run, WEIR_SEC, is_done);
	check_shared_pool(&p);
	take_all(&p);
	for (unsigned int i = 0; i < run->n_reactors; i++)
		check_inventory(&p, &p.cores[i]);
	must(!weir_mmap_num_bufs(p.mmap), "a limit is at the end what it was",
	     "%llu bufs of an mmap",
	     (unsigned long long)weir_mmap_num_bufs(p.mmap));
	check_shared_pool(&p);
	take_down(&p);
}

const struct weir_sim_scenario scenario_pools = {
	.size = sizeof(scenario_pools),
	.name = "pools",
	.what = "pools of one shared pool under contention, and bufs on the move",
	.run = run_pools,
	.faults = WEIR_SIM_ALL_FAULTS,
	.ops = 300,
};
