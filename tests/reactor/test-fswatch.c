/* SPDX-License-Identifier: BSD-3-Clause */

/* Changes of files, <weir/fswatch.h>. */

#include "tests/support/harness.h"

#include <sys/inotify.h>

#include <weir/fswatch.h>

#include "tests/support/fault-fixture.h"

#define CHANGES_MAX 64

struct change {
	uint32_t mask;
	int id, from_id;
	void *data, *from_data;
	char name[32], from_name[32];
};

/* What was reported. */
static struct seen {
	struct change at[CHANGES_MAX];
	unsigned int n;
	struct weir_fswatch *watch;
	int remove;		/* In the callback; 0: nothing. */
	bool destroy;
} seen;

static void on_change(struct weir_fswatch *watch,
		      const struct weir_fswatch_event *e, void *arg)
{
	struct seen *s = arg;
	struct change *c = &s->at[s->n % CHANGES_MAX];

	assert_ptr_equal(watch, s->watch);
	s->n++;
	*c = (struct change){ .mask = e->mask, .id = e->id, .data = e->data,
			      .from_id = e->from_id,
			      .from_data = e->from_data };
	snprintf(c->name, sizeof(c->name), "%s", e->name ? e->name : "");
	snprintf(c->from_name, sizeof(c->from_name), "%s",
		 e->from_name ? e->from_name : "");
	if (s->remove) {
		assert_int_equal(weir_fswatch_remove(watch, s->remove), 0);
		s->remove = 0;
	}
	if (s->destroy) {
		weir_fswatch_destroy(watch);
		s->watch = NULL;
	}
}

static struct weir_fswatch *begin(struct weir_reactor *r)
{
	memset(&seen, 0, sizeof(seen));
	assert_int_equal(weir_fswatch_create(&seen.watch, r, on_change, &seen),
			 0);
	return seen.watch;
}

/* Turns until there are @n reports. */
static void expect(struct weir_reactor *r, unsigned int n)
{
	while (seen.n < n)
		assert_true(weir_reactor_turn(r, WEIR_FOREVER) >= 0);
	some_turns(r, 3);
	assert_int_equal(seen.n, n);
}

static void is(unsigned int i, uint32_t mask, int id, const char *name)
{
	const struct change *c = &seen.at[i];

	if (c->mask != mask || c->id != id || strcmp(c->name, name))
		fail_msg("change %u: %#x of %d, '%s', not %#x of %d, '%s'", i,
			 c->mask, c->id, c->name, mask, id, name);
	if ((mask & IN_MOVE) != IN_MOVE)
		assert_true(!c->from_id && !*c->from_name && !c->from_data);
}

static void make(void **state, const char *name)
{
	close(test_file(state, name, 0, 0));
}

static void move(void **state, const char *from, const char *to)
{
	assert_int_equal(rename(test_path(state, from), test_path(state, to)),
			 0);
}

static void changes_are_reported_in_order(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_fswatch *w = begin(r);
	int data, id = weir_fswatch_add(w, test_dir(state), IN_CREATE |
					IN_DELETE | IN_CLOSE_WRITE, &data);

	assert_true(id > 0);
	make(state, "one");
	test_mkdir(state, "two");
	assert_int_equal(rmdir(test_path(state, "two")), 0);
	expect(r, 4);
	is(0, IN_CREATE, id, "one");
	is(1, IN_CLOSE_WRITE, id, "one");
	is(2, IN_CREATE | IN_ISDIR, id, "two");
	is(3, IN_DELETE | IN_ISDIR, id, "two");
	assert_ptr_equal(seen.at[0].data, &data);
	weir_fswatch_destroy(w);
}

