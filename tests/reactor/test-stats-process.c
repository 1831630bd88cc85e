/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The page of statistics and its process: read from outside while that works,
 * sleeps, ends, forks or becomes another program.
 */

#include "tests/support/stats-fixture.h"

#include <signal.h>
#include <sys/wait.h>

static struct rec rec;

static uint32_t child_backend;

/* What a child does until it is killed; its page says so. */
static void child_works(void)
{
	struct weir_reactor_opts opts = { .size = sizeof(opts),
					  .backend = child_backend };
	struct weir_reactor *r;

	if (weir_reactor_create(&r, &opts))
		_exit(3);
	for (;;) {
		rec_init(&rec);
		if (weir_nop(r, &rec.op))
			_exit(4);
		while (!rec.calls)
			weir_reactor_turn(r, WEIR_FOREVER);
	}
}

static void child_sleeps(void)
{
	struct weir_reactor_opts opts = { .size = sizeof(opts),
					  .backend = child_backend };
	struct weir_reactor *r;

	if (weir_reactor_create(&r, &opts))
		_exit(3);
	for (int i = 0; i < 100; i++) {
		rec_init(&rec);
		weir_nop(r, &rec.op);
		while (!rec.calls)
			weir_reactor_turn(r, WEIR_FOREVER);
	}
	weir_reactor_run(r);
}

static pid_t begin_child(void **state, void (*fn)(void))
{
	pid_t pid;

	child_backend = backend_of(*state);
	assert_int_equal(chmod(test_dir(state), 0700), 0);
	assert_int_equal(setenv("WEIR_STATS", test_dir(state), 1), 0);
	pid = fork();
	if (!pid) {
		alarm(60);
		fn();
		_exit(5);
	}
	assert_true(pid > 0);
	return pid;
}

static void end_child(pid_t pid)
{
	int status;

	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status));
}

/* Its reactor is there, too, and has done something. */
static struct weir_stats *open_child(pid_t pid)
{
	struct weir_stats *s = NULL;

	for (;; nap()) {
		if (weir_stats_open(&s, pid))
			continue;
		if (find_section(s, "reactor", "") >= 0 &&
		    value_of(s, "reactor", "", "started"))
			return s;
		weir_stats_close(s);
	}
}

static void a_process_under_load_is_read_from_outside(void **state)
{
	pid_t pid = begin_child(state, child_works);
	struct weir_stats *s = open_child(pid);
	struct weir_stats_info info = { .size = sizeof(info) };
	uint64_t first = 0, last = 0, started, turns, before = 0;

	for (int i = 0; i < 300 || last < first + 1000; i++, nap()) {
		assert_int_equal(weir_stats_read(s), 0);
		started = value_of(s, "reactor", "", "started");
		turns = value_of(s, "reactor", "", "turns");
		/* Of one moment: one operation at a time. */
		assert_in_range(started - value_of(s, "reactor", "",
						   "completed"), 0, 1);
		assert_true(turns >= started || turns + 1 == started);
		assert_true(started >= before);
		before = started;
		first = first ? first : started;
		last = started;
	}
	assert_int_equal(weir_stats_info(s, &info), 0);
	assert_int_equal(info.pid, pid);
	assert_true(info.alive && !info.foreign && info.since_ns);
	assert_string_equal(info.version, weir_version());
	weir_stats_close(s);
	end_child(pid);
	unsetenv("WEIR_STATS");
}

static void a_process_at_rest_has_published_all(void **state)
{
	pid_t pid = begin_child(state, child_sleeps);
	struct weir_stats *s = open_child(pid);

	while (value_of(s, "reactor", "", "completed") < 100 ||
	       !value_of(s, "reactor", "", "asleep")) {
		nap();
		assert_int_equal(weir_stats_read(s), 0);
	}
	assert_int_equal(value_of(s, "reactor", "", "started"), 100);
	/* If they took long, not all of them were timed. */
	assert_in_range(value_of(s, "operation", "nop", "count"), 30, 300);
	weir_stats_close(s);
	end_child(pid);
	unsetenv("WEIR_STATS");
}

static int count_one(const struct weir_stats_info *info, void *arg)
{
	++*(int *)arg;
	return info->pid <= 0;
}

