/* SPDX-License-Identifier: BSD-3-Clause */

/* CPU time of threads, as the benchmarks reckon it: each against itself. */

#include <time.h>
#include <unistd.h>

#include "bench/tasks.h"
#include "tests/support/harness.h"

static struct bench_tasks before, after;

/* Thread 7 was the busiest all along, 8 in between. */
static void two_that_changed(void)
{
	before = (struct bench_tasks){ 2, { { 7, 1000 }, { 8, 10 } } };
	after = (struct bench_tasks){ 2, { { 8, 310 }, { 7, 1050 } } };
}

static void busiest_thread_is_the_one_that_used_most_meanwhile(void **state)
{
	(void)state;
	two_that_changed();
	assert_int_equal(bench_tasks_busiest(&before, &after), 300);
}

static void total_is_the_sum_of_the_threads(void **state)
{
	(void)state;
	two_that_changed();
	assert_int_equal(bench_tasks_used(&before, &after), 350);
}

static void new_thread_counts_with_all_of_its_time(void **state)
{
	(void)state;
	two_that_changed();
	after.task[after.n++] = (struct bench_task){ 9, 5000 };
	assert_int_equal(bench_tasks_busiest(&before, &after), 5000);
	assert_int_equal(bench_tasks_used(&before, &after), 5350);
}

static void a_number_that_went_to_another_thread_is_a_new_one(void **state)
{
	(void)state;
	two_that_changed();
	after.task[1].ns = 40;
	assert_int_equal(bench_tasks_used(&before, &after), 340);
}

static void ended_thread_counts_no_more(void **state)
{
	(void)state;
	two_that_changed();
	after.n = 1;
	assert_int_equal(bench_tasks_used(&before, &after), 300);
}

static void threads_of_a_process_are_found(void **state)
{
	(void)state;
	bench_tasks_of(&before, getpid());
	if (!before.n)
		skip();		/* No /proc. */
	assert_int_equal(before.task[0].id, getpid());
}

int main(void)
{
	static const struct harness_case cases[] = {
		CASE(busiest_thread_is_the_one_that_used_most_meanwhile),
		CASE(total_is_the_sum_of_the_threads),
		CASE(new_thread_counts_with_all_of_its_time),
		CASE(a_number_that_went_to_another_thread_is_a_new_one),
		CASE(ended_thread_counts_no_more),
		CASE(threads_of_a_process_are_found),
	};

	return harness_run_plain(cases, N_OF(cases));
}
