/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TESTS_ERRNOS_FIXTURE_H
#define TESTS_ERRNOS_FIXTURE_H

/*
 * A table of calls and of errnos that headers document for them.  A row
 *
 *	RETURNS(weir_timer_create, EINVAL)
 *	{
 *		struct weir_timer *t;
 *
 *		return weir_timer_create(&t, start_reactor(state), NULL, NULL);
 *	}
 *
 * is the case "weir_timer_create returns -EINVAL", of which the body is to
 * provoke that errno and to return what it got.  COMPLETES() is a row about the
 * result of an operation.  errnos.txt lists them all.  Rows about -ENOMEM are
 * left out where a tool has the allocator.
 *
 * Included by one file of a program: see alloc-fixture.h.
 */

#include "tests/support/alloc-fixture.h"

#include <sys/resource.h>

#define ERRNO_ROWS_MAX 512

struct errno_row {
	const char *name;
	int err;
	int64_t (*provoke)(void **state);
};

static struct errno_row errno_rows[ERRNO_ROWS_MAX];
static size_t n_errno_rows;

static inline void errno_row_add(const char *name, int err,
				 int64_t (*provoke)(void **state))
{
	if (n_errno_rows == ERRNO_ROWS_MAX)
		abort();
	errno_rows[n_errno_rows++] = (struct errno_row){ name, err, provoke };
}

/* @err is not handed on to another macro, which would get its number. */
#define RETURNS(call, err) \
	static int64_t call##_##err(void **state); \
	__attribute__((constructor)) static void add_##call##_##err(void) \
	{ \
		errno_row_add(#call " returns -" #err, -(err), call##_##err); \
	} \
	static int64_t call##_##err(__attribute__((unused)) void **state)

#define COMPLETES(call, err) \
	static int64_t call##_completes_##err(void **state); \
	__attribute__((constructor)) static void add_##call##_completes_##err( \
		void) \
	{ \
		errno_row_add(#call " completes -" #err, -(err), \
			      call##_completes_##err); \
	} \
	static int64_t call##_completes_##err( \
		__attribute__((unused)) void **state)

/* A message that no row leaves. */
#define NO_BACKEND "4294967295"

static inline void leave_a_message(void)
{
	struct weir_reactor_opts opts = {
		.size = sizeof(opts), .backend = UINT32_MAX,
	};
	struct weir_reactor *r;

	assert_int_equal(weir_reactor_create(&r, &opts), -EINVAL);
}

/*
 * A refusal has a message, which begins with the name of a public call: this one
 * or one that it is made of.  The simulator's calls are like system calls, whose
 * errnos say all; and adapters to other loops are code of the caller's, which
 * cannot leave a message.
 */
static inline void check_message(const struct errno_row *row)
{
	if (!strstr(row->name, " returns ") || row->err == -EAGAIN ||
	    strstr(row->name, "weir_sim_") || strstr(row->name, "weir_guest_") ||
	    strstr(row->name, "weir_host_"))
		return;
	if (strncmp(weir_why(), "weir_", 5) || strstr(weir_why(), NO_BACKEND))
		fail_msg("%s, and the message is: %s", row->name, weir_why());
}

static inline void run_errno_row(void **state)
{
	const struct world *w = *state;
	const struct errno_row *row = w->arg;
	int64_t err;

	leave_a_message();
	err = row->provoke(state);
	if (err != row->err)
		fail_msg("%s: %lld: %s", row->name, (long long)err, weir_why());
	check_message(row);
}

/* Run the rows, over uring and ev. */
static inline int run_errno_rows(void)
{
	static struct harness_case cases[ERRNO_ROWS_MAX];
	size_t n = 0;

	for (size_t i = 0; i < n_errno_rows; i++) {
		const struct errno_row *row = &errno_rows[i];

		/* A tool has the allocator. */
		if (row->err == -ENOMEM && !has_counts())
			continue;
		cases[n++] = (struct harness_case){
			.name = row->name,
			.fn = run_errno_row,
			.arg = row,
		};
	}
	return harness_run(cases, n);
}

/*
 * Provocations.  After no_memory() and no_descriptors() there is none, until
 * plenty(), which returns what it is given:
 *
 *	no_memory();
 *	return plenty(weir_timer_create(&t, r, on_timer, NULL));
 */
static struct rlimit errnos_limit;

__attribute__((unused)) static void no_memory(void)
{
	atomic_store(&allocations_left, 0);
}

/* Those that are open stay open, also where they are above the limit. */
__attribute__((unused)) static void no_descriptors(void)
{
	struct rlimit limit;
	int lowest = dup(2);

	assert_true(lowest >= 0);
	close(lowest);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &errnos_limit), 0);
	limit = errnos_limit;
	limit.rlim_cur = (rlim_t)lowest;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

__attribute__((unused)) static int64_t plenty(int64_t err)
{
	atomic_store(&allocations_left, -1);
	if (errnos_limit.rlim_cur)
		assert_int_equal(setrlimit(RLIMIT_NOFILE, &errnos_limit), 0);
	errnos_limit.rlim_cur = 0;
	return err;
}

__attribute__((unused)) static void stop_reactor(struct weir_reactor *r)
{
	weir_reactor_stop(r);
	UNTIL(r, weir_reactor_state(r) == WEIR_REACTOR_STOPPED);
}

/* The test's reactor, which has stopped. */
__attribute__((unused)) static struct weir_reactor *stopped_reactor(
	void **state)
{
	struct weir_reactor *r = start_reactor(state);

	stop_reactor(r);
	return r;
}

/* The test's reactor, with few operations.  fill_reactor() takes those that are
 * left, and free_reactor() gives them back. */
__attribute__((unused)) static struct weir_reactor *small_reactor(void **state)
{
	return start_reactor_with(state,
				  (struct weir_reactor_opts){ .ops_max = 64 });
}

static struct rec errnos_sleeping[128];
static size_t n_errnos_sleeping;

__attribute__((unused)) static void fill_reactor(struct weir_reactor *r)
{
	struct rec *rec;
	int err;

	for (n_errnos_sleeping = 0;; n_errnos_sleeping++) {
		assert_true(n_errnos_sleeping < N_OF(errnos_sleeping));
		rec = &errnos_sleeping[n_errnos_sleeping];
		rec_init(rec);
		err = weir_sleep_until(r, &rec->op, WEIR_FOREVER - 1);
		if (err)
			break;
	}
	assert_int_equal(err, -EAGAIN);
}

__attribute__((unused)) static void free_reactor(struct weir_reactor *r)
{
	for (size_t i = 0; i < n_errnos_sleeping; i++)
		assert_int_equal(weir_op_cancel(&errnos_sleeping[i].op), 0);
	for (size_t i = 0; i < n_errnos_sleeping; i++)
		UNTIL(r, errnos_sleeping[i].calls);
}

__attribute__((unused)) static struct weir_reactor *full_reactor(void **state)
{
	struct weir_reactor *r = small_reactor(state);

	fill_reactor(r);
	return r;
}

/* Options of a later version: any struct of options begins with its size. */
__attribute__((unused)) static void *later_options(void)
{
	static struct {
		size_t size;
		char more[2000];
	} opts;

	opts.size = sizeof(opts);
	memset(opts.more, 1, sizeof(opts.more));
	return &opts;
}

/* A struct for results that has not even space for its size. */
__attribute__((unused)) static void *no_capacity(void)
{
	static struct {
		size_t size;
		char more[2000];
	} ret;

	ret.size = 4;
	return &ret;
}

#endif /* TESTS_ERRNOS_FIXTURE_H */