static void move_between_watched_directories_is_one_event(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_fswatch *w = begin(r);
	int data[2], a, b;

	test_mkdir(state, "a");
	test_mkdir(state, "b");
	a = weir_fswatch_add(w, test_path(state, "a"), IN_MOVE | IN_CREATE,
			     &data[0]);
	b = weir_fswatch_add(w, test_path(state, "b"), IN_MOVE, &data[1]);
	make(state, "a/x");
	move(state, "a/x", "b/y");
	move(state, "b/y", "b/z");
	expect(r, 3);
	is(0, IN_CREATE, a, "x");
	is(1, IN_MOVE, b, "y");
	assert_int_equal(seen.at[1].from_id, a);
	assert_string_equal(seen.at[1].from_name, "x");
	assert_ptr_equal(seen.at[1].from_data, &data[0]);
	assert_ptr_equal(seen.at[1].data, &data[1]);
	is(2, IN_MOVE, b, "z");
	assert_string_equal(seen.at[2].from_name, "y");
	weir_fswatch_destroy(w);
}

/* Out of sight, and back in. */
static void half_of_a_move_is_reported_alone(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_fswatch *w = begin(r);
	int id;

	test_mkdir(state, "in");
	test_mkdir(state, "out");
	make(state, "in/x");
	id = weir_fswatch_add(w, test_path(state, "in"), IN_MOVE | IN_CREATE,
			      NULL);
	move(state, "in/x", "out/x");
	expect(r, 1);
	is(0, IN_MOVED_FROM, id, "x");
	move(state, "out/x", "in/y");
	expect(r, 2);
	is(1, IN_MOVED_TO, id, "y");
	/* What comes next ends the waiting, and comes after it. */
	move(state, "in/y", "out/y");
	make(state, "in/y");
	expect(r, 4);
	is(2, IN_MOVED_FROM, id, "y");
	is(3, IN_CREATE, id, "y");
	weir_fswatch_destroy(w);
}

static void removed_watch_reports_nothing(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_fswatch *w = begin(r);
	int a, b;

	test_mkdir(state, "a");
	test_mkdir(state, "b");
	a = weir_fswatch_add(w, test_path(state, "a"), IN_CREATE | IN_MOVE,
			     NULL);
	b = weir_fswatch_add(w, test_path(state, "b"), IN_CREATE, NULL);
	make(state, "a/1");
	make(state, "a/2");
	make(state, "b/3");
	seen.remove = a;
	expect(r, 2);
	is(0, IN_CREATE, a, "1");
	is(1, IN_CREATE, b, "3");
	assert_int_equal(weir_fswatch_remove(w, a), -EINVAL);
	/* Nor a half that is kept. */
	a = weir_fswatch_add(w, test_path(state, "a"), IN_MOVE, NULL);
	move(state, "a/1", "1");
	some_turns(r, 2);
	assert_int_equal(weir_fswatch_remove(w, a), 0);
	make(state, "b/4");
	expect(r, 3);
	is(2, IN_CREATE, b, "4");
	weir_fswatch_destroy(w);
}

static void watch_of_what_is_gone_ends(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_fswatch *w = begin(r);
	int id;

	test_mkdir(state, "a");
	id = weir_fswatch_add(w, test_path(state, "a"), IN_DELETE_SELF, NULL);
	assert_int_equal(rmdir(test_path(state, "a")), 0);
	expect(r, 2);
	is(0, IN_DELETE_SELF, id, "");
	is(1, IN_IGNORED, id, "");
	assert_int_equal(weir_fswatch_remove(w, id), -EINVAL);
	weir_fswatch_destroy(w);
}

