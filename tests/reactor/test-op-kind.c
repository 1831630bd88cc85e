/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Operations of libraries above weir: weir_op_begin(), and what only these have.
 * What they have in common with those of programs is in test-op-user.c.
 */

#include "tests/support/harness.h"

#include <pthread.h>

/* An operation of this "library", and which functions of its kind were called. */
struct dial {
	struct rec rec;
	struct weir_reactor *r;
	int cancels, leaves;
	int refused;	/* The start function refuses after its beginning, */
	char *lends;	/* and has lent this, or nothing. */
};

static void dial_cancel(struct weir_op *op, void *arg)
{
	struct dial *d = arg;

	assert_ptr_equal(op, &d->rec.op);
	d->cancels++;
	assert_int_equal(weir_op_finish(op, -ECANCELED), 0);
}

static void dial_leave(struct weir_op *op, void *arg)
{
	struct dial *d = arg;

	assert_ptr_equal(op, &d->rec.op);
	assert_int_equal(d->rec.calls, 0);
	assert_int_equal(weir_op_is_busy(op), 0);
	d->leaves++;
}

static const struct weir_op_kind dial_kind = {
	.size = sizeof(dial_kind),
	.name = "dial",
	.cancel = dial_cancel,
	.leave = dial_leave,
};

static void dial_init(struct dial *d, struct weir_reactor *r)
{
	memset(d, 0, sizeof(*d));
	rec_init(&d->rec);
	d->r = r;
}

/* As the example of <weir/op.h> has it. */
static int dial_start(struct dial *d)
{
	int err = weir_op_begin(d->r, &d->rec.op, &dial_kind, d);

	if (err)
		return err < 0 ? err : 0;
	if (d->lends)
		assert_int_equal(weir_op_lend(&d->rec.op, d->lends, 64,
					      WEIR_LEND_OUT), 0);
	if (d->refused) {
		assert_int_equal(weir_op_abandon(&d->rec.op), 0);
		return d->refused;
	}
	return 0;
}

static void kind_is_left_once_before_callback(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct dial d;

	dial_init(&d, r);
	STARTS(dial_start(&d));
	assert_int_equal(weir_op_finish(&d.rec.op, 7), 0);
	assert_int_equal(d.leaves, 0);
	assert_int_equal(finish(r, &d.rec), 7);
	assert_int_equal(d.leaves, 1);
	/* And after a cancel. */
	dial_init(&d, r);
	STARTS(dial_start(&d));
	assert_int_equal(weir_op_cancel(&d.rec.op), 0);
	assert_int_equal(d.cancels, 1);
	assert_int_equal(finish(r, &d.rec), -ECANCELED);
	assert_int_equal(d.leaves, 1);
}

static void kind_without_functions_does(void **state)
{
	static const struct weir_op_kind kind = {
		.size = sizeof(kind),
		.name = "nothing",
	};
	struct weir_reactor *r = start_reactor(state);
	struct rec rec;

	rec_init(&rec);
	assert_int_equal(weir_op_begin(r, &rec.op, &kind, NULL), 0);
	assert_int_equal(weir_op_cancel(&rec.op), 0);
	some_turns(r, 3);
	assert_int_equal(rec.calls, 0);
	assert_int_equal(weir_op_finish(&rec.op, 1), 0);
	assert_int_equal(finish(r, &rec), 1);
}

static void begin_after_deadline_ends_at_once_without_the_kind(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct dial d;

	dial_init(&d, r);
	d.refused = -EIO;
	weir_op_set_deadline(&d.rec.op, weir_reactor_now(r));
	STARTS(dial_start(&d));
	assert_int_equal(weir_op_abandon(&d.rec.op), -EINVAL);
	assert_int_equal(finish(r, &d.rec), -ETIMEDOUT);
	assert_int_equal(weir_op_is_late(&d.rec.op), 1);
	assert_int_equal(d.cancels + d.leaves, 0);
}

static void deadline_cancels_what_has_begun(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct dial d;

	dial_init(&d, r);
	weir_op_set_deadline(&d.rec.op, weir_reactor_now(r) + WEIR_MSEC);
	STARTS(dial_start(&d));
	assert_int_equal(finish(r, &d.rec), -ETIMEDOUT);
	assert_int_equal(weir_op_is_late(&d.rec.op), 1);
	assert_int_equal(d.cancels, 1);
	assert_int_equal(d.leaves, 1);
}

