/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Memory and system calls that fail outside the library: in libev, in liburing,
 * in libc.  Neither ends the process, and operations need no memory at all.
 */

#include "tests/support/alloc-fixture.h"
#include "tests/support/child-fixture.h"

#include <sys/resource.h>

#include <weir/socket.h>
#include <weir/watch.h>

#define N_PAIRS 1500	/* Their descriptors are below 4096. */
#define N_ALLOCATIONS 1000
#define FEW 8

static void create_refuses_whichever_allocation_fails(void **state)
{
	struct weir_reactor_opts opts = {
		.size = sizeof(opts),
		.backend = backend_of(*state),
	};
	struct weir_reactor *r = NULL;
	int n, err = -ENOMEM;

	need_counts();
	for (n = 0; err && n < N_ALLOCATIONS; n++) {
		atomic_store(&allocations_left, n);
		err = weir_reactor_create(&r, &opts);
		atomic_store(&allocations_left, -1);
		if (err)
			assert_int_equal(err, -ENOMEM);
	}
	assert_int_equal(err, 0);
	assert_int_equal(weir_reactor_destroy(r), 0);
}

struct pairs {
	int n;
	int fd[N_PAIRS][2];
	struct rec recv[N_PAIRS], poll[N_PAIRS];
	char byte[N_PAIRS];
};

