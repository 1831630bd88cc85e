/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls to reactors: their life, time, posts, calls, io_uring itself. */

#include <linux/io_uring.h>
#include <unistd.h>

#include "tests/fuzz/calls.h"

static struct weir_reactor *other(const struct core *c)
{
	struct core *to = &w.cores[(c->number + 1) % CORES];

	return to->r && rnd(4) ? to->r : c->r;
}

/* Often with limits that are soon reached. */
struct weir_reactor_opts reactor_opts(void)
{
	static const uint32_t limits[] = { 0, 0, 2, 12, 40 };
	struct weir_reactor_opts opts = { .size = sizeof(opts) };

	opts.backend = (uint32_t)w.backend;
	opts.sim = w.sim;
	opts.ops_max = limits[rnd(5)];
	opts.turn_max = rnd(3) ? 0 : 1 + rnd(3);
	opts.mailbox = rnd(3) ? 0 : 1u << rnd(3);
	opts.workers = 2;
	opts.ring_entries = rnd(2) ? 0 : 8;
	opts.rx_bufs = rnd(2) ? 4 : 1;
	opts.rx_buf_size = 256;
	opts.drain_ms = 1;
	opts.hosted = !w.sim && rnd(2);
	return opts;
}

static void call_reactor_create(struct core *c)
{
	struct weir_reactor_opts opts = reactor_opts();
	struct weir_reactor *r;
	uint32_t i;

	c = &w.cores[rnd(CORES)];
	if (CALL(weir_reactor_create, &r, &opts))
		return;
	if (!c->r) {
		c->r = r;
		return;
	}
	/* It may be more than .drain_ms until we run again. */
	for (i = 0; i < 1000 && weir_reactor_destroy(r); i++)
		;
	MUST(i < 1000);
}

/* Of any core, also of one in whose callback this is. */
static void call_reactor_destroy(struct core *c)
{
	c = &w.cores[rnd(CORES)];
	if (c->r && !CALL(weir_reactor_destroy, c->r))
		c->r = NULL;
}

static void call_reactor_turn(struct core *c)
{
	struct weir_reactor *r = other(c);

	(void)CALL(weir_reactor_turn, r, rnd(2) ? 0 : some_span() % 50000);
}

static void call_reactor_run(struct core *c)
{
	struct weir_reactor *r = other(c);

	CALLV(weir_reactor_break, r);
	(void)CALL(weir_reactor_run, r);
}

static void call_reactor_break(struct core *c)
{
	CALLV(weir_reactor_break, other(c));
}

static void call_reactor_stop(struct core *c)
{
	CALLV(weir_reactor_stop, other(c));
}

static void call_reactor_start(struct core *c)
{
	(void)CALL(weir_reactor_start, other(c));
}

static void call_reactor_state(struct core *c)
{
	(void)GOT(weir_reactor_state, c->r);
	MUST(GOT(weir_reactor_is_here, c->r) || w.sim);
}

static void call_reactor_now(struct core *c)
{
	(void)GOT(weir_reactor_now, c->r);
}

static void call_reactor_fd(struct core *c)
{
	(void)CALL(weir_reactor_fd, c->r);
}

static void call_reactor_backend(struct core *c)
{
	MUST(GOT(weir_reactor_backend, c->r));
}

static void call_reactor_describe(struct core *c)
{
	MUST(GOT(weir_reactor_describe, c->r));
}

static void call_reactor_stats(struct core *c)
{
	struct weir_reactor_stats stats = { .size = sizeof(stats) };

	MUST(!CALL(weir_reactor_stats, c->r, &stats));
}

static void call_defer(struct core *c)
{
	struct task *t = task_new(c);

	if (t)
		START(t, weir_defer, c->r, OP(t));
}

static void call_sleep_until(struct core *c)
{
	struct task *t = task_new(c);

	if (t)
		START(t, weir_sleep_until, c->r, OP(t), some_time());
}

static void call_nop(struct core *c)
{
	struct task *t = task_new(c);

	if (t)
		START(t, weir_nop, c->r, OP(t));
}

static int64_t work(void *arg)
{
	MUST(arg == &w);
	return 42;
}

