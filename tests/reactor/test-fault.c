/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The fault sweep: a scenario with one of everything, in which the first, the
 * second, ... fault point fails, until there is none left.  Each time: an errno
 * and not a crash, every operation that was started has its callback, once, and
 * nothing stays behind; leaks are LSan's and valgrind's to find, descriptors
 * ours.
 */

#include "tests/support/fault-fixture.h"
#include "tests/support/harness.h"
#include "tests/support/ignore.h"
#include "tests/support/op-kinds.h"

#include <linux/openat2.h>
#include <malloc.h>
#include <signal.h>

#include <weir/fs.h>
#include <weir/timer.h>
#include <weir/watch.h>

#define N_MAX 5000	/* Points in one scenario; far more than there are. */
#define N_OPS 64

struct play {
	struct weir_reactor *r;
	struct stage stage;
	struct stage each[N_OPS];	/* The same, with memory of its own. */
	struct rec rec[N_OPS];
	bool begun[N_OPS];
	struct weir_acceptor *acceptor;
	struct weir_receiver *receiver;
	struct weir_watch *watch;
	struct weir_event *event;
	struct weir_signal *signal;
	struct weir_poller *poller;
	struct weir_poll_hook *hook;
	struct weir_timer *timer;
};

/* What a creator answers is 0 or an errno, and then it made nothing. */
static void made(const char *what, int err, const void *obj)
{
	if (err > 0 || err < -4095 || (!err && !obj) || (err && obj))
		fail_msg("%s: %d with %p, at %s", what, err, obj,
			 fault_last());
	if (err && !strlen(weir_why()))
		fail_msg("%s: %d without a message, at %s", what, err,
			 fault_last());
}

