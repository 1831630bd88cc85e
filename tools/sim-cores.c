/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Scenario: messages between cores.  Reactors, alone or of a group, call and
 * post to each other, wait for capacity when they are refused, and signal and
 * wait for sync events, some of which are in memory that others may share.  In
 * the end a group is stopped, sometimes in the middle of all that.
 */

#include <errno.h>
#include <string.h>

#include <weir/call.h>
#include <weir/domain.h>
#include <weir/group.h>
#include <weir/mmap.h>
#include <weir/sync.h>

#include "sim-fixture.h"

#define CORES 4
#define MESSAGES 12	/* Of each core, in flight; */
#define CAPACITY 6	/* its waits for capacity, */
#define WAITS 6		/* and for sync events, */
#define SYNCS 5		/* of which there are so many, */
#define SHARED 2	/* and so many of these in an mmap. */

struct core;

/* A call or a post; a slot has one at a time. */
struct message {
	struct task task;	/* Of a call. */
	struct core *from, *to;
	uint64_t number;	/* Of those from one to the other. */
	bool is_post, is_out, has_run;
	bool is_counted;	/* Among those in the receiver's mailbox. */
	int64_t answer;
	struct due run;
};

/* A wait for capacity of a receiver. */
struct capacity {
	struct task task;
	struct core *to;
	uint32_t least;		/* Messages that were in its mailbox since. */
};

struct wait {
	struct task task;
	struct sync *sync;
	uint64_t want;
	bool met;		/* So its end may be 0. */
};

/* The value only grows, so every waiter sees it. */
struct sync {
	struct weir_sync *sync;	/* NULL: none. */
	bool is_shared;
	uint64_t value;
};

struct core {
	struct program *program;
	struct weir_reactor *r;
	unsigned int id;
	struct message messages[MESSAGES];
	struct capacity capacity[CAPACITY];
	struct wait waits[WAITS];
	uint32_t in_mailbox;	/* At least so many, if it is of no group. */
	uint64_t refused;	/* Starts. */
	uint64_t sent[CORES], seen[CORES]; /* Numbers of the last messages. */
};

struct program {
	struct run *run;
	struct weir_group *group;	/* NULL: reactors without one. */
	struct weir_mmap *mmap;
	struct core cores[CORES];
	struct sync syncs[SYNCS];
	uint32_t posts;			/* In flight. */
	bool stopping;
	uint64_t shared[SYNCS * 8];	/* 64 bytes each. */
};

static void act(struct core *c);

/* Messages. */

/* It is no longer in the mailbox, or may not be. */
static void uncount(struct message *m)
{
	struct program *p = m->to->program;

	if (!m->is_counted)
		return;
	m->is_counted = false;
	m->to->in_mailbox--;
	for (unsigned int i = 0; i < p->run->n_reactors; i++)
		for (unsigned int j = 0; j < CAPACITY; j++) {
			struct capacity *w = &p->cores[i].capacity[j];

			if (w->to == m->to && w->least > w->to->in_mailbox)
				w->least = w->to->in_mailbox;
		}
}

static int64_t message_run(struct message *m)
{
	struct core *to = m->to;
	struct run *run = to->program->run;

	must(m->is_out && !m->has_run, "a message is run once, if at all",
	     "%llu from %u to %u", (unsigned long long)m->number, m->from->id,
	     to->id);
	must(m->number > to->seen[m->from->id],
	     "messages come in the order in which they were sent",
	     "%llu, after %llu, from %u to %u", (unsigned long long)m->number,
	     (unsigned long long)to->seen[m->from->id], m->from->id, to->id);
	due_met(run, &m->run, to->r, 1, m->is_post ? "post" : "call");
	uncount(m);
	to->seen[m->from->id] = m->number;
	m->has_run = true;
	m->answer = one_in(run, 8) ? -EDOM : (int64_t)rnd(run, 1000);
	return m->answer;
}

static int64_t on_call(void *arg)
{
	struct message *m = arg;
	struct core *to = m->to;
	int64_t answer = message_run(m);

	/* The caller is notified in its own next turn. */
	due_set(to->program->run, &m->task.due, m->from->r, 0);
	act(to);
	return answer;
}