static void call_work(struct core *c)
{
	struct task *t = task_new(c);

	if (t)
		START(t, weir_work, c->r, OP(t), work, &w);
}

static void on_post(void *arg)
{
	MUST(w.posts--);
	free(arg);
	act(NULL);
}

static void call_post(struct core *c)
{
	void *arg = malloc(1);

	MUST(arg);
	w.posts++;
	if (CALL(weir_post, other(c), on_post, arg)) {
		w.posts--;
		free(arg);
	}
}

static int64_t on_call(void *arg)
{
	struct task *t = arg;

	act_task(t);
	return rnd(2) ? 7 : -EPROTO;
}

static void call_call(struct core *c)
{
	struct task *t = task_new(c);

	if (!t)
		return;
	t->any_errno = true;
	START(t, weir_call, c->r, OP(t), other(c), on_call, t);
}

static void call_capacity_wait(struct core *c)
{
	struct task *t = task_new(c);

	if (t)
		START(t, weir_capacity_wait, c->r, OP(t), other(c));
}

/* Operations, whatever has started them. */

static void own_cancel(struct weir_op *op, void *arg)
{
	struct task *t = arg;

	MUST(op == OP(t) && t->in_flight && !t->starting && !t->was_cancelled);
	t->was_cancelled = true;
	act_task(t);
	if (rnd(2))
		(void)CALL(weir_op_finish, op, -ECANCELED);
}

/* @arg is used after act_task(): the task must be there, and is, for only we
 * finish it. */
static void call_op_start(struct core *c)
{
	struct task *t = task_new(c);

	if (!t)
		return;
	t->is_own = true;
	t->any_errno = true;
	START(t, weir_op_start, c->r, OP(t), rnd(3) ? own_cancel : NULL, t);
}

static const struct weir_op_kind own_kind = {
	.size = sizeof(own_kind),
	.name = "own",
	.cancel = own_cancel,
};

/* A library's, which is refused after all now and then. */
static void call_op_begin(struct core *c)
{
	const struct weir_op_detail detail = { rnd(9), 1, 2 };
	struct task *t = task_new(c);
	int64_t err;

	if (!t)
		return;
	t->is_own = true;
	t->any_errno = true;
	task_begins(t, FN(weir_op_begin));
	err = CALL(weir_op_begin, c->r, OP(t), &own_kind, t);
	if (!err) {
		memset(GOT(weir_op_area, OP(t)), 0xee, WEIR_OP_AREA);
		MUST(!CALL(weir_op_set_detail, OP(t), &detail));
		if (!rnd(4))
			err = -ECANCELED;
		MUST(!err || !CALL(weir_op_abandon, OP(t)));
	}
	task_begun(t, err < 0 ? err : 0);
}

static void call_op_finish(struct core *c)
{
	struct task *t = any_task();

	(void)c;
	if (t && !t->starting)
		(void)CALL(weir_op_finish, OP(t), rnd(2) ? 1 : -EPROTO);
}

/* Only those of weir_op_start() take it. */
static void call_op_lend(struct core *c)
{
	struct task *t = any_task();

	(void)c;
	if (t && !t->starting)
		(void)CALL(weir_op_lend, OP(t), t->result, sizeof(t->result),
			   1 + rnd(2));
}

static void call_op_cancel(struct core *c)
{
	struct task *t = any_task();

	(void)c;
	if (t)
		(void)CALL(weir_op_cancel, OP(t));
}

static void call_op_set_deadline(struct core *c)
{
	struct task *t = any_task();

	(void)c;
	if (t)
		(void)CALL(weir_op_set_deadline, OP(t),
			   rnd(3) ? some_time() : rnd(2) * WEIR_FOREVER);
}

static void call_op_get_detail(struct core *c)
{
	struct task *t = w.ended ? w.ended : any_task();
	struct weir_op_detail detail;

	(void)c;
	if (t)
		(void)CALL(weir_op_get_detail, OP(t), &detail);
}

static void call_op_is_busy(struct core *c)
{
	struct task *t = w.ended ? w.ended : any_task();

	(void)c;
	if (t && !t->starting)
		MUST(GOT(weir_op_is_busy, OP(t)) == t->in_flight);
}

