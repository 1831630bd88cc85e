/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The page of statistics: what a process publishes is what the API says, can be
 * read while it works, and goes when it goes.
 */

#include "tests/support/group-fixture.h"
#include "tests/support/stats-fixture.h"

#include <signal.h>
#include <stdatomic.h>
#include <sys/resource.h>

#include <weir/file.h>

#include "base/fault.h"
#include "reactor/stats/layout.h"

static struct rec rec;

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

static void refusals_for_capacity_are_counted(void **state)
{
	struct weir_reactor_opts opts = { .mailbox = 4 };
	struct weir_reactor *r;
	struct weir_stats *s;
	int posts = 0;

	publish_here(state);
	r = start_reactor_with(state, opts);
	for (int i = 0; i < 7; i++)
		assert_int_equal(weir_post(r, count_post, &posts),
				 i < 4 ? 0 : -EAGAIN);
	assert_int_equal(weir_stats_update(r), 0);
	s = must_open(getpid());
	assert_int_equal(value_of(s, "mailbox", "", "refused"), 3);
	assert_int_equal(value_of(s, "mailbox", "", "posted"), 4);
	weir_stats_close(s);
	UNTIL(r, posts == 4);
	publish_no_more(state);
}

static void hold_up(void *arg)
{
	while (!atomic_load((atomic_bool *)arg))
		sched_yield();
}

/* Of all mailboxes on the page. */
static uint64_t refused_in(const struct weir_stats *s)
{
	struct weir_stats_section section = { .size = sizeof(section) };
	uint64_t sum = 0, value;

	for (uint32_t i = 0; !weir_stats_section(s, i, &section); i++)
		if (!weir_stats_value(s, i, "refused", &value) &&
		    !strcmp(section.kind, "mailbox"))
			sum += value;
	return sum;
}

/* Who was refused by a ring, too, is counted where the ring leads. */
static void refusals_of_a_ring_are_counted_at_the_ring(void **state)
{
	atomic_bool go_on = false;
	struct weir_stats *s;
	int posts = 0;
	struct team t;

	publish_here(state);
	team_begin(&t, state, 2, 4);
	assert_int_equal(weir_post(t.r[1], hold_up, &go_on), 0);
	while (!weir_post(t.r[1], count_post, &posts))
		;
	atomic_store(&go_on, true);
	s = must_open(getpid());
	while (!refused_in(s)) {
		sched_yield();
		assert_int_equal(weir_stats_read(s), 0);
	}
	assert_int_equal(refused_in(s), 1);
	weir_stats_close(s);
	team_end(&t);
	publish_no_more(state);
}

/*
 * Slowly enough that all are timed: a reactor times all operations while it
 * starts fewer than 8,192 in a second, measured over at least a millisecond
 * (stats/publish.c).  The sleeps keep the rate below that on any machine: two
 * operations in a millisecond.
 */