static void on_post(void *arg)
{
	struct message *m = arg;
	struct core *to = m->to;

	(void)message_run(m);
	m->is_out = false;
	to->program->posts--;
	act(to);
}

static void call_end(struct task *task, int64_t res)
{
	struct message *m = weir_container_of(task, struct message, task);

	must(m->has_run ? res == m->answer :
	     task_was_ended(task, res) ||
		     (res == -ESHUTDOWN && task->run->ending),
	     "a call has the result of its function, or was not run",
	     "%lld, from %u to %u", (long long)res, m->from->id, m->to->id);
	uncount(m);
	m->is_out = false;
	act(m->from);
}

static void capacity_end(struct task *task, int64_t res)
{
	struct capacity *w = weir_container_of(task, struct capacity, task);
	struct core *c = task->op.data;
	uint32_t size = c->program->run->mailbox[w->to->id];

	must(!res || task_was_ended(task, res) ||
	     (res == -ESHUTDOWN && c->program->stopping),
	     "a result that is documented", "a wait for capacity: %lld",
	     (long long)res);
	must(res || !size || c->program->group || w->least <= size / 2,
	     "there is capacity when half of the way is free",
	     "%u of %u were the least in it", w->least, size);
	w->to = NULL;
	act(c);
}

static void wait_for_capacity(struct core *c, struct core *to)
{
	struct run *run = c->program->run;
	struct capacity *w = &c->capacity[rnd(run, CAPACITY)];
	int err;

	if (w->task.is_under_way)
		return;
	task_init(&w->task, run, "wait for capacity", capacity_end);
	w->task.op.data = c;
	w->to = to;
	w->least = to->in_mailbox;
	err = weir_capacity_wait(c->r, &w->task.op, to->r);
	must(!err || err == -EAGAIN ||
	     (err == -ESHUTDOWN && c->program->stopping),
	     "a wait is refused for a reason", "%d", err);
	c->refused += err == -EAGAIN;
	if (task_began(&w->task, err))
		w->task.may_be_cancelled = c->program->stopping;
}

static void send_one(struct core *c)
{
	struct run *run = c->program->run;
	struct message *m = &c->messages[rnd(run, MESSAGES)];
	struct core *to = &c->program->cores[rnd(run, run->n_reactors)];
	int err;

	if (m->is_out)
		return;
	m->from = c;
	m->to = to;
	m->is_post = one_in(run, 2);
	m->number = c->sent[to->id] + 1;
	m->has_run = false;
	task_init(&m->task, run, "call", call_end);
	due_set(run, &m->run, to->r, 0);
	err = m->is_post ? weir_post(to->r, on_post, m) :
			   weir_call(c->r, &m->task.op, to->r, on_call, m);
	must(!err || err == -EAGAIN ||
	     (err == -ESHUTDOWN && c->program->stopping),
	     "a message is refused for a reason", "%d", err);
	c->refused += err == -EAGAIN && !m->is_post;
	if (err == -EAGAIN && !one_in(run, 4))
		wait_for_capacity(c, to);
	if (err)
		return;
	c->sent[to->id]++;
	m->is_out = m->is_counted = true;
	to->in_mailbox++;
	if (m->is_post)
		c->program->posts++;
	else if (task_began(&m->task, 0))
		m->task.may_be_cancelled = c->program->stopping;
}

static void disturb(struct core *c, struct task *task)
{
	if (!task->is_under_way)
		return;
	if (one_in(c->program->run, 2))
		task_cancel(task);
	else
		task_deadline(task, rnd(c->program->run, 100000));
}

/* A cancelled call may still run. */
static void disturb_call(struct core *c, struct message *m)
{
	if (m->task.is_under_way)
		uncount(m);
	disturb(c, &m->task);
}

/* Sync events. */

static void wait_end(struct task *task, int64_t res)
{
	struct wait *w = weir_container_of(task, struct wait, task);
	struct core *c = task->op.data;

	must(res ? task_was_ended(task, res) : w->met,
	     "a wait ends when its condition holds",
	     "%lld, for %llu", (long long)res, (unsigned long long)w->want);
	act(c);
}