static void call_op_is_late(struct core *c)
{
	struct task *t = w.ended ? w.ended : any_task();

	(void)c;
	if (t && !t->starting && t->in_flight)
		MUST(!GOT(weir_op_is_late, OP(t)));
}

/* io_uring. */

static void prep(struct io_uring_sqe *sqe, void *arg)
{
	struct task *t = arg;

	act_task(t);
	sqe->opcode = rnd(2) ? IORING_OP_NOP : IORING_OP_TIMEOUT;
	sqe->fd = -1;
	if (sqe->opcode == IORING_OP_TIMEOUT) {
		memset(t->result, 0, sizeof(struct __kernel_timespec));
		((struct __kernel_timespec *)(void *)t->result)->tv_nsec = 1000;
		sqe->addr = (uintptr_t)t->result;
		sqe->len = 1;
	}
	if (one_in(16))
		sqe->flags = IOSQE_IO_LINK;
}

static void call_uring_submit(struct core *c)
{
	struct task *t = task_new(c);

	if (!t)
		return;
	t->any_errno = true;
	START(t, weir_uring_submit, c->r, OP(t), prep, t);
}

static void call_uring_get_extra(struct core *c)
{
	struct task *t = w.ended ? w.ended : any_task();
	uint64_t extra[2];

	(void)c;
	if (t && t->fn)
		(void)CALL(weir_uring_get_extra, OP(t), extra);
}

static void call_uring_get_info(struct core *c)
{
	struct weir_uring_info info = { .size = sizeof(info) };

	(void)CALL(weir_uring_get_info, c->r, &info);
}

static void call_uring_has_opcode(struct core *c)
{
	(void)CALL(weir_uring_has_opcode, c->r, rnd(256));
}

static void call_uring_probe(struct core *c)
{
	struct weir_uring_info info = { .size = sizeof(info) };

	(void)c;
	(void)CALL(weir_uring_probe, &info);
}

/* Groups: one core, this thread, so that its functions are ours too. */

static void on_group_stop(void *arg)
{
	act(NULL);
	(void)CALL(weir_group_stop, arg);
}

static int group_init(struct weir_group *group, uint32_t core, void *arg)
{
	struct object *o = arg;
	struct weir_reactor *r = GOT(weir_group_reactor, group, core);

	if (!r || one_in(8))
		return -EPROTO;
	act(o);
	MUST(!weir_post(r, on_group_stop, group));
	return 0;
}

static void group_fini(struct weir_group *group, uint32_t core, void *arg)
{
	MUST(!core && group);
	act(arg);
}

static void on_group_event(struct weir_group *group,
			   const struct weir_group_event *event, void *arg)
{
	(void)group, (void)event;
	act(arg);
}

static void call_group_create(struct core *c)
{
	struct weir_reactor_opts reactor = { .size = sizeof(reactor) };
	struct weir_group_opts opts = { .size = sizeof(opts) };
	struct object *o = object_new(A_GROUP, NULL);
	struct weir_group *group;

	(void)c;
	if (!o)
		return;
	reactor.backend = (uint32_t)w.backend;
	reactor.sim = w.sim;
	reactor.workers = 1;
	reactor.ops_max = 32;
	opts.n_cores = 1;
	opts.flags = WEIR_GROUP_ADOPT | WEIR_GROUP_NO_PIN;
	opts.reactor = &reactor;
	object_made(o, &group, CALL(weir_group_create, &group, &opts));
}

static void call_group_destroy(struct core *c)
{
	struct object *o = any(A_GROUP);

	(void)c;
	if (o)
		object_destroy(o);
}

static void call_group_start(struct core *c)
{
	struct object *o = any(A_GROUP);

	(void)c;
	if (!o || o->pins)
		return;
	o->pins++;
	(void)CALL(weir_group_set_core_fns, o->h, group_init, group_fini, o);
	(void)CALL(weir_group_set_event_fn, o->h, on_group_event, o);
	(void)CALL(weir_group_start, o->h);
	o->pins--;
}

static void call_group_run(struct core *c)
{
	struct object *o = any(A_GROUP);

	(void)c;
	if (!o || o->pins)
		return;
	o->pins++;
	(void)CALL(weir_group_run, o->h);
	o->pins--;
}