static void refused_watches_say_why(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_fswatch *w = begin(r);
	const char *dir = test_dir(state);

	make(state, "file");
	assert_int_equal(weir_fswatch_add(w, NULL, IN_CREATE, NULL), -EINVAL);
	assert_int_equal(weir_fswatch_add(w, dir, IN_ONLYDIR, NULL), -EINVAL);
	assert_int_equal(weir_fswatch_add(w, dir, IN_CREATE | IN_Q_OVERFLOW,
					  NULL), -EINVAL);
	assert_int_equal(weir_fswatch_add(w, test_path(state, "none"),
					  IN_CREATE, NULL), -ENOENT);
	assert_int_equal(weir_fswatch_add(w, test_path(state, "file"),
					  IN_MODIFY | IN_ONLYDIR, NULL),
			 -ENOTDIR);
	assert_true(weir_fswatch_add(w, dir, IN_CREATE, NULL) > 0);
	assert_int_equal(weir_fswatch_add(w, dir, IN_DELETE, NULL), -EEXIST);
	assert_non_null(strstr(weir_why(), dir));
	assert_int_equal(weir_fswatch_create(&w, r, NULL, NULL), -EINVAL);
	weir_fswatch_destroy(seen.watch);
	weir_fswatch_destroy(NULL);
}

static void watched_files_have_their_data(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_fswatch *w = begin(r);
	static char data[CHANGES_MAX];
	int ids[CHANGES_MAX], fd;
	char name[24];

	for (size_t i = 0; i < CHANGES_MAX; i++) {
		snprintf(name, sizeof(name), "%zu", i);
		make(state, name);
		ids[i] = weir_fswatch_add(w, test_path(state, name),
					  IN_ATTRIB, &data[i]);
		assert_true(ids[i] > 0);
	}
	for (size_t i = 0; i < CHANGES_MAX; i += 2)
		assert_int_equal(weir_fswatch_remove(w, ids[i]), 0);
	for (size_t i = CHANGES_MAX; i--;) {
		snprintf(name, sizeof(name), "%zu", i);
		fd = open(test_path(state, name), O_RDONLY | O_CLOEXEC);
		assert_int_equal(fchmod(fd, 0640), 0);
		close(fd);
	}
	expect(r, CHANGES_MAX / 2);
	for (size_t i = 0; i < CHANGES_MAX / 2; i++) {
		is((unsigned int)i, IN_ATTRIB, ids[CHANGES_MAX - 1 - 2 * i],
		   "");
		assert_ptr_equal(seen.at[i].data,
				 &data[CHANGES_MAX - 1 - 2 * i]);
	}
	weir_fswatch_destroy(w);
}

static void callback_may_destroy_the_watch(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_fswatch *w = begin(r);

	assert_true(weir_fswatch_add(w, test_dir(state), IN_ALL_EVENTS, NULL) >
		    0);
	make(state, "one");
	make(state, "two");
	seen.destroy = true;
	expect(r, 1);
	assert_null(seen.watch);
	/* And when it is the timer that reports. */
	w = begin(r);
	assert_true(weir_fswatch_add(w, test_dir(state), IN_MOVE, NULL) > 0);
	test_mkdir(state, "out");
	move(state, "one", "out/one");
	seen.destroy = true;
	expect(r, 1);
	assert_null(seen.watch);
}

static long queued_max(void)
{
	FILE *f = fopen("/proc/sys/fs/inotify/max_queued_events", "re");
	long n = -1;

	if (!f || fscanf(f, "%ld", &n) != 1)
		n = -1;
	if (f)
		fclose(f);
	return n;
}

static void loss_of_events_is_reported(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_fswatch *w = begin(r);
	long n = queued_max();
	int a, b;

	if (n < 0 || n > 100000) {
		weir_fswatch_destroy(w);
		skip_because("the queue of inotify has no known end");
	}
	a = test_file(state, "a", 0, 0);
	b = test_file(state, "b", 0, 0);
	assert_true(weir_fswatch_add(w, test_path(state, "a"), IN_ATTRIB, NULL)
		    > 0);
	assert_true(weir_fswatch_add(w, test_path(state, "b"), IN_ATTRIB, NULL)
		    > 0);
	/* Two files in turn, or the kernel would merge the events. */
	for (long i = 0; i <= n; i++)
		assert_int_equal(fchmod(i & 1 ? a : b, 0600), 0);
	while (!(seen.at[(seen.n - 1) % CHANGES_MAX].mask & IN_Q_OVERFLOW))
		assert_true(weir_reactor_turn(r, WEIR_FOREVER) >= 0);
	is((seen.n - 1) % CHANGES_MAX, IN_Q_OVERFLOW, -1, "");
	weir_fswatch_destroy(w);
	close(a);
	close(b);
}

