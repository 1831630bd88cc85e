/* SPDX-License-Identifier: BSD-3-Clause */
/* The ledger of operations: each ends once, and as is documented. */

#include "tests/fuzz/sim-world.h"

struct task *task_of(struct weir_op *op)
{
	return weir_container_of(op, struct task, job.op);
}

uint32_t tasks_left(void)
{
	uint32_t i, n = 0;

	for (i = 0; i < TASKS; i++)
		n += w.tasks[i] != NULL;
	return n;
}

/* NULL: there are enough. */
struct task *task_new(struct core *c)
{
	struct task *t;
	uint32_t i;

	for (i = 0; i < TASKS && w.tasks[i]; i++)
		;
	if (i == TASKS)
		return NULL;
	t = calloc(1, sizeof(*t));
	MUST(t);
	weir_job_init(&t->job, task_end);
	t->core = c;
	w.tasks[i] = t;
	return t;
}

/* It is to complete with at most @most, if well. */
void task_begin(struct task *t, const char *what, int64_t most)
{
	t->what = what;
	t->most = most;
	if (!byte_below(5) && !w.ending) {
		MUST(!weir_op_set_deadline(&t->job.op, some_time()));
		t->has_deadline = true;
	}
}

void task_uses(struct task *t, int which, struct place *place)
{
	t->places[which] = place;
	place->users++;
	t->is_endless |= place->is_stream;
}

static void task_free(struct task *t)
{
	uint32_t i;

	for (i = 0; i < 2; i++)
		if (t->places[i])
			t->places[i]->users--;
	for (i = 0; i < TASKS; i++)
		if (w.tasks[i] == t)
			w.tasks[i] = NULL;
	free(t->buf);
	free(t);	/* In its own callback, as is allowed. */
}

/* A start has returned @err: 0, or a reason that is one. */
void task_started(struct task *t, int err)
{
	MUST(!err || !weir_op_is_busy(&t->job.op));
	MUST(err <= 0);
	if (!err)
		return;
	MUST(err != -ESHUTDOWN || t->core->is_stopped);
	MUST(err == -ESHUTDOWN || err == -EAGAIN || t->is_of_device);
	task_free(t);
}

static bool is_documented(const struct task *t, int64_t res)
{
	switch (res) {
	case -ECANCELED:
		return t->may_be_cancelled || t->is_of_device ||
		       t->core->is_stopped;
	case -ETIMEDOUT:
		return t->has_deadline || t->is_of_device || t->is_of_socket;
	case -EAGAIN:
		return !strcmp(t->what, "connect");
	case -EINTR:
	case -EINPROGRESS:
	case -EDEADLK:
		return false;
	default:
		return res > -4096 && res <= t->most;
	}
}

static void check_result(const struct task *t, int64_t res)
{
	struct weir_op_detail detail;

	if (!is_documented(t, res)) {
		fprintf(stderr, "a %s: %lld\n", t->what, (long long)res);
		abort();
	}
	MUST(!weir_op_is_busy(&t->job.op));
	MUST(!weir_op_get_detail(&t->job.op, &detail));
	MUST(t->most == INT64_MAX || detail.bytes <= (uint64_t)t->most);
	MUST(res < 0 || weir_sim_now(w.sim) >= t->not_before_ns);
}

void task_end(struct weir_op *op, int64_t res)
{
	struct task *t = task_of(op);
	struct core *c = t->core;
	uint32_t i;

	for (i = 0; i < TASKS && w.tasks[i] != t; i++)
		;
	MUST(i < TASKS);	/* Once, and only if it began. */
	check_result(t, res);
	if (t->end)
		t->end(t, res);
	task_free(t);
	act(c);
}

void task_cancel(struct task *t)
{
	MUST(!weir_op_cancel(&t->job.op));
	t->may_be_cancelled = true;
}

void task_disturb(void)
{
	struct task *t = w.tasks[byte_below(TASKS)];
	int err;

	if (!t)
		return;
	if (byte_below(2)) {
		task_cancel(t);
		return;
	}
	err = weir_op_set_deadline(&t->job.op, some_time());
	MUST(!err || err == -EINVAL);
	t->has_deadline |= !err;
}