static void do_nops_slowly(struct weir_reactor *r, int n)
{
	while (n--) {
		do_nops(r, 1);
		rec_init(&rec);
		STARTS(weir_sleep_until(r, &rec.op,
					weir_reactor_now(r) + WEIR_MSEC));
		assert_int_equal(finish(r, &rec), 0);
	}
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
	do_nops_slowly(r, 20);
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
static void sampled_times_stand_for_all(void **state)
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

/* This process offers its page in the test's directory. */
static struct weir_reactor *start_offering(void **state)
{
	assert_int_equal(chmod(test_dir(state), 0700), 0);
	assert_int_equal(setenv("WEIR_STATS", "0", 1), 0);
	assert_int_equal(weir_stats_offer(test_dir(state)), 0);
	setenv("WEIR_STATS", test_dir(state), 1);
	return start_reactor(state);
}

static uint64_t started(struct weir_stats *s)
{
	assert_int_equal(weir_stats_read(s), 0);
	return value_of(s, "reactor", "", "started");
}

static void an_offered_page_is_written_while_a_reader_wants_it(void **state)
{
	struct weir_stats_info info = { .size = sizeof(info) };
	struct weir_reactor *r = start_offering(state);
	struct weir_stats *s;
	uint64_t before, now;

	do_nops(r, 1000);
	s = must_open(getpid());
	assert_int_equal(weir_stats_info(s, &info), 0);
	assert_int_equal(info.offered, 1);
	assert_int_equal(started(s), 0);
	/* An update writes, and does not begin to measure. */
	assert_int_equal(weir_stats_update(r), 0);
	do_nops(r, 1000);
	assert_int_equal(started(s), 1000);
	assert_int_equal(find_section(s, "operation", "nop"), -1);
	assert_int_equal(weir_stats_want(s, 20 * WEIR_MSEC), 0);
	/* What was not measured is counted all the same. */
	while (started(s) < 2000)
		do_nops(r, 100);
	while (find_section(s, "operation", "nop") < 0) {
		do_nops(r, 100);
		started(s);
	}
	/* And nothing is written when it is over. */
	do {
		before = started(s);
		do_nops(r, 1000);
		now = started(s);
	} while (now != before);
	weir_stats_close(s);
	publish_no_more(state);
}

static void a_longer_wish_of_another_reader_stays(void **state)
{
	struct weir_reactor *r = start_offering(state);
	struct weir_stats *s = must_open(getpid());
	uint64_t before;

	assert_int_equal(weir_stats_want(s, 600 * WEIR_SEC), 0);
	assert_int_equal(weir_stats_want(s, 1), 0);
	while (!started(s))
		do_nops(r, 100);
	before = started(s);
	while (started(s) < before + 1000)
		do_nops(r, 100);
	weir_stats_close(s);
	publish_no_more(state);
}

static void publishing_makes_an_offered_page_one_that_is_written(void **state)
{
	struct weir_reactor *r = start_offering(state);
	struct weir_stats *s;

	assert_int_equal(weir_stats_publish(NULL), 0);
	assert_int_equal(weir_stats_offer(NULL), 0);
	s = must_open(getpid());
	assert_int_equal(weir_stats_want(s, 0), 0);
	while (!started(s))
		do_nops(r, 100);
	weir_stats_close(s);
	publish_no_more(state);
}

static void wishes_are_checked(void **state)
{
	struct rlimit lim, small;
	struct weir_stats *s;

	start_offering(state);
	s = must_open(getpid());
	assert_int_equal(weir_stats_want(s, 3600 * WEIR_SEC), 0);
	assert_int_equal(weir_stats_want(s, 3600 * WEIR_SEC + 1), -EINVAL);
	assert_int_equal(weir_stats_offer("here"), -EINVAL);
	fault_arm(0);
	assert_int_equal(weir_stats_want(s, 3600 * WEIR_SEC), -EMFILE);
	fault_disarm();
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &lim), 0);
	small = lim;
	small.rlim_cur = 100;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
	assert_int_equal(weir_stats_want(s, 3600 * WEIR_SEC), -EACCES);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &lim), 0);
	weir_stats_close(s);
	publish_no_more(state);
}

/* The table of docs/internals/reactor.md. */
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
	assert_int_equal(count_entries(test_dir(state)), 1);
	publish_no_more(state);
	assert_int_equal(count_entries(test_dir(state)), 0);
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
static void failed_publish_leaves_nothing_behind(void **state)
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
		assert_int_equal(count_entries(dir), 0);
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

/* What a reader sees while the callback runs. */
static void look_at_it(void *arg)
{
	struct weir_stats *s = must_open(getpid());

	*(uint64_t *)arg = value_of(s, "reactor", "", "asleep");
	weir_stats_close(s);
}

static void a_hosted_reactor_sleeps_between_its_turns(void **state)
{
	uint64_t asleep = 2;
	struct weir_reactor *r;

	publish_here(state);
	r = start_reactor(state);
	assert_true(weir_reactor_fd(r) >= 0);
	for (int i = 0; i < 3; i++) {
		some_turns(r, 2);
		look_at_it(&asleep);
		assert_int_equal(asleep, 1);
		assert_int_equal(weir_post(r, look_at_it, &asleep), 0);
		some_turns(r, 2);
		assert_int_equal(asleep, 0);
	}
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
		CASE(refusals_for_capacity_are_counted),
		CASE(refusals_of_a_ring_are_counted_at_the_ring),
		CASE(operations_are_told_apart_and_timed),
		CASE(sampled_times_stand_for_all),
		CASE(an_offered_page_is_written_while_a_reader_wants_it),
		CASE(a_longer_wish_of_another_reader_stays),
		CASE(publishing_makes_an_offered_page_one_that_is_written),
		CASE(wishes_are_checked),
		CASE(publishing_goes_by_its_table),
		CASE(directories_are_checked),
		CASE(a_limit_of_files_is_no_signal),
		CASE(failed_publish_leaves_nothing_behind),
		CASE(a_hosted_reactor_sleeps_between_its_turns),
		CASE(a_stopped_and_a_hosted_reactor_publish),
	};

	return harness_run(cases, N_OF(cases));
}