static void abandoned_operation_is_as_before_its_start(void **state)
{
	char buf[64] = { 0 };
	struct weir_reactor *r;
	struct dial d, other;

	r = start_reactor_with(state,
			       (struct weir_reactor_opts){ .ops_max = 1 });
	dial_init(&d, r);
	dial_init(&other, r);
	d.refused = -EHOSTUNREACH;
	d.lends = buf;
	weir_op_set_deadline(&d.rec.op, weir_reactor_now(r) + WEIR_SEC);
	for (int i = 0; i < 5; i++)
		assert_int_equal(dial_start(&d), -EHOSTUNREACH);
	buf[0] = 1;	/* The caller's again. */
	d.lends = NULL;
	assert_int_equal(weir_op_is_busy(&d.rec.op), 0);
	assert_int_equal(weir_op_cancel(&d.rec.op), -EINVAL);
	assert_int_equal(weir_op_finish(&d.rec.op, 1), -EINVAL);
	/* It takes no capacity. */
	STARTS(dial_start(&other));
	assert_int_equal(weir_op_finish(&other.rec.op, 1), 0);
	assert_int_equal(finish(r, &other.rec), 1);
	assert_int_equal(d.rec.calls + d.leaves + d.cancels, 0);
	/* Its deadline is valid for the next start. */
	d.refused = 0;
	STARTS(dial_start(&d));
	assert_int_equal(finish(r, &d.rec), -ETIMEDOUT);
	assert_int_equal(weir_op_is_late(&d.rec.op), 1);
}

static void detail_is_what_the_library_has_set(void **state)
{
	const struct weir_op_detail set = { 4096, -7, 3 };
	struct weir_reactor *r = start_reactor(state);
	struct dial d;

	dial_init(&d, r);
	STARTS(dial_start(&d));
	assert_int_equal(weir_op_set_detail(&d.rec.op, &set), 0);
	assert_int_equal(weir_op_finish(&d.rec.op, -EIO), 0);
	assert_int_equal(finish(r, &d.rec), -EIO);
	assert_int_equal(d.rec.detail.bytes, 4096);
	assert_int_equal(d.rec.detail.code, -7);
	assert_int_equal(d.rec.detail.segment, 3);
	/* Not that of the operation before. */
	d.rec.calls = 0;
	d.leaves = 0;
	STARTS(dial_start(&d));
	assert_int_equal(weir_op_finish(&d.rec.op, 0), 0);
	assert_int_equal(finish(r, &d.rec), 0);
	assert_int_equal(d.rec.detail.bytes + d.rec.detail.segment, 0);
	assert_int_equal(d.rec.detail.code, 0);
}

/* All that the library does with an operation leaves the area alone, and the
 * other way round. */
static void area_is_the_librarys_until_the_end(void **state)
{
	const struct weir_op_detail set = { 1, 2, 3 };
	struct weir_reactor *r = start_reactor(state);
	unsigned char want[WEIR_OP_AREA], *area;
	struct dial d;
	char buf[16] = { 0 };

	for (size_t i = 0; i < sizeof(want); i++)
		want[i] = (unsigned char)(i * 7 + 1);
	dial_init(&d, r);
	area = weir_op_area(&d.rec.op);
	assert_int_equal((uintptr_t)area % 8, 0);
	STARTS(dial_start(&d));
	memcpy(area, want, sizeof(want));
	weir_op_set_deadline(&d.rec.op, weir_reactor_now(r) + WEIR_SEC);
	assert_int_equal(weir_op_lend(&d.rec.op, buf, sizeof(buf),
				      WEIR_LEND_OUT), 0);
	assert_int_equal(weir_op_set_detail(&d.rec.op, &set), 0);
	some_turns(r, 3);
	assert_ptr_equal(weir_op_area(&d.rec.op), area);
	assert_memory_equal(area, want, sizeof(want));
	memset(area, 0xff, WEIR_OP_AREA);
	assert_int_equal(weir_op_cancel(&d.rec.op), 0);
	assert_int_equal(finish(r, &d.rec), -ECANCELED);
	assert_int_equal(d.rec.detail.bytes, 1);
	assert_int_equal(d.leaves, 1);
}