/* Notify those that wait for @sync.  A reactor that polls shared memory notices
 * later. */
static void tell(struct program *p, struct sync *sync)
{
	for (unsigned int i = 0; i < p->run->n_reactors; i++)
		for (unsigned int j = 0; j < WAITS; j++) {
			struct wait *w = &p->cores[i].waits[j];

			if (!w->task.is_under_way || w->sync != sync || w->met)
				continue;
			w->met = sync->value >= w->want;
			if (w->met && !sync->is_shared)
				due_set(p->run, &w->task.due,
					p->cores[i].r, 0);
		}
}

static void sync_make(struct program *p, struct sync *sync)
{
	uint64_t off = (uint64_t)(sync - p->syncs) * 64;
	struct weir_sync_opts opts = { .size = sizeof(opts) };
	int err;

	sync->is_shared = sync - p->syncs < SHARED;
	sync->value = opts.value = rnd(p->run, 10);
	err = sync->is_shared ?
		      weir_sync_create_in(&sync->sync, p->mmap, off, &opts) :
		      weir_sync_create(&sync->sync, &opts);
	must(!err || p->run->trial->faults, "nothing fails without a cause",
	     "a sync event: %d: %s", err, weir_why());
	if (err)
		sync->sync = NULL;
}

static void sync_unmake(struct program *p, struct sync *sync)
{
	bool pending = false, waiting = false;
	int err;

	for (unsigned int i = 0; i < p->run->n_reactors; i++)
		for (unsigned int j = 0; j < WAITS; j++) {
			struct wait *w = &p->cores[i].waits[j];

			if (!w->task.is_under_way || w->sync != sync)
				continue;
			/* It may have ended, with its callback due. */
			pending = true;
			waiting |= !w->met && !w->task.may_be_cancelled &&
				   !w->task.has_deadline;
		}

	if (sync->is_shared)
		must(weir_mmap_stop(p->mmap, NULL, NULL) == -EBUSY,
		     "what is in use is busy", "an mmap with sync events");
	err = weir_sync_destroy(sync->sync);
	must(!err || (err == -EBUSY && pending),
	     "a sync event that is unused can be destroyed", "%d: %s", err,
	     weir_why());
	must(err || !waiting, "what is in use is busy", "a sync event");
	if (!err)
		sync->sync = NULL;
}

static void sync_signal(struct program *p, struct sync *sync, uint64_t n)
{
	uint64_t old = 0, value = 0;
	int err = weir_sync_add(sync->sync, n, &old);

	must(!err && old == sync->value, "a sync event has its value",
	     "%d, %llu and not %llu", err, (unsigned long long)old,
	     (unsigned long long)sync->value);
	sync->value += n;
	must(!weir_sync_get(sync->sync, &value) && value == sync->value,
	     "a sync event has its value", "%llu and not %llu",
	     (unsigned long long)value, (unsigned long long)sync->value);
	tell(p, sync);
}

static void wait_one(struct core *c)
{
	struct run *run = c->program->run;
	struct wait *w = &c->waits[rnd(run, WAITS)];
	struct sync *sync = &c->program->syncs[rnd(run, SYNCS)];
	int err;

	if (w->task.is_under_way) {
		disturb(c, &w->task);
		return;
	}
	if (!sync->sync)
		return;
	task_init(&w->task, run, "wait", wait_end);
	w->task.op.data = c;
	w->task.ends_at_once = true;
	w->sync = sync;
	w->want = sync->value + rnd(run, 20);
	w->met = false;
	err = weir_sync_wait(sync->sync, c->r, &w->task.op, WEIR_SYNC_GE,
			     w->want, WEIR_SYNC_ALL);
	must(!err || err == -EAGAIN ||
	     (err == -ESHUTDOWN && c->program->stopping),
	     "a wait is refused for a reason", "%d", err);
	c->refused += err == -EAGAIN;
	if (!task_began(&w->task, err))
		return;
	w->task.may_be_cancelled = c->program->stopping;
	tell(c->program, sync);
}

