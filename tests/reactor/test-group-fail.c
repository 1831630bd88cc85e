/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Cores whose turns fail, and what comes while a group looks whether it has
 * stopped: no message and no answer is lost by either.
 */

#include "tests/support/group-fixture.h"

#include <stdatomic.h>

#include "reactor/group/group.h"
#include "reactor/group/spsc-inline.h"

#define TRIES 100	/* After which a core gives itself up. */

static struct backend broken;
static const struct backend *whole;
static atomic_uint n_failed, n_told;

static int fail_to_flush(struct weir_reactor *r)
{
	(void)r;
	atomic_fetch_add(&n_failed, 1);
	return -EIO;
}

static void break_down(struct weir_reactor *r)
{
	whole = r->backend;
	broken = *whole;
	broken.flush = fail_to_flush;
	r->backend = &broken;
}

/* So that what is left of it can be freed. */
static void mend(struct weir_group *group, uint32_t core, void *arg)
{
	(void)arg;
	if (core)
		weir_group_reactor(group, core)->backend = whole;
}

static void on_event(struct weir_group *group,
		     const struct weir_group_event *event, void *arg)
{
	(void)group, (void)arg;
	if (event->kind == WEIR_GROUP_FAILED && event->err == -EIO)
		atomic_fetch_add(&n_told, 1);
}

/* Core 1 breaks down, with one call to core 0, and one from there. */
struct breakdown {
	struct team t;
	struct rec asked, answered;	/* Core 0's call, and core 1's. */
	atomic_uint posts;
	atomic_bool go;
	int errors;
};

static int64_t say_7(void *arg)
{
	(void)arg;
	return 7;
}

static void count_post(void *arg)
{
	atomic_fetch_add((atomic_uint *)arg, 1);
}

static void call_and_break_down(void *arg)
{
	struct breakdown *b = arg;

	while (!atomic_load(&b->go))
		sched_yield();
	b->errors |= weir_call(b->t.r[1], &b->answered.op, b->t.r[0], say_7,
			       NULL);
	break_down(b->t.r[1]);
}

/* What a turn sends is shown at its end: here, when the other has long been
 * failing. */
static void send_late(void *arg)
{
	struct breakdown *b = arg;
	struct ring_matrix *mesh = b->t.group->mesh;

	b->errors |= weir_call(b->t.r[0], &b->asked.op, b->t.r[1], say_7, NULL);
	b->errors |= weir_post(b->t.r[1], count_post, &b->posts);
	atomic_store(&b->go, true);
	while (atomic_load(&n_failed) < TRIES + 3 &&
	       !atomic_load(&mesh->n_quiet))
		sched_yield();
}

static void a_core_that_fails_for_good_leaves_no_call_behind(void **state)
{
	struct breakdown b = { 0 };

	atomic_store(&n_failed, 0);
	atomic_store(&n_told, 0);
	team_create(&b.t, state, 2, 0);
	assert_int_equal(weir_group_set_core_fns(b.t.group, NULL, mend, NULL),
			 0);
	assert_int_equal(weir_group_set_event_fn(b.t.group, on_event, NULL), 0);
	team_start(&b.t);
	rec_init(&b.asked);
	rec_init(&b.answered);
	assert_int_equal(weir_post(b.t.r[1], call_and_break_down, &b), 0);
	assert_int_equal(weir_post(b.t.r[0], send_late, &b), 0);
	assert_int_equal(weir_group_run(b.t.group), -EIO);
	assert_non_null(strstr(weir_why(), "core 1"));
	assert_int_equal(b.errors, 0);
	assert_int_equal(b.asked.calls, 1);
	assert_int_equal(b.asked.res, 7);
	assert_int_equal(b.answered.calls, 1);
	assert_int_equal(b.answered.res, 7);
	assert_int_equal(atomic_load(&b.posts), 1);
	assert_int_equal(atomic_load(&n_told), 1);
	assert_int_equal(weir_group_destroy(b.t.group), 0);
}

/* One turn that fails: it must not be needed twice. */

static int post_and_fail(struct weir_reactor *r, unsigned int max)
{
	struct weir_reactor *other = r->mailbox.rings->mesh->rings[1].r;

	(void)max;
	weir_post(other, count_post, &n_told);
	return -EIO;
}

static void messages_of_a_failing_turn_are_published(void **state)
{
	struct team t;

	team_begin(&t, state, 2, 0);
	atomic_store(&n_told, 0);
	whole = t.r[0]->backend;
	broken = *whole;
	broken.reap = post_and_fail;
	t.r[0]->backend = &broken;
	assert_int_equal(weir_reactor_turn(t.r[0], 0), -EIO);
	t.r[0]->backend = whole;
	while (!atomic_load(&n_told))
		sched_yield();
	team_end(&t);
}

/*
 * The end of two reactors, whose rings are made by hand: what the first to be
 * quiet had sent is seen only after the second has looked.  It comes from
 * within the wake-up by which that one, the last to be quiet, has the other
 * look again.
 */

static void send_when_notified(struct weir_reactor *r)
{
	struct spsc *spsc = r->mailbox.rings->out[0];
	union spsc_fn fn = { .post = count_post };

	spsc_put(spsc, fn, &n_told, SPSC_POST);
	atomic_store(&spsc->tail, spsc->next);
}

static struct weir_reactor *join(struct ring_matrix *mesh, uint32_t index,
				 void **state)
{
	struct weir_reactor_opts opts = {
		.size = sizeof(opts), .backend = backend_of(*state),
	};
	struct weir_reactor *r;

	assert_int_equal(weir_reactor_create(&r, &opts), 0);
	rings_join(mesh, index, r);
	return r;
}

static void leave(struct weir_reactor *r)
{
	UNTIL(r, weir_reactor_state(r) == WEIR_REACTOR_STOPPED);
	r->mailbox.rings = NULL;
	mailbox_note_more(&r->mailbox);
	assert_int_equal(weir_reactor_destroy(r), 0);
}

static void messages_of_the_first_quiet_core_are_run(void **state)
{
	struct ring_matrix *mesh = ring_matrix_create(2, 64);
	struct weir_reactor *r[2];

	assert_non_null(mesh);
	atomic_store(&n_told, 0);
	r[0] = join(mesh, 0, state);
	r[1] = join(mesh, 1, state);
	weir_reactor_stop(r[1]);
	while (!atomic_load(&mesh->n_quiet))
		assert_true(weir_reactor_turn(r[1], 0) >= 0);
	whole = r[1]->backend;
	broken = *whole;
	broken.wake = send_when_notified;
	r[1]->backend = &broken;
	atomic_store(&r[1]->mailbox.asleep, true);
	weir_reactor_stop(r[0]);
	UNTIL(r[0], weir_reactor_state(r[0]) == WEIR_REACTOR_STOPPED);
	assert_int_equal(atomic_load(&n_told), 1);
	r[1]->backend = whole;
	leave(r[0]);
	leave(r[1]);
	ring_matrix_destroy(mesh);
}

int main(void)
{
	static const struct harness_case cases[] = {
		CASE(a_core_that_fails_for_good_leaves_no_call_behind),
		CASE(messages_of_a_failing_turn_are_published),
		CASE(messages_of_the_first_quiet_core_are_run),
	};

	return harness_run(cases, N_OF(cases));
}