static void call_group_stop(struct core *c)
{
	struct object *o = any(A_GROUP);

	(void)c;
	if (o)
		MUST(!CALL(weir_group_stop, o->h));
}

static void call_group_set(struct core *c)
{
	struct object *o = any(A_GROUP);
	uint32_t cpu = 0;

	(void)c;
	if (!o || o->pins)
		return;
	(void)CALL(weir_group_set_core_fns, o->h, group_init, group_fini, o);
	(void)CALL(weir_group_set_event_fn, o->h, on_group_event, o);
	(void)CALL(weir_group_set_cpus, o->h, &cpu, rnd(2));
}

static void call_group_get(struct core *c)
{
	struct weir_group_load load = { .size = sizeof(load) };
	struct object *o = any(A_GROUP);

	(void)c;
	if (!o)
		return;
	MUST(GOT(weir_group_size, o->h) == 1);
	MUST(GOT(weir_group_describe, o->h));
	(void)CALL(weir_group_load, o->h, rnd(2), &load);
	if (GOT(weir_group_state, o->h) != WEIR_GROUP_STOPPED) {
		(void)GOT(weir_group_cpu, o->h, 0);
		(void)GOT(weir_group_reactor, o->h, rnd(2));
	}
}

const struct call calls_reactor[] = {
	{ "weir_reactor_create", call_reactor_create, 4 },
	{ "weir_reactor_destroy", call_reactor_destroy, 2 },
	{ "weir_reactor_turn", call_reactor_turn, 16 },
	{ "weir_reactor_run", call_reactor_run, 8 },
	{ "weir_reactor_break", call_reactor_break, 4 },
	{ "weir_reactor_stop", call_reactor_stop, 4 },
	{ "weir_reactor_start", call_reactor_start, 8 },
	{ "weir_reactor_state", call_reactor_state, 4 },
	{ "weir_reactor_now", call_reactor_now, 4 },
	{ "weir_reactor_is_here", call_reactor_state, 1 },
	{ "weir_reactor_fd", call_reactor_fd, 2 },
	{ "weir_reactor_backend", call_reactor_backend, 1 },
	{ "weir_reactor_describe", call_reactor_describe, 1 },
	{ "weir_reactor_stats", call_reactor_stats, 2 },
	{ "weir_defer", call_defer, 16 },
	{ "weir_sleep_until", call_sleep_until, 16 },
	{ "weir_nop", call_nop, 16 },
	{ "weir_work", call_work, 4 },
	{ "weir_post", call_post, 16 },
	{ "weir_call", call_call, 16 },
	{ "weir_capacity_wait", call_capacity_wait, 8 },
	{ "weir_op_start", call_op_start, 24 },
	{ "weir_op_begin", call_op_begin, 24 },
	{ "weir_op_abandon", call_op_begin, 4 },
	{ "weir_op_set_detail", call_op_begin, 4 },
	{ "weir_op_area", call_op_begin, 4 },
	{ "weir_op_finish", call_op_finish, 32 },
	{ "weir_op_lend", call_op_lend, 8 },
	{ "weir_op_cancel", call_op_cancel, 48 },
	{ "weir_op_set_deadline", call_op_set_deadline, 24 },
	{ "weir_op_get_detail", call_op_get_detail, 8 },
	{ "weir_op_is_busy", call_op_is_busy, 8 },
	{ "weir_op_is_late", call_op_is_late, 8 },
	{ "weir_uring_submit", call_uring_submit, 16 },
	{ "weir_uring_get_extra", call_uring_get_extra, 4 },
	{ "weir_uring_get_info", call_uring_get_info, 1 },
	{ "weir_uring_has_opcode", call_uring_has_opcode, 1 },
	{ "weir_uring_probe", call_uring_probe, 1 },
	{ "weir_group_create", call_group_create, 1 },
	{ "weir_group_destroy", call_group_destroy, 1 },
	{ "weir_group_start", call_group_start, 1 },
	{ "weir_group_run", call_group_run, 1 },
	{ "weir_group_stop", call_group_stop, 1 },
	{ "weir_group_set_core_fns", call_group_set, 1 },
	{ "weir_group_size", call_group_get, 1 },
	{ NULL, NULL, 0 },
};