/* Try a place that is not allowed. */
static void misplace_sync(struct program *p)
{
	uint64_t end = sizeof(p->shared);
	struct weir_sync *sync;
	int err = weir_sync_create_in(&sync, p->mmap, 8 * SHARED * 8 + 4, NULL);

	must(err == -EINVAL, "an unaligned place is refused", "%d", err);
	err = weir_sync_create_in(&sync, p->mmap, end - WEIR_SYNC_LEN + 8 *
				  (1 + rnd(p->run, 5)), NULL);
	must(err == -ERANGE, "a range inside is taken, one beyond is not",
	     "%d", err);
}

static void never(void *addr, size_t len, void *arg)
{
	(void)arg;
	must(false, "memory that was never taken is not given back",
	     "%zu bytes at %p", len, addr);
}

/* An mmap that was never started has no memory to free. */
static void make_no_mmap(struct program *p)
{
	struct weir_mmap *mmap;
	int err = weir_mmap_create(&mmap, weir_domain_system());

	if (err)
		return;
	err = weir_mmap_set_memrange(mmap, p->shared, sizeof(p->shared));
	if (!err)
		err = weir_mmap_set_free_cb(mmap, never, p);
	must(!err, "an mmap can be made", "%d: %s", err, weir_why());
	must(!weir_mmap_destroy(mmap), "the memory is unused", "new");
}

static void touch_sync(struct core *c)
{
	struct program *p = c->program;
	struct sync *sync = &p->syncs[rnd(p->run, SYNCS)];

	if (one_in(p->run, 20)) {
		misplace_sync(p);
		make_no_mmap(p);
	}
	if (!sync->sync)
		sync_make(p, sync);
	else if (one_in(p->run, 10))
		sync_unmake(p, sync);
	else
		sync_signal(p, sync, 1 + rnd(p->run, 10));
}

/* All of it. */

static void act_once(void *actor)
{
	struct core *c = actor;
	struct run *run = c->program->run;

	switch (rnd(run, 8)) {
	case 0:
	case 1:
	case 2:
		send_one(c);
		break;
	case 3:
		disturb_call(c, &c->messages[rnd(run, MESSAGES)]);
		break;
	case 4:
		disturb(c, &c->capacity[rnd(run, CAPACITY)].task);
		break;
	case 5:
		wait_one(c);
		break;
	default:
		touch_sync(c);
	}
}

/* Several actions at once, so that rings and mailboxes become full. */
static void act(struct core *c)
{
	struct run *run = c->program->run;

	act_often(run, one_in(run, 8) ? 20 : 1 + rnd(run, 3), act_once, c);
}

static void act_now(void *arg)
{
	act(arg);
}

/* Each core acts in its own turn, as in a group. */
static void act_all(struct program *p)
{
	for (unsigned int i = 0; i < p->run->n_reactors; i++)
		(void)weir_post(p->cores[i].r, act_now, &p->cores[i]);
}

/* At the end of the run every awaited value comes. */
static bool is_done(struct run *run)
{
	struct program *p = run->program;

	for (unsigned int i = 0; i < SYNCS; i++)
		if (p->syncs[i].sync && run->ending)
			sync_signal(p, &p->syncs[i], 100);
	return !p->posts;
}

static void make_group(struct program *p, uint32_t n)
{
	struct weir_group_opts opts = { .size = sizeof(opts), .n_cores = n };
	struct weir_reactor_opts reactor = { .size = sizeof(reactor) };
	struct run *run = p->run;
	int err;

	reactor.sim = run->sim;
	reactor.turn_max = one_in(run, 2) ? 1 + rnd(run, 20) : 0;
	reactor.ops_max = one_in(run, 4) ? 4 + rnd(run, 30) : 0;
	opts.reactor = &reactor;
	opts.spsc = one_in(run, 2) ? 1u << rnd(run, 5) : 0;
	err = weir_group_create(&p->group, &opts);
	if (!err)
		err = weir_group_start(p->group);
	must(!err, "a group can be started", "%d: %s", err, weir_why());
	for (uint32_t i = 0; i < n; i++) {
		run->reactors[i] = weir_group_reactor(p->group, i);
		run->ops_max[i] = reactor.ops_max;
		run->mailbox[i] = 0;
	}
	run->n_reactors = n;
}