static void the_page_of_a_killed_process_is_removed(void **state)
{
	pid_t pid = begin_child(state, child_works);
	struct weir_stats *s = open_child(pid), *none = NULL;
	struct weir_stats_info info = { .size = sizeof(info) };
	int n = 0;

	assert_int_equal(weir_stats_list(count_one, &n), 0);
	assert_true(n >= 1);
	end_child(pid);
	/* Who has it open can still read what it did last. */
	assert_int_equal(weir_stats_read(s), 0);
	assert_int_equal(weir_stats_info(s, &info), 0);
	assert_false(info.alive);
	assert_true(value_of(s, "reactor", "", "started") > 0);
	weir_stats_close(s);
	assert_int_equal(count_entries(test_dir(state)), 1);
	assert_int_equal(weir_stats_open(&none, pid), -ESRCH);
	assert_null(none);
	assert_int_equal(count_entries(test_dir(state)), 0);

	pid = begin_child(state, child_works);
	weir_stats_close(open_child(pid));
	end_child(pid);
	assert_int_equal(weir_stats_list(count_one, &n), 0);
	assert_int_equal(count_entries(test_dir(state)), 0);

	pid = begin_child(state, child_works);
	weir_stats_close(open_child(pid));
	end_child(pid);
	assert_int_equal(weir_stats_publish(NULL), 0);
	assert_int_equal(count_entries(test_dir(state)), 1);
	assert_int_equal(weir_stats_withdraw(), 0);
	unsetenv("WEIR_STATS");
}

static void child_execs(void)
{
	if (weir_stats_publish(NULL))
		_exit(3);
	execlp("sleep", "sleep", "60", (char *)NULL);
	_exit(4);
}

static void a_process_that_is_another_program_now_has_no_page(void **state)
{
	pid_t pid = begin_child(state, child_execs);
	struct weir_stats *s = NULL;
	int err;

	while ((err = weir_stats_open(&s, pid)) == -ENOENT || !err) {
		weir_stats_close(s);
		s = NULL;
		nap();
	}
	assert_int_equal(err, -ESRCH);
	assert_int_equal(weir_stats_open(&s, pid), -ENOENT);
	assert_non_null(strstr(weir_why(), "WEIR_STATS=1"));
	end_child(pid);
	unsetenv("WEIR_STATS");
}

static void child_exits(void)
{
	if (weir_stats_publish(NULL))
		_exit(3);
	exit(0);
}

static void a_page_goes_with_its_process(void **state)
{
	pid_t pid = begin_child(state, child_exits);
	int status;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(count_entries(test_dir(state)), 0);
	unsetenv("WEIR_STATS");
}

/* In a child of fork(): 0, or the line. */
static int check_child(struct weir_reactor *r, uint32_t backend)
{
	struct weir_reactor_opts opts = { .size = sizeof(opts),
					  .backend = backend };
	struct weir_reactor *own;
	struct weir_stats *s;
	uint64_t n;

	if (weir_stats_update(r) != -ENOENT)
		return __LINE__;
	if (weir_stats_open(&s, getpid()) != -ENOENT)
		return __LINE__;
	if (weir_reactor_create(&own, &opts))
		return __LINE__;
	if (weir_stats_update(own) || weir_stats_open(&s, getpid()))
		return __LINE__;
	if (weir_stats_value(s, 0, "turns", &n) || n)
		return __LINE__;
	weir_stats_close(s);
	if (weir_reactor_destroy(own) || weir_stats_withdraw())
		return __LINE__;
	return 0;
}

static void a_child_has_a_page_of_its_own(void **state)
{
	struct weir_reactor *r;
	struct weir_stats *s;
	int status;
	pid_t pid;

	publish_here(state);
	r = start_reactor(state);
	do_nops(r, 3);
	pid = fork();
	if (!pid)
		_exit(check_child(r, backend_of(*state)) & 0xff);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(weir_stats_update(r), 0);
	s = must_open(getpid());
	assert_int_equal(value_of(s, "reactor", "", "completed"), 3);
	weir_stats_close(s);
	publish_no_more(state);
}

int main(void)
{
	static const struct harness_case cases[] = {
		CASE(a_process_under_load_is_read_from_outside),
		CASE(a_process_at_rest_has_published_all),
		CASE(the_page_of_a_killed_process_is_removed),
		CASE(a_process_that_is_another_program_now_has_no_page),
		CASE(a_page_goes_with_its_process),
		CASE(a_child_has_a_page_of_its_own),
	};

	return harness_run(cases, N_OF(cases));
}
