/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The page of statistics: what a process publishes is what the API says, can be
 * read while it works, and goes when it goes.
 */

#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "tests/stats-kit.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>

#include <weir/file.h>

#include "base/fault.h"
#include "reactor/stats-layout.h"

static struct rec rec;

static void do_nops(struct weir_reactor *r, int n)
{
	for (int i = 0; i < n; i++) {
		rec_init(&rec);
		assert_int_equal(weir_nop(r, &rec.op), 0);
		finish(r, &rec);
	}
}

static void count_post(void *arg)
{
	++*(int *)arg;
}

static void numbers_are_those_that_the_API_tells(void **state)
{
	struct weir_reactor_stats api = { .size = sizeof(api) };
	struct weir_reactor *r;
	struct weir_stats *s;
	int posts = 0;

	publish_here(state);
	r = start_reactor(state);
	do_nops(r, 500);
	for (int i = 0; i < 7; i++)
		assert_int_equal(weir_post(r, count_post, &posts), 0);
	UNTIL(r, posts == 7);
	assert_int_equal(weir_stats_update(r), 0);
	s = must_open(getpid());
	assert_int_equal(weir_reactor_stats(r, &api), 0);
	assert_int_equal(value_of(s, "reactor", "", "turns"), api.turns);
	assert_int_equal(value_of(s, "reactor", "", "started"), api.started);
	assert_int_equal(value_of(s, "reactor", "", "completed"),
			 api.completed);
	assert_int_equal(value_of(s, "reactor", "", "sleeps"), api.sleeps);
	assert_int_equal(value_of(s, "reactor", "", "spin_ns"), api.spin_ns);
	assert_int_equal(value_of(s, "reactor", "", "sleep_ns"), api.sleep_ns);
	assert_int_equal(value_of(s, "mailbox", "", "taken"), api.posts);
	assert_int_equal(value_of(s, "mailbox", "", "posted"), api.posts);
	assert_int_equal(value_of(s, "mailbox", "", "depth"), 0);
	weir_stats_close(s);
	publish_no_more(state);
}

static void operations_are_told_apart_and_timed(void **state)
{
	struct weir_stats_field f = { .size = sizeof(f) };
	struct weir_reactor *r;
	struct weir_stats *s;
	uint64_t half = 0, max;
	char buf[64];
	int fd, i;

	publish_here(state);
	fd = test_file(state, "f", 64, 1);
	r = start_reactor(state);
	do_nops(r, 20);
	rec_init(&rec);
	STARTS(weir_read(r, &rec.op, fd, buf, sizeof(buf), 0));
	assert_int_equal(finish(r, &rec), 64);
	rec_init(&rec);
	STARTS(weir_read(r, &rec.op, -1, buf, sizeof(buf), 0));
	assert_int_equal(finish(r, &rec), -EBADF);
	close(fd);
	s = must_open(getpid());
	assert_int_equal(value_of(s, "operation", "nop", "count"), 20);
	assert_int_equal(value_of(s, "operation", "read", "count"), 2);
	assert_int_equal(value_of(s, "operation", "read", "timed"), 2);
	assert_int_equal(value_of(s, "operation", "read", "failed"), 1);
	i = find_section(s, "operation", "nop");
	assert_int_equal(weir_stats_field(s, (uint32_t)i, 5, &f), 0);
	assert_string_equal(f.name, "latency_ns");
	assert_int_equal(f.value, 20);
	assert_int_equal(weir_stats_quantile(s, (uint32_t)i, 5, 500000, &half),
			 0);
	max = value_of(s, "operation", "nop", "max_ns");
	assert_true(half && half <= max + max / 8 + 64);
	weir_stats_close(s);
	publish_no_more(state);
}

static void on_nop_again(struct weir_op *op, int64_t res)
{
	static int n;

	(void)res;
	if (++n % 20000)
		weir_nop(op->data, op);
	else
		weir_reactor_break(op->data);
}

/* Not all of so many are timed, but those stand for the others. */
static void what_is_timed_stands_for_all(void **state)
{
	struct weir_reactor *r;
	struct weir_stats *s;
	uint64_t count, timed;
	struct weir_op op;

	if (under_valgrind() || UNDER_TSAN || UNDER_ASAN)
		skip_because("operations are too slow here");
	publish_here(state);
	r = start_reactor(state);
	for (int i = 0; i < 10; i++) {
		weir_op_init(&op, on_nop_again);
		op.data = r;
		assert_int_equal(weir_nop(r, &op), 0);
		assert_int_equal(weir_reactor_run(r), 1);
	}
	s = must_open(getpid());
	count = value_of(s, "operation", "nop", "count");
	timed = value_of(s, "operation", "nop", "timed");
	weir_stats_close(s);
	print_message("# %llu timed of 200000, and say %llu\n",
		      (unsigned long long)timed, (unsigned long long)count);
	assert_true(timed < 200000);
	assert_in_range(count, 100000, 300000);
	publish_no_more(state);
}

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