static void set_up(struct program *p)
{
	struct run *run = p->run;
	uint32_t n = 1 + rnd(run, CORES);
	int err = weir_mmap_create(&p->mmap, weir_domain_system());

	if (!err)
		err = weir_mmap_set_permissions(p->mmap, WEIR_MMAP_WRITE);
	if (!err)
		err = weir_mmap_set_memrange(p->mmap, p->shared,
					     sizeof(p->shared));
	if (!err)
		err = weir_mmap_start(p->mmap);
	must(!err, "an mmap can be made", "%d: %s", err, weir_why());
	if (one_in(run, 2))
		make_group(p, n);
	else
		make_reactors(run, n);
	for (uint32_t i = 0; i < n; i++) {
		p->cores[i].program = p;
		p->cores[i].r = run->reactors[i];
		p->cores[i].id = i;
	}
}

/* A stop ends everything in flight, and loses nothing. */
static void stop_group(struct program *p)
{
	struct run *run = p->run;
	int err;

	p->stopping = run->by_hand = true;
	for (unsigned int i = 0; i < run->n_reactors; i++) {
		struct core *c = &p->cores[i];

		for (unsigned int j = 0; j < MESSAGES; j++)
			c->messages[j].task.may_be_cancelled = true;
		for (unsigned int j = 0; j < WAITS; j++)
			c->waits[j].task.may_be_cancelled = true;
		for (unsigned int j = 0; j < CAPACITY; j++)
			c->capacity[j].task.may_be_cancelled = true;
	}
	err = weir_group_stop(p->group);
	if (!err)
		err = weir_group_run(p->group);
	run->by_hand = false;
	must(!err, "a group stops when it is told to", "%d: %s", err,
	     weir_why());
	must(!run->under_way && !p->posts,
	     "a stop loses nothing that was taken",
	     "%llu operations and %u posts", (unsigned long long)run->under_way,
	     p->posts);
	run->n_reactors = 0;
}

static void take_down(struct program *p)
{
	int err = 0;

	if (p->group && p->run->n_reactors)
		stop_group(p);
	else if (!p->group)
		end_reactors(p->run);
	for (unsigned int i = 0; i < SYNCS; i++)
		if (p->syncs[i].sync)
			sync_unmake(p, &p->syncs[i]);
	err = weir_group_destroy(p->group);
	if (!err)
		err = weir_mmap_destroy(p->mmap);
	must(!err, "the memory is unused", "%d: %s", err, weir_why());
}

/* A reactor counts the starts that it refused. */
static void check_refused(struct program *p)
{
	for (unsigned int i = 0; i < p->run->n_reactors; i++) {
		struct weir_reactor_stats s = { .size = sizeof(s) };

		must(!weir_reactor_stats(p->cores[i].r, &s) &&
		     s.refused == p->cores[i].refused,
		     "starts that were refused are counted",
		     "%llu, not %llu", (unsigned long long)s.refused,
		     (unsigned long long)p->cores[i].refused);
	}
}

static void run_cores(struct weir_sim_trial *trial)
{
	struct run *run = run_begin(trial);
	static struct program p;

	program_begin(run, &p, sizeof(p));
	p.run = run;
	set_up(&p);
	for (uint32_t i = 0; run->budget && i < 10 * run->trial->ops; i++) {
		if (one_in(run, 2))
			act_all(&p);
		(void)weir_sim_run(run->sim, WEIR_MSEC, 1 + rnd(run, 60));
	}
	if (p.group && one_in(run, 3))
		stop_group(&p);
	run_to_end(run, WEIR_SEC, is_done);
	check_refused(&p);
	if (run->n_reactors)
		check_rest(run);
	take_down(&p);
}

const struct weir_sim_scenario scenario_cores = {
	.size = sizeof(scenario_cores),
	.name = "cores",
	.what = "calls, posts, waits for capacity and sync events among cores",
	.run = run_cores,
	.faults = WEIR_SIM_ALL_FAULTS,
	.ops = 400,
};