#define MADE(call, obj)                  \
	do {                             \
		int made_ = (call);      \
		made(#call, made_, obj); \
	} while (0)

static const struct weir_poll_hook_ops hook_ops = {
	.size = sizeof(hook_ops),
	.poll = ignore_hook_poll,
	.before_sleep = ignore_before_sleep,
};

static void make_sources(struct play *p)
{
	struct stage *s = &p->stage;

	MADE(weir_timer_create(&p->timer, p->r, ignore_timer, p), p->timer);
	MADE(weir_acceptor_create(&p->acceptor, p->r, s->listener,
				  ignore_connection, p),
	     p->acceptor);
	MADE(weir_receiver_create(&p->receiver, p->r, s->full[1], NULL, ignore_data,
				  p),
	     p->receiver);
	MADE(weir_watch_create(&p->watch, p->r, s->pipe[0], WEIR_READABLE,
			       ignore_watch, p),
	     p->watch);
	MADE(weir_event_create(&p->event, p->r, ignore_event, p), p->event);
	MADE(weir_signal_create(&p->signal, p->r, SIGUSR2, ignore_signal, p),
	     p->signal);
	MADE(weir_poller_create(&p->poller, p->r, WEIR_SEC, ignore_poll, p),
	     p->poller);
	MADE(weir_poll_hook_create(&p->hook, p->r, &hook_ops, &s->pipe[0]),
	     p->hook);
	if (p->timer)
		weir_timer_start(p->timer, 1, 0);
	if (p->event)
		weir_event_signal(p->event);
}

static void destroy_sources(struct play *p)
{
	weir_timer_destroy(p->timer);
	weir_acceptor_destroy(p->acceptor);
	weir_receiver_destroy(p->receiver);
	weir_watch_destroy(p->watch);
	weir_event_destroy(p->event);
	weir_signal_destroy(p->signal);
	weir_poller_destroy(p->poller);
	weir_poll_hook_destroy(p->hook);
}

static void start_all(struct play *p)
{
	size_t i;
	int err;

	for (i = 0; i < n_op_kinds; i++) {
		rec_init(&p->rec[i]);
		p->each[i] = p->stage;
		stage_use_own_memory(&p->each[i]);
		err = op_kinds[i].start(&p->each[i], &p->rec[i].op);
		if (err > 0 || err < -4095)
			fail_msg("%s start: %d", op_kinds[i].name, err);
		p->begun[i] = !err;
	}
}

static void release_all(struct play *p)
{
	size_t i;

	for (i = 0; i < n_op_kinds; i++)
		if (op_kinds[i].release && op_kinds[i].res != OP_GIVES_FD)
			op_kinds[i].release(&p->stage);
}

static void check_ends(struct play *p)
{
	size_t i;

	for (i = 0; i < n_op_kinds; i++) {
		struct rec *rec = &p->rec[i];

		if (rec->calls != p->begun[i])
			fail_msg("%s %d callbacks at %s", op_kinds[i].name,
				 rec->calls, fault_last());
		if (rec->calls && rec->res < -4095)
			fail_msg("%s %lld at %s", op_kinds[i].name,
				 (long long)rec->res, fault_last());
		if (op_kinds[i].res == OP_GIVES_FD && rec->calls &&
		    rec->res >= 0)
			close((int)rec->res);
	}
}

/* Some turns may fail because waiting does: that too is only an errno. */
static void turns(struct weir_reactor *r, int n)
{
	int res;

	while (n--) {
		res = weir_reactor_turn(r, WEIR_MSEC / 10);
		if (res < -4095)
			fail_msg("turn: %d at %s", res, fault_last());
	}
}

static void end(struct play *p)
{
	int err, tries;

	/* A destroy that fails has changed nothing that a second one minds. */
	for (tries = 0; tries < 3; tries++) {
		err = weir_reactor_destroy(p->r);
		if (!err)
			return;
		if (err < -4095 || err > 0)
			break;
	}
	fail_msg("destroy: %d at %s: %s", err, fault_last(), weir_why());
}

/* 1 if a point failed in it, 0 if there were not so many. */
static int scenario(void **state, long nth)
{
	struct weir_reactor_opts opts = {
		.size = sizeof(opts),
		.backend = backend_of(*state),
		.rx_bufs = 4,
	};
	struct play *p = calloc(1, sizeof(*p));
	int err, fds, fired;

	assert_non_null(p);
	assert_true(n_op_kinds <= N_OPS);
	fds = count_fds();
	stage_begin(&p->stage, state, NULL);
	fault_arm(nth);
	err = weir_reactor_create(&p->r, &opts);
	made("weir_reactor_create", err, p->r);
	if (!err) {
		p->stage.r = p->r;
		weir_fd_register(p->r, p->stage.file);
		err = weir_reactor_fd(p->r);
		if (err < -4095)
			fail_msg("weir_reactor_fd: %d", err);
		start_all(p);
		make_sources(p);
		turns(p->r, 3);
		release_all(p);
		turns(p->r, 3);
		destroy_sources(p);
		weir_fd_unregister(p->r, p->stage.file);
		end(p);
		check_ends(p);
	}
	fired = fault_disarm();
	stage_end(&p->stage);
	free(p);
	if (count_fds() != fds)
		fail_msg("%d descriptors, not %d, after %s", count_fds(), fds,
			 fault_last());
	return fired;
}

/* Without faults, that it is a scenario and not an accident. */
static void the_scenario_works(void **state)
{
	assert_int_equal(scenario(state, N_MAX), 0);
}

static void reactor_survives_every_fault_point(void **state)
{
	long step = want_long() ? 1 : under_valgrind() ? 7 : 1;
	long n, first = want_long() ? 0 : (long)(getpid() % step);

	for (n = first; n < N_MAX; n += step) {
		alarm(60);
		if (!scenario(state, n))
			break;
	}
	assert_true(n > 10 && n < N_MAX);
	printf("# %s: %ld fault points\n",
	       ((struct world *)*state)->backend, n);
}

/* Where a close takes a worker, and none can be had. */
static void a_close_closes_whatever_fails(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct rec rec;
	int fd;
	long n;

	for (n = 0; n < 3; n++) {
		fd = test_file(state, "file", 10, 1);
		rec_init(&rec);
		fault_arm(n);
		STARTS(weir_close(r, &rec.op, fd));
		fault_disarm();
		finish(r, &rec);
		assert_int_equal(fcntl(fd, F_GETFD), -1);
	}
}

static int new_to_this_kernel(const char *name)
{
	return !strcmp(name, "openat2") || !strcmp(name, "rw_flags") ||
	       !strcmp(name, "fchmodat2");
}

static void old_kernel_is_told_before_the_start(void **state)
{
	static const uint32_t flags[] = { WEIR_RW_ATOMIC, WEIR_RW_DONTCACHE };
	struct weir_reactor *r = start_reactor(state);
	struct open_how how = { .flags = O_RDONLY };
	int fd = test_file(state, "file", 10, 1);
	struct iovec iov = { "x", 1 };
	struct rec rec;

	rec_init(&rec);
	fault_ask(new_to_this_kernel);
	assert_int_equal(weir_open_how(r, &rec.op, AT_FDCWD, "x", &how,
				       sizeof(how)), -EOPNOTSUPP);
	assert_non_null(strstr(weir_why(), "weir_open_how: "));
	for (size_t i = 0; i < N_OF(flags); i++) {
		assert_int_equal(weir_op_set_rw(&rec.op, flags[i], 0), 0);
		assert_int_equal(weir_write(r, &rec.op, fd, "x", 1, 0),
				 -EOPNOTSUPP);
		assert_non_null(strstr(weir_why(), i ? "RWF_DONTCACHE" :
						       "RWF_ATOMIC"));
		assert_int_equal(weir_writev(r, &rec.op, fd, &iov, 1, 0),
				 -EOPNOTSUPP);
	}
	/* What every kernel knows is not asked for. */
	assert_int_equal(weir_op_set_rw(&rec.op, WEIR_RW_DSYNC, 0), 0);
	STARTS(weir_write(r, &rec.op, fd, "x", 1, 0));
	assert_int_equal(finish(r, &rec), 1);
	fault_ask(NULL);
	close(fd);
}

static int64_t chmod_of(struct weir_reactor *r, const char *path, int flags)
{
	struct rec rec;

	rec_init(&rec);
	STARTS(weir_chmod(r, &rec.op, AT_FDCWD, path, 0604, flags));
	return finish(r, &rec);
}

static void old_kernel_has_chmod_of_all_but_links(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	int fd = test_file(state, "file", 10, 1);
	const char *path = test_path(state, "file");
	struct stat st;

	fault_ask(new_to_this_kernel);
	assert_int_equal(chmod_of(r, path, AT_EMPTY_PATH), 0);
	assert_int_equal(chmod_of(r, path, AT_SYMLINK_NOFOLLOW), -EOPNOTSUPP);
	fault_ask(NULL);
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_mode, S_IFREG | 0604);
	close(fd);
}