/* What happens meanwhile is reported when it runs again, a half, too. */
static void stopped_reactor_reports_nothing(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_fswatch *w = begin(r), *other;
	int id = weir_fswatch_add(w, test_dir(state), IN_CREATE | IN_MOVE,
				  NULL);
	struct rec late;
	uint64_t then;

	make(state, "one");
	test_mkdir(state, "out");
	move(state, "one", "out/one");
	while (seen.n < 2)
		assert_true(weir_reactor_turn(r, WEIR_FOREVER) >= 0);
	/* The stop takes longer than a half is kept. */
	rec_init(&late);
	STARTS(weir_op_start(r, &late.op, NULL, NULL));
	weir_reactor_stop(r);
	then = weir_reactor_now(r) + 20 * WEIR_MSEC;
	UNTIL(r, weir_reactor_now(r) >= then);
	assert_int_equal(seen.n, 2);
	assert_int_equal(weir_op_finish(&late.op, 0), 0);
	assert_int_equal(weir_reactor_run(r), 0);
	assert_int_equal(weir_fswatch_create(&other, r, on_change, NULL),
			 -ESHUTDOWN);
	assert_non_null(strstr(weir_why(), "is stopping"));
	make(state, "two");
	assert_int_equal(seen.n, 2);
	assert_int_equal(weir_reactor_start(r), 0);
	expect(r, 4);
	is(2, IN_MOVED_FROM, id, "one");
	is(3, IN_CREATE, id, "two");
	weir_fswatch_destroy(w);
}

static void watch_that_failed_is_made_again(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_fswatch *w = begin(r);
	int id = weir_fswatch_add(w, test_dir(state), IN_CREATE, NULL);

	restart_unwatched(r);
	some_turns(r, 3);
	make(state, "one");
	expect(r, 1);
	is(0, IN_CREATE, id, "one");
	weir_fswatch_destroy(w);
}

static void failed_create_and_add_leave_nothing(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_fswatch *w;
	int fds, err = -1, id = -1;

	weir_fswatch_destroy(begin(r));
	some_turns(r, 3);
	fds = count_fds();
	for (long nth = 0; err; nth++) {
		w = NULL;
		fault_arm(nth);
		err = weir_fswatch_create(&w, r, on_change, &seen);
		if (fault_disarm())
			assert_true(err == -ENOMEM || err == -EMFILE);
		some_turns(r, 3);
		if (err)
			assert_int_equal(count_fds(), fds);
	}
	seen.watch = w;
	for (long nth = 0; id < 0; nth++) {
		fault_arm(nth);
		id = weir_fswatch_add(w, test_dir(state), IN_CREATE, NULL);
		if (fault_disarm())
			assert_int_equal(id, -ENOMEM);
	}
	weir_fswatch_destroy(w);
}

int main(void)
{
	static const struct harness_case cases[] = {
		CASE(changes_are_reported_in_order),
		CASE(move_between_watched_directories_is_one_event),
		CASE(half_of_a_move_is_reported_alone),
		CASE(removed_watch_reports_nothing),
		CASE(watch_of_what_is_gone_ends),
		CASE(refused_watches_say_why),
		CASE(watched_files_have_their_data),
		CASE(callback_may_destroy_the_watch),
		CASE(loss_of_events_is_reported),
		CASE(stopped_reactor_reports_nothing),
		CASE(watch_that_failed_is_made_again),
		CASE(failed_create_and_add_leave_nothing),
	};

	return harness_run(cases, N_OF(cases));
}