static void nap(void)
{
	struct timespec ts = { .tv_nsec = 1000000 };

	nanosleep(&ts, NULL);
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
	assert_int_equal(count_pages(test_dir(state)), 1);
	assert_int_equal(weir_stats_open(&none, pid), -ESRCH);
	assert_null(none);
	assert_int_equal(count_pages(test_dir(state)), 0);

	pid = begin_child(state, child_works);
	weir_stats_close(open_child(pid));
	end_child(pid);
	assert_int_equal(weir_stats_list(count_one, &n), 0);
	assert_int_equal(count_pages(test_dir(state)), 0);

	pid = begin_child(state, child_works);
	weir_stats_close(open_child(pid));
	end_child(pid);
	assert_int_equal(weir_stats_publish(NULL), 0);
	assert_int_equal(count_pages(test_dir(state)), 1);
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
	assert_int_equal(count_pages(test_dir(state)), 0);
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

/* The table of reactor/README.md. */
static void publishing_goes_by_its_table(void **state)
{
	struct weir_reactor *r = start_reactor(state);

	assert_int_equal(weir_stats_withdraw(), 0);
	assert_int_equal(weir_stats_update(r), -ENOENT);
	publish_here(state);
	assert_int_equal(weir_stats_publish(NULL), 0);
	assert_int_equal(weir_stats_update(r), -ENOENT);
	assert_int_equal(weir_stats_withdraw(), 0);
	assert_int_equal(weir_stats_publish(test_dir(state)), 0);
	end_reactor(state);
	r = start_reactor(state);
	assert_int_equal(weir_stats_publish(NULL), 0);
	assert_int_equal(weir_stats_update(r), 0);
	assert_int_equal(weir_stats_withdraw(), -EBUSY);
	assert_int_equal(count_pages(test_dir(state)), 1);
	publish_no_more(state);
	assert_int_equal(count_pages(test_dir(state)), 0);
}

static void directories_are_checked(void **state)
{
	const char *dir = test_dir(state);

	assert_int_equal(weir_stats_publish("here"), -EINVAL);
	assert_int_equal(weir_stats_publish("/nowhere/at/all"), -ENOENT);
	assert_int_equal(chmod(dir, 0777), 0);
	assert_int_equal(weir_stats_publish(dir), -EACCES);
	assert_non_null(strstr(weir_why(), "chmod 0700"));
	if (!geteuid()) {
		assert_int_equal(chmod(dir, 0700), 0);
		assert_int_equal(chown(dir, 65533, 65533), 0);
		assert_int_equal(weir_stats_publish(dir), -EACCES);
		assert_non_null(strstr(weir_why(), "belongs to user 65533"));
		assert_int_equal(chown(dir, 0, 0), 0);
	}
	assert_int_equal(chmod(dir, 0700), 0);
}

static void a_limit_of_files_is_no_signal(void **state)
{
	struct rlimit was, none = { 4096, 4096 };

	assert_int_equal(getrlimit(RLIMIT_FSIZE, &was), 0);
	none.rlim_max = was.rlim_max;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &none), 0);
	assert_int_equal(weir_stats_publish(test_dir(state)), -EFBIG);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &was), 0);
}

/* Whatever fails, a program runs without a page, or is told. */
static void each_failure_leaves_nothing_behind(void **state)
{
	const char *dir = test_dir(state);
	struct weir_stats *s = NULL;
	int err = 1, fds = count_fds();

	assert_int_equal(chmod(dir, 0700), 0);
	assert_int_equal(setenv("WEIR_STATS", dir, 1), 0);
	for (int n = 0; err; n++) {
		fault_arm(n);
		err = weir_stats_publish(NULL);
		if (!fault_disarm())
			break;
		if (!err)
			weir_stats_withdraw();
		assert_int_equal(count_pages(dir), 0);
		assert_int_equal(count_fds(), fds);
	}
	weir_stats_publish(NULL);
	start_reactor(state);
	fds = count_fds();
	for (int n = 0;; n++) {
		fault_arm(n);
		err = weir_stats_open(&s, getpid());
		if (!fault_disarm())
			break;
		if (!err)
			weir_stats_close(s);
		assert_int_equal(count_fds(), fds);
	}
	assert_int_equal(err, 0);
	for (int n = 0;; n++) {
		fault_arm(n);
		err = weir_stats_read(s);
		if (!fault_disarm())
			break;
		assert_true(err < 0);
		ask_everything(s);
	}
	weir_stats_close(s);
	publish_no_more(state);
}

static void a_stopped_and_a_hosted_reactor_publish(void **state)
{
	struct weir_reactor *r;
	struct weir_stats *s;

	publish_here(state);
	r = start_reactor(state);
	assert_true(weir_reactor_fd(r) >= 0);
	do_nops(r, 5);
	some_turns(r, 3);
	s = must_open(getpid());
	for (int i = 0; value_of(s, "reactor", "", "completed") < 5; i++) {
		assert_true(i < 1000);
		nap();
		some_turns(r, 1);
		assert_int_equal(weir_stats_read(s), 0);
	}
	assert_int_equal(value_of(s, "reactor", "", "asleep"), 1);
	weir_reactor_stop(r);
	assert_int_equal(weir_reactor_run(r), 0);
	assert_int_equal(weir_stats_update(r), 0);
	assert_int_equal(weir_stats_read(s), 0);
	assert_int_equal(value_of(s, "reactor", "", "state"),
			 WEIR_REACTOR_STOPPED);
	weir_stats_close(s);
	publish_no_more(state);
}

int main(void)
{
	static const struct harness_case cases[] = {
		CASE(numbers_are_those_that_the_API_tells),
		CASE(operations_are_told_apart_and_timed),
		CASE(what_is_timed_stands_for_all),
		CASE(a_process_under_load_is_read_from_outside),
		CASE(a_process_at_rest_has_published_all),
		CASE(the_page_of_a_killed_process_is_removed),
		CASE(a_process_that_is_another_program_now_has_no_page),
		CASE(a_page_goes_with_its_process),
		CASE(a_child_has_a_page_of_its_own),
		CASE(publishing_goes_by_its_table),
		CASE(directories_are_checked),
		CASE(a_limit_of_files_is_no_signal),
		CASE(each_failure_leaves_nothing_behind),
		CASE(a_stopped_and_a_hosted_reactor_publish),
	};

	return harness_run(cases, N_OF(cases));
}