static void raise_limit(rlim_t n)
{
	struct rlimit limit;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	if (limit.rlim_cur >= n)
		return;
	if (limit.rlim_max < n)
		skip_because("the limit of descriptors is too low");
	limit.rlim_cur = n;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

static struct pairs *pairs_open(int n)
{
	struct pairs *p = calloc(1, sizeof(*p));
	int i;

	assert_non_null(p);
	p->n = n;
	for (i = 0; i < n; i++) {
		socket_pair(p->fd[i]);
		rec_init(&p->recv[i]);
		rec_init(&p->poll[i]);
	}
	return p;
}

static void pairs_close(struct pairs *p)
{
	int i;

	for (i = 0; i < p->n; i++)
		close_pair(p->fd[i]);
	free(p);
}

/* All wait at once; then all end.  A byte is left for the polls.  Returns
 * whether all did. */
static bool all_receive(struct weir_reactor *r, struct pairs *p)
{
	int i, turns, ended = 0;

	for (i = 0; i < p->n; i++) {
		if (weir_recv(r, &p->recv[i].op, p->fd[i][0], &p->byte[i], 1,
			      0) ||
		    weir_poll(r, &p->poll[i].op, p->fd[i][0], WEIR_READABLE))
			return false;
	}
	weir_reactor_turn(r, 0);
	for (i = 0; i < p->n; i++)
		if (write(p->fd[i][1], "xy", 2) != 2)
			return false;
	for (turns = 0; ended < p->n && turns < TURNS_MAX; turns++) {
		if (weir_reactor_turn(r, WEIR_SEC) < 0)
			return false;
		for (ended = 0; ended < p->n && p->recv[ended].calls &&
				p->poll[ended].calls;)
			ended++;
	}
	return ended == p->n;
}

static void operations_allocate_nothing_from_the_first_on(void **state)
{
	struct weir_reactor *r;
	struct pairs *p;
	unsigned int before, made;
	bool done;
	int i;

	need_counts();
	raise_limit(4096);
	r = start_reactor(state);
	p = pairs_open(N_PAIRS);
	before = atomic_load(&allocations);
	atomic_store(&allocations_left, 0);
	done = all_receive(r, p);
	atomic_store(&allocations_left, -1);
	made = atomic_load(&allocations) - before;
	assert_true(done);
	for (i = 0; i < p->n; i++)
		assert_int_equal(p->recv[i].res, 1);
	assert_int_equal(made, 0);
	pairs_close(p);
}

/* Beyond what ev has reserved, an operation that waits may need memory. */
static void operation_on_high_descriptor_ends_or_waits(void **state)
{
	struct weir_reactor *r;
	struct rec rec;
	char byte;
	int sv[2], fd, err;

	need_counts();
	raise_limit(16384);
	r = start_reactor(state);
	socket_pair(sv);
	fd = fcntl(sv[0], F_DUPFD_CLOEXEC, 16000);
	assert_true(fd >= 16000);
	rec_init(&rec);
	atomic_store(&allocations_left, 0);
	err = weir_recv(r, &rec.op, fd, &byte, 1, 0);
	weir_reactor_turn(r, 0);
	atomic_store(&allocations_left, -1);
	assert_int_equal(err, 0);
	if (backend_of(*state) == WEIR_BACKEND_EV) {
		assert_int_equal(rec.calls, 1);
		assert_int_equal(rec.res, -ENOMEM);
		rec_init(&rec);
		STARTS(weir_recv(r, &rec.op, fd, &byte, 1, 0));
	}
	some_turns(r, 2);
	assert_int_equal(write(sv[1], "x", 1), 1);
	assert_int_equal(finish(r, &rec), 1);
	close(fd);
	close_pair(sv);
}

#ifdef HAVE_LIBEV
static struct weir_reactor *ev_reactor(void)
{
	struct weir_reactor_opts opts = {
		.size = sizeof(opts),
		.backend = WEIR_BACKEND_EV,
		.spin_ns = WEIR_SPIN_NONE,
	};
	struct weir_reactor *r = NULL;

	return weir_reactor_create(&r, &opts) ? NULL : r;
}

static int without_epoll_wait(uint64_t timeout_ns)
{
	struct weir_reactor *r = ev_reactor();
	static struct rec rec;
	static char byte;
	int sv[2];

	CHECK(r && !socketpair(AF_UNIX, SOCK_STREAM, 0, sv));
	rec_init(&rec);
	CHECK(!weir_recv(r, &rec.op, sv[0], &byte, 1, 0));
#ifdef SYS_epoll_wait
	if (forbid_call(SYS_epoll_wait, EPERM))
		return 77;
#endif
	if (forbid_call(SYS_epoll_pwait, EPERM))
		return 77;
	CHECK(weir_reactor_turn(r, timeout_ns) == -EPERM);
	CHECK(strstr(weir_why(), "ev"));
	/* What needs no epoll goes on: the drain of a destroy, too. */
	CHECK(!weir_reactor_destroy(r));
	CHECK(rec.calls == 1 && rec.res == -ECANCELED);
	return 0;
}

static int without_epoll_wait_for_ever(void)
{
	return without_epoll_wait(WEIR_FOREVER);
}

static int without_epoll_wait_for_a_time(void)
{
	return without_epoll_wait(WEIR_SEC);
}

/* A mistake of the program's, which is an error and not the end of it. */
static int with_closed_descriptor(void)
{
	struct weir_reactor *r = ev_reactor();
	static struct rec rec;
	static char byte;
	int sv[2], i;

	CHECK(r && !socketpair(AF_UNIX, SOCK_STREAM, 0, sv));
	rec_init(&rec);
	CHECK(!weir_recv(r, &rec.op, sv[0], &byte, 1, 0));
	close(sv[0]);
	for (i = 0; i < FEW && !rec.calls; i++)
		CHECK(weir_reactor_turn(r, WEIR_SEC) >= 0);
	CHECK(rec.calls == 1 && rec.res == -EBADF);
	CHECK(!weir_reactor_destroy(r));
	return 0;
}

static void need_ev(void **state)
{
	if (backend_of(*state) != WEIR_BACKEND_EV)
		skip_because("only libev has an epoll set");
}

static void operation_on_closed_descriptor_ends(void **state)
{
	need_ev(state);
	assert_int_equal(in_child(with_closed_descriptor), 0);
}

static void turn_returns_error_of_refused_epoll_wait(void **state)
{
	need_ev(state);
	assert_int_equal(in_child(without_epoll_wait_for_ever), 0);
	assert_int_equal(in_child(without_epoll_wait_for_a_time), 0);
}

/*
 * A file that was closed here and lives on elsewhere has libev make a new epoll
 * set.  While it cannot, turns fail; then all goes on.
 */
static int without_epoll_create(void)
{
	struct weir_reactor *r = ev_reactor();
	static struct rec old, rec;
	static char byte;
	struct rlimit limit, low;
	int sv[2], next[2], keep, i;

	CHECK(r && !socketpair(AF_UNIX, SOCK_STREAM, 0, sv) &&
	      !socketpair(AF_UNIX, SOCK_STREAM, 0, next));
	rec_init(&old);
	rec_init(&rec);
	CHECK(!weir_recv(r, &old.op, sv[0], &byte, 1, 0));
	CHECK(weir_reactor_turn(r, 0) == 0);
	CHECK(!weir_op_cancel(&old.op));
	CHECK(weir_reactor_turn(r, 0) == 1);
	keep = dup(sv[0]);
	CHECK(keep >= 0 && dup2(next[0], sv[0]) == sv[0]);
	CHECK(!weir_recv(r, &rec.op, sv[0], &byte, 1, 0));
	CHECK(write(sv[1], "x", 1) == 1);

	CHECK(!getrlimit(RLIMIT_NOFILE, &limit));
	low = limit;
	low.rlim_cur = 3;
	CHECK(!setrlimit(RLIMIT_NOFILE, &low));
	for (i = 0; i < FEW && weir_reactor_turn(r, WEIR_MSEC) >= 0; i++)
		;
	CHECK(i < FEW);
	CHECK(weir_reactor_turn(r, WEIR_MSEC) == -EMFILE);
	CHECK(weir_reactor_turn(r, WEIR_FOREVER) == -EMFILE);
	CHECK(!setrlimit(RLIMIT_NOFILE, &limit));

	CHECK(weir_reactor_turn(r, WEIR_MSEC) >= 0);
	CHECK(write(next[1], "y", 1) == 1);
	for (i = 0; i < FEW && !rec.calls; i++)
		CHECK(weir_reactor_turn(r, WEIR_SEC) >= 0);
	CHECK(rec.res == 1 && byte == 'y');
	CHECK(!weir_reactor_destroy(r));
	return 0;
}

static void turns_fail_until_epoll_set_can_be_made_anew(void **state)
{
	need_ev(state);
	assert_int_equal(in_child(without_epoll_create), 0);
}
#endif

int main(void)
{
	static const struct harness_case cases[] = {
		REAL(create_refuses_whichever_allocation_fails),
		REAL(operations_allocate_nothing_from_the_first_on),
		REAL(operation_on_high_descriptor_ends_or_waits),
#ifdef HAVE_LIBEV
		REAL(operation_on_closed_descriptor_ends),
		REAL(turn_returns_error_of_refused_epoll_wait),
		REAL(turns_fail_until_epoll_set_can_be_made_anew),
#endif
	};

	return harness_run(cases, N_OF(cases));
}