static struct weir_watch *watches[3];
static int n_errors;

/* Of any of them, the first. */
static void on_error(struct weir_watch *watch, uint32_t events, void *arg)
{
	(void)watch;
	n_errors++;
	assert_int_equal(events, WEIR_ERROR);
	for (size_t i = 0; i < N_OF(watches); i++)
		weir_watch_destroy(watches[i]);
	assert_int_equal(weir_reactor_destroy(arg), -EBUSY);
	assert_non_null(strstr(weir_why(), "called from a callback"));
}

static void callback_in_a_start_may_destroy_all_watches(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	int p[2];

	pipe_pair(p);
	for (size_t i = 0; i < N_OF(watches); i++)
		assert_int_equal(weir_watch_create(&watches[i], r, p[0],
						   WEIR_READABLE, on_error, r),
				 0);
	n_errors = 0;
	/* What is freed is overwritten. */
	mallopt(M_PERTURB, 0xa5);
	restart_unwatched(r);
	mallopt(M_PERTURB, 0);
	assert_int_equal(n_errors, 1);
	close_pair(p);
}

static uint64_t signals;

static void on_signals(struct weir_event *event, uint64_t n, void *arg)
{
	(void)event, (void)arg;
	assert_true(n > 0);
	signals += n;
}

static void event_that_cannot_be_watched_is_not_called(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_event *event;

	signals = 0;
	assert_int_equal(weir_event_create(&event, r, on_signals, NULL), 0);
	restart_unwatched(r);
	weir_event_signal(event);
	some_turns(r, 3);
	assert_int_equal(signals, 0);
	/* The next start watches it. */
	weir_reactor_stop(r);
	assert_int_equal(weir_reactor_run(r), 0);
	assert_int_equal(weir_reactor_start(r), 0);
	UNTIL(r, signals);
	assert_int_equal(signals, 1);
	weir_event_destroy(event);
}

int main(void)
{
	static const struct harness_case cases[] = {
		CASE(the_scenario_works),
		CASE(reactor_survives_every_fault_point),
		CASE(a_close_closes_whatever_fails),
		CASE(old_kernel_is_told_before_the_start),
		CASE(old_kernel_has_chmod_of_all_but_links),
		CASE(callback_in_a_start_may_destroy_all_watches),
		CASE(event_that_cannot_be_watched_is_not_called),
	};

	return harness_run(cases, N_OF(cases));
}