static void begin_is_refused_with_message(void **state)
{
	struct {
		struct weir_op_kind kind;
		uint64_t newer;
	} future = { dial_kind, 1 };
	struct weir_op_kind kind = dial_kind;
	struct weir_reactor *r;
	struct dial d, other;

	r = start_reactor_with(state,
			       (struct weir_reactor_opts){ .ops_max = 1 });
	dial_init(&d, r);
	dial_init(&other, r);
	assert_int_equal(weir_op_begin(r, &d.rec.op, NULL, &d), -EINVAL);
	assert_starts_with(weir_why(), "weir_op_begin: there is no kind");
	kind.name = NULL;
	assert_int_equal(weir_op_begin(r, &d.rec.op, &kind, &d), -EINVAL);
	kind = dial_kind;
	kind.size--;
	assert_int_equal(weir_op_begin(r, &d.rec.op, &kind, &d), -EINVAL);
	future.kind.size = sizeof(future);
	assert_int_equal(weir_op_begin(r, &d.rec.op, &future.kind, &d), -E2BIG);
	assert_starts_with(weir_why(), "weir_op_begin: ");
	/* What it does not use is no harm. */
	future.newer = 0;
	assert_int_equal(weir_op_begin(r, &d.rec.op, &future.kind, &d), 0);
	assert_int_equal(dial_start(&d), -EINVAL);
	assert_starts_with(weir_why(), "weir_op_begin: the operation is in");
	assert_int_equal(dial_start(&other), -EAGAIN);
	other.rec.op.fn = NULL;
	assert_int_equal(dial_start(&other), -EINVAL);
	weir_reactor_stop(r);
	UNTIL(r, d.rec.calls);
	assert_int_equal(d.rec.res, -ECANCELED);
	assert_int_equal(dial_start(&d), -ESHUTDOWN);
	assert_starts_with(weir_why(), "weir_op_begin: the reactor is stop");
}

static void operation_that_has_not_begun_is_neither_abandoned_nor_set(void **state)
{
	const struct weir_op_detail set = { 1, 2, 3 };
	struct weir_reactor *r = start_reactor(state);
	struct dial d;
	struct rec nop;

	dial_init(&d, r);
	assert_int_equal(weir_op_abandon(&d.rec.op), -EINVAL);
	assert_starts_with(weir_why(), "weir_op_abandon: the operation is not");
	assert_int_equal(weir_op_set_detail(&d.rec.op, &set), -EINVAL);
	assert_starts_with(weir_why(), "weir_op_set_detail: the operation is");
	/* What is another's. */
	rec_init(&nop);
	STARTS(weir_sleep_until(r, &nop.op, WEIR_FOREVER - 1));
	assert_int_equal(weir_op_abandon(&nop.op), -EINVAL);
	assert_int_equal(weir_op_set_detail(&nop.op, &set), -EINVAL);
	assert_int_equal(weir_op_cancel(&nop.op), 0);
	assert_int_equal(finish(r, &nop), -ECANCELED);
	/* What is finished already. */
	STARTS(dial_start(&d));
	assert_int_equal(weir_op_finish(&d.rec.op, 1), 0);
	assert_int_equal(weir_op_abandon(&d.rec.op), -EINVAL);
	assert_int_equal(weir_op_set_detail(&d.rec.op, &set), -EINVAL);
	assert_int_equal(finish(r, &d.rec), 1);
	assert_int_equal(d.rec.detail.bytes, 0);
}

static void destroy_names_kind_that_does_not_end(void **state)
{
	static const struct weir_op_kind kind = {
		.size = sizeof(kind),
		.name = "telephone call",
	};
	struct weir_reactor *r;
	struct rec rec;

	r = start_reactor_with(state,
			       (struct weir_reactor_opts){ .drain_ms = 20 });
	rec_init(&rec);
	STARTS(weir_op_begin(r, &rec.op, &kind, NULL));
	assert_int_equal(weir_reactor_destroy(r), -EBUSY);
	assert_non_null(strstr(weir_why(), "the first a 'telephone call'"));
	assert_int_equal(weir_op_finish(&rec.op, 3), 0);
	assert_int_equal(finish(r, &rec), 3);
}

static void *ask_from_another_thread(void *r)
{
	return weir_reactor_is_here(r) ? r : NULL;
}

static void reactor_is_here_on_its_thread_only(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	pthread_t thread;
	void *result;

	assert_int_equal(weir_reactor_is_here(r), 1);
	assert_int_equal(pthread_create(&thread, NULL, ask_from_another_thread,
					r), 0);
	assert_int_equal(pthread_join(thread, &result), 0);
	assert_null(result);
}

int main(void)
{
	static const struct harness_case cases[] = {
		CASE(kind_is_left_once_before_callback),
		CASE(kind_without_functions_does),
		CASE(begin_after_deadline_ends_at_once_without_the_kind),
		CASE(deadline_cancels_what_has_begun),
		CASE(abandoned_operation_is_as_before_its_start),
		CASE(detail_is_what_the_library_has_set),
		CASE(area_is_the_librarys_until_the_end),
		CASE(begin_is_refused_with_message),
		CASE(operation_that_has_not_begun_is_neither_abandoned_nor_set),
		CASE(destroy_names_kind_that_does_not_end),
		REAL(reactor_is_here_on_its_thread_only),
	};

	return harness_run_all(cases, N_OF(cases));
}
